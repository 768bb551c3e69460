//! Clusters that the kubeconfig in a Secret of root reaches: the Secret that the Spoke names.
//!
//! Only Secrets that may be used are followed: those that are labelled for a spoke, those of the namespace that the
//! operator set apart, and those of Cluster API in the namespaces that the operator named. The latter two may be clusters for
//! which there is no Spoke yet ([`crate::found`]).

use std::sync::Arc;

use api::{
    GroupVersionResource, LogicalCluster,
    selector::Selector,
    wheelhouse::{
        SecretKeyReference, Spoke,
        keys::{LABEL_CLUSTER_API_NAME, LABEL_SPOKE_SECRET},
    },
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
    dialer::Dialer,
    fault::Fault,
    found::{self, SourceWatch},
    sightings::{Sightings, Source, SourceSort},
};

/// The provider of clusters that a kubeconfig Secret reaches.
pub(super) struct KubeconfigSecrets {
    hub: Dynamic,
    dialer: Dialer,
    sightings: Arc<Sightings>,
}

/// Some Secrets of root that may be used.
struct Followed {
    namespace: Option<String>,
    /// The label that they have; empty for all of the namespace.
    label: &'static str,
    /// Of which sort those are that are clusters by themselves.
    sort: Option<SourceSort>,
}

// === impl KubeconfigSecrets ===

impl KubeconfigSecrets {
    pub(super) fn new(hub: Dynamic, dialer: Dialer, sightings: &Arc<Sightings>) -> Self {
        Self {
            hub,
            dialer,
            sightings: Arc::clone(sightings),
        }
    }

    fn followed(&self) -> Vec<Followed> {
        let policy = self.dialer.policy();
        let mut followed = vec![
            Followed {
                namespace: None,
                label: LABEL_SPOKE_SECRET,
                sort: None,
            },
            Followed {
                namespace: Some(policy.secrets_namespace.clone()),
                label: "",
                sort: Some(SourceSort::MulticlusterRuntime),
            },
        ];
        let namespaces = policy.cluster_api_namespaces.iter();
        followed.extend(namespaces.map(|namespace| Followed {
            namespace: Some(namespace.clone()),
            label: LABEL_CLUSTER_API_NAME,
            sort: Some(SourceSort::ClusterApi),
        }));
        followed
    }

    async fn read(&self, spoke: &LogicalCluster, object: &Spoke) -> Answer {
        let Some(reference) = reference(object) else {
            return Ok(Err(Fault::NoReference));
        };
        let endpoint = secrets(Some(&reference.namespace));
        let secret = match self.hub.get(&endpoint, &reference.name).await {
            Ok(secret) => Some(secret),
            Err(error) if error.is_not_found() => None,
            // What the Spoke says is no name of any Secret.
            Err(client::Error::Path(error)) => {
                return Ok(Err(Fault::Unreadable(error.to_string())));
            }
            Err(error) => return Err(error),
        };
        let credential = self.dialer.credential(spoke, reference, secret.as_ref());
        Ok(credential.map(Access::Kubeconfig))
    }
}

impl Provider for KubeconfigSecrets {
    fn start(&self, concerned: Concerned, tasks: &Tasks) {
        for followed in self.followed() {
            let label_selector: Option<Selector> = (!followed.label.is_empty()).then(|| {
                let selector = followed.label.parse();
                selector.expect("the key of a label selects those that have it")
            });
            let config = reflector::Config {
                client: self.hub.client().clone(),
                endpoint: secrets(followed.namespace.as_deref()),
                label_selector,
                field_selector: None,
                name: "spokes/secrets".to_owned(),
            };
            let source = followed.sort.zip(followed.namespace);
            let mut found = source.map(|(sort, place)| {
                let source = Source { sort, place };
                (SourceWatch::new(source.clone(), &self.sightings), source)
            });
            let mut events = reflector::start(config, tasks, tasks.child_token());
            let concerned = concerned.clone();
            tasks.spawn("spoke-secrets", async move {
                while let Some(event) = events.recv().await {
                    if let Some((watch, source)) = &mut found {
                        watch.take(&event, |object| found::of_secret(source, object));
                    }
                    take(&concerned, event);
                }
            });
        }
    }

    fn access<'a>(&'a self, spoke: &'a LogicalCluster, object: &'a Spoke) -> BoxFuture<'a, Answer> {
        Box::pin(self.read(spoke, object))
    }
}

fn take(concerned: &Concerned, event: Event) {
    let secrets = match event {
        Event::Restarted { objects, .. } => objects,
        Event::Applied(object) | Event::Deleted(object) => vec![object],
        Event::Interrupted(_) | Event::Resumed => return,
    };
    concerned.add_where(|spoke| {
        reference(spoke)
            .is_some_and(|reference| secrets.iter().any(|secret| is_named(reference, secret)))
    });
}

fn is_named(reference: &SecretKeyReference, secret: &RawObject) -> bool {
    reference.name == secret.name
        && Some(reference.namespace.as_str()) == secret.namespace.as_deref()
}

fn reference(spoke: &Spoke) -> Option<&SecretKeyReference> {
    spoke.spec.connection.as_ref()?.secret_ref.as_ref()
}

fn secrets(namespace: Option<&str>) -> Endpoint {
    Endpoint {
        scope: None,
        gvr: GroupVersionResource::new("", "v1", "secrets"),
        namespace: namespace.map(str::to_owned),
    }
}
