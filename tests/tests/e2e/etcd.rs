//! One hub as two processes over one etcd: either dies, etcd dies, and nothing that was acknowledged is lost.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use wheelhouse_tests::{
    Kubectl, assets, etcd, eventually,
    process::{Process, Scratch, free_port},
};

/// Etcd, on a folder that outlives it.
pub(super) struct Etcd {
    process: Option<Process>,
    client_port: u16,
    peer_port: u16,
    scratch: Scratch,
}

/// One process of the hub.
pub(super) struct Replica {
    pub(super) process: Process,
    pub(super) scratch: Scratch,
}

// === impl Etcd ===

impl Etcd {
    pub(super) fn start() -> Self {
        let mut etcd = Self {
            process: None,
            client_port: free_port(),
            peer_port: free_port(),
            scratch: Scratch::new("hub-etcd"),
        };
        etcd.launch();
        etcd
    }

    fn launch(&mut self) {
        let peer = format!("http://127.0.0.1:{}", self.peer_port);
        let command = etcd::command(&self.scratch.file("data"), &self.url(), &peer);
        self.process = Some(Process::start(&command, &self.scratch.file("etcd.log")));
    }

    fn kill(&mut self) {
        self.process = None;
    }

    /// Whether a text is anywhere in what it has on the disk.
    fn shows(&self, text: &str) -> bool {
        fn holds(path: &Path, text: &[u8]) -> bool {
            if path.is_dir() {
                let entries = std::fs::read_dir(path).expect("the folder can be read");
                return entries.flatten().any(|entry| holds(&entry.path(), text));
            }
            // A file of the log may be renamed meanwhile.
            let bytes = std::fs::read(path).unwrap_or_default();
            bytes.windows(text.len()).any(|part| part == text)
        }
        holds(&self.scratch.file("data"), text.as_bytes())
    }

    /// Returns the port for clients.
    pub(super) const fn port(&self) -> u16 {
        self.client_port
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.client_port)
    }
}

// === impl Replica ===

impl Replica {
    /// Starts a replica on an empty folder and waits until it is ready.
    pub(super) async fn start(etcd: &Etcd, name: &str) -> Self {
        Self::start_with(etcd, name, &[]).await
    }

    pub(super) async fn start_with(etcd: &Etcd, name: &str, options: &[&str]) -> Self {
        Self::start_at(&etcd.url(), name, options).await
    }

    /// Starts a replica that reaches etcd at a URL.
    pub(super) async fn start_at(etcd: &str, name: &str, options: &[&str]) -> Self {
        Self::start_of(assets::wheelhouse(), etcd, name, options).await
    }

    /// Starts a replica of a binary.
    pub(super) async fn start_of(binary: &Path, etcd: &str, name: &str, options: &[&str]) -> Self {
        let scratch = Scratch::new(name);
        let mut command = Command::new(binary);
        command
            .args([
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--audit-log-path=",
                "--data-dir",
            ])
            .arg(scratch.file("data"))
            .args(["--etcd-servers", etcd])
            .args(options)
            .arg("--kubeconfig-out")
            .arg(scratch.file("kubeconfig"))
            .env("NO_COLOR", "1")
            .env("WHEELHOUSE_LOG", "info");
        let process = Process::start(&command, &scratch.file("hub.log"));
        let replica = Self { process, scratch };
        eventually("the replica is ready", || async {
            let process = &replica.process;
            assert!(process.runs(), "it ended:\n{}", process.log());
            if replica.scratch.file("kubeconfig").is_file() {
                return Ok(());
            }
            Err(process.log())
        })
        .await;
        replica
    }

    pub(super) fn kubectl(&self) -> Kubectl {
        Kubectl::new(&self.scratch.file("kubeconfig"))
    }

    /// Who runs the controllers, as this replica sees it.
    async fn leader(&self) -> Result<String, String> {
        let lease = [
            "get",
            "lease",
            "wheelhouse-controllers",
            "-n",
            "kube-system",
        ];
        let lease = self.kubectl().json(&lease).await?;
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        if holder.is_empty() {
            return Err(lease.to_string());
        }
        Ok(holder.to_owned())
    }

    fn leads(&self) -> bool {
        self.process
            .log()
            .contains("started leading: this syncer does what is done once for the fleet")
    }

    fn shared_files(&self) -> Vec<String> {
        ["ca.crt", "ca.key", "sa.key"]
            .map(|file| self.scratch.file("data/pki").join(file))
            .map(|file| std::fs::read_to_string(file).expect("every replica has it"))
            .to_vec()
    }
}

fn config_map(name: &str, text: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: default\ndata:\n  text: {text}\n"
    )
}

async fn text_of(kubectl: &Kubectl, name: &str) -> Result<String, String> {
    let found = kubectl.json(&["get", "configmap", name]).await?;
    Ok(found["data"]["text"]
        .as_str()
        .unwrap_or_default()
        .to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_replicas_over_one_etcd_are_one_hub() {
    let mut etcd = Etcd::start();
    let first = Replica::start(&etcd, "first").await;
    let leader = eventually("a leader", || first.leader()).await;
    let second = Replica::start(&etcd, "second").await;
    assert_eq!(first.shared_files(), second.shared_files(), "one authority");
    assert_eq!(second.leader().await.unwrap(), leader, "one leader");

    // What one acknowledges, the other answers with: at once, not eventually.
    for n in 0..5 {
        let text = format!("write-{n}");
        let [writer, reader] = if n % 2 == 0 {
            [&first, &second]
        } else {
            [&second, &first]
        };
        writer.kubectl().apply(&config_map("shared", &text)).await;
        assert_eq!(text_of(&reader.kubectl(), "shared").await, Ok(text));
    }
    second
        .kubectl()
        .must(&["create", "namespace", "going"])
        .await;
    assert!(!second.leads(), "the controllers run once");
    // The controllers of the one serve what is asked of the other.
    second
        .kubectl()
        .must(&["delete", "namespace", "going", "--timeout=30s"])
        .await;

    drop(first);
    second.kubectl().apply(&config_map("shared", "alone")).await;
    assert_eq!(
        text_of(&second.kubectl(), "shared").await,
        Ok("alone".to_owned())
    );
    eventually("the other leads", || async {
        let holder = second.leader().await?;
        if holder == leader || !second.leads() {
            return Err(holder);
        }
        Ok(())
    })
    .await;

    etcd_dies_and_returns(&mut etcd, &second).await;
}

/// What the replicas share, their keys among it, is a Secret too.
#[tokio::test(flavor = "multi_thread")]
async fn etcd_does_not_get_to_know_secrets_and_a_key_is_replaced() {
    const OLD: &str = "old:AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=\n";
    const NEW: &str = "new:ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=\n";
    let etcd = Etcd::start();
    let keys = Scratch::new("keys");
    let key_file = |name: &str, keys_of_it: &str| {
        let path = keys.write(name, keys_of_it);
        let only_mine = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&path, only_mine).expect("it is mine");
        path.to_str().expect("a path of text").to_owned()
    };
    let option = "--encryption-key-file";
    let first = key_file("first", OLD);
    let hub = Replica::start_with(&etcd, "first", &[option, &first]).await;
    let kubectl = hub.kubectl();
    let secret = "--from-literal=k=hunter2hunter2";
    kubectl
        .must(&["create", "secret", "generic", "s", secret])
        .await;
    kubectl.apply(&config_map("open", "in-the-open")).await;
    assert!(etcd.shows("in-the-open"), "what is not sealed is found");
    for sealed in ["aHVudGVyMmh1bnRlcjI=", "PRIVATE KEY"] {
        assert!(!etcd.shows(sealed), "{sealed} is in etcd");
    }
    let value = ["get", "secret", "s", "-o", "jsonpath={.data.k}"];

    // Both know both keys before anybody seals with the new one.
    let both = key_file("both", &format!("{OLD}{NEW}"));
    let second = Replica::start_with(&etcd, "second", &[option, &both]).await;
    drop(hub);
    let both = key_file("turned", &format!("{NEW}{OLD}"));
    let hub = Replica::start_with(&etcd, "third", &[option, &both, "--reseal"]).await;
    for replica in [&hub, &second] {
        let found = replica.kubectl().must(&value).await;
        assert_eq!(found, "aHVudGVyMmh1bnRlcjI=");
    }
    assert!(
        hub.process
            .log()
            .contains("rewrote every Secret with the first key")
    );
    for sealed in ["aHVudGVyMmh1bnRlcjI=", "PRIVATE KEY"] {
        assert!(!etcd.shows(sealed), "{sealed} is in etcd");
    }
}

async fn etcd_dies_and_returns(etcd: &mut Etcd, hub: &Replica) {
    let kubectl = hub.kubectl();
    etcd.kill();
    eventually("readiness tells of it", || async {
        let readyz = kubectl.run(&["get", "--raw", "/readyz?verbose"]).await;
        let told = format!("{}{}", readyz.stdout, readyz.stderr);
        if readyz.code != 0 && told.contains("[-]etcd failed") {
            return Ok(());
        }
        Err(told)
    })
    .await;
    let live = kubectl.run(&["get", "--raw", "/livez"]).await;
    assert_eq!(live.stdout, "ok", "no restart helps: {}", live.stderr);
    let any = [
        "get",
        "--raw",
        "/api/v1/namespaces/default/configmaps/shared?resourceVersion=0",
    ];
    let stale: Value = serde_json::from_str(&kubectl.must(&any).await).expect("an object is JSON");
    assert_eq!(
        stale["data"]["text"], "alone",
        "reads that are content with it go on"
    );
    let refused = kubectl
        .run_with_input(&["create", "-f", "-"], &config_map("lost", "lost"))
        .await;
    assert!(refused.code != 0, "{}", refused.stdout);
    assert!(
        refused.stderr.contains("the store cannot be reached"),
        "{}",
        refused.stderr
    );

    etcd.launch();
    eventually("it is ready again", || async {
        kubectl.run(&["get", "--raw", "/readyz"]).await.ok()
    })
    .await;
    assert!(hub.process.runs(), "nothing was restarted");
    assert_eq!(
        text_of(&kubectl, "shared").await,
        Ok("alone".to_owned()),
        "what was acknowledged is there"
    );
    let lost = text_of(&kubectl, "lost")
        .await
        .expect_err("what was refused is not there");
    assert!(lost.contains("NotFound"), "{lost}");
    kubectl.apply(&config_map("shared", "again")).await;
    assert_eq!(
        text_of(&kubectl, "shared").await,
        Ok("again".to_owned()),
        "writes go on"
    );
}
