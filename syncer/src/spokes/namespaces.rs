//! Namespaces of a real spoke: when one goes, the hub's instances in it go.
//!
//! # Invariants
//!
//! Only a namespace that was seen terminating, or whose deletion the watch delivered, is an intent
//! ([`spokes::Namespaces`]). What is seen before it is known which cluster this is waits.

use std::sync::Arc;

use api::LogicalCluster;
use client::DeleteRequest;
use tracing::{info, warn};

use crate::{
    engine::Engine,
    state::{keys::InstanceKey, target::Target},
};

/// Starts to empty the namespaces of a spoke that are going. It ends with the target's token.
pub(super) fn watch(engine: &Arc<Engine>, target: &Arc<Target>) {
    let Some(namespaces) = target.link().map(|link| Arc::clone(link.namespaces())) else {
        return;
    };
    let (engine, target) = (Arc::clone(engine), Arc::clone(target));
    let tasks = engine.tasks.clone();
    tasks.spawn("namespaces", async move {
        loop {
            let seen = async {
                namespaces.seen_going().await;
                // What another cluster says in the place of this one is no intent: by the time that it is known which one
                // this is, it is forgotten.
                target.reachable().await;
            };
            tokio::select! {
                biased;
                () = target.token.cancelled() => return,
                () = seen => {}
            }
            for namespace in &namespaces.take_going() {
                empty(&engine, &target, namespace).await;
            }
        }
    });
}

async fn empty(engine: &Arc<Engine>, target: &Target, namespace: &str) {
    for key in in_namespace(engine, &target.cluster, namespace) {
        let endpoint = engine
            .definitions
            .endpoint(&target.cluster, &key.group_kind);
        let Some(gvr) = endpoint else {
            continue;
        };
        info!(cluster = %target.cluster, key = %key, "deleted an instance whose namespace is being deleted");
        let endpoint = Engine::hub_endpoint(&target.cluster, &gvr, namespace);
        let request = DeleteRequest::default();
        match engine.hub.delete(&endpoint, &key.name, &request).await {
            Ok(_) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => {
                warn!(cluster = %target.cluster, key = %key, error = %error, "cannot delete an instance whose namespace is being deleted");
            }
        }
    }
}

/// Names all instances whose namespace is a given one.
fn in_namespace(engine: &Engine, cluster: &LogicalCluster, namespace: &str) -> Vec<InstanceKey> {
    let instances = engine.instances.of_cluster(cluster);
    let keys = instances.into_iter().map(|(key, _)| key);
    keys.filter(|key| key.namespace == namespace).collect()
}
