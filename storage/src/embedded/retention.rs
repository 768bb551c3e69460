//! Decides how much history is old enough to go. Pure: time comes in.
//!
//! Revisions have no time of their own. Samples of (time, latest revision) are kept instead: what
//! was the latest revision at least `history` ago may become the floor. What was there before the
//! store was opened is as old as the opening, so a restart never shortens history.

use std::collections::VecDeque;
use std::time::Duration;

use crate::revision::Revision;

/// Samples per length of history: the floor lags behind by at most a twentieth of it.
const SAMPLES: u32 = 20;

/// Remembers when which revision was the latest.
#[derive(Debug)]
pub(crate) struct Retention {
    history: Duration,
    samples: VecDeque<(Duration, Revision)>,
}

// === impl Retention ===

impl Retention {
    /// Keeps history for this long.
    pub(crate) fn new(history: Duration) -> Self {
        Self {
            history,
            samples: VecDeque::new(),
        }
    }

    /// Notes the latest revision at a time.
    pub(crate) fn observe(&mut self, now: Duration, revision: Revision) {
        let due = self
            .samples
            .back()
            .is_none_or(|(last, _)| now.saturating_sub(*last) >= self.history / SAMPLES);
        if due {
            self.samples.push_back((now, revision));
        }
    }

    /// The newest revision that is old enough to be the floor, if one has become so.
    pub(crate) fn floor(&mut self, now: Duration) -> Option<Revision> {
        let mut floor = None;
        while let Some((taken, revision)) = self.samples.front() {
            if now.saturating_sub(*taken) < self.history {
                break;
            }
            floor = Some(*revision);
            self.samples.pop_front();
        }
        floor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_revision_stays_for_the_length_of_history() {
        let history = Duration::from_mins(5);
        let mut retention = Retention::new(history);
        let mut floor = Revision(0);
        for second in 0..2_000_u64 {
            let now = Duration::from_secs(second);
            // One commit per second: revision n is made at second n.
            retention.observe(now, Revision(second));
            floor = retention.floor(now).unwrap_or(floor);
            assert!(
                floor.0 <= second.saturating_sub(300),
                "too early at {second}: {floor}"
            );
            let latest = second.saturating_sub(300 + 2 * 300 / u64::from(SAMPLES));
            assert!(floor.0 >= latest, "too late at {second}: {floor}");
        }
        assert!(
            retention.samples.len() <= SAMPLES as usize + 1,
            "samples do not pile up"
        );
    }

    #[test]
    fn a_clock_that_stands_still_compacts_nothing() {
        let mut retention = Retention::new(Duration::from_mins(5));
        for revision in 0..100 {
            retention.observe(Duration::ZERO, Revision(revision));
        }
        assert_eq!(retention.floor(Duration::ZERO), None);
    }
}
