//! The fleet view: its files, and the two things that are computed for it.
//!
//! The pages in `web/` are plain ES modules that talk to the hub's own API as any client does. [`Page`] says which path is for what,
//! [`assets`] answers with the files, [`instances`] sorts and pages lists of instances, and [`drawing`] lays graphs out.
//!
//! # Invariants
//! - Pure: values in, values out. The crate reads nothing from a store, a spoke or the network: what it is given was read by the
//!   API server as the caller, so nobody sees anything here that the API would not show.
//! - No page loads anything from another host, and none has a script or a style in its text ([`assets::CONTENT_SECURITY_POLICY`]).

pub mod assets;
pub mod drawing;
pub mod instances;
mod page;

pub use page::Page;
