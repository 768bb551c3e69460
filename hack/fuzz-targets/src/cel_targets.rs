//! Expressions and templates.

use std::sync::LazyLock;

use expressions::{
    Bindings, Budget, Declarations, Environment,
    template::{self, Segment},
};
use serde_json::{Value, json};

use crate::{Target, input};

static DATA: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "spec": {"name": "web", "replicas": 3, "ports": [80, 443], "labels": {"a": "b"}, "ratio": 0.5, "on": true,
                 "nothing": null, "url": "https://a.b:8/c?d=e", "time": "2026-01-01T00:00:00Z", "size": "1Gi"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    })
});

/// Steps of one evaluation; few, so that the search is fast.
const STEPS: u64 = 20_000;

fn run(environment: &Environment, names: &[&str], data: &[u8]) {
    let source = input::text(data);
    drop(environment.inspect(source));
    drop(environment.compile(source, &Declarations::new()));
    let Ok(program) = environment.compile_unchecked(source) else {
        return;
    };
    let evaluate = || {
        let mut bindings = Bindings::new();
        for name in names {
            bindings.json(name, &DATA);
        }
        let mut budget = Budget::steps(STEPS);
        let value = program.evaluate_within(&bindings, &mut budget);
        assert!(budget.left() <= STEPS, "a budget is not given back");
        value
            .map_err(|error| error.to_string())
            .and_then(|value| value.to_json().map_err(|error| error.to_string()))
    };
    let first = evaluate();
    if !source.contains("rand") {
        assert_eq!(evaluate(), first, "an expression has one value");
    }
}

const WORDS: &[&str] = &[
    "self",
    "schema",
    ".spec",
    ".map(x, ",
    ".filter(x, ",
    ".all(x, ",
    ".exists_one(x, ",
    "has(",
    "cel.bind(x, ",
    "optional.of(",
    ".orValue(",
    "[?",
    ".?",
    "quantity('",
    "url('",
    "ip('",
    "cidr('",
    "semver('",
    "timestamp('",
    "duration('",
    ".matches('",
    ".findAll('",
    ".format([",
    ".split('",
    ".replace('",
    "json.marshal(",
    "hash.sha256(",
    "sets.contains(",
    ".sort()",
    ".sum()",
    "lists.range(",
    ".lowerAscii()",
    "dyn(",
    "type(",
    "? ",
    " : ",
    " in ",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615u",
    "1e308",
    "b'\\xff'",
    "r'''",
    "\\u0000",
    "&&",
    "||",
    "!=",
    "==",
    "<=",
    "%",
];

/// Expressions of kro.
pub(crate) const CEL: Target = Target {
    name: "cel",
    run: |data| run(&Environment::kro_with_omit(), &["schema", "self"], data),
    seeds: &[
        "schema.spec.ports.map(p, {'port': p, 'name': schema.spec.name + '-' + string(p)})",
        "schema.?status.conditions.orValue([]).exists(c, c.type == 'Ready' && c.status == 'True') ? omit() : 'x'",
        "cel.bind(x, schema.spec.labels, x.transformMap(k, v, v + k))",
        "json.unmarshal('{\"a\":[1]}').a[0] == 1 && hash.sha256('a') != '' && random.seededString(5, 'a').size() == 5",
        "'%s %d %.2f %x %e'.format(['a', 1, 2.0, 255, 1.5])",
        "lists.range(5).sort().slice(1, 3).sum() + [1, 2].flatten().min()",
    ],
    corpus: None,
    made: None,
    words: WORDS,
};

/// Rules of definitions.
pub(crate) const RULE: Target = Target {
    name: "rule",
    run: |data| run(&Environment::validation(), &["self", "oldSelf"], data),
    seeds: &[
        "self.spec.replicas <= 5 && self.spec.name.matches('^[a-z]+$')",
        "quantity(self.spec.size).isGreaterThan(quantity('512Mi')) && url(self.spec.url).getHost() == 'a.b:8'",
        "ip('10.0.0.1').family() == 4 && cidr('10.0.0.0/8').containsIP('10.1.1.1') && semver('1.2.3').major() == 1",
        "timestamp(self.spec.time).getHours('Europe/Berlin') - 1 == 0 && duration('1h30m') > duration('5s')",
        "self.spec.labels.all(k, k.size() > 0 && self.spec.labels[k].findAll('[a-c]+', 2).size() >= 0)",
        "format.dns1123Label().validate('a').hasValue() || optional.none().hasValue() || !has(self.x)",
    ],
    corpus: None,
    made: None,
    words: WORDS,
};

/// Templates: the parts are the text.
pub(crate) const TEMPLATE: Target = Target {
    name: "template",
    run: |data| {
        let text = input::text(data);
        let Ok(template) = template::parse(text) else {
            return;
        };
        let whole: String = template
            .segments()
            .iter()
            .map(|segment| match segment {
                Segment::Literal(text) => (*text).to_owned(),
                Segment::Expression(expression) => format!("${{{expression}}}"),
            })
            .collect();
        assert_eq!(whole, text, "nothing of the text is lost");
        if let Some(source) = template.source() {
            drop(Environment::kro().inspect(&source));
        }
    },
    seeds: &[
        "a-${schema.spec.name}-b${'}' + \"${\" + {'a': 1}.a}c$${d}",
        "${a}",
        "${${",
        "${'\\'}'}",
    ],
    corpus: None,
    made: None,
    words: &[
        "${", "}", "'", "\"", "\\'", "r'", "\"\"\"", "//", "{", "$${",
    ],
};
