//! The hash of a definition's spec: equal hashes mean that no new revision is needed.
//!
//! The hash is FNV-64a over the JSON that Go writes of the normalised spec: resources sorted by id, readyWhen and
//! includeWhen sorted, forEach left in order (it decides the order of a collection), defaults filled in, payloads
//! (schema parts, templates) re-encoded with sorted keys and with numbers as float64. A selector goes in as stored.
//! A cluster that moves from kro 0.9.4 therefore issues no new revision.
//!
//! Source: kro `pkg/graph/hash/hash.go`, `api/v1alpha1/resourcegraphdefinition_types.go`, Go `encoding/json`.

use std::fmt::Write as _;

use serde_json::{Map, Value};

const FNV_64_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_64_PRIME: u64 = 0x0000_0100_0000_01b3;
const FNV_32_OFFSET: u32 = 0x811c_9dc5;
const FNV_32_PRIME: u32 = 0x0100_0193;

/// Hashes the spec of a definition, in its wire form; 16 hexadecimal digits.
pub(crate) fn hash_spec(spec: &Value) -> String {
    format!("{:016x}", fnv_64a(normalised(spec).as_bytes()))
}

fn fnv_64a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(FNV_64_OFFSET, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(FNV_64_PRIME)
    })
}

/// Hashes a name for the case that it has to be cut.
pub(crate) fn fnv_32a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(FNV_32_OFFSET, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(FNV_32_PRIME)
    })
}

/// Which numbers a value is written with.
#[derive(Clone, Copy)]
enum Numbers {
    /// As float64: the payload went through an untyped decoder.
    Floats,
    /// As they stand: the payload was passed on.
    AsStored,
}

/// Writes Go structs: fields in the order of the calls, empty ones left out.
struct Writer {
    json: String,
}

fn normalised(spec: &Value) -> String {
    let mut writer = Writer {
        json: String::from("{"),
    };
    if let Some(schema) = spec.get("schema").filter(|schema| !schema.is_null()) {
        writer.key("schema");
        write_schema(&mut writer, schema);
    }
    let mut resources: Vec<&Value> = list(spec, "resources").iter().collect();
    resources.sort_by_key(|resource| text(resource, "id"));
    writer.list("resources", &resources, |writer, resource| {
        write_resource(writer, resource);
    });
    writer.json.push('}');
    writer.json
}

fn write_schema(writer: &mut Writer, schema: &Value) {
    writer.json.push('{');
    writer.text("kind", text(schema, "kind"));
    writer.text("apiVersion", text(schema, "apiVersion"));
    writer.text("group", or(text(schema, "group"), "kro.run"));
    for part in ["spec", "types", "status"] {
        writer.payload(part, schema.get(part), Numbers::Floats);
    }
    writer.text("scope", or(text(schema, "scope"), "Namespaced"));
    let columns: Vec<&Value> = list(schema, "additionalPrinterColumns").iter().collect();
    writer.list("additionalPrinterColumns", &columns, |writer, column| {
        write_column(writer, column);
    });
    writer.texts("shortNames", &texts(schema, "shortNames"));
    writer.texts("categories", &texts(schema, "categories"));
    if let Some(metadata) = schema
        .get("metadata")
        .filter(|metadata| !metadata.is_null())
    {
        writer.key("metadata");
        writer.json.push('{');
        for part in ["labels", "annotations"] {
            if let Some(map) = metadata
                .get(part)
                .and_then(Value::as_object)
                .filter(|map| !map.is_empty())
            {
                writer.key(part);
                write_map(&mut writer.json, map, Numbers::AsStored);
            }
        }
        writer.json.push('}');
    }
    writer.json.push('}');
}

fn write_column(writer: &mut Writer, column: &Value) {
    writer.json.push('{');
    writer.key("name");
    write_text(&mut writer.json, text(column, "name"));
    writer.key("type");
    write_text(&mut writer.json, text(column, "type"));
    writer.text("format", text(column, "format"));
    writer.text("description", text(column, "description"));
    if let Some(priority) = column
        .get("priority")
        .and_then(Value::as_i64)
        .filter(|priority| *priority != 0)
    {
        writer.key("priority");
        write_display(&mut writer.json, priority);
    }
    writer.key("jsonPath");
    write_text(&mut writer.json, text(column, "jsonPath"));
    writer.json.push('}');
}

fn write_resource(writer: &mut Writer, resource: &Value) {
    writer.json.push('{');
    writer.text("id", text(resource, "id"));
    writer.payload("template", resource.get("template"), Numbers::Floats);
    if let Some(reference) = resource
        .get("externalRef")
        .filter(|reference| !reference.is_null())
    {
        writer.key("externalRef");
        write_reference(writer, reference);
    }
    for part in ["readyWhen", "includeWhen"] {
        let mut conditions = texts(resource, part);
        conditions.sort_unstable();
        writer.texts(part, &conditions);
    }
    let dimensions: Vec<&Value> = list(resource, "forEach").iter().collect();
    writer.list("forEach", &dimensions, |writer, dimension| {
        write_value(&mut writer.json, dimension, Numbers::AsStored);
    });
    writer.json.push('}');
}

fn write_reference(writer: &mut Writer, reference: &Value) {
    writer.json.push('{');
    writer.key("apiVersion");
    write_text(&mut writer.json, text(reference, "apiVersion"));
    writer.key("kind");
    write_text(&mut writer.json, text(reference, "kind"));
    writer.key("metadata");
    writer.json.push('{');
    let metadata = reference.get("metadata").unwrap_or(&Value::Null);
    writer.text("name", text(metadata, "name"));
    writer.text("namespace", text(metadata, "namespace"));
    writer.payload("selector", metadata.get("selector"), Numbers::AsStored);
    writer.json.push_str("}}");
}

// === impl Writer ===

impl Writer {
    fn key(&mut self, name: &str) {
        if !self.json.ends_with('{') {
            self.json.push(',');
        }
        write_text(&mut self.json, name);
        self.json.push(':');
    }

    fn text(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.key(name);
            write_text(&mut self.json, value);
        }
    }

    fn texts(&mut self, name: &str, values: &[&str]) {
        self.list(name, values, |writer, value| {
            write_text(&mut writer.json, value);
        });
    }

    fn list<T>(&mut self, name: &str, items: &[T], write: impl Fn(&mut Self, &T)) {
        if items.is_empty() {
            return;
        }
        self.key(name);
        for (index, item) in items.iter().enumerate() {
            self.json.push(if index == 0 { '[' } else { ',' });
            write(self, item);
        }
        self.json.push(']');
    }

    /// Writes a free-form part; it is never left out, an absent one is null.
    fn payload(&mut self, name: &str, value: Option<&Value>, numbers: Numbers) {
        self.key(name);
        write_value(&mut self.json, value.unwrap_or(&Value::Null), numbers);
    }
}

fn or<'a>(value: &'a str, default: &'a str) -> &'a str {
    if value.is_empty() { default } else { value }
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value
        .get(name)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

fn texts<'a>(value: &'a Value, name: &str) -> Vec<&'a str> {
    list(value, name).iter().filter_map(Value::as_str).collect()
}

fn write_value(out: &mut String, value: &Value, numbers: Numbers) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => write_display(out, value),
        Value::Number(number) => match (numbers, number.as_f64()) {
            (Numbers::Floats, Some(float)) => write_float(out, float),
            _ => write_display(out, number),
        },
        Value::String(value) => write_text(out, value),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_value(out, item, numbers);
            }
            out.push(']');
        }
        Value::Object(map) => write_map(out, map, numbers),
    }
}

fn write_map(out: &mut String, map: &Map<String, Value>, numbers: Numbers) {
    out.push('{');
    for (index, (key, value)) in map.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_text(out, key);
        out.push(':');
        write_value(out, value, numbers);
    }
    out.push('}');
}

/// Writes a float64 as Go's encoder does: the shortest digits, with an exponent below 1e-6 and from 1e21 on.
fn write_float(out: &mut String, value: f64) {
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        let text = format!("{value:e}");
        match text.split_once('e') {
            Some((digits, exponent)) if !exponent.starts_with('-') => {
                write_display(out, format_args!("{digits}e+{exponent}"));
            }
            _ => out.push_str(&text),
        }
    } else {
        write_display(out, value);
    }
}

/// Writes a text as Go's encoder does: what HTML would read as markup is escaped.
fn write_text(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                write_display(out, format_args!("\\u{:04x}", u32::from(character)));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

fn write_display(out: &mut String, value: impl std::fmt::Display) {
    write!(out, "{value}").expect("writing to a string cannot fail");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The hashes were made by kro 0.9.4 itself.
    #[test]
    fn hashes_are_kros() {
        let cases = [
            ("nothing", json!({}), "08f44b07b5901a25"),
            (
                "as little as possible",
                json!({"schema": {"kind": "A", "apiVersion": "v1"}}),
                "1ff731e1b952d5ce",
            ),
            (
                "empty lists are absent lists",
                json!({
                    "schema": {
                        "kind": "A", "apiVersion": "v1", "group": "kro.run", "scope": "Namespaced", "spec": {},
                        "additionalPrinterColumns": [], "shortNames": [],
                        "metadata": {"labels": {}, "annotations": {"a": "b"}},
                    },
                    "resources": [{"id": "a", "template": {}, "readyWhen": [], "includeWhen": [], "forEach": []}],
                }),
                "48a1ce99481ed5c4",
            ),
            ("everything", everything(), "cd461c7a8f10dbdc"),
        ];
        for (name, spec, want) in cases {
            assert_eq!(hash_spec(&spec), want, "{name}: {}", normalised(&spec));
        }
    }

    #[test]
    fn a_spec_that_was_read_hashes_as_it_was_written() {
        let spec: api::kro::RgdSpec = serde_json::from_value(everything()).expect("is a spec");
        assert_eq!(crate::spec_hash(&spec), "cd461c7a8f10dbdc");
    }

    #[test]
    fn order_that_means_nothing_changes_nothing() {
        let mut other = everything();
        other["resources"].as_array_mut().expect("a list").reverse();
        other["resources"][2]["readyWhen"] = json!(["${a}", "${z}"]);
        assert_eq!(hash_spec(&other), hash_spec(&everything()));
        other["resources"][2]["forEach"] = json!([{"x": "${b}"}, {"y": "${a}"}]);
        assert_ne!(hash_spec(&other), hash_spec(&everything()));
    }

    fn everything() -> Value {
        json!({
            "schema": {
                "kind": "Web", "apiVersion": "v1alpha1", "group": "x.example.com", "scope": "Cluster",
                "spec": {"b": "string", "a": {
                    "z": "integer | default=3", "n": 1.0, "big": 9_007_199_254_740_993_i64, "e": 1e21, "s": 1e-7,
                    "html": "<a & b>", "u": "\u{2028} grün \u{1}\u{8}\u{c}\u{7f} \"q\" \\",
                }},
                "types": {"T": "string"},
                "status": {"x": "${web.status.x}"},
                "shortNames": ["w"], "categories": ["all"],
                "metadata": {"labels": {"b": "1", "a": "2"}},
                "additionalPrinterColumns": [
                    {"name": "X", "type": "string", "jsonPath": ".spec.x", "priority": 1, "description": "d"},
                ],
            },
            "resources": [
                {
                    "id": "web",
                    "template": {"kind": "B", "apiVersion": "v1", "metadata": {"name": "${schema.spec.a}"}},
                    "readyWhen": ["${z}", "${a}"], "includeWhen": ["${2}", "${1}"],
                    "forEach": [{"y": "${a}"}, {"x": "${b}"}],
                },
                {"id": "byName", "externalRef": {
                    "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "n", "namespace": "ns"},
                }},
                {"id": "bySelector", "externalRef": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"selector": {
                    "matchExpressions": [{"key": "k", "operator": "Exists"}], "matchLabels": {"a": "1", "b": "<"},
                }}}},
            ],
        })
    }
}
