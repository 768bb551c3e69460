//! The way from client-side to server-side apply: what `kubectl apply` left in its annotation.
//!
//! Only the manager `kubectl` takes it: it owns what the annotation says that it applied, and keeps the annotation up
//! to date, so that it can go back.
//!
//! Source: `apimachinery/pkg/util/managedfields/internal/lastappliedmanager.go`, `lastappliedupdater.go`;
//! api-compat 3.6.

use dialect::json;
use serde_json::{Map, Value};

use super::collect;
use super::compare::compare;
use super::managed::{ManagedFields, ManagerIdentity};
use super::operate::{self, Conflict, Failure, Ownership, Scope};
use super::set::FieldSet;
use super::typed::{self, Duplicates};

/// The manager whose apply succeeds client-side apply.
const KUBECTL: &str = "kubectl";
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// What all annotations of an object may hold.
const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// A configuration that `kubectl` applies, kept for its annotation.
#[derive(Debug)]
pub(crate) struct Applied(Value);

// === impl Applied ===

impl Applied {
    /// Keeps the configuration, if there is an annotation that it could have to do with.
    pub(crate) fn of(manager: &str, live: &Value, config: &Value) -> Option<Self> {
        let concerned =
            manager == KUBECTL && (annotation(live).is_some() || annotation(config).is_some());
        concerned.then(|| Self(config.clone()))
    }

    /// Writes the configuration to the annotation of the merged object, if it has one, and says whether it changed.
    pub(crate) fn refresh(self, object: &mut Value) -> bool {
        if annotation(object).is_none() {
            return false;
        }
        let Some(annotations) = annotations_mut(object) else {
            return false;
        };
        let before = annotations.get(ANNOTATION).cloned();
        annotations.insert(ANNOTATION.to_owned(), Value::String(self.into_text()));
        let bytes: usize = annotations
            .iter()
            .map(|(key, value)| key.len().saturating_add(value.as_str().map_or(0, str::len)))
            .fold(0, usize::saturating_add);
        if bytes > ANNOTATIONS_BYTES_MAX {
            annotations.remove(ANNOTATION);
        }
        annotations.get(ANNOTATION) != before.as_ref()
    }

    fn into_text(mut self) -> String {
        if let Some(annotations) = annotations_mut(&mut self.0) {
            annotations.remove(ANNOTATION);
        }
        let mut encoded = String::new();
        json::push(&mut encoded, &self.0);
        encoded.push('\n');
        encoded
    }
}

/// Applies, and forgives conflicts on fields that the annotation says were applied as they are now.
pub(crate) fn apply(
    scope: Scope<'_>,
    live: &Value,
    config: Value,
    managed: ManagedFields,
    identity: &ManagerIdentity,
) -> Result<(Option<Value>, ManagedFields), Failure> {
    let first = operate::apply(
        scope,
        live,
        config.clone(),
        managed.clone(),
        identity,
        Ownership::Respect,
    );
    let conflicts = match first {
        Ok(applied) => return Ok((applied.object, applied.managers)),
        Err(Failure::Conflicts(conflicts)) => conflicts,
        Err(other) => return Err(other),
    };
    let Some(forgiven) = applied_and_unchanged(scope, live) else {
        return Err(Failure::Conflicts(conflicts));
    };
    let left: Vec<Conflict> = conflicts
        .into_iter()
        .filter_map(|mut conflict| {
            conflict.paths.retain(|path| !forgiven.contains(path));
            (!conflict.paths.is_empty()).then_some(conflict)
        })
        .collect();
    if !left.is_empty() {
        return Err(Failure::Conflicts(left));
    }
    let forced = operate::apply(scope, live, config, managed, identity, Ownership::Take)?;
    Ok((forced.object, forced.managers))
}

/// The fields that the annotation holds and the object has equal.
fn applied_and_unchanged(scope: Scope<'_>, live: &Value) -> Option<FieldSet> {
    let applied: Value = serde_json::from_str(annotation(live)?).ok()?;
    if applied.get("apiVersion").and_then(Value::as_str) != Some(scope.api_version) {
        return None;
    }
    typed::check(scope.place, live, Duplicates::Refused).ok()?;
    typed::check(scope.place, &applied, Duplicates::Refused).ok()?;
    let fields = collect::field_set(scope.place, &applied);
    let comparison = compare(scope.place, &applied, live, scope.model);
    Some(
        fields
            .difference(&comparison.modified)
            .difference(&comparison.added)
            .difference(&comparison.removed),
    )
}

fn annotation(object: &Value) -> Option<&str> {
    let annotations = object.get("metadata")?.get("annotations")?;
    annotations
        .get(ANNOTATION)?
        .as_str()
        .filter(|text| !text.is_empty())
}

fn annotations_mut(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object
        .get_mut("metadata")?
        .get_mut("annotations")?
        .as_object_mut()
}
