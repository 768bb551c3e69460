//! A preview shows its caller what the caller may read, and nothing else (S09).

use serde_json::{Value, json};

use super::support::{Fixture, JSON, RGDS, User};

const PREVIEWS: &str = "/apis/wheelhouse.dev/v1alpha1/definitionpreviews";
/// What nobody but the tenant of `b` may learn.
const HIDDEN: [&str; 3] = ["b-only", "xyzzy", "eHl6enk="];

/// A definition whose children have what a Secret says, which the instance names.
fn definition(name: &str, word: &str) -> Value {
    let schema = json!({"apiVersion": "v1alpha1", "kind": "Peek", "spec": {"text": "string"}});
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "treasure", "namespace": "kube-system"},
    });
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "${schema.metadata.name}-map"},
        "data": {"word": word, "text": "${schema.spec.text}"},
    });
    json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": {"name": name},
        "spec": {"schema": schema, "resources": [
            {"id": "treasure", "externalRef": secret},
            {"id": "map", "template": map},
        ]},
    })
}

async fn preview(user: &User, path: &str, definition: &Value) -> Value {
    let body = json!({
        "apiVersion": "wheelhouse.dev/v1alpha1", "kind": "DefinitionPreview", "spec": {"definition": definition},
    });
    user.post(path, &body).await.must(201)["status"].clone()
}

fn of_cluster(status: &Value, cluster: &str) -> Option<Value> {
    let mut clusters = status["clusters"].as_array().into_iter().flatten();
    clusters.find(|it| it["cluster"] == cluster).cloned()
}

fn hides(status: &Value) {
    let said = status.to_string();
    for word in HIDDEN {
        assert!(!said.contains(word), "{word} is told: {said}");
    }
}

/// Makes an instance, and waits until its child is there.
async fn make(admin: &User, cluster: &str, name: &str, text: &str) {
    let treasure = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "treasure"}, "stringData": {"word": "xyzzy"},
    });
    let base = format!("/clusters/{cluster}");
    let secrets = format!("{base}/api/v1/namespaces/kube-system/secrets");
    admin.post(&secrets, &treasure).await.must(201);
    let peeks = format!("{base}/apis/kro.run/v1alpha1/namespaces/default/peeks");
    admin.until_status(&peeks, 200).await;
    let instance = json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "Peek", "metadata": {"name": name}, "spec": {"text": text},
    });
    admin.post(&peeks, &instance).await.must(201);
    let map = format!("{base}/api/v1/namespaces/default/configmaps/{name}-map");
    admin.until_status(&map, 200).await;
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::too_many_lines, reason = "a story is told in one piece")]
async fn s09_a_preview_shows_what_its_caller_may_read_and_writes_nothing() {
    let fixture = Fixture::start(&["alice", "bob"]).await;
    fixture.embed("a").await;
    fixture.embed("b").await;
    let admin = fixture.admin().await;
    let peek = definition("peek", "${string(size(treasure.data))}");
    admin.post(RGDS, &peek).await.must(201);
    make(&admin, "a", "a-only", "open").await;
    make(&admin, "b", "b-only", "xyzzy").await;
    let alice = fixture.tenant("alice", "a").await;
    let bob = fixture.user("bob").await;
    let new = definition("peek", "${string(treasure.data.word)}");
    let body = json!({
        "apiVersion": "wheelhouse.dev/v1alpha1", "kind": "DefinitionPreview", "spec": {"definition": new},
    });

    // The right to ask is a right like any other.
    for path in [PREVIEWS.to_owned(), format!("/clusters/b{PREVIEWS}")] {
        alice.post(&path, &body).await.must(403);
    }
    bob.post(&format!("/clusters/a{PREVIEWS}"), &body)
        .await
        .must(403);
    let may_ask = json!({"apiGroups": ["wheelhouse.dev"], "resources": ["definitionpreviews"], "verbs": ["create"]});
    let may_read = json!({"apiGroups": ["kro.run"], "resources": ["resourcegraphdefinitions"], "verbs": ["get"]});
    fixture
        .grant("root", "alice", "asks", &[may_ask.clone(), may_read])
        .await;
    alice.until_status(&format!("{RGDS}/peek"), 200).await;

    // Who may not list Spokes is told of none.
    let status = preview(&alice, PREVIEWS, &new).await;
    hides(&status);
    assert!(of_cluster(&status, "a").is_none(), "{status}");
    assert!(status["omitted"].to_string().contains("Spokes"), "{status}");

    // Who may sees their own cluster, and of another that it was not looked at.
    let may_list =
        json!({"apiGroups": ["wheelhouse.dev"], "resources": ["spokes"], "verbs": ["list"]});
    fixture.grant("root", "alice", "lists", &[may_list]).await;
    alice
        .until_status("/apis/wheelhouse.dev/v1alpha1/spokes", 200)
        .await;
    let status = preview(&alice, PREVIEWS, &new).await;
    hides(&of_cluster(&status, "b").expect("it is a Spoke"));
    let of_a = of_cluster(&status, "a").expect("it is her own");
    assert_eq!(of_a["changes"][0]["name"], "a-only", "{status}");
    let fields = &of_a["changes"][0]["children"][0]["fields"];
    assert_eq!(
        (&fields[0]["path"], &fields[0]["from"]),
        (&json!(".data.word"), &json!("\"1\""))
    );
    let told = |said: &Value| HIDDEN.iter().any(|word| said.to_string().contains(word));
    assert!(told(&fields[0]["to"]), "she may read it: {fields}");
    let of_b = of_cluster(&status, "b").expect("it is a Spoke");
    assert_eq!(
        (&of_b["instances"], &of_b["changes"]),
        (&json!(0), &Value::Null),
        "{of_b}"
    );
    assert!(of_b["message"].to_string().contains("forbidden"), "{of_b}");

    // The administrator sees both, and as alice what alice sees.
    let all = preview(&admin, PREVIEWS, &new).await;
    assert_eq!(all["summary"]["updated"], 2, "{all}");
    let headers = [("content-type", JSON), ("impersonate-user", "alice")];
    let as_alice = admin
        .send("POST", PREVIEWS, &headers, body.to_string())
        .await
        .must(201);
    assert_eq!(of_cluster(&as_alice["status"], "b"), Some(of_b));

    // A kind that cannot be read is not taken for an empty one, and what is referred to is read as the caller.
    fixture.allow_access("bob", "a").await;
    let rule = |resources: &str, group: &str| json!({"apiGroups": [group], "resources": [resources], "verbs": ["get", "list"]});
    fixture
        .grant("a", "bob", "peeks", &[may_ask, rule("peeks", "kro.run")])
        .await;
    let path = format!("/clusters/a{PREVIEWS}");
    bob.until_status("/clusters/a/apis/kro.run/v1alpha1/peeks", 200)
        .await;
    let status = preview(&bob, &path, &new).await;
    let of_a = of_cluster(&status, "a").expect("it is where he asks");
    assert_eq!(
        (&of_a["examined"], &of_a["changes"]),
        (&json!(1), &Value::Null),
        "{status}"
    );
    assert!(
        of_a["message"].to_string().contains("configmaps"),
        "{status}"
    );
    hides(&status);
    fixture
        .grant("a", "bob", "maps", &[rule("configmaps", "")])
        .await;
    bob.until_status("/clusters/a/api/v1/configmaps", 200).await;
    let status = preview(&bob, &path, &new).await;
    assert!(status.to_string().contains("forbidden"), "{status}");
    hides(&status);

    // Nothing was written by any of it.
    let stored = admin.get(&format!("{RGDS}/peek")).await.must(200);
    assert_eq!(stored["metadata"]["generation"], 1, "{stored}");
    preview(
        &admin,
        PREVIEWS,
        &definition("never", "${string(treasure.data.word)}"),
    )
    .await;
    admin.get(&format!("{RGDS}/never")).await.must(404);
}
