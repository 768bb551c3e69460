//! `wheelhouse spoke`: join, list and remove spokes, over the hub's API.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result, bail};
use client::{Answer, DeleteRequest, Deleted, Dynamic, Endpoint, Force, Patch};
use serde_json::Value;

use crate::{
    args, connect,
    output::{self, Columns, Format},
};

/// Between two looks at a Spoke that is going.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// How long a cluster that is to be joined may take to say which one it is.
const CONTACT_PATIENCE: Duration = Duration::from_secs(10);

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
    if !arguments.skip_contact {
        let hint = "the cluster was not joined; with --skip-contact it is joined without being contacted from here";
        contact(&credential).await.context(hint)?;
    }
    let labels: BTreeMap<String, String> = arguments.labels.into_iter().collect();
    let (secret, spoke) = spokes::join_objects(name.as_str(), &credential, &labels);
    for object in [&secret, &spoke] {
        apply(&hub, object).await?;
    }
    match arguments.wait {
        Some(seconds) => ready(&hub, name.as_str(), Duration::from_secs(seconds)).await,
        None => output::line(&format!(
            "spoke {name} added; the hub connects to it now: wheelhouse spoke list"
        )),
    }
}

/// Asks a cluster what the hub will ask it first: which cluster it is.
async fn contact(credential: &str) -> Result<()> {
    let connection = client::connect(credential, None, &client::Options::default()).await?;
    let server = connection.server().to_string();
    let server = server.trim_end_matches('/');
    let namespaces = Endpoint {
        scope: None,
        gvr: api::GroupVersionResource::new("", "v1", "namespaces"),
        namespace: None,
    };
    let dynamic = Dynamic::new(connection.client()).with_deadline(CONTACT_PATIENCE);
    match dynamic.get(&namespaces, "kube-system").await {
        Ok(_) => Ok(()),
        Err(error) => match error.status() {
            Some(status) => bail!("{server} answered {}: {}", status.code, status.message),
            None => bail!("{server}: {}", error.chain()),
        },
    }
}

/// Waits until the hub has a spoke Ready.
async fn ready(hub: &connect::HubConnection, name: &str, patience: Duration) -> Result<()> {
    let endpoint = Endpoint {
        scope: None,
        gvr: connect::spokes(),
        namespace: None,
    };
    let end = tokio::time::Instant::now() + patience;
    loop {
        let spoke = hub.dynamic.get(&endpoint, name).await;
        let status = &spoke.with_context(|| format!("spoke {name}"))?["status"];
        let conditions = status["conditions"].as_array().into_iter().flatten();
        let mut ready = conditions.filter(|condition| condition["type"] == "Ready");
        if ready.any(|condition| condition["status"] == "True") {
            let version = status["version"].as_str().unwrap_or_default();
            return output::line(&format!("spoke {name} is ready ({version})"));
        }
        if tokio::time::Instant::now() >= end {
            let message = status["message"].as_str().unwrap_or_default();
            bail!("spoke {name} was added, but is not ready after {patience:?}: {message}");
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
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
        None => output::table(&hub.spokes_table().await?, Columns::With("MESSAGE")),
        Some(Format::Wide) => output::table(&hub.spokes_table().await?, Columns::All),
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
