//! What a kro left in a spoke becomes the hub's, with the rights that kro had and no others, and goes back. kro itself is in
//! `real_clients/kro/migration.rs`; here its part is played by what a hub has given back.

use std::time::Duration;

use serde_json::{Value, json};
use wheelhouse_tests::{Kubectl, eventually, wait::within};

use super::stage::{Stage, gone, until};

/// The account that kro has, with few rights at first.
const ACCOUNT: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: kro-system}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: kro, namespace: kro-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: kro}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: kro}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: kro}
subjects: [{kind: ServiceAccount, name: kro, namespace: kro-system}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: kro, namespace: kro-system, labels: {app.kubernetes.io/name: kro}}
spec:
  replicas: 1
  selector: {matchLabels: {app: kro}}
  template:
    metadata: {labels: {app: kro}}
    spec: {serviceAccountName: kro, containers: [{name: kro, image: kro}]}
"#;

fn definition() -> Value {
    json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": {"name": "note"},
        "spec": {"schema": {"apiVersion": "v1alpha1", "kind": "Note", "spec": {"text": "string"}},
            "resources": [{"id": "map", "template": {"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "note-${schema.metadata.name}"}, "data": {"text": "${schema.spec.text}"}}}]}})
}

fn instance(name: &str) -> String {
    json!({"apiVersion": "kro.run/v1alpha1", "kind": "Note", "metadata": {"name": name, "namespace": "default"},
        "spec": {"text": name}})
    .to_string()
}

/// The uids of what must be the same at the end.
async fn uids(direct: &Kubectl) -> Vec<String> {
    let mut uids = Vec::new();
    for object in [
        "note/a",
        "note/b",
        "configmap/note-a",
        "configmap/note-b",
        "crd/notes.kro.run",
    ] {
        let live = direct.json(&["get", object]).await.expect(object);
        uids.push(live["metadata"]["uid"].to_string());
    }
    uids
}

async fn migrate(stage: &Stage, arguments: &[&str]) -> String {
    let all = [&["spoke", "migrate", "east", "--timeout=60"], arguments].concat();
    stage
        .hub
        .wheelhouse(&all)
        .await
        .succeeded(&format!("{all:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_go_to_kro_and_come_back_with_kros_rights() {
    let stage = Stage::bare().await;
    let (path, direct) = (stage.path(), stage.direct());
    for crd in api::kro::definitions() {
        direct.apply(&crd.to_string()).await;
    }
    path.apply(&definition().to_string()).await;
    let of_root = definition()
        .to_string()
        .replace("Note", "Kept")
        .replace("note", "kept");
    stage.hub.root().apply(&of_root).await;
    let active = |rgd: &Value| rgd["status"]["state"] == "Active";
    until(&path, &["get", "rgd", "note"], "it is served", active).await;
    path.apply(&instance("a")).await;
    until(&path, &["get", "kepts"], "root's is served", |_| true).await;
    path.apply(&instance("a").replace("Note", "Kept")).await;
    direct.apply(&instance("b")).await;
    for name in ["note-a", "note-b", "kept-a"] {
        until(
            &direct,
            &["get", "configmap", name],
            "its child is made",
            |_| true,
        )
        .await;
    }
    for name in ["a", "b"] {
        let what = "its mirror has its status";
        let ready = |note: &Value| note["status"]["state"] == "ACTIVE";
        until(&direct, &["get", "note", name], what, ready).await;
    }
    let before = uids(&direct).await;
    returns(&stage).await;
    is_kros(&direct).await;
    is_left_by_the_hub(&stage).await;
    assert_eq!(uids(&direct).await, before, "given back");
    is_not_taken_at_first(&stage).await;
    takes_over(&stage).await;
    assert_eq!(uids(&direct).await, before, "taken over");
    acts_as_kros_account(&stage).await;
    deletes_for_kro(&stage).await;
}

/// A plan says what goes back; then it does.
async fn returns(stage: &Stage) {
    let direct = stage.direct();
    let plan = migrate(stage, &["--back"]).await;
    assert!(
        plan.contains("rgd/note  Note.kro.run  Active  1 revisions  2 instances"),
        "{plan}"
    );
    assert!(
        plan.contains("1 instances were made at the hub's path"),
        "{plan}"
    );
    let none = direct.json(&["get", "rgd"]).await.expect("a list");
    assert_eq!(none["items"], json!([]), "a plan changes nothing");
    migrate(stage, &["--back", "--yes"]).await;
}

/// kro finds what it would have written, and nothing of the hub.
async fn is_kros(direct: &Kubectl) {
    let rgd = direct
        .json(&["get", "rgd", "note"])
        .await
        .expect("it is there");
    let revision = ["get", "graphrevisions.internal.kro.run", "note-r00001"];
    let revision = direct.json(&revision).await.expect("its revision");
    let owner = &revision["metadata"]["ownerReferences"][0]["uid"];
    assert_eq!(owner, &rgd["metadata"]["uid"], "{revision}");
    assert_eq!(rgd["status"]["lastIssuedRevision"], 1, "{rgd}");
    for name in ["a", "b"] {
        let note = direct
            .json(&["get", "note", name])
            .await
            .expect("an instance");
        assert_eq!(
            note["metadata"]["finalizers"],
            json!(["kro.run/finalizer"]),
            "{note}"
        );
        let child = direct
            .json(&["get", "configmap", &format!("note-{name}")])
            .await
            .expect("a child");
        let labels = &child["metadata"]["labels"];
        assert_eq!(
            labels["kro.run/instance-id"], note["metadata"]["uid"],
            "{child}"
        );
        for object in [&note, &child, &rgd] {
            let text = json!([
                object["metadata"]["labels"],
                object["metadata"]["annotations"]
            ]);
            assert!(!text.to_string().contains("wheelhouse"), "{text}");
        }
    }
}

/// The path shows what is in the spoke, and what root defines stays the hub's.
async fn is_left_by_the_hub(stage: &Stage) {
    let (path, direct) = (stage.path(), stage.direct());
    // The record that stays is that of root's kind.
    eventually("the path is the spoke's", || async {
        let here = path.json(&["get", "note", "a"]).await?;
        let there = direct.json(&["get", "note", "a"]).await?;
        let records = path.json(&["get", "servedresources"]).await?;
        let count = records["items"].as_array().map_or(0, Vec::len);
        if here["metadata"]["uid"] == there["metadata"]["uid"] && count == 1 {
            return Ok(());
        }
        Err(records.to_string())
    })
    .await;
    let none = path.json(&["get", "rgd"]).await.expect("a list");
    assert_eq!(none["items"], json!([]), "the hub has forgotten it");
    path.must(&["get", "kept", "a"]).await;
    let edit = r#"{"data": {"text": "changed"}}"#;
    direct
        .must(&["patch", "configmap", "kept-a", "--type=merge", "-p", edit])
        .await;
    let what = "an instance of root's definition is looked after";
    until(&direct, &["get", "configmap", "kept-a"], what, |it| {
        it["data"]["text"] == "a"
    })
    .await;
}

/// What blocks it is listed, and nothing is taken over meanwhile.
async fn is_not_taken_at_first(stage: &Stage) {
    let (path, direct) = (stage.path(), stage.direct());
    let plan = migrate(stage, &[]).await;
    assert!(
        plan.contains("blocked: there is no Deployment of kro"),
        "{plan}"
    );
    direct.apply(ACCOUNT).await;
    let hostile = [
        "annotate",
        "rgd",
        "note",
        "wheelhouse.dev/run-as=kube-system/namespace-controller",
    ];
    direct.must(&hostile).await;
    let said = "internal.wheelhouse.dev/author={\"hub\":true}";
    direct
        .must(&["annotate", "rgd", "note", said, "wheelhouse.dev/adopt=true"])
        .await;
    let plan = migrate(stage, &[]).await;
    for reason in [
        "blocked: kro runs: Deployment kro-system/kro has 1 replicas",
        "ServiceAccount kro-system/kro may not patch configmaps in all namespaces",
    ] {
        assert!(plan.contains(reason), "{reason}: {plan}");
    }
    let arguments = ["spoke", "migrate", "east", "--yes"];
    let refused = stage.hub.wheelhouse(&arguments).await;
    assert_eq!(refused.code, 1, "{refused:?}");
    let none = path.json(&["get", "rgd"]).await.expect("a list");
    assert_eq!(none["items"], json!([]), "nothing was taken over");
}

/// Once kro is stopped and its account has the rights that it needs, the hub takes over. What the spoke says of rights does not count.
async fn takes_over(stage: &Stage) {
    let (path, direct) = (stage.path(), stage.direct());
    direct
        .must(&[
            "scale",
            "deployment/kro",
            "-n",
            "kro-system",
            "--replicas=0",
        ])
        .await;
    give_rights(&direct, "*").await;
    let stopped = |it: &Value| it["status"]["replicas"].is_null();
    until(
        &direct,
        &["get", "deployment/kro", "-n", "kro-system"],
        "it is stopped",
        stopped,
    )
    .await;
    // The spoke's authorizer learns of the rights a moment later.
    eventually("nothing blocks it", || async {
        let plan = migrate(stage, &[]).await;
        if plan.contains("blocked: ") {
            Err(plan)
        } else {
            Ok(())
        }
    })
    .await;
    migrate(stage, &["--yes"]).await;
    let there = direct
        .json(&["get", "rgd", "note"])
        .await
        .expect("it stays");
    let here = path
        .json(&["get", "rgd", "note"])
        .await
        .expect("it is here");
    assert_eq!(here["metadata"]["uid"], there["metadata"]["uid"], "{here}");
    let annotations = &here["metadata"]["annotations"];
    let author = annotations["internal.wheelhouse.dev/author"]
        .as_str()
        .unwrap_or_default();
    assert!(
        author.contains("system:serviceaccount:kro-system:kro") && !author.contains("hub"),
        "{author}"
    );
    for key in ["wheelhouse.dev/run-as", "wheelhouse.dev/adopt"] {
        assert!(annotations[key].is_null(), "{key}: {annotations}");
    }
    let wait = ["wait", "spoke/east", "--for=condition=Migrated"];
    stage.hub.root().must(&wait).await;
}

/// Gives kro's account what it may do with ConfigMaps.
async fn give_rights(direct: &Kubectl, verb: &str) {
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": [verb]}]);
    let patch = json!({"rules": rules}).to_string();
    let role = ["patch", "clusterrole", "kro", "--type=merge", "-p", &patch];
    direct.must(&role).await;
}

/// The hub acts as that account: what it may not, is not done.
async fn acts_as_kros_account(stage: &Stage) {
    let (path, direct) = (stage.path(), stage.direct());
    give_rights(&direct, "get").await;
    let edit = |text: &str| json!({"spec": {"text": text}}).to_string();
    let mut count = 0;
    within(Duration::from_mins(1), "a change is refused", || {
        // Each one is new: the spoke's authorizer learns of the rights a moment later.
        count += 1;
        let edit = edit(&format!("denied {count}"));
        let (path, direct) = (&path, &direct);
        async move {
            let patch = ["patch", "note", "b", "--type=merge", "-p", &edit];
            direct.must(&patch).await;
            let note = path.json(&["get", "note", "b"]).await?;
            let told = note["status"]["conditions"].to_string();
            if told.contains("kro-system:kro") && told.contains("forbidden") {
                return Ok(());
            }
            Err(told)
        }
    })
    .await;
    give_rights(&direct, "*").await;
    let last = direct
        .json(&["get", "note", "b"])
        .await
        .expect("it is there");
    let what = "with its rights, it is done";
    let map = ["get", "configmap", "note-b"];
    until(&direct, &map, what, |it| {
        it["data"]["text"] == last["spec"]["text"]
    })
    .await;
}

/// An instance that kro held goes with its children, and nobody waits for kro.
async fn deletes_for_kro(stage: &Stage) {
    let (path, direct) = (stage.path(), stage.direct());
    direct.must(&["delete", "note", "b", "--timeout=60s"]).await;
    gone(&direct, &["get", "configmap", "note-b"]).await;
    gone(&path, &["get", "note", "b"]).await;
    path.must(&["delete", "note", "a", "--timeout=60s"]).await;
    gone(&direct, &["get", "note", "a"]).await;
    gone(&direct, &["get", "configmap", "note-a"]).await;
}
