//! The definitions of others: every one of the corpus is accepted, and its schema makes sense of an object.

use std::error::Error;
use std::path::{Path, PathBuf};

use api::crd::CustomResourceDefinition;
use serde_json::{Map, Value, json};
use wheelhouse_schema::columns::Columns;
use wheelhouse_schema::structural::{self, MalformedFields, Schema, ValueType};
use wheelhouse_schema::{definition, validate};

/// Where the corpus is, whether it is there or not.
fn corpus() -> PathBuf {
    let given = std::env::var_os("WHEELHOUSE_CORPUS").map(PathBuf::from);
    given.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus"))
}

fn definitions(folder: &Path, found: &mut Vec<(String, Value)>) -> Result<(), Box<dyn Error>> {
    let entries = std::fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    let mut entries: Vec<PathBuf> = entries.iter().map(std::fs::DirEntry::path).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            definitions(&path, found)?;
        } else if path.extension().is_some_and(|it| it == "yaml") {
            let value = serde_saphyr::from_str(&std::fs::read_to_string(&path)?)?;
            found.push((path.display().to_string(), value));
        }
    }
    Ok(())
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
            let required = schema
                .required
                .iter()
                .chain(branches.flat_map(|it| &it.required));
            let fields =
                required.filter_map(|name| Some((name.clone(), sample(schema.field(name)?))));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        Some(ValueType::Array) => {
            let count = constraints.and_then(|it| it.min_items).unwrap_or(0);
            let item = schema.items.as_deref().map(sample).unwrap_or_default();
            Value::Array((0..count).map(|_| item.clone()).collect())
        }
        Some(ValueType::Boolean) => json!(true),
        Some(ValueType::Integer | ValueType::Number) => {
            json!(
                constraints
                    .and_then(|it| it.minimum)
                    .map_or(1.0, |it| it.value)
            )
        }
        Some(ValueType::String) => {
            if schema.format.as_deref() == Some("date-time") {
                json!("2024-01-01T00:00:00Z")
            } else {
                let length = constraints.and_then(|it| it.min_length).unwrap_or(1);
                json!("a".repeat(usize::try_from(length).unwrap_or(1)))
            }
        }
        None => json!(1),
    }
}

#[test]
fn definitions_of_others_are_accepted_and_their_schemas_work() {
    let folder = corpus().join("crds");
    if !folder.is_dir() {
        println!("skipped: corpus absent");
        return;
    }
    let mut found = Vec::new();
    definitions(&folder, &mut found).unwrap();
    assert!(found.len() > 50, "the corpus is there");
    for (path, value) in found {
        let mut definition = CustomResourceDefinition::from_value(&value)
            .unwrap_or_else(|error| panic!("{path}: {error}"));
        definition::complete(&mut definition);
        definition::note_stored_version(&mut definition);
        let errors = definition::validate_definition(&definition);
        assert!(errors.is_empty(), "{path}: {errors:?}");
        for version in &definition.spec.versions {
            let openapi = version
                .schema
                .as_ref()
                .unwrap()
                .open_api_v3_schema
                .as_ref()
                .unwrap();
            let schema = Schema::from_openapi(openapi).unwrap();
            try_schema(&path, &schema);
            Columns::of_version(&version.additional_printer_columns)
                .unwrap_or_else(|error| panic!("{path}: {error}"));
        }
    }
}

fn try_schema(path: &str, schema: &Schema) {
    let mut object = sample(schema);
    let fields = object.as_object_mut().expect("the root is an object");
    fields.insert("metadata".to_owned(), json!({"name": "a", "unknown": 1}));
    fields.insert("unknown".to_owned(), json!({"deep": [1]}));
    let unknown = structural::unknown_fields(&object, schema);
    assert!(
        unknown.contains(&"metadata.unknown".to_owned()),
        "{path}: {unknown:?}"
    );
    assert!(
        unknown.contains(&"unknown".to_owned()),
        "{path}: {unknown:?}"
    );
    structural::coerce_metadata(&mut object, schema, MalformedFields::Refused)
        .expect("the metadata is well-formed");
    structural::prune(&mut object, schema);
    structural::drop_nulls(&mut object, schema);
    structural::default(&mut object, schema).expect("a small object");
    assert_eq!(
        structural::unknown_fields(&object, schema),
        Vec::<String>::new(),
        "{path}"
    );
    let once = object.clone();
    structural::prune(&mut object, schema);
    structural::default(&mut object, schema).expect("a small object");
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
