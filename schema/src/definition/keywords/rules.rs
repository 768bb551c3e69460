//! `x-kubernetes-validations`: the form of its entries, and whether they compile.

use api::{FieldError, FieldPath};
use expressions::Program;
use serde_json::Value;

use super::costs::{self, EachExpression};
use super::{Keywords, SchemaErrors, Surroundings, text};
use crate::definition::structural::unsupported;
use crate::structural::{CompiledRules, Rule, Schema};
use crate::validate::{
    Brackets, Level, cardinality_max, compiled_rules, extent, resolve_field_path, rule_declarations,
};

const VALIDATIONS: &str = "x-kubernetes-validations";
const REASONS: [&str; 4] = [
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];

/// The form of the entries, whatever their expressions are.
pub(super) fn validate_form(
    keywords: &Keywords,
    around: &Surroundings<'_>,
    path: &FieldPath,
) -> Vec<FieldError> {
    let entries = keywords
        .get(VALIDATIONS)
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let mut errors = Vec::new();
    for (index, entry) in entries.enumerate() {
        let place = path.child(VALIDATIONS).index(index);
        match entry.as_object() {
            Some(entry) => form(entry, (keywords, around.parsed), &place, &mut errors),
            None => errors.push(FieldError::invalid(
                &place,
                entry.clone(),
                "must be an object",
            )),
        }
    }
    errors
}

fn form(
    entry: &Keywords,
    node: (&Keywords, Option<&Schema>),
    place: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    let (rule, message) = (text(entry, "rule").trim(), text(entry, "message"));
    let message_path = place.child("message");
    if rule.is_empty() {
        errors.push(FieldError::required(
            &place.child("rule"),
            "rule is not specified",
        ));
    } else if !message.is_empty() && message.trim().is_empty() {
        let detail = "must be non-empty if specified";
        errors.push(FieldError::invalid(&message_path, message, detail));
    } else if has_line_breaks(message.trim()) {
        errors.push(FieldError::invalid(
            &message_path,
            message,
            "must not contain line breaks",
        ));
    } else if has_line_breaks(rule) && message.is_empty() {
        let detail = "message must be specified if rule contains line breaks";
        errors.push(FieldError::required(&message_path, detail));
    }
    let expression = text(entry, "messageExpression");
    if !expression.is_empty() && expression.trim().is_empty() {
        let detail = "messageExpression must be non-empty if specified";
        errors.push(FieldError::required(
            &place.child("messageExpression"),
            detail,
        ));
    }
    if let Some(reason) = entry.get("reason").and_then(Value::as_str)
        && !REASONS.contains(&reason)
    {
        errors.push(FieldError::not_supported(
            &place.child("reason"),
            reason,
            REASONS,
        ));
    }
    field_path(
        text(entry, "fieldPath"),
        node,
        &place.child("fieldPath"),
        errors,
    );
}

fn field_path(
    text: &str,
    (keywords, parsed): (&Keywords, Option<&Schema>),
    place: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    if text.is_empty() {
        return;
    }
    if text.trim().is_empty() {
        errors.push(FieldError::invalid(
            place,
            text,
            "must be non-empty if specified",
        ));
    }
    if has_line_breaks(text) {
        errors.push(FieldError::invalid(
            place,
            text,
            "must not contain line breaks",
        ));
    }
    let leads_nowhere =
        |schema: &Schema| resolve_field_path(text, schema, Brackets::Allowed).is_err();
    // A branch of a combination has a schema of its own here; what cannot be read has any path.
    let is_wrong = if let Some(schema) = parsed {
        leads_nowhere(schema)
    } else {
        let node = Value::Object(keywords.clone());
        unsupported(&node).is_none()
            && Schema::from_openapi(&node).is_ok_and(|schema| leads_nowhere(&schema))
    };
    if is_wrong {
        errors.push(FieldError::invalid(place, text, "must be a valid path"));
    }
}

fn has_line_breaks(text: &str) -> bool {
    text.contains(['\n', '\r'])
}

/// Whether the expressions compile against the schema of the node, and what they may cost.
pub(super) fn validate_compiled(
    around: &Surroundings<'_>,
    path: &FieldPath,
    found: &mut SchemaErrors,
) {
    let Some(schema) = around.parsed.filter(|it| !it.validations.is_empty()) else {
        return;
    };
    let is_resource = around.is_root || schema.embedded_resource;
    let level = if is_resource {
        Level::Resource
    } else {
        Level::Field
    };
    let compiled = compiled_rules(schema, level);
    estimate(around, (schema, level), compiled, path, found);
    let errors = &mut found.rules;
    let rules = schema.validations.as_slice().iter().zip(&compiled.rules);
    for (index, (rule, program)) in rules.enumerate() {
        let place = path.child(VALIDATIONS).index(index);
        if let Some(error) = &program.error {
            let detail = error.as_str();
            errors.push(FieldError::invalid(
                &place.child("rule"),
                shown(rule),
                detail,
            ));
        }
        if let Some(error) = &program.message_error {
            let detail = error.as_str();
            errors.push(FieldError::invalid(
                &place.child("messageExpression"),
                shown(rule),
                detail,
            ));
        }
        match (
            program.uses_old_self,
            &around.uncorrelatable,
            rule.optional_old_self,
        ) {
            (true, Some(above), _) => {
                let detail = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {above}"
                );
                let rule = rule.rule.as_str();
                errors.push(FieldError::invalid(&place.child("rule"), rule, detail));
            }
            (false, _, Some(optional)) => {
                let detail = "may not be set if oldSelf is not used in rule";
                errors.push(FieldError::invalid(
                    &place.child("optionalOldSelf"),
                    optional,
                    detail,
                ));
            }
            _ => {}
        }
    }
}

/// Judges what the expressions of a node may cost: rules as often as the node may be there, messages once.
fn estimate(
    around: &Surroundings<'_>,
    (schema, level): (&Schema, Level),
    compiled: &CompiledRules,
    path: &FieldPath,
    found: &mut SchemaErrors,
) {
    let (Some(extent), Some(own)) = (extent(schema, level), &compiled.declaration) else {
        return;
    };
    let count = around
        .cardinality
        .unwrap_or_else(|| cardinality_max(&extent));
    let rules = schema.validations.as_slice().iter().zip(&compiled.rules);
    for (index, (rule, programs)) in rules.enumerate() {
        let place = path.child(VALIDATIONS).index(index);
        let declarations = rule_declarations(rule, own);
        let cost = |program: &Program| program.cost(&declarations, &extent.sizes);
        let expressions = [
            ("rule", "estimated rule cost", &programs.program, count),
            (
                "messageExpression",
                "estimated messageExpression cost",
                &programs.message,
                1,
            ),
        ];
        for (field, what, program, count) in expressions {
            let Some(program) = program else { continue };
            let (place, cost) = (place.child(field), cost(program).saturating_mul(count));
            if around.each_expression == EachExpression::Judged {
                found.rules.extend(costs::judge(&place, what, cost));
            }
            found.costs.observe(&place, cost);
        }
    }
}

/// A rule as messages show it: under the names that it has inside of Kubernetes.
fn shown(rule: &Rule) -> Value {
    serde_json::json!({
        "Rule": rule.rule,
        "Message": rule.message.as_deref().unwrap_or_default(),
        "MessageExpression": rule.message_expression.as_deref().unwrap_or_default(),
        "Reason": rule.reason,
        "FieldPath": rule.field_path.as_deref().unwrap_or_default(),
        "OptionalOldSelf": rule.optional_old_self,
    })
}
