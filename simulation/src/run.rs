//! One run: a script by seed, then calm, then the verdict.
//!
//! # Invariants
//!
//! The same plan and the same seed draw the same numbers in the same order: entropy is the seed's too ([`crate::entropy`]). What is not of the seed is listed in
//! `docs/trials.md`.

mod faults;
mod foreign;
mod imports;
mod replaced;
mod script;
mod stories;
mod trouble;
mod verdict;

use std::time::Duration;

use api::kro::FeatureGates;
use tokio::runtime::Builder;

pub use script::World;
pub use trouble::Trouble;

use crate::{
    entropy,
    fleet::{Failure, Fleet},
    network::Weather,
};

/// What a run is made of.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// How many spokes there are.
    pub spokes: usize,
    /// How many definitions of root there are in the beginning.
    pub definitions: usize,
    /// Whether a spoke has a definition of its own.
    pub local: bool,
    /// How many instances each spoke begins with.
    pub instances: usize,
    /// How many things happen.
    pub steps: usize,
    /// What befalls requests meanwhile.
    pub weather: Weather,
    /// What else happens.
    pub happens: Happens,
    /// Instead of all that: one instance of all nodes is made, changed and deleted, and in each of the three the hub's process
    /// is killed after so many writes to the spoke.
    pub kill_after: Option<u64>,
    /// What is played, where it is not the script of a seed.
    pub story: Story,
}

/// What is played.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Story {
    /// What falls by the seed.
    #[default]
    Script,
    /// A spoke is deleted while its instances go, and the hub's process is killed right then.
    Removal,
    /// An instance wants a child, does not want it, and wants it again, while answers get lost.
    Swings,
    /// Some of many spokes are away or sick.
    Trouble(Trouble),
    /// Good weather, then that of the plan.
    Faults,
    /// A cluster is restored to what it was an hour ago, and then replaced.
    Replaced,
    /// A new revision drops most children of many small instances.
    Narrowed,
}

/// What else happens in a run, of a thousand steps.
#[derive(Clone, Copy, Debug, Default)]
pub struct Happens {
    /// The hub's process is killed and started again.
    pub kills: u64,
    /// A spoke goes away for a while.
    pub outages: u64,
    /// A spoke is set back to what it was.
    pub set_backs: u64,
    /// Somebody in a spoke writes or deletes.
    pub foreign: u64,
    /// Somebody in a spoke alters what links an object to its instance: a label, the owners, the finalizers.
    pub links: u64,
    /// A definition is changed.
    pub redefinitions: u64,
    /// A definition or a spoke is deleted, with its instances.
    pub removals: u64,
    /// Of new instances, so many are made in the spoke itself.
    pub imports: u64,
    /// Definitions have objects that stay when nothing wants them any more.
    pub kept: bool,
}

/// What came of a run that found nothing wrong.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Requests over the network.
    pub requests: u64,
    /// Requests that were not left alone.
    pub faults: u64,
    /// How long it took by its own clock.
    pub simulated: Duration,
    /// What was measured.
    pub told: Vec<String>,
}

// === impl Plan ===

impl Plan {
    /// Returns a plan of one instance and no faults.
    pub fn smallest() -> Self {
        Self {
            spokes: 1,
            definitions: 1,
            instances: 1,
            steps: 0,
            weather: Weather::calm(),
            happens: Happens::default(),
            ..Self::rough(1)
        }
    }

    /// Returns a plan of a usual size in which everything but set-backs happens.
    pub fn rough(seed: u64) -> Self {
        Self {
            seed,
            spokes: 2,
            definitions: 2,
            local: seed.is_multiple_of(3),
            instances: 2,
            steps: 25,
            weather: Weather {
                interloper: 20,
                ..Weather::rough(1)
            },
            happens: Happens {
                kills: 80,
                outages: 60,
                set_backs: 0,
                foreign: 250,
                links: 0,
                redefinitions: 80,
                removals: 30,
                imports: 0,
                kept: false,
            },
            kill_after: None,
            story: Story::Script,
        }
    }
}

/// Runs a plan on a thread and a runtime of its own.
///
/// # Errors
/// The first thing that was found wrong, with the seed.
pub fn run(plan: &Plan) -> Result<Report, Failure> {
    let seed = plan.seed;
    let plan = plan.clone();
    // The name tells the stories of runs at the same time apart in a log.
    let thread = std::thread::Builder::new().name(format!("seed-{seed}"));
    let thread = thread.spawn(move || {
        entropy::seed_thread(plan.seed);
        let runtime = Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .map_err(|error| error.to_string())?;
        runtime.block_on(async {
            entropy::follow_clock();
            play(&plan).await
        })
    });
    let thread = thread.map_err(|error| error.to_string())?;
    let outcome = thread.join();
    let outcome = outcome.unwrap_or_else(|_panic| Err("the run panicked".to_owned()));
    outcome.map_err(|failure| format!("seed {seed}: {failure}"))
}

async fn play(plan: &Plan) -> Result<Report, Failure> {
    let began = tokio::time::Instant::now();
    let gates = FeatureGates {
        deletion_policy: plan.happens.kept,
        ..FeatureGates::default()
    };
    let fleet = Fleet::start(plan.seed, gates).await?;
    let mut world = World::new(fleet, plan);
    let played = world.play().await;
    let simulated = began.elapsed();
    let (requests, faults) = world.fleet.network.counts();
    let violations = world.fleet.judge.violations();
    let told = std::mem::take(&mut world.told);
    world.fleet.end().await;
    if !violations.is_empty() {
        return Err(violations.join("\n  "));
    }
    played?;
    Ok(Report {
        requests,
        faults,
        simulated,
        told,
    })
}
