//! Requests that nobody would think of, drawn by a seed.

use serde_json::{Map, Value, json};
use storage_conformance::Random;
use wheelhouse_tests::support::{APPLY_PATCH, JSON, JSON_PATCH, MERGE_PATCH};

/// Stands for the uid that a side gave the object.
pub(super) const UID: &str = "THE-UID";
/// Stands for the version that a side gave the object last.
pub(super) const VERSION: &str = "THE-VERSION";

pub(super) const STRATEGIC: &str = "application/strategic-merge-patch+json";
/// How many of the kinds have a schema of their own; they come first.
const CUSTOM_KINDS: usize = 3;
const NAMES: [&str; 3] = ["a", "b", "c.d"];

/// One request; its path is below the logical cluster.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) method: &'static str,
    /// The path of the object that it is about, or of its collection.
    pub(super) subject: String,
    /// What follows that path.
    pub(super) rest: String,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: String,
}

/// A kind that requests are about.
pub(super) struct Kind {
    /// Where its objects are.
    pub(super) collection: &'static str,
    /// One of its objects, that is accepted.
    pub(super) object: Value,
    subresources: &'static [&'static str],
    /// Field selectors.
    pub(super) fields: &'static [&'static str],
}

/// Draws requests.
pub(super) struct Draw {
    random: Random,
    kinds: Vec<Kind>,
}

// === impl Kind ===

impl Kind {
    fn plural(&self) -> &str {
        self.collection.rsplit('/').next().unwrap_or_default()
    }
}

// === impl Draw ===

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            kinds: kinds(),
        }
    }

    /// Draws the next request.
    pub(super) fn request(&mut self) -> Request {
        let kind = self.random.below(self.kinds.len());
        let name = *self.pick(&NAMES);
        let subject = format!("{}/{name}", self.kinds[kind].collection);
        let (method, subject, rest, media, body) = match self.random.below(20) {
            0..5 => self.create(kind, name),
            5..7 => self.update(kind, subject),
            7..13 => self.patch(kind, subject),
            13..15 => ("GET", subject, self.subresource(kind), "", String::new()),
            15..17 => self.list(kind),
            17..19 => self.delete(kind, subject),
            _ => self.delete_all(kind),
        };
        let mut headers = Vec::new();
        if !media.is_empty() {
            let media = if self.one_in(25) {
                (*self.pick(&[
                    "text/plain",
                    "application/yaml",
                    "application/json;a=b",
                    "x",
                ]))
                .to_owned()
            } else {
                media.to_owned()
            };
            headers.push(("content-type", media));
        }
        if self.one_in(6) {
            let accepted = if method != "POST" && subject.ends_with(self.kinds[kind].plural()) {
                self.pick(&ACCEPTED)
            } else {
                // What no answer can have is refused by the hub at once, and by a kube-apiserver once it is done.
                self.pick(&ACCEPTED_OF_OBJECTS)
            };
            headers.push(("accept", (*accepted).to_owned()));
        }
        let parameters = self.parameters(method, rest.contains('?'));
        Request {
            method,
            subject,
            rest: rest + &parameters,
            headers,
            body,
        }
    }

    fn create(&mut self, kind: usize, name: &str) -> Drawn {
        let body = self.object(kind, name);
        let collection = self.kinds[kind].collection.to_owned();
        let body = self.text(&body);
        ("POST", collection, String::new(), JSON, body)
    }

    fn update(&mut self, kind: usize, subject: String) -> Drawn {
        let name = subject.rsplit('/').next().unwrap_or_default().to_owned();
        let mut body = self.object(kind, &name);
        if let Some(metadata) = body["metadata"].as_object_mut() {
            let version = match self.random.below(5) {
                0 => None,
                1 => Some("1"),
                _ => Some(VERSION),
            };
            if let Some(version) = version {
                metadata.insert("resourceVersion".to_owned(), json!(version));
            }
            if self.one_in(4) {
                let uid = *self.pick(&[UID, UID, "6b1d7d1a-0000-4000-8000-000000000000"]);
                metadata.insert("uid".to_owned(), json!(uid));
            }
        }
        let rest = self.subresource(kind);
        if rest == "/scale" {
            body = self.scale(&name);
        }
        let body = self.text(&body);
        ("PUT", subject, rest, JSON, body)
    }

    fn patch(&mut self, kind: usize, subject: String) -> Drawn {
        let name = subject.rsplit('/').next().unwrap_or_default().to_owned();
        let mut rest = self.subresource(kind);
        let whole = if rest == "/scale" {
            self.scale(&name)
        } else {
            self.object(kind, &name)
        };
        match self.random.below(8) {
            0..3 => {
                let body = self.part(whole);
                ("PATCH", subject, rest, MERGE_PATCH, self.text(&body))
            }
            3..5 => {
                let body = self.operations(&whole);
                ("PATCH", subject, rest, JSON_PATCH, self.text(&body))
            }
            5 => {
                let body = self.part(whole);
                ("PATCH", subject, rest, STRATEGIC, self.text(&body))
            }
            _ => {
                // What Go cannot read in an apply of its own kinds, it reads otherwise than elsewhere.
                let whole = if kind < CUSTOM_KINDS && rest != "/scale" {
                    whole
                } else {
                    self.plain(kind, &name, &rest)
                };
                let mut body = self.part(whole.clone());
                without_null_bytes(&mut body);
                body.get_mut("metadata").map(without_null_texts);
                if let Some(fields) = body.as_object_mut() {
                    fields.insert("apiVersion".to_owned(), whole["apiVersion"].clone());
                    fields.insert("kind".to_owned(), whole["kind"].clone());
                }
                let manager = *self.pick(&["m", "n"]);
                rest = format!("{rest}?fieldManager={manager}");
                if self.one_in(2) {
                    rest.push_str("&force=true");
                }
                ("PATCH", subject, rest, APPLY_PATCH, self.text(&body))
            }
        }
    }

    /// An object of a kind, or its scale, without a fault.
    fn plain(&self, kind: usize, name: &str, rest: &str) -> Value {
        if rest == "/scale" {
            return scale(name);
        }
        let mut object = self.kinds[kind].object.clone();
        object["metadata"]["name"] = json!(name);
        object
    }

    fn list(&mut self, kind: usize) -> Drawn {
        let mut collection = self.kinds[kind].collection.to_owned();
        // Elsewhere a server has objects of its own.
        if collection.contains("gadgets") && self.one_in(3) {
            collection = collection.replace("/namespaces/default", "");
        }
        let mut parameters = Vec::new();
        if self.one_in(2) {
            parameters.push(format!("labelSelector={}", self.pick(&LABEL_SELECTORS)));
        }
        if self.one_in(2) {
            let fields = self.kinds[kind].fields;
            let field = if fields.is_empty() || self.one_in(3) {
                *self.pick(&FIELD_SELECTORS)
            } else {
                *self.pick(fields)
            };
            parameters.push(format!("fieldSelector={field}"));
        }
        if self.one_in(3) {
            parameters.push((*self.pick(&LIST_PARAMETERS)).to_owned());
        }
        let rest = if parameters.is_empty() {
            String::new()
        } else {
            format!("?{}", parameters.join("&"))
        };
        ("GET", collection, rest, "", String::new())
    }

    fn delete(&mut self, kind: usize, subject: String) -> Drawn {
        let rest = if self.one_in(8) {
            self.subresource(kind)
        } else {
            String::new()
        };
        let body = self.deletion();
        ("DELETE", subject, rest, JSON, body)
    }

    fn delete_all(&mut self, kind: usize) -> Drawn {
        let collection = self.kinds[kind].collection.to_owned();
        let selector = format!("?labelSelector={}", self.pick(&LABEL_SELECTORS));
        let body = self.deletion();
        ("DELETE", collection, selector, JSON, body)
    }

    /// Options of a deletion. None leaves work to a garbage collector, which a kube-apiserver alone does not have.
    fn deletion(&mut self) -> String {
        if self.one_in(2) {
            return String::new();
        }
        let mut options = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
        for _ in 0..=self.random.below(2) {
            let (name, value) = self
                .pick(&[
                    ("propagationPolicy", json!("Background")),
                    ("propagationPolicy", json!("Sideways")),
                    ("propagationPolicy", json!(1)),
                    ("gracePeriodSeconds", json!(0)),
                    ("gracePeriodSeconds", json!(-1)),
                    ("gracePeriodSeconds", json!("x")),
                    ("preconditions", json!({"uid": UID})),
                    ("preconditions", json!({"uid": "another"})),
                    ("preconditions", json!({"resourceVersion": VERSION})),
                    ("preconditions", json!({"resourceVersion": "1"})),
                    ("preconditions", json!({"uid": UID, "resourceVersion": "x"})),
                    ("dryRun", json!(["All"])),
                    ("dryRun", json!(["Some"])),
                    ("dryRun", json!([])),
                    ("orphanDependents", json!(false)),
                    ("kind", json!("Pod")),
                    ("kind", json!(null)),
                    ("apiVersion", json!("v2")),
                    ("unknown", json!(true)),
                ])
                .clone();
            options[name] = value;
        }
        self.text(&options)
    }

    fn subresource(&mut self, kind: usize) -> String {
        let subresources = self.kinds[kind].subresources;
        if subresources.is_empty() || !self.one_in(4) {
            return String::new();
        }
        format!("/{}", self.pick(subresources))
    }

    fn scale(&mut self, name: &str) -> Value {
        let mut scale = scale(name);
        if self.one_in(2) {
            self.mutate(&mut scale);
        }
        scale
    }

    /// Draws an object of a kind: as it should be, or with up to three faults.
    fn object(&mut self, kind: usize, name: &str) -> Value {
        let mut object = self.plain(kind, name, "");
        match self.random.below(24) {
            0 => {
                let name = *self.pick(&["apiVersion", "kind"]);
                object[name] = if name == "kind" && self.one_in(2) {
                    self.bent(&object[name])
                } else {
                    self.edge()
                };
            }
            1..8 => {}
            _ => {
                for _ in 0..=self.random.below(3) {
                    self.mutate(&mut object);
                }
            }
        }
        without_null_bytes(&mut object);
        object
    }

    /// Draws a part of an object, as a patch has it.
    fn part(&mut self, whole: Value) -> Value {
        let Value::Object(fields) = whole else {
            return whole;
        };
        let mut part = Map::new();
        for (name, value) in fields {
            if self.one_in(3) || (name == "metadata" && self.one_in(2)) {
                continue;
            }
            let value = if value.is_object() && !self.one_in(3) {
                self.part(value)
            } else if self.one_in(12) && !matches!(name.as_str(), "apiVersion" | "kind") {
                // A kube-apiserver answers 500 to a custom object without.
                Value::Null
            } else {
                value
            };
            part.insert(name, value);
        }
        Value::Object(part)
    }

    fn operations(&mut self, whole: &Value) -> Value {
        let mut paths = Vec::new();
        pointers(whole, String::new(), &mut paths);
        paths.retain(|path| !matches!(path.as_str(), "" | "/apiVersion" | "/kind"));
        let count = 1 + self.random.below(3);
        let operations = (0..count).map(|_| {
            let mut path = self.pick(&paths).clone();
            if self.one_in(6) {
                let step = *self.pick(&["/-", "/0", "/1", "/new", "/a~1b", "~2", "/99"]);
                path.push_str(step);
            }
            let from = self.pick(&paths).clone();
            let value = if self.one_in(2) {
                whole.pointer(&path).cloned().unwrap_or(json!("new"))
            } else {
                self.edge()
            };
            match self.random.below(8) {
                0..3 => json!({"op": "replace", "path": path, "value": value}),
                3..5 => json!({"op": "add", "path": path, "value": value}),
                5 => json!({"op": "remove", "path": path}),
                6 => json!({"op": "test", "path": path, "value": value}),
                _ => {
                    json!({"op": *self.pick(&["copy", "move", "jump"]), "path": path, "from": from})
                }
            }
        });
        operations.collect()
    }

    /// Changes one thing in a value.
    pub(super) fn mutate(&mut self, value: &mut Value) {
        let mut paths = Vec::new();
        pointers(value, String::new(), &mut paths);
        let path = self.pick(&paths).clone();
        // What has an owner is a garbage collector's, and what has a drawn name is found by no later request.
        // A type that is another one is drawn alone.
        if matches!(path.as_str(), "" | "/metadata" | "/apiVersion" | "/kind") {
            return;
        }
        let edge = self.edge();
        let Some((parent, name)) = path.rsplit_once('/') else {
            return;
        };
        let choice = self.random.below(10);
        let Some(parent) = value.pointer_mut(parent) else {
            return;
        };
        match (parent, choice) {
            (Value::Object(fields), 0..2) => {
                fields.remove(name);
            }
            (Value::Object(fields), 2) => {
                fields.insert(format!("{name}x"), edge);
            }
            (Value::Object(fields), 3) => {
                fields.insert(name.to_owned(), Value::Null);
            }
            (Value::Object(fields), 4..6) => {
                let other = fields.get(name).map_or(edge, |known| self.bent(known));
                fields.insert(name.to_owned(), other);
            }
            (Value::Object(fields), _) => {
                fields.insert(name.to_owned(), edge);
            }
            (Value::Array(items), 0..4) => {
                let item = items.first().cloned().unwrap_or(edge);
                items.push(item);
            }
            (Value::Array(items), _) => items.push(edge),
            _ => {}
        }
    }

    /// Returns a value that is much like another one.
    fn bent(&mut self, value: &Value) -> Value {
        match value {
            Value::String(text) => {
                let bent = match self.random.below(5) {
                    0 => format!("{text}!"),
                    1 => text.to_uppercase(),
                    2 => text.repeat(60),
                    3 => format!(" {text}"),
                    _ => format!("{text}\u{e9}"),
                };
                Value::String(bent)
            }
            Value::Number(number) => {
                let number = number.as_f64().unwrap_or_default();
                self.pick(&[
                    json!(-number),
                    json!(number + 0.25),
                    json!(20_000_000_000_u64),
                    json!(number.to_string()),
                ])
                .clone()
            }
            Value::Bool(value) => self
                .pick(&[json!(!value), json!(value.to_string())])
                .clone(),
            Value::Array(items) => items.iter().rev().cloned().collect(),
            Value::Object(_) => json!([value]),
            Value::Null => json!({}),
        }
    }

    fn edge(&mut self) -> Value {
        self.pick(&[
            json!(null),
            json!(""),
            json!("x"),
            json!("a/b/c"),
            json!("\u{1f600}\n"),
            json!(0),
            json!(-1),
            json!(7),
            json!(1.5),
            json!(3_000_000_000_u64),
            json!(9_223_372_036_854_775_808_u64),
            json!(1e30),
            json!(true),
            json!(false),
            json!([]),
            json!({}),
            json!([null]),
            json!(["x", "x"]),
            json!([{}]),
            json!({"x": "y"}),
            json!({"x": null}),
            json!({"x": 1}),
        ])
        .clone()
    }

    /// The bytes of a body: those of the value, or broken ones.
    fn text(&mut self, value: &Value) -> String {
        let text = value.to_string();
        if !self.one_in(30) {
            return text;
        }
        match self.random.below(5) {
            0 => String::new(),
            1 => text.replacen('{', "", 1),
            2 => text.replacen(',', ",,", 1),
            3 => text.replacen('}', ",\"kind\":\"Other\"}", 1),
            _ => "null".to_owned(),
        }
    }

    fn parameters(&mut self, method: &str, has_some: bool) -> String {
        if !self.one_in(4) {
            return String::new();
        }
        let first = if has_some { '&' } else { '?' };
        let parameter = match method {
            "GET" => *self.pick(&["pretty=true", "unknown=1", "exact=true"]),
            _ => *self.pick(&WRITE_PARAMETERS),
        };
        format!("{first}{parameter}")
    }

    pub(super) fn pick<'t, T>(&mut self, choices: &'t [T]) -> &'t T {
        &choices[self.random.below(choices.len())]
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        self.random.below(end)
    }

    pub(super) fn one_in(&mut self, count: usize) -> bool {
        self.random.below(count) == 0
    }
}

/// Method, subject, rest of the path, type of the body, body.
type Drawn = (&'static str, String, String, &'static str, String);

pub(super) const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
pub(super) const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

const ACCEPTED: [&str; 6] = [
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    TABLE,
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    "application/json;as=Table;v=v2;g=meta.k8s.io,application/json",
    "application/yaml",
    "*/*",
];

const ACCEPTED_OF_OBJECTS: [&str; 4] = [
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    METADATA,
    "application/yaml",
    "*/*",
];

const LABEL_SELECTORS: [&str; 9] = [
    "",
    "app%3Da",
    "app!%3Da",
    "app%20in%20(a,b)",
    "!none",
    "app,tier%3Dx",
    "app%3D%3D",
    "-a%3Db",
    "app%20in%20()",
];

const FIELD_SELECTORS: [&str; 6] = [
    "metadata.name%3Da",
    "metadata.namespace!%3Ddefault",
    "metadata.name%3Da,metadata.name%3Db",
    "metadata.uid%3Dx",
    "nonesuch%3Dx",
    "metadata.name",
];

const LIST_PARAMETERS: [&str; 12] = [
    "limit=500",
    "limit=-1",
    "limit=x",
    "resourceVersion=0",
    "resourceVersion=x",
    "resourceVersion=-1",
    "resourceVersionMatch=Exact",
    "resourceVersion=0&resourceVersionMatch=NotOlderThan",
    "resourceVersion=0&resourceVersionMatch=Exact",
    "resourceVersion=0&resourceVersionMatch=Other",
    "continue=x",
    "timeoutSeconds=x",
];

const WRITE_PARAMETERS: [&str; 12] = [
    "dryRun=All",
    "dryRun=All",
    "dryRun=Some",
    "fieldManager=other",
    "fieldManager=%00",
    "fieldValidation=Strict",
    "fieldValidation=Strict",
    "fieldValidation=Warn",
    "fieldValidation=Ignore",
    "fieldValidation=Other",
    "force=x",
    "propagationPolicy=Sideways",
];

/// Takes out nulls in the place of bytes. Go stores them otherwise than no bytes, which look the same, so that the next write that changes
/// nothing makes a version in a kube-apiserver.
fn without_null_bytes(object: &mut Value) {
    let field = if object["kind"] == "Secret" {
        "data"
    } else {
        "binaryData"
    };
    if let Some(bytes) = object.get_mut(field).and_then(Value::as_object_mut) {
        bytes.retain(|_, bytes| !bytes.is_null());
    }
}

/// Takes out nulls in the place of texts. A kube-apiserver stores those of an applied custom object, and reads them as no text, so that the
/// next write that changes nothing makes a version.
fn without_null_texts(metadata: &mut Value) {
    for field in ["labels", "annotations"] {
        if let Some(texts) = metadata.get_mut(field).and_then(Value::as_object_mut) {
            texts.retain(|_, text| !text.is_null());
        }
    }
}

/// Returns the JSON pointers of all that a value has.
pub(super) fn pointers(value: &Value, path: String, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                let name = name.replace('~', "~0").replace('/', "~1");
                pointers(inner, format!("{path}/{name}"), found);
            }
        }
        Value::Array(items) => {
            for (index, inner) in items.iter().enumerate() {
                pointers(inner, format!("{path}/{index}"), found);
            }
        }
        _ => {}
    }
    found.push(path);
}

fn scale(name: &str) -> Value {
    json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": {"name": name, "namespace": "default"}, "spec": {"replicas": 2},
    })
}

fn metadata() -> Value {
    json!({
        "name": "", "namespace": "default", "labels": {"app": "a", "tier": "x"},
        "annotations": {"example.com/note": "one"},
    })
}

fn gadget(version: &str) -> Value {
    json!({
        "apiVersion": format!("random.example.com/{version}"), "kind": "Gadget", "metadata": metadata(),
        "spec": {
            "color": "green", "replicas": 2, "ratio": 1.5, "size": "5Mi", "name": "abc",
            "when": "2026-01-02T03:04:05Z", "data": "AAEC", "enabled": true, "hidden": null, "fixed": "f",
            "tags": ["a", "b"], "plain": [1, 2],
            "parts": [{"name": "p"}, {"name": "q", "port": 81, "note": "n"}],
            "labels": {"a": "b"}, "counts": {"a": 1}, "nested": {"deeper": {}},
            "choice": {"left": "l"}, "never": "good", "free": {"known": 1, "other": {"x": [1]}},
            "inner": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "i", "labels": {"a": "b"}}, "spec": {"x": 1}},
        },
        "status": {"replicas": 1, "selector": "app=a", "phase": "New", "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

/// All kinds, those with a schema of their own first.
pub(super) fn kinds() -> Vec<Kind> {
    let mut kinds = custom_kinds();
    kinds.extend(built_in_kinds());
    kinds
}

fn custom_kinds() -> Vec<Kind> {
    let cluster = |mut object: Value| {
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("namespace");
        }
        object
    };
    let gadget_subresources = &["status", "scale", "nonesuch"];
    vec![
        Kind {
            collection: "/apis/random.example.com/v1/namespaces/default/gadgets",
            object: gadget("v1"),
            subresources: gadget_subresources,
            fields: &[
                "spec.color%3Dgreen",
                "spec.replicas!%3D2",
                "spec.enabled%3Dtrue",
            ],
        },
        Kind {
            collection: "/apis/random.example.com/v1beta1/namespaces/default/gadgets",
            object: gadget("v1beta1"),
            subresources: gadget_subresources,
            fields: &[],
        },
        Kind {
            collection: "/apis/random.example.com/v1/orbs",
            object: cluster(json!({
                "apiVersion": "random.example.com/v1", "kind": "Orb", "metadata": metadata(),
                "mass": 3, "other": {"deep": [{"x": 1}, null, "s"]},
            })),
            subresources: &[],
            fields: &[],
        },
    ]
}

/// Of those of Kubernetes', what the hub judges whole.
fn built_in_kinds() -> Vec<Kind> {
    vec![
        Kind {
            collection: "/api/v1/namespaces/default/configmaps",
            object: json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(),
                "data": {"k": "v", "l": ""}, "binaryData": {"b": "AAEC"}, "immutable": false,
            }),
            subresources: &[],
            fields: &[],
        },
        Kind {
            collection: "/api/v1/namespaces/default/secrets",
            object: json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": metadata(), "type": "Opaque",
                "data": {"k": "dg=="}, "stringData": {"s": "t"},
            }),
            subresources: &[],
            fields: &["type%3DOpaque", "type!%3DOpaque"],
        },
        Kind {
            collection: "/apis/coordination.k8s.io/v1/namespaces/default/leases",
            object: json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata(),
                "spec": {
                    "holderIdentity": "h", "leaseDurationSeconds": 5, "leaseTransitions": 1,
                    "acquireTime": "2026-01-02T03:04:05.000006Z", "renewTime": "2026-01-02T03:04:05.000006Z",
                },
            }),
            subresources: &[],
            fields: &[],
        },
        Kind {
            collection: "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
            object: json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata(),
                "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["p"]}],
            }),
            subresources: &[],
            fields: &[],
        },
    ]
}

/// Returns where the objects are that requests are about.
pub(super) fn collections() -> impl Iterator<Item = &'static str> {
    kinds().into_iter().map(|kind| kind.collection)
}

/// Returns whether a segment of a path is the name of an object.
pub(super) fn is_name(segment: &str) -> bool {
    NAMES.contains(&segment)
}
