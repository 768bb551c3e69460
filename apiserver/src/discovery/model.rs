//! The list of groups that all documents are made from, in the order in which clients see them.

use std::{cmp::Reverse, collections::BTreeMap};

use api::GroupVersionKind;
use api::discovery::{
    ApiGroupDiscovery, ApiResourceDiscovery, ApiSubresourceDiscovery, ApiVersionDiscovery,
    GroupMeta, ResponseKind,
};

use crate::served::{KindSource, ServedKind, ServedKinds};

/// Freshness of a version whose source was reached.
const CURRENT: &str = "Current";

/// Priority of a group that is not Kubernetes' own: every CustomResourceDefinition's.
const DEFINED_PRIORITY: u32 = 1000;

/// Groups with their versions and resources; the core group has the empty name and stands first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    /// In order of priority.
    pub groups: Vec<ApiGroupDiscovery>,
    /// `storageVersionHash` of the legacy documents by (group, version, resource).
    pub storage_version_hashes: BTreeMap<(String, String, String), String>,
}

/// What the hub's own store serves, as groups.
pub fn groups_of(served: &ServedKinds) -> Groups {
    let mut groups = Groups::default();
    for kind in served.kinds() {
        groups.add(kind);
    }
    groups.sort();
    groups
}

// === impl Groups ===

impl Groups {
    /// Puts the resources of `over` in the place of those with the same group and resource here, in whatever version,
    /// and adds those that are new: how a spoke's own discovery is covered by what the hub serves for it.
    #[must_use]
    pub fn overlaid(mut self, over: Self) -> Self {
        for group in over.groups {
            let own = self.group(&group.metadata.name);
            for version in &mut own.versions {
                version.resources.retain(|resource| {
                    !group
                        .versions
                        .iter()
                        .flat_map(|over| &over.resources)
                        .any(|over| over.resource == resource.resource)
                });
            }
            for version in group.versions {
                own.version(&version.version)
                    .resources
                    .extend(version.resources);
            }
            own.versions.retain(|version| !version.resources.is_empty());
        }
        self.groups.retain(|group| !group.versions.is_empty());
        self.storage_version_hashes
            .extend(over.storage_version_hashes);
        self.sort();
        self
    }

    fn add(&mut self, kind: &ServedKind) {
        if !kind.storage_version_hash.is_empty() {
            let key = (
                kind.gvr.group.clone(),
                kind.gvr.version.clone(),
                kind.gvr.resource.clone(),
            );
            self.storage_version_hashes
                .insert(key, kind.storage_version_hash.clone());
        }
        self.group(&kind.gvr.group)
            .version(&kind.gvr.version)
            .resources
            .push(resource_of(kind));
    }

    fn group(&mut self, name: &str) -> &mut ApiGroupDiscovery {
        let index = self
            .groups
            .iter()
            .position(|group| group.metadata.name == name);
        let index = index.unwrap_or_else(|| {
            self.groups.push(ApiGroupDiscovery {
                metadata: GroupMeta {
                    name: name.to_owned(),
                },
                versions: Vec::new(),
            });
            self.groups.len() - 1
        });
        &mut self.groups[index]
    }

    fn sort(&mut self) {
        self.groups.sort_by(|a, b| {
            let key = |group: &ApiGroupDiscovery| Reverse(group_priority(&group.metadata.name));
            key(a)
                .cmp(&key(b))
                .then_with(|| a.metadata.name.cmp(&b.metadata.name))
        });
        for group in &mut self.groups {
            group
                .versions
                .sort_by(|a, b| api::version::compare(&a.version, &b.version));
            for version in &mut group.versions {
                version
                    .resources
                    .sort_by(|a, b| a.resource.cmp(&b.resource));
            }
        }
    }
}

/// A version of a group that is made if it is not there.
trait Versions {
    fn version(&mut self, name: &str) -> &mut ApiVersionDiscovery;
}

impl Versions for ApiGroupDiscovery {
    fn version(&mut self, name: &str) -> &mut ApiVersionDiscovery {
        let index = self
            .versions
            .iter()
            .position(|version| version.version == name);
        let index = index.unwrap_or_else(|| {
            self.versions.push(ApiVersionDiscovery {
                version: name.to_owned(),
                resources: Vec::new(),
                freshness: CURRENT.to_owned(),
            });
            self.versions.len() - 1
        });
        &mut self.versions[index]
    }
}

fn resource_of(kind: &ServedKind) -> ApiResourceDiscovery {
    let subresources = kind
        .subresources
        .iter()
        .map(|subresource| ApiSubresourceDiscovery {
            subresource: subresource.name.clone(),
            response_kind: Some(response_kind_of(kind, &subresource.gvk)),
            verbs: subresource.verbs.clone(),
        })
        .collect();
    ApiResourceDiscovery {
        resource: kind.gvr.resource.clone(),
        response_kind: Some((&kind.gvk).into()),
        scope: if kind.namespaced {
            "Namespaced"
        } else {
            "Cluster"
        }
        .to_owned(),
        singular_resource: kind.singular.clone(),
        verbs: kind.verbs.clone(),
        short_names: kind.short_names.clone(),
        categories: kind.categories.clone(),
        subresources,
    }
}

/// Of a built-in kind, a subresource names group and version only where they are not those of the kind. Of a defined one it
/// always does.
///
/// Source: `apiserver/pkg/endpoints/installer.go` (`ConvertGroupVersionIntoToDiscovery`),
/// `apiextensions-apiserver/pkg/apiserver/customresource_discovery_controller.go`.
fn response_kind_of(kind: &ServedKind, subresource: &GroupVersionKind) -> ResponseKind {
    let mut response_kind = ResponseKind::from(subresource);
    let own = (&kind.gvk.group, &kind.gvk.version);
    if kind.source == KindSource::BuiltIn && (&subresource.group, &subresource.version) == own {
        (response_kind.group, response_kind.version) = (String::new(), String::new());
    }
    response_kind
}

/// The order of Kubernetes' own groups. kubectl resolves a short name that two groups have by it.
///
/// Source: `kubernetes/pkg/controlplane/apiserver/aggregator.go` (`DefaultGenericAPIServicePriorities`),
/// `cmd/kube-apiserver/app/aggregator.go`.
fn group_priority(group: &str) -> u32 {
    match group {
        "" => 18_000,
        "apps" => 17_800,
        "events.k8s.io" => 17_750,
        "authentication.k8s.io" => 17_700,
        "authorization.k8s.io" => 17_600,
        "autoscaling" => 17_500,
        "batch" => 17_400,
        "certificates.k8s.io" => 17_300,
        "networking.k8s.io" => 17_200,
        "policy" => 17_100,
        "rbac.authorization.k8s.io" => 17_000,
        "storage.k8s.io" => 16_800,
        "apiextensions.k8s.io" | "admissionregistration.k8s.io" => 16_700,
        "scheduling.k8s.io" => 16_600,
        "coordination.k8s.io" => 16_500,
        "node.k8s.io" => 16_300,
        "discovery.k8s.io" | "resource.k8s.io" => 16_200,
        "flowcontrol.apiserver.k8s.io" => 16_100,
        "internal.apiserver.k8s.io" | "storagemigration.k8s.io" => 16_000,
        _ => DEFINED_PRIORITY,
    }
}
