//! Where the cel-go of Kubernetes and that of kro differ, or both from what one would think.

use wheelhouse_cel::Environment;

use super::{all_fail, all_true};

#[test]
fn optionals_in_optionals_are_one_where_kubernetes_reads_them() {
    let within = "[optional.of(optional.of(1))].filter(v, true)[0]";
    all_true(
        &Environment::admission(),
        &[
            &format!("dyn({within}) == dyn(optional.of(1))"),
            "dyn([optional.of(optional.none())].filter(v, true)[0]) == dyn(optional.of(null))",
            "dyn(true ? optional.of(optional.of(1)) : optional.none()) == dyn(optional.of(1))",
            "dyn(optional.of(1).optMap(v, optional.of(v))) == dyn(optional.of(1))",
            "dyn([optional.of(optional.of(1))][0]) == dyn(optional.of(optional.of(1)))",
            "dyn(1).orValue(2) == 1 && dyn(optional.of(1)).orValue(2) == 1",
        ],
    );
    all_true(
        &Environment::kro(),
        &[&format!(
            "dyn({within}) == dyn(optional.of(optional.of(1)))"
        )],
    );
    all_fail(
        &Environment::kro(),
        &[("dyn(1).orValue(2)", "no such overload")],
    );
}

#[test]
fn only_the_begin_of_a_chain_of_selections_is_unwrapped() {
    for env in [Environment::admission(), Environment::kro()] {
        all_true(
            &env,
            &[
                "dyn(optional.of({'a': 1}))['a'] == dyn(optional.of(1))",
                "dyn(true ? optional.of({'a': 1}) : optional.none())['a'] == dyn(optional.of(1))",
                "![optional.of({'a': 1})][0][?'a'].hasValue()",
                "![optional.of({'a': 1})][0].?a.hasValue()",
            ],
        );
        all_fail(
            &env,
            &[
                ("[optional.of({'a': 1})][0]['a']", "no such key: a"),
                ("{'o': optional.of({'a': 1})}.o.a", "no such key: a"),
            ],
        );
    }
}

#[test]
fn kubernetes_makes_what_is_constant_with_the_program() {
    let (kubernetes, kro) = (Environment::admission(), Environment::kro());
    all_true(&kubernetes, &["!(1 / 0 in [])", "dyn([1, 2])[0] == 1"]);
    all_fail(
        &kubernetes,
        &[
            (
                "true || string(dyn([null, null])) == ''",
                "invalid string argument",
            ),
            ("true || int(dyn({'a': [1]})) == 0", "invalid int argument"),
            (
                "true || duration(1) == duration('1s')",
                "invalid duration argument",
            ),
            (
                "duration([1].max())",
                "type conversion error from 'int' to 'google.protobuf.Duration'",
            ),
        ],
    );
    all_true(&kro, &["true || string(dyn([null, null])) == ''"]);
    all_fail(
        &kro,
        &[
            ("1 / 0 in []", "division by zero"),
            (
                "duration([1].max())",
                "found no matching overload for 'duration' applied to '(int)'",
            ),
        ],
    );
}

#[test]
fn kubernetes_formats_with_the_first_version() {
    let kubernetes = Environment::admission();
    all_true(
        &kubernetes,
        &[
            r#"'%s'.format([[dyn(1.5), dyn(2u), dyn(b'a"'), dyn('q"\n'), dyn(null)]]) ==
               '[1.500000, 2, b"a\\"", "q\\"\\n", null]'"#,
            r#"'%s'.format([[duration('1s')]]) == '[duration("1s")]'"#,
            r#"'%s'.format([[timestamp(0)]]) == '[timestamp("1970-01-01T00:00:00Z")]'"#,
            r#"'%s'.format([{true: 'a', false: 'b'}]) == '{false:"b", true:"a"}'"#,
            r#"'%s'.format([{1: [1.0, double('NaN')]}]) == '{1:[1.000000, "NaN"]}'"#,
            "'%s %s'.format([1.5, 1e21]) == '1.5 1e+21'",
            "'%f %.1f'.format([1234567.5, -0.25]) == '1,234,567.500000 -0.2'",
            "'%e'.format([1234.5]) == '1.234500\u{d7}10\u{2070}\u{b3}'",
            "'%e'.format(['Infinity']) == '     \u{221e}' && '%f'.format(['NaN']) == 'NaN'",
        ],
    );
    all_fail(
        &kubernetes,
        &[
            ("'%e'.format([1].map(v, dyn(v)))", "scientific clause"),
            ("'%d'.format([dyn(1.5)])", "decimal clause"),
        ],
    );
}

#[test]
fn small_rules_of_both() {
    let (kubernetes, kro) = (Environment::admission(), Environment::kro());
    all_true(
        &kubernetes,
        &["''.indexOf('', 7) == 7 && ''.lastIndexOf('', -1) == -1"],
    );
    all_true(&kro, &["''.indexOf('', 7) == 0"]);
    for env in [&kubernetes, &kro] {
        all_true(
            env,
            &[
                "[dyn('a'), dyn(1)].max() == 'a' && [dyn(1), dyn('a')].min() == 1",
                "quantity('1').sub(-9223372036854775808).compareTo(quantity('-9223372036854775807')) == 0",
            ],
        );
        let far = "(timestamp(-1) - duration('2562047h47m16.854775807s')) - timestamp(-1)";
        all_fail(env, &[(far, "overflow")]);
    }
    all_fail(
        &kubernetes,
        &[("[[1]].flatten(1000000007)", "actual cost limit exceeded")],
    );
    all_true(&kro, &["[[1]].flatten(1000000007) == [1]"]);
}
