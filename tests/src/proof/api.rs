//! The ConfigMaps of one namespace as the checker's store: a key is a name, a value is `data.v`.
//!
//! # Invariants
//!
//! No request is sent twice. An answer that does not say what became of a write is recorded as none.

use std::{
    io::Write as _,
    path::Path,
    sync::{Arc, RwLock},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};
use storage::{EventKind, Expect, Revision};
use storage_conformance::histories::{
    Ending, Fault, News, Page, Pending, Span, Subject, Subscription, Tale, Verdict, Wish,
};
use tokio::time::timeout;

/// How long an answer may take, and a watch may be silent: the hub sends a bookmark every minute. A hub that is killed while a
/// connection to it is made has left the client waiting for ever.
const PATIENCE: Duration = Duration::from_mins(2);

/// Where the ConfigMaps of a test are.
pub const NAMESPACE: &str = "proof";

/// A hub's API, which a restart replaces.
pub struct Api {
    connection: RwLock<kube::Client>,
    path: String,
    padding: String,
}

/// A running watch.
struct ApiWatch {
    body: Body,
    rest: Vec<u8>,
}

// === impl Api ===

impl Api {
    /// Connects to the root logical cluster with a kubeconfig.
    pub async fn connect(kubeconfig: &Path) -> Arc<Self> {
        Self::with_padding(kubeconfig, 0).await
    }

    /// The same, with objects of at least so many bytes.
    pub async fn with_padding(kubeconfig: &Path, bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            connection: RwLock::new(connection(kubeconfig).await),
            path: format!("/api/v1/namespaces/{NAMESPACE}/configmaps"),
            padding: "x".repeat(bytes),
        })
    }

    /// Connects anew.
    pub async fn reconnect(&self, kubeconfig: &Path) {
        let fresh = connection(kubeconfig).await;
        *self.connection.write().expect("nobody panics with it") = fresh;
    }

    /// Makes the namespace.
    pub async fn prepare(&self) {
        let namespace = json!({"metadata": {"name": NAMESPACE}});
        let (code, body) = self
            .send("POST", "/api/v1/namespaces", JSON, &namespace.to_string())
            .await
            .expect("the hub answers");
        assert_eq!(code, 201, "{body}");
    }

    /// Sends a request, and reads the whole answer where there is one.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: &str,
    ) -> Option<(u16, Value)> {
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type)
            .header("accept", JSON)
            .body(Body::from(body.as_bytes().to_vec()))
            .expect("a request");
        let connection = self.connection();
        let answer = async {
            let response = connection.send(request).await.ok()?;
            let code = response.status().as_u16();
            let body = response.into_body().collect().await.ok()?.to_bytes();
            Some((code, body))
        };
        let (code, body) = timeout(PATIENCE, answer).await.ok()??;
        let value = serde_json::from_slice(&body)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&body).into_owned()));
        if !EXPECTED.contains(&code) {
            // The clients take it for silence; whoever reads of a failure wants to know.
            let line = format!("{method} {path} was answered with {code}: {value}");
            drop(writeln!(std::io::stderr(), "{line}"));
        }
        Some((code, value))
    }

    /// Gets a path.
    pub async fn get(&self, path: &str) -> Option<(u16, Value)> {
        self.send("GET", path, JSON, "").await
    }

    /// Returns the path of the collection.
    pub fn collection(&self) -> &str {
        &self.path
    }

    /// Begins a watch and hands its body out unread.
    pub async fn watch_body(&self, after: Revision) -> Option<(u16, Body)> {
        let uri = format!(
            "{}?watch=true&allowWatchBookmarks=true&resourceVersion={after}",
            self.path
        );
        let request = http::Request::get(uri)
            .header("accept", JSON)
            .body(Body::empty())
            .expect("a request");
        let connection = self.connection();
        let sent = timeout(PATIENCE, connection.send(request)).await;
        let response = sent.ok()?.ok()?;
        Some((response.status().as_u16(), response.into_body()))
    }

    fn connection(&self) -> kube::Client {
        self.connection
            .read()
            .expect("nobody panics with it")
            .clone()
    }

    fn object(&self, wish: &Wish) -> Value {
        let mut object = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": wish.key, "namespace": NAMESPACE},
            "data": {"v": wish.value},
        });
        if !self.padding.is_empty() {
            object["data"]["padding"] = json!(self.padding);
        }
        object
    }

    async fn put(&self, wish: &Wish) -> Option<(u16, Value)> {
        let mut object = self.object(wish);
        match wish.expect {
            Expect::Any => {
                let path = format!("{}/{}?fieldManager=proof&force=true", self.path, wish.key);
                self.send(
                    "PATCH",
                    &path,
                    "application/apply-patch+yaml",
                    &object.to_string(),
                )
                .await
            }
            Expect::Absent => {
                self.send("POST", &self.path, JSON, &object.to_string())
                    .await
            }
            Expect::Revision(revision) => {
                object["metadata"]["resourceVersion"] = json!(revision.to_string());
                let path = format!("{}/{}", self.path, wish.key);
                self.send("PUT", &path, JSON, &object.to_string()).await
            }
        }
    }

    async fn delete(&self, wish: &Wish) -> Option<(u16, Value)> {
        let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        if let Expect::Revision(revision) = wish.expect {
            options["preconditions"] = json!({"resourceVersion": revision.to_string()});
        }
        let path = format!("{}/{}", self.path, wish.key);
        self.send("DELETE", &path, JSON, &options.to_string()).await
    }
}

const JSON: &str = "application/json";
/// What clients of a sound hub may be told.
const EXPECTED: [u16; 7] = [200, 201, 404, 409, 410, 429, 507];

async fn connection(kubeconfig: &Path) -> kube::Client {
    let text = std::fs::read_to_string(kubeconfig).expect("the kubeconfig can be read");
    client::connect(&text, None, &client::Options::default())
        .await
        .expect("the kubeconfig is sound")
        .client()
        .kube()
        .clone()
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Subject for Api {
    fn batch_max(&self) -> usize {
        1
    }

    fn write<'a>(&'a self, wishes: &'a [Wish]) -> Pending<'a, Verdict> {
        Box::pin(async move {
            let [wish] = wishes else {
                return Verdict::Nothing; // the API has no batches
            };
            let answer = match wish.value {
                Some(_) => self.put(wish).await,
                None => self.delete(wish).await,
            };
            match answer {
                Some((200 | 201, object)) => match revision(&object) {
                    Some(revision) if wish.value.is_some() => Verdict::Written(revision),
                    _ => Verdict::Done,
                },
                Some((404 | 409, _)) => Verdict::Refused(wish.key.clone()),
                Some((429 | 507, _)) => Verdict::Nothing,
                _ => Verdict::Unknown,
            }
        })
    }

    fn read<'a>(&'a self, key: &'a str) -> Pending<'a, Result<Option<(String, Revision)>, Fault>> {
        Box::pin(async move {
            match self.get(&format!("{}/{key}", self.path)).await {
                Some((200, object)) => Ok(state(&object).map(|(_, value, at)| (value, at))),
                Some((404, _)) => Ok(None),
                _ => Err(Fault::Down),
            }
        })
    }

    fn list<'a>(
        &'a self,
        behind: Option<&'a Page>,
        limit: usize,
    ) -> Pending<'a, Result<Page, Fault>> {
        Box::pin(async move {
            let mut path = format!("{}?limit={}", self.path, limit.min(100_000));
            if let Some(token) = behind.and_then(|page| page.rest.as_deref()) {
                path.push_str("&continue=");
                path.push_str(token);
            }
            let list = match self.get(&path).await {
                Some((200, list)) => list,
                Some((410, _)) => return Err(Fault::Compacted(None)),
                _ => return Err(Fault::Down),
            };
            let items = list["items"].as_array().cloned().unwrap_or_default();
            let entries: Vec<_> = items.iter().filter_map(state).collect();
            let token = list["metadata"]["continue"].as_str().unwrap_or_default();
            let rest = Some(token.to_owned()).filter(|token| !token.is_empty());
            // A name ends before the lowest byte that may follow it.
            let last = items
                .last()
                .and_then(|item| item["metadata"]["name"].as_str());
            let end = rest.as_ref().and(last).map(|last| format!("{last}\0"));
            let start = behind
                .and_then(|page| page.span.end.clone())
                .unwrap_or_default();
            Ok(Page {
                revision: revision(&list).ok_or(Fault::Down)?,
                entries,
                span: Span { start, end },
                rest,
            })
        })
    }

    fn watch<'a>(
        &'a self,
        _span: &'a Span,
        after: Revision,
    ) -> Pending<'a, Result<Box<dyn Subscription>, Fault>> {
        Box::pin(async move {
            match self.watch_body(after).await {
                Some((200, body)) => Ok(Box::new(ApiWatch {
                    body,
                    rest: Vec::new(),
                }) as _),
                Some((410, _)) => Err(Fault::Compacted(None)),
                _ => Err(Fault::Down),
            }
        })
    }
}

/// The `resourceVersion` of an object or a list.
pub fn revision(object: &Value) -> Option<Revision> {
    object["metadata"]["resourceVersion"].as_str()?.parse().ok()
}

/// Name, value and revision; `None` for what is not of a test.
fn state(object: &Value) -> Option<(String, String, Revision)> {
    let name = object["metadata"]["name"].as_str()?;
    let value = object["data"]["v"].as_str()?;
    Some((name.to_owned(), value.to_owned(), revision(object)?))
}

// === impl ApiWatch ===

impl Subscription for ApiWatch {
    fn next(&mut self) -> Pending<'_, Result<News, Ending>> {
        Box::pin(async move {
            loop {
                if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = self.rest.drain(..=end).collect();
                    if let Some(news) = news(&line)? {
                        return Ok(news);
                    }
                    continue;
                }
                let frame = timeout(PATIENCE, self.body.frame()).await;
                let data = frame
                    .ok()
                    .flatten()
                    .and_then(Result::ok)
                    .ok_or(Ending::Resume)?;
                self.rest
                    .extend_from_slice(&data.into_data().unwrap_or_else(|_| Bytes::new()));
            }
        })
    }

    fn progress(&mut self) -> Option<Revision> {
        None // bookmarks come with the stream
    }
}

/// Reads one event of a watch.
fn news(line: &[u8]) -> Result<Option<News>, Ending> {
    let event: Value = serde_json::from_slice(line).map_err(|_cut| Ending::Resume)?;
    let object = &event["object"];
    let kind = match event["type"].as_str() {
        Some("ADDED") => EventKind::Created,
        Some("MODIFIED") => EventKind::Updated,
        Some("DELETED") => EventKind::Deleted,
        Some("BOOKMARK") => return Ok(revision(object).map(News::Bookmark)),
        _ if object["code"] == 410 => return Err(Ending::Compacted),
        _ => return Err(Ending::Resume),
    };
    let Some((key, value, revision)) = state(object) else {
        return Ok(None);
    };
    let deleted = kind == EventKind::Deleted;
    Ok(Some(News::Events(vec![Tale {
        revision,
        key,
        previous: deleted.then(|| value.clone()),
        value: (!deleted).then_some(value),
        kind: Some(kind),
    }])))
}
