//! Discovery: which groups, versions and resources a server serves.
//!
//! Source: `apimachinery/pkg/apis/meta/v1/types.go`, `api/apidiscovery/v2/types.go`.

use serde::{Deserialize, Serialize};

use crate::group::GroupVersionKind;
use crate::wire::{is_default, or_default};

/// The group of aggregated discovery.
pub const AGGREGATED_GROUP: &str = "apidiscovery.k8s.io";
/// The media type that asks for aggregated discovery and answers it.
pub const AGGREGATED_V2: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/// The same for clients of Kubernetes 1.26 to 1.29.
pub const AGGREGATED_V2BETA1: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

/// The verbs of `status` and `scale`.
pub const SUBRESOURCE_VERBS: &[&str] = &["get", "patch", "update"];

/// The versions of the core group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind", rename = "APIVersions")]
pub struct ApiVersions {
    /// The versions.
    #[serde(default)]
    pub versions: Vec<String>,
    /// Where to dial; nobody does.
    #[serde(rename = "serverAddressByClientCIDRs", default)]
    pub server_address_by_client_cidrs: Vec<ServerAddress>,
}

/// Where clients of a network find the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerAddress {
    /// The network.
    #[serde(rename = "clientCIDR")]
    pub client_cidr: String,
    /// The address.
    pub server_address: String,
}

/// All groups but core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind", rename = "APIGroupList")]
pub struct ApiGroupList {
    /// `v1`.
    pub api_version: String,
    /// The groups in the order of their priority.
    #[serde(default, deserialize_with = "or_default")]
    pub groups: Vec<ApiGroup>,
}

/// One group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ApiGroup {
    /// `APIGroup` where it stands alone, else absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// `v1` where it stands alone, else absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The name.
    pub name: String,
    /// The versions, the preferred one first.
    #[serde(deserialize_with = "or_default")]
    pub versions: Vec<GroupVersionForDiscovery>,
    /// The preferred version.
    pub preferred_version: GroupVersionForDiscovery,
}

/// One version of a group, both alone and with the group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupVersionForDiscovery {
    /// `group/version`.
    pub group_version: String,
    /// `version`.
    pub version: String,
}

/// The resources of one version of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind", rename = "APIResourceList")]
pub struct ApiResourceList {
    /// `v1`.
    #[serde(default)]
    pub api_version: String,
    /// `group/version`.
    pub group_version: String,
    /// The resources and subresources.
    #[serde(default, deserialize_with = "or_default")]
    pub resources: Vec<ApiResource>,
}

/// One resource or subresource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ApiResource {
    /// The plural, with a slash and the subresource where it is one.
    pub name: String,
    /// The singular.
    pub singular_name: String,
    /// Whether objects have a namespace.
    pub namespaced: bool,
    /// The group, where it is not that of the list.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub group: String,
    /// The version, where it is not that of the list.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub version: String,
    /// The kind.
    pub kind: String,
    /// The verbs.
    #[serde(deserialize_with = "or_default")]
    pub verbs: Vec<String>,
    /// Other names on the command line.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub short_names: Vec<String>,
    /// Names for many resources at once.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub categories: Vec<String>,
    /// A hash of the type in the store.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub storage_version_hash: String,
}

/// Everything in one answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    rename_all = "camelCase",
    tag = "kind",
    rename = "APIGroupDiscoveryList"
)]
pub struct ApiGroupDiscoveryList {
    /// `apidiscovery.k8s.io/v2`.
    pub api_version: String,
    /// Empty.
    #[serde(default)]
    pub metadata: EmptyMeta,
    /// The groups in the order of their priority.
    #[serde(default, deserialize_with = "or_default")]
    pub items: Vec<ApiGroupDiscovery>,
}

/// Metadata that says nothing.
#[expect(
    clippy::empty_structs_with_brackets,
    reason = "it is {} on the wire, and would be null without"
)]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmptyMeta {}

/// One group with all of its versions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ApiGroupDiscovery {
    /// The name of the group; empty for core.
    pub metadata: GroupMeta,
    /// The versions, the preferred one first.
    #[serde(deserialize_with = "or_default")]
    pub versions: Vec<ApiVersionDiscovery>,
}

/// The name of a group as metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupMeta {
    /// The name; empty for core.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub name: String,
}

/// One version with all of its resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ApiVersionDiscovery {
    /// The version.
    pub version: String,
    /// The resources.
    #[serde(deserialize_with = "or_default")]
    pub resources: Vec<ApiResourceDiscovery>,
    /// `Current`, or `Stale` where the backend was not reached.
    #[serde(deserialize_with = "or_default")]
    pub freshness: String,
}

/// One resource with its subresources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ApiResourceDiscovery {
    /// The plural.
    pub resource: String,
    /// The type of the answers. Always written: some clients break on null.
    pub response_kind: Option<ResponseKind>,
    /// `Namespaced` or `Cluster`.
    pub scope: String,
    /// The singular.
    pub singular_resource: String,
    /// The verbs.
    #[serde(deserialize_with = "or_default")]
    pub verbs: Vec<String>,
    /// Other names on the command line.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub short_names: Vec<String>,
    /// Names for many resources at once.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub categories: Vec<String>,
    /// The subresources.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub subresources: Vec<ApiSubresourceDiscovery>,
}

/// One subresource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ApiSubresourceDiscovery {
    /// The name after the slash.
    pub subresource: String,
    /// The type of the answers.
    pub response_kind: Option<ResponseKind>,
    /// The verbs.
    #[serde(deserialize_with = "or_default")]
    pub verbs: Vec<String>,
}

/// The type of an answer; unlike [`GroupVersionKind`] every part is always written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResponseKind {
    /// The API group; empty for core.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind.
    pub kind: String,
}

// === impl ApiGroup ===

impl ApiGroup {
    /// Lists the versions of a group, of which the first is the preferred one.
    pub fn new(name: &str, versions: &[&str]) -> Self {
        let versions: Vec<GroupVersionForDiscovery> = versions
            .iter()
            .map(|version| GroupVersionForDiscovery {
                group_version: format!("{name}/{version}"),
                version: (*version).to_owned(),
            })
            .collect();
        let preferred_version = versions.first().cloned().unwrap_or_default();
        Self {
            kind: None,
            api_version: None,
            name: name.to_owned(),
            versions,
            preferred_version,
        }
    }

    /// Makes it an answer of its own.
    #[must_use]
    pub fn alone(mut self) -> Self {
        self.kind = Some("APIGroup".to_owned());
        self.api_version = Some("v1".to_owned());
        self
    }
}

// === impl ResponseKind ===

impl From<&GroupVersionKind> for ResponseKind {
    fn from(gvk: &GroupVersionKind) -> Self {
        Self {
            group: gvk.group.clone(),
            version: gvk.version.clone(),
            kind: gvk.kind.clone(),
        }
    }
}

impl From<ResponseKind> for GroupVersionKind {
    fn from(kind: ResponseKind) -> Self {
        Self {
            group: kind.group,
            version: kind.version,
            kind: kind.kind,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn groups_are_written_as_clients_read_them() {
        let list = ApiGroupList {
            api_version: "v1".to_owned(),
            groups: vec![ApiGroup::new("example.com", &["v1", "v1beta1"])],
        };
        assert_eq!(
            serde_json::to_value(&list).unwrap(),
            json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [{
                "name": "example.com",
                "versions": [
                    {"groupVersion": "example.com/v1", "version": "v1"},
                    {"groupVersion": "example.com/v1beta1", "version": "v1beta1"},
                ],
                "preferredVersion": {"groupVersion": "example.com/v1", "version": "v1"},
            }]})
        );
        let alone = serde_json::to_value(ApiGroup::new("a", &["v1"]).alone()).unwrap();
        assert_eq!(
            (&alone["kind"], &alone["apiVersion"]),
            (&json!("APIGroup"), &json!("v1"))
        );
    }

    #[test]
    fn aggregated_discovery_survives_a_round_trip() {
        let text = json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
            "items": [{"metadata": {"name": "example.com", "creationTimestamp": null},
                "versions": [{"version": "v1", "freshness": "Current", "resources": [{
                    "resource": "widgets",
                    "responseKind": {"group": "example.com", "version": "v1", "kind": "Widget"},
                    "scope": "Namespaced", "singularResource": "widget", "verbs": ["get"],
                    "subresources": [{"subresource": "scale",
                        "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                        "verbs": ["get"]}]}]}]}]});
        let list: ApiGroupDiscoveryList = serde_json::from_value(text.clone()).unwrap();
        let mut want = text;
        want["items"][0]["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("creationTimestamp");
        assert_eq!(serde_json::to_value(&list).unwrap(), want);
    }
}
