//! Label and field selectors: which objects of a collection are meant.
//!
//! Source: `apimachinery/pkg/labels`, `apimachinery/pkg/fields`, `apimachinery/pkg/apis/meta/v1/helpers.go`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

mod field_selector;
mod label_selector;
mod parser;
mod requirement;

pub use field_selector::{FieldOperator, FieldRequirement, FieldSelector, ParseFieldSelectorError};
pub use label_selector::{LabelSelector, LabelSelectorRequirement};
pub use requirement::{Operator, Requirement};

/// Bytes of a selector in a request, as many as a URL has.
pub(crate) const SELECTOR_BYTES_MAX: usize = 64 * 1024;

/// A text or an object that is no selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ParseSelectorError {
    /// What is wrong, in the words of apimachinery.
    pub message: String,
}

/// Which labels an object must have. The default selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
    nothing: bool,
}

/// Something that labels can be looked up in.
pub trait Labels {
    /// Reads the value of a label.
    fn value(&self, key: &str) -> Option<&str>;
}

// === impl Selector ===

impl Selector {
    /// Selects every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Selects no object.
    pub fn nothing() -> Self {
        Self {
            requirements: Vec::new(),
            nothing: true,
        }
    }

    /// Selects what meets all requirements; they are kept in the order of their keys.
    pub fn new(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|left, right| left.key().cmp(right.key()));
        Self {
            requirements,
            nothing: false,
        }
    }

    /// Parses the text form, `a=b,c in (d,e),!f` for example.
    pub fn parse(text: &str) -> Result<Self, ParseSelectorError> {
        parser::parse(text).map(Self::new)
    }

    /// Returns whether every object is selected.
    pub fn is_everything(&self) -> bool {
        !self.nothing && self.requirements.is_empty()
    }

    /// Returns whether no object can be selected.
    pub fn is_nothing(&self) -> bool {
        self.nothing
    }

    /// Borrows the requirements.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Returns whether labels are selected.
    pub fn matches<L: Labels + ?Sized>(&self, labels: &L) -> bool {
        !self.nothing
            && self
                .requirements
                .iter()
                .all(|requirement| requirement.matches(labels))
    }
}

impl std::fmt::Display for Selector {
    /// Writes the text form. Nothing has none: it prints as empty, as in apimachinery, so ask
    /// [`Selector::is_nothing`] before sending it anywhere.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

impl std::str::FromStr for Selector {
    type Err = ParseSelectorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

// === impl ParseSelectorError ===

impl ParseSelectorError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
        }
    }
}

// === impl Labels ===

impl Labels for BTreeMap<String, String> {
    fn value(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

impl Labels for Map<String, Value> {
    fn value(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }
}

impl<L: Labels + ?Sized> Labels for &L {
    fn value(&self, key: &str) -> Option<&str> {
        (*self).value(key)
    }
}

impl<L: Labels> Labels for Option<L> {
    fn value(&self, key: &str) -> Option<&str> {
        self.as_ref()?.value(key)
    }
}

#[cfg(test)]
mod tests;
