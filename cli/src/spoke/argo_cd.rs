//! `wheelhouse spoke argo-cd`: the Secrets by which Argo CD knows the spokes as clusters.
//!
//! Source: Argo CD `docs/operator-manual/declarative-setup.md`, "Clusters"; `util/db/cluster.go`.

use std::{io::Read as _, path::Path};

use anyhow::{Context, Result, bail};
use api::wheelhouse::keys::{CONDITION_REACHABLE, REASONS_NOT_USED};
use serde_json::{Map, Value, json};

use crate::{
    args, connect,
    output::{self, Format},
};

/// What makes a Secret one of Argo CD's clusters.
const SECRET_TYPE: (&str, &str) = ("argocd.argoproj.io/secret-type", "cluster");
/// Who has made it: an ApplicationSet finds all of them by it.
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "wheelhouse");

/// Prints the Secrets, one for each spoke.
pub(super) async fn run(arguments: args::SpokeArgoCd) -> Result<()> {
    let token = token(&arguments.token_file)?;
    if let Some(url) = &arguments.hub_url {
        check(url)?;
    }
    let hub = connect::hub(&arguments.hub).await?;
    if !hub.is_itself() {
        output::note(
            "this kubeconfig reaches a host that carries the hub: Argo CD reaches the clusters through it, with a token of the host",
        );
    }
    let list = hub.spokes_list().await?;
    let spokes = list["items"].as_array().map_or(&[][..], Vec::as_slice);
    for name in &arguments.names {
        if !spokes.iter().any(|spoke| api::meta::name(spoke) == name) {
            hub.require_spoke(name).await?;
        }
    }
    let wanted = spokes.iter().filter(|spoke| {
        let name = api::meta::name(spoke);
        if arguments.names.is_empty() {
            return is_used(spoke);
        }
        arguments.names.iter().any(|it| it == name)
    });
    let parts = Parts {
        reached: hub.reached()?,
        is_hub: hub.is_itself(),
        url: arguments.hub_url.as_deref(),
        namespace: &arguments.namespace,
        token: &token,
    };
    let secrets = wanted.map(|spoke| parts.secret(spoke));
    let secrets = secrets.collect::<Result<Vec<Value>>>()?;
    let list = json!({"apiVersion": "v1", "kind": "List", "items": secrets});
    output::object(&list, Format::Yaml)
}

/// Reads a bearer token from a file, or from standard input where that is `-`.
fn token(file: &Path) -> Result<String> {
    let context = || format!("--token-file {}", file.display());
    let mut text = String::new();
    if file == Path::new("-") {
        let read = std::io::stdin().read_to_string(&mut text);
        read.with_context(context)?;
    } else {
        text = std::fs::read_to_string(file).with_context(context)?;
    }
    let token = text.trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        bail!(
            "--token-file {} has {} lines: want one line without spaces, the bearer token",
            file.display(),
            token.lines().count()
        );
    }
    Ok(token.to_owned())
}

/// Refuses what Argo CD would not reach a hub by.
fn check(url: &str) -> Result<()> {
    let parsed: Option<http::Uri> = url.parse().ok();
    let is_hub = parsed.is_some_and(|uri| {
        uri.scheme() == Some(&http::uri::Scheme::HTTPS)
            && uri.host().is_some_and(|host| !host.is_empty())
            && matches!(uri.path(), "" | "/")
            && uri.query().is_none()
    });
    if !is_hub {
        bail!(
            "--hub-url {url:?}: want the URL of the hub, or of the host that carries it, such as https://hub.example:6443"
        );
    }
    Ok(())
}

/// Whether the hub uses the cluster of a Spoke, or may come to. Says so where it does not.
fn is_used(spoke: &Value) -> bool {
    let conditions = spoke["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let refused = conditions.any(|it| {
        let reason = it["reason"].as_str().unwrap_or_default();
        it["type"] == CONDITION_REACHABLE && REASONS_NOT_USED.contains(&reason)
    });
    if refused {
        let name = api::meta::name(spoke);
        output::note(&format!(
            "spoke {name} is left out: the hub does not use it; name it to have its Secret all the same"
        ));
    }
    !refused
}

/// What all Secrets have in common.
struct Parts<'a> {
    /// How the hub, or the host that carries it, is reached.
    reached: Value,
    is_hub: bool,
    url: Option<&'a str>,
    namespace: &'a str,
    token: &'a str,
}

// === impl Parts ===

impl Parts<'_> {
    fn secret(&self, spoke: &Value) -> Result<Value> {
        let name = api::meta::name(spoke);
        let cluster: api::LogicalCluster = name.parse().context("the name of a spoke")?;
        let reached = &self.reached;
        let known = reached["server"].as_str().unwrap_or_default();
        let server = format!(
            "{}{}",
            self.url.unwrap_or(known).trim_end_matches('/'),
            path_of(&cluster, self.is_hub)
        );
        let mut tls = Map::new();
        let insecure = reached["insecure-skip-tls-verify"] == true;
        tls.insert("insecure".to_owned(), json!(insecure));
        for (field, from) in [
            ("caData", "certificate-authority-data"),
            ("serverName", "tls-server-name"),
        ] {
            if let Some(value) = reached[from].as_str() {
                tls.insert(field.to_owned(), json!(value));
            }
        }
        let credential = json!({"bearerToken": self.token, "tlsClientConfig": tls});
        Ok(json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": format!("wheelhouse-{name}"),
                "namespace": self.namespace,
                "labels": labels(spoke),
            },
            "type": "Opaque",
            "stringData": {"name": name, "server": server, "config": credential.to_string()},
        }))
    }
}

/// The path of a logical cluster, at the hub itself or at a host that carries it.
fn path_of(cluster: &api::LogicalCluster, is_hub: bool) -> String {
    if is_hub {
        return cluster.path_prefix();
    }
    let (group, version) = (api::wheelhouse::GROUP, api::wheelhouse::VERSION);
    let resource = api::wheelhouse::SPOKE_RESOURCE;
    format!("/apis/{group}/{version}/{resource}/{cluster}/proxy")
}

/// Returns the labels of a Secret: the Spoke's own, by which an ApplicationSet can select, and those that Argo CD and this command
/// find it by. What the hub itself writes on Spokes stays there.
fn labels(spoke: &Value) -> Map<String, Value> {
    let own = spoke["metadata"]["labels"].as_object();
    let own = own.into_iter().flatten().filter(|(key, _)| {
        let domain = key.split_once('/').map_or("", |(domain, _)| domain);
        let below = domain.strip_suffix(api::wheelhouse::GROUP);
        below.is_none_or(|it| !it.is_empty() && !it.ends_with('.'))
    });
    let mut labels: Map<String, Value> = own
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    for (key, value) in [SECRET_TYPE, MANAGED_BY] {
        labels.insert(key.to_owned(), json!(value));
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_a_spoke_are_selected_by_and_take_no_place_of_argo_cds() {
        let spoke = json!({"metadata": {"name": "east", "labels": {
            "tier": "prod",
            "wheelhouse.dev/hub": "1",
            "internal.wheelhouse.dev/x": "1",
            "notwheelhouse.dev/team": "a",
            "argocd.argoproj.io/secret-type": "repository",
        }}});
        let expected = json!({
            "tier": "prod",
            "notwheelhouse.dev/team": "a",
            "argocd.argoproj.io/secret-type": "cluster",
            "app.kubernetes.io/managed-by": "wheelhouse",
        });
        assert_eq!(Value::Object(labels(&spoke)), expected);
    }

    #[test]
    fn a_host_has_the_cluster_behind_its_spoke() {
        let east = "east".parse().expect("a name");
        assert_eq!(path_of(&east, true), "/clusters/east");
        assert_eq!(
            path_of(&east, false),
            "/apis/wheelhouse.dev/v1alpha1/spokes/east/proxy"
        );
    }

    #[test]
    fn the_url_of_a_hub_has_a_host_and_nothing_behind_it() {
        for good in [
            "https://hub.example",
            "https://hub.example:6443/",
            "https://[2001:db8::1]:6443",
        ] {
            assert!(check(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "hub.example",
            "http://hub.example",
            "https://",
            "https://hub.example/clusters/east",
            "https://hub.example/?a=b",
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_no_token_is_refused() {
        let refused = token(Path::new("/dev/null")).expect_err("it is empty");
        assert!(
            refused.to_string().contains("the bearer token"),
            "{refused}"
        );
    }
}
