//! Errors with their causes on one line, joined as Go's `%w` joins them.

use std::error::Error;

/// Renders an error with its causes, separated by `: `.
///
/// A cause that the text already ends with is left out: many errors repeat their cause in their own message.
pub fn error_chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let level = cause.to_string();
        if !text.ends_with(&level) {
            text.push_str(": ");
            text.push_str(&level);
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Level {
        text: &'static str,
        source: Option<Box<Self>>,
    }

    #[test]
    fn causes_follow_unless_the_text_ends_with_them() {
        for (texts, want) in [
            (["a", "b", "c"], "a: b: c"),
            (["a: b", "b", "c"], "a: b: c"),
            (["a: b: c", "b: c", "c"], "a: b: c"),
        ] {
            let [outer, middle, inner] = texts;
            let level = |text, source| Box::new(Level { text, source });
            let error = level(outer, Some(level(middle, Some(level(inner, None)))));
            assert_eq!(error_chain(&*error), want);
        }
    }
}
