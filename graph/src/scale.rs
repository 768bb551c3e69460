//! The scale subresource of instances, where the gate `InstanceScale` is open: `kubectl scale` and autoscalers change a field of
//! an instance's spec.
//!
//! The definition names the fields as a CustomResourceDefinition does, in an annotation of `spec.schema.metadata`. kro copies that to the
//! generated CRD and has no scale subresource; its proposal KREP-007 has been closed.

use api::{crd::ScaleSubresource, wheelhouse::keys::ANNOTATION_SCALE};
use serde_json::{Value, json};

/// The keys of [`ANNOTATION_SCALE`]'s value.
const KEYS: [&str; 3] = [
    "specReplicasPath",
    "statusReplicasPath",
    "labelSelectorPath",
];

/// Adds the subresource to the version of a definition, if `schema`, which is `spec.schema` of the ResourceGraphDefinition, asks for one.
///
/// # Errors
/// Says what is wrong with the annotation.
pub(crate) fn declare(schema: &Value, version: &mut Value) -> Result<(), String> {
    let annotations = schema.pointer("/metadata/annotations");
    let Some(text) = annotations.and_then(|it| it[ANNOTATION_SCALE].as_str()) else {
        return Ok(());
    };
    let scale = read(text).and_then(|scale| {
        check(&scale, &version["schema"]["openAPIV3Schema"])?;
        Ok(scale)
    });
    let scale = scale.map_err(|error| format!("annotation {ANNOTATION_SCALE}: {error}"))?;
    version["subresources"]["scale"] = json!(scale);
    Ok(())
}

fn read(text: &str) -> Result<ScaleSubresource, String> {
    const WANT: &str = r#"want {"specReplicasPath": ".spec...", "statusReplicasPath": ".status...", "labelSelectorPath": ".status..."}"#;
    let value: Value = serde_json::from_str(text).map_err(|error| format!("{WANT}: {error}"))?;
    let map = value.as_object().ok_or(WANT)?;
    if let Some(key) = map.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(format!("{WANT}: unknown field {key:?}"));
    }
    serde_json::from_value(value).map_err(|error| format!("{WANT}: {error}"))
}

/// Checks that the fields are there, which Kubernetes does not: a path to nowhere would be found out by who scales.
fn check(scale: &ScaleSubresource, schema: &Value) -> Result<(), String> {
    let [replicas, observed, selector] = KEYS;
    let both = &[".spec.", ".status."][..];
    check_path(
        replicas,
        &scale.spec_replicas_path,
        &both[..1],
        "integer",
        schema,
    )?;
    check_path(
        observed,
        &scale.status_replicas_path,
        &both[1..],
        "integer",
        schema,
    )?;
    match scale.label_selector_path.as_deref() {
        Some(path) => check_path(selector, path, both, "string", schema),
        None => Ok(()),
    }
}

fn check_path(
    key: &str,
    path: &str,
    below: &[&str],
    wanted: &str,
    schema: &Value,
) -> Result<(), String> {
    if !below.iter().any(|prefix| path.starts_with(prefix)) {
        let below = below.join(" or ");
        return Err(format!("{key} {path:?} must begin with {below}"));
    }
    let mut field = schema;
    for name in path.split('.').skip(1) {
        field = field["properties"]
            .get(name)
            .ok_or_else(|| format!("{key} {path:?} is no field of the schema"))?;
    }
    let found = field["type"].as_str().unwrap_or("of no type");
    if found == wanted {
        return Ok(());
    }
    Err(format!("{key} {path:?} is {found}, and must be {wanted}"))
}

#[cfg(test)]
mod tests;
