//! One requirement of a label selector.

use std::fmt;

use super::{Labels, ParseSelectorError};
use crate::field::{self, FieldError, FieldPath};
use crate::validation::{is_label_value, is_qualified_name};

/// How key and values relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// The label has one of the values.
    In,
    /// The label has none of the values, or is absent.
    NotIn,
    /// The label has the value; written `=`.
    Equals,
    /// The same, written `==`.
    DoubleEquals,
    /// The label has another value, or is absent.
    NotEquals,
    /// The label is there.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The label is an integer above the value.
    GreaterThan,
    /// The label is an integer below the value.
    LessThan,
}

/// What one label must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
    /// Whether the values are in order, so that a set of many is not walked for each object.
    sorted: bool,
}

// === impl Requirement ===

impl Requirement {
    /// Makes a requirement, if key, operator and values go together.
    pub fn new(
        key: impl Into<String>,
        operator: Operator,
        values: Vec<String>,
    ) -> Result<Self, ParseSelectorError> {
        let requirement = Self {
            key: key.into(),
            operator,
            sorted: values.is_sorted(),
            values,
        };
        let errors = requirement.validate();
        if errors.is_empty() {
            Ok(requirement)
        } else {
            Err(ParseSelectorError::new(field::aggregate(&errors)))
        }
    }

    /// Borrows the key of the label.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the relation of key and values.
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// Borrows the values.
    pub fn values(&self) -> &[String] {
        &self.values
    }

    /// Returns whether labels meet the requirement.
    pub fn matches<L: Labels + ?Sized>(&self, labels: &L) -> bool {
        let value = labels.value(&self.key);
        let has = |value: &str| {
            if self.sorted {
                let found = self
                    .values
                    .binary_search_by(|known| known.as_str().cmp(value));
                found.is_ok()
            } else {
                self.values.iter().any(|known| known == value)
            }
        };
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => value.is_some_and(has),
            Operator::NotIn | Operator::NotEquals => !value.is_some_and(has),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => self.compare(value).is_some_and(|(is, bound)| is > bound),
            Operator::LessThan => self.compare(value).is_some_and(|(is, bound)| is < bound),
        }
    }

    fn compare(&self, value: Option<&str>) -> Option<(i64, i64)> {
        Some((value?.parse().ok()?, self.values.first()?.parse().ok()?))
    }

    fn validate(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let wrong = is_qualified_name(&self.key);
        if !wrong.is_empty() {
            let path = FieldPath::new("key");
            errors.push(FieldError::invalid(
                &path,
                self.key.as_str(),
                wrong.join("; "),
            ));
        }
        let path = FieldPath::new("values");
        let count = self.values.len();
        let detail = match self.operator {
            Operator::In | Operator::NotIn if count == 0 => {
                Some("for 'in', 'notin' operators, values set can't be empty")
            }
            Operator::Equals | Operator::DoubleEquals | Operator::NotEquals if count != 1 => {
                Some("exact-match compatibility requires one single value")
            }
            Operator::Exists | Operator::DoesNotExist if count != 0 => {
                Some("values set must be empty for exists and does not exist")
            }
            Operator::GreaterThan | Operator::LessThan if count != 1 => {
                Some("for 'Gt', 'Lt' operators, exactly one value is required")
            }
            _ => None,
        };
        if let Some(detail) = detail {
            errors.push(FieldError::invalid(&path, self.values.clone(), detail));
        }
        for (index, value) in self.values.iter().enumerate() {
            let path = path.index(index);
            if matches!(self.operator, Operator::GreaterThan | Operator::LessThan)
                && value.parse::<i64>().is_err()
            {
                errors.push(FieldError::invalid(
                    &path,
                    value.as_str(),
                    "for 'Gt', 'Lt' operators, the value must be an integer",
                ));
            }
            let wrong = is_label_value(value);
            if !wrong.is_empty() {
                let path = path.key(&self.key);
                errors.push(FieldError::invalid(&path, value.as_str(), wrong.join("; ")));
            }
        }
        errors
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let mut sorted: Vec<&str> = self.values.iter().map(String::as_str).collect();
        sorted.sort_unstable();
        let values = sorted.join(",");
        match self.operator {
            Operator::Exists => f.write_str(key),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}
