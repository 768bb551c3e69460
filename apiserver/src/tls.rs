//! The hub's own certificates and the TLS configuration made of them.
//!
//! A certificate authority is made in the data directory at the first start and kept. It signs the serving certificate,
//! the certificate of the first administrator, and whatever client certificates are issued later; it is also what client
//! certificates are verified against.
//!
//! A client certificate that does not verify does not end the handshake: its owner may have a good token, and if not, is
//! told 401 as Kubernetes tells it. That the client holds its key is checked in the handshake all the same.
//!
//! # Invariants
//! - Private keys are readable by their owner alone, from the moment the file exists.
//! - A user's certificate is looked at once per connection, not per request; a front proxy's for each change of those that are believed.

mod authority;
mod clients;
mod files;
mod serving;
mod subject;
mod verifier;

use std::{
    collections::BTreeMap,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use rustls::{
    ServerConfig,
    crypto::{CryptoProvider, ring},
    server::NoServerSessionStorage,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use authority::{Authority, IssuedCertificate};
pub use clients::AuthoritiesError;
pub(crate) use clients::ClientAuthorities;
use serving::Serving;
pub use serving::{NamedFiles, ServingCertificates, ServingFiles};
pub(crate) use subject::certificate_user;
pub use verifier::ClientVerifier;

/// Between two looks at the files of the serving certificate.
const RELOAD_INTERVAL: Duration = Duration::from_secs(5);

/// The server name at which the hub's own certificate is shown, whatever the operator's is.
const OWN_NAME: &str = "wheelhouse.internal";

/// Between two looks at how long the hub's own certificate is good.
const RENEWAL_INTERVAL: Duration = Duration::from_hours(1);

/// Directory of keys and certificates, below the data directory.
const DIRECTORY: &str = crate::offline::KEYS_DIRECTORY;

/// The private key of service account tokens as PEM: that from below `data_dir`, or a new one.
pub(crate) fn service_account_key(data_dir: &Path) -> Result<String, Error> {
    let directory = data_dir.join(DIRECTORY);
    files::make_directory(&directory)?;
    let path = directory.join("sa.key");
    if let Some(kept) = files::read(&path)? {
        return Ok(kept);
    }
    let key = rcgen::KeyPair::generate().map_err(|source| Error::Certificate {
        action: "make",
        what: "key of the service account tokens",
        source: source.into(),
    })?;
    let pem = key.serialize_pem();
    files::write(&path, &pem)?;
    Ok(pem)
}

/// The files that replicas of one hub have in common.
const SHARED_FILES: [&str; 3] = ["ca.key", "ca.crt", "sa.key"];

/// The files that replicas of one hub have in common, by name: those from below `data_dir`, or new ones.
pub(crate) fn shared_files(
    data_dir: &Path,
    now: Timestamp,
) -> Result<BTreeMap<String, String>, Error> {
    service_account_key(data_dir)?;
    let directory = data_dir.join(DIRECTORY);
    Authority::open(&directory, now)?;
    let mut found = BTreeMap::new();
    for name in SHARED_FILES {
        if let Some(text) = files::read(&directory.join(name))? {
            found.insert(name.to_owned(), text);
        }
    }
    Ok(found)
}

/// Puts the files of another replica into place. What the authority of before has signed is made anew when it is
/// needed.
pub(crate) fn take_shared_files(
    data_dir: &Path,
    shared: &BTreeMap<String, String>,
) -> Result<(), Error> {
    let directory = data_dir.join(DIRECTORY);
    files::make_directory(&directory)?;
    for name in SHARED_FILES {
        if let Some(text) = shared.get(name) {
            files::write(&directory.join(name), text)?;
        }
    }
    Ok(())
}

/// Which client certificates are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    /// Those of the hub's own authority: clients that choose, as browsers do, offer no others.
    #[default]
    Own,
    /// Any: which authorities count changes while the hub runs.
    Any,
}

/// Why the hub's certificates cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read or written.
    #[error("cannot {action} {path}")]
    File {
        /// `read` or `write`.
        action: &'static str,
        /// Which file.
        path: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A certificate of the operator's cannot be shown.
    #[error("cannot show the certificate {path}")]
    Pair {
        /// Which one.
        path: String,
        /// Why not.
        #[source]
        source: Box<Self>,
    },
    /// A certificate or key cannot be made, or one that is kept cannot be used.
    #[error("cannot {action} the {what}")]
    Certificate {
        /// What was tried.
        action: &'static str,
        /// With which certificate.
        what: &'static str,
        /// Why not.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// The certificates of a hub.
#[derive(Debug)]
pub struct Pki {
    /// The certificate authority.
    pub authority: Authority,
    /// Certificate and key of the first administrator: user `admin`, group `system:masters`.
    pub admin: IssuedCertificate,
    serving: Arc<Serving>,
    provider: Arc<CryptoProvider>,
    directory: PathBuf,
    addresses: Vec<IpAddr>,
    host_names: Vec<String>,
}

// === impl Pki ===

impl Pki {
    /// Takes the certificates from below `data_dir`, and makes those that are not there, run out soon, or do not
    /// name all of `addresses` and `host_names`.
    ///
    /// # Errors
    /// [`Error::File`] and [`Error::Certificate`].
    pub fn open(
        data_dir: &Path,
        addresses: &[IpAddr],
        host_names: &[String],
        now: Timestamp,
    ) -> Result<Self, Error> {
        let directory = data_dir.join(DIRECTORY);
        files::make_directory(&directory)?;
        let authority = Authority::open(&directory, now)?;
        let serving = authority.serving(&directory, addresses, host_names, now)?;
        let admin = authority.admin(&directory, now)?;
        let provider = Arc::new(ring::default_provider());
        Ok(Self {
            authority,
            admin,
            serving: Arc::new(Serving::new(&serving, &provider)?),
            provider,
            directory,
            addresses: addresses.to_vec(),
            host_names: host_names.to_vec(),
        })
    }

    /// Has clients be shown the certificates of these files.
    ///
    /// # Errors
    /// Where one cannot be read, or has not its own key.
    pub(crate) fn show(&self, certificates: &ServingCertificates) -> Result<(), Error> {
        let (_is_new, failed) = self.serving.read(certificates, &self.provider);
        failed.into_iter().next().map_or(Ok(()), Err)
    }

    /// Keeps what clients are shown current: reads the operator's files again and again, and makes the hub's own certificate anew
    /// before it runs out.
    pub(crate) async fn follow(
        self: Arc<Self>,
        certificates: ServingCertificates,
        shutdown: CancellationToken,
    ) {
        let mut told = String::new();
        let mut own_due = Instant::now() + RENEWAL_INTERVAL;
        loop {
            let next = if certificates.is_empty() {
                own_due
            } else {
                own_due.min(Instant::now() + RELOAD_INTERVAL)
            };
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep_until(next) => {}
            }
            let mut failed = self.reload(&certificates);
            if own_due <= Instant::now() {
                own_due = Instant::now() + RENEWAL_INTERVAL;
                failed.extend(self.renew(Timestamp::now()).err());
            }
            let failed = failed.iter().map(|error| dialect::error_chain(error));
            let error = failed.collect::<Vec<_>>().join("; ");
            if !error.is_empty() && error != told {
                tracing::error!(
                    error,
                    "cannot renew a serving certificate; showing the previous one"
                );
            }
            told = error;
        }
    }

    /// Returns why some cannot be shown.
    fn reload(&self, certificates: &ServingCertificates) -> Vec<Error> {
        let (is_new, failed) = self.serving.read(certificates, &self.provider);
        if is_new {
            tracing::info!("reloaded the serving certificates");
        }
        failed
    }

    /// Makes the hub's own certificate anew if it runs out soon.
    fn renew(&self, now: Timestamp) -> Result<(), Error> {
        let (addresses, host_names) = (&self.addresses, &self.host_names);
        let own = self
            .authority
            .serving(&self.directory, addresses, host_names, now)?;
        self.serving.renew(&own, &self.provider)
    }

    /// Returns the server name that a kubeconfig needs which trusts [`Pki::authority`]; `None` where any will do.
    pub fn server_name(&self) -> Option<&'static str> {
        self.serving.is_given().then_some(OWN_NAME)
    }

    /// The configuration of a listener: HTTP/2 and HTTP/1.1, client certificates welcome.
    ///
    /// # Errors
    /// [`Error::Certificate`].
    pub fn server_config(
        &self,
        asked_for: ClientCertificates,
    ) -> Result<(Arc<ServerConfig>, Arc<ClientVerifier>), Error> {
        let refused = |source: rustls::Error| Error::Certificate {
            action: "serve with",
            what: "serving certificate",
            source: source.into(),
        };
        let provider = &self.provider;
        let verifier = Arc::new(ClientVerifier::new(&self.authority, asked_for, provider)?);
        let mut config = ServerConfig::builder_with_provider(Arc::clone(provider))
            .with_safe_default_protocol_versions()
            .map_err(refused)?
            .with_client_cert_verifier(Arc::clone(&verifier) as _)
            .with_cert_resolver(Arc::clone(&self.serving) as _);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // client-go keeps no tickets, and each costs a handshake its keys and its place in a store.
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok((Arc::new(config), verifier))
    }
}

#[cfg(test)]
mod tests;
