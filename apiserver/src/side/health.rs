//! Whether the process is alive and ready.
//!
//! The store makes a process unready when it no longer takes writes, but not dead: reads go on, and a restart does not
//! repair a disk.

use std::{
    fmt::Write,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use api::query::Query;
use http::{HeaderValue, StatusCode, header};
use storage::Store;
use tokio_util::sync::CancellationToken;

use crate::authenticate::Issuers;
use crate::refusal::Refusal;
use crate::respond;
use crate::respond::Response;

/// Which question is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// The old one: as ready, without looking at the shutdown.
    Healthz,
    /// Should it be restarted?
    Livez,
    /// Should it get requests?
    Readyz,
}

/// What the answers depend on.
#[derive(Debug)]
pub(crate) struct Health {
    store: Arc<dyn Store>,
    issuers: Option<Arc<Issuers>>,
    bootstrapped: AtomicBool,
    draining: CancellationToken,
}

/// One check: its name and why it fails.
#[derive(Clone, Debug)]
pub struct Check {
    /// The name, which is the end of a path.
    pub name: &'static str,
    /// Why it fails; `None` where it does not.
    pub failure: Option<String>,
}

// === impl Probe ===

impl Probe {
    /// The probe of the first segment of a path.
    pub(super) fn of(segment: &str) -> Option<Self> {
        match segment {
            "healthz" => Some(Self::Healthz),
            "livez" => Some(Self::Livez),
            "readyz" => Some(Self::Readyz),
            _ => None,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Healthz => "healthz",
            Self::Livez => "livez",
            Self::Readyz => "readyz",
        }
    }
}

// === impl Health ===

impl Health {
    /// Starts as alive and not ready. `draining` is cancelled when the server is about to stop.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        issuers: Option<Arc<Issuers>>,
        draining: CancellationToken,
    ) -> Self {
        Self {
            store,
            issuers,
            bootstrapped: AtomicBool::new(false),
            draining,
        }
    }

    /// Marks the bootstrap objects as present.
    pub(crate) fn set_bootstrapped(&self) {
        self.bootstrapped.store(true, Ordering::Release);
    }

    /// Answers `probe`, all checks or the one that is named.
    ///
    /// # Errors
    /// The plain 404 for a check that there is not.
    pub(crate) fn serve(
        &self,
        probe: Probe,
        check: &str,
        query: &str,
    ) -> Result<Response, Refusal> {
        let mut checks = self.checks(probe);
        if !check.is_empty() {
            checks.extend(self.issuers_check());
        }
        answer(probe, &checks, check, query)
    }

    /// Whether the keys of all issuers are known. Only whoever asks for it by its name is told: an issuer that is down is no reason to take the hub
    /// from those who have other credentials.
    fn issuers_check(&self) -> Option<Check> {
        let states = self.issuers.as_ref()?.states();
        let unread: Vec<_> = states.iter().filter(|it| !it.is_ready).collect();
        let urls = unread.iter().map(|it| it.url.as_str());
        Some(Check {
            name: "issuers",
            failure: (!unread.is_empty())
                .then(|| format!("no keys of {}", urls.collect::<Vec<_>>().join(", "))),
        })
    }

    fn checks(&self, probe: Probe) -> Vec<Check> {
        let passed = |name| Check {
            name,
            failure: None,
        };
        let mut checks = vec![passed("ping"), passed("log")];
        // Clients know the store under this name.
        let store = Check {
            name: "etcd",
            failure: self.store.health().err().map(|error| error.to_string()),
        };
        let bootstrapped = Check {
            name: "poststarthook/bootstrap",
            failure: (!self.bootstrapped.load(Ordering::Acquire))
                .then(|| "not finished".to_owned()),
        };
        match probe {
            Probe::Livez => checks.push(passed("etcd")),
            Probe::Healthz => checks.extend([store, bootstrapped]),
            Probe::Readyz => checks.extend([
                store,
                passed("informer-sync"),
                bootstrapped,
                Check {
                    name: "shutdown",
                    failure: self
                        .draining
                        .is_cancelled()
                        .then(|| "process is shutting down".to_owned()),
                },
            ]),
        }
        checks
    }
}

/// Answers `probe` from checks, all or the one that is named.
///
/// # Errors
/// The plain 404 for a check that there is not.
pub(super) fn answer(
    probe: Probe,
    checks: &[Check],
    check: &str,
    query: &str,
) -> Result<Response, Refusal> {
    if !check.is_empty() {
        let found = checks
            .iter()
            .find(|known| known.name == check)
            .ok_or_else(Refusal::no_such_path)?;
        return Ok(no_cache(match &found.failure {
            None => respond::text(StatusCode::OK, "ok"),
            Some(failure) => respond::text(
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("internal server error: {failure}\n"),
            ),
        }));
    }
    let query = Query::parse(query);
    let excluded: Vec<&str> = query.all("exclude").collect();
    let failed = checks
        .iter()
        .any(|check| check.failure.is_some() && !excluded.contains(&check.name));
    if failed {
        for check in checks {
            if let Some(failure) = &check.failure {
                tracing::debug!(reason = failure, name = check.name, "health check failed");
            }
        }
        let report = report(probe, checks, &excluded, true);
        return Ok(no_cache(respond::text(
            StatusCode::INTERNAL_SERVER_ERROR,
            report,
        )));
    }
    if query.contains("verbose") {
        let report = report(probe, checks, &excluded, false);
        return Ok(no_cache(respond::text(StatusCode::OK, report)));
    }
    Ok(no_cache(respond::text(StatusCode::OK, "ok")))
}

fn report(probe: Probe, checks: &[Check], excluded: &[&str], failed: bool) -> String {
    let mut text = String::new();
    for check in checks {
        let name = check.name;
        let line = if excluded.contains(&name) {
            format!("[+]{name} excluded: ok")
        } else if check.failure.is_some() {
            format!("[-]{name} failed: reason withheld")
        } else {
            format!("[+]{name} ok")
        };
        // Writing to a string cannot fail.
        let _infallible = writeln!(text, "{line}");
    }
    let unknown: Vec<String> = excluded
        .iter()
        .filter(|name| !checks.iter().any(|check| check.name == **name))
        .map(|name| format!("{name:?}"))
        .collect();
    if !unknown.is_empty() {
        let _infallible = writeln!(
            text,
            "warn: some health checks cannot be excluded: no matches for {}",
            unknown.join(",")
        );
    }
    let verdict = if failed { "failed" } else { "passed" };
    let _infallible = writeln!(text, "{} check {verdict}", probe.name());
    text
}

fn no_cache(mut response: Response) -> Response {
    response.headers_mut().insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, private"),
    );
    response
}
