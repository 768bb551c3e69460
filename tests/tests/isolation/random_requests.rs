//! S31: random requests are answered as by a real kube-apiserver.
//!
//! One stream of requests, drawn by a seed, goes to an embedded cluster and to a kube-apiserver. Each answer is compared: status, type,
//! warnings and body, with `managedFields` and every message. What a kube-apiserver does by Go code of one kind (most of its own kinds are
//! judged so) is not asked here: the kinds are custom ones, with a schema that has most of what a schema can have, and those of its own that
//! the hub judges whole. After a difference both forget the collection, so that one fault is told once.

use std::collections::HashMap;

use regex::Regex;
use serde_json::{Value, json};
use storage_conformance::Trial;
use wheelhouse_tests::{
    Kubectl, Spoke,
    support::{Answer, CRDS, Fixture, MERGE_PATCH, User},
};

use self::draw::{Draw, Request, UID, VERSION};
use super::mask::{difference, mask};

mod draw;

const S31: Trial = Trial("S31");

const GADGETS: &str = include_str!("../../fixtures/gadgets.yaml");
const REQUESTS: usize = 600;
/// Differences that are told before a run gives up.
const FINDINGS_MAX: usize = 40;

/// One of the two, with what it has answered of each object.
struct Side {
    user: User,
    base: &'static str,
    known: HashMap<String, (String, String)>,
}

#[tokio::test(flavor = "multi_thread")]
async fn s31_random_requests_are_answered_as_by_a_real_kube_apiserver() {
    let (fixture, spoke) = tokio::join!(Fixture::start(&[]), Spoke::start("peer"));
    fixture.embed("a").await;
    let text = std::fs::read_to_string(spoke.kubeconfig()).expect("the spoke has a kubeconfig");
    let mut ours = Side::new(fixture.admin().await, "/clusters/a");
    let mut peer = Side::new(User::connect("admin", &text).await, "");
    for kubectl in [spoke.kubectl(), fixture.hub.at("a")] {
        define(&kubectl).await;
    }
    for side in [&ours, &peer] {
        for collection in draw::collections() {
            let path = format!("{}{collection}", side.base);
            side.user.until_status(&path, 200).await;
        }
    }
    definitions_are_judged_alike(&ours, &peer).await;
    for seed in Trial::seeds(1) {
        let mut draw = Draw::new(seed);
        let mut findings = Vec::new();
        let mut accepted = 0;
        for number in 0..REQUESTS {
            let request = draw.request();
            let (left, right) = tokio::join!(ours.send(&request), peer.send(&request));
            accepted += usize::from(right.status < 300);
            if std::env::var("TRACE31").is_ok() {
                println!(
                    "{number}: {} {} {}",
                    left.status,
                    right.status,
                    said(&request)
                );
            }
            let mut found = Vec::new();
            let (a, b) = (shown(&left), shown(&right));
            if !is_agreed(&request, &left, &right) {
                difference("", (&a, &b), ("the hub", "kube-apiserver"), &mut found);
            }
            if !found.is_empty() {
                findings.push(format!(
                    "{number}: {}\n  {}",
                    said(&request),
                    found.join("\n  ")
                ));
                let collection = collection(&request);
                tokio::join!(ours.forget(&collection), peer.forget(&collection));
            }
            if findings.len() == FINDINGS_MAX {
                break;
            }
        }
        println!(
            "S31: seed {seed}: {REQUESTS} requests, {accepted} accepted, {} differences",
            findings.len()
        );
        assert!(
            findings.is_empty(),
            "seed {seed}:\n{}\nrepeat it: {}",
            findings.join("\n"),
            S31.repeat(seed)
        );
        assert!(
            accepted > REQUESTS / 5 && accepted < REQUESTS * 4 / 5,
            "both are frequent, and {accepted} were accepted"
        );
    }
}

async fn define(kubectl: &Kubectl) {
    kubectl.apply(GADGETS).await;
    for name in ["gadgets", "orbs"] {
        let definition = format!("crd/{name}.random.example.com");
        kubectl
            .must(&[
                "wait",
                "--for=condition=Established",
                &definition,
                "--timeout=30s",
            ])
            .await;
    }
}

/// A kube-apiserver judges what all versions have in common apart, and asks for a schema there where selectable fields are.
async fn definitions_are_judged_alike(ours: &Side, peer: &Side) {
    let text = GADGETS.split("\n---\n").next().unwrap_or_default();
    let mut definition: Value = serde_saphyr::from_str(text).expect("a definition");
    definition["metadata"]["name"] = json!("gizmos.random.example.com");
    definition["spec"]["names"] = json!({"kind": "Gizmo", "plural": "gizmos"});
    let second = &mut definition["spec"]["versions"][1];
    let (mut fewer_fields, mut other_schema) = (second.clone(), second.take());
    fewer_fields["selectableFields"] = json!([{"jsonPath": ".spec.color"}]);
    other_schema["schema"]["openAPIV3Schema"]["description"] = json!("another");
    for (version, place) in [
        (fewer_fields, "spec.versions[0].selectableFields: "),
        (other_schema, "spec.selectableFields: "),
    ] {
        definition["spec"]["versions"][1] = version;
        let path = format!("{CRDS}?dryRun=All");
        let below = format!("{}{path}", ours.base);
        let (left, right) = tokio::join!(
            ours.user.post(&below, &definition),
            peer.user.post(&path, &definition)
        );
        let message = right.message();
        assert!(message.contains(place), "{place}{message}");
        assert_eq!(left.message(), message, "{place}");
    }
}

// === impl Side ===

impl Side {
    fn new(user: User, base: &'static str) -> Self {
        Self {
            user,
            base,
            known: HashMap::new(),
        }
    }

    async fn send(&mut self, request: &Request) -> Answer {
        let (uid, version) = match self.known.get(&request.subject) {
            Some((uid, version)) => (uid.as_str(), version.as_str()),
            None => ("none", "1"),
        };
        let body = request.body.replace(UID, uid).replace(VERSION, version);
        let path = format!("{}{}{}", self.base, request.subject, request.rest);
        let headers: Vec<(&str, &str)> = request
            .headers
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        let answer = self.user.send(request.method, &path, &headers, body).await;
        let metadata = &answer.body["metadata"];
        if let (Some(uid), Some(version)) = (
            metadata["uid"].as_str(),
            metadata["resourceVersion"].as_str(),
        ) {
            let subject = match request.method {
                "POST" => format!(
                    "{}/{}",
                    request.subject,
                    metadata["name"].as_str().unwrap_or_default()
                ),
                _ => request.subject.clone(),
            };
            self.known
                .insert(subject, (uid.to_owned(), version.to_owned()));
        }
        answer
    }

    /// Deletes all objects of a collection, whatever holds them.
    async fn forget(&self, collection: &str) {
        let path = format!("{}{collection}", self.base);
        let listed = self.user.get(&path).await.must(200);
        for item in listed["items"].as_array().into_iter().flatten() {
            let name = item["metadata"]["name"].as_str().unwrap_or_default();
            let path = format!("{path}/{name}");
            let free = json!({"metadata": {"finalizers": null}});
            self.user.patch(&path, MERGE_PATCH, &free).await;
            self.user.delete(&path).await;
        }
    }
}

fn said(request: &Request) -> String {
    let Request {
        method,
        subject,
        rest,
        headers,
        body,
    } = request;
    format!("{method} {subject}{rest} {headers:?} {body}")
}

/// Returns the collection that a request is about.
fn collection(request: &Request) -> String {
    let path = &request.subject;
    // An object's path has one segment more than its collection's.
    match path.rsplit_once('/') {
        Some((collection, name)) if draw::is_name(name) => collection.to_owned(),
        _ => path.clone(),
    }
}

/// Returns what is compared of an answer.
fn shown(answer: &Answer) -> Value {
    let header = |name: &str| -> Vec<String> {
        let values = answer.headers.get_all(name).iter();
        values
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            .collect()
    };
    let whole = match &answer.body {
        Value::String(yaml) => serde_saphyr::from_str(yaml).unwrap_or_else(|_| answer.body.clone()),
        json => json.clone(),
    };
    let mut body = mask(&whole);
    if body["kind"] == "Status" {
        regularize(&mut body);
        agree(&mut body);
    }
    regular_numbers(&mut body);
    regular_lists(&mut body);
    leave_out_certificates(&mut body);
    let columns = body
        .get_mut("columnDefinitions")
        .and_then(Value::as_array_mut);
    for column in columns.into_iter().flatten() {
        // The descriptions of columns of Kubernetes' own kinds are the hub's own.
        column["description"].take();
    }
    json!({
        "status": answer.status, "type": header("content-type"), "warnings": header("warning"), "body": body,
        "owners": owners(&whole),
    })
}

/// Whether two answers differ as it is agreed.
fn is_agreed(request: &Request, hub: &Answer, peer: &Answer) -> bool {
    let said = |answer: &Answer, words: &[&str]| {
        let message = answer.body["message"].as_str().unwrap_or_default();
        words.iter().any(|words| message.contains(words))
    };
    let is_strategic = request
        .headers
        .iter()
        .any(|(_, value)| value == draw::STRATEGIC);
    // What Go cannot convert is an error of the server's in an apply.
    let unconverted = peer.status == 500 && said(peer, &["failed to convert new object"]);
    // Nor does a kube-apiserver find the owners of a custom object's scale for an apply.
    let unowned = peer.status == 500 && said(peer, &["failed to create manager for existing"]);
    // A strategic patch is converted by another decoder, with other words.
    let words = ["unrecognized type: ", "cannot restore", "cannot convert"];
    let other_words = is_strategic && hub.status == peer.status && said(peer, &words);
    let is_yaml = request
        .headers
        .iter()
        .any(|(_, value)| value.ends_with("yaml"));
    let unread = is_yaml && hub.status == peer.status && said(hub, &["is unrecognized (must be"]);
    // The first unknown field of a struct ends the reading of it, and which one is the first is by chance.
    let unknown = ["field not declared in schema"];
    let undeclared = hub.status == peer.status && said(hub, &unknown) && said(peer, &unknown);
    // What is wrong with the syntax of a body is said in the words of another parser.
    let syntax = hub.status == peer.status && hub.status == 400 && said(hub, &[" at line "]);
    unowned || unconverted && hub.status == 400 || other_words || unread || undeclared || syntax
}

/// Numbers that are no integers of Go's are the same however they are written.
fn regular_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if number.as_i64().is_none() => *value = json!(number.as_f64()),
        Value::Object(fields) => fields.values_mut().for_each(regular_numbers),
        Value::Array(items) => items.iter_mut().for_each(regular_numbers),
        _ => {}
    }
}

/// A table or a list of metadata without items has null in their place in a kube-apiserver. A row of a table has ages.
fn regular_lists(list: &mut Value) {
    for field in ["items", "rows"] {
        let items = list.get_mut(field);
        if let Some(items) = items.filter(|items| items.is_null()) {
            *items = json!([]);
        }
    }
    let age = Regex::new(r"^\d+[smh]$").expect("a pattern");
    let rows = list.get_mut("rows").and_then(Value::as_array_mut);
    for row in rows.into_iter().flatten() {
        let cells = row["cells"].as_array_mut();
        for cell in cells.into_iter().flatten() {
            if cell.as_str().is_some_and(|cell| age.is_match(cell)) {
                *cell = json!("AGE");
            }
        }
    }
}

/// A controller makes this ConfigMap again where a request has deleted it.
fn leave_out_certificates(list: &mut Value) {
    for field in ["items", "rows"] {
        let items = list.get_mut(field).and_then(Value::as_array_mut);
        let Some(items) = items else { continue };
        items.retain(|item| {
            let names = [&item["metadata"], &item["object"]["metadata"]].map(|it| &it["name"]);
            !names.iter().any(|name| *name == "kube-root-ca.crt")
        });
    }
}

/// Takes out of a refusal what is agreed to differ.
fn agree(status: &mut Value) {
    let message = status["message"].as_str().unwrap_or_default();
    // What is wrong with the syntax of a body is said in the words of another parser.
    for parser in [
        "json parse error: ",
        "error decoding YAML: ",
        "yaml: ",
        "invalid character ",
    ] {
        if let Some((before, _)) = message.split_once(parser) {
            status["message"] = json!(format!("{before}{parser}..."));
            return;
        }
    }
    // The hub says which types it takes or has; a route of a kube-apiserver's does not, or says the type of Go's.
    let is_negotiation = status["code"] == 415 || status["code"] == 406;
    // An object that is not there and has a uid: the words of another place.
    let is_of_the_store = ["StorageError: ", "uid mismatch: ", "UID in precondition: "]
        .iter()
        .any(|words| message.contains(words));
    // Nor can a kube-apiserver name the type of a scale that it cannot read.
    let is_scale = message.contains("type v1.Scale in scheme") || message.contains("a Scale: ");
    if is_negotiation || is_of_the_store || is_scale {
        status["message"].take();
    }
}

/// Orders what a kube-apiserver has in the order of a map of Go's.
fn regularize(status: &mut Value) {
    let mut causes = status["details"]["causes"].take();
    if let Some(causes) = causes.as_array_mut() {
        for cause in causes.iter_mut() {
            let message = cause["message"].as_str().map(without_objects);
            cause["message"] = json!(message);
        }
        causes.sort_by_key(ToString::to_string);
        // An update is judged up to three times.
        causes.dedup();
    }
    let several = causes.as_array().is_some_and(|causes| causes.len() > 1);
    if !causes.is_null() {
        status["details"]["causes"] = causes;
    }
    let message =
        status["message"]
            .as_str()
            .map(|message| match message.split_once("is invalid: [") {
                Some((before, _)) if several => format!("{before}is invalid: CAUSES"),
                _ => without_objects(&in_order(message)),
            });
    status["message"] = json!(message);
}

/// The errors of an apply, one in a line, are in the order of such a map too.
fn in_order(message: &str) -> String {
    let Some((before, errors)) = message.split_once(": errors:\n") else {
        return message.to_owned();
    };
    let mut errors: Vec<&str> = errors.lines().collect();
    errors.sort_unstable();
    format!("{before}: errors:\n{}", errors.join("\n"))
}

/// What a message says of an object has the fields in another order each time.
fn without_objects(message: &str) -> String {
    let object =
        Regex::new(r#"(?s)Invalid value: (\\?"?)(\{|map\[).*?[}\]]\\?"?: "#).expect("a pattern");
    let message = object.replace_all(message, "Invalid value: OBJECT: ");
    // A number is told as it was sent, or as it was read.
    let number = Regex::new(r"unmarshal number \S+ into").expect("a pattern");
    let message = number.replace_all(&message, "unmarshal number N into");
    // Which texts have a type with a name is known to Go alone.
    let named = Regex::new(r"of type (v1\.\w+Type|v1\.\w+Policy|types\.UID)\b").expect("a pattern");
    let message = named.replace_all(&message, "of type string");
    let version = Regex::new(r"(in record|in the precondition) \([^)]*\)").expect("a pattern");
    version.replace_all(&message, "$1 (VERSION)").into_owned()
}

/// Returns who owns which fields, without the times; without rules where there are none, which Go writes as null; and without counts of replicas: a write to a scale that changes no count makes two
/// entries of one owner in a kube-apiserver, of which it forgets one with the next write.
fn owners(object: &Value) -> Value {
    let entries = object["metadata"]["managedFields"].as_array();
    let entries = entries.into_iter().flatten().filter_map(|entry| {
        let mut entry = entry.clone();
        entry.as_object_mut()?.remove("time");
        let fields = entry["fieldsV1"].as_object_mut();
        if let (Some(fields), true) = (fields, object["rules"].is_null()) {
            fields.remove("f:rules");
        }
        let spec = entry.pointer_mut("/fieldsV1/f:spec");
        let is_count = spec.and_then(Value::as_object_mut).is_some_and(|spec| {
            let is_there = spec.remove("f:replicas").is_some();
            is_there && spec.is_empty()
        });
        let is_only = entry["fieldsV1"]
            .as_object()
            .is_some_and(|fields| fields.len() == 1);
        (!(is_count && is_only)).then_some(entry)
    });
    entries.collect()
}
