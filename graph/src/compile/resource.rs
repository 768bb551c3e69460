//! One resource of a definition: its shape, its kind, its constraints, its expressions.
//!
//! Source: kro `pkg/graph/builder.go` rgResourceSpec and buildResourceNode, `pkg/graph/validation.go`.

use std::collections::BTreeMap;
use std::rc::Rc;

use api::kro::{RgdResource, keys};
use api::meta;
use api::validation::is_dns1035_label;
use api::wheelhouse::keys::ANNOTATION_DELETION_POLICY;
use api::{GroupVersion, GroupVersionKind, GroupVersionResource};
use dialect::{json::type_word, quote};
use expressions::Reader;
use serde_json::{Value, json};

use super::inspect::Inspector;
use super::{Connected, ResourceError, SharedSchema, external, types};
use crate::deletion::ChildPolicy;
use crate::graph::NodeKind;
use crate::resolve::SchemaResolver;
use crate::scalar::{self, Source};
use crate::template::{self, Found};

/// What a resource says of itself, before its kind is known.
pub(crate) struct Shape {
    pub(crate) id: String,
    object: Value,
    kind: NodeKind,
    ready_when: Vec<String>,
    include_when: Vec<String>,
    for_each: Vec<BTreeMap<String, String>>,
}

/// A resource whose kind is known and whose expressions are found, but not yet compiled.
pub(crate) struct Draft {
    pub(crate) id: String,
    pub(crate) index: usize,
    pub(crate) kind: NodeKind,
    pub(crate) gvk: GroupVersionKind,
    pub(crate) gvr: GroupVersionResource,
    pub(crate) namespaced: bool,
    pub(crate) object: Value,
    pub(crate) schema: SharedSchema,
    pub(crate) fields: Vec<Found>,
    pub(crate) ready_when: Vec<Source>,
    pub(crate) include_when: Vec<Source>,
    pub(crate) for_each: Vec<(String, Source)>,
    /// Filled in when the graph is connected.
    pub(crate) dependencies: Vec<String>,
}

/// Reads a resource and checks what can be checked without its kind.
pub(crate) fn shape(resource: &RgdResource) -> Result<Shape, String> {
    let id = &resource.id;
    let combination = match (&resource.template, &resource.external_ref) {
        (None, None) => Some("exactly one of template or externalRef must be provided"),
        (Some(_), Some(_)) => Some("cannot use externalRef with template"),
        (None, Some(_)) if !resource.for_each.is_empty() => {
            Some("cannot use externalRef with forEach")
        }
        _ => None,
    };
    if let Some(why) = combination {
        return Err(format!(
            "invalid combination of resource fields: resource {}: {why}",
            quote(id)
        ));
    }
    let (object, kind) = match (&resource.template, &resource.external_ref) {
        (None, Some(reference)) => {
            external::check(&reference.metadata).map_err(|error| {
                format!("invalid external ref metadata for resource {id}: {error}")
            })?;
            let object = json!(reference);
            let by_selector = external::selector(&reference.metadata).is_some();
            let kind = if by_selector {
                NodeKind::ExternalCollection
            } else {
                NodeKind::External
            };
            (object, kind)
        }
        (Some(object @ Value::Object(_)), _) => {
            let kind = if resource.for_each.is_empty() {
                NodeKind::Resource
            } else {
                NodeKind::Collection
            };
            (object.clone(), kind)
        }
        (template, _) => {
            let word = type_word(template.as_ref().unwrap_or(&Value::Null));
            return Err(format!(
                "failed to unmarshal resource {id}: json: cannot unmarshal {word} into Go value of type \
                 map[string]interface {{}}"
            ));
        }
    };
    Ok(Shape {
        id: id.clone(),
        object,
        kind,
        ready_when: resource.ready_when.clone(),
        include_when: resource.include_when.clone(),
        for_each: resource.for_each.clone(),
    })
}

// === impl Draft ===

impl Draft {
    /// Resolves the kind of a resource and takes its expressions out.
    pub(crate) fn build(
        shape: Shape,
        index: usize,
        resolver: &dyn SchemaResolver,
        instance_namespaced: bool,
    ) -> Result<Self, ResourceError> {
        let id = &shape.id;
        check_object(&shape.object)
            .map_err(|error| format!("resource {id} is not a valid Kubernetes object: {error}"))?;
        let gvk = read_gvk(&shape.object)
            .map_err(|error| format!("failed to extract GVK from resource {id}: {error}"))?;
        let resolved = resolver.resolve(&gvk).map_err(|error| {
            ResourceError::Unresolved(format!("failed to get schema for resource {id}"), error)
        })?;
        check_constraints(&shape, resolved.namespaced, instance_namespaced)?;
        let schema = types::with_object_metadata(&resolved.schema);
        let fields = find_expressions(&shape, &gvk, &schema)?;
        let unwrap_all = |texts: &[String], what: &str| {
            texts
                .iter()
                .map(|text| scalar::unwrap(text))
                .collect::<Result<Vec<_>, String>>()
                .map_err(|error| format!("failed to parse {what} expressions: {error}"))
        };
        let ready_when = unwrap_all(&shape.ready_when, "readyWhen")?;
        let include_when = unwrap_all(&shape.include_when, "includeWhen")?;
        let for_each = read_dimensions(&shape.for_each)
            .map_err(|error| format!("failed to parse forEach dimensions: {error}"))?;
        let gvr = gvk.group_version().with_resource(resolved.resource);
        Ok(Self {
            id: shape.id,
            index,
            kind: shape.kind,
            gvk,
            gvr,
            namespaced: resolved.namespaced,
            object: shape.object,
            schema,
            fields,
            ready_when,
            include_when,
            for_each,
            dependencies: Vec::new(),
        })
    }

    /// The names of the iterators, in order.
    pub(crate) fn iterators(&self) -> Vec<&str> {
        self.for_each
            .iter()
            .map(|(name, _)| name.as_str())
            .collect()
    }
}

fn check_object(object: &Value) -> Result<(), String> {
    for name in ["apiVersion", "kind"] {
        match object.get(name) {
            None => return Err(format!("{name} field not found")),
            Some(Value::String(_)) => {}
            Some(_) => return Err(format!("{name} field is not a string")),
        }
    }
    match object.get("metadata") {
        None => Err("metadata field not found".to_owned()),
        Some(Value::Object(_)) => Ok(()),
        Some(_) => Err("metadata field is not a map".to_owned()),
    }
}

fn read_gvk(object: &Value) -> Result<GroupVersionKind, String> {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let api_version = text("apiVersion");
    let group_version: GroupVersion = api_version
        .parse()
        .map_err(|error| format!("invalid apiVersion format {}: {error}", quote(api_version)))?;
    let kind = text("kind");
    let problems = is_dns1035_label(&kind.to_lowercase());
    if !problems.is_empty() {
        return Err(format!(
            "invalid kind {}: {} (must be a valid DNS-1035 label when lowercased)",
            quote(kind),
            problems.join(", ")
        ));
    }
    Ok(group_version.with_kind(kind))
}

/// Checks what a template may say of its namespace, labels and annotations.
fn check_constraints(
    shape: &Shape,
    namespaced: bool,
    instance_namespaced: bool,
) -> Result<(), String> {
    let id = quote(&shape.id);
    let namespace = shape.object.pointer("/metadata/namespace");
    if !namespaced && namespace.is_some() {
        return Err(format!(
            "resource {id} is cluster-scoped and must not set metadata.namespace"
        ));
    }
    let names_one = namespace
        .and_then(Value::as_str)
        .is_some_and(|text| !text.trim().is_empty());
    if namespaced
        && !instance_namespaced
        && shape.kind != NodeKind::ExternalCollection
        && !names_one
    {
        return Err(format!(
            "resource {id} is namespaced and must set metadata.namespace when the instance CRD is cluster-scoped"
        ));
    }
    for (part, word) in [("labels", "label"), ("annotations", "annotation")] {
        let map = shape
            .object
            .pointer(&format!("/metadata/{part}"))
            .and_then(Value::as_object);
        let reserved = map.into_iter().flatten().find_map(|(key, _)| {
            [keys::PREFIX, keys::INTERNAL_PREFIX]
                .into_iter()
                .find(|prefix| key.starts_with(prefix))
        });
        if let Some(prefix) = reserved {
            return Err(format!(
                "invalid {word} for resource {id}. {part} with prefix {} are reserved for internal use",
                quote(prefix)
            ));
        }
    }
    Ok(())
}

fn find_expressions(
    shape: &Shape,
    gvk: &GroupVersionKind,
    schema: &SharedSchema,
) -> Result<Vec<Found>, String> {
    let id = &shape.id;
    if shape.kind.is_external() {
        return template::extract_schemaless(&shape.object)
            .map(|out| out.found)
            .map_err(|error| format!("failed to parse external ref resource {id}: {error}"));
    }
    let is_definition = gvk.group == api::crd::GROUP
        && gvk.version == api::crd::VERSION
        && gvk.kind == api::crd::KIND;
    if is_definition {
        let found = template::extract_schemaless(&shape.object)
            .map(|out| out.found)
            .map_err(|error| format!("failed to parse schemaless resource {id}: {error}"))?;
        return match found
            .iter()
            .find(|found| !found.path.starts_with("metadata."))
        {
            Some(elsewhere) => Err(format!(
                "CEL expressions in CRDs are only supported for metadata fields, found in path {}, resource {id}",
                quote(&elsewhere.path)
            )),
            None => Ok(found),
        };
    }
    template::extract(&shape.object, schema, "").map_err(|error| {
        format!("failed to extract CEL expressions from schema for resource {id}: {error}")
    })
}

fn read_dimensions(
    dimensions: &[BTreeMap<String, String>],
) -> Result<Vec<(String, Source)>, String> {
    dimensions
        .iter()
        .flatten()
        .map(|(name, text)| match scalar::unwrap(text) {
            Ok(source) => Ok((name.clone(), source)),
            Err(error) => Err(format!(
                "invalid forEach expression for dimension {}: {error}",
                quote(name)
            )),
        })
        .collect()
}

/// Refuses what is no policy where a template says what becomes of its objects. What an expression gives is judged by plans.
pub(crate) fn check_policies(drafts: &[Draft]) -> Result<(), String> {
    for draft in drafts.iter().filter(|draft| !draft.kind.is_external()) {
        let text = meta::annotation(&draft.object, ANNOTATION_DELETION_POLICY);
        if text.is_some_and(|text| text.contains("${")) {
            continue;
        }
        ChildPolicy::of(&draft.object)
            .map_err(|error| format!("resource {}: {error}", quote(&draft.id)))?;
    }
    Ok(())
}

/// Refuses `omit()` where an object would lose its identity.
pub(crate) fn check_identities(
    connected: &Connected,
    reader: &Rc<Reader>,
    instance_namespaced: bool,
) -> Result<(), String> {
    let none: [&str; 0] = [];
    let inspector = Inspector::new(Rc::clone(reader), &none);
    for draft in connected.drafts.values() {
        for field in &draft.fields {
            let is_identity = match field.path.as_str() {
                "metadata.name" => true,
                "metadata.namespace" => draft.namespaced && !instance_namespaced,
                _ => false,
            };
            let uses_omit = || {
                let inspection = inspector.inspect(&field.source);
                inspection.is_ok_and(|it| it.uses_omit)
            };
            if is_identity && uses_omit() {
                return Err(format!(
                    "resource {}: omit() cannot be used at path {} — the field is required and must resolve to a \
                     concrete value",
                    quote(&draft.id),
                    quote(&field.path)
                ));
            }
        }
    }
    Ok(())
}
