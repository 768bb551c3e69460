//! What the audit counts, under kube-apiserver's names.
//!
//! Source: `apiserver/pkg/audit/metrics.go`.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, NoLabelSet},
    metrics::MetricType,
};

use crate::request::Level;

const LEVELS: [Level; 4] = [
    Level::None,
    Level::Metadata,
    Level::Request,
    Level::RequestResponse,
];

/// The counts of one process.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Events that were made.
    pub(super) events: AtomicU64,
    /// Requests, by the level of their rule.
    pub(super) levels: [AtomicU64; LEVELS.len()],
    /// Events that are lost: the log could not be written.
    pub(super) lost_by_log: AtomicU64,
    /// Events that are lost: the webhook did not take them.
    pub(super) lost_by_webhook: AtomicU64,
    /// Events that are lost: a queue was full.
    pub(super) lost_by_queue: AtomicU64,
    /// Requests that were refused because their event could not be stored.
    pub(super) rejected: AtomicU64,
    /// Events whose request was answered before they were written.
    pub(super) late: AtomicU64,
}

// === impl Counts ===

impl Counts {
    pub(super) fn level(&self, level: Level) {
        let index = LEVELS.iter().position(|it| *it == level);
        if let Some(count) = index.and_then(|index| self.levels.get(index)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Adds to a count.
pub(super) fn add(count: &AtomicU64, number: u64) {
    count.fetch_add(number, Ordering::Relaxed);
}

/// [`Counts`] as metrics.
#[derive(Debug, Default)]
pub(crate) struct Metrics(pub(super) Arc<Counts>);

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counts = &self.0;
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let mut single = |name: &str, help: &str, count: u64| {
            encoder
                .encode_descriptor(name, help, None, MetricType::Counter)?
                .encode_counter::<NoLabelSet, _, f64>(&count, None)
        };
        single(
            "apiserver_audit_event",
            "Audit events that were made.",
            read(&counts.events),
        )?;
        single(
            "apiserver_audit_requests_rejected",
            "Requests that were refused because their audit event could not be stored.",
            read(&counts.rejected),
        )?;
        single(
            "wheelhouse_audit_late_events",
            "Audit events whose request was answered before they were written.",
            read(&counts.late),
        )?;
        let mut errors = encoder.encode_descriptor(
            "apiserver_audit_error",
            "Audit events that are lost, by what lost them.",
            None,
            MetricType::Counter,
        )?;
        for (plugin, count) in [
            ("log", &counts.lost_by_log),
            ("webhook", &counts.lost_by_webhook),
            ("buffered", &counts.lost_by_queue),
        ] {
            errors
                .encode_family(&[("plugin", plugin)])?
                .encode_counter::<NoLabelSet, _, f64>(&read(count), None)?;
        }
        let mut levels = encoder.encode_descriptor(
            "apiserver_audit_level",
            "Requests by the level at which the audit policy records them.",
            None,
            MetricType::Counter,
        )?;
        for (level, count) in LEVELS.iter().zip(&counts.levels) {
            levels
                .encode_family(&[("level", level.as_str())])?
                .encode_counter::<NoLabelSet, _, f64>(&read(count), None)?;
        }
        Ok(())
    }
}
