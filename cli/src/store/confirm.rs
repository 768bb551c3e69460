//! `wheelhouse store confirm-restore` and `finish-restore`: what a restored hub waits for.
//!
//! Both are plain writes of API objects: an annotation on Spokes, and the end of the ConfigMap that a
//! restore leaves in root. `kubectl` does the same.

use anyhow::{Context, Result, bail};
use api::wheelhouse::keys;
use client::{DeleteRequest, Endpoint, ListRequest, Patch};
use serde_json::{Value, json};

use super::args;
use crate::{connect, output};

/// Confirms spokes.
pub(super) async fn run(arguments: args::ConfirmRestore) -> Result<()> {
    let hub = connect::hub(&arguments.hub).await?;
    let Some(marker) = marker(&hub).await? else {
        return output::line("the hub was not restored, or it is finished: nothing to confirm");
    };
    let id = marker["data"][keys::RESTORE_KEY_ID]
        .as_str()
        .with_context(|| format!("configmap {} names no restore", keys::RESTORE_CONFIG_MAP))?;
    let names = if arguments.all {
        hub.spoke_names().await?
    } else {
        arguments.spokes
    };
    let value = format!("{id}/{}", arguments.unknown.as_str());
    let patch =
        json!({ "metadata": { "annotations": { (keys::ANNOTATION_CONFIRM_RESTORE): value } } });
    for name in names {
        hub.dynamic
            .patch(&spokes(), &name, None, Patch::Merge(&patch))
            .await
            .with_context(|| format!("spoke {name}"))?;
        output::line(&format!("spoke {name} confirmed"))?;
    }
    Ok(())
}

/// Ends the state after a restore.
pub(super) async fn finish(arguments: args::FinishRestore) -> Result<()> {
    let hub = connect::hub(&arguments.hub).await?;
    if marker(&hub).await?.is_none() {
        return output::line("the hub was not restored, or it is finished already");
    }
    let request = ListRequest::default();
    let listed = hub.dynamic.list(&spokes(), &request).await;
    let listed = listed.context("spokes")?;
    let waiting: Vec<&str> = listed
        .items
        .iter()
        .filter(|spoke| !is_settled(spoke))
        .map(api::meta::name)
        .collect();
    if !waiting.is_empty() {
        bail!(
            "these spokes are not confirmed, or their deletions are not done: {}",
            waiting.join(", ")
        );
    }
    let endpoint = config_maps();
    hub.dynamic
        .delete(
            &endpoint,
            keys::RESTORE_CONFIG_MAP,
            &DeleteRequest::default(),
        )
        .await
        .with_context(|| format!("configmap {}", keys::RESTORE_CONFIG_MAP))?;
    output::line("the restore is finished")
}

/// Whether a spoke says that it is done with the restore. An embedded one has nothing to say: its objects were restored
/// with the hub's.
fn is_settled(spoke: &Value) -> bool {
    if spoke["spec"]["provider"] == "Embedded" {
        return true;
    }
    let conditions = spoke["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|condition| {
        condition["type"] == keys::CONDITION_RESTORE_CONFIRMED
            && condition["status"] == "True"
            && condition["reason"] == "Settled"
    })
}

async fn marker(hub: &connect::HubConnection) -> Result<Option<Value>> {
    let found = hub
        .dynamic
        .get(&config_maps(), keys::RESTORE_CONFIG_MAP)
        .await;
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error).context(format!("configmap {}", keys::RESTORE_CONFIG_MAP)),
    }
}

fn config_maps() -> Endpoint {
    Endpoint {
        prefix: String::new(),
        gvr: api::GroupVersionResource::new("", "v1", "configmaps"),
        namespace: Some(keys::RESTORE_NAMESPACE.to_owned()),
    }
}

fn spokes() -> Endpoint {
    Endpoint {
        prefix: String::new(),
        gvr: connect::spokes(),
        namespace: None,
    }
}
