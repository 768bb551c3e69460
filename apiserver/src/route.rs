//! Reads from method, path and query which logical cluster and which resource a request means.
//!
//! # Invariants
//! - `/clusters/<name>`, or `/apis/wheelhouse.dev/v1alpha1/spokes/<name>/proxy` for those who come through a host's aggregation layer, is
//!   stripped once, from the decoded path; everything later sees [`RequestInfo`] only.
//! - A name that is not a DNS label is 400; a second cluster below the first, in either form, is 404, for every caller.
//! - The segments around the logical cluster's name stand in the path without escapes, so that what is relayed is what was
//!   judged.
//! - A decoded path with a `.` or `..` segment is 400: no path means something else further on.
//!
//! Source: `apiserver/pkg/endpoints/request/requestinfo.go`.

mod path;

use std::borrow::Cow;

use api::{
    cluster::{ClusterScope, LogicalCluster},
    query::Query,
    selector::FieldSelector,
    status::Status,
};
use http::{Method, Uri};

use crate::{
    refusal::Refusal,
    request::{ClusterPath, RequestInfo, Verb},
};

/// What stands before the name of a logical cluster.
const CLUSTERS: &str = "/clusters";
/// What stands before it on the way through a host, whose aggregation layer relays what is below the group alone.
const SPOKES: &str = "/apis/wheelhouse.dev/v1alpha1/spokes";
/// What stands after it on that way. Requests of a subresource of this name may take as long as they like at the host.
const PROXY: &str = "/proxy";

/// Subresources of a namespace; any other word after `namespaces/<name>/` is a resource in it.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

/// Reads what a request means.
///
/// # Errors
/// 400 for a path that is not UTF-8, has dot segments or names no DNS label as cluster, or a legacy `watch` path
/// without resource; the plain 404 for a cluster below a cluster.
pub fn route(method: &Method, uri: &Uri) -> Result<RequestInfo, Refusal> {
    let decoded =
        path::decode(uri.path()).map_err(|error| Status::bad_request(error.to_string()))?;
    if !decoded.starts_with('/') {
        // `CONNECT host:port` and `OPTIONS *` name no path.
        return Err(Status::bad_request("the request has no path").into());
    }
    let (cluster, named_by, local) = strip_cluster(&decoded)?;
    if let Cow::Owned(decoded) = &decoded {
        check_raw_cluster(uri.path(), decoded, local)?;
    }
    let mut info = RequestInfo {
        cluster,
        named_by,
        verb: method_verb(method),
        api_prefix: "",
        group: String::new(),
        version: String::new(),
        resource: String::new(),
        subresource: String::new(),
        namespace: String::new(),
        name: String::new(),
        names_object: false,
        path: local.to_owned(),
        is_resource: false,
        rest: String::new(),
    };
    read_resource(method, uri, local, &mut info)?;
    Ok(info)
}

/// Splits `/clusters/<name>/rest` into the cluster and `/rest`.
fn strip_cluster(path: &str) -> Result<(ClusterScope, ClusterPath, &str), Refusal> {
    let Some(Segment { form, name, rest }) = cluster_segment(path) else {
        let root = ClusterScope::One(LogicalCluster::root());
        return Ok((root, ClusterPath::Prefix, path));
    };
    let scope = name
        .parse::<ClusterScope>()
        .map_err(|error| Status::bad_request(error.to_string()))?;
    // No Spoke is called root or `*`.
    let is_spoke = scope.one().is_some_and(|cluster| !cluster.is_root());
    let is_nested = rest == CLUSTERS || cluster_segment(rest).is_some();
    if is_nested || form == ClusterPath::SpokeProxy && !is_spoke {
        return Err(Refusal::no_such_path());
    }
    Ok((scope, form, rest))
}

/// Refuses a path in which an escape stands for a part of what surrounds the logical cluster's name. What is relayed is the rest of
/// the path as it came: `/clusters/a%2Fx/apis` would be judged as `/x/apis`, and reach the spoke as `/apis`.
fn check_raw_cluster(raw: &str, decoded: &str, local: &str) -> Result<(), Refusal> {
    let form = |path| cluster_segment(path).map(|segment| segment.form);
    let is_alike = form(raw) == form(decoded);
    if is_alike && path::decode(below_cluster(raw)).is_ok_and(|rest| rest == local) {
        return Ok(());
    }
    let text = "the path of the request must not escape the slashes around the logical cluster";
    Err(Status::bad_request(text).into())
}

/// Returns what follows the logical cluster in a path, at least `/`; for one that names none, the path.
pub(crate) fn below_cluster(path: &str) -> &str {
    cluster_segment(path).map_or(path, |segment| segment.rest)
}

/// The logical cluster in a path.
struct Segment<'a> {
    form: ClusterPath,
    name: &'a str,
    /// What follows, at least `/`.
    rest: &'a str,
}

/// Finds the segment after `/clusters/`, or between `/apis/wheelhouse.dev/v1alpha1/spokes/` and `/proxy`.
fn cluster_segment(path: &str) -> Option<Segment<'_>> {
    let (form, below) = match path.strip_prefix(CLUSTERS) {
        Some(below) => (ClusterPath::Prefix, below),
        None => (ClusterPath::SpokeProxy, path.strip_prefix(SPOKES)?),
    };
    let below = below.strip_prefix('/')?;
    let (name, rest) = match below.find('/') {
        Some(end) => below.split_at(end),
        None if below.is_empty() => return None,
        None => (below, ""),
    };
    let rest = match form {
        ClusterPath::Prefix => rest,
        ClusterPath::SpokeProxy => rest.strip_prefix(PROXY)?,
    };
    let rest = match rest {
        "" => "/",
        // Of a segment that only begins like this one.
        _ if !rest.starts_with('/') => return None,
        _ => rest,
    };
    Some(Segment { form, name, rest })
}

/// The verb of a non-resource request.
fn method_verb(method: &Method) -> Verb {
    match *method {
        Method::GET => Verb::Get,
        Method::HEAD => Verb::Head,
        Method::POST => Verb::Post,
        Method::PUT => Verb::Put,
        Method::PATCH => Verb::Patch,
        Method::DELETE => Verb::Delete,
        Method::OPTIONS => Verb::Options,
        _ => Verb::Other,
    }
}

/// The verb of a resource request, before it is known whether it is about one object.
fn resource_verb(method: &Method) -> Verb {
    match *method {
        Method::GET | Method::HEAD => Verb::Get,
        Method::POST => Verb::Create,
        Method::PUT => Verb::Update,
        Method::PATCH => Verb::Patch,
        Method::DELETE => Verb::Delete,
        _ => Verb::Other,
    }
}

/// Fills in what a path below `/api/v1/` or `/apis/<group>/<version>/` says; leaves `info` alone for any other.
fn read_resource(
    method: &Method,
    uri: &Uri,
    path: &str,
    info: &mut RequestInfo,
) -> Result<(), Refusal> {
    let mut parts = path.trim_matches('/').split('/').peekable();
    let prefix = match parts.next() {
        Some("api") => "api",
        Some("apis") => "apis",
        _ => return Ok(()),
    };
    let group = if prefix == "apis" {
        parts.next()
    } else {
        Some("")
    };
    let (Some(group), Some(version), Some(_)) = (group, parts.next(), parts.peek()) else {
        return Ok(());
    };
    info.is_resource = true;
    info.api_prefix = prefix;
    group.clone_into(&mut info.group);
    version.clone_into(&mut info.version);
    info.verb = resource_verb(method);
    if let Some(special) = parts.next_if(|part| matches!(*part, "watch" | "proxy")) {
        if parts.peek().is_none() {
            return Err(
                Status::bad_request("unable to determine kind and namespace from url").into(),
            );
        }
        info.verb = if special == "watch" {
            Verb::Watch
        } else {
            Verb::Proxy
        };
    }
    read_object(parts, info);
    if info.names_object {
        return Ok(());
    }
    match info.verb {
        Verb::Get => read_collection_query(uri, info),
        Verb::Delete => info.verb = Verb::DeleteCollection,
        _ => {}
    }
    Ok(())
}

/// Reads `[namespaces/<namespace>/]<resource>[/<name>[/<subresource>[/<rest>]]]`.
fn read_object<'a>(parts: impl Iterator<Item = &'a str>, info: &mut RequestInfo) {
    let mut parts = parts.peekable();
    let mut resource = parts.next().unwrap_or_default();
    let mut name = parts.next();
    if resource == "namespaces"
        && let Some(namespace) = name
    {
        namespace.clone_into(&mut info.namespace);
        let inner = parts.next_if(|part| !NAMESPACE_SUBRESOURCES.contains(part));
        if let Some(inner) = inner {
            resource = inner;
            name = parts.next();
        }
    }
    resource.clone_into(&mut info.resource);
    let Some(name) = name else { return };
    name.clone_into(&mut info.name);
    info.names_object = true;
    if info.verb == Verb::Proxy {
        // The legacy form has no subresource: everything after the name is the path to relay.
        info.rest = parts.collect::<Vec<_>>().join("/");
        return;
    }
    if let Some(subresource) = parts.next() {
        subresource.clone_into(&mut info.subresource);
        if parts.peek().is_some() {
            info.rest = parts.collect::<Vec<_>>().join("/");
        }
    }
}

/// Distinguishes list from watch, and takes over a name that the field selector demands, as the authorizer looks at it.
fn read_collection_query(uri: &Uri, info: &mut RequestInfo) {
    info.verb = Verb::List;
    let Some(query) = uri.query() else { return };
    let query = Query::parse(query);
    if query.flag("watch") {
        info.verb = Verb::Watch;
    }
    let Some(selector) = query.first("fieldSelector") else {
        return;
    };
    // A selector that cannot be read is the handler's to refuse.
    let Ok(selector) = FieldSelector::parse(selector) else {
        return;
    };
    if let Some(name) = selector.exact("metadata.name") {
        name.clone_into(&mut info.name);
    }
}

#[cfg(test)]
mod tests;
