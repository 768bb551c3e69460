//! S01, S07, S16: a kubeconfig that the hub makes for a caller (`spokes/<name>/kubeconfig`) is the caller's own identity, in one cluster, for a while.

use std::time::Duration;

use serde_json::{Value, json};
use wheelhouse_tests::{
    Kubectl,
    hub::Settings,
    issuer::{Issuer, Mode, seconds},
    process::Scratch,
    wait::within,
};

use super::support::{Answer, Fixture, SPOKES, User};

const PROMISED: Duration = Duration::from_secs(10);
const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

#[tokio::test(flavor = "multi_thread")]
async fn s01_s07_s16_a_kubeconfig_is_its_callers_in_one_cluster_for_a_while() {
    let (issuer, scratch) = (Issuer::start(Mode::Good).await, Scratch::new("kubeconfigs"));
    let file = scratch.write("authentication.yaml", configuration(&issuer));
    let settings = Settings {
        arguments: ["--authentication-config", &file.display().to_string()]
            .map(str::to_owned)
            .to_vec(),
        ..Settings::default()
    };
    let fixture = Fixture::start_with(&["alice@team", "mallory"], settings).await;
    fixture.embed("a").await;
    fixture.embed("b").await;
    let makes = json!({"apiGroups": ["wheelhouse.dev"], "resources": ["spokes/kubeconfig"], "verbs": ["create"]});
    for user in [
        "alice",
        "mallory",
        "oidc:bob",
        "system:serviceaccount:default:bot",
    ] {
        fixture
            .grant("root", user, "kubeconfigs", std::slice::from_ref(&makes))
            .await;
    }
    for user in ["alice", "oidc:bob"] {
        fixture.allow_access(user, "a").await;
        fixture.bind("a", user, "edit").await;
    }
    let alice = fixture.user("alice").await;
    let issued = within(PROMISED, "the right counts", || async {
        let answer = ask(&alice, "a", json!({})).await;
        if answer.status == 201 {
            Ok(answer.body)
        } else {
            Err(answer.body.to_string())
        }
    })
    .await;
    it_is_the_callers(&fixture, &scratch, &issued).await;
    it_is_given_to_nobody_else(&fixture, &issuer).await;
    it_ends_with_what_it_was_made_with(&fixture, &issuer, &scratch).await;
    it_ends_with_its_cluster(&fixture, &issued).await;
}

fn configuration(issuer: &Issuer) -> String {
    let jwt = json!({
        "issuer": {"url": issuer.url(), "certificateAuthority": issuer.certificate(), "audiences": ["hub"]},
        "claimMappings": {"username": {"claim": "sub", "prefix": "oidc:"}},
    });
    json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration", "jwt": [jwt]}).to_string()
}

async fn it_is_the_callers(fixture: &Fixture, scratch: &Scratch, issued: &Value) {
    let text = issued["status"]["kubeconfig"]
        .as_str()
        .expect("a kubeconfig");
    let kubectl = Kubectl::new(&scratch.write("issued.kubeconfig", text));
    let who = kubectl
        .json(&["auth", "whoami"])
        .await
        .expect("it works as it is");
    let info = &who["status"]["userInfo"];
    assert_eq!(info["username"], "alice", "{who}");
    assert_eq!(
        info["groups"],
        json!(["team", "system:authenticated"]),
        "{who}"
    );
    kubectl
        .apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: made}, data: {a: b}}")
        .await;
    let refused = kubectl
        .run(&[
            "create",
            "clusterrole",
            "more",
            "--verb=get",
            "--resource=pods",
        ])
        .await;
    assert!(
        refused.stderr.contains("\"alice\" cannot"),
        "no more rights than hers: {refused:?}"
    );
    let bearer = fixture.bearer("pass", &token_of(issued)).await;
    for (what, path, want) in [
        ("its cluster", format!("/clusters/a{WHO}"), 201),
        (
            "the same by the other path",
            format!("{SPOKES}/a/proxy{WHO}"),
            201,
        ),
        ("another cluster", format!("/clusters/b{WHO}"), 401),
        ("no such cluster", format!("/clusters/c{WHO}"), 401),
        ("root", WHO.to_owned(), 401),
        ("all clusters", format!("/clusters/*{WHO}"), 401),
        ("another one", format!("{SPOKES}/a/kubeconfig"), 401),
    ] {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let answer = bearer.post(&path, &review).await;
        assert_eq!(answer.status, want, "{what}: {answer:?}");
    }
    let discovered = fixture
        .admin()
        .await
        .get("/apis/wheelhouse.dev/v1alpha1")
        .await
        .must(200);
    let resources = discovered["resources"].as_array().expect("a list");
    let all = json!(["create", "delete", "get", "patch", "update"]);
    for (name, verbs) in [
        ("spokes/kubeconfig", json!(["create"])),
        ("spokes/proxy", all),
    ] {
        let found = resources.iter().find(|it| it["name"] == name);
        assert_eq!(found.map(|it| &it["verbs"]), Some(&verbs), "{discovered}");
    }
}

async fn it_is_given_to_nobody_else(fixture: &Fixture, issuer: &Issuer) {
    let mallory = fixture.user("mallory").await;
    let (known, unknown) = (
        ask(&mallory, "a", json!({})).await,
        ask(&mallory, "unknown", json!({})).await,
    );
    assert_eq!((known.status, unknown.status), (403, 403), "no access");
    assert_eq!(
        known.message(),
        unknown.message().replace("unknown", "a"),
        "nor a word about it"
    );
    let alice = fixture.user("alice").await;
    let admin = fixture.admin().await;
    assert_eq!(
        ask(&admin, "c", json!({})).await.status,
        404,
        "as it was told"
    );
    assert_eq!(
        ask(&fixture.bearer("nobody", "").await, "a", json!({}))
            .await
            .status,
        403,
        "as it was told"
    );
    for (spec, want) in [
        (json!({"expirationSeconds": 599}), 422),
        (json!({"expirationSeconds": 43201}), 422),
        (json!({"expirationSeconds": "long"}), 400),
        (json!({"expirationSeconds": 600}), 201),
    ] {
        let answer = ask(&alice, "a", spec.clone()).await;
        assert_eq!(answer.status, want, "{spec}: {answer:?}");
    }
    let path = format!("{SPOKES}/a/kubeconfig");
    assert_eq!(admin.get(&path).await.status, 405, "it is made, not read");
    let acting = [
        ("impersonate-user", "alice"),
        ("content-type", "application/json"),
    ];
    let answer = admin.send("POST", &path, &acting, "").await;
    assert!(
        answer.status == 403 && answer.message().contains("impersonated"),
        "{answer:?}"
    );
    // It ends no later than what it was made with.
    let ends = seconds() + 700;
    let bob = issuer.token(json!({"sub": "bob", "aud": "hub", "exp": ends}));
    let bob = fixture.bearer("bob", &bob).await;
    let issued = ask(&bob, "a", json!({"expirationSeconds": 7200}))
        .await
        .must(201);
    let granted = issued["spec"]["expirationSeconds"]
        .as_u64()
        .expect("a number");
    assert!(granted <= 700, "{issued}");
}

async fn it_ends_with_what_it_was_made_with(fixture: &Fixture, issuer: &Issuer, scratch: &Scratch) {
    let admin = fixture.admin().await;
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "bot"}});
    admin.post(ACCOUNTS, &account).await.must(201);
    fixture
        .allow_access("system:serviceaccount:default:bot", "a")
        .await;
    let request =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let made = admin
        .post(&format!("{ACCOUNTS}/bot/token"), &request)
        .await
        .must(201);
    let bot = fixture
        .bearer("bot", made["status"]["token"].as_str().expect("a token"))
        .await;
    let bob = issuer.token(json!({"sub": "bob", "aud": "hub"}));
    let bob = fixture.bearer("bob", &bob).await;
    let pass = async |user: &User| {
        let issued = within(PROMISED, "it is made", || async {
            let answer = ask(user, "a", json!({})).await;
            if answer.status == 201 {
                Ok(answer.body)
            } else {
                Err(answer.body.to_string())
            }
        });
        fixture.bearer("pass", &token_of(&issued.await)).await
    };
    let (bots, bobs) = (pass(&bot).await, pass(&bob).await);
    assert_eq!(
        name(&bots).await.as_deref(),
        Ok("wheelhouse:root:default:bot"),
        "its name elsewhere"
    );
    assert_eq!(name(&bobs).await.as_deref(), Ok("oidc:bob"), "who it is");
    admin
        .send("DELETE", &format!("{ACCOUNTS}/bot"), &[], "")
        .await
        .must(200);
    assert_eq!(name(&bots).await, Err(401), "without its account");
    let none =
        json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration"});
    scratch.write("authentication.yaml", none.to_string());
    within(PROMISED, "without its issuer", || async {
        match name(&bobs).await {
            Err(401) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

async fn it_ends_with_its_cluster(fixture: &Fixture, issued: &Value) {
    let bearer = fixture.bearer("pass", &token_of(issued)).await;
    assert_eq!(name(&bearer).await.as_deref(), Ok("alice"), "who it is");
    let admin = fixture.admin().await;
    admin.send("DELETE", &format!("{SPOKES}/a"), &[], "").await;
    admin.until_status(&format!("{SPOKES}/a"), 404).await;
    assert_eq!(name(&bearer).await, Err(401), "gone");
    fixture.embed("a").await;
    assert_eq!(
        name(&bearer).await,
        Err(401),
        "another cluster of that name"
    );
}

async fn ask(user: &User, cluster: &str, spec: Value) -> Answer {
    let request =
        json!({"apiVersion": "wheelhouse.dev/v1alpha1", "kind": "KubeconfigRequest", "spec": spec});
    user.post(&format!("{SPOKES}/{cluster}/kubeconfig"), &request)
        .await
}

fn token_of(issued: &Value) -> String {
    let text = issued["status"]["kubeconfig"]
        .as_str()
        .expect("a kubeconfig");
    let config: Value = serde_saphyr::from_str(text).expect("it is YAML");
    config["users"][0]["user"]["token"]
        .as_str()
        .expect("a token")
        .to_owned()
}

/// Who somebody is in the cluster, or the code of the refusal.
async fn name(user: &User) -> Result<String, u16> {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let answer = user.post(&format!("/clusters/a{WHO}"), &review).await;
    if answer.status != 201 {
        return Err(answer.status);
    }
    let name = &answer.body["status"]["userInfo"]["username"];
    Ok(name.as_str().unwrap_or_default().to_owned())
}
