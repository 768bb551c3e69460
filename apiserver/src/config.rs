//! What a hub is told at its start.

use std::{fmt, net::IpAddr, path::PathBuf, sync::Arc, time::Duration};

use rand::{Rng as _, distr::Alphanumeric};
use spokes::Dialer;

use crate::{
    audit,
    request::{HeaderNames, share::Limits},
    tls::ServingCertificates,
};

/// How a hub is set up. Everything has a default but the directory.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the store, the keys and the certificates live. Made if absent, with access for its owner alone.
    pub data_dir: PathBuf,
    /// Seals Secrets in the store; `None` leaves them plain.
    pub encryption: Option<Encryption>,
    /// Where the store is.
    pub store: StoreConfig,
    /// Names this hub to other writers of its spokes; a backup carries it on.
    pub hub_id: String,
    /// Addresses under which the hub is reached, beside the loopback ones; they go into the serving certificate.
    pub addresses: Vec<IpAddr>,
    /// Authorities whose client certificates are users', beside the hub's own, as PEM. Read again when the file changes.
    pub client_ca_file: Option<PathBuf>,
    /// Host names under which the hub is reached, beside `localhost`; they go into the serving certificate.
    pub host_names: Vec<String>,
    /// The certificate that clients are shown in the place of the hub's own.
    pub serving: ServingCertificates,
    /// A CSV file of `token,user,uid[,"group1,group2"]`.
    pub token_file: Option<PathBuf>,
    /// A bearer token of the first administrator, in memory alone: `wheelhouse dev` prints it with the address of the fleet view.
    pub admin_token: Option<AdminToken>,
    /// The front proxies whose headers say who sends a request; `None` believes none.
    pub request_headers: Option<RequestHeaders>,
    /// The issuers whose tokens are good, with OpenID Connect.
    pub issuers: IssuersConfig,
    /// How people sign in to the fleet view at one of the issuers; `None` lets them sign in by a token alone.
    pub sign_in: Option<SignInConfig>,
    /// The webhook that knows tokens that nobody else knows.
    pub token_webhook: Option<TokenWebhook>,
    /// The cluster whose kube-apiserver carries groups of the hub as its own.
    pub host: HostConfig,
    /// What a request without credential is.
    pub anonymous: Anonymous,
    /// How much of the hub one user may have at a time.
    pub limits: Limits,
    /// How long requests are still taken once readiness fails, so that balancers notice.
    pub shutdown_delay: Duration,
    /// What is recorded of requests, and where. Nothing by default.
    pub audit: audit::Config,
    /// Hosts at which webhooks of logical clusters below root may be called, as `host` or `host:port`. None by default.
    pub webhook_hosts: Vec<String>,
    /// Which credentials may be used for spokes, and where they may be sent.
    pub dialer: Dialer,
    /// Whether syncers in processes of their own may come.
    pub syncers: Syncers,
    /// The filter of the log, for `/debug/flags/log`; `None` has no such page.
    pub log_filter: Option<Arc<dyn LogFilter>>,
}

/// The filter of a process's log.
pub trait LogFilter: fmt::Debug + Send + Sync {
    /// Returns it, in the syntax in which it is set.
    fn get(&self) -> String;

    /// Sets it.
    ///
    /// # Errors
    /// Words about a text that is no filter; the one before stays.
    fn set(&self, filter: &str) -> Result<(), String>;
}

/// Whether syncers in processes of their own may come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Syncers {
    /// None: this process looks after everything, and shares it with nobody.
    #[default]
    Refused,
    /// They share the fleet by Leases, with those of the hub's processes that have a syncer.
    Welcome,
}

/// Which front proxies are believed, and what they say in which headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeaders {
    /// The authorities that sign the front proxies' client certificates, as PEM. Read again when the file changes.
    pub client_ca_file: PathBuf,
    /// The common names that such a certificate may have; any, if empty.
    pub allowed_names: Vec<String>,
    /// The headers.
    pub names: HeaderNames,
}

/// Whose tokens are good, with OpenID Connect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum IssuersConfig {
    /// Nobody's.
    #[default]
    None,
    /// Those of the issuers in an AuthenticationConfiguration, which is read again when it changes.
    File(PathBuf),
    /// Those of one issuer, as flags say it.
    Flags(OidcFlags),
}

/// As which client of an issuer people sign in to the fleet view.
#[derive(Clone, PartialEq, Eq)]
pub struct SignInConfig {
    /// The URL of the issuer, which is one of [`Config::issuers`].
    pub issuer: String,
    /// The client, which its tokens are for.
    pub client_id: String,
    /// Its secret, where it has one.
    pub client_secret: Option<String>,
    /// What is asked for; `openid` among it.
    pub scopes: Vec<String>,
}

impl fmt::Debug for SignInConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignInConfig")
            .field("issuer", &self.issuer)
            .field("client_id", &self.client_id)
            .finish_non_exhaustive()
    }
}

/// A webhook that reviews tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenWebhook {
    /// Says where it is, and as whom the hub asks.
    pub kubeconfig: PathBuf,
    /// How long its yes counts.
    pub good_for: Duration,
}

/// One issuer as kube-apiserver's `--oidc-*` flags say it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OidcFlags {
    /// `--oidc-issuer-url`.
    pub issuer_url: String,
    /// `--oidc-client-id`.
    pub client_id: String,
    /// The content of `--oidc-ca-file`; empty for the authorities of the machine.
    pub certificate_authority: String,
    /// `--oidc-username-claim`.
    pub username_claim: String,
    /// `--oidc-username-prefix`.
    pub username_prefix: String,
    /// `--oidc-groups-claim`.
    pub groups_claim: String,
    /// `--oidc-groups-prefix`.
    pub groups_prefix: String,
    /// `--oidc-required-claim`.
    pub required_claims: Vec<(String, String)>,
    /// `--oidc-signing-algs`.
    pub signing_algorithms: Vec<String>,
}

/// The groups of the hub itself, which a host carries.
const HOST_GROUPS: [&str; 3] = ["wheelhouse.dev", "kro.run", "internal.kro.run"];

/// The cluster whose kube-apiserver carries groups of the hub as its own, by APIServices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostConfig {
    /// Reads there which front proxies are believed, where [`Config::request_headers`] does not say it, and has tokens of its
    /// ServiceAccounts reviewed there.
    pub authentication_kubeconfig: Option<PathBuf>,
    /// Asks there what its users may, where the hub's rules say nothing.
    pub authorization_kubeconfig: Option<PathBuf>,
    /// The groups that it carries, and may say something to.
    pub groups: Vec<String>,
}

impl Default for HostConfig {
    fn default() -> Self {
        Self {
            authentication_kubeconfig: None,
            authorization_kubeconfig: None,
            groups: HOST_GROUPS.map(str::to_owned).to_vec(),
        }
    }
}

/// A bearer token of the administrator.
#[derive(Clone)]
pub struct AdminToken(String);

/// How Secrets are sealed in the store.
#[derive(Clone, Debug)]
pub struct Encryption {
    /// The key file: the first key seals, all open.
    pub key_file: PathBuf,
    /// What becomes at the start of Secrets that were written before.
    pub reseal: Reseal,
}

/// What becomes at the start of Secrets that were written before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reseal {
    /// They stay as they are: plain, or sealed with the key of their time.
    #[default]
    No,
    /// Each is written anew, sealed with the first key.
    All,
}

/// Where the store of a hub is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StoreConfig {
    /// In the data directory: for a hub that is one process.
    #[default]
    Directory,
    /// In etcd: any number of processes with the same servers and prefix are one hub.
    Etcd(EtcdConfig),
}

/// How etcd is reached, and what of it is the hub's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdConfig {
    /// The members: `http://host:port` or `https://host:port`.
    pub servers: Vec<String>,
    /// What all keys begin with.
    pub prefix: String,
    /// The file of the authority that signs the servers' certificates.
    pub certificate_authority: Option<PathBuf>,
    /// The files of this hub's certificate and key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// What becomes of a request without credential.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Anonymous {
    /// It acts as `system:anonymous`, as in Kubernetes, and RBAC decides (health and version, as it comes).
    #[default]
    Allowed,
    /// It is 401.
    Refused,
}

// === impl Config ===

impl Config {
    /// Makes a configuration with the defaults.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            encryption: None,
            store: StoreConfig::default(),
            hub_id: String::new(),
            addresses: Vec::new(),
            host_names: Vec::new(),
            client_ca_file: None,
            serving: ServingCertificates::default(),
            token_file: None,
            admin_token: None,
            request_headers: None,
            issuers: IssuersConfig::default(),
            sign_in: None,
            token_webhook: None,
            host: HostConfig::default(),
            anonymous: Anonymous::default(),
            limits: Limits::default(),
            shutdown_delay: Duration::ZERO,
            audit: audit::Config::default(),
            webhook_hosts: Vec::new(),
            dialer: Dialer::default(),
            syncers: Syncers::Refused,
            log_filter: None,
        }
    }
}

// === impl AdminToken ===

impl AdminToken {
    /// Makes a token that nobody guesses.
    pub fn random() -> Self {
        // 62 characters to choose from: 238 bits.
        let letters = rand::rng().sample_iter(Alphanumeric).take(40);
        Self(letters.map(char::from).collect())
    }

    /// The token itself, for the one who is to have it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminToken(..)")
    }
}
