//! Spokes of clusters that a source has found: who makes one so, and that nothing goes because a source is silent or has let go.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use client::{DeleteRequest, Dynamic, Patch};
use serde_json::{Value, json};
use wheelhouse_tests::{FakeSpoke, Hub, eventually, hub::Settings, process::Scratch};

use super::{
    hostile_spoke::{define, make},
    joined::{answered, calls, condition, endpoint, join, read, refused, spokes, until},
    profiles,
};

const APART: &str = "wheelhouse-system";
const RUNTIME: &str = "sigs.k8s.io/multicluster-runtime-kubeconfig";

fn secrets(namespace: &str) -> client::Endpoint {
    endpoint("root", "v1", "secrets", namespace)
}

/// A Secret by the contract of multicluster-runtime.
fn of_runtime(namespace: &str, name: &str, kubeconfig: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace, "labels": {RUNTIME: "true"}},
        "data": {"kubeconfig": STANDARD.encode(kubeconfig)}})
}

/// A Secret as Cluster API makes one.
fn of_cluster_api(namespace: &str, name: &str, kubeconfig: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
        "metadata": {"name": format!("{name}-kubeconfig"), "namespace": namespace,
            "labels": {"cluster.x-k8s.io/cluster-name": name}},
        "data": {"value": STANDARD.encode(kubeconfig)}})
}

async fn create(root: &Dynamic, namespace: &str, secret: &Value) {
    let made = root.create(&secrets(namespace), secret).await;
    made.expect("the Secret is made");
}

async fn delete(root: &Dynamic, namespace: &str, name: &str) {
    let request = DeleteRequest::default();
    let deleted = root.delete(&secrets(namespace), name, &request).await;
    deleted.expect("it is deleted");
}

/// Waits until a condition of a Spoke has a reason.
async fn until_reason(root: &Dynamic, name: &str, type_: &str, reason: &str) -> Value {
    eventually(&format!("{name} has {type_} {reason}"), || async {
        let spoke = root.get(&spokes(), name).await.map_err(|it| it.chain())?;
        let is_so = condition(&spoke, type_)["reason"] == reason;
        is_so.then(|| spoke.clone()).ok_or(spoke.to_string())
    })
    .await
}

async fn until_gone(root: &Dynamic, name: &str) {
    eventually(&format!("Spoke {name} is gone"), || async {
        match root.get(&spokes(), name).await {
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error.chain()),
            Ok(spoke) => Err(spoke.to_string()),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_a_secret_is_a_spoke_where_the_operator_says_so_and_takes_none_away() {
    let scratch = Scratch::new("found");
    let file = scratch.write("spokes.kubeconfig", "contexts: []");
    let file = file.display().to_string();
    let arguments = [
        "--cluster-api-namespace",
        "capi",
        "--spoke-kubeconfig",
        &file,
    ];
    let mut arguments: Vec<String> = arguments.map(str::to_owned).into();
    arguments.extend(profiles::arguments(&scratch));
    let hub = Hub::start_with(Settings {
        arguments,
        environment: profiles::environment(),
        ..Settings::default()
    })
    .await;
    let (east, west) = tokio::join!(FakeSpoke::start("east"), FakeSpoke::start("west"));
    profiles::call_itself(&west, "prod");
    let root = calls(&hub).await;
    let namespaces = endpoint("root", "v1", "namespaces", "");
    for name in [APART, "capi"] {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let made = root.create(&namespaces, &namespace).await;
        made.expect("it is made");
    }
    // Anyone may have a label: in another namespace it makes nothing.
    let default = "default";
    create(&root, default, &of_runtime(default, "sneaky", &read(&east))).await;
    create(
        &root,
        default,
        &of_cluster_api(default, "sneaky", &read(&east)),
    )
    .await;
    create(&root, APART, &of_runtime(APART, "east", &read(&east))).await;
    create(&root, "capi", &of_cluster_api("capi", "west", &read(&west))).await;
    for name in ["east", "west"] {
        until(&root, name, "Ready", "True").await;
        let spoke = until_reason(&root, name, "Found", "Found").await;
        assert_eq!(spoke["spec"]["trustMasters"], Value::Null, "{spoke}");
        answered(&root, name).await;
    }
    let sneaky = root.get(&spokes(), "sneaky").await;
    assert!(sneaky.is_err_and(|it| it.is_not_found()), "nobody asked");
    a_spoke_made_by_hand_stays(&root, &read(&east)).await;
    the_same_cluster_is_found_once(&root, &read(&east)).await;
    what_is_let_go_is_not_drained(&root, &west).await;
    tokio::join!(
        contexts_of_a_file_are_spokes(&hub, &root, &scratch),
        profiles::profiles_are_spokes_and_spokes_are_profiles(&root, &scratch),
    );
}

/// The file is on the hub's machine, so it may name a program.
async fn contexts_of_a_file_are_spokes(hub: &Hub, root: &Dynamic, scratch: &Scratch) {
    let (blue, green) = tokio::join!(FakeSpoke::start("blue"), FakeSpoke::start("green"));
    blue.accept_tokens(&["of-blue"]);
    let printed = json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
        "status": {"token": "of-blue"}});
    scratch.write("printed", printed.to_string());
    let exec = json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "cat",
        "args": [scratch.file("printed").display().to_string()], "interactiveMode": "Never"}});
    let parse = |text: String| serde_json::from_str::<Value>(&text).expect("it is JSON");
    let mut both = parse(blue.kubeconfig_with(exec));
    both["contexts"][0]["name"] = json!("prod/Blue");
    let alone = both.to_string();
    let theirs = parse(read(&green));
    for list in ["clusters", "users", "contexts"] {
        let entry = theirs[list][0].clone();
        both[list].as_array_mut().expect("a list").push(entry);
    }
    scratch.write("spokes.kubeconfig", both.to_string());
    for name in ["prod-blue", "green"] {
        until(root, name, "Ready", "True").await;
        answered(root, name).await;
    }
    let uid = async || {
        let spoke = root.get(&spokes(), "prod-blue").await;
        api::meta::uid(&spoke.expect("it is there")).to_owned()
    };
    let before = uid().await;
    // A file that is half written takes nothing away.
    scratch.write("spokes.kubeconfig", "contexts: [");
    eventually("it is told", || async {
        let log = hub.process().log();
        let told = log.contains("cannot read a kubeconfig");
        told.then_some(()).ok_or("not yet".to_owned())
    })
    .await;
    answered(root, "green").await;
    scratch.write("spokes.kubeconfig", alone);
    until_gone(root, "green").await;
    until(root, "prod-blue", "Ready", "True").await;
    assert_eq!(uid().await, before, "it was there all the time");
}

/// A Secret under the name of a Spoke that a person made.
async fn a_spoke_made_by_hand_stays(root: &Dynamic, kubeconfig: &str) {
    let nowhere = "{{{ not a kubeconfig";
    join(root, "mine", nowhere, ("kube-system", Some("mine"))).await;
    until(root, "mine", "Ready", "False").await;
    create(root, APART, &of_runtime(APART, "mine", kubeconfig)).await;
    let spoke = until_reason(root, "mine", "Found", "MadeByHand").await;
    let named = &spoke["spec"]["connection"]["secretRef"]["namespace"];
    assert_eq!(named, "kube-system", "{spoke}");
    delete(root, APART, "mine").await;
    eventually("nothing is to be said any more", || async {
        let spoke = root.get(&spokes(), "mine").await;
        let spoke = spoke.map_err(|it| it.chain())?;
        let is_silent = condition(&spoke, "Found").is_null();
        is_silent.then_some(()).ok_or(spoke.to_string())
    })
    .await;
}

async fn the_same_cluster_is_found_once(root: &Dynamic, kubeconfig: &str) {
    create(
        root,
        "capi",
        &of_cluster_api("capi", "aaa-twin", kubeconfig),
    )
    .await;
    let said = until(root, "aaa-twin", "Identified", "False").await;
    assert!(said.contains("\"east\""), "{said}");
    delete(root, "capi", "aaa-twin-kubeconfig").await;
    until_gone(root, "aaa-twin").await;
    until(root, "east", "Ready", "True").await;
    // A label that is taken away lets go of it too.
    let unlabelled = json!({"metadata": {"labels": {RUNTIME: null}}});
    let patch = Patch::Merge(&unlabelled);
    let patched = root.patch(&secrets(APART), "east", None, patch).await;
    patched.expect("it is changed");
    until_gone(root, "east").await;
}

async fn what_is_let_go_is_not_drained(root: &Dynamic, west: &FakeSpoke) {
    define(root, "Note").await;
    make(root, "west", "Note", "kept").await;
    let children = || {
        let mut stored = west.stored();
        stored.retain(|path| path.contains("configmaps"));
        stored
    };
    let before = children();
    assert!(!before.is_empty(), "there is a child");
    delete(root, "capi", "west-kubeconfig").await;
    until_reason(root, "west", "Found", "SourceGone").await;
    let said = until(root, "west", "Ready", "False").await;
    assert!(said.contains("west-kubeconfig is missing"), "{said}");
    refused(root, "west", &said).await;
    // It comes again, and finds all as it was.
    create(root, "capi", &of_cluster_api("capi", "west", &read(west))).await;
    let spoke = until_reason(root, "west", "Found", "Found").await;
    assert!(api::meta::deletion_timestamp(&spoke).is_none(), "{spoke}");
    until(root, "west", "Ready", "True").await;
    assert_eq!(children(), before, "nothing was taken away");
    let notes = endpoint("west", "kro.run/v1alpha1", "notes", "default");
    let note = root.get(&notes, "kept").await.expect("it is there");
    assert!(api::meta::deletion_timestamp(&note).is_none(), "{note}");
}
