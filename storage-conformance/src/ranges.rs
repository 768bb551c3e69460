//! Ranges, limits, pages, and the past.

use super::{Case, Fixture, contents, delete, done, key, pairs, put, start};
use storage::{Error, Key, KeyRange, RangeQuery, Revision, Store, Write};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "a range has its keys in their order",
        run: |f| Box::pin(in_order(f)),
    },
    Case {
        name: "a limit tells what it left out",
        run: |f| Box::pin(limits(f)),
    },
    Case {
        name: "pages of one revision are one list",
        run: |f| Box::pin(pages(f)),
    },
    Case {
        name: "every kept revision can be read",
        run: |f| Box::pin(the_past(f)),
    },
    Case {
        name: "a revision to come cannot be read",
        run: |f| Box::pin(the_future(f)),
    },
];

async fn in_order(fixture: &dyn Fixture) {
    let store = fixture.store();
    for key in ["/b/2", "/a/2", "/b/1", "/a", "/a/10", "/a/1", "/a0", "/b"] {
        put(&*store, key, "").await;
    }
    let half_open = KeyRange {
        start: key("/a/1"),
        end: Some(key("/b/1")),
    };
    let inverted = KeyRange {
        start: key("/b"),
        end: Some(key("/a")),
    };
    for (name, range, want) in [
        (
            "a prefix",
            KeyRange::prefix("/a/"),
            &["/a/1", "/a/10", "/a/2"][..],
        ),
        ("one key", KeyRange::exact("/a"), &["/a"]),
        ("no such key", KeyRange::exact("/c"), &[]),
        (
            "from here to there",
            half_open,
            &["/a/1", "/a/10", "/a/2", "/a0", "/b"],
        ),
        ("the wrong way round", inverted, &[]),
    ] {
        let got = contents(&*store, RangeQuery::of(range));
        let keys: Vec<_> = got.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, want, "{name}");
    }
}

async fn limits(fixture: &dyn Fixture) {
    let store = fixture.store();
    let made = made_of(&*store, 10).await;
    for (limit, want, remaining) in [(0, 0, 10), (1, 1, 9), (9, 9, 1), (10, 10, 0), (11, 10, 0)] {
        let query = RangeQuery::of(KeyRange::prefix("/k/")).limit(limit);
        let range = store.range(query).expect("the range can be read");
        assert_eq!(range.entries.len(), want, "limit {limit}");
        assert_eq!(
            (range.remaining, range.more()),
            (Some(remaining), remaining > 0),
            "limit {limit}"
        );
        assert_eq!(range.revision, made, "limit {limit}: the latest revision");
    }
}

/// A store with `/k/00` and so on, and its revision.
async fn made_of(store: &dyn Store, count: usize) -> Revision {
    let writes = (0..count)
        .map(|n| Write::put(format!("/k/{n:02}"), n.to_string()))
        .collect();
    done(store.commit(writes)).await.revision
}

async fn pages(fixture: &dyn Fixture) {
    let store = fixture.store();
    let listed = made_of(&*store, 20).await;
    let want = contents(&*store, RangeQuery::of(KeyRange::prefix("/k/")));
    let mut got = Vec::new();
    let mut range = KeyRange::prefix("/k/");
    loop {
        let query = RangeQuery::of(range.clone()).limit(3).at(listed);
        let page = store.range(query.clone()).expect("the page can be read");
        assert_eq!(page.revision, listed, "every page is of one revision");
        assert_eq!(
            page.remaining,
            Some((20 - got.len() - page.entries.len()) as u64),
            "what is left"
        );
        got.extend(contents(&*store, query));
        let Some(last) = page.entries.last().filter(|_| page.more()) else {
            break;
        };
        range = range.behind(&last.to_key());
        // What happens between the pages is not in them.
        put(&*store, "/k/05x", "new").await;
        put(&*store, "/k/19", "changed").await;
        if store.get(b"/k/17").is_some() {
            delete(&*store, "/k/17").await;
        }
    }
    assert_eq!(got, want, "the pages are the list");
}

async fn the_past(fixture: &dyn Fixture) {
    let store = fixture.store();
    let empty = start(&*store);
    let one = put(&*store, "/a", "1").await;
    let two = put(&*store, "/b", "2").await;
    let three = put(&*store, "/a", "3").await;
    let four = delete(&*store, "/b").await;
    let five = put(&*store, "/b", "5").await;
    for (at, want) in [
        (empty, pairs(&[])),
        (one, pairs(&[("/a", "1")])),
        (two, pairs(&[("/a", "1"), ("/b", "2")])),
        (three, pairs(&[("/a", "3"), ("/b", "2")])),
        (four, pairs(&[("/a", "3")])),
        (five, pairs(&[("/a", "3"), ("/b", "5")])),
    ] {
        let query = RangeQuery::of(KeyRange::all()).at(at);
        assert_eq!(contents(&*store, query.clone()), want, "at {at}");
        let counted = store.range(query.limit(0)).expect("the range can be read");
        assert_eq!(
            counted.remaining,
            Some(want.len() as u64),
            "counted at {at}"
        );
    }
}

async fn the_future(fixture: &dyn Fixture) {
    let store = fixture.store();
    let latest = put(&*store, "/a", "1").await;
    let query = RangeQuery::of(KeyRange::exact(Key::from("/a"))).at(latest.next());
    let Err(Error::FutureRevision { requested, current }) = store.range(query) else {
        unreachable!("a revision to come was read");
    };
    assert_eq!(
        (requested, current),
        (latest.next(), latest),
        "the refusal names both"
    );
}
