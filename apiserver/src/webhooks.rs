//! Calls of webhooks: JSON by POST over HTTPS, bounded in time and size.
//! Issuers of tokens and authentication webhooks of the operator are reached in the same way ([`Peer`]).
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
mod peer;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use api::LogicalCluster;
use api::admission::WebhookClientConfig;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use parking_lot::Mutex;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, timeout_at};

use address::Address;
pub use address::AllowedHosts;
pub(crate) use peer::{ExchangeError, Peer};

/// Webhooks whose connections are kept. Beyond, those that are not called now are forgotten.
const PEERS_MAX: usize = 256;
/// Webhooks of one logical cluster below root whose connections are kept.
const PEERS_OF_CLUSTER_MAX: usize = 16;

/// Calls webhooks.
#[derive(Debug)]
pub(crate) struct Webhooks {
    allowed: AllowedHosts,
    /// Leaf lock.
    peers: Mutex<HashMap<PeerKey, Arc<Peer>>>,
}

/// Who configured a webhook, and the SHA-256 of how it is reached: a bundle may be long.
type PeerKey = (LogicalCluster, [u8; 32]);

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
        let url = dialect::quote(peer.url());
        let body = Bytes::from(review.to_string());
        let called = timeout_at(deadline, call(&peer, body, deadline)).await;
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
        let peer = Arc::new(Peer::new(address));
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

/// Calls a webhook.
async fn call(peer: &Peer, body: Bytes, deadline: Instant) -> Result<Value, CallError> {
    let left = deadline.saturating_duration_since(Instant::now());
    let seconds = left.saturating_add(Duration::from_millis(999)).as_secs();
    let query = format!("timeout={seconds}s");
    let agent = HeaderValue::from_static("wheelhouse-admission");
    let headers = [(header::USER_AGENT, agent)];
    let asked = peer.post(&query, body, headers.into_iter().collect());
    let (code, bytes) = asked.await.map_err(|error| match error {
        ExchangeError::Unreached(reason) => CallError::Unreached {
            url: dialect::quote(peer.url()),
            reason,
        },
        ExchangeError::Answer(reason) => CallError::Answer(reason),
    })?;
    if code != StatusCode::OK {
        return Err(CallError::Code {
            code: code.as_u16(),
        });
    }
    api::json::parse(&bytes)
        .map_err(|error| CallError::Answer(format!("the answer is no JSON: {error}")))
}

#[cfg(test)]
mod tests;
