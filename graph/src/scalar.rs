//! Scalars: text that is an expression, holds some, or holds none.
//!
//! Source: kro `pkg/graph/parser/cel.go`, `parser.go` buildStringTemplate.

use expressions::template;

/// The text of an expression.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Source {
    /// What is compiled.
    pub(crate) text: String,
    /// What the user wrote, where that is something else: a string template.
    pub(crate) template: Option<String>,
}

/// What a scalar is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Scalar {
    /// Text without expressions.
    Plain,
    /// One whole `${…}`.
    Standalone(Source),
    /// Text with expressions in it.
    Template(Source),
}

// === impl Source ===

impl Source {
    /// The text that messages show.
    pub(crate) fn user_text(&self) -> &str {
        self.template.as_deref().unwrap_or(&self.text)
    }
}

/// Looks for expressions in a scalar.
///
/// # Errors
/// kro's text, when an expression is nested in another outside of quotes.
pub(crate) fn scan(text: &str) -> Result<Scalar, String> {
    if !text.contains("${") {
        return Ok(Scalar::Plain);
    }
    let parsed = template::parse(text).map_err(|error| error.to_string())?;
    Ok(match (parsed.standalone(), parsed.source()) {
        (Some(_), Some(text)) => Scalar::Standalone(Source {
            text,
            template: None,
        }),
        (None, Some(source)) => Scalar::Template(Source {
            text: source,
            template: Some(text.to_owned()),
        }),
        (_, None) => Scalar::Plain,
    })
}

/// Takes a text that must be one whole `${…}`.
///
/// # Errors
/// kro's text, when it is anything else.
pub(crate) fn unwrap(text: &str) -> Result<Source, String> {
    match scan(text)? {
        Scalar::Standalone(source) => Ok(source),
        Scalar::Plain | Scalar::Template(_) => {
            Err("only standalone expressions are allowed".to_owned())
        }
    }
}
