//! Says whether a request may be done.
//!
//! Two gates stand before a spoke's logical cluster. The first asks root's RBAC for the verb `access` on
//! `spokes/<name>`; who does not pass it learns nothing, not even whether the cluster exists. The second is the
//! RBAC of the logical cluster itself: its own objects where the hub stores them, the spoke's judgement where a request
//! is relayed. A list or watch over all clusters asks both gates of each cluster ([`sight`]); what else there is at
//! `/clusters/*` asks the first gate for all spokes and root's RBAC for the rest.
//!
//! # Invariants
//! - [`Authorized`] is made here alone, and only after both gates. A caller who does not pass them learns only its own
//!   identity ([`Reach::OwnIdentity`]).
//! - What the hub writes for itself ([`is_reserved`]) no role allows, and no `system:masters` but the hub's own.
//! - `system:masters` passes without RBAC, as in Kubernetes, so a broken policy can be repaired: the hub's own everywhere, those that the administrators
//!   of one cluster act as in that cluster alone.
//! - What root's rules leave open about users of a host, that host is asked ([`delegated`]).
//! - Rules are asked about a user as their cluster knows it ([`UserInfo::as_known_in`]); about one that it does not know they say nothing.
//!
//! Source: `apiserver/pkg/endpoints/filters/authorization.go`, `kubernetes/plugin/pkg/auth/authorizer/rbac`.

mod attributes;
pub mod bootstrap;
mod delegated;
mod escalation;
mod held;
mod impersonate;
mod policies;
pub mod rbac;
mod sight;

use std::{borrow::Cow, collections::BTreeMap, fmt, sync::Arc};

use api::{
    cluster::{ClusterScope, LogicalCluster},
    group::GroupResource,
    kro,
    status::Status,
    wheelhouse,
};
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::watch;

pub use attributes::{Attributes, Decision};
pub(crate) use delegated::HostReviewer;
pub(crate) use escalation::Grant;
pub(crate) use held::{Held, Reconsidered};
pub use policies::Policies;
pub(crate) use sight::{REVIEW_LIFETIME, Sight};

use delegated::ANSWER_AGE;

use crate::{
    authenticate::Authenticated,
    refusal::Refusal,
    registry::ClusterKind,
    request::{
        ALL_AUTHENTICATED, ANONYMOUS, Asked, Ending, RequestContext, RequestInfo,
        SERVICE_ACCOUNT_PREFIX, UserInfo, Verb,
    },
};

/// The verb that the first gate asks for.
const ACCESS: &str = "access";
/// Bytes of a user's name that stands in a command.
const USERNAME_BYTES_MAX: usize = 256;
/// How much of what another cluster's authorizer says for its decision is told to the client.
const REASON_CHAR_COUNT_MAX: usize = 1024;
/// Why audit events say that a request was let through, where rules are not asked or not alone: the spoke judges what is relayed to it.
const BY_SPOKE: &str = "wheelhouse: the spoke decides";
/// Each cluster decides about its part of a request over all.
const BY_EACH: &str = "wheelhouse: each cluster decides about its part";
/// Whoever is known may ask who it is.
const OWN_IDENTITY: &str = "wheelhouse: a user may ask who it is";
/// The group of `spokes`.
const SPOKE_GROUP: &str = "wheelhouse.dev";

/// A request that its sender may do. Only this module makes it.
#[derive(Debug)]
pub struct Authorized<R> {
    asked: Box<Asked<R>>,
    /// For a request over all clusters that is judged cluster by cluster.
    sight: Option<Sight>,
    /// The spokes that such a request may be relayed to.
    spokes: Vec<LogicalCluster>,
    reach: Reach,
}

/// How far a request may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// To whoever answers it.
    Target,
    /// Only to the answer to who its sender is, which is no secret of any cluster: the sender did not pass the gates, and gets
    /// the same answer whether or not there is such a cluster.
    OwnIdentity,
}

/// A request that its sender may not do, with what the record of it needs.
#[derive(Debug)]
pub struct Refused<R> {
    /// The answer.
    pub refusal: Refusal,
    /// The request.
    pub authenticated: Authenticated<R>,
}

/// What let a request pass that is judged cluster by cluster; nothing for any other.
#[derive(Debug, Default)]
struct Passed {
    sight: Option<Sight>,
    spokes: Vec<LogicalCluster>,
    reason: Cow<'static, str>,
}

/// Why a request may not be done, for the caller and for the audit event.
#[derive(Debug)]
struct Stopped {
    refusal: Refusal,
    reason: String,
}

/// Who judges a request at the second gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judge<'a> {
    /// The RBAC objects of the logical cluster, or root's for all of them at once.
    Rules,
    /// The spoke, when the relayed request reaches it: nothing is asked here.
    Spoke,
    /// Nobody: the first gate is enough (discovery of a spoke), or there is nothing to protect behind it.
    FirstGate,
    /// Both gates of each cluster whose objects the hub stores, and the first gate of each spoke that is asked itself. The request
    /// passes if one of them lets it in.
    Each {
        /// The clusters whose objects the hub stores.
        stored: &'a [LogicalCluster],
        /// Those whose spokes are asked.
        relayed: &'a [LogicalCluster],
    },
}

/// Asks a spoke what its RBAC says to a question about a kind that the hub stores for it.
pub type SpokeReviewer =
    Arc<dyn for<'a> Fn(Attributes<'a>) -> BoxFuture<'a, SpokeAnswer> + Send + Sync>;

/// What came of a question to a spoke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpokeAnswer {
    /// It was answered, by the spoke or for it.
    Decided(Decision),
    /// The spoke did not answer. Whoever was let in before has not been sent away by that.
    Unreached {
        /// Why.
        reason: String,
    },
    /// There is no way to the spoke: it is gone, suspended, or has no credential.
    NotConnected {
        /// Why.
        reason: String,
    },
}

/// Answers questions about what users may do, from RBAC objects in memory.
pub struct Authorizer {
    policies: Policies,
    clusters: watch::Receiver<Arc<BTreeMap<LogicalCluster, ClusterKind>>>,
    spoke_reviewer: Option<SpokeReviewer>,
    reviews: sight::Reviews,
    host: Option<delegated::Host>,
}

/// A decision and what there is to say about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Whether it may be done.
    pub(crate) allowed: bool,
    /// Whether it must not be done, whatever others say.
    pub(crate) denied: bool,
    /// Why; empty where nothing is known.
    pub(crate) reason: String,
    /// What went wrong on the way.
    pub(crate) errors: Vec<String>,
    /// Whether the one who decides could not be asked, so that the answer may be another one later.
    pub(crate) undecided: bool,
}

// === impl SpokeAnswer ===

impl SpokeAnswer {
    /// Reads the `status` of a SubjectAccessReview that another cluster has answered.
    pub(crate) fn of_review(status: &Value) -> Self {
        let reason = status["reason"].as_str().unwrap_or_default();
        let reason: String = reason.chars().take(REASON_CHAR_COUNT_MAX).collect();
        Self::Decided(if status["allowed"] == true {
            Decision::Allow
        } else if status["denied"] == true {
            Decision::Deny { reason }
        } else {
            Decision::NoOpinion { reason }
        })
    }
}

// === impl Authorizer ===

impl Authorizer {
    /// Makes an authorizer over the RBAC objects that `policies` follows. `clusters` says what each logical cluster is.
    pub fn new(
        policies: Policies,
        clusters: watch::Receiver<Arc<BTreeMap<LogicalCluster, ClusterKind>>>,
    ) -> Self {
        Self {
            policies,
            clusters,
            spoke_reviewer: None,
            reviews: sight::Reviews::default(),
            host: None,
        }
    }

    /// Sets what asks spokes about the kinds that the hub stores for them.
    #[must_use]
    pub fn with_spoke_reviewer(mut self, reviewer: SpokeReviewer) -> Self {
        self.spoke_reviewer = Some(reviewer);
        self
    }

    /// Lets a request pass that its sender may do.
    ///
    /// # Errors
    /// The request and its 403; 400 for impersonation headers that make no sense.
    pub(crate) async fn admit(
        &self,
        authenticated: Authenticated<http::request::Parts>,
        judge: Judge<'_>,
    ) -> Result<Authorized<http::request::Parts>, Box<Refused<http::request::Parts>>> {
        let mut authenticated = impersonate::apply(self, authenticated)?;
        let verdict = {
            let asked = Attributes::of_request(authenticated.context(), authenticated.info());
            self.pass(&asked, judge).await
        };
        let (passed, reach) = match verdict {
            Ok(passed) => (passed, Reach::Target),
            Err(_stopped) if asks_for_itself(&authenticated) => {
                let reason = Cow::Borrowed(OWN_IDENTITY);
                let passed = Passed {
                    reason,
                    ..Passed::default()
                };
                (passed, Reach::OwnIdentity)
            }
            Err(Stopped { refusal, reason }) => {
                authenticated.note_decision(false, Cow::Owned(reason));
                return Err(Box::new(Refused {
                    refusal,
                    authenticated,
                }));
            }
        };
        let Passed {
            sight,
            spokes,
            reason,
        } = passed;
        authenticated.note_decision(true, reason);
        Ok(Authorized {
            asked: authenticated.into_asked(),
            sight,
            spokes,
            reach,
        })
    }

    /// Asks the gates that a request has to pass.
    async fn pass(&self, asked: &Attributes<'_>, judge: Judge<'_>) -> Result<Passed, Stopped> {
        if let Judge::Each { stored, relayed } = judge {
            let sight = self.sight(asked, stored).await;
            let sees_something = sight.only().is_none_or(|clusters| !clusters.is_empty());
            let spokes = self.entered(asked.user, relayed);
            let verdict = Verdict {
                allowed: sees_something || sight.unknown().is_some() || !spokes.is_empty(),
                ..Verdict::default()
            };
            refuse_unless_allowed(asked, &verdict)?;
            return Ok(Passed {
                sight: Some(sight),
                spokes,
                reason: Cow::Borrowed(BY_EACH),
            });
        }
        self.enter_or_ask(asked.user, asked.cluster, ANSWER_AGE)
            .await?;
        let reason = match judge {
            Judge::Rules => {
                let verdict = self.judge(asked).await;
                refuse_unless_allowed(asked, &verdict).map_err(|refusal| Stopped {
                    refusal,
                    reason: verdict.reason.clone(),
                })?;
                Cow::Owned(verdict.reason)
            }
            Judge::Spoke => Cow::Borrowed(BY_SPOKE),
            Judge::FirstGate | Judge::Each { .. } => Cow::Borrowed(""),
        };
        Ok(Passed {
            reason,
            ..Passed::default()
        })
    }

    /// Answers whether something may be done, both gates included.
    pub async fn authorize(&self, asked: &Attributes<'_>) -> Decision {
        let verdict = self.explain(asked).await;
        match verdict {
            Verdict { allowed: true, .. } => Decision::Allow,
            Verdict {
                denied: true,
                reason,
                ..
            } => Decision::Deny { reason },
            Verdict { reason, .. } => Decision::NoOpinion { reason },
        }
    }

    /// Asks for something that a request implies beside its own verb.
    ///
    /// # Errors
    /// 403 in Kubernetes' words.
    pub async fn require(&self, asked: &Attributes<'_>) -> Result<(), Refusal> {
        refuse_unless_allowed(asked, &self.explain(asked).await)
    }

    /// [`Authorizer::authorize`] with all there is to say.
    pub(crate) async fn explain(&self, asked: &Attributes<'_>) -> Verdict {
        let entered = self.enter_or_ask(asked.user, asked.cluster, ANSWER_AGE);
        if entered.await.is_err() {
            return Verdict::default();
        }
        self.judge(asked).await
    }

    /// What may be said to somebody who asks, at the path of a cluster, what a user of this name and these groups may there. The first gate knows the user as
    /// one of the hub's, the cluster as one of its own.
    pub(crate) async fn explain_for(&self, asked: &Attributes<'_>) -> Verdict {
        let Some(cluster) = asked.cluster.one().filter(|it| self.is_embedded(it)) else {
            return self.explain(asked).await;
        };
        let local = asked.user.clone().vouched_for_by(cluster);
        let is_own_account = local.username.starts_with(SERVICE_ACCOUNT_PREFIX);
        if !is_own_account && self.enter(asked.user, asked.cluster).is_err() {
            let reason = "the user may not access this logical cluster, whatever its roles say";
            return Verdict {
                reason: reason.to_owned(),
                ..Verdict::default()
            };
        }
        let user = &local;
        self.judge(&Attributes { user, ..*asked }).await
    }

    /// Whether a user passes the first gate of a logical cluster.
    ///
    /// # Errors
    /// 403, whether there is such a cluster or not.
    pub(crate) async fn may_access(&self, user: &UserInfo, cluster: &str) -> Result<(), Refusal> {
        let root = ClusterScope::One(LogicalCluster::root());
        match cluster.parse() {
            Ok(cluster) => {
                let cluster = ClusterScope::One(cluster);
                self.enter_or_ask(user, &cluster, ANSWER_AGE).await
            }
            Err(_no_name) => Err(no_access(&access(user, &root, cluster), "").into()),
        }
    }

    /// All rules that hold for `user`, for a SelfSubjectRulesReview.
    pub(crate) fn rules_for(
        &self,
        user: &UserInfo,
        cluster: &ClusterScope,
        namespace: &str,
    ) -> (Vec<rbac::PolicyRule>, Vec<String>) {
        let root = LogicalCluster::root();
        let cluster = cluster.one().unwrap_or(&root);
        match user.as_known_in(cluster) {
            Some(user) => self.policies.of(cluster).rules_for(user, namespace),
            None => Default::default(),
        }
    }

    /// What the rules of a logical cluster say.
    fn ask_rules(&self, cluster: &LogicalCluster, asked: &Attributes<'_>) -> Verdict {
        let Some(user) = asked.user.as_known_in(cluster) else {
            return Verdict::default();
        };
        let asked = Attributes { user, ..*asked };
        Verdict::from_rbac(&self.policies.of(cluster).answer(&asked))
    }

    /// The first gate.
    fn enter(&self, user: &UserInfo, cluster: &ClusterScope) -> Result<(), Refusal> {
        let name = match cluster {
            ClusterScope::One(cluster) if cluster.is_root() => return Ok(()),
            ClusterScope::One(cluster) => cluster.as_str(),
            ClusterScope::All => "*",
        };
        let is_at_home = user
            .known_only_in()
            .is_some_and(|own| cluster.one() == Some(own));
        if user.is_master_of_hub() || is_at_home {
            return Ok(());
        }
        let root = ClusterScope::One(LogicalCluster::root());
        let asked = access(user, &root, name);
        let verdict = self.ask_rules(&LogicalCluster::root(), &asked);
        if verdict.allowed {
            return Ok(());
        }
        Err(no_access(&asked, &verdict.reason).into())
    }

    /// The second gate.
    async fn judge(&self, asked: &Attributes<'_>) -> Verdict {
        match self.judge_here(asked) {
            Some(verdict) => self.or_ask(asked, verdict, ANSWER_AGE).await,
            None => Verdict::from_spoke(self.ask_spoke(asked).await),
        }
    }

    /// The second gate, as far as it stands here; `None` where a spoke is to be asked.
    fn judge_here(&self, asked: &Attributes<'_>) -> Option<Verdict> {
        let is_reserved = is_reserved(asked) && !asked.user.is_master_of_hub();
        if is_reserved {
            return Some(Verdict {
                denied: true,
                reason: "objects of this kind are written by the hub alone".to_owned(),
                ..Verdict::default()
            });
        }
        if asked.user.is_master_in(asked.cluster) {
            return Some(Verdict {
                allowed: true,
                ..Verdict::default()
            });
        }
        let root = LogicalCluster::root();
        let cluster = asked.cluster.one().unwrap_or(&root);
        (!self.is_composite(cluster)).then(|| self.ask_rules(cluster, asked))
    }

    fn is_composite(&self, cluster: &LogicalCluster) -> bool {
        !cluster.is_root() && self.kind_of(cluster) == Some(ClusterKind::Composite)
    }

    fn is_embedded(&self, cluster: &LogicalCluster) -> bool {
        self.kind_of(cluster) == Some(ClusterKind::Embedded)
    }

    fn kind_of(&self, cluster: &LogicalCluster) -> Option<ClusterKind> {
        self.clusters.borrow().get(cluster).copied()
    }

    async fn ask_spoke(&self, asked: &Attributes<'_>) -> SpokeAnswer {
        match &self.spoke_reviewer {
            Some(reviewer) => reviewer(*asked).await,
            None => SpokeAnswer::Decided(Decision::no_opinion()),
        }
    }
}

impl fmt::Debug for Authorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorizer").finish_non_exhaustive()
    }
}

// === impl Stopped ===

impl From<Refusal> for Stopped {
    /// For refusals about which there is nothing to say but what their message says.
    fn from(refusal: Refusal) -> Self {
        Self {
            refusal,
            reason: String::new(),
        }
    }
}

// === impl Verdict ===

impl Verdict {
    /// Nobody is let in by a spoke that does not answer.
    fn from_spoke(answer: SpokeAnswer) -> Self {
        let refused = |reason| Self {
            reason,
            ..Self::default()
        };
        match answer {
            SpokeAnswer::Decided(Decision::Allow) => Self {
                allowed: true,
                ..Self::default()
            },
            SpokeAnswer::Decided(Decision::Deny { reason }) => Self {
                denied: true,
                ..refused(reason)
            },
            SpokeAnswer::Decided(Decision::NoOpinion { reason }) => refused(reason),
            SpokeAnswer::Unreached { reason } | SpokeAnswer::NotConnected { reason } => Self {
                errors: vec![reason.clone()],
                undecided: true,
                ..refused(reason)
            },
        }
    }

    fn from_rbac(answer: &rbac::Answer) -> Self {
        let reason = match (&answer.grant, answer.errors.as_slice()) {
            (Some(grant), _) => grant.to_string(),
            (None, []) => String::new(),
            (None, [error]) => format!("RBAC: {error}"),
            (None, errors) => format!("RBAC: [{}]", errors.join(", ")),
        };
        Self {
            allowed: answer.grant.is_some(),
            denied: false,
            reason,
            errors: answer.errors.clone(),
            undecided: false,
        }
    }
}

// === impl Authorized ===

impl<R> Authorized<R> {
    /// The request itself: `http::request::Parts` in the server.
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

    /// The clusters that the sender may look into; `None` where the request is not judged cluster by cluster.
    pub(crate) fn sight(&self) -> Option<&Sight> {
        self.sight.as_ref()
    }

    /// The spokes that a request over all clusters may be relayed to, each of which judges it itself.
    pub(crate) fn spokes(&self) -> &[LogicalCluster] {
        &self.spokes
    }

    /// The 403 for a request that everyone who judged it has refused.
    pub(crate) fn refused_by_all(&self) -> Refusal {
        forbidden(&Attributes::of_request(self.context(), self.info()), "").into()
    }

    /// How far the request may go.
    pub(crate) fn reach(&self) -> Reach {
        self.reach
    }

    /// Sets what ends a long-running answer to this request.
    pub(crate) fn set_ending(&mut self, ending: Ending) {
        self.asked.context.ending = ending;
    }

    /// Makes an authorized request without asking anyone, for component tests of handlers.
    #[cfg(test)]
    pub(crate) fn for_test(request: R, info: RequestInfo, context: RequestContext) -> Self {
        let asked = Box::new(Asked {
            request,
            info,
            context,
        });
        Self {
            asked,
            sight: Some(Sight::All),
            spokes: Vec::new(),
            reach: Reach::Target,
        }
    }
}

/// The question of the first gate; `root` is where it is asked.
fn access<'a>(user: &'a UserInfo, root: &'a ClusterScope, name: &'a str) -> Attributes<'a> {
    Attributes {
        user,
        cluster: root,
        verb: ACCESS,
        group: SPOKE_GROUP,
        version: "v1alpha1",
        resource: "spokes",
        subresource: "",
        namespace: "",
        name,
        path: "",
        is_resource: true,
    }
}

/// Whether something is the hub's own to do, whatever roles say. What stands in these objects is done with the hub's rights: an
/// Inventory names what is deleted in a spoke, a ServedResource what the hub serves in its place, a GraphRevision what is
/// compiled. A role with `*` in one namespace must not reach as far. The deletion of revisions is left to roles, as
/// with kro.
fn is_reserved(asked: &Attributes<'_>) -> bool {
    let reads = matches!(asked.verb, "get" | "list" | "watch");
    match asked.group {
        wheelhouse::INTERNAL_GROUP => asked.is_resource && !reads,
        kro::INTERNAL_GROUP => {
            asked.is_resource && matches!(asked.verb, "create" | "update" | "patch")
        }
        _ => false,
    }
}

/// Whether somebody who is known asks, at the path of one cluster, who they are.
fn asks_for_itself(request: &Authenticated<http::request::Parts>) -> bool {
    let (info, user) = (request.info(), &request.context().user);
    info.is_resource
        && info.verb == Verb::Create
        && !info.names_object
        && info.namespace.is_empty()
        && info.cluster.one().is_some()
        && (info.group.as_str(), info.version.as_str()) == ("authentication.k8s.io", "v1")
        && (info.resource.as_str(), info.subresource.as_str()) == ("selfsubjectreviews", "")
        && user.groups.iter().any(|group| group == ALL_AUTHENTICATED)
}

// === refusals ===

fn refuse_unless_allowed(asked: &Attributes<'_>, verdict: &Verdict) -> Result<(), Refusal> {
    if verdict.allowed {
        return Ok(());
    }
    if verdict.undecided {
        // A 403 would tell clients that asking again is of no use.
        return Err(Status::service_unavailable(verdict.reason.clone()).into());
    }
    Err(forbidden(asked, &verdict.reason).into())
}

/// The 403 of the first gate, with what lets somebody pass it. The name of a cluster is a DNS label, so it can stand in a command.
/// The user is named as root knows them: the right is judged there.
fn no_access(asked: &Attributes<'_>, reason: &str) -> Status {
    let (name, root) = (asked.name, LogicalCluster::root());
    let user = asked.user.as_known_in(&root).unwrap_or(asked.user);
    let asked = &Attributes { user, ..*asked };
    let subject = subject_flag(&user.username);
    let (role, only) = match name {
        "*" => ("access-all".to_owned(), String::new()),
        name => (format!("access-{name}"), format!(" --resource-name={name}")),
    };
    let because = if reason.is_empty() {
        String::new()
    } else {
        format!(" ({reason})")
    };
    let grant = if user.username == ANONYMOUS {
        // No binding would help.
        format!(
            "{because}: the request has no credential; send a token or a client certificate of the hub"
        )
    } else {
        format!(
            "{because}: the verb \"access\" on \"spokes/{name}\" is granted in root, with: kubectl create clusterrole {role} \
             --verb=access --resource=spokes.wheelhouse.dev{only}; kubectl create clusterrolebinding {role} \
             --clusterrole={role} {subject}"
        )
    };
    let gr = GroupResource::new(asked.group, asked.resource);
    let detail = format!("{}{grant}", sanitized(&question(asked)));
    Status::forbidden(&gr, name, &detail)
}

/// The flag by which kubectl binds a role to a user. A name that a shell might not take as it is does not stand in a command.
fn subject_flag(username: &str) -> String {
    let is_plain = |it: &str| {
        let in_names = |byte: u8| byte.is_ascii_alphanumeric() || b"@.:_-/".contains(&byte);
        !it.is_empty() && it.len() <= USERNAME_BYTES_MAX && it.bytes().all(in_names)
    };
    if !is_plain(username) {
        return "--user=NAME".to_owned();
    }
    match username.strip_prefix("system:serviceaccount:") {
        Some(account) => format!("--serviceaccount={account}"),
        None => format!("--user={username}"),
    }
}

/// The 403 of a question that was answered with no.
///
/// Source: `apiserver/pkg/endpoints/handlers/responsewriters/errors.go`.
fn forbidden(asked: &Attributes<'_>, reason: &str) -> Status {
    let message = sanitized(&question(asked));
    let detail = if reason.is_empty() {
        message
    } else {
        format!("{message}: {reason}")
    };
    if asked.is_resource {
        let gr = GroupResource {
            group: asked.group.to_owned(),
            resource: asked.resource.to_owned(),
        };
        Status::forbidden(&gr, asked.name, &detail)
    } else {
        Status::forbidden(&GroupResource::default(), "", &detail)
    }
}

fn question(asked: &Attributes<'_>) -> String {
    let Attributes {
        user,
        verb,
        group,
        resource,
        subresource,
        namespace,
        path,
        ..
    } = asked;
    let user = &user.username;
    if !asked.is_resource {
        return format!("User {user:?} cannot {verb} path {path:?}");
    }
    let resource = if subresource.is_empty() {
        Cow::Borrowed(*resource)
    } else {
        Cow::Owned(format!("{resource}/{subresource}"))
    };
    let place = if namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace {namespace:?}")
    };
    format!("User {user:?} cannot {verb} resource {resource:?} in API group {group:?} {place}")
}

/// Escapes what a browser could take for markup, as Kubernetes does in this one message.
fn sanitized(message: &str) -> String {
    message
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Reads the headers of an impersonation; for fuzz targets.
#[cfg(feature = "fuzzing")]
pub(crate) fn read_impersonation(headers: &http::HeaderMap) {
    impersonate::read(headers);
}

#[cfg(test)]
mod tests;
