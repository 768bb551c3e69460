//! Namespaces of a real spoke: when one goes, the hub's instances in it go.
//!
//! # Invariants
//!
//! Only a namespace that was seen terminating, or whose deletion the watch delivered, is an intent.
//! A list that does not show it is not.

use std::sync::Arc;

use client::{DeleteRequest, reflector::Event};
use tracing::{info, warn};

use crate::{engine::Engine, resources, target::Target};

/// Starts the watch of a spoke's namespaces. It ends with the target's token.
pub(super) fn watch(engine: &Arc<Engine>, target: &Arc<Target>) {
    let source = target.source(&resources::core("namespaces"), None);
    let mut events = target.follow(source, target.token.clone());
    let (engine, target) = (Arc::clone(engine), Arc::clone(target));
    let tasks = engine.tasks.clone();
    tasks.spawn("namespaces", async move {
        while let Some(event) = events.recv().await {
            let going = match event {
                Event::Restarted { objects, .. } => objects,
                Event::Applied(object) | Event::Deleted(object) => vec![object],
                Event::Interrupted(_) | Event::Resumed => Vec::new(),
            };
            // What another cluster says in the place of this one is no intent: the watch waits until it is known which one it is.
            tokio::select! {
                biased;
                () = target.token.cancelled() => return,
                () = target.reachable() => {}
            }
            for namespace in going {
                if namespace.deletion_timestamp.is_some() {
                    empty(&engine, &target, &namespace.name).await;
                }
            }
        }
    });
}

async fn empty(engine: &Arc<Engine>, target: &Target, namespace: &str) {
    for key in super::in_namespace(engine, &target.cluster, namespace) {
        let endpoint = engine
            .definitions
            .endpoint(&target.cluster, &key.group_kind);
        let Some(gvr) = endpoint else {
            continue;
        };
        info!(cluster = %target.cluster, key = %key, "deleted with its namespace");
        let endpoint = Engine::hub_endpoint(&target.cluster, &gvr, namespace);
        let request = DeleteRequest::default();
        match engine.hub.delete(&endpoint, &key.name, &request).await {
            Ok(_) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => {
                warn!(cluster = %target.cluster, key = %key, error = %error, "cannot delete with its namespace");
            }
        }
    }
}
