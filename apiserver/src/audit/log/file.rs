//! What an audit log is written to: a file that is rotated, standard output, a pipe.
//!
//! ```text
//!   audit.log                                  written to
//!   audit-2026-11-23T13-52-19.711.log          full since then (UTC)
//!   audit-2026-11-23T12-40-02.054.log.gz       the same, compressed
//! ```
//!
//! Source: kube-apiserver's flags `--audit-log-max*`, and the names of natefinch/lumberjack, which it writes with.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::{
        fd::AsFd as _,
        unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use flate2::{Compression, write::GzEncoder};
use jiff::{SignedDuration, Timestamp};

/// The path of standard output.
const STDOUT: &str = "-";
/// What a line begins with that a crash has cut off.
const LINE_START: &[u8] = b"{\"kind\":\"Event\"";
/// How much of a file's end is looked at for such a line. A longer one stays, ended.
const TAIL_BYTES_MAX: u64 = 16 << 20;
/// The name of a compressed file while it is made.
const UNFINISHED: &str = "tmp";

/// When a file is full, and which full ones are kept. 0 sets no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::audit) struct Rotation {
    /// Bytes of a file.
    pub(in crate::audit) bytes_max: u64,
    /// Full files.
    pub(in crate::audit) count_max: usize,
    /// Their age in days.
    pub(in crate::audit) age_days_max: u32,
    /// Whether full files are compressed.
    pub(in crate::audit) compresses: bool,
}

/// Something that lines are written to.
#[derive(Debug)]
pub(super) struct Output {
    file: File,
    kind: Kind,
    /// What was cut short by a failure must be ended before anything else is written.
    is_torn: bool,
    failures: Failures,
}

#[derive(Debug)]
enum Kind {
    /// A regular file of which somebody else takes care, or a pipe, or a terminal.
    Stream { is_regular: bool },
    /// A regular file that is rotated.
    File {
        path: PathBuf,
        bytes: u64,
        rotation: Rotation,
        /// Whether full files are being looked after.
        is_tidied: Arc<AtomicBool>,
        /// Whether the file is full and no new one can be made, which is told once.
        is_stuck: bool,
    },
}

/// Tells of failures, but not of each.
#[derive(Debug, Default)]
struct Failures {
    count: u64,
    told: Timestamp,
}

// === impl Output ===

impl Output {
    /// Opens a path, and what leads to it.
    pub(super) fn open(path: &str, rotation: Rotation) -> io::Result<Self> {
        let of = |file, kind| Self {
            file,
            kind,
            is_torn: false,
            failures: Failures::default(),
        };
        if path == STDOUT {
            let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
            let is_regular = file.metadata()?.is_file();
            return Ok(of(file, Kind::Stream { is_regular }));
        }
        let path = std::path::absolute(path)?;
        if let Some(folder) = path.parent() {
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true).mode(0o700).create(folder)?;
        }
        let file = open(&path)?;
        if !file.metadata()?.is_file() {
            return Ok(of(file, Kind::Stream { is_regular: false }));
        }
        let is_torn = cut_torn_line(&file, &path)?;
        let bytes = file.metadata()?.len();
        let is_tidied = Arc::new(AtomicBool::new(false));
        let kind = Kind::File {
            path,
            bytes,
            rotation,
            is_tidied,
            is_stuck: false,
        };
        let mut output = of(file, kind);
        output.is_torn = is_torn;
        Ok(output)
    }

    /// Whether writing ends in the page cache.
    pub(super) const fn is_regular(&self) -> bool {
        matches!(
            self.kind,
            Kind::File { .. } | Kind::Stream { is_regular: true }
        )
    }

    /// Writes lines: all of them or, in a regular file, none.
    pub(super) fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        let written = self.try_write(lines);
        match &written {
            Ok(()) => self.failures.ended(),
            Err(error) => self.failures.tell(error),
        }
        written
    }

    fn try_write(&mut self, lines: &[u8]) -> io::Result<()> {
        self.rotate_before(lines.len());
        if self.is_torn {
            self.file.write_all(b"\n")?;
            self.is_torn = false;
        }
        let written = self.file.write_all(lines);
        match (&written, &mut self.kind) {
            (Ok(()), Kind::File { bytes, .. }) => *bytes += lines.len() as u64,
            (Ok(()), Kind::Stream { .. }) => {}
            (Err(_), Kind::File { bytes, .. }) => self.is_torn = self.file.set_len(*bytes).is_err(),
            (Err(_), Kind::Stream { .. }) => self.is_torn = true,
        }
        written
    }

    /// Begins a new file where the lines would make this one too large. Where none can be made, the full one is written on.
    fn rotate_before(&mut self, coming: usize) {
        let Kind::File {
            path,
            bytes,
            rotation,
            is_tidied,
            is_stuck,
        } = &mut self.kind
        else {
            return;
        };
        let is_full = rotation.bytes_max > 0 && *bytes + coming as u64 > rotation.bytes_max;
        if !is_full || *bytes == 0 {
            return;
        }
        match next_file(path) {
            Ok((file, length)) => {
                self.file = file;
                *bytes = length;
                *is_stuck = false;
                self.is_torn = false;
                tidy_apart(path.clone(), *rotation, is_tidied);
            }
            Err(error) => {
                if !std::mem::replace(is_stuck, true) {
                    tracing::warn!(
                        path = %path.display(),
                        error = %error,
                        "the audit log cannot be rotated and grows beyond its limit: make its folder writable for the hub"
                    );
                }
            }
        }
    }
}

// === impl Failures ===

impl Failures {
    /// Seconds between two messages.
    const SILENCE_SECONDS: i64 = 60;

    fn tell(&mut self, error: &io::Error) {
        self.count += 1;
        let now = Timestamp::now();
        let silence = now.as_second() - self.told.as_second();
        if self.count == 1 || silence >= Self::SILENCE_SECONDS {
            self.told = now;
            tracing::error!(
                error = %error,
                failures = self.count,
                "the audit log cannot be written, and events are lost: make room, or check its permissions"
            );
        }
    }

    fn ended(&mut self) {
        if self.count > 0 {
            tracing::info!(failures = self.count, "the audit log is written again");
            self.count = 0;
        }
    }
}

/// Puts a full file out of the way, and opens the next one, which is as long as told.
fn next_file(path: &Path) -> io::Result<(File, u64)> {
    // Whoever has moved the file away has rotated it.
    if fs::metadata(path).is_ok() {
        fs::rename(path, free_name(path, Timestamp::now()))?;
    }
    let file = open(path)?;
    let length = file.metadata()?.len();
    Ok((file, length))
}

fn open(path: &Path) -> io::Result<File> {
    // To open a pipe for writing alone would wait for its reader.
    let mut options = OpenOptions::new();
    options
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
}

/// Cuts off what a crash has left of a line: its request was not answered. Returns whether there is a line of something else to end.
fn cut_torn_line(mut file: &File, path: &Path) -> io::Result<bool> {
    let length = file.metadata()?.len();
    let from = length.saturating_sub(TAIL_BYTES_MAX);
    file.seek(SeekFrom::Start(from))?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES_MAX).read_to_end(&mut tail)?;
    if tail.last().is_none_or(|byte| *byte == b'\n') {
        return Ok(false);
    }
    let begins = memchr::memrchr(b'\n', &tail).map_or(0, |end| end + 1);
    let line = tail.split_off(begins);
    if !line.starts_with(LINE_START) {
        return Ok(true);
    }
    file.set_len(length - line.len() as u64)?;
    tracing::warn!(
        path = %path.display(),
        bytes = line.len(),
        "cut off the end of the audit log: an event that was not written whole when the process was killed"
    );
    Ok(false)
}

/// The name of a file that is full: of this moment, or of the next one that is free.
fn free_name(path: &Path, now: Timestamp) -> PathBuf {
    let mut at = now;
    loop {
        let name = named(path, &time_text(at));
        let is_free = !name.exists() && !with_end(&name, "gz").exists();
        if is_free {
            return name;
        }
        at = at
            .saturating_add(SignedDuration::from_millis(1))
            .unwrap_or(at);
    }
}

fn named(path: &Path, time: &str) -> PathBuf {
    let (stem, end) = parts_of(path);
    path.with_file_name(format!("{stem}-{time}{end}"))
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(end);
    name.into()
}

/// `audit` and `.log`.
fn parts_of(path: &Path) -> (String, String) {
    let text = |part: Option<&std::ffi::OsStr>| {
        part.map(|part| part.to_string_lossy().into_owned())
            .unwrap_or_default()
    };
    let end = path
        .extension()
        .map_or_else(String::new, |end| format!(".{}", end.to_string_lossy()));
    (text(path.file_stem()), end)
}

/// The time in a name. Names are in the order of their times.
fn time_text(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H-%M-%S%.3f").to_string()
}

/// Compresses and removes full files, on a thread of its own: it may take seconds.
fn tidy_apart(path: PathBuf, rotation: Rotation, is_tidied: &Arc<AtomicBool>) {
    if is_tidied.swap(true, Ordering::AcqRel) {
        // The files that are full by then are seen at the next turn.
        return;
    }
    let tidied = Arc::clone(is_tidied);
    let thread = std::thread::Builder::new().name("audit-tidy".to_owned());
    let spawned = thread.spawn(move || {
        if let Err(error) = tidy(&path, rotation, Timestamp::now()) {
            tracing::warn!(error = %error, "cannot rotate or remove old audit logs");
        }
        tidied.store(false, Ordering::Release);
    });
    if let Err(error) = spawned {
        is_tidied.store(false, Ordering::Release);
        tracing::warn!(error = %error, "cannot rotate or remove old audit logs");
    }
}

/// Compresses and removes full files.
pub(super) fn tidy(path: &Path, rotation: Rotation, now: Timestamp) -> io::Result<()> {
    let mut full = full_files(path)?;
    full.sort();
    full.reverse();
    let oldest = (rotation.age_days_max > 0).then(|| {
        let age = SignedDuration::from_hours(24 * i64::from(rotation.age_days_max));
        time_text(now.saturating_sub(age).unwrap_or(Timestamp::MIN))
    });
    for (index, (time, file)) in full.iter().enumerate() {
        let is_too_many = rotation.count_max > 0 && index >= rotation.count_max;
        let is_too_old = oldest.as_ref().is_some_and(|oldest| time < oldest);
        if is_too_many || is_too_old {
            fs::remove_file(file)?;
        } else if rotation.compresses && file.extension().is_none_or(|end| end != "gz") {
            compress(file)?;
        }
    }
    Ok(())
}

/// The full files of a path, each with the time in its name.
fn full_files(path: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let (stem, end) = parts_of(path);
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut full = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let plain = name.strip_suffix(".gz").unwrap_or(&name);
        let time = plain
            .strip_prefix(&format!("{stem}-"))
            .and_then(|rest| rest.strip_suffix(&end));
        if let Some(time) = time.filter(|time| is_time(time)) {
            full.push((time.to_owned(), entry.path()));
        }
    }
    Ok(full)
}

fn is_time(text: &str) -> bool {
    const FORM: &[u8] = b"0000-00-00T00-00-00.000";
    text.len() == FORM.len()
        && text.bytes().zip(FORM).all(|(byte, form)| match form {
            b'0' => byte.is_ascii_digit(),
            form => byte == *form,
        })
}

fn compress(file: &Path) -> io::Result<()> {
    let done = with_end(file, "gz");
    let unfinished = with_end(&done, UNFINISHED);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut encoder = GzEncoder::new(options.open(&unfinished)?, Compression::default());
    io::copy(&mut File::open(file)?, &mut encoder)?;
    encoder.finish()?.sync_all()?;
    fs::rename(&unfinished, &done)?;
    fs::remove_file(file)
}
