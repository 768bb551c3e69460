//! The value keywords of OpenAPI, as the validator of Kubernetes reads them, with its quirks: messages, their order,
//! and which alternative of `anyOf` is reported.
//!
//! Source: `kube-openapi/pkg/validation/validate`, `apiextensions-apiserver/pkg/apiserver/validation`.

use api::{FieldError, FieldPath};
use dialect::formats::{is_known_format, matches};
use serde_json::{Map, Value};

use super::correlation::Correlation;
use super::formats;
use super::messages::{Failure, Outcome, Place};
use super::numbers;
use crate::path::Path;
use crate::structural::{Additional, Constraints, Schema, ValueType};

/// Judges `value` by keywords; `old` is what it replaces.
pub(super) fn validate(
    value: &Value,
    schema: &Schema,
    old: Option<Correlation<'_>>,
    base: &FieldPath,
) -> Vec<FieldError> {
    let place = Place {
        base,
        path: &Path::Root,
    };
    ratcheted(value, schema, old, place).into_errors()
}

/// Judges a node; what is wrong with an unchanged one is tolerated.
fn ratcheted(
    value: &Value,
    schema: &Schema,
    old: Option<Correlation<'_>>,
    place: Place<'_>,
) -> Outcome {
    let mut outcome = node(value, schema, old, place);
    if !outcome.is_valid() && old.is_some_and(|old| old.is_unchanged(value, schema)) {
        outcome.failures.clear();
    }
    outcome
}

fn node(value: &Value, schema: &Schema, old: Option<Correlation<'_>>, place: Place<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    let format = formats::effective(schema);
    if value.is_null() {
        outcome.merge(null(schema, place));
        return outcome;
    }
    if schema.value_type.is_some() || schema.int_or_string || format.is_some() {
        outcome.merge(types(value, schema, format, place));
        outcome.checks_count += 1;
    }
    let constraints = schema.constraints.as_deref();
    if let Some(constraints) = constraints {
        outcome.merge(combinators(value, constraints, old, place));
    }
    // The combinators and the enumeration count as made in any case.
    outcome.checks_count += 3;
    match value {
        Value::String(text) => {
            if let Some(failure) = constraints.and_then(|it| string(text, it, place)) {
                outcome.add(failure);
            }
            outcome.checks_count += 1;
            if let Some(format) = format.filter(|it| is_known_format(it)) {
                if !matches(format, text) {
                    outcome.add(Failure::wrong_type(place, format, text));
                }
                outcome.checks_count += 1;
            }
        }
        Value::Number(number) => {
            outcome.merge(numbers::validate(number, schema, format, place));
            outcome.checks_count += 2;
        }
        Value::Array(items) => {
            outcome.merge(list(items, schema, old, place));
            outcome.checks_count += 2;
        }
        Value::Null | Value::Bool(_) | Value::Object(_) => {}
    }
    if let Some(failure) = constraints.and_then(|it| enumeration(value, it, place)) {
        outcome.add(failure);
    }
    if let Value::Object(fields) = value {
        outcome.merge(object(fields, schema, old, place));
        outcome.checks_count += 1;
    }
    outcome.checks_count += 1;
    if constraints.is_some() {
        outcome.deduplicate();
    }
    outcome
}

/// A null has a type and may be enumerated; nothing else applies to it.
fn null(schema: &Schema, place: Place<'_>) -> Outcome {
    let mut outcome = Outcome {
        checks_count: 1,
        ..Outcome::default()
    };
    let typed = schema.value_type.is_some() || schema.int_or_string;
    if typed && !schema.nullable {
        outcome.add(Failure::wrong_type(place, type_names(schema), "null"));
    }
    let constraints = schema.constraints.as_deref();
    if let Some(failure) = constraints.and_then(|it| enumeration(&Value::Null, it, place)) {
        outcome.add(failure);
    }
    outcome
}

fn type_names(schema: &Schema) -> &'static str {
    match (schema.int_or_string, schema.value_type) {
        (true, _) => "integer,string",
        (false, Some(value_type)) => value_type.as_str(),
        (false, None) => "",
    }
}

fn has_type(schema: &Schema, value_type: ValueType) -> bool {
    if schema.int_or_string {
        // Built-in quantities take any number.
        let any_number = schema.format.as_deref() == Some("quantity");
        matches!(value_type, ValueType::Integer | ValueType::String)
            || (any_number && value_type == ValueType::Number)
    } else {
        schema.value_type == Some(value_type)
    }
}

fn types(value: &Value, schema: &Schema, format: Option<&str>, place: Place<'_>) -> Outcome {
    let mut outcome = Outcome {
        checks_count: 1,
        ..Outcome::default()
    };
    let (found, found_format) = type_of(value);
    let is_numeric = has_type(schema, ValueType::Number) || has_type(schema, ValueType::Integer);
    let fits = has_type(schema, found)
        || (found == ValueType::Number
            && has_type(schema, ValueType::Integer)
            && value.as_f64().is_some_and(numbers::is_integral))
        || (found == ValueType::Integer && has_type(schema, ValueType::Number));
    let is_text_or_list = matches!(found, ValueType::String | ValueType::Array);
    match format {
        Some(format) if !is_text_or_list && !fits && found_format != format => {
            outcome = Outcome::default();
            outcome.add(Failure::wrong_type(place, format, found_format));
        }
        // Texts with a format are judged by the format alone, and so are lists.
        Some(_) if is_text_or_list && !is_numeric => {}
        _ if !fits => {
            outcome = Outcome::default();
            outcome.add(Failure::wrong_type(
                place,
                type_names(schema),
                found.as_str(),
            ));
        }
        _ => {}
    }
    outcome
}

/// The JSON type of a value, and the format that numbers have in Go.
fn type_of(value: &Value) -> (ValueType, &'static str) {
    match value {
        // Callers handle null; as an object it fails every check.
        Value::Null | Value::Object(_) => (ValueType::Object, ""),
        Value::Bool(_) => (ValueType::Boolean, ""),
        Value::Number(number) if number.is_i64() => (ValueType::Integer, "int64"),
        Value::Number(_) => (ValueType::Number, "float64"),
        Value::String(_) => (ValueType::String, ""),
        Value::Array(_) => (ValueType::Array, ""),
    }
}

fn string(text: &str, constraints: &Constraints, place: Place<'_>) -> Option<Failure> {
    if constraints.max_length.is_some() || constraints.min_length.is_some() {
        let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        if let Some(max) = constraints.max_length.filter(|max| length > *max) {
            return Some(Failure::too_long(place, max));
        }
        if let Some(min) = constraints.min_length.filter(|min| length < *min) {
            let rest = format_args!("should be at least {min} chars long");
            return Some(Failure::invalid(place, text, rest));
        }
    }
    let pattern = constraints.pattern.as_ref()?;
    match pattern.is_match(text) {
        Ok(true) => None,
        Ok(false) => {
            let rest = format_args!("should match '{}'", pattern.source());
            Some(Failure::invalid(place, text, rest))
        }
        Err(error) => {
            let source = pattern.source();
            let rest = format_args!("should match '{source}, but pattern is invalid: {error}'");
            Some(Failure::invalid(place, text, rest))
        }
    }
}

fn enumeration(value: &Value, constraints: &Constraints, place: Place<'_>) -> Option<Failure> {
    let permitted = &constraints.enumeration;
    if permitted.is_empty()
        || permitted
            .iter()
            .any(|it| !it.is_null() && equals(value, it))
    {
        return None;
    }
    Some(Failure::not_supported(place, value, permitted))
}

/// Numbers are equal after conversion to the type of the permitted one, which cuts fractions.
fn equals(value: &Value, permitted: &Value) -> bool {
    let (Value::Number(number), Value::Number(wanted)) = (value, permitted) else {
        return value == permitted;
    };
    match wanted.as_i64() {
        Some(_) => number.as_f64().map(f64::trunc) == wanted.as_f64() || number == wanted,
        None => number.as_f64() == wanted.as_f64(),
    }
}

fn list(
    items: &[Value],
    schema: &Schema,
    old: Option<Correlation<'_>>,
    place: Place<'_>,
) -> Outcome {
    let mut outcome = Outcome::default();
    if let Some(item_schema) = &schema.items {
        for (index, item) in items.iter().enumerate() {
            let path = Path::Index(place.path, index);
            let old = old.and_then(|old| old.item(schema, item));
            outcome.merge(ratcheted(item, item_schema, old, place.at(&path)));
        }
    }
    let Some(constraints) = schema.constraints.as_deref() else {
        return outcome;
    };
    let count = i64::try_from(items.len()).unwrap_or(i64::MAX);
    if let Some(min) = constraints.min_items.filter(|min| count < *min) {
        let rest = format_args!("should have at least {min} items");
        outcome.add(Failure::invalid(place, count, rest));
    }
    if let Some(max) = constraints.max_items.filter(|max| count > *max) {
        outcome.add(Failure::too_many(place, items.len(), max, "items"));
    }
    outcome
}

fn object(
    fields: &Map<String, Value>,
    schema: &Schema,
    old: Option<Correlation<'_>>,
    place: Place<'_>,
) -> Outcome {
    let mut outcome = Outcome::default();
    if let Some(constraints) = schema.constraints.as_deref() {
        properties_count(fields.len(), constraints, place, &mut outcome);
    }
    if let Additional::Schema(element) = &schema.additional {
        for (name, field) in fields {
            if !schema.properties.contains_key(name) {
                let path = Path::Field(place.path, name);
                let old = old.and_then(|old| old.field(schema, name));
                outcome.merge(ratcheted(field, element, old, place.at(&path)));
            }
        }
    }
    let is_root = matches!(place.path, Path::Root) && place.base.is_root();
    for (name, field) in fields {
        let Some(property) = schema.properties.get(name) else {
            continue;
        };
        let path = Path::Field(place.path, name);
        // What is new about them cannot be seen: both sides were converted to this version.
        let hidden = is_root && (name == "apiVersion" || name == "kind");
        let old = old
            .filter(|_| !hidden)
            .and_then(|old| old.field(schema, name));
        outcome.merge(ratcheted(field, property, old, place.at(&path)));
    }
    for name in &schema.required {
        if !fields.contains_key(name) {
            let path = Path::Field(place.path, name);
            outcome.add(Failure::required(place.at(&path)));
        }
    }
    outcome
}

fn properties_count(
    count: usize,
    constraints: &Constraints,
    place: Place<'_>,
    outcome: &mut Outcome,
) {
    let signed = i64::try_from(count).unwrap_or(i64::MAX);
    if let Some(min) = constraints.min_properties.filter(|min| signed < *min) {
        let rest = format_args!("should have at least {min} properties");
        outcome.add(Failure::invalid(place, signed, rest));
    }
    if let Some(max) = constraints.max_properties.filter(|max| signed > *max) {
        outcome.add(Failure::too_many(place, count, max, "properties"));
    }
}

/// `anyOf`, `oneOf`, `allOf` and `not`, in this order. Nodes inside are not ratcheted as a whole; their fields are.
fn combinators(
    value: &Value,
    constraints: &Constraints,
    old: Option<Correlation<'_>>,
    place: Place<'_>,
) -> Outcome {
    let mut outcome = Outcome::default();
    let judge = |schema: &Schema| node(value, schema, old, place);
    let quoted = || dialect::quote(&place.path.to_string());
    if !constraints.any_of.is_empty() {
        outcome.merge(any_of(&constraints.any_of, judge, place, quoted));
    }
    if !constraints.one_of.is_empty() {
        outcome.merge(one_of(&constraints.one_of, judge, place, quoted));
    }
    if !constraints.all_of.is_empty() {
        let mut valid_count = 0;
        for schema in &constraints.all_of {
            let result = judge(schema);
            valid_count += usize::from(result.is_valid());
            outcome.merge(result);
        }
        if valid_count != constraints.all_of.len() {
            let none = if valid_count == 0 {
                ". None validated"
            } else {
                ""
            };
            let text = format!("{} must validate all the schemas (allOf){none}", quoted());
            outcome.add(Failure::general(place, text));
        }
    }
    if let Some(not) = &constraints.not
        && judge(not).is_valid()
    {
        let text = format!("{} must not validate the schema (not)", quoted());
        outcome.add(Failure::general(place, text));
    }
    outcome
}

/// Keeps the result in which most was checked.
fn keep_better(best: &mut Option<Outcome>, result: Outcome) {
    if best
        .as_ref()
        .is_none_or(|best| result.checks_count > best.checks_count)
    {
        *best = Some(result);
    }
}

fn any_of(
    schemas: &[std::sync::Arc<Schema>],
    judge: impl Fn(&Schema) -> Outcome,
    place: Place<'_>,
    quoted: impl Fn() -> String,
) -> Outcome {
    let mut best_failure = None;
    for schema in schemas {
        let result = judge(schema);
        if result.is_valid() {
            return result;
        }
        keep_better(&mut best_failure, result);
    }
    let mut outcome = Outcome::default();
    let text = format!("{} must validate at least one schema (anyOf)", quoted());
    outcome.add(Failure::general(place, text));
    outcome.merge(best_failure.unwrap_or_default());
    outcome
}

fn one_of(
    schemas: &[std::sync::Arc<Schema>],
    judge: impl Fn(&Schema) -> Outcome,
    place: Place<'_>,
    quoted: impl Fn() -> String,
) -> Outcome {
    let mut best_failure = None;
    let mut first_success = None;
    let mut valid_count = 0_usize;
    for schema in schemas {
        let result = judge(schema);
        if result.is_valid() {
            valid_count += 1;
            best_failure = None;
            first_success.get_or_insert(result);
        } else if valid_count == 0 {
            keep_better(&mut best_failure, result);
        }
    }
    if valid_count == 1 {
        return first_success.unwrap_or_default();
    }
    let found = match valid_count {
        0 => "Found none valid".to_owned(),
        count => format!("Found {count} valid alternatives"),
    };
    let mut outcome = Outcome::default();
    let text = format!(
        "{} must validate one and only one schema (oneOf). {found}",
        quoted()
    );
    outcome.add(Failure::general(place, text));
    outcome.merge(best_failure.unwrap_or_default());
    outcome
}
