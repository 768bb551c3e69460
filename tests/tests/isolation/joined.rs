//! Which clusters a hub joins, and that one which it cannot join is in no other's way.

use std::collections::BTreeSet;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use client::{Dynamic, Endpoint, Patch};
use serde_json::{Value, json};
use wheelhouse_tests::{FakeSpoke, Hub, eventually, fake_spoke::Mode};

/// Calls on objects of a hub, as its administrator.
pub(crate) async fn calls(hub: &Hub) -> Dynamic {
    let kubeconfig = std::fs::read_to_string(hub.kubeconfig()).expect("it was written");
    let connection = client::connect(&kubeconfig, None, &client::Options::default()).await;
    Dynamic::new(connection.expect("a kubeconfig of the hub's").client())
}

/// An endpoint of a logical cluster.
pub(crate) fn endpoint(cluster: &str, version: &str, resource: &str, namespace: &str) -> Endpoint {
    let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
    Endpoint {
        scope: match cluster {
            "root" => None,
            cluster => Some(cluster.parse().expect("a cluster is named")),
        },
        gvr: api::GroupVersionResource::new(group, version, resource),
        namespace: Some(namespace.to_owned()).filter(|it| !it.is_empty()),
    }
}

pub(crate) fn spokes() -> Endpoint {
    endpoint("root", "wheelhouse.dev/v1alpha1", "spokes", "")
}

/// Joins a spoke by a Secret with a label, or none.
pub(crate) async fn join(
    hub: &Dynamic,
    name: &str,
    kubeconfig: &str,
    secret: (&str, Option<&str>),
) {
    let (namespace, label) = secret;
    let mut secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {
        "name": format!("credential-{name}"), "namespace": namespace,
    }, "data": {"kubeconfig": STANDARD.encode(kubeconfig)}});
    if let Some(label) = label {
        secret["metadata"]["labels"] = json!({"wheelhouse.dev/spoke": label});
    }
    let secrets = endpoint("root", "v1", "secrets", namespace);
    hub.create(&secrets, &secret)
        .await
        .expect("the Secret is made");
    let spoke = json!({"apiVersion": "wheelhouse.dev/v1alpha1", "kind": "Spoke",
        "metadata": {"name": name},
        "spec": {"connection": {"secretRef": {"namespace": namespace, "name": format!("credential-{name}")}}}});
    hub.create(&spokes(), &spoke)
        .await
        .expect("the Spoke is made");
}

pub(crate) fn condition<'s>(spoke: &'s Value, type_: &str) -> &'s Value {
    let conditions = spoke["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .find(|it| it["type"] == type_)
        .unwrap_or(&Value::Null)
}

/// Waits until a Spoke's condition is as wanted, and returns its message.
pub(crate) async fn until(hub: &Dynamic, name: &str, type_: &str, status: &str) -> String {
    eventually(&format!("{name} has {type_}={status}"), || async {
        let spoke = hub.get(&spokes(), name).await.map_err(|it| it.chain())?;
        let condition = condition(&spoke, type_);
        if condition["status"] == status {
            return Ok(condition["message"].as_str().unwrap_or_default().to_owned());
        }
        Err(spoke["status"].to_string())
    })
    .await
}

/// Waits until the path of a spoke is refused with a text.
pub(crate) async fn refused(hub: &Dynamic, name: &str, want: &str) {
    let maps = endpoint(name, "v1", "configmaps", "default");
    eventually(&format!("the path of {name} says {want:?}"), || async {
        match hub.get(&maps, "a").await {
            Err(error) if error.status().is_some_and(|it| it.code == 503) => {
                let text = error.to_string();
                text.contains(want).then_some(()).ok_or(text)
            }
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

/// Waits until the path of a spoke is answered by it.
pub(crate) async fn answered(hub: &Dynamic, name: &str) {
    let maps = endpoint(name, "v1", "configmaps", "default");
    eventually(&format!("{name} answers"), || async {
        match hub.get(&maps, "a").await {
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error.chain()),
        }
    })
    .await;
}

pub(crate) fn read(spoke: &FakeSpoke) -> String {
    std::fs::read_to_string(spoke.kubeconfig()).expect("it was written")
}

/// The story: after a restart of the hub, Spoke `aaa` with a malformed kubeconfig made the path of every spoke that sorts
/// after it answer 503 for ever, while `get spokes` showed them Ready.
#[tokio::test(flavor = "multi_thread")]
async fn s14_a_spoke_that_cannot_be_connected_is_in_no_other_spokes_way() {
    let mut hub = Hub::start().await;
    let east = FakeSpoke::start("east").await;
    let root = calls(&hub).await;
    let malformed = "{{{ not a kubeconfig";
    join(&root, "aaa", malformed, ("kube-system", Some("aaa"))).await;
    join(&root, "east", &read(&east), ("kube-system", Some("east"))).await;
    for round in ["joined", "after a restart"] {
        let root = calls(&hub).await;
        answered(&root, "east").await;
        let said = until(&root, "aaa", "Ready", "False").await;
        assert!(said.contains("secret kube-system/credential-aaa"), "{said}");
        // The path says what `get spokes` says.
        refused(&root, "aaa", &said).await;
        until(&root, "east", "Ready", "True").await;
        if round == "joined" {
            hub.kill();
            hub.launch().await;
        }
    }
}

/// Joins spokes by kubeconfigs that must not be used.
async fn dangerous_kubeconfigs(root: &Dynamic, sound: &str) {
    // A credential that anyone on the way could read is not sent.
    let plain = sound.replace("https://", "http://");
    join(root, "plain", &plain, ("kube-system", Some("plain"))).await;
    let said = until(root, "plain", "Ready", "False").await;
    assert!(said.contains("--allow-insecure-spokes"), "{said}");
    refused(root, "plain", &said).await;
    // Nor does a kubeconfig in a Secret run a program of the hub's machine.
    let program = r#"{"current-context": "a", "clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "a", "user": {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "id"}}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}]}"#;
    join(root, "program", program, ("kube-system", Some("program"))).await;
    let said = until(root, "program", "Ready", "False").await;
    assert!(said.contains("exec is not allowed here"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_a_credential_is_used_for_its_spoke_alone_and_a_cluster_is_one_spoke() {
    let hub = Hub::start().await;
    let (east, west) = tokio::join!(FakeSpoke::start("east"), FakeSpoke::start("west"));
    let root = calls(&hub).await;
    let apart =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "wheelhouse-system"}});
    let namespaces = endpoint("root", "v1", "namespaces", "");
    root.create(&namespaces, &apart).await.expect("it is made");

    // Whose Secret it is: labelled for the spoke, or in the namespace that is set apart.
    join(&root, "east", &read(&east), ("kube-system", Some("east"))).await;
    join(&root, "west", &read(&west), ("wheelhouse-system", None)).await;
    until(&root, "east", "Ready", "True").await;
    until(&root, "west", "Ready", "True").await;
    for (name, label) in [("of-another", Some("east")), ("of-nobody", None)] {
        join(&root, name, &read(&east), ("default", label)).await;
        let said = until(&root, name, "Ready", "False").await;
        assert!(said.contains("may not be used for spoke"), "{said}");
        refused(&root, name, &said).await;
    }

    dangerous_kubeconfigs(&root, &read(&east)).await;

    // The same cluster under another name, which sorts before the holder's.
    join(
        &root,
        "aaa-twin",
        &read(&east),
        ("kube-system", Some("aaa-twin")),
    )
    .await;
    let said = until(&root, "aaa-twin", "Identified", "False").await;
    assert!(
        said.contains("uid-of-east") && said.contains("\"east\""),
        "{said}"
    );
    refused(&root, "aaa-twin", &said).await;
    until(&root, "east", "Ready", "True").await;

    // A cluster that claims to be another one harms itself alone, and is told how to be what it says.
    let before: BTreeSet<String> = west.stored().into_iter().collect();
    west.set(Mode::Uid("uid-of-east".to_owned()));
    let said = until(&root, "west", "Identified", "False").await;
    assert!(said.contains("\"east\""), "{said}");
    refused(&root, "west", &said).await;
    west.set(Mode::Uid("uid-of-nobody".to_owned()));
    eventually("the change is told", || async {
        let said = until(&root, "west", "Identified", "False").await;
        let told = said.contains("was uid-of-west and is uid-of-nobody");
        told.then_some(()).ok_or(said)
    })
    .await;
    let after: BTreeSet<String> = west.stored().into_iter().collect();
    assert_eq!(before, after, "nothing is written to it");
    answered(&root, "east").await;
    let meant =
        json!({"metadata": {"annotations": {"wheelhouse.dev/cluster-uid": "uid-of-nobody"}}});
    root.patch(&spokes(), "west", None, Patch::Merge(&meant))
        .await
        .expect("it is annotated");
    until(&root, "west", "Ready", "True").await;
    answered(&root, "west").await;

    // What is taken away is not used any more.
    let unlabelled = json!({"metadata": {"labels": {"wheelhouse.dev/spoke": null}}});
    let secrets = endpoint("root", "v1", "secrets", "kube-system");
    root.patch(&secrets, "credential-east", None, Patch::Merge(&unlabelled))
        .await
        .expect("it is changed");
    let said = until(&root, "east", "Ready", "False").await;
    refused(&root, "east", &said).await;
}
