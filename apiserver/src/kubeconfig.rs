//! The kubeconfigs that a hub makes: the first administrator's, with one context per logical cluster, and that of syncers.

use std::{fmt::Write, time::Duration};

use api::{cluster::LogicalCluster, wheelhouse::keys::USER_SYNCER};
use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;

use crate::{
    hub::Hub,
    request::SYSTEM_MASTERS,
    tls::{self, IssuedCertificate},
};

/// Name of the administrator in the kubeconfig.
const ADMIN: &str = "admin";
/// Name of syncers in theirs.
const SYNCER: &str = "syncer";

/// Writes a kubeconfig for `server` (`https://host:port`), with a context per cluster, of which the first is the current
/// one. Each context and each cluster entry has the name of its logical cluster.
pub fn render(
    server: &str,
    pki: &tls::Pki,
    (user, certificate): (&str, &IssuedCertificate),
    clusters: &[LogicalCluster],
) -> String {
    let mut text = String::from("apiVersion: v1\nkind: Config\npreferences: {}\n");
    let current = clusters.first().map_or("", LogicalCluster::as_str);
    let authority = STANDARD.encode(pki.authority.certificate_pem());
    let server_name = pki
        .server_name()
        .map_or_else(String::new, |name| format!("\n    tls-server-name: {name}"));
    let server = server.trim_end_matches('/');
    // Writing to a string cannot fail. Every value is base64, a DNS label, or a URL in quotes.
    let _infallible = writeln!(text, "current-context: {current}\nclusters:");
    for cluster in clusters {
        let url = if cluster.is_root() {
            server.to_owned()
        } else {
            format!("{server}{}", cluster.path_prefix())
        };
        let _infallible = writeln!(
            text,
            "- name: {cluster}\n  cluster:\n    server: {url:?}\n    certificate-authority-data: {authority}{server_name}"
        );
    }
    text.push_str("contexts:\n");
    for cluster in clusters {
        let _infallible = writeln!(
            text,
            "- name: {cluster}\n  context:\n    cluster: {cluster}\n    user: {user}"
        );
    }
    let certificate_data = STANDARD.encode(&certificate.certificate_pem);
    let key_data = STANDARD.encode(&certificate.key_pem);
    let _infallible = writeln!(
        text,
        "users:\n- name: {user}\n  user:\n    client-certificate-data: {certificate_data}\n    client-key-data: {key_data}"
    );
    text
}

impl Hub {
    /// The kubeconfig of the first administrator, with contexts `root` and one per spoke that there is now.
    pub fn kubeconfig(&self, server: &str) -> String {
        let known = self.registry().clusters();
        let mut clusters = vec![LogicalCluster::root()];
        clusters.extend(
            known
                .borrow()
                .keys()
                .filter(|name| !name.is_root())
                .cloned(),
        );
        let pki = self.pki();
        render(server, pki, (ADMIN, &pki.admin), &clusters)
    }

    /// A kubeconfig for syncers in processes of their own, with a certificate that is made for it and good for `lifetime`.
    /// Whoever has it is the hub to the hub and to every spoke.
    ///
    /// # Errors
    /// [`tls::Error::Certificate`].
    pub fn syncer_kubeconfig(
        &self,
        server: &str,
        now: Timestamp,
        lifetime: Duration,
    ) -> Result<String, tls::Error> {
        let authority = &self.pki().authority;
        let masters = Some(SYSTEM_MASTERS);
        let certificate = authority.issue_client_for(USER_SYNCER, masters, now, lifetime)?;
        let root = [LogicalCluster::root()];
        Ok(render(server, self.pki(), (SYNCER, &certificate), &root))
    }
}
