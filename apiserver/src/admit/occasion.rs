//! One write on its way through admission: its attributes, and what is looked up for them at most once.

use std::sync::Arc;

use api::query::{CreateOptions, DeleteOptions, FieldValidation};
use api::{GroupVersionResource, Status, meta};
use serde_json::{Value, json};
use tokio::sync::{OnceCell, OwnedSemaphorePermit};
use tokio::time::timeout_at;

use crate::call::{Call, Target};
use crate::guards::attributes::{Attributes, Operation};
use crate::guards::matching::{Constraints, Face, Matched, own_face};
use crate::handle::convert;
use crate::refusal::Refusal;
use crate::registry::ClusterKind;
use crate::strategy::namespaces;
use crate::strategy::version::StatusMode;

/// What a write does to which object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Write<'a> {
    pub(crate) operation: Operation,
    /// The object as it will be.
    pub(crate) object: Option<&'a Value>,
    /// The object as it is.
    pub(crate) old: Option<&'a Value>,
    pub(crate) dry_run: bool,
    /// Those of a deletion.
    pub(crate) deletion: Option<&'a DeleteOptions>,
}

/// A write, and what is known of where it goes.
pub(crate) struct Occasion<'a> {
    pub(crate) call: &'a Call<'a>,
    pub(crate) attributes: Arc<Attributes>,
    namespace: OnceCell<Option<Value>>,
}

// === impl Occasion ===

impl<'a> Occasion<'a> {
    pub(crate) fn new(call: &'a Call<'a>, target: &Target, write: Write<'_>) -> Self {
        let kind = &call.scope.kind;
        let subresource = &call.info.subresource;
        let of_subresource = kind.subresources.iter().find(|it| it.name == *subresource);
        let info = call.info;
        let namespace = if call.scope.kind.namespaced {
            target.namespace.clone()
        } else if *call.resource() == namespaces::resource() {
            target.name.clone()
        } else {
            String::new()
        };
        let attributes = Attributes {
            operation: write.operation,
            cluster: target.cluster.clone(),
            resource: GroupVersionResource::new(
                info.group.as_str(),
                info.version.as_str(),
                info.resource.as_str(),
            ),
            subresource: subresource.clone(),
            kind: of_subresource.map_or_else(|| kind.gvk.clone(), |it| it.gvk.clone()),
            namespace,
            name: target.name.clone(),
            object: write.object.cloned().unwrap_or_default(),
            old: write.old.cloned().unwrap_or_default(),
            options: options(call, &write),
            dry_run: write.dry_run,
            user: Arc::clone(&call.context.user),
        };
        Self {
            call,
            attributes: Arc::new(attributes),
            namespace: OnceCell::new(),
        }
    }

    /// The other versions of the resource, as whose objects a rule may mean this one.
    pub(crate) fn other_faces(&self) -> Vec<Face> {
        let scope = self.call.scope;
        if !self.attributes.subresource.is_empty() && self.attributes.kind != *scope.gvk() {
            return Vec::new();
        }
        let own = &self.attributes.resource;
        let versions = scope.rules.versions.iter().map(|it| &it.gvk);
        versions
            .filter(|gvk| gvk.version != own.version)
            .map(|gvk| Face {
                resource: GroupVersionResource::new(
                    own.group.as_str(),
                    gvk.version.as_str(),
                    own.resource.as_str(),
                ),
                kind: gvk.clone(),
            })
            .collect()
    }

    /// As what constraints mean the write; `None` where they do not.
    ///
    /// # Errors
    /// The namespace is not there, or cannot be read.
    pub(crate) async fn judge(
        &self,
        constraints: &Constraints,
        others: &[Face],
    ) -> Result<Option<Face>, Refusal> {
        match constraints.judge(&self.attributes, others) {
            Matched::No => Ok(None),
            Matched::Yes(face) => Ok(Some(face)),
            Matched::InNamespace(face) => {
                let namespace = self.labelled_namespace().await?;
                let labels = meta::labels(namespace).cloned().unwrap_or_default();
                Ok(constraints.selects_namespace(&labels).then_some(face))
            }
        }
    }

    /// A write to a namespace brings its labels along.
    async fn labelled_namespace(&self) -> Result<&Value, Refusal> {
        let attributes = &self.attributes;
        if !attributes.is_namespace() {
            return self.namespace().await;
        }
        if attributes.object.is_null() {
            return Ok(&attributes.old);
        }
        Ok(&attributes.object)
    }

    /// The namespace of the object; null where it has none.
    ///
    /// # Errors
    /// 404 where it is not there.
    pub(crate) async fn namespace(&self) -> Result<&Value, Refusal> {
        let attributes = &self.attributes;
        if attributes.is_cluster_scoped() {
            return Ok(&Value::Null);
        }
        let (call, name) = (self.call, attributes.namespace.as_str());
        let cluster = &attributes.cluster;
        let read = || async move {
            match call.shared.registry.cluster_kind(cluster) {
                Some(ClusterKind::Composite) => {
                    let Some(view) = &call.shared.spoke_namespaces else {
                        let text = format!("the namespaces of spoke {cluster} are not known yet");
                        return Err(Refusal::from(Status::service_unavailable(text)));
                    };
                    view.object(cluster, name).await
                }
                Some(ClusterKind::Root | ClusterKind::Embedded) | None => {
                    Ok(call.shared.namespaces.object(cluster, name))
                }
            }
        };
        let namespace = self.namespace.get_or_try_init(read).await?;
        namespace
            .as_ref()
            .ok_or_else(|| Status::not_found(&namespaces::resource(), name).into())
    }

    /// Object and old object as a face: converted where it is another version.
    ///
    /// # Errors
    /// They cannot be converted.
    pub(crate) async fn objects_as(&self, face: &Face) -> Result<Arc<Attributes>, Refusal> {
        if *face == own_face(&self.attributes) {
            return Ok(Arc::clone(&self.attributes));
        }
        let mut converted = Attributes::clone(&self.attributes);
        for object in [&mut converted.object, &mut converted.old] {
            if !object.is_null() {
                let (cluster, version) = (&self.attributes.cluster, &face.kind.version);
                convert::into_version(self.call, cluster, object, version).await?;
            }
        }
        Ok(Arc::new(converted))
    }

    /// Waits for a seat among those whose expressions are evaluated for the cluster.
    ///
    /// # Errors
    /// The request's time is over.
    pub(crate) async fn seat(&self) -> Result<Option<OwnedSemaphorePermit>, Refusal> {
        let seat = self.call.shared.guards.seat(&self.attributes.cluster);
        let seat = timeout_at(self.call.context.deadline, seat).await;
        seat.map_err(|_elapsed| out_of_time())
    }

    /// Whether configurations act on the write.
    ///
    /// Those of admission itself are exempt, as in Kubernetes, so that a policy that refuses everything can be repaired. What
    /// the hub does as itself is exempt but where it creates an object of a kind that is not its own, or changes what is
    /// desired of it: then it makes children, as any client of the cluster would. Its ledgers, states, finalizers and deletions
    /// must come to their end, or what exists in a spoke would be forgotten.
    pub(crate) fn is_exempt(call: &Call<'_>, write: &Write<'_>) -> bool {
        let group = &call.resource().group;
        if group == api::admission::GROUP {
            return true;
        }
        let context = call.context;
        if !context.origin.is_controller() || context.impersonator.is_some() {
            return false;
        }
        let is_childs_maker = api::wheelhouse::author::Author::is_hub(&context.user.username);
        let is_own = api::reserved::is_hubs_own_group(group) || group == api::crd::GROUP;
        !is_childs_maker || is_own || !changes_desired(call, write)
    }
}

/// The refusal of a write that was not judged in time.
pub(super) fn out_of_time() -> Refusal {
    Status::timeout("admission policies did not judge the request in time").into()
}

/// Whether a write creates an object or changes more of it than metadata and status.
fn changes_desired(call: &Call<'_>, write: &Write<'_>) -> bool {
    let (Some(object), old) = (write.object, write.old) else {
        return false;
    };
    let Some(old) = old else {
        return true;
    };
    let separate = call.scope.version.status == StatusMode::Subresource;
    convert::desired_differs(object, old, separate)
}

fn options(call: &Call<'_>, write: &Write<'_>) -> Value {
    if let Some(options) = write.deletion {
        return options.to_value();
    }
    let kind = match write.operation {
        Operation::Create => "CreateOptions",
        Operation::Update | Operation::Delete => "UpdateOptions",
    };
    let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
    if write.dry_run {
        options["dryRun"] = json!(["All"]);
    }
    if let Ok(asked) = CreateOptions::from_query(call.query) {
        if !asked.field_manager.is_empty() {
            options["fieldManager"] = json!(asked.field_manager);
        }
        let validation = match asked.field_validation {
            FieldValidation::Ignore => "Ignore",
            FieldValidation::Warn => "Warn",
            FieldValidation::Strict => "Strict",
        };
        if call.query.first("fieldValidation").is_some() {
            options["fieldValidation"] = json!(validation);
        }
    }
    options
}
