//! What outlasts a close, a crash, and the compaction of history.

use super::{
    Case, Fixture, check_model, churn, contents, delete, done, events_until, everything, key, put,
    refused, start, watch,
};
use storage::{Change, Error, Expect, KeyRange, RangeQuery, Revision, Store, WatchQuery, Write};

use super::{Op, Random, change};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "a store that is opened again is the same",
        run: |f| Box::pin(reopened(f)),
    },
    Case {
        name: "what was acknowledged survives a crash",
        run: |f| Box::pin(crashed(f)),
    },
    Case {
        name: "compacted history is refused, the present stays",
        run: |f| Box::pin(compacted(f)),
    },
    Case {
        name: "a floor outlasts a restart",
        run: |f| Box::pin(floor_lasts(f)),
    },
    Case {
        name: "no revision is given twice",
        run: |f| Box::pin(never_twice(f)),
    },
    Case {
        name: "an open watch survives compaction",
        run: |f| Box::pin(open_watch(f)),
    },
    Case {
        name: "any history is like the model's",
        run: |f| Box::pin(like_the_model(f)),
    },
];

/// All that can be asked of a store.
fn portrait(store: &dyn Store, revisions: &[Revision]) -> Vec<String> {
    let mut portrait = vec![format!("{} {}", store.revision(), store.compaction_floor())];
    for at in revisions {
        let range = store.range(RangeQuery::of(KeyRange::all()).at(*at));
        portrait.push(format!("{at} {range:?}"));
        let values = contents(store, RangeQuery::of(KeyRange::all()).at(*at));
        portrait.push(format!("{values:?}"));
    }
    portrait
}

async fn reopened(fixture: &mut dyn Fixture) {
    let store = fixture.store();
    let after = start(&*store);
    let change = Change::Put {
        value: b"................".to_vec(),
        stamp: Some(0),
        tag: 42,
    };
    let tagged = Write {
        key: key("/tagged"),
        change,
        expect: Expect::Any,
    };
    done(store.commit(vec![tagged])).await;
    let commits = churn(&*store, 3, 60).await;
    let revisions: Vec<_> = commits.iter().map(|commit| commit.revision).collect();
    let before = portrait(&*store, &revisions);
    let latest = store.revision();
    let history = history(&*store, after, latest).await;
    drop(store);
    fixture.reopen().await;
    let store = fixture.store();
    assert_eq!(
        portrait(&*store, &revisions),
        before,
        "all states of all revisions"
    );
    assert_eq!(
        self::history(&*store, after, latest).await,
        history,
        "all events"
    );
    let tagged = store.get(b"/tagged").expect("the key is there");
    assert_eq!(
        (tagged.tag(), tagged.value()),
        (42, tagged.modified().digits().as_slice()),
        "whole"
    );
    let next = put(&*store, "/next", "").await;
    assert!(next > latest, "revisions go on");
}

async fn history(store: &dyn Store, after: Revision, latest: Revision) -> Vec<super::Change> {
    let mut watcher = watch(store, KeyRange::all(), after);
    events_until(&mut watcher, latest)
        .await
        .iter()
        .map(|event| change(event))
        .collect()
}

async fn crashed(fixture: &mut dyn Fixture) {
    let mut random = Random::new(4);
    for round in 0..8 {
        let store = fixture.store();
        let mut acknowledged = Vec::new();
        for _ in 0..random.below(12) {
            let key = format!("/k/{}", random.below(6));
            let value = random.bits().to_string();
            acknowledged.push((put(&*store, &key, &value).await, key, value));
        }
        let latest = store.revision();
        drop(store);
        fixture.crash().await;
        let store = fixture.store();
        assert!(
            store.revision() >= latest,
            "round {round}: the revision does not go back"
        );
        for (revision, key, value) in acknowledged {
            let then = contents(
                &*store,
                RangeQuery::of(KeyRange::exact(key.clone())).at(revision),
            );
            assert_eq!(then, [(key, value)], "round {round}: written at {revision}");
        }
    }
}

async fn compacted(fixture: &mut dyn Fixture) {
    let store = fixture.store();
    let begin = start(&*store);
    churn(&*store, 5, 30).await;
    delete_if_there(&*store, "/a/east/1").await;
    let floor = store.revision();
    let at_floor = everything(&*store);
    churn(&*store, 6, 30).await;
    let now = everything(&*store);
    fixture.compact(floor).await;
    assert_eq!(store.compaction_floor(), floor, "the floor is told");
    assert_eq!(everything(&*store), now, "the present stays");
    let at = |at| RangeQuery::of(KeyRange::all()).at(at);
    assert_eq!(
        contents(&*store, at(floor)),
        at_floor,
        "the floor itself can be read"
    );
    let below = Revision(floor.0 - 1);
    for requested in [below, begin] {
        let read = store.range(at(requested)).expect_err("it is refused");
        let watched = store.watch(WatchQuery {
            range: KeyRange::all(),
            after: requested,
        });
        for error in [read, watched.expect_err("it is refused")] {
            let Error::Compacted {
                requested: named,
                floor: oldest,
            } = error
            else {
                unreachable!("another refusal: {error}");
            };
            assert_eq!(
                (named, oldest),
                (requested, floor),
                "the refusal names both"
            );
        }
    }
    let latest = store.revision();
    let events = history(&*store, floor, latest).await;
    assert!(
        events.iter().all(|(revision, ..)| *revision > floor),
        "a watch begins at the floor"
    );
    // A floor never sinks.
    fixture.compact(begin).await;
    assert_eq!(store.compaction_floor(), floor, "the floor stays");
}

async fn delete_if_there(store: &dyn Store, key: &str) {
    if store.get(key.as_bytes()).is_some() {
        delete(store, key).await;
    }
}

async fn floor_lasts(fixture: &mut dyn Fixture) {
    let store = fixture.store();
    churn(&*store, 7, 40).await;
    let floor = store.revision();
    churn(&*store, 8, 40).await;
    let revisions = [floor, store.revision()];
    drop(store);
    fixture.compact(floor).await;
    let before = portrait(&*fixture.store(), &revisions);
    fixture.reopen().await;
    assert_eq!(
        portrait(&*fixture.store(), &revisions),
        before,
        "after a close"
    );
    fixture.crash().await;
    assert_eq!(
        portrait(&*fixture.store(), &revisions),
        before,
        "after a crash"
    );
}

async fn never_twice(fixture: &mut dyn Fixture) {
    let store = fixture.store();
    put(&*store, "/a", "").await;
    let last = delete(&*store, "/a").await;
    drop(store);
    // Nothing is left that has this revision.
    fixture.compact(last).await;
    fixture.reopen().await;
    assert_eq!(fixture.store().revision(), last, "it is remembered");
    assert_eq!(
        everything(&*fixture.store()),
        [],
        "what is deleted stays deleted"
    );
    fixture.crash().await;
    let store = fixture.store();
    assert_eq!(store.revision(), last, "it is remembered after a crash");
    assert!(put(&*store, "/a", "").await > last, "the next one is new");
    let stale = Write::put("/a", "").expecting(Expect::Revision(last));
    refused(store.commit(vec![stale])).await;
}

async fn open_watch(fixture: &mut dyn Fixture) {
    let store = fixture.store();
    let after = start(&*store);
    let mut watcher = watch(&*store, KeyRange::all(), after);
    let commits = churn(&*store, 9, 50).await;
    let latest = store.revision();
    fixture.compact(latest).await;
    let events = events_until(&mut watcher, latest).await;
    let count = commits
        .iter()
        .map(|commit| commit.entries.len())
        .sum::<usize>();
    assert_eq!(events.len(), count, "what was delivered is not taken back");
    let next = put(&*store, "/next", "").await;
    assert_eq!(
        events_until(&mut watcher, next).await.len(),
        1,
        "and it goes on"
    );
}

async fn like_the_model(fixture: &mut dyn Fixture) {
    for seed in 0..4 {
        let mut random = Random::new(seed);
        let ops: Vec<_> = (0..150).map(|_| Op::random(&mut random)).collect();
        let result = check_model(fixture, &ops).await;
        assert_eq!(result, Ok(()), "seed {seed}");
    }
}
