//! Definitions that nobody would write, drawn by a seed. Each is judged and not kept.

use serde_json::{Value, json};
use wheelhouse_tests::support::{APPLY_PATCH, CRDS, JSON, JSON_PATCH, MERGE_PATCH};

use super::draw::{Draw, Request, UID, VERSION, pointers};

/// The definition of [`GADGETS`](super::GADGETS) that both have.
pub(super) const KNOWN: &str = "gadgets.random.example.com";

impl Draw {
    /// Draws a request that writes a definition, as a dry run.
    pub(super) fn definition(&mut self, known: &Value) -> Request {
        let mut whole = known.clone();
        let is_new = self.one_in(2);
        if is_new {
            whole["metadata"]["name"] = json!("gizmos.random.example.com");
            whole["spec"]["names"] = json!({
                "kind": "Gizmo", "plural": "gizmos", "singular": "gizmo", "listKind": "GizmoList", "shortNames": ["gz"],
            });
        }
        // Where all versions have them, any other difference between versions is refused.
        if self.one_in(2) {
            for version in whole["spec"]["versions"]
                .as_array_mut()
                .into_iter()
                .flatten()
            {
                version["selectableFields"].take();
            }
        }
        for _ in 0..=self.below(3) {
            self.bend_definition(&mut whole);
        }
        without_empty(&mut whole["spec"]["versions"]);
        let (method, media, body) = if is_new {
            ("POST", JSON, whole)
        } else {
            self.change(whole)
        };
        let subject = if is_new {
            CRDS.to_owned()
        } else {
            format!("{CRDS}/{KNOWN}")
        };
        let mut rest = "?dryRun=All".to_owned();
        if media == APPLY_PATCH {
            rest.push_str("&fieldManager=m&force=true");
        }
        let validation =
            *self.pick(&["", "", "&fieldValidation=Strict", "&fieldValidation=Ignore"]);
        Request {
            method,
            subject,
            rest: rest + validation,
            headers: vec![("content-type", media.to_owned())],
            body: body.to_string(),
        }
    }

    /// Draws how a definition is changed to another one.
    fn change(&mut self, mut whole: Value) -> (&'static str, &'static str, Value) {
        match self.below(6) {
            0..3 => {
                if let Some(metadata) = whole["metadata"].as_object_mut() {
                    metadata.insert("resourceVersion".to_owned(), json!(VERSION));
                    metadata.insert("uid".to_owned(), json!(UID));
                }
                ("PUT", JSON, whole)
            }
            3 => ("PATCH", MERGE_PATCH, json!({"spec": whole["spec"]})),
            4 => {
                let operations =
                    json!([{"op": "replace", "path": "/spec", "value": whole["spec"]}]);
                ("PATCH", JSON_PATCH, operations)
            }
            _ => ("PATCH", APPLY_PATCH, whole),
        }
    }

    /// Changes one thing in a definition: mostly one that somebody may have meant.
    fn bend_definition(&mut self, definition: &mut Value) {
        let mut paths = Vec::new();
        pointers(definition, String::new(), &mut paths);
        let (places, words): (Vec<String>, _) = match self.below(12) {
            0..2 => return self.mutate(&mut definition["spec"]),
            2..4 => (vec!["/spec".to_owned()], SPEC),
            4..6 => {
                paths.retain(|path| is_item_of(path, "versions"));
                (paths, VERSIONS)
            }
            _ => {
                paths.retain(|path| is_schema(path));
                (paths, SCHEMAS)
            }
        };
        if places.is_empty() {
            return;
        }
        let place = self.pick(&places).clone();
        let (name, values) = *self.pick(words);
        let value = *self.pick(values);
        let value = serde_json::from_str(value).expect("the words of a definition are JSON");
        if let Some(fields) = definition
            .pointer_mut(&place)
            .and_then(Value::as_object_mut)
        {
            fields.insert(name.to_owned(), value);
        }
    }
}

/// Takes out lists and maps of schemas that are there and empty. Go writes none, but counts some of them as a change, and refuses them where
/// only some keywords may be.
fn without_empty(value: &mut Value) {
    const CONTAINERS: [&str; 11] = [
        "required",
        "enum",
        "allOf",
        "anyOf",
        "oneOf",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-validations",
        "properties",
        "patternProperties",
        "definitions",
        "dependencies",
    ];
    match value {
        Value::Object(fields) => fields.retain(|name, field| {
            without_empty(field);
            let is_empty = *field == json!([]) || *field == json!({});
            !(is_empty && CONTAINERS.contains(&name.as_str()))
        }),
        Value::Array(items) => items.iter_mut().for_each(without_empty),
        _ => {}
    }
}

fn is_item_of(path: &str, list: &str) -> bool {
    let mut steps = path.rsplit('/');
    let is_index = steps
        .next()
        .is_some_and(|step| step.parse::<usize>().is_ok());
    is_index && steps.next() == Some(list)
}

/// Whether a schema is there.
fn is_schema(path: &str) -> bool {
    let mut steps = path.rsplit('/');
    let (last, parent) = (steps.next().unwrap_or_default(), steps.next());
    let is_named = matches!(
        last,
        "openAPIV3Schema" | "items" | "additionalProperties" | "not"
    );
    let is_listed =
        matches!(parent, Some("allOf" | "anyOf" | "oneOf")) && last.parse::<usize>().is_ok();
    is_named && parent != Some("properties") || parent == Some("properties") || is_listed
}

/// Fields, and what each may be set to, right or wrong.
type Words = &'static [(&'static str, &'static [&'static str])];

const SPEC: Words = &[
    (
        "scope",
        &[
            r#""Cluster""#,
            r#""Namespaced""#,
            r#""namespaced""#,
            r#""""#,
        ],
    ),
    (
        "group",
        &[
            r#""other.example.com""#,
            r#""x""#,
            r#""Random.example.com""#,
            r#""""#,
        ],
    ),
    ("preserveUnknownFields", &["true", "false", "null"]),
    (
        "conversion",
        &[
            r#"{"strategy":"None"}"#,
            r#"{"strategy":"Webhook"}"#,
            r#"{"strategy":"Other"}"#,
            r#"{"strategy":"None","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"https://a.example.com"}}}"#,
            r#"{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"https://a.example.com/x"}}}"#,
            r#"{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v2"],"clientConfig":{"url":"https://a.example.com/x"}}}"#,
            r#"{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1","v1"],"clientConfig":{"url":"http://u@a.example.com/x?y#z"}}}"#,
            r#"{"strategy":"Webhook","webhook":{"conversionReviewVersions":[],"clientConfig":{}}}"#,
            r#"{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1","!"],"clientConfig":{"url":"https://a","service":{"name":"s","namespace":"n"}}}}"#,
            r#"{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1beta1"],"clientConfig":{"service":{"name":"s","namespace":"n","path":"/a//b/","port":0}}}}"#,
            r#"{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1beta1"],"clientConfig":{"service":{"name":"","namespace":"","path":"x"},"caBundle":"eA=="}}}"#,
        ],
    ),
    (
        "names",
        &[
            r#"{"kind":"Gizmo","plural":"gizmos"}"#,
            r#"{"kind":"Gadget","plural":"gadgets","listKind":"Gadget"}"#,
            r#"{"kind":"Gadget","plural":"gadgets","singular":"gadgets","shortNames":["A","b.c",""]}"#,
            r#"{"kind":"gadget","plural":"Gadgets","singular":"x y"}"#,
            r#"{"kind":"Gizmo","plural":"gizmos","categories":["All","","x/y"],"shortNames":["gizmos","gizmo"]}"#,
            r#"{"kind":"","plural":""}"#,
        ],
    ),
    (
        "versions",
        &[
            "[]",
            r#"[{"name":"v1","served":true,"storage":true}]"#,
            r#"[{"name":"v1","served":false,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]"#,
            r#"[{"name":"v1","served":true,"storage":true,"schema":{}}]"#,
            r#"[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}},{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]"#,
            r#"[{"name":"v2","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]"#,
            r#"[{"name":"V_1","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"array"}}}]"#,
        ],
    ),
];

const VERSIONS: Words = &[
    (
        "name",
        &[
            r#""v2""#,
            r#""v1""#,
            r#""v1beta1""#,
            r#""V1""#,
            r#""1.2""#,
            r#""""#,
        ],
    ),
    ("served", &["true", "false", "null"]),
    ("storage", &["true", "false"]),
    ("deprecated", &["true", "false"]),
    (
        "deprecationWarning",
        &[r#""soon""#, r#""""#, r#""a\nb""#, r#""\u0001""#],
    ),
    (
        "schema",
        &[
            "null",
            "{}",
            r#"{"openAPIV3Schema":{}}"#,
            r#"{"openAPIV3Schema":{"type":"object"}}"#,
        ],
    ),
    (
        "subresources",
        &[
            "null",
            "{}",
            r#"{"status":{}}"#,
            r#"{"status":{"x":1}}"#,
            r#"{"scale":{}}"#,
            r#"{"scale":{"specReplicasPath":"spec.replicas","statusReplicasPath":".spec.x"}}"#,
            r#"{"scale":{"specReplicasPath":".spec.a b","statusReplicasPath":".status","labelSelectorPath":".other.x"}}"#,
            r#"{"scale":{"specReplicasPath":".spec.list[0]","statusReplicasPath":".status.replicas","labelSelectorPath":""}}"#,
        ],
    ),
    (
        "selectableFields",
        &[
            r#"[{"jsonPath":".spec.color"}]"#,
            r#"[{"jsonPath":".spec.color"},{"jsonPath":".spec.color"}]"#,
            r#"[{"jsonPath":".spec.tags[0]"},{"jsonPath":".spec.nonesuch"}]"#,
            r#"[{"jsonPath":".metadata.name"},{"jsonPath":"spec.color"},{"jsonPath":""}]"#,
            r#"[{"jsonPath":".spec.enabled"},{"jsonPath":".spec.ratio"},{"jsonPath":".spec.labels.a"},{"jsonPath":".spec.nested"}]"#,
            r#"[{"jsonPath":".spec.when"},{"jsonPath":".spec.a b"},{"jsonPath":".spec['color']"}]"#,
            r#"[{"jsonPath":".a"},{"jsonPath":".b"},{"jsonPath":".c"},{"jsonPath":".d"},{"jsonPath":".e"},{"jsonPath":".f"},{"jsonPath":".g"},{"jsonPath":".h"},{"jsonPath":".i"}]"#,
        ],
    ),
    (
        "additionalPrinterColumns",
        &[
            r#"[{"name":"","type":"","jsonPath":""}]"#,
            r#"[{"name":"A","type":"text","jsonPath":".spec.a","format":"int32"}]"#,
            r#"[{"name":"A","type":"integer","jsonPath":"spec.a","format":"int99"}]"#,
            r#"[{"name":"A","type":"date","jsonPath":".spec.a[0].b"},{"name":"A","type":"string","jsonPath":".a b"}]"#,
            r#"[{"name":"A","type":"string","jsonPath":".spec.parts[?(@.name=='x')].port"}]"#,
            r#"[{"name":"A","type":"string","jsonPath":"."},{"name":"B","type":"string","jsonPath":".spec..color"}]"#,
        ],
    ),
];

const SCHEMAS: Words = &[
    (
        "type",
        &[
            r#""string""#,
            r#""object""#,
            r#""array""#,
            r#""integer""#,
            r#""number""#,
            r#""boolean""#,
            r#""null""#,
            r#""Object""#,
            r#""""#,
        ],
    ),
    (
        "format",
        &[
            r#""int32""#,
            r#""int64""#,
            r#""double""#,
            r#""date-time""#,
            r#""byte""#,
            r#""uuid""#,
            r#""duration""#,
            r#""ipv4""#,
            r#""nonesuch""#,
            r#""k8s-short-name""#,
        ],
    ),
    (
        "pattern",
        &[
            r#""^a""#,
            r#""(""#,
            r#""(?!a)b""#,
            r#""\\d+\\pL""#,
            r#""""#,
            r#""a{1,2000}""#,
        ],
    ),
    (
        "default",
        &[
            "null",
            r#""x""#,
            "1",
            "1.5",
            "true",
            "{}",
            "[]",
            r#"{"x":1}"#,
            r#"[{"name":"a"}]"#,
            r#"["a","a"]"#,
            r#"{"name":"p","left":"l"}"#,
        ],
    ),
    (
        "enum",
        &[
            "[]",
            r#"["a"]"#,
            r#"["a","a"]"#,
            "[1,2]",
            "[null]",
            r#"[{"x":1},[1]]"#,
            r#"["red",1]"#,
        ],
    ),
    ("minimum", &["0", "-1.5", "100", r#""1""#]),
    ("maximum", &["0", "-1.5", "100"]),
    ("exclusiveMinimum", &["true", "false", "1"]),
    ("exclusiveMaximum", &["true", "false"]),
    ("multipleOf", &["0", "-1", "2.5", "3"]),
    ("minLength", &["0", "3", "-1"]),
    ("maxLength", &["0", "3", "-1", "20000000"]),
    ("minItems", &["0", "2", "-1"]),
    ("maxItems", &["0", "1", "-1", "3.5"]),
    ("uniqueItems", &["true", "false"]),
    ("minProperties", &["0", "1", "-1"]),
    ("maxProperties", &["0", "1", "-1"]),
    (
        "required",
        &[
            "[]",
            r#"["name"]"#,
            r#"["nonesuch","x"]"#,
            r#"["spec","spec"]"#,
            r#"[""]"#,
            r#"["metadata"]"#,
        ],
    ),
    ("nullable", &["true", "false"]),
    (
        "properties",
        &[
            "{}",
            r#"{"x":{"type":"string"}}"#,
            r#"{"x":{}}"#,
            r#"{"metadata":{"type":"object"}}"#,
            r#"{"metadata":{"type":"object","properties":{"name":{"type":"string","maxLength":3}}}}"#,
            r#"{"metadata":{"type":"string"},"kind":{"type":"integer"},"apiVersion":{"type":"string","default":"v1"}}"#,
            r#"{"metadata":{"type":"object","properties":{"labels":{"type":"object"},"name":{"type":"string","default":"x"}}}}"#,
            r#"{"":{"type":"string"},"a.b":{"type":"string"},"a/b":{"type":"integer"}}"#,
        ],
    ),
    (
        "additionalProperties",
        &[
            "true",
            "false",
            "{}",
            r#"{"type":"string"}"#,
            r#"{"type":"object","properties":{"x":{"type":"string","default":"d"}}}"#,
        ],
    ),
    (
        "items",
        &[
            "{}",
            r#"{"type":"string"}"#,
            r#"[{"type":"string"}]"#,
            r#"{"type":"object","properties":{"name":{"type":"string"}}}"#,
            r#"{"type":"array","items":{"type":"integer"}}"#,
            r#"{"type":"object","nullable":true}"#,
        ],
    ),
    (
        "allOf",
        &[
            "[]",
            r#"[{"required":["a"]}]"#,
            r#"[{"type":"string"}]"#,
            r#"[{"properties":{"nonesuch":{"minLength":1}}}]"#,
            r#"[{"pattern":"x"},{"anyOf":[{"type":"integer"},{"type":"string"}]}]"#,
            r#"[{"default":1},{"nullable":true}]"#,
            r#"[{"x-kubernetes-validations":[{"rule":"true"}]}]"#,
            r#"[{"description":"d","title":"t"}]"#,
            r#"[{"items":{"minLength":1}},{"additionalProperties":{"maxLength":2}}]"#,
        ],
    ),
    (
        "anyOf",
        &[
            "[]",
            r#"[{"type":"integer"},{"type":"string"}]"#,
            r#"[{"required":["a"]},{"required":["b"]}]"#,
            r#"[{"type":"string"},{"type":"integer"}]"#,
            r#"[{"x-kubernetes-int-or-string":true}]"#,
        ],
    ),
    (
        "oneOf",
        &[
            r#"[{"minimum":1},{"maximum":0}]"#,
            r#"[{"not":{"pattern":"a"}},{"minLength":2}]"#,
        ],
    ),
    (
        "not",
        &[
            "{}",
            r#"{"required":["a"]}"#,
            r#"{"type":"string"}"#,
            r#"{"properties":{"color":{"default":"x","enum":["x"]}}}"#,
        ],
    ),
    ("x-kubernetes-preserve-unknown-fields", &["true", "false"]),
    ("x-kubernetes-embedded-resource", &["true", "false"]),
    ("x-kubernetes-int-or-string", &["true", "false"]),
    (
        "x-kubernetes-list-type",
        &[r#""map""#, r#""set""#, r#""atomic""#, r#""other""#],
    ),
    (
        "x-kubernetes-list-map-keys",
        &[
            "[]",
            r#"["name"]"#,
            r#"["nonesuch"]"#,
            r#"["name","name"]"#,
            r#"["type","note"]"#,
        ],
    ),
    (
        "x-kubernetes-map-type",
        &[r#""granular""#, r#""atomic""#, r#""other""#],
    ),
    ("x-kubernetes-validations", RULES),
    ("title", &[r#""t""#]),
    ("description", &[r#""d""#, "1"]),
    ("example", &["{}", "1"]),
    ("externalDocs", &[r#"{"url":"https://a.example.com"}"#]),
    ("$ref", &[r##""#/x""##]),
    ("id", &[r#""x""#]),
    ("$schema", &[r#""x""#]),
    ("definitions", &["{}", r#"{"a":{"type":"string"}}"#]),
    ("dependencies", &[r#"{"a":["b"]}"#]),
    ("patternProperties", &[r#"{"^a":{"type":"string"}}"#]),
    ("additionalItems", &["false", "{}"]),
    ("x-other", &["1"]),
];

const RULES: &[&str] = &[
    "[]",
    r#"[{"rule":"true"}]"#,
    r#"[{"rule":""}]"#,
    r#"[{"rule":"  "}]"#,
    r#"[{"rule":"self"}]"#,
    r#"[{"rule":"self == oldSelf"}]"#,
    r#"[{"rule":"self == oldSelf.orValue(self)","optionalOldSelf":true}]"#,
    r#"[{"rule":"oldSelf.hasValue() || self != null","optionalOldSelf":true}]"#,
    r#"[{"rule":"true","optionalOldSelf":true}]"#,
    r#"[{"rule":"nonesuch(self)"}]"#,
    r#"[{"rule":"self.nonesuch == 1"}]"#,
    r#"[{"rule":"self +"}]"#,
    r#"[{"rule":"self.color == 1"}]"#,
    r#"[{"rule":"self.size() < 3"}]"#,
    r#"[{"rule":"self.all(x, x.size() < 3)"}]"#,
    r#"[{"rule":"self.all(x, self.all(y, self.all(z, x == y || y == z)))"}]"#,
    r#"[{"rule":"has(self.spec) && self.metadata.name != ''"}]"#,
    r#"[{"rule":"self.spec.parts.exists_one(p, p.port == 80)"}]"#,
    r#"[{"rule":"self.matches('(')"}]"#,
    r#"[{"rule":"self.matches('^a+$') || self.contains('b')"}]"#,
    r#"[{"rule":"self > 1","message":"m"},{"rule":"self > 1","message":"m"}]"#,
    r#"[{"rule":"true","message":"a\nb"}]"#,
    r#"[{"rule":"true","message":" "}]"#,
    r#"[{"rule":"true\n&& true"}]"#,
    r#"[{"rule":"self.x >\n 1","message":""}]"#,
    r#"[{"rule":"true","messageExpression":"1"}]"#,
    r#"[{"rule":"true","messageExpression":"'a' +"}]"#,
    r#"[{"rule":"true","messageExpression":""}]"#,
    r#"[{"rule":"true","messageExpression":"'x' + string(self)"}]"#,
    r#"[{"rule":"true","messageExpression":"self.map(x, 'a').join(',')"}]"#,
    r#"[{"rule":"true","reason":"FieldValueForbidden"}]"#,
    r#"[{"rule":"true","reason":"Other"}]"#,
    r#"[{"rule":"true","reason":""}]"#,
    r#"[{"rule":"true","fieldPath":".color"}]"#,
    r#"[{"rule":"true","fieldPath":"color"}]"#,
    r#"[{"rule":"true","fieldPath":".nonesuch"}]"#,
    r#"[{"rule":"true","fieldPath":".tags[0]"}]"#,
    r#"[{"rule":"true","fieldPath":"['color']"}]"#,
    r#"[{"rule":"true","fieldPath":".labels['a.b']"}]"#,
    r#"[{"rule":"true","fieldPath":""}]"#,
    r#"[{"rule":"url(self).getHost() == 'a' && isURL(self)"}]"#,
    r#"[{"rule":"quantity(self).isGreaterThan(quantity('1'))"}]"#,
    r#"[{"rule":"self.map(x, x * 2).sum() > 3 && self.isSorted()"}]"#,
    r#"[{"rule":"duration(self) > duration('1s') || timestamp(self) < timestamp('2026-01-02T03:04:05Z')"}]"#,
    r#"[{"rule":"cidr('10.0.0.0/8').containsIP(ip('10.1.1.1')) && self != null"}]"#,
    r#"[{"rule":"format.dns1123Label().validate(self).hasValue()"}]"#,
    r#"[{"rule":"semver('1.2.3').major() == 1"}]"#,
    r#"[{"rule":"self.split(',').filter(x, x != '').size() > 0 && self.lowerAscii() == self"}]"#,
    r#"[{"rule":"dyn(self) == dyn(1) || type(self) == string"}]"#,
    r#"[{"rule":"variables.x == 1"}]"#,
    r#"[{"rule":"cel.bind(a, self, a == a)"}]"#,
    r#"[{"rule":"[1, 'a', self].size() > 0 && {'a': 1}.a == 1"}]"#,
    r#"[{"rule":"sets.contains([1, 2], [1]) && math.greatest(1, 2) == 2"}]"#,
    r#"[{"rule":"self.transformList(i, v, v).size() == 1"}]"#,
    r#"[{"rule":"optional.of(self).hasValue() && self.?x.orValue(1) == 1"}]"#,
    r#"[{"rule":1}]"#,
    "[{}]",
    r#"{"rule":"true"}"#,
];
