//! The order of API versions: general availability before beta before alpha, then the higher number first.
//!
//! Source: `apimachinery/pkg/version/helpers.go`.

use std::cmp::{Ordering, Reverse};

/// Compares two versions so that the preferred one is the smaller: `v10`, `v2`, `v1`, `v11beta2`, `v10beta3`,
/// `v3beta1`, `v12alpha1`, `foo1`, `foo10`.
pub fn compare(left: &str, right: &str) -> Ordering {
    match (parse(left), parse(right)) {
        (Some(left), Some(right)) => Reverse(left).cmp(&Reverse(right)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => left.cmp(right),
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Stability {
    Alpha,
    Beta,
    GenerallyAvailable,
}

fn parse(text: &str) -> Option<(Stability, i64, i64)> {
    let rest = text.strip_prefix('v')?;
    let (major, stability, minor) = if let Some((major, minor)) = rest.split_once("alpha") {
        (major, Stability::Alpha, number(minor)?)
    } else if let Some((major, minor)) = rest.split_once("beta") {
        (major, Stability::Beta, number(minor)?)
    } else {
        (rest, Stability::GenerallyAvailable, 0)
    };
    Some((stability, number(major)?, minor))
}

fn number(digits: &str) -> Option<i64> {
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        digits.parse().ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_stability_and_number() {
        let want = [
            "v10",
            "v2",
            "v1",
            "v11beta2",
            "v10beta3",
            "v3beta1",
            "v12alpha1",
            "v11alpha2",
            "foo1",
            "foo10",
        ];
        let mut versions = want;
        versions.reverse();
        versions.sort_by(|left, right| compare(left, right));
        assert_eq!(versions, want);
    }

    #[test]
    fn only_kubernetes_versions_parse() {
        for (text, want) in [
            ("v1", true),
            ("v1alpha1", true),
            ("v1beta", false),
            ("v", false),
            ("1", false),
            ("v1gamma1", false),
            ("v+1", false),
            ("v1alpha1beta1", false),
            ("v99999999999999999999", false),
        ] {
            assert_eq!(parse(text).is_some(), want, "{text}");
        }
    }
}
