//! Calls of webhooks: JSON by POST over HTTPS, bounded in time and size.
//!
//! ```text
//!   Webhooks::call ──► peer of (cluster, address, caBundle) ──► seat ──► connection ──► POST ──► answer
//!                        │ address: may it be called at all?      │ idle one, or a new one to an address that may be reached
//! ```
//!
//! # Invariants
//! - A webhook of a logical cluster below root is called only at an address that the operator allows, and such a call never
//!   reaches this machine or its link by a name ([`address`]).
//! - A connection belongs to one peer: webhooks of two clusters share none, whatever their addresses are.
//! - Each peer has its own seats: one that hangs holds up nobody else, and none of its calls outlives its timeout.
//! - No redirect is followed, no proxy of the environment is used, and no credential is sent.
//!
//! Source: `apiserver/pkg/util/webhook/{client,webhook}.go`.

mod address;
mod connection;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use api::LogicalCluster;
use api::admission::WebhookClientConfig;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use parking_lot::Mutex;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use address::Address;
pub use address::AllowedHosts;
use connection::Connection;

/// Calls of one webhook at once; further ones wait within their timeouts.
const SEATS: usize = 64;
/// Connections of one webhook that are kept while nothing is called.
const IDLE_MAX: usize = 4;
/// Webhooks whose connections are kept. Beyond, those that are not called now are forgotten.
const PEERS_MAX: usize = 256;
/// Webhooks of one logical cluster below root whose connections are kept.
const PEERS_OF_CLUSTER_MAX: usize = 16;
/// The longest answer: that of the largest request.
const ANSWER_BYTES_MAX: usize = 3 * 1024 * 1024;

/// Calls webhooks.
#[derive(Debug)]
pub(crate) struct Webhooks {
    allowed: AllowedHosts,
    /// Leaf lock.
    peers: Mutex<HashMap<PeerKey, Arc<Peer>>>,
}

/// Who configured a webhook, and the SHA-256 of how it is reached: a bundle may be long.
type PeerKey = (LogicalCluster, [u8; 32]);

/// One webhook as it is reached.
#[derive(Debug)]
struct Peer {
    address: Address,
    seats: Semaphore,
    /// Connections that answered and are not in use. Leaf lock.
    idle: Mutex<Vec<Connection>>,
}

/// Why a call came to no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// It may not be called, or its address makes no sense.
    #[error("{0}")]
    Refused(String),
    /// It cannot be connected.
    #[error("Post {url}: {reason}")]
    Unreached {
        /// Its address, quoted.
        url: String,
        /// What went wrong.
        reason: String,
    },
    /// It did not answer in time.
    #[error("Post {url}: context deadline exceeded")]
    TimedOut {
        /// Its address, quoted.
        url: String,
    },
    /// Its answer is no success.
    #[error("an error on the server ({code}) has prevented the request from succeeding")]
    Code {
        /// The HTTP status.
        code: u16,
    },
    /// Its answer is no JSON, or too long.
    #[error("{0}")]
    Answer(String),
}

// === impl Webhooks ===

impl Webhooks {
    pub(crate) fn new(allowed: AllowedHosts) -> Self {
        Self {
            allowed,
            peers: Mutex::default(),
        }
    }

    /// Sends a review to a webhook that `cluster` has configured, and answers what it says.
    ///
    /// # Errors
    /// No answer, or none that is JSON.
    pub(crate) async fn call(
        &self,
        cluster: &LogicalCluster,
        config: &WebhookClientConfig,
        review: &Value,
        deadline: Instant,
    ) -> Result<Value, CallError> {
        let peer = self.peer(cluster, config)?;
        let url = dialect::quote(peer.address.url());
        let body = Bytes::from(review.to_string());
        let called = timeout_at(deadline, peer.call(body, deadline)).await;
        called.unwrap_or(Err(CallError::TimedOut { url }))
    }

    fn peer(
        &self,
        cluster: &LogicalCluster,
        config: &WebhookClientConfig,
    ) -> Result<Arc<Peer>, CallError> {
        let key = (cluster.clone(), digest(config));
        if let Some(peer) = self.peers.lock().get(&key) {
            return Ok(Arc::clone(peer));
        }
        let address = Address::of(cluster, config, &self.allowed).map_err(CallError::Refused)?;
        let peer = Arc::new(Peer {
            address,
            seats: Semaphore::new(SEATS),
            idle: Mutex::default(),
        });
        let mut peers = self.peers.lock();
        let is_busy = |peer: &Arc<Peer>| Arc::strong_count(peer) > 1;
        let own = peers.keys().filter(|(it, _)| it == cluster).count();
        let is_full = !cluster.is_root() && own >= PEERS_OF_CLUSTER_MAX;
        if is_full {
            peers.retain(|(it, _), peer| it != cluster || is_busy(peer));
        }
        if peers.len() >= PEERS_MAX {
            peers.retain(|_, peer| is_busy(peer));
        }
        // Where all of them are busy this one is not kept: its connection ends with the call.
        let own = peers.keys().filter(|(it, _)| it == cluster).count();
        let has_room = cluster.is_root() || own < PEERS_OF_CLUSTER_MAX;
        if has_room && peers.len() < PEERS_MAX {
            peers.insert(key, Arc::clone(&peer));
        }
        Ok(peer)
    }
}

fn digest(config: &WebhookClientConfig) -> [u8; 32] {
    let mut digest = Sha256::new();
    for part in [config.url.as_deref().unwrap_or_default(), &config.ca_bundle] {
        digest.update(part.len().to_le_bytes());
        digest.update(part);
    }
    digest.finalize().into()
}

// === impl Peer ===

impl Peer {
    async fn call(&self, body: Bytes, deadline: Instant) -> Result<Value, CallError> {
        let _seat = self.seats.acquire().await;
        let unreached = |reason: String| CallError::Unreached {
            url: dialect::quote(self.address.url()),
            reason,
        };
        // The server may have closed an idle connection meanwhile; what was not sent is sent again.
        let answer = loop {
            let idle = self.idle.lock().pop();
            let is_fresh = idle.is_none();
            let mut connection = match idle {
                Some(connection) => connection,
                None => Connection::open(&self.address).await.map_err(unreached)?,
            };
            if !is_fresh && !connection.is_open().await {
                continue;
            }
            match connection.send(self.request(body.clone(), deadline)).await {
                Ok(answer) => break (connection, answer),
                Err(error) if !is_fresh && error.is_canceled() => {}
                Err(error) => return Err(unreached(error.to_string())),
            }
        };
        let (connection, answer) = answer;
        let code = answer.status();
        let limited = Limited::new(answer.into_body(), ANSWER_BYTES_MAX);
        let bytes = limited
            .collect()
            .await
            .map_err(|error| CallError::Answer(format!("the answer cannot be read: {error}")))?;
        self.keep(connection);
        if code != StatusCode::OK {
            return Err(CallError::Code {
                code: code.as_u16(),
            });
        }
        api::json::parse(&bytes.to_bytes())
            .map_err(|error| CallError::Answer(format!("the answer is no JSON: {error}")))
    }

    fn request(&self, body: Bytes, deadline: Instant) -> Request<Full<Bytes>> {
        let left = deadline.saturating_duration_since(Instant::now());
        let seconds = left.saturating_add(Duration::from_millis(999)).as_secs();
        let uri = format!("{}?timeout={seconds}s", self.address.path());
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        if let Ok(uri) = uri.parse() {
            *request.uri_mut() = uri;
        }
        let json = HeaderValue::from_static("application/json");
        let headers = request.headers_mut();
        headers.insert(header::HOST, self.address.authority().clone());
        headers.insert(header::ACCEPT, json.clone());
        headers.insert(header::CONTENT_TYPE, json);
        let agent = HeaderValue::from_static("wheelhouse-admission");
        headers.insert(header::USER_AGENT, agent);
        request
    }

    fn keep(&self, connection: Connection) {
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_MAX {
            idle.push(connection);
        }
    }
}

#[cfg(test)]
mod tests;
