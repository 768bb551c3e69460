//! What every namespace has without being asked for it, as in a real cluster.

use wheelhouse_tests::{Hub, eventually};

use super::stage::until;

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
    }
}
