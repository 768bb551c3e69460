//! The fixture itself: tenants have what was granted to them, and nothing else.

use serde_json::json;

use super::support::Fixture;

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_has_its_own_cluster_and_no_other() {
    let fixture = Fixture::start(&["alice", "bob"]).await;
    fixture.embed("a").await;
    fixture.embed("b").await;
    let alice = fixture.tenant("alice", "a").await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}});
    let maps = "api/v1/namespaces/default/configmaps";
    alice
        .post(&format!("/clusters/a/{maps}"), &map)
        .await
        .must(201);
    for path in ["/clusters/b", "/clusters/unknown", "/clusters/*", ""] {
        alice.get(&format!("{path}/{maps}")).await.must(403);
    }
    let bob = fixture.user("bob").await;
    bob.get(&format!("/clusters/a/{maps}")).await.must(403);
}
