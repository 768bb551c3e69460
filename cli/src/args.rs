//! The command line.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use apiserver::tls::{NamedFiles, ServingFiles};
use clap::{Args, Parser, Subcommand};

use crate::{connect::HubFlags, log::Traces, output::Format};

/// One Kubernetes API endpoint for a fleet of clusters.
#[derive(Debug, Parser)]
#[command(name = "wheelhouse", version, about, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "there is one in a process")]
pub(crate) enum Command {
    /// Run a hub with embedded spokes, a demo definition and a demo instance.
    Dev(Dev),
    /// Run a hub.
    Serve(Serve),
    /// Run a syncer of a hub, in a process of its own: it looks after spokes, together with all others that do.
    Syncer(Syncer),
    /// Join, list and remove spokes.
    #[command(subcommand)]
    Spoke(Spoke),
    /// Show the fleet: each spoke, the ones in trouble first.
    Fleet(Fleet),
    /// Print a kubeconfig for one logical cluster.
    Kubeconfig(Kubeconfig),
    /// Work on ResourceGraphDefinitions: without a cluster, or ask a hub what they would do.
    #[command(subcommand)]
    Rgd(crate::rgd::Rgd),
    /// Back a hub's store up, restore it, check it.
    #[command(subcommand)]
    Store(crate::store::args::Store),
    /// Print a script with which a shell completes commands and flags.
    Completion {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

// === impl Command ===

impl Command {
    /// Returns what is logged without `WHEELHOUSE_LOG`: the life cycle of a hub, errors of other commands.
    pub(crate) fn log_level(&self) -> &'static str {
        match self {
            Self::Serve(_) | Self::Syncer(_) => "info",
            Self::Dev(_)
            | Self::Spoke(_)
            | Self::Fleet(_)
            | Self::Kubeconfig(_)
            | Self::Rgd(_)
            | Self::Store(_)
            | Self::Completion { .. } => "error",
        }
    }

    /// Returns where the command sends spans, and what it is called there; `None` where it has no flag for it.
    pub(crate) fn traces(&self) -> Option<(&Traces, &'static str)> {
        match self {
            Self::Serve(serve) => Some((&serve.traces, "wheelhouse")),
            Self::Dev(dev) => Some((&dev.traces, "wheelhouse")),
            Self::Syncer(syncer) => Some((&syncer.traces, "wheelhouse-syncer")),
            _ => None,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Dev {
    /// Where the hub keeps its data and the kubeconfig.
    #[arg(long, value_name = "D", default_value = "wheelhouse-dev")]
    pub(crate) dir: PathBuf,
    /// How many embedded spokes there are.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) spokes: u16,
    /// The address to serve at; port 0 takes a free one.
    #[arg(long, value_name = "A:P", default_value = "127.0.0.1:6443")]
    pub(crate) listen: SocketAddr,
    /// Where to write the kubeconfig; by default into the directory.
    #[arg(long, value_name = "F")]
    pub(crate) kubeconfig_out: Option<PathBuf>,
    /// A kubeconfig file of which every context is a further spoke; may be repeated.
    #[arg(long = "spoke-kubeconfig", value_name = "F")]
    pub(crate) kubeconfig_files: Vec<PathBuf>,
    /// Leave the demo definition and instances out.
    #[arg(long)]
    pub(crate) no_demo: bool,
    /// Leave Deployments, Jobs, Pods and the like of the embedded spokes as they are, for a kube-controller-manager of your own.
    #[arg(long)]
    pub(crate) no_simulator: bool,
    #[command(flatten)]
    pub(crate) kro: crate::kro::Flags,
    #[command(flatten)]
    pub(crate) traces: Traces,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Where the hub keeps its data.
    #[arg(long, value_name = "D")]
    pub(crate) data_dir: PathBuf,
    /// The address to serve at; port 0 takes a free one.
    #[arg(long, value_name = "A:P", default_value = "127.0.0.1:6443")]
    pub(crate) listen: SocketAddr,
    /// Where to write the administrator's kubeconfig, once the hub is ready. It gets a context for each cluster that joins, for as long as
    /// nobody changes more of it than the current context.
    #[arg(long, value_name = "F")]
    pub(crate) kubeconfig_out: Option<PathBuf>,
    /// A file of keys, one `name:base64` per line, that Secrets in the store are sealed with: the first one seals, all open.
    #[arg(long, value_name = "F")]
    pub(crate) encryption_key_file: Option<PathBuf>,
    /// Write every Secret anew at the start, so that the first key seals it.
    #[arg(long, requires = "encryption_key_file")]
    pub(crate) reseal: bool,
    #[command(flatten)]
    pub(crate) certificates: Certificates,
    /// A CSV file of `token,user,uid[,"group1,group2"]`.
    #[arg(long, value_name = "F")]
    pub(crate) token_auth_file: Option<PathBuf>,
    /// A host name or address under which clients reach the hub; may be repeated.
    #[arg(long = "host", value_name = "H")]
    pub(crate) hosts: Vec<String>,
    /// A host at which admission webhooks that a tenant configures in an embedded cluster may be called, as HOST or
    /// HOST:PORT; may be repeated. Those of root may be called anywhere.
    #[arg(long = "allow-webhook-host", value_name = "H")]
    pub(crate) webhook_hosts: Vec<String>,
    #[command(flatten)]
    pub(crate) issuers: Issuers,
    #[command(flatten)]
    pub(crate) sign_in: SignIn,
    #[command(flatten)]
    pub(crate) token_webhook: TokenWebhook,
    #[command(flatten)]
    pub(crate) request_headers: RequestHeaders,
    #[command(flatten)]
    pub(crate) host_cluster: Host,
    #[command(flatten)]
    pub(crate) syncing: Syncing,
    #[command(flatten)]
    pub(crate) limits: Limits,
    #[command(flatten)]
    pub(crate) audit: crate::audit::AuditFlags,
    #[command(flatten)]
    pub(crate) traces: Traces,
    #[command(flatten)]
    pub(crate) etcd: Etcd,
    #[command(flatten)]
    pub(crate) syncers: Syncers,
}

/// Certificates of the operator's, with the names of kube-apiserver's flags.
#[derive(Debug, Args)]
pub(crate) struct Certificates {
    /// The certificate that clients are shown, followed by those that it is signed by, as PEM. Read again when it changes. By
    /// default the hub makes one, for its addresses and each --host.
    #[arg(long, value_name = "F", requires = "tls_private_key_file")]
    pub(crate) tls_cert_file: Option<PathBuf>,
    /// The private key of that certificate, as PEM.
    #[arg(long, value_name = "F", requires = "tls_cert_file")]
    pub(crate) tls_private_key_file: Option<PathBuf>,
    /// A certificate and its key for clients that ask for certain names: CERT,KEY:NAME,... with names that may begin with `*.`, or
    /// CERT,KEY for the names in the certificate. May be repeated: the first that has a name is shown. Read again when it changes.
    #[arg(long = "tls-sni-cert-key", value_name = "CERT,KEY[:NAMES]", value_parser = named_files)]
    pub(crate) named: Vec<NamedFiles>,
    /// Authorities whose client certificates are users', as PEM: the common name is the user, organizations are groups. Read again
    /// when it changes. The hub's own authority counts in any case.
    #[arg(long, value_name = "F")]
    pub(crate) client_ca_file: Option<PathBuf>,
}

/// What a syncer needs, in a hub or in a process of its own.
#[derive(Debug, Args)]
pub(crate) struct Syncing {
    #[command(flatten)]
    pub(crate) spokes: Spokes,
    /// Ask for a confirmation before more than this percentage of the children of an instance, or of all instances of a kind in a
    /// cluster, are deleted at once; 100 never asks.
    #[arg(long, value_name = "PERCENT", default_value_t = syncer::Brake::default().percent, value_parser = clap::value_parser!(u8).range(1..=100))]
    pub(crate) confirm_deletions_above: u8,
    #[command(flatten)]
    pub(crate) kro: crate::kro::Flags,
}

/// What Spokes may do.
#[derive(Debug, Clone, Args)]
pub(crate) struct Spokes {
    /// The namespace whose Secrets any Spoke may name. A Secret elsewhere must be labelled wheelhouse.dev/spoke=NAME.
    #[arg(long = "spoke-secrets-namespace", value_name = "NS", default_value = spokes::SECRETS_NAMESPACE)]
    pub(crate) secrets_namespace: String,
    /// A namespace whose Secrets of Cluster API (CLUSTER-kubeconfig) are spokes; may be repeated.
    #[arg(long = "cluster-api-namespace", value_name = "NS")]
    pub(crate) cluster_api_namespaces: Vec<String>,
    /// A kubeconfig file of which every context is a spoke; may be repeated. It is read again when it changes.
    #[arg(long = "spoke-kubeconfig", value_name = "F")]
    pub(crate) kubeconfig_files: Vec<PathBuf>,
    /// A namespace whose ClusterProfiles (KEP-4322) are spokes; may be repeated.
    #[arg(
        long = "cluster-profile-namespace",
        value_name = "NS",
        requires = "access_providers"
    )]
    pub(crate) cluster_profile_namespaces: Vec<String>,
    /// The access providers of ClusterProfiles, as a JSON file in the format of KEP-5339.
    #[arg(long = "clusterprofile-provider-file", value_name = "F")]
    pub(crate) access_providers: Option<PathBuf>,
    /// A variable of the hub's environment that credential plug-ins see, beside PATH, HOME and those of proxies and
    /// certificates; may end in `*`, and may be repeated.
    #[arg(long = "plugin-env", value_name = "NAME")]
    pub(crate) plugin_variables: Vec<String>,
    /// Publish each spoke as a ClusterProfile in this namespace of root.
    #[arg(long = "publish-cluster-profiles", value_name = "NS")]
    pub(crate) publish_profiles: Option<String>,
    /// Send credentials to spokes over http, and to servers whose certificate is not verified.
    #[arg(long = "allow-insecure-spokes")]
    pub(crate) allow_insecure: bool,
    /// How much memory, in MiB, the hub may use for what it reads of one spoke.
    #[arg(long = "spoke-memory-mib", value_name = "MIB", default_value_t = 96, value_parser = clap::value_parser!(u32).range(8..=65536))]
    pub(crate) memory_mib: u32,
}

/// How much of the hub its users may have at a time. Above it they are answered 429.
#[derive(Debug, Args)]
pub(crate) struct Limits {
    /// Connections of one user.
    #[arg(long = "max-connections-per-user", value_name = "N", default_value_t = apiserver::Limits::default().connections_per_user)]
    pub(crate) connections_per_user: u32,
    /// Open watches of one user, with logs and other requests that do not end.
    #[arg(long = "max-watches-per-user", value_name = "N", default_value_t = apiserver::Limits::default().watches_per_user)]
    pub(crate) watches_per_user: u32,
    /// Streams of one user: exec, attach, port-forward, and whatever else asks a spoke for another protocol.
    #[arg(long = "max-streams-per-user", value_name = "N", default_value_t = apiserver::Limits::default().streams_per_user)]
    pub(crate) streams_per_user: u32,
    /// Requests under way of one user.
    #[arg(long = "max-requests-per-user", value_name = "N", default_value_t = apiserver::Limits::default().requests_per_user)]
    pub(crate) requests_per_user: u32,
    /// Requests under way of all users, above which each gets a fair part.
    #[arg(long = "max-requests", value_name = "N", default_value_t = apiserver::Limits::default().requests)]
    pub(crate) requests: u32,
    /// Streams of all users, above which each gets a fair part.
    #[arg(long = "max-streams", value_name = "N", default_value_t = apiserver::Limits::default().streams)]
    pub(crate) streams: u32,
}

/// Whose tokens are good, with the names of kube-apiserver's flags.
#[derive(Debug, Args)]
pub(crate) struct Issuers {
    /// An AuthenticationConfiguration (apiserver.config.k8s.io/v1): the issuers whose tokens are good, and what their claims make of
    /// the bearer. Read again when it changes.
    #[arg(long = "authentication-config", value_name = "F")]
    pub(crate) file: Option<PathBuf>,
    /// The issuer whose tokens are good, an https URL.
    #[arg(
        long = "oidc-issuer-url",
        value_name = "URL",
        requires = "client_id",
        conflicts_with = "file"
    )]
    pub(crate) issuer_url: Option<String>,
    /// The audience that its tokens must be for.
    #[arg(long = "oidc-client-id", value_name = "ID", requires = "issuer_url")]
    pub(crate) client_id: Option<String>,
    /// The authorities that sign the issuer's certificate; by default those of the machine.
    #[arg(long = "oidc-ca-file", value_name = "F", requires = "issuer_url")]
    pub(crate) ca_file: Option<PathBuf>,
    /// The claim that is the name of the user.
    #[arg(
        long = "oidc-username-claim",
        value_name = "CLAIM",
        default_value = "sub",
        requires = "issuer_url"
    )]
    pub(crate) username_claim: String,
    /// What is put before the name. By default the URL of the issuer and #, or nothing for the claim email; - is nothing.
    #[arg(
        long = "oidc-username-prefix",
        value_name = "PREFIX",
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true,
        requires = "issuer_url"
    )]
    pub(crate) username_prefix: String,
    /// The claim that names the groups of the user.
    #[arg(
        long = "oidc-groups-claim",
        value_name = "CLAIM",
        default_value = "",
        hide_default_value = true,
        requires = "issuer_url"
    )]
    pub(crate) groups_claim: String,
    /// What is put before each group.
    #[arg(
        long = "oidc-groups-prefix",
        value_name = "PREFIX",
        default_value = "",
        hide_default_value = true,
        requires = "issuer_url"
    )]
    pub(crate) groups_prefix: String,
    /// A claim that tokens must have, with its value; may be repeated.
    #[arg(long = "oidc-required-claim", value_name = "CLAIM=VALUE", value_parser = label, requires = "issuer_url")]
    pub(crate) required_claims: Vec<(String, String)>,
    /// How tokens may be signed: RS256, RS384, RS512, PS256, PS384, PS512, ES256 or ES384.
    #[arg(
        long = "oidc-signing-algs",
        value_name = "ALGS",
        value_delimiter = ',',
        default_value = "RS256",
        requires = "issuer_url"
    )]
    pub(crate) signing_algorithms: Vec<String>,
}

/// How people sign in to the fleet view at an issuer, beside tokens that they paste.
#[derive(Debug, Args)]
pub(crate) struct SignIn {
    /// The client of the issuer as which people sign in to the fleet view, with an authorization code and PKCE. Register
    /// https://HUB/ui/ as its redirect URI.
    #[arg(id = "view_client_id", long = "view-oidc-client-id", value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// The issuer at which they sign in, by its URL; by default that of --oidc-issuer-url.
    #[arg(
        long = "view-oidc-issuer-url",
        value_name = "URL",
        requires = "view_client_id"
    )]
    pub(crate) view_issuer_url: Option<String>,
    /// A file with the secret of the client, where it has one.
    #[arg(
        long = "view-oidc-client-secret-file",
        value_name = "F",
        requires = "view_client_id"
    )]
    pub(crate) view_client_secret_file: Option<PathBuf>,
    /// What is asked of the issuer. Some put groups into a token only if they are asked for them.
    #[arg(
        long = "view-oidc-scopes",
        value_name = "SCOPES",
        value_delimiter = ',',
        default_value = "openid,email,profile",
        requires = "view_client_id"
    )]
    pub(crate) view_scopes: Vec<String>,
}

/// The webhook that knows tokens that nobody else knows, with the names of kube-apiserver's flags.
#[derive(Debug, Args)]
pub(crate) struct TokenWebhook {
    /// A kubeconfig that says where the webhook is, and as whom the hub asks it to review tokens.
    #[arg(
        id = "webhook_kubeconfig",
        long = "authentication-token-webhook-config-file",
        value_name = "F"
    )]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// How long its yes counts, such as 10s or 2m: as long may a token be good that the webhook does not let count any more.
    #[arg(
        long = "authentication-token-webhook-cache-ttl",
        value_name = "DURATION",
        default_value = "3s",
        value_parser = duration,
        requires = "webhook_kubeconfig"
    )]
    pub(crate) good_for: Duration,
    /// The version of TokenReview that it is sent.
    #[arg(
        long = "authentication-token-webhook-version",
        value_name = "V",
        default_value = "v1",
        value_parser = ["v1"],
        requires = "webhook_kubeconfig"
    )]
    pub(crate) version: String,
}

/// Which front proxies are believed, with the names of kube-apiserver's flags.
#[derive(Debug, Args)]
pub(crate) struct RequestHeaders {
    /// The authorities that sign client certificates of front proxies: over a connection with one of these, headers say who sends a
    /// request. Read again when it changes.
    #[arg(long = "requestheader-client-ca-file", value_name = "F")]
    pub(crate) proxy_ca_file: Option<PathBuf>,
    /// The common names that such a certificate may have; by default any.
    #[arg(
        long = "requestheader-allowed-names",
        value_name = "NAMES",
        value_delimiter = ',',
        requires = "proxy_ca_file"
    )]
    pub(crate) allowed_names: Vec<String>,
    /// The headers that name the user: the first that has a value. By default X-Remote-User.
    #[arg(
        long = "requestheader-username-headers",
        value_name = "HEADERS",
        value_delimiter = ',',
        requires = "proxy_ca_file"
    )]
    pub(crate) username_headers: Vec<String>,
    /// The headers that hold the user's uid: the first that has a value. By default X-Remote-Uid.
    #[arg(
        long = "requestheader-uid-headers",
        value_name = "HEADERS",
        value_delimiter = ',',
        requires = "proxy_ca_file"
    )]
    pub(crate) uid_headers: Vec<String>,
    /// The headers that name groups: all of them. By default X-Remote-Group.
    #[arg(
        long = "requestheader-group-headers",
        value_name = "HEADERS",
        value_delimiter = ',',
        requires = "proxy_ca_file"
    )]
    pub(crate) group_headers: Vec<String>,
    /// What headers of extras begin with. By default X-Remote-Extra-.
    #[arg(
        long = "requestheader-extra-headers-prefix",
        value_name = "PREFIXES",
        value_delimiter = ',',
        requires = "proxy_ca_file"
    )]
    pub(crate) extra_prefixes: Vec<String>,
}

/// The host: the cluster whose kube-apiserver carries groups of the hub as its own, by APIServices.
#[derive(Debug, Args)]
pub(crate) struct Host {
    /// A kubeconfig of the host, with which the ConfigMap kube-system/extension-apiserver-authentication is read: it says which front
    /// proxies are believed, unless --requestheader-client-ca-file does. Tokens of the host's ServiceAccounts are reviewed there.
    #[arg(long = "authentication-kubeconfig", value_name = "F")]
    pub(crate) authentication: Option<PathBuf>,
    /// A kubeconfig of the host, with which it is asked what its users may do where the hub's own rules say nothing.
    #[arg(long = "authorization-kubeconfig", value_name = "F")]
    pub(crate) authorization: Option<PathBuf>,
    /// A further group of root that the host carries, beside wheelhouse.dev, kro.run and internal.kro.run; may be repeated.
    #[arg(long = "host-group", value_name = "GROUP")]
    pub(crate) groups: Vec<String>,
}

/// How etcd is reached, with the names of kube-apiserver's flags.
#[derive(Debug, Args)]
pub(crate) struct Etcd {
    /// Keep the store in etcd, at these URLs, instead of in the data directory. Processes with the same servers and
    /// prefix are one hub.
    #[arg(long = "etcd-servers", value_name = "U", value_delimiter = ',')]
    pub(crate) servers: Vec<String>,
    /// What all keys in etcd begin with.
    #[arg(
        long = "etcd-prefix",
        value_name = "P",
        default_value = "/wheelhouse",
        requires = "servers"
    )]
    pub(crate) prefix: String,
    /// The authority that signs etcd's certificates, for https.
    #[arg(long = "etcd-cafile", value_name = "F", requires = "servers")]
    pub(crate) cafile: Option<PathBuf>,
    /// The certificate that etcd gets to see.
    #[arg(long = "etcd-certfile", value_name = "F", requires = "keyfile")]
    pub(crate) certfile: Option<PathBuf>,
    /// The key of that certificate.
    #[arg(long = "etcd-keyfile", value_name = "F", requires = "certfile")]
    pub(crate) keyfile: Option<PathBuf>,
}

/// Who looks after the spokes.
#[derive(Debug, Args)]
pub(crate) struct Syncers {
    /// Look after no spokes: other replicas over the same etcd do, or syncers in processes of their own.
    #[arg(long)]
    pub(crate) no_syncer: bool,
    /// Where to write a kubeconfig for `wheelhouse syncer`, once the hub is ready. Whoever has it is the hub, to the hub and to
    /// every spoke. It is written again at each start, and before its certificate ends.
    #[arg(long, value_name = "F")]
    pub(crate) syncer_kubeconfig_out: Option<PathBuf>,
    /// How long the certificate in it is good, such as 24h; at least 10s.
    #[arg(long, value_name = "DURATION", default_value = "8760h", value_parser = lifetime, requires = "syncer_kubeconfig_out")]
    pub(crate) syncer_kubeconfig_duration: Duration,
}

/// A syncer in a process of its own.
#[derive(Debug, Args)]
pub(crate) struct Syncer {
    /// The kubeconfig that the hub has written with --syncer-kubeconfig-out. Read again when it changes.
    #[arg(long, value_name = "KUBECONFIG")]
    pub(crate) hub: PathBuf,
    /// Where to serve /metrics, /healthz, /livez and /readyz, over http and to everybody; port 0 takes a free one, which the log names.
    #[arg(long, value_name = "A:P", default_value = "127.0.0.1:0")]
    pub(crate) metrics_bind_address: SocketAddr,
    #[command(flatten)]
    pub(crate) syncing: Syncing,
    #[command(flatten)]
    pub(crate) traces: Traces,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Spoke {
    /// Join a cluster as a spoke: copies the credential into a Secret of root.
    Add(SpokeAdd),
    /// List the spokes.
    List(SpokeList),
    /// Remove a spoke that has no instances left.
    Remove(SpokeRemove),
    /// Remove a spoke and forget its instances. Nothing is deleted in the cluster; a ConfigMap in root names what is left there.
    Abandon(SpokeAbandon),
    /// Take over what a kro ran in a spoke, without making or deleting anything there. Prints the plan; --yes carries it out.
    Migrate(SpokeMigrate),
    /// Print the Secrets by which Argo CD knows the spokes as clusters, with the labels of the spokes.
    ArgoCd(SpokeArgoCd),
}

#[derive(Debug, Args)]
pub(crate) struct SpokeArgoCd {
    /// The spokes; all by default.
    pub(crate) names: Vec<String>,
    /// A file with the bearer token that Argo CD has at the hub, or at the host that carries it; - reads standard input. It stands in
    /// the Secrets.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: PathBuf,
    /// The URL at which Argo CD reaches the hub, or the host that carries it; by default that of the kubeconfig.
    #[arg(long, value_name = "URL")]
    pub(crate) hub_url: Option<String>,
    /// The namespace of Argo CD.
    #[arg(long, short, value_name = "N", default_value = "argocd")]
    pub(crate) namespace: String,
    #[command(flatten)]
    pub(crate) hub: HubFlags,
}

#[derive(Debug, Args)]
pub(crate) struct SpokeAdd {
    /// The name of the spoke and of its logical cluster.
    pub(crate) name: String,
    /// The kubeconfig that reaches the cluster.
    #[arg(long, value_name = "KUBECONFIG")]
    pub(crate) from: PathBuf,
    /// The context in it; by default its current one.
    #[arg(long, value_name = "C")]
    pub(crate) from_context: Option<String>,
    /// A label of the spoke; may be repeated.
    #[arg(long = "label", value_name = "K=V", value_parser = label)]
    pub(crate) labels: Vec<(String, String)>,
    /// Do not contact the cluster from here first: it is the hub that must reach it.
    #[arg(long)]
    pub(crate) skip_contact: bool,
    /// Wait until the hub has it Ready, so many seconds (60 by default).
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "60")]
    pub(crate) wait: Option<u64>,
    #[command(flatten)]
    pub(crate) hub: HubFlags,
}

#[derive(Debug, Args)]
pub(crate) struct SpokeList {
    /// How to print.
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<Format>,
    #[command(flatten)]
    pub(crate) hub: HubFlags,
}

#[derive(Debug, Args)]
pub(crate) struct SpokeRemove {
    /// The name of the spoke.
    pub(crate) name: String,
    /// Delete its instances first, and their children in the cluster. Waits until that is done; a cluster that does not answer is waited for.
    #[arg(long)]
    pub(crate) drain: bool,
    #[command(flatten)]
    pub(crate) hub: HubFlags,
}

#[derive(Debug, Args)]
pub(crate) struct SpokeAbandon {
    /// The name of the spoke.
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) hub: HubFlags,
}

#[derive(Debug, Args)]
pub(crate) struct SpokeMigrate {
    /// The name of the spoke.
    pub(crate) name: String,
    /// Carry the plan out.
    #[arg(long)]
    pub(crate) yes: bool,
    /// Give the definitions of the spoke back to a kro there, which is to be started afterwards.
    #[arg(long)]
    pub(crate) back: bool,
    /// The ServiceAccount of the spoke in whose name children are written; by default that of kro's Deployment.
    #[arg(long, value_name = "NS/NAME", conflicts_with = "back")]
    pub(crate) service_account: Option<String>,
    /// How long to wait for the hub.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub(crate) timeout: u64,
    #[command(flatten)]
    pub(crate) hub: HubFlags,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Fleet {
    #[command(subcommand)]
    pub(crate) view: Option<FleetView>,
    /// How to print.
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<Format>,
    #[command(flatten)]
    pub(crate) hub: HubFlags,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FleetView {
    /// Show definitions against clusters: how many instances are ready, of how many.
    Matrix(FleetMatrix),
    /// Show the instances that are not ready, each with the node in the way.
    Waiting(FleetWaiting),
    /// Show the fleet as it changes, until it is interrupted.
    Watch(FleetWatch),
}

#[derive(Debug, Args)]
pub(crate) struct FleetMatrix {
    /// How to print.
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<Format>,
    #[command(flatten)]
    pub(crate) hub: HubFlags,
}

#[derive(Debug, Args)]
pub(crate) struct FleetWaiting {
    /// Only those of one logical cluster: `root`, or the name of a spoke.
    #[arg(long, value_name = "NAME")]
    pub(crate) cluster: Option<String>,
    /// How to print.
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<Format>,
    #[command(flatten)]
    pub(crate) hub: HubFlags,
}

#[derive(Debug, Args)]
pub(crate) struct FleetWatch {
    #[command(flatten)]
    pub(crate) hub: HubFlags,
}

#[derive(Debug, Args)]
pub(crate) struct Kubeconfig {
    /// The logical cluster: `root` or the name of a spoke.
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) hub: HubFlags,
}

fn duration(text: &str) -> Result<Duration, String> {
    let parsed = dialect::Duration::parse(text).ok_or("want a duration such as 10s or 2m")?;
    let nanos = u64::try_from(parsed.nanos()).map_err(|_negative| "want no negative duration")?;
    Ok(Duration::from_nanos(nanos))
}

fn lifetime(text: &str) -> Result<Duration, String> {
    let parsed = duration(text)?;
    if parsed < Duration::from_secs(10) {
        return Err("want at least 10s".to_owned());
    }
    Ok(parsed)
}

/// Reads a certificate for some names, as kube-apiserver writes it.
///
/// Source: `component-base/cli/flag/namedcertkey_flag.go`.
fn named_files(text: &str) -> Result<NamedFiles, String> {
    let (files, names) = match text.split_once(':') {
        Some((files, names)) => (files, names.split(',').map(str::trim).collect()),
        None => (text, Vec::new()),
    };
    let files = files.split_once(',').filter(|(_, key)| !key.contains(','));
    let (certificate, key) = files.ok_or("want CERT,KEY or CERT,KEY:NAME,...")?;
    if certificate.is_empty() || key.is_empty() || names.contains(&"") {
        return Err("a file or a name is empty: want CERT,KEY or CERT,KEY:NAME,...".to_owned());
    }
    if let Some(address) = names.iter().find(|it| it.parse::<IpAddr>().is_ok()) {
        return Err(format!(
            "{address:?} is an address: clients ask for names alone"
        ));
    }
    Ok(NamedFiles {
        files: ServingFiles {
            certificate: certificate.trim().into(),
            key: key.trim().into(),
        },
        names: names.into_iter().map(str::to_owned).collect(),
    })
}

fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("want KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

// === impl Syncing ===

impl Syncing {
    pub(crate) fn brake(&self) -> syncer::Brake {
        syncer::Brake {
            percent: self.confirm_deletions_above,
            ..syncer::Brake::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_documented_command_lines_parse() {
        for line in [
            "wheelhouse dev --dir d --spokes 3 --listen 127.0.0.1:0 --kubeconfig-out f --no-demo",
            "wheelhouse serve --data-dir d --listen 127.0.0.1:0 --kubeconfig-out f",
            "wheelhouse serve --data-dir d --spoke-kubeconfig a --spoke-kubeconfig b --cluster-api-namespace capi",
            "wheelhouse serve --data-dir d --cluster-profile-namespace a --clusterprofile-provider-file f --publish-cluster-profiles b --plugin-env AWS_*",
            "wheelhouse serve --data-dir d --max-watches-per-user 100 --max-requests-per-user 50 --max-requests 400",
            "wheelhouse syncer --hub f --metrics-bind-address 0.0.0.0:8080 --spoke-kubeconfig a --confirm-deletions-above 30",
            "wheelhouse serve --data-dir d --no-syncer --syncer-kubeconfig-out f --syncer-kubeconfig-duration 24h",
            "wheelhouse spoke migrate east --back --yes",
            "wheelhouse spoke migrate east --service-account kro-system/kro",
            "wheelhouse serve --data-dir d --feature-gates=CELOmitFunction=true --allow-crd-deletion --rgd-max-graph-revisions=8 --kro-version v0.9.3",
            "wheelhouse dev --allow-crd-deletion=true --rgd-max-collection-size 50 --rgd-max-collection-dimension-size 3",
            "wheelhouse rgd lint --feature-gates CELOmitFunction=true a.yaml",
            "wheelhouse spoke add east --from k --from-context c --label a=b --label c=d --server https://h",
            "wheelhouse spoke add east --from k --skip-contact --wait",
            "wheelhouse spoke add east --from k --wait=90",
            "wheelhouse spoke list -o wide --kubeconfig f --context c",
            "wheelhouse spoke remove east",
            "wheelhouse kubeconfig east --kubeconfig f",
            "wheelhouse rgd validate a.yaml b.yaml --schemas d",
            "wheelhouse rgd graph a.yaml --name web -o svg",
            "wheelhouse completion zsh",
            "wheelhouse fleet",
            "wheelhouse fleet -o wide --kubeconfig f",
            "wheelhouse fleet matrix -o json --server https://h",
            "wheelhouse fleet watch --context c",
            "wheelhouse store backup --out f --kubeconfig f --encryption-key-file k",
            "wheelhouse store restore --from f --data-dir d --epoch 107 --suspend-spokes",
            "wheelhouse serve --data-dir d --encryption-key-file k --reseal",
            "wheelhouse store backup --out f --data-dir d",
            "wheelhouse store check --data-dir d -o json --encryption-key-file k",
            "wheelhouse store confirm-restore east west --unknown keep",
            "wheelhouse store confirm-restore --all --unknown delete",
            "wheelhouse store finish-restore --kubeconfig f",
        ] {
            let parsed = Arguments::try_parse_from(line.split(' '));
            assert!(parsed.is_ok(), "{line}: {parsed:?}");
        }
    }
}
