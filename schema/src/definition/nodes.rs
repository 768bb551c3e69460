//! A walk over everything that is a schema in a schema.
//!
//! Source: `SchemaHas` in `apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go`.

use serde_json::{Map, Value};

/// Shows the keywords of a schema, and of all below it.
pub(super) fn each_node(schema: &Value, see: &mut dyn FnMut(&Map<String, Value>)) {
    let Some(keywords) = schema.as_object() else {
        return;
    };
    see(keywords);
    for name in ["items", "allOf", "anyOf", "oneOf"] {
        match keywords.get(name) {
            Some(Value::Array(schemas)) => schemas.iter().for_each(|it| each_node(it, see)),
            Some(schema) => each_node(schema, see),
            None => {}
        }
    }
    for name in ["not", "additionalProperties", "additionalItems"] {
        if let Some(schema) = keywords.get(name) {
            each_node(schema, see);
        }
    }
    for name in [
        "properties",
        "patternProperties",
        "definitions",
        "dependencies",
    ] {
        let schemas = keywords.get(name).and_then(Value::as_object);
        let schemas = schemas.into_iter().flat_map(Map::values);
        schemas.for_each(|it| each_node(it, see));
    }
}
