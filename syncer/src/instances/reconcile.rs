//! One instance: plan, ledger, apply, observe, prune, project, again while the plan has more.
//!
//! # Invariants
//!
//! Nothing is applied before the ledger names it. Nothing is pruned while a kind's cache is not
//! synced, while the plan waits for data, or after a failed apply. A failure is tried again for
//! ever, later each time; no work is dropped.
//!
//! Source: kro `pkg/controller/instance`, without its fixed waits.

use std::{collections::HashSet, sync::Arc};

use api::wheelhouse::origin;
use graph::{Change, NodeState, ObjectRef, Observed, Plan, PlanInput};
use serde_json::Value;
use tracing::{debug, warn};

use super::{
    applying, brake, deletion, externals, imported, ledger,
    mirror::{self, Mirrored},
    orphans, status,
    work::{Pause, Work},
};
use crate::{
    acting,
    engine::Engine,
    restoring,
    state::{
        actors::Actor,
        externals::Found,
        instances::instance_of,
        keys::InstanceKey,
        own_states::{After, Ended, OwnStates},
        served::Served,
        target::{Reach, Target, TargetSort},
    },
};

/// Rounds of plan and apply in one reconcile: a graph has at most as many levels as nodes, and one
/// that has not settled by then goes on in the next reconcile.
const ROUND_COUNT_MAX: usize = 64;

/// What came of the writes of a reconcile.
struct Outcome {
    /// Whether a child could not be applied.
    failed: bool,
    /// What came of the mirror, where there is one.
    mirrored: Option<Result<(), Pause>>,
}

/// Whether a reconcile has to be tried again because something failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    Failed,
}

/// Reconciles an instance and arranges what is to follow.
pub(crate) async fn run(engine: &Arc<Engine>, target: &Arc<Target>, key: &InstanceKey) -> End {
    let Some(object) = engine.instances.get(&target.cluster, key) else {
        target.forget_instance(key);
        for freed in target.pruning.forget(key, engine.brake) {
            target.queue.add(freed);
        }
        target.externals.forget(key);
        orphans::remove(engine, target, key).await;
        return End::Done;
    };
    let instance = match instance_of(&object) {
        Ok(instance) => instance,
        Err(error) => {
            warn!(cluster = %target.cluster, key = %key, %error, "instance is not valid JSON");
            return End::Failed;
        }
    };
    let memory = target.recall(key, &object.uid);
    let mut work = Work {
        engine,
        chosen: engine.switches.of(&target.cluster),
        target,
        key,
        instance,
        memory,
        met_foreign: false,
        error: None,
        kept: HashSet::new(),
        own: OwnStates::default(),
    };
    let outcome = work.step().await;
    if outcome.is_ok() {
        restoring::passed(engine, target, key);
    }
    let ended = match &outcome {
        Ok(()) => Ended::Settled,
        Err(Pause::Failure(_)) => Ended::Failed,
        Err(_) => Ended::Waiting,
    };
    match work.own.after(ended) {
        After::Nothing => {}
        After::NotFor(states) => target.queue.take_back(key, &states),
        After::Again => target.queue.add(key.clone()),
    }
    let failure = match outcome {
        Ok(()) | Err(Pause::Watch) => None,
        Err(Pause::Settled(reason) | Pause::Unconfirmed(reason)) => {
            debug!(cluster = %target.cluster, key = %key, reason, "cannot plan an instance");
            None
        }
        Err(Pause::Failure(reason)) => Some(reason),
    };
    work.memory.failure_count = failure
        .as_ref()
        .map_or(0, |_| work.memory.failure_count + 1);
    let end = failure.as_ref().map_or(End::Done, |_| End::Failed);
    if let Some(reason) = failure {
        ledger::assume_nothing(&mut work);
        let attempt = work.memory.failure_count;
        debug!(cluster = %target.cluster, key = %key, attempt, reason, "reconcile failed");
        target.probe.notify_one();
        target.retry(key, attempt);
    }
    target.remember(key, work.memory);
    end
}

// === impl Work ===

impl Work<'_> {
    async fn step(&mut self) -> Result<(), Pause> {
        if !api::meta::deletion_timestamp(&self.instance)
            .unwrap_or_default()
            .is_empty()
        {
            return deletion::step(self).await;
        }
        let Some(served) = self
            .engine
            .definitions
            .lookup(&self.target.cluster, &self.key.group_kind)
        else {
            self.target.externals.forget(self.key); // in whose name would they be read?
            return Err(Pause::Watch);
        };
        if let Reach::Unreachable(trouble) = self.target.reach() {
            status::waiting_for_spoke(self, &trouble).await?;
            return Err(Pause::Watch);
        }
        if !self.target.kinds.are_ours(&served) {
            // The kind that the cluster has is not this definition's, or it is not known yet: what is written in it
            // was not judged by the definition's schema. Distribution names the instance again.
            return Err(Pause::Watch);
        }
        let is_of_spoke = origin::is_of_spoke(&self.instance);
        if is_of_spoke && self.target.sort == TargetSort::Mirrored {
            imported::follow(self, &served).await?;
        }
        let is_new = !api::meta::has_finalizer(&self.instance, api::kro::keys::FINALIZER);
        self.manage(&served).await?;
        if graph::instance::is_suspended(&self.instance) {
            let now = Engine::now();
            let wanted = served.graph.suspended_status(&self.instance, &now);
            return status::write(self, wanted).await;
        }
        if is_new {
            ledger::begin(self);
        }
        ledger::recall(self).await?;
        if let Err(pause) = self.require_synced(&served) {
            if let Pause::Failure(trouble) = &pause {
                status::waiting_for_kind(self, trouble).await?;
            }
            return Err(pause);
        }
        match acting::resolve(self.engine, self.target, &served.grant).await {
            Ok(actor) => self.converge(&served, &actor).await,
            Err(reason) => {
                status::failed(self, &reason).await?;
                Err(Pause::Failure(reason))
            }
        }
    }

    /// Writes finalizer and labels on the hub's instance.
    async fn manage(&mut self, served: &Served) -> Result<(), Pause> {
        let settings = &self.chosen.settings;
        let patch = graph::instance::labeller_patch(&self.instance, &served.owner, settings)
            .map_err(Pause::Failure)?;
        if let Some(patch) = patch {
            self.apply_to_instance(&patch, api::kro::keys::MANAGER_LABELLER)
                .await?;
        }
        Ok(())
    }

    async fn converge(&mut self, served: &Served, actor: &Actor) -> Result<(), Pause> {
        let mut observed = self.observe(served);
        let mut failed = false;
        let mut mirrored = self.own(served, &mut observed).await?;
        for _ in 0..ROUND_COUNT_MAX {
            let plan = self.plan(served, actor, &mut observed).await?;
            let changes = !failed && plan.changes().next().is_some();
            if changes {
                ledger::before(self, actor, &plan).await?;
            }
            if mirrored.is_none() {
                // Beside the first round's children: neither needs the other.
                let writes = async {
                    if changes {
                        applying::write(self, actor, &plan).await
                    } else {
                        Vec::new()
                    }
                };
                let (answers, mirror) = tokio::join!(writes, self.mirror(served));
                mirrored = Some(mirror.map(|mirrored| self.note_mirror(mirrored)));
                failed |= !applying::absorb(self, answers, &mut observed);
            } else if changes {
                let answers = applying::write(self, actor, &plan).await;
                failed |= !applying::absorb(self, answers, &mut observed);
            }
            if !changes {
                externals::keep(self.target, actor, &plan.wanted, self.key);
                let outcome = Outcome { failed, mirrored };
                return self.settle(served, actor, &plan, outcome).await;
            }
        }
        self.target.queue.add(self.key.clone());
        Ok(())
    }

    /// Names the instance as the owner of its children where the definition asks for it. In a spoke the mirror is the owner: it is
    /// made first, and what came of that is returned.
    async fn own(
        &mut self,
        served: &Served,
        observed: &mut Observed,
    ) -> Result<Option<Result<(), Pause>>, Pause> {
        if !served.grant.owns() {
            return Ok(None);
        }
        // What was made in a spoke has the same uid there.
        if self.target.sort != TargetSort::Mirrored || origin::is_of_spoke(&self.instance) {
            observed.owned_by(&self.memory.uid);
            return Ok(None);
        }
        let mirrored = self.mirror(served).await?;
        self.note_mirror(mirrored);
        if self.memory.mirror_uid.is_empty() {
            return Err(Pause::Watch);
        }
        observed.owned_by(&self.memory.mirror_uid);
        Ok(Some(Ok(())))
    }

    async fn mirror(&self, served: &Served) -> Result<Option<Mirrored>, Pause> {
        match self.target.sort {
            TargetSort::Mirrored if origin::is_of_spoke(&self.instance) => Ok(None),
            TargetSort::Mirrored => mirror::apply(self, served).await.map(Some),
            TargetSort::Embedded | TargetSort::Root => Ok(None),
        }
    }

    fn note_mirror(&mut self, mirrored: Option<Mirrored>) {
        self.memory.mirror = mirrored.as_ref().map(|mirrored| mirrored.digest);
        // Nothing is known by what is no uid, and what is known is not forgotten for it.
        if let Some(mirrored) = mirrored.filter(|mirrored| origin::is_uid(&mirrored.uid)) {
            self.memory.mirror_uid = mirrored.uid;
        }
    }

    fn observe(&self, served: &Served) -> Observed {
        let mut observed = Observed::new();
        for (_, child) in self.target.children.of(self.key) {
            if let Ok(live) = child.object.value() {
                observed.child(Arc::new(live));
            }
        }
        for (reference, applied) in &self.memory.applied {
            observed.applied(reference, *applied);
        }
        for (reference, uid) in &self.memory.claims {
            observed.claimed(reference, uid);
        }
        if served.grant.adopts() {
            observed.take_over();
        }
        observed
    }

    /// Plans, and answers what the plan wants to know of external objects, and of objects that it
    /// would make and others have, until it asks nothing new.
    async fn plan(
        &mut self,
        served: &Served,
        actor: &Actor,
        observed: &mut Observed,
    ) -> Result<Plan, Pause> {
        let mut answered = 0;
        let mut shown: HashSet<ObjectRef> = HashSet::new();
        loop {
            let input = PlanInput {
                instance: &self.instance,
                observed,
                settings: &self.chosen.settings,
            };
            let plan = match served.graph.plan_quickly(&input) {
                Some(plan) => plan,
                None => self.plan_aside(served, observed).await?,
            };
            let others = self.of_others(&plan, &mut shown);
            if plan.wanted.len() <= answered && others.is_empty() {
                return Ok(plan);
            }
            self.met_foreign |= !others.is_empty();
            for live in others {
                observed.child(live);
            }
            answered = plan.wanted.len();
            for wanted in &plan.wanted {
                match externals::read(self.target, actor, wanted, self.key) {
                    Found::Waiting => {}
                    Found::Refused(reason) => {
                        // Nobody tells when the right is given.
                        self.met_foreign = true;
                        observed.external_failed(wanted, reason);
                    }
                    Found::Objects(objects) => observed.external(wanted, objects),
                }
            }
        }
    }

    /// Plans on a thread that serves nobody: expressions may take a second. Targets take turns, and one has one turn at a
    /// time, so that the expressions of one are in the way of its own instances alone.
    async fn plan_aside(&self, served: &Served, observed: &Observed) -> Result<Plan, Pause> {
        let ended = |_closed| Pause::Watch;
        let _own = self.target.planning.acquire().await.map_err(ended)?;
        let _turn = self.engine.planning.acquire().await.map_err(ended)?;
        let (graph, chosen) = (Arc::clone(&served.graph), Arc::clone(&self.chosen));
        let (instance, seen) = (self.instance.clone(), observed.clone());
        let planned = self.engine.tasks.spawn_blocking("plan", move || {
            graph.plan(&PlanInput {
                instance: &instance,
                observed: &seen,
                settings: &chosen.settings,
            })
        });
        planned
            .await
            .map_err(|error| Pause::Failure(format!("the plan was not made: {error}")))
    }

    /// Finds what a plan would make and another instance has; each object once.
    fn of_others(&self, plan: &Plan, shown: &mut HashSet<ObjectRef>) -> Vec<Arc<Value>> {
        let new = plan.changes().filter(|it| it.change == Change::Create);
        new.filter_map(|apply| {
            let live = self.target.children.find(&apply.reference)?;
            let first = shown.insert(apply.reference.clone());
            live.value().ok().filter(|_| first).map(Arc::new)
        })
        .collect()
    }

    async fn settle(
        &mut self,
        served: &Served,
        actor: &Actor,
        plan: &Plan,
        Outcome { failed, mirrored }: Outcome,
    ) -> Result<(), Pause> {
        let pruned = if failed {
            Ok(())
        } else {
            applying::prune(self, (served, actor), plan).await
        };
        if !failed && pruned.is_ok() && plan.prune_allowed() {
            ledger::after(self, actor, plan).await?;
            brake::settled(self, served);
        } else {
            ledger::confirm(self).await?;
        }
        ledger::note_held(self).await?;
        ledger::name_mirror(self, actor).await?;
        let failed_nodes = plan.nodes.iter().filter(|it| it.state == NodeState::Error);
        self.error = failed_nodes.map(|it| it.reason).next();
        let now = Engine::now();
        let mut wanted = served.graph.status(&self.instance, plan, &now);
        served.graph.tell_revision(&mut wanted, served.revision);
        // What is not part of the plan is told with it.
        let beside = [Some(&pruned), mirrored.as_ref()];
        for outcome in beside.into_iter().flatten() {
            match outcome {
                Ok(()) | Err(Pause::Watch) => {}
                Err(Pause::Failure(reason) | Pause::Settled(reason)) => {
                    wanted = status::with_failure(&self.instance, wanted, reason);
                }
                Err(Pause::Unconfirmed(question)) => {
                    wanted = status::with_question(&self.instance, wanted, question);
                    let nodes = applying::unwanted_nodes(self, plan);
                    let graph = &served.graph;
                    graph.tell_held(&mut wanted, &self.instance, &nodes, question, &now);
                }
            }
        }
        status::write(self, wanted).await?;
        let written = mirrored.unwrap_or(Ok(()));
        let own = [pruned, written].into_iter().filter_map(Result::err);
        Pause::first_of(own.chain(self.left_of(plan, failed)))
    }

    /// Tells what of a plan is still to be done.
    fn left_of(&self, plan: &Plan, failed: bool) -> Option<Pause> {
        if failed {
            return Some(Pause::Failure("an apply failed".to_owned()));
        }
        if let Some(reason) = plan.failure.clone() {
            // Expression errors are deterministic; conflicts with other owners can clear without an event.
            return Some(if plan.is_hopeless && !self.met_foreign {
                Pause::Settled(reason)
            } else {
                Pause::Failure(reason)
            });
        }
        let is_waiting = self.met_foreign && !plan.prune_allowed();
        is_waiting.then(|| Pause::Failure("another writer has an object of this name".to_owned()))
    }
}
