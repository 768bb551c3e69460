//! How much one cluster may make its client hold, and for how long.
//!
//! A cluster that the hub reads is not trusted to end a list, to keep an object small or to be done in time. Whatever is
//! kept of it or under way from it is charged to one [`Budget`], and a read that would exceed a bound fails with a
//! [`BoundError`] that names the bound. The failure is that cluster's alone: budgets are not shared between clusters.
//!
//! **Invariant:** what a [`Charge`] stands for is given back when the charge is dropped, and not before.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::apart;
use crate::error::{BoundError, Error};
use crate::pace::{Lane, Pace};

const MIB: usize = 1024 * 1024;

/// What an object costs beside its text: the parsed metadata and its places in caches and indexes.
pub(crate) const OBJECT_BYTES: usize = 1024;
/// What a chunk of a body costs beside its bytes.
const CHUNK_BYTES: usize = 64;
/// The part of an answer that is read without waiting: what users ask of a cluster does not queue behind its lists.
const UNPACED_BYTES: usize = 64 * 1024;
/// Memory of a parsed value for each separator in its text: an entry of a map, with its key.
const SEPARATOR_BYTES: usize = 96;
/// Memory of a parsed value for each object in its text; decoded structs have many empty fields.
const BRACE_BYTES: usize = 400;
/// Answers up to this size are parsed without a look at what they will need.
const SMALL_BYTES: usize = 4096;
/// The most bounds that are reported at a time; further ones are dropped until one of these expires.
const MET_COUNT_MAX: usize = 16;
/// How long a bound that was met is told, unless the same read succeeds before.
const MET_DURATION: Duration = Duration::from_mins(10);

/// How much one cluster may make its client hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// All that is kept of the cluster and under way from it.
    pub total_bytes_max: usize,
    /// One page of a list.
    pub page_bytes_max: usize,
    /// One discovery or OpenAPI document.
    pub document_bytes_max: usize,
    /// One object, alone, in a list or in the line of a watch.
    pub object_bytes_max: usize,
    /// The pages of one list.
    pub page_count_max: usize,
    /// How long one list may take, with all its pages.
    pub list_deadline: Duration,
    /// What may be read each second of documents and objects, after a burst of four times as much; of lists and watches the half,
    /// after the same burst.
    pub read_bytes_per_second: Option<usize>,
}

/// What one cluster holds of its bounds now; shared by all who read that cluster.
pub struct Budget {
    bounds: Bounds,
    used_bytes: AtomicUsize,
    /// Guards the reports of bounds that were met, by what was read.
    met: Mutex<BTreeMap<String, (Instant, BoundError)>>,
    /// Wakes who tells of them.
    met_changed: Notify,
    /// `None` where reads never wait.
    pace: Option<Pace>,
}

/// What an answer has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// A page of a list.
    Page,
    /// A discovery or OpenAPI document.
    Document,
    /// One object, or a status.
    Object,
}

/// A part of a budget that is in use.
pub struct Charge {
    /// `None` where nothing is counted.
    budget: Option<Arc<Budget>>,
    bytes: usize,
}

/// A whole answer, counted for as long as it is held.
pub(crate) struct Answered {
    pub(crate) bytes: Bytes,
    _charge: Charge,
}

/// The pages of one list, as far as they were read.
pub(crate) struct Pager {
    bounds: Bounds,
    page_count: usize,
    continue_token: String,
    deadline: Instant,
}

// === impl Bounds ===

impl Bounds {
    /// For the hub itself, whose lists have hundreds of thousands of objects.
    pub const HUB: Self = Self {
        total_bytes_max: usize::MAX,
        page_bytes_max: 512 * MIB,
        document_bytes_max: 512 * MIB,
        // Objects have up to 1.5 MiB in etcd, and JSON can be several times as long as protobuf.
        object_bytes_max: 32 * MIB,
        page_count_max: usize::MAX,
        list_deadline: Duration::from_hours(1),
        read_bytes_per_second: None,
    };

    /// For a spoke. Some 10,000 objects of 3 KB fit, and as many beside them while they are listed anew.
    pub const SPOKE: Self = Self {
        total_bytes_max: 96 * MIB,
        page_bytes_max: 48 * MIB,
        document_bytes_max: 16 * MIB,
        object_bytes_max: 4 * MIB,
        page_count_max: 10_000,
        list_deadline: Duration::from_mins(5),
        read_bytes_per_second: Some(16 * MIB),
    };
}

impl Default for Bounds {
    fn default() -> Self {
        Self::HUB
    }
}

// === impl Expected ===

impl Expected {
    /// Returns the most bytes that such an answer may have, and the error for exceeding that.
    pub(crate) const fn bound(self, bounds: &Bounds) -> (usize, BoundError) {
        match self {
            Self::Page => {
                let bytes_max = bounds.page_bytes_max;
                (bytes_max, BoundError::Answer { bytes_max })
            }
            Self::Document => {
                let bytes_max = bounds.document_bytes_max;
                (bytes_max, BoundError::Answer { bytes_max })
            }
            Self::Object => {
                let bytes_max = bounds.object_bytes_max;
                (bytes_max, BoundError::Object { bytes_max })
            }
        }
    }

    const fn lane(self) -> Lane {
        match self {
            Self::Page => Lane::Collections,
            Self::Document | Self::Object => Lane::Answers,
        }
    }
}

// === impl Budget ===

impl Budget {
    /// Makes a budget of which nothing is used.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            used_bytes: AtomicUsize::new(0),
            met: Mutex::default(),
            met_changed: Notify::new(),
            pace: bounds.read_bytes_per_second.map(Pace::new),
        }
    }

    /// Returns the bounds.
    pub const fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// Returns what is in use.
    pub(crate) fn used_bytes(&self) -> usize {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Takes a part.
    ///
    /// # Errors
    /// [`BoundError::Total`] where less than that is left.
    pub fn take(self: &Arc<Self>, bytes: usize) -> Result<Charge, BoundError> {
        let mut charge = Charge {
            budget: self.is_counted().then(|| Arc::clone(self)),
            bytes: 0,
        };
        charge.grow(bytes)?;
        Ok(charge)
    }

    /// Parses an answer, if what it will need is left; a large one apart from the threads that serve.
    ///
    /// # Errors
    /// [`Error::Bound`] where less is left, [`Error::Decode`] where it is not of that form.
    pub async fn parse<T>(self: &Arc<Self>, bytes: &Bytes) -> Result<T, Error>
    where
        T: DeserializeOwned + Send + 'static,
    {
        let (budget, bytes) = (Arc::clone(self), bytes.clone());
        apart::run(bytes.len(), move || budget.parse_here(&bytes)).await?
    }

    fn parse_here<T: DeserializeOwned>(self: &Arc<Self>, bytes: &[u8]) -> Result<T, Error> {
        let _charge = if self.is_counted() && bytes.len() > SMALL_BYTES {
            Some(self.take(parsed_bytes(bytes))?)
        } else {
            None
        };
        serde_json::from_slice(bytes).map_err(Error::Decode)
    }

    /// [`Budget::note`] for a list or watch: after a bound, collections of the cluster are read more slowly.
    pub(crate) fn note_collection<T>(&self, place: &str, outcome: &Result<T, Error>) {
        self.note(place, outcome);
        if let (Err(Error::Bound(_)), Some(pace)) = (outcome, &self.pace) {
            pace.slow_down();
        }
    }

    /// Notes what a read of `place` came to; only a bound that was met, and the end of that, are kept.
    pub fn note<T>(&self, place: &str, outcome: &Result<T, Error>) {
        if !self.is_counted() {
            return;
        }
        let mut met = self.met.lock();
        match outcome {
            Ok(_) if met.is_empty() => {}
            Ok(_) => {
                if met.remove(place).is_some() {
                    self.met_changed.notify_one();
                }
            }
            Err(Error::Bound(bound)) => {
                let known = met.get(place).map(|(_, bound)| bound);
                if known != Some(bound) {
                    self.met_changed.notify_one();
                }
                if known.is_some() || met.len() < MET_COUNT_MAX {
                    met.insert(place.to_owned(), (Instant::now(), bound.clone()));
                }
            }
            Err(_) => {}
        }
    }

    /// Waits until what [`Budget::met`] returns has changed. One who waits is enough: the next one waits for the next
    /// change.
    pub async fn met_changed(&self) {
        self.met_changed.notified().await;
    }

    /// Returns the bounds that were met lately, with what was read; `None` where none was.
    pub fn met(&self) -> Option<String> {
        let mut met = self.met.lock();
        met.retain(|_, (at, _)| at.elapsed() < MET_DURATION);
        if met.is_empty() {
            return None;
        }
        let texts: Vec<String> = met
            .iter()
            .map(|(place, (_, bound))| format!("{place}: {bound}"))
            .collect();
        Some(texts.join("; "))
    }

    /// Counts what was read of an answer that has `length` bytes so far, and waits where the cluster sends faster than it
    /// may. Not reading on makes the server wait.
    pub(crate) async fn pace_answer(&self, expected: Expected, length: usize, bytes: usize) {
        let pause = self.pause(expected.lane(), bytes, 0);
        if let Some(pause) = pause.filter(|_| length > UNPACED_BYTES) {
            tokio::time::sleep(pause).await;
        }
    }

    /// Counts the objects or events of a collection that were taken up, with the bytes of events, and waits likewise.
    pub(crate) async fn pace_objects(&self, bytes: usize, count: usize) {
        if let Some(pause) = self.pause(Lane::Collections, bytes, count) {
            tokio::time::sleep(pause).await;
        }
    }

    fn pause(&self, lane: Lane, bytes: usize, object_count: usize) -> Option<Duration> {
        let pace = self.pace.as_ref()?;
        pace.take(lane, Instant::now(), bytes, object_count)
    }

    const fn is_counted(&self) -> bool {
        self.bounds.total_bytes_max != usize::MAX
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(Bounds::default())
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget")
            .field("used_bytes", &self.used_bytes())
            .field("total_bytes_max", &self.bounds.total_bytes_max)
            .finish_non_exhaustive()
    }
}

// === impl Charge ===

impl Charge {
    /// Takes more.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), BoundError> {
        let Some(budget) = &self.budget else {
            return Ok(());
        };
        let bytes_max = budget.bounds.total_bytes_max;
        let taken = budget
            .used_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(bytes).filter(|used| *used <= bytes_max)
            });
        match taken {
            Ok(_before) => {
                self.bytes += bytes;
                Ok(())
            }
            Err(_used) => Err(BoundError::Total { bytes_max }),
        }
    }

    /// Gives back what is above `bytes`.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        if let Some(budget) = &self.budget
            && let Some(left) = self.bytes.checked_sub(bytes)
        {
            budget.used_bytes.fetch_sub(left, Ordering::Relaxed);
            self.bytes = bytes;
        }
    }

    /// Counts a chunk of a body.
    pub(crate) fn grow_by_chunk(&mut self, bytes: usize) -> Result<(), BoundError> {
        self.grow(bytes.saturating_add(CHUNK_BYTES))
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

impl fmt::Debug for Charge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Charge")
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

// === impl Answered ===

impl Answered {
    pub(crate) const fn new(bytes: Bytes, charge: Charge) -> Self {
        Self {
            bytes,
            _charge: charge,
        }
    }
}

// === impl Pager ===

impl Pager {
    pub(crate) fn new(bounds: &Bounds) -> Self {
        Self {
            bounds: *bounds,
            page_count: 0,
            continue_token: String::new(),
            deadline: Instant::now() + bounds.list_deadline,
        }
    }

    /// Returns the token of the next page; empty for the first one.
    pub(crate) fn continue_token(&self) -> &str {
        &self.continue_token
    }

    /// Takes the token of the page that was read. Returns whether there is another one.
    pub(crate) fn turn(&mut self, token: String) -> Result<bool, BoundError> {
        self.page_count += 1;
        if token.is_empty() {
            return Ok(false);
        }
        if token == self.continue_token {
            return Err(BoundError::Token);
        }
        if self.page_count >= self.bounds.page_count_max {
            let count_max = self.bounds.page_count_max;
            return Err(BoundError::Pages { count_max });
        }
        self.continue_token = token;
        Ok(true)
    }

    /// Reads a page, if it comes before the list must be complete.
    pub(crate) async fn in_time<T>(
        &self,
        page: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let after = self.bounds.list_deadline;
        tokio::time::timeout_at(self.deadline, page)
            .await
            .unwrap_or_else(|_elapsed| Err(BoundError::Deadline { after }.into()))
    }
}

/// Estimates from above what a JSON text needs once it is parsed.
pub fn parsed_bytes(text: &[u8]) -> usize {
    let mut separator_count: usize = 0;
    let mut brace_count: usize = 0;
    for byte in text {
        match byte {
            b'{' => brace_count += 1,
            b',' | b'[' | b':' => separator_count += 1,
            _ => {}
        }
    }
    text.len()
        .saturating_add(separator_count.saturating_mul(SEPARATOR_BYTES))
        .saturating_add(brace_count.saturating_mul(BRACE_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Arc<Budget> {
        Arc::new(Budget::new(Bounds {
            total_bytes_max: 100_000,
            page_count_max: 3,
            ..Bounds::SPOKE
        }))
    }

    #[test]
    fn a_charge_is_counted_until_it_is_dropped() {
        let budget = small();
        let first = budget.take(60_000).expect("there is that much");
        assert_eq!(
            budget.take(60_000).expect_err("there is less").to_string(),
            "more than 0 MiB would be kept of this cluster"
        );
        drop(first);
        let mut second = budget.take(60_000).expect("it was given back");
        second.shrink_to(10);
        assert_eq!(budget.used_bytes(), 10);
        drop(second);
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn what_grows_when_it_is_parsed_is_refused_before() {
        let budget = small();
        let flat = format!("[{}0]", "0,".repeat(3000));
        let error = budget.parse_here::<serde_json::Value>(flat.as_bytes());
        assert!(matches!(error, Err(Error::Bound(_))), "{error:?}");
        let text = format!("[\"{}\"]", "a".repeat(6000));
        let parsed = budget.parse_here::<serde_json::Value>(text.as_bytes());
        assert!(parsed.is_ok(), "the same size in one string");
        assert_eq!(budget.used_bytes(), 0, "the parse is over");
    }

    #[test]
    fn a_list_that_does_not_end_is_cut() {
        let mut pager = Pager::new(small().bounds());
        assert_eq!(pager.turn("a".to_owned()), Ok(true));
        assert_eq!(pager.turn("a".to_owned()), Err(BoundError::Token));
        let mut pager = Pager::new(small().bounds());
        let turns: Vec<bool> = ["a", "b", "c", "d"]
            .map(|token| pager.turn(token.to_owned()).is_ok())
            .into();
        assert_eq!(turns, [true, true, false, false]);
    }

    #[test]
    fn a_bound_that_was_met_is_told_until_the_same_read_succeeds() {
        let budget = small();
        let met = Err::<(), _>(Error::Bound(BoundError::Token));
        budget.note("/api/v1/pods", &met);
        let told = budget.met().expect("it was met");
        assert_eq!(
            told,
            "/api/v1/pods: a list gives the same continue token again"
        );
        budget.note("/version", &Ok(()));
        assert!(budget.met().is_some(), "another read says nothing of it");
        budget.note("/api/v1/pods", &Ok(()));
        assert_eq!(budget.met(), None);
    }
}
