//! Which logical clusters are simulated: those of the embedded Spokes that do not say otherwise.

use std::collections::HashMap;

use api::{
    LogicalCluster,
    meta::{self, Condition},
    wheelhouse::{Provider, Spoke, keys},
};
use client::{
    Endpoint,
    reflector::{self, RawObject},
};
use serde_json::Value;
use tasks::{Shutdown, Tasks};

/// Starts and ends the simulator of each cluster, as its Spoke says, until `shutdown`.
pub(crate) async fn follow(client: kube::Client, tasks: Tasks, shutdown: Shutdown) {
    let source = reflector::Config {
        client: client.clone().into(),
        endpoint: Endpoint {
            scope: None,
            gvr: Spoke::gvr(),
            namespace: None,
        },
        label_selector: None,
        field_selector: None,
        name: "simulator/spokes".to_owned(),
    };
    let mut events = reflector::start(source, &tasks, shutdown.clone());
    let mut simulated = Simulated::default();
    while let Some(event) = events.recv().await {
        simulated.take(&event, |cluster| {
            let token = shutdown.child_token();
            crate::simulate(&client, cluster, &tasks, &token);
            token
        });
    }
}

/// The clusters that are simulated, by name, with what ends each.
#[derive(Debug, Default)]
pub(crate) struct Simulated {
    running: HashMap<String, Shutdown>,
}

// === impl Simulated ===

impl Simulated {
    /// Takes up an event of the watch of Spokes. `start` starts a cluster's simulator and returns what ends it.
    fn take(
        &mut self,
        event: &reflector::Event,
        mut start: impl FnMut(&LogicalCluster) -> Shutdown,
    ) {
        match event {
            reflector::Event::Restarted { objects, .. } => {
                self.running.retain(|name, token| {
                    let stays = objects.iter().any(|object| object.name == *name);
                    if !stays {
                        token.cancel();
                    }
                    stays
                });
                for spoke in objects {
                    self.put(spoke, &mut start);
                }
            }
            reflector::Event::Applied(spoke) => self.put(spoke, start),
            reflector::Event::Deleted(spoke) => self.end(&spoke.name),
            reflector::Event::Interrupted(_) | reflector::Event::Resumed => {}
        }
    }

    /// Takes up a Spoke.
    pub(crate) fn put(
        &mut self,
        object: &RawObject,
        mut start: impl FnMut(&LogicalCluster) -> Shutdown,
    ) {
        let name = &object.name;
        let value = object.value().ok().filter(|it| !is_left_alone(it));
        let spoke = value.and_then(|value| Spoke::from_value(&value).ok());
        let Some(spoke) = spoke.filter(|it| it.spec.provider == Provider::Embedded) else {
            self.end(name);
            return;
        };
        // Until the cluster is served, there is nothing to follow. Afterwards it may be unready for a while.
        if self.running.contains_key(name) || !is_reachable(&spoke) {
            return;
        }
        if let Ok(cluster) = name.parse() {
            self.running.insert(name.clone(), start(&cluster));
        }
    }

    fn end(&mut self, name: &str) {
        if let Some(token) = self.running.remove(name) {
            token.cancel();
        }
    }
}

/// Returns whether an object says that somebody else does what the simulator would.
pub(crate) fn is_left_alone(object: &Value) -> bool {
    meta::annotation(object, keys::ANNOTATION_SIMULATE) == Some("false")
}

fn is_reachable(spoke: &Spoke) -> bool {
    let conditions = spoke.status.iter().flat_map(|status| &status.conditions);
    conditions
        .filter(|condition| condition.type_ == keys::CONDITION_REACHABLE)
        .any(Condition::is_true)
}
