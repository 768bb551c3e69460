//! Whether defaults satisfy the schema that they stand in.
//!
//! Source: `apiextensions-apiserver/pkg/apiserver/schema/defaulting/{validation,surroundingobject}.go`.

use api::field::aggregate;
use api::{FieldError, FieldPath};
use serde_json::{Map, Value, json};

use crate::structural::{
    META_FIELDS, MalformedFields, Schema, coerce_metadata, coerce_part, prune, prune_part,
};
use crate::validate::{Level, run_rules_on_default, validate_embedded, validate_value};

/// The way from a resource down to a node.
enum Segment {
    Field(String),
    Item,
}

/// Where a walk over a schema is.
struct Position<'s> {
    /// The resource that the node belongs to: the root, or the nearest embedded one.
    resource: &'s Schema,
    /// The way from there.
    way: Vec<Segment>,
    /// Whether the node belongs to the type or the metadata of the resource.
    inside_meta: bool,
}

/// What is wrong with the defaults of a sound schema.
pub(super) fn validate(schema: &Schema, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut position = Position {
        resource: schema,
        way: Vec::new(),
        inside_meta: false,
    };
    walk(schema, Level::Resource, &mut position, path, &mut errors);
    errors
}

fn walk<'s>(
    schema: &'s Schema,
    level: Level,
    position: &mut Position<'s>,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    if !schema.below.defaults {
        return;
    }
    if schema.embedded_resource && !std::ptr::eq(schema, position.resource) {
        let mut inner = Position {
            resource: schema,
            way: Vec::new(),
            inside_meta: false,
        };
        return node(schema, Level::Resource, &mut inner, path, errors);
    }
    node(schema, level, position, path, errors);
}

fn node<'s>(
    schema: &'s Schema,
    level: Level,
    position: &mut Position<'s>,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    if let Some(default) = &schema.default {
        let place = path.child("default");
        errors.extend(if position.inside_meta {
            in_metadata(default, schema, position, &place)
        } else {
            plain(default, schema, level, &place)
        });
    }
    // Below `additionalProperties` of metadata there are none, and elsewhere they are judged with the value.
    if let Some(items) = &schema.items {
        position.way.push(Segment::Item);
        walk(items, Level::Field, position, &path.child("items"), errors);
        position.way.pop();
    }
    let was_inside = position.inside_meta;
    for (name, property) in &schema.properties {
        let is_meta = level == Level::Resource && META_FIELDS.contains(&name.as_str());
        position.inside_meta = was_inside || is_meta;
        position.way.push(Segment::Field(name.clone()));
        walk(
            property,
            Level::Field,
            position,
            &path.child("properties").key(name),
            errors,
        );
        position.way.pop();
    }
    position.inside_meta = was_inside;
}

fn plain(default: &Value, schema: &Schema, level: Level, place: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut pruned = default.clone();
    if schema.embedded_resource {
        prune(&mut pruned, schema);
    } else {
        prune_part(&mut pruned, schema);
    }
    if pruned != *default {
        errors.push(FieldError::invalid(
            place,
            default.clone(),
            "must not have unknown fields",
        ));
    }
    let mut coerced = default.clone();
    if let Err(error) = coerce_part(&mut coerced, schema, MalformedFields::Refused, place) {
        errors.push(error);
        return errors;
    }
    let embedded = validate_embedded(&coerced, schema, place);
    if !embedded.is_empty() {
        errors.extend(embedded);
        return errors;
    }
    errors.extend(judge(default, schema, level, place));
    errors
}

/// Value checks, and rules where those hold.
fn judge(default: &Value, schema: &Schema, level: Level, place: &FieldPath) -> Vec<FieldError> {
    let errors = validate_value(default, schema, place);
    if !errors.is_empty() || !schema.below.rules {
        return errors;
    }
    run_rules_on_default(default, schema, level, place)
}

/// A default of metadata must make valid metadata of the resource around it.
fn in_metadata(
    default: &Value,
    schema: &Schema,
    position: &Position<'_>,
    place: &FieldPath,
) -> Vec<FieldError> {
    let mut resource = surround(default.clone(), &position.way);
    if let Some(fields) = resource.as_object_mut() {
        fields.entry("kind").or_insert_with(|| json!("Validation"));
        fields
            .entry("apiVersion")
            .or_insert_with(|| json!("validation/v1"));
    }
    let coerced = coerce_metadata(&mut resource, position.resource, MalformedFields::Refused);
    let wrong = if let Err(error) = coerced {
        error.to_string()
    } else {
        let errors = validate_embedded(&resource, position.resource, &FieldPath::root());
        if errors.is_empty() {
            return judge(default, schema, Level::Field, place);
        }
        aggregate(&errors)
    };
    let detail = format!("must result in valid metadata: {wrong}");
    vec![FieldError::invalid(place, default.clone(), detail)]
}

fn surround(value: Value, way: &[Segment]) -> Value {
    way.iter()
        .rev()
        .fold(value, |inner, segment| match segment {
            Segment::Field(name) => Value::Object(Map::from_iter([(name.clone(), inner)])),
            Segment::Item => Value::Array(vec![inner]),
        })
}
