//! How what was found is told: bounded, printable, and nothing that may be secret.

use api::{
    meta,
    wheelhouse::preview::{ChildPreview, FieldPreview, NodePreview},
};
use graph::{
    NodePlan,
    foresight::{ChildChange, FieldChange},
    printable,
};
use serde_json::Value;

/// Bytes of a text.
const TEXT_BYTES_MAX: usize = 512;
/// Bytes of a value.
const VALUE_BYTES_MAX: usize = 120;
/// Bytes of the path of a field.
const PATH_BYTES_MAX: usize = 253;
/// Fields of one child.
const FIELD_COUNT_MAX: usize = 20;
/// Fields of Secrets that are told.
const NOT_SECRET: [&str; 3] = [".metadata", ".type", ".immutable"];

/// A text of an author, a spoke or an instance.
pub(super) fn text(text: &str) -> String {
    printable(text, TEXT_BYTES_MAX)
}

pub(super) fn child(change: &ChildChange) -> ChildPreview {
    let is_secret = change.gvk.group.is_empty() && change.gvk.kind == "Secret";
    let reference = &change.reference;
    let name = |text: &str| printable(text, PATH_BYTES_MAX);
    ChildPreview {
        action: change.action.as_str().to_owned(),
        node_id: name(&change.node),
        api_version: name(&change.gvk.api_version()),
        kind: name(&change.gvk.kind),
        namespace: name(&reference.namespace),
        name: name(&reference.name),
        fields: change
            .fields
            .iter()
            .take(FIELD_COUNT_MAX)
            .map(|it| field(it, is_secret))
            .collect(),
        fields_omitted: change.fields.len().saturating_sub(FIELD_COUNT_MAX) as u64,
    }
}

fn field(change: &FieldChange, is_secret: bool) -> FieldPreview {
    let is_told = !is_secret || NOT_SECRET.iter().any(|it| change.path.starts_with(it));
    let value = |value: &Option<Value>| {
        let value = value.as_ref().filter(|_| is_told)?;
        Some(printable(&value.to_string(), VALUE_BYTES_MAX))
    };
    FieldPreview {
        path: printable(&change.path, PATH_BYTES_MAX),
        from: value(&change.from),
        to: value(&change.to),
    }
}

pub(super) fn node(plan: &NodePlan) -> NodePreview {
    NodePreview {
        id: plan.id.to_string(),
        reason: plan.reason.as_str().to_owned(),
        message: text(plan.message.as_deref().unwrap_or_default()),
    }
}

/// The namespace and the name of an object.
pub(super) fn names(object: &Value) -> (String, String) {
    let name = |text: &str| printable(text, PATH_BYTES_MAX);
    (name(meta::namespace(object)), name(meta::name(object)))
}

#[cfg(test)]
mod tests {
    use api::GroupVersionKind;
    use graph::{ObjectRef, foresight::ChildAction};
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_secrets_are_not_told_and_others_are_cut() {
        let fields = || {
            let field = |path: &str, to: Value| FieldChange {
                path: path.to_owned(),
                from: None,
                to: Some(to),
            };
            vec![
                field(".stringData.word", json!("xyzzy")),
                field(".metadata.labels.a", json!("b\u{1b}")),
                field(".data", json!({"long": "x".repeat(1000)})),
            ]
        };
        let of_kind = |kind: &str| {
            child(&ChildChange {
                node: "n".to_owned(),
                reference: ObjectRef::default(),
                gvk: GroupVersionKind::new("", "v1", kind),
                action: ChildAction::Update,
                fields: fields(),
            })
        };
        let to = |child: &ChildPreview| -> Vec<Option<String>> {
            child.fields.iter().map(|it| it.to.clone()).collect()
        };
        let told = to(&of_kind("Secret"));
        assert_eq!(told, [None, Some("\"b\\u001b\"".to_owned()), None]);
        let told = to(&of_kind("ConfigMap"));
        assert_eq!(told[0].as_deref(), Some("\"xyzzy\""));
        assert!(
            told[2]
                .as_ref()
                .is_some_and(|it| it.len() <= VALUE_BYTES_MAX)
        );
    }
}
