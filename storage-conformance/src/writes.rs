//! Expectations, batches, and the order of commits.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::{
    Case, Fixture, Random, delete, done, everything, key, pairs, put, refused, start, text,
};
use storage::{
    BATCH_COUNT_MAX, Change, Error, Expect, KEY_BYTES_MAX, Key, Revision, STAMP_BYTES, Store,
    VALUE_BYTES_MAX, Write,
};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "a write is read back as it was stored",
        run: |f| Box::pin(read_back(f)),
    },
    Case {
        name: "a value is stamped with its own revision",
        run: |f| Box::pin(stamped(f)),
    },
    Case {
        name: "revisions rise by one line of sixteen digits",
        run: |f| Box::pin(rising(f)),
    },
    Case {
        name: "a broken expectation changes nothing",
        run: |f| Box::pin(expectations(f)),
    },
    Case {
        name: "a batch is all or nothing in one revision",
        run: |f| Box::pin(batches(f)),
    },
    Case {
        name: "a malformed batch is refused",
        run: |f| Box::pin(malformed(f)),
    },
    Case {
        name: "a batch happens only while what it keeps is as it was",
        run: |f| Box::pin(kept(f)),
    },
    Case {
        name: "of many creators of a key one wins",
        run: |f| Box::pin(one_creator(f)),
    },
    Case {
        name: "no update is lost",
        run: |f| Box::pin(no_lost_update(f)),
    },
    Case {
        name: "a write outlives its answer",
        run: |f| Box::pin(outlives(f)),
    },
];

async fn read_back(fixture: &dyn Fixture) {
    let store = fixture.store();
    let change = Change::Put {
        value: b"one".to_vec(),
        stamp: None,
        tag: 7,
    };
    let write = Write {
        key: key("/a"),
        change,
        expect: Expect::Absent,
    };
    let first = done(store.commit(vec![write])).await;
    let entry = store.get(b"/a").expect("the key is there");
    assert_eq!(
        first.entries.first(),
        Some(&entry),
        "the answer is what is read"
    );
    assert_eq!(
        (entry.key(), entry.value(), entry.tag()),
        (&b"/a"[..], &b"one"[..], 7),
        "as stored"
    );
    assert_eq!(
        (entry.created(), entry.modified()),
        (first.revision, first.revision),
        "new"
    );
    assert_eq!(store.revision(), first.revision, "reads see it");

    let second = put(&*store, "/a", "two").await;
    let entry = store.get(b"/a").expect("the key is there");
    assert_eq!(
        (entry.created(), entry.modified()),
        (first.revision, second),
        "updated"
    );
    delete(&*store, "/a").await;
    assert_eq!(store.get(b"/a"), None, "deleted");
    let third = put(&*store, "/a", "three").await;
    let entry = store.get(b"/a").expect("the key is there");
    assert_eq!(entry.created(), third, "another life");
}

async fn stamped(fixture: &dyn Fixture) {
    let store = fixture.store();
    let blank = b"v=................;".to_vec();
    let change = Change::Put {
        value: blank.clone(),
        stamp: Some(2),
        tag: 9,
    };
    let made = done(store.commit(vec![Write {
        key: key("/a"),
        change,
        expect: Expect::Any,
    }]))
    .await;
    let want = |revision: Revision| format!("v={revision};");
    let entry = store.get(b"/a").expect("the key is there");
    assert_eq!(
        text(entry.value()),
        want(made.revision),
        "the stored bytes carry the revision"
    );

    let change = Change::Delete {
        last: Some((blank, Some(2))),
    };
    let gone = done(store.commit(vec![Write {
        key: key("/a"),
        change,
        expect: Expect::Any,
    }]))
    .await;
    let last = gone.entries.first().expect("a deletion has an entry");
    assert_eq!(
        text(last.value()),
        want(gone.revision),
        "the last state carries the deletion's"
    );
    assert_eq!(
        (last.created(), last.tag()),
        (made.revision, 9),
        "creation and tag stay"
    );
}

async fn rising(fixture: &dyn Fixture) {
    let store = fixture.store();
    let mut last = start(&*store);
    assert!(last.is_of_a_hub(), "{last} is on the number line");
    for n in 0..10 {
        let revision = put(&*store, &format!("/{n}"), "").await;
        assert!(revision > last, "{revision} follows {last}");
        assert_eq!(
            revision.to_string().len(),
            STAMP_BYTES,
            "{revision} has sixteen digits"
        );
        last = revision;
    }
}

async fn expectations(fixture: &dyn Fixture) {
    let store = fixture.store();
    let first = put(&*store, "/a", "1").await;
    let latest = put(&*store, "/a", "2").await;
    let write = |key: &str| Write::put(key, "new");
    for (name, write, want) in [
        (
            "create what is there",
            write("/a").expecting(Expect::Absent),
            "conflict",
        ),
        (
            "update an older state",
            write("/a").expecting(Expect::Revision(first)),
            "conflict",
        ),
        (
            "update what is absent",
            write("/b").expecting(Expect::Revision(first)),
            "absent",
        ),
        (
            "delete an older state",
            Write::delete("/a").expecting(Expect::Revision(first)),
            "conflict",
        ),
        ("delete what is absent", Write::delete("/b"), "absent"),
        (
            "delete a state of what is absent",
            Write::delete("/b").expecting(Expect::Revision(first)),
            "absent",
        ),
    ] {
        let got = match refused(store.commit(vec![write])).await {
            Error::Conflict { key, current } => {
                assert_eq!(&*key, b"/a", "{name}: the key that is in conflict");
                let current = current.expect("there is a state to be in conflict with");
                assert_eq!(current.modified(), latest, "{name}: the state that it has");
                "conflict"
            }
            Error::NotFound { .. } => "absent",
            _ => "something else",
        };
        assert_eq!(got, want, "{name}");
    }
    assert_eq!(store.revision(), latest, "a refusal uses no revision");
    assert_eq!(
        everything(&*store),
        pairs(&[("/a", "2")]),
        "a refusal changes nothing"
    );
    done(store.commit(vec![write("/a").expecting(Expect::Revision(latest))])).await;
}

async fn kept(fixture: &dyn Fixture) {
    let store = fixture.store();
    let term = put(&*store, "/term", "1").await;
    let batch =
        |value: &str, term: Revision| vec![Write::put("/a", value), Write::keep("/term", term)];
    let made = done(store.commit(batch("1", term))).await;
    let keys: Vec<_> = made.entries.iter().map(|entry| text(entry.key())).collect();
    assert_eq!(keys, ["/a"], "what is kept makes no entry");
    let now = store.get(b"/term").expect("it is there");
    assert_eq!(now.modified(), term, "and has no new revision");

    let next = put(&*store, "/term", "2").await;
    let error = refused(store.commit(batch("2", term))).await;
    let conflict = match &error {
        Error::Conflict { key, current } => {
            Some((text(key), current.as_ref().map(storage::Entry::modified)))
        }
        _ => None,
    };
    let want = ("/term".into(), Some(next));
    assert_eq!(conflict, Some(want), "another has it: {error}");
    delete(&*store, "/term").await;
    let error = refused(store.commit(batch("3", next))).await;
    let is_gone = matches!(&error, Error::NotFound { key } if **key == *b"/term");
    assert!(is_gone, "it is gone: {error}");
    assert_eq!(
        everything(&*store),
        pairs(&[("/a", "1")]),
        "nothing else happened"
    );
    for malformed in [
        vec![Write::keep("/a", made.revision)],
        vec![
            Write::put("/b", ""),
            Write::keep("/a", next).expecting(Expect::Any),
        ],
    ] {
        let error = refused(store.commit(malformed)).await;
        assert!(matches!(error, Error::Malformed { .. }), "{error}");
    }
}

async fn batches(fixture: &dyn Fixture) {
    let store = fixture.store();
    put(&*store, "/gone", "").await;
    let all = vec![
        Write::put("/b", "1"),
        Write::delete("/gone"),
        Write::put("/a", "2"),
    ];
    let made = done(store.commit(all)).await;
    assert_eq!(
        everything(&*store),
        pairs(&[("/a", "2"), ("/b", "1")]),
        "all of it happened"
    );
    let keys: Vec<_> = made.entries.iter().map(|entry| text(entry.key())).collect();
    assert_eq!(
        keys,
        ["/b", "/gone", "/a"],
        "entries are in the order of the writes"
    );
    assert!(
        made.entries.iter().all(|e| e.modified() == made.revision),
        "one revision"
    );

    let broken = vec![
        Write::put("/c", "3"),
        Write::put("/a", "4").expecting(Expect::Absent),
    ];
    refused(store.commit(broken)).await;
    assert_eq!(store.get(b"/c"), None, "nothing of a refused batch happens");
    assert_eq!(store.revision(), made.revision, "it uses no revision");
}

async fn malformed(fixture: &dyn Fixture) {
    let store = fixture.store();
    let before = store.revision();
    let stamped = |stamp| Write {
        change: Change::Put {
            value: vec![b'.'; 20],
            stamp: Some(stamp),
            tag: 0,
        },
        ..Write::put("/a", "")
    };
    let many = (0..=BATCH_COUNT_MAX)
        .map(|n| Write::put(format!("/{n}"), ""))
        .collect();
    for (name, writes, too_large) in [
        ("empty", vec![], false),
        (
            "a key twice",
            vec![Write::put("/a", "1"), Write::delete("/a")],
            false,
        ),
        ("a stamp behind the end", vec![stamped(5)], false),
        ("a stamp far away", vec![stamped(usize::MAX)], false),
        (
            "deletes the absent",
            vec![Write::delete("/a").expecting(Expect::Absent)],
            false,
        ),
        (
            "a long key",
            vec![Write::put("k".repeat(KEY_BYTES_MAX + 1), "")],
            true,
        ),
        (
            "a large value",
            vec![Write::put("/a", vec![0; VALUE_BYTES_MAX + 1])],
            true,
        ),
        ("many writes", many, true),
    ] {
        let error = refused(store.commit(writes)).await;
        let got = match error {
            Error::TooLarge { .. } => Some(true),
            Error::Malformed { .. } => Some(false),
            _ => None,
        };
        assert_eq!(got, Some(too_large), "{name}: {error}");
    }
    assert_eq!(store.revision(), before, "nothing was taken up");
    done(store.commit(vec![stamped(4)])).await;
    let longest = Key::from("k".repeat(KEY_BYTES_MAX));
    done(store.commit(vec![Write::put(longest, vec![0; VALUE_BYTES_MAX])])).await;
}

async fn one_creator(fixture: &dyn Fixture) {
    let store = fixture.store();
    let answers: Vec<_> = (0..50)
        .map(|n| {
            store.commit(vec![
                Write::put("/a", n.to_string()).expecting(Expect::Absent),
            ])
        })
        .collect();
    let mut winners = 0;
    for answer in answers {
        match super::within("a commit", answer).await {
            Ok(_) => winners += 1,
            Err(Error::Conflict {
                current: Some(current),
                ..
            }) => {
                let seen = store
                    .get(b"/a")
                    .expect("a refusal's reason can be read by then");
                assert_eq!(current, seen, "the winner's state");
            }
            Err(other) => assert_eq!(other.to_string(), "", "not a conflict"),
        }
    }
    assert_eq!(winners, 1, "exactly one creation");
}

async fn no_lost_update(fixture: &dyn Fixture) {
    const WRITERS: u64 = 8;
    const ROUNDS: u64 = 25;
    let store = fixture.store();
    put(&*store, "/counter", "0").await;
    let mut tasks = JoinSet::new();
    for writer in 0..WRITERS {
        let store = Arc::clone(&store);
        tasks.spawn(async move {
            let mut random = Random::new(writer);
            for _ in 0..ROUNDS {
                increment(&*store, &mut random).await;
            }
        });
    }
    super::within("the writers", tasks.join_all()).await;
    let want = (WRITERS * ROUNDS).to_string();
    assert_eq!(
        everything(&*store),
        pairs(&[("/counter", &want)]),
        "every increment counts"
    );
}

/// The read-modify-write loop of every controller.
async fn increment(store: &dyn Store, random: &mut Random) {
    loop {
        let entry = store.get(b"/counter").expect("the counter is there");
        let count: u64 = text(entry.value())
            .parse()
            .expect("the counter is a number");
        if random.below(3) == 0 {
            tokio::task::yield_now().await;
        }
        let write = Write::put("/counter", (count + 1).to_string());
        let expecting = write.expecting(Expect::Revision(entry.modified()));
        match store.commit(vec![expecting]).await {
            Ok(_) => return,
            Err(Error::Conflict { .. }) => {}
            Err(other) => assert_eq!(other.to_string(), "", "not a conflict"),
        }
    }
}

async fn outlives(fixture: &dyn Fixture) {
    let store = fixture.store();
    for n in 0..20 {
        drop(store.commit(vec![Write::put(format!("/{n}"), "")]));
        drop(store.commit(vec![Write::put("/latest", n.to_string())]));
    }
    // Commits of one key keep the order in which they were handed over.
    put(&*store, "/latest", "last").await;
    assert_eq!(
        store.get(b"/latest").map(|entry| text(entry.value())),
        Some("last".to_owned()),
        "what was handed over last is what stays"
    );
    let all = async {
        while everything(&*store).len() < 21 {
            tokio::task::yield_now().await;
        }
    };
    super::within("writes whose answers nobody wanted", all).await;
}
