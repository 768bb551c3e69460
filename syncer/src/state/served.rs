//! A definition of which a revision is served, and the clusters that it is for.

use std::{collections::BTreeMap, sync::Arc};

use api::{
    GroupResource, LogicalCluster, crd::CustomResourceDefinition, kro::keys::ANNOTATION_DISTRIBUTE,
    selector::Selector, wheelhouse::keys::ANNOTATION_SPOKES,
};
use graph::{CompiledGraph, Owner};

use super::actors::Grant;

/// Names a definition: where it was authored, and how it is called there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct DefinitionKey {
    pub(crate) cluster: LogicalCluster,
    pub(crate) name: String,
}

/// A definition of which a revision is served.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) key: DefinitionKey,
    pub(crate) owner: Owner,
    pub(crate) graph: Arc<CompiledGraph>,
    /// The number of the revision that has this graph.
    pub(crate) revision: i64,
    /// In whose name its instances' children are written.
    pub(crate) grant: Grant,
    /// The generated CRD, with owner labels.
    pub(crate) definition: CustomResourceDefinition,
    /// The clusters that it is for.
    pub(crate) reaching: Reaching,
}

/// The clusters that a definition of root is for.
#[derive(Debug)]
pub(crate) struct Reaching {
    pub(crate) selector: Option<Selector>,
    pub(crate) distribute: bool,
}

// === impl Reaching ===

impl Reaching {
    /// Reads the annotations and labels of a definition.
    ///
    /// # Errors
    /// What is wrong with the selector.
    pub(crate) fn of(
        annotations: &BTreeMap<String, String>,
        labels: &BTreeMap<String, String>,
    ) -> Result<Self, String> {
        let selector = annotations.get(ANNOTATION_SPOKES).map(|text| {
            text.parse::<Selector>()
                .map_err(|error| format!("annotation {ANNOTATION_SPOKES}: {error}"))
        });
        let distribute = annotations
            .get(ANNOTATION_DISTRIBUTE)
            .or_else(|| labels.get(ANNOTATION_DISTRIBUTE));
        Ok(Self {
            selector: selector.transpose()?,
            distribute: distribute.is_none_or(|text| text != "false"),
        })
    }

    /// Returns whether a spoke with these labels is one of them.
    pub(crate) fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        self.distribute
            && self
                .selector
                .as_ref()
                .is_none_or(|selector| selector.matches(labels))
    }
}

// === impl Served ===

impl Served {
    /// Returns whether a logical cluster is to serve this definition's kind, as far as the definition goes.
    pub(crate) fn is_for(
        &self,
        cluster: &LogicalCluster,
        labels: &BTreeMap<String, String>,
    ) -> bool {
        if *cluster == self.key.cluster {
            return true;
        }
        self.key.cluster.is_root() && !cluster.is_root() && self.reaching.selects(labels)
    }

    /// Names the resource that it serves.
    pub(crate) fn resource(&self) -> GroupResource {
        self.graph.gvr().group_resource()
    }
}
