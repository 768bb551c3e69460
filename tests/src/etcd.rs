//! The real etcd, alone.

use std::{path::Path, process::Command};

use crate::assets;

/// Returns the command of an etcd that has no other member: where its data is, and its URLs for clients and for members.
pub fn command(data: &Path, client_url: &str, peer_url: &str) -> Command {
    let mut command = Command::new(assets::folder().join("etcd"));
    command
        .args(["--name", "only", "--log-level", "error", "--data-dir"])
        .arg(data)
        .args(["--listen-client-urls", client_url])
        .args(["--advertise-client-urls", client_url])
        .args(["--listen-peer-urls", peer_url])
        .args(["--initial-advertise-peer-urls", peer_url])
        .args(["--initial-cluster", &format!("only={peer_url}")]);
    command
}
