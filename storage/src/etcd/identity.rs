//! Which store it is, and on which part of the number line: one small text in etcd.
//!
//! ```text
//!   wheelhouse-store 1
//!   id 8f14e45fceea167a5a36dedd4bea2543
//!   epoch 100
//!   change 1c9f3a70b2d84e55
//! ```
//!
//! A revision of the store is `epoch x 10^13 + revision of etcd`. An etcd that is restored has
//! revisions that were given before; so whoever notices raises the epoch, by a transaction that
//! only one can win. `change` makes two raises to the same epoch different.

use crate::revision::Revision;

const FORMAT: u32 = 1;
const MAGIC: &str = "wheelhouse-store";

/// What the text says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) id: String,
    pub(crate) epoch: u64,
    change: String,
}

/// Why a text is no identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotAnIdentity {
    /// A later version of this software wrote it.
    Newer(u32),
    /// It is something else.
    Malformed(&'static str),
}

// === impl Identity ===

impl Identity {
    /// The format that is known here.
    pub(crate) const FORMAT: u32 = FORMAT;

    /// A store that has not been before.
    pub(crate) fn new() -> Self {
        Self {
            id: format!("{:032x}", rand::random::<u128>()),
            epoch: Revision::EPOCH_FIRST,
            change: nonce(),
        }
    }

    /// The same store in another epoch; `None` behind the last one.
    pub(crate) fn in_epoch(&self, epoch: u64) -> Option<Self> {
        Revision::start_of_epoch(epoch)?;
        Some(Self {
            id: self.id.clone(),
            epoch,
            change: nonce(),
        })
    }

    /// The text.
    pub(crate) fn encode(&self) -> String {
        let Self { id, epoch, change } = self;
        format!("{MAGIC} {FORMAT}\nid {id}\nepoch {epoch}\nchange {change}\n")
    }

    /// Reads the text.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, NotAnIdentity> {
        let malformed = NotAnIdentity::Malformed;
        let text = std::str::from_utf8(bytes).map_err(|_invalid| malformed("it is not text"))?;
        let mut lines = text.lines();
        let mut field = |name| {
            let (found, value) = lines.next()?.split_once(' ')?;
            (found == name && !value.is_empty()).then_some(value)
        };
        let format = field(MAGIC).and_then(|format| format.parse().ok());
        match format.ok_or(malformed("it does not begin as a store does"))? {
            FORMAT => {}
            newer => return Err(NotAnIdentity::Newer(newer)),
        }
        let id = field("id").ok_or(malformed("it has no id"))?.to_owned();
        let epoch: Option<u64> = field("epoch").and_then(|epoch| epoch.parse().ok());
        let epoch = epoch
            .filter(|epoch| Revision::start_of_epoch(*epoch).is_some())
            .ok_or(malformed("it has no epoch of the number line"))?;
        let change = field("change").ok_or(malformed("it names no change"))?;
        Ok(Self {
            id,
            epoch,
            change: change.to_owned(),
        })
    }
}

fn nonce() -> String {
    format!("{:016x}", rand::random::<u64>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_reads_back() {
        let identity = Identity::new().in_epoch(117).unwrap();
        assert_eq!(Identity::decode(identity.encode().as_bytes()), Ok(identity));
    }

    #[test]
    fn what_is_no_identity_is_refused() {
        let malformed = NotAnIdentity::Malformed;
        for (name, text, want) in [
            ("empty", "", malformed("it does not begin as a store does")),
            ("newer", "wheelhouse-store 2\n", NotAnIdentity::Newer(2)),
            ("no id", "wheelhouse-store 1\n", malformed("it has no id")),
            (
                "an epoch of nowhere",
                "wheelhouse-store 1\nid a\nepoch 7\n",
                malformed("it has no epoch of the number line"),
            ),
        ] {
            assert_eq!(Identity::decode(text.as_bytes()), Err(want), "{name}");
        }
        assert_eq!(Identity::new().in_epoch(900), None, "behind the last");
    }
}
