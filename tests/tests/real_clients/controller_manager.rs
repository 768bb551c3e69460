//! kube-controller-manager: with it an embedded cluster works as a cluster does, and at the path of a spoke that has its own it
//! deletes nothing that lives.

use std::{collections::BTreeMap, path::Path, process::Command, time::Duration};

use serde_json::{Value, json};
use wheelhouse_tests::{
    Kubectl, assets,
    process::{Process, Scratch},
    wait::within,
};

use super::stage::{Stage, gone, until};

/// How long its controllers may take; some wait and try again.
const PATIENCE: Duration = Duration::from_mins(3);

const WORKLOADS: &str = include_str!("../../fixtures/workloads.yaml");
const WEBAPP: &str = include_str!("../../fixtures/webapp.yaml");

#[tokio::test(flavor = "multi_thread")]
async fn an_embedded_cluster_works_as_a_cluster_does() {
    // Any of the programs that hack/real-clients builds asks for the trials.
    if assets::client("controllers").is_none() {
        return;
    }
    let mut stage = Stage::set().await;
    let scratch = Scratch::new("manager");
    let process = start(&scratch, &stage.kubeconfig("inner").await);
    let inner = stage.hub.at("inner");
    story(&inner, &process).await;
    // The same on a kube-apiserver with its own: the trial expects what a cluster does.
    let own = stage.east.kubectl();
    let none = Process::start(
        Command::new("sleep").arg("infinity"),
        &scratch.file("none.log"),
    );
    story(&own, &none).await;

    let before = uids(&inner).await;
    stage.hub.kill();
    stage.hub.launch().await;
    inner
        .must(&["scale", "deployment", "web", "--replicas=3"])
        .await;
    pods(&inner, "web", 3, &process).await;
    for (object, uid) in &before {
        assert_eq!(
            uids(&inner).await.get(object),
            Some(uid),
            "{object} is the same"
        );
    }
    ends(&inner, &process).await;
}

/// Runs what the controllers of a cluster are for.
async fn story(kubectl: &Kubectl, process: &Process) {
    kubectl.apply(WORKLOADS).await;
    // (what, how many pods)
    for (app, count) in [("web", 2), ("stateful", 1), ("daemon", 1), ("once", 1)] {
        pods(kubectl, app, count, process).await;
    }
    for app in ["web", "stateful", "daemon"] {
        ready(kubectl, app).await;
    }
    look(
        kubectl,
        process,
        &["get", "deployment", "web"],
        "it is available",
        |it| it["status"]["availableReplicas"] == 2,
    )
    .await;
    look(
        kubectl,
        process,
        &["get", "pdb", "web"],
        "its budget counts the pods",
        |it| it["status"]["currentHealthy"] == 2,
    )
    .await;
    look(
        kubectl,
        process,
        &["get", "resourcequota", "few"],
        "the quota is counted",
        |it| it["status"]["used"]["configmaps"].is_string(),
    )
    .await;
    finishes(kubectl, process).await;
}

/// The second half of [`story`].
async fn finishes(kubectl: &Kubectl, process: &Process) {
    look(
        kubectl,
        process,
        &[
            "get",
            "endpointslices",
            "-l",
            "kubernetes.io/service-name=web",
        ],
        "addresses",
        |it| it["items"][0]["endpoints"].as_array().map_or(0, Vec::len) == 2,
    )
    .await;
    finish(kubectl, "once", "Succeeded").await;
    kubectl
        .must(&[
            "wait",
            "--for=condition=Complete",
            "job/once",
            "--timeout=120s",
        ])
        .await;
    look(
        kubectl,
        process,
        &["get", "clusterrole", "trial-sum"],
        "roles are aggregated",
        |it| it["rules"].as_array().map_or(0, Vec::len) == 1,
    )
    .await;
    let image = [
        "set",
        "image",
        "deployment/web",
        "main=registry.example/web:2",
    ];
    kubectl.must(&image).await;
    look(
        kubectl,
        process,
        &["get", "replicasets", "-l", "app=web"],
        "a second ReplicaSet",
        |it| it["items"].as_array().map_or(0, Vec::len) == 2,
    )
    .await;
    kubectl.must(&["rollout", "undo", "deployment/web"]).await;
    pods(kubectl, "web", 2, process).await;
}

/// Deletes in each of the ways.
async fn ends(kubectl: &Kubectl, process: &Process) {
    kubectl
        .must(&["delete", "deployment", "web", "--cascade=foreground"])
        .await;
    pods(kubectl, "web", 0, process).await;
    kubectl
        .must(&["delete", "job", "once", "--cascade=background"])
        .await;
    pods(kubectl, "once", 0, process).await;
    kubectl
        .must(&["delete", "daemonset", "daemon", "--cascade=orphan"])
        .await;
    look(
        kubectl,
        process,
        &["get", "pods", "-l", "app=daemon"],
        "orphaned",
        |it| {
            let items = it["items"].as_array().cloned().unwrap_or_default();
            items.len() == 1 && items[0]["metadata"]["ownerReferences"].is_null()
        },
    )
    .await;
    kubectl.must(&["create", "namespace", "brief"]).await;
    let map = ["create", "configmap", "in-it", "-n", "brief"];
    kubectl.must(&map).await;
    kubectl
        .must(&["delete", "namespace", "brief", "--timeout=120s"])
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn at_the_path_of_a_spoke_it_deletes_nothing_that_lives() {
    if assets::client("controllers").is_none() {
        return;
    }
    let stage = Stage::set().await;
    let (root, path, direct) = (stage.hub.root(), stage.hub.at("east"), stage.east.kubectl());
    root.apply(WEBAPP).await;
    root.must(&[
        "wait",
        "--for=condition=Ready",
        "rgd/webapp",
        "--timeout=30s",
    ])
    .await;
    let shop = "{apiVersion: kro.run/v1alpha1, kind: WebApp, metadata: {name: shop, namespace: default}, spec: {message: a}}";
    path.apply(shop).await;
    wheelhouse_tests::pods::make_ready(&direct, "shop").await;
    path.must(&[
        "wait",
        "--for=condition=Ready",
        "webapp/shop",
        "--timeout=60s",
    ])
    .await;
    path.apply(WORKLOADS).await;
    let scratch = Scratch::new("manager");
    let own = stage.east.controllers();
    pods(&direct, "web", 2, own).await;
    owned(&path).await;
    let before = uids(&path).await;

    // From now on only the one at the path collects garbage.
    own.signal("STOP");
    let process = start(&scratch, &stage.kubeconfig("east").await);
    for round in 0..2 {
        garbage(&direct, &format!("garbage-{round}"), &process).await;
        let after = uids(&path).await;
        for (object, uid) in &before {
            assert_eq!(
                after.get(object),
                Some(uid),
                "{object} lives\n{}",
                process.log()
            );
        }
    }
    own.signal("CONT");
    let instance = path
        .json(&["get", "webapp", "shop"])
        .await
        .expect("it lives");
    assert_eq!(instance["status"]["state"], "ACTIVE", "{instance}");
    path.must(&["delete", "webapp", "shop", "--timeout=60s"])
        .await;
    gone(&direct, &["get", "deployment", "shop"]).await;
    // What the instance owned goes with it, and nothing else.
    gone(&direct, &["get", "configmap", "owned-by-shop"]).await;
    let left = direct.run(&["get", "configmap", "owned-by-web"]).await;
    assert_eq!(left.code, 0, "{left:?}");
}

/// Creates an object whose owner does not exist, and waits until it is collected: by then all that is watched was judged.
async fn garbage(kubectl: &Kubectl, name: &str, process: &Process) {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "ownerReferences": [{
            "apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "00000000-0000-0000-0000-000000000000"}]},
    });
    kubectl.apply(&object.to_string()).await;
    within(PATIENCE, "garbage is collected", || async {
        let ran = kubectl.run(&["get", "configmap", name]).await;
        let is_gone = ran.stderr.contains("NotFound");
        is_gone.then_some(()).ok_or_else(|| tail(process))
    })
    .await;
}

/// Creates objects that name a workload and an instance as their owner, by the uids that the path shows.
async fn owned(path: &Kubectl) {
    for (version, kind, name) in [
        ("apps/v1", "Deployment", "web"),
        ("kro.run/v1alpha1", "WebApp", "shop"),
    ] {
        let owner = path.json(&["get", kind, name]).await.expect("it is there");
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("owned-by-{name}"), "namespace": "default", "ownerReferences": [{
                "apiVersion": version, "kind": kind, "name": name, "uid": owner["metadata"]["uid"]}]},
        });
        path.apply(&object.to_string()).await;
    }
}

/// Starts kube-controller-manager as a user would, with the kubeconfig of a logical cluster. The tokens of accounts are left to
/// the API server's own controller, whose key it does not have.
fn start(scratch: &Scratch, kubeconfig: &Path) -> Process {
    let mut command = Command::new(assets::folder().join("kube-controller-manager"));
    command.arg("--kubeconfig").arg(kubeconfig);
    command.args([
        "--leader-elect=true",
        "--use-service-account-credentials=false",
        "--v=2",
    ]);
    command.args(["--bind-address", "127.0.0.1", "--secure-port=0"]);
    command.arg(concat!(
        "--controllers=*,-nodeipam,-route,-service-lb-controller,-cloud-node-lifecycle-controller,",
        "-serviceaccount-token-controller,-node-lifecycle-controller,-taint-eviction-controller"
    ));
    Process::start(&command, &scratch.file("manager.log"))
}

fn tail(process: &Process) -> String {
    let log = process.log();
    let lines: Vec<&str> = log.lines().collect();
    let (_, last) = lines.split_at(lines.len().saturating_sub(25));
    format!("runs: {}\n{}", process.runs(), last.join("\n"))
}

async fn look(
    kubectl: &Kubectl,
    process: &Process,
    arguments: &[&str],
    what: &str,
    holds: impl Fn(&Value) -> bool,
) {
    within(PATIENCE, &format!("{arguments:?}: {what}"), || async {
        let object = kubectl.json(arguments).await?;
        if holds(&object) {
            Ok(())
        } else {
            Err(format!("{object}\n{}", tail(process)))
        }
    })
    .await;
}

/// Waits until an application has so many pods.
async fn pods(kubectl: &Kubectl, app: &str, count: usize, process: &Process) {
    let selector = format!("app={app}");
    let arguments = ["get", "pods", "-l", &selector];
    look(
        kubectl,
        process,
        &arguments,
        &format!("{count} pods"),
        |list| {
            let items = list["items"].as_array().into_iter().flatten();
            items
                .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null())
                .count()
                == count
        },
    )
    .await;
}

/// Makes all pods of an application ready, as a kubelet would.
async fn ready(kubectl: &Kubectl, app: &str) {
    let status = json!({"status": {
        "phase": "Running", "podIP": "10.1.1.1", "podIPs": [{"ip": "10.1.1.1"}],
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "ContainersReady", "status": "True"}],
    }});
    patch_pods(kubectl, app, &status).await;
}

async fn finish(kubectl: &Kubectl, app: &str, phase: &str) {
    let status = json!({"status": {"phase": phase, "conditions": [{"type": "Ready", "status": "False"}],
        "containerStatuses": [{"name": "main", "image": "none", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": 0}}}]}});
    patch_pods(kubectl, app, &status).await;
}

async fn patch_pods(kubectl: &Kubectl, app: &str, status: &Value) {
    let selector = format!("app={app}");
    let list = kubectl
        .json(&["get", "pods", "-l", &selector])
        .await
        .expect("pods are listed");
    for pod in list["items"].as_array().into_iter().flatten() {
        let name = pod["metadata"]["name"].as_str().expect("a name");
        let patch = status.to_string();
        kubectl
            .must(&["patch", "pod", name, "--subresource=status", "-p", &patch])
            .await;
    }
}

/// Returns the uids of what lives in the default namespace.
async fn uids(kubectl: &Kubectl) -> BTreeMap<String, Value> {
    let kinds = "deployments,replicasets,statefulsets,daemonsets,jobs,pods,services,configmaps,pdb,resourcequotas,endpointslices";
    let mut found = BTreeMap::new();
    let mut kinds: Vec<&str> = kinds.split(',').collect();
    if kubectl.run(&["get", "webapps"]).await.code == 0 {
        kinds.push("webapps");
    }
    for kind in kinds {
        let list = until(kubectl, &["get", kind], "the kind is listed", |_| true).await;
        for object in list["items"].as_array().into_iter().flatten() {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            found.insert(format!("{kind}/{name}"), object["metadata"]["uid"].clone());
        }
    }
    found
}
