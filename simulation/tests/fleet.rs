//! The trials of the syncer over a simulated fleet, by seed.
//!
//! A failure prints its seeds: `hack/soak R17 --seed 17` runs one alone, and `RUST_LOG=debug` tells its story.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a trial tells what it has run, and each seed that failed"
)]

use std::{
    sync::{
        Once,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use storage_conformance::Trial;
use wheelhouse_simulation::{
    network::{Away, Weather},
    run::{Happens, Plan, Report, Story, Trouble, run},
};

/// A run allocates more than it does anything else.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The first runs of the process, which make what is made once.
static WARM: Once = Once::new();

/// Runs the plans of a trial's seeds, on all cores, and prints what was run.
fn trial(name: &'static str, count: usize, plan: impl Fn(u64) -> Plan + Sync) {
    let _has_logs = tracing_subscriber::fmt()
        .with_thread_names(true)
        .with_ansi(false)
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .try_init();
    let seeds = Trial::seeds(count);
    // What is made once in a process is made before, so that a seed tells the same story whatever ran before it.
    WARM.call_once(|| {
        for plan in warm_up() {
            run(&plan).expect("a run of a seed that is known to be good");
        }
    });
    let began = Stopwatch::start();
    let mut total = Report::default();
    let mut failures = Vec::new();
    let mut failed = None;
    for (seed, outcome) in outcomes(&seeds, &plan) {
        match outcome {
            Ok(report) => {
                total.requests += report.requests;
                total.faults += report.faults;
                total.simulated += report.simulated;
                for told in report.told {
                    println!("{name}: seed {seed}: {told}");
                }
            }
            Err(failure) => {
                eprintln!("{name}: {failure}");
                failures.push(failure);
                failed = failed.or(Some(seed));
            }
        }
    }
    let minutes = began.elapsed().as_secs_f64() / 60.0;
    let runs = u32::try_from(seeds.len()).expect("a few");
    println!(
        "{name}: {runs} runs, {} requests, {} faults, {} simulated minutes; {:.0} runs a minute",
        total.requests,
        total.faults,
        total.simulated.as_secs() / 60,
        f64::from(runs) / minutes.max(1e-9),
    );
    assert!(
        failures.is_empty(),
        "broken: {name}, {} of {} seeds:\n{}\nrepeat one: {}",
        failures.len(),
        seeds.len(),
        failures.join("\n"),
        Trial(name).repeat(failed.unwrap_or_default())
    );
}

/// Plans in which everything happens: a run without faults, one with every sort of node, and one in any weather with a
/// definition that is not root's.
fn warm_up() -> [Plan; 3] {
    let whole = Plan {
        kill_after: Some(3),
        weather: Weather::calm(),
        ..Plan::rough(1)
    };
    [Plan::smallest(), whole, Plan::rough(3)]
}

/// Runs the plan of each seed, as many at a time as there are cores. Returns what came of them in the order of the seeds.
fn outcomes(
    seeds: &[u64],
    plan: &(impl Fn(u64) -> Plan + Sync),
) -> Vec<(u64, Result<Report, String>)> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
            done.push((*seed, run(&plan(*seed))));
        }
        done
    };
    let mut outcomes: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let done = workers.into_iter().map(std::thread::ScopedJoinHandle::join);
        done.flat_map(|done| done.expect("a panic of a run is its outcome"))
            .collect()
    });
    outcomes.sort_by_key(|(seed, _)| *seed);
    outcomes
}

#[test]
fn r17_a_graph_is_whole_wherever_the_hub_is_killed_in_it() {
    trial("R17", 24, |seed| Plan {
        kill_after: Some(seed % 24),
        weather: Weather::calm(),
        ..Plan::rough(seed)
    });
}

#[test]
fn r17_killed_hubs_go_on_in_any_weather() {
    trial("R17", 8, |seed| {
        let mut plan = Plan::rough(seed);
        plan.happens.kills = 250;
        plan
    });
}

#[test]
fn r18_stale_and_late_views_delete_nothing() {
    trial("R18", 8, |seed| Plan {
        weather: Weather {
            stale_lists: 1_000,
            late_streams: 300,
            expired: 150,
            cuts: 400,
            interloper: 50,
            ..Weather::rough(1)
        },
        ..Plan::rough(seed)
    });
}

#[test]
fn r18_a_spoke_that_was_set_back_is_brought_forward_again() {
    trial("R18", 8, |seed| {
        let mut plan = Plan::rough(seed);
        plan.happens.set_backs = 150;
        plan.happens.removals = 0;
        plan
    });
}

#[test]
fn r25_graphs_pass_from_any_definition_to_any_other() {
    trial("R25", 8, |seed| Plan {
        steps: 30,
        happens: Happens {
            redefinitions: 400,
            removals: 60,
            kills: 40,
            ..Happens::default()
        },
        ..Plan::rough(seed)
    });
}

#[test]
fn r18_what_is_made_in_a_spoke_is_taken_up_and_left_to_its_makers() {
    trial("R18", 8, |seed| Plan {
        happens: Happens {
            imports: 600,
            kills: 80,
            outages: 60,
            removals: 20,
            redefinitions: 40,
            foreign: 100,
            ..Happens::default()
        },
        ..Plan::rough(seed)
    });
}

#[test]
fn r17_a_ledger_names_what_comes_back_whatever_was_answered() {
    trial("R17", 6, |seed| Plan {
        story: Story::Swings,
        weather: Weather {
            lost_answers: 150,
            ..Weather::calm()
        },
        ..Plan::rough(seed)
    });
}

#[test]
fn r25_what_is_to_stay_is_never_deleted() {
    trial("R25", 8, |seed| Plan {
        steps: 30,
        happens: Happens {
            kept: true,
            redefinitions: 80,
            removals: 60,
            kills: 80,
            foreign: 120,
            outages: 40,
            ..Happens::default()
        },
        ..Plan::rough(seed)
    });
}

#[test]
fn r25_a_spoke_goes_after_its_instances_wherever_the_hub_is_killed() {
    trial("R25", 6, |seed| Plan {
        story: Story::Removal,
        ..Plan::rough(seed)
    });
}

#[test]
fn r25_a_revision_that_drops_most_children_waits_to_be_confirmed() {
    trial("R25", 4, |seed| Plan {
        instances: 12,
        story: Story::Narrowed,
        weather: if seed == 1 {
            Weather::calm()
        } else {
            Weather::rough(1)
        },
        ..Plan::rough(seed)
    });
}

#[test]
fn r26_an_altered_link_harms_its_own_instance_at_most() {
    trial("R26", 8, |seed| Plan {
        happens: Happens {
            links: 400,
            foreign: 100,
            kills: 40,
            ..Happens::default()
        },
        ..Plan::rough(seed)
    });
}

/// What the rows R16, R19 and R21 allow.
const TROUBLE: Trouble = Trouble {
    sick: 5,
    ways: &[Away::Silent, Away::Refused],
    seconds: (60, 600),
    returned_max: Duration::from_secs(5),
    rise_max: 5,
    open_max: 64,
    lists_max: 1,
};

#[test]
fn r16_spokes_that_are_cut_off_lose_nothing_and_are_right_again_at_once() {
    trial("R16", 1, |seed| Plan {
        spokes: 20,
        story: Story::Trouble(TROUBLE),
        ..Plan::rough(seed)
    });
}

#[test]
fn r19_slow_and_hung_spokes_are_in_nobodys_way() {
    trial("R19", 1, |seed| Plan {
        spokes: 100,
        instances: 1,
        story: Story::Trouble(Trouble {
            ways: &[Away::Slow, Away::Hung, Away::Silent],
            seconds: (120, 180),
            ..TROUBLE
        }),
        ..Plan::rough(seed)
    });
}

#[test]
fn r21_a_fleet_that_returns_at_once_is_right_again_at_once() {
    trial("R21", 1, |seed| Plan {
        spokes: 100,
        instances: 1,
        story: Story::Trouble(Trouble {
            sick: 100,
            seconds: (60, 60),
            ..TROUBLE
        }),
        ..Plan::rough(seed)
    });
}

#[test]
fn r22_a_cluster_that_was_restored_or_replaced_is_noticed() {
    trial("R22", 1, |seed| Plan {
        spokes: 1,
        instances: 250,
        story: Story::Replaced,
        ..Plan::rough(seed)
    });
}

#[test]
fn r23_faults_in_both_directions_cost_few_more_writes() {
    trial("R23", 1, |seed| Plan {
        spokes: 3,
        weather: Weather {
            delay: 5,
            slow: 10,
            lost_requests: 10,
            lost_answers: 10,
            duplicates: 10,
            refusals: 20,
            ..Weather::default()
        },
        story: Story::Faults,
        ..Plan::rough(seed)
    });
}

/// Time as it passes for the machine, not for the runs.
#[expect(
    clippy::disallowed_types,
    reason = "measures how many runs a minute has, outside of any runtime"
)]
struct Stopwatch(std::time::Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_types, reason = "see there")]
    fn start() -> Self {
        Self(std::time::Instant::now())
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}
