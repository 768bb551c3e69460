//! Pauses that grow, up to a cap, and differ between those who wait.
//!
//! Each pause is between a half and the whole of a bound that doubles. The randomness is a small generator of our
//! own, seeded from the process or by the caller, so that a simulation can be repeated.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

/// The pauses of one repeated attempt.
#[derive(Clone, Debug)]
pub struct Backoff {
    initial: Duration,
    max: Duration,
    bound: Duration,
    attempt_count: u32,
    state: u64,
}

// === impl Backoff ===

impl Backoff {
    /// Begins with pauses of up to `initial` and never exceeds `max`.
    pub fn new(initial: Duration, max: Duration) -> Self {
        // Each `RandomState` has its own keys; hashing anything by it yields a number that differs.
        Self::seeded(initial, max, RandomState::new().hash_one(0_u8))
    }

    /// The same, with randomness that can be repeated.
    pub fn seeded(initial: Duration, max: Duration, seed: u64) -> Self {
        Self {
            initial,
            max,
            bound: initial.min(max),
            attempt_count: 0,
            state: seed,
        }
    }

    /// Takes the next pause.
    pub fn next_pause(&mut self) -> Duration {
        let half = self.bound / 2;
        let part = u32::try_from(self.random() >> 32).unwrap_or(u32::MAX);
        let jitter = half.mul_f64(f64::from(part) / f64::from(u32::MAX));
        let pause = half.saturating_add(jitter);
        self.bound = self.bound.saturating_mul(2).min(self.max);
        self.attempt_count = self.attempt_count.saturating_add(1);
        pause
    }

    /// Begins anew, after something went well.
    pub fn reset(&mut self) {
        self.bound = self.initial.min(self.max);
        self.attempt_count = 0;
    }

    /// Counts the pauses since the beginning.
    pub const fn attempt_count(&self) -> u32 {
        self.attempt_count
    }

    /// SplitMix64. Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
    const fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_cap_and_stay_between_half_and_whole() {
        let mut backoff =
            Backoff::seeded(Duration::from_millis(100), Duration::from_millis(500), 1);
        for bound_ms in [100, 200, 400, 500, 500] {
            let bound = Duration::from_millis(bound_ms);
            let pause = backoff.next_pause();
            assert!(
                pause >= bound / 2 && pause <= bound,
                "{pause:?} of {bound:?}"
            );
        }
        assert_eq!(backoff.attempt_count(), 5);
        backoff.reset();
        assert!(backoff.next_pause() <= Duration::from_millis(100));
    }

    #[test]
    fn a_seed_repeats_the_pauses_and_others_differ() {
        let pauses = |seed| {
            let mut backoff = Backoff::seeded(Duration::from_secs(1), Duration::from_mins(1), seed);
            [(); 6].map(|()| backoff.next_pause())
        };
        assert_eq!(pauses(7), pauses(7));
        assert_ne!(pauses(7), pauses(8));
        let unseeded = || Backoff::new(Duration::from_secs(1), Duration::from_mins(1)).next_pause();
        assert_ne!(unseeded(), unseeded());
    }

    #[test]
    fn the_first_pause_does_not_exceed_the_cap_either() {
        let mut backoff = Backoff::seeded(Duration::from_secs(9), Duration::from_secs(1), 1);
        assert!(backoff.next_pause() <= Duration::from_secs(1));
        backoff.reset();
        assert!(backoff.next_pause() <= Duration::from_secs(1));
    }
}
