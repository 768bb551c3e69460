//! The recorder and the checker of `storage_conformance`, at the API of a real hub; and what befalls
//! the hub's process, its disk and its clock meanwhile.
//!
//! In reading order: [`api`] makes a served collection a `Subject`; [`load`] runs clients and
//! followers on it; [`fault`] breaks disks, system calls and clocks.

pub mod api;
pub mod fault;
pub mod load;

pub use api::Api;
pub use load::Load;
