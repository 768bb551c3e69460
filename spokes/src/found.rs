//! Secrets of root that are clusters: those with the labels of multicluster-runtime, and those of Cluster API.
//!
//! Only Secrets of namespaces that the operator named count. A label alone makes no cluster of a Secret that anybody may write.

use std::{collections::BTreeMap, sync::Arc};

use api::{
    LogicalCluster,
    wheelhouse::{Connection, Provider, SecretKeyReference, keys},
};
use client::reflector::{Event, RawObject};

use crate::sightings::{Sighting, Sightings, Source, SourceSort};

/// What of a Secret says whether it is a cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head<'s> {
    pub(crate) name: &'s str,
    pub(crate) type_: &'s str,
    /// Looks up a label.
    pub(crate) runtime: Option<&'s str>,
    pub(crate) cluster_name: Option<&'s str>,
}

/// Follows the objects of one source, each of which may be a cluster.
#[derive(Debug)]
pub(crate) struct SourceWatch {
    source: Source,
    sightings: Arc<Sightings>,
    /// By the name of the object.
    seen: BTreeMap<String, (LogicalCluster, Sighting)>,
}

/// A cluster that an object is, with the name that it asks for.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) name: String,
    pub(crate) sighting: Sighting,
}

/// Returns the name of the cluster that a Secret of a sort is the credential of, and the key that has it.
pub(crate) fn cluster_of<'s>(sort: SourceSort, head: &Head<'s>) -> Option<(&'s str, &'static str)> {
    match sort {
        SourceSort::MulticlusterRuntime => {
            (head.runtime == Some("true")).then_some((head.name, keys::SECRET_KEY_KUBECONFIG))
        }
        SourceSort::ClusterApi => {
            let name = head.name.strip_suffix(keys::CLUSTER_API_SECRET_SUFFIX)?;
            let is_one =
                head.type_ == keys::CLUSTER_API_SECRET_TYPE && head.cluster_name == Some(name);
            is_one.then_some((name, keys::CLUSTER_API_SECRET_KEY))
        }
        SourceSort::KubeconfigFile | SourceSort::ClusterProfile => None, // no Secret is one
    }
}

// === impl SourceWatch ===

impl SourceWatch {
    pub(crate) fn new(source: Source, sightings: &Arc<Sightings>) -> Self {
        Self {
            source,
            sightings: Arc::clone(sightings),
            seen: BTreeMap::new(),
        }
    }

    /// Takes up an event of the watch. An object that somebody wants gone is no cluster, whatever it says.
    pub(crate) fn take(&mut self, event: &Event, judge: impl Fn(&RawObject) -> Option<Found>) {
        match event {
            Event::Restarted { objects, .. } => {
                self.seen.clear();
                for object in objects {
                    self.note(object, &judge);
                }
            }
            Event::Applied(object) => {
                let before = self.seen.remove(&object.name);
                self.note(object, &judge);
                if before.as_ref() == self.seen.get(&object.name) {
                    return; // what the object holds is the connection's to look at
                }
            }
            Event::Deleted(object) => {
                self.seen.remove(&object.name);
            }
            Event::Interrupted(_) | Event::Resumed => return,
        }
        let mut seen: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (cluster, sighting) in self.seen.values() {
            let sightings = seen.entry(cluster.clone()).or_default();
            sightings.push(sighting.clone());
        }
        self.sightings.replace(&self.source, seen);
    }

    fn note(&mut self, object: &RawObject, judge: impl Fn(&RawObject) -> Option<Found>) {
        if object.deletion_timestamp.is_some() {
            return;
        }
        let Some(Found { name, sighting }) = judge(object) else {
            return;
        };
        let Some(cluster) = spoke_name(&name) else {
            let item = sighting.item;
            tracing::warn!(
                item,
                name,
                "a cluster was found that no Spoke can be named after"
            );
            return;
        };
        self.seen.insert(object.name.clone(), (cluster, sighting));
    }
}

/// Returns the cluster that a Secret of a source is the credential of.
pub(crate) fn of_secret(source: &Source, object: &RawObject) -> Option<Found> {
    let value = object.value().unwrap_or_default();
    let label = |key: &str| object.labels.get(key).map(String::as_str);
    let head = Head {
        name: &object.name,
        type_: value["type"].as_str().unwrap_or_default(),
        runtime: label(keys::LABEL_RUNTIME_KUBECONFIG)
            .or_else(|| label(keys::LABEL_RUNTIME_CLUSTER)),
        cluster_name: label(keys::LABEL_CLUSTER_API_NAME),
    };
    let (name, key) = cluster_of(source.sort, &head)?;
    let reference = SecretKeyReference {
        namespace: source.place.clone(),
        name: object.name.clone(),
        key: key.to_owned(),
    };
    let sighting = Sighting {
        item: format!("Secret {}/{}", source.place, object.name),
        provider: Provider::Kubeconfig,
        connection: Some(Connection {
            secret_ref: Some(reference),
            ..Connection::default()
        }),
    };
    let name = name.to_owned();
    Some(Found { name, sighting })
}

/// Returns the logical cluster of a name; `None` for what no Spoke may be called.
fn spoke_name(name: &str) -> Option<LogicalCluster> {
    let cluster: LogicalCluster = name.parse().ok()?;
    (!cluster.is_root()).then_some(cluster)
}

#[cfg(test)]
mod tests {
    use SourceSort::{ClusterApi, MulticlusterRuntime};
    use serde_json::{Value, json};

    use super::*;

    fn secret(name: &str, type_: &str, labels: &Value) -> Arc<RawObject> {
        let object =
            json!({"metadata": {"namespace": "n", "name": name, "labels": labels}, "type": type_});
        Arc::new(RawObject::from_value(&object).expect("an object"))
    }

    fn watch(sort: SourceSort) -> (Arc<Sightings>, impl FnMut(Event)) {
        let sightings: Arc<Sightings> = Arc::default();
        let place = "n".to_owned();
        let source = Source { sort, place };
        let mut watch = SourceWatch::new(source.clone(), &sightings);
        let take = move |event| watch.take(&event, |object| of_secret(&source, object));
        (sightings, take)
    }

    #[test]
    fn a_secret_is_a_cluster_by_the_contract_of_its_source_alone() {
        let runtime = json!({keys::LABEL_RUNTIME_KUBECONFIG: "true"});
        let older = json!({keys::LABEL_RUNTIME_CLUSTER: "true"});
        let capi = |name: &str| json!({keys::LABEL_CLUSTER_API_NAME: name});
        let typed = keys::CLUSTER_API_SECRET_TYPE;
        for (sort, name, type_, labels, want) in [
            (
                MulticlusterRuntime,
                "east",
                "Opaque",
                &runtime,
                Some("east"),
            ),
            (MulticlusterRuntime, "east", "Opaque", &older, Some("east")),
            (MulticlusterRuntime, "east", "Opaque", &json!({}), None),
            (
                MulticlusterRuntime,
                "east",
                "Opaque",
                &json!({keys::LABEL_RUNTIME_KUBECONFIG: "false"}),
                None,
            ),
            (MulticlusterRuntime, "root", "Opaque", &runtime, None),
            (MulticlusterRuntime, "a.b", "Opaque", &runtime, None),
            (
                ClusterApi,
                "east-kubeconfig",
                typed,
                &capi("east"),
                Some("east"),
            ),
            (ClusterApi, "east-kubeconfig", "Opaque", &capi("east"), None),
            (ClusterApi, "east-kubeconfig", typed, &capi("west"), None),
            (ClusterApi, "east-ca", typed, &capi("east"), None),
            (ClusterApi, "east-kubeconfig", typed, &runtime, None),
            (
                MulticlusterRuntime,
                "east-kubeconfig",
                typed,
                &capi("east"),
                None,
            ),
        ] {
            let (sightings, mut take) = watch(sort);
            take(Event::Restarted {
                objects: vec![secret(name, type_, labels)],
                resource_version: "1".to_owned(),
                latest_as_of: None,
            });
            let names: Vec<String> = sightings.names().iter().map(ToString::to_string).collect();
            let want: Vec<&str> = want.into_iter().collect();
            assert_eq!(names, want, "{sort:?} {name} {type_} {labels}");
        }
    }

    #[test]
    fn a_secret_that_goes_or_loses_its_label_is_a_cluster_no_more() {
        let runtime = json!({keys::LABEL_RUNTIME_KUBECONFIG: "true"});
        let (sightings, mut take) = watch(MulticlusterRuntime);
        let count = || sightings.names().len();
        let east = secret("east", "Opaque", &runtime);
        take(Event::Applied(Arc::clone(&east)));
        assert_eq!(count(), 1);
        take(Event::Interrupted("away".to_owned()));
        assert_eq!(count(), 1, "silence says nothing");
        take(Event::Applied(secret("east", "Opaque", &json!({}))));
        assert_eq!(count(), 0, "it lost its label");
        take(Event::Applied(Arc::clone(&east)));
        take(Event::Deleted(east));
        assert_eq!(count(), 0, "it is gone");
        let going = json!({"metadata": {"namespace": "n", "name": "east", "labels": runtime,
            "deletionTimestamp": "2026-01-01T00:00:00Z"}});
        let going = RawObject::from_value(&going).expect("an object");
        take(Event::Applied(Arc::new(going)));
        assert_eq!(count(), 0, "it is going");
    }
}
