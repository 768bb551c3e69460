//! Tokens of ServiceAccounts where, when and for whom they are not good.

use base64::Engine as _;
use http::Method;
use serde_json::{Value, json};

use super::world::{ADMIN, Findings, World, rule};

const REVIEW: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

async fn account(world: &World, prefix: &str, namespace: &str) {
    let path = format!("{prefix}/api/v1/namespaces/{namespace}/serviceaccounts");
    world
        .made(&path, &json!({"metadata": {"name": "bot"}}))
        .await;
}

async fn token(world: &World, prefix: &str, namespace: &str, spec: Value) -> String {
    let path = format!("{prefix}/api/v1/namespaces/{namespace}/serviceaccounts/bot/token");
    let made = world.made(&path, &json!({"spec": spec})).await;
    made["status"]["token"].as_str().unwrap().to_owned()
}

async fn name_at(world: &World, token: &str, prefix: &str) -> Result<String, u16> {
    let answer = world
        .ask(token, Method::POST, &format!("{prefix}{REVIEW}"), json!({}))
        .await;
    if answer.code != 201 {
        return Err(answer.code);
    }
    let name = answer.json()["status"]["userInfo"]["username"].clone();
    Ok(name.as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_token_is_good_in_its_own_cluster_for_its_own_audience() {
    let mut findings = Findings::default();
    let world = World::new().await;
    account(&world, "", "here").await;
    account(&world, "/clusters/east", "default").await;
    let root = token(&world, "", "here", json!({})).await;
    let east = token(&world, "/clusters/east", "default", json!({})).await;
    let elsewhere = token(&world, "", "here", json!({"audiences": ["vault"]})).await;
    assert_eq!(
        name_at(&world, &root, "").await,
        Ok("system:serviceaccount:here:bot".to_owned())
    );
    assert_eq!(
        name_at(&world, &east, "/clusters/east").await,
        Ok("system:serviceaccount:default:bot".to_owned()),
        "a cluster's own ServiceAccount passes the first gate at its own path"
    );
    // Who does not pass the first gate is told who it is, and nothing else.
    let abroad = Ok("wheelhouse:root:here:bot".to_owned());
    for (name, token, prefix, want) in [
        ("east's in root", &east, "", Err(401)),
        ("east's at another spoke", &east, "/clusters/west", Err(401)),
        (
            "east's where there is nothing",
            &east,
            "/clusters/nowhere",
            Err(401),
        ),
        ("east's over all", &east, "/clusters/*", Err(401)),
        ("root's in east", &root, "/clusters/east", abroad.clone()),
        (
            "root's where there is nothing",
            &root,
            "/clusters/nowhere",
            abroad,
        ),
        ("root's over all", &root, "/clusters/*", Err(403)),
        ("another audience's", &elsewhere, "", Err(401)),
    ] {
        let got = name_at(&world, token, prefix).await;
        findings.expect(got == want, || format!("{name}: {got:?}"));
    }
    let namespaces = "/clusters/east/api/v1/namespaces";
    let refused = world.ask(&root, Method::GET, namespaces, Value::Null).await;
    assert_eq!(refused.code, 403, "{}", refused.text);
}

#[tokio::test]
async fn a_token_that_was_altered_or_made_elsewhere_is_not_good() {
    let mut findings = Findings::default();
    let world = World::new().await;
    let stranger = World::new().await;
    for world in [&world, &stranger] {
        account(world, "", "here").await;
    }
    let good = token(&world, "", "here", json!({})).await;
    let foreign = token(&stranger, "", "here", json!({})).await;
    assert_eq!(
        name_at(&world, &foreign, "").await,
        Err(401),
        "another hub's"
    );
    let parts: Vec<&str> = good.split('.').collect();
    let [head, payload, signature] = parts[..] else {
        panic!("{good}")
    };
    let codec = base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let claims: Value = serde_json::from_slice(&codec.decode(payload).unwrap()).unwrap();
    let with = |field: &str, value: Value| {
        let mut claims = claims.clone();
        claims[field] = value;
        codec.encode(claims.to_string())
    };
    let none = codec.encode(r#"{"alg":"none","typ":"JWT"}"#);
    let symmetric = codec.encode(r#"{"alg":"HS256","typ":"JWT"}"#);
    for (name, token) in [
        (
            "a longer life",
            format!(
                "{head}.{}.{signature}",
                with("exp", json!(9_999_999_999_i64))
            ),
        ),
        (
            "another issuer",
            format!(
                "{head}.{}.{signature}",
                with("iss", json!("https://wheelhouse.internal/clusters/east"))
            ),
        ),
        ("no algorithm", format!("{none}.{payload}.")),
        (
            "no algorithm, signed",
            format!("{none}.{payload}.{signature}"),
        ),
        (
            "a symmetric algorithm",
            format!("{symmetric}.{payload}.{signature}"),
        ),
        ("no signature", format!("{head}.{payload}.")),
        (
            "a signature of zeros",
            format!("{head}.{payload}.{}", codec.encode([0; 64])),
        ),
        ("cut off", format!("{head}.{payload}")),
        ("another case", good.to_uppercase()),
        ("padded", format!("{good}=")),
    ] {
        let got = name_at(&world, &token, "").await;
        findings.expect(got == Err(401), || format!("{name}: {got:?}"));
    }
    assert!(
        name_at(&world, &good, "").await.is_ok(),
        "the good one still is"
    );
}

#[tokio::test]
async fn a_token_ends_with_its_account_and_what_it_is_bound_to() {
    let world = World::new().await;
    account(&world, "", "here").await;
    let secret = json!({"metadata": {"name": "tie"}});
    world.made("/api/v1/namespaces/here/secrets", &secret).await;
    let bound = json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": "tie"}});
    let bound = token(&world, "", "here", bound).await;
    let free = token(&world, "", "here", json!({})).await;
    assert!(name_at(&world, &bound, "").await.is_ok() && name_at(&world, &free, "").await.is_ok());
    let gone = world
        .ask(
            ADMIN,
            Method::DELETE,
            "/api/v1/namespaces/here/secrets/tie",
            Value::Null,
        )
        .await;
    assert_eq!(gone.code, 200);
    assert_eq!(
        name_at(&world, &bound, "").await,
        Err(401),
        "what it was bound to is gone"
    );
    world.made("/api/v1/namespaces/here/secrets", &secret).await;
    assert_eq!(
        name_at(&world, &bound, "").await,
        Err(401),
        "another object of that name is another object"
    );
    assert!(name_at(&world, &free, "").await.is_ok());
    let path = "/api/v1/namespaces/here/serviceaccounts/bot";
    let gone = world.ask(ADMIN, Method::DELETE, path, Value::Null).await;
    assert_eq!(gone.code, 200);
    assert_eq!(
        name_at(&world, &free, "").await,
        Err(401),
        "the account is gone"
    );
    account(&world, "", "here").await;
    assert_eq!(
        name_at(&world, &free, "").await,
        Err(401),
        "another account of that name is another account"
    );
}

#[tokio::test]
async fn a_token_is_issued_to_those_alone_who_may_have_it() {
    let mut findings = Findings::default();
    let world = World::new().await;
    account(&world, "", "here").await;
    account(&world, "", "there").await;
    let rules = json!([
        rule(&["create"], "", &["serviceaccounts/token"], &[]),
        rule(&["get", "create", "update"], "", &["serviceaccounts"], &[]),
    ]);
    world.grant("", "here", "alice", rules).await;
    world
        .grant(
            "",
            "there",
            "bob",
            json!([rule(&["*"], "", &["serviceaccounts"], &[])]),
        )
        .await;
    world.settled().await;
    let here = "/api/v1/namespaces/here/serviceaccounts/bot/token";
    let there = "/api/v1/namespaces/there/serviceaccounts/bot/token";
    for (user, path, code) in [
        ("alice", here, 201),
        ("alice", there, 403),
        ("bob", there, 403),
        ("bob", here, 403),
    ] {
        let answer = world
            .ask(user, Method::POST, path, json!({"spec": {}}))
            .await;
        findings.expect(answer.code == code, || {
            format!("{user} {path}: {}", answer.text)
        });
    }
    // The name in the body does not turn it into another's.
    let sneaky = json!({"metadata": {"name": "bot", "namespace": "there"}, "spec": {}});
    let made = world.ask("alice", Method::POST, here, sneaky).await;
    let token = made.json()["status"]["token"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    assert_eq!(
        name_at(&world, &token, "").await,
        Ok("system:serviceaccount:here:bot".to_owned())
    );
}
