//! Findings of value checks while they are being collected: deduplicated by their text, counted for choosing the
//! most telling alternative.
//!
//! Source: `kube-openapi/pkg/validation/{validate/result.go,errors/schema.go}`,
//! `apiextensions-apiserver/pkg/apiserver/validation/validation.go`.

use std::collections::HashSet;
use std::fmt;

use api::{FINDINGS_MAX, FieldError, FieldPath};
use serde_json::Value;

use crate::path::Path;

/// What a schema says of a value.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) failures: Vec<Failure>,
    /// Checks that were made, whatever their result: among alternatives the one with most is reported.
    pub(super) checks_count: u64,
}

/// One broken rule.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    /// Identity: the same text is reported once.
    text: String,
    error: FieldError,
}

/// Where findings are reported: the base of the walk and the place in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) base: &'a FieldPath,
    pub(super) path: &'a Path<'a>,
}

// === impl Outcome ===

impl Outcome {
    pub(super) fn is_valid(&self) -> bool {
        self.failures.is_empty()
    }

    pub(super) fn add(&mut self, failure: Failure) {
        if self.failures.len() < FINDINGS_MAX {
            self.failures.push(failure);
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.checks_count = self.checks_count.saturating_add(other.checks_count);
        if self.failures.is_empty() {
            self.failures = other.failures;
            return;
        }
        let room = FINDINGS_MAX.saturating_sub(self.failures.len());
        self.failures.extend(other.failures.into_iter().take(room));
    }

    /// Removes repeated texts, which alternatives of one node produce.
    pub(super) fn deduplicate(&mut self) {
        let mut seen = HashSet::with_capacity(self.failures.len());
        self.failures
            .retain(|failure| seen.insert(failure.text.clone()));
    }

    pub(super) fn into_errors(mut self) -> Vec<FieldError> {
        self.deduplicate();
        self.failures
            .into_iter()
            .map(|failure| failure.error)
            .collect()
    }
}

// === impl Failure ===

impl Failure {
    /// A sentence about the object as a whole.
    pub(super) fn general(place: Place<'_>, text: String) -> Self {
        Self {
            error: FieldError::invalid(place.base, "", text.clone()),
            text,
        }
    }

    /// `<path> in body <rest>`.
    pub(super) fn invalid(
        place: Place<'_>,
        value: impl Into<Value>,
        rest: impl fmt::Display,
    ) -> Self {
        let text = place.in_body(rest);
        Self {
            error: FieldError::invalid(&place.field(), value, text.clone()),
            text,
        }
    }

    /// A text of its own.
    pub(super) fn worded(place: Place<'_>, value: impl Into<Value>, text: String) -> Self {
        Self {
            error: FieldError::invalid(&place.field(), value, text.clone()),
            text,
        }
    }

    /// A value of a wrong type; `found` names the type, or is the text that is not of the format.
    pub(super) fn wrong_type(place: Place<'_>, expected: &str, found: &str) -> Self {
        let quoted = dialect::quote(found);
        let text = place.in_body(format_args!("must be of type {expected}: {quoted}"));
        Self {
            error: FieldError::type_invalid(&place.field(), found, text.clone()),
            text,
        }
    }

    pub(super) fn required(place: Place<'_>) -> Self {
        let error = FieldError::required(&place.field(), "");
        Self {
            text: place.in_body("is required"),
            error,
        }
    }

    pub(super) fn not_supported(place: Place<'_>, value: &Value, supported: &[Value]) -> Self {
        let texts: Vec<String> = supported
            .iter()
            .map(|it| {
                it.as_str()
                    .map_or_else(|| dialect::json::to_string(it), str::to_owned)
            })
            .collect();
        let error = FieldError::not_supported(
            &place.field(),
            value.clone(),
            texts.iter().map(String::as_str),
        );
        Self {
            text: place.in_body(format_args!("should be one of {texts:?}")),
            error,
        }
    }

    pub(super) fn too_long(place: Place<'_>, length_max: i64) -> Self {
        let text = place.in_body(format_args!("should be at most {length_max} chars long"));
        let bytes_max = usize::try_from(length_max);
        let mut error = FieldError::too_long(&place.field(), bytes_max.unwrap_or(0));
        if bytes_max.is_err() {
            // Nothing is short enough.
            "value is too long".clone_into(&mut error.detail);
        }
        Self { text, error }
    }

    /// Too many `members`, which are `items` or `properties`.
    pub(super) fn too_many(place: Place<'_>, count: usize, count_max: i64, members: &str) -> Self {
        let text = place.in_body(format_args!("should have at most {count_max} {members}"));
        let count_max = usize::try_from(count_max).unwrap_or(0);
        Self {
            error: FieldError::too_many(&place.field(), count, count_max),
            text,
        }
    }
}

// === impl Place ===

impl<'a> Place<'a> {
    pub(super) fn at(self, path: &'a Path<'a>) -> Self {
        Self {
            base: self.base,
            path,
        }
    }

    pub(super) fn field(self) -> FieldPath {
        match self.path {
            Path::Root => self.base.clone(),
            path => match path.to_string() {
                // A field without a name.
                text if text.is_empty() => self.base.clone(),
                text => self.base.child(&text),
            },
        }
    }

    fn in_body(self, rest: impl fmt::Display) -> String {
        format!("{} in body {rest}", self.path)
    }
}
