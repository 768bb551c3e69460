//! How large values of a schema may be, for the estimate of what its rules cost.
//!
//! What the schema does not bound is bounded by the size of a request: a list has at most as many items as the smallest
//! of them fit into one.
//!
//! Source: `apiserver/pkg/cel/{common/schemas,limits,types}.go`.

use std::collections::BTreeMap;

use expressions::Sizes;

use super::declarations::Level;
use crate::structural::{Constraints, Schema, ValueType};

/// The longest request (`MaxRequestSizeBytes`).
const REQUEST_BYTES_MAX: u64 = 3 * 1024 * 1024;
/// A text, a list or an object in its delimiters.
const TEXT_BYTES_MAX: u64 = REQUEST_BYTES_MAX - 2;

/// How large a value may be, and how small.
#[derive(Debug, Clone)]
pub(crate) struct Extent {
    pub(crate) sizes: Sizes,
    /// The fewest bytes that it takes as JSON.
    bytes_min: u64,
}

/// Returns the extent of values of a schema; `None` where rules cannot see them.
pub(crate) fn extent(schema: &Schema, level: Level) -> Option<Extent> {
    let constraints = schema.constraints.as_deref();
    if schema.int_or_string {
        let max = max_length(constraints).map_or(TEXT_BYTES_MAX, in_bytes);
        return Some(Extent::plain(max, 1));
    }
    match schema.value_type? {
        ValueType::Array => {
            let item = extent_of_child(schema.items.as_deref()?)?;
            let max = constraints.and_then(|it| it.max_items).map(at_least_zero);
            let max = max.unwrap_or(TEXT_BYTES_MAX / (item.bytes_min + 1));
            Some(Extent::of_elements(max, item))
        }
        ValueType::Object => match schema.additional.schema() {
            Some(element) => {
                let value = extent_of_child(element)?;
                let max = constraints.and_then(|it| it.max_properties);
                let max = max.map(at_least_zero);
                // A key in its quotes, a colon and a comma.
                let max = max.unwrap_or(TEXT_BYTES_MAX / (value.bytes_min + 6));
                Some(Extent::of_elements(max, value))
            }
            None => Some(object(schema, level)),
        },
        ValueType::String => Some(text(schema, constraints)),
        ValueType::Boolean => Some(Extent::plain(0, 4)),
        ValueType::Number | ValueType::Integer => Some(Extent::plain(0, 1)),
    }
}

/// Returns how often a value of this extent fits into a request, in lists without a bound.
pub(crate) fn cardinality_max(extent: &Extent) -> u64 {
    REQUEST_BYTES_MAX / (extent.bytes_min + 1)
}

/// Returns by how much a schema multiplies what is below it; `None` without a bound.
pub(crate) fn multiplies(schema: &Schema) -> Option<u64> {
    let constraints = schema.constraints.as_deref();
    let bound = |max: fn(&Constraints) -> Option<i64>| constraints.and_then(max).map(at_least_zero);
    match schema.value_type {
        Some(ValueType::Array) => bound(|it| it.max_items),
        Some(ValueType::Object) if schema.additional.schema().is_some() => {
            bound(|it| it.max_properties)
        }
        _ => Some(1),
    }
}

fn extent_of_child(schema: &Schema) -> Option<Extent> {
    let level = if schema.embedded_resource {
        Level::Resource
    } else {
        Level::Field
    };
    extent(schema, level)
}

fn object(schema: &Schema, level: Level) -> Extent {
    let mut fields = BTreeMap::new();
    let mut bytes_min = 2_u64;
    for (name, property) in &schema.properties {
        let Some(extent) = extent_of_child(property) else {
            continue;
        };
        if schema.required.contains(name) && property.default.is_none() {
            let name_bytes = u64::try_from(name.len()).unwrap_or(u64::MAX);
            // Quotes, a colon and a comma.
            let own = extent
                .bytes_min
                .saturating_add(name_bytes)
                .saturating_add(4);
            bytes_min = bytes_min.saturating_add(own);
        }
        fields.insert(name.clone(), extent.sizes);
    }
    if level == Level::Resource {
        let text = || Extent::plain(TEXT_BYTES_MAX, 2).sizes;
        let named = ["name", "generateName"].map(|name| (name.to_owned(), text()));
        let metadata = Sizes {
            fields: named.into(),
            ..Sizes::default()
        };
        fields.insert("apiVersion".to_owned(), text());
        fields.insert("kind".to_owned(), text());
        fields.insert("metadata".to_owned(), metadata);
    }
    Extent {
        sizes: Sizes {
            fields,
            ..Sizes::default()
        },
        bytes_min,
    }
}

fn text(schema: &Schema, constraints: Option<&Constraints>) -> Extent {
    let max = max_length(constraints);
    match schema.format.as_deref() {
        Some("byte") => Extent::plain(max.unwrap_or(TEXT_BYTES_MAX), 2),
        Some("duration") => Extent::plain(32, 3),
        Some("date") => Extent::plain(12, 12),
        Some("date-time") => Extent::plain(32, 21),
        _ => {
            let longest = constraints.and_then(|it| {
                let lengths = it
                    .enumeration
                    .iter()
                    .filter_map(|it| it.as_str().map(str::len));
                lengths
                    .max()
                    .map(|it| u64::try_from(it).unwrap_or(u64::MAX))
            });
            let max = max.map(in_bytes).or(longest);
            Extent::plain(max.unwrap_or(TEXT_BYTES_MAX), 2)
        }
    }
}

fn max_length(constraints: Option<&Constraints>) -> Option<u64> {
    constraints.and_then(|it| it.max_length).map(at_least_zero)
}

/// A character has up to four bytes.
fn in_bytes(characters: u64) -> u64 {
    characters.saturating_mul(4)
}

fn at_least_zero(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}

// === impl Extent ===

impl Extent {
    fn plain(max: u64, bytes_min: u64) -> Self {
        let sizes = Sizes {
            max,
            ..Sizes::default()
        };
        Self { sizes, bytes_min }
    }

    fn of_elements(max: u64, element: Self) -> Self {
        let sizes = Sizes {
            max,
            element: Some(Box::new(element.sizes)),
            ..Sizes::default()
        };
        Self {
            sizes,
            bytes_min: 2,
        }
    }
}
