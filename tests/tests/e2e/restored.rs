//! R27: a hub that is lost, and restored elsewhere from a backup that was taken while it was written to. What the spoke has
//! had since is not deleted before somebody says so; afterwards hub and spoke agree again.

use std::{
    collections::BTreeMap,
    io::Write as _,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use serde_json::Value;
use tokio::{task::JoinSet, time::Instant};
use wheelhouse_tests::{Hub, Kubectl, assets, eventually, hub::Settings, pods};

use super::stage::{Stage, gone, until};

/// Clients that write while the backup is taken.
const WRITER_COUNT: usize = 4;
/// Writes of each that must be acknowledged before the backup begins.
const WRITES_BEFORE: u64 = 5;

/// What of the spoke must not be deleted.
const KINDS: &str = "webapps,configmaps,deployments,services,ingresses";

/// A fleet that was restored, with what its spoke had before.
struct Restored {
    stage: Stage,
    before: BTreeMap<String, String>,
    _folder: tempfile::TempDir,
}

/// ConfigMaps written one after the other, named by writer and number.
struct Load {
    acknowledged: Vec<Arc<AtomicU64>>,
    stop: Arc<AtomicBool>,
    writers: JoinSet<()>,
}

impl Load {
    fn start(kubectl: &Kubectl) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut load = Self {
            acknowledged: Vec::new(),
            stop: Arc::clone(&stop),
            writers: JoinSet::new(),
        };
        for writer in 0..WRITER_COUNT {
            let acknowledged = Arc::new(AtomicU64::new(0));
            load.acknowledged.push(Arc::clone(&acknowledged));
            let (kubectl, stop) = (kubectl.clone(), Arc::clone(&stop));
            load.writers.spawn(async move {
                for number in 0_u64.. {
                    if stop.load(Ordering::Acquire) {
                        return;
                    }
                    let name = format!("load-{writer}-{number}");
                    kubectl.must(&["create", "configmap", &name]).await;
                    acknowledged.store(number + 1, Ordering::Release);
                }
            });
        }
        load
    }

    fn counts(&self) -> Vec<u64> {
        let counts = self.acknowledged.iter();
        counts.map(|count| count.load(Ordering::Acquire)).collect()
    }

    async fn end(self) {
        self.stop.store(true, Ordering::Release);
        self.writers.join_all().await;
    }
}

/// Prints a figure past the test harness.
fn tell(figure: &str) {
    // Nobody is left to tell when standard error is gone.
    drop(writeln!(std::io::stderr(), "{figure}"));
}

/// Runs the command line without a hub.
fn wheelhouse(arguments: &[&str]) -> String {
    let output = Command::new(assets::wheelhouse())
        .args(arguments)
        .output()
        .expect("wheelhouse can be started");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The uid of every object in the spoke that must stay.
async fn uids(spoke: &Kubectl) -> BTreeMap<String, String> {
    let listed = spoke.json(&["get", KINDS, "-n", "default"]).await;
    let listed = listed.expect("the spoke lists");
    let mut uids = BTreeMap::new();
    for object in listed["items"].as_array().into_iter().flatten() {
        let metadata = &object["metadata"];
        let name = format!("{}/{}", object["kind"], metadata["name"]).replace('"', "");
        let going = &metadata["deletionTimestamp"];
        assert!(going.is_null(), "{name} is being deleted");
        uids.insert(name, metadata["uid"].to_string());
    }
    uids
}

fn condition<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|it| it["type"] == name)
}

impl Restored {
    /// A hub with `old`, `shrunk` and `doomed`; a backup under load; then `new` is made, `shrunk` grows by an Ingress,
    /// `doomed` is deleted; then the hub is lost, and another one runs on what was restored.
    async fn set() -> Self {
        let mut stage = Stage::set().await;
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["old", "doomed"] {
            stage.bring_up(name, "message: hello, expose: true").await;
        }
        stage.bring_up("shrunk", "message: hello").await;
        let backup = folder.path().join("hub.backup");
        let counts = back_up(&stage.hub, &backup).await;

        stage.bring_up("new", "message: hello, expose: true").await;
        stage
            .bring_up("shrunk", "message: hello, expose: true")
            .await;
        let path = stage.path();
        path.must(&["delete", "webapp", "doomed", "--wait=false"])
            .await;
        gone(&path, &["get", "webapp", "doomed"]).await;
        gone(&stage.direct(), &["get", "webapp", "doomed"]).await;
        let before = uids(&stage.direct()).await;
        for name in ["WebApp/new", "Ingress/new", "Ingress/shrunk", "WebApp/old"] {
            assert!(before.contains_key(name), "{name}: {before:?}");
        }
        let version = stage
            .hub
            .root()
            .json(&["get", "namespace", "default"])
            .await;
        let version = version.expect("a namespace")["metadata"]["resourceVersion"].clone();

        stage.hub.kill();
        let lost = Instant::now();
        let data = folder.path().join("restored");
        let text = |path: &Path| path.display().to_string();
        wheelhouse(&[
            "store",
            "restore",
            "--from",
            &text(&backup),
            "--data-dir",
            &text(&data),
        ]);
        let settings = Settings {
            data: Some(data),
            ..Settings::default()
        };
        stage.hub = Hub::start_with(settings).await;
        let took = lost.elapsed();
        tell(&format!(
            "RTO: {took:?} from the loss to the restored hub's readiness"
        ));
        assert_prefixes(&stage.hub.root(), &counts).await;
        assert_expired(&stage.hub.root(), version.as_str().expect("a version")).await;
        Self {
            stage,
            before,
            _folder: folder,
        }
    }

    /// Waits until the restored hub has looked at everything, and has deleted nothing.
    async fn held(&self) {
        let root = self.stage.hub.root();
        let spoke = until(
            &root,
            &["get", "spoke", "east"],
            "the spoke says what waits",
            |spoke| {
                condition(spoke, "RestoreConfirmed").is_some_and(|it| {
                    let message = it["message"].as_str().unwrap_or_default();
                    it["status"] == "False"
                        && message.contains("unknown to the hub: 1 (WebApp.kro.run default/new)")
                        && message.contains("that wait: 1 (WebApp.kro.run default/shrunk)")
                        && !message.contains("there may be more")
                })
            },
        )
        .await;
        assert_eq!(
            condition(&spoke, "Ready").expect("Ready")["status"],
            "False",
            "who looks at the columns sees that something is to be done"
        );
        // What the restored hub still knows is put back: that is no deletion.
        let direct = self.stage.direct();
        until(
            &direct,
            &["get", "deployment", "doomed"],
            "doomed is back",
            |_| true,
        )
        .await;
        self.assert_untouched().await;
        // Not even on a user's word, until somebody has looked.
        let path = self.stage.path();
        path.must(&["delete", "webapp", "old", "--wait=false"])
            .await;
        until(&path, &["get", "webapp", "old"], "old waits", |old| {
            old["status"].to_string().contains("not confirmed")
        })
        .await;
        self.assert_untouched().await;
    }

    async fn assert_untouched(&self) {
        let now = uids(&self.stage.direct()).await;
        for (name, uid) in &self.before {
            assert_eq!(now.get(name), Some(uid), "{name} was deleted: {now:?}");
        }
    }

    async fn confirm(&self, unknown: &str) {
        let hub = &self.stage.hub;
        let early = hub.wheelhouse(&["store", "finish-restore"]).await;
        assert_eq!(early.code, 1, "it is not confirmed: {early:?}");
        let words = ["store", "confirm-restore", "east", "--unknown", unknown];
        hub.wheelhouse(&words).await.succeeded("confirm-restore");
    }

    /// Waits for what every confirmation brings, and ends the restore.
    async fn settled(&self) {
        let direct = self.stage.direct();
        gone(&direct, &["get", "ingress", "shrunk"]).await;
        gone(&direct, &["get", "webapp", "old"]).await;
        gone(&direct, &["get", "deployment", "old"]).await;
        let hub = &self.stage.hub;
        eventually("the restore is finished", || async {
            hub.wheelhouse(&["store", "finish-restore"]).await.ok()
        })
        .await;
        until(
            &hub.root(),
            &["get", "spoke", "east"],
            "nothing is left of it",
            |spoke| {
                condition(spoke, "RestoreConfirmed").is_none()
                    && condition(spoke, "Ready").is_some_and(|ready| ready["status"] == "True")
            },
        )
        .await;
    }
}

/// Takes a backup while others write. Returns how many writes of each were acknowledged before it began.
async fn back_up(hub: &Hub, file: &Path) -> Vec<u64> {
    let load = Load::start(&hub.root());
    eventually("all writers write", || async {
        let counts = load.counts();
        if counts.iter().all(|count| *count >= WRITES_BEFORE) {
            Ok(())
        } else {
            Err(format!("{counts:?}"))
        }
    })
    .await;
    let out = file.display().to_string();
    let (before, after) = eventually("a backup is taken while others write", || async {
        let before = load.counts();
        let began = Instant::now();
        let ran = hub.wheelhouse(&["store", "backup", "--out", &out]).await;
        let said = ran.succeeded("store backup");
        let took = began.elapsed();
        let after = load.counts();
        if after == before {
            return Err(format!("nobody wrote meanwhile: {before:?}"));
        }
        tell(&format!("backup under load: {took:?}: {}", said.trim()));
        Ok((before, after))
    })
    .await;
    load.end().await;
    tell(&format!(
        "RPO: acknowledged {before:?} before the backup, {after:?} after it"
    ));
    before
}

/// The restored state is one moment: of each writer everything up to some write, and nothing acknowledged before the
/// backup is missing.
async fn assert_prefixes(root: &Kubectl, acknowledged: &[u64]) {
    let listed = root.json(&["get", "configmaps", "-n", "default"]).await;
    let listed = listed.expect("the hub lists");
    let items = listed["items"].as_array().expect("a list");
    let names: Vec<&str> = items
        .iter()
        .filter_map(|item| item["metadata"]["name"].as_str())
        .collect();
    for (writer, before) in acknowledged.iter().enumerate() {
        let prefix = format!("load-{writer}-");
        let mut numbers: Vec<u64> = names
            .iter()
            .filter_map(|name| name.strip_prefix(&prefix)?.parse().ok())
            .collect();
        numbers.sort_unstable();
        let count = numbers.len() as u64;
        assert!(
            count >= *before,
            "writer {writer}: {count} of {before} writes"
        );
        let want: Vec<u64> = (0..count).collect();
        assert_eq!(numbers, want, "writer {writer}: a hole");
    }
}

/// A watch that goes on from before the loss is told to list anew.
async fn assert_expired(root: &Kubectl, version: &str) {
    let path = format!("/api/v1/namespaces?watch=1&timeoutSeconds=5&resourceVersion={version}");
    let ran = root.run(&["get", "--raw", &path]).await;
    let told = format!("{}{}", ran.stdout, ran.stderr);
    assert!(
        told.contains("Expired") || told.contains("too old"),
        "{told}"
    );
}

/// The story: whoever restored a hub found the instances of the last hours deleted in all clusters, because the hub did not
/// know them.
#[tokio::test(flavor = "multi_thread")]
async fn r27_a_restored_hub_deletes_nothing_before_it_is_confirmed_and_keeps_what_it_does_not_know()
{
    let restored = Restored::set().await;
    restored.held().await;
    restored.confirm("keep").await;
    let path = restored.stage.path();
    until(&path, &["get", "webapp", "new"], "new is taken up", |new| {
        new["spec"]["message"] == "hello"
    })
    .await;
    pods::make_ready(&restored.stage.direct(), "new").await;
    path.must(&[
        "wait",
        "--for=condition=Ready",
        "webapp/new",
        "--timeout=30s",
    ])
    .await;
    restored.settled().await;
    let now = uids(&restored.stage.direct()).await;
    for name in ["WebApp/new", "Deployment/new", "Service/new", "Ingress/new"] {
        assert_eq!(
            now.get(name),
            restored.before.get(name),
            "{name} was taken over as it is"
        );
    }
}

/// The other answer: the backup is the truth.
#[tokio::test(flavor = "multi_thread")]
async fn r27_a_restored_hub_deletes_what_it_does_not_know_when_it_is_told_to() {
    let restored = Restored::set().await;
    restored.held().await;
    restored.confirm("delete").await;
    let direct = restored.stage.direct();
    for kind in ["webapp", "deployment", "service", "ingress"] {
        gone(&direct, &["get", kind, "new"]).await;
    }
    gone(&direct, &["get", "configmap", "new-config"]).await;
    restored.settled().await;
    gone(&restored.stage.path(), &["get", "webapp", "new"]).await;
}
