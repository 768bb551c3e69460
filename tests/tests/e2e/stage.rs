//! What most stories begin with: a hub, its spokes, and the web application's definition.

use serde_json::Value;
use wheelhouse_tests::{Hub, Kubectl, Spoke, eventually, pods};

/// The web application's definition.
pub(crate) const WEBAPP: &str = include_str!("../../fixtures/webapp.yaml");

/// A hub with one spoke, `east`, that serves the web application.
pub(crate) struct Stage {
    pub(crate) hub: Hub,
    pub(crate) east: Spoke,
}

impl Stage {
    /// Starts both and joins the spoke.
    pub(crate) async fn bare() -> Self {
        let (hub, east) = tokio::join!(Hub::start(), Spoke::start("east"));
        hub.join(&east).await;
        Self { hub, east }
    }

    /// Starts both and applies the definition.
    pub(crate) async fn set() -> Self {
        let stage = Self::bare().await;
        define(&stage.hub.root()).await;
        stage
    }

    /// kubectl at the spoke's path on the hub.
    pub(crate) fn path(&self) -> Kubectl {
        self.hub.at("east")
    }

    /// kubectl at the spoke itself.
    pub(crate) fn direct(&self) -> Kubectl {
        self.east.kubectl()
    }

    /// Applies an instance and brings it to Ready.
    pub(crate) async fn bring_up(&self, name: &str, spec: &str) {
        self.path().apply(&instance(name, spec)).await;
        pods::make_ready(&self.direct(), name).await;
        let resource = format!("webapp/{name}");
        self.path()
            .must(&["wait", "--for=condition=Ready", &resource, "--timeout=30s"])
            .await;
    }
}

/// Applies the definition and waits until it is Ready.
pub(crate) async fn define(root: &Kubectl) {
    root.apply(WEBAPP).await;
    root.must(&[
        "wait",
        "--for=condition=Ready",
        "rgd/webapp",
        "--timeout=30s",
    ])
    .await;
}

/// Makes the manifest of a web application; `spec` is the inside of a flow mapping.
pub(crate) fn instance(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: kro.run/v1alpha1\nkind: WebApp\n\
         metadata: {{name: {name}, namespace: default}}\nspec: {{{spec}}}\n"
    )
}

/// Waits until an object is gone.
pub(crate) async fn gone(kubectl: &Kubectl, arguments: &[&str]) {
    eventually(&format!("{arguments:?} is gone"), || async {
        let ran = kubectl.run(arguments).await;
        if ran.code != 0 && ran.stderr.contains("not found") {
            return Ok(());
        }
        Err(format!("{}{}", ran.stdout, ran.stderr))
    })
    .await;
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
