//! The syncer's trials over a simulated fleet, by seed.

use wheelhouse_simulation::run::{Plan, run};

#[test]
fn one_spoke_converges() {
    let _logs = tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .try_init();
    let plan = Plan {
        spokes: 1,
        definitions: 1,
        instances: 1,
        local: false,
        steps: 0,
        weather: wheelhouse_simulation::network::Weather::calm(),
        happens: Default::default(),
        ..Plan::rough(1)
    };
    println!("{:?}", run(&plan).unwrap_or_else(|e| panic!("{e}")));
}
