//! Why what a server sends cannot be read.

use crate::error::{BoundError, Error};

/// An answer that is not what was asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DecodeError {
    /// It is no JSON, or not of the shape.
    #[error("unreadable: {0}")]
    Json(#[from] serde_json::Error),
    /// It is more than the cluster may make this client hold.
    #[error(transparent)]
    Bound(#[from] BoundError),
    /// It is an object, but no list.
    #[error("a {kind} came in place of a list")]
    NotAList {
        /// What it is.
        kind: String,
    },
    /// It is a line of a watch of an unknown type.
    #[error("a watch event of the unknown type {type_:?} came")]
    UnknownEvent {
        /// What it says.
        type_: String,
    },
}

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        match error {
            DecodeError::Bound(bound) => Self::Bound(bound),
            other => Self::Transport(other.into()),
        }
    }
}
