//! Bounds on an expression before it is parsed.
//!
//! Parser, compiler and evaluator walk the tree by recursion, so its depth must be bounded before
//! there is a tree. The scan below finds an upper bound from the text alone: what stands between
//! two brackets is a chain whose depth is at most the number of its operators and selections, and
//! brackets nest. `&&` and `||` do not count, because the parser balances them.
//!
//! Source: the limits are cel-go's (`parser/options.go`: recursion depth 250, 100 000 code points).

/// The depth of a tree that any stack of ours holds many times over.
const DEPTH_MAX: usize = 250;
/// cel-go's limit.
const CODE_POINTS_MAX: usize = 100_000;

/// Returns why a text must not be parsed.
pub(super) fn refusal(source: &str) -> Option<String> {
    let size = source.chars().count();
    if size > CODE_POINTS_MAX {
        return Some(format!(
            "expression code point size exceeds limit: size: {size}, limit {CODE_POINTS_MAX}"
        ));
    }
    (depth_bound(source) > DEPTH_MAX)
        .then(|| format!("expression recursion limit exceeded: {DEPTH_MAX}"))
}

/// One bracket's content up to here.
#[derive(Clone, Copy, Default)]
struct Segment {
    /// The operators and selections since the bracket or the last comma.
    links: usize,
    /// The deepest bracket since the bracket or the last comma.
    inner: usize,
    /// The deepest earlier part.
    deepest: usize,
}

// === impl Segment ===

impl Segment {
    fn depth(self) -> usize {
        self.deepest.max(self.links + self.inner)
    }
}

/// An upper bound of the depth of the tree.
fn depth_bound(source: &str) -> usize {
    let mut open: Vec<Segment> = Vec::new();
    let mut segment = Segment::default();
    let mut rest = Scanner {
        rest: source.as_bytes(),
    };
    while let Some(token) = rest.next_token() {
        match token {
            Token::Open => {
                // The call or the index is a link of its own.
                segment.links += 1;
                open.push(std::mem::take(&mut segment));
            }
            Token::Close => {
                let depth = segment.depth();
                segment = open.pop().unwrap_or_default();
                segment.inner = segment.inner.max(depth);
            }
            Token::Comma => {
                segment = Segment {
                    deepest: segment.depth(),
                    ..Segment::default()
                };
            }
            Token::Link => segment.links += 1,
        }
    }
    // Brackets that are not closed are a syntax error, but the parser recurses into them first.
    open.iter().rev().fold(segment.depth(), |depth, outer| {
        outer.depth().max(outer.links + depth)
    })
}

enum Token {
    Open,
    Close,
    Comma,
    Link,
}

/// Finds the tokens that matter, outside of text literals and comments.
struct Scanner<'s> {
    rest: &'s [u8],
}

// === impl Scanner ===

impl Scanner<'_> {
    fn next_token(&mut self) -> Option<Token> {
        loop {
            let (byte, rest) = self.rest.split_first()?;
            let before = self.rest;
            self.rest = rest;
            return Some(match byte {
                b'(' | b'[' | b'{' => Token::Open,
                b')' | b']' | b'}' => Token::Close,
                b',' => Token::Comma,
                b'/' if rest.first() == Some(&b'/') => {
                    self.skip_while(|byte| byte != b'\n');
                    continue;
                }
                b'+' | b'-' | b'*' | b'/' | b'%' | b'.' | b'?' | b'!' | b'<' | b'>' | b':' => {
                    Token::Link
                }
                b'=' if rest.first() == Some(&b'=') => Token::Link,
                b'i' if is_word_in(before) => Token::Link,
                b'"' | b'\'' => {
                    self.skip_text(*byte, false);
                    continue;
                }
                byte if byte.is_ascii_alphanumeric() || *byte == b'_' => {
                    self.word(before);
                    continue;
                }
                _ => continue,
            });
        }
    }

    /// Skips a word, and the text literal that it is the prefix of.
    fn word(&mut self, word: &[u8]) {
        self.skip_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let length = word.len() - self.rest.len();
        let raw = word.get(..length).is_some_and(|prefix| {
            length <= 2 && prefix.iter().any(|byte| matches!(byte, b'r' | b'R'))
        });
        if let Some((quote @ (b'"' | b'\''), rest)) = self.rest.split_first()
            && length <= 2
        {
            let quote = *quote;
            self.rest = rest;
            self.skip_text(quote, raw);
        }
    }

    /// Skips a text literal after its first quote.
    fn skip_text(&mut self, quote: u8, raw: bool) {
        let triple = self.rest.starts_with(&[quote, quote]);
        if triple {
            self.rest = self.rest.get(2..).unwrap_or_default();
        }
        while let Some((byte, rest)) = self.rest.split_first() {
            self.rest = rest;
            match *byte {
                b'\\' if !raw => self.rest = rest.get(1..).unwrap_or_default(),
                b'\n' if !triple => return,
                byte if byte == quote && !triple => return,
                byte if byte == quote && rest.starts_with(&[quote, quote]) => {
                    self.rest = rest.get(2..).unwrap_or_default();
                    return;
                }
                _ => {}
            }
        }
    }

    fn skip_while(&mut self, skipped: impl Fn(u8) -> bool) {
        let end = self
            .rest
            .iter()
            .position(|byte| !skipped(*byte))
            .unwrap_or(self.rest.len());
        self.rest = self.rest.get(end..).unwrap_or_default();
    }
}

/// Whether the operator `in` stands at the start.
fn is_word_in(text: &[u8]) -> bool {
    text.starts_with(b"in")
        && !text
            .get(2)
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_chains_and_brackets_but_not_what_stands_side_by_side() {
        for (source, want) in [
            ("a", 0),
            ("a.b.c", 2),
            ("1 + 2 + 3", 2),
            ("f(a, b, c)", 1),
            ("[1 + 1, 2 + 2, 3 + 3 + 3]", 3),
            ("((((1))))", 4),
            ("a && b && c || d", 0),
            ("'((((' + \"}}]]\"", 1),
            ("r'\\' + (1)", 2),
            ("'''it's (((''' + '\\'((('", 1),
            ("a // ((((\n + b", 1),
            ("x in y ? 1 : 2", 3),
            ("index.in_list", 1),
            ("(((", 3),
        ] {
            assert_eq!(depth_bound(source), want, "{source}");
        }
    }

    #[test]
    fn long_chains_deep_brackets_and_long_texts_are_refused() {
        for (name, source) in [
            ("sum", format!("1{}", "+1".repeat(10_000))),
            ("fields", format!("a{}", ".b".repeat(10_000))),
            ("brackets", "(".repeat(10_000)),
            ("lists", format!("{}{}", "[".repeat(300), "]".repeat(300))),
            ("minuses", format!("{}1", "-(".repeat(300))),
            ("ternaries", format!("{}1", "a ? b : ".repeat(300))),
            ("text", format!("'{}'", "x".repeat(100_000))),
        ] {
            assert!(refusal(&source).is_some(), "{name}");
        }
        let wide = format!("[{}1]", "1 + 1, ".repeat(5000));
        assert_eq!(refusal(&wide), None);
        assert_eq!(refusal(&vec!["a"; 1000].join(" && ")), None);
    }
}
