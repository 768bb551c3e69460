//! The vocabulary that travels on the wire.
//!
//! Names of groups, versions and resources; object metadata; `Status` and field errors in Kubernetes' own words;
//! selectors and request options with their validation; discovery, tables and definitions; and the project's own
//! kinds. Everything here is pure: values in, values out.
//!
//! **Invariant:** no async, no I/O, no clock and no logging. Time and randomness come in as arguments.
//! **Invariant:** parsers of foreign text return errors and never panic.

pub mod admission;
pub mod cluster;
pub mod crd;
pub mod discovery;
pub mod field;
pub mod group;
pub mod growth;
pub mod inventory;
pub mod json;
pub mod kro;
pub mod meta;
mod object;
pub mod query;
pub mod reserved;
pub mod selector;
pub mod status;
pub mod table;
pub mod validation;
pub mod version;
pub mod wheelhouse;
mod wire;

#[cfg(test)]
mod corpus;

pub use cluster::{ClusterScope, LogicalCluster};
pub use field::{FINDINGS_MAX, FieldError, FieldErrorKind, FieldPath, TOLD_BYTES_MAX};
pub use group::{GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource};
pub use meta::{Condition, ListMeta, ManagedFieldsEntry, ObjectMeta, OwnerReference, TypeMeta};
pub use status::{Status, StatusCause, StatusDetails, StatusReason};
