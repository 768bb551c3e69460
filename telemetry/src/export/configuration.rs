//! `TracingConfiguration`: its fields, and how a file is read.
//!
//! Source: `component-base/tracing/api/v1`, `apiserver/pkg/apis/apiserver/v1/types.go`.

use dialect::yaml::{self, Aliases};
use serde::Deserialize;

/// The group of the file.
const GROUP: &str = "apiserver.config.k8s.io";
/// Its versions, which are all the same to this server.
const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha1"];
const KIND: &str = "TracingConfiguration";
/// Where a collector is by default. Source: OTLP 1.0.
const ENDPOINT_DEFAULT: &str = "localhost:4317";
/// What the path of a socket follows, which is absolute. Source: gRPC's naming.
const SOCKET: &str = "unix://";
const MILLION: u32 = 1_000_000;

/// What a file says.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Configuration {
    api_version: String,
    kind: String,
    endpoint: Option<String>,
    sampling_rate_per_million: Option<i32>,
}

/// Why a file is none of these.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigurationError {
    /// It cannot be decoded.
    #[error("not a {KIND}: {0}")]
    Undecodable(String),
    /// It is of another kind.
    #[error(
        "no kind {kind:?} is registered for version {version:?}: expected {KIND} of {GROUP}/v1"
    )]
    OtherKind {
        /// The kind.
        kind: String,
        /// Its group and version.
        version: String,
    },
    /// More is to be sampled than there is, or less than nothing.
    #[error("samplingRatePerMillion: Invalid value: {0}: must be from 0 to {MILLION}")]
    Rate(i32),
    /// A collector cannot be reached this way.
    #[error("endpoint: Invalid value: {0:?}: must be HOST:PORT, dns:///HOST:PORT or unix:///PATH")]
    Endpoint(String),
}

// === impl Configuration ===

impl Configuration {
    /// Reads a file.
    ///
    /// # Errors
    /// Where it is no such configuration, has a field that is unknown, or a value that cannot be followed.
    pub fn parse(text: &str) -> Result<Self, ConfigurationError> {
        let undecodable = |error: String| ConfigurationError::Undecodable(error);
        let document =
            yaml::document(text, Aliases::Few).map_err(|it| undecodable(it.to_string()))?;
        let read = Self::deserialize(document).map_err(|it| undecodable(it.to_string()))?;
        let known = read.api_version.strip_prefix(GROUP);
        let known = known.and_then(|it| it.strip_prefix('/'));
        if !known.is_some_and(|it| VERSIONS.contains(&it)) || read.kind != KIND {
            return Err(ConfigurationError::OtherKind {
                kind: read.kind,
                version: read.api_version,
            });
        }
        if let Some(rate) = read.sampling_rate_per_million
            && !u32::try_from(rate).is_ok_and(|it| it <= MILLION)
        {
            return Err(ConfigurationError::Rate(rate));
        }
        if is_endpoint(read.endpoint()) {
            return Ok(read);
        }
        Err(ConfigurationError::Endpoint(
            read.endpoint.unwrap_or_default(),
        ))
    }

    /// Returns where the collector is: a host and port, or `unix://` and the path of a socket.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        let endpoint = self.endpoint.as_deref().unwrap_or(ENDPOINT_DEFAULT);
        endpoint.strip_prefix("dns:///").unwrap_or(endpoint)
    }

    /// Returns the same as a URL.
    pub(super) fn url(&self) -> String {
        let endpoint = self.endpoint();
        if endpoint.starts_with(SOCKET) {
            endpoint.to_owned()
        } else {
            format!("http://{endpoint}")
        }
    }

    /// Returns how many of a million traces are sampled that no client has decided about.
    pub(super) fn per_million(&self) -> u32 {
        let rate = self.sampling_rate_per_million.unwrap_or_default();
        u32::try_from(rate).unwrap_or_default()
    }
}

fn is_endpoint(endpoint: &str) -> bool {
    if let Some(path) = endpoint.strip_prefix(SOCKET) {
        return path.len() > 1 && path.starts_with('/') && !path.contains('\0');
    }
    let authority = endpoint.parse::<http::uri::Authority>();
    authority.is_ok_and(|it| it.port_u16().is_some() && !it.as_str().contains('@'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(fields: &str) -> Result<Configuration, String> {
        let text =
            format!("apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n{fields}");
        Configuration::parse(&text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_for_kube_apiserver_is_read() {
        let read =
            parse("endpoint: collector.example:4317\nsamplingRatePerMillion: 250000").unwrap();
        assert_eq!(read.endpoint(), "collector.example:4317");
        assert_eq!(read.per_million(), 250_000);
        let silent = parse("").unwrap();
        assert_eq!(silent.endpoint(), "localhost:4317", "the default");
        assert_eq!(
            silent.per_million(),
            0,
            "what no client samples is not sampled"
        );
        let resolved = parse("endpoint: dns:///[::1]:4317").unwrap();
        assert_eq!(resolved.url(), "http://[::1]:4317");
        let socket = parse("endpoint: unix:///run/otel.sock").unwrap();
        assert_eq!(socket.url(), "unix:///run/otel.sock");
    }

    #[test]
    fn what_cannot_be_followed_is_refused() {
        for (fields, message) in [
            (
                "samplingRatePerMillion: 1000001",
                "must be from 0 to 1000000",
            ),
            ("samplingRatePerMillion: -1", "must be from 0 to 1000000"),
            ("endpoint: unix://run/otel.sock", "must be HOST:PORT"),
            ("endpoint: unix:///", "must be HOST:PORT"),
            ("endpoint: \"unix:///run/\\0\"", "must be HOST:PORT"),
            ("endpoint: unix-abstract:///otel", "must be HOST:PORT"),
            ("endpoint: https://collector:4317", "must be HOST:PORT"),
            ("endpoint: collector", "must be HOST:PORT"),
            ("endpoint: user@collector:4317", "must be HOST:PORT"),
            ("endpont: collector:4317", "unknown field `endpont`"),
            ("samplingRatePerMillion: all", "invalid type"),
        ] {
            let error = parse(fields).unwrap_err();
            assert!(error.contains(message), "{fields}: {error}");
        }
        let other = "apiVersion: apiserver.config.k8s.io/v2\nkind: TracingConfiguration";
        let error = Configuration::parse(other).unwrap_err().to_string();
        assert!(
            error.contains("no kind \"TracingConfiguration\""),
            "{error}"
        );
    }
}
