//! Positions in the text of an expression, and how an issue is shown there.
//!
//! Source: `ToDisplayString` in `cel-go/common/error.go`.

use crate::error::{CompileError, CompileErrorKind};

/// The text of an expression.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'s> {
    text: &'s str,
}

/// Something wrong at a place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Issue {
    /// From 1.
    line: usize,
    /// From 1, in characters.
    column: usize,
    message: String,
}

/// cel-go stops here as well.
pub(super) const ISSUES_MAX: usize = 100;
/// cel-go shows no line that is longer.
const LINE_BYTES_MAX: usize = 16_384;

// === impl Issue ===

impl Issue {
    pub(super) fn new(line: usize, column: usize, message: impl Into<String>) -> Self {
        Self {
            line,
            column,
            message: message.into(),
        }
    }
}

// === impl Source ===

impl<'s> Source<'s> {
    pub(super) fn new(text: &'s str) -> Self {
        Self { text }
    }

    /// An issue at a byte of the text.
    pub(super) fn issue_at(self, offset: usize, message: impl Into<String>) -> Issue {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.matches('\n').count() + 1;
        let column = before.get(line_start..).unwrap_or_default().chars().count() + 1;
        Issue::new(line, column, message)
    }

    /// Shows the issues, in the order of their places.
    pub(super) fn error(self, mut issues: Vec<Issue>, kind: CompileErrorKind) -> CompileError {
        issues.sort();
        issues.dedup();
        let shown: Vec<String> = issues
            .iter()
            .take(ISSUES_MAX)
            .map(|issue| self.show(issue))
            .collect();
        let (line, column) = issues
            .first()
            .map_or((1, 1), |issue| (issue.line, issue.column));
        CompileError {
            message: shown.join("\n"),
            line,
            column,
            kind,
        }
    }

    /// Shows one issue: its place, the line, and a caret below.
    fn show(self, issue: &Issue) -> String {
        let Issue {
            line,
            column,
            message,
        } = issue;
        let head = format!("ERROR: <input>:{line}:{column}: {message}");
        let Some(text) = self
            .text
            .split('\n')
            .nth(line - 1)
            .filter(|text| text.len() <= LINE_BYTES_MAX)
        else {
            return head;
        };
        let text = text.replace('\t', " ");
        let mut marks = String::new();
        let mut chars = text.chars();
        for c in chars.by_ref().take(column - 1) {
            marks.push(if c.is_ascii() { '.' } else { '\u{ff0e}' });
        }
        // Behind the end of the line there is nothing wide to point at.
        let wide = chars.next().is_some_and(|c| !c.is_ascii());
        marks.push(if wide { '\u{ff3e}' } else { '^' });
        format!("{head}\n | {text}\n | {marks}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issue_shows_its_line_and_points_at_its_column() {
        let source = Source::new("a +\n\tübrig.x");
        let error = source.error(
            vec![source.issue_at(12, "second"), source.issue_at(2, "first")],
            CompileErrorKind::Type,
        );
        assert_eq!(
            error.message,
            "ERROR: <input>:1:3: first\n | a +\n | ..^\n\
             ERROR: <input>:2:8: second\n |  übrig.x\n | .\u{ff0e}.....^"
        );
        assert_eq!((error.line, error.column), (1, 3));
    }

    #[test]
    fn a_place_behind_the_text_is_its_end() {
        let source = Source::new("ab");
        let error = source.error(vec![source.issue_at(99, "end")], CompileErrorKind::Syntax);
        assert_eq!(error.message, "ERROR: <input>:1:3: end\n | ab\n | ..^");
    }
}
