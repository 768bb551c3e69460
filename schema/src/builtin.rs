//! The kinds that Kubernetes itself has: their resources and schemas, as data.
//!
//! `data/kubernetes.json` is written by `hack/builtin-schemas` from a running kube-apiserver. Its lines are sorted, so
//! that a definition is found by bisection and only what a kind needs is ever parsed: the file is mapped with the
//! program and a hub that serves few kinds touches few pages of it.
//!
//! Invariant: the committed file is complete (every reference in it resolves) and free of cycles; a test says so.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use api::{GroupVersionKind, GroupVersionResource};
use serde::Deserialize;
use serde_json::Value;

use crate::structural::{References, Schema, SharedNodes, parse_with};

mod canonical;
mod columns;
mod defaults;
pub(crate) mod descriptions;
mod nulls;
mod requirements;

pub use canonical::canonicalize;
pub use columns::columns;
pub use defaults::{complete, prepare_for_create};
pub use nulls::read_nulls;
pub use requirements::validate;

/// The data file.
static DATA: &str = include_str!("../data/kubernetes.json");

/// The definition of object metadata.
pub const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// All built-in kinds.
#[derive(Debug)]
pub struct Catalog {
    resources: Vec<Resource>,
    by_kind: HashMap<GroupVersionKind, usize>,
    by_resource: HashMap<GroupVersionResource, usize>,
    definitions: Definitions,
}

/// A built-in resource.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The plural name in paths.
    #[expect(clippy::struct_field_names, reason = "the word of the field")]
    pub resource: String,
    /// The singular name.
    pub singular: String,
    /// The kind of the objects.
    pub kind: String,
    /// Whether the objects live in namespaces.
    pub namespaced: bool,
    /// Other names that kubectl takes.
    #[serde(default)]
    pub short_names: Vec<String>,
    /// Groups of resources that kubectl takes, such as `all`.
    #[serde(default)]
    pub categories: Vec<String>,
    /// What can be done with it.
    pub verbs: Vec<String>,
    /// The definition of the kind; reviews without one are not published.
    #[serde(default)]
    pub schema: Option<String>,
    /// Paths below an object.
    #[serde(default)]
    pub subresources: Vec<Subresource>,
}

/// A path below an object of a built-in resource.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Subresource {
    /// The last segment of the path, such as `status`.
    pub name: String,
    /// The group of the kind that is read and written there.
    pub group: String,
    /// Its version.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// What can be done with it.
    pub verbs: Vec<String>,
    /// The definition of the kind; absent for streams.
    #[serde(default)]
    pub schema: Option<String>,
}

/// Parsed definitions, each once.
#[derive(Debug, Default)]
struct Definitions {
    /// Guards nothing but itself; never held while another lock is taken or a definition is parsed.
    parsed: Mutex<HashMap<String, Arc<Schema>>>,
}

/// The built-in kinds, indexed at the first call.
pub fn catalog() -> &'static Catalog {
    static CATALOG: LazyLock<Catalog> = LazyLock::new(Catalog::load);
    &CATALOG
}

/// The schema of object metadata.
pub fn object_meta() -> Arc<Schema> {
    catalog()
        .definition(OBJECT_META)
        .expect("the data file holds it, as a test checks")
}

// === impl Catalog ===

impl Catalog {
    fn load() -> Self {
        let resources: Vec<Resource> = resource_lines()
            .map(|line| {
                serde_json::from_str(line).expect("the data file is well-formed, as a test checks")
            })
            .collect();
        let by_kind = resources.iter().map(Resource::gvk).zip(0..).collect();
        let by_resource = resources.iter().map(Resource::gvr).zip(0..).collect();
        Self {
            resources,
            by_kind,
            by_resource,
            definitions: Definitions::default(),
        }
    }

    /// All resources; group-versions in the order of preference.
    pub fn resources(&self) -> &[Resource] {
        &self.resources
    }

    /// The resource of a kind.
    pub fn by_kind(&self, gvk: &GroupVersionKind) -> Option<&Resource> {
        self.by_kind
            .get(gvk)
            .and_then(|index| self.resources.get(*index))
    }

    /// A resource.
    pub fn by_resource(&self, gvr: &GroupVersionResource) -> Option<&Resource> {
        self.by_resource
            .get(gvr)
            .and_then(|index| self.resources.get(*index))
    }

    /// The schema of a kind.
    pub fn schema(&self, gvk: &GroupVersionKind) -> Option<Arc<Schema>> {
        self.definition(self.by_kind(gvk)?.schema.as_deref()?)
    }

    /// The schema of a definition, such as `io.k8s.api.core.v1.PodSpec`.
    pub fn definition(&self, name: &str) -> Option<Arc<Schema>> {
        self.definitions.resolve(name)
    }
}

/// The reduced text of a definition.
pub(crate) fn definition_text(name: &str) -> Option<Value> {
    serde_json::from_str(definition_line(name)?).ok()
}

// === impl Resource ===

impl Resource {
    /// The kind with its group and version.
    pub fn gvk(&self) -> GroupVersionKind {
        GroupVersionKind {
            group: self.group.clone(),
            version: self.version.clone(),
            kind: self.kind.clone(),
        }
    }

    /// The resource with its group and version.
    pub fn gvr(&self) -> GroupVersionResource {
        GroupVersionResource {
            group: self.group.clone(),
            version: self.version.clone(),
            resource: self.resource.clone(),
        }
    }
}

// === impl Definitions ===

impl References for Definitions {
    fn resolve(&self, reference: &str) -> Option<Arc<Schema>> {
        if let Some(schema) = self.get(reference) {
            return Some(schema);
        }
        let text = definition_text(reference)?;
        let schema = parse_with(&text, self).ok()?;
        Some(self.keep(reference.to_owned(), schema))
    }

    fn shared(&self) -> Option<&dyn SharedNodes> {
        Some(self)
    }
}

impl SharedNodes for Definitions {
    fn get(&self, text: &str) -> Option<Arc<Schema>> {
        self.parsed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(text)
            .cloned()
    }

    fn keep(&self, text: String, schema: Arc<Schema>) -> Arc<Schema> {
        let mut parsed = self.parsed.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(parsed.entry(text).or_insert(schema))
    }
}

// --- the data file ---

const RESOURCES_START: &str = "{\"resources\":[\n";
const RESOURCES_END: &str = "\n],\"definitions\":{\n";
const DEFINITIONS_END: &str = "\n}}\n";

/// The two sections of the file.
static SECTIONS: LazyLock<(&str, &str)> = LazyLock::new(|| {
    let body = DATA
        .strip_prefix(RESOURCES_START)
        .and_then(|it| it.strip_suffix(DEFINITIONS_END));
    body.and_then(|body| body.split_once(RESOURCES_END))
        .unwrap_or_default()
});

/// The lines of resources, without their commas.
fn resource_lines() -> impl Iterator<Item = &'static str> {
    SECTIONS.0.lines().map(|line| line.trim_end_matches(','))
}

/// The definition of this name, found by bisection: lines are sorted by the names that they start with.
fn definition_line(name: &str) -> Option<&'static str> {
    let definitions = SECTIONS.1;
    let (mut low, mut high) = (0, definitions.len());
    while low < high {
        let middle = low + (high - low) / 2;
        // The file is ASCII, so every offset is a border.
        let line_start = definitions
            .get(..middle)?
            .rfind('\n')
            .map_or(0, |index| index + 1);
        let after = definitions.get(middle..)?.find('\n');
        let line_end = after.map_or(definitions.len(), |index| middle + index);
        let line = definitions.get(line_start..line_end)?;
        let (found, definition) = line.strip_prefix('"')?.split_once("\":")?;
        match found.cmp(name) {
            Ordering::Equal => return Some(definition.trim_end_matches(',')),
            Ordering::Less => low = line_end + 1,
            Ordering::Greater => high = line_start,
        }
    }
    None
}

#[cfg(test)]
mod tests;
