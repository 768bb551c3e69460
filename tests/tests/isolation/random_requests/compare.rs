//! What is compared of two answers, and in what they may differ.

use regex::Regex;
use serde_json::{Value, json};
use wheelhouse_tests::support::{Answer, CRDS};

use super::super::mask::mask;
use super::draw::{self, Request};

/// Returns what is compared of an answer.
pub(super) fn shown(answer: &Answer) -> Value {
    let header = |name: &str| -> Vec<String> {
        let values = answer.headers.get_all(name).iter();
        values
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            .collect()
    };
    let whole = whole(answer);
    json!({
        "status": answer.status, "type": header("content-type"), "warnings": header("warning"), "body": regular(&whole),
        "owners": owners(&whole),
    })
}

/// Returns the body of an answer, in whatever form it came.
pub(super) fn whole(answer: &Answer) -> Value {
    match &answer.body {
        Value::String(yaml) => serde_saphyr::from_str(yaml).unwrap_or_else(|_| answer.body.clone()),
        json => json.clone(),
    }
}

/// Returns what is compared of the event of a watch.
pub(super) fn shown_event(event: &Value) -> Value {
    let mut object = event["object"].clone();
    // Go has an empty spec in a bookmark where it cannot leave it out.
    if event["type"] == "BOOKMARK" && object["spec"] == json!({}) {
        object["spec"].take();
    }
    json!({"type": event["type"], "object": regular(&object), "owners": owners(&object)})
}

/// Returns a body without what two servers write otherwise.
fn regular(whole: &Value) -> Value {
    let mut body = mask(whole);
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
    body
}

/// Whether two answers differ as it is agreed.
pub(super) fn is_agreed(request: &Request, hub: &Answer, peer: &Answer) -> bool {
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
    // An apply reads what Go cannot read in another way, and later.
    let mistyped = [
        "expected map, got",
        "expected list, got",
        "expected string, got",
        "expected numeric",
        "expected boolean",
        "non-map elements",
    ];
    let other_reading = hub.status == 400
        && said(hub, &["cannot unmarshal", "schema expected"])
        && said(peer, &mistyped);
    // Which of two values that Go cannot read comes first is known to Go, which reads in the order of the body.
    let unreadable = ["cannot unmarshal"];
    let another = request.subject.starts_with(CRDS)
        && (hub.status, peer.status) == (400, 400)
        && said(hub, &unreadable)
        && said(peer, &unreadable);
    if another || other_reading || schema_was_unread(hub, peer) || default_was_judged(hub, peer) {
        return true;
    }
    if hub.status == peer.status && applied_schema_was_unread(hub, peer) {
        return true;
    }
    unowned || unconverted && hub.status == 400 || other_words || unread || undeclared || syntax
}

/// Whether a kube-apiserver finds more in a definition that is applied: the hub tells what is wrong inside of its schemas once the rest can be
/// read.
fn applied_schema_was_unread(hub: &Answer, peer: &Answer) -> bool {
    const APPLIED: &str = "failed to create typed patch object";
    let errors = |answer: &Answer| -> Option<Vec<String>> {
        let (before, errors) = answer.message().split_once("): ")?;
        let errors = errors.strip_prefix("errors:\n").unwrap_or(errors);
        let errors = errors.lines().map(|line| line.trim().to_owned());
        before.starts_with(APPLIED).then(|| errors.collect())
    };
    let (Some(mine), Some(theirs)) = (errors(hub), errors(peer)) else {
        return false;
    };
    mine.iter().all(|error| theirs.contains(error))
        && theirs
            .iter()
            .all(|error| mine.contains(error) || error.contains(".openAPIV3Schema."))
}

/// Whether a kube-apiserver finds more in a definition of which a schema names what there is not: the hub reads no such schema, and so says
/// nothing of defaults and selectable fields.
fn schema_was_unread(hub: &Answer, peer: &Answer) -> bool {
    let (mine, theirs) = (causes(hub), causes(peer));
    let keywords = [".type", ".x-kubernetes-list-type", ".x-kubernetes-map-type"];
    let is_unread = |cause: &Value| {
        let field = cause["field"].as_str().unwrap_or_default();
        cause["reason"] == "FieldValueNotSupported" && keywords.iter().any(|it| field.ends_with(it))
    };
    hub.status == 422
        && peer.status == 422
        && mine.iter().any(is_unread)
        && mine.iter().all(|cause| theirs.contains(cause))
}

/// Whether the hub refuses a default of a type that a kube-apiserver takes and then refuses in every object: that of an `int-or-string` which
/// also has a type.
fn default_was_judged(hub: &Answer, peer: &Answer) -> bool {
    let theirs = causes(peer);
    let mut own = causes(hub);
    own.retain(|cause| !theirs.contains(cause));
    let is_default = |cause: &Value| {
        let message = cause["message"].as_str().unwrap_or_default();
        message.contains("must be of type integer,string: ")
    };
    !own.is_empty() && own.iter().all(is_default)
}

/// Returns what a refusal names, without the objects.
fn causes(answer: &Answer) -> Vec<Value> {
    if answer.status != 422 || !answer.body.is_object() {
        return Vec::new();
    }
    let mut status = mask(&answer.body);
    regularize(&mut status);
    let causes = status["details"]["causes"].as_array();
    causes.cloned().unwrap_or_default()
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
        Regex::new(r#"(?s)Invalid value: (\[\]|null|(\\?"?)(\[\{|\{|map\[).*?[}\]]\\?"?): "#)
            .expect("a pattern");
    let message = object.replace_all(message, "Invalid value: OBJECT: ");
    // A number is told as it was sent, or as it was read.
    let number = Regex::new(r"unmarshal number \S+ into").expect("a pattern");
    let message = number.replace_all(&message, "unmarshal number N into");
    // Which texts have a type with a name is known to Go alone.
    let named =
        Regex::new(r"of type (v1\.\w+Type|v1\.\w+Policy|v1\.\w+Reason|v1\.\w+Scope|types\.UID)\b")
            .expect("a pattern");
    let message = named.replace_all(&message, "of type string");
    let types = Regex::new(r"selfType\d+").expect("a pattern");
    let message = types.replace_all(&message, "selfType");
    // Another parser gives up at another place.
    let message = match message.split_once(" limit exceeded") {
        Some((before, _)) if message.contains("compilation failed: ") => {
            let (before, _) = before
                .split_once("compilation failed: ")
                .unwrap_or_default();
            format!("{before}compilation failed: ...").into()
        }
        _ => message,
    };
    // A pointer to a text is told as JSON.
    let message = message.replace(r"\x01", r"\u0001");
    let version = Regex::new(r"(in record|in the precondition) \([^)]*\)").expect("a pattern");
    version.replace_all(&message, "$1 (VERSION)").into_owned()
}

/// Returns who owns which fields, without the times; without rules where there are none, which Go writes as null; and without counts of replicas: a write to a scale that changes no count makes two
/// entries of one owner in a kube-apiserver, of which it forgets one with the next write.
fn owners(object: &Value) -> Value {
    let entries = object["metadata"]["managedFields"].as_array();
    let entries = entries.into_iter().flatten().filter_map(|entry| {
        let mut entry = entry.clone();
        // The status of a definition is written by a controller of the server, which owns nothing in the hub.
        if entry["manager"] == "kube-apiserver" && entry["subresource"] == "status" {
            return None;
        }
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
