//! How large a JSON tree is in memory, and a bound on how far it may grow while a request is worked on.
//!
//! A document of a few bytes can become a large tree: `{"a":0}` takes eight bytes on the wire and a node of a B-tree in
//! memory, a default is filled into every empty object of a list, a `copy` doubles what it copies. Whatever makes a tree
//! out of a request charges a [`Growth`] before it allocates, so that the bound holds during the work and not after it.

use serde_json::Value;

/// The most memory that the tree of one object may take.
///
/// An object of 1.5 MiB that is made of the smallest possible fields takes about as much; objects as people write them
/// take ten times their size on the wire.
pub const TREE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// One value, wherever it stands.
const VALUE_BYTES: u64 = 32;
/// The first node of a map's B-tree: eleven keys and eleven values, and what the allocator adds.
const MAP_BYTES: u64 = 656;
/// A field of a map beyond that, with its share of half-filled nodes.
const FIELD_BYTES: u64 = 96;
/// The fields that the first node has room for.
const FIELDS_OF_FIRST_NODE: usize = 11;

/// The memory that work on a request may still take.
#[derive(Debug)]
pub struct Growth {
    left: u64,
    bytes_max: u64,
}

/// The tree of an object would take more memory than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the object would take more than {bytes_max} bytes of memory")]
pub struct TooLarge {
    /// The bound that was met.
    pub bytes_max: u64,
}

// === impl Growth ===

impl Growth {
    /// Allows so many bytes.
    pub const fn new(bytes_max: u64) -> Self {
        Self {
            left: bytes_max,
            bytes_max,
        }
    }

    /// Allows what one object may take.
    pub const fn of_object() -> Self {
        Self::new(TREE_BYTES_MAX)
    }

    /// Takes so many bytes.
    ///
    /// # Errors
    /// They are not left. From then on nothing is.
    pub fn charge(&mut self, bytes: u64) -> Result<(), TooLarge> {
        if let Some(left) = self.left.checked_sub(bytes) {
            self.left = left;
            return Ok(());
        }
        self.left = 0;
        Err(TooLarge {
            bytes_max: self.bytes_max,
        })
    }

    /// Takes the memory of a value that is about to be copied. The walk ends where the bound is met.
    ///
    /// # Errors
    /// As [`Growth::charge`].
    pub fn charge_value(&mut self, value: &Value) -> Result<(), TooLarge> {
        self.charge(VALUE_BYTES)?;
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
            Value::String(text) => self.charge(length(text.len())),
            Value::Array(items) => items.iter().try_for_each(|item| self.charge_value(item)),
            Value::Object(fields) => {
                self.charge_map(fields.len())?;
                fields.iter().try_for_each(|(name, value)| {
                    self.charge(length(name.len()))?;
                    self.charge_value(value)
                })
            }
        }
    }

    /// Takes the memory that one more field takes in a map of so many, without what the field holds.
    ///
    /// # Errors
    /// As [`Growth::charge`].
    pub fn charge_field(&mut self, name: &str, count: usize) -> Result<(), TooLarge> {
        let place = if count == 0 { MAP_BYTES } else { FIELD_BYTES };
        self.charge(place.saturating_add(length(name.len())))
    }

    /// Takes the memory of a map of so many fields, without what the fields hold.
    fn charge_map(&mut self, count: usize) -> Result<(), TooLarge> {
        match count {
            0 => Ok(()),
            count => {
                let more = length(count.saturating_sub(FIELDS_OF_FIRST_NODE));
                self.charge(MAP_BYTES.saturating_add(more.saturating_mul(FIELD_BYTES)))
            }
        }
    }
}

/// An upper bound of the memory that the tree of a JSON or YAML text takes, told from its bytes alone in one pass: every
/// brace, and every line of YAML, may be a map, and every comma, dash and bracket a value.
pub fn tree_bytes_of_text(text: &[u8]) -> u64 {
    let is_json = text.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    let count = |wanted: u8| memchr::memchr_iter(wanted, text).count();
    let (mut maps, mut values) = (count(b'{'), count(b',').saturating_add(count(b'[')));
    if !is_json {
        maps = maps.saturating_add(count(b'\n'));
        values = values.saturating_add(count(b'-'));
    }
    sum(text.len(), maps, values)
}

/// [`tree_bytes_of_text`] for JSON: what stands in texts is not taken for structure. It takes longer.
pub fn tree_bytes_of_json(text: &[u8]) -> u64 {
    let (mut maps, mut values) = (0_usize, 0_usize);
    let (mut in_text, mut escaped) = (false, false);
    for byte in text {
        match byte {
            b'"' if !escaped => in_text = !in_text,
            b'{' if !in_text => maps = maps.saturating_add(1),
            b',' | b'[' if !in_text => values = values.saturating_add(1),
            _ => {}
        }
        escaped = in_text && !escaped && *byte == b'\\';
    }
    sum(text.len(), maps, values)
}

fn sum(bytes: usize, maps: usize, values: usize) -> u64 {
    length(bytes)
        .saturating_add(length(maps).saturating_mul(MAP_BYTES.saturating_add(VALUE_BYTES)))
        .saturating_add(length(values).saturating_mul(VALUE_BYTES.saturating_add(FIELD_BYTES)))
}

/// Returns how deep a value is: a scalar is 0, an empty list 1. The walk goes no deeper than `depth_max`, and answers one
/// more where the value does.
pub fn depth(value: &Value, depth_max: usize) -> usize {
    let below = |depth: usize| depth.saturating_add(1);
    match (value, depth_max.checked_sub(1)) {
        (Value::Array(_) | Value::Object(_), None) => 1,
        (Value::Array(items), Some(rest)) => {
            let deepest = items.iter().map(|item| depth(item, rest)).max();
            below(deepest.unwrap_or(0))
        }
        (Value::Object(fields), Some(rest)) => {
            let deepest = fields.values().map(|field| depth(field, rest)).max();
            below(deepest.unwrap_or(0))
        }
        (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_), _) => 0,
    }
}

fn length(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_charged_is_gone_and_what_is_not_left_is_refused() {
        let mut growth = Growth::new(100);
        assert_eq!(growth.charge(60), Ok(()));
        assert_eq!(growth.charge(60), Err(TooLarge { bytes_max: 100 }));
        assert!(growth.charge(1).is_err(), "a refusal is final");
    }

    #[test]
    fn small_maps_are_charged_for_their_nodes_and_not_for_their_text() {
        let many: Vec<_> = (0..1_000).map(|_| json!({"a": 0})).collect();
        let text = serde_json::to_vec(&many).unwrap();
        assert!(text.len() < 9_000, "the text is small");
        let mut growth = Growth::new(500_000);
        assert!(
            growth.charge_value(&json!(many)).is_err(),
            "the tree is not"
        );
        assert!(tree_bytes_of_text(&text) > 500_000, "and the text tells it");
    }

    #[test]
    fn the_bound_from_the_text_is_never_below_the_tree() {
        for value in [
            json!(null),
            json!([[], [], [[]]]),
            json!({"a": {"b": {"c": [1, 2, 3, "x"]}}, "d": "long ".repeat(100)}),
            json!(
                (0..200)
                    .map(|index| (index.to_string(), json!({})))
                    .collect::<serde_json::Map<_, _>>()
            ),
            json!(
                (0..50)
                    .map(|_| json!({"a": 0, "b": [true]}))
                    .collect::<Vec<_>>()
            ),
        ] {
            let text = serde_json::to_vec(&value).unwrap();
            for bound in [tree_bytes_of_text(&text), tree_bytes_of_json(&text)] {
                let mut growth = Growth::new(bound.saturating_add(VALUE_BYTES * 2));
                assert_eq!(growth.charge_value(&value), Ok(()), "{value}");
            }
        }
        let braces = serde_json::to_vec(&json!({"a": "{[,\\\"{".repeat(1_000)})).unwrap();
        assert!(
            tree_bytes_of_json(&braces) < 10_000,
            "texts are no structure"
        );
    }

    #[test]
    fn depth_counts_levels_and_stops_at_the_bound() {
        for (value, want) in [
            (json!(1), 0),
            (json!([]), 1),
            (json!({"a": [{"b": 1}]}), 3),
            (json!({"a": [], "b": {"c": {}}}), 3),
        ] {
            assert_eq!(depth(&value, 10), want, "{value}");
        }
        let deep = (0..100).fold(json!({}), |inner, _| json!([inner]));
        assert_eq!(depth(&deep, 200), 101);
        assert_eq!(depth(&deep, 10), 11);
    }
}
