//! Storage keys: `/<group or "core">/<resource>/<cluster>/<namespace or empty>/<name>`.
//!
//! A resource of all clusters, of one cluster, and of one namespace are each one contiguous range. Within a cluster
//! keys sort by `namespace/name` bytewise, which is the order in which Kubernetes lists and pages.
//! No part can hold a `/`: names are checked as path segments before a key is made.

use std::fmt;
use std::sync::Arc;

use api::{ClusterScope, GroupResource, LogicalCluster};
use storage::{Key, KeyRange};

/// Names one object: cluster, namespace (empty for cluster-scoped kinds) and name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// The logical cluster that holds the object.
    pub cluster: LogicalCluster,
    /// Its namespace; empty for a cluster-scoped kind.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Makes the keys of one group and resource.
#[derive(Clone, PartialEq, Eq)]
pub struct ResourcePrefix {
    text: Arc<str>,
}

/// The parts of a storage key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StorageKeyParts<'a> {
    /// The API group; empty for core.
    pub group: &'a str,
    /// The plural resource.
    pub resource: &'a str,
    /// The logical cluster.
    pub cluster: &'a str,
    /// The namespace; empty for a cluster-scoped object.
    pub namespace: &'a str,
    /// The object's name.
    pub name: &'a str,
}

/// How the core group is written in keys (an empty segment would read as a mistake in dumps).
const CORE: &str = "core";

/// The prefix of a resource over all clusters.
pub fn prefix(group: &str, resource: &str) -> Vec<u8> {
    let group = if group.is_empty() { CORE } else { group };
    format!("/{group}/{resource}/").into_bytes()
}

/// The prefix of a resource in one cluster.
pub fn prefix_in(group: &str, resource: &str, cluster: &LogicalCluster) -> Vec<u8> {
    let mut prefix = prefix(group, resource);
    prefix.extend_from_slice(cluster.as_str().as_bytes());
    prefix.push(b'/');
    prefix
}

/// Takes a storage key apart; `None` if it is not one.
pub fn parse_key(key: &[u8]) -> Option<StorageKeyParts<'_>> {
    let text = std::str::from_utf8(key).ok()?.strip_prefix('/')?;
    let mut parts = text.split('/');
    let group = parts.next()?;
    let found = StorageKeyParts {
        group: if group == CORE { "" } else { group },
        resource: parts.next()?,
        cluster: parts.next()?,
        namespace: parts.next()?,
        name: parts.next()?,
    };
    parts.next().is_none().then_some(found)
}

// === impl ResourcePrefix ===

impl ResourcePrefix {
    /// Makes the prefix of a group and resource.
    pub fn new(resource: &GroupResource) -> Self {
        let text = String::from_utf8(prefix(&resource.group, &resource.resource));
        Self {
            text: text.expect("a prefix is made of text").into(),
        }
    }

    /// Returns the group (empty for core) and the resource.
    pub fn resource(&self) -> (&str, &str) {
        let text = self.text.trim_matches('/');
        let (group, resource) = text.split_once('/').unwrap_or((text, ""));
        (if group == CORE { "" } else { group }, resource)
    }

    /// Returns the key of one object. No name holds a separator, but what refers to objects may, owner references for example: such a
    /// key names nothing, in this namespace and cluster or another.
    pub fn key(&self, cluster: &LogicalCluster, namespace: &str, name: &str) -> Key {
        let cluster = cluster.as_str();
        let length = self.text.len() + cluster.len() + namespace.len() + name.len() + 2;
        let mut key = Vec::with_capacity(length);
        key.extend_from_slice(self.text.as_bytes());
        for (part, separator) in [(cluster, true), (namespace, true), (name, false)] {
            key.extend(part.bytes().map(|byte| if byte == b'/' { 0 } else { byte }));
            if separator {
                key.push(b'/');
            }
        }
        Key::from(key)
    }

    /// Returns the range of a scope: all clusters, one cluster, or one namespace in either.
    ///
    /// A namespace over all clusters is the range of all clusters; the caller filters.
    pub fn range(&self, scope: &ClusterScope, namespace: Option<&str>) -> KeyRange {
        let mut start = self.text.as_bytes().to_vec();
        if let ClusterScope::One(cluster) = scope {
            start.extend_from_slice(cluster.as_str().as_bytes());
            start.push(b'/');
            if let Some(namespace) = namespace {
                start.extend_from_slice(namespace.as_bytes());
                start.push(b'/');
            }
        }
        KeyRange::prefix(start)
    }
}

impl fmt::Debug for ResourcePrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_separator_in_a_name_leaves_no_namespace() {
        let prefix = ResourcePrefix::new(&GroupResource::new("", "secrets"));
        let east: LogicalCluster = "east".parse().unwrap();
        for (namespace, name) in [("", "kube-system/token"), ("a/b", "c"), ("a", "/../b")] {
            let key = prefix.key(&east, namespace, name);
            let parts = parse_key(&key).unwrap();
            assert_eq!(parts.cluster, east.as_str());
            assert_eq!(parts.namespace, namespace.replace('/', "\0"));
            assert_eq!(parts.name, name.replace('/', "\0"));
        }
    }
}
