//! How the hub connects to a spoke: which credential may be used for it, and which server it may be sent to.
//!
//! # Invariants
//! - A Secret is used for a spoke only if it is labelled for that spoke, is that of the cluster of this name in Cluster API,
//!   or is in the namespace that the operator set apart.
//! - A kubeconfig from a Secret runs no program, reads no file and names no proxy.
//! - What one spoke makes the hub hold is counted together, whichever part of the hub holds it.

use std::{collections::HashMap, fmt, path::PathBuf, sync::Arc};

use api::{
    LogicalCluster,
    wheelhouse::{
        SecretKeyReference,
        keys::{self, LABEL_SPOKE_SECRET as SECRET_LABEL},
    },
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use client::{
    Connection, CredentialSources, Network, Options,
    bounds::{Bounds, Budget},
};
use http::Uri;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    fault::Fault,
    found::{self, Head},
    inventory::AccessProviders,
    sightings::SourceSort,
};

/// The namespace whose Secrets any Spoke may name, unless the operator says otherwise.
pub const SECRETS_NAMESPACE: &str = "wheelhouse-system";

/// What the operator of a hub lets Spokes do.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The namespace of root whose Secrets any Spoke may name.
    pub secrets_namespace: String,
    /// The namespaces of root whose Secrets of Cluster API are clusters.
    pub cluster_api_namespaces: Vec<String>,
    /// Kubeconfig files, of which every context is a cluster.
    pub kubeconfig_files: Vec<PathBuf>,
    /// The namespaces of root whose ClusterProfiles are clusters.
    pub cluster_profile_namespaces: Vec<String>,
    /// The plug-ins that give credentials for clusters of ClusterProfiles.
    pub access_providers: AccessProviders,
    /// Which variables of the hub's environment credential plug-ins see, beside those that all see. A name may end in `*`.
    pub plugin_variables: Vec<String>,
    /// Which servers a credential may be sent to.
    pub servers: Servers,
    /// What each spoke may make the hub hold.
    pub bounds: Bounds,
}

/// Which servers a credential may be sent to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Servers {
    /// Those that prove who they are, over TLS.
    #[default]
    Verified,
    /// Also `http://` ones, and those whose certificate is not to be verified.
    Any,
}

/// Connects spokes; clones share the budgets.
#[derive(Clone, Debug, Default)]
pub struct Dialer {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    policy: Policy,
    network: Option<Network>,
    /// Guards the map. Budgets stay for as long as the process runs: a spoke that is removed and joined again goes on
    /// with what is still held of it.
    budgets: Mutex<HashMap<LogicalCluster, Arc<Budget>>>,
}

/// What a connection is made from: another one needs another connection.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    kubeconfig: String,
    /// Where it stands, for messages.
    place: String,
    /// When whoever issued it is to be asked for the next one.
    renew_at: Option<jiff::Timestamp>,
}

// === impl Policy ===

impl Default for Policy {
    fn default() -> Self {
        Self {
            secrets_namespace: SECRETS_NAMESPACE.to_owned(),
            cluster_api_namespaces: Vec::new(),
            kubeconfig_files: Vec::new(),
            cluster_profile_namespaces: Vec::new(),
            access_providers: AccessProviders::default(),
            plugin_variables: Vec::new(),
            servers: Servers::default(),
            bounds: Bounds::SPOKE,
        }
    }
}

impl Policy {
    /// Whether a Secret is that of a cluster of Cluster API with the name of a spoke: it is for no other one.
    fn is_of_cluster_api(&self, spoke: &LogicalCluster, secret: &Value) -> bool {
        let namespace = api::meta::namespace(secret);
        let head = Head {
            name: api::meta::name(secret),
            type_: secret["type"].as_str().unwrap_or_default(),
            runtime: None,
            cluster_name: api::meta::label(secret, keys::LABEL_CLUSTER_API_NAME),
        };
        let mut namespaces = self.cluster_api_namespaces.iter();
        namespaces.any(|it| it == namespace)
            && found::cluster_of(SourceSort::ClusterApi, &head)
                .is_some_and(|(name, _)| name == spoke.as_str())
    }
}

// === impl Dialer ===

impl Dialer {
    /// Returns a dialer that obeys a policy.
    pub fn new(policy: Policy) -> Self {
        Self::over(policy, None)
    }

    /// Makes a dialer whose connections go over a network other than the machine's, if one is given.
    pub fn over(policy: Policy, network: Option<Network>) -> Self {
        Self {
            shared: Arc::new(Shared {
                policy,
                network,
                budgets: Mutex::default(),
            }),
        }
    }

    /// Returns the policy.
    pub fn policy(&self) -> &Policy {
        &self.shared.policy
    }

    /// Returns what is held of a spoke, by all who hold something of it.
    pub fn budget(&self, spoke: &LogicalCluster) -> Arc<Budget> {
        let mut budgets = self.shared.budgets.lock();
        let budget = budgets
            .entry(spoke.clone())
            .or_insert_with(|| Arc::new(Budget::new(self.shared.policy.bounds)));
        Arc::clone(budget)
    }

    /// Takes the credential of a spoke from the Secret that it names; `secret` is `None` where that is not there.
    ///
    /// # Errors
    /// Whatever keeps this Secret from being used for this spoke.
    pub fn credential(
        &self,
        spoke: &LogicalCluster,
        reference: &SecretKeyReference,
        secret: Option<&Value>,
    ) -> Result<Credential, Fault> {
        let place = format!("{}/{}", reference.namespace, reference.name);
        let Some(secret) = secret else {
            return Err(Fault::SecretMissing { place });
        };
        let policy = self.policy();
        let label = secret["metadata"]["labels"][SECRET_LABEL].as_str();
        // The name that the hub answered with decides, not the one that was asked for.
        let namespace = api::meta::namespace(secret);
        let is_for_spoke = label == Some(spoke.as_str())
            || namespace == policy.secrets_namespace
            || policy.is_of_cluster_api(spoke, secret);
        if !is_for_spoke {
            return Err(Fault::SecretNotForSpoke {
                place,
                spoke: spoke.to_string(),
                secrets_namespace: policy.secrets_namespace.clone(),
            });
        }
        let key = reference.key.as_str();
        let kubeconfig = secret["data"][key]
            .as_str()
            .and_then(|text| STANDARD.decode(text).ok())
            .and_then(|bytes| String::from_utf8(bytes).ok());
        match kubeconfig {
            Some(kubeconfig) => {
                let place = format!("secret {place}");
                Ok(Credential::new(kubeconfig, place, None))
            }
            None => Err(Fault::KeyMissing {
                place,
                key: key.to_owned(),
            }),
        }
    }

    /// Makes a connection to a spoke. Nothing is dialled yet.
    ///
    /// # Errors
    /// [`Fault::Kubeconfig`] or [`Fault::Server`].
    pub async fn connect(
        &self,
        spoke: &LogicalCluster,
        credential: &Credential,
    ) -> Result<Connection, Fault> {
        let options = Options {
            sources: CredentialSources::Inline,
            budget: self.budget(spoke),
            network: self.shared.network.clone(),
            ..Options::default()
        };
        let place = || credential.place.clone();
        let connected = client::connect(&credential.kubeconfig, None, &options).await;
        let connection = connected.map_err(|error| Fault::Kubeconfig {
            place: place(),
            reason: error.chain(),
        })?;
        let policy = self.policy().servers;
        let reason = refusal(connection.server(), connection.is_verified(), policy);
        match reason {
            None => Ok(connection),
            Some(reason) => Err(Fault::Server {
                place: place(),
                reason,
            }),
        }
    }
}

/// Returns why a hub refuses a server, unless its operator has allowed any ([`Servers::Any`]).
pub fn caution(connection: &Connection) -> Option<&'static str> {
    let policy = Servers::Verified;
    refusal(connection.server(), connection.is_verified(), policy)
}

/// Returns why a credential must not be sent to a server.
///
/// Loopback and private addresses are let through: spokes live there. Link-local ones are not: what answers there gives
/// machines their own credentials.
fn refusal(server: &Uri, is_verified: bool, policy: Servers) -> Option<&'static str> {
    if server
        .authority()
        .is_some_and(|authority| authority.as_str().contains('@'))
    {
        return Some("the server's URL has a user in it");
    }
    let host = server.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.parse().is_ok_and(|address| is_link_local(&address)) {
        return Some("the server is at a link-local address");
    }
    if policy == Servers::Any {
        return None;
    }
    if server.scheme_str() != Some("https") {
        return Some(
            "the server's URL is not https, so that anyone on the way could read the credential; use https, or start the \
             hub with --allow-insecure-spokes",
        );
    }
    (!is_verified).then_some(
        "insecure-skip-tls-verify lets any server have the credential; use certificate-authority-data, or start the hub \
         with --allow-insecure-spokes",
    )
}

fn is_link_local(address: &std::net::IpAddr) -> bool {
    match address.to_canonical() {
        std::net::IpAddr::V4(address) => address.is_link_local() || address.is_unspecified(),
        std::net::IpAddr::V6(address) => {
            address.is_unicast_link_local() || address.is_unspecified()
        }
    }
}

// === impl Credential ===

impl Credential {
    /// Takes a kubeconfig whose credential stands in it.
    pub(crate) const fn new(
        kubeconfig: String,
        place: String,
        renew_at: Option<jiff::Timestamp>,
    ) -> Self {
        Self {
            kubeconfig,
            place,
            renew_at,
        }
    }

    /// Makes one of the cluster and the user of a kubeconfig.
    pub(crate) fn of_parts(
        cluster: &Value,
        user: &Value,
        place: String,
        renew_at: Option<jiff::Timestamp>,
    ) -> Self {
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "spoke",
            "clusters": [{"name": "spoke", "cluster": cluster}],
            "users": [{"name": "spoke", "user": user}],
            "contexts": [{"name": "spoke", "context": {"cluster": "spoke", "user": "spoke"}}],
        });
        Self::new(kubeconfig.to_string(), place, renew_at)
    }

    /// Returns when the next one is to be asked for.
    pub(crate) const fn renew_at(&self) -> Option<jiff::Timestamp> {
        self.renew_at
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential")
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kubeconfig(server: &str, cluster: &str) -> String {
        format!(
            "{{current-context: a, clusters: [{{name: a, cluster: {{server: '{server}'{cluster}}}}}], \
             users: [{{name: a, user: {{token: t}}}}], contexts: [{{name: a, context: {{cluster: a, user: a}}}}]}}"
        )
    }

    fn secret(namespace: &str, label: Option<&str>, kubeconfig: &str) -> Value {
        let mut secret = json!({
            "metadata": {"namespace": namespace, "name": "s"},
            "data": {"kubeconfig": STANDARD.encode(kubeconfig)},
        });
        if let Some(label) = label {
            secret["metadata"]["labels"] = json!({SECRET_LABEL: label});
        }
        secret
    }

    fn reference(namespace: &str) -> SecretKeyReference {
        SecretKeyReference {
            namespace: namespace.to_owned(),
            name: "s".to_owned(),
            key: "kubeconfig".to_owned(),
        }
    }

    #[test]
    fn a_secret_is_for_the_spoke_that_it_is_labelled_for() {
        let dialer = Dialer::default();
        let east: LogicalCluster = "east".parse().expect("a name");
        for (namespace, label, want) in [
            ("kube-system", Some("east"), true),
            ("kube-system", Some("west"), false),
            ("kube-system", None, false),
            (SECRETS_NAMESPACE, None, true),
            (SECRETS_NAMESPACE, Some("west"), true),
            ("capi", None, false),
        ] {
            let secret = secret(namespace, label, "k");
            let got = dialer.credential(&east, &reference(namespace), Some(&secret));
            assert_eq!(got.is_ok(), want, "{namespace} {label:?}: {got:?}");
        }
        let missing = dialer.credential(&east, &reference("a"), None);
        let missing = missing.expect_err("there is none").to_string();
        assert_eq!(
            missing,
            "secret a/s is missing: make it again, or give a credential with wheelhouse spoke add"
        );
    }

    #[test]
    fn a_secret_of_cluster_api_is_for_the_spoke_of_its_name_where_the_operator_says_so() {
        let dialer = Dialer::new(Policy {
            cluster_api_namespaces: vec!["capi".to_owned()],
            ..Policy::default()
        });
        for (namespace, spoke, type_, want) in [
            ("capi", "east", keys::CLUSTER_API_SECRET_TYPE, true),
            ("capi", "west", keys::CLUSTER_API_SECRET_TYPE, false),
            ("capi", "east", "Opaque", false),
            ("default", "east", keys::CLUSTER_API_SECRET_TYPE, false),
        ] {
            let mut secret = secret(namespace, None, "k");
            secret["metadata"]["name"] = json!("east-kubeconfig");
            secret["metadata"]["labels"] = json!({keys::LABEL_CLUSTER_API_NAME: "east"});
            secret["type"] = json!(type_);
            let spoke = spoke.parse().expect("a name");
            let got = dialer.credential(&spoke, &reference(namespace), Some(&secret));
            assert_eq!(got.is_ok(), want, "{namespace} {spoke} {type_}: {got:?}");
        }
    }

    #[tokio::test]
    async fn a_credential_goes_to_servers_that_prove_who_they_are() {
        let skip = ", insecure-skip-tls-verify: true";
        for (server, cluster, verified, any) in [
            ("https://192.0.2.1:6443", "", true, true),
            ("https://127.0.0.1:6443", "", true, true),
            ("http://192.0.2.1", "", false, true),
            ("https://192.0.2.1", skip, false, true),
            ("https://169.254.169.254", "", false, false),
            ("https://[fe80::1]:6443", "", false, false),
            ("https://[::ffff:169.254.169.254]", "", false, false),
            ("https://user@192.0.2.1", "", false, false),
        ] {
            let east: LogicalCluster = "east".parse().expect("a name");
            let secret = secret(SECRETS_NAMESPACE, None, &kubeconfig(server, cluster));
            for (servers, want) in [(Servers::Verified, verified), (Servers::Any, any)] {
                let dialer = Dialer::new(Policy {
                    servers,
                    ..Policy::default()
                });
                let reference = reference(SECRETS_NAMESPACE);
                let credential = dialer.credential(&east, &reference, Some(&secret));
                let credential = credential.expect("it may be used");
                let got = dialer.connect(&east, &credential).await;
                assert_eq!(got.is_ok(), want, "{server}{cluster} {servers:?}: {got:?}");
            }
        }
    }
}
