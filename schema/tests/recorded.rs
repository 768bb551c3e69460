//! Answers of a kube-apiserver 1.36.3, recorded: the same requests must get the same answers here.
//!
//! What is left out of the records on purpose: messages that show a struct of Go (its fields come in another order), and
//! the cost of expressions, which is not estimated here.

use std::collections::BTreeSet;

use api::FieldError;
use api::GroupVersionKind;
use api::crd::CustomResourceDefinition;
use serde_json::{Value, json};
use wheelhouse_schema::structural::{self, MalformedFields, Schema};
use wheelhouse_schema::validate::{Part, inspect};
use wheelhouse_schema::{builtin, definition};

fn records(text: &str) -> Value {
    serde_json::from_str(text).expect("records are JSON")
}

fn cases(records: &Value) -> &[Value] {
    records["cases"].as_array().expect("records have cases")
}

fn texts(errors: &[FieldError]) -> BTreeSet<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn wanted(texts: &Value) -> BTreeSet<String> {
    serde_json::from_value(texts.clone()).expect("a list of texts")
}

#[test]
fn objects_are_pruned_defaulted_and_judged_alike() {
    let records = records(include_str!("recorded/objects.json"));
    let schema = Schema::from_openapi(&records["schema"]).unwrap();
    for case in cases(&records) {
        let mut object = case["object"].clone();
        let shown = object.to_string();
        let unknown = structural::unknown_fields(&object, &schema);
        let errors = if let Err(error) =
            structural::coerce_metadata(&mut object, &schema, MalformedFields::Refused)
        {
            BTreeSet::from([error.to_string()])
        } else {
            structural::prune(&mut object, &schema);
            structural::drop_nulls(&mut object, &schema);
            structural::default(&mut object, &schema).expect("a small object");
            texts(&inspect(&object, &schema, None, Part::Object, &[]).errors)
        };
        if let Some(want) = case.get("errors") {
            assert_eq!(errors, wanted(want), "{shown}");
            continue;
        }
        assert_eq!(errors, BTreeSet::new(), "{shown}");
        assert_eq!(json!(unknown), case["unknown"], "{shown}");
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("creationTimestamp");
        }
        assert_eq!(as_go_writes(object), case["result"], "{shown}");
    }
}

/// Go writes floats without a fraction as integers; here that is left to the parser and the writer of JSON.
fn as_go_writes(value: Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .map(|(name, it)| (name, as_go_writes(it)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.into_iter().map(as_go_writes).collect()),
        Value::Number(number) => match number.as_f64() {
            #[expect(clippy::cast_possible_truncation, reason = "integral and small")]
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 1e15 => {
                json!(float as i64)
            }
            _ => Value::Number(number),
        },
        other => other,
    }
}

#[test]
fn definitions_are_judged_alike() {
    let records = records(include_str!("recorded/definitions.json"));
    for case in cases(&records) {
        let name = &case["name"];
        let mut crd = CustomResourceDefinition::from_value(&case["definition"]).unwrap();
        definition::complete(&mut crd);
        definition::note_stored_version(&mut crd);
        let errors = texts(&definition::validate_definition(&crd));
        assert_eq!(errors, wanted(&case["errors"]), "{name}");
        let warnings: BTreeSet<String> = definition::warnings(&crd, None).into_iter().collect();
        assert_eq!(warnings, wanted(&case["warnings"]), "{name}");
    }
}

#[test]
fn updates_are_ratcheted_alike() {
    let records = records(include_str!("recorded/updates.json"));
    let schema = Schema::from_openapi(&records["schema"]).unwrap();
    for case in cases(&records) {
        let object = |spec: &Value| json!({"apiVersion": "example.com/v1", "kind": "Rat", "metadata": {"name": "r"}, "spec": spec});
        let old = object(&case["old"]);
        let mut new = old.clone();
        for (field, value) in case["change"].as_object().unwrap() {
            new["spec"][field] = value.clone();
        }
        if case["change"] == json!({}) {
            new["metadata"]["labels"] = json!({"x": "y"});
        }
        let found = inspect(&new, &schema, Some(&old), Part::Object, &[]);
        assert_eq!(
            texts(&found.errors),
            wanted(&case["errors"]),
            "{}",
            case["change"]
        );
        let warnings: BTreeSet<String> = found.warnings.into_iter().collect();
        assert_eq!(warnings, wanted(&case["warnings"]), "{}", case["change"]);
    }
}

/// What the recorded server adds and this crate does not: what a cluster allocates or watches over, and the traces of
/// Go's own types (nulls, and zeros that encoding leaves out).
const ADDED_BY_CLUSTER: [(&str, &str); 18] = [
    ("Deployment", "/spec/template/spec/containers/1/env/0/value"),
    ("DaemonSet", "/metadata/annotations"),
    ("DaemonSet", "/spec/template/spec/hostNetwork"),
    ("ReplicationController", "/spec/minReadySeconds"),
    ("Service", "/spec/clusterIP"),
    ("Service", "/spec/clusterIPs"),
    ("Service", "/spec/ipFamilies"),
    ("Service", "/spec/ipFamilyPolicy"),
    ("Service", "/spec/ports/0/nodePort"),
    ("PersistentVolumeClaim", "/metadata/finalizers"),
    ("PersistentVolume", "/metadata/finalizers"),
    ("PersistentVolume", "/status/lastPhaseTransitionTime"),
    ("HorizontalPodAutoscaler", "/status/currentMetrics"),
    ("ClusterRole", "/rules"),
    ("Event", "/eventTime"),
    ("Event", "/firstTimestamp"),
    ("Event", "/lastTimestamp"),
    ("CustomResourceDefinition", "/status"),
];

fn remove(value: &mut Value, pointer: &str) {
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer has a slash");
    if let Some(fields) = value.pointer_mut(parent).and_then(Value::as_object_mut) {
        fields.remove(name);
    }
}

#[test]
fn built_in_objects_are_completed_alike() {
    let records = records(include_str!("recorded/builtin.json"));
    for case in cases(&records) {
        let mut object = case["object"].clone();
        let gvk = GroupVersionKind::from_object(&object).unwrap();
        let schema = builtin::catalog().schema(&gvk).unwrap();
        let mut want = case["result"].clone();
        if gvk.kind == "Job" {
            // The selector carries a random identity, which the record gives.
            let uid = want
                .pointer("/spec/selector/matchLabels")
                .unwrap()
                .as_object()
                .unwrap();
            object["metadata"]["uid"] = uid.values().next().unwrap().clone();
        }
        builtin::complete(&mut object, &gvk, &schema).expect("a small object");
        builtin::prepare_for_create(&mut object, &gvk, &schema).expect("a small object");
        assert_eq!(builtin::validate(&object, &schema), vec![], "{}", gvk.kind);
        let once = object.clone();
        builtin::complete(&mut object, &gvk, &schema).expect("a small object");
        assert_eq!(object, once, "{}: twice is once", gvk.kind);
        remove(&mut object, "/metadata/uid");
        for (kind, pointer) in ADDED_BY_CLUSTER {
            if kind == gvk.kind {
                remove(&mut object, pointer);
                remove(&mut want, pointer);
            }
        }
        assert_eq!(object, want, "{}", gvk.kind);
    }
}

#[test]
fn nulls_in_built_in_objects_are_read_alike() {
    let records = records(include_str!("recorded/nulls.json"));
    for case in cases(&records) {
        let name = &case["name"];
        let mut object = case["object"].clone();
        let gvk = GroupVersionKind::from_object(&object).unwrap();
        let schema = builtin::catalog().schema(&gvk).unwrap();
        builtin::read_nulls(&mut object, &schema);
        builtin::complete(&mut object, &gvk, &schema).expect("a small object");
        let Some(want) = case.get("result") else {
            assert!(case["refused"].is_string(), "{name}: it has an outcome");
            continue;
        };
        let mut want = want.clone();
        remove(&mut object, "/status"); // begun by the server, and not recorded
        for (kind, pointer) in ADDED_BY_CLUSTER {
            if kind == gvk.kind {
                remove(&mut object, pointer);
                remove(&mut want, pointer);
            }
        }
        assert_eq!(object, want, "{name}");
    }
}
