//! What Go refuses as a pattern, in its words and its order: from left to right, the first fault.
//!
//! Source: `regexp/syntax/parse.go`, with the flags `Perl` that `regexp.Compile` sets.

use std::collections::HashSet;

use regex::Regex;

use super::{PatternError, REPEAT_MAX, repetition};

/// Names within `[:` and `:]`.
const CLASSES: &[&str] = &[
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];

/// A walk along a pattern. It takes time in proportion to the length of the pattern, whatever is in it.
struct Walk<'a> {
    source: &'a str,
    rest: &'a str,
    /// Groups that are open.
    depth: usize,
    /// Whether there is something to repeat.
    has_operand: bool,
    /// Whether `:]` was looked for in what follows, and is not there.
    has_no_class_end: bool,
    /// Names of Unicode classes that were met, and are known.
    unicode_names: HashSet<&'a str>,
}

/// Requires that Go takes a pattern.
///
/// # Errors
/// Returns Go's words. Bounds on what is repeated within repetitions are left to the engine.
pub(super) fn check(source: &str) -> Result<(), PatternError> {
    Walk::new(source).run()
}

fn refuse(code: &str, expression: &str) -> PatternError {
    PatternError(format!("{code}: `{expression}`"))
}

/// The part of a text before one of its ends.
fn until<'a>(text: &'a str, end: &str) -> &'a str {
    text.strip_suffix(end).unwrap_or(text)
}

/// Splits off the first character.
fn next(text: &str) -> Option<(char, &str)> {
    let mut chars = text.chars();
    chars.next().map(|first| (first, chars.as_str()))
}

// === impl Walk ===

impl<'a> Walk<'a> {
    fn new(source: &'a str) -> Self {
        Self {
            source,
            rest: source,
            depth: 0,
            has_operand: false,
            has_no_class_end: false,
            unicode_names: HashSet::new(),
        }
    }

    fn run(&mut self) -> Result<(), PatternError> {
        // The operator before, if there is nothing between: from where it stands.
        let mut last_repeat: Option<&str> = None;
        while let Some((first, after)) = next(self.rest) {
            let before = self.rest;
            let mut repeat = None;
            self.rest = after;
            match first {
                '(' if after.starts_with('?') => self.flags(before)?,
                '(' => self.open(),
                '|' => self.has_operand = false,
                ')' => {
                    let open = self.depth.checked_sub(1);
                    self.depth = open.ok_or_else(|| refuse("unexpected )", self.source))?;
                    self.has_operand = true;
                }
                '*' | '+' | '?' => {
                    self.repeat(before, last_repeat)?;
                    repeat = Some(before);
                }
                '{' => {
                    if self.brace(before, after, last_repeat)? {
                        repeat = Some(before);
                    }
                }
                '[' => self.class(before)?,
                '\\' => self.escape(before, after)?,
                _ => self.has_operand = true,
            }
            last_repeat = repeat;
        }
        if self.depth > 0 {
            return Err(refuse("missing closing )", self.source));
        }
        Ok(())
    }

    fn open(&mut self) {
        self.depth += 1;
        self.has_operand = false;
    }

    /// An operator that ends where the rest begins; it may be lazy.
    fn repeat(&mut self, before: &str, last_repeat: Option<&str>) -> Result<(), PatternError> {
        self.rest = self.rest.strip_prefix('?').unwrap_or(self.rest);
        if let Some(last) = last_repeat {
            let operators = until(last, self.rest);
            return Err(refuse("invalid nested repetition operator", operators));
        }
        if !self.has_operand {
            let operator = until(before, self.rest);
            return Err(refuse("missing argument to repetition operator", operator));
        }
        Ok(())
    }

    /// A brace, which is an operator or a literal. Returns whether it is an operator.
    fn brace(
        &mut self,
        before: &str,
        after: &'a str,
        last_repeat: Option<&str>,
    ) -> Result<bool, PatternError> {
        // Only these make a repetition: a brace that is never closed is not looked for again and again.
        let length = after.find(|it: char| !it.is_ascii_digit() && it != ',');
        let (text, rest) = after.split_at(length.unwrap_or(after.len()));
        let Some(((least, greatest), rest)) = repetition(text).zip(rest.strip_prefix('}')) else {
            self.has_operand = true;
            return Ok(false);
        };
        self.rest = rest;
        if least > REPEAT_MAX || greatest.is_some_and(|it| it > REPEAT_MAX || it < least) {
            return Err(refuse("invalid repeat count", until(before, rest)));
        }
        self.repeat(before, last_repeat)?;
        Ok(true)
    }

    /// A group with `(?` in front: named, with flags, or flags alone.
    fn flags(&mut self, before: &'a str) -> Result<(), PatternError> {
        let named = ["(?P<", "(?<"]
            .iter()
            .find_map(|it| before.strip_prefix(it));
        if let Some(named) = named.filter(|named| !named.is_empty()) {
            let code = "invalid named capture";
            let (name, rest) = named.split_once('>').ok_or_else(|| refuse(code, before))?;
            let is_word = |it: char| it == '_' || it.is_ascii_alphanumeric();
            if name.is_empty() || !name.chars().all(is_word) {
                return Err(refuse(code, until(before, rest)));
            }
            self.rest = rest;
            self.open();
            return Ok(());
        }
        let mut rest = before.get(2..).unwrap_or_default();
        let (mut negates, mut saw_flag) = (false, false);
        while let Some((flag, after)) = next(rest) {
            rest = after;
            match flag {
                'i' | 'm' | 's' | 'U' => saw_flag = true,
                '-' if !negates => (negates, saw_flag) = (true, false),
                ':' | ')' if !negates || saw_flag => {
                    self.rest = rest;
                    if flag == ':' {
                        self.open();
                    }
                    return Ok(());
                }
                _ => break,
            }
        }
        let expression = until(before, rest);
        Err(refuse("invalid or unsupported Perl syntax", expression))
    }

    /// An escape outside of a class.
    fn escape(&mut self, before: &'a str, after: &'a str) -> Result<(), PatternError> {
        self.has_operand = true;
        match next(after) {
            Some(('A' | 'b' | 'B' | 'z' | 'd' | 'D' | 's' | 'S' | 'w' | 'W', rest)) => {
                self.rest = rest;
            }
            Some(('Q', quoted)) => {
                self.rest = quoted.split_once("\\E").map_or("", |(_, rest)| rest);
            }
            Some(('p' | 'P', _)) => self.rest = self.unicode_class(before)?,
            _ => (_, self.rest) = escaped(before)?,
        }
        Ok(())
    }

    fn class(&mut self, before: &'a str) -> Result<(), PatternError> {
        self.has_operand = true;
        let mut rest = self.rest.strip_prefix('^').unwrap_or(self.rest);
        let mut is_first = true;
        while is_first || !rest.starts_with(']') {
            is_first = false;
            if let Some(after) = self.named_class(rest)? {
                rest = after;
                continue;
            }
            if rest.starts_with("\\p") || rest.starts_with("\\P") {
                rest = self.unicode_class(rest)?;
                continue;
            }
            if let Some(after) = perl_class(rest) {
                rest = after;
                continue;
            }
            let range = rest;
            let (low, after) = member(rest, before)?;
            rest = after;
            let Some(after) = rest.strip_prefix('-').filter(|it| !it.starts_with(']')) else {
                continue;
            };
            // A dash at the very end waits for the bracket.
            if after.is_empty() {
                return Err(refuse("missing closing ]", before));
            }
            let (high, after) = member(after, before)?;
            rest = after;
            if high < low {
                return Err(refuse("invalid character class range", until(range, rest)));
            }
        }
        self.rest = rest.get(1..).unwrap_or_default();
        Ok(())
    }

    /// `[:name:]`. Returns what follows.
    fn named_class(&mut self, text: &'a str) -> Result<Option<&'a str>, PatternError> {
        let Some(name) = text.strip_prefix("[:").filter(|_| !self.has_no_class_end) else {
            return Ok(None);
        };
        let Some((name, rest)) = name.split_once(":]") else {
            self.has_no_class_end = true;
            return Ok(None);
        };
        if !CLASSES.contains(&name.strip_prefix('^').unwrap_or(name)) {
            return Err(refuse("invalid character class range", until(text, rest)));
        }
        Ok(Some(rest))
    }

    /// `\pN` or `\p{Name}`. Returns what follows.
    fn unicode_class(&mut self, text: &'a str) -> Result<&'a str, PatternError> {
        let code = "invalid character class range";
        let Some((first, after)) = text.get(2..).and_then(next) else {
            return Err(refuse("invalid escape sequence", text));
        };
        let (name, rest) = if first == '{' {
            after.split_once('}').ok_or_else(|| refuse(code, text))?
        } else {
            (until(text.get(2..).unwrap_or_default(), after), after)
        };
        let name = name.strip_prefix('^').unwrap_or(name);
        let is_word = |it: char| it == '_' || it.is_ascii_alphanumeric();
        if self.unicode_names.contains(name) {
            return Ok(rest);
        }
        if !name.chars().all(is_word) || Regex::new(&format!("\\p{{{name}}}")).is_err() {
            return Err(refuse(code, until(text, rest)));
        }
        self.unicode_names.insert(name);
        Ok(rest)
    }
}

/// One character of a class, whose whole text `class` begins.
fn member<'a>(text: &'a str, class: &str) -> Result<(char, &'a str), PatternError> {
    match next(text) {
        None => Err(refuse("missing closing ]", class)),
        Some(('\\', _)) => escaped(text),
        Some(found) => Ok(found),
    }
}

fn perl_class(text: &str) -> Option<&str> {
    let class = text.strip_prefix('\\')?;
    class.strip_prefix(['d', 'D', 's', 'S', 'w', 'W'])
}

/// An escape that stands for one character. Returns it, and what follows.
fn escaped(text: &str) -> Result<(char, &str), PatternError> {
    let Some((first, after)) = text.get(1..).and_then(next) else {
        return Err(refuse("trailing backslash at end of expression", ""));
    };
    let plain = match first {
        'a' => Some('\x07'),
        'f' => Some('\x0C'),
        'n' => Some('\n'),
        'r' => Some('\r'),
        't' => Some('\t'),
        'v' => Some('\x0B'),
        other if other.is_ascii() && !other.is_ascii_alphanumeric() => Some(other),
        _ => None,
    };
    if let Some(plain) = plain {
        return Ok((plain, after));
    }
    let read = match first {
        '0' => octal(0, after),
        '1'..='7' if after.starts_with(|it| matches!(it, '0'..='7')) => {
            octal(first.to_digit(8).unwrap_or_default(), after)
        }
        'x' => hexadecimal(after),
        _ => Err(after),
    };
    read.map_err(|rest| refuse("invalid escape sequence", until(text, rest)))
}

/// Up to two more octal digits.
fn octal(first: u32, text: &str) -> Result<(char, &str), &str> {
    let (mut value, mut rest) = (first, text);
    for _ in 0..2 {
        let Some((digit, after)) =
            next(rest).and_then(|(it, after)| Some((it.to_digit(8)?, after)))
        else {
            break;
        };
        (value, rest) = (value * 8 + digit, after);
    }
    char::from_u32(value).map(|it| (it, rest)).ok_or(rest)
}

/// `xx` or `{x…}`. Fails where Go stops to read.
fn hexadecimal(text: &str) -> Result<(char, &str), &str> {
    let Some((first, mut rest)) = next(text) else {
        return Err(text);
    };
    if first != '{' {
        let Some((second, after)) = next(rest) else {
            return Err(rest);
        };
        let digits = first.to_digit(16).zip(second.to_digit(16));
        let read = digits.and_then(|(high, low)| char::from_u32(high * 16 + low));
        return read.map(|it| (it, after)).ok_or(after);
    }
    let mut value: Option<u32> = None;
    while let Some((digit, after)) = next(rest) {
        rest = after;
        if digit == '}' {
            let read = value.and_then(char::from_u32);
            return read.map(|it| (it, rest)).ok_or(rest);
        }
        let digit = digit.to_digit(16).ok_or(rest)?;
        let more = value.unwrap_or_default() * 16 + digit;
        if more > u32::from(char::MAX) {
            return Err(rest);
        }
        value = Some(more);
    }
    Err(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `regexp.Compile` of Go 1.26 says, after "error parsing regexp: "; nothing where it takes the pattern.
    const TOLD: &[(&str, &str)] = &[
        (r"$*", r""),
        (r"((a)", r"missing closing ): `((a)`"),
        (r"()", r""),
        (r"(*a)", r"missing argument to repetition operator: `*`"),
        (r"(?!a)", r"invalid or unsupported Perl syntax: `(?!`"),
        (r"(?", r"invalid or unsupported Perl syntax: `(?`"),
        (r"(?#c)", r"invalid or unsupported Perl syntax: `(?#`"),
        (r"(?-:a)", r"invalid or unsupported Perl syntax: `(?-:`"),
        (r"(?:", r"missing closing ): `(?:`"),
        (r"(?<!a)b", r"invalid named capture: `(?<!a)b`"),
        (r"(?<=a)b", r"invalid named capture: `(?<=a)b`"),
        (r"(?<a-b>x)", r"invalid named capture: `(?<a-b>`"),
        (r"(?<n>a)", r""),
        (r"(?=a)", r"invalid or unsupported Perl syntax: `(?=`"),
        (r"(?P<1-a>a)", r"invalid named capture: `(?P<1-a>`"),
        (r"(?P<>a)", r"invalid named capture: `(?P<>`"),
        (r"(?P<n", r"invalid named capture: `(?P<n`"),
        (r"(?P<n>", r"missing closing ): `(?P<n>`"),
        (r"(?P<n>a)(?P<n>b)", r""),
        (r"(?P=n)", r"invalid or unsupported Perl syntax: `(?P`"),
        (r"(?P>n)", r"invalid or unsupported Perl syntax: `(?P`"),
        (r"(?U)a", r""),
        (r"(?i)(?", r"invalid or unsupported Perl syntax: `(?`"),
        (r"(?i)*", r"missing argument to repetition operator: `*`"),
        (r"(?i)a", r""),
        (r"(?i-", r"invalid or unsupported Perl syntax: `(?i-`"),
        (r"(?i:a", r"missing closing ): `(?i:a`"),
        (r"(?ii)a", r""),
        (r"(?s-i:a)", r""),
        (r"(?z)b", r"invalid or unsupported Perl syntax: `(?z`"),
        (r"(a", r"missing closing ): `(a`"),
        (r"(a)\1", r"invalid escape sequence: `\1`"),
        (r"(|*)", r"missing argument to repetition operator: `*`"),
        (r"*a", r"missing argument to repetition operator: `*`"),
        (r"[", r"missing closing ]: `[`"),
        (r"[[:^alpha:]]", r""),
        (r"[[:al", r"missing closing ]: `[[:al`"),
        (r"[[:foo:]]", r"invalid character class range: `[:foo:]`"),
        (r"[[:word]]", r""),
        (r"[\", r"trailing backslash at end of expression: ``"),
        (r"[\d-\w]", r""),
        (r"[\d-z]", r""),
        (r"[\pX]", r"invalid character class range: `\pX`"),
        (r"[\q]", r"invalid escape sequence: `\q`"),
        (r"[\z]", r"invalid escape sequence: `\z`"),
        (r"[]a]", r""),
        (r"[^]a]", r""),
        (r"[a", r"missing closing ]: `[a`"),
        (r"[a-", r"missing closing ]: `[a-`"),
        (r"[a-\d]", r"invalid escape sequence: `\d`"),
        (r"[a-\q]", r"invalid escape sequence: `\q`"),
        (r"[b-a-c]", r"invalid character class range: `b-a`"),
        (r"[z-a]", r"invalid character class range: `z-a`"),
        (r"\", r"trailing backslash at end of expression: ``"),
        (r"\0", r""),
        (r"\01", r""),
        (r"\1", r"invalid escape sequence: `\1`"),
        (r"\1234", r""),
        (r"\8", r"invalid escape sequence: `\8`"),
        (r"\8a", r"invalid escape sequence: `\8`"),
        (r"\C", r"invalid escape sequence: `\C`"),
        (r"\E", r"invalid escape sequence: `\E`"),
        (r"\Qa", r""),
        (r"\Z", r"invalid escape sequence: `\Z`"),
        (r"\pN", r""),
        (r"\pX", r"invalid character class range: `\pX`"),
        (r"\p{Foo", r"invalid character class range: `\p{Foo`"),
        (r"\p{Foo}", r"invalid character class range: `\p{Foo}`"),
        (r"\p{^Greek}", r""),
        (r"\q", r"invalid escape sequence: `\q`"),
        (r"\x", r"invalid escape sequence: `\x`"),
        (r"\xZ", r"invalid escape sequence: `\xZ`"),
        (r"\x{110000}", r"invalid escape sequence: `\x{110000`"),
        (r"\x{}", r"invalid escape sequence: `\x{}`"),
        (r"\z", r""),
        (r"^*", r""),
        (r"a(?i)*", r""),
        (r"a)", r"unexpected ): `a)`"),
        (r"a*(?i)*", r""),
        (r"a**", r"invalid nested repetition operator: `**`"),
        (r"a**b)", r"invalid nested repetition operator: `**`"),
        (r"a*+", r"invalid nested repetition operator: `*+`"),
        (r"a+?*", r"invalid nested repetition operator: `+?*`"),
        (r"a\", r"trailing backslash at end of expression: ``"),
        (r"a{,2}", r""),
        (r"a{01}", r""),
        (r"a{1", r""),
        (
            r"a{1000}{1000}",
            r"invalid nested repetition operator: `{1000}{1000}`",
        ),
        (r"a{1001}", r"invalid repeat count: `{1001}`"),
        (r"a{2,1}", r"invalid repeat count: `{2,1}`"),
        (r"a{2}*", r"invalid nested repetition operator: `{2}*`"),
        (r"a{2}{3}", r"invalid nested repetition operator: `{2}{3}`"),
        (r"a{99999999999}", r"invalid repeat count: `{99999999999}`"),
        (r"a|*b", r"missing argument to repetition operator: `*`"),
        (r"x*?+", r"invalid nested repetition operator: `*?+`"),
        (r"x{2}?*", r"invalid nested repetition operator: `{2}?*`"),
        (r"{2}", r"missing argument to repetition operator: `{2}`"),
        (r"|*", r"missing argument to repetition operator: `*`"),
        (r"é\é", r"invalid escape sequence: `\é`"),
    ];

    #[test]
    fn the_length_of_a_pattern_bounds_what_it_costs() {
        // Each part of these made the walk look along all that follows, or compile something.
        for part in ["{", "{1,", "[[:x]", r"\pL", r"\p{Greek}", "(?i)", r"\Q"] {
            let mut walk = Walk::new("");
            let pattern = part.repeat(1 << 16);
            walk.rest = &pattern;
            walk.run().expect(part);
            assert!(walk.unicode_names.len() <= 1, "{part}");
        }
    }

    #[test]
    fn what_go_refuses_is_refused_in_its_words() {
        for (pattern, told) in TOLD {
            let refused = check(pattern).err().map(|error| error.0);
            assert_eq!(refused.unwrap_or_default(), *told, "{pattern}");
        }
    }
}
