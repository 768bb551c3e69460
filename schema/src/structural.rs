//! The structural schema: one node type for custom resources and for built-in kinds.
//!
//! Invariants: every `Arc<Schema>` below a root is a tree or shares subtrees, never a cycle (recursion in built-in
//! kinds is cut, see [`crate::builtin`]), so walks over schemas end. Walks over values are bounded by the depth of
//! the value, which the JSON parser bounds.
//!
//! Source: `apiextensions-apiserver/pkg/apiserver/schema`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

mod defaulting;
mod metadata;
mod parse;
mod pattern;
mod prune;
mod rules;

pub use defaulting::{default, default_within};
pub(crate) use metadata::{META_FIELDS, coerce_part};
pub use metadata::{MalformedFields, MetadataError, coerce_metadata, unknown_metadata_fields};
pub use parse::SchemaError;
pub(crate) use parse::{References, SharedNodes, parse_with};
pub use pattern::Pattern;
pub(crate) use prune::prune_part;
pub use prune::{drop_nulls, prune, unknown_fields};
pub(crate) use rules::{CompiledRule, CompiledRules};
pub use rules::{Rule, Rules};

/// A node of a structural schema.
///
/// How untyped nodes are told apart:
/// - `int_or_string`: an integer or a string, and for built-in `Quantity` fields any number;
/// - no `value_type`, `preserve_unknown_fields`, `map_type` atomic: an opaque value (`RawExtension`, `JSON`);
/// - no `value_type`, `preserve_unknown_fields`: any value, of a type deduced from it.
///
/// Descriptions are not kept: they are published from the definition as it was written.
#[derive(Debug, Clone, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a keyword of its own"
)]
pub struct Schema {
    /// The JSON type; absent for int-or-string and for nodes that preserve everything.
    pub value_type: Option<ValueType>,
    /// Declared fields of an object.
    pub properties: BTreeMap<String, Arc<Self>>,
    /// What `additionalProperties` says.
    pub additional: Additional,
    /// The schema of each item of a list.
    pub items: Option<Arc<Self>>,
    /// Fields that must be present.
    pub required: Vec<String>,
    /// Whether `null` is a value of its own and is kept.
    pub nullable: bool,
    /// The value of the field where its parent exists and the field does not.
    pub default: Option<Value>,
    /// The `format` keyword, known or not.
    pub format: Option<Box<str>>,
    /// `x-kubernetes-int-or-string`.
    pub int_or_string: bool,
    /// `x-kubernetes-preserve-unknown-fields`, of this node alone.
    pub preserve_unknown_fields: bool,
    /// `x-kubernetes-embedded-resource`.
    pub embedded_resource: bool,
    /// `x-kubernetes-list-type`; absent means atomic.
    pub list_type: Option<ListType>,
    /// `x-kubernetes-list-map-keys`.
    pub list_map_keys: Vec<String>,
    /// `x-kubernetes-map-type`; absent means granular.
    pub map_type: Option<MapType>,
    /// `x-kubernetes-patch-strategy`, of built-in kinds only.
    pub patch_strategy: PatchStrategy,
    /// `x-kubernetes-patch-merge-key`, of built-in kinds only.
    pub patch_merge_key: Option<Box<str>>,
    /// Value checks (enum, bounds, pattern, combinators); absent on most nodes.
    pub constraints: Option<Box<Constraints>>,
    /// `x-kubernetes-validations`.
    pub validations: Rules,
    /// What walks may expect at this node and below it.
    pub below: Below,
}

/// A JSON type as schemas name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ValueType {
    /// A map or a struct.
    Object,
    /// A list.
    Array,
    /// Text.
    String,
    /// A number without a fraction.
    Integer,
    /// Any number.
    Number,
    /// `true` or `false`.
    Boolean,
}

/// What a schema says of fields that it does not declare.
#[derive(Debug, Clone, Default)]
pub enum Additional {
    /// Nothing: they are unknown.
    #[default]
    None,
    /// `additionalProperties: true`.
    Any,
    /// The element type of a map.
    Schema(Arc<Schema>),
}

/// `x-kubernetes-list-type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ListType {
    /// Replaced as a whole.
    Atomic,
    /// Distinct scalars.
    Set,
    /// Objects identified by key fields.
    Map,
}

/// `x-kubernetes-map-type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MapType {
    /// Each field has its own owner.
    Granular,
    /// Replaced as a whole.
    Atomic,
}

/// `x-kubernetes-patch-strategy`: `merge`, `replace`, `retainKeys`, or `merge,retainKeys`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct PatchStrategy {
    /// Lists merge by [`Schema::patch_merge_key`], or as sets of scalars without one.
    pub merge: bool,
    /// A map is replaced and not merged.
    pub replace: bool,
    /// `$retainKeys` is honoured here.
    pub retain_keys: bool,
}

/// Checks on a value beyond its type.
#[derive(Debug, Clone, Default)]
pub struct Constraints {
    /// The permitted values.
    pub enumeration: Vec<Value>,
    /// Least number.
    pub minimum: Option<Bound>,
    /// Greatest number.
    pub maximum: Option<Bound>,
    /// The number is a multiple of this.
    pub multiple_of: Option<f64>,
    /// A pattern that is found somewhere in the text.
    pub pattern: Option<Pattern>,
    /// Least count of Unicode characters.
    pub min_length: Option<i64>,
    /// Greatest count of Unicode characters.
    pub max_length: Option<i64>,
    /// Least count of items.
    pub min_items: Option<i64>,
    /// Greatest count of items.
    pub max_items: Option<i64>,
    /// Least count of fields.
    pub min_properties: Option<i64>,
    /// Greatest count of fields.
    pub max_properties: Option<i64>,
    /// Schemas that must all hold.
    pub all_of: Vec<Arc<Schema>>,
    /// Schemas of which one must hold.
    pub any_of: Vec<Arc<Schema>>,
    /// Schemas of which exactly one must hold.
    pub one_of: Vec<Arc<Schema>>,
    /// A schema that must not hold.
    pub not: Option<Arc<Schema>>,
}

/// What a subtree of a schema holds, so that walks can leave out the rest.
///
/// The default is "anything": a schema that is built by hand is walked wholly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four independent facts, each named at its use"
)]
pub struct Below {
    /// Defaults.
    pub defaults: bool,
    /// `x-kubernetes-validations`.
    pub rules: bool,
    /// Lists that are sets or maps.
    pub associative_lists: bool,
    /// Embedded resources.
    pub embedded_resources: bool,
}

/// A bound on numbers. Bounds are floats, as in Kubernetes, whatever the type of the number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// The number.
    pub value: f64,
    /// Whether the number itself is out of bounds.
    pub exclusive: bool,
}

// === impl Schema ===

impl Schema {
    /// The schema of any value, of which nothing is pruned.
    pub fn any() -> Self {
        Self {
            preserve_unknown_fields: true,
            ..Self::default()
        }
    }

    /// The declared field, or the element type of a map.
    pub fn field(&self, name: &str) -> Option<&Arc<Self>> {
        self.properties
            .get(name)
            .or_else(|| self.additional.schema())
    }
}

// === impl Below ===

impl Default for Below {
    fn default() -> Self {
        Self {
            defaults: true,
            rules: true,
            associative_lists: true,
            embedded_resources: true,
        }
    }
}

// === impl Additional ===

impl Additional {
    /// The element type, if one is declared.
    pub fn schema(&self) -> Option<&Arc<Schema>> {
        match self {
            Self::Schema(schema) => Some(schema),
            Self::None | Self::Any => None,
        }
    }
}

// === impl ValueType ===

impl ValueType {
    /// The name in a schema.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }

    /// The type of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "object" => Self::Object,
            "array" => Self::Array,
            "string" => Self::String,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            _ => return None,
        })
    }
}
