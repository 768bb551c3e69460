//! What the trials share: a hub with embedded clusters, users with tokens, and a raw client for each user that
//! returns the status and the body of every answer.
//!
//! A user named `alice` has the token `alice-token`. Rights are given by [`Fixture::grant`] and [`Fixture::allow_access`]; without
//! them a user has what every authenticated user has.

use std::time::Duration;

use crate::{Hub, Spoke, hub::Settings, process::Scratch, wait::within};
use bytes::Bytes;
use http::HeaderMap;
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};

/// The type of plain bodies.
pub const JSON: &str = "application/json";
/// The type of a merge patch.
pub const MERGE_PATCH: &str = "application/merge-patch+json";
/// The type of a JSON patch.
pub const JSON_PATCH: &str = "application/json-patch+json";
/// The type of a server-side apply.
pub const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// Spokes, in root.
pub const SPOKES: &str = "/apis/wheelhouse.dev/v1alpha1/spokes";
/// CustomResourceDefinitions, below [`base`].
pub const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// The group of roles and bindings, below [`base`].
pub const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
/// ResourceGraphDefinitions, below [`base`].
pub const RGDS: &str = "/apis/kro.run/v1alpha1/resourcegraphdefinitions";

/// How long a condition may take to hold on a busy machine.
pub const PATIENCE: Duration = Duration::from_mins(1);
/// Address space of the hub in these trials: no request, and no spoke, may make it need more.
pub const ADDRESS_LIMIT: u64 = 1 << 30;
/// How long one answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(90);

/// A hub and the users that its token file names.
pub struct Fixture {
    /// The hub.
    pub hub: Hub,
    _tokens: Scratch,
}

/// A user of the hub with a connection.
#[derive(Clone)]
pub struct User {
    /// The name of the user.
    pub name: String,
    client: kube::Client,
}

/// The answer to one request.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body as JSON; a string where it is something else.
    pub body: Value,
    request: String,
}

/// An open watch.
pub struct Watch {
    body: Body,
    rest: Vec<u8>,
}

// === impl Fixture ===

impl Fixture {
    /// Starts a hub that knows these users.
    pub async fn start(users: &[&str]) -> Self {
        Self::start_with(users, Settings::default()).await
    }

    /// [`Fixture::start`], with further settings. A user may carry groups: `alice@team-a,team-b`.
    pub async fn start_with(users: &[&str], mut settings: Settings) -> Self {
        let scratch = Scratch::new("tokens");
        let lines: Vec<String> = users
            .iter()
            .map(|user| {
                let (name, groups) = user.split_once('@').unwrap_or((user, ""));
                format!("{name}-token,{name},uid-of-{name},\"{groups}\"")
            })
            .collect();
        let file = scratch.write("tokens.csv", lines.join("\n"));
        settings
            .arguments
            .extend(["--token-auth-file".to_owned(), file.display().to_string()]);
        settings.address_limit.get_or_insert(ADDRESS_LIMIT);
        Self {
            hub: Hub::start_with(settings).await,
            _tokens: scratch,
        }
    }

    /// Connects as the administrator of the hub.
    pub async fn admin(&self) -> User {
        User::connect("admin", &self.kubeconfig(None)).await
    }

    /// Connects as a user of the token file.
    pub async fn user(&self, name: &str) -> User {
        self.bearer(name, &format!("{name}-token")).await
    }

    /// Connects with a bearer token.
    pub async fn bearer(&self, name: &str, token: &str) -> User {
        User::connect(name, &self.kubeconfig(Some(token))).await
    }

    /// Returns a kubeconfig of the hub with a token, or else with the administrator's certificate.
    pub fn kubeconfig(&self, token: Option<&str>) -> String {
        let text =
            std::fs::read_to_string(self.hub.kubeconfig()).expect("the hub wrote a kubeconfig");
        let mut config: Value = serde_saphyr::from_str(&text).expect("the kubeconfig is YAML");
        if let Some(token) = token {
            for user in config["users"].as_array_mut().into_iter().flatten() {
                user["user"] = json!({ "token": token });
            }
        }
        config.to_string()
    }

    /// Creates an embedded cluster and waits until it serves.
    pub async fn embed(&self, name: &str) {
        let admin = self.admin().await;
        let spoke = json!({
            "apiVersion": "wheelhouse.dev/v1alpha1", "kind": "Spoke",
            "metadata": {"name": name}, "spec": {"provider": "Embedded"},
        });
        admin.post(SPOKES, &spoke).await.must(201);
        let path = format!("/clusters/{name}/api/v1/namespaces/default/serviceaccounts/default");
        admin.until_status(&path, 200).await;
    }

    /// Joins a real spoke under its own name and waits until it is Ready.
    pub async fn join(&self, spoke: &Spoke) {
        self.hub.join(spoke).await;
    }

    /// Grants a user `access` to a cluster: the first gate.
    pub async fn allow_access(&self, user: &str, cluster: &str) {
        let rule = json!({
            "apiGroups": ["wheelhouse.dev"], "resources": ["spokes"], "resourceNames": [cluster],
            "verbs": ["access"],
        });
        let name = format!("access-{cluster}");
        self.grant("root", user, &name, &[rule]).await;
    }

    /// Grants a user rules in the whole of a cluster (`root` is one).
    pub async fn grant(&self, cluster: &str, user: &str, name: &str, rules: &[Value]) {
        let admin = self.admin().await;
        let base = base(cluster);
        let name = format!("{name}-{user}");
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": name}, "rules": rules,
        });
        admin
            .post(&format!("{base}{RBAC}/clusterroles"), &role)
            .await
            .must(201);
        self.bind(cluster, user, &name).await;
    }

    /// Binds a user to a ClusterRole in the whole of a cluster.
    pub async fn bind(&self, cluster: &str, user: &str, role: &str) {
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": format!("{role}-of-{user}")},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        });
        let admin = self.admin().await;
        let path = format!("{}{RBAC}/clusterrolebindings", base(cluster));
        admin.post(&path, &binding).await.must(201);
    }

    /// Makes a user the tenant of a cluster: `access` in root, `cluster-admin` inside, nothing else.
    pub async fn tenant(&self, user: &str, cluster: &str) -> User {
        self.allow_access(user, cluster).await;
        self.bind(cluster, user, "cluster-admin").await;
        let tenant = self.user(user).await;
        let path = format!("/clusters/{cluster}/api/v1/namespaces");
        tenant.until_status(&path, 200).await;
        tenant
    }
}

/// Returns what the paths of a cluster begin with.
pub fn base(cluster: &str) -> String {
    match cluster {
        "root" => String::new(),
        other => format!("/clusters/{other}"),
    }
}

// === impl User ===

impl User {
    /// Connects with a kubeconfig, of whatever cluster.
    pub async fn connect(name: &str, kubeconfig: &str) -> Self {
        let connection = client::connect(kubeconfig, None, &client::Options::default())
            .await
            .expect("the kubeconfig is sound");
        Self {
            name: name.to_owned(),
            client: connection.client().kube().clone(),
        }
    }

    /// Sends a request with headers and reads the whole answer.
    ///
    /// # Errors
    /// What happened to the connection.
    pub async fn try_send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<Answer, String> {
        let said = format!("{method} {path} as {}", self.name);
        let (parts, body) = self.exchange((method, path), headers, body, &said).await?;
        Ok(Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: serde_json::from_slice(&body)
                .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&body).into_owned())),
            request: said,
        })
    }

    /// Gets a path in a form that is no JSON: the status, the type of the body, and the body.
    pub async fn get_bytes(&self, path: &str, accept: &str) -> (u16, String, Bytes) {
        let headers = [("accept", accept)];
        let answer = self.exchange(("GET", path), &headers, "", path).await;
        let (parts, body) = answer.expect("the hub answers");
        let media = parts.headers.get("content-type");
        let media = media.and_then(|media| media.to_str().ok());
        (
            parts.status.as_u16(),
            media.unwrap_or_default().to_owned(),
            body,
        )
    }

    async fn exchange(
        &self,
        (method, path): (&str, &str),
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
        said: &str,
    ) -> Result<(http::response::Parts, Bytes), String> {
        let mut request = http::Request::builder().method(method).uri(path);
        if !headers
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case("accept"))
        {
            request = request.header("accept", JSON);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request
            .body(Body::from(body.into().to_vec()))
            .expect("the trial sends what HTTP can carry");
        let exchange = async {
            let response = self
                .client
                .send(request)
                .await
                .map_err(|error| format!("{error:?}"))?;
            let (parts, body) = response.into_parts();
            let body = body
                .collect()
                .await
                .map_err(|error| format!("{error:?}"))?
                .to_bytes();
            Ok::<_, String>((parts, body))
        };
        tokio::time::timeout(ANSWER_TIMEOUT, exchange)
            .await
            .map_err(|_elapsed| format!("{said}: no answer within {ANSWER_TIMEOUT:?}"))?
            .map_err(|error| format!("{said}: {error}"))
    }

    /// [`User::try_send`] to a hub that answers.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let answer = self.try_send(method, path, headers, body).await;
        answer.expect("the hub answers")
    }

    /// Gets a path.
    pub async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "").await
    }

    /// Creates an object.
    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, &[("content-type", JSON)], body.to_string())
            .await
    }

    /// Updates an object.
    pub async fn put(&self, path: &str, body: &Value) -> Answer {
        self.send("PUT", path, &[("content-type", JSON)], body.to_string())
            .await
    }

    /// Patches an object.
    pub async fn patch(&self, path: &str, content_type: &str, body: &Value) -> Answer {
        let headers = [("content-type", content_type)];
        self.send("PATCH", path, &headers, body.to_string()).await
    }

    /// Applies an object at its own path, with force.
    pub async fn apply(&self, path: &str, object: &Value) -> Answer {
        let path = format!("{path}?fieldManager=trial&force=true");
        self.patch(&path, APPLY_PATCH, object).await
    }

    /// Deletes an object.
    pub async fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, &[], "").await
    }

    /// Waits until a path answers with a status, and returns that answer.
    pub async fn until_status(&self, path: &str, status: u16) -> Answer {
        self.until(path, &format!("{path} answers {status}"), |answer| {
            answer.status == status
        })
        .await
    }

    /// Waits until an answer is as wanted, and returns it.
    pub async fn until(&self, path: &str, what: &str, holds: impl Fn(&Answer) -> bool) -> Answer {
        within(PATIENCE, what, || async {
            let answer = self.try_send("GET", path, &[], "").await?;
            if holds(&answer) {
                Ok(answer)
            } else {
                Err(format!("{} {}", answer.status, answer.body))
            }
        })
        .await
    }

    /// Begins a watch; the path has `watch=true`.
    ///
    /// # Errors
    /// The refusal.
    pub async fn watch(&self, path: &str) -> Result<Watch, Box<Answer>> {
        self.watch_as(path, JSON).await
    }

    /// Begins a watch whose events have objects of a type.
    ///
    /// # Errors
    /// The refusal.
    pub async fn watch_as(&self, path: &str, accept: &str) -> Result<Watch, Box<Answer>> {
        let request = http::Request::get(path)
            .header("accept", accept)
            .body(Body::empty())
            .expect("the trial sends what HTTP can carry");
        let response = self.client.send(request).await.expect("the hub answers");
        let (parts, body) = response.into_parts();
        if parts.status == 200 {
            return Ok(Watch {
                body,
                rest: Vec::new(),
            });
        }
        let body = body
            .collect()
            .await
            .expect("the refusal has an end")
            .to_bytes();
        Err(Box::new(Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: serde_json::from_slice(&body).unwrap_or_default(),
            request: format!("watch of {path} as {}", self.name),
        }))
    }
}

// === impl Answer ===

impl Answer {
    /// Passes the body on if the answer has this status.
    ///
    /// # Panics
    /// Where it has another one: the trial cannot go on.
    #[track_caller]
    pub fn must(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}: {}", self.request, self.body);
        self.body
    }

    /// Returns the `message` of a Status.
    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    /// Returns the `reason` of a Status.
    pub fn reason(&self) -> &str {
        self.body["reason"].as_str().unwrap_or_default()
    }

    /// Returns the objects of a list.
    pub fn items(&self) -> &[Value] {
        self.body["items"].as_array().map_or(&[], Vec::as_slice)
    }
}

// === impl Watch ===

impl Watch {
    /// Returns the next event; `None` where the stream has ended.
    ///
    /// # Errors
    /// Nothing came within `patience`.
    pub async fn next(&mut self, patience: Duration) -> Result<Option<Value>, String> {
        let next = async {
            loop {
                if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = self.rest.drain(..=end).collect();
                    return serde_json::from_slice(&line).ok();
                }
                let data = self.body.frame().await?.ok()?.into_data().ok()?;
                self.rest.extend_from_slice(&data);
            }
        };
        tokio::time::timeout(patience, next)
            .await
            .map_err(|_elapsed| format!("no event within {patience:?}"))
    }
}

impl std::fmt::Debug for Fixture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fixture")
            .field("hub", &self.hub)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("User")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}
