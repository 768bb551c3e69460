//! The macros that visit a list or a map.
//!
//! A map is visited in the order of its keys. `all` and `exists` go on after an error, because a
//! later element may decide. In Kubernetes every other loop goes on too, and costs what it costs; in kro it ends at its
//! first error.
//!
//! A loop costs what its expansion costs in cel-go, where what was made so far is a variable, and the question whether to go
//! on is asked before each element.
//!
//! Source: `cel-go/parser/macro.go`, `cel-go/ext/comprehensions.go`.

use super::{ENTRY_BYTES, Evaluated, Evaluator, Local, map_key};
use crate::error::Failure;
use crate::node::{Loop, Node, Yields};
use crate::price::{self, UNIT};
use crate::value::{Key, Kind, Map, Value};

/// What a loop has made so far.
enum Made<'v> {
    /// Not decided, with the first error.
    Undecided(Option<Failure>),
    Decided,
    /// Nothing: the first error.
    Failed(Failure),
    Count(usize),
    List(Vec<Value<'v>>),
    Map(Vec<(Key<'v>, Value<'v>)>),
}

// === impl Evaluator ===

impl<'v> Evaluator<'_, 'v> {
    pub(super) fn visit(&mut self, each: &Loop) -> Evaluated<'v> {
        let range = self.evaluate(&each.range)?;
        let base = self.locals.len();
        let mut made = Made::start(each.yields);
        let finished = self.visit_range(each, &range, &mut made);
        self.locals.truncate(base);
        finished?;
        self.meter.pay(match each.yields {
            Yields::ExistsOne => 2 * UNIT,
            _ => UNIT,
        })?;
        made.finish(each.yields)
    }

    fn visit_range(
        &mut self,
        each: &Loop,
        range: &Value<'v>,
        made: &mut Made<'v>,
    ) -> Result<(), Failure> {
        match &range.0 {
            Kind::List(list) => {
                for (index, value) in list.iter().enumerate() {
                    let value = value?;
                    let first = if each.two {
                        Value::count(index)
                    } else {
                        value.clone()
                    };
                    if self.visit_one(each, first, value, made)? {
                        break;
                    }
                }
            }
            Kind::Map(map) if each.two => {
                self.meter.charge(map.len() as u64)?;
                for (key, value) in map.entries()? {
                    if self.visit_one(each, key.value(), value, made)? {
                        break;
                    }
                }
            }
            Kind::Map(map) => {
                self.meter.charge(map.len() as u64)?;
                for key in map.keys() {
                    if self.visit_one(each, key.clone(), key, made)? {
                        break;
                    }
                }
            }
            _ => return Err(Failure::NoOverload),
        }
        Ok(())
    }

    /// Visits one element; tells whether the loop is decided.
    fn visit_one(
        &mut self,
        each: &Loop,
        first: Value<'v>,
        second: Value<'v>,
        made: &mut Made<'v>,
    ) -> Result<bool, Failure> {
        self.meter.charge(1)?;
        self.meter.pay(asked(each.yields))?;
        if matches!(made, Made::Decided) {
            return Ok(true);
        }
        match each.yields {
            Yields::List => self.meter.grow(size_of::<Value<'v>>() as u64)?,
            Yields::Map | Yields::MapEntry => self.meter.grow(ENTRY_BYTES)?,
            Yields::All | Yields::Exists | Yields::ExistsOne => {}
        }
        let base = self.locals.len();
        let key = matches!(each.yields, Yields::Map).then(|| first.clone());
        let local = |value| Local {
            value: Ok(value),
            price: 0,
        };
        self.locals.push(local(first));
        if each.two {
            self.locals.push(local(second));
        }
        let kept = match &each.filter {
            Some(filter) => self.truth(filter),
            None => Ok(true),
        };
        let body = match kept {
            Ok(true) => Some(self.evaluate(&each.body)),
            Ok(false) => None,
            Err(failure) => Some(Err(failure)),
        };
        self.locals.truncate(base);
        match body {
            Some(body) => {
                self.meter.pay(added(each, &body))?;
                if let (Yields::MapEntry, Ok(Value(Kind::Map(map)))) = (each.yields, &body) {
                    self.meter.charge_items(map.len())?;
                }
                match made.add(each.yields, key, body) {
                    Err(failure) if self.flattens && !failure.is_final() => {
                        *made = Made::Failed(failure);
                        Ok(false)
                    }
                    added => added,
                }
            }
            None => Ok(false),
        }
    }

    fn truth(&mut self, node: &Node) -> Result<bool, Failure> {
        self.evaluate(node)?.as_bool().ok_or(Failure::NoOverload)
    }
}

/// What it costs to ask whether to go on.
fn asked(yields: Yields) -> u64 {
    match yields {
        Yields::All => 2 * UNIT,
        Yields::Exists => 3 * UNIT,
        Yields::ExistsOne | Yields::List | Yields::Map | Yields::MapEntry => 0,
    }
}

/// What it costs to add the body of an element to what was made so far.
fn added(each: &Loop, body: &Evaluated<'_>) -> u64 {
    match each.yields {
        Yields::All | Yields::Exists => UNIT,
        Yields::ExistsOne if body.as_ref().is_ok_and(|it| it.as_bool() == Some(true)) => 2 * UNIT,
        Yields::ExistsOne => 0,
        Yields::List if each.body.is_constant() => 2 * UNIT,
        Yields::List => 2 * UNIT + price::LIST,
        Yields::Map => 3 * UNIT,
        Yields::MapEntry => 2 * UNIT,
    }
}

// === impl Made ===

impl<'v> Made<'v> {
    fn start(yields: Yields) -> Self {
        match yields {
            Yields::All | Yields::Exists => Self::Undecided(None),
            Yields::ExistsOne => Self::Count(0),
            Yields::List => Self::List(Vec::new()),
            Yields::Map | Yields::MapEntry => Self::Map(Vec::new()),
        }
    }

    /// Takes the body of one element; tells whether the loop is decided.
    fn add(
        &mut self,
        yields: Yields,
        key: Option<Value<'v>>,
        body: Evaluated<'v>,
    ) -> Result<bool, Failure> {
        match self {
            Self::Decided => return Ok(true),
            Self::Failed(_) => {
                if let Err(failure) = body
                    && failure.is_final()
                {
                    return Err(failure);
                }
            }
            Self::Undecided(error) => match body.map(|body| body.as_bool()) {
                Ok(Some(value)) if value == (yields == Yields::Exists) => *self = Self::Decided,
                Ok(Some(_)) => {}
                Ok(None) => *error = Some(error.take().unwrap_or(Failure::NoOverload)),
                Err(failure) if failure.is_final() => return Err(failure),
                Err(failure) => *error = Some(error.take().unwrap_or(failure)),
            },
            Self::Count(count) => {
                if body?.as_bool().ok_or(Failure::NoOverload)? {
                    *count += 1;
                }
            }
            Self::List(values) => values.push(body?),
            Self::Map(entries) => match key {
                Some(key) => entries.push((map_key(&key)?, body?)),
                None => match body?.0 {
                    Kind::Map(map) => entries.extend(map.entries()?),
                    _ => return Err(Failure::NoOverload),
                },
            },
        }
        Ok(false)
    }

    fn finish(self, yields: Yields) -> Evaluated<'v> {
        match self {
            Self::Undecided(Some(failure)) | Self::Failed(failure) => Err(failure),
            Self::Undecided(None) => Ok(Value::bool(yields == Yields::All)),
            Self::Decided => Ok(Value::bool(yields == Yields::Exists)),
            Self::Count(count) => Ok(Value::bool(count == 1)),
            Self::List(values) => Ok(Value::list(values)),
            Self::Map(entries) => match Map::of(entries) {
                Ok(map) => Ok(Value(Kind::Map(map))),
                Err(key) => Err(Failure::new(format!(
                    "insert failed: key {} already exists",
                    key.value()
                ))),
            },
        }
    }
}
