//! What tasks and work queues tell about themselves, under the names of controller-runtime.
//!
//! Names of queues and tasks are constants of the code, so the number of series is bounded by it. Queues of one name, one
//! for each spoke for instance, are counted together.
//!
//! Source: controller-runtime `pkg/internal/metrics/workqueue.go`, `pkg/internal/controller/metrics/metrics.go`.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

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
}

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
            }),
        }
    }
}

/// The buckets of controller-runtime, from 10 ns to 1000 s.
fn durations() -> Histogram {
    Histogram::new(exponential_buckets(1e-8, 10.0, 12))
}
