//! What the hub has for a spoke: while there is something, its Spoke is not let go.
//!
//! The hub itself is asked, because a cache may not have been filled yet.

use std::{collections::BTreeSet, sync::Arc};

use api::{GroupVersionResource, LogicalCluster};
use client::{Endpoint, ListRequest};
use serde_json::Value;

use crate::{engine::Engine, resources, state::keys::text};

/// An instance as the hub has it.
#[derive(Debug)]
pub(super) struct Held {
    /// Where it is on the hub.
    pub(super) endpoint: Endpoint,
    pub(super) object: Value,
}

/// Counts what the hub has for a spoke.
pub(super) async fn count(
    engine: &Arc<Engine>,
    cluster: &LogicalCluster,
    is_embedded: bool,
) -> Result<usize, client::Error> {
    let left = engine.instances.of_cluster(cluster).len();
    match (left, is_embedded) {
        (0, false) => left_in_hub(engine, cluster).await,
        // After a start the ledgers are there before their instances are known.
        (0, true) => Ok(ledgers(engine, cluster).await?.len()),
        (left, _) => Ok(left),
    }
}

/// Counts what the hub has of a spoke's instances, or of their ledgers. After a start, what is not known yet is not absent.
pub(super) async fn left_in_hub(
    engine: &Arc<Engine>,
    cluster: &LogicalCluster,
) -> Result<usize, client::Error> {
    let ledgers = ledgers(engine, cluster).await?;
    let held = instances(engine, cluster).await?;
    Ok(ledgers.len().max(held.len()))
}

/// Lists the ledgers of a spoke's instances.
pub(super) async fn ledgers(
    engine: &Engine,
    cluster: &LogicalCluster,
) -> Result<Vec<Value>, client::Error> {
    let ledgers = Engine::hub_endpoint(cluster, &resources::inventories(), "");
    let ledgers = engine.hub.list(&ledgers, &ListRequest::default()).await?;
    Ok(ledgers.items)
}

/// Names the endpoints at which the hub has instances of a spoke.
pub(super) async fn endpoints(
    engine: &Engine,
    cluster: &LogicalCluster,
) -> Result<Vec<GroupVersionResource>, client::Error> {
    let records = Engine::hub_endpoint(cluster, &resources::served_resources(), "");
    let records = engine.hub.list(&records, &ListRequest::default()).await?;
    let mut endpoints = Vec::new();
    for record in &records.items {
        let crd = &record["spec"]["crd"];
        let resource = text(crd, &["names", "plural"]);
        let versions = crd["versions"].as_array().into_iter().flatten();
        for version in versions.map(|version| text(version, &["name"])) {
            let group = text(crd, &["group"]);
            endpoints.push(GroupVersionResource::new(group, version, resource));
        }
    }
    Ok(endpoints)
}

/// Lists what the hub has of a spoke's instances, each once.
pub(super) async fn instances(
    engine: &Engine,
    cluster: &LogicalCluster,
) -> Result<Vec<Held>, client::Error> {
    let (mut held, mut seen) = (Vec::new(), BTreeSet::new());
    for gvr in endpoints(engine, cluster).await? {
        let endpoint = Engine::hub_endpoint(cluster, &gvr, "");
        let listed = match engine.hub.list(&endpoint, &ListRequest::default()).await {
            Ok(listed) => listed.items,
            Err(error) if error.is_not_found() => continue, // a version that is not served
            Err(error) => return Err(error),
        };
        for object in listed {
            if seen.insert(api::meta::uid(&object).to_owned()) {
                let namespace = api::meta::namespace(&object);
                let endpoint = Engine::hub_endpoint(cluster, &gvr, namespace);
                held.push(Held { endpoint, object });
            }
        }
    }
    Ok(held)
}
