//! What befalls requests, and how often.

use std::time::Duration;

use crate::dice::Dice;

/// How often each fault befalls a request, of a thousand; nothing by default.
#[derive(Clone, Debug, Default)]
pub struct Weather {
    /// The longest usual delay of a request and of an answer, in milliseconds.
    pub delay: u64,
    /// Requests that take up to some seconds, and rarely longer than callers wait.
    pub slow: u64,
    /// Requests that do not arrive.
    pub lost_requests: u64,
    /// Requests that arrive and whose answers do not.
    pub lost_answers: u64,
    /// Requests that arrive twice; the second answer is given.
    pub duplicates: u64,
    /// Requests that are refused with 409, 429, 500, 503 or 504.
    pub refusals: u64,
    /// Lists that are older than they need be.
    pub stale_lists: u64,
    /// Watches that are answered with 410.
    pub expired: u64,
    /// Watches that are cut within half a minute.
    pub cuts: u64,
    /// Watches whose events come up to some seconds late.
    pub late_streams: u64,
    /// The same of the hub's own watches, by which its syncer learns what users want.
    pub late_hub: u64,
    /// Writes before which somebody else acts on the same object.
    pub interloper: u64,
}

/// How a spoke is away, or sick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Away {
    /// Connections are refused, and those that were there break.
    Refused,
    /// Nothing is answered, and nothing breaks before a ping finds out.
    Silent,
    /// Requests are accepted and never answered; connections stay, and so do the streams on them.
    Hung,
    /// Each way takes [`SLOW_DELAY`], and a second carries [`SLOW_BYTES`]; nothing breaks.
    Slow,
}

/// How long one way to a slow spoke takes.
pub(crate) const SLOW_DELAY: Duration = Duration::from_secs(2);
/// What the way to a slow spoke carries in a second.
const SLOW_BYTES: u64 = 10_000;

/// How long a slow way takes for so many bytes.
pub(crate) fn slow_time(bytes: usize) -> Duration {
    SLOW_DELAY + Duration::from_millis(bytes as u64 * 1_000 / SLOW_BYTES)
}

/// What becomes of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Passes,
    RequestLost,
    AnswerLost,
    Twice,
    Refused(u16),
}

// === impl Weather ===

impl Weather {
    /// Returns a weather in which everything happens, `factor` times as often as is usual.
    pub const fn rough(factor: u64) -> Self {
        Self {
            delay: 40,
            slow: 10 * factor,
            lost_requests: 8 * factor,
            lost_answers: 8 * factor,
            duplicates: 8 * factor,
            refusals: 12 * factor,
            stale_lists: 100 * factor,
            expired: 30 * factor,
            cuts: 80 * factor,
            late_streams: 50 * factor,
            late_hub: 150 * factor,
            interloper: 0,
        }
    }

    /// Returns a weather in which nothing goes wrong.
    pub fn calm() -> Self {
        Self {
            delay: 5,
            ..Self::default()
        }
    }

    pub(crate) fn fate(&self, dice: &Dice, is_write: bool) -> Fate {
        let mut draw = dice.below(1000);
        let mut falls_in = |per_mille: u64| {
            let falls = draw < per_mille;
            draw = draw.saturating_sub(per_mille);
            falls
        };
        if falls_in(self.lost_requests) {
            Fate::RequestLost
        } else if falls_in(self.lost_answers) {
            Fate::AnswerLost
        } else if falls_in(self.duplicates) {
            Fate::Twice
        } else if falls_in(self.refusals) {
            let codes: &[u16] = if is_write {
                &[409, 429, 500, 503, 504]
            } else {
                &[429, 500, 503, 504]
            };
            Fate::Refused(dice.pick(codes).copied().unwrap_or(500))
        } else {
            Fate::Passes
        }
    }

    /// Draws how long one way takes.
    pub(crate) fn delay(&self, dice: &Dice) -> Duration {
        if dice.chance(self.slow) {
            let longest = if dice.chance(50) { 40_000 } else { 4_000 };
            return dice.millis(longest);
        }
        dice.millis(self.delay)
    }
}
