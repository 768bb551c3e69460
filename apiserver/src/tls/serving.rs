//! Which certificate a client is shown.
//!
//! The operator's, where there is one, and the hub's own otherwise. Kubeconfigs that the hub makes have the hub's own authority in
//! them: they ask for [`OWN_NAME`], and are shown the hub's own certificate whatever the operator's is.
//!
//! # Invariants
//! - A certificate is shown with its own key, and both are replaced at once: files that are half written are not taken.
//! - What cannot be used takes the place of nothing, and holds up no other certificate.
//!
//! Source: `apiserver/pkg/server/dynamiccertificates/named_certificates.go`, Go's `crypto/tls` (`Config.getCertificate`).

use std::{collections::HashMap, fmt, path::PathBuf, sync::Arc};

use arc_swap::ArcSwap;
use rustls::{
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};

use super::{Error, IssuedCertificate, OWN_NAME, authority::failed, subject::server_names};

/// The operator's serving certificates. Read again when one of the files changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServingCertificates {
    /// What clients are shown that ask for none of the names of `named`; without it, the hub's own.
    pub default: Option<ServingFiles>,
    /// What clients are shown by the name that they ask for: the first that has it.
    pub named: Vec<NamedFiles>,
}

/// A serving certificate of the operator's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServingFiles {
    /// The certificate and what it is signed by, but for the root, as PEM.
    pub certificate: PathBuf,
    /// Its private key as PEM.
    pub key: PathBuf,
}

/// A serving certificate for some names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFiles {
    /// The certificate.
    pub files: ServingFiles,
    /// The names, which may begin with `*.`; empty: those in the certificate, unless another is given for one of them.
    pub names: Vec<String>,
}

/// What clients are shown.
pub(super) struct Serving {
    own: ArcSwap<CertifiedKey>,
    given: ArcSwap<Given>,
}

/// What the operator's files hold.
#[derive(Default)]
struct Given {
    default: Option<Arc<CertifiedKey>>,
    /// In the order of [`ServingCertificates::named`]; `None` for one that was never good.
    named: Vec<Option<Arc<CertifiedKey>>>,
    /// In lower case.
    by_name: HashMap<String, Arc<CertifiedKey>>,
}

// === impl ServingCertificates ===

impl ServingCertificates {
    /// Whether there is none.
    pub(super) const fn is_empty(&self) -> bool {
        self.default.is_none() && self.named.is_empty()
    }
}

// === impl Serving ===

impl Serving {
    pub(super) fn new(own: &IssuedCertificate, provider: &CryptoProvider) -> Result<Self, Error> {
        Ok(Self {
            own: ArcSwap::from_pointee(own.certified(provider)?),
            given: ArcSwap::default(),
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

    /// Shows the certificates of these files from now on. Returns whether one is another than before, and why some cannot be shown.
    pub(super) fn read(
        &self,
        from: &ServingCertificates,
        provider: &CryptoProvider,
    ) -> (bool, Vec<Error>) {
        let before = self.given.load();
        let (mut is_new, mut failed) = (false, Vec::new());
        let mut pair = |files: &ServingFiles, before: Option<&Arc<CertifiedKey>>| {
            match certified(files, provider) {
                // Another key would not fit it.
                Ok(read) if before.is_some_and(|it| it.cert == read.cert) => before.cloned(),
                Ok(read) => {
                    is_new = true;
                    Some(Arc::new(read))
                }
                Err(source) => {
                    failed.push(Error::Pair {
                        path: files.certificate.display().to_string(),
                        source: Box::new(source),
                    });
                    before.cloned()
                }
            }
        };
        let default = from.default.as_ref();
        let default = default.and_then(|files| pair(files, before.default.as_ref()));
        let known = |index: usize| before.named.get(index).and_then(Option::as_ref);
        let named = from.named.iter().enumerate();
        let named = named.map(|(index, it)| pair(&it.files, known(index)));
        let named: Vec<_> = named.collect();
        if is_new {
            let by_name = by_name(&from.named, &named);
            self.given.store(Arc::new(Given {
                default,
                named,
                by_name,
            }));
        }
        (is_new, failed)
    }

    /// Whether clients are shown a certificate of the operator's, under some name at least.
    pub(super) fn is_given(&self) -> bool {
        let given = self.given.load();
        given.default.is_some() || !given.by_name.is_empty()
    }

    /// Returns what a client is shown that asks for a name, or for none.
    pub(super) fn shown(&self, name: Option<&str>) -> Arc<CertifiedKey> {
        if name == Some(OWN_NAME) {
            return self.own.load_full();
        }
        let given = self.given.load();
        let named = name.and_then(|name| given.named(&name.to_ascii_lowercase()));
        let shown = named.or(given.default.as_ref());
        shown.map_or_else(|| self.own.load_full(), Arc::clone)
    }
}

// === impl Given ===

impl Given {
    /// The one for the name itself, or for the wildcard in place of its first label.
    fn named(&self, name: &str) -> Option<&Arc<CertifiedKey>> {
        let wildcard = || {
            let (_, parent) = name.split_once('.')?;
            self.by_name.get(&format!("*.{parent}"))
        };
        self.by_name.get(name).or_else(wildcard)
    }
}

/// Which certificate is shown at which name: names that are said count before those in certificates, and the first certificate of a name.
fn by_name(
    from: &[NamedFiles],
    named: &[Option<Arc<CertifiedKey>>],
) -> HashMap<String, Arc<CertifiedKey>> {
    let keys = || from.iter().zip(named).rev();
    let keys = || keys().filter_map(|(files, key)| Some((files, key.as_ref()?)));
    let unsaid = keys().filter(|(files, _)| files.names.is_empty());
    let unsaid = unsaid.map(|(_, key)| (key.cert.first().map(|it| server_names(it)), key));
    let unsaid = unsaid.map(|(names, key)| (names.unwrap_or_default(), key));
    let said = keys().map(|(files, key)| (files.names.clone(), key));
    let all = unsaid.chain(said);
    let all = all.flat_map(|(names, key)| names.into_iter().map(move |name| (name, key)));
    all.map(|(name, key)| (name.to_ascii_lowercase(), Arc::clone(key)))
        .collect()
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
    fn issued(name: &str) -> IssuedCertificate {
        let directory = tempfile::tempdir().unwrap();
        let now = "2026-11-26T10:00:00Z".parse().unwrap();
        let pki = super::super::Pki::open(directory.path(), &[], &[], now).unwrap();
        pki.authority.issue_client(name, None, now).unwrap()
    }

    #[test]
    fn a_certificate_is_taken_with_its_key_or_not_at_all() {
        let provider = ring::default_provider();
        let (own, one, two) = (issued("x"), issued("x"), issued("x"));
        let serving = Serving::new(&own, &provider).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let files = ServingFiles {
            certificate: directory.path().join("tls.crt"),
            key: directory.path().join("tls.key"),
        };
        let from = ServingCertificates {
            default: Some(files.clone()),
            named: Vec::new(),
        };
        let shown = |name| serving.shown(name).cert.clone();
        let (own, [first, second]) = (
            own.chain().unwrap(),
            [&one, &two].map(|it| it.chain().unwrap()),
        );
        assert_eq!(
            serving.read(&from, &provider).1.len(),
            1,
            "nothing is there"
        );
        assert_eq!(shown(Some("hub")), own);

        let write = |certificate: &str, key: &str| {
            std::fs::write(&files.certificate, certificate).unwrap();
            std::fs::write(&files.key, key).unwrap();
        };
        write(&one.certificate_pem, &one.key_pem);
        assert!(serving.read(&from, &provider).0, "it is new");
        assert!(!serving.read(&from, &provider).0, "the same");
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
            assert_eq!(serving.read(&from, &provider).1.len(), 1, "{what}");
            assert_eq!(shown(None), first, "{what}");
        }
        write(&two.certificate_pem, &two.key_pem);
        assert!(serving.read(&from, &provider).0, "it is new");
        assert_eq!(shown(None), second);
    }

    #[test]
    fn a_name_chooses_its_certificate() {
        let provider = ring::default_provider();
        let directory = tempfile::tempdir().unwrap();
        let serving = Serving::new(&issued("own"), &provider).unwrap();
        let of = |name: &str, names: &[&str]| {
            let files = ServingFiles {
                certificate: directory.path().join(format!("{name}.crt")),
                key: directory.path().join(format!("{name}.key")),
            };
            NamedFiles {
                files,
                names: names.iter().map(|it| (*it).to_owned()).collect(),
            }
        };
        let write = |files: &ServingFiles, issued: &IssuedCertificate| {
            std::fs::write(&files.certificate, &issued.certificate_pem).unwrap();
            std::fs::write(&files.key, &issued.key_pem).unwrap();
        };
        let from = ServingCertificates {
            default: None,
            named: vec![
                of("a.example", &[]),
                of("said", &["B.example", "*.wild.example"]),
                of(
                    "later",
                    &["b.example", "x.wild.example", "wheelhouse.internal"],
                ),
                of("b.example", &[]),
                of("c.example", &[]),
            ],
        };
        for named in &from.named {
            let stem = named.files.key.file_stem().unwrap().to_str().unwrap();
            write(&named.files, &issued(stem));
        }
        assert!(serving.read(&from, &provider).0, "it is new");
        assert!(serving.is_given(), "kubeconfigs ask for a name");
        let subject = |name: Option<&str>| {
            let shown = serving.shown(name);
            super::super::subject::common_name(shown.cert.first().unwrap()).unwrap()
        };
        for (name, want) in [
            (None, "own"),
            (Some("other.example"), "own"),
            (Some("a.example"), "a.example"),
            (Some("A.EXAMPLE"), "a.example"),
            (Some("b.example"), "said"),
            (Some("y.wild.example"), "said"),
            (Some("y.y.wild.example"), "own"),
            (Some("wild.example"), "own"),
            (Some("x.wild.example"), "later"),
            (Some(OWN_NAME), "own"),
        ] {
            assert_eq!(subject(name), want, "{name:?}");
        }
        // One that cannot be read keeps its place and holds up no other.
        std::fs::write(&from.named[0].files.key, "").unwrap();
        write(&from.named[4].files, &issued("renewed"));
        let (is_new, failed) = serving.read(&from, &provider);
        let told = failed.iter().map(ToString::to_string).collect::<String>();
        assert!(
            is_new && told.ends_with("a.example.crt"),
            "one is half written: {told}"
        );
        assert_eq!(subject(Some("a.example")), "a.example");
        assert_eq!(
            subject(Some("renewed")),
            "renewed",
            "by the name that is in it"
        );
    }
}
