//! The circuit breaker of one spoke: after repeated failures, requests are refused at once, and one at a time is let through
//! to see whether the spoke is back.
//!
//! ```text
//!            FAILURE_COUNT_MAX in a row            the pause is over: one probe
//!   closed ─────────────────────────────► open ────────────────────────────────► half-open
//!     ▲                                    ▲                                     │     │
//!     │                                    └────── it fails: a longer pause ─────┘     │
//!     └────────────────────────── the spoke answers ───────────────────────────────────┘
//! ```
//!
//! # Invariants
//! - Only what a user has no part in counts as a failure: that no connection came about, or that the hub's own heartbeat was
//!   not answered. A tenant cannot open the circuit of a spoke that works.
//! - Whatever the spoke answers, refusals too, closes it.
//! - There is one probe at a time; one that is given up leaves its turn to the next, and so does one that takes long: what a
//!   user sent may take as long as the user likes, and keeps nobody else out.

use std::time::Duration;

use parking_lot::Mutex;
use tasks::Backoff;
use tokio::time::Instant;

/// How many failures in a row open the circuit: one is a connection that broke, two may be those that waited on it.
const FAILURE_COUNT_MAX: u32 = 3;
/// The first and the longest pause between probes; each is up to a half shorter. The last is how long a spoke that is back may
/// wait to be noticed.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(2));
/// How long a probe has its turn: as long as a heartbeat waits for its answer.
const TURN: Duration = Duration::from_secs(3);

/// The breaker of one spoke.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    /// Guards the state. A leaf of the lock order.
    state: Mutex<Tracked>,
}

#[derive(Debug, Default)]
struct Tracked {
    failure_count: u32,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    since: jiff::Timestamp,
    pauses: Backoff,
    next: Instant,
    /// The probe that was let through and has not ended.
    probe: Option<Probe>,
    /// How many probes were let through.
    turn_count: u64,
}

#[derive(Debug, Clone, Copy)]
struct Probe {
    turn: u64,
    /// When the turn ends, though the probe may not have ended.
    until: Instant,
}

/// Whether the circuit of a spoke is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Circuit {
    /// The state.
    pub state: CircuitState,
    /// Since when it is not closed.
    pub since: Option<jiff::Timestamp>,
    /// When the next probe is let through, where none is under way.
    pub next_probe: Option<jiff::Timestamp>,
}

/// The states of a circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CircuitState {
    /// Requests pass.
    Closed,
    /// Requests are refused.
    Open,
    /// Requests are refused, and one is under way that tells whether the spoke is back.
    HalfOpen,
}

/// The right to send one request. Dropping it ends the probe, if it is one.
#[derive(Debug)]
pub struct Permit<'b> {
    breaker: &'b Breaker,
    /// Which probe it is, if it is one.
    turn: Option<u64>,
}

/// What is refused at once, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken {
    /// How long until the next probe.
    pub pause: Duration,
}

// === impl CircuitState ===

impl CircuitState {
    /// Returns the state as a Spoke's status has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "Closed",
            Self::Open => "Open",
            Self::HalfOpen => "HalfOpen",
        }
    }
}

// === impl Breaker ===

impl Breaker {
    /// Lets a request through, or refuses it.
    pub(crate) fn admit(&self) -> Result<Permit<'_>, Broken> {
        let now = Instant::now();
        let mut state = self.state.lock();
        let turn = match &mut state.open {
            None => None,
            Some(open) => {
                let due = open.due();
                if due > now {
                    let pause = due.saturating_duration_since(now);
                    return Err(Broken { pause });
                }
                Some(open.take_turn(now))
            }
        };
        Ok(Permit {
            breaker: self,
            turn,
        })
    }

    /// Notes that the spoke answered.
    pub(crate) fn closed(&self) {
        *self.state.lock() = Tracked::default();
    }

    fn failed(&self, turn: Option<u64>) {
        let mut state = self.state.lock();
        state.failure_count = state.failure_count.saturating_add(1);
        let is_enough = state.failure_count >= FAILURE_COUNT_MAX;
        match &mut state.open {
            Some(open) if open.has_turn(turn) => {
                open.probe = None;
                open.next = Instant::now() + open.pauses.next_pause();
            }
            None if is_enough => {
                let (initial, max) = PAUSES;
                let mut pauses = Backoff::new(initial, max);
                let next = Instant::now() + pauses.next_pause();
                state.open = Some(Open {
                    since: jiff::Timestamp::now(),
                    pauses,
                    next,
                    probe: None,
                    turn_count: 0,
                });
            }
            // What was sent before the circuit opened, or the turn ended, says nothing new.
            Some(_) | None => {}
        }
    }

    /// Lets a probe through now: there is word that the spoke is back.
    pub(crate) fn hurry(&self) {
        if let Some(open) = &mut self.state.lock().open {
            open.next = Instant::now();
        }
    }

    /// Returns how it is.
    pub(crate) fn circuit(&self) -> Circuit {
        let state = self.state.lock();
        let Some(open) = &state.open else {
            return Circuit {
                state: CircuitState::Closed,
                since: None,
                next_probe: None,
            };
        };
        let pause = open.next.saturating_duration_since(Instant::now());
        let next = jiff::SignedDuration::try_from(pause).unwrap_or_default();
        let is_probed = open.probe.is_some();
        Circuit {
            state: if is_probed {
                CircuitState::HalfOpen
            } else {
                CircuitState::Open
            },
            since: Some(open.since),
            next_probe: (!is_probed).then(|| jiff::Timestamp::now() + next),
        }
    }

    /// Returns how long until the next probe; `None` while it is closed.
    pub(crate) fn pause(&self) -> Option<Duration> {
        let state = self.state.lock();
        let open = state.open.as_ref()?;
        Some(open.due().saturating_duration_since(Instant::now()))
    }
}

// === impl Open ===

impl Open {
    /// Returns when the next probe is let through.
    fn due(&self) -> Instant {
        self.probe.map_or(self.next, |probe| probe.until)
    }

    fn take_turn(&mut self, now: Instant) -> u64 {
        self.turn_count += 1;
        self.probe = Some(Probe {
            turn: self.turn_count,
            until: now + TURN,
        });
        self.turn_count
    }

    /// Whether it is the turn of a probe.
    fn has_turn(&self, turn: Option<u64>) -> bool {
        self.probe.is_some_and(|probe| Some(probe.turn) == turn)
    }
}

// === impl Permit ===

impl Permit<'_> {
    /// Notes that what was sent has failed, in a way that no user has a part in.
    pub fn failed(mut self) {
        self.breaker.failed(self.turn);
        self.turn = None; // it is over
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if self.turn.is_some()
            && let Some(open) = &mut self.breaker.state.lock().open
            && open.has_turn(self.turn)
        {
            open.probe = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened() -> Breaker {
        let breaker = Breaker::default();
        for _ in 0..FAILURE_COUNT_MAX {
            breaker.failed(None);
        }
        breaker
    }

    #[tokio::test(start_paused = true)]
    async fn repeated_failures_open_it_and_one_probe_at_a_time_tells_whether_it_is_back() {
        let breaker = Breaker::default();
        for _ in 1..FAILURE_COUNT_MAX {
            breaker.admit().expect("it is closed").failed();
            assert!(breaker.admit().is_ok(), "not yet");
        }
        breaker.closed();
        breaker.admit().expect("it is closed").failed();
        assert!(breaker.admit().is_ok(), "they are counted in a row");
        let breaker = opened();
        assert_eq!(breaker.circuit().state, CircuitState::Open);
        let refused = breaker.admit().expect_err("it is open");
        assert!(!refused.pause.is_zero() && refused.pause <= PAUSES.0);
        tokio::time::advance(refused.pause).await;
        let probe = breaker.admit().expect("its turn");
        assert_eq!(breaker.circuit().state, CircuitState::HalfOpen);
        assert!(breaker.admit().is_err(), "one at a time");
        drop(probe);
        let probe = breaker.admit().expect("it was given up");
        breaker.closed();
        drop(probe);
        assert_eq!(breaker.circuit().state, CircuitState::Closed);
        assert!(breaker.admit().is_ok() && breaker.pause().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_that_takes_long_keeps_nobody_else_out() {
        let breaker = opened();
        breaker.hurry();
        let slow = breaker.admit().expect("its turn");
        let refused = breaker.admit().expect_err("one at a time");
        assert_eq!(refused.pause, TURN);
        tokio::time::advance(refused.pause).await;
        let next = breaker.admit().expect("the turn of the first is over");
        drop(slow);
        assert_eq!(breaker.circuit().state, CircuitState::HalfOpen);
        assert!(breaker.admit().is_err(), "the first has no turn to give");
        let pause = breaker.pause();
        tokio::time::advance(TURN / 2).await;
        next.failed();
        assert_ne!(breaker.pause(), pause);
        assert_eq!(breaker.circuit().state, CircuitState::Open);
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_while_probes_fail_and_late_failures_do_not_lengthen_them() {
        let breaker = opened();
        let since = breaker.circuit().since;
        let pause = breaker.pause();
        for _ in 0..10 {
            breaker.failed(None); // sent before it opened
        }
        assert_eq!(breaker.pause(), pause);
        let mut longest = Duration::ZERO;
        for _ in 0..10 {
            tokio::time::advance(breaker.pause().expect("open")).await;
            breaker.admit().expect("its turn").failed();
            let pause = breaker.pause().expect("open");
            assert!(!pause.is_zero() && pause <= PAUSES.1, "{pause:?}");
            longest = longest.max(pause);
        }
        assert!(longest >= PAUSES.1 / 2, "they grow: {longest:?}");
        assert_eq!(breaker.circuit().since, since, "one outage");
        breaker.hurry();
        assert!(breaker.admit().is_ok(), "there is word of it");
    }
}
