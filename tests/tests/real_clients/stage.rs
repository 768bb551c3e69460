//! A hub with a real spoke `east` and an embedded cluster `inner`, and the three servers that a client is tried at.

use std::{io::Write as _, path::PathBuf};

use serde_json::Value;
use wheelhouse_tests::{Hub, Kubectl, Spoke, eventually};

/// An embedded cluster.
pub(crate) const INNER: &str = "apiVersion: wheelhouse.dev/v1alpha1\nkind: Spoke\n\
                     metadata: {name: inner}\nspec: {provider: Embedded}\n";

/// A hub, a spoke and an embedded cluster.
pub(crate) struct Stage {
    pub(crate) hub: Hub,
    pub(crate) east: Spoke,
}

/// One server that a client is tried at.
pub(crate) struct Server {
    /// What the trial calls it.
    pub(crate) name: &'static str,
    /// The kubeconfig whose user the client is.
    pub(crate) kubeconfig: PathBuf,
    /// The URL.
    pub(crate) url: String,
    /// kubectl at it.
    pub(crate) kubectl: Kubectl,
}

impl Stage {
    /// Starts all three.
    pub(crate) async fn set() -> Self {
        let (hub, east) = tokio::join!(Hub::start(), Spoke::start("east"));
        hub.join(&east).await;
        hub.root().apply(INNER).await;
        let account = ["get", "serviceaccount", "default", "-n", "default"];
        until(&hub.at("inner"), &account, "inner is served", |_| true).await;
        Self { hub, east }
    }

    /// The spoke itself, with no hub between.
    pub(crate) fn direct(&self) -> Server {
        Server {
            name: "directly",
            kubeconfig: self.east.kubeconfig().clone(),
            url: self.east.server().to_owned(),
            kubectl: self.east.kubectl(),
        }
    }

    /// The spoke's path on the hub.
    pub(crate) fn path(&self) -> Server {
        self.cluster("at the path", "east")
    }

    /// The embedded cluster.
    pub(crate) fn embedded(&self) -> Server {
        self.cluster("embedded", "inner")
    }

    /// Writes the kubeconfig that `wheelhouse kubeconfig` prints for a logical cluster.
    pub(crate) async fn kubeconfig(&self, cluster: &str) -> PathBuf {
        let printed = self.hub.wheelhouse(&["kubeconfig", cluster]).await;
        let file = self
            .hub
            .data()
            .with_file_name(format!("{cluster}.kubeconfig"));
        let text = printed.succeeded("wheelhouse kubeconfig");
        std::fs::write(&file, text).expect("a folder of the trial's own");
        file
    }

    fn cluster(&self, name: &'static str, cluster: &str) -> Server {
        Server {
            name,
            kubeconfig: self.hub.kubeconfig(),
            url: format!("{}/clusters/{cluster}", self.hub.server()),
            kubectl: self.hub.at(cluster),
        }
    }
}

/// Says how far a trial has come: some take minutes.
pub(crate) fn say(text: &str) {
    // Nobody is left to tell when standard error is gone.
    drop(writeln!(std::io::stderr(), "{text}"));
}

/// Waits until an object looks as it should.
pub(crate) async fn until(
    kubectl: &Kubectl,
    arguments: &[&str],
    what: &str,
    holds: impl Fn(&Value) -> bool,
) -> Value {
    eventually(what, || async {
        let object = kubectl.json(arguments).await?;
        if holds(&object) {
            Ok(object)
        } else {
            Err(object.to_string())
        }
    })
    .await
}

/// Waits until an object is gone.
pub(crate) async fn gone(kubectl: &Kubectl, arguments: &[&str]) {
    eventually(&format!("{arguments:?} is gone"), || async {
        let ran = kubectl.run(arguments).await;
        let gone = ran.code != 0 && ran.stderr.contains("not found");
        gone.then_some(()).ok_or(ran.stdout)
    })
    .await;
}
