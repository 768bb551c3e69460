//! What can go wrong: when an expression is compiled, and when it is evaluated.
//!
//! Compile errors read as cel-go's do, position, source line and caret included, because users and
//! kro's own tests compare them. Evaluation errors carry a class: kro waits on data that is not
//! there yet, and fails on everything else.
//!
//! Source: `cel-go/common/error.go`, `kro/pkg/runtime/errors.go`.

/// A refusal to compile an expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CompileError {
    /// The text, as cel-go writes it: one block per issue, each with the source line and a caret.
    pub message: String,
    /// The line of the first issue, from 1.
    pub line: usize,
    /// The column of the first issue in characters, from 1.
    pub column: usize,
    /// What was wrong.
    pub kind: CompileErrorKind,
}

/// What was wrong with an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompileErrorKind {
    /// It does not follow the grammar, or a macro is misused.
    Syntax,
    /// It is longer or deeper than is safe to evaluate.
    Limit,
    /// It names what is not declared.
    Undeclared {
        /// The identifiers that are not declared, in order, once each.
        identifiers: Vec<String>,
        /// The functions that do not exist, once each: those called alone, then those called on a
        /// receiver.
        functions: Vec<String>,
    },
    /// Its types do not fit.
    Type,
}

/// A failed evaluation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct EvaluateError {
    /// The text, in cel-go's words.
    pub message: String,
    /// What the failure means to the caller.
    pub class: ErrorClass,
}

/// What a failed evaluation means to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// The data are not there yet: worth another try when they change.
    DataPending,
    /// The budget ran out.
    Cost,
    /// The expression is wrong for these data.
    Other,
}

/// The texts that mean "not there yet" to kro, whatever else the message says.
const PENDING: [&str; 4] = [
    "no such key",
    "no such field",
    "no such attribute",
    "index out of bounds",
];

/// What is said where an evaluation costs too much.
pub(crate) const COST_EXCEEDED: &str = "operation cancelled: actual cost limit exceeded";

/// A failure inside the evaluator.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// No implementation takes these arguments; another candidate may.
    NoOverload,
    /// The evaluation failed.
    Error(Box<EvaluateError>),
}

// === impl EvaluateError ===

impl EvaluateError {
    /// Makes an error whose class follows from its text, as in kro.
    pub fn new(message: impl Into<String>) -> Self {
        let message = message.into();
        let pending = PENDING.iter().any(|text| message.contains(text));
        let class = if pending {
            ErrorClass::DataPending
        } else {
            ErrorClass::Other
        };
        Self { message, class }
    }
}

impl From<Failure> for EvaluateError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::NoOverload => Self::new("no such overload"),
            Failure::Error(error) => *error,
        }
    }
}

// === impl Failure ===

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self::Error(Box::new(EvaluateError::new(message)))
    }

    /// The failure of a variable that is an expression of its own. A spent budget stays one.
    pub(crate) fn of_variable(self, name: &str) -> Self {
        if self.is_final() {
            return self;
        }
        let error = EvaluateError::from(self);
        let name = dialect::quote(name);
        Self::new(format!(
            "composited variable {name} fails to evaluate: {error}"
        ))
    }

    /// The key of a map or the field of an object that is not there.
    #[cold]
    pub(crate) fn missing_key(key: impl std::fmt::Display) -> Self {
        Self::new(format!("no such key: {key}"))
    }

    /// The budget ran out.
    #[cold]
    pub(crate) fn cost() -> Self {
        Self::Error(Box::new(EvaluateError {
            message: COST_EXCEEDED.to_owned(),
            class: ErrorClass::Cost,
        }))
    }

    /// Whether this failure must not be absorbed by `||`, `&&` or a quantifier.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::Error(error) if error.class == ErrorClass::Cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_follows_from_the_text() {
        for (message, want) in [
            ("no such key: replicas", ErrorClass::DataPending),
            ("index out of bounds: 3", ErrorClass::DataPending),
            ("no such attribute(s): deployment", ErrorClass::DataPending),
            ("Condition: no such field \"x\"", ErrorClass::DataPending),
            ("no such overload", ErrorClass::Other),
            ("index 3 out of bounds [0, 2)", ErrorClass::Other),
            ("division by zero", ErrorClass::Other),
        ] {
            assert_eq!(EvaluateError::new(message).class, want, "{message}");
        }
    }
}
