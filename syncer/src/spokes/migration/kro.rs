//! Whether a kro runs in a spoke, and as whom.
//!
//! kro's chart makes a Deployment with the label `app.kubernetes.io/name: kro` and has it elect a leader. A kro that runs outside of the
//! cluster, without electing one, is seen by nobody.
//!
//! Source: kro v0.9.4 `helm/templates`, `cmd/controller/main.go`.

use api::{GroupVersionResource, meta, selector::Selector, wheelhouse::author::RunAs};
use client::{Endpoint, ListRequest};
use jiff::Timestamp;
use serde_json::Value;

use super::found::place;
use crate::state::target::Target;

/// The name of the Lease by which kro's replicas elect their leader.
const LEASE: &str = "controller.kro.run";

/// How old the last sign of a leader must be at least, whatever its Lease says: the spoke's clock may differ from the hub's.
const SILENCE_MIN: jiff::SignedDuration = jiff::SignedDuration::from_secs(60);

/// What is known of kro's own processes in a spoke.
#[derive(Debug, Default)]
pub(super) struct Kro {
    /// Why it is taken to run; empty where nothing says so.
    pub(super) running: Vec<String>,
    /// The ServiceAccounts that its Deployments name.
    pub(super) accounts: Vec<RunAs>,
}

/// Looks for kro's Deployments and its Lease.
pub(super) async fn look(target: &Target) -> Result<Kro, client::Error> {
    let mut kro = Kro::default();
    let named = Selector::parse("app.kubernetes.io/name=kro").ok();
    let deployments = list(target, ("apps", "deployments"), named).await?;
    for deployment in &deployments {
        kro.note_deployment(deployment);
    }
    let leases = list(target, ("coordination.k8s.io", "leases"), None).await?;
    let leases = leases.iter().filter(|lease| meta::name(lease) == LEASE);
    for lease in leases {
        if is_held(&lease["spec"], Timestamp::now()) {
            let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
            let holder: String = holder.chars().take(64).collect();
            let lease = place(lease);
            let reason = format!("{holder:?} holds the Lease {lease}");
            kro.running.push(reason);
        }
    }
    Ok(kro)
}

// === impl Kro ===

impl Kro {
    fn note_deployment(&mut self, deployment: &Value) {
        let wanted = deployment["spec"]["replicas"].as_i64().unwrap_or(1);
        let there = deployment["status"]["replicas"]
            .as_i64()
            .unwrap_or_default();
        if wanted > 0 || there > 0 {
            let (deployment, count) = (place(deployment), wanted.max(there));
            let reason = format!("Deployment {deployment} has {count} replicas");
            self.running.push(reason);
        }
        let name = &deployment["spec"]["template"]["spec"]["serviceAccountName"];
        let name = name.as_str().unwrap_or("default");
        let account = RunAs::parse(&format!("{}/{name}", meta::namespace(deployment)));
        self.accounts.extend(account.ok());
        self.accounts.sort();
        self.accounts.dedup();
    }
}

/// Whether somebody holds a Lease, or may by another clock.
fn is_held(spec: &Value, now: Timestamp) -> bool {
    if spec["holderIdentity"]
        .as_str()
        .unwrap_or_default()
        .is_empty()
    {
        return false;
    }
    let seconds = spec["leaseDurationSeconds"].as_i64().unwrap_or_default();
    let duration = jiff::SignedDuration::from_secs(seconds.clamp(0, 3600)).max(SILENCE_MIN);
    let renewed = spec["renewTime"].as_str().and_then(meta::parse_time);
    // One that nobody ever renewed is held by nobody.
    renewed.is_some_and(|renewed| now.duration_since(renewed) < duration)
}

async fn list(
    target: &Target,
    (group, resource): (&str, &str),
    label_selector: Option<Selector>,
) -> Result<Vec<Value>, client::Error> {
    let endpoint = Endpoint {
        scope: None,
        gvr: GroupVersionResource::new(group, "v1", resource),
        namespace: None,
    };
    let request = ListRequest {
        label_selector,
        ..ListRequest::default()
    };
    Ok(target.dynamic.list(&endpoint, &request).await?.items)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_lease_is_held_until_nobody_can_hold_it_by_any_clock() {
        let now: Timestamp = "2026-01-02T03:04:05Z".parse().expect("a time");
        let held = |holder: &str, renewed: &str, seconds: i64| json!({"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": seconds});
        for (name, spec, want) in [
            ("nobody", held("", "2026-01-02T03:04:04.000000Z", 15), false),
            (
                "renewed",
                held("a", "2026-01-02T03:04:04.000000Z", 15),
                true,
            ),
            (
                "its clock is ahead",
                held("a", "2026-01-02T03:09:04.000000Z", 15),
                true,
            ),
            (
                "silent for less than a minute",
                held("a", "2026-01-02T03:03:35.000000Z", 15),
                true,
            ),
            (
                "silent",
                held("a", "2026-01-02T03:02:05.000000Z", 15),
                false,
            ),
            (
                "silent, and long",
                held("a", "2026-01-02T03:02:05.000000Z", 300),
                true,
            ),
            ("never renewed", json!({"holderIdentity": "a"}), false),
        ] {
            assert_eq!(is_held(&spec, now), want, "{name}");
        }
    }

    #[test]
    fn a_deployment_names_who_kro_is() {
        let mut kro = Kro::default();
        let of = |replicas: i64| {
            json!({"metadata": {"name": "kro", "namespace": "kro-system"},
            "spec": {"replicas": replicas, "template": {"spec": {"serviceAccountName": "kro"}}}})
        };
        kro.note_deployment(&of(0));
        assert!(kro.running.is_empty(), "{kro:?}");
        kro.note_deployment(&of(2));
        assert_eq!(kro.running, ["Deployment kro-system/kro has 2 replicas"]);
        let account = RunAs::parse("kro-system/kro").expect("an account");
        assert_eq!(kro.accounts, [account]);
    }
}
