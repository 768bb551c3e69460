//! How fast a cluster is read.
//!
//! Not reading on makes the server wait, so the time that a cluster's answers cost is bounded whatever it sends. Collections and
//! other answers have a bucket each: what users ask of a cluster, and its documents, do not queue behind its lists.
//!
//! **Invariant:** answers that are of no use cost a cluster more than others. Each bound that a collection meets takes what several
//! seconds fill in, so it is read all the more slowly, but what is owed has a limit.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// What an object or an event costs beside its bytes: it is decoded, taken up, and may cause a reconcile.
const EVENT_BYTES: usize = 4096;
/// How much may be read at once, as a multiple of what may be read of answers in a second.
const BURST_SECONDS: usize = 4;
/// Collections are read at the rate of other answers divided by this.
const COLLECTION_DIVISOR: usize = 2;
/// What a collection that met a bound costs beside its bytes, in seconds of its rate.
const PENALTY_SECONDS: usize = 4;
/// The most that may be owed because of bounds, in the same unit.
const DEBT_SECONDS_MAX: usize = 8;

/// What an answer is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Lists and watches.
    Collections,
    /// Documents, and single objects.
    Answers,
}

/// The buckets of one cluster.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Guards the bucket of lists and watches.
    collections: Mutex<Bucket>,
    /// Guards the bucket of all else.
    answers: Mutex<Bucket>,
}

#[derive(Debug)]
struct Bucket {
    rate: usize,
    full: i64,
    /// What may be read at once; below zero after more was.
    bytes: i64,
    filled: Instant,
}

// === impl Pace ===

impl Pace {
    /// Makes full buckets. `rate` is in bytes per second.
    pub(crate) fn new(rate: usize) -> Self {
        let burst = rate.saturating_mul(BURST_SECONDS);
        Self {
            collections: Mutex::new(Bucket::new(rate / COLLECTION_DIVISOR, burst)),
            answers: Mutex::new(Bucket::new(rate, burst)),
        }
    }

    /// Takes bytes and objects that were read. Returns how long the reads of that lane have to wait.
    pub(crate) fn take(
        &self,
        lane: Lane,
        now: Instant,
        bytes: usize,
        object_count: usize,
    ) -> Option<Duration> {
        let cost = bytes.saturating_add(object_count.saturating_mul(EVENT_BYTES));
        self.bucket(lane).lock().take(now, cost)
    }

    /// Notes that a collection met a bound.
    pub(crate) fn slow_down(&self) {
        self.collections.lock().slow_down();
    }

    const fn bucket(&self, lane: Lane) -> &Mutex<Bucket> {
        match lane {
            Lane::Collections => &self.collections,
            Lane::Answers => &self.answers,
        }
    }
}

// === impl Bucket ===

impl Bucket {
    fn new(rate: usize, burst: usize) -> Self {
        let full = signed(burst);
        Self {
            rate: rate.max(1),
            full,
            bytes: full,
            filled: Instant::now(),
        }
    }

    fn take(&mut self, now: Instant, cost: usize) -> Option<Duration> {
        let elapsed_us = now.duration_since(self.filled).as_micros();
        let rate = u128::try_from(self.rate).unwrap_or_default();
        let gained = rate.saturating_mul(elapsed_us) / 1_000_000;
        if gained > 0 {
            self.filled = now;
        }
        let gained = i64::try_from(gained).unwrap_or(i64::MAX);
        self.bytes = self.bytes.saturating_add(gained).min(self.full);
        self.bytes = self.bytes.saturating_sub(signed(cost));
        let missing = usize::try_from(self.bytes.checked_neg()?).ok()?;
        let micros = missing.saturating_mul(1_000_000) / self.rate;
        (micros > 0).then(|| Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX)))
    }

    fn slow_down(&mut self) {
        let penalty = signed(self.rate.saturating_mul(PENALTY_SECONDS));
        let debt_max = signed(self.rate.saturating_mul(DEBT_SECONDS_MAX));
        let debt = self.bytes.saturating_sub(penalty).max(-debt_max);
        self.bytes = self.bytes.min(debt);
    }
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn paced() -> (Pace, Instant) {
        let pace = Pace::new(1000);
        let start = pace.answers.lock().filled;
        pace.collections.lock().filled = start;
        (pace, start)
    }

    #[test]
    fn reads_wait_once_their_burst_is_used_up() {
        let (pace, start) = paced();
        assert_eq!(pace.take(Lane::Answers, start, 4000, 0), None, "the burst");
        let half = Some(SECOND / 2);
        assert_eq!(pace.take(Lane::Answers, start, 500, 0), half, "at the rate");
        let later = start + SECOND;
        assert_eq!(
            pace.take(Lane::Answers, later, 500, 0),
            None,
            "it filled up meanwhile"
        );
    }

    #[test]
    fn answers_do_not_wait_for_collections() {
        let (pace, start) = paced();
        let second = Some(SECOND);
        assert_eq!(pace.take(Lane::Collections, start, 4500, 0), second);
        assert_eq!(pace.take(Lane::Answers, start, 500, 0), None);
    }

    #[test]
    fn collections_of_a_cluster_that_met_a_bound_are_read_more_slowly() {
        let (pace, start) = paced();
        pace.slow_down();
        assert_eq!(
            pace.take(Lane::Collections, start, 3000, 0),
            Some(2 * SECOND),
            "less than the burst is left"
        );
        for _ in 0..10 {
            pace.slow_down();
        }
        assert_eq!(
            pace.take(Lane::Collections, start, 0, 0),
            Some(8 * SECOND),
            "debts have a limit"
        );
        assert_eq!(pace.take(Lane::Answers, start, 500, 0), None);
    }
}
