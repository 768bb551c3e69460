//! What goes wrong between here and etcd, and what it means for a write.

use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;
use crate::store::VALUE_BYTES_MAX;

/// Why a request to etcd has no answer, or not the one that it should have.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// No connection.
    #[error("cannot connect to {endpoint}")]
    Connect {
        endpoint: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No answer in time.
    #[error("etcd did not answer {what} within {within:?}")]
    Deadline {
        what: &'static str,
        within: Duration,
    },
    /// An answer that says no, or a connection that broke.
    #[error("etcd refused {what}")]
    Status {
        what: &'static str,
        #[source]
        source: tonic::Status,
    },
    /// An answer that etcd's API does not have.
    #[error("etcd answered {what} with {reason}")]
    Protocol {
        what: &'static str,
        reason: &'static str,
    },
    /// The stream of watches ended.
    #[error("the watch ended: {reason}")]
    WatchEnded { reason: String },
    /// The history that a watch or a read needs is gone.
    #[error("etcd has compacted history up to {revision}")]
    Compacted { revision: i64 },
    /// The watch does not tell what etcd says there is.
    #[error("the watch stays behind revision {revision}")]
    WatchLags { revision: i64 },
    /// Another replica began another epoch.
    #[error("another replica changed the store's epoch")]
    EpochChanged,
    /// It is gone before it answered.
    #[error("the connection to etcd is gone")]
    ConnectionLost,
    /// Nothing can be written under the ticket any more.
    #[error("the ticket of this replica is gone")]
    TicketGone,
    /// The store that was served is not in etcd any more.
    #[error("the store {id} is no longer in this etcd")]
    StoreGone { id: String },
    /// A value is not what a hub writes.
    #[error("{place} is corrupt: {reason}")]
    Corrupt { place: String, reason: String },
    /// A later version of this software keeps the store.
    #[error("the store has format {found}")]
    UnknownFormat { found: u32 },
    /// Nothing has been tried yet.
    #[error("there is no connection to etcd yet")]
    NotYet,
}

// === impl Failure ===

impl Failure {
    /// Whether the answer was larger than this side takes in.
    pub(crate) fn is_too_large(&self) -> bool {
        matches!(self, Self::Status { source, .. } if source.code() == tonic::Code::OutOfRange)
    }

    /// Whether etcd has reached its quota and takes nothing until its alarm is disarmed. It says so before anything is
    /// proposed, or instead of what was.
    pub(crate) fn is_storage_full(&self) -> bool {
        matches!(self, Self::Status { source, .. }
            if source.code() == tonic::Code::ResourceExhausted
                && source.message().contains("database space exceeded"))
    }

    /// Whether trying again can never help: the operator has to do something.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            Self::Corrupt { .. } | Self::UnknownFormat { .. } | Self::StoreGone { .. } => true,
            Self::Status { source, .. } => matches!(
                source.code(),
                tonic::Code::Unauthenticated | tonic::Code::PermissionDenied
            ),
            _ => false,
        }
    }

    /// What a write is told whose transaction was sent and failed so.
    pub(crate) fn of_write(self) -> Error {
        let Self::Status { source, .. } = &self else {
            return Error::Unknown {
                source: Arc::new(self),
            };
        };
        let says = |text| source.message().contains(text);
        let too_large = says("request is too large") || says("larger than max");
        if too_large || says("too many operations") {
            // Etcd's own limits (--max-request-bytes, --max-txn-ops) are lower than ours here.
            tracing::warn!(
                error = source.message(),
                "etcd refuses a batch of this size"
            );
            return Error::TooLarge {
                what: "batch (for this etcd's limits)",
                size: VALUE_BYTES_MAX,
                limit: 0,
            };
        }
        if self.is_storage_full() {
            let source = Arc::new(self);
            return Error::StorageFull { source };
        }
        // These are refused before anything is proposed.
        let nothing_written = says("no leader")
            || says("too many requests")
            || matches!(
                source.code(),
                tonic::Code::InvalidArgument
                    | tonic::Code::PermissionDenied
                    | tonic::Code::Unauthenticated
            );
        let source = Arc::new(self);
        if nothing_written {
            return Error::Unavailable { source };
        }
        Error::Unknown { source }
    }
}
