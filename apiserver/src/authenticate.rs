//! Says who asks.
//!
//! In this order, the first that knows the caller wins: the identity of a controller in this process, the client
//! certificate, the bearer token, anonymous. A token or certificate that is presented and not good is 401 where no
//! other credential is good, also where anonymous requests are allowed.
//!
//! A certificate is looked at once per connection ([`crate::tls`]); here its result is only shared.
//!
//! Source: `apiserver/pkg/authentication/request/union`, `.../x509`, `.../bearertoken`, `.../anonymous`.

mod peer;
pub mod service_accounts;
mod tokens;
mod user;

use std::sync::Arc;

use api::{cluster::ClusterScope, status::Status};
use http::{HeaderMap, header, request::Parts};
use tokio_util::sync::CancellationToken;

pub(crate) use peer::certificate_user;
pub use peer::{CertificateIdentity, Peer};
pub use service_accounts::ServiceAccounts;
#[cfg(feature = "fuzzing")]
pub(crate) use service_accounts::TestSigner;
pub use tokens::{TokenFile, TokenFileError};
pub use user::{ALL_AUTHENTICATED, ALL_UNAUTHENTICATED, ANONYMOUS, SYSTEM_MASTERS, UserInfo};

use crate::{
    config::Anonymous,
    context::{RequestContext, RequestOrigin},
    quota::Share,
    respond::Refusal,
    route::RequestInfo,
};

/// A request whose sender is known. Only this module makes it.
#[derive(Debug)]
pub struct Authenticated<R> {
    request: R,
    info: RequestInfo,
    context: RequestContext,
}

/// Knows the credentials that are good.
#[derive(Debug)]
pub struct Authenticator {
    tokens: TokenFile,
    accounts: Option<Arc<ServiceAccounts>>,
    anonymous: Option<Arc<UserInfo>>,
}

/// Who a request comes from and by which way.
#[derive(Debug)]
pub(crate) struct Sender {
    user: Arc<UserInfo>,
    origin: RequestOrigin,
}

// === impl Authenticator ===

impl Authenticator {
    /// Makes an authenticator that knows the tokens of a file.
    pub fn new(tokens: TokenFile, anonymous: Anonymous) -> Self {
        Self {
            tokens,
            accounts: None,
            anonymous: match anonymous {
                Anonymous::Allowed => Some(Arc::new(UserInfo::anonymous())),
                Anonymous::Refused => None,
            },
        }
    }

    /// Takes tokens of ServiceAccounts too.
    #[must_use]
    pub fn with_service_accounts(mut self, accounts: Arc<ServiceAccounts>) -> Self {
        self.accounts = Some(accounts);
        self
    }

    /// Says who sends a request with these headers over `peer` to the path of `cluster`.
    ///
    /// # Errors
    /// 401, without a word about what was wrong.
    pub(crate) fn identify(
        &self,
        headers: &HeaderMap,
        peer: &Peer,
        cluster: &ClusterScope,
    ) -> Result<Sender, Refusal> {
        let network = |user: &Arc<UserInfo>| Sender {
            user: Arc::clone(user),
            origin: RequestOrigin::Network,
        };
        let certificate_is_bad = match peer {
            Peer::InProcess(user) => {
                return Ok(Sender {
                    user: Arc::clone(user),
                    origin: RequestOrigin::InProcess,
                });
            }
            Peer::Certificate(CertificateIdentity::Good(user)) => return Ok(network(user)),
            Peer::Certificate(CertificateIdentity::Bad) => true,
            Peer::Unknown => false,
        };
        match bearer_token(headers) {
            Some(token) => self.token(token, cluster).as_ref().map(network),
            None if certificate_is_bad => None,
            None => self.anonymous.as_ref().map(network),
        }
        .ok_or_else(|| Status::unauthorized().into())
    }

    /// The user of a bearer token that is presented at the path of `cluster`, if the token is good.
    pub fn token(&self, token: &str, cluster: &ClusterScope) -> Option<Arc<UserInfo>> {
        self.tokens.user(token).or_else(|| {
            let accounts = self.accounts.as_ref()?;
            accounts.user(token, cluster.one(), jiff::Timestamp::now())
        })
    }
}

/// The token of the `Authorization` header, which may be empty.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim();
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

// === impl Sender ===

impl Sender {
    /// Makes the authenticated request. `context` gets the sender's user and origin.
    pub(crate) fn authenticate(
        self,
        mut request: Parts,
        info: RequestInfo,
        context: impl FnOnce(Arc<UserInfo>) -> RequestContext,
    ) -> Authenticated<Parts> {
        let mut context = context(self.user);
        context.origin = self.origin;
        // Nothing behind this point may see or relay the credential.
        request.headers.remove(header::AUTHORIZATION);
        Authenticated {
            request,
            info,
            context,
        }
    }
}

// === impl Authenticated ===

impl<R> Authenticated<R> {
    /// The request itself.
    pub fn request(&self) -> &R {
        &self.request
    }

    /// What the path says.
    pub fn info(&self) -> &RequestInfo {
        &self.info
    }

    /// Who asks.
    pub fn context(&self) -> &RequestContext {
        &self.context
    }

    /// Puts another user in the place of the sender, who stays on record. For impersonation, once it is allowed.
    pub(crate) fn acting_as(mut self, user: Arc<UserInfo>) -> Self {
        let sender = std::mem::replace(&mut self.context.user, user);
        self.context.impersonator = Some(sender);
        self
    }

    /// Says what ends the watches of this request.
    pub(crate) fn set_watches_end(&mut self, watches_end: CancellationToken) {
        self.context.watches_end = watches_end;
    }

    /// Says what the sender has of the hub.
    pub(crate) fn set_share(&mut self, share: &Arc<Share>) {
        self.context.share = Some(Arc::clone(share));
    }

    /// Takes the request apart, for the authorizer, which makes an `Authorized` out of the parts.
    pub(crate) fn into_parts(self) -> (R, RequestInfo, RequestContext) {
        (self.request, self.info, self.context)
    }
}

#[cfg(test)]
mod tests;
