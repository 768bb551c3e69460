//! The watch protocol: from a change in the store to what one watcher is told of it.
//!
//! A watcher with a selector sees an object come when it begins to match and go when it ceases to, whatever happened to
//! the object itself. Everything here is a pure function of one event; the stream around it is in `handle::watch`.
//! Source: apiserver/pkg/storage/cacher/cache_watcher.go (convertToWatchEvent).

use storage::{Entry, Event, EventKind};

/// What a watcher is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchEventType {
    /// The object is there, or matches now.
    Added,
    /// The object changed and matches still.
    Modified,
    /// The object is gone, or matches no longer.
    Deleted,
    /// Nothing happened up to a revision.
    Bookmark,
    /// The watch cannot go on.
    Error,
}

/// Which state of the object a watcher is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ShownState<'e> {
    /// A state as it is stored.
    AsStored(&'e Entry),
    /// An older state, with the revision of the event: the object left the selection.
    WithRevision(&'e Entry, u64),
}

/// Returns what a watcher is told of an event; `None` if nothing.
///
/// # Errors
/// Those of the selection.
pub(crate) fn translate<E>(
    event: &Event,
    mut matches: impl FnMut(&Entry) -> Result<bool, E>,
) -> Result<Option<(WatchEventType, ShownState<'_>)>, E> {
    let matched = match event.previous() {
        Some(previous) => matches(previous)?,
        None => false,
    };
    if event.kind() == EventKind::Deleted {
        let gone = (WatchEventType::Deleted, ShownState::AsStored(event.entry()));
        return Ok(matched.then_some(gone));
    }
    let told = match (matched, matches(event.entry())?) {
        (false, false) => None,
        (false, true) => Some((WatchEventType::Added, ShownState::AsStored(event.entry()))),
        (true, true) => Some((
            WatchEventType::Modified,
            ShownState::AsStored(event.entry()),
        )),
        (true, false) => event.previous().map(|previous| {
            let state = ShownState::WithRevision(previous, event.revision().0);
            (WatchEventType::Deleted, state)
        }),
    };
    Ok(told)
}

/// Appends an event to what is sent.
pub(crate) fn frame(out: &mut Vec<u8>, event_type: WatchEventType, object: &[u8]) {
    out.extend_from_slice(event_type.head());
    out.extend_from_slice(object);
    out.extend_from_slice(b"}\n");
}

// === impl WatchEventType ===

impl WatchEventType {
    /// What it is called on the wire.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
            Self::Bookmark => "BOOKMARK",
            Self::Error => "ERROR",
        }
    }

    const fn head(self) -> &'static [u8] {
        match self {
            Self::Added => br#"{"type":"ADDED","object":"#,
            Self::Modified => br#"{"type":"MODIFIED","object":"#,
            Self::Deleted => br#"{"type":"DELETED","object":"#,
            Self::Bookmark => br#"{"type":"BOOKMARK","object":"#,
            Self::Error => br#"{"type":"ERROR","object":"#,
        }
    }
}
