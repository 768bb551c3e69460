//! Judges an object against its schema, in Kubernetes' words.
//!
//! Text order is run order: value checks, embedded resources, uniqueness in sets and maps, rules. An update tolerates
//! what the old object already had wrong and the update does not touch (ratcheting). Rules do not run on objects whose
//! types or sizes are already wrong.
//!
//! Invariant: an object without findings satisfies its schema wholly, unless `old` was given.
//!
//! Source: `apiextensions-apiserver/pkg/registry/customresource/{strategy,status_strategy,validator}.go`.

use api::{FieldError, FieldErrorKind, FieldPath};
use serde_json::Value;

use crate::structural::Schema;

mod correlation;
mod declarations;
mod embedded;
mod field_path;
mod formats;
mod keywords;
mod lists;
mod messages;
mod numbers;
mod rules;
mod sizes;

pub use declarations::{Level, declaration};
pub(crate) use field_path::{Brackets, resolve as resolve_field_path};
pub(crate) use formats::is_recognised as is_recognised_format;
pub(crate) use rules::{compiled_rules, rule_declarations, run_rules_on_default};
pub(crate) use sizes::{cardinality_max, extent, multiplies};

use correlation::Correlation;

/// What is wrong with an object, and what is only doubtful.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// Broken rules; the object is refused unless empty.
    pub errors: Vec<FieldError>,
    /// Broken rules that the old object already broke, as `Warning` texts.
    pub warnings: Vec<String>,
}

/// Which part of an object a request may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// All but the status, or all where there is no status subresource.
    Object,
    /// The status alone.
    Status,
}

/// What is wrong with `object`; with `old`, it replaces that.
pub fn validate(object: &Value, schema: &Schema, old: Option<&Value>) -> Vec<FieldError> {
    inspect(object, schema, old, Part::Object, &[]).errors
}

/// Like [`validate`], with warnings, and for the status subresource too. `before` is what was found wrong with the object already: rules
/// may not be checked because of that.
pub fn inspect(
    object: &Value,
    schema: &Schema,
    old: Option<&Value>,
    part: Part,
    before: &[FieldError],
) -> Findings {
    let errors = match part {
        Part::Object => keywords::validate(
            object,
            schema,
            old.map(Correlation::new),
            &FieldPath::root(),
        ),
        Part::Status => validate_status(object, schema, old),
    };
    let mut findings = Findings {
        errors,
        warnings: Vec::new(),
    };
    findings.errors.extend(embedded::validate(object, schema));
    findings.errors.extend(validate_lists(object, schema, old));
    if schema.below.rules {
        let mut errors = before.iter().chain(&findings.errors);
        if errors.any(suppresses_rules) {
            findings.errors.push(FieldError::invalid(
                &FieldPath::root(),
                Value::Null,
                "some validation rules were not checked because the object was invalid; correct the existing errors \
                 to complete validation",
            ));
        } else {
            rules::run(object, schema, old, &mut findings);
        }
    }
    findings
}

fn validate_status(object: &Value, schema: &Schema, old: Option<&Value>) -> Vec<FieldError> {
    let (Some(status), Some(status_schema)) =
        (object.get("status"), schema.properties.get("status"))
    else {
        return Vec::new();
    };
    let old_status = old.map(|old| Correlation::new(old.get("status").unwrap_or(&Value::Null)));
    keywords::validate(status, status_schema, old_status, &FieldPath::new("status"))
}

/// Duplicates are tolerated altogether where the old object had any.
fn validate_lists(object: &Value, schema: &Schema, old: Option<&Value>) -> Vec<FieldError> {
    let tolerated = old.is_some_and(|old| !lists::validate(old, schema).is_empty());
    if tolerated {
        Vec::new()
    } else {
        lists::validate(object, schema)
    }
}

/// Rules assume the types and sizes that the schema promises.
fn suppresses_rules(error: &FieldError) -> bool {
    matches!(
        error.kind,
        FieldErrorKind::NotSupported
            | FieldErrorKind::Required
            | FieldErrorKind::TooLong
            | FieldErrorKind::TooMany
            | FieldErrorKind::TypeInvalid
    )
}

/// What is wrong with a part of an object by value checks alone: used for defaults of definitions.
pub(crate) fn validate_value(value: &Value, schema: &Schema, path: &FieldPath) -> Vec<FieldError> {
    keywords::validate(value, schema, None, path)
}

/// Embedded resources in a default; the value itself counts as one where `schema` says so.
pub(crate) fn validate_embedded(
    value: &Value,
    schema: &Schema,
    path: &FieldPath,
) -> Vec<FieldError> {
    embedded::validate_at(value, schema, path)
}
