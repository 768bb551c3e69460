//! The hub that a client command speaks to, found as kubectl finds its server.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use api::{GroupVersionResource, LogicalCluster, wheelhouse};
use client::{CredentialSources, Dynamic, Endpoint, ListRequest, Options};
use serde_json::Value;

use crate::{args::HubFlags, kubeconfig};

/// What a server answers as a table.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// A hub, as its kubeconfig reaches it.
pub(crate) struct HubConnection {
    pub(crate) dynamic: Dynamic,
    cluster: Value,
    user: Value,
}

/// The endpoint of Spokes.
pub(crate) fn spokes() -> GroupVersionResource {
    let (group, version) = (wheelhouse::GROUP, wheelhouse::VERSION);
    GroupVersionResource::new(group, version, wheelhouse::SPOKE_RESOURCE)
}

/// Connects to the hub that the flags name.
pub(crate) async fn hub(flags: &HubFlags) -> Result<HubConnection> {
    let file = kubeconfig_file(flags)?;
    let text = std::fs::read_to_string(&file).with_context(|| {
        format!(
            "{}: pass --kubeconfig with the hub's kubeconfig",
            file.display()
        )
    })?;
    let (mut cluster, user) =
        parts(&text, flags.context.as_deref()).with_context(|| file.display().to_string())?;
    let server = flags
        .server
        .clone()
        .or_else(|| cluster["server"].as_str().map(str::to_owned));
    let server = server.with_context(|| format!("{} names no server", file.display()))?;
    // A context of a spoke reaches the same hub.
    let root = server
        .split("/clusters/")
        .next()
        .unwrap_or(&server)
        .trim_end_matches('/');
    cluster["server"] = Value::from(root);
    let config = kubeconfig::single("hub", &cluster, &user).to_string();
    // The caller's own kubeconfig, read with the caller's own rights: files and plug-ins are theirs
    // to name.
    let options = Options {
        sources: CredentialSources::Anywhere,
        ..Options::default()
    };
    let connection = client::connect(&config, None, &options)
        .await
        .with_context(|| file.display().to_string())?;
    Ok(HubConnection {
        dynamic: Dynamic::new(connection.kube()),
        cluster,
        user,
    })
}

/// Makes a kubeconfig whose credential stands in it, with one context: what can be copied into a
/// Secret.
pub(crate) fn embedded_credential(text: &str, context: Option<&str>) -> Result<String> {
    let (mut cluster, mut user) = parts(text, context)?;
    inline(&mut cluster, "certificate-authority")?;
    for field in ["client-certificate", "client-key"] {
        inline(&mut user, field)?;
    }
    if let Some(file) = user["tokenFile"].as_str().map(str::to_owned) {
        let token = std::fs::read_to_string(&file).with_context(|| file.clone())?;
        user["token"] = Value::from(token.trim());
        remove(&mut user, "tokenFile");
    }
    if !user["exec"].is_null() || !user["auth-provider"].is_null() {
        bail!(
            "the user of this context logs in by a plug-in; a hub needs a credential of its own: \
             make a ServiceAccount with a token and pass a kubeconfig that holds it"
        );
    }
    Ok(kubeconfig::single("spoke", &cluster, &user).to_string())
}

// === impl HubConnection ===

impl HubConnection {
    /// Makes a kubeconfig for one logical cluster, with this connection's credential.
    pub(crate) fn kubeconfig_of(&self, cluster: &LogicalCluster) -> Value {
        let mut part = self.cluster.clone();
        let server = part["server"].as_str().unwrap_or_default();
        part["server"] = Value::from(format!("{server}{}", cluster.path_prefix()));
        kubeconfig::single(cluster.as_str(), &part, &self.user)
    }

    /// Fails where the hub knows no spoke of a name.
    pub(crate) async fn require_spoke(&self, name: &str) -> Result<()> {
        let endpoint = Endpoint {
            prefix: String::new(),
            gvr: spokes(),
            namespace: None,
        };
        self.dynamic
            .get(&endpoint, name)
            .await
            .with_context(|| format!("spoke {name}"))?;
        Ok(())
    }

    /// Reads all Spokes as a table.
    pub(crate) async fn spokes_table(&self) -> Result<Value> {
        let path = format!("{}/{}", spokes().group_version().path(), spokes().resource);
        let bytes = self
            .dynamic
            .raw_get_as(&path, TABLE)
            .await
            .context("spokes")?;
        serde_json::from_slice(&bytes).context("the hub's answer is no JSON")
    }

    /// Reads all Spokes as a list.
    pub(crate) async fn spokes_list(&self) -> Result<Value> {
        let path = format!("{}/{}", spokes().group_version().path(), spokes().resource);
        let bytes = self.dynamic.raw_get(&path).await.context("spokes")?;
        serde_json::from_slice(&bytes).context("the hub's answer is no JSON")
    }

    /// Tells the names of all Spokes.
    pub(crate) async fn spoke_names(&self) -> Result<Vec<String>> {
        names(&self.dynamic).await
    }
}

async fn names(dynamic: &Dynamic) -> Result<Vec<String>> {
    let endpoint = Endpoint {
        prefix: String::new(),
        gvr: spokes(),
        namespace: None,
    };
    let listed = dynamic
        .list(&endpoint, &ListRequest::default())
        .await
        .context("spokes")?;
    Ok(listed
        .items
        .iter()
        .map(|spoke| api::meta::name(spoke).to_owned())
        .collect())
}

fn kubeconfig_file(flags: &HubFlags) -> Result<PathBuf> {
    if let Some(file) = &flags.kubeconfig {
        return Ok(file.clone());
    }
    let home = std::env::var_os("HOME").context("pass --kubeconfig with the hub's kubeconfig")?;
    Ok(PathBuf::from(home).join(".kube/config"))
}

/// Finds the cluster's and the user's part of a context.
fn parts(text: &str, context: Option<&str>) -> Result<(Value, Value)> {
    let config: Value = serde_saphyr::from_str(text).context("the kubeconfig is no YAML")?;
    let name = context
        .or_else(|| config["current-context"].as_str())
        .filter(|name| !name.is_empty())
        .context("the kubeconfig has no current context; name one")?;
    let find = |list: &str, name: &str, part: &str| {
        let entries = config[list].as_array().into_iter().flatten();
        let found = entries.into_iter().find(|entry| entry["name"] == name);
        found
            .map(|entry| entry[part].clone())
            .with_context(|| format!("no {part} {name:?}"))
    };
    let context = find("contexts", name, "context")?;
    let cluster = find(
        "clusters",
        context["cluster"].as_str().unwrap_or_default(),
        "cluster",
    )?;
    let user = find(
        "users",
        context["user"].as_str().unwrap_or_default(),
        "user",
    )?;
    Ok((cluster, user))
}

/// Puts the content of a file that a field names into the field for the content.
fn inline(part: &mut Value, field: &str) -> Result<()> {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let Some(file) = part[field].as_str().map(str::to_owned) else {
        return Ok(());
    };
    let content = std::fs::read(&file).with_context(|| file.clone())?;
    part[format!("{field}-data")] = Value::from(STANDARD.encode(content));
    remove(part, field);
    Ok(())
}

fn remove(part: &mut Value, field: &str) {
    if let Some(fields) = part.as_object_mut() {
        fields.remove(field);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = r"
current-context: a
clusters:
- {name: ca, cluster: {server: 'https://a'}}
- {name: cb, cluster: {server: 'https://b'}}
users:
- {name: ua, user: {token: ta}}
- {name: ub, user: {exec: {command: login}}}
contexts:
- {name: a, context: {cluster: ca, user: ua}}
- {name: b, context: {cluster: cb, user: ub}}
";

    #[test]
    fn the_current_context_is_taken_where_none_is_named() {
        let (cluster, user) = parts(CONFIG, None).expect("context a");
        assert_eq!(cluster["server"], "https://a", "the cluster of context a");
        assert_eq!(user["token"], "ta", "the user of context a");
    }

    #[test]
    fn a_credential_that_needs_a_plug_in_is_refused_with_what_to_do() {
        let refused = embedded_credential(CONFIG, Some("b")).expect_err("exec");
        assert!(refused.to_string().contains("ServiceAccount"), "{refused}");
    }
}
