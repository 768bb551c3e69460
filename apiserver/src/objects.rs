//! Stored objects as bytes: where they lie, how they are written, what is read of them without parsing.
//!
//! An object is stored once, as the bytes that clients get. Reads, lists and watches copy those bytes; what a
//! selector, a namespace check or an event frame needs to know of them is found by a byte scanner.
//!
//! # Invariants
//!
//! - Canonical form: `{"apiVersion":..,"kind":..,"metadata":{..},..}`: those three first, then the other fields by
//!   name. Inside `metadata` the fields are sorted by name, with `managedFields` last. So everything that a server
//!   looks at lies in the first few hundred bytes, and equal objects have equal bytes.
//! - `metadata.resourceVersion` of a stored object is exactly 16 digits, so that the store can write the revision of
//!   a commit over them (see `storage::Change::Put`) and nothing else moves.
//! - The logical cluster is part of the key and never of the value; `kcp.io/cluster` is spliced into what a request
//!   over all clusters is answered with.

mod encode;
mod key;
mod page;
mod rewrite;
mod scan;

pub use encode::{Encoded, RevisionSlot, encode, stamp_bytes};
pub use key::{ObjectKey, ResourcePrefix, StorageKeyParts, parse_key, prefix, prefix_in};
pub use page::{ContinueToken, ContinueTokenError};
pub use rewrite::{splice_cluster, with_api_version, with_revision, write_partial_metadata};
pub use scan::{Head, StringMap, fields, head};

#[cfg(test)]
mod tests;
