//! Faults from outside of the hub: a small disk, failing system calls, a clock that jumps.
//!
//! Each needs something that not every machine has; where it is missing, the test says so visibly.

use std::{
    io::{BufRead, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use crate::{
    process::{Process, Scratch},
    wait::within,
};

/// Mounts a small file system, tells so, and unmounts it when standard input ends.
const MOUNT: &str = r#"
mount -t tmpfs -o "size=$1" wheelhouse-test "$2" && echo mounted
cat >/dev/null
umount -l "$2"
"#;

/// A file system in memory of a few megabytes. It goes when this is dropped.
#[derive(Debug)]
pub struct SmallDisk {
    guard: Child,
    scratch: Scratch,
}

/// System calls of a running process that fail.
#[derive(Debug)]
pub struct FailingCalls {
    _strace: Process,
    _scratch: Scratch,
}

/// The wall clock of processes that were started with [`Clock::environment`].
#[derive(Debug)]
pub struct Clock {
    file: PathBuf,
    library: PathBuf,
    _scratch: Scratch,
}

/// Reports past the test harness, which would hide it, that a test is skipped.
pub fn skipped(why: &str) {
    // Nobody is left to tell when standard error is gone.
    drop(writeln!(std::io::stderr(), "skipped: {why}"));
}

// === impl SmallDisk ===

impl SmallDisk {
    /// Mounts it, where this user may.
    pub fn mount(megabytes: usize) -> Option<Self> {
        let scratch = Scratch::new("disk");
        let mut guard = Command::new("sh")
            .args(["-c", MOUNT, "guard", &format!("{megabytes}m")])
            .arg(scratch.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("sh can be started");
        let mut line = String::new();
        BufReader::new(guard.stdout.as_mut().expect("stdout is piped"))
            .read_line(&mut line)
            .expect("the guard speaks or ends");
        let disk = Self { guard, scratch };
        if line.trim() == "mounted" {
            return Some(disk);
        }
        skipped("a file system of a few megabytes can only be mounted by root");
        None
    }

    /// Returns where it is.
    pub fn path(&self) -> &Path {
        self.scratch.path()
    }

    /// Takes all the space that is left. Returns how many bytes that were.
    pub fn fill(&self) -> usize {
        let mut file = std::fs::File::create(self.path().join("filler")).expect("a name is free");
        let mut filled = 0;
        for size in [1 << 16, 1 << 12, 1] {
            let piece = vec![1; size];
            while let Ok(written @ 1..) = file.write(&piece) {
                filled += written;
            }
        }
        filled
    }

    /// Gives the space back.
    pub fn free(&self) {
        std::fs::remove_file(self.path().join("filler")).expect("it was filled");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        self.guard
            .wait()
            .expect("the guard ends once its input ends");
    }
}

// === impl FailingCalls ===

impl FailingCalls {
    /// Lets these system calls of a thread fail from now on, where strace may.
    pub async fn inject(thread: u32, calls: &str, error: &str) -> Option<Self> {
        if Command::new("strace").arg("-V").output().is_err() {
            skipped("strace is absent (Debian: strace)");
            return None;
        }
        let scratch = Scratch::new("strace");
        let mut command = Command::new("strace");
        command.args(["-e", &format!("trace={calls}")]);
        command.args(["-e", &format!("inject={calls}:error={error}")]);
        command.args(["-o", "/dev/null", "-p", &thread.to_string()]);
        let log = scratch.file("strace.log");
        let strace = Process::start(&command, &log);
        let attached = within(
            Duration::from_secs(20),
            "strace attaches or ends",
            || async {
                match strace.log() {
                    log if log.contains("attached") => Ok(true),
                    _ if !strace.runs() => Ok(false),
                    log => Err(log),
                }
            },
        );
        if !attached.await {
            skipped(&format!("strace may not trace here: {}", strace.log()));
            return None;
        }
        Some(Self {
            _strace: strace,
            _scratch: scratch,
        })
    }
}

// === impl Clock ===

impl Clock {
    /// A clock that is right, where libfaketime is there.
    pub fn new() -> Option<Self> {
        let library = ["x86_64", "aarch64"]
            .map(|arch| {
                PathBuf::from(format!(
                    "/usr/lib/{arch}-linux-gnu/faketime/libfaketimeMT.so.1"
                ))
            })
            .into_iter()
            .find(|library| library.is_file());
        let Some(library) = library else {
            skipped("libfaketime is absent (Debian: libfaketime)");
            return None;
        };
        let scratch = Scratch::new("clock");
        let clock = Self {
            file: scratch.file("offset"),
            library,
            _scratch: scratch,
        };
        clock.set(Duration::ZERO);
        Some(clock)
    }

    /// What a process must be started with. Its monotonic clock stays right.
    pub fn environment(&self) -> Vec<(String, String)> {
        let pairs = [
            ("LD_PRELOAD", self.library.display().to_string()),
            ("FAKETIME_TIMESTAMP_FILE", self.file.display().to_string()),
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            ("DONT_FAKE_MONOTONIC", "1".to_owned()),
        ];
        pairs.map(|(name, value)| (name.to_owned(), value)).into()
    }

    /// Jumps to this far ahead of the right time.
    pub fn set(&self, ahead: Duration) {
        // Renamed into place: a reader never finds half of it.
        let part = self.file.with_extension("part");
        std::fs::write(&part, format!("+{}s\n", ahead.as_secs())).expect("it can be written");
        std::fs::rename(&part, &self.file).expect("it can be renamed");
    }
}
