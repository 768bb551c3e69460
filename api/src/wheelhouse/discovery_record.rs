//! The record of what a spoke served when it was last read.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{API_VERSION, INTERNAL_API_VERSION, SPOKE_KIND, named};
use crate::meta::{ObjectMeta, OwnerReference};
use crate::object;
use crate::wire::or_default;

/// The kind of DiscoveryRecords.
pub const DISCOVERY_RECORD_KIND: &str = "DiscoveryRecord";
/// The plural of DiscoveryRecords.
pub const DISCOVERY_RECORD_RESOURCE: &str = "discoveryrecords";

/// The discovery of a spoke, as it was last read. Its name is the Spoke's, which owns it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DiscoveryRecord {
    /// `internal.wheelhouse.dev/v1alpha1`.
    pub api_version: String,
    /// `DiscoveryRecord`.
    pub kind: String,
    /// Name, owner and the rest.
    #[serde(deserialize_with = "or_default")]
    pub metadata: ObjectMeta,
    /// What was read.
    #[serde(deserialize_with = "or_default")]
    pub spec: DiscoveryRecordSpec,
}

/// What was read of a spoke.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DiscoveryRecordSpec {
    /// The uid of the Spoke.
    #[serde(rename = "spokeUID", deserialize_with = "or_default")]
    pub spoke_uid: String,
    /// When it was read.
    #[serde(deserialize_with = "or_default")]
    pub time: String,
    /// The answer of `/api`, as base64 of gzip.
    #[serde(deserialize_with = "or_default")]
    pub core: String,
    /// The answer of `/apis`, as base64 of gzip.
    #[serde(deserialize_with = "or_default")]
    pub groups: String,
}

// === impl DiscoveryRecord ===

impl DiscoveryRecord {
    /// Makes the record of a spoke.
    pub fn new(spoke: &str, spec: DiscoveryRecordSpec) -> Self {
        let owner = OwnerReference {
            api_version: API_VERSION.to_owned(),
            kind: SPOKE_KIND.to_owned(),
            name: spoke.to_owned(),
            uid: spec.spoke_uid.clone(),
            ..OwnerReference::default()
        };
        Self {
            api_version: INTERNAL_API_VERSION.to_owned(),
            kind: DISCOVERY_RECORD_KIND.to_owned(),
            metadata: ObjectMeta {
                owner_references: vec![owner],
                ..named(spoke)
            },
            spec,
        }
    }

    /// Renders the record.
    pub fn to_value(&self) -> Value {
        object::write(self)
    }
}
