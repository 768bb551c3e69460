//! Lists over all clusters of kinds that spokes keep themselves: what each has, who may see it, and what is said of a spoke that
//! does not answer.

use apiserver::protobuf;
use serde_json::{Value, json};
use wheelhouse_tests::{
    assets,
    pki::token_kubeconfig,
    process::Scratch,
    support::{Answer, CRDS, RBAC, User},
};

use super::stage::Stage;

const MAPS: &str = "/clusters/*/api/v1/namespaces/default/configmaps?labelSelector=in%3Deverywhere";
const WILDS: &str = "/apis/wild.example.com/v1/wilds";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Lists over root, `inner`, which is embedded, `east`, which is a kube-apiserver, and `dead`, which does not answer.
pub(crate) async fn lists_are_of_all_clusters(stage: &Stage) {
    let text = std::fs::read_to_string(stage.hub.kubeconfig()).expect("it was written");
    let admin = User::connect("admin", &text).await;
    let map = json!({"metadata": {"name": "wild", "labels": {"in": "everywhere"}}});
    for prefix in ["", "/clusters/inner", "/clusters/east"] {
        let path = format!("{prefix}/api/v1/namespaces/default/configmaps");
        admin.post(&path, &map).await.must(201);
    }
    define(&admin).await;
    nobody_takes_silence_for_absence(&admin).await;
    the_command_shows_what_can_be_read(stage).await;
    in_every_form(&admin).await;
    what_only_a_spoke_has(&admin).await;
    each_lets_in_whom_it_lets_in(&admin).await;
}

/// Makes a definition that only the kube-apiserver has, and an object of it.
async fn define(admin: &User) {
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let definition = json!({"metadata": {"name": "wilds.wild.example.com"}, "spec": {
        "group": "wild.example.com", "scope": "Cluster", "names": {"kind": "Wild", "plural": "wilds"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
    }});
    let east = "/clusters/east";
    admin
        .post(&format!("{east}{CRDS}"), &definition)
        .await
        .must(201);
    admin.until_status(&format!("{east}{WILDS}"), 200).await;
    let wild =
        json!({"apiVersion": "wild.example.com/v1", "kind": "Wild", "metadata": {"name": "cat"}});
    admin.post(&format!("{east}{WILDS}"), &wild).await.must(201);
}

/// `<cluster> <name>` of each object of a list.
fn placed(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().into_iter().flatten();
    let placed = items.map(|item| {
        let metadata = &item["metadata"];
        let cluster = metadata["annotations"]["kcp.io/cluster"].as_str();
        let name = metadata["name"].as_str().unwrap_or_default();
        format!("{} {name}", cluster.unwrap_or("nowhere"))
    });
    let mut placed: Vec<String> = placed.collect();
    placed.sort();
    placed
}

fn warnings(answer: &Answer) -> Vec<String> {
    let values = answer.headers.get_all("warning").iter();
    let texts = values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    texts.collect()
}

async fn nobody_takes_silence_for_absence(admin: &User) {
    let refused = admin.get(MAPS).await;
    for part in ["spoke \"dead\" is unreachable", "partial=true"] {
        assert!(
            refused.message().contains(part),
            "{part:?} in {}",
            refused.message()
        );
    }
    let body = refused.must(503);
    assert_eq!(body["details"]["causes"][0]["field"], "dead", "{body}");
    assert_eq!(
        body["details"]["causes"].as_array().map(Vec::len),
        Some(1),
        "{body}"
    );
    let part = admin.get(&format!("{MAPS}&partial=true&limit=1")).await;
    let told = warnings(&part);
    assert!(
        told.len() == 1 && told[0].contains("\\\"dead\\\""),
        "{told:?}"
    );
    let list = part.must(200);
    assert_eq!(
        placed(&list),
        ["east wild", "inner wild", "root wild"],
        "{list}"
    );
    assert_eq!(list["kind"], "ConfigMapList", "{list}");
    assert_eq!(list["metadata"].get("continue"), None, "it is whole");
    // What the hub stores for every spoke is read from the hub.
    let graphs = "/clusters/*/apis/kro.run/v1alpha1/resourcegraphdefinitions";
    admin.get(graphs).await.must(200);
    let watch = admin.get(&format!("{MAPS}&watch=true")).await;
    assert!(
        watch.message().contains("/clusters/<name>"),
        "{}",
        watch.message()
    );
    watch.must(405);
}

/// Of a user whom each spoke judges by itself. The one that does not answer hides no other.
async fn the_command_shows_what_can_be_read(stage: &Stage) {
    let root = stage.hub.root();
    root.must(&["create", "serviceaccount", "watcher"]).await;
    let bind = [
        "create",
        "clusterrolebinding",
        "watcher",
        "--clusterrole=cluster-admin",
    ];
    let account = "--serviceaccount=default:watcher";
    root.must(&[bind.as_slice(), &[account]].concat()).await;
    let token = root.must(&["create", "token", "watcher"]).await;
    let scratch = Scratch::new("watcher");
    let text = token_kubeconfig(
        "watcher",
        &stage.hub.server(),
        &stage.hub.authority(),
        token.trim(),
    );
    let kubeconfig = scratch.write("kubeconfig", text);
    for (arguments, want) in [
        (&["fleet", "matrix"][..], "dead: not read: spoke"),
        (&["fleet", "waiting"], "dead: not read: spoke"),
        (
            &["fleet", "waiting", "--cluster", "inner"],
            "No instance of inner is waiting",
        ),
        (&["fleet", "matrix", "-o", "json"], "\"dead\": \"spoke"),
    ] {
        let ran = tokio::process::Command::new(assets::wheelhouse())
            .args(arguments)
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .output()
            .await
            .expect("wheelhouse can be started");
        let said = [ran.stdout, ran.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
        assert!(ran.status.success(), "{arguments:?}: {said:?}");
        assert!(said.concat().contains(want), "{arguments:?}: {said:?}");
    }
    root.must(&["delete", "clusterrolebinding", "watcher"])
        .await;
}

async fn in_every_form(admin: &User) {
    let path = format!("{MAPS}&partial=true");
    let table = admin
        .send("GET", &path, &[("accept", TABLE)], "")
        .await
        .must(200);
    let columns = table["columnDefinitions"].as_array().cloned();
    let names: Vec<Value> = columns
        .unwrap_or_default()
        .iter()
        .map(|it| it["name"].clone())
        .collect();
    assert_eq!(json!(names), json!(["Name", "Data", "Age"]), "{table}");
    assert_eq!(table["rows"].as_array().map(Vec::len), Some(3), "{table}");
    let metadata = admin
        .send("GET", &path, &[("accept", METADATA)], "")
        .await
        .must(200);
    assert_eq!(placed(&metadata).len(), 3, "{metadata}");
    let (status, media, bytes) = admin.get_bytes(&path, PROTOBUF).await;
    assert_eq!((status, media.as_str()), (200, PROTOBUF), "as messages");
    let list = admin.get(&path).await.must(200);
    let encoded = protobuf::encode(&list).expect("it has a message");
    assert_eq!(
        encoded.len(),
        bytes.len(),
        "the same objects at another revision"
    );
}

async fn what_only_a_spoke_has(admin: &User) {
    let path = format!("/clusters/*{WILDS}");
    let list = admin.get(&format!("{path}?partial=true")).await.must(200);
    assert_eq!(
        (&list["kind"], placed(&list)),
        (&json!("WildList"), vec!["east cat".to_owned()]),
        "{list}"
    );
    let table = [("accept", TABLE)];
    let table = admin
        .send("GET", &format!("{path}?partial=true"), &table, "")
        .await
        .must(200);
    assert_eq!(table["rows"][0]["cells"][0], "cat", "{table}");
    let wrong = admin
        .get(&format!("{path}?partial=true&fieldSelector=spec.no%3Dx"))
        .await;
    assert!(wrong.message().contains("spec.no"), "{}", wrong.body);
    wrong.must(400);
}

/// joe may access `east`, and nothing else; there he has no role at first.
async fn each_lets_in_whom_it_lets_in(admin: &User) {
    let joe = [
        ("impersonate-user", "joe"),
        ("content-type", "application/json"),
    ];
    let get = async |path: &str| admin.send("GET", path, &joe, "").await;
    get(MAPS).await.must(403);
    let binding = json!({
        "metadata": {"name": "joe-views"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "joe"}],
    });
    let bindings = format!("/clusters/east{RBAC}/clusterrolebindings");
    admin.post(&bindings, &binding).await.must(201);
    let list = wheelhouse_tests::eventually("joe sees what east has", || async {
        let answer = get(MAPS).await;
        if answer.status == 200 {
            return Ok(answer);
        }
        Err(answer.body.to_string())
    })
    .await;
    assert_eq!(
        warnings(&list),
        [""; 0],
        "he learns nothing of other spokes"
    );
    assert_eq!(placed(&list.body), ["east wild"], "{}", list.body);
    // Discovery of all clusters is for administrators.
    get("/clusters/*/apis").await.must(403);
    let core = admin.get("/clusters/*/api/v1").await.must(200).to_string();
    assert!(core.contains("\"pods\""), "{core}");
    let groups = admin.get("/clusters/*/apis").await.must(200).to_string();
    assert!(groups.contains("\"example.com\""), "{groups}");
}
