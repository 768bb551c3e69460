//! A real spoke: etcd, kube-apiserver and kube-controller-manager on loopback, with RBAC and
//! ServiceAccount admission on. Ready after about three seconds.

use std::{net::SocketAddr, path::PathBuf, process::Command, time::Duration};

use crate::{
    assets, collector,
    kubectl::Kubectl,
    pki::{self, Authority, Pair},
    process::{Process, Scratch, free_port},
    wait::within,
};

/// How long a cluster may take to start, on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(90);

/// The file of the audit log.
const AUDIT_LOG: &str = "audit.log";

/// What to run, and how hard it may be driven.
#[expect(
    clippy::struct_excessive_bools,
    reason = "switches that have nothing to do with each other"
)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Leaves kube-controller-manager out: benchmarks of objects that need no controller.
    pub without_controllers: bool,
    /// Lifts the request limits of kube-apiserver, as throughput tests want.
    pub unthrottled: bool,
    /// Carries extension API servers, as a front proxy with a certificate of its own ([`Spoke::front_proxy`]).
    pub aggregates: bool,
    /// Writes an audit log ([`Spoke::audit_log`]) by the policy of the fixtures ([`AUDIT_POLICY`]).
    pub audited: bool,
    /// Calls itself so in the tokens of its ServiceAccounts, and says where its keys are.
    pub issuer: Option<&'static str>,
    /// Sends its spans there, of those requests alone whose senders ask for it.
    pub traces: Option<SocketAddr>,
}

/// The audit policy of trials.
pub const AUDIT_POLICY: &str = include_str!("../fixtures/audit-policy.yaml");

/// A running spoke. Dropping it ends its processes and removes its folder.
#[derive(Debug)]
pub struct Spoke {
    name: String,
    server: String,
    kubeconfig: PathBuf,
    authority: Authority,
    api_command: Command,
    etcd_command: Command,
    etcd_port: u16,
    // In the order in which they are dropped: what depends on another goes first.
    controllers: Option<Process>,
    api: Option<Process>,
    etcd: Option<Process>,
    scratch: Scratch,
}

impl Spoke {
    /// Starts a spoke and waits until its API server is ready.
    pub async fn start(name: &str) -> Self {
        Self::start_with(name, Options::default()).await
    }

    /// [`Spoke::start`], with options.
    pub async fn start_with(name: &str, options: Options) -> Self {
        let scratch = Scratch::new(name);
        let authority = Authority::new(&format!("{name}-ca"));
        let etcd_port = free_port();
        let etcd_command = etcd_command(&scratch, etcd_port);
        let etcd = Process::start(&etcd_command, &scratch.file("etcd.log"));
        let port = free_port();
        let server = format!("https://127.0.0.1:{port}");
        let admin = authority.client("admin", Some("system:masters"));
        let text = pki::kubeconfig(name, &server, &authority.certificate(), &admin);
        let kubeconfig = scratch.write("admin.kubeconfig", text);
        let api_command = api_command(&scratch, &authority, etcd_port, port, options);
        let api = Process::start(&api_command, &scratch.file("kube-apiserver.log"));
        let mut spoke = Self {
            name: name.to_owned(),
            server,
            kubeconfig,
            authority,
            api_command,
            etcd_command,
            etcd_port,
            controllers: None,
            api: Some(api),
            etcd: Some(etcd),
            scratch,
        };
        if !options.without_controllers {
            spoke.start_controllers().await;
        }
        spoke.ready().await;
        spoke
    }

    async fn start_controllers(&mut self) {
        // They end where no kube-apiserver serves within ten seconds of their start.
        self.served().await;
        let command = controllers_command(&self.scratch, &self.kubeconfig);
        let log = self.scratch.file("kube-controller-manager.log");
        self.controllers = Some(Process::start(&command, &log));
    }

    /// Returns the name that it was started under.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the certificate of the authority that signs its own, as PEM.
    pub fn certificate(&self) -> String {
        self.authority.certificate()
    }

    /// Returns the URL of its API server.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Returns the file of the administrator's kubeconfig.
    pub const fn kubeconfig(&self) -> &PathBuf {
        &self.kubeconfig
    }

    /// Returns its certificate as a front proxy, where it is one ([`Options::aggregates`]).
    pub fn front_proxy(&self) -> Pair {
        let read = |name| std::fs::read_to_string(self.scratch.file(name)).expect("a front proxy");
        Pair {
            certificate: read("front-proxy.crt"),
            key: read("front-proxy.key"),
        }
    }

    /// Returns the file of its audit log, where it has one ([`Options::audited`]).
    pub fn audit_log(&self) -> PathBuf {
        self.scratch.file(AUDIT_LOG)
    }

    /// Writes a file beside its own, which goes with it.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        self.scratch.write(name, text)
    }

    /// Writes a kubeconfig for another user of this spoke.
    pub fn kubeconfig_for(&self, user: &str, group: Option<&str>) -> PathBuf {
        let client = self.authority.client(user, group);
        let text = pki::kubeconfig(
            &self.name,
            &self.server,
            &self.authority.certificate(),
            &client,
        );
        self.scratch.write(&format!("{user}.kubeconfig"), text)
    }

    /// kubectl as this spoke's administrator, directly and not through a hub.
    pub fn kubectl(&self) -> Kubectl {
        Kubectl::new(&self.kubeconfig)
    }

    /// Ends kube-apiserver, as if the spoke had gone away.
    pub fn stop_api(&mut self) {
        self.api = None;
    }

    /// Starts kube-apiserver again, with further arguments.
    pub async fn restart_with(&mut self, arguments: &[String]) {
        self.stop_api();
        self.api_command.args(arguments);
        self.start_api().await;
    }

    /// Starts kube-apiserver again, at the same address, and waits until it is ready. The controllers start anew: they would go on
    /// up to a minute later, after a pause that grew while it was away.
    pub async fn start_api(&mut self) {
        let log = self.scratch.file("kube-apiserver.log");
        self.api = Some(Process::start(&self.api_command, &log));
        if self.controllers.take().is_some() {
            self.start_controllers().await;
        }
        self.ready().await;
    }

    /// Returns the folder of etcd's data.
    pub fn etcd_data(&self) -> PathBuf {
        self.scratch.file("etcd")
    }

    /// Returns the port of etcd on loopback.
    pub const fn etcd_port(&self) -> u16 {
        self.etcd_port
    }

    /// Ends kube-apiserver and etcd as a power cut would, and starts both again, without a wait.
    pub fn power_cycle(&mut self) {
        // Both are gone before one starts: an etcd that holds much takes a while to let go of its port.
        self.api = None;
        self.etcd = None;
        let log = self.scratch.file("etcd.log");
        self.etcd = Some(Process::start(&self.etcd_command, &log));
        let log = self.scratch.file("kube-apiserver.log");
        self.api = Some(Process::start(&self.api_command, &log));
    }

    /// The process of kube-apiserver.
    ///
    /// # Panics
    ///
    /// While it is stopped.
    pub fn api(&self) -> &Process {
        self.api.as_ref().expect("kube-apiserver runs")
    }

    /// The process of kube-controller-manager.
    ///
    /// # Panics
    ///
    /// Where the spoke was started without.
    pub fn controllers(&self) -> &Process {
        self.controllers
            .as_ref()
            .expect("the spoke has controllers")
    }

    /// The process of etcd.
    pub fn etcd(&self) -> &Process {
        self.etcd.as_ref().expect("etcd runs")
    }

    async fn served(&self) {
        let kubectl = self.kubectl();
        within(PATIENCE, "the spoke is served", || async {
            let api = self.api();
            assert!(api.runs(), "kube-apiserver ended:\n{}", tail(&api.log()));
            let etcd = self.etcd();
            assert!(etcd.runs(), "etcd ended:\n{}", tail(&etcd.log()));
            kubectl.run(&["get", "--raw", "/readyz"]).await.ok()?;
            kubectl.run(&["get", "namespace", "default"]).await.ok()?;
            Ok(())
        })
        .await;
    }

    async fn ready(&self) {
        self.served().await;
        let Some(controllers) = &self.controllers else {
            return;
        };
        let kubectl = self.kubectl();
        within(PATIENCE, "the spoke is ready", || async {
            let log = || tail(&controllers.log());
            assert!(
                controllers.runs(),
                "kube-controller-manager ended:\n{}",
                log()
            );
            // ServiceAccount admission refuses Pods before the controller made this one.
            let account = ["get", "serviceaccount", "default"];
            kubectl.run(&account).await.ok()?;
            Ok(())
        })
        .await;
    }
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let (_, last) = lines.split_at(lines.len().saturating_sub(15));
    last.join("\n")
}

fn etcd_command(scratch: &Scratch, port: u16) -> Command {
    let url = format!("http://127.0.0.1:{port}");
    let mut command = Command::new(assets::folder().join("etcd"));
    command.arg("--data-dir").arg(scratch.file("etcd"));
    command.args([
        "--listen-client-urls",
        &url,
        "--advertise-client-urls",
        &url,
    ]);
    command.args([
        "--listen-peer-urls",
        "http://127.0.0.1:0",
        "--log-level",
        "warn",
    ]);
    command
}

fn api_command(
    scratch: &Scratch,
    authority: &Authority,
    etcd_port: u16,
    port: u16,
    options: Options,
) -> Command {
    let serving = authority.serving();
    let ca = scratch.write("ca.crt", authority.certificate());
    let (public, private) = pki::account_key();
    let account_key = scratch.write("service-account.key", private);
    let mut command = Command::new(assets::folder().join("kube-apiserver"));
    command.args([
        "--bind-address",
        "127.0.0.1",
        "--authorization-mode",
        "RBAC",
    ]);
    command.args([
        "--service-cluster-ip-range",
        "10.0.0.0/24",
        "--allow-privileged",
    ]);
    let issuer = options.issuer.unwrap_or("https://kubernetes.default.svc");
    command.args(["--service-account-issuer", issuer]);
    if options.issuer.is_some() {
        command.arg(format!(
            "--service-account-jwks-uri=https://127.0.0.1:{port}/openid/v1/jwks"
        ));
    }
    command.arg(format!("--etcd-servers=http://127.0.0.1:{etcd_port}"));
    command.arg(format!("--secure-port={port}"));
    command.arg("--cert-dir").arg(scratch.file("certificates"));
    command
        .arg("--tls-cert-file")
        .arg(scratch.write("serving.crt", serving.certificate));
    command
        .arg("--tls-private-key-file")
        .arg(scratch.write("serving.key", serving.key));
    command.arg("--client-ca-file").arg(ca);
    command
        .arg("--service-account-key-file")
        .arg(scratch.write("service-account.pub", public));
    command
        .arg("--service-account-signing-key-file")
        .arg(&account_key);
    if options.audited {
        let policy = scratch.write("audit-policy.yaml", AUDIT_POLICY);
        command.arg("--audit-policy-file").arg(policy);
        command.arg("--audit-log-path").arg(scratch.file(AUDIT_LOG));
    }
    if let Some(address) = options.traces {
        let text = collector::configuration(&address.to_string());
        let file = scratch.write("tracing.yaml", text);
        command.arg("--tracing-config-file").arg(file);
    }
    if options.aggregates {
        carry(&mut command, scratch);
    }
    if options.unthrottled {
        command.args([
            "--enable-priority-and-fairness=false",
            "--max-requests-inflight=800",
        ]);
        command.arg("--max-mutating-requests-inflight=400");
    }
    command
}

/// Lets kube-apiserver carry extension API servers. Its common name is kubeadm's.
fn carry(command: &mut Command, scratch: &Scratch) {
    let authority = Authority::new("front-proxy-ca");
    let client = authority.client("front-proxy-client", None);
    let file = |name, text| scratch.write(name, text);
    command
        .arg("--requestheader-client-ca-file")
        .arg(file("front-proxy-ca.crt", authority.certificate()))
        .arg("--proxy-client-cert-file")
        .arg(file("front-proxy.crt", client.certificate))
        .arg("--proxy-client-key-file")
        .arg(file("front-proxy.key", client.key));
    command.args([
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-uid-headers=X-Remote-Uid",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
    ]);
}

fn controllers_command(scratch: &Scratch, kubeconfig: &PathBuf) -> Command {
    let mut command = Command::new(assets::folder().join("kube-controller-manager"));
    command.arg("--kubeconfig").arg(kubeconfig);
    command.args([
        "--leader-elect=false",
        "--use-service-account-credentials=false",
    ]);
    command
        .arg("--service-account-private-key-file")
        .arg(scratch.file("service-account.key"));
    command.arg("--root-ca-file").arg(scratch.file("ca.crt"));
    command.args(["--bind-address", "127.0.0.1", "--secure-port=0"]);
    command.arg(concat!(
        "--controllers=*,-nodeipam,-route,-service-lb-controller,",
        "-cloud-node-lifecycle-controller"
    ));
    command
}
