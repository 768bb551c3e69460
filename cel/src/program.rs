//! A compiled expression and what is known of it.

use std::collections::BTreeSet;

use crate::bindings::Bindings;
use crate::budget::Budget;
use crate::error::EvaluateError;
use crate::evaluate;
use crate::node::Node;
use crate::types::DeclType;
use crate::value::Value;

/// A compiled expression: immutable, shared between threads, evaluated any number of times.
#[derive(Debug)]
pub struct Program {
    source: String,
    node: Node,
    ty: DeclType,
    uses: Uses,
    /// Whether optionals in optionals become one where they are read, as in Kubernetes.
    flattens: bool,
}

/// What an expression reads and calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// The variables that it names, without those of its own macros.
    pub identifiers: BTreeSet<String>,
    /// The functions and macros that it calls, by their full names; operators are left out.
    pub functions: BTreeSet<String>,
    /// The paths that it reads, in order, once each.
    pub paths: Vec<FieldPathExpr>,
}

/// A variable with the fields that are selected from it: `schema.spec.replicas`.
///
/// A path ends where something else than a plain field is taken, such as an index.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldPathExpr {
    /// The variable.
    pub root: String,
    /// The fields, outermost first.
    pub fields: Vec<String>,
}

// === impl Program ===

impl Program {
    pub(crate) fn new(source: &str, node: Node, ty: DeclType, uses: Uses, flattens: bool) -> Self {
        Self {
            source: source.to_owned(),
            node,
            ty,
            uses,
            flattens,
        }
    }

    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    /// The text that it was compiled from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The type of its result as far as it is known without values.
    pub fn result_type(&self) -> &DeclType {
        &self.ty
    }

    /// The variables that it names.
    pub fn identifiers(&self) -> &BTreeSet<String> {
        &self.uses.identifiers
    }

    /// The functions and macros that it calls.
    pub fn functions(&self) -> &BTreeSet<String> {
        &self.uses.functions
    }

    /// The paths that it reads.
    pub fn paths(&self) -> &[FieldPathExpr] {
        &self.uses.paths
    }

    /// Evaluates the expression.
    ///
    /// # Errors
    ///
    /// Data that it needs are not there yet, it does not fit the data, or the budget ran out.
    pub fn evaluate<'v>(
        &self,
        bindings: &Bindings<'v>,
        mut budget: Budget,
    ) -> Result<Value<'v>, EvaluateError> {
        self.evaluate_within(bindings, &mut budget)
    }

    /// Evaluates the expression and leaves in `budget` what it did not use, so that several
    /// expressions can share one.
    ///
    /// # Errors
    ///
    /// As [`Self::evaluate`].
    pub fn evaluate_within<'v>(
        &self,
        bindings: &Bindings<'v>,
        budget: &mut Budget,
    ) -> Result<Value<'v>, EvaluateError> {
        evaluate::evaluate(&self.node, self.flattens, bindings, budget).map_err(EvaluateError::from)
    }
}

// === impl FieldPathExpr ===

impl std::fmt::Display for FieldPathExpr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.root)?;
        self.fields
            .iter()
            .try_for_each(|field| write!(f, ".{field}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_and_values_are_shared_between_threads() {
        fn shared<T: Send + Sync + 'static>() {}
        shared::<Program>();
        shared::<Value<'static>>();
    }

    #[test]
    fn a_value_is_no_larger_than_four_words() {
        assert_eq!(size_of::<Value<'static>>(), 32);
    }
}
