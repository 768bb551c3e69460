//! The project's own kinds and keys: Spokes, Inventories, ServedResources, KindClaims, DiscoveryRecords.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::crd::DefinitionSpec;
use crate::group::{GroupVersionKind, GroupVersionResource};
use crate::meta::{Condition, ObjectMeta};
use crate::object;
use crate::status::Status;
use crate::wire::{is_default, or_default};

pub mod author;
mod definitions;
mod discovery_record;
pub mod keys;
mod migration;
pub mod origin;
pub mod preview;

pub use definitions::definitions;
pub use discovery_record::{
    DISCOVERY_RECORD_KIND, DISCOVERY_RECORD_RESOURCE, DiscoveryRecord, DiscoveryRecordSpec,
};
pub use migration::{
    ChildCount, MigratedDefinition, Migration, MigrationState, MigrationStatus, MigrationTarget,
};

/// What the version of a hub has in it, behind that of Kubernetes.
pub const HUB_VERSION: &str = "+wheelhouse-";
/// The group of Spokes.
pub const GROUP: &str = "wheelhouse.dev";
/// The group of Inventories, ServedResources, KindClaims and DiscoveryRecords.
pub const INTERNAL_GROUP: &str = "internal.wheelhouse.dev";
/// The version of all of them.
pub const VERSION: &str = "v1alpha1";
/// The API version of Spokes.
pub const API_VERSION: &str = "wheelhouse.dev/v1alpha1";
/// The API version of Inventories and ServedResources.
pub const INTERNAL_API_VERSION: &str = "internal.wheelhouse.dev/v1alpha1";
/// The kind of Spokes.
pub const SPOKE_KIND: &str = "Spoke";
/// The plural of Spokes.
pub const SPOKE_RESOURCE: &str = "spokes";
/// Subresource of spokes that answers with a kubeconfig of the logical cluster.
pub const KUBECONFIG_SUBRESOURCE: &str = "kubeconfig";
/// Kind of what that is asked with, and answers.
pub const KUBECONFIG_REQUEST_KIND: &str = "KubeconfigRequest";
/// Subresource of spokes below which the logical cluster is served, to those who come through a host.
pub const PROXY_SUBRESOURCE: &str = "proxy";
/// The kind that discovery names for it, as for the proxies of Kubernetes. No object has it.
pub const PROXY_OPTIONS_KIND: &str = "SpokeProxyOptions";
/// The kind of Inventories.
pub const INVENTORY_KIND: &str = "Inventory";
/// The plural of Inventories.
pub const INVENTORY_RESOURCE: &str = "inventories";
/// The kind of ServedResources.
pub const SERVED_RESOURCE_KIND: &str = "ServedResource";
/// The plural of ServedResources.
pub const SERVED_RESOURCE_RESOURCE: &str = "servedresources";

/// The kind of KindClaims.
pub const KIND_CLAIM_KIND: &str = "KindClaim";
/// The plural of KindClaims.
pub const KIND_CLAIM_RESOURCE: &str = "kindclaims";

/// The highest limit that may be set for the items of a collection: each is an object in memory.
pub const COLLECTION_SIZE_BOUND: u32 = 100_000;
/// The highest limit that may be set for the dimensions of a collection.
pub const COLLECTION_DIMENSIONS_BOUND: u32 = 100;
/// The highest number of GraphRevisions that may be asked to be kept of one definition.
pub const REVISION_COUNT_BOUND: u32 = 10_000;

/// A real cluster that the hub syncs with; its name is that of its logical cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spoke {
    /// `wheelhouse.dev/v1alpha1`.
    pub api_version: String,
    /// `Spoke`.
    pub kind: String,
    /// Name, labels and the rest. Definitions select spokes by these labels.
    #[serde(deserialize_with = "or_default")]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(deserialize_with = "or_default")]
    pub spec: SpokeSpec,
    /// What is the case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<SpokeStatus>,
}

/// How a spoke is reached and what may be done there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SpokeSpec {
    /// What stands behind the logical cluster.
    pub provider: Provider,
    /// How it is reached; absent for an embedded one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<Connection>,
    /// Whether nothing is written there.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub suspended: bool,
    /// Whether the hub's own admin certificate is `system:masters` there.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub trust_masters: bool,
    /// What differs here from the switches that the hub was started with, which are kro's.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub kro: KroSwitches,
    /// Who is to run the definitions that are in the spoke itself; absent where nobody asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub migration: Option<Migration>,
}

/// kro's switches for one logical cluster, as far as they differ from the hub's own. The names are those of the values of
/// kro's Helm chart.
///
/// Source: kro v0.9.4 `helm/values.yaml`, `config`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KroSwitches {
    /// Feature gates by name.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub feature_gates: BTreeMap<String, bool>,
    /// Whether the CRD of a definition goes with it.
    #[serde(rename = "allowCRDDeletion", skip_serializing_if = "Option::is_none")]
    pub allow_crd_deletion: Option<bool>,
    /// Limits of definitions.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub rgd: RgdSwitches,
    /// The version of kro that labels and annotations name; empty for the hub's own choice.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub version: String,
}

/// Limits of definitions, in [`KroSwitches`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RgdSwitches {
    /// The most items that a collection may have.
    #[serde(rename = "maxCollectionSize", skip_serializing_if = "Option::is_none")]
    pub collection_size_max: Option<u32>,
    /// The most dimensions that a collection may have.
    #[serde(
        rename = "maxCollectionDimensionSize",
        skip_serializing_if = "Option::is_none"
    )]
    pub dimensions_max: Option<u32>,
    /// How many GraphRevisions are kept of a definition; 0 keeps all.
    #[serde(rename = "maxGraphRevisions", skip_serializing_if = "Option::is_none")]
    pub kept_revision_count: Option<u32>,
}

/// What stands behind a logical cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Provider {
    /// A cluster that a kubeconfig reaches.
    #[default]
    Kubeconfig,
    /// A cluster that a context of a kubeconfig file of the hub's operator reaches.
    KubeconfigFile,
    /// A cluster that a ClusterProfile describes, with a credential plug-in of the hub's operator.
    ClusterProfile,
    /// This project's own API server, without anything behind it.
    Embedded,
}

/// How a spoke is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Connection {
    /// The way.
    #[serde(rename = "type")]
    pub type_: ConnectionType,
    /// Where the kubeconfig is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretKeyReference>,
    /// The ClusterProfile that describes the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_profile_ref: Option<ClusterProfileReference>,
}

/// A ClusterProfile in root.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterProfileReference {
    /// Its namespace.
    #[serde(deserialize_with = "or_default")]
    pub namespace: String,
    /// Its name.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
}

/// The way to a spoke.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ConnectionType {
    /// The hub dials the spoke's API server.
    #[default]
    Direct,
}

/// A key of a Secret in root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SecretKeyReference {
    /// The namespace of the Secret.
    #[serde(deserialize_with = "or_default")]
    pub namespace: String,
    /// The name of the Secret.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// The key; `kubeconfig` by default.
    pub key: String,
}

/// What is the case with a spoke.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SpokeStatus {
    /// `Reachable`, `Synced`, `CRDsDistributed` and `Ready`.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
    /// The spoke's `gitVersion`.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub version: String,
    /// When the spoke was last heard of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_time: Option<String>,
    /// The uid of the spoke's `kube-system`, which identifies it.
    #[serde(
        rename = "clusterUID",
        skip_serializing_if = "is_default",
        deserialize_with = "or_default"
    )]
    pub cluster_uid: String,
    /// The id that it gives itself (`cluster.clusterset.k8s.io`).
    #[serde(
        rename = "clusterID",
        skip_serializing_if = "is_default",
        deserialize_with = "or_default"
    )]
    pub cluster_id: String,
    /// Whether requests to it pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub circuit: Option<Circuit>,
    /// The latest revision of its store that was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store_revision: Option<StoreRevision>,
    /// How much was to be done for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueDepth>,
    /// How many instances there are, by state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instances: Option<InstanceCounts>,
    /// How a migration from or to a kro of the spoke is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub migration: Option<MigrationStatus>,
    /// Who looks after it, by the name that is in its Lease; empty where one process looks after all spokes.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub syncer: String,
    /// What is wrong, in one sentence; empty while nothing is.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub message: String,
}

/// Whether requests to a spoke pass, as the replica that leads sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Circuit {
    /// `Closed`, `Open` or `HalfOpen`.
    #[serde(deserialize_with = "or_default")]
    pub state: String,
    /// Since when it is not closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// When the spoke is tried next, where that is not being done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_probe_time: Option<String>,
}

/// How far the store of a spoke was seen to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoreRevision {
    /// The revision.
    #[serde(deserialize_with = "or_default")]
    pub revision: String,
    /// When it was seen.
    #[serde(deserialize_with = "or_default")]
    pub time: String,
}

/// How many instances of a spoke are to be reconciled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueDepth {
    /// Those that are worked on or wait for it.
    pub ready: u64,
    /// Those that are looked at again later.
    pub later: u64,
}

/// How many instances a spoke has, by state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InstanceCounts {
    /// All of them.
    pub total: i64,
    /// Those whose children are ready.
    pub ready: i64,
    /// Those that are being worked on.
    pub in_progress: i64,
    /// Those that failed.
    pub error: i64,
    /// Those that go away.
    pub deleting: i64,
    /// `ready/total`, for the table.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub summary: String,
}

/// The ledger of one instance: every object that was or may have been made for it. Its name is the instance's uid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Inventory {
    /// `internal.wheelhouse.dev/v1alpha1`.
    pub api_version: String,
    /// `Inventory`.
    pub kind: String,
    /// Name, labels and the rest.
    #[serde(deserialize_with = "or_default")]
    pub metadata: ObjectMeta,
    /// The ledger.
    #[serde(deserialize_with = "or_default")]
    pub spec: InventorySpec,
}

/// What a ledger says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InventorySpec {
    /// The instance.
    pub instance: InstanceReference,
    /// The uid of the mirror in the spoke.
    #[serde(
        rename = "mirrorUID",
        skip_serializing_if = "is_default",
        deserialize_with = "or_default"
    )]
    pub mirror_uid: String,
    /// How many members there were when it was last exact; `None` where it never was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settled_count: Option<u32>,
    /// Whether every member is there and none is missing. False says that members are a superset: an apply or a
    /// prune was begun and has not been seen to its end.
    #[serde(deserialize_with = "or_default")]
    pub exact: bool,
    /// The revision of the definition whose deletions wait here for a confirmation, because of those of all instances of the kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_revision: Option<i64>,
    /// The user of the cluster in whose name the objects are written; `None` is the hub itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acting_as: Option<author::User>,
    /// The same user as the hub knows it, by whom the objects are written that the hub keeps; `None` where it does not. A ledger of an
    /// earlier version of the hub never has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acting_at_hub_as: Option<author::User>,
    /// The objects.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub members: Vec<InventoryMember>,
}

/// The instance of a ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InstanceReference {
    /// The API group.
    #[serde(deserialize_with = "or_default")]
    pub group: String,
    /// The version.
    #[serde(deserialize_with = "or_default")]
    pub version: String,
    /// The kind.
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
    /// The namespace; empty where it has none.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub namespace: String,
    /// The name.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// The uid.
    #[serde(deserialize_with = "or_default")]
    pub uid: String,
}

/// One object of a ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct InventoryMember {
    /// The API group; empty for core.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub group: String,
    /// The version in which it was applied.
    #[serde(deserialize_with = "or_default")]
    pub version: String,
    /// The kind.
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
    /// The plural resource.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub resource: String,
    /// The namespace; empty where it has none.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub namespace: String,
    /// The name.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// The uid; empty until the object was seen.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub uid: String,
    /// The node that it comes from.
    #[serde(deserialize_with = "or_default")]
    pub node: String,
    /// The wave in which it was applied.
    #[serde(deserialize_with = "or_default")]
    pub order: i64,
    /// Digests of what was applied and of what came of it; empty until it was applied.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub applied: String,
}

/// The record that the hub serves a resource of a spoke from its own store. Its name is `<plural>.<group>`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServedResource {
    /// `internal.wheelhouse.dev/v1alpha1`.
    #[serde(default)]
    pub api_version: String,
    /// `ServedResource`.
    #[serde(default)]
    pub kind: String,
    /// Name, labels and the rest.
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: ObjectMeta,
    /// What is served.
    pub spec: ServedResourceSpec,
}

/// What the hub serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServedResourceSpec {
    /// The definition of the kind.
    pub crd: DefinitionSpec,
    /// Whether users get the kind from the hub yet.
    #[serde(default, skip_serializing_if = "is_default")]
    pub state: ServedState,
    /// Whether the spoke's own admission (webhooks, policies, quotas) may have something against objects of the kind.
    #[serde(default, skip_serializing_if = "is_default")]
    pub judged: bool,
    /// The labels of the definition.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "or_default"
    )]
    pub labels: BTreeMap<String, String>,
    /// The annotations of the definition.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "or_default"
    )]
    pub annotations: BTreeMap<String, String>,
}

/// Who answers for a kind at a spoke's path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ServedState {
    /// The hub.
    #[default]
    Serving,
    /// The spoke still: the hub takes up what is there.
    Importing,
}

// === impl Spoke ===

impl Spoke {
    /// Makes a spoke.
    pub fn new(name: &str, spec: SpokeSpec) -> Self {
        Self {
            api_version: API_VERSION.to_owned(),
            kind: SPOKE_KIND.to_owned(),
            metadata: named(name),
            spec,
            status: None,
        }
    }

    /// Returns the endpoint.
    pub fn gvr() -> GroupVersionResource {
        GroupVersionResource::new(GROUP, VERSION, SPOKE_RESOURCE)
    }

    /// Reads a spoke.
    pub fn from_value(value: &Value) -> Result<Self, Status> {
        object::read(SPOKE_KIND, VERSION, value)
    }

    /// Renders the spoke.
    pub fn to_value(&self) -> Value {
        object::write(self)
    }
}

// === impl SecretKeyReference ===

impl Default for SecretKeyReference {
    fn default() -> Self {
        Self {
            namespace: String::new(),
            name: String::new(),
            key: keys::SECRET_KEY_KUBECONFIG.to_owned(),
        }
    }
}

// === impl Inventory ===

impl Inventory {
    /// Makes the ledger of an instance.
    pub fn new(spec: InventorySpec) -> Self {
        Self {
            api_version: INTERNAL_API_VERSION.to_owned(),
            kind: INVENTORY_KIND.to_owned(),
            metadata: named(&spec.instance.uid),
            spec,
        }
    }

    /// Reads a ledger.
    pub fn from_value(value: &Value) -> Result<Self, Status> {
        object::read(INVENTORY_KIND, VERSION, value)
    }

    /// Renders the ledger.
    pub fn to_value(&self) -> Value {
        object::write(self)
    }
}

// === impl InventoryMember ===

impl InventoryMember {
    /// Names the type of the object.
    pub fn gvk(&self) -> GroupVersionKind {
        GroupVersionKind::new(
            self.group.as_str(),
            self.version.as_str(),
            self.kind.as_str(),
        )
    }
}

// === impl ServedResource ===

impl ServedResource {
    /// Makes the record for a definition.
    pub fn new(spec: ServedResourceSpec) -> Self {
        let name = spec.crd.group_resource().to_string();
        Self {
            api_version: INTERNAL_API_VERSION.to_owned(),
            kind: SERVED_RESOURCE_KIND.to_owned(),
            metadata: named(&name),
            spec,
        }
    }

    /// Reads a record.
    pub fn from_value(value: &Value) -> Result<Self, Status> {
        object::read(SERVED_RESOURCE_KIND, VERSION, value)
    }

    /// Renders the record.
    pub fn to_value(&self) -> Value {
        object::write(self)
    }
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: name.to_owned(),
        ..ObjectMeta::default()
    }
}

#[cfg(test)]
mod tests;
