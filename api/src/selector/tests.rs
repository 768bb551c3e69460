use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::field::FieldPath;

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

#[test]
fn selectors_parse_and_match_as_in_apimachinery() {
    for (text, pairs, want) in [
        ("", &[][..], true),
        ("a", &[("a", "")][..], true),
        ("a", &[], false),
        ("!a", &[], true),
        ("!a", &[("a", "x")], false),
        ("a=b", &[("a", "b")], true),
        ("a==b", &[("a", "c")], false),
        ("a=", &[("a", "")], true),
        ("a=,b=c", &[("a", ""), ("b", "c")], true),
        ("a!=b", &[], true),
        ("a!=b", &[("a", "b")], false),
        (" a in ( b , c ) ", &[("a", "c")], true),
        ("a in (b,c)", &[("a", "d")], false),
        ("a in (b,c)", &[], false),
        ("a notin (b)", &[], true),
        ("a notin (b)", &[("a", "b")], false),
        ("a in ()", &[("a", "")], true),
        ("a in (,)", &[("a", "")], true),
        ("a in (,,b)", &[("a", "b")], true),
        ("in in (in,notin)", &[("in", "notin")], true),
        ("notin=in", &[("notin", "in")], true),
        ("a>1", &[("a", "2")], true),
        ("a>1", &[("a", "x")], false),
        ("a<1", &[("a", "0")], true),
        ("a<1", &[], false),
        ("example.com/a=b,c!=d", &[("example.com/a", "b")], true),
        ("a=b,c", &[("a", "b")], false),
    ] {
        let selector = Selector::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(selector.matches(&labels(pairs)), want, "{text} {pairs:?}");
        let printed = selector.to_string();
        assert_eq!(
            Selector::parse(&printed).unwrap(),
            selector,
            "{text} -> {printed}"
        );
    }
}

#[test]
fn what_is_no_selector_is_refused_in_the_words_of_apimachinery() {
    for (text, want) in [
        (
            ",",
            "found ',', expected: !, identifier, or 'end of string'",
        ),
        ("a,", "found '', expected: identifier after ','"),
        (
            "a b",
            "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
        ),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        (
            "a in b",
            "unable to parse requirement: found 'b' expected: '('",
        ),
        (
            "a in (b",
            "unable to parse requirement: found '', expected: ',' or ')'",
        ),
        (
            "a in (=",
            "unable to parse requirement: found '=', expected: ',', ')' or identifier",
        ),
        (
            "a=(",
            "unable to parse requirement: found '(', expected: identifier",
        ),
        (
            "!",
            "unable to parse requirement: found '', expected: identifier",
        ),
        (
            "a>b",
            "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer",
        ),
    ] {
        assert_eq!(
            Selector::parse(text).unwrap_err().to_string(),
            want,
            "{text}"
        );
    }
    for (text, want) in [
        (
            "a/b/c",
            "unable to parse requirement: <nil>: Invalid value: \"a/b/c\": a valid label key",
        ),
        (
            "a=-",
            "unable to parse requirement: values[0][a]: Invalid value: \"-\": a valid label must be",
        ),
    ] {
        let error = Selector::parse(text).unwrap_err().to_string();
        assert!(error.starts_with(want), "{text}: {error}");
    }
}

#[test]
fn nothing_matches_nothing_and_everything_everything() {
    assert!(!Selector::nothing().matches(&labels(&[])));
    assert!(Selector::nothing().is_nothing());
    assert!(Selector::everything().matches(&labels(&[("a", "b")])));
}

#[test]
fn label_selectors_convert_and_are_judged() {
    let selector: LabelSelector = serde_json::from_value(json!({
        "matchLabels": {"a": "b"},
        "matchExpressions": [
            {"key": "c", "operator": "In", "values": ["e", "d"]},
            {"key": "f", "operator": "DoesNotExist"},
        ],
    }))
    .unwrap();
    assert_eq!(
        selector.to_selector().unwrap().to_string(),
        "a=b,c in (d,e),!f"
    );
    assert_eq!(selector.validate(&FieldPath::new("s")), []);

    let bad: LabelSelector = serde_json::from_value(json!({"matchExpressions": [
        {"key": "c", "operator": "Bad"}, {"key": "c", "operator": "In"},
        {"key": "c", "operator": "Exists", "values": ["x"]},
    ]}))
    .unwrap();
    assert_eq!(
        bad.to_selector().unwrap_err().to_string(),
        "\"Bad\" is not a valid label selector operator"
    );
    let texts: Vec<String> = bad
        .validate(&FieldPath::new("s"))
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        texts,
        [
            "s.matchExpressions[0].operator: Invalid value: \"Bad\": not a valid selector operator",
            "s.matchExpressions[1].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
            "s.matchExpressions[2].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        ]
    );
}

#[test]
fn field_selectors_parse_with_escapes() {
    use FieldOperator::{Equals, NotEquals};
    for (text, want) in [
        ("", vec![]),
        (",", vec![]),
        ("=", vec![]),
        ("!=,==", vec![]),
        ("metadata.name=a", vec![("metadata.name", Equals, "a")]),
        ("b==1,a!=2", vec![("a", NotEquals, "2"), ("b", Equals, "1")]),
        (r"a=\,\=\\", vec![("a", Equals, r",=\")]),
        ("a=", vec![("a", Equals, "")]),
        ("=a", vec![("", Equals, "a")]),
    ] {
        let selector = FieldSelector::parse(text).unwrap();
        let got: Vec<_> = selector
            .requirements()
            .iter()
            .map(|it| (it.path.as_str(), it.operator, it.value.as_str()))
            .collect();
        assert_eq!(got, want, "{text}");
        assert_eq!(
            FieldSelector::parse(&selector.to_string()).unwrap(),
            selector,
            "{text}"
        );
    }
    for (text, want) in [
        ("a", "invalid selector: 'a'; can't understand 'a'"),
        (
            r"a=\b",
            r"invalid field selector: invalid escape sequence: \b",
        ),
        (
            r"a=\",
            r"invalid field selector: invalid escape sequence: \",
        ),
        (
            "a=b=c",
            "invalid field selector: unescaped character in value: 61",
        ),
    ] {
        assert_eq!(
            FieldSelector::parse(text).unwrap_err().to_string(),
            want,
            "{text}"
        );
    }
}

#[test]
fn a_missing_field_compares_as_empty() {
    let selector = FieldSelector::parse("a!=x,b=").unwrap();
    assert!(selector.matches(|_| ""));
    assert!(!selector.matches(|_| "x"));
    assert_eq!(
        FieldSelector::name("a,b").to_string(),
        r"metadata.name=a\,b"
    );
    assert_eq!(FieldSelector::name("a").exact("metadata.name"), Some("a"));
}

proptest! {
    #[test]
    fn parsing_never_panics_and_printing_keeps_the_meaning(text in "[a-c=!<>(),in \\\\/.]{0,24}|.{0,12}") {
        if let Ok(selector) = Selector::parse(&text) {
            prop_assert_eq!(Selector::parse(&selector.to_string()), Ok(selector));
        }
        if let Ok(selector) = FieldSelector::parse(&text) {
            prop_assert_eq!(FieldSelector::parse(&selector.to_string()), Ok(selector));
        }
    }
}

#[test]
fn a_selector_costs_no_more_than_its_length() {
    // A selector of 60,000 parentheses once cost 3 s: each was scanned to the end of the run.
    for symbol in ["(", ")", "!", "=", ",", "<", ">"] {
        let text = symbol.repeat(60_000);
        assert!(Selector::parse(&text).is_err(), "{symbol} is no selector");
        let error = Selector::parse(&format!("a{text}"))
            .unwrap_err()
            .to_string();
        assert!(
            error.len() < 1_000,
            "{symbol}: {} bytes of error",
            error.len()
        );
    }
    let many: Vec<String> = (0..257).map(|index| format!("k{index}")).collect();
    let (_, fewer) = many.split_first().unwrap();
    assert!(
        Selector::parse(&many.join(",")).is_err(),
        "257 requirements"
    );
    assert_eq!(
        Selector::parse(&fewer.join(","))
            .unwrap()
            .requirements()
            .len(),
        256
    );
    assert!(
        FieldSelector::parse(&vec!["a=b"; 257].join(",")).is_err(),
        "257 terms"
    );
    assert!(
        Selector::parse(&"a".repeat(70_000)).is_err(),
        "more bytes than a URL has"
    );
    assert!(
        FieldSelector::parse(&"a".repeat(70_000)).is_err(),
        "more bytes than a URL has"
    );
}

#[test]
fn a_large_set_of_values_is_searched_and_not_walked() {
    let values: Vec<String> = (0..5_000).map(|index| format!("v{index}")).collect();
    let selector = Selector::parse(&format!("a in ({})", values.join(","))).unwrap();
    for (value, want) in [("v0", true), ("v4999", true), ("w", false), ("", false)] {
        let labels = BTreeMap::from([("a".to_owned(), value.to_owned())]);
        assert_eq!(selector.matches(&labels), want, "{value}");
    }
    let unsorted = Requirement::new("a", Operator::In, vec!["z".into(), "b".into()]).unwrap();
    let labels = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
    assert!(unsorted.matches(&labels), "values in any order");
}
