//! Why a spoke cannot be connected.

use api::wheelhouse::keys::LABEL_SPOKE_SECRET as SECRET_LABEL;

/// Why a spoke cannot be connected. Its text is the message of the Spoke's condition and
/// of the 503 of its path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The Spoke cannot be read.
    #[error("the Spoke cannot be read: {0}")]
    Unreadable(String),
    /// The Spoke is suspended.
    #[error("suspended by spec.suspended")]
    Suspended,
    /// It names no Secret.
    #[error("spec.connection.secretRef is missing")]
    NoReference,
    /// The Secret is not there.
    #[error(
        "secret {place} is missing: make it again, or give a credential with wheelhouse spoke add"
    )]
    SecretMissing {
        /// Namespace and name.
        place: String,
    },
    /// The Secret is not for this spoke.
    #[error(
        "secret {place} may not be used for spoke {spoke:?}: label it {SECRET_LABEL}={spoke}, or move it to namespace \
         {secrets_namespace:?}"
    )]
    SecretNotForSpoke {
        /// Namespace and name.
        place: String,
        /// The spoke.
        spoke: String,
        /// Whose Secrets need no label.
        secrets_namespace: String,
    },
    /// The Secret does not have the key, or not as base64 of UTF-8.
    #[error("secret {place} has no key {key:?}")]
    KeyMissing {
        /// Namespace and name.
        place: String,
        /// The key.
        key: String,
    },
    /// No kubeconfig file of this process has a context of its name.
    #[error(
        "no kubeconfig file of this hub (--spoke-kubeconfig) has a context of the name {spoke:?}"
    )]
    NotInFile {
        /// The spoke.
        spoke: String,
    },
    /// It names no ClusterProfile.
    #[error("spec.connection.clusterProfileRef is missing")]
    NoProfileReference,
    /// The ClusterProfile is in a namespace that is not read.
    #[error(
        "ClusterProfile {place} may not be used: this hub does not read that namespace (--cluster-profile-namespace)"
    )]
    ProfileNotRead {
        /// Namespace and name.
        place: String,
    },
    /// The ClusterProfile is not there.
    #[error("ClusterProfile {place} is missing")]
    ProfileMissing {
        /// Namespace and name.
        place: String,
    },
    /// The ClusterProfile has no access provider of the operator.
    #[error(
        "{place}: it has no access provider that this hub has (--clusterprofile-provider-file): {names}"
    )]
    NoAccessProvider {
        /// What names it.
        place: String,
        /// Those that this hub has.
        names: String,
    },
    /// The kubeconfig cannot be used.
    #[error("{place}: {reason}")]
    Kubeconfig {
        /// Where it stands.
        place: String,
        /// Why not.
        reason: String,
    },
    /// A file or a program of the hub's machine gave no credential.
    #[error("{place}: {reason}")]
    Local {
        /// What names it.
        place: String,
        /// Why not.
        reason: String,
    },
    /// The server is one that a credential must not be sent to.
    #[error("{place}: {reason}")]
    Server {
        /// Where the kubeconfig stands.
        place: String,
        /// Why not.
        reason: &'static str,
    },
    /// This hub serves the cluster itself: there is no server to connect to.
    #[error("it is served by this hub itself")]
    Embedded,
    /// Its credential has not been read yet.
    #[error("its connection is being made")]
    Pending,
    /// The cluster is not the one that the Spoke is for, as the Spoke's condition `Identified` says.
    #[error("{0}")]
    Identity(String),
}

// === impl Fault ===

impl Fault {
    /// Whether it says that a credential is not to be used any more, and not that another one cannot be used.
    pub(crate) const fn is_withdrawal(&self) -> bool {
        !matches!(
            self,
            Self::Kubeconfig { .. } | Self::Local { .. } | Self::Server { .. }
        )
    }

    /// Whether it may end without a change that anybody tells of: a program or a file of the hub's machine failed.
    pub(crate) const fn may_pass(&self) -> bool {
        matches!(self, Self::Local { .. })
    }
}
