//! Which policies mean a write, by which bindings, and with which parameters: for those that judge and those that change.
//!
//! # Invariants
//! - Parameters are read in the cluster that holds the policy, and nowhere else.
//!
//! Source: `apiserver/pkg/admission/plugin/policy/generic/policy_dispatcher.go`.

use std::sync::Arc;

use api::admission::{ParamKind, ParamRef, ParameterNotFound};
use api::selector::LabelSelector;
use api::{ClusterScope, LogicalCluster, meta};
use serde_json::Value;

use super::occasion::Occasion;
use crate::guards::attributes::Attributes;
use crate::guards::matching::Face;
use crate::guards::policy::{Binding, PolicyHead};
use crate::handle::convert;
use crate::refusal::Refusal;
use crate::registry::ResourceScope;

/// A binding by which a policy means a write.
pub(super) struct Meant {
    /// `None` where the policy itself is set up wrongly.
    pub(super) binding: Option<Arc<Binding>>,
    /// With what it is evaluated, or why it cannot be.
    pub(super) setup: Result<Setup, String>,
}

/// With what a policy is evaluated.
pub(super) struct Setup {
    /// As what it means the write.
    pub(super) face: Face,
    /// The write as that.
    pub(super) attributes: Arc<Attributes>,
    /// It is evaluated once for each.
    pub(super) params: Vec<Value>,
}

/// The bindings of a policy.
pub(super) fn bindings_of(all: &[Arc<Binding>], policy: &PolicyHead) -> Vec<Arc<Binding>> {
    let bindings = all.iter().filter(|it| it.spec.policy_name == policy.name);
    bindings.map(Arc::clone).collect()
}

/// Finds the bindings by which a policy, whose head this is, means a write.
pub(super) async fn meant(
    occasion: &Occasion<'_>,
    cluster: &LogicalCluster,
    policy: &PolicyHead,
    bindings: Vec<Arc<Binding>>,
) -> Result<Vec<Meant>, Refusal> {
    let others = occasion.other_faces();
    let misconfigured = |error: String| {
        vec![Meant {
            binding: None,
            setup: Err(error),
        }]
    };
    let face = match &policy.constraints {
        Ok(constraints) => match told(occasion.judge(constraints, &others).await)? {
            Ok(Some(face)) => face,
            Ok(None) => return Ok(Vec::new()),
            Err(error) => return Ok(misconfigured(error)),
        },
        Err(error) => return Ok(misconfigured(error.clone())),
    };
    if let Some(kind) = &policy.param_kind
        && let Err(error) = param_scope(occasion, cluster, kind)
    {
        return Ok(misconfigured(error));
    }
    let mut found = Vec::new();
    for binding in bindings {
        let is_meant = match &binding.constraints {
            Ok(None) => Ok(true),
            Ok(Some(constraints)) => {
                told(occasion.judge(constraints, &others).await)?.map(|face| face.is_some())
            }
            Err(error) => Err(error.clone()),
        };
        let setup = match is_meant {
            Ok(false) => continue,
            Ok(true) => setup(occasion, cluster, (policy, &binding), &face).await,
            Err(error) => Err(error),
        };
        found.push(Meant {
            binding: Some(binding),
            setup,
        });
    }
    Ok(found)
}

/// What a policy says of a namespace that is not there is a fault of its configuration, as in Kubernetes; a namespace that
/// cannot be read now refuses the write.
fn told<T>(judged: Result<T, Refusal>) -> Result<Result<T, String>, Refusal> {
    match judged {
        Ok(judged) => Ok(Ok(judged)),
        Err(refusal) => match refusal.status() {
            Some(status) if status.is_not_found() => Ok(Err(status.message.clone())),
            _ => Err(refusal),
        },
    }
}

async fn setup(
    occasion: &Occasion<'_>,
    cluster: &LogicalCluster,
    (policy, binding): (&PolicyHead, &Binding),
    face: &Face,
) -> Result<Setup, String> {
    let kind = policy.param_kind.as_ref();
    let params = params(occasion, cluster, kind, binding.spec.param_ref.as_ref()).await?;
    let attributes = occasion
        .objects_as(face)
        .await
        .map_err(|refusal| format!("failed to convert object version: {refusal}"))?;
    Ok(Setup {
        face: face.clone(),
        attributes,
        params,
    })
}

/// How a cluster serves the kind of parameters.
fn param_scope(
    occasion: &Occasion<'_>,
    cluster: &LogicalCluster,
    kind: &ParamKind,
) -> Result<Arc<ResourceScope>, String> {
    let shared = occasion.call.shared;
    let (group, version) = kind
        .api_version
        .split_once('/')
        .unwrap_or(("", kind.api_version.as_str()));
    let unknown = || {
        let shown = format!("{group}/{version}, Kind={}", kind.kind);
        format!("failed to find resource referenced by paramKind: '{shown}'")
    };
    let served = shared.registry.served(&ClusterScope::One(cluster.clone()));
    let served = served.ok_or_else(unknown)?;
    let mut kinds = served.of_group_version(group, version);
    let resource = kinds
        .find(|it| it.gvk.kind == kind.kind)
        .ok_or_else(unknown)?;
    let resource = resource.gvr.resource.as_str();
    let scope = shared.registry.lookup(cluster, group, version, resource);
    scope.ok_or_else(unknown)
}

/// Reads the parameters of a binding; null is one that it does not have. Source: `CollectParams`.
async fn params(
    occasion: &Occasion<'_>,
    cluster: &LogicalCluster,
    kind: Option<&ParamKind>,
    reference: Option<&ParamRef>,
) -> Result<Vec<Value>, String> {
    let (Some(kind), Some(reference)) = (kind, reference) else {
        return Ok(vec![Value::Null]);
    };
    let shared = occasion.call.shared;
    let scope = param_scope(occasion, cluster, kind)?;
    let namespace = match (scope.kind.namespaced, reference.namespace.as_str()) {
        (true, "") if occasion.attributes.namespace.is_empty() => {
            let text = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
            return Err(text.to_owned());
        }
        (true, "") => occasion.attributes.namespace.as_str(),
        (true, namespace) => namespace,
        (false, "") => "",
        (false, _) => {
            let text = "paramRef.namespace must not be provided for a cluster-scoped `paramKind`";
            return Err(text.to_owned());
        }
    };
    let store = shared.store.as_ref();
    let prefix = &scope.rules.prefix;
    let entries = if reference.selector.is_none() {
        Vec::from_iter(store.get(&prefix.key(cluster, namespace, &reference.name)))
    } else {
        let range = prefix.range(&ClusterScope::One(cluster.clone()), Some(namespace));
        let found = store.range(storage::RangeQuery::of(range));
        found.map_err(|error| error.to_string())?.entries
    };
    let selector = reference.selector.as_ref();
    let selector = selector.map(LabelSelector::to_selector);
    let selector = selector.transpose().map_err(|error| error.to_string())?;
    let deadline = occasion.call.context.deadline;
    let entries = convert::ready(shared, &scope, entries, deadline).await;
    let entries = entries.map_err(|error| error.to_string())?;
    let mut params = Vec::new();
    for entry in entries {
        let object = convert::served_value(&scope, &entry).map_err(|error| error.to_string())?;
        let labels = meta::labels(&object).cloned().unwrap_or_default();
        if selector.as_ref().is_none_or(|it| it.matches(&labels)) {
            params.push(object);
        }
    }
    if params.is_empty() && reference.parameter_not_found_action == ParameterNotFound::Deny {
        let text = "no params found for policy binding with `Deny` parameterNotFoundAction";
        return Err(text.to_owned());
    }
    Ok(params)
}
