//! What the controllers of a real cluster do about ServiceAccounts: every namespace has one, and Secrets get tokens.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use wheelhouse_tests::{Hub, Kubectl, eventually};

use super::stage::{gone, until};

const EMBEDDED: &str = "apiVersion: wheelhouse.dev/v1alpha1\nkind: Spoke\n\
                        metadata: {name: inner}\nspec: {provider: Embedded}\n";

#[tokio::test(flavor = "multi_thread")]
async fn every_namespace_of_the_hub_has_a_default_service_account() {
    let hub = Hub::start().await;
    hub.root().apply(EMBEDDED).await;
    for kubectl in [hub.root(), hub.at("inner")] {
        let account = |namespace| ["get", "serviceaccount", "default", "-n", namespace];
        until(&kubectl, &account("default"), "the first one", |_| true).await;
        kubectl.must(&["create", "namespace", "team"]).await;
        let made = until(&kubectl, &account("team"), "a new one", |_| true).await;

        // Deleted: put back.
        let delete = ["delete", "serviceaccount", "default", "-n", "team"];
        kubectl.must(&delete).await;
        until(&kubectl, &account("team"), "it is back", |back| {
            back["metadata"]["uid"] != made["metadata"]["uid"]
        })
        .await;

        // With the namespace it goes for good.
        kubectl.must(&["delete", "namespace", "team"]).await;
        eventually("the namespace is gone", || async {
            let ran = kubectl.run(&account("team")).await;
            let gone = ran.code != 0 && ran.stderr.contains("not found");
            gone.then_some(()).ok_or(ran.stdout)
        })
        .await;
        a_secret_gets_a_token_of_its_account(&hub, &kubectl).await;
    }
}

/// Returns a Secret that waits for the token of an account.
fn waiting(account: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Secret, type: kubernetes.io/service-account-token, metadata: {{name: {account}, \
         namespace: default, annotations: {{kubernetes.io/service-account.name: {account}}}}}}}"
    )
}

/// As `argocd cluster add` and other clients that know no TokenRequest expect it.
async fn a_secret_gets_a_token_of_its_account(hub: &Hub, kubectl: &Kubectl) {
    kubectl.must(&["create", "serviceaccount", "robot"]).await;
    kubectl.apply(&waiting("robot")).await;
    let secret = ["get", "secret", "robot"];
    let filled = until(kubectl, &secret, "it has a token", |it| {
        it["data"]["token"].is_string()
    })
    .await;
    let token = STANDARD.decode(filled["data"]["token"].as_str().expect("a token"));
    let token = String::from_utf8(token.expect("it is base64")).expect("it is text");
    // Without the administrator's certificate, which would count first.
    let config = std::fs::read_to_string(hub.kubeconfig()).expect("the hub wrote a kubeconfig");
    let mut config: serde_json::Value =
        serde_saphyr::from_str(&config).expect("the kubeconfig is YAML");
    for user in config["users"].as_array_mut().into_iter().flatten() {
        user["user"] = serde_json::json!({ "token": token });
    }
    let file = hub.data().with_file_name("robot.kubeconfig");
    std::fs::write(&file, config.to_string()).expect("a folder of the test's own");
    let robot = Kubectl::new(&file).server(kubectl.url().unwrap_or(&hub.server()));
    let who = robot.must(&["auth", "whoami"]).await;
    assert!(who.contains("system:serviceaccount:default:robot"), "{who}");

    // The token ends with its Secret.
    kubectl.must(&["delete", "secret", "robot"]).await;
    let who = robot.run(&["auth", "whoami"]).await;
    assert!(
        who.stderr.contains("Unauthorized") || who.stderr.contains("logged in"),
        "{who:?}"
    );

    // One that names no account goes.
    kubectl.apply(&waiting("nobody")).await;
    gone(kubectl, &["get", "secret", "nobody"]).await;
    let other = waiting("robot")
        .replace("{name: robot,", "{name: plain,")
        .replace("kubernetes.io/service-account-token", "Opaque");
    kubectl.apply(&other).await;
    let plain = kubectl
        .json(&["get", "secret", "plain"])
        .await
        .expect("Secrets of other types stay");
    assert!(plain["data"].is_null(), "{plain}");
}
