//! `== != < <= > >=` and `in`.

use super::{Evaluated, Evaluator};
use crate::budget::Meter;
use crate::error::Failure;
use crate::node::{Node, Relation};
use crate::price::{self, UNIT, Weight};
use crate::value::{Kind, Value};

// === impl Evaluator ===

impl<'v> Evaluator<'_, 'v> {
    pub(super) fn relation(
        &mut self,
        relation: Relation,
        weight: Weight,
        operands: &[Node; 2],
    ) -> Evaluated<'v> {
        let [left, right] = operands;
        let ([left, right], failure) = self.both(left, right)?;
        self.meter.pay(price_of(relation, weight, &left, &right))?;
        if let Some(failure) = failure {
            return Err(failure);
        }
        // In kro's cel-go, what is no number stands in no order to one; in that of Kubernetes the question is an error.
        if !self.flattens
            && !matches!(
                relation,
                Relation::Equal | Relation::NotEqual | Relation::In
            )
            && (is_nan(&left) || is_nan(&right) && is_number(&left))
        {
            return Ok(Value::bool(false));
        }
        holds(relation, &left, &right, &mut self.meter).map(Value::bool)
    }
}

fn price_of(relation: Relation, weight: Weight, left: &Value<'_>, right: &Value<'_>) -> u64 {
    match (relation, weight, &left.0) {
        (Relation::In, Weight::Length, _) => price::size(right),
        (Relation::Equal, Weight::Length, Kind::Opaque(_)) => UNIT,
        _ => price::of_comparison(weight, left, right),
    }
}

fn is_nan(value: &Value<'_>) -> bool {
    matches!(value.0, Kind::Double(value) if value.is_nan())
}

fn is_number(value: &Value<'_>) -> bool {
    matches!(value.0, Kind::Int(_) | Kind::Uint(_) | Kind::Double(_))
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
