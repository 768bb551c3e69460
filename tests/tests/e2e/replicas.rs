//! Replicas over one etcd share the spokes: evenly, each spoke's with one of them, and those of one that is gone move.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use api::{ClusterScope, GroupVersionResource};
use client::{Dynamic, Endpoint, ListRequest, Options};
use serde_json::{Value, json};
use wheelhouse_tests::{FakeSpoke, assets, eventually, wait::within};

use super::etcd::{Etcd, Replica};

const SPOKE_COUNT: usize = 6;

/// Within this a spoke is looked after by another replica once its own is gone: what the hub promises.
const HANDOVER_MAX: Duration = Duration::from_secs(10);

/// How long the work may take on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(90);

/// Calls of a replica as its administrator.
async fn calls(replica: &Replica) -> Dynamic {
    let text = std::fs::read_to_string(replica.scratch.file("kubeconfig")).expect("it is ready");
    let connection = client::connect(&text, Some("root"), &Options::default()).await;
    Dynamic::new(connection.expect("a kubeconfig").client())
}

fn endpoint(cluster: &str, gvr: (&str, &str, &str), namespace: &str) -> Endpoint {
    let scope = cluster.parse().expect("a logical cluster");
    Endpoint {
        scope: Some(ClusterScope::One(scope)),
        gvr: GroupVersionResource::new(gvr.0, gvr.1, gvr.2),
        namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
    }
}

fn boxes(cluster: &str) -> Endpoint {
    endpoint(cluster, ("kro.run", "v1alpha1", "boxes"), "default")
}

/// Etcd, with spokes that were joined.
struct Stage {
    etcd: Etcd,
    spokes: Vec<FakeSpoke>,
}

impl Stage {
    /// Starts a replica, and joins spokes to it, with a definition for all of them.
    async fn start() -> (Self, Replica, Dynamic) {
        let etcd = Etcd::start();
        let replica = Replica::start(&etcd, "first").await;
        let mut spokes = Vec::new();
        for number in 0..SPOKE_COUNT {
            spokes.push(FakeSpoke::start(&format!("spoke-{number}")).await);
        }
        let stage = Self { etcd, spokes };
        let root = calls(&replica).await;
        for spoke in &stage.spokes {
            let added = tokio::process::Command::new(assets::wheelhouse())
                .args(["spoke", "add", spoke.name(), "--from"])
                .arg(spoke.kubeconfig())
                .arg("--kubeconfig")
                .arg(replica.scratch.file("kubeconfig"))
                .output()
                .await
                .expect("wheelhouse can be started");
            assert!(added.status.success(), "{added:?}");
        }
        let definition = json!({
            "apiVersion": "kro.run/v1alpha1",
            "kind": "ResourceGraphDefinition",
            "metadata": {"name": "boxes"},
            "spec": {
                "schema": {"apiVersion": "v1alpha1", "kind": "Box", "spec": {"text": "string"}},
                "resources": [{"id": "map", "template": {
                    "apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": "${schema.metadata.name}"},
                    "data": {"text": "${schema.spec.text}"},
                }}],
            },
        });
        let definitions = ("kro.run", "v1alpha1", "resourcegraphdefinitions");
        let definitions = endpoint("root", definitions, "");
        let made = root.create(&definitions, &definition).await;
        made.expect("a definition");
        (stage, replica, root)
    }

    /// Makes an instance in each spoke.
    async fn make(&self, root: &Dynamic, name: &str) {
        for spoke in &self.spokes {
            let object = json!({
                "apiVersion": "kro.run/v1alpha1", "kind": "Box",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"text": name},
            });
            eventually("an instance can be made", || async {
                let made = root.create(&boxes(spoke.name()), &object).await;
                match made {
                    Ok(_) => Ok(()),
                    Err(error) if error.is_already_exists() => Ok(()),
                    Err(error) => Err(error.chain()),
                }
            })
            .await;
        }
    }

    /// Waits until the children of an instance are in every spoke.
    async fn converged(&self, name: &str) {
        let path = format!("/api/v1/namespaces/default/configmaps/{name}");
        for spoke in &self.spokes {
            within(PATIENCE, "the child is in its spoke", || async {
                let found = spoke.object(&path);
                found.ok_or_else(|| format!("no {path} in {}", spoke.name()))
            })
            .await;
        }
    }
}

/// Returns which spokes each replica that takes part looks after.
async fn shares(root: &Dynamic) -> Result<BTreeMap<String, Vec<String>>, String> {
    let leases = ("coordination.k8s.io", "v1", "leases");
    let leases = endpoint("root", leases, "kube-system");
    let listed = root.list(&leases, &ListRequest::default()).await;
    let listed = listed.map_err(|error| error.chain())?.items;
    let holder = |lease: &Value| {
        let holder = lease["spec"]["holderIdentity"].as_str();
        holder.unwrap_or_default().to_owned()
    };
    let mut shares = BTreeMap::new();
    for lease in &listed {
        if api::meta::name(lease).starts_with("wheelhouse-replica-") && !holder(lease).is_empty() {
            shares.insert(holder(lease), Vec::new());
        }
    }
    for lease in &listed {
        if let Some(spoke) = api::meta::name(lease).strip_prefix("wheelhouse-spoke-")
            && let Some(share) = shares.get_mut(&holder(lease))
        {
            share.push(spoke.to_owned());
        }
    }
    Ok(shares)
}

/// Waits until the spokes are shared in such counts.
async fn shared(root: &Dynamic, counts: &[usize]) -> BTreeMap<String, Vec<String>> {
    within(PATIENCE, "the spokes are shared", || async {
        let shares = shares(root).await?;
        let mut found: Vec<usize> = shares.values().map(Vec::len).collect();
        found.sort_unstable();
        if found == counts {
            return Ok(shares);
        }
        Err(format!("{shares:?}"))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_share_the_spokes_and_those_of_one_that_is_killed_move() {
    let (stage, first, root) = Stage::start().await;
    shared(&root, &[6]).await;
    let second = Replica::start(&stage.etcd, "second").await;
    shared(&root, &[3, 3]).await;
    stage.make(&root, "before").await;
    stage.converged("before").await;

    // The first one leads as well: definitions, found clusters and the sweeps of the hub move with the spokes.
    let root = calls(&second).await;
    let killed = Instant::now();
    first.process.signal("KILL");
    shared(&root, &[6]).await;
    let took = killed.elapsed();
    assert!(took <= HANDOVER_MAX, "they moved after {took:?}");
    stage.make(&root, "after").await;
    stage.converged("after").await;

    let third = Replica::start(&stage.etcd, "third").await;
    shared(&root, &[3, 3]).await;
    // One that is shut down in order leaves what it has at once.
    second.process.signal("TERM");
    let root = calls(&third).await;
    shared(&root, &[6]).await;
    stage.make(&root, "last").await;
    stage.converged("last").await;
    let _end = second;
}
