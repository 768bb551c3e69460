//! ResourceGraphDefinitions, from text to plans.
//!
//! A definition is compiled once ([`compile`]) and then plans for any number of instances ([`CompiledGraph::plan`]).
//! Everything here is pure: values in, values out. The shell around it (the syncer) reads and writes; what it saw goes
//! into [`Observed`], what it is to do comes out as a [`Plan`], and what it is to say as a status
//! ([`CompiledGraph::status`], [`status`]).
//!
//! Words, orders, labels and hashes are kro's, to the byte, so that a cluster can move between kro and this project
//! without a change to any object, and users read the messages that they know.
//!
//! Invariants: no I/O, no clock (time comes in as text), no randomness, no logging; a plan is a function of its input, and
//! when all that it asks for is there, the next one asks for nothing.

mod dag;
mod field_path;
mod hash;
mod naming;
mod node_status;
mod pluralize;
mod revision;
mod scale;
mod simple_schema;
mod told;

mod compile;
mod declarations;
mod definition;
mod graph;
mod resolve;
mod scalar;
mod template;

#[cfg(feature = "fuzzing")]
pub mod fuzzing;

pub mod compatibility;
mod ownership;

pub mod deletion;
mod drift;
pub mod foresight;
pub mod instance;
mod inventory;
pub mod lint;
mod plan;
mod settings;

pub mod conditions;
pub mod definition_conditions;
pub mod status;

pub use compile::{
    CompileError, CompileOptions, DIMENSIONS_MAX, compile, compile_with, instance_endpoint,
    spec_hash,
};
pub use drift::Applied;
pub use graph::{ChildKind, CompiledGraph, Node, NodeKind};
pub use instance::Owner;
pub use inventory::{Inventory, applyset_id};
pub use node_status::printable;
pub use ownership::{Ownership, label_definition, ownership};
pub use plan::{
    Apply, Change, Claim, Expected, InstanceState, NodePlan, NodeReason, NodeState, ObjectRef,
    Observed, Plan, PlanInput, PruneWave, Target, Wanted,
};
pub use pluralize::pluralize;
pub use resolve::{ResolveError, ResolvedKind, SchemaResolver};
pub use revision::revision_name;
pub use settings::{COLLECTION_SIZE_MAX, KRO_VERSION, Settings};
