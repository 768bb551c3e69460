//! No text and no data make the process panic, hang or overflow its stack.

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use wheelhouse_cel::{Bindings, Budget, Environment, ErrorClass, EvaluateError};

/// Compiles and evaluates whatever it is, on the stack of a test thread.
fn survive(source: &str, object: &Json) -> Option<Result<Json, EvaluateError>> {
    let program = Environment::kro_with_omit()
        .compile_unchecked(source)
        .ok()?;
    let mut bindings = Bindings::new();
    bindings.json("o", object);
    let result = program.evaluate(&bindings, Budget::steps(50_000));
    Some(result.and_then(|value| value.to_json()))
}

#[test]
fn long_and_deep_expressions_are_refused_or_evaluated() {
    let object = json!({"a": {"a": {"a": 1}}});
    for (unit, count, tail) in [
        ("1+", 249, "1"),
        ("1+", 50_000, "1"),
        ("1-", 249, "1"),
        ("true && ", 5_000, "true"),
        ("o.", 240, "a"),
        ("(", 90, "1"),
        ("(", 240, ""),
        ("[", 240, ""),
        ("!", 5_000, "true"),
        ("-", 5_000, "1"),
        ("true ? 1 : ", 80, "1"),
        ("\"", 5_001, ""),
        ("[1,", 90, "1"),
        ("{'a':", 90, "1"),
        ("size([", 80, "]"),
        ("o[", 90, "'a'"),
        ("'a'.size().", 100, "b"),
        ("ü", 1_000, ""),
    ] {
        let source = format!("{}{tail}", unit.repeat(count));
        let closed = source.clone() + &")".repeat(count);
        drop(survive(&source, &object));
        drop(survive(&closed, &object));
    }
}

/// The threads of an executor have 2 MiB; what is allowed must leave room for the caller, without
/// optimization too. Most of it is the parser's: about 10 KiB for each nested bracket.
#[test]
fn the_deepest_expressions_that_are_allowed_fit_a_thread() {
    let shapes: [(&str, fn(usize) -> String); 8] = [
        ("sum", |depth| format!("1{}", " + 1".repeat(depth))),
        ("fields", |depth| format!("o{}", ".a".repeat(depth))),
        ("brackets", |depth| wrapped(depth, "(", ")")),
        ("lists", |depth| wrapped(depth, "[", "]")),
        ("maps", |depth| wrapped(depth, "{'a': ", "}")),
        ("macros", |depth| wrapped(depth, "[1].map(x, ", ")")),
        ("ternaries", |depth| wrapped(depth, "true ? (", ") : 2")),
        ("calls", |depth| {
            wrapped(depth, "[1, 2].sortBy(x, size([", "]))")
        }),
    ];
    for (name, shape) in shapes {
        let check = move || {
            let object = json!({});
            let mut deepest = 0;
            for depth in (1..300).step_by(3) {
                if survive(&shape(depth), &object).is_some() {
                    deepest = depth;
                }
            }
            deepest
        };
        let thread = std::thread::Builder::new().stack_size(3 << 19);
        let deepest = thread
            .spawn(check)
            .expect("a thread")
            .join()
            .expect("no panic");
        assert!(deepest > 30, "{name}: {deepest}");
    }
}

fn wrapped(depth: usize, open: &str, close: &str) -> String {
    format!("{}1{}", open.repeat(depth), close.repeat(depth))
}

#[test]
fn work_that_grows_ends_within_the_budget() {
    let object = json!({"s": "x".repeat(1000), "l": (0..1000).collect::<Vec<i64>>()});
    let doubling = (0..60).fold("x".to_owned(), |inner, _| {
        format!("cel.bind(x, x + x, {inner})")
    });
    let doubling = format!("cel.bind(x, 'ab', {doubling})");
    let lists = doubling.replace("'ab'", "[1, 2]");
    for (name, source) in [
        (
            "nested loops",
            "o.l.all(a, o.l.all(b, o.l.all(c, a + b + c >= 0)))",
        ),
        ("doubling text", doubling.as_str()),
        ("doubling lists", lists.as_str()),
        ("ranges", "lists.range(1000000000000)"),
        ("replacing", "o.s.replace('x', o.s).replace('x', o.s)"),
        ("seeds", "random.seededString(1000000000, 'a')"),
        ("joining", "o.l.map(x, o.s).join(o.s)"),
        ("distinct", "lists.range(40000).distinct()"),
        (
            "precision",
            "lists.range(40000).map(x, '%.100f'.format([1.0]))",
        ),
        ("flattening", "o.l.map(x, o.l).flatten()"),
        ("sorting", "lists.range(20000).sort().sort().sort()"),
        (
            "patterns",
            "o.l.exists(x, 'a'.matches(string(x) + '(a|b|c){1,100}'))",
        ),
        (
            "merging",
            "o.l.map(x, {string(x): o.l}).map(m, m.merge(m)).map(m, json.marshal(m))",
        ),
        ("comparing", "o.l.all(x, o.l == o.l)"),
    ] {
        let result = survive(source, &object).expect(name);
        let error = result.expect_err(name);
        assert_eq!(error.class, ErrorClass::Cost, "{name}: {error}");
    }
}

#[test]
fn a_value_that_shares_its_parts_is_not_written_out_without_end() {
    let object = json!({"s": "x".repeat(100_000)});
    for inner in ["o.s", "{'a': o}"] {
        let doubling = (0..30).fold("x".to_owned(), |body, _| {
            format!("cel.bind(x, [x, x], {body})")
        });
        let source = format!("cel.bind(x, {inner}, {doubling})");
        let error = survive(&source, &object)
            .expect("compiles")
            .expect_err("too large");
        assert_eq!(error.class, ErrorClass::Cost, "{inner}: {error}");
        for function in ["json.marshal(", "'%s'.format([", "string([1] == "] {
            let close = if function.ends_with('[') { "])" } else { ")" };
            let read = format!("{function}{source}{close}");
            let result = survive(&read, &object).expect("compiles");
            assert!(
                result
                    .as_ref()
                    .is_err_and(|error| error.class == ErrorClass::Cost)
                    || function.starts_with("string"),
                "{read}: {result:?}"
            );
        }
    }
}

#[test]
fn a_spent_budget_is_not_absorbed() {
    for source in [
        "lists.range(100000).size() > 0 || true",
        "lists.range(100000).size() < 0 && false",
        "[1].exists(x, lists.range(100000).size() < 0) || true",
        "[1, 2].all(x, lists.range(100000).size() < 0)",
        "cel.bind(x, lists.range(100000), true) && x == 1",
    ] {
        let Some(Err(error)) = survive(source, &json!(null)) else {
            // A binding that is never read does not fail, and neither does what follows.
            assert!(source.starts_with("cel.bind"), "{source}");
            continue;
        };
        assert!(
            error.class == ErrorClass::Cost || source.starts_with("cel.bind"),
            "{source}: {error}"
        );
    }
}

#[test]
fn patterns_and_formats_of_foreign_make_are_errors() {
    for source in [
        "'a'.matches('a{1000}{1000}{1000}')",
        "'a'.matches('((((((((((a*)*)*)*)*)*)*)*)*)*')",
        "'%'.format([1])",
        "'%.'.format([1])",
        "'%.5'.format([1])",
        "'%.99999999999999999999f'.format([1.0])",
        "url('http://[')",
        "quantity('1e1000000000')",
        "quantity('.')",
        "cidr('1.2.3.4/')",
        "semver('1.2.3-')",
        "duration('9999999999999999999h')",
        "timestamp('2024-13-01T00:00:00Z')",
        "timestamp(0).getHours('+:')",
        "json.unmarshal('[[[')",
        "-(-9223372036854775807 - 1)",
        "(-9223372036854775807 - 1) / -1",
        "(-9223372036854775807 - 1) % -1",
        "[1][9223372036854775807]",
        "'abc'.substring(9223372036854775807)",
        "int('9223372036854775808')",
        "int(1e300)",
        "uint(-1.0)",
    ] {
        if let Some(result) = survive(source, &json!(null)) {
            let fine = source.contains("matches");
            assert!(result.is_err() || fine, "{source}: {result:?}");
        }
    }
}

/// What an expression is made of, separated by blanks; `_` stands for one.
const TOKENS: &str = r#"o o.a 1 -1 1u 1.5 's' "t" b'x' true null [ ] ( ) { } , : . ? .? [? + - * /
% == != < >= _in_ && || ! .size() .map(x, .all(x, .exists(i,v, cel.bind(x, has( x .orValue(
optional.of( .format([ .split( '%s' .sort() .flatten() .transformMap(k,v, string( int( type( size(
quantity( ip( duration( timestamp( .matches( `a-b` // ''' r' \ ü $ @ omit() runtime"#;

fn token() -> impl Strategy<Value = String> {
    let tokens: Vec<String> = TOKENS
        .split_ascii_whitespace()
        .map(|token| token.replace('_', " "))
        .chain(["\n".to_owned(), "\0".to_owned()])
        .collect();
    prop::sample::select(tokens)
}

fn data() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<f64>().prop_map(Json::from),
        ".{0,8}".prop_map(Json::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            prop::collection::btree_map("[a-c]", inner, 0..4)
                .prop_map(|fields| Json::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn any_text_is_refused_or_evaluated(source in ".{0,60}") {
        drop(survive(&source, &Json::Null));
    }

    #[test]
    fn any_row_of_tokens_is_refused_or_evaluated(
        tokens in prop::collection::vec(token(), 0..14),
        object in data(),
    ) {
        drop(survive(&tokens.concat(), &object));
    }

    #[test]
    fn equality_is_symmetric_and_reflexive(left in data(), right in data()) {
        let equal = Environment::kro().compile_unchecked("[a == b, b == a, a == a]").expect("compiles");
        let mut bindings = Bindings::new();
        bindings.json("a", &left).json("b", &right);
        let value = equal.evaluate(&bindings, Budget::default()).expect("equality never fails");
        let Json::Array(parts) = value.to_json().expect("booleans") else {
            panic!("a list");
        };
        prop_assert_eq!(&parts[0], &parts[1]);
        prop_assert_eq!(&parts[2], &Json::Bool(true));
    }

    #[test]
    fn json_goes_through_unchanged(object in data()) {
        let out = survive("[o]", &object).expect("compiles").expect("evaluates");
        let again = survive("o", &out[0]).expect("compiles").expect("evaluates");
        prop_assert_eq!(&again, &out[0]);
    }
}

/// What would take much memory ends where its steps or its memory are used up, and not later: with
/// the steps of one evaluation of an instance, which are ten million.
#[test]
fn what_grows_is_charged_before_it_grows() {
    let object = json!({"text": "x".repeat(1_000), "list": vec![0; 1_000]});
    for source in [
        "lists.range(1000000).map(i, lists.range(1000000))",
        "lists.range(9000000)",
        "lists.range(5000000).map(i, i)",
        "lists.range(1000000).map(i, {'a': i})",
        "lists.range(1000).map(a, o.list.map(b, [a, b, a, b, a, b]))",
        "lists.range(100000).map(i, o.text + o.text)",
        "lists.range(100000).map(i, o.text.replace('x', 'yyyyyyyyyyyyyyyy'))",
        "lists.range(1000).map(i, o.list + o.list + o.list)",
        "lists.range(100000).map(i, o.list.reverse())",
        "lists.range(2000000).sort().reverse().sort()",
    ] {
        let program = Environment::kro().compile_unchecked(source).expect(source);
        let mut bindings = Bindings::new();
        bindings.json("o", &object);
        let result = program.evaluate(&bindings, Budget::steps(10_000_000));
        let class = result.map(|_| ()).map_err(|error| error.class);
        assert_eq!(class, Err(ErrorClass::Cost), "{source}");
    }
    // Small until it is written.
    for source in [
        "lists.range(200000).map(i, {'a': i})",
        "lists.range(1000).map(i, o)",
    ] {
        let program = Environment::kro().compile_unchecked(source).expect(source);
        let mut bindings = Bindings::new();
        bindings.json("o", &object);
        let value = program
            .evaluate(&bindings, Budget::steps(10_000_000))
            .expect(source);
        let class = value.to_json().map(|_| ()).map_err(|error| error.class);
        assert_eq!(class, Err(ErrorClass::Cost), "{source}");
    }
}

/// What people write, of the size that a collection may have.
#[test]
fn a_thousand_objects_can_be_held_against_each_other() {
    let objects: Vec<Json> = (0..1_000)
        .map(|index| json!({"name": format!("name-{index}"), "weight": index}))
        .collect();
    let object = json!({"list": objects});
    let source = "o.list.filter(a, o.list.all(b, a.weight >= b.weight))";
    let program = Environment::kro().compile_unchecked(source).expect(source);
    let mut bindings = Bindings::new();
    bindings.json("o", &object);
    let value = program
        .evaluate(&bindings, Budget::steps(10_000_000))
        .expect("it fits");
    assert_eq!(
        value.to_json().expect("small"),
        json!([{"name": "name-999", "weight": 999}])
    );
}
