//! The six properties of watches, and how they end.
//!
//! *Ordered*: by revision. *Unique*: no event twice. *Reliable*: none missing. *Atomic*: a revision at
//! once. *Resumable*: from any revision that was seen. *Bookmarkable*: progress is true.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::task::JoinSet;

use super::{
    Case, Change, Fixture, Random, change, churn, contents, delete, done, events_until, put, start,
    text, watch, within,
};
use storage::{
    Committed, Event, EventKind, KeyRange, RangeQuery, Revision, Store, WatchEnd, Watcher, Write,
};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "an event tells what happened and what was before",
        run: |f| Box::pin(told(f)),
    },
    Case {
        name: "watches are ordered, unique and reliable",
        run: |f| Box::pin(reliable(f)),
    },
    Case {
        name: "watches are atomic",
        run: |f| Box::pin(atomic(f)),
    },
    Case {
        name: "watches are resumable",
        run: |f| Box::pin(resumable(f)),
    },
    Case {
        name: "watches are bookmarkable",
        run: |f| Box::pin(bookmarkable(f)),
    },
    Case {
        name: "a bookmark is true while others write",
        run: |f| Box::pin(bookmarks_under_load(f)),
    },
    Case {
        name: "a list and a watch after it miss nothing",
        run: |f| Box::pin(list_watch(f)),
    },
    Case {
        name: "a watch from the future waits for it",
        run: |f| Box::pin(from_the_future(f)),
    },
    Case {
        name: "a watch that is given up loses nothing",
        run: |f| Box::pin(cancelled(f)),
    },
    Case {
        name: "a slow watcher misses nothing that history has",
        run: |f| Box::pin(slow(f)),
    },
    Case {
        name: "a slow watcher ends where history has gone on without it",
        run: |f| Box::pin(slow_beyond_history(f)),
    },
];

async fn told(fixture: &dyn Fixture) {
    let store = fixture.store();
    let after = start(&*store);
    let mut watcher = watch(&*store, KeyRange::prefix("/a/"), after);
    let created = put(&*store, "/a/x", "1").await;
    put(&*store, "/b/x", "elsewhere").await;
    let updated = put(&*store, "/a/x", "2").await;
    let last = storage::Change::Delete {
        last: Some((b"................".to_vec(), Some(0))),
    };
    let write = Write {
        change: last,
        ..Write::delete("/a/x")
    };
    let deleted = done(store.commit(vec![write])).await.revision;
    let again = put(&*store, "/a/x", "4").await;
    let plain = delete(&*store, "/a/x").await;
    let events = events_until(&mut watcher, plain).await;
    let got: Vec<_> = events.iter().map(|event| change(event)).collect();
    let x = || "/a/x".to_owned();
    let some = |value: &str| Some(value.to_owned());
    let want: Vec<Change> = vec![
        (created, EventKind::Created, x(), "1".to_owned(), None),
        (updated, EventKind::Updated, x(), "2".to_owned(), some("1")),
        (
            deleted,
            EventKind::Deleted,
            x(),
            deleted.to_string(),
            some("2"),
        ),
        (again, EventKind::Created, x(), "4".to_owned(), None),
        (plain, EventKind::Deleted, x(), String::new(), some("4")),
    ];
    assert_eq!(got, want, "live");
    let mut replayed = watch(&*store, KeyRange::prefix("/a/"), after);
    let events = events_until(&mut replayed, plain).await;
    assert_eq!(
        events.iter().map(|event| change(event)).collect::<Vec<_>>(),
        want,
        "out of history"
    );
}

/// What watchers of a range must see of commits after a revision.
fn wanted(commits: &[Committed], range: &KeyRange, after: Revision) -> Vec<(Revision, String)> {
    let entries = commits.iter().flat_map(|commit| &commit.entries);
    let inside = entries.filter(|entry| entry.modified() > after && range.contains(entry.key()));
    inside
        .map(|entry| (entry.modified(), text(entry.key())))
        .collect()
}

fn seen(events: &[Arc<Event>]) -> Vec<(Revision, String)> {
    events
        .iter()
        .map(|event| (event.revision(), text(event.key())))
        .collect()
}

fn ranges() -> Vec<KeyRange> {
    let other = KeyRange {
        start: super::key("/a/eastern/2"),
        end: Some(super::key("/b/w/1")),
    };
    let prefixes = ["", "/", "/a/", "/a/east", "/a/east/", "/b/w", "/nothing/"];
    let exact = KeyRange::exact("/a/west/3");
    prefixes
        .into_iter()
        .map(KeyRange::prefix)
        .chain([exact, other])
        .collect()
}

async fn reliable(fixture: &dyn Fixture) {
    let store = fixture.store();
    let mut after = start(&*store);
    let mut commits = Vec::new();
    let mut watchers = Vec::new();
    for seed in 0..6 {
        for range in ranges() {
            watchers.push((watch(&*store, range.clone(), after), range, after));
        }
        let more = churn(&*store, seed, 40).await;
        // The next watchers begin in the past.
        after = more[more.len() / 2].revision;
        commits.extend(more);
    }
    for (mut watcher, range, after) in watchers {
        let want = wanted(&commits, &range, after);
        let Some((last, _)) = want.last() else {
            continue;
        };
        let events = events_until(&mut watcher, *last).await;
        assert_eq!(seen(&events), want, "{range:?} after {after}");
    }
}

async fn atomic(fixture: &dyn Fixture) {
    const BATCHES: usize = 60;
    const SIZE: usize = 30;
    let store = fixture.store();
    let after = start(&*store);
    let mut live = watch(&*store, KeyRange::prefix("/k/"), after);
    let answers: Vec<_> = (0..BATCHES)
        .map(|n| {
            let put = |k| Write::put(format!("/k/{k}"), n.to_string());
            store.commit((0..SIZE).map(put).collect())
        })
        .collect();
    whole_revisions(&mut live, BATCHES, SIZE).await;
    for answer in answers {
        done(answer).await;
    }
    whole_revisions(
        &mut watch(&*store, KeyRange::prefix("/k/"), after),
        BATCHES,
        SIZE,
    )
    .await;
}

async fn whole_revisions(watcher: &mut Watcher, batches: usize, size: usize) {
    let mut revisions = BTreeSet::new();
    let mut count = 0;
    while count < batches * size {
        let events = within("a watch", watcher.next())
            .await
            .expect("the watch goes on");
        for event in &events {
            let of_it = events
                .iter()
                .filter(|other| other.revision() == event.revision());
            assert_eq!(
                of_it.count(),
                size,
                "revision {} came in parts",
                event.revision()
            );
            revisions.insert(event.revision());
        }
        count += events.len();
    }
    assert_eq!(revisions.len(), batches, "one revision for each batch");
}

async fn resumable(fixture: &dyn Fixture) {
    let store = fixture.store();
    let after = start(&*store);
    let commits = churn(&*store, 1, 120).await;
    let range = KeyRange::prefix("/a/");
    let want = wanted(&commits, &range, after);
    let last = want.last().expect("there are events").0;
    let mut random = Random::new(2);
    let mut events: Vec<Arc<Event>> = Vec::new();
    let mut seen_up_to = after;
    while seen_up_to < last {
        let mut watcher = watch(&*store, range.clone(), seen_up_to);
        let batch = within("a watch", watcher.next())
            .await
            .expect("the watch goes on");
        // A client may have taken any number of revisions in before it went away.
        let cut = batch[random.below(batch.len())].revision();
        events.extend(batch.into_iter().filter(|event| event.revision() <= cut));
        seen_up_to = cut;
    }
    assert_eq!(seen(&events), want, "the parts are the whole");
}

async fn bookmarkable(fixture: &dyn Fixture) {
    let store = fixture.store();
    let after = start(&*store);
    let mut quiet = watch(&*store, KeyRange::prefix("/nothing/"), after);
    let mut busy = watch(&*store, KeyRange::prefix("/a/"), after);
    let mut last_progress = after;
    for seed in 0..20 {
        let commits = churn(&*store, seed, 3).await;
        let latest = commits.last().expect("there are commits").revision;
        let progress = within("progress", progress_to(&mut quiet, latest)).await;
        assert_eq!(progress, latest, "a quiet watch has seen everything");
        let progress = busy.progress();
        assert!(progress >= last_progress, "progress goes on");
        if let Poll::Ready(batch) = poll(&mut busy) {
            let first = batch.expect("the watch goes on")[0].revision();
            assert!(
                first > progress,
                "{first} came after a bookmark at {progress}"
            );
        }
        last_progress = busy.progress();
        let mut resumed = watch(&*store, KeyRange::prefix("/a/"), last_progress);
        if let Poll::Ready(batch) = poll(&mut resumed) {
            assert!(
                batch.expect("the watch goes on")[0].revision() > last_progress,
                "resumed"
            );
        }
    }
}

async fn bookmarks_under_load(fixture: &dyn Fixture) {
    const WRITES: usize = 400;
    let store = fixture.store();
    let mut watcher = watch(&*store, KeyRange::prefix("/k/"), start(&*store));
    let mut tasks = JoinSet::new();
    let writer = Arc::clone(&store);
    tasks.spawn(async move {
        for n in 0..WRITES {
            put(&*writer, &format!("/k/{}", n % 3), "").await;
        }
    });
    let mut count = 0;
    let mut bookmark = watcher.progress();
    let all = async {
        while count < WRITES {
            let next = watcher.progress();
            assert!(next >= bookmark, "{next} goes back behind {bookmark}");
            bookmark = next;
            if let Poll::Ready(batch) = poll(&mut watcher) {
                let batch = batch.expect("the watch goes on");
                let first = batch[0].revision();
                assert!(
                    first > bookmark,
                    "{first} came after a bookmark at {bookmark}"
                );
                count += batch.len();
            }
            tokio::task::yield_now().await;
        }
    };
    within("the watch", all).await;
    within("the writer", tasks.join_all()).await;
}

/// Polls a watch that has no events until its progress is there.
async fn progress_to(watcher: &mut Watcher, revision: Revision) -> Revision {
    while watcher.progress() < revision {
        assert!(poll(watcher).is_pending(), "nothing happens in the range");
        tokio::task::yield_now().await;
    }
    watcher.progress()
}

fn poll(watcher: &mut Watcher) -> Poll<Result<Vec<Arc<Event>>, WatchEnd>> {
    watcher.poll_next(&mut Context::from_waker(Waker::noop()))
}

/// What every informer does, while others write.
async fn list_watch(fixture: &dyn Fixture) {
    let store = fixture.store();
    let mut tasks = JoinSet::new();
    for seed in 0..4 {
        let store = Arc::clone(&store);
        tasks.spawn(async move {
            for n in 0..100 {
                let key = format!("/k/{seed}/{}", n % 7);
                put(&*store, &key, &n.to_string()).await;
            }
        });
    }
    let mut informers = Vec::new();
    for _ in 0..50 {
        let listed = store
            .range(RangeQuery::of(KeyRange::prefix("/k/")))
            .expect("it can be listed");
        let watcher = watch(&*store, KeyRange::prefix("/k/"), listed.revision);
        informers.push((listed, watcher));
        // Between two of them some writes happen.
        put(&*store, "/elsewhere", "").await;
    }
    within("the writers", tasks.join_all()).await;
    let want = contents(&*store, RangeQuery::of(KeyRange::prefix("/k/")));
    for (listed, mut watcher) in informers {
        let pair = |entry: &storage::Entry| (text(entry.key()), text(entry.value()));
        let mut cache: std::collections::BTreeMap<_, _> = listed.entries.iter().map(pair).collect();
        let last = last_change(&*store, listed.revision);
        if let Some(last) = last {
            let events = events_until(&mut watcher, last).await;
            cache.extend(events.iter().map(|event| pair(event.entry())));
        }
        assert_eq!(
            cache.into_iter().collect::<Vec<_>>(),
            want,
            "listed at {}",
            listed.revision
        );
    }
}

/// The newest revision of a state in `/k/`, if it lies behind another. Nothing there is deleted.
fn last_change(store: &dyn Store, after: Revision) -> Option<Revision> {
    let range = store
        .range(RangeQuery::of(KeyRange::prefix("/k/")))
        .expect("it can be listed");
    range
        .entries
        .iter()
        .map(storage::Entry::modified)
        .max()
        .filter(|last| *last > after)
}

async fn from_the_future(fixture: &dyn Fixture) {
    let store = fixture.store();
    let now = put(&*store, "/a", "0").await;
    let after = now.next().next();
    let mut watcher = watch(&*store, KeyRange::all(), after);
    assert_eq!(watcher.progress(), after, "no bookmark goes back");
    let first = put(&*store, "/a", "1").await;
    let second = put(&*store, "/a", "2").await;
    assert!(
        poll(&mut watcher).is_pending(),
        "{first} and {second} are not after {after}"
    );
    let third = put(&*store, "/a", "3").await;
    let events = events_until(&mut watcher, third).await;
    assert_eq!(
        seen(&events),
        [(third, "/a".to_owned())],
        "the first one after it"
    );
}

async fn cancelled(fixture: &dyn Fixture) {
    let store = fixture.store();
    let mut watcher = watch(&*store, KeyRange::all(), start(&*store));
    for _ in 0..5 {
        let mut next = Box::pin(watcher.next());
        let polled = next.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending(), "nothing has happened yet");
    }
    let last = put(&*store, "/a", "1").await;
    assert_eq!(
        seen(&events_until(&mut watcher, last).await).len(),
        1,
        "the event is still there"
    );
    drop(watcher);
    put(&*store, "/a", "2").await;
}

/// Far more than any mailbox should hold: 500 keys are written in each commit.
const HUGE_COMMITS: usize = 40;

fn huge(n: usize) -> Vec<Write> {
    (0..500)
        .map(|k| Write::put(format!("/{k}"), n.to_string()))
        .collect()
}

async fn slow(fixture: &dyn Fixture) {
    let parts: [(KeyRange, fn(&[u8]) -> bool); 3] = [
        (KeyRange::all(), |_| true),
        (KeyRange::prefix("/1"), |key| key.starts_with(b"/1")),
        (KeyRange::exact("/7"), |key| key == b"/7"),
    ];
    let store = fixture.store();
    let after = start(&*store);
    let mut awake = watch(&*store, KeyRange::all(), after);
    let mut wakeful = Vec::new();
    let mut sleepers = parts.map(|(range, is_theirs)| {
        let sleeper = watch(&*store, range, after);
        (sleeper, is_theirs, Vec::<Arc<Event>>::new())
    });
    for n in 0..HUGE_COMMITS {
        let latest = done(store.commit(huge(n))).await.revision;
        wakeful.extend(events_until(&mut awake, latest).await);
        if n % 9 == 8 {
            // They wake for a moment, and are behind again before they have caught up.
            for (sleeper, _, events) in &mut sleepers {
                let next = within("a slow watch", sleeper.next()).await;
                events.extend(next.expect("the watch goes on"));
            }
        }
    }
    assert_eq!(wakeful.len(), 20_000, "who keeps up is not disturbed");
    for (sleeper, is_theirs, events) in &mut sleepers {
        let progress = sleeper.progress();
        assert!(
            progress < start(&*store),
            "no bookmark tells of what was missed"
        );
        let theirs = wakeful.iter().filter(|event| is_theirs(event.key()));
        let wanted: Vec<_> = theirs.cloned().collect();
        let last = wanted.last().expect("there were some").revision();
        events.extend(events_until(sleeper, last).await);
        assert_eq!(
            seen(events),
            seen(&wanted),
            "nothing is lost, nor comes twice"
        );
    }
    let latest = put(&*store, "/1", "live").await;
    for (sleeper, ..) in sleepers.iter_mut().take(2) {
        let live = events_until(sleeper, latest).await;
        assert_eq!(live.len(), 1, "who has caught up goes on");
    }
}

async fn slow_beyond_history(fixture: &mut dyn Fixture) {
    let store = fixture.store();
    let after = start(&*store);
    let mut sleeper = watch(&*store, KeyRange::all(), after);
    put(&*store, "/a", "1").await;
    let mut latest = after;
    for n in 0..HUGE_COMMITS {
        latest = done(store.commit(huge(n))).await.revision;
    }
    fixture.compact(latest).await;
    let mut reached = after;
    let end = loop {
        match within("the slow watch", sleeper.next()).await {
            Ok(batch) => reached = batch.last().expect("no empty batch").revision(),
            Err(end) => break end,
        }
    };
    assert_eq!(end, WatchEnd::Expired, "the end says why");
    assert_eq!(sleeper.next().await.err(), Some(end), "an end is final");
    assert_eq!(sleeper.progress(), reached, "progress is true");
    assert!(reached < latest, "it did not get everything");
}
