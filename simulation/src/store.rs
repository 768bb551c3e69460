//! The hub's store: the embedded engine on a simulated disk, without threads that race the runtime.
//!
//! # Invariants
//!
//! A commit is done, and watchers are woken, before the call returns: the engine's thread works while the runtime's only
//! thread waits for it. So a paused clock never runs ahead of a commit, and the order of commits is that of the calls.

use std::{fmt, sync::Arc};

use parking_lot::Mutex;
use serde_json::Value;
use storage::{
    Answer, Change, Committed, Entry, Error, Metrics, RangeQuery, Revision, Statistics, Store,
    WatchQuery, Watcher, Write,
    embedded::{Config, Engine},
};
use storage_conformance::simulated::SimulatedDirectory;

/// Sees what was committed.
type Observer = Box<dyn Fn(&Observed<'_>) + Send>;

/// What was committed at one key. Values are parsed by whoever looks at them: most commits are nobody's concern.
#[derive(Debug)]
pub(crate) struct Observed<'a> {
    pub(crate) key: &'a [u8],
    before: Option<&'a Entry>,
    after: Option<&'a Entry>,
}

// === impl Observed ===

impl Observed<'_> {
    /// Returns the value before.
    pub(crate) fn before(&self) -> Option<Value> {
        self.before.and_then(value_of)
    }

    /// Returns the value now.
    pub(crate) fn after(&self) -> Option<Value> {
        self.after.and_then(value_of)
    }
}

/// A store that a run keeps when its hub is killed.
pub struct SteadyStore {
    engine: Engine,
    // Guards one value; held while a commit is shown.
    observer: Mutex<Option<Observer>>,
}

// === impl SteadyStore ===

impl SteadyStore {
    /// Opens an empty store.
    ///
    /// # Errors
    /// Where the engine cannot be opened.
    pub fn open() -> Result<Self, storage::OpenError> {
        let directory = Arc::new(SimulatedDirectory::default());
        Ok(Self {
            engine: Engine::open_on(directory, Config::default())?,
            observer: Mutex::default(),
        })
    }

    /// Shows every commit from now on.
    pub(crate) fn observe(&self, observer: impl Fn(&Observed<'_>) + Send + 'static) {
        *self.observer.lock() = Some(Box::new(observer));
    }
}

impl Store for SteadyStore {
    fn revision(&self) -> Revision {
        self.engine.revision()
    }

    fn compaction_floor(&self) -> Revision {
        self.engine.compaction_floor()
    }

    fn get(&self, key: &[u8]) -> Option<Entry> {
        self.engine.get(key)
    }

    fn range(&self, query: RangeQuery) -> Result<storage::Range, Error> {
        self.engine.range(query)
    }

    fn commit(&self, writes: Vec<Write>) -> Answer<Committed> {
        let before: Vec<(bool, Option<Entry>)> = writes
            .iter()
            .map(|write| {
                let is_deletion = matches!(write.change, Change::Delete { .. });
                (is_deletion, self.engine.get(&write.key))
            })
            .collect();
        // Unconstrained: a task that has used up its budget would otherwise wait for itself.
        let answer = tokio::task::unconstrained(self.engine.commit(writes));
        let answer = futures::executor::block_on(answer);
        // Watchers are woken after the answer: what is asked for next is answered after that, and changes nothing.
        let woken = tokio::task::unconstrained(self.engine.compact(Revision(0)));
        drop(futures::executor::block_on(woken));
        if let Ok(committed) = &answer
            && let Some(observer) = &*self.observer.lock()
        {
            for (entry, (is_deletion, before)) in committed.entries.iter().zip(before) {
                observer(&Observed {
                    key: entry.key(),
                    before: before.as_ref(),
                    after: (!is_deletion).then_some(entry),
                });
            }
        }
        Answer::ready(answer)
    }

    fn watch(&self, query: WatchQuery) -> Result<Watcher, Error> {
        self.engine.watch(query)
    }

    fn fresh(&self) -> Answer<Revision> {
        self.engine.fresh()
    }

    fn health(&self) -> Result<(), Error> {
        self.engine.health()
    }

    fn metrics(&self) -> &Metrics {
        self.engine.metrics()
    }

    fn statistics(&self) -> Statistics {
        self.engine.statistics()
    }
}

impl fmt::Debug for SteadyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SteadyStore")
            .field("engine", &self.engine)
            .finish_non_exhaustive()
    }
}

fn value_of(entry: &Entry) -> Option<Value> {
    serde_json::from_slice(entry.value()).ok()
}
