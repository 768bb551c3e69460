//! An OpenAPI v2 document as the protobuf message that client-go asks for.
//!
//! Only what our documents hold is written. Extensions, defaults and enums go as YAML texts, which JSON is.
//!
//! Source: `google/gnostic-models/openapiv2/OpenAPIv2.proto`; the numbers below are its field numbers.

use serde_json::Value;

/// A message that is being written.
#[derive(Default)]
struct Message(Vec<u8>);

/// Writes a document.
pub(super) fn encode(document: &Value) -> Vec<u8> {
    let mut message = Message::default();
    message.text(1, document.get("swagger"));
    if let Some(info) = document.get("info") {
        let mut inner = Message::default();
        inner.text(1, info.get("title"));
        inner.text(2, info.get("version"));
        message.message(2, inner);
    }
    let mut paths = Message::default();
    for (path, item) in members(document.get("paths")) {
        paths.named(2, path, path_item(item));
    }
    message.message(8, paths);
    let mut definitions = Message::default();
    for (name, definition) in members(document.get("definitions")) {
        definitions.named(1, name, schema(definition));
    }
    message.message(9, definitions);
    message.0
}

fn path_item(item: &Value) -> Message {
    let mut message = Message::default();
    for (field, method) in [
        (2, "get"),
        (3, "put"),
        (4, "post"),
        (5, "delete"),
        (6, "options"),
        (7, "head"),
        (8, "patch"),
    ] {
        if let Some(found) = item.get(method) {
            message.message(field, operation(found));
        }
    }
    for found in elements(item.get("parameters")) {
        message.message(9, parameter(found));
    }
    message
}

fn operation(operation: &Value) -> Message {
    let mut message = Message::default();
    message.text(5, operation.get("operationId"));
    message.texts(6, operation.get("produces"));
    message.texts(7, operation.get("consumes"));
    for found in elements(operation.get("parameters")) {
        message.message(8, parameter(found));
    }
    let mut responses = Message::default();
    for (code, response) in members(operation.get("responses")) {
        let mut inner = Message::default();
        inner.text(1, response.get("description"));
        if let Some(found) = response.get("schema") {
            inner.message(2, schema(found).wrapped(1));
        }
        responses.named(1, code, inner.wrapped(1));
    }
    message.message(9, responses);
    message.extensions(13, operation);
    message
}

/// `ParametersItem { Parameter { body | NonBody { query | path } } }`
fn parameter(parameter: &Value) -> Message {
    let mut message = Message::default();
    let place = parameter
        .get("in")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if place == "body" {
        message.text(1, parameter.get("description"));
        message.text(2, parameter.get("name"));
        message.text(3, parameter.get("in"));
        message.flag(4, parameter.get("required"));
        if let Some(found) = parameter.get("schema") {
            message.message(5, schema(found));
        }
        return message.wrapped(1).wrapped(1);
    }
    message.flag(1, parameter.get("required"));
    message.text(2, parameter.get("in"));
    message.text(3, parameter.get("description"));
    message.text(4, parameter.get("name"));
    let (kind, type_field, unique_field) = if place == "path" {
        (4, 5, 19)
    } else {
        (3, 6, 20)
    };
    message.text(type_field, parameter.get("type"));
    message.flag(unique_field, parameter.get("uniqueItems"));
    message.wrapped(kind).wrapped(2).wrapped(1)
}

fn schema(schema: &Value) -> Message {
    let mut message = Message::default();
    message.text(1, schema.get("$ref"));
    message.text(2, schema.get("format"));
    message.text(3, schema.get("title"));
    message.text(4, schema.get("description"));
    message.number(6, schema.get("multipleOf"));
    message.number(7, schema.get("maximum"));
    message.flag(8, schema.get("exclusiveMaximum"));
    message.number(9, schema.get("minimum"));
    message.flag(10, schema.get("exclusiveMinimum"));
    message.integer(11, schema.get("maxLength"));
    message.integer(12, schema.get("minLength"));
    message.text(13, schema.get("pattern"));
    message.integer(14, schema.get("maxItems"));
    message.integer(15, schema.get("minItems"));
    message.flag(16, schema.get("uniqueItems"));
    message.integer(17, schema.get("maxProperties"));
    message.integer(18, schema.get("minProperties"));
    message.texts(19, schema.get("required"));
    for value in elements(schema.get("enum")) {
        message.message(20, any(value));
    }
    match schema.get("additionalProperties") {
        Some(allowed @ Value::Bool(_)) => {
            let mut inner = Message::default();
            inner.flag(2, Some(allowed));
            message.message(21, inner);
        }
        Some(found) => message.message(21, self::schema(found).wrapped(1)),
        None => {}
    }
    if let Some(found) = schema.get("type") {
        let mut inner = Message::default();
        inner.text(1, Some(found));
        message.message(22, inner);
    }
    if let Some(found) = schema.get("items") {
        message.message(23, self::schema(found).wrapped(1));
    }
    let mut properties = Message::default();
    for (name, property) in members(schema.get("properties")) {
        properties.named(1, name, self::schema(property));
    }
    if !properties.0.is_empty() {
        message.message(25, properties);
    }
    message.extensions(31, schema);
    message
}

/// A value as YAML.
fn any(value: &Value) -> Message {
    let mut message = Message::default();
    message.bytes(2, value.to_string().as_bytes());
    message
}

fn members(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_object).into_iter().flatten()
}

fn elements(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

// === impl Message ===

impl Message {
    const VARINT: u64 = 0;
    const FIXED_64: u64 = 1;
    const BYTES: u64 = 2;

    /// This message as the field of another one.
    fn wrapped(self, field: u64) -> Self {
        let mut outer = Self::default();
        outer.message(field, self);
        outer
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "a part is made where it is put in"
    )]
    fn message(&mut self, field: u64, inner: Self) {
        self.bytes(field, &inner.0);
    }

    /// `{ name = 1, value = 2 }`
    fn named(&mut self, field: u64, name: &str, value: Self) {
        let mut inner = Self::default();
        inner.bytes(1, name.as_bytes());
        inner.message(2, value);
        self.message(field, inner);
    }

    fn extensions(&mut self, field: u64, of: &Value) {
        for (name, value) in members(Some(of)) {
            if name.starts_with("x-") {
                self.named(field, name, any(value));
            }
        }
    }

    fn text(&mut self, field: u64, value: Option<&Value>) {
        if let Some(text) = value.and_then(Value::as_str)
            && !text.is_empty()
        {
            self.bytes(field, text.as_bytes());
        }
    }

    fn texts(&mut self, field: u64, value: Option<&Value>) {
        for text in elements(value).filter_map(Value::as_str) {
            self.bytes(field, text.as_bytes());
        }
    }

    fn flag(&mut self, field: u64, value: Option<&Value>) {
        if value.and_then(Value::as_bool) == Some(true) {
            self.varint(field << 3 | Self::VARINT);
            self.varint(1);
        }
    }

    fn integer(&mut self, field: u64, value: Option<&Value>) {
        if let Some(number) = value.and_then(Value::as_u64)
            && number != 0
        {
            self.varint(field << 3 | Self::VARINT);
            self.varint(number);
        }
    }

    fn number(&mut self, field: u64, value: Option<&Value>) {
        if let Some(number) = value.and_then(Value::as_f64)
            && number.to_bits() != 0
        {
            self.varint(field << 3 | Self::FIXED_64);
            self.0.extend(number.to_le_bytes());
        }
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | Self::BYTES);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn varint(&mut self, mut value: u64) {
        loop {
            let [low, ..] = value.to_le_bytes();
            value >>= 7;
            if value == 0 {
                self.0.push(low);
                return;
            }
            self.0.push(low | 0x80);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_are_laid_out_as_protobuf() {
        let document = json!({
            "swagger": "2.0",
            "paths": {},
            "definitions": { "a.B": { "type": "object", "x-k": [1], "minimum": 1.5, "maxLength": 300 } },
        });
        let mut want = vec![0x0a, 3];
        want.extend(b"2.0");
        want.extend([0x42, 0]);
        let schema: &[&[u8]] = &[
            &[0x49, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f],
            &[0x58, 0xac, 0x02],
            &[0xb2, 0x01, 8, 0x0a, 6],
            b"object",
            &[0xfa, 0x01, 12, 0x0a, 3],
            b"x-k",
            &[0x12, 5, 0x12, 3],
            b"[1]",
        ];
        let schema = schema.concat();
        let length = u8::try_from(schema.len()).unwrap();
        want.extend([0x4a, length + 9, 0x0a, length + 7, 0x0a, 3]);
        want.extend(b"a.B");
        want.extend([0x12, length]);
        want.extend(schema);
        assert_eq!(encode(&document), want);
    }
}
