//! The demo: a web application as one resource, and an instance of it at each spoke.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use api::{ClusterScope, GroupVersionResource};
use client::{Dynamic, Endpoint};
use dialect::yaml::{self, Aliases};
use serde_json::{Value, json};

use super::{apply as apply_in_root, apply_at};

/// How long anything of the demo may take; it takes about a second.
const PATIENCE: Duration = Duration::from_mins(1);

/// Between two looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// The definition, as a user would write it.
const DEFINITION: &str = include_str!("demo.yaml");

/// The endpoint of definitions.
pub(super) fn definitions() -> GroupVersionResource {
    GroupVersionResource::new(api::kro::GROUP, api::kro::VERSION, api::kro::RGD_RESOURCE)
}

/// Applies the definition and an instance at each spoke, and waits until all are Ready.
pub(super) async fn apply(hub: &Dynamic, spokes: &[String]) -> Result<()> {
    let definition: Value =
        yaml::document(DEFINITION, Aliases::Trusted).context("the demo definition")?;
    apply_in_root(hub, &definition).await?;
    ready(hub, &definitions(), None, None, "webapp").await?;
    let gvr = GroupVersionResource::new("kro.run", "v1alpha1", "webapps");
    for spoke in spokes {
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
        apply_at(hub, &endpoint, &instance).await?;
    }
    for spoke in spokes {
        let scope = Some(spoke.parse()?);
        ready(hub, &gvr, scope, Some("default"), "demo").await?;
    }
    Ok(())
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
