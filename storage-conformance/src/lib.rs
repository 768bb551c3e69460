//! The suite that every engine passes: what [`Store`] promises, as cases that can fail; the recorder and the checker of
//! [`histories`] of many clients; and a [`simulated`] disk for them to crash.
//!
//! The unit tests of `storage` compile this crate's sources once more, over their own build of that crate: so sources here
//! name each other by `super::` and `self::`, never by `crate::`.
//!
//! An engine's tests make a [`Fixture`] and run each of [`CASES`] on a new one. Random cases take
//! their seed from the case's own list and name it when they fail.

pub mod histories;
mod lasting;
mod model;
pub mod ports;
mod random;
mod ranges;
pub mod simulated;
mod trial;
mod watches;
mod writes;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

pub use self::histories::{Call, Recorder, Told, check_history};
pub use self::model::{Guess, Op, check_model};
pub use self::random::Random;
pub use self::trial::Trial;

use storage::{
    Answer, Committed, Error, Event, EventKind, Key, KeyRange, RangeQuery, Revision, Store,
    WatchQuery, Watcher, Write,
};

/// A store under test, and what can befall it.
pub trait Fixture: Debug + Send + Sync {
    /// The store as it is now; another one after [`Fixture::reopen`] and [`Fixture::crash`].
    fn store(&self) -> Arc<dyn Store>;

    /// Gives up the history below a revision.
    fn compact(&mut self, floor: Revision) -> Step<'_>;

    /// Closes the store in order and opens it again.
    fn reopen(&mut self) -> Step<'_>;

    /// Kills the store at this moment and opens it again.
    fn crash(&mut self) -> Step<'_>;
}

/// Something that takes its time.
pub type Step<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// One promise.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The promise, as a sentence.
    pub name: &'static str,
    /// Panics where the store breaks it.
    pub run: for<'a> fn(&'a mut dyn Fixture) -> Step<'a>,
}

/// Every promise. Each case wants a fixture of its own, with an empty store.
pub const CASES: &[&[Case]] = &[writes::CASES, ranges::CASES, watches::CASES, lasting::CASES];

/// Runs the whole suite, and names each case before it begins.
pub async fn run(mut fixture: impl AsyncFnMut() -> Box<dyn Fixture>, mut begin: impl FnMut(&str)) {
    for case in CASES.iter().copied().flatten() {
        begin(case.name);
        let mut fixture = fixture().await;
        (case.run)(&mut *fixture).await;
    }
}

/// How long anything may take. It is a bound for a broken store, not a measure.
const PATIENCE: Duration = Duration::from_secs(30);

async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(PATIENCE, work).await;
    assert!(done.is_ok(), "{what} takes too long");
    done.expect("just asserted")
}

async fn done(answer: Answer<Committed>) -> Committed {
    within("a commit", answer)
        .await
        .expect("the commit is accepted")
}

async fn refused(answer: Answer<Committed>) -> Error {
    within("a commit", answer)
        .await
        .expect_err("the commit is refused")
}

async fn put(store: &dyn Store, key: &str, value: &str) -> Revision {
    done(store.commit(vec![Write::put(key, value)]))
        .await
        .revision
}

async fn delete(store: &dyn Store, key: &str) -> Revision {
    done(store.commit(vec![Write::delete(key)])).await.revision
}

/// What a range holds, as text.
fn contents(store: &dyn Store, query: RangeQuery) -> Vec<(String, String)> {
    let range = store.range(query).expect("the range can be read");
    range
        .entries
        .iter()
        .map(|entry| (text(entry.key()), text(entry.value())))
        .collect()
}

fn everything(store: &dyn Store) -> Vec<(String, String)> {
    contents(store, RangeQuery::of(KeyRange::all()))
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn watch(store: &dyn Store, range: KeyRange, after: Revision) -> Watcher {
    store
        .watch(WatchQuery { range, after })
        .expect("the watch begins")
}

/// Everything that a watch hands out up to a revision that is known to have events.
async fn events_until(watcher: &mut Watcher, last: Revision) -> Vec<Arc<Event>> {
    let mut events = Vec::<Arc<Event>>::new();
    while events.last().is_none_or(|event| event.revision() < last) {
        events.extend(
            within("a watch", watcher.next())
                .await
                .expect("the watch goes on"),
        );
    }
    events
}

/// An event without what identifies the bytes.
type Change = (Revision, EventKind, String, String, Option<String>);

fn change(event: &Event) -> Change {
    let previous = event.previous().map(|entry| text(entry.value()));
    (
        event.revision(),
        event.kind(),
        text(event.key()),
        text(event.entry().value()),
        previous,
    )
}

/// Random writes: batches of one to four over some forty keys. Returns what was committed.
async fn churn(store: &dyn Store, seed: u64, batches: usize) -> Vec<Committed> {
    let mut random = Random::new(seed);
    let mut commits = Vec::new();
    for n in 0..batches {
        let mut writes = BTreeMap::new();
        for _ in 0..=random.below(4) {
            let key = random_key(&mut random);
            let write = match random.below(4) {
                0 if store.get(key.as_bytes()).is_some() => Write::delete(key.clone()),
                _ => Write::put(key.clone(), format!("{seed}-{n}")),
            };
            writes.insert(key, write);
        }
        commits.push(done(store.commit(writes.into_values().collect())).await);
    }
    commits
}

fn random_key(random: &mut Random) -> String {
    let group = ["a", "b"][random.below(2)];
    let cluster = ["east", "eastern", "west", "w"][random.below(4)];
    format!("/{group}/{cluster}/{}", random.below(5))
}

/// The revision before anything that a test writes.
fn start(store: &dyn Store) -> Revision {
    store.revision()
}

fn key(text: &str) -> Key {
    Key::from(text)
}
