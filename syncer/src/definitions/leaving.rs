//! The CRDs of a definition that is deleted, where kro's switch `--allow-crd-deletion` is on.
//!
//! # Invariants
//!
//! A CRD goes only if it is this very definition's, by the uid in its labels, and only after its last instance: those that
//! are there keep the definition, which says so. kro deletes the CRD at once; its instances then hang at their finalizers,
//! which nobody takes off any more. A cluster that does not answer keeps the CRD, as all do with the switch off.
//!
//! Source: kro v0.9.4 `pkg/controller/resourcegraphdefinition/controller_cleanup.go`.

use std::sync::Arc;

use api::{GroupVersionResource, crd::CustomResourceDefinition, kro::RgdSpec};
use client::{DeleteRequest, Dynamic, Endpoint, ListRequest};
use graph::{Owner, Ownership};
use serde_json::Value;
use tracing::info;

use crate::{
    engine::Engine,
    resources,
    state::{
        served::DefinitionKey,
        target::{Reach, Target, TargetSort},
    },
};

/// Deletes the CRDs of a definition that is deleted, wherever they may go. Returns what is waited for, if anything is.
pub(super) async fn delete_crds(
    engine: &Engine,
    key: &DefinitionKey,
    definition: &Value,
) -> Result<Option<String>, client::Error> {
    let Ok(spec) = RgdSpec::from_value(&definition["spec"]) else {
        return Ok(None); // it has never been served
    };
    let gvr = graph::instance_endpoint(&spec);
    let owner = Owner {
        name: key.name.clone(),
        uid: api::meta::uid(definition).to_owned(),
    };
    let mut waiting = Vec::new();
    for target in engine.fleet.all() {
        let is_for = target.cluster == key.cluster || key.cluster.is_root();
        let allowed = engine.switches.of(&target.cluster).allow_crd_deletion;
        if is_for
            && allowed
            && target.reach() == Reach::Reachable
            && delete_crd(engine, &target, &gvr, &owner).await? == Left::Instances
        {
            waiting.push(target.cluster.to_string());
        }
    }
    Ok((!waiting.is_empty()).then(|| {
        format!(
            "waiting for the instances in {} to be deleted before their CRD {}.{} is",
            waiting.join(", "),
            gvr.resource,
            gvr.group
        )
    }))
}

/// What is left of a kind in a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// Nothing that is the definition's.
    Nothing,
    /// Instances, and so the CRD.
    Instances,
}

async fn delete_crd(
    engine: &Engine,
    target: &Arc<Target>,
    gvr: &GroupVersionResource,
    owner: &Owner,
) -> Result<Left, client::Error> {
    let endpoint = target.endpoint(&resources::crds(), "");
    let name = format!("{}.{}", gvr.resource, gvr.group);
    let live = match target.dynamic.get(&endpoint, &name).await {
        Ok(live) => live,
        Err(error) if error.is_not_found() => return Ok(Left::Nothing),
        Err(error) => return Err(error),
    };
    let is_own = CustomResourceDefinition::from_value(&live)
        .is_ok_and(|live| graph::ownership(&live, owner) == Ownership::Own);
    if !is_own || api::meta::deletion_timestamp(&live).is_some() {
        return Ok(Left::Nothing);
    }
    // A cache may not have been filled yet, or not be any more.
    let here = Engine::hub_endpoint(&target.cluster, gvr, "");
    let there = target.endpoint(gvr, "");
    let is_used = has_objects(&engine.hub, &here).await?
        || target.sort == TargetSort::Mirrored && has_objects(&target.dynamic, &there).await?;
    if is_used {
        return Ok(Left::Instances);
    }
    let request = DeleteRequest {
        uid: Some(api::meta::uid(&live).to_owned()),
        propagation: None,
    };
    match target.dynamic.delete(&endpoint, &name, &request).await {
        Ok(_) => info!(cluster = %target.cluster, name, "deleted a CRD with its definition"),
        // Another one has its name by now.
        Err(error) if error.is_not_found() || error.is_conflict() => {}
        Err(error) => return Err(error),
    }
    Ok(Left::Nothing)
}

async fn has_objects(dynamic: &Dynamic, endpoint: &Endpoint) -> Result<bool, client::Error> {
    match dynamic
        .list_page(endpoint, &ListRequest::default(), 1, "")
        .await
    {
        Ok(page) => Ok(!page.items.is_empty()),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}
