//! `runtime`: the conditions that authors add to the status of instances.
//!
//! Only `status.conditions` may use it; the graph builder sees to that. The keys of
//! `newCondition`'s argument are written bare and checked by the macro; their values are checked
//! here.
//!
//! Source: `kro/pkg/cel/library/runtime.go`.

use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::super::opaque::Opaque;
use super::super::{Entry, Returned, member};
use crate::budget::Meter;
use crate::error::Failure;
use crate::value::{Key, Kind, Map, Value};

pub(in crate::library) const FUNCTIONS: &[Entry] = &[
    member(
        "newCondition",
        &["(runtime, map(string, string)) -> condition"],
        new_condition,
    ),
    member(
        "condition",
        &["(runtime, dyn, string) -> condition"],
        condition,
    ),
];

/// The keys of a condition; `type` and `status` must be given.
pub(crate) const KEYS: [&str; 4] = ["type", "status", "reason", "message"];

/// A condition as an expression has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Condition {
    ty: String,
    status: String,
    reason: String,
    message: String,
}

// === impl Condition ===

impl Condition {
    /// The field that an expression selects.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        match name {
            "type" => Some(&self.ty),
            "status" => Some(&self.status),
            "reason" => Some(&self.reason),
            "message" => Some(&self.message),
            _ => None,
        }
    }

    pub(crate) fn to_json(&self) -> Json {
        json!({
            "type": self.ty,
            "status": self.status,
            "reason": self.reason,
            "message": self.message,
        })
    }

    fn set(&mut self, name: &str, text: &str) -> Result<(), Failure> {
        match name {
            "type" if text.is_empty() => {
                return Err(Failure::new("runtime.newCondition: type must not be empty"));
            }
            "status" if !["True", "False", "Unknown"].contains(&text) => {
                return Err(Failure::new(format!(
                    "runtime.newCondition: status must be one of True, False, Unknown (got \
                     {text:?})"
                )));
            }
            "type" => text.clone_into(&mut self.ty),
            "status" => text.clone_into(&mut self.status),
            "reason" => text.clone_into(&mut self.reason),
            "message" => text.clone_into(&mut self.message),
            _ => {}
        }
        Ok(())
    }

    /// Reads what a status holds; what is not there or no text is empty.
    fn of_map(map: &Map<'_>) -> Result<Self, Failure> {
        let read = |name| -> Result<String, Failure> {
            let value = map.field(name)?;
            let text = value.as_ref().and_then(Value::as_str);
            Ok(text.unwrap_or_default().to_owned())
        };
        Ok(Self {
            ty: read("type")?,
            status: read("status")?,
            reason: read("reason")?,
            message: read("message")?,
        })
    }
}

fn new_condition<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let [Value(Kind::Opaque(Opaque::Runtime)), Value(Kind::Map(map))] = args else {
        return Err(Failure::NoOverload);
    };
    let mut condition = Condition::default();
    for (key, value) in map.entries()? {
        let Key::String(name) = &key else {
            return Err(Failure::NoOverload);
        };
        let Some(text) = value.as_str() else {
            let got = value.type_name();
            return Err(Failure::new(format!(
                "runtime.newCondition: {} must be a string, got {got}",
                &**name
            )));
        };
        condition.set(name, text)?;
    }
    Ok(Value::opaque(Opaque::Condition(Arc::new(condition))))
}

/// The condition of that type in an object's status; an empty one where there is none.
fn condition<'v>(args: &[Value<'v>], meter: &mut Meter) -> Returned<'v> {
    let [
        Value(Kind::Opaque(Opaque::Runtime)),
        object,
        Value(Kind::String(wanted)),
    ] = args
    else {
        return Err(Failure::NoOverload);
    };
    let Kind::Map(object) = &object.0 else {
        let got = object.type_name();
        return Err(Failure::new(format!(
            "runtime.condition: obj must be an object, got {got}"
        )));
    };
    let found = find(object, wanted, meter)?.unwrap_or_default();
    Ok(Value::opaque(Opaque::Condition(Arc::new(found))))
}

fn find(object: &Map<'_>, wanted: &str, meter: &mut Meter) -> Result<Option<Condition>, Failure> {
    let Some(status) = object.field("status")? else {
        return Ok(None);
    };
    let Kind::Map(status) = status.0 else {
        return Err(Failure::new(
            "runtime.condition: obj.status must be an object",
        ));
    };
    let Some(conditions) = status.field("conditions")? else {
        return Ok(None);
    };
    let Kind::List(conditions) = conditions.0 else {
        return Err(Failure::new(
            "runtime.condition: obj.status.conditions must be a list",
        ));
    };
    for value in conditions.iter() {
        meter.charge(1)?;
        let value = value?;
        let condition = match &value.0 {
            Kind::Opaque(Opaque::Condition(condition)) => (**condition).clone(),
            Kind::Map(map) => Condition::of_map(map)?,
            _ => {
                let got = value.type_name();
                return Err(Failure::new(format!(
                    "runtime.condition: unexpected condition element type {got}"
                )));
            }
        };
        if condition.ty == wanted {
            return Ok(Some(condition));
        }
    }
    Ok(None)
}
