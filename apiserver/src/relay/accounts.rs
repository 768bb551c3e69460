//! The ServiceAccounts of a real spoke, who come with their tokens to its own path (`argocd cluster add` makes such).
//!
//! ```text
//!   token ──► remembered? ──► signed by this spoke? ──► TokenReview there, ──► user of that cluster
//!                              (its published keys)       account is there
//!                                                        └ spoke away: an account that it has known before
//! ```
//!
//! The account, and what the token is bound to, is looked for beside the TokenReview, because kube-apiserver remembers a good token for ten
//! seconds of its own (`kubernetes/pkg/kubeapiserver/authenticator/config.go`, `tokenSuccessCacheTTL`).
//!
//! # Invariants
//! - A spoke is shown no token but those that it has signed itself: neither garbage nor another cluster's token reaches it.
//! - What a spoke answers makes nobody but a ServiceAccount of that spoke: the name is the one in the token that it has signed, the groups are
//!   those of the name, and the cluster alone vouches for both.
//! - A good answer counts for [`GOOD_FOR`], a bad one for [`BAD_FOR`]; one token is asked about once at a time, and
//!   [`ASK_AT_ONCE`] tokens of one spoke.
//! - Memory is bounded: [`TOKEN_COUNT_MAX`] tokens, [`ACCOUNT_COUNT_MAX`] accounts, and it goes with the link to the spoke.

use std::{collections::HashSet, fmt, sync::Arc, time::Duration};

use api::LogicalCluster;
use client::Endpoint;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::{sync::Semaphore, time::timeout};

use super::way::Way;
use crate::{
    answers::{Answer, Answers, Published},
    authenticate::signed::{Account, Keys, Token},
    request::UserInfo,
};

/// How long a spoke's yes counts. With the interval in which watches are looked at, less than the ten seconds of a revocation.
const GOOD_FOR: Duration = Duration::from_secs(4);
/// How long its no counts.
const BAD_FOR: Duration = Duration::from_secs(1);
/// How long an answer is waited for.
const ASK_TIMEOUT: Duration = Duration::from_secs(3);
/// Questions to one spoke at a time.
const ASK_AT_ONCE: usize = 8;
/// Between two readings of a spoke's keys: as often may somebody make the hub look whether a key is new.
const KEYS_INTERVAL: Duration = Duration::from_secs(5);
/// Where a spoke publishes its keys, and as what.
const KEYS_PATH: &str = "/openid/v1/jwks";
const KEYS_TYPE: &str = "application/jwk-set+json";
/// Tokens of one spoke that are remembered.
const TOKEN_COUNT_MAX: usize = 1024;
/// Accounts of one spoke that are remembered for the time when it is away. Full: all are forgotten.
const ACCOUNT_COUNT_MAX: usize = 1024;
/// Audiences of one spoke's API server that are remembered.
const AUDIENCE_COUNT_MAX: usize = 16;
/// The longest uid that is taken from an answer.
const UID_BYTES_MAX: usize = 128;

/// What is known of one spoke's tokens.
pub(super) struct AccountTokens {
    keys: Published<Keys>,
    /// Whose each token is, or is said to be for the spoke; by the hash of the token.
    answers: Answers<Option<Arc<UserInfo>>>,
    /// Guards what the spoke has let count. A leaf of the lock order.
    known: Mutex<Known>,
    slots: Semaphore,
}

/// What a spoke has let count.
#[derive(Debug, Default)]
struct Known {
    accounts: HashSet<Account>,
    audiences: HashSet<String>,
}

// === impl AccountTokens ===

impl AccountTokens {
    /// Returns whose a token is, as the spoke says.
    pub(super) async fn find(
        &self,
        way: &Way,
        text: &str,
        now: Timestamp,
    ) -> Option<Arc<UserInfo>> {
        let token = &Token::parse(text)?;
        if !token.is_in_time(now) {
            return None;
        }
        let hash: [u8; 32] = Sha256::digest(text.as_bytes()).into();
        let answer = if let Some(answer) = self.answers.known(&hash, Duration::MAX) {
            answer
        } else if self.is_signed(way, token).await {
            self.answers.cell(hash, Duration::MAX)
        } else {
            return None;
        };
        let answer = answer.get_or_init(|| self.ask(way, text, token)).await;
        answer.said.clone()
    }

    /// Whether the spoke has signed a token. An unknown key may be new.
    async fn is_signed(&self, way: &Way, token: &Token<'_>) -> bool {
        if token.is_signed_by(&self.keys.held()) {
            return true;
        }
        let keys = self.keys.read(|| read_keys(way.clone())).await;
        token.is_signed_by(&keys)
    }

    /// Asks the spoke about a token that it has signed.
    async fn ask(&self, way: &Way, text: &str, token: &Token<'_>) -> Answer<Option<Arc<UserInfo>>> {
        let asked = async {
            let _slot = self.slots.acquire().await.ok()?;
            let (status, is_there) = tokio::join!(review(way, text), are_there(way, token));
            Some(status.and_then(|status| is_there.map(|is_there| (status, is_there))))
        };
        let is_good = match timeout(ASK_TIMEOUT, asked).await.ok().flatten() {
            Some(Ok((status, is_there))) => self.take(token, &status, is_there),
            Some(Err(error)) if !error.unreachable() => {
                tracing::warn!(cluster = %way.cluster(), error = %error.chain(), "cannot ask a spoke to review a token");
                None
            }
            // Away: what it has let count counts until its time is up.
            Some(Err(_)) | None => self.known(token),
        };
        let counts_for = if is_good.is_some() { GOOD_FOR } else { BAD_FOR };
        let user = is_good.map(|uid| Arc::new(user_of(token, uid, way.cluster())));
        Answer::now(user, counts_for)
    }

    /// Takes the spoke's answer: the uid of the account, where the token counts.
    fn take(&self, token: &Token<'_>, status: &Value, is_there: bool) -> Option<String> {
        let says_yes = is_there
            && status["authenticated"] == true
            && status["user"]["username"].as_str() == Some(&token.username());
        let mut known = self.known.lock();
        if !says_yes {
            known.accounts.remove(&token.account);
            return None;
        }
        if known.accounts.len() >= ACCOUNT_COUNT_MAX {
            known.accounts.clear();
        }
        known.accounts.insert(token.account.clone());
        let audiences = status["audiences"].as_array().into_iter().flatten();
        for audience in audiences.filter_map(Value::as_str) {
            let is_asked_for = token.audiences.iter().any(|it| it == audience);
            if is_asked_for && known.audiences.len() < AUDIENCE_COUNT_MAX {
                known.audiences.insert(audience.to_owned());
            }
        }
        let uid = status["user"]["uid"].as_str().unwrap_or_default();
        let is_plain = uid.len() <= UID_BYTES_MAX && uid.bytes().all(|it| it.is_ascii_graphic());
        Some(if is_plain {
            uid.to_owned()
        } else {
            String::new()
        })
    }

    /// What is known of the token's account from before.
    fn known(&self, token: &Token<'_>) -> Option<String> {
        let known = self.known.lock();
        let is_for_api = token.audiences.is_empty()
            || token
                .audiences
                .iter()
                .any(|it| known.audiences.contains(it));
        let is_known = is_for_api && known.accounts.contains(&token.account);
        is_known.then(|| token.account.uid.clone())
    }
}

impl Default for AccountTokens {
    fn default() -> Self {
        Self {
            keys: Published::new(KEYS_INTERVAL),
            answers: Answers::new(TOKEN_COUNT_MAX),
            known: Mutex::default(),
            slots: Semaphore::new(ASK_AT_ONCE),
        }
    }
}

impl fmt::Debug for AccountTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccountTokens").finish_non_exhaustive()
    }
}

async fn read_keys(way: Way) -> Option<Keys> {
    let asked = way.ask(async |hub| hub.raw_get_as(KEYS_PATH, KEYS_TYPE).await);
    match timeout(ASK_TIMEOUT, asked).await {
        Ok(Ok(bytes)) => return Some(Keys::parse(&bytes)),
        Ok(Err(error)) => {
            tracing::info!(cluster = %way.cluster(), error = %error.chain(), "cannot read the token keys of a spoke");
        }
        Err(_elapsed) => {
            tracing::info!(cluster = %way.cluster(), "timed out reading the token keys of a spoke");
        }
    }
    None
}

/// The user that a token makes, whatever the spoke says of it.
fn user_of(token: &Token<'_>, uid: String, cluster: &LogicalCluster) -> UserInfo {
    let mut user = UserInfo::service_account(&token.account.namespace, &token.account.name);
    user.uid = uid;
    user.vouched_for_by(cluster)
}

async fn review(way: &Way, token: &str) -> Result<Value, client::Error> {
    let endpoint = Endpoint {
        scope: None,
        gvr: api::GroupVersionResource::new("authentication.k8s.io", "v1", "tokenreviews"),
        namespace: None,
    };
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
    let asked = way.ask(async |hub| hub.create(&endpoint, &review).await);
    let mut answer = asked.await?;
    Ok(answer["status"].take())
}

/// Whether everything that a token ends with is there. What the hub's credential may not read is taken to be: the spoke has its own say.
async fn are_there(way: &Way, token: &Token<'_>) -> Result<bool, client::Error> {
    for object in &token.ends_with {
        let endpoint = Endpoint {
            scope: None,
            gvr: api::GroupVersionResource::new("", "v1", object.resource),
            namespace: object.namespace.clone(),
        };
        let asked = way.ask(async |hub| hub.get(&endpoint, &object.name).await);
        match asked.await {
            Ok(found) if api::meta::uid(&found) != object.uid => return Ok(false),
            Err(error) if error.is_not_found() => return Ok(false),
            Err(error) if error.unreachable() => return Err(error),
            Ok(_) | Err(_) => {}
        }
    }
    Ok(true)
}
