//! What the environment of `x-kubernetes-validations` has that kro's has not, and the reverse.

use serde_json::json;
use wheelhouse_cel::{
    Bindings, Budget, DeclType, Declarations, Environment, ErrorClass, ListKind, ListType,
};

use super::{all_fail, all_true, run};

#[test]
fn sets_formats_and_normalized_versions() {
    let env = Environment::validation();
    all_true(
        &env,
        &[
            "sets.contains([1, 2, 3], [dyn(2), dyn(3u)]) && !sets.contains([1], [2])",
            "sets.equivalent([1, 2, 2], [2, 1]) && sets.intersects([1, 2], [2]) && !sets.intersects([], [1])",
            "!format.dns1123Label().validate('my-name').hasValue()",
            "format.dns1123Label().validate('My').value()[0].startsWith('a lowercase RFC 1123 label')",
            "format.dns1123Label().validate('a.b').value() == ['must not contain dots']",
            "!format.dns1123LabelPrefix().validate('my-').hasValue()",
            "!format.dns1123Subdomain().validate('a.b').hasValue() && format.dns1035Label().validate('1a').hasValue()",
            "!format.qualifiedName().validate('a.b/C_d').hasValue() && format.qualifiedName().validate('/a').hasValue()",
            "!format.labelValue().validate('').hasValue() && format.labelValue().validate('-').hasValue()",
            "!format.uri().validate('https://a/b').hasValue() && format.uri().validate('a').hasValue()",
            "!format.uuid().validate('123e4567-e89b-12d3-a456-426614174000').hasValue() && format.uuid().validate('x').value() == ['does not match the UUID format']",
            "!format.byte().validate('aGVsbG8=').hasValue() && format.byte().validate('a').value() == ['invalid base64']",
            "!format.date().validate('2021-01-01').hasValue() && format.datetime().validate('2021-01-01').hasValue()",
            "format.named('uri').hasValue() && !format.named('uris').hasValue()",
            "semver('v1.0', true) == semver('1.0.0') && semver('01.02.03', true) == semver('1.2.3')",
            "isSemver('v1', true) && !isSemver('1-rc.1', true)",
            "1 < 1.5 && 1u <= 1 && 2.0 > 1u",
            "timestamp('2024-03-10T23:00:00-05:00').getHours() == 4",
        ],
    );
}

#[test]
fn literals_are_judged_when_compiled() {
    all_fail(
        &Environment::validation(),
        &[
            (
                "[1, 'a'].size() == 2",
                "ERROR: <input>:1:5: expected type 'int' but found 'string'",
            ),
            (
                "[1, dyn(2), 'a'].size() == 2",
                "ERROR: <input>:1:8: expected type 'int' but found 'dyn'",
            ),
            (
                "{'a': 1, 'b': 'c'}.size() == 2",
                "ERROR: <input>:1:15: expected type 'int' but found 'string'",
            ),
            (
                "'a'.matches('(')",
                "ERROR: <input>:1:13: invalid matches argument",
            ),
            (
                "duration('1 day') == duration('1h')",
                "ERROR: <input>:1:10: invalid duration argument",
            ),
            (
                "timestamp('x') == timestamp(0)",
                "ERROR: <input>:1:11: invalid timestamp argument",
            ),
            ("cel.bind(x, 1, x)", "undeclared reference to 'bind'"),
            ("base64.encode(b'a')", "undeclared reference to 'base64'"),
            (
                "'abc'.reverse() == 'cba'",
                "found no matching overload for 'reverse' applied to 'string.()'",
            ),
            ("runtime.x", "undeclared reference to 'runtime'"),
            ("json.marshal(1)", "undeclared reference to 'json'"),
        ],
    );
    // Without the rule a list of mixed literals is a list of anything.
    let mixed = run(
        &Environment::kro(),
        "[1, 'a'].size() == 2 && [1, 'a'][0] == 1",
    );
    assert_eq!(mixed.map(|value| value.as_bool()), Ok(Some(true)));
}

#[test]
fn comparisons_of_mixed_numbers_are_checked_by_kro_only_where_the_types_are_known() {
    all_fail(
        &Environment::kro(),
        &[(
            "1 < 1.5",
            "found no matching overload for '_<_' applied to '(int, double)'",
        )],
    );
    all_true(&Environment::kro(), &["dyn(1) < 1.5", "dyn(1) == 1.0"]);
}

#[test]
fn lists_compare_and_add_by_their_list_type() {
    let list = |element, kind| DeclType::List(ListType { element, kind }.into());
    let port = DeclType::object(
        "port",
        [
            ("name".to_owned(), DeclType::String),
            ("number".to_owned(), DeclType::Int),
        ],
    );
    let keys = vec!["name".to_owned()];
    let ty = DeclType::object(
        "self",
        [
            ("set".to_owned(), list(DeclType::String, ListKind::Set)),
            ("map".to_owned(), list(port, ListKind::Map(keys))),
            ("atomic".to_owned(), DeclType::list(DeclType::Int)),
        ],
    );
    let object = json!({
        "set": ["a", "b"],
        "map": [{"name": "x", "number": 1}, {"name": "y", "number": 2}],
        "atomic": [1, 2],
    });
    let declarations = Declarations::new().with("self", ty.clone());
    for source in [
        "self.set == ['b', 'a'] && ['b', 'a'] == self.set",
        "self.set + ['a', 'c'] == ['c', 'a', 'b']",
        "(self.set + ['a', 'c']).map(x, x) == ['a', 'b', 'c']",
        "self.map == [self.map[1], self.map[0]]",
        "(self.map + [self.map[0]]).size() == 2",
        "self.atomic != [2, 1] && self.atomic + [1] == [1, 2, 1]",
    ] {
        let program = Environment::validation()
            .compile(source, &declarations)
            .unwrap_or_else(|error| panic!("{error}"));
        let mut bindings = Bindings::new();
        bindings.typed("self", &object, &ty);
        let value = program
            .evaluate(&bindings, Budget::default())
            .unwrap_or_else(|error| panic!("{source}: {error}"));
        assert_eq!(value.as_bool(), Some(true), "{source}");
    }
}

#[test]
fn an_optional_old_self_is_absent_or_present() {
    let ty = DeclType::optional(DeclType::Int);
    let declarations = Declarations::new().with("oldSelf", ty.clone());
    let program = Environment::validation()
        .compile("!oldSelf.hasValue() || oldSelf.value() < 5", &declarations)
        .expect("compiles");
    for (old, want) in [(json!(null), true), (json!(3), true), (json!(7), false)] {
        let mut bindings = Bindings::new();
        bindings.typed("oldSelf", &old, &ty);
        let value = program
            .evaluate(&bindings, Budget::default())
            .expect("evaluates");
        assert_eq!(value.as_bool(), Some(want), "{old}");
    }
}

#[test]
fn expressions_that_share_a_budget_share_it() {
    let program = Environment::validation()
        .compile("[1, 2, 3].all(x, x > 0)", &Declarations::new())
        .expect("compiles");
    let mut budget = Budget::steps(100);
    let mut runs = 0;
    let error = loop {
        match program.evaluate_within(&Bindings::new(), &mut budget) {
            Ok(_) => runs += 1,
            Err(error) => break error,
        }
        assert!(runs < 100, "the budget ends");
    };
    assert!(runs > 2, "{runs} runs fit");
    assert_eq!(error.class, ErrorClass::Cost);
    assert_eq!(budget.left(), 0);
}
