//! What somebody must know of an instance is told in events, where `kubectl describe` looks for them.

use serde_json::Value;
use wheelhouse_tests::{Kubectl, eventually};

use super::stage::{Stage, until};

/// A kind whose instances have a ConfigMap for each name. A label's value that is none is refused by every API server.
const LABELLED: &str = r#"
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: labelled}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Labelled
    spec: {value: string, names: "[]string"}
  resources:
  - id: maps
    forEach: [{name: "${schema.spec.names}"}]
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: "${schema.metadata.name}-${name}", labels: {value: "${schema.spec.value}"}}
---
{apiVersion: wheelhouse.dev/v1alpha1, kind: Spoke, metadata: {name: inner}, spec: {provider: Embedded}}
"#;

/// A kind whose instances have three ConfigMaps, and a later revision with one of them.
const TRIPLES: [&str; 2] = ["one two three", "one"];

/// The instances of that kind.
const TRIPLE_NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Tells what goes wrong and right with instances at a spoke's path and in an embedded cluster.
pub(crate) async fn is_told(stage: &Stage) {
    let root = stage.hub.root();
    root.apply(LABELLED).await;
    for ready in ["rgd/labelled", "spoke/inner"] {
        root.must(&["wait", "--for=condition=Ready", ready, "--timeout=30s"])
            .await;
    }
    let (east, inner) = (stage.path(), stage.hub.at("inner"));
    tokio::join!(
        trouble_and_its_end(&east),
        trouble_and_its_end(&inner),
        the_spoke_has_them(stage)
    );
    small_instances_count_together(&root, [&east, &inner]).await;
    let events = root.must(&["get", "events", "-A"]).await;
    assert!(
        !events.contains("has not been asked yet"),
        "a spoke that has just joined is in no trouble: {events}"
    );
}

/// A revision that drops most children of many small instances is confirmed once, on the definition.
async fn small_instances_count_together(root: &Kubectl, paths: [&Kubectl; 2]) {
    let [wide, narrow] = TRIPLES.map(triples);
    root.apply(&wide).await;
    root.must(&[
        "wait",
        "--for=condition=Ready",
        "rgd/triples",
        "--timeout=30s",
    ])
    .await;
    for path in paths {
        path.apply(&TRIPLE_NAMES.map(triple).join("\n---\n")).await;
        all_triples_are_ready(path).await;
        assert_eq!(triple_maps(path).await, 12, "all are there");
    }
    root.apply(&narrow).await;
    let mut question = String::new();
    for path in paths {
        // Whoever was planned first has lost two.
        let asking = |it: &Value| it["reason"] == "ConfirmationRequired";
        let all = until(path, &["get", "triples"], "they ask", |list| {
            let items = list["items"].as_array().into_iter().flatten();
            let asks = |it: &&Value| {
                let conditions = it["status"]["conditions"].as_array();
                conditions.is_some_and(|all| all.iter().any(asking))
            };
            items.filter(asks).count() >= 2
        })
        .await;
        let conditions = all["items"].as_array().into_iter().flatten();
        let mut conditions =
            conditions.flat_map(|it| it["status"]["conditions"].as_array().into_iter().flatten());
        let asked = conditions.find(|it| asking(it)).expect("one asks");
        asked["message"]
            .as_str()
            .unwrap_or_default()
            .clone_into(&mut question);
        let left = triple_maps(path).await;
        assert!(
            left >= 8,
            "{left} of 12 are left, and nobody has confirmed it"
        );
    }
    let (_, value) = question.rsplit_once('=').expect("it says what to annotate");
    let confirm = format!("wheelhouse.dev/confirm-deletions={value}");
    root.must(&["annotate", "rgd", "triples", &confirm]).await;
    for path in paths {
        eventually("one of three is left of each", || async {
            let left = triple_maps(path).await;
            (left == 4).then_some(()).ok_or(left.to_string())
        })
        .await;
        all_triples_are_ready(path).await;
    }
}

async fn all_triples_are_ready(path: &Kubectl) {
    let ready = "--for=condition=Ready";
    path.must(&["wait", ready, "triples", "--all", "--timeout=60s"])
        .await;
}

fn triples(nodes: &str) -> String {
    let node = |id| {
        format!(
            "{{id: {id}, template: {{apiVersion: v1, kind: ConfigMap, \
             metadata: {{name: \"triple-${{schema.metadata.name}}-{id}\"}}}}}}"
        )
    };
    let nodes: Vec<String> = nodes.split(' ').map(node).collect();
    format!(
        "{{apiVersion: kro.run/v1alpha1, kind: ResourceGraphDefinition, metadata: {{name: triples}}, \
         spec: {{schema: {{apiVersion: v1alpha1, kind: Triple}}, resources: [{}]}}}}",
        nodes.join(", ")
    )
}

fn triple(name: &str) -> String {
    format!(
        "{{apiVersion: kro.run/v1alpha1, kind: Triple, metadata: {{name: {name}, namespace: default}}}}"
    )
}

async fn triple_maps(path: &Kubectl) -> usize {
    let selector = "kro.run/instance-kind=Triple";
    let listed = until(
        path,
        &["get", "configmaps", "-l", selector],
        "they are listed",
        |list| list["items"].is_array(),
    )
    .await;
    listed["items"].as_array().map_or(0, Vec::len)
}

async fn trouble_and_its_end(path: &Kubectl) {
    path.apply(&labelled("no value", &["a", "b", "c", "d", "e"]))
        .await;
    described(path, &["Warning", "Invalid", "metadata.labels"]).await;
    path.apply(&labelled("value", &["a", "b", "c", "d", "e"]))
        .await;
    described(path, &["Normal", "Ready"]).await;

    path.apply(&labelled("value", &[])).await;
    described(path, &["ConfirmationRequired", "confirm-deletions="]).await;
    let events = events(path).await;
    assert_eq!(events.len(), 3, "one for each reason: {events:?}");
    for event in events {
        assert_eq!(event["source"]["component"], "wheelhouse", "{event}");
        assert!(event["count"].as_u64() >= Some(1), "{event}");
    }
}

/// In the spoke, they are about the mirror.
async fn the_spoke_has_them(stage: &Stage) {
    let direct = stage.direct();
    eventually("the spoke has an event of the mirror", || async {
        let mirror = direct.json(&["get", "labelled", "shop"]).await?;
        let events = events(&direct).await;
        let event = events.first().ok_or("there is none yet")?;
        if event["involvedObject"]["uid"] == mirror["metadata"]["uid"] {
            return Ok(());
        }
        Err(format!("{event} is not about {mirror}"))
    })
    .await;
}

fn labelled(value: &str, names: &[&str]) -> String {
    format!(
        "{{apiVersion: kro.run/v1alpha1, kind: Labelled, metadata: {{name: shop, namespace: default}}, \
         spec: {{value: {value}, names: {names:?}}}}}"
    )
}

/// Waits until `kubectl describe` shows all words in one line of its events.
async fn described(path: &Kubectl, words: &[&str]) {
    event_of(path, "labelled/shop", words).await;
}

/// Waits until `kubectl describe` of an object shows all words in one line of its events.
pub(crate) async fn event_of(path: &Kubectl, object: &str, words: &[&str]) {
    eventually(&format!("{object} has an event {words:?}"), || async {
        let shown = path.run(&["describe", object]).await.ok()?;
        let events = shown
            .split_once("\nEvents:")
            .map_or("", |(_, events)| events);
        let has_words = |line: &str| words.iter().all(|word| line.contains(word));
        if events.lines().any(has_words) {
            return Ok(());
        }
        Err(shown)
    })
    .await;
}

async fn events(path: &Kubectl) -> Vec<Value> {
    let about = "involvedObject.kind=Labelled,involvedObject.name=shop";
    let listed = until(
        path,
        &["get", "events", "--field-selector", about],
        "events are listed",
        |list| list["items"].is_array(),
    )
    .await;
    listed["items"].as_array().cloned().unwrap_or_default()
}
