//! The term in which a request is sent: it is committed only while that is the latest.

use api::{GroupResource, LogicalCluster};
use client::FENCE_HEADER;
use http::HeaderMap;
use storage::{Revision, Write};

use crate::objects::ResourcePrefix;

/// Where the Leases are that requests name as their terms.
const NAMESPACE: &str = "kube-system";

/// What is compared in the commit of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fence {
    /// The name of the Lease.
    pub(crate) lease: String,
    /// The revision that has to be the latest one of it.
    pub(crate) revision: u64,
}

// === impl Fence ===

impl Fence {
    /// Reads the header. Whoever sends it lets the hub refuse the request once another has taken the Lease; it gives no
    /// right. One that cannot be read is a term that never was.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let value = headers.get(FENCE_HEADER)?;
        let text = value.to_str().unwrap_or_default();
        let (lease, revision) = text.split_once('/').unwrap_or_default();
        let is_name = api::validation::is_dns_subdomain(lease).is_empty();
        Some(Self {
            lease: lease.to_owned(),
            revision: revision
                .parse()
                .ok()
                .filter(|_| is_name)
                .unwrap_or_default(),
        })
    }

    /// Lets a batch be committed only in the term.
    pub(crate) fn write(&self) -> Write {
        let leases = ResourcePrefix::new(&GroupResource::new("coordination.k8s.io", "leases"));
        let key = leases.key(&LogicalCluster::root(), NAMESPACE, &self.lease);
        Write::keep(key, Revision(self.revision))
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_fence_that_cannot_be_read_is_one_that_never_holds() {
        for (text, want) in [
            ("wheelhouse-spoke-east/7", Some(7)),
            ("wheelhouse-spoke-east", Some(0)),
            ("wheelhouse-spoke-east/now", Some(0)),
            ("../7", Some(0)),
            ("", Some(0)),
        ] {
            let headers = HeaderMap::from_iter([(FENCE_HEADER, HeaderValue::from_static(text))]);
            let revision = Fence::of(&headers).map(|fence| fence.revision);
            assert_eq!(revision, want, "{text:?}");
        }
        assert_eq!(Fence::of(&HeaderMap::new()), None);
    }
}
