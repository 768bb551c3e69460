//! What a path says: the type that routing makes and that authorization, audit and handlers read.

use api::cluster::ClusterScope;

/// The facts that a request's path, method and query say; also the attributes that are authorized.
///
/// Absent parts are empty strings. For a resource request `group` is empty for the core group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestInfo {
    /// The logical cluster that the path names, `root` where it names none, or all of them.
    pub cluster: ClusterScope,
    /// How the path names it.
    pub named_by: ClusterPath,
    /// What is to be done.
    pub verb: Verb,
    /// `"api"`, `"apis"`, or empty for a request that is not below either.
    pub api_prefix: &'static str,
    /// The API group.
    pub group: String,
    /// The API version.
    pub version: String,
    /// The resource, plural and lower case.
    pub resource: String,
    /// What follows the name, `status` for instance: one part, what is below it stands in `rest`.
    pub subresource: String,
    /// The namespace in the path. For the resource `namespaces` itself this is its name, as in Kubernetes.
    pub namespace: String,
    /// The object's name; on a list, watch or deletecollection the value of a `metadata.name=` field selector.
    pub name: String,
    /// Whether `name` stands in the path, so that the request is about one object and not about a collection.
    pub names_object: bool,
    /// The decoded path without the cluster prefix. Begins with `/`.
    pub path: String,
    /// Whether this is a request for a resource.
    pub is_resource: bool,
    /// The decoded path that follows the subresource (for `proxy`), without the leading slash.
    pub rest: String,
}

/// How a path names its logical cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterPath {
    /// `/clusters/<name>`, or not at all, which is root.
    Prefix,
    /// `/apis/wheelhouse.dev/v1alpha1/spokes/<name>/proxy`, as those do who come through a host's aggregation layer.
    SpokeProxy,
}

/// What a request wants to do: the verb that is authorized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Read one object; also the method of a non-resource request.
    Get,
    /// Read a collection.
    List,
    /// Follow a collection.
    Watch,
    /// Create an object.
    Create,
    /// Replace an object.
    Update,
    /// Change an object; also the method of a non-resource request.
    Patch,
    /// Delete an object; also the method of a non-resource request.
    Delete,
    /// Delete a collection.
    DeleteCollection,
    /// The legacy `/proxy/` path.
    Proxy,
    /// Non-resource request by POST.
    Post,
    /// Non-resource request by PUT.
    Put,
    /// Non-resource request by HEAD.
    Head,
    /// Non-resource request by OPTIONS.
    Options,
    /// A method that Kubernetes gives no verb.
    Other,
}

// === impl RequestInfo ===

impl RequestInfo {
    /// Whether the request may stay open for as long as it likes: watches and streams.
    pub fn is_long_running(&self) -> bool {
        matches!(self.verb, Verb::Watch | Verb::Proxy)
            || (self.is_resource
                && matches!(
                    self.subresource.as_str(),
                    "log" | "exec" | "attach" | "portforward" | "proxy"
                ))
    }

    /// What stands before the path in the client's URL.
    pub(crate) fn prefix(&self) -> String {
        match (&self.cluster, self.named_by) {
            (ClusterScope::One(cluster), _) if cluster.is_root() => String::new(),
            (scope, ClusterPath::Prefix) => format!("/clusters/{scope}"),
            (scope, ClusterPath::SpokeProxy) => {
                format!("/apis/wheelhouse.dev/v1alpha1/spokes/{scope}/proxy")
            }
        }
    }

    /// Whether the path leads through a namespace; that of a namespace itself names it as its own.
    pub(crate) fn is_in_namespace(&self) -> bool {
        let is_namespace = self.group.is_empty() && self.resource == "namespaces";
        !self.namespace.is_empty() && !is_namespace
    }
}

// === impl Verb ===

impl Verb {
    /// The word that RBAC rules use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Proxy => "proxy",
            Self::Post => "post",
            Self::Put => "put",
            Self::Head => "head",
            Self::Options => "options",
            Self::Other => "",
        }
    }

    /// Whether the verb changes nothing.
    pub const fn is_read_only(self) -> bool {
        matches!(
            self,
            Self::Get | Self::List | Self::Watch | Self::Head | Self::Options
        )
    }
}

impl std::fmt::Display for Verb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
