//! What `deploy/` ships: a real kube-apiserver takes the plain manifests in a namespace with Pod security `restricted`,
//! and the real hub starts with their arguments and serves what they probe. The chart itself is tried where Helm is, in
//! `real_clients/chart.rs`.

use std::{path::Path, process::Command};

use serde_json::Value;
use wheelhouse_tests::{
    Kubectl, assets, eventually,
    manifests::{admitted, chart_digest, documents, of_kind, pod, shipped},
    process::{Process, Scratch},
    wire::{Address, Wire},
};

/// The folders of the container that the hub may write to, and those of the trial in their place.
const WRITABLE: [(&str, &str); 2] = [
    ("/var/lib/wheelhouse", "data-volume"),
    ("/run/wheelhouse", "run"),
];

/// Argo CD's user in `deploy/argo-cd`.
const TOKENS: &str = "argocd-token,argocd,argocd\n";

/// Applies the plain manifests to a cluster, whose Pod security must let them pass and not what is less strict.
pub(crate) async fn manifests_are_admitted(kubectl: &Kubectl) {
    let manifest = shipped("manifests/wheelhouse.yaml");
    let digest = format!("# Chart: {}", chart_digest());
    assert!(
        manifest.contains(&digest),
        "the chart was changed: run hack/manifests"
    );
    kubectl.apply(&shipped("manifests/namespace.yaml")).await;
    admitted(kubectl, &manifest).await.expect("no warning");
    let lax = manifest.replace("runAsNonRoot: true", "runAsNonRoot: false");
    let warned = admitted(kubectl, &lax).await.expect_err("a warning");
    assert!(warned.contains("would violate PodSecurity"), "{warned}");
    // A workload is only warned of; what is enforced is the Pod.
    kubectl.apply(&manifest).await;
    let objects = documents(&manifest);
    let mut pod = pod(of_kind(&objects, "StatefulSet"));
    admitted(kubectl, &pod.to_string()).await.expect("a Pod");
    pod["spec"]["containers"][0]["securityContext"]["capabilities"] = Value::Null;
    let refused = admitted(kubectl, &pod.to_string()).await;
    let refused = refused.expect_err("a Pod with capabilities");
    assert!(refused.contains("violates PodSecurity"), "{refused}");
}

/// systemd reads the unit, and has nothing to say about it.
#[test]
fn the_unit_has_no_faults() {
    let folder = Scratch::new("systemd");
    let verify = |text: &str| {
        let file = folder.write("wheelhouse.service", text);
        let mut analyze = Command::new("systemd-analyze");
        analyze.args(["verify", "--man=no"]).arg(file);
        let ran = analyze.output().ok()?;
        let told = String::from_utf8_lossy(&ran.stderr).into_owned();
        Some((ran.status.success(), told))
    };
    let binary = assets::wheelhouse().display().to_string();
    let unit = shipped("systemd/wheelhouse.service").replace("/usr/local/bin/wheelhouse", &binary);
    let Some(found) = verify(&unit) else {
        assets::skipped("systemd-analyze is not here, which reads the unit");
        return;
    };
    assert_eq!(found, (true, String::new()), "the unit");
    let wrong = verify(&unit.replace("ProtectSystem=", "ProtectSystems="));
    let is_told = wrong.is_some_and(|(_, told)| told.contains("ProtectSystems"));
    assert!(is_told, "an unknown key is told");
}

#[test]
fn the_container_file_has_no_faults() {
    let Some(hadolint) = assets::hadolint() else {
        return;
    };
    let folder = Scratch::new("hadolint");
    let look = |text: &str| {
        let file = folder.write("Containerfile", text);
        let ran = Command::new(&hadolint).arg(file).output();
        let ran = ran.expect("hadolint can be started");
        (
            ran.status.success(),
            String::from_utf8_lossy(&ran.stdout).into_owned(),
        )
    };
    let text = shipped("Containerfile");
    let (is_clean, found) = look(&text);
    assert!(is_clean, "{found}");
    let (is_clean, found) = look(&text.replace("rust:1.95.0-alpine", "rust"));
    assert!(
        !is_clean && found.contains("DL3006"),
        "an image without a tag: {found}"
    );
    assert!(
        text.contains("\nUSER 65532:65532\n"),
        "it runs as nobody's user"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hub_starts_as_the_manifests_start_it_and_serves_what_they_probe() {
    let objects = documents(&shipped("manifests/wheelhouse.yaml"));
    let container = &of_kind(&objects, "StatefulSet")["spec"]["template"]["spec"]["containers"][0];
    let folder = Scratch::new("deploy");
    let tokens = folder.write("tokens.csv", TOKENS);
    let mut command = command(container, &folder);
    command.arg("--token-auth-file").arg(tokens);
    let process = Process::start(&command, &folder.file("hub.log"));
    let kubeconfig = folder.file("run/admin.kubeconfig");
    let server = eventually("the hub is ready", || async {
        assert!(process.runs(), "the hub ended: {}", process.log());
        server(&kubeconfig).ok_or_else(|| process.log())
    })
    .await;
    // What the kubeconfig names is in the certificate: kubectl verifies it, though it connects elsewhere.
    let (name, port) = server.rsplit_once(':').expect("a URL with a port");
    assert_eq!(name, "https://wheelhouse.wheelhouse.svc");
    let local = format!("https://127.0.0.1:{port}");
    for name in ["wheelhouse.wheelhouse.svc.cluster.local", "wheelhouse"] {
        let verified = Kubectl::new(&kubeconfig).server(&local);
        let flag = format!("--tls-server-name={name}");
        verified.must(&["get", "spokes", &flag]).await;
    }
    probes(container, &kubeconfig, &local).await;
    executed(container, &folder, &local).await;
    argo_cd(&folder, &kubeconfig, &local).await;
    readme(&kubeconfig, &local).await;
    process.signal("TERM");
    eventually("it drains", || async {
        let runs = process.runs();
        (!runs).then_some(()).ok_or_else(|| process.log())
    })
    .await;
    let log = process.log();
    assert!(
        log.contains("  kubectl get spokes\n"),
        "what to type next: {log}"
    );
}

/// The server that a kubeconfig names, once it is there.
fn server(kubeconfig: &Path) -> Option<String> {
    let text = std::fs::read_to_string(kubeconfig).ok()?;
    let config: Value = serde_saphyr::from_str(&text).expect("a kubeconfig");
    let server = config["clusters"][0]["cluster"]["server"].as_str();
    Some(server.expect("it names a server").to_owned())
}

/// Puts the trial's folders in the place of the container's. All else there is read-only.
fn placed(text: &str, folder: &Scratch) -> String {
    let mounted = |text: String, (from, to): &(&str, &str)| {
        text.replace(from, &folder.file(to).display().to_string())
    };
    WRITABLE.iter().fold(text.to_owned(), mounted)
}

/// The command of the container, at a free port.
fn command(container: &Value, folder: &Scratch) -> Command {
    let strings = |value: &Value| -> Vec<String> {
        let values = value.as_array().into_iter().flatten();
        let texts = values.map(|value| value.as_str().expect("a text").to_owned());
        texts.collect()
    };
    let program = strings(&container["command"]);
    assert_eq!(program, ["wheelhouse"], "the image has nothing else");
    for (path, name) in WRITABLE {
        let mounts = container["volumeMounts"].as_array().expect("mounts");
        assert!(
            mounts
                .iter()
                .any(|mount| mount["mountPath"] == path && mount["readOnly"].is_null()),
            "{path} is mounted"
        );
        std::fs::create_dir(folder.file(name)).expect("a folder of the trial's own");
    }
    let port = &container["ports"][0]["containerPort"];
    let listen = format!("--listen=0.0.0.0:{port}");
    let mut arguments = strings(&container["args"]);
    let unit = shipped("systemd/wheelhouse.service");
    for argument in arguments.get(..4).expect("the first arguments") {
        assert!(unit.contains(argument), "the unit has {argument} too");
    }
    let listening = arguments.iter_mut().find(|argument| **argument == listen);
    let listening = listening.expect("it listens at the port of the container");
    "--listen=0.0.0.0:0".clone_into(listening);
    let mut command = Command::new(assets::wheelhouse());
    for argument in &arguments {
        let path = argument
            .split_once("=/")
            .map(|(_, path)| format!("/{path}"));
        let is_writable = |path: &String| WRITABLE.iter().any(|(root, _)| path.starts_with(root));
        assert!(path.as_ref().is_none_or(is_writable), "{argument}");
        command.arg(placed(argument, folder));
    }
    command
}

/// Calls each probe as a kubelet does: without a credential.
async fn probes(container: &Value, kubeconfig: &Path, local: &str) {
    let text = std::fs::read_to_string(kubeconfig).expect("it is there");
    let address = Address {
        host: local.trim_start_matches("https://").to_owned(),
        ..Address::of_kubeconfig(&text)
    };
    let get = async |path: &str| {
        let mut wire = Wire::connect(&address, &["http/1.1"], None).await;
        let request = format!("GET {path} HTTP/1.1\r\nhost: hub\r\nconnection: close\r\n\r\n");
        wire.write(request).await;
        String::from_utf8_lossy(&wire.read_to_end().await).into_owned()
    };
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        let http = &container[probe]["httpGet"];
        assert_eq!(http["scheme"], "HTTPS", "{probe}");
        assert_eq!(http["port"], container["ports"][0]["name"], "{probe}");
        let answer = get(http["path"].as_str().expect("a path")).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{probe}: {answer}");
    }
    let refused = get("/metrics").await;
    assert!(refused.starts_with("HTTP/1.1 403 "), "{refused}");
}

/// What the notes and docs/operations.md run with `kubectl exec`, with the container's environment.
async fn executed(container: &Value, folder: &Scratch, local: &str) {
    let exec = |arguments: Vec<&str>| {
        let mut command = tokio::process::Command::new(assets::wheelhouse());
        command.args(arguments).env_remove("KUBECONFIG");
        for variable in container["env"].as_array().into_iter().flatten() {
            let name = variable["name"].as_str().expect("a name");
            let value = variable["value"].as_str().expect("a value");
            command.env(name, placed(value, folder));
        }
        command.output()
    };
    let output = exec(vec!["kubeconfig", "root", "--server", local]).await;
    let output = output.expect("the hub's binary can be started");
    let file = folder.write("hub.kubeconfig", &output.stdout);
    Kubectl::new(&file).must(&["get", "spokes"]).await;
    let backup = folder.file("data-volume/hub.backup").display().to_string();
    let output = exec(vec!["store", "backup", "--out", &backup, "--server", local]).await;
    let output = output.expect("the hub's binary can be started");
    assert!(output.status.success(), "{output:?}");
    let restored = folder.file("data-volume/restored").display().to_string();
    let arguments = vec![
        "store",
        "restore",
        "--from",
        &backup,
        "--data-dir",
        &restored,
    ];
    let output = exec(arguments).await.expect("it can be started");
    assert!(output.status.success(), "{output:?}");
}

/// The rights of `deploy/argo-cd` are enough for its user, and needed.
async fn argo_cd(folder: &Scratch, kubeconfig: &Path, local: &str) {
    let admin = Kubectl::new(kubeconfig).server(local);
    admin
        .apply("apiVersion: wheelhouse.dev/v1alpha1\nkind: Spoke\nmetadata: {name: east, labels: {tier: test}}\nspec: {provider: Embedded}\n")
        .await;
    let path = format!("{local}/clusters/east");
    let cluster = Kubectl::new(kubeconfig).server(&path);
    eventually("east is served", || async {
        cluster.run(&["get", "namespace", "default"]).await.ok()
    })
    .await;
    let secret = &cluster_secret(folder, kubeconfig, local).await["stringData"];
    let credential: Value = serde_json::from_str(secret["config"].as_str().expect("a text"))
        .expect("Argo CD reads JSON");
    let user = serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "a",
        "clusters": [{"name": "a", "cluster": {
            "server": path, "certificate-authority-data": credential["tlsClientConfig"]["caData"]}}],
        "users": [{"name": "a", "user": {"token": credential["bearerToken"]}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    });
    let file = folder.write("argocd.kubeconfig", user.to_string());
    let mut fleet = tokio::process::Command::new(assets::wheelhouse());
    fleet.args(["fleet", "--server", local, "--kubeconfig"]);
    let refused = fleet.arg(&file).output().await.expect("it can be started");
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        told.contains("clusterrole see-spokes"),
        "who sees the fleet: {told}"
    );
    let user = Kubectl::new(&file);
    let create = ["create", "namespace", "made-by-argo-cd"];
    let refused = user.run(&create).await;
    assert!(
        refused.stderr.contains("cannot access resource"),
        "{refused:?}"
    );
    // kubectl reads the schemas first, and shows a refusal of those if it is a text.
    let map = folder.write(
        "map.json",
        serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}).to_string(),
    );
    let apply = ["apply", "--filename", &map.display().to_string()];
    let refused = user.run(&apply).await.stderr;
    assert!(refused.contains("is granted in root, with:"), "{refused}");
    admin.apply(&shipped("argo-cd/access.yaml")).await;
    eventually("argocd is let in", || async {
        let refused = user.run(&create).await.stderr;
        let is_in = refused.contains("cannot create resource");
        is_in.then_some(()).ok_or(refused)
    })
    .await;
    cluster.apply(&shipped("argo-cd/rights.yaml")).await;
    eventually("argocd may create", || async {
        user.run(&create).await.ok()
    })
    .await;
}

/// Returns the Secret of Argo CD for the one spoke, as `wheelhouse spoke argo-cd` prints it.
async fn cluster_secret(folder: &Scratch, kubeconfig: &Path, local: &str) -> Value {
    let token = folder.write("argocd.token", "argocd-token\n");
    let print = |file: &Path, more: &[&str]| {
        let mut command = tokio::process::Command::new(assets::wheelhouse());
        command.args(["spoke", "argo-cd", "--server", local, "--kubeconfig"]);
        command.arg(kubeconfig).arg("--token-file").arg(file);
        command.args(more).output()
    };
    let at = ["--hub-url", "https://wheelhouse.wheelhouse.svc:6443/"];
    let printed = print(&token, &at).await.expect("it can be started");
    assert!(printed.status.success(), "{printed:?}");
    let list = documents(&String::from_utf8_lossy(&printed.stdout)).remove(0);
    let secrets = list["items"].as_array().expect("a list");
    assert_eq!(secrets.len(), 1, "one for each spoke: {list}");
    let secret = secrets.first().expect("it is one");
    assert_eq!(secret["metadata"]["labels"]["tier"], "test", "the Spoke's");
    assert_eq!(
        secret["stringData"]["server"], "https://wheelhouse.wheelhouse.svc:6443/clusters/east",
        "the Service of the manifests"
    );
    let nobody = print(&token, &["west"]).await.expect("it can be started");
    let told = String::from_utf8_lossy(&nobody.stderr).into_owned();
    assert!(!nobody.status.success() && told.contains("west"), "{told}");
    secret.clone()
}

/// The files that the README applies bring their workload to the cluster.
async fn readme(kubeconfig: &Path, local: &str) {
    let text = include_str!("../../../README.md");
    let file = |path: &str| {
        assert!(text.contains(path), "the README applies {path}");
        assets::workspace().join(path).display().to_string()
    };
    let root = Kubectl::new(kubeconfig).server(local);
    let definition = file("cli/src/dev/demo.yaml");
    root.must(&["apply", "-f", &definition]).await;
    let ready = [
        "wait",
        "--for=condition=Ready",
        "rgd/webapp",
        "--timeout=30s",
    ];
    root.must(&ready).await;
    let east = Kubectl::new(kubeconfig).server(format!("{local}/clusters/east"));
    let instance = file("deploy/example/webapp.yaml");
    eventually("the instance is taken", || async {
        east.run(&["apply", "-f", &instance]).await.ok()
    })
    .await;
    eventually("its workload is there", || async {
        east.run(&["get", "deployment", "demo"]).await.ok()
    })
    .await;
}
