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
//! - A spoke that does not answer in [`REVIEW_TIMEOUT`] is left out, and delays nobody further.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use api::cluster::{ClusterScope, LogicalCluster};
use futures::{StreamExt as _, stream};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use super::{Attributes, Authorizer};
use crate::request::{SERVICE_ACCOUNT_PREFIX, UserInfo};

/// How long the answer of a spoke counts. A watch looks again after as long, so a right that is taken away is
/// noticed within twice this: the ten seconds that are promised.
pub(crate) const REVIEW_LIFETIME: Duration = Duration::from_secs(4);
/// How long a spoke may take to answer.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(2);
/// Spokes that are asked at the same time.
const REVIEWS_AT_ONCE: usize = 64;
/// Answers that are kept. Source: 1,000 spokes and 64 users who look at all of them.
const REVIEW_COUNT_MAX: usize = 65_536;

/// The clusters that a caller may look into.
#[derive(Clone, Debug)]
pub(crate) enum Sight {
    /// All of them: the caller is one of `system:masters`.
    All,
    /// These.
    Only(Arc<HashSet<LogicalCluster>>),
}

/// Answers of spokes that still count.
#[derive(Default)]
pub(super) struct Reviews {
    /// Leaf lock; by question and identity.
    answers: Mutex<HashMap<String, (Instant, bool)>>,
}

// === impl Sight ===

impl Sight {
    /// Whether the caller may look into a cluster.
    pub(crate) fn sees(&self, cluster: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(clusters) => clusters.contains(cluster),
        }
    }

    /// The clusters, where they are not all.
    pub(crate) fn only(&self) -> Option<&HashSet<LogicalCluster>> {
        match self {
            Self::All => None,
            Self::Only(clusters) => Some(clusters),
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
        let seen = stream::iter(clusters.to_vec())
            .map(|cluster| async move {
                let seen = self.sees(asked, &cluster).await;
                seen.then_some(cluster)
            })
            .buffer_unordered(REVIEWS_AT_ONCE)
            .filter_map(std::future::ready);
        Sight::Only(Arc::new(seen.collect().await))
    }

    async fn sees(&self, asked: &Attributes<'_>, cluster: &LogicalCluster) -> bool {
        let scope = ClusterScope::One(cluster.clone());
        let user = user_in(asked.user, cluster);
        let asked = Attributes {
            user: &user,
            cluster: &scope,
            ..*asked
        };
        if self.enter(&user, &scope).is_err() {
            return false;
        }
        if !self.is_composite(cluster) {
            return self.judge(&asked).await.allowed;
        }
        let question = question(&asked, cluster);
        if let Some(allowed) = self.reviews.get(&question) {
            return allowed;
        }
        let verdict = timeout(REVIEW_TIMEOUT, self.judge(&asked)).await;
        let allowed = verdict.is_ok_and(|verdict| verdict.allowed);
        self.reviews.put(question, allowed);
        allowed
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
    fn get(&self, question: &str) -> Option<bool> {
        let answers = self.answers.lock();
        let (at, allowed) = answers.get(question)?;
        (at.elapsed() < REVIEW_LIFETIME).then_some(*allowed)
    }

    fn put(&self, question: String, allowed: bool) {
        let mut answers = self.answers.lock();
        if answers.len() >= REVIEW_COUNT_MAX {
            answers.retain(|_, (at, _)| at.elapsed() < REVIEW_LIFETIME);
        }
        if answers.len() < REVIEW_COUNT_MAX {
            answers.insert(question, (Instant::now(), allowed));
        }
    }
}

impl fmt::Debug for Reviews {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reviews").finish_non_exhaustive()
    }
}
