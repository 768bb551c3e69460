//! ClusterProfiles: the inventory of clusters that SIG Multicluster defines.
//!
//! Source: KEP-4322, KEP-5339, and `kubernetes-sigs/cluster-inventory-api`, `apis/v1alpha1` and `apis/v1alpha2`.

use serde_json::{Value, json};

/// The group of ClusterProfiles.
pub const GROUP: &str = "multicluster.x-k8s.io";
/// The version that the hub reads and writes; `v1alpha2` is served too, and differs in what it lets pass.
pub const VERSION: &str = "v1alpha1";
/// The API version of what the hub writes.
pub const API_VERSION: &str = "multicluster.x-k8s.io/v1alpha1";
/// The kind.
pub const KIND: &str = "ClusterProfile";
/// The plural.
pub const RESOURCE: &str = "clusterprofiles";

/// On a ClusterProfile: the name of the manager that wrote it, as in its spec.
pub const LABEL_MANAGER: &str = "x-k8s.io/cluster-manager";
/// On a ClusterProfile: the same value on all profiles of one cluster.
pub const LABEL_MEMBER_ID: &str = "multicluster.x-k8s.io/inventory-member-id";
/// The condition that a cluster's API server answers.
pub const CONDITION_HEALTHY: &str = "ControlPlaneHealthy";
/// The condition that a cluster is managed.
pub const CONDITION_JOINED: &str = "Joined";
/// The property that identifies a cluster. Source: KEP-2149 (`cluster.clusterset.k8s.io`).
pub const PROPERTY_CLUSTER_ID: &str = "cluster.clusterset.k8s.io";

/// The group of ClusterProperties, of which a cluster may have one with the name of that property. Source: KEP-2149.
pub const PROPERTY_GROUP: &str = "about.k8s.io";
/// The versions of ClusterProperties, the later one first.
pub const PROPERTY_VERSIONS: [&str; 2] = ["v1beta1", "v1alpha1"];
/// The plural of ClusterProperties.
pub const PROPERTY_RESOURCE: &str = "clusterproperties";

/// The extension of a cluster that is handed to a credential plug-in.
///
/// Source: client-go, `client.authentication.k8s.io/v1`, `Cluster.Config`.
pub const EXTENSION_EXEC: &str = "client.authentication.k8s.io/exec";
/// The extension with further arguments of a plug-in. Source: KEP-5339.
pub const EXTENSION_ARGS: &str = "clusterprofiles.multicluster.x-k8s.io/exec/additional-args";
/// The extension with further variables of a plug-in's environment. Source: KEP-5339.
pub const EXTENSION_ENVS: &str = "clusterprofiles.multicluster.x-k8s.io/exec/additional-envs";

/// Builds the definition of ClusterProfile, for a hub that has none.
pub fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{RESOURCE}.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": {"kind": KIND, "listKind": "ClusterProfileList", "plural": RESOURCE,
                "singular": "clusterprofile", "categories": ["multicluster"]},
            "versions": [version(VERSION, true), version("v1alpha2", false)],
        },
    })
}

fn version(name: &str, is_storage: bool) -> Value {
    let healthy = format!(".status.conditions[?(@.type==\"{CONDITION_HEALTHY}\")].status");
    let mut schema = schema();
    if is_storage {
        schema["properties"]["status"]["properties"]["credentialProviders"] =
            providers("The former name of accessProviders.");
    }
    json!({
        "name": name, "served": true, "storage": is_storage, "subresources": {"status": {}},
        "additionalPrinterColumns": [
            {"name": "Display Name", "type": "string", "jsonPath": ".spec.displayName"},
            {"name": "Manager", "type": "string", "jsonPath": ".spec.clusterManager.name"},
            {"name": "Version", "type": "string", "jsonPath": ".status.version.kubernetes"},
            {"name": "Healthy", "type": "string", "jsonPath": healthy},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
        "schema": {"openAPIV3Schema": schema},
    })
}

fn schema() -> Value {
    json!({
        "type": "object", "required": ["spec"],
        "description": "One cluster of an inventory.",
        "properties": {
            "apiVersion": {"type": "string"}, "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": {
                "type": "object", "required": ["clusterManager"],
                "properties": {
                    "displayName": {"type": "string", "description": "A name for people."},
                    "clusterManager": {
                        "type": "object", "required": ["name"],
                        "description": "Who writes this profile.",
                        "properties": {"name": {"type": "string"}},
                        "x-kubernetes-validations": [
                            {"rule": "self == oldSelf", "message": "ClusterManager is immutable"},
                        ],
                    },
                },
            },
            "status": {
                "type": "object",
                "properties": {
                    "conditions": conditions(),
                    "version": {"type": "object", "properties": {"kubernetes": {"type": "string"}}},
                    "properties": properties(),
                    "accessProviders": providers("The ways to the cluster."),
                },
            },
        },
    })
}

fn conditions() -> Value {
    json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "reason", "message", "lastTransitionTime"],
            "properties": {
                "type": {"type": "string", "maxLength": 316},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                "reason": {"type": "string", "minLength": 1, "maxLength": 1024},
                "message": {"type": "string", "maxLength": 32768},
                "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
                "lastTransitionTime": {"type": "string", "format": "date-time"},
            },
        },
    })
}

fn properties() -> Value {
    json!({
        "type": "array", "description": "What is known of the cluster.",
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        "items": {
            "type": "object", "required": ["name", "value"],
            "properties": {
                "name": {"type": "string", "minLength": 1, "maxLength": 253},
                "value": {"type": "string", "minLength": 1, "maxLength": 1024},
                "lastObservedTime": {"type": "string", "format": "date-time"},
            },
        },
    })
}

fn providers(description: &str) -> Value {
    let text = json!({"type": "string"});
    let flag = json!({"type": "boolean"});
    json!({
        "type": "array", "description": description, "maxItems": 64,
        "items": {
            "type": "object", "required": ["name"],
            "properties": {
                "name": {"type": "string", "minLength": 1, "maxLength": 253},
                "cluster": {
                    "type": "object", "required": ["server"],
                    "properties": {
                        "server": text, "tls-server-name": text, "insecure-skip-tls-verify": flag,
                        "certificate-authority": text, "certificate-authority-data": {"type": "string", "format": "byte"},
                        "proxy-url": text, "disable-compression": flag,
                        "extensions": {
                            "type": "array",
                            "items": {
                                "type": "object", "required": ["name", "extension"],
                                "properties": {"name": text,
                                    "extension": {"x-kubernetes-preserve-unknown-fields": true}},
                            },
                        },
                    },
                },
            },
        },
    })
}
