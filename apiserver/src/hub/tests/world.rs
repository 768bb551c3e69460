//! A hub with an embedded spoke `east`, a real one `west` that is not reached, and users who are known by tokens.

use std::sync::Arc;
use std::time::Duration;

use api::wheelhouse::keys::USER_SYNCER;
use http::{HeaderMap, Method, Request, header};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tasks::Tasks;
use tokio::time::Instant;

use crate::audit;
use crate::hub::Hub;
use crate::request::Peer;
use crate::respond::RequestBody;
use crate::{Config, Syncers};

pub(super) const ADMIN: &str = "admin";
/// Known, and allowed nothing but what everyone is.
pub(super) const NOBODY: &str = "nobody";
/// Known by a token under the name of the syncer, with all rights.
pub(super) const NAMESAKE: &str = "namesake";
/// No credential at all.
pub(super) const ANONYMOUS: &str = "";

/// How long a test waits for something that must come.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) struct World {
    pub(super) hub: Hub,
    _tasks: Tasks,
    _directory: tempfile::TempDir,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) headers: HeaderMap,
    pub(super) text: String,
}

/// A request: verb, path, headers, body.
pub(super) struct Sent<'a> {
    pub(super) token: &'a str,
    pub(super) method: Method,
    pub(super) path: &'a str,
    pub(super) headers: &'a [(&'a str, &'a str)],
    pub(super) body: Value,
}

// === impl World ===

impl World {
    pub(super) async fn new() -> Self {
        Self::with_audit(audit::Config::default()).await
    }

    /// A hub that syncers of other processes may come to.
    pub(super) async fn with_syncers() -> Self {
        Self::of(audit::Config::default(), Syncers::Welcome).await
    }

    pub(super) async fn with_audit(audit: audit::Config) -> Self {
        Self::of(audit, Syncers::Refused).await
    }

    async fn of(audit: audit::Config, syncers: Syncers) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let token_file = directory.path().join("tokens.csv");
        let names = ["alice", "bob", "carol", "dave", "eve", "frank", NOBODY];
        let admin = format!("{ADMIN},{ADMIN},1,\"system:masters\"\n");
        let others = names.map(|name| format!("{name},{name},{name}\n"));
        // Only its name is the syncer's.
        let namesake = format!("{NAMESAKE},{USER_SYNCER},2,\"system:masters\"\n");
        let tokens = admin + &namesake + &others.concat();
        std::fs::write(&token_file, tokens).unwrap();
        let tasks = Tasks::new();
        let config = Config {
            token_file: Some(token_file),
            audit,
            syncers,
            ..Config::new(directory.path())
        };
        let hub = Hub::open(config, &tasks).await.unwrap();
        let world = Self {
            hub,
            _tasks: tasks,
            _directory: directory,
        };
        for (name, provider) in [("east", "Embedded"), ("west", "Kubeconfig")] {
            let spoke = json!({
                "apiVersion": "wheelhouse.dev/v1alpha1", "kind": "Spoke", "metadata": {"name": name},
                "spec": {"provider": provider, "connection": {"secretRef": {"namespace": "default", "name": "none"}}},
            });
            world
                .made("/apis/wheelhouse.dev/v1alpha1/spokes", &spoke)
                .await;
        }
        for name in ["here", "there"] {
            let namespace = json!({"metadata": {"name": name}});
            world.made("/api/v1/namespaces", &namespace).await;
        }
        // The first objects of an embedded cluster come a moment after it.
        world
            .until(ADMIN, "/clusters/east/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/system:discovery", 200)
            .await;
        world
    }

    pub(super) async fn send(&self, sent: Sent<'_>) -> Answer {
        self.send_over(&Peer::Unknown, sent).await
    }

    /// Sends over a connection to a certain other end.
    pub(super) async fn send_over(&self, peer: &Peer, sent: Sent<'_>) -> Answer {
        let media = if sent.method == Method::PATCH {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let mut request = Request::builder().method(sent.method).uri(sent.path);
        if !sent.token.is_empty() {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", sent.token));
        }
        if !sent.headers.iter().any(|(name, _)| *name == "content-type") {
            request = request.header(header::CONTENT_TYPE, media);
        }
        for (name, value) in sent.headers {
            request = request.header(*name, *value);
        }
        let body = match &sent.body {
            Value::Null => RequestBody::empty(),
            Value::String(text) => RequestBody::full(text.clone()),
            body => RequestBody::full(body.to_string()),
        };
        let response = self
            .hub
            .answer(request.body(body).unwrap(), peer, None)
            .await;
        let code = response.status().as_u16();
        let headers = response.headers().clone();
        let mut text = Vec::new();
        let mut body = response.into_body();
        // A watch goes on; what is there has come when it pauses.
        while let Ok(Some(frame)) =
            tokio::time::timeout(Duration::from_millis(200), body.frame()).await
        {
            if let Ok(data) = frame.unwrap().into_data() {
                text.extend_from_slice(&data);
            }
        }
        let text = String::from_utf8_lossy(&text).into_owned();
        Answer {
            code,
            headers,
            text,
        }
    }

    pub(super) async fn ask(&self, token: &str, method: Method, path: &str, body: Value) -> Answer {
        self.send(Sent {
            token,
            method,
            path,
            headers: &[],
            body,
        })
        .await
    }

    pub(super) async fn get(&self, token: &str, path: &str) -> Answer {
        self.ask(token, Method::GET, path, Value::Null).await
    }

    /// Creates something as the administrator.
    #[track_caller]
    pub(super) fn made<'a>(
        &'a self,
        path: &'a str,
        object: &'a Value,
    ) -> impl Future<Output = Value> + 'a {
        let place = std::panic::Location::caller();
        async move {
            let answer = self.ask(ADMIN, Method::POST, path, object.clone()).await;
            assert_eq!(answer.code, 201, "{path} at {place}: {}", answer.text);
            answer.json()
        }
    }

    /// Waits until a GET has a code.
    pub(super) async fn until(&self, token: &str, path: &str, code: u16) {
        let begun = Instant::now();
        loop {
            let answer = self.get(token, path).await;
            if answer.code == code {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{path} stays {answer:?}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Gives a user rules in a cluster, for all namespaces or one.
    pub(super) async fn grant(&self, prefix: &str, namespace: &str, user: &str, rules: Value) {
        let name = format!("{user}-{}", rand::random::<u32>());
        let base = format!("{prefix}/apis/rbac.authorization.k8s.io/v1");
        let (roles, bindings, kind) = if namespace.is_empty() {
            (
                format!("{base}/clusterroles"),
                format!("{base}/clusterrolebindings"),
                "ClusterRole",
            )
        } else {
            let base = format!("{base}/namespaces/{namespace}");
            (
                format!("{base}/roles"),
                format!("{base}/rolebindings"),
                "Role",
            )
        };
        self.made(&roles, &json!({"metadata": {"name": name}, "rules": rules}))
            .await;
        self.bind(&bindings, user, kind, &name).await;
    }

    pub(super) async fn bind(&self, path: &str, user: &str, kind: &str, role: &str) {
        let binding = json!({
            "metadata": {"generateName": "b-"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        });
        self.made(path, &binding).await;
    }

    /// Waits until every grant so far counts: policies follow the store in its order, and this one is the last.
    pub(super) async fn settled(&self) {
        let path = format!("/canary-{}", rand::random::<u32>());
        let rules = json!([{"verbs": ["get"], "nonResourceURLs": [path]}]);
        self.grant("", "", "canary", rules).await;
        let user = Arc::new(crate::request::UserInfo::authenticated("canary", [""; 0]));
        let cluster = api::ClusterScope::One(api::LogicalCluster::root());
        let asked = crate::authorize::Attributes {
            user: &user,
            cluster: &cluster,
            verb: "get",
            group: "",
            version: "",
            resource: "",
            subresource: "",
            namespace: "",
            name: "",
            path: &path,
            is_resource: false,
        };
        let begun = Instant::now();
        while !self.hub.authorizer().authorize(&asked).await.is_allowed() {
            assert!(begun.elapsed() < PATIENCE, "grants never count");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

// === impl Answer ===

impl Answer {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }
}

/// A rule for resources.
pub(super) fn rule(verbs: &[&str], group: &str, resources: &[&str], names: &[&str]) -> Value {
    json!({"verbs": verbs, "apiGroups": [group], "resources": resources, "resourceNames": names})
}

/// What is not as it should be, told all at once.
#[derive(Debug, Default)]
pub(super) struct Findings(Vec<String>);

impl Findings {
    pub(super) fn expect(&mut self, holds: bool, finding: impl FnOnce() -> String) {
        if !holds {
            self.0.push(finding());
        }
    }
}

impl Drop for Findings {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(
                self.0.is_empty(),
                "{} findings:\n{}",
                self.0.len(),
                self.0.join("\n")
            );
        }
    }
}
