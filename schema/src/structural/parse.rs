//! Reads an OpenAPI v3 schema into the node type.
//!
//! Lenient where Kubernetes is (unknown keywords are ignored), strict on types, so that what parsed has a meaning.
//! That the schema is *structural* is checked by [`crate::definition`], not here.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::{
    Additional, Below, Bound, Constraints, ListType, MapType, PatchStrategy, Pattern, Rule, Rules,
    Schema, ValueType,
};

/// Why a schema could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {detail}")]
pub struct SchemaError {
    /// Where in the schema, as `properties.spec.items`.
    pub path: String,
    /// What is wrong there.
    pub detail: String,
}

/// Finds the schemas that `$ref` names. Custom resources have none.
pub(crate) trait References {
    /// The schema of this name, which has no cycle.
    fn resolve(&self, reference: &str) -> Option<Arc<Schema>>;

    /// Where equal nodes are kept, so that they are one; `None` where sharing is not worth it.
    fn shared(&self) -> Option<&dyn SharedNodes>;
}

/// Nodes by their text.
pub(crate) trait SharedNodes {
    /// The node that was kept for this text.
    fn get(&self, text: &str) -> Option<Arc<Schema>>;

    /// Keeps the first node for a text, and returns it.
    fn keep(&self, text: String, schema: Arc<Schema>) -> Arc<Schema>;
}

/// References of custom resources: none.
#[derive(Debug)]
struct NoReferences;

struct Parser<'a> {
    references: &'a dyn References,
    path: Vec<String>,
}

type Keywords = Map<String, Value>;

/// Nodes with more keywords than this are rarely equal to another.
const SHARED_KEYWORDS_MAX: usize = 2;

// === impl Schema ===

impl Schema {
    /// Reads an `openAPIV3Schema`.
    ///
    /// # Errors
    /// A keyword has a value of the wrong type, or names something unknown; `$ref` is not supported.
    pub fn from_openapi(schema: &Value) -> Result<Arc<Self>, SchemaError> {
        parse_with(schema, &NoReferences)
    }
}

/// Reads a schema whose `$ref`s `references` resolves.
pub(crate) fn parse_with(
    schema: &Value,
    references: &dyn References,
) -> Result<Arc<Schema>, SchemaError> {
    Parser {
        references,
        path: Vec::new(),
    }
    .child(schema)
}

// === impl NoReferences ===

impl References for NoReferences {
    fn resolve(&self, _reference: &str) -> Option<Arc<Schema>> {
        None
    }

    fn shared(&self) -> Option<&dyn SharedNodes> {
        None
    }
}

// === impl Parser ===

impl Parser<'_> {
    /// A node, which may be one that was read before: built-in kinds repeat themselves.
    fn child(&mut self, value: &Value) -> Result<Arc<Schema>, SchemaError> {
        let keywords_count = value.as_object().map_or(0, Map::len);
        let reference = value.get("$ref").and_then(Value::as_str);
        if let (Some(name), 1) = (reference, keywords_count)
            && let Some(schema) = self.references.resolve(name)
        {
            return Ok(schema);
        }
        let worth_it = reference.is_some() || keywords_count <= SHARED_KEYWORDS_MAX;
        let Some(shared) = self.references.shared().filter(|_| worth_it) else {
            return self.node(value).map(Arc::new);
        };
        let text = value.to_string();
        if let Some(schema) = shared.get(&text) {
            return Ok(schema);
        }
        let schema = Arc::new(self.node(value)?);
        Ok(shared.keep(text, schema))
    }

    fn node(&mut self, value: &Value) -> Result<Schema, SchemaError> {
        let Some(keywords) = value.as_object() else {
            return Err(self.wrong("must be an object"));
        };
        let mut schema = self.referenced(keywords)?;
        self.types(keywords, &mut schema)?;
        self.children(keywords, &mut schema)?;
        self.extensions(keywords, &mut schema)?;
        if let Some(constraints) = self.constraints(keywords)? {
            schema.constraints = Some(Box::new(constraints));
        }
        schema.below = below(&schema);
        Ok(schema)
    }

    /// The referenced node, of which the keywords beside `$ref` override some.
    fn referenced(&self, keywords: &Keywords) -> Result<Schema, SchemaError> {
        let Some(reference) = keywords.get("$ref") else {
            return Ok(Schema::default());
        };
        let name = reference.as_str().unwrap_or_default();
        match self.references.resolve(name) {
            Some(schema) => Ok(Schema::clone(&schema)),
            None => Err(self.wrong(&format!("$ref {name:?} cannot be resolved"))),
        }
    }

    fn types(&self, keywords: &Keywords, schema: &mut Schema) -> Result<(), SchemaError> {
        if let Some(name) = self.text(keywords, "type")?.filter(|name| !name.is_empty()) {
            let value_type = ValueType::from_name(name)
                .ok_or_else(|| self.wrong(&format!("type {name:?} is not known")))?;
            schema.value_type = Some(value_type);
        }
        if let Some(format) = self
            .text(keywords, "format")?
            .filter(|format| !format.is_empty())
        {
            schema.format = Some(format.into());
        }
        if let Some(nullable) = self.flag(keywords, "nullable")? {
            schema.nullable = nullable;
        }
        if let Some(default) = keywords.get("default").filter(|default| !default.is_null()) {
            schema.default = Some(default.clone());
        }
        if keywords.contains_key("required") {
            schema.required = self.texts(keywords, "required")?;
        }
        Ok(())
    }

    fn children(&mut self, keywords: &Keywords, schema: &mut Schema) -> Result<(), SchemaError> {
        if let Some(properties) = keywords.get("properties").filter(|it| !it.is_null()) {
            schema.properties = self.properties(properties)?;
        }
        match keywords.get("additionalProperties") {
            None | Some(Value::Null) => {}
            Some(Value::Bool(true)) => schema.additional = Additional::Any,
            Some(Value::Bool(false)) => schema.additional = Additional::None,
            Some(element) => {
                let element = self.at("additionalProperties", |parser| parser.child(element))?;
                schema.additional = Additional::Schema(element);
            }
        }
        if let Some(items) = keywords.get("items").filter(|it| !it.is_null()) {
            schema.items = Some(self.at("items", |parser| parser.child(items))?);
        }
        Ok(())
    }

    fn properties(&mut self, value: &Value) -> Result<BTreeMap<String, Arc<Schema>>, SchemaError> {
        let Some(properties) = value.as_object() else {
            return Err(self.wrong("properties must be an object"));
        };
        let mut parsed = BTreeMap::new();
        for (name, property) in properties {
            let node = self.at(&format!("properties[{name}]"), |parser| {
                parser.child(property)
            })?;
            parsed.insert(name.clone(), node);
        }
        Ok(parsed)
    }

    fn extensions(&self, keywords: &Keywords, schema: &mut Schema) -> Result<(), SchemaError> {
        let flag = |name| self.flag(keywords, name);
        if let Some(it) = flag("x-kubernetes-int-or-string")? {
            schema.int_or_string = it;
        }
        if let Some(it) = flag("x-kubernetes-preserve-unknown-fields")? {
            schema.preserve_unknown_fields = it;
        }
        if let Some(it) = flag("x-kubernetes-embedded-resource")? {
            schema.embedded_resource = it;
        }
        if let Some(name) = self.text(keywords, "x-kubernetes-list-type")? {
            schema.list_type = Some(
                ListType::from_name(name)
                    .ok_or_else(|| self.wrong(&format!("list type {name:?} is not known")))?,
            );
        }
        if let Some(name) = self.text(keywords, "x-kubernetes-map-type")? {
            schema.map_type = Some(
                MapType::from_name(name)
                    .ok_or_else(|| self.wrong(&format!("map type {name:?} is not known")))?,
            );
        }
        if keywords.contains_key("x-kubernetes-list-map-keys") {
            schema.list_map_keys = self.texts(keywords, "x-kubernetes-list-map-keys")?;
        }
        if let Some(strategy) = self.text(keywords, "x-kubernetes-patch-strategy")? {
            schema.patch_strategy = PatchStrategy::from_text(strategy);
        }
        if let Some(key) = self.text(keywords, "x-kubernetes-patch-merge-key")? {
            schema.patch_merge_key = Some(key.into());
        }
        if let Some(rules) = keywords
            .get("x-kubernetes-validations")
            .filter(|it| !it.is_null())
        {
            schema.validations = Rules::new(self.rules(rules)?);
        }
        Ok(())
    }

    fn rules(&self, value: &Value) -> Result<Vec<Rule>, SchemaError> {
        let Some(entries) = value.as_array() else {
            return Err(self.wrong("x-kubernetes-validations must be a list"));
        };
        entries.iter().map(|entry| self.rule(entry)).collect()
    }

    fn rule(&self, value: &Value) -> Result<Rule, SchemaError> {
        let Some(entry) = value.as_object() else {
            return Err(self.wrong("an entry of x-kubernetes-validations must be an object"));
        };
        let text = |name| Ok(self.text(entry, name)?.map(str::to_owned));
        let filled = |name| Ok(text(name)?.filter(|it: &String| !it.is_empty()));
        Ok(Rule {
            rule: text("rule")?.unwrap_or_default(),
            message: filled("message")?,
            message_expression: filled("messageExpression")?,
            reason: text("reason")?,
            field_path: filled("fieldPath")?,
            optional_old_self: self.flag(entry, "optionalOldSelf")?,
        })
    }

    fn constraints(&mut self, keywords: &Keywords) -> Result<Option<Constraints>, SchemaError> {
        const KEYWORDS: [&str; 16] = [
            "enum",
            "minimum",
            "maximum",
            "multipleOf",
            "pattern",
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "minProperties",
            "maxProperties",
            "allOf",
            "anyOf",
            "oneOf",
            "not",
            "exclusiveMinimum",
        ];
        if !KEYWORDS
            .iter()
            .any(|name| keywords.get(*name).is_some_and(|it| !it.is_null()))
        {
            return Ok(None);
        }
        Ok(Some(Constraints {
            enumeration: self.values(keywords, "enum")?,
            minimum: self.bound(keywords, "minimum", "exclusiveMinimum")?,
            maximum: self.bound(keywords, "maximum", "exclusiveMaximum")?,
            multiple_of: self.float(keywords, "multipleOf")?,
            pattern: self
                .text(keywords, "pattern")?
                .filter(|it| !it.is_empty())
                .map(Pattern::new),
            min_length: self.count(keywords, "minLength")?,
            max_length: self.count(keywords, "maxLength")?,
            min_items: self.count(keywords, "minItems")?,
            max_items: self.count(keywords, "maxItems")?,
            min_properties: self.count(keywords, "minProperties")?,
            max_properties: self.count(keywords, "maxProperties")?,
            all_of: self.nodes(keywords, "allOf")?,
            any_of: self.nodes(keywords, "anyOf")?,
            one_of: self.nodes(keywords, "oneOf")?,
            not: match keywords.get("not").filter(|it| !it.is_null()) {
                Some(not) => Some(self.at("not", |parser| parser.child(not))?),
                None => None,
            },
        }))
    }

    fn nodes(&mut self, keywords: &Keywords, name: &str) -> Result<Vec<Arc<Schema>>, SchemaError> {
        let mut nodes = Vec::new();
        for (index, node) in self.list(keywords, name)?.iter().enumerate() {
            nodes.push(self.at(&format!("{name}[{index}]"), |parser| parser.child(node))?);
        }
        Ok(nodes)
    }

    fn bound(
        &self,
        keywords: &Keywords,
        name: &str,
        exclusive: &str,
    ) -> Result<Option<Bound>, SchemaError> {
        let exclusive = self.flag(keywords, exclusive)?.unwrap_or(false);
        Ok(self
            .float(keywords, name)?
            .map(|value| Bound { value, exclusive }))
    }

    // --- keywords by type ---

    fn text<'v>(&self, keywords: &'v Keywords, name: &str) -> Result<Option<&'v str>, SchemaError> {
        match keywords.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(&format!("{name} must be a string"))),
        }
    }

    fn flag(&self, keywords: &Keywords, name: &str) -> Result<Option<bool>, SchemaError> {
        match keywords.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(_) => Err(self.wrong(&format!("{name} must be a boolean"))),
        }
    }

    fn float(&self, keywords: &Keywords, name: &str) -> Result<Option<f64>, SchemaError> {
        match keywords.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Number(number)) => Ok(number.as_f64()),
            Some(_) => Err(self.wrong(&format!("{name} must be a number"))),
        }
    }

    fn count(&self, keywords: &Keywords, name: &str) -> Result<Option<i64>, SchemaError> {
        match keywords.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match integer(value) {
                Some(count) => Ok(Some(count)),
                None => Err(self.wrong(&format!("{name} must be an integer"))),
            },
        }
    }

    fn list<'v>(&self, keywords: &'v Keywords, name: &str) -> Result<&'v [Value], SchemaError> {
        match keywords.get(name) {
            None | Some(Value::Null) => Ok(&[]),
            Some(Value::Array(items)) => Ok(items),
            Some(_) => Err(self.wrong(&format!("{name} must be a list"))),
        }
    }

    fn values(&self, keywords: &Keywords, name: &str) -> Result<Vec<Value>, SchemaError> {
        Ok(self.list(keywords, name)?.to_vec())
    }

    fn texts(&self, keywords: &Keywords, name: &str) -> Result<Vec<String>, SchemaError> {
        let texts = self
            .list(keywords, name)?
            .iter()
            .map(|it| it.as_str().map(str::to_owned));
        texts
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| self.wrong(&format!("{name} must be a list of strings")))
    }

    fn at<T>(
        &mut self,
        segment: &str,
        inner: impl FnOnce(&mut Self) -> Result<T, SchemaError>,
    ) -> Result<T, SchemaError> {
        self.path.push(segment.to_owned());
        let result = inner(self);
        self.path.pop();
        result
    }

    fn wrong(&self, detail: &str) -> SchemaError {
        SchemaError {
            path: self.path.join("."),
            detail: detail.to_owned(),
        }
    }
}

/// A JSON integer, which may be written with an empty fraction.
fn integer(value: &Value) -> Option<i64> {
    /// Up to here every integer is a float too.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    if let Some(integer) = value.as_i64() {
        return Some(integer);
    }
    let float = value.as_f64()?;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "integral and within the exact range"
    )]
    (float.fract().abs() == 0.0 && float.abs() <= EXACT_MAX).then_some(float as i64)
}

/// What the node and its structural children hold. Combinators cannot hold any of it.
fn below(schema: &Schema) -> Below {
    let children = schema
        .properties
        .values()
        .chain(schema.additional.schema())
        .chain(&schema.items);
    let mut below = Below {
        defaults: schema.default.is_some(),
        rules: !schema.validations.is_empty(),
        associative_lists: matches!(schema.list_type, Some(ListType::Set | ListType::Map)),
        embedded_resources: schema.embedded_resource,
    };
    for child in children {
        below.defaults |= child.below.defaults;
        below.rules |= child.below.rules;
        below.associative_lists |= child.below.associative_lists;
        below.embedded_resources |= child.below.embedded_resources;
    }
    below
}

// === impl ListType ===

impl ListType {
    /// The list type of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "atomic" => Some(Self::Atomic),
            "set" => Some(Self::Set),
            "map" => Some(Self::Map),
            _ => None,
        }
    }
}

// === impl MapType ===

impl MapType {
    /// The map type of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "granular" => Some(Self::Granular),
            "atomic" => Some(Self::Atomic),
            _ => None,
        }
    }
}

// === impl PatchStrategy ===

impl PatchStrategy {
    /// Reads the comma-separated strategies; unknown ones mean nothing.
    pub fn from_text(text: &str) -> Self {
        let has = |name| text.split(',').any(|strategy| strategy == name);
        Self {
            merge: has("merge"),
            replace: has("replace"),
            retain_keys: has("retainKeys"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keywords_of_the_wrong_type_are_refused_with_their_path() {
        let cases = [
            ("not an object", json!([]), ": must be an object"),
            ("type", json!({"type": 1}), ": type must be a string"),
            (
                "unknown type",
                json!({"type": "null"}),
                ": type \"null\" is not known",
            ),
            (
                "nested",
                json!({"properties": {"a": {"items": {"maxItems": "x"}}}}),
                "properties[a].items: maxItems must be an integer",
            ),
            (
                "reference",
                json!({"$ref": "#/x"}),
                ": $ref \"#/x\" cannot be resolved",
            ),
            (
                "rules",
                json!({"x-kubernetes-validations": [1]}),
                ": an entry of x-kubernetes-validations must be an object",
            ),
        ];
        for (name, schema, want) in cases {
            assert_eq!(
                Schema::from_openapi(&schema).unwrap_err().to_string(),
                want,
                "{name}"
            );
        }
    }

    #[test]
    fn what_is_below_is_known_at_the_root() {
        let schema = Schema::from_openapi(&json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "a": {"type": "string", "default": "x"},
                "b": {"type": "array", "items": {"type": "string"}},
            }},
        }}))
        .unwrap();
        assert_eq!(
            schema.below,
            Below {
                defaults: true,
                rules: false,
                associative_lists: false,
                embedded_resources: false
            }
        );
        assert!(!schema.properties["spec"].properties["b"].below.defaults);
    }
}
