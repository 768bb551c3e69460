//! One request for a resource: what it addresses, and the facts that every handler needs.

mod each;
mod gathered;
mod namespaces;
mod shared;
mod spoke_writes;

use std::sync::Arc;

use api::query::Query;
use api::{ClusterScope, GroupResource, LogicalCluster, Status, meta};
use http::request::Parts;
use serde_json::Value;
use storage::Key;

use crate::authorize::Authorized;
use crate::negotiate::{self, Messages, Negotiated, Offer};
use crate::protobuf;
use crate::refusal::Refusal;
use crate::registry::ResourceScope;
use crate::request::{Fence, RequestContext, RequestInfo, Verb};
use crate::served::KindSource;
use crate::strategy::Holder;
use crate::strategy::endpoint::Endpoint;
use crate::strategy::version::StatusMode;

pub(crate) use each::{Each, Lens, Lenses};
pub(crate) use gathered::{Failed, Gathered, PARTIAL, SpokeList};
pub(crate) use namespaces::StoredNamespaces;
pub use namespaces::{NamespacePhase, NamespaceView};
pub(crate) use shared::Shared;
pub use spoke_writes::{SpokeVerb, SpokeWrite, SpokeWrites};

/// A request that addresses something that exists in the API.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    /// How the cluster serves the resource; over all clusters, what the answer as a whole is called.
    pub(crate) scope: &'a Arc<ResourceScope>,
    /// How each cluster serves it, over all of them.
    pub(crate) each: Option<&'a Each>,
    /// What spokes have of it themselves, over all clusters.
    pub(crate) gathered: Option<&'a Gathered>,
    pub(crate) parts: &'a Parts,
    pub(crate) info: &'a RequestInfo,
    pub(crate) context: &'a RequestContext,
    pub(crate) query: &'a Query,
    pub(crate) endpoint: Endpoint,
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
    pub(crate) reading: Reading,
    /// In which term it is written, if in one.
    pub(crate) fence: Option<&'a Fence>,
}

/// How objects are read and written whose versions a webhook converts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// In the version that the request names.
    Served,
    /// As they are stored: who changes metadata alone calls no webhook, which its owner could hang.
    Stored,
}

/// One object in one logical cluster.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) cluster: LogicalCluster,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) key: Key,
}

// === impl Target ===

impl Target {
    /// The object as what holds what is allocated to it.
    pub(crate) fn holder<'a>(&'a self, shared: &'a Shared) -> Holder<'a> {
        Holder {
            store: shared.store.as_ref(),
            cluster: &self.cluster,
            namespace: &self.namespace,
            name: &self.name,
        }
    }

    /// Gives the object the namespace of the path, and refuses one of another namespace or name.
    ///
    /// # Errors
    /// 400.
    pub(crate) fn check(&self, object: &mut Value) -> Result<(), Refusal> {
        check_namespace(object, &self.namespace)?;
        let name = meta::name(object);
        if name == self.name {
            return Ok(());
        }
        let want = &self.name;
        let text = if name.is_empty() {
            format!(
                "the name of the object ({want} based on URL) was undeterminable: name must be provided"
            )
        } else {
            format!("the name of the object ({name}) does not match the name on the URL ({want})")
        };
        Err(Status::bad_request(text).into())
    }
}

/// Gives the object a namespace, and refuses one that names another.
fn check_namespace(object: &mut Value, want: &str) -> Result<(), Refusal> {
    let found = meta::namespace(object);
    if found == want {
        return Ok(());
    }
    if !found.is_empty() && !want.is_empty() {
        let text =
            "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Status::bad_request(text).into());
    }
    meta::set_namespace(object, want);
    Ok(())
}

// === impl Call ===

impl<'a> Call<'a> {
    /// Finds the endpoint, and warns of a version that is deprecated.
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
        let in_namespace = info.is_in_namespace();
        let over_namespaces = matches!(info.verb, Verb::List | Verb::Watch);
        let fits = match (scope.kind.namespaced, in_namespace) {
            (true, true) | (false, false) => true,
            (true, false) => over_namespaces,
            (false, true) => false,
        };
        if !fits {
            return Err(Refusal::no_such_path());
        }
        let (parts, context) = (request.request(), request.context());
        if let Some(warning) = &scope.version.deprecation {
            context.warn(warning.as_str());
        }
        let endpoint = endpoint(scope, &info.subresource)
            .ok_or_else(|| Status::not_found(scope.resource(), &info.name))?;
        Ok(Self {
            shared,
            scope,
            each: None,
            gathered: None,
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

    /// Gives a new object the namespace of the path, and refuses one of another namespace. Its name may be generated later.
    ///
    /// # Errors
    /// 400.
    pub(crate) fn check_namespace(&self, object: &mut Value) -> Result<(), Refusal> {
        check_namespace(object, self.namespace())
    }

    /// The form of an answer that shows objects of the kind.
    ///
    /// # Errors
    /// 406 where no clause of `Accept` can be met.
    pub(crate) fn form(&self, offer: Offer) -> Result<Negotiated, Refusal> {
        let kind = &self.scope.kind;
        let has_message = kind.source == KindSource::BuiltIn
            && protobuf::has_message(&self.scope.version.api_version, &kind.gvk.kind);
        let messages = match offer {
            _ if has_message => Messages::All,
            Offer::Plain | Offer::Message => Messages::None,
            Offer::Object | Offer::List | Offer::Watch => Messages::Metadata,
        };
        negotiate::accept_with(self.parts, offer, messages)
    }

    /// What a write needs.
    pub(crate) fn access(&self) -> Access<'a> {
        Access {
            shared: self.shared,
            scope: self.scope,
            now: self.context.now,
            deadline: self.context.deadline,
            verb: self.info.verb.as_str(),
            reading: Reading::Served,
            fence: self.context.fence.as_ref(),
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

/// Finds what a subresource of the kind addresses.
fn endpoint(scope: &ResourceScope, subresource: &str) -> Option<Endpoint> {
    match subresource {
        "" => Some(Endpoint::Main),
        "status" => (scope.version.status == StatusMode::Subresource).then_some(Endpoint::Status),
        "scale" => scope.version.scale.is_some().then_some(Endpoint::Scale),
        _ => {
            let mut own = scope.strategy().endpoints.iter();
            own.find(|(name, _)| *name == subresource)
                .map(|(_, endpoint)| *endpoint)
        }
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
