//! What the rules of a schema may cost, and the limits on it.
//!
//! Source: `apiextensions-apiserver/pkg/apis/apiextensions/validation/{validation,cel_validation}.go`.

use api::{FieldError, FieldPath};

/// The units of one expression (`StaticEstimatedCostLimit`).
const EXPRESSION_MAX: u64 = 10_000_000;
/// The units of all expressions of a schema (`StaticEstimatedCRDCostLimit`).
const SCHEMA_MAX: u64 = 100_000_000;
/// How many expressions are named where all of them cost too much.
const NAMED_MAX: usize = 4;

/// What is said of one expression that costs too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::definition) enum EachExpression {
    /// It is refused.
    Judged,
    /// Nothing: the schema is stored as it is.
    Accepted,
}

/// The costs of the expressions of one schema.
#[derive(Debug, Default)]
pub(super) struct Costs {
    total: u64,
    /// The most expensive ones, those first.
    named: Vec<(FieldPath, u64)>,
}

// === impl Costs ===

impl Costs {
    /// Counts an expression.
    pub(super) fn observe(&mut self, path: &FieldPath, cost: u64) {
        self.total = self.total.saturating_add(cost);
        if cost < SCHEMA_MAX / 100 {
            return;
        }
        self.named.push((path.clone(), cost));
        self.shorten();
    }

    /// Counts those of a part of the schema.
    pub(super) fn add(&mut self, other: Self) {
        self.total = self.total.saturating_add(other.total);
        self.named.extend(other.named);
        self.shorten();
    }

    fn shorten(&mut self) {
        self.named.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
        self.named.truncate(NAMED_MAX);
    }

    /// Returns what is wrong with all of them together.
    pub(super) fn judge(&self, path: &FieldPath) -> Vec<FieldError> {
        if self.total <= SCHEMA_MAX {
            return Vec::new();
        }
        let detail = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
        let named = self.named.iter();
        let mut errors: Vec<_> = named
            .map(|(path, _)| FieldError::forbidden(path, detail))
            .collect();
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.push(exceeded(path, what, self.total, SCHEMA_MAX));
        errors
    }
}

/// Returns what is wrong with one expression.
pub(super) fn judge(path: &FieldPath, what: &str, cost: u64) -> Option<FieldError> {
    (cost > EXPRESSION_MAX).then(|| exceeded(path, what, cost, EXPRESSION_MAX))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a factor is shown to one digit, or to six"
)]
fn exceeded(path: &FieldPath, what: &str, cost: u64, limit: u64) -> FieldError {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    let detail = format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    );
    FieldError::forbidden(path, detail)
}
