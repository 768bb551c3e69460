//! Where things are in etcd.
//!
//! ```text
//!   <prefix>/m/compact   the revision of the last compaction's round, and by its version whose turn it is
//!   <prefix>/m/last      the last states of what the latest deletion with last states deleted
//!   <prefix>/m/store     the store: its id and its epoch
//!   <prefix>/m/ticket/<process>/<number>   the mark of the latest write of a process
//!   <prefix>/r<key>      one key of the store
//! ```
//!
//! One watch, from `<prefix>/m` up to `<prefix>/s`, sees all of it in one order.

use crate::key::{Key, KeyRange};

const TICKET: &[u8] = b"/ticket/";

/// The keys of a store in an etcd.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    prefix: Vec<u8>,
}

/// What a key of etcd is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place<'a> {
    /// A key of the store.
    Record(&'a [u8]),
    /// The last states of what is deleted in the same revision.
    Last,
    /// The store itself.
    Store,
    /// The ticket of a process.
    Ticket,
    /// Nothing that readers see.
    Other,
}

// === impl Layout ===

impl Layout {
    /// A store below this prefix. A slash at its end says nothing.
    pub(crate) fn new(prefix: &str) -> Self {
        Self {
            prefix: prefix.trim_end_matches('/').as_bytes().to_vec(),
        }
    }

    /// Where a key of the store is.
    pub(crate) fn record(&self, key: &[u8]) -> Key {
        self.key(b"/r", key)
    }

    /// All keys of the store.
    pub(crate) fn records(&self) -> KeyRange {
        KeyRange::prefix(self.key(b"/r", b""))
    }

    /// Everything.
    pub(crate) fn all(&self) -> KeyRange {
        KeyRange {
            start: self.key(b"/m", b""),
            end: Some(self.key(b"/s", b"")),
        }
    }

    /// Where the store itself is.
    pub(crate) fn store(&self) -> Key {
        self.key(b"/m", b"/store")
    }

    /// Where last states are.
    pub(crate) fn last(&self) -> Key {
        self.key(b"/m", b"/last")
    }

    /// Where the compaction's rounds are.
    pub(crate) fn compact(&self) -> Key {
        self.key(b"/m", b"/compact")
    }

    /// All tickets.
    pub(crate) fn tickets(&self) -> KeyRange {
        KeyRange::prefix(self.key(b"/m", TICKET))
    }

    /// All tickets of a process.
    pub(crate) fn tickets_of(&self, process: &str) -> KeyRange {
        let rest = [TICKET, process.as_bytes(), b"/"].concat();
        KeyRange::prefix(self.key(b"/m", &rest))
    }

    /// A ticket of a process.
    pub(crate) fn ticket(&self, process: &str, number: u64) -> Key {
        let rest = [TICKET, process.as_bytes(), b"/"].concat();
        let number = number.to_string();
        self.key(b"/m", &[&rest, number.as_bytes()].concat())
    }

    /// What a key of etcd is for.
    pub(crate) fn place<'a>(&self, key: &'a [u8]) -> Place<'a> {
        let Some(rest) = key.strip_prefix(self.prefix.as_slice()) else {
            return Place::Other;
        };
        match rest {
            b"/m/store" => Place::Store,
            b"/m/last" => Place::Last,
            [b'/', b'r', key @ ..] => Place::Record(key),
            [b'/', b'm', rest @ ..] if rest.starts_with(TICKET) => Place::Ticket,
            _ => Place::Other,
        }
    }

    fn key(&self, kind: &[u8], rest: &[u8]) -> Key {
        Key::from([&self.prefix, kind, rest].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_told_from_its_key() {
        let layout = Layout::new("/hub/");
        for (name, key, want) in [
            ("a record", layout.record(b"/a"), Place::Record(b"/a")),
            ("the empty key", layout.record(b""), Place::Record(b"")),
            ("last states", layout.last(), Place::Last),
            ("the store", layout.store(), Place::Store),
            ("compaction", layout.compact(), Place::Other),
            ("a ticket", layout.ticket("p", 7), Place::Ticket),
            (
                "another store's",
                Layout::new("/hub2").store(),
                Place::Other,
            ),
        ] {
            assert_eq!(layout.place(&key), want, "{name}");
            let ours = name != "another store's";
            assert_eq!(layout.all().contains(&key), ours, "{name}");
            let record = matches!(want, Place::Record(_));
            assert_eq!(layout.records().contains(&key), record, "{name}");
            let ticket = want == Place::Ticket;
            assert_eq!(layout.tickets().contains(&key), ticket, "{name}");
            assert_eq!(layout.tickets_of("p").contains(&key), ticket, "{name}");
            assert!(!layout.tickets_of("pp").contains(&key), "{name}");
        }
    }
}
