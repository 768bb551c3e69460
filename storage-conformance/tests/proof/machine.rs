//! A machine with a simulated disk that loses power, and the clients of the store on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use storage::embedded::{Config, Engine};
use storage::{Revision, Store};
use tokio::sync::watch;
use tokio::task::JoinSet;
use wheelhouse_storage_conformance::histories::{
    Follower, InProcess, Recorder, Span, Subject, Violation, Workload, client, follow,
};
use wheelhouse_storage_conformance::simulated::{Fault, SimulatedDirectory};
use wheelhouse_storage_conformance::{Random, Trial};

/// A machine that goes down and comes up again.
pub(crate) struct Machine {
    disk: SimulatedDirectory,
    engine: Arc<Engine>,
    pub(crate) clients: Arc<InProcess>,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) random: Random,
    /// Whether segments are prepared and swept on a thread of their own.
    background: bool,
}

/// The watches of a machine, over all its restarts.
pub(crate) struct Followers {
    tasks: JoinSet<Result<(), Violation>>,
    target: watch::Sender<Revision>,
}

/// What goes wrong in the disk while clients run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mishap {
    /// Nothing; the store is closed in order afterwards.
    None,
    /// Power is lost at one of so many calls to the disk.
    PowerLoss { within_calls: usize },
    /// One of so many syncs fails, and all after it.
    FailedSync { within_syncs: usize },
    /// After some of so many calls nothing more fits, until [`Machine::free`].
    FullDisk { within_calls: usize },
}

// === impl Machine ===

impl Machine {
    /// A machine with an empty store.
    pub(crate) fn new(seed: u64) -> Self {
        let disk = SimulatedDirectory::default();
        let background = seed.is_multiple_of(2);
        disk.set_background(background);
        let engine = Arc::new(open(&disk));
        let store: Arc<dyn Store> = Arc::clone(&engine) as _;
        Self {
            disk,
            engine,
            clients: Arc::new(InProcess::new(store)),
            recorder: Arc::default(),
            random: Random::new(seed),
            background,
        }
    }

    /// The engine that runs now.
    pub(crate) fn engine(&self) -> Arc<Engine> {
        Arc::clone(&self.engine)
    }

    /// Runs clients until all have made their calls or met with the mishap. Returns their calls.
    pub(crate) async fn run(
        &mut self,
        subject: &Arc<dyn Subject>,
        count: usize,
        workload: Workload,
        mishap: Mishap,
    ) -> Result<usize, Violation> {
        match mishap {
            Mishap::None => {}
            Mishap::PowerLoss { within_calls } => {
                let calls = self.random.below(within_calls) as u64;
                self.disk
                    .set_fault(Fault::StopAt(self.disk.calls() + calls));
            }
            Mishap::FailedSync { within_syncs } => {
                let syncs = self.random.below(within_syncs) as u64;
                self.disk
                    .set_fault(Fault::FailSync(self.disk.syncs() + syncs));
            }
            Mishap::FullDisk { within_calls } => {
                let calls = self.random.below(within_calls) as u64;
                self.disk
                    .set_fault(Fault::FullAt(self.disk.calls() + calls));
            }
        }
        let stop = Arc::new(AtomicBool::new(false));
        let mut tasks = JoinSet::new();
        for _ in 0..count {
            let workload = Workload {
                seed: self.random.bits(),
                ..workload
            };
            let (subject, recorder) = (Arc::clone(subject), Arc::clone(&self.recorder));
            let stop = Arc::clone(&stop);
            tasks.spawn(async move {
                let outcome = client(&*subject, &recorder, workload, &stop).await;
                stop.fetch_or(outcome.is_err(), Ordering::Relaxed);
                outcome
            });
        }
        let mut calls = 0;
        for outcome in tasks.join_all().await {
            calls += outcome?;
        }
        Ok(calls)
    }

    /// There is space again, and the store goes on as it is.
    pub(crate) fn free(&self) {
        self.disk.set_fault(Fault::None);
    }

    /// Takes the power away, and starts again with what the disk has kept.
    pub(crate) fn power_cycle(&mut self) {
        let left = self.disk.after_crash(self.random.bits());
        self.disk.set_fault(Fault::StopAt(0));
        self.engine.close();
        self.restart(left);
    }

    /// Closes the store in order and opens it again.
    pub(crate) fn reopen(&mut self) {
        self.engine.close();
        self.disk.set_fault(Fault::None);
        self.restart(self.disk.clone());
    }

    fn restart(&mut self, disk: SimulatedDirectory) {
        self.recorder.death();
        disk.set_background(self.background);
        self.disk = disk;
        self.engine = Arc::new(open(&self.disk));
        self.clients.replace(Arc::clone(&self.engine) as _);
    }

    /// The first to watch: it never lets go of what it watches.
    pub(crate) fn followers(&self, subject: &Arc<dyn Subject>) -> Followers {
        let mut followers = Followers::new();
        let all = Follower::of(Span::all());
        followers.add(&self.recorder, subject, all, self.engine.revision());
        followers
    }
}

fn open(disk: &SimulatedDirectory) -> Engine {
    // Segments so small that histories fill several, and sweep them.
    let config = Config {
        segment_bytes_first: 8 * 1024,
        segment_bytes_max: 64 * 1024,
        ..Config::default()
    };
    Engine::open_on(Arc::new(disk.clone()), config).expect("the store can be opened")
}

// === impl Followers ===

impl Followers {
    pub(crate) fn new() -> Self {
        Self {
            tasks: JoinSet::new(),
            target: watch::Sender::new(Revision(0)),
        }
    }

    /// One more watch.
    pub(crate) fn add(
        &mut self,
        recorder: &Arc<Recorder>,
        subject: &Arc<dyn Subject>,
        follower: Follower,
        after: Revision,
    ) {
        let follower = Follower {
            seed: self.tasks.len() as u64,
            ..follower
        };
        let (subject, recorder) = (Arc::clone(subject), Arc::clone(recorder));
        let target = self.target.subscribe();
        self.tasks
            .spawn(async move { follow(&*subject, &recorder, follower, after, target).await });
    }

    /// Reports a watch that has ended before it should.
    pub(crate) fn look(&mut self) -> Result<(), Violation> {
        while let Some(ended) = self.tasks.try_join_next() {
            ended.expect("no watch panics")?;
        }
        Ok(())
    }

    /// Lets every watch see everything, and ends it.
    pub(crate) async fn finish(self, revision: Revision) -> Result<(), Violation> {
        let Self { tasks, target } = self;
        target.send_replace(revision);
        for outcome in tasks.join_all().await {
            outcome?;
        }
        Ok(())
    }
}

/// Runs a trial of one seed on a runtime of its own.
pub(crate) fn play(
    trial: Trial,
    seed: u64,
    history: impl AsyncFnOnce(&mut Machine) -> Result<(), Violation>,
) -> wheelhouse_storage_conformance::histories::Checked {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .expect("a runtime can be made");
    let mut machine = Machine::new(seed);
    let outcome = runtime.block_on(history(&mut machine));
    trial.must(seed, outcome);
    trial.prove(seed, &machine.recorder)
}
