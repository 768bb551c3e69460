//! The one order of changes, put together from everything that anybody was told.
//!
//! Acknowledgements, reads, lists and watches each tell a part. Where two of them contradict each
//! other, no order is true for all. Where nothing contradicts, a watch of everything completes it.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::Violation;
use super::recorder::{Asked, Log, Outcome, Recorded, Text};
use storage::Revision;

/// Every known change, by revision and key.
#[derive(Debug)]
pub(super) struct Timeline {
    pub(super) changes: Vec<Moment>,
}

/// One change of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment {
    pub(super) revision: Revision,
    pub(super) key: Text,
    /// `None` where the key went.
    pub(super) value: Option<Text>,
    /// The value before.
    pub(super) previous: Option<Text>,
}

// === impl Timeline ===

impl Timeline {
    /// Puts together what was told.
    pub(super) fn of(log: &Log) -> Result<Self, Violation> {
        let mut changes: Vec<(Revision, Text, Option<Text>)> = Vec::new();
        // The longest watch first: the others then add little or nothing to sort in.
        let mut watches: Vec<_> = log.watches.iter().collect();
        watches.sort_by_key(|watch| std::cmp::Reverse(watch.events.len()));
        for watch in watches {
            let told = watch.events.iter();
            add(
                &mut changes,
                told.map(|told| (told.revision, told.key, told.value)),
            );
        }
        let mut told = Vec::new();
        for call in &log.calls {
            told_by(call, &mut told);
        }
        let base: HashSet<_> = log.base.iter().copied().collect();
        told.retain(|(revision, key, value)| {
            value.is_none_or(|value| !base.contains(&(*key, value, *revision)))
        });
        told.sort_unstable();
        told.dedup();
        add(&mut changes, told.into_iter());
        let contradicted = changes
            .windows(2)
            .find(|pair| (pair[0].0, pair[0].1) == (pair[1].0, pair[1].1));
        if let Some([a, b]) = contradicted.and_then(|pair| <[_; 2]>::try_from(pair).ok()) {
            return Err(Violation::new(
                "one order of revisions",
                format!(
                    "{} at {} is {:?} for one client and {:?} for another",
                    log.name(a.1),
                    a.0,
                    a.2.map(|text| log.name(text)),
                    b.2.map(|text| log.name(text)),
                ),
            ));
        }
        let mut states: HashMap<Text, Text> = HashMap::new();
        states.extend(log.base.iter().map(|(key, value, _)| (*key, *value)));
        let changes = changes.into_iter().map(|(revision, key, value)| {
            let previous = match value {
                Some(value) => states.insert(key, value),
                None => states.remove(&key),
            };
            Moment {
                revision,
                key,
                value,
                previous,
            }
        });
        Ok(Self {
            changes: changes.collect(),
        })
    }

    /// Those after a revision.
    pub(super) fn after(&self, revision: Revision) -> &[Moment] {
        let begin = self
            .changes
            .partition_point(|moment| moment.revision <= revision);
        self.changes.get(begin..).unwrap_or_default()
    }

    /// The change of a key at a revision.
    pub(super) fn at(&self, revision: Revision, key: Text) -> Option<&Moment> {
        let place = self
            .changes
            .binary_search_by_key(&(revision, key), |moment| (moment.revision, moment.key));
        place.ok().and_then(|place| self.changes.get(place))
    }
}

/// Adds what is not known yet, in the order of revisions.
fn add(
    changes: &mut Vec<(Revision, Text, Option<Text>)>,
    told: impl Iterator<Item = (Revision, Text, Option<Text>)>,
) {
    let mut missing = Vec::new();
    let mut place = 0;
    for change in told {
        // Nearly always the next one; a watch out of order is found out elsewhere.
        while changes.get(place).is_some_and(|known| *known < change) {
            place = place.saturating_add(1);
        }
        if changes.get(place) == Some(&change) {
            continue;
        }
        match changes.binary_search(&change) {
            Ok(known) => place = known,
            Err(_) => missing.push(change),
        }
    }
    if !missing.is_empty() {
        changes.append(&mut missing);
        changes.sort_unstable();
        changes.dedup();
    }
}

fn told_by(call: &Recorded, told: &mut Vec<(Revision, Text, Option<Text>)>) {
    match (&call.asked, &call.outcome) {
        (Asked::Write(wishes), Outcome::Written(revision)) => {
            told.extend(
                wishes
                    .iter()
                    .map(|(key, value, _)| (*revision, *key, *value)),
            );
        }
        (Asked::Read(key), Outcome::Seen(Some((value, revision)))) => {
            told.push((*revision, *key, Some(*value)));
        }
        (Asked::List(_), Outcome::Listed { entries, .. }) => {
            told.extend(
                entries
                    .iter()
                    .map(|(key, value, at)| (*at, *key, Some(*value))),
            );
        }
        _ => {}
    }
}

/// Every change has one author, every acknowledged batch has its own revision and is whole.
pub(super) fn check_authors(log: &Log, timeline: &Timeline) -> Result<(), Violation> {
    let mut acknowledged: HashMap<Revision, usize> = HashMap::new();
    let mut author_of: HashMap<Text, usize> = HashMap::new();
    let mut undated_deletes: HashSet<Text> = HashSet::new();
    for (n, call) in log.calls.iter().enumerate() {
        let Asked::Write(wishes) = &call.asked else {
            continue;
        };
        for (key, value, _) in wishes {
            match (value, &call.outcome) {
                (Some(value), _) => {
                    author_of.insert(*value, n);
                }
                (None, Outcome::Unknown | Outcome::Done) => {
                    undated_deletes.insert(*key);
                }
                (None, _) => {}
            }
        }
        let Outcome::Written(revision) = call.outcome else {
            continue;
        };
        if let Some(other) = acknowledged.insert(revision, n) {
            return Err(Violation::new(
                "one order of revisions",
                format!("{revision} was given to the calls {other} and {n}"),
            ));
        }
        for (key, value, _) in wishes {
            let there = timeline.at(revision, *key);
            if there.is_none_or(|moment| moment.value != *value) {
                return Err(Violation::new(
                    "no acknowledged write is lost",
                    format!(
                        "call {n}, {} at {revision}: there is {there:?}",
                        log.name(*key)
                    ),
                ));
            }
        }
    }
    for moments in timeline.changes.chunk_by(|a, b| a.revision == b.revision) {
        check_author(log, moments, &acknowledged, &author_of, &undated_deletes)?;
    }
    Ok(())
}

/// The changes of one revision are those of one call, all of them.
fn check_author(
    log: &Log,
    moments: &[Moment],
    acknowledged: &HashMap<Revision, usize>,
    author_of: &HashMap<Text, usize>,
    undated_deletes: &HashSet<Text>,
) -> Result<(), Violation> {
    let Some(revision) = moments.first().map(|moment| moment.revision) else {
        return Ok(());
    };
    let invented = |what: String| {
        Err(Violation::new(
            "nothing is invented",
            format!("at {revision}: {what}"),
        ))
    };
    let of_value = moments
        .iter()
        .find_map(|moment| moment.value.and_then(|value| author_of.get(&value)));
    let Some(author) = acknowledged.get(&revision).or(of_value) else {
        // Deletions alone, which have no value to know them by.
        let stray = moments
            .iter()
            .find(|moment| moment.value.is_some() || !undated_deletes.contains(&moment.key));
        return match stray {
            Some(stray) => invented(format!("nobody has changed {}", log.name(stray.key))),
            None => Ok(()),
        };
    };
    let Some(Recorded {
        asked: Asked::Write(wishes),
        outcome,
        ..
    }) = log.calls.get(*author)
    else {
        return invented("the author is no write".to_owned());
    };
    if matches!(outcome, Outcome::Refused(_) | Outcome::Nothing) {
        return invented(format!("call {author} was refused, and happened"));
    }
    let mut wished: Vec<_> = wishes
        .iter()
        .map(|(key, value, _)| (*key, *value))
        .collect();
    wished.sort_unstable();
    if !wished
        .iter()
        .copied()
        .eq(moments.iter().map(|moment| (moment.key, moment.value)))
    {
        return Err(Violation::new(
            "a batch is all or nothing",
            format!(
                "at {revision} call {author} has {} changes of {}",
                moments.len(),
                wished.len()
            ),
        ));
    }
    Ok(())
}

/// Revisions rise with time: what begins later than an answer is at least as new as that answer.
pub(super) fn check_time(log: &Log) -> Result<(), Violation> {
    // What was known, and when.
    let mut known: Vec<(u64, Revision)> = Vec::new();
    for call in &log.calls {
        let (Some(end), Some(revision)) = (call.end, newest(call)) else {
            continue;
        };
        known.push((end, revision));
    }
    for watch in &log.watches {
        for (count, moment) in &watch.batches {
            let last = count.checked_sub(1).and_then(|last| watch.events.get(last));
            known.extend(last.map(|told| (*moment, told.revision)));
        }
        known.extend(
            watch
                .bookmarks
                .iter()
                .map(|(_, revision, moment)| (*moment, *revision)),
        );
    }
    known.sort_unstable();
    let mut highest = Revision(0);
    for (_, revision) in &mut known {
        highest = highest.max(*revision);
        *revision = highest;
    }
    let before = |moment: u64| {
        let count = known.partition_point(|(at, _)| *at < moment);
        count
            .checked_sub(1)
            .and_then(|last| known.get(last))
            .map(|(_, revision)| *revision)
    };
    for (n, call) in log.calls.iter().enumerate() {
        let Some(floor) = before(call.begin) else {
            continue;
        };
        match (&call.asked, &call.outcome) {
            (_, Outcome::Written(revision)) if *revision <= floor => {
                return Err(Violation::new(
                    "one order of revisions",
                    format!("call {n} wrote at {revision}, {floor} was known before it began"),
                ));
            }
            (Asked::List(None), Outcome::Listed { revision, .. }) if *revision < floor => {
                return Err(Violation::new(
                    "reads are fresh",
                    format!("call {n} listed at {revision}, {floor} was known before it began"),
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

fn newest(call: &Recorded) -> Option<Revision> {
    match &call.outcome {
        Outcome::Written(revision)
        | Outcome::Seen(Some((_, revision)))
        | Outcome::Listed { revision, .. } => Some(*revision),
        _ => None,
    }
}

/// A list is the state of its revision, whole.
pub(super) fn check_lists(log: &Log, timeline: &Timeline) -> Result<(), Violation> {
    let mut lists: Vec<_> = log
        .calls
        .iter()
        .enumerate()
        .filter_map(|(n, call)| match (&call.asked, &call.outcome) {
            (
                Asked::List(at),
                Outcome::Listed {
                    revision,
                    span,
                    entries,
                },
            ) => Some((*revision, n, *at, span, entries)),
            _ => None,
        })
        .collect();
    lists.sort_by_key(|(revision, n, ..)| (*revision, *n));
    let mut state: BTreeMap<&str, (Text, Text, Revision)> = log
        .base
        .iter()
        .map(|entry| (log.name(entry.0), *entry))
        .collect();
    let mut changes = timeline.changes.iter().peekable();
    for (revision, n, at, span, entries) in lists {
        while let Some(moment) = changes.next_if(|moment| moment.revision <= revision) {
            let key = log.name(moment.key);
            match moment.value {
                Some(value) => state.insert(key, (moment.key, value, moment.revision)),
                None => state.remove(key),
            };
        }
        let want = state
            .range(span.start.as_str()..)
            .take_while(|(key, _)| span.holds(key))
            .map(|(_, entry)| *entry);
        if at.is_some_and(|at| at != revision) || !want.clone().eq(entries.iter().copied()) {
            let text = |(key, value, at): (Text, Text, Revision)| {
                format!("{}={}@{at}", log.name(key), log.name(value))
            };
            let differs = want
                .clone()
                .map(Some)
                .chain(std::iter::repeat(None))
                .zip(entries.iter().copied().map(Some).chain([None]))
                .find(|(want, got)| want != got)
                .map(|(want, got)| (want.map(text), got.map(text)));
            return Err(Violation::new(
                "a list is one state",
                format!(
                    "call {n}, {at:?} at {revision}: want {} entries, got {}; want, got: {differs:?}",
                    want.count(),
                    entries.len()
                ),
            ));
        }
    }
    Ok(())
}
