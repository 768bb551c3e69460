//! Field selectors: which values the fields of an object must have.
//!
//! Parsing does not know which fields a kind can be selected by; that is for the one who serves it.
//!
//! Source: `apimachinery/pkg/fields/selector.go`.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::fmt;

use super::SELECTOR_BYTES_MAX;

/// Terms of a selector, each of which is held against every object of a list.
const TERMS_MAX: usize = 256;

/// A text that is no field selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseFieldSelectorError {
    /// A text that is too long, or has too many terms.
    #[error(
        "invalid field selector: at most {SELECTOR_BYTES_MAX} bytes and {TERMS_MAX} terms are allowed"
    )]
    TooLarge,
    /// A term without an operator.
    #[error("invalid selector: '{selector}'; can't understand '{term}'")]
    Term {
        /// The whole selector.
        selector: String,
        /// The term.
        term: String,
    },
    /// A backslash before something that needs none.
    #[error("invalid field selector: invalid escape sequence: {sequence}")]
    Escape {
        /// The backslash and what follows.
        sequence: String,
    },
    /// A comma or an equals sign in a value without a backslash.
    #[error("invalid field selector: unescaped character in value: {}", u32::from(*character))]
    Unescaped {
        /// The character, which Kubernetes prints as a number.
        character: char,
    },
}

/// How a field and a value relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldOperator {
    /// The field has the value.
    Equals,
    /// The field has another value.
    NotEquals,
}

/// What one field must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRequirement {
    /// The field, `metadata.name` for example.
    pub path: String,
    /// How field and value relate.
    pub operator: FieldOperator,
    /// The value.
    pub value: String,
}

/// Which fields an object must have. The default selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

// === impl FieldSelector ===

impl FieldSelector {
    /// Parses the text form, `metadata.name=a,spec.x!=b` for example.
    pub fn parse(text: &str) -> Result<Self, ParseFieldSelectorError> {
        let mut terms = split_terms(text);
        if text.len() > SELECTOR_BYTES_MAX || terms.len() > TERMS_MAX {
            return Err(ParseFieldSelectorError::TooLarge);
        }
        terms.sort_unstable();
        let mut requirements = Vec::new();
        for term in terms.into_iter().filter(|term| !term.is_empty()) {
            let Some((path, operator, value)) = split_term(term) else {
                return Err(ParseFieldSelectorError::Term {
                    selector: text.to_owned(),
                    term: term.to_owned(),
                });
            };
            let value = unescape(value)?;
            if path.is_empty() && value.is_empty() {
                // Selects everything, whatever the operator; so does Kubernetes read it.
                continue;
            }
            requirements.push(FieldRequirement {
                path: path.to_owned(),
                operator,
                value,
            });
        }
        Ok(Self { requirements })
    }

    /// Selects by the name alone.
    pub fn name(name: &str) -> Self {
        Self::equals("metadata.name", name)
    }

    /// Selects by one field alone. The value may be any text.
    pub fn equals(path: &'static str, value: &str) -> Self {
        Self {
            requirements: vec![FieldRequirement {
                path: path.to_owned(),
                operator: FieldOperator::Equals,
                value: value.to_owned(),
            }],
        }
    }

    /// Borrows the requirements, in the order of their terms.
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// Returns whether every object is selected.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Returns which value a field must have, if the selector says one.
    pub fn exact(&self, path: &str) -> Option<&str> {
        self.requirements
            .iter()
            .find(|it| it.path == path && it.operator == FieldOperator::Equals)
            .map(|it| it.value.as_str())
    }

    /// Returns whether fields are selected; `field` reads one, and what is missing reads as empty.
    pub fn matches<'a>(&self, mut field: impl FnMut(&str) -> &'a str) -> bool {
        self.requirements.iter().all(|requirement| {
            let equal = field(&requirement.path) == requirement.value;
            equal == (requirement.operator == FieldOperator::Equals)
        })
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            let operator = match requirement.operator {
                FieldOperator::Equals => "=",
                FieldOperator::NotEquals => "!=",
            };
            write!(
                f,
                "{}{operator}{}",
                requirement.path,
                escape(&requirement.value)
            )?;
        }
        Ok(())
    }
}

impl std::str::FromStr for FieldSelector {
    type Err = ParseFieldSelectorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

/// Splits at commas that no backslash precedes; the backslashes stay.
fn split_terms(text: &str) -> Vec<&str> {
    let mut escaped = false;
    text.split(|character| {
        let splits = !escaped && character == ',';
        escaped = !escaped && character == '\\';
        splits
    })
    .collect()
}

/// Splits at the first operator.
fn split_term(term: &str) -> Option<(&str, FieldOperator, &str)> {
    let position = term
        .char_indices()
        .map(|(position, _)| position)
        .find(|&position| {
            term.get(position..)
                .is_some_and(|rest| rest.starts_with("!=") || rest.starts_with('='))
        })?;
    let (path, rest) = term.split_at_checked(position)?;
    if let Some(value) = rest.strip_prefix("!=") {
        return Some((path, FieldOperator::NotEquals, value));
    }
    let value = rest.strip_prefix("==").or_else(|| rest.strip_prefix('='))?;
    Some((path, FieldOperator::Equals, value))
}

fn unescape(text: &str) -> Result<String, ParseFieldSelectorError> {
    let mut value = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => value.push(escaped),
                other => {
                    let mut sequence = String::from('\\');
                    sequence.extend(other);
                    return Err(ParseFieldSelectorError::Escape { sequence });
                }
            },
            ',' | '=' => return Err(ParseFieldSelectorError::Unescaped { character }),
            plain => value.push(plain),
        }
    }
    Ok(value)
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '\\' | ',' | '=') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}
