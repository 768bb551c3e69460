//! What the audit event of a request says beside its head: noted on its way, by whoever knows it.
//!
//! # Invariants
//! - For a request that is not audited nothing is noted, encoded or allocated: its context has no trail. One that is audited only
//!   if its answer says so has one from then on.
//! - What a client can make arbitrarily large is bounded here.
//!
//! Source: `apiserver/pkg/audit/request.go`, `.../context.go`.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use api::meta;
use parking_lot::Mutex;
use serde_json::Value;

use super::UserInfo;

/// Bytes of all annotations of one event.
const ANNOTATIONS_BYTES_MAX: usize = 64 * 1024;
/// Bytes of an object in an event. Above it the event has [`TRUNCATED`] in its place.
pub(crate) const DOCUMENT_BYTES_MAX: usize = 4 << 20;
/// Bytes of a name in an object's metadata. Objects whose names are longer are refused; that a client sent one is recorded all the same.
const NAME_BYTES_MAX: usize = 253;
/// The annotation of an event that lacks an object because of its size. Source: `plugin/pkg/audit/truncate/truncate.go`.
const TRUNCATED: &str = "audit.k8s.io/truncated";

/// How much of a request is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Nothing.
    None,
    /// Who asks for what, and what came of it.
    Metadata,
    /// The object that was sent, too.
    Request,
    /// The object that was answered, too.
    RequestResponse,
}

/// Collects what the audit event of one request says.
#[derive(Debug)]
pub(crate) struct Trail {
    level: Level,
    managed_fields: ManagedFields,
    // Guards what is noted. Never held across an await; innermost lock.
    noted: Mutex<Noted>,
}

/// What becomes of `metadata.managedFields` in recorded objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ManagedFields {
    /// They are recorded.
    Kept,
    /// They are left out.
    Omitted,
}

/// What is known of a request by now.
#[derive(Debug, Default)]
pub(crate) struct Noted {
    /// Whether authorization allows it, and why.
    pub(crate) decision: Option<(bool, Cow<'static, str>)>,
    /// What admission says about it.
    pub(crate) annotations: BTreeMap<Cow<'static, str>, String>,
    /// As whom its sender acts.
    pub(crate) impersonated: Option<Arc<UserInfo>>,
    /// What the object that was sent is called.
    pub(crate) object: ObjectNames,
    /// What was sent, as compact JSON.
    pub(crate) request: Option<Vec<u8>>,
}

/// What an object is called by its own metadata.
#[derive(Debug, Default)]
pub(crate) struct ObjectNames {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) resource_version: String,
}

// === impl Level ===

impl Level {
    /// The word of the policy file.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Metadata => "Metadata",
            Self::Request => "Request",
            Self::RequestResponse => "RequestResponse",
        }
    }
}

// === impl Trail ===

impl Trail {
    pub(crate) fn new(level: Level, managed_fields: ManagedFields) -> Self {
        Self {
            level,
            managed_fields,
            noted: Mutex::default(),
        }
    }

    /// How much is recorded.
    pub(crate) const fn level(&self) -> Level {
        self.level
    }

    /// About how many bytes are noted.
    pub(crate) fn bytes(&self) -> usize {
        let noted = self.noted.lock();
        let annotations = noted.annotations.iter();
        let annotations: usize = annotations
            .map(|(key, value)| key.len() + value.len())
            .sum();
        size_of::<Noted>() + annotations + noted.request.as_ref().map_or(0, Vec::len)
    }

    /// Notes the object that a client sent.
    pub(crate) fn note_object(&self, object: &Value) {
        let names = ObjectNames {
            namespace: cut(meta::namespace(object)),
            name: cut(meta::name(object)),
            uid: cut(meta::uid(object)),
            resource_version: cut(meta::resource_version(object)),
        };
        self.noted.lock().object = names;
        self.note_document(object);
    }

    /// Notes what a client sent that is no object: a patch, or the options of a deletion.
    pub(crate) fn note_document(&self, document: &Value) {
        if self.level < Level::Request {
            return;
        }
        let text = self.text_of(document);
        self.noted.lock().request = text;
    }

    /// A document as it is recorded: compact JSON. `None` where it is too large, which is noted.
    pub(crate) fn text_of(&self, document: &Value) -> Option<Vec<u8>> {
        let text = match self.managed_fields {
            ManagedFields::Kept => serde_json::to_vec(document),
            ManagedFields::Omitted => serde_json::to_vec(&without_managed_fields(document.clone())),
        };
        let text = text.ok()?;
        if text.len() > DOCUMENT_BYTES_MAX {
            self.note_truncated();
            return None;
        }
        Some(text)
    }

    /// Whether objects are recorded as they are.
    pub(crate) fn keeps_managed_fields(&self) -> bool {
        self.managed_fields == ManagedFields::Kept
    }

    /// Notes that something was left out because of its size.
    pub(crate) fn note_truncated(&self) {
        let mut noted = self.noted.lock();
        noted
            .annotations
            .insert(TRUNCATED.into(), "true".to_owned());
    }

    /// Notes as whom the sender acts.
    pub(crate) fn note_impersonated(&self, user: &Arc<UserInfo>) {
        self.noted.lock().impersonated = Some(Arc::clone(user));
    }

    /// Notes whether the request may be done, and why.
    pub(crate) fn note_decision(&self, allowed: bool, reason: Cow<'static, str>) {
        self.noted.lock().decision = Some((allowed, reason));
    }

    /// Adds an annotation. Another value of the same key stands behind the first; what would make the event too long is left
    /// out.
    pub(crate) fn annotate(&self, key: String, value: String) {
        let annotations = &mut self.noted.lock().annotations;
        let bytes = |(key, value): (&Cow<'_, str>, &String)| key.len() + value.len();
        let used: usize = annotations.iter().map(bytes).sum();
        if used + key.len() + value.len() > ANNOTATIONS_BYTES_MAX {
            return;
        }
        let known = annotations.entry(key.into()).or_default();
        if known.is_empty() {
            *known = value;
        } else if !known.split(", ").any(|it| it == value) {
            *known = format!("{known}, {value}");
        }
    }

    /// Reads what is known by now.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Noted) -> T) -> T {
        read(&self.noted.lock())
    }
}

/// The beginning of a name that nobody has checked yet.
fn cut(name: &str) -> String {
    let end = name.floor_char_boundary(NAME_BYTES_MAX);
    name.get(..end).unwrap_or_default().to_owned()
}

/// An object, or the objects of a list or table, without who owns their fields.
fn without_managed_fields(mut document: Value) -> Value {
    let remove = |object: &mut Value| {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
    };
    remove(&mut document);
    for (list, within) in [("items", None), ("rows", Some("object"))] {
        let entries = document.get_mut(list).and_then(Value::as_array_mut);
        for entry in entries.into_iter().flatten() {
            match within {
                None => remove(entry),
                Some(field) => {
                    if let Some(object) = entry.get_mut(field) {
                        remove(object);
                    }
                }
            }
        }
    }
    document
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_noted_as_far_as_the_level_goes() {
        let object = json!({
            "kind": "ConfigMap",
            "metadata": {"name": "a", "uid": "u", "managedFields": [{"manager": "m"}]},
        });
        for (level, wants) in [
            (Level::Metadata, false),
            (Level::Request, true),
            (Level::RequestResponse, true),
        ] {
            let trail = Trail::new(level, ManagedFields::Omitted);
            trail.note_object(&object);
            trail.read(|noted| {
                assert_eq!(
                    (noted.object.name.as_str(), noted.object.uid.as_str()),
                    ("a", "u")
                );
                let text = noted.request.as_deref();
                let want = br#"{"kind":"ConfigMap","metadata":{"name":"a","uid":"u"}}"#;
                assert_eq!(text, wants.then_some(want.as_slice()), "{level:?}");
            });
        }
    }

    #[test]
    fn names_that_nobody_has_checked_are_cut() {
        let trail = Trail::new(Level::Metadata, ManagedFields::Kept);
        let long = "é".repeat(1 << 20);
        trail.note_object(&json!({"metadata": {
            "namespace": long, "name": long, "uid": long, "resourceVersion": long,
        }}));
        let want = "é".repeat(126);
        trail.read(|noted| {
            let names = &noted.object;
            for name in [
                &names.namespace,
                &names.name,
                &names.uid,
                &names.resource_version,
            ] {
                assert_eq!(*name, want);
            }
        });
    }

    #[test]
    fn managed_fields_are_taken_out_of_lists_and_tables() {
        let owned = json!({"metadata": {"name": "a", "managedFields": []}});
        let bare = json!({"metadata": {"name": "a"}});
        for (document, want) in [
            (json!({"items": [owned, 1]}), json!({"items": [bare, 1]})),
            (
                json!({"rows": [{"object": owned}, {}]}),
                json!({"rows": [{"object": bare}, {}]}),
            ),
            (json!([owned]), json!([owned])),
        ] {
            assert_eq!(without_managed_fields(document.clone()), want, "{document}");
        }
    }

    #[test]
    fn what_is_too_large_is_left_out_and_told() {
        let trail = Trail::new(Level::Request, ManagedFields::Kept);
        trail.note_document(&json!("x".repeat(DOCUMENT_BYTES_MAX)));
        trail.annotate("k".to_owned(), "v".repeat(ANNOTATIONS_BYTES_MAX));
        trail.read(|noted| {
            assert_eq!(noted.request, None);
            assert_eq!(
                noted.annotations,
                [(TRUNCATED.into(), "true".to_owned())].into()
            );
        });
    }
}
