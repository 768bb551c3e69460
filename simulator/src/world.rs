//! What the simulator has seen of one cluster.

use std::{collections::BTreeMap, sync::Arc};

use api::{GroupVersionResource, meta::is_newer};
use client::reflector::{Event, RawObject};
use serde_json::Value;

use crate::clusters;

/// The kinds that are simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Deployment,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    Job,
    Pod,
    Claim,
    Service,
}

/// All objects of these kinds, by namespace and name.
#[derive(Debug, Default)]
pub(crate) struct World {
    objects: BTreeMap<Kind, BTreeMap<(String, String), Arc<Value>>>,
}

// === impl Kind ===

impl Kind {
    pub(crate) const ALL: [Self; 8] = [
        Self::Deployment,
        Self::ReplicaSet,
        Self::StatefulSet,
        Self::DaemonSet,
        Self::Job,
        Self::Pod,
        Self::Claim,
        Self::Service,
    ];

    /// Returns the endpoint.
    pub(crate) fn gvr(self) -> GroupVersionResource {
        let (group, resource) = match self {
            Self::Deployment => ("apps", "deployments"),
            Self::ReplicaSet => ("apps", "replicasets"),
            Self::StatefulSet => ("apps", "statefulsets"),
            Self::DaemonSet => ("apps", "daemonsets"),
            Self::Job => ("batch", "jobs"),
            Self::Pod => ("", "pods"),
            Self::Claim => ("", "persistentvolumeclaims"),
            Self::Service => ("", "services"),
        };
        GroupVersionResource::new(group, "v1", resource)
    }

    /// Returns the name of the kind as an owner reference has it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Deployment => "Deployment",
            Self::ReplicaSet => "ReplicaSet",
            Self::StatefulSet => "StatefulSet",
            Self::DaemonSet => "DaemonSet",
            Self::Job => "Job",
            Self::Pod => "Pod",
            Self::Claim => "PersistentVolumeClaim",
            Self::Service => "Service",
        }
    }
}

// === impl World ===

impl World {
    /// Takes up an event of a watch.
    pub(crate) fn take(&mut self, kind: Kind, event: Event) {
        let parsed = |object: &RawObject| object.value().ok().map(Arc::new);
        match event {
            Event::Restarted { objects, .. } => {
                let fresh = objects.iter().filter_map(|object| parsed(object));
                self.objects
                    .insert(kind, fresh.map(|object| (key(&object), object)).collect());
            }
            Event::Applied(object) => {
                if let Some(object) = parsed(&object) {
                    self.put(kind, object);
                }
            }
            Event::Deleted(object) => {
                if let Some(object) = parsed(&object) {
                    self.remove(kind, &object);
                }
            }
            Event::Interrupted(_) | Event::Resumed => {}
        }
    }

    /// Returns whether every kind has been listed.
    pub(crate) fn synced(&self) -> bool {
        self.objects.len() == Kind::ALL.len()
    }

    /// Takes up an object, unless a newer one is there.
    pub(crate) fn put(&mut self, kind: Kind, object: Arc<Value>) {
        let objects = self.objects.entry(kind).or_default();
        let key = key(&object);
        let version = api::meta::resource_version(&object);
        let stale = objects
            .get(&key)
            .is_some_and(|known| is_newer(api::meta::resource_version(known), version));
        if !stale {
            objects.insert(key, object);
        }
    }

    /// Forgets an object, if it is still that one.
    pub(crate) fn remove(&mut self, kind: Kind, object: &Value) {
        let objects = self.objects.entry(kind).or_default();
        let key = key(object);
        if objects
            .get(&key)
            .is_some_and(|known| api::meta::uid(known) == api::meta::uid(object))
        {
            objects.remove(&key);
        }
    }

    /// Returns all objects of a kind that are not being deleted.
    pub(crate) fn living(&self, kind: Kind) -> impl Iterator<Item = &Value> {
        self.all(kind)
            .filter(|object| !api::meta::is_terminating(object))
    }

    /// Returns the living objects of a kind that nobody else makes ready.
    pub(crate) fn simulated(&self, kind: Kind) -> impl Iterator<Item = &Value> {
        self.living(kind)
            .filter(|object| !clusters::is_left_alone(object))
    }

    /// Returns all objects of a kind.
    pub(crate) fn all(&self, kind: Kind) -> impl Iterator<Item = &Value> {
        self.objects
            .get(&kind)
            .into_iter()
            .flat_map(BTreeMap::values)
            .map(AsRef::as_ref)
    }

    /// Returns the living objects of a kind whose controller is an object.
    pub(crate) fn owned<'w>(
        &'w self,
        kind: Kind,
        owner: &'w Value,
    ) -> impl Iterator<Item = &'w Value> {
        let uid = api::meta::uid(owner);
        self.living(kind).filter(move |object| {
            api::meta::controller_of(object).is_some_and(|reference| reference.uid == uid)
        })
    }
}

fn key(object: &Value) -> (String, String) {
    (
        api::meta::namespace(object).to_owned(),
        api::meta::name(object).to_owned(),
    )
}
