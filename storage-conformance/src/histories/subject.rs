//! What the clients of a history speak to: a [`Store`] in this process, or an API above one.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;

use parking_lot::RwLock;

use super::recorder::{Span, Wish};
use storage::{
    Entry, Error, EventKind, Key, KeyRange, Range, RangeQuery, Revision, Store, WatchQuery,
    Watcher, Write,
};

/// Something that takes its time.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A store of texts, as clients know it.
pub trait Subject: Debug + Send + Sync + 'static {
    /// The most writes that it takes together.
    fn batch_max(&self) -> usize;

    /// Writes all or nothing.
    fn write<'a>(&'a self, wishes: &'a [Wish]) -> Pending<'a, Verdict>;

    /// The value of a key, and the revision that wrote it.
    fn read<'a>(&'a self, key: &'a str) -> Pending<'a, Result<Option<(String, Revision)>, Fault>>;

    /// A page of everything: the first, or the one behind a page.
    fn list<'a>(
        &'a self,
        behind: Option<&'a Page>,
        limit: usize,
    ) -> Pending<'a, Result<Page, Fault>>;

    /// Watches the keys of a span after a revision.
    fn watch<'a>(
        &'a self,
        span: &'a Span,
        after: Revision,
    ) -> Pending<'a, Result<Box<dyn Subscription>, Fault>>;
}

/// A running watch.
pub trait Subscription: Send {
    /// What comes next.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    fn next(&mut self) -> Pending<'_, Result<News, Ending>>;

    /// The revision up to which everything was handed out, where the watch can tell without
    /// being told.
    fn progress(&mut self) -> Option<Revision>;
}

/// What became of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It happened, at this revision.
    Written(Revision),
    /// It happened, and the answer does not tell when.
    Done,
    /// It did not: the expectation of this key did not hold.
    Refused(String),
    /// It did not.
    Nothing,
    /// Nobody says.
    Unknown,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The store is down.
    Down,
    /// The history is gone; with the floor, where it is told.
    Compacted(Option<Revision>),
}

/// What a watch delivers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// Changes, together.
    Events(Vec<Tale>),
    /// Everything up to this revision was delivered.
    Bookmark(Revision),
}

/// A change, as [`super::Notice`] borrows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tale {
    /// The commit.
    pub revision: Revision,
    /// The key.
    pub key: String,
    /// Its new value; `None` where it went.
    pub value: Option<String>,
    /// What kind of change it was called.
    pub kind: Option<EventKind>,
    /// The value before, where it is told.
    pub previous: Option<String>,
}

/// How a watch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It may be resumed from where it was.
    Resume,
    /// The history is gone.
    Compacted,
}

/// A part of a list.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The state that it is a part of.
    pub revision: Revision,
    /// Key, value and the revision that wrote it.
    pub entries: Vec<(String, String, Revision)>,
    /// What it covers.
    pub span: Span,
    /// How the next page is asked for; `None` where this is the last.
    pub rest: Option<String>,
}

/// A store of this process, which a restart replaces.
#[derive(Debug)]
pub struct InProcess(RwLock<Arc<dyn Store>>);

#[derive(Debug)]
struct StoreWatch {
    watcher: Watcher,
    promised: Revision,
}

// === impl InProcess ===

impl InProcess {
    /// Clients of this store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self(RwLock::new(store))
    }

    /// The store that it is now.
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.0.read())
    }

    /// The store was opened again.
    pub fn replace(&self, store: Arc<dyn Store>) {
        *self.0.write() = store;
    }
}

impl Subject for InProcess {
    fn batch_max(&self) -> usize {
        4
    }

    fn write<'a>(&'a self, wishes: &'a [Wish]) -> Pending<'a, Verdict> {
        let write = |wish: &Wish| {
            let write = match &wish.value {
                Some(value) => Write::put(wish.key.as_str(), value.as_str()),
                None => Write::delete(wish.key.as_str()),
            };
            write.expecting(wish.expect)
        };
        let answer = self.store().commit(wishes.iter().map(write).collect());
        Box::pin(async move {
            match answer.await {
                Ok(done) => Verdict::Written(done.revision),
                Err(Error::NotFound { key } | Error::Conflict { key, .. }) => {
                    Verdict::Refused(text(key.as_bytes()))
                }
                Err(Error::Durability { .. } | Error::Unknown { .. } | Error::Closed) => {
                    Verdict::Unknown
                }
                Err(_) => Verdict::Nothing,
            }
        })
    }

    fn read<'a>(&'a self, key: &'a str) -> Pending<'a, Result<Option<(String, Revision)>, Fault>> {
        let store = self.store();
        Box::pin(async move {
            store.fresh().await.map_err(|_error| Fault::Down)?;
            let entry = store.get(key.as_bytes());
            Ok(entry.map(|entry| (text(entry.value()), entry.modified())))
        })
    }

    fn list<'a>(
        &'a self,
        behind: Option<&'a Page>,
        limit: usize,
    ) -> Pending<'a, Result<Page, Fault>> {
        let start = behind.and_then(|page| page.rest.as_deref()).unwrap_or("");
        let range = KeyRange {
            start: Key::from(start),
            end: None,
        };
        let query = RangeQuery {
            at: behind.map(|page| page.revision),
            ..RangeQuery::of(range).limit(limit)
        };
        let store = self.store();
        Box::pin(async move {
            if behind.is_none() {
                store.fresh().await.map_err(|_error| Fault::Down)?;
            }
            match store.range(query) {
                Ok(range) => Ok(page(start, &range)),
                Err(Error::Compacted { floor, .. }) => Err(Fault::Compacted(Some(floor))),
                Err(_) => Err(Fault::Down),
            }
        })
    }

    fn watch<'a>(
        &'a self,
        span: &'a Span,
        after: Revision,
    ) -> Pending<'a, Result<Box<dyn Subscription>, Fault>> {
        let range = KeyRange {
            start: Key::from(span.start.as_str()),
            end: span.end.as_deref().map(Key::from),
        };
        let watch = match self.store().watch(WatchQuery { range, after }) {
            Ok(watcher) => Ok(Box::new(StoreWatch {
                watcher,
                promised: after,
            }) as _),
            Err(Error::Compacted { floor, .. }) => Err(Fault::Compacted(Some(floor))),
            Err(_) => Err(Fault::Down),
        };
        Box::pin(std::future::ready(watch))
    }
}

// === impl StoreWatch ===

impl Subscription for StoreWatch {
    fn next(&mut self) -> Pending<'_, Result<News, Ending>> {
        Box::pin(std::future::poll_fn(|cx: &mut Context<'_>| {
            self.watcher.poll_next(cx).map(|events| {
                let events = events.map_err(|_end| Ending::Resume)?;
                let tale = |event: &Arc<storage::Event>| {
                    let deleted = event.kind() == EventKind::Deleted;
                    Tale {
                        revision: event.revision(),
                        key: text(event.key()),
                        value: (!deleted).then(|| text(event.entry().value())),
                        kind: Some(event.kind()),
                        previous: event.previous().map(|entry| text(entry.value())),
                    }
                };
                Ok(News::Events(events.iter().map(tale).collect()))
            })
        }))
    }

    fn progress(&mut self) -> Option<Revision> {
        let progress = self.watcher.progress();
        (progress > self.promised).then(|| {
            self.promised = progress;
            progress
        })
    }
}

fn page(start: &str, range: &Range) -> Page {
    let last = range.entries.last().filter(|_| range.more());
    let rest = last.map(|entry| text(Key::copy_of(entry.key()).successor().as_bytes()));
    let entry = |entry: &Entry| (text(entry.key()), text(entry.value()), entry.modified());
    Page {
        revision: range.revision,
        entries: range.entries.iter().map(entry).collect(),
        span: Span {
            start: start.to_owned(),
            end: rest.clone(),
        },
        rest,
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
