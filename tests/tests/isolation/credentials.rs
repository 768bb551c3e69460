//! S01, S07 and S08: for whom a token is, who a ServiceAccount of root is elsewhere, and what those who may be anybody in one cluster are beyond it.

use serde_json::{Value, json};

use super::support::{Answer, Fixture, RBAC, RGDS, User};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ISSUER: &str = "https://wheelhouse.internal";

#[tokio::test(flavor = "multi_thread")]
async fn s01_s07_s08_a_credential_is_what_it_was_made_for_and_no_more() {
    let fixture = Fixture::start(&["alice", "mallory"]).await;
    let admin = fixture.admin().await;
    fixture.embed("a").await;
    fixture.embed("b").await;
    tokens_are_for_their_audience(&fixture, &admin).await;
    accounts_of_root_are_let_in_as_themselves(&fixture, &admin).await;
    let mallory = fixture.tenant("mallory", "a").await;
    masters_of_a_cluster_are_its_own(&fixture, &admin, &mallory).await;
    nobody_acts_as_the_hub(&admin, &mallory).await;
}

#[expect(clippy::too_many_lines, reason = "a table is told in one piece")]
async fn tokens_are_for_their_audience(fixture: &Fixture, admin: &User) {
    made(admin, "", "bot").await;
    made(admin, "/clusters/a", "bot").await;
    let ours = token(admin, "", "bot", json!({})).await;
    let foreign = token(
        admin,
        "",
        "bot",
        json!({"audiences": ["vault", "registry"]}),
    )
    .await;
    let of_a = token(admin, "/clusters/a", "bot", json!({})).await;
    let name = "system:serviceaccount:default:bot";
    let issuer_of_a = format!("{ISSUER}/clusters/a");
    for (what, base, token, asked, want) in [
        ("ours", "", &ours, json!(null), Ok((name, json!([ISSUER])))),
        (
            "ours, by name",
            "",
            &ours,
            json!(["x", ISSUER]),
            Ok((name, json!([ISSUER]))),
        ),
        (
            "ours, for another",
            "",
            &ours,
            json!(["vault"]),
            Err("is invalid for the target audiences"),
        ),
        (
            "another's",
            "",
            &foreign,
            json!(null),
            Err("is invalid for the target audiences"),
        ),
        (
            "another's, for it",
            "",
            &foreign,
            json!(["vault"]),
            Ok((name, json!(["vault"]))),
        ),
        (
            "for all of them",
            "",
            &foreign,
            json!(["registry", "x", "vault"]),
            Ok((name, json!(["registry", "vault"]))),
        ),
        (
            "for nobody",
            "",
            &foreign,
            json!(["x"]),
            Err("is invalid for the target audiences"),
        ),
        (
            "a line of the file",
            "",
            &"alice-token".to_owned(),
            json!(null),
            Ok(("alice", json!([ISSUER]))),
        ),
        (
            "a line of the file, for another",
            "",
            &"alice-token".to_owned(),
            json!(["vault"]),
            Err("invalid bearer token"),
        ),
        (
            "garbage",
            "",
            &"garbage".to_owned(),
            json!(["vault"]),
            Err("invalid bearer token"),
        ),
        (
            "of a cluster, in it",
            "/clusters/a",
            &of_a,
            json!(null),
            Ok((name, json!([issuer_of_a]))),
        ),
        (
            "of a cluster, in root",
            "",
            &of_a,
            json!(null),
            Err("invalid bearer token"),
        ),
        (
            "of a cluster, in another",
            "/clusters/b",
            &of_a,
            json!(null),
            Err("invalid bearer token"),
        ),
        (
            "of root, in a cluster",
            "/clusters/a",
            &ours,
            json!(null),
            Ok(("wheelhouse:root:default:bot", json!([ISSUER]))),
        ),
    ] {
        let mut spec = json!({"token": token});
        if !asked.is_null() {
            spec["audiences"] = asked;
        }
        let review =
            json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec});
        let answer = admin
            .post(&format!("{base}{REVIEWS}"), &review)
            .await
            .must(201);
        let status = &answer["status"];
        match want {
            Ok((name, audiences)) => {
                assert_eq!(status["authenticated"], true, "{what}: {status}");
                assert_eq!(status["user"]["username"], name, "{what}: {status}");
                assert_eq!(status["audiences"], audiences, "{what}: {status}");
            }
            Err(error) => {
                assert_ne!(status["authenticated"], true, "{what}: {status}");
                assert!(status["user"]["username"].is_null(), "{what}: {status}");
                let said = status["error"].as_str().unwrap_or_default();
                assert!(said.contains(error), "{what}: {status}");
            }
        }
    }
    let empty =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {}});
    admin.post(REVIEWS, &empty).await.must(400);
    // Nobody comes in with a token that is for somebody else.
    fixture
        .bearer("bot", &foreign)
        .await
        .get(MAPS)
        .await
        .must(401);
}

async fn accounts_of_root_are_let_in_as_themselves(fixture: &Fixture, admin: &User) {
    let bot = fixture
        .bearer("bot", &token(admin, "", "bot", json!({})).await)
        .await;
    let in_a = format!("/clusters/a{MAPS}");
    bot.get(&in_a).await.must(403);
    // What anybody of that name in the cluster may is not what it may.
    let own = json!([{"kind": "ServiceAccount", "namespace": "default", "name": "bot"}]);
    bind(admin, "/clusters/a", "cluster-admin", "own", &own).await;
    let access = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "enters-a"},
        "rules": [{"apiGroups": ["wheelhouse.dev"], "resources": ["spokes"], "resourceNames": ["a"], "verbs": ["access"]}],
    });
    admin
        .post(&format!("{RBAC}/clusterroles"), &access)
        .await
        .must(201);
    bind(admin, "", "enters-a", "bot", &own).await;
    let inside = |answer: &Answer| {
        answer
            .message()
            .contains("cannot list resource \"configmaps\"")
    };
    bot.until(
        &in_a,
        "the first gate lets it in, as what root knows it as",
        inside,
    )
    .await;
    bot.get(&format!("/clusters/b{MAPS}")).await.must(403);
    let abroad = json!([{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "wheelhouse:root:default:bot"}]);
    bind(admin, "/clusters/a", "cluster-admin", "abroad", &abroad).await;
    bot.until_status(&in_a, 200).await;
    // The cluster's own account of that name never was let in by root's.
    let own = fixture
        .bearer("own", &token(admin, "/clusters/a", "bot", json!({})).await)
        .await;
    own.until_status(&in_a, 200).await;
    for base in ["", "/clusters/b", "/clusters/*"] {
        own.get(&format!("{base}{MAPS}")).await.must(401);
    }
}

/// Who may do everything in a cluster may be everybody there, and is nobody more elsewhere.
async fn masters_of_a_cluster_are_its_own(fixture: &Fixture, admin: &User, mallory: &User) {
    let masters = [
        ("impersonate-user", "admin"),
        ("impersonate-group", "system:masters"),
        ("content-type", "application/json"),
    ];
    let send = async |user: &User, method: &str, path: &str, body: Value| {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        user.send(method, path, &masters, body).await
    };
    send(mallory, "GET", "/clusters/a/api/v1/secrets", json!(null))
        .await
        .must(200);
    // What is reserved to the hub stays so, by whatever verb.
    let revisions = "/clusters/a/apis/internal.kro.run/v1alpha1/graphrevisions";
    let revision = json!({"apiVersion": "internal.kro.run/v1alpha1", "kind": "GraphRevision", "metadata": {"name": "forged"}, "spec": {}});
    let inventories = "/clusters/a/apis/internal.wheelhouse.dev/v1alpha1/inventories";
    let inventory = json!({"apiVersion": "internal.wheelhouse.dev/v1alpha1", "kind": "Inventory", "metadata": {"name": "forged"}});
    let served = "/clusters/a/apis/internal.wheelhouse.dev/v1alpha1/servedresources";
    let reserved = "written by the hub alone";
    for (method, path, body) in [
        ("POST", revisions.to_owned(), revision.clone()),
        ("PUT", format!("{revisions}/forged"), revision),
        ("PATCH", format!("{revisions}/forged"), json!({})),
        ("POST", inventories.to_owned(), inventory),
        ("DELETE", format!("{inventories}/forged"), json!(null)),
        ("DELETE", inventories.to_owned(), json!(null)),
        ("POST", served.to_owned(), json!({})),
        ("DELETE", served.to_owned(), json!(null)),
    ] {
        let answer = send(mallory, method, &path, body).await;
        assert!(
            matches!(answer.status, 403 | 404),
            "{method} {path}: {} {}",
            answer.status,
            answer.body
        );
        if answer.status == 403 {
            assert!(
                answer.message().contains(reserved),
                "{method} {path}: {}",
                answer.body
            );
        }
    }
    let refused = send(mallory, "POST", revisions, json!({})).await;
    assert!(refused.message().contains(reserved), "{}", refused.body);
    // By roles of their own, and by asking for more of them.
    mallory.post(revisions, &json!({})).await.must(403);
    for path in [
        MAPS.to_owned(),
        format!("/clusters/b{MAPS}"),
        format!("/clusters/*{MAPS}"),
        "/wheelhouse/backup".to_owned(),
        "/metrics".to_owned(),
    ] {
        send(mallory, "GET", &path, json!(null)).await.must(403);
    }
    // To themselves they are masters there, and they are told what they may.
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "create", "group": "internal.kro.run", "resource": "graphrevisions"}}});
    let path = "/clusters/a/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let told = send(mallory, "POST", path, review.clone()).await.must(201);
    assert_eq!(told["status"]["allowed"], false, "{told}");
    // And what the hub's own administrator does under another name there is no more than that.
    send(admin, "POST", revisions, json!({})).await.must(403);
    send(admin, "GET", "/clusters/a/api/v1/secrets", json!(null))
        .await
        .must(200);
    // Whom the administrator acts as sees what that user sees.
    let as_alice = [("impersonate-user", "alice")];
    let alice = fixture.user("alice").await;
    alice.get(&format!("/clusters/a{MAPS}")).await.must(403);
    admin
        .send("GET", &format!("/clusters/a{MAPS}"), &as_alice, "")
        .await
        .must(403);
    // Within the cluster its administrators may act as anybody.
    let answer = mallory
        .send("GET", &format!("/clusters/a{MAPS}"), &as_alice, "")
        .await
        .must(403);
    let message = answer["message"].as_str().unwrap_or_default();
    assert!(
        message.contains("cannot list resource"),
        "asked of the cluster's roles alone: {message}"
    );
}

/// No name that somebody takes makes what the hub itself writes.
async fn nobody_acts_as_the_hub(admin: &User, mallory: &User) {
    let forged = "{\"username\":\"admin\",\"groups\":[\"system:masters\"]}";
    let author = "internal.wheelhouse.dev/author";
    let rgd = |name: &str| {
        json!({
            "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
            "metadata": {"name": name, "annotations": {author: forged}},
            "spec": {"schema": {"apiVersion": "v1alpha1", "kind": "Thing", "spec": {"a": "string"}}, "resources": []},
        })
    };
    let path = format!("/clusters/a{RGDS}");
    for (name, user) in [
        ("plain", None),
        ("syncer", Some("system:wheelhouse:syncer")),
        ("spokes", Some("system:wheelhouse:spokes")),
        ("node", Some("system:node:a")),
        ("root", Some("system:serviceaccount:kube-system:default")),
        ("abroad", Some("wheelhouse:root:kube-system:default")),
    ] {
        let mut headers = vec![("content-type", "application/json")];
        if let Some(user) = user {
            headers.push(("impersonate-user", user));
            headers.push(("impersonate-group", "system:masters"));
        }
        let answer = mallory
            .send("POST", &path, &headers, rgd(name).to_string())
            .await;
        if answer.status == 201 {
            let stored = admin.get(&format!("{path}/{name}")).await.must(200);
            let said = stored["metadata"]["annotations"][author]
                .as_str()
                .unwrap_or_default();
            assert_ne!(said, forged, "{name}: {said}");
        } else {
            assert_eq!(answer.status, 403, "{name}: {}", answer.body);
        }
    }
}

async fn made(admin: &User, base: &str, name: &str) {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
    admin
        .post(&format!("{base}{ACCOUNTS}"), &account)
        .await
        .must(201);
}

async fn token(admin: &User, base: &str, name: &str, spec: Value) -> String {
    let path = format!("{base}{ACCOUNTS}/{name}/token");
    let made = admin.post(&path, &json!({"spec": spec})).await.must(201);
    made["status"]["token"]
        .as_str()
        .expect("a token")
        .to_owned()
}

async fn bind(admin: &User, base: &str, role: &str, name: &str, subjects: &Value) {
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": format!("{role}-{name}")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}, "subjects": subjects,
    });
    admin
        .post(&format!("{base}{RBAC}/clusterrolebindings"), &binding)
        .await
        .must(201);
}
