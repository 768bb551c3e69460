//! What a conversion webhook is asked, and what may come of its answer.
//!
//! # Invariants
//! - Of metadata, a webhook changes labels and annotations alone.
//! - One answer converts exactly the objects that were sent, in their order.
//!
//! Source: `apiextensions-apiserver/pkg/apiserver/conversion/webhook_converter.go`.

use std::time::Duration;

use api::crd::{ConversionWebhook, GROUP};
use api::{FieldPath, LogicalCluster, Status, StatusReason, meta, validation};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::call::Shared;
use crate::refusal::Refusal;

/// How long one call may take. Source: `apiserver/pkg/util/webhook/client.go` (the default of its clients).
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);

const KIND: &str = "ConversionReview";
/// The versions of reviews that this server can write.
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// Has objects of one cluster converted to `api_version`.
///
/// # Errors
/// 500, in Kubernetes' words.
pub(super) async fn convert(
    shared: &Shared,
    (cluster, webhook): (&LogicalCluster, &ConversionWebhook),
    objects: Vec<Value>,
    api_version: &str,
    deadline: Instant,
) -> Result<Vec<Value>, Refusal> {
    let kind = objects.first().map(kind_of).unwrap_or_default();
    let fail = |error: String| refusal(format!("conversion webhook for {kind} {error}"));
    let versions = &webhook.conversion_review_versions;
    let version = versions.iter().find(|it| VERSIONS.contains(&it.as_str()));
    let version = version
        .ok_or_else(|| refusal("no supported conversion review versions".to_owned()))?
        .as_str();
    let uid = uuid::Uuid::new_v4().to_string();
    let review = json!({
        "apiVersion": format!("{GROUP}/{version}"), "kind": KIND,
        "request": {"uid": uid, "desiredAPIVersion": api_version, "objects": objects},
    });
    let deadline = deadline.min(Instant::now() + TIMEOUT);
    let client = &webhook.client_config;
    let answer = shared.webhooks.call(cluster, client, &review, deadline);
    let answer = answer.await.map_err(|error| {
        tracing::warn!(cluster = %cluster, %kind, error = %error, "conversion webhook failed");
        fail(format!("failed: {error}"))
    })?;
    let converted = converted(answer, version, &uid).map_err(|it| fail(format!("failed: {it}")))?;
    if converted.len() != objects.len() {
        let (found, wanted) = (converted.len(), objects.len());
        return Err(fail(format!("returned {found} objects, expected {wanted}")));
    }
    let pairs = objects.iter().zip(converted).enumerate();
    pairs
        .map(|(index, (original, converted))| {
            accept(original, converted, api_version)
                .map_err(|error| fail(format!("returned invalid object at index {index}: {error}")))
        })
        .collect()
}

/// Takes the objects out of an answer.
fn converted(mut answer: Value, version: &str, uid: &str) -> Result<Vec<Value>, String> {
    // The older version is answered without a type by webhooks that are older still.
    if version == "v1" {
        let wanted = format!("{GROUP}/v1, Kind={KIND}");
        let found = kind_of(&answer);
        if found != wanted {
            return Err(format!(
                "expected webhook response of {wanted}, got {found}"
            ));
        }
    }
    let mut response = answer
        .get_mut("response")
        .map(Value::take)
        .unwrap_or_default();
    if !response.is_object() {
        return Err("no response provided".to_owned());
    }
    let found = response["uid"].as_str().unwrap_or_default();
    if version == "v1" && found != uid {
        let found = dialect::quote(found);
        return Err(format!("expected response.uid={uid:?}, got {found}"));
    }
    let result = &response["result"];
    let status = result["status"].as_str().unwrap_or_default();
    if status != "Success" {
        return Err(match result["message"].as_str().unwrap_or_default() {
            "" => format!("response.result.status was '{status}', not 'Success'"),
            message => message.to_owned(),
        });
    }
    match response
        .get_mut("convertedObjects")
        .map(Value::take)
        .unwrap_or_default()
    {
        Value::Array(objects) => Ok(objects),
        Value::Null => Ok(Vec::new()),
        _ => Err("response.convertedObjects is no list".to_owned()),
    }
}

/// Takes a converted object for the original, with the metadata of the original but for labels and annotations.
fn accept(original: &Value, mut converted: Value, api_version: &str) -> Result<Value, String> {
    let found = meta::api_version(&converted);
    if found != api_version {
        return Err(format!(
            "invalid groupVersion (expected {api_version}, received {found})"
        ));
    }
    for (part, read) in [
        ("kind", meta::kind as fn(&Value) -> &str),
        ("name", meta::name),
        ("namespace", meta::namespace),
        ("UID", meta::uid),
    ] {
        let (before, now) = (read(original), read(&converted));
        if before != now {
            return Err(format!("must have the same {part}: {before} != {now}"));
        }
    }
    if !converted["metadata"].is_object() {
        return Err("missing metadata in converted object".to_owned());
    }
    let mut metadata = original["metadata"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    for field in ["labels", "annotations"] {
        match converted["metadata"][field].take() {
            Value::Null => {
                metadata.remove(field);
            }
            Value::Object(texts) => {
                let before = metadata.get(field).and_then(Value::as_object);
                if before != Some(&texts) {
                    check(field, &texts)?;
                }
                metadata.insert(field.to_owned(), Value::Object(texts));
            }
            _ => return Err(format!("invalid metadata.{field} in converted object")),
        }
    }
    converted["metadata"] = Value::Object(metadata);
    Ok(converted)
}

fn check(field: &str, texts: &Map<String, Value>) -> Result<(), String> {
    if let Some((key, _)) = texts.iter().find(|(_, value)| !value.is_string()) {
        return Err(format!("metadata.{field}[{key}] must be a string"));
    }
    let path = FieldPath::new("metadata").child(field);
    let errors = if field == "labels" {
        validation::validate_labels(texts, &path)
    } else {
        validation::validate_annotations(texts, &path)
    };
    match errors.first() {
        Some(error) => Err(error.to_string()),
        None => Ok(()),
    }
}

fn kind_of(object: &Value) -> String {
    format!("{}, Kind={}", meta::api_version(object), meta::kind(object))
}

/// Source: `ErrorToAPIStatus`, for errors that are no status.
fn refusal(text: String) -> Refusal {
    Status::failure(500, StatusReason::Unknown, text).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_changes_labels_and_annotations_alone() {
        let original = json!({"apiVersion": "example.com/v1", "kind": "Widget", "spec": {"a": 1}, "metadata": {
            "name": "w", "namespace": "n", "uid": "1", "resourceVersion": "7", "labels": {"a": "b"},
            "annotations": {"x": "y"}, "finalizers": ["example.com/f"], "managedFields": [{"manager": "m"}]}});
        let converted = json!({"apiVersion": "example.com/v2", "kind": "Widget", "spec": {"b": 1}, "metadata": {
            "name": "w", "namespace": "n", "uid": "1", "resourceVersion": "9", "labels": {"c": "d"},
            "ownerReferences": [{"uid": "2"}]}});
        let made = accept(&original, converted.clone(), "example.com/v2").expect("acceptable");
        let want = json!({"apiVersion": "example.com/v2", "kind": "Widget", "spec": {"b": 1}, "metadata": {
            "name": "w", "namespace": "n", "uid": "1", "resourceVersion": "7", "labels": {"c": "d"},
            "finalizers": ["example.com/f"], "managedFields": [{"manager": "m"}]}});
        assert_eq!(made, want);
        for (pointer, value, wanted) in [
            (
                "/apiVersion",
                json!("example.com/v1"),
                "invalid groupVersion",
            ),
            ("/kind", json!("Other"), "must have the same kind"),
            ("/metadata/name", json!("x"), "must have the same name"),
            (
                "/metadata/namespace",
                json!("x"),
                "must have the same namespace",
            ),
            ("/metadata/uid", json!("2"), "must have the same UID"),
            ("/metadata/labels", json!([]), "invalid metadata.labels"),
            ("/metadata/labels/c", json!(1), "must be a string"),
            ("/metadata/labels/c", json!("no label!"), "a valid label"),
            ("/metadata", json!("x"), "must have the same name"),
        ] {
            let mut converted = converted.clone();
            *converted.pointer_mut(pointer).expect(pointer) = value;
            let error = accept(&original, converted, "example.com/v2").expect_err(wanted);
            assert!(error.contains(wanted), "{pointer}: {error}");
        }
    }

    #[test]
    fn only_an_answer_to_the_question_is_one() {
        let answer = |version: &str, response: Value| {
            json!({"apiVersion": format!("{GROUP}/{version}"), "kind": KIND,
            "response": response})
        };
        let success =
            json!({"uid": "1", "result": {"status": "Success"}, "convertedObjects": [{}]});
        let failed =
            |message: &str| json!({"uid": "1", "result": {"status": "Failed", "message": message}});
        for (name, version, answer, want) in [
            ("success", "v1", answer("v1", success.clone()), Ok(1)),
            (
                "another version",
                "v1",
                answer("v1beta1", success.clone()),
                Err("expected webhook response of"),
            ),
            (
                "another question",
                "v1",
                answer("v1", json!({"uid": "2"})),
                Err("expected response.uid"),
            ),
            (
                "nothing",
                "v1",
                answer("v1", Value::Null),
                Err("no response provided"),
            ),
            (
                "no result",
                "v1",
                answer("v1", json!({"uid": "1"})),
                Err("response.result.status was ''"),
            ),
            (
                "failure",
                "v1",
                answer("v1", failed("")),
                Err("was 'Failed', not 'Success'"),
            ),
            (
                "failure with a word",
                "v1",
                answer("v1", failed("why not")),
                Err("why not"),
            ),
            ("an old one", "v1beta1", json!({"response": success}), Ok(1)),
            (
                "no list",
                "v1",
                answer(
                    "v1",
                    json!({"uid": "1", "result": {"status": "Success"}, "convertedObjects": {}}),
                ),
                Err("is no list"),
            ),
        ] {
            match (converted(answer, version, "1"), want) {
                (Ok(objects), Ok(count)) => assert_eq!(objects.len(), count, "{name}"),
                (Err(error), Err(wanted)) => assert!(error.contains(wanted), "{name}: {error}"),
                (found, want) => panic!("{name}: {found:?}, not {want:?}"),
            }
        }
    }
}
