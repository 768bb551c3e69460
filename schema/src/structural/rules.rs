//! The validation rules of a node, and their compiled form.
//!
//! Rules compile once, when the first object meets them: most nodes of most definitions never see a value.

use std::sync::{Arc, OnceLock};

use expressions::{DeclType, Program};

/// One entry of `x-kubernetes-validations`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    /// The expression.
    #[expect(clippy::struct_field_names, reason = "the keyword of Kubernetes")]
    pub rule: String,
    /// The message where it does not hold.
    pub message: Option<String>,
    /// An expression for the message.
    pub message_expression: Option<String>,
    /// The reason of the cause; `FieldValueInvalid` if absent.
    pub reason: Option<String>,
    /// Where the error is shown, relative to the node.
    pub field_path: Option<String>,
    /// Whether `oldSelf` is optional, so that the rule runs on create too.
    pub optional_old_self: Option<bool>,
}

/// The rules of one node.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    rules: Vec<Rule>,
    compiled: OnceLock<Arc<CompiledRules>>,
}

/// The compiled rules of a node.
#[derive(Debug)]
pub(crate) struct CompiledRules {
    /// The type of `self`; `None` where rules cannot see the node.
    pub(crate) declaration: Option<DeclType>,
    /// The type of `oldSelf` in rules where it is optional.
    pub(crate) optional_declaration: Option<DeclType>,
    /// One per rule, in order.
    pub(crate) rules: Vec<CompiledRule>,
}

/// A compiled rule.
#[derive(Debug, Default)]
pub(crate) struct CompiledRule {
    /// Absent where the rule is empty or wrong.
    pub(crate) program: Option<Program>,
    /// Why there is no program.
    pub(crate) error: Option<String>,
    /// The program of the message.
    pub(crate) message: Option<Program>,
    /// Why there is none.
    pub(crate) message_error: Option<String>,
    /// Whether the rule compares with the old value.
    pub(crate) uses_old_self: bool,
    /// Where errors are shown, relative to the node.
    pub(crate) field_path: Option<String>,
}

// === impl Rules ===

impl Rules {
    /// Rules in the order in which they run.
    pub fn new(rules: Vec<Rule>) -> Self {
        Self {
            rules,
            compiled: OnceLock::new(),
        }
    }

    /// The rules as written.
    pub fn as_slice(&self) -> &[Rule] {
        &self.rules
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The compiled rules, compiled by `compile` at the first call.
    pub(crate) fn compiled(&self, compile: impl FnOnce() -> CompiledRules) -> &CompiledRules {
        self.compiled.get_or_init(|| Arc::new(compile()))
    }
}
