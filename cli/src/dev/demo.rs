//! The demo: a web application as one resource, and an instance of it at each spoke.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use api::{ClusterScope, GroupVersionResource};
use client::{Dynamic, Endpoint};
use dialect::yaml::{self, Aliases};
use serde_json::{Value, json};

use super::apply;

/// How long anything of the demo may take; it takes about a second.
const PATIENCE: Duration = Duration::from_mins(1);

/// Between two looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// The definition, as a user would write it.
const DEFINITION: &str = include_str!("demo.yaml");

/// Its name.
const NAME: &str = "webapp";

/// The endpoint of definitions.
fn definitions() -> GroupVersionResource {
    GroupVersionResource::new(api::kro::GROUP, api::kro::VERSION, api::kro::RGD_RESOURCE)
}

/// Whether the definition of the demo is there.
pub(super) async fn is_there(hub: &Dynamic) -> Result<bool> {
    match hub.get(&definition_endpoint(), NAME).await {
        Ok(_) => Ok(true),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error).context(NAME),
    }
}

/// Makes the definition, unless it is there, and an instance at each new spoke. At others, somebody may have changed the demo
/// since, or deleted it. With `becomes_ready` it waits until all are Ready.
pub(super) async fn make(hub: &Dynamic, new: &[String], becomes_ready: bool) -> Result<()> {
    if new.is_empty() {
        return Ok(());
    }
    if !is_there(hub).await? {
        let definition: Value =
            yaml::document(DEFINITION, Aliases::Trusted).context("the demo definition")?;
        apply(hub, &definition_endpoint(), &definition).await?;
        ready(hub, &definitions(), None, None, NAME).await?;
    }
    let gvr = GroupVersionResource::new("kro.run", "v1alpha1", "webapps");
    for spoke in new {
        let endpoint = Endpoint {
            scope: Some(spoke.parse()?),
            gvr: gvr.clone(),
            namespace: Some("default".to_owned()),
        };
        let instance = json!({
            "apiVersion": "kro.run/v1alpha1",
            "kind": "WebApp",
            "metadata": {"name": "demo", "namespace": "default"},
            "spec": {"message": format!("hello from {spoke}"), "replicas": 2},
        });
        apply(hub, &endpoint, &instance).await?;
    }
    for spoke in new.iter().filter(|_| becomes_ready) {
        let scope = Some(spoke.parse()?);
        ready(hub, &gvr, scope, Some("default"), "demo").await?;
    }
    Ok(())
}

fn definition_endpoint() -> Endpoint {
    Endpoint {
        scope: None,
        gvr: definitions(),
        namespace: None,
    }
}

/// Waits until an object's condition Ready is True.
pub(super) async fn ready(
    hub: &Dynamic,
    gvr: &GroupVersionResource,
    scope: Option<ClusterScope>,
    namespace: Option<&str>,
    name: &str,
) -> Result<()> {
    let endpoint = Endpoint {
        scope,
        gvr: gvr.clone(),
        namespace: namespace.map(str::to_owned),
    };
    let end = tokio::time::Instant::now() + PATIENCE;
    loop {
        let object = hub
            .get(&endpoint, name)
            .await
            .with_context(|| name.to_owned())?;
        let conditions = object["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten();
        let found = conditions
            .into_iter()
            .find(|condition| condition["type"] == "Ready");
        if found.is_some_and(|condition| condition["status"] == "True") {
            return Ok(());
        }
        if tokio::time::Instant::now() > end {
            bail!(
                "{} {name} is not Ready after {PATIENCE:?}: {}",
                gvr.resource,
                object["status"]
            );
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}
