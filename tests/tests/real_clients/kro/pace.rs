//! How many scenarios are played at once, and how fast the programs under trial are.
//!
//! `WHEELHOUSE_AT_ONCE` is the number of scenarios (16). `WHEELHOUSE_SLOWED` is the divisor of the programs' speed (1): each
//! of them is stopped and continued in turn, in a phase of its own, so that they overtake one another as on a busy machine.

use std::{env, num::NonZeroU32, process::Command, time::Duration};

use wheelhouse_tests::process::{Process, Scratch};

/// Scenarios that are played at the same time, if nothing else is asked.
const AT_ONCE: usize = 16;

/// How long all sides may take to be equal at full speed.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a program runs before it is stopped.
const RUN_MS: u32 = 50;

/// Stops and continues the process `$1`: it runs for `$2` seconds and stands for `$3`. Ends with the process.
const TURNS: &str = r#"
while kill -CONT "$1" 2>/dev/null; do
  sleep "$2"
  kill -STOP "$1" 2>/dev/null
  sleep "$3"
done
"#;

/// How many scenarios are played at once.
pub(super) fn at_once() -> usize {
    let count = number("WHEELHOUSE_AT_ONCE");
    count.map_or(AT_ONCE, |count| usize::try_from(count).expect("a count"))
}

/// How long all sides may take to be equal: longer where the programs are slower.
pub(super) fn patience() -> Duration {
    PATIENCE * divisor()
}

/// Slows programs down for as long as what it returns lives.
pub(super) fn slow(programs: &[&Process], scratch: &Scratch) -> Vec<Process> {
    let stand_ms = RUN_MS * (divisor() - 1);
    if stand_ms == 0 {
        return Vec::new();
    }
    let seconds = |ms: u32| Duration::from_millis(ms.into()).as_secs_f64().to_string();
    let turns = programs.iter().map(|program| {
        let mut command = Command::new("sh");
        command.args(["-c", TURNS, "turns", &program.pid().to_string()]);
        command.args([seconds(RUN_MS), seconds(stand_ms)]);
        Process::start(&command, &scratch.file("turns.log"))
    });
    turns.collect()
}

fn divisor() -> u32 {
    number("WHEELHOUSE_SLOWED").unwrap_or(1)
}

/// The positive number that a variable holds.
fn number(name: &str) -> Option<u32> {
    let text = env::var(name).ok()?;
    let number = text.parse::<NonZeroU32>().ok();
    assert!(number.is_some(), "{name}={text} is no positive number");
    number.map(NonZeroU32::get)
}
