//! Definitions of a few bytes that would become large: each is refused, before the memory is taken.

use api::{GroupVersionKind, kro::RgdSpec};
use serde_json::{Map, Value, json};
use wheelhouse_graph::{ResolveError, ResolvedKind, SchemaResolver, compile};

/// A cluster with the built-in kinds alone.
struct BuiltIn;

impl SchemaResolver for BuiltIn {
    fn resolve(&self, gvk: &GroupVersionKind) -> Result<ResolvedKind, ResolveError> {
        ResolvedKind::built_in(gvk).ok_or_else(|| ResolveError::not_served(gvk, false))
    }
}

/// Compiles a definition of one Pod.
fn compiled(types: &Value, status: &Value) -> Result<(), String> {
    let spec = json!({
        "schema": {
            "apiVersion": "v1alpha1", "kind": "Large", "spec": {"image": "string"}, "types": types, "status": status,
        },
        "resources": [{"id": "pod", "template": {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
            "spec": {"containers": [{"name": "a", "image": "${schema.spec.image}"}]},
        }}],
    });
    let spec: RgdSpec = serde_json::from_value(spec).expect("is a definition");
    compile(&spec, "large", &BuiltIn)
        .map(|_graph| ())
        .map_err(|error| error.to_string())
}

/// So many fields of the status, each a whole Pod.
fn pods(count: usize) -> Value {
    let fields = (0..count).map(|place| (format!("f{place}"), json!("${pod}")));
    Value::Object(fields.collect::<Map<_, _>>())
}

#[test]
fn a_status_of_many_whole_objects_is_refused() {
    compiled(&json!({}), &pods(3)).expect("a few are fine");
    let error = compiled(&json!({}), &pods(20_000)).expect_err("many are not");
    assert!(
        error.ends_with("would take more than 67108864 bytes of memory"),
        "{error}"
    );
}

#[test]
fn types_that_double_are_refused() {
    let types = (1..60).map(|place| {
        let part = format!("T{:02}", place - 1);
        (format!("T{place:02}"), json!({"x": part, "y": part}))
    });
    let types = types.chain([("T00".to_owned(), json!("string"))]);
    let types = Value::Object(types.collect::<Map<_, _>>());
    let error = compiled(&types, &json!({})).expect_err("no memory holds it");
    assert!(
        error.ends_with("would take more than 67108864 bytes of memory"),
        "{error}"
    );
}
