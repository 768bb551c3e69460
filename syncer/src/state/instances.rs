//! All instances of the hub, as its watches delivered them.

use std::{collections::HashMap, sync::Arc};

use api::{GroupKind, GroupResource, GroupVersionResource, LogicalCluster, meta::is_newer};
use client::reflector::RawObject;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use tasks::Tasks;
use tokio_util::sync::CancellationToken;

use super::keys::InstanceKey;

/// All instances of the hub, over all logical clusters.
#[derive(Debug, Default)]
pub(crate) struct InstanceCache {
    // Guards the maps; never held across an await.
    state: Mutex<CacheState>,
}

#[derive(Debug, Default)]
struct CacheState {
    watches: HashMap<GroupVersionResource, Watch>,
    instances: HashMap<LogicalCluster, HashMap<InstanceKey, Held>>,
    /// What watches delivered of clusters where another definition rules, or none: it counts once that changes.
    aside: HashMap<GroupVersionResource, HashMap<(LogicalCluster, InstanceKey), Arc<RawObject>>>,
}

/// An instance that was put aside.
#[derive(Debug)]
pub(crate) struct Aside {
    /// The endpoint that it was read from.
    pub(crate) gvr: Arc<GroupVersionResource>,
    pub(crate) cluster: LogicalCluster,
    pub(crate) group_kind: GroupKind,
    pub(crate) object: Arc<RawObject>,
}

/// An instance, and the endpoint that it was read from.
#[derive(Debug)]
struct Held {
    gvr: Arc<GroupVersionResource>,
    object: Arc<RawObject>,
}

#[derive(Debug)]
struct Watch {
    token: CancellationToken,
    synced: bool,
}

// === impl InstanceCache ===

impl InstanceCache {
    /// Returns the instance of a key.
    pub(crate) fn get(
        &self,
        cluster: &LogicalCluster,
        key: &InstanceKey,
    ) -> Option<Arc<RawObject>> {
        let state = self.state.lock();
        let held = state.instances.get(cluster)?.get(key)?;
        Some(Arc::clone(&held.object))
    }

    /// Returns all instances of a logical cluster.
    pub(crate) fn of_cluster(
        &self,
        cluster: &LogicalCluster,
    ) -> Vec<(InstanceKey, Arc<RawObject>)> {
        let state = self.state.lock();
        let instances = state.instances.get(cluster).into_iter().flatten();
        instances
            .map(|(key, held)| (key.clone(), Arc::clone(&held.object)))
            .collect()
    }

    /// Returns all keys of a kind, with their clusters.
    pub(crate) fn of_kind(&self, group_kind: &GroupKind) -> Vec<(LogicalCluster, InstanceKey)> {
        let state = self.state.lock();
        let clusters = state.instances.iter();
        clusters
            .flat_map(|(cluster, instances)| {
                instances
                    .keys()
                    .map(move |key| (cluster.clone(), key.clone()))
            })
            .filter(|(_, key)| key.group_kind == *group_kind)
            .collect()
    }

    /// Takes up the answer to our own write, unless a newer one is there.
    pub(crate) fn answered(
        &self,
        cluster: &LogicalCluster,
        key: &InstanceKey,
        object: Arc<RawObject>,
    ) {
        let mut state = self.state.lock();
        if let Some(known) = state
            .instances
            .get_mut(cluster)
            .and_then(|instances| instances.get_mut(key))
            && is_newer(&object.resource_version, &known.object.resource_version)
        {
            known.object = object;
        }
    }

    /// Returns whether every watched endpoint has delivered its first list.
    pub(crate) fn synced(&self) -> bool {
        self.state.lock().watches.values().all(|watch| watch.synced)
    }

    /// Returns whether an endpoint is watched and has delivered its first list: who is not there then, is not.
    pub(crate) fn knows(&self, gvr: &GroupVersionResource) -> bool {
        let state = self.state.lock();
        state.watches.get(gvr).is_some_and(|watch| watch.synced)
    }

    /// Takes up an instance, unless a newer one is there. Returns whether that is work.
    pub(crate) fn put(
        &self,
        gvr: &Arc<GroupVersionResource>,
        cluster: &LogicalCluster,
        key: &InstanceKey,
        object: &Arc<RawObject>,
    ) -> bool {
        let mut state = self.state.lock();
        state.forget_aside(gvr, cluster, key);
        let instances = state.instances.entry(cluster.clone()).or_default();
        let known = instances.get(key).map(|held| &held.object);
        if known.is_some_and(|known| is_newer(&known.resource_version, &object.resource_version)) {
            return false;
        }
        let concerns = known.is_none_or(|known| concerns(known, object));
        let held = Held {
            gvr: Arc::clone(gvr),
            object: Arc::clone(object),
        };
        instances.insert(key.clone(), held);
        concerns
    }

    /// Keeps what a cluster's definition does not count.
    pub(crate) fn put_aside(
        &self,
        gvr: &GroupVersionResource,
        cluster: LogicalCluster,
        key: InstanceKey,
        object: Arc<RawObject>,
    ) {
        let mut state = self.state.lock();
        let aside = state.aside.entry(gvr.clone()).or_default();
        aside.insert((cluster, key), object);
    }

    /// Forgets an instance that an endpoint shows no longer. Returns whether it counted.
    pub(crate) fn remove(
        &self,
        gvr: &GroupVersionResource,
        cluster: &LogicalCluster,
        key: &InstanceKey,
        uid: &str,
    ) -> bool {
        let mut state = self.state.lock();
        state.forget_aside(gvr, cluster, key);
        if let Some(instances) = state.instances.get_mut(cluster)
            && let Some(held) = instances.get(key)
            && held.object.uid == uid
            && *held.gvr == *gvr
        {
            instances.remove(key);
            return true;
        }
        false
    }

    /// Returns all that was read from an endpoint.
    pub(crate) fn of_endpoint(
        &self,
        gvr: &GroupVersionResource,
    ) -> Vec<(LogicalCluster, InstanceKey, String)> {
        let state = self.state.lock();
        let counted = state.instances.iter().flat_map(|(cluster, instances)| {
            instances
                .iter()
                .filter(|(_, held)| *held.gvr == *gvr)
                .map(move |(key, held)| (cluster.clone(), key.clone(), held.object.uid.clone()))
        });
        let aside = state.aside.get(gvr).into_iter().flatten();
        let aside = aside
            .map(|((cluster, key), object)| (cluster.clone(), key.clone(), object.uid.clone()));
        counted.chain(aside).collect()
    }

    /// Notes that an endpoint is watched. Returns what ends the watch, unless there is one.
    pub(crate) fn begin_watch(
        &self,
        gvr: &GroupVersionResource,
        tasks: &Tasks,
    ) -> Option<CancellationToken> {
        let mut state = self.state.lock();
        if state.watches.contains_key(gvr) {
            return None;
        }
        let token = tasks.child_token();
        let watch = Watch {
            token: token.clone(),
            synced: false,
        };
        state.watches.insert(gvr.clone(), watch);
        Some(token)
    }

    /// Notes that an endpoint has delivered its first list.
    pub(crate) fn set_synced(&self, gvr: &GroupVersionResource) {
        if let Some(watch) = self.state.lock().watches.get_mut(gvr) {
            watch.synced = true;
        }
    }

    /// Returns the endpoints that are watched.
    pub(crate) fn watched(&self) -> Vec<GroupVersionResource> {
        self.state.lock().watches.keys().cloned().collect()
    }

    /// Ends the watch of an endpoint, unless there is an instance that was read from it.
    pub(crate) fn end_watch_if_unused(&self, gvr: &GroupVersionResource) {
        let mut state = self.state.lock();
        let mut held = state.instances.values().flat_map(HashMap::values);
        if held.any(|held| *held.gvr == *gvr) {
            return;
        }
        state.aside.remove(gvr);
        if let Some(watch) = state.watches.remove(gvr) {
            watch.token.cancel();
        }
    }

    /// Returns what was put aside of a resource, with the endpoint that it was read from.
    pub(crate) fn aside(&self, resource: &GroupResource) -> Vec<Aside> {
        let state = self.state.lock();
        let of_resource = state
            .aside
            .iter()
            .filter(|(gvr, _)| gvr.group_resource() == *resource);
        let objects = of_resource.flat_map(|(gvr, objects)| {
            let gvr = Arc::new(gvr.clone());
            objects.iter().map(move |((cluster, key), object)| Aside {
                gvr: Arc::clone(&gvr),
                cluster: cluster.clone(),
                group_kind: key.group_kind.clone(),
                object: Arc::clone(object),
            })
        });
        objects.collect()
    }
}

// === impl CacheState ===

impl CacheState {
    fn forget_aside(
        &mut self,
        gvr: &GroupVersionResource,
        cluster: &LogicalCluster,
        key: &InstanceKey,
    ) {
        // Nearly always empty: nothing is made to be looked up then.
        if let Some(aside) = self.aside.get_mut(gvr) {
            aside.remove(&(cluster.clone(), key.clone()));
            if aside.is_empty() {
                self.aside.remove(gvr);
            }
        }
    }
}

/// Returns whether a change of an instance is work: its own status is not.
fn concerns(known: &RawObject, object: &RawObject) -> bool {
    known.uid != object.uid
        || known.generation != object.generation
        || known.deletion_timestamp != object.deletion_timestamp
        || known.labels != object.labels
        || !annotations(known).eq(annotations(object))
        || known.finalizers != object.finalizers
        // The same version under another schema.
        || (known.resource_version == object.resource_version
            && known.raw().get() != object.raw().get()
            && !is_same(known, object))
}

/// The annotations that an object has in its own cluster: a watch of all clusters adds the name of the cluster.
fn annotations(object: &RawObject) -> impl Iterator<Item = (&String, &String)> {
    let annotations = object.annotations.iter();
    annotations.filter(|(key, _)| *key != api::cluster::ANNOTATION)
}

/// The parts of an object that its schema forms, as they were written.
#[derive(Deserialize)]
struct Formed<'a> {
    #[serde(borrow, default)]
    spec: Option<&'a RawValue>,
    #[serde(borrow, default)]
    status: Option<&'a RawValue>,
}

/// Returns whether an answer and an event say the same of an object in one version: only another schema makes a difference.
fn is_same(known: &RawObject, object: &RawObject) -> bool {
    let formed = |object| RawObject::part::<Formed<'_>>(object).ok();
    let is_same_text = known.type_meta == object.type_meta
        && formed(known)
            .zip(formed(object))
            .is_some_and(|(known, object)| {
                known.spec.map(RawValue::get) == object.spec.map(RawValue::get)
                    && known.status.map(RawValue::get) == object.status.map(RawValue::get)
            });
    is_same_text
        || matches!((instance_of(known), instance_of(object)), (Ok(known), Ok(object)) if known == object)
}

/// Parses an instance as its own cluster has it, without what a watch of all clusters adds: expressions may read all annotations.
pub(crate) fn instance_of(object: &RawObject) -> Result<Value, serde_json::Error> {
    let mut instance = object.value()?;
    api::meta::remove_annotation(&mut instance, api::cluster::ANNOTATION);
    Ok(instance)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::raw;

    fn object(version: &str, change: impl Fn(&mut Value)) -> Arc<RawObject> {
        let mut object = json!({
            "apiVersion": "kro.run/v1", "kind": "App",
            "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": version, "generation": 1},
        });
        change(&mut object);
        raw(&object)
    }

    #[test]
    fn what_an_answer_said_is_no_work_when_the_watch_says_it() {
        let of_watch = |it: &mut Value| {
            it["metadata"]["annotations"][api::cluster::ANNOTATION] = json!("east");
        };
        let annotated = |it: &mut Value| it["metadata"]["annotations"]["a"] = json!("c");
        let status = |it: &mut Value| it["status"] = json!({"x": 1});
        let generation = |it: &mut Value| it["metadata"]["generation"] = json!(2);
        // (what the watch says after an answer of version 5, whether it is work)
        let cases = [
            ("the same", object("5", |_| {}), false),
            ("the same, with its cluster", object("5", of_watch), false),
            (
                "the same version by another schema",
                object("5", status),
                true,
            ),
            ("its status", object("6", status), false),
            ("its spec", object("6", generation), true),
            ("an annotation", object("6", annotated), true),
        ];
        for (name, event, want) in cases {
            assert_eq!(concerns(&object("5", |_| {}), &event), want, "{name}");
        }
    }

    #[test]
    fn an_instance_has_the_annotations_of_its_own_cluster() {
        for (own, want) in [
            (json!({}), json!(null)),
            (json!({"a": "b"}), json!({"a": "b"})),
        ] {
            let told = object("5", |it| {
                it["metadata"]["annotations"] = own.clone();
                it["metadata"]["annotations"][api::cluster::ANNOTATION] = json!("east");
            });
            let instance = instance_of(&told).expect("an object");
            assert_eq!(instance["metadata"]["annotations"], want, "{own}");
        }
    }
}
