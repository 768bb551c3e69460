//! A scanner over stored objects: finds what a server needs to know without building a tree.
//!
//! It reads JSON of any layout, not only our canonical form (in which it has little to walk over), and answers `None`
//! for bytes that are no object. Strings are handed out as they stand in the bytes; one that holds an escape is
//! decoded. It does not validate what it steps over.
#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::borrow::Cow;
use std::ops::Range;

use api::selector::Labels;
use memchr::memchr2;

/// What selectors, namespace checks and event frames ask of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Head<'a> {
    /// Where the value of `apiVersion` is, without its quotes.
    pub api_version: Option<Range<usize>>,
    /// Where the value of `metadata` is, braces included.
    pub metadata: Range<usize>,
    /// Where the value of `metadata.annotations` is, braces included.
    pub annotations: Option<Range<usize>>,
    /// Where the value of `metadata.resourceVersion` is, without its quotes.
    pub resource_version: Option<Range<usize>>,
    /// `metadata.name`.
    pub name: Cow<'a, str>,
    /// `metadata.namespace`.
    pub namespace: Cow<'a, str>,
    /// `metadata.uid`.
    pub uid: Cow<'a, str>,
    /// `metadata.labels`.
    pub labels: StringMap<'a>,
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `metadata.finalizers` has an element.
    pub finalized: bool,
    /// `metadata.ownerReferences` has an element.
    pub owned: bool,
}

/// Labels, still as bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StringMap<'a> {
    bytes: &'a [u8],
}

/// Reads the head of an object; `None` if the bytes are not one with metadata.
pub fn head(bytes: &[u8]) -> Option<Head<'_>> {
    let mut cursor = Cursor { bytes, at: 0 };
    let mut head = Head::default();
    let mut found = false;
    cursor.members(|cursor, name| {
        match name {
            b"apiVersion" => head.api_version = Some(inside(&cursor.value()?)),
            b"metadata" => {
                let start = cursor.at;
                metadata(cursor, &mut head)?;
                head.metadata = start..cursor.at;
                found = true;
                return Some(Walk::Stop);
            }
            _ => cursor.skip()?,
        }
        Some(Walk::On)
    })?;
    found.then_some(head)
}

fn metadata<'a>(cursor: &mut Cursor<'a>, head: &mut Head<'a>) -> Option<()> {
    cursor.members(|cursor, name| {
        match name {
            b"name" => head.name = cursor.string()?,
            b"namespace" => head.namespace = cursor.string()?,
            b"uid" => head.uid = cursor.string()?,
            b"annotations" => head.annotations = Some(cursor.value()?),
            b"resourceVersion" => head.resource_version = Some(inside(&cursor.value()?)),
            b"labels" => {
                let range = cursor.value()?;
                head.labels = StringMap {
                    bytes: cursor.bytes.get(range)?,
                };
            }
            b"deletionTimestamp" => head.deleting = cursor.is_filled()?,
            b"finalizers" => head.finalized = cursor.is_filled()?,
            b"ownerReferences" => head.owned = cursor.is_filled()?,
            _ => cursor.skip()?,
        }
        Some(Walk::On)
    })
}

/// Finds fields of an object by their paths, such as `spec.nodeName`: the place of each path among those that are
/// declared, and its value as text, as far as it is a scalar that is not null.
pub fn fields(bytes: &[u8], paths: &[(&str, &str)], found: &mut impl FnMut(usize, &str)) {
    if !paths.is_empty() {
        let mut cursor = Cursor { bytes, at: 0 };
        // Bytes that cannot be read further have no further field.
        let _read = fields_in(&mut cursor, (paths, ""), found);
    }
}

/// Finds the fields whose paths go on behind `above`, which ends with a point.
fn fields_in(
    cursor: &mut Cursor<'_>,
    (paths, above): (&[(&str, &str)], &str),
    found: &mut impl FnMut(usize, &str),
) -> Option<()> {
    cursor.members(|cursor, name| {
        let mut inner = None;
        let range = cursor.value()?;
        for (place, (_, path)) in paths.iter().enumerate() {
            let rest = path.strip_prefix(above).and_then(|path| {
                let rest = path.as_bytes().strip_prefix(name)?;
                // A point in a name is no step.
                (!name.contains(&b'.')).then_some((path, rest))
            });
            match rest {
                Some((_, [])) => {
                    if let Some(text) = cursor.bytes.get(range.clone()).and_then(scalar) {
                        found(place, &text);
                    }
                }
                Some((path, [b'.', ..])) => {
                    inner = path.get(..name.len().saturating_add(1));
                }
                _ => {}
            }
        }
        if let Some(name) = inner
            && cursor.bytes.get(range.start) == Some(&b'{')
        {
            let mut inside = Cursor {
                bytes: cursor.bytes.get(..range.end)?,
                at: range.start,
            };
            fields_in(&mut inside, (paths, &format!("{above}{name}")), found)?;
        }
        Some(Walk::On)
    })
}

/// A scalar as text: a string without its quotes, a number or a boolean as it stands.
fn scalar(value: &[u8]) -> Option<Cow<'_, str>> {
    match value {
        [b'"', text @ .., b'"'] => decode(text),
        [b'{' | b'[', ..] | b"null" => None,
        text => std::str::from_utf8(text).ok().map(Cow::Borrowed),
    }
}

/// The range of a string without its quotes.
fn inside(range: &Range<usize>) -> Range<usize> {
    range.start.saturating_add(1)
        ..range
            .end
            .saturating_sub(1)
            .max(range.start.saturating_add(1))
}

/// A place in the bytes.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Whether to go on to the next member.
enum Walk {
    On,
    Stop,
}

// === impl StringMap ===

impl<'a> StringMap<'a> {
    /// Returns the value of a key, as it stands in the bytes: what labels may hold needs no escape.
    pub fn get(&self, key: &str) -> Option<&'a str> {
        if self.bytes.is_empty() {
            return None;
        }
        let mut cursor = Cursor {
            bytes: self.bytes,
            at: 0,
        };
        let mut found = None;
        // A map that cannot be read further ends there: labels were validated when they were stored.
        let _walked: Option<()> = cursor.members(|cursor, name| {
            let value = cursor.raw_string()?;
            if name == key.as_bytes() {
                found = std::str::from_utf8(value).ok();
                return Some(Walk::Stop);
            }
            Some(Walk::On)
        });
        found
    }
}

impl StringMap<'_> {
    /// Visits every key with its value, as they stand in the bytes.
    pub fn each(&self, mut visit: impl FnMut(&[u8], &[u8])) {
        if self.bytes.is_empty() {
            return;
        }
        let mut cursor = Cursor {
            bytes: self.bytes,
            at: 0,
        };
        let _walked = cursor.members(|cursor, name| {
            visit(name, cursor.raw_string()?);
            Some(Walk::On)
        });
    }
}

impl Labels for StringMap<'_> {
    fn value(&self, key: &str) -> Option<&str> {
        self.get(key)
    }
}

// === impl Cursor ===

impl<'a> Cursor<'a> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn step(&mut self) {
        self.at = self.at.saturating_add(1);
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.step();
        }
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.space();
        (self.peek()? == byte).then(|| self.step())
    }

    /// Walks over the members of an object; the visitor must step over each value.
    fn members(
        &mut self,
        mut visit: impl FnMut(&mut Self, &'a [u8]) -> Option<Walk>,
    ) -> Option<()> {
        self.expect(b'{')?;
        self.space();
        if self.peek()? == b'}' {
            self.step();
            return Some(());
        }
        loop {
            self.space();
            let name = self.raw_string()?;
            self.expect(b':')?;
            self.space();
            if matches!(visit(self, name)?, Walk::Stop) {
                return Some(());
            }
            self.space();
            match self.peek()? {
                b',' => self.step(),
                b'}' => {
                    self.step();
                    return Some(());
                }
                _ => return None,
            }
        }
    }

    /// Steps over a string and returns what is between its quotes, escapes as they are.
    fn raw_string(&mut self) -> Option<&'a [u8]> {
        if self.peek()? != b'"' {
            return None;
        }
        self.step();
        let start = self.at;
        loop {
            let rest = self.bytes.get(self.at..)?;
            let offset = memchr2(b'"', b'\\', rest)?;
            self.at = self.at.checked_add(offset)?;
            if self.peek()? == b'"' {
                let text = self.bytes.get(start..self.at)?;
                self.step();
                return Some(text);
            }
            self.at = self.at.checked_add(2)?;
        }
    }

    /// Steps over a string value (or a null, which reads as empty).
    fn string(&mut self) -> Option<Cow<'a, str>> {
        if self.peek()? == b'"' {
            return decode(self.raw_string()?);
        }
        self.value().map(|_range| Cow::Borrowed(""))
    }

    /// Steps over a value and tells whether it is anything but null, `""`, `[]` and `{}`.
    fn is_filled(&mut self) -> Option<bool> {
        let range = self.value()?;
        let text = self.bytes.get(range)?;
        Some(!matches!(text, b"null" | b"\"\"" | b"[]" | b"{}"))
    }

    /// Steps over a value of any kind and returns where it was.
    fn value(&mut self) -> Option<Range<usize>> {
        self.space();
        let start = self.at;
        match self.peek()? {
            b'"' => {
                self.raw_string()?;
            }
            b'{' | b'[' => self.container()?,
            _ => {
                while !matches!(self.peek(), None | Some(b',' | b'}' | b']' | b' ' | b'\n')) {
                    self.step();
                }
                if self.at == start {
                    return None;
                }
            }
        }
        Some(start..self.at)
    }

    fn skip(&mut self) -> Option<()> {
        self.value().map(|_range| ())
    }

    fn container(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match self.peek()? {
                b'"' => {
                    self.raw_string()?;
                    continue;
                }
                b'{' | b'[' => depth = depth.checked_add(1)?,
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    if depth == 0 {
                        self.step();
                        return Some(());
                    }
                }
                _ => {}
            }
            self.step();
        }
    }
}

/// Decodes what stands between the quotes of a JSON string.
fn decode(raw: &[u8]) -> Option<Cow<'_, str>> {
    if memchr::memchr(b'\\', raw).is_none() {
        return std::str::from_utf8(raw).ok().map(Cow::Borrowed);
    }
    let mut quoted = Vec::with_capacity(raw.len().saturating_add(2));
    quoted.push(b'"');
    quoted.extend_from_slice(raw);
    quoted.push(b'"');
    serde_json::from_slice::<String>(&quoted)
        .ok()
        .map(Cow::Owned)
}
