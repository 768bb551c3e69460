//! What is about the process and not about objects: health, version, metrics, the index of paths.
//!
//! Source: `apiserver/pkg/server/healthz`, `.../routes/version.go`, `.../routes/index.go`.

mod health;
mod metrics;

use http::{StatusCode, request::Parts};
use serde_json::{Value, json};

pub(crate) use health::{Health, Probe};
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
        "gitVersion": format!("{KUBERNETES_VERSION}+wheelhouse-{}", env!("CARGO_PKG_VERSION")),
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
