//! How often a trial by seed runs, and how a failure says how to repeat it.
//!
//! `hack/soak` sets what is read here: `WHEELHOUSE_SOAK_FACTOR` multiplies the counts (10 is a
//! night's run, 1 is the test suite's), `WHEELHOUSE_SEED` leaves the one seed, and
//! `WHEELHOUSE_SEED_FIRST` begins elsewhere than at 1. `hack/planted-bugs` sets
//! `WHEELHOUSE_SEED_COUNT`, which bounds how many seeds are tried.

use super::histories::{Checked, Recorder, Violation, check};

/// A trial, by its name in `docs/trials.md`: `R05`.
#[derive(Clone, Copy, Debug)]
pub struct Trial(pub &'static str);

// === impl Trial ===

impl Trial {
    /// How often everything is done.
    pub fn factor() -> usize {
        variable("WHEELHOUSE_SOAK_FACTOR").unwrap_or(1).max(1)
    }

    /// The seeds of so many runs, times the factor; or the one that is to be repeated.
    pub fn seeds(count: usize) -> Vec<u64> {
        if let Some(seed) = variable("WHEELHOUSE_SEED") {
            return vec![seed];
        }
        let count = count.saturating_mul(Self::factor());
        let count = count.min(variable("WHEELHOUSE_SEED_COUNT").unwrap_or(count));
        let first: u64 = variable("WHEELHOUSE_SEED_FIRST").unwrap_or(1);
        (first..).take(count).collect()
    }

    /// The command that repeats a run, at its size.
    pub fn repeat(self, seed: u64) -> String {
        self.repeat_at(seed, Self::factor())
    }

    fn repeat_at(self, seed: u64, factor: usize) -> String {
        let name = self.0;
        match factor {
            1 => format!("hack/soak {name} --seed {seed}"),
            _ => format!("hack/soak {name} --seed {seed} --factor {factor}"),
        }
    }

    /// Checks a recording.
    ///
    /// # Panics
    /// With the broken promise and the command that repeats it.
    pub fn prove(self, seed: u64, recorder: &Recorder) -> Checked {
        self.must(seed, check(recorder))
    }

    /// Takes the outcome of a run.
    ///
    /// # Panics
    /// With the broken promise and the command that repeats it.
    pub fn must<T>(self, seed: u64, outcome: Result<T, Violation>) -> T {
        let repeat = self.repeat(seed);
        let broken = outcome.as_ref().err().map(ToString::to_string);
        assert!(
            broken.is_none(),
            "{}, seed {seed}: {}\nrepeat it: {repeat}",
            self.0,
            broken.unwrap_or_default()
        );
        outcome.expect("just asserted")
    }
}

fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_repeated_at_the_size_at_which_it_was_found() {
        for (factor, want) in [
            (1, "hack/soak R20 --seed 7"),
            (10, "hack/soak R20 --seed 7 --factor 10"),
        ] {
            assert_eq!(Trial("R20").repeat_at(7, factor), want);
        }
    }
}
