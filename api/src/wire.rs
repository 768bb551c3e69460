//! What the types of the wire share: how absence is read and written, and objects as values.
//!
//! An absent field, a `null` and the default of its type are the same, as in Go's structs with `omitempty`.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::status::Status;

/// Reads `null` as the default of a type.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Tells whether a field is left out when it is written.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

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
