//! What is about the process and not about objects: health, version, metrics, the index of paths.
//!
//! Source: `apiserver/pkg/server/healthz`, `.../routes/version.go`, `.../routes/index.go`.

mod health;
mod metrics;
mod pages;

use api::{Status, StatusDetails, StatusReason, wheelhouse::HUB_VERSION};
use http::{HeaderValue, StatusCode, header, request::Parts};
use serde_json::{Value, json};

pub use health::{Check, Probe};
pub use pages::Pages;

pub(crate) use health::Health;
pub(crate) use metrics::Metrics;

use crate::{
    discovery::Groups,
    negotiate::{self, Negotiated, Offer},
    refusal::Refusal,
    respond::{self, Response},
};

/// The Kubernetes release whose behaviour and built-in kinds are served.
pub const KUBERNETES_VERSION: &str = "v1.36.3";

/// A page about the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page<'a> {
    /// `/healthz`, `/livez`, `/readyz`, and one check of them.
    Health(Probe, &'a str),
    /// `/version`
    Version,
    /// `/metrics`
    Metrics,
    /// `/.well-known/openid-configuration`: who issues the tokens of the cluster's ServiceAccounts.
    Issuer,
    /// `/openid/v1/jwks`: the keys that check them.
    Keys,
    /// `/`
    Index,
}

// === impl Page ===

impl<'a> Page<'a> {
    /// The page that a path without cluster prefix is for, if it is for one.
    pub(crate) fn of(path: &'a str) -> Option<Self> {
        match path {
            "/" | "/index.html" => return Some(Self::Index),
            "/version" | "/version/" => return Some(Self::Version),
            "/metrics" => return Some(Self::Metrics),
            "/.well-known/openid-configuration" | "/.well-known/openid-configuration/" => {
                return Some(Self::Issuer);
            }
            "/openid/v1/jwks" | "/openid/v1/jwks/" => return Some(Self::Keys),
            _ => {}
        }
        let below = path.strip_prefix('/')?;
        let (probe, check) = below.split_once('/').unwrap_or((below, ""));
        Some(Self::Health(Probe::of(probe)?, check))
    }
}

/// `/version`.
///
/// # Errors
/// 406.
pub(crate) fn version(parts: &Parts) -> Result<Response, Refusal> {
    let form = negotiate::accept(parts, Offer::Plain)?;
    // Kubernetes always indents this one.
    respond::value(
        StatusCode::OK,
        Negotiated {
            pretty: true,
            ..form
        },
        &version_info(),
    )
}

/// A document about the tokens of a cluster's ServiceAccounts.
///
/// # Errors
/// 406.
pub(crate) fn issuer_page(
    parts: &Parts,
    page: Page<'_>,
    document: &Value,
) -> Result<Response, Refusal> {
    let media_type = match page {
        Page::Keys => "application/jwk-set+json",
        _ => "application/json",
    };
    if !negotiate::accepts(&parts.headers, media_type) {
        let text = format!("406: Not Acceptable\n\nAvailable representations: {media_type}");
        let status = Status::failure(406, StatusReason::NotAcceptable, text);
        return Err(status.with_details(StatusDetails::default()).into());
    }
    let mut response = respond::value(StatusCode::OK, Negotiated::JSON, document)?;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    Ok(response)
}

/// The URL at which a client has found a cluster, without the last slash.
pub(crate) fn base_url(parts: &Parts, prefix: &str) -> String {
    let named = parts.uri.authority().map(http::uri::Authority::as_str);
    let host = || parts.headers.get(header::HOST)?.to_str().ok();
    format!(
        "https://{}{prefix}",
        named.or_else(host).unwrap_or_default()
    )
}

fn version_info() -> Value {
    let (major, minor) = KUBERNETES_VERSION
        .trim_start_matches('v')
        .split_once('.')
        .map_or(("1", "36"), |(major, rest)| {
            (major, rest.split('.').next().unwrap_or(rest))
        });
    json!({
        "major": major,
        "minor": minor,
        "gitVersion": format!("{KUBERNETES_VERSION}{HUB_VERSION}{}", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, platform_architecture()),
    })
}

/// The architecture in Go's words.
fn platform_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// `/`: the paths that there are.
///
/// # Errors
/// 406.
pub(crate) fn index(parts: &Parts, groups: &Groups) -> Result<Response, Refusal> {
    let form = negotiate::accept(parts, Offer::Plain)?;
    let mut paths = vec!["/api".to_owned(), "/apis".to_owned()];
    for group in &groups.groups {
        let name = &group.metadata.name;
        if !name.is_empty() {
            paths.push(format!("/apis/{name}"));
        }
        for version in &group.versions {
            paths.push(if name.is_empty() {
                format!("/api/{}", version.version)
            } else {
                format!("/apis/{name}/{}", version.version)
            });
        }
    }
    paths.extend(
        [
            "/healthz",
            "/livez",
            "/metrics",
            "/openapi/v2",
            "/openapi/v3",
            "/readyz",
            "/version",
        ]
        .map(str::to_owned),
    );
    paths.sort();
    respond::value(
        StatusCode::OK,
        Negotiated {
            pretty: true,
            ..form
        },
        &json!({ "paths": paths }),
    )
}

#[cfg(test)]
mod tests;
