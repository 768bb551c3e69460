//! A naive store, and the comparison with it.
//!
//! The model keeps every state of every revision in full. Slow, and too simple to be wrong in the
//! same way as an engine.

use std::collections::BTreeMap;

use super::{Fixture, Random, contents, events_until, text, watch, within};
use storage::{Error, Expect, KeyRange, RangeQuery, Revision, Store, Write};

/// One step of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// A batch of writes: key, value or deletion, expectation.
    Commit(Vec<(u8, Option<u8>, Guess)>),
    /// A range of keys read, with a limit, so many revisions ago.
    Read(u8, u8, u8, u8),
    /// A range of keys watched from so many revisions ago to now.
    Watch(u8, u8, u8),
    /// History given up, but for so many revisions.
    Compact(u8),
    /// An orderly restart.
    Reopen,
    /// A crash.
    Crash,
}

/// An expectation, by what it means to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guess {
    /// None.
    Any,
    /// That the key is absent.
    Absent,
    /// That the key has the state that it has.
    Right,
    /// That the key has a state that it has not.
    Wrong,
}

/// A value and the revision that wrote it.
type State = BTreeMap<String, (String, Revision)>;

#[derive(Debug)]
struct Model {
    /// The state at every revision, and that in which the model began.
    states: BTreeMap<Revision, State>,
    /// (revision, key, value or deletion), in order.
    events: Vec<(Revision, String, Option<String>)>,
    floor: Revision,
}

/// Lets a history happen in a store and in the model, and tells the first difference.
///
/// # Errors
/// The difference, as text.
pub async fn check_model(fixture: &mut dyn Fixture, ops: &[Op]) -> Result<(), String> {
    let mut model = Model::of(&*fixture.store());
    for (n, op) in ops.iter().enumerate() {
        let outcome = match op {
            Op::Commit(writes) => model.commit(&*fixture.store(), writes).await,
            Op::Read(start, end, limit, ago) => {
                model.read(&*fixture.store(), (*start, *end), usize::from(*limit), *ago)
            }
            Op::Watch(start, end, ago) => {
                model.watch(&*fixture.store(), (*start, *end), *ago).await
            }
            Op::Compact(kept) => {
                let floor = model.ago(*kept).max(model.floor);
                fixture.compact(floor).await;
                model.floor = floor;
                Ok(())
            }
            Op::Reopen => {
                fixture.reopen().await;
                Ok(())
            }
            Op::Crash => {
                fixture.crash().await;
                Ok(())
            }
        };
        let outcome = outcome.and_then(|()| model.compare(&*fixture.store()));
        outcome.map_err(|difference| format!("step {n}, {op:?}: {difference}"))?;
    }
    Ok(())
}

// === impl Op ===

impl Op {
    /// A random step.
    pub fn random(random: &mut Random) -> Self {
        let mut byte = |end| u8::try_from(random.below(end)).unwrap_or(0);
        match byte(20) {
            0..=10 => {
                let count = byte(3).saturating_add(1);
                let mut write = |_| {
                    let guess = match byte(10) {
                        0 => Guess::Wrong,
                        1 | 2 => Guess::Absent,
                        3..=5 => Guess::Right,
                        _ => Guess::Any,
                    };
                    (byte(8), (byte(4) > 0).then(|| byte(250)), guess)
                };
                Self::Commit((0..count).map(&mut write).collect())
            }
            11..=14 => Self::Read(byte(9), byte(9), byte(6), byte(12)),
            15..=16 => Self::Watch(byte(9), byte(9), byte(12)),
            17 => Self::Compact(byte(12)),
            18 => Self::Reopen,
            _ => Self::Crash,
        }
    }
}

// === impl Model ===

impl Model {
    /// A model that begins with what a store has.
    fn of(store: &dyn Store) -> Self {
        let revision = store.revision();
        let range = store
            .range(RangeQuery::of(KeyRange::all()))
            .expect("it can be read");
        let state = range
            .entries
            .iter()
            .map(|entry| (text(entry.key()), (text(entry.value()), entry.modified())));
        let states = BTreeMap::from([(revision, state.collect())]);
        Self {
            states,
            events: Vec::new(),
            floor: revision,
        }
    }

    fn latest(&self) -> (Revision, &State) {
        let (revision, state) = self
            .states
            .last_key_value()
            .expect("there is a first state");
        (*revision, state)
    }

    /// The revision so many commits ago, or the first.
    fn ago(&self, count: u8) -> Revision {
        let mut revisions = self.states.keys().rev().copied();
        revisions.nth(usize::from(count)).unwrap_or_else(|| {
            *self
                .states
                .first_key_value()
                .expect("there is a first state")
                .0
        })
    }

    async fn commit(
        &mut self,
        store: &dyn Store,
        writes: &[(u8, Option<u8>, Guess)],
    ) -> Result<(), String> {
        let (latest, state) = self.latest();
        let mut next = state.clone();
        let mut batch = BTreeMap::new();
        let mut accepted = true;
        for (key, value, guess) in writes {
            let key = name(*key);
            let current = state.get(&key).map(|(_, revision)| *revision);
            let expect = match guess {
                Guess::Any => Expect::Any,
                Guess::Absent => Expect::Absent,
                Guess::Right => current.map_or(Expect::Absent, Expect::Revision),
                Guess::Wrong => Expect::Revision(Revision(1)),
            };
            let value = value.map(|value| value.to_string());
            if value.is_none() && expect == Expect::Absent {
                continue;
            }
            let write = match &value {
                Some(value) => Write::put(key.clone(), value.clone()),
                None => Write::delete(key.clone()),
            };
            if batch
                .insert(key.clone(), (write.expecting(expect), value.clone()))
                .is_some()
            {
                return Ok(());
            }
            accepted &= match (expect, current) {
                (Expect::Any, None) => value.is_some(),
                (Expect::Any, Some(_)) | (Expect::Absent, None) => true,
                (Expect::Absent, Some(_)) | (Expect::Revision(_), None) => false,
                (Expect::Revision(wanted), Some(current)) => wanted == current,
            };
        }
        if batch.is_empty() {
            return Ok(());
        }
        let writes = batch.values().map(|(write, _)| write.clone()).collect();
        match within("a commit", store.commit(writes)).await {
            Ok(done) if accepted && done.revision > latest => {
                for (key, (_, value)) in batch {
                    self.events
                        .push((done.revision, key.clone(), value.clone()));
                    match value {
                        Some(value) => next.insert(key, (value, done.revision)),
                        None => next.remove(&key),
                    };
                }
                self.states.insert(done.revision, next);
                Ok(())
            }
            Err(Error::Conflict { .. } | Error::NotFound { .. }) if !accepted => Ok(()),
            other => Err(format!(
                "accepted should be {accepted} after {latest}, got {other:?}"
            )),
        }
    }

    fn read(&self, store: &dyn Store, ends: (u8, u8), limit: usize, ago: u8) -> Result<(), String> {
        let (at, range) = (self.ago(ago), span(ends));
        let got = store.range(RangeQuery::of(range.clone()).limit(limit).at(at));
        if at < self.floor {
            return match got {
                Err(Error::Compacted { .. }) => Ok(()),
                other => Err(format!(
                    "{at} is below the floor {}, got {other:?}",
                    self.floor
                )),
            };
        }
        let got = got.map_err(|error| error.to_string())?;
        let pairs = got
            .entries
            .iter()
            .map(|entry| (text(entry.key()), text(entry.value())));
        let got_pairs: Vec<_> = pairs.collect();
        let state = self
            .states
            .get(&at)
            .ok_or("the model has no such revision")?;
        let inside = state
            .iter()
            .filter(|(key, _)| range.contains(key.as_bytes()));
        let all: Vec<_> = inside
            .map(|(key, (value, _))| (key.clone(), value.clone()))
            .collect();
        let want = all.get(..limit.min(all.len())).unwrap_or_default();
        let remaining = all.len().saturating_sub(limit) as u64;
        if got_pairs != want || got.remaining != Some(remaining) {
            return Err(format!(
                "at {at}: want {want:?} and {remaining}, got {got:?}"
            ));
        }
        Ok(())
    }

    async fn watch(&self, store: &dyn Store, ends: (u8, u8), ago: u8) -> Result<(), String> {
        let (after, range) = (self.ago(ago), span(ends));
        if after < self.floor {
            let query = storage::WatchQuery { range, after };
            return match store.watch(query) {
                Err(Error::Compacted { .. }) => Ok(()),
                other => Err(format!("{after} is below the floor, got {other:?}")),
            };
        }
        let events = self
            .events
            .iter()
            .filter(|(revision, key, _)| *revision > after && range.contains(key.as_bytes()));
        let want: Vec<_> = events.cloned().collect();
        let Some((last, ..)) = want.last() else {
            return Ok(());
        };
        let mut watcher = watch(store, range, after);
        let got: Vec<_> = events_until(&mut watcher, *last)
            .await
            .iter()
            .map(|event| {
                let deleted = event.kind() == storage::EventKind::Deleted;
                let value = (!deleted).then(|| text(event.entry().value()));
                (event.revision(), text(event.key()), value)
            })
            .collect();
        if got != want {
            return Err(format!("after {after}: want {want:?}, got {got:?}"));
        }
        Ok(())
    }

    /// What must hold after every step.
    fn compare(&self, store: &dyn Store) -> Result<(), String> {
        let (latest, state) = self.latest();
        // An engine may use revisions for what it keeps beside.
        if store.revision() < latest {
            return Err(format!(
                "the revision is {}, not {latest} or later",
                store.revision()
            ));
        }
        let want: Vec<_> = state
            .iter()
            .map(|(k, (v, _))| (k.clone(), v.clone()))
            .collect();
        let got = contents(store, RangeQuery::of(KeyRange::all()));
        if got != want {
            return Err(format!("want {want:?}, got {got:?}"));
        }
        for (key, (value, revision)) in state {
            let entry = store
                .get(key.as_bytes())
                .ok_or_else(|| format!("{key} is absent"))?;
            if (text(entry.value()), entry.modified()) != (value.clone(), *revision) {
                return Err(format!("{key} is {entry:?}"));
            }
        }
        Ok(())
    }
}

fn name(key: u8) -> String {
    format!("/k/{key}")
}

fn span((start, end): (u8, u8)) -> KeyRange {
    KeyRange {
        start: super::key(&name(start)),
        end: Some(super::key(&name(end))),
    }
}
