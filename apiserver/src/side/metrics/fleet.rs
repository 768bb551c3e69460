//! The fleet as a scraper sees it: what the Spokes of root say of their clusters.
//!
//! # Invariants
//! - A label `cluster` is a name of a Spoke, which administrators choose and the API server has validated. Nothing that a spoke says is a
//!   label. At most [`SPOKES_MAX`] of them are shown.

use std::{fmt, sync::Arc};

use api::{
    LogicalCluster,
    wheelhouse::{self, InstanceCounts, Spoke, keys},
};
use jiff::Timestamp;
use prometheus_client::{collector::Collector, encoding::DescriptorEncoder, metrics::MetricType};
use storage::{KeyRange, RangeQuery, Store};

use crate::objects;

/// Spokes whose state is shown, the first ones by name. The hub is built for this many.
const SPOKES_MAX: usize = 1_000;

/// The state of spokes.
#[derive(Debug)]
pub(super) struct Fleet {
    store: Arc<dyn Store>,
}

/// What is shown of one spoke.
struct Row {
    name: String,
    is_ready: bool,
    is_reachable: bool,
    is_suspended: bool,
    /// Seconds since 1970.
    heard: Option<i64>,
    instances: InstanceCounts,
    queue: wheelhouse::QueueDepth,
}

// === impl Fleet ===

impl Fleet {
    pub(super) const fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    fn rows(&self) -> Vec<Row> {
        let root = LogicalCluster::root();
        let prefix = objects::prefix_in(wheelhouse::GROUP, wheelhouse::SPOKE_RESOURCE, &root);
        let query = RangeQuery::of(KeyRange::prefix(prefix)).limit(SPOKES_MAX);
        let entries = self.store.range(query).map(|page| page.entries);
        let spokes = entries.into_iter().flatten().filter_map(|entry| {
            let spoke: Spoke = serde_json::from_slice(entry.value()).ok()?;
            Some(Row::of(spoke))
        });
        spokes.collect()
    }
}

impl Collector for Fleet {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let rows = self.rows();
        let mut each = |name, help, value: &dyn Fn(&Row) -> Option<i64>| {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for row in &rows {
                if let Some(value) = value(row) {
                    let labels = [("cluster", row.name.as_str())];
                    family.encode_family(&labels)?.encode_gauge(&value)?;
                }
            }
            Ok(())
        };
        each(
            "wheelhouse_spoke_ready",
            "Whether a spoke is Ready: 1 or 0.",
            &|row| Some(i64::from(row.is_ready)),
        )?;
        each(
            "wheelhouse_spoke_reachable",
            "Whether the cluster of a spoke answers: 1 or 0.",
            &|row| Some(i64::from(row.is_reachable)),
        )?;
        each(
            "wheelhouse_spoke_suspended",
            "Whether a spoke is suspended: 1 or 0.",
            &|row| Some(i64::from(row.is_suspended)),
        )?;
        each(
            "wheelhouse_spoke_heartbeat_timestamp_seconds",
            "When the cluster of a spoke last answered.",
            &|row| row.heard,
        )?;
        let mut family = encoder.encode_descriptor(
            "wheelhouse_spoke_instances",
            "Instances of a spoke, by state.",
            None,
            MetricType::Gauge,
        )?;
        for row in &rows {
            for (state, count) in row.counts() {
                let labels = [("cluster", row.name.as_str()), ("state", state)];
                family.encode_family(&labels)?.encode_gauge(&count)?;
            }
        }
        let mut family = encoder.encode_descriptor(
            "wheelhouse_spoke_queue",
            "Instances of a spoke that are to be reconciled now or later.",
            None,
            MetricType::Gauge,
        )?;
        for row in &rows {
            for (due, count) in [("now", row.queue.ready), ("later", row.queue.later)] {
                let labels = [("cluster", row.name.as_str()), ("due", due)];
                family.encode_family(&labels)?.encode_gauge(&count)?;
            }
        }
        Ok(())
    }
}

// === impl Row ===

impl Row {
    fn of(spoke: Spoke) -> Self {
        let status = spoke.status.unwrap_or_default();
        let holds = |kind: &str| {
            let mut conditions = status.conditions.iter();
            conditions.any(|it| it.type_ == kind && it.status == "True")
        };
        let heard = status.last_heartbeat_time.as_deref();
        let heard = heard.and_then(|time| time.parse::<Timestamp>().ok());
        Self {
            is_ready: holds(keys::CONDITION_READY),
            is_reachable: holds(keys::CONDITION_REACHABLE),
            is_suspended: spoke.spec.suspended,
            heard: heard.map(Timestamp::as_second),
            name: spoke.metadata.name,
            instances: status.instances.unwrap_or_default(),
            queue: status.queue.unwrap_or_default(),
        }
    }

    fn counts(&self) -> [(&'static str, i64); 4] {
        let counts = &self.instances;
        [
            ("ready", counts.ready),
            ("inProgress", counts.in_progress),
            ("error", counts.error),
            ("deleting", counts.deleting),
        ]
    }
}
