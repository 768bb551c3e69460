//! The certificate authority and what it signs.

use std::{fmt, net::IpAddr, path::Path, time::Duration};

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::{
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::{Error, OWN_NAME, files};

/// How long the authority is good for.
const AUTHORITY_LIFETIME: Duration = Duration::from_hours(3650 * 24);
/// How long what it signs is good for.
const LEAF_LIFETIME: Duration = Duration::from_hours(365 * 24);
/// A certificate with less time left than this is made anew at the next start.
const RENEW_SECONDS: i64 = 30 * 24 * 60 * 60;
/// A certificate is good from this long before it was made: clocks differ.
const CLOCK_SKEW_SECONDS: u64 = 5 * 60;

/// The group of the administrator.
const MASTERS: &str = "system:masters";

/// Signs certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate_pem: String,
}

/// A certificate and its key.
#[derive(Clone)]
pub struct IssuedCertificate {
    /// The certificate as PEM.
    pub certificate_pem: String,
    /// The key as PEM (PKCS #8).
    pub key_pem: String,
}

// === impl Authority ===

impl Authority {
    /// Takes the authority from `directory`, or makes one. An authority that ran out is made anew, and with it all that
    /// it signed.
    pub(super) fn open(directory: &Path, now: Timestamp) -> Result<Self, Error> {
        const WHAT: &str = "certificate authority";
        let (certificate_path, key_path) = (directory.join("ca.crt"), directory.join("ca.key"));
        let (certificate, key) = (files::read(&certificate_path)?, files::read(&key_path)?);
        let key = match (certificate, key) {
            (Some(certificate_pem), Some(key_pem)) => {
                let left = seconds_left(&certificate_pem, now);
                let left = left.ok_or_else(|| broken(&certificate_path, "is no certificate"))?;
                let key =
                    KeyPair::from_pem(&key_pem).map_err(|error| failed("use", WHAT, error))?;
                if left > 0 {
                    let issuer = Issuer::from_ca_cert_pem(&certificate_pem, key)
                        .map_err(|error| failed("use", WHAT, error))?;
                    return Ok(Self {
                        issuer,
                        certificate_pem,
                    });
                }
                KeyPair::generate().map_err(|error| failed("make", WHAT, error))?
            }
            // A start that was cut off; or it is lost, and who trusts the old one trusts one of the same key.
            (None, Some(key_pem)) => {
                KeyPair::from_pem(&key_pem).map_err(|error| failed("use", WHAT, error))?
            }
            (Some(_), None) => return Err(broken(&key_path, "is missing")),
            (None, None) => KeyPair::generate().map_err(|error| failed("make", WHAT, error))?,
        };
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::CommonName, "wheelhouse-ca");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        set_validity(&mut params, now, AUTHORITY_LIFETIME);
        let certificate = params
            .self_signed(&key)
            .map_err(|error| failed("make", WHAT, error))?;
        let certificate_pem = certificate.pem();
        files::write(&key_path, &key.serialize_pem())?;
        files::write(&certificate_path, &certificate_pem)?;
        Ok(Self {
            issuer: Issuer::new(params, key),
            certificate_pem,
        })
    }

    /// The authority's own certificate as PEM, for kubeconfigs.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// Issues a client certificate: the user is the common name, the group is the organization. Certificates from elsewhere may have several
    /// organizations; rcgen writes one.
    ///
    /// # Errors
    /// [`Error::Certificate`].
    pub fn issue_client(
        &self,
        username: &str,
        group: Option<&str>,
        now: Timestamp,
    ) -> Result<IssuedCertificate, Error> {
        self.issue_client_for(username, group, now, LEAF_LIFETIME)
    }

    /// [`Authority::issue_client`], for as long as the caller says.
    ///
    /// # Errors
    /// [`Error::Certificate`].
    pub fn issue_client_for(
        &self,
        username: &str,
        group: Option<&str>,
        now: Timestamp,
        lifetime: Duration,
    ) -> Result<IssuedCertificate, Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        if let Some(group) = group {
            params
                .distinguished_name
                .push(DnType::OrganizationName, group);
        }
        params.distinguished_name.push(DnType::CommonName, username);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params, "client certificate", now, lifetime)
    }

    /// The certificate of the first administrator, kept in `directory`.
    pub(super) fn admin(
        &self,
        directory: &Path,
        now: Timestamp,
    ) -> Result<IssuedCertificate, Error> {
        let kept = IssuedCertificate::read(directory, "admin")?;
        if let Some(kept) = kept.filter(|kept| self.is_good(kept, now)) {
            return Ok(kept);
        }
        let issued = self.issue_client("admin", Some(MASTERS), now)?;
        issued.write(directory, "admin")?;
        Ok(issued)
    }

    /// The serving certificate, kept in `directory`.
    pub(super) fn serving(
        &self,
        directory: &Path,
        addresses: &[IpAddr],
        host_names: &[String],
        now: Timestamp,
    ) -> Result<IssuedCertificate, Error> {
        let names = subject_names(addresses, host_names);
        let kept = IssuedCertificate::read(directory, "server")?;
        if let Some(kept) = kept.filter(|kept| self.is_good(kept, now) && kept.names_all(&names)) {
            return Ok(kept);
        }
        let mut params = CertificateParams::new(names)
            .map_err(|error| failed("make", "serving certificate", error))?;
        params.distinguished_name = DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::CommonName, "wheelhouse");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let issued = self.sign(params, "serving certificate", now, LEAF_LIFETIME)?;
        issued.write(directory, "server")?;
        Ok(issued)
    }

    fn sign(
        &self,
        mut params: CertificateParams,
        what: &'static str,
        now: Timestamp,
        lifetime: Duration,
    ) -> Result<IssuedCertificate, Error> {
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyEncipherment,
        ];
        params.use_authority_key_identifier_extension = true;
        set_validity(&mut params, now, lifetime);
        let key = KeyPair::generate().map_err(|error| failed("make", what, error))?;
        let certificate = params
            .signed_by(&key, &self.issuer)
            .map_err(|error| failed("make", what, error))?;
        Ok(IssuedCertificate {
            certificate_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
        })
    }

    /// Whether a kept certificate is signed by this authority and good for a while.
    fn is_good(&self, kept: &IssuedCertificate, now: Timestamp) -> bool {
        let signed = || -> Option<()> {
            let authority = CertificateDer::from_pem_slice(self.certificate_pem.as_bytes()).ok()?;
            let (_, authority) = X509Certificate::from_der(&authority).ok()?;
            let leaf = CertificateDer::from_pem_slice(kept.certificate_pem.as_bytes()).ok()?;
            let (_, leaf) = X509Certificate::from_der(&leaf).ok()?;
            // The issuer's name alone does not tell two authorities of ours apart: the key does.
            let key_id = leaf.iter_extensions().find_map(|extension| {
                match extension.parsed_extension() {
                    x509_parser::extensions::ParsedExtension::AuthorityKeyIdentifier(id) => {
                        id.key_identifier.as_ref().map(|id| id.0.to_vec())
                    }
                    _ => None,
                }
            })?;
            let own_id = authority.iter_extensions().find_map(|extension| {
                match extension.parsed_extension() {
                    x509_parser::extensions::ParsedExtension::SubjectKeyIdentifier(id) => {
                        Some(id.0.to_vec())
                    }
                    _ => None,
                }
            })?;
            (key_id == own_id).then_some(())
        };
        signed().is_some()
            && seconds_left(&kept.certificate_pem, now).is_some_and(|left| left > RENEW_SECONDS)
            && KeyPair::from_pem(&kept.key_pem).is_ok()
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

// === impl IssuedCertificate ===

impl IssuedCertificate {
    fn read(directory: &Path, name: &str) -> Result<Option<Self>, Error> {
        let certificate_pem = files::read(&directory.join(format!("{name}.crt")))?;
        let key_pem = files::read(&directory.join(format!("{name}.key")))?;
        Ok(certificate_pem
            .zip(key_pem)
            .map(|(certificate_pem, key_pem)| Self {
                certificate_pem,
                key_pem,
            }))
    }

    fn write(&self, directory: &Path, name: &str) -> Result<(), Error> {
        files::write(&directory.join(format!("{name}.key")), &self.key_pem)?;
        files::write(
            &directory.join(format!("{name}.crt")),
            &self.certificate_pem,
        )
    }

    /// The certificate as the chain that is shown in a handshake.
    pub(crate) fn chain(&self) -> Result<Vec<CertificateDer<'static>>, Error> {
        let certificate = CertificateDer::from_pem_slice(self.certificate_pem.as_bytes())
            .map_err(|error| failed("read", "certificate", error))?;
        Ok(vec![certificate])
    }

    /// The certificate and its key as a handshake needs them.
    pub(super) fn certified(&self, provider: &CryptoProvider) -> Result<CertifiedKey, Error> {
        let key = PrivateKeyDer::from_pem_slice(self.key_pem.as_bytes())
            .map_err(|error| failed("read", "private key", error))?;
        CertifiedKey::from_der(self.chain()?, key, provider)
            .map_err(|error| failed("serve with", "serving certificate", error))
    }

    fn names_all(&self, wanted: &[String]) -> bool {
        let named = subject_names_of(&self.certificate_pem).unwrap_or_default();
        wanted.iter().all(|name| named.contains(name))
    }
}

impl fmt::Debug for IssuedCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IssuedCertificate")
            .field("certificate_pem", &self.certificate_pem)
            .finish_non_exhaustive()
    }
}

// === helpers of the two ===

/// Names of a serving certificate: the loopback ones and those given, each once.
fn subject_names(addresses: &[IpAddr], host_names: &[String]) -> Vec<String> {
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1", OWN_NAME]
        .map(str::to_owned)
        .to_vec();
    let given = addresses
        .iter()
        .filter(|address| !address.is_unspecified())
        .map(IpAddr::to_string);
    for name in given.chain(host_names.iter().cloned()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn subject_names_of(certificate_pem: &str) -> Option<Vec<String>> {
    let der = CertificateDer::from_pem_slice(certificate_pem.as_bytes()).ok()?;
    let (_, certificate) = X509Certificate::from_der(&der).ok()?;
    let names = certificate.subject_alternative_name().ok()??;
    let text = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => match <[u8; 4]>::try_from(*bytes) {
            Ok(four) => Some(IpAddr::from(four).to_string()),
            Err(_) => <[u8; 16]>::try_from(*bytes)
                .ok()
                .map(|six| IpAddr::from(six).to_string()),
        },
        _ => None,
    };
    Some(names.value.general_names.iter().filter_map(text).collect())
}

/// Seconds until a certificate runs out; `None` for one that cannot be read.
fn broken(path: &Path, what: &str) -> Error {
    let text = format!(
        "{} {what}: put the original file back; without ca.crt and ca.key a new authority is created, and no kubeconfig of \
         before works",
        path.display()
    );
    Error::Certificate {
        action: "use",
        what: "certificate authority",
        source: text.into(),
    }
}

fn seconds_left(certificate_pem: &str, now: Timestamp) -> Option<i64> {
    let der = CertificateDer::from_pem_slice(certificate_pem.as_bytes()).ok()?;
    let (_, certificate) = X509Certificate::from_der(&der).ok()?;
    Some(certificate.validity().not_after.timestamp() - now.as_second())
}

fn set_validity(params: &mut CertificateParams, now: Timestamp, lifetime: Duration) {
    let now = Duration::from_secs(u64::try_from(now.as_second()).unwrap_or_default());
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + now.saturating_sub(Duration::from_secs(CLOCK_SKEW_SECONDS));
    params.not_after = epoch + now + lifetime;
}

pub(super) fn failed(
    action: &'static str,
    what: &'static str,
    source: impl std::error::Error + Send + Sync + 'static,
) -> Error {
    Error::Certificate {
        action,
        what,
        source: source.into(),
    }
}
