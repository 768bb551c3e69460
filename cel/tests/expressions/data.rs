//! Evaluation on JSON: how values are read, what is pending, and what comes out.

use serde_json::{Value as Json, json};
use wheelhouse_cel::{
    Bindings, Budget, DeclType, Declarations, Environment, ErrorClass, EvaluateError, Value,
    template,
};

fn evaluate(source: &str, object: &Json) -> Result<Json, EvaluateError> {
    let program = Environment::kro_with_omit()
        .compile(source, &Declarations::new().with("o", DeclType::Dyn))
        .unwrap_or_else(|error| panic!("{error}"));
    let mut bindings = Bindings::new();
    bindings.json("o", object);
    program.evaluate(&bindings, Budget::default())?.to_json()
}

#[test]
fn json_is_read_by_reference_and_integers_are_ints() {
    let object = json!({
        "i": 3, "f": 1.5, "w": 2.0, "big": 9_223_372_036_854_775_808_u64, "s": "t", "b": true,
        "n": null, "l": [1, {"k": "v"}], "m": {"b": 2, "a": 1},
    });
    for (source, want) in [
        ("o.i * 2", json!(6)),
        (
            "type(o.i) == int && type(o.f) == double && type(o.w) == double",
            json!(true),
        ),
        ("type(o.big) == double", json!(true)),
        ("o.w == 2 && o.i == 3.0 && o.i < 3.5", json!(true)),
        ("o.n == null && has(o.n) && !has(o.x)", json!(true)),
        ("o.l[1].k", json!("v")),
        (
            "o.l == [1, {'k': 'v'}] && [1, {'k': 'v'}] == o.l",
            json!(true),
        ),
        (
            "o.m == {'a': 1, 'b': 2} && {'a': 1.0, 'b': 2u} == o.m",
            json!(true),
        ),
        ("o.m.map(k, k + string(o.m[k]))", json!(["a1", "b2"])),
        (
            "'a' in o.m && !('x' in o.m) && 1 in o.l && {'k': 'v'} in o.l",
            json!(true),
        ),
        ("o.l.size() + size(o.m) + o.s.size()", json!(5)),
        ("o", object.clone()),
        ("[o.m, o.l]", json!([{"a": 1, "b": 2}, [1, {"k": "v"}]])),
        ("o.?x.?y.orValue('none')", json!("none")),
        ("o.?m.?a", json!(1)),
        ("o.?x", json!(null)),
    ] {
        assert_eq!(evaluate(source, &object).expect(source), want, "{source}");
    }
}

#[test]
fn what_is_not_there_yet_is_pending_and_everything_else_is_an_error() {
    let object = json!({"a": {"list": [1]}, "s": "text", "n": null});
    for (source, class, message) in [
        ("o.status", ErrorClass::DataPending, "no such key: status"),
        ("o.a.b.c", ErrorClass::DataPending, "no such key: b"),
        ("o['x']", ErrorClass::DataPending, "no such key: x"),
        (
            "o.a.list[1]",
            ErrorClass::DataPending,
            "index out of bounds: 1",
        ),
        (
            "o.a.list[-1]",
            ErrorClass::DataPending,
            "index out of bounds: -1",
        ),
        ("o.s.x", ErrorClass::DataPending, "no such key: x"),
        ("o.n.x", ErrorClass::DataPending, "no such key: x"),
        ("has(o.x.y)", ErrorClass::DataPending, "no such key: x"),
        (
            "o.a.list['x']",
            ErrorClass::Other,
            "unsupported index type 'string' in list",
        ),
        ("o.s + 1", ErrorClass::Other, "no such overload"),
        ("o.s.size(1)", ErrorClass::Other, ""),
        (
            "1 / (o.a.list[0] - 1)",
            ErrorClass::Other,
            "division by zero",
        ),
        ("o.s.startsWith(1)", ErrorClass::Other, ""),
        (
            "lists.setAtIndex(o.a.list, 5, 1)",
            ErrorClass::Other,
            "index 5 out of bounds [0, 1)",
        ),
        (
            "runtime.condition({}, 'a').x",
            ErrorClass::DataPending,
            "Condition: no such field \"x\"",
        ),
        ("!o.s", ErrorClass::Other, "no such overload"),
        ("o.s ? 1 : 2", ErrorClass::Other, "no such overload"),
        (
            "o.s.substring(o.a)",
            ErrorClass::Other,
            "no such overload: substring(string, map)",
        ),
    ] {
        let program = Environment::kro().compile_unchecked(source).expect(source);
        let mut bindings = Bindings::new();
        bindings.json("o", &object);
        let error = program
            .evaluate(&bindings, Budget::default())
            .expect_err(source);
        assert_eq!(error.class, class, "{source}: {error}");
        assert!(error.message.contains(message), "{source}: {error}");
    }
}

#[test]
fn a_variable_without_a_value_is_pending() {
    let program = Environment::kro()
        .compile(
            "vpc.status.id",
            &Declarations::new().with("vpc", DeclType::Dyn),
        )
        .expect("compiles");
    let error = program
        .evaluate(&Bindings::new(), Budget::default())
        .expect_err("nothing is bound");
    assert_eq!(error.message, "no such attribute(s): vpc");
    assert_eq!(error.class, ErrorClass::DataPending);
}

#[test]
fn logic_gives_way_to_the_operand_that_decides() {
    let object = json!({"t": true, "f": false});
    for (source, want) in [
        ("o.x || o.t", json!(true)),
        ("o.t || o.x", json!(true)),
        ("o.x && o.f", json!(false)),
        ("o.f && o.x", json!(false)),
        ("!has(o.x) || o.x.y", json!(true)),
    ] {
        assert_eq!(evaluate(source, &object).expect(source), want, "{source}");
    }
    let error = evaluate("o.x || o.f", &object).expect_err("nothing decides");
    assert_eq!(error.class, ErrorClass::DataPending);
}

fn secret() -> DeclType {
    let metadata = DeclType::object(
        "metadata",
        [("creationTimestamp".to_owned(), DeclType::Timestamp)],
    );
    DeclType::object(
        "secret",
        [
            ("metadata".to_owned(), metadata),
            (
                "data".to_owned(),
                DeclType::map(DeclType::String, DeclType::Bytes),
            ),
            ("replicas".to_owned(), DeclType::Int),
            ("ratio".to_owned(), DeclType::Double),
            ("wait".to_owned(), DeclType::Duration),
            ("day".to_owned(), DeclType::Timestamp),
            ("gone".to_owned(), DeclType::String),
            ("dash-ed".to_owned(), DeclType::Int),
            ("blobs".to_owned(), DeclType::list(DeclType::Bytes)),
        ],
    )
}

#[test]
fn declared_types_say_what_json_means() {
    let ty = secret();
    let object = json!({
        "metadata": {"creationTimestamp": "2024-01-02T03:04:05Z"},
        "data": {"password": "aHVudGVyMg==", "url": "Pz8_"},
        "replicas": 3.0, "ratio": 2, "wait": "1h30m", "day": "2024-01-02", "gone": null,
        "dash-ed": 7, "blobs": ["aA=="], "undeclared": 1,
    });
    let declarations = Declarations::new().with("o", ty.clone());
    for (source, want) in [
        ("o.metadata.creationTimestamp.getFullYear()", json!(2024)),
        (
            "o.metadata.creationTimestamp",
            json!("2024-01-02T03:04:05Z"),
        ),
        (
            "string(o.data.password) + string(o.data['url'])",
            json!("hunter2???"),
        ),
        ("o.replicas + 1", json!(4)),
        ("o.ratio / 4.0", json!(0.5)),
        ("o.wait > duration('1h')", json!(true)),
        ("o.wait", json!("1h30m0s")),
        ("o.day.getDate()", json!(2)),
        ("has(o.gone)", json!(false)),
        ("o.?gone.hasValue()", json!(false)),
        ("o.`dash-ed` + o.dash__dash__ed", json!(14)),
        // An object of a binding comes out as it went in.
        ("o.data", json!({"password": "aHVudGVyMg==", "url": "Pz8_"})),
    ] {
        let program = Environment::kro()
            .compile(source, &declarations)
            .unwrap_or_else(|error| panic!("{error}"));
        let mut bindings = Bindings::new();
        bindings.typed("o", &object, &ty);
        let value = program
            .evaluate(&bindings, Budget::default())
            .unwrap_or_else(|error| panic!("{source}: {error}"));
        assert_eq!(value.to_json().expect(source), want, "{source}");
    }
    let program = Environment::kro()
        .compile("o.gone", &declarations)
        .expect("compiles");
    let mut bindings = Bindings::new();
    bindings.typed("o", &object, &ty);
    let error = program
        .evaluate(&bindings, Budget::default())
        .expect_err("null is absent");
    assert_eq!(error.class, ErrorClass::DataPending);
    let bytes = Environment::kro()
        .compile("o.data.password", &declarations)
        .expect("compiles");
    let bytes = bytes
        .evaluate(&bindings, Budget::default())
        .expect("evaluates");
    assert!(
        bytes
            .to_json()
            .is_err_and(|error| error.message.contains("encode it explicitly"))
    );
}

#[test]
fn data_that_do_not_fit_their_type_are_an_error() {
    let ty = DeclType::object(
        "t",
        [
            ("i".to_owned(), DeclType::Int),
            ("s".to_owned(), DeclType::String),
            ("t".to_owned(), DeclType::Timestamp),
            ("l".to_owned(), DeclType::list(DeclType::Int)),
        ],
    );
    let object = json!({"i": 1.5, "s": 1, "t": "yesterday", "l": {}});
    for (source, want) in [
        (
            "o.i",
            "invalid data, expected int, got non-integer float 1.5",
        ),
        ("o.s", "invalid data, expected string, got int64"),
        ("o.t", "Invalid date-time formatted string yesterday"),
        ("o.l", "invalid data, expected an array"),
    ] {
        let program = Environment::kro().compile_unchecked(source).expect(source);
        let mut bindings = Bindings::new();
        bindings.typed("o", &object, &ty);
        let error = program
            .evaluate(&bindings, Budget::default())
            .expect_err(source);
        assert!(error.message.contains(want), "{source}: {error}");
        assert_eq!(error.class, ErrorClass::Other, "{source}");
    }
}

#[test]
fn results_become_json_by_kros_rules() {
    let object = json!({});
    for (source, want) in [
        (
            "timestamp('2024-01-02T03:04:05.6+01:00')",
            json!("2024-01-02T02:04:05Z"),
        ),
        ("duration('90m')", json!("1h30m0s")),
        ("optional.none()", json!(null)),
        ("optional.of(1)", json!(1)),
        ("[optional.none(), optional.of('a')]", json!([null, "a"])),
        ("7u", json!(7)),
        ("2.0", json!(2)),
        ("2.5", json!(2.5)),
        ("{'a': [1u, null]}", json!({"a": [1, null]})),
        (
            "runtime.newCondition({type: 'A', status: 'True'})",
            json!({"type": "A", "status": "True", "reason": "", "message": ""}),
        ),
    ] {
        assert_eq!(evaluate(source, &object).expect(source), want, "{source}");
    }
    for (source, want) in [
        (
            "18446744073709551615u",
            "uint value 18446744073709551615 overflows int64",
        ),
        ("b'a'", "bytes value cannot be used directly"),
        ("[b'a']", "bytes value cannot be used directly"),
        ("{1: 2}", "map key must be string, got int"),
        ("int", "unsupported type: type"),
        ("quantity('1')", "unsupported type: kubernetes.Quantity"),
        ("0.0 / 0.0", "unsupported value: NaN"),
    ] {
        let error = evaluate(source, &object).expect_err(source);
        assert!(error.message.contains(want), "{source}: {error}");
    }
}

#[test]
fn a_string_template_adds_strings_only() {
    let object = json!({"s": "x", "n": 1});
    for (text, want) in [
        ("a-${o.s}", Ok(json!("a-x"))),
        ("${o.s}-${string(o.n)}\n", Ok(json!("x-1\n"))),
        ("${\"${VAR}\"}", Ok(json!("${VAR}"))),
        ("a-${o.n}", Err("no such overload")),
        ("${o.n}!", Err("no such overload")),
        ("a-${o.x}", Err("no such key: x")),
    ] {
        let source = template::parse(text)
            .expect("no nesting")
            .source()
            .expect("an expression");
        let got = evaluate(&source, &object).map_err(|error| error.message);
        assert_eq!(got, want.map_err(str::to_owned), "{text}");
    }
}

#[test]
fn a_result_can_be_bound_again_with_its_type() {
    let made = Environment::kro()
        .compile("timestamp(0)", &Declarations::new())
        .expect("compiles")
        .evaluate(&Bindings::new(), Budget::default())
        .expect("evaluates");
    let program = Environment::kro()
        .compile_unchecked("t.getFullYear()")
        .expect("compiles");
    let mut bindings = Bindings::new();
    bindings.value("t", made);
    let year = program
        .evaluate(&bindings, Budget::default())
        .expect("evaluates");
    assert_eq!(year.to_json(), Ok(json!(1970)));
    assert!(Value::NONE.to_json().expect("null").is_null());
}
