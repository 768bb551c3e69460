//! Rewrites sealed segments without what nobody needs.
//!
//! # Invariants
//! - The floor is durable before the first record is dropped on its account.
//! - A deletion stays for as long as an older segment may hold a put that it ended.
//! - What is copied is sealed by the first key of the keyring, so that older keys come out of use.
//! - The manifest names either the old segments or the new one; files go only when it does not name them.

use std::collections::BTreeMap;

use super::rewriter::Rewriter;
use super::scan::{chain_checks, corrupt_at, guards, read_segment};
use super::shelf::{Bench, Shelf};
use super::{LogError, States};
use crate::embedded::codec::{
    Frame, Look, Manifest, NotOpened, Place, RecordHead, SECTOR_BYTES, Sealed, Tally, look, renewed,
};
use crate::keyring::Keyring;
use crate::revision::Revision;

/// What a segment that was just rewritten may have beside its records, however few they are.
const SLACK_BYTES: u64 = 4 * SECTOR_BYTES as u64;
/// A segment that holds less than this is a small one, and so many small ones in a row are made one.
const SMALL_BYTES: u64 = 8 * 1024 * 1024;
const SMALL_COUNT: usize = 8;
/// The most that small ones are made into.
const MERGED_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// What a sweep did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Swept {
    Nothing,
    Rewritten,
}

/// Which segments to rewrite into one: those that follow each other, from a place in the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    start: usize,
    count: usize,
}

/// What decides whether a record stays.
struct Judge<'a> {
    states: &'a dyn States,
    floor: Revision,
    /// The segments before those that are rewritten.
    older: &'a [Sealed],
}

/// Rewrites what is most worth it.
pub(super) fn sweep(shelf: &Shelf, states: &dyn States) -> Result<Swept, LogError> {
    let manifest = shelf.manifest();
    let bench = shelf.bench.lock();
    let (plan, kept) = (plan(&manifest, &bench), bench.kept.clone());
    drop(bench);
    let Some(plan) = plan else {
        return Ok(Swept::Nothing);
    };
    let end = plan.start.saturating_add(plan.count);
    let (Some(old), Some(older)) = (
        manifest.sealed.get(plan.start..end),
        manifest.sealed.get(..plan.start),
    ) else {
        return Ok(Swept::Nothing);
    };
    let judge = Judge {
        states,
        floor: shelf.floor(),
        older,
    };
    let Some((new, new_kept)) = rewrite(shelf, old, &judge)? else {
        return Ok(Swept::Nothing);
    };
    // Segments are only added behind these meanwhile.
    shelf.switch(|manifest| drop(manifest.sealed.splice(plan.start..end, new)))?;
    for segment in old {
        shelf.remove(&segment.name());
    }
    let mut bench = shelf.bench.lock();
    let (mut left, mut renewed) = (new_kept, false);
    for segment in old {
        let before = kept_of(segment, &kept);
        let after = kept_of(segment, &bench.kept);
        // What became garbage while it was rewritten may be in it still.
        left = left.saturating_sub(before.saturating_sub(after));
        bench.kept.remove(&segment.number);
        renewed = bench.stale.remove(&segment.number) || renewed;
    }
    if renewed && bench.stale.is_empty() {
        tracing::info!("all sealed values are sealed with the first key");
    }
    if let Some(new) = new {
        bench.kept.insert(new.number, left);
    }
    drop(bench);
    shelf.metrics.sweeps.inc();
    let bytes = |segments: &[Sealed]| segments.iter().map(|s| u64::from(s.tally.end)).sum::<u64>();
    tracing::debug!(
        segment_count = old.len(),
        bytes_before = bytes(old),
        bytes_after = bytes(new.as_slice()),
        "swept the log"
    );
    Ok(Swept::Rewritten)
}

/// Whether a sweep would find something to do.
pub(super) fn is_due(manifest: &Manifest, bench: &Bench) -> bool {
    plan(manifest, bench).is_some()
}

/// Bytes of sealed segments that somebody may need, and those that sweeping everything would free.
pub(super) fn live_and_garbage_bytes(manifest: &Manifest, kept: &BTreeMap<u32, u64>) -> (u64, u64) {
    let sizes = manifest.sealed.iter().map(|segment| {
        let live = kept_of(segment, kept).min(size_of(segment));
        (live, size_of(segment).saturating_sub(live))
    });
    sizes.fold((0, 0), |sum, (live, garbage)| {
        (sum.0.saturating_add(live), sum.1.saturating_add(garbage))
    })
}

fn size_of(segment: &Sealed) -> u64 {
    u64::from(segment.tally.end).saturating_sub(SECTOR_BYTES as u64)
}

fn kept_of(segment: &Sealed, kept: &BTreeMap<u32, u64>) -> u64 {
    kept.get(&segment.number)
        .copied()
        .unwrap_or(size_of(segment))
}

/// The segment of which the smallest share is needed, once that is half of it; then one with records of an older key;
/// then a row of small ones.
fn plan(manifest: &Manifest, bench: &Bench) -> Option<Plan> {
    let kept = &bench.kept;
    let share = |segment: &Sealed| {
        let kept = kept_of(segment, kept).saturating_mul(1000);
        kept.checked_div(size_of(segment)).unwrap_or(0)
    };
    let worst = manifest
        .sealed
        .iter()
        .enumerate()
        .filter(|(_, segment)| {
            let kept = kept_of(segment, kept);
            kept.saturating_mul(2).saturating_add(SLACK_BYTES) <= size_of(segment)
        })
        .min_by_key(|(_, segment)| share(segment));
    if let Some((start, _)) = worst {
        return Some(Plan { start, count: 1 });
    }
    let is_stale = |segment: &Sealed| bench.stale.contains(&segment.number);
    if let Some(start) = manifest.sealed.iter().position(is_stale) {
        return Some(Plan { start, count: 1 });
    }
    let (mut start, mut total) = (0, 0_u64);
    for (place, segment) in manifest.sealed.iter().enumerate() {
        let kept = kept_of(segment, kept);
        total = total.saturating_add(kept);
        let count = place.saturating_sub(start);
        if kept >= SMALL_BYTES || total > MERGED_BYTES_MAX {
            if count >= SMALL_COUNT {
                return Some(Plan { start, count });
            }
            (start, total) = (place.saturating_add(1), 0);
        }
    }
    let count = manifest.sealed.len().saturating_sub(start);
    (count >= SMALL_COUNT).then_some(Plan { start, count })
}

/// Writes the new segment, if anything is needed, and says how much is. `None` where it was given up,
/// because the store closes.
fn rewrite(
    shelf: &Shelf,
    old: &[Sealed],
    judge: &Judge<'_>,
) -> Result<Option<(Option<Sealed>, u64)>, LogError> {
    let (Some(first), Some(last)) = (old.first(), old.last()) else {
        return Ok(None);
    };
    let generation = old
        .iter()
        .map(|segment| segment.generation)
        .max()
        .unwrap_or(0);
    let place = Place {
        store: shelf.store,
        number: last.number,
        generation: generation.saturating_add(1),
    };
    let previous = first.tally.previous;
    let mut writer = Rewriter::begin(&*shelf.directory, place, previous, judge.floor)?;
    for segment in old {
        match copy(shelf, segment, judge, &mut writer) {
            Ok(true) => {}
            Ok(false) => {
                writer.abandon();
                return Ok(None);
            }
            Err(error) => {
                writer.abandon();
                return Err(error);
            }
        }
    }
    writer.flush(last.tally.last, last.tally.revision)?;
    let kept = writer.kept();
    let new = writer.finish(judge.floor)?;
    Ok(Some((new, kept)))
}

/// Copies what is needed of a segment. Returns whether it may go on.
fn copy(
    shelf: &Shelf,
    segment: &Sealed,
    judge: &Judge<'_>,
    writer: &mut Rewriter<'_>,
) -> Result<bool, LogError> {
    let place = Place {
        store: shelf.store,
        number: segment.number,
        generation: segment.generation,
    };
    let rotten = |position, reason| {
        LogError::Rotten(Box::new(corrupt_at(&segment.name(), position, reason)))
    };
    let end = segment.tally.end;
    let bytes = read_segment(&*shelf.directory, &place, end)
        .map_err(|error| LogError::Rotten(Box::new(error)))?;
    let mut tally = Tally::empty(segment.tally.previous, Revision(0));
    let mut position = SECTOR_BYTES;
    while position < bytes.len() {
        shelf.prepare_wanted();
        if shelf.bench.lock().closing {
            return Ok(false);
        }
        let frame = match look(&bytes, position, &place) {
            Look::Frame(frame) => frame,
            Look::End | Look::Torn => return Err(rotten(position, "a frame is missing")),
            Look::Rotten(reason) => return Err(rotten(position, reason)),
        };
        chain_checks(&frame, &tally).map_err(|reason| rotten(position, reason))?;
        copy_frame(&frame, shelf.keyring.as_deref(), judge, writer).map_err(
            |refused| match refused {
                NotOpened::Rotten(reason) => rotten(position, reason),
                NotOpened::NoKeyring => rotten(position, "it is sealed, and there is no key file"),
                NotOpened::Keyring(error) => LogError::Sealing(error),
            },
        )?;
        if writer.is_filled() {
            writer.flush(frame.facts.sequence, frame.facts.revision)?;
        }
        tally.last = frame.facts.sequence;
        tally.revision = frame.facts.revision;
        position = frame.end;
    }
    if tally.last != segment.tally.last {
        return Err(rotten(position, "frames are missing"));
    }
    Ok(true)
}

fn copy_frame(
    frame: &Frame<'_>,
    keyring: Option<&Keyring>,
    judge: &Judge<'_>,
    writer: &mut Rewriter<'_>,
) -> Result<(), NotOpened> {
    for record in frame.records() {
        let record = record.map_err(NotOpened::Rotten)?;
        let head = RecordHead::read(record).ok_or(NotOpened::Rotten("a record is cut"))?;
        if judge.needs(&head) {
            writer.push(&renewed(record, keyring)?);
        }
    }
    Ok(())
}

// === impl Judge ===

impl Judge<'_> {
    fn needs(&self, record: &RecordHead<'_>) -> bool {
        if record.revision > self.floor {
            return true;
        }
        if record.is_deletion {
            // Even where the key has come to be again: what deletes it then does not look back so far.
            return guards(record, self.older);
        }
        self.states.state_at(record.key, self.floor) == Some(record.revision)
    }
}
