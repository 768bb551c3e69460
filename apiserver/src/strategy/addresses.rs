//! Addresses and networks in fields that are older than the rules for them.
//!
//! Leading zeros were once read, as decimal ones here and as octal ones elsewhere. Kubernetes still reads them, to say what is wrong.
//!
//! Source: apimachinery/pkg/util/validation/ip.go (`IsValidIPForLegacyField`, `IsValidCIDRForLegacyField`).

use std::net::{IpAddr, Ipv4Addr};

use api::FieldError;

use super::checks::{Findings, Place};

const ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const NETWORK: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// Reads an address, also one of version 4 with leading zeros.
pub(super) fn parse(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let mut octets = text.split('.').map(decimal);
    let address: [u8; 4] = [
        octets.next()??,
        octets.next()??,
        octets.next()??,
        octets.next()??,
    ];
    octets
        .next()
        .is_none()
        .then(|| Ipv4Addr::from(address).into())
}

/// Reads an address and how many of its bits are the network's, also with leading zeros.
pub(super) fn parse_network(text: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = text.split_once('/')?;
    let (address, bits) = (parse(address)?, decimal(bits)?);
    (bits <= bits_of(address)).then_some((address, bits))
}

/// Reads digits; a sign is none.
fn decimal(text: &str) -> Option<u8> {
    let is_decimal = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_decimal.then(|| text.parse().ok())?
}

const fn bits_of(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// The bits of an address, and whether none of them is set beyond the first so many.
fn is_masked(address: IpAddr, bits: u8) -> bool {
    let text = match address {
        IpAddr::V4(it) => u128::from(it.to_bits()),
        IpAddr::V6(it) => it.to_bits(),
    };
    text.trailing_zeros() >= u32::from(bits_of(address).saturating_sub(bits))
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(it) if it.to_ipv4_mapped().is_some())
}

/// Returns what is wrong with an address.
pub(super) fn fault(text: &str) -> Option<&'static str> {
    match parse(text) {
        None => Some(ADDRESS),
        Some(_) if text.parse::<IpAddr>().is_err() => Some("must not have leading 0s"),
        Some(address) if is_mapped(address) => Some("must not be an IPv4-mapped IPv6 address"),
        Some(_) => None,
    }
}

pub(super) fn address(place: &Place<'_>, findings: &mut Findings) {
    if let Some(detail) = fault(place.text()) {
        findings.push(FieldError::invalid(&place.path, place.text(), detail));
    }
}

pub(super) fn network(place: &Place<'_>, findings: &mut Findings) {
    let text = place.text();
    let (address, length) = text.split_once('/').unwrap_or_default();
    let has_zeros =
        address.parse::<IpAddr>().is_err() || (length.starts_with('0') && length != "0");
    let detail = match parse_network(text) {
        None => NETWORK,
        Some(_) if has_zeros => "must not have leading 0s in IP or prefix length",
        Some((address, _)) if is_mapped(address) => "must not have an IPv4-mapped IPv6 address",
        Some((address, bits)) if !is_masked(address, bits) => {
            "must not have bits set beyond the prefix length"
        }
        Some(_) => return,
    };
    findings.push(FieldError::invalid(&place.path, text, detail));
}

/// An address of an endpoint, which is in another machine.
pub(super) fn endpoint_address(place: &Place<'_>, findings: &mut Findings) {
    let Some(address) = parse(place.text()) else {
        return;
    };
    let (is_link_local, is_link_local_multicast) = match address {
        IpAddr::V4(it) => (it.is_link_local(), it.octets().starts_with(&[224, 0, 0])),
        IpAddr::V6(it) => (
            it.is_unicast_link_local(),
            it.segments()
                .first()
                .is_some_and(|it| it & 0xff0f == 0xff02),
        ),
    };
    if address.is_unspecified() {
        findings.invalid(place, format!("may not be unspecified ({})", place.text()));
    }
    if address.is_loopback() {
        let detail = "may not be in the loopback range (127.0.0.0/8, ::1/128)";
        findings.invalid(place, detail);
    }
    if is_link_local {
        let detail = "may not be in the link-local range (169.254.0.0/16, fe80::/10)";
        findings.invalid(place, detail);
    }
    if is_link_local_multicast {
        let detail = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)";
        findings.invalid(place, detail);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::checks::found;
    use super::*;

    fn said(text: &str, check: fn(&Place<'_>, &mut Findings)) -> Option<String> {
        let found = found(&json!(text), check);
        found.first().map(|error| error.detail.clone())
    }

    #[test]
    fn addresses_and_networks_are_read_and_judged_apart() {
        for (text, want) in [
            ("10.0.0.1", None),
            ("2001:db8::1", None),
            ("010.0.0.1", Some("must not have leading 0s")),
            ("10.0.0.256", Some(ADDRESS)),
            ("10.0.0", Some(ADDRESS)),
            ("10.0.0.1.2", Some(ADDRESS)),
            ("+10.0.0.1", Some(ADDRESS)),
            (
                "::ffff:10.0.0.1",
                Some("must not be an IPv4-mapped IPv6 address"),
            ),
        ] {
            assert_eq!(said(text, address).as_deref(), want, "{text}");
        }
        for (text, want) in [
            ("10.0.0.0/8", None),
            ("0.0.0.0/0", None),
            ("2001:db8::/32", None),
            (
                "10.0.0.1/8",
                Some("must not have bits set beyond the prefix length"),
            ),
            (
                "10.0.0.0/08",
                Some("must not have leading 0s in IP or prefix length"),
            ),
            ("10.0.0.0/+8", Some(NETWORK)),
            ("10.0.0.0/33", Some(NETWORK)),
            ("10.0.0.0", Some(NETWORK)),
        ] {
            assert_eq!(said(text, network).as_deref(), want, "{text}");
        }
    }
}
