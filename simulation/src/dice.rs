//! Randomness by seed: the only source of it in this crate.

use std::time::Duration;

use parking_lot::Mutex;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

/// A generator that is shared by all parts of a run, in the order in which they draw.
#[derive(Debug)]
pub struct Dice(Mutex<StdRng>);

// === impl Dice ===

impl Dice {
    /// Makes the generator of a seed.
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(StdRng::seed_from_u64(seed)))
    }

    /// Returns a number below `end`; 0 where `end` is 0.
    pub fn below(&self, end: u64) -> u64 {
        self.0.lock().random_range(0..end.max(1))
    }

    /// Returns true in so many of a thousand cases.
    pub fn chance(&self, per_mille: u64) -> bool {
        per_mille > 0 && self.below(1000) < per_mille
    }

    /// Returns an index of a list of this length.
    pub fn index(&self, count: usize) -> usize {
        usize::try_from(self.below(count as u64)).unwrap_or_default()
    }

    /// Returns one of some items, if there are any.
    pub fn pick<'a, T>(&self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.index(items.len()))
    }

    /// Returns a duration below a number of milliseconds.
    pub fn millis(&self, below: u64) -> Duration {
        Duration::from_millis(self.below(below))
    }
}
