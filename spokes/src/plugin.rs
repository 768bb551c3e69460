//! Credential plug-ins: programs that the operator of a hub names, and that print a credential.
//!
//! # Invariants
//! - Which program runs, and with which arguments, is the operator's alone to say: nothing that is stored in the hub, and
//!   nothing that a cluster says, is part of it, except what the protocol hands over in `KUBERNETES_EXEC_INFO`.
//! - A program that hangs or prints without end is ended, with whatever it started in its process group, and harms the one spoke
//!   that it was asked for. Those that one source of clusters asks for hold up no other source.
//! - A program sees of the hub's environment what the operator lets it see.
//! - What a program prints is in no message.
//!
//! Source: KEP-541, `client-go/plugin/pkg/client/auth/exec/exec.go`.

use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use api::LogicalCluster;
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tokio::{
    io::AsyncReadExt as _,
    process::{Child, Command},
    sync::Semaphore,
    time::{Instant, timeout},
};

/// How long a program may take. Those of clouds ask their API for a token.
const PATIENCE: Duration = Duration::from_secs(30);
/// What the protocol hands over in.
pub(crate) const INFO: &str = "KUBERNETES_EXEC_INFO";
/// The kind of what is handed over and printed.
const KIND: &str = "ExecCredential";
/// How much a program may print: a certificate and its key have some kilobytes.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;
/// How long before its end a credential is replaced. Source: the clock of the cluster may be ahead of ours.
const RENEWAL: jiff::SignedDuration = jiff::SignedDuration::from_secs(60);

/// How many runs of a program for one source of clusters there may be at once. Full: the next one waits for a place, as long as a program may
/// take.
const PROGRAM_COUNT_MAX: usize = 16;
/// How soon a program may be run again, though the cluster refused what it gave.
const REJECTION_PAUSE: Duration = Duration::from_secs(10);
/// How often the program of one spoke is run, after a burst: whoever describes a cluster may change that without end.
const RUN_INTERVAL: Duration = Duration::from_secs(10);
/// How many runs for one spoke may follow each other.
const RUN_BURST: u32 = 5;

/// What of the hub's environment every program sees: where programs, homes, proxies and certificates are. None of it is a
/// credential, except where an operator puts one into the URL of a proxy, which is for programs.
pub(crate) const PASSED: [&str; 23] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "TMP",
    "TEMP",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "XDG_DATA_HOME",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
];

/// Runs programs, and keeps what they give for as long as it may be used.
pub(crate) struct Issuer {
    /// By spoke. Guards the map; never held across an await.
    spokes: Mutex<HashMap<LogicalCluster, Asked>>,
    /// By source of clusters and program: both are the operator's to name. Guards the map.
    places: Mutex<HashMap<(String, String), Arc<Semaphore>>>,
    environment: Environment,
}

/// What of the hub's environment programs see.
#[derive(Debug, Default)]
struct Environment {
    variables: Vec<(OsString, OsString)>,
}

/// What was asked for a spoke.
struct Asked {
    kept: Option<Kept>,
    /// Why the last run failed, if it did.
    failed: Option<String>,
    /// How many runs may follow now.
    left: u32,
    /// Since when there is one less than there may be.
    since: Instant,
}

struct Kept {
    plugin: Plugin,
    issued: Issued,
    since: Instant,
}

/// A program that runs. It ends with this, and so does what it has started.
struct Running {
    child: Child,
    group: Option<Pid>,
}

/// A program and how it is run.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Plugin {
    /// The version of the protocol.
    pub(crate) api_version: String,
    pub(crate) command: String,
    pub(crate) args: Vec<String>,
    /// What is set in its environment, beside that of the hub.
    pub(crate) env: Vec<(String, String)>,
    /// What it is told of the cluster.
    pub(crate) cluster: Option<Value>,
}

/// What a program has printed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Issued {
    /// The user of a kubeconfig, with the credential in it.
    pub(crate) user: Value,
    /// When it is to be replaced.
    pub(crate) renew_at: Option<jiff::Timestamp>,
}

/// Why a program gave no credential.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PluginFault {
    #[error("plug-in {0:?} cannot be started: {1}")]
    Start(String, #[source] std::io::Error),
    #[error("plug-in {0:?} did not end within {PATIENCE:?}")]
    Slow(String),
    #[error(
        "plug-in {0:?} is not run yet: {PROGRAM_COUNT_MAX} others of this source run, and none ended within {PATIENCE:?}"
    )]
    Busy(String),
    #[error(
        "plug-in {0:?} is not run yet: after {RUN_BURST} times in a row it is run every {RUN_INTERVAL:?}"
    )]
    Often(String),
    /// It failed, and is not run again yet.
    #[error("{0}")]
    Still(String),
    #[error("plug-in {0:?} failed ({1}); run it by hand to see why")]
    Failed(String, std::process::ExitStatus),
    #[error("plug-in {0:?} printed more than {OUTPUT_BYTES_MAX} bytes")]
    Endless(String),
    #[error("plug-in {0:?} printed no ExecCredential of {1}")]
    NoCredential(String, String),
}

// === impl Issuer ===

impl Issuer {
    /// Makes one whose programs see the variables that all see, and those of these names; a name may end in `*`.
    pub(crate) fn new(passed: &[String]) -> Self {
        Self {
            spokes: Mutex::default(),
            places: Mutex::default(),
            environment: Environment::of(std::env::vars_os(), passed),
        }
    }

    /// Returns the credential of a spoke that a plug-in gives: the one that it gave, until that ends.
    ///
    /// # Errors
    /// Why the plug-in gave none.
    pub(crate) async fn issue(
        &self,
        spoke: &LogicalCluster,
        source: &str,
        plugin: Plugin,
    ) -> Result<Issued, PluginFault> {
        if let Some(issued) = self.kept(spoke, &plugin) {
            return Ok(issued);
        }
        let name = || plugin.command.clone();
        let places = self.places(source, &plugin.command);
        let place = timeout(PATIENCE, places.acquire()).await;
        let _place = place.map_err(|_elapsed| PluginFault::Busy(name()))?;
        if let Err(failed) = self.spend(spoke, Instant::now()) {
            return Err(failed.map_or_else(|| PluginFault::Often(name()), PluginFault::Still));
        }
        let issued = plugin.run(&self.environment).await;
        if let Some(asked) = self.spokes.lock().get_mut(spoke) {
            asked.failed = issued.as_ref().err().map(ToString::to_string);
            if let Ok(issued) = &issued {
                asked.kept = Some(Kept {
                    plugin,
                    issued: issued.clone(),
                    since: Instant::now(),
                });
            }
        }
        issued
    }

    fn kept(&self, spoke: &LogicalCluster, plugin: &Plugin) -> Option<Issued> {
        let spokes = self.spokes.lock();
        let kept = spokes.get(spoke)?.kept.as_ref()?;
        let is_good = kept.plugin == *plugin && !kept.issued.is_due(jiff::Timestamp::now());
        is_good.then(|| kept.issued.clone())
    }

    fn places(&self, source: &str, command: &str) -> Arc<Semaphore> {
        let mut places = self.places.lock();
        let of_source = places
            .entry((source.to_owned(), command.to_owned()))
            .or_insert_with(|| Arc::new(Semaphore::new(PROGRAM_COUNT_MAX)));
        Arc::clone(of_source)
    }

    /// Takes a run from those of a spoke. The error, where there is none left, is why the last one failed, if it did.
    fn spend(&self, spoke: &LogicalCluster, now: Instant) -> Result<(), Option<String>> {
        let mut spokes = self.spokes.lock();
        let asked = spokes.entry(spoke.clone()).or_insert(Asked {
            kept: None,
            failed: None,
            left: RUN_BURST,
            since: now,
        });
        if asked.spend(now) {
            Ok(())
        } else {
            Err(asked.failed.clone())
        }
    }

    /// Notes that the cluster refused the credential of a spoke. Returns whether a plug-in is to be asked for another one, which
    /// is not done often.
    ///
    /// Source: client-go, `exec.go` (a 401 refreshes the credential).
    pub(crate) fn reject(&self, spoke: &LogicalCluster, now: Instant) -> bool {
        let mut spokes = self.spokes.lock();
        let Some(asked) = spokes.get_mut(spoke) else {
            return false;
        };
        let is_old = |kept: &mut Kept| now.duration_since(kept.since) >= REJECTION_PAUSE;
        asked.kept.take_if(is_old).is_some()
    }

    /// Forgets a spoke that is gone.
    pub(crate) fn forget(&self, spoke: &LogicalCluster) {
        self.spokes.lock().remove(spoke);
    }
}

// === impl Asked ===

impl Asked {
    /// Takes a run, if there is one left.
    fn spend(&mut self, now: Instant) -> bool {
        while self.left < RUN_BURST && now >= self.since + RUN_INTERVAL {
            self.left += 1;
            self.since += RUN_INTERVAL;
        }
        if self.left == RUN_BURST {
            self.since = now;
        }
        let is_left = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_left
    }
}

// === impl Environment ===

impl Environment {
    fn of(all: impl Iterator<Item = (OsString, OsString)>, passed: &[String]) -> Self {
        let is_passed = |name: &OsStr| {
            let Some(name) = name.to_str() else {
                return false;
            };
            PASSED.contains(&name)
                || passed.iter().any(|it| match it.strip_suffix('*') {
                    Some(start) => name.starts_with(start),
                    None => it == name,
                })
        };
        Self {
            variables: all.filter(|(name, _)| is_passed(name)).collect(),
        }
    }
}

// === impl Running ===

impl Running {
    fn start(command: &mut Command) -> std::io::Result<Self> {
        // A group of its own: what the program starts can be ended with it.
        let child = command.process_group(0).kill_on_drop(true).spawn()?;
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let group = id.and_then(Pid::from_raw);
        Ok(Self { child, group })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            // It fails where nothing is left of the group.
            let _is_left = kill_process_group(group, Signal::KILL);
        }
    }
}

// === impl Plugin ===

impl Plugin {
    /// Reads the `exec` of a kubeconfig's user. `None` for what names no program.
    pub(crate) fn parse(exec: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let items = |field: &str| exec[field].as_array().into_iter().flatten();
        Some(Self {
            api_version: text(&exec["apiVersion"])?,
            command: text(&exec["command"])?,
            args: items("args").filter_map(text).collect(),
            env: items("env")
                .filter_map(|it| Some((text(&it["name"])?, text(&it["value"])?)))
                .collect(),
            cluster: None,
        })
    }

    /// Runs the program and reads what it prints.
    ///
    /// # Cancel safety
    /// Dropping the future ends the program.
    async fn run(&self, environment: &Environment) -> Result<Issued, PluginFault> {
        let name = || self.command.clone();
        match timeout(PATIENCE, self.output(environment)).await {
            Ok(output) => self.read(&output?),
            Err(_elapsed) => Err(PluginFault::Slow(name())),
        }
    }

    async fn output(&self, environment: &Environment) -> Result<Vec<u8>, PluginFault> {
        let name = || self.command.clone();
        let start = |error| PluginFault::Start(name(), error);
        let mut command = Command::new(&self.command);
        command
            .args(&self.args)
            .env_clear()
            .envs(
                environment
                    .variables
                    .iter()
                    .map(|(name, value)| (name, value)),
            )
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .env(INFO, self.info().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut running = Running::start(&mut command).map_err(start)?;
        let mut output = Vec::new();
        if let Some(stdout) = running.child.stdout.take() {
            let mut bounded = stdout.take(OUTPUT_BYTES_MAX + 1);
            bounded.read_to_end(&mut output).await.map_err(start)?;
        }
        if output.len() as u64 > OUTPUT_BYTES_MAX {
            return Err(PluginFault::Endless(name()));
        }
        let status = running.child.wait().await.map_err(start)?;
        if status.success() {
            Ok(output)
        } else {
            Err(PluginFault::Failed(name(), status))
        }
    }

    fn info(&self) -> Value {
        let mut info = json!({
            "apiVersion": self.api_version, "kind": KIND, "spec": {"interactive": false},
        });
        if let Some(cluster) = &self.cluster {
            info["spec"]["cluster"] = cluster.clone();
        }
        info
    }

    fn read(&self, output: &[u8]) -> Result<Issued, PluginFault> {
        let wrong = || PluginFault::NoCredential(self.command.clone(), self.api_version.clone());
        let printed: Value = serde_json::from_slice(output).map_err(|_unsaid| wrong())?;
        if printed["apiVersion"] != self.api_version.as_str() || printed["kind"] != KIND {
            return Err(wrong());
        }
        let status = &printed["status"];
        let text = |field: &str| status[field].as_str().filter(|it| !it.is_empty());
        let mut user = json!({});
        if let Some(token) = text("token") {
            user["token"] = json!(token);
        }
        if let (Some(certificate), Some(key)) =
            (text("clientCertificateData"), text("clientKeyData"))
        {
            user["client-certificate-data"] = json!(encoded(certificate));
            user["client-key-data"] = json!(encoded(key));
        }
        if user.as_object().is_none_or(serde_json::Map::is_empty) {
            return Err(wrong());
        }
        let expires = match &status["expirationTimestamp"] {
            Value::Null => None,
            said => Some(
                said.as_str()
                    .and_then(api::meta::parse_time)
                    .ok_or_else(wrong)?,
            ),
        };
        Ok(Issued {
            user,
            renew_at: expires.map(|end| end.saturating_sub(RENEWAL).unwrap_or(end)),
        })
    }
}

// === impl Issued ===

impl Issued {
    /// Whether it is to be used no longer.
    pub(crate) fn is_due(&self, now: jiff::Timestamp) -> bool {
        self.renew_at.is_some_and(|at| at <= now)
    }
}

fn encoded(text: &str) -> String {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    STANDARD.encode(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION: &str = "client.authentication.k8s.io/v1";

    fn shell(script: &str) -> Plugin {
        let exec = json!({"apiVersion": VERSION, "command": "sh", "args": ["-c", script],
            "env": [{"name": "WHO", "value": "east"}]});
        Plugin::parse(&exec).expect("it names a program")
    }

    async fn run(plugin: &Plugin) -> Result<Issued, PluginFault> {
        let environment = Environment::of(std::env::vars_os(), &[]);
        plugin.run(&environment).await
    }

    fn token(token: &str) -> String {
        format!(
            r#"echo '{{"apiVersion": "{VERSION}", "kind": "{KIND}", "status": {{"token": "{token}"}}}}'"#
        )
    }

    #[tokio::test]
    async fn what_a_program_prints_is_a_credential_or_a_fault_that_does_not_show_it() {
        let status = |status: &str| {
            format!(
                r#"echo '{{"apiVersion": "{VERSION}", "kind": "ExecCredential", "status": {{{status}}}}}'"#
            )
        };
        let none = || Err("printed no ExecCredential");
        let pair = r#""clientCertificateData": "c", "clientKeyData": "k""#;
        for (name, script, want) in [
            (
                "a token",
                status(r#""token": "hunter2""#),
                Ok(json!({"token": "hunter2"})),
            ),
            (
                "a certificate",
                status(pair),
                Ok(json!({"client-certificate-data": "Yw==", "client-key-data": "aw=="})),
            ),
            ("half of one", status(r#""clientKeyData": "k""#), none()),
            ("nothing in it", status(""), none()),
            (
                "another version",
                status(r#""token": "hunter2""#).replace("/v1", "/v1beta1"),
                none(),
            ),
            (
                "another kind",
                status(r#""token": "hunter2""#).replace(KIND, "Secret"),
                none(),
            ),
            (
                "an end that is no time",
                status(r#""token": "hunter2", "expirationTimestamp": "soon""#),
                none(),
            ),
            (
                "an end before all time",
                status(r#""token": "hunter2", "expirationTimestamp": "-009999-01-02T01:59:59Z""#),
                Ok(json!({"token": "hunter2"})),
            ),
            ("no JSON", "echo hunter2".to_owned(), none()),
            (
                "a failure",
                "echo hunter2; exit 3".to_owned(),
                Err("failed (exit status: 3)"),
            ),
            ("no end", "yes hunter2".to_owned(), Err("printed more than")),
        ] {
            let got = run(&shell(&script)).await;
            match want {
                Ok(user) => assert_eq!(got.map(|it| it.user).ok(), Some(user), "{name}"),
                Err(said) => {
                    let error = got.err().expect(name).to_string();
                    assert!(
                        error.contains(said) && !error.contains("hunter2"),
                        "{name}: {error}"
                    );
                }
            }
        }
    }

    #[tokio::test]
    async fn a_credential_is_asked_for_once_until_it_ends_or_is_refused() {
        let folder = std::env::temp_dir().join(format!("wheelhouse-issuer-{}", std::process::id()));
        let count = || std::fs::read_to_string(&folder).unwrap_or_default().len();
        let script = format!("printf x >> {}; {}", folder.display(), token("t"));
        let issuer = Issuer::new(&[]);
        let east: LogicalCluster = "east".parse().expect("a name");
        let issue = async || {
            let issued = issuer.issue(&east, "file", shell(&script)).await;
            issued.expect("a token")
        };
        issue().await;
        issue().await;
        assert_eq!(count(), 1, "it is kept");
        let now = Instant::now();
        assert!(!issuer.reject(&east, now), "not so soon");
        let later = now + REJECTION_PAUSE;
        assert!(issuer.reject(&east, later), "it was refused");
        assert!(!issuer.reject(&east, later), "once");
        issue().await;
        assert_eq!(count(), 2);
        std::fs::remove_file(&folder).expect("it was written");
    }

    #[tokio::test]
    async fn a_program_is_told_of_the_cluster_and_when_its_credential_ends_is_noted() {
        let mut plugin = shell(
            r#"printf '%s' "$KUBERNETES_EXEC_INFO" | sed "s|\"spec\":.*|\"status\": {\"token\": \"$WHO\", \"expirationTimestamp\": \"2026-01-01T00:10:00Z\"}}|""#,
        );
        plugin.cluster = Some(json!({"server": "https://east"}));
        assert_eq!(plugin.info()["spec"]["cluster"]["server"], "https://east");
        let issued = run(&plugin).await.expect("a credential");
        assert_eq!(issued.user, json!({"token": "east"}));
        let at = |text: &str| api::meta::parse_time(text).expect("a time");
        assert!(!issued.is_due(at("2026-01-01T00:08:59Z")));
        assert!(issued.is_due(at("2026-01-01T00:09:00Z")), "a minute before");
    }

    #[tokio::test]
    async fn a_program_sees_what_it_may_see_of_the_hubs_environment() {
        let all = [
            "PATH",
            "HOME",
            "AWS_PROFILE",
            "AWS_REGION",
            "SECRET",
            "SECRET_2",
        ];
        let all = || {
            all.iter()
                .map(|it| (OsString::from(it), OsString::from("x")))
        };
        for (passed, want) in [
            (vec![], "PATH HOME"),
            (vec!["SECRET"], "PATH HOME SECRET"),
            (vec!["AWS_*"], "PATH HOME AWS_PROFILE AWS_REGION"),
        ] {
            let passed: Vec<String> = passed.into_iter().map(str::to_owned).collect();
            let seen = Environment::of(all(), &passed).variables;
            let seen: Vec<_> = seen.iter().filter_map(|(name, _)| name.to_str()).collect();
            assert_eq!(seen.join(" "), want, "{passed:?}");
        }
        // Cargo sets this for its tests.
        assert!(std::env::var_os("CARGO_PKG_NAME").is_some());
        let script = format!("test -z \"$CARGO_PKG_NAME\" && {}", token("t"));
        assert!(run(&shell(&script)).await.is_ok(), "it does not see it");
    }

    #[tokio::test]
    async fn what_a_program_has_started_ends_with_it() {
        let file = std::env::temp_dir().join(format!("wheelhouse-group-{}", std::process::id()));
        let script = format!(
            "sleep 1000 > /dev/null & echo $! > {}; {}",
            file.display(),
            token("t")
        );
        assert!(run(&shell(&script)).await.is_ok());
        let left = std::fs::read_to_string(&file).expect("it was written");
        std::fs::remove_file(&file).expect("it was written");
        let left: i32 = left.trim().parse().expect("an id");
        let left = Pid::from_raw(left).expect("an id");
        // It is gone once whoever inherited it has looked: until then its state is that of a dead one.
        let stat = format!("/proc/{}/stat", left.as_raw_nonzero());
        let is_gone = || match std::fs::read_to_string(&stat) {
            Ok(stat) => stat.contains(") Z"),
            Err(_) => rustix::process::test_kill_process(left).is_err(),
        };
        while !is_gone() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn programs_that_hang_hold_up_no_other_source_and_no_spoke_has_them_run_without_end() {
        let issuer = Arc::new(Issuer::new(&[]));
        let spoke = |name: &str| -> LogicalCluster { name.parse().expect("a name") };
        let hanging: Vec<_> = (0..PROGRAM_COUNT_MAX)
            .map(|n| {
                let (issuer, spoke) = (Arc::clone(&issuer), spoke(&format!("hangs-{n}")));
                async move {
                    issuer
                        .issue(&spoke, "hostile", shell("sleep 1000"))
                        .await
                        .is_ok()
                }
            })
            .collect();
        let hanging = futures::future::join_all(hanging);
        let east = spoke("east");
        let others = async {
            while issuer.places("hostile", "sh").available_permits() > 0 {
                tokio::task::yield_now().await;
            }
            for n in 0..RUN_BURST {
                // Whoever describes the cluster changes that each time.
                let script = format!(": {n}; {}", token("t"));
                let issued = issuer.issue(&east, "honest", shell(&script)).await;
                assert!(issued.is_ok(), "{n}");
            }
            let often = issuer.issue(&east, "honest", shell(": more")).await;
            assert!(matches!(often, Err(PluginFault::Often(_))));
            let other = issuer
                .issue(&spoke("west"), "honest", shell(&token("t")))
                .await;
            assert!(other.is_ok(), "another spoke has its own");
        };
        tokio::select! {
            _ended = hanging => panic!("they hang"),
            () = others => {}
        }
    }
}
