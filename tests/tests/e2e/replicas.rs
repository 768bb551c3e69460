//! Replicas over one etcd share the spokes: evenly, each spoke's with one of them, and those of one that is gone move.

use std::{collections::BTreeMap, time::Duration};

use api::{ClusterScope, GroupVersionResource};
use client::{Dynamic, Endpoint, Lifetime, ListRequest, Moment, Options, Term, Verdict};
use serde_json::{Value, json};
use tokio::time::Instant;
use wheelhouse_tests::{FakeSpoke, assets, eventually, fake_spoke::Hold, wait::within};

use super::etcd::{Etcd, Replica};

const SPOKE_COUNT: usize = 6;

/// Within this a spoke is looked after by another replica once its own is gone: what the hub promises.
const HANDOVER_MAX: Duration = Duration::from_secs(10);

/// How long the work may take on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(90);

/// What the trial itself is called in a `User-Agent`. Until a kind is the hub's at the path of a spoke, a user's request goes on
/// to the spoke, under the agent of the user.
pub(super) const AGENT: &str = "trial";

/// Calls of a replica as its administrator.
pub(super) async fn calls(replica: &Replica) -> Dynamic {
    let text = std::fs::read_to_string(replica.scratch.file("kubeconfig")).expect("it is ready");
    calls_by(&text).await
}

/// Calls by a kubeconfig, over a connection of their own.
pub(super) async fn calls_by(kubeconfig: &str) -> Dynamic {
    let options = Options {
        user_agent: AGENT.to_owned(),
        ..Options::default()
    };
    let connection = client::connect(kubeconfig, Some("root"), &options).await;
    Dynamic::new(connection.expect("a kubeconfig").client())
}

pub(super) fn endpoint(cluster: &str, gvr: (&str, &str, &str), namespace: &str) -> Endpoint {
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

/// Spokes that were joined, with etcd where the hub has its store there.
pub(super) struct Stage {
    etcd: Option<Etcd>,
    pub(super) spokes: Vec<FakeSpoke>,
}

impl Stage {
    /// Starts a replica, and joins spokes to it, with a definition for all of them.
    async fn start() -> (Self, Replica, Dynamic) {
        let etcd = Etcd::start();
        let replica = Replica::start(&etcd, "first").await;
        let (stage, root) = Self::join(etcd, &replica, SPOKE_COUNT).await;
        (stage, replica, root)
    }

    /// Joins spokes to a replica, with a definition for all of them.
    pub(super) async fn join(etcd: Etcd, replica: &Replica, count: usize) -> (Self, Dynamic) {
        Self::join_to(Some(etcd), replica, count).await
    }

    /// Joins spokes to a hub, which may be over etcd, with a definition for all of them.
    pub(super) async fn join_to(
        etcd: Option<Etcd>,
        replica: &Replica,
        count: usize,
    ) -> (Self, Dynamic) {
        let mut spokes = Vec::new();
        for number in 0..count {
            spokes.push(FakeSpoke::start(&format!("spoke-{number}")).await);
        }
        let stage = Self { etcd, spokes };
        let root = calls(replica).await;
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
                }}, {"id": "second", "template": {
                    "apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": "${schema.metadata.name}-second"},
                    "data": {"first": "${map.metadata.uid}"},
                }}],
            },
        });
        let definitions = ("kro.run", "v1alpha1", "resourcegraphdefinitions");
        let definitions = endpoint("root", definitions, "");
        let made = root.create(&definitions, &definition).await;
        made.expect("a definition");
        (stage, root)
    }

    /// Returns the etcd of the hub.
    pub(super) fn etcd(&self) -> &Etcd {
        self.etcd.as_ref().expect("the hub is over etcd")
    }

    /// Makes an instance in each spoke.
    pub(super) async fn make(&self, root: &Dynamic, name: &str) {
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
    pub(super) async fn converged(&self, name: &str) {
        let path = format!("/api/v1/namespaces/default/configmaps/{name}-second");
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
pub(super) async fn shares(root: &Dynamic) -> Result<BTreeMap<String, Vec<String>>, String> {
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

/// Checks that a definition that is Ready is served in all spokes, whoever looks after them.
async fn ready_everywhere(stage: &Stage, root: &Dynamic) {
    let definitions = ("kro.run", "v1alpha1", "resourcegraphdefinitions");
    let definitions = endpoint("root", definitions, "");
    let definition = json!({
        "apiVersion": "kro.run/v1alpha1",
        "kind": "ResourceGraphDefinition",
        "metadata": {"name": "crates"},
        "spec": {
            "schema": {"apiVersion": "v1alpha1", "kind": "Crate", "spec": {"text": "string"}},
            "resources": [],
        },
    });
    let made = root.create(&definitions, &definition).await;
    made.expect("a definition");
    within(PATIENCE, "the definition is ready", || async {
        let found = root.get(&definitions, "crates").await;
        let found = found.map_err(|error| error.chain())?;
        let conditions = found["status"]["conditions"].as_array();
        let is_ready = |it: &Value| it["type"] == "Ready" && it["status"] == "True";
        if conditions.into_iter().flatten().any(is_ready) {
            return Ok(());
        }
        Err(found["status"].to_string())
    })
    .await;
    let object = json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "Crate",
        "metadata": {"name": "one", "namespace": "default"},
        "spec": {"text": "a"},
    });
    for spoke in &stage.spokes {
        let crates = endpoint(spoke.name(), ("kro.run", "v1alpha1", "crates"), "default");
        let made = root.create(&crates, &object).await;
        made.expect("its kind is served, at once");
    }
}

/// Waits until the spokes are shared in such counts.
pub(super) async fn shared(root: &Dynamic, counts: &[usize]) -> BTreeMap<String, Vec<String>> {
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
    let second = Replica::start(stage.etcd(), "second").await;
    shared(&root, &[3, 3]).await;
    stage.make(&root, "before").await;
    stage.converged("before").await;
    ready_everywhere(&stage, &root).await;

    // The first one leads as well: definitions, found clusters and the sweeps of the hub move with the spokes.
    let root = calls(&second).await;
    let killed = Instant::now();
    first.process.signal("KILL");
    shared(&root, &[6]).await;
    let took = killed.elapsed();
    assert!(took <= HANDOVER_MAX, "they moved after {took:?}");
    stage.make(&root, "after").await;
    stage.converged("after").await;

    let third = Replica::start(stage.etcd(), "third").await;
    shared(&root, &[3, 3]).await;
    // One that is shut down in order leaves what it has at once.
    second.process.signal("TERM");
    let root = calls(&third).await;
    shared(&root, &[6]).await;
    stage.make(&root, "last").await;
    stage.converged("last").await;
    let _end = second;
}

/// Returns the Lease of a spoke, or of those controllers that run once.
pub(super) async fn lease(root: &Dynamic, name: &str) -> Result<Value, String> {
    let leases = ("coordination.k8s.io", "v1", "leases");
    let leases = endpoint("root", leases, "kube-system");
    let lease = root.get(&leases, name).await;
    lease.map_err(|error| error.chain())
}

/// The story: a replica hung in the middle of its work, and others took its spokes over. When it went on, what it had begun was
/// written after all.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_hung_writes_nothing_once_its_spokes_were_taken() {
    let (stage, first, root) = Stage::start().await;
    shared(&root, &[6]).await;
    let second = Replica::start(stage.etcd(), "second").await;
    let root = calls(&second).await;
    shared(&root, &[3, 3]).await;
    stage.make(&root, "before").await;
    stage.converged("before").await;
    let controllers = lease(&root, "wheelhouse-controllers").await;
    let controllers = controllers.expect("somebody leads");
    let hung = controllers["spec"]["holderIdentity"].as_str();
    let hung = hung.expect("it was here first").to_owned();
    let of_hung = |spoke: &FakeSpoke| {
        let wrote = spoke.wrote().into_iter();
        wrote.filter(|it| it.agent.contains(&hung)).count()
    };
    let count = || stage.spokes.iter().map(of_hung).sum::<usize>();
    let before = count();
    assert!(before > 0, "it has written, and under its name");

    // It is stopped in the middle of what these make it do: what it waits for is answered while it hangs.
    for spoke in &stage.spokes {
        spoke.hold_answers(Hold::Writes);
    }
    let names: Vec<String> = (0..4).map(|number| format!("many-{number}")).collect();
    for name in &names {
        stage.make(&root, name).await;
    }
    within(PATIENCE, "it is at work", || async {
        let written = count();
        if written >= before + names.len() {
            return Ok(());
        }
        Err(format!("{written} writes, {before} before"))
    })
    .await;
    first.process.signal("STOP");
    let stopped = Instant::now();
    for spoke in &stage.spokes {
        spoke.hold_answers(Hold::Nothing);
    }
    shared(&root, &[6]).await;
    let took = stopped.elapsed();
    assert!(took <= HANDOVER_MAX, "they moved after {took:?}");
    for name in &names {
        stage.converged(name).await;
    }
    let written = count();
    first.process.signal("CONT");
    // It takes part again, under another name.
    shared(&root, &[3, 3]).await;
    stage.make(&root, "after").await;
    stage.converged("after").await;
    assert_eq!(count(), written, "what it had begun was not written");
    let shares = shares(&root).await.expect("Leases");
    assert!(!shares.contains_key(&hung), "{hung} is gone: {shares:?}");
}

/// What the hub compares in the commit of each write of a syncer.
#[tokio::test(flavor = "multi_thread")]
async fn the_hub_commits_nothing_in_a_term_that_is_over() {
    let (stage, _first, root) = Stage::start().await;
    shared(&root, &[6]).await;
    let name = format!("wheelhouse-spoke-{}", stage.spokes[0].name());
    let held = lease(&root, &name).await.expect("it is looked after");
    let version = api::meta::resource_version(&held).to_owned();
    let lifetime = Lifetime::begin(PATIENCE, Moment::now());
    let maps = endpoint("root", ("", "v1", "configmaps"), "default");
    let write = async |name: &str, lease: &str, version: &str| {
        let term = Term::begin(&lifetime, "test");
        term.note_fence(lease, version);
        let calls = client::in_terms(root.client(), move |_, _| Verdict::Within(term.clone()));
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        Dynamic::new(calls).create(&maps, &object).await
    };
    let written = write("in-time", &name, &version).await;
    written.expect("the term is the latest one");
    for (case, lease, version) in [
        ("another version", name.as_str(), "1"),
        ("another lease", "wheelhouse-spoke-none", version.as_str()),
        ("no version", name.as_str(), "latest"),
    ] {
        let refused = write("late", lease, version).await.expect_err(case);
        assert!(refused.is_conflict(), "{case}: {}", refused.chain());
        assert!(
            refused.to_string().contains("lease lost"),
            "{case}: {refused}"
        );
    }
    let late = root.get(&maps, "late").await.expect_err("not written");
    assert!(late.is_not_found(), "{late}");
}
