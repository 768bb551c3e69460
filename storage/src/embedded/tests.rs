use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};

use parking_lot::Condvar;

use super::*;
use crate::conformance::simulated::{Fault, SimulatedDirectory};
use crate::conformance::{self, Fixture, Op as Deed, Random, Step, check_model};
use crate::key::KeyRange;

mod corruption;
mod crashes;
mod full;
mod histories;
mod imports;
mod model;
mod sealing;
mod sweeps;
mod tearing;

/// An engine in a directory. A crash takes the files as they are and leaves the engine behind.
#[derive(Debug)]
struct InDirectory {
    directory: tempfile::TempDir,
    engine: Arc<Engine>,
}

/// An engine in a directory that loses and tears what was not synced.
#[derive(Debug)]
struct Simulated {
    disk: SimulatedDirectory,
    engine: Arc<Engine>,
    seed: u64,
}

/// A clock that tests move.
#[derive(Debug, Default)]
struct ManualClock(AtomicU64);

/// A directory whose files' syncs wait while the gate is shut.
#[derive(Clone, Debug, Default)]
struct Gated {
    disk: SimulatedDirectory,
    gate: Arc<(Mutex<Gate>, Condvar)>,
}

/// A file of it.
#[derive(Debug)]
struct GatedDisk {
    disk: Box<dyn Disk>,
    directory: Gated,
}

#[derive(Debug, Default)]
struct Gate {
    shut: bool,
    waiting: usize,
}

// === impl InDirectory ===

impl InDirectory {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let engine = Arc::new(Engine::open(directory.path(), Config::default()).unwrap());
        Self { directory, engine }
    }
}

impl Fixture for InDirectory {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.engine) as _
    }

    fn compact(&mut self, floor: Revision) -> Step<'_> {
        Box::pin(async move {
            self.engine.compact(floor).await.unwrap();
        })
    }

    fn reopen(&mut self) -> Step<'_> {
        Box::pin(async move {
            self.engine.close();
            self.engine = Arc::new(Engine::open(self.directory.path(), Config::default()).unwrap());
        })
    }

    fn crash(&mut self) -> Step<'_> {
        Box::pin(async move {
            let left = tempfile::tempdir().unwrap();
            copy_moment(self.directory.path(), left.path());
            self.engine.close();
            self.engine = Arc::new(Engine::open(left.path(), Config::default()).unwrap());
            self.directory = left;
        })
    }
}

// === impl Simulated ===

impl Simulated {
    fn new() -> Self {
        let disk = SimulatedDirectory::default();
        let engine = Arc::new(open(&disk));
        Self {
            disk,
            engine,
            seed: 0,
        }
    }
}

impl Fixture for Simulated {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.engine) as _
    }

    fn compact(&mut self, floor: Revision) -> Step<'_> {
        Box::pin(async move {
            self.engine.compact(floor).await.unwrap();
        })
    }

    fn reopen(&mut self) -> Step<'_> {
        Box::pin(async move {
            self.engine.close();
            self.engine = Arc::new(open(&self.disk));
        })
    }

    fn crash(&mut self) -> Step<'_> {
        Box::pin(async move {
            self.seed += 1;
            self.disk = self.disk.after_crash(self.seed);
            self.engine = Arc::new(open(&self.disk));
        })
    }
}

// === impl ManualClock ===

impl Clock for ManualClock {
    fn elapsed(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Acquire))
    }
}

// === impl Gated ===

impl Gated {
    fn shut(&self) {
        self.gate.0.lock().shut = true;
    }

    fn open_gate(&self) {
        self.gate.0.lock().shut = false;
        self.gate.1.notify_all();
    }

    /// Waits until a sync waits.
    fn wait_for_sync(&self) {
        let mut gate = self.gate.0.lock();
        self.gate.1.wait_while(&mut gate, |gate| gate.waiting == 0);
    }

    fn gated(&self, disk: Box<dyn Disk>) -> Box<dyn Disk> {
        Box::new(GatedDisk {
            disk,
            directory: self.clone(),
        })
    }
}

impl Directory for Gated {
    fn open(&self, name: &str) -> io::Result<Box<dyn Disk>> {
        self.disk.open(name).map(|disk| self.gated(disk))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn Disk>> {
        self.disk.create(name).map(|disk| self.gated(disk))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn sync(&self, folder: &str) -> io::Result<()> {
        self.disk.sync(folder)
    }

    fn identity(&self) -> io::Result<[u8; 16]> {
        self.disk.identity()
    }
}

impl Disk for GatedDisk {
    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.disk.read(offset, bytes)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.write(offset, bytes)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        let (gate, changed) = &*self.directory.gate;
        let mut gate = gate.lock();
        gate.waiting += 1;
        changed.notify_all();
        changed.wait_while(&mut gate, |gate| gate.shut);
        gate.waiting -= 1;
        drop(gate);
        self.disk.sync()
    }
}

/// Copies a directory as one moment's crash leaves it: again, while upkeep changes it.
fn copy_moment(from: &Path, to: &Path) {
    let began = tokio::time::Instant::now();
    loop {
        let before = files_of(from);
        std::fs::create_dir_all(to.join("log")).unwrap();
        let copied = before
            .iter()
            .all(|(name, ..)| std::fs::copy(from.join(name), to.join(name)).is_ok());
        if copied && files_of(from) == before {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "it never rests");
        std::fs::remove_dir_all(to).unwrap();
    }
}

/// Names, sizes and times of all files of a store.
fn files_of(directory: &Path) -> Vec<(std::path::PathBuf, u64, Option<std::time::SystemTime>)> {
    let mut files = Vec::new();
    for folder in ["", "log"] {
        let Ok(here) = std::fs::read_dir(directory.join(folder)) else {
            continue;
        };
        for file in here.flatten() {
            let Ok(facts) = file.metadata() else { continue };
            if facts.is_file() {
                let name = Path::new(folder).join(file.file_name());
                files.push((name, facts.len(), facts.modified().ok()));
            }
        }
    }
    files.sort();
    files
}

/// Segments so small that a few hundred writes fill several of them.
fn small() -> Config {
    Config {
        segment_bytes_first: 8 * 1024,
        segment_bytes_max: 32 * 1024,
        ..Config::default()
    }
}

fn open_with(disk: &SimulatedDirectory, config: Config) -> Result<Engine, OpenError> {
    Engine::open_on(Arc::new(disk.clone()), config)
}

fn open(disk: &SimulatedDirectory) -> Engine {
    open_with(disk, small()).unwrap()
}

fn put(engine: &Engine, key: &str, value: &str) -> Revision {
    engine
        .commit(vec![Write::put(key, value)])
        .wait()
        .unwrap()
        .revision
}

fn contents(store: &Engine) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let range = store.range(RangeQuery::of(KeyRange::all())).unwrap();
    range
        .entries
        .iter()
        .map(|entry| (text(entry.key()), text(entry.value())))
        .collect()
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = tokio::time::Instant::now();
    while !holds() {
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "{what} does not come to hold"
        );
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn an_engine_in_a_directory_conforms() {
    conformance::run(
        async || Box::new(InDirectory::new()) as _,
        |case| println!("{case}"),
    )
    .await;
}

#[tokio::test]
async fn an_engine_on_a_simulated_disk_conforms() {
    conformance::run(
        async || Box::new(Simulated::new()) as _,
        |case| println!("{case}"),
    )
    .await;
}

#[test]
fn a_directory_has_one_engine_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let first = Engine::open(directory.path(), Config::default()).unwrap();
    let second = Engine::open(directory.path(), Config::default());
    assert!(
        matches!(second, Err(OpenError::Locked { .. })),
        "{second:?}"
    );
    put(&first, "/a", "1");
    first.close();
    let second = Engine::open(directory.path(), Config::default()).unwrap();
    assert_eq!(contents(&second).len(), 1);
    assert!(matches!(
        first.commit(vec![Write::put("/b", "")]).wait(),
        Err(Error::Closed)
    ));
}

/// Nobody waits at a start until a large segment is full of zeros, however large the last one was.
#[test]
fn a_start_begins_with_a_small_segment() {
    let mut disk = SimulatedDirectory::default();
    let engine = open(&disk);
    let value = "x".repeat(1024);
    for key in 0..64 {
        put(&engine, &format!("/{key}"), &value);
    }
    for crash in 0..4 {
        let most = small().segment_bytes_max as usize;
        let grown = disk.files().values().any(|file| file.len() >= most);
        assert!(grown, "they have grown");
        disk = disk.after_crash(crash);
        let engine = open(&disk);
        put(&engine, "/again", "x");
        let files = disk.files();
        let (name, newest) = files.iter().next_back().unwrap();
        let first = small().segment_bytes_first as usize;
        assert_eq!(newest.len(), first, "crash {crash}: {name}");
        disk = disk.after_crash(crash);
    }
}

#[test]
fn a_newer_format_is_refused_and_not_touched() {
    let directory = tempfile::tempdir().unwrap();
    drop(Engine::open(directory.path(), Config::default()).unwrap());
    std::fs::write(
        directory.path().join("FORMAT"),
        "wheelhouse-store\nformat 3\nmore\n",
    )
    .unwrap();
    let files = || {
        let here = std::fs::read_dir(directory.path()).unwrap();
        let log = std::fs::read_dir(directory.path().join("log")).unwrap();
        let mut files: Vec<_> = here
            .chain(log)
            .map(|file| file.unwrap().path())
            .filter(|path| path.is_file())
            .map(|path| {
                (
                    path.clone(),
                    std::fs::read(&path).unwrap(),
                    path.metadata().unwrap().modified().unwrap(),
                )
            })
            .collect();
        files.sort();
        files
    };
    let before = files();
    let error = Engine::open(directory.path(), Config::default()).unwrap_err();
    assert!(
        matches!(error, OpenError::UnknownFormat { found: 3, known: 2 }),
        "{error}"
    );
    assert!(error.to_string().contains("use the version that wrote it"));
    assert_eq!(files(), before);
}

#[test]
fn files_belong_to_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("store");
    drop(Engine::open(&directory, Config::default()).unwrap());
    for path in [
        &directory,
        &directory.join("log"),
        &directory.join("MANIFEST"),
        &directory.join("FORMAT"),
    ] {
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", path.display());
    }
}

/// The reason for group commit, and for its promise that nothing is seen too early.
#[test]
fn what_comes_during_a_sync_shares_the_next_one() {
    let disk = Gated::default();
    let engine = Engine::open_on(Arc::new(disk.clone()), Config::default()).unwrap();
    let before = put(&engine, "/first", "");
    let groups = engine.metrics().groups.get();
    let query = WatchQuery {
        range: KeyRange::all(),
        after: before,
    };
    let mut watcher = engine.watch(query).unwrap();
    disk.shut();
    let alone = engine.commit(vec![Write::put("/alone", "")]);
    disk.wait_for_sync();
    let many: Vec<_> = (0..50)
        .map(|n| engine.commit(vec![Write::put(format!("/{n}"), "")]))
        .collect();
    let refused = engine.commit(vec![Write::put("/alone", "").expecting(Expect::Absent)]);

    assert_eq!(engine.get(b"/alone"), None, "it is not durable");
    assert_eq!(engine.revision(), before);
    let polled = watcher.poll_next(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending(), "{polled:?}");
    assert_eq!(engine.statistics().queued, 51);

    disk.open_gate();
    alone.wait().unwrap();
    for answer in many {
        answer.wait().unwrap();
    }
    assert!(matches!(
        refused.wait(),
        Err(Error::Conflict {
            current: Some(_),
            ..
        })
    ));
    assert_eq!(
        engine.metrics().groups.get() - groups,
        2,
        "one sync for the first, one for the rest"
    );
    assert_eq!(contents(&engine).len(), 52);
}

#[test]
fn a_full_queue_refuses_and_takes_nothing() {
    let disk = Gated::default();
    let engine = Engine::open_on(Arc::new(disk.clone()), Config::default()).unwrap();
    disk.shut();
    let first = engine.commit(vec![Write::put("/first", "")]);
    disk.wait_for_sync();
    let mut answers = Vec::new();
    while engine.health().is_ok() {
        let answer = engine.commit(vec![Write::put(format!("/{}", answers.len()), "")]);
        answers.push(answer);
        if answers.len() > 5_000 {
            break;
        }
    }
    disk.open_gate();
    first.wait().unwrap();
    let outcomes: Vec<_> = answers.into_iter().map(Answer::wait).collect();
    let accepted = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    assert!(
        outcomes
            .iter()
            .all(|o| matches!(o, Ok(_) | Err(Error::Full))),
        "nothing else"
    );
    assert_eq!(accepted, 4096, "the bound of the queue");
    assert_eq!(
        contents(&engine).len(),
        accepted + 1,
        "what was refused did not happen"
    );
    put(&engine, "/again", "");
}

#[test]
fn history_is_kept_for_its_time_and_no_longer() {
    let disk = SimulatedDirectory::default();
    let clock = Arc::new(ManualClock::default());
    let config = Config {
        clock: Arc::clone(&clock) as _,
        tick: Duration::from_millis(1),
        ..Config::default()
    };
    let engine = open_with(&disk, config).unwrap();
    for n in 0..300 {
        put(&engine, &format!("/{}", n % 10), &n.to_string());
    }
    let old = engine.revision();
    engine.commit(vec![Write::delete("/0")]).wait().unwrap();
    clock.0.store(299, Ordering::Release);
    put(&engine, "/late", "");
    let at = |revision| engine.range(RangeQuery::of(KeyRange::all()).at(revision));
    assert_eq!(
        at(old).unwrap().entries.len(),
        10,
        "five minutes are not over"
    );
    clock.0.store(316, Ordering::Release);
    put(&engine, "/later", "");
    clock.0.store(1_000, Ordering::Release);
    wait_until("the floor", || engine.compaction_floor() > old);
    assert!(matches!(at(old), Err(Error::Compacted { .. })));
    wait_until("freeing", || engine.statistics().history_events <= 1);
    assert_eq!(contents(&engine).len(), 11);
}

#[test]
fn history_gives_way_to_memory() {
    let config = Config {
        history_bytes_max: 100_000,
        ..Config::default()
    };
    let engine = open_with(&SimulatedDirectory::default(), config).unwrap();
    let value = "x".repeat(1_000);
    for _ in 0..500 {
        put(&engine, "/a", &value);
    }
    wait_until("the bound", || engine.statistics().history_bytes <= 100_000);
    assert!(
        engine.compaction_floor() < engine.revision(),
        "some history is left"
    );
    assert!(
        engine.statistics().history_events > 10,
        "{:?}",
        engine.statistics()
    );
}

#[test]
fn a_failed_sync_ends_all_writing_and_no_reading() {
    let disk = SimulatedDirectory::default();
    let engine = open(&disk);
    let kept = put(&engine, "/a", "kept");
    let query = WatchQuery {
        range: KeyRange::all(),
        after: kept,
    };
    let mut watcher = engine.watch(query).unwrap();
    assert!(engine.health().is_ok());
    disk.set_fault(Fault::FailSync(0));
    let lost = engine.commit(vec![Write::put("/a", "lost")]).wait();
    assert!(matches!(lost, Err(Error::Durability { .. })), "{lost:?}");
    assert!(matches!(engine.health(), Err(Error::Durability { .. })));
    // The disk would say yes again, and would have forgotten what was before.
    disk.set_fault(Fault::None);
    for _ in 0..3 {
        let refused = engine.commit(vec![Write::put("/b", "")]).wait();
        assert!(
            matches!(refused, Err(Error::Durability { .. })),
            "{refused:?}"
        );
    }
    assert!(engine.compact(kept).wait().is_err());
    assert_eq!(contents(&engine), [("/a".to_owned(), "kept".to_owned())]);
    assert_eq!(engine.revision(), kept);
    assert!(
        watcher
            .poll_next(&mut Context::from_waker(Waker::noop()))
            .is_pending(),
        "it goes on"
    );
    let again = open(&disk.after_crash(1));
    assert_eq!(contents(&again)[0].0, "/a");
    assert!(again.revision() >= kept);
}

/// Another hub on the directory would write while this one answers with what it remembers.
#[test]
fn a_poisoned_engine_keeps_its_directory() {
    let temporary = tempfile::tempdir().unwrap();
    let engine = Engine::open(temporary.path(), Config::default()).unwrap();
    let failed = Error::Durability {
        source: Arc::new(io::Error::other("a planted failure")),
    };
    engine.shared.queue().refuse_all(&failed);
    assert!(engine.health().is_err());
    let second = || Engine::open(temporary.path(), Config::default());
    assert!(matches!(second(), Err(OpenError::Locked { .. })));
    engine.close();
    second().unwrap();
}

/// How many times as many random cases there are to be: 1 in CI, more at night.
fn soak() -> u64 {
    let factor = std::env::var("WHEELHOUSE_SOAK_FACTOR").ok();
    factor
        .and_then(|text| text.parse().ok())
        .unwrap_or(1)
        .max(1)
}
