//! Patches and the ownership of fields.

use std::sync::{Arc, LazyLock};

use api::{GroupVersionKind, json};
use schema::Schema;
use schema::builtin::catalog;
use schema::fieldmanager::{
    ApplyInput, FieldSet, ManagedFields, Model, TypeContext, UpdateInput, apply, update,
};
use schema::strategic::strategic_merge;
use serde_json::Value;

use crate::{Target, input};

/// Merge patches: the second time changes nothing.
pub(crate) const MERGE_PATCH: Target = Target {
    name: "merge-patch",
    run: |data| {
        let [object, patch] = input::parts::<2>(data);
        let (Ok(mut object), Ok(patch)) = (json::parse(object), json::parse(patch)) else {
            return;
        };
        json_patch::merge(&mut object, &patch);
        let once = object.clone();
        json_patch::merge(&mut object, &patch);
        assert_eq!(object, once, "twice is once");
    },
    seeds: &[
        "{\"a\":1,\"b\":{\"c\":[1]}}\n====\n{\"a\":null,\"b\":{\"c\":[2],\"d\":{\"e\":null}}}",
    ],
    corpus: None,
    made: None,
    words: &["null", "\n====\n"],
};

static DEPLOYMENT: LazyLock<Arc<Schema>> = LazyLock::new(|| {
    catalog()
        .schema(&GroupVersionKind::new("apps", "v1", "Deployment"))
        .unwrap_or_else(|| Arc::new(Schema::any()))
});

/// Strategic merge patches of a Deployment: they make objects.
pub(crate) const STRATEGIC_PATCH: Target = Target {
    name: "strategic-patch",
    run: |data| {
        let [object, patch] = input::parts::<2>(data);
        let (Ok(object), Ok(patch)) = (json::parse(object), json::parse(patch)) else {
            return;
        };
        if let Ok(merged) = strategic_merge(object, patch, &DEPLOYMENT, "Deployment") {
            assert!(merged.is_object(), "a map merged into a map is a map");
        }
    },
    seeds: &[
        "{\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"a\",\"image\":\"x\",\"ports\":[{\"containerPort\":80}]},{\"name\":\"b\"}]}}},\"metadata\":{\"finalizers\":[\"a\",\"b\"]}}\n====\n{\"spec\":{\"template\":{\"spec\":{\"$setElementOrder/containers\":[{\"name\":\"b\"},{\"name\":\"a\"}],\"containers\":[{\"name\":\"a\",\"image\":\"y\",\"$patch\":\"delete\"}]}}},\"metadata\":{\"$deleteFromPrimitiveList/finalizers\":[\"a\"]}}",
        "{\"spec\":{\"strategy\":{\"type\":\"RollingUpdate\",\"rollingUpdate\":{}}}}\n====\n{\"spec\":{\"strategy\":{\"$retainKeys\":[\"type\"],\"type\":\"Recreate\"},\"template\":{\"$patch\":\"replace\",\"spec\":null}}}",
    ],
    corpus: None,
    made: None,
    words: &[
        "\"$patch\"",
        "\"replace\"",
        "\"delete\"",
        "\"merge\"",
        "\"$retainKeys\"",
        "\"$setElementOrder/containers\"",
        "\"$deleteFromPrimitiveList/finalizers\"",
        "\"containers\"",
        "\"name\"",
        "\"ports\"",
        "\"containerPort\"",
        "\n====\n",
    ],
};

static WIDGET: LazyLock<Arc<Schema>> = LazyLock::new(|| {
    let schema = serde_json::json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "size": {"type": "integer"},
            "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "atoms": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"},
            "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "port"],
                "items": {"type": "object", "required": ["name"], "properties": {
                    "name": {"type": "string"}, "port": {"type": "integer", "default": 80},
                    "value": {"type": "string"}}}},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
            "one": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": {"type": "string"}}},
            "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }},
    }});
    Schema::from_openapi(&schema).unwrap_or_else(|_refused| Arc::new(Schema::any()))
});

/// Server-side apply: the second time changes nothing, and what a manager owns can be read.
pub(crate) const APPLY: Target = Target {
    name: "apply",
    run: |data| {
        let [first, second, third] = input::parts::<3>(data);
        let (deployment, widget): (&Schema, &Schema) = (&DEPLOYMENT, &WIDGET);
        for (schema, model, api_version, kind) in [
            (widget, Model::Dynamic, "a.io/v1", "Widget"),
            (deployment, Model::Native, "apps/v1", "Deployment"),
        ] {
            let reset = FieldSet::from_field_names(&[&["status"]]);
            let context = TypeContext {
                api_version,
                kind,
                schema,
                model,
                subresource: "",
                reset: &reset,
                converter: None,
            };
            let mut live = None;
            for (part, manager) in [(first, "one"), (second, "two"), (first, "one")] {
                live = applied(context, live, part, manager);
            }
            if let Some(mut changed) = document_of(third, context) {
                let input = UpdateInput {
                    context,
                    live: live.as_ref(),
                    new: &mut changed,
                    manager: "three",
                    now: NOW,
                };
                drop(update(input));
                drop(applied(context, Some(changed), first, "one"));
            }
        }
    },
    seeds: &[
        "{\"spec\":{\"size\":1,\"list\":[{\"name\":\"a\",\"value\":\"x\"}],\"set\":[\"a\",\"b\"],\"map\":{\"a\":\"b\"}}}\n====\n{\"spec\":{\"list\":[{\"name\":\"a\",\"port\":81},{\"name\":\"b\"}],\"set\":[\"c\"],\"one\":{\"a\":\"x\"},\"any\":{\"x\":[1]}}}\n====\n{\"spec\":{\"size\":2,\"atoms\":[\"a\"]}}",
        "spec:\n  replicas: 2\n  selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b}}\n    spec:\n      containers:\n      - {name: a, image: x, ports: [{containerPort: 80}], env: [{name: A, value: b}]}\n====\nspec: {replicas: 3, template: {spec: {containers: [{name: a, image: y}]}}}\n====\nspec: {replicas: 4}\n",
    ],
    corpus: None,
    made: None,
    words: &[
        "\"list\":",
        "\"set\":",
        "\"name\":",
        "\"port\":",
        "\"any\":",
        "null",
        "\n====\n",
        "\"managedFields\":",
    ],
};

const NOW: &str = "2026-01-01T00:00:00Z";

fn document_of(part: &[u8], context: TypeContext<'_>) -> Option<Value> {
    let mut document = input::document(part)?;
    let fields = document.as_object_mut()?;
    fields.insert("apiVersion".to_owned(), context.api_version.into());
    fields.insert("kind".to_owned(), context.kind.into());
    Some(document)
}

/// Applies, twice, and answers with what is live then.
fn applied(
    context: TypeContext<'_>,
    live: Option<Value>,
    part: &[u8],
    manager: &str,
) -> Option<Value> {
    let Some(config) = document_of(part, context) else {
        return live;
    };
    let run = |live: Option<&Value>| {
        apply(ApplyInput {
            context,
            live,
            config: config.clone(),
            manager,
            force: true,
            now: NOW,
        })
    };
    let Ok(outcome) = run(live.as_ref()) else {
        return live;
    };
    let managed = outcome.object.pointer("/metadata/managedFields");
    assert!(
        ManagedFields::decode(managed).is_ok(),
        "owners can be read: {managed:?}"
    );
    let again = run(Some(&outcome.object));
    let again = again.unwrap_or_else(|error| unreachable!("applied once, refused then: {error}"));
    assert_eq!(again.object, outcome.object, "twice is once, for {manager}");
    Some(outcome.object)
}

/// FieldsV1: round trips, and sets that behave as sets.
pub(crate) const FIELDS: Target = Target {
    name: "fields",
    run: |data| {
        let [left, right] = input::parts::<2>(data);
        let decode = |part| FieldSet::decode(&json::parse(part).ok()?).ok();
        let Some(left) = decode(left) else { return };
        let again = FieldSet::decode(&left.encode());
        assert_eq!(again.as_ref(), Ok(&left), "a round trip changes nothing");
        let text = json::parse(left.to_json().as_bytes()).expect("it writes JSON");
        assert_eq!(
            FieldSet::decode(&text),
            Ok(left.clone()),
            "nor does one over text"
        );
        assert_eq!(FieldSet::from_paths(left.paths()), left, "it is its paths");
        let Some(right) = decode(right) else { return };
        let both = left.clone().union(right.clone());
        assert!(
            left.is_subset(&both) && right.is_subset(&both),
            "a union holds both"
        );
        let common = left.intersection(&right);
        assert!(
            common.is_subset(&left) && common.is_subset(&right),
            "both hold what is common"
        );
        let rest = left.clone().difference(&right);
        assert!(
            rest.intersection(&right).is_empty(),
            "a difference shares nothing"
        );
        assert_eq!(
            rest.union(common),
            left,
            "difference and intersection are the whole"
        );
    },
    seeds: &[
        "{\"f:metadata\":{\"f:labels\":{\".\":{},\"f:a\":{}}},\"f:spec\":{\"f:list\":{\"k:{\\\"name\\\":\\\"a\\\",\\\"port\\\":1}\":{\".\":{},\"f:x\":{}},\"v:\\\"b\\\"\":{},\"i:3\":{}}}}\n====\n{\"f:spec\":{\"f:list\":{\"v:\\\"b\\\"\":{}}}}",
        "{\"v:1.0\":{},\"v:1\":{},\"k:{\\\"a\\\":null}\":{},\"v:true\":{}}\n====\n{}",
    ],
    corpus: None,
    made: None,
    words: &[
        "\"f:",
        "\"k:{\\\"name\\\":",
        "\"v:",
        "\"i:",
        "\".\":{}",
        "\n====\n",
        "\"v:1e2\"",
        "\"v:-0\"",
    ],
};

/// Entries of managedFields: written and read again they are the same.
pub(crate) const MANAGED_FIELDS: Target = Target {
    name: "managed-fields",
    run: |data| {
        let Ok(entries) = json::parse(data) else {
            return;
        };
        let Ok(managed) = ManagedFields::decode(Some(&entries)) else {
            return;
        };
        let once = Value::Array(managed.encode());
        let again = ManagedFields::decode(Some(&once)).expect("what was written can be read");
        assert_eq!(
            Value::Array(again.encode()),
            once,
            "a round trip changes nothing"
        );
    },
    seeds: &[
        "[{\"manager\":\"a\",\"operation\":\"Apply\",\"apiVersion\":\"v1\",\"time\":\"2026-01-01T00:00:00Z\",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":{\"f:a\":{}}},{\"manager\":\"b\",\"operation\":\"Update\",\"apiVersion\":\"v1\",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":{},\"subresource\":\"status\"}]",
    ],
    corpus: None,
    made: None,
    words: &[
        "\"manager\":",
        "\"operation\":\"Apply\"",
        "\"fieldsV1\":",
        "\"time\":",
        "null",
        "\"subresource\":",
    ],
};
