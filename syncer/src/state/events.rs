//! Events about instances that are still to be written, as few as a reader needs.
//!
//! An instance has one event for each reason. What is said again raises its count and takes the place of its message.
//!
//! # Invariants
//!
//! Whoever notes an event waits for nobody. A target holds at most [`EVENT_COUNT_MAX`] events; what finds no place is not told.
//! Trouble that is over within [`DELAY`] is not told either.

use std::{collections::BTreeMap, time::Duration};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

use super::keys::InstanceKey;

/// Events of one target, each of some 1.5 KiB at most.
const EVENT_COUNT_MAX: usize = 1024;
/// How long something is true before it is told: a conflict is often solved by the next try.
const DELAY: Duration = Duration::from_secs(2);
/// Between two writes of an event that says something else by now.
const CHANGED_INTERVAL: Duration = Duration::from_secs(30);
/// Between two writes of an event that says the same. client-go lets one event for each object pass in this time.
const SAME_INTERVAL: Duration = Duration::from_mins(5);
/// How long an event is remembered after it was last noted: so long does kube-apiserver keep it.
const KEPT: Duration = Duration::from_hours(1);
/// Bytes of a message; more is refused by `events.k8s.io`.
const MESSAGE_BYTES_MAX: usize = 1024;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    /// Something went right.
    Normal,
    /// Somebody should look.
    Warning,
}

/// Something that is said of an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) severity: Severity,
    /// Why, in one word.
    pub(crate) reason: String,
    /// Why, in a sentence.
    pub(crate) message: String,
}

/// An instance that something is said of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) key: InstanceKey,
    pub(crate) api_version: String,
    /// Its uid at the hub.
    pub(crate) uid: String,
}

/// An event as it is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) subject: Subject,
    pub(crate) said: Said,
    /// When it was first said, as the wire writes it.
    pub(crate) first: String,
    /// When it was last said.
    pub(crate) last: String,
    /// How often.
    pub(crate) count: u32,
}

/// The events of a target.
#[derive(Debug, Default)]
pub(crate) struct Events {
    // Guards the map; never held across an await. By uid and reason, so that those of an instance are side by side.
    entries: Mutex<BTreeMap<(String, String), Entry>>,
    noted: Notify,
}

#[derive(Debug)]
struct Entry {
    event: Event,
    /// When it was last said.
    noted_at: Instant,
    /// Since when it is so, without a time in between when the instance was well.
    since: Instant,
    /// Whether it is no trouble, or none any more.
    is_over: bool,
    /// When it is to be written; `None` while nothing is new.
    due: Option<Instant>,
    /// When it was last written, and what it said then.
    written: Option<(Instant, String)>,
}

/// What a writer does next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It writes this.
    Write(Box<Event>),
    /// It waits, at most until then.
    Wait(Option<Instant>),
}

// === impl Events ===

impl Events {
    /// Notes something. `now` is the time as the wire writes it.
    pub(crate) fn note(&self, subject: &Subject, mut said: Said, now: &str) {
        let cut = said.message.floor_char_boundary(MESSAGE_BYTES_MAX);
        said.message.truncate(cut);
        let at = Instant::now();
        let mut entries = self.entries.lock();
        let key = (subject.uid.clone(), said.reason.clone());
        if let Some(entry) = entries.get_mut(&key) {
            entry.say(said, now, at);
        } else {
            if entries.len() >= EVENT_COUNT_MAX {
                entries.retain(|_, entry| at < entry.noted_at + KEPT);
            }
            if entries.len() >= EVENT_COUNT_MAX {
                return;
            }
            let is_over = said.severity == Severity::Normal;
            let event = Event {
                subject: subject.clone(),
                said,
                first: now.to_owned(),
                last: now.to_owned(),
                count: 1,
            };
            let entry = Entry {
                event,
                noted_at: at,
                since: at,
                is_over,
                due: Some(at + DELAY),
                written: None,
            };
            entries.insert(key, entry);
        }
        drop(entries);
        self.noted.notify_one();
    }

    /// Notes that an instance is as it should be. Returns whether trouble that was told of it, or will be, has ended with that.
    pub(crate) fn note_well(&self, uid: &str) -> bool {
        let at = Instant::now();
        let mut ended = false;
        let is_brief = |entry: &Entry| entry.written.is_none() && at < entry.since + DELAY;
        let mut entries = self.entries.lock();
        let begin = (uid.to_owned(), String::new());
        let of_instance = entries.range_mut(begin..);
        let of_instance = of_instance.take_while(|((of, _), _)| of == uid);
        let mut brief = Vec::new();
        for (key, entry) in of_instance.filter(|(_, entry)| !entry.is_over) {
            entry.is_over = true;
            if is_brief(entry) {
                brief.push(key.clone());
            } else {
                ended = true;
            }
        }
        for key in brief {
            entries.remove(&key);
        }
        ended
    }

    /// Returns what to do next. An event that is to be written counts as written.
    pub(crate) fn next(&self) -> Next {
        let now = Instant::now();
        let mut entries = self.entries.lock();
        let due = entries.values_mut().filter(|entry| entry.due.is_some());
        match due.min_by_key(|entry| entry.due) {
            None => Next::Wait(None),
            Some(entry) if entry.due > Some(now) => Next::Wait(entry.due),
            Some(entry) => {
                entry.due = None;
                entry.written = Some((now, entry.event.said.message.clone()));
                Next::Write(Box::new(entry.event.clone()))
            }
        }
    }

    /// Has an event written again after a while: it could not be.
    pub(crate) fn put_back(&self, event: &Event, after: Duration) {
        let now = Instant::now();
        let key = (event.subject.uid.clone(), event.said.reason.clone());
        let mut entries = self.entries.lock();
        let entry = entries.get_mut(&key);
        if let Some(entry) = entry.filter(|entry| now < entry.noted_at + KEPT) {
            entry.due = Some(now + after);
        }
    }

    /// Waits until something is noted.
    pub(crate) async fn noted(&self) {
        self.noted.notified().await;
    }
}

// === impl Entry ===

impl Entry {
    fn say(&mut self, said: Said, now: &str, at: Instant) {
        let is_over = said.severity == Severity::Normal;
        if self.is_over && !is_over {
            self.since = at;
        }
        self.is_over = is_over;
        self.noted_at = at;
        if let Some((written_at, message)) = &self.written {
            let interval = if *message == said.message {
                SAME_INTERVAL
            } else {
                CHANGED_INTERVAL
            };
            let due = *written_at + interval;
            self.due = Some(self.due.map_or(due, |known| known.min(due)));
        }
        now.clone_into(&mut self.event.last);
        self.event.count = self.event.count.saturating_add(1);
        self.event.said = said;
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;
    use crate::testing::key;

    fn subject(uid: &str) -> Subject {
        Subject {
            key: key("Web", "shop"),
            api_version: "kro.run/v1alpha1".to_owned(),
            uid: uid.to_owned(),
        }
    }

    fn warning(reason: &str, message: &str) -> Said {
        Said {
            severity: Severity::Warning,
            reason: reason.to_owned(),
            message: message.to_owned(),
        }
    }

    /// Waits as a writer does and returns what it writes within a time, each with its count and message.
    async fn written_within(events: &Events, time: Duration) -> Vec<(u32, String)> {
        let end = Instant::now() + time;
        let mut written = Vec::new();
        while Instant::now() < end {
            match events.next() {
                Next::Write(event) => written.push((event.count, event.said.message)),
                Next::Wait(until) => {
                    tokio::time::sleep_until(until.unwrap_or(end).min(end)).await;
                }
            }
        }
        written
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_said_again_and_again_is_written_seldom() {
        let events = Events::default();
        let mut written = Vec::new();
        for _ in 0..600 {
            events.note(&subject("u"), warning("Denied", "no"), "t");
            written.extend(written_within(&events, Duration::from_secs(1)).await);
        }
        let counts: Vec<u32> = written.iter().map(|(count, _)| *count).collect();
        assert!(
            matches!(counts[..], [2..=3, 300..=305]),
            "two seconds later, and once in five minutes: {counts:?}"
        );
        events.note(&subject("u"), warning("Denied", "no more"), "t");
        let written = written_within(&events, Duration::from_secs(31)).await;
        assert_eq!(
            written,
            [(601, "no more".to_owned())],
            "another message is sooner"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn trouble_that_is_over_at_once_is_not_told_and_its_end_neither() {
        let events = Events::default();
        events.note(&subject("u"), warning("Conflict", "no"), "t");
        events.note(&subject("v"), warning("Conflict", "nor this"), "t");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!events.note_well("u"), "nobody was told of it");
        let written = written_within(&events, Duration::from_secs(9)).await;
        assert_eq!(
            written,
            [(1, "nor this".to_owned())],
            "that of the other stays"
        );
        assert!(events.note_well("v"), "what was told has ended");
        assert!(!events.note_well("v"), "once");
    }

    #[tokio::test(start_paused = true)]
    async fn trouble_that_could_not_be_written_meanwhile_is_told_afterwards() {
        let events = Events::default();
        events.note(&subject("u"), warning("SpokeUnreachable", "away"), "t");
        tokio::time::advance(Duration::from_mins(9)).await;
        assert!(events.note_well("u"), "it will be told, so its end is too");
        let Next::Write(event) = events.next() else {
            panic!("it is to be written");
        };
        events.put_back(&event, Duration::from_secs(5));
        let written = written_within(&events, Duration::from_secs(9)).await;
        assert_eq!(written, [(1, "away".to_owned())]);
        tokio::time::advance(KEPT).await;
        events.put_back(&event, Duration::ZERO);
        assert_eq!(events.next(), Next::Wait(None), "not for ever");
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_takes_no_more_than_its_place() {
        let events = Events::default();
        let long = "ä".repeat(4 * MESSAGE_BYTES_MAX);
        for index in 0..2 * EVENT_COUNT_MAX {
            events.note(&subject(&index.to_string()), warning("Denied", &long), "t");
        }
        let written = written_within(&events, Duration::from_secs(9)).await;
        assert_eq!(written.len(), EVENT_COUNT_MAX);
        assert!(written.iter().all(|(_, it)| it.len() <= MESSAGE_BYTES_MAX));
        tokio::time::advance(KEPT).await;
        events.note(&subject("late"), warning("Denied", "no"), "t");
        let written = written_within(&events, Duration::from_secs(9)).await;
        assert_eq!(written.len(), 1, "old ones give their places");
        assert_eq!(
            events.noted().now_or_never(),
            Some(()),
            "the writer is told"
        );
    }
}
