//! A spoke that answers each call in the worst way: the hub goes on for everybody else, within its memory.

use std::{collections::BTreeMap, io::Write as _, time::Duration};

use client::{Dynamic, ListRequest, Patch};
use serde_json::{Value, json};
use wheelhouse_tests::{FakeSpoke, Hub, eventually, fake_spoke::Mode, wait::within};

use super::joined::{calls, condition, endpoint, spokes, until};

/// What the hub may use, whatever a spoke does. Unoptimized it needs as much memory as optimized.
const RSS_MAX: u64 = 300 << 20;

/// How long the work of another spoke may take on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(30);

/// Calls that are enough to have seen a mode: the heartbeat, and some lists and watches.
const ASKED_COUNT: usize = 4;

const NOTES: &str = "kro.run/v1alpha1";

fn definition(kind: &str) -> Value {
    json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": kind.to_lowercase()}, "spec": {
            "schema": {"apiVersion": "v1alpha1", "kind": kind, "spec": {"text": "string"}},
            "resources": [{"id": "map", "template": {"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": format!("{}-${{schema.metadata.name}}", kind.to_lowercase())},
                "data": {"text": "${schema.spec.text}"}}}]}})
}

fn note(kind: &str, name: &str) -> Value {
    json!({"apiVersion": NOTES, "kind": kind, "metadata": {"name": name, "namespace": "default"},
        "spec": {"text": "t"}})
}

/// Makes a definition in root, and waits until it is Active.
pub(crate) async fn define(hub: &Dynamic, kind: &str) {
    let definitions = endpoint("root", NOTES, "resourcegraphdefinitions", "");
    hub.create(&definitions, &definition(kind))
        .await
        .expect("it is made");
    let name = kind.to_lowercase();
    within(PATIENCE, &format!("{name} is Active"), || async {
        let seen = hub.get(&definitions, &name).await;
        let seen = seen.map_err(|error| error.chain())?;
        let active = seen["status"]["state"] == "Active";
        active.then_some(()).ok_or(seen["status"].to_string())
    })
    .await;
}

/// Makes an instance at a spoke's path, and waits until its child is in the spoke and it is Active.
pub(crate) async fn make(hub: &Dynamic, cluster: &str, kind: &str, name: &str) {
    make_within(PATIENCE, hub, cluster, (kind, name)).await;
}

async fn make_within(patience: Duration, hub: &Dynamic, cluster: &str, (kind, name): (&str, &str)) {
    let plural = format!("{}s", kind.to_lowercase());
    let notes = endpoint(cluster, NOTES, &plural, "default");
    within(
        patience,
        &format!("{name} is Active in {cluster}"),
        || async {
            match hub.create(&notes, &note(kind, name)).await {
                Ok(_) => {}
                Err(error) if error.is_already_exists() => {}
                Err(error) => return Err(error.chain()),
            }
            let seen = hub.get(&notes, name).await.map_err(|it| it.chain())?;
            let active = seen["status"]["state"] == "ACTIVE";
            active.then_some(()).ok_or(seen["status"].to_string())
        },
    )
    .await;
}

/// What stands in root and in the good spoke's logical cluster, by name and uid.
async fn inventory(hub: &Dynamic) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (cluster, version, resource) in [
        ("root", "v1", "secrets"),
        ("root", "v1", "namespaces"),
        ("root", "wheelhouse.dev/v1alpha1", "spokes"),
        (
            "root",
            "rbac.authorization.k8s.io/v1",
            "clusterrolebindings",
        ),
        ("good", "v1", "namespaces"),
    ] {
        let at = endpoint(cluster, version, resource, "");
        let listed = hub.list(&at, &ListRequest::default()).await;
        for item in listed.expect("it is listed").items {
            let name = format!("{cluster}/{resource}/{}", api::meta::name(&item));
            found.insert(name, api::meta::uid(&item).to_owned());
        }
    }
    found
}

/// The highest resident size that the hub ever had.
fn peak(hub: &Hub) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", hub.process().pid()));
    let status = status.expect("the hub runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.expect("the kernel tells it") << 10
}

/// A hub with a good spoke and a hostile one.
struct Trial {
    hub: Hub,
    root: Dynamic,
    good: FakeSpoke,
    mallory: FakeSpoke,
}

impl Trial {
    /// Starts all of them, with an instance in each spoke.
    async fn start() -> Self {
        let hub = Hub::start().await;
        let (good, mallory) = tokio::join!(FakeSpoke::start("good"), FakeSpoke::start("mallory"));
        let root = calls(&hub).await;
        for spoke in [&good, &mallory] {
            let from = spoke.kubeconfig().display().to_string();
            let added = hub
                .wheelhouse(&["spoke", "add", spoke.name(), "--from", &from])
                .await;
            added.succeeded("spoke add");
            until(&root, spoke.name(), "Ready", "True").await;
        }
        define(&root, "Note").await;
        make(&root, "good", "Note", "first").await;
        make(&root, "mallory", "Note", "n0").await;
        Self {
            hub,
            root,
            good,
            mallory,
        }
    }

    /// Lets mallory answer in a way, and looks whether that is noticed where it should be and nowhere else.
    async fn go_through(&self, index: usize, mode: Mode) {
        let (root, began) = (&self.root, tokio::time::Instant::now());
        self.mallory.set(mode.clone());
        eventually(&format!("mallory was asked as {mode:?}"), || async {
            // A tenant of it asks as well.
            let quick = root.clone().with_deadline(Duration::from_millis(300));
            let list = "/clusters/mallory/api/v1/configmaps?limit=500";
            drop(tokio::join!(
                quick.raw_get(list),
                quick.raw_get("/clusters/mallory/apis")
            ));
            let count = self.mallory.asked_count();
            (count >= ASKED_COUNT)
                .then_some(())
                .ok_or(count.to_string())
        })
        .await;
        let name = format!("n{index}");
        tokio::join!(
            make(root, "good", "Note", &name),
            self.lists_over_all(&mode)
        );
        // A definition of root is Active, whatever becomes of it there.
        if mode == Mode::Stalled {
            // One that is away is not waited for at all.
            until(root, "mallory", "Reachable", "True").await;
        }
        if matches!(mode, Mode::EndlessPages | Mode::Garbage | Mode::Stalled) {
            define(root, &format!("Memo{index}")).await;
            make(root, "good", &format!("Memo{index}"), "m").await;
        }
        self.told(&mode).await;
        let (peak, took) = (peak(&self.hub), began.elapsed());
        // Past the test harness, which would hide the figure. Nobody is left to tell when standard error is gone.
        drop(writeln!(
            std::io::stderr(),
            "{mode:?}: the hub had at most {} MiB, in {} ms",
            peak >> 20,
            took.as_millis()
        ));
        assert!(peak < RSS_MAX, "{mode:?}: {} MiB", peak >> 20);
        until(root, "good", "Ready", "True").await;
    }

    /// Waits until an instance of mallory's own has its mirror there, and a change of it as well.
    async fn mirrored(&self) {
        // Another mode may have shown its namespace as one that goes, and `n0` went with it.
        // Each answer beyond its bounds doubles the pause before the next, and by now there were five at most.
        let patience = Duration::from_mins(2);
        make_within(patience, &self.root, "mallory", ("Note", "unmanaged")).await;
        let notes = endpoint("mallory", NOTES, "notes", "default");
        let labels = json!({"metadata": {"labels": {"trial": "mirrored"}}});
        let patched = self
            .root
            .patch(&notes, "unmanaged", None, Patch::Merge(&labels));
        patched.await.expect("the hub stores it");
        let path = format!("/apis/{NOTES}/namespaces/default/notes/unmanaged");
        eventually("the mirror has the label of its instance", || async {
            let mirror = self.mallory.object(&path).unwrap_or_default();
            let has_label = mirror["metadata"]["labels"]["trial"] == "mirrored";
            if has_label {
                return Ok(());
            }
            let instance = self.root.get(&notes, "unmanaged").await;
            Err(format!("{:?}", instance.map(|it| it["status"].to_string())))
        })
        .await;
    }

    /// Lists over all clusters: what the good spoke has is there, and mallory is either named or shown as itself alone.
    async fn lists_over_all(&self, mode: &Mode) {
        let maps = "/clusters/*/api/v1/configmaps?resourceVersion=0";
        let is_told = matches!(
            mode,
            Mode::EndlessPages
                | Mode::SameToken
                | Mode::Garbage
                | Mode::Huge
                | Mode::Drip
                | Mode::Redirect(_)
                | Mode::OtherKinds
                | Mode::HugeObjects
                | Mode::Silent
        );
        if is_told {
            let refused = self.root.raw_get(maps).await;
            let error = refused.expect_err("a part is missing").chain();
            assert!(error.contains("mallory"), "{mode:?}: {error}");
        }
        let listed = self
            .root
            .raw_get("/clusters/*/api/v1/configmaps?resourceVersion=0&partial=true")
            .await;
        let listed = listed.map_err(|error| format!("{mode:?}: {}", error.chain()));
        let listed = listed.expect("a part is taken");
        let list: Value = serde_json::from_slice(&listed).expect("a list");
        assert_eq!(list["kind"], "ConfigMapList", "{mode:?}");
        let items = list["items"].as_array().expect("it has items");
        let of = |cluster: &str| {
            let annotated =
                |item: &&Value| item["metadata"]["annotations"]["kcp.io/cluster"] == cluster;
            items.iter().filter(annotated).count()
        };
        assert!(of("good") >= 1, "{mode:?}: {list}");
        let known = of("root") + of("good") + of("mallory");
        assert_eq!(
            known,
            items.len(),
            "{mode:?}: nothing is of another cluster"
        );
        match mode {
            Mode::Foreign => assert_eq!(of("mallory"), 3, "what it says is of others: {list}"),
            _ if is_told => assert_eq!(of("mallory"), 0, "{mode:?}: {list}"),
            _ => {}
        }
    }

    /// Waits until mallory's Spoke says what is wrong with it.
    async fn told(&self, mode: &Mode) {
        let (type_, text) = match mode {
            Mode::EndlessPages => ("WithinBounds", "MiB would be kept of this cluster"),
            Mode::SameToken => ("WithinBounds", "gives the same continue token again"),
            Mode::EndlessDiscovery => {
                let served = self.root.raw_get("/clusters/mallory/apis").await;
                served.expect("what the hub serves there is told");
                ("WithinBounds", "/api: an answer is larger than")
            }
            Mode::EndlessLine => ("WithinBounds", "an object is larger than 4 MiB"),
            Mode::Garbage => ("Reachable", "kube-system cannot be read"),
            Mode::Silent => ("Reachable", "no answer within"),
            Mode::Uid(_) => ("Identified", "\"good\""),
            // The ledger knows the mirror by its uid.
            Mode::NoManagers => return self.mirrored().await,
            _ => return,
        };
        eventually(&format!("mallory's {type_} says {text:?}"), || async {
            if *mode == Mode::EndlessDiscovery {
                // It is read where somebody asks, and slowly after other bounds were met: one who asks may not wait that long.
                drop(self.root.raw_get("/clusters/mallory/apis").await);
            }
            let spoke = self.root.get(&spokes(), "mallory").await;
            let spoke = spoke.map_err(|error| error.chain())?;
            let told = condition(&spoke, type_);
            let is_told = told["status"] == "False"
                && told["message"].as_str().is_some_and(|it| it.contains(text));
            is_told.then_some(()).ok_or(spoke["status"].to_string())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s14_a_hostile_spoke_harms_itself_alone() {
    let elsewhere = FakeSpoke::start("elsewhere").await;
    let trial = Trial::start().await;
    let before = inventory(&trial.root).await;
    let redirect = format!("https://{}/", elsewhere.address());
    for (index, mode) in Mode::all(&redirect, "uid-of-good").into_iter().enumerate() {
        trial.go_through(index, mode).await;
    }
    assert_eq!(elsewhere.asked_count(), 0, "no redirect was followed");
    let after = inventory(&trial.root).await;
    assert_eq!(before, after, "nothing changed outside mallory's cluster");
    let stored = trial.good.stored().into_iter();
    let strangers: Vec<String> = stored
        .filter(|path| path.contains("/configmaps/"))
        .filter(|path| !path.contains("/note-") && !path.contains("/memo"))
        .collect();
    assert_eq!(strangers, Vec::<String>::new(), "all of it is ours");

    // Once it is honest again, it is a spoke like any other.
    trial.mallory.set(Mode::Honest);
    until(&trial.root, "mallory", "Reachable", "True").await;
    make(&trial.root, "mallory", "Note", "again").await;
    let named = json!({"metadata": {"labels": {"trial": "over"}}});
    let patched = trial
        .root
        .patch(&spokes(), "mallory", None, Patch::Merge(&named))
        .await;
    patched.expect("its Spoke can be written");
}
