//! S34: objects of built-in kinds are judged as by a real kube-apiserver.
//!
//! Every field of `fixtures/built-in-objects.yaml` in turn is left out, or has a value that somebody could send: a number that is too small
//! or too large, a text that is no name, an empty list, an item twice. Both servers create the result in a dry run, and are compared in the
//! status, the reason, and each cause with its field and its words. In what order causes come is not compared.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use futures::{StreamExt as _, stream};
use schema::builtin::catalog;
use serde_json::{Value, json};
use wheelhouse_tests::{
    Spoke,
    support::{Answer, Fixture, MERGE_PATCH, User},
};

const OBJECTS: &str = include_str!("../../fixtures/built-in-objects.yaml");

/// How many requests are under way at once.
const AT_ONCE: usize = 4;
/// How many differences are told.
const TOLD_MAX: usize = 40;

/// Texts that are no good for most fields.
const TEXTS: [&str; 10] = [
    "",
    "Not A Name!",
    "-1",
    "10.0.0.1/33",
    "a/b/../c",
    "Strange",
    "010.0.0.1",
    "10.0.0.0/+8",
    "192.0.2.5/24",
    "::ffff:10.0.0.1",
];
const NUMBERS: [i64; 5] = [-1, 0, 1, 70_000, 3_000_000_000];

/// An object with one field that is not as it was.
struct Variant {
    /// Where and what.
    name: String,
    object: Value,
}

#[tokio::test(flavor = "multi_thread")]
async fn s34_objects_of_built_in_kinds_are_judged_as_by_a_real_kube_apiserver() {
    let (fixture, spoke) = tokio::join!(Fixture::start(&[]), Spoke::start("peer"));
    fixture.embed("a").await;
    let text = std::fs::read_to_string(spoke.kubeconfig()).expect("the spoke has a kubeconfig");
    let (ours, peer) = (fixture.admin().await, User::connect("peer", &text).await);
    let (ours, peer) = (&ours, &peer);
    let variants: Vec<Variant> = objects().iter().flat_map(variants).collect();
    let asked = variants.len();
    let (mut refused, mut different, mut told) = (0_usize, 0_usize, String::new());
    let mut answers = stream::iter(variants)
        .map(|variant| async move {
            let path = path(&variant.object);
            let body = variant.object.to_string();
            let headers = [("content-type", "application/json")];
            let at_ours = format!("/clusters/a{path}");
            let answers = tokio::join!(
                ours.send("POST", &at_ours, &headers, body.clone()),
                peer.send("POST", &path, &headers, body)
            );
            (variant.name, answers)
        })
        .buffered(AT_ONCE);
    while let Some((name, (left, right))) = answers.next().await {
        let (left, right) = (judgement(&left), judgement(&right));
        refused += usize::from(right["status"] == 422);
        if left != right && !is_agreed(&name, &left, &right) {
            different += 1;
            if different <= TOLD_MAX {
                writeln!(
                    told,
                    "{name}:\n  the hub says {left}\n  kube-apiserver says {right}"
                )
                .expect("a text takes texts");
            }
        }
    }
    assert!(
        different == 0,
        "{different} of {asked} objects, {refused} of which kube-apiserver refuses, are judged differently:\n{told}"
    );
    assert!(refused > asked / 10, "{refused} of {asked} were refused");
    println!("S34: {asked} objects, {refused} refused");
    statuses_bring_the_metadata_along_that_they_do_there(ours, peer).await;
}

/// Kinds beside those of [`OBJECTS`] that have a status.
const WITH_STATUS: &[&str] = &[
    r#"{"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", "metadata": {"name": "s"},
        "spec": {"priorityLevelConfiguration": {"name": "exempt"}}}"#,
    r#"{"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "PriorityLevelConfiguration", "metadata": {"name": "s"},
        "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}}"#,
    r#"{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "s"},
        "spec": {"matchConstraints": {"resourceRules": [{"apiGroups": ["example.com"], "apiVersions": ["v1"],
        "operations": ["CREATE"], "resources": ["none"]}]}, "validations": [{"expression": "true"}]}}"#,
    r#"{"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.s.example.com"},
        "spec": {"group": "s.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10,
        "insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": "none"}}}"#,
    r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "ss.s.example.com"},
        "spec": {"group": "s.example.com", "scope": "Namespaced", "names": {"kind": "Ss", "plural": "ss"}, "versions": [{
        "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}}"#,
    r#"{"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "s"},
        "spec": {"request": "bm9uZQ==", "signerName": "example.com/none", "usages": ["client auth"]}}"#,
    r#"{"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "s"},
        "spec": {"attacher": "example.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}}}"#,
    r#"{"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "s"}, "spec": {"cidrs": ["10.9.0.0/24"]}}"#,
    r#"{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "s", "namespace": "default"}, "spec": {}}"#,
];

/// Writes the status of an object of each kind that has one, with metadata, and compares what comes of that.
async fn statuses_bring_the_metadata_along_that_they_do_there(ours: &User, peer: &User) {
    let others = WITH_STATUS
        .iter()
        .map(|text| serde_json::from_str(text).expect("an object"));
    let json = [("content-type", "application/json")];
    let (mut compared, mut told) = (BTreeSet::new(), String::new());
    for object in objects().into_iter().chain(others) {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        let collection = path(&object).replace("?dryRun=All", "");
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let status = format!("{collection}/{name}/status");
        let (at_ours, body) = (format!("/clusters/a{collection}"), object.to_string());
        let made = tokio::join!(
            ours.send("POST", &at_ours, &json, body.clone()),
            peer.send("POST", &collection, &json, body)
        );
        if (made.0.status, made.1.status) != (201, 201) {
            continue;
        }
        let patch =
            json!({"metadata": {"labels": {"l": "1"}, "annotations": {"a": "1"}}}).to_string();
        let merge = [("content-type", MERGE_PATCH)];
        let at_ours = format!("/clusters/a{status}");
        let (left, right) = tokio::join!(
            ours.send("PATCH", &at_ours, &merge, patch.clone()),
            peer.send("PATCH", &status, &merge, patch)
        );
        let written = |answer: &Answer| {
            let metadata = &answer.body["metadata"];
            json!([
                answer.status,
                metadata["labels"]["l"],
                metadata["annotations"]["a"]
            ])
        };
        let (left, right) = (written(&left), written(&right));
        if left != right {
            writeln!(told, "{kind}: the hub says {left}, kube-apiserver {right}")
                .expect("a text takes texts");
        }
        if right[0] == 200 {
            compared.insert(kind);
        }
    }
    assert!(told.is_empty(), "statuses are written otherwise:\n{told}");
    for kind in [
        "Deployment",
        "ReplicaSet",
        "FlowSchema",
        "ValidatingAdmissionPolicy",
    ] {
        assert!(compared.contains(kind), "{kind} is compared: {compared:?}");
    }
}

/// Whether two judgements differ as it is agreed.
fn is_agreed(name: &str, ours: &Value, peers: &Value) -> bool {
    let statuses = (ours["status"].as_i64(), peers["status"].as_i64());
    // What Go cannot even read, the hub finds when it validates.
    let is_unread = statuses == (Some(422), Some(400));
    // Plug-ins of a kube-apiserver look for the class and the account first, and an embedded cluster has no plug-ins.
    let asks_first = ["/spec/priorityClassName", "/spec/serviceAccountName"];
    let is_asked_first = statuses.1 == Some(403) && asks_first.iter().any(|it| name.contains(it));
    // A dry run of kube-apiserver allocates nothing, and says less or more of ports than it would.
    let is_allocated = name.starts_with("Service")
        && (name.contains("/nodePort ") || name.contains("/spec/ports ["));
    // The hub carries no list of time zones.
    let is_zone = name.starts_with("CronJob nightly /spec/timeZone ");
    // A template that is absent is an empty one.
    let absent = ["/spec/template left out", "/spec left out", "/spec {}"];
    let is_template = name.starts_with("ReplicationController")
        && statuses == (Some(422), Some(422))
        && absent.iter().any(|it| name.contains(it));
    is_unread || is_asked_first || is_allocated || is_zone || is_template
}

fn objects() -> Vec<Value> {
    let documents = OBJECTS.split("\n---\n");
    documents
        .map(|text| serde_saphyr::from_str(text).expect("an object"))
        .collect()
}

/// The collection that an object is created in, in a dry run.
fn path(object: &Value) -> String {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let gvk = api::GroupVersionKind::from_object(object).expect("a kind");
    let resource = catalog().by_kind(&gvk).expect("a built-in kind");
    let prefix = if resource.group.is_empty() {
        "/api"
    } else {
        "/apis"
    };
    let place = if resource.namespaced {
        "/namespaces/default"
    } else {
        ""
    };
    format!(
        "{prefix}/{api_version}{place}/{}?dryRun=All",
        resource.resource
    )
}

/// What is compared of an answer.
fn judgement(answer: &Answer) -> Value {
    if answer.status != 422 {
        return json!({"status": answer.status});
    }
    let causes = answer.body["details"]["causes"].as_array();
    let causes: BTreeSet<String> = causes
        .into_iter()
        .flatten()
        .map(|cause| {
            let field = cause["field"].as_str().unwrap_or_default();
            let message = cause["message"].as_str().unwrap_or_default();
            format!("{} {field}: {}", cause["reason"], regular(message))
        })
        .collect();
    json!({"status": answer.status, "causes": causes})
}

/// A message without what is agreed to differ: objects are shown by the names of Go's fields, and an empty one as none; the values that are
/// known come in an order that says nothing.
fn regular(message: &str) -> String {
    for prefix in [
        "Invalid value: ",
        "Unsupported value: ",
        "Duplicate value: ",
    ] {
        let Some(rest) = message.strip_prefix(prefix) else {
            continue;
        };
        if !rest.starts_with(['{', '[']) && !rest.starts_with("null") {
            continue;
        }
        let ends = ["}: ", "]: ", "l: "];
        let end = ends.iter().filter_map(|it| rest.find(it)).min();
        let tail = end.and_then(|end| rest.get(end + 1..)).unwrap_or_default();
        return regular(&format!("{prefix}(object){tail}"));
    }
    let Some((head, values)) = message.split_once("supported values: ") else {
        return message.to_owned();
    };
    let mut values: Vec<&str> = values.split(", ").collect();
    values.sort_unstable();
    format!("{head}supported values: {}", values.join(", "))
}

/// The object as it is, and each variant of it.
fn variants(object: &Value) -> Vec<Variant> {
    let kind = format!(
        "{} {}",
        object["kind"].as_str().unwrap_or_default(),
        object["metadata"]["name"].as_str().unwrap_or_default()
    );
    let mut variants = vec![Variant {
        name: kind.clone(),
        object: object.clone(),
    }];
    let mut pointers = Vec::new();
    walk(object, "", &mut pointers);
    for pointer in pointers {
        let Some(value) = object.pointer(&pointer) else {
            continue;
        };
        for replaced in replacements(value) {
            let mut changed = object.clone();
            let text = match replaced {
                None => {
                    leave_out(&mut changed, &pointer);
                    "left out".to_owned()
                }
                Some(value) => {
                    let text = value.to_string();
                    *changed.pointer_mut(&pointer).expect("it was found before") = value;
                    text.chars().take(60).collect()
                }
            };
            variants.push(Variant {
                name: format!("{kind} {pointer} {text}"),
                object: changed,
            });
        }
    }
    variants
}

/// The fields and items below a value, each by its JSON pointer.
fn walk(value: &Value, at: &str, found: &mut Vec<String>) {
    let inner: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, _)| {
                !at.is_empty() || !matches!(name.as_str(), "apiVersion" | "kind" | "metadata")
            })
            .map(|(name, value)| (name.replace('~', "~0").replace('/', "~1"), value))
            .collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(index, value)| (index.to_string(), value))
            .collect(),
        _ => Vec::new(),
    };
    for (name, value) in inner {
        let at = format!("{at}/{name}");
        walk(value, &at, found);
        found.push(at);
    }
}

/// What a value is replaced by; `None` leaves it out.
fn replacements(value: &Value) -> Vec<Option<Value>> {
    let mut others: Vec<Option<Value>> = vec![None];
    match value {
        Value::String(text) => {
            others.extend(
                TEXTS
                    .iter()
                    .filter(|it| *it != text)
                    .map(|it| Some(json!(it))),
            );
            others.push(Some(json!("x".repeat(300))));
        }
        Value::Number(number) => {
            others.extend(
                NUMBERS
                    .iter()
                    .filter(|it| number.as_i64() != Some(**it))
                    .map(|it| Some(json!(it))),
            );
        }
        Value::Bool(flag) => others.push(Some(json!(!flag))),
        Value::Array(items) => {
            others.push(Some(json!([])));
            let twice = items.iter().chain(items.first()).cloned().collect();
            others.push(Some(twice));
        }
        Value::Object(fields) => {
            others.push(Some(json!({})));
            if fields.values().all(Value::is_string) {
                for key in ["Bad Key!", "-"] {
                    let mut more = fields.clone();
                    more.insert(key.to_owned(), json!("1"));
                    others.push(Some(more.into()));
                }
            }
        }
        Value::Null => {}
    }
    others
}

fn leave_out(object: &mut Value, pointer: &str) {
    let (parent, name) = pointer.rsplit_once('/').unwrap_or_default();
    match object.pointer_mut(parent) {
        Some(Value::Object(fields)) => {
            fields.remove(&name.replace("~1", "/").replace("~0", "~"));
        }
        Some(Value::Array(items)) => {
            items.remove(name.parse().expect("an index"));
        }
        _ => {}
    }
}
