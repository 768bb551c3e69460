//! How a spoke moves from a kro that ran in it to the hub, and back: what is wanted, and what is the case.

use serde::{Deserialize, Serialize};

use crate::wire::{is_default, or_default};

/// Who is to run the definitions that are in a spoke.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Migration {
    /// Who is to run them.
    pub to: MigrationTarget,
    /// The ServiceAccount of the spoke, as `<namespace>/<name>`, in whose name the children of definitions are written that the hub takes
    /// over; empty for the one that kro's Deployment names.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub service_account: String,
}

/// Who is to run the definitions of a spoke.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MigrationTarget {
    /// Nothing changes: the status says what the hub would take over, and what keeps it from that.
    #[default]
    Plan,
    /// The hub.
    Hub,
    /// Nothing changes: the status says what the hub would give back, and what keeps it from that.
    PlanReturn,
    /// A kro in the spoke.
    Kro,
}

/// How far a migration is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MigrationState {
    /// Nothing was changed.
    #[default]
    Planned,
    /// The hub is taking definitions over.
    Taking,
    /// The hub runs them.
    Hub,
    /// The hub is giving definitions back; it runs nothing in the spoke meanwhile.
    Returning,
    /// They were given back.
    Kro,
}

/// What is the case with a migration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MigrationStatus {
    /// How far it is.
    #[serde(deserialize_with = "or_default")]
    pub state: MigrationState,
    /// The generation of the Spoke that everything else is about.
    #[serde(deserialize_with = "or_default")]
    pub observed_generation: i64,
    /// The version that kro's labels in the spoke name.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub kro_version: String,
    /// The version that the hub writes there.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub hub_version: String,
    /// The ServiceAccount in whose name children are written.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub service_account: String,
    /// The definitions in the spoke.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub definitions: Vec<MigratedDefinition>,
    /// Their children, by kind.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub children: Vec<ChildCount>,
    /// What keeps it from going on.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub obstacles: Vec<String>,
    /// What an administrator should know, and what would be written.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub notes: Vec<String>,
}

/// A definition in a spoke.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MigratedDefinition {
    /// Its name.
    pub name: String,
    /// The kind that it defines, as `Kind.group`.
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
    /// What kro says of it.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub state: String,
    /// How many revisions it has.
    #[serde(deserialize_with = "or_default")]
    pub revisions: i64,
    /// How many instances it has.
    #[serde(deserialize_with = "or_default")]
    pub instances: i64,
}

/// How many children are of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChildCount {
    /// The kind, as `Kind.group`.
    pub kind: String,
    /// How many there are.
    #[serde(deserialize_with = "or_default")]
    pub count: i64,
}
