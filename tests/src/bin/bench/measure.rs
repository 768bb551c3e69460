//! What is measured of servers: CPU, memory, disk, latencies, and what several rounds say together.

use std::path::{Path, PathBuf};

use tokio::time::Instant;
use wheelhouse_tests::process::usage;

/// What the rounds of one figure said.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series(Vec<f64>);

/// Processes of one side: their names and ids.
pub(crate) type Processes = Vec<(&'static str, u32)>;

/// What some work cost the servers, and how long it took.
pub(crate) struct Cost {
    /// CPU of each process for one operation, in microseconds.
    pub(crate) cpu_us: Vec<(&'static str, f64)>,
    /// Operations in a second, as the clients saw them.
    pub(crate) rate: f64,
}

// === impl Series ===

impl Series {
    /// Begins one of which nothing was said.
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds what a round said.
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    /// Adds what further rounds said.
    pub(crate) fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// What the last round said.
    pub(crate) fn last(&self) -> f64 {
        self.0.last().copied().unwrap_or(f64::NAN)
    }

    /// A figure made of two, round by round.
    pub(crate) fn zip(&self, other: &Self, of: impl Fn(f64, f64) -> f64) -> Self {
        let pairs = self.0.iter().zip(&other.0);
        pairs.map(|(one, two)| of(*one, *two)).collect()
    }

    /// The middle one; of an even number the lower middle.
    pub(crate) fn median(&self) -> f64 {
        let sorted = self.sorted();
        let middle = sorted.len().saturating_sub(1) / 2;
        sorted.get(middle).copied().unwrap_or(f64::NAN)
    }

    /// Between which two the median of all that could be measured lies, in 95 of 100 cases. Whatever the distribution is: the
    /// ranks are those of a fair coin's tosses.
    pub(crate) fn median_bounds(&self) -> (f64, f64) {
        let sorted = self.sorted();
        let count = float(sorted.len() as u64);
        let half_width = 0.98 * count.sqrt();
        let at = |rank: f64| {
            let last = sorted.len().saturating_sub(1);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a rank, cut to those that there are"
            )]
            let rank = rank.max(0.0) as usize;
            sorted.get(rank.min(last)).copied().unwrap_or(f64::NAN)
        };
        (
            at((count / 2.0 - half_width).floor() - 1.0),
            at((count / 2.0 + half_width).ceil()),
        )
    }

    /// The least and the greatest.
    pub(crate) fn range(&self) -> Option<(f64, f64)> {
        let sorted = self.sorted();
        (sorted.len() > 1).then(|| {
            let last = sorted.last().copied().unwrap_or(f64::NAN);
            (sorted.first().copied().unwrap_or(f64::NAN), last)
        })
    }

    /// Whether nothing was measured.
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }
}

impl FromIterator<f64> for Series {
    fn from_iter<I: IntoIterator<Item = f64>>(iter: I) -> Self {
        Self(iter.into_iter().collect())
    }
}

impl From<f64> for Series {
    fn from(value: f64) -> Self {
        Self(vec![value])
    }
}

// === impl Cost ===

impl Cost {
    /// The cost of what was not done.
    pub(crate) const fn nothing() -> Self {
        Self {
            cpu_us: Vec::new(),
            rate: 0.0,
        }
    }

    /// Whether it was measured.
    pub(crate) const fn is_measured(&self) -> bool {
        !self.cpu_us.is_empty()
    }

    /// Runs `work` of `operations` and tells what it cost `processes`.
    pub(crate) async fn of<T>(
        processes: &Processes,
        operations: usize,
        work: impl Future<Output = T>,
    ) -> (Self, T) {
        let cpu = || -> Vec<u64> { processes.iter().map(|(_, pid)| usage(*pid).0).collect() };
        let (before, start) = (cpu(), Instant::now());
        let done = work.await;
        let elapsed = start.elapsed();
        let each = float(operations as u64);
        let cpu_us = processes
            .iter()
            .zip(cpu().iter().zip(before))
            .map(|((name, _), (after, before))| (*name, float(after - before) * 1000.0 / each))
            .collect();
        let cost = Self {
            cpu_us,
            rate: each / elapsed.as_secs_f64(),
        };
        (cost, done)
    }

    /// CPU of all processes for one operation, in microseconds.
    pub(crate) fn total_cpu_us(&self) -> f64 {
        self.cpu_us.iter().map(|(_, cpu)| cpu).sum()
    }
}

/// Processor time of the threads of a process, in nanoseconds. That of threads that have ended is lost.
///
/// Source: `Documentation/scheduler/sched-stats.rst`; `/proc/PID/stat` counts in steps of 10 ms.
pub(crate) fn cpu_ns(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    tasks
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("schedstat")).ok())
        .filter_map(|stat| stat.split_whitespace().next()?.parse::<u64>().ok())
        .sum()
}

/// Resident memory of all processes, in bytes.
pub(crate) fn rss(processes: &Processes) -> u64 {
    processes.iter().map(|(_, pid)| usage(*pid).1).sum()
}

/// Bytes that a directory takes on the disk.
pub(crate) fn disk(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let mut total = 0;
    let mut open: Vec<PathBuf> = vec![directory.to_owned()];
    while let Some(path) = open.pop() {
        let Ok(metadata) = path.symlink_metadata() else {
            continue;
        };
        // Blocks are of 512 bytes, whatever the file system's are. Source: stat(2).
        total += metadata.blocks() * 512;
        if let Ok(entries) = std::fs::read_dir(&path) {
            open.extend(entries.flatten().map(|entry| entry.path()));
        }
    }
    total
}

/// The value below which `percent` of the values are, in milliseconds; the values are microseconds.
pub(crate) fn percentile_ms(values: &[u64], percent: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let index = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    float(sorted.get(index).copied().unwrap_or(0)) / 1000.0
}

/// A count or a size as a number to reckon with.
#[expect(
    clippy::cast_precision_loss,
    reason = "figures of a benchmark are far below 2^52"
)]
pub(crate) const fn float(value: u64) -> f64 {
    value as f64
}
