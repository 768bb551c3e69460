//! Believes what a front proxy says of the one whose request it relays: kube-apiserver's aggregation layer, which says it in headers.
//!
//! # Invariants
//! - Headers count only over a connection whose client certificate verifies against the front proxy's own authorities, and has one of the
//!   names that are allowed. Such a certificate never names a user itself: without the headers it is a bad one.
//! - The hub's authority is none of them ([`AuthoritiesError::Own`]), and where users have certificates of other authorities, front proxies
//!   are known by name ([`AuthoritiesError::Unnamed`]): a user's certificate never makes headers believed.
//! - The headers are taken off every request, whoever sends it, so that nothing behind this point sees or relays them.
//! - Settings that cannot be read leave the ones of before in place, and believe nobody where there were none.
//!
//! Source: `apiserver/pkg/authentication/request/headerrequest/requestheader.go`, `.../request/x509/x509.go`,
//! `apiserver/pkg/server/options/authentication.go`.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use arc_swap::ArcSwapOption;
use http::HeaderMap;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::reread;
use crate::{
    config::RequestHeaders,
    request::{ForeignCertificate, HeaderNames, UserInfo},
    tls::{AuthoritiesError, ClientAuthorities, ClientCertificates},
};

/// Why the settings of a front proxy cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FrontProxyError {
    /// The file of the authorities cannot be read.
    #[error("{} cannot be read", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The authorities cannot be used.
    #[error("the authorities of the front proxy cannot be used")]
    Authorities(#[from] AuthoritiesError),
}

/// What is believed now, if anything.
#[derive(Debug, Default)]
pub(crate) struct FrontProxy {
    trusted: ArcSwapOption<Trusted>,
    /// Counts settings, so that a verdict on a certificate is known to be of now.
    generations: AtomicU64,
    /// Which certificates users are asked for.
    of_users: ClientCertificates,
}

/// Who is believed, and which headers.
#[derive(Debug)]
struct Trusted {
    generation: u64,
    authorities: ClientAuthorities,
    bundle: Vec<u8>,
    /// Empty: any.
    allowed_names: Vec<String>,
    names: HeaderNames,
}

// === impl FrontProxy ===

impl FrontProxy {
    /// Makes a front proxy that nobody is believed to be yet, beside users that are asked for certificates.
    pub(crate) fn new(of_users: ClientCertificates) -> Self {
        Self {
            of_users,
            ..Self::default()
        }
    }

    /// Believes front proxies whose certificates `bundle` verifies, a PEM of authorities. `own` is the hub's authority. What is
    /// believed already stays as it is.
    ///
    /// # Errors
    /// [`AuthoritiesError`]; what was believed before goes on.
    pub(crate) fn trust(
        &self,
        bundle: &[u8],
        allowed_names: &[String],
        names: &HeaderNames,
        own: &str,
    ) -> Result<(), AuthoritiesError> {
        let is_same = |it: &Trusted| {
            it.bundle == bundle && it.allowed_names == allowed_names && it.names == *names
        };
        if self.trusted.load().as_deref().is_some_and(is_same) {
            return Ok(());
        }
        if self.of_users == ClientCertificates::Any && allowed_names.is_empty() {
            return Err(AuthoritiesError::Unnamed);
        }
        let authorities = ClientAuthorities::from_pem_without(bundle, own)?;
        self.trusted.store(Some(Arc::new(Trusted {
            generation: self.generations.fetch_add(1, Ordering::Relaxed),
            authorities,
            bundle: bundle.to_owned(),
            allowed_names: allowed_names.to_owned(),
            names: names.clone(),
        })));
        tracing::info!("reloaded the front proxy settings");
        Ok(())
    }

    /// Believes nobody any more.
    pub(crate) fn trust_nobody(&self) {
        if self.trusted.swap(None).is_some() {
            tracing::warn!("headers of front proxies are no longer trusted");
        }
    }

    /// Whether a certificate is a front proxy's now.
    pub(crate) fn accepts(&self, certificate: &ForeignCertificate, now: Timestamp) -> bool {
        let trusted = self.trusted.load();
        trusted
            .as_ref()
            .is_some_and(|it| it.accepts(certificate, now))
    }

    /// Returns whose request it is, as its front proxy says; `None` where it is no front proxy's, or says nothing that can be believed.
    pub(crate) fn read(
        &self,
        headers: &HeaderMap,
        certificate: &ForeignCertificate,
        now: Timestamp,
    ) -> Option<Arc<UserInfo>> {
        let trusted = self.trusted.load();
        let trusted = trusted.as_ref().filter(|it| it.accepts(certificate, now))?;
        let user = trusted.names.read(headers).and_then(UserInfo::of_host)?;
        Some(Arc::new(user))
    }

    /// Takes off a request what a front proxy may say in it.
    pub(crate) fn clear(&self, headers: &mut HeaderMap) {
        match &*self.trusted.load() {
            Some(trusted) => trusted.names.clear(headers),
            None => HeaderNames::clear_usual(headers),
        }
    }

    /// Reads the authorities from a file.
    ///
    /// # Errors
    /// Where it cannot be read, or used.
    pub(crate) fn read_file(
        &self,
        settings: &RequestHeaders,
        own: &str,
    ) -> Result<(), FrontProxyError> {
        let path = &settings.client_ca_file;
        let bundle = std::fs::read(path).map_err(|source| FrontProxyError::File {
            path: path.to_owned(),
            source,
        })?;
        Ok(self.trust(&bundle, &settings.allowed_names, &settings.names, own)?)
    }

    /// Reads the authorities from a file again and again.
    pub(crate) async fn follow_file(
        self: Arc<Self>,
        settings: RequestHeaders,
        own: String,
        shutdown: CancellationToken,
    ) {
        let read = || self.read_file(&settings, &own);
        reread::follow(&settings.client_ca_file, "front proxies", read, shutdown).await;
    }
}

// === impl Trusted ===

impl Trusted {
    fn accepts(&self, certificate: &ForeignCertificate, now: Timestamp) -> bool {
        let until = certificate.as_proxy.or_look(self.generation, || {
            let verified = self.authorities.verify(certificate.chain(), now)?;
            let is_allowed =
                self.allowed_names.is_empty() || self.allowed_names.contains(&verified.common_name);
            if !is_allowed {
                tracing::debug!(
                    name = verified.common_name,
                    "the name of a front proxy is not allowed"
                );
            }
            is_allowed.then_some(verified.not_after)
        });
        until.is_some_and(|until| now.as_second() <= until)
    }
}

#[cfg(test)]
mod tests;
