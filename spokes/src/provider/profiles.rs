//! Clusters of ClusterProfiles: the credential comes from a plug-in of the operator, which the profile selects by name.
//!
//! Only the profiles of namespaces that the operator named count: where a credential is sent is said by whoever writes them.
//!
//! Source: KEP-4322, KEP-5339.

use std::sync::Arc;

use api::{
    GroupVersionResource, LogicalCluster, inventory,
    wheelhouse::{self, ClusterProfileReference, Connection, Spoke, keys},
};
use client::{
    Dynamic, Endpoint,
    reflector::{self, Event, RawObject},
};
use futures::future::BoxFuture;
use tasks::Tasks;

use super::{Answer, Concerned, Provider};
use crate::{
    access::Access,
    dialer::{Credential, Dialer, Policy},
    fault::Fault,
    found::{Found, SourceWatch},
    inventory::Way,
    plugin::Issuer,
    sightings::{Sighting, Sightings, Source, SourceSort},
};

/// The provider of clusters of ClusterProfiles.
pub(super) struct ClusterProfiles {
    hub: Dynamic,
    dialer: Dialer,
    sightings: Arc<Sightings>,
    issuer: Arc<Issuer>,
}

// === impl ClusterProfiles ===

impl ClusterProfiles {
    pub(super) fn new(
        hub: &Dynamic,
        dialer: &Dialer,
        sightings: &Arc<Sightings>,
        issuer: &Arc<Issuer>,
    ) -> Self {
        Self {
            hub: hub.clone(),
            dialer: dialer.clone(),
            sightings: Arc::clone(sightings),
            issuer: Arc::clone(issuer),
        }
    }

    async fn read(&self, spoke: &LogicalCluster, object: &Spoke) -> Answer {
        let Some(reference) = reference(object) else {
            return Ok(Err(Fault::NoProfileReference));
        };
        let place = format!("{}/{}", reference.namespace, reference.name);
        let policy = self.dialer.policy();
        if !policy
            .cluster_profile_namespaces
            .contains(&reference.namespace)
        {
            return Ok(Err(Fault::ProfileNotRead { place }));
        }
        let endpoint = profiles(&reference.namespace);
        let profile = match self.hub.get(&endpoint, &reference.name).await {
            Ok(profile) => profile,
            Err(error) if error.is_not_found() => return Ok(Err(Fault::ProfileMissing { place })),
            // What the Spoke says is no name of any profile.
            Err(client::Error::Path(error)) => {
                return Ok(Err(Fault::Unreadable(error.to_string())));
            }
            Err(error) => return Err(error),
        };
        let place = format!("ClusterProfile {place}");
        let unusable = |reason: String| Fault::Local {
            place: place.clone(),
            reason,
        };
        let way = match policy.access_providers.way(&profile) {
            None => {
                let names = policy.access_providers.names();
                return Ok(Err(Fault::NoAccessProvider { place, names }));
            }
            Some(Err(reason)) => return Ok(Err(unusable(reason))),
            Some(Ok(way)) => way,
        };
        let Way { cluster, plugin } = way;
        let of_source = format!("profiles {}", reference.namespace);
        let issued = match self.issuer.issue(spoke, &of_source, plugin).await {
            Ok(issued) => issued,
            Err(fault) => return Ok(Err(unusable(fault.to_string()))),
        };
        let credential = Credential::of_parts(&cluster, &issued.user, place, issued.renew_at);
        Ok(Ok(Access::Kubeconfig(credential)))
    }
}

impl Provider for ClusterProfiles {
    fn start(&self, concerned: Concerned, tasks: &Tasks) {
        for namespace in &self.dialer.policy().cluster_profile_namespaces {
            let config = reflector::Config {
                client: self.hub.client().clone(),
                endpoint: profiles(namespace),
                label_selector: None,
                field_selector: None,
                name: "spokes/clusterprofiles".to_owned(),
            };
            let source = Source {
                sort: SourceSort::ClusterProfile,
                place: namespace.clone(),
            };
            let mut watch = SourceWatch::new(source, &self.sightings);
            let (dialer, namespace) = (self.dialer.clone(), namespace.clone());
            let mut events = reflector::start(config, tasks, tasks.child_token());
            let concerned = concerned.clone();
            tasks.spawn("spoke-profiles", async move {
                while let Some(event) = events.recv().await {
                    watch.take(&event, |object| found(dialer.policy(), &namespace, object));
                    take(&concerned, &event);
                }
            });
        }
    }

    fn access<'a>(&'a self, spoke: &'a LogicalCluster, object: &'a Spoke) -> BoxFuture<'a, Answer> {
        Box::pin(self.read(spoke, object))
    }
}

/// Returns the cluster of a profile that a provider of the operator reaches, and that no hub has written: that would be of a
/// Spoke of this one.
fn found(policy: &Policy, namespace: &str, object: &RawObject) -> Option<Found> {
    let is_reached = policy.access_providers.way(&object.value().ok()?).is_some();
    if !is_reached || object.labels.contains_key(keys::HUB) {
        return None;
    }
    let name = object.name.clone();
    let sighting = Sighting {
        item: format!("ClusterProfile {namespace}/{name}"),
        provider: wheelhouse::Provider::ClusterProfile,
        connection: Some(Connection {
            cluster_profile_ref: Some(ClusterProfileReference {
                namespace: namespace.to_owned(),
                name: name.clone(),
            }),
            ..Connection::default()
        }),
    };
    Some(Found { name, sighting })
}

fn take(concerned: &Concerned, event: &Event) {
    let profiles = match event {
        Event::Restarted { objects, .. } => objects.as_slice(),
        Event::Applied(object) | Event::Deleted(object) => std::slice::from_ref(object),
        Event::Interrupted(_) | Event::Resumed => return,
    };
    concerned.add_where(|spoke| {
        reference(spoke).is_some_and(|reference| {
            profiles.iter().any(|profile| {
                reference.name == profile.name
                    && Some(reference.namespace.as_str()) == profile.namespace.as_deref()
            })
        })
    });
}

fn reference(spoke: &Spoke) -> Option<&ClusterProfileReference> {
    spoke.spec.connection.as_ref()?.cluster_profile_ref.as_ref()
}

fn profiles(namespace: &str) -> Endpoint {
    Endpoint {
        scope: None,
        gvr: GroupVersionResource::new(inventory::GROUP, inventory::VERSION, inventory::RESOURCE),
        namespace: Some(namespace.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::inventory::AccessProviders;

    fn profile(name: &str, provider: &str, labels: &Value) -> RawObject {
        let object = json!({"metadata": {"namespace": "n", "name": name, "labels": labels},
            "status": {"accessProviders": [{"name": provider, "cluster": {"server": "https://a"}}]}});
        RawObject::from_value(&object).expect("an object")
    }

    #[test]
    fn a_profile_is_a_cluster_where_a_provider_of_the_operator_reaches_it() {
        let file = json!({"providers": [{"name": "cloud", "execConfig": {"apiVersion": "v1", "command": "c"}}]});
        let access_providers = AccessProviders::parse(&file.to_string()).expect("they can be used");
        let policy = Policy {
            access_providers,
            ..Policy::default()
        };
        for (name, provider, labels, want) in [
            ("east", "cloud", json!({}), Some("east")),
            ("east", "other", json!({}), None),
            ("east", "cloud", json!({keys::HUB: "h"}), None),
        ] {
            let found = found(&policy, "n", &profile(name, provider, &labels));
            let found = found.map(|it| it.name);
            assert_eq!(found.as_deref(), want, "{name} {provider} {labels}");
        }
    }
}
