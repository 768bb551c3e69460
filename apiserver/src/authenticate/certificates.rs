//! Knows users by client certificates of authorities that the operator has named, as kube-apiserver's `--client-ca-file` does: the common
//! name is the user, organizations are groups.
//!
//! # Invariants
//! - Such a certificate makes people, never a controller, a syncer, a ServiceAccount or a master: [`UserInfo::of_issuer`].
//! - What a certificate made somebody ends with the trust in its authority: connections, watches, passes.
//! - A file that cannot be used leaves the authorities of before in place.
//!
//! Source: `apiserver/pkg/authentication/request/x509/x509.go`, `apiserver/pkg/server/dynamiccertificates/dynamic_cafile_content.go`.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use arc_swap::ArcSwap;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use super::reread;
use crate::{
    request::{CertifiedUser, ForeignCertificate, UserInfo},
    tls::{AuthoritiesError, ClientAuthorities, certificate_user},
};

/// Why the authorities of client certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateUsersError {
    /// The file cannot be read.
    #[error("{} cannot be read", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// What is in it cannot be used.
    #[error("the certificate authorities in {} cannot be used", path.display())]
    Authorities {
        /// Which one.
        path: PathBuf,
        /// Why not.
        #[source]
        source: AuthoritiesError,
    },
}

/// Users with client certificates of the operator's authorities.
#[derive(Debug)]
pub(crate) struct CertificateUsers {
    file: PathBuf,
    trusted: ArcSwap<Trusted>,
    /// Counts contents of the file, so that a verdict on a certificate is known to be of now.
    generations: AtomicU64,
}

/// What the file says.
#[derive(Debug)]
struct Trusted {
    generation: u64,
    authorities: ClientAuthorities,
    /// A digest of the file.
    mark: Arc<str>,
}

// === impl CertificateUsers ===

impl CertificateUsers {
    /// Reads the authorities from a file of PEM.
    ///
    /// # Errors
    /// [`CertificateUsersError`].
    pub(crate) fn open(file: PathBuf) -> Result<Self, CertificateUsersError> {
        let (bundle, mark) = read(&file)?;
        Ok(Self {
            trusted: ArcSwap::from_pointee(Trusted {
                generation: 0,
                authorities: authorities_of(&file, &bundle)?,
                mark,
            }),
            generations: AtomicU64::new(1),
            file,
        })
    }

    /// Reads the file again and again.
    pub(crate) async fn follow(self: Arc<Self>, shutdown: CancellationToken) {
        let read = || self.read_again();
        reread::follow(&self.file, "client certificates", read, shutdown).await;
    }

    fn read_again(&self) -> Result<(), CertificateUsersError> {
        let (bundle, mark) = read(&self.file)?;
        if self.trusted.load().mark == mark {
            return Ok(());
        }
        self.trusted.store(Arc::new(Trusted {
            authorities: authorities_of(&self.file, &bundle)?,
            generation: self.generations.fetch_add(1, Ordering::Relaxed),
            mark,
        }));
        tracing::info!(file = %self.file.display(), "reloaded the authorities of client certificates");
        Ok(())
    }

    /// Returns whose a certificate is now.
    pub(crate) fn find(
        &self,
        certificate: &ForeignCertificate,
        now: Timestamp,
    ) -> Option<CertifiedUser> {
        let trusted = self.trusted.load();
        let found = certificate
            .as_user
            .or_look(trusted.generation, || trusted.look(certificate, now));
        found.filter(|it| now.as_second() <= it.not_after)
    }

    /// The mark of the authorities, for what is made with a certificate of theirs.
    pub(crate) fn mark(&self) -> Arc<str> {
        Arc::clone(&self.trusted.load().mark)
    }

    /// Whether these are still the authorities of a mark.
    pub(crate) fn have(&self, mark: &str) -> bool {
        *self.trusted.load().mark == *mark
    }
}

// === impl Trusted ===

impl Trusted {
    fn look(&self, certificate: &ForeignCertificate, now: Timestamp) -> Option<CertifiedUser> {
        let verified = self.authorities.verify(certificate.chain(), now)?;
        let named = certificate_user(certificate.chain().first()?);
        let named = named.map_err(|error| dialect::error_chain(&error));
        match named.and_then(|(user, _)| UserInfo::of_issuer(user)) {
            Ok(user) => Some(CertifiedUser {
                user: Arc::new(user),
                not_after: verified.not_after,
            }),
            Err(error) => {
                tracing::warn!(error, "client certificate names no user of this hub");
                None
            }
        }
    }
}

fn read(file: &Path) -> Result<(Vec<u8>, Arc<str>), CertificateUsersError> {
    let bundle = std::fs::read(file).map_err(|source| CertificateUsersError::File {
        path: file.to_owned(),
        source,
    })?;
    let mark = URL_SAFE_NO_PAD.encode(Sha256::digest(&bundle));
    Ok((bundle, mark.into()))
}

fn authorities_of(file: &Path, bundle: &[u8]) -> Result<ClientAuthorities, CertificateUsersError> {
    ClientAuthorities::from_pem(bundle).map_err(|source| CertificateUsersError::Authorities {
        path: file.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests;
