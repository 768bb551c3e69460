//! The trials of the syncer over a simulated fleet, by seed.
//!
//! A failure prints its seed: `hack/soak R17 --seed 17` runs it alone, and `RUST_LOG=debug` tells its story.

use std::time::Duration;

use storage::conformance::Trial;
use wheelhouse_simulation::{
    network::Weather,
    run::{Happens, Plan, Report, run},
};

/// Runs the plans of a trial's seeds and prints what was run.
fn trial(name: &'static str, count: usize, plan: impl Fn(u64) -> Plan) {
    let _has_logs = tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .try_init();
    let seeds = Trial::seeds(count);
    let began = Stopwatch::start();
    let mut total = Report::default();
    let mut failures = Vec::new();
    for seed in &seeds {
        match run(&plan(*seed)) {
            Ok(report) => {
                total.requests += report.requests;
                total.faults += report.faults;
                total.simulated += report.simulated;
            }
            Err(failure) => {
                eprintln!("{name}: {failure}");
                failures.push(failure);
            }
        }
    }
    let minutes = began.elapsed().as_secs_f64() / 60.0;
    println!(
        "{name}: {} runs, {} requests, {} faults, {} simulated minutes; {:.0} runs a minute",
        seeds.len(),
        total.requests,
        total.faults,
        total.simulated.as_secs() / 60,
        seeds.len() as f64 / minutes.max(1e-9),
    );
    assert!(
        failures.is_empty(),
        "broken: {name}, {} of {} seeds:\n{}\nrepeat one: {}",
        failures.len(),
        seeds.len(),
        failures.join("\n"),
        Trial(name).repeat(17)
    );
}

#[test]
fn rough() {
    trial("rough", 20, Plan::rough);
}

#[test]
fn calm() {
    trial("calm", 20, |seed| Plan {
        weather: Weather::calm(),
        happens: Happens::default(),
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
