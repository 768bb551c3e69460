//! Kubeconfigs: the one that a hub writes when it is ready, and one for a single logical cluster.

use std::{io::Write as _, path::Path};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::{args, connect, output, serve::Running};

/// Prints a kubeconfig for one logical cluster.
pub(crate) async fn run(arguments: args::Kubeconfig) -> Result<()> {
    let hub = connect::hub(&arguments.hub).await?;
    let cluster: api::LogicalCluster = arguments.name.parse().context("the logical cluster")?;
    if !cluster.is_root() {
        hub.require_spoke(cluster.as_str()).await?;
    }
    let config = hub.kubeconfig_of(&cluster);
    output::object(&config, args::Format::Yaml)
}

/// Writes the administrator's kubeconfig, complete and at once: user `admin`, a context for root
/// and one for each spoke that is known now.
pub(crate) fn publish(running: &Running, file: &Path) -> Result<()> {
    let text = running
        .hub
        .kubeconfig(&format!("https://{}", running.address));
    let folder = file
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    if let Some(folder) = folder {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let partial = file.with_extension("partial");
    let write = || apiserver::offline::create_own(&partial)?.write_all(text.as_bytes());
    write().with_context(|| partial.display().to_string())?;
    std::fs::rename(&partial, file).with_context(|| file.display().to_string())
}

/// Makes a kubeconfig with one context out of a cluster's and a user's part.
pub(crate) fn single(name: &str, cluster: &Value, user: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": "admin", "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "admin"}}],
    })
}
