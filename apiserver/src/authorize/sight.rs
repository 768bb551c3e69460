//! Which logical clusters a caller may look into with one request over all of them.
//!
//! `/clusters/*` is not a cluster of its own: what it shows of a cluster is what the caller would be shown at that
//! cluster's path, so both gates are asked for each. A cluster that does not let the caller in is left out as if it did not
//! exist.
//!
//! # Invariants
//! - Nothing that one cluster's rules say counts in another; root's RBAC decides about root's objects alone.
//! - Root and embedded clusters are judged by the policy that is compiled now. Only the answers of real spokes are kept,
//!   for [`REVIEW_LIFETIME`].
//! - A spoke that does not answer in [`REVIEW_TIMEOUT`] delays nobody further. Its objects are omitted, and the response says so; existing
//!   watches continue.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use api::cluster::{ClusterScope, LogicalCluster};
use futures::{StreamExt as _, stream};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use super::{Attributes, Authorizer, Decision, SpokeAnswer};
use crate::request::{SERVICE_ACCOUNT_PREFIX, UserInfo};

/// How long the answer of a spoke counts. A watch looks again after as long, so a right that is taken away is
/// noticed within twice this: the ten seconds that are promised.
pub(crate) const REVIEW_LIFETIME: Duration = Duration::from_secs(4);
/// How long a spoke may take to answer.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(2);
/// Spokes that are asked at the same time.
const REVIEWS_AT_ONCE: usize = 64;
/// The most answers that are cached: 1,000 spokes and 64 users who look at all of them.
const REVIEW_COUNT_MAX: usize = 65_536;

/// The clusters that a caller may look into.
#[derive(Clone, Debug)]
pub(crate) enum Sight {
    /// All of them: the caller is one of `system:masters`.
    All,
    /// Some of them.
    Only {
        /// These.
        seen: Arc<HashSet<LogicalCluster>>,
        /// Those of which it is not known, with the reason for the client: their spokes did not say.
        unknown: Arc<BTreeMap<LogicalCluster, String>>,
    },
}

/// What is known of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    Yes,
    No,
    Unknown(String),
}

/// Answers of spokes that still count.
#[derive(Default)]
pub(super) struct Reviews {
    /// Leaf lock; by question and identity.
    answers: Mutex<HashMap<String, (Instant, Seen)>>,
}

// === impl Sight ===

impl Sight {
    /// Whether the caller may look into a cluster.
    pub(crate) fn sees(&self, cluster: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only { seen, .. } => seen.contains(cluster),
        }
    }

    /// The clusters of which it is not known whether the caller may look into them.
    pub(crate) fn unknown(&self) -> Option<&BTreeMap<LogicalCluster, String>> {
        match self {
            Self::All => None,
            Self::Only { unknown, .. } => Some(&**unknown).filter(|unknown| !unknown.is_empty()),
        }
    }

    /// The same, where what is not known stays as it was `before`: a spoke that does not say so sends nobody away.
    pub(crate) fn or_as(self, before: &Self) -> Self {
        let Self::Only { seen, unknown } = self else {
            return self;
        };
        let mut all = HashSet::clone(&seen);
        let kept = unknown
            .keys()
            .filter(|cluster| before.sees(cluster.as_str()));
        all.extend(kept.cloned());
        Self::Only {
            seen: Arc::new(all),
            unknown,
        }
    }

    /// The clusters, where they are not all.
    pub(crate) fn only(&self) -> Option<&HashSet<LogicalCluster>> {
        match self {
            Self::All => None,
            Self::Only { seen, .. } => Some(seen),
        }
    }
}

// === impl Authorizer ===

impl Authorizer {
    /// Asks both gates of each of some clusters.
    pub(crate) async fn sight(&self, asked: &Attributes<'_>, clusters: &[LogicalCluster]) -> Sight {
        if asked.user.is_master_of_hub() {
            return Sight::All;
        }
        let mut judged = stream::iter(clusters.to_vec())
            .map(|cluster| async move {
                let seen = self.sees(asked, &cluster).await;
                (cluster, seen)
            })
            .buffer_unordered(REVIEWS_AT_ONCE);
        let (mut all, mut unknown) = (HashSet::new(), BTreeMap::new());
        while let Some((cluster, seen)) = judged.next().await {
            match seen {
                Seen::Yes => drop(all.insert(cluster)),
                Seen::No => {}
                Seen::Unknown(reason) => drop(unknown.insert(cluster, reason)),
            }
        }
        Sight::Only {
            seen: Arc::new(all),
            unknown: Arc::new(unknown),
        }
    }

    /// The clusters whose first gate lets a user in.
    pub(super) fn entered(
        &self,
        user: &UserInfo,
        clusters: &[LogicalCluster],
    ) -> Vec<LogicalCluster> {
        let enters = |cluster: &&LogicalCluster| {
            let scope = ClusterScope::One((*cluster).clone());
            self.enter(&user_in(user, cluster), &scope).is_ok()
        };
        clusters.iter().filter(enters).cloned().collect()
    }

    async fn sees(&self, asked: &Attributes<'_>, cluster: &LogicalCluster) -> Seen {
        let scope = ClusterScope::One(cluster.clone());
        let user = user_in(asked.user, cluster);
        let asked = Attributes {
            user: &user,
            cluster: &scope,
            ..*asked
        };
        if self.enter(&user, &scope).is_err() {
            return Seen::No;
        }
        if !self.is_composite(cluster) {
            return Seen::of(self.judge(&asked).await.allowed);
        }
        let question = question(&asked, cluster);
        if let Some(seen) = self.reviews.get(&question) {
            return seen;
        }
        let seen = match self.judge_here(&asked) {
            Some(verdict) => Seen::of(verdict.allowed),
            None => match timeout(REVIEW_TIMEOUT, self.ask_spoke(&asked)).await {
                Ok(SpokeAnswer::Decided(decision)) => Seen::of(decision == Decision::Allow),
                Ok(SpokeAnswer::Unreached { reason } | SpokeAnswer::NotConnected { reason }) => {
                    Seen::Unknown(reason)
                }
                Err(_elapsed) => Seen::Unknown("it did not answer in time".to_owned()),
            },
        };
        self.reviews.put(question, seen.clone());
        seen
    }
}

// === impl Seen ===

impl Seen {
    fn of(allowed: bool) -> Self {
        if allowed { Self::Yes } else { Self::No }
    }
}

/// Who a caller of `/clusters/*` is in one of the clusters. A ServiceAccount that is named there is root's, and must
/// not be taken for one of the cluster's own.
fn user_in<'u>(user: &'u UserInfo, cluster: &LogicalCluster) -> Cow<'u, UserInfo> {
    let account = user
        .username
        .strip_prefix(SERVICE_ACCOUNT_PREFIX)
        .and_then(|account| account.split_once(':'));
    match account {
        Some((namespace, name)) if !cluster.is_root() && user.known_only_in().is_none() => {
            let mut abroad = UserInfo::service_account_abroad(namespace, name);
            abroad.uid.clone_from(&user.uid);
            abroad.extra.clone_from(&user.extra);
            Cow::Owned(abroad)
        }
        _ => Cow::Borrowed(user),
    }
}

/// Everything that an answer depends on, the whole identity included.
fn question(asked: &Attributes<'_>, cluster: &LogicalCluster) -> String {
    serde_json::json!([
        cluster.as_str(),
        asked.verb,
        asked.group,
        asked.version,
        asked.resource,
        asked.subresource,
        asked.namespace,
        asked.name,
        asked.user.to_value(),
    ])
    .to_string()
}

// === impl Reviews ===

impl Reviews {
    fn get(&self, question: &str) -> Option<Seen> {
        let answers = self.answers.lock();
        let (at, seen) = answers.get(question)?;
        (at.elapsed() < REVIEW_LIFETIME).then(|| seen.clone())
    }

    fn put(&self, question: String, seen: Seen) {
        let mut answers = self.answers.lock();
        if answers.len() >= REVIEW_COUNT_MAX {
            answers.retain(|_, (at, _)| at.elapsed() < REVIEW_LIFETIME);
        }
        if answers.len() < REVIEW_COUNT_MAX {
            answers.insert(question, (Instant::now(), seen));
        }
    }
}

impl fmt::Debug for Reviews {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reviews").finish_non_exhaustive()
    }
}
