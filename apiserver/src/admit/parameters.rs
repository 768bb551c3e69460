//! Nobody shows to expressions what they may not read: who writes a policy with a `paramKind` must be able to get every
//! object of it, who writes a binding with a `paramRef` those that it names.
//!
//! Source: kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicy{,binding}/authz.go.

use api::{ClusterScope, FieldError, FieldPath, LogicalCluster, Status, meta};
use serde_json::Value;

use crate::authorize::Attributes;
use crate::call::{Call, Target};
use crate::objects::ResourcePrefix;
use crate::refusal::Refusal;
use crate::strategy::rules::Grants;

/// What a writer must be able to read. A part that is not known stands for all.
struct Reads<'a> {
    verb: &'static str,
    group: String,
    version: String,
    resource: String,
    namespace: &'a str,
    name: &'a str,
}

/// Lets a valid policy or binding pass whose writer may read its parameters.
///
/// # Errors
/// 422, as in Kubernetes.
pub(super) async fn check(
    call: &Call<'_>,
    target: &Target,
    object: &Value,
    live: Option<&Value>,
) -> Result<(), Refusal> {
    let grants = call.scope.strategy().grants;
    let context = call.context;
    let scope = ClusterScope::One(target.cluster.clone());
    let (spec, field) = match grants {
        Grants::ParamKind => (&object["spec"], "paramKind"),
        Grants::ParamRef { .. } => (&object["spec"], "paramRef"),
        Grants::Rights | Grants::Nothing => return Ok(()),
    };
    let changes_policy = live.is_none_or(|live| live["spec"]["policyName"] != spec["policyName"]);
    let changes = live.is_none_or(|live| live["spec"][field] != spec[field]) || changes_policy;
    if spec[field].is_null() || !changes || context.user.is_master_in(&scope) {
        return Ok(());
    }
    let stored;
    let (kind, reads) = if let Grants::ParamRef { policies } = grants {
        stored = policy(call, &target.cluster, policies, text(&spec["policyName"]));
        (&stored["spec"]["paramKind"], Reads::named(&spec[field]))
    } else {
        (&spec[field], Reads::every())
    };
    let reads = reads.of_kind(call, &target.cluster, kind);
    let asked = Attributes {
        user: &context.user,
        cluster: &scope,
        verb: reads.verb,
        group: &reads.group,
        version: &reads.version,
        resource: &reads.resource,
        subresource: "",
        namespace: reads.namespace,
        name: reads.name,
        path: "",
        is_resource: true,
    };
    if call.shared.authorizer.explain(&asked).await.allowed {
        return Ok(());
    }
    let (user, verb) = (&context.user.username, reads.verb);
    let detail = if grants == Grants::ParamKind {
        let (kind, version) = (text(&kind["kind"]), text(&kind["apiVersion"]));
        format!(
            "user {user} must have \"get\" permission on all objects of the referenced paramKind (kind={kind}, \
             apiVersion={version})"
        )
    } else {
        format!(
            "user {user} does not have {verb:?} permission on the object referenced by paramRef"
        )
    };
    let path = FieldPath::new("spec").child(field);
    let error = FieldError::forbidden(&path, detail);
    let kind = call.scope.gvk().group_kind();
    Err(Status::invalid(&kind, meta::name(object), vec![error]).into())
}

/// The policy of a binding; null where it is not there.
fn policy(call: &Call<'_>, cluster: &LogicalCluster, resource: &str, name: &str) -> Value {
    let resource = api::GroupResource::new(call.resource().group.as_str(), resource);
    let key = ResourcePrefix::new(&resource).key(cluster, "", name);
    let entry = call.shared.store.get(&key);
    let policy = entry.and_then(|entry| serde_json::from_slice(entry.value()).ok());
    policy.unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

// === impl Reads ===

impl<'a> Reads<'a> {
    fn every() -> Self {
        Self {
            verb: "get",
            group: "*".to_owned(),
            version: "*".to_owned(),
            resource: "*".to_owned(),
            namespace: "*",
            name: "*",
        }
    }

    fn named(reference: &'a Value) -> Self {
        let (namespace, name) = (text(&reference["namespace"]), text(&reference["name"]));
        Self {
            verb: if name.is_empty() { "list" } else { "get" },
            namespace,
            name,
            ..Self::every()
        }
    }

    /// Narrows what must be readable to the resource of a kind, as far as it is known.
    fn of_kind(mut self, call: &Call<'_>, cluster: &LogicalCluster, kind: &Value) -> Self {
        let api_version = text(&kind["apiVersion"]);
        if api_version.is_empty() {
            return self;
        }
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        (self.group, self.version) = (group.to_owned(), version.to_owned());
        let served = call
            .shared
            .registry
            .served(&ClusterScope::One(cluster.clone()));
        let resource = served.as_ref().and_then(|served| {
            let mut kinds = served.of_group_version(group, version);
            let found = kinds.find(|it| it.gvk.kind == text(&kind["kind"]))?;
            Some(found.gvr.resource.clone())
        });
        if let Some(resource) = resource {
            self.resource = resource;
        }
        self
    }
}
