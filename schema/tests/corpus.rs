//! The definitions of others: every one of the corpus is accepted, and its schema makes sense of an object.

use std::path::{Path, PathBuf};

use api::crd::CustomResourceDefinition;
use wheelhouse_schema::columns::Columns;
use wheelhouse_schema::structural::{self, MalformedFields, Schema, ValueType};
use wheelhouse_schema::{definition, validate};
use serde_json::{Map, Value, json};

fn corpus() -> Option<PathBuf> {
    let given = std::env::var_os("WHEELHOUSE_CORPUS").map(PathBuf::from);
    let folder = given.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus"));
    if folder.join("crds").is_dir() {
        return Some(folder);
    }
    println!("skipped: corpus absent");
    None
}

fn definitions(folder: &Path, found: &mut Vec<(String, Value)>) {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            definitions(&path, found);
        } else if path.extension().is_some_and(|it| it == "yaml") {
            let text = std::fs::read_to_string(&path).unwrap();
            let value: Value = serde_saphyr::from_str(&text).unwrap();
            found.push((path.display().to_string(), value));
        }
    }
}

/// The smallest value that a schema permits, as far as one can tell without solving it.
fn sample(schema: &Schema) -> Value {
    let constraints = schema.constraints.as_deref();
    if let Some(first) = constraints.and_then(|it| it.enumeration.first()) {
        return first.clone();
    }
    if let Some(default) = &schema.default {
        return default.clone();
    }
    match schema.value_type {
        Some(ValueType::Object) => {
            let branches = constraints.map(|it| [it.one_of.first(), it.any_of.first()]);
            let branches = branches.into_iter().flatten().flatten();
            let required = schema.required.iter().chain(branches.flat_map(|it| &it.required));
            let fields = required.filter_map(|name| Some((name.clone(), sample(schema.field(name)?))));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        Some(ValueType::Array) => {
            let count = constraints.and_then(|it| it.min_items).unwrap_or(0);
            let item = schema.items.as_deref().map(sample).unwrap_or_default();
            Value::Array((0..count).map(|_| item.clone()).collect())
        }
        Some(ValueType::Boolean) => json!(true),
        Some(ValueType::Integer | ValueType::Number) => {
            json!(constraints.and_then(|it| it.minimum).map_or(1.0, |it| it.value))
        }
        Some(ValueType::String) => match schema.format.as_deref() {
            Some("date-time") => json!("2024-01-01T00:00:00Z"),
            _ => {
                let length = constraints.and_then(|it| it.min_length).unwrap_or(1);
                json!("a".repeat(usize::try_from(length).unwrap()))
            }
        },
        None => json!(1),
    }
}

#[test]
fn definitions_of_others_are_accepted_and_their_schemas_work() {
    let Some(folder) = corpus() else { return };
    let mut found = Vec::new();
    definitions(&folder.join("crds"), &mut found);
    assert!(found.len() > 50, "the corpus is there");
    for (path, value) in found {
        let mut definition = CustomResourceDefinition::from_value(&value)
            .unwrap_or_else(|error| panic!("{path}: {error}"));
        definition::complete(&mut definition);
        definition::note_stored_version(&mut definition);
        let errors = definition::validate_definition(&definition);
        assert!(errors.is_empty(), "{path}: {errors:?}");
        for version in &definition.spec.versions {
            let openapi = version.schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap();
            let schema = Schema::from_openapi(openapi).unwrap();
            try_schema(&path, &schema);
            Columns::of_version(&version.additional_printer_columns)
                .unwrap_or_else(|error| panic!("{path}: {error}"));
        }
    }
}

fn try_schema(path: &str, schema: &Schema) {
    let mut object = sample(schema);
    let fields = object.as_object_mut().unwrap();
    fields.insert("metadata".to_owned(), json!({"name": "a", "unknown": 1}));
    fields.insert("unknown".to_owned(), json!({"deep": [1]}));
    let unknown = structural::unknown_fields(&object, schema);
    assert!(unknown.contains(&"metadata.unknown".to_owned()), "{path}: {unknown:?}");
    assert!(unknown.contains(&"unknown".to_owned()), "{path}: {unknown:?}");
    structural::coerce_metadata(&mut object, schema, MalformedFields::Refused).unwrap();
    structural::prune(&mut object, schema);
    structural::drop_nulls(&mut object, schema);
    structural::default(&mut object, schema);
    assert_eq!(structural::unknown_fields(&object, schema), Vec::<String>::new(), "{path}");
    let once = object.clone();
    structural::prune(&mut object, schema);
    structural::default(&mut object, schema);
    assert_eq!(object, once, "{path}: twice is once");
    for error in validate(&object, schema, None) {
        // The sample does not solve patterns, rules and combinators; shapes it does satisfy.
        let text = error.to_string();
        let is_shape = text.contains("must be of type") || text.contains("Required value");
        assert!(!is_shape, "{path}: {text}");
    }
    for error in validate(&object, schema, Some(&once)) {
        let text = error.to_string();
        assert!(!text.contains("rule compile error"), "{path}: {text}");
    }
}
