//! Right histories pass, and each broken promise is found under its own name.

use super::*;
use storage::{EventKind, Expect};

type Play = fn(&Recorder);

fn write(recorder: &Recorder, key: &str, value: Option<&str>, revision: u64) {
    let call = recorder.write(key, value);
    recorder.written(call, Revision(revision));
}

/// a=1@1, b=1@2, a=2@3, a deleted @4, and a watch of everything that tells it so.
fn story(recorder: &Recorder) {
    write(recorder, "a", Some("a1"), 1);
    write(recorder, "b", Some("b1"), 2);
    write(recorder, "a", Some("a2"), 3);
    write(recorder, "a", None, 4);
    let all = recorder.watch(Span::all(), Revision(0));
    for notice in told() {
        recorder.told(all, [notice]);
    }
}

fn told() -> [Notice<'static>; 4] {
    use EventKind::{Created, Deleted, Updated};
    let notice = |revision, key, value, kind, previous| Notice {
        revision: Revision(revision),
        key,
        value,
        kind: Some(kind),
        previous,
    };
    [
        notice(1, "a", Some("a1"), Created, None),
        notice(2, "b", Some("b1"), Created, None),
        notice(3, "a", Some("a2"), Updated, Some("a1")),
        notice(4, "a", None, Deleted, Some("a2")),
    ]
}

/// A second watch of the story, after a revision, that delivers these events one by one.
fn watch(recorder: &Recorder, after: u64, events: &[usize]) -> Watching {
    story(recorder);
    let watch = recorder.watch(Span::all(), Revision(after));
    for event in events {
        recorder.told(watch, [told()[*event]]);
    }
    watch
}

fn play_watch(recorder: &Recorder, after: u64, events: &[usize]) {
    watch(recorder, after, events);
}

fn list(recorder: &Recorder, at: Option<u64>, revision: u64, entries: &[(&str, &str, u64)]) {
    let call = recorder.list(at.map(Revision));
    let entries = entries
        .iter()
        .map(|(key, value, at)| (*key, *value, Revision(*at)));
    recorder.listed(call, Revision(revision), Span::all(), entries);
}

fn wish(key: &str, value: Option<&str>) -> Wish {
    Wish {
        key: key.to_owned(),
        value: value.map(str::to_owned),
        expect: Expect::Any,
    }
}

#[test]
fn right_histories_pass() {
    let cases: &[(&str, Play)] = &[
        ("the story", story),
        ("a watch from the middle", |r| play_watch(r, 2, &[2, 3])),
        ("a watch that ends early", |r| play_watch(r, 0, &[0, 1])),
        ("a watch of one key", |r| {
            story(r);
            let span = Span {
                start: "b".to_owned(),
                end: Some("c".to_owned()),
            };
            let watch = r.watch(span, Revision(0));
            r.told(watch, [told()[1]]);
            r.bookmark(watch, Revision(4));
        }),
        ("bookmarks between events", |r| {
            story(r);
            let watch = r.watch(Span::all(), Revision(1));
            r.bookmark(watch, Revision(1));
            r.told(watch, told()[1..3].iter().copied());
            r.bookmark(watch, Revision(3));
            r.told(watch, [told()[3]]);
            r.bookmark(watch, Revision(9));
        }),
        ("lists of the present and the past", |r| {
            story(r);
            list(r, Some(2), 2, &[("a", "a1", 1), ("b", "b1", 2)]);
            list(r, None, 7, &[("b", "b1", 2)]);
        }),
        ("a batch, whole", |r| {
            let call = r.batch(&[wish("a", Some("1")), wish("b", Some("2"))]);
            r.written(call, Revision(1));
            let watch = r.watch(Span::all(), Revision(0));
            let notice = |key, value| Notice {
                key,
                value: Some(value),
                kind: None,
                ..told()[0]
            };
            r.told(watch, [notice("b", "2"), notice("a", "1")]);
        }),
        ("writes without answers, one of them seen", |r| {
            r.write("a", Some("lost"));
            r.write("a", Some("kept"));
            r.death();
            list(r, None, 5, &[("a", "kept", 5)]);
        }),
        ("something was there before", |r| {
            r.base([("z", "old", Revision(3))]);
            list(r, None, 3, &[("z", "old", 3)]);
            write(r, "z", None, 4);
            list(r, None, 4, &[]);
        }),
    ];
    for (name, play) in cases {
        let recorder = Recorder::default();
        play(&recorder);
        let result = check(&recorder);
        assert!(result.is_ok(), "{name}: {result:?}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn each_broken_promise_is_found_under_its_name() {
    let cases: &[(&str, Play, &str)] = &[
        (
            "events in the wrong order",
            |r| play_watch(r, 0, &[0, 2, 1]),
            "watches are ordered",
        ),
        (
            "an event twice",
            |r| play_watch(r, 0, &[0, 1, 1]),
            "watches are unique",
        ),
        (
            "an old event again",
            |r| play_watch(r, 0, &[0, 1, 0]),
            "watches are unique",
        ),
        (
            "an event left out",
            |r| play_watch(r, 0, &[0, 2]),
            "watches are reliable",
        ),
        (
            "a resumed watch that begins too late",
            |r| play_watch(r, 1, &[2, 3]),
            "watches are resumable",
        ),
        (
            "a resumed watch that begins too early",
            |r| play_watch(r, 2, &[1, 2]),
            "watches are resumable",
        ),
        (
            "a bookmark before its events",
            |r| {
                let watch = watch(r, 0, &[0, 1]);
                r.bookmark(watch, Revision(4));
            },
            "watches are bookmarkable",
        ),
        (
            "a bookmark, and then an older event",
            |r| {
                let watch = watch(r, 0, &[0]);
                r.bookmark(watch, Revision(2));
                r.told(watch, [told()[1]]);
            },
            "watches are bookmarkable",
        ),
        (
            "a bookmark that goes back",
            |r| {
                let watch = watch(r, 0, &[0, 1]);
                r.bookmark(watch, Revision(1));
            },
            "watches are bookmarkable",
        ),
        (
            "a revision delivered in parts",
            |r| {
                let call = r.batch(&[wish("a", Some("1")), wish("b", Some("2"))]);
                r.written(call, Revision(1));
                let watch = r.watch(Span::all(), Revision(0));
                r.told(
                    watch,
                    [Notice {
                        key: "a",
                        value: Some("1"),
                        kind: None,
                        ..told()[0]
                    }],
                );
                r.told(
                    watch,
                    [Notice {
                        key: "b",
                        value: Some("2"),
                        kind: None,
                        ..told()[0]
                    }],
                );
            },
            "watches are atomic",
        ),
        (
            "half of a revision",
            |r| {
                let call = r.batch(&[wish("a", Some("1")), wish("b", Some("2"))]);
                r.written(call, Revision(1));
                let watch = r.watch(Span::all(), Revision(0));
                r.told(
                    watch,
                    [Notice {
                        key: "a",
                        value: Some("1"),
                        kind: None,
                        ..told()[0]
                    }],
                );
            },
            "watches are atomic",
        ),
        (
            "half of a revision, with a bookmark behind it",
            |r| {
                let call = r.batch(&[wish("a", Some("1")), wish("b", Some("2"))]);
                r.written(call, Revision(1));
                let watch = r.watch(Span::all(), Revision(0));
                r.told(
                    watch,
                    [Notice {
                        key: "a",
                        value: Some("1"),
                        kind: None,
                        ..told()[0]
                    }],
                );
                r.bookmark(watch, Revision(1));
                let call = r.batch(&[wish("a", Some("3"))]);
                r.written(call, Revision(2));
                r.told(
                    watch,
                    [Notice {
                        revision: Revision(2),
                        key: "a",
                        value: Some("3"),
                        kind: None,
                        ..told()[0]
                    }],
                );
            },
            "watches are atomic",
        ),
        (
            "a wrong kind of event",
            |r| {
                story(r);
                let watch = r.watch(Span::all(), Revision(2));
                r.told(
                    watch,
                    [Notice {
                        kind: Some(EventKind::Created),
                        ..told()[2]
                    }],
                );
            },
            "events are true",
        ),
        (
            "a wrong state before",
            |r| {
                story(r);
                let watch = r.watch(Span::all(), Revision(2));
                r.told(
                    watch,
                    [Notice {
                        previous: Some("b1"),
                        ..told()[2]
                    }],
                );
            },
            "events are true",
        ),
        (
            "an acknowledged write that is lost",
            |r| {
                story(r);
                write(r, "b", Some("lost"), 5);
                write(r, "c", Some("c1"), 6);
                let watch = r.watch(Span::all(), Revision(4));
                r.told(
                    watch,
                    [Notice {
                        revision: Revision(6),
                        key: "c",
                        value: Some("c1"),
                        kind: None,
                        previous: None,
                    }],
                );
            },
            "watches are resumable",
        ),
        (
            "an acknowledged write that no list has",
            |r| {
                story(r);
                write(r, "b", Some("lost"), 5);
                list(r, None, 5, &[("b", "b1", 2)]);
            },
            "a list is one state",
        ),
        (
            "a revision given twice",
            |r| {
                story(r);
                let (first, second) = (r.write("c", Some("c1")), r.write("d", Some("d1")));
                r.written(first, Revision(5));
                r.written(second, Revision(5));
            },
            "one order of revisions",
        ),
        (
            "a revision that goes back",
            |r| {
                story(r);
                write(r, "c", Some("c1"), 6);
                write(r, "d", Some("d1"), 5);
            },
            "one order of revisions",
        ),
        (
            "two truths",
            |r| {
                story(r);
                let call = r.read("b");
                r.seen(call, Some(("other".to_owned(), Revision(2))));
            },
            "one order of revisions",
        ),
        (
            "a stale list",
            |r| {
                story(r);
                list(r, None, 3, &[("a", "a2", 3), ("b", "b1", 2)]);
            },
            "reads are fresh",
        ),
        (
            "a list of two states",
            |r| {
                story(r);
                list(r, None, 4, &[("a", "a2", 3), ("b", "b1", 2)]);
            },
            "a list is one state",
        ),
        (
            "a page of another revision",
            |r| {
                story(r);
                list(r, Some(3), 4, &[("b", "b1", 2)]);
            },
            "a list is one state",
        ),
        (
            "a stale read",
            |r| {
                story(r);
                write(r, "b", Some("b2"), 5);
                let call = r.read("b");
                r.seen(call, Some(("b1".to_owned(), Revision(2))));
            },
            "calls on a key are linearizable",
        ),
        (
            "a read that misses a key",
            |r| {
                story(r);
                let call = r.read("b");
                r.seen(call, None);
            },
            "calls on a key are linearizable",
        ),
        (
            "a refused write that happened",
            |r| {
                let call = r.write("b", Some("refused"));
                r.nothing(call);
                list(r, None, 9, &[("b", "refused", 9)]);
            },
            "nothing is invented",
        ),
        (
            "a write of nobody",
            |r| list(r, None, 9, &[("b", "what", 9)]),
            "nothing is invented",
        ),
        (
            "a deletion of nobody",
            |r| {
                story(r);
                let watch = r.watch(Span::all(), Revision(4));
                r.told(
                    watch,
                    [Notice {
                        revision: Revision(5),
                        key: "b",
                        value: None,
                        kind: None,
                        previous: None,
                    }],
                );
            },
            "nothing is invented",
        ),
        (
            "half a batch",
            |r| {
                r.batch(&[wish("a", Some("1")), wish("b", Some("2"))]);
                list(r, None, 1, &[("a", "1", 1)]);
            },
            "a batch is all or nothing",
        ),
        (
            "a write from before a death that comes late",
            |r| {
                r.write("a", Some("late"));
                r.death();
                let call = r.read("a");
                r.seen(call, None);
                let call = r.read("a");
                r.seen(call, Some(("late".to_owned(), Revision(1))));
            },
            "calls on a key are linearizable",
        ),
    ];
    for (name, play, promise) in cases {
        let recorder = Recorder::default();
        play(&recorder);
        let result = check(&recorder).map_err(|violation| violation.promise);
        assert_eq!(
            result.map(drop),
            Err(*promise),
            "{name}: {:?}",
            check(&recorder)
        );
    }
}

#[test]
fn the_watch_of_everything_may_be_given_apart() {
    let told: Vec<Told> = vec![(Revision(1), "k".to_owned(), Some("a".to_owned()))];
    let recorder = Recorder::default();
    write(&recorder, "k", Some("a"), 1);
    assert_eq!(check_history(&recorder, &told), Ok(()));
    let recorder = Recorder::default();
    write(&recorder, "k", Some("b"), 1);
    assert!(check_history(&recorder, &told).is_err(), "another value");
}
