use super::*;
use crate::etcd::wire::ResponseHeader;
use crate::revision::Revision;

const FENCE: Fence = Fence {
    epoch: 100,
    written: 2,
};

fn assembler(seen: i64) -> Assembler {
    Assembler::new(Layout::new("/w"), None, FENCE, seen)
}

fn envelope(value: &str) -> Vec<u8> {
    let envelope = Envelope {
        tag: 7,
        stamp: None,
        value: value.as_bytes().into(),
    };
    envelope.encode(b"", None).unwrap()
}

fn change(key: &[u8], revision: i64, value: Option<Vec<u8>>) -> Event {
    let kind = match value {
        Some(_) => event::Type::Put,
        None => event::Type::Delete,
    };
    Event {
        r#type: kind.into(),
        kv: Some(KeyValue {
            key: key.to_vec().into(),
            mod_revision: revision,
            create_revision: revision,
            value: value.unwrap_or_default().into(),
            version: 1,
        }),
    }
}

fn put(key: &str, revision: i64, value: &str) -> Event {
    change(
        format!("/w/r{key}").as_bytes(),
        revision,
        Some(envelope(value)),
    )
}

fn delete(key: &str, revision: i64) -> Event {
    change(format!("/w/r{key}").as_bytes(), revision, None)
}

fn told(revision: i64, events: Vec<Event>) -> WatchResponse {
    WatchResponse {
        header: Some(ResponseHeader {
            revision,
            ..ResponseHeader::default()
        }),
        events,
        ..WatchResponse::default()
    }
}

fn facts(step: &Step) -> Vec<(u64, u32, u32, String, bool)> {
    let fact = |entry: &Entry| {
        (
            entry.modified().number(),
            entry.index(),
            entry.count(),
            String::from_utf8_lossy(entry.value()).into_owned(),
            entry.is_deletion(),
        )
    };
    step.entries.iter().map(fact).collect()
}

#[test]
fn a_revision_is_whole_with_its_last_states() {
    let last = encode(&[(b"/a", envelope("last"))]);
    let events = vec![
        put("/a", 5, "1"),
        put("/b", 5, "2"),
        delete("/a", 6),
        change(b"/w/m/last", 6, Some(last)),
        delete("/never", 7),
        delete("/b", 8),
    ];
    let mut assembler = assembler(4);
    let step = assembler.take(told(9, events), |_| None).unwrap();
    let want = [
        (5, 0, 2, "1".to_owned(), false),
        (5, 1, 2, "2".to_owned(), false),
        (6, 0, 1, "last".to_owned(), true),
        (8, 0, 1, String::new(), true),
    ];
    assert_eq!(facts(&step), want);
    assert_eq!((step.reached, assembler.seen()), (Some(8), 8));
    let deletion = &step.entries[2];
    assert_eq!(deletion.tag(), 7, "the tag of the state before");
    assert_eq!(deletion.created(), FENCE.revision(5));
    assert_eq!(
        step.witness.unwrap().revision,
        6,
        "the latest that has a value"
    );
}

use super::super::envelope::encode_last as encode;

#[test]
fn parts_of_an_answer_are_put_together() {
    let mut assembler = assembler(4);
    let mut part = told(5, vec![put("/a", 5, "1")]);
    part.fragment = true;
    let step = assembler.take(part, |_| None).unwrap();
    assert!(
        step.entries.is_empty() && step.reached.is_none(),
        "{step:?}"
    );
    let rest = told(5, vec![put("/b", 5, "2")]);
    let step = assembler.take(rest, |_| None).unwrap();
    assert_eq!(facts(&step).len(), 2, "both at once");
}

#[test]
fn progress_goes_on_and_never_back() {
    let mut assembler = assembler(4);
    for (revision, want) in [(9, 9), (7, 9), (10, 10)] {
        let step = assembler.take(told(revision, vec![]), |_| None).unwrap();
        assert_eq!(step.reached, Some(want), "told {revision}");
    }
    let mut created = told(50, vec![]);
    created.created = true;
    assembler.take(created, |_| None).unwrap();
    assert_eq!(assembler.seen(), 10, "a beginning is no progress");
}

#[test]
fn what_cannot_be_is_a_failure() {
    let again = told(4, vec![put("/a", 4, "1")]);
    let back = told(6, vec![put("/a", 6, "1"), put("/a", 5, "1")]);
    let foreign = told(5, vec![change(b"/w/r/a", 5, Some(b"hello".to_vec()))]);
    let compacted = WatchResponse {
        canceled: true,
        compact_revision: 12,
        ..told(20, vec![])
    };
    let cut_off = WatchResponse {
        canceled: true,
        cancel_reason: "etcdserver: no leader".to_owned(),
        ..told(20, vec![])
    };
    for (response, want) in [
        (again, "told before"),
        (back, "told before"),
        (foreign, "is corrupt"),
        (compacted, "up to 12"),
        (cut_off, "no leader"),
    ] {
        let failure = assembler(4).take(response, |_| None).unwrap_err();
        assert!(failure.to_string().contains(want), "{failure}");
    }
}

#[test]
fn a_deletion_follows_on_what_was_published() {
    let mut assembler = assembler(4);
    let events = told(5, vec![put("/a", 5, "1")]);
    let state = assembler.take(events, |_| None).unwrap().entries;
    let step = assembler
        .take(told(6, vec![delete("/a", 6)]), |_| state.first().cloned())
        .unwrap();
    assert_eq!(step.entries[0].created(), Revision(1_000_000_000_000_005));
}
