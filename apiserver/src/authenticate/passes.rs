//! Passes: tokens that the hub signs for somebody who is known by another credential, and with which they are themselves in one logical
//! cluster, for a while (`spokes/<name>/kubeconfig`).
//!
//! # Invariants
//! - A pass is good at the path of its cluster and nowhere else. It is made in root, so nobody makes one with a pass.
//! - It ends before the credential that it was made with, and counts only while that one would: the ServiceAccount is there, the line stands in the
//!   token file, the issuer is configured. Whoever is known by somebody else who has to be asked again and again gets none.
//! - It carries a name and groups, no rights: rules are asked at each request, and what they take back ends as for any other credential.
//! - No pass is a ServiceAccount's token, nor the other way round: each has claims that the other lacks, and its own issuer.

use std::{fmt, sync::Arc, time::Duration};

use api::{GroupResource, LogicalCluster, wheelhouse};
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use super::ServiceAccounts;
use crate::{
    answers::{Answer, Answers, Question},
    request::Pass,
    tls,
};

/// Passes whose signatures are remembered, and for how long.
const CHECKED_COUNT_MAX: usize = 4096;
const CHECKED_FOR: Duration = Duration::from_mins(10);

/// Signs and checks passes.
pub(crate) struct Passes {
    accounts: Arc<ServiceAccounts>,
    /// Those whose signature was good, by the hash of the token.
    checked: Answers<Arc<Pass>>,
}

// === impl Passes ===

impl Passes {
    pub(crate) fn new(accounts: Arc<ServiceAccounts>) -> Self {
        Self {
            accounts,
            checked: Answers::new(CHECKED_COUNT_MAX),
        }
    }

    /// The uid of the Spoke of a logical cluster, if there is one that is not going.
    pub(crate) fn spoke_uid(&self, cluster: &str) -> Option<String> {
        let spokes = GroupResource::new(wheelhouse::GROUP, wheelhouse::SPOKE_RESOURCE);
        let root = LogicalCluster::root();
        self.accounts.uid_of_resource(&root, &spokes, "", cluster)
    }

    /// Signs a pass.
    pub(crate) fn sign(&self, pass: &Pass) -> Result<String, tls::Error> {
        self.accounts.sign_value(&pass.to_value())
    }

    /// Reads a pass that is presented at the path of a cluster: it is signed by the hub, for this cluster and for its Spoke of now, and its time is
    /// not up. Whether its origin counts is for the caller to ask.
    pub(crate) fn find(
        &self,
        token: &str,
        cluster: Option<&LogicalCluster>,
        now: Timestamp,
    ) -> Option<Arc<Pass>> {
        let pass = self.read(token)?;
        (Some(&pass.cluster) == cluster && self.is_good(&pass, now)).then_some(pass)
    }

    /// Whether a pass is good now, but for its origin.
    pub(crate) fn is_good(&self, pass: &Pass, now: Timestamp) -> bool {
        now.as_second() < pass.expires_at
            && self.spoke_uid(pass.cluster.as_str()).as_ref() == Some(&pass.spoke_uid)
    }

    fn read(&self, token: &str) -> Option<Arc<Pass>> {
        let question: Question = Sha256::digest(token.as_bytes()).into();
        let known = self.checked.known(&question, Duration::MAX);
        if let Some(answer) = known.as_ref().and_then(|cell| cell.get()) {
            return Some(Arc::clone(&answer.said));
        }
        let pass = Arc::new(Pass::from_value(&self.accounts.checked_value(token)?)?);
        let cell = self.checked.cell(question, Duration::MAX);
        // Whoever was first has read the same.
        let _is_first = cell.set(Answer::now(Arc::clone(&pass), CHECKED_FOR));
        Some(pass)
    }
}

impl fmt::Debug for Passes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Passes").finish_non_exhaustive()
    }
}
