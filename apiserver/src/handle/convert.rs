//! Between the stored form of an object and the form in a served version.
//!
//! Most reads need nothing of this: what was stored under the schema and in the version that is asked for is served
//! as it is. Otherwise the object is brought into the version, and pruned and defaulted under its schema, each time it
//! is read: a definition that changes rewrites nothing.
//!
//! Where a webhook converts, handlers ask it first ([`ready`], [`ready_event`]), and go on with entries that are what
//! they would be had they been stored in the version that is asked for.
//!
//! # Invariants
//! - A read over all clusters calls no webhook: an object that needs one is left out, or the webhook of one cluster could
//!   hold up what the others show.
//! - A controller calls no webhook ([`Reading::Stored`]).
//! - What webhooks make for one answer is bounded ([`READY_BYTES_MAX`]).
//!
//! Source: apiextensions-apiserver/pkg/apiserver/customresource_handler.go (schemaCoercingDecoder, ..Converter).

mod webhook;

use std::sync::Arc;

use api::crd::ConversionWebhook;
use api::{LogicalCluster, Status, meta};
use bytes::Bytes;
use serde_json::Value;
use storage::{Entry, Event};
use tokio::time::Instant;

use crate::call::{Access, Call, Reading, Shared};
use crate::objects::{Encoded, RevisionSlot, encode, parse_key};
use crate::refusal::Refusal;
use crate::registry::ResourceScope;
use crate::registry::scope::Conversion;
use crate::strategy::version::VersionRules;

/// How many objects one call of a webhook converts at most, and how many bytes of them, unless a single one is larger. The
/// answer may be several times as long.
const BATCH_COUNT: usize = 256;
const BATCH_BYTES: usize = 512 * 1024;
/// The bytes of all objects that webhooks make for one answer.
const READY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The bytes of a stored object in the version of a scope.
pub(crate) fn served_bytes(scope: &ResourceScope, entry: &Entry) -> Result<Bytes, Refusal> {
    if scope.serves_as_stored(entry.tag(), entry.value()) {
        return Ok(entry.bytes());
    }
    let object = convert(scope, entry)?;
    Ok(encode(&object, RevisionSlot::Keep).bytes.into())
}

/// A stored object in the version of a scope.
pub(crate) fn served_value(scope: &ResourceScope, entry: &Entry) -> Result<Value, Refusal> {
    if scope.serves_as_stored(entry.tag(), entry.value()) {
        return parse(entry);
    }
    convert(scope, entry)
}

/// Brings entries into the version of a scope whose objects a webhook converts; others are left as they are.
///
/// # Errors
/// The webhook fails, or makes more than one answer may hold.
pub(crate) async fn ready(
    shared: &Shared,
    scope: &ResourceScope,
    mut entries: Vec<Entry>,
    deadline: Instant,
) -> Result<Vec<Entry>, Refusal> {
    let Conversion::Webhook(webhook) = &scope.rules.conversion else {
        return Ok(entries);
    };
    let is_other = |entry: &Entry| !entry.value().starts_with(&scope.version.lead);
    let mut others: Vec<&mut Entry> = entries.iter_mut().filter(|it| is_other(it)).collect();
    let (mut rest, mut made_bytes) = (others.as_mut_slice(), 0_usize);
    while !rest.is_empty() {
        let (some, behind) = rest.split_at_mut(batch_of(rest));
        let sent: Vec<Entry> = some.iter().map(|entry| Entry::clone(entry)).collect();
        let made = converted(shared, scope, webhook, &sent, deadline).await?;
        for (entry, made) in some.iter_mut().zip(made) {
            made_bytes = made_bytes.saturating_add(made.value().len());
            **entry = made;
        }
        if made_bytes > READY_BYTES_MAX {
            return Err(Status::too_large(READY_BYTES_MAX).into());
        }
        rest = behind;
    }
    Ok(entries)
}

/// Whether a webhook converts the objects of a scope, so that [`ready`] may ask it.
pub(crate) fn asks_webhook(scope: &ResourceScope) -> bool {
    matches!(scope.rules.conversion, Conversion::Webhook(_))
}

/// [`ready`] for one entry.
pub(crate) async fn ready_one(
    shared: &Shared,
    scope: &ResourceScope,
    entry: &Entry,
    deadline: Instant,
) -> Result<Entry, Refusal> {
    let ready = ready(shared, scope, vec![entry.clone()], deadline).await?;
    let mut ready = ready.into_iter();
    ready
        .next()
        .ok_or_else(|| Refusal::internal("an entry was lost"))
}

/// [`ready`] for the states of an event. The state before is needed where there is a selection.
pub(crate) async fn ready_event(
    shared: &Shared,
    scope: &ResourceScope,
    event: &Arc<Event>,
    with_previous: bool,
) -> Result<Arc<Event>, Refusal> {
    if !asks_webhook(scope) {
        return Ok(Arc::clone(event));
    }
    let previous = event.previous().filter(|_| with_previous);
    let states = [Some(event.entry()), previous];
    let states = states.into_iter().flatten().cloned().collect();
    let deadline = Instant::now() + webhook::TIMEOUT;
    let mut states = ready(shared, scope, states, deadline).await?.into_iter();
    let entry = states.next().unwrap_or_else(|| event.entry().clone());
    let previous = states.next().or_else(|| event.previous().cloned());
    Ok(Arc::new(event.in_form(entry, previous)))
}

/// How many of these entries are sent together.
fn batch_of(entries: &[&mut Entry]) -> usize {
    let mut bytes = 0_usize;
    let fitting = entries.iter().take(BATCH_COUNT).take_while(|entry| {
        bytes = bytes.saturating_add(entry.value().len());
        bytes <= BATCH_BYTES
    });
    fitting.count().max(1)
}

/// Has entries of one cluster converted by its webhook.
async fn converted(
    shared: &Shared,
    scope: &ResourceScope,
    webhook: &ConversionWebhook,
    entries: &[Entry],
    deadline: Instant,
) -> Result<Vec<Entry>, Refusal> {
    let Some(first) = entries.first() else {
        return Ok(Vec::new());
    };
    let cluster = cluster_of(first.key())?;
    let objects = entries.iter().map(|entry| as_stored(scope, entry));
    let objects = objects.collect::<Result<Vec<_>, _>>()?;
    let version = &scope.version;
    let (owner, api_version) = ((&cluster, webhook), version.api_version.as_str());
    let made = webhook::convert(shared, owner, objects, api_version, deadline).await?;
    let made = entries.iter().zip(made).map(|(entry, mut object)| {
        // As in Kubernetes, defaults are those of the version that was sent.
        scope.typing().coerce(&version.schema, &mut object);
        scope.typing().upgrade_stored(version, &mut object);
        let encoded = encode(&object, RevisionSlot::Keep);
        entry.in_form(&encoded.bytes, version.hash)
    });
    Ok(made.collect())
}

fn cluster_of(key: &[u8]) -> Result<LogicalCluster, Refusal> {
    let parts = parse_key(key).ok_or_else(|| Refusal::internal("a key of no object"))?;
    parts.cluster.parse().map_err(Refusal::internal)
}

/// A stored object in the version in which it is stored.
fn as_stored(scope: &ResourceScope, entry: &Entry) -> Result<Value, Refusal> {
    let mut object = parse(entry)?;
    if let Some(version) = rules_of(scope, meta::api_version(&object)) {
        scope.typing().coerce(&version.schema, &mut object);
        complete(scope, version, &mut object);
    }
    Ok(object)
}

/// The rules of a version, if objects are stored or served in it.
fn rules_of<'a>(scope: &'a ResourceScope, api_version: &str) -> Option<&'a VersionRules> {
    let mut all = std::iter::once(&scope.rules.storage).chain(&scope.rules.versions);
    all.find(|it| it.api_version == api_version)
        .map(Arc::as_ref)
}

/// The object that a write changes.
///
/// # Errors
/// It cannot be brought into the version of the scope.
pub(crate) async fn live(access: &Access<'_>, entry: &Entry) -> Result<Value, Refusal> {
    let scope = access.scope;
    if access.reading == Reading::Stored && matches!(scope.rules.conversion, Conversion::Webhook(_))
    {
        return as_stored(scope, entry);
    }
    let entry = ready_one(access.shared, scope, entry, access.deadline).await?;
    served_value(scope, &entry)
}

/// An object in the form in which it is stored.
pub(crate) struct StoredForm {
    /// `None` where it has that form already.
    changed: Option<Value>,
    /// The tag of its schema.
    pub(crate) tag: u64,
}

/// Brings an object into the form in which it is stored.
///
/// # Errors
/// It cannot be brought into the stored version.
pub(crate) async fn to_stored(
    access: &Access<'_>,
    key: &[u8],
    object: &Value,
) -> Result<StoredForm, Refusal> {
    let (scope, storage) = (access.scope, &access.scope.rules.storage);
    let said = meta::api_version(object);
    let (changed, tag) = match &scope.rules.conversion {
        _ if said == storage.api_version => (None, storage.hash),
        // It stays in the version that it has, under the schema of that.
        Conversion::Webhook(_) if access.reading == Reading::Stored => {
            (None, rules_of(scope, said).map_or(0, |it| it.hash))
        }
        Conversion::Webhook(webhook) => {
            let cluster = cluster_of(key)?;
            let (owner, objects) = ((&cluster, webhook.as_ref()), vec![object.clone()]);
            let (api_version, deadline) = (&storage.api_version, access.deadline);
            let made = webhook::convert(access.shared, owner, objects, api_version, deadline);
            let mut made = made.await?.into_iter().next().unwrap_or_default();
            scope.typing().coerce(&storage.schema, &mut made);
            (Some(made), storage.hash)
        }
        Conversion::None | Conversion::Renaming(_) => {
            let mut object = object.clone();
            change_version(scope, &mut object, storage)?;
            (Some(object), storage.hash)
        }
    };
    Ok(StoredForm { changed, tag })
}

fn convert(scope: &ResourceScope, entry: &Entry) -> Result<Value, Refusal> {
    let mut object = parse(entry)?;
    let (typing, version) = (scope.typing(), &scope.version);
    if meta::api_version(&object) == version.api_version {
        typing.coerce(&version.schema, &mut object);
    } else {
        change_version(scope, &mut object, version)?;
    }
    complete(scope, version, &mut object);
    Ok(object)
}

/// Fills in what an object lacks that was stored under another schema.
fn complete(scope: &ResourceScope, version: &VersionRules, object: &mut Value) {
    let typing = scope.typing();
    typing.upgrade_stored(version, object);
    // An object that was small under the schema it was written by is served with the defaults that fit: one object must
    // not keep its collection from being read.
    if let Err(error) = typing.default(version, object) {
        tracing::debug!(error = %error, "object is served without all of its defaults");
    }
}

/// Brings an object of a request into another served version of its resource.
///
/// # Errors
/// The version is not served, or there is no way to it.
pub(crate) async fn into_version(
    call: &Call<'_>,
    cluster: &LogicalCluster,
    object: &mut Value,
    version: &str,
) -> Result<(), Refusal> {
    let scope = call.scope;
    let mut versions = scope.rules.versions.iter();
    let rules = versions.find(|it| it.gvk.version == version);
    let rules = rules.ok_or_else(|| Refusal::internal(format!("no version {version}")))?;
    let Conversion::Webhook(webhook) = &scope.rules.conversion else {
        return change_version(scope, object, rules);
    };
    let (owner, objects) = ((cluster, webhook.as_ref()), vec![object.take()]);
    let deadline = call.context.deadline;
    let made = webhook::convert(call.shared, owner, objects, &rules.api_version, deadline).await?;
    *object = made.into_iter().next().unwrap_or_default();
    scope.typing().coerce(&rules.schema, object);
    Ok(())
}

/// Brings an object into another version of its resource, without a webhook.
fn change_version(
    scope: &ResourceScope,
    object: &mut Value,
    version: &VersionRules,
) -> Result<(), Refusal> {
    match &scope.rules.conversion {
        Conversion::None => {}
        Conversion::Renaming(stored) => (stored.convert)(object, &version.api_version),
        Conversion::Webhook(_) => {
            let text = format!(
                "conversion webhook for {}, Kind={} is not called for a request over all clusters",
                meta::api_version(object),
                scope.gvk().kind,
            );
            return Err(Status::internal(text).into());
        }
    }
    if let Some(fields) = object.as_object_mut() {
        fields.insert(
            "apiVersion".into(),
            Value::from(version.api_version.as_str()),
        );
    }
    scope.typing().coerce(&version.schema, object);
    Ok(())
}

fn parse(entry: &Entry) -> Result<Value, Refusal> {
    serde_json::from_slice(entry.value()).map_err(Refusal::internal)
}

/// Whether two objects differ outside of metadata (and status, where that is separate).
pub(crate) fn desired_differs(object: &Value, live: &Value, status_is_separate: bool) -> bool {
    let (Some(new), Some(old)) = (object.as_object(), live.as_object()) else {
        return true;
    };
    let counts = |name: &str| {
        !(matches!(name, "metadata" | "apiVersion" | "kind")
            || (status_is_separate && name == "status"))
    };
    let count = |fields: &serde_json::Map<String, Value>| {
        fields.iter().filter(|(name, _)| counts(name)).count()
    };
    count(new) != count(old)
        || new
            .iter()
            .filter(|(name, _)| counts(name))
            .any(|(name, value)| old.get(name) != Some(value))
}

// === impl StoredForm ===

impl StoredForm {
    /// The canonical bytes of the object that this is a form of.
    pub(crate) fn encode(&self, object: &Value) -> Encoded {
        encode(
            self.changed.as_ref().unwrap_or(object),
            RevisionSlot::Reserve,
        )
    }

    /// Takes away who owns which field.
    pub(crate) fn drop_managed_fields(&mut self) {
        if let Some(changed) = &mut self.changed {
            meta::remove_field(changed, "managedFields");
        }
    }
}
