//! A simulated fleet, for trials of the syncer: the real syncer and the real API server of the hub over a scripted network,
//! clock and spokes, by seed.
//!
//! ```text
//!   users ──► hub (apiserver) ◄── Network ──► syncer ──► Network ──► spokes (in memory)
//!                │                                                      │
//!                └── SteadyStore ───────► Judge ◄───────────────────────┘
//! ```
//!
//! In reading order: [`run`] (one run, from its plan to its verdict), [`fleet`] (the hub's process and its spokes),
//! [`definition`] (what users want, and what must come of it), [`network`] (faults), [`spoke`], [`judge`] (what must hold at
//! each write), [`store`], [`dice`].
//!
//! **Invariant:** one runtime with one thread and a paused clock; time passes only while everybody waits.
//! **Invariant:** nothing that ships depends on this crate.

pub mod definition;
pub mod dice;
mod entropy;
pub mod fleet;
pub mod judge;
pub mod network;
pub mod run;
pub mod spoke;
pub mod store;
