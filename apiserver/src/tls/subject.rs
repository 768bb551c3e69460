//! Reads the user from a client certificate.

use std::{collections::BTreeMap, fmt::Write, net::IpAddr, ops::RangeInclusive};

use sha2::{Digest, Sha256};
use x509_parser::prelude::{AttributeTypeAndValue, FromDer, GeneralName, X509Certificate};

use crate::request::{CREDENTIAL_ID, UserInfo};

/// Attribute of a subject that holds a uid.
const UID_OID: &str = "1.3.6.1.4.1.57683.2";

/// Why a certificate that verifies names no user.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CertificateError {
    /// It cannot be read.
    #[error("client certificate cannot be read")]
    Unreadable(#[source] x509_parser::nom::Err<x509_parser::error::X509Error>),
    /// It has no common name.
    #[error("client certificate has no common name")]
    NoName,
    /// One of its organizations is no text.
    #[error("an organization of the client certificate is no text")]
    NoText(#[source] x509_parser::error::X509Error),
}

/// Reads the user from a certificate that has been verified, and the seconds since 1970 in which it is good: common name,
/// organizations as groups, uid.
pub(crate) fn certificate_user(
    der: &[u8],
) -> Result<(UserInfo, RangeInclusive<i64>), CertificateError> {
    let (_, certificate) = X509Certificate::from_der(der).map_err(CertificateError::Unreadable)?;
    let subject = certificate.subject();
    let name = name_in(&certificate).filter(|name| !name.is_empty());
    let name = name.ok_or(CertificateError::NoName)?;
    let groups = subject
        .iter_organization()
        .map(AttributeTypeAndValue::as_str)
        .collect::<Result<Vec<_>, _>>()
        .map_err(CertificateError::NoText)?;
    let uid = subject
        .iter_attributes()
        .find(|attribute| attribute.attr_type().to_id_string() == UID_OID)
        .and_then(|attribute| attribute.as_str().ok())
        .unwrap_or_default();
    let mut user = UserInfo::authenticated(name, groups);
    uid.clone_into(&mut user.uid);
    user.extra = BTreeMap::from([(CREDENTIAL_ID.to_owned(), vec![credential_id(der)])]);
    let validity = certificate.validity();
    let good = validity.not_before.timestamp()..=validity.not_after.timestamp();
    Ok((user, good))
}

/// The common name of a certificate that has been verified.
pub(crate) fn common_name(der: &[u8]) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    name_in(&certificate).map(str::to_owned)
}

/// Of several common names the last, as Go has it.
fn name_in<'a>(certificate: &'a X509Certificate<'_>) -> Option<&'a str> {
    let name = certificate.subject().iter_common_name().last()?;
    name.as_str().ok()
}

/// The names that a serving certificate is for: its common name, unless that is an address, and its DNS names.
pub(super) fn server_names(der: &[u8]) -> Vec<String> {
    let Ok((_, certificate)) = X509Certificate::from_der(der) else {
        return Vec::new();
    };
    let common_name = name_in(&certificate).filter(|it| it.parse::<IpAddr>().is_err());
    let others = certificate.subject_alternative_name().ok().flatten();
    let others = others.map(|it| it.value.general_names.iter());
    let others = others.into_iter().flatten().filter_map(|it| match it {
        GeneralName::DNSName(name) => Some(*name),
        _ => None,
    });
    common_name
        .into_iter()
        .chain(others)
        .map(str::to_owned)
        .collect()
}

/// The last second since 1970 in which a certificate is good.
pub(crate) fn last_second_of(der: &[u8]) -> Option<i64> {
    validity_of(der).map(|good| *good.end())
}

/// The seconds since 1970 in which a certificate is good.
pub(super) fn validity_of(der: &[u8]) -> Option<RangeInclusive<i64>> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let validity = certificate.validity();
    Some(validity.not_before.timestamp()..=validity.not_after.timestamp())
}

fn credential_id(der: &[u8]) -> String {
    let mut id = String::from("X509SHA256=");
    for byte in Sha256::digest(der) {
        // Writing to a string cannot fail.
        let _infallible = write!(id, "{byte:02x}");
    }
    id
}
