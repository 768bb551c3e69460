//! What Go says of a text that is no base64.
//!
//! Source: `encoding/base64` (`CorruptInputError`).

/// The characters of a kind of base64 beside letters and digits.
pub const STANDARD: [char; 2] = ['+', '/'];
/// Those that need no escape in a URL.
pub const URL: [char; 2] = ['-', '_'];

/// Returns Go's words for a text that is no base64, with the place where its decoder stops: at the first character that is not of the
/// alphabet, or where the last four begin that are not whole.
pub fn illegal_base64(text: &str, others: [char; 2]) -> String {
    let is_other = |it: char| !it.is_ascii_alphanumeric() && !others.contains(&it);
    let stop = match text.find(is_other) {
        None => text.len() - text.len() % 4,
        Some(at) => match (at % 4, text.get(at..).unwrap_or_default()) {
            // Whole, with more behind.
            (2, rest) if rest.starts_with("==") => at + 2,
            (3, rest) if rest.starts_with('=') => at + 1,
            _ => at,
        },
    };
    format!("illegal base64 data at input byte {stop}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decoder_stops_at_what_it_cannot_read() {
        for (text, stop) in [
            ("x", 0),
            ("a b", 1),
            ("AAAAA", 4),
            ("AAAA-", 4),
            ("AA==-", 4),
            ("AA=A", 2),
        ] {
            let want = format!("illegal base64 data at input byte {stop}");
            assert_eq!(illegal_base64(text, STANDARD), want, "{text}");
        }
    }
}
