//! The way out: bodies, refusals, and the headers that every answer has.
//!
//! # Invariants
//! - Nothing else in the crate picks the status code of a refusal: [`Refusal`] does, from its cause.
//! - Stored bytes go out as they are: no body here is parsed unless the client asked for another form of it.

mod body;
mod refusal;

pub use body::{Body, BoxError, RequestBody};
pub use refusal::Refusal;

/// An answer.
pub type Response = http::Response<Body>;
