//! Takes up what callers hand over, and sees each batch through to its answer.
//!
//! Batches are in flight together, but two that write one key follow each other in the order in which
//! they were handed over. A batch is answered when this replica's own watch has told of it.
//!
//! # Invariants
//! - No transaction happens twice: one without an answer is sent again only after it is certain that the first never
//!   happens ([`super::fates`]). Where that cannot be told in time, it is said so.
//! - At most [`IN_FLIGHT_MAX`] batches are in flight; the rest waits in the queue, which refuses
//!   when it is full.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::Instrument as _;

use super::failure::Failure;
use super::fates::{Fate, Ticket};
use super::layout::Layout;
use super::shared::{Live, Shared};
use super::transaction::{draw, lost_its_ticket, refusal, request};
use crate::answer::Responder;
use crate::entry::Entry;
use crate::error::Error;
use crate::key::{Key, KeyRange};
use crate::revision::Revision;
use crate::store::{Change, Committed, RangeQuery, Write};

/// Batches and reads that wait. Full: writes are refused.
pub(crate) const QUEUE_COUNT_MAX: usize = 8192;

/// Batches that are sent and not answered. The queue waits.
const IN_FLIGHT_MAX: usize = 512;

/// Readers that are answered by one question to etcd.
const READERS_MAX: usize = 4096;

/// What a caller wants.
#[derive(Debug)]
pub(crate) enum Command {
    Commit(Vec<Write>, Responder<Committed>),
    Fresh(Responder<Revision>),
    Compact(Revision, Responder<Revision>),
}

/// The end of the queue that works.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) commands: mpsc::Receiver<Command>,
    pub(crate) committing: Committing,
}

/// What it takes to see a batch through.
#[derive(Clone, Debug)]
pub(crate) struct Committing {
    pub(crate) shared: Arc<Shared>,
    pub(crate) layout: Layout,
    /// How long a caller waits at most.
    pub(crate) deadline: Duration,
}

/// What came of sending a batch.
#[derive(Debug)]
enum Attempt {
    /// This is its answer.
    Over(Result<Committed, Error>),
    /// Nothing was written, for this reason; it may be sent again.
    Again(Error),
}

/// The latest batch in flight that writes a key.
#[derive(Debug)]
struct Tail {
    number: u64,
    done: oneshot::Receiver<()>,
}

/// The batches in flight, by the keys that they write.
#[derive(Debug, Default)]
struct Tails {
    by_key: HashMap<Key, Tail>,
    number: u64,
}

/// A batch's place behind others.
#[derive(Debug)]
struct Place {
    number: u64,
    keys: Vec<Key>,
    before: Vec<oneshot::Receiver<()>>,
    /// Dropped when the batch is over.
    done: Vec<oneshot::Sender<()>>,
}

// === impl Writer ===

impl Writer {
    /// Works until the queue is closed and everything taken up is answered.
    pub(crate) async fn run(mut self) {
        let mut tails = Tails::default();
        let mut batches = JoinSet::new();
        let mut others = JoinSet::new();
        let (readers, waiting) = mpsc::channel(READERS_MAX);
        others.spawn(answer_readers(self.committing.clone(), waiting));
        loop {
            tokio::select! {
                biased;
                Some(over) = batches.join_next() => tails.leave(over),
                Some(_) = others.join_next(), if others.len() > 1 => {}
                command = self.commands.recv(), if batches.len() < IN_FLIGHT_MAX => match command {
                    Some(Command::Commit(writes, responder)) => {
                        let place = tails.enter(&writes);
                        batches.spawn(commit(self.committing.clone(), place, writes, responder));
                    }
                    Some(Command::Fresh(responder)) => {
                        if let Err(refused) = readers.try_send(responder) {
                            refused.into_inner().send(Err(Error::Full));
                        }
                    }
                    Some(Command::Compact(floor, responder)) => {
                        let committing = self.committing.clone();
                        others.spawn(async move {
                            responder.send(committing.compact(floor).await);
                        });
                    }
                    None => break,
                },
            }
        }
        drop(readers);
        while batches.join_next().await.is_some() {}
        while others.join_next().await.is_some() {}
    }
}

async fn commit(
    committing: Committing,
    place: Place,
    writes: Vec<Write>,
    responder: Responder<Committed>,
) -> (u64, Vec<Key>) {
    let Place {
        number,
        keys,
        before,
        done,
    } = place;
    for earlier in before {
        // It is over when its end is dropped.
        drop(earlier.await);
    }
    let span = tracing::debug_span!("commit", write_count = writes.len());
    responder.send(committing.commit(&writes).instrument(span).await);
    drop(done);
    (number, keys)
}

/// Asks etcd once for all who ask meanwhile.
async fn answer_readers(committing: Committing, mut waiting: mpsc::Receiver<Responder<Revision>>) {
    let mut readers = Vec::new();
    while waiting.recv_many(&mut readers, READERS_MAX).await > 0 {
        let revision = committing.fresh().await;
        for reader in readers.drain(..) {
            reader.send(revision.clone());
        }
    }
}

// === impl Committing ===

impl Committing {
    /// Sends a batch until it is known what became of it.
    async fn commit(&self, writes: &[Write]) -> Result<Committed, Error> {
        let began = Instant::now();
        let until = began.checked_add(self.deadline).unwrap_or(began);
        let mut failure = None;
        loop {
            let live = match (self.shared.connected(until).await, failure) {
                (Ok(live), None) => live,
                (Ok(live), Some(_)) if Instant::now() < until => live,
                (Err(error), None) => return Err(error),
                (_, Some(failure)) => return Err(failure),
            };
            match self.attempt(&live, writes, until).await {
                Attempt::Over(outcome) => return outcome,
                Attempt::Again(error) => failure = Some(error),
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// Sends a batch over a connection, and finds out what became of it.
    async fn attempt(&self, live: &Live, writes: &[Write], until: Instant) -> Attempt {
        let drawn = live.connection_ticket.current();
        let ticket = match drawn.get_or_try_init(|| self.draw(live, until)).await {
            Ok(ticket) => ticket,
            Err(Error::Unavailable { source }) => {
                return Attempt::Again(Error::Unavailable { source });
            }
            Err(error) => return Attempt::Over(Err(error)),
        };
        let Some(pending) = self.shared.fates.send(live.session) else {
            return Attempt::again(Failure::NotYet);
        };
        let marking = (ticket, pending.mark);
        let sealing = live.sealing.as_ref();
        let transaction = match request(&self.layout, live.fence, marking, writes, sealing) {
            Ok(transaction) => transaction,
            Err(error) => return Attempt::Over(Err(error)),
        };
        let left = until.saturating_duration_since(Instant::now());
        let began = Instant::now();
        let call = live.client.transact(transaction, left);
        let (number, answer) = match self.shared.answer(live, call).await {
            Ok((header, answer)) => (header.revision, Some(answer)),
            Err(failure) => match failure.of_write() {
                Error::Unknown { source } => match pending.learn(until).await {
                    Fate::Happened(number) => (number, None),
                    Fate::Never => return Attempt::Again(Error::Unavailable { source }),
                    Fate::Unknown => return Attempt::Over(Err(Error::Unknown { source })),
                },
                error => return Attempt::Over(Err(error)),
            },
        };
        let refused = answer.filter(|answer| !answer.succeeded);
        if let Some(answer) = &refused
            && lost_its_ticket(ticket, answer)
        {
            live.connection_ticket.lose(ticket);
            return Attempt::again(Failure::TicketGone);
        }
        let revision = live.fence.revision(number);
        let is_told = self.shared.reached(revision, until).await;
        if refused.is_none() {
            let metrics = &self.shared.metrics;
            metrics.committed(1, writes.len(), began.elapsed());
        }
        Attempt::Over(match &refused {
            None => self.committed(revision, is_told, writes),
            // The refusal's reason cannot be shown yet; nothing was written.
            Some(_) if !is_told => Err(unavailable(Failure::WatchLags { revision: number })),
            Some(answer) => {
                let at = |key: &Key| self.state_at(key, revision);
                Err(refusal(live.fence, writes, answer, at))
            }
        })
    }

    /// Draws the ticket of a connection.
    async fn draw(&self, live: &Live, until: Instant) -> Result<Ticket, Error> {
        let key = self.shared.fates.next_ticket(&self.layout);
        let left = until.saturating_duration_since(Instant::now());
        let transaction = draw(&self.layout, live.fence, &key);
        let call = live.client.transact(transaction, left);
        match self.shared.answer(live, call).await {
            Ok((header, answer)) if answer.succeeded => Ok(Ticket {
                key,
                created: header.revision,
            }),
            Ok(_) => Err(unavailable(Failure::EpochChanged)),
            Err(failure) => Err(match failure.of_write() {
                // Of the batch nothing was sent.
                Error::Unknown { source } => Error::Unavailable { source },
                error => error,
            }),
        }
    }

    fn committed(
        &self,
        revision: Revision,
        is_told: bool,
        writes: &[Write],
    ) -> Result<Committed, Error> {
        let entries = self.shared.view().changes(revision);
        let changes = writes
            .iter()
            .filter(|write| !matches!(write.change, Change::Keep));
        if !is_told || entries.len() != changes.count() {
            return Err(Error::Unknown {
                source: Arc::new(Failure::WatchLags {
                    revision: i64::try_from(revision.number()).unwrap_or(i64::MAX),
                }),
            });
        }
        Ok(Committed { revision, entries })
    }

    /// Finds out what the latest revision is, and waits until reads see it.
    async fn fresh(&self) -> Result<Revision, Error> {
        let began = Instant::now();
        let until = began.checked_add(self.deadline).unwrap_or(began);
        let mut failure = Failure::NotYet;
        // A read may be asked again.
        while Instant::now() < until {
            let live = self.shared.connected(until).await?;
            let left = until.saturating_duration_since(Instant::now());
            let identity = self.layout.store();
            let call = live.client.get(&identity, left);
            let latest = match self.shared.answer(&live, call).await {
                Ok((header, _)) => live.fence.revision(header.revision),
                Err(failed) => {
                    failure = failed;
                    // The session notices too, and looks for another member.
                    tokio::time::sleep(RETRY_PAUSE).await;
                    continue;
                }
            };
            if self.shared.reached(latest, until).await {
                return Ok(latest.max(self.shared.view().revision()));
            }
            failure = Failure::WatchLags {
                revision: i64::try_from(latest.number()).unwrap_or(i64::MAX),
            };
        }
        Err(unavailable(failure))
    }

    async fn compact(&self, floor: Revision) -> Result<Revision, Error> {
        let began = Instant::now();
        let until = began.checked_add(self.deadline).unwrap_or(began);
        let live = self.shared.connected(until).await?;
        let view = self.shared.view();
        let floor = floor.min(view.revision());
        if floor > view.floor() {
            let number = live.fence.number(floor);
            let call = live.client.compact(number, self.deadline);
            let done = self.shared.answer(&live, call).await;
            done.map_err(Failure::of_write)?;
            self.shared.metrics.compactions.inc();
            view.raise_floor(floor);
            while !view.forget(FORGOTTEN_AT_ONCE).is_empty() {
                tokio::task::yield_now().await;
            }
        }
        Ok(view.floor())
    }

    fn state_at(&self, key: &Key, revision: Revision) -> Option<Entry> {
        let query = RangeQuery::of(KeyRange::exact(key.clone())).at(revision);
        let range = self.shared.view().range(&query).ok()?;
        range.entries.into_iter().next()
    }
}

// === impl Attempt ===

impl Attempt {
    fn again(failure: Failure) -> Self {
        Self::Again(unavailable(failure))
    }
}

fn unavailable(failure: Failure) -> Error {
    Error::Unavailable {
        source: Arc::new(failure),
    }
}

/// The pause before etcd is asked again.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// Events that are forgotten under one lock.
pub(crate) const FORGOTTEN_AT_ONCE: usize = 1024;

// === impl Tails ===

impl Tails {
    /// Gives a batch its place behind those that write the same keys.
    fn enter(&mut self, writes: &[Write]) -> Place {
        self.number = self.number.saturating_add(1);
        let mut place = Place {
            number: self.number,
            keys: Vec::with_capacity(writes.len()),
            before: Vec::new(),
            done: Vec::with_capacity(writes.len()),
        };
        // What is kept is changed by nobody's batch before or after.
        let changed = |write: &&Write| !matches!(write.change, Change::Keep);
        for write in writes.iter().filter(changed) {
            let (sender, done) = oneshot::channel();
            let tail = Tail {
                number: self.number,
                done,
            };
            let earlier = self.by_key.insert(write.key.clone(), tail);
            place.before.extend(earlier.map(|tail| tail.done));
            place.done.push(sender);
            place.keys.push(write.key.clone());
        }
        place
    }

    /// Forgets a batch that is over.
    fn leave(&mut self, over: Result<(u64, Vec<Key>), tokio::task::JoinError>) {
        let Ok((number, keys)) = over else {
            tracing::error!("a commit to etcd panicked");
            return;
        };
        for key in keys {
            if self
                .by_key
                .get(&key)
                .is_some_and(|tail| tail.number == number)
            {
                self.by_key.remove(&key);
            }
        }
    }
}
