//! What this replica has seen of its store, in a small file beside it: so that an etcd that was set
//! back while the replica was down is noticed when it comes up.
//!
//! The file is a help, not a truth: without it the store is served as etcd has it. It is written
//! anew and renamed, so it is never torn, and it may be a second behind.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;

use super::identity::Identity;
use super::lineage::{Known, Witness};

const MAGIC: &str = "wheelhouse-etcd-seen 1\n";

/// The file.
#[derive(Debug)]
pub(crate) struct Memory {
    path: Option<PathBuf>,
    written: Option<Known>,
}

// === impl Memory ===

impl Memory {
    /// A memory in this file, or none.
    pub(crate) fn new(path: Option<PathBuf>) -> Self {
        Self {
            path,
            written: None,
        }
    }

    /// What was seen by an earlier life.
    pub(crate) fn read(&mut self) -> Option<Known> {
        let path = self.path.as_ref()?;
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::warn!(error = %error, file = %path.display(), "cannot read the record of the last seen state of etcd");
                return None;
            }
        };
        let known = decode(&text);
        if known.is_none() {
            tracing::warn!(file = %path.display(), "ignoring a malformed record of the last seen state of etcd");
        }
        self.written.clone_from(&known);
        known
    }

    /// Keeps what was seen.
    pub(crate) fn keep(&mut self, known: Option<Known>) {
        let (Some(path), Some(known)) = (&self.path, known) else {
            return;
        };
        if self.written.as_ref() == Some(&known) {
            return;
        }
        let write = || {
            let beside = path.with_extension("new");
            let mut file = fs::File::create(&beside)?;
            file.write_all(encode(&known).as_bytes())?;
            file.sync_data()?;
            fs::rename(&beside, path)
        };
        match write() {
            Ok(()) => self.written = Some(known),
            Err(error) => {
                tracing::warn!(error = %error, file = %path.display(), "cannot write the record of the last seen state of etcd");
            }
        }
    }
}

pub(super) fn encode(known: &Known) -> String {
    let mut text = format!("{MAGIC}seen {}\n", known.seen);
    if let Some(witness) = &known.witness {
        let Witness {
            revision, checksum, ..
        } = witness;
        // Writing to a string cannot fail.
        let _infallible = write!(text, "witness {revision} {checksum} ");
        for byte in &witness.key {
            let _infallible = write!(text, "{byte:02x}");
        }
        text.push('\n');
    }
    text.push_str("identity\n");
    text.push_str(&known.identity.encode());
    text
}

pub(super) fn decode(text: &str) -> Option<Known> {
    let (head, identity) = text.strip_prefix(MAGIC)?.split_once("identity\n")?;
    let mut lines = head.lines();
    let seen = lines.next()?.strip_prefix("seen ")?.parse().ok()?;
    let witness = match lines.next() {
        None => None,
        Some(line) => {
            let mut words = line.strip_prefix("witness ")?.split(' ');
            let revision = words.next()?.parse().ok()?;
            let checksum = words.next()?.parse().ok()?;
            let digits = words.next()?.as_bytes();
            let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
            let key = digits.chunks(2).map(byte).collect::<Option<_>>()?;
            Some(Witness {
                key,
                revision,
                checksum,
            })
        }
    };
    let identity = Identity::decode(identity.as_bytes()).ok()?;
    Some(Known {
        identity,
        seen,
        witness,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_is_remembered() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("seen");
        let mut known = Known {
            identity: Identity::new(),
            seen: 41,
            witness: None,
        };
        for witness in [None, Some(Witness::of(b"/w/r/a\xff b", 40, b"value"))] {
            known.witness = witness;
            Memory::new(Some(path.clone())).keep(Some(known.clone()));
            assert_eq!(Memory::new(Some(path.clone())).read(), Some(known.clone()));
        }
        fs::write(&path, "something else").unwrap();
        assert_eq!(Memory::new(Some(path)).read(), None);
        assert_eq!(Memory::new(None).read(), None);
    }
}
