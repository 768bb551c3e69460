//! The host: the cluster whose kube-apiserver carries groups of the hub as its own, by APIServices.
//!
//! ```text
//!   client ──► host: authenticates, asks its rules ──► hub: front proxy's certificate, headers ([`crate::authenticate`])
//!                                                       │ hub's rules say nothing
//!              host: SubjectAccessReview ◄──────────────┘
//! ```
//!
//! # Invariants
//! - The hub starts and serves without its host: what only the host knows is not known then, and nothing else.
//! - What the host is asked is bounded, in [`reviews`] and [`tokens`], and remembered.

mod reviews;
mod settings;
mod tokens;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use client::{CredentialSources, Dynamic, Options};

pub(crate) use reviews::Reviews;
pub(crate) use settings::Settings;
pub(crate) use tokens::Tokens;

/// Why a host cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// Its kubeconfig cannot be read.
    #[error("the kubeconfig {} cannot be read", path.display())]
    Read {
        /// Which one.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// Its kubeconfig cannot be used.
    #[error("the kubeconfig {} cannot be used", path.display())]
    Kubeconfig {
        /// Which one.
        path: PathBuf,
        /// Why not.
        #[source]
        source: Box<client::Error>,
    },
}

/// Connects to the host by a kubeconfig of the operator's, which may name files and programs. Nothing is dialled yet.
///
/// # Errors
/// [`HostError`].
pub(crate) async fn connect(path: &Path) -> Result<Dynamic, HostError> {
    let text = std::fs::read_to_string(path).map_err(|source| HostError::Read {
        path: path.to_owned(),
        source,
    })?;
    let options = Options {
        sources: CredentialSources::Anywhere,
        ..Options::default()
    };
    let connection = client::connect(&text, None, &options).await;
    let connection = connection.map_err(|source| HostError::Kubeconfig {
        path: path.to_owned(),
        source: Box::new(source),
    })?;
    Ok(Dynamic::new(connection.client()))
}

/// Makes the way in which the host is asked what its users may.
///
/// # Errors
/// [`HostError`].
pub(crate) async fn reviewer(path: &Path) -> Result<Arc<Reviews>, HostError> {
    Ok(Arc::new(Reviews::new(connect(path).await?)))
}
