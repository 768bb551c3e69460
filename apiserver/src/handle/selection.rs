//! Which objects of a collection are meant.
//!
//! Labels and the two fields of metadata are judged on the stored bytes; only other fields need the object parsed.

use api::query::ListOptions;
use api::selector::{FieldSelector, Selector};
use api::{ClusterScope, Status};
use serde_json::Value;
use storage::{Entry, KeyRange};

use super::convert;
use super::output::corrupt;
use crate::call::{Call, Each, Lenses};
use crate::objects::{Head, head};
use crate::refusal::Refusal;
use crate::registry::ResourceScope;
use crate::strategy::version::SelectableField;
use crate::terms;

/// What is selected.
#[derive(Debug, Clone)]
pub(super) struct Selection {
    /// How each cluster's objects are read, over all of them.
    pub(super) each: Option<Each>,
    labels: Selector,
    fields: FieldSelector,
    /// The name in the path of a watch of one object.
    name: Option<String>,
    /// A namespace over all clusters cannot be a range.
    namespace: Option<String>,
    /// The keys that can hold what is selected.
    pub(super) range: KeyRange,
    /// The terms of which every selected object of one cluster has one in each set.
    pub(super) holding: Vec<Vec<u64>>,
    needs_object: bool,
}

const NAME: &str = "metadata.name";
const NAMESPACE: &str = "metadata.namespace";

// === impl Selection ===

impl Selection {
    /// Takes the selection from options and path.
    ///
    /// # Errors
    /// 400 for a field that the resource cannot be selected by, and for fields beside a path that names an object, unless one is that name.
    pub(super) fn new(call: &Call<'_>, options: &ListOptions) -> Result<Self, Refusal> {
        let scope = call.scope;
        let mut needs_object = false;
        // Over all clusters, those that do not know a field have nothing to show.
        let mut each = call.each.cloned();
        for requirement in options.field_selector.requirements() {
            let known = requirement.path == NAME
                || (requirement.path == NAMESPACE && scope.kind.namespaced);
            let mut selectable = || {
                if let Some(each) = &mut each {
                    return each.select_by(&requirement.path);
                }
                let mut fields = scope.version.selectable.iter();
                fields.any(|field| field.label == requirement.path)
            };
            if !known && !selectable() {
                return Err(unknown_field(scope, &requirement.path).into());
            }
            needs_object |= !known;
        }
        let path_name = call.info.names_object.then(|| call.info.name.clone());
        let fields = options.field_selector.clone();
        if let (Some(name), false) = (&path_name, fields.is_everything())
            && fields.exact(NAME) != Some(name)
        {
            let message = "fieldSelector metadata.name doesn't match requested name";
            return Err(Status::bad_request(message).into());
        }
        let range = range(call, path_name.as_deref().or(fields.exact(NAME)));
        let namespace = match &call.info.cluster {
            ClusterScope::All if !call.namespace().is_empty() => Some(call.namespace().to_owned()),
            _ => None,
        };
        let labels = options.label_selector.clone();
        let holding = match &call.info.cluster {
            ClusterScope::One(cluster) => terms::wanted(scope, cluster, (&labels, &fields)),
            ClusterScope::All => Vec::new(),
        };
        Ok(Self {
            each,
            labels,
            fields,
            name: path_name,
            namespace,
            range,
            holding,
            needs_object,
        })
    }

    /// Whether every key of the range is selected, so that nothing must be looked at.
    pub(super) fn is_everything(&self) -> bool {
        self.labels.is_everything()
            && self.fields.is_everything()
            && self.name.is_none()
            && self.namespace.is_none()
    }

    /// Whether every key of the range is shown.
    pub(super) fn is_whole(&self) -> bool {
        self.is_everything() && self.each.is_none()
    }

    /// Whether something is hidden from the caller, down to how much it is.
    pub(super) fn hides(&self) -> bool {
        self.each.as_ref().is_some_and(Each::is_judged)
    }

    /// How the objects of the range are read.
    pub(super) fn lenses<'a>(&'a self, given: &'a ResourceScope) -> Lenses<'a> {
        Lenses::new(self.each.as_ref(), given)
    }

    /// The parts of the range in which there may be something to show, in the order of keys.
    pub(super) fn parts_of(&self, scope: &ResourceScope, range: &KeyRange) -> Vec<KeyRange> {
        match &self.each {
            None => vec![range.clone()],
            Some(each) => each.parts_of(range, &scope.rules.prefix),
        }
    }

    /// Whether clients gave a selector, which hides how many objects remain.
    pub(super) fn is_by_client(&self) -> bool {
        !self.labels.is_everything() || !self.fields.is_everything()
    }

    /// Brings entries into the version of the scope, where they must be read to be selected.
    ///
    /// # Errors
    /// Those of [`convert::ready`].
    pub(super) async fn readable(
        &self,
        call: &Call<'_>,
        entries: Vec<Entry>,
    ) -> Result<Vec<Entry>, Refusal> {
        if !self.needs_object {
            return Ok(entries);
        }
        convert::ready(call.shared, call.scope, entries, call.context.deadline).await
    }

    /// Whether a stored object is selected.
    pub(super) fn matches(&self, scope: &ResourceScope, entry: &Entry) -> Result<bool, Refusal> {
        if self.is_everything() {
            return Ok(true);
        }
        let head = head(entry.value()).ok_or_else(corrupt)?;
        if !self.matches_head(&head) {
            return Ok(false);
        }
        if !self.needs_object {
            return Ok(self.fields.matches(|path| metadata_field(&head, path)));
        }
        let object = convert::served_value(scope, entry)?;
        let found: Vec<(String, String)> = scope
            .version
            .selectable
            .iter()
            .map(|field| (field.label.clone(), text_at(&object, field)))
            .collect();
        Ok(self.fields.matches(|path| {
            let selectable = found.iter().find(|(label, _)| label == path);
            selectable.map_or_else(|| metadata_field(&head, path), |(_, text)| text.as_str())
        }))
    }

    fn matches_head(&self, head: &Head<'_>) -> bool {
        self.labels.matches(&head.labels)
            && self.name.as_deref().is_none_or(|name| name == head.name)
            && self
                .namespace
                .as_deref()
                .is_none_or(|namespace| namespace == head.namespace)
    }
}

/// The range of the path, or the one key that can hold a name.
fn range(call: &Call<'_>, name: Option<&str>) -> KeyRange {
    let prefix = &call.scope.rules.prefix;
    let namespace = call.namespace();
    if let (Some(name), ClusterScope::One(cluster)) = (name, &call.info.cluster)
        && (!call.scope.kind.namespaced || !namespace.is_empty())
        && api::validation::is_path_segment(name).is_empty()
        && !name.is_empty()
    {
        return KeyRange::exact(prefix.key(cluster, namespace, name));
    }
    prefix.range(
        &call.info.cluster,
        Some(namespace).filter(|namespace| !namespace.is_empty()),
    )
}

fn metadata_field<'h>(head: &'h Head<'_>, path: &str) -> &'h str {
    match path {
        NAME => &head.name,
        NAMESPACE => &head.namespace,
        _ => "",
    }
}

/// A scalar as text, as Go prints it.
fn text_at(object: &Value, field: &SelectableField) -> String {
    let mut path = field.path.iter();
    let found = path.try_fold(object, |value, name| value.get(name));
    match found {
        None | Some(Value::Null) => field.unset.to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

fn unknown_field(scope: &ResourceScope, path: &str) -> Status {
    Status::bad_request(scope.typing().unknown_label(&scope.version, path))
}
