//! Templates as kro splits them.

use proptest::prelude::*;

use super::*;

#[test]
fn expressions_are_found_as_kro_finds_them() {
    use Segment::{Expression as E, Literal as L};
    let cases: &[(&str, &[Segment<'_>])] = &[
        ("", &[]),
        ("plain", &[L("plain")]),
        ("${a}", &[E("a")]),
        ("${a}\n", &[E("a"), L("\n")]),
        ("x-${a}-y${b}", &[L("x-"), E("a"), L("-y"), E("b")]),
        ("${a}${b}", &[E("a"), E("b")]),
        ("${{'k': {}}}", &[E("{'k': {}}")]),
        (r#"${"}"}"#, &[E(r#""}""#)]),
        (r#"${"\"}"}"#, &[E(r#""\"}""#)]),
        (r#"${"${VAR}"}"#, &[E(r#""${VAR}""#)]),
        ("${'}'}", &[E("'"), L("'}")]),
        ("${unclosed", &[L("${unclosed")]),
        ("$${a}", &[L("$"), E("a")]),
        ("a } b", &[L("a } b")]),
        ("${}", &[E("")]),
        ("ü${ü}ü", &[L("ü"), E("ü"), L("ü")]),
    ];
    for (text, want) in cases {
        let template = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(template.segments(), *want, "{text}");
    }
}

#[test]
fn an_expression_within_an_expression_is_refused_unless_it_is_quoted() {
    for text in ["${a ${b}}", "${outer(${inner})}", "${'${x}'}", "${a ${b"] {
        assert_eq!(parse(text), Err(TemplateError::NestedExpression), "{text}");
    }
}

#[test]
fn only_a_whole_expression_stands_alone() {
    for (text, standalone, source) in [
        ("${a.b}", Some("a.b"), Some("a.b")),
        ("${a}\n", None, Some(r#"(a) + "\n""#)),
        ("v-${a}", None, Some(r#""v-" + (a)"#)),
        ("${a}${b}", None, Some("(a) + (b)")),
        ("v", None, None),
    ] {
        let template = parse(text).expect("no nesting");
        assert_eq!(template.standalone(), standalone, "{text}");
        assert_eq!(template.source().as_deref(), source, "{text}");
    }
}

#[test]
fn many_unterminated_expressions_end_in_an_error_and_not_in_a_wait() {
    // Each `${` is allowed, because a quote stands before it, and none is closed.
    let text = r#"${"a""#.repeat(200_000);
    assert_eq!(parse(&text), Err(TemplateError::TooManyUnterminated));
}

#[test]
fn literal_parts_are_quoted_as_in_go() {
    for (text, want) in [
        ("a\"b\\c", r#""a\"b\\c""#),
        ("\n\t\r\u{7}\u{1b}\u{7f}", r#""\n\t\r\a\x1b\x7f""#),
        ("é世\u{a0}\u{2028}", r#""é世\u00a0\u2028""#),
        ("\u{10ffff}", r#""\U0010ffff""#),
    ] {
        assert_eq!(quote(text), want, "{text:?}");
    }
}

proptest! {
    #[test]
    fn the_parts_put_together_are_the_text(text in r#"[${}"'\\a ü\n]{0,40}"#) {
        if let Ok(template) = parse(&text) {
            let again: String = template
                .segments()
                .iter()
                .map(|segment| match segment {
                    Segment::Literal(text) => (*text).to_owned(),
                    Segment::Expression(inner) => format!("${{{inner}}}"),
                })
                .collect();
            prop_assert_eq!(again, text);
        }
    }
}
