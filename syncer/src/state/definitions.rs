//! All definitions of the hub: as the watch delivered them, and what is served of them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use api::{GroupKind, GroupVersionResource, LogicalCluster};
use client::reflector::RawObject;
use graph::CompiledGraph;
use parking_lot::RwLock;
use tokio::sync::watch;

use super::{
    kind_claims::KindClaims,
    served::{DefinitionKey, Served},
    target::Target,
};

/// All definitions of the hub.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    // Guards the maps; never held across an await. Taken before the state of claims.
    state: RwLock<State>,
    /// Whether all of them are known.
    listed: watch::Sender<bool>,
    /// Who holds which kind.
    pub(crate) claims: KindClaims,
}

#[derive(Debug, Default)]
struct State {
    known: HashMap<DefinitionKey, Arc<RawObject>>,
    served: ServedDefinitions,
    /// Endpoints of kinds that were served since the start, by the cluster of their definition.
    endpoints: HashMap<(LogicalCluster, GroupKind), GroupVersionResource>,
    /// With which clusters' schemas each definition compiled last.
    views: HashMap<DefinitionKey, u64>,
    /// What each definition compiled to last.
    compiled: HashMap<DefinitionKey, Compiled>,
    /// Definitions that name a kind which their cluster does not serve, and how often that was found.
    unresolved: HashMap<DefinitionKey, u32>,
    /// Labels of spokes, which selectors look at.
    spoke_labels: HashMap<LogicalCluster, BTreeMap<String, String>>,
}

/// What is served of definitions, and what is found by: nothing is looked for among all of them.
#[derive(Debug, Default)]
struct ServedDefinitions {
    by_key: BTreeMap<DefinitionKey, Arc<Served>>,
    /// Those that serve a kind, each in clusters of its own.
    by_kind: BTreeMap<GroupKind, BTreeSet<DefinitionKey>>,
    /// How many serve at an endpoint.
    endpoints: HashMap<GroupVersionResource, usize>,
}

/// What a definition compiled to.
#[derive(Debug)]
struct Compiled {
    from: CompiledFrom,
    graph: Arc<CompiledGraph>,
}

/// Identifies all that a definition is compiled from: its text, its name, the switches and the schemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CompiledFrom(pub(crate) [u8; 32]);

// === impl ServedDefinitions ===

impl ServedDefinitions {
    fn get(&self, key: &DefinitionKey) -> Option<&Arc<Served>> {
        self.by_key.get(key)
    }

    /// Returns what is served, by the definitions' keys.
    fn all(&self) -> impl Iterator<Item = &Arc<Served>> {
        self.by_key.values()
    }

    /// Returns what serves a kind, by the definitions' keys.
    fn of_kind(&self, kind: &GroupKind) -> impl Iterator<Item = &Arc<Served>> + Clone {
        let keys = self.by_kind.get(kind).into_iter().flatten();
        keys.filter_map(|key| self.by_key.get(key))
    }

    fn has_endpoint(&self, gvr: &GroupVersionResource) -> bool {
        self.endpoints.contains_key(gvr)
    }

    /// Puts what is served of a definition in the place of what was.
    fn insert(&mut self, served: Arc<Served>) -> Option<Arc<Served>> {
        let before = self.remove(&served.key);
        let (key, graph) = (served.key.clone(), &served.graph);
        let of_kind = self.by_kind.entry(graph.group_kind().clone()).or_default();
        of_kind.insert(key.clone());
        *self.endpoints.entry(graph.gvr().clone()).or_default() += 1;
        self.by_key.insert(key, served);
        before
    }

    fn remove(&mut self, key: &DefinitionKey) -> Option<Arc<Served>> {
        let removed = self.by_key.remove(key)?;
        let (kind, gvr) = (removed.graph.group_kind(), removed.graph.gvr());
        if let Some(of_kind) = self.by_kind.get_mut(kind) {
            of_kind.remove(key);
            if of_kind.is_empty() {
                self.by_kind.remove(kind);
            }
        }
        if let Some(count) = self.endpoints.get_mut(gvr) {
            *count -= 1;
            if *count == 0 {
                self.endpoints.remove(gvr);
            }
        }
        Some(removed)
    }
}

// === impl Definitions ===

impl Definitions {
    /// Returns the definition as the hub's watch last delivered it.
    pub(crate) fn known(&self, key: &DefinitionKey) -> Option<Arc<RawObject>> {
        self.state.read().known.get(key).cloned()
    }

    /// Returns whether every definition of the hub is known: who is not there then, is not.
    pub(crate) fn listed(&self) -> bool {
        *self.listed.borrow()
    }

    /// Lets everyone go on who waits for all definitions to be known.
    pub(crate) fn set_listed(&self) {
        self.listed.send_replace(true);
    }

    /// Waits until every definition of the hub is known.
    pub(crate) async fn wait_until_listed(&self) {
        let mut listed = self.listed.subscribe();
        // The sender lives as long as the definitions.
        let _listed = listed.wait_for(|listed| *listed).await.is_ok();
    }

    /// Notes all definitions that there are. Returns the keys of those that are gone.
    pub(crate) fn note_all(
        &self,
        objects: Vec<(DefinitionKey, Arc<RawObject>)>,
    ) -> Vec<DefinitionKey> {
        let mut state = self.state.write();
        let mut left = std::mem::take(&mut state.known);
        for (key, object) in objects {
            left.remove(&key);
            state.known.insert(key, object);
        }
        state.compiled.retain(|key, _| !left.contains_key(key));
        left.into_keys().collect()
    }

    /// Notes a definition as it is now. Returns how it was before.
    pub(crate) fn note(
        &self,
        key: DefinitionKey,
        object: Arc<RawObject>,
    ) -> Option<Arc<RawObject>> {
        self.state.write().known.insert(key, object)
    }

    /// Forgets a definition that is gone.
    pub(crate) fn forget(&self, key: &DefinitionKey) {
        let mut state = self.state.write();
        state.known.remove(key);
        state.unresolved.remove(key);
        state.compiled.remove(key);
    }

    /// Returns the keys of all definitions.
    pub(crate) fn keys(&self) -> Vec<DefinitionKey> {
        self.state.read().known.keys().cloned().collect()
    }

    /// Returns what is served of a definition.
    pub(crate) fn served(&self, key: &DefinitionKey) -> Option<Arc<Served>> {
        self.state.read().served.get(key).cloned()
    }

    /// Returns whether a definition is served as it is here, and not later.
    pub(crate) fn is_served(&self, served: &Arc<Served>) -> bool {
        let state = self.state.read();
        let latest = state.served.get(&served.key);
        latest.is_some_and(|latest| latest.graph.spec_hash() == served.graph.spec_hash())
    }

    /// Returns all that is served in a target.
    pub(crate) fn served_in(&self, target: &Target) -> Vec<Arc<Served>> {
        let mut served = self.meant_for(target);
        if self.claims.has_holders(&target.cluster) {
            served.retain(|served| self.kept_out(target, served).is_none());
        }
        served
    }

    /// Returns whether a definition is among what is served in a target.
    pub(crate) fn is_served_in(&self, target: &Target, key: &DefinitionKey) -> bool {
        let served = self.state.read().served.get(key).cloned();
        served.is_some_and(|served| {
            self.is_meant_for(target, &served) && self.kept_out(target, &served).is_none()
        })
    }

    /// Returns the definition that serves a kind in a target, or is about to.
    pub(crate) fn serving(&self, target: &Target, group_kind: &GroupKind) -> Option<Arc<Served>> {
        let of_kind: Vec<_> = {
            let state = self.state.read();
            state.served.of_kind(group_kind).cloned().collect()
        };
        let mut of_kind = of_kind.into_iter();
        of_kind.find(|served| {
            self.is_meant_for(target, served) && self.kept_out(target, served).is_none()
        })
    }

    fn is_meant_for(&self, target: &Target, served: &Served) -> bool {
        let state = self.state.read();
        let none = BTreeMap::new();
        let labels = state.spoke_labels.get(&target.cluster).unwrap_or(&none);
        served.is_for(&target.cluster, labels)
    }

    /// Returns all that is for a target, also where another definition holds the kind there.
    pub(crate) fn meant_for(&self, target: &Target) -> Vec<Arc<Served>> {
        let state = self.state.read();
        let none = BTreeMap::new();
        let labels = state.spoke_labels.get(&target.cluster).unwrap_or(&none);
        state
            .served
            .all()
            .filter(|served| served.is_for(&target.cluster, labels))
            .cloned()
            .collect()
    }

    /// Returns the local definition that keeps one of root out of its cluster: it held the kind there first.
    pub(crate) fn kept_out(&self, target: &Target, served: &Served) -> Option<DefinitionKey> {
        if served.key.cluster == target.cluster {
            return None;
        }
        self.claims.holder(&target.cluster, &served.resource())
    }

    /// Returns the definition that serves a kind in a logical cluster: the one that holds it there, or else one of root.
    pub(crate) fn lookup(
        &self,
        cluster: &LogicalCluster,
        group_kind: &GroupKind,
    ) -> Option<Arc<Served>> {
        let state = self.state.read();
        let mut same = state.served.of_kind(group_kind);
        let own = same.clone().find(|served| served.key.cluster == *cluster);
        if own.is_some() {
            return own.cloned();
        }
        let of_root = same.find(|served| served.key.cluster.is_root())?;
        // A local definition that holds the kind and is not served yet is waited for.
        let is_held = self.claims.holder(cluster, &of_root.resource()).is_some();
        (!is_held).then(|| Arc::clone(of_root))
    }

    /// Returns the endpoint at which a kind is served in a logical cluster, or was last served there: a definition that is gone
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

    /// Returns whether a definition serves its kind at an endpoint.
    pub(crate) fn has_endpoint(&self, gvr: &GroupVersionResource) -> bool {
        self.state.read().served.has_endpoint(gvr)
    }

    /// Serves a definition from now on. Returns whether that is new or another revision than before.
    pub(crate) fn publish(&self, served: Arc<Served>) -> bool {
        let mut state = self.state.write();
        let gvr = served.graph.gvr().clone();
        let kind = served.graph.group_kind().clone();
        let kind = (served.key.cluster.clone(), kind);
        state.endpoints.insert(kind, gvr);
        let hash = served.graph.spec_hash().to_owned();
        let revision = served.revision;
        let reaching = format!("{:?}", served.reaching);
        let grant = served.grant.clone();
        let before = state.served.insert(served);
        before.is_none_or(|before| {
            before.graph.spec_hash() != hash
                || before.revision != revision
                || before.grant != grant
                || format!("{:?}", before.reaching) != reaching
        })
    }

    /// No longer serves a definition.
    pub(crate) fn withdraw(&self, key: &DefinitionKey) -> Option<Arc<Served>> {
        let mut state = self.state.write();
        state.compiled.remove(key);
        state.served.remove(key)
    }

    /// Returns with which view of the receiving clusters' schemas a definition compiled last.
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

    /// Returns what a definition compiled to last, if it was from the same.
    pub(crate) fn compiled(
        &self,
        key: &DefinitionKey,
        from: CompiledFrom,
    ) -> Option<Arc<CompiledGraph>> {
        let state = self.state.read();
        let last = state.compiled.get(key).filter(|last| last.from == from);
        last.map(|last| Arc::clone(&last.graph))
    }

    /// Notes what a definition compiled to.
    pub(crate) fn note_compiled(
        &self,
        key: &DefinitionKey,
        from: CompiledFrom,
        graph: Arc<CompiledGraph>,
    ) {
        let mut state = self.state.write();
        let compiled = Compiled { from, graph };
        state.compiled.insert(key.clone(), compiled);
    }

    /// Notes that a definition names a kind which its cluster does not serve. Returns how often that was found, in a row.
    pub(crate) fn note_unresolved(&self, key: &DefinitionKey) -> u32 {
        let mut state = self.state.write();
        let count = state.unresolved.entry(key.clone()).or_default();
        *count = count.saturating_add(1);
        *count
    }

    /// Notes that a definition names no such kind, or none any more.
    pub(crate) fn note_resolved(&self, key: &DefinitionKey) {
        self.state.write().unresolved.remove(key);
    }

    /// Returns the definitions that may name a kind which a cluster has just begun to serve.
    pub(crate) fn unresolved(&self, cluster: &LogicalCluster) -> Vec<DefinitionKey> {
        let state = self.state.read();
        let waiting = state.unresolved.keys();
        let concerned = waiting.filter(|key| key.cluster.is_root() || key.cluster == *cluster);
        concerned.cloned().collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::served;

    fn kind(name: &str) -> GroupKind {
        GroupKind::new("kro.run", name)
    }

    /// What a definition of this name and cluster serves.
    fn of(name: &str, cluster: &LogicalCluster, kind: &str) -> Arc<Served> {
        let mut served = served(kind);
        served.key = DefinitionKey {
            cluster: cluster.clone(),
            name: name.to_owned(),
        };
        Arc::new(served)
    }

    #[test]
    fn a_definition_is_found_by_the_kind_that_it_serves_now() {
        let (definitions, root) = (Definitions::default(), LogicalCluster::root());
        definitions.publish(of("one", &root, "Widget"));
        definitions.publish(of("one", &root, "Gadget"));
        let found = |name: &str| definitions.lookup(&root, &kind(name)).is_some();
        assert!(found("Gadget"), "it serves that now");
        assert!(!found("Widget"), "it does not serve that any more");
        let widgets = served("Widget").graph.gvr().clone();
        assert!(!definitions.has_endpoint(&widgets), "nor its endpoint");
    }

    #[test]
    fn a_clusters_own_definition_is_found_before_that_of_root() {
        let definitions = Definitions::default();
        let (root, east): (_, LogicalCluster) = (LogicalCluster::root(), "east".parse().unwrap());
        definitions.publish(of("of-root", &root, "Widget"));
        definitions.publish(of("of-east", &east, "Widget"));
        let name = |cluster: &LogicalCluster| {
            let found = definitions.lookup(cluster, &kind("Widget"));
            found.map(|served| served.key.name.clone())
        };
        assert_eq!(name(&east).as_deref(), Some("of-east"), "its own");
        assert_eq!(name(&root).as_deref(), Some("of-root"), "root's in root");
        let gvr = served("Widget").graph.gvr().clone();
        for (withdrawn, is_left) in [("of-east", true), ("of-root", false)] {
            let cluster = if withdrawn == "of-east" { &east } else { &root };
            definitions.withdraw(&of(withdrawn, cluster, "Widget").key);
            assert_eq!(
                definitions.has_endpoint(&gvr),
                is_left,
                "{withdrawn} is withdrawn"
            );
        }
        assert_eq!(name(&east), None, "none is left");
    }
}
