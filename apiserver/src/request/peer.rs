//! What is known about the other end of a connection before any request is read.

use std::sync::Arc;

use api::wheelhouse::author::Author;
use jiff::Timestamp;

use super::{ForeignCertificate, RequestOrigin, UserInfo};

/// The other end of a connection.
#[derive(Clone, Debug)]
pub enum Peer {
    /// It showed no certificate.
    Unknown,
    /// It showed one.
    Certificate(CertificateIdentity),
    /// It is a controller in this process.
    InProcess(Arc<UserInfo>),
}

/// What a client certificate says.
#[derive(Clone, Debug)]
pub enum CertificateIdentity {
    /// It is signed by the hub's CA, for clients, and was in its time when the connection began.
    Good {
        /// Whose it is.
        user: Arc<UserInfo>,
        /// The last second since 1970 in which it is good.
        not_after: i64,
    },
    /// It is not, and may be a front proxy's or a user's of another authority, which is looked at for each request.
    Foreign(Arc<ForeignCertificate>),
    /// It is not.
    Bad,
}

// === impl Peer ===

impl Peer {
    /// Where its requests come from.
    ///
    /// A syncer in a process of its own is known by its certificate alone: nothing that is in a request makes one, and the
    /// hub signs that certificate for nobody else ([`crate::hub::Hub::syncer_kubeconfig`]).
    pub(crate) fn origin(&self, now: Timestamp) -> RequestOrigin {
        match self {
            Self::InProcess(_) => RequestOrigin::InProcess,
            Self::Certificate(CertificateIdentity::Good { user, not_after })
                if now.as_second() <= *not_after && is_syncer(user) =>
            {
                RequestOrigin::Syncer
            }
            Self::Unknown | Self::Certificate(_) => RequestOrigin::Network,
        }
    }

    /// The last second since 1970 in which the certificate of the other end is good; `None` where it has shown no good one.
    pub(crate) fn not_after(&self) -> Option<i64> {
        match self {
            Self::Certificate(CertificateIdentity::Good { not_after, .. }) => Some(*not_after),
            Self::Certificate(CertificateIdentity::Foreign(certificate)) => certificate.not_after(),
            Self::Certificate(CertificateIdentity::Bad) | Self::Unknown | Self::InProcess(_) => {
                None
            }
        }
    }
}

/// Whether a certificate names the syncer, as the hub writes it.
fn is_syncer(user: &UserInfo) -> bool {
    Author::is_hub(&user.username) && user.is_master_of_hub()
}
