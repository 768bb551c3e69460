//! The Leases by which replicas share their work, in the namespace `kube-system` of root.
//!
//! | name | holder | written |
//! |---|---|---|
//! | `wheelhouse-replica-ID` | a replica | every second, while the replica takes part |
//! | `wheelhouse-controllers` | the replica that does what is done once for the fleet | when it changes hands |
//! | `wheelhouse-spoke-NAME` | the replica that looks after the spoke | when it changes hands |
//! | `wheelhouse-hub-controllers` | the process of the hub that runs the API server's controllers | every second |
//!
//! The second and third count only while their holder has a Lease of the first sort. `leaseTransitions` counts the hands.

use std::time::Duration;

use api::{GroupVersionResource, LogicalCluster};
use client::{
    Client, DeleteRequest, Dynamic, Endpoint, ListRequest, Patch, reflector, reflector::RawObject,
};
use serde::Deserialize;
use serde_json::{Value, json};

/// Where the Leases are.
const NAMESPACE: &str = "kube-system";
const REPLICA_PREFIX: &str = "wheelhouse-replica-";
const SPOKE_PREFIX: &str = "wheelhouse-spoke-";
const CONTROLLERS: &str = "wheelhouse-controllers";
/// Who runs the controllers of the API server, which are in its processes alone.
pub(super) const HUB_CONTROLLERS: &str = "wheelhouse-hub-controllers";

/// How many revisions an epoch of the hub's store has: a version is `epoch x 10^13 + n`.
const EPOCH_LENGTH: u64 = 10_u64.pow(13);

/// How long a call may take: less than a lease is good for, so that another attempt is left.
const DEADLINE: Duration = Duration::from_secs(2);

/// How a Lease writes its times: microseconds.
const MICRO_TIME: &str = "%Y-%m-%dT%H:%M:%S%.6fZ";

/// The spec of a Lease, as far as it is read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Record {
    holder_identity: Option<String>,
    lease_transitions: Option<u64>,
}

/// What a Lease is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// It says that a replica takes part.
    Replica,
    /// It says who looks after a logical cluster.
    Cluster(LogicalCluster),
}

/// A Lease as the hub has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) revision: u64,
    /// Empty where nobody has it.
    pub(super) holder: String,
    pub(super) transitions: u64,
}

/// Calls on Leases; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Leases {
    dynamic: Dynamic,
    endpoint: Endpoint,
}

// === impl Purpose ===

impl Purpose {
    /// Finds what a Lease of the namespace is for; `None` where it is somebody else's.
    pub(super) fn of(name: &str) -> Option<Self> {
        if name == CONTROLLERS {
            return Some(Self::Cluster(LogicalCluster::root()));
        }
        if name.starts_with(REPLICA_PREFIX) {
            return Some(Self::Replica);
        }
        let cluster = name.strip_prefix(SPOKE_PREFIX)?.parse().ok()?;
        Some(Self::Cluster(cluster))
    }
}

/// Names the Lease of a replica.
pub(super) fn name_of_replica(id: u64) -> String {
    format!("{REPLICA_PREFIX}{id:016x}")
}

/// Names the Lease of a logical cluster.
pub(super) fn name_of(cluster: &LogicalCluster) -> String {
    if cluster.is_root() {
        return CONTROLLERS.to_owned();
    }
    format!("{SPOKE_PREFIX}{cluster}")
}

// === impl Lease ===

impl Lease {
    /// Reads one as a watch delivers it; `None` where it has no version that can be compared.
    pub(super) fn of(object: &RawObject) -> Option<Self> {
        Self::of_value(&object.value().ok()?)
    }

    /// Returns the epoch of the store in which it was written: history was set back where it is another one.
    pub(super) const fn epoch(&self) -> u64 {
        self.revision / EPOCH_LENGTH
    }

    fn of_value(object: &Value) -> Option<Self> {
        let record = Record::deserialize(&object["spec"]).unwrap_or_default();
        Some(Self {
            name: api::meta::name(object).to_owned(),
            uid: api::meta::uid(object).to_owned(),
            revision: api::meta::resource_version(object).parse().ok()?,
            holder: record.holder_identity.unwrap_or_default(),
            transitions: record.lease_transitions.unwrap_or_default(),
        })
    }
}

// === impl Leases ===

impl Leases {
    pub(super) fn new(hub: kube::Client) -> Self {
        Self {
            dynamic: Dynamic::new(hub).with_deadline(DEADLINE),
            endpoint: Endpoint {
                scope: None,
                gvr: GroupVersionResource::new("coordination.k8s.io", "v1", "leases"),
                namespace: Some(NAMESPACE.to_owned()),
            },
        }
    }

    /// Names what a reflector reads.
    pub(super) fn source(&self) -> reflector::Config {
        reflector::Config {
            client: Client::clone(self.dynamic.client()),
            endpoint: self.endpoint.clone(),
            label_selector: None,
            field_selector: None,
            name: "hub/leases".to_owned(),
        }
    }

    /// Reads those of all replicas.
    pub(super) async fn replicas(&self) -> Result<Vec<Lease>, client::Error> {
        let listed = self
            .dynamic
            .list(&self.endpoint, &ListRequest::default())
            .await?;
        let leases = listed.items.iter().filter_map(Lease::of_value);
        let is_replica = |it: &Lease| Purpose::of(&it.name) == Some(Purpose::Replica);
        Ok(leases.filter(is_replica).collect())
    }

    /// Reads one.
    pub(super) async fn get(&self, name: &str) -> Result<Lease, client::Error> {
        self.dynamic
            .get(&self.endpoint, name)
            .await
            .and_then(|it| read(&it))
    }

    /// Makes one. Those of replicas say how long they are good for.
    pub(super) async fn create(
        &self,
        name: &str,
        holder: &str,
        duration: Option<Duration>,
    ) -> Result<Lease, client::Error> {
        let now = now();
        let mut lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"holderIdentity": holder, "acquireTime": now, "renewTime": now, "leaseTransitions": 0},
        });
        if let Some(duration) = duration {
            lease["spec"]["leaseDurationSeconds"] = json!(duration.as_secs());
        }
        let made = self.dynamic.create(&self.endpoint, &lease).await?;
        read(&made)
    }

    /// Says that its holder is there, if it is as it was.
    pub(super) async fn renew(&self, lease: &Lease) -> Result<Lease, client::Error> {
        self.change(lease, json!({"renewTime": now()})).await
    }

    /// Gives it into other hands, if it is as it was. Nobody has it where the holder is empty.
    pub(super) async fn hand(&self, lease: &Lease, holder: &str) -> Result<Lease, client::Error> {
        let now = now();
        let mut spec = json!({
            "holderIdentity": holder,
            "renewTime": now,
            "leaseTransitions": lease.transitions,
        });
        if !holder.is_empty() {
            spec["acquireTime"] = json!(now);
            spec["leaseDurationSeconds"] = Value::Null;
            spec["leaseTransitions"] = json!(lease.transitions.saturating_add(1));
        }
        self.change(lease, spec).await
    }

    async fn change(&self, lease: &Lease, spec: Value) -> Result<Lease, client::Error> {
        let patch = json!({
            "metadata": {"uid": lease.uid, "resourceVersion": lease.revision.to_string()},
            "spec": spec,
        });
        let changed = self
            .dynamic
            .patch(&self.endpoint, &lease.name, None, Patch::Merge(&patch));
        changed.await.and_then(|it| read(&it))
    }

    /// Removes one; whether it was still there makes no difference.
    pub(super) async fn remove(&self, lease: &Lease) -> Result<(), client::Error> {
        let request = DeleteRequest::of(&lease.uid);
        let removed = self
            .dynamic
            .delete(&self.endpoint, &lease.name, &request)
            .await;
        match removed {
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn read(lease: &Value) -> Result<Lease, client::Error> {
    Lease::of_value(lease).ok_or_else(|| {
        let version = api::meta::resource_version(lease);
        client::Error::Config(format!("a Lease has the version {version:?}"))
    })
}

fn now() -> String {
    jiff::Timestamp::now().strftime(MICRO_TIME).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_for_what_its_name_says() {
        let east: LogicalCluster = "east".parse().expect("a name");
        for cluster in [LogicalCluster::root(), east] {
            assert_eq!(
                Purpose::of(&name_of(&cluster)),
                Some(Purpose::Cluster(cluster))
            );
        }
        assert_eq!(Purpose::of(&name_of_replica(7)), Some(Purpose::Replica));
        assert_eq!(Purpose::of("kube-scheduler"), None);
    }
}
