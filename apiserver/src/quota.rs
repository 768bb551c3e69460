//! Quotas: how much of the hub one user may have at a time.
//!
//! Each user has a [`Share`]: its connections, its open watches, its requests under way, and the memory that its bodies
//! and the objects made of them take. A user that has all of it is answered 429 with `Retry-After`, and nobody else
//! notices. Above the limit of all users together, whoever has less than a fair part still gets in.
//!
//! ```text
//!   connection ──► waiting room (by address) ──► first request that says who sends it ──► the user's connections
//!   request ─────► the user's requests (until its answer is sent), or watches (until they end)
//!   body ────────► the user's body bytes ──► the user's tree bytes ──► all tree bytes
//! ```
//!
//! # Invariants
//! - What is counted is given back by a `Drop`: no way out of a request or a connection can forget it.
//! - Health checks and the hub's own controllers are not counted and never refused.
//! - A user is who authentication says, before impersonation: acting as another does not make another share. Requests
//!   without credential count for the address that they come from.
//!
//! Source: `apiserver/pkg/server/filters/maxinflight.go`; API priority and fairness (KEP-1040) for what must hold between
//! users, not for how.

mod room;

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};

use api::status::Status;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

pub(crate) use room::{Room, Seat};

use crate::{
    authenticate::{ANONYMOUS, SYSTEM_MASTERS, UserInfo},
    respond::Refusal,
};

/// Maps of shares: requests of different users rarely meet in one.
const SHARD_COUNT: usize = 16;
/// Shares of one map above which those that nobody uses are dropped.
const IDLE_SHARES_MAX: usize = 256;
/// Seconds after which a refused client may try again. Source: maxinflight.go (`retryAfter`).
const RETRY_AFTER_SECONDS: u32 = 1;
/// The part of all requests that any user gets even where all together are at their limit.
const FAIR_PART: u32 = 64;

/// The unit of memory permits.
const MEMORY_UNIT: u64 = 64 * 1024;
/// Body bytes of one user that are being received or worked on: eight of the largest requests.
const BODY_UNITS_PER_USER: u32 = 24 * 16;
/// Memory of the trees made of them, of one user: the largest object alone.
const TREE_UNITS_PER_USER: u32 = 64 * 16;
/// The same for all users together. A tree has copies while it is worked on (what was sent, what was there, what
/// becomes), so the memory is about four times this.
const TREE_UNITS: u32 = 128 * 16;

/// How much one user, and all together, may have at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections of one user.
    pub connections_per_user: u32,
    /// Open watches, and other requests without end, of one user.
    pub watches_per_user: u32,
    /// Requests under way of one user, until their answers are sent.
    pub requests_per_user: u32,
    /// Requests under way of all users.
    pub requests: u32,
}

/// The shares of all users.
#[derive(Debug)]
pub(crate) struct Quotas {
    hasher: RandomState,
    // Each guards a map for the time of a look-up; innermost locks.
    shards: [Mutex<HashMap<Key, Arc<Share>>>; SHARD_COUNT],
    totals: Arc<Totals>,
}

/// What all shares have in common.
#[derive(Debug)]
struct Totals {
    limits: Limits,
    requests: AtomicU32,
    trees: Arc<Semaphore>,
    refused: [AtomicU64; 3],
}

/// Who a share belongs to. The uid tells `ServiceAccounts` of one name in different clusters apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    username: String,
    uid: String,
    /// Where requests without credential come from.
    address: Option<IpAddr>,
}

/// What one user has.
#[derive(Debug)]
pub(crate) struct Share {
    in_use: [AtomicU32; 3],
    bodies: Arc<Semaphore>,
    trees: Arc<Semaphore>,
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

// === impl Limits ===

impl Default for Limits {
    /// An informer holds a watch for each kind and a fleet's agent one for each kind and cluster; a watch costs about
    /// 60 KiB (R09). kube-apiserver has 600 requests under way for all users.
    fn default() -> Self {
        Self {
            connections_per_user: 4_000,
            watches_per_user: 10_000,
            requests_per_user: 1_000,
            requests: 4_000,
        }
    }
}

// === impl Quotas ===

impl Quotas {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            hasher: RandomState::new(),
            shards: std::array::from_fn(|_| Mutex::default()),
            totals: Arc::new(Totals {
                limits,
                requests: AtomicU32::new(0),
                trees: Arc::new(Semaphore::new(TREE_UNITS as usize)),
                refused: Default::default(),
            }),
        }
    }

    /// The share of a user whose request came from `address`.
    pub(crate) fn share(&self, user: &UserInfo, address: Option<IpAddr>) -> Arc<Share> {
        let key = Key {
            username: user.username.clone(),
            uid: user.uid.clone(),
            address: address.filter(|_| user.username == ANONYMOUS),
        };
        let index = usize::try_from(self.hasher.hash_one(&key)).unwrap_or(usize::MAX) % SHARD_COUNT;
        let mut shard = self.shards[index].lock();
        if let Some(share) = shard.get(&key) {
            return Arc::clone(share);
        }
        if shard.len() >= IDLE_SHARES_MAX {
            // Whoever uses a share holds it.
            shard.retain(|_, share| Arc::strong_count(share) > 1);
        }
        let share = Arc::new(Share::new(&self.totals));
        shard.insert(key, Arc::clone(&share));
        share
    }

    /// How often something was refused, by kind, and how many users have a share.
    pub(crate) fn counts(&self) -> ([(&'static str, u64); 3], usize) {
        let refused = [Kind::Connection, Kind::Watch, Kind::Request].map(|kind| {
            (
                kind.name(),
                self.totals.refused[kind.index()].load(Ordering::Relaxed),
            )
        });
        let users = self.shards.iter().map(|shard| shard.lock().len()).sum();
        (refused, users)
    }
}

// === impl Share ===

impl Share {
    fn new(totals: &Arc<Totals>) -> Self {
        Self {
            in_use: Default::default(),
            bodies: Arc::new(Semaphore::new(BODY_UNITS_PER_USER as usize)),
            trees: Arc::new(Semaphore::new(TREE_UNITS_PER_USER as usize)),
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
        };
        let before = self.in_use[kind.index()].fetch_add(1, Ordering::AcqRel);
        if kind == Kind::Request {
            self.totals.requests.fetch_add(1, Ordering::AcqRel);
        }
        // From here on the drop of the permit gives back what was counted.
        let permit = Permit {
            share: Arc::clone(self),
            kind,
        };
        if before >= limit || (kind == Kind::Request && self.is_above_fair(before, user)) {
            self.totals.refused[kind.index()].fetch_add(1, Ordering::Relaxed);
            return Err(Status::too_many_requests(RETRY_AFTER_SECONDS).into());
        }
        Ok(permit)
    }

    /// Whether all users together have more than they may, and this one more than a fair part of it. As in Kubernetes,
    /// the administrators of the hub are not held to it.
    fn is_above_fair(&self, own: u32, user: &UserInfo) -> bool {
        let limit = self.totals.limits.requests;
        self.totals.requests.load(Ordering::Acquire) > limit
            && own >= limit.div_ceil(FAIR_PART)
            && !user.in_group(SYSTEM_MASTERS)
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

impl Drop for Permit {
    fn drop(&mut self) {
        self.share.in_use[self.kind.index()].fetch_sub(1, Ordering::AcqRel);
        if self.kind == Kind::Request {
            self.share.totals.requests.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

// === impl Kind ===

impl Kind {
    const fn index(self) -> usize {
        match self {
            Self::Connection => 0,
            Self::Watch => 1,
            Self::Request => 2,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Connection => "connections",
            Self::Watch => "watches",
            Self::Request => "requests",
        }
    }
}

#[cfg(test)]
mod tests;
