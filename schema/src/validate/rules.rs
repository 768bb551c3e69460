//! Runs the validation rules of a schema on an object.
//!
//! Rules of a node see the node as `self` and, on updates of nodes that can be told to be the same, its old value as
//! `oldSelf`. A rule that does not compare and fails on an unchanged node is a warning. All rules of one object share
//! one budget; when it is spent, the rest is not run and the object is refused.
//!
//! Source: `apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go`.

use api::{FieldError, FieldPath};
use expressions::{
    Allowance, Bindings, ErrorClass, EvaluateError, Program, Unevaluated, Value as Evaluated,
};
use serde_json::Value;

use super::Findings;
use super::correlation::{Correlation, old_item};
use super::declarations::Level;
use crate::path::Path;
use crate::structural::{CompiledRule, CompiledRules, Rule, Schema, ValueType};

mod compiled;

pub(crate) use compiled::{compiled_rules, rule_declarations};

/// The name of the value in rules.
const SELF: &str = "self";
/// The name of the value that it replaces.
const OLD_SELF: &str = "oldSelf";

/// What is said where the rules of an object cost too much together.
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";
/// The longest message that an expression may make. Source: `apiserver/pkg/apis/cel/config.go`.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;

/// Runs the rules of an object.
pub(super) fn run(object: &Value, schema: &Schema, old: Option<&Value>, findings: &mut Findings) {
    let ratchet = Ratchet {
        current: old.map(|old| Unchanged::new(old, object, schema)),
        parent: None,
    };
    let mut runner = Runner {
        findings,
        base: &FieldPath::root(),
        allowance: Allowance::DEFAULT,
        exhausted: false,
    };
    runner.node(
        Node {
            value: object,
            schema,
            level: Level::Resource,
        },
        old,
        ratchet,
        &Path::Root,
    );
}

/// Runs the rules on a default, which is at `path` of a definition: as unchanged and as new.
pub(crate) fn run_rules_on_default(
    value: &Value,
    schema: &Schema,
    level: Level,
    path: &FieldPath,
) -> Vec<FieldError> {
    let mut findings = Findings::default();
    for old in [Some(value), None] {
        let mut runner = Runner {
            findings: &mut findings,
            base: path,
            allowance: Allowance::DEFAULT,
            exhausted: false,
        };
        runner.node(
            Node {
                value,
                schema,
                level,
            },
            old,
            Ratchet::default(),
            &Path::Root,
        );
        if !findings.errors.is_empty() {
            break;
        }
    }
    findings.errors
}

struct Runner<'f> {
    findings: &'f mut Findings,
    base: &'f FieldPath,
    allowance: Allowance,
    exhausted: bool,
}

/// A value and what is known of it.
#[derive(Clone, Copy)]
struct Node<'a> {
    value: &'a Value,
    schema: &'a Schema,
    level: Level,
}

/// Which nodes tolerate errors: unchanged ones, and those below an unchanged one that cannot themselves be compared.
#[derive(Clone, Copy, Default)]
struct Ratchet<'a> {
    current: Option<Unchanged<'a>>,
    parent: Option<Unchanged<'a>>,
}

/// A node and the old value that it is compared with, when it matters.
#[derive(Clone, Copy)]
struct Unchanged<'a> {
    correlation: Correlation<'a>,
    value: &'a Value,
    schema: &'a Schema,
}

// === impl Ratchet ===

impl<'a> Ratchet<'a> {
    fn tolerates(self) -> bool {
        let nearest = self.current.or(self.parent);
        nearest.is_some_and(|it| it.correlation.is_unchanged(it.value, it.schema))
    }

    fn field(self, name: &str, value: &'a Value, schema: &'a Schema) -> Self {
        let Some(current) = self.current else {
            return self;
        };
        if self.parent.is_none() && (name == "apiVersion" || name == "kind") {
            return Self::default();
        }
        let correlation = current.correlation.field(current.schema, name);
        let child = correlation.map(|correlation| Unchanged {
            correlation,
            value,
            schema,
        });
        Self {
            current: child,
            parent: Some(current),
        }
    }

    fn item(self, value: &'a Value, schema: &'a Schema) -> Self {
        let Some(current) = self.current else {
            return self;
        };
        let correlation = current.correlation.item(current.schema, value);
        let child = correlation.map(|correlation| Unchanged {
            correlation,
            value,
            schema,
        });
        Self {
            current: child,
            parent: Some(current),
        }
    }
}

// === impl Unchanged ===

impl<'a> Unchanged<'a> {
    fn new(old: &'a Value, value: &'a Value, schema: &'a Schema) -> Self {
        Self {
            correlation: Correlation::new(old),
            value,
            schema,
        }
    }
}

// === impl Runner ===

impl Runner<'_> {
    fn node<'a>(
        &mut self,
        node: Node<'a>,
        old: Option<&'a Value>,
        ratchet: Ratchet<'a>,
        path: &Path<'_>,
    ) {
        // A null has no rules of its own; its parent may judge it.
        if self.exhausted || node.value.is_null() || !node.schema.below.rules {
            return;
        }
        let old = old.filter(|old| !old.is_null());
        if !node.schema.validations.is_empty() {
            self.rules(node, old, ratchet, path);
        }
        match node.value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    let (schema, path) = match node.schema.properties.get(name) {
                        Some(property) => (property, Path::Field(path, name)),
                        None => match node.schema.additional.schema() {
                            Some(element) => (element, Path::Key(path, name)),
                            None => continue,
                        },
                    };
                    let old = old.and_then(|old| old.as_object()?.get(name));
                    let ratchet = ratchet.field(name, value, schema);
                    self.node(Node::below(value, schema), old, ratchet, &path);
                }
            }
            Value::Array(items) => {
                let Some(schema) = &node.schema.items else {
                    return;
                };
                let old_items = old.and_then(Value::as_array);
                for (index, value) in items.iter().enumerate() {
                    let old = old_items.and_then(|old| old_item(node.schema, old, value));
                    let ratchet = ratchet.item(value, schema);
                    self.node(
                        Node::below(value, schema),
                        old,
                        ratchet,
                        &Path::Index(path, index),
                    );
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn rules(
        &mut self,
        node: Node<'_>,
        old: Option<&Value>,
        ratchet: Ratchet<'_>,
        path: &Path<'_>,
    ) {
        let compiled = compiled_rules(node.schema, node.level);
        let place = self.field(path);
        if self.allowance.is_exhausted() && !compiled.rules.is_empty() {
            self.exhausted = true;
            return self.refuse(&place, node.schema, OUT_OF_BUDGET.to_owned());
        }
        for (rule, program) in node
            .schema
            .validations
            .as_slice()
            .iter()
            .zip(&compiled.rules)
        {
            if self.exhausted {
                return;
            }
            if let Some(error) = &program.error {
                self.refuse(&place, node.schema, format!("rule compile error: {error}"));
                continue;
            }
            let optional = rule.optional_old_self == Some(true);
            if program.uses_old_self && old.is_none() && !optional {
                continue;
            }
            let mut bindings = Bindings::new();
            bind(&mut bindings, node.value, old, compiled, optional);
            self.rule(
                rule,
                program,
                &bindings,
                Judged {
                    node,
                    ratchet,
                    place: &place,
                },
            );
        }
    }

    fn rule(
        &mut self,
        rule: &Rule,
        compiled: &CompiledRule,
        bindings: &Bindings<'_>,
        judged: Judged<'_>,
    ) {
        let Some(program) = &compiled.program else {
            return;
        };
        let (place, schema) = (judged.place, judged.node.schema);
        let result = match self.allowance.evaluate(program, bindings) {
            Ok(result) => result,
            Err(Unevaluated::Failed(error)) => return self.failed(&error, rule, place, schema),
            Err(Unevaluated::Exhausted) => {
                self.exhausted = true;
                return self.refuse(place, schema, OUT_OF_BUDGET.to_owned());
            }
        };
        if result.as_bool() == Some(true) {
            return;
        }
        let place = match &compiled.field_path {
            Some(path) => place.child(path),
            None => place.clone(),
        };
        let detail = match compiled
            .message
            .as_ref()
            .map(|it| self.message(it, rule, bindings))
        {
            Some(Message::Made(text)) => text,
            Some(Message::Fatal(text)) => {
                self.exhausted = true;
                return self.refuse(&place, schema, text);
            }
            Some(Message::Unusable) | None => default_message(rule),
        };
        let error = error_of(rule, &place, judged.node, detail);
        if !compiled.uses_old_self && judged.ratchet.tolerates() {
            self.findings.warnings.push(error.to_string());
        } else {
            self.findings.errors.push(error);
        }
    }

    fn failed(&mut self, error: &EvaluateError, rule: &Rule, place: &FieldPath, schema: &Schema) {
        let name = rule_name(rule);
        let text = match error.class {
            ErrorClass::Cost => {
                self.exhausted = true;
                format!(
                    "'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {name}"
                )
            }
            _ if error.message.starts_with("no such overload") => format!(
                "'{error}': call arguments did not match a supported operator, function or macro signature for rule: \
                 {name}"
            ),
            _ => format!("{error} evaluating rule: {name}"),
        };
        self.refuse(place, schema, text);
    }

    fn message(&mut self, program: &Program, rule: &Rule, bindings: &Bindings<'_>) -> Message {
        let source = rule.message_expression.as_deref().unwrap_or_default();
        match self.allowance.evaluate(program, bindings) {
            Err(Unevaluated::Exhausted) => Message::Fatal(
                "messageExpression evaluation failed due to running out of cost budget, no further validation rules \
                 will be run"
                    .to_owned(),
            ),
            Err(Unevaluated::Failed(error)) if error.class == ErrorClass::Cost => {
                Message::Fatal(format!(
                    "no further validation rules will be run due to call cost exceeds limit for messageExpression: {}",
                    dialect::quote(source)
                ))
            }
            Err(Unevaluated::Failed(_)) => Message::Unusable,
            Ok(value) => match value.as_str().map(str::trim) {
                Some(text)
                    if !text.is_empty()
                        && text.len() <= MESSAGE_BYTES_MAX
                        && !text.contains('\n') =>
                {
                    Message::Made(text.to_owned())
                }
                _ => Message::Unusable,
            },
        }
    }

    /// An error about a rule itself, which shows the type of the node.
    fn refuse(&mut self, place: &FieldPath, schema: &Schema, text: String) {
        let type_name = schema.value_type.map_or("", ValueType::as_str);
        self.findings
            .errors
            .push(FieldError::invalid(place, type_name, text));
    }

    fn field(&self, path: &Path<'_>) -> FieldPath {
        match path {
            Path::Root => self.base.clone(),
            path => {
                let text = path.to_string();
                if text.starts_with('[') {
                    FieldPath::new(format!("{}{text}", self.base.as_str()))
                } else {
                    self.base.child(&text)
                }
            }
        }
    }
}

/// A node that a rule judges.
#[derive(Clone, Copy)]
struct Judged<'a> {
    node: Node<'a>,
    ratchet: Ratchet<'a>,
    place: &'a FieldPath,
}

/// What an expression for a message came to.
enum Message {
    /// A usable text.
    Made(String),
    /// Nothing usable: the default is taken.
    Unusable,
    /// The budget ran out, with this error.
    Fatal(String),
}

// === impl Node ===

impl<'a> Node<'a> {
    fn below(value: &'a Value, schema: &'a Schema) -> Self {
        let level = if schema.embedded_resource {
            Level::Resource
        } else {
            Level::Field
        };
        Self {
            value,
            schema,
            level,
        }
    }
}

fn bind<'v>(
    bindings: &mut Bindings<'v>,
    value: &'v Value,
    old: Option<&'v Value>,
    compiled: &'v CompiledRules,
    optional: bool,
) {
    let (Some(own), Some(optional_own)) = (&compiled.declaration, &compiled.optional_declaration)
    else {
        return;
    };
    bindings.typed(SELF, value, own);
    match (old, optional) {
        (Some(old), false) => drop(bindings.typed(OLD_SELF, old, own)),
        (Some(old), true) => drop(bindings.typed(OLD_SELF, old, optional_own)),
        (None, true) => drop(bindings.value(OLD_SELF, Evaluated::NONE)),
        (None, false) => {}
    }
}

fn error_of(rule: &Rule, place: &FieldPath, node: Node<'_>, detail: String) -> FieldError {
    // Of objects and lists only the path is shown.
    let is_compound = matches!(
        node.schema.value_type,
        Some(ValueType::Object | ValueType::Array)
    );
    let shown = (!is_compound).then(|| node.value.clone());
    let with_value = |kind, detail: String| FieldError::new(kind, place, shown.clone(), detail);
    match rule.reason.as_deref() {
        Some("FieldValueForbidden") => FieldError::forbidden(place, detail),
        Some("FieldValueRequired") => FieldError::required(place, detail),
        Some("FieldValueDuplicate") => with_value(api::FieldErrorKind::Duplicate, String::new()),
        _ => with_value(api::FieldErrorKind::Invalid, detail),
    }
}

/// The message, or the rule where there is none.
fn rule_name(rule: &Rule) -> &str {
    rule.message.as_deref().unwrap_or(&rule.rule).trim()
}

fn default_message(rule: &Rule) -> String {
    match &rule.message {
        Some(message) => message.trim().to_owned(),
        None => format!("failed rule: {}", rule.rule.trim()),
    }
}
