//! ResourceGraphDefinitions: compiled, recorded as GraphRevisions, published as CRDs.
//!
//! In reading order: [`reconcile`] (one definition), [`resolving`] (the schemas that it is compiled
//! against), [`revisions`], [`distribution`] (its CRD in every target), [`conditions`].
//!
//! A definition in root is for all spokes, or for those that its annotation selects; one authored
//! at a spoke's path is for that spoke alone.

pub(crate) mod distribution;
pub(crate) mod reconcile;
pub(crate) mod resolving;
pub(crate) mod revisions;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use api::{
    GroupKind, GroupVersionResource, LogicalCluster, crd::CustomResourceDefinition,
    selector::Selector,
};
use client::reflector::{self, Event, RawObject};
use graph::{CompiledGraph, Owner};
use parking_lot::{Mutex, RwLock};
use tokio::sync::Mutex as AsyncMutex;
use tracing::debug;

use crate::{
    engine::Engine,
    resources,
    target::{Target, TargetSort},
};

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
    /// The generated CRD, with owner labels.
    pub(crate) definition: CustomResourceDefinition,
    /// The spokes that it is for; `None` means all.
    pub(crate) selector: Option<Selector>,
    /// Whether its CRD is put into spokes at all.
    pub(crate) distribute: bool,
}

/// All definitions of the hub.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    // Guards the maps; never held across an await.
    state: RwLock<State>,
    /// Held from the question who holds a kind to the answer's use; before `state`, and never across an await.
    pub(crate) claims: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    known: HashMap<DefinitionKey, Arc<RawObject>>,
    served: BTreeMap<DefinitionKey, Arc<Served>>,
    /// Endpoints of kinds that were served since the start.
    endpoints: HashMap<GroupKind, GroupVersionResource>,
    /// With which clusters' schemas each definition compiled last.
    views: HashMap<DefinitionKey, u64>,
    /// Labels of spokes, which selectors look at.
    spoke_labels: HashMap<LogicalCluster, BTreeMap<String, String>>,
}

// === impl Served ===

impl Served {
    /// Tells whether a target is to serve this definition's kind.
    pub(crate) fn is_for(&self, target: &Target, labels: &BTreeMap<String, String>) -> bool {
        if target.cluster == self.key.cluster {
            return true;
        }
        self.key.cluster.is_root()
            && target.sort != TargetSort::Root
            && self.distribute
            && self
                .selector
                .as_ref()
                .is_none_or(|selector| selector.matches(labels))
    }
}

// === impl Definitions ===

impl Definitions {
    /// Tells the definition as the hub's watch last delivered it.
    pub(crate) fn known(&self, key: &DefinitionKey) -> Option<Arc<RawObject>> {
        self.state.read().known.get(key).cloned()
    }

    /// Tells the keys of all definitions.
    pub(crate) fn keys(&self) -> Vec<DefinitionKey> {
        self.state.read().known.keys().cloned().collect()
    }

    /// Tells what is served of a definition.
    pub(crate) fn served(&self, key: &DefinitionKey) -> Option<Arc<Served>> {
        self.state.read().served.get(key).cloned()
    }

    /// Tells all that is served in a target.
    pub(crate) fn served_in(&self, target: &Target) -> Vec<Arc<Served>> {
        let state = self.state.read();
        let none = BTreeMap::new();
        let labels = state.spoke_labels.get(&target.cluster).unwrap_or(&none);
        state
            .served
            .values()
            .filter(|served| served.is_for(target, labels))
            .cloned()
            .collect()
    }

    /// Tells the definition that serves a kind in a logical cluster: one authored there before one
    /// of root.
    pub(crate) fn lookup(
        &self,
        cluster: &LogicalCluster,
        group_kind: &GroupKind,
    ) -> Option<Arc<Served>> {
        let state = self.state.read();
        let mut same = state
            .served
            .values()
            .filter(|served| served.graph.group_kind() == *group_kind);
        let own = same.clone().find(|served| served.key.cluster == *cluster);
        own.or_else(|| same.find(|served| served.key.cluster.is_root()))
            .cloned()
    }

    /// Tells the other definition that holds a kind, if one does.
    pub(crate) fn holder(
        &self,
        key: &DefinitionKey,
        group_kind: &GroupKind,
    ) -> Option<DefinitionKey> {
        let state = self.state.read();
        state
            .served
            .values()
            .find(|served| {
                served.graph.group_kind() == *group_kind
                    && served.key != *key
                    && (served.key.cluster == key.cluster
                        || served.key.cluster.is_root()
                        || key.cluster.is_root())
            })
            .map(|served| served.key.clone())
    }

    /// Tells the endpoint that a kind was last served at.
    pub(crate) fn last_gvr(&self, group_kind: &GroupKind) -> Option<GroupVersionResource> {
        self.state.read().endpoints.get(group_kind).cloned()
    }

    /// Serves a definition from now on. Returns whether that is new or another graph than before.
    pub(crate) fn publish(&self, served: Arc<Served>) -> bool {
        let mut state = self.state.write();
        let gvr = served.graph.gvr().clone();
        state.endpoints.insert(served.graph.group_kind(), gvr);
        let key = served.key.clone();
        let hash = served.graph.spec_hash().to_owned();
        let (selector, distribute) = (format!("{:?}", served.selector), served.distribute);
        let before = state.served.insert(key, served);
        before.is_none_or(|before| {
            before.graph.spec_hash() != hash
                || before.distribute != distribute
                || format!("{:?}", before.selector) != selector
        })
    }

    /// No longer serves a definition.
    pub(crate) fn withdraw(&self, key: &DefinitionKey) -> Option<Arc<Served>> {
        self.state.write().served.remove(key)
    }

    /// Tells with which view of the receiving clusters' schemas a definition compiled last.
    pub(crate) fn view(&self, key: &DefinitionKey) -> Option<u64> {
        self.state.read().views.get(key).copied()
    }

    /// Notes with which view a definition compiled.
    pub(crate) fn note_view(&self, key: &DefinitionKey, view: Option<u64>) {
        let mut state = self.state.write();
        match view {
            Some(view) => state.views.insert(key.clone(), view),
            None => state.views.remove(key),
        };
    }

    /// Notes the labels of a spoke. Returns whether they changed.
    pub(crate) fn note_spoke(
        &self,
        cluster: &LogicalCluster,
        labels: &BTreeMap<String, String>,
    ) -> bool {
        let before = self
            .state
            .write()
            .spoke_labels
            .insert(cluster.clone(), labels.clone());
        before.as_ref() != Some(labels)
    }
}

/// Starts the watch of definitions over all logical clusters, and the worker that reconciles them.
pub(crate) fn start(engine: &Arc<Engine>) {
    let gvr = resources::definitions();
    let source = reflector::Config {
        client: engine.hub.client().clone(),
        path: format!("/clusters/*{}/{}", gvr.group_version().path(), gvr.resource),
        label_selector: None,
        field_selector: None,
        name: "hub/resourcegraphdefinitions".to_owned(),
    };
    let mut events = reflector::start(source, &engine.tasks, engine.tasks.child_token());
    let follower = Arc::clone(engine);
    engine.tasks.spawn("definitions", async move {
        while let Some(event) = events.recv().await {
            take(&follower, event);
        }
    });
    let worker = Arc::clone(engine);
    let token = engine.tasks.child_token();
    engine.tasks.spawn("definition-worker", async move {
        let mut lanes: HashMap<LogicalCluster, Arc<AsyncMutex<()>>> = HashMap::new();
        while let Some(key) = worker.definition_queue.next_until(&token).await {
            // Those of one cluster one after the other; a cluster that hangs holds up its own alone.
            lanes.retain(|_, lane| Arc::strong_count(lane) > 1);
            let lane = Arc::clone(lanes.entry(key.cluster.clone()).or_default());
            let engine = Arc::clone(&worker);
            worker.tasks.spawn("definition", async move {
                let _turn = lane.lock().await;
                reconcile::run(&engine, &key).await;
                engine.definition_queue.done(&key);
            });
        }
    });
    distribution::start(engine);
}

fn take(engine: &Engine, event: Event) {
    let mut state = engine.definitions.state.write();
    match event {
        Event::Restarted { objects, .. } => {
            let mut left = std::mem::take(&mut state.known);
            for object in objects {
                if let Some(key) = key_of(&object) {
                    left.remove(&key);
                    state.known.insert(key.clone(), object);
                    engine.definition_queue.add(key);
                }
            }
            for key in left.into_keys() {
                engine.definition_queue.add(key);
            }
        }
        Event::Applied(object) => {
            let Some(key) = key_of(&object) else { return };
            let before = state.known.insert(key.clone(), Arc::clone(&object));
            let concerns = before.is_none_or(|before| {
                before.generation != object.generation
                    || before.deletion_timestamp != object.deletion_timestamp
                    || before.annotations != object.annotations
                    || before.finalizers != object.finalizers
            });
            if concerns {
                engine.definition_queue.add(key);
            }
        }
        Event::Deleted(object) => {
            if let Some(key) = key_of(&object) {
                state.known.remove(&key);
                engine.definition_queue.add(key);
            }
        }
        Event::Interrupted(reason) => debug!(reason, "watch of definitions interrupted"),
        Event::Resumed => {}
    }
}

fn key_of(object: &RawObject) -> Option<DefinitionKey> {
    let cluster = crate::instances::cluster_of(object)?;
    Some(DefinitionKey {
        cluster,
        name: object.name.clone(),
    })
}
