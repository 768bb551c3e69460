//! What tasks and work queues tell about themselves, under the names of controller-runtime.
//!
//! Names of queues and tasks are constants of the code, so the number of series is bounded by it. Queues of one name, one
//! for each spoke for instance, are counted together.
//!
//! Source: controller-runtime `pkg/internal/metrics/workqueue.go`, `pkg/internal/controller/metrics/metrics.go`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use tokio::time::Instant;

/// The labels of a queue: both name its controller, as in controller-runtime.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabels {
    name: &'static str,
    controller: &'static str,
}

/// The label of a controller.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerLabels {
    controller: &'static str,
}

/// The labels of work that is done.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    controller: &'static str,
    result: &'static str,
}

/// How the work on a key ended. The greatest one counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    /// Nothing is left to be done.
    Success,
    /// The key is due again.
    RequeueAfter,
    /// It failed, and is tried again.
    Error,
}

/// How often work on keys ended in each way.
#[derive(Clone, Debug)]
pub(crate) struct Reconciles([Counter; 3]);

/// The metrics of all queues of a process. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    families: Arc<Families>,
}

#[derive(Debug)]
struct Families {
    depth: Family<QueueLabels, Gauge>,
    adds: Family<QueueLabels, Counter>,
    retries: Family<QueueLabels, Counter>,
    waited: Family<QueueLabels, Histogram, fn() -> Histogram>,
    worked: Family<QueueLabels, Histogram, fn() -> Histogram>,
    active: Family<ControllerLabels, Gauge>,
    reconciles: Family<ResultLabels, Counter>,
    // Guards the table of what runs, by the name of the queue; held for no longer than a look.
    running: Mutex<BTreeMap<&'static str, Running>>,
}

/// Since when the keys of queues of one name are worked on. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Running {
    // Guards the times, by an id of the work.
    since: Arc<Mutex<BTreeMap<u64, Instant>>>,
    next_id: Arc<AtomicU64>,
}

/// Work that is not done; dropped when it is.
#[derive(Debug)]
pub(crate) struct Working {
    running: Running,
    id: u64,
}

/// Encodes what is known of work that is not done yet, at the time of the scrape.
#[derive(Debug)]
struct Unfinished(Metrics);

/// The metrics of queues of one name, looked up once.
#[derive(Clone, Debug)]
pub(crate) struct QueueMetrics {
    /// Keys that are ready.
    pub(crate) depth: Gauge,
    /// Keys that became ready.
    pub(crate) adds: Counter,
    /// Keys that were added for later.
    pub(crate) retries: Counter,
    /// Seconds that a key was ready before a worker took it.
    pub(crate) waited: Histogram,
    /// Seconds that a worker had a key.
    pub(crate) worked: Histogram,
    /// Keys that workers have.
    pub(crate) active: Gauge,
    /// Work that is done.
    pub(crate) reconciles: Reconciles,
    /// Since when.
    pub(crate) running: Running,
}

// === impl Metrics ===

impl Metrics {
    /// The metrics of queues of a name.
    pub(crate) fn queue(&self, name: &'static str) -> QueueMetrics {
        let controller = name;
        let labels = QueueLabels { name, controller };
        let families = &self.families;
        QueueMetrics {
            depth: families.depth.get_or_create_owned(&labels),
            adds: families.adds.get_or_create_owned(&labels),
            retries: families.retries.get_or_create_owned(&labels),
            waited: families.waited.get_or_create_owned(&labels),
            worked: families.worked.get_or_create_owned(&labels),
            active: families
                .active
                .get_or_create_owned(&ControllerLabels { controller }),
            reconciles: Reconciles(Outcome::ALL.map(|outcome| {
                let result = outcome.name();
                let labels = ResultLabels { controller, result };
                families.reconciles.get_or_create_owned(&labels)
            })),
            running: families.running.lock().entry(name).or_default().clone(),
        }
    }

    /// Registers all families.
    pub(crate) fn register(&self, registry: &mut Registry) {
        let families = &self.families;
        registry.register(
            "workqueue_depth",
            "Keys that wait for a worker",
            families.depth.clone(),
        );
        registry.register(
            "workqueue_adds",
            "Keys that became ready to be worked on",
            families.adds.clone(),
        );
        registry.register(
            "workqueue_retries",
            "Keys that were added to be worked on later, retries among them",
            families.retries.clone(),
        );
        registry.register(
            "workqueue_queue_duration_seconds",
            "How long a key was ready before a worker took it",
            families.waited.clone(),
        );
        registry.register(
            "workqueue_work_duration_seconds",
            "How long a worker took for a key",
            families.worked.clone(),
        );
        registry.register(
            "controller_runtime_active_workers",
            "Keys that are being worked on",
            families.active.clone(),
        );
        registry.register(
            "controller_runtime_reconcile",
            "Keys that were worked on, by how the work ended",
            families.reconciles.clone(),
        );
        registry.register_collector(Box::new(Unfinished(self.clone())));
    }
}

// === impl Outcome ===

impl Outcome {
    const ALL: [Self; 3] = [Self::Success, Self::RequeueAfter, Self::Error];

    /// Returns the value of the label `result`.
    fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::RequeueAfter => "requeue_after",
            Self::Error => "error",
        }
    }
}

// === impl Reconciles ===

impl Reconciles {
    /// Counts work that is done.
    pub(crate) fn count(&self, outcome: Outcome) {
        let Self([success, requeue_after, error]) = self;
        match outcome {
            Outcome::Success => success.inc(),
            Outcome::RequeueAfter => requeue_after.inc(),
            Outcome::Error => error.inc(),
        };
    }
}

// === impl Running ===

impl Running {
    /// Notes that work begins.
    pub(crate) fn begin(&self, now: Instant) -> Working {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        self.since.lock().insert(id, now);
        Working {
            running: self.clone(),
            id,
        }
    }

    /// Returns how long all that runs has been running, in sum, and the longest of it.
    fn durations(&self, now: Instant) -> (Duration, Duration) {
        let since = self.since.lock();
        let durations = since.values().map(|at| now.saturating_duration_since(*at));
        durations.fold(<(Duration, Duration)>::default(), |(sum, longest), one| {
            (sum + one, longest.max(one))
        })
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.running.since.lock().remove(&self.id);
    }
}

// === impl Unfinished ===

impl Collector for Unfinished {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let now = Instant::now();
        let all: Vec<_> = {
            let running = self.0.families.running.lock();
            let each = running.iter();
            each.map(|(name, it)| (*name, it.durations(now))).collect()
        };
        let mut encode = |name, help, seconds: fn(&(Duration, Duration)) -> f64| {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (name, durations) in &all {
                let labels = QueueLabels {
                    name,
                    controller: name,
                };
                let gauge = ConstGauge::new(seconds(durations));
                gauge.encode(family.encode_family(&labels)?)?;
            }
            Ok(())
        };
        encode(
            "workqueue_unfinished_work_seconds",
            "How long all work that is not done yet has taken, in sum.",
            |(sum, _)| sum.as_secs_f64(),
        )?;
        encode(
            "workqueue_longest_running_processor_seconds",
            "How long the longest work that is not done yet has taken.",
            |(_, longest)| longest.as_secs_f64(),
        )
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            families: Arc::new(Families {
                depth: Family::default(),
                adds: Family::default(),
                retries: Family::default(),
                waited: Family::new_with_constructor(durations),
                worked: Family::new_with_constructor(durations),
                active: Family::default(),
                reconciles: Family::default(),
                running: Mutex::default(),
            }),
        }
    }
}

/// The buckets of controller-runtime, from 10 ns to 1000 s.
fn durations() -> Histogram {
    Histogram::new(exponential_buckets(1e-8, 10.0, 12))
}
