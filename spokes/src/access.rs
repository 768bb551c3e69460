//! How a spoke is reached, as a provider has found.

use crate::dialer::Credential;

/// How a spoke is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Access {
    /// This hub serves it.
    Embedded,
    /// A server, with a credential for it.
    Kubeconfig(Credential),
}
