//! What the hub has for a spoke: while there is something, its Spoke is not let go.
//!
//! The hub itself is asked, because a cache may not have been filled yet.

use std::sync::Arc;

use api::{GroupVersionResource, LogicalCluster};
use client::ListRequest;

use crate::{engine::Engine, resources, state::keys::text};

/// Counts what the hub has for a spoke.
pub(super) async fn count(
    engine: &Arc<Engine>,
    cluster: &LogicalCluster,
    is_embedded: bool,
) -> Result<usize, client::Error> {
    let left = engine.instances.of_cluster(cluster).len();
    if left == 0 && !is_embedded {
        return left_in_hub(engine, cluster).await;
    }
    Ok(left)
}

/// Counts what the hub has of a spoke's instances, or of their ledgers. After a start, what is not known yet is not absent.
async fn left_in_hub(
    engine: &Arc<Engine>,
    cluster: &LogicalCluster,
) -> Result<usize, client::Error> {
    let ledgers = Engine::hub_endpoint(cluster, &resources::inventories(), "");
    let records = Engine::hub_endpoint(cluster, &resources::served_resources(), "");
    let ledgers = engine.hub.list(&ledgers, &ListRequest::default()).await?;
    let records = engine.hub.list(&records, &ListRequest::default()).await?;
    let mut left = ledgers.items.len();
    for record in &records.items {
        let crd = &record["spec"]["crd"];
        let resource = text(crd, &["names", "plural"]);
        let versions = crd["versions"].as_array().into_iter().flatten();
        for version in versions.map(|version| text(version, &["name"])) {
            let gvr = GroupVersionResource::new(text(crd, &["group"]), version, resource);
            let endpoint = Engine::hub_endpoint(cluster, &gvr, "");
            match engine.hub.list(&endpoint, &ListRequest::default()).await {
                Ok(listed) => left = left.max(listed.items.len()),
                Err(error) if error.is_not_found() => {} // a version that is not served
                Err(error) => return Err(error),
            }
        }
    }
    Ok(left)
}
