//! Schemas: what an object of a kind may look like, and what follows from it.
//!
//! Everything here is pure: values in, values out. A [`Schema`] is one node type for the structural schemas of
//! custom resources and for the built-in kinds; a document passes through it in the order of Kubernetes:
//! [`structural::unknown_fields`] (strict requests only), [`structural::coerce_metadata`], [`structural::prune`],
//! [`structural::drop_nulls`], [`structural::default`], and then [`validate`](validate::validate).
//!
//! Invariant: a schema that [`Schema::from_openapi`] returned never makes any of these panic, whatever the value.

pub mod builtin;
pub mod columns;
pub mod definition;
pub mod jsonpath;
pub mod openapi;
mod path;
pub mod structural;
pub mod validate;

pub mod fieldmanager;
pub mod strategic;

pub use structural::Schema;
pub use validate::{Findings, validate};
