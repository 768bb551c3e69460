//! The text form of label selectors: a scanner and a recursive descent, with the errors of apimachinery.
//!
//! Source: `apimachinery/pkg/labels/selector.go`.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::collections::BTreeSet;

use super::{Operator, ParseSelectorError, Requirement, SELECTOR_BYTES_MAX};
use crate::field::{FieldError, FieldPath};
use crate::validation::is_qualified_name;

const BINARY_OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";
/// Requirements of a selector, each of which is held against every object of a list.
const REQUIREMENTS_MAX: usize = 256;
/// Special symbols of the longest operator.
const OPERATOR_SYMBOLS_MAX: usize = 2;

/// Parses the comma-separated requirements.
///
/// The scanner looks at each byte a bounded number of times, and the parser at each token.
pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, ParseSelectorError> {
    if text.len() > SELECTOR_BYTES_MAX {
        return Err(ParseSelectorError::new(format!(
            "the selector has {} bytes: at most {SELECTOR_BYTES_MAX} are allowed",
            text.len()
        )));
    }
    let mut parser = Parser {
        tokens: scan(text),
        position: 0,
    };
    parser.selector()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Error,
    End,
    ClosedParenthesis,
    Comma,
    Not,
    DoubleEquals,
    Equals,
    Greater,
    Identifier,
    In,
    Less,
    NotEquals,
    NotIn,
    OpenParenthesis,
}

#[derive(Clone, Debug)]
struct Token {
    kind: Kind,
    literal: String,
}

/// Whether `in` and `notin` are operators here, or just words.
#[derive(Clone, Copy)]
enum Context {
    KeyAndOperator,
    Values,
}

struct Parser {
    tokens: Vec<Token>,
    position: usize,
}

// === scanning ===

fn scan(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        // A zero byte ends the text, as it does in the original.
        let Some(first) = rest.chars().next().filter(|&first| first != '\0') else {
            tokens.push(Token {
                kind: Kind::End,
                literal: String::new(),
            });
            return tokens;
        };
        let (token, length) = if is_special(first) {
            scan_special(rest)
        } else {
            scan_word(rest)
        };
        tokens.push(token);
        rest = rest.get(length..).unwrap_or_default();
    }
}

fn scan_word(text: &str) -> (Token, usize) {
    let ends = |it: char| is_special(it) || matches!(it, ' ' | '\t' | '\r' | '\n' | '\0');
    let length = text.find(ends).unwrap_or(text.len());
    let literal = text.get(..length).unwrap_or_default().to_owned();
    let kind = match literal.as_str() {
        "in" => Kind::In,
        "notin" => Kind::NotIn,
        _ => Kind::Identifier,
    };
    (Token { kind, literal }, length)
}

/// Takes the longest operator at the beginning; special symbols that begin none are an error together.
///
/// The scanner looks no further than the longest operator reaches: a long run of symbols must not be walked again for
/// each of its tokens.
fn scan_special(text: &str) -> (Token, usize) {
    let length = text
        .bytes()
        .take(OPERATOR_SYMBOLS_MAX)
        .take_while(|byte| is_special(char::from(*byte)))
        .count();
    let symbols: &str = text.get(..length).unwrap_or_default();
    for length in [2, 1] {
        if let Some(literal) = symbols.get(..length)
            && let Some(kind) = operator(literal)
        {
            return (
                Token {
                    kind,
                    literal: literal.to_owned(),
                },
                length,
            );
        }
    }
    let literal = format!("error expected: keyword found '{symbols}'");
    (
        Token {
            kind: Kind::Error,
            literal,
        },
        symbols.len().max(1),
    )
}

fn operator(literal: &str) -> Option<Kind> {
    Some(match literal {
        ")" => Kind::ClosedParenthesis,
        "," => Kind::Comma,
        "!" => Kind::Not,
        "==" => Kind::DoubleEquals,
        "=" => Kind::Equals,
        ">" => Kind::Greater,
        "<" => Kind::Less,
        "!=" => Kind::NotEquals,
        "(" => Kind::OpenParenthesis,
        _ => return None,
    })
}

const fn is_special(character: char) -> bool {
    matches!(character, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

// === impl Parser ===

impl Parser {
    fn selector(&mut self) -> Result<Vec<Requirement>, ParseSelectorError> {
        let mut requirements = Vec::new();
        loop {
            let token = self.peek(Context::Values);
            match token.kind {
                Kind::Identifier | Kind::Not => {}
                Kind::End => return Ok(requirements),
                _ => return Err(found(&token, "!, identifier, or 'end of string'")),
            }
            let requirement = self.requirement().map_err(|error| {
                ParseSelectorError::new(format!("unable to parse requirement: {error}"))
            })?;
            if requirements.len() >= REQUIREMENTS_MAX {
                return Err(ParseSelectorError::new(format!(
                    "the selector has more than {REQUIREMENTS_MAX} requirements: split the request"
                )));
            }
            requirements.push(requirement);
            let token = self.take(Context::Values);
            match token.kind {
                Kind::End => return Ok(requirements),
                Kind::Comma => {
                    let next = self.peek(Context::Values);
                    if !matches!(next.kind, Kind::Identifier | Kind::Not) {
                        return Err(found(&next, "identifier after ','"));
                    }
                }
                _ => return Err(found(&token, "',' or 'end of string'")),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, ParseSelectorError> {
        let (key, unary) = self.key()?;
        if let Some(operator) = unary {
            return Requirement::new(key, operator, Vec::new());
        }
        let operator = self.operator()?;
        let values = match operator {
            Operator::In | Operator::NotIn => self.values()?,
            _ => BTreeSet::from([self.exact_value()?]),
        };
        Requirement::new(key, operator, values.into_iter().collect())
    }

    fn key(&mut self) -> Result<(String, Option<Operator>), ParseSelectorError> {
        let mut operator = None;
        let mut token = self.take(Context::Values);
        if token.kind == Kind::Not {
            operator = Some(Operator::DoesNotExist);
            token = self.take(Context::Values);
        }
        if token.kind != Kind::Identifier {
            return Err(found(&token, "identifier"));
        }
        let wrong = is_qualified_name(&token.literal);
        if !wrong.is_empty() {
            let error = FieldError::invalid(&FieldPath::root(), token.literal, wrong.join("; "));
            return Err(ParseSelectorError::new(error.to_string()));
        }
        if matches!(self.peek(Context::Values).kind, Kind::End | Kind::Comma) {
            operator = operator.or(Some(Operator::Exists));
        }
        Ok((token.literal, operator))
    }

    fn operator(&mut self) -> Result<Operator, ParseSelectorError> {
        let token = self.take(Context::KeyAndOperator);
        match token.kind {
            Kind::In => Ok(Operator::In),
            Kind::NotIn => Ok(Operator::NotIn),
            Kind::Equals => Ok(Operator::Equals),
            Kind::DoubleEquals => Ok(Operator::DoubleEquals),
            Kind::NotEquals => Ok(Operator::NotEquals),
            Kind::Greater => Ok(Operator::GreaterThan),
            Kind::Less => Ok(Operator::LessThan),
            _ => Err(found(&token, BINARY_OPERATORS)),
        }
    }

    fn values(&mut self) -> Result<BTreeSet<String>, ParseSelectorError> {
        let open = self.take(Context::Values);
        if open.kind != Kind::OpenParenthesis {
            let message = format!("found '{}' expected: '('", open.literal);
            return Err(ParseSelectorError::new(message));
        }
        let first = self.peek(Context::Values);
        match first.kind {
            Kind::Identifier | Kind::Comma => {
                let values = self.value_list()?;
                if self.take(Context::Values).kind == Kind::ClosedParenthesis {
                    Ok(values)
                } else {
                    Err(found(&first, "')'"))
                }
            }
            Kind::ClosedParenthesis => {
                self.take(Context::Values);
                Ok(BTreeSet::from([String::new()]))
            }
            _ => Err(found(&first, "',', ')' or identifier")),
        }
    }

    /// Parses values up to, but not including, the closing parenthesis. A missing value is an empty one.
    fn value_list(&mut self) -> Result<BTreeSet<String>, ParseSelectorError> {
        let mut values = BTreeSet::new();
        loop {
            let token = self.take(Context::Values);
            match token.kind {
                Kind::Identifier => {
                    values.insert(token.literal);
                    let next = self.peek(Context::Values);
                    match next.kind {
                        Kind::Comma => {}
                        Kind::ClosedParenthesis => return Ok(values),
                        _ => return Err(found(&next, "',' or ')'")),
                    }
                }
                Kind::Comma => {
                    if values.is_empty() {
                        values.insert(String::new());
                    }
                    match self.peek(Context::Values).kind {
                        Kind::ClosedParenthesis => {
                            values.insert(String::new());
                            return Ok(values);
                        }
                        Kind::Comma => {
                            values.insert(String::new());
                        }
                        _ => {}
                    }
                }
                _ => return Err(found(&token, "',', or identifier")),
            }
        }
    }

    fn exact_value(&mut self) -> Result<String, ParseSelectorError> {
        if matches!(self.peek(Context::Values).kind, Kind::End | Kind::Comma) {
            return Ok(String::new());
        }
        let token = self.take(Context::Values);
        if token.kind == Kind::Identifier {
            Ok(token.literal)
        } else {
            Err(found(&token, "identifier"))
        }
    }

    fn peek(&self, context: Context) -> Token {
        let mut token = self.tokens.get(self.position).cloned().unwrap_or(Token {
            kind: Kind::End,
            literal: String::new(),
        });
        if matches!(context, Context::Values) && matches!(token.kind, Kind::In | Kind::NotIn) {
            token.kind = Kind::Identifier;
        }
        token
    }

    fn take(&mut self, context: Context) -> Token {
        let token = self.peek(context);
        self.position = self.position.saturating_add(1);
        token
    }
}

fn found(token: &Token, expected: &str) -> ParseSelectorError {
    ParseSelectorError::new(format!("found '{}', expected: {expected}", token.literal))
}
