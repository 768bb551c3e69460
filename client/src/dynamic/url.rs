//! Paths and queries of calls.

use std::fmt::Write as _;

use super::Endpoint;

/// The path and the query of a call.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    text: String,
    has_query: bool,
}

// === impl Target ===

impl Target {
    /// Names whatever is at a path, which is taken as it is.
    pub(crate) fn path(path: &str) -> Self {
        Self {
            text: path.to_owned(),
            has_query: path.contains('?'),
        }
    }

    /// Names a collection.
    pub(crate) fn collection(endpoint: &Endpoint) -> Self {
        let mut text = format!("{}{}", endpoint.prefix, endpoint.gvr.group_version().path());
        if let Some(namespace) = endpoint.namespace.as_deref().filter(|it| !it.is_empty()) {
            text.push_str("/namespaces/");
            push_encoded(&mut text, namespace, is_segment_character);
        }
        text.push('/');
        push_encoded(&mut text, &endpoint.gvr.resource, is_segment_character);
        Self {
            text,
            has_query: false,
        }
    }

    /// Names an object, or a part of it.
    pub(crate) fn object(endpoint: &Endpoint, name: &str, subresource: Option<&str>) -> Self {
        let mut target = Self::collection(endpoint);
        target.text.push('/');
        push_encoded(&mut target.text, name, is_segment_character);
        if let Some(subresource) = subresource {
            target.text.push('/');
            push_encoded(&mut target.text, subresource, is_segment_character);
        }
        target
    }

    /// Adds a parameter, if there is a value.
    pub(crate) fn with(mut self, name: &str, value: Option<&str>) -> Self {
        if let Some(value) = value {
            self.text.push(if self.has_query { '&' } else { '?' });
            self.has_query = true;
            self.text.push_str(name);
            self.text.push('=');
            push_encoded(&mut self.text, value, is_query_character);
        }
        self
    }

    pub(crate) fn into_uri(self) -> String {
        self.text
    }
}

fn push_encoded(text: &mut String, part: &str, is_plain: fn(u8) -> bool) {
    for byte in part.bytes() {
        if is_plain(byte) {
            text.push(char::from(byte));
        } else {
            let written = write!(text, "%{byte:02X}");
            debug_assert!(written.is_ok(), "writing to a String cannot fail");
        }
    }
}

/// What may stand in a segment as it is (RFC 3986, `pchar`).
const fn is_segment_character(byte: u8) -> bool {
    is_unreserved(byte)
        || matches!(
            byte,
            b'!' | b'$'
                | b'&'
                | b'\''
                | b'('
                | b')'
                | b'*'
                | b'+'
                | b','
                | b';'
                | b'='
                | b':'
                | b'@'
        )
}

const fn is_query_character(byte: u8) -> bool {
    is_unreserved(byte) || matches!(byte, b',' | b':' | b'/' | b'!' | b'(' | b')')
}

const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

#[cfg(test)]
mod tests {
    use api::GroupVersionResource;

    use super::*;

    #[test]
    fn paths_follow_group_namespace_and_name() {
        let endpoint = |prefix: &str, group: &str, namespace: Option<&str>| Endpoint {
            prefix: prefix.to_owned(),
            gvr: GroupVersionResource::new(group, "v1", "things"),
            namespace: namespace.map(str::to_owned),
        };
        for (endpoint, name, subresource, want) in [
            (endpoint("", "", None), "a", None, "/api/v1/things/a"),
            (endpoint("", "", Some("")), "a", None, "/api/v1/things/a"),
            (
                endpoint("/clusters/east", "g.io", Some("n")),
                "a",
                Some("status"),
                "/clusters/east/apis/g.io/v1/namespaces/n/things/a/status",
            ),
            (
                endpoint("", "g.io", None),
                "system:a b/c",
                None,
                "/apis/g.io/v1/things/system:a%20b%2Fc",
            ),
        ] {
            assert_eq!(
                Target::object(&endpoint, name, subresource).into_uri(),
                want
            );
        }
    }

    #[test]
    fn parameters_are_encoded() {
        let target = Target::path("/x?a=1")
            .with("b", None)
            .with("c", Some("k in (v),a=b&c+d é"));
        assert_eq!(
            target.into_uri(),
            "/x?a=1&c=k%20in%20(v),a%3Db%26c%2Bd%20%C3%A9"
        );
    }
}
