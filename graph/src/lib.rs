//! scratch
mod go_text;
mod dag;
mod naming;
mod field_path;
mod pluralize;
mod simple_schema;
mod hash;
mod settings;
mod inventory;
pub mod conditions;
pub mod compatibility;
mod definition;
mod revision;
pub use pluralize::pluralize;
pub use revision::revision_name;
