//! kro's switches: those that the hub was started with, and what each Spoke says of its own logical cluster.
//!
//! # Invariants
//!
//! What holds for a definition is what holds for the cluster that it was authored in; what holds for an instance and its
//! children is what holds for their own cluster. A cluster that says nothing has the hub's.
//!
//! Source: kro v0.9.4 `cmd/controller/main.go`.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use api::{LogicalCluster, kro::FeatureGates, wheelhouse::KroSwitches};
use parking_lot::RwLock;

/// Revisions of a definition that are kept; kro's default of `--rgd-max-graph-revisions`.
const REVISION_COUNT_MAX: usize = 5;

/// kro's switches. The defaults are kro's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switches {
    /// `--feature-gates`.
    pub gates: FeatureGates,
    /// `--allow-crd-deletion`: whether the CRD of a definition goes with it.
    pub allow_crd_deletion: bool,
    /// `--rgd-max-collection-size`.
    pub collection_size_max: usize,
    /// `--rgd-max-collection-dimension-size`.
    pub dimensions_max: usize,
    /// `--rgd-max-graph-revisions`: how many revisions of a definition are kept; `None` keeps all.
    pub revision_count_max: Option<usize>,
    /// The version of kro that labels and annotations name.
    pub version: String,
}

/// What the switches of one logical cluster come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chosen {
    /// For definitions and plans.
    pub(crate) settings: graph::Settings,
    pub(crate) allow_crd_deletion: bool,
    pub(crate) revision_count_max: Option<usize>,
}

/// The switches of all logical clusters.
#[derive(Debug)]
pub(crate) struct Switchboard {
    hub: Switches,
    extra_labels: BTreeMap<String, String>,
    own: Arc<Chosen>,
    // Guards the map; never held across an await.
    spokes: RwLock<HashMap<LogicalCluster, Arc<Chosen>>>,
}

// === impl Switches ===

impl Default for Switches {
    fn default() -> Self {
        Self {
            gates: FeatureGates::default(),
            allow_crd_deletion: false,
            collection_size_max: graph::COLLECTION_SIZE_MAX,
            dimensions_max: graph::DIMENSIONS_MAX,
            revision_count_max: Some(REVISION_COUNT_MAX),
            version: graph::KRO_VERSION.to_owned(),
        }
    }
}

impl Switches {
    /// Returns the switches of a cluster whose Spoke says this.
    fn with(&self, said: &KroSwitches) -> Self {
        let mut switches = self.clone();
        for (name, open) in &said.feature_gates {
            // The Spoke's schema has those only that can be opened.
            let _known = switches.gates.set(name, *open).is_ok();
        }
        let size = |said: Option<u32>, own: usize| said.map_or(own, |said| said as usize);
        if let Some(allow) = said.allow_crd_deletion {
            switches.allow_crd_deletion = allow;
        }
        switches.collection_size_max =
            size(said.rgd.collection_size_max, switches.collection_size_max);
        switches.dimensions_max = size(said.rgd.dimensions_max, switches.dimensions_max);
        if let Some(count) = said.rgd.kept_revision_count {
            switches.revision_count_max = Some(count as usize).filter(|count| *count > 0);
        }
        if !said.version.is_empty() {
            switches.version.clone_from(&said.version);
        }
        switches
    }

    fn chosen(&self, extra_labels: &BTreeMap<String, String>) -> Chosen {
        Chosen {
            settings: graph::Settings {
                kro_version: self.version.clone(),
                extra_labels: extra_labels.clone(),
                collection_size_max: self.collection_size_max,
                compile: graph::CompileOptions {
                    omit: self.gates.omit,
                    node_status: self.gates.node_status.unwrap_or_default(),
                    scale: self.gates.scale,
                    deletion_policy: self.gates.deletion_policy,
                    dimensions_max: self.dimensions_max,
                },
            },
            allow_crd_deletion: self.allow_crd_deletion,
            revision_count_max: self.revision_count_max,
        }
    }
}

// === impl Switchboard ===

impl Switchboard {
    /// Starts with the hub's switches; every child has the labels beside kro's own.
    pub(crate) fn new(hub: Switches, extra_labels: BTreeMap<String, String>) -> Self {
        let own = Arc::new(hub.chosen(&extra_labels));
        Self {
            hub,
            extra_labels,
            own,
            spokes: RwLock::default(),
        }
    }

    /// Returns what holds in a logical cluster.
    pub(crate) fn of(&self, cluster: &LogicalCluster) -> Arc<Chosen> {
        let spokes = self.spokes.read();
        Arc::clone(spokes.get(cluster).unwrap_or(&self.own))
    }

    /// Notes what a Spoke says of its cluster. Returns whether anything holds there now that did not.
    pub(crate) fn note(&self, cluster: &LogicalCluster, said: &KroSwitches) -> bool {
        let now = if *said == KroSwitches::default() {
            None
        } else {
            Some(Arc::new(self.hub.with(said).chosen(&self.extra_labels)))
        };
        let mut spokes = self.spokes.write();
        let before = match &now {
            Some(now) => spokes.insert(cluster.clone(), Arc::clone(now)),
            None => spokes.remove(cluster),
        };
        before.as_ref().unwrap_or(&self.own) != now.as_ref().unwrap_or(&self.own)
    }

    /// Forgets a Spoke that is gone.
    pub(crate) fn forget(&self, cluster: &LogicalCluster) {
        self.spokes.write().remove(cluster);
    }
}

#[cfg(test)]
mod tests {
    use api::wheelhouse::RgdSwitches;

    use super::*;

    #[test]
    fn a_spoke_says_what_differs_and_the_rest_is_the_hubs() {
        let hub = Switches {
            version: "v0.9.2".to_owned(),
            revision_count_max: Some(8),
            ..Switches::default()
        };
        let board = Switchboard::new(hub, BTreeMap::new());
        let (east, west): (LogicalCluster, LogicalCluster) = (
            "east".parse().expect("a name"),
            "west".parse().expect("a name"),
        );
        let said = KroSwitches {
            feature_gates: BTreeMap::from([("CELOmitFunction".to_owned(), true)]),
            allow_crd_deletion: Some(true),
            rgd: RgdSwitches {
                collection_size_max: Some(3),
                kept_revision_count: Some(0),
                ..RgdSwitches::default()
            },
            version: String::new(),
        };
        assert!(board.note(&east, &said));
        assert!(!board.note(&east, &said), "that is known");
        let (east_has, west_has) = (board.of(&east), board.of(&west));
        assert!(east_has.settings.compile.omit && !west_has.settings.compile.omit);
        assert!(east_has.allow_crd_deletion && !west_has.allow_crd_deletion);
        assert_eq!(east_has.settings.collection_size_max, 3);
        assert_eq!(west_has.settings.collection_size_max, 1000);
        assert_eq!(east_has.settings.compile.dimensions_max, 10);
        assert_eq!(east_has.revision_count_max, None, "0 keeps all, as in kro");
        assert_eq!(west_has.revision_count_max, Some(8));
        assert_eq!(east_has.settings.kro_version, "v0.9.2");
        assert!(board.note(&east, &KroSwitches::default()));
        assert_eq!(board.of(&east), board.of(&west));
        board.note(&east, &said);
        board.forget(&east);
        assert_eq!(board.of(&east), west_has);
    }
}
