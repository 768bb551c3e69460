//! Kubeconfigs: the one that a hub writes when it is ready, and one for a single logical cluster.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};
use apiserver::Hub;
use dialect::yaml::{self, Aliases};
use serde_json::Value;
use tasks::Tasks;
use tracing::{info, warn};

use crate::{args, connect, output};

/// What of a kubeconfig is its user's: which context is the current one.
const CURRENT: &str = "current-context";

/// Between two writes: each is of all clusters, of which thousands may join after one another.
const PAUSE: Duration = Duration::from_secs(1);

/// The administrator's kubeconfig in a file. It has a context for each cluster, also of those that come later, for as long as nobody else
/// changes more of the file than the current context.
pub(crate) struct Published {
    pub(crate) hub: Hub,
    pub(crate) server: String,
    pub(crate) file: PathBuf,
}

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

/// Whether two kubeconfigs say the same but for the current context, however they are written.
fn is_same(found: &str, written: &str) -> bool {
    let [found, written] = [found, written].map(content);
    found.is_some() && found == written
}

/// What a kubeconfig says, but for the current context. `preferences` are of no use any more, and kubectl leaves them out.
fn content(text: &str) -> Option<Value> {
    let mut config = yaml::document(text, Aliases::Few).ok()?;
    let fields = config.as_object_mut()?;
    for name in [CURRENT, "preferences"] {
        fields.remove(name);
    }
    for list in fields.values_mut().filter_map(Value::as_array_mut) {
        list.sort_by_cached_key(|entry| entry["name"].as_str().unwrap_or_default().to_owned());
    }
    Some(config)
}

/// Returns the new text with the current context of the one before, if that is still there.
fn keeping_current(text: String, found: &str) -> String {
    let current = |text: &str| {
        let config = yaml::document(text, Aliases::Few).ok()?;
        Some(config[CURRENT].as_str()?.to_owned())
    };
    let (Some(new), Some(chosen)) = (current(&text), current(found)) else {
        return text;
    };
    let is_there = content(&text).is_some_and(|config| {
        let contexts = config["contexts"].as_array();
        contexts.is_some_and(|list| list.iter().any(|it| it["name"] == chosen.as_str()))
    });
    if !is_there {
        return text;
    }
    text.replacen(
        &format!("{CURRENT}: {new}"),
        &format!("{CURRENT}: {chosen}"),
        1,
    )
}

// === impl Published ===

impl Published {
    /// Writes the file, and writes it anew as clusters come and go.
    ///
    /// # Errors
    /// It cannot be written now.
    pub(crate) fn start(self, tasks: &Tasks) -> Result<()> {
        let mut clusters = self.hub.registry().clusters();
        let mut written = self.hub.kubeconfig(&self.server);
        publish(&written, &self.file)?;
        let end = tasks.child_token();
        tasks.spawn("kubeconfig", async move {
            loop {
                let changed = tokio::select! {
                    biased;
                    () = end.cancelled() => return,
                    changed = clusters.changed() => changed,
                };
                if changed.is_err() {
                    return;
                }
                match self.write_again(written) {
                    Some(text) => written = text,
                    None => return,
                }
                tokio::select! {
                    biased;
                    () = end.cancelled() => return,
                    () = tokio::time::sleep(PAUSE) => {}
                }
            }
        });
        Ok(())
    }

    /// Writes the file where clusters have changed. Returns what the hub has said by now; `None` where the file is somebody else's.
    fn write_again(&self, written: String) -> Option<String> {
        let text = self.hub.kubeconfig(&self.server);
        if text == written {
            return Some(written);
        }
        let file = self.file.display();
        let found = std::fs::read_to_string(&self.file).ok();
        let Some(found) = found.filter(|found| is_same(found, &written)) else {
            info!(%file, "the kubeconfig was changed, and gets no contexts of new clusters any more");
            return None;
        };
        if let Err(error) = publish(&keeping_current(text.clone(), &found), &self.file) {
            warn!(%file, error = format!("{error:#}"), "cannot write the kubeconfig with the contexts of new clusters");
            return Some(written);
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITTEN: &str = "apiVersion: v1\nkind: Config\npreferences: {}\ncurrent-context: root\nclusters:\n- name: root\n  cluster:\n    \
                           server: \"https://a\"\ncontexts:\n- name: root\n  context: {cluster: root}\n- name: east\n  context: {cluster: root}\n";

    #[test]
    fn a_kubeconfig_is_the_hubs_for_as_long_as_only_its_current_context_is_changed() {
        let by_kubectl = "apiVersion: v1\nclusters:\n- cluster:\n    server: https://a\n  name: root\ncontexts:\n- context:\n    \
                          cluster: root\n  name: east\n- context:\n    cluster: root\n  name: root\ncurrent-context: east\nkind: Config\n";
        for (found, want) in [
            (WRITTEN.to_owned(), true),
            (by_kubectl.to_owned(), true),
            (by_kubectl.replace("https://a", "https://b"), false),
            (by_kubectl.replace("name: root", "name: mine"), false),
            (String::new(), false),
            ("{".to_owned(), false),
        ] {
            assert_eq!(is_same(&found, WRITTEN), want, "{found}");
        }
        let kept = keeping_current(WRITTEN.to_owned(), by_kubectl);
        assert_eq!(
            kept,
            WRITTEN.replace("current-context: root", "current-context: east")
        );
        let gone = by_kubectl.replace("current-context: east", "current-context: west");
        assert_eq!(
            keeping_current(WRITTEN.to_owned(), &gone),
            WRITTEN,
            "it is gone"
        );
    }
}
