//! The life of a connection: connect, find out what this etcd is, load or resume, follow.
//!
//! ```text
//!   connect ──► verify ──► resume after what was seen ──┬─► follow ──► (failure) ──► back off ──► connect
//!                 │              │ compacted             │
//!                 └─ load ◄──────┘                       │
//!                      └── replaces the view ────────────┘
//! ```
//!
//! # Invariants
//! - Nothing is written over a connection before what it leads to was verified and reads have
//!   caught up with it.
//! - What was published is never taken back: a state that does not follow from it replaces it in
//!   one step, under a higher floor, and ends all watches.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, sleep};

use super::assembler::{Assembler, Step};
use super::client::{Client, WatchStream};
use super::connection::Endpoint;
use super::envelope::Sealing;
use super::failure::Failure;
use super::fates::Fate;
use super::identity::{Identity, NotAnIdentity};
use super::layout::Layout;
use super::lineage::{Known, Verdict, Witness, judge};
use super::shared::Shared;
use super::transaction::{Fence, put_of, swap, void};
use super::wire::{KeyValue, RangeRequest, RequestOp, WatchResponse};
use crate::entry::Entry;
use crate::error::Cause;
use crate::keyring::Keyring;
use crate::revision::Revision;
use crate::store::Write;
use crate::view::{Snapshot, View};

/// How long a member may take to say what it has. A new leader is elected within 2 s; another
/// member is asked meanwhile.
const VERIFY_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a page of a load may take.
const LOAD_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a quiet connection is tried, and how long the answer may take: a member that was
/// stopped is left within a second.
const PROBE_PERIOD: Duration = Duration::from_millis(300);
const PROBE_TIMEOUT: Duration = Duration::from_millis(700);

/// How long the watch may take to tell what a probe says there is.
const LAG_MAX: Duration = Duration::from_secs(5);

/// How long a revision that somebody waits for may take to be told before progress is asked for,
/// and how often it is asked for. Mostly its own event comes sooner.
const PROGRESS_PERIOD: Duration = Duration::from_millis(5);

/// The pause before the next member is tried: grows from one to the other, half of it random.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// Etcd before this tells progress that is not true (etcd issue 15220).
const VERSION_MIN: (u32, u32, u32) = (3, 5, 8);

/// What a session needs.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) shared: Arc<Shared>,
    pub(crate) layout: Layout,
    pub(crate) keyring: Option<Arc<Keyring>>,
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) mark: Option<fn(Revision) -> Write>,
    /// What was seen, by this process or one before it; where the keeper looks.
    pub(crate) known: watch::Sender<Option<Known>>,
    /// Reports the outcome of the first load.
    pub(crate) opened: watch::Sender<Option<Result<(), Arc<Failure>>>>,
}

/// A watch, and what is made of it.
#[derive(Debug)]
struct Follower {
    stream: WatchStream,
    assembler: Assembler,
    /// The latest write that it has told of while it was loaded.
    witness: Option<Witness>,
}

/// What was found out about an etcd.
#[derive(Debug)]
struct Standing {
    identity: Identity,
    fence: Fence,
    /// The latest revision.
    latest: i64,
    resumes: bool,
}

// === impl Session ===

impl Session {
    /// Keeps a connection until it is told to stop.
    pub(crate) async fn run(self, mut stop: watch::Receiver<bool>) {
        let stopped = async {
            drop(stop.wait_for(|stop| *stop).await);
        };
        tokio::select! {
            biased;
            () = stopped => {}
            () = self.keep() => {}
        }
        self.shared.set_down(Arc::new(Failure::NotYet));
    }

    async fn keep(&self) {
        let mut turn = rand::random_range(0..self.endpoints.len().max(1));
        let mut pause = PAUSE_MIN;
        loop {
            let sessions = self
                .shared
                .sessions
                .load(std::sync::atomic::Ordering::Relaxed);
            let Some(endpoint) = self.endpoints.iter().cycle().nth(turn) else {
                return;
            };
            let failure = match self.live(endpoint).await {
                Ok(never) => match never {},
                Err(failure) => Arc::new(failure),
            };
            turn = turn.wrapping_add(1) % self.endpoints.len().max(1);
            self.report(endpoint, &failure);
            self.shared.set_down(Arc::clone(&failure) as Cause);
            let was_live = self
                .shared
                .sessions
                .load(std::sync::atomic::Ordering::Relaxed)
                > sessions;
            if was_live {
                pause = PAUSE_MIN;
            }
            sleep(pause.mul_f64(rand::random_range(0.5..1.0))).await;
            pause = pause.saturating_mul(2).min(PAUSE_MAX);
        }
    }

    fn report(&self, endpoint: &Endpoint, failure: &Arc<Failure>) {
        let is_opening = self.opened.borrow().is_none();
        let error = chain(failure);
        if is_opening && failure.is_final() {
            self.opened.send_replace(Some(Err(Arc::clone(failure))));
        } else if failure.is_final() {
            tracing::error!(endpoint = %endpoint.uri, error, "cannot serve the store in etcd");
        } else {
            tracing::warn!(endpoint = %endpoint.uri, error, "connection to etcd failed");
        }
    }

    async fn live(&self, endpoint: &Endpoint) -> Result<Infallible, Failure> {
        let mut tasks = JoinSet::new();
        let client = Client::new(endpoint.connect(&mut tasks).await?, endpoint);
        let mut standing = self.verify(&client).await?;
        // From here on nothing happens that was sent over an earlier connection, and nothing is sent over it.
        self.shared.fates.close();
        let tickets = self.shared.fates.tickets(&self.layout);
        let (voided, _) = client.transact(void(&tickets), VERIFY_TIMEOUT).await?;
        standing.latest = standing.latest.max(voided.revision);
        let resumed = if standing.resumes {
            self.resume(&client, &standing).await
        } else {
            Ok(None)
        };
        let (follower, untold) = match resumed {
            Ok(Some(follower)) => (follower, Fate::Never),
            Ok(None) => (self.load(&client, &standing).await?, Fate::Unknown),
            Err(Failure::Compacted { revision }) => {
                tracing::warn!(
                    revision,
                    "etcd compacted revisions that were missed: loading everything again"
                );
                (self.load(&client, &standing).await?, Fate::Unknown)
            }
            Err(failure) => return Err(failure),
        };
        let sealing = self.sealing(&standing.identity);
        self.shared
            .set_up(client.clone(), standing.fence, sealing, untold);
        if self.opened.borrow().is_none() {
            warn_of_old_versions(&client).await;
            self.opened.send_replace(Some(Ok(())));
        }
        tracing::info!(
            endpoint = %endpoint.uri,
            revision = self.shared.view().revision().0,
            resumed = standing.resumes,
            "connected to etcd"
        );
        self.follow(&client, follower, standing.fence).await
    }

    /// Finds out whether this etcd is the one that was served; makes the store where there is none,
    /// and begins an epoch where history was set back.
    async fn verify(&self, client: &Client) -> Result<Standing, Failure> {
        let key = self.layout.store();
        loop {
            let (header, found) = client.get(&key, VERIFY_TIMEOUT).await?;
            let identity = found.as_ref().map(|kv| decode(&kv.value)).transpose()?;
            let known = self.known.borrow().clone();
            let witness = known.as_ref().and_then(|known| known.witness.as_ref());
            let holds = match witness {
                Some(witness) if witness.revision <= header.revision => {
                    holds(client, witness).await?
                }
                _ => true,
            };
            let verdict = judge(known.as_ref(), identity.as_ref(), header.revision, holds);
            let next = match (verdict, &found, identity) {
                (Verdict::Resume | Verdict::Load, Some(kv), Some(identity)) => {
                    let fence = Fence {
                        epoch: identity.epoch,
                        written: kv.mod_revision,
                    };
                    return Ok(Standing {
                        identity,
                        fence,
                        latest: header.revision,
                        resumes: verdict == Verdict::Resume && self.is_loaded(),
                    });
                }
                (Verdict::Create, ..) => Some(Identity::new()),
                (Verdict::Raise(epoch), _, Some(identity)) => {
                    tracing::error!(
                        epoch,
                        revision = header.revision,
                        seen = known.as_ref().map_or(0, |known| known.seen),
                        "etcd was set back to the past, a new epoch begins"
                    );
                    identity.in_epoch(epoch)
                }
                _ => {
                    let id = known.map(|known| known.identity.id).unwrap_or_default();
                    return Err(Failure::StoreGone { id });
                }
            };
            let next = next.ok_or_else(|| Failure::Corrupt {
                place: "the store's identity".to_owned(),
                reason: "its number line is at its end".to_owned(),
            })?;
            let written = found.map(|kv| kv.mod_revision);
            // Whoever was first: the next round reads what holds.
            let mut transaction = swap(&key, written, next.encode().into_bytes());
            if let Verdict::Raise(epoch) = verdict {
                transaction.success.extend(self.mark_of(epoch, &next)?);
            }
            client.transact(transaction, VERIFY_TIMEOUT).await?;
        }
    }

    /// What is written together with the beginning of an epoch.
    fn mark_of(&self, epoch: u64, identity: &Identity) -> Result<Option<RequestOp>, Failure> {
        let (Some(mark), Some(start)) = (self.mark, Revision::start_of_epoch(epoch)) else {
            return Ok(None);
        };
        let sealing = self.sealing(identity);
        let put = put_of(&self.layout, &mark(start), sealing.as_ref());
        put.map_err(|error| Failure::Corrupt {
            place: "the mark of a new epoch".to_owned(),
            reason: error.to_string(),
        })
    }

    fn is_loaded(&self) -> bool {
        self.opened.borrow().is_some()
    }

    /// Goes on after what was seen.
    async fn resume(
        &self,
        client: &Client,
        standing: &Standing,
    ) -> Result<Option<Follower>, Failure> {
        let seen = self.known.borrow().as_ref().map_or(0, |known| known.seen);
        let mut follower = self.watch(client, standing, seen).await?;
        while follower.assembler.seen() < standing.latest {
            let response = follower.next(LOAD_TIMEOUT).await?;
            self.publish(&mut follower.assembler, response, self.shared.view())?;
        }
        Ok(Some(follower))
    }

    /// Reads all there is, from the oldest revision that etcd has, and shows it in place of what
    /// was shown.
    async fn load(&self, client: &Client, standing: &Standing) -> Result<Follower, Failure> {
        let fence = standing.fence;
        // The first revision of every etcd, in which there is nothing.
        let mut floor = 1;
        let mut base = Vec::new();
        let (view, mut follower) = loop {
            let start = Snapshot {
                base: std::mem::take(&mut base),
                changes: Vec::new(),
                floor: fence.revision(floor),
                revision: fence.revision(floor),
            };
            let view = View::new(start, self.shared.view().terms_of());
            match self.replay(client, standing, floor, &view).await {
                Ok(follower) => break (view, follower),
                Err(Failure::Compacted { revision }) if revision > floor => {
                    (floor, base) = self.base(client, standing, revision).await?;
                }
                Err(failure) => return Err(failure),
            }
        };
        self.shared.forsake();
        self.shared.view().replace(view);
        self.known.send_replace(Some(Known {
            identity: standing.identity.clone(),
            seen: follower.assembler.seen(),
            witness: follower.witness.take(),
        }));
        Ok(follower)
    }

    /// Reads the state at a revision, or at a later one where history is compacted meanwhile.
    async fn base(
        &self,
        client: &Client,
        standing: &Standing,
        mut floor: i64,
    ) -> Result<(i64, Vec<Entry>), Failure> {
        let records = self.layout.records();
        loop {
            let assembler = self.assembler(standing, floor);
            let mut base = Vec::new();
            let take = |kv: KeyValue| {
                base.extend(assembler.base(&kv)?);
                Ok(())
            };
            match client.range_at(&records, floor, LOAD_TIMEOUT, take).await {
                Ok(()) => return Ok((floor, base)),
                Err(Failure::Compacted { .. }) => {
                    // A watch that begins too early is told where history begins.
                    let mut stream = client.watch(&records, floor, VERIFY_TIMEOUT).await?;
                    floor = loop {
                        let response = deadline(stream.next(), LOAD_TIMEOUT).await?;
                        if response.compact_revision > floor {
                            break response.compact_revision;
                        }
                    };
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Shows a view all that happened after a revision.
    async fn replay(
        &self,
        client: &Client,
        standing: &Standing,
        after: i64,
        view: &View,
    ) -> Result<Follower, Failure> {
        let mut follower = self.watch(client, standing, after).await?;
        while follower.assembler.seen() < standing.latest {
            let response = follower.next(LOAD_TIMEOUT).await?;
            let step = apply(&mut follower.assembler, response, view)?;
            follower.witness = step.witness.or(follower.witness);
        }
        Ok(follower)
    }

    /// Shows what the watch tells, for as long as the connection lives.
    async fn follow(
        &self,
        client: &Client,
        mut follower: Follower,
        fence: Fence,
    ) -> Result<Infallible, Failure> {
        self.shared.wake();
        let probes = self.probe(client, fence);
        tokio::pin!(probes);
        let mut progress = tokio::time::interval(PROGRESS_PERIOD);
        progress.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let wanted = async {
                if !self.shared.is_wanted() {
                    self.shared.wanted.notified().await;
                    progress.reset();
                }
                progress.tick().await;
            };
            tokio::select! {
                biased;
                response = follower.stream.next() => {
                    self.publish(&mut follower.assembler, response?, self.shared.view())?;
                }
                failure = &mut probes => return Err(failure),
                () = wanted => follower.stream.ask_for_progress(),
            }
        }
    }

    /// Asks again and again what the latest revision is: a member that is stopped, cut off or
    /// whose watch hangs is found out so.
    async fn probe(&self, client: &Client, fence: Fence) -> Failure {
        let key = self.layout.store();
        loop {
            sleep(PROBE_PERIOD).await;
            let latest = match client.get(&key, PROBE_TIMEOUT).await {
                Ok((header, _)) => header.revision,
                Err(failure) => return failure,
            };
            let until = Instant::now().checked_add(LAG_MAX);
            let until = until.unwrap_or_else(Instant::now);
            if !self.shared.reached(fence.revision(latest), until).await {
                return Failure::WatchLags { revision: latest };
            }
        }
    }

    async fn watch(
        &self,
        client: &Client,
        standing: &Standing,
        after: i64,
    ) -> Result<Follower, Failure> {
        let range = self.layout.all();
        let start = after.saturating_add(1);
        let stream = client.watch(&range, start, VERIFY_TIMEOUT).await?;
        let assembler = self.assembler(standing, after);
        Ok(Follower {
            stream,
            assembler,
            witness: None,
        })
    }

    fn assembler(&self, standing: &Standing, seen: i64) -> Assembler {
        let sealing = self.sealing(&standing.identity);
        Assembler::new(self.layout.clone(), sealing, standing.fence, seen)
    }

    fn sealing(&self, identity: &Identity) -> Option<Sealing> {
        let keyring = self.keyring.as_ref().map(Arc::clone)?;
        let store = identity.id.clone();
        Some(Sealing { keyring, store })
    }

    /// Shows everybody what the watch tells.
    fn publish(
        &self,
        assembler: &mut Assembler,
        response: WatchResponse,
        view: &View,
    ) -> Result<(), Failure> {
        let Step {
            identity_changed,
            witness,
            marks,
            ..
        } = apply(assembler, response, view)?;
        self.known.send_if_modified(|known| {
            if let Some(known) = known {
                known.seen = assembler.seen();
                known.witness = witness.or_else(|| known.witness.take());
            }
            false
        });
        let fates = &self.shared.fates;
        let tickets = fates.tickets(&self.layout);
        for told in &marks {
            fates.told(&tickets, told);
        }
        self.shared.wake();
        if identity_changed {
            return Err(Failure::EpochChanged);
        }
        Ok(())
    }
}

// === impl Follower ===

impl Follower {
    /// The next answer; asks for progress as long as there is none.
    async fn next(&mut self, within: Duration) -> Result<WatchResponse, Failure> {
        let stream = &mut self.stream;
        let wait = async {
            loop {
                match tokio::time::timeout(PROGRESS_PERIOD, stream.next()).await {
                    Ok(response) => return response,
                    Err(_elapsed) => stream.ask_for_progress(),
                }
            }
        };
        deadline(wait, within).await
    }
}

async fn deadline<T>(
    wait: impl Future<Output = Result<T, Failure>>,
    within: Duration,
) -> Result<T, Failure> {
    let waited = tokio::time::timeout(within, wait).await;
    waited.unwrap_or(Err(Failure::Deadline {
        what: "a watch",
        within,
    }))
}

/// Shows a view what the watch tells.
fn apply(assembler: &mut Assembler, response: WatchResponse, view: &View) -> Result<Step, Failure> {
    let fence = assembler.fence();
    let step = assembler.take(response, |key| view.get(key))?;
    drop(view.publish(&step.entries));
    if let Some(reached) = step.reached {
        view.advance(fence.revision(reached));
    }
    Ok(step)
}

fn decode(value: &[u8]) -> Result<Identity, Failure> {
    Identity::decode(value).map_err(|refused| match refused {
        NotAnIdentity::Newer(found) => Failure::UnknownFormat { found },
        NotAnIdentity::Malformed(reason) => Failure::Corrupt {
            place: "the store's identity in etcd".to_owned(),
            reason: reason.to_owned(),
        },
    })
}

/// Whether etcd still has, at its revision, what was seen there. Where that is compacted it cannot
/// be told, and need not be: to resume is refused then.
async fn holds(client: &Client, witness: &Witness) -> Result<bool, Failure> {
    let request = RangeRequest {
        revision: witness.revision,
        ..RangeRequest::of(&witness.key.as_slice().into())
    };
    match client.range(request, VERIFY_TIMEOUT).await {
        Ok(answer) => Ok(answer
            .kvs
            .first()
            .is_some_and(|kv| Witness::of(&kv.key, kv.mod_revision, &kv.value) == *witness)),
        Err(Failure::Compacted { .. }) => Ok(true),
        Err(failure) => Err(failure),
    }
}

async fn warn_of_old_versions(client: &Client) {
    let status = match client.status(VERIFY_TIMEOUT).await {
        Ok(status) => status,
        Err(failure) => {
            tracing::debug!(error = chain(&failure), "cannot read the version of etcd");
            return;
        }
    };
    let mut numbers = status
        .version
        .split('.')
        .map(|part| part.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    let version = (next(), next(), next());
    if version < VERSION_MIN {
        tracing::warn!(
            version = status.version,
            "etcd before 3.5.8 may tell progress that is not true"
        );
    }
}

/// An error with its causes, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
