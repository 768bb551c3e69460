//! What the syncer knows: caches of the hub and of targets, and what was decided. Nothing here knows the engine or calls
//! a controller.
//!
//! In reading order: [`keys`], [`collection`] (what of a watch and of our own writes is believed), [`children`],
//! [`mirrors`] and [`externals`] (what there is in a target), [`claims`] (what is an instance's own), [`actors`] (in whose
//! name), [`served`], [`kinds`], [`kind_claims`] and [`definitions`], [`instances`], [`events`], [`switches`], [`brake`] and
//! [`pruning`] (how much goes unasked), [`target`] and [`fleet`], [`turns`], [`restored`], [`revision`], [`shares`] (what of
//! all this is this process's), [`own_states`] (what a reconcile brought about itself).

pub(crate) mod actors;
pub(crate) mod admission;
pub(crate) mod brake;
pub(crate) mod children;
pub(crate) mod claims;
pub(crate) mod collection;
pub(crate) mod definitions;
pub(crate) mod events;
pub(crate) mod externals;
pub(crate) mod fleet;
pub(crate) mod instances;
pub(crate) mod keys;
pub(crate) mod kind_claims;
pub(crate) mod kinds;
pub(crate) mod mirrors;
pub(crate) mod own_states;
pub(crate) mod pruning;
pub(crate) mod restored;
pub(crate) mod revision;
pub(crate) mod served;
pub(crate) mod shares;
pub(crate) mod switches;
pub(crate) mod target;
pub(crate) mod turns;
