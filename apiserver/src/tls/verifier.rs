//! Looks at client certificates.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use rustls::{
    DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, UnixTime, pem::PemObject},
    server::{
        WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};

use super::{Authority, Error};
use crate::authenticate::{CertificateIdentity, Peer, certificate_user};

/// Takes any certificate in the handshake, once its owner has proved to hold the key, and judges it afterwards.
#[derive(Debug)]
pub struct ClientVerifier {
    judge: Arc<dyn ClientCertVerifier>,
}

// === impl ClientVerifier ===

impl ClientVerifier {
    /// Makes a verifier that trusts what `authority` signed for clients.
    pub(super) fn new(
        authority: &Authority,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, Error> {
        let unusable = |source: Box<dyn std::error::Error + Send + Sync>| Error::Certificate {
            action: "verify clients with",
            what: "certificate authority",
            source,
        };
        let mut roots = RootCertStore::empty();
        let root = CertificateDer::from_pem_slice(authority.certificate_pem().as_bytes())
            .map_err(|error| unusable(error.into()))?;
        roots.add(root).map_err(|error| unusable(error.into()))?;
        let judge =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
                .allow_unauthenticated()
                .build()
                .map_err(|error| unusable(error.into()))?;
        Ok(Self { judge })
    }

    /// Says who is at the other end of a connection that showed `chain`.
    pub(crate) fn peer(&self, chain: Option<&[CertificateDer<'_>]>, now: Timestamp) -> Peer {
        let Some((end_entity, intermediates)) = chain.and_then(<[_]>::split_first) else {
            return Peer::Unknown;
        };
        let seconds = u64::try_from(now.as_second()).unwrap_or_default();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        if let Err(error) = self
            .judge
            .verify_client_cert(end_entity, intermediates, now)
        {
            tracing::debug!(error = %error, "client certificate does not verify");
            return Peer::Certificate(CertificateIdentity::Bad);
        }
        match certificate_user(end_entity) {
            Ok(user) => Peer::Certificate(CertificateIdentity::Good(Arc::new(user))),
            Err(error) => {
                tracing::debug!(error = %error, "client certificate names no user");
                Peer::Certificate(CertificateIdentity::Bad)
            }
        }
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn offer_client_auth(&self) -> bool {
        true
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.judge.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        // Judged by `peer`, so that a bad certificate is answered with 401 and not with a broken handshake.
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.judge.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.judge.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.judge.supported_verify_schemes()
    }
}
