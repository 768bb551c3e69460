//! The six properties of watches, for each recorded watch beside the one order of changes.

use super::Violation;
use super::recorder::{Inside, Log, Told, Watched};
use super::timeline::{Moment, Timeline};
use storage::{EventKind, Revision};

/// Checks every watch, and tells how many events there were.
pub(super) fn check_watches(log: &Log, timeline: &Timeline) -> Result<usize, Violation> {
    let mut count: usize = 0;
    let mut known: Vec<(&super::Span, Inside)> = Vec::new();
    for (n, watch) in log.watches.iter().enumerate() {
        let place = known
            .iter()
            .position(|(span, _)| **span == watch.span)
            .unwrap_or_else(|| {
                known.push((&watch.span, log.inside(&watch.span)));
                known.len().saturating_sub(1)
            });
        check_watch(log, timeline, watch, &known[place].1)
            .map_err(|violation| violation.of(&format!("watch {n} after {}", watch.after)))?;
        count = count.saturating_add(watch.events.len());
    }
    Ok(count)
}

/// The watch in itself: what needs no other witness.
pub(super) fn check_order(log: &Log) -> Result<(), Violation> {
    for (n, watch) in log.watches.iter().enumerate() {
        order(log, watch)
            .map_err(|violation| violation.of(&format!("watch {n} after {}", watch.after)))?;
    }
    Ok(())
}

fn order(log: &Log, watch: &Watched) -> Result<(), Violation> {
    let describe = |told: &Told| format!("{} at {}", log.name(told.key), told.revision);
    if let Some(first) = watch.events.first()
        && first.revision <= watch.after
    {
        let what = format!("{} comes again", describe(first));
        return Err(Violation::new("watches are resumable", what));
    }
    for pair in watch.events.windows(2) {
        let [before, after] = pair else { continue };
        if after.revision < before.revision {
            let what = format!("{} behind {}", describe(after), describe(before));
            // The same event again is told from one that is merely late.
            let again = watch
                .events
                .iter()
                .filter(|told| (told.revision, told.key) == (after.revision, after.key))
                .count();
            let property = if again > 1 {
                "watches are unique"
            } else {
                "watches are ordered"
            };
            return Err(Violation::new(property, what));
        }
    }
    for together in watch
        .events
        .chunk_by(|a, b| a.revision == b.revision)
        .filter(|together| together.len() > 1)
    {
        let mut keys: Vec<_> = together.iter().map(|told| told.key).collect();
        keys.sort_unstable();
        keys.dedup();
        if let Some(told) = together.first().filter(|_| keys.len() < together.len()) {
            let what = format!("{} comes twice", describe(told));
            return Err(Violation::new("watches are unique", what));
        }
    }
    let mut promised = watch.after;
    for (count, revision, _) in &watch.bookmarks {
        let last = count.checked_sub(1).and_then(|last| watch.events.get(last));
        let delivered = last.map_or(watch.after, |told| told.revision);
        if *revision < promised.max(delivered) {
            let what = format!("{revision} is said behind {promised} and {delivered}");
            return Err(Violation::new("watches are bookmarkable", what));
        }
        promised = *revision;
    }
    for (count, _) in &watch.batches {
        let last = count.checked_sub(1).and_then(|last| watch.events.get(last));
        let next = watch.events.get(*count);
        if let (Some(last), Some(next)) = (last, next)
            && last.revision == next.revision
        {
            let what = format!("{} is delivered in parts", last.revision);
            return Err(Violation::new("watches are atomic", what));
        }
    }
    Ok(())
}

fn check_watch(
    log: &Log,
    timeline: &Timeline,
    watch: &Watched,
    inside: &Inside,
) -> Result<(), Violation> {
    let last = watch
        .events
        .last()
        .map_or(watch.after, |told| told.revision);
    let promised = watch
        .bookmarks
        .iter()
        .map(|(_, revision, _)| *revision)
        .max();
    let reach = last.max(promised.unwrap_or(last));
    let mut bookmarks = watch.bookmarks.iter().peekable();
    let mut told = (0..).zip(watch.events.iter());
    let due = timeline
        .after(watch.after)
        .iter()
        .take_while(|moment| moment.revision <= reach)
        .filter(|moment| inside.holds(moment.key));
    let mut before = watch.after;
    for moment in due {
        let Some((index, got)) = told.next() else {
            return Err(missing(log, watch, moment, watch.events.len(), before));
        };
        // Within a revision the order of keys is free; the timeline has them sorted.
        if got.revision != moment.revision {
            return Err(missing(log, watch, moment, index, before));
        }
        let Some(got) = find(watch, index, moment) else {
            return Err(missing(log, watch, moment, index, before));
        };
        // Only what does come can come too late: what never comes is missing, whatever was promised.
        while let Some((_, revision, _)) = bookmarks.next_if(|(count, ..)| *count <= index) {
            if *revision >= moment.revision {
                let what = format!(
                    "{revision} was promised before {} at {}",
                    log.name(moment.key),
                    moment.revision
                );
                return Err(Violation::new("watches are bookmarkable", what));
            }
        }
        truthful(log, got, moment)?;
        before = moment.revision;
    }
    if let Some((_, extra)) = told.next() {
        let what = format!("{} at {} lies outside", log.name(extra.key), extra.revision);
        return Err(Violation::new("nothing is invented", what));
    }
    Ok(())
}

/// The told event of a change, among those of its revision.
fn find<'a>(watch: &'a Watched, index: usize, moment: &Moment) -> Option<&'a Told> {
    let same = |told: &&Told| told.revision == moment.revision;
    let begin = watch
        .events
        .get(..index)?
        .iter()
        .rev()
        .take_while(same)
        .count();
    watch
        .events
        .get(index.checked_sub(begin)?..)?
        .iter()
        .take_while(same)
        .find(|told| told.key == moment.key)
}

fn missing(
    log: &Log,
    watch: &Watched,
    moment: &Moment,
    index: usize,
    before: Revision,
) -> Violation {
    let what = format!("{} at {} is missing", log.name(moment.key), moment.revision);
    let told = watch
        .events
        .iter()
        .skip(index.saturating_sub(1))
        .take(2)
        .any(|told| told.revision == moment.revision);
    if told || before == moment.revision {
        Violation::new("watches are atomic", what)
    } else if index >= watch.events.len() {
        Violation::new("watches are bookmarkable", what)
    } else if index == 0 && watch.after > Revision(0) {
        Violation::new("watches are resumable", what)
    } else {
        Violation::new("watches are reliable", what)
    }
}

/// The event says what happened.
fn truthful(log: &Log, got: &Told, moment: &Moment) -> Result<(), Violation> {
    let kind = match (moment.value, moment.previous) {
        (None, _) => EventKind::Deleted,
        (Some(_), None) => EventKind::Created,
        (Some(_), Some(_)) => EventKind::Updated,
    };
    let right = (got.key, got.value) == (moment.key, moment.value)
        && got.kind.is_none_or(|said| said == kind)
        && got
            .previous
            .is_none_or(|said| Some(said) == moment.previous);
    if right {
        return Ok(());
    }
    let name = |text: Option<_>| text.map(|text| log.name(text).to_owned());
    Err(Violation::new(
        "events are true",
        format!(
            "{} at {}: {kind:?} from {:?} to {:?} was told as {:?} from {:?} to {:?}",
            log.name(moment.key),
            moment.revision,
            name(moment.previous),
            name(moment.value),
            got.kind,
            name(got.previous),
            name(got.value),
        ),
    ))
}
