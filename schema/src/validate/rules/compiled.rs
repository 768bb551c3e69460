//! The rules of one node as programs.
//!
//! What does not compile is kept as its error: a definition with such a rule is refused, and an object that meets one
//! all the same is refused with that error.
//!
//! Source: `apiextensions-apiserver/pkg/apiserver/schema/cel/compilation.go`.

use expressions::{DeclType, Declarations, Environment};

use super::{OLD_SELF, SELF};
use crate::structural::{CompiledRule, CompiledRules, Rule, Schema};
use crate::validate::declarations::{Level, declaration};
use crate::validate::field_path::{self, Brackets};

/// Returns the compiled rules of a node, compiled at the first call.
pub(crate) fn compiled_rules(schema: &Schema, level: Level) -> &CompiledRules {
    schema.validations.compiled(|| compile_rules(schema, level))
}

/// Compiles the rules of a node.
fn compile_rules(schema: &Schema, level: Level) -> CompiledRules {
    let declaration = declaration(schema, level);
    let optional_declaration = declaration.clone().map(DeclType::optional);
    let rules = schema.validations.as_slice().iter();
    let rules = if let Some(own) = &declaration {
        rules.map(|rule| compile(rule, schema, own)).collect()
    } else {
        let text = "failed to convert to declType for CEL validation rules";
        let error = || CompiledRule {
            error: Some(text.to_owned()),
            ..CompiledRule::default()
        };
        rules.map(|_| error()).collect()
    };
    CompiledRules {
        declaration,
        optional_declaration,
        rules,
    }
}

/// Returns what a rule of a node of this type may name.
pub(crate) fn rule_declarations(rule: &Rule, own: &DeclType) -> Declarations {
    let old = if rule.optional_old_self == Some(true) {
        DeclType::optional(own.clone())
    } else {
        own.clone()
    };
    Declarations::new()
        .with(SELF, own.clone())
        .with(OLD_SELF, old)
}

fn compile(rule: &Rule, schema: &Schema, own: &DeclType) -> CompiledRule {
    let mut compiled = CompiledRule::default();
    if rule.rule.trim().is_empty() {
        return compiled;
    }
    let declarations = rule_declarations(rule, own);
    let environment = Environment::validation();
    match environment.compile(&rule.rule, &declarations) {
        Ok(program) if !is_or_may_be(program.result_type(), &DeclType::Bool) => {
            compiled.error = Some("cel expression must evaluate to a bool".to_owned());
            return compiled;
        }
        Ok(program) => {
            compiled.uses_old_self = program.identifiers().contains(OLD_SELF);
            compiled.program = Some(program);
        }
        Err(error) => {
            compiled.error = Some(format!("compilation failed: {error}"));
            return compiled;
        }
    }
    if let Some(source) = &rule.message_expression {
        match environment.compile(source, &declarations) {
            Ok(program) if !is_or_may_be(program.result_type(), &DeclType::String) => {
                let text = "messageExpression must evaluate to a string";
                compiled.message_error = Some(text.to_owned());
            }
            Ok(program) => compiled.message = Some(program),
            Err(error) => {
                compiled.message_error =
                    Some(format!("messageExpression compilation failed: {error}"));
            }
        }
    }
    compiled.field_path = rule.field_path.as_deref().and_then(|path| {
        let (path, _) = field_path::resolve(path, schema, Brackets::Allowed).ok()?;
        Some(path.as_str().to_owned())
    });
    compiled
}

fn is_or_may_be(found: &DeclType, wanted: &DeclType) -> bool {
    found == wanted || found.is_dyn()
}
