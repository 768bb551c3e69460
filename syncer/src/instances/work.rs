//! An instance in the hands of a worker, and how the work on it ends.

use std::{collections::HashSet, sync::Arc};

use graph::{NodeReason, ObjectRef};
use serde_json::Value;

use crate::{
    engine::Engine,
    state::{
        children::{Sync, WatchedKind},
        claims,
        keys::InstanceKey,
        own_states::OwnStates,
        served::Served,
        switches::Chosen,
        target::{Memory, Target},
    },
};

/// How a reconcile ended, where it did not do all that is to be done.
#[derive(Debug)]
pub(crate) enum Pause {
    /// A watch will name the instance again.
    Watch,
    /// Something failed; try again later.
    Failure(String),
    /// The instance cannot be planned as it is, and would fail in the same way again. A change of it, of its definition or
    /// of what was seen for it names it again.
    Settled(String),
    /// A deletion waits until somebody confirms it. What names the instance again is the annotation that does.
    Unconfirmed(String),
}

// === impl Pause ===

impl Pause {
    /// Of all that several parts of a reconcile wait for, returns what has to be acted on first: a failure is tried again though
    /// another part waits for a watch, which may say nothing for a long time.
    pub(crate) fn first_of(pauses: impl IntoIterator<Item = Self>) -> Result<(), Self> {
        let rank = |pause: &Self| match pause {
            Self::Failure(_) => 0,
            Self::Unconfirmed(_) => 1,
            Self::Settled(_) => 2,
            Self::Watch => 3,
        };
        pauses.into_iter().min_by_key(rank).map_or(Ok(()), Err)
    }
}

impl From<client::Error> for Pause {
    fn from(error: client::Error) -> Self {
        Self::Failure(error.to_string())
    }
}

/// An instance in the hands of a worker.
#[derive(Debug)]
pub(crate) struct Work<'a> {
    pub(crate) engine: &'a Arc<Engine>,
    /// The switches of the target.
    pub(crate) chosen: Arc<Chosen>,
    pub(crate) target: &'a Arc<Target>,
    pub(crate) key: &'a InstanceKey,
    pub(crate) instance: Value,
    pub(crate) memory: Memory,
    /// Whether an object that this instance wants is another's: no watch of ours tells when that
    /// changes.
    pub(crate) met_foreign: bool,
    /// Why the first of its nodes that failed did so.
    pub(crate) error: Option<NodeReason>,
    /// What it has let go: a watch may show that late.
    pub(crate) kept: HashSet<ObjectRef>,
    /// What it has brought about itself.
    pub(crate) own: OwnStates,
}

// === impl Work ===

impl Work<'_> {
    /// Applies a patch to the hub's instance and goes on with the answer. It names the uid: an instance that is gone by now
    /// would otherwise be made again, empty.
    pub(crate) async fn apply_to_instance(
        &mut self,
        patch: &Value,
        manager: &str,
    ) -> Result<(), Pause> {
        let endpoint = self.hub_endpoint()?;
        let apply = client::Patch::Apply {
            manager,
            force: client::Force::Yes,
            object: &claims::update_only(patch, &self.memory.uid),
            answer: client::Answer::Object,
        };
        let hub = &self.engine.hub;
        let answer = hub.patch(&endpoint, &self.key.name, None, apply).await?;
        self.take_answer(answer, patch);
        Ok(())
    }

    /// Goes on with the answer to a write of metadata or of the status, and lets the cache know it as the watch of all clusters
    /// tells it.
    pub(crate) fn take_answer(&mut self, answer: Value, written: &Value) {
        self.own.answered(&self.instance, &answer, written);
        self.instance = answer;
        let cluster = &self.target.cluster;
        api::meta::set_annotation(
            &mut self.instance,
            api::cluster::ANNOTATION,
            cluster.as_str(),
        );
        if let Ok(object) = client::reflector::RawObject::from_value(&self.instance) {
            self.engine
                .instances
                .answered(cluster, self.key, Arc::new(object));
        }
        api::meta::remove_annotation(&mut self.instance, api::cluster::ANNOTATION);
    }

    /// Names the endpoint of the instance on the hub.
    pub(crate) fn hub_endpoint(&self) -> Result<client::Endpoint, Pause> {
        let definitions = &self.engine.definitions;
        let gvr = definitions
            .endpoint(&self.target.cluster, &self.key.group_kind)
            .ok_or(Pause::Watch)?;
        Ok(Engine::hub_endpoint(
            &self.target.cluster,
            &gvr,
            &self.key.namespace,
        ))
    }

    /// Requires that everything was seen that the instance can have in the target.
    ///
    /// # Errors
    /// [`Pause::Watch`] while a first list is waited for, [`Pause::Failure`] where it cannot be read.
    pub(crate) fn require_synced(&self, served: &Served) -> Result<(), Pause> {
        let children = served.graph.child_kinds().into_iter();
        let mut kinds: Vec<WatchedKind> = children
            .filter(|kind| !kind.external)
            .flat_map(|kind| self.target.watched(&kind.gvk, &kind.gvr))
            .collect();
        let ledger = self.memory.ledger.as_ref();
        kinds.extend(self.target.watched_of_ledger(ledger));
        let mut trouble = None;
        let mut waits = false;
        for kind in &kinds {
            self.target.watch_children(kind);
            if let Sync::Waiting(reason) = self.target.children.sync(kind, self.key) {
                waits = true;
                trouble = trouble.or(reason.map(|reason| format!("{}: {reason}", kind.gvk)));
            }
        }
        match (waits, trouble) {
            (false, _) => Ok(()),
            (true, None) => Err(Pause::Watch),
            (true, Some(reason)) => Err(Pause::Failure(reason)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_tried_again_whatever_else_is_waited_for() {
        let failure = || Pause::Failure("no".to_owned());
        let settled = || Pause::Settled("never".to_owned());
        for pauses in [
            vec![Pause::Watch, failure()],
            vec![failure(), Pause::Watch],
            vec![settled(), failure(), Pause::Unconfirmed("?".to_owned())],
        ] {
            assert!(matches!(Pause::first_of(pauses), Err(Pause::Failure(_))));
        }
        let pauses = [Pause::Watch, settled()];
        assert!(matches!(Pause::first_of(pauses), Err(Pause::Settled(_))));
        assert!(Pause::first_of([]).is_ok());
    }
}
