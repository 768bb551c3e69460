//! IP addresses and CIDR ranges.
//!
//! IPv4-mapped IPv6 addresses and zones are refused, and so are leading zeros in IPv4 octets.
//!
//! Source: `k8s.io/apiserver/pkg/cel/library/{ip,cidr}.go`, Go's `net/netip`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::opaque::Opaque;
use super::{Entry, Returned, global, member};
use crate::budget::Meter;
use crate::error::Failure;
use crate::value::{Kind, Value};

const OF_TEXT: &[&str] = &["(string) -> bool"];
const OF_IP: &[&str] = &["(ip) -> bool"];

pub(super) const FUNCTIONS: &[Entry] = &[
    global("ip", &["(string) -> ip"], ip),
    global("isIP", OF_TEXT, is_ip),
    global("ip.isCanonical", OF_TEXT, is_canonical),
    member("family", &["(ip) -> int"], family),
    member("isUnspecified", OF_IP, is_unspecified),
    member("isLoopback", OF_IP, is_loopback),
    member("isLinkLocalMulticast", OF_IP, is_link_local_multicast),
    member("isLinkLocalUnicast", OF_IP, is_link_local_unicast),
    member("isGlobalUnicast", OF_IP, is_global_unicast),
    global("cidr", &["(string) -> cidr"], cidr),
    global("isCIDR", OF_TEXT, is_cidr),
    member(
        "containsIP",
        &["(cidr, string) -> bool", "(cidr, ip) -> bool"],
        contains_ip,
    ),
    member(
        "containsCIDR",
        &["(cidr, string) -> bool", "(cidr, cidr) -> bool"],
        contains_cidr,
    ),
    member("ip", &["(cidr) -> ip"], ip_of_cidr),
    member("prefixLength", &["(cidr) -> int"], prefix_length),
    member("masked", &["(cidr) -> cidr"], masked),
];

/// An address with the length of its network prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cidr {
    address: IpAddr,
    prefix: u8,
}

// === impl Cidr ===

impl Cidr {
    /// The length of the prefix in bits.
    pub(crate) fn prefix_bits(&self) -> u8 {
        self.prefix
    }

    fn parse(text: &str) -> Result<Self, String> {
        let refuse = |why: &str| {
            format!(
                "network address parse error during conversion from string: \
                 netip.ParsePrefix({text:?}): {why}"
            )
        };
        let (address, prefix) = text.rsplit_once('/').ok_or_else(|| refuse("no '/'"))?;
        let address: IpAddr = address
            .parse()
            .map_err(|_no_address| refuse("unable to parse IP"))?;
        let plain = prefix.bytes().all(|byte| byte.is_ascii_digit())
            && (prefix.len() == 1 || !prefix.starts_with('0'));
        let prefix: u8 = prefix
            .parse()
            .ok()
            .filter(|_| plain)
            .ok_or_else(|| refuse(&format!("bad bits after slash: {prefix:?}")))?;
        if prefix > bit_count(address) {
            return Err(refuse("prefix length out of range"));
        }
        if is_mapped(address) {
            return Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed"));
        }
        Ok(Self { address, prefix })
    }

    fn masked(self) -> Self {
        let host_bits = u32::from(bit_count(self.address) - self.prefix);
        let address = match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(host_bits).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask))
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(host_bits).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
            }
        };
        Self {
            address,
            prefix: self.prefix,
        }
    }

    fn contains(self, address: IpAddr) -> bool {
        let other = Self {
            address,
            prefix: self.prefix,
        };
        self.address.is_ipv4() == address.is_ipv4() && self.masked() == other.masked()
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

fn bit_count(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

fn parse_ip(text: &str) -> Result<IpAddr, String> {
    if text.contains(':') && text.contains('%') {
        return Err(format!(
            "IP address {text:?} with zone value is not allowed"
        ));
    }
    let address = text.parse().map_err(|_no_address| {
        format!(
            "IP Address {text:?} parse error during conversion from string: ParseAddr({text:?}): \
             unable to parse IP"
        )
    })?;
    if is_mapped(address) {
        return Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed"));
    }
    Ok(address)
}

fn ip<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let [Value(Kind::String(text))] = args else {
        return Err(Failure::NoOverload);
    };
    parse_ip(text)
        .map(|address| Value::opaque(Opaque::Ip(address)))
        .map_err(Failure::new)
}

fn is_ip<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    match args {
        [Value(Kind::String(text))] => Ok(Value::bool(parse_ip(text).is_ok())),
        _ => Err(Failure::NoOverload),
    }
}

fn is_canonical<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let [Value(Kind::String(text))] = args else {
        return Err(Failure::NoOverload);
    };
    let address = parse_ip(text).map_err(Failure::new)?;
    Ok(Value::bool(address.to_string() == **text))
}

fn family<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    Ok(Value::int(if address(args)?.is_ipv4() { 4 } else { 6 }))
}

fn is_unspecified<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    Ok(Value::bool(address(args)?.is_unspecified()))
}

fn is_loopback<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    Ok(Value::bool(address(args)?.is_loopback()))
}

fn is_link_local_multicast<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    Ok(Value::bool(match address(args)? {
        IpAddr::V4(address) => matches!(address.octets(), [224, 0, 0, _]),
        IpAddr::V6(address) => address.to_bits() >> 112 & 0xff0f == 0xff02,
    }))
}

fn is_link_local_unicast<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    Ok(Value::bool(link_local_unicast(address(args)?)))
}

fn link_local_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

fn is_global_unicast<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let address = address(args)?;
    let special = address.is_unspecified()
        || address.is_loopback()
        || address.is_multicast()
        || link_local_unicast(address)
        || address == IpAddr::V4(Ipv4Addr::BROADCAST);
    Ok(Value::bool(!special))
}

fn address(args: &[Value<'_>]) -> Result<IpAddr, Failure> {
    match args {
        [Value(Kind::Opaque(Opaque::Ip(address)))] => Ok(*address),
        _ => Err(Failure::NoOverload),
    }
}

fn cidr<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let [Value(Kind::String(text))] = args else {
        return Err(Failure::NoOverload);
    };
    Cidr::parse(text)
        .map(|cidr| Value::opaque(Opaque::Cidr(cidr)))
        .map_err(|error| conversion(&error))
}

fn is_cidr<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    match args {
        [Value(Kind::String(text))] => Ok(Value::bool(Cidr::parse(text).is_ok())),
        _ => Err(Failure::NoOverload),
    }
}

fn contains_ip<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let [Value(Kind::Opaque(Opaque::Cidr(cidr))), other] = args else {
        return Err(Failure::NoOverload);
    };
    let address = match &other.0 {
        Kind::Opaque(Opaque::Ip(address)) => *address,
        Kind::String(text) => parse_ip(text).map_err(Failure::new)?,
        _ => return Err(Failure::NoOverload),
    };
    Ok(Value::bool(cidr.contains(address)))
}

fn contains_cidr<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let [Value(Kind::Opaque(Opaque::Cidr(cidr))), other] = args else {
        return Err(Failure::NoOverload);
    };
    let inner = match &other.0 {
        Kind::Opaque(Opaque::Cidr(inner)) => *inner,
        Kind::String(text) => Cidr::parse(text).map_err(|error| conversion(&error))?,
        _ => return Err(Failure::NoOverload),
    };
    let within = cidr.prefix <= inner.prefix && cidr.contains(inner.address);
    Ok(Value::bool(within))
}

fn ip_of_cidr<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    Ok(Value::opaque(Opaque::Ip(range(args)?.address)))
}

fn prefix_length<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    Ok(Value::int(range(args)?.prefix.into()))
}

fn masked<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    Ok(Value::opaque(Opaque::Cidr(range(args)?.masked())))
}

fn range(args: &[Value<'_>]) -> Result<Cidr, Failure> {
    match args {
        [Value(Kind::Opaque(Opaque::Cidr(cidr)))] => Ok(*cidr),
        _ => Err(Failure::NoOverload),
    }
}

fn conversion(error: &str) -> Failure {
    Failure::new(format!(
        "network address parse error during conversion from string: {error}"
    ))
}
