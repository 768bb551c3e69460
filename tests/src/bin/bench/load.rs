//! The load generator: plain requests over HTTP/2 and TLS, the same against every server.

use std::{
    collections::{HashMap, VecDeque},
    path::Path,
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt, stream};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::Value;
use tokio::sync::watch;

/// A server, or one logical cluster of one.
#[derive(Clone)]
pub(crate) struct Api {
    client: kube::Client,
    prefix: String,
}

/// What a watch has seen.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counted {
    /// Objects that are there.
    pub(crate) total: usize,
    /// Objects whose `status.state` is ACTIVE.
    pub(crate) active: usize,
}

/// A watch that is read by whoever waits for an event.
pub(crate) struct Events {
    body: Body,
    rest: Vec<u8>,
    lines: VecDeque<Vec<u8>>,
}

/// A running watch that counts.
pub(crate) struct CountingWatch {
    seen: watch::Receiver<Counted>,
    task: tokio::task::JoinHandle<()>,
}

// === impl Api ===

impl Api {
    /// Connects with a kubeconfig; `prefix` stands before `/api` and `/apis`.
    pub(crate) async fn connect(kubeconfig: &Path, prefix: &str) -> Self {
        let text = std::fs::read_to_string(kubeconfig).expect("the kubeconfig can be read");
        let connection = client::connect(&text, None, &client::Options::default())
            .await
            .expect("the kubeconfig is sound");
        Self {
            client: connection.client().kube().clone(),
            prefix: prefix.to_owned(),
        }
    }

    /// Sends a request and reads the whole answer.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> (u16, Bytes) {
        let content_type = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.prefix))
            .header("content-type", content_type)
            .header("accept", "application/json");
        let bytes = body.map(|value| serde_json::to_vec(value).expect("JSON"));
        let request = request
            .body(Body::from(bytes.unwrap_or_default()))
            .expect("a request");
        let response = self.client.send(request).await.expect("an answer");
        let code = response.status().as_u16();
        let body = response
            .into_body()
            .collect()
            .await
            .expect("the whole answer")
            .to_bytes();
        (code, body)
    }

    /// Creates objects, `width` at a time; each must be accepted.
    pub(crate) async fn create_all(&self, path: &str, objects: &[Value], width: usize) {
        stream::iter(objects)
            .for_each_concurrent(width, |object| async move {
                let (code, body) = self.send("POST", path, Some(object)).await;
                assert_eq!(code, 201, "{}", String::from_utf8_lossy(&body));
            })
            .await;
    }

    /// Deletes objects, `width` at a time; each must be there.
    pub(crate) async fn delete_all(&self, path: &str, names: &[String], width: usize) {
        stream::iter(names)
            .for_each_concurrent(width, |name| async move {
                let (code, body) = self.send("DELETE", &format!("{path}/{name}"), None).await;
                assert_eq!(code, 200, "{}", String::from_utf8_lossy(&body));
            })
            .await;
    }

    /// Starts to count everything at a path, and goes on counting when the server ends the watch.
    pub(crate) async fn watch(&self, path: &str) -> CountingWatch {
        let mut states = HashMap::new();
        let version = self.list(path, &mut states).await;
        let mut body = self.stream(path, &version).await;
        let (sender, seen) = watch::channel(counted(&states));
        let (api, path) = (self.clone(), path.to_owned());
        #[expect(
            clippy::disallowed_methods,
            reason = "the watch is aborted when it is dropped"
        )]
        let task = tokio::spawn(async move {
            let mut rest = Vec::new();
            loop {
                let Some(Ok(frame)) = body.frame().await else {
                    // A kube-apiserver ends watches when a definition changes.
                    rest.clear();
                    let version = api.list(&path, &mut states).await;
                    if sender.send(counted(&states)).is_err() {
                        return;
                    }
                    body = api.stream(&path, &version).await;
                    continue;
                };
                let Ok(data) = frame.into_data() else {
                    continue;
                };
                rest.extend_from_slice(&data);
                let Some(end) = rest.iter().rposition(|byte| *byte == b'\n') else {
                    continue;
                };
                let whole: Vec<u8> = rest.drain(..=end).collect();
                for line in whole
                    .split(|byte| *byte == b'\n')
                    .filter(|line| !line.is_empty())
                {
                    count(&mut states, line);
                }
                if sender.send(counted(&states)).is_err() {
                    return;
                }
            }
        });
        CountingWatch { seen, task }
    }

    /// Watches a path from now on. The watch ends with what it returns, or when the server ends it.
    pub(crate) async fn events(&self, path: &str) -> Events {
        let version = self.list(path, &mut HashMap::new()).await;
        Events {
            body: self.stream(path, &version).await,
            rest: Vec::new(),
            lines: VecDeque::new(),
        }
    }

    /// Reads what is there now; tells the version of the list.
    async fn list(&self, path: &str, states: &mut HashMap<String, bool>) -> String {
        let (code, body) = self.send("GET", path, None).await;
        assert_eq!(code, 200, "the list is answered");
        let list: Value = serde_json::from_slice(&body).expect("a list is JSON");
        states.clear();
        for object in list["items"].as_array().into_iter().flatten() {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            states.insert(name.to_owned(), object["status"]["state"] == "ACTIVE");
        }
        list["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    async fn stream(&self, path: &str, version: &str) -> Body {
        let uri = format!("{}{path}?watch=true&resourceVersion={version}", self.prefix);
        let request = http::Request::get(uri)
            .header("accept", "application/json")
            .body(Body::empty())
            .expect("a request");
        let response = self.client.send(request).await.expect("an answer");
        assert_eq!(response.status().as_u16(), 200, "the watch is accepted");
        response.into_body()
    }
}

fn counted(states: &HashMap<String, bool>) -> Counted {
    let active = states.values().filter(|active| **active).count();
    Counted {
        total: states.len(),
        active,
    }
}

fn count(states: &mut HashMap<String, bool>, line: &[u8]) {
    let event: Value = serde_json::from_slice(line).expect("an event is JSON");
    let object = &event["object"];
    let name = object["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    match event["type"].as_str() {
        Some("ADDED" | "MODIFIED") => {
            states.insert(name, object["status"]["state"] == "ACTIVE");
        }
        Some("DELETED") => {
            states.remove(&name);
        }
        kind => assert_eq!(kind, Some("BOOKMARK"), "{event}"),
    }
}

// === impl Events ===

impl Events {
    /// Reads up to the first event that `wanted` is true of.
    pub(crate) async fn until(
        &mut self,
        patience: Duration,
        mut wanted: impl FnMut(&Value) -> bool,
    ) {
        let found = async {
            loop {
                while let Some(line) = self.lines.pop_front() {
                    let event: Value = serde_json::from_slice(&line).expect("an event is JSON");
                    if wanted(&event) {
                        return;
                    }
                }
                self.read().await;
            }
        };
        let found = tokio::time::timeout(patience, found).await;
        assert!(found.is_ok(), "the event came within {patience:?}");
    }

    async fn read(&mut self) {
        let frame = self.body.frame().await.expect("the watch goes on");
        let Ok(data) = frame.expect("the watch goes on").into_data() else {
            return;
        };
        self.rest.extend_from_slice(&data);
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            self.lines.push_back(self.rest.drain(..=end).collect());
        }
    }
}

// === impl CountingWatch ===

impl CountingWatch {
    /// Waits until what was seen is enough.
    pub(crate) async fn until(&mut self, patience: Duration, enough: impl Fn(&Counted) -> bool) {
        let waited = tokio::time::timeout(patience, self.seen.wait_for(|seen| enough(seen))).await;
        let ended = waited.map(|seen| seen.is_err());
        let seen = *self.seen.borrow();
        assert!(ended.is_ok(), "not within {patience:?}; seen: {seen:?}");
        assert_eq!(ended, Ok(false), "the watch ended; seen: {seen:?}");
    }
}

impl Drop for CountingWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}
