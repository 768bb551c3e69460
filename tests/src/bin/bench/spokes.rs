//! Fake spokes in a process of their own, so that what they take of the machine is known, and how they are told what to do.
//!
//! They are told over a Unix socket in their folder, a line for each command, which is answered with a line:
//!
//! ```text
//!   written            writes that the spokes were sent, and ConfigMaps that they hold
//!   latencies          microseconds between each stamp and the write that brought it, since the last time
//!   set <mode>         how the spokes answer from now on
//! ```

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    sync::{Arc, Mutex, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use futures::{StreamExt as _, future::join_all};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::{UnixListener, UnixStream},
    task::JoinSet,
};
use wheelhouse_tests::{
    FakeSpoke,
    fake_spoke::Mode,
    process::{Process, Scratch},
    wait::eventually,
};

/// The first argument of the process: `fleet-spokes <folder> <prefix> <count>`.
pub(crate) const SERVE: &str = "fleet-spokes";

const SOCKET: &str = "control";
const KUBECONFIGS: &str = "kubeconfigs";

/// The ways in which spokes misbehave, in turn.
pub(crate) const MODES: [&str; 3] = ["hung", "flooding", "lying"];

/// Some fake spokes, which end when this is dropped.
pub(crate) struct Spokes {
    process: Process,
    scratch: Scratch,
    /// Names and kubeconfigs.
    pub(crate) all: Vec<(String, String)>,
}

/// What the spokes have.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Written {
    /// Writes that they were sent, mirrors and definitions too.
    pub(crate) writes: u64,
    /// ConfigMaps that they hold.
    pub(crate) objects: usize,
}

// === impl Spokes ===

impl Spokes {
    /// Starts spokes that are named after a prefix.
    pub(crate) async fn start(prefix: &str, count: usize, priority: Priority) -> Self {
        let scratch = Scratch::new(prefix);
        let bench = std::env::current_exe().expect("it runs");
        let mut command = match priority {
            Priority::Normal => Command::new(bench),
            Priority::Idle => {
                let mut command = Command::new("chrt");
                command.args(["--idle", "0"]).arg(bench);
                command
            }
        };
        command.arg(SERVE).arg(scratch.path());
        command.args([prefix, &count.to_string()]);
        let process = Process::start(&command, &scratch.file("log"));
        let control = scratch.file(SOCKET);
        eventually("the fake spokes are served", || async {
            assert!(process.runs(), "they ended: {}", process.log());
            control.exists().then_some(()).ok_or("not yet".to_owned())
        })
        .await;
        let text = std::fs::read_to_string(scratch.file(KUBECONFIGS)).expect("it was written");
        let all = serde_json::from_str(&text).expect("names and kubeconfigs");
        Self {
            process,
            scratch,
            all,
        }
    }

    /// The process that serves them.
    pub(crate) const fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Tells what was written.
    pub(crate) async fn written(&self) -> Written {
        let answer = self.tell("written").await;
        let (writes, objects) = answer.split_once(' ').expect("two numbers");
        Written {
            writes: writes.parse().expect("a number"),
            objects: objects.parse().expect("a number"),
        }
    }

    /// Takes what is known of the time between stamps and their arrival, in microseconds.
    pub(crate) async fn latencies(&self) -> Vec<u64> {
        let answer = self.tell("latencies").await;
        let numbers = answer.split_whitespace();
        numbers.map(|it| it.parse().expect("a number")).collect()
    }

    /// Changes how they answer: `honest`, `hostile` (each in one of [`MODES`]), or one of those.
    pub(crate) async fn set(&self, mode: &str) {
        let answer = self.tell(&format!("set {mode}")).await;
        assert_eq!(answer, "ok", "{mode}");
    }

    async fn tell(&self, command: &str) -> String {
        let socket = UnixStream::connect(self.scratch.file(SOCKET)).await;
        let mut socket = BufReader::new(socket.expect("the spokes run"));
        let line = format!("{command}\n");
        let sent = socket.write_all(line.as_bytes()).await;
        sent.expect("the spokes listen");
        let mut answer = String::new();
        let read = socket.read_line(&mut answer).await;
        read.expect("the spokes answer");
        answer.trim_end().to_owned()
    }
}

/// Who gets a processor first.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Priority {
    /// As the hub does.
    Normal,
    /// Only when nobody else wants it: what a hostile spoke computes itself is not to count.
    Idle,
}

/// A stamp of now: microseconds since 1970.
pub(crate) fn stamp() -> String {
    now_us().to_string()
}

#[expect(
    clippy::disallowed_methods,
    reason = "two processes compare what they read from one clock"
)]
fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let since = since.expect("it is later than 1970");
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

// === the process of the spokes ===

/// Serves spokes until the process is killed.
pub(crate) async fn serve(arguments: Vec<String>) -> ExitCode {
    let [folder, prefix, count] = arguments.as_slice() else {
        return ExitCode::from(2);
    };
    let (folder, count) = (PathBuf::from(folder), count.parse().unwrap_or(0));
    let started = (0..count).map(|index: usize| async move {
        let name = format!("{prefix}-{index}");
        FakeSpoke::start(&name).await
    });
    let spokes = join_all(started).await;
    let latencies = Arc::new(Mutex::new(Vec::new()));
    let mut followers = JoinSet::new();
    for spoke in &spokes {
        let (written, latencies) = (spoke.written(), Arc::clone(&latencies));
        followers.spawn(written.for_each(move |object| {
            if let Some(us) = age_us(&object) {
                lock(&latencies).push(us);
            }
            std::future::ready(())
        }));
    }
    publish(&folder, &spokes);
    // Whoever waits for the socket finds all else.
    let listener = UnixListener::bind(folder.join(SOCKET)).expect("the folder is writable");
    while let Ok((socket, _)) = listener.accept().await {
        let mut socket = BufReader::new(socket);
        let mut line = String::new();
        if socket.read_line(&mut line).await.is_err() {
            continue;
        }
        let answer = obey(line.trim_end(), &spokes, &latencies);
        // Whoever asked may have gone.
        drop(socket.write_all(format!("{answer}\n").as_bytes()).await);
    }
    ExitCode::FAILURE
}

fn publish(folder: &Path, spokes: &[FakeSpoke]) {
    let kubeconfigs = spokes.iter().map(|spoke| {
        let text = std::fs::read_to_string(spoke.kubeconfig()).expect("it was written");
        json!([spoke.name(), text])
    });
    let text = kubeconfigs.collect::<Value>().to_string();
    std::fs::write(folder.join(KUBECONFIGS), text).expect("the folder is writable");
}

fn obey(command: &str, spokes: &[FakeSpoke], latencies: &Mutex<Vec<u64>>) -> String {
    match command.split_once(' ') {
        None if command == "written" => {
            let writes: u64 = spokes.iter().map(FakeSpoke::write_count).sum();
            let objects = spokes.iter().map(|it| it.object_count("configmaps"));
            format!("{writes} {}", objects.sum::<usize>())
        }
        None if command == "latencies" => {
            let taken = std::mem::take(&mut *lock(latencies));
            let texts: Vec<String> = taken.iter().map(u64::to_string).collect();
            texts.join(" ")
        }
        Some(("set", mode)) => {
            for (index, spoke) in spokes.iter().enumerate() {
                let mode = match mode {
                    "hostile" => MODES[index % MODES.len()],
                    mode => mode,
                };
                spoke.set(match mode {
                    "hung" => Mode::Silent,
                    "flooding" => Mode::EndlessWatch,
                    "lying" => Mode::LyingVersions,
                    _ => Mode::Honest,
                });
            }
            "ok".to_owned()
        }
        _ => format!("what is {command}?"),
    }
}

/// How long ago an object was stamped; `None` for one without a stamp.
fn age_us(object: &Value) -> Option<u64> {
    let stamp = object["data"]["stamp"].as_str()?;
    let stamped: u64 = stamp.parse().ok()?;
    Some(now_us().saturating_sub(stamped))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
