//! What kubectl shows where there is nothing to show: a cluster that is not there, one that was never reached, one that the
//! user may not access; and what `spoke add` says of a cluster that cannot be joined.

use serde_json::json;
use wheelhouse_tests::{
    Kubectl, assets, eventually,
    kubectl::Ran,
    pki::{self, Authority},
    process::{Scratch, free_port},
};

use super::stage::Stage;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_cluster_is_said_in_one_line() {
    let stage = Stage::bare().await;
    a_cluster_that_is_not_there(&stage).await;
    a_cluster_that_may_not_be_accessed(&stage).await;
    a_cluster_that_cannot_be_joined(&stage).await;
    a_cluster_that_the_hub_does_not_use(&stage).await;
    a_hub_that_is_none_and_a_cluster_that_is_its_own(&stage).await;
    a_cluster_that_was_never_reached(&stage).await;
    a_definition_is_compiled_against_a_cluster(&stage).await;
    what_a_spoke_says_of_itself(&stage).await;
    // The stage has a kube-apiserver and an embedded cluster by now.
    super::played::requests_are_answered_alike(&stage, "inner").await;
    super::everywhere::lists_are_of_all_clusters(&stage).await;
}

/// Expects a failure that prints exactly one line, with all of these in it.
#[track_caller]
fn one_line(ran: &Ran, parts: &[&str]) {
    assert_eq!(ran.code, 1, "{ran:?}");
    let lines: Vec<&str> = ran.stderr.lines().collect();
    assert_eq!(lines.len(), 1, "one line: {}", ran.stderr);
    for part in parts {
        assert!(lines[0].contains(part), "{part:?} in: {}", lines[0]);
    }
}

const MAP: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}}";

async fn a_cluster_that_is_not_there(stage: &Stage) {
    let nope = stage.hub.at("nope");
    let says = [
        "NotFound",
        "spoke \"nope\"",
        "kubectl get spokes",
        "wheelhouse spoke add nope",
    ];
    for arguments in [
        &["get", "pods"][..],
        &["describe", "configmap", "a"],
        &["delete", "configmap", "a"],
        &["logs", "a"],
    ] {
        one_line(&nope.run(arguments).await, &says);
    }
    for arguments in [&["apply", "-f", "-"][..], &["create", "-f", "-"]] {
        let ran = nope.run_with_input(arguments, MAP).await;
        assert_ne!(ran.code, 0, "{ran:?}");
        assert!(ran.stderr.contains(says[1]), "{}", ran.stderr);
    }
}

async fn a_cluster_that_may_not_be_accessed(stage: &Stage) {
    // (the cluster, whether it is there: no answer tells)
    for cluster in ["east", "nope"] {
        let path = stage.hub.at(cluster);
        let ran = path.run(&["get", "configmaps", "--as", "joe"]).await;
        assert_eq!(ran.code, 1, "{ran:?}");
        let grant = format!(
            "kubectl create clusterrole access-{cluster} --verb=access --resource=spokes.wheelhouse.dev \
             --resource-name={cluster}"
        );
        for part in ["\"joe\"", "access", &format!("spokes/{cluster}"), &grant] {
            assert!(ran.stderr.contains(part), "{part:?} in: {}", ran.stderr);
        }
        let raw = path
            .run(&["get", "--raw", "/api/v1/pods", "--as", "joe"])
            .await;
        one_line(&raw, &["Forbidden", &format!("spokes/{cluster}")]);
        let who = path.must(&["auth", "whoami", "--as", "joe"]).await;
        assert!(who.contains("joe"), "{who}");
    }
    // What it says is what helps.
    let root = stage.hub.root();
    let role = [
        "create",
        "clusterrole",
        "access-east",
        "--verb=access",
        "--resource=spokes.wheelhouse.dev",
        "--resource-name=east",
    ];
    root.must(&role).await;
    let binding = [
        "create",
        "clusterrolebinding",
        "access-east",
        "--clusterrole=access-east",
        "--user=joe",
    ];
    root.must(&binding).await;
    eventually("joe may access east", || async {
        let path = stage.path();
        let ran = path.run(&["get", "configmaps", "--as", "joe"]).await;
        // The spoke's own word: he has no role there.
        if ran.stderr.contains("cannot list resource \"configmaps\"") {
            return Ok(());
        }
        Err(format!("{ran:?}"))
    })
    .await;
}

/// Writes a kubeconfig of east with something in its text replaced.
fn altered(stage: &Stage, name: &str, from: &str, to: &str) -> String {
    let text = std::fs::read_to_string(stage.east.kubeconfig()).expect("it was written");
    assert!(text.contains(from), "{from} in {text}");
    let file = stage
        .hub
        .data()
        .with_file_name(format!("{name}.kubeconfig"));
    std::fs::write(&file, text.replace(from, to)).expect("a folder of the test's own");
    file.display().to_string()
}

fn dead(stage: &Stage) -> String {
    let server = stage.east.server();
    let (host, _) = server.rsplit_once(':').expect("a port");
    altered(stage, "dead", server, &format!("{host}:{}", free_port()))
}

async fn a_cluster_that_cannot_be_joined(stage: &Stage) {
    let other = Authority::new("east-ca");
    let stranger = pki::kubeconfig(
        "east",
        stage.east.server(),
        &stage.east.certificate(),
        &other.client("admin", Some("system:masters")),
    );
    let strangers = stage.hub.data().with_file_name("stranger.kubeconfig");
    std::fs::write(&strangers, stranger).expect("a folder of the test's own");
    let unknown = pki::kubeconfig(
        "east",
        stage.east.server(),
        &other.certificate(),
        &other.client("admin", Some("system:masters")),
    );
    let unknowns = stage.hub.data().with_file_name("unknown.kubeconfig");
    std::fs::write(&unknowns, unknown).expect("a folder of the test's own");
    for (what, from, says, remedy) in [
        (
            "a dead port",
            dead(stage),
            "onnection refused",
            "--skip-contact",
        ),
        (
            "a wrong authority",
            unknowns.display().to_string(),
            "certificate",
            "is not that of the server",
        ),
        (
            "a wrong credential",
            strangers.display().to_string(),
            "401",
            "needs a credential",
        ),
    ] {
        let add = ["spoke", "add", "west", "--from", &from];
        let ran = stage.hub.wheelhouse(&add).await;
        assert_eq!(ran.code, 1, "{what}: {ran:?}");
        for part in [says, "https://127.0.0.1:", remedy] {
            assert!(
                ran.stderr.contains(part),
                "{what}: {part:?} in {}",
                ran.stderr
            );
        }
        let spoke = stage.hub.root().run(&["get", "spoke", "west"]).await;
        assert!(
            spoke.stderr.contains("NotFound"),
            "{what}: nothing is joined: {spoke:?}"
        );
    }
    let from = stage.east.kubeconfig().display().to_string();
    let add = ["spoke", "add", "east", "--from", &from, "--wait"];
    let ran = stage.hub.wheelhouse(&add).await;
    let told = ran.succeeded("spoke add --wait");
    assert!(told.contains("spoke east is ready (v1."), "{told}");
    a_credential_that_does_not_work(stage, &strangers, &add).await;
}

/// The hub goes on with the credential that works, and says so; the command does too.
async fn a_credential_that_does_not_work(stage: &Stage, other: &std::path::Path, add: &[&str]) {
    let other = other.display().to_string();
    let replace = [
        "spoke",
        "add",
        "east",
        "--from",
        &other,
        "--skip-contact",
        "--wait=600",
    ];
    let ran = stage.hub.wheelhouse(&replace).await;
    assert!(
        ran.code == 1 && ran.stderr.contains("the new one does not work"),
        "{ran:?}"
    );
    let ran = stage.hub.wheelhouse(add).await;
    ran.succeeded("spoke add, with the credential from before");
    a_label_that_is_none(stage, &replace).await;
    a_credential_that_may_too_little(stage).await;
    labels_outlive_a_credential(stage, add).await;
}

/// It can be used for what the heartbeat asks, and for nothing else.
async fn a_credential_that_may_too_little(stage: &Stage) {
    let direct = stage.direct();
    let role = "--clusterrole=limited";
    for create in [
        &["serviceaccount", "limited"][..],
        &[
            "clusterrole",
            "limited",
            "--verb=get,list,watch",
            "--resource=namespaces",
        ],
        &[
            "clusterrolebinding",
            "limited",
            role,
            "--serviceaccount=default:limited",
        ],
    ] {
        direct.must(&[&["create"], create].concat()).await;
    }
    let token = direct.must(&["create", "token", "limited"]).await;
    let config = direct.json(&["config", "view", "--raw"]).await;
    let mut config = config.expect("it has a kubeconfig");
    config["users"][0]["user"] = json!({"token": token.trim()});
    let scratch = Scratch::new("limited");
    let from = scratch.write("kubeconfig", config.to_string());
    let from = from.display().to_string();
    let replace = ["spoke", "add", "east", "--from", &from, "--wait=600"];
    let ran = stage.hub.wheelhouse(&replace).await;
    let is_told = ran.stderr.contains("may not impersonate users");
    assert!(ran.code == 1 && is_told, "{ran:?}");
    // Without one that works there is nothing to go on with, until somebody grants what is missing.
    let remove = ["spoke", "remove", "east"];
    stage.hub.wheelhouse(&remove).await.succeeded("remove");
    let add = ["spoke", "add", "east", "--from", &from, "--wait=3"];
    let ran = stage.hub.wheelhouse(&add).await;
    assert!(ran.code == 1, "{ran:?}");
    let root = stage.hub.root();
    root.must(&[
        "wait",
        "--for=condition=Authorized=False",
        "spoke/east",
        "--timeout=60s",
    ])
    .await;
    let told = root.must(&["get", "spoke", "east", "-o", "jsonpath={.status.message}"]);
    let told = told.await;
    assert!(told.contains("may not impersonate users"), "{told}");
    let all = "--clusterrole=cluster-admin";
    let grant = [
        "create",
        "clusterrolebinding",
        "unlimited",
        all,
        "--serviceaccount=default:limited",
    ];
    direct.must(&grant).await;
    for condition in ["Authorized", "Ready"] {
        let condition = format!("--for=condition={condition}");
        root.must(&["wait", &condition, "spoke/east", "--timeout=60s"])
            .await;
    }
}

/// A command that names no labels takes off none, and does not trust anybody anew.
async fn labels_outlive_a_credential(stage: &Stage, add: &[&str]) {
    let labelled = [add, &["--label", "tier=edge"]].concat();
    let ran = stage.hub.wheelhouse(&labelled).await;
    ran.succeeded("spoke add, with a label");
    let root = stage.hub.root();
    let trust = |it: bool| format!(r#"{{"spec":{{"trustMasters":{it}}}}}"#);
    let patch = ["patch", "spoke", "east", "--type=merge", "-p"];
    root.must(&[patch.as_slice(), &[&trust(false)]].concat())
        .await;
    let ran = stage.hub.wheelhouse(add).await;
    ran.succeeded("spoke add, without one");
    let trusts = [
        "get",
        "spoke",
        "east",
        "-o",
        "jsonpath={.spec.trustMasters}",
    ];
    assert_eq!(root.must(&trusts).await, "false", "what was decided stays");
    root.must(&[patch.as_slice(), &[&trust(true)]].concat())
        .await;
    let template = "jsonpath={.metadata.labels.tier}";
    let get = ["get", "spoke", "east", "-o", template];
    assert_eq!(root.must(&get).await, "edge", "the label stays");
}

/// What is wrong with the Spoke is said before its credential is replaced.
async fn a_label_that_is_none(stage: &Stage, replace: &[&str]) {
    let version = "jsonpath={.metadata.resourceVersion}";
    let get = [
        "get",
        "secret",
        "spoke-east",
        "-n",
        "kube-system",
        "-o",
        version,
    ];
    let before = stage.hub.root().must(&get).await;
    let wrong = [replace, &["--label", "a=b c"]].concat();
    let ran = stage.hub.wheelhouse(&wrong).await;
    assert!(
        ran.code == 1 && ran.stderr.contains("a valid label"),
        "{ran:?}"
    );
    let after = stage.hub.root().must(&get).await;
    assert_eq!(after, before, "the credential stays");
}

/// Neither waits for its whole time: what is wrong does not pass.
async fn a_cluster_that_the_hub_does_not_use(stage: &Stage) {
    let same = stage.east.kubeconfig().display().to_string();
    let ca = certificate_authority(stage);
    let loose = altered(stage, "loose", &ca, "insecure-skip-tls-verify: true");
    for (name, from, says) in [
        (
            "again",
            same,
            "that of spoke \"east\": one cluster is one spoke",
        ),
        ("loose", loose, "start the hub with --allow-insecure-spokes"),
    ] {
        let add = [
            "spoke",
            "add",
            name,
            "--from",
            &from,
            "--skip-contact",
            "--wait=600",
        ];
        let ran = stage.hub.wheelhouse(&add).await;
        assert_eq!(ran.code, 1, "{name}: {ran:?}");
        for part in [says, "was added, but the hub does not use it"] {
            assert!(ran.stderr.contains(part), "{part} in {}", ran.stderr);
        }
        let cautioned = ran.stderr.contains("may refuse this kubeconfig");
        assert_eq!(cautioned, name == "loose", "{}", ran.stderr);
        let fleet = stage.hub.wheelhouse(&["fleet"]).await;
        let fleet = fleet.succeeded("fleet");
        let row = fleet.lines().find(|line| line.starts_with(name));
        assert!(row.is_some_and(|row| row.contains("Refused")), "{fleet}");
        let remove = ["spoke", "remove", name];
        stage.hub.wheelhouse(&remove).await.succeeded("remove");
    }
}

/// A kubeconfig of the wrong server is no reason to leave a credential there, nor one of the hub's own to join it to itself.
async fn a_hub_that_is_none_and_a_cluster_that_is_its_own(stage: &Stage) {
    let east = stage.east.kubeconfig().display().to_string();
    let ran = tokio::process::Command::new(assets::wheelhouse())
        .args(["spoke", "add", "q", "--from", &east, "--kubeconfig", &east])
        .output()
        .await
        .expect("wheelhouse can be started");
    let ran = Ran::from(ran);
    one_line(&ran, &["is not a Wheelhouse hub", "--kubeconfig"]);
    let secrets = ["get", "secrets", "-n", "kube-system", "-o", "name"];
    let secrets = stage.direct().must(&secrets).await;
    assert!(!secrets.contains("spoke-q"), "{secrets}");

    let own = stage.hub.kubeconfig().display().to_string();
    for (from, says) in [
        (&east, "is that of spoke \"east\""),
        (&own, "it is this hub"),
    ] {
        let ran = stage
            .hub
            .wheelhouse(&["spoke", "add", "self", "--from", from])
            .await;
        one_line(&ran, &[says, "nothing was changed"]);
        let spoke = stage.hub.root().run(&["get", "spoke", "self"]).await;
        assert!(spoke.stderr.contains("NotFound"), "{spoke:?}");
    }
    // The hub itself says the same where nobody asked the cluster before.
    let add = [
        "spoke",
        "add",
        "self",
        "--from",
        &own,
        "--skip-contact",
        "--wait=600",
    ];
    let ran = stage.hub.wheelhouse(&add).await;
    one_line(
        &ran,
        &["does not use it", "is that of \"root\" of this hub"],
    );
    let remove = ["spoke", "remove", "self"];
    stage.hub.wheelhouse(&remove).await.succeeded("remove");

    // Another cluster is not joined under a name that there is.
    let add = ["spoke", "add", "east", "--from", &own, "--wait"];
    let ran = stage.hub.wheelhouse(&add).await;
    one_line(&ran, &["nothing was changed", "choose another name"]);
}

/// The line of east's kubeconfig that says whose certificates are believed.
fn certificate_authority(stage: &Stage) -> String {
    let text = std::fs::read_to_string(stage.east.kubeconfig()).expect("it was written");
    let mut lines = text.split([',', '\n', '{', '}']).map(str::trim);
    let line = lines.find(|line| line.contains("certificate-authority-data"));
    line.expect("it has an authority").to_owned()
}

async fn a_cluster_that_was_never_reached(stage: &Stage) {
    let from = dead(stage);
    let add = [
        "spoke",
        "add",
        "dead",
        "--from",
        &from,
        "--skip-contact",
        "--wait=2",
    ];
    let ran = stage.hub.wheelhouse(&add).await;
    one_line(
        &ran,
        &[
            "spoke dead was added, but is not ready",
            "onnection refused",
        ],
    );

    let path: Kubectl = stage.hub.at("dead");
    let says = [
        "ServiceUnavailable",
        "spoke \"dead\" is unreachable since",
        "onnection refused",
    ];
    for arguments in [
        &["get", "pods"][..],
        &["describe", "configmap", "a"],
        &["delete", "configmap", "a"],
    ] {
        one_line(&path.run(arguments).await, &says);
    }
    let ran = path.run_with_input(&["apply", "-f", "-"], MAP).await;
    assert!(ran.stderr.contains(says[1]), "{}", ran.stderr);
    // What the hub stores for it is served.
    path.must(&["get", "resourcegraphdefinitions"]).await;
    described(stage, "spoke", "dead", &["Warning", "onnection refused"]).await;
    stage.hub.root().apply(REFUSED).await;
    described(
        stage,
        "resourcegraphdefinition",
        "refused",
        &["Warning", "undefined field"],
    )
    .await;
    let delete = ["delete", "resourcegraphdefinition", "refused"];
    stage.hub.root().must(&delete).await;
    definitions_outlive_their_spoke(stage, &add).await;
}

/// They are named where the spoke goes, and where the next one of its name comes.
async fn definitions_outlive_their_spoke(stage: &Stage, add: &[&str]) {
    stage.hub.at("dead").apply(REFUSED).await;
    let removed = stage.hub.wheelhouse(&["spoke", "remove", "dead"]).await;
    let told = "stay in the hub's store, for a spoke that joins under this name: refused";
    assert!(
        removed.code == 0 && removed.stderr.contains(told),
        "{removed:?}"
    );
    let added = stage.hub.wheelhouse(add).await;
    let told = "for a spoke of this name before are served again: refused";
    assert!(added.stderr.contains(told), "{added:?}");
}

/// A definition that is refused.
const REFUSED: &str = "
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: refused}
spec:
  schema: {apiVersion: v1alpha1, kind: Refused, spec: {a: string}}
  resources:
  - id: map
    template: {apiVersion: v1, kind: ConfigMap, metadata: {name: '${schema.metadata.name}'}, data: {b: '${schema.spec.b}'}}
";

/// A definition that uses a kind which a cluster defines.
const USES_THING: &str = "
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: uses-thing}
spec:
  schema: {apiVersion: v1alpha1, kind: UsesThing, spec: {size: integer}}
  resources:
  - id: thing
    template: {apiVersion: clients.example.com/v1, kind: Thing, metadata: {name: '${schema.metadata.name}'}, spec: {size: '${schema.spec.size}'}}
";

async fn a_definition_is_compiled_against_a_cluster(stage: &Stage) {
    stage.hub.root().apply("
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.clients.example.com}
spec:
  group: clients.example.com
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing, listKind: ThingList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}}
").await;
    let file = stage.hub.data().with_file_name("uses-thing.yaml");
    for (text, want) in [
        (USES_THING.to_owned(), None),
        (
            USES_THING.replace(".size}", ".length}"),
            Some("undefined field 'length'"),
        ),
        (
            USES_THING.replace("spec: {size: '$", "spec: {siz: '$"),
            Some("schema not found for field siz"),
        ),
    ] {
        std::fs::write(&file, text).expect("a file");
        let name = file.display().to_string();
        let ran = stage.hub.wheelhouse(&["rgd", "validate", &name]).await;
        assert_eq!(ran.code, i32::from(want.is_some()), "{ran:?}");
        assert!(ran.stdout.contains(want.unwrap_or_default()), "{ran:?}");
    }
    let alone = tokio::process::Command::new(assets::wheelhouse())
        .args(["rgd", "validate"])
        .arg(&file)
        .output()
        .await
        .expect("wheelhouse can be started");
    let alone = String::from_utf8_lossy(&alone.stdout).into_owned();
    assert!(alone.contains("cannot resolve group version"), "{alone}");
    let delete = ["delete", "crd", "things.clients.example.com"];
    stage.hub.root().must(&delete).await;
}

/// What is wrong with an object of root is told in its events, too.
async fn described(stage: &Stage, kind: &str, name: &str, parts: &[&str]) {
    eventually(&format!("{kind} {name} has an event"), || async {
        let text = stage.hub.root().must(&["describe", kind, name]).await;
        let events = text.split("Events:").nth(1).unwrap_or_default();
        let is_told = parts.iter().all(|part| events.contains(part));
        is_told.then_some(()).ok_or(text)
    })
    .await;
}

async fn what_a_spoke_says_of_itself(stage: &Stage) {
    let embedded = "{apiVersion: wheelhouse.dev/v1alpha1, kind: Spoke, metadata: {name: inner}, spec: {provider: Embedded}}";
    let root = stage.hub.root();
    root.apply(embedded).await;
    root.must(&[
        "wait",
        "--for=condition=Ready",
        "spoke/inner",
        "--timeout=30s",
    ])
    .await;
    let listed = stage.hub.wheelhouse(&["spoke", "list"]).await;
    let listed = listed.succeeded("spoke list");
    assert!(
        listed.contains("MESSAGE") && listed.contains("onnection refused"),
        "{listed}"
    );
    let field = async |name: &str, field: &str| {
        let path = format!("-o=jsonpath={{.status.{field}}}");
        root.must(&["get", "spoke", name, &path]).await
    };
    // (the spoke, whether its version and a heartbeat are known)
    for (name, version, heartbeat) in [
        ("east", true, true),
        ("inner", true, false),
        ("dead", false, false),
    ] {
        let seen = field(name, "version").await;
        assert_eq!(
            seen.starts_with("v1."),
            version,
            "version of {name}: {seen:?}"
        );
        let seen = field(name, "lastHeartbeatTime").await;
        assert_eq!(!seen.is_empty(), heartbeat, "heartbeat of {name}: {seen:?}");
    }
}
