//! The OpenAPI v3 document of a group-version: what kubectl explains, and what it asks before it applies.
//!
//! A document lists the operations (with their kind, their action and the query parameters that say what the server can
//! do) and the schemas (with the kinds that they are). Custom kinds keep the descriptions of their definition; those of
//! built-in kinds are this project's own. Built-in kinds alone take strategic merge patches.
//!
//! Invariant: every reference in a document resolves in it.
//!
//! Source: `apiextensions-apiserver/pkg/controller/openapi/builder/builder.go`, `kube-openapi/pkg/builder3`; read by
//! `kubectl/pkg/explain/v2` and `cli-runtime/pkg/resource/query_param_verifier_v3.go`.

use std::collections::BTreeSet;

use api::GroupVersionKind;
use api::crd::{CustomResourceDefinition, SelectableField};
use serde_json::{Map, Value, json};

use crate::builtin::{self, Resource};

mod paths;
mod schemas;

/// The verbs of a custom resource, in the order of Kubernetes.
const CUSTOM_VERBS: [&str; 8] = [
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];
/// The verbs of the status and the scale of a custom resource.
const SUBRESOURCE_VERBS: [&str; 3] = ["get", "patch", "update"];

/// The definition of the kind that scales are read and written as.
const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";

/// Definitions that operations refer to.
pub(crate) mod meta {
    /// What a delete may say.
    pub(crate) const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
    /// The metadata of lists.
    pub(crate) const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
    /// Any patch.
    pub(crate) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
    /// What failures and deletes answer.
    pub(crate) const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
}

/// A kind as one group-version serves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedKind {
    /// The kind.
    pub gvk: GroupVersionKind,
    /// The kind of its lists.
    pub list_kind: String,
    /// The plural name in paths.
    pub resource: String,
    /// Whether the objects live in namespaces.
    pub namespaced: bool,
    /// What can be done with it.
    pub verbs: Vec<String>,
    /// Paths below an object.
    pub subresources: Vec<PublishedSubresource>,
    /// What the objects look like.
    pub schema: PublishedSchema,
}

/// A path below an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedSubresource {
    /// The last segment of the path.
    pub name: String,
    /// The kind that is read and written there.
    pub gvk: GroupVersionKind,
    /// What can be done with it.
    pub verbs: Vec<String>,
    /// The definition of that kind, if it is not that of the objects.
    pub definition: Option<String>,
}

/// What objects look like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublishedSchema {
    /// A definition of the built-in kinds; absent for kinds that are not published.
    BuiltIn(Option<String>),
    /// The schema of a definition as it was written, and the fields that objects can be selected by.
    Custom(Value, Vec<String>),
}

/// The document of a group-version, whose kinds these are.
pub fn document(kinds: &[PublishedKind]) -> Value {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    let mut wanted: BTreeSet<String> = BTreeSet::new();
    for kind in kinds {
        paths::add(kind, &mut paths);
        schemas::add(kind, &mut schemas);
    }
    schemas::references(&Value::Object(paths.clone()), &mut wanted);
    schemas::references(&Value::Object(schemas.clone()), &mut wanted);
    schemas::complete(&mut schemas, wanted);
    schemas::name_options(&mut schemas, kinds);
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1"},
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

/// The name of the schema of a custom kind: its group reversed, `com.example.v1.Widget`.
pub fn schema_name(gvk: &GroupVersionKind) -> String {
    let mut segments: Vec<&str> = gvk.group.split('.').rev().collect();
    segments.extend([gvk.version.as_str(), gvk.kind.as_str()]);
    segments.join(".")
}

// === impl PublishedKind ===

impl PublishedKind {
    /// A version of a definition; `None` if there is no such version or it has no schema.
    pub fn of_definition(definition: &CustomResourceDefinition, version: &str) -> Option<Self> {
        let spec = &definition.spec;
        let version = spec.versions.iter().find(|it| it.name == version)?;
        let schema = version.schema.as_ref()?.open_api_v3_schema.clone()?;
        let gvk = GroupVersionKind {
            group: spec.group.clone(),
            version: version.name.clone(),
            kind: spec.names.kind.clone(),
        };
        let subresource =
            |name: &str, gvk: GroupVersionKind, definition: Option<&str>| PublishedSubresource {
                name: name.to_owned(),
                gvk,
                verbs: SUBRESOURCE_VERBS.map(str::to_owned).into(),
                definition: definition.map(str::to_owned),
            };
        let declared = version.subresources.as_ref();
        let mut subresources = Vec::new();
        if declared.is_some_and(|it| it.status.is_some()) {
            subresources.push(subresource("status", gvk.clone(), None));
        }
        if declared.is_some_and(|it| it.scale.is_some()) {
            subresources.push(subresource("scale", scale(), Some(SCALE)));
        }
        let selectable = version.selectable_fields.iter().map(field_path).collect();
        Some(Self {
            list_kind: spec.names.list_kind.clone(),
            resource: spec.names.plural.clone(),
            namespaced: spec.scope.is_namespaced(),
            verbs: CUSTOM_VERBS.map(str::to_owned).into(),
            subresources,
            schema: PublishedSchema::Custom(schema, selectable),
            gvk,
        })
    }

    /// A built-in resource.
    pub fn of_builtin(resource: &Resource) -> Self {
        let subresources = resource.subresources.iter().map(|it| PublishedSubresource {
            name: it.name.clone(),
            gvk: GroupVersionKind {
                group: it.group.clone(),
                version: it.version.clone(),
                kind: it.kind.clone(),
            },
            verbs: it.verbs.clone(),
            definition: it.schema.clone(),
        });
        Self {
            gvk: resource.gvk(),
            list_kind: format!("{}List", resource.kind),
            resource: resource.resource.clone(),
            namespaced: resource.namespaced,
            verbs: resource.verbs.clone(),
            subresources: subresources.collect(),
            schema: PublishedSchema::BuiltIn(resource.schema.clone()),
        }
    }

    /// The name of its schema, if it has one.
    pub fn schema_name(&self) -> Option<String> {
        match &self.schema {
            PublishedSchema::BuiltIn(name) => name.clone(),
            PublishedSchema::Custom(..) => Some(schema_name(&self.gvk)),
        }
    }

    /// The name of the schema of its lists.
    fn list_name(&self) -> Option<String> {
        let name = self.schema_name()?;
        let (scope, _) = name.rsplit_once('.')?;
        Some(format!("{scope}.{}", self.list_kind))
    }

    fn is_builtin(&self) -> bool {
        matches!(self.schema, PublishedSchema::BuiltIn(_))
    }

    fn can(&self, verb: &str) -> bool {
        self.verbs.iter().any(|it| it == verb)
    }
}

fn scale() -> GroupVersionKind {
    GroupVersionKind {
        group: "autoscaling".to_owned(),
        version: "v1".to_owned(),
        kind: "Scale".to_owned(),
    }
}

fn field_path(field: &SelectableField) -> String {
    field.json_path.trim_start_matches('.').to_owned()
}

/// All built-in kinds of a group-version.
pub fn builtin_kinds(group: &str, version: &str) -> Vec<PublishedKind> {
    let resources = builtin::catalog().resources().iter();
    let own = resources.filter(|it| it.group == group && it.version == version);
    own.map(PublishedKind::of_builtin).collect()
}

#[cfg(test)]
mod tests;
