//! A client certificate that the hub's own authority has not signed.

use std::{fmt, sync::Arc};

use parking_lot::Mutex;
use rustls::pki_types::CertificateDer;

use super::UserInfo;

/// A certificate that the hub's CA has not signed, with those that were shown beside it, and what was found out about it.
pub struct ForeignCertificate {
    chain: Vec<CertificateDer<'static>>,
    /// As a front proxy's: the last second in which it is good.
    pub(crate) as_proxy: Seen<i64>,
    /// As a user's.
    pub(crate) as_user: Seen<CertifiedUser>,
}

/// Whose a certificate is.
#[derive(Clone, Debug)]
pub(crate) struct CertifiedUser {
    /// Who it is.
    pub(crate) user: Arc<UserInfo>,
    /// The last second since 1970 in which the whole chain is good.
    pub(crate) not_after: i64,
}

/// What the last look at a certificate came to.
pub(crate) struct Seen<T> {
    /// By the authorities of which generation, and what it was, if it was good. A leaf of the lock order.
    last: Mutex<Option<(u64, Option<T>)>>,
}

// === impl ForeignCertificate ===

impl ForeignCertificate {
    /// Keeps a chain.
    pub(crate) fn new(chain: &[CertificateDer<'_>]) -> Self {
        Self {
            chain: chain.iter().map(|it| it.clone().into_owned()).collect(),
            as_proxy: Seen::default(),
            as_user: Seen::default(),
        }
    }

    /// The certificate, and those that were shown beside it.
    pub(crate) fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }

    /// The last second in which it is good, as far as it was looked at.
    pub(super) fn not_after(&self) -> Option<i64> {
        let as_user = || self.as_user.last().map(|it| it.not_after);
        self.as_proxy.last().or_else(as_user)
    }
}

impl fmt::Debug for ForeignCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignCertificate").finish_non_exhaustive()
    }
}

// === impl Seen ===

impl<T: Clone> Seen<T> {
    /// Returns what a certificate is by the authorities of a generation; `look` verifies it, once for each of them.
    pub(crate) fn or_look(&self, generation: u64, look: impl FnOnce() -> Option<T>) -> Option<T> {
        if let Some((seen, found)) = &*self.last.lock()
            && *seen == generation
        {
            return found.clone();
        }
        let found = look();
        *self.last.lock() = Some((generation, found.clone()));
        found
    }

    fn last(&self) -> Option<T> {
        self.last
            .lock()
            .as_ref()
            .and_then(|(_, found)| found.clone())
    }
}

impl<T> Default for Seen<T> {
    fn default() -> Self {
        Self {
            last: Mutex::default(),
        }
    }
}
