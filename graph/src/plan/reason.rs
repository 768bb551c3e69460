//! Why a node is as it is, in a word that a program can read. kro has its states alone.

/// Why a node is as it is.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum NodeReason {
    /// It is as wanted, and ready.
    Ready,
    /// One of its `includeWhen` is false.
    IncludeWhenFalse,
    /// Something that it depends on is not wanted.
    DependencySkipped,
    /// An `includeWhen` reads what is not there yet, or not ready.
    IncludeWhenPending,
    /// Something that it depends on is not ready.
    DependencyNotReady,
    /// An expression reads a field that is not there yet.
    DataPending,
    /// Its objects are about to change.
    Applying,
    /// One of its objects is being deleted.
    Deleting,
    /// Its objects are there, and a `readyWhen` is not true.
    ReadyWhenNotTrue,
    /// Not all of its objects were seen yet.
    NotObserved,
    /// What it refers to was not read yet.
    NotReadYet,
    /// What it refers to is not there.
    NotFound,
    /// What it refers to cannot be read.
    Unreadable,
    /// An `includeWhen` failed.
    IncludeWhenFailed,
    /// The readiness of something that it depends on failed.
    DependencyFailed,
    /// Its `readyWhen` failed.
    ReadyWhenFailed,
    /// What it wants cannot be told: an expression failed, or what came of it is not allowed.
    ResolutionFailed,
    /// An object of somebody else is where one of its own should be, or another writer has a field.
    Conflict,
    /// The cluster does not permit a write.
    Denied,
    /// The cluster takes a write for wrong.
    Invalid,
    /// A write failed for another reason.
    ApplyFailed,
    /// Its objects would be deleted with most of the instance's, once somebody confirms that.
    ConfirmationRequired,
    /// Something before it failed, so that it was not looked at.
    NotReached,
}

// === impl NodeReason ===

impl NodeReason {
    /// Names the reason as it stands in the status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::IncludeWhenFalse => "IncludeWhenFalse",
            Self::DependencySkipped => "DependencySkipped",
            Self::IncludeWhenPending => "IncludeWhenPending",
            Self::DependencyNotReady => "DependencyNotReady",
            Self::DataPending => "DataPending",
            Self::Applying => "Applying",
            Self::Deleting => "Deleting",
            Self::ReadyWhenNotTrue => "ReadyWhenNotTrue",
            Self::NotObserved => "NotObserved",
            Self::NotReadYet => "NotReadYet",
            Self::NotFound => "NotFound",
            Self::Unreadable => "Unreadable",
            Self::IncludeWhenFailed => "IncludeWhenFailed",
            Self::DependencyFailed => "DependencyFailed",
            Self::ReadyWhenFailed => "ReadyWhenFailed",
            Self::ResolutionFailed => "ResolutionFailed",
            Self::Conflict => "Conflict",
            Self::Denied => "Denied",
            Self::Invalid => "Invalid",
            Self::ApplyFailed => "ApplyFailed",
            Self::ConfirmationRequired => "ConfirmationRequired",
            Self::NotReached => "NotReached",
        }
    }

    /// Whether the node only waits for another one, which is the one to look at.
    pub(crate) fn waits_for_others(self) -> bool {
        matches!(
            self,
            Self::IncludeWhenPending
                | Self::DependencyNotReady
                | Self::DependencyFailed
                | Self::DataPending
                | Self::NotReached
        )
    }
}
