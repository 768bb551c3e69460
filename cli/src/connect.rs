//! The hub that a client command speaks to, found as kubectl finds its server.

mod files;

use std::path::{Path as FilePath, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use api::{GroupVersionResource, LogicalCluster, wheelhouse};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use clap::Args;
use client::{CredentialSources, Dynamic, Endpoint, ListRequest, Options, Path, PathError};
use serde_json::{Value, json};

pub(crate) use files::Kubeconfig;

use self::files::Parts;

/// The API that a hub serves, and a host that carries it.
const HUB_API: &str = "/apis/wheelhouse.dev/v1alpha1";
/// How to reach another server.
const ANOTHER: &str = "--kubeconfig, --context or --server name another one";

/// What a server answers as a table.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// Which hub, as kubectl is told it.
#[derive(Debug, Args)]
pub(crate) struct HubFlags {
    /// The kubeconfig of the hub; by default the files of $KUBECONFIG, else ~/.kube/config.
    #[arg(long, value_name = "F")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context in it; by default its current one.
    #[arg(long, value_name = "C")]
    pub(crate) context: Option<String>,
    /// The URL of the hub, in place of the context's.
    #[arg(long, short, value_name = "URL")]
    pub(crate) server: Option<String>,
}

/// A hub, as its kubeconfig reaches it.
pub(crate) struct HubConnection {
    pub(crate) dynamic: Dynamic,
    /// Whether the server is the hub itself, and not a host that carries its API.
    is_hub: bool,
    /// The server, and what names it.
    address: String,
    cluster: Value,
    user: Value,
}

/// A cluster and a credential for it, with nothing left in files.
pub(crate) struct Embedded {
    cluster: Value,
    user: Value,
}

/// The endpoint of Spokes.
pub(crate) fn spokes() -> GroupVersionResource {
    wheelhouse::Spoke::gvr()
}

/// All Spokes.
pub(crate) fn spokes_endpoint() -> Endpoint {
    Endpoint {
        scope: None,
        gvr: spokes(),
        namespace: None,
    }
}

/// Connects to the hub that the flags name.
pub(crate) async fn hub(flags: &HubFlags) -> Result<HubConnection> {
    let found = Kubeconfig::find(flags.kubeconfig.as_deref())?;
    let origin = found.origin();
    let context = flags.context.as_deref();
    let parts = found.parts(context).with_context(|| origin.to_owned())?;
    let Parts { mut cluster, user } = parts;
    let server = flags
        .server
        .clone()
        .or_else(|| cluster["server"].as_str().map(str::to_owned));
    let server = server.with_context(|| format!("{origin} names no server"))?;
    // A context of a spoke reaches the same hub.
    let root = server
        .split("/clusters/")
        .next()
        .unwrap_or(&server)
        .trim_end_matches('/');
    cluster["server"] = Value::from(root);
    let dynamic = dial(&cluster, &user)
        .await
        .with_context(|| origin.to_owned())?;
    let version = match dynamic.raw_get("/version").await {
        Err(error @ client::Error::Transport(_)) => bail!(
            "{root}, as {origin} names it: {}; is the hub running? {ANOTHER}",
            error.chain()
        ),
        // Whatever else it says, it is there: what the caller may do is for the calls that follow.
        version => version.unwrap_or_default(),
    };
    let version = String::from_utf8_lossy(&version).into_owned();
    let is_hub = version.contains(wheelhouse::HUB_VERSION);
    if !is_hub
        && let Err(error) = dynamic.raw_get(HUB_API).await
        && error.is_not_found()
    {
        bail!("{root}, as {origin} names it, is not a Wheelhouse hub; {ANOTHER}");
    }
    Ok(HubConnection {
        is_hub,
        address: format!("{root}, as {origin} names it"),
        dynamic,
        cluster,
        user,
    })
}

/// Connects to the cluster of a context, whatever it is.
pub(crate) async fn cluster(kubeconfig: &FilePath, context: Option<&str>) -> Result<Dynamic> {
    let found = Kubeconfig::read(kubeconfig)?;
    let of = || found.origin().to_owned();
    let Parts { cluster, user } = found.parts(context).with_context(of)?;
    dial(&cluster, &user).await.with_context(of)
}

/// Connects with the caller's own kubeconfig, read with the caller's own rights: files and plug-ins are theirs to name.
async fn dial(cluster: &Value, user: &Value) -> Result<Dynamic, client::Error> {
    let config = single("cluster", cluster, user).to_string();
    let options = Options {
        sources: CredentialSources::Anywhere,
        ..Options::default()
    };
    let connection = client::connect(&config, None, &options).await?;
    Ok(Dynamic::new(connection.client()))
}

/// Says of which Spoke a call was, and where there is none of that name, how to see those that there are.
pub(crate) fn about_spoke(name: &str, error: client::Error) -> anyhow::Error {
    if error.is_not_found() {
        return anyhow!("the hub has no spoke {name:?}; those that it has: wheelhouse spoke list");
    }
    anyhow::Error::new(error).context(format!("spoke {name}"))
}

/// Says of a call about all Spokes why it failed, and who can do something about it.
pub(crate) fn about_spokes(error: client::Error) -> anyhow::Error {
    let remedy = match error.status().map(|status| status.code) {
        Some(401) => "the hub does not know the credential of this kubeconfig, or not any more",
        Some(403) => {
            "an administrator grants it in root: kubectl create clusterrole see-spokes --verb=get,list,watch \
             --resource=spokes.wheelhouse.dev; kubectl create clusterrolebinding see-NAME --clusterrole=see-spokes --user=NAME"
        }
        _ => return anyhow::Error::new(error).context("spokes"),
    };
    anyhow!("spokes: {}; {remedy}", error.chain())
}

/// The path of all Spokes.
fn spokes_path() -> Result<Path, PathError> {
    Path::collection(&spokes_endpoint())
}

// === impl Embedded ===

impl Embedded {
    /// Reads the content of the files that a context names.
    ///
    /// # Errors
    /// A file that cannot be read, and a user who logs in by a plug-in.
    pub(crate) fn of(from: &Kubeconfig, context: Option<&str>) -> Result<Self> {
        let Parts {
            mut cluster,
            mut user,
        } = from.parts(context)?;
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
        Ok(Self { cluster, user })
    }

    /// Returns a kubeconfig with one context: what can be copied into a Secret.
    pub(crate) fn kubeconfig(&self) -> String {
        single("spoke", &self.cluster, &self.user).to_string()
    }

    /// Returns the URL of the server.
    pub(crate) fn server(&self) -> Result<&str> {
        self.cluster["server"]
            .as_str()
            .context("the cluster of this context has no server")
    }

    /// Returns the authorities that sign the server's certificate, as PEM; empty for those of the machine.
    pub(crate) fn authorities(&self) -> Result<Vec<u8>> {
        let field = "certificate-authority-data";
        let data = self.cluster[field].as_str().unwrap_or_default();
        STANDARD.decode(data).context(field)
    }

    /// Returns the server name that the hub is asked for, where it is not that of the URL.
    pub(crate) fn server_name(&self) -> Option<String> {
        self.cluster["tls-server-name"].as_str().map(str::to_owned)
    }
}

// === impl HubConnection ===

impl HubConnection {
    /// Makes a kubeconfig for one logical cluster, with this connection's credential.
    pub(crate) fn kubeconfig_of(&self, cluster: &LogicalCluster) -> Value {
        let mut part = self.cluster.clone();
        let server = part["server"].as_str().unwrap_or_default();
        part["server"] = Value::from(format!("{server}{}", cluster.path_prefix()));
        single(cluster.as_str(), &part, &self.user)
    }

    /// Returns how the server is reached, as a kubeconfig says it of a cluster, without files that are only here.
    pub(crate) fn reached(&self) -> Result<Value> {
        let mut cluster = self.cluster.clone();
        inline(&mut cluster, "certificate-authority")?;
        Ok(cluster)
    }

    /// Whether the server is the hub itself, and not a host that carries its API.
    pub(crate) const fn is_itself(&self) -> bool {
        self.is_hub
    }

    /// Fails where the server is not the hub itself: a host that carries the hub's API has Secrets of its own.
    pub(crate) fn require_itself(&self) -> Result<()> {
        if self.is_hub {
            return Ok(());
        }
        bail!(
            "{} is not a Wheelhouse hub itself, and no credential is written there; {ANOTHER}",
            self.address
        );
    }

    /// Fails where the hub knows no spoke of a name.
    pub(crate) async fn require_spoke(&self, name: &str) -> Result<()> {
        self.dynamic
            .get(&spokes_endpoint(), name)
            .await
            .map_err(|error| about_spoke(name, error))?;
        Ok(())
    }

    /// Reads all Spokes as a table.
    pub(crate) async fn spokes_table(&self) -> Result<Value> {
        let bytes = self
            .dynamic
            .raw_get_as(spokes_path()?, TABLE)
            .await
            .map_err(about_spokes)?;
        serde_json::from_slice(&bytes).context("the hub's answer is no JSON")
    }

    /// Reads all Spokes as a list.
    pub(crate) async fn spokes_list(&self) -> Result<Value> {
        let bytes = self
            .dynamic
            .raw_get(spokes_path()?)
            .await
            .map_err(about_spokes)?;
        serde_json::from_slice(&bytes).context("the hub's answer is no JSON")
    }

    /// Returns the names of all Spokes.
    pub(crate) async fn spoke_names(&self) -> Result<Vec<String>> {
        names(&self.dynamic).await
    }
}

async fn names(dynamic: &Dynamic) -> Result<Vec<String>> {
    let listed = dynamic
        .list(&spokes_endpoint(), &ListRequest::default())
        .await
        .map_err(about_spokes)?;
    Ok(listed
        .items
        .iter()
        .map(|spoke| api::meta::name(spoke).to_owned())
        .collect())
}

/// Puts the content of a file that a field names into the field for the content, unless that has
/// some: it counts then, as in kubectl.
fn inline(part: &mut Value, field: &str) -> Result<()> {
    let Some(file) = part[field].as_str().map(str::to_owned) else {
        return Ok(());
    };
    let data = format!("{field}-data");
    if part[&data].as_str().unwrap_or_default().is_empty() {
        let content = std::fs::read(&file).with_context(|| file.clone())?;
        part[&data] = Value::from(STANDARD.encode(content));
    }
    remove(part, field);
    Ok(())
}

fn remove(part: &mut Value, field: &str) {
    if let Some(fields) = part.as_object_mut() {
        fields.remove(field);
    }
}

/// Returns a kubeconfig with one context out of a cluster's and a user's part.
fn single(name: &str, cluster: &Value, user: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": "admin", "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "admin"}}],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = r"
current-context: a
clusters:
- {name: c, cluster: {server: 'https://c', certificate-authority: ca.crt}}
users:
- {name: a, user: {client-certificate: a.crt, client-key: a.key, client-key-data: b3duIGtleQ==}}
- {name: b, user: {exec: {command: login}}}
- {name: t, user: {tokenFile: token}}
contexts:
- {name: a, context: {cluster: c, user: a}}
- {name: b, context: {cluster: c, user: b}}
- {name: t, context: {cluster: c, user: t}}
";

    /// A kubeconfig with files beside it; the key's file is missing.
    fn kubeconfig() -> (tempfile::TempDir, Kubeconfig) {
        let folder = tempfile::tempdir().expect("a folder");
        let files = [
            ("config", CONFIG),
            ("ca.crt", "the ca"),
            ("a.crt", "a's certificate"),
            ("token", "t0ken\n"),
        ];
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).expect("a file");
        }
        let config = Kubeconfig::read(&folder.path().join("config")).expect("a kubeconfig");
        (folder, config)
    }

    fn embedded(config: &Kubeconfig, context: Option<&str>) -> Value {
        let found = Embedded::of(config, context).expect("a credential");
        serde_json::from_str(&found.kubeconfig()).expect("JSON")
    }

    #[test]
    fn the_files_beside_a_kubeconfig_are_put_into_the_credential() {
        let (_folder, config) = kubeconfig();
        let found = Embedded::of(&config, None).expect("a credential");
        assert_eq!(found.server().ok(), Some("https://c"));
        assert_eq!(found.authorities().ok(), Some(b"the ca".to_vec()));
        let credential = embedded(&config, None);
        let cluster = &credential["clusters"][0]["cluster"];
        let user = &credential["users"][0]["user"];
        assert_eq!(
            *cluster,
            serde_json::json!({"server": "https://c", "certificate-authority-data": "dGhlIGNh"}),
            "what the file holds"
        );
        assert_eq!(
            *user,
            serde_json::json!({
                "client-certificate-data": "YSdzIGNlcnRpZmljYXRl",
                "client-key-data": "b3duIGtleQ==",
            }),
            "what stands in the kubeconfig counts"
        );
        let user = &embedded(&config, Some("t"))["users"][0]["user"];
        assert_eq!(*user, serde_json::json!({"token": "t0ken"}), "the token");
    }

    #[test]
    fn a_credential_that_needs_a_plug_in_is_refused_with_what_to_do() {
        let (_folder, config) = kubeconfig();
        let refused = Embedded::of(&config, Some("b")).err().expect("exec");
        assert!(refused.to_string().contains("ServiceAccount"), "{refused}");
    }
}
