//! The documents of discovery, ready to be sent.

use std::sync::OnceLock;

use api::discovery::{
    AGGREGATED_GROUP, AGGREGATED_V2, AGGREGATED_V2BETA1, ApiGroup, ApiGroupDiscovery,
    ApiGroupDiscoveryList, ApiGroupList, ApiResource, ApiResourceDiscovery, ApiResourceList,
    ApiVersionDiscovery, ApiVersions, EmptyMeta, ServerAddress,
};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use serde_json::Value;
use sha2::{Digest, Sha512};

use super::{Groups, Page};
use crate::protobuf;

const AGGREGATED_V2_MESSAGE: &str =
    "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// All documents of one set of groups.
#[derive(Debug)]
pub struct Documents {
    groups: Groups,
    /// `/api` and `/apis` in `v2` and in `v2beta1`, made when first asked for.
    aggregated: [OnceLock<Document>; 4],
}

/// A document that is sent as it is.
#[derive(Clone, Debug)]
pub(super) struct Document {
    pub(super) bytes: Bytes,
    pub(super) content_type: &'static str,
    /// In double quotes: SHA-512 of the bytes.
    pub(super) etag: HeaderValue,
    /// The document in protobuf, made when first asked for.
    message: OnceLock<Option<Bytes>>,
}

// === impl Documents ===

impl Documents {
    /// Takes the groups that the documents are about.
    pub fn new(groups: Groups) -> Self {
        Self {
            groups,
            aggregated: Default::default(),
        }
    }

    /// The groups that the documents are about.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    pub(super) fn aggregated(&self, core: bool, v2: bool) -> &Document {
        let [core_v2, core_v2beta1, groups_v2, groups_v2beta1] = &self.aggregated;
        let slot = match (core, v2) {
            (true, true) => core_v2,
            (true, false) => core_v2beta1,
            (false, true) => groups_v2,
            (false, false) => groups_v2beta1,
        };
        slot.get_or_init(|| self.make_aggregated(core, v2))
    }

    fn make_aggregated(&self, core: bool, v2: bool) -> Document {
        let items = self
            .groups
            .groups
            .iter()
            .filter(|group| group.metadata.name.is_empty() == core)
            .cloned()
            .collect();
        let version = if v2 { "v2" } else { "v2beta1" };
        let list = ApiGroupDiscoveryList {
            api_version: format!("{AGGREGATED_GROUP}/{version}"),
            metadata: EmptyMeta::default(),
            items,
        };
        Document::new(
            &list,
            if v2 {
                AGGREGATED_V2
            } else {
                AGGREGATED_V2BETA1
            },
        )
    }

    /// A document of the old form; `None` for a group or version that is not served.
    pub(super) fn legacy(&self, page: Page<'_>) -> Option<Value> {
        let value = match page {
            Page::Core => serde_json::to_value(self.core_versions()),
            Page::Groups => serde_json::to_value(ApiGroupList {
                api_version: "v1".to_owned(),
                groups: self.named_groups().map(group_of).collect(),
            }),
            Page::Group(name) => serde_json::to_value(group_of(self.group(name)?).alone()),
            Page::CoreVersion(version) => serde_json::to_value(self.resources("", version)?),
            Page::GroupVersion(group, version) => serde_json::to_value(
                self.resources(group, version)
                    .filter(|_| !group.is_empty())?,
            ),
        };
        Some(value.expect("discovery is made of texts and flags"))
    }

    fn core_versions(&self) -> ApiVersions {
        let core = self.group("");
        ApiVersions {
            versions: core
                .into_iter()
                .flat_map(|core| &core.versions)
                .map(|version| version.version.clone())
                .collect(),
            server_address_by_client_cidrs: vec![ServerAddress {
                client_cidr: "0.0.0.0/0".to_owned(),
                server_address: String::new(),
            }],
        }
    }

    fn named_groups(&self) -> impl Iterator<Item = &ApiGroupDiscovery> {
        self.groups
            .groups
            .iter()
            .filter(|group| !group.metadata.name.is_empty())
    }

    fn group(&self, name: &str) -> Option<&ApiGroupDiscovery> {
        self.groups
            .groups
            .iter()
            .find(|group| group.metadata.name == name)
    }

    fn resources(&self, group: &str, version: &str) -> Option<ApiResourceList> {
        let found = self
            .group(group)?
            .versions
            .iter()
            .find(|found| found.version == version)?;
        let group_version = if group.is_empty() {
            version.to_owned()
        } else {
            format!("{group}/{version}")
        };
        Some(ApiResourceList {
            api_version: "v1".to_owned(),
            group_version,
            resources: self.flat_resources(group, found),
        })
    }

    /// Each resource, and behind it its subresources.
    fn flat_resources(&self, group: &str, version: &ApiVersionDiscovery) -> Vec<ApiResource> {
        let mut flat = Vec::new();
        for resource in &version.resources {
            let key = (
                group.to_owned(),
                version.version.clone(),
                resource.resource.clone(),
            );
            let hash = self.groups.storage_version_hashes.get(&key);
            flat.push(plain_resource(
                resource,
                group,
                &version.version,
                hash.cloned(),
            ));
            flat.extend(plain_subresources(resource, group, &version.version));
        }
        flat
    }
}

fn group_of(group: &ApiGroupDiscovery) -> ApiGroup {
    let versions: Vec<&str> = group
        .versions
        .iter()
        .map(|version| version.version.as_str())
        .collect();
    ApiGroup::new(&group.metadata.name, &versions)
}

fn plain_resource(
    resource: &ApiResourceDiscovery,
    group: &str,
    version: &str,
    storage_version_hash: Option<String>,
) -> ApiResource {
    let kind = resource.response_kind.clone().unwrap_or_default();
    let (other_group, other_version) = elsewhere(&kind.group, &kind.version, group, version);
    ApiResource {
        name: resource.resource.clone(),
        singular_name: resource.singular_resource.clone(),
        namespaced: resource.scope == "Namespaced",
        group: other_group,
        version: other_version,
        kind: kind.kind,
        verbs: resource.verbs.clone(),
        short_names: resource.short_names.clone(),
        categories: resource.categories.clone(),
        storage_version_hash: storage_version_hash.unwrap_or_default(),
    }
}

fn plain_subresources<'a>(
    resource: &'a ApiResourceDiscovery,
    group: &'a str,
    version: &'a str,
) -> impl Iterator<Item = ApiResource> + 'a {
    resource.subresources.iter().map(move |subresource| {
        let kind = subresource.response_kind.clone().unwrap_or_default();
        let (other_group, other_version) = elsewhere(&kind.group, &kind.version, group, version);
        ApiResource {
            name: format!("{}/{}", resource.resource, subresource.subresource),
            namespaced: resource.scope == "Namespaced",
            group: other_group,
            version: other_version,
            kind: kind.kind,
            verbs: subresource.verbs.clone(),
            ..ApiResource::default()
        }
    })
}

/// Group and version of a kind, where it does not live in the list's own.
fn elsewhere(kind_group: &str, kind_version: &str, group: &str, version: &str) -> (String, String) {
    if (kind_group, kind_version) == (group, version) {
        return (String::new(), String::new());
    }
    (kind_group.to_owned(), kind_version.to_owned())
}

// === impl Document ===

impl Document {
    fn new(list: &ApiGroupDiscoveryList, content_type: &'static str) -> Self {
        let bytes = serde_json::to_vec(list).expect("discovery is made of texts and flags");
        let digest = Sha512::digest(&bytes);
        Self {
            bytes: bytes.into(),
            content_type,
            etag: HeaderValue::try_from(format!("\"{digest:X}\""))
                .expect("digits and letters in quotes"),
            message: OnceLock::new(),
        }
    }

    /// The document in protobuf and its media type; `None` for a version that has no message. Kubernetes gives it the ETag of the other.
    pub(super) fn message(&self) -> Option<(&Bytes, &'static str)> {
        let make = || {
            let value = serde_json::from_slice(&self.bytes).ok()?;
            protobuf::encode(&value).ok().map(Bytes::from)
        };
        let message = self.message.get_or_init(make).as_ref()?;
        Some((message, AGGREGATED_V2_MESSAGE))
    }

    /// Whether the client has it already.
    pub(super) fn matches(&self, headers: &HeaderMap) -> bool {
        headers
            .get(header::IF_NONE_MATCH)
            .is_some_and(|known| *known == self.etag)
    }
}
