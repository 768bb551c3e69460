//! An issuer of OpenID Connect that a certified library serves (`tests/issuer/main.go`): people sign in at it with a password, by the
//! plug-in that their kubeconfig names, and its keys are replaced while they work. A kube-apiserver reads the same file beside the hub,
//! and says the same of them.

use std::{path::PathBuf, process::Command, time::Duration};

use serde_json::{Value, json};
use wheelhouse_tests::{
    Hub, Kubectl, Spoke, assets, eventually,
    hub::Settings,
    kubectl::Ran,
    pki::{Authority, token_kubeconfig},
    process::{Process, Scratch, free_port},
    spoke::Options,
    wait::within,
};

use super::stage::{INNER, say, until};

const USER: &str = "platform-anna";
const PASSWORD: &str = "a longer one";

/// How long a key may be good after its issuer has withdrawn it: docs/authentication.md says a minute, and reading takes a while.
const PROMISED: Duration = Duration::from_secs(70);

/// What lets the group read: here in a cluster, and in root enter it.
const RIGHTS: &str = "apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: enters}
rules: [{apiGroups: [wheelhouse.dev], resources: [spokes], verbs: [access]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: platform}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: ROLE}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: 'oidc:platform'}]
";

/// A server that takes the issuer's tokens.
struct Server {
    name: &'static str,
    url: String,
    authority: String,
}

struct Stage {
    issuer: Process,
    program: PathBuf,
    url: String,
    authority: PathBuf,
    hub: Hub,
    peer: Spoke,
    scratch: Scratch,
}

impl Stage {
    async fn set(program: PathBuf) -> Self {
        let scratch = Scratch::new("oidc");
        let pki = Authority::new("issuer-ca");
        let authority = scratch.write("issuer.crt", pki.certificate());
        let address = format!("127.0.0.1:{}", free_port());
        let pair = pki.serving();
        let users = json!({USER: {"ID": USER, "Username": USER, "Password": PASSWORD}});
        let mut serve = Command::new(&program);
        serve.args(["serve", &address]);
        serve.arg(scratch.write("serving.crt", pair.certificate));
        serve.arg(scratch.write("serving.key", pair.key));
        serve.arg(scratch.write("users.json", users.to_string()));
        let issuer = Process::start(&serve, &scratch.file("issuer.log"));
        let url = format!("https://{address}");
        let configuration = json!({
            "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration",
            "jwt": [{
                "issuer": {"url": url, "certificateAuthority": pki.certificate(), "audiences": ["wheelhouse"]},
                "claimMappings": {
                    "username": {"claim": "sub", "prefix": "oidc:"},
                    "groups": {"expression": "dyn(claims.groups).map(group, 'oidc:' + group)"},
                },
            }],
        });
        let file = scratch.write("authentication.yaml", configuration.to_string());
        let arguments = vec![format!("--authentication-config={}", file.display())];
        let options = Options {
            without_controllers: true,
            ..Options::default()
        };
        let settings = Settings {
            arguments: arguments.clone(),
            ..Settings::default()
        };
        let (hub, mut peer) = tokio::join!(
            Hub::start_with(settings),
            Spoke::start_with("peer", options)
        );
        peer.restart_with(&arguments).await;
        Self {
            issuer,
            program,
            url,
            authority,
            hub,
            peer,
            scratch,
        }
    }

    /// The two servers: the hub first.
    fn servers(&self) -> [Server; 2] {
        let text = std::fs::read_to_string(self.hub.kubeconfig()).expect("the hub wrote it");
        let config: Value = serde_saphyr::from_str(&text).expect("it is YAML");
        let encoded = &config["clusters"][0]["cluster"]["certificate-authority-data"];
        let authority = decoded(encoded.as_str().expect("the hub's authority is in it"));
        [
            Server {
                name: "the hub",
                url: self.hub.server(),
                authority,
            },
            Server {
                name: "a kube-apiserver",
                url: self.peer.server().to_owned(),
                authority: self.peer.certificate(),
            },
        ]
    }

    /// What the plug-in is called with.
    fn login(&self, password: &str) -> Vec<String> {
        let authority = self.authority.display().to_string();
        let words = ["login", &self.url, &authority, USER, password];
        words.map(str::to_owned).to_vec()
    }

    /// Signs in, and returns the token.
    async fn token(&self) -> String {
        let credential = eventually("the issuer signs in", || async {
            let mut plug_in = tokio::process::Command::new(&self.program);
            let ran = plug_in.args(self.login(PASSWORD)).output().await;
            Ran::from(ran.expect("the plug-in can be started")).ok()
        });
        let credential: Value = serde_json::from_str(&credential.await).expect("it is JSON");
        let token = credential["status"]["token"].as_str();
        token.expect("the credential has a token").to_owned()
    }

    /// kubectl of somebody who signs in by the plug-in.
    fn person(&self, server: &Server, password: &str) -> Kubectl {
        let text = token_kubeconfig("person", &server.url, &server.authority, "");
        let mut config: Value = serde_json::from_str(&text).expect("it is JSON");
        config["users"][0]["user"] = json!({"exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": self.program,
            "args": self.login(password), "interactiveMode": "Never",
        }});
        let name = format!("{}.{}.kubeconfig", server.name, password.len());
        Kubectl::new(&self.scratch.write(&name, config.to_string()))
    }

    /// kubectl with a token.
    fn bearer(&self, server: &Server, token: &str) -> Kubectl {
        let text = token_kubeconfig("bearer", &server.url, &server.authority, token);
        let name = format!("{}.bearer.kubeconfig", server.name);
        Kubectl::new(&self.scratch.write(&name, text))
    }

    /// Every server says who the bearer of a token is.
    async fn is_known(&self, what: &str, token: &str) {
        for server in self.servers() {
            let who = self.bearer(&server, token).run(&WHO).await;
            let who = who.succeeded(&format!("{what}, at {}", server.name));
            assert!(who.contains(USER), "{what}, at {}: {who}", server.name);
        }
    }
}

const WHO: [&str; 4] = ["auth", "whoami", "-o", "json"];

fn decoded(text: &str) -> String {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let bytes = STANDARD.decode(text).expect("it is base64");
    String::from_utf8(bytes).expect("PEM is text")
}

#[tokio::test(flavor = "multi_thread")]
async fn people_of_a_certified_issuer_sign_in_and_its_keys_are_replaced() {
    let Some(program) = assets::client("issuer") else {
        return;
    };
    let stage = Stage::set(program).await;
    let first = stage.token().await;
    stage.is_known("a token", &first).await;
    signs_in(&stage).await;
    reads(&stage).await;

    say("a new key signs; the old one is still published");
    stage.issuer.signal("HUP");
    for round in 1..=5 {
        let token = stage.token().await;
        stage.is_known(&format!("new token {round}"), &token).await;
        stage.is_known("the old token", &first).await;
    }
    let token = stage.token().await;
    assert_ne!(key(&token), key(&first), "the key was replaced");

    say("the old key is withdrawn");
    stage.issuer.signal("USR1");
    let [hub, _] = stage.servers();
    within(PROMISED, "the old token is refused", || async {
        let who = stage.bearer(&hub, &first).run(&WHO).await;
        let is_refused = who.code != 0 && who.stderr.contains("Unauthorized");
        is_refused.then_some(()).ok_or(who.stdout)
    })
    .await;
    stage.is_known("the new token", &token).await;
    signs_in(&stage).await;
}

/// The plug-in signs in at the issuer, both servers say the same of whom it brings, and nobody comes in with a wrong password.
async fn signs_in(stage: &Stage) {
    let mut found = Vec::new();
    for server in stage.servers() {
        let who = stage.person(&server, PASSWORD).json(&WHO[..2]).await;
        let who = who.expect(server.name);
        found.push(who["status"]["userInfo"].clone());
        let wrong = stage.person(&server, "a wrong one").run(&WHO).await;
        assert_ne!(wrong.code, 0, "{wrong:?}");
        assert!(wrong.stderr.contains("is not signed in"), "{wrong:?}");
    }
    let want = json!({"username": "oidc:platform-anna", "groups": ["oidc:platform", "system:authenticated"]});
    assert_eq!(found, [want.clone(), want], "the hub and kube-apiserver");
}

/// A group of the issuer's gets rights in root, and in a cluster.
async fn reads(stage: &Stage) {
    let [hub, _] = stage.servers();
    let person = stage.person(&hub, PASSWORD);
    let get = ["get", "spokes"];
    let refused = person.run(&get).await;
    assert!(refused.stderr.contains("Forbidden"), "{refused:?}");
    stage.hub.root().apply(INNER).await;
    let account = ["get", "serviceaccount", "default", "-n", "default"];
    until(&stage.hub.at("inner"), &account, "inner is served", |_| {
        true
    })
    .await;
    let inner = person.clone().server(format!("{}/clusters/inner", hub.url));
    let get = ["get", "configmaps", "-n", "default"];
    let refused = inner.run(&get).await;
    assert!(refused.stderr.contains("Forbidden"), "{refused:?}");
    stage
        .hub
        .root()
        .apply(&RIGHTS.replace("ROLE", "enters"))
        .await;
    let refused = inner.run(&get).await;
    assert!(refused.stderr.contains("Forbidden"), "{refused:?}");
    stage
        .hub
        .at("inner")
        .apply(&RIGHTS.replace("ROLE", "view"))
        .await;
    eventually("the group may read", || async {
        inner.run(&get).await.ok()
    })
    .await;
    let secrets = inner.run(&["get", "secrets", "-n", "default"]).await;
    assert!(secrets.stderr.contains("Forbidden"), "{secrets:?}");
}

/// The name of the key that signed a token.
fn key(token: &str) -> String {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    let head = token.split('.').next().unwrap_or_default();
    let head = URL_SAFE_NO_PAD.decode(head).expect("it is base64");
    let head: Value = serde_json::from_slice(&head).expect("it is JSON");
    head["kid"].as_str().unwrap_or_default().to_owned()
}
