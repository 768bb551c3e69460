//! `wheelhouse serve`: a hub and its syncer in one process.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::unix::fs::DirBuilderExt,
    path::Path,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use api::{validation::is_label_value, wheelhouse::keys};
use apiserver::{
    EtcdConfig, Hub, IssuersConfig, LogFilter, OidcFlags, SignInConfig, StoreConfig, Syncers,
    config::{Encryption, RequestHeaders, Reseal},
    offline,
    request::{HeaderNames, UserInfo},
    tls::{ServingCertificates, ServingFiles},
};
use client::Bounds;
use spokes::{AccessProviders, Dialer, Policy, Servers};
use syncer::{Member, Metrics, Publication, Switches, WorkMetrics};
use tasks::{OnPanic, Tasks};
use tokio::{
    net::{TcpListener, TcpSocket},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::{args, kubeconfig::Published, output, process, syncer_credential::Renewal};

/// The user that writes the Leases by which replicas share the fleet.
const SHARING_USER: &str = "system:wheelhouse:sharing";

/// How long what is left may take once all connections have drained.
const GRACE: Duration = Duration::from_secs(5);

/// Connections that wait to be accepted. Full: the kernel drops the client's first packet, which is sent again after 1,
/// 3 and 7 s, so that thousands of watchers who come back together need as much as Linux allows by default.
///
/// Source: `net.core.somaxconn`, ip-sysctl.
const BACKLOG_COUNT_MAX: u32 = 4096;

/// What a syncer is told.
type Settings = (syncer::Brake, Switches, Option<Publication>, WorkMetrics);

/// A running hub, with its syncer.
pub(crate) struct Running {
    pub(crate) hub: Hub,
    pub(crate) tasks: Tasks,
    address: SocketAddr,
    /// The URL that clients use.
    pub(crate) server: String,
    serving: JoinHandle<Result<(), apiserver::tls::Error>>,
    drain: CancellationToken,
}

/// Runs a hub until it is told to stop.
pub(crate) async fn run(mut arguments: args::Serve, log: Arc<dyn LogFilter>) -> Result<()> {
    let mut config = apiserver::Config::new(&arguments.data_dir);
    config.log_filter = Some(log);
    config.client_ca_file = arguments.certificates.client_ca_file.take();
    config.serving = serving_of(arguments.certificates);
    config.token_file = arguments.token_auth_file;
    config.sign_in = sign_in_of(arguments.sign_in, arguments.issuers.issuer_url.as_deref())?;
    config.issuers = issuers_of(arguments.issuers)?;
    config.token_webhook = token_webhook_of(arguments.token_webhook);
    config.request_headers = request_headers_of(arguments.request_headers)?;
    config.host.authentication_kubeconfig = arguments.host_cluster.authentication;
    config.host.authorization_kubeconfig = arguments.host_cluster.authorization;
    config.host.groups.extend(arguments.host_cluster.groups);
    config.encryption = arguments.encryption_key_file.map(|key_file| Encryption {
        key_file,
        reseal: if arguments.reseal {
            Reseal::All
        } else {
            Reseal::No
        },
    });
    let work = if arguments.syncers.no_syncer {
        Work::Answers
    } else {
        Work::All
    };
    config.store = store_of(arguments.etcd);
    if let (Work::All, StoreConfig::Directory, Some(_)) = (
        work,
        &config.store,
        &arguments.syncers.syncer_kubeconfig_out,
    ) {
        bail!(
            "--syncer-kubeconfig-out needs --no-syncer, or --etcd-servers: a hub over a directory that has a syncer shares with no \
             other"
        );
    }
    config.dialer = dialer(&arguments.syncing.spokes)?;
    config.webhook_hosts = arguments.webhook_hosts.clone();
    config.limits = limits_of(&arguments.limits);
    config.audit = arguments.audit.config();
    for host in arguments.hosts {
        match host.parse() {
            Ok(address) => config.addresses.push(address),
            Err(_) => config.host_names.push(host),
        }
    }
    let controllers = Controllers {
        brake: arguments.syncing.brake(),
        switches: arguments.syncing.kro.switches(),
        publish_in: arguments.syncing.spokes.publish_profiles,
        work,
    };
    let running = start(config, arguments.listen, controllers).await?;
    if let Some(file) = &arguments.syncers.syncer_kubeconfig_out {
        let renewal = Renewal {
            hub: running.hub.clone(),
            server: running.server.clone(),
            file: file.clone(),
            lifetime: arguments.syncers.syncer_kubeconfig_duration,
        };
        renewal.start(&running.tasks)?;
    }
    // The last: whoever waits for it finds everything in its place.
    if let Some(file) = &arguments.kubeconfig_out {
        running.publish_kubeconfig(file)?;
    }
    info!(address = %running.address, "ready");
    // A hub goes on without anybody who reads this.
    drop(greet(&running.server, arguments.kubeconfig_out.as_deref()));
    running.until_stopped().await
}

/// Prints where the hub is, and what to type next.
fn greet(server: &str, file: Option<&Path>) -> Result<()> {
    let Some(file) = file else {
        return output::line(&format!(
            "Wheelhouse is ready at {server}, the fleet view at {server}/ui/. With --kubeconfig-out FILE it writes a kubeconfig \
             for its administrator."
        ));
    };
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let program = std::env::args().next();
    let program = program.as_deref().unwrap_or("wheelhouse");
    output::line(&format!(
        "Wheelhouse is ready at {server}. Type, in another terminal:\n\n  export KUBECONFIG='{}'\n  kubectl get spokes\n\n\
         Join a cluster:\n\n  {program} spoke add NAME --from KUBECONFIG\n\nThe fleet view asks for a token, such as that of a ServiceAccount of root that has rights \
         (docs/quickstart.md, \"Sign in to the fleet view\"):\n\n{server}/ui/",
        file.display()
    ))
}

/// Returns what dials spokes as the flags allow it.
pub(crate) fn dialer(flags: &args::Spokes) -> Result<Dialer> {
    let flags = flags.clone();
    Ok(Dialer::new(Policy {
        secrets_namespace: flags.secrets_namespace,
        cluster_api_namespaces: flags.cluster_api_namespaces,
        kubeconfig_files: flags.kubeconfig_files,
        cluster_profile_namespaces: flags.cluster_profile_namespaces,
        access_providers: match &flags.access_providers {
            Some(file) => access_providers(file)?,
            None => AccessProviders::default(),
        },
        plugin_variables: flags.plugin_variables,
        servers: if flags.allow_insecure {
            Servers::Any
        } else {
            Servers::Verified
        },
        bounds: Bounds {
            total_bytes_max: (flags.memory_mib as usize).saturating_mul(1 << 20),
            ..Bounds::SPOKE
        },
    }))
}

fn access_providers(file: &Path) -> Result<AccessProviders> {
    let context = || format!("--clusterprofile-provider-file {}", file.display());
    let text = std::fs::read_to_string(file).with_context(context)?;
    AccessProviders::parse(&text).with_context(context)
}

fn issuers_of(flags: args::Issuers) -> Result<IssuersConfig> {
    if let Some(file) = flags.file {
        return Ok(IssuersConfig::File(file));
    }
    let (Some(issuer_url), Some(client_id)) = (flags.issuer_url, flags.client_id) else {
        return Ok(IssuersConfig::None);
    };
    let certificate_authority = match &flags.ca_file {
        None => String::new(),
        Some(file) => std::fs::read_to_string(file)
            .with_context(|| format!("--oidc-ca-file {}", file.display()))?,
    };
    Ok(IssuersConfig::Flags(OidcFlags {
        issuer_url,
        client_id,
        certificate_authority,
        username_claim: flags.username_claim,
        username_prefix: flags.username_prefix,
        groups_claim: flags.groups_claim,
        groups_prefix: flags.groups_prefix,
        required_claims: flags.required_claims,
        signing_algorithms: flags.signing_algorithms,
    }))
}

fn sign_in_of(flags: args::SignIn, issuer: Option<&str>) -> Result<Option<SignInConfig>> {
    let Some(client_id) = flags.client_id else {
        return Ok(None);
    };
    let issuer = flags.view_issuer_url.as_deref().or(issuer);
    let issuer = issuer.context(
        "--view-oidc-client-id needs --view-oidc-issuer-url, where --oidc-issuer-url is not given",
    )?;
    if !flags.view_scopes.iter().any(|scope| scope == "openid") {
        bail!("--view-oidc-scopes needs openid among them: without it an issuer gives no id token");
    }
    let client_secret = match &flags.view_client_secret_file {
        None => None,
        Some(file) => {
            let text = std::fs::read_to_string(file)
                .with_context(|| format!("--view-oidc-client-secret-file {}", file.display()))?;
            Some(text.trim().to_owned())
        }
    };
    Ok(Some(SignInConfig {
        issuer: issuer.to_owned(),
        client_id,
        client_secret,
        scopes: flags.view_scopes,
    }))
}

fn token_webhook_of(flags: args::TokenWebhook) -> Option<apiserver::TokenWebhook> {
    let args::TokenWebhook {
        kubeconfig,
        good_for,
        version,
    } = flags;
    // The command line takes none but the one that is sent.
    drop(version);
    let kubeconfig = kubeconfig?;
    Some(apiserver::TokenWebhook {
        kubeconfig,
        good_for,
    })
}

fn serving_of(flags: args::Certificates) -> ServingCertificates {
    let files = flags.tls_cert_file.zip(flags.tls_private_key_file);
    ServingCertificates {
        default: files.map(|(certificate, key)| ServingFiles { certificate, key }),
        named: flags.named,
    }
}

fn request_headers_of(flags: args::RequestHeaders) -> Result<Option<RequestHeaders>> {
    let Some(client_ca_file) = flags.proxy_ca_file else {
        return Ok(None);
    };
    let names = HeaderNames::parse(
        &flags.username_headers,
        &flags.uid_headers,
        &flags.group_headers,
        &flags.extra_prefixes,
    );
    Ok(Some(RequestHeaders {
        client_ca_file,
        allowed_names: flags.allowed_names,
        names: names.context("--requestheader-*-headers")?,
    }))
}

fn limits_of(limits: &args::Limits) -> apiserver::Limits {
    apiserver::Limits {
        connections_per_user: limits.connections_per_user,
        watches_per_user: limits.watches_per_user,
        streams_per_user: limits.streams_per_user,
        requests_per_user: limits.requests_per_user,
        requests: limits.requests,
        streams: limits.streams,
    }
}

fn store_of(etcd: args::Etcd) -> StoreConfig {
    if etcd.servers.is_empty() {
        return StoreConfig::Directory;
    }
    StoreConfig::Etcd(EtcdConfig {
        servers: etcd.servers,
        prefix: etcd.prefix,
        certificate_authority: etcd.cafile,
        identity: etcd.certfile.zip(etcd.keyfile),
    })
}

// === impl Running ===

impl Running {
    /// Writes the administrator's kubeconfig: user `admin`, a context for root and one for each spoke, also of those that come
    /// later.
    pub(crate) fn publish_kubeconfig(&self, file: &Path) -> Result<()> {
        let published = Published {
            hub: self.hub.clone(),
            server: self.server.clone(),
            file: file.to_owned(),
        };
        published.start(&self.tasks)
    }

    /// Waits for SIGTERM or SIGINT, then drains, ends the controllers and closes the store. A task
    /// without which the hub cannot go on ends it in the same way, as a failure: whoever supervises
    /// the process starts it again.
    pub(crate) async fn until_stopped(mut self) -> Result<()> {
        let ended = self.tasks.token();
        let served = tokio::select! {
            stopped = process::stopped() => {
                stopped?;
                self.drain.cancel();
                (&mut self.serving).await
            }
            () = ended.cancelled() => {
                self.drain.cancel();
                (&mut self.serving).await
            }
            served = &mut self.serving => served,
        };
        served
            .context("the server stopped unexpectedly")?
            .context("cannot serve")?;
        self.tasks.shutdown(GRACE).await;
        self.hub.audit_flushed(GRACE).await;
        if let Some(task) = self.tasks.failed() {
            bail!("the task {task:?} panicked, and the hub cannot go on without it");
        }
        info!("stopped");
        Ok(())
    }

    /// A client of the hub as one of its system users, without a connection.
    pub(crate) fn client(&self, user: &str) -> kube::Client {
        client(&self.hub, user)
    }
}

fn client(hub: &Hub, user: &str) -> kube::Client {
    kube::Client::new(hub.in_process(UserInfo::system(user)), "default")
}

/// What the syncer is told by flags.
#[derive(Debug, Default)]
pub(crate) struct Controllers {
    /// When deletions wait to be confirmed.
    pub(crate) brake: syncer::Brake,
    /// kro's switches.
    pub(crate) switches: Switches,
    /// The namespace of root in which the spokes are published, if they are.
    pub(crate) publish_in: Option<String>,
    /// What this process does.
    pub(crate) work: Work,
}

/// What a process of the hub does.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// It answers requests, and looks after the fleet, or after its share of it.
    #[default]
    All,
    /// It answers requests.
    Answers,
}

/// Opens the store, starts to serve, and starts the syncer.
pub(crate) async fn start(
    mut config: apiserver::Config,
    listen: SocketAddr,
    controllers: Controllers,
) -> Result<Running> {
    let Controllers {
        brake,
        switches,
        publish_in,
        work,
    } = controllers;
    let tasks = Tasks::new();
    if !listen.ip().is_unspecified() {
        config.addresses.push(listen.ip());
    }
    let data_dir = config.data_dir.clone();
    let listener = bind(listen).with_context(|| format!("cannot listen on {listen} (--listen)"))?;
    config.hub_id = hub_id(&data_dir, &config.store)?;
    let address = listener
        .local_addr()
        .context("the listener has no address")?;
    let reached = reached(&config, address);
    let server = if address.ip().is_unspecified() {
        format!("https://{reached}")
    } else {
        format!("https://{address}")
    };
    config.syncers = if work == Work::All && config.store == StoreConfig::Directory {
        Syncers::Refused
    } else {
        Syncers::Welcome
    };
    let hub = Hub::open(config, &tasks)
        .await
        .with_context(|| format!("cannot start a hub on {}", data_dir.display()))?;
    let publication = publish_in.map(|namespace| Publication {
        namespace,
        server: format!("https://{reached}"),
        certificate_authority: hub.pki().authority.certificate_pem().as_bytes().to_vec(),
        server_name: hub.pki().server_name().map(str::to_owned),
    });
    set_previewer(&hub, brake, &switches);
    let metrics = Metrics::default();
    hub.set_other_metrics(Box::new(metrics.clone()));
    let drain = CancellationToken::new();
    let serving = {
        let (hub, drain) = (hub.clone(), drain.clone());
        tasks.spawn("serve", async move { hub.serve(listener, drain).await })
    };
    let settings = (brake, switches, publication, metrics.work);
    match (hub.is_alone(), work) {
        (true, Work::All) => look_after_all(&hub, settings, &tasks),
        (false, Work::All) => take_part(&hub, settings, metrics.share, &tasks),
        (_, Work::Answers) => {}
    }
    if !hub.is_alone() {
        take_turns(&hub, &tasks);
    }
    Ok(Running {
        hub,
        tasks,
        address,
        server,
        serving,
        drain,
    })
}

/// Lets the hub preview definitions, with the compiler and the planner of the controllers. Every replica does: nothing of what the
/// controllers know is needed.
fn set_previewer(hub: &Hub, brake: syncer::Brake, switches: &Switches) {
    let previewer = Arc::new(syncer::Previewer::new(hub.id(), brake, switches));
    hub.set_previewer(Arc::new(move |caller, home, spec| {
        let previewer = Arc::clone(&previewer);
        Box::pin(async move {
            let client = kube::Client::new(caller, "default");
            let status = previewer.preview(client, home, spec).await;
            serde_json::to_value(status).unwrap_or_default()
        })
    }));
}

/// Returns how other machines reach the hub: by the first name or address that it was given, with the port on which it
/// listens. A hub that listens everywhere and was given none is reached from its own machine, as its certificate names the
/// loopback address.
fn reached(config: &apiserver::Config, listens: SocketAddr) -> String {
    match (config.host_names.first(), config.addresses.first()) {
        (Some(name), _) => format!("{name}:{}", listens.port()),
        (None, Some(address)) => SocketAddr::new(*address, listens.port()).to_string(),
        (None, None) => {
            let loopback: IpAddr = if listens.is_ipv6() {
                Ipv6Addr::LOCALHOST.into()
            } else {
                Ipv4Addr::LOCALHOST.into()
            };
            SocketAddr::new(loopback, listens.port()).to_string()
        }
    }
}

/// Looks after everything, without Leases: the hub refuses other syncers.
fn look_after_all(hub: &Hub, settings: Settings, tasks: &Tasks) {
    let (hub, group) = (hub.clone(), tasks.clone());
    let start = async move {
        syncer::others_ended(&client(&hub, SHARING_USER), &group.child_token()).await;
        start_syncer(&hub, settings, None, &group);
    };
    // Without it there is a hub that does nothing.
    tasks.spawn_with("syncer-start", OnPanic::ShutDown, start);
}

/// Runs the API server's own controllers while no other replica does.
fn take_turns(hub: &Hub, tasks: &Tasks) {
    let (leases, looked_at, live) = (client(hub, SHARING_USER), hub.clone(), hub.clone());
    let elected = syncer::run_elected(
        leases,
        tasks.clone(),
        move || looked_at.epoch(),
        move |tasks| live.start_controllers(tasks),
    );
    tasks.spawn_with("hub-controllers", OnPanic::ShutDown, elected);
}

/// Takes part in the work that syncers share.
fn take_part(
    hub: &Hub,
    (brake, switches, publication, work): Settings,
    metrics: syncer::ShareMetrics,
    tasks: &Tasks,
) {
    let leases = client(hub, SHARING_USER);
    let (looked_at, live) = (hub.clone(), hub.clone());
    let shared = syncer::run_shared(
        leases,
        tasks.clone(),
        metrics,
        move || looked_at.epoch(),
        move |tasks, member| {
            let settings = (brake, switches.clone(), publication.clone(), work.clone());
            start_syncer(&live, settings, Some(member), tasks);
        },
    );
    // Without it nobody would notice that this replica takes part no more.
    tasks.spawn_with("shared-work", OnPanic::ShutDown, shared);
}

fn start_syncer(
    hub: &Hub,
    (brake, switches, publication, metrics): Settings,
    sharing: Option<Member>,
    tasks: &Tasks,
) {
    let config = syncer::Config {
        hub: client(hub, keys::USER_SYNCER),
        hub_id: hub.id().to_owned(),
        brake,
        switches,
        spokes: hub.spokes().clone(),
        publication,
        metrics,
        sharing,
    };
    syncer::start(config, tasks);
}

/// Listens as [`TcpListener::bind`] does, with room for more who wait.
fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // A restart must not wait for connections of before to be forgotten.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG_COUNT_MAX)
}

/// Reads the hub's name for itself, made at its first start: other writers of a spoke tell hubs
/// apart by it.
///
/// The store's directory is made before the name, so that a name without a store is one whose store is lost: an empty hub
/// of that name would delete what is in its spokes.
fn hub_id(data_dir: &Path, store: &StoreConfig) -> Result<String> {
    let file = data_dir.join(offline::HUB_ID_FILE);
    let directory = data_dir.join(offline::STORE_DIRECTORY);
    let is_embedded = *store == StoreConfig::Directory;
    match std::fs::read_to_string(&file) {
        Ok(id) if id.trim().is_empty() || !is_label_value(id.trim()).is_empty() => bail!(
            "{} does not hold the name of a hub: write the one there that the hub had, which is the label {} of what it \
             has made in its spokes",
            file.display(),
            keys::HUB
        ),
        Ok(_)
            if is_embedded
                && !directory.exists()
                && !data_dir.join(offline::RESTORING_DIRECTORY).exists() =>
        {
            bail!(
                "{} is missing, and {} says that there was one: mount it, or restore it; to begin with an empty hub, \
                 remove the file",
                directory.display(),
                file.display()
            )
        }
        Ok(id) => Ok(id.trim().to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let id = format!("{:016x}", rand::random::<u64>());
            let made = if is_embedded { &directory } else { data_dir };
            let mut builder = std::fs::DirBuilder::new();
            builder.recursive(true).mode(0o700);
            builder
                .create(made)
                .with_context(|| made.display().to_string())?;
            offline::write_hub_id(data_dir, &id).with_context(|| file.display().to_string())?;
            Ok(id)
        }
        Err(error) => Err(error).with_context(|| file.display().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long a test waits for what should come at once.
    const PATIENCE: Duration = Duration::from_secs(30);

    #[tokio::test(flavor = "multi_thread")]
    async fn a_hub_that_has_lost_a_task_it_needs_ends_and_names_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = apiserver::Config::new(folder.path());
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let running = start(config, listen, Controllers::default())
            .await
            .expect("a hub");
        let needed = async { panic!("on purpose") };
        let lost = running
            .tasks
            .spawn_with("needed", OnPanic::ShutDown, needed);
        assert!(lost.await.is_err(), "it panics");
        let ended = tokio::time::timeout(PATIENCE, running.until_stopped()).await;
        let error = ended.expect("it ends by itself").expect_err("as a failure");
        assert!(error.to_string().contains("\"needed\""), "{error}");
    }

    #[test]
    fn a_hub_that_listens_everywhere_is_reached_by_what_its_certificate_names() {
        let mut config = apiserver::Config::new("data");
        let everywhere = |text: &str| text.parse::<SocketAddr>().expect("an address");
        for (listens, want) in [
            ("0.0.0.0:6443", "127.0.0.1:6443"),
            ("[::]:6443", "[::1]:6443"),
        ] {
            assert_eq!(reached(&config, everywhere(listens)), want, "{listens}");
        }
        config
            .addresses
            .push("fd00::1".parse().expect("an address"));
        assert_eq!(
            reached(&config, everywhere("[::]:6443")),
            "[fd00::1]:6443",
            "the first address"
        );
        config.host_names.push("hub.example".to_owned());
        assert_eq!(
            reached(&config, everywhere("0.0.0.0:6443")),
            "hub.example:6443",
            "a name first"
        );
    }

    #[test]
    fn a_hub_keeps_its_name_and_does_not_begin_again_without_its_store() {
        let folder = tempfile::tempdir().expect("a folder");
        let data_dir = folder.path().join("data");
        let name = hub_id(&data_dir, &StoreConfig::Directory).expect("the first start");
        let again = hub_id(&data_dir, &StoreConfig::Directory).expect("the second start");
        assert_eq!(name, again);
        std::fs::remove_dir(data_dir.join(offline::STORE_DIRECTORY)).expect("it is lost");
        let lost = hub_id(&data_dir, &StoreConfig::Directory).expect_err("no empty hub");
        assert!(lost.to_string().contains("is missing"), "{lost}");
        for junk in ["", "no such id!"] {
            std::fs::write(data_dir.join(offline::HUB_ID_FILE), junk).expect("junk");
            let refused = hub_id(&data_dir, &StoreConfig::Directory).expect_err("no name");
            assert!(
                refused.to_string().contains("wheelhouse.dev/hub"),
                "{refused}"
            );
        }
    }
}
