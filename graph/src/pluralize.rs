//! Plurals of kinds, as the inflector that kro uses makes them.
//!
//! The plural is the resource name of a generated definition and part of its object name, so it must come out as kro's
//! does, mistakes included (`octopus` gives `octupuses`). One exception: for an acronym that ends in `s` the inflector
//! gives a name with capitals (`dns` gives `dnsDNSes`), which no API server takes as a resource name; there we go on
//! with the word in lower case instead.
//!
//! Source: gobuffalo/flect v1.0.3, `pluralize.go`.

mod words;

use words::{ACRONYMS, ENDINGS, Use, WORDS};

/// Gives the plural of a kind in lower case.
pub fn pluralize(kind: &str) -> String {
    if let Some(word) = WORDS.iter().find(|word| word.singular == kind) {
        return word.plural.to_owned();
    }
    let is_plural = |word: &words::Word| {
        word.use_of != Use::OneWay
            && (word.plural == kind || (!word.alternative.is_empty() && word.alternative == kind))
    };
    if WORDS.iter().any(is_plural) {
        return kind.to_owned();
    }
    let upper = kind.to_ascii_uppercase();
    if ACRONYMS.contains(&upper.as_str()) && !kind.ends_with('s') {
        return format!("{kind}s");
    }
    match replace_ending(kind) {
        Some(plural) => plural,
        None if kind.ends_with('s') => kind.to_owned(),
        None => format!("{kind}s"),
    }
}

/// Applies the first rule whose ending matches: irregular words from last to first, then the endings from first to
/// last; each rule first recognises what is a plural already.
fn replace_ending(kind: &str) -> Option<String> {
    let irregular = WORDS
        .iter()
        .rev()
        .filter(|word| word.use_of != Use::Exact)
        .map(|word| (word.singular, word.plural));
    irregular
        .chain(ENDINGS.iter().copied())
        .find_map(|(singular, plural)| {
            if kind.ends_with(plural) {
                return Some(kind.to_owned());
            }
            kind.strip_suffix(singular)
                .map(|stem| format!("{stem}{plural}"))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made with the inflector itself.
    #[test]
    fn plurals_are_the_inflectors() {
        let cases = include_str!("pluralize/plurals.txt")
            .lines()
            .filter_map(|line| line.split_once(' '));
        let mut count = 0;
        for (kind, want) in cases {
            assert_eq!(pluralize(kind), want, "{kind}");
            count += 1;
        }
        assert!(count > 200, "the table is there");
    }

    #[test]
    fn acronyms_never_give_capitals() {
        for (kind, want) in [
            ("dns", "dns"),
            ("https", "https"),
            ("api", "apis"),
            ("acl", "acls"),
        ] {
            assert_eq!(pluralize(kind), want, "{kind}");
        }
    }
}
