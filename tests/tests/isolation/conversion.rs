//! S33: webhooks that convert between the versions of a definition, at the hub and at a real kube-apiserver.
//!
//! Version `v1` is stored and has one field, `address`; `v2` has `host` and `port`. What the webhook does to an object stands
//! in its label `say`.

use serde_json::{Value, json};
use wheelhouse_tests::wire::{FakeSpoke, json_answer};

use super::admission::{Pair, base};
use super::support::{Answer, User};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const DEFINITION: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/doors.example.com";

fn doors(version: &str) -> String {
    format!("/apis/example.com/{version}/namespaces/default/doors")
}

/// A definition of two versions; `client` is how the webhook is called.
pub(super) fn definition(client: &Value) -> Value {
    let version = |name: &str, spec: Value, field: &str| {
        json!({"name": name, "served": true, "storage": name == "v1", "subresources": {"status": {}},
            "selectableFields": [{"jsonPath": format!(".spec.{field}")}],
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}}})
    };
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "doors.example.com"},
    "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "doors", "singular": "door", "kind": "Door", "listKind": "DoorList"},
        "conversion": {"strategy": "Webhook",
            "webhook": {"clientConfig": client, "conversionReviewVersions": ["v7", "v1"]}},
        "versions": [
            version("v1", json!({"address": {"type": "string"}}), "address"),
            version("v2", json!({"host": {"type": "string"}, "port": {"type": "string"},
                }), "host"),
        ]}})
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "values are made where they are passed"
)]
fn door(version: &str, name: &str, spec: Value, say: &str) -> Value {
    json!({"apiVersion": format!("example.com/{version}"), "kind": "Door",
        "metadata": {"name": name, "labels": {"say": say}}, "spec": spec})
}

/// Answers a ConversionReview.
pub(super) fn answer(review: &Value) -> Vec<u8> {
    let request = &review["request"];
    let wanted = request["desiredAPIVersion"].as_str().unwrap_or_default();
    let sent = request["objects"].as_array().cloned().unwrap_or_default();
    let says = |what: &str| {
        sent.iter()
            .any(|it| it["metadata"]["labels"]["say"] == what)
    };
    let mut objects: Vec<Value> = sent
        .iter()
        .map(|object| converted(object, wanted))
        .collect();
    let mut result = json!({"status": "Success"});
    if says("fail") {
        result = json!({"status": "Failed", "message": "will not"});
    }
    if says("short") {
        objects.clear();
    }
    let response = json!({"uid": request["uid"], "result": result, "convertedObjects": objects});
    json_answer(
        200,
        &json!({"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response}),
    )
}

fn converted(object: &Value, wanted: &str) -> Value {
    let mut object = object.clone();
    let spec = object["spec"].clone();
    let text = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
    object["spec"] = if wanted.ends_with("v2") {
        let address = text("address");
        let (host, port) = address.split_once(':').unwrap_or((address.as_str(), ""));
        json!({"host": host, "port": port, "unknown": "field"})
    } else {
        json!({"address": format!("{}:{}", text("host"), text("port"))})
    };
    object["apiVersion"] = json!(wanted);
    match object["metadata"]["labels"]["say"]
        .as_str()
        .unwrap_or_default()
    {
        "name" => object["metadata"]["name"] = json!("another"),
        "version" => object["apiVersion"] = json!("example.com/v1"),
        "label" => object["metadata"]["labels"]["made"] = json!("no label!"),
        "metadata" => {
            object["metadata"]["labels"]["made"] = json!("yes");
            object["metadata"]["finalizers"] = json!(["example.com/never"]);
        }
        _ => {}
    }
    object
}

/// The same requests in both versions have the same answers.
#[expect(clippy::too_many_lines, reason = "it is a table")]
pub(super) async fn convert_the_same(pair: &Pair, server: &FakeSpoke) {
    let made = definition(&server.client_config("/convert"));
    pair.same("definition", "POST", DEFINITIONS, &made).await;
    for version in ["v1", "v2"] {
        pair.ours.until_status(&base(&doors(version)), 200).await;
        pair.peer.until_status(&doors(version), 200).await;
    }
    let (old, new) = (doors("v1"), doors("v2"));
    let a = door("v1", "a", json!({"address": "left:80"}), "metadata");
    let b = door("v2", "b", json!({"host": "right", "port": "81"}), "");
    let patch = json!({"spec": {"port": "82"}});
    let applied = door("v2", "a", json!({"host": "middle"}), "");
    let apply = "?fieldManager=trial&force=true";
    for (name, method, path, body, wanted) in [
        ("create in the stored version", "POST", old.clone(), a, 201),
        ("create in the other", "POST", new.clone(), b.clone(), 201),
        ("create twice", "POST", new.clone(), b, 409),
        ("read", "GET", format!("{new}/a"), Value::Null, 200),
        ("read back", "GET", format!("{old}/b"), Value::Null, 200),
        ("list", "GET", new.clone(), Value::Null, 200),
        ("list as stored", "GET", old.clone(), Value::Null, 200),
        (
            "list by a field",
            "GET",
            format!("{new}?fieldSelector=spec.host%3Dright"),
            Value::Null,
            200,
        ),
        (
            "list by a label",
            "GET",
            format!("{new}?labelSelector=say%3Dmetadata"),
            Value::Null,
            200,
        ),
        ("patch", "PATCH", format!("{new}/b"), patch.clone(), 200),
        (
            "read what was patched",
            "GET",
            format!("{old}/b"),
            Value::Null,
            200,
        ),
        (
            "patch for trial",
            "PATCH",
            format!("{new}/b?dryRun=All"),
            json!({"spec": {"port": "83"}}),
            200,
        ),
        ("apply", "APPLY", format!("{new}/a{apply}"), applied, 200),
        (
            "read what was applied",
            "GET",
            format!("{old}/a"),
            Value::Null,
            200,
        ),
        ("delete", "DELETE", format!("{new}/a"), Value::Null, 200),
        ("delete them all", "DELETE", new.clone(), Value::Null, 200),
        ("list none", "GET", old.clone(), Value::Null, 200),
    ] {
        let (left, right) = pair.send(method, &path, &body).await;
        pair.compare(name, &shown(&left), &shown(&right));
        pair.compare(name, &json!(left.status), &json!(wanted));
    }
    for say in ["fail", "short", "name", "version", "label"] {
        let object = door("v1", "bad", json!({"address": "left:80"}), say);
        let (left, right) = pair.send("POST", &old, &object).await;
        assert_eq!((left.status, right.status), (201, 201), "{say}");
        let (left, right) = pair.send("GET", &format!("{new}/bad"), &Value::Null).await;
        assert_eq!(
            (left.status, right.status),
            (500, 500),
            "{say}: {}",
            left.body
        );
        for answer in [&left, &right] {
            let failed = "conversion webhook for example.com/v1, Kind=Door";
            assert!(answer.message().contains(failed), "{say}: {}", answer.body);
        }
        let (left, right) = pair
            .send("DELETE", &format!("{old}/bad"), &Value::Null)
            .await;
        assert_eq!((left.status, right.status), (200, 200), "{say}");
    }
    watch_the_other_version(&pair.ours).await;
    pair.send("DELETE", DEFINITION, &Value::Null).await;
}

/// What is compared: fields, labels and finalizers, of one object or of all in a list.
fn shown(answer: &Answer) -> Value {
    let body = &answer.body;
    let part = |object: &Value| {
        json!([
            object["apiVersion"],
            object["spec"],
            object["metadata"]["labels"],
            object["metadata"]["finalizers"]
        ])
    };
    let items = body["items"]
        .as_array()
        .map(|items| items.iter().map(part).collect::<Vec<_>>());
    if body["kind"] == "Status" {
        return json!({"status": answer.status, "reason": body["reason"]});
    }
    json!({"status": answer.status, "object": part(body), "items": items})
}

/// A watch shows what is there and what changes in the version that it asks for.
async fn watch_the_other_version(ours: &User) {
    let (old, new) = (base(&doors("v1")), base(&doors("v2")));
    for name in ["c", "d"] {
        let object = door("v1", name, json!({"address": format!("{name}:1")}), "");
        ours.post(&old, &object).await.must(201);
    }
    let mut watch = ours
        .watch(&format!("{new}?watch=true"))
        .await
        .expect("a watch");
    let change = json!({"spec": {"address": "e:2"}});
    let mut told = Vec::new();
    while told.len() < 3 {
        let event = watch
            .next(super::admission::LASTING)
            .await
            .expect("an event");
        let event = event.expect("the watch goes on");
        let (object, kind) = (&event["object"], &event["type"]);
        told.push(json!([kind, object["apiVersion"], object["spec"]["host"]]));
        if told.len() == 2 {
            let path = format!("{old}/c");
            ours.patch(&path, "application/merge-patch+json", &change)
                .await
                .must(200);
        }
    }
    let want = |kind: &str, host: &str| json!([kind, "example.com/v2", host]);
    assert_eq!(
        told,
        [
            want("ADDED", "c"),
            want("ADDED", "d"),
            want("MODIFIED", "e")
        ],
        "what is there, then what changes"
    );
}

/// A tenant's conversion webhook is called only where the operator allows it, and hangs nobody but those who ask for it.
pub(super) async fn converts_where_it_may(alice: &User, admin: &User, server: &FakeSpoke) {
    let at = |path: &str| format!("{}{path}", super::support::base("a"));
    let made = definition(&server.client_config("/convert"));
    alice.post(&at(DEFINITIONS), &made).await.must(201);
    alice.until_status(&at(&doors("v2")), 200).await;
    for name in ["a", "b"] {
        let object = door("v1", name, json!({"address": "left:80"}), "");
        alice.post(&at(&doors("v1")), &object).await.must(201);
    }
    let before = server.heads().len();
    let refused = alice.get(&at(&format!("{}/a", doors("v2")))).await;
    assert_eq!(refused.status, 500, "{}", refused.body);
    assert!(
        refused.message().contains("--allow-webhook-host"),
        "{}",
        refused.body
    );
    // Over all clusters what needs a webhook is left out.
    let everywhere = "/clusters/*/apis/example.com/v2/doors";
    assert!(
        admin.get(everywhere).await.items().is_empty(),
        "no webhook is called for a list of all clusters"
    );
    let everywhere = "/clusters/*/apis/example.com/v1/doors";
    assert_eq!(
        admin.get(everywhere).await.items().len(),
        2,
        "what is stored is shown"
    );
    // The hub's own controllers take the objects away without asking.
    alice.delete(&at(DEFINITION)).await.must(200);
    alice.until_status(&at(DEFINITION), 404).await;
    assert_eq!(
        server.heads().len(),
        before,
        "a tenant's webhook is not called"
    );
}
