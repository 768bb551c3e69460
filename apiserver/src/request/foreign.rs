//! A client certificate that is no user's of the hub.

use std::fmt;

use parking_lot::Mutex;
use rustls::pki_types::CertificateDer;

/// A certificate that the hub's CA has not signed, with those that were shown beside it.
pub struct ForeignCertificate {
    chain: Vec<CertificateDer<'static>>,
    /// Guards what the last look at it came to: by the authorities of which generation, and the last second in which it is good, if it is.
    /// A leaf of the lock order.
    seen: Mutex<Option<(u64, Option<i64>)>>,
}

// === impl ForeignCertificate ===

impl ForeignCertificate {
    /// Keeps a chain.
    pub(crate) fn new(chain: &[CertificateDer<'_>]) -> Self {
        Self {
            chain: chain.iter().map(|it| it.clone().into_owned()).collect(),
            seen: Mutex::default(),
        }
    }

    /// Returns the last second since 1970 in which the certificate is good by the authorities of a generation; `look` verifies it, once for each
    /// of them.
    pub(crate) fn good_until(
        &self,
        generation: u64,
        look: impl FnOnce(&[CertificateDer<'_>]) -> Option<i64>,
    ) -> Option<i64> {
        if let Some((seen, until)) = *self.seen.lock()
            && seen == generation
        {
            return until;
        }
        let until = look(&self.chain);
        *self.seen.lock() = Some((generation, until));
        until
    }

    /// The last second in which it is good, as far as it was looked at.
    pub(super) fn not_after(&self) -> Option<i64> {
        self.seen.lock().and_then(|(_, until)| until)
    }
}

impl fmt::Debug for ForeignCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignCertificate").finish_non_exhaustive()
    }
}
