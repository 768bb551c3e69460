//! How this project speaks to a Kubernetes API: to a spoke over the network, to the hub in the same process, and to
//! the hub from the command line.
//!
//! In reading order: [`transport`] is HTTP over connections that notice a dead peer; [`connection`] is one cluster
//! and one credential; [`dynamic`] is the calls on objects, [`impersonation`] those in another's name; [`reflector`] follows
//! a collection; [`term`] is how long somebody may write, [`judged`] clients that heed it; [`discovery`] tells what a server serves; [`bounds`] is how much a cluster may make its client hold, and `pace` how fast it is read; [`apart`]
//! is where large answers are decoded.
//!
//! **Invariant:** every call has a deadline, except those whose end is for the caller to decide: a watch, and what
//! [`Connection::send`] relays.
//! **Invariant:** what cannot be read is an error, never an empty answer.
//! **Invariant:** what a spoke makes the hub hold is bounded, and only that spoke fails where a bound is met.

pub mod apart;
pub mod bounds;
pub mod connection;
pub mod discovery;

pub mod dynamic;
pub mod error;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod impersonation;
pub mod judged;
mod pace;
pub mod reflector;
pub mod term;
#[cfg(test)]
pub(crate) mod testing;
pub mod transport;

pub use bounds::{Bounds, Budget, Charge, parsed_bytes};
pub use connection::{
    Client, Connection, CredentialSources, Identity, Network, Options, connect, in_process,
};
pub use dynamic::{
    Answer, DeleteRequest, Deleted, Dynamic, Endpoint, Force, List, ListRequest, Page, Patch, Path,
    PathError,
};
pub use error::{BoundError, Error};
pub use impersonation::acting_as;
pub use judged::{Verdict, in_terms};
pub use term::{FENCE_HEADER, Lifetime, Moment, Term, TermError};
pub use transport::{Protocol, Switched, Upgrade, Upgraded};
