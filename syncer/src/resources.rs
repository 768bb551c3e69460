//! The endpoints that the syncer names itself.

use api::{GroupVersionResource, crd, inventory, kro, wheelhouse};

/// ResourceGraphDefinitions.
pub(crate) fn definitions() -> GroupVersionResource {
    GroupVersionResource::new(kro::GROUP, kro::VERSION, kro::RGD_RESOURCE)
}

/// GraphRevisions.
pub(crate) fn revisions() -> GroupVersionResource {
    GroupVersionResource::new(kro::INTERNAL_GROUP, kro::VERSION, kro::REVISION_RESOURCE)
}

/// CustomResourceDefinitions.
pub(crate) fn crds() -> GroupVersionResource {
    GroupVersionResource::new(crd::GROUP, crd::VERSION, crd::RESOURCE)
}

/// Spokes.
pub(crate) fn spokes() -> GroupVersionResource {
    wheelhouse::Spoke::gvr()
}

/// ClusterProfiles.
pub(crate) fn cluster_profiles() -> GroupVersionResource {
    GroupVersionResource::new(inventory::GROUP, inventory::VERSION, inventory::RESOURCE)
}

/// Inventories: ledgers of instances.
pub(crate) fn inventories() -> GroupVersionResource {
    let (group, version) = (wheelhouse::INTERNAL_GROUP, wheelhouse::VERSION);
    GroupVersionResource::new(group, version, wheelhouse::INVENTORY_RESOURCE)
}

/// ServedResources: what the hub serves at a spoke's path.
pub(crate) fn served_resources() -> GroupVersionResource {
    let (group, version) = (wheelhouse::INTERNAL_GROUP, wheelhouse::VERSION);
    GroupVersionResource::new(group, version, wheelhouse::SERVED_RESOURCE_RESOURCE)
}

/// KindClaims: which definition holds which kind.
pub(crate) fn kind_claims() -> GroupVersionResource {
    let (group, version) = (wheelhouse::INTERNAL_GROUP, wheelhouse::VERSION);
    GroupVersionResource::new(group, version, wheelhouse::KIND_CLAIM_RESOURCE)
}

/// Returns whether the hub keeps a kind for every logical cluster, also for those of real spokes: kro's own.
pub(crate) fn is_kept_by_hub(gvr: &GroupVersionResource) -> bool {
    gvr.group == kro::GROUP && gvr.resource == kro::RGD_RESOURCE
        || gvr.group == kro::INTERNAL_GROUP && gvr.resource == kro::REVISION_RESOURCE
}

/// A resource of the core group.
pub(crate) fn core(resource: &str) -> GroupVersionResource {
    GroupVersionResource::new("", "v1", resource)
}
