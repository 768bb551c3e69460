//! `hack/bench fleet`: what stands between a user and many clusters: requests that are passed through to a spoke, objects that
//! are synced to a hundred of them, all clusters in one list, and spokes that misbehave next to those that do not.
//!
//! P2 is measured at a real spoke, which is asked directly and through the hub in turns. The others use spokes that are small
//! servers of a process of their own ([`spokes`]): a hundred kube-apiservers do not fit on a machine, and what the spokes take
//! of it is printed.

mod hostile;
mod relay;
mod spokes;
mod sync;
mod wildcard;

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};
use wheelhouse_tests::{Hub, wait::within};

pub(crate) use spokes::{Priority, SERVE, Spokes, serve};

use crate::{
    Asked,
    report::Report,
    wire::{Target, Wire},
};

/// The benchmarks, by the names that the plan gives them.
pub(crate) const NAMES: [&str; 4] = ["P2", "B19", "B15", "P1"];

/// Requests under way while many things are made.
const WIDTH: usize = 32;
/// Connections of the load generator.
const CONNECTION_COUNT: usize = 4;
/// How long something may take that many spokes do.
const PATIENCE: Duration = Duration::from_mins(5);

/// Spokes to which nothing was written for so long have all that they are to have.
const QUIET: Duration = Duration::from_secs(2);

const SPOKES: &str = "/apis/wheelhouse.dev/v1alpha1/spokes";
/// Where the Secrets of spokes are.
pub(crate) const CREDENTIALS: &str = "kube-system";
const JSON: &str = "application/json";

/// A definition whose instances have [`CHILDREN`] ConfigMaps, of which a stamp changes one.
const DEFINITIONS: &str = "/apis/kro.run/v1alpha1/resourcegraphdefinitions";
/// Children of an instance.
pub(crate) const CHILDREN: usize = 10;

/// Runs what is asked for.
pub(crate) async fn run(asked: &Asked, report: &mut Report) {
    for name in NAMES {
        if !asked.names.is_empty() && !asked.names.iter().any(|it| it == name) {
            continue;
        }
        match name {
            "P2" => crate::store_bench::on_one_thread(asked, report, relay::run),
            "B19" => sync::run(asked, report).await,
            "B15" => wildcard::run(asked, report).await,
            _ => hostile::run(asked, report).await,
        }
    }
}

/// Connects to a hub.
pub(crate) async fn wire(hub: &Hub) -> Wire {
    Target::of_kubeconfig(&hub.kubeconfig())
        .wire(CONNECTION_COUNT)
        .await
}

/// Sends requests with bodies of JSON, many at a time; each must be answered with this code.
pub(crate) async fn send_all(
    wire: &Wire,
    method: &str,
    code: u16,
    requests: impl Iterator<Item = (String, Value)>,
) {
    stream::iter(requests.enumerate())
        .for_each_concurrent(WIDTH, |(index, (path, body))| async move {
            let body = Bytes::from(body.to_string());
            let connection = wire.connection(index);
            let answer = connection.send(method, &path, JSON, body).await;
            let (got, body) = answer.expect("an answer");
            assert_eq!(got, code, "{path}: {}", String::from_utf8_lossy(&body));
        })
        .await;
}

/// Joins spokes by their kubeconfigs, and waits until all are Ready.
pub(crate) async fn join(wire: &Wire, spokes: &[(String, String)]) {
    let secrets = spokes.iter().map(|(name, kubeconfig)| {
        let secret = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "namespace": CREDENTIALS, "labels": {"wheelhouse.dev/spoke": name}},
            "data": {"kubeconfig": STANDARD.encode(kubeconfig)}});
        (format!("/api/v1/namespaces/{CREDENTIALS}/secrets"), secret)
    });
    send_all(wire, "POST", 201, secrets).await;
    let objects = spokes.iter().map(|(name, _)| {
        let secret = json!({"namespace": CREDENTIALS, "name": name});
        (
            SPOKES.to_owned(),
            spoke(name, &json!({"connection": {"secretRef": secret}})),
        )
    });
    send_all(wire, "POST", 201, objects).await;
    all_ready(wire, spokes.len()).await;
}

/// Makes embedded clusters, and waits until all are Ready and can be written to.
pub(crate) async fn embed(wire: &Wire, names: &[String]) {
    let objects = names.iter().map(|name| {
        (
            SPOKES.to_owned(),
            spoke(name, &json!({"provider": "Embedded"})),
        )
    });
    send_all(wire, "POST", 201, objects).await;
    all_ready(wire, names.len()).await;
    let namespaces = "/clusters/*/api/v1/namespaces?fieldSelector=metadata.name%3Ddefault";
    within(PATIENCE, "all have their namespaces", || async {
        let (_, list) = wire.json("GET", namespaces, &Value::Null).await;
        let count = list["items"].as_array().map_or(0, Vec::len);
        // Root has one too.
        (count > names.len()).then_some(()).ok_or(count.to_string())
    })
    .await;
}

fn spoke(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "wheelhouse.dev/v1alpha1", "kind": "Spoke", "metadata": {"name": name}, "spec": spec})
}

async fn all_ready(wire: &Wire, count: usize) {
    within(PATIENCE, "all spokes are Ready", || async {
        // To look costs the hub more than a few of the spokes do.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let (_, list) = wire.json("GET", SPOKES, &Value::Null).await;
        let spokes = list["items"].as_array().into_iter().flatten();
        let ready = spokes.filter(|it| is_ready(it)).count();
        (ready == count)
            .then_some(())
            .ok_or(format!("{ready} of {count}"))
    })
    .await;
}

fn is_ready(spoke: &Value) -> bool {
    let conditions = spoke["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|it| it["type"] == "Ready" && it["status"] == "True")
}

/// Makes the definition, and waits until it is Active.
pub(crate) async fn define(wire: &Wire) {
    let map = |index: usize| {
        let mut data = json!({"text": "${schema.spec.text}"});
        if index == 0 {
            data["stamp"] = json!("${schema.spec.stamp}");
        }
        json!({"id": format!("map{index}"), "template": {"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("${{schema.metadata.name}}-{index}")}, "data": data}})
    };
    let maps: Vec<Value> = (0..CHILDREN).map(map).collect();
    let definition = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "batch"}, "spec": {"resources": maps, "schema": {
            "apiVersion": "v1alpha1", "kind": "Batch", "spec": {"text": "string", "stamp": "string"}}}});
    accept(wire, &definition).await;
}

/// Makes a definition, and waits until it is Active.
pub(crate) async fn accept(wire: &Wire, definition: &Value) {
    let (code, answer) = wire.json("POST", DEFINITIONS, definition).await;
    assert_eq!(code, 201, "{answer}");
    let name = definition["metadata"]["name"].as_str().expect("a name");
    within(PATIENCE, "the definition is Active", || async {
        let path = format!("{DEFINITIONS}/{name}");
        let (_, seen) = wire.json("GET", &path, &Value::Null).await;
        let active = seen["status"]["state"] == "Active";
        active.then_some(()).ok_or(seen["status"].to_string())
    })
    .await;
}

/// Waits until nothing is written to spokes any more.
async fn settled(spokes: &Spokes) {
    let mut before = spokes.written().await.writes;
    loop {
        tokio::time::sleep(QUIET).await;
        let after = spokes.written().await.writes;
        if after == before {
            return;
        }
        before = after;
    }
}

/// The path of a spoke's instances.
pub(crate) fn batches(spoke: &str) -> String {
    format!("/clusters/{spoke}/apis/kro.run/v1alpha1/namespaces/default/batches")
}

/// An instance of the definition.
pub(crate) fn batch(index: usize) -> Value {
    json!({"apiVersion": "kro.run/v1alpha1", "kind": "Batch",
        "metadata": {"name": format!("batch-{index}"), "namespace": "default"},
        "spec": {"text": "x".repeat(200), "stamp": ""}})
}
