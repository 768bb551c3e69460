//! What a process counts of its share of the fleet.

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{MetricType, counter::Counter, family::Family, gauge::Gauge},
};

use crate::metrics::WorkMetrics;

/// How a cluster came to a process, or left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Change {
    /// Nobody had it, and this process took it.
    Taken,
    /// It was left to another process that is to have it.
    Left,
    /// Another process has taken it.
    Lost,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ChangeLabel {
    change: &'static str,
}

/// What a process counts of its share of the fleet, and whether it has one. Clones share it. All zero where the fleet is not
/// shared.
#[derive(Clone, Debug)]
pub struct ShareMetrics {
    takes_part: Gauge,
    leads: Gauge,
    spokes: Gauge,
    handovers: Family<ChangeLabel, Counter>,
    failed_renewals: Counter,
}

/// What a process counts of its share of the fleet and of its work. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Its share.
    pub share: ShareMetrics,
    /// Its work.
    pub work: WorkMetrics,
}

// === impl ShareMetrics ===

impl ShareMetrics {
    /// Returns whether the process takes part in the work now.
    pub fn takes_part(&self) -> bool {
        self.takes_part.get() == 1
    }

    /// Notes that the process takes part, with nothing yet.
    pub(super) fn begin(&self) {
        self.takes_part.set(1);
    }

    /// Notes that the process takes no part any more, and has nothing.
    pub(super) fn end(&self) {
        self.takes_part.set(0);
        self.have(0, false);
    }

    /// Notes how many spokes the process looks after, and whether it does what is done once for the fleet.
    pub(super) fn have(&self, spoke_count: usize, leads: bool) {
        self.spokes
            .set(i64::try_from(spoke_count).unwrap_or(i64::MAX));
        self.leads.set(i64::from(leads));
    }

    /// Counts a cluster that changed hands.
    pub(super) fn count(&self, change: Change) {
        self.handovers.get_or_create(&change.label()).inc();
    }

    /// Counts an attempt to renew the Lease of the process that has failed.
    pub(super) fn count_failed_renewal(&self) {
        self.failed_renewals.inc();
    }
}

impl Default for ShareMetrics {
    fn default() -> Self {
        let handovers = Family::default();
        for change in Change::ALL {
            drop(handovers.get_or_create(&change.label()));
        }
        Self {
            takes_part: Gauge::default(),
            leads: Gauge::default(),
            spokes: Gauge::default(),
            handovers,
            failed_renewals: Counter::default(),
        }
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.share.encode_with(&mut encoder)?;
        self.work.encode_with(&mut encoder)
    }
}

impl ShareMetrics {
    fn encode_with(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut encode = |name, help, kind, metric: &dyn EncodeMetric| {
            metric.encode(encoder.encode_descriptor(name, help, None, kind)?)
        };
        encode(
            "wheelhouse_share_member",
            "Whether the process shares the work with others, and has a good Lease: 1 or 0.",
            MetricType::Gauge,
            &self.takes_part,
        )?;
        encode(
            "wheelhouse_share_leads",
            "Whether the process does what is done once for the fleet, by a Lease: 1 or 0.",
            MetricType::Gauge,
            &self.leads,
        )?;
        encode(
            "wheelhouse_share_spokes",
            "Spokes that the process looks after by their Leases.",
            MetricType::Gauge,
            &self.spokes,
        )?;
        encode(
            "wheelhouse_share_handovers",
            "Clusters that the process took, left to another, or lost to another.",
            MetricType::Counter,
            &self.handovers,
        )?;
        encode(
            "wheelhouse_share_failed_renewals",
            "Attempts to renew the Lease of the process that have failed.",
            MetricType::Counter,
            &self.failed_renewals,
        )
    }
}

// === impl Change ===

impl Change {
    const ALL: [Self; 3] = [Self::Taken, Self::Left, Self::Lost];

    const fn label(self) -> ChangeLabel {
        let change = match self {
            Self::Taken => "taken",
            Self::Left => "left",
            Self::Lost => "lost",
        };
        ChangeLabel { change }
    }
}
