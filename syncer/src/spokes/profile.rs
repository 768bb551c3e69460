//! What the ClusterProfile of a spoke says.
//!
//! Source: KEP-4322, KEP-2149.

use api::{Condition, inventory, wheelhouse::keys};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

/// The access provider that leads through this hub.
const ACCESS_PROVIDER: &str = "wheelhouse";
/// How much of a message a profile has.
const MESSAGE_BYTES_MAX: usize = 1024;

/// Where the hub's spokes are published, and how they are reached through the hub.
#[derive(Debug, Clone)]
pub struct Publication {
    /// The namespace of root.
    pub namespace: String,
    /// The URL of the hub, without a path.
    pub server: String,
    /// The certificates by which clients know the hub, as PEM.
    pub certificate_authority: Vec<u8>,
    /// The server name that they ask for; that of the URL if none.
    pub server_name: Option<String>,
}

/// Returns the profile of a spoke, without its status.
pub(super) fn profile(hub_id: &str, publication: &Publication, spoke: &Value) -> Value {
    let (name, manager) = (api::meta::name(spoke), format!("wheelhouse-{hub_id}"));
    let mut profile = json!({
        "apiVersion": inventory::API_VERSION, "kind": inventory::KIND,
        "metadata": {"name": name, "namespace": publication.namespace,
            "labels": {keys::HUB: hub_id, inventory::LABEL_MANAGER: manager}},
        "spec": {"displayName": name, "clusterManager": {"name": manager}},
    });
    if let Some(id) = cluster_uid(spoke) {
        profile["metadata"]["labels"][inventory::LABEL_MEMBER_ID] = json!(id);
    }
    profile
}

/// Returns the ids that the cluster of a spoke may have, the better one first: that which it gives itself, and its uid. A cluster
/// may not give itself what looks like the uid of another one.
pub(super) fn ids(spoke: &Value) -> Vec<&str> {
    let Some(uid) = cluster_uid(spoke) else {
        return Vec::new();
    };
    let own = spoke["status"]["clusterID"].as_str();
    let own = own.filter(|it| !it.is_empty() && *it != uid && !is_uid(it));
    own.into_iter().chain([uid]).collect()
}

/// Whether a text has the form of a uid that Kubernetes makes. Source: RFC 9562.
fn is_uid(text: &str) -> bool {
    let lengths = text.split('-').map(str::len);
    let is_hex = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
    lengths.eq([8, 4, 4, 4, 12]) && text.bytes().all(is_hex)
}

/// Returns what identifies the cluster of a spoke; nothing while it may be another one's.
fn cluster_uid(spoke: &Value) -> Option<&str> {
    let uid = spoke["status"]["clusterUID"].as_str()?;
    let is_identified = condition(spoke, keys::CONDITION_IDENTIFIED)["status"] != "False";
    let is_value = !uid.is_empty() && api::validation::is_label_value(uid).is_empty();
    (is_identified && is_value).then_some(uid)
}

/// Returns the status of the profile of a spoke with an id. What has not changed keeps its times.
pub(super) fn status(
    publication: &Publication,
    spoke: &Value,
    id: Option<&str>,
    known: Option<&Value>,
    now: &str,
) -> Value {
    let known = known.map_or(&Value::Null, |profile| &profile["status"]);
    let mut conditions: Vec<Condition> =
        serde_json::from_value(known["conditions"].clone()).unwrap_or_default();
    let is_embedded = spoke["spec"]["provider"] == "Embedded";
    let healthy = if is_embedded {
        keys::CONDITION_READY
    } else {
        keys::CONDITION_REACHABLE
    };
    let joined = if is_embedded {
        keys::CONDITION_READY
    } else {
        keys::CONDITION_IDENTIFIED
    };
    for (type_, source) in [
        (inventory::CONDITION_HEALTHY, healthy),
        (inventory::CONDITION_JOINED, joined),
    ] {
        let condition = translated(type_, condition(spoke, source), source, now);
        api::meta::set_condition(&mut conditions, condition, now);
    }
    let name = api::meta::name(spoke);
    let mut cluster = json!({
        "server": format!("{}/clusters/{name}", publication.server),
        "certificate-authority-data": STANDARD.encode(&publication.certificate_authority),
    });
    if let Some(server_name) = &publication.server_name {
        cluster["tls-server-name"] = json!(server_name);
    }
    let mut status = json!({
        "conditions": conditions,
        "accessProviders": [{"name": ACCESS_PROVIDER, "cluster": cluster}],
    });
    if let Some(version) = spoke["status"]["version"]
        .as_str()
        .filter(|it| !it.is_empty())
    {
        status["version"] = json!({"kubernetes": version});
    }
    if let Some(id) = id {
        status["properties"] = json!([property(inventory::PROPERTY_CLUSTER_ID, id, known, now)]);
    }
    status
}

fn property(name: &str, value: &str, known: &Value, now: &str) -> Value {
    let mut before = known["properties"].as_array().into_iter().flatten();
    let same = before.find(|it| it["name"] == name && it["value"] == value);
    let observed = same.and_then(|it| it["lastObservedTime"].as_str());
    json!({"name": name, "value": value, "lastObservedTime": observed.unwrap_or(now)})
}

fn condition<'s>(spoke: &'s Value, type_: &str) -> &'s Value {
    let conditions = spoke["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions
        .find(|it| it["type"] == type_)
        .unwrap_or(&Value::Null)
}

/// Says what a condition of a Spoke says under another type.
fn translated(type_: &str, said: &Value, source: &str, now: &str) -> Condition {
    let text = |field: &str| said[field].as_str().filter(|it| !it.is_empty());
    let mut message = text("message").unwrap_or_default().to_owned();
    message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
    Condition {
        type_: type_.to_owned(),
        status: text("status").unwrap_or("Unknown").to_owned(),
        reason: text("reason").unwrap_or(source).to_owned(),
        message,
        observed_generation: None,
        last_transition_time: now.to_owned(),
    }
}

/// Whether all that is wanted is there.
pub(super) fn is_part(wanted: &Value, there: &Value) -> bool {
    match wanted.as_object() {
        Some(fields) => fields
            .iter()
            .all(|(name, value)| is_part(value, &there[name])),
        None => wanted == there,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publication() -> Publication {
        Publication {
            namespace: "fleet".to_owned(),
            server: "https://hub".to_owned(),
            certificate_authority: b"ca".to_vec(),
            server_name: None,
        }
    }

    fn spoke(identified: &str) -> Value {
        json!({"metadata": {"name": "east"}, "spec": {"provider": "Kubeconfig"}, "status": {
        "clusterUID": "u-1", "version": "v1.36.3", "lastHeartbeatTime": "2026-01-01T00:00:00Z",
        "conditions": [
            {"type": "Reachable", "status": "True", "reason": "Answers", "message": ""},
            {"type": "Identified", "status": identified, "reason": "R", "message": "m"},
        ]}})
    }

    #[test]
    fn a_profile_says_what_the_spoke_says_and_nothing_new_while_that_stays() {
        let (publication, spoke) = (publication(), spoke("True"));
        let made = profile("h", &publication, &spoke);
        assert_eq!(made["spec"]["clusterManager"]["name"], "wheelhouse-h");
        assert_eq!(
            made["metadata"]["labels"][inventory::LABEL_MANAGER],
            "wheelhouse-h"
        );
        assert_eq!(
            made["metadata"]["labels"][inventory::LABEL_MEMBER_ID],
            "u-1"
        );
        let first = status(
            &publication,
            &spoke,
            Some("u-1"),
            None,
            "2026-01-01T00:00:00Z",
        );
        assert_eq!(first["version"]["kubernetes"], "v1.36.3");
        let property = &first["properties"][0];
        assert_eq!(property["name"], "cluster.clusterset.k8s.io");
        assert_eq!(property["value"], "u-1");
        let provider = &first["accessProviders"][0];
        assert_eq!(provider["cluster"]["server"], "https://hub/clusters/east");
        let mut later = spoke;
        later["status"]["lastHeartbeatTime"] = json!("2026-01-01T01:00:00Z");
        let known = json!({"status": first});
        let now = "2026-01-01T01:00:00Z";
        let again = status(&publication, &later, Some("u-1"), Some(&known), now);
        assert_eq!(again, first, "a heartbeat is no news");
        let own = status(&publication, &later, Some("of-itself"), Some(&known), now);
        let want = json!({"name": inventory::PROPERTY_CLUSTER_ID, "value": "of-itself",
            "lastObservedTime": "2026-01-01T01:00:00Z"});
        assert_eq!(own["properties"][0], want);
    }

    #[test]
    fn a_cluster_gives_itself_an_id_that_is_no_uid_of_another() {
        let (own, other) = (
            "0b2f6f0e-7a0c-4f6e-9d0b-0f8f6f1d2c3b",
            "1b2f6f0e-7a0c-4f6e-9d0b-0f8f6f1d2c3b",
        );
        for (id, want) in [
            (json!(null), vec![own]),
            (json!(""), vec![own]),
            (json!("prod-east"), vec!["prod-east", own]),
            (json!(own), vec![own]),
            (json!(other), vec![own]),
        ] {
            let mut spoke = spoke("True");
            spoke["status"]["clusterUID"] = json!(own);
            spoke["status"]["clusterID"] = id.clone();
            assert_eq!(ids(&spoke), want, "{id}");
        }
        assert!(ids(&spoke("False")).is_empty(), "it may be another one");
    }

    #[test]
    fn a_spoke_that_may_be_another_cluster_has_no_id() {
        let (publication, spoke) = (publication(), spoke("False"));
        let made = profile("h", &publication, &spoke);
        assert!(made["metadata"]["labels"][inventory::LABEL_MEMBER_ID].is_null());
        let id = ids(&spoke).first().copied();
        let status = status(&publication, &spoke, id, None, "2026-01-01T00:00:00Z");
        assert!(status["properties"].is_null(), "{status}");
        let joined = &status["conditions"][1];
        assert_eq!(
            (&joined["type"], &joined["status"]),
            (&json!("Joined"), &json!("False"))
        );
    }
}
