use super::super::super::{Random, Recorder};
use super::*;

/// Texts are numbered in the order of their first use, so the test makes them through a log.
fn text(log: &Recorder, value: &str) -> Text {
    log.with_text(value)
}

type Line = (u64, Option<u64>, &'static str);

/// `w a 3`: put a at revision 3; `w a ?`: put a, no answer; `d 3`, `d ?`: delete; `r a 3`, `r -`:
/// read; `c a 3`: create; `c! `: refused create; `d!`: refused delete; `u 3 b 4`: put b at 4 if the
/// state is of 3; `u! 3`: refused.
fn operations(recorder: &Recorder, lines: &[Line]) -> Vec<Operation> {
    let revision = |text: &str| text.parse().ok().map(Revision);
    let one = |(begin, end, line): &Line| {
        let words: Vec<_> = line.split(' ').collect();
        let put = |value: &str, expect, at: &str| Deed::Put {
            value: text(recorder, value),
            expect,
            revision: revision(at),
        };
        let expect = |at: &str| Expect::Revision(revision(at).unwrap());
        let deed = match words[..] {
            ["w", value, at] => put(value, Expect::Any, at),
            ["c", value, at] => put(value, Expect::Absent, at),
            ["u", was, value, at] => put(value, expect(was), at),
            ["d", at] => Deed::Delete {
                expect: Expect::Any,
                revision: revision(at),
            },
            ["r", "-"] => Deed::Read(None),
            ["r", value, at] => Deed::Read(Some((text(recorder, value), revision(at).unwrap()))),
            ["c!"] => Deed::Refused {
                expect: Expect::Absent,
                deletion: false,
            },
            ["d!"] => Deed::Refused {
                expect: Expect::Any,
                deletion: true,
            },
            ["u!", was] => Deed::Refused {
                expect: expect(was),
                deletion: false,
            },
            _ => unreachable!("{line}"),
        };
        Operation {
            begin: *begin,
            end: *end,
            certain: !line.ends_with('?'),
            deed,
        }
    };
    lines.iter().map(one).collect()
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn histories_are_told_apart() {
    let cases: &[(&str, &[Line], bool)] = &[
        ("nothing", &[], true),
        (
            "one after the other",
            &[(1, Some(2), "w a 1"), (3, Some(4), "r a 1")],
            true,
        ),
        (
            "a stale read",
            &[
                (1, Some(2), "w a 1"),
                (3, Some(4), "w b 2"),
                (5, Some(6), "r a 1"),
            ],
            false,
        ),
        (
            "a read that overlaps the write sees either",
            &[
                (1, Some(2), "w a 1"),
                (3, Some(8), "w b 2"),
                (4, Some(5), "r a 1"),
                (6, Some(7), "r b 2"),
            ],
            true,
        ),
        (
            "two reads that overlap the write and go back",
            &[
                (1, Some(2), "w a 1"),
                (3, Some(8), "w b 2"),
                (4, Some(5), "r b 2"),
                (6, Some(7), "r a 1"),
            ],
            false,
        ),
        (
            "a lost write",
            &[(1, Some(2), "w a 1"), (3, Some(4), "r -")],
            false,
        ),
        ("a write from nowhere", &[(1, Some(2), "r a 1")], false),
        (
            "revisions against the order of time",
            &[(1, Some(2), "w a 5"), (3, Some(4), "w b 4")],
            false,
        ),
        (
            "revisions order what overlaps",
            &[
                (1, Some(9), "w a 5"),
                (2, Some(8), "w b 4"),
                (10, Some(11), "r a 5"),
            ],
            true,
        ),
        (
            "and exclude the other order",
            &[
                (1, Some(9), "w a 5"),
                (2, Some(8), "w b 4"),
                (10, Some(11), "r b 4"),
            ],
            false,
        ),
        (
            "a revision that is given twice",
            &[(1, Some(2), "w a 5"), (3, Some(4), "w b 5")],
            false,
        ),
        (
            "a write without answer that happened",
            &[
                (1, None, "w a ?"),
                (2, Some(3), "r -"),
                (4, Some(5), "r a 7"),
            ],
            true,
        ),
        (
            "a write without answer that did not",
            &[(1, None, "w a ?"), (2, Some(3), "r -"), (4, Some(5), "r -")],
            true,
        ),
        (
            "one that came and went",
            &[
                (1, None, "w a ?"),
                (2, Some(3), "r a 7"),
                (4, Some(5), "r -"),
            ],
            false,
        ),
        (
            "a delete without answer explains the absence",
            &[
                (1, Some(2), "w a 1"),
                (3, None, "d ?"),
                (4, Some(5), "r a 1"),
                (6, Some(7), "r -"),
            ],
            true,
        ),
        (
            "it happens before the death or never",
            &[
                (1, Some(2), "w a 1"),
                (3, Some(4), "d ?"),
                (5, Some(6), "r a 1"),
                (7, Some(8), "r -"),
            ],
            false,
        ),
        (
            "one delete deletes once",
            &[
                (1, Some(2), "w a 1"),
                (3, Some(4), "d 2"),
                (5, Some(6), "d 3"),
            ],
            false,
        ),
        (
            "a refused delete of what is not there",
            &[(1, Some(2), "d!"), (3, Some(4), "w a 1")],
            true,
        ),
        (
            "a refused delete of what is there",
            &[(1, Some(2), "w a 1"), (3, Some(4), "d!")],
            false,
        ),
        (
            "two creates of one key",
            &[(1, Some(2), "c a 1"), (3, Some(4), "c b 2")],
            false,
        ),
        (
            "a refused create",
            &[(1, Some(2), "c a 1"), (3, Some(4), "c!")],
            true,
        ),
        (
            "a refused create of what is absent",
            &[(1, Some(2), "c!"), (3, Some(4), "c a 1")],
            false,
        ),
        (
            "an update of the right revision",
            &[(1, Some(2), "w a 1"), (3, Some(4), "u 1 b 2")],
            true,
        ),
        (
            "a lost update",
            &[
                (1, Some(2), "w a 1"),
                (3, Some(9), "u 1 b 2"),
                (3, Some(9), "u 1 c 3"),
            ],
            false,
        ),
        (
            "one of two updates is refused",
            &[
                (1, Some(2), "w a 1"),
                (3, Some(9), "u 1 b 2"),
                (3, Some(9), "u! 1"),
            ],
            true,
        ),
        (
            "a refused update that should have been taken",
            &[(1, Some(2), "w a 1"), (3, Some(4), "u! 1")],
            false,
        ),
    ];
    for (name, lines, legal) in cases {
        let recorder = Recorder::default();
        let operations = operations(&recorder, lines);
        let result = linearize(State::default(), &operations);
        assert_eq!(result.is_ok(), *legal, "{name}: {result:?}");
    }
}

#[test]
fn the_call_that_cannot_be_placed_is_named() {
    let recorder = Recorder::default();
    let lines = [
        (1, Some(2), "w a 1"),
        (3, Some(4), "w b 2"),
        (5, Some(6), "r a 1"),
        (7, Some(8), "w c 3"),
    ];
    let result = linearize(State::default(), &operations(&recorder, &lines));
    assert_eq!(result, Err(Stuck::At(2)));
}

/// A register that is right by construction, and its history after one answer was changed.
fn random_history(seed: u64, texts: &[Text]) -> Vec<Operation> {
    let mut random = Random::new(seed);
    let mut state = State::default();
    let mut done = Vec::new();
    for n in 0..texts.len() as u64 {
        // Each call takes effect at 10 n; begin and end lie around it and overlap with others.
        let (at, slack) = (1000 + 10 * n, random.below(40) as u64);
        let deed = match random.below(3) {
            0 => Deed::Read(state.value.zip(state.written)),
            1 if state.value.is_some() => Deed::Delete {
                expect: Expect::Any,
                revision: Some(Revision(n + 1)),
            },
            _ => Deed::Put {
                value: texts[usize::try_from(n).unwrap()],
                expect: Expect::Any,
                revision: Some(Revision(n + 1)),
            },
        };
        state = step(state, deed).unwrap();
        // A put without an answer is known from those who read it; a delete is known to nobody, and
        // happened before the store died or never.
        let answered = random.below(12) > 0 || matches!(deed, Deed::Read(_));
        let death = (at + slack).next_multiple_of(500);
        let (end, certain, deed) = match deed {
            Deed::Delete { expect, .. } if !answered => {
                let revision = None;
                (Some(death), false, Deed::Delete { expect, revision })
            }
            deed => (Some(if answered { at + slack } else { death }), true, deed),
        };
        done.push(Operation {
            begin: at - slack,
            end,
            certain,
            deed,
        });
    }
    done
}

#[test]
fn random_registers_are_legal_and_their_stale_reads_are_not() {
    let recorder = Recorder::default();
    let texts: Vec<_> = (0..400).map(|n| text(&recorder, &n.to_string())).collect();
    let mut spoilt = 0;
    for seed in 0..40 {
        let mut history = random_history(seed, &texts);
        assert_eq!(linearize(State::default(), &history), Ok(()), "seed {seed}");
        let read = |op: &Operation| match op.deed {
            Deed::Read(Some((_, revision))) => Some(revision),
            _ => None,
        };
        // The last read answers with what the first one saw, some hundred writes ago.
        let first = history.iter().find_map(|op| read(op).map(|_| op.deed));
        let last = history.iter_mut().rfind(|op| read(op).is_some()).unwrap();
        last.deed = first.unwrap();
        assert!(
            linearize(State::default(), &history).is_err(),
            "seed {seed}"
        );
        spoilt += 1;
    }
    assert_eq!(spoilt, 40);
}

/// The story: calls without answers multiply the orders; a history with forty of them, half of them
/// seen later, never came to an end.
#[test]
fn many_calls_without_answers_stay_cheap() {
    let recorder = Recorder::default();
    let mut history = Vec::new();
    for n in 0..40_u64 {
        let value = text(&recorder, &n.to_string());
        let revision = (n % 2 == 0).then_some(Revision(n + 1));
        let expect = Expect::Any;
        history.push(Operation {
            begin: n,
            end: None,
            certain: revision.is_some(),
            deed: Deed::Put {
                value,
                expect,
                revision,
            },
        });
        if let Some(revision) = revision {
            history.push(Operation {
                begin: 1000 + n,
                end: Some(1000 + n),
                certain: true,
                deed: Deed::Read(Some((value, revision))),
            });
        }
    }
    assert_eq!(linearize(State::default(), &history), Ok(()));
    let last = history
        .iter_mut()
        .rfind(|call| matches!(call.deed, Deed::Read(_)));
    last.unwrap().deed = Deed::Read(None);
    assert!(
        linearize(State::default(), &history).is_err(),
        "nothing has deleted it"
    );
}

/// A write that nobody saw is needed to explain an answer, and found.
#[test]
fn a_call_without_answer_explains_what_it_must() {
    let cases: &[(&str, &[Line], bool)] = &[
        (
            "a refused create",
            &[(1, None, "w a ?"), (2, Some(3), "c!")],
            true,
        ),
        (
            "behind a read that either state allows",
            &[
                (1, Some(2), "w a ?"),
                (3, Some(4), "u! 5"),
                (5, Some(6), "c!"),
            ],
            true,
        ),
        (
            "a delete",
            &[
                (1, Some(2), "c a ?"),
                (3, Some(4), "d 7"),
                (5, Some(6), "r -"),
            ],
            true,
        ),
        (
            "but not two deletes",
            &[
                (1, Some(2), "c a ?"),
                (3, Some(4), "d 7"),
                (5, Some(6), "d 8"),
            ],
            false,
        ),
        (
            "one write and one delete without answers",
            &[
                (1, None, "w a ?"),
                (1, None, "d ?"),
                (2, Some(3), "c!"),
                (4, Some(5), "c b 9"),
            ],
            true,
        ),
    ];
    for (name, lines, legal) in cases {
        let recorder = Recorder::default();
        let result = linearize(State::default(), &operations(&recorder, lines));
        assert_eq!(result.is_ok(), *legal, "{name}: {result:?}");
    }
}
