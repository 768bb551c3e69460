//! FieldsV1, the JSON form of a set of fields.
//!
//! Invariants: what was decoded encodes to the same JSON, except for prefixes that this version does not know (they
//! are dropped) and elements written in two spellings (they become one).
//!
//! Source: `structured-merge-diff/fieldpath/serialize.go`; api-compat 3.1.

use dialect::json;
use serde_json::{Map, Value};

use super::element::{ElementError, PathElement};
use super::set::{FieldSet, Node};

/// The key that says that a node with children is itself a member.
const SELF: &str = ".";

/// Why a value is not FieldsV1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldsError {
    /// A node is not an object.
    #[error("expected a map of fields")]
    NotAnObject,
    /// A key is not a path element.
    #[error("parsing key as path element")]
    Element(#[from] ElementError),
}

impl FieldSet {
    /// Reads FieldsV1.
    ///
    /// # Errors
    ///
    /// Refuses nodes that are not objects, and keys of known prefix and malformed content.
    pub fn decode(fields: &Value) -> Result<Self, FieldsError> {
        decode_node(fields).map(|(children, _member)| children)
    }

    /// Writes FieldsV1.
    pub fn encode(&self) -> Value {
        Value::Object(self.encode_fields(Map::new()))
    }

    /// Writes FieldsV1 as text in the order of Kubernetes: the node itself, then fields, keys, values, indices.
    /// A [`Value`] keeps its keys in byte order, which differs for values and indices only.
    pub fn to_json(&self) -> String {
        let mut out = String::from("{");
        self.push_json(&mut out);
        out.push('}');
        out
    }

    fn encode_fields(&self, mut fields: Map<String, Value>) -> Map<String, Value> {
        for node in self.nodes() {
            let mut content = Map::new();
            if node.member && !node.children.is_empty() {
                content.insert(SELF.to_owned(), Value::Object(Map::new()));
            }
            let content = node.children.encode_fields(content);
            fields.insert(node.element.encode(), Value::Object(content));
        }
        fields
    }

    fn push_json(&self, out: &mut String) {
        for (index, node) in self.nodes().iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            json::push_string(out, &node.element.encode());
            out.push_str(":{");
            if node.member && !node.children.is_empty() {
                out.push_str("\".\":{},");
            }
            node.children.push_json(out);
            out.push('}');
        }
    }
}

/// Decodes what lies below a node, and whether the node itself is a member: if it says so, or holds nothing known.
fn decode_node(value: &Value) -> Result<(FieldSet, bool), FieldsError> {
    let fields = match value {
        Value::Null => return Ok((FieldSet::new(), true)),
        Value::Object(fields) => fields,
        _ => return Err(FieldsError::NotAnObject),
    };
    let mut nodes = Vec::with_capacity(fields.len());
    let mut itself = false;
    for (key, content) in fields {
        if key == SELF {
            itself = true;
            continue;
        }
        if let Some(element) = PathElement::parse(key)? {
            let (children, member) = decode_node(content)?;
            nodes.push(Node {
                element,
                member,
                children,
            });
        }
    }
    let children = FieldSet::from_nodes(nodes);
    let member = itself || children.is_empty();
    Ok((children, member))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_set_reads_and_writes_itself() {
        let fields = json!({
            "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
            "f:spec": {
                "f:finalizers": {"v:\"a\"": {}, "v:2": {}, "v:10": {}},
                "f:ports": {".": {}, "k:{\"port\":80}": {".": {}, "f:port": {}}},
                "i:3": {},
            },
        });
        let set = FieldSet::decode(&fields).expect("the fields are well formed");
        assert_eq!(set.encode(), fields);
        let reordered: Value = serde_json::from_str(&set.to_json()).expect("the text is JSON");
        assert_eq!(reordered, fields);
        // Numbers before texts, and by value.
        assert!(
            set.to_json()
                .contains(r#"{"v:2":{},"v:10":{},"v:\"a\"":{}}"#),
            "{}",
            set.to_json()
        );
    }

    #[test]
    fn what_is_unknown_is_dropped_and_what_is_malformed_refused() {
        let read = |fields: Value| FieldSet::decode(&fields).map(|set| set.encode());
        assert_eq!(
            read(json!({"f:a": {"x:b": {}}, "x:c": {}})),
            Ok(json!({"f:a": {}}))
        );
        assert_eq!(read(json!({"f:a": null})), Ok(json!({"f:a": {}})));
        assert_eq!(read(json!({"f:a": {".": {}}})), Ok(json!({"f:a": {}})));
        assert_eq!(
            read(json!({"v:1": {}, "v:1.0": {}})),
            Ok(json!({"v:1": {}}))
        );
        for malformed in [
            json!({"f:a": "b"}),
            json!([]),
            json!({"a": {}}),
            json!({"k:1": {}}),
        ] {
            assert!(read(malformed.clone()).is_err(), "{malformed}");
        }
    }
}
