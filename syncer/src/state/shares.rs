//! Which logical clusters this process looks after, and in which term: all of them where it is alone, else those whose Lease
//! it holds ([`crate::sharing`]).
//!
//! # Invariants
//! - A write to the hub goes out only in the term of the logical cluster that it is for, which its path says. So no
//!   controller can write for a cluster that another process looks after, even where it does not ask before.

use std::collections::BTreeMap;

use api::{ClusterScope, LogicalCluster, wheelhouse};
use client::{Client, Dynamic, Term, Verdict, in_terms};
use parking_lot::RwLock;

/// What this process looks after.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    /// The terms of what it holds; `None` where it is alone. Guards the map; never held across an await.
    terms: Option<RwLock<BTreeMap<LogicalCluster, Term>>>,
}

// === impl Shares ===

impl Shares {
    /// Holds nothing yet, and shares with others.
    pub(crate) fn shared() -> Self {
        Self {
            terms: Some(RwLock::default()),
        }
    }

    /// Whether there may be others.
    pub(crate) const fn are_shared(&self) -> bool {
        self.terms.is_some()
    }

    /// Whether this process looks after a logical cluster. For root that is: after all that is done once for the fleet.
    pub(crate) fn hold(&self, cluster: &LogicalCluster) -> bool {
        let Some(terms) = &self.terms else {
            return true;
        };
        terms.read().get(cluster).is_some_and(Term::holds)
    }

    /// Returns the term in which a logical cluster is looked after; `None` where it is not, or nobody else could.
    pub(crate) fn term(&self, cluster: &LogicalCluster) -> Option<Term> {
        self.terms.as_ref()?.read().get(cluster).cloned()
    }

    /// Returns all terms.
    pub(crate) fn terms(&self) -> BTreeMap<LogicalCluster, Term> {
        let terms = self.terms.as_ref();
        terms.map(|terms| terms.read().clone()).unwrap_or_default()
    }

    /// Looks after a logical cluster from now on.
    pub(crate) fn begin(&self, cluster: LogicalCluster, term: Term) {
        if let Some(terms) = &self.terms {
            terms.write().insert(cluster, term);
        }
    }

    /// No longer looks after a logical cluster. Returns the term, which whoever asks ends.
    pub(crate) fn end(&self, cluster: &LogicalCluster) -> Option<Term> {
        self.terms.as_ref()?.write().remove(cluster)
    }

    /// Returns what becomes of a write for a logical cluster.
    fn verdict(&self, cluster: &LogicalCluster) -> Verdict {
        match (&self.terms, self.term(cluster)) {
            (None, _) => Verdict::Free,
            (Some(_), Some(term)) => Verdict::Within(term),
            (Some(_), None) => Verdict::Refused,
        }
    }
}

/// Makes calls of the hub: each write in the term of the logical cluster that its path is for.
pub(crate) fn hub_in_terms(shares: &std::sync::Arc<Shares>, hub: &kube::Client) -> Dynamic {
    if !shares.are_shared() {
        return Dynamic::new(hub.clone());
    }
    let shares = std::sync::Arc::clone(shares);
    let hub = Client::from(hub.clone());
    Dynamic::new(in_terms(&hub, move |_method, uri| {
        match concerned(uri.path()) {
            Concerned::Nobody => Verdict::Free,
            Concerned::Cluster(cluster) => shares.verdict(&cluster),
        }
    }))
}

/// Makes calls in the term of one logical cluster, wherever they go.
pub(crate) fn in_term_of(
    shares: &std::sync::Arc<Shares>,
    cluster: &LogicalCluster,
    calls: &Dynamic,
) -> Dynamic {
    if !shares.are_shared() {
        return calls.clone();
    }
    // The term of now: calls that were made in an earlier one do not go on in a later one.
    let verdict = shares.verdict(cluster);
    Dynamic::new(in_terms(calls.client(), move |_method, _uri| {
        verdict.clone()
    }))
}

/// For whom a write is.
#[derive(Debug, PartialEq, Eq)]
enum Concerned {
    /// It changes nothing, for example a question about rights.
    Nobody,
    /// This logical cluster.
    Cluster(LogicalCluster),
}

/// Finds for whom a write to the hub is. A Spoke is its own cluster's; everything else in root is root's.
fn concerned(path: &str) -> Concerned {
    let mut segments: Vec<&str> = path.split('/').skip(1).collect();
    let mut cluster = LogicalCluster::root();
    if segments.first() == Some(&"clusters") {
        match segments.get(1).map(|name| name.parse::<ClusterScope>()) {
            Some(Ok(ClusterScope::One(named))) => cluster = named,
            // Nothing is written to all clusters: the hub refuses it.
            _ => return Concerned::Nobody,
        }
        segments.drain(..2);
    }
    match segments.as_slice() {
        ["apis", "authorization.k8s.io", ..] => Concerned::Nobody,
        [
            "apis",
            wheelhouse::GROUP,
            _,
            wheelhouse::SPOKE_RESOURCE,
            name,
            ..,
        ] if cluster.is_root() => Concerned::Cluster(name.parse().unwrap_or(cluster)),
        _ => Concerned::Cluster(cluster),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_for_the_cluster_that_its_path_names() {
        let of = |name: &str| Concerned::Cluster(name.parse().expect("a name"));
        let root = || Concerned::Cluster(LogicalCluster::root());
        for (path, want) in [
            (
                "/clusters/east/apis/kro.run/v1alpha1/namespaces/a/webs/w",
                of("east"),
            ),
            ("/clusters/east/api/v1/namespaces", of("east")),
            (
                "/apis/wheelhouse.dev/v1alpha1/spokes/east/status",
                of("east"),
            ),
            ("/apis/wheelhouse.dev/v1alpha1/spokes", root()),
            ("/api/v1/namespaces/kube-system/configmaps", root()),
            (
                "/apis/authorization.k8s.io/v1/subjectaccessreviews",
                Concerned::Nobody,
            ),
        ] {
            assert_eq!(concerned(path), want, "{path}");
        }
    }
}
