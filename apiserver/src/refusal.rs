//! A request that is not done, and why: the public `Status` and the private cause.
//!
//! Invariant: the cause never reaches the client; it goes to the log, once, with the audit id.
//!
//! Source: `apimachinery/pkg/api/errors/errors.go`.

use std::fmt;

use api::status::{Status, StatusDetails, StatusReason};

/// An error of any kind: the cause of a refusal, or what breaks a body while it is sent or received.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a request is not done.
#[derive(Debug)]
pub struct Refusal {
    content: Content,
    cause: Option<BoxError>,
}

/// What the client gets to see.
#[derive(Debug)]
pub(crate) enum Content {
    /// A `Status` in the form that the client negotiated.
    Status(Box<Status>),
    /// Kubernetes' plain-text `404 page not found`, for paths that nothing serves.
    NoSuchPath,
    /// 301 to another path of the same logical cluster, as for an OpenAPI document under an old hash.
    MovedTo(String),
}

// === impl Refusal ===

impl Refusal {
    /// Refuses with `status`, which says all there is to say.
    pub fn new(status: Status) -> Self {
        Self {
            content: Content::Status(Box::new(status)),
            cause: None,
        }
    }

    /// Refuses with the plain-text 404 of a path that nothing serves.
    pub const fn no_such_path() -> Self {
        Self {
            content: Content::NoSuchPath,
            cause: None,
        }
    }

    /// Refuses a method that a path does not have: 405, in the words of Kubernetes' handlers.
    pub fn no_such_method() -> Self {
        let text = "the server does not allow this method on the requested resource";
        let status = Status::failure(405, StatusReason::MethodNotAllowed, text);
        status.with_details(StatusDetails::default()).into()
    }

    /// Whether it says that nothing is there.
    pub fn is_not_found(&self) -> bool {
        match &self.content {
            Content::NoSuchPath => true,
            Content::Status(status) => status.code == 404,
            Content::MovedTo(_) => false,
        }
    }

    /// Refuses because of a fault of ours: the client reads "internal error", the log the cause.
    pub fn internal(cause: impl Into<BoxError>) -> Self {
        Self {
            content: Content::Status(Box::new(Status::internal("internal error"))),
            cause: Some(cause.into()),
        }
    }

    /// Sends the client to another path.
    pub(crate) const fn moved_to(path: String) -> Self {
        Self {
            content: Content::MovedTo(path),
            cause: None,
        }
    }

    /// Adds a cause for the log.
    #[must_use]
    pub fn because(mut self, cause: impl Into<BoxError>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// The status that the client gets, where it gets one.
    pub fn status(&self) -> Option<&Status> {
        match &self.content {
            Content::Status(status) => Some(status),
            Content::NoSuchPath | Content::MovedTo(_) => None,
        }
    }

    pub(crate) fn content(&self) -> &Content {
        &self.content
    }

    pub(crate) fn cause(&self) -> Option<&BoxError> {
        self.cause.as_ref()
    }
}

impl From<Box<Status>> for Refusal {
    fn from(status: Box<Status>) -> Self {
        (*status).into()
    }
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self::new(status)
    }
}

impl From<storage::Error> for Refusal {
    /// For errors the caller did not already handle: handlers name object and resource where an expectation of theirs is
    /// broken. Exhaustive on purpose: a new store error must choose its status here.
    fn from(error: storage::Error) -> Self {
        use storage::Error;
        match error {
            Error::NotFound { .. } => {
                let status =
                    Status::failure(404, StatusReason::NotFound, "the object was not found");
                Self::new(status).because(error)
            }
            Error::Conflict { .. } => {
                let text = api::status::OPTIMISTIC_LOCK_TEXT;
                Self::new(Status::failure(409, StatusReason::Conflict, text)).because(error)
            }
            Error::Compacted { .. } => {
                Self::new(Status::expired("The provided resource version is too old."))
                    .because(error)
            }
            Error::FutureRevision { requested, current } => {
                Self::new(Status::resource_version_too_large(requested.0, current.0)).because(error)
            }
            Error::Full => Self::new(Status::too_many_requests(1)).because(error),
            Error::TooLarge { limit, .. } => Self::new(Status::too_large(limit)).because(error),
            Error::Durability { .. } => {
                let text = "the store takes no writes until the server is restarted";
                Self::new(Status::service_unavailable(text)).because(error)
            }
            Error::StorageFull { .. } => {
                let text = "the store's disk is full: nothing of the write was kept; writes go on once there is space";
                Self::new(Status::failure(507, StatusReason::InternalError, text)).because(error)
            }
            Error::Unavailable { .. } => {
                let text = "the store cannot be reached, nothing was written";
                Self::new(Status::service_unavailable(text)).because(error)
            }
            Error::Unknown { .. } => {
                let text = "the store did not answer in time, and the write may have happened";
                Self::new(Status::timeout(text)).because(error)
            }
            Error::Closed => {
                Self::new(Status::service_unavailable("the server is shutting down")).because(error)
            }
            Error::Malformed { .. } | Error::Corrupt { .. } => Self::internal(error),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.content {
            Content::Status(status) => fmt::Display::fmt(status, f),
            Content::NoSuchPath => f.write_str("404 page not found"),
            Content::MovedTo(path) => write!(f, "moved to {path}"),
        }
    }
}

impl std::error::Error for Refusal {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause
            .as_ref()
            .map(|cause| &**cause as &(dyn std::error::Error + 'static))
    }
}
