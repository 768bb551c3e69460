//! The view that field ownership has of a schema: what a value may be at a place, and how finely it is owned there.
//!
//! A [`Place`] is a schema node with what it inherits; it is resolved against a value into an [`Atom`]: a map, a list
//! or a scalar. Nothing is compiled ahead: resolving reads a few fields of the node.
//!
//! Invariant: `metadata` of the object, and of embedded resources, is always that of Kubernetes, whatever the schema
//! says. `metadata.managedFields` of the object itself is invisible: it is never compared, merged or owned.
//!
//! Source: `kube-openapi/pkg/schemaconv` (OpenAPI to structured-merge-diff), `structured-merge-diff/schema`,
//! `apiextensions-apiserver/pkg/controller/openapi/builder` (metadata of custom resources); api-compat 3.2.

use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value};

use super::element::{KeyField, PathElement};
use crate::builtin;
use crate::structural::{Additional, ListType, MapType, Schema, ValueType};

/// How an object is held while it is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// As it was written: custom resources.
    Dynamic,
    /// As a Go struct of a built-in kind, in which fields that are structs or required always exist. It shows in
    /// whether a write that first sets something in `spec` also owns `spec` itself.
    Native,
}

/// A place in an object, with the schema that holds there.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place<'a> {
    /// The object itself.
    Root(&'a Schema),
    /// `metadata` of the object itself.
    RootMetadata,
    /// A node of a schema, and whether an ancestor preserves unknown fields.
    Declared(&'a Schema, bool),
    /// Anything, owned leaf by leaf, lists as a whole.
    Deduced,
    /// Anything, owned as a whole.
    Opaque,
    /// Outside of ownership.
    Invisible,
}

/// What a value is at a place.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Atom<'a> {
    Map(MapAtom<'a>),
    Scalar(ScalarAtom),
    List(ListAtom<'a>),
}

/// A scalar that is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScalarAtom {
    Numeric,
    Text,
    Boolean,
    Untyped,
}

/// A map or struct.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MapAtom<'a> {
    pub(crate) atomic: bool,
    fields: Fields<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Fields<'a> {
    Root(&'a Schema),
    RootMetadata,
    Declared(&'a Schema, bool),
    Deduced,
    Opaque,
}

/// A list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListAtom<'a> {
    pub(crate) relation: Relation<'a>,
    pub(crate) items: Place<'a>,
}

/// How the items of a list are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation<'a> {
    /// They are not: the list is one value.
    Atomic,
    /// By their value.
    Set,
    /// By these fields.
    Keys(&'a [String]),
    /// By this field.
    Key(&'a str),
}

/// A field of a map.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Field<'a> {
    /// Named by the schema.
    Declared(Place<'a>),
    /// Of the element type.
    Element(Place<'a>),
    /// Not permitted.
    Undeclared,
}

/// The field of `metadata` that holds the owners.
pub(crate) const MANAGED_FIELDS: &str = "managedFields";
/// A struct that was never written.
pub(crate) static EMPTY_MAP: LazyLock<Value> = LazyLock::new(|| Value::Object(Map::new()));
static NULL: Value = Value::Null;
static TEXT: LazyLock<Schema> = LazyLock::new(|| of_type(ValueType::String));
/// `ObjectMeta`, as the schemas of Kubernetes have it.
pub(crate) static OBJECT_META: LazyLock<Arc<Schema>> = LazyLock::new(builtin::object_meta);

// === impl Place ===

impl<'a> Place<'a> {
    /// What the value is here. Null, nothing, and what fits nowhere, is what the schema names first: map, scalar, list.
    pub(crate) fn resolve(self, value: Option<&Value>) -> Atom<'a> {
        let declared_type = match self {
            Self::Root(_) | Self::RootMetadata => Some(ValueType::Object),
            Self::Declared(schema, _) => schema.value_type,
            Self::Deduced | Self::Opaque | Self::Invisible => None,
        };
        match declared_type {
            Some(ValueType::Object) => Atom::Map(self.map()),
            Some(ValueType::Array) => Atom::List(self.list()),
            Some(ValueType::String) => Atom::Scalar(self.text()),
            Some(ValueType::Integer | ValueType::Number) => Atom::Scalar(ScalarAtom::Numeric),
            Some(ValueType::Boolean) => Atom::Scalar(ScalarAtom::Boolean),
            None => match value {
                Some(Value::Array(_)) => Atom::List(self.list()),
                Some(Value::String(_) | Value::Number(_) | Value::Bool(_)) => {
                    Atom::Scalar(ScalarAtom::Untyped)
                }
                None | Some(Value::Object(_) | Value::Null) => Atom::Map(self.map()),
            },
        }
    }

    /// The map that a value may be here, if it may be one.
    pub(crate) fn as_map(self) -> Option<MapAtom<'a>> {
        match self.resolve(None) {
            Atom::Map(map) => Some(map),
            Atom::Scalar(_) | Atom::List(_) => None,
        }
    }

    /// The list that a value may be here, if it may be one.
    pub(crate) fn as_list(self) -> Option<ListAtom<'a>> {
        match self {
            Self::Declared(schema, _)
                if !matches!(schema.value_type, None | Some(ValueType::Array)) =>
            {
                None
            }
            Self::Root(_) | Self::RootMetadata => None,
            _ => Some(self.list()),
        }
    }

    fn map(self) -> MapAtom<'a> {
        let (atomic, fields) = match self {
            Self::Root(schema) => (is_atomic_map(schema), Fields::Root(schema)),
            Self::RootMetadata => (false, Fields::RootMetadata),
            Self::Declared(schema, _) if is_opaque(schema) => (true, Fields::Opaque),
            Self::Declared(schema, inherited) => (
                is_atomic_map(schema),
                Fields::Declared(schema, inherited || schema.preserve_unknown_fields),
            ),
            Self::Deduced => (false, Fields::Deduced),
            Self::Opaque | Self::Invisible => (true, Fields::Opaque),
        };
        MapAtom { atomic, fields }
    }

    fn list(self) -> ListAtom<'a> {
        let Self::Declared(schema, inherited) = self else {
            return ListAtom {
                relation: Relation::Atomic,
                items: Place::Opaque,
            };
        };
        let preserve = inherited || schema.preserve_unknown_fields;
        let items = match &schema.items {
            Some(items) => Place::Declared(items, preserve),
            None => Place::Opaque,
        };
        let relation = match schema.list_type {
            Some(ListType::Atomic) => Relation::Atomic,
            Some(ListType::Map) if !schema.list_map_keys.is_empty() => {
                Relation::Keys(&schema.list_map_keys)
            }
            Some(ListType::Set | ListType::Map) => Relation::Set,
            None if !schema.patch_strategy.merge => Relation::Atomic,
            None => match &schema.patch_merge_key {
                Some(key) => Relation::Key(key),
                None => Relation::Set,
            },
        };
        ListAtom { relation, items }
    }

    fn text(self) -> ScalarAtom {
        match self {
            Self::Declared(schema, _) => match schema.format.as_deref() {
                None | Some("" | "byte") => ScalarAtom::Text,
                Some(_) => ScalarAtom::Untyped,
            },
            _ => ScalarAtom::Text,
        }
    }
}

// === impl MapAtom ===

impl<'a> MapAtom<'a> {
    /// The place of a field.
    pub(crate) fn field(self, name: &str) -> Field<'a> {
        match self.fields {
            Fields::Root(schema) => match name {
                "metadata" => Field::Declared(Place::RootMetadata),
                "apiVersion" | "kind" => Field::Declared(Place::Declared(&TEXT, false)),
                _ => declared_field(schema, schema.preserve_unknown_fields, true, name),
            },
            Fields::RootMetadata => match name {
                MANAGED_FIELDS => Field::Declared(Place::Invisible),
                _ => declared_field(&OBJECT_META, false, true, name),
            },
            Fields::Declared(schema, preserve) if schema.embedded_resource => match name {
                "metadata" => Field::Declared(Place::Declared(&OBJECT_META, false)),
                "apiVersion" | "kind" => Field::Declared(Place::Declared(&TEXT, false)),
                _ => declared_field(schema, preserve, true, name),
            },
            Fields::Declared(schema, preserve) => {
                declared_field(schema, preserve, !schema.properties.is_empty(), name)
            }
            Fields::Deduced => Field::Element(Place::Deduced),
            Fields::Opaque => Field::Element(Place::Opaque),
        }
    }

    /// What a native object holds where the field is absent from the value.
    pub(crate) fn zero(self, name: &str) -> Option<&'static Value> {
        let schema = match self.fields {
            Fields::Root(_) if name == "metadata" => return Some(&EMPTY_MAP),
            Fields::Root(schema) | Fields::Declared(schema, _) => schema,
            Fields::RootMetadata | Fields::Deduced | Fields::Opaque => return None,
        };
        let field = schema.properties.get(name)?;
        match (field.value_type, &field.default) {
            (Some(ValueType::Object), Some(Value::Object(default))) if default.is_empty() => {
                Some(&EMPTY_MAP)
            }
            (Some(ValueType::Object | ValueType::Array), _)
                if schema.required.iter().any(|required| required == name) =>
            {
                Some(&NULL)
            }
            _ => None,
        }
    }

    /// Whether it has no declared fields and takes anything, so that changes of its schema are not followed.
    pub(crate) fn is_untyped(self) -> bool {
        match self.fields {
            Fields::Deduced => true,
            Fields::Root(_) | Fields::RootMetadata | Fields::Opaque => false,
            Fields::Declared(schema, preserve) => {
                if !schema.properties.is_empty() || schema.embedded_resource {
                    return false;
                }
                match &schema.additional {
                    Additional::Any | Additional::None => true,
                    Additional::Schema(element) => {
                        let place = Place::Declared(element, preserve);
                        element.value_type.is_none() && !is_opaque(element)
                            || matches!(place.resolve(None), Atom::Scalar(ScalarAtom::Untyped))
                    }
                }
            }
        }
    }
}

// === impl Field ===

impl<'a> Field<'a> {
    /// The place of the field, if it is permitted.
    pub(crate) fn place(self) -> Option<Place<'a>> {
        match self {
            Self::Declared(place) | Self::Element(place) => Some(place),
            Self::Undeclared => None,
        }
    }

    /// The place of a field of a value that was found valid.
    pub(crate) fn place_or_opaque(self) -> Place<'a> {
        self.place().unwrap_or(Place::Opaque)
    }
}

// === impl ListAtom ===

impl ListAtom<'_> {
    /// The path element of an item of an associative list.
    ///
    /// # Errors
    ///
    /// Returns why the item has none, in the words of structured-merge-diff.
    pub(crate) fn element(&self, item: &Value) -> Result<PathElement, String> {
        match self.relation {
            Relation::Atomic => Err("invalid indexing of non-associative list".to_owned()),
            Relation::Set => set_element(item),
            Relation::Keys(keys) => self.keyed_element(keys, item),
            Relation::Key(key) => self.keyed_element(&[key], item),
        }
    }

    /// Whether the item has a path element.
    ///
    /// # Errors
    ///
    /// As [`Self::element`].
    pub(crate) fn check_item(&self, item: &Value) -> Result<(), String> {
        let first_key = match self.relation {
            Relation::Keys(keys) => keys.first().map(String::as_str),
            Relation::Key(key) => Some(key),
            Relation::Atomic | Relation::Set => None,
        };
        match (item, first_key) {
            // The usual cases, without making the element.
            (Value::Object(fields), Some(key)) if fields.contains_key(key) => Ok(()),
            (Value::String(_) | Value::Number(_) | Value::Bool(_), None)
                if self.relation == Relation::Set =>
            {
                Ok(())
            }
            _ => self.element(item).map(|_element| ()),
        }
    }

    fn keyed_element<K: AsRef<str>>(
        &self,
        keys: &[K],
        item: &Value,
    ) -> Result<PathElement, String> {
        let fields = match item {
            Value::Object(fields) => fields,
            Value::Null => {
                return Err("associative list with keys may not have a null element".to_owned());
            }
            _ => {
                return Err("associative list with keys may not have non-map elements".to_owned());
            }
        };
        let mut element = Vec::with_capacity(keys.len());
        for key in keys.iter().map(AsRef::as_ref) {
            let value = match fields.get(key) {
                Some(value) => Some(value.clone()),
                None => self.key_default(key)?,
            };
            element.extend(value.map(|value| KeyField {
                name: key.into(),
                value,
            }));
        }
        if element.is_empty() {
            return Err(no_keys(keys));
        }
        element.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(PathElement::Key(element.into()))
    }

    fn key_default(&self, key: &str) -> Result<Option<Value>, String> {
        let Some(map) = self.items.as_map() else {
            return Err(format!(
                "couldn't find default value for {key}: associative list may not have non-map types"
            ));
        };
        Ok(match map.field(key) {
            Field::Declared(Place::Declared(schema, _)) => {
                schema.default.clone().filter(|default| !default.is_null())
            }
            _ => None,
        })
    }
}

fn no_keys<K: AsRef<str>>(keys: &[K]) -> String {
    let quoted: Vec<String> = keys
        .iter()
        .map(|key| dialect::quote(key.as_ref()))
        .collect();
    format!(
        "associative list with keys has an element that omits all key fields [{}] \
         (and doesn't have default values for any key fields)",
        quoted.join(" ")
    )
}

fn set_element(item: &Value) -> Result<PathElement, String> {
    match item {
        Value::Object(_) => {
            Err("associative list without keys has an element that's a map type".to_owned())
        }
        Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
        Value::Null => {
            Err("associative list without keys has an element that's an explicit null".to_owned())
        }
        scalar => Ok(PathElement::Value(scalar.clone())),
    }
}

/// A field of a node; `closed` says whether the node declares fields, so that others are not free.
fn declared_field<'a>(schema: &'a Schema, preserve: bool, closed: bool, name: &str) -> Field<'a> {
    if let Some(field) = schema.properties.get(name) {
        return Field::Declared(Place::Declared(field, preserve));
    }
    match &schema.additional {
        Additional::Schema(element) => Field::Element(Place::Declared(element, preserve)),
        Additional::Any => Field::Element(Place::Deduced),
        Additional::None if preserve || !closed => Field::Element(Place::Deduced),
        Additional::None => Field::Undeclared,
    }
}

fn is_atomic_map(schema: &Schema) -> bool {
    schema.map_type == Some(MapType::Atomic)
}

/// `RawExtension` and its like.
fn is_opaque(schema: &Schema) -> bool {
    schema.value_type.is_none() && schema.preserve_unknown_fields && is_atomic_map(schema)
}

fn of_type(value_type: ValueType) -> Schema {
    Schema {
        value_type: Some(value_type),
        ..Schema::default()
    }
}
