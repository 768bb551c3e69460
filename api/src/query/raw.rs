//! The raw query: names and values, decoded.
//!
//! Source: Go's `net/url` (`ParseQuery`), `apimachinery/pkg/runtime/conversion.go`.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use dialect::number::parse_int;
use dialect::url::query_pairs;

use crate::status::Status;

/// Names and values in the order of their appearance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pairs: Vec<(String, String)>,
}

// === impl Query ===

impl Query {
    /// Parses what follows the question mark. Pairs that cannot be decoded are dropped, as Go's `URL.Query` does.
    pub fn parse(raw: &str) -> Self {
        let pairs = query_pairs(raw).collect();
        Self { pairs }
    }

    /// Reads the first value of a name.
    pub fn first(&self, name: &str) -> Option<&str> {
        self.pairs
            .iter()
            .find(|(it, _)| it == name)
            .map(|(_, value)| value.as_str())
    }

    /// Reads every value of a name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.pairs
            .iter()
            .filter(move |(it, _)| it == name)
            .map(|(_, value)| value.as_str())
    }

    /// Reads a text; empty where absent.
    pub fn text(&self, name: &str) -> &str {
        self.first(name).unwrap_or_default()
    }

    /// Reads a boolean; absent is false, and anything but `0` and `false` is true.
    pub fn flag(&self, name: &str) -> bool {
        self.optional_flag(name).unwrap_or(false)
    }

    /// Reads a boolean that may be absent.
    pub fn optional_flag(&self, name: &str) -> Option<bool> {
        self.first(name)
            .map(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    /// Reads an integer that may be absent; an empty value is malformed, as in Kubernetes.
    pub fn integer(&self, name: &str) -> Result<Option<i64>, Status> {
        let Some(text) = self.first(name) else {
            return Ok(None);
        };
        parse_int(text).map(Some).map_err(Status::bad_request)
    }

    /// Returns whether a name is there, with or without a value.
    pub fn contains(&self, name: &str) -> bool {
        self.first(name).is_some()
    }

    /// Borrows all pairs.
    pub fn pairs(&self) -> &[(String, String)] {
        &self.pairs
    }
}
