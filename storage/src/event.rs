//! One change, as watchers see it.

use std::fmt;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::entry::Entry;
use crate::revision::Revision;

/// A change of one key. All watchers share it, and with it the bytes that they send.
pub struct Event {
    kind: EventKind,
    entry: Entry,
    previous: Option<Entry>,
    /// A leaf of the lock order: only `frame`'s own closure runs while it is held.
    frames: Mutex<Frames>,
}

/// The encodings that exist.
#[derive(Default)]
struct Frames {
    /// Off for an event that is history: what a late reader makes is for itself.
    kept: bool,
    made: Vec<(u32, Bytes)>,
}

/// What happened to the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// It came to be.
    Created,
    /// It got another value.
    Updated,
    /// It went.
    Deleted,
}

// === impl Event ===

impl Event {
    /// An event out of history.
    pub(crate) fn past(entry: Entry, previous: Option<Entry>) -> Self {
        let kind = match (entry.is_deletion(), &previous) {
            (true, _) => EventKind::Deleted,
            (false, None) => EventKind::Created,
            (false, Some(_)) => EventKind::Updated,
        };
        Self {
            kind,
            entry,
            previous,
            frames: Mutex::default(),
        }
    }

    /// An event that happens now, so that many watchers may want it at once.
    pub(crate) fn fresh(entry: Entry, previous: Option<Entry>) -> Self {
        let frames = Mutex::new(Frames {
            kept: true,
            made: Vec::new(),
        });
        Self {
            frames,
            ..Self::past(entry, previous)
        }
    }

    /// Returns the same event with its states in another form ([`Entry::in_form`]).
    #[must_use]
    pub fn in_form(&self, entry: Entry, previous: Option<Entry>) -> Self {
        Self {
            kind: self.kind,
            entry,
            previous,
            frames: Mutex::default(),
        }
    }

    /// What happened.
    pub fn kind(&self) -> EventKind {
        self.kind
    }

    /// The new state; for a deletion the last one, with the revision of the deletion.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// The state before, which a creation has not. It tells whether a selector was left.
    pub fn previous(&self) -> Option<&Entry> {
        self.previous.as_ref()
    }

    /// The commit that made the change.
    pub fn revision(&self) -> Revision {
        self.entry.modified()
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        self.entry.key()
    }

    /// The event in one encoding, made by the first watcher that asks and shared by all others.
    ///
    /// The caller numbers its encodings. The bytes are kept while the event is recent; later on a
    /// watcher that reads history makes them anew. `make` runs under the event's own lock: it must
    /// not ask the same event for another frame.
    pub fn frame(&self, encoding: u32, make: impl FnOnce(&Self) -> Bytes) -> Bytes {
        let mut frames = self.frames.lock();
        if let Some((_, frame)) = frames.made.iter().find(|(known, _)| *known == encoding) {
            return frame.clone();
        }
        if !frames.kept {
            drop(frames);
            return make(self);
        }
        let frame = make(self);
        frames.made.push((encoding, frame.clone()));
        frame
    }

    /// Drops the encodings: the event is no longer recent.
    pub(crate) fn forget_frames(&self) {
        drop(std::mem::take(&mut *self.frames.lock()));
    }

    /// What history holds for this event alone, in bytes.
    pub(crate) fn weight(&self) -> u64 {
        let previous = self
            .previous
            .as_ref()
            .map_or(0, |entry| entry.record().len());
        let own = if self.kind == EventKind::Deleted {
            self.entry.record().len()
        } else {
            0
        };
        EVENT_OVERHEAD_BYTES.saturating_add((previous as u64).saturating_add(own as u64))
    }
}

/// The event itself with its counts, its place in the window, and its state's header.
const EVENT_OVERHEAD_BYTES: u64 = 160;

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("kind", &self.kind)
            .field("entry", &self.entry)
            .field("previous", &self.previous)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Draft, Op, Seal};

    fn entry(op: Op) -> Entry {
        let revision = Revision(1);
        Draft::new(op, b"k", b"v", None).seal(Seal {
            revision,
            created: revision,
            tag: 0,
            index: 0,
            count: 1,
        })
    }

    #[test]
    fn the_kind_follows_from_the_states() {
        for (name, op, previous, want) in [
            ("create", Op::Put, None, EventKind::Created),
            ("update", Op::Put, Some(entry(Op::Put)), EventKind::Updated),
            (
                "delete",
                Op::Delete,
                Some(entry(Op::Put)),
                EventKind::Deleted,
            ),
        ] {
            assert_eq!(Event::past(entry(op), previous).kind(), want, "{name}");
        }
    }

    #[test]
    fn a_frame_is_made_once_for_each_encoding() {
        let event = Event::fresh(entry(Op::Put), None);
        let first = event.frame(1, |event| Bytes::copy_from_slice(event.key()));
        let again = event.frame(1, |_| unreachable!("already made"));
        assert_eq!(first.as_ptr(), again.as_ptr(), "shared, not copied");
        assert_eq!(event.frame(2, |_| Bytes::from_static(b"other")), "other");
        event.forget_frames();
        assert_eq!(event.frame(1, |_| Bytes::from_static(b"anew")), "anew");
        assert_eq!(
            event.frame(1, |_| Bytes::from_static(b"again")),
            "again",
            "no longer kept"
        );
    }
}
