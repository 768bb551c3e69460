//! Several replicas share the fleet: one does what is done once for all, and each looks after some of the spokes.
//!
//! ```text
//!  replica ── renews every second ──► Lease wheelhouse-replica-ID
//!     │                                     │ not changed for 7 s: whoever sees it sends the replica away
//!     │  members, spokes, holders           ▼
//!     └──► plan ──► take what nobody has: Lease wheelhouse-spoke-NAME ──► term ──► target, status of the Spoke
//!               └─► let go what is to be another's
//! ```
//!
//! Each replica makes the plan by itself, from what it sees ([`plan`]). Where two see different things, the Lease of the
//! spoke decides: it is written with the version that was read. Its latest version is the term, which the hub compares in the
//! commit of each write ([`client::FENCE_HEADER`]).
//!
//! # Invariants
//! - A replica writes for a spoke only within [`member::RENEW_DEADLINE`] of when it last began to renew its own Lease, by each of
//!   its clocks; others take over only once that Lease has not changed for [`member::LEASE_DURATION`] on theirs.
//! - Who takes over sends the other away first, with the version of its Lease that has not changed. So a replica that comes
//!   back finds its Lease gone, and begins anew under another name, with nothing that it remembers.
//! - One replica alone has no Leases, and pays nothing for any of this.
//!
//! Source: `client-go/tools/leaderelection`; rendezvous hashing with bounded load.

mod lease;
mod member;
mod metrics;
mod plan;
mod view;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use api::LogicalCluster;
use client::{Term, reflector};
use futures::{StreamExt as _, stream};
use tasks::{OnPanic, Shutdown, Tasks};
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval, sleep, timeout},
};
use tracing::{debug, info, warn};

pub use member::Member;
pub use metrics::{Metrics, ShareMetrics};

use self::{lease::Lease, member::LEASE_DURATION, metrics::Change, view::View};
use crate::{Publication, definitions, engine::Engine, spokes};

/// How often it is looked whether a replica is gone, or failed attempts are repeated.
const TURN_PERIOD: Duration = Duration::from_millis(500);

/// How often the epoch is looked at: it is one number in memory.
const EPOCH_PERIOD: Duration = Duration::from_millis(50);

/// How long controllers get to stop.
const GRACE: Duration = Duration::from_secs(5);

/// How long writes get to end that are under way for a spoke which another replica is to have.
const PARTING_GRACE: Duration = Duration::from_secs(2);

/// Leases that are written at the same time.
const WRITES_MAX: usize = 16;

/// Runs `live` in a group of tasks of its own whenever this replica takes part, and ends that group when it does no more.
/// Ends with `tasks`.
///
/// When `epoch` changes, history was set back: the group ends too, so that controllers begin again without what they
/// remember of the other line.
pub async fn run(
    hub: kube::Client,
    tasks: Tasks,
    metrics: ShareMetrics,
    epoch: impl Fn() -> u64 + Send,
    live: impl Fn(&Tasks, Member) + Send,
) {
    let stop = tasks.child_token();
    while let Some(member) = Member::enter(&hub, metrics.clone(), &stop).await {
        info!(
            name = member.identity,
            "joined the replicas that share the work"
        );
        metrics.begin();
        let group = tasks.subgroup();
        let lost = async {
            member.renewed().await;
            // Nothing more leaves this machine, before anybody is even told.
            member.end();
        };
        let begun = epoch();
        live(&group, member.clone());
        last(&group, changed(&epoch, begun), lost).await;
        metrics.end();
        group.shutdown(GRACE).await;
        member.leave().await;
        if stop.is_cancelled() {
            return;
        }
        warn!(
            name = member.identity,
            "left the replicas that share the work; others take over"
        );
    }
}

/// Runs `live`, in a group of tasks of its own, in the one process of the hub that does what those do once for all: the
/// controllers of the API server. A syncer in a process of its own does not have them. Ends with `tasks`, and beginnings anew are as
/// in [`run`].
pub async fn run_elected(
    hub: kube::Client,
    tasks: Tasks,
    epoch: impl Fn() -> u64 + Send,
    live: impl Fn(&Tasks) + Send,
) {
    let stop = tasks.child_token();
    while let Some(member) = Member::elected(&hub, &stop).await {
        info!(name = member.identity, "running the hub's controllers");
        let group = tasks.subgroup();
        let begun = epoch();
        live(&group);
        last(&group, changed(&epoch, begun), member.renewed()).await;
        group.shutdown(GRACE).await;
        member.leave().await;
        if stop.is_cancelled() {
            return;
        }
        warn!(
            name = member.identity,
            "no longer running the hub's controllers"
        );
    }
}

/// Returns when `group` ends, when history `changed`, or when the Lease is `lost`.
async fn last(group: &Tasks, changed: impl Future<Output = ()>, lost: impl Future<Output = ()>) {
    let ended = group.token();
    tokio::select! {
        biased;
        () = ended.cancelled() => {}
        () = changed => {}
        () = lost => {}
    }
}

/// Waits until no syncer writes any more that shared the fleet, for a hub that is to be looked after without Leases: it refuses those
/// that are still there, which then go on for as long as their Leases are good for.
pub async fn others_ended(hub: &kube::Client, stop: &Shutdown) {
    let leases = lease::Leases::new(hub.clone());
    let mut has_waited = false;
    loop {
        let pause = match leases.replicas().await {
            Ok(left) if left.is_empty() => return,
            Ok(left) if has_waited => {
                for lease in left {
                    if let Err(error) = leases.remove(&lease).await {
                        debug!(
                            error = error.chain(),
                            "cannot remove the lease of a replica"
                        );
                    }
                }
                return;
            }
            Ok(left) => {
                info!(
                    count = left.len(),
                    "waiting until syncers of other processes have stopped"
                );
                has_waited = true;
                LEASE_DURATION
            }
            Err(error) => {
                warn!(error = error.chain(), "cannot see who shared the work");
                TURN_PERIOD
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = sleep(pause) => {}
        }
    }
}

/// Waits until the epoch is another one.
async fn changed(epoch: &(impl Fn() -> u64 + Send), begun: u64) {
    while epoch() == begun {
        sleep(EPOCH_PERIOD).await;
    }
}

/// Takes what is this replica's, and lets go what is not.
struct Sharer {
    engine: Arc<Engine>,
    member: Member,
    publication: Option<Publication>,
    view: View,
}

/// Starts to share. Without it nothing is looked after.
pub(crate) fn start(engine: &Arc<Engine>, member: Member, publication: Option<Publication>) {
    let source = member.leases.source();
    let events = reflector::start(source, &engine.tasks, engine.tasks.child_token());
    let sharer = Sharer {
        engine: Arc::clone(engine),
        member,
        publication,
        view: View::default(),
    };
    // Without it this replica would hold what it does not look after.
    engine
        .tasks
        .spawn_with("sharing", OnPanic::ShutDown, sharer.run(events));
}

// === impl Sharer ===

impl Sharer {
    async fn run(mut self, mut events: mpsc::Receiver<reflector::Event>) {
        let end = self.engine.tasks.child_token();
        let changes = self.engine.spokes.subscribe();
        tokio::select! {
            biased;
            () = end.cancelled() => return,
            // All Spokes are known from then on: one that is not there has gone.
            () = self.engine.spokes.listed() => {}
        }
        let mut turns = interval(TURN_PERIOD);
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = end.cancelled() => break,
                event = events.recv() => match event {
                    Some(event) => self.view.take(event, Instant::now()),
                    None => break,
                },
                _changed = changes.next() => {}
                _now = turns.tick() => {}
            }
            while let Ok(event) = events.try_recv() {
                self.view.take(event, Instant::now());
            }
            self.turn().await;
        }
        for (_, term) in self.engine.shares.terms() {
            term.close(); // what is under way may end
        }
    }

    /// Goes as far as it can go now.
    async fn turn(&mut self) {
        let member = &self.member;
        if !self.view.is_listed() || !member.holds() {
            return;
        }
        self.lose();
        let expired = self.view.expired(LEASE_DURATION, Instant::now());
        for lease in expired {
            if lease.holder != self.member.identity {
                self.send_away(lease).await;
            }
        }
        let members = self.view.members();
        let holders = self.view.holders();
        let all = self.engine.spokes.names();
        let plan = plan::assign(&members, &all, &holders);
        let me = &self.member.identity;
        let is_mine = |cluster: &LogicalCluster| plan.get(cluster) == Some(me);
        let held: BTreeSet<LogicalCluster> = self.engine.shares.terms().into_keys().collect();
        let leaving = held.iter().filter(|it| !it.is_root() && !is_mine(it));
        let leaving: Vec<LogicalCluster> = leaving.cloned().collect();
        let root = LogicalCluster::root();
        let leads = plan::first(&members, &root) == Some(me);
        let wanted = all.iter().filter(|it| is_mine(it));
        let wanted = wanted.chain(leads.then_some(&root));
        let wanted: Vec<LogicalCluster> = wanted
            .filter(|&it| !held.contains(it) && holders.get(it).is_none_or(|it| it == me))
            .cloned()
            .collect();
        let done: Vec<Lease> = stream::iter(leaving)
            .map(|cluster| self.let_go(cluster))
            .buffer_unordered(WRITES_MAX)
            .filter_map(std::future::ready)
            .collect()
            .await;
        let taken: Vec<Lease> = stream::iter(wanted)
            .map(|cluster| self.take(cluster))
            .buffer_unordered(WRITES_MAX)
            .filter_map(std::future::ready)
            .collect()
            .await;
        for lease in done.into_iter().chain(taken) {
            self.view.put(lease, Instant::now());
        }
        let held: BTreeSet<LogicalCluster> = self.engine.shares.terms().into_keys().collect();
        let leads = held.contains(&root);
        if self.member.holds() {
            let spoke_count = held.len() - usize::from(leads);
            self.member.metrics.have(spoke_count, leads);
        }
        if leads {
            self.remove_needless(&all).await;
        }
    }

    /// Ends the terms that others have taken, and notes what was written to the Leases of the others meanwhile.
    fn lose(&self) {
        let me = &self.member.identity;
        for (cluster, term) in self.engine.shares.terms() {
            match self.view.lease(&cluster) {
                Some(lease) if lease.holder == *me => {
                    term.note_fence(&lease.name, &lease.revision.to_string());
                }
                Some(_) | None => {
                    warn!(%cluster, "another replica looks after a cluster");
                    self.member.metrics.count(Change::Lost);
                    self.end(&cluster, &term);
                }
            }
        }
    }

    fn end(&self, cluster: &LogicalCluster, term: &Term) {
        term.end();
        self.engine.shares.end(cluster);
        self.engine.fleet.disconnect(cluster);
        self.engine.spoke_queue.add(cluster.clone());
        definitions::changed_hands(&self.engine, cluster);
        if cluster.is_root() {
            // What is done once for the fleet ends with everything else, and begins anew.
            self.engine.tasks.token().cancel();
        }
    }

    /// Sends a replica away whose Lease has not changed for too long.
    async fn send_away(&mut self, lease: Lease) {
        let leases = self.member.leases.clone();
        let sent_away = if lease.holder.is_empty() {
            Ok(lease.clone())
        } else {
            leases.hand(&lease, "").await
        };
        match sent_away {
            Ok(gone) => {
                warn!(
                    name = lease.holder,
                    "a replica is gone: its work is taken over"
                );
                if let Err(error) = leases.remove(&gone).await {
                    debug!(
                        error = error.chain(),
                        "cannot remove the lease of a replica"
                    );
                }
                self.view.put(gone, Instant::now());
            }
            // It is there after all, or another replica was first.
            Err(error) => debug!(error = error.chain(), "cannot send a replica away"),
        }
    }

    /// Lets others have a spoke, once nothing is under way for it. Returns its Lease.
    async fn let_go(&self, cluster: LogicalCluster) -> Option<Lease> {
        let term = self.engine.shares.term(&cluster)?;
        term.close();
        if timeout(PARTING_GRACE, term.settled()).await.is_err() {
            debug!(%cluster, "writes under way are cancelled");
        }
        let lease = self.view.lease(&cluster).cloned();
        self.end(&cluster, &term);
        let leases = &self.member.leases;
        let handed = leases.hand(&lease?, "").await;
        match handed {
            Ok(lease) => {
                info!(%cluster, "left a cluster to another replica");
                self.member.metrics.count(Change::Left);
                Some(lease)
            }
            Err(error) => {
                warn!(%cluster, error = error.chain(), "cannot leave a cluster to another replica");
                None
            }
        }
    }

    /// Looks after a logical cluster that nobody looks after. Returns its Lease.
    async fn take(&self, cluster: LogicalCluster) -> Option<Lease> {
        let member = &self.member;
        let taken = if let Some(lease) = self.view.lease(&cluster) {
            member.leases.hand(lease, &member.identity).await
        } else {
            let name = lease::name_of(&cluster);
            member.leases.create(&name, &member.identity, None).await
        };
        let lease = match taken {
            Ok(lease) => lease,
            Err(error) if error.is_conflict() || error.is_already_exists() => return None,
            Err(error) => {
                warn!(%cluster, error = error.chain(), "cannot take a cluster over");
                return None;
            }
        };
        // What another replica wrote last is to be known before anything is decided.
        if let Err(error) = definitions::claims::reload(&self.engine, &cluster).await {
            warn!(%cluster, error = error.chain(), "cannot read which definitions hold which kinds");
            return member.leases.hand(&lease, "").await.ok();
        }
        let term = member.term();
        term.note_fence(&lease.name, &lease.revision.to_string());
        self.engine.shares.begin(cluster.clone(), term);
        info!(%cluster, transitions = lease.transitions, "looking after a cluster");
        member.metrics.count(Change::Taken);
        if cluster.is_root() {
            info!("started leading: this syncer does what is done once for the fleet");
            crate::start_for_fleet(&self.engine, self.publication.clone());
        }
        spokes::taken(&self.engine, &cluster);
        definitions::changed_hands(&self.engine, &cluster);
        Some(lease)
    }

    /// Removes the Leases of Spokes that are gone.
    async fn remove_needless(&self, spokes: &BTreeSet<LogicalCluster>) {
        let holders = self.view.holders();
        let needless = self.view.clusters().filter(|&(cluster, _)| {
            !cluster.is_root() && !spokes.contains(cluster) && !holders.contains_key(cluster)
        });
        for (cluster, lease) in needless {
            if let Err(error) = self.member.leases.remove(lease).await {
                debug!(%cluster, error = error.chain(), "cannot remove the lease of a spoke");
            }
        }
    }
}
