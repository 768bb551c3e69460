//! S33: what the rules of a definition may cost, as the hub and a real kube-apiserver estimate it.
//!
//! Each rule stands at a node that may be there once, a thousand times and a million times. Beyond the limit, the refusal
//! names by how much, so that equal refusals mean equal estimates.

use serde_json::{Value, json};

use super::admission::Pair;
use super::support::Answer;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All";

/// Rules of a node with the fields of [`node`].
const RULES: [&str; 58] = [
    "true",
    "self.text == 'a'",
    "self.text != self.short",
    "self.short < 'b'",
    "self.text.contains('gpu')",
    "self.short.contains(self.short)",
    "self.text.startsWith(self.short)",
    "self.short.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
    r"self.short.matches('\\d+\\.\\d+')",
    "self.texts.all(x, x.contains('gpu'))",
    "self.few.all(x, x.contains('gpu'))",
    "self.few.all(a, self.few.all(b, self.few.exists(c, a + b == c)))",
    "self.few.exists_one(x, x == 'a')",
    "self.texts.exists(x, x in self.few)",
    "self.few.map(x, x + x).exists(y, y == 'a')",
    "self.few.map(x, x.size() > 1, x + 'b').size() > 2",
    "self.texts.filter(x, x.size() > 3).size() < 10",
    "self.few == oldSelf.few",
    "self.objects == oldSelf.objects",
    "self.objects.all(o, o.name != '' && (has(o.weight) ? o.weight > 3 : true))",
    "self.objects.all(o, self.objects.exists_one(p, p.name == o.name))",
    "self.map.all(k, self.map[k].startsWith('x'))",
    "self.map.all(k, v, k != v)",
    "self.map.exists(k, v, v == 'a' || k == 'b')",
    "self.few.transformList(i, v, v + string(i)).size() == 1",
    "self.map.transformMap(k, v, v + 'x').size() == 1",
    "'a' in self.map && self.map['a'] == 'b'",
    "self.few[0] == self.few[1]",
    "[self.text, self.short].exists(x, x == 'a')",
    "{'a': self.short}['a'] == 'b'",
    "size(self.few) + self.text.size() > 3 && self.count * 2 - 1 < 7",
    "self.text + self.short == 'ab'",
    "(has(self.text) ? self.text : self.short) == 'a'",
    "!has(self.text) || -self.count > 3",
    "self.?short.orValue('').size() < 5",
    "self.?text.hasValue() && self.?count.or(optional.of(3)).value() == 3",
    "self.?short.optMap(x, x + 'a').orValue('') == 'b'",
    "self.when < timestamp('2020-01-01T00:00:00Z') && self.when == self.when",
    "self.when - timestamp('2020-01-01T00:00:00Z') > duration('1h')",
    "self.span < duration('1h') && self.span.getSeconds() > 3",
    "type(self.either) == string ? self.either.size() > 2 : true",
    "self.short.lowerAscii() == self.short.upperAscii().trim()",
    "self.short.replace('ab', 'c').substring(1) == 'a'",
    "self.short.replace('a', self.few[0]).size() > 3",
    "self.short.split(',').all(x, x == 'a')",
    "self.few.join(',') == 'a'",
    "self.short.find('[a-z]+') == '' && self.short.findAll('a', 2).size() > 1",
    "self.few.isSorted() && self.few.indexOf('a') > 1 && self.short.indexOf('a') > 2",
    "self.numbers.sum() > 3 && self.numbers.max() < 7",
    "sets.contains(self.few, self.few) && sets.equivalent(self.numbers, [1, 2])",
    "self.few.distinct().size() == 2 && self.few.sort()[0] == 'a' && self.few.reverse()[0] == 'b'",
    "self.numbers.slice(1, 3).size() == 2 && lists.range(4).size() == 4 && [[1], [2]].flatten().size() == 2",
    "quantity(self.short).isGreaterThan(quantity('1')) && isQuantity(self.text)",
    "quantity(self.short) == quantity('1') && quantity(self.short).add(quantity('1')).isLessThan(quantity('2'))",
    "ip(self.short).family() == 4 && cidr('10.0.0.0/8').containsIP(self.short) && isIP(self.text)",
    "url(self.short).getHost() == 'a' && isURL(self.short)",
    "semver(self.short).major() > 1 && isSemver(self.short)",
    "'%s-%d'.format([self.short, self.count]) == 'a' && bytes(self.short).size() > 2 && string(self.count) == '1'",
];

/// Messages of a rule.
const MESSAGES: [&str; 5] = [
    "'no'",
    "'less than ' + string(self.count)",
    "'less than %d'.format([self.count])",
    "self.text + self.text + self.short",
    "self.few.join(', ')",
];

fn node(rules: &Value) -> Value {
    json!({"type": "object", "required": ["short"], "x-kubernetes-validations": rules, "properties": {
        "text": {"type": "string"},
        "short": {"type": "string", "maxLength": 10},
        "texts": {"type": "array", "items": {"type": "string"}},
        "few": {"type": "array", "maxItems": 10, "items": {"type": "string", "maxLength": 20}},
        "numbers": {"type": "array", "maxItems": 10, "items": {"type": "integer"}},
        "objects": {"type": "array", "maxItems": 20, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"],
            "properties": {"name": {"type": "string", "maxLength": 63}, "weight": {"type": "integer"}}}},
        "map": {"type": "object", "maxProperties": 8, "additionalProperties": {"type": "string", "maxLength": 30}},
        "count": {"type": "integer"},
        "when": {"type": "string", "format": "date-time"},
        "span": {"type": "string", "format": "duration"},
        "either": {"x-kubernetes-int-or-string": true},
    }})
}

fn definition(rules: &Value) -> Value {
    let many = |count: u64| {
        json!({"type": "array", "maxItems": count, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["short"],
            "items": node(rules)})
    };
    let unbounded = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["short"],
        "items": node(rules)});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "one": node(rules), "some": many(1000), "many": many(1_000_000), "unbounded": unbounded}}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "costs.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "costs", "singular": "cost", "kind": "Cost", "listKind": "CostList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
}

/// Definitions are refused for the same rules, by the same factors.
pub(super) async fn estimate_the_same(pair: &Pair) {
    let mut refused = 0;
    let rules = RULES.map(|rule| json!([{"rule": rule}]));
    let messages =
        MESSAGES.map(|message| json!([{"rule": "self.count > 3", "messageExpression": message}]));
    for rules in rules.iter().chain(&messages) {
        let (left, right) = pair.send("POST", DEFINITIONS, &definition(rules)).await;
        refused += usize::from(right.status != 201);
        pair.compare(&rules.to_string(), &shown(&left), &shown(&right));
    }
    assert!(refused > 20, "the limits show: {refused}");
}

fn shown(answer: &Answer) -> Value {
    let causes = answer.body["details"]["causes"].as_array();
    let causes = causes.map(|causes| {
        let part = |cause: &Value| json!([cause["field"], cause["message"]]);
        let mut causes: Vec<Value> = causes.iter().map(part).collect();
        causes.sort_by_key(Value::to_string);
        causes
    });
    json!([answer.status, causes])
}
