//! Figures of Kubernetes. Source: `apiextensions-apiserver/pkg/apiserver/schema/cel/compilation_test.go`
//! (`TestCostEstimation`), for what its schemas say of sizes.

use std::sync::Arc;

use super::*;
use crate::environment::Environment;
use crate::types::MapType;

/// The most characters of a text that fit into a request.
const TEXT: u64 = 3_145_726;

fn of(max: u64) -> Sizes {
    Sizes {
        max,
        ..Sizes::default()
    }
}

fn many(max: u64, element: Sizes) -> Sizes {
    Sizes {
        max,
        element: Some(Box::new(element)),
        ..Sizes::default()
    }
}

fn fields<const N: usize>(fields: [(&str, DeclType, Sizes); N]) -> (DeclType, Sizes) {
    let types = fields
        .iter()
        .map(|(name, ty, _)| ((*name).to_owned(), ty.clone()));
    let ty = DeclType::object("selfType", types.collect::<Vec<_>>());
    let sizes = fields.map(|(name, _, sizes)| (name.to_owned(), sizes));
    let sizes = Sizes {
        fields: sizes.into(),
        ..Sizes::default()
    };
    (ty, sizes)
}

fn cost(rule: &str, (ty, sizes): (DeclType, Sizes)) -> u64 {
    let declarations = Declarations::new()
        .with("self", ty.clone())
        .with("oldSelf", ty);
    let program = Environment::validation().compile(rule, &declarations);
    program.expect(rule).cost(&declarations, &sizes)
}

fn list_of(ty: DeclType, max: u64, item: u64) -> (DeclType, Sizes) {
    (DeclType::list(ty), many(max, of(item)))
}

fn map_of(value: DeclType, max: u64, item: u64) -> (DeclType, Sizes) {
    let key = DeclType::String;
    (
        DeclType::Map(Arc::new(MapType { key, value })),
        many(max, of(item)),
    )
}

#[test]
#[expect(clippy::too_many_lines, reason = "it is a table")]
fn estimates_are_those_of_kubernetes() {
    let text = |max| (DeclType::String, of(max));
    let double = || DeclType::Double;
    for (rule, own, want) in [
        (
            "self.all(x, true)",
            list_of(double(), 1_572_863, 0),
            4_718_591,
        ),
        ("self.all(x, true)", list_of(double(), 10, 0), 32),
        (
            "self.all(x, self.all(y, true))",
            list_of(double(), 10, 0),
            352,
        ),
        (
            "self.all(x, self.all(y, self.all(z, true)))",
            list_of(double(), 10, 0),
            3552,
        ),
        ("self.all(x, true)", map_of(double(), 10, 0), 32),
        ("has(self.x)", map_of(double(), 100, 0), 1),
        ("self.contains('test')", text(TEXT), 314_574),
        ("self.contains('test')", text(40), 5),
        ("self.startsWith('test')", text(TEXT), 2),
        (
            r#"size(self + "hello") > size("hello")"#,
            text(TEXT),
            314_578,
        ),
        (r#"size(self + "hello") > size("hello")"#, text(16), 7),
        ("self[1] == 0.0", list_of(double(), 5000, 0), 2),
        (
            "self[1] == self[1]",
            list_of(DeclType::String, 8, TEXT),
            314_577,
        ),
        (r#"self.matches("x")"#, text(TEXT), 314_574),
        (r#"self.matches("x")"#, text(200), 22),
        (r#""".matches("(((((((((())))))))))[0-9]")"#, text(40), 7),
        (r#"self.matches("")"#, text(TEXT), 1),
        (r#"self == "x""#, text(TEXT), 2),
        (r#"self == "x""#, text(0), 1),
        (
            "self[0].getHours() == 2",
            list_of(DeclType::Duration, 525, 32),
            4,
        ),
        ("self.find('[0-9]+') == ''", text(TEXT), 629_147),
        (
            "self.join(' ') == 'aa bb'",
            list_of(DeclType::String, 1_048_575, TEXT),
            329_853_068_905,
        ),
        (
            "self.join(' ') == 'aa bb'",
            list_of(DeclType::String, 10, 40),
            43,
        ),
        (
            "self.isSorted() == true",
            list_of(DeclType::String, 1_048_575, TEXT),
            329_854_432_052,
        ),
        (
            "self.isSorted() == true",
            list_of(DeclType::String, 10, 40),
            52,
        ),
        ("self.lowerAscii() == 'lower!'", text(TEXT), 314_575),
        ("self.lowerAscii() == 'lower!'", text(40), 6),
        (
            "oldSelf.size() == self.size()",
            map_of(DeclType::Int, 10, 0),
            5,
        ),
        (
            r#"self["a"] == self["b"]"#,
            map_of(DeclType::Timestamp, 7, 32),
            8,
        ),
        ("self.contains('A')", text(9), 2),
        ("isQuantity(self)", (DeclType::Dyn, of(TEXT)), 314_574),
        ("isQuantity(self)", (DeclType::Dyn, of(80)), 9),
        // Of what is not known, every overload counts.
        (
            "bytes(self.a)",
            (DeclType::Dyn, of(10)),
            1_844_674_407_370_955_265,
        ),
        (
            "string(self.a)",
            (DeclType::Dyn, of(10)),
            1_844_674_407_370_955_265,
        ),
        ("self.sort()", (DeclType::Dyn, of(10)), 222),
        ("self.containsIP(self)", (DeclType::Dyn, of(10)), 7),
        // The types of receivers follow from what is called on them.
        ("self.value().sum()", (DeclType::Dyn, of(10)), u64::MAX),
        ("self.distinct()[0].max()", (DeclType::Dyn, of(10)), 223),
        ("[].max()", (DeclType::Dyn, of(10)), 10),
        // Where a local variable is comes before how large it was made; so do the keys of a map.
        (
            "[self].map(v, [optional.of(''), optional.of('')])[0].sortBy(x, 0)",
            (DeclType::Dyn, of(10)),
            401,
        ),
        (
            "{'': self}.all(k, ''.startsWith(k))",
            (DeclType::Dyn, of(10)),
            37,
        ),
    ] {
        assert_eq!(cost(rule, own), want, "{rule}");
    }
}

#[test]
fn what_is_replaced_is_bounded_by_both_texts() {
    let own = |max| {
        fields([
            ("str", DeclType::String, of(max)),
            ("before", DeclType::String, of(8)),
            ("after", DeclType::String, of(16)),
        ])
    };
    let rule = "self.str.replace(self.before, self.after) == 'does not matter'";
    assert_eq!(cost(rule, own(TEXT)), 629_154);
    assert_eq!(cost(rule, own(16)), 12);
}

#[test]
fn what_has_no_known_length_costs_as_much_as_can_be() {
    let (ty, sizes) = fields([("min", DeclType::Int, of(0))]);
    let made = cost("'a' + string(self.min) == 'x'", (ty.clone(), sizes.clone()));
    assert!(made > 1_000_000_000_000_000_000, "{made}");
    // Arguments of `format` may be of several types.
    assert!(cost("'a%d%s'.format([self.min, 'b']) == 'x'", (ty, sizes)) < 100);
}
