//! The values of variables for one evaluation, by reference.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::Value as Json;

use crate::error::Failure;
use crate::node::Node;
use crate::types::DeclType;
use crate::value::Value;

/// The values of an expression's variables.
///
/// JSON is borrowed and read where it is touched; binding a large object costs nothing. A variable
/// that is declared but not bound makes the evaluation fail as pending.
#[derive(Clone, Debug, Default)]
pub struct Bindings<'v> {
    bound: BTreeMap<&'v str, Bound<'v>>,
}

#[derive(Clone, Debug)]
enum Bound<'v> {
    Json(&'v Json),
    Typed(&'v Json, &'v DeclType),
    Value(Value<'v>),
    Composed(Composed<'v>),
}

/// A variable that is another expression, evaluated where it is first read.
#[derive(Clone, Debug)]
pub(crate) struct Composed<'v> {
    pub(crate) node: &'v Node,
    /// What it came to.
    pub(crate) value: OnceLock<Result<Value<'v>, Failure>>,
}

// === impl Bindings ===

impl<'v> Bindings<'v> {
    /// Makes a set without values.
    pub fn new() -> Self {
        Self::default()
    }

    /// Binds JSON as it is: integers are `int`, other numbers `double`, everything else itself.
    pub fn json(&mut self, name: &'v str, json: &'v Json) -> &mut Self {
        self.bound.insert(name, Bound::Json(json));
        self
    }

    /// Binds JSON that is read as its declared type: date-time strings become timestamps, byte
    /// strings bytes, and whole doubles `int` where an integer is declared.
    pub fn typed(&mut self, name: &'v str, json: &'v Json, ty: &'v DeclType) -> &mut Self {
        self.bound.insert(name, Bound::Typed(json, ty));
        self
    }

    /// Binds a value, such as the result of another expression.
    pub fn value(&mut self, name: &'v str, value: Value<'v>) -> &mut Self {
        self.bound.insert(name, Bound::Value(value));
        self
    }

    /// Binds an expression.
    pub(crate) fn expression(&mut self, name: &'v str, node: &'v Node) -> &mut Self {
        let value = OnceLock::new();
        self.bound
            .insert(name, Bound::Composed(Composed { node, value }));
        self
    }

    /// Whether a name is bound.
    pub fn contains(&self, name: &str) -> bool {
        self.bound.contains_key(name)
    }

    /// The expression that a name is bound to, if it is one.
    pub(crate) fn composed(&self, name: &str) -> Option<&Composed<'v>> {
        match self.bound.get(name) {
            Some(Bound::Composed(composed)) => Some(composed),
            _ => None,
        }
    }

    pub(crate) fn get(&self, name: &str) -> Result<Value<'v>, Failure> {
        match self.bound.get(name) {
            Some(Bound::Json(json)) => Ok(Value::from_json(json)),
            Some(Bound::Typed(json, ty)) => Value::from_typed_json(json, ty),
            Some(Bound::Value(value)) => Ok(value.clone()),
            Some(Bound::Composed(composed)) => match composed.value.get() {
                Some(value) => value.clone(),
                None => Err(Failure::new(format!("variable {name} is not evaluated"))),
            },
            None => Err(Failure::new(format!("no such attribute(s): {name}"))),
        }
    }
}
