//! No logical cluster decides for another: whose definitions count where, and who may look over all of them.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use wheelhouse_tests::{Spoke, wait::within};

use super::support::{CRDS, Fixture, MERGE_PATCH, PATIENCE, RBAC, RGDS, SPOKES, User, Watch, base};

const CARTS: &str = "/apis/kro.run/v1alpha1/namespaces/default/carts";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Everything of the kind, over all clusters.
const ALL_CARTS: &str = "/clusters/*/apis/kro.run/v1alpha1/carts";

/// A definition of Carts, each of which makes a ConfigMap that tells the image and who defined it.
fn cart_graph(name: &str, kind: &str, group: &str) -> Value {
    let mut schema = json!({
        "apiVersion": "v1alpha1", "kind": kind,
        "spec": {"image": "string | default=\"good\""},
    });
    if !group.is_empty() {
        schema["group"] = json!(group);
    }
    json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": name},
        "spec": {"schema": schema, "resources": [{"id": "config", "template": {
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "${schema.metadata.name}"},
            "data": {"image": "${schema.spec.image}", "by": name},
        }}]},
    })
}

fn cart(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "kro.run/v1alpha1", "kind": "Cart", "metadata": {"name": name}, "spec": spec})
}

/// A CRD that is written by hand; a cluster's own.
fn definition(plural: &str, group: &str, kind: &str, versions: &[&str]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .enumerate()
        .map(|(index, name)| {
            json!({
                "name": name, "served": true, "storage": index == 0,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "default": {}, "properties": {
                        "other": {"type": "string", "default": "evil"},
                    }},
                }}},
            })
        })
        .collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
            "versions": versions,
        },
    })
}

/// Returns a condition of an object: status, reason and message.
fn condition(object: &Value, kind: &str) -> (String, String, String) {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == kind)
        .cloned()
        .unwrap_or_default();
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"), text("message"))
}

/// Waits until a definition is Active.
async fn active(user: &User, cluster: &str, name: &str) {
    let path = format!("{}{RGDS}/{name}", base(cluster));
    user.until(&path, &format!("{name} of {cluster} is Active"), |answer| {
        answer.body["status"]["state"] == "Active"
    })
    .await;
}

/// Waits until a condition of a definition has a status.
async fn until_condition(user: &User, path: &str, kind: &str, status: &str) -> Value {
    let what = format!("{kind} of {path} is {status}");
    let answer = user
        .until(path, &what, |answer| {
            condition(&answer.body, kind).0 == status
        })
        .await;
    answer.body
}

/// Waits until the ConfigMap of a Cart has some data.
async fn until_made(user: &User, cluster: &str, name: &str, data: &Value) {
    let path = format!("{}{CONFIG_MAPS}/{name}", base(cluster));
    user.until(
        &path,
        &format!("{name} in {cluster} has {data}"),
        |answer| answer.body["data"] == *data,
    )
    .await;
}

/// The names in a list over all clusters, each with its cluster.
fn placed(list: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let items = list["items"].as_array().into_iter().flatten();
    items
        .map(|item| {
            let metadata = &item["metadata"];
            (
                text(&metadata["annotations"]["kcp.io/cluster"]),
                text(&metadata["name"]),
            )
        })
        .collect()
}

/// Reads events until one of a name comes; returns its type and object.
async fn event_of(watch: &mut Watch, name: &str) -> (String, Value) {
    loop {
        let event = watch.next(PATIENCE).await;
        let event = event
            .expect("the object is told")
            .expect("the watch goes on");
        assert_ne!(event["type"], "ERROR", "the watch goes on: {event}");
        if event["object"]["metadata"]["name"] == name {
            let kind = event["type"].as_str().unwrap_or_default().to_owned();
            return (kind, event["object"].clone());
        }
    }
}

/// A CRD `spokes.wheelhouse.dev` in an embedded cluster, and a Spoke `root` in it, took the whole hub off the air.
#[tokio::test(flavor = "multi_thread")]
async fn s03_a_tenant_cannot_define_the_hubs_own_kinds() {
    let fixture = Fixture::start(&["alice"]).await;
    fixture.embed("a").await;
    fixture.embed("b").await;
    let (admin, alice) = (fixture.admin().await, fixture.tenant("alice", "a").await);
    let crds = format!("/clusters/a{CRDS}");
    for (plural, group, kind, status) in [
        ("spokes", "wheelhouse.dev", "Spoke", 422),
        ("gadgets", "wheelhouse.dev", "Gadget", 422),
        (
            "servedresources",
            "internal.wheelhouse.dev",
            "ServedResource",
            422,
        ),
        ("kindclaims", "internal.wheelhouse.dev", "KindClaim", 422),
        ("graphrevisions", "internal.kro.run", "GraphRevision", 422),
        (
            "resourcegraphdefinitions",
            "kro.run",
            "ResourceGraphDefinition",
            422,
        ),
        ("others", "kro.run", "ResourceGraphDefinition", 422),
        ("roles", "rbac.authorization.k8s.io", "Role", 422),
        ("gadgets", "apiextensions.k8s.io", "Gadget", 422),
        ("spokes", "example.com", "Spoke", 201),
        ("gadgets", "kro.run", "Gadget", 201),
    ] {
        let answer = alice
            .post(&crds, &definition(plural, group, kind, &["v1alpha1"]))
            .await;
        answer.must(status);
    }
    // In root neither, where such a definition would be another way to the same objects.
    let second = definition("spokes", "wheelhouse.dev", "Spoke", &["v2"]);
    admin.post(CRDS, &second).await.must(422);
    for (name, kind, group) in [
        ("spokes", "Spoke", "wheelhouse.dev"),
        ("roles", "Role", "rbac.authorization.k8s.io"),
        ("rgds", "ResourceGraphDefinition", ""),
    ] {
        let graph = cart_graph(name, kind, group);
        alice
            .post(&format!("/clusters/a{RGDS}"), &graph)
            .await
            .must(201);
        let path = format!("/clusters/a{RGDS}/{name}");
        let refused = until_condition(&alice, &path, "GraphAccepted", "False").await;
        let (_, _, message) = condition(&refused, "GraphAccepted");
        assert!(message.contains("choose another"), "{name}: {message}");
    }
    let spoke = json!({
        "apiVersion": "wheelhouse.dev/v1alpha1", "kind": "Spoke", "metadata": {"name": "root"},
        "spec": {"provider": "Embedded"},
    });
    alice
        .post(&format!("/clusters/a{SPOKES}"), &spoke)
        .await
        .must(404);
    // A kind that is only called the same is the tenant's own, and means nothing to the hub.
    let spokes = "/clusters/a/apis/example.com/v1alpha1/namespaces/default/spokes";
    for name in ["root", "b"] {
        let own = json!({"apiVersion": "example.com/v1alpha1", "kind": "Spoke", "metadata": {"name": name}});
        alice
            .until(spokes, "its own Spokes are served", |it| it.status == 200)
            .await;
        alice.post(spokes, &own).await.must(201);
        alice.delete(&format!("{spokes}/{name}")).await.must(200);
    }
    for path in ["/readyz", "/clusters/b/api/v1/namespaces", SPOKES] {
        admin.get(path).await.must(200);
    }
}

/// A CRD of one cluster rewrote what the syncer read of another's instances, and a version that only one has moved the
/// watch of all.
#[tokio::test(flavor = "multi_thread")]
async fn s03_an_object_is_read_by_its_own_clusters_definition() {
    let fixture = Fixture::start(&["alice", "bob"]).await;
    fixture.embed("a").await;
    fixture.embed("b").await;
    let admin = fixture.admin().await;
    let (alice, bob) = (
        fixture.tenant("alice", "a").await,
        fixture.tenant("bob", "b").await,
    );
    let crd = definition("carts", "kro.run", "Cart", &["v1alpha1", "v9"]);
    alice
        .post(&format!("/clusters/a{CRDS}"), &crd)
        .await
        .must(201);
    alice
        .until_status(&format!("/clusters/a{CARTS}"), 200)
        .await;
    let mine = cart("mine", &json!({}));
    alice
        .post(&format!("/clusters/a{CARTS}"), &mine)
        .await
        .must(201);
    let graph = cart_graph("carts", "Cart", "");
    bob.post(&format!("/clusters/b{RGDS}"), &graph)
        .await
        .must(201);
    active(&bob, "b", "carts").await;
    let shop = cart("shop", &json!({}));
    bob.post(&format!("/clusters/b{CARTS}"), &shop)
        .await
        .must(201);
    until_made(&bob, "b", "shop", &json!({"image": "good", "by": "carts"})).await;

    let list = admin.get(ALL_CARTS).await.must(200);
    let spec_in = |cluster: &str| {
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let found = items
            .into_iter()
            .find(|item| item["metadata"]["annotations"]["kcp.io/cluster"] == cluster);
        found.map(|item| item["spec"].clone())
    };
    assert_eq!(spec_in("a"), Some(json!({"other": "evil"})), "{list}");
    assert_eq!(spec_in("b"), Some(json!({"image": "good"})), "{list}");
    let only_there = admin
        .get("/clusters/*/apis/kro.run/v9/carts")
        .await
        .must(200);
    assert_eq!(placed(&only_there), [("a".to_owned(), "mine".to_owned())]);

    // What alice does to her definition ends nobody's watch, and what went with it is told.
    let watch = admin.watch(&format!("{ALL_CARTS}?watch=true")).await;
    let mut watch = watch.expect("a watch");
    let (_, seen) = event_of(&mut watch, "shop").await;
    assert_eq!(seen["spec"], json!({"image": "good"}));
    let mut changed = admin
        .get(&format!("/clusters/a{CRDS}/carts.kro.run"))
        .await
        .must(200);
    let properties = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    let fresh = changed.pointer_mut(properties).expect("properties");
    fresh["fresh"] = json!({"type": "string", "default": "new"});
    alice
        .put(&format!("/clusters/a{CRDS}/carts.kro.run"), &changed)
        .await
        .must(200);
    loop {
        let (kind, object) = event_of(&mut watch, "mine").await;
        if object["spec"]["fresh"] == "new" {
            assert_eq!(kind, "MODIFIED", "{object}");
            break;
        }
    }
    alice
        .delete(&format!("/clusters/a{CRDS}/carts.kro.run"))
        .await
        .must(200);
    let (kind, gone) = event_of(&mut watch, "mine").await;
    assert_eq!(kind, "DELETED", "{gone}");
    assert_eq!(gone["metadata"]["annotations"]["kcp.io/cluster"], "a");
    let better = json!({"spec": {"image": "better"}});
    let path = format!("/clusters/b{CARTS}/shop");
    bob.patch(&path, MERGE_PATCH, &better).await.must(200);
    let (kind, object) = event_of(&mut watch, "shop").await;
    assert_eq!(
        (kind.as_str(), &object["spec"]["image"]),
        ("MODIFIED", &json!("better"))
    );
    until_made(
        &bob,
        "b",
        "shop",
        &json!({"image": "better", "by": "carts"}),
    )
    .await;
    alice
        .get(&format!("/clusters/a{CONFIG_MAPS}/mine"))
        .await
        .must(404);
    // The syncer's own watches met nothing that made them pause.
    let log = fixture.hub.process().log();
    assert!(!log.contains("watch of a collection interrupted"), "{log}");
}

/// The records of who holds a kind are the hub's to write, whatever rights a tenant has in its cluster.
async fn cannot_claim(tenant: &User, cluster: &str) {
    let claims = "/apis/internal.wheelhouse.dev/v1alpha1/kindclaims";
    let claim = json!({
        "apiVersion": "internal.wheelhouse.dev/v1alpha1", "kind": "KindClaim",
        "metadata": {"name": "others.kro.run"},
        "spec": {"group": "kro.run", "resource": "others", "definition": {"name": "x", "uid": "x"}},
    });
    tenant
        .post(&format!("/clusters/{cluster}{claims}"), &claim)
        .await
        .must(403);
    let delete = tenant
        .delete(&format!("/clusters/{cluster}{claims}/carts.kro.run"))
        .await;
    delete.must(403);
}

/// A definition at a spoke's path kept a later one of root from the whole fleet, and one that was refused held the kind after a
/// restart.
#[tokio::test(flavor = "multi_thread")]
async fn s03_a_definition_of_root_wins_by_what_is_stored() {
    let mut fixture = Fixture::start(&["alice", "bob"]).await;
    fixture.embed("a").await;
    fixture.embed("b").await;
    let admin = fixture.admin().await;
    let (alice, bob) = (
        fixture.tenant("alice", "a").await,
        fixture.tenant("bob", "b").await,
    );
    let post = async |user: &User, cluster: &str, path: &str, object: &Value| {
        user.post(&format!("{}{path}", base(cluster)), object)
            .await
            .must(201);
    };
    post(&alice, "a", RGDS, &cart_graph("mine", "Cart", "")).await;
    active(&alice, "a", "mine").await;
    post(&admin, "root", RGDS, &cart_graph("fleet", "Cart", "")).await;
    active(&admin, "root", "fleet").await;
    bob.until_status(&format!("/clusters/b{CARTS}"), 200).await;
    post(&bob, "b", RGDS, &cart_graph("late", "Cart", "")).await;
    let late = format!("/clusters/b{RGDS}/late");
    let refused = until_condition(&bob, &late, "KindReady", "False").await;
    let (_, _, message) = condition(&refused, "KindReady");
    assert!(
        message.contains("\"fleet\" of logical cluster \"root\""),
        "{message}"
    );
    post(&alice, "a", CARTS, &cart("one", &json!({}))).await;
    post(&bob, "b", CARTS, &cart("one", &json!({}))).await;
    until_made(&alice, "a", "one", &json!({"image": "good", "by": "mine"})).await;
    until_made(&bob, "b", "one", &json!({"image": "good", "by": "fleet"})).await;
    let held = format!("/clusters/a{RGDS}/mine");
    let what = "the owner of the local definition is told";
    let told = alice
        .until(&held, what, |it| {
            condition(&it.body, "KindReady").1 == "HeldAgainstRoot"
        })
        .await;
    assert_eq!(told.body["status"]["state"], "Active");
    let distributed = |cluster: &str| format!("{SPOKES}/{cluster}");
    let waits = until_condition(&admin, &distributed("a"), "CRDsDistributed", "False").await;
    let (_, _, message) = condition(&waits, "CRDsDistributed");
    assert!(message.contains("\"fleet\" of root waits"), "{message}");
    until_condition(&admin, &distributed("b"), "Ready", "True").await;

    fixture.hub.kill();
    fixture.hub.launch().await;
    let admin = fixture.admin().await;
    let (alice, bob) = (fixture.user("alice").await, fixture.user("bob").await);
    for (user, cluster, by) in [(&alice, "a", "mine"), (&bob, "b", "fleet")] {
        let path = format!("{}{CARTS}/one", base(cluster));
        let change = json!({"spec": {"image": "later"}});
        user.patch(&path, MERGE_PATCH, &change).await.must(200);
        until_made(user, cluster, "one", &json!({"image": "later", "by": by})).await;
    }
    let still = bob.get(&late).await.must(200);
    assert_eq!(condition(&still, "KindReady").0, "False", "{still}");
    cannot_claim(&alice, "a").await;

    // Her definition goes, and root's comes in.
    alice.delete(&held).await.must(200);
    let by_root = json!({"image": "later", "by": "fleet"});
    until_made(&alice, "a", "one", &by_root).await;
    until_condition(&admin, &distributed("a"), "CRDsDistributed", "True").await;
}

/// A RoleBinding in root's kube-system listed that namespace's Secrets in every embedded cluster.
#[tokio::test(flavor = "multi_thread")]
async fn s03_a_list_over_all_clusters_shows_what_each_of_them_allows() {
    let fixture = Fixture::start(&["alice", "bob", "carol", "dave"]).await;
    fixture.embed("a").await;
    fixture.embed("b").await;
    let admin = fixture.admin().await;
    fixture.tenant("alice", "a").await;
    for cluster in ["root", "a", "b"] {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "probe"}});
        let path = format!("{}/api/v1/namespaces/kube-system/secrets", base(cluster));
        admin.post(&path, &secret).await.must(201);
    }
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "reads-secrets", "namespace": "kube-system"},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"]}],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "carol", "namespace": "kube-system"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reads-secrets"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "carol"}],
    });
    let in_kube_system = format!("{RBAC}/namespaces/kube-system");
    admin
        .post(&format!("{in_kube_system}/roles"), &role)
        .await
        .must(201);
    admin
        .post(&format!("{in_kube_system}/rolebindings"), &binding)
        .await
        .must(201);
    let carol = fixture.user("carol").await;
    let secrets = "/clusters/*/api/v1/namespaces/kube-system/secrets";
    let list = carol.until_status(secrets, 200).await.body;
    assert!(!placed(&list).is_empty(), "{list}");
    for (cluster, name) in placed(&list) {
        assert_eq!(
            cluster, "root",
            "{name} is of a cluster that carol may not enter"
        );
    }
    for path in [
        "/clusters/*/api/v1/secrets",
        "/clusters/*/api/v1/configmaps",
        "/clusters/*/apis",
    ] {
        carol.get(path).await.must(403);
    }

    // dave enters a, and reads there.
    let reads = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]});
    fixture.allow_access("dave", "a").await;
    fixture
        .grant("a", "dave", "reads", std::slice::from_ref(&reads))
        .await;
    fixture.grant("b", "dave", "reads", &[reads]).await;
    let dave = fixture.user("dave").await;
    let all = "/clusters/*/api/v1/configmaps";
    dave.until_status(all, 200).await;
    let map =
        |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    for cluster in ["root", "a", "b"] {
        let path = format!("{}{CONFIG_MAPS}", base(cluster));
        admin.post(&path, &map("first")).await.must(201);
    }
    let shown = placed(&dave.get(all).await.must(200));
    assert!(
        shown.contains(&("a".to_owned(), "first".to_owned())),
        "{shown:?}"
    );
    assert!(shown.iter().all(|(cluster, _)| cluster == "a"), "{shown:?}");
    let mut paged = Vec::new();
    let mut path = format!("{all}?limit=1");
    loop {
        let page = dave.get(&path).await.must(200);
        let metadata = &page["metadata"];
        assert_eq!(
            metadata.get("remainingItemCount"),
            None,
            "it would count what is hidden"
        );
        paged.extend(placed(&page));
        let Some(token) = metadata["continue"].as_str().filter(|it| !it.is_empty()) else {
            break;
        };
        path = format!("{all}?limit=1&continue={token}");
    }
    assert_eq!(paged, shown, "pages show the same, in the same order");

    let path = format!("{all}?watch=true&resourceVersion=0");
    let mut watch = dave.watch(&path).await.expect("a watch");
    let (_, seen) = event_of(&mut watch, "first").await;
    assert_eq!(seen["metadata"]["annotations"]["kcp.io/cluster"], "a");
    for (cluster, name) in [("b", "second"), ("root", "second"), ("a", "third")] {
        let path = format!("{}{CONFIG_MAPS}", base(cluster));
        admin.post(&path, &map(name)).await.must(201);
    }
    loop {
        let event = watch.next(PATIENCE).await.expect("what is in a is told");
        let event = event.expect("the watch goes on");
        let name = &event["object"]["metadata"]["name"];
        assert_ne!(
            name, "second",
            "of a cluster that dave may not enter: {event}"
        );
        if name == "third" {
            break;
        }
    }
    // The right goes, and within ten seconds so does what it showed.
    let bound = format!("/clusters/a{RBAC}/clusterrolebindings/reads-dave-of-dave");
    admin.delete(&bound).await.must(200);
    let told = timeout(Duration::from_secs(10), async {
        loop {
            let event = watch.next(PATIENCE).await.expect("something is told");
            let event = event?;
            if event["object"]["metadata"]["name"] == "third" {
                return Some(event);
            }
        }
    });
    if let Some(event) = told.await.expect("within ten seconds") {
        assert_eq!(event["type"], "DELETED", "{event}");
        assert_eq!(event["object"].get("data"), None, "only its name is told");
    }
    dave.until_status(all, 403).await;
}

/// An RGD at a real spoke's path that claims the hub's own kind, and a list over all clusters that a real spoke has its say in.
#[tokio::test(flavor = "multi_thread")]
async fn s03_a_real_spoke_decides_for_itself_and_for_nobody_else() {
    let (fixture, east) = tokio::join!(Fixture::start(&["erin"]), Spoke::start("east"));
    fixture.join(&east).await;
    fixture.embed("b").await;
    let admin = fixture.admin().await;
    let graph = cart_graph("spokes", "Spoke", "wheelhouse.dev");
    admin
        .post(&format!("/clusters/east{RGDS}"), &graph)
        .await
        .must(201);
    let path = format!("/clusters/east{RGDS}/spokes");
    until_condition(&admin, &path, "GraphAccepted", "False").await;
    let spoke = json!({
        "apiVersion": "wheelhouse.dev/v1alpha1", "kind": "Spoke", "metadata": {"name": "b"},
        "spec": {"provider": "Embedded"},
    });
    let own = format!("/clusters/east{SPOKES}");
    admin.post(&own, &spoke).await.must(404);

    // The first instance of a kind, made as soon as the kind is served, waits for nothing.
    admin
        .post(RGDS, &cart_graph("carts", "Cart", ""))
        .await
        .must(201);
    active(&admin, "root", "carts").await;
    let carts = format!("/clusters/east{CARTS}");
    admin.until_status(&carts, 200).await;
    admin
        .post(&carts, &cart("first", &json!({})))
        .await
        .must(201);
    let made = json!({"image": "good", "by": "carts"});
    let look = until_made(&admin, "east", "first", &made);
    let waited = timeout(Duration::from_secs(10), look).await;
    waited.expect("it waits for no backoff");
    let log = fixture.hub.process().log();
    let paused = log
        .lines()
        .find(|line| line.contains("watch of a collection interrupted") && line.contains("hub/"));
    assert_eq!(paused, None, "no watch of the hub's own paused");

    is_served_once_the_spokes_own_kind_is_gone(&admin).await;
    is_asked_over_all_clusters(&fixture, &east, &admin).await;
}

/// A kind of root that a CRD of the spoke's own keeps out: the Spoke says so, and it is served once that CRD is deleted,
/// though nothing that the hub watches there changes.
async fn is_served_once_the_spokes_own_kind_is_gone(admin: &User) {
    let definitions = format!("/clusters/east{CRDS}");
    let own = definition("boxes", "kro.run", "Box", &["v1alpha1"]);
    admin.post(&definitions, &own).await.must(201);
    admin
        .post(RGDS, &cart_graph("boxes", "Box", ""))
        .await
        .must(201);
    within(PATIENCE, "the Spoke tells what keeps Box out", || async {
        let spoke = admin.get(&format!("{SPOKES}/east")).await.must(200);
        let text = spoke["status"].to_string();
        text.contains("Box.kro.run: ").then_some(()).ok_or(text)
    })
    .await;
    let path = format!("{definitions}/boxes.kro.run");
    admin.delete(&path).await.must(200);
    within(PATIENCE, "Box is served by the definition", || async {
        let seen = admin.get(&path).await;
        let is_ours = seen.body["metadata"]["labels"]["kro.run/owned"] == "true";
        is_ours.then_some(()).ok_or(seen.body.to_string())
    })
    .await;
}

/// A list and a watch over all clusters, of a user whose rights are the real spoke's to give and to take away.
async fn is_asked_over_all_clusters(fixture: &Fixture, east: &Spoke, admin: &User) {
    // erin may enter east; who reads Carts there is for east to say.
    fixture.allow_access("erin", "east").await;
    let erin = fixture.user("erin").await;
    erin.get(ALL_CARTS).await.must(403);
    let kubectl = east.kubectl();
    let role = [
        "create",
        "clusterrole",
        "reads-carts",
        "--verb=list,watch",
        "--resource=carts.kro.run",
    ];
    kubectl.must(&role).await;
    let bind = [
        "create",
        "clusterrolebinding",
        "erin",
        "--clusterrole=reads-carts",
        "--user=erin",
    ];
    kubectl.must(&bind).await;
    let list = erin.until_status(ALL_CARTS, 200).await;
    let first = ("east".to_owned(), "first".to_owned());
    assert_eq!(
        placed(&list.body),
        [first],
        "what east shows and nothing else"
    );
    admin
        .post(&format!("/clusters/b{CARTS}"), &cart("hidden", &json!({})))
        .await
        .must(201);
    let mut watch = erin
        .watch(&format!("{ALL_CARTS}?watch=true"))
        .await
        .expect("a watch");
    let (kind, _) = event_of(&mut watch, "first").await;
    assert_eq!(kind, "ADDED", "what is there is told");
    kubectl
        .must(&["delete", "clusterrolebinding", "erin"])
        .await;
    let told = timeout(Duration::from_secs(10), async {
        loop {
            let event = watch.next(PATIENCE).await.expect("something is told");
            let event = event?;
            assert_ne!(event["object"]["metadata"]["name"], "hidden", "{event}");
            if event["type"] == "DELETED" {
                return Some(event);
            }
        }
    });
    if let Some(event) = told.await.expect("within ten seconds") {
        assert_eq!(
            event["object"].get("spec"),
            None,
            "only its name is told: {event}"
        );
    }
    erin.until_status(ALL_CARTS, 403).await;
}
