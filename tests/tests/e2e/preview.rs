//! What a preview of a definition says is what then happens.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use wheelhouse_tests::{Hub, Kubectl, Spoke, eventually, process::Scratch};

use super::stage::WEBAPP;

const KINDS: &str = "configmaps,deployments,services,ingresses";

/// The definition with another port, a label, a child more, and none of the ingress.
fn other() -> String {
    let extra = "  - id: extra\n    template:\n      apiVersion: v1\n      kind: ConfigMap\n      metadata:\n        \
                 name: ${schema.metadata.name}-extra\n      data:\n        address: ${service.spec.clusterIP}\n";
    let kept = WEBAPP.split("  - id: ingress").next().expect("it has one");
    let changed = kept.replace("targetPort: 8080", "targetPort: 9090").replace(
        "        labels:\n          app: ${schema.metadata.name}\n      spec:\n        replicas",
        "        labels:\n          app: ${schema.metadata.name}\n          tier: front\n      spec:\n        replicas",
    );
    assert!(changed.contains("tier: front"), "{changed}");
    format!("{changed}{extra}")
}

/// The children of all instances in a spoke, by kind and name.
async fn children(spoke: &Kubectl) -> BTreeMap<String, Value> {
    let arguments = ["get", KINDS, "-A", "-l", "kro.run/owned=true"];
    let listed = spoke.json(&arguments).await.expect("the spoke answers");
    let items = listed["items"].as_array().cloned().unwrap_or_default();
    let name = |it: &Value| format!("{} {}", text(&it["kind"]), text(&it["metadata"]["name"]));
    items.into_iter().map(|it| (name(&it), it)).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Asks what a definition would do. Returns the answer and the exit code.
async fn preview(hub: &Hub, scratch: &Scratch, definition: &str) -> (Value, i32) {
    let file = scratch.write("definition.yaml", definition);
    let file = file.display().to_string();
    let ran = hub
        .wheelhouse(&["rgd", "preview", &file, "-o", "json"])
        .await;
    let answer: Result<Value, _> = serde_json::from_str(&ran.stdout);
    assert!(answer.is_ok(), "an answer in JSON: {ran:?}");
    let answer = answer.unwrap_or_default();
    (answer["status"].clone(), ran.code)
}

/// The children that an answer tells of in a cluster, with what it says of each.
fn told(status: &Value, cluster: &str) -> BTreeMap<String, Value> {
    let clusters = status["clusters"].as_array().into_iter().flatten();
    let mut here = clusters.filter(|it| it["cluster"] == cluster);
    let here = here.next().expect("the cluster is told of");
    let changes = here["changes"].as_array().into_iter().flatten();
    let children = changes.flat_map(|it| it["children"].as_array().cloned().unwrap_or_default());
    let name = |it: &Value| format!("{} {}", text(&it["kind"]), text(&it["name"]));
    children.map(|it| (name(&it), it)).collect()
}

fn names<'a>(children: impl Iterator<Item = &'a String>) -> BTreeSet<&'a str> {
    children.map(String::as_str).collect()
}

/// Previews a change of the web application, which has an instance `shop` in `east`, and carries it out.
pub(crate) async fn what_is_foretold_happens(hub: &Hub, east: &Spoke) {
    let (scratch, spoke, other) = (Scratch::new("preview"), east.kubectl(), other());
    let (status, code) = preview(hub, &scratch, WEBAPP).await;
    assert_eq!((code, &status["changed"]), (0, &json!(false)), "{status}");
    let before = children(&spoke).await;
    let (status, code) = preview(hub, &scratch, &other).await;
    assert_eq!(code, 1, "{status}");
    assert_eq!(status["crd"]["action"], "None", "{status}");
    assert_eq!(told(&status, "west").len(), 0, "{status}");
    let told = told(&status, "east");
    let of = |action: &str| {
        names(
            told.iter()
                .filter(|it| it.1["action"] == action)
                .map(|it| it.0),
        )
    };
    assert_eq!(
        of("Create"),
        BTreeSet::from(["ConfigMap shop-extra"]),
        "{status}"
    );
    assert_eq!(of("Delete"), BTreeSet::from(["Ingress shop"]), "{status}");
    let updated = BTreeSet::from(["Deployment shop", "Service shop"]);
    assert_eq!(of("Update"), updated, "{status}");
    assert_eq!(
        told["Service shop"]["fields"],
        json!([{"path": ".spec.ports[0].targetPort", "from": "8080", "to": "9090"}]),
        "{status}"
    );
    assert_eq!(
        told["Deployment shop"]["fields"],
        json!([{"path": ".metadata.labels.tier", "to": "\"front\""}]),
        "{status}"
    );
    let untouched = children(&spoke).await;
    assert_eq!(
        names(untouched.keys()),
        names(before.keys()),
        "nothing was written"
    );
    let (service, had) = (&untouched["Service shop"], &before["Service shop"]);
    assert_eq!(service, had, "nothing was changed");
    is_carried_out(hub, &spoke, &other, (&before, of("Create"), of("Delete"))).await;
    what_is_refused_is_told(hub, &scratch, &other).await;
}

/// Applies the definition and compares what then happens.
async fn is_carried_out(
    hub: &Hub,
    spoke: &Kubectl,
    other: &str,
    (before, created, deleted): (&BTreeMap<String, Value>, BTreeSet<&str>, BTreeSet<&str>),
) {
    hub.root().apply(other).await;
    let after = eventually("the definition is carried out", || async {
        let after = children(spoke).await;
        let is_done =
            after.contains_key("ConfigMap shop-extra") && !after.contains_key("Ingress shop");
        if is_done {
            Ok(after)
        } else {
            Err(format!("{:?}", after.keys()))
        }
    })
    .await;
    let made: BTreeSet<&str> = &names(after.keys()) - &names(before.keys());
    let gone: BTreeSet<&str> = &names(before.keys()) - &names(after.keys());
    assert_eq!((made, gone), (created, deleted), "as it was foretold");
    let port = &after["Service shop"]["spec"]["ports"][0]["targetPort"];
    assert_eq!(port, 9090, "as it was foretold");
    let tier = &after["Deployment shop"]["metadata"]["labels"]["tier"];
    assert_eq!(tier, "front", "as it was foretold");
    let version = |all: &BTreeMap<String, Value>| {
        all["ConfigMap shop-config"]["metadata"]["resourceVersion"].clone()
    };
    assert_eq!(version(&after), version(before), "nothing was said of it");
}

async fn what_is_refused_is_told(hub: &Hub, scratch: &Scratch, other: &str) {
    let (status, code) = preview(hub, scratch, other).await;
    assert_eq!(code, 0, "{status}");

    let strict = other.replace(
        "message: string | required=true",
        "message: string | required=true maxLength=3",
    );
    let (status, code) = preview(hub, scratch, &strict).await;
    assert_eq!(
        (code, &status["crd"]["action"]),
        (2, &json!("Refused")),
        "{status}"
    );
    assert_eq!(status["summary"]["invalid"], 1, "{status}");
    let (status, code) = preview(
        hub,
        scratch,
        &other.replace("${service.spec.clusterIP}", "${nobody.spec}"),
    )
    .await;
    assert_eq!((code, &status["accepted"]), (2, &json!(false)), "{status}");
    assert!(text(&status["message"]).contains("nobody"), "{status}");
    let unknown = other.replace("    kind: WebApp\n", "    kind: WebApp\n    nonsense: 1\n");
    assert_ne!(unknown, other, "it has a field more");
    let (status, code) = preview(hub, scratch, &unknown).await;
    assert_eq!(code, 2, "kubectl apply refuses it: {status}");
}
