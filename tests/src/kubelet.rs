//! A node whose kubelet answers: pods of a real spoke that can be streamed with. `hack/kubelet` builds it of Kubernetes'
//! own streaming server; what is in a "container" is a process of this machine.

use std::{path::PathBuf, process::Command, sync::OnceLock};

use serde_json::{Value, json};

use crate::{
    Spoke, assets,
    pki::Authority,
    process::{Process, Scratch},
    wait::eventually,
};

/// The node's name.
pub const NODE: &str = "node-1";

/// A running kubelet. Dropping it ends its process.
#[derive(Debug)]
pub struct Kubelet {
    process: Process,
    scratch: Scratch,
}

// === impl Kubelet ===

impl Kubelet {
    /// Starts a kubelet and makes its node in a spoke.
    pub async fn start(spoke: &Spoke) -> Self {
        let scratch = Scratch::new("kubelet");
        let serving = Authority::new("kubelet-ca").serving();
        let port_file = scratch.file("port");
        let mut command = Command::new(binary());
        command
            .arg("--cert")
            .arg(scratch.write("kubelet.crt", serving.certificate));
        command
            .arg("--key")
            .arg(scratch.write("kubelet.key", serving.key));
        command.arg("--logs").arg(scratch.path());
        command.arg("--port-file").arg(&port_file);
        let process = Process::start(&command, &scratch.file("kubelet.log"));
        let port = eventually("the kubelet listens", || async {
            assert!(process.runs(), "the kubelet ended:\n{}", process.log());
            let port = std::fs::read_to_string(&port_file).map_err(|error| error.to_string())?;
            port.parse::<u16>().map_err(|error| error.to_string())
        })
        .await;
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE},
            "status": {
                "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
            },
        });
        spoke.kubectl().apply(&node.to_string()).await;
        Self { process, scratch }
    }

    /// Makes a pod of one container `main` in the namespace `default`, which runs from now on at an address.
    pub async fn run_pod(&self, spoke: &Spoke, name: &str, address: &str) {
        let kubectl = spoke.kubectl();
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
            "spec": {"nodeName": NODE, "automountServiceAccountToken": false,
                "containers": [{"name": "main", "image": "none"}]},
        });
        kubectl.apply(&pod.to_string()).await;
        self.log(name, "");
        let status = json!({"status": {
            "phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": "True"}],
        }});
        let status: Value = status;
        let patch = status.to_string();
        kubectl
            .must(&["patch", "pod", name, "--subresource=status", "-p", &patch])
            .await;
    }

    /// Adds to what a pod's container has written.
    pub fn log(&self, pod: &str, text: &str) {
        use std::io::Write as _;
        let file = self.scratch.file(&format!("default_{pod}_main.log"));
        let mut file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(file)
            .expect("the scratch folder is writable");
        file.write_all(text.as_bytes()).expect("the log is written");
    }

    /// Returns what the kubelet itself has written.
    pub fn messages(&self) -> String {
        self.process.log()
    }

    /// Returns a folder that "containers" may use.
    pub fn folder(&self, name: &str) -> PathBuf {
        let folder = self.scratch.file(name);
        std::fs::create_dir_all(&folder).expect("the scratch folder is writable");
        folder
    }
}

/// Returns the binary, built if it is not there.
fn binary() -> &'static PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let output = Command::new(assets::workspace().join("hack/kubelet"))
            .stderr(std::process::Stdio::inherit())
            .output()
            .expect("hack/kubelet can be started");
        assert!(output.status.success(), "hack/kubelet must build a kubelet");
        let path = String::from_utf8(output.stdout).expect("a path in UTF-8");
        PathBuf::from(path.trim())
    })
}
