//! Child processes and folders that never outlive the test.
//!
//! Each child runs below a small shell that waits on a pipe. When the test process drops its end,
//! or dies with it (also by SIGKILL), the shell kills the child, or removes the folder. Each shell leads a process
//! group of its own, so that a signal to the group of the tests (of `timeout`, or a terminal) does not reach it.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

pub use storage_conformance::ports::free_port;

/// Starts `"$@"`, prints its process id, kills it when standard input ends.
const GUARD: &str = r#"
log=$1; shift
"$@" </dev/null >>"$log" 2>&1 & child=$!
echo $child
cat >/dev/null
kill -KILL $child 2>/dev/null
wait $child 2>/dev/null
"#;

/// Removes a folder when standard input ends; tries again while a dying process writes into it.
const SWEEP: &str = r#"
cat >/dev/null
tries=0
until rm -rf "$1" 2>/dev/null || [ $tries -ge 200 ]; do tries=$((tries + 1)); sleep 0.05; done
"#;

/// One running program with its log file.
#[derive(Debug)]
pub struct Process {
    guard: Child,
    pid: u32,
    log: PathBuf,
}

impl Process {
    /// Starts `command` with its output appended to `log`.
    pub fn start(command: &Command, log: &Path) -> Self {
        File::options()
            .create(true)
            .append(true)
            .open(log)
            .expect("the log can be made");
        let mut guarded = Command::new("sh");
        guarded
            .args(["-c", GUARD, "guard"])
            .arg(log)
            .arg(command.get_program());
        guarded.args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => guarded.env(name, value),
                None => guarded.env_remove(name),
            };
        }
        if let Some(folder) = command.get_current_dir() {
            guarded.current_dir(folder);
        }
        guarded.stdin(Stdio::piped()).stdout(Stdio::piped());
        guarded.process_group(0);
        let mut guard = guarded.spawn().expect("sh can be started");
        let mut line = String::new();
        BufReader::new(guard.stdout.as_mut().expect("stdout is piped"))
            .read_line(&mut line)
            .expect("the guard tells the process id");
        let pid = line.trim().parse().expect("a process id");
        Self {
            guard,
            pid,
            log: log.to_owned(),
        }
    }

    /// Returns the process id of the program itself.
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// Sends a signal by its name, `TERM`, `KILL`, `STOP` or `CONT`.
    pub fn signal(&self, name: &str) {
        let signal = format!("-{name}");
        let sent = Command::new("kill")
            .args([&signal, &self.pid.to_string()])
            .status();
        assert!(
            sent.expect("kill can be started").success(),
            "kill {signal} {}",
            self.pid
        );
    }

    /// Returns whether the program still runs (a zombie does not).
    pub fn runs(&self) -> bool {
        fs::read_to_string(format!("/proc/{}/stat", self.pid)).is_ok_and(|stat| {
            !stat
                .rsplit(')')
                .next()
                .unwrap_or("")
                .trim_start()
                .starts_with('Z')
        })
    }

    /// Reads what the program printed so far.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Returns user and system CPU time spent so far, in milliseconds, and resident memory in bytes.
    pub fn usage(&self) -> (u64, u64) {
        usage(self.pid)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        self.guard
            .wait()
            .expect("the guard ends once its input ends");
    }
}

/// Returns user and system CPU time of a process, in milliseconds, and resident memory in bytes.
///
/// Source: `proc(5)`; clock ticks are 10 ms and pages 4 KiB on Linux x86-64 and arm64.
pub fn usage(pid: u32) -> (u64, u64) {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<u64> = stat
        .rsplit(')')
        .next()
        .unwrap_or("")
        .split_whitespace()
        .map(|field| field.parse().unwrap_or(0))
        .collect();
    let field = |index: usize| fields.get(index).copied().unwrap_or(0);
    ((field(11) + field(12)) * 10, field(21) * 4096)
}

/// A folder of the test's own, removed at its end.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    sweeper: Child,
}

impl Scratch {
    /// Makes the folder.
    pub fn new(name: &str) -> Self {
        let path = tempfile::Builder::new()
            .prefix(&format!("wheelhouse-{name}-"))
            .tempdir()
            .expect("a temporary folder can be made")
            .keep();
        let sweeper = Command::new("sh")
            .args(["-c", SWEEP, "sweep"])
            .arg(&path)
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("sh can be started");
        Self { path, sweeper }
    }

    /// Returns where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of a file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file in it and tells its path.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let file = self.file(name);
        fs::write(&file, content).expect("the scratch folder is writable");
        file
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(self.sweeper.stdin.take());
        self.sweeper
            .wait()
            .expect("the sweeper ends once its input ends");
    }
}
