//! Reads from method, path and query which logical cluster and which resource a request means.
//!
//! # Invariants
//! - `/clusters/<name>` is stripped once, from the decoded path; everything later sees [`RequestInfo`] only.
//! - A name that is not a DNS label is 400; a second `/clusters/` below the first is 404 for every caller.
//!
//! Source: `apiserver/pkg/endpoints/request/requestinfo.go`, `design.md` section 2.

mod info;

pub use info::{RequestInfo, Verb};
