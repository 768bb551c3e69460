//! Writes down what clients asked, what they were told, and what watches delivered.
//!
//! # Invariants
//! - One counter gives every entry its moment: a call begins before it is sent and ends after its
//!   answer has come, so that "A ended before B began" is true wherever the recording says it.
//! - Keys and values are kept once; an entry is a few numbers, so that millions of events fit.

use std::collections::HashMap;

use parking_lot::Mutex;

use storage::{EventKind, Expect, Revision};

/// What clients did, in the order in which it was recorded.
#[derive(Debug, Default)]
pub struct Recorder {
    log: Mutex<Log>,
}

/// Names a call within a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call(usize);

/// Names a watch within a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Watching(usize);

/// One key of a write, as the client asked for it.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The key.
    pub key: String,
    /// Its new value, unlike every other value of the recording; `None` takes the key away.
    pub value: Option<String>,
    /// What must hold right before.
    pub expect: Expect,
}

/// A change as a watch told it.
#[derive(Clone, Copy, Debug)]
pub struct Notice<'a> {
    /// The commit.
    pub revision: Revision,
    /// The key.
    pub key: &'a str,
    /// Its new value; `None` where it went.
    pub value: Option<&'a str>,
    /// What kind of change it was called, where the watch says so.
    pub kind: Option<EventKind>,
    /// The value before, where the watch says it. A deletion's last state is one.
    pub previous: Option<&'a str>,
}

/// The keys from `start` up to, and without, `end`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The first key.
    pub start: String,
    /// The first key behind it; `None` for no end.
    pub end: Option<String>,
}

/// A key or a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Text(u32);

#[derive(Debug, Default)]
pub(super) struct Log {
    texts: Vec<String>,
    numbers: HashMap<String, Text>,
    now: u64,
    pub(super) calls: Vec<Recorded>,
    pub(super) watches: Vec<Watched>,
    /// When the store was dead: what had no answer by then happened before it or never.
    pub(super) deaths: Vec<u64>,
    /// What was there before the recording.
    pub(super) base: Vec<(Text, Text, Revision)>,
}

#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) begin: u64,
    pub(super) end: Option<u64>,
    pub(super) asked: Asked,
    pub(super) outcome: Outcome,
}

#[derive(Debug)]
pub(super) enum Asked {
    Write(Vec<(Text, Option<Text>, Expect)>),
    Read(Text),
    /// The state at a revision, or the latest.
    List(Option<Revision>),
}

#[derive(Debug)]
pub(super) enum Outcome {
    /// No answer, or one that says nothing.
    Unknown,
    Written(Revision),
    /// It happened, at a revision that the answer does not tell.
    Done,
    /// The expectation of this key did not hold.
    Refused(Text),
    /// For certain nothing happened.
    Nothing,
    Seen(Option<(Text, Revision)>),
    Listed {
        revision: Revision,
        span: Span,
        entries: Vec<(Text, Text, Revision)>,
    },
}

#[derive(Debug)]
pub(super) struct Watched {
    pub(super) span: Span,
    pub(super) after: Revision,
    pub(super) events: Vec<Told>,
    /// How many events there were after each delivery, and its moment.
    pub(super) batches: Vec<(usize, u64)>,
    /// How many events there were before each bookmark, its revision and its moment.
    pub(super) bookmarks: Vec<(usize, Revision, u64)>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    pub(super) revision: Revision,
    pub(super) key: Text,
    pub(super) value: Option<Text>,
    pub(super) kind: Option<EventKind>,
    pub(super) previous: Option<Text>,
}

// === impl Recorder ===

impl Recorder {
    /// What is there before the recording: key, value and the revision that wrote it.
    pub fn base<'a>(&self, entries: impl IntoIterator<Item = (&'a str, &'a str, Revision)>) {
        let mut log = self.log.lock();
        let log = &mut *log;
        for (key, value, revision) in entries {
            let entry = (log.text(key), log.text(value), revision);
            log.base.push(entry);
        }
    }

    /// A write of one key begins, whatever its state is.
    pub fn write(&self, key: &str, value: Option<&str>) -> Call {
        self.batch(&[Wish {
            key: key.to_owned(),
            value: value.map(str::to_owned),
            expect: Expect::Any,
        }])
    }

    /// A write of several keys begins, all or nothing.
    pub fn batch(&self, wishes: &[Wish]) -> Call {
        let mut log = self.log.lock();
        let wishes = wishes
            .iter()
            .map(|wish| {
                let value = wish.value.as_deref().map(|value| log.text(value));
                (log.text(&wish.key), value, wish.expect)
            })
            .collect();
        log.begin(Asked::Write(wishes))
    }

    /// A write was acknowledged.
    pub fn written(&self, call: Call, revision: Revision) {
        self.log.lock().end(call, Outcome::Written(revision));
    }

    /// A write was acknowledged, without its revision.
    pub fn done(&self, call: Call) {
        self.log.lock().end(call, Outcome::Done);
    }

    /// A write was refused, because the expectation of this key did not hold.
    pub fn refused(&self, call: Call, key: &str) {
        let mut log = self.log.lock();
        let key = log.text(key);
        log.end(call, Outcome::Refused(key));
    }

    /// A write was not taken up. A write without any answer is recorded by its begin alone.
    pub fn nothing(&self, call: Call) {
        self.log.lock().end(call, Outcome::Nothing);
    }

    /// A read begins.
    pub fn read(&self, key: &str) -> Call {
        let mut log = self.log.lock();
        let key = log.text(key);
        log.begin(Asked::Read(key))
    }

    /// A read has its answer: the value, and the revision that wrote it.
    pub fn seen(&self, call: Call, state: Option<(String, Revision)>) {
        let mut log = self.log.lock();
        let state = state.map(|(value, revision)| (log.text(&value), revision));
        log.end(call, Outcome::Seen(state));
    }

    /// A list begins, of the latest state or of that at a revision.
    pub fn list(&self, at: Option<Revision>) -> Call {
        self.log.lock().begin(Asked::List(at))
    }

    /// A list, or a page of one, has its answer: everything in a span at a revision.
    pub fn listed<'a>(
        &self,
        call: Call,
        revision: Revision,
        span: Span,
        entries: impl IntoIterator<Item = (&'a str, &'a str, Revision)>,
    ) {
        let mut log = self.log.lock();
        let entries = entries
            .into_iter()
            .map(|(key, value, modified)| (log.text(key), log.text(value), modified))
            .collect();
        let outcome = Outcome::Listed {
            revision,
            span,
            entries,
        };
        log.end(call, outcome);
    }

    /// The store is dead at this moment: what has no answer yet has happened, or never will.
    pub fn death(&self) {
        let mut log = self.log.lock();
        let now = log.tick();
        log.deaths.push(now);
    }

    /// A watch begins, of what comes after a revision.
    pub fn watch(&self, span: Span, after: Revision) -> Watching {
        let mut log = self.log.lock();
        log.watches.push(Watched {
            span,
            after,
            events: Vec::new(),
            batches: Vec::new(),
            bookmarks: Vec::new(),
        });
        Watching(log.watches.len().saturating_sub(1))
    }

    /// A watch delivered events together.
    pub fn told<'a>(&self, watching: Watching, notices: impl IntoIterator<Item = Notice<'a>>) {
        let mut log = self.log.lock();
        let mut events = std::mem::take(&mut log.watches[watching.0].events);
        for notice in notices {
            events.push(Told {
                revision: notice.revision,
                key: log.text(notice.key),
                value: notice.value.map(|value| log.text(value)),
                kind: notice.kind,
                previous: notice.previous.map(|value| log.text(value)),
            });
        }
        let now = log.tick();
        let watch = &mut log.watches[watching.0];
        watch.batches.push((events.len(), now));
        watch.events = events;
    }

    /// A watch said that everything up to a revision was delivered.
    pub fn bookmark(&self, watching: Watching, revision: Revision) {
        let mut log = self.log.lock();
        let now = log.tick();
        let watch = &mut log.watches[watching.0];
        watch.bookmarks.push((watch.events.len(), revision, now));
    }

    /// How many events all watches have delivered.
    pub fn event_count(&self) -> usize {
        let log = self.log.lock();
        log.watches.iter().map(|watch| watch.events.len()).sum()
    }

    /// Up to where watches of everything have seen everything.
    pub fn reach(&self) -> Revision {
        let log = self.log.lock();
        let all = log.watches.iter().filter(|watch| watch.span == Span::all());
        let reach = all.flat_map(|watch| {
            let promised = watch.bookmarks.last().map(|(_, revision, _)| *revision);
            [watch.events.last().map(|told| told.revision), promised]
        });
        reach.flatten().max().unwrap_or_default()
    }

    /// The newest revision that anybody was told.
    pub fn newest(&self) -> Revision {
        let log = self.log.lock();
        let calls = log.calls.iter().filter_map(|call| match &call.outcome {
            Outcome::Written(revision)
            | Outcome::Seen(Some((_, revision)))
            | Outcome::Listed { revision, .. } => Some(*revision),
            _ => None,
        });
        let newest = calls.max().unwrap_or_default();
        drop(log);
        newest.max(self.reach())
    }

    /// How many calls began.
    pub fn call_count(&self) -> usize {
        self.log.lock().calls.len()
    }

    #[cfg(test)]
    pub(super) fn with_text(&self, text: &str) -> Text {
        self.log.lock().text(text)
    }

    pub(super) fn with<T>(&self, look: impl FnOnce(&Log) -> T) -> T {
        look(&self.log.lock())
    }
}

// === impl Span ===

impl Span {
    /// All keys.
    pub fn all() -> Self {
        Self::default()
    }

    /// Whether a key lies in it.
    pub fn holds(&self, key: &str) -> bool {
        self.start.as_str() <= key && self.end.as_deref().is_none_or(|end| key < end)
    }
}

// === impl Log ===

impl Log {
    /// The text of a key or a value.
    pub(super) fn name(&self, text: Text) -> &str {
        self.texts.get(text.0 as usize).map_or("", String::as_str)
    }

    /// Which of all texts are keys of a span.
    pub(super) fn inside(&self, span: &Span) -> Inside {
        if *span == Span::all() {
            return Inside(None);
        }
        Inside(Some(
            self.texts.iter().map(|text| span.holds(text)).collect(),
        ))
    }

    fn text(&mut self, text: &str) -> Text {
        if let Some(known) = self.numbers.get(text) {
            return *known;
        }
        let number = Text(u32::try_from(self.texts.len()).expect("a recording has few texts"));
        self.texts.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }

    fn tick(&mut self) -> u64 {
        self.now = self.now.saturating_add(1);
        self.now
    }

    fn begin(&mut self, asked: Asked) -> Call {
        let begin = self.tick();
        self.calls.push(Recorded {
            begin,
            end: None,
            asked,
            outcome: Outcome::Unknown,
        });
        Call(self.calls.len().saturating_sub(1))
    }

    fn end(&mut self, call: Call, outcome: Outcome) {
        let now = self.tick();
        let recorded = &mut self.calls[call.0];
        recorded.end = Some(now);
        recorded.outcome = outcome;
    }
}

/// The keys of a span, by number; `None` for all.
#[derive(Debug)]
pub(super) struct Inside(Option<Vec<bool>>);

// === impl Inside ===

impl Inside {
    pub(super) fn holds(&self, key: Text) -> bool {
        match &self.0 {
            None => true,
            Some(inside) => inside.get(key.0 as usize).copied().unwrap_or(false),
        }
    }
}
