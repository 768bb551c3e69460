//! Whether the etcd that answers is the one that was served, or was set back to the past. Pure.
//!
//! ```text
//!   what was served:   1 ....... 70 ....... 100 (seen, with a witness)
//!   a restored etcd:   1 ....... 70 . 71' . 72' . .
//! ```
//!
//! Three things show it: the latest revision lies before what was seen; what was written at the witness's revision
//! is not the witness; the identity is an earlier one, or another one of the same epoch.
//! An etcd that was restored so long ago that the witness is compacted has nothing below its
//! compaction, so every watch of the old line is refused there too.

use super::identity::Identity;

/// What a replica has seen of its store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) identity: Identity,
    /// The latest revision of etcd that was seen.
    pub(crate) seen: i64,
    pub(crate) witness: Option<Witness>,
}

/// A write that was seen, by which its history can be recognised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Witness {
    pub(crate) key: Vec<u8>,
    pub(crate) revision: i64,
    pub(crate) checksum: u32,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// There is no store yet: make one.
    Create,
    /// Load what is there; another replica, or an earlier life of this one, made it so.
    Load,
    /// Go on after what was seen.
    Resume,
    /// History was set back: begin this epoch, and load.
    Raise(u64),
    /// There is another store, or none, where there was one: touch nothing.
    Gone,
}

/// Judges what was found against what is known.
pub(crate) fn judge(
    known: Option<&Known>,
    found: Option<&Identity>,
    latest: i64,
    witness_holds: bool,
) -> Verdict {
    let (known, found) = match (known, found) {
        (None, None) => return Verdict::Create,
        (None, Some(_)) => return Verdict::Load,
        (Some(_), None) => return Verdict::Gone,
        (Some(known), Some(found)) => (known, found),
    };
    if found.id != known.identity.id {
        return Verdict::Gone;
    }
    if found.epoch > known.identity.epoch {
        return Verdict::Load;
    }
    if *found != known.identity || latest < known.seen || !witness_holds {
        return Verdict::Raise(known.identity.epoch.saturating_add(1));
    }
    Verdict::Resume
}

// === impl Witness ===

impl Witness {
    pub(crate) fn of(key: &[u8], revision: i64, value: &[u8]) -> Self {
        Self {
            key: key.to_vec(),
            revision,
            checksum: crc32fast::hash(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of identities: the first, the same epoch begun again, the next epoch, another store.
    fn identities() -> [Identity; 4] {
        let first = Identity::new();
        let again = first.in_epoch(100).unwrap();
        let next = first.in_epoch(101).unwrap();
        [first, again, next, Identity::new()]
    }

    #[test]
    fn history_that_was_set_back_is_noticed() {
        use Verdict::{Create, Gone, Load, Raise, Resume};
        let identities = identities();
        let [first, again, next, other] = [Some(0), Some(1), Some(2), Some(3)];
        for (name, known, found, latest, witness, want) in [
            ("a new etcd", None, None, 1, true, Create),
            ("a first look", None, first, 9, true, Load),
            ("the same", first, first, 100, true, Resume),
            ("further on", first, first, 110, true, Resume),
            ("set back", first, first, 99, true, Raise(101)),
            ("overtaken", first, first, 110, false, Raise(101)),
            ("raised elsewhere", first, next, 50, false, Load),
            ("an epoch back", next, first, 110, true, Raise(102)),
            ("another line", first, again, 110, true, Raise(101)),
            ("another store", first, other, 110, true, Gone),
            ("emptied", first, None, 110, true, Gone),
        ] {
            let known = known.map(|at: usize| Known {
                identity: identities[at].clone(),
                seen: 100,
                witness: None,
            });
            let found = found.map(|at: usize| &identities[at]);
            assert_eq!(
                judge(known.as_ref(), found, latest, witness),
                want,
                "{name}"
            );
        }
    }
}
