//! How Go and Kubernetes write values: the notations that clients compare byte for byte, each implemented once.
//!
//! Messages are quoted by `strconv`, numbers and lists are printed by `fmt`, amounts are `resource.Quantity`, patterns
//! are RE2, names follow RFC 1123. A caller that needs one of these rules finds it here.
//!
//! **Invariants:** pure; no text panics; this crate depends on no other crate of the workspace.

mod age;
pub mod base64;
mod chain;
mod duration;
pub mod formats;
pub mod json;
pub mod names;
pub mod number;
pub mod pattern;
mod quantity;
mod text;
mod time;
pub mod url;
pub mod value;
pub mod yaml;

pub use age::human_duration;
pub use chain::error_chain;
pub use duration::Duration;
pub use quantity::{Quantity, QuantityError};
pub use text::{float, is_print, quote, quote_all, string_slice, words};
pub use time::{RFC3339, RFC3339_MICRO, TimeError, check_time};
