//! What admission is told of a write: who does what to which object.
//!
//! Source: `apiserver/pkg/admission/attributes.go`.

use std::sync::Arc;

use api::{GroupVersionKind, GroupVersionResource, LogicalCluster, meta};
use serde_json::{Value, json};

use crate::request::UserInfo;
use crate::strategy::namespaces;

/// A write that is to be admitted.
#[derive(Debug, Clone)]
pub(crate) struct Attributes {
    pub(crate) operation: Operation,
    pub(crate) cluster: LogicalCluster,
    /// What the path names.
    pub(crate) resource: GroupVersionResource,
    pub(crate) subresource: String,
    /// The type of the object, which is that of the subresource where it has one.
    pub(crate) kind: GroupVersionKind,
    /// The namespace in the path; that of a namespace is its own name.
    pub(crate) namespace: String,
    /// Empty while a name is yet to be made.
    pub(crate) name: String,
    /// The object as it will be; null where it is deleted.
    pub(crate) object: Value,
    /// The object as it is; null where it is created.
    pub(crate) old: Value,
    pub(crate) options: Value,
    pub(crate) dry_run: bool,
    pub(crate) user: Arc<UserInfo>,
}

/// What is done to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
}

// === impl Attributes ===

impl Attributes {
    /// The name that a refusal shows. Source: `extractResourceName` in `admission/errors.go`.
    pub(crate) fn shown_name(&self) -> &str {
        let named = [
            self.name.as_str(),
            meta::name(&self.object),
            meta::generate_name(&self.object),
        ];
        let mut named = named.into_iter().filter(|name| !name.is_empty());
        named.next().unwrap_or("Unknown")
    }

    /// Whether the object is a namespace.
    pub(crate) fn is_namespace(&self) -> bool {
        self.resource.group_resource() == namespaces::resource()
    }

    /// Whether the object has no namespace.
    pub(crate) fn is_cluster_scoped(&self) -> bool {
        self.namespace.is_empty() || self.is_namespace()
    }

    /// The `request` of expressions, and of reviews but for the objects. `matched` is what a rule means, where that is
    /// another version than the path names.
    pub(crate) fn request(
        &self,
        resource: &GroupVersionResource,
        kind: &GroupVersionKind,
    ) -> Value {
        let mut request = json!({
            "kind": kind_value(kind),
            "resource": resource_value(resource),
            "requestKind": kind_value(&self.kind),
            "requestResource": resource_value(&self.resource),
            "operation": self.operation.as_str(),
            "userInfo": self.user.to_value(),
            "dryRun": self.dry_run,
            "options": self.options,
        });
        for (field, text) in [
            ("subResource", &self.subresource),
            ("requestSubResource", &self.subresource),
            ("name", &self.name),
            ("namespace", &self.namespace),
        ] {
            if !text.is_empty() {
                request[field] = json!(text);
            }
        }
        request
    }
}

fn kind_value(kind: &GroupVersionKind) -> Value {
    json!({"group": kind.group, "version": kind.version, "kind": kind.kind})
}

fn resource_value(it: &GroupVersionResource) -> Value {
    json!({"group": it.group, "version": it.version, "resource": it.resource})
}

// === impl Operation ===

impl Operation {
    /// The word that rules use.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}
