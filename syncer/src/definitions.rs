//! ResourceGraphDefinitions: compiled, recorded as GraphRevisions, published as CRDs.
//!
//! In reading order: [`reconcile`] (one definition), [`claims`] (who holds a kind), [`resolving`] (the schemas that it is compiled
//! against), [`revisions`], [`distribution`] (its CRD in every target), [`conditions`].
//!
//! A definition in root is for all spokes, or for those that its annotation selects; one authored
//! at a spoke's path is for that spoke alone.

pub(crate) mod claims;
pub(crate) mod distribution;
pub(crate) mod reconcile;
pub(crate) mod resolving;
pub(crate) mod revisions;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use api::{
    GroupKind, GroupResource, GroupVersionResource, LogicalCluster, crd::CustomResourceDefinition,
    selector::Selector,
};
use client::reflector::{self, Event, RawObject};
use graph::{CompiledGraph, Owner};
use parking_lot::RwLock;
use tokio::sync::{Mutex as AsyncMutex, watch};
use tracing::debug;

use crate::{
    acting::Grant,
    engine::Engine,
    resources,
    target::{Target, TargetSort},
};

/// Selects the spokes that a definition of root is for.
const SPOKES_ANNOTATION: &str = api::wheelhouse::keys::ANNOTATION_SPOKES;

/// `false` keeps a definition's kind on the hub. Source: kro KREP-013b.
const DISTRIBUTE_KEY: &str = api::kro::keys::ANNOTATION_DISTRIBUTE;

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
    /// In whose name its instances' children are written.
    pub(crate) grant: Grant,
    /// The generated CRD, with owner labels.
    pub(crate) definition: CustomResourceDefinition,
    /// The clusters that it is for.
    pub(crate) reaching: Reaching,
}

/// All definitions of the hub.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    // Guards the maps; never held across an await. Taken before the state of claims.
    state: RwLock<State>,
    /// Whether all of them are known.
    listed: watch::Sender<bool>,
    /// Who holds which kind.
    pub(crate) claims: claims::Claims,
}

#[derive(Debug, Default)]
struct State {
    known: HashMap<DefinitionKey, Arc<RawObject>>,
    served: BTreeMap<DefinitionKey, Arc<Served>>,
    /// Endpoints of kinds that were served since the start, by the cluster of their definition.
    endpoints: HashMap<(LogicalCluster, GroupKind), GroupVersionResource>,
    /// With which clusters' schemas each definition compiled last.
    views: HashMap<DefinitionKey, u64>,
    /// Labels of spokes, which selectors look at.
    spoke_labels: HashMap<LogicalCluster, BTreeMap<String, String>>,
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
        let selector = annotations.get(SPOKES_ANNOTATION).map(|text| {
            text.parse::<Selector>()
                .map_err(|error| format!("annotation {SPOKES_ANNOTATION}: {error}"))
        });
        let distribute = annotations
            .get(DISTRIBUTE_KEY)
            .or_else(|| labels.get(DISTRIBUTE_KEY));
        Ok(Self {
            selector: selector.transpose()?,
            distribute: distribute.is_none_or(|text| text != "false"),
        })
    }

    /// Tells whether a spoke with these labels is one of them.
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
    /// Tells whether a target is to serve this definition's kind, as far as the definition goes.
    fn is_for(&self, target: &Target, labels: &BTreeMap<String, String>) -> bool {
        if target.cluster == self.key.cluster {
            return true;
        }
        self.key.cluster.is_root()
            && target.sort != TargetSort::Root
            && self.reaching.selects(labels)
    }

    /// Names the resource that it serves.
    pub(crate) fn resource(&self) -> GroupResource {
        self.graph.gvr().group_resource()
    }
}

// === impl Definitions ===

impl Definitions {
    /// Tells the definition as the hub's watch last delivered it.
    pub(crate) fn known(&self, key: &DefinitionKey) -> Option<Arc<RawObject>> {
        self.state.read().known.get(key).cloned()
    }

    /// Tells whether every definition of the hub is known: who is not there then, is not.
    pub(crate) fn listed(&self) -> bool {
        *self.listed.borrow()
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
        let mut served = self.meant_for(target);
        served.retain(|served| self.kept_out(target, served).is_none());
        served
    }

    /// Tells all that is for a target, also where another definition holds the kind there.
    pub(crate) fn meant_for(&self, target: &Target) -> Vec<Arc<Served>> {
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

    /// Tells the local definition that keeps one of root out of its cluster: it held the kind there first.
    pub(crate) fn kept_out(&self, target: &Target, served: &Served) -> Option<DefinitionKey> {
        if served.key.cluster == target.cluster {
            return None;
        }
        self.claims.holder(&target.cluster, &served.resource())
    }

    /// Tells the definition that serves a kind in a logical cluster: the one that holds it there, or else one of root.
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
        if own.is_some() {
            return own.cloned();
        }
        let of_root = same.find(|served| served.key.cluster.is_root())?;
        // A local definition that holds the kind and is not served yet is waited for.
        let is_held = self.claims.holder(cluster, &of_root.resource()).is_some();
        (!is_held).then(|| Arc::clone(of_root))
    }

    /// Tells the endpoint at which a kind is served in a logical cluster, or was last served there: a definition that is gone
    /// leaves its CRD.
    pub(crate) fn endpoint(
        &self,
        cluster: &LogicalCluster,
        group_kind: &GroupKind,
    ) -> Option<GroupVersionResource> {
        if let Some(served) = self.lookup(cluster, group_kind) {
            return Some(served.graph.gvr().clone());
        }
        let state = self.state.read();
        let last = |cluster: &LogicalCluster| {
            let known = state.endpoints.get(&(cluster.clone(), group_kind.clone()));
            known.cloned()
        };
        last(cluster).or_else(|| last(&LogicalCluster::root()))
    }

    /// Tells whether a definition serves its kind at an endpoint.
    pub(crate) fn has_endpoint(&self, gvr: &GroupVersionResource) -> bool {
        let state = self.state.read();
        state
            .served
            .values()
            .any(|served| served.graph.gvr() == gvr)
    }

    /// Serves a definition from now on. Returns whether that is new or another graph than before.
    pub(crate) fn publish(&self, served: Arc<Served>) -> bool {
        let mut state = self.state.write();
        let gvr = served.graph.gvr().clone();
        let key = served.key.clone();
        let kind = (key.cluster.clone(), served.graph.group_kind());
        state.endpoints.insert(kind, gvr);
        let hash = served.graph.spec_hash().to_owned();
        let reaching = format!("{:?}", served.reaching);
        let grant = served.grant.clone();
        let before = state.served.insert(key, served);
        before.is_none_or(|before| {
            before.graph.spec_hash() != hash
                || before.grant != grant
                || format!("{:?}", before.reaching) != reaching
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
    let source = engine.everywhere(&gvr);
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
        // Whoever holds a kind must be known, and be there, before anybody else may have it.
        claims::load(&worker).await;
        let mut listed = worker.definitions.listed.subscribe();
        // The sender lives as long as the engine.
        let _listed = listed.wait_for(|listed| *listed).await.is_ok();
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
            engine.definitions.listed.send_replace(true);
            let mut left = std::mem::take(&mut state.known);
            let mut objects = objects;
            objects.sort_by_cached_key(|object| precedence(object));
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

/// Sorts definitions that hold no kind yet: those of root first, then the oldest.
fn precedence(object: &RawObject) -> (bool, String, String) {
    let is_local = crate::instances::cluster_of(object).is_none_or(|cluster| !cluster.is_root());
    let value = object.value().unwrap_or_default();
    let created = value["metadata"]["creationTimestamp"].as_str();
    (
        is_local,
        created.unwrap_or_default().to_owned(),
        object.name.clone(),
    )
}

fn key_of(object: &RawObject) -> Option<DefinitionKey> {
    let cluster = crate::instances::cluster_of(object)?;
    Some(DefinitionKey {
        cluster,
        name: object.name.clone(),
    })
}
