//! What the host's authorizer says of a user of the host: a SubjectAccessReview there, remembered for a while.

use std::{fmt, sync::Arc, time::Duration};

use client::{Dynamic, Endpoint};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::{sync::Semaphore, time::timeout};

use crate::{
    answers::{Answer, Answers, Question},
    authorize::{Attributes, HostReviewer, SpokeAnswer},
};

/// Answers that are remembered.
const ANSWER_COUNT_MAX: usize = 4096;
/// How old an answer may be for anyone. Source: `NewDelegatingAuthorizationOptions`, which keeps both yes and no for this long.
const ANSWER_AGE_MAX: Duration = Duration::from_secs(10);
/// How long it counts that the host does not answer, so that it is not asked by everyone who waits.
const SILENCE_AGE: Duration = Duration::from_secs(1);
/// How long an answer is waited for.
const ASK_TIMEOUT: Duration = Duration::from_secs(5);
/// Questions at a time.
const ASK_AT_ONCE: usize = 32;

/// Asks the host, and remembers what it said.
pub(crate) struct Reviews {
    host: Dynamic,
    answers: Answers<SpokeAnswer>,
    slots: Semaphore,
}

// === impl Reviews ===

impl Reviews {
    pub(crate) fn new(host: Dynamic) -> Self {
        Self {
            host: host.with_deadline(ASK_TIMEOUT),
            answers: Answers::new(ANSWER_COUNT_MAX),
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
        let question: Question = Sha256::digest(review.to_string()).into();
        let cell = self.answers.cell(question, age);
        let answered = cell.get_or_init(|| self.ask_anew(&review)).await;
        answered.said.clone()
    }

    async fn ask_anew(&self, review: &Value) -> Answer<SpokeAnswer> {
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
            Ok(Some(Ok(answer))) => SpokeAnswer::of_review(&answer["status"]),
            Ok(Some(Err(error))) => {
                tracing::warn!(error = %error.chain(), "cannot ask the host what a user may");
                silent()
            }
            Ok(None) | Err(_) => {
                tracing::warn!("timed out asking the host what a user may");
                silent()
            }
        };
        let counts_for = match answer {
            SpokeAnswer::Decided(_) => ANSWER_AGE_MAX,
            SpokeAnswer::Unreached { .. } | SpokeAnswer::NotConnected { .. } => SILENCE_AGE,
        };
        Answer::now(answer, counts_for)
    }
}

impl fmt::Debug for Reviews {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reviews").finish_non_exhaustive()
    }
}

/// What is told of a host that does not answer: not where it is, nor with which credential it is asked.
fn silent() -> SpokeAnswer {
    SpokeAnswer::Unreached {
        reason: "the host of the hub could not be asked".to_owned(),
    }
}
