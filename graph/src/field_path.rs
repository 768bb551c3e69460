//! Field paths as kro writes them: `spec.containers[0].name`, `metadata.annotations["a.b/c"]`.
//!
//! A name with a dot or a bracket in it, or an empty one, is written in brackets with quotes (kro writes one with a bracket as it
//! is, and then reads an index). Parsing assumes paths that this module
//! wrote; a quote inside a name is not escaped (nor is it by kro), so such a path does not parse.
//!
//! Source: kro `pkg/graph/fieldpath`, `pkg/graph/parser/parser.go` joinPathAndFieldName.

use serde_json::Value;

/// One step of a path.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Segment {
    Name(String),
    Index(usize),
}

/// Appends a field name to a path.
pub(crate) fn join(path: &str, name: &str) -> String {
    if name.is_empty() || name.contains(['.', '[']) {
        format!("{path}[\"{name}\"]")
    } else if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

/// Appends an index to a path.
pub(crate) fn join_index(path: &str, index: usize) -> String {
    format!("{path}[{index}]")
}

/// Parses a path.
pub(crate) fn parse(path: &str) -> Result<Vec<Segment>, String> {
    let mut parser = Parser { text: path, at: 0 };
    let mut segments = Vec::new();
    while let Some(byte) = parser.peek(0) {
        if byte == b'[' && parser.peek(1) == Some(b'"') {
            segments.push(Segment::Name(parser.quoted()?));
        } else if byte != b'[' {
            segments.push(Segment::Name(parser.unquoted()?));
        }
        if parser.peek(0) == Some(b'[') && parser.peek(1) != Some(b'"') {
            segments.push(Segment::Index(parser.index()?));
        }
        if parser.peek(0) == Some(b'.') {
            parser.at += 1;
        }
    }
    Ok(segments)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

// === impl Parser ===

impl Parser<'_> {
    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    /// Takes everything up to the first byte of `stops`; these are ASCII, so the cut is at a character border.
    fn take_until(&mut self, stops: &[u8]) -> &str {
        let start = self.at;
        while self.peek(0).is_some_and(|byte| !stops.contains(&byte)) {
            self.at += 1;
        }
        self.text.get(start..self.at).unwrap_or_default()
    }

    fn quoted(&mut self) -> Result<String, String> {
        self.at += 2;
        let start = self.at;
        let name = self.take_until(b"\"").to_owned();
        if self.peek(0).is_none() {
            return Err(format!(
                "unterminated quoted string starting at position {start}"
            ));
        }
        self.at += 1;
        if self.peek(0) != Some(b']') {
            return Err(format!(
                "expected closing bracket after quote at position {}",
                self.at
            ));
        }
        self.at += 1;
        Ok(name)
    }

    fn unquoted(&mut self) -> Result<String, String> {
        let start = self.at;
        let name = self.take_until(b".[").to_owned();
        if name.is_empty() {
            return Err(format!("empty field name at position {start}"));
        }
        Ok(name)
    }

    fn index(&mut self) -> Result<usize, String> {
        self.at += 1;
        let start = self.at;
        let digits = self.take_until(b"]").to_owned();
        if self.peek(0).is_none() {
            return Err(format!("unterminated array index at position {start}"));
        }
        self.at += 1;
        digits
            .parse()
            .map_err(|_error| format!("invalid array index '{digits}' at position {start}"))
    }
}

/// Replaces the value at a path that is there; tells whether it was.
pub(crate) fn replace(root: &mut Value, segments: &[Segment], new: Value) -> bool {
    let found = segments
        .iter()
        .try_fold(root, |value, segment| match segment {
            Segment::Name(name) => value.get_mut(name),
            Segment::Index(index) => value.get_mut(index),
        });
    match found {
        Some(place) => {
            *place = new;
            true
        }
        None => false,
    }
}

/// Takes the value at a path out; an element of a list moves those behind it.
pub(crate) fn remove(root: &mut Value, segments: &[Segment]) {
    let Some((last, way)) = segments.split_last() else {
        return;
    };
    let parent = way.iter().try_fold(root, |value, segment| match segment {
        Segment::Name(name) => value.get_mut(name),
        Segment::Index(index) => value.get_mut(index),
    });
    match (parent, last) {
        (Some(Value::Object(map)), Segment::Name(name)) => {
            map.remove(name);
        }
        (Some(Value::Array(list)), Segment::Index(index)) if *index < list.len() => {
            list.remove(*index);
        }
        _ => {}
    }
}

/// Sets the value at a path and makes what is missing on the way; array gaps become null.
///
/// # Errors
/// When the path goes through something that is neither missing nor of the right shape.
pub(crate) fn upsert(root: &mut Value, segments: &[Segment], new: Value) -> Result<(), String> {
    let mut place = root;
    for segment in segments {
        place = match segment {
            Segment::Name(name) => {
                if place.is_null() {
                    *place = Value::Object(serde_json::Map::new());
                }
                let Value::Object(map) = place else {
                    return Err(format!("expected map at path segment: {name}"));
                };
                map.entry(name.clone()).or_insert(Value::Null)
            }
            Segment::Index(index) => {
                if place.is_null() {
                    *place = Value::Array(Vec::new());
                }
                let Value::Array(list) = place else {
                    return Err(format!("expected array at path segment: {index}"));
                };
                if list.len() <= *index {
                    list.resize(index + 1, Value::Null);
                }
                list.get_mut(*index)
                    .ok_or_else(|| format!("no place at index {index}"))?
            }
        };
    }
    *place = new;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn name(text: &str) -> Segment {
        Segment::Name(text.to_owned())
    }

    #[test]
    fn joined_paths_parse_back() {
        let path = join(&join_index(&join(&join("", "spec"), "list"), 3), "a.b/c");
        assert_eq!(path, "spec.list[3][\"a.b/c\"]");
        assert_eq!(
            parse(&path),
            Ok(vec![
                name("spec"),
                name("list"),
                Segment::Index(3),
                name("a.b/c")
            ])
        );
        assert_eq!(join("", ""), "[\"\"]");
        // A field of a status with this name made room for a billion items when it was projected.
        let hostile = join("status", "a[999999999]");
        assert_eq!(
            parse(&hostile),
            Ok(vec![name("status"), name("a[999999999]")]),
            "a name is never an index"
        );
        assert_eq!(
            parse("a[0][1].b"),
            Ok(vec![
                name("a"),
                Segment::Index(0),
                Segment::Index(1),
                name("b")
            ])
        );
    }

    #[test]
    fn malformed_paths_are_refused() {
        for (path, want) in [
            ("a[\"b", "unterminated quoted string starting at position 3"),
            (
                "a[\"b\"c",
                "expected closing bracket after quote at position 5",
            ),
            ("a[1", "unterminated array index at position 2"),
            ("a[x]", "invalid array index 'x' at position 2"),
            ("a..b", "empty field name at position 2"),
        ] {
            assert_eq!(parse(path), Err(want.to_owned()), "{path}");
        }
    }

    #[test]
    fn upsert_makes_what_is_missing_and_refuses_what_is_in_the_way() {
        let mut value = json!({});
        let path = parse("list[2].name").expect("parses");
        upsert(&mut value, &path, json!("x")).expect("nothing is in the way");
        assert_eq!(value, json!({"list": [null, null, {"name": "x"}]}));
        assert!(replace(&mut value, &path, json!(1)));
        assert!(!replace(
            &mut value,
            &parse("other").expect("parses"),
            json!(1)
        ));
        let through = parse("list[2].name.deeper").expect("parses");
        assert!(upsert(&mut value, &through, json!(1)).is_err());
    }
}
