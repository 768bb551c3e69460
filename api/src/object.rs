//! Objects of a kind, as typed values and as JSON.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::status::Status;

/// Reads an object of a kind.
pub(crate) fn read<T: DeserializeOwned>(
    kind: &str,
    version: &str,
    object: &Value,
) -> Result<T, Status> {
    T::deserialize(object).map_err(|error| {
        Status::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {kind}: {error}"
        ))
    })
}

/// Renders an object.
pub(crate) fn write<T: Serialize>(object: &T) -> Value {
    serde_json::to_value(object).expect("wire types have text keys and finite numbers only")
}
