//! What docs/etcd.md has an operator do with etcdctl: make space in an etcd that is full, and make a new authority of the hub.

use std::path::PathBuf;

use serde_json::{Value, json};
use wheelhouse_tests::{
    Hub, Kubectl, assets, etcd,
    hub::Settings,
    kubectl::Ran,
    process::{Process, Scratch, free_port},
    wait::eventually,
};

use super::stage::say;

/// What etcd may take. A few versions of [`BIG_BYTES`] fill it.
const QUOTA_BYTES: &str = "16777216";
const BIG_BYTES: usize = 500_000;
/// More versions than fit.
const VERSION_COUNT_MAX: usize = 100;

struct Etcd {
    _process: Process,
    url: String,
    program: PathBuf,
}

impl Etcd {
    fn start(program: PathBuf, scratch: &Scratch) -> Self {
        let [url, peer] = [free_port(), free_port()].map(|port| format!("http://127.0.0.1:{port}"));
        let mut command = etcd::command(&scratch.file("etcd"), &url, &peer);
        command.args(["--quota-backend-bytes", QUOTA_BYTES]);
        Self {
            _process: Process::start(&command, &scratch.file("etcd.log")),
            url,
            program,
        }
    }

    async fn ctl(&self, arguments: &[&str]) -> String {
        let output = tokio::process::Command::new(&self.program)
            .args(["--endpoints", &self.url])
            .args(arguments)
            .output()
            .await
            .expect("etcdctl can be started");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("is text")
    }
}

/// Another version of one large object.
fn version(number: usize) -> String {
    let value = format!("{number:08}").repeat(BIG_BYTES / 8);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "big"}, "data": {"key": value}});
    map.to_string()
}

async fn write(root: &Kubectl, number: usize) -> Ran {
    let arguments = ["apply", "--server-side", "-f", "-"];
    root.run_with_input(&arguments, &version(number)).await
}

/// Writes until there is no space. Returns what was said then.
async fn fill(root: &Kubectl) -> String {
    for number in 0..VERSION_COUNT_MAX {
        let ran = write(root, number).await;
        if ran.code != 0 {
            return ran.stderr;
        }
    }
    format!("{VERSION_COUNT_MAX} versions fit")
}

/// The commands of the page, and what they are worth.
async fn makes_space(etcd: &Etcd, root: &Kubectl) {
    let alarms = etcd.ctl(&["alarm", "list"]).await;
    assert!(alarms.contains("NOSPACE"), "{alarms}");
    let told = etcd.ctl(&["get", "/", "-w", "json"]).await;
    let told: Value = serde_json::from_str(&told).expect("is JSON");
    let revision = told["header"]["revision"].to_string();
    etcd.ctl(&["compact", &revision]).await;
    etcd.ctl(&["defrag"]).await;
    etcd.ctl(&["alarm", "disarm"]).await;
    // History is gone, and there is space for much more of it.
    for number in 0..5 {
        write(root, number).await.succeeded("a write");
    }
    let alarms = etcd.ctl(&["alarm", "list"]).await;
    assert_eq!(alarms.trim(), "", "nothing is wrong");
}

/// A new authority: credentials that the old one signed are worth nothing, tokens are.
async fn replaces_the_authority(etcd: &Etcd, hub: &mut Hub, scratch: &Scratch) {
    let old = scratch.file("old.kubeconfig");
    std::fs::copy(hub.kubeconfig(), &old).expect("it can be copied");
    let root = hub.root();
    let token = root.must(&["create", "token", "default"]).await;
    hub.kill();
    for file in ["ca.crt", "ca.key"] {
        std::fs::remove_file(hub.data().join("pki").join(file)).expect("it was there");
    }
    let deleted = etcd
        .ctl(&["del", "/wheelhouse/r/wheelhouse/replicas"])
        .await;
    assert_eq!(deleted.trim(), "1", "what replicas share is one key");
    hub.launch().await;
    let kept = hub.root().must(&["get", "configmap", "keep"]).await;
    assert!(kept.contains("keep"), "{kept}");
    let who = ["auth", "whoami", "--insecure-skip-tls-verify"];
    let stranger = Kubectl::new(&old).run(&who).await;
    assert_ne!(stranger.code, 0, "a certificate of before: {stranger:?}");
    let token = format!("--token={}", token.trim());
    let bare = scratch.write("bare.kubeconfig", "{}");
    let account = Kubectl::new(&bare).server(hub.server());
    let account = account.must(&[who.as_slice(), &[&token]].concat()).await;
    assert!(
        account.contains("system:serviceaccount:default:default"),
        "{account}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_page_of_etcd_asks_of_etcdctl_does_what_it_says() {
    let Some(program) = assets::client("etcdctl") else {
        return;
    };
    let scratch = Scratch::new("etcdctl");
    let etcd = Etcd::start(program, &scratch);
    let mut hub = Hub::start_with(Settings {
        arguments: vec!["--etcd-servers".to_owned(), etcd.url.clone()],
        ..Settings::default()
    })
    .await;
    let root = hub.root();
    root.must(&["create", "configmap", "keep"]).await;

    say("etcd fills");
    let full = fill(&root).await;
    assert!(full.contains("the store's disk is full"), "{full}");
    let deleted = root.run(&["delete", "configmap", "keep"]).await;
    assert!(deleted.stderr.contains("disk is full"), "{deleted:?}");
    root.must(&["get", "configmap", "keep"]).await;
    root.must(&["get", "--raw", "/readyz"]).await;

    say("space is made");
    makes_space(&etcd, &root).await;
    eventually("the hub answers as before", || async {
        root.run(&["get", "configmap", "big"]).await.ok()
    })
    .await;

    say("a new authority");
    replaces_the_authority(&etcd, &mut hub, &scratch).await;
}
