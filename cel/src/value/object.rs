//! Objects that an expression made by the name of their type, as mutations do.

use std::sync::Arc;

use serde_json::Value as Json;

use super::{Kind, Map, Value};
use crate::error::{EvaluateError, Failure};
use crate::types::{JSON_PATCH, OBJECT};

/// How many objects of a wrong type a message names.
const TOLD_COUNT_MAX: usize = 10;

/// What `Name{field: value}` made.
#[derive(Clone, Debug)]
pub(crate) struct Object<'v> {
    pub(crate) name: Arc<str>,
    pub(crate) fields: Map<'v>,
}

// === impl Object ===

impl Object<'_> {
    /// The name of its type at run time, without the path of its field.
    pub(crate) fn type_name(&self) -> &'static str {
        if *self.name == *JSON_PATCH {
            JSON_PATCH
        } else {
            OBJECT
        }
    }
}

// === impl Value ===

impl Value<'_> {
    /// Converts to JSON, as [`Value::to_json`], and checks that each object in it has the type that belongs to the field
    /// that holds it: `Object.spec.template` in the field `template` of `Object.spec`. Lists and maps between them have no
    /// name. The checker takes any value for a field, so that this is known only when the value is there.
    ///
    /// # Errors
    /// Those of [`Value::to_json`]; objects of another type.
    ///
    /// Source: `CheckTypeNamesMatchFieldPathNames` in `k8s.io/apiserver/pkg/cel/mutation/dynamic/objects.go`.
    pub fn to_checked_json(&self) -> Result<Json, EvaluateError> {
        // What it becomes is bounded, and so is the walk for the types, which visits the same values.
        let json = self.to_json()?;
        if let Kind::Object(object) = &self.0 {
            let mut wrong = Vec::new();
            check(self, &object.name, &mut wrong)?;
            if !wrong.is_empty() {
                return Err(Failure::new(format!("type mismatch: {}", wrong.join("\n"))).into());
            }
        }
        Ok(json)
    }

    /// A field of an operation of a JSON patch; `None` where it is not set, or the value is none.
    pub fn json_patch_field(&self, name: &str) -> Option<Self> {
        match &self.0 {
            Kind::Object(object) if *object.name == *JSON_PATCH => {
                object.fields.field(name).ok().flatten()
            }
            _ => None,
        }
    }

    /// The elements of a list; none of anything else.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub fn elements(&self) -> Result<Vec<Self>, EvaluateError> {
        match &self.0 {
            Kind::List(list) => Ok(list.values()?),
            _ => Ok(Vec::new()),
        }
    }
}

/// Adds what is wrong with the names of types in `value`, which stands at `path`.
fn check(value: &Value<'_>, path: &str, wrong: &mut Vec<String>) -> Result<(), Failure> {
    if wrong.len() >= TOLD_COUNT_MAX {
        return Ok(());
    }
    match &value.0 {
        Kind::Object(object) => {
            if *object.name != *path {
                wrong.push(format!(
                    "unexpected type name {:?}, expected {path:?}, which matches field name path from root Object type",
                    &*object.name
                ));
            }
            for (key, value) in object.fields.entries()? {
                check(&value, &format!("{path}.{}", key.value()), wrong)?;
            }
        }
        // What a binding holds has no such objects in it.
        Kind::Map(Map::Entries(entries)) => {
            for (_, value) in entries.iter() {
                check(value, path, wrong)?;
            }
        }
        Kind::List(list) if list.is_made() => {
            for value in list.iter() {
                check(&value?, path, wrong)?;
            }
        }
        Kind::Optional(Some(value)) => check(value, path, wrong)?,
        _ => {}
    }
    Ok(())
}
