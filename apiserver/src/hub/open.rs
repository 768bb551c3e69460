//! Opens a hub: certificates, store, registry, authorizer, handlers, and the objects that everything begins with.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

use api::cluster::LogicalCluster;
use storage::{Store, embedded};
use tasks::{OnPanic, Tasks};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{Hub, HubParts, Lifecycle, bootstrap::BootstrapError};
use crate::{
    authenticate::{Authenticator, ServiceAccounts, TokenFile, TokenFileError},
    authorize::{Authorizer, Policies},
    backup::Backups,
    config::{Config, Reseal},
    discovery, handle,
    handle::Handlers,
    objects,
    offline::{self, STORE_DIRECTORY},
    openapi,
    registry::{self, ClusterKind, Registry},
    relay::Relay,
    reseal::reseal,
    serve::Server,
    side::{Health, Metrics},
    tls::{self, Pki},
};

/// Why a hub cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The certificates.
    #[error("the certificates cannot be had")]
    Certificates(#[from] tls::Error),
    /// The token file.
    #[error("the token file {} cannot be used", path.display())]
    TokenFile {
        /// Which file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: TokenFileError,
    },
    /// The store.
    #[error("the store cannot be opened")]
    Store(#[from] storage::OpenError),
    /// The keys that its Secrets are sealed with.
    #[error("the encryption keys cannot be had")]
    Keyring(#[from] storage::KeyringError),
    /// Sealing them anew.
    #[error("the Secrets cannot be sealed anew")]
    Reseal(#[source] storage::Error),
    /// The thread that opens it.
    #[error("opening the store panicked")]
    Panic(#[source] tokio::task::JoinError),
    /// What is in the store.
    #[error("the role bindings cannot be read")]
    Policies(#[source] storage::Error),
    /// What is served.
    #[error("the definitions cannot be read")]
    Registry(#[from] registry::OpenError),
    /// The objects that everything begins with.
    #[error("the first objects cannot be created")]
    Bootstrap(#[from] BootstrapError),
}

impl Hub {
    /// Opens a hub and starts what it runs in the background, in `tasks`.
    ///
    /// # Errors
    /// One variant per part that cannot be had.
    pub async fn open(config: Config, tasks: &Tasks) -> Result<Self, OpenError> {
        let now = jiff::Timestamp::now();
        let pki = Pki::open(&config.data_dir, &config.addresses, &config.host_names, now)?;
        let tokens = match &config.token_file {
            None => TokenFile::default(),
            Some(path) => TokenFile::read(path).map_err(|source| OpenError::TokenFile {
                path: path.clone(),
                source,
            })?,
        };
        let store = open_store(&config, tasks).await?;
        if config
            .encryption
            .as_ref()
            .is_some_and(|it| it.reseal == Reseal::All)
        {
            let count = reseal(&store, objects::prefix("", "secrets")).await;
            let count = count.map_err(OpenError::Reseal)?;
            tracing::info!(
                count,
                "every Secret was written anew, sealed with the first key"
            );
        }
        let registry = Registry::open(&store)?;
        let (policies, follower) =
            Policies::open(Arc::clone(&store)).map_err(OpenError::Policies)?;
        let authorizer = Arc::new(Authorizer::new(policies, registry.clusters()));
        let handlers = Handlers::new(handle::Parts {
            store: Arc::clone(&store),
            registry: Arc::clone(&registry),
            authorizer: Arc::clone(&authorizer),
        });
        // Its end would leave policies as they are for ever: better no hub than one that obeys old bindings.
        tasks.spawn_with(
            "role bindings",
            OnPanic::ShutDown,
            follower.run(tasks.child_token()),
        );
        handlers.start(tasks);
        let lifecycle = Lifecycle::new(config.shutdown_delay);
        let accounts = Arc::new(ServiceAccounts::open(&config.data_dir, Arc::clone(&store))?);
        let hub = Self {
            parts: Arc::new(HubParts {
                authenticator: Authenticator::new(tokens, config.anonymous)
                    .with_service_accounts(Arc::clone(&accounts)),
                accounts,
                backups: Backups::new(Arc::clone(&store), config.hub_id.clone()),
                health: Health::new(Arc::clone(&store), lifecycle.draining()),
                pki,
                registry,
                handlers,
                authorizer,
                discovery: discovery::Cache::default(),
                openapi: openapi::Cache::default(),
                relay: Relay::default(),
                metrics: Metrics::default(),
                lifecycle,
                config,
            }),
        };
        hub.parts.relay.start(&hub, &hub.parts.handlers, tasks);
        hub.bootstrap(&LogicalCluster::root()).await?;
        hub.parts.health.set_bootstrapped();
        tasks.spawn(
            "bootstrap",
            hub.clone().bootstrap_embedded(tasks.child_token()),
        );
        Ok(hub)
    }

    /// Serves connections of `listener` until `shutdown`, then drains and returns.
    ///
    /// Controllers must go on until this has returned, and the store after them: cancel their tasks afterwards.
    ///
    /// # Errors
    /// [`tls::Error::Certificate`] for certificates that rustls does not take.
    pub async fn serve(
        &self,
        listener: TcpListener,
        shutdown: CancellationToken,
    ) -> Result<(), tls::Error> {
        let (config, verifier) = self.parts.pki.server_config()?;
        let server = Server::new(self.clone(), config, verifier);
        // All who wait are accepted before their handshakes get the thread: a full backlog drops what comes next. Slots
        // bound how many that can be.
        tokio::task::unconstrained(server.run(listener, shutdown)).await;
        Ok(())
    }

    /// Gives each embedded spoke its first objects, as soon as it is there.
    async fn bootstrap_embedded(self, shutdown: CancellationToken) {
        let mut clusters = self.parts.registry.clusters();
        let mut done: BTreeSet<LogicalCluster> = BTreeSet::new();
        loop {
            let known = Arc::clone(&clusters.borrow_and_update());
            done.retain(|cluster| known.get(cluster) == Some(&ClusterKind::Embedded));
            for (cluster, kind) in known.iter() {
                if *kind != ClusterKind::Embedded || done.contains(cluster) {
                    continue;
                }
                match self.bootstrap(cluster).await {
                    Ok(()) => {
                        done.insert(cluster.clone());
                    }
                    // A cluster that went meanwhile; one that is still there is tried again at the next change.
                    Err(error) => {
                        tracing::warn!(cluster = %cluster, error = %error, "first objects are missing");
                    }
                }
            }
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                changed = clusters.changed() => if changed.is_err() { return },
            }
        }
    }
}

/// Opens the store, which reads its whole log, on a thread that may block.
async fn open_store(config: &Config, tasks: &Tasks) -> Result<Arc<dyn Store>, OpenError> {
    let directory = config.data_dir.join(STORE_DIRECTORY);
    let keyring = match &config.encryption {
        None => None,
        Some(encryption) => Some(Arc::new(offline::read_keyring(&encryption.key_file)?)),
    };
    let opening = tasks.spawn_blocking("open store", move || {
        let config = embedded::Config {
            keyring,
            ..embedded::Config::default()
        };
        embedded::Engine::open(&directory, config)
    });
    let engine = opening.await.map_err(OpenError::Panic)??;
    Ok(Arc::new(engine))
}
