//! The formats of OpenAPI strings that Kubernetes checks. Dashes in names of formats mean nothing.
//!
//! Source: `apiextensions-apiserver/pkg/apiserver/validation/formats.go`, `kube-openapi/pkg/validation/strfmt`.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;

use crate::Duration;
use crate::names::{is_dns_label, is_dns_subdomain};
use crate::url::Url;

/// Formats of strings, without dashes.
const STRING_FORMATS: [&str; 26] = [
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
    "k8sshortname",
    "k8slongname",
];

/// Whether texts are checked against this format.
pub fn is_known_format(format: &str) -> bool {
    STRING_FORMATS.contains(&format.replace('-', "").as_str())
}

/// Whether `text` is of a known format.
pub fn matches(format: &str, text: &str) -> bool {
    match format.replace('-', "").as_str() {
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|it| it.is_ascii_hexdigit()),
        "uri" => Url::parse(text).is_ok(),
        "email" => is_email(text),
        "hostname" => is_hostname(text),
        "ipv4" => sloppy_ip(text).is_some() && text.contains('.'),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "uuid" => is_uuid(text),
        "uuid3" => is_uuid(text) && uuid_version(text) == Some(b'3'),
        "uuid4" => is_uuid(text) && uuid_version(text) == Some(b'4') && has_rfc_variant(text),
        "uuid5" => is_uuid(text) && uuid_version(text) == Some(b'5') && has_rfc_variant(text),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "creditcard" => is_credit_card(text),
        "ssn" => SSN.is_match(text),
        "hexcolor" => HEX_COLOR.is_match(text),
        "rgbcolor" => RGB_COLOR.is_match(text),
        "byte" => is_base64(text),
        "date" => is_date(text),
        "duration" => Duration::parse_openapi(text).is_some(),
        "datetime" => is_date_time(text),
        "k8sshortname" => is_dns_label(text).is_empty(),
        "k8slongname" => is_dns_subdomain(text).is_empty(),
        // A password is any text; unknown formats are not asked for.
        _ => true,
    }
}

/// A pattern of this file.
fn pattern(source: &str) -> Regex {
    Regex::new(source).expect("the patterns below are constants, compiled by a test")
}

static UUID: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$")
});
static SSN: LazyLock<Regex> = LazyLock::new(|| pattern(r"^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$"));
static HEX_COLOR: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"));
static RGB_COLOR: LazyLock<Regex> = LazyLock::new(|| {
    let byte = "(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])";
    let space = r"[\t\n\x0C\r ]*";
    let comma = format!("{space},{space}");
    pattern(&format!(
        r"^rgb\({space}{byte}{comma}{byte}{comma}{byte}{space}\)$"
    ))
});
static BASE64: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$")
});
static HOSTNAME: LazyLock<Regex> = LazyLock::new(|| {
    let any = r"[a-zA-Z0-9\p{S}\p{L}]";
    pattern(&format!(
        r"^({any}((-?{any}{{0,62}})?)|({any}(([a-zA-Z0-9\-\p{{S}}\p{{L}}]{{0,61}}{any})?)(\.)){{1,}}([a-zA-Z\p{{L}}]){{2,63}})$"
    ))
});
static CREDIT_CARD: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|(222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|2720)[0-9]{12}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11}|6[27][0-9]{14})$",
    )
});
static TIME_OF_DAY: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$")
});

/// Whether `text` is a UUID of any version, with or without its dashes.
pub fn is_uuid(text: &str) -> bool {
    UUID.is_match(text)
}

/// Whether `text` is padded base64; an empty text is not.
pub fn is_base64(text: &str) -> bool {
    BASE64.is_match(text)
}

/// An address of RFC 5322: `a@b`, `<a@b>` or `Name <a@b>`; comments and groups are not taken.
fn is_email(text: &str) -> bool {
    let trimmed = text.trim_matches([' ', '\t']);
    let address = match (trimmed.strip_suffix('>'), trimmed.find('<')) {
        (Some(inner), Some(_)) => {
            let Some((name, address)) = inner.split_once('<') else {
                return false;
            };
            if !is_phrase(name.trim()) {
                return false;
            }
            address
        }
        _ => trimmed,
    };
    let Some((local, domain)) = address.rsplit_once('@') else {
        return false;
    };
    let local_ok = match local.strip_prefix('"').and_then(|it| it.strip_suffix('"')) {
        Some(quoted) => !quoted.contains(['"', '\\', '\n', '\r']),
        None => is_dot_atom(local),
    };
    local_ok && (is_dot_atom(domain) || is_domain_literal(domain))
}

fn is_phrase(name: &str) -> bool {
    if let Some(quoted) = name.strip_prefix('"').and_then(|it| it.strip_suffix('"')) {
        return !quoted.contains(['"', '\\']);
    }
    name.split([' ', '\t'])
        .filter(|word| !word.is_empty())
        .all(is_dot_atom)
}

fn is_dot_atom(text: &str) -> bool {
    let is_atom_char = |character: char| {
        character.is_ascii_alphanumeric()
            || "!#$%&'*+-/=?^_`{|}~".contains(character)
            || !character.is_ascii()
    };
    !text.is_empty()
        && text
            .split('.')
            .all(|atom| !atom.is_empty() && atom.chars().all(is_atom_char))
}

fn is_domain_literal(domain: &str) -> bool {
    let inner = domain.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    inner.is_some_and(|inner| {
        let address = inner.strip_prefix("IPv6:").unwrap_or(inner);
        sloppy_ip(address).is_some()
    })
}

fn is_hostname(text: &str) -> bool {
    HOSTNAME.is_match(text) && text.len() <= 255 && text.split('.').all(|label| label.len() <= 63)
}

/// Which kind of address.
enum Ip {
    V4,
    V6,
}

/// An address as Go parsed it before 1.17: leading zeros are tolerated.
fn sloppy_ip(text: &str) -> Option<Ip> {
    let canonical = |text: &str| -> String {
        let part = |part: &str| match part.trim_start_matches('0') {
            "" if !part.is_empty() => "0".to_owned(),
            stripped => stripped.to_owned(),
        };
        text.split('.').map(part).collect::<Vec<_>>().join(".")
    };
    if text.contains(':') {
        return text.parse::<Ipv6Addr>().ok().map(|_| Ip::V6);
    }
    canonical(text).parse::<Ipv4Addr>().ok().map(|_| Ip::V4)
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else {
        return false;
    };
    let length_max = match sloppy_ip(address) {
        Some(Ip::V4) => 32,
        Some(Ip::V6) => 128,
        None => return false,
    };
    let digits = !length.is_empty() && length.bytes().all(|it| it.is_ascii_digit());
    digits
        && length
            .parse::<u32>()
            .is_ok_and(|length| length <= length_max)
}

/// EUI-48, EUI-64 or a 20-byte InfiniBand address, in the three notations of `net.ParseMAC`.
fn is_mac(text: &str) -> bool {
    let groups = |separator: char, width: usize| {
        let mut count = 0;
        let plain = text.split(separator).all(|group| {
            count += 1;
            group.len() == width && group.bytes().all(|it| it.is_ascii_hexdigit())
        });
        plain.then_some(count * width / 2)
    };
    let bytes = if text.contains('.') {
        groups('.', 4)
    } else if text.contains('-') {
        groups('-', 2)
    } else {
        groups(':', 2)
    };
    matches!(bytes, Some(6 | 8 | 20))
}

/// The hexadecimal digits of a UUID, without dashes.
fn uuid_digit(text: &str, index: usize) -> Option<u8> {
    text.bytes().filter(|byte| *byte != b'-').nth(index)
}

fn uuid_version(text: &str) -> Option<u8> {
    uuid_digit(text, 12)
}

fn has_rfc_variant(text: &str) -> bool {
    uuid_digit(text, 16)
        .is_some_and(|it| matches!(it.to_ascii_lowercase(), b'8' | b'9' | b'a' | b'b'))
}

fn isbn_digits(text: &str) -> String {
    text.chars()
        .filter(|it| !matches!(it, '-' | ' ' | '\t' | '\n' | '\r'))
        .collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = isbn_digits(text);
    if digits.len() != 10 {
        return false;
    }
    let mut sum = 0;
    for (weight, byte) in (1_u32..).zip(digits.bytes()) {
        let value = match byte {
            b'0'..=b'9' => u32::from(byte - b'0'),
            b'X' if weight == 10 => 10,
            _ => return false,
        };
        sum += weight * value;
    }
    sum.is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let digits = isbn_digits(text);
    if digits.len() != 13 || !digits.bytes().all(|it| it.is_ascii_digit()) {
        return false;
    }
    let sum: u32 = digits
        .bytes()
        .zip([1_u32, 3].into_iter().cycle())
        .map(|(byte, weight)| weight * u32::from(byte - b'0'))
        .sum();
    sum.is_multiple_of(10)
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    if !CREDIT_CARD.is_match(&digits) {
        return false;
    }
    let sum: u32 = digits
        .bytes()
        .rev()
        .zip([false, true].into_iter().cycle())
        .map(|(byte, doubled)| {
            let digit = u32::from(byte - b'0');
            match (doubled, digit * 2) {
                (true, twice) if twice >= 10 => twice % 10 + 1,
                (true, twice) => twice,
                (false, _) => digit,
            }
        })
        .sum();
    sum.is_multiple_of(10)
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

/// Compares the time as text, as Kubernetes does: a leap second is not taken, and any separator may precede the fraction.
fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else {
        return false;
    };
    if text.len() < 4 || !is_date(date) {
        return false;
    }
    let Some(found) = TIME_OF_DAY.captures(time) else {
        return false;
    };
    let within = |group: usize, most: &str| found.get(group).is_some_and(|it| it.as_str() <= most);
    within(1, "23") && within(2, "59") && within(3, "59")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_take_what_kubernetes_takes() {
        let cases = [
            ("uri", "https://example.com/a?b=c", true),
            ("uri", "/a/b", true),
            ("uri", "example.com", false),
            ("uri", "http://a b/", false),
            ("uri", "http://a/%zz", false),
            ("uri", "http://host:port/", false),
            ("email", "a@b", true),
            ("email", "Jo Doe <a.b@c.d>", true),
            ("email", "a", false),
            ("email", "a@b@c", false),
            ("hostname", "a.example.com", true),
            ("hostname", "-a", false),
            ("ipv4", "010.1.1.1", true),
            ("ipv4", "1.1.1", false),
            ("ipv6", "::1", true),
            ("ipv6", "1.1.1.1", false),
            ("cidr", "10.0.0.0/8", true),
            ("cidr", "10.0.0.0/33", false),
            ("cidr", "fd00::/64", true),
            ("mac", "00:11:22:33:44:55", true),
            ("mac", "0011.2233.4455", true),
            ("mac", "00:11", false),
            ("uuid", "6F9619FF-8B86-D011-B42D-00CF4FC964FF", true),
            ("uuid4", "6f9619ff-8b86-d011-b42d-00cf4fc964ff", false),
            ("uuid4", "6f9619ff-8b86-4011-b42d-00cf4fc964ff", true),
            ("isbn", "978-0321751041", true),
            ("isbn10", "0321751043", true),
            ("isbn10", "0321751044", false),
            ("creditcard", "4111-1111-1111-1111", true),
            ("creditcard", "4111-1111-1111-1112", false),
            ("ssn", "123-45-6789", true),
            ("hexcolor", "#ffF", true),
            ("rgbcolor", "rgb(255, 0,1)", true),
            ("rgbcolor", "rgb(256,0,1)", false),
            ("byte", "aGk=", true),
            ("byte", "aGk", false),
            ("byte", "", false),
            ("date", "2024-02-29", true),
            ("date", "2023-02-29", false),
            ("date-time", "2014-12-15T19:30:20.000Z", true),
            ("date-time", "2014-12-15T19:30:20+01:00", true),
            ("date-time", "2014-12-15T24:30:20Z", false),
            ("date-time", "2014-12-15", false),
            ("duration", "1h30m", true),
            ("duration", "1.5s", true),
            ("duration", "3 days", true),
            ("duration", "0", true),
            ("duration", "5", false),
            ("duration", "", false),
            ("bsonobjectid", "507f1f77bcf86cd799439011", true),
            ("k8s-short-name", "a-b", true),
            ("k8s-short-name", "a.b", false),
            ("k8s-long-name", "a.b", true),
            ("password", "", true),
        ];
        for (format, text, want) in cases {
            assert!(is_known_format(format), "{format}");
            assert_eq!(matches(format, text), want, "{format}: {text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in ".{0,30}", index in 0..STRING_FORMATS.len()) {
            let _: bool = matches(STRING_FORMATS[index], &text);
        }
    }
}
