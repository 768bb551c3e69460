//! What a watch says, as groups of records to be published. Pure.
//!
//! # Invariants
//! - A revision is published whole: parts of an answer are put together first.
//! - Revisions rise. A watch that goes back, or repeats itself, is a failure and nothing of it is
//!   published.

use std::collections::HashMap;

use bytes::Bytes;

use super::envelope::{Envelope, Sealing, last_of};
use super::failure::Failure;
use super::fates::Mark;
use super::layout::{Layout, Place};
use super::lineage::Witness;
use super::transaction::Fence;
use super::wire::{Event, KeyValue, WatchResponse, event};
use crate::entry::{Draft, Entry, Op, Seal};
use crate::key::KEY_BYTES_MAX;

/// Puts together what a watch says.
#[derive(Debug)]
pub(crate) struct Assembler {
    layout: Layout,
    sealing: Option<Sealing>,
    fence: Fence,
    seen: i64,
    parts: Vec<Event>,
}

/// What follows from one answer.
#[derive(Debug, Default)]
pub(crate) struct Step {
    /// Records, in order.
    pub(crate) entries: Vec<Entry>,
    /// Everything up to here has been told.
    pub(crate) reached: Option<i64>,
    /// Somebody wrote the store's identity.
    pub(crate) identity_changed: bool,
    /// What was written under tickets: the ticket, the mark and the revision.
    pub(crate) marks: Vec<(Bytes, Mark, i64)>,
    /// The latest write of it.
    pub(crate) witness: Option<Witness>,
}

/// Where a record stands in its batch.
#[derive(Clone, Copy, Debug)]
struct Position {
    index: u32,
    count: u32,
}

// === impl Assembler ===

impl Assembler {
    /// For a watch that begins after `seen`.
    pub(crate) fn new(layout: Layout, sealing: Option<Sealing>, fence: Fence, seen: i64) -> Self {
        Self {
            layout,
            sealing,
            fence,
            seen,
            parts: Vec::new(),
        }
    }

    /// The identity that the watch goes with.
    pub(crate) fn fence(&self) -> Fence {
        self.fence
    }

    /// Everything up to this revision has been told.
    pub(crate) fn seen(&self) -> i64 {
        self.seen
    }

    /// Takes an answer. `before` finds the latest published state of a key.
    pub(crate) fn take(
        &mut self,
        response: WatchResponse,
        before: impl Fn(&[u8]) -> Option<Entry>,
    ) -> Result<Step, Failure> {
        if response.canceled {
            return Err(match response.compact_revision {
                0 => Failure::WatchEnded {
                    reason: response.cancel_reason,
                },
                revision => Failure::Compacted { revision },
            });
        }
        if response.created {
            return Ok(Step::default());
        }
        let is_progress = response.events.is_empty() && self.parts.is_empty();
        self.parts.extend(response.events);
        if response.fragment {
            return Ok(Step::default());
        }
        if is_progress {
            let told = response.header.map_or(0, |header| header.revision);
            self.seen = self.seen.max(told);
            return Ok(Step {
                reached: Some(self.seen),
                ..Step::default()
            });
        }
        let events = std::mem::take(&mut self.parts);
        self.assemble(&events, before)
    }

    fn assemble(
        &mut self,
        events: &[Event],
        before: impl Fn(&[u8]) -> Option<Entry>,
    ) -> Result<Step, Failure> {
        let mut step = Step::default();
        // Where the latest record of a key is, for deletions that follow on something here.
        let mut latest = HashMap::<&[u8], usize>::new();
        for batch in events.chunk_by(|a, b| revision_of(a) == revision_of(b)) {
            let revision = batch.first().map_or(0, revision_of);
            if revision <= self.seen {
                return Err(Failure::Protocol {
                    what: "a watch",
                    reason: "a revision that was told before",
                });
            }
            let last = batch.iter().find_map(|event| self.last_states(event));
            let records = batch.iter().filter(|event| self.is_record(event));
            let count = u32::try_from(records.count()).unwrap_or(u32::MAX);
            let mut index = 0_u32;
            for event in batch {
                let Some(kv) = &event.kv else { continue };
                let place = self.layout.place(&kv.key);
                step.identity_changed |= place == Place::Store;
                if place == Place::Ticket {
                    let mark = Mark::decode(&kv.value);
                    step.marks
                        .extend(mark.map(|mark| (kv.key.clone(), mark, revision)));
                }
                let Place::Record(key) = place else { continue };
                let here = latest.get(key).and_then(|at| step.entries.get(*at));
                let at = Position { index, count };
                let entry = if event.r#type() == event::Type::Delete {
                    let state = here.cloned().or_else(|| before(key));
                    let state = state.filter(|state| !state.is_deletion());
                    self.deletion(key, kv, state.as_ref(), last, at)?
                } else {
                    Some(self.record(key, kv, at)?)
                };
                index = index.saturating_add(1);
                if let Some(entry) = entry {
                    latest.insert(key, step.entries.len());
                    step.entries.push(entry);
                }
            }
            self.seen = revision;
        }
        step.reached = Some(self.seen);
        step.witness = witness_in(events);
        Ok(step)
    }

    /// The record of a state, as a range or a watch tells it.
    pub(crate) fn base(&self, kv: &KeyValue) -> Result<Option<Entry>, Failure> {
        match self.layout.place(&kv.key) {
            Place::Record(key) => {
                let alone = Position { index: 0, count: 1 };
                self.record(key, kv, alone).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn record(&self, key: &[u8], kv: &KeyValue, at: Position) -> Result<Entry, Failure> {
        let envelope = self.open(key, kv, &kv.value)?;
        let draft = Draft::new(Op::Put, key, &envelope.value, envelope.stamp);
        Ok(draft.seal(Seal {
            revision: self.fence.revision(kv.mod_revision),
            created: self.fence.revision(kv.create_revision),
            tag: envelope.tag,
            index: at.index,
            count: at.count,
        }))
    }

    /// The record of a deletion; `None` where nothing was there.
    fn deletion(
        &self,
        key: &[u8],
        kv: &KeyValue,
        state: Option<&Entry>,
        last: Option<&[u8]>,
        at: Position,
    ) -> Result<Option<Entry>, Failure> {
        let Some(state) = state else {
            return Ok(None);
        };
        let last = last.and_then(|last| last_of(last, key));
        let envelope = last.map(|last| self.open(key, kv, last)).transpose()?;
        let (value, stamp) = envelope
            .as_ref()
            .map_or((&[][..], None), |last| (&last.value, last.stamp));
        let draft = Draft::new(Op::Delete, key, value, stamp);
        Ok(Some(draft.seal(Seal {
            revision: self.fence.revision(kv.mod_revision),
            created: state.created(),
            tag: state.tag(),
            index: at.index,
            count: at.count,
        })))
    }

    fn open<'a>(
        &self,
        key: &[u8],
        kv: &KeyValue,
        bytes: &'a [u8],
    ) -> Result<Envelope<'a>, Failure> {
        let corrupt = |reason: String| Failure::Corrupt {
            place: format!(
                "key {} of etcd at revision {}",
                String::from_utf8_lossy(&kv.key),
                kv.mod_revision
            ),
            reason,
        };
        if key.len() > KEY_BYTES_MAX {
            return Err(corrupt("the key is longer than any key".to_owned()));
        }
        Envelope::decode(bytes, key, self.sealing.as_ref())
            .map_err(|error| corrupt(error.to_string()))
    }

    fn last_states<'a>(&self, event: &'a Event) -> Option<&'a [u8]> {
        let kv = event.kv.as_ref()?;
        (self.layout.place(&kv.key) == Place::Last).then_some(&*kv.value)
    }

    fn is_record(&self, event: &Event) -> bool {
        let place = event.kv.as_ref().map(|kv| self.layout.place(&kv.key));
        matches!(place, Some(Place::Record(_)))
    }
}

fn revision_of(event: &Event) -> i64 {
    event.kv.as_ref().map_or(0, |kv| kv.mod_revision)
}

/// The latest write among events, whatever it is for.
fn witness_in(events: &[Event]) -> Option<Witness> {
    let mut newest = events.iter().rev();
    let put = newest.find(|event| event.r#type() == event::Type::Put)?;
    let kv = put.kv.as_ref()?;
    Some(Witness::of(&kv.key, kv.mod_revision, &kv.value))
}

#[cfg(test)]
mod tests;
