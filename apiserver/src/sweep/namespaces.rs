//! Empties namespaces whose deletion was asked for, and lets them go.
//!
//! One task watches the namespaces of all clusters. A namespace that goes gets a task of its own until it is empty,
//! since that may take as long as someone's finalizer. It looks again whenever something in the namespace changes.
//! Source: kubernetes/pkg/controller/namespace/deletion/namespaced_resources_deleter.go.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::meta::{STATUS_FALSE, STATUS_TRUE, set_conditions};
use api::query::DeleteOptions;
use api::{ClusterScope, Condition, GroupResource, LogicalCluster, meta};
use parking_lot::Mutex;
use serde_json::{Value, json};
use storage::{KeyRange, RangeQuery, WatchEnd, WatchQuery};
use tasks::Tasks;
use tokio_util::sync::CancellationToken;

use super::{WRITE_TIMEOUT, is_ours};
use crate::call::{Shared, Target};
use crate::handle::controllers;
use crate::objects::{head, parse_key, prefix};
use crate::registry::ResourceScope;
use crate::strategy::namespaces::CLUSTER_FINALIZER;

/// Between two looks at a namespace that does not get empty. Its content lies in many ranges, so it is not watched:
/// the first looks come quickly, in case a finalizer is released at once.
const LOOKS: [Duration; 5] = [
    Duration::from_millis(20),
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(2),
    Duration::from_secs(5),
];

pub(super) fn start(shared: &Arc<Shared>, tasks: &Tasks) {
    let sweeper = Sweeper {
        shared: Arc::clone(shared),
        tasks: tasks.clone(),
        going: Arc::default(),
    };
    let token = tasks.child_token();
    // It ends at shutdown; without it, namespaces that go stay as they are until the next start.
    tasks.spawn("namespaces", sweeper.run(token));
}

struct Sweeper {
    shared: Arc<Shared>,
    tasks: Tasks,
    /// Namespaces that have a task. Leaf lock.
    going: Arc<Mutex<BTreeSet<(LogicalCluster, String)>>>,
}

// === impl Sweeper ===

impl Sweeper {
    async fn run(self, token: CancellationToken) {
        while !token.is_cancelled() {
            tokio::select! {
                biased;
                () = token.cancelled() => {}
                end = self.follow() => {
                    if end == WatchEnd::Closed {
                        token.cancelled().await;
                    }
                }
            }
        }
    }

    /// Looks at all namespaces, then at those that change.
    async fn follow(&self) -> WatchEnd {
        let range = KeyRange::prefix(prefix("", "namespaces"));
        let Ok(found) = self.shared.store.range(RangeQuery::of(range.clone())) else {
            return WatchEnd::Closed;
        };
        for entry in &found.entries {
            self.observe(entry.key(), entry.value());
        }
        let query = WatchQuery {
            range,
            after: found.revision,
        };
        let Ok(mut watcher) = self.shared.store.watch(query) else {
            return WatchEnd::Expired;
        };
        loop {
            match watcher.next().await {
                Ok(events) => {
                    for event in events {
                        self.observe(event.key(), event.entry().value());
                    }
                }
                Err(end) => return end,
            }
        }
    }

    fn observe(&self, key: &[u8], value: &[u8]) {
        if !head(value).is_some_and(|head| head.deleting) {
            return;
        }
        let Some(parts) = parse_key(key) else { return };
        let Ok(cluster) = parts.cluster.parse::<LogicalCluster>() else {
            return;
        };
        let name = parts.name.to_owned();
        if !is_ours(&self.shared, &cluster)
            || !self.going.lock().insert((cluster.clone(), name.clone()))
        {
            return;
        }
        let (shared, going, token) = (
            Arc::clone(&self.shared),
            Arc::clone(&self.going),
            self.tasks.child_token(),
        );
        self.tasks.spawn("namespace deletion", async move {
            let end = End {
                shared,
                cluster,
                name,
            };
            tokio::select! {
                biased;
                () = token.cancelled() => {}
                () = end.run() => {}
            }
            going.lock().remove(&(end.cluster, end.name));
        });
    }
}

/// The way of one namespace to its end.
struct End {
    shared: Arc<Shared>,
    cluster: LogicalCluster,
    name: String,
}

/// What is still in a namespace.
#[derive(Debug, Default)]
struct Remaining {
    /// How many objects of each resource.
    objects: Vec<(GroupResource, usize)>,
    /// How many objects wait for each finalizer.
    finalizers: Vec<(String, usize)>,
}

// === impl End ===

impl End {
    async fn run(&self) {
        let registry = &self.shared.registry;
        let Some(scope) = registry.lookup(&self.cluster, "", "v1", "namespaces") else {
            return;
        };
        let target = Target {
            cluster: self.cluster.clone(),
            namespace: String::new(),
            name: self.name.clone(),
            key: scope.rules.prefix.key(&self.cluster, "", &self.name),
        };
        let mut looks = LOOKS.iter();
        loop {
            let still = self.shared.store.get(&target.key);
            if !still.is_some_and(|entry| head(entry.value()).is_some_and(|head| head.deleting)) {
                return;
            }
            let remaining = self.sweep().await;
            let access = controllers::access(&self.shared, &scope, WRITE_TIMEOUT);
            let now = meta::time_now_text(access.now);
            if remaining.objects.is_empty() {
                let released = controllers::change(&access, &target, release).await;
                // Other finalizers of the namespace itself may be left; whoever holds them takes it from here.
                if released.is_none_or(|object| meta::finalizers(&object).is_empty()) {
                    return;
                }
            } else {
                let _told = controllers::change(&access, &target, |object| {
                    set_conditions(object, remaining.conditions(), &now);
                })
                .await;
            }
            let pause = looks
                .next()
                .or(LOOKS.last())
                .copied()
                .unwrap_or(WRITE_TIMEOUT);
            tokio::time::sleep(pause).await;
        }
    }

    /// Deletes everything in the namespace; answers what is still there.
    async fn sweep(&self) -> Remaining {
        let mut remaining = Remaining::default();
        let cluster = ClusterScope::One(self.cluster.clone());
        for scope in self.shared.registry.resources(&self.cluster) {
            if !scope.kind.namespaced {
                continue;
            }
            let range = scope.rules.prefix.range(&cluster, Some(&self.name));
            self.sweep_resource(&scope, range, &mut remaining).await;
        }
        remaining
    }

    async fn sweep_resource(
        &self,
        scope: &Arc<ResourceScope>,
        range: KeyRange,
        remaining: &mut Remaining,
    ) {
        let Ok(found) = self.shared.store.range(RangeQuery::of(range)) else {
            remaining.objects.push((scope.rules.resource.clone(), 1));
            return;
        };
        let mut count = 0;
        for entry in &found.entries {
            let Some(parts) = parse_key(entry.key()) else {
                continue;
            };
            let target = Target {
                cluster: self.cluster.clone(),
                namespace: self.name.clone(),
                name: parts.name.to_owned(),
                key: entry.to_key(),
            };
            let options = DeleteOptions {
                propagation: Some(api::query::Propagation::Background),
                ..DeleteOptions::default()
            };
            let access = controllers::access(&self.shared, scope, WRITE_TIMEOUT);
            if !controllers::delete(&access, &target, &options).await {
                count += 1;
                remaining.count_finalizers(entry.value());
            }
        }
        if count > 0 {
            remaining
                .objects
                .push((scope.rules.resource.clone(), count));
        }
    }
}

/// Takes the finalizer of an emptied namespace away.
fn release(object: &mut Value) {
    let Some(finalizers) = object["spec"]["finalizers"].as_array() else {
        return;
    };
    let left: Vec<Value> = finalizers
        .iter()
        .filter(|finalizer| **finalizer != CLUSTER_FINALIZER)
        .cloned()
        .collect();
    object["spec"] = if left.is_empty() {
        json!({})
    } else {
        json!({"finalizers": left})
    };
}

// === impl Remaining ===

impl Remaining {
    fn count_finalizers(&mut self, value: &[u8]) {
        let Ok(object) = serde_json::from_slice::<Value>(value) else {
            return;
        };
        for finalizer in meta::finalizers(&object) {
            match self
                .finalizers
                .iter_mut()
                .find(|(name, _)| name == finalizer)
            {
                Some((_, count)) => *count += 1,
                None => self.finalizers.push((finalizer.to_owned(), 1)),
            }
        }
    }

    fn conditions(&self) -> Vec<Condition> {
        let objects: Vec<_> = self
            .objects
            .iter()
            .map(|(resource, count)| format!("{resource} has {count} resource instances"))
            .collect();
        let finalizers: Vec<_> = self
            .finalizers
            .iter()
            .map(|(name, count)| format!("{name} in {count} resource instances"))
            .collect();
        let fine = |type_, reason, message| Condition::new(type_, STATUS_FALSE, reason, message);
        let content = Condition::new(
            "NamespaceContentRemaining",
            STATUS_TRUE,
            "SomeResourcesRemain",
            format!("Some resources are remaining: {}", objects.join(", ")),
        );
        let waiting = if finalizers.is_empty() {
            let message = "All content-preserving finalizers finished";
            fine(
                "NamespaceFinalizersRemaining",
                "ContentHasNoFinalizers",
                message,
            )
        } else {
            Condition::new(
                "NamespaceFinalizersRemaining",
                STATUS_TRUE,
                "SomeFinalizersRemain",
                format!(
                    "Some content in the namespace has finalizers remaining: {}",
                    finalizers.join(", ")
                ),
            )
        };
        vec![
            fine(
                "NamespaceDeletionDiscoveryFailure",
                "ResourcesDiscovered",
                "All resources successfully discovered",
            ),
            fine(
                "NamespaceDeletionGroupVersionParsingFailure",
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed",
            ),
            fine(
                "NamespaceDeletionContentFailure",
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization",
            ),
            content,
            waiting,
        ]
    }
}
