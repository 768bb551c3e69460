//! Whose a token is that nobody else knows: a TokenReview by a webhook that the operator has named, remembered for a while.
//!
//! # Invariants
//! - The webhook is shown no token that is the hub's own, a ServiceAccount's, or of an issuer that the operator has named: those are good
//!   elsewhere or nowhere.
//! - No webhook makes a user or a group of a name that is Kubernetes' or the hub's own ([`UserInfo::of_issuer`]).
//! - One token is asked about once at a time, and [`ASK_AT_ONCE`] tokens; [`TOKEN_COUNT_MAX`] are remembered. A webhook that hangs keeps nobody
//!   waiting longer than [`SLOT_TIMEOUT`] and [`ASK_TIMEOUT`] together, and nobody at all whose token is known without it.
//! - However many tokens strangers make up, those that were good before are asked about in [`ASK_AGAIN_AT_ONCE`] slots of their own.
//!
//! Source: `apiserver/plugin/pkg/authenticator/token/webhook/webhook.go`.

use std::{collections::HashSet, fmt, mem, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use dialect::yaml::{self, Aliases};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use kube::{
    client::ConfigExt as _,
    config::{KubeConfigOptions, Kubeconfig},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::timeout,
};

use super::{TokenAnswer, jws::Jws};
use crate::{
    answers::{Answer, Answers, Question},
    config::TokenWebhook as Config,
    request::{SERVICE_ACCOUNT_PREFIX, UserInfo, is_kubernetes_key, issuer_of},
    webhooks::Peer,
};

/// How long a no counts, or that there was no answer.
const BAD_FOR: Duration = Duration::from_secs(1);
/// How long an answer is waited for, from when the webhook is asked.
const ASK_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a question waits until it can be asked.
const SLOT_TIMEOUT: Duration = Duration::from_secs(5);
/// Questions at a time.
const ASK_AT_ONCE: usize = 32;
/// Those of them that are about tokens that were good before.
const ASK_AGAIN_AT_ONCE: usize = 8;
/// Tokens that are remembered.
const TOKEN_COUNT_MAX: usize = 4096;
/// Longer tokens are not shown.
const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// Why a webhook cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum TokenWebhookError {
    /// Its kubeconfig cannot be read.
    #[error("the kubeconfig {} cannot be read", path.display())]
    Read {
        /// Which one.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// Its kubeconfig cannot be used.
    #[error("the kubeconfig {} cannot be used: {reason}", path.display())]
    Kubeconfig {
        /// Which one.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
}

/// Knows tokens by asking a webhook.
pub(crate) struct TokenWebhook {
    peer: Peer,
    /// What says who the hub is.
    headers: HeaderMap,
    good_for: Duration,
    /// By the hash of the token.
    answers: Answers<TokenAnswer>,
    slots: Slots,
}

/// Room for questions at a time.
struct Slots {
    for_any: Semaphore,
    /// For tokens that were good before, beside the others.
    for_good: Semaphore,
    /// A leaf of the lock order.
    good: Mutex<Good>,
}

/// The tokens that were good when they were last asked about, by their hash. Full: those that were so longest ago are forgotten.
#[derive(Default)]
struct Good {
    late: HashSet<Question>,
    before: HashSet<Question>,
}

// === impl TokenWebhook ===

impl TokenWebhook {
    /// Reads how a webhook is reached. Nothing is dialled yet.
    ///
    /// # Errors
    /// [`TokenWebhookError`].
    pub(crate) async fn open(config: &Config) -> Result<Self, TokenWebhookError> {
        let path = &config.kubeconfig;
        let text = std::fs::read_to_string(path).map_err(|source| TokenWebhookError::Read {
            path: path.clone(),
            source,
        })?;
        let reached = reached(&text).await;
        let (peer, headers) = reached.map_err(|reason| TokenWebhookError::Kubeconfig {
            path: path.clone(),
            reason,
        })?;
        Ok(Self {
            peer,
            headers,
            good_for: config.good_for,
            answers: Answers::new(TOKEN_COUNT_MAX),
            slots: Slots::new(),
        })
    }

    /// Finds whose a token is, that nobody else has known.
    pub(crate) async fn find(&self, token: &str) -> TokenAnswer {
        if token.is_empty() || token.len() > TOKEN_BYTES_MAX || is_of_cluster(token) {
            return TokenAnswer::Nobody;
        }
        let question: Question = Sha256::digest(token.as_bytes()).into();
        let cell = self.answers.cell(question, Duration::MAX);
        let answer = cell.get_or_init(|| self.ask(&question, token)).await;
        answer.said.clone()
    }

    async fn ask(&self, question: &Question, token: &str) -> Answer<TokenAnswer> {
        let asked = async {
            let _slot = self.slots.take(question).await?;
            let reviewed = timeout(ASK_TIMEOUT, self.review(token)).await;
            reviewed.unwrap_or_else(|_elapsed| Err("timed out".to_owned()))
        };
        match asked.await {
            Ok(Some(user)) => {
                self.slots.good.lock().insert(*question);
                Answer::now(TokenAnswer::User(Arc::new(user)), self.good_for)
            }
            Ok(None) => {
                self.slots.good.lock().remove(question);
                Answer::spare(TokenAnswer::Nobody, BAD_FOR)
            }
            Err(error) => {
                let url = self.peer.url();
                tracing::warn!(url, error, "cannot have a token reviewed by the webhook");
                Answer::spare(TokenAnswer::Unknown, BAD_FOR)
            }
        }
    }

    async fn review(&self, token: &str) -> Result<Option<UserInfo>, String> {
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
            "metadata": {"creationTimestamp": null}, "spec": {"token": token}, "status": {"user": {}},
        });
        let body = Bytes::from(review.to_string());
        let asked = self.peer.post("", body, self.headers.clone()).await;
        let (code, bytes) = asked.map_err(|error| error.to_string())?;
        if !matches!(code, StatusCode::OK | StatusCode::CREATED) {
            return Err(format!("it answers {code}"));
        }
        let answer = api::json::parse(&bytes).map_err(|error| error.to_string())?;
        let status = &answer["status"];
        if status["authenticated"] != true {
            return Ok(None);
        }
        let mut user = UserInfo::of_review(&status["user"]);
        // What says how a token of the hub's own is bound.
        user.extra.retain(|key, _| !is_kubernetes_key(key));
        UserInfo::of_issuer(user).map(Some)
    }
}

impl fmt::Debug for TokenWebhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenWebhook").finish_non_exhaustive()
    }
}

// === impl Slots ===

impl Slots {
    fn new() -> Self {
        Self {
            for_any: Semaphore::new(ASK_AT_ONCE - ASK_AGAIN_AT_ONCE),
            for_good: Semaphore::new(ASK_AGAIN_AT_ONCE),
            good: Mutex::default(),
        }
    }

    /// Waits for a slot.
    async fn take(&self, question: &Question) -> Result<SemaphorePermit<'_>, String> {
        let was_good = self.good.lock().contains(question);
        let slot = async {
            tokio::select! {
                biased;
                slot = self.for_any.acquire() => slot,
                slot = self.for_good.acquire(), if was_good => slot,
            }
        };
        let slot = timeout(SLOT_TIMEOUT, slot).await;
        let slot = slot.map_err(|_elapsed| "too many questions at once".to_owned())?;
        slot.map_err(|error| error.to_string())
    }
}

// === impl Good ===

impl Good {
    fn contains(&self, question: &Question) -> bool {
        self.late.contains(question) || self.before.contains(question)
    }

    fn insert(&mut self, question: Question) {
        if self.late.len() >= TOKEN_COUNT_MAX / 2 && !self.late.contains(&question) {
            self.before = mem::take(&mut self.late);
        }
        self.late.insert(question);
    }

    fn remove(&mut self, question: &Question) {
        self.late.remove(question);
        self.before.remove(question);
    }
}

/// Whether a token is one of the hub or of a ServiceAccount of some cluster, who has its own way to be known.
fn is_of_cluster(token: &str) -> bool {
    let Some(claims) = Jws::claims_of(token) else {
        return false;
    };
    let begins = |claim: &str, prefix: &str| {
        let value = claims.get(claim).and_then(Value::as_str);
        value.is_some_and(|it| it.starts_with(prefix))
    };
    let own = issuer_of(&api::LogicalCluster::root());
    begins("sub", SERVICE_ACCOUNT_PREFIX) || begins("iss", &own)
}

/// Reads a kubeconfig: the URL of the cluster is that of the webhook, path and all.
async fn reached(text: &str) -> Result<(Peer, HeaderMap), String> {
    let document = yaml::document(text, Aliases::Few).map_err(|error| error.to_string())?;
    let context = named(
        &document,
        "contexts",
        &document["current-context"],
        "context",
    );
    let cluster = named(&document, "clusters", &context["cluster"], "cluster");
    let user = named(&document, "users", &context["user"], "user");
    for (part, field) in [
        (cluster, "insecure-skip-tls-verify"),
        (cluster, "proxy-url"),
        (cluster, "tls-server-name"),
        (user, "exec"),
        (user, "auth-provider"),
        (user, "username"),
    ] {
        if !matches!(part[field], Value::Null | Value::Bool(false)) {
            return Err(format!("{field} is not supported"));
        }
    }
    let kubeconfig = Kubeconfig::from_yaml(text).map_err(|error| dialect::error_chain(&error))?;
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let config = config.map_err(|error| dialect::error_chain(&error))?;
    let tls = config.rustls_client_config();
    let tls = tls.map_err(|error| dialect::error_chain(&error))?;
    let server = cluster["server"].as_str().unwrap_or_default();
    let peer = Peer::of_operator(server, Arc::new(tls))?;
    let token = match (user["token"].as_str(), user["tokenFile"].as_str()) {
        (Some(token), _) => Some(token.to_owned()),
        (None, Some(file)) => {
            let read = std::fs::read_to_string(file);
            Some(read.map_err(|error| format!("tokenFile {file:?}: {error}"))?)
        }
        (None, None) => None,
    };
    let mut headers = HeaderMap::new();
    let agent = concat!("wheelhouse/", env!("CARGO_PKG_VERSION"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
    if let Some(token) = token {
        let value = HeaderValue::try_from(format!("Bearer {}", token.trim()));
        let mut value = value.map_err(|error| error.to_string())?;
        value.set_sensitive(true);
        headers.insert(header::AUTHORIZATION, value);
    }
    Ok((peer, headers))
}

/// The part of a kubeconfig that has a name.
fn named<'a>(document: &'a Value, list: &str, name: &Value, part: &str) -> &'a Value {
    let mut entries = document[list].as_array().into_iter().flatten();
    let entry = entries.find(|entry| entry["name"] == *name);
    entry.map_or(&Value::Null, |entry| &entry[part])
}

/// Whether a token can be somebody's now; what the webhook does not say does not end it.
pub(super) const fn is_still_good(said: &TokenAnswer) -> bool {
    !matches!(said, TokenAnswer::Nobody)
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    const GOOD: &str = "
current-context: webhook
contexts: [{name: webhook, context: {cluster: a, user: b}}]
clusters: [{name: a, cluster: {server: 'https://hook.example.com/authenticate'}}]
users: [{name: b, user: {token: secret}}]
";

    #[tokio::test]
    async fn a_webhook_is_reached_as_its_kubeconfig_says_or_not_at_all() {
        let (peer, headers) = reached(GOOD).await.unwrap();
        assert_eq!(peer.url(), "https://hook.example.com/authenticate");
        assert_eq!(headers[header::AUTHORIZATION], "Bearer secret");
        assert!(!format!("{headers:?}").contains("secret"), "{headers:?}");
        for (from, to, want) in [
            ("https:", "http:", "is not of the form https://"),
            (
                "server:",
                "insecure-skip-tls-verify: true, server:",
                "insecure-skip-tls-verify is not supported",
            ),
            (
                "server:",
                "proxy-url: 'http://p', server:",
                "proxy-url is not supported",
            ),
            (
                "token: secret",
                "exec: {command: a}",
                "exec is not supported",
            ),
            (
                "token: secret",
                "tokenFile: /nowhere",
                "tokenFile \"/nowhere\"",
            ),
            ("current-context: webhook", "current-context: other", ""),
        ] {
            let text = GOOD.replace(from, to);
            let error = reached(&text)
                .await
                .err()
                .unwrap_or_else(|| panic!("{to} is taken"));
            assert!(error.contains(want), "{to}: {error}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_leave_slots_to_tokens_that_were_good() {
        let slots = Slots::new();
        slots.good.lock().insert([1; 32]);
        let stranger = [0; 32];
        let mut taken = Vec::new();
        for _ in ASK_AGAIN_AT_ONCE..ASK_AT_ONCE {
            taken.push(slots.take(&stranger).await.unwrap());
        }
        let began = Instant::now();
        for _ in 0..ASK_AGAIN_AT_ONCE {
            taken.push(slots.take(&[1; 32]).await.unwrap());
        }
        assert_eq!(began.elapsed(), Duration::ZERO, "nobody stands before them");
        for question in [stranger, [1; 32]] {
            let began = Instant::now();
            slots.take(&question).await.unwrap_err();
            assert_eq!(began.elapsed(), SLOT_TIMEOUT);
        }
        // They take those of all too, and are strangers again after a no.
        drop(taken.remove(0));
        taken.push(slots.take(&[1; 32]).await.unwrap());
        drop(taken.remove(ASK_AT_ONCE - ASK_AGAIN_AT_ONCE));
        slots.good.lock().remove(&[1; 32]);
        slots.take(&[1; 32]).await.unwrap_err();
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_for_an_answer_begins_when_the_webhook_is_asked() {
        // Connections wait to be accepted without end.
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (peer, headers) = reached(&GOOD.replace("hook.example.com", &address))
            .await
            .unwrap();
        let webhook = TokenWebhook {
            peer,
            headers,
            good_for: Duration::from_secs(3),
            answers: Answers::new(TOKEN_COUNT_MAX),
            slots: Slots::new(),
        };
        let all = u32::try_from(ASK_AT_ONCE - ASK_AGAIN_AT_ONCE).unwrap();
        let others = webhook.slots.for_any.acquire_many(all).await.unwrap();
        let (wait, began) = (Duration::from_secs(4), Instant::now());
        let others_end = async {
            tokio::time::sleep(wait).await;
            drop(others);
        };
        let (said, ()) = tokio::join!(webhook.find("opaque"), others_end);
        assert!(matches!(said, TokenAnswer::Unknown));
        let took = began.elapsed();
        assert!(took >= wait + ASK_TIMEOUT, "{took:?}");
    }

    #[test]
    fn as_many_good_tokens_are_kept_as_there_is_room_for() {
        let mut good = Good::default();
        let question = |number: usize| -> Question { Sha256::digest(number.to_be_bytes()).into() };
        for number in 0..3 * TOKEN_COUNT_MAX {
            good.insert(question(number));
            good.insert(question(0));
            assert!(good.late.len() + good.before.len() <= TOKEN_COUNT_MAX);
            assert!(good.contains(&question(0)) && good.contains(&question(number)));
        }
        assert!(!good.contains(&question(1)), "long ago");
    }

    #[test]
    fn tokens_of_clusters_are_not_shown() {
        let signer = super::super::jws::tests::Signer::new();
        let token = |claims: Value| signer.sign(&json!({"alg": "ES256"}), &claims);
        for (token, want) in [
            ("opaque".to_owned(), false),
            (token(json!({"iss": "https://idp", "sub": "bob"})), false),
            (
                token(json!({"iss": "https://spoke", "sub": "system:serviceaccount:a:b"})),
                true,
            ),
            (
                token(json!({"iss": "https://wheelhouse.internal/clusters/a", "sub": "x"})),
                true,
            ),
        ] {
            assert_eq!(is_of_cluster(&token), want, "{token}");
        }
    }
}
