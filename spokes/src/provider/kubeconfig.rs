//! Clusters that the kubeconfig in a Secret of root reaches: the Secret that the Spoke names.
//!
//! Only Secrets that may be used are followed: those that are labelled for a spoke, and those of the namespace that the
//! operator set apart.

use api::{
    GroupVersionResource, LogicalCluster,
    selector::Selector,
    wheelhouse::{SecretKeyReference, Spoke, keys::LABEL_SPOKE_SECRET},
};
use client::{
    Dynamic, Endpoint,
    reflector::{self, Event, RawObject},
};
use futures::future::BoxFuture;
use tasks::Tasks;

use super::{Answer, Concerned, Provider};
use crate::{access::Access, dialer::Dialer, fault::Fault};

/// The provider of clusters that a kubeconfig Secret reaches.
pub(super) struct KubeconfigSecrets {
    hub: Dynamic,
    dialer: Dialer,
}

// === impl KubeconfigSecrets ===

impl KubeconfigSecrets {
    pub(super) const fn new(hub: Dynamic, dialer: Dialer) -> Self {
        Self { hub, dialer }
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
        let labelled: Selector = LABEL_SPOKE_SECRET
            .parse()
            .expect("the key of a label selects those that have it");
        let set_apart = &self.dialer.policy().secrets_namespace;
        for (namespace, label_selector) in [(None, Some(labelled)), (Some(set_apart), None)] {
            let config = reflector::Config {
                client: self.hub.client().clone(),
                endpoint: secrets(namespace.map(String::as_str)),
                label_selector,
                field_selector: None,
                name: "spokes/secrets".to_owned(),
            };
            let mut events = reflector::start(config, tasks, tasks.child_token());
            let concerned = concerned.clone();
            tasks.spawn("spoke-secrets", async move {
                while let Some(event) = events.recv().await {
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
