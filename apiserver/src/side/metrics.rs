//! `/metrics`: what the process counts, in the text form of OpenMetrics.
//!
//! Names are kube-apiserver's, client-go's and controller-runtime's where there is one. `docs/metrics.md` lists them.
//!
//! # Invariants
//! - The number of series does not depend on what tenants do: every label is one of a set that the code fixes, or names a
//!   Spoke ([`fleet`]). No label names a user or a kind that a definition adds.
//! - Counting a request is a few atomic additions, without a lock and without an allocation ([`requests`]).

mod fleet;
mod issuer_states;
mod requests;
mod sizes;

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use http::{HeaderValue, StatusCode, header};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, text},
    metrics::info::Info,
    registry::Registry,
};
use storage::Store;
use tasks::Tasks;

pub(crate) use requests::Requests;

use super::KUBERNETES_VERSION;
use crate::{
    audit,
    authenticate::Issuers,
    quota::Quotas,
    refusal::Refusal,
    respond::{self, Response},
};

/// The metrics of one process.
#[derive(Debug)]
pub(crate) struct Metrics {
    requests: Arc<Requests>,
    registry: Arc<Registry>,
    others: Others,
    tasks: Tasks,
}

/// What else counts in the process, from when it is there.
#[derive(Clone, Debug, Default)]
struct Others(Arc<OnceLock<Box<dyn Collector>>>);

// === impl Metrics ===

impl Metrics {
    /// Registers everything that is exposed.
    pub(crate) fn new(
        store: &Arc<dyn Store>,
        quotas: &Arc<Quotas>,
        issuers: Option<Arc<Issuers>>,
        audit: audit::Metrics,
        tasks: &Tasks,
    ) -> Self {
        let requests = Arc::new(Requests::new());
        let others = Others::default();
        let mut registry = Registry::default();
        register_process(&mut registry, tasks);
        registry.register_collector(Box::new(Arc::clone(&requests)));
        registry.register_collector(Box::new(audit));
        registry.register_collector(Box::new(issuer_states::States::new(issuers)));
        registry.register_collector(Box::new(sizes::Users::new(Arc::clone(quotas))));
        registry.register_collector(Box::new(others.clone()));
        register_store(&mut registry, store.metrics());
        registry.register_collector(Box::new(sizes::Stored::new(Arc::clone(store))));
        registry.register_collector(Box::new(fleet::Fleet::new(Arc::clone(store))));
        Self {
            requests,
            registry: Arc::new(registry),
            others,
            tasks: tasks.clone(),
        }
    }

    /// What requests are counted with.
    pub(crate) fn requests(&self) -> &Requests {
        &self.requests
    }

    /// The tasks of the process.
    pub(crate) fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Exposes what else counts in the process. The first one stays.
    pub(crate) fn set_others(&self, others: Box<dyn Collector>) {
        let _already_set = self.others.0.set(others);
    }

    /// Answers `/metrics`.
    ///
    /// # Errors
    /// As [`exposition`].
    pub(crate) async fn serve(&self) -> Result<Response, Refusal> {
        exposition(&self.registry, &self.tasks).await
    }
}

// === impl Others ===

impl Collector for Others {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.0.get().map_or(Ok(()), |others| others.encode(encoder))
    }
}

/// Answers with what is registered. Encodes on a thread that may block: objects are counted one by one.
///
/// # Errors
/// 500 where that thread panics.
pub(super) async fn exposition(
    registry: &Arc<Registry>,
    tasks: &Tasks,
) -> Result<Response, Refusal> {
    let registry = Arc::clone(registry);
    let encoding = tasks.spawn_blocking("metrics", move || {
        let mut exposition = String::new();
        text::encode(&mut exposition, &registry).map(|()| exposition)
    });
    let exposition = encoding.await.map_err(Refusal::internal)?;
    let exposition = exposition.map_err(Refusal::internal)?;
    let mut response = respond::text(StatusCode::OK, exposition);
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8"),
    );
    Ok(response)
}

/// Registers what every process counts: its version, its tasks and their queues.
pub(super) fn register_process(registry: &mut Registry, tasks: &Tasks) {
    registry.register(
        "wheelhouse_build",
        "The version of the process, and of the Kubernetes whose behaviour a hub serves",
        Info::new(vec![
            ("version", env!("CARGO_PKG_VERSION")),
            ("kubernetes_version", KUBERNETES_VERSION),
        ]),
    );
    registry.register_collector(Box::new(sizes::Running::new(tasks.clone())));
    tasks.register_queues(registry);
}

/// Registers what the store counts as it works.
fn register_store(registry: &mut Registry, store: &storage::Metrics) {
    let registry = registry.sub_registry_with_prefix("wheelhouse_store");
    registry.register(
        "commits",
        "Batches of writes that were made durable",
        store.commits.clone(),
    );
    registry.register(
        "groups",
        "Groups of batches that were made durable together, each with one sync or transaction",
        store.groups.clone(),
    );
    registry.register("writes", "Writes in those groups", store.writes.clone());
    registry.register(
        "group_writes",
        "Writes in each group",
        store.group_writes.clone(),
    );
    registry.register(
        "commit_duration_seconds",
        "How long it took to make a group durable",
        store.commit_seconds.clone(),
    );
    registry.register(
        "sync_duration_seconds",
        "How long each sync of the log took; empty with etcd",
        store.sync_seconds.clone(),
    );
    registry.register(
        "written_bytes",
        "Bytes written to the log, without what sweeps write; zero with etcd",
        store.written_bytes.clone(),
    );
    registry.register(
        "compactions",
        "How often the oldest history was given up",
        store.compactions.clone(),
    );
    registry.register(
        "sweeps",
        "Segments of the log rewritten without their garbage; zero with etcd",
        store.sweeps.clone(),
    );
}
