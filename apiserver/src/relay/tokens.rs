//! Finds the user of a token that a spoke has issued, at the path of that spoke.

use std::{fmt, sync::Arc};

use api::LogicalCluster;
use futures::future::BoxFuture;
use jiff::Timestamp;

use super::links::Links;
use crate::{authenticate::SpokeTokens, request::UserInfo};

/// Knows the tokens of all spokes.
pub(super) struct Tokens {
    links: Arc<Links>,
}

// === impl Tokens ===

impl Tokens {
    pub(super) const fn new(links: Arc<Links>) -> Self {
        Self { links }
    }
}

impl SpokeTokens for Tokens {
    fn find<'a>(
        &'a self,
        token: &'a str,
        cluster: &'a LogicalCluster,
        now: Timestamp,
    ) -> BoxFuture<'a, Option<Arc<UserInfo>>> {
        Box::pin(async move {
            let link = self.links.get(cluster)?;
            link.accounts.find(&link.way, token, now).await
        })
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").finish_non_exhaustive()
    }
}
