//! The controller of definitions: writes what was decided about names, and lets definitions go when their instances
//! are gone.
//!
//! One task writes status, in the order in which the registry saw the changes. A definition that is being deleted gets a
//! task of its own until its last instance is gone, since that may take as long as someone's finalizer.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::crd::{
    self, CONDITION_ESTABLISHED, CONDITION_TERMINATING, CustomResourceDefinition, FINALIZER_CLEANUP,
};
use api::meta::set_conditions;
use api::meta::{STATUS_FALSE, STATUS_TRUE};
use api::query::DeleteOptions;
use api::{ClusterScope, Condition, LogicalCluster, meta};
use parking_lot::Mutex;
use serde_json::Value;
use storage::{KeyRange, RangeQuery, WatchQuery};
use tasks::Tasks;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::call::{Access, Shared, Target};
use crate::handle::controllers;
use crate::objects::parse_key;
use crate::registry::{DefinitionChanged, ResourceScope};

/// How long one write of a controller may take.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Between two looks at instances that do not go, beside the looks that their changes cause.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// Starts the controller.
pub(crate) fn start(shared: &Arc<Shared>, tasks: &Tasks) {
    let controller = Controller {
        shared: Arc::clone(shared),
        tasks: tasks.clone(),
        cleaning: Arc::default(),
    };
    let token = tasks.child_token();
    // It ends at shutdown; a panic in it is a bug, and definitions then stay without a status.
    tasks.spawn("definitions", controller.run(token));
}

struct Controller {
    shared: Arc<Shared>,
    tasks: Tasks,
    /// Definitions that have a task which removes their instances. Leaf lock.
    cleaning: Arc<Mutex<BTreeSet<(LogicalCluster, String)>>>,
}

// === impl Controller ===

impl Controller {
    async fn run(self, token: CancellationToken) {
        let mut changes = self.shared.registry.definitions();
        for changed in self.shared.registry.all_definitions() {
            self.reconcile(&changed).await;
        }
        loop {
            let changed = tokio::select! {
                biased;
                () = token.cancelled() => return,
                changed = changes.recv() => changed,
            };
            match changed {
                Ok(changed) => self.reconcile(&changed).await,
                Err(RecvError::Lagged(_)) => {
                    for changed in self.shared.registry.all_definitions() {
                        self.reconcile(&changed).await;
                    }
                }
                Err(RecvError::Closed) => return,
            }
        }
    }

    async fn reconcile(&self, changed: &DefinitionChanged) {
        let (cluster, key) = (&changed.cluster, changed.name.as_str());
        let span = tracing::debug_span!("reconcile", controller = "crd", %cluster, key);
        self.establish(changed).instrument(span).await;
    }

    async fn establish(&self, changed: &DefinitionChanged) {
        let Some(accepted) = self
            .shared
            .registry
            .accepted(&changed.cluster, &changed.name)
        else {
            return;
        };
        let Some(cleanup) = Cleanup::new(&self.shared, changed) else {
            return;
        };
        let written = cleanup.change(|object, now| {
            if meta::is_terminating(object) {
                return;
            }
            set_conditions(object, accepted.conditions(), now);
            let names = serde_json::to_value(&accepted.names).unwrap_or_default();
            object["status"]["acceptedNames"] = names;
        });
        match written.await {
            Some(object) if must_clean(&object) => self.clean(cleanup),
            Some(_) | None => {}
        }
    }

    /// Removes the instances of a definition in a task of its own.
    fn clean(&self, cleanup: Cleanup) {
        let key = (cleanup.target.cluster.clone(), cleanup.target.name.clone());
        if !self.cleaning.lock().insert(key.clone()) {
            return;
        }
        let (cleaning, token) = (Arc::clone(&self.cleaning), self.tasks.child_token());
        self.tasks.spawn("definition cleanup", async move {
            tokio::select! {
                biased;
                () = token.cancelled() => {}
                () = cleanup.run() => {}
            }
            cleaning.lock().remove(&key);
        });
    }
}

fn must_clean(object: &Value) -> bool {
    meta::is_terminating(object) && meta::has_finalizer(object, FINALIZER_CLEANUP)
}

/// The way of one definition to its end.
struct Cleanup {
    shared: Arc<Shared>,
    scope: Arc<ResourceScope>,
    target: Target,
}

// === impl Cleanup ===

impl Cleanup {
    fn new(shared: &Arc<Shared>, changed: &DefinitionChanged) -> Option<Self> {
        let scope =
            shared
                .registry
                .lookup(&changed.cluster, crd::GROUP, crd::VERSION, crd::RESOURCE)?;
        let target = Target {
            cluster: changed.cluster.clone(),
            namespace: String::new(),
            name: changed.name.clone(),
            key: scope.rules.prefix.key(&changed.cluster, "", &changed.name),
        };
        Some(Self {
            shared: Arc::clone(shared),
            scope,
            target,
        })
    }

    fn access<'a>(&'a self, scope: &'a ResourceScope) -> Access<'a> {
        controllers::access(&self.shared, scope, WRITE_TIMEOUT)
    }

    /// Changes the definition; answers it as it is now, `None` if it is gone or cannot be written.
    async fn change(&self, change: impl Fn(&mut Value, &str)) -> Option<Value> {
        let access = self.access(&self.scope);
        let now = meta::time_now_text(access.now);
        controllers::change(&access, &self.target, |object| change(object, &now)).await
    }

    async fn condition(&self, status: &'static str, reason: &'static str, message: &'static str) {
        let terminating = || Condition::new(CONDITION_TERMINATING, status, reason, message);
        let _written = self
            .change(|object, now| {
                set_conditions(object, [terminating()], now);
            })
            .await;
    }

    async fn run(&self) {
        let text = "CustomResource deletion is in progress";
        self.condition(STATUS_TRUE, "InstanceDeletionInProgress", text)
            .await;
        let Some(entry) = self.shared.store.get(&self.target.key) else {
            return;
        };
        let object = serde_json::from_slice::<Value>(entry.value()).unwrap_or_default();
        let Ok(definition) = CustomResourceDefinition::from_value(&object) else {
            tracing::error!(
                name = self.target.name,
                "cannot read a definition that is being deleted"
            );
            return;
        };
        let resource = definition.group_resource();
        if self
            .shared
            .registry
            .is_built_in(&self.target.cluster, &resource)
        {
            let text = "instances overlap with built-in resources in storage";
            self.condition(STATUS_FALSE, "OverlappingBuiltInResource", text)
                .await;
        } else if definition.is_condition_true(CONDITION_ESTABLISHED) {
            self.remove_instances(&definition).await;
            self.condition(
                STATUS_FALSE,
                "InstanceDeletionCompleted",
                "removed all instances",
            )
            .await;
        } else {
            self.condition(
                STATUS_FALSE,
                "NeverEstablished",
                "resource was never established",
            )
            .await;
        }
        let _released = self
            .change(|object, _now| {
                meta::remove_finalizer(object, FINALIZER_CLEANUP);
            })
            .await;
    }

    /// Deletes every instance, and waits until the last is gone.
    async fn remove_instances(&self, definition: &CustomResourceDefinition) {
        let cluster = ClusterScope::One(self.target.cluster.clone());
        let served = definition
            .spec
            .versions
            .iter()
            .filter(|version| version.served);
        let scope = served.into_iter().find_map(|version| {
            let gvr = definition.spec.gvr(&version.name);
            self.shared.registry.lookup(
                &self.target.cluster,
                &gvr.group,
                &gvr.version,
                &gvr.resource,
            )
        });
        let Some(scope) = scope else { return };
        let range = scope.rules.prefix.range(&cluster, None);
        loop {
            let after = self.shared.store.revision();
            let remaining = self.delete_all(&scope, &range).await;
            if remaining == 0 {
                return;
            }
            let query = WatchQuery {
                range: range.clone(),
                after,
            };
            if let Ok(mut watcher) = self.shared.store.watch(query) {
                let _changed = tokio::time::timeout(LOOK_AGAIN, watcher.next()).await;
            } else {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        }
    }

    /// Asks every instance to go; answers how many are still there.
    async fn delete_all(&self, scope: &Arc<ResourceScope>, range: &KeyRange) -> usize {
        let Ok(found) = self.shared.store.range(RangeQuery::of(range.clone())) else {
            return 1;
        };
        let mut remaining = 0;
        for entry in &found.entries {
            let Some(parts) = parse_key(entry.key()) else {
                continue;
            };
            let target = Target {
                cluster: self.target.cluster.clone(),
                namespace: parts.namespace.to_owned(),
                name: parts.name.to_owned(),
                key: entry.to_key(),
            };
            let gone =
                controllers::delete(&self.access(scope), &target, &DeleteOptions::default()).await;
            remaining += usize::from(!gone);
        }
        remaining
    }
}
