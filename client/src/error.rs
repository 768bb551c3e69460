//! What can go wrong with a call, and what an answer that is no success means.

use std::time::Duration;

use api::{Status, StatusReason};
use http::{HeaderMap, StatusCode};
use tower::BoxError;

/// How much of an answer that is no Status goes into the message.
const TEXT_BYTES_MAX: usize = 1024;
/// How much of the message of a Status is kept; conflicts name many fields.
const MESSAGE_BYTES_MAX: usize = 16 * 1024;

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server refused. What it said is the message.
    #[error(transparent)]
    Status(Box<Status>),
    /// The server was not reached, or the connection broke.
    #[error("the server was not reached")]
    Transport(#[source] BoxError),
    /// The deadline passed. The call may have been done.
    #[error("no answer in time")]
    Timeout,
    /// The answer could not be read.
    #[error("the answer could not be read")]
    Decode(#[source] serde_json::Error),
    /// What was to be asked for cannot be named by a path. Nothing was sent.
    #[error(transparent)]
    Path(#[from] crate::dynamic::PathError),
    /// The answer is more than the cluster may make this client hold.
    #[error(transparent)]
    Bound(#[from] BoundError),
    /// The server switched protocols in a way that was not asked for.
    #[error(transparent)]
    Switch(#[from] SwitchError),
    /// The kubeconfig could not be used.
    #[error("kubeconfig: {0}")]
    Config(String),
}

/// Which bound a cluster has met.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BoundError {
    /// Too much is kept of the cluster and under way from it.
    #[error("more than {} MiB would be kept of this cluster", bytes_max >> 20)]
    Total {
        /// The bound.
        bytes_max: usize,
    },
    /// An answer is too large.
    #[error("an answer is larger than {} MiB", bytes_max >> 20)]
    Answer {
        /// The bound.
        bytes_max: usize,
    },
    /// An object is too large.
    #[error("an object is larger than {} MiB", bytes_max >> 20)]
    Object {
        /// The bound.
        bytes_max: usize,
    },
    /// A list does not end.
    #[error("a list has more than {count_max} pages")]
    Pages {
        /// The bound.
        count_max: usize,
    },
    /// A list begins anew on each page.
    #[error("a list gives the same continue token again")]
    Token,
    /// Discovery does not end.
    #[error("more than {count_max} group-versions are served")]
    Versions {
        /// The bound.
        count_max: usize,
    },
    /// A list takes too long.
    #[error("a list is not complete after {} s", after.as_secs())]
    Deadline {
        /// The bound.
        after: Duration,
    },
}

/// An answer 101 that was not asked for.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub enum SwitchError {
    /// It names another protocol, or none.
    #[error("the server switched to another protocol than the one that was asked for")]
    Other,
    /// The connection cannot be taken over.
    #[error("the server switched protocols over a connection that cannot be taken over")]
    NoStream,
}

// === impl Error ===

impl Error {
    /// Borrows what the server said.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Status(status) => Some(status),
            _ => None,
        }
    }

    /// Returns whether there is no such object or endpoint.
    pub fn is_not_found(&self) -> bool {
        self.status().is_some_and(Status::is_not_found)
    }

    /// Returns whether a precondition did not hold, or managers want different things.
    pub fn is_conflict(&self) -> bool {
        self.status().is_some_and(Status::is_conflict)
    }

    /// Returns whether an object of this name exists.
    pub fn is_already_exists(&self) -> bool {
        self.status().is_some_and(Status::is_already_exists)
    }

    /// Returns whether a rule is broken.
    pub fn is_invalid(&self) -> bool {
        self.status()
            .is_some_and(|status| status.reason == StatusReason::Invalid)
    }

    /// Returns whether a revision is gone.
    pub fn is_expired(&self) -> bool {
        self.status().is_some_and(Status::is_expired)
    }

    /// Returns whether the cluster, rather than the request, is at fault: it was not reached, did not answer in time,
    /// or says that it is not ready.
    pub fn unreachable(&self) -> bool {
        match self {
            Self::Transport(_) | Self::Timeout => true,
            Self::Status(status) => matches!(status.code, 502..=504),
            Self::Decode(_)
            | Self::Path(_)
            | Self::Bound(_)
            | Self::Switch(_)
            | Self::Config(_) => false,
        }
    }

    /// Returns whether no connection came about, so that nothing of the request was sent: what it says, and whoever sends
    /// it, has no part in that.
    pub fn is_connect(&self) -> bool {
        let Self::Transport(error) = self else {
            return false;
        };
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error.as_ref());
        while let Some(error) = cause {
            if let Some(error) = error.downcast_ref::<hyper_util::client::legacy::Error>() {
                return error.is_connect();
            }
            cause = error.source();
        }
        false
    }

    /// Returns whether a failure is routine for a controller that retries: another writer came first, or the cluster is not
    /// reached, which is logged once for all that is to be done there.
    pub fn is_routine(&self) -> bool {
        self.is_conflict() || self.unreachable()
    }

    /// Borrows the bound that the cluster has met.
    pub const fn bound(&self) -> Option<&BoundError> {
        match self {
            Self::Bound(bound) => Some(bound),
            _ => None,
        }
    }

    /// Returns when the server wants to be asked again, if it said so.
    pub fn retry_after(&self) -> Option<Duration> {
        let seconds = self.status()?.retry_after_seconds()?;
        Some(Duration::from_secs(u64::from(seconds)))
    }

    /// Renders the error with its causes on one line, for a condition or an event.
    pub fn chain(&self) -> String {
        match self {
            Self::Status(_) | Self::Bound(_) => self.to_string(),
            Self::Transport(error) => {
                format!("{self}: {}", dialect::error_chain(beneath(error.as_ref())))
            }
            _ => dialect::error_chain(self),
        }
    }

    pub(crate) fn transport(error: impl Into<BoxError>) -> Self {
        Self::Transport(error.into())
    }
}

/// Returns the first cause that says more than which layer of the client has failed.
fn beneath<'a>(
    mut error: &'a (dyn std::error::Error + 'static),
) -> &'a (dyn std::error::Error + 'static) {
    while error.is::<hyper_util::client::legacy::Error>()
        || matches!(error.downcast_ref(), Some(kube::Error::Service(_)))
    {
        let Some(cause) = error.source() else {
            break;
        };
        error = cause;
    }
    error
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        Self::Status(Box::new(status))
    }
}

/// Reads a refusal. What is no Status becomes one, with the reason of its code.
pub(crate) fn refusal(code: StatusCode, headers: &HeaderMap, body: &[u8]) -> Status {
    if let Ok(mut status) = serde_json::from_slice::<Status>(body)
        && is_status(body)
    {
        if status.code == 0 {
            status.code = code.as_u16();
        }
        truncate(&mut status.message);
        return status;
    }
    let end = body.len().min(TEXT_BYTES_MAX);
    let text = String::from_utf8_lossy(body.get(..end).unwrap_or_default());
    let text = text.trim();
    let message = if text.is_empty() {
        format!("the server answered {code} and said nothing more")
    } else {
        format!("the server answered {code}: {text}")
    };
    let mut status = Status::failure(code.as_u16(), reason_of(code), message);
    let retry_after = headers
        .get(http::header::RETRY_AFTER)
        .and_then(|it| it.to_str().ok());
    if let Some(seconds) = retry_after.and_then(|text| text.parse().ok()) {
        status = status.retry_after(seconds);
    }
    status
}

/// Cuts a message that would be carried on into conditions and logs.
fn truncate(message: &mut String) {
    if message.len() > MESSAGE_BYTES_MAX {
        message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
        message.push_str(" ...");
    }
}

/// Every JSON object can be read as a Status; only one that says so is one.
fn is_status(body: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Kind<'a> {
        #[serde(borrow)]
        kind: std::borrow::Cow<'a, str>,
    }
    serde_json::from_slice::<Kind<'_>>(body).is_ok_and(|it| it.kind == "Status")
}

/// Source: `NewGenericServerResponse` in `apimachinery/pkg/api/errors/errors.go`.
fn reason_of(code: StatusCode) -> StatusReason {
    match code.as_u16() {
        400 => StatusReason::BadRequest,
        401 => StatusReason::Unauthorized,
        403 => StatusReason::Forbidden,
        404 => StatusReason::NotFound,
        405 => StatusReason::MethodNotAllowed,
        406 => StatusReason::NotAcceptable,
        409 => StatusReason::Conflict,
        410 => StatusReason::Expired,
        413 => StatusReason::RequestEntityTooLarge,
        415 => StatusReason::UnsupportedMediaType,
        422 => StatusReason::Invalid,
        429 => StatusReason::TooManyRequests,
        500 => StatusReason::InternalError,
        503 => StatusReason::ServiceUnavailable,
        504 => StatusReason::Timeout,
        _ => StatusReason::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_read_as_the_server_meant_it() {
        let mut headers = HeaderMap::new();
        headers.insert(
            http::header::RETRY_AFTER,
            http::HeaderValue::from_static("7"),
        );
        for (code, body, want) in [
            (
                404,
                r#"{"kind":"Status","message":"m","reason":"NotFound"}"#,
                (StatusReason::NotFound, "m", None),
            ),
            (
                429,
                "slow down",
                (
                    StatusReason::TooManyRequests,
                    "the server answered 429 Too Many Requests: slow down",
                    Some(7),
                ),
            ),
            (
                502,
                "",
                (
                    StatusReason::Unknown,
                    "the server answered 502 Bad Gateway and said nothing more",
                    Some(7),
                ),
            ),
            (
                404,
                r#"{"paths":[]}"#,
                (
                    StatusReason::NotFound,
                    r#"the server answered 404 Not Found: {"paths":[]}"#,
                    Some(7),
                ),
            ),
        ] {
            let status = refusal(
                StatusCode::from_u16(code).unwrap(),
                &headers,
                body.as_bytes(),
            );
            assert_eq!(status.code, code);
            assert_eq!(
                (
                    status.reason,
                    status.message.as_str(),
                    status.retry_after_seconds()
                ),
                want
            );
        }
    }

    #[test]
    fn an_error_knows_whose_fault_it_is() {
        for (error, unreachable) in [
            (Error::Timeout, true),
            (Error::transport("gone"), true),
            (Status::service_unavailable("x").into(), true),
            (Status::timeout("x").into(), true),
            (Status::bad_request("x").into(), false),
            (Status::internal("x").into(), false),
        ] {
            assert_eq!(error.unreachable(), unreachable, "{error}");
        }
        assert_eq!(
            Error::transport("gone").chain(),
            "the server was not reached: gone"
        );
    }

    #[tokio::test]
    async fn a_server_that_does_not_listen_is_told_without_the_layers_of_the_client() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = free.local_addr().expect("an address");
        drop(free);
        let kubeconfig = format!(
            "{{apiVersion: v1, kind: Config, current-context: a, users: [{{name: a, user: {{token: t}}}}], \
             clusters: [{{name: a, cluster: {{server: 'https://{address}'}}}}], \
             contexts: [{{name: a, context: {{cluster: a, user: a}}}}]}}"
        );
        let options = crate::Options::default();
        let connection = crate::connect(&kubeconfig, None, &options).await;
        let dynamic = crate::Dynamic::new(connection.expect("a client").client());
        let namespaces = crate::Endpoint {
            scope: None,
            gvr: api::GroupVersionResource::new("", "v1", "namespaces"),
            namespace: None,
        };
        let error = dynamic
            .get(&namespaces, "default")
            .await
            .expect_err("nobody");
        assert!(error.is_connect(), "{error:?}");
        let told = error.chain();
        let start = "the server was not reached: tcp connect error: ";
        assert!(told.starts_with(start), "{told}");
    }
}
