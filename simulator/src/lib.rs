//! The simulator: makes workloads of an embedded spoke become ready as a cluster would.
//!
//! An embedded spoke has an API and nothing behind it. The simulator is its controller manager,
//! scheduler and kubelet in one: Deployments get a ReplicaSet, ReplicaSets and StatefulSets get
//! Pods, Pods run, Jobs complete, claims are bound, load balancers get an address, and what has
//! lost its owner goes. Nothing is run.
//!
//! A user who plays the controller himself says so by [`keys::ANNOTATION_SIMULATE`], on one object or on a Spoke for its
//! whole cluster.
//!
//! [`clusters`] knows which clusters are simulated; of each, [`world`] is what was seen, [`workloads`] and [`leaves`] return
//! purely what is to be done about it; this file does it.
//!
//! [`keys::ANNOTATION_SIMULATE`]: api::wheelhouse::keys::ANNOTATION_SIMULATE
//!
//! **Invariant:** it knows a cluster only through its API, as any controller does.

mod clusters;
mod leaves;
mod workloads;
mod world;

use std::{collections::HashSet, sync::Arc, time::Duration};

use api::{ClusterScope, LogicalCluster};
use client::{DeleteRequest, Dynamic, Endpoint, Patch, reflector};
use serde_json::{Value, json};
use tasks::{Shutdown, Tasks};
use tokio::sync::mpsc;
use tracing::debug;

use world::{Kind, World};

/// Events of one cluster that wait to be taken up. When it is full, the watches wait.
const EVENT_COUNT_MAX: usize = 256;

/// The wait after an action was refused: a conflict with another writer, most often.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    /// Make an object.
    Create(Kind, Value),
    /// Replace the status of an object.
    Status(Kind, Value),
    /// Change an object by a merge patch.
    Change(Kind, Value, Value),
    /// Delete an object.
    Delete(Kind, Value),
}

/// Starts the simulator for the embedded clusters of a hub. It ends with `tasks`.
pub fn start(client: kube::Client, tasks: &Tasks) {
    let follow = clusters::follow(client, tasks.clone(), tasks.child_token());
    tasks.spawn("simulator-clusters", follow);
}

/// Starts the simulator for one logical cluster. It ends with `shutdown`.
pub(crate) fn simulate(
    client: &kube::Client,
    cluster: &LogicalCluster,
    tasks: &Tasks,
    shutdown: &Shutdown,
) {
    let (sender, receiver) = mpsc::channel(EVENT_COUNT_MAX);
    for kind in Kind::ALL {
        let source = reflector::Config {
            client: client.clone().into(),
            endpoint: Endpoint {
                scope: Some(ClusterScope::One(cluster.clone())),
                gvr: kind.gvr(),
                namespace: None,
            },
            label_selector: None,
            field_selector: None,
            name: format!("{cluster}/{}", kind.gvr().resource),
        };
        let mut events = reflector::start(source, tasks, shutdown.clone());
        let sender = sender.clone();
        tasks.spawn("simulator-watch", async move {
            while let Some(event) = events.recv().await {
                if sender.send((kind, event)).await.is_err() {
                    return;
                }
            }
        });
    }
    let run = run(Dynamic::new(client.clone()), cluster.clone(), receiver);
    let ended = shutdown.clone().cancelled_owned();
    tasks.spawn("simulator", async move {
        tokio::select! {
            biased;
            () = ended => {}
            () = run => {}
        }
    });
}

async fn run(
    dynamic: Dynamic,
    cluster: LogicalCluster,
    mut events: mpsc::Receiver<(Kind, reflector::Event)>,
) {
    let mut world = World::default();
    let mut retry = false;
    loop {
        let event = if retry {
            tokio::time::timeout(RETRY_DELAY, events.recv())
                .await
                .unwrap_or(None)
        } else {
            match events.recv().await {
                Some(event) => Some(event),
                None => return,
            }
        };
        let mut next = event;
        while let Some((kind, event)) = next {
            world.take(kind, event);
            next = events.try_recv().ok();
        }
        retry = false;
        if !world.synced() {
            continue;
        }
        let now = api::meta::time_now_text(jiff::Timestamp::now());
        for action in plan(&world, &now) {
            if let Err(error) = perform(&dynamic, &cluster, &mut world, &action).await {
                debug!(cluster = %cluster, action = ?action, error = %error, "cannot update a simulated workload");
                retry = true;
            }
        }
    }
}

/// Returns what a cluster would do next. What loses its owner goes, whoever makes the owner ready.
pub(crate) fn plan(world: &World, now: &str) -> Vec<Action> {
    let mut actions = Vec::new();
    leaves::collect_garbage(world, &mut actions);
    for deployment in world.simulated(Kind::Deployment) {
        workloads::deployment(world, deployment, now, &mut actions);
    }
    for set in world.simulated(Kind::ReplicaSet) {
        workloads::replica_set(world, set, &mut actions);
    }
    for set in world.simulated(Kind::StatefulSet) {
        workloads::stateful_set(world, set, &mut actions);
    }
    for set in world.simulated(Kind::DaemonSet) {
        workloads::daemon_set(world, set, &mut actions);
    }
    for job in world.simulated(Kind::Job) {
        workloads::job(world, job, now, &mut actions);
    }
    for pod in world.simulated(Kind::Pod) {
        leaves::pod(pod, now, &mut actions);
    }
    for claim in world.simulated(Kind::Claim) {
        leaves::claim(claim, &mut actions);
    }
    for service in world.simulated(Kind::Service) {
        leaves::service(service, &mut actions);
    }
    without_the_deleted(actions)
}

/// Leaves out what would be done to an object that is deleted in the same step.
fn without_the_deleted(mut actions: Vec<Action>) -> Vec<Action> {
    let deleted: HashSet<String> = actions
        .iter()
        .filter_map(|action| match action {
            Action::Delete(_, object) => Some(api::meta::uid(object).to_owned()),
            _ => None,
        })
        .collect();
    actions.retain(|action| match action {
        Action::Status(_, object) | Action::Change(_, object, _) => {
            !deleted.contains(api::meta::uid(object))
        }
        Action::Create(..) | Action::Delete(..) => true,
    });
    actions
}

async fn perform(
    dynamic: &Dynamic,
    cluster: &LogicalCluster,
    world: &mut World,
    action: &Action,
) -> Result<(), client::Error> {
    let endpoint = |kind: &Kind, object: &Value| Endpoint {
        scope: Some(ClusterScope::One(cluster.clone())),
        gvr: kind.gvr(),
        namespace: Some(api::meta::namespace(object).to_owned()),
    };
    match action {
        Action::Create(kind, object) => {
            let made = dynamic.create(&endpoint(kind, object), object).await;
            match made {
                Ok(made) => world.put(*kind, Arc::new(made)),
                Err(error) if error.is_already_exists() => {}
                Err(error) => return Err(error),
            }
        }
        Action::Status(kind, object) => {
            let patch = json!([
                {"op": "test", "path": "/metadata/uid", "value": api::meta::uid(object)},
                {"op": "add", "path": "/status", "value": object["status"]},
            ]);
            let name = api::meta::name(object);
            let patch = Patch::Json(&patch);
            let endpoint = endpoint(kind, object);
            let answer = dynamic
                .patch(&endpoint, name, Some("status"), patch)
                .await?;
            world.put(*kind, Arc::new(answer));
        }
        Action::Change(kind, object, patch) => {
            let name = api::meta::name(object);
            let endpoint = endpoint(kind, object);
            let answer = dynamic
                .patch(&endpoint, name, None, Patch::Merge(patch))
                .await?;
            world.put(*kind, Arc::new(answer));
        }
        Action::Delete(kind, object) => {
            let request = DeleteRequest::of(api::meta::uid(object));
            let name = api::meta::name(object);
            match dynamic
                .delete(&endpoint(kind, object), name, &request)
                .await
            {
                Ok(client::Deleted::Gone) => world.remove(*kind, object),
                Ok(client::Deleted::Terminating(left)) => world.put(*kind, Arc::new(left)),
                Err(error) if error.is_not_found() || error.is_conflict() => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
