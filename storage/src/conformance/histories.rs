//! A recorder of concurrent clients, and the checker of what they saw.
//!
//! Clients write unique values. Afterwards the watch of everything is the truth to compare with: it
//! must hold every acknowledged write once, in an order in which no write that was answered comes
//! behind one that began later, and every read must have seen a state that was current at some moment
//! between its begin and its end.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::revision::Revision;

/// What clients did, in the order in which it was recorded.
#[derive(Debug, Default)]
pub struct Recorder {
    steps: Mutex<Vec<Step>>,
}

/// Names a call within a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call(usize);

#[derive(Clone, Debug)]
enum Step {
    Write {
        key: String,
        value: Option<String>,
    },
    Read {
        key: String,
    },
    /// The revision of a write that was accepted.
    Written(Call, Revision),
    /// The value, and the revision that wrote it.
    Seen(Call, Option<(String, Revision)>),
}

/// A change as the watch of everything told it.
pub type Told = (Revision, String, Option<String>);

// === impl Recorder ===

impl Recorder {
    /// A write begins.
    pub fn write(&self, key: &str, value: Option<&str>) -> Call {
        self.push(Step::Write {
            key: key.to_owned(),
            value: value.map(str::to_owned),
        })
    }

    /// A write was acknowledged.
    pub fn written(&self, call: Call, revision: Revision) {
        self.push(Step::Written(call, revision));
    }

    /// A read begins.
    pub fn read(&self, key: &str) -> Call {
        self.push(Step::Read {
            key: key.to_owned(),
        })
    }

    /// A read has its answer.
    pub fn seen(&self, call: Call, state: Option<(String, Revision)>) {
        self.push(Step::Seen(call, state));
    }

    fn push(&self, step: Step) -> Call {
        let mut steps = self.steps.lock();
        steps.push(step);
        Call(steps.len().saturating_sub(1))
    }
}

/// Compares what clients were told with what happened. `told` is every change since the recording
/// began.
///
/// # Errors
/// The first violation, as text.
pub fn check_history(recorder: &Recorder, told: &[Told]) -> Result<(), String> {
    let steps = recorder.steps.lock().clone();
    if !told.is_sorted_by(|a, b| a.0 <= b.0) {
        return Err("the watch is not in order".to_owned());
    }
    let mut by_key: BTreeMap<&str, Vec<(Revision, Option<&str>)>> = BTreeMap::new();
    for (revision, key, value) in told {
        by_key
            .entry(key)
            .or_default()
            .push((*revision, value.as_deref()));
    }
    // The newest revision that was acknowledged or seen before a step.
    let mut known = Vec::with_capacity(steps.len());
    let mut newest = Revision(0);
    for step in &steps {
        known.push(newest);
        newest = match step {
            Step::Written(_, revision) | Step::Seen(_, Some((_, revision))) => {
                newest.max(*revision)
            }
            _ => newest,
        };
    }
    for step in &steps {
        let (call, outcome) = match step {
            Step::Written(call, revision) => (*call, Outcome::Written(*revision)),
            Step::Seen(call, state) => (*call, Outcome::Seen(state.clone())),
            Step::Write { .. } | Step::Read { .. } => continue,
        };
        let floor = known.get(call.0).copied().unwrap_or_default();
        check_step(steps.get(call.0), floor, outcome, &by_key)
            .map_err(|violation| format!("call {}: {violation}", call.0))?;
    }
    Ok(())
}

enum Outcome {
    Written(Revision),
    Seen(Option<(String, Revision)>),
}

fn check_step(
    begin: Option<&Step>,
    floor: Revision,
    outcome: Outcome,
    told: &BTreeMap<&str, Vec<(Revision, Option<&str>)>>,
) -> Result<(), String> {
    match (begin, outcome) {
        (Some(Step::Write { key, value }), Outcome::Written(revision)) => {
            let changes = told
                .get(key.as_str())
                .map(Vec::as_slice)
                .unwrap_or_default();
            let same = changes
                .iter()
                .filter(|(at, _)| *at == revision)
                .collect::<Vec<_>>();
            if same != [&(revision, value.as_deref())] {
                return Err(format!(
                    "{key} was acknowledged at {revision}, the watch has {same:?}"
                ));
            }
            if revision <= floor {
                return Err(format!(
                    "{revision} is not behind {floor}, which was known before"
                ));
            }
            Ok(())
        }
        (Some(Step::Read { key }), Outcome::Seen(state)) => {
            let changes = told
                .get(key.as_str())
                .map(Vec::as_slice)
                .unwrap_or_default();
            let due = changes.iter().rev().find(|(at, _)| *at <= floor);
            if let Some((value, revision)) = state {
                if !changes.contains(&(revision, Some(value.as_str()))) {
                    return Err(format!("{key} was never {value} at {revision}"));
                }
                if due.is_some_and(|(at, _)| revision < *at) {
                    return Err(format!("{key} was read at {revision}, stale: {due:?}"));
                }
            } else {
                let deleted_later = changes.iter().any(|(at, v)| *at > floor && v.is_none());
                if due.is_some_and(|(_, value)| value.is_some()) && !deleted_later {
                    return Err(format!("{key} was read as absent, but was {due:?}"));
                }
            }
            Ok(())
        }
        (begin, _) => Err(format!("the answer does not fit the call {begin:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(changes: &[(u64, &str, Option<&str>)]) -> Vec<Told> {
        let owned = |(revision, key, value): &(u64, &str, Option<&str>)| {
            (
                Revision(*revision),
                (*key).to_owned(),
                value.map(str::to_owned),
            )
        };
        changes.iter().map(owned).collect()
    }

    #[test]
    fn planted_violations_are_found() {
        type Play = fn(&Recorder);
        let history = told(&[(1, "k", Some("a")), (2, "k", Some("b")), (3, "k", None)]);
        let cases: [(&str, Play, bool); 6] = [
            (
                "a right history",
                |r| {
                    let write = r.write("k", Some("a"));
                    r.written(write, Revision(1));
                    let read = r.read("k");
                    r.seen(read, Some(("b".to_owned(), Revision(2))));
                },
                true,
            ),
            (
                "an acknowledged write that is lost",
                |r| {
                    let write = r.write("k", Some("lost"));
                    r.written(write, Revision(9));
                },
                false,
            ),
            (
                "a revision that goes back",
                |r| {
                    let first = r.write("k", Some("b"));
                    r.written(first, Revision(2));
                    let second = r.write("k", Some("a"));
                    r.written(second, Revision(1));
                },
                false,
            ),
            (
                "a stale read",
                |r| {
                    let write = r.write("k", Some("b"));
                    r.written(write, Revision(2));
                    let read = r.read("k");
                    r.seen(read, Some(("a".to_owned(), Revision(1))));
                },
                false,
            ),
            (
                "a read of what never was",
                |r| {
                    let read = r.read("k");
                    r.seen(read, Some(("c".to_owned(), Revision(2))));
                },
                false,
            ),
            (
                "a read that overlaps a write",
                |r| {
                    let read = r.read("k");
                    let write = r.write("k", Some("b"));
                    r.written(write, Revision(2));
                    r.seen(read, Some(("a".to_owned(), Revision(1))));
                },
                true,
            ),
        ];
        for (name, play, right) in cases {
            let recorder = Recorder::default();
            play(&recorder);
            let result = check_history(&recorder, &history);
            assert_eq!(result.is_ok(), right, "{name}: {result:?}");
        }
    }
}
