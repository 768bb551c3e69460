//! The fixture itself: tenants have what was granted to them, and nothing else.

use serde_json::json;

use super::support::{ADDRESS_LIMIT, Fixture};

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
    for path in ["/clusters/b", "/clusters/unknown", ""] {
        alice.get(&format!("{path}/{maps}")).await.must(403);
    }
    // Over all clusters she sees her own.
    let all = alice.get(&format!("/clusters/*/{maps}")).await.must(200);
    for item in all["items"].as_array().into_iter().flatten() {
        assert_eq!(
            item["metadata"]["annotations"]["kcp.io/cluster"], "a",
            "{item}"
        );
    }
    let bob = fixture.user("bob").await;
    bob.get(&format!("/clusters/a/{maps}")).await.must(403);

    // No trial needs more: what would is refused before it is allocated.
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", fixture.hub.process().pid()));
    let limits = limits.expect("the hub runs");
    let address_space = limits
        .lines()
        .find(|line| line.starts_with("Max address space"));
    let address_space = address_space.unwrap_or_default();
    assert!(
        address_space.contains(&ADDRESS_LIMIT.to_string()),
        "{limits}"
    );
}
