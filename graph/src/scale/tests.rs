//! What the annotation may say.

use api::kro::RgdSpec;

use super::*;
use crate::resolve::builtin_kinds::BuiltinKinds;
use crate::{CompileOptions, compile_with};

const GOOD: &str = r#"{"specReplicasPath": ".spec.size.web", "statusReplicasPath": ".status.ready", "labelSelectorPath": ".status.selector"}"#;

/// Compiles a definition whose annotation says this; returns the subresources of its version.
fn compiled(is_open: bool, scale: &str) -> Result<Value, String> {
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "${schema.metadata.name}"},
        "spec": {
            "replicas": "${schema.spec.size.web}",
            "selector": {"matchLabels": {"app": "${schema.metadata.name}"}},
            "template": {
                "metadata": {"labels": {"app": "${schema.metadata.name}"}},
                "spec": {"containers": [{"name": "web", "image": "web"}]},
            },
        },
    });
    let spec: RgdSpec = serde_json::from_value(json!({
        "schema": {
            "kind": "Web", "apiVersion": "v1",
            "metadata": {"annotations": {ANNOTATION_SCALE: scale}},
            "spec": {"size": {"web": "integer | default=1"}, "name": "string"},
            "status": {
                "ready": "${deployment.status.readyReplicas}",
                "selector": "app=${deployment.metadata.name}",
            },
        },
        "resources": [{"id": "deployment", "template": deployment}],
    }))
    .unwrap();
    let options = CompileOptions {
        scale: is_open,
        ..CompileOptions::default()
    };
    let graph = compile_with(&spec, "web", &BuiltinKinds, &options);
    let graph = graph.map_err(|error| error.to_string())?;
    let definition = serde_json::to_value(&graph.definition).unwrap();
    Ok(definition["spec"]["versions"][0]["subresources"].clone())
}

#[test]
fn the_annotation_becomes_the_subresource_where_the_gate_is_open() {
    let scale: Value = serde_json::from_str(GOOD).unwrap();
    assert_eq!(
        compiled(true, GOOD),
        Ok(json!({"status": {}, "scale": scale}))
    );
    assert_eq!(
        compiled(false, GOOD),
        Ok(json!({"status": {}})),
        "as in kro"
    );
    assert_eq!(
        compiled(false, "anything"),
        Ok(json!({"status": {}})),
        "as in kro"
    );
    let without =
        r#"{"specReplicasPath": ".spec.size.web", "statusReplicasPath": ".status.ready"}"#;
    let scale: Value = serde_json::from_str(without).unwrap();
    assert_eq!(
        compiled(true, without),
        Ok(json!({"status": {}, "scale": scale})),
        "a selector is for autoscalers"
    );
}

#[test]
fn what_cannot_be_scaled_is_refused() {
    let with = |key: &str, path: &str| {
        let mut scale: Value = serde_json::from_str(GOOD).unwrap();
        scale[key] = json!(path);
        scale.to_string()
    };
    for (what, scale, words) in [
        ("no JSON", "replicas".to_owned(), "want {"),
        (
            "no map",
            r#"[".spec.size.web", ".status.ready"]"#.to_owned(),
            "want {",
        ),
        (
            "another key",
            with("replicas", ".spec.size"),
            "unknown field \"replicas\"",
        ),
        (
            "no path",
            with("specReplicasPath", ""),
            "must begin with .spec.",
        ),
        (
            "of the status",
            with("specReplicasPath", ".status.ready"),
            "must begin with .spec.",
        ),
        (
            "of the spec",
            with("statusReplicasPath", ".spec.size.web"),
            "must begin with .status.",
        ),
        (
            "metadata",
            with("labelSelectorPath", ".metadata.name"),
            "must begin with .spec. or .status.",
        ),
        (
            "a list",
            with("specReplicasPath", ".spec.size[0]"),
            "is no field of the schema",
        ),
        (
            "no field",
            with("specReplicasPath", ".spec.replicas"),
            "is no field of the schema",
        ),
        (
            "a map",
            with("specReplicasPath", ".spec.size"),
            "is object, and must be integer",
        ),
        (
            "a text",
            with("specReplicasPath", ".spec.name"),
            "is string, and must be integer",
        ),
        (
            "no text",
            with("labelSelectorPath", ".status.ready"),
            "is integer, and must be string",
        ),
    ] {
        let refused = compiled(true, &scale).expect_err(what);
        let is_told =
            refused.contains(words) && refused.contains("annotation wheelhouse.dev/scale: ");
        assert!(is_told, "{what}: {refused}");
    }
}
