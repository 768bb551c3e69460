//! kro's `${...}`: expressions in the values of YAML.
//!
//! A text that is one expression and nothing else keeps the expression's type. Any other text with
//! expressions is a string template: it becomes one concatenation, whose literal parts are quoted
//! as Go quotes them, because messages show it.
//!
//! The scanner counts braces and knows only double-quoted text; `${` within an expression is
//! refused unless it is quoted, and a `${` that is not closed is literal. All this is kro's, to the
//! byte, with its surprises: a brace within single quotes counts.
//!
//! Source: `kro/pkg/graph/parser/{cel,parser}.go`.

use dialect::quote;

/// A text split into its literal parts and its expressions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template<'t> {
    segments: Vec<Segment<'t>>,
}

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment<'t> {
    /// Text that stands for itself.
    Literal(&'t str),
    /// The inside of a `${...}`.
    Expression(&'t str),
}

/// A text whose expressions cannot be told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// `${` within an expression.
    #[error("nested expressions are not allowed unless inside string literals")]
    NestedExpression,
    /// So many `${` without an end that looking for their ends takes too long.
    #[error("too many unterminated expressions")]
    TooManyUnterminated,
}

/// Every `${` that is not closed is scanned to the end of the text; this bounds the sum.
const SCANNED_BYTES_MAX: usize = 16 << 20;

/// Splits a text at its expressions.
///
/// # Errors
///
/// An expression contains `${` outside of double quotes.
pub fn parse(text: &str) -> Result<Template<'_>, TemplateError> {
    let mut segments = Vec::new();
    let mut literal_start = 0;
    let mut from = 0;
    let mut scanned = 0;
    while let Some(offset) = text.get(from..).and_then(|rest| rest.find("${")) {
        let start = from + offset;
        let inside = start + 2;
        let Some(end) = find_end(text.as_bytes(), inside)? else {
            scanned += text.len() - start;
            if scanned > SCANNED_BYTES_MAX {
                return Err(TemplateError::TooManyUnterminated);
            }
            from = start + 1;
            continue;
        };
        push_literal(&mut segments, text.get(literal_start..start));
        segments.extend(text.get(inside..end).map(Segment::Expression));
        literal_start = end + 1;
        from = literal_start;
    }
    push_literal(&mut segments, text.get(literal_start..));
    Ok(Template { segments })
}

fn push_literal<'t>(segments: &mut Vec<Segment<'t>>, text: Option<&'t str>) {
    segments.extend(text.filter(|text| !text.is_empty()).map(Segment::Literal));
}

/// The position of the brace that closes the expression which begins at `start`.
fn find_end(text: &[u8], start: usize) -> Result<Option<usize>, TemplateError> {
    let mut depth = 1;
    let mut quoted = false;
    let mut escaped = false;
    let mut before = b'{';
    for (position, byte) in text.iter().copied().enumerate().skip(start) {
        let previous = std::mem::replace(&mut before, byte);
        if escaped {
            escaped = false;
            continue;
        }
        match byte {
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'{' => depth += 1,
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(position));
                }
            }
            b'$' if text.get(position + 1) == Some(&b'{') && previous != b'"' => {
                return Err(TemplateError::NestedExpression);
            }
            _ => {}
        }
    }
    Ok(None)
}

// === impl Template ===

impl<'t> Template<'t> {
    /// The parts, in order.
    pub fn segments(&self) -> &[Segment<'t>] {
        &self.segments
    }

    /// The expressions, in order.
    pub fn expressions(&self) -> impl Iterator<Item = &'t str> + '_ {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Expression(expression) => Some(*expression),
            Segment::Literal(_) => None,
        })
    }

    /// Whether there is nothing to evaluate.
    pub fn is_literal(&self) -> bool {
        self.expressions().next().is_none()
    }

    /// The expression that the whole text is, if it is one.
    pub fn standalone(&self) -> Option<&'t str> {
        match self.segments[..] {
            [Segment::Expression(expression)] => Some(expression),
            _ => None,
        }
    }

    /// The expression to compile: the standalone one as it is written, or the concatenation of the
    /// parts; nothing for literal text.
    ///
    /// Parts are added with `+` and not converted, so each must be a string: anything else has no
    /// overload, when compiled where its type is known and when evaluated where it is not.
    pub fn source(&self) -> Option<String> {
        if self.is_literal() {
            return None;
        }
        if let Some(expression) = self.standalone() {
            return Some(expression.to_owned());
        }
        let parts: Vec<String> = self
            .segments
            .iter()
            .map(|segment| match segment {
                Segment::Literal(text) => quote(text),
                Segment::Expression(expression) => format!("({expression})"),
            })
            .collect();
        Some(parts.join(" + "))
    }
}

#[cfg(test)]
mod tests;
