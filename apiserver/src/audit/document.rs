//! The documents of events that are taken over as they were answered.
//!
//! # Invariants
//! - What a spoke or a pod has labelled JSON is not trusted to be JSON: nothing of it ends the event, its field or its line.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// An object on one line, without what surrounds it; `None` where the bytes are anything else, or what readers of the log may refuse:
/// half of a surrogate pair, a number that is too large, nesting that is too deep.
pub(super) fn object_on_one_line(bytes: &[u8]) -> Option<&[u8]> {
    let text = bytes.trim_ascii();
    let is_line = memchr::memchr2(b'\n', b'\r', text).is_none();
    let is_object = text.first() == Some(&b'{');
    (is_line && is_object && serde_json::from_slice::<Any>(text).is_ok()).then_some(text)
}

/// A JSON value that is read, and not kept. `IgnoredAny` and `RawValue` look less closely.
struct Any;

impl<'de> Deserialize<'de> for Any {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Any {
    type Value = Self;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self, A::Error> {
        while let Some(Self) = seq.next_element()? {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        while let Some((Self, Self)) = map.next_entry()? {}
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_object_on_one_line_is_taken_over() {
        for text in [
            "{}",
            r#"{"a":[1,-2,1.5e3,null,true,"\u00e9\ud83d\ude00"],"a":{"b":{}}}"#,
        ] {
            let found = object_on_one_line(text.as_bytes());
            assert_eq!(found, Some(text.as_bytes()), "{text}");
            // As Go's encoder ends a document.
            let ended = format!(" {text}\n");
            assert_eq!(object_on_one_line(ended.as_bytes()), Some(text.as_bytes()));
        }
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(1000), "]".repeat(1000));
        for text in [
            r#"{},"user":{"username":"admin"},"x":{}"#,
            r#"{}}{"kind":"Event""#,
            "{}\n{}",
            "{\"a\":\n1}",
            "{\"a\":\r1}",
            "",
            "garbage",
            "[]",
            "1",
            "\"x\"",
            "{",
            "{\"a\":\"\u{1}\"}",
            r#"{"a":"\ud800"}"#,
            r#"{"a":1e999}"#,
            "{a:1}",
            &deep,
        ] {
            assert_eq!(object_on_one_line(text.as_bytes()), None, "{text}");
        }
        assert_eq!(object_on_one_line(b"{\"a\":\"\xff\"}"), None);
    }
}
