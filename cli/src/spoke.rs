//! `wheelhouse spoke`: join, list and remove spokes, over the hub's API.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use client::{Answer, DeleteRequest, Deleted, Endpoint, Force, Patch};
use serde_json::Value;

use crate::{
    args, connect,
    output::{self, Format},
};

/// Between two looks at a Spoke that is going.
const LOOK_INTERVAL: std::time::Duration = std::time::Duration::from_millis(100);

/// Runs one of the commands.
pub(crate) async fn run(arguments: args::Spoke) -> Result<()> {
    match arguments {
        args::Spoke::Add(add) => join(add).await,
        args::Spoke::List(list) => show(list).await,
        args::Spoke::Remove(remove) => leave(remove).await,
    }
}

async fn join(arguments: args::SpokeAdd) -> Result<()> {
    let name: api::LogicalCluster = arguments.name.parse().context("the name of the spoke")?;
    if name.is_root() {
        bail!("root is the hub's own logical cluster; choose another name");
    }
    let from = connect::Kubeconfig::read(&arguments.from)?;
    let credential = connect::embedded_credential(&from, arguments.from_context.as_deref())
        .with_context(|| arguments.from.display().to_string())?;
    let hub = connect::hub(&arguments.hub).await?;
    let labels: BTreeMap<String, String> = arguments.labels.into_iter().collect();
    let (secret, spoke) = spokes::join_objects(name.as_str(), &credential, &labels);
    for object in [&secret, &spoke] {
        apply(&hub, object).await?;
    }
    output::line(&format!(
        "spoke {name} joined; watch it with: wheelhouse spoke list"
    ))
}

async fn apply(hub: &connect::HubConnection, object: &Value) -> Result<()> {
    let kind = api::meta::kind(object);
    let gvr = match kind {
        "Secret" => api::GroupVersionResource::new("", "v1", "secrets"),
        _ => connect::spokes(),
    };
    let namespace = api::meta::namespace(object);
    let endpoint = Endpoint {
        scope: None,
        gvr,
        namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
    };
    let patch = Patch::Apply {
        manager: api::wheelhouse::keys::MANAGER_CLI,
        force: Force::Yes,
        object,
        answer: Answer::Metadata,
    };
    let name = api::meta::name(object);
    hub.dynamic
        .patch(&endpoint, name, None, patch)
        .await
        .with_context(|| format!("{kind} {name}"))?;
    Ok(())
}

async fn show(arguments: args::SpokeList) -> Result<()> {
    let hub = connect::hub(&arguments.hub).await?;
    match arguments.output {
        None => output::table(&hub.spokes_table().await?, false),
        Some(Format::Wide) => output::table(&hub.spokes_table().await?, true),
        Some(Format::Name) => {
            for name in hub.spoke_names().await? {
                output::line(&format!("spoke.wheelhouse.dev/{name}"))?;
            }
            Ok(())
        }
        Some(format) => output::object(&hub.spokes_list().await?, format),
    }
}

async fn leave(arguments: args::SpokeRemove) -> Result<()> {
    let hub = connect::hub(&arguments.hub).await?;
    let endpoint = Endpoint {
        scope: None,
        gvr: connect::spokes(),
        namespace: None,
    };
    let name = &arguments.name;
    let deleted = hub
        .dynamic
        .delete(&endpoint, name, &DeleteRequest::default())
        .await;
    if let Deleted::Terminating(_) = deleted.with_context(|| format!("spoke {name}"))? {
        gone(&hub, &endpoint, name).await?;
    }
    output::line(&format!("spoke {name} removed"))
}

/// Waits until a Spoke that is being deleted is gone, or says what holds it.
async fn gone(hub: &connect::HubConnection, endpoint: &Endpoint, name: &str) -> Result<()> {
    loop {
        let spoke = match hub.dynamic.get(endpoint, name).await {
            Ok(spoke) => spoke,
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(error).with_context(|| format!("spoke {name}")),
        };
        let message = spoke["status"]["message"].as_str().unwrap_or_default();
        if message.starts_with("waiting: ") {
            bail!("spoke {name} goes later; {message}");
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}
