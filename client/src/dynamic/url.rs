//! Paths and queries of requests.
//!
//! **Invariant:** a [`Path`] is the only way to say what a request is about, and each part of it that is not written in this
//! program is one segment: it cannot end the path, begin a query, or climb to another object.

use std::fmt::Write as _;

use api::validation::is_path_segment;
use api::{ClusterScope, GroupVersion};

use super::Endpoint;

/// How much of a refused segment a message shows, in characters.
const SHOWN_MAX: usize = 64;

/// The path of a request, and its query.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Path {
    text: String,
    has_query: bool,
}

/// A text that cannot stand in a path as one segment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {value:?} cannot stand in a path: {why}")]
pub struct PathError {
    /// What it was to name.
    pub what: &'static str,
    /// Its beginning.
    pub value: String,
    /// What is wrong with it.
    pub why: String,
}

// === impl Path ===

impl Path {
    /// Begins a path: below a logical cluster of the hub, or at the root of a server.
    pub fn below(scope: Option<&ClusterScope>) -> Self {
        let text = match scope {
            // A scope is a DNS label or `*`.
            Some(scope) => format!("/clusters/{scope}"),
            None => String::new(),
        };
        Self {
            text,
            has_query: false,
        }
    }

    /// Adds a segment; `what` says in an error what it was to name.
    ///
    /// # Errors
    /// Where the text is empty, `.` or `..`, or has a slash, a percent sign or a control character.
    pub fn then(mut self, what: &'static str, segment: &str) -> Result<Self, PathError> {
        let wrong = if segment.is_empty() {
            Some("it is empty".to_owned())
        } else if segment.chars().any(char::is_control) {
            Some("it has a control character".to_owned())
        } else {
            is_path_segment(segment).into_iter().next()
        };
        if let Some(why) = wrong {
            let value = segment.chars().take(SHOWN_MAX).collect();
            return Err(PathError { what, value, why });
        }
        self.text.push('/');
        push_encoded(&mut self.text, segment, is_segment_character);
        Ok(self)
    }

    /// Adds what stands between the cluster and a resource: `api/v1`, or `apis/<group>/<version>`.
    ///
    /// # Errors
    /// [`Self::then`]'s.
    pub fn version(self, version: &GroupVersion) -> Result<Self, PathError> {
        if version.group.is_empty() {
            return self.then("path", "api")?.then("version", &version.version);
        }
        let path = self.then("path", "apis")?.then("group", &version.group)?;
        path.then("version", &version.version)
    }

    /// Names a collection.
    ///
    /// # Errors
    /// [`Self::then`]'s.
    pub fn collection(endpoint: &Endpoint) -> Result<Self, PathError> {
        let gvr = &endpoint.gvr;
        let mut path = Self::below(endpoint.scope.as_ref()).version(&gvr.group_version())?;
        if let Some(namespace) = endpoint.namespace.as_deref().filter(|it| !it.is_empty()) {
            path = path
                .then("path", "namespaces")?
                .then("namespace", namespace)?;
        }
        path.then("resource", &gvr.resource)
    }

    /// Names an object, or a part of it.
    ///
    /// # Errors
    /// [`Self::then`]'s.
    pub fn object(
        endpoint: &Endpoint,
        name: &str,
        subresource: Option<&str>,
    ) -> Result<Self, PathError> {
        let path = Self::collection(endpoint)?.then("name", name)?;
        match subresource {
            Some(subresource) => path.then("subresource", subresource),
            None => Ok(path),
        }
    }

    /// Adds a parameter, if there is a value.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: Option<&str>) -> Self {
        if let Some(value) = value {
            self.text.push(if self.has_query { '&' } else { '?' });
            self.has_query = true;
            self.text.push_str(name);
            self.text.push('=');
            push_encoded(&mut self.text, value, is_query_character);
        }
        self
    }

    /// Borrows the text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn into_uri(self) -> String {
        self.text
    }
}

/// A path that is written in the program.
impl From<&'static str> for Path {
    fn from(path: &'static str) -> Self {
        Self {
            text: path.to_owned(),
            has_query: path.contains('?'),
        }
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

    fn endpoint(cluster: &str, group: &str, namespace: Option<&str>) -> Endpoint {
        Endpoint {
            scope: (!cluster.is_empty()).then(|| cluster.parse().unwrap()),
            gvr: GroupVersionResource::new(group, "v1", "things"),
            namespace: namespace.map(str::to_owned),
        }
    }

    #[test]
    fn paths_follow_group_namespace_and_name() {
        for (endpoint, name, subresource, want) in [
            (endpoint("", "", None), "a", None, "/api/v1/things/a"),
            (endpoint("", "", Some("")), "a", None, "/api/v1/things/a"),
            (
                endpoint("east", "g.io", Some("n")),
                "a",
                Some("status"),
                "/clusters/east/apis/g.io/v1/namespaces/n/things/a/status",
            ),
            (
                endpoint("*", "g.io", None),
                "system:a b?c#d",
                None,
                "/clusters/*/apis/g.io/v1/things/system:a%20b%3Fc%23d",
            ),
        ] {
            let path = Path::object(&endpoint, name, subresource).unwrap();
            assert_eq!(path.as_str(), want);
        }
    }

    /// The story: an instance whose `spec.ns` was `kube-system/secrets?a=` read another namespace's Secrets.
    #[test]
    fn no_part_of_a_path_can_be_more_than_a_segment() {
        let long = format!("{}/", "x".repeat(1000));
        for text in [
            "kube-system/secrets?a=",
            "..",
            ".",
            "a/b",
            "a%2fb",
            "a\r\nb",
            "\0",
            &long,
        ] {
            let refused = |path: Result<Path, PathError>| {
                let error = path.expect_err(text);
                assert!(error.to_string().len() < 200, "{error}");
            };
            refused(Path::collection(&endpoint("", "", Some(text))));
            refused(Path::collection(&endpoint("", text, None)));
            refused(Path::object(&endpoint("", "", None), text, None));
            refused(Path::object(&endpoint("", "", None), "a", Some(text)));
            let mut other = endpoint("", "", None);
            other.gvr.resource = text.to_owned();
            refused(Path::collection(&other));
            other.gvr = GroupVersionResource::new("", text, "things");
            refused(Path::collection(&other));
        }
        assert!(Path::object(&endpoint("", "", None), "", None).is_err());
    }

    #[test]
    fn parameters_are_encoded() {
        let path = Path::from("/x?a=1")
            .with("b", None)
            .with("c", Some("k in (v),a=b&c+d é"));
        assert_eq!(
            path.as_str(),
            "/x?a=1&c=k%20in%20(v),a%3Db%26c%2Bd%20%C3%A9"
        );
    }
}
