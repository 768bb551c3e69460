//! Patterns in Go's dialect (RE2), run by an engine of the same family.
//!
//! The two differ in details that users see: Go's Perl classes are ASCII, `[` and `&` inside a class are literal, `\Q…\E`
//! quotes, `\<` is a literal, a brace that is no repetition is a literal, and repetitions end at 1000. A pattern is
//! rewritten before it is compiled. Look-around and back-references exist in neither.
//!
//! Source: `regexp/syntax`.

mod refusal;

use std::iter::Peekable;
use std::str::Chars;

use regex::{Regex, RegexBuilder};

/// A longer pattern is none: what its classes stand for takes a thousand times as much memory while it is compiled. The longest
/// in CustomResourceDefinitions that are in use have some 1,000 bytes. Go has no such bound.
const SOURCE_BYTES_MAX: usize = 32 << 10;

/// Go's greatest counted repetition.
const REPEAT_MAX: u32 = 1000;

/// Why a pattern does not compile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("error parsing regexp: {0}")]
pub struct PatternError(String);

/// Reads a pattern of Go's and writes one of ours.
struct Rewriter<'a> {
    input: Peekable<Chars<'a>>,
    output: String,
}

/// Compiles a pattern of Go's dialect.
///
/// # Errors
/// The pattern is none, is too long, or takes more than `compiled_bytes_max` of memory.
pub fn compile(source: &str, compiled_bytes_max: usize) -> Result<Regex, PatternError> {
    if source.len() > SOURCE_BYTES_MAX {
        let length = source.len();
        let text = format!("expression too large: {length} bytes, of at most {SOURCE_BYTES_MAX}");
        return Err(PatternError(text));
    }
    refusal::check(source)?;
    let rewritten = rewrite(source);
    RegexBuilder::new(&rewritten)
        .octal(true)
        .size_limit(compiled_bytes_max)
        .build()
        .map_err(|error| PatternError(format!("{}: `{source}`", last_line(&error.to_string()))))
}

/// The engine's message ends with the reason, after a drawing of the place.
fn last_line(message: &str) -> String {
    let line = message.lines().next_back().unwrap_or_default();
    line.trim_start_matches("error: ").to_owned()
}

/// Writes a pattern that Go takes as one of ours. What Go refuses comes out as something else, or is refused by the engine.
fn rewrite(source: &str) -> String {
    let mut rewriter = Rewriter {
        input: source.chars().peekable(),
        output: String::with_capacity(source.len()),
    };
    rewriter.run();
    rewriter.output
}

// === impl Rewriter ===

impl Rewriter<'_> {
    fn run(&mut self) {
        while let Some(next) = self.input.next() {
            match next {
                '\\' => self.escape(),
                '[' => self.class(),
                '{' => self.brace(),
                '}' => self.output.push_str("\\}"),
                ']' => self.output.push_str("\\]"),
                other => self.output.push(other),
            }
        }
    }

    /// A brace is a repetition, or a literal.
    fn brace(&mut self) {
        let ahead: String = self
            .input
            .clone()
            .take_while(|it| *it != '}')
            .take(16)
            .collect();
        let closed = self.input.clone().nth(ahead.chars().count()) == Some('}');
        if !closed || repetition(&ahead).is_none() {
            self.output.push_str("\\{");
            return;
        }
        self.output.push('{');
        self.output.push_str(&ahead);
        self.output.push('}');
        for _ in 0..=ahead.chars().count() {
            self.input.next();
        }
    }

    /// An escape outside of a class.
    fn escape(&mut self) {
        let Some(escaped) = self.input.next() else {
            return self.output.push('\\');
        };
        match escaped {
            'd' => self.output.push_str("[0-9]"),
            'D' => self.output.push_str("[^0-9]"),
            's' => self.output.push_str("[\\t\\n\\x0C\\r ]"),
            'S' => self.output.push_str("[^\\t\\n\\x0C\\r ]"),
            'w' => self.output.push_str("[0-9A-Za-z_]"),
            'W' => self.output.push_str("[^0-9A-Za-z_]"),
            'b' => self.output.push_str("(?-u:\\b)"),
            'B' => self.output.push_str("(?-u:\\B)"),
            'Q' => self.quoted(),
            other => self.common_escape(other),
        }
    }

    /// `\Q…\E`, of which the end may be missing.
    fn quoted(&mut self) {
        while let Some(next) = self.input.next() {
            if next == '\\' && self.input.peek() == Some(&'E') {
                self.input.next();
                return;
            }
            self.output
                .push_str(&regex::escape(next.encode_utf8(&mut [0; 4])));
        }
    }

    /// An escape that means the same inside and outside of a class.
    fn common_escape(&mut self, escaped: char) {
        match escaped {
            'p' | 'P' => self.unicode_class(escaped),
            // Word borders elsewhere, letters in Go.
            '<' | '>' => self.output.push(escaped),
            other => {
                self.output.push('\\');
                self.output.push(other);
            }
        }
    }

    /// `\p{Name}`, of which `\p{^Name}` is the opposite.
    fn unicode_class(&mut self, escaped: char) {
        self.output.push('\\');
        if self.input.next_if_eq(&'{').is_none() {
            self.output.push(escaped);
            return;
        }
        let negated = self.input.next_if_eq(&'^').is_some();
        let opposite = if escaped == 'p' { 'P' } else { 'p' };
        self.output.push(if negated { opposite } else { escaped });
        self.output.push('{');
        for next in self.input.by_ref() {
            self.output.push(next);
            if next == '}' {
                return;
            }
        }
    }

    fn class(&mut self) {
        self.output.push('[');
        if self.input.next_if_eq(&'^').is_some() {
            self.output.push('^');
        }
        let mut first = true;
        while let Some(next) = self.input.next() {
            match next {
                ']' if !first => break,
                '[' if self.named_class() => {}
                '\\' => self.class_escape(),
                '-' => self.dash(first),
                ']' | '[' | '&' | '~' | '^' => {
                    self.output.push('\\');
                    self.output.push(next);
                }
                other => self.output.push(other),
            }
            first = false;
        }
        self.output.push(']');
    }

    /// Copies `[:alpha:]`, of which the opening bracket was read.
    fn named_class(&mut self) -> bool {
        let ahead: String = self.input.clone().take(12).collect();
        let Some((name, _)) = ahead
            .strip_prefix(':')
            .and_then(|rest| rest.split_once(":]"))
        else {
            return false;
        };
        self.output.push_str("[:");
        self.output.push_str(name);
        self.output.push_str(":]");
        for _ in 0..name.chars().count() + 3 {
            self.input.next();
        }
        true
    }

    /// A dash between two characters is a range; elsewhere it is a literal.
    fn dash(&mut self, first: bool) {
        let last = self.input.peek() == Some(&']');
        self.output
            .push_str(if first || last { "\\-" } else { "-" });
        // The end of a range that is itself a dash.
        if !first && !last && self.input.next_if_eq(&'-').is_some() {
            self.output.push_str("\\-");
        }
    }

    fn class_escape(&mut self) {
        let Some(escaped) = self.input.next() else {
            return self.output.push('\\');
        };
        match escaped {
            'd' => self.output.push_str("0-9"),
            'D' => self.output.push_str("[^0-9]"),
            's' => self.output.push_str("\\t\\n\\x0C\\r "),
            'S' => self.output.push_str("[^\\t\\n\\x0C\\r ]"),
            'w' => self.output.push_str("0-9A-Za-z_"),
            'W' => self.output.push_str("[^0-9A-Za-z_]"),
            other => self.common_escape(other),
        }
    }
}

/// `n`, `n,` or `n,m`.
fn repetition(text: &str) -> Option<(u32, Option<u32>)> {
    let number = |digits: &str| -> Option<u32> {
        let has_leading_zero = digits.len() > 1 && digits.starts_with('0');
        let plain =
            !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit()) && !has_leading_zero;
        // Too large for the type is too large for Go as well.
        plain.then(|| digits.parse().unwrap_or(u32::MAX))
    };
    match text.split_once(',') {
        None => number(text).map(|count| (count, Some(count))),
        Some((least, "")) => number(least).map(|count| (count, None)),
        Some((least, greatest)) => Some((number(least)?, Some(number(greatest)?))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPILED_BYTES_MAX: usize = 1 << 20;

    #[test]
    fn patterns_mean_what_they_mean_in_go() {
        let cases = [
            ("found anywhere", "b", "abc", true),
            ("anchored", "^b$", "abc", false),
            ("digits are ascii", r"^\d+$", "٣", false),
            ("digits", r"^\d+$", "3", true),
            ("words are ascii", r"^\w+$", "é", false),
            ("space has no vertical tab", r"^\s$", "\u{b}", false),
            ("word border", r"\bfoo\b", "a foo b", true),
            ("no word border", r"a\Bb", "ab", true),
            ("bracket in class", "^[[]$", "[", true),
            ("closing bracket first", "^[]a]+$", "]a", true),
            ("ampersands in class", "^[a&&b]+$", "a&b", true),
            ("tildes in class", "^[~~]$", "~", true),
            ("dash last", "^[a-]+$", "-a", true),
            ("dash after class", r"^[\w-]+$", "a-b", true),
            ("dash first", "^[-a]+$", "-a", true),
            ("range to a dash", "^[+--]+$", "+,-", true),
            ("named class", "^[[:alpha:]-]+$", "a-b", true),
            ("quoted", r"^\Qa.b\E$", "a.b", true),
            ("quoted is literal", r"^\Qa.b\E$", "axb", false),
            ("literal brace", "^{a}$", "{a}", true),
            ("open repetition", "^a{,2}$", "a{,2}", true),
            ("repetition", "^a{1,2}$", "aa", true),
            ("a leading zero makes no count", "^a{01}$", "a{01}", true),
            ("angle brackets", r"^\<a\>$", "<a>", true),
            ("negated inside", r"^[\D]$", "x", true),
            ("negated unicode name", r"^\p{^Greek}$", "a", true),
            ("unicode name", r"^\p{L}+$", "é", true),
            ("unicode name in a class", r"^[\p{Greek}-]+$", "α-", true),
            ("octal", r"^\101$", "A", true),
            ("slash", r"^a\/b$", "a/b", true),
            ("ignoring case", "(?i)^abc$", "ABC", true),
            ("one character is no byte", "^.$", "é", true),
            (
                "class that is negated and closed first",
                "^[^]]$",
                "]",
                false,
            ),
            ("quoted to the end", r"^\Qa.b\E.$", "a.bc", true),
        ];
        for (name, pattern, text, want) in cases {
            let compiled = compile(pattern, COMPILED_BYTES_MAX).unwrap_or_else(|error| {
                panic!("{name}: {pattern}: {error}");
            });
            assert_eq!(compiled.is_match(text), want, "{name}: {pattern}");
        }
    }

    #[test]
    fn what_go_refuses_is_refused() {
        let cases = [
            (
                "look-ahead",
                "(?!a)",
                "invalid or unsupported Perl syntax: `(?!`",
            ),
            ("look-behind", "(?<=a)b", "invalid named capture: `(?<=a)b`"),
            ("repetition", "a{1001}", "invalid repeat count: `{1001}`"),
            ("class", "[a", "missing closing ]: `[a`"),
            (
                "backslash",
                "a\\",
                "trailing backslash at end of expression: ``",
            ),
        ];
        for (name, pattern, want) in cases {
            let error = compile(pattern, COMPILED_BYTES_MAX).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("error parsing regexp: {want}"),
                "{name}"
            );
        }
        for pattern in ["(a", "(", "a{100000}{100000}", "(?=a)", r"\", "*"] {
            let compiled = compile(pattern, COMPILED_BYTES_MAX);
            assert!(compiled.is_err(), "{pattern}");
        }
        for large in [
            "(a{1000}){100}".to_owned(),
            "a".repeat(SOURCE_BYTES_MAX + 1),
        ] {
            assert!(compile(&large, COMPILED_BYTES_MAX).is_err(), "large");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_pattern_panics(pattern in "[\\[\\]\\\\^$.(){}|?*+a-c0-9:&~,-]{0,20}", text in ".{0,8}") {
            drop(compile(&pattern, COMPILED_BYTES_MAX).map(|regex| regex.is_match(&text)));
        }
    }
}
