//! Stores that break one promise each, for the checker to find.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use storage::Revision;
use wheelhouse_storage_conformance::histories::{
    Ending, Fault, InProcess, News, Page, Pending, Span, Subject, Subscription, Verdict, Wish,
};

/// What a store does wrong, every so often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A write is acknowledged and not made.
    LosesAcknowledged,
    /// A write is refused, and made.
    RefusesAndWrites,
    /// The revision of the write before is answered.
    ReusesRevision,
    /// A batch is made without its first write.
    HalvesBatch,
    /// An expectation is not looked at.
    IgnoresExpectation,
    /// A read answers with what was read before.
    ReadsStale,
    /// A list answers with the list before.
    ListsStale,
    /// A list lacks an entry.
    ListsInPart,
    /// The second page is of the latest revision, not of the first page's.
    PagesMove,
    /// A watch leaves an event out.
    DropsEvent,
    /// A watch delivers an event again.
    RepeatsEvent,
    /// A watch delivers two events the wrong way round.
    SwapsEvents,
    /// A watch that resumes begins one event late.
    ResumesLate,
    /// A watch delivers the first event of a revision without the rest.
    SplitsRevision,
    /// A bookmark is one revision too new.
    PromisesEarly,
    /// An event says that it creates what was there.
    TellsWrongKind,
}

/// A store with a bug.
#[derive(Debug)]
pub(crate) struct Misbehaving {
    inner: Arc<InProcess>,
    bug: Bug,
    turns: Arc<AtomicU64>,
    last: Mutex<Last>,
}

/// What was answered before.
#[derive(Debug, Default)]
struct Last {
    revision: Revision,
    reads: std::collections::HashMap<String, Option<(String, Revision)>>,
    list: Option<Page>,
}

struct MisbehavingWatch {
    inner: Box<dyn Subscription>,
    bug: Bug,
    turns: Arc<AtomicU64>,
    late: bool,
}

/// Of so many chances one is taken: seldom enough that the rest of the history is right.
const ONE_IN: u64 = 20;

fn turn(turns: &AtomicU64) -> bool {
    turns.fetch_add(1, Ordering::Relaxed) % ONE_IN == ONE_IN - 1
}

// === impl Misbehaving ===

impl Misbehaving {
    pub(crate) fn new(inner: Arc<InProcess>, bug: Bug) -> Self {
        Self {
            inner,
            bug,
            turns: Arc::default(),
            last: Mutex::default(),
        }
    }

    fn now(&self, bug: Bug) -> bool {
        self.bug == bug && turn(&self.turns)
    }
}

impl Subject for Misbehaving {
    fn batch_max(&self) -> usize {
        self.inner.batch_max()
    }

    fn write<'a>(&'a self, wishes: &'a [Wish]) -> Pending<'a, Verdict> {
        Box::pin(async move {
            let last = self.last.lock().revision;
            if self.now(Bug::LosesAcknowledged) {
                return Verdict::Written(last.next());
            }
            if self.now(Bug::IgnoresExpectation) {
                let blind = |wish: &Wish| Wish {
                    expect: storage::Expect::Any,
                    ..wish.clone()
                };
                let blind: Vec<_> = wishes.iter().map(blind).collect();
                return self.inner.write(&blind).await;
            }
            if wishes.len() > 1 && self.now(Bug::HalvesBatch) {
                return self.inner.write(&wishes[1..]).await;
            }
            let verdict = self.inner.write(wishes).await;
            let Verdict::Written(revision) = verdict else {
                return verdict;
            };
            self.last.lock().revision = revision;
            if self.now(Bug::RefusesAndWrites) {
                return Verdict::Nothing;
            }
            if last > Revision(0) && self.now(Bug::ReusesRevision) {
                return Verdict::Written(last);
            }
            verdict
        })
    }

    fn read<'a>(&'a self, key: &'a str) -> Pending<'a, Result<Option<(String, Revision)>, Fault>> {
        Box::pin(async move {
            let state = self.inner.read(key).await?;
            let before = self.last.lock().reads.insert(key.to_owned(), state.clone());
            match before {
                Some(before) if before != state && self.now(Bug::ReadsStale) => Ok(before),
                _ => Ok(state),
            }
        })
    }

    fn list<'a>(
        &'a self,
        behind: Option<&'a Page>,
        limit: usize,
    ) -> Pending<'a, Result<Page, Fault>> {
        Box::pin(async move {
            if let Some(page) = behind
                && self.bug == Bug::PagesMove
            {
                let newer = Page {
                    revision: self.inner.store().revision(),
                    ..page.clone()
                };
                let moved = self.inner.list(Some(&newer), limit).await?;
                return Ok(Page {
                    revision: page.revision,
                    ..moved
                });
            }
            let mut page = self.inner.list(behind, limit).await?;
            if behind.is_none() && self.bug == Bug::ListsStale {
                let before = self.last.lock().list.replace(page.clone());
                if let Some(before) = before.filter(|_| turn(&self.turns)) {
                    return Ok(before);
                }
            }
            if page.entries.len() > 1 && self.now(Bug::ListsInPart) {
                page.entries.remove(0);
            }
            Ok(page)
        })
    }

    fn watch<'a>(
        &'a self,
        span: &'a Span,
        after: Revision,
    ) -> Pending<'a, Result<Box<dyn Subscription>, Fault>> {
        Box::pin(async move {
            let inner = self.inner.watch(span, after).await?;
            Ok(Box::new(MisbehavingWatch {
                inner,
                bug: self.bug,
                turns: Arc::clone(&self.turns),
                late: self.now(Bug::ResumesLate),
            }) as _)
        })
    }
}

// === impl MisbehavingWatch ===

impl MisbehavingWatch {
    fn now(&self, bug: Bug) -> bool {
        self.bug == bug && turn(&self.turns)
    }

    fn spoil(&mut self, news: News) -> News {
        let mut tales = match news {
            News::Events(tales) => tales,
            News::Bookmark(revision) => return News::Bookmark(revision),
        };
        let revisions = tales.chunk_by(|a, b| a.revision == b.revision).count();
        // The last event stays: without it the watch would wait for it, and not end.
        if std::mem::take(&mut self.late) && tales.len() > 1 {
            tales.remove(0);
        }
        if tales.len() > 2 && self.now(Bug::DropsEvent) {
            tales.remove(1);
        }
        if self.now(Bug::RepeatsEvent) {
            tales.push(tales[tales.len() - 1].clone());
        }
        if revisions > 2 && self.now(Bug::SwapsEvents) {
            tales.reverse();
            let newest = tales.remove(0);
            tales.push(newest);
        }
        if tales.len() > revisions && self.bug == Bug::SplitsRevision {
            let first = tales
                .windows(2)
                .position(|pair| pair[0].revision == pair[1].revision);
            tales.truncate(first.map_or(tales.len(), |first| first + 1));
        }
        if self.now(Bug::TellsWrongKind) {
            let kind = &mut tales[0].kind;
            *kind = match kind {
                Some(storage::EventKind::Created) => Some(storage::EventKind::Updated),
                _ => Some(storage::EventKind::Created),
            };
        }
        News::Events(tales)
    }
}

impl Subscription for MisbehavingWatch {
    fn next(&mut self) -> Pending<'_, Result<News, Ending>> {
        Box::pin(async move {
            let news = self.inner.next().await?;
            Ok(self.spoil(news))
        })
    }

    fn progress(&mut self) -> Option<Revision> {
        let progress = self.inner.progress()?;
        Some(if self.bug == Bug::PromisesEarly {
            progress.next()
        } else {
            progress
        })
    }
}
