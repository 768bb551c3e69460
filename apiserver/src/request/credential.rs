//! The credentials that can expire or be revoked while a request goes on.

use std::{fmt, sync::Arc};

use api::cluster::LogicalCluster;
use http::HeaderValue;

use super::{Claims, ForeignCertificate, Pass};

/// By what a sender is known, as far as it can end while a request goes on.
#[derive(Clone, Debug, Default)]
pub(crate) enum Credential {
    /// It does not end before the process does: a controller of this process, nobody at all.
    #[default]
    Lasting,
    /// A line of the token file, which lasts as well, by its mark.
    Line(Arc<str>),
    /// A pass of the hub's own, with which somebody is themselves in one cluster.
    Pass(Arc<Pass>),
    /// A client certificate.
    Certificate {
        /// The last second since 1970 in which it is good.
        not_after: i64,
    },
    /// The certificate of a front proxy, which has said who sends the request.
    FrontProxy(Arc<ForeignCertificate>),
    /// A client certificate that an authority of the operator's has signed.
    Foreign(Arc<ForeignCertificate>),
    /// A token of a ServiceAccount that the hub stores.
    Account(Arc<Claims>),
    /// A token of a ServiceAccount of the host.
    Host(SecretToken),
    /// A token that the operator's webhook knows.
    Reviewed(SecretToken),
    /// A token of an issuer that the operator has named.
    Issued(SecretToken),
    /// A token of a ServiceAccount of a real spoke, good at the path of that one.
    Spoke(SpokeToken),
}

/// A token that goes to the one who says whose it is, and nowhere else: it is never printed.
#[derive(Clone)]
pub(crate) struct SecretToken(Arc<str>);

/// A token of a spoke's own, which goes to that spoke and nowhere else.
#[derive(Clone)]
pub(crate) struct SpokeToken {
    /// The spoke's logical cluster.
    pub(crate) cluster: LogicalCluster,
    /// The token itself.
    pub(crate) token: Arc<str>,
}

impl Credential {
    /// Whether somebody else has to be asked whether it is still good.
    pub(crate) fn is_known_elsewhere(&self) -> bool {
        matches!(self, Self::Host(_) | Self::Reviewed(_) | Self::Spoke(_))
    }
}

// === impl SecretToken ===

impl SecretToken {
    pub(crate) fn new(token: &str) -> Self {
        Self(token.into())
    }

    /// The token itself, for the one who knows it.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretToken").finish_non_exhaustive()
    }
}

// === impl SpokeToken ===

impl SpokeToken {
    /// The token as a header, for the spoke that has signed it; `None` for any other.
    pub(crate) fn header_for(&self, cluster: &LogicalCluster) -> Option<HeaderValue> {
        if self.cluster != *cluster {
            return None;
        }
        let mut value = HeaderValue::try_from(format!("Bearer {}", self.token)).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

impl fmt::Debug for SpokeToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpokeToken")
            .field("cluster", &self.cluster)
            .finish_non_exhaustive()
    }
}
