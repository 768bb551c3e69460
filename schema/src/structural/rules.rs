//! The validation rules of a node, and their compiled form.
//!
//! Rules compile once, when the first object meets them: most nodes of most definitions never see a value.

use std::sync::{Arc, OnceLock};

use crate::validate::CompiledRules;

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
    pub(super) fn compiled(&self, compile: impl FnOnce() -> CompiledRules) -> &CompiledRules {
        self.compiled.get_or_init(|| Arc::new(compile()))
    }
}
