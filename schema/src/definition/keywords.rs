//! The keywords of a schema: which may be used, what they demand of each other, and whether rules compile.
//!
//! Rules of a node are compiled only where the schema is sound at that node and below it: otherwise their errors would
//! only repeat that it is not.
//!
//! Source: `validateCustomResourceDefinitionValidation` and `ValidateCustomResourceDefinitionOpenAPISchema` in
//! `apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go`.

use api::{FieldError, FieldPath};
use serde_json::{Map, Value};

use super::{defaults, structural};
use crate::structural::{META_FIELDS, Schema};
use crate::validate::multiplies;

use costs::Costs;
pub(super) use costs::EachExpression;

mod costs;
mod lists;
mod rules;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// Keywords at the root that survive when the status is judged apart, under the names that messages show.
const ROOT_KEYWORDS: [(&str, &str); 22] = [
    ("Description", "description"),
    ("Type", "type"),
    ("Format", "format"),
    ("Title", "title"),
    ("Maximum", "maximum"),
    ("ExclusiveMaximum", "exclusiveMaximum"),
    ("Minimum", "minimum"),
    ("ExclusiveMinimum", "exclusiveMinimum"),
    ("MaxLength", "maxLength"),
    ("MinLength", "minLength"),
    ("Pattern", "pattern"),
    ("MaxItems", "maxItems"),
    ("MinItems", "minItems"),
    ("UniqueItems", "uniqueItems"),
    ("MultipleOf", "multipleOf"),
    ("Required", "required"),
    ("Items", "items"),
    ("Properties", "properties"),
    ("ExternalDocs", "externalDocs"),
    ("Example", "example"),
    (
        "XPreserveUnknownFields",
        "x-kubernetes-preserve-unknown-fields",
    ),
    ("XValidations", "x-kubernetes-validations"),
];

/// Other keywords that Kubernetes knows. What it does not know it drops unseen.
const OTHER_KEYWORDS: [&str; 22] = [
    "id",
    "$schema",
    "$ref",
    "maxProperties",
    "minProperties",
    "enum",
    "allOf",
    "oneOf",
    "anyOf",
    "not",
    "additionalProperties",
    "patternProperties",
    "dependencies",
    "additionalItems",
    "definitions",
    "default",
    "nullable",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
];

/// Those of them that Kubernetes holds by a pointer, so that each value but null counts as one.
const POINTERS: [&str; 5] = [
    "additionalItems",
    "additionalProperties",
    "default",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
];

pub(super) type Keywords = Map<String, Value>;

/// What is wrong with a schema.
#[derive(Debug, Default)]
pub(super) struct SchemaErrors {
    pub(super) schema: Vec<FieldError>,
    pub(super) rules: Vec<FieldError>,
    costs: Costs,
}

/// What a node inherits from those above it.
#[derive(Clone)]
pub(super) struct Surroundings<'s> {
    /// Why there may be no defaults here.
    defaults_forbidden: Option<String>,
    inside_meta: bool,
    is_root: bool,
    /// The first node above of which old and new values cannot be matched.
    uncorrelatable: Option<FieldPath>,
    /// How often the node may be there; `None` without a bound.
    cardinality: Option<u64>,
    each_expression: EachExpression,
    /// The parsed node; absent inside of combinators, and where the schema is not structural.
    parsed: Option<&'s Schema>,
}

/// What is wrong with the schema of a version.
pub(super) fn validate(
    schema: &Value,
    has_status: bool,
    each_expression: EachExpression,
    path: &FieldPath,
) -> Vec<FieldError> {
    let Some(keywords) = schema.as_object() else {
        return vec![FieldError::invalid(
            path,
            schema.clone(),
            "must be an object",
        )];
    };
    let mut errors = Vec::new();
    if has_status {
        errors.extend(root_keywords(keywords, path));
    }
    if keywords.get("nullable") == Some(&Value::Bool(true)) {
        let detail = "nullable cannot be true at the root";
        errors.push(FieldError::forbidden(&path.child("nullable"), detail));
    }
    let parsed = Schema::from_openapi(schema);
    let mut is_sound = false;
    let unsupported = structural::unsupported(schema);
    if unsupported.is_none() {
        let shape = structural::validate(schema, path);
        if let (Ok(parsed), true) = (&parsed, shape.is_empty()) {
            let wrong = defaults::validate(parsed, path);
            is_sound = wrong.is_empty();
            errors.extend(wrong);
        }
        errors.extend(shape);
    }
    let surroundings = Surroundings {
        defaults_forbidden: None,
        inside_meta: false,
        is_root: true,
        uncorrelatable: None,
        cardinality: Some(1),
        each_expression,
        parsed: parsed.as_deref().ok().filter(|_| is_sound),
    };
    let found = node(keywords, &surroundings, path);
    errors.extend(found.schema);
    errors.extend(found.rules);
    errors.extend(found.costs.judge(path));
    // Said only where the keywords are not wrong in a way that says more.
    let unreadable = || parsed.as_ref().err().map(ToString::to_string);
    if let (Some(error), true) = (unsupported.or_else(unreadable), errors.is_empty()) {
        errors.push(FieldError::invalid(path, "", error));
    }
    errors
}

fn root_keywords(keywords: &Keywords, path: &FieldPath) -> Option<FieldError> {
    let value_type = text(keywords, "type");
    if !value_type.is_empty() && value_type != "object" {
        let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        return Some(FieldError::invalid(&path.child("type"), value_type, detail));
    }
    let is_foreign = |name: &&str| {
        let counts = |value: &Value| !is_zero(value) || POINTERS.contains(name) && !value.is_null();
        keywords.get(*name).is_some_and(counts)
    };
    OTHER_KEYWORDS.iter().find(|name| is_foreign(name))?;
    let names: Vec<&str> = ROOT_KEYWORDS.iter().map(|(name, _)| *name).collect();
    let names = names.join(" ");
    let detail = format!(
        "only [{names}] fields are allowed at the root of the schema if the status subresource is enabled"
    );
    Some(FieldError::invalid(
        path,
        Value::Object(keywords.clone()),
        detail,
    ))
}

/// Whether decoding a keyword yields the zero value of its type.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(_) | Value::Number(_) => false,
    }
}

pub(super) fn text<'v>(keywords: &'v Keywords, name: &str) -> &'v str {
    keywords
        .get(name)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

pub(super) fn object<'v>(keywords: &'v Keywords, name: &str) -> Option<&'v Keywords> {
    keywords.get(name).and_then(Value::as_object)
}

/// Judges a node and all below it.
fn node(keywords: &Keywords, around: &Surroundings<'_>, path: &FieldPath) -> SchemaErrors {
    let mut errors = SchemaErrors::default();
    errors.schema.extend(standard(keywords, around, path));
    children(keywords, around, path, &mut errors);
    combinators(keywords, around, path, &mut errors);
    errors.schema.extend(lists::validate(keywords, path));
    errors
        .schema
        .extend(rules::validate_form(keywords, around, path));
    if errors.schema.is_empty() {
        rules::validate_compiled(around, path, &mut errors);
    }
    errors
}

/// Keywords of OpenAPI that Kubernetes does not take.
fn standard(keywords: &Keywords, around: &Surroundings<'_>, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut forbid = |keyword: &str, detail: String| {
        errors.push(FieldError::forbidden(&path.child(keyword), detail));
    };
    if let (Some(reason), true) = (&around.defaults_forbidden, is_given(keywords, "default")) {
        forbid("default", format!("must not be set {reason}"));
    }
    for keyword in [
        "id",
        "additionalItems",
        "patternProperties",
        "definitions",
        "dependencies",
        "$ref",
    ] {
        // Anything at all is an additional item.
        let is_empty_map =
            keyword != "additionalItems" && object(keywords, keyword).is_some_and(Map::is_empty);
        if is_given(keywords, keyword) && !is_empty_map {
            forbid(keyword, format!("{keyword} is not supported"));
        }
    }
    if text(keywords, "type") == "null" {
        forbid(
            "type",
            "type cannot be set to null, use nullable as an alternative".to_owned(),
        );
    }
    let items = keywords.get("items").and_then(Value::as_array);
    if items.is_some_and(|items| !items.is_empty()) {
        forbid(
            "items",
            "items must be a schema object and not an array".to_owned(),
        );
    }
    if around.inside_meta && keywords.get("x-kubernetes-embedded-resource") == Some(&true.into()) {
        forbid(
            "x-kubernetes-embedded-resource",
            "must not be used inside of resource meta".to_owned(),
        );
    }
    if keywords.get("uniqueItems") == Some(&Value::Bool(true)) {
        let detail =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        forbid("uniqueItems", detail.to_owned());
    }
    let value_type = text(keywords, "type");
    if !value_type.is_empty() && !TYPES.contains(&value_type) {
        errors.push(FieldError::not_supported(
            &path.child("type"),
            value_type,
            TYPES,
        ));
    }
    let preserves = "x-kubernetes-preserve-unknown-fields";
    if keywords.get(preserves) == Some(&Value::Bool(false)) {
        let detail = "must be true or undefined";
        errors.push(FieldError::invalid(&path.child(preserves), false, detail));
    }
    errors
}

fn is_given(keywords: &Keywords, name: &str) -> bool {
    keywords.get(name).is_some_and(|value| !value.is_null())
}

fn children(
    keywords: &Keywords,
    around: &Surroundings<'_>,
    path: &FieldPath,
    errors: &mut SchemaErrors,
) {
    let properties = object(keywords, "properties").filter(|it| !it.is_empty());
    if let Some(additional) = keywords
        .get("additionalProperties")
        .filter(|it| !it.is_null())
    {
        let place = path.child("additionalProperties");
        if properties.is_some() && *additional != Value::Bool(true) {
            let detail = "additionalProperties and properties are mutual exclusive";
            errors.schema.push(FieldError::forbidden(&place, detail));
        }
        if let Some(element) = additional.as_object() {
            let mut below = around.below(|parsed| parsed.additional.schema().map(AsRef::as_ref));
            if around.inside_meta {
                let reason = "inside additionalProperties applying to object metadata";
                below.defaults_forbidden = Some(reason.to_owned());
            }
            errors.add(node(element, &below, &place));
        }
    }
    let is_resource =
        around.is_root || keywords.get("x-kubernetes-embedded-resource") == Some(&true.into());
    for (name, property) in properties.into_iter().flatten() {
        let Some(property) = property.as_object() else {
            continue;
        };
        let mut below = around.below(|parsed| parsed.properties.get(name).map(AsRef::as_ref));
        if is_resource && META_FIELDS.contains(&name.as_str()) {
            below.inside_meta = true;
            if around.is_root {
                below.defaults_forbidden = Some(format!("in top-level {name}"));
            }
        }
        errors.add(node(property, &below, &path.child("properties").key(name)));
    }
    if let Some(items) = object(keywords, "items") {
        let mut below = around.below(|parsed| parsed.items.as_deref());
        // Only in list-maps an item has an old value.
        if text(keywords, "x-kubernetes-list-type") != "map" && below.uncorrelatable.is_none() {
            below.uncorrelatable = Some(path.clone());
        }
        errors.add(node(items, &below, &path.child("items")));
    }
}

/// Branches of combinators, in which there are no rules.
fn combinators(
    keywords: &Keywords,
    around: &Surroundings<'_>,
    path: &FieldPath,
    errors: &mut SchemaErrors,
) {
    let mut inside = around.below(|_| None);
    inside.inside_meta = around.inside_meta;
    if let Some(not) = object(keywords, "not") {
        errors.add(node(not, &inside, &path.child("not")));
    }
    for name in ["allOf", "oneOf", "anyOf"] {
        let branches = keywords
            .get(name)
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        for (index, branch) in branches.enumerate() {
            if let Some(branch) = branch.as_object() {
                errors.add(node(branch, &inside, &path.child(name).index(index)));
            }
        }
    }
    let definitions = object(keywords, "definitions").into_iter().flatten();
    for (name, definition) in definitions {
        if let Some(definition) = definition.as_object() {
            errors.add(node(
                definition,
                &inside,
                &path.child("definitions").key(name),
            ));
        }
    }
}

// === impl Surroundings ===

impl<'s> Surroundings<'s> {
    /// What a child inherits; `child` finds its parsed node.
    fn below(&self, child: impl FnOnce(&'s Schema) -> Option<&'s Schema>) -> Self {
        Self {
            defaults_forbidden: self.defaults_forbidden.clone(),
            inside_meta: self.inside_meta,
            is_root: false,
            uncorrelatable: self.uncorrelatable.clone(),
            cardinality: self.cardinality.and_then(|count| {
                let factor = self.parsed.and_then(multiplies)?;
                Some(count.saturating_mul(factor))
            }),
            each_expression: self.each_expression,
            parsed: self.parsed.and_then(child),
        }
    }
}

// === impl SchemaErrors ===

impl SchemaErrors {
    fn add(&mut self, other: Self) {
        self.schema.extend(other.schema);
        self.rules.extend(other.rules);
        self.costs.add(other.costs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_keyword_of_kubernetes_is_listed_once() {
        let mut names: Vec<&str> = ROOT_KEYWORDS.iter().map(|(_, name)| *name).collect();
        names.extend(OTHER_KEYWORDS);
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
