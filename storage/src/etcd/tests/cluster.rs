//! Real members of etcd, on free ports and in a directory of their own. They end with the test,
//! also when it panics or is killed.

use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::{Config, free_port};

/// Members of one etcd.
#[derive(Debug)]
pub(super) struct Cluster {
    directory: tempfile::TempDir,
    members: Vec<Member>,
    options: Vec<String>,
    scheme: &'static str,
}

#[derive(Debug)]
struct Member {
    client_port: u16,
    peer_port: u16,
    process: Option<Process>,
}

/// A member that runs, and who kills it when the test cannot any more.
#[derive(Debug)]
struct Process {
    etcd: Child,
    guard: Child,
}

/// Returns where etcd is, or says visibly that it is absent.
pub(super) fn binary() -> Option<PathBuf> {
    let file = |path: PathBuf| path.is_file().then_some(path);
    let named = std::env::var_os("WHEELHOUSE_ETCD").map(PathBuf::from);
    let assets =
        std::env::var_os("KUBEBUILDER_ASSETS").map(|folder| Path::new(&folder).join("etcd"));
    let found = named.and_then(file).or_else(|| assets.and_then(file));
    let found = found.or_else(|| {
        let home = PathBuf::from(std::env::var_os("HOME")?);
        let folders = fs::read_dir(home.join(".cache/wheelhouse/assets")).ok()?;
        let mut folders: Vec<_> = folders.flatten().map(|folder| folder.path()).collect();
        folders.sort();
        folders
            .into_iter()
            .rev()
            .find_map(|folder| file(folder.join("etcd")))
    });
    if found.is_none() {
        // Past the test harness, which would hide it.
        drop(writeln!(
            std::io::stderr(),
            "skipped: no etcd (WHEELHOUSE_ETCD names one)"
        ));
    }
    found
}

// === impl Cluster ===

impl Cluster {
    /// Starts members with further options; `None` where there is no etcd on this machine.
    pub(super) fn start(count: usize, options: &[&str]) -> Option<Self> {
        Self::start_as("http", count, |_| {
            options.iter().map(|&option| option.to_owned()).collect()
        })
    }

    /// Starts members that are reached by this scheme, with options that may name its directory.
    pub(super) fn start_as(
        scheme: &'static str,
        count: usize,
        options: impl FnOnce(&Path) -> Vec<String>,
    ) -> Option<Self> {
        binary()?;
        let directory = tempfile::tempdir().unwrap();
        let options = options(directory.path());
        let member = |_| Member {
            client_port: free_port(),
            peer_port: free_port(),
            process: None,
        };
        let members = (0..count).map(member).collect();
        let mut cluster = Self {
            directory,
            members,
            options,
            scheme,
        };
        for n in 0..count {
            cluster.start_member(n);
        }
        Some(cluster)
    }

    /// A store in this etcd.
    pub(super) fn config(&self) -> Config {
        Config::new((0..self.members.len()).map(|n| self.url(n)).collect())
    }

    /// Where clients reach a member.
    pub(super) fn url(&self, n: usize) -> String {
        format!(
            "{}://127.0.0.1:{}",
            self.scheme, self.members[n].client_port
        )
    }

    /// Starts a member that does not run.
    pub(super) fn start_member(&mut self, n: usize) {
        let peer = |n: usize| format!("http://127.0.0.1:{}", self.members[n].peer_port);
        let all: Vec<_> = (0..self.members.len())
            .map(|n| format!("m{n}={}", peer(n)))
            .collect();
        let mut command = Command::new(binary().expect("it was there when the cluster began"));
        command
            .args(["--name", &format!("m{n}")])
            .arg("--data-dir")
            .arg(self.data(n))
            .args(["--listen-client-urls", &self.url(n)])
            .args(["--advertise-client-urls", &self.url(n)])
            .args(["--listen-peer-urls", &peer(n)])
            .args(["--initial-advertise-peer-urls", &peer(n)])
            .args(["--initial-cluster", &all.join(",")])
            .args(["--log-level", "error"])
            .args(&self.options)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let log = fs::File::create(self.directory.path().join(format!("m{n}.log"))).unwrap();
        let etcd = command.stderr(log).spawn().unwrap();
        self.members[n].process = Some(Process::guarded(etcd));
    }

    /// Kills a member at this moment.
    pub(super) fn kill_member(&mut self, n: usize) {
        drop(self.members[n].process.take());
    }

    /// Stops a member's time, or lets it go on.
    pub(super) fn signal_member(&self, n: usize, signal: &str) {
        let process = self.members[n].process.as_ref().expect("it runs");
        let sent = Command::new("kill")
            .args([signal, &process.etcd.id().to_string()])
            .status()
            .unwrap();
        assert!(sent.success(), "kill {signal}");
    }

    /// Gives a member another port for clients, from its next start on.
    pub(super) fn move_member(&mut self, n: usize, client_port: u16) -> u16 {
        std::mem::replace(&mut self.members[n].client_port, client_port)
    }

    /// Copies what the only member has, which must not run.
    pub(super) fn back_up(&self, name: &str) {
        copy(&self.data(0), &self.directory.path().join(name));
    }

    /// Gives the only member, which must not run, what was copied.
    pub(super) fn restore(&self, name: &str) {
        fs::remove_dir_all(self.data(0)).unwrap();
        copy(&self.directory.path().join(name), &self.data(0));
    }

    /// Takes away all that the only member has, which must not run.
    pub(super) fn empty(&self) {
        fs::remove_dir_all(self.data(0)).unwrap();
    }

    fn data(&self, n: usize) -> PathBuf {
        self.directory.path().join(format!("m{n}"))
    }
}

// === impl Process ===

impl Process {
    fn guarded(etcd: Child) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", "read _; kill -9 \"$0\"", &etcd.id().to_string()]);
        // Its input ends with this process. A group of its own: whoever kills the test's shall not take it along.
        command.stdin(Stdio::piped()).process_group(0);
        let guard = command.stderr(Stdio::null()).spawn().unwrap();
        Self { etcd, guard }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The guard first: the number of its process may soon be another's. Either may have ended by itself.
        for process in [&mut self.guard, &mut self.etcd] {
            drop(process.kill());
            drop(process.wait());
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for member in &mut self.members {
            drop(member.process.take());
        }
        if std::thread::panicking() {
            for n in 0..self.members.len() {
                let log = self.directory.path().join(format!("m{n}.log"));
                println!("m{n}: {}", fs::read_to_string(log).unwrap_or_default());
            }
        }
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        let target = to.join(file.file_name());
        if file.file_type().unwrap().is_dir() {
            copy(&file.path(), &target);
        } else {
            fs::copy(file.path(), target).unwrap();
        }
    }
}
