//! The facts about a request that every stage reads: its path, its user, its deadline, its share of the hub.
//!
//! Invariant: this module imports no stage, so that every stage can import it.

mod claims;
mod context;
mod credential;
mod info;
mod peer;
mod running;
pub mod share;
mod user;

pub(crate) use claims::{BoundObject, Claims, issuer_of};
pub use context::{Ending, RequestContext, RequestOrigin};
pub(crate) use credential::{Credential, SpokeToken};
pub use info::{RequestInfo, Verb};
pub use peer::{CertificateIdentity, Peer};
pub(crate) use running::LongRunning;
pub(crate) use user::{ABROAD_PREFIX, SERVICE_ACCOUNT_PREFIX};
pub use user::{ALL_AUTHENTICATED, ALL_UNAUTHENTICATED, ANONYMOUS, SYSTEM_MASTERS, UserInfo};
