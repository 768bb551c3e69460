//! The object form of label selectors, as it stands in specs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Operator, ParseSelectorError, Requirement, Selector};
use crate::field::{FieldError, FieldPath};
use crate::validation::{is_label_value, is_qualified_name};
use crate::wire::{is_default, or_default};
use dialect::quote;

/// Which labels are selected: all of the map and all of the expressions. An empty one selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Labels with their values.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub match_labels: BTreeMap<String, String>,
    /// Everything else.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

/// What one label must be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelectorRequirement {
    /// The key of the label.
    #[serde(deserialize_with = "or_default")]
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    #[serde(deserialize_with = "or_default")]
    pub operator: String,
    /// The values, where the operator takes any.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub values: Vec<String>,
}

// === impl LabelSelector ===

impl LabelSelector {
    /// Converts to the form that matches.
    ///
    /// # Errors
    /// Where an operator is unknown, or key, operator and values do not go together.
    pub fn to_selector(&self) -> Result<Selector, ParseSelectorError> {
        let mut requirements = Vec::new();
        for (key, value) in &self.match_labels {
            let values = vec![value.clone()];
            requirements.push(Requirement::new(key.as_str(), Operator::Equals, values)?);
        }
        for expression in &self.match_expressions {
            let operator = expression.operator().ok_or_else(|| {
                ParseSelectorError::new(format!(
                    "{} is not a valid label selector operator",
                    quote(&expression.operator)
                ))
            })?;
            let values = expression.values.clone();
            requirements.push(Requirement::new(expression.key.as_str(), operator, values)?);
        }
        Ok(Selector::new(requirements))
    }

    /// Judges the selector as a part of an object.
    pub fn validate(&self, path: &FieldPath) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let labels_path = path.child("matchLabels");
        for (key, value) in &self.match_labels {
            push_invalid(&mut errors, &labels_path, key, is_qualified_name(key));
            push_invalid(&mut errors, &labels_path, value, is_label_value(value));
        }
        let expressions_path = path.child("matchExpressions");
        for (index, expression) in self.match_expressions.iter().enumerate() {
            errors.extend(expression.validate(&expressions_path.index(index)));
        }
        errors
    }
}

// === impl LabelSelectorRequirement ===

impl LabelSelectorRequirement {
    fn operator(&self) -> Option<Operator> {
        Some(match self.operator.as_str() {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            _ => return None,
        })
    }

    fn validate(&self, path: &FieldPath) -> Vec<FieldError> {
        let mut errors = Vec::new();
        match self.operator() {
            Some(Operator::In | Operator::NotIn) => {
                if self.values.is_empty() {
                    errors.push(FieldError::required(
                        &path.child("values"),
                        "must be specified when `operator` is 'In' or 'NotIn'",
                    ));
                }
            }
            Some(_) => {
                if !self.values.is_empty() {
                    errors.push(FieldError::forbidden(
                        &path.child("values"),
                        "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                    ));
                }
            }
            None => errors.push(FieldError::invalid(
                &path.child("operator"),
                self.operator.as_str(),
                "not a valid selector operator",
            )),
        }
        push_invalid(
            &mut errors,
            &path.child("key"),
            &self.key,
            is_qualified_name(&self.key),
        );
        for (index, value) in self.values.iter().enumerate() {
            let path = path.child("values").index(index);
            push_invalid(&mut errors, &path, value, is_label_value(value));
        }
        errors
    }
}

fn push_invalid(errors: &mut Vec<FieldError>, path: &FieldPath, value: &str, wrong: Vec<String>) {
    errors.extend(
        wrong
            .into_iter()
            .map(|text| FieldError::invalid(path, value, text)),
    );
}
