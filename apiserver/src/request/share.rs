//! The share of one user: its connections, watches, streams, requests in flight, the memory of its bodies, and its places on the
//! processors.
//!
//! # Invariants
//! - What is counted is given back by a `Drop`: no way out of a request or a connection can forget it.
//! - A limit of all users together refuses nobody who has less than a fair part.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use api::status::Status;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::{SYSTEM_MASTERS, UserInfo};
use crate::refusal::Refusal;

/// Seconds after which a refused client may try again. Source: maxinflight.go (`retryAfter`).
const RETRY_AFTER_SECONDS: u32 = 1;
/// The part of all requests, or streams, that any user gets even where all together are at their limit.
const FAIR_PART: u32 = 64;
/// What can be counted.
pub(crate) const KIND_COUNT: usize = 4;

/// The unit of memory permits.
const MEMORY_UNIT: u64 = 64 * 1024;
/// Body bytes of one user that are being received or worked on: eight of the largest requests.
const BODY_UNITS_PER_USER: u32 = 24 * 16;
/// Memory of the trees made of them, of one user: the largest object alone.
const TREE_UNITS_PER_USER: u32 = 64 * 16;
/// The same for all users together. A tree has copies while it is worked on (what was sent, what was there, what
/// becomes), so the memory is about four times this.
const TREE_UNITS: u32 = 128 * 16;

/// Calls of the fleet view of one user: a person with two tabs.
const VIEWS_PER_USER: usize = 2;
/// The same of all users together. One holds up to 4 MiB of text, and rows of 40 MiB where a hostile list is read to its far end.
const VIEWS: usize = 8;
/// Further ones of `system:masters` alone: an administrator is not locked out by clients that do not read their answers.
const VIEWS_OF_MASTERS: usize = 2;

/// How long a user who has sent something counts as one of several. Who asks once a second is one all the time.
const CROWDED_FOR: Duration = Duration::from_secs(2);
/// Tasks of one user that run at a time while there are others: on half of the processors.
static PLACES_PER_USER: LazyLock<usize> = LazyLock::new(|| {
    let processors = std::thread::available_parallelism();
    (processors.map_or(1, std::num::NonZero::get) / 2).max(1)
});

/// How much one user, and all together, may have at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections of one user.
    pub connections_per_user: u32,
    /// Open watches, and other requests without end, of one user.
    pub watches_per_user: u32,
    /// Streams of one user: exec, attach, port-forward and whatever else switches protocols.
    pub streams_per_user: u32,
    /// Requests under way of one user, until their answers are sent.
    pub requests_per_user: u32,
    /// Requests under way of all users.
    pub requests: u32,
    /// Streams of all users.
    pub streams: u32,
}

/// What one user has.
#[derive(Debug)]
pub(crate) struct Share {
    in_use: [AtomicU32; KIND_COUNT],
    bodies: Arc<Semaphore>,
    trees: Arc<Semaphore>,
    views: Arc<Semaphore>,
    places: Arc<Semaphore>,
    totals: Arc<Totals>,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A connection.
    Connection,
    /// A watch, or another request without end.
    Watch,
    /// A request that ends.
    Request,
    /// A request that asks for another protocol, and the stream that comes of it. It has a connection to a spoke of its own.
    Stream,
}

/// Something that counts for a user for as long as this lives.
#[derive(Debug)]
pub(crate) struct Permit {
    share: Arc<Share>,
    kind: Kind,
}

/// Memory that counts for a user for as long as this lives.
#[derive(Debug, Default)]
#[expect(dead_code, reason = "held for its drop")]
pub(crate) struct Memory(Option<OwnedSemaphorePermit>, Option<OwnedSemaphorePermit>);

/// What all shares have in common.
#[derive(Debug)]
pub(crate) struct Totals {
    limits: Limits,
    requests: AtomicU32,
    streams: AtomicU32,
    trees: Arc<Semaphore>,
    views: Arc<Semaphore>,
    views_of_masters: Arc<Semaphore>,
    refused: [AtomicU64; KIND_COUNT],
    crowd: Crowd,
}

/// Whether requests of more than one user come.
#[derive(Debug)]
struct Crowd {
    start: Instant,
    /// The address of the share whose request came last.
    last: AtomicUsize,
    /// When that became another, in milliseconds since the start.
    changed_ms: AtomicU64,
    is_crowded: AtomicBool,
}

// === impl Limits ===

impl Default for Limits {
    /// An informer holds a watch for each kind and a fleet's agent one for each kind and cluster; a watch costs about
    /// 60 KiB (R09). kube-apiserver has 600 requests under way for all users. A stream takes two files of the process, of
    /// which it has some 20,000.
    fn default() -> Self {
        Self {
            connections_per_user: 4_000,
            watches_per_user: 10_000,
            streams_per_user: 500,
            requests_per_user: 1_000,
            requests: 4_000,
            streams: 2_000,
        }
    }
}

// === impl Totals ===

impl Totals {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            requests: AtomicU32::new(0),
            streams: AtomicU32::new(0),
            trees: Arc::new(Semaphore::new(TREE_UNITS as usize)),
            views: Arc::new(Semaphore::new(VIEWS)),
            views_of_masters: Arc::new(Semaphore::new(VIEWS_OF_MASTERS)),
            refused: Default::default(),
            crowd: Crowd::new(),
        }
    }

    /// Returns how many of a kind all users have; 0 for what is counted for each of them alone.
    pub(crate) fn in_use(&self, kind: Kind) -> u32 {
        let of_all = self.of_all(kind);
        of_all.map_or(0, |(count, _)| count.load(Ordering::Acquire))
    }

    /// Returns how many of a kind all users have, and how many they may have; `None` for what is not counted so.
    fn of_all(&self, kind: Kind) -> Option<(&AtomicU32, u32)> {
        match kind {
            Kind::Request => Some((&self.requests, self.limits.requests)),
            Kind::Stream => Some((&self.streams, self.limits.streams)),
            Kind::Connection | Kind::Watch => None,
        }
    }

    /// Returns how often something was refused, by kind.
    pub(crate) fn refused(&self) -> [(&'static str, u64); KIND_COUNT] {
        Kind::ALL.map(|kind| {
            let count = self.refused[kind.index()].load(Ordering::Relaxed);
            (kind.name(), count)
        })
    }
}

// === impl Crowd ===

impl Crowd {
    fn new() -> Self {
        Self {
            start: Instant::now(),
            last: AtomicUsize::new(0),
            changed_ms: AtomicU64::new(0),
            is_crowded: AtomicBool::new(false),
        }
    }

    /// Notes that a request of `share` has come.
    fn note(&self, share: &Share) {
        let own = std::ptr::from_ref(share).addr();
        let before = self.last.load(Ordering::Relaxed);
        let is_same = own == before;
        if is_same && !self.is_crowded.load(Ordering::Relaxed) {
            return;
        }
        let now_ms = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        if !is_same {
            self.last.store(own, Ordering::Relaxed);
            self.changed_ms.store(now_ms, Ordering::Relaxed);
            // Of the first of all there is no other yet.
            self.is_crowded.store(before != 0, Ordering::Relaxed);
        } else if now_ms.saturating_sub(self.changed_ms.load(Ordering::Relaxed))
            > u64::try_from(CROWDED_FOR.as_millis()).unwrap_or(u64::MAX)
        {
            self.is_crowded.store(false, Ordering::Relaxed);
        }
    }
}

// === impl Share ===

impl Share {
    /// Returns how much the user has of each kind.
    pub(crate) fn in_use_by_kind(&self) -> BTreeMap<&'static str, u32> {
        let counts = Kind::ALL.iter().zip(&self.in_use);
        counts
            .map(|(kind, count)| (kind.name(), count.load(Ordering::Acquire)))
            .collect()
    }

    pub(crate) fn new(totals: &Arc<Totals>) -> Self {
        Self {
            in_use: Default::default(),
            bodies: Arc::new(Semaphore::new(BODY_UNITS_PER_USER as usize)),
            trees: Arc::new(Semaphore::new(TREE_UNITS_PER_USER as usize)),
            views: Arc::new(Semaphore::new(VIEWS_PER_USER)),
            places: Arc::new(Semaphore::new(*PLACES_PER_USER)),
            totals: Arc::clone(totals),
        }
    }

    /// Takes one of what the user may have.
    ///
    /// # Errors
    /// 429: the user has all of it, or all users together have and this one more than a fair part.
    pub(crate) fn take(self: &Arc<Self>, kind: Kind, user: &UserInfo) -> Result<Permit, Refusal> {
        let limits = &self.totals.limits;
        let limit = match kind {
            Kind::Connection => limits.connections_per_user,
            Kind::Watch => limits.watches_per_user,
            Kind::Request => limits.requests_per_user,
            Kind::Stream => limits.streams_per_user,
        };
        if kind != Kind::Connection {
            self.totals.crowd.note(self);
        }
        let before = self.in_use[kind.index()].fetch_add(1, Ordering::AcqRel);
        if let Some((of_all, _)) = self.totals.of_all(kind) {
            of_all.fetch_add(1, Ordering::AcqRel);
        }
        // From here on the drop of the permit gives back what was counted.
        let permit = Permit {
            share: Arc::clone(self),
            kind,
        };
        if before >= limit || self.is_above_fair(kind, before, user) {
            self.totals.refused[kind.index()].fetch_add(1, Ordering::Relaxed);
            return Err(Status::too_many_requests(RETRY_AFTER_SECONDS).into());
        }
        Ok(permit)
    }

    /// Whether all users together have more than they may, and this one more than a fair part of it. As in Kubernetes,
    /// the administrators of the hub are not held to it.
    fn is_above_fair(&self, kind: Kind, own: u32, user: &UserInfo) -> bool {
        let Some((_, limit)) = self.totals.of_all(kind) else {
            return false;
        };
        self.totals.in_use(kind) > limit
            && own >= limit.div_ceil(FAIR_PART)
            && !user.in_group(SYSTEM_MASTERS)
    }

    /// Whether others send requests too, so that this user is to leave them processors.
    pub(crate) fn is_crowded(&self) -> bool {
        self.totals.crowd.is_crowded.load(Ordering::Relaxed)
    }

    /// The places of the user on the processors.
    pub(crate) fn places(&self) -> Arc<Semaphore> {
        Arc::clone(&self.places)
    }

    /// Waits until the user may have a body of so many bytes in memory. Small ones need not wait: the count of requests
    /// bounds them.
    ///
    /// # Errors
    /// 429 after `deadline`.
    pub(crate) async fn body(&self, bytes: u64, deadline: Instant) -> Result<Memory, Refusal> {
        if bytes <= MEMORY_UNIT {
            return Ok(Memory::default());
        }
        let own = acquire(&self.bodies, units(bytes, BODY_UNITS_PER_USER), deadline).await?;
        Ok(Memory(Some(own), None))
    }

    /// [`Share::body`], for the tree that a body is parsed into.
    ///
    /// # Errors
    /// As [`Share::body`].
    pub(crate) async fn tree(&self, bytes: u64, deadline: Instant) -> Result<Memory, Refusal> {
        if bytes <= MEMORY_UNIT {
            return Ok(Memory::default());
        }
        let units = units(bytes, TREE_UNITS_PER_USER);
        // The user's own first: whoever waits for it must not hold what others need.
        let own = acquire(&self.trees, units, deadline).await?;
        let of_all = acquire(&self.totals.trees, units, deadline).await?;
        Ok(Memory(Some(own), Some(of_all)))
    }

    /// Waits until the user may have a call of the fleet view.
    ///
    /// # Errors
    /// 429 after `deadline`.
    pub(crate) async fn view(&self, user: &UserInfo, deadline: Instant) -> Result<Memory, Refusal> {
        let own = acquire(&self.views, 1, deadline).await?;
        if user.is_master_of_hub()
            && let Ok(reserved) = Arc::clone(&self.totals.views_of_masters).try_acquire_owned()
        {
            return Ok(Memory(Some(own), Some(reserved)));
        }
        let of_all = acquire(&self.totals.views, 1, deadline).await?;
        Ok(Memory(Some(own), Some(of_all)))
    }
}

fn units(bytes: u64, units_max: u32) -> u32 {
    u32::try_from(bytes.div_ceil(MEMORY_UNIT)).map_or(units_max, |units| units.min(units_max))
}

async fn acquire(
    semaphore: &Arc<Semaphore>,
    units: u32,
    deadline: Instant,
) -> Result<OwnedSemaphorePermit, Refusal> {
    let waiting = Arc::clone(semaphore).acquire_many_owned(units);
    match timeout_at(deadline, waiting).await {
        Ok(Ok(permit)) => Ok(permit),
        Ok(Err(closed)) => Err(Refusal::internal(closed)),
        Err(_elapsed) => Err(Status::too_many_requests(RETRY_AFTER_SECONDS).into()),
    }
}

// === impl Permit ===

impl Permit {
    /// The share of the user it counts for.
    pub(crate) fn share(&self) -> &Arc<Share> {
        &self.share
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.share.in_use[self.kind.index()].fetch_sub(1, Ordering::AcqRel);
        if let Some((of_all, _)) = self.share.totals.of_all(self.kind) {
            of_all.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

// === impl Kind ===

impl Kind {
    /// All of them, in the order in which they are counted.
    const ALL: [Self; KIND_COUNT] = [Self::Connection, Self::Watch, Self::Request, Self::Stream];

    const fn index(self) -> usize {
        match self {
            Self::Connection => 0,
            Self::Watch => 1,
            Self::Request => 2,
            Self::Stream => 3,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Connection => "connections",
            Self::Watch => "watches",
            Self::Request => "requests",
            Self::Stream => "streams",
        }
    }
}
