//! Opens a hub: certificates, store, registry, authorizer, handlers, and the objects that everything begins with.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use api::cluster::LogicalCluster;
use futures::FutureExt as _;
use prometheus_client::collector::Collector;
use spokes::Spokes;
use storage::{Store, embedded, etcd};
use tasks::{OnPanic, Tasks};
use tokio_util::sync::CancellationToken;

use super::{
    Hub, HubParts, Lifecycle, bootstrap::BootstrapError, replicas, replicas::ShareError,
    standing::Standings,
};
use crate::{
    audit::{Audit, AuditError},
    authenticate::{
        Authenticator, CertificateUsers, CertificateUsersError, FrontProxy, FrontProxyError,
        HostTokens, Issuers, OidcError, Passes, ServiceAccounts, SignIn, TokenFile, TokenFileError,
        TokenWebhook, TokenWebhookError,
    },
    authorize::{Authorizer, Policies},
    backup::Backups,
    config::{Config, EtcdConfig, IssuersConfig, Reseal, StoreConfig},
    definitions, discovery, handle,
    handle::Handlers,
    host::{self, HostError},
    objects,
    offline::{self, RESTORING_DIRECTORY, STORE_DIRECTORY},
    openapi,
    quota::Quotas,
    registry::{self, ClusterKind, Registry},
    relay::{Relay, Uids},
    request::{SYSTEM_MASTERS, UserInfo},
    reseal::reseal,
    side::{Health, Metrics},
    sweep, terms,
    tls::{self, Pki},
    webhooks::AllowedHosts,
};

/// The user as whom the controller of spokes reads Spokes and Secrets, and the relay keeps what spokes serve.
const SPOKES_USER: &str = "system:wheelhouse:spokes";

/// The file in which a replica remembers what it has seen of its etcd, below the data directory.
const ETCD_MEMORY_FILE: &str = "etcd-seen";

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
    /// Whose headers are believed.
    #[error("front proxies cannot be known")]
    FrontProxy(#[from] FrontProxyError),
    /// The authorities of client certificates cannot be used.
    #[error("client certificates cannot be verified")]
    ClientCertificates(#[from] CertificateUsersError),
    /// The issuers.
    #[error("the issuers of tokens cannot be known")]
    Issuers(#[from] OidcError),
    /// How people sign in to the fleet view.
    #[error("people cannot sign in to the fleet view: {0}")]
    SignIn(String),
    /// The webhook that knows tokens.
    #[error("the authentication webhook cannot be asked")]
    TokenWebhook(#[from] TokenWebhookError),
    /// The host.
    #[error("the host cannot be asked")]
    Host(#[from] HostError),
    /// The store.
    #[error("the store cannot be opened")]
    Store(#[from] storage::OpenError),
    /// A restore did not come to its end: its hub must not begin with nothing.
    #[error("{} is what an interrupted restore has left: call `wheelhouse store restore` again", path.display())]
    RestoreInterrupted {
        /// Where it was restored.
        path: PathBuf,
    },
    /// The keys that its Secrets are sealed with.
    #[error("the encryption keys cannot be had")]
    Keyring(#[from] storage::KeyringError),
    /// Sealing them anew.
    #[error("the Secrets cannot be sealed again")]
    Reseal(#[source] storage::Error),
    /// The thread that opens it.
    #[error("opening the store panicked")]
    Panic(#[source] tokio::task::JoinError),
    /// What the replicas share.
    #[error("what the replicas of the hub share cannot be had")]
    Share(#[from] ShareError),
    /// What is in the store.
    #[error("the role bindings cannot be read")]
    Policies(#[source] storage::Error),
    /// The uids of instances and mirrors.
    #[error("the inventories cannot be read")]
    Uids(#[source] storage::Error),
    /// What is served.
    #[error("the definitions cannot be read")]
    Registry(#[from] registry::OpenError),
    /// Where requests are recorded.
    #[error("requests cannot be recorded")]
    Audit(#[from] AuditError),
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
        let store = open_store(&config, tasks).await?;
        Self::open_over(store, config, tasks).await
    }

    /// Opens a hub over a store that is open already. [`Config::store`] says only whether other replicas share it.
    ///
    /// # Errors
    /// As [`Hub::open`], but for the store.
    pub async fn open_over(
        store: Arc<dyn Store>,
        config: Config,
        tasks: &Tasks,
    ) -> Result<Self, OpenError> {
        let mut config = config;
        if let StoreConfig::Etcd(_) = config.store {
            let now = jiff::Timestamp::now();
            config.hub_id = replicas::share(&store, &config.data_dir, &config.hub_id, now).await?;
        }
        let pki = open_pki(&config, tasks)?;
        reseal_secrets(&config, &store).await?;
        let registry = Registry::open(&store)?;
        let (policies, follower) =
            Policies::open(Arc::clone(&store)).map_err(OpenError::Policies)?;
        let spokes = Spokes::new(config.dialer.clone());
        let uids = Uids::open(Arc::clone(&store), tasks).map_err(OpenError::Uids)?;
        let relay = Relay::new(spokes.clone(), uids, Arc::clone(&store), tasks);
        let authorizer = with_host(Authorizer::new(policies, registry.clusters()), &config).await?;
        let authorizer = Arc::new(authorizer.with_spoke_reviewer(relay.reviewer()));
        let handlers = Handlers::new(handle::Parts {
            store: Arc::clone(&store),
            registry: Arc::clone(&registry),
            authorizer: Arc::clone(&authorizer),
            spoke_namespaces: Some(relay.namespaces()),
            webhook_hosts: AllowedHosts::new(&config.webhook_hosts),
            spoke_writes: Some(relay.writes()),
        });
        // Its end would leave policies as they are for ever: better no hub than one that obeys old bindings.
        tasks.spawn_with(
            "role bindings",
            OnPanic::ShutDown,
            follower.run(tasks.child_token()),
        );
        handlers.start_followers(tasks);
        let lifecycle = Lifecycle::new(config.shutdown_delay);
        let accounts = Arc::new(ServiceAccounts::open(&config.data_dir, Arc::clone(&store))?);
        let passes = Arc::new(Passes::new(Arc::clone(&accounts)));
        let (issuers, sign_in) = issuers_of(&config, tasks)?;
        let authenticator = authenticator_of(&config, &pki, tasks)
            .await?
            .with_service_accounts(Arc::clone(&accounts))
            .with_passes(Arc::clone(&passes))
            .with_issuers(issuers.clone())
            .with_spoke_tokens(relay.tokens());
        let quotas = Arc::new(Quotas::new(config.limits));
        let audit = Audit::open(&config.audit, tasks).await?;
        let hub = Self {
            parts: Arc::new(HubParts {
                authenticator,
                accounts,
                passes,
                sign_in,
                backups: Backups::new(Arc::clone(&store), config.hub_id.clone()),
                health: Health::new(Arc::clone(&store), issuers.clone(), lifecycle.draining()),
                pki,
                registry,
                handlers,
                authorizer,
                discovery: discovery::Cache::default(),
                openapi: openapi::Cache::default(),
                spokes,
                relay,
                metrics: Metrics::new(&store, &quotas, issuers, audit.metrics(), tasks),
                audit,
                quotas,
                lifecycle,
                standings: Standings::default(),
                previewer: OnceLock::new(),
                config,
            }),
        };
        hub.start(tasks).await?;
        Ok(hub)
    }

    /// Starts what runs in the background, and waits until root has what every cluster has.
    async fn start(&self, tasks: &Tasks) -> Result<(), OpenError> {
        self.start_spokes(tasks);
        self.start_standings(tasks);
        self.bootstrap(&LogicalCluster::root()).await?;
        self.parts.health.set_bootstrapped();
        tasks.spawn(
            "bootstrap",
            self.clone().bootstrap_embedded(tasks.child_token()),
        );
        if self.is_alone() {
            self.start_controllers(tasks);
        }
        Ok(())
    }

    fn start_spokes(&self, tasks: &Tasks) {
        let client = kube::Client::new(self.in_process(UserInfo::system(SPOKES_USER)), "default");
        self.parts.spokes.start(client.clone(), tasks);
        self.parts.relay.start(client, tasks);
    }

    /// Whether this process is the whole hub, but for syncers. Where it is one replica of several, whoever runs it elects one
    /// that calls [`Hub::start_controllers`].
    pub fn is_alone(&self) -> bool {
        self.parts.config.store == StoreConfig::Directory
    }

    /// Starts what one replica does for all: the controller of definitions, the deletion of namespaces, garbage
    /// collection and the expiry of events. They end with `tasks`. [`Hub::open`] does it for a hub that is alone.
    pub fn start_controllers(&self, tasks: &Tasks) {
        let shared = self.parts.handlers.shared();
        definitions::start(shared, tasks);
        sweep::start(shared, tasks);
    }

    /// Exposes at `/metrics` what else counts in this process. The first one stays.
    pub fn set_other_metrics(&self, others: Box<dyn Collector>) {
        self.parts.metrics.set_others(others);
    }

    /// The epoch of the store; it rises when history was set back.
    pub fn epoch(&self) -> u64 {
        self.parts.handlers.epoch()
    }

    /// What names this hub to other writers of its spokes; replicas share it.
    pub fn id(&self) -> &str {
        &self.parts.config.hub_id
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
                        tracing::warn!(cluster = %cluster, error = %error, "cannot create the first objects of a cluster");
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

/// Opens the hub's certificates, and keeps what clients are shown current.
fn open_pki(config: &Config, tasks: &Tasks) -> Result<Arc<Pki>, OpenError> {
    let (addresses, host_names) = (&config.addresses, &config.host_names);
    let pki = Pki::open(
        &config.data_dir,
        addresses,
        host_names,
        jiff::Timestamp::now(),
    )?;
    let pki = Arc::new(pki);
    pki.show(&config.serving)?;
    // Its end would leave a certificate shown that runs out.
    let following = Arc::clone(&pki).follow(config.serving.clone(), tasks.child_token());
    tasks.spawn_with("serving certificate", OnPanic::ShutDown, following);
    Ok(pki)
}

/// Makes an authenticator of what the operator has named beside issuers: tokens, front proxies, a host, a webhook.
async fn authenticator_of(
    config: &Config,
    pki: &Pki,
    tasks: &Tasks,
) -> Result<Authenticator, OpenError> {
    let tokens = read_tokens(config)?;
    let webhook = match &config.token_webhook {
        Some(webhook) => Some(Arc::new(TokenWebhook::open(webhook).await?)),
        None => None,
    };
    let authenticator = Authenticator::new(tokens, config.anonymous)
        .with_syncers(config.syncers)
        .with_certificates(certificate_users_of(config, tasks)?);
    let front_proxy = Arc::new(FrontProxy::new(authenticator.client_certificates()));
    let is_any_believed = follow_front_proxy(config, &front_proxy, pki, tasks).await?;
    Ok(authenticator
        .with_front_proxy(is_any_believed.then_some(front_proxy))
        .with_host_tokens(host_tokens_of(config).await?)
        .with_webhook(webhook))
}

/// Lets a host be asked about its users, if there is one.
async fn with_host(authorizer: Authorizer, config: &Config) -> Result<Authorizer, HostError> {
    let Some(kubeconfig) = &config.host.authorization_kubeconfig else {
        return Ok(authorizer);
    };
    let reviews = host::reviewer(kubeconfig).await?;
    Ok(authorizer.with_host(reviews.reviewer(), config.host.groups.clone()))
}

/// Reads whose client certificates count beside the hub's own, and follows it.
fn certificate_users_of(
    config: &Config,
    tasks: &Tasks,
) -> Result<Option<Arc<CertificateUsers>>, OpenError> {
    let Some(file) = config.client_ca_file.clone() else {
        return Ok(None);
    };
    let users = Arc::new(CertificateUsers::open(file)?);
    let following = Arc::clone(&users).follow(tasks.child_token());
    // Its end would leave an authority trusted that is not one any more.
    tasks.spawn_with("client certificates", OnPanic::ShutDown, following);
    Ok(Some(users))
}

/// Reads which front proxies are believed, and follows it. Returns whether any can be.
async fn follow_front_proxy(
    config: &Config,
    front_proxy: &Arc<FrontProxy>,
    pki: &Pki,
    tasks: &Tasks,
) -> Result<bool, OpenError> {
    let own = pki.authority.certificate_pem().to_owned();
    let shutdown = tasks.child_token();
    let following = if let Some(settings) = config.request_headers.clone() {
        front_proxy.read_file(&settings, &own)?;
        let front_proxy = Arc::clone(front_proxy);
        front_proxy.follow_file(settings, own, shutdown).boxed()
    } else if let Some(kubeconfig) = &config.host.authentication_kubeconfig {
        let host = host::connect(kubeconfig).await?;
        let settings = host::Settings::new(host, Arc::clone(front_proxy), own);
        settings.follow(shutdown).boxed()
    } else {
        return Ok(false);
    };
    // Its end would leave a front proxy believed that is not one any more.
    tasks.spawn_with("front proxies", OnPanic::ShutDown, following);
    Ok(true)
}

/// Reads which issuers there are, and follows it and their keys; and lets people sign in to the fleet view at one of them, if the
/// operator says so.
fn issuers_of(
    config: &Config,
    tasks: &Tasks,
) -> Result<(Option<Arc<Issuers>>, Option<SignIn>), OpenError> {
    let issuers = match &config.issuers {
        IssuersConfig::None if config.sign_in.is_none() => return Ok((None, None)),
        IssuersConfig::None => return Err(OpenError::SignIn("there is no issuer".to_owned())),
        IssuersConfig::File(path) => Issuers::of_file(path)?,
        IssuersConfig::Flags(flags) => Issuers::of_flags(flags)?,
    };
    let issuers = Arc::new(issuers);
    let shutdown = tasks.child_token();
    let following = Arc::clone(&issuers).follow(shutdown.clone());
    // Their end would leave an issuer, or a key, believed that is not to be any more.
    tasks.spawn_with("issuers", OnPanic::ShutDown, following);
    let refreshing = Arc::clone(&issuers).refresh(shutdown);
    tasks.spawn_with("keys of issuers", OnPanic::ShutDown, refreshing);
    let sign_in = config.sign_in.clone();
    let sign_in = sign_in.map(|it| SignIn::new(Arc::clone(&issuers), it));
    let sign_in = sign_in.transpose().map_err(OpenError::SignIn)?;
    Ok((Some(issuers), sign_in))
}

/// Connects to the host that knows tokens of its own, if there is one.
async fn host_tokens_of(config: &Config) -> Result<Option<Arc<dyn HostTokens>>, HostError> {
    match &config.host.authentication_kubeconfig {
        None => Ok(None),
        Some(kubeconfig) => {
            let tokens = host::Tokens::new(host::connect(kubeconfig).await?);
            Ok(Some(Arc::new(tokens)))
        }
    }
}

/// Reads the token file, if there is one, and adds the administrator's token.
fn read_tokens(config: &Config) -> Result<TokenFile, OpenError> {
    let mut tokens = match &config.token_file {
        None => TokenFile::default(),
        Some(path) => TokenFile::read(path).map_err(|source| OpenError::TokenFile {
            path: path.clone(),
            source,
        })?,
    };
    if let Some(token) = &config.admin_token {
        tokens.add(
            token.expose(),
            UserInfo::authenticated("admin", [SYSTEM_MASTERS]),
        );
    }
    Ok(tokens)
}

/// Writes every Secret anew, where that was asked for.
async fn reseal_secrets(config: &Config, store: &Arc<dyn Store>) -> Result<(), OpenError> {
    let asked = config.encryption.as_ref().map(|it| it.reseal);
    if asked != Some(Reseal::All) {
        return Ok(());
    }
    let count = reseal(store, objects::prefix("", "secrets")).await;
    let count = count.map_err(OpenError::Reseal)?;
    if let StoreConfig::Etcd(_) = config.store {
        let shared = reseal(store, replicas::SHARED_KEY.into()).await;
        shared.map_err(OpenError::Reseal)?;
    }
    tracing::info!(count, "rewrote every Secret with the first key");
    Ok(())
}

/// Opens the store, which reads its whole log, on a thread that may block.
async fn open_store(config: &Config, tasks: &Tasks) -> Result<Arc<dyn Store>, OpenError> {
    let data_dir = config.data_dir.clone();
    let keyring = match &config.encryption {
        None => None,
        Some(encryption) => Some(offline::read_keyring(&encryption.key_file)?),
    };
    let restoring = data_dir.join(RESTORING_DIRECTORY);
    if restoring.exists() {
        return Err(OpenError::RestoreInterrupted { path: restoring });
    }
    let opening = match config.store.clone() {
        StoreConfig::Directory => tasks.spawn_blocking("open store", move || {
            let directory = data_dir.join(STORE_DIRECTORY);
            let config = embedded::Config {
                keyring: keyring.map(Arc::new),
                terms_of: Some(terms::of_stored),
                ..embedded::Config::default()
            };
            let engine = embedded::Engine::open(&directory, config)?;
            Ok::<Arc<dyn Store>, storage::OpenError>(Arc::new(engine))
        }),
        StoreConfig::Etcd(reached) => tasks.spawn_blocking("open store", move || {
            // What replicas share opens everything else.
            let keyring = keyring.map(|keyring| keyring.covering(replicas::SHARED_KEY));
            let config = etcd::Config {
                keyring: keyring.map(Arc::new),
                ..etcd_config(reached, &data_dir)
            };
            let engine = etcd::Engine::open(config)?;
            Ok::<Arc<dyn Store>, storage::OpenError>(Arc::new(engine))
        }),
    };
    Ok(opening.await.map_err(OpenError::Panic)??)
}

fn etcd_config(reached: EtcdConfig, data_dir: &Path) -> etcd::Config {
    let EtcdConfig {
        servers,
        prefix,
        certificate_authority,
        identity,
    } = reached;
    etcd::Config {
        tls: etcd::TlsFiles {
            certificate_authority,
            identity,
        },
        prefix,
        memory: Some(data_dir.join(ETCD_MEMORY_FILE)),
        mark: Some(replicas::mark_of_set_back),
        terms_of: Some(terms::of_stored),
        ..etcd::Config::new(servers)
    }
}
