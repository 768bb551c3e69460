//! Authorities of others, whose client certificates mean something here: a front proxy's, or a user's.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::{fmt, ops::RangeInclusive, sync::Arc, time::Duration};

use jiff::Timestamp;
use rustls::{
    RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, UnixTime, pem::PemObject},
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};

use super::subject::{common_name, last_second_of, validity_of};

/// Verifies client certificates against authorities that are not the hub's.
pub(crate) struct ClientAuthorities {
    roots: Vec<Root>,
}

/// One of them. It is good in its own time alone, which rustls does not look at.
struct Root {
    judge: Arc<dyn ClientCertVerifier>,
    /// Seconds since 1970.
    good: RangeInclusive<i64>,
}

/// What a certificate that verifies says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VerifiedClient {
    /// The common name; empty without one.
    pub(crate) common_name: String,
    /// The last second since 1970 in which the whole chain is good.
    pub(crate) not_after: i64,
}

/// Why a bundle of authorities cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AuthoritiesError {
    /// It has no certificates.
    #[error("it has no certificates in PEM")]
    Empty,
    /// It cannot be read.
    #[error("it is no PEM of certificates")]
    Malformed(#[source] rustls::pki_types::pem::Error),
    /// rustls does not take it.
    #[error("one of its certificates cannot be used")]
    Unusable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// It has the hub's own authority, and every user of the hub a certificate of that.
    #[error(
        "it has the hub's own authority: every user with a certificate of the hub's could say to be any other"
    )]
    Own,
    /// Users have certificates too, and nothing tells theirs from those of front proxies.
    #[error(
        "users have certificates of --client-ca-file: say which names front proxies have, with --requestheader-allowed-names, or in the \
         host's ConfigMap"
    )]
    Unnamed,
}

// === impl ClientAuthorities ===

impl ClientAuthorities {
    /// Reads a bundle of PEM that does not have `own`, the hub's authority.
    ///
    /// # Errors
    /// [`AuthoritiesError`].
    pub(crate) fn from_pem_without(pem: &[u8], own: &str) -> Result<Self, AuthoritiesError> {
        let own = CertificateDer::from_pem_slice(own.as_bytes());
        let own = own.map_err(AuthoritiesError::Malformed)?;
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(AuthoritiesError::Malformed)?;
            if has_key_of(&certificate, &own) {
                return Err(AuthoritiesError::Own);
            }
        }
        Self::from_pem(pem)
    }

    /// Reads a bundle of PEM.
    ///
    /// # Errors
    /// [`AuthoritiesError`], but for [`AuthoritiesError::Own`].
    pub(crate) fn from_pem(pem: &[u8]) -> Result<Self, AuthoritiesError> {
        let mut roots = Vec::new();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            roots.push(Root::new(
                certificate.map_err(AuthoritiesError::Malformed)?,
            )?);
        }
        if roots.is_empty() {
            return Err(AuthoritiesError::Empty);
        }
        Ok(Self { roots })
    }

    /// Verifies a chain, of which the first is the client's own certificate.
    pub(crate) fn verify(
        &self,
        chain: &[CertificateDer<'_>],
        now: Timestamp,
    ) -> Option<VerifiedClient> {
        let (end_entity, intermediates) = chain.split_first()?;
        let seconds = u64::try_from(now.as_second()).ok()?;
        let at = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let good = self
            .roots
            .iter()
            .filter(|root| root.good.contains(&now.as_second()));
        let verified = good.map(|root| {
            let verified = root.judge.verify_client_cert(end_entity, intermediates, at);
            verified.map(|_verified| *root.good.end())
        });
        let last_seconds = verified.filter_map(|verified| {
            let told =
                |error: &rustls::Error| tracing::debug!(%error, "client certificate is not valid");
            verified.inspect_err(told).ok()
        });
        let mut not_after = last_seconds.max()?.min(last_second_of(end_entity)?);
        for intermediate in intermediates {
            not_after = not_after.min(last_second_of(intermediate)?);
        }
        Some(VerifiedClient {
            common_name: common_name(end_entity).unwrap_or_default(),
            not_after,
        })
    }
}

// === impl Root ===

impl Root {
    fn new(certificate: CertificateDer<'static>) -> Result<Self, AuthoritiesError> {
        let unreadable = || AuthoritiesError::Unusable("it is no certificate".into());
        let good = validity_of(&certificate).ok_or_else(unreadable)?;
        let mut store = RootCertStore::empty();
        let added = store.add(certificate);
        added.map_err(|error| AuthoritiesError::Unusable(error.into()))?;
        let provider = Arc::new(ring::default_provider());
        let judge = WebPkiClientVerifier::builder_with_provider(Arc::new(store), provider).build();
        let judge = judge.map_err(|error| AuthoritiesError::Unusable(error.into()))?;
        Ok(Self { judge, good })
    }
}

impl fmt::Debug for ClientAuthorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientAuthorities").finish_non_exhaustive()
    }
}

/// Whether two certificates are for the same key. An authority that is renewed, or signed by another one, keeps it.
fn has_key_of(one: &CertificateDer<'_>, other: &CertificateDer<'_>) -> bool {
    use x509_parser::prelude::{FromDer, X509Certificate};
    let key = |der: &CertificateDer<'_>| {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        Some(certificate.public_key().raw.to_vec())
    };
    key(one).is_some_and(|one| key(other).is_some_and(|other| one == other))
}
