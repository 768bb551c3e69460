//! Looks at client certificates.
//!
//! # Invariants
//! - A verdict is remembered for a certificate to the byte, signed by the authority itself, and for the time in which
//!   the certificate is good: a remembered verdict is the one that would be found again.
//! - Bad certificates are not remembered: nobody can fill the memory with what the authority has not signed.

use std::{collections::HashMap, ops::RangeInclusive, sync::Arc, time::Duration};

use jiff::Timestamp;
use parking_lot::Mutex;
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

use super::{
    Authority, ClientCertificates, Error,
    subject::{certificate_user, last_second_of},
};
use crate::request::{CertificateIdentity, Peer, UserInfo};

/// Certificates that are remembered. When there are more, all are looked at anew.
const KNOWN_COUNT_MAX: usize = 1024;

/// Takes any certificate in the handshake, once its owner has proved to hold the key, and judges it afterwards.
#[derive(Debug)]
pub struct ClientVerifier {
    judge: Arc<dyn ClientCertVerifier>,
    asked_for: ClientCertificates,
    /// Who comes back needs no second look, which is an eighth of what its return costs.
    known: Mutex<HashMap<Vec<u8>, Known>>,
}

/// A certificate that verified.
#[derive(Clone, Debug)]
struct Known {
    user: Arc<UserInfo>,
    /// Seconds since 1970.
    good: RangeInclusive<i64>,
}

// === impl ClientVerifier ===

impl ClientVerifier {
    /// Makes a verifier that trusts what `authority` signed for clients.
    pub(super) fn new(
        authority: &Authority,
        asked_for: ClientCertificates,
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
        Ok(Self {
            judge,
            asked_for,
            known: Mutex::default(),
        })
    }

    /// Returns who is at the other end of a connection that showed `chain`.
    pub(crate) fn peer(&self, chain: Option<&[CertificateDer<'_>]>, now: Timestamp) -> Peer {
        let Some((end_entity, intermediates)) = chain.and_then(<[_]>::split_first) else {
            return Peer::Unknown;
        };
        let now = now.as_second();
        if let Some(known) = self.known(end_entity, now) {
            return Peer::Certificate(known);
        }
        let seconds = u64::try_from(now).unwrap_or_default();
        let at = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        if let Err(error) = self.judge.verify_client_cert(end_entity, intermediates, at) {
            tracing::debug!(error = %error, "client certificate is not valid");
            return Peer::Certificate(CertificateIdentity::Bad);
        }
        match certificate_user(end_entity) {
            Ok((user, good)) => {
                let user = Arc::new(user);
                let mut not_after = *good.end();
                if intermediates.is_empty() {
                    self.remember(end_entity, Arc::clone(&user), good);
                }
                for intermediate in intermediates {
                    // What verified can be read.
                    not_after = not_after.min(last_second_of(intermediate).unwrap_or(now));
                }
                Peer::Certificate(CertificateIdentity::Good { user, not_after })
            }
            Err(error) => {
                tracing::debug!(error = %error, "client certificate does not name a user");
                Peer::Certificate(CertificateIdentity::Bad)
            }
        }
    }

    fn known(&self, certificate: &[u8], now: i64) -> Option<CertificateIdentity> {
        let known = self.known.lock();
        let Known { user, good } = known.get(certificate)?;
        good.contains(&now).then(|| CertificateIdentity::Good {
            user: Arc::clone(user),
            not_after: *good.end(),
        })
    }

    fn remember(&self, certificate: &[u8], user: Arc<UserInfo>, good: RangeInclusive<i64>) {
        let mut known = self.known.lock();
        if known.len() >= KNOWN_COUNT_MAX {
            known.clear();
        }
        known.insert(certificate.to_vec(), Known { user, good });
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
        match self.asked_for {
            ClientCertificates::Own => self.judge.root_hint_subjects(),
            ClientCertificates::Any => &[],
        }
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
