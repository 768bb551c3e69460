//! Reduces what a kube-apiserver says of its kinds to the data file of this crate.
//!
//! Reads a folder that `hack/builtin-schemas` fills (`groups.json` from `/apis`, `resources/*.json` from each
//! group-version, `schemas/*.json` from `/openapi/v3`), writes `data/kubernetes.json` to standard output: facts for
//! programs, no prose. One resource or definition per line, in a stable order, so that a new Kubernetes version is a
//! readable change and the file can be searched without being parsed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;

use serde_json::{Map, Value, json};

type Definitions = BTreeMap<String, Value>;
type Kinds = BTreeMap<(String, String, String), String>;
type Failure = Box<dyn std::error::Error>;

/// Definitions that no kind refers to, but that documents need.
const META_DEFINITIONS: [&str; 5] = [
    "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
    "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Patch",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Status",
    "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent",
];

/// The keywords that are kept as they are.
const KEYWORDS: [&str; 10] = [
    "type",
    "format",
    "enum",
    "required",
    "default",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-patch-strategy",
    "x-kubernetes-patch-merge-key",
];

const REFERENCE_PREFIX: &str = "#/components/schemas/";

fn main() -> Result<(), Failure> {
    let folder = std::env::args()
        .nth(1)
        .ok_or("usage: reduce_builtin FOLDER > kubernetes.json")?;
    let folder = Path::new(&folder);
    let (definitions, kinds) = definitions(&folder.join("schemas"))?;
    let resources = resources(folder, &kinds)?;
    let mut wanted: BTreeSet<String> = META_DEFINITIONS.map(str::to_owned).into();
    for resource in &resources {
        collect_schemas(resource, &mut wanted);
    }
    let reduced = reachable(&definitions, wanted);
    write(&resources, &reduced)?;
    Ok(())
}

fn write(resources: &[Value], definitions: &Definitions) -> Result<(), Failure> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{{\"resources\":[")?;
    for (index, resource) in resources.iter().enumerate() {
        let comma = if index + 1 < resources.len() { "," } else { "" };
        writeln!(output, "{resource}{comma}")?;
    }
    writeln!(output, "],\"definitions\":{{")?;
    for (index, (name, definition)) in definitions.iter().enumerate() {
        let comma = if index + 1 < definitions.len() {
            ","
        } else {
            ""
        };
        writeln!(output, "{}:{definition}{comma}", Value::from(name.as_str()))?;
    }
    writeln!(output, "}}}}")?;
    Ok(())
}

fn read(path: &Path) -> Result<Value, Failure> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(serde_json::from_slice(&bytes).map_err(|error| format!("{}: {error}", path.display()))?)
}

fn files(folder: &Path) -> Result<Vec<Value>, Failure> {
    let mut paths: Vec<_> = std::fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    paths.sort_by_key(std::fs::DirEntry::path);
    paths.iter().map(|entry| read(&entry.path())).collect()
}

fn text(value: &Value, name: &str) -> String {
    value
        .get(name)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

// --- resources ---

/// Every resource with its subresources; group-versions in the order of the server, which is the order of preference.
fn resources(folder: &Path, kinds: &Kinds) -> Result<Vec<Value>, Failure> {
    let groups = read(&folder.join("groups.json"))?;
    let mut order = vec!["v1".to_owned()];
    for group in groups["groups"].as_array().into_iter().flatten() {
        let versions = group["versions"].as_array().into_iter().flatten();
        order.extend(versions.map(|version| text(version, "groupVersion")));
    }
    let mut found = Vec::new();
    for list in files(&folder.join("resources"))? {
        let group_version = text(&list, "groupVersion");
        let (group, version) = group_version
            .split_once('/')
            .unwrap_or(("", &group_version));
        let priority = order
            .iter()
            .position(|it| *it == group_version)
            .unwrap_or(usize::MAX);
        for entry in list["resources"].as_array().into_iter().flatten() {
            let name = text(entry, "name");
            if name.contains('/') {
                continue;
            }
            let mut resource = describe(entry, group, version, kinds);
            resource.insert("resource".into(), json!(name));
            resource.insert("singular".into(), json!(text(entry, "singularName")));
            resource.insert("namespaced".into(), entry["namespaced"].clone());
            for list in ["shortNames", "categories"] {
                if let Some(value) = entry.get(list) {
                    resource.insert(list.into(), value.clone());
                }
            }
            let subresources = subresources(&list, &name, (group, version), kinds);
            if !subresources.is_empty() {
                resource.insert("subresources".into(), Value::Array(subresources));
            }
            found.push(((priority, name), Value::Object(resource)));
        }
    }
    found.sort_by(|left, right| left.0.cmp(&right.0));
    Ok(found.into_iter().map(|(_, resource)| resource).collect())
}

fn subresources(
    list: &Value,
    resource: &str,
    (group, version): (&str, &str),
    kinds: &Kinds,
) -> Vec<Value> {
    let mut found = Vec::new();
    for entry in list["resources"].as_array().into_iter().flatten() {
        let name = text(entry, "name");
        let Some(subresource) = name
            .strip_prefix(resource)
            .and_then(|it| it.strip_prefix('/'))
        else {
            continue;
        };
        let mut described = describe(entry, group, version, kinds);
        described.insert("name".into(), json!(subresource));
        found.push(Value::Object(described));
    }
    found
}

/// Kind, verbs and schema of an entry; group and version are those of the kind.
fn describe(entry: &Value, group: &str, version: &str, kinds: &Kinds) -> Map<String, Value> {
    let kind = text(entry, "kind");
    let own = |name: &str, fallback: &str| match text(entry, name) {
        empty if empty.is_empty() => fallback.to_owned(),
        own => own,
    };
    // A kind of another group says so; a version alone is never given.
    let elsewhere = entry.get("version").is_some();
    let group = if elsewhere {
        text(entry, "group")
    } else {
        group.to_owned()
    };
    let version = own("version", version);
    let mut described = Map::new();
    if let Some(schema) = kinds.get(&(group.clone(), version.clone(), kind.clone())) {
        described.insert("schema".into(), json!(schema));
    }
    described.insert("group".into(), json!(group));
    described.insert("version".into(), json!(version));
    described.insert("kind".into(), json!(kind));
    described.insert("verbs".into(), entry["verbs"].clone());
    described
}

fn collect_schemas(value: &Value, wanted: &mut BTreeSet<String>) {
    if let Some(schema) = value.get("schema").and_then(Value::as_str) {
        wanted.insert(schema.to_owned());
    }
    for subresource in value
        .get("subresources")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        collect_schemas(subresource, wanted);
    }
}

// --- definitions ---

fn definitions(folder: &Path) -> Result<(Definitions, Kinds), Failure> {
    let mut definitions = Definitions::new();
    let mut kinds = Kinds::new();
    for document in files(folder)? {
        for (name, schema) in document["components"]["schemas"]
            .as_object()
            .into_iter()
            .flatten()
        {
            let gvks = schema
                .get("x-kubernetes-group-version-kind")
                .and_then(Value::as_array);
            for gvk in gvks.into_iter().flatten() {
                let key = (text(gvk, "group"), text(gvk, "version"), text(gvk, "kind"));
                kinds.insert(key, name.clone());
            }
            definitions.insert(name.clone(), schema.clone());
        }
    }
    Ok((definitions, kinds))
}

/// The reduced definitions that `wanted` needs.
fn reachable(definitions: &Definitions, wanted: BTreeSet<String>) -> Definitions {
    let mut reduced = Definitions::new();
    let mut queue: Vec<String> = wanted.into_iter().collect();
    while let Some(name) = queue.pop() {
        if reduced.contains_key(&name) {
            continue;
        }
        let Some(definition) = definitions.get(&name) else {
            continue;
        };
        let mut definition = special(&name).unwrap_or_else(|| reduce(definition));
        cut_recursion(&mut definition, &name, definitions);
        references(&definition, &mut queue);
        reduced.insert(name, definition);
    }
    reduced
}

/// Definitions whose document says less than the server does.
fn special(name: &str) -> Option<Value> {
    let opaque =
        json!({"x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-map-type": "atomic"});
    Some(match name {
        "io.k8s.apimachinery.pkg.api.resource.Quantity" => {
            json!({"format": "quantity", "x-kubernetes-int-or-string": true})
        }
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString" => {
            json!({"format": "int-or-string", "x-kubernetes-int-or-string": true})
        }
        "io.k8s.apimachinery.pkg.runtime.RawExtension"
        | "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1" => opaque,
        name if name.contains("apiextensions") && name.rsplit('.').next() == Some("JSON") => opaque,
        name if name.contains("JSONSchemaPropsOr") => {
            json!({"x-kubernetes-preserve-unknown-fields": true})
        }
        _ => return None,
    })
}

fn reduce(schema: &Value) -> Value {
    let mut reduced = Map::new();
    let alone = |list: &str| {
        schema
            .get(list)
            .and_then(Value::as_array)
            .and_then(|it| it.first())
    };
    let reference = schema
        .get("$ref")
        .or_else(|| alone("allOf").and_then(|it| it.get("$ref")));
    if let Some(reference) = reference.and_then(Value::as_str) {
        reduced.insert(
            "$ref".into(),
            json!(reference.trim_start_matches(REFERENCE_PREFIX)),
        );
    }
    for keyword in KEYWORDS {
        if let Some(value) = schema.get(keyword) {
            reduced.insert(keyword.into(), value.clone());
        }
    }
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        let properties: Map<String, Value> = properties
            .iter()
            .map(|(name, property)| (name.clone(), reduce(property)))
            .collect();
        reduced.insert("properties".into(), Value::Object(properties));
    }
    for child in ["items", "additionalProperties"] {
        match schema.get(child) {
            Some(Value::Bool(flag)) => drop(reduced.insert(child.into(), json!(flag))),
            Some(inner) => drop(reduced.insert(child.into(), reduce(inner))),
            None => {}
        }
    }
    Value::Object(reduced)
}

/// Replaces references from which `name` can be reached again by "anything".
fn cut_recursion(value: &mut Value, name: &str, definitions: &Definitions) {
    if let Some(reference) = value.get("$ref").and_then(Value::as_str)
        && reaches(reference, name, definitions)
    {
        *value = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        return;
    }
    match value {
        Value::Object(map) => map
            .values_mut()
            .for_each(|it| cut_recursion(it, name, definitions)),
        Value::Array(items) => items
            .iter_mut()
            .for_each(|it| cut_recursion(it, name, definitions)),
        _ => {}
    }
}

fn reaches(from: &str, target: &str, definitions: &Definitions) -> bool {
    let mut seen = BTreeSet::new();
    let mut queue = vec![from.to_owned()];
    while let Some(name) = queue.pop() {
        if name == target {
            return true;
        }
        if special(&name).is_some() || !seen.insert(name.clone()) {
            continue;
        }
        if let Some(definition) = definitions.get(&name) {
            references(&reduce(definition), &mut queue);
        }
    }
    false
}

fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
                found.push(reference.to_owned());
            }
            map.values().for_each(|it| references(it, found));
        }
        Value::Array(items) => items.iter().for_each(|it| references(it, found)),
        _ => {}
    }
}
