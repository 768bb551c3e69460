//! Groups, versions, kinds and resources: the names by which types and endpoints are known.
//!
//! The core group is the empty string. `Display` follows apimachinery, because these texts appear in `Status`
//! messages that clients match on.
//!
//! Source: `apimachinery/pkg/runtime/schema/group_version.go`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An API group in one version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersion {
    /// The API group; empty for core.
    pub group: String,
    /// The version, `v1beta1` for example.
    pub version: String,
}

/// The type of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GroupVersionKind {
    /// The API group; empty for core.
    #[serde(default)]
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind, `Deployment` for example.
    pub kind: String,
}

/// An endpoint: the plural resource of a group in one version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GroupVersionResource {
    /// The API group; empty for core.
    #[serde(default)]
    pub group: String,
    /// The version.
    pub version: String,
    /// The plural resource, `deployments` for example.
    pub resource: String,
}

/// Stored data: a resource whatever its version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GroupResource {
    /// The API group; empty for core.
    #[serde(default)]
    pub group: String,
    /// The plural resource.
    pub resource: String,
}

/// A kind whatever its version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GroupKind {
    /// The API group; empty for core.
    #[serde(default)]
    pub group: String,
    /// The kind.
    pub kind: String,
}

/// An `apiVersion` that has more than one slash.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unexpected GroupVersion string: {text}")]
pub struct ParseGroupVersionError {
    /// The text that was given.
    pub text: String,
}

// === impl GroupVersion ===

impl GroupVersion {
    /// Names a version of a group.
    pub fn new(group: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
        }
    }

    /// Adds a kind.
    pub fn with_kind(&self, kind: impl Into<String>) -> GroupVersionKind {
        GroupVersionKind::new(self.group.clone(), self.version.clone(), kind)
    }

    /// Adds a resource.
    pub fn with_resource(&self, resource: impl Into<String>) -> GroupVersionResource {
        GroupVersionResource::new(self.group.clone(), self.version.clone(), resource)
    }

    /// Names the path below the server's root: `/api/v1` or `/apis/<group>/<version>`.
    pub fn path(&self) -> String {
        if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        }
    }
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.version)
        } else {
            write!(f, "{}/{}", self.group, self.version)
        }
    }
}

impl FromStr for GroupVersion {
    type Err = ParseGroupVersionError;

    /// Parses `v1` and `group/v1`. The empty text is the empty group and version, as in Kubernetes.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('/') {
            None => Ok(Self::new("", text)),
            Some(("", "")) => Ok(Self::default()),
            Some((_, version)) if version.contains('/') => Err(ParseGroupVersionError {
                text: text.to_owned(),
            }),
            Some((group, version)) => Ok(Self::new(group, version)),
        }
    }
}

impl Serialize for GroupVersion {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GroupVersion {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

// === impl GroupVersionKind ===

impl GroupVersionKind {
    /// Names a type.
    pub fn new(
        group: impl Into<String>,
        version: impl Into<String>,
        kind: impl Into<String>,
    ) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
        }
    }

    /// Reads `apiVersion` and `kind` of an object; `None` where one is missing, empty or malformed.
    pub fn from_object(object: &Value) -> Option<Self> {
        let api_version = object.get("apiVersion")?.as_str()?;
        let kind = object.get("kind")?.as_str()?;
        if api_version.is_empty() || kind.is_empty() {
            return None;
        }
        let group_version: GroupVersion = api_version.parse().ok()?;
        Some(group_version.with_kind(kind))
    }

    /// Renders the `apiVersion` of an object of this type.
    pub fn api_version(&self) -> String {
        self.group_version().to_string()
    }

    /// Drops the kind.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(self.group.clone(), self.version.clone())
    }

    /// Drops the version.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind::new(self.group.clone(), self.kind.clone())
    }
}

impl fmt::Display for GroupVersionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

// === impl GroupVersionResource ===

impl GroupVersionResource {
    /// Names an endpoint.
    pub fn new(
        group: impl Into<String>,
        version: impl Into<String>,
        resource: impl Into<String>,
    ) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            resource: resource.into(),
        }
    }

    /// Drops the resource.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(self.group.clone(), self.version.clone())
    }

    /// Drops the version.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(self.group.clone(), self.resource.clone())
    }
}

impl fmt::Display for GroupVersionResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}/{}, Resource={}",
            self.group, self.version, self.resource
        )
    }
}

// === impl GroupResource ===

impl GroupResource {
    /// Names a resource.
    pub fn new(group: impl Into<String>, resource: impl Into<String>) -> Self {
        Self {
            group: group.into(),
            resource: resource.into(),
        }
    }

    /// Adds a version.
    pub fn with_version(&self, version: impl Into<String>) -> GroupVersionResource {
        GroupVersionResource::new(self.group.clone(), version, self.resource.clone())
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_qualified(f, &self.resource, &self.group)
    }
}

// === impl GroupKind ===

impl GroupKind {
    /// Names a kind.
    pub fn new(group: impl Into<String>, kind: impl Into<String>) -> Self {
        Self {
            group: group.into(),
            kind: kind.into(),
        }
    }

    /// Adds a version.
    pub fn with_version(&self, version: impl Into<String>) -> GroupVersionKind {
        GroupVersionKind::new(self.group.clone(), version, self.kind.clone())
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_qualified(f, &self.kind, &self.group)
    }
}

fn write_qualified(f: &mut fmt::Formatter<'_>, name: &str, group: &str) -> fmt::Result {
    if group.is_empty() {
        f.write_str(name)
    } else {
        write!(f, "{name}.{group}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_versions_parse_and_print_as_in_apimachinery() {
        for (text, group, version) in [
            ("v1", "", "v1"),
            ("apps/v1", "apps", "v1"),
            ("", "", ""),
            ("/", "", ""),
            ("a/", "a", ""),
        ] {
            let parsed: GroupVersion = text.parse().unwrap();
            assert_eq!(parsed, GroupVersion::new(group, version), "{text}");
        }
        assert_eq!(
            "a/b/c".parse::<GroupVersion>().unwrap_err().to_string(),
            "unexpected GroupVersion string: a/b/c"
        );
        assert_eq!(GroupVersion::new("apps", "v1").to_string(), "apps/v1");
        assert_eq!(GroupVersion::new("", "v1").to_string(), "v1");
        assert_eq!(GroupVersion::new("", "v1").path(), "/api/v1");
        assert_eq!(GroupVersion::new("apps", "v1").path(), "/apis/apps/v1");
    }

    #[test]
    fn qualified_names_leave_out_the_core_group() {
        assert_eq!(GroupResource::new("", "pods").to_string(), "pods");
        assert_eq!(
            GroupResource::new("example.com", "widgets").to_string(),
            "widgets.example.com"
        );
        assert_eq!(
            GroupKind::new("example.com", "Widget").to_string(),
            "Widget.example.com"
        );
        assert_eq!(
            GroupVersionKind::new("apps", "v1", "Deployment").to_string(),
            "apps/v1, Kind=Deployment"
        );
    }

    #[test]
    fn the_type_of_an_object_needs_both_fields() {
        let object = serde_json::json!({"apiVersion": "apps/v1", "kind": "Deployment"});
        assert_eq!(
            GroupVersionKind::from_object(&object),
            Some(GroupVersionKind::new("apps", "v1", "Deployment"))
        );
        for bad in [
            serde_json::json!({"apiVersion": "v1"}),
            serde_json::json!({"kind": "Pod"}),
            serde_json::json!({"apiVersion": "", "kind": "Pod"}),
            serde_json::json!({"apiVersion": 1, "kind": "Pod"}),
            serde_json::json!({"apiVersion": "a/b/c", "kind": "Pod"}),
            serde_json::json!([]),
        ] {
            assert_eq!(GroupVersionKind::from_object(&bad), None, "{bad}");
        }
    }
}
