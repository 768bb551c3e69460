//! What is kept in step stays in step, whatever a store answers.

use std::{collections::BTreeSet, time::Duration};

use parking_lot::Mutex;
use storage::{
    Answer, Committed, Error, Key, Metrics, Range, Statistics, Watcher, Write, embedded,
};

use super::*;

/// A store that refuses the first watches and reads after its opening.
#[derive(Debug)]
struct Refusing {
    store: embedded::Engine,
    /// Errors of the next watches, the last one first.
    watches: Mutex<Vec<Error>>,
    /// Errors of the next reads, the last one first.
    reads: Mutex<Vec<Error>>,
}

impl Store for Refusing {
    fn revision(&self) -> Revision {
        self.store.revision()
    }
    fn compaction_floor(&self) -> Revision {
        self.store.compaction_floor()
    }
    fn get(&self, key: &[u8]) -> Option<Entry> {
        self.store.get(key)
    }
    fn range(&self, query: RangeQuery) -> Result<Range, Error> {
        match self.reads.lock().pop() {
            Some(error) => Err(error),
            None => self.store.range(query),
        }
    }
    fn commit(&self, writes: Vec<Write>) -> Answer<Committed> {
        self.store.commit(writes)
    }
    fn watch(&self, query: WatchQuery) -> Result<Watcher, Error> {
        match self.watches.lock().pop() {
            Some(error) => Err(error),
            None => self.store.watch(query),
        }
    }
    fn fresh(&self) -> Answer<Revision> {
        self.store.fresh()
    }
    fn health(&self) -> Result<(), Error> {
        self.store.health()
    }
    fn metrics(&self) -> &Metrics {
        self.store.metrics()
    }
    fn statistics(&self) -> Statistics {
        self.store.statistics()
    }
}

/// The keys of a range.
#[derive(Debug, Default)]
struct Keys(Arc<Mutex<BTreeSet<Vec<u8>>>>);

impl Follow for Keys {
    const WHAT: &'static str = "keys";

    fn range() -> KeyRange {
        KeyRange::prefix(b"/keys/".to_vec())
    }
    fn read(&mut self, entries: &[Entry]) {
        *self.0.lock() = entries.iter().map(|it| it.key().to_vec()).collect();
    }
    fn take(&mut self, events: &[Arc<Event>]) {
        let keys = events.iter().map(|it| it.key().to_vec());
        self.0.lock().extend(keys);
    }
}

fn put(name: &str) -> Vec<Write> {
    vec![Write::put(
        Key::from(format!("/keys/{name}").into_bytes()),
        "{}".to_owned(),
    )]
}

/// Opens a follower of a store with one key, lets the store refuse, and returns whether a later key is noticed.
async fn notices(watches: Vec<Error>, reads: Vec<Error>) -> bool {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(Refusing {
        store: embedded::Engine::open(directory.path(), embedded::Config::default()).unwrap(),
        watches: Mutex::default(),
        reads: Mutex::default(),
    });
    store.commit(put("before")).await.unwrap();
    let keys = Arc::new(Mutex::new(BTreeSet::new()));
    let followed: Arc<dyn Store> = Arc::clone(&store) as _;
    let following = Following::open(followed, Keys(Arc::clone(&keys))).unwrap();
    assert_eq!(keys.lock().len(), 1, "what is there is read at once");
    *store.watches.lock() = watches;
    *store.reads.lock() = reads;
    let shutdown = CancellationToken::new();
    let running = tasks::Tasks::new().spawn("follow", following.run(shutdown.clone()));
    store.commit(put("after")).await.unwrap();
    let noticed = async {
        while keys.lock().len() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let noticed = tokio::time::timeout(Duration::from_secs(20), noticed).await;
    shutdown.cancel();
    running.await.unwrap();
    noticed.is_ok()
}

#[tokio::test]
async fn a_store_that_lost_its_history_or_was_set_back_is_read_again() {
    let compacted = Error::Compacted {
        requested: Revision(1),
        floor: Revision(2),
    };
    let set_back = Error::FutureRevision {
        requested: Revision(9),
        current: Revision(2),
    };
    for error in [compacted, set_back] {
        let what = error.to_string();
        assert!(notices(vec![error], Vec::new()).await, "{what}");
    }
}

#[tokio::test]
async fn a_store_that_refuses_for_a_while_is_asked_again() {
    assert!(notices(vec![Error::Full], Vec::new()).await, "a watch");
    assert!(
        notices(vec![Error::Full], vec![Error::Full]).await,
        "a watch and a read"
    );
}

#[tokio::test]
async fn following_ends_with_the_store() {
    assert!(
        !notices_before_end(Error::Closed).await,
        "it ends, and does not spin"
    );
}

/// Returns whether a follower whose watch is answered with `error` goes on.
async fn notices_before_end(error: Error) -> bool {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(Refusing {
        store: embedded::Engine::open(directory.path(), embedded::Config::default()).unwrap(),
        watches: Mutex::new(vec![error]),
        reads: Mutex::default(),
    });
    let followed: Arc<dyn Store> = Arc::clone(&store) as _;
    let following = Following::open(followed, Keys::default()).unwrap();
    let run = following.run(CancellationToken::new());
    tokio::time::timeout(Duration::from_secs(10), run)
        .await
        .is_err()
}
