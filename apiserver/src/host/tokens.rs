//! Whose a token of the host is, of a ServiceAccount that comes to the hub itself: a TokenReview in the host, remembered for a while.
//!
//! # Invariants
//! - The host is shown no token but those that it has signed itself: neither garbage nor another cluster's token reaches it.
//! - What it answers makes nobody but the ServiceAccount that the token names.
//! - One token is asked about once at a time, and [`ASK_AT_ONCE`] tokens; [`TOKEN_COUNT_MAX`] are remembered.
//!
//! Source: `apiserver/pkg/server/options/authentication.go` (`DelegatingAuthenticationOptions`).

use std::{fmt, sync::Arc, time::Duration};

use client::{Dynamic, Endpoint};
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::{sync::Semaphore, time::timeout};

use crate::{
    answers::{Answer, Answers, Published},
    authenticate::{
        HostTokens, TokenAnswer,
        signed::{Keys, Token},
    },
    request::UserInfo,
};

/// How long the host's yes counts. The host remembers one itself for ten seconds.
const GOOD_FOR: Duration = Duration::from_secs(4);
/// How long its no counts, or that it does not answer.
const BAD_FOR: Duration = Duration::from_secs(1);
/// How long an answer is waited for.
const ASK_TIMEOUT: Duration = Duration::from_secs(3);
/// Questions at a time.
const ASK_AT_ONCE: usize = 16;
/// Tokens that are remembered.
const TOKEN_COUNT_MAX: usize = 1024;
/// Between two readings of the host's keys: as often may somebody make the hub look whether a key is new.
const KEYS_INTERVAL: Duration = Duration::from_secs(5);
/// Where the host publishes its keys, and as what.
const KEYS_PATH: &str = "/openid/v1/jwks";
const KEYS_TYPE: &str = "application/jwk-set+json";

/// Knows the tokens of the host's ServiceAccounts.
pub(crate) struct Tokens {
    host: Dynamic,
    keys: Published<Keys>,
    /// By the hash of the token.
    answers: Answers<TokenAnswer>,
    slots: Semaphore,
}

// === impl Tokens ===

impl Tokens {
    pub(crate) fn new(host: Dynamic) -> Self {
        Self {
            host: host.with_deadline(ASK_TIMEOUT),
            keys: Published::new(KEYS_INTERVAL),
            answers: Answers::new(TOKEN_COUNT_MAX),
            slots: Semaphore::new(ASK_AT_ONCE),
        }
    }

    async fn look_up(&self, text: &str, now: Timestamp) -> TokenAnswer {
        let Some(token) = Token::parse(text).filter(|token| token.is_in_time(now)) else {
            return TokenAnswer::Nobody;
        };
        let hash: [u8; 32] = Sha256::digest(text.as_bytes()).into();
        let answer = match self.answers.known(&hash, Duration::MAX) {
            Some(answer) => answer,
            None if self.is_signed(&token).await => self.answers.cell(hash, Duration::MAX),
            None => return TokenAnswer::Nobody,
        };
        let answer = answer.get_or_init(|| self.ask(text, &token)).await;
        answer.said.clone()
    }

    /// Whether the host has signed a token. An unknown key may be new.
    async fn is_signed(&self, token: &Token<'_>) -> bool {
        if token.is_signed_by(&self.keys.held()) {
            return true;
        }
        let keys = self.keys.read(|| read_keys(self.host.clone())).await;
        token.is_signed_by(&keys)
    }

    /// Asks the host about a token that it has signed.
    async fn ask(&self, text: &str, token: &Token<'_>) -> Answer<TokenAnswer> {
        let gvr = ("authentication.k8s.io", "v1", "tokenreviews");
        let endpoint = Endpoint {
            scope: None,
            gvr: api::GroupVersionResource::new(gvr.0, gvr.1, gvr.2),
            namespace: None,
        };
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": text}});
        let asked = async {
            let _slot = self.slots.acquire().await.ok()?;
            Some(self.host.create(&endpoint, &review).await)
        };
        let said = match timeout(ASK_TIMEOUT, asked).await.ok().flatten() {
            Some(Ok(answer)) => user_of(&answer["status"], &token.username())
                .map_or(TokenAnswer::Nobody, |user| {
                    TokenAnswer::User(Arc::new(user))
                }),
            Some(Err(error)) => {
                tracing::warn!(error = %error.chain(), "cannot ask the host to review a token");
                TokenAnswer::Unknown
            }
            None => TokenAnswer::Unknown,
        };
        let counts_for = if matches!(said, TokenAnswer::User(_)) {
            GOOD_FOR
        } else {
            BAD_FOR
        };
        Answer::now(said, counts_for)
    }
}

impl HostTokens for Tokens {
    fn find<'a>(&'a self, token: &'a str, now: Timestamp) -> BoxFuture<'a, TokenAnswer> {
        Box::pin(self.look_up(token, now))
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").finish_non_exhaustive()
    }
}

async fn read_keys(host: Dynamic) -> Option<Keys> {
    let read = host.raw_get_as(KEYS_PATH, KEYS_TYPE);
    match timeout(ASK_TIMEOUT, read).await {
        Ok(Ok(bytes)) => return Some(Keys::parse(&bytes)),
        Ok(Err(error)) => {
            tracing::info!(error = %error.chain(), "cannot read the token keys of the host");
        }
        Err(_elapsed) => tracing::info!("timed out reading the token keys of the host"),
    }
    None
}

/// The user that the host has found, if it is the one whom the token names.
fn user_of(status: &Value, username: &str) -> Option<UserInfo> {
    let user = &status["user"];
    if status["authenticated"] != true || user["username"].as_str() != Some(username) {
        return None;
    }
    UserInfo::of_host(UserInfo::of_review(user))
}
