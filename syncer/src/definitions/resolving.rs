//! The schemas that a definition is compiled against: the built-in kinds, then what the receiving
//! clusters publish in their OpenAPI v3.
//!
//! Compiling is pure, so everything that a definition names is fetched before. A kind that the
//! first cluster asked does not serve is asked of the next.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use api::{GroupVersion, GroupVersionKind, kro::RgdSpec};
use client::Path;
use graph::{ResolveError, ResolvedKind, SchemaResolver};
use schema::Schema;
use serde_json::Value;
use tracing::debug;

use crate::{
    engine::Engine,
    keys::text,
    target::{Reach, Target, TargetSort},
};

/// The kinds that one definition names, as far as any receiving cluster serves them.
#[derive(Debug, Default)]
pub(crate) struct FetchedSchemas {
    kinds: HashMap<GroupVersionKind, ResolvedKind>,
    served: BTreeSet<GroupVersion>,
    /// A cluster could not be asked: what is missing may be there.
    unavailable: Option<String>,
}

/// Fetches what a definition names and the built-in kinds do not have.
pub(crate) async fn fetch(engine: &Engine, spec: &RgdSpec, home: &Target) -> FetchedSchemas {
    let mut missing: BTreeSet<GroupVersionKind> = named(spec)
        .into_iter()
        .filter(|gvk| builtin(gvk).is_none())
        .collect();
    let mut fetched = FetchedSchemas::default();
    if missing.is_empty() {
        return fetched;
    }
    let mut places: Vec<Arc<Target>> = engine.fleet.all();
    places.retain(|target| target.cluster == home.cluster || home.sort == TargetSort::Root);
    // Root first: kinds that other definitions generate are there.
    places.sort_by_key(|target| target.sort != TargetSort::Root);
    for target in places {
        if missing.is_empty() {
            break;
        }
        if target.reach() != Reach::Reachable {
            fetched.unavailable = Some(format!(
                "spoke {:?} is unreachable",
                target.cluster.as_str()
            ));
            continue;
        }
        let versions: BTreeSet<GroupVersion> = missing
            .iter()
            .map(GroupVersionKind::group_version)
            .collect();
        for version in versions {
            match fetch_version(&target, &version).await {
                Ok(Some(kinds)) => {
                    fetched.served.insert(version);
                    for (gvk, kind) in kinds {
                        missing.remove(&gvk);
                        fetched.kinds.entry(gvk).or_insert(kind);
                    }
                }
                Ok(None) => {}
                Err(error) => {
                    debug!(cluster = %target.cluster, %version, %error, "cannot read schemas");
                    fetched.unavailable = Some(error.to_string());
                }
            }
        }
    }
    fetched
}

/// Tells the kinds that a definition's templates and references name literally.
fn named(spec: &RgdSpec) -> BTreeSet<GroupVersionKind> {
    let mut kinds = BTreeSet::new();
    for resource in &spec.resources {
        let template = resource
            .template
            .as_ref()
            .and_then(GroupVersionKind::from_object);
        let external = resource.external_ref.as_ref().and_then(|external| {
            let version: GroupVersion = external.api_version.parse().ok()?;
            Some(version.with_kind(&external.kind))
        });
        kinds.extend(template.or(external));
    }
    kinds
}

fn builtin(gvk: &GroupVersionKind) -> Option<ResolvedKind> {
    let catalog = schema::builtin::catalog();
    let resource = catalog.by_kind(gvk)?;
    Some(ResolvedKind {
        schema: catalog.schema(gvk)?,
        namespaced: resource.namespaced,
        resource: resource.resource.clone(),
    })
}

type Kinds = Vec<(GroupVersionKind, ResolvedKind)>;

fn openapi(target: &Target) -> Result<Path, client::PathError> {
    let path = Path::below(target.scope.as_ref());
    path.then("path", "openapi")?.then("path", "v3")
}

async fn fetch_version(
    target: &Target,
    version: &GroupVersion,
) -> Result<Option<Kinds>, client::Error> {
    // What a definition's author wrote: a version that no path can name is served nowhere.
    let Ok(path) = Path::below(target.scope.as_ref()).version(version) else {
        return Ok(None);
    };
    let resources = match target.dynamic.raw_get(path).await {
        Ok(bytes) => json(&bytes),
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error),
    };
    let document = json(
        &target
            .dynamic
            .raw_get(openapi(target)?.version(version)?)
            .await?,
    );
    let mut kinds = Vec::new();
    for resource in resources["resources"].as_array().into_iter().flatten() {
        let (name, kind) = (text(resource, &["name"]), text(resource, &["kind"]));
        if name.contains('/') {
            continue;
        }
        let gvk = version.with_kind(kind);
        if let Some(schema) = schema_of(&document, &gvk) {
            let namespaced = resource["namespaced"].as_bool().unwrap_or_default();
            kinds.push((
                gvk,
                ResolvedKind {
                    schema,
                    namespaced,
                    resource: name.to_owned(),
                },
            ));
        }
    }
    Ok(Some(kinds))
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_default()
}

/// Finds a kind in an OpenAPI v3 document and resolves the references to other models of it.
fn schema_of(document: &Value, gvk: &GroupVersionKind) -> Option<Arc<Schema>> {
    let schemas = document["components"]["schemas"].as_object()?;
    let is_kind = |schema: &Value| {
        let named = schema["x-kubernetes-group-version-kind"]
            .as_array()
            .into_iter()
            .flatten();
        named.into_iter().any(|named| {
            text(named, &["group"]) == gvk.group
                && text(named, &["version"]) == gvk.version
                && text(named, &["kind"]) == gvk.kind
        })
    };
    let found = schemas.values().find(|schema| is_kind(schema))?;
    let resolved = inline(found, document, 0);
    Schema::from_openapi(&resolved).ok()
}

/// References nested deeper than this are cut: a kind that contains itself (JSON schemas do).
const DEPTH_MAX: usize = 24;

fn inline(schema: &Value, document: &Value, depth: usize) -> Value {
    if depth > DEPTH_MAX {
        return serde_json::json!({"x-kubernetes-preserve-unknown-fields": true});
    }
    match schema {
        Value::Object(fields) => {
            let reference = fields.get("$ref").or_else(|| match fields.get("allOf") {
                // How Kubernetes writes a reference that has siblings.
                Some(Value::Array(one)) if one.len() == 1 => one[0].get("$ref"),
                _ => None,
            });
            if let Some(path) = reference.and_then(Value::as_str) {
                let target = path
                    .strip_prefix("#")
                    .and_then(|pointer| document.pointer(pointer))
                    .cloned()
                    .unwrap_or_default();
                let mut inlined = inline(&target, document, depth + 1);
                if let Some(into) = inlined.as_object_mut() {
                    for (key, value) in fields {
                        if key != "$ref" && key != "allOf" {
                            into.insert(key.clone(), value.clone());
                        }
                    }
                }
                return inlined;
            }
            let fields = fields
                .iter()
                .map(|(key, value)| (key.clone(), inline(value, document, depth + 1)));
            Value::Object(fields.collect())
        }
        Value::Array(items) => Value::Array(
            items
                .iter()
                .map(|item| inline(item, document, depth + 1))
                .collect(),
        ),
        other => other.clone(),
    }
}

// === impl FetchedSchemas ===

impl SchemaResolver for FetchedSchemas {
    fn resolve(&self, gvk: &GroupVersionKind) -> Result<ResolvedKind, ResolveError> {
        if let Some(kind) = builtin(gvk).or_else(|| self.kinds.get(gvk).cloned()) {
            return Ok(kind);
        }
        if let Some(reason) = &self.unavailable {
            return Err(ResolveError::Unavailable(reason.clone()));
        }
        let version = gvk.group_version();
        let known = self.served.contains(&version)
            || schema::builtin::catalog()
                .resources()
                .iter()
                .any(|resource| resource.gvr().group_version() == version);
        if known {
            return Err(ResolveError::KindNotFound(gvk.clone()));
        }
        Err(ResolveError::GroupVersionNotServed(version))
    }
}
