//! Field sets of real objects: the data of structured-merge-diff.
//!
//! Its schemas are in a form of its own; they are turned into ours here. The sets are those that a writer of the whole
//! object comes to own, before what nobody owns is left out.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use schema::Schema;
use schema::fieldmanager::{
    ApplyInput, FieldSet, Model, PathElement, TypeContext, UpdateInput, apply, update,
};
use schema::structural::{Additional, ListType, MapType, ValueType};
use serde_json::{Value, json};
use wheelhouse_schema as schema;

fn corpus() -> Result<PathBuf, String> {
    let folder = std::env::var_os("WHEELHOUSE_CORPUS").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus"),
        PathBuf::from,
    );
    let folder = folder.join("smd");
    if folder.is_dir() {
        return Ok(folder);
    }
    Err(format!("skipped: corpus absent ({})", folder.display()))
}

fn read(folder: &std::path::Path, file: &str) -> Value {
    let text = std::fs::read_to_string(folder.join(file)).expect("the corpus is readable");
    serde_saphyr::from_str(&text).expect("the corpus is YAML")
}

/// The types of a schema of structured-merge-diff, by name.
struct Types(BTreeMap<String, Value>);

// === impl Types ===

impl Types {
    fn read(folder: &std::path::Path, file: &str) -> Self {
        let types = read(folder, file);
        let types = types["types"].as_array().expect("a schema has types");
        Self(
            types
                .iter()
                .map(|named| {
                    (
                        named["name"].as_str().unwrap_or_default().to_owned(),
                        named.clone(),
                    )
                })
                .collect(),
        )
    }

    fn schema(&self, name: &str) -> Schema {
        self.convert(&json!({ "namedType": name }), 0)
    }

    fn convert(&self, reference: &Value, depth: usize) -> Schema {
        let mut converted = match reference["namedType"].as_str() {
            // Recursive types are cut, as ours are.
            _ if depth > 12 => Schema::any(),
            Some("__untyped_atomic_") => Schema {
                map_type: Some(MapType::Atomic),
                ..Schema::any()
            },
            Some("__untyped_deduced_") => Schema::any(),
            Some(name) => self.atom(&self.0[name], depth),
            None => self.atom(reference, depth),
        };
        match (
            reference["elementRelationship"].as_str(),
            converted.value_type,
        ) {
            (Some("atomic"), Some(ValueType::Object)) => {
                converted.map_type = Some(MapType::Atomic);
            }
            (Some("separable"), Some(ValueType::Object)) => {
                converted.map_type = Some(MapType::Granular);
            }
            _ => {}
        }
        converted
    }

    fn atom(&self, atom: &Value, depth: usize) -> Schema {
        let of = |value_type| Schema {
            value_type: Some(value_type),
            ..Schema::default()
        };
        let several = atom.get("scalar").is_some() && atom.get("map").is_some();
        if let Some(scalar) = atom["scalar"].as_str().filter(|_| !several) {
            return match scalar {
                "numeric" => of(ValueType::Number),
                "boolean" => of(ValueType::Boolean),
                "string" => of(ValueType::String),
                _ => Schema {
                    format: Some("untyped".into()),
                    ..of(ValueType::String)
                },
            };
        }
        if let Some(list) = atom.get("list").filter(|_| !several) {
            return self.list(list, depth);
        }
        let map = &atom["map"];
        let mut schema = if several {
            Schema::default()
        } else {
            of(ValueType::Object)
        };
        for field in map["fields"].as_array().into_iter().flatten() {
            let name = field["name"]
                .as_str()
                .expect("a field has a name")
                .to_owned();
            let mut field_schema = self.convert(&field["type"], depth + 1);
            field_schema.default = field.get("default").cloned();
            schema.properties.insert(name, Arc::new(field_schema));
        }
        if let Some(element) = map.get("elementType") {
            schema.additional = Additional::Schema(Arc::new(self.convert(element, depth + 1)));
        }
        if map["elementRelationship"] == "atomic" {
            schema.map_type = Some(MapType::Atomic);
        }
        schema
    }

    fn list(&self, list: &Value, depth: usize) -> Schema {
        let keys: Vec<String> = list["keys"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|key| key.as_str().map(str::to_owned))
            .collect();
        let list_type = match list["elementRelationship"].as_str() {
            Some("associative") if keys.is_empty() => ListType::Set,
            Some("associative") => ListType::Map,
            _ => ListType::Atomic,
        };
        Schema {
            value_type: Some(ValueType::Array),
            items: Some(Arc::new(self.convert(&list["elementType"], depth + 1))),
            list_type: Some(list_type),
            list_map_keys: keys,
            ..Schema::default()
        }
    }
}

fn context<'a>(schema: &'a Schema, object: &'a Value, reset: &'a FieldSet) -> TypeContext<'a> {
    TypeContext {
        api_version: object["apiVersion"]
            .as_str()
            .expect("an object has a version"),
        kind: object["kind"].as_str().expect("an object has a kind"),
        schema,
        model: Model::Dynamic,
        subresource: "",
        reset,
        converter: None,
    }
}

/// What every set leaves out.
fn never_owned() -> FieldSet {
    let metadata = |name| ["metadata", name];
    let names: Vec<[&str; 2]> = [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ]
    .map(metadata)
    .to_vec();
    let mut paths: Vec<&[&str]> = vec![&["apiVersion"], &["kind"], &["metadata"]];
    paths.extend(names.iter().map(<[&str; 2]>::as_slice));
    FieldSet::from_field_names(&paths)
}

#[test]
fn the_creator_of_a_real_object_owns_the_recorded_fields() {
    let folder = match corpus() {
        Ok(folder) => folder,
        Err(skipped) => return println!("{skipped}"),
    };
    let types = Types::read(&folder, "k8s-schema.yaml");
    for (object, set, type_name) in [
        ("pod.yaml", "podset.json", "io.k8s.api.core.v1.Pod"),
        ("node.yaml", "nodeset.json", "io.k8s.api.core.v1.Node"),
        (
            "endpoints.yaml",
            "endpointsset.json",
            "io.k8s.api.core.v1.Endpoints",
        ),
    ] {
        let schema = types.schema(type_name);
        let mut new = read(&folder, object);
        let fields = read(&folder, set);
        let want = FieldSet::decode(&fields).expect("the set is FieldsV1");
        assert_eq!(want.encode(), fields, "{set} reads and writes itself");
        let reset = FieldSet::new();
        let shown = new.clone();
        update(UpdateInput {
            context: context(&schema, &shown, &reset),
            live: None,
            new: &mut new,
            manager: "creator",
            now: "2024-01-01T00:00:00Z",
        })
        .expect("the object is what its schema says");
        let got = &new["metadata"]["managedFields"][0]["fieldsV1"];
        // These schemas are older than the rule that a reference to an owner is one value.
        let references = PathElement::field("ownerReferences");
        let want = FieldSet::from_paths(
            want.paths()
                .into_iter()
                .filter(|path| path.len() <= 3 || path.get(1) != Some(&references)),
        );
        assert_eq!(*got, want.difference(&never_owned()).encode(), "{object}");
    }
}

#[test]
fn a_set_of_a_custom_resource_reads_and_writes_itself() {
    let folder = match corpus() {
        Ok(folder) => folder,
        Err(skipped) => return println!("{skipped}"),
    };
    let fields = read(&folder, "prometheus-crdset.json");
    let set = FieldSet::decode(&fields).expect("the set is FieldsV1");
    assert_eq!(set.encode(), fields);
    assert_eq!(FieldSet::from_paths(set.paths()), set);
}

#[test]
fn applying_a_real_object_twice_changes_nothing() {
    let folder = match corpus() {
        Ok(folder) => folder,
        Err(skipped) => return println!("{skipped}"),
    };
    for (object, schema_file, type_name) in [
        ("pod.yaml", "k8s-schema.yaml", "io.k8s.api.core.v1.Pod"),
        ("node.yaml", "k8s-schema.yaml", "io.k8s.api.core.v1.Node"),
        (
            "k8s-deployment.yaml",
            "k8s-schema.yaml",
            "io.k8s.api.apps.v1.Deployment",
        ),
        (
            "apiresourceimport-cr.yaml",
            "apiresourceimport.yaml",
            "apiresourceimport",
        ),
    ] {
        let schema = Types::read(&folder, schema_file).schema(type_name);
        let mut config = read(&folder, object);
        if let Some(Value::Object(metadata)) = config.get_mut("metadata") {
            metadata.remove("managedFields");
            // Metadata has lost this field since.
            metadata.remove("clusterName");
        }
        let reset = FieldSet::new();
        let play = |live: Option<&Value>| {
            apply(ApplyInput {
                context: context(&schema, &config, &reset),
                live,
                config: config.clone(),
                manager: "applier",
                force: false,
                now: "2024-01-01T00:00:00Z",
            })
            .unwrap_or_else(|error| panic!("{object} by {schema_file}: {error}"))
        };
        let first = play(None);
        assert!(first.changed, "{object}");
        let second = play(Some(&first.object));
        assert!(!second.changed, "{object} by {schema_file}");
        assert_eq!(second.object, first.object, "{object}");
    }
}
