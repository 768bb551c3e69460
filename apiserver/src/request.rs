//! The facts about a request that every stage reads: its path, its user, its deadline, its share of the hub.
//!
//! Invariant: this module imports no stage, so that every stage can import it.

mod asked;
mod claims;
mod context;
mod credential;
mod fence;
mod foreign;
mod info;
mod pass;
mod peer;
mod remote;
mod running;
pub mod share;
mod trail;
mod user;

pub(crate) use asked::Asked;
pub(crate) use claims::{BoundObject, CREDENTIAL_ID, Claims, issuer_of};
pub(crate) use context::Decided;
pub use context::{Ending, RequestContext, RequestOrigin};
pub(crate) use credential::{Credential, SecretToken, SpokeToken};
pub(crate) use fence::Fence;
pub(crate) use foreign::CertifiedUser;
pub use foreign::ForeignCertificate;
pub use info::{ClusterPath, RequestInfo, Verb};
pub(crate) use pass::{Origin, Pass};
pub use peer::{CertificateIdentity, Peer};
pub use remote::{HeaderNames, HeaderNamesError};
pub(crate) use running::LongRunning;
pub(crate) use trail::{DOCUMENT_BYTES_MAX, Level, ManagedFields, Noted, ObjectNames, Trail};
pub(crate) use user::{ABROAD_PREFIX, SERVICE_ACCOUNT_PREFIX, is_kubernetes_key};
pub use user::{ALL_AUTHENTICATED, ALL_UNAUTHENTICATED, ANONYMOUS, SYSTEM_MASTERS, UserInfo};
