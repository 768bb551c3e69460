//! One request for a resource: what it addresses, and the facts that every handler needs.

use std::sync::Arc;

use api::query::Query;
use api::{ClusterScope, GroupResource, LogicalCluster, Status};
use http::request::Parts;
use storage::Key;

use super::Shared;
use super::each::Each;
use crate::authorize::Authorized;
use crate::context::RequestContext;
use crate::registry::ResourceScope;
use crate::registry::scope::StatusMode;
use crate::respond::Refusal;
use crate::route::{RequestInfo, Verb};

/// A request that addresses something that exists in the API.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    /// How the cluster serves the resource; over all clusters, what the answer as a whole is called.
    pub(crate) scope: &'a Arc<ResourceScope>,
    /// How each cluster serves it, over all of them.
    pub(crate) each: Option<&'a Each>,
    pub(crate) parts: &'a Parts,
    pub(crate) info: &'a RequestInfo,
    pub(crate) context: &'a RequestContext,
    pub(crate) query: &'a Query,
    pub(crate) endpoint: Endpoint,
}

/// What of an object is addressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// The object.
    Main,
    /// `status`.
    Status,
    /// `scale`.
    Scale,
    /// `finalize` of a namespace.
    Finalize,
    /// `binding` of a pod.
    Binding,
    /// `eviction` of a pod.
    Eviction,
    /// `approval` of a certificate signing request.
    Approval,
    /// `ephemeralcontainers` or `resize` of a pod: parts of its spec.
    PodPart,
}

/// What a write needs of its request, or of the controller that makes it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Access<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) scope: &'a ResourceScope,
    pub(crate) now: jiff::Timestamp,
    /// When the store must have answered.
    pub(crate) deadline: tokio::time::Instant,
    /// For messages.
    pub(crate) verb: &'a str,
}

/// One object in one logical cluster.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) cluster: LogicalCluster,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) key: Key,
}

// === impl Call ===

impl<'a> Call<'a> {
    /// Finds the endpoint.
    ///
    /// # Errors
    /// The plain 404 where the path has a namespace that the resource has not, or the other way round; a `Status` 404
    /// for subresources that the resource has not.
    pub(crate) fn new(
        shared: &'a Arc<Shared>,
        scope: &'a Arc<ResourceScope>,
        request: &'a Authorized<Parts>,
        query: &'a Query,
    ) -> Result<Self, Refusal> {
        let info = request.info();
        let in_namespace = !info.namespace.is_empty() && !scope.is("", "namespaces");
        let over_namespaces = matches!(info.verb, Verb::List | Verb::Watch);
        let fits = match (scope.kind.namespaced, in_namespace) {
            (true, true) | (false, false) => true,
            (true, false) => over_namespaces,
            (false, true) => false,
        };
        if !fits {
            return Err(Refusal::no_such_path());
        }
        let endpoint = Endpoint::find(scope, &info.subresource)
            .ok_or_else(|| Status::not_found(scope.resource(), &info.name))?;
        let (parts, context) = (request.request(), request.context());
        Ok(Self {
            shared,
            scope,
            each: None,
            parts,
            info,
            context,
            query,
            endpoint,
        })
    }

    /// The namespace that the path names; empty for cluster-scoped kinds and over all namespaces.
    pub(crate) fn namespace(&self) -> &'a str {
        if self.scope.kind.namespaced {
            &self.info.namespace
        } else {
            ""
        }
    }

    /// The cluster, where the request must have one.
    ///
    /// # Errors
    /// 405: only list and watch go over all clusters.
    pub(crate) fn cluster(&self) -> Result<&'a LogicalCluster, Refusal> {
        match &self.info.cluster {
            ClusterScope::One(cluster) => Ok(cluster),
            ClusterScope::All => Err(self.not_allowed()),
        }
    }

    /// The object that the path names.
    pub(crate) fn target(&self) -> Result<Target, Refusal> {
        self.target_named(&self.info.name)
    }

    /// The object of a name in the path's cluster and namespace.
    pub(crate) fn target_named(&self, name: &str) -> Result<Target, Refusal> {
        let cluster = self.cluster()?;
        if let [problem, ..] = api::validation::is_path_segment(name).as_slice() {
            return Err(Status::bad_request(format!("invalid name {name:?}: {problem}")).into());
        }
        let namespace = self.namespace();
        Ok(Target {
            cluster: cluster.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            key: self.scope.rules.prefix.key(cluster, namespace, name),
        })
    }

    /// Like [`Call::target_named`], where the name may not be made yet.
    pub(crate) fn target_named_or_empty(&self, name: &str) -> Result<Target, Refusal> {
        if !name.is_empty() {
            return self.target_named(name);
        }
        Ok(Target {
            cluster: self.cluster()?.clone(),
            namespace: self.namespace().to_owned(),
            name: String::new(),
            key: Key::from_static(b""),
        })
    }

    /// What a write needs.
    pub(crate) fn access(&self) -> Access<'a> {
        Access {
            shared: self.shared,
            scope: self.scope,
            now: self.context.now,
            deadline: self.context.deadline,
            verb: self.info.verb.as_str(),
        }
    }

    pub(crate) fn resource(&self) -> &'a GroupResource {
        &self.scope.rules.resource
    }

    /// 405 in the words of Kubernetes.
    pub(crate) fn not_allowed(&self) -> Refusal {
        Status::method_not_allowed(self.resource(), self.info.verb.as_str()).into()
    }

    /// 404 of an object.
    pub(crate) fn not_found(&self, name: &str) -> Refusal {
        Status::not_found(self.resource(), name).into()
    }

    /// The manager that fields are attributed to: the one that the query names, or the leading word of the user agent.
    pub(crate) fn manager(&self, field_manager: &str) -> String {
        if !field_manager.is_empty() {
            return field_manager.to_owned();
        }
        let agent = self.parts.headers.get(http::header::USER_AGENT);
        let agent = agent
            .and_then(|agent| agent.to_str().ok())
            .unwrap_or_default();
        manager_of_agent(agent)
    }
}

/// Takes the part of a user agent before the first slash, as far as it is printable, up to 128 bytes.
fn manager_of_agent(agent: &str) -> String {
    let name = agent.split('/').next().unwrap_or_default();
    let mut manager = String::new();
    for character in name
        .chars()
        .filter(|&character| dialect::is_print(character))
    {
        if manager.len() + character.len_utf8() > api::validation::FIELD_MANAGER_BYTES_MAX {
            break;
        }
        manager.push(character);
    }
    manager
}

// === impl Endpoint ===

impl Endpoint {
    fn find(scope: &ResourceScope, subresource: &str) -> Option<Self> {
        let pods = scope.is("", "pods");
        match subresource {
            "" => Some(Self::Main),
            "status" => (scope.version.status == StatusMode::Subresource).then_some(Self::Status),
            "scale" => scope.version.scale.is_some().then_some(Self::Scale),
            "finalize" => scope.is("", "namespaces").then_some(Self::Finalize),
            "binding" => pods.then_some(Self::Binding),
            "eviction" => pods.then_some(Self::Eviction),
            "approval" => scope
                .is("certificates.k8s.io", "certificatesigningrequests")
                .then_some(Self::Approval),
            "ephemeralcontainers" | "resize" => pods.then_some(Self::PodPart),
            _ => None,
        }
    }

    /// The name in the path and in managed fields.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::Status => "status",
            Self::Scale => "scale",
            Self::Finalize => "finalize",
            Self::Binding => "binding",
            Self::Eviction => "eviction",
            Self::Approval => "approval",
            Self::PodPart => "ephemeralcontainers",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manager_is_the_leading_word_of_the_user_agent() {
        for (agent, want) in [
            ("kubectl/v1.36.3 (linux/amd64)", "kubectl"),
            ("kube-rs", "kube-rs"),
            ("", ""),
            ("a\u{7}b/1", "ab"),
        ] {
            assert_eq!(manager_of_agent(agent), want, "{agent}");
        }
        assert_eq!(manager_of_agent(&"x".repeat(200)).len(), 128);
    }
}
