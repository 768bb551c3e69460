//! One recorder of concurrent clients and watches, and one checker of what they were told, for
//! every store and for the API above it.
//!
//! Clients write values that are written once, record what they ask before they send it and the
//! answer after it came ([`recorder`]), over crashes and restarts. [`check`] then proves:
//!
//! - *linearizable*: for each key there is an order of its calls, each between its begin and its
//!   end, that explains every answer ([`linear`]);
//! - *one order of revisions*: no revision is given twice, none goes back, no two witnesses
//!   contradict each other ([`timeline`]);
//! - *no acknowledged write is lost*, *a batch is all or nothing*, *nothing is invented*, *reads
//!   are fresh*, *a list is one state*;
//! - watches are *ordered, unique, reliable, atomic, resumable* and *bookmarkable*, and their
//!   events are true ([`watching`]).
//!
//! # Invariants
//! - A write without an answer may have happened, once, before the next death of the store; one
//!   that was seen by anybody has happened.
//! - What nobody could have seen is no violation: some watch should cover everything.

mod clients;
mod linear;
mod recorder;
mod subject;
mod timeline;
mod watching;

use std::collections::{BTreeMap, HashMap};
use std::fmt;

pub use self::clients::{Follower, Workload, client, follow};
pub use self::recorder::{Call, Notice, Recorder, Span, Watching, Wish};
pub use self::subject::{
    Ending, Fault, InProcess, News, Page, Pending, Subject, Subscription, Tale, Verdict,
};

use self::linear::{Deed, Operation, State, Stuck, linearize};
use self::recorder::{Asked, Log, Outcome, Text};
use self::timeline::Timeline;
use storage::Revision;

/// A change as a watch of everything told it: revision, key, and the value where it has one.
pub type Told = (Revision, String, Option<String>);

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The promise.
    pub promise: &'static str,
    /// What contradicts it.
    pub what: String,
}

/// What was checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Calls of clients.
    pub calls: usize,
    /// Calls that ended without an answer.
    pub unanswered: usize,
    /// Watches.
    pub watches: usize,
    /// Events that watches delivered.
    pub events: usize,
    /// Changes that happened.
    pub changes: usize,
}

/// Compares what clients were told with each other.
///
/// # Errors
/// The first broken promise.
pub fn check(recorder: &Recorder) -> Result<Checked, Violation> {
    recorder.with(check_log)
}

/// [`check`], with the changes of one more watch, of everything since the recording began.
///
/// # Errors
/// The first broken promise, as text.
pub fn check_history(recorder: &Recorder, told: &[Told]) -> Result<(), String> {
    let all = recorder.watch(Span::all(), Revision(0));
    for together in told.chunk_by(|a, b| a.0 == b.0) {
        let notices = together.iter().map(|(revision, key, value)| Notice {
            revision: *revision,
            key,
            value: value.as_deref(),
            kind: None,
            previous: None,
        });
        recorder.told(all, notices);
    }
    check(recorder)
        .map(drop)
        .map_err(|violation| violation.to_string())
}

fn check_log(log: &Log) -> Result<Checked, Violation> {
    watching::check_order(log)?;
    timeline::check_time(log)?;
    let timeline = Timeline::of(log)?;
    timeline::check_authors(log, &timeline)?;
    let events = watching::check_watches(log, &timeline)?;
    timeline::check_lists(log, &timeline)?;
    check_keys(log, &timeline)?;
    let unanswered = |call: &&recorder::Recorded| matches!(call.outcome, Outcome::Unknown);
    Ok(Checked {
        calls: log.calls.len(),
        unanswered: log.calls.iter().filter(unanswered).count(),
        watches: log.watches.len(),
        events,
        changes: timeline.changes.len(),
    })
}

/// Every key has an order of its calls.
fn check_keys(log: &Log, timeline: &Timeline) -> Result<(), Violation> {
    // A value without an acknowledgement that somebody saw: when it was written.
    let written: HashMap<Text, Revision> = timeline
        .changes
        .iter()
        .filter_map(|moment| Some((moment.value?, moment.revision)))
        .collect();
    let mut by_key: BTreeMap<Text, Vec<(usize, Operation)>> = BTreeMap::new();
    for (n, call) in log.calls.iter().enumerate() {
        let death = log.deaths.partition_point(|death| *death <= call.begin);
        let end = call.end.or_else(|| log.deaths.get(death).copied());
        for (key, certain, deed) in deeds(&call.asked, &call.outcome, &written) {
            let operation = Operation {
                begin: call.begin,
                end,
                certain,
                deed,
            };
            by_key.entry(key).or_default().push((n, operation));
        }
    }
    let base: HashMap<_, _> = log
        .base
        .iter()
        .map(|(key, value, revision)| (*key, (*value, *revision)))
        .collect();
    for (key, operations) in by_key {
        let initial = base
            .get(&key)
            .map_or_else(State::default, |(value, at)| State {
                value: Some(*value),
                written: Some(*at),
                newest: *at,
            });
        let (calls, operations): (Vec<_>, Vec<_>) = operations.into_iter().unzip();
        if let Err(stuck) = linearize(initial, &operations) {
            return Err(not_linearizable(log, key, stuck, &calls));
        }
    }
    Ok(())
}

fn not_linearizable(log: &Log, key: Text, stuck: Stuck, calls: &[usize]) -> Violation {
    let key = log.name(key);
    let what = match stuck {
        Stuck::Undecided => format!("{key}: the search for an order was given up"),
        Stuck::At(place) => {
            let call = calls
                .get(place)
                .and_then(|n| Some((*n, log.calls.get(*n)?)));
            let value = call.and_then(|(_, call)| match &call.outcome {
                Outcome::Seen(Some((value, _))) => Some(log.name(*value)),
                _ => None,
            });
            format!("{key}: no order explains {call:?}, value {value:?}")
        }
    };
    Violation::new("calls on a key are linearizable", what)
}

/// What a call did to each of its keys.
fn deeds(
    asked: &Asked,
    outcome: &Outcome,
    written: &HashMap<Text, Revision>,
) -> Vec<(Text, bool, Deed)> {
    let wishes = match (asked, outcome) {
        (Asked::Read(key), Outcome::Seen(state)) => return vec![(*key, true, Deed::Read(*state))],
        (Asked::Write(wishes), _) => wishes,
        _ => return Vec::new(),
    };
    match outcome {
        Outcome::Refused(refused) => wishes
            .iter()
            .filter(|(key, ..)| key == refused)
            .map(|(key, value, expect)| {
                let deed = Deed::Refused {
                    expect: *expect,
                    deletion: value.is_none(),
                };
                (*key, true, deed)
            })
            .collect(),
        Outcome::Written(_) | Outcome::Done | Outcome::Unknown => wishes
            .iter()
            .map(|(key, value, expect)| {
                let seen = value.and_then(|value| written.get(&value).copied());
                let revision = match outcome {
                    Outcome::Written(revision) => Some(*revision),
                    _ => seen,
                };
                let expect = *expect;
                let deed = match *value {
                    Some(value) => Deed::Put {
                        value,
                        expect,
                        revision,
                    },
                    None => Deed::Delete { expect, revision },
                };
                let certain = revision.is_some() || matches!(outcome, Outcome::Done);
                (*key, certain, deed)
            })
            .collect(),
        _ => Vec::new(),
    }
}

// === impl Violation ===

impl Violation {
    fn new(promise: &'static str, what: String) -> Self {
        Self { promise, what }
    }

    fn of(self, whose: &str) -> Self {
        Self {
            what: format!("{whose}: {}", self.what),
            ..self
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "broken: {}: {}", self.promise, self.what)
    }
}

impl std::error::Error for Violation {}

#[cfg(test)]
mod tests;
