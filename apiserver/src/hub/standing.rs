//! Periodically rechecks long-running requests: watches and followed logs, from the hub's store or relayed.
//!
//! A request is authenticated and authorized once, at its beginning. What goes on after that is taken down here with the facts that let
//! it in, and is ended once they are not so any more: the token or certificate has run out, its ServiceAccount is gone, a role binding was
//! taken back, the cluster is another one or none.
//!
//! # Invariants
//! - An answer ends ten seconds after its receiver's right at the latest: [`LOOK_INTERVAL`] for what is known here; for what a spoke knows,
//!   that and [`ASK_INTERVAL`] and [`ASK_TIMEOUT`].
//! - A spoke is asked the same question once in [`ASK_INTERVAL`], however many wait for its answer, and [`ASK_AT_ONCE`] questions at a time.
//!   One that does not answer sends nobody away, and keeps no other spoke's answers waiting.
//! - Controllers of this process are not rechecked.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use api::{LogicalCluster, status::Status};
use futures::StreamExt as _;
use http::request::Parts;
use parking_lot::Mutex;
use tasks::{OnPanic, Tasks};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{Hub, target::no_such_cluster};
use crate::{
    authorize::{Authorized, Held, Judge, Reconsidered},
    refusal::Refusal,
    registry::ClusterKind,
    request::{Credential, Ending, RequestOrigin},
};

/// Between two looks at what is known here. A thousand watches take a few milliseconds.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);
/// Between two rounds of questions to a spoke.
const ASK_INTERVAL: Duration = Duration::from_secs(5);
/// How long an answer of a spoke is waited for.
const ASK_TIMEOUT: Duration = Duration::from_secs(2);
/// Questions to one spoke at a time: as few as are not noticed there.
const ASK_AT_ONCE: usize = 8;
/// How many are looked at before others get the thread.
const CHUNK_COUNT: usize = 64;
/// Below so many entries those that have ended are left to the next look.
const SWEEP_COUNT_MIN: usize = 1024;

/// Everything that goes on.
#[derive(Debug, Default)]
pub(super) struct Standings {
    /// A leaf of the lock order.
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    list: Vec<Arc<Standing>>,
    /// At how many entries those that have ended are taken out: a flood of watches that end at once leaves no more than are open.
    sweep_at: usize,
}

/// One answer that goes on, and what let it.
#[derive(Debug)]
pub(super) struct Standing {
    held: Held,
    credential: Credential,
    /// What the cluster was; `None` for all of them at once.
    kind: Option<ClusterKind>,
    /// Whether it comes from a spoke.
    is_relayed: bool,
    end: CancellationToken,
    /// Why it was ended. Gone with the answer.
    reason: Weak<OnceLock<Box<Status>>>,
}

/// The spokes that are being asked, and when each was asked last.
#[derive(Debug, Default)]
struct Rounds {
    asked_at: BTreeMap<LogicalCluster, Instant>,
    /// Guards the names of those whose round goes on. A leaf of the lock order.
    going_on: Arc<Mutex<BTreeSet<LogicalCluster>>>,
}

// === impl Standings ===

impl Standings {
    /// Takes down a request that will be answered without end, and lets its answer be ended. `drain` ends all of them.
    pub(super) fn enlist(
        &self,
        request: &mut Authorized<Parts>,
        judge: Judge<'_>,
        kind: Option<ClusterKind>,
        drain: &CancellationToken,
    ) {
        if request.context().origin == RequestOrigin::InProcess {
            return;
        }
        let (end, reason) = (drain.child_token(), Arc::default());
        let standing = Arc::new(Standing {
            held: Held::of(request, judge),
            credential: request.context().credential.clone(),
            kind,
            is_relayed: matches!(judge, Judge::Spoke),
            end: end.clone(),
            reason: Arc::downgrade(&reason),
        });
        request.set_ending(Ending::with_reason(end, reason));
        let mut entries = self.entries.lock();
        if entries.list.len() >= entries.sweep_at {
            entries.sweep();
        }
        entries.list.push(standing);
    }

    /// How many go on.
    #[cfg(test)]
    pub(super) fn open_count(&self) -> usize {
        self.open().len()
    }

    fn open(&self) -> Vec<Arc<Standing>> {
        let mut entries = self.entries.lock();
        entries.sweep();
        entries.list.clone()
    }
}

impl Entries {
    fn sweep(&mut self) {
        self.list.retain(|it| it.reason.strong_count() > 0);
        self.sweep_at = self.list.len().saturating_mul(2).max(SWEEP_COUNT_MIN);
    }
}

// === impl Standing ===

impl Standing {
    fn lose(&self, refusal: &Refusal) {
        let status = refusal.status().cloned();
        let status = status.unwrap_or_else(Status::unauthorized);
        tracing::info!(
            cluster = %self.held.info().cluster,
            verb = self.held.info().verb.as_str(),
            resource = self.held.info().resource,
            code = status.code,
            "ending a response whose user may no longer have it",
        );
        if let Some(reason) = self.reason.upgrade() {
            // The first reason counts.
            let _is_first = reason.set(Box::new(status));
        }
        self.end.cancel();
    }
}

// === impl Hub ===

impl Hub {
    /// Starts to look at everything that goes on.
    pub(super) fn start_standings(&self, tasks: &Tasks) {
        let (hub, spawner, shutdown) = (self.clone(), tasks.clone(), tasks.child_token());
        // Without it nobody would ever be sent away: better no hub.
        tasks.spawn_with("standings", OnPanic::ShutDown, async move {
            let mut rounds = Rounds::default();
            loop {
                tokio::select! {
                    biased;
                    () = shutdown.cancelled() => return,
                    () = sleep(LOOK_INTERVAL) => {}
                }
                let for_spokes = hub.look_at_standings().await;
                rounds.start(&hub, for_spokes, &spawner);
            }
        });
    }

    /// Ends what has lost its standing by what is known here, and returns what spokes have to be asked about.
    pub(super) async fn look_at_standings(&self) -> BTreeMap<LogicalCluster, Vec<Arc<Standing>>> {
        let mut for_spokes: BTreeMap<_, Vec<_>> = BTreeMap::new();
        let open = self.parts.standings.open();
        for chunk in open.chunks(CHUNK_COUNT) {
            let now = jiff::Timestamp::now();
            for standing in chunk {
                match self.look_at(standing, now).await {
                    Err(refusal) => standing.lose(&refusal),
                    Ok(None) => {}
                    Ok(Some(cluster)) => {
                        for_spokes
                            .entry(cluster)
                            .or_default()
                            .push(Arc::clone(standing));
                    }
                }
            }
            tokio::task::yield_now().await;
        }
        for_spokes
    }

    /// Returns which spoke is to be asked, if one is; root stands for the host, and for the webhook that knows tokens.
    async fn look_at(
        &self,
        standing: &Standing,
        now: jiff::Timestamp,
    ) -> Result<Option<LogicalCluster>, Refusal> {
        let (info, parts) = (standing.held.info(), &self.parts);
        let is_known_elsewhere = standing.credential.is_known_elsewhere();
        if !is_known_elsewhere
            && !parts
                .authenticator
                .still_good(&standing.credential, now)
                .await
        {
            return Err(Status::unauthorized().into());
        }
        let reconsidered = parts.authorizer.reconsider(&standing.held);
        if let Reconsidered::Lost(refusal) = reconsidered {
            return Err(*refusal);
        }
        let is_of_host = matches!(
            standing.credential,
            Credential::Host(_) | Credential::Reviewed(_)
        );
        let Some(cluster) = info.cluster.one() else {
            return Ok(is_of_host.then(LogicalCluster::root));
        };
        match (standing.kind, parts.registry.cluster_kind(cluster)) {
            (_, None) => return Err(no_such_cluster(info)),
            (was, is) if was != is => {
                let text = format!(
                    "the logical cluster {:?} was replaced; list again",
                    cluster.as_str()
                );
                return Err(Status::expired(text).into());
            }
            _ => {}
        }
        if standing.is_relayed && info.is_resource {
            let (group, version, resource) = (&info.group, &info.version, &info.resource);
            let scope = parts.registry.lookup(cluster, group, version, resource);
            if scope.is_some_and(|scope| scope.is_served()) {
                let text = format!("{resource} are served by the hub from now on, list again");
                return Err(Status::expired(text).into());
            }
        }
        Ok(match reconsidered {
            // Its answers are waited for beside those of spokes.
            Reconsidered::HostDecides => Some(LogicalCluster::root()),
            Reconsidered::SpokeDecides => Some(cluster.clone()),
            _ if is_of_host => Some(LogicalCluster::root()),
            _ => is_known_elsewhere.then(|| cluster.clone()),
        })
    }

    /// Asks one spoke, or the host, about all that it has to say something to.
    async fn ask_about(&self, standings: Vec<Arc<Standing>>) {
        let mut by_question: BTreeMap<String, Vec<Arc<Standing>>> = BTreeMap::new();
        let mut by_token = Vec::new();
        for standing in standings {
            let reconsidered = self.parts.authorizer.reconsider(&standing.held);
            if let Reconsidered::SpokeDecides | Reconsidered::HostDecides = reconsidered {
                let question = standing.held.question();
                let same = by_question.entry(question).or_default();
                same.push(Arc::clone(&standing));
            }
            if standing.credential.is_known_elsewhere() {
                by_token.push(standing);
            }
        }
        let tokens = futures::stream::iter(by_token);
        tokens
            .for_each_concurrent(ASK_AT_ONCE, |standing| async move {
                let authenticator = &self.parts.authenticator;
                let now = jiff::Timestamp::now();
                let asked = authenticator.still_good(&standing.credential, now);
                if timeout(ASK_TIMEOUT, asked).await == Ok(false) {
                    standing.lose(&Status::unauthorized().into());
                }
            })
            .await;
        let questions = futures::stream::iter(by_question.into_values());
        questions
            .for_each_concurrent(ASK_AT_ONCE, |same| async move {
                let Some(first) = same.first() else { return };
                let authorizer = &self.parts.authorizer;
                let asked = async {
                    match authorizer.reconsider(&first.held) {
                        Reconsidered::HostDecides => {
                            authorizer.reconsider_at_host(&first.held).await
                        }
                        _ => authorizer.reconsider_at_spoke(&first.held).await,
                    }
                };
                if let Ok(Err(refusal)) = timeout(ASK_TIMEOUT, asked).await {
                    for standing in &same {
                        standing.lose(&refusal);
                    }
                }
            })
            .await;
    }
}

// === impl Rounds ===

impl Rounds {
    /// Begins a round at each spoke whose last one is over and long enough ago.
    fn start(
        &mut self,
        hub: &Hub,
        for_spokes: BTreeMap<LogicalCluster, Vec<Arc<Standing>>>,
        tasks: &Tasks,
    ) {
        let now = Instant::now();
        self.asked_at
            .retain(|_, at| now.duration_since(*at) < ASK_INTERVAL);
        for (cluster, standings) in for_spokes {
            if self.asked_at.contains_key(&cluster) {
                continue;
            }
            if !self.going_on.lock().insert(cluster.clone()) {
                continue;
            }
            self.asked_at.insert(cluster.clone(), now);
            let going_on = Arc::clone(&self.going_on);
            let (hub, round) = (hub.clone(), Round { going_on, cluster });
            tasks.spawn("standings at a spoke", async move {
                hub.ask_about(standings).await;
                drop(round);
            });
        }
    }
}

/// A round that goes on; the next one may begin once it is dropped, however it ended.
struct Round {
    going_on: Arc<Mutex<BTreeSet<LogicalCluster>>>,
    cluster: LogicalCluster,
}

impl Drop for Round {
    fn drop(&mut self) {
        self.going_on.lock().remove(&self.cluster);
    }
}
