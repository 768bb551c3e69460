//! Names: DNS labels and subdomains, label keys and values, path segments.
//!
//! Each check returns what is wrong with a text; an empty list means that it is valid. The length limits are in bytes.
//!
//! Source: `apimachinery/pkg/{util,api}/validation`, `apimachinery/pkg/api/validate/content`.

const LABEL_BYTES_MAX: usize = 63;
const SUBDOMAIN_BYTES_MAX: usize = 253;

const DNS_LABEL_TEXT: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const DNS_SUBDOMAIN_TEXT: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const DNS1035_TEXT: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const LABEL_KEY_TEXT: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE_TEXT: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const CONFIG_KEY_TEXT: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

/// What the names of a resource may look like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NameRule {
    /// Dotted labels, up to 253 bytes; the rule for custom resources.
    #[default]
    DnsSubdomain,
    /// One label, up to 63 bytes; the rule for namespaces.
    DnsLabel,
    /// One label that begins with a letter; the rule for services.
    Dns1035Label,
    /// Whatever fits into one URL segment; the rule for RBAC.
    PathSegment,
    /// An IP address in its canonical form.
    IpAddress,
}

// === impl NameRule ===

impl NameRule {
    /// Returns what is wrong with a name.
    pub fn check(self, name: &str) -> Vec<String> {
        match self {
            Self::DnsSubdomain => is_dns_subdomain(name),
            Self::DnsLabel => is_dns_label(name),
            Self::Dns1035Label => is_dns1035_label(name),
            Self::PathSegment => is_path_segment(name),
            Self::IpAddress => is_canonical_address(name),
        }
    }

    /// Returns what is wrong with the stem of a generated name, which may end in a dash.
    pub fn check_prefix(self, stem: &str) -> Vec<String> {
        if self == Self::PathSegment {
            return path_segment_content(stem);
        }
        // Kubernetes replaces the last *two* characters by one letter; only the shape counts here.
        match stem.strip_suffix('-') {
            Some(rest) if !rest.is_empty() => {
                let mut masked = rest.to_owned();
                masked.pop();
                masked.push('a');
                self.check(&masked)
            }
            _ => self.check(stem),
        }
    }
}

/// Checks an IP address.
///
/// Source: `kubernetes/pkg/apis/networking/validation/validation.go` (`ValidateIPAddressName`).
pub fn is_canonical_address(text: &str) -> Vec<String> {
    match text.parse::<std::net::IpAddr>() {
        Ok(address) if address.to_string() == text => Vec::new(),
        Ok(address) => vec![format!("must be in canonical form (\"{address}\")")],
        Err(_) => vec![format!(
            "ParseAddr({}): unable to parse IP",
            crate::quote(text)
        )],
    }
}

/// Checks a DNS label (RFC 1123).
pub fn is_dns_label(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > LABEL_BYTES_MAX {
        errors.push(too_many_characters(LABEL_BYTES_MAX));
    }
    if !label_shape(text) {
        // A subdomain that is no label has dots, as the length was judged above.
        let error = if subdomain_shape(text) {
            "must not contain dots"
        } else {
            DNS_LABEL_TEXT
        };
        errors.push(error.to_owned());
    }
    errors
}

/// Checks a DNS subdomain (RFC 1123).
pub fn is_dns_subdomain(text: &str) -> Vec<String> {
    subdomain(text, too_many_characters)
}

/// Checks a DNS label that begins with a letter (RFC 1035).
pub fn is_dns1035_label(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > LABEL_BYTES_MAX {
        errors.push(too_many_characters(LABEL_BYTES_MAX));
    }
    if !(label_shape(text) && text.starts_with(|first: char| first.is_ascii_lowercase())) {
        errors.push(DNS1035_TEXT.to_owned());
    }
    errors
}

/// Checks a qualified name, which is what label keys, annotation keys and finalizers are: an optional DNS
/// subdomain and a slash, and a name.
pub fn is_qualified_name(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let name = match text.split_once('/') {
        None => text,
        Some((_, rest)) if rest.contains('/') => {
            errors.push(format!(
                "a valid label key {LABEL_KEY_TEXT} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ));
            return errors;
        }
        Some((prefix, name)) => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                let wrong = subdomain(prefix, too_many_bytes);
                errors.extend(
                    wrong
                        .into_iter()
                        .map(|error| format!("prefix part {error}")),
                );
            }
            name
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_BYTES_MAX {
        errors.push(format!("name part {}", too_many_bytes(LABEL_BYTES_MAX)));
    }
    if !label_key_shape(name) {
        errors.push(format!("name part {LABEL_KEY_TEXT}"));
    }
    errors
}

/// Checks a label's value.
pub fn is_label_value(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > LABEL_BYTES_MAX {
        errors.push(too_many_bytes(LABEL_BYTES_MAX));
    }
    if !(text.is_empty() || label_key_shape(text)) {
        errors.push(LABEL_VALUE_TEXT.to_owned());
    }
    errors
}

/// Checks a name that stands in a URL as one segment.
pub fn is_path_segment(text: &str) -> Vec<String> {
    if text == "." || text == ".." {
        return vec![format!("may not be '{text}'")];
    }
    path_segment_content(text)
}

/// Checks a key of a ConfigMap or Secret.
pub fn is_config_map_key(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > SUBDOMAIN_BYTES_MAX {
        errors.push(too_many_characters(SUBDOMAIN_BYTES_MAX));
    }
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if text.is_empty() || !text.bytes().all(known) {
        errors.push(CONFIG_KEY_TEXT.to_owned());
    }
    if text == "." || text == ".." {
        errors.push(format!("must not be '{text}'"));
    } else if text.starts_with("..") {
        errors.push("must not start with '..'".to_owned());
    }
    errors
}

fn path_segment_content(text: &str) -> Vec<String> {
    ["/", "%"]
        .into_iter()
        .filter(|&illegal| text.contains(illegal))
        .map(|illegal| format!("may not contain '{illegal}'"))
        .collect()
}

fn subdomain(text: &str, too_many: fn(usize) -> String) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > SUBDOMAIN_BYTES_MAX {
        errors.push(too_many(SUBDOMAIN_BYTES_MAX));
    }
    if !subdomain_shape(text) {
        errors.push(DNS_SUBDOMAIN_TEXT.to_owned());
    }
    errors
}

fn subdomain_shape(text: &str) -> bool {
    text.split('.').all(label_shape)
}

/// `[a-z0-9]([-a-z0-9]*[a-z0-9])?`
fn label_shape(text: &str) -> bool {
    let edge = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    has_shape(text, edge, |byte| edge(byte) || byte == b'-')
}

/// `([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]`
fn label_key_shape(text: &str) -> bool {
    let edge = |byte: u8| byte.is_ascii_alphanumeric();
    has_shape(text, edge, |byte| {
        edge(byte) || matches!(byte, b'-' | b'_' | b'.')
    })
}

fn has_shape(text: &str, edge: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(&first), Some(&last)) => edge(first) && edge(last) && text.bytes().all(inner),
        _ => false,
    }
}

fn too_many_characters(count_max: usize) -> String {
    format!("must be no more than {count_max} characters")
}

fn too_many_bytes(count_max: usize) -> String {
    format!("must be no more than {count_max} bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_subdomains_have_their_shape() {
        let long_label = "a".repeat(64);
        let long_subdomain = ["a"; 127].join(".") + ".a";
        for (text, label, subdomain, label1035) in [
            ("a", true, true, true),
            ("0", true, true, false),
            ("a-b", true, true, true),
            ("a.b", false, true, false),
            ("", false, false, false),
            ("-a", false, false, false),
            ("a-", false, false, false),
            ("a..b", false, false, false),
            (".a", false, false, false),
            ("A", false, false, false),
            ("a_b", false, false, false),
            ("ä", false, false, false),
            (long_label.as_str(), false, true, false),
            (long_subdomain.as_str(), false, false, false),
        ] {
            assert_eq!(is_dns_label(text).is_empty(), label, "{text}");
            assert_eq!(is_dns_subdomain(text).is_empty(), subdomain, "{text}");
            assert_eq!(is_dns1035_label(text).is_empty(), label1035, "{text}");
        }
        assert_eq!(is_dns_label("a.b"), ["must not contain dots"]);
        assert_eq!(
            is_dns_label(&long_label),
            ["must be no more than 63 characters"]
        );
    }

    #[test]
    fn qualified_names_have_an_optional_prefix() {
        let long = "a".repeat(64);
        for (text, want) in [
            ("a", vec![]),
            ("example.com/a_b.C-d", vec![]),
            ("1", vec![]),
            ("/a", vec!["prefix part must be non-empty"]),
            (
                "a/",
                vec!["name part must be non-empty", "name part must consist of"],
            ),
            (
                "",
                vec!["name part must be non-empty", "name part must consist of"],
            ),
            (
                "A.com/a",
                vec!["prefix part a lowercase RFC 1123 subdomain"],
            ),
            ("a/b/c", vec!["a valid label key must consist of"]),
            ("-a", vec!["name part must consist of"]),
            (
                long.as_str(),
                vec!["name part must be no more than 63 bytes"],
            ),
        ] {
            let errors = is_qualified_name(text);
            assert_eq!(errors.len(), want.len(), "{text}: {errors:?}");
            for (error, want) in errors.iter().zip(want) {
                assert!(error.starts_with(want), "{text}: {error}");
            }
        }
    }

    #[test]
    fn label_values_may_be_empty() {
        for (text, want) in [("", true), ("a.B_c-1", true), ("-", false), ("a b", false)] {
            assert_eq!(is_label_value(text).is_empty(), want, "{text}");
        }
    }

    #[test]
    fn stems_of_generated_names_may_end_in_a_dash() {
        for (rule, stem, want) in [
            (NameRule::DnsSubdomain, "a-", true),
            (NameRule::DnsSubdomain, "a--", true),
            (NameRule::DnsSubdomain, "-", false),
            (NameRule::DnsSubdomain, "a.", false),
            (NameRule::DnsLabel, "a.b-", false),
            (NameRule::Dns1035Label, "1a-", false),
            (NameRule::PathSegment, "..", true),
            (NameRule::PathSegment, "a/", false),
        ] {
            assert_eq!(rule.check_prefix(stem).is_empty(), want, "{rule:?} {stem}");
        }
    }

    #[test]
    fn path_segments_are_free_but_for_what_urls_would_misread() {
        for (text, want) in [
            ("system:node", true),
            ("a b", true),
            (".", false),
            ("..", false),
            ("a%", false),
        ] {
            assert_eq!(is_path_segment(text).is_empty(), want, "{text}");
        }
        for (text, want) in [("a.b", true), ("..a", false), ("", false), ("a/b", false)] {
            assert_eq!(is_config_map_key(text).is_empty(), want, "{text}");
        }
    }
}
