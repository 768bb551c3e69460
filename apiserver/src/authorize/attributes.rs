//! The question to an authorizer and its answer.

use api::cluster::ClusterScope;
use serde_json::{Value, json};

use crate::request::{RequestContext, RequestInfo, UserInfo};

/// The question: may `user` do `verb` on this? Absent parts are empty.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    /// Who asks.
    pub user: &'a UserInfo,
    /// In which logical cluster.
    pub cluster: &'a ClusterScope,
    /// What for: `get`, `list`, ..., or any other word that rules may hold (`escalate`, `access`).
    pub verb: &'a str,
    /// API group, empty for core and for non-resource requests.
    pub group: &'a str,
    /// API version.
    pub version: &'a str,
    /// Resource; with `is_resource` only.
    pub resource: &'a str,
    /// Subresource.
    pub subresource: &'a str,
    /// Namespace; empty is the cluster scope or all namespaces.
    pub namespace: &'a str,
    /// Name of the object.
    pub name: &'a str,
    /// Path of a non-resource request.
    pub path: &'a str,
    /// Whether this is about a resource.
    pub is_resource: bool,
}

/// The answer of an authorizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// May be done.
    Allow,
    /// Must not be done, whatever others say.
    Deny {
        /// Why, for the caller; may be empty.
        reason: String,
    },
    /// Nothing known; without another's `Allow` this refuses.
    NoOpinion {
        /// Why, for the caller; may be empty.
        reason: String,
    },
}

// === impl Attributes ===

impl<'a> Attributes<'a> {
    /// The question that a request asks by itself.
    pub fn of_request(context: &'a RequestContext, info: &'a RequestInfo) -> Self {
        Self::of(&context.user, info)
    }

    /// The question whether a user may do what a path says.
    pub(crate) fn of(user: &'a UserInfo, info: &'a RequestInfo) -> Self {
        Self {
            user,
            cluster: &info.cluster,
            verb: info.verb.as_str(),
            group: &info.group,
            version: &info.version,
            resource: &info.resource,
            subresource: &info.subresource,
            namespace: &info.namespace,
            name: &info.name,
            path: &info.path,
            is_resource: info.is_resource,
        }
    }

    /// The question as a SubjectAccessReview asks it, about a user of this name and these groups.
    pub(crate) fn to_review(self, user: &str, groups: &[String]) -> Value {
        let mut spec = json!({"user": user, "groups": groups, "uid": self.user.uid});
        if self.is_resource {
            spec["resourceAttributes"] = json!({
                "namespace": self.namespace,
                "verb": self.verb,
                "group": self.group,
                "version": self.version,
                "resource": self.resource,
                "subresource": self.subresource,
                "name": self.name,
            });
        } else {
            spec["nonResourceAttributes"] = json!({"path": self.path, "verb": self.verb});
        }
        json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec})
    }

    /// The same question with another verb: an apply that creates needs `create` too.
    #[must_use]
    pub fn with_verb(mut self, verb: &'a str) -> Self {
        self.verb = verb;
        self
    }
}

// === impl Decision ===

impl Decision {
    /// Whether the answer lets the request pass.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allow)
    }

    /// Makes the answer of an authorizer that knows nothing.
    pub const fn no_opinion() -> Self {
        Self::NoOpinion {
            reason: String::new(),
        }
    }
}
