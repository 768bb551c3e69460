//! The keys of one issuer: found by its discovery document, and read again while the hub runs.
//!
//! # Invariants
//! - Keys are read over HTTPS alone, within [`READ_TIMEOUT`], and no redirect is followed.
//! - Strangers who present tokens make the hub read once in [`KEYS_INTERVAL`], after a quiet time a few times more, also where they do not wait
//!   for the answer.
//! - An issuer that cannot be read keeps the keys that it had.
//!
//! Source: OpenID Connect Discovery 1.0 sections 3 and 4.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use kube::client::ConfigExt as _;
use parking_lot::Mutex;
use rustls::{
    ClientConfig,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use serde::Deserialize;
use tokio::time::timeout;

use super::configuration::IssuerConfiguration;
use crate::{
    answers::Published,
    authenticate::jws::{Jws, Keys},
    webhooks::Peer,
};

/// Between two readings of the keys once there were a few at once, whatever is presented.
const KEYS_INTERVAL: Duration = Duration::from_secs(5);
/// How long both documents may take.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest of either. Those of large issuers have 10 KiB.
const DOCUMENT_BYTES_MAX: usize = 256 * 1024;
/// Where an issuer describes itself.
const DISCOVERY_PATH: &str = "/.well-known/openid-configuration";

/// An issuer, as far as others with its URL are the same.
#[derive(Debug)]
pub(super) struct Issuer {
    url: String,
    discovery_url: String,
    certificate_authority: String,
    keys: Published<Keys>,
    /// Where people sign in, as the last discovery document had it. Leaf lock.
    endpoints: Mutex<Option<Arc<Endpoints>>>,
    /// Why the last reading failed; empty where none was. Leaf lock.
    failure: Mutex<Option<String>>,
}

/// Where people sign in.
#[derive(Debug)]
pub(super) struct Endpoints {
    /// A browser is sent there.
    pub(super) authorization: String,
    /// Codes are redeemed there.
    pub(super) token: String,
}

#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
    #[serde(default)]
    authorization_endpoint: String,
    #[serde(default)]
    token_endpoint: String,
}

/// Trusts a bundle and nobody else, or the authorities of the machine where there is none.
///
/// # Errors
/// In Kubernetes' words.
pub(super) fn trust(bundle: &str) -> Result<Arc<ClientConfig>, String> {
    let mut config = kube::Config::new(http::Uri::from_static("https://localhost"));
    if !bundle.is_empty() {
        let none = || "data does not contain any valid RSA or ECDSA certificates".to_owned();
        let certificates: Result<Vec<_>, _> =
            CertificateDer::pem_slice_iter(bundle.as_bytes()).collect();
        let certificates = certificates.map_err(|_error| none())?;
        if certificates.is_empty() {
            return Err(none());
        }
        config.root_cert = Some(certificates.iter().map(|it| it.to_vec()).collect());
    }
    let trusted = config.rustls_client_config();
    Ok(Arc::new(trusted.map_err(|error| error.to_string())?))
}

// === impl Issuer ===

impl Issuer {
    /// Makes an issuer; nothing is read yet.
    pub(super) fn new(configuration: &IssuerConfiguration) -> Self {
        let discovery_url = if configuration.discovery_url.is_empty() {
            let own = configuration.url.trim_end_matches('/');
            format!("{own}{DISCOVERY_PATH}")
        } else {
            configuration.discovery_url.clone()
        };
        Self {
            url: configuration.url.clone(),
            discovery_url,
            certificate_authority: configuration.certificate_authority.clone(),
            keys: Published::new(KEYS_INTERVAL),
            endpoints: Mutex::default(),
            failure: Mutex::new(Some("it was not read yet".to_owned())),
        }
    }

    /// The URL that its tokens name.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Where people sign in; `None` where that was not read, or the issuer lets nobody.
    pub(super) fn endpoints(&self) -> Option<Arc<Endpoints>> {
        self.endpoints.lock().clone()
    }

    /// Posts a form to an endpoint of the issuer. The caller bounds the time.
    ///
    /// # Errors
    /// No answer; any status is one.
    pub(super) async fn post_form(
        &self,
        url: &str,
        form: Bytes,
        authorization: Option<HeaderValue>,
    ) -> Result<(StatusCode, Bytes), String> {
        let tls = trust(&self.certificate_authority)?;
        let answered = Peer::of_operator(url, tls)?
            .post_form(form, authorization)
            .await;
        let (code, bytes) = answered.map_err(|error| error.to_string())?;
        if bytes.len() > DOCUMENT_BYTES_MAX {
            return Err(format!("more than {DOCUMENT_BYTES_MAX} bytes"));
        }
        Ok((code, bytes))
    }

    /// Whether another is read in the same way, so that its keys are this one's.
    pub(super) fn is_read_as(&self, other: &Self) -> bool {
        let own = (&self.url, &self.discovery_url, &self.certificate_authority);
        own == (
            &other.url,
            &other.discovery_url,
            &other.certificate_authority,
        )
    }

    /// Whether there are keys.
    pub(super) fn is_ready(&self) -> bool {
        !self.keys.held().is_empty()
    }

    /// Whether keys that are known have signed a token.
    pub(super) fn has_signed(&self, token: &Jws<'_>) -> bool {
        self.keys.held().have_signed(token)
    }

    /// Whether the issuer has signed a token. An unknown key may be new.
    pub(super) async fn may_have_signed(self: &Arc<Self>, token: &Jws<'_>) -> bool {
        self.has_signed(token) || self.refresh().await.have_signed(token)
    }

    /// Reads the keys, unless they were read just now.
    pub(super) async fn refresh(self: &Arc<Self>) -> Arc<Keys> {
        let read = || Arc::clone(self).read();
        self.keys.read(read).await
    }

    async fn read(self: Arc<Self>) -> Option<Keys> {
        let read = timeout(READ_TIMEOUT, self.read_keys()).await;
        let read = read.unwrap_or_else(|_elapsed| Err("timed out".to_owned()));
        let mut failure = self.failure.lock();
        match read {
            Ok(keys) => {
                if failure.take().is_some() {
                    tracing::info!(issuer = self.url, "keys of the issuer were read");
                }
                Some(keys)
            }
            Err(error) => {
                if failure.as_ref() != Some(&error) {
                    let (issuer, error) = (&self.url, &error);
                    tracing::warn!(
                        issuer,
                        error,
                        "cannot fetch the keys of the issuer; keeping the previous keys"
                    );
                }
                *failure = Some(error);
                None
            }
        }
    }

    async fn read_keys(&self) -> Result<Keys, String> {
        let tls = trust(&self.certificate_authority)?;
        let document = fetch(&self.discovery_url, Arc::clone(&tls)).await?;
        let found: Discovery = serde_json::from_slice(&document)
            .map_err(|error| format!("{} is no discovery document: {error}", self.discovery_url))?;
        if found.issuer != self.url {
            return Err(format!(
                "issuer did not match the issuer returned by provider, expected {:?} got {:?}",
                self.url, found.issuer
            ));
        }
        *self.endpoints.lock() = Endpoints::of(&found);
        let keys = Keys::parse(&fetch(&found.jwks_uri, tls).await?);
        if keys.is_empty() {
            return Err(format!("{} has no key that can be used", found.jwks_uri));
        }
        Ok(keys)
    }
}

// === impl Endpoints ===

impl Endpoints {
    fn of(found: &Discovery) -> Option<Arc<Self>> {
        let (authorization, token) = (&found.authorization_endpoint, &found.token_endpoint);
        // A browser would run what begins with another scheme.
        let is_safe = |url: &str| url.starts_with("https://");
        (is_safe(authorization) && is_safe(token)).then(|| {
            Arc::new(Self {
                authorization: authorization.clone(),
                token: token.clone(),
            })
        })
    }
}

async fn fetch(url: &str, tls: Arc<ClientConfig>) -> Result<Bytes, String> {
    let (code, bytes) = Peer::of_operator(url, tls)?
        .get()
        .await
        .map_err(|error| format!("Get {url:?}: {error}"))?;
    if code != StatusCode::OK {
        return Err(format!("Get {url:?}: {code}"));
    }
    if bytes.len() > DOCUMENT_BYTES_MAX {
        return Err(format!("Get {url:?}: more than {DOCUMENT_BYTES_MAX} bytes"));
    }
    Ok(bytes)
}
