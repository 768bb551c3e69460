//! External references: a name or a selector, and what a selector may look like.
//!
//! Source: kro v0.9.4 `pkg/graph/validation.go` validateExternalRefMetadata.

use std::sync::{Arc, LazyLock};

use api::FieldPath;
use api::kro::ExternalRefMetadata;
use api::selector::LabelSelector;
use schema::Schema;
use schema::structural::{Additional, ValueType};
use serde::Deserialize as _;
use serde_json::Value;

use crate::scalar::{self, Scalar};
use crate::template;

const SHAPE: &str =
    "selector must be a Kubernetes LabelSelector object or a CEL expression that resolves to one";

/// The schema of a LabelSelector.
static LABEL_SELECTOR: LazyLock<Schema> = LazyLock::new(|| {
    let node = |value_type| Schema {
        value_type: Some(value_type),
        ..Schema::default()
    };
    let text = || Arc::new(node(ValueType::String));
    let list = |items| {
        Arc::new(Schema {
            items: Some(items),
            ..node(ValueType::Array)
        })
    };
    let object = |fields: Vec<(&str, Arc<Schema>)>| Schema {
        properties: fields
            .into_iter()
            .map(|(name, field)| (name.to_owned(), field))
            .collect(),
        ..node(ValueType::Object)
    };
    let requirement = object(vec![
        ("key", text()),
        ("operator", text()),
        ("values", list(text())),
    ]);
    let labels = Schema {
        additional: Additional::Schema(text()),
        ..node(ValueType::Object)
    };
    object(vec![
        ("matchExpressions", list(Arc::new(requirement))),
        ("matchLabels", Arc::new(labels)),
    ])
});

/// Gives the selector of a reference, if it has one.
pub(crate) fn selector(metadata: &ExternalRefMetadata) -> Option<&Value> {
    metadata
        .selector
        .as_ref()
        .filter(|selector| !selector.is_null())
}

/// Checks that a reference has a name or a selector, and that the selector is one.
pub(crate) fn check(metadata: &ExternalRefMetadata) -> Result<(), String> {
    let has_name = !metadata.name.trim().is_empty();
    match selector(metadata) {
        Some(selector) if !has_name => check_selector(selector),
        None if has_name => Ok(()),
        _ => Err("exactly one of name or selector must be provided".to_owned()),
    }
}

fn check_selector(selector: &Value) -> Result<(), String> {
    match selector {
        Value::String(text) => match scalar::scan(text) {
            Ok(Scalar::Standalone(_)) => Ok(()),
            Ok(Scalar::Plain | Scalar::Template(_)) => Err(SHAPE.to_owned()),
            Err(error) => Err(format!("invalid selector expression: {error}")),
        },
        Value::Object(_) => {
            let selector = with_floats(selector);
            let found = template::extract(&selector, &LABEL_SELECTOR, "metadata.selector")?;
            // With an expression in it, the rest is only known when it is used.
            if found.is_empty() {
                check_literal(&selector)
            } else {
                Ok(())
            }
        }
        _ => Err(SHAPE.to_owned()),
    }
}

/// Turns integers into floats: kro decodes a selector without care for integers, and says so in its refusals.
fn with_floats(value: &Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().map_or(Value::Null, Value::from),
        Value::Array(items) => items.iter().map(with_floats).collect(),
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(key, value)| (key.clone(), with_floats(value)))
                .collect(),
        ),
        other => other.clone(),
    }
}

fn check_literal(selector: &Value) -> Result<(), String> {
    let selector = LabelSelector::deserialize(selector)
        .map_err(|error| format!("invalid selector object: {error}"))?;
    let errors = selector.validate(&FieldPath::new("metadata").child("selector"));
    if errors.is_empty() {
        return Ok(());
    }
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    Err(format!("invalid label selector: [{}]", errors.join(" ")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checked(metadata: Value) -> Result<(), String> {
        check(&serde_json::from_value(metadata).expect("is metadata"))
    }

    #[test]
    fn a_reference_has_a_name_or_a_selector() {
        let one = "exactly one of name or selector must be provided";
        let cases = [
            (json!({"name": "a"}), Ok(())),
            (json!({"name": " "}), Err(one)),
            (json!({}), Err(one)),
            (json!({"name": "a", "selector": null}), Ok(())),
            (json!({"name": "a", "selector": {}}), Err(one)),
            (json!({"selector": {}}), Ok(())),
        ];
        for (metadata, want) in cases {
            assert_eq!(
                checked(metadata.clone()),
                want.map_err(str::to_owned),
                "{metadata}"
            );
        }
    }

    #[test]
    fn selectors_are_checked_as_far_as_they_are_literal() {
        let cases = [
            (json!({"matchLabels": {"a": "b"}}), Ok(())),
            (json!("${schema.spec.selector}"), Ok(())),
            (json!({"matchLabels": "${schema.spec.labels}"}), Ok(())),
            (
                json!({"matchLabels": {"a": "${schema.spec.a}"}, "matchExpressions": [{"operator": "Bad"}]}),
                Ok(()),
            ),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["${schema.spec.a}"]}]}),
                Ok(()),
            ),
            (json!(5), Err(SHAPE)),
            (json!(["a"]), Err(SHAPE)),
            (json!(""), Err(SHAPE)),
            (json!("x-${a}"), Err(SHAPE)),
            (
                json!({"matchLabel": {}}),
                Err(
                    "error getting field schema for path metadata.selector.matchLabel: schema not found for field \
                     matchLabel",
                ),
            ),
            (
                json!({"matchLabels": "x"}),
                Err("expected object type for path metadata.selector.matchLabels, got string"),
            ),
            (
                json!({"matchLabels": {"a": 5}}),
                Err("expected string type for path metadata.selector.matchLabels.a, got float64"),
            ),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "Bad"}]}),
                Err(
                    "invalid label selector: [metadata.selector.matchExpressions[0].operator: Invalid value: \
                     \"Bad\": not a valid selector operator]",
                ),
            ),
        ];
        for (selector, want) in cases {
            let got = checked(json!({"selector": selector}));
            assert_eq!(got, want.map_err(str::to_owned), "{selector}");
        }
    }
}
