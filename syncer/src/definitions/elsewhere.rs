//! How far a definition of root is in the spokes that other processes look after: the hub has it from them.

use api::{
    LogicalCluster, meta,
    wheelhouse::{Provider, Spoke, keys},
};
use serde_json::Value;

use super::wanted::covers;
use crate::{engine::Engine, resources, state::served::Served};

/// Names the spokes that answer, are looked after by others, and are to serve a definition that they do not serve yet. A
/// failure of the hub says nothing of a spoke.
pub(super) async fn waiting(engine: &Engine, served: &Served) -> Vec<String> {
    let mut waiting = Vec::new();
    if !engine.shares.are_shared() || !served.key.cluster.is_root() {
        return waiting;
    }
    for cluster in engine.spokes.names() {
        if engine.fleet.get(&cluster).is_some() {
            continue;
        }
        let Some(entry) = engine.spokes.get(&cluster) else {
            continue;
        };
        let Ok(spoke) = &entry.known.spoke else {
            continue;
        };
        let is_local = engine
            .definitions
            .claims
            .holder(&cluster, &served.resource());
        let is_for = served.is_for(&cluster, &entry.known.object.labels) && is_local.is_none();
        if is_for && answers(spoke) && !is_served(engine, &cluster, spoke, served).await {
            waiting.push(cluster.to_string());
        }
    }
    waiting
}

/// Whether a spoke answered when its Spoke was last written.
fn answers(spoke: &Spoke) -> bool {
    let conditions = spoke.status.iter().flat_map(|status| &status.conditions);
    let mut ready = conditions.filter(|it| it.type_ == keys::CONDITION_READY);
    spoke.metadata.deletion_timestamp.is_none() && ready.any(|it| it.status == meta::STATUS_TRUE)
}

/// Whether a logical cluster serves a kind as its definition has it now.
async fn is_served(
    engine: &Engine,
    cluster: &LogicalCluster,
    spoke: &Spoke,
    served: &Served,
) -> bool {
    let gvr = served.graph.gvr();
    let name = format!("{}.{}", gvr.resource, gvr.group);
    let is_embedded = spoke.spec.provider == Provider::Embedded;
    let resource = if is_embedded {
        resources::crds()
    } else {
        resources::served_resources()
    };
    let endpoint = Engine::hub_endpoint(cluster, &resource, "");
    let found = match engine.hub.get(&endpoint, &name).await {
        Ok(found) => found,
        Err(error) => return !error.is_not_found(),
    };
    let definition = served.definition.to_value();
    if is_embedded {
        return covers(&found["spec"], &definition["spec"]);
    }
    is_current(&found, &served.key.name, &definition["spec"])
}

/// Whether a ServedResource says that a definition's kind is served, and in which form.
fn is_current(record: &Value, definition: &str, crd: &Value) -> bool {
    record["spec"]["state"] != "Importing"
        && meta::label(record, api::kro::keys::LABEL_RGD_NAME) == Some(definition)
        && record["spec"]["crd"] == *crd
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_record_counts_once_all_is_imported_and_it_is_that_of_the_definition_as_it_is() {
        let crd = json!({"group": "kro.run"});
        let record = |name: &str, state: &str, crd: &Value| {
            json!({"metadata": {"labels": {"kro.run/resource-graph-definition-name": name}},
                "spec": {"state": state, "crd": crd}})
        };
        for (name, record, want) in [
            ("served", record("boxes", "Serving", &crd), true),
            ("importing", record("boxes", "Importing", &crd), false),
            ("another's", record("crates", "Serving", &crd), false),
            ("before", record("boxes", "Serving", &json!({})), false),
        ] {
            assert_eq!(is_current(&record, "boxes", &crd), want, "{name}");
        }
    }
}
