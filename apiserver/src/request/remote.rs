//! The headers in which a front proxy says who sends a request.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::{collections::BTreeMap, str, sync::LazyLock};

use http::{HeaderMap, HeaderName, HeaderValue};

use super::UserInfo;

/// The names of the headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderNames {
    /// Of the user: the first that has a value counts.
    usernames: Vec<HeaderName>,
    /// Of the uid: the first that has a value counts.
    uids: Vec<HeaderName>,
    /// Of groups: all values count.
    groups: Vec<HeaderName>,
    /// What headers of extras begin with, in lower case. The rest of their name is the key, escaped.
    extra_prefixes: Vec<String>,
}

/// Why names of headers cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderNamesError {
    /// One of them is none.
    #[error("{0:?} is no name of a header")]
    Name(String),
    /// A header that says something else, and would be taken off every request.
    #[error("{0:?} is the name of a header of HTTP, or of one that says something else to the hub")]
    Taken(String),
}

/// Headers that say something else, which no front proxy may say with them. What begins with a name of [`TAKEN_PREFIXES`] is taken too.
const TAKEN: [&str; 13] = [
    "accept",
    "audit-id",
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "host",
    "if-none-match",
    "te",
    "transfer-encoding",
    "upgrade",
    "user-agent",
];
const TAKEN_PREFIXES: [&str; 2] = ["impersonate-", "sec-websocket-"];

/// What is taken off every request, whatever settings say.
static USUAL: LazyLock<HeaderNames> = LazyLock::new(HeaderNames::default);

// === impl HeaderNames ===

impl Default for HeaderNames {
    /// The names that kube-apiserver's aggregation layer uses, whatever its flags say.
    fn default() -> Self {
        Self {
            usernames: vec![HeaderName::from_static("x-remote-user")],
            uids: vec![HeaderName::from_static("x-remote-uid")],
            groups: vec![HeaderName::from_static("x-remote-group")],
            extra_prefixes: vec!["x-remote-extra-".to_owned()],
        }
    }
}

impl HeaderNames {
    /// Takes the names of settings; those that are empty are the default ones.
    ///
    /// # Errors
    /// [`HeaderNamesError`] for the first that cannot be used.
    pub fn parse(
        usernames: &[String],
        uids: &[String],
        groups: &[String],
        extra_prefixes: &[String],
    ) -> Result<Self, HeaderNamesError> {
        let default = Self::default();
        let names = |given: &[String], default: Vec<HeaderName>| {
            if given.is_empty() {
                return Ok(default);
            }
            given.iter().map(|text| name_of(text)).collect()
        };
        let prefixes = extra_prefixes
            .iter()
            .map(|text| Ok(name_of(text)?.as_str().to_owned()))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            usernames: names(usernames, default.usernames)?,
            uids: names(uids, default.uids)?,
            groups: names(groups, default.groups)?,
            extra_prefixes: if prefixes.is_empty() {
                default.extra_prefixes
            } else {
                prefixes
            },
        })
    }

    /// Reads the user; `None` where no header names one, or one of them is no text.
    pub(crate) fn read(&self, headers: &HeaderMap) -> Option<UserInfo> {
        let first = |names: &[HeaderName]| {
            // Of a header that comes twice the first one counts, as in Go.
            let values = names.iter().filter_map(|name| headers.get(name));
            values.map(text_of).find(|it| it.as_deref() != Some(""))
        };
        let username = first(&self.usernames)??;
        let uid = first(&self.uids).unwrap_or_else(|| Some(String::new()))?;
        let mut groups = Vec::new();
        for value in self.groups.iter().flat_map(|name| headers.get_all(name)) {
            let group = text_of(value)?;
            if !group.is_empty() {
                groups.push(group);
            }
        }
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for prefix in &self.extra_prefixes {
            for (name, value) in headers {
                if let Some(key) = name.as_str().strip_prefix(prefix.as_str()) {
                    extra.entry(key_of(key)).or_default().push(text_of(value)?);
                }
            }
        }
        Some(UserInfo::claimed(username, uid, groups, extra))
    }

    /// Takes these headers off a request, and those that are usual.
    pub(crate) fn clear(&self, headers: &mut HeaderMap) {
        self.clear_named(headers);
        Self::clear_usual(headers);
    }

    /// Takes the headers of the usual names off a request.
    pub(crate) fn clear_usual(headers: &mut HeaderMap) {
        USUAL.clear_named(headers);
    }

    fn clear_named(&self, headers: &mut HeaderMap) {
        // Mostly there are none: one walk finds that out, without a hash of each name.
        let named = headers.keys().filter(|name| self.have(name));
        let named: Vec<HeaderName> = named.cloned().collect();
        for name in named {
            headers.remove(name);
        }
    }

    /// Whether a header is one of these.
    fn have(&self, name: &HeaderName) -> bool {
        let mut whole = [&self.usernames, &self.uids, &self.groups]
            .into_iter()
            .flatten();
        let mut prefixes = self.extra_prefixes.iter();
        whole.any(|it| it == name) || prefixes.any(|it| name.as_str().starts_with(it.as_str()))
    }
}

fn name_of(text: &str) -> Result<HeaderName, HeaderNamesError> {
    let name = HeaderName::from_bytes(text.trim().as_bytes())
        .map_err(|_invalid| HeaderNamesError::Name(text.to_owned()))?;
    let is_taken = TAKEN.contains(&name.as_str())
        || TAKEN_PREFIXES.iter().any(|prefix| {
            // A prefix of extras that is shorter takes them all.
            name.as_str().starts_with(prefix) || prefix.starts_with(name.as_str())
        });
    if is_taken {
        return Err(HeaderNamesError::Taken(text.to_owned()));
    }
    Ok(name)
}

fn text_of(value: &HeaderValue) -> Option<String> {
    str::from_utf8(value.as_bytes()).ok().map(str::to_owned)
}

/// The key of an extra: unescaped, or as it is where it cannot be.
fn key_of(escaped: &str) -> String {
    unescaped(escaped).unwrap_or_else(|| escaped.to_owned())
}

fn unescaped(escaped: &str) -> Option<String> {
    let mut bytes = escaped.bytes();
    let mut plain = Vec::with_capacity(escaped.len());
    let digit = |byte: u8| {
        char::from(byte)
            .to_digit(16)
            .and_then(|it| u8::try_from(it).ok())
    };
    while let Some(byte) = bytes.next() {
        plain.push(if byte == b'%' {
            digit(bytes.next()?)? << 4 | digit(bytes.next()?)?
        } else {
            byte
        });
    }
    String::from_utf8(plain).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(lines: &[(&str, &[u8])]) -> HeaderMap {
        let lines = lines.iter().map(|(name, value)| {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            (name, HeaderValue::from_bytes(value).unwrap())
        });
        lines.collect()
    }

    fn owned(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn a_user_is_read_as_kube_apiserver_reads_it() {
        let headers = map(&[
            ("X-Remote-User", b"bob"),
            ("X-Remote-User", b"mallory"),
            ("X-Remote-Uid", b"7"),
            ("X-Remote-Group", b"a"),
            ("X-Remote-Group", b""),
            ("X-Remote-Group", b"b, c"),
            ("X-Remote-Extra-Acme.com%2Fproject", b"one"),
            ("X-Remote-Extra-Acme.com%2Fproject", b"two"),
            ("X-Remote-Extra-Bad%zz", b"x"),
            ("X-Remote-Extra-Bad%ff", b"y"),
            ("X-Remote-Extra-Short%2", b"z"),
        ]);
        let user = HeaderNames::default().read(&headers).unwrap();
        assert_eq!((&*user.username, &*user.uid), ("bob", "7"));
        assert_eq!(user.groups, ["a", "b, c"]);
        let extra: Vec<(&str, Vec<&str>)> = user
            .extra
            .iter()
            .map(|(key, values)| (&**key, values.iter().map(|it| &**it).collect()))
            .collect();
        let want = [
            ("acme.com/project", vec!["one", "two"]),
            ("bad%ff", vec!["y"]),
            ("bad%zz", vec!["x"]),
            ("short%2", vec!["z"]),
        ];
        assert_eq!(extra, want);
    }

    #[test]
    fn the_first_name_that_has_a_value_counts_and_all_groups_do() {
        let names = HeaderNames::parse(
            &owned(&["X-User", " X-Remote-User "]),
            &[],
            &owned(&["X-Team", "X-Remote-Group"]),
            &owned(&["X-More-", "X-Remote-Extra-"]),
        )
        .unwrap();
        let headers = map(&[
            ("x-user", b""),
            ("x-remote-user", b"bob"),
            ("x-remote-group", b"second"),
            ("x-team", b"first"),
            ("x-remote-extra-k", b"2"),
            ("x-more-k", b"1"),
        ]);
        let user = names.read(&headers).unwrap();
        assert_eq!((&*user.username, &*user.uid), ("bob", ""));
        assert_eq!(user.groups, ["first", "second"]);
        let extra: Vec<&Vec<String>> = user.extra.values().collect();
        assert_eq!(extra, [&["1", "2"]]);
        for nobody in [
            map(&[]),
            map(&[("x-remote-user", b"")]),
            map(&[("x_remote_user", b"bob")]),
            map(&[("x-remote-group", b"system:masters")]),
            map(&[("x-remote-user", b"b\xff")]),
            map(&[("x-remote-user", b"bob"), ("x-remote-group", b"\xff")]),
            map(&[("x-remote-user", b"bob"), ("x-remote-uid", b"\xff")]),
        ] {
            assert_eq!(names.read(&nobody), None, "{nobody:?}");
        }
    }

    #[test]
    fn the_headers_are_taken_off_whatever_they_are_called() {
        let names =
            HeaderNames::parse(&owned(&["X-User"]), &[], &[], &owned(&["X-More-"])).unwrap();
        let mut headers = map(&[
            ("x-user", b"bob"),
            ("x-more-key", b"1"),
            ("x-remote-user", b"bob"),
            ("x-remote-uid", b"1"),
            ("x-remote-group", b"a"),
            ("x-remote-group", b"b"),
            ("x-remote-extra-key", b"1"),
            ("accept", b"text/plain"),
        ]);
        names.clear(&mut headers);
        assert_eq!(headers, map(&[("accept", b"text/plain")]));
    }

    #[test]
    fn a_header_that_says_something_else_is_none_of_a_front_proxy() {
        for name in [
            "",
            " ",
            "a b",
            "X:",
            "Authorization",
            "accept",
            "Impersonate-User",
            "sec-",
            "i",
        ] {
            let parsed = HeaderNames::parse(&owned(&[name]), &[], &[], &[]);
            assert!(parsed.is_err(), "{name:?}");
            let parsed = HeaderNames::parse(&[], &[], &[], &owned(&[name]));
            assert!(parsed.is_err(), "{name:?}");
        }
    }
}
