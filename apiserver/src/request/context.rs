//! The facts about one request that are not in its path: who asks, until when, under which audit id.
//!
//! Invariant: made once, when the request has been authenticated, and handed on by reference; the only thing that
//! changes in it is the list of warnings.

use std::{
    borrow::Cow,
    sync::{Arc, OnceLock},
};

use api::{cluster::ClusterScope, status::Status};
use http::HeaderValue;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::{Credential, Fence, Trail, UserInfo, share::Share};

/// Warnings of one answer. Their headers hold 4,096 characters together.
const WARNINGS_MAX: usize = 256;

/// Who asks, where and until when; collects the warnings of the answer.
#[derive(Debug)]
pub struct RequestContext {
    /// Whom the request acts as: the impersonated user where there is one.
    pub user: Arc<UserInfo>,
    /// Who really asks, where `user` is impersonated.
    pub impersonator: Option<Arc<UserInfo>>,
    /// Value of the `Audit-Id` header: the client's or a fresh UUID.
    pub audit_id: HeaderValue,
    /// The logical cluster, or all of them.
    pub cluster: ClusterScope,
    /// When the request arrived: the one clock reading that handlers use for timestamps.
    pub now: jiff::Timestamp,
    /// When an answer that is not a watch must have begun.
    pub deadline: tokio::time::Instant,
    /// Whether the request came from a controller of the hub's. Only such a request may send what clients cannot set
    /// (the author of an object).
    pub origin: RequestOrigin,
    /// By what the sender is known.
    pub(crate) credential: Credential,
    /// What ends an answer that goes on for as long as it likes.
    pub ending: Ending,
    /// What the sender has of the hub; `None` for the hub's own controllers, which are not counted.
    pub(crate) share: Option<Arc<Share>>,
    /// Guards the texts for `Warning` headers. Never held across an await; innermost lock.
    warnings: Mutex<Vec<String>>,
    /// In which term it is sent, if in one.
    pub(crate) fence: Option<Fence>,
    /// Collects what the audit event says; `None` for a request that is not audited, or only if its answer says so.
    pub(crate) trail: Option<Arc<Trail>>,
    /// What the authorizer said of a request without a trail.
    pub(crate) decided: Option<Decided>,
}

/// Whether a request may be done, and why: for an audit event that is only made once there is an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decided {
    pub(crate) allowed: bool,
    pub(crate) reason: Cow<'static, str>,
}

/// Ends an answer that goes on for as long as it likes: because the server drains, or because its receiver may not go on.
#[derive(Clone, Debug)]
pub struct Ending {
    /// `None` where nothing ends it.
    end: Option<CancellationToken>,
    /// Why, set before `end` is cancelled; without it, the server drains. As long as somebody holds it the answer goes on.
    reason: Option<Arc<OnceLock<Box<Status>>>>,
}

/// The way by which a request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOrigin {
    /// Over a connection.
    Network,
    /// From a controller in this process.
    InProcess,
    /// Over a connection, from a syncer in a process of its own: it has shown the certificate that the hub makes for it.
    Syncer,
}

// === impl Ending ===

impl Ending {
    /// Never ends an answer.
    pub(crate) const fn never() -> Self {
        Self {
            end: None,
            reason: None,
        }
    }

    /// Ends with `end`, without a word.
    pub(crate) const fn of(end: CancellationToken) -> Self {
        Self {
            end: Some(end),
            reason: None,
        }
    }

    /// Ends with `end`, and says why.
    pub(crate) fn with_reason(end: CancellationToken, reason: Arc<OnceLock<Box<Status>>>) -> Self {
        Self {
            end: Some(end),
            reason: Some(reason),
        }
    }

    /// Is cancelled when the answer has to end.
    pub(crate) fn token(&self) -> CancellationToken {
        self.end.clone().unwrap_or_default()
    }

    /// Why it has to end; `None` where the server drains.
    pub(crate) fn reason(&self) -> Option<&Status> {
        self.reason.as_ref()?.get().map(|status| &**status)
    }
}

// === impl RequestOrigin ===

impl RequestOrigin {
    /// Whether it comes from one of the hub's controllers, wherever that runs.
    pub(crate) const fn is_controller(self) -> bool {
        match self {
            Self::Network => false,
            Self::InProcess | Self::Syncer => true,
        }
    }
}

// === impl RequestContext ===

impl RequestContext {
    /// Makes the context of a request; [`crate::hub`] is the one that calls it, and tests.
    pub fn new(
        user: Arc<UserInfo>,
        audit_id: HeaderValue,
        cluster: ClusterScope,
        now: jiff::Timestamp,
        deadline: tokio::time::Instant,
    ) -> Self {
        Self {
            user,
            impersonator: None,
            audit_id,
            cluster,
            now,
            deadline,
            origin: RequestOrigin::Network,
            credential: Credential::default(),
            ending: Ending::never(),
            share: None,
            warnings: Mutex::new(Vec::new()),
            fence: None,
            trail: None,
            decided: None,
        }
    }

    /// Whether a front proxy relayed the request.
    pub(crate) fn is_proxied(&self) -> bool {
        matches!(self.credential, Credential::FrontProxy(_))
    }

    /// Adds a `Warning` header to the answer, refusals included. A text that is there already is not added again, and what
    /// would not fit into the headers is left out: an object can have a warning for each of its fields.
    pub fn warn(&self, text: impl Into<String>) {
        let mut warnings = self.warnings.lock();
        if warnings.len() >= WARNINGS_MAX {
            return;
        }
        let text = text.into();
        if !warnings.contains(&text) {
            warnings.push(text);
        }
    }

    /// Adds an annotation to the audit event of the request.
    pub(crate) fn annotate(&self, key: String, value: String) {
        if let Some(trail) = &self.trail {
            trail.annotate(key, value);
        }
    }

    /// Notes what the authorizer says, for the audit event.
    pub(crate) fn note_decision(&mut self, allowed: bool, reason: Cow<'static, str>) {
        match &self.trail {
            Some(trail) => trail.note_decision(allowed, reason),
            None => self.decided = Some(Decided { allowed, reason }),
        }
    }

    /// Notes the object that the client sent, for the audit event.
    pub(crate) fn note_object(&self, object: &serde_json::Value) {
        if let Some(trail) = &self.trail {
            trail.note_object(object);
        }
    }

    /// Notes what the client sent that is no object, for the audit event.
    pub(crate) fn note_document(&self, document: &serde_json::Value) {
        if let Some(trail) = &self.trail {
            trail.note_document(document);
        }
    }

    /// Takes the warnings collected so far.
    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *self.warnings.lock())
    }
}
