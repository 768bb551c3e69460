//! Attributing changes to field managers, for every kind of write.

use std::collections::HashSet;
use std::sync::LazyLock;

use api::meta;
use schema::fieldmanager::{self, ApplyInput, FieldSet, SameObject, TypeContext, UpdateInput};
use serde_json::Value;

use crate::call::Call;
use crate::refusal::Refusal;
use crate::registry::ResourceScope;
use crate::registry::scope::Conversion;
use crate::strategy::endpoint::Endpoint;
use crate::strategy::version::StatusMode;

/// What the main endpoint of an object with separate status never writes.
static STATUS: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::from_field_names(&[&["status"]]));
static NOTHING: LazyLock<FieldSet> = LazyLock::new(FieldSet::default);

/// Attributes all fields of a new object to its maker.
pub(super) fn track_create(call: &Call<'_>, object: &mut Value, field_manager: &str) {
    track(call, None, object, field_manager);
}

/// Attributes what an update changes.
pub(super) fn track_update(call: &Call<'_>, live: &Value, object: &mut Value, field_manager: &str) {
    track(call, Some(live), object, field_manager);
}

fn track(call: &Call<'_>, live: Option<&Value>, object: &mut Value, field_manager: &str) {
    let manager = call.manager(field_manager);
    let now = meta::time_now_text(call.context.now);
    let versions = versions(call.scope);
    let context = context(call, &versions);
    let input = UpdateInput {
        context,
        live,
        new: object,
        manager: &manager,
        now: &now,
    };
    if let Err(error) = fieldmanager::update(input) {
        // The object is validated later, and refused for what is wrong with it; its owners are not worth a refusal.
        tracing::debug!(error = %error, "cannot attribute fields to a field manager");
    }
}

/// Applies a configuration to the live object; answers the whole object, its owners set.
pub(super) fn apply(
    call: &Call<'_>,
    live: Option<&Value>,
    config: Value,
    manager: &str,
    force: Force,
) -> Result<Value, Refusal> {
    if let Some(path) = call.scope.typing().undeclared(&call.scope.version, &config) {
        return Err(api::Status::from(fieldmanager::undeclared(&config, &path)).into());
    }
    let now = meta::time_now_text(call.context.now);
    let versions = versions(call.scope);
    let context = context(call, &versions);
    let force = force == Force::Yes;
    let outcome = fieldmanager::apply(ApplyInput {
        context,
        live,
        config,
        manager,
        force,
        now: &now,
    });
    outcome
        .map(|outcome| outcome.object)
        .map_err(|error| api::Status::from(error).into())
}

/// Whether an apply takes fields away from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Force {
    /// It does.
    Yes,
    /// It is refused where it would.
    No,
}

/// Undoes changes of times where nothing else changed, so that such a write is none.
pub(super) fn keep_times_where_nothing_changed(object: &mut Value, live: &Value) {
    fieldmanager::keep_times_if_unchanged(live, object);
}

/// Leaves one reference of several to the same owner.
pub(super) fn drop_repeated_owners(call: &Call<'_>, object: &mut Value) {
    let Some(Value::Array(owners)) = object
        .get_mut("metadata")
        .and_then(|metadata| metadata.get_mut("ownerReferences"))
    else {
        return;
    };
    let mut seen: HashSet<String> = HashSet::new();
    let mut repeated = Vec::new();
    owners.retain(|owner| {
        // Canonical JSON is unique, since maps are sorted.
        let fresh = seen.insert(owner.to_string());
        if !fresh {
            repeated.push(owner["uid"].as_str().unwrap_or_default().to_owned());
        }
        fresh
    });
    if !repeated.is_empty() {
        call.context.warn(format!(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may \
             reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            repeated.join(", ")
        ));
    }
}

fn context<'a>(call: &Call<'a>, versions: &'a SameObject<'a>) -> TypeContext<'a> {
    let scope: &ResourceScope = call.scope;
    let several = versions.versions.len() > 1;
    TypeContext {
        api_version: &scope.version.api_version,
        kind: &scope.kind.gvk.kind,
        schema: &scope.version.schema,
        model: scope.typing().model(),
        subresource: call.endpoint.name(),
        reset: reset_fields(scope, call.endpoint),
        converter: if several { Some(versions) } else { None },
    }
}

/// The versions between which owners are compared. Versions that need more than another name are left to themselves:
/// an owner at another of them is forgotten at the next write.
fn versions(scope: &ResourceScope) -> SameObject<'_> {
    let versions = match &scope.rules.conversion {
        Conversion::None => scope
            .rules
            .versions
            .iter()
            .map(|version| (version.api_version.clone(), version.schema.as_ref()))
            .collect(),
        Conversion::Renaming(_) | Conversion::Webhook(_) => Vec::new(),
    };
    SameObject { versions }
}

fn reset_fields(scope: &ResourceScope, endpoint: Endpoint) -> &'static FieldSet {
    match (scope.version.status, endpoint) {
        (StatusMode::Subresource, Endpoint::Status) => scope.strategy().status_metadata.reset(),
        (StatusMode::Subresource, Endpoint::Main | Endpoint::PodPart | Endpoint::Finalize) => {
            &STATUS
        }
        _ => &NOTHING,
    }
}
