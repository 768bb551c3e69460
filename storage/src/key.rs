//! Keys and ranges of keys. Order is the order of bytes.

use std::borrow::Borrow;
use std::fmt;
use std::ops::{Bound, Deref};

use bytes::Bytes;

/// The longest key. A Kubernetes key is at most 63 (group is 253) + 63 + 63 + 63 + 253 bytes and
/// its separators: below 800.
pub const KEY_BYTES_MAX: usize = 1024;

/// A key; clones share its bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Bytes);

/// The keys from `start` up to, and without, `end`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// The first key of the range.
    pub start: Key,
    /// The first key behind the range; `None` for no end.
    pub end: Option<Key>,
}

/// What a range turns out to be; decides how watchers of it are found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Shape<'a> {
    /// One key.
    Exact(&'a [u8]),
    /// Every key that begins so.
    Prefix(&'a [u8]),
    /// Anything else.
    Other,
}

// === impl Key ===

impl Key {
    /// A key of these bytes, without a copy.
    pub const fn from_static(bytes: &'static [u8]) -> Self {
        Self(Bytes::from_static(bytes))
    }

    /// A copy of these bytes.
    pub fn copy_of(bytes: &[u8]) -> Self {
        Self(Bytes::copy_from_slice(bytes))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The least key that is greater than this one.
    #[must_use]
    pub fn successor(&self) -> Self {
        let mut bytes = Vec::with_capacity(self.0.len().saturating_add(1));
        bytes.extend_from_slice(&self.0);
        bytes.push(0);
        Self::from(bytes)
    }
}

impl Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl From<Vec<u8>> for Key {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Bytes::from(bytes))
    }
}

impl From<String> for Key {
    fn from(text: String) -> Self {
        Self(Bytes::from(text))
    }
}

impl From<&str> for Key {
    fn from(text: &str) -> Self {
        Self::copy_of(text.as_bytes())
    }
}

impl From<&[u8]> for Key {
    fn from(bytes: &[u8]) -> Self {
        Self::copy_of(bytes)
    }
}

impl From<Bytes> for Key {
    fn from(bytes: Bytes) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        String::from_utf8_lossy(&self.0).fmt(f)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

// === impl KeyRange ===

impl KeyRange {
    /// Every key.
    pub fn all() -> Self {
        Self {
            start: Key::from_static(b""),
            end: None,
        }
    }

    /// Every key that begins with `prefix`.
    pub fn prefix(prefix: impl Into<Key>) -> Self {
        let start = prefix.into();
        let end = prefix_end(&start);
        Self { start, end }
    }

    /// One key.
    pub fn exact(key: impl Into<Key>) -> Self {
        let start = key.into();
        let end = Some(start.successor());
        Self { start, end }
    }

    /// The part of this range behind `key`: where a page that ended with `key` goes on.
    #[must_use]
    pub fn behind(self, key: &Key) -> Self {
        let next = key.successor();
        Self {
            start: self.start.max(next),
            end: self.end,
        }
    }

    /// Whether `key` lies in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= self.start.as_bytes() && self.end.as_ref().is_none_or(|end| key < end.as_bytes())
    }

    /// Whether no key can lie in the range.
    pub fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }

    pub(crate) fn upper_bound(&self) -> Bound<&[u8]> {
        self.end
            .as_ref()
            .map_or(Bound::Unbounded, |end| Bound::Excluded(end.as_bytes()))
    }

    pub(crate) fn shape(&self) -> Shape<'_> {
        if self.end.as_deref() == Some(self.start.successor().as_bytes()) {
            Shape::Exact(&self.start)
        } else if self.end == prefix_end(&self.start) {
            Shape::Prefix(&self.start)
        } else {
            Shape::Other
        }
    }
}

/// The first key behind all that begin with `prefix`: the last byte that can be raised is raised,
/// and what follows it is cut off.
fn prefix_end(prefix: &[u8]) -> Option<Key> {
    let keep = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut end = prefix.get(..=keep)?.to_vec();
    let last = end.last_mut()?;
    *last = last.saturating_add(1);
    Some(Key::from(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_at_the_next_sibling() {
        for (name, prefix, want) in [
            ("plain", &b"/a/"[..], Some(&b"/a0"[..])),
            ("last byte is full", b"a\xff", Some(b"b")),
            ("every byte is full", b"\xff\xff", None),
            ("empty", b"", None),
        ] {
            let got = KeyRange::prefix(prefix);
            assert_eq!(got.end.as_deref(), want, "{name}");
        }
    }

    #[test]
    fn a_range_contains_what_lies_between_its_ends() {
        let prefix = KeyRange::prefix("/a/");
        for (key, want) in [
            ("/a/", true),
            ("/a/b", true),
            ("/a/\u{7f}", true),
            ("/a", false),
            ("/a0", false),
        ] {
            assert_eq!(prefix.contains(key.as_bytes()), want, "{key}");
        }
        let exact = KeyRange::exact("/a");
        assert!(exact.contains(b"/a"), "the key itself");
        assert!(!exact.contains(b"/a\0"), "its successor");
        assert!(KeyRange::all().contains(b""), "the empty key is a key");
    }

    #[test]
    fn a_page_goes_on_behind_its_last_key() {
        let rest = KeyRange::prefix("/a/").behind(&Key::from("/a/m"));
        assert!(!rest.contains(b"/a/m"), "already answered");
        assert!(rest.contains(b"/a/m0"), "the next one");
        let before = KeyRange::prefix("/b/").behind(&Key::from("/a/m"));
        assert_eq!(
            before.start,
            Key::from("/b/"),
            "a key before the range changes nothing"
        );
    }

    #[test]
    fn shapes_are_recognised() {
        for (name, range, want) in [
            ("prefix", KeyRange::prefix("/a/"), Shape::Prefix(b"/a/")),
            ("everything", KeyRange::all(), Shape::Prefix(b"")),
            ("exact", KeyRange::exact("/a"), Shape::Exact(b"/a")),
            (
                "other",
                KeyRange {
                    start: Key::from("a"),
                    end: Some(Key::from("c")),
                },
                Shape::Other,
            ),
        ] {
            assert_eq!(range.shape(), want, "{name}");
        }
    }
}
