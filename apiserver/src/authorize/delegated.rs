//! What the host of the hub says of its own users, to what its aggregation layer carries.
//!
//! A host registers groups of the hub as its own. Whether its users may read or write them is then for its rules to say, as it is for any other
//! resource of the host; the hub's rules are asked first, and what they deny stays denied.
//!
//! # Invariants
//! - The host is asked about users that it vouches for itself ([`UserInfo::at_host`]), by the name that it knows them by: a user of the hub's own
//!   gets nothing from a user of that name in the host.
//! - It is asked about the groups that it carries, in root: its right to read Secrets is one to its own Secrets. Beyond root it says who enters
//!   a logical cluster (`access` on `spokes/<name>`), and nothing of what is in it.
//! - A host that does not answer lets nobody in, and sends nobody away.
//! - The host's garbage collector deletes nothing here: owners that the host does not know are root's, which has a collector of its own.
//!
//! Source: `apiserver/pkg/server/options/authorization.go`, `apiserver/plugin/pkg/authorizer/webhook/webhook.go`.

use std::{sync::Arc, time::Duration};

use api::cluster::{ClusterScope, LogicalCluster};
use futures::future::BoxFuture;

use super::{Attributes, Authorizer, SpokeAnswer, Verdict, access, refuse_unless_allowed};
use crate::{
    refusal::Refusal,
    request::{SERVICE_ACCOUNT_PREFIX, UserInfo},
};

/// How old an answer may be for a request that begins. Source: `NewDelegatingAuthorizationOptions`.
pub(super) const ANSWER_AGE: Duration = Duration::from_secs(10);
/// How old one may be for what goes on, so that it ends ten seconds after its right.
pub(super) const RENEWED_AGE: Duration = Duration::from_secs(4);

/// The garbage collector of a kube-controller-manager, without what begins the names of ServiceAccounts.
const GARBAGE_COLLECTOR: &str = "kube-system:generic-garbage-collector";

/// Asks the host a question about one of its users, or takes an answer that is at most so old.
pub(crate) type HostReviewer =
    Arc<dyn for<'a> Fn(Attributes<'a>, Duration) -> BoxFuture<'a, SpokeAnswer> + Send + Sync>;

/// A host, and what it may say something to.
pub(super) struct Host {
    reviewer: HostReviewer,
    groups: Vec<String>,
}

impl Authorizer {
    /// Lets a host say what its users may in these groups of root.
    #[must_use]
    pub(crate) fn with_host(mut self, reviewer: HostReviewer, groups: Vec<String>) -> Self {
        self.host = Some(Host { reviewer, groups });
        self
    }

    /// The first gate, with the host asked where the hub's rules say nothing.
    pub(super) async fn enter_or_ask(
        &self,
        user: &UserInfo,
        cluster: &ClusterScope,
        age: Duration,
    ) -> Result<(), Refusal> {
        let refused = match self.enter(user, cluster) {
            Ok(()) => return Ok(()),
            Err(refused) => refused,
        };
        let root = ClusterScope::One(LogicalCluster::root());
        let Some(cluster) = cluster.one() else {
            return Err(refused);
        };
        let asked = access(user, &root, cluster.as_str());
        match self.ask_host(&asked, age).await {
            Some(Verdict { allowed: true, .. }) => Ok(()),
            Some(verdict) if verdict.undecided => refuse_unless_allowed(&asked, &verdict),
            _ => Err(refused),
        }
    }

    /// The second gate for what is judged by rules, with the host asked where they say nothing.
    pub(super) async fn or_ask(
        &self,
        asked: &Attributes<'_>,
        verdict: Verdict,
        age: Duration,
    ) -> Verdict {
        if verdict.allowed || verdict.denied {
            return verdict;
        }
        self.ask_host(asked, age).await.unwrap_or(verdict)
    }

    /// Whether the host has something to say to a question that the hub's rules leave open.
    pub(super) fn is_for_host(&self, asked: &Attributes<'_>) -> bool {
        self.host_for(asked).is_some()
    }

    /// The same for the first gate.
    pub(super) fn may_be_let_in_by_host(&self, user: &UserInfo, cluster: &ClusterScope) -> bool {
        let root = ClusterScope::One(LogicalCluster::root());
        let cluster = cluster.one();
        cluster.is_some_and(|it| self.is_for_host(&access(user, &root, it.as_str())))
    }

    async fn ask_host(&self, asked: &Attributes<'_>, age: Duration) -> Option<Verdict> {
        let (host, user) = self.host_for(asked)?;
        let answer = (host.reviewer)(Attributes { user, ..*asked }, age).await;
        Some(Verdict::from_spoke(answer))
    }

    /// The host that is asked, and the user as it knows it.
    fn host_for<'a>(&'a self, asked: &Attributes<'a>) -> Option<(&'a Host, &'a UserInfo)> {
        let host = self.host.as_ref()?;
        let user = asked.user.at_host()?;
        let is_in_root = asked.cluster.one().is_some_and(LogicalCluster::is_root);
        let is_carried = asked.is_resource && host.groups.iter().any(|it| it == asked.group);
        let reads = matches!(asked.verb, "get" | "list" | "watch");
        let account = user.username.strip_prefix(SERVICE_ACCOUNT_PREFIX);
        let is_collector = account == Some(GARBAGE_COLLECTOR);
        (is_in_root && is_carried && (reads || !is_collector)).then_some((host, user))
    }
}
