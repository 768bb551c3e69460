//! What an expression may name, and as what.

use std::collections::BTreeMap;

use crate::types::DeclType;

/// The variables of an expression with their types.
///
/// A name may be qualified (`a.b`); the longest declared name wins.
#[derive(Clone, Debug, Default)]
pub struct Declarations {
    variables: BTreeMap<String, DeclType>,
    has_qualified: bool,
}

// === impl Declarations ===

impl Declarations {
    /// Makes a set without variables.
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares a variable, in place of an earlier one of that name.
    pub fn declare(&mut self, name: impl Into<String>, ty: DeclType) -> &mut Self {
        let name = name.into();
        self.has_qualified |= name.contains('.');
        self.variables.insert(name, ty);
        self
    }

    /// Declares a variable, as the last step of making the set.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, ty: DeclType) -> Self {
        self.declare(name, ty);
        self
    }

    /// The type of a variable.
    pub fn get(&self, name: &str) -> Option<&DeclType> {
        self.variables.get(name)
    }

    /// The declared names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.variables.keys().map(String::as_str)
    }

    /// Whether any name is qualified.
    pub(crate) fn has_qualified(&self) -> bool {
        self.has_qualified
    }
}
