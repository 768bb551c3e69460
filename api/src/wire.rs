//! What the types of the wire share: how absence is read and written.
//!
//! An absent field, a `null` and the default of its type are the same, as in Go's structs with `omitempty`.

use serde::{Deserialize, Deserializer};

/// Reads `null` as the default of a type.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Returns whether a field is left out when it is written.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
