//! S01, S06, S07, S16: tokens of issuers (OpenID Connect) and of an authentication webhook make the users that they say, nobody that is Kubernetes'
//! or the hub's own, and nobody any more once they, their keys or their issuer are gone.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use wheelhouse_tests::{
    Kubectl, eventually,
    hub::Settings,
    issuer::{Issuer, Mode, seconds},
    process::Scratch,
    wait::within,
    wire::{Address, Wire},
};

use super::support::{Answer, Fixture, User};

/// How long somebody may go on after the right to it is gone.
const PROMISED: Duration = Duration::from_secs(10);
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// A hub with two issuers and a webhook.
struct Stage {
    fixture: Fixture,
    /// Its claims are taken by their names.
    plain: Issuer,
    /// Its claims are taken by expressions. It does not answer at first.
    expressions: Issuer,
    webhook: Issuer,
    scratch: Scratch,
}

impl Stage {
    async fn set() -> Self {
        let plain = Issuer::start(Mode::Good).await;
        let expressions = Issuer::start(Mode::Down).await;
        let webhook = Issuer::start(Mode::Good).await;
        let scratch = Scratch::new("issuers");
        let configuration = configuration(&plain, Some(&expressions));
        let file = scratch.write("authentication.yaml", configuration.to_string());
        let kubeconfig = scratch.write("webhook.kubeconfig", webhook.webhook_kubeconfig());
        let arguments = [
            "--authentication-config",
            &file.display().to_string(),
            "--authentication-token-webhook-config-file",
            &kubeconfig.display().to_string(),
        ];
        let settings = Settings {
            arguments: arguments.map(str::to_owned).to_vec(),
            ..Settings::default()
        };
        let fixture = Fixture::start_with(&["alice"], settings).await;
        let seen = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "seen"}});
        fixture.admin().await.post(MAPS, &seen).await.must(201);
        Self {
            fixture,
            plain,
            expressions,
            webhook,
            scratch,
        }
    }

    /// Who the bearer of a token is: name and groups, or the code of the refusal.
    async fn who(&self, token: &str) -> Result<(String, Vec<String>), u16> {
        let user = self.fixture.bearer("bearer", token).await;
        who(&user).await
    }

    async fn name(&self, token: &str) -> Result<String, u16> {
        self.who(token).await.map(|(name, _)| name)
    }

    async fn becomes(&self, what: &str, token: &str, want: Result<&str, u16>) {
        let want = want.map(str::to_owned);
        within(PROMISED, what, || async {
            let found = self.name(token).await;
            if found == want {
                Ok(())
            } else {
                Err(format!("{found:?}"))
            }
        })
        .await;
    }

    async fn watch(&self, token: &str) -> Wire {
        let address = Address::of_kubeconfig(&self.fixture.kubeconfig(None));
        let mut wire = Wire::connect(&address, &["http/1.1"], None).await;
        let head = format!(
            "GET {MAPS}?watch=true HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {token}\r\n\r\n",
            address.host
        );
        wire.write(head).await;
        let begun = wire.read_until("\"seen\"").await;
        assert!(begun.starts_with("HTTP/1.1 200"), "{begun}");
        wire
    }
}

/// A file of one issuer or two.
fn configuration(plain: &Issuer, expressions: Option<&Issuer>) -> Value {
    let mut jwt = vec![json!({
        "issuer": {
            "url": plain.url(), "certificateAuthority": plain.certificate(),
            "audiences": ["hub", "other-hub"], "audienceMatchPolicy": "MatchAny",
        },
        "claimMappings": {
            "username": {"claim": "sub", "prefix": "plain:"},
            "groups": {"claim": "groups", "prefix": ""},
        },
    })];
    jwt.extend(expressions.map(|it| {
        json!({
            "issuer": {"url": it.url(), "certificateAuthority": it.certificate(), "audiences": ["hub"]},
            "claimValidationRules": [{"expression": "claims.email_verified == true", "message": "verify your address"}],
            "claimMappings": {
                "username": {"expression": "claims.email"},
                "groups": {"expression": "claims.roles.map(role, 'role:' + role)"},
                "extra": [{"key": "acme.io/tenant", "valueExpression": "claims.tenant"}],
            },
            "userValidationRules": [{"expression": "!user.username.startsWith('banned')", "message": "banned"}],
        })
    }));
    json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration", "jwt": jwt})
}

#[tokio::test(flavor = "multi_thread")]
async fn s01_s16_tokens_of_issuers_make_whom_they_say_while_they_count() {
    let stage = Stage::set().await;
    an_issuer_that_is_down_stops_nobody_else(&stage).await;
    what_is_not_signed_for_this_hub_is_nobodys(&stage).await;
    nobody_becomes_one_of_kubernetes_or_the_hub(&stage).await;
    keys_are_rotated_while_they_are_used(&stage).await;
    forgers_do_not_make_the_hub_ask(&stage).await;
    a_webhook_knows_its_own_tokens_alone(&stage).await;
    a_webhook_that_hangs_is_in_nobodys_way(&stage).await;
    a_file_that_makes_no_sense_changes_nothing(&stage).await;
}

async fn an_issuer_that_is_down_stops_nobody_else(stage: &Stage) {
    let claims = json!({"sub": "bob", "aud": "hub", "groups": ["team"], "jti": "1"});
    let token = stage.plain.token(claims);
    let want = ["team", "system:authenticated"].map(str::to_owned).to_vec();
    assert_eq!(
        stage.who(&token).await,
        Ok(("plain:bob".to_owned(), want)),
        "who it is"
    );
    let admin = stage.fixture.admin().await;
    admin.get("/readyz").await.must(200);
    let told = admin.get("/readyz/issuers").await;
    assert!(
        told.status == 500 && told.body.to_string().contains(&stage.expressions.url()),
        "{told:?}"
    );
    let claims = json!({"email": "eve@acme.io", "email_verified": true, "aud": "hub", "roles": ["dev"], "tenant": "x"});
    let token = stage.expressions.token(claims);
    assert_eq!(stage.who(&token).await, Err(401), "no keys yet");
    // A redirect is no answer.
    stage.expressions.set(Mode::Elsewhere);
    eventually("it was tried", || async {
        let log = stage.fixture.hub.process().log();
        log.contains("302 Found").then_some(()).ok_or(log)
    })
    .await;
    assert_eq!(stage.who(&token).await, Err(401), "no redirect is followed");
    assert_eq!(stage.expressions.reading_count(), 0, "nor read");
    stage.expressions.set(Mode::Good);
    stage
        .becomes("the issuer is read", &token, Ok("eve@acme.io"))
        .await;
    admin.get("/readyz/issuers").await.must(200);
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
    let reviewed = admin.post(REVIEWS, &review).await.must(201);
    let user = &reviewed["status"]["user"];
    assert_eq!(
        user["groups"],
        json!(["role:dev", "system:authenticated"]),
        "as it was told"
    );
    assert_eq!(
        user["extra"]["acme.io/tenant"],
        json!(["x"]),
        "as it was told"
    );
}

#[expect(clippy::too_many_lines, reason = "a table is told in one piece")]
async fn what_is_not_signed_for_this_hub_is_nobodys(stage: &Stage) {
    let good = || json!({"sub": "bob", "aud": "hub"});
    let with = |field: &str, value: Value| {
        let mut claims = good();
        claims[field] = value;
        stage.plain.token(claims)
    };
    let other = stage.expressions.url();
    let no_exp = with("exp", json!(null));
    let verified =
        json!({"email": "a@b", "email_verified": false, "aud": "hub", "roles": [], "tenant": "x"});
    let banned = json!({"email": "banned@b", "email_verified": true, "aud": "hub", "roles": [], "tenant": "x"});
    for (what, token) in [
        ("for another", with("aud", json!("spoke"))),
        ("for nobody", with("aud", json!([]))),
        ("another's URL", with("iss", json!(other))),
        (
            "no issuer of ours",
            with("iss", json!("https://127.0.0.1:1")),
        ),
        (
            "the hub's",
            with("iss", json!("https://wheelhouse.internal")),
        ),
        ("expired", with("exp", json!(seconds() - 1))),
        ("endless", no_exp),
        ("not begun", with("nbf", json!(seconds() + 400))),
        ("issued in the future", with("iat", json!(seconds() + 400))),
        (
            "not signed",
            stage.plain.token_with(json!({"alg": "none"}), good()),
        ),
        (
            "signed with the public key",
            stage.plain.token_with(json!({"alg": "HS256"}), good()),
        ),
        (
            "another key's name",
            stage.plain.token_with(json!({"kid": "key-7"}), good()),
        ),
        (
            "another algorithm's name",
            stage.plain.token_with(json!({"alg": "ES384"}), good()),
        ),
        (
            "an extension",
            stage.plain.token_with(json!({"crit": ["exp"]}), good()),
        ),
        ("no name", with("sub", json!(""))),
        (
            "an address that is not verified",
            stage.expressions.token(verified),
        ),
        ("whom a rule refuses", stage.expressions.token(banned)),
    ] {
        assert_eq!(stage.who(&token).await, Err(401), "{what}");
    }
    let signed = stage.plain.token(good());
    let (head, _) = signed.rsplit_once('.').expect("it has a signature");
    let forged = format!("{head}.{}", "A".repeat(86));
    assert_eq!(stage.who(&forged).await, Err(401), "forged");
    assert_eq!(
        stage.name(&signed).await.as_deref(),
        Ok("plain:bob"),
        "who it is"
    );
    let both = stage
        .plain
        .token(json!({"sub": "bob", "aud": ["x", "other-hub"]}));
    assert_eq!(
        stage.name(&both).await.as_deref(),
        Ok("plain:bob"),
        "any of them"
    );
}

async fn nobody_becomes_one_of_kubernetes_or_the_hub(stage: &Stage) {
    for name in [
        "system:masters",
        "system:nodes",
        "wheelhouse:root:default:bot",
        "system:wheelhouse:syncer",
    ] {
        let group = stage
            .plain
            .token(json!({"sub": "bob", "aud": "hub", "groups": ["team", name]}));
        assert_eq!(stage.who(&group).await, Err(401), "the group {name}");
        let claims = json!({"email": name, "email_verified": true, "aud": "hub", "roles": [], "tenant": "x"});
        let user = stage.expressions.token(claims);
        assert_eq!(stage.who(&user).await, Err(401), "the user {name}");
        let (user, group) = (format!("hook-user-{name}"), format!("hook-group-{name}"));
        stage.webhook.review(&user, json!({"username": name}));
        let carol = json!({"username": "carol", "groups": [name]});
        stage.webhook.review(&group, carol);
        for token in [&user, &group] {
            assert_eq!(stage.who(token).await, Err(401), "{token}");
        }
    }
    let account = stage
        .plain
        .token(json!({"sub": "system:serviceaccount:default:bot", "aud": "hub"}));
    let name = stage.name(&account).await;
    assert_eq!(
        name.as_deref(),
        Ok("plain:system:serviceaccount:default:bot"),
        "a prefix makes it another name"
    );
}

async fn keys_are_rotated_while_they_are_used(stage: &Stage) {
    let fixture = &stage.fixture;
    let maps = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]});
    fixture.grant("root", "plain:bob", "maps", &[maps]).await;
    let claims = || json!({"sub": "bob", "aud": "hub"});
    let before = stage.plain.token(claims());
    let user = fixture.bearer("bob", &before).await;
    user.until_status(MAPS, 200).await;
    let mut watch = stage.watch(&before).await;
    stage.plain.rotate();
    assert_eq!(
        stage.name(&before).await.as_deref(),
        Ok("plain:bob"),
        "a key that nobody has asked about"
    );
    let after = stage.plain.token(claims());
    stage
        .becomes("the new key counts", &after, Ok("plain:bob"))
        .await;
    let begun = Instant::now();
    let told = watch.read_until("\"code\":401").await;
    assert!(
        told.contains("\"code\":401") && begun.elapsed() < PROMISED,
        "{:?}: {told}",
        begun.elapsed()
    );
    stage
        .becomes("the old key counts no more", &before, Err(401))
        .await;
    // An issuer that is away keeps the keys that it had.
    stage.plain.set(Mode::Hung);
    let begun = Instant::now();
    assert_eq!(stage.name(&after).await.as_deref(), Ok("plain:bob"), "away");
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
    stage.plain.set(Mode::Good);
}

async fn forgers_do_not_make_the_hub_ask(stage: &Stage) {
    let (before, begun) = (stage.plain.reading_count(), Instant::now());
    for number in 0..100 {
        let header = json!({"kid": format!("forged-{number}")});
        let token = stage
            .plain
            .token_with(header, json!({"sub": "bob", "aud": "hub"}));
        assert_eq!(stage.who(&token).await, Err(401), "who it is");
    }
    let read = stage.plain.reading_count() - before;
    let allowed = begun.elapsed().as_secs() / 5 + 2;
    assert!(
        read as u64 <= allowed,
        "{read} readings in {:?}",
        begun.elapsed()
    );
}

async fn a_webhook_knows_its_own_tokens_alone(stage: &Stage) {
    let carol = json!({"username": "carol", "uid": "7", "groups": ["hooked", "system:authenticated"],
        "extra": {"acme.io/tenant": ["x"], "authentication.kubernetes.io/pod-name": ["forged"]}});
    stage.webhook.review("hook-carol", carol);
    let want = ["hooked", "system:authenticated"]
        .map(str::to_owned)
        .to_vec();
    assert_eq!(
        stage.who("hook-carol").await,
        Ok(("carol".to_owned(), want)),
        "who it is"
    );
    let maps = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]});
    stage.fixture.grant("root", "carol", "maps", &[maps]).await;
    let user = stage.fixture.bearer("carol", "hook-carol").await;
    user.until_status(MAPS, 200).await;
    let mut watch = stage.watch("hook-carol").await;
    stage.webhook.review("hook-carol", Value::Null);
    let begun = Instant::now();
    let told = watch.read_until("\"code\":401").await;
    assert!(
        told.contains("\"code\":401") && begun.elapsed() < PROMISED,
        "{:?}: {told}",
        begun.elapsed()
    );
    assert_eq!(stage.who("hook-carol").await, Err(401), "who it is");
    // Tokens that are others' are not its business, good or not.
    let expired = stage
        .plain
        .token(json!({"sub": "bob", "aud": "hub", "exp": 1}));
    let account = stage
        .plain
        .token(json!({"iss": "https://spoke", "sub": "system:serviceaccount:default:bot"}));
    for token in [&expired, &account, "alice-token"] {
        drop(stage.who(token).await);
    }
    let shown = stage.webhook.shown();
    for token in [&expired, &account, "alice-token"] {
        assert!(!shown.iter().any(|it| it == token), "{token} was shown");
    }
}

async fn a_webhook_that_hangs_is_in_nobodys_way(stage: &Stage) {
    stage.webhook.set(Mode::Hung);
    let begun = Instant::now();
    let waits = (0..40).map(|number| async move { stage.who(&format!("unknown-{number}")).await });
    let waits = futures::future::join_all(waits);
    let others = async {
        let begun = Instant::now();
        for _ in 0..20 {
            let name = stage.name("alice-token").await;
            assert_eq!(name.as_deref(), Ok("alice"), "who it is");
        }
        begun.elapsed()
    };
    let (refused, others) = tokio::join!(waits, others);
    assert!(refused.iter().all(|it| *it == Err(401)), "{refused:?}");
    // Up to 5 s for a place in the line, and as many for the answer: the second half of them waits for both.
    let waited = begun.elapsed();
    assert!(
        waited < Duration::from_mins(1),
        "nobody waits for ever: {waited:?}"
    );
    assert!(others < Duration::from_secs(4), "{others:?}");
    stage.webhook.set(Mode::Good);
}

async fn a_file_that_makes_no_sense_changes_nothing(stage: &Stage) {
    let claims = json!({"email": "eve@acme.io", "email_verified": true, "aud": "hub", "roles": [], "tenant": "x"});
    let token = stage.expressions.token(claims);
    let maps = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]});
    stage
        .fixture
        .grant("root", "eve@acme.io", "maps", &[maps])
        .await;
    let user = stage.fixture.bearer("eve", &token).await;
    user.until_status(MAPS, 200).await;
    let mut watch = stage.watch(&token).await;
    let mut bad = configuration(&stage.plain, None);
    bad["jwt"][0]["issuer"]["audiences"] = json!([]);
    stage.scratch.write("authentication.yaml", bad.to_string());
    let metrics = || async {
        stage
            .fixture
            .admin()
            .await
            .get("/metrics")
            .await
            .body
            .to_string()
    };
    eventually("the bad file is told", || async {
        let text = metrics().await;
        let line = "automatic_reloads_total{status=\\\"failure\\\"} 1";
        if text.contains(line) {
            Ok(())
        } else {
            Err(text)
        }
    })
    .await;
    assert_eq!(
        stage.name(&token).await.as_deref(),
        Ok("eve@acme.io"),
        "the previous one stays in use"
    );
    let log = stage.fixture.hub.process().log();
    assert!(
        log.contains("at least one jwt[0].issuer.audiences is required"),
        "{log}"
    );
    let next = configuration(&stage.plain, None);
    stage.scratch.write("authentication.yaml", next.to_string());
    let told = watch.read_until("\"code\":401").await;
    assert!(told.contains("\"code\":401"), "{told}");
    stage.becomes("the issuer is gone", &token, Err(401)).await;
    let plain = stage.plain.token(json!({"sub": "bob", "aud": "hub"}));
    assert_eq!(
        stage.name(&plain).await.as_deref(),
        Ok("plain:bob"),
        "the other one stays"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_signs_in_with_a_plug_in_at_root_and_in_a_cluster() {
    let issuer = Issuer::start(Mode::Good).await;
    let scratch = Scratch::new("plugin");
    let fixture = hub_of(&issuer, &scratch).await;
    let claims =
        |groups: Value| json!({"sub": "dana", "aud": "kubectl", "hd": "acme.io", "groups": groups});
    let write = |token: String| {
        let credential = json!({
            "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": token},
        });
        scratch.write("credential.json", credential.to_string());
    };
    write(issuer.token(claims(json!(["platform"]))));
    let root = kubectl_of(&fixture, &scratch);
    let east = root
        .clone()
        .server(format!("{}/clusters/east", fixture.hub.server()));
    let who = root
        .json(&["auth", "whoami"])
        .await
        .expect("the plug-in's token counts");
    assert_eq!(who["status"]["userInfo"]["username"], "dana", "who it is");
    let refused = east.run(&["get", "configmaps"]).await;
    assert!(
        refused.stderr.contains("User \"dana\" cannot"),
        "{refused:?}"
    );
    let_in(&fixture).await;
    eventually("the bindings count", || async {
        east.run(&["get", "configmaps"]).await.ok()
    })
    .await;
    east.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: dana}, data: {a: b}}")
        .await;
    root.must(&["get", "configmaps"]).await;
    let refused = root.run(&["create", "configmap", "dana"]).await;
    assert!(
        refused.stderr.contains("Forbidden") || refused.stderr.contains("forbidden"),
        "{refused:?}"
    );
    // The next token is signed with another key, and is in no group.
    issuer.rotate();
    write(issuer.token(claims(json!([]))));
    eventually("the new key counts", || async {
        root.run(&["auth", "whoami"]).await.ok()
    })
    .await;
    let refused = east.run(&["get", "configmaps"]).await;
    assert!(
        refused.code != 0 && refused.stderr.contains("dana"),
        "{refused:?}"
    );
    let mut other = claims(json!(["platform"]));
    other["hd"] = json!("other.io");
    write(issuer.token(other));
    let refused = root.run(&["auth", "whoami"]).await;
    assert!(refused.code != 0, "{refused:?}");
}

/// Where people sign in to the fleet view.
const SIGN_IN: &str = "/ui/api/sign-in";
const BACK: &str = "https://hub/ui/";
/// A verifier of RFC 7636, and its challenge. Source: its appendix B.
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
const SECRET: &str = "a secret: of+the client";

/// A stranger who signs in to the fleet view, and the issuer at which.
struct SigningIn {
    fixture: Fixture,
    issuer: Issuer,
    stranger: User,
    _scratch: Scratch,
}

impl SigningIn {
    async fn set() -> Self {
        let (issuer, scratch) = (Issuer::start(Mode::Good).await, Scratch::new("sign-in"));
        let mut configuration = configuration(&issuer, None);
        configuration["jwt"][0]["userValidationRules"] =
            json!([{"expression": "user.username != 'plain:banned'", "message": "banned"}]);
        let file = scratch.write("authentication.yaml", configuration.to_string());
        let secret = scratch.write("secret", format!("{SECRET}\n"));
        let arguments = [
            "--authentication-config",
            &file.display().to_string(),
            "--view-oidc-issuer-url",
            &issuer.url(),
            "--view-oidc-client-id",
            "hub",
            "--view-oidc-client-secret-file",
            &secret.display().to_string(),
        ];
        issuer.want_secret("a+secret%3A+of%2Bthe+client");
        issuer.sign_in_as(json!({"sub": "dana", "groups": ["team"]}));
        let settings = Settings {
            arguments: arguments.map(str::to_owned).to_vec(),
            environment: vec![("WHEELHOUSE_LOG".to_owned(), "debug".to_owned())],
            ..Settings::default()
        };
        let fixture = Fixture::start_with(&[], settings).await;
        let stranger = fixture.bearer("stranger", "").await;
        Self {
            fixture,
            issuer,
            stranger,
            _scratch: scratch,
        }
    }

    /// What strangers are offered. The hub is ready before it has read the issuer, and offers nothing until then.
    async fn offer(&self) -> Value {
        let is_read = |answer: &Answer| !answer.body["oidc"].is_null();
        let answer = self.stranger.until(SIGN_IN, "the issuer is read", is_read);
        answer.await.must(200)
    }

    /// Signs in at the issuer, and returns the code.
    fn code(&self, client: &str) -> String {
        let query = format!(
            "response_type=code&client_id={client}&redirect_uri={}&state=s&nonce=n&code_challenge={CHALLENGE}&code_challenge_method=S256",
            BACK.replace(':', "%3A")
        );
        let back = self.issuer.authorize(&query);
        let (_, query) = back.split_once('?').expect("it has a query");
        let code = query.split('&').find_map(|it| it.strip_prefix("code="));
        code.expect("somebody signs in").to_owned()
    }

    async fn redeem(&self, code: &str, verifier: &str, back: &str) -> Answer {
        let body = json!({"code": code, "codeVerifier": verifier, "redirectUri": back});
        self.stranger.post(SIGN_IN, &body).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s01_a_sign_in_gives_the_token_of_who_signed_in_and_no_other() {
    let stage = SigningIn::set().await;
    let offer = stage.offer().await;
    let endpoint = format!("{}/authorize", stage.issuer.url());
    let want = json!({"oidc": {"issuer": stage.issuer.url(), "authorizationEndpoint": endpoint, "clientId": "hub", "scope": "openid email profile"}});
    assert_eq!(offer, want, "what strangers are told");
    let code = stage.code("hub");
    let answer = stage.redeem(&code, VERIFIER, BACK).await;
    assert_eq!(answer.headers["cache-control"], "no-store", "{answer:?}");
    let token = answer.must(200)["token"]
        .as_str()
        .expect("a token")
        .to_owned();
    let dana = stage.fixture.bearer("dana", &token).await;
    let found = who(&dana).await.map(|(name, _)| name);
    assert_eq!(found.as_deref(), Ok("plain:dana"), "who has signed in");
    let mut secrets = vec![code.clone(), token, SECRET.to_owned(), VERIFIER.to_owned()];
    // A code is good once, with its verifier, at its address; and for a client of which the hub takes tokens.
    let (second, third) = (stage.code("hub"), stage.code("hub"));
    let (of_other, banned) = (stage.code("other"), stage.code("hub"));
    for (what, code, verifier, back, said) in [
        ("twice", code.as_str(), VERIFIER, BACK, "invalid_grant"),
        ("of nobody", "code-99", VERIFIER, BACK, "invalid_grant"),
        (
            "with another verifier",
            &second,
            CHALLENGE,
            BACK,
            "invalid_grant",
        ),
        (
            "for another address",
            &third,
            VERIFIER,
            "https://evil/ui/",
            "invalid_grant",
        ),
        (
            "of another client",
            &of_other,
            VERIFIER,
            BACK,
            "invalid_client",
        ),
    ] {
        let refused = stage.redeem(code, verifier, back).await;
        assert_eq!(refused.status, 401, "{what}: {refused:?}");
        assert!(refused.message().contains(said), "{what}: {refused:?}");
    }
    // Whom the hub would not know gets no token of it.
    for claims in [
        json!({"sub": "banned"}),
        json!({"sub": "dana", "aud": "elsewhere"}),
        json!({"sub": "dana", "exp": 1}),
    ] {
        stage.issuer.sign_in_as(claims.clone());
        let code = stage.code("hub");
        let refused = stage.redeem(&code, VERIFIER, BACK).await;
        assert_eq!(refused.status, 401, "{claims}: {refused:?}");
        assert!(refused.message().contains("does not accept"), "{refused:?}");
        assert!(!refused.body.to_string().contains("eyJ"), "{refused:?}");
        secrets.push(code);
    }
    secrets.push(banned);
    what_is_no_redemption(&stage).await;
    an_issuer_that_hangs_holds_up_few(&stage).await;
    let log = stage.fixture.hub.process().log();
    for secret in secrets {
        assert!(!log.contains(&secret), "{secret} stands in the log");
    }
    nobody_signs_in_where_it_was_not_said().await;
}

async fn nobody_signs_in_where_it_was_not_said() {
    let plain = Fixture::start(&[]).await;
    let stranger = plain.bearer("stranger", "").await;
    let offer = stranger.get(SIGN_IN).await.must(200);
    assert_eq!(offer, json!({}), "what strangers are told");
    let body = json!({"code": "a", "codeVerifier": "b", "redirectUri": "c"});
    stranger.post(SIGN_IN, &body).await.must(404);
}

async fn what_is_no_redemption(stage: &SigningIn) {
    let stranger = &stage.stranger;
    let good = json!({"code": "a", "codeVerifier": "b", "redirectUri": "c"}).to_string();
    let json = [("content-type", "application/json")];
    let long = good.replace("\"b\"", &format!("\"{}\"", "b".repeat(5000)));
    let huge = " ".repeat(20_000);
    for (what, method, headers, body, want) in [
        (
            "a form",
            "POST",
            &[("content-type", "application/x-www-form-urlencoded")][..],
            "code=a",
            415,
        ),
        (
            "a text",
            "POST",
            &[("content-type", "text/plain")],
            &good,
            415,
        ),
        ("no type", "POST", &[], &good, 415),
        ("nothing", "POST", &json, "", 400),
        ("a list", "POST", &json, "[]", 400),
        ("a part", "POST", &json, "{\"code\": \"a\"}", 400),
        (
            "more",
            "POST",
            &json,
            "{\"code\": \"a\", \"codeVerifier\": \"b\", \"redirectUri\": \"c\", \"issuer\": \"https://evil\"}",
            400,
        ),
        ("a long part", "POST", &json, &long, 400),
        ("much", "POST", &json, &huge, 413),
        ("a change", "PUT", &json, &good, 405),
    ] {
        let answer = stranger
            .send(method, SIGN_IN, headers, body.to_owned())
            .await;
        assert_eq!(answer.status, want, "{what}: {answer:?}");
    }
}

async fn an_issuer_that_hangs_holds_up_few(stage: &SigningIn) {
    stage.issuer.set(Mode::Hung);
    let attempts = (0..12).map(|_| stage.redeem("code", VERIFIER, BACK));
    let begun = Instant::now();
    let codes: Vec<u16> = futures::future::join_all(attempts)
        .await
        .iter()
        .map(|it| it.status)
        .collect();
    let count = |code: u16| codes.iter().filter(|it| **it == code).count();
    assert_eq!((count(503), count(429)), (8, 4), "{codes:?}");
    assert!(
        begun.elapsed() < Duration::from_secs(40),
        "{:?}",
        begun.elapsed()
    );
    stage.issuer.set(Mode::Good);
}

/// A hub that takes tokens of an issuer by flags.
async fn hub_of(issuer: &Issuer, scratch: &Scratch) -> Fixture {
    let authority = scratch.write("issuer.crt", issuer.certificate());
    let flags = [
        "--oidc-issuer-url",
        &issuer.url(),
        "--oidc-client-id",
        "kubectl",
        "--oidc-ca-file",
        &authority.display().to_string(),
        "--oidc-username-prefix",
        "-",
        "--oidc-groups-claim",
        "groups",
        "--oidc-groups-prefix",
        "acme:",
        "--oidc-signing-algs",
        "ES256",
        "--oidc-required-claim",
        "hd=acme.io",
    ];
    let settings = Settings {
        arguments: flags.map(str::to_owned).to_vec(),
        ..Settings::default()
    };
    let fixture = Fixture::start_with(&[], settings).await;
    fixture.embed("east").await;
    fixture
}

/// kubectl whose plug-in prints `credential.json`.
fn kubectl_of(fixture: &Fixture, scratch: &Scratch) -> Kubectl {
    let config = fixture.kubeconfig(Some("none"));
    let mut config: Value = serde_json::from_str(&config).expect("it is JSON");
    let file = scratch.file("credential.json");
    for user in config["users"].as_array_mut().into_iter().flatten() {
        user["user"] = json!({"exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": "cat", "args": [file], "interactiveMode": "Never",
        }});
    }
    let kubeconfig = scratch.write("kubeconfig", config.to_string());
    Kubectl::new(&kubeconfig).server(fixture.hub.server())
}

/// Lets the group `acme:platform` look at root, and edit in east.
async fn let_in(fixture: &Fixture) {
    let admin = fixture.hub.root();
    let access = [
        "create",
        "clusterrole",
        "enter",
        "--verb=access",
        "--resource=spokes",
        "--resource-name=east",
    ];
    admin.must(&access).await;
    for (kubectl, role) in [
        (&admin, "enter"),
        (&admin, "view"),
        (&fixture.hub.at("east"), "edit"),
    ] {
        let (name, role) = (format!("acme-{role}"), format!("--clusterrole={role}"));
        let binding = ["create", "clusterrolebinding", &name, &role];
        let arguments = [&binding[..], &["--group=acme:platform"]].concat();
        kubectl.must(&arguments).await;
    }
}

/// Asks who somebody is: name and groups, or the code of the refusal.
async fn who(user: &User) -> Result<(String, Vec<String>), u16> {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let answer = user.post(WHO, &review).await;
    if answer.status != 201 {
        return Err(answer.status);
    }
    let info = &answer.body["status"]["userInfo"];
    let groups = info["groups"].as_array().into_iter().flatten();
    let groups = groups.filter_map(Value::as_str).map(str::to_owned);
    let name = info["username"].as_str().unwrap_or_default();
    Ok((name.to_owned(), groups.collect()))
}
