//! Continue tokens.
//!
//! A token names the revision of the first page and the last key that was handed out, relative to the range, as
//! Kubernetes' does: base64 (URL alphabet, no padding) of `{"v":"meta.k8s.io/v1","rv":N,"start":"..\u0000"}`.
//! `rv` -1 means "go on at the newest state", the token that comes with a 410 for an expired page.
//! Source: apiserver/pkg/storage/continue.go.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use dialect::base64::{self as dialect_base64, illegal_base64};
use serde::{Deserialize, Serialize};

/// Where the next page of a list begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContinueToken {
    /// The revision that the list is read at; `None` for the newest.
    pub revision: Option<u64>,
    /// The first key of the page, relative to the start of the range.
    pub start: String,
}

/// Why a continue token was refused.
#[derive(Debug, thiserror::Error)]
pub enum ContinueTokenError {
    /// It is not base64, or not the JSON that we made.
    #[error("continue key is not valid: {0}")]
    Malformed(String),
    /// Its version is unknown.
    #[error("continue key is not valid: unknown version")]
    Version,
    /// Its key would leave the range.
    #[error("continue key is not valid: key is out of range")]
    Range,
}

const VERSION: &str = "meta.k8s.io/v1";
const NO_REVISION: &str = "incorrect encoded start resourceVersion (version meta.k8s.io/v1)";

/// The token as it is in JSON.
#[derive(Serialize, Deserialize)]
struct Wire<'a> {
    v: &'a str,
    rv: i64,
    start: String,
}

// === impl ContinueToken ===

impl ContinueToken {
    /// Makes the token of the page after a key (relative to the range).
    pub fn after(revision: Option<u64>, last: &str) -> Self {
        Self {
            revision,
            start: format!("{last}\0"),
        }
    }

    /// Writes the token.
    pub fn encode(&self) -> String {
        let rv = self
            .revision
            .map_or(-1, |revision| i64::try_from(revision).unwrap_or(i64::MAX));
        let wire = Wire {
            v: VERSION,
            rv,
            start: self.start.clone(),
        };
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&wire).expect("a token is written to memory"))
    }

    /// Reads a token that a client sends back.
    pub fn decode(text: &str) -> Result<Self, ContinueTokenError> {
        let text = text.trim_end_matches('=');
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_cause| {
            ContinueTokenError::Malformed(illegal_base64(text, dialect_base64::URL))
        })?;
        let wire: Wire<'_> = serde_json::from_slice(&bytes)
            .map_err(|cause| ContinueTokenError::Malformed(cause.to_string()))?;
        if wire.v != VERSION {
            return Err(ContinueTokenError::Version);
        }
        if wire.start.is_empty() || wire.start.starts_with("..") || wire.start.contains("/../") {
            return Err(ContinueTokenError::Range);
        }
        let revision = match wire.rv {
            -1 => None,
            rv => match u64::try_from(rv) {
                Ok(revision) if revision > 0 => Some(revision),
                _ => return Err(ContinueTokenError::Malformed(NO_REVISION.to_owned())),
            },
        };
        Ok(Self {
            revision,
            start: wire.start,
        })
    }
}
