//! `Warning` headers: what a client should tell its user although the request went well.
//!
//! Source: `apimachinery/pkg/util/net/http.go` (`NewWarningHeader`), `apiserver/pkg/endpoints/filters/warning.go`.

use http::{HeaderMap, HeaderValue, header};

/// Characters of all texts of one answer together, above which each is cut.
const TOTAL_MAX: usize = 4096;
/// Characters that a text is cut to then.
const CUT_MAX: usize = 256;

/// Adds one header per text: `299 - "text"`.
pub(super) fn add(headers: &mut HeaderMap, texts: &[String]) {
    if texts.is_empty() {
        return;
    }
    let total: usize = texts.iter().map(|text| text.chars().count()).sum();
    let mut left = TOTAL_MAX;
    for text in texts {
        let count = if total > TOTAL_MAX {
            CUT_MAX
        } else {
            usize::MAX
        };
        let text: String = text.chars().take(count).collect();
        let length = text.chars().count();
        if length > left {
            return;
        }
        left -= length;
        if let Ok(value) = HeaderValue::from_bytes(quoted(&text).as_bytes()) {
            headers.append(header::WARNING, value);
        }
    }
}

fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 10);
    quoted.push_str("299 - \"");
    for character in text.chars().filter(|character| !character.is_control()) {
        if matches!(character, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(character);
    }
    quoted.push('"');
    quoted
}
