//! Logical clusters: the scope that `/clusters/<name>` names.
//!
//! **Invariant:** the name of a [`LogicalCluster`] is a DNS label, so it can stand in a storage key, in a URL
//! segment and in a host name without escaping.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};

use crate::validation;

/// The annotation that carries the logical cluster of an object served by a wildcard request.
pub const ANNOTATION: &str = "kcp.io/cluster";

/// The name of the hub's own logical cluster.
pub const ROOT: &str = "root";

/// The URL segment that stands for all logical clusters.
pub const WILDCARD: &str = "*";

/// A validated name of a logical cluster; cheap to clone. As [`fmt::Debug`] it is quoted, as messages show it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LogicalCluster(Arc<str>);

/// What a request addresses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ClusterScope {
    /// One logical cluster.
    One(LogicalCluster),
    /// All logical clusters that the caller may read.
    All,
}

/// A cluster name that is not a DNS label.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "cluster name {} is not a DNS label: {}",
    dialect::quote(name),
    dialect::names::is_dns_label(name).join("; ")
)]
pub struct ParseClusterError {
    /// The name that was given.
    pub name: String,
}

// === impl LogicalCluster ===

impl LogicalCluster {
    /// Names the hub's own logical cluster. Shared, because every request without a prefix is in it.
    pub fn root() -> Self {
        static SHARED: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from(ROOT));
        Self(Arc::clone(&SHARED))
    }

    /// Returns whether this is the hub's own logical cluster.
    pub fn is_root(&self) -> bool {
        self.as_str() == ROOT
    }

    /// Borrows the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Renders the path prefix, `/clusters/<name>`.
    pub fn path_prefix(&self) -> String {
        format!("/clusters/{self}")
    }
}

impl fmt::Debug for LogicalCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for LogicalCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for LogicalCluster {
    type Err = ParseClusterError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        if validation::is_dns_label(name).is_empty() {
            Ok(Self(Arc::from(name)))
        } else {
            Err(ParseClusterError {
                name: name.to_owned(),
            })
        }
    }
}

impl AsRef<str> for LogicalCluster {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl std::borrow::Borrow<str> for LogicalCluster {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl Serialize for LogicalCluster {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for LogicalCluster {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

// === impl ClusterScope ===

impl ClusterScope {
    /// Borrows the one cluster that is addressed, if it is one.
    pub fn one(&self) -> Option<&LogicalCluster> {
        match self {
            Self::One(cluster) => Some(cluster),
            Self::All => None,
        }
    }
}

impl fmt::Display for ClusterScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(cluster) => cluster.fmt(f),
            Self::All => f.write_str(WILDCARD),
        }
    }
}

impl FromStr for ClusterScope {
    type Err = ParseClusterError;

    /// Parses the URL segment after `/clusters/`.
    fn from_str(segment: &str) -> Result<Self, Self::Err> {
        if segment == WILDCARD {
            Ok(Self::All)
        } else {
            segment.parse().map(Self::One)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_dns_labels_name_a_cluster() {
        for name in ["root", "a", "spoke-1", "0", &"a".repeat(63)] {
            assert_eq!(name.parse::<LogicalCluster>().unwrap().as_str(), name);
        }
        for name in ["", "A", "a.b", "-a", "a-", "a/b", "*", "ä", &"a".repeat(64)] {
            assert!(name.parse::<LogicalCluster>().is_err(), "{name}");
        }
    }

    #[test]
    fn the_star_addresses_all_clusters() {
        assert_eq!("*".parse(), Ok(ClusterScope::All));
        assert_eq!(
            "root".parse(),
            Ok(ClusterScope::One(LogicalCluster::root()))
        );
        assert_eq!(ClusterScope::All.to_string(), "*");
    }
}
