use super::*;
use crate::entry::{Draft, Op, Seal};

fn entry(op: Op, key: &str, value: &str, revision: u64) -> Entry {
    let revision = Revision(revision);
    Draft::new(op, key.as_bytes(), value.as_bytes(), None).seal(Seal {
        revision,
        created: revision,
        tag: 0,
        index: 0,
        count: 1,
    })
}

fn index(changes: &[(Op, &str, &str, u64)]) -> Index {
    let mut index = Index::new(Vec::new(), Revision(0));
    for (op, key, value, revision) in changes {
        index.apply(entry(*op, key, value, *revision), &[]);
    }
    index
}

fn read(index: &Index, range: KeyRange, at: u64) -> Result<Vec<(String, String)>, Error> {
    let mut reading = index.read(range, None, Some(Revision(at)))?;
    while index.step(&mut reading)? {}
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let pair = |entry: &Entry| (text(entry.key()), text(entry.value()));
    Ok(reading.finish().entries.iter().map(pair).collect())
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

#[test]
fn every_revision_of_the_window_can_be_read() {
    let index = index(&[
        (Op::Put, "a", "1", 1),
        (Op::Put, "b", "2", 2),
        (Op::Put, "a", "3", 3),
        (Op::Delete, "b", "", 4),
        (Op::Put, "b", "5", 5),
    ]);
    for (at, want) in [
        (0, pairs(&[])),
        (1, pairs(&[("a", "1")])),
        (2, pairs(&[("a", "1"), ("b", "2")])),
        (3, pairs(&[("a", "3"), ("b", "2")])),
        (4, pairs(&[("a", "3")])),
        (5, pairs(&[("a", "3"), ("b", "5")])),
    ] {
        assert_eq!(read(&index, KeyRange::all(), at).unwrap(), want, "at {at}");
    }
    assert_eq!(index.live(), 2);
    assert!(matches!(
        read(&index, KeyRange::all(), 6),
        Err(Error::FutureRevision { .. })
    ));
}

#[test]
fn trimming_keeps_what_the_floor_needs_and_nothing_else() {
    let mut index = index(&[
        (Op::Put, "a", "1", 1),
        (Op::Put, "a", "2", 2),
        (Op::Put, "a", "3", 3),
        (Op::Put, "gone", "4", 4),
        (Op::Delete, "gone", "", 5),
        (Op::Put, "a", "6", 6),
        (Op::Put, "again", "7", 7),
        (Op::Delete, "again", "", 8),
        (Op::Put, "again", "9", 9),
    ]);
    index.raise_floor(Revision(8));
    for key in ["a", "gone", "again"] {
        index.trim(key.as_bytes());
    }
    assert!(matches!(
        read(&index, KeyRange::all(), 7),
        Err(Error::Compacted { .. })
    ));
    assert_eq!(
        read(&index, KeyRange::all(), 8).unwrap(),
        pairs(&[("a", "6")])
    );
    assert_eq!(
        read(&index, KeyRange::all(), 9).unwrap(),
        pairs(&[("a", "6"), ("again", "9")])
    );
    assert!(
        index.older.is_empty(),
        "nothing is kept for older revisions: {:?}",
        index.older
    );
    assert_eq!(
        index.current.len(),
        2,
        "the deleted key has no slot any more"
    );
}

#[test]
fn the_state_at_the_floor_survives_a_later_change() {
    let mut index = index(&[
        (Op::Put, "a", "1", 1),
        (Op::Put, "a", "2", 2),
        (Op::Put, "a", "3", 3),
    ]);
    index.raise_floor(Revision(2));
    index.trim(b"a");
    assert_eq!(
        read(&index, KeyRange::all(), 2).unwrap(),
        pairs(&[("a", "2")])
    );
    assert_eq!(index.older.get(b"a".as_slice()).map(Vec::len), Some(1));
}

#[test]
fn a_limit_counts_what_lies_behind_it_while_that_is_cheap() {
    let count = SLOTS_PER_STEP as u64 * 2 + 10;
    let mut index = Index::new(Vec::new(), Revision(0));
    for n in 0..count {
        index.apply(entry(Op::Put, &format!("/k/{n:06}"), "", n + 1), &[]);
    }
    index.apply(entry(Op::Delete, "/k/000003", "", 5_000), &[]);
    let page = |index: &Index| {
        let mut reading = index.read(KeyRange::prefix("/k/"), Some(5), None).unwrap();
        while index.step(&mut reading).unwrap() {}
        reading.finish()
    };
    let few = page(&index);
    let keys: Vec<_> = few.entries.iter().map(Entry::key).collect();
    let want: [&[u8]; 5] = [
        b"/k/000000",
        b"/k/000001",
        b"/k/000002",
        b"/k/000004",
        b"/k/000005",
    ];
    assert_eq!(keys, want);
    assert_eq!((few.more, few.remaining), (true, Some(count - 1 - 5)));
    for n in count..count + 2 * COUNTED_MAX as u64 {
        index.apply(entry(Op::Put, &format!("/k/{n:06}"), "", 5_000 + n), &[]);
    }
    let many = page(&index);
    assert_eq!(
        (many.entries.len(), many.more, many.remaining),
        (5, true, None)
    );
}

/// Deleted keys are slots, but not entries: whether more follows must not be guessed from them.
#[test]
fn only_entries_behind_a_limit_are_more() {
    let mut index = index(&[(Op::Put, "/a", "1", 1)]);
    for n in 0..2 * COUNTED_MAX as u64 {
        index.apply(entry(Op::Put, &format!("/k/{n:06}"), "", 2 * n + 2), &[]);
        index.apply(entry(Op::Delete, &format!("/k/{n:06}"), "", 2 * n + 3), &[]);
    }
    let mut reading = index.read(KeyRange::all(), Some(1), None).unwrap();
    while index.step(&mut reading).unwrap() {}
    let range = reading.finish();
    assert_eq!(
        (range.entries.len(), range.more, range.remaining),
        (1, false, Some(0))
    );
}

#[test]
fn an_inverted_range_is_empty() {
    let index = index(&[(Op::Put, "b", "1", 1)]);
    let inverted = KeyRange {
        start: Key::from("z"),
        end: Some(Key::from("a")),
    };
    assert_eq!(read(&index, inverted, 1).unwrap(), pairs(&[]));
}

#[test]
fn a_reading_that_compaction_overtakes_is_refused() {
    let mut index = index(&[(Op::Put, "a", "1", 1)]);
    let mut reading = index.read(KeyRange::all(), None, None).unwrap();
    index.apply(entry(Op::Put, "a", "2", 2), &[]);
    index.raise_floor(Revision(2));
    assert!(matches!(
        index.step(&mut reading),
        Err(Error::Compacted { .. })
    ));
}

/// The terms of the trials: the words of a value.
fn words(_key: &[u8], value: &[u8], terms: &mut Vec<u64>) {
    let text = std::str::from_utf8(value).unwrap();
    terms.extend(text.split_whitespace().map(term));
}

/// So few that words share terms.
fn term(word: &str) -> u64 {
    word.bytes().map(u64::from).sum::<u64>() % 23
}

#[test]
fn what_holds_a_term_is_found_and_nothing_else_is_left_out() {
    let mut random = crate::conformance::Random::new(11);
    let mut revision = 0;
    let value = |random: &mut crate::conformance::Random| {
        let words = (0..random.below(4)).map(|_| format!("w{} ", random.below(30)));
        words.collect::<String>()
    };
    let base: Vec<_> = (0..200)
        .map(|n| {
            revision += 1;
            entry(
                Op::Put,
                &format!("/{}/{n:03}", n % 3),
                &value(&mut random),
                revision,
            )
        })
        .collect();
    let (mut index, _) = Index::of_history(base, Vec::new(), Revision(200), Some(words));
    for _ in 0..3_000 {
        revision += 1;
        let n = random.below(220);
        let key = format!("/{}/{n:03}", n % 3);
        let op = if random.below(4) == 0 && index.get(key.as_bytes()).is_some() {
            Op::Delete
        } else {
            Op::Put
        };
        let state = entry(op, &key, &value(&mut random), revision);
        let terms = Index::terms(Some(words), &state);
        index.apply(state, &terms);
        if random.below(5) == 0 {
            index.raise_floor(Revision(revision));
            index.trim(key.as_bytes());
        }
        let (a, b, c) = (random.below(30), random.below(30), random.below(30));
        let holding = vec![
            vec![term(&format!("w{a}")), term(&format!("w{b}"))],
            vec![term(&format!("w{c}"))],
        ];
        let holds = |entry: &&Entry| {
            let mut terms = Vec::new();
            words(entry.key(), entry.value(), &mut terms);
            let mut any_of = holding.iter();
            any_of.all(|any_of| any_of.iter().any(|term| terms.contains(term)))
        };
        let range = KeyRange::prefix(format!("/{}/", random.below(3)));
        let query = RangeQuery {
            holding: holding.clone(),
            ..RangeQuery::of(range.clone())
        };
        let found = index
            .held(&query)
            .unwrap()
            .expect("few hold it")
            .finish(None);
        let got: Vec<_> = found.entries.iter().filter(holds).cloned().collect();
        let mut reading = index.read(range, None, None).unwrap();
        while index.step(&mut reading).unwrap() {}
        let walked = reading.finish().entries;
        let want: Vec<_> = walked.iter().filter(holds).cloned().collect();
        assert_eq!(got, want, "at {revision}");
        assert!(found.entries.is_sorted_by(|a, b| a.key() < b.key()));
    }
}

#[test]
fn terms_are_known_of_the_newest_states_alone() {
    let base = vec![entry(Op::Put, "/a", "red", 1)];
    let (mut index, _) = Index::of_history(base, Vec::new(), Revision(1), Some(words));
    let held = |index: &Index, word: &str, at: Option<Revision>| {
        let query = RangeQuery {
            holding: vec![vec![term(word)]],
            at,
            ..RangeQuery::of(KeyRange::all())
        };
        let held = index.held(&query).unwrap();
        held.map(|held| held.finish(Some(1)).entries.len())
    };
    assert_eq!(held(&index, "red", None), Some(1));
    let blue = entry(Op::Put, "/a", "blue", 2);
    index.apply(blue.clone(), &Index::terms(Some(words), &blue));
    assert_eq!(held(&index, "red", None), Some(0));
    assert_eq!(held(&index, "blue", Some(Revision(2))), Some(1));
    assert_eq!(
        held(&index, "red", Some(Revision(1))),
        None,
        "an older revision is walked"
    );
    let gone = entry(Op::Delete, "/a", "blue", 3);
    index.apply(gone.clone(), &Index::terms(Some(words), &gone));
    assert_eq!(held(&index, "blue", None), Some(0), "deleted");
}

#[test]
fn what_many_hold_is_walked() {
    let base = (0..2_000)
        .map(|n| entry(Op::Put, &format!("/{n:04}"), "common", n + 1))
        .collect();
    let (index, _) = Index::of_history(base, Vec::new(), Revision(2_000), Some(words));
    let query = RangeQuery {
        holding: vec![vec![term("common")]],
        ..RangeQuery::of(KeyRange::all())
    };
    assert!(index.held(&query).unwrap().is_none());
    let rare = RangeQuery {
        holding: vec![vec![term("common")], vec![term("rare")]],
        ..RangeQuery::of(KeyRange::all())
    };
    let found = index.held(&rare).unwrap().expect("the rarer set decides");
    assert!(found.finish(None).entries.is_empty());
}
