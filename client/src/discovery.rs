//! What a server serves: which kinds, under which resources, with which verbs.
//!
//! The aggregated form is two requests; where a server does not know it, every group and version is asked for.
//!
//! **Invariant:** a group-version that could not be read is listed as stale. That a kind is missing means something
//! only if its group-version is not stale.

use std::collections::{BTreeMap, BTreeSet};

use api::discovery::{
    AGGREGATED_V2, AGGREGATED_V2BETA1, ApiGroupDiscoveryList, ApiGroupList, ApiResourceList,
    ApiVersions, ResponseKind,
};
use api::{ClusterScope, GroupVersion, GroupVersionKind, GroupVersionResource};
use bytes::Bytes;
use serde::de::DeserializeOwned;

use crate::dynamic::{Dynamic, Path};
use crate::error::{BoundError, Error};

/// How many group-versions are asked for one by one. A cluster with 800 CRDs has some 370.
const VERSION_COUNT_MAX: usize = 2000;

/// The kinds of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kinds {
    /// What is served, by type.
    pub by_type: BTreeMap<GroupVersionKind, KindInfo>,
    /// The group-versions that are served, the preferred version of each group first, in the server's order.
    pub versions: Vec<GroupVersion>,
    /// The group-versions whose backend was not reached.
    pub stale: BTreeSet<GroupVersion>,
}

/// How a kind is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindInfo {
    /// The resource.
    pub gvr: GroupVersionResource,
    /// Whether objects have a namespace.
    pub namespaced: bool,
    /// The singular.
    pub singular: String,
    /// The verbs.
    pub verbs: Vec<String>,
    /// Other names on the command line.
    pub short_names: Vec<String>,
    /// Names for many resources at once.
    pub categories: Vec<String>,
    /// The subresources.
    pub subresources: Vec<String>,
}

// === impl Kinds ===

impl Kinds {
    /// Finds how a kind is served.
    pub fn kind(&self, gvk: &GroupVersionKind) -> Option<&KindInfo> {
        self.by_type.get(gvk)
    }

    /// Finds the type behind a resource.
    pub fn resource(&self, gvr: &GroupVersionResource) -> Option<(&GroupVersionKind, &KindInfo)> {
        self.by_type.iter().find(|(_, info)| info.gvr == *gvr)
    }

    /// Returns whether a group-version is served, reachable or not.
    pub fn serves(&self, group_version: &GroupVersion) -> bool {
        self.versions.contains(group_version)
    }

    fn take_aggregated(&mut self, list: ApiGroupDiscoveryList) {
        for group in list.items {
            for version in group.versions {
                let group_version =
                    GroupVersion::new(group.metadata.name.as_str(), version.version.as_str());
                if version.freshness == "Stale" {
                    self.stale.insert(group_version.clone());
                }
                for resource in version.resources {
                    let Some(kind) = resource.response_kind else {
                        continue;
                    };
                    let gvk = type_of(kind, &group_version);
                    let info = KindInfo {
                        gvr: group_version.with_resource(resource.resource),
                        namespaced: resource.scope == "Namespaced",
                        singular: resource.singular_resource,
                        verbs: resource.verbs,
                        short_names: resource.short_names,
                        categories: resource.categories,
                        subresources: resource
                            .subresources
                            .into_iter()
                            .map(|it| it.subresource)
                            .collect(),
                    };
                    self.insert(gvk, info);
                }
                self.versions.push(group_version);
            }
        }
    }

    fn take_resources(&mut self, group_version: &GroupVersion, list: ApiResourceList) {
        let mut subresources: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for resource in &list.resources {
            if let Some((parent, subresource)) = resource.name.split_once('/') {
                subresources
                    .entry(parent.to_owned())
                    .or_default()
                    .push(subresource.to_owned());
            }
        }
        for resource in list.resources {
            if resource.name.contains('/') {
                continue;
            }
            let kind = ResponseKind {
                group: resource.group,
                version: resource.version,
                kind: resource.kind,
            };
            let info = KindInfo {
                subresources: subresources.remove(&resource.name).unwrap_or_default(),
                gvr: group_version.with_resource(resource.name),
                namespaced: resource.namespaced,
                singular: resource.singular_name,
                verbs: resource.verbs,
                short_names: resource.short_names,
                categories: resource.categories,
            };
            self.insert(type_of(kind, group_version), info);
        }
    }

    /// Of two resources with one kind the one that can be written as a whole wins, as `bindings` and the like share
    /// kinds with others.
    fn insert(&mut self, gvk: GroupVersionKind, info: KindInfo) {
        let weight = |info: &KindInfo| info.verbs.len();
        match self.by_type.get(&gvk) {
            Some(known) if weight(known) >= weight(&info) => {}
            _ => {
                self.by_type.insert(gvk, info);
            }
        }
    }
}

/// A kind without a version is of the version that it is listed under.
fn type_of(kind: ResponseKind, listed: &GroupVersion) -> GroupVersionKind {
    if kind.version.is_empty() {
        listed.with_kind(kind.kind)
    } else {
        kind.into()
    }
}

/// Reads what is served at the root of a server, or in a logical cluster of the hub.
///
/// # Errors
/// Where `/api` or `/apis` cannot be read. A single group-version that cannot is stale instead.
pub async fn fetch(dynamic: &Dynamic, scope: Option<&ClusterScope>) -> Result<Kinds, Error> {
    let path = |word: &str| Path::below(scope).then("path", word);
    let accept = format!("{AGGREGATED_V2},{AGGREGATED_V2BETA1},application/json");
    let core = dynamic.raw_get_as(path("api")?, &accept).await?;
    let groups = dynamic.raw_get_as(path("apis")?, &accept).await?;
    let mut kinds = Kinds::default();
    if let (Ok(core), Ok(groups)) = (
        aggregated(dynamic, &core).await,
        aggregated(dynamic, &groups).await,
    ) {
        kinds.take_aggregated(core);
        kinds.take_aggregated(groups);
        return Ok(kinds);
    }
    let core = plain::<ApiVersions>(dynamic, &core, path("api")?).await?;
    let groups = plain::<ApiGroupList>(dynamic, &groups, path("apis")?).await?;
    kinds.versions.extend(
        core.versions
            .into_iter()
            .map(|version| GroupVersion::new("", version)),
    );
    for group in groups.groups {
        let preferred = group.preferred_version.version;
        let mut versions: Vec<String> = group.versions.into_iter().map(|it| it.version).collect();
        versions.sort_by_key(|version| *version != preferred);
        let name = group.name.as_str();
        kinds
            .versions
            .extend(versions.into_iter().map(|it| GroupVersion::new(name, it)));
    }
    if kinds.versions.len() > VERSION_COUNT_MAX {
        let count_max = VERSION_COUNT_MAX;
        return Err(BoundError::Versions { count_max }.into());
    }
    for group_version in kinds.versions.clone() {
        match resources(dynamic, scope, &group_version).await {
            Ok(list) => kinds.take_resources(&group_version, list),
            Err(error) => {
                tracing::debug!(group = %group_version, error = error.chain(), "group-version is stale");
                kinds.stale.insert(group_version);
            }
        }
    }
    Ok(kinds)
}

/// Reads the resources of one group-version, whose name is the server's word.
async fn resources(
    dynamic: &Dynamic,
    scope: Option<&ClusterScope>,
    version: &GroupVersion,
) -> Result<ApiResourceList, Error> {
    let path = Path::below(scope).version(version)?;
    let answered = dynamic.raw_get(path).await?;
    dynamic.client().budget().parse(&answered).await
}

async fn aggregated(dynamic: &Dynamic, bytes: &Bytes) -> Result<ApiGroupDiscoveryList, Error> {
    #[derive(serde::Deserialize)]
    struct Kind {
        kind: String,
    }
    let budget = dynamic.client().budget();
    let kind: Kind = budget.parse(bytes).await?;
    if kind.kind == "APIGroupDiscoveryList" {
        budget.parse(bytes).await
    } else {
        Err(Error::Decode(serde::de::Error::custom(format!(
            "a {} came",
            kind.kind
        ))))
    }
}

/// Reads the plain form; one of the two answers may have been the aggregated one.
async fn plain<T>(dynamic: &Dynamic, answered: &Bytes, path: Path) -> Result<T, Error>
where
    T: DeserializeOwned + Send + 'static,
{
    let budget = dynamic.client().budget();
    if aggregated(dynamic, answered).await.is_err() {
        return budget.parse(answered).await;
    }
    budget.parse(&dynamic.raw_get(path).await?).await
}

#[cfg(feature = "fuzzing")]
fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(bytes).map_err(Error::Decode)
}

/// Reads an answer in each form in which it may come; for fuzz targets.
#[cfg(feature = "fuzzing")]
pub(crate) fn read_any(bytes: &[u8]) {
    let mut kinds = Kinds::default();
    if let Ok(list) = decode::<ApiGroupDiscoveryList>(bytes) {
        kinds.take_aggregated(list);
    }
    if let Ok(list) = decode::<ApiResourceList>(bytes) {
        kinds.take_resources(&GroupVersion::new("a.io", "v1"), list);
    }
    drop(decode::<ApiVersions>(bytes));
    drop(decode::<ApiGroupList>(bytes));
    for (gvk, info) in &kinds.by_type {
        assert!(
            kinds.resource(&info.gvr).is_some(),
            "{gvk} is found by its resource"
        );
    }
}

#[cfg(test)]
mod tests;
