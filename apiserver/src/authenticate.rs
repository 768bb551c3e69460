//! Says who asks.
//!
//! In this order, the first that knows the caller wins: the identity of a controller in this process, the client
//! certificate of its authority, the headers of a front proxy ([`front_proxy`]), the client certificate of another authority
//! ([`certificates`]), the bearer token, anonymous. A token or certificate that is presented and not good is 401 where no
//! other credential is good, also where anonymous requests are allowed.
//!
//! A token of an issuer counts where the operator has named the issuer ([`Issuers`]).
//!
//! A token of a ServiceAccount of the host counts where there is a host that is asked ([`HostTokens`]).
//!
//! At the path of a real spoke a token of one of its own ServiceAccounts counts too; the spoke itself is asked ([`SpokeTokens`]).
//!
//! A certificate is looked at once per connection ([`crate::tls`]); here its result is only shared, and its end is looked at for each request.
//!
//! # Invariants
//! - What a sender is known by stays on record ([`Credential`]), so that a request that goes on for long can be judged again.
//!
//! Source: `apiserver/pkg/authentication/request/union`, `.../x509`, `.../bearertoken`, `.../anonymous`.

mod certificates;
mod front_proxy;
mod jws;
mod oidc;
mod passes;
mod reread;
pub mod service_accounts;
pub(crate) mod signed;
#[cfg(test)]
mod test_issuer;
mod tokens;
mod webhook;

use std::{borrow::Cow, fmt, sync::Arc};

use api::{
    cluster::{ClusterScope, LogicalCluster},
    status::Status,
};
use futures::future::BoxFuture;
use http::{HeaderMap, Version, header, request::Parts};
use jiff::Timestamp;
use rustls::pki_types::CertificateDer;

pub(crate) use certificates::CertificateUsers;
pub use certificates::CertificateUsersError;
pub(crate) use front_proxy::FrontProxy;
pub use front_proxy::FrontProxyError;
pub use oidc::OidcError;
#[cfg(feature = "fuzzing")]
pub(crate) use oidc::users_of;
pub(crate) use oidc::{Issuers, Redemption, SignIn, SignInError};
pub(crate) use passes::Passes;
pub use service_accounts::ServiceAccounts;
#[cfg(feature = "fuzzing")]
pub(crate) use service_accounts::TestSigner;
pub use tokens::{TokenFile, TokenFileError};
pub(crate) use webhook::TokenWebhook;
pub use webhook::TokenWebhookError;

use crate::{
    config::{Anonymous, Syncers},
    refusal::Refusal,
    request::{
        Asked, CertificateIdentity, CertifiedUser, Credential, Fence, ForeignCertificate,
        HeaderNames, Origin, Pass, Peer, RequestContext, RequestInfo, RequestOrigin, SecretToken,
        SpokeToken, Trail, UserInfo, issuer_of, share::Share,
    },
    tls::{ClientCertificates, ClientVerifier},
    websocket::{self, MalformedToken},
};

/// Bytes of a certificate and those beside it that are kept for as long as their connection: those of a front proxy have 2 KiB.
const CHAIN_BYTES_MAX: usize = 16 * 1024;

/// Certificates that a client may show, its own among them. Each order of those beside it may be tried, for whoever asks.
const CHAIN_COUNT_MAX: usize = 6;

/// A request whose sender is known. Only this module makes it.
#[derive(Debug)]
pub struct Authenticated<R> {
    asked: Box<Asked<R>>,
}

/// Knows the credentials that are good.
#[derive(Debug)]
pub struct Authenticator {
    tokens: TokenFile,
    accounts: Option<Arc<ServiceAccounts>>,
    anonymous: Option<Arc<UserInfo>>,
    spokes: Option<Arc<dyn SpokeTokens>>,
    certificates: Option<Arc<CertificateUsers>>,
    front_proxy: Option<Arc<FrontProxy>>,
    host: Option<Arc<dyn HostTokens>>,
    issuers: Option<Arc<Issuers>>,
    webhook: Option<Arc<TokenWebhook>>,
    passes: Option<Arc<Passes>>,
    syncers: Syncers,
}

/// Knows the tokens of the ServiceAccounts of real spokes, each at its own path.
pub(crate) trait SpokeTokens: fmt::Debug + Send + Sync {
    /// Finds whose token this is at the path of a logical cluster; the answer is at most ten seconds old. `None` where the cluster is no real spoke, has not
    /// signed the token, or does not let it count.
    fn find<'a>(
        &'a self,
        token: &'a str,
        cluster: &'a LogicalCluster,
        now: Timestamp,
    ) -> BoxFuture<'a, Option<Arc<UserInfo>>>;
}

/// Knows the tokens of the ServiceAccounts of the host.
pub(crate) trait HostTokens: fmt::Debug + Send + Sync {
    /// Finds whose token this is; the answer is a few seconds old at most.
    fn find<'a>(&'a self, token: &'a str, now: Timestamp) -> BoxFuture<'a, TokenAnswer>;
}

/// What the host, or a webhook, says of a token.
#[derive(Clone, Debug)]
pub(crate) enum TokenAnswer {
    /// It is this user's.
    User(Arc<UserInfo>),
    /// It is nobody's, or another cluster's.
    Nobody,
    /// It does not answer.
    Unknown,
}

/// Who a request comes from, by which way, and by what that is known.
#[derive(Debug)]
pub(crate) struct Sender {
    user: Arc<UserInfo>,
    origin: RequestOrigin,
    credential: Credential,
}

/// For whom a TokenReview finds a token to be good.
#[derive(Debug)]
pub(crate) struct Reviewed {
    /// Whose it is.
    pub(crate) user: Arc<UserInfo>,
    /// For whom, of those who were asked for.
    pub(crate) audiences: Vec<String>,
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
            spokes: None,
            certificates: None,
            front_proxy: None,
            host: None,
            issuers: None,
            webhook: None,
            passes: None,
            syncers: Syncers::Refused,
        }
    }

    /// Takes tokens of ServiceAccounts too.
    #[must_use]
    pub fn with_service_accounts(mut self, accounts: Arc<ServiceAccounts>) -> Self {
        self.accounts = Some(accounts);
        self
    }

    /// Accepts tokens of the spokes' own ServiceAccounts as well.
    #[must_use]
    pub(crate) fn with_spoke_tokens(mut self, spokes: Arc<dyn SpokeTokens>) -> Self {
        self.spokes = Some(spokes);
        self
    }

    /// Accepts client certificates of authorities that the operator has named.
    #[must_use]
    pub(crate) fn with_certificates(mut self, users: Option<Arc<CertificateUsers>>) -> Self {
        self.certificates = users;
        self
    }

    /// Believes what a front proxy says.
    #[must_use]
    pub(crate) fn with_front_proxy(mut self, front_proxy: Option<Arc<FrontProxy>>) -> Self {
        self.front_proxy = front_proxy;
        self
    }

    /// Accepts tokens of the host's ServiceAccounts.
    #[must_use]
    pub(crate) fn with_host_tokens(mut self, host: Option<Arc<dyn HostTokens>>) -> Self {
        self.host = host;
        self
    }

    /// Accepts tokens of issuers that the operator has named.
    #[must_use]
    pub(crate) fn with_issuers(mut self, issuers: Option<Arc<Issuers>>) -> Self {
        self.issuers = issuers;
        self
    }

    /// Accepts passes.
    #[must_use]
    pub(crate) fn with_passes(mut self, passes: Arc<Passes>) -> Self {
        self.passes = Some(passes);
        self
    }

    /// Lets syncers in processes of their own come, or not.
    #[must_use]
    pub(crate) const fn with_syncers(mut self, syncers: Syncers) -> Self {
        self.syncers = syncers;
        self
    }

    /// Accepts tokens that a webhook knows.
    #[must_use]
    pub(crate) fn with_webhook(mut self, webhook: Option<Arc<TokenWebhook>>) -> Self {
        self.webhook = webhook;
        self
    }

    /// Returns which client certificates people are asked for. Front proxies need no asking.
    pub(crate) const fn client_certificates(&self) -> ClientCertificates {
        match self.certificates {
            None => ClientCertificates::Own,
            Some(_) => ClientCertificates::Any,
        }
    }

    /// Returns who is at the other end of a connection that showed `chain`, which `verifier` has looked at: a certificate that the hub has not signed
    /// may be a front proxy's, or a user's of another authority.
    pub(crate) fn peer(
        &self,
        verifier: &ClientVerifier,
        chain: Option<&[CertificateDer<'_>]>,
        now: Timestamp,
    ) -> Peer {
        let is_long = |chain: &[CertificateDer<'_>]| chain.len() > CHAIN_COUNT_MAX;
        if chain.is_some_and(is_long) {
            return Peer::Certificate(CertificateIdentity::Bad);
        }
        let is_any_looked_at = self.certificates.is_some() || self.front_proxy.is_some();
        match (verifier.peer(chain, now), chain) {
            (Peer::Certificate(CertificateIdentity::Bad), Some(chain)) if is_any_looked_at => {
                let kept = self.keep(chain, now);
                let identity = kept.map_or(CertificateIdentity::Bad, CertificateIdentity::Foreign);
                Peer::Certificate(identity)
            }
            (peer, _) => peer,
        }
    }

    /// Keeps a certificate that the hub's own authority has not signed, and looks at it. One that is not good by the settings of now may be
    /// by those that come.
    fn keep(
        &self,
        chain: &[CertificateDer<'_>],
        now: Timestamp,
    ) -> Option<Arc<ForeignCertificate>> {
        let bytes: usize = chain.iter().map(|it| it.len()).sum();
        if bytes > CHAIN_BYTES_MAX {
            return None;
        }
        let certificate = ForeignCertificate::new(chain);
        let _is_users = self.certified(&certificate, now);
        Some(Arc::new(certificate))
    }

    /// Whose a certificate of the operator's authorities is. A front proxy's is nobody's, whatever stands in it.
    fn certified(&self, certificate: &ForeignCertificate, now: Timestamp) -> Option<CertifiedUser> {
        let front_proxy = self.front_proxy.as_ref();
        if front_proxy.is_some_and(|it| it.accepts(certificate, now)) {
            return None;
        }
        self.certificates.as_ref()?.find(certificate, now)
    }

    /// Whether the other end of a connection is a front proxy now.
    pub(crate) fn is_front_proxy(&self, peer: &Peer, now: Timestamp) -> bool {
        match (peer, &self.front_proxy) {
            (Peer::Certificate(CertificateIdentity::Foreign(certificate)), Some(front_proxy)) => {
                front_proxy.accepts(certificate, now)
            }
            _ => false,
        }
    }

    /// Takes off a request what nobody but a front proxy may say of its sender.
    pub(crate) fn clear_remote(&self, headers: &mut HeaderMap) {
        match &self.front_proxy {
            Some(front_proxy) => front_proxy.clear(headers),
            None => HeaderNames::clear_usual(headers),
        }
    }

    /// Returns who sends a request for `path` with these headers over `peer` to the path of `cluster`.
    ///
    /// # Errors
    /// 401, without a word about what was wrong. 403 for a syncer that may not come: it would write what another writes.
    pub(crate) async fn identify(
        &self,
        headers: &HeaderMap,
        peer: &Peer,
        cluster: &ClusterScope,
        path: &str,
        now: Timestamp,
    ) -> Result<Sender, Refusal> {
        let network = |user: &Arc<UserInfo>, credential| Sender {
            user: Arc::clone(user),
            origin: RequestOrigin::Network,
            credential,
        };
        let certificate_is_bad = match peer {
            Peer::InProcess(user) => {
                return Ok(Sender {
                    user: Arc::clone(user),
                    origin: RequestOrigin::InProcess,
                    credential: Credential::Lasting,
                });
            }
            Peer::Certificate(CertificateIdentity::Good { user, not_after })
                if now.as_second() <= *not_after && !is_for_another_origin(headers) =>
            {
                let origin = peer.origin(now);
                if origin == RequestOrigin::Syncer && self.syncers == Syncers::Refused {
                    return Err(syncer_refused());
                }
                return Ok(Sender {
                    user: Arc::clone(user),
                    origin,
                    credential: Credential::Certificate {
                        not_after: *not_after,
                    },
                });
            }
            Peer::Certificate(CertificateIdentity::Foreign(certificate)) => {
                if let Some(user) = self.proxied(headers, certificate, now) {
                    let credential = Credential::FrontProxy(Arc::clone(certificate));
                    return Ok(network(&user, credential));
                }
                if let Some(found) = self.certified(certificate, now)
                    && !is_for_another_origin(headers)
                {
                    let credential = Credential::Foreign(Arc::clone(certificate));
                    return Ok(network(&found.user, credential));
                }
                true
            }
            Peer::Certificate(_) => true,
            Peer::Unknown => false,
        };
        match bearer_token(headers) {
            Ok(Some(token)) => {
                let mut known = self.token(&token, cluster, now);
                if known.is_none() {
                    known = self.token_of_spoke(&token, cluster, now).await;
                }
                if known.is_none() {
                    known = self.token_of_host(&token, now).await;
                }
                if known.is_none() {
                    known = self.token_of_others(&token, now).await;
                }
                known.map(|(user, credential)| network(&user, credential))
            }
            Ok(None) if certificate_is_bad => None,
            Err(MalformedToken) => None,
            Ok(None) => {
                let anonymous = self.anonymous_at(path);
                anonymous.map(|user| network(&user, Credential::Lasting))
            }
        }
        .ok_or_else(|| Status::unauthorized().into())
    }

    /// The user that a front proxy names.
    fn proxied(
        &self,
        headers: &HeaderMap,
        certificate: &ForeignCertificate,
        now: Timestamp,
    ) -> Option<Arc<UserInfo>> {
        let front_proxy = self.front_proxy.as_ref()?;
        front_proxy.read(headers, certificate, now)
    }

    /// The user of a token of the hub's that is presented at the path of `cluster`.
    fn token(
        &self,
        token: &str,
        cluster: &ClusterScope,
        now: Timestamp,
    ) -> Option<(Arc<UserInfo>, Credential)> {
        if let Some(user) = self.tokens.user(token) {
            return Some((user, Credential::Line(TokenFile::mark(token))));
        }
        let accounts = self.accounts.as_ref()?;
        if let Ok(found) = accounts.find(token, cluster.one(), None, now) {
            return Some((found.user, Credential::Account(found.claims)));
        }
        let pass = self.pass(token, cluster, now)?;
        Some((Arc::new(pass.bearer()), Credential::Pass(pass)))
    }

    /// The pass that is presented at the path of `cluster`, if it counts.
    fn pass(&self, token: &str, cluster: &ClusterScope, now: Timestamp) -> Option<Arc<Pass>> {
        let pass = self.passes.as_ref()?.find(token, cluster.one(), now)?;
        self.still_vouched_for(&pass, now).then_some(pass)
    }

    /// Whether the credential that a pass was made with would count.
    fn still_vouched_for(&self, pass: &Pass, now: Timestamp) -> bool {
        match &pass.origin {
            // It ends by its time, which the pass does not outlive.
            Origin::Certificate => true,
            Origin::Authorities(mark) => {
                let users = self.certificates.as_ref();
                users.is_some_and(|it| it.have(mark))
            }
            Origin::Line(mark) => self.tokens.has(mark, &pass.user),
            Origin::Account(claims) => {
                let accounts = self.accounts.as_ref();
                accounts.is_some_and(|it| it.still_counts(claims, now))
            }
            Origin::Issuer { url, rules } => {
                let issuers = self.issuers.as_ref();
                issuers.is_some_and(|it| it.have(url, rules))
            }
        }
    }

    /// What a pass is made with for the holder of a credential, and when that ends, in seconds since 1970.
    ///
    /// # Errors
    /// Why none can be made.
    pub(crate) async fn origin_of(
        &self,
        credential: &Credential,
        now: Timestamp,
    ) -> Result<(Origin, Option<i64>), String> {
        match credential {
            Credential::Line(mark) => Ok((Origin::Line(Arc::clone(mark)), None)),
            Credential::Certificate { not_after } => Ok((Origin::Certificate, Some(*not_after))),
            Credential::Foreign(certificate) => {
                let users = self.certificates.as_ref();
                let users = users.ok_or("for a certificate of nobody's")?;
                // Before the look: a pass for what the next authorities do not know would not count.
                let mark = users.mark();
                let found = self.certified(certificate, now);
                let found = found.ok_or("for a certificate that is not good any more")?;
                Ok((Origin::Authorities(mark), Some(found.not_after)))
            }
            Credential::Account(claims) => {
                let ends = claims.expires_at;
                Ok((Origin::Account(Arc::clone(claims)), Some(ends)))
            }
            Credential::Issued(token) => {
                let issuers = self.issuers.as_ref().ok_or("for a token without an issuer")?;
                let found = issuers.find(token.expose(), now).await;
                let found = found.ok_or("for a token that is not good any more")?;
                let origin = Origin::Issuer {
                    url: found.issuer.clone(),
                    rules: found.rules.clone(),
                };
                Ok((origin, Some(found.expires_at)))
            }
            Credential::Lasting => Err("without a credential".to_owned()),
            Credential::Pass(_) => Err("with another one".to_owned()),
            Credential::FrontProxy(_)
            | Credential::Host(_)
            | Credential::Reviewed(_)
            | Credential::Spoke(_) => Err(
                "for a credential that another server is asked about at each use: use it itself at the path of the cluster"
                    .to_owned(),
            ),
        }
    }

    async fn token_of_spoke(
        &self,
        token: &str,
        cluster: &ClusterScope,
        now: Timestamp,
    ) -> Option<(Arc<UserInfo>, Credential)> {
        let (spokes, cluster) = (self.spokes.as_ref()?, cluster.one()?);
        // A spoke may publish whose keys it likes: what others have said to be theirs is not shown to it.
        if self.issuers.as_ref().is_some_and(|it| it.claim(token)) {
            return None;
        }
        let user = spokes.find(token, cluster, now).await?;
        let token = SpokeToken {
            cluster: cluster.clone(),
            token: token.into(),
        };
        Some((user, Credential::Spoke(token)))
    }

    async fn token_of_host(
        &self,
        token: &str,
        now: Timestamp,
    ) -> Option<(Arc<UserInfo>, Credential)> {
        match self.host.as_ref()?.find(token, now).await {
            TokenAnswer::User(user) => Some((user, Credential::Host(SecretToken::new(token)))),
            TokenAnswer::Nobody | TokenAnswer::Unknown => None,
        }
    }

    /// The user of a token that no cluster has signed: an issuer's, or one that the webhook knows.
    async fn token_of_others(
        &self,
        token: &str,
        now: Timestamp,
    ) -> Option<(Arc<UserInfo>, Credential)> {
        if let Some(issuers) = &self.issuers {
            if let Some(found) = issuers.find(token, now).await {
                let credential = Credential::Issued(SecretToken::new(token));
                return Some((Arc::clone(&found.user), credential));
            }
            if issuers.claim(token) {
                return None;
            }
        }
        match self.webhook.as_ref()?.find(token).await {
            TokenAnswer::User(user) => Some((user, Credential::Reviewed(SecretToken::new(token)))),
            TokenAnswer::Nobody | TokenAnswer::Unknown => None,
        }
    }

    /// Whom a request for a path without credential acts as.
    fn anonymous_at(&self, path: &str) -> Option<Arc<UserInfo>> {
        let configured = self
            .issuers
            .as_ref()
            .and_then(|it| it.allows_anonymous(path));
        match configured {
            Some(true) => Some(Arc::new(UserInfo::anonymous())),
            Some(false) => None,
            None => self.anonymous.clone(),
        }
    }

    /// Whether what a sender was known by is good now. A host that does not answer sends nobody away.
    pub(crate) async fn still_good(&self, credential: &Credential, now: Timestamp) -> bool {
        match credential {
            Credential::Lasting | Credential::Line(_) => true,
            Credential::Pass(pass) => {
                let passes = self.passes.as_ref();
                passes.is_some_and(|it| it.is_good(pass, now)) && self.still_vouched_for(pass, now)
            }
            Credential::Certificate { not_after } => now.as_second() <= *not_after,
            Credential::FrontProxy(certificate) => {
                let front_proxy = self.front_proxy.as_ref();
                front_proxy.is_some_and(|it| it.accepts(certificate, now))
            }
            Credential::Foreign(certificate) => self.certified(certificate, now).is_some(),
            Credential::Account(claims) => self
                .accounts
                .as_ref()
                .is_some_and(|accounts| accounts.still_counts(claims, now)),
            Credential::Host(token) => match &self.host {
                Some(host) => !matches!(host.find(token.expose(), now).await, TokenAnswer::Nobody),
                None => false,
            },
            Credential::Issued(token) => {
                let issuers = self.issuers.as_ref();
                issuers.is_some_and(|it| it.still_good(token.expose(), now))
            }
            Credential::Reviewed(token) => match &self.webhook {
                Some(webhook) => webhook::is_still_good(&webhook.find(token.expose()).await),
                None => false,
            },
            Credential::Spoke(SpokeToken { cluster, token }) => match &self.spokes {
                Some(spokes) => spokes.find(token, cluster, now).await.is_some(),
                None => false,
            },
        }
    }

    /// Finds whose token this is at the path of `cluster`, and for whom of `audiences` it is; without any, for the API server.
    ///
    /// # Errors
    /// Why it is nobody's, in the words of kube-apiserver.
    pub(crate) async fn review(
        &self,
        token: &str,
        cluster: &ClusterScope,
        audiences: &[String],
    ) -> Result<Reviewed, service_accounts::TokenError> {
        let wanted = (!audiences.is_empty()).then_some(audiences);
        let now = Timestamp::now();
        // Such a token is for the API server, whatever that is called.
        let everywhere = own_audiences(cluster);
        let for_server = |user: Arc<UserInfo>, own: &[String]| {
            let audiences = service_accounts::in_both(own, wanted.unwrap_or(own));
            if audiences.is_empty() {
                return Err(service_accounts::TokenError::Invalid);
            }
            Ok(Reviewed { user, audiences })
        };
        if let Some(user) = self.tokens.user(token) {
            return for_server(user, &everywhere);
        }
        let accounts = self.accounts.as_ref();
        let found = accounts.map(|it| it.find(token, cluster.one(), wanted, now));
        match found.unwrap_or(Err(service_accounts::TokenError::Invalid)) {
            Ok(found) => Ok(Reviewed {
                user: found.user,
                audiences: found.audiences,
            }),
            Err(error) => {
                if let Some(pass) = self.pass(token, cluster, now) {
                    let own = [issuer_of(&pass.cluster)];
                    return for_server(Arc::new(pass.bearer()), &own);
                }
                let (user, _) = self.token_of_others(token, now).await.ok_or(error)?;
                for_server(user, &everywhere)
            }
        }
    }
}

/// What the API server is called as an audience at a path: as the issuer of that cluster's tokens, and of root's, which count there too.
fn own_audiences(cluster: &ClusterScope) -> Vec<String> {
    let mut audiences = Vec::new();
    if let Some(cluster) = cluster.one().filter(|cluster| !cluster.is_root()) {
        audiences.push(issuer_of(cluster));
    }
    audiences.push(issuer_of(&LogicalCluster::root()));
    audiences
}

/// Whether a browser sends this for a page of another origin. It adds its user's certificate to that by itself, which is nothing that the
/// user wants. A page cannot say such a header, and nothing but a browser does.
///
/// Source: Fetch Metadata Request Headers, section 2.4.
fn is_for_another_origin(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site");
    site.is_some_and(|site| site != "same-origin" && site != "none")
}

/// The token of the `Authorization` header, which may be empty, or of the subprotocols of a WebSocket.
///
/// # Errors
/// Where a token among the subprotocols cannot be read.
fn bearer_token(headers: &HeaderMap) -> Result<Option<Cow<'_, str>>, MalformedToken> {
    let authorization = || {
        let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim();
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    };
    if let Some(token) = authorization() {
        return Ok(Some(Cow::Borrowed(token)));
    }
    // Before anything is switched it is HTTP/1.1, or the header means nothing.
    if !websocket::is_asked_for(Version::HTTP_11, headers) {
        return Ok(None);
    }
    Ok(websocket::bearer_token(headers)?.map(Cow::Owned))
}

/// The refusal of a syncer where the hub itself looks after everything.
fn syncer_refused() -> Refusal {
    let text = "this hub looks after its spokes itself, and shares them with no syncer of another process: start it with \
                --no-syncer";
    Status::failure(403, api::StatusReason::Forbidden, text).into()
}

// === impl Sender ===

impl Sender {
    /// Who it is, before impersonation.
    pub(crate) const fn user(&self) -> &Arc<UserInfo> {
        &self.user
    }

    /// Makes the authenticated request. `context` gets the sender's user and origin.
    pub(crate) fn authenticate(
        self,
        mut request: Parts,
        info: RequestInfo,
        context: impl FnOnce(Arc<UserInfo>) -> RequestContext,
    ) -> Authenticated<Parts> {
        let mut context = context(self.user);
        context.origin = self.origin;
        context.credential = self.credential;
        context.fence = Fence::of(&request.headers);
        // Nothing behind this point may see or relay the header.
        request.headers.remove(header::AUTHORIZATION);
        let asked = Box::new(Asked {
            request,
            info,
            context,
        });
        Authenticated { asked }
    }
}

// === impl Authenticated ===

impl<R> Authenticated<R> {
    /// The request itself.
    pub fn request(&self) -> &R {
        &self.asked.request
    }

    /// What the path says.
    pub fn info(&self) -> &RequestInfo {
        &self.asked.info
    }

    /// Who asks.
    pub fn context(&self) -> &RequestContext {
        &self.asked.context
    }

    /// Puts another user in the place of the sender, who stays on record. For impersonation, once it is allowed.
    pub(crate) fn acting_as(mut self, user: Arc<UserInfo>) -> Self {
        let context = &mut self.asked.context;
        if let Some(trail) = &context.trail {
            trail.note_impersonated(&user);
        }
        let sender = std::mem::replace(&mut context.user, user);
        context.impersonator = Some(sender);
        self
    }

    /// Sets what collects the audit event of the request.
    pub(crate) fn set_trail(&mut self, trail: Arc<Trail>) {
        self.asked.context.trail = Some(trail);
    }

    /// Notes what the authorizer says, for the audit event of the request.
    pub(crate) fn note_decision(&mut self, allowed: bool, reason: Cow<'static, str>) {
        self.asked.context.note_decision(allowed, reason);
    }

    /// Sets the quota share of the sender.
    pub(crate) fn set_share(&mut self, share: &Arc<Share>) {
        self.asked.context.share = Some(Arc::clone(share));
    }

    /// Gives the request to the authorizer, which makes an `Authorized` of it.
    pub(crate) fn into_asked(self) -> Box<Asked<R>> {
        self.asked
    }
}

#[cfg(test)]
mod tests;
