//! Which certificate a client is shown.
//!
//! The operator's, where there is one, and the hub's own otherwise. Kubeconfigs that the hub makes have the hub's own authority in
//! them: they ask for [`OWN_NAME`], and are shown the hub's own certificate whatever the operator's is.
//!
//! # Invariants
//! - A certificate is shown with its own key, and both are replaced at once: files that are half written are not taken.
//! - What cannot be used takes the place of nothing.

use std::{fmt, path::PathBuf, sync::Arc};

use arc_swap::{ArcSwap, ArcSwapOption};
use rustls::{
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};

use super::{Error, IssuedCertificate, OWN_NAME, authority::failed};

/// The operator's serving certificate. Read again when one of the files changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServingFiles {
    /// The certificate and what it is signed by, but for the root, as PEM.
    pub certificate: PathBuf,
    /// Its private key as PEM.
    pub key: PathBuf,
}

/// What clients are shown.
pub(super) struct Serving {
    own: ArcSwap<CertifiedKey>,
    given: ArcSwapOption<CertifiedKey>,
}

// === impl Serving ===

impl Serving {
    pub(super) fn new(own: &IssuedCertificate, provider: &CryptoProvider) -> Result<Self, Error> {
        Ok(Self {
            own: ArcSwap::from_pointee(own.certified(provider)?),
            given: ArcSwapOption::empty(),
        })
    }

    /// Shows another certificate of the hub's own from now on.
    pub(super) fn renew(
        &self,
        own: &IssuedCertificate,
        provider: &CryptoProvider,
    ) -> Result<(), Error> {
        self.own.store(Arc::new(own.certified(provider)?));
        Ok(())
    }

    /// Shows the certificate of these files from now on. Returns whether it is another one than before.
    pub(super) fn read(
        &self,
        from: &ServingFiles,
        provider: &CryptoProvider,
    ) -> Result<bool, Error> {
        let read = certified(from, provider)?;
        let before = self.given.load();
        if before.as_ref().is_some_and(|it| it.cert == read.cert) {
            return Ok(false); // another key would not fit it
        }
        self.given.store(Some(Arc::new(read)));
        Ok(true)
    }

    /// Whether clients are shown a certificate of the operator's.
    pub(super) fn is_given(&self) -> bool {
        self.given.load().is_some()
    }

    pub(super) fn shown(&self, name: Option<&str>) -> Arc<CertifiedKey> {
        let given = self.given.load_full();
        let given = given.filter(|_| name != Some(OWN_NAME));
        given.unwrap_or_else(|| self.own.load_full())
    }
}

impl ResolvesServerCert for Serving {
    fn resolve(&self, client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.shown(client_hello.server_name()))
    }
}

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serving").finish_non_exhaustive()
    }
}

/// Reads a certificate and the key that fits it.
fn certified(from: &ServingFiles, provider: &CryptoProvider) -> Result<CertifiedKey, Error> {
    const WHAT: &str = "serving certificate";
    let text = |path: &PathBuf| {
        std::fs::read_to_string(path).map_err(|source| Error::File {
            action: "read",
            path: path.display().to_string(),
            source,
        })
    };
    let (certificate, key) = (text(&from.certificate)?, text(&from.key)?);
    let chain = CertificateDer::pem_slice_iter(certificate.as_bytes());
    let chain: Result<Vec<_>, _> = chain.collect();
    let chain = chain.map_err(|error| failed("read", WHAT, error))?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes());
    let key = key.map_err(|error| failed("read the key of", WHAT, error))?;
    CertifiedKey::from_der(chain, key, provider).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => Error::Certificate {
            action: "use",
            what: WHAT,
            source: "the key is not that of the certificate".into(),
        },
        error => failed("use", WHAT, error),
    })
}

#[cfg(test)]
mod tests {
    use rustls::crypto::ring;

    use super::*;

    /// A certificate that another authority signed.
    fn issued() -> IssuedCertificate {
        let directory = tempfile::tempdir().unwrap();
        let now = "2026-11-26T10:00:00Z".parse().unwrap();
        let pki = super::super::Pki::open(directory.path(), &[], &[], now).unwrap();
        pki.authority.issue_client("x", None, now).unwrap()
    }

    #[test]
    fn a_certificate_is_taken_with_its_key_or_not_at_all() {
        let provider = ring::default_provider();
        let (own, one, two) = (issued(), issued(), issued());
        let serving = Serving::new(&own, &provider).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let from = ServingFiles {
            certificate: directory.path().join("tls.crt"),
            key: directory.path().join("tls.key"),
        };
        let shown = |name| serving.shown(name).cert.clone();
        let (own, [first, second]) = (
            own.chain().unwrap(),
            [&one, &two].map(|it| it.chain().unwrap()),
        );
        assert!(serving.read(&from, &provider).is_err(), "nothing is there");
        assert_eq!(shown(Some("hub")), own);

        let write = |certificate: &str, key: &str| {
            std::fs::write(&from.certificate, certificate).unwrap();
            std::fs::write(&from.key, key).unwrap();
        };
        write(&one.certificate_pem, &one.key_pem);
        assert!(serving.read(&from, &provider).unwrap());
        assert!(!serving.read(&from, &provider).unwrap(), "the same");
        for (name, want) in [
            (None, &first),
            (Some("hub"), &first),
            (Some(OWN_NAME), &own),
        ] {
            assert_eq!(shown(name), *want, "{name:?}");
        }

        for (what, certificate, key) in [
            ("another's key", &two.certificate_pem, &one.key_pem),
            ("no certificate", &one.key_pem, &one.key_pem),
            ("no key", &one.certificate_pem, &one.certificate_pem),
            ("nothing", &String::new(), &String::new()),
        ] {
            write(certificate, key);
            assert!(serving.read(&from, &provider).is_err(), "{what}");
            assert_eq!(shown(None), first, "{what}");
        }
        write(&two.certificate_pem, &two.key_pem);
        assert!(serving.read(&from, &provider).unwrap());
        assert_eq!(shown(None), second);
    }
}
