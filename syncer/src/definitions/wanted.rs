//! Whether a CRD is as wanted. Pure.

use serde_json::Value;

/// Parts of a definition of which nothing more may be there than is wanted: the server adds nothing to them.
const EXACT: &[&str] = &[
    "openAPIV3Schema",
    "additionalPrinterColumns",
    "shortNames",
    "categories",
    "scale",
];

/// Returns whether a live definition is as wanted already, so that nothing has to be written.
pub(super) fn is_as_wanted(live: &Value, wanted: &Value) -> bool {
    let metadata = |definition: &Value, part: &str| definition["metadata"][part].clone();
    covers(&live["spec"], &wanted["spec"])
        && ["labels", "annotations"].iter().all(|part| {
            let wanted = metadata(wanted, part);
            wanted.is_null() || covers(&metadata(live, part), &wanted)
        })
}

/// Returns whether all of a wanted part is in a live one.
pub(super) fn covers(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            wanted
                .iter()
                .all(|(key, value)| live.get(key).is_some_and(|live| covers(live, value)))
                && EXACT.iter().all(|key| live.get(*key) == wanted.get(*key))
        }
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len()
                && live
                    .iter()
                    .zip(wanted)
                    .all(|(live, wanted)| covers(live, wanted))
        }
        _ => live == wanted,
    }
}
