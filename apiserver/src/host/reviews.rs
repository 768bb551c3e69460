//! What the host's authorizer says of a user of the host: a SubjectAccessReview there, remembered for a while.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use client::{Dynamic, Endpoint};
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::{
    sync::{OnceCell, Semaphore},
    time::{Instant, timeout},
};

use crate::authorize::{Attributes, Decision, HostReviewer, SpokeAnswer};

/// Answers that are remembered. Full: those that are too old for everyone are forgotten, or else all.
const ANSWER_COUNT_MAX: usize = 4096;
/// How old an answer may be for anyone. Source: `NewDelegatingAuthorizationOptions`, which keeps both yes and no for this long.
const ANSWER_AGE_MAX: Duration = Duration::from_secs(10);
/// How long it counts that the host does not answer, so that it is not asked by everyone who waits.
const SILENCE_AGE: Duration = Duration::from_secs(1);
/// How long an answer is waited for.
const ASK_TIMEOUT: Duration = Duration::from_secs(5);
/// Questions at a time.
const ASK_AT_ONCE: usize = 32;
/// How much of what the host's authorizer says for its decision is told to the client.
const REASON_CHAR_COUNT_MAX: usize = 1024;

/// Asks the host, and remembers what it said.
pub(crate) struct Reviews {
    host: Dynamic,
    /// Guards answers by the hash of the question. A leaf of the lock order.
    answers: Mutex<HashMap<[u8; 32], Arc<OnceCell<Answer>>>>,
    slots: Semaphore,
}

#[derive(Clone, Debug)]
struct Answer {
    at: Instant,
    answer: SpokeAnswer,
}

// === impl Reviews ===

impl Reviews {
    pub(crate) fn new(host: Dynamic) -> Self {
        Self {
            host: host.with_deadline(ASK_TIMEOUT),
            answers: Mutex::default(),
            slots: Semaphore::new(ASK_AT_ONCE),
        }
    }

    /// The way in which authorizers ask.
    pub(crate) fn reviewer(self: &Arc<Self>) -> HostReviewer {
        let reviews = Arc::clone(self);
        Arc::new(move |asked: Attributes<'_>, age| {
            let reviews = Arc::clone(&reviews);
            Box::pin(async move { reviews.ask(&asked, age).await })
        })
    }

    async fn ask(&self, asked: &Attributes<'_>, age: Duration) -> SpokeAnswer {
        let user = asked.user;
        let mut review = asked.to_review(&user.username, &user.groups);
        review["spec"]["extra"] = json!(user.extra);
        let question: [u8; 32] = Sha256::digest(review.to_string()).into();
        let cell = self.remembered(question, age);
        let answered = cell.get_or_init(|| self.ask_anew(&review)).await;
        answered.answer.clone()
    }

    /// The answer that counts, or that is waited for.
    fn remembered(&self, question: [u8; 32], age: Duration) -> Arc<OnceCell<Answer>> {
        let mut answers = self.answers.lock();
        let now = Instant::now();
        if answers.len() >= ANSWER_COUNT_MAX {
            let counts =
                |it: &OnceCell<Answer>| it.get().is_none_or(|it| it.counts(now, ANSWER_AGE_MAX));
            answers.retain(|_, cell| counts(cell));
            if answers.len() >= ANSWER_COUNT_MAX {
                answers.clear();
            }
        }
        let cell = answers.entry(question).or_default();
        if cell.get().is_some_and(|it| !it.counts(now, age)) {
            *cell = Arc::default();
        }
        Arc::clone(cell)
    }

    async fn ask_anew(&self, review: &Value) -> Answer {
        let gvr = ("authorization.k8s.io", "v1", "subjectaccessreviews");
        let endpoint = Endpoint {
            scope: None,
            gvr: api::GroupVersionResource::new(gvr.0, gvr.1, gvr.2),
            namespace: None,
        };
        let asked = async {
            let _slot = self.slots.acquire().await.ok()?;
            Some(self.host.create(&endpoint, review).await)
        };
        let answer = match timeout(ASK_TIMEOUT, asked).await {
            Ok(Some(Ok(answer))) => decided(&answer["status"]),
            Ok(Some(Err(error))) => {
                tracing::warn!(error = %error.chain(), "cannot ask the host what a user may");
                silent()
            }
            Ok(None) | Err(_) => {
                tracing::warn!("timed out asking the host what a user may");
                silent()
            }
        };
        Answer {
            at: Instant::now(),
            answer,
        }
    }
}

impl fmt::Debug for Reviews {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reviews").finish_non_exhaustive()
    }
}

// === impl Answer ===

impl Answer {
    fn counts(&self, now: Instant, age: Duration) -> bool {
        let age = match self.answer {
            SpokeAnswer::Decided(_) => age,
            SpokeAnswer::Unreached { .. } | SpokeAnswer::NotConnected { .. } => SILENCE_AGE,
        };
        now.duration_since(self.at) < age
    }
}

fn decided(status: &Value) -> SpokeAnswer {
    let reason = status["reason"].as_str().unwrap_or_default();
    let reason: String = reason.chars().take(REASON_CHAR_COUNT_MAX).collect();
    SpokeAnswer::Decided(if status["allowed"] == true {
        Decision::Allow
    } else if status["denied"] == true {
        Decision::Deny { reason }
    } else {
        Decision::NoOpinion { reason }
    })
}

/// What is told of a host that does not answer: not where it is, nor with which credential it is asked.
fn silent() -> SpokeAnswer {
    SpokeAnswer::Unreached {
        reason: "the host of the hub could not be asked".to_owned(),
    }
}
