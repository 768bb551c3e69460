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
    let id = id_of(&marker)?;
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
            .patch(
                &connect::spokes_endpoint(),
                &name,
                None,
                Patch::Merge(&patch),
            )
            .await
            .map_err(|error| connect::about_spoke(&name, error))?;
        output::line(&format!("spoke {name} confirmed"))?;
    }
    Ok(())
}

/// Ends the state after a restore.
pub(super) async fn finish(arguments: args::FinishRestore) -> Result<()> {
    let hub = connect::hub(&arguments.hub).await?;
    let Some(marker) = marker(&hub).await? else {
        return output::line("the hub was not restored, or it is finished already");
    };
    let id = id_of(&marker)?;
    let request = ListRequest::default();
    let listed = hub
        .dynamic
        .list(&connect::spokes_endpoint(), &request)
        .await;
    let listed = listed.context("spokes")?;
    let spokes = listed.items.iter();
    let waiting: Vec<String> = spokes
        .filter_map(|spoke| {
            Some(format!(
                "{}: {}",
                api::meta::name(spoke),
                unsettled(spoke, id)?
            ))
        })
        .collect();
    if !waiting.is_empty() {
        bail!(
            "the restore is not finished, these spokes are not settled:\n{}",
            waiting.join("\n")
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

/// Names a restore, as answers to it do.
fn id_of(marker: &Value) -> Result<&str> {
    marker["data"][keys::RESTORE_KEY_ID]
        .as_str()
        .with_context(|| format!("configmap {} names no restore", keys::RESTORE_CONFIG_MAP))
}

/// Returns why a spoke is not done with a restore; `None` where it is. An embedded one has nothing to say: its objects were
/// restored with the hub's. What a spoke said of an earlier restore, which the backup may hold, does not count.
fn unsettled<'a>(spoke: &'a Value, id: &str) -> Option<&'a str> {
    if spoke["spec"]["provider"] == "Embedded" {
        return None;
    }
    let answer = &spoke["metadata"]["annotations"][keys::ANNOTATION_CONFIRM_RESTORE];
    let answer = answer.as_str().and_then(|answer| answer.split_once('/'));
    if answer.is_none_or(|(of, _)| of != id) {
        return Some("it is not confirmed");
    }
    let mut conditions = spoke["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    let found = conditions.find(|condition| condition["type"] == keys::CONDITION_RESTORE_CONFIRMED);
    let Some(condition) = found else {
        return Some("it is not connected");
    };
    if condition["status"] == "True" && condition["reason"] == "Settled" {
        return None;
    }
    condition["message"]
        .as_str()
        .or(Some("it does not say why"))
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
        scope: None,
        gvr: api::GroupVersionResource::new("", "v1", "configmaps"),
        namespace: Some(keys::RESTORE_NAMESPACE.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spoke_is_settled_by_its_word_on_this_restore_alone() {
        let spoke = |answer: &str, condition: Value| {
            json!({
                "metadata": {"name": "east", "annotations": {(keys::ANNOTATION_CONFIRM_RESTORE): answer}},
                "status": {"conditions": [{"type": "Ready", "status": "True"}, condition]},
            })
        };
        let said = |status: &str, reason: &str| json!({"type": keys::CONDITION_RESTORE_CONFIRMED, "status": status, "reason": reason, "message": "why"});
        let embedded = json!({"spec": {"provider": "Embedded"}});
        for (name, spoke, want) in [
            ("settled", spoke("7/keep", said("True", "Settled")), None),
            (
                "settling",
                spoke("7/keep", said("True", "Settling")),
                Some("why"),
            ),
            (
                "not seen yet",
                spoke("7/keep", said("False", "AwaitingConfirmation")),
                Some("why"),
            ),
            (
                "an earlier restore's word",
                spoke("6/keep", said("True", "Settled")),
                Some("it is not confirmed"),
            ),
            (
                "never confirmed",
                spoke("", said("True", "Settled")),
                Some("it is not confirmed"),
            ),
            (
                "not connected",
                spoke("7/delete", json!({})),
                Some("it is not connected"),
            ),
            ("an embedded one", embedded, None),
        ] {
            assert_eq!(unsettled(&spoke, "7"), want, "{name}");
        }
    }
}
