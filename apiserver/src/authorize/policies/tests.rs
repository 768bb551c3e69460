//! Policies follow the store.

use std::time::Duration;
use tokio_util::sync::CancellationToken;

use api::{GroupResource, cluster::ClusterScope};
use serde_json::{Value, json};
use storage::{Change, Write, embedded};

use super::*;
use crate::{authorize::Attributes, objects::ResourcePrefix, request::UserInfo};

fn put(resource: &str, cluster: &str, object: &Value) -> Write {
    let resource = GroupResource {
        group: rbac::GROUP.to_owned(),
        resource: resource.to_owned(),
    };
    let cluster = cluster.parse().unwrap();
    let key = ResourcePrefix::new(&resource).key(&cluster, "", api::meta::name(object));
    Write::put(key, object.to_string())
}

fn grant(cluster: &str, name: &str, user: &str) -> Vec<Write> {
    let role = json!({"metadata": {"name": name},
        "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]});
    let binding = json!({"metadata": {"name": name}, "roleRef": {"kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "User", "name": user}]});
    vec![
        put("clusterroles", cluster, &role),
        put("clusterrolebindings", cluster, &binding),
    ]
}

fn allows(policies: &Policies, cluster: &str, user: &str) -> bool {
    let user = UserInfo::authenticated(user, [""; 0]);
    let cluster: LogicalCluster = cluster.parse().unwrap();
    let scope = ClusterScope::One(cluster.clone());
    let asked = Attributes {
        user: &user,
        cluster: &scope,
        verb: "get",
        group: "",
        version: "v1",
        resource: "pods",
        subresource: "",
        namespace: "",
        name: "",
        path: "",
        is_resource: true,
    };
    policies.of(&cluster).answer(&asked).grant.is_some()
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(10), waiting).await;
    assert!(waited.is_ok(), "{what}");
}

#[tokio::test]
async fn policies_follow_what_is_stored() {
    let directory = tempfile::tempdir().unwrap();
    let engine = embedded::Engine::open(directory.path(), embedded::Config::default()).unwrap();
    let store: Arc<dyn Store> = Arc::new(engine);
    store
        .commit(grant("root", "before", "alice"))
        .await
        .unwrap();

    let (policies, follower) = Policies::open(Arc::clone(&store)).unwrap();
    assert!(
        allows(&policies, "root", "alice"),
        "what is there is read at once"
    );
    let shutdown = CancellationToken::new();
    let following = tasks::Tasks::new().spawn("follow", follower.run(shutdown.clone()));

    store.commit(grant("east", "after", "bob")).await.unwrap();
    until("bob may in east", || allows(&policies, "east", "bob")).await;
    assert!(!allows(&policies, "root", "bob"), "but not in root");
    assert!(
        allows(&policies, "root", "alice"),
        "root's policy is as it was"
    );

    let write = grant("east", "after", "bob").remove(1);
    let gone = Write {
        change: Change::Delete { last: None },
        ..write
    };
    store.commit(vec![gone]).await.unwrap();
    until("bob may no longer", || !allows(&policies, "east", "bob")).await;

    shutdown.cancel();
    following.await.unwrap();
}
