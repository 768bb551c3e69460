//! Spokes of ClusterProfiles, and ClusterProfiles of spokes.

use client::{DeleteRequest, Dynamic, Patch};
use serde_json::{Value, json};
use wheelhouse_tests::{FakeSpoke, eventually, process::Scratch};

use super::joined::{answered, condition, endpoint, read, spokes, until};

/// Where the profiles of others are.
const FLEET: &str = "fleet";
/// Where the hub has its own.
const PUBLISHED: &str = "published";
const ID: &str = "cluster.clusterset.k8s.io";
const EXEC: &str = "client.authentication.k8s.io/v1";

/// The name of a variable of the hub's environment that no plug-in sees.
const OF_HUB: &str = "TRIAL_OF_HUB";
/// The name of one that they see.
const OF_PLUGINS: &str = "TRIAL_OF_PLUGINS";
/// What of a server's name makes the plug-in hang.
const HANGS: &str = "hangs.invalid";

/// Returns the arguments of the hub. Its plug-in prints the token of a file.
pub(crate) fn arguments(scratch: &Scratch) -> Vec<String> {
    let script = format!(
        r#"[ -z "${OF_HUB}" ] && [ -n "${OF_PLUGINS}" ] || exit 9
           case "$KUBERNETES_EXEC_INFO" in *{HANGS}*) sleep 60;; esac
           cat "$TOKENS""#
    );
    let exec = json!({"apiVersion": EXEC, "command": "sh", "args": ["-c", script],
        "env": [{"name": "TOKENS", "value": scratch.file("tokens").display().to_string()}],
        "provideClusterInfo": true});
    let providers = json!({"providers": [{"name": "cloud", "execConfig": exec}]});
    let file = scratch.write("providers.json", providers.to_string());
    let arguments = [
        "--cluster-profile-namespace",
        FLEET,
        "--clusterprofile-provider-file",
        &file.display().to_string(),
        "--plugin-env",
        "TRIAL_OF_PLUG*",
        "--publish-cluster-profiles",
        PUBLISHED,
    ];
    arguments.map(str::to_owned).into()
}

/// Returns variables of the hub's environment.
pub(crate) fn environment() -> Vec<(String, String)> {
    let of = |name: &str| (name.to_owned(), "x".to_owned());
    [OF_HUB, OF_PLUGINS].map(of).into()
}

/// Has a cluster give itself an id.
pub(crate) fn call_itself(spoke: &FakeSpoke, id: &str) {
    let property = json!({"apiVersion": "about.k8s.io/v1beta1", "kind": "ClusterProperty",
        "metadata": {"name": ID}, "spec": {"value": id}});
    let path = format!("/apis/about.k8s.io/v1beta1/clusterproperties/{ID}");
    spoke.put(&path, &property);
}

fn profiles(namespace: &str) -> client::Endpoint {
    let version = "multicluster.x-k8s.io/v1alpha1";
    endpoint("root", version, "clusterprofiles", namespace)
}

fn print_token(scratch: &Scratch, token: &str) {
    let printed = json!({"apiVersion": EXEC, "kind": "ExecCredential", "status": {"token": token}});
    scratch.write("tokens", printed.to_string());
}

fn cluster_of(spoke: &FakeSpoke) -> Value {
    let kubeconfig: Value = serde_json::from_str(&read(spoke)).expect("it is JSON");
    kubeconfig["clusters"][0]["cluster"].clone()
}

/// Makes a profile, as the manager of a fleet does.
async fn describe(root: &Dynamic, namespace: &str, name: &str, cluster: &Value) {
    let profile = json!({"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterManager": {"name": "somebody"}}});
    eventually("the profile is made", || async {
        match root.create(&profiles(namespace), &profile).await {
            Err(error) if !error.is_already_exists() => Err(error.chain()),
            Ok(_) | Err(_) => Ok(()),
        }
    })
    .await;
    let status = json!({"status": {"accessProviders": [
        {"name": "unknown", "cluster": {"server": "https://192.0.2.1"}},
        {"name": "cloud", "cluster": cluster}]}});
    let patch = Patch::Merge(&status);
    let profiles = profiles(namespace);
    let patched = root.patch(&profiles, name, Some("status"), patch).await;
    patched.expect("it is described");
}

/// A cluster that another manager describes is a spoke, and is described by this hub.
pub(crate) async fn profiles_are_spokes_and_spokes_are_profiles(root: &Dynamic, scratch: &Scratch) {
    let violet = FakeSpoke::start("violet").await;
    violet.accept_tokens(&["of-violet"]);
    print_token(scratch, "of-violet");
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": FLEET}});
    let namespaces = endpoint("root", "v1", "namespaces", "");
    let made = root.create(&namespaces, &namespace).await;
    made.expect("it is made");
    let cluster = cluster_of(&violet);
    describe(root, "default", "sneaky", &cluster).await;
    let nowhere = json!({"server": format!("https://{HANGS}")});
    describe(root, FLEET, "aaa-hangs", &nowhere).await;
    // It calls itself by the name of another one.
    is_published(root, "west", "prod").await;
    call_itself(&violet, "prod");
    describe(root, FLEET, "violet", &cluster).await;
    until(root, "violet", "Ready", "True").await;
    answered(root, "violet").await;
    let sneaky = root.get(&spokes(), "sneaky").await;
    assert!(sneaky.is_err_and(|it| it.is_not_found()), "nobody asked");
    eventually("what it says of itself is known", || async {
        let spoke = root.get(&spokes(), "violet").await;
        let spoke = spoke.map_err(|it| it.chain())?;
        let is_known = spoke["status"]["clusterID"] == "prod";
        is_known.then_some(()).ok_or(spoke["status"].to_string())
    })
    .await;
    let profile = is_published(root, "violet", "uid-of-violet").await;
    let member = &profile["metadata"]["labels"]["multicluster.x-k8s.io/inventory-member-id"];
    assert_eq!(member, "uid-of-violet", "{profile}");
    is_published(root, "west", "prod").await;

    // The token ends before the plug-in said that it would.
    print_token(scratch, "later");
    violet.accept_tokens(&["later"]);
    eventually("the plug-in was asked again", || async {
        let seen = violet.seen();
        let is_used = seen.iter().any(|it| it.token() == "later");
        is_used.then_some(()).ok_or("not yet".to_owned())
    })
    .await;
    answered(root, "violet").await;
    is_published(root, "violet", "uid-of-violet").await;

    let request = DeleteRequest::default();
    let deleted = root.delete(&profiles(FLEET), "violet", &request).await;
    deleted.expect("it is deleted");
    for (what, endpoint) in [("Spoke", spokes()), ("profile", profiles(PUBLISHED))] {
        eventually(&format!("the {what} violet is gone"), || async {
            match root.get(&endpoint, "violet").await {
                Err(error) if error.is_not_found() => Ok(()),
                Err(error) => Err(error.chain()),
                Ok(object) => Err(object.to_string()),
            }
        })
        .await;
    }
}

/// Waits until a spoke is published under an id. What is published is no credential.
async fn is_published(root: &Dynamic, name: &str, id: &str) -> Value {
    let profile = eventually(&format!("{name} is published as {id}"), || async {
        let profile = root.get(&profiles(PUBLISHED), name).await;
        let profile = profile.map_err(|it| it.chain())?;
        let property = &profile["status"]["properties"][0];
        let is_so = condition(&profile, "ControlPlaneHealthy")["status"] == "True"
            && property["name"] == ID
            && property["value"] == id;
        is_so.then(|| profile.clone()).ok_or(profile.to_string())
    })
    .await;
    let labels = &profile["metadata"]["labels"];
    let manager = &profile["spec"]["clusterManager"]["name"];
    assert_eq!(&labels["x-k8s.io/cluster-manager"], manager, "{profile}");
    let provider = &profile["status"]["accessProviders"][0];
    let server = provider["cluster"]["server"].as_str().unwrap_or_default();
    assert!(server.ends_with(&format!("/clusters/{name}")), "{profile}");
    let text = profile.to_string();
    for secret in ["\"of-violet\"", "token", "\"user", "exec", "PRIVATE"] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    profile
}
