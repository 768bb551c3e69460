//! Sizes that are asked for at each scrape: of the store, of quotas, of the tasks that run.

use std::{fmt, sync::Arc};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, NoLabelSet},
    metrics::MetricType,
};
use storage::{COUNTED_MAX, KeyRange, RangeQuery, Store};
use tasks::Tasks;

use crate::{objects, quota::Quotas, registry};

/// Sizes of the store.
#[derive(Debug)]
pub(super) struct Stored {
    store: Arc<dyn Store>,
    /// Each with the prefix of its keys.
    resources: Vec<(String, Vec<u8>)>,
}

/// What quotas count.
#[derive(Debug)]
pub(super) struct Users(Arc<Quotas>);

/// The tasks that run.
#[derive(Debug)]
pub(super) struct Running(Tasks);

// === impl Stored ===

impl Stored {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        let mut resources: Vec<(String, Vec<u8>)> = registry::built_in_names()
            .map(|name| {
                (
                    name.to_string(),
                    objects::prefix(&name.group, &name.resource),
                )
            })
            .collect();
        resources.sort();
        resources.dedup();
        Self { store, resources }
    }

    /// Counts objects by built-in resource; those of all others together.
    fn encode_objects(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut encoder = encoder.encode_descriptor(
            "apiserver_storage_objects",
            "Objects in the store, by built-in resource.",
            None,
            MetricType::Gauge,
        )?;
        let mut others = self.store.statistics().keys;
        for (resource, prefix) in &self.resources {
            let count = count(&*self.store, KeyRange::prefix(prefix.as_slice()));
            others = others.saturating_sub(count);
            if count > 0 {
                let labels = [("resource", resource.as_str())];
                encoder.encode_family(&labels)?.encode_gauge(&count)?;
            }
        }
        let labels = [("resource", "other")];
        encoder.encode_family(&labels)?.encode_gauge(&others)
    }
}

impl Collector for Stored {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.encode_objects(&mut encoder)?;
        let sizes = self.store.statistics();
        let mut gauge = |name, help, value| gauge(&mut encoder, name, help, value);
        gauge(
            "wheelhouse_store_revision",
            "The latest revision.",
            sizes.revision.0,
        )?;
        gauge(
            "wheelhouse_store_compacted_revision",
            "The oldest revision that can be read and watched from.",
            sizes.floor.0,
        )?;
        gauge("wheelhouse_store_keys", "Keys in the store.", sizes.keys)?;
        gauge(
            "wheelhouse_store_history_events",
            "Events that watches can begin after.",
            sizes.history_events as u64,
        )?;
        gauge(
            "wheelhouse_store_history_bytes",
            "Memory that history takes beyond the current objects.",
            sizes.history_bytes,
        )?;
        gauge(
            "wheelhouse_store_watchers",
            "Open watches of the store, those of the hub itself included.",
            sizes.watchers as u64,
        )?;
        gauge(
            "wheelhouse_store_queued_commits",
            "Batches of writes that wait to be committed.",
            sizes.queued as u64,
        )?;
        gauge(
            "wheelhouse_store_live_bytes",
            "Bytes of records in the log that are needed; zero with etcd.",
            sizes.live_bytes,
        )?;
        gauge(
            "wheelhouse_store_garbage_bytes",
            "Bytes of records in the log that sweeps may free; zero with etcd.",
            sizes.garbage_bytes,
        )?;
        gauge(
            "wheelhouse_store_healthy",
            "Whether writes are taken: 1 or 0.",
            u64::from(self.store.health().is_ok()),
        )?;
        encoder
            .encode_descriptor(
                "wheelhouse_store_etcd_connections",
                "Connections to etcd since the start; zero without etcd.",
                None,
                MetricType::Counter,
            )?
            .encode_counter::<NoLabelSet, _, f64>(&sizes.sessions, None)
    }
}

/// Counts the keys of a range, page by page where it is long.
fn count(store: &dyn Store, mut range: KeyRange) -> u64 {
    let mut count = 0;
    // A short range is counted without a look at its entries.
    let mut limit = 0;
    loop {
        let query = RangeQuery::of(range.clone()).limit(limit);
        let Ok(page) = store.range(query) else {
            return count;
        };
        count += page.entries.len() as u64;
        if let Some(behind) = page.remaining {
            return count + behind;
        }
        if let Some(last) = page.entries.last() {
            range = range.behind(&last.to_key());
        }
        limit = COUNTED_MAX;
    }
}

// === impl Users ===

impl Users {
    pub(super) const fn new(quotas: Arc<Quotas>) -> Self {
        Self(quotas)
    }
}

impl Collector for Users {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (refused, users) = self.0.counts();
        let mut counters = encoder.encode_descriptor(
            "wheelhouse_quota_refused",
            "What was refused because its user, or all users, had too much of it.",
            None,
            MetricType::Counter,
        )?;
        for (kind, count) in refused {
            counters
                .encode_family(&[("kind", kind)])?
                .encode_counter::<NoLabelSet, _, f64>(&count, None)?;
        }
        gauge(
            &mut encoder,
            "wheelhouse_quota_users",
            "Users whose quota was counted lately.",
            users as u64,
        )?;
        gauge(
            &mut encoder,
            "wheelhouse_streams",
            "Streams to spokes that are open or asked for.",
            u64::from(self.0.stream_count()),
        )
    }
}

// === impl Running ===

impl Running {
    pub(super) const fn new(tasks: Tasks) -> Self {
        Self(tasks)
    }
}

impl Collector for Running {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut encoder = encoder.encode_descriptor(
            "wheelhouse_tasks",
            "Tasks of the process that run, by name.",
            None,
            MetricType::Gauge,
        )?;
        for (name, count) in self.0.running() {
            encoder
                .encode_family(&[("name", name)])?
                .encode_gauge(&(count as u64))?;
        }
        Ok(())
    }
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    encoder
        .encode_descriptor(name, help, None, MetricType::Gauge)?
        .encode_gauge(&value)
}
