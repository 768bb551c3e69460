//! Lists: a JSON array by reference, or values that an expression made.
//!
//! A list remembers the declared list type: `x-kubernetes-list-type` decides how it compares and
//! how `+` merges (`super::compare`, [`List::concat`]).

use std::sync::Arc;

use serde_json::Value as Json;

use super::{Kind, Value};
use crate::budget::Meter;
use crate::error::Failure;
use crate::types::{ListKind, ListType};

/// A list value.
#[derive(Clone, Debug)]
pub(crate) struct List<'v> {
    items: Items<'v>,
    ty: Option<&'v ListType>,
}

#[derive(Clone, Debug)]
enum Items<'v> {
    Json(&'v [Json]),
    Values(Arc<[Value<'v>]>),
}

static ATOMIC: ListKind = ListKind::Atomic;

// === impl List ===

impl<'v> List<'v> {
    pub(super) fn json(items: &'v [Json], ty: Option<&'v ListType>) -> Self {
        Self {
            items: Items::Json(items),
            ty,
        }
    }

    pub(crate) fn of(values: Vec<Value<'v>>) -> Self {
        Self {
            items: Items::Values(Arc::from(values)),
            ty: None,
        }
    }

    /// Whether an expression made it, rather than a binding.
    pub(super) fn is_made(&self) -> bool {
        matches!(self.items, Items::Values(_))
    }

    pub(crate) fn len(&self) -> usize {
        match &self.items {
            Items::Json(items) => items.len(),
            Items::Values(values) => values.len(),
        }
    }

    pub(crate) fn get(&self, index: usize) -> Option<Result<Value<'v>, Failure>> {
        match &self.items {
            Items::Json(items) => items.get(index).map(|item| self.read(item)),
            Items::Values(values) => values.get(index).map(|value| Ok(value.clone())),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Result<Value<'v>, Failure>> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// Every element, read.
    pub(crate) fn values(&self) -> Result<Vec<Value<'v>>, Failure> {
        self.iter().collect()
    }

    pub(super) fn kind(&self) -> &'v ListKind {
        self.ty.map_or(&ATOMIC, |ty| &ty.kind)
    }

    /// `self + other`: appends, or merges as the list type of `self` says.
    pub(crate) fn concat(&self, other: &Self, meter: &mut Meter) -> Result<Self, Failure> {
        meter.charge_items(self.len() + other.len())?;
        let mut values = self.values()?;
        match self.kind() {
            ListKind::Atomic => {
                for value in other.iter() {
                    values.push(value?);
                }
            }
            ListKind::Set => {
                meter.charge_product(self.len(), other.len())?;
                for value in other.iter() {
                    let value = value?;
                    if !contains(&values, &value, meter)? {
                        values.push(value);
                    }
                }
            }
            ListKind::Map(keys) => {
                meter.charge_product(self.len(), other.len())?;
                for value in other.iter() {
                    merge_by_key(&mut values, value?, keys, meter)?;
                }
            }
        }
        Ok(Self {
            items: Items::Values(Arc::from(values)),
            ty: self.ty,
        })
    }

    /// Whether an element equals `wanted`.
    pub(crate) fn contains(&self, wanted: &Value<'v>, meter: &mut Meter) -> Result<bool, Failure> {
        for value in self.iter() {
            meter.charge(1)?;
            if value?.equals(wanted, meter)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn read(&self, item: &'v Json) -> Result<Value<'v>, Failure> {
        match self.ty {
            Some(ty) => Value::from_typed_json(item, &ty.element),
            None => Ok(Value::from_json(item)),
        }
    }
}

/// Whether two elements of a map-list have the same keys.
pub(super) fn same_keys<'v>(
    left: &Value<'v>,
    right: &Value<'v>,
    keys: &[String],
    meter: &mut Meter,
) -> Result<bool, Failure> {
    let (Kind::Map(left), Kind::Map(right)) = (&left.0, &right.0) else {
        return Ok(false);
    };
    for key in keys {
        let same = match (left.field(key)?, right.field(key)?) {
            (Some(left), Some(right)) => left.equals(&right, meter)?,
            (None, None) => true,
            _ => false,
        };
        if !same {
            return Ok(false);
        }
    }
    Ok(true)
}

fn contains<'v>(
    values: &[Value<'v>],
    wanted: &Value<'v>,
    meter: &mut Meter,
) -> Result<bool, Failure> {
    for value in values {
        if value.equals(wanted, meter)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn merge_by_key<'v>(
    values: &mut Vec<Value<'v>>,
    value: Value<'v>,
    keys: &[String],
    meter: &mut Meter,
) -> Result<(), Failure> {
    for held in values.iter_mut() {
        if same_keys(held, &value, keys, meter)? {
            *held = value;
            return Ok(());
        }
    }
    values.push(value);
    Ok(())
}
