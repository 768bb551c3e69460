//! The hub: all parts wired together, and the way of one request through them.
//!
//! ```text
//!   answer ──► route ──► target ──► authenticate ──► quota ──► authorize ──► target answers ──► finish
//!                          │                                          ├ side, discovery, openapi
//!                          │ registry: what is served                 ├ review
//!                          ▼                                          ├ handlers: the hub's store
//!                  which of them will answer                          └ relay: a spoke
//! ```
//!
//! The target is found before the request is authorized, because who judges depends on who answers; nothing of it
//! is told before the judgement.
//!
//! # Invariants
//! - Every answer goes through [`respond::finish`], every refusal through [`respond::refuse`].
//! - A request that panics is answered with 500 and harms no other.

mod bootstrap;
mod deadline;
mod debug;
mod in_process;
mod lifecycle;
mod open;
mod preview;
mod relayed;
mod replicas;
mod spans;
mod standing;
mod syncers;
mod target;
mod view;

use std::{
    fmt,
    net::IpAddr,
    panic::AssertUnwindSafe,
    sync::{Arc, OnceLock},
    time::Duration,
};

use api::status::Status;
use futures::{FutureExt, future::BoxFuture};
use http::{HeaderValue, Method, StatusCode, header, request::Parts};
use http_body::Body as _;
use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use spokes::Spokes;
use tokio::time::{Instant, timeout_at};
use tracing::{Instrument as _, Span};

pub use in_process::InProcess;
pub(crate) use lifecycle::Lifecycle;
pub use open::OpenError;
pub use preview::{AsCaller, Previewer};
pub use replicas::ShareError;

use crate::{
    audit::{self, Arrived, Audit, Lasting, Record},
    authenticate::{Authenticated, Authenticator, Passes, ServiceAccounts, SignIn},
    authorize::{Authorized, Authorizer, Judge, Reach, Refused},
    backup::Backups,
    config::Config,
    discovery,
    handle::Handlers,
    negotiate::{self, Negotiated},
    openapi,
    quota::{Fair, Of, Quotas, Seat},
    refusal::Refusal,
    registry::Registry,
    relay::Relay,
    request::{
        Ending, LongRunning, Peer, RequestContext, RequestInfo, UserInfo,
        share::{Kind, Permit},
    },
    respond::{self, Body, RequestBody, Response},
    review::Review,
    route,
    side::{self, Health, Metrics},
    tls::{ClientCertificates, ClientVerifier, Pki},
};
use standing::Standings;
use target::Target;

/// A hub. Clones share it.
#[derive(Clone)]
pub struct Hub {
    parts: Arc<HubParts>,
}

/// What a hub is made of.
struct HubParts {
    config: Config,
    pki: Arc<Pki>,
    registry: Arc<Registry>,
    handlers: Handlers,
    authenticator: Authenticator,
    accounts: Arc<ServiceAccounts>,
    passes: Arc<Passes>,
    /// `None` where people sign in to the fleet view by a token alone.
    sign_in: Option<SignIn>,
    authorizer: Arc<Authorizer>,
    discovery: discovery::Cache,
    openapi: openapi::Cache,
    spokes: Spokes,
    relay: Relay,
    backups: Backups,
    health: Health,
    metrics: Metrics,
    quotas: Arc<Quotas>,
    audit: Audit,
    lifecycle: Lifecycle,
    /// What goes on, and who may have it go on.
    standings: Standings,
    /// Who tells what definitions would do.
    previewer: OnceLock<Previewer>,
}

/// What is known of a request from its head alone, for its answer and its record.
struct Head {
    audit_id: HeaderValue,
    /// The other end of the connection, if there is one.
    address: Option<IpAddr>,
    omits_body: bool,
    takes_gzip: bool,
    closes: bool,
    started: Instant,
}

/// What the end of a request needs to know of its beginning.
struct Facts<'a> {
    parts: &'a Parts,
    info: &'a RequestInfo,
    context: &'a RequestContext,
    head: &'a Head,
}

/// The other end of a connection, and the place that it has.
type Sat<'a> = (&'a Peer, Option<&'a Seat>);

/// The record of a request, if there is one, and how long its answer goes on.
type Kept = (Option<Box<Record>>, Lasting);

/// What counts a request until its answer is sent.
struct Counted {
    permit: Option<Permit>,
    running: Option<LongRunning>,
}

/// How long an answer to a request that panicked waits for the record of it.
const RECORD_PATIENCE: Duration = Duration::from_secs(1);

// === impl Hub ===

impl Hub {
    /// The certificate authority and the first administrator's certificate.
    pub fn pki(&self) -> &Pki {
        &self.parts.pki
    }

    /// What is served where.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.parts.registry
    }

    /// Who may do what.
    pub fn authorizer(&self) -> &Arc<Authorizer> {
        &self.parts.authorizer
    }

    /// A client's way into the hub without a connection, as `user`. Requests over it may set what clients cannot.
    pub fn in_process(&self, user: UserInfo) -> InProcess {
        InProcess::new(self.clone(), user)
    }

    /// The connections to all spokes, which everything in this process shares.
    pub fn spokes(&self) -> &Spokes {
        &self.parts.spokes
    }

    /// Waits until all events are in the audit log, but not for longer than `patience`: before the process ends.
    pub async fn audit_flushed(&self, patience: Duration) {
        self.parts.audit.flushed(patience).await;
    }

    pub(crate) fn lifecycle(&self) -> &Lifecycle {
        &self.parts.lifecycle
    }

    /// Returns who is at the other end of a connection that showed `chain`.
    pub(crate) fn peer(
        &self,
        verifier: &ClientVerifier,
        chain: Option<&[CertificateDer<'_>]>,
        now: Timestamp,
    ) -> Peer {
        self.parts.authenticator.peer(verifier, chain, now)
    }

    /// Returns which client certificates are asked for.
    pub(crate) fn client_certificates(&self) -> ClientCertificates {
        self.parts.authenticator.client_certificates()
    }

    /// Whether a connection is a front proxy's now, and carries the requests of many users.
    pub(crate) fn is_front_proxy(&self, peer: &Peer, now: Timestamp) -> bool {
        self.parts.authenticator.is_front_proxy(peer, now)
    }

    /// Answers one request, of the connection that sits on `seat` if it came over one. Never fails and never panics.
    ///
    /// Boxed here, where the connection begins: the future is large, and the compiler proves once that it may move
    /// between threads.
    pub(crate) fn answer<'a>(
        &'a self,
        request: http::Request<RequestBody>,
        peer: &'a Peer,
        seat: Option<&'a Seat>,
    ) -> BoxFuture<'a, Response> {
        Box::pin(self.answer_unboxed(request, peer, seat))
    }

    async fn answer_unboxed(
        &self,
        request: http::Request<RequestBody>,
        peer: &Peer,
        seat: Option<&Seat>,
    ) -> Response {
        let head = Head::of(&request, seat);
        let (parts, body) = request.into_parts();
        let answered = AssertUnwindSafe(self.process(parts, body, (peer, seat), &head))
            .catch_unwind()
            .await;
        let mut response = match answered {
            Ok(response) => response,
            Err(_panic) => {
                // The panic hook has logged where it happened.
                tracing::error!(audit_id = ?head.audit_id, "request panicked");
                self.parts.audit.flushed(RECORD_PATIENCE).await;
                respond::refuse(&Refusal::internal("panic"), Negotiated::JSON, "")
            }
        };
        response
            .headers_mut()
            .insert(respond::AUDIT_ID, head.audit_id);
        if head.closes && response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
        }
        if head.omits_body {
            drop_body(&mut response);
        }
        if let Some(seat) = seat {
            seat.answered(&self.parts.quotas);
        }
        response
    }

    async fn process(
        &self,
        parts: Parts,
        body: RequestBody,
        (peer, seat): Sat<'_>,
        head: &Head,
    ) -> Response {
        if let Some(page) = ui::Page::of(parts.uri.path()) {
            return Box::pin(self.view(page, (&parts, body), (peer, seat), head)).await;
        }
        let info = match route::route(&parts.method, &parts.uri) {
            Ok(info) => info,
            Err(refusal) => {
                return self.refuse_early(&parts, None, &refusal, head).await;
            }
        };
        let span = spans::of_request(&info, head);
        // Boxed: what follows is handed through several futures.
        let routed = Box::new((parts, info));
        self.process_routed(routed, body, (peer, seat), head, &span)
            .instrument(span.clone())
            .await
    }

    async fn process_routed(
        &self,
        mut routed: Box<(Parts, RequestInfo)>,
        body: RequestBody,
        (peer, seat): Sat<'_>,
        head: &Head,
        span: &Span,
    ) -> Response {
        let (parts, info) = &mut *routed;
        let now = Timestamp::now();
        let target = Target::of(&self.parts.registry, info, peer.origin(now));
        let kind = kind_of(&target, parts, info);
        let is_long_running = kind != Kind::Request;
        let lasting = Lasting::of(is_long_running);
        let requests = self.parts.metrics.requests();
        let _in_flight = (!is_long_running).then(|| requests.in_flight(info.verb));
        let running = is_long_running.then(|| requests.long_running(info.verb));
        let _under_way = (!is_long_running).then(|| self.parts.lifecycle.request());
        let identified = self
            .parts
            .authenticator
            .identify(&parts.headers, peer, &info.cluster, &info.path, now)
            .await;
        let (sender, deadline) = match identified
            .and_then(|sender| Ok((sender, deadline::of(parts, info, head.started)?)))
        {
            Ok(known) => known,
            Err(refusal) => {
                return self.refuse_early(parts, Some(info), &refusal, head).await;
            }
        };
        let cluster = info.cluster.clone();
        let caller =
            matches!(target, Target::Preview).then(|| AsCaller::of(self, peer, &parts.headers));
        let record = self.parts.audit.begin(Arrived {
            audit_id: &head.audit_id,
            parts,
            info: Some(info),
            user: Some(sender.user()),
            address: head.address,
            at: now,
        });
        self.parts.authenticator.clear_remote(&mut parts.headers);
        let (parts, info) = *routed;
        let mut authenticated = sender.authenticate(parts, info, |user| {
            RequestContext::new(user, head.audit_id.clone(), cluster, now, deadline)
        });
        span.record("user", &authenticated.context().user.username);
        let traced = spans::traced(&authenticated);
        let rest = async {
            let taken = self
                .take_up(&mut authenticated, record.as_deref(), seat, kind)
                .await;
            let kept = (record, lasting);
            match taken {
                Ok(permit) => {
                    let counted = Counted { permit, running };
                    let asked = (target, caller, body);
                    let of = Of::request(seat, authenticated.context());
                    // Boxed: what is around it is moved several times before it is first polled.
                    let answering = Box::pin(self.process_authenticated(
                        authenticated,
                        asked,
                        counted,
                        kept,
                        head,
                    ));
                    Fair::new(answering, of).await
                }
                Err(refusal) => {
                    let facts = Facts::of_authenticated(&authenticated, head);
                    self.finish(Err(refusal), &facts, kept).await
                }
            }
        };
        rest.instrument(traced).await
    }

    async fn process_authenticated(
        &self,
        authenticated: Authenticated<Parts>,
        (target, caller, body): (Target, Option<AsCaller>, RequestBody),
        Counted { permit, running }: Counted,
        kept: Kept,
        head: &Head,
    ) -> Response {
        let is_long_running = kept.1 == Lasting::LongRunning;
        let judge = target.judge();
        match self.parts.authorizer.admit(authenticated, judge).await {
            Ok(mut authorized) => {
                let target = match authorized.reach() {
                    Reach::Target => target,
                    Reach::OwnIdentity => Target::Review(Review::SelfSubject),
                };
                if is_long_running {
                    self.enlist(&mut authorized, target.judge());
                }
                let answered = self
                    .dispatch((target, caller), &authorized, body, is_long_running)
                    .await
                    .map(|answer| hold(answer, permit, running));
                let facts = Facts::of_authorized(&authorized, head);
                self.finish(answered, &facts, kept).await
            }
            Err(refused) => {
                let Refused {
                    refusal,
                    authenticated,
                } = *refused;
                let facts = Facts::of_authenticated(&authenticated, head);
                self.finish(Err(refusal), &facts, kept).await
            }
        }
    }

    /// Records that a request has come, and counts it for its user.
    ///
    /// # Errors
    /// 429, and 500 where the record is required and cannot be written.
    async fn take_up(
        &self,
        request: &mut Authenticated<Parts>,
        record: Option<&Record>,
        seat: Option<&Seat>,
        kind: Kind,
    ) -> Result<Option<Permit>, Refusal> {
        if let Some(record) = record {
            request.set_trail(record.trail());
            record.received().await?;
        }
        self.take_share(request, seat, kind)
    }

    /// Lets an answer that goes on be ended: by the drain, or by the loss of what lets it go on.
    fn enlist(&self, request: &mut Authorized<Parts>, judge: Judge<'_>) {
        let parts = &self.parts;
        let drain = parts.lifecycle.watches_end();
        request.set_ending(Ending::of(drain.clone()));
        let cluster = request.info().cluster.one();
        let kind = cluster.and_then(|cluster| parts.registry.cluster_kind(cluster));
        parts.standings.enlist(request, judge, kind, &drain);
    }

    /// Counts a request for the user who sends it, unless it is a health check or a controller's.
    ///
    /// # Errors
    /// 429.
    fn take_share(
        &self,
        request: &mut Authenticated<Parts>,
        seat: Option<&Seat>,
        kind: Kind,
    ) -> Result<Option<Permit>, Refusal> {
        if is_health(&request.info().path) {
            return Ok(None);
        }
        if request.context().origin.is_controller() {
            seat.inspect(|seat| seat.count_for_nobody());
            return Ok(None);
        }
        let user = Arc::clone(&request.context().user);
        let quotas = &self.parts.quotas;
        let share = match seat {
            Some(seat) => seat.share(quotas, &user),
            None => quotas.share(&user, None),
        };
        request.set_share(&share);
        match seat {
            Some(seat) if request.context().is_proxied() => seat.count_for_nobody(),
            Some(seat) => seat.count_for(&share, &user)?,
            None => {}
        }
        share.take(kind, &user).map(Some)
    }

    /// Lets the target answer, in time.
    async fn dispatch(
        &self,
        (target, caller): (Target, Option<AsCaller>),
        request: &Authorized<Parts>,
        body: RequestBody,
        is_long_running: bool,
    ) -> Result<Response, Refusal> {
        if let (Target::Preview, Some(caller)) = (&target, caller) {
            return Box::pin(self.preview(caller, request, body)).await;
        }
        if is_long_running {
            return target.answer(self, request, body).await;
        }
        let answer = async {
            let body = match target {
                Target::Spoke => relayed::recorded(request, body).await?,
                _ => body,
            };
            target.answer(self, request, body).await
        };
        timeout_at(request.context().deadline, answer)
            .await
            .unwrap_or_else(|_elapsed| {
                let text = "request did not complete within the allotted timeout";
                Err(Status::timeout(text).into())
            })
    }

    /// Turns what came of a request into its answer, and records it.
    async fn finish(
        &self,
        answered: Result<Response, Refusal>,
        facts: &Facts<'_>,
        (record, lasting): Kept,
    ) -> Response {
        let head = facts.head;
        let (mut response, refusal) = match answered {
            Ok(response) => (response, None),
            Err(refusal) => {
                log_cause(&refusal, &head.audit_id);
                let path = &facts.info.path;
                let response = discovery::refuse(&refusal, facts.parts, path)
                    .or_else(|| openapi::refuse(&refusal, facts.parts, path))
                    .unwrap_or_else(|| {
                        let form = negotiate::accept_refusal(facts.parts);
                        respond::refuse(&refusal, form, &facts.info.prefix())
                    });
                (response, Some(refusal))
            }
        };
        let late = || {
            self.parts
                .audit
                .begin_late(facts.arrived(), facts.context, response.status())
        };
        if let Some(record) = record.or_else(late) {
            let until = (lasting, facts.context.deadline);
            record
                .answered(&mut response, refusal.as_ref(), until)
                .await;
        }
        let warnings = facts.context.take_warnings();
        respond::finish(&mut response, &head.audit_id, &warnings, head.takes_gzip);
        let requests = self.parts.metrics.requests();
        let code = response.status().as_u16();
        let latency = head.started.elapsed();
        requests.count(Some(facts.info), code, latency);
        spans::answered(code);
        tracing::debug!(
            http.response.status_code = code,
            latency_ms = latency.as_millis(),
            "request answered"
        );
        response
    }

    /// Answers a request of which it is not known who sends it.
    async fn refuse_early(
        &self,
        parts: &Parts,
        info: Option<&RequestInfo>,
        refusal: &Refusal,
        head: &Head,
    ) -> Response {
        log_cause(refusal, &head.audit_id);
        let form = negotiate::accept_refusal(parts);
        let prefix = info.map(RequestInfo::prefix).unwrap_or_default();
        let mut response = respond::refuse(refusal, form, &prefix);
        let record = self.parts.audit.begin_refused(Arrived {
            audit_id: &head.audit_id,
            parts,
            info,
            user: None,
            address: head.address,
            at: Timestamp::now(),
        });
        if let Some(record) = record {
            // A refusal is there as a whole.
            let early = (Lasting::Early, Instant::now());
            record.answered(&mut response, Some(refusal), early).await;
        }
        respond::finish(&mut response, &head.audit_id, &[], head.takes_gzip);
        let code = response.status().as_u16();
        let requests = self.parts.metrics.requests();
        requests.count(info, code, head.started.elapsed());
        response
    }
}

#[cfg(test)]
impl Hub {
    /// The share of a user who has a credential.
    pub(crate) fn share_of(&self, user: &UserInfo) -> Arc<crate::request::share::Share> {
        self.parts.quotas.share(user, None)
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub")
            .field("config", &self.parts.config)
            .finish_non_exhaustive()
    }
}

// === impl Head ===

impl Head {
    fn of(request: &http::Request<RequestBody>, seat: Option<&Seat>) -> Self {
        Self {
            audit_id: audit::id_of(request.headers()),
            address: seat.map(Seat::address),
            omits_body: *request.method() == Method::HEAD,
            takes_gzip: respond::accepts_gzip(request.headers()),
            closes: is_chunked(request) || asks_to_switch(request),
            started: Instant::now(),
        }
    }
}

// === impl Facts ===

impl<'a> Facts<'a> {
    fn of_authorized(request: &'a Authorized<Parts>, head: &'a Head) -> Self {
        Self {
            parts: request.request(),
            info: request.info(),
            context: request.context(),
            head,
        }
    }

    fn of_authenticated(request: &'a Authenticated<Parts>, head: &'a Head) -> Self {
        Self {
            parts: request.request(),
            info: request.info(),
            context: request.context(),
            head,
        }
    }

    /// The request as it arrived.
    fn arrived(&self) -> Arrived<'a> {
        Arrived {
            audit_id: &self.head.audit_id,
            parts: self.parts,
            info: Some(self.info),
            user: Some(&self.context.user),
            address: self.head.address,
            at: self.context.now,
        }
    }
}

/// Lets a request count until its answer is sent.
fn hold(mut answer: Response, permit: Option<Permit>, running: Option<LongRunning>) -> Response {
    answer.body_mut().hold(permit, running);
    answer
}

/// As what a request counts.
fn kind_of(target: &Target, parts: &Parts, info: &RequestInfo) -> Kind {
    if target.switches(parts, info) {
        Kind::Stream
    } else if info.is_long_running() {
        Kind::Watch
    } else {
        Kind::Request
    }
}

fn is_health(path: &str) -> bool {
    matches!(side::Page::of(path), Some(side::Page::Health(..)))
}

/// Logs what a client is not told.
fn log_cause(refusal: &Refusal, audit_id: &HeaderValue) {
    let Some(cause) = refusal.cause() else { return };
    let error = dialect::error_chain(&**cause);
    if refusal.status().is_some_and(|status| status.code == 500) {
        tracing::error!(audit_id = ?audit_id, error, "request failed");
    } else {
        tracing::debug!(audit_id = ?audit_id, error, "request refused");
    }
}

/// Leaves the head of an answer, with the length that its body would have.
fn drop_body(response: &mut Response) {
    let length = response.body().size_hint().exact();
    *response.body_mut() = Body::empty();
    if let Some(length) = length {
        response
            .headers_mut()
            .insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
}

/// Whether the body of a request comes in chunks of HTTP/1.1. Its length may have been said twice then, and differently, of which hyper keeps
/// nothing; what a proxy takes for the rest of the body must not be taken for another request, so the connection ends with this
/// one. Source: RFC 9112 section 6.1.
fn is_chunked(request: &http::Request<RequestBody>) -> bool {
    request.version() < http::Version::HTTP_2
        && request.headers().contains_key(header::TRANSFER_ENCODING)
}

/// Whether the client may take the connection for one of another protocol from now on. If it is none, what the client has sent by then
/// must not be read as a request, so the connection ends with the refusal.
fn asks_to_switch(request: &http::Request<RequestBody>) -> bool {
    request.version() < http::Version::HTTP_2 && request.headers().contains_key(header::UPGRADE)
}

#[cfg(test)]
mod tests;
