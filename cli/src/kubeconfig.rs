//! Kubeconfigs: the one that a hub writes when it is ready, and one for a single logical cluster.

use std::{io::Write as _, path::Path};

use anyhow::{Context, Result};

use crate::{args, connect, output};

/// Prints a kubeconfig for one logical cluster.
pub(crate) async fn run(arguments: args::Kubeconfig) -> Result<()> {
    let hub = connect::hub(&arguments.hub).await?;
    let cluster: api::LogicalCluster = arguments.name.parse().context("the logical cluster")?;
    if !cluster.is_root() {
        hub.require_spoke(cluster.as_str()).await?;
    }
    let config = hub.kubeconfig_of(&cluster);
    output::object(&config, output::Format::Yaml)
}

/// Writes a kubeconfig into a file, complete and at once.
pub(crate) fn publish(kubeconfig: &str, file: &Path) -> Result<()> {
    let folder = file
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    if let Some(folder) = folder {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let partial = file.with_extension("partial");
    let write = || apiserver::offline::create_own(&partial)?.write_all(kubeconfig.as_bytes());
    write().with_context(|| partial.display().to_string())?;
    std::fs::rename(&partial, file).with_context(|| file.display().to_string())
}
