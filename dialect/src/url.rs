//! URLs and queries as Go reads them.
//!
//! Source: Go's `net/url`.

use std::fmt::Write as _;

/// A parsed absolute URI or absolute path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    scheme: String,
    host: String,
    /// As escaped in the URL.
    path: String,
    query: String,
    fragment: String,
}

// === impl Url ===

impl Url {
    /// Parses what Go's `url.ParseRequestURI` takes, splitting off the fragment as `url.Parse` does.
    ///
    /// # Errors
    /// As Go's, for a text that is neither an absolute URI nor an absolute path.
    pub fn parse(text: &str) -> Result<Self, String> {
        let refuse = |why: &str| format!("parse {text:?}: {why}");
        if text.chars().any(|c| c.is_ascii_control()) {
            return Err(refuse("net/url: invalid control character in URL"));
        }
        if text.is_empty() {
            return Err(refuse("empty url"));
        }
        let (scheme, after) = split_scheme(text).map_err(refuse)?;
        let rooted = after.starts_with('/') || text == "*";
        if scheme.is_empty() && !rooted {
            return Err(refuse("invalid URI for request"));
        }
        let (before, fragment) = after.split_once('#').unwrap_or((after, ""));
        let (before, query) = before.split_once('?').unwrap_or((before, ""));
        let (host, path) = match before.strip_prefix("//") {
            // A rootless URL such as `mailto:a@b` is opaque: it has neither host nor path.
            _ if !rooted => (String::new(), ""),
            Some(rest) if !scheme.is_empty() || !before.starts_with("///") => {
                let end = rest.find('/').unwrap_or(rest.len());
                let (authority, path) = rest.split_at(end);
                (host_of(authority).map_err(refuse)?, path)
            }
            _ => (String::new(), before),
        };
        check_escapes(path).map_err(|escape| refuse(&escape))?;
        check_escapes(fragment).map_err(|escape| refuse(&escape))?;
        Ok(Self {
            scheme,
            host,
            path: escape_path(path),
            query: query.to_owned(),
            fragment: fragment.to_owned(),
        })
    }

    /// Returns the scheme in lower case; empty for a path.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// Returns the host with its port.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the host without port and brackets.
    pub fn hostname(&self) -> &str {
        let (host, _) = split_port(&self.host);
        host.strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host)
    }

    /// Returns the port; empty where none is named.
    pub fn port(&self) -> &str {
        split_port(&self.host).1
    }

    /// Returns the path as it is escaped in the URL.
    pub fn escaped_path(&self) -> &str {
        &self.path
    }

    /// Returns the query as it stands in the URL; see [`query_pairs`].
    pub fn query(&self) -> &str {
        &self.query
    }
}

/// Reads names and values of a query in their order. Pairs that cannot be decoded are left out, as `URL.Query` does.
/// Bytes that are no text become replacement characters.
pub fn query_pairs(query: &str) -> impl Iterator<Item = (String, String)> {
    query
        .split('&')
        .filter(|pair| !pair.is_empty() && !pair.contains(';'))
        .filter_map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((unescape_query(name)?, unescape_query(value)?))
        })
}

/// Escapes a value of a query, as `QueryEscape` does.
pub fn escape_query(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                escaped.push(char::from(byte));
            }
            b' ' => escaped.push('+'),
            _ => {
                const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
                escaped.push('%');
                escaped.push(char::from(DIGITS[usize::from(byte >> 4)]));
                escaped.push(char::from(DIGITS[usize::from(byte & 15)]));
            }
        }
    }
    escaped
}

fn split_scheme(text: &str) -> Result<(String, &str), &'static str> {
    for (index, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if index > 0 => {}
            ':' if index == 0 => return Err("missing protocol scheme"),
            ':' => {
                let (scheme, rest) = text.split_at(index);
                let after = rest.strip_prefix(':').unwrap_or(rest);
                return Ok((scheme.to_ascii_lowercase(), after));
            }
            _ => break,
        }
    }
    Ok((String::new(), text))
}

fn host_of(authority: &str) -> Result<String, &'static str> {
    let host = match authority.rsplit_once('@') {
        None => authority,
        Some((user, host)) => {
            let valid = user
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c));
            if !valid {
                return Err("net/url: invalid userinfo");
            }
            host
        }
    };
    if let Some(inner) = host.strip_prefix('[') {
        let Some((address, after)) = inner.rsplit_once(']') else {
            return Err("missing ']' in host");
        };
        if !valid_port(after) {
            return Err("invalid port after host");
        }
        if address.contains(['[', ' ']) {
            return Err("invalid character in host name");
        }
        return Ok(host.to_owned());
    }
    // A second colon stands in brackets only.
    if let Some((_, port)) = host.split_once(':')
        && !port.chars().all(|c| c.is_ascii_digit())
    {
        return Err("invalid port after host");
    }
    let valid = |c: char| {
        !c.is_ascii() || c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:[]<>\"%".contains(c)
    };
    if host.chars().all(valid) {
        unescape_host(host).ok_or("invalid URL escape in host")
    } else {
        Err("invalid character in host name")
    }
}

/// Only bytes beyond ASCII may be escaped in a host.
fn unescape_host(host: &str) -> Option<String> {
    if !host.contains('%') {
        return Some(host.to_owned());
    }
    let bytes = unescape_bytes(host, false)?;
    let beyond = bytes.iter().filter(|byte| !byte.is_ascii()).count();
    let escapes = host.matches('%').count();
    (beyond >= escapes).then_some(())?;
    String::from_utf8(bytes).ok()
}

fn valid_port(text: &str) -> bool {
    text.is_empty()
        || text
            .strip_prefix(':')
            .is_some_and(|port| port.chars().all(|c| c.is_ascii_digit()))
}

fn split_port(host: &str) -> (&str, &str) {
    match host.rsplit_once(':') {
        Some((before, port)) if !port.contains(']') && port.chars().all(|c| c.is_ascii_digit()) => {
            (before, port)
        }
        _ => (host, ""),
    }
}

/// Refuses a `%` that is not followed by two hexadecimal digits, in Go's words.
fn check_escapes(text: &str) -> Result<(), String> {
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        let (_, from) = rest.split_at(at);
        let escape: String = from.chars().take(3).collect();
        let digits = escape.chars().skip(1).filter(char::is_ascii_hexdigit);
        if digits.count() != 2 {
            return Err(format!("invalid URL escape {escape:?}"));
        }
        rest = from.get(3..).unwrap_or_default();
    }
    Ok(())
}

/// Escapes what a path cannot hold; what is escaped already stays as it is.
fn escape_path(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for byte in path.bytes() {
        let c = char::from(byte);
        if byte.is_ascii_alphanumeric() || "-_.~$&+,/:;=@!'()*%[]".contains(c) {
            escaped.push(c);
        } else {
            write!(escaped, "%{byte:02X}").expect("writing to a string does not fail");
        }
    }
    escaped
}

fn unescape_query(text: &str) -> Option<String> {
    let bytes = unescape_bytes(text, true)?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn unescape_bytes(text: &str, plus_is_space: bool) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let high = char::from(rest.next()?).to_digit(16)?;
                let low = char::from(rest.next()?).to_digit(16)?;
                bytes.push(u8::try_from(high * 16 + low).ok()?);
            }
            b'+' if plus_is_space => bytes.push(b' '),
            byte => bytes.push(byte),
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_read_as_in_go() {
        for (text, scheme, host, hostname, port, path) in [
            (
                "https://user:pass@example.com:80/path?query=val#frag",
                "https",
                "example.com:80",
                "example.com",
                "80",
                "/path",
            ),
            (
                "http://[::1]:8080/a b",
                "http",
                "[::1]:8080",
                "::1",
                "8080",
                "/a%20b",
            ),
            ("/path", "", "", "", "", "/path"),
            (
                "HTTP://Example.com",
                "http",
                "Example.com",
                "Example.com",
                "",
                "",
            ),
            ("https://a/%2Fb", "https", "a", "a", "", "/%2Fb"),
            ("file:///etc/x", "file", "", "", "", "/etc/x"),
            ("mailto:a@b", "mailto", "", "", "", ""),
        ] {
            let url = Url::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(
                (
                    &*url.scheme,
                    &*url.host,
                    url.hostname(),
                    url.port(),
                    &*url.path
                ),
                (scheme, host, hostname, port, path),
                "{text}"
            );
        }
    }

    #[test]
    fn relative_and_malformed_urls_are_refused() {
        for text in [
            "",
            "foo",
            "../bar",
            ":8080",
            "https://a b/",
            "https://a:x/",
            "/%zz",
            "http://[::1",
            "/a\n",
        ] {
            assert!(Url::parse(text).is_err(), "{text:?}");
        }
    }

    /// As Go 1.26 answers.
    #[test]
    fn what_a_request_may_name_is_what_go_takes() {
        for (text, want) in [
            ("*", true),
            ("a:b", true),
            ("a:", true),
            ("http://", true),
            ("http:///x", true),
            ("//host/x", true),
            ("http://u:p@h/x", true),
            ("http://u p@h", false),
            ("http://a:1:2", false),
            ("http://h%41", false),
            ("/a b", true),
            ("1a:b", false),
            ("mailto:a@b", true),
            ("/a?%zz", true),
            ("/a#%zz", false),
            ("http://ä/x", true),
            ("http://a<b>", true),
            ("http://a|b", false),
            ("http://a\\b", false),
            ("x", false),
            ("?a", false),
            ("http:x", true),
            ("http://a?b c", true),
            ("http://h:80?x#y", true),
            ("///x", true),
        ] {
            assert_eq!(Url::parse(text).is_ok(), want, "{text}");
        }
    }

    #[test]
    fn a_query_keeps_the_order_of_its_pairs() {
        let url = Url::parse("/?a=1&b=x%20y+z&a=2&c&d;e=1&f=%zz").expect("a path");
        let pairs: Vec<(String, String)> = query_pairs(url.query()).collect();
        let want = [("a", "1"), ("b", "x y z"), ("a", "2"), ("c", "")];
        assert_eq!(
            pairs,
            want.map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
    }
}
