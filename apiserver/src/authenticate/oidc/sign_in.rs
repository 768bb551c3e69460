//! How people sign in to the fleet view: at an issuer, in their browser, with an authorization code and PKCE.
//!
//! ```text
//!   browser ──► offer: where, as which client ──► the issuer asks who it is ──► back with a code
//!           ──► redeem: code and verifier ──► (hub) token endpoint ──► the id token, if the hub lets it count
//! ```
//!
//! The hub keeps nothing of it. It redeems the code because the issuer need not answer browsers of other origins, and because a client
//! may have a secret.
//!
//! # Invariants
//! - What strangers ask makes the hub call the issuer only to redeem a code, within [`REDEEM_TIMEOUT`], and callers bound how many do.
//! - A token is handed over only if it makes a user of the hub at this moment: whoever has it could use it as it is.
//! - Neither code, verifier, secret nor token stands in a log or an error.
//!
//! Source: OpenID Connect Core 1.0 section 3.1, RFC 7636 (PKCE), RFC 6749 section 4.1.3.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use dialect::url::escape_query;
use http::{HeaderValue, StatusCode};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::{sync::Semaphore, time::timeout};

use super::Issuers;
use crate::config::SignInConfig;

/// How long the issuer may take to redeem a code.
const REDEEM_TIMEOUT: Duration = Duration::from_secs(10);
/// Codes that are redeemed at once, whoever sends them.
const REDEEM_COUNT_MAX: usize = 8;
/// The longest code, verifier or address that is passed on.
const PART_BYTES_MAX: usize = 4096;
/// Characters of what an issuer says of an error that are passed on.
const WORDS_MAX: usize = 200;

/// Lets people sign in at an issuer.
#[derive(Debug)]
pub(crate) struct SignIn {
    issuers: Arc<Issuers>,
    config: SignInConfig,
    seats: Semaphore,
}

/// Where a browser goes, and as what.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Offer {
    issuer: String,
    authorization_endpoint: String,
    client_id: String,
    scope: String,
}

/// What a browser came back with.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Redemption {
    code: String,
    code_verifier: String,
    redirect_uri: String,
}

/// Why there is no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SignInError {
    /// The request makes no sense.
    #[error("{0}")]
    Request(&'static str),
    /// Too many redeem one.
    #[error("too many people sign in at this moment: try again")]
    Busy,
    /// The issuer does not redeem the code.
    #[error("the issuer refused the sign-in: {0}")]
    Refused(String),
    /// The issuer cannot be asked.
    #[error("the issuer cannot be asked: {0}")]
    Unreachable(String),
    /// The hub does not let the token count.
    #[error("this hub does not accept the token of the issuer; the log of the hub says why")]
    NotAccepted,
}

#[derive(Deserialize)]
struct Granted {
    id_token: String,
}

#[derive(Default, Deserialize)]
struct Refused {
    #[serde(default)]
    error: String,
    #[serde(default)]
    error_description: String,
}

// === impl SignIn ===

impl SignIn {
    /// Makes it of an issuer that is one of those whose tokens count.
    ///
    /// # Errors
    /// There is no such issuer.
    pub(crate) fn new(issuers: Arc<Issuers>, config: SignInConfig) -> Result<Self, String> {
        if issuers.issuer(&config.issuer).is_none() {
            return Err(format!(
                "{:?} is no issuer whose tokens count: name one of --oidc-issuer-url or --authentication-config",
                config.issuer
            ));
        }
        Ok(Self {
            issuers,
            config,
            seats: Semaphore::new(REDEEM_COUNT_MAX),
        })
    }

    /// Where a browser is sent; `None` while the issuer cannot be read.
    pub(crate) fn offer(&self) -> Option<Offer> {
        let issuer = self.issuers.issuer(&self.config.issuer)?;
        let endpoints = issuer.endpoints()?;
        Some(Offer {
            issuer: self.config.issuer.clone(),
            authorization_endpoint: endpoints.authorization.clone(),
            client_id: self.config.client_id.clone(),
            scope: self.config.scopes.join(" "),
        })
    }

    /// Redeems a code. Returns the token of whoever has signed in.
    ///
    /// # Errors
    /// [`SignInError`].
    pub(crate) async fn redeem(
        &self,
        redemption: &Redemption,
        now: Timestamp,
    ) -> Result<String, SignInError> {
        let Redemption {
            code,
            code_verifier,
            redirect_uri,
        } = redemption;
        for part in [code, code_verifier, redirect_uri] {
            if part.is_empty() || part.len() > PART_BYTES_MAX {
                return Err(SignInError::Request(
                    "code, codeVerifier and redirectUri have 1 to 4096 bytes",
                ));
            }
        }
        let _seat = self
            .seats
            .try_acquire()
            .map_err(|_full| SignInError::Busy)?;
        let gone = || SignInError::Unreachable("its discovery document was not read".to_owned());
        let issuer = self.issuers.issuer(&self.config.issuer).ok_or_else(gone)?;
        let endpoints = issuer.endpoints().ok_or_else(gone)?;
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect_uri),
            ("code_verifier", code_verifier),
        ];
        let secret = self.config.client_secret.as_deref();
        if secret.is_none() {
            // A public client says which one it is; another proves it.
            form.push(("client_id", &self.config.client_id));
        }
        let authorization = secret.map(|secret| basic(&self.config.client_id, secret));
        let pairs = form
            .iter()
            .map(|(name, value)| format!("{name}={}", escape_query(value)));
        let body = Bytes::from(pairs.collect::<Vec<_>>().join("&"));
        let asked = issuer.post_form(&endpoints.token, body, authorization);
        let (status, answer) = timeout(REDEEM_TIMEOUT, asked)
            .await
            .map_err(|_elapsed| SignInError::Unreachable("timed out".to_owned()))?
            .map_err(SignInError::Unreachable)?;
        if status != StatusCode::OK {
            return Err(SignInError::Refused(words(status, &answer)));
        }
        let granted: Granted = serde_json::from_slice(&answer).map_err(|_error| {
            // What it says may hold a token.
            SignInError::Refused("its answer has no id_token".to_owned())
        })?;
        let found = self.issuers.find(&granted.id_token, now).await;
        let is_of_issuer = found.is_some_and(|found| found.issuer == self.config.issuer);
        if is_of_issuer {
            Ok(granted.id_token)
        } else {
            Err(SignInError::NotAccepted)
        }
    }
}

/// What a refusal says, as RFC 6749 section 5.2 has it.
fn words(status: StatusCode, answer: &[u8]) -> String {
    let refused: Refused = serde_json::from_slice(answer).unwrap_or_default();
    let said = [refused.error, refused.error_description];
    let said: Vec<&str> = said
        .iter()
        .map(String::as_str)
        .filter(|it| !it.is_empty())
        .collect();
    let said = said.join(": ");
    let said: String = said
        .chars()
        .filter(|it| !it.is_control())
        .take(WORDS_MAX)
        .collect();
    if said.is_empty() {
        status.to_string()
    } else {
        said
    }
}

/// Source: RFC 6749 section 2.3.1: both parts are encoded as in a form.
fn basic(client_id: &str, secret: &str) -> HeaderValue {
    let (id, secret) = (escape_query(client_id), escape_query(secret));
    let encoded = STANDARD.encode(format!("{id}:{secret}"));
    let mut value = HeaderValue::try_from(format!("Basic {encoded}")).expect("Base64 is ASCII");
    value.set_sensitive(true);
    value
}
