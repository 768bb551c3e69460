//! What is done now and then: history that is old enough goes, here and in etcd, and what was seen
//! is kept.
//!
//! Etcd is compacted by one replica: in each round every replica tries to write its name under the
//! number that it has read in the round before; who succeeds compacts at the revision that was the
//! latest one then. So everything stays for one round at least, and for two at most, however many
//! replicas there are. The same replica takes away the tickets ([`super::fates`]) under which nothing was written for
//! as long: most are of processes that died. Who lives draws another one.
//!
//! An etcd that has no space takes no round, but it lets history go, which is what frees space:
//! every replica compacts then.
//!
//! Source: `apiserver/pkg/storage/etcd3/compact.go`.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::failure::Failure;
use super::layout::Layout;
use super::lineage::Known;
use super::memory::Memory;
use super::session::chain;
use super::shared::{Live, Shared};
use super::transaction::{swap, void_idle};
use super::wire::{KeyValue, TxnResponse, response_op};
use super::writer::FORGOTTEN_AT_ONCE;
use crate::embedded::retention::Retention;
use crate::key::Key;
use crate::revision::Revision;

/// How often the keeper looks.
const PERIOD: Duration = Duration::from_secs(1);

/// How long etcd may take to answer it.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Does what is done now and then.
#[derive(Debug)]
pub(crate) struct Keeper {
    pub(crate) shared: Arc<Shared>,
    pub(crate) layout: Layout,
    pub(crate) history: Duration,
    pub(crate) history_bytes_max: u64,
    pub(crate) memory: Memory,
    pub(crate) known: watch::Receiver<Option<Known>>,
}

/// What a replica knows of the rounds of compaction.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    /// The revision of etcd in which somebody compacted last.
    written: Option<i64>,
    /// The latest revision when this was read.
    latest: i64,
}

// === impl Keeper ===

impl Keeper {
    /// Works until it is told to stop.
    pub(crate) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let began = Instant::now();
        let mut retention = Retention::new(self.history);
        let mut round = Round::default();
        let mut round_due = self.history;
        let mut ticks = interval(PERIOD.min(self.history));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => break,
                _ = ticks.tick() => {}
            }
            let now = began.elapsed();
            self.forget(&mut retention, now).await;
            self = self.remember().await;
            if now >= round_due
                && let Some(live) = self.shared.connection()
            {
                round_due = now.saturating_add(self.history);
                round = self.play(&live, round).await.unwrap_or_else(|failure| {
                    tracing::warn!(error = chain(&failure), "cannot compact etcd");
                    Round::default()
                });
            }
        }
        self.remember().await;
    }

    /// Frees history in memory.
    async fn forget(&self, retention: &mut Retention, now: Duration) {
        let view = self.shared.view();
        if view.revision() == Revision(0) {
            return;
        }
        retention.observe(now, view.revision());
        let old = retention.floor(now);
        let excess = view.floor_for(self.history_bytes_max);
        if let Some(floor) = excess {
            let revision = floor.0;
            tracing::warn!(
                revision,
                "history exceeds its memory limit: dropping the oldest part early"
            );
        }
        // A sample of an earlier epoch is below every floor of this one.
        if let Some(floor) = old.max(excess) {
            if floor > view.floor() {
                self.shared.metrics.compactions.inc();
            }
            view.raise_floor(floor);
        }
        while !view.forget(FORGOTTEN_AT_ONCE).is_empty() {
            tokio::task::yield_now().await;
        }
    }

    /// Keeps what was seen, on a thread that may block.
    async fn remember(mut self) -> Self {
        let known = self.known.borrow().clone();
        let mut memory = std::mem::replace(&mut self.memory, Memory::new(None));
        let keep = tokio::task::spawn_blocking(move || {
            memory.keep(known);
            memory
        });
        match keep.await {
            Ok(memory) => self.memory = memory,
            Err(error) => {
                tracing::error!(error = %error, "cannot record the last seen state of etcd");
            }
        }
        self
    }

    /// Plays a round of compaction.
    async fn play(&self, live: &Live, round: Round) -> Result<Round, Failure> {
        let key = self.layout.compact();
        let name = round.latest.to_string().into_bytes();
        let transaction = swap(&key, round.written, name);
        let played = live.client.transact(transaction, TIMEOUT).await;
        if played.as_ref().is_err_and(Failure::is_storage_full) {
            let (header, _) = live.client.get(&key, TIMEOUT).await?;
            let latest = header.revision;
            self.let_go(live, round.latest, latest).await?;
            return Ok(Round { latest, ..round });
        }
        let (header, answer) = played?;
        let latest = header.revision;
        if !answer.succeeded {
            let written = state(&answer).map(|kv| kv.mod_revision);
            return Ok(Round { written, latest });
        }
        self.let_go(live, round.latest, latest).await?;
        Ok(Round {
            written: Some(latest),
            latest,
        })
    }

    /// Takes away what is older than the last round, if there was one.
    async fn let_go(&self, live: &Live, old: i64, latest: i64) -> Result<(), Failure> {
        if old == 0 || old > latest {
            return Ok(());
        }
        let mut idle = Vec::new();
        let take = |kv: KeyValue| {
            if kv.mod_revision < old {
                idle.push((Key::copy_of(&kv.key), kv.mod_revision));
            }
            Ok(())
        };
        let tickets = self.layout.tickets();
        let found = live.client.range_at(&tickets, latest, TIMEOUT, take);
        found.await?;
        for (ticket, written) in idle {
            let void = void_idle(&ticket, written);
            live.client.transact(void, TIMEOUT).await?;
        }
        live.client.compact(old, TIMEOUT).await?;
        tracing::info!(revision = old, "compacted etcd");
        Ok(())
    }
}

fn state(answer: &TxnResponse) -> Option<&KeyValue> {
    match answer.responses.first()?.response.as_ref()? {
        response_op::Response::ResponseRange(range) => range.kvs.first(),
        _ => None,
    }
}
