//! `== != < <= > >=` and `in`.

use super::{Evaluated, Evaluator};
use crate::budget::Meter;
use crate::error::Failure;
use crate::node::{Node, Relation};
use crate::value::{Kind, Value};

// === impl Evaluator ===

impl<'v> Evaluator<'_, 'v> {
    pub(super) fn relation(&mut self, relation: Relation, operands: &[Node; 2]) -> Evaluated<'v> {
        let [left, right] = operands;
        let left = self.evaluate(left)?;
        let right = self.evaluate(right)?;
        holds(relation, &left, &right, &mut self.meter).map(Value::bool)
    }
}

fn holds<'v>(
    relation: Relation,
    left: &Value<'v>,
    right: &Value<'v>,
    meter: &mut Meter,
) -> Result<bool, Failure> {
    match relation {
        Relation::Equal => left.equals(right, meter),
        Relation::NotEqual => left.equals(right, meter).map(|equal| !equal),
        Relation::Less => left.order(right, meter).map(std::cmp::Ordering::is_lt),
        Relation::LessOrEqual => left.order(right, meter).map(std::cmp::Ordering::is_le),
        Relation::Greater => left.order(right, meter).map(std::cmp::Ordering::is_gt),
        Relation::GreaterOrEqual => left.order(right, meter).map(std::cmp::Ordering::is_ge),
        Relation::In => match &right.0 {
            Kind::List(list) => list.contains(left, meter),
            Kind::Map(map) => map.get(left).map(|value| value.is_some()),
            _ => Err(Failure::NoOverload),
        },
    }
}
