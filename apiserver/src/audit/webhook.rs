//! The audit webhook: events in batches, as an `EventList`, to a server that the operator names.
//!
//! # Invariants
//! - No request waits for it.
//! - What waits to be sent is bounded by count and by bytes; above it events are lost, and counted.
//! - One batch is sent at a time, with a deadline and a number of attempts.
//!
//! Source: `plugin/pkg/audit/{webhook,buffered}`.

use std::{collections::VecDeque, path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use client::{CredentialSources, Identity};
use http::{Method, Request, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::counts::{Counts, add};

/// Bytes of events that wait to be sent. Full: further ones are lost, and counted.
const QUEUE_BYTES_MAX: usize = 64 << 20;
/// Bytes of one batch, unless one event is larger. Source: `--audit-webhook-truncate-max-batch-size`.
const BATCH_BYTES_MAX: usize = 10 << 20;
/// How long one attempt may take. Source: `defaultRequestTimeout`.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a batch is sent. Source: `DefaultRetryBackoffWithInitialDelay`.
const ATTEMPTS_MAX: u32 = 5;
/// How much longer each pause is than the one before.
const BACKOFF_FACTOR: f64 = 1.5;
/// How long the last batches may take when the hub ends.
const LAST_TIMEOUT: Duration = Duration::from_secs(3);
/// How much of an answer is read.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// How events are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batching {
    /// Events that wait.
    pub queue_count_max: usize,
    /// Events of a batch.
    pub batch_count_max: usize,
    /// How long an event waits for others.
    pub wait_max: Duration,
    /// The pause after the first failure; later ones are longer.
    pub backoff: Duration,
}

/// Why a webhook cannot be called.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// Its kubeconfig cannot be read.
    #[error("{} (--audit-webhook-config-file) cannot be read as a kubeconfig", path.display())]
    Kubeconfig {
        /// Which one.
        path: std::path::PathBuf,
        /// Why not.
        #[source]
        source: Box<kube::config::KubeconfigError>,
    },
    /// Its server cannot be called.
    #[error("the audit webhook of {} cannot be called", path.display())]
    Client {
        /// Which kubeconfig.
        path: std::path::PathBuf,
        /// Why not.
        #[source]
        source: Box<client::Error>,
    },
}

/// Takes events for a webhook.
#[derive(Debug)]
pub(super) struct Queue {
    // Guards what waits; innermost lock.
    waiting: Mutex<Waiting>,
    arrived: Notify,
    batching: Batching,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Waiting {
    events: VecDeque<Bytes>,
    bytes: usize,
}

/// Sends what a [`Queue`] has.
pub(super) struct Sender {
    queue: Arc<Queue>,
    connection: client::Connection,
    path: Uri,
}

// === impl Queue ===

impl Queue {
    pub(super) fn new(batching: Batching, counts: Arc<Counts>) -> Self {
        Self {
            waiting: Mutex::default(),
            arrived: Notify::new(),
            batching,
            counts,
        }
    }

    /// Takes an event, or loses it.
    pub(super) fn push(&self, event: Bytes) {
        let mut waiting = self.waiting.lock();
        let is_full = waiting.events.len() >= self.batching.queue_count_max
            || waiting.bytes + event.len() > QUEUE_BYTES_MAX;
        if is_full {
            drop(waiting);
            add(&self.counts.lost_by_queue, 1);
            return;
        }
        waiting.bytes += event.len();
        waiting.events.push_back(event);
        let is_worth_waking =
            waiting.events.len() == 1 || waiting.events.len() >= self.batching.batch_count_max;
        drop(waiting);
        if is_worth_waking {
            self.arrived.notify_one();
        }
    }

    fn count(&self) -> usize {
        self.waiting.lock().events.len()
    }

    fn take(&self) -> Vec<Bytes> {
        let mut waiting = self.waiting.lock();
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < self.batching.batch_count_max {
            let Some(next) = waiting.events.front() else {
                break;
            };
            if !batch.is_empty() && bytes + next.len() > BATCH_BYTES_MAX {
                break;
            }
            bytes += next.len();
            waiting.bytes -= next.len();
            batch.extend(waiting.events.pop_front());
        }
        batch
    }

    /// Waits until a batch is full, or its first event has waited long enough.
    async fn ready(&self) {
        while self.count() == 0 {
            self.arrived.notified().await;
        }
        let until = Instant::now() + self.batching.wait_max;
        while self.count() < self.batching.batch_count_max {
            if timeout_at(until, self.arrived.notified()).await.is_err() {
                return;
            }
        }
    }
}

// === impl Sender ===

impl Sender {
    /// Reads where to send. Nothing is dialled yet.
    ///
    /// # Errors
    /// [`WebhookError`].
    pub(super) async fn open(path: &Path, queue: Arc<Queue>) -> Result<Self, WebhookError> {
        let unread = |source| WebhookError::Kubeconfig {
            path: path.to_owned(),
            source: Box::new(source),
        };
        let kubeconfig = kube::config::Kubeconfig::read_from(path).map_err(unread)?;
        let selection = kube::config::KubeConfigOptions::default();
        let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &selection)
            .await
            .map_err(unread)?;
        // The path is all of the request's: what is put below a server gets a slash between.
        let (server, below) = split(&config.cluster_url);
        config.cluster_url = server;
        let options = client::Options {
            sources: CredentialSources::Anywhere,
            ..client::Options::default()
        };
        let connection = client::Connection::from_config(config, &options);
        let connection = connection.map_err(|source| WebhookError::Client {
            path: path.to_owned(),
            source: Box::new(source),
        })?;
        Ok(Self {
            queue,
            connection,
            path: below,
        })
    }

    /// Sends batches until the hub ends, and then what is left, once.
    pub(super) async fn run(self, shutdown: CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                () = self.queue.ready() => {}
            }
            let batch = self.queue.take();
            let sent = tokio::select! {
                biased;
                () = shutdown.cancelled() => timeout(LAST_TIMEOUT, self.post(&batch)).await.ok(),
                sent = self.send(&batch) => Some(sent),
            };
            self.told(
                &batch,
                sent.unwrap_or_else(|| Err("the hub ends".to_owned())),
            );
        }
        let last = Instant::now() + LAST_TIMEOUT;
        loop {
            let batch = self.queue.take();
            if batch.is_empty() {
                return;
            }
            let sent = timeout_at(last, self.post(&batch)).await;
            self.told(
                &batch,
                sent.unwrap_or_else(|_elapsed| Err("the hub ends".to_owned())),
            );
        }
    }

    fn told(&self, batch: &[Bytes], sent: Result<(), String>) {
        if let Err(error) = sent {
            add(&self.queue.counts.lost_by_webhook, batch.len() as u64);
            tracing::error!(
                error,
                events = batch.len(),
                "the audit webhook has not taken a batch of events, which are lost to it"
            );
        }
    }

    /// Sends a batch, again where that fails.
    async fn send(&self, batch: &[Bytes]) -> Result<(), String> {
        let mut pause = self.queue.batching.backoff;
        let mut attempt = 1;
        loop {
            let sent = timeout(ATTEMPT_TIMEOUT, self.post(batch)).await;
            let error = match sent {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) => error,
                Err(_elapsed) => format!("no answer within {ATTEMPT_TIMEOUT:?}"),
            };
            if attempt == ATTEMPTS_MAX {
                return Err(error);
            }
            tracing::warn!(error, attempt, "the audit webhook is called again");
            let jitter: f64 = rand::random_range(1.0..1.2);
            sleep(pause.mul_f64(jitter)).await;
            pause = pause.mul_f64(BACKOFF_FACTOR);
            attempt += 1;
        }
    }

    async fn post(&self, batch: &[Bytes]) -> Result<(), String> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(self.path.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, */*")
            .body(Full::new(list_of(batch)))
            .map_err(|error| error.to_string())?;
        let sent = self.connection.send(request, Identity::Kubeconfig).await;
        let response = sent.map_err(|error| dialect::error_chain(&error))?;
        let code = response.status();
        // Read to its end, so that the connection can be used again.
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX);
        drop(body.collect().await);
        if code.is_success() {
            Ok(())
        } else {
            Err(format!("it answered {code}"))
        }
    }
}

/// A server without its path, and the path.
fn split(url: &Uri) -> (Uri, Uri) {
    let below = url.path_and_query().cloned();
    let mut parts = url.clone().into_parts();
    parts.path_and_query = Some(http::uri::PathAndQuery::from_static("/"));
    let server = Uri::from_parts(parts).unwrap_or_else(|_| url.clone());
    (server, below.map_or_else(Uri::default, Uri::from))
}

/// Events as one list.
fn list_of(batch: &[Bytes]) -> Bytes {
    const HEAD: &str =
        r#"{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":["#;
    let length = batch.iter().map(|event| event.len() + 1).sum::<usize>();
    let mut list = Vec::with_capacity(HEAD.len() + length + 2);
    list.extend_from_slice(HEAD.as_bytes());
    for (index, event) in batch.iter().enumerate() {
        if index > 0 {
            list.push(b',');
        }
        list.extend_from_slice(event);
    }
    list.extend_from_slice(b"]}\n");
    list.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BATCHING: Batching = Batching {
        queue_count_max: 3,
        batch_count_max: 2,
        wait_max: Duration::from_secs(2),
        backoff: Duration::from_secs(10),
    };

    #[tokio::test]
    async fn a_batch_goes_when_it_is_full_or_has_waited() {
        let counts = Arc::new(Counts::default());
        let queue = Queue::new(BATCHING, Arc::clone(&counts));
        let began = Instant::now();
        queue.push(Bytes::from_static(b"{}"));
        queue.ready().await;
        assert!(began.elapsed() >= BATCHING.wait_max, "one waits");
        let began = Instant::now();
        for _ in 0..4 {
            queue.push(Bytes::from_static(b"{\"a\":1}"));
        }
        queue.ready().await;
        assert!(began.elapsed() < BATCHING.wait_max, "two do not");
        assert_eq!(
            counts
                .lost_by_queue
                .load(std::sync::atomic::Ordering::Relaxed),
            2
        );
        let list: serde_json::Value =
            serde_json::from_slice(&list_of(&queue.take())).expect("a list is JSON");
        assert_eq!(list["items"], serde_json::json!([{}, {"a": 1}]));
        assert_eq!((queue.take().len(), queue.take().len()), (1, 0));
        assert_eq!(queue.waiting.lock().bytes, 0);
    }

    #[test]
    fn a_webhook_is_called_at_the_path_of_its_server() {
        for (url, server, path) in [
            ("https://a.example:8443", "https://a.example:8443/", "/"),
            ("http://a/audit", "http://a/", "/audit"),
            ("http://a/audit/?k=v", "http://a/", "/audit/?k=v"),
        ] {
            let url: Uri = url.parse().expect("a URL");
            let found = split(&url);
            assert_eq!(
                (found.0.to_string(), found.1.to_string()),
                (server.to_owned(), path.to_owned())
            );
        }
    }
}
