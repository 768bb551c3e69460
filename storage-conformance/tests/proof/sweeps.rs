//! R08, where the log is swept: writes, compaction, sweeps and restarts by seed, and a loss of power at any call of
//! any sweep. What a start finds then, at every revision that can be read, is what a model says, and what it writes and
//! sweeps on from there is so too.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use storage::check::check_files;
use storage::embedded::{Config, Directory, Disk, Engine};
use storage::{KeyRange, RangeQuery, Revision, Store, Write};
use wheelhouse_storage_conformance::simulated::SimulatedDirectory;
use wheelhouse_storage_conformance::{Random, Trial};

const R08: Trial = Trial("R08");

const SEEDS: usize = 4;
/// Phases of a history; each leaves segments that the next ones sweep.
const PHASES: usize = 6;
/// One crash in so many is followed by a second life of the store, with sweeps of its own.
const LIVES_ON: usize = 10;
/// Of a sweep's own calls every second one is a crash, of the commits meanwhile one in so many: chance takes them, and
/// other seeds take others.
const COMMITS_PER_CRASH: usize = 16;

type State = BTreeMap<String, String>;

/// What the store has to hold at each revision, from the first one on.
struct Model {
    start: Revision,
    states: Vec<State>,
}

/// A crash: what the disk would have kept, and the last revision that was acknowledged.
struct Shot {
    left: SimulatedDirectory,
    acknowledged: u64,
    during: String,
}

/// A directory that takes shots before the calls of a sweep.
#[derive(Clone, Debug)]
struct Watched {
    disk: SimulatedDirectory,
    sweeping: Arc<AtomicBool>,
    acknowledged: Arc<AtomicU64>,
    random: Arc<Mutex<Random>>,
    shots: Arc<Mutex<Vec<Shot>>>,
}

#[derive(Debug)]
struct WatchedFile {
    disk: Box<dyn Disk>,
    name: String,
    directory: Watched,
}

// === impl Model ===

impl Model {
    fn latest(&self) -> &State {
        self.states.last().expect("there is the empty one")
    }

    /// Compares every revision that can be read, and returns how many writes there are.
    fn compare(&self, engine: &Engine, acknowledged: u64) -> Result<usize, String> {
        let revision = engine.revision();
        if revision.0 < acknowledged {
            return Err(format!(
                "{acknowledged} was acknowledged, {revision} is the last"
            ));
        }
        for at in engine.compaction_floor().0..=revision.0 {
            let number = usize::try_from(at - self.start.0).expect("small");
            let want = self.states.get(number);
            let want = want.ok_or_else(|| format!("revision {at} was never written"))?;
            let got = state(engine, Revision(at))?;
            if got != *want {
                return Err(difference(at, want, &got));
            }
        }
        Ok(usize::try_from(revision.0 - self.start.0).expect("small"))
    }
}

fn state(engine: &Engine, at: Revision) -> Result<State, String> {
    let range = engine.range(RangeQuery::of(KeyRange::all()).at(at));
    let entries = range.map_err(|error| error.to_string())?.entries;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let pairs = entries.iter();
    Ok(pairs
        .map(|entry| (text(entry.key()), text(entry.value())))
        .collect())
}

fn difference(at: u64, want: &State, got: &State) -> String {
    let risen: Vec<_> = got.keys().filter(|key| !want.contains_key(*key)).collect();
    let lost: Vec<_> = want.keys().filter(|key| !got.contains_key(*key)).collect();
    format!("at revision {at}: risen {risen:?}, lost {lost:?}, or other values")
}

// === impl Watched ===

impl Watched {
    fn new(seed: u64) -> Self {
        let disk = SimulatedDirectory::default();
        // Every other history sweeps on a thread of its own, while commits go on.
        disk.set_background(seed.is_multiple_of(2));
        Self {
            disk,
            sweeping: Arc::default(),
            acknowledged: Arc::default(),
            random: Arc::new(Mutex::new(Random::new(seed))),
            shots: Arc::default(),
        }
    }

    fn before(&self, call: &'static str, name: &str) {
        let rewritten = name.starts_with("log/") && !name.ends_with(".0000");
        if call == "create" && rewritten {
            self.sweeping.store(true, Ordering::Release);
        }
        let own = rewritten || !name.starts_with("log/") || call == "remove";
        let odds = if own { 2 } else { COMMITS_PER_CRASH };
        let shoots = self.random.lock().below(odds) == 0;
        if shoots && self.sweeping.load(Ordering::Acquire) {
            // First: another thread may commit meanwhile.
            let acknowledged = self.acknowledged.load(Ordering::Acquire);
            let left = self.disk.after_crash(self.random.lock().bits());
            self.shots.lock().push(Shot {
                left,
                acknowledged,
                during: format!("{call} {name}"),
            });
        }
    }

    /// A sweep has removed what it replaced: until then a crash finds something of it.
    fn after(&self, call: &'static str, name: &str) {
        if call == "write" && name.ends_with(".0000") && self.disk.calls() > 0 {
            let swept = self.shots.lock();
            let removed = swept
                .last()
                .is_some_and(|shot| shot.during.starts_with("remove"));
            self.sweeping.fetch_and(!removed, Ordering::AcqRel);
        }
    }

    fn watched(&self, name: &str, disk: Box<dyn Disk>) -> Box<dyn Disk> {
        Box::new(WatchedFile {
            disk,
            name: name.to_owned(),
            directory: self.clone(),
        })
    }
}

impl std::fmt::Debug for Shot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.during)
    }
}

impl Directory for Watched {
    fn open(&self, name: &str) -> io::Result<Box<dyn Disk>> {
        self.disk.open(name).map(|disk| self.watched(name, disk))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn Disk>> {
        self.before("create", name);
        self.disk.create(name).map(|disk| self.watched(name, disk))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.before("rename", to);
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.before("remove", name);
        self.disk.remove(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn sync(&self, folder: &str) -> io::Result<()> {
        self.before("sync names", folder);
        self.disk.sync(folder)
    }

    fn identity(&self) -> io::Result<[u8; 16]> {
        self.disk.identity()
    }

    fn in_background(&self) -> bool {
        self.disk.in_background()
    }
}

impl Disk for WatchedFile {
    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.disk.read(offset, bytes)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.directory.before("write", &self.name);
        let written = self.disk.write(offset, bytes);
        self.directory.after("write", &self.name);
        written
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.directory.before("set_len", &self.name);
        self.disk.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.directory.before("sync", &self.name);
        self.disk.sync()
    }
}

fn open(directory: Arc<dyn Directory>) -> Result<Engine, String> {
    let config = Config {
        segment_bytes_first: 8 * 1024,
        segment_bytes_max: 16 * 1024,
        ..Config::default()
    };
    Engine::open_on(directory, config).map_err(|error| format!("{error}: {error:?}"))
}

/// One write, on the engine and in the model.
fn commit(engine: &Engine, model: &mut Model, key: String, value: Option<String>) -> Revision {
    let mut state = model.latest().clone();
    let write = if let Some(value) = value {
        state.insert(key.clone(), value.clone());
        Write::put(key, value)
    } else {
        state.remove(&key);
        Write::delete(key)
    };
    model.states.push(state);
    let done = engine.commit(vec![write]).wait();
    done.expect("the disk does not fail").revision
}

/// Forgets all but some revisions, and waits until what is due to be swept was.
fn compact(engine: &Engine, kept: u64) {
    let floor = Revision(engine.revision().0.saturating_sub(kept));
    engine
        .compact(floor)
        .wait()
        .expect("the disk does not fail");
    let kept = usize::try_from(kept).expect("small");
    while engine.statistics().history_events > kept {
        std::thread::park_timeout(Duration::from_micros(100));
    }
}

/// Some writes: lasting ones, which keep their segment from being swept, keys that pass among them, and the churn that
/// makes garbage around the deletions of those.
fn phase(engine: &Engine, model: &mut Model, random: &mut Random, acknowledged: &AtomicU64) {
    let big = |random: &mut Random| "v".repeat(300 + random.below(900));
    let mut write = |key: String, value: Option<String>| {
        if value.is_some() || model.latest().contains_key(&key) {
            let revision = commit(engine, model, key, value);
            acknowledged.store(revision.0, Ordering::Release);
        }
    };
    for _ in 0..8 + random.below(6) {
        let value = Some(big(random));
        write(format!("/lasting/{}", random.below(200)), value);
        if random.below(2) == 0 {
            let value = Some(random.bits().to_string());
            write(format!("/passing/{}", random.below(12)), value);
        }
    }
    for _ in 0..30 + random.below(20) {
        match random.below(10) {
            0..=1 => write(format!("/passing/{}", random.below(12)), None),
            2 => {
                let value = Some(random.bits().to_string());
                write(format!("/passing/{}", random.below(12)), value);
            }
            3 if random.below(3) == 0 => compact(engine, random.below(12) as u64),
            _ => {
                let value = Some(big(random));
                write(format!("/churn/{}", random.below(3)), value);
            }
        }
    }
    compact(engine, random.below(5) as u64);
}

/// A history by seed, with the crashes that it was shot at.
fn history(seed: u64) -> Result<(Model, Vec<Shot>), String> {
    let mut random = Random::new(seed);
    let directory = Watched::new(seed);
    let mut engine = open(Arc::new(directory.clone()))?;
    let mut model = Model {
        start: engine.revision(),
        states: vec![State::new()],
    };
    for number in 0..PHASES {
        phase(&engine, &mut model, &mut random, &directory.acknowledged);
        if random.below(2) == 0 {
            drop(engine);
            engine = open(Arc::new(directory.clone()))?;
            let there = model.compare(&engine, directory.acknowledged.load(Ordering::Acquire));
            there.map_err(|why| format!("after phase {number} and a restart, {why}"))?;
        }
    }
    drop(engine);
    sound(&directory.disk)?;
    let shots = std::mem::take(&mut *directory.shots.lock());
    Ok((model, shots))
}

/// The second reader has nothing to say.
fn sound(disk: &SimulatedDirectory) -> Result<(), String> {
    let checked = check_files(&disk.files(), None);
    let (report, _) = checked.map_err(|error| error.to_string())?;
    match report.findings.first() {
        None => Ok(()),
        Some(finding) => Err(format!("the check: {finding:?}")),
    }
}

/// What a start makes of a crash, and of all that it does from there on.
fn start_again(model: &Model, shot: &Shot, seed: u64, lives_on: bool) -> Result<(), String> {
    sound(&shot.left)?;
    let directory: Arc<dyn Directory> = Arc::new(shot.left.clone());
    let engine = open(Arc::clone(&directory))?;
    let there = model.compare(&engine, shot.acknowledged)?;
    if !lives_on {
        return Ok(());
    }
    let mut second = Model {
        start: model.start,
        states: model.states.iter().take(there + 1).cloned().collect(),
    };
    let acknowledged = AtomicU64::new(0);
    let mut random = Random::new(seed);
    phase(&engine, &mut second, &mut random, &acknowledged);
    phase(&engine, &mut second, &mut random, &acknowledged);
    compact(&engine, 0);
    drop(engine);
    sound(&shot.left)?;
    let engine = open(directory)?;
    let acknowledged = acknowledged.load(Ordering::Acquire);
    let lived = second.compare(&engine, acknowledged);
    lived
        .map(drop)
        .map_err(|why| format!("in its second life, {why}"))
}

#[test]
fn r08_a_crash_in_a_sweep_loses_nothing_and_brings_nothing_back() {
    let (mut crashes, mut lives) = (0, 0);
    let mut during = BTreeMap::new();
    for seed in Trial::seeds(SEEDS) {
        let fail = |why: String| -> ! {
            unreachable!("R08, seed {seed}: {why}\nrepeat it: {}", R08.repeat(seed))
        };
        let (model, shots) = history(seed).unwrap_or_else(|why| fail(why));
        for (number, shot) in shots.iter().enumerate() {
            let lives_on = number % LIVES_ON == 0;
            let again = start_again(&model, shot, seed.wrapping_add(number as u64), lives_on);
            again.unwrap_or_else(|why| fail(format!("a crash before {shot:?}: {why}")));
            crashes += 1;
            lives += usize::from(lives_on);
            *during.entry(kind(shot)).or_insert(0_usize) += 1;
        }
    }
    println!("R08: {crashes} crashes in sweeps, {lives} stores that lived on: {during:?}");
    for needed in [
        "write a rewritten segment",
        "sync a rewritten segment",
        "rename MANIFEST",
        "remove a segment",
    ] {
        assert!(
            during.contains_key(needed),
            "no crash before: {needed}; {during:?}"
        );
    }
}

fn kind(shot: &Shot) -> String {
    let (call, name) = shot.during.rsplit_once(' ').unwrap_or_default();
    match name.rsplit_once('.') {
        Some((_, "0000")) => format!("{call} a segment"),
        Some((folder, _)) if folder.starts_with("log/") => format!("{call} a rewritten segment"),
        _ => shot.during.clone(),
    }
}
