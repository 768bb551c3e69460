//! The controller of spokes: from a Spoke and its credential to a connection with its state.
//!
//! ```text
//!   Spokes ────────┐
//!   Secrets ──► provider ──► access ──► dialer ──► Link or Fault ──┬──► relay: the path of each spoke
//!   files ─────────┤                                               └──► syncer: targets, the Spoke's status
//!                  └──► sightings ──► syncer: Spokes of clusters that were found
//! ```
//!
//! One instance runs in each process, [`Spokes`], and everything in the process that connects to a spoke gets its
//! connection there: the path of a spoke and its status give the same reason because they read the same [`State`]. With
//! several replicas, each has an instance, which reads the same objects by the same rules.
//!
//! In reading order: [`controller`] (from Spokes to states), [`provider`] (where the access to a spoke comes from),
//! [`plugin`] (programs that print credentials), [`inventory`] (which of them the cluster of a ClusterProfile needs), [`found`] and [`sightings`] (clusters for which there may be no Spoke yet),
//! [`dialer`] (which credential may be used, and where it may be sent), [`link`] (a connection, and since when it fails),
//! [`succession`] (a later credential takes the place of one before), [`breaker`] (requests to a spoke that does not answer),
//! [`namespaces`] (those of a connected spoke), [`identity`] (which cluster is behind a Spoke), [`table`] (what is known,
//! and who is told of changes), [`fault`] (why there is no connection), [`join`] (the objects that join a cluster).
//!
//! # To add a provider
//!
//! 1. Add a variant to [`api::wheelhouse::Provider`], which `spec.provider` of a Spoke selects, and to the enum in the
//!    Spoke's CRD.
//! 2. Write `provider/<name>.rs` with an implementation of [`provider::Provider`]: it returns the [`access::Access`] to
//!    a spoke when it is asked, and names the spokes whose access may have changed.
//!    If it finds clusters by itself, it tells [`sightings`] all that it sees, whenever that changes, as a source of a sort of
//!    its own ([`sightings::SourceSort`]); the syncer makes the Spokes (`syncer/src/spokes/found.rs`). A provider that finds
//!    Secrets needs nothing else: see [`found`].
//! 3. Add it to [`provider::Providers`]: to `of`, whose exhaustive `match` does not compile until you do, and to the list
//!    in `start`, which the compiler does not check.
//! 4. Add what `spec.connection` of a Spoke needs for it to the CRD (`api/src/wheelhouse/definitions.rs`) and to
//!    [`api::wheelhouse`], beside `secretRef` and `clusterProfileRef`. The registry of `apiserver` (`registry/follow.rs`) decides what a Spoke of the provider serves.
//! 5. Add its flag to `Spokes` in `cli/src/args.rs`, hand what the flag says to the dialer in `cli/src/serve.rs`, and
//!    document both in `docs/spokes.md`.
//! 6. If it finds credentials elsewhere than in a Secret, give [`dialer`] a constructor that applies its policy, and
//!    [`fault`] a variant for each new reason.
//!
//! A provider whose clusters are reached in another way than with a kubeconfig adds a variant to [`access::Access`],
//! and an arm where [`controller`] makes the link of one.
//!
//! # Invariants
//! - A failure belongs to one spoke: each is reconciled by itself, and no step over several spokes can end early.
//! - A spoke without a connection has a [`Fault`], which is the message of its status and of its path.
//! - A credential that works is dropped only for one that was proven, or because it may not be used any more.
//! - A source that cannot be read says nothing: no Spoke goes because of it.
//! - A failure of the hub says nothing about a spoke: its state stays, and it is tried again.

mod access;
mod breaker;
mod controller;
mod dialer;
mod fault;
mod found;
mod identity;
mod inventory;
mod join;
mod link;
mod namespaces;
mod plugin;
mod provider;
mod rights;
mod sightings;
mod succession;
mod table;

pub use breaker::{Broken, Circuit, CircuitState, Permit};
pub use dialer::{Credential, Dialer, Policy, SECRETS_NAMESPACE, Servers, caution};
pub use fault::Fault;
pub use identity::{Identities, IdentityFault};
pub use inventory::{AccessProviders, AccessProvidersError};
pub use join::join_objects;
pub use link::{Link, Trouble, TroubleKind};
pub use namespaces::{Namespaces, Phase};
pub use rights::missing as missing_rights;
pub use sightings::{Renewed, Sighted, Sighting, Sightings, Source, SourceSort};
pub use table::{Changes, Entry, Known, Spokes, State};
