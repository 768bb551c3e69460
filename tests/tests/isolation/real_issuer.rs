//! S01, S16: a kube-apiserver is the issuer, one that was not made for this trial: its ServiceAccount tokens make users of the hub, with the
//! elliptic keys that it has first and with the RSA keys that most issuers have. kubectl gets them by a credential plug-in.

use std::{process::Command, time::Duration};

use serde_json::{Value, json};
use wheelhouse_tests::{
    Kubectl, Spoke, assets, hub::Settings, process::Scratch, spoke::Options, wait::within,
};

use super::support::Fixture;

const ISSUER: &str = "https://issuer.example";
const ACCOUNT: &str = "accounts:system:serviceaccount:default:build";

/// How long old keys may be good, and new ones unknown.
const PROMISED: Duration = Duration::from_secs(10);

/// Whoever asks may read the issuer's keys: kube-apiserver shows them to its own ServiceAccounts alone.
const PUBLIC: [&str; 4] = [
    "create",
    "clusterrolebinding",
    "public-keys",
    "--clusterrole=system:service-account-issuer-discovery",
];

struct Stage {
    issuer: Spoke,
    fixture: Fixture,
    scratch: Scratch,
}

impl Stage {
    async fn set() -> Self {
        let options = Options {
            without_controllers: true,
            issuer: Some(ISSUER),
            ..Options::default()
        };
        let issuer = Spoke::start_with("issuer", options).await;
        let kubectl = issuer.kubectl();
        let public = [&PUBLIC[..], &["--group=system:unauthenticated"]].concat();
        kubectl.must(&public).await;
        kubectl.must(&["create", "serviceaccount", "build"]).await;
        let scratch = Scratch::new("real-issuer");
        let discovery = format!("{}/.well-known/openid-configuration", issuer.server());
        let configuration = json!({
            "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration",
            "jwt": [{
                "issuer": {
                    "url": ISSUER, "discoveryURL": discovery, "certificateAuthority": issuer.certificate(),
                    "audiences": ["hub"],
                },
                "claimMappings": {
                    "username": {"claim": "sub", "prefix": "accounts:"},
                    "groups": {"expression": "['namespace:' + claims['kubernetes.io'].namespace]"},
                },
            }],
        });
        let file = scratch.write("authentication.yaml", configuration.to_string());
        let arguments = [
            "--authentication-config".to_owned(),
            file.display().to_string(),
        ];
        let settings = Settings {
            arguments: arguments.to_vec(),
            ..Settings::default()
        };
        let fixture = Fixture::start_with(&[], settings).await;
        Self {
            issuer,
            fixture,
            scratch,
        }
    }

    /// Returns a token of the account, for an audience.
    async fn token(&self, audience: &str) -> String {
        let audience = format!("--audience={audience}");
        let create = ["create", "token", "build", &audience];
        let token = self.issuer.kubectl().must(&create).await;
        token.trim().to_owned()
    }

    /// Returns who the bearer of a token is at the hub, or the code of the refusal.
    async fn who(&self, token: &str) -> Result<Value, u16> {
        let user = self.fixture.bearer("bearer", token).await;
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let answer = user.post(path, &review).await;
        match answer.status {
            201 => Ok(answer.body["status"]["userInfo"].clone()),
            refused => Err(refused),
        }
    }

    async fn becomes(&self, what: &str, token: &str, want: Result<&str, u16>) {
        within(PROMISED, what, || async {
            let found = self.who(token).await;
            let is_so = match (&found, want) {
                (Ok(user), Ok(name)) => user["username"] == name,
                (Err(code), Err(wanted)) => *code == wanted,
                _ => false,
            };
            is_so.then_some(()).ok_or_else(|| format!("{found:?}"))
        })
        .await;
    }

    /// Gives the issuer an RSA key in place of its own; false without openssl.
    async fn replace_key(&mut self) -> bool {
        let openssl = |arguments: &[&str]| {
            let ran = Command::new("openssl").args(arguments).output();
            let ran = ran.ok().filter(|ran| ran.status.success());
            ran.map(|ran| String::from_utf8(ran.stdout).expect("PEM is text"))
        };
        let size = "rsa_keygen_bits:2048";
        let Some(private) = openssl(&["genpkey", "-algorithm", "RSA", "-pkeyopt", size]) else {
            return false;
        };
        let file = self.issuer.write("service-account.key", &private);
        let public = openssl(&["pkey", "-pubout", "-in", &file.display().to_string()]);
        let public = public.expect("a key has a public part");
        self.issuer.write("service-account.pub", &public);
        self.issuer.stop_api();
        self.issuer.start_api().await;
        true
    }
}

/// The algorithm by which a token is signed.
fn algorithm(token: &str) -> String {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    let head = token.split('.').next().unwrap_or_default();
    let head = URL_SAFE_NO_PAD.decode(head).expect("it is base64");
    let head: Value = serde_json::from_slice(&head).expect("it is JSON");
    head["alg"].as_str().unwrap_or_default().to_owned()
}

/// kubectl asks a plug-in for its token, which asks the issuer.
fn kubectl_by_plug_in(stage: &Stage) -> Kubectl {
    let kubectl = assets::folder().join("kubectl");
    let script = format!(
        "#!/bin/sh\nset -e\ntoken=$({} --kubeconfig {} create token build --audience=hub)\n\
         echo '{{\"apiVersion\": \"client.authentication.k8s.io/v1\", \"kind\": \"ExecCredential\", \"status\": {{\"token\": \"'$token'\"}}}}'\n",
        kubectl.display(),
        stage.issuer.kubeconfig().display()
    );
    let script = stage.scratch.write("plug-in", script);
    let mut config: Value = serde_json::from_str(&stage.fixture.kubeconfig(None)).expect("JSON");
    for user in config["users"].as_array_mut().into_iter().flatten() {
        user["user"] = json!({"exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": "sh",
            "args": [script.display().to_string()], "interactiveMode": "Never",
        }});
    }
    let file = stage
        .scratch
        .write("plug-in.kubeconfig", config.to_string());
    Kubectl::new(&file)
}

#[tokio::test(flavor = "multi_thread")]
async fn s01_s16_a_kube_apiserver_is_an_issuer_and_its_keys_are_replaced() {
    let mut stage = Stage::set().await;
    let old = stage.token("hub").await;
    assert_eq!(algorithm(&old), "ES256", "the keys of the trials");
    stage
        .becomes("the issuer's keys are known", &old, Ok(ACCOUNT))
        .await;
    let groups = stage.who(&old).await.map(|user| user["groups"].clone());
    let want = json!(["namespace:default", "system:authenticated"]);
    assert_eq!(groups, Ok(want), "by an expression");
    let other = stage.token("another-hub").await;
    assert_eq!(stage.who(&other).await, Err(401), "for another audience");
    let forged = format!("{}x", old.trim_end_matches('x'));
    assert_eq!(stage.who(&forged).await, Err(401), "another signature");
    let kubectl = kubectl_by_plug_in(&stage);
    let who = kubectl.must(&["auth", "whoami"]).await;
    assert!(who.contains(ACCOUNT), "{who}");

    if !stage.replace_key().await {
        assets::skipped("openssl is not here, which makes the issuer's RSA key");
        return;
    }
    let new = stage.token("hub").await;
    assert_eq!(algorithm(&new), "RS256", "the key was replaced");
    stage
        .becomes("the new key is known", &new, Ok(ACCOUNT))
        .await;
    stage.becomes("the old key is not", &old, Err(401)).await;
    let who = kubectl.must(&["auth", "whoami"]).await;
    assert!(who.contains(ACCOUNT), "{who}");
}
