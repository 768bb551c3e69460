//! Bounds, multiples and ranges of numbers.
//!
//! Bounds are floats, whatever the number is; an integer meets them truncated. A bound that the type of the field
//! cannot hold is itself reported. Both as in Kubernetes.
//!
//! Source: `kube-openapi/pkg/validation/validate/{validator,values}.go`, `go-openapi/swag/convert.go`.

use serde_json::{Number, Value};

use super::messages::{Failure, Outcome, Place};
use crate::structural::{Bound, Constraints, Schema, ValueType};

/// Integers up to here are exact as floats: 2^53 - 1.
const JSON_INTEGER_MAX: f64 = 9_007_199_254_740_991.0;

/// Relative error up to which a quotient counts as integral.
const QUOTIENT_ERROR_MAX: f64 = 1e-9;

/// A number as Go holds it.
#[derive(Debug, Clone, Copy)]
enum Amount {
    Integer(i64),
    Float(f64),
}

/// Judges a number.
pub(super) fn validate(
    number: &Number,
    schema: &Schema,
    format: Option<&str>,
    place: Place<'_>,
) -> Outcome {
    let mut outcome = Outcome::default();
    let amount = Amount::from(number);
    let range = Range::of(schema, format);
    if let Some(failure) = range.failure(amount, "Checked", place) {
        outcome.add(failure);
    }
    let Some(constraints) = schema.constraints.as_deref() else {
        return outcome;
    };
    multiple(amount, constraints, &range, place, &mut outcome);
    if let Some(bound) = constraints.minimum {
        let words = if bound.exclusive {
            "greater than"
        } else {
            "greater than or equal to"
        };
        bounded(
            amount,
            bound,
            words,
            &range,
            ("Minimum boundary", place),
            &mut outcome,
        );
    }
    if let Some(bound) = constraints.maximum {
        let words = if bound.exclusive {
            "less than"
        } else {
            "less than or equal to"
        };
        bounded(
            amount,
            bound,
            words,
            &range,
            ("Maximum boundary", place),
            &mut outcome,
        );
    }
    outcome
}

/// Whether a float counts as a JSON integer.
pub(super) fn is_integral(float: f64) -> bool {
    if !float.is_finite() || float.abs() > JSON_INTEGER_MAX {
        return false;
    }
    let whole = float.trunc();
    let difference = (float - whole).abs();
    difference == 0.0 || difference / (float.abs() + whole.abs()) < QUOTIENT_ERROR_MAX
}

fn bounded(
    amount: Amount,
    bound: Bound,
    words: &str,
    range: &Range<'_>,
    (prefix, place): (&str, Place<'_>),
    outcome: &mut Outcome,
) {
    let misfit = range.failure(Amount::Float(bound.value), prefix, place);
    let is_minimum = words.starts_with("greater");
    // A bound of the wrong type is compared as a float.
    let (broken, shown) = match amount {
        Amount::Integer(integer) if misfit.is_none() => {
            let limit = truncated(bound.value);
            let order = if is_minimum {
                limit.cmp(&integer)
            } else {
                integer.cmp(&limit)
            };
            (
                order.is_gt() || (bound.exclusive && order.is_eq()),
                limit.to_string(),
            )
        }
        _ => {
            let float = amount.float();
            let (low, high) = if is_minimum {
                (float, bound.value)
            } else {
                (bound.value, float)
            };
            (
                low < high || (bound.exclusive && low <= high),
                dialect::float(bound.value),
            )
        }
    };
    outcome.failures.extend(misfit);
    if broken {
        let rest = format_args!("should be {words} {shown}");
        outcome.add(Failure::invalid(place, amount.value(), rest));
    }
}

fn multiple(
    amount: Amount,
    constraints: &Constraints,
    range: &Range<'_>,
    place: Place<'_>,
    outcome: &mut Outcome,
) {
    let Some(factor) = constraints.multiple_of else {
        return;
    };
    let misfit = range.failure(Amount::Float(factor), "MultipleOf", place);
    let (positive, divides, factor, shown) = match amount {
        Amount::Integer(integer) if misfit.is_none() => {
            let factor = truncated(factor);
            (
                factor > 0,
                factor > 0 && integer % factor == 0,
                Value::from(factor),
                factor.to_string(),
            )
        }
        _ => {
            let float = amount.float();
            let quotient = if factor < 1.0 {
                1.0 / factor * float
            } else {
                float / factor
            };
            (
                factor > 0.0,
                is_integral(quotient),
                Value::from(factor),
                dialect::float(factor),
            )
        }
    };
    outcome.failures.extend(misfit);
    if !positive {
        let text = format!(
            "factor MultipleOf declared for {} must be positive: {shown}",
            place.path
        );
        outcome.add(Failure::worded(place, factor, text));
    } else if !divides {
        let rest = format_args!("should be a multiple of {shown}");
        outcome.add(Failure::invalid(place, amount.value(), rest));
    }
}

/// The integer part, saturating.
#[expect(clippy::cast_possible_truncation, reason = "saturates, as documented")]
fn truncated(float: f64) -> i64 {
    float as i64
}

/// What the type and the format of a field can hold.
struct Range<'s> {
    value_type: Option<ValueType>,
    format: Option<&'s str>,
}

// === impl Range ===

impl<'s> Range<'s> {
    /// Only a single type restricts, and only a format of that type.
    fn of(schema: &'s Schema, format: Option<&'s str>) -> Self {
        let value_type = if schema.int_or_string {
            None
        } else {
            schema.value_type
        };
        let format = format.filter(|format| match value_type {
            Some(ValueType::Integer) => matches!(*format, "int32" | "int64"),
            Some(ValueType::Number) => matches!(*format, "float" | "double"),
            _ => false,
        });
        Self { value_type, format }
    }

    fn failure(&self, amount: Amount, prefix: &str, place: Place<'_>) -> Option<Failure> {
        let holds = match (self.value_type, self.format) {
            (Some(ValueType::Integer), format) => match amount {
                Amount::Integer(integer) => {
                    format != Some("int32") || i32::try_from(integer).is_ok()
                }
                Amount::Float(float) => {
                    let limit = if format == Some("int32") {
                        2_147_483_648.0
                    } else {
                        9.223_372_036_854_776e18
                    };
                    float.fract().abs() == 0.0 && float >= -limit && float < limit
                }
            },
            (_, Some("float")) => amount.float().abs() <= f64::from(f32::MAX),
            _ => true,
        };
        if holds {
            return None;
        }
        let type_name = self.value_type.map_or("", ValueType::as_str);
        let form = match self.format {
            Some(format) => format!("with format {format}"),
            None => "(default format)".to_owned(),
        };
        let text = format!(
            "{prefix} value must be of type {type_name} {form} in {}",
            place.path
        );
        Some(Failure::general(place, text))
    }
}

// === impl Amount ===

impl From<&Number> for Amount {
    fn from(number: &Number) -> Self {
        match number.as_i64() {
            Some(integer) => Self::Integer(integer),
            // Without arbitrary precision every number is a float.
            None => Self::Float(number.as_f64().unwrap_or(f64::INFINITY)),
        }
    }
}

impl Amount {
    #[expect(clippy::cast_precision_loss, reason = "as Go converts it")]
    fn float(self) -> f64 {
        match self {
            Self::Integer(integer) => integer as f64,
            Self::Float(float) => float,
        }
    }

    fn value(self) -> Value {
        match self {
            Self::Integer(integer) => Value::from(integer),
            Self::Float(float) => Value::from(float),
        }
    }
}
