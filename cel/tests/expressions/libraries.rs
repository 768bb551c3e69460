//! The libraries of kro's environment, a table each.

use serde_json::json;
use wheelhouse_cel::Environment;

use super::{all_fail, all_true, kro};

#[test]
fn strings() {
    let env = Environment::kro();
    all_true(
        &env,
        &[
            "'tacocat'.charAt(3) == 'o' && 'tacocat'.charAt(7) == '' && 'üç'.charAt(1) == 'ç'",
            "'hello mellow'.indexOf('') == 0 && 'hello mellow'.indexOf('ello') == 1",
            "'hello mellow'.indexOf('ello', 2) == 7 && 'hello mellow'.indexOf('ello', 20) == -1",
            "'ünü'.indexOf('ü', 1) == 2",
            "'hello mellow'.lastIndexOf('') == 12 && 'hello mellow'.lastIndexOf('ello') == 7",
            "'hello mellow'.lastIndexOf('ello', 6) == 1 && 'hello mellow'.lastIndexOf('ello', -0) == -1",
            "'hello mellow'.lastIndexOf('jello') == -1 && 'üaü'.lastIndexOf('ü', 1) == 0",
            "['a', 'b'].join() == 'ab' && ['a', 'b'].join(', ') == 'a, b' && [].join('x') == ''",
            "'TacoCÆt'.lowerAscii() == 'tacocÆt' && 'tacoCæt'.upperAscii() == 'TACOCæT'",
            "'hello hello'.replace('he', 'we') == 'wello wello'",
            "'hello hello'.replace('he', 'we', 1) == 'wello hello'",
            "'hello'.replace('l', 'L', 0) == 'hello' && 'abc'.replace('', '-') == '-a-b-c-'",
            "'a b c'.split(' ') == ['a', 'b', 'c'] && 'a b c'.split(' ', 2) == ['a', 'b c']",
            "'a b c'.split(' ', 0) == [] && 'a b'.split(' ', -1) == ['a', 'b']",
            "'üb'.split('') == ['ü', 'b'] && 'abc'.split('', 2) == ['a', 'bc'] && ''.split('') == []",
            "'tacocat'.substring(4) == 'cat' && 'tacocat'.substring(0, 4) == 'taco'",
            "'  \\ttrim\\n '.trim() == 'trim' && 'gums'.reverse() == 'smug'",
            "strings.quote('a\\n\"b\"') == '\"a\\\\n\\\\\"b\\\\\"\"'",
            "'%s %d %.2f %e %x %X %o %b %%'.format(['a', 7, 1.5, 1234.5, 255, 'hi', 8, true]) == 'a 7 1.50 1.234500e+03 ff 6869 10 1 %'",
            "'%s'.format([[1, 'a', null, {'k': 1.5, 'a': duration('90s')}]]) == '[1, a, null, {a: 90s, k: 1.5}]'",
            "'%d %x %b %o'.format([-10, -10, -2, -8]) == '-10 -a -10 -10'",
            "'abc'.matches('^a.c$') && matches('abc', 'b') && !'abc'.matches('^b')",
        ],
    );
    all_fail(
        &env,
        &[
            ("'abc'.charAt(4)", "index out of range: 4"),
            ("'abc'.indexOf('a', -1)", "index out of range: -1"),
            ("'abc'.substring(4)", "index out of range: 4"),
            (
                "'abc'.substring(2, 1)",
                "invalid substring range. start: 2, end: 1",
            ),
            ("['a', dyn(1)].join()", "join: invalid input: 1"),
            (
                "'%d'.format(['a'])",
                "decimal clause can only be used on ints, uints, and doubles, was given string",
            ),
            ("'%s'.format([])", "index 0 out of range"),
            (
                "'%.101f'.format([1.0])",
                "exceeds maximum allowed precision 100",
            ),
            ("'%q'.format([1])", "unrecognized formatting clause \"q\""),
            ("'a'.matches('(')", "Illegal regex"),
        ],
    );
}

#[test]
fn lists_of_cel_go_and_of_kubernetes() {
    let env = Environment::kro();
    all_true(
        &env,
        &[
            "[1, 2, 2, 3u, 3].distinct() == [1, 2, 3]",
            "[[1], [2, [3]]].flatten() == [1, 2, [3]] && [1, [2, [3, [4]]]].flatten(2) == [1, 2, 3, [4]]",
            "lists.range(3) == [0, 1, 2] && lists.range(-1) == []",
            "[1, 2, 3].reverse() == [3, 2, 1] && [1, 2, 3, 4].slice(1, 3) == [2, 3]",
            "[3, 1, 2].sort() == [1, 2, 3] && ['b', 'a'].sort() == ['a', 'b']",
            "[{'n': 2}, {'n': 1}].sortBy(e, e.n) == [{'n': 1}, {'n': 2}]",
            "[1, 2].first().value() == 1 && [1, 2].last().value() == 2 && ![].first().hasValue()",
            "[1, 1, 2].isSorted() && ![2, 1].isSorted() && [].isSorted()",
            "[1, 2].sum() == 3 && [1.5, 2.0].sum() == 3.5 && [duration('1s'), duration('2s')].sum() == duration('3s')",
            "[2, 1, 3].min() == 1 && [2, 1, 3].max() == 3 && ['b', 'a'].min() == 'a'",
            "[1, 2, 1].indexOf(1) == 0 && [1, 2, 1].lastIndexOf(1) == 2 && [1].indexOf(5) == -1",
            "lists.setAtIndex([1, 2], 1, 5) == [1, 5] && lists.insertAtIndex([1, 2], 2, 5) == [1, 2, 5]",
            "lists.removeAtIndex([1, 2, 3], 0) == [2, 3]",
        ],
    );
    all_fail(
        &env,
        &[
            ("[1].slice(0, 2)", "cannot slice(0, 2), list is length 1"),
            ("[1].slice(-1, 1)", "negative indexes not supported"),
            (
                "[dyn(1), 'a'].sort()",
                "list elements must have the same type",
            ),
            ("dyn([{}]).sort()", "list elements must be comparable"),
            ("dyn([]).max()", "max called on empty list"),
            (
                "lists.setAtIndex([1], 1, 2)",
                "lists.setAtIndex: index 1 out of bounds [0, 1)",
            ),
            (
                "lists.insertAtIndex([1], 2, 2)",
                "lists.insertAtIndex: index 2 out of bounds [0, 1]",
            ),
            ("[1].includes(1)", "undeclared reference to 'includes'"),
        ],
    );
}

#[test]
fn optionals_bindings_and_loops() {
    let env = Environment::kro();
    all_true(
        &env,
        &[
            "{'a': {'b': 1}}.?a.?b.orValue(2) == 1 && {'a': {}}.?a.b.orValue(2) == 2",
            "[1][?5].orValue(7) == 7 && {'a': 1}[?'a'] == optional.of(1)",
            "[1, ?optional.none(), ?optional.of(3)] == [1, 3]",
            "{?'a': optional.none(), ?'b': optional.of(2)} == {'b': 2}",
            "optional.of(2).optMap(x, x * 2).value() == 4 && !optional.none().optMap(x, x).hasValue()",
            "optional.of([1]).optFlatMap(x, x[?1]) == optional.none()",
            "optional.none().or(optional.of(1)).value() == 1",
            "!optional.ofNonZeroValue('').hasValue() && optional.ofNonZeroValue('a').hasValue()",
            "optional.unwrap([optional.of(1), optional.none()]) == [1] && [optional.of(2)].unwrapOpt() == [2]",
            "cel.bind(x, 'a' + 'b', x + x) == 'abab' && cel.bind(x, 1 / 0, true)",
            "[1, 2].all(i, v, i < v) && ['a', 'b'].exists(i, v, i == 1 && v == 'b')",
            "{'a': 1, 'b': 2}.existsOne(k, v, v == 2) && [1, 2, 3].exists_one(x, x > 2)",
            "[1, 2, 3].transformList(i, v, i > 0, v * 10) == [20, 30]",
            "{'a': 1, 'b': 2}.transformMap(k, v, k == 'a', v + 1) == {'a': 2}",
            "{'a': 'x'}.transformMapEntry(k, v, {v: k}) == {'x': 'a'}",
            "{'b': 1, 'a': 2}.map(k, k) == ['a', 'b']",
            "[1, 2, 3].filter(x, x > 1).map(x, x % 2 == 0, x * x) == [4]",
            "[0, 1].exists(x, 1 / x == 1) && ![0, 2].all(x, 1 / x == 1)",
            "[1, 2].map(x, [3].map(x, x + 1)) == [[4], [4]]",
            "cel.bind(x, 1, [2].map(y, cel.bind(z, 3, x + y + z))) == [6]",
        ],
    );
    all_fail(
        &env,
        &[
            ("optional.none().value()", "optional.none() dereference"),
            ("cel.bind(x, 1 / 0, x)", "division by zero"),
            ("[0, 1].all(x, 1 / x == 1)", "division by zero"),
            ("[dyn(1)].all(x, x)", "no such overload"),
            (
                "[1, 2].transformMapEntry(i, v, {'k': v})",
                "insert failed: key k already exists",
            ),
            ("[1].map(x.y, x)", "argument is not an identifier"),
            ("[1].all(1, true)", "argument must be a simple name"),
            ("[1].transformList(x, x, x)", "duplicate variable name: x"),
            ("has(1)", "invalid argument to has() macro"),
        ],
    );
}

#[test]
fn encodings_urls_and_regular_expressions() {
    let env = Environment::kro();
    all_true(
        &env,
        &[
            "base64.encode(b'hello') == 'aGVsbG8=' && base64.decode('aGVsbG8') == b'hello'",
            "url('https://example.com:80/path?k=a&k=b#f').getHost() == 'example.com:80'",
            "url('https://user@[::1]:80/').getHostname() == '::1' && url('https://h:80/').getPort() == '80'",
            "url('/a b?k=x+y').getEscapedPath() == '/a%20b' && url('/?k=x+y').getQuery() == {'k': ['x y']}",
            "url('https://h/').getScheme() == 'https' && isURL('/p') && !isURL('p') && !isURL('')",
            "url('/a') == url('/a') && url('/a') != url('/b')",
            "'abc 123'.find('[0-9]+') == '123' && 'abc'.find('[0-9]') == ''",
            "'1 2 3'.findAll('[0-9]') == ['1', '2', '3'] && '1 2 3'.findAll('[0-9]', 2) == ['1', '2']",
            "'123 abc'.findAll(dyn('[a-z]+')) == ['abc'] && '1'.findAll('1', 0) == []",
        ],
    );
    all_fail(
        &env,
        &[
            ("base64.decode('?')", "illegal base64 data"),
            (
                "url('p')",
                "URL parse error during conversion from string: parse \"p\": invalid URI for request",
            ),
            ("'a'.find('(')", "invalid find argument"),
        ],
    );
}

#[test]
fn quantities_addresses_and_versions() {
    let env = Environment::kro();
    all_true(
        &env,
        &[
            "quantity('200M').compareTo(quantity('0.2G')) == 0 && quantity('50M').isLessThan(quantity('50Mi'))",
            "quantity('150Mi').isGreaterThan(quantity('100Mi')) && sign(quantity('-1')) == -1",
            "quantity('50k').add(20).sub(quantity('100k')).sub(-50000) == quantity('20')",
            "quantity('50k').asInteger() == 50000 && !quantity('1.5').isInteger()",
            "quantity('50k').sub(20000).asApproximateFloat() == 30000.0 && quantity('0.1').asApproximateFloat() == 0.1",
            "isQuantity('1.3Gi') && !isQuantity('1,3G') && !isQuantity('200K')",
            "ip('127.0.0.1').family() == 4 && ip('::1').family() == 6 && ip('::1').isLoopback()",
            "isIP('2001:db8::68') && !isIP('192.168.0.1.0') && !isIP('127.0.0.01') && !isIP('fe80::1%eth0')",
            "ip.isCanonical('2001:db8::68') && !ip.isCanonical('2001:DB8::68')",
            "ip('0.0.0.0').isUnspecified() && ip('ff02::1').isLinkLocalMulticast() && !ip('224.0.1.1').isLinkLocalMulticast()",
            "ip('fe80::1').isLinkLocalUnicast() && ip('192.168.0.1').isGlobalUnicast() && !ip('255.255.255.255').isGlobalUnicast()",
            "string(ip('192.168.0.1')) == '192.168.0.1' && type(ip('192.168.0.1')) == net.IP",
            "cidr('192.168.0.0/24').containsIP('192.168.0.1') && !cidr('192.168.0.0/24').containsIP(ip('192.168.1.1'))",
            "cidr('192.168.0.0/16').containsCIDR('192.168.10.0/24') && !cidr('192.168.0.0/24').containsCIDR(cidr('192.168.0.0/16'))",
            "cidr('192.168.0.1/24').masked() == cidr('192.168.0.0/24') && cidr('::1/128').ip() == ip('::1')",
            "cidr('192.168.0.1/24').prefixLength() == 24 && isCIDR('::/0') && !isCIDR('192.168.0.0/33') && !isCIDR('::/+1')",
            "cidr('0.0.0.0/0').containsIP('8.8.8.8') && !cidr('0.0.0.0/0').containsIP('::1')",
            "semver('1.2.3').major() == 1 && semver('1.2.3-rc.1').isLessThan(semver('1.2.3'))",
            "semver('1.0.0-alpha.1').compareTo(semver('1.0.0-alpha.beta')) == -1 && isSemver('1.2.3-beta.1+build.1')",
            "!isSemver('v1.0.0') && !isSemver('01.0.0') && !isSemver('1.0')",
        ],
    );
    all_fail(
        &env,
        &[
            (
                "quantity('Three')",
                "quantities must match the regular expression",
            ),
            ("quantity('200K')", "unable to parse quantity's suffix"),
            (
                "quantity('9999999999999999999999999999999999999G').asInteger()",
                "cannot convert value to integer",
            ),
            (
                "ip('::ffff:1.2.3.4')",
                "IPv4-mapped IPv6 address \"::ffff:1.2.3.4\" is not allowed",
            ),
            ("semver('v1.0')", "No Major.Minor.Patch elements found"),
            (
                "semver('1.0', true)",
                "found no matching overload for 'semver' applied to '(string, bool)'",
            ),
            (
                "quantity('1') == ip('::1')",
                "found no matching overload for '_==_'",
            ),
        ],
    );
}

#[test]
fn kros_own_functions_are_bit_exact() {
    let env = Environment::kro();
    all_true(
        &env,
        &[
            "random.seededString(10, 'test-seed') == '5czheg3o5c'",
            "random.seededString(20, 'test-seed') == '5czheg3o5czheg3o5czh'",
            "random.seededInt(0, 100, 'test-seed') == 56",
            "random.seededInt(30000, 32768, 'my-service') == 31247",
            "random.seededInt(-100, -50, 'seed') == -58",
            "random.seededInt(5, 6, 'seed') == 5",
            "base64.encode(hash.fnv64a('hello world')) == 'd5pl5wI80uc='",
            "base64.encode(hash.md5('hello world')) == 'XrY7u+Ae7tCTyyK7j1rNww=='",
            "base64.encode(hash.sha256('hello world')) == 'uU0nuZNNPgilLlLX2n2r+sSE7+N6U4DukIj3rOLvzek='",
            "{'a': 1, 'b': 1}.merge({'b': 2}) == {'a': 1, 'b': 2}",
            "{'a': {'x': 1, 'y': 1}, 'l': [1]}.deepMerge({'a': {'y': 2}, 'l': [2]}) == {'a': {'x': 1, 'y': 2}, 'l': [2]}",
            "json.unmarshal('{\"n\": 42}').n == 42.0 && type(json.unmarshal('1')) == double",
            "json.unmarshal('null') == null && json.unmarshal('[1, 2]')[1] == 2",
            "json.marshal({'n': 'test', 'count': 42}) == '{\"count\":42,\"n\":\"test\"}'",
            "json.marshal(['<&>', 1.0, 1e21, 1e-7, null, b'hello', 18446744073709551615u]) == '[\"\\\\u003c\\\\u0026\\\\u003e\",1,1e+21,1e-7,null,\"aGVsbG8=\",18446744073709551615]'",
            "json.marshal([duration('90m'), timestamp('2024-01-02T03:04:05.6+01:00')]) == '[\"1h30m0s\",\"2024-01-02T02:04:05Z\"]'",
            "json.marshal(optional.none()) == 'null' && json.marshal(optional.of('a')) == '\"a\"'",
            "runtime.newCondition({type: 'Ok', status: 'True'}).status == 'True'",
            "runtime.condition({'status': {'conditions': [{'type': 'R', 'status': 'False', 'reason': 'x'}]}}, 'R').reason == 'x'",
            "runtime.condition({}, 'R').status == ''",
        ],
    );
    all_fail(
        &env,
        &[
            (
                "random.seededString(0, 's')",
                "random.seededString length must be positive",
            ),
            (
                "random.seededInt(5, 5, 's')",
                "random.seededInt min must be less than max",
            ),
            (
                "json.unmarshal('{\"invalid\"}')",
                "json.unmarshal failed to parse JSON",
            ),
            ("json.marshal({1: 2})", "map key must be string, got int"),
            (
                "{'a': 1}.merge(1)",
                "found no matching overload for 'merge'",
            ),
            (
                "runtime.newCondition({type: '', status: 'True'})",
                "type must not be empty",
            ),
            (
                "runtime.newCondition({type: 'a', status: 'Yes'})",
                "status must be one of True, False, Unknown (got \"Yes\")",
            ),
            (
                "runtime.newCondition({type: 'a'})",
                "runtime.newCondition: 'status' is required",
            ),
            (
                "runtime.newCondition({type: 'a', status: 'True', x: 'y'})",
                "unknown key \"x\"",
            ),
            (
                "runtime.newCondition({'type': 'a', status: 'True'})",
                "keys must be bare identifiers",
            ),
            ("runtime.newCondition({})", "'type' is required"),
            ("omit()", "undeclared reference to 'omit'"),
        ],
    );
}

#[test]
fn omit_leaves_its_field_or_element_out() {
    let value = kro("{'a': omit(), 'b': [1, omit(), {'c': omit()}]}").expect("evaluates");
    assert_eq!(value.to_json(), Ok(json!({"b": [1, {}]})));
    assert!(kro("true ? omit() : 1").expect("evaluates").is_omit());
    assert!(kro("omit()").expect("evaluates").to_json().is_err());
    assert!(kro("omit() == omit()").is_err_and(|error| error.contains("cannot be compared")));
}

#[test]
fn times() {
    let env = Environment::kro();
    all_true(
        &env,
        &[
            "timestamp('2024-03-10T23:00:00-05:00').getHours() == 4",
            "timestamp('2024-03-10T23:00:00-05:00').getHours('UTC') == 4",
            "timestamp('2024-07-01T00:00:00Z').getHours('Europe/Berlin') == 2",
            "timestamp('2024-07-01T00:00:00Z').getDate('-02:30') == 30",
            "timestamp('2024-12-31T00:00:00Z').getDayOfYear() == 365 && timestamp('2024-12-31T00:00:00Z').getDayOfWeek() == 2",
            "timestamp('2024-01-02T03:04:05.678Z').getMilliseconds() == 678 && timestamp(0).getFullYear() == 1970",
            "string(timestamp('2024-01-02T03:04:05.60+01:00')) == '2024-01-02T03:04:05.6+01:00'",
            "timestamp('2024-01-02T03:04:05+01:00') == timestamp('2024-01-02T02:04:05Z')",
            "duration('1h30m').getMinutes() == 90 && duration('1.5s').getMilliseconds() == 1500",
            "string(duration('90m')) == '5400s' && timestamp(0) + duration('1s') == timestamp(1)",
        ],
    );
    all_fail(
        &env,
        &[
            (
                "timestamp('2024-01-02')",
                "type conversion error from 'string' to 'google.protobuf.Timestamp'",
            ),
            (
                "timestamp(0).getHours('Nowhere/Land')",
                "unknown time zone Nowhere/Land",
            ),
            (
                "timestamp('9999-12-31T23:59:59Z') + duration('1s')",
                "timestamp overflow",
            ),
            ("duration('300000h') * 2", "found no matching overload"),
        ],
    );
}

#[test]
fn numbers_print_as_in_go() {
    for (source, want) in [
        ("string(1.0)", "1"),
        ("string(123456.789)", "123456.789"),
        ("string(1234567.0)", "1.234567e+06"),
        ("string(0.0001)", "0.0001"),
        ("string(0.00001)", "1e-05"),
        ("string(-0.0)", "-0"),
        ("string(double('inf'))", "+Inf"),
    ] {
        let text = kro(source).expect(source);
        assert_eq!(text.as_str(), Some(want), "{source}");
    }
}
