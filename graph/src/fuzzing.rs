//! What fuzz targets need of the parsers of this crate: see `hack/fuzz-targets`.

use serde_json::{Map, Value, json};

use crate::field_path;
use crate::simple_schema;

/// Makes a schema of SimpleSchema's short notation.
///
/// # Errors
/// kro's text for the first mistake.
pub fn simple_schema(
    spec: &Map<String, Value>,
    types: &Map<String, Value>,
) -> Result<Value, String> {
    simple_schema::to_openapi(spec, types)
}

/// Parses a field path; one that is parsed can be written to and removed from.
pub fn field_path(text: &str) {
    let Ok(segments) = field_path::parse(text) else {
        return;
    };
    let mut value = json!({});
    // An index far beyond the end is refused or makes room; room for billions is not tried here.
    let is_small = |segment: &field_path::Segment| match segment {
        field_path::Segment::Name(_) => true,
        field_path::Segment::Index(index) => *index < 1000,
    };
    if segments.iter().all(is_small) && field_path::upsert(&mut value, &segments, json!(1)).is_ok()
    {
        assert!(
            field_path::replace(&mut value, &segments, json!(2)),
            "what was put there can be replaced"
        );
    }
    field_path::remove(&mut value, &segments);
}
