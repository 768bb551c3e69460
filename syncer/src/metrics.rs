//! What a process counts of its work on definitions and instances, under the names of kro.
//!
//! kro labels by resource or by name, which tenants choose. Here the label is the logical cluster, and histograms have none.
//!
//! # Invariants
//! - A label `cluster` is `root` or the name of a Spoke, which administrators choose. All beyond [`CLUSTERS_MAX`] are counted
//!   together, and so are all where anyone may read the counts ([`WorkMetrics::without_names`]).
//! - Counting is a look-up under a lock that is held for nothing else, and a few atomic additions.
//!
//! Source: kro `pkg/metrics/instance.go`, `pkg/metrics/rgd.go`.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use api::{LogicalCluster, kro::keys};
use parking_lot::Mutex;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{
        MetricType,
        counter::{ConstCounter, Counter},
        histogram::Histogram,
    },
};

/// Clusters that have counts of their own. The hub is built for this many.
const CLUSTERS_MAX: usize = 1_000;

/// The label of all clusters that have no counts of their own.
const OTHERS: &str = "other";

/// The upper bounds of kro's histograms.
const SECONDS: [f64; 16] = [
    0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 45.0, 60.0, 120.0,
];

/// What a process counts of its work on definitions and instances. Clones share it.
#[derive(Clone, Debug)]
pub struct WorkMetrics {
    // Guards the map; held for a look-up.
    by_cluster: Arc<Mutex<BTreeMap<LogicalCluster, Arc<Counts>>>>,
    others: Arc<Counts>,
    clusters_max: usize,
    reconcile_seconds: Histogram,
    build_seconds: Histogram,
}

/// The counts of one cluster.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    reconciles: Counter,
    reconcile_errors: Counter,
    // Guards the counts, by the states before and after.
    instance_transitions: Mutex<Transitions>,
    builds: Counter,
    build_errors: Counter,
    definition_transitions: Mutex<Transitions>,
    definition_deletions: Counter,
    revisions_issued: Counter,
    revisions_collected: Counter,
}

/// How often a state followed another.
type Transitions = BTreeMap<(&'static str, &'static str), u64>;

/// What is encoded of the counts of one cluster.
type Chosen = fn(&Counts) -> &Counter;

/// Counters with the label `cluster` alone: kro's names, without the suffix `_total`.
const COUNTERS: [(&str, &str, Chosen); 7] = [
    (
        "instance_reconcile",
        "Reconciliations of instances.",
        |it| &it.reconciles,
    ),
    (
        "instance_reconcile_errors",
        "Reconciliations of instances that failed and are tried again.",
        |it| &it.reconcile_errors,
    ),
    (
        "rgd_graph_build",
        "Compilations of ResourceGraphDefinitions.",
        |it| &it.builds,
    ),
    (
        "rgd_graph_build_errors",
        "Compilations of ResourceGraphDefinitions that were refused, or had no schemas.",
        |it| &it.build_errors,
    ),
    (
        "rgd_deletions",
        "ResourceGraphDefinitions whose deletion has ended.",
        |it| &it.definition_deletions,
    ),
    (
        "rgd_graph_revision_issue",
        "GraphRevisions created.",
        |it| &it.revisions_issued,
    ),
    (
        "rgd_graph_revision_gc_deleted",
        "GraphRevisions deleted because there are newer ones.",
        |it| &it.revisions_collected,
    ),
];

/// Counters of changes of state, with the labels of the states before and after.
type ChosenTransitions = fn(&Counts) -> &Mutex<Transitions>;

const TRANSITIONS: [(&str, &str, [&str; 2], ChosenTransitions); 2] = [
    (
        "instance_state_transitions",
        "Changes of the state of instances.",
        ["from_state", "to_state"],
        |it| &it.instance_transitions,
    ),
    (
        "rgd_state_transitions",
        "Changes of the state of ResourceGraphDefinitions.",
        ["from", "to"],
        |it| &it.definition_transitions,
    ),
];

// === impl WorkMetrics ===

impl WorkMetrics {
    /// Counts all clusters together.
    pub fn without_names() -> Self {
        Self {
            clusters_max: 0,
            ..Self::default()
        }
    }

    /// Returns the counts of a cluster.
    pub(crate) fn of(&self, cluster: &LogicalCluster) -> Arc<Counts> {
        let mut by_cluster = self.by_cluster.lock();
        if let Some(counts) = by_cluster.get(cluster) {
            return Arc::clone(counts);
        }
        if by_cluster.len() >= self.clusters_max {
            return Arc::clone(&self.others);
        }
        Arc::clone(by_cluster.entry(cluster.clone()).or_default())
    }

    /// Forgets a cluster that has no Spoke any more.
    pub(crate) fn forget(&self, cluster: &LogicalCluster) {
        self.by_cluster.lock().remove(cluster);
    }

    /// Notes a reconciliation of an instance.
    pub(crate) fn reconciled(&self, cluster: &LogicalCluster, took: Duration, failed: bool) {
        let counts = self.of(cluster);
        counts.reconciles.inc();
        if failed {
            counts.reconcile_errors.inc();
        }
        self.reconcile_seconds.observe(took.as_secs_f64());
    }

    /// Notes a compilation of a definition.
    pub(crate) fn built(&self, cluster: &LogicalCluster, took: Duration, refused: bool) {
        let counts = self.of(cluster);
        counts.builds.inc();
        if refused {
            counts.build_errors.inc();
        }
        self.build_seconds.observe(took.as_secs_f64());
    }

    fn each(&self) -> Vec<(String, Arc<Counts>)> {
        let mut each: Vec<_> = self
            .by_cluster
            .lock()
            .iter()
            .map(|(cluster, counts)| (cluster.to_string(), Arc::clone(counts)))
            .collect();
        if each.len() >= self.clusters_max {
            each.push((OTHERS.to_owned(), Arc::clone(&self.others)));
        }
        each
    }
}

impl Default for WorkMetrics {
    fn default() -> Self {
        Self {
            by_cluster: Arc::default(),
            others: Arc::default(),
            clusters_max: CLUSTERS_MAX,
            reconcile_seconds: Histogram::new(SECONDS),
            build_seconds: Histogram::new(SECONDS),
        }
    }
}

impl Collector for WorkMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.encode_with(&mut encoder)
    }
}

impl WorkMetrics {
    /// Encodes everything, beside what else the encoder is for.
    pub(crate) fn encode_with(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let each = self.each();
        for (name, help, chosen) in COUNTERS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (cluster, counts) in &each {
                let labels = [("cluster", cluster.as_str())];
                chosen(counts).encode(family.encode_family(&labels)?)?;
            }
        }
        for (name, help, [from_label, to_label], chosen) in TRANSITIONS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (cluster, counts) in &each {
                for ((from, to), count) in &*chosen(counts).lock() {
                    let labels = [
                        ("cluster", cluster.as_str()),
                        (from_label, from),
                        (to_label, to),
                    ];
                    let count = ConstCounter::new(*count);
                    count.encode(family.encode_family(&labels)?)?;
                }
            }
        }
        let histograms = [
            (
                "instance_reconcile_duration_seconds",
                "How long reconciliations of instances took.",
                &self.reconcile_seconds,
            ),
            (
                "rgd_graph_build_duration_seconds",
                "How long compilations of ResourceGraphDefinitions took.",
                &self.build_seconds,
            ),
        ];
        for (name, help, histogram) in histograms {
            histogram.encode(encoder.encode_descriptor(
                name,
                help,
                None,
                MetricType::Histogram,
            )?)?;
        }
        Ok(())
    }
}

// === impl Counts ===

impl Counts {
    /// Notes the state that an instance's status says now.
    pub(crate) fn instance_state(&self, before: Option<&str>, now: Option<&str>) {
        note(&self.instance_transitions, before, now);
    }

    /// Notes the state that a definition's status says now.
    pub(crate) fn definition_state(&self, before: Option<&str>, now: Option<&str>) {
        note(&self.definition_transitions, before, now);
    }

    /// Notes that a definition is gone.
    pub(crate) fn definition_deleted(&self) {
        self.definition_deletions.inc();
    }

    /// Notes a new revision.
    pub(crate) fn revision_issued(&self) {
        self.revisions_issued.inc();
    }

    /// Notes a revision that was deleted in favour of newer ones.
    pub(crate) fn revision_collected(&self) {
        self.revisions_collected.inc();
    }
}

/// Counts a change of state.
fn note(transitions: &Mutex<Transitions>, before: Option<&str>, now: Option<&str>) {
    let (before, now) = (known(before), known(now));
    if before != now {
        *transitions.lock().entry((before, now)).or_default() += 1;
    }
}

/// Returns a state as kro has it, and nothing for any other: what is read may have been written by anyone.
fn known(state: Option<&str>) -> &'static str {
    let states = [
        keys::STATE_ACTIVE,
        keys::STATE_IN_PROGRESS,
        keys::STATE_ERROR,
        keys::STATE_DELETING,
        keys::RGD_STATE_ACTIVE,
        keys::RGD_STATE_INACTIVE,
    ];
    let state = state.and_then(|state| states.into_iter().find(|it| *it == state));
    state.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use prometheus_client::{encoding::text, registry::Registry};

    use super::*;

    fn exposed(metrics: &WorkMetrics) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(metrics.clone()));
        let mut exposition = String::new();
        text::encode(&mut exposition, &registry).unwrap();
        exposition
    }

    fn cluster(name: &str) -> LogicalCluster {
        name.parse().unwrap()
    }

    #[test]
    fn counts_are_exposed_by_cluster_under_the_names_of_kro() {
        let metrics = WorkMetrics::default();
        let east = cluster("east");
        metrics.reconciled(&east, Duration::from_millis(20), true);
        metrics.built(&LogicalCluster::root(), Duration::from_millis(1), false);
        let counts = metrics.of(&east);
        counts.instance_state(None, Some(keys::STATE_IN_PROGRESS));
        counts.instance_state(Some("made up"), Some(keys::STATE_IN_PROGRESS));
        counts.instance_state(Some(keys::STATE_ACTIVE), Some(keys::STATE_ACTIVE));
        counts.definition_state(Some(keys::RGD_STATE_INACTIVE), Some(keys::RGD_STATE_ACTIVE));
        let shown = exposed(&metrics);
        for line in [
            r#"instance_reconcile_total{cluster="east"} 1"#,
            r#"instance_reconcile_errors_total{cluster="east"} 1"#,
            r#"instance_state_transitions_total{cluster="east",from_state="",to_state="IN_PROGRESS"} 2"#,
            r#"instance_reconcile_duration_seconds_bucket{le="0.05"} 1"#,
            r#"rgd_graph_build_total{cluster="root"} 1"#,
            r#"rgd_graph_build_errors_total{cluster="root"} 0"#,
            r#"rgd_state_transitions_total{cluster="east",from="Inactive",to="Active"} 1"#,
        ] {
            assert!(shown.lines().any(|it| it == line), "{line} in:\n{shown}");
        }
        metrics.forget(&east);
        assert!(
            !exposed(&metrics).contains("east"),
            "it has no Spoke any more"
        );
    }

    #[test]
    fn no_cluster_is_named_where_anyone_may_read() {
        let metrics = WorkMetrics::without_names();
        metrics.reconciled(&cluster("east"), Duration::ZERO, false);
        let shown = exposed(&metrics);
        assert!(!shown.contains("east"), "{shown}");
        assert!(
            shown.contains(r#"instance_reconcile_total{cluster="other"} 1"#),
            "{shown}"
        );
    }

    #[test]
    fn the_number_of_series_is_bounded() {
        let metrics = WorkMetrics::default();
        for index in 0..=CLUSTERS_MAX {
            metrics.reconciled(&cluster(&format!("c{index}")), Duration::ZERO, false);
        }
        let shown = exposed(&metrics);
        let series = shown
            .lines()
            .filter(|it| it.starts_with("instance_reconcile_total{"));
        assert_eq!(series.count(), CLUSTERS_MAX + 1);
        let rest = r#"instance_reconcile_total{cluster="other"} 1"#;
        assert!(
            shown.lines().any(|it| it == rest),
            "what is beyond is counted"
        );
    }
}
