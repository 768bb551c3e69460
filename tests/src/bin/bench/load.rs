//! The load generator: plain requests over HTTP/2 and TLS, the same against every server.

use std::{collections::HashMap, path::Path, time::Duration};

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
            client: connection.kube(),
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
        let request = http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.prefix))
            .header("content-type", "application/json")
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

    /// Starts a watch over everything at a path, what is there included.
    pub(crate) async fn watch(&self, path: &str) -> CountingWatch {
        let request = http::Request::get(format!("{}{path}?watch=true", self.prefix))
            .header("accept", "application/json")
            .body(Body::empty())
            .expect("a request");
        let response = self.client.send(request).await.expect("an answer");
        assert_eq!(response.status().as_u16(), 200, "the watch is accepted");
        let (sender, seen) = watch::channel(Counted::default());
        let mut body = response.into_body();
        #[expect(
            clippy::disallowed_methods,
            reason = "the watch is aborted when it is dropped"
        )]
        let task = tokio::spawn(async move {
            let mut rest = Vec::new();
            let mut states: HashMap<String, bool> = HashMap::new();
            while let Some(Ok(frame)) = body.frame().await {
                let Ok(data) = frame.into_data() else {
                    continue;
                };
                rest.extend_from_slice(&data);
                let Some(end) = rest.iter().rposition(|byte| *byte == b'\n') else {
                    continue;
                };
                for line in rest
                    .drain(..=end)
                    .collect::<Vec<u8>>()
                    .split(|byte| *byte == b'\n')
                {
                    if !line.is_empty() {
                        count(&mut states, line);
                    }
                }
                let active = states.values().filter(|active| **active).count();
                let counted = Counted {
                    total: states.len(),
                    active,
                };
                if sender.send(counted).is_err() {
                    return;
                }
            }
        });
        CountingWatch { seen, task }
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
