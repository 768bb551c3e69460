//! Quotas: how much of the hub one user may have at a time.
//!
//! Each user has a [`Share`]: its connections, its open watches and streams, its requests under way, and the memory that its bodies
//! and the objects made of them take. A user that has all of it is answered 429 with `Retry-After`, and nobody else
//! notices. Above the limit of all users together, whoever has less than a fair part still gets in. Of the processors each user
//! has its places, and waits for them ([`fair`]).
//!
//! ```text
//!   connection ──► waiting room (by address) ──► first request that says who sends it ──► the user's connections
//!   request ─────► the user's requests (until its answer is sent), or watches or streams (until they end)
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

mod fair;
mod room;

use std::{
    collections::{BTreeMap, HashMap},
    hash::{BuildHasher as _, RandomState},
    net::IpAddr,
    sync::Arc,
};

use parking_lot::Mutex;
use serde::Serialize;

pub(crate) use fair::{Fair, Of};
pub(crate) use room::{Room, Seat};

use crate::request::{
    ANONYMOUS, UserInfo,
    share::{KIND_COUNT, Kind, Limits, Share, Totals},
};

/// Maps of shares: requests of different users rarely meet in one.
const SHARD_COUNT: usize = 16;
/// Shares of one map above which those that nobody uses are dropped.
const IDLE_SHARES_MAX: usize = 256;

/// The shares of all users.
#[derive(Debug)]
pub(crate) struct Quotas {
    hasher: RandomState,
    // Each guards a map for the time of a look-up; innermost locks.
    shards: [Mutex<HashMap<Key, Arc<Share>>>; SHARD_COUNT],
    totals: Arc<Totals>,
}

/// Who a share belongs to. The uid tells `ServiceAccounts` of one name in different clusters apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    username: String,
    uid: String,
    /// Where requests without credential come from.
    address: Option<IpAddr>,
}

/// What a user has now.
#[derive(Debug, Serialize)]
pub(crate) struct UserShare {
    user: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    uid: String,
    /// Where requests without credential come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<IpAddr>,
    #[serde(flatten)]
    in_use: BTreeMap<&'static str, u32>,
}

// === impl UserShare ===

impl UserShare {
    fn sort_key(&self) -> (&str, &str, Option<IpAddr>) {
        (&self.user, &self.uid, self.address)
    }
}

// === impl Quotas ===

impl Quotas {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            hasher: RandomState::new(),
            shards: std::array::from_fn(|_| Mutex::default()),
            totals: Arc::new(Totals::new(limits)),
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
    pub(crate) fn counts(&self) -> ([(&'static str, u64); KIND_COUNT], usize) {
        let users = self.shards.iter().map(|shard| shard.lock().len()).sum();
        (self.totals.refused(), users)
    }

    /// Returns what each user has now, by name, of those who have something.
    pub(crate) fn users(&self) -> Vec<UserShare> {
        let mut users: Vec<UserShare> = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            users.extend(shard.iter().map(|(key, share)| UserShare {
                user: key.username.clone(),
                uid: key.uid.clone(),
                address: key.address,
                in_use: share.in_use_by_kind(),
            }));
        }
        users.retain(|user| user.in_use.values().any(|count| *count > 0));
        users.sort_by(|left, right| left.sort_key().cmp(&right.sort_key()));
        users
    }

    /// How many streams are open.
    pub(crate) fn stream_count(&self) -> u32 {
        self.totals.in_use(Kind::Stream)
    }
}

#[cfg(test)]
mod tests;
