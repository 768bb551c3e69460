//! Evaluation: a walk over the tree of a program.
//!
//! Every node takes a step, and costs what it costs in Kubernetes ([`crate::price`]): a name one unit, but none where it is
//! a side of a choice or stands between the brackets of an index, because cel-go does not observe these. Errors pass
//! through everything but `&&`, `||`, `all` and `exists`, which give way to the operand that decides; a spent budget passes
//! through these too. The depth of the walk is bounded by the depth of the program, which the compiler bounds.

use std::sync::Arc;

use crate::bindings::{Bindings, Composed};
use crate::budget::{Budget, Meter};
use crate::error::{COST_EXCEEDED, Failure};
use crate::node::{Call, Construct, Element, Entry, Node, OptionalMap, OrElse};
use crate::price::{self, UNIT};
use crate::types::DeclType;
use crate::value::{Key, Kind, Map, Object, Text, Value};

mod arithmetic;
mod loops;
mod relation;
mod select;

pub(crate) use select::is_qualifier;

/// An entry of a map that is made, in its list and in its final place.
const ENTRY_BYTES: u64 = 128;

/// How many variables may be evaluated for each other: each takes as much stack as an expression.
const COMPOSED_DEPTH_MAX: usize = 8;

type Evaluated<'v> = Result<Value<'v>, Failure>;

/// Two operands, and why one of them failed.
type Operands<'v> = ([Value<'v>; 2], Option<Failure>);

/// Evaluates a program and takes what it used from the budget.
pub(crate) fn evaluate<'v>(
    node: &Node,
    flattens: bool,
    bindings: &Bindings<'v>,
    budget: &mut Budget,
) -> Evaluated<'v> {
    let mut evaluator = Evaluator {
        bindings,
        locals: Vec::new(),
        meter: Meter::new(*budget),
        composed_depth: 0,
        flattens,
    };
    let result = evaluator.evaluate(node);
    *budget = evaluator.meter.rest();
    result
}

struct Evaluator<'e, 'v> {
    bindings: &'e Bindings<'v>,
    /// The variables of the macros around the node.
    locals: Vec<Local<'v>>,
    meter: Meter,
    /// The variables that are being evaluated, each for the one before.
    composed_depth: usize,
    /// Whether optionals in optionals become one where they are read.
    flattens: bool,
}

/// A variable of a macro.
struct Local<'v> {
    /// A failed one fails where it is read.
    value: Evaluated<'v>,
    /// What it costs to read it for the first time.
    price: u64,
}

// === impl Evaluator ===

impl<'v> Evaluator<'_, 'v> {
    fn evaluate(&mut self, node: &Node) -> Evaluated<'v> {
        self.value(node, UNIT)
    }

    /// Evaluates a node that costs nothing if it is a name or a selection from one.
    fn unobserved(&mut self, node: &Node) -> Evaluated<'v> {
        self.value(node, 0)
    }

    fn value(&mut self, node: &Node, name_price: u64) -> Evaluated<'v> {
        self.meter.charge(1)?;
        match node {
            Node::Literal(value) => Ok(value.clone()),
            Node::Constant(constant) => Ok(constant.value.clone()),
            Node::Variable(name) => self.variable(name, name_price),
            Node::Local(position) => self.local(*position, name_price),
            Node::Select(select) => self.select(select, name_price),
            Node::Has(select) => self.has(select),
            Node::Index(index) => self.index(index, name_price),
            Node::Not(operand) => self.not(operand),
            Node::Negate(operand) => self.negate(operand),
            Node::And(operands) => self.decide(operands, false),
            Node::Or(operands) => self.decide(operands, true),
            Node::Conditional(operands) => self.conditional(operands),
            Node::Arithmetic(operator, weight, operands) => {
                self.arithmetic(*operator, *weight, operands)
            }
            Node::Relation(relation, weight, operands) => {
                self.relation(*relation, *weight, operands)
            }
            Node::List(elements) => self.list(elements),
            Node::Map(entries) => self.map(entries),
            Node::Empty(ty) => Ok(empty(ty)),
            Node::Object(made) => self.construct(made),
            Node::Call(call) => self.call(call),
            Node::Loop(each) => self.visit(each),
            Node::Bind(operands) => self.bind(operands),
            Node::OrElse(kind, operands) => self.or_else(*kind, operands),
            Node::OptionalMap(map) => self.optional_map(map),
        }
    }

    fn variable(&mut self, name: &str, name_price: u64) -> Evaluated<'v> {
        self.meter.pay(name_price)?;
        let bindings = self.bindings;
        match bindings.composed(name) {
            Some(composed) => {
                // It is a field of the variables.
                self.meter.pay(UNIT)?;
                self.composed(name, composed)
            }
            None => bindings.get(name),
        }
        .map(|value| self.read(value))
    }

    fn composed(&mut self, name: &str, composed: &Composed<'v>) -> Evaluated<'v> {
        if let Some(known) = composed.value.get() {
            return known.clone();
        }
        if self.composed_depth == COMPOSED_DEPTH_MAX {
            let text = format!("variables nest deeper than {COMPOSED_DEPTH_MAX} at {name}");
            return Err(Failure::new(text));
        }
        self.composed_depth += 1;
        let locals = std::mem::take(&mut self.locals);
        let outer = self.meter.begin_variable();
        let mut value = self.evaluate(composed.node);
        // One that costs too much is an error like any other to who reads it.
        if self.meter.end_variable(outer) {
            value = Err(Failure::new(COST_EXCEEDED));
        }
        self.locals = locals;
        self.composed_depth -= 1;
        let name = name.rsplit('.').next().unwrap_or(name);
        let value = value.map_err(|failure| failure.of_variable(name));
        composed.value.get_or_init(|| value).clone()
    }

    fn local(&mut self, position: usize, name_price: u64) -> Evaluated<'v> {
        let Some(local) = self.locals.get_mut(position) else {
            return Err(Failure::new("a local variable is not in scope"));
        };
        let price = std::mem::take(&mut local.price);
        self.meter.pay(name_price.saturating_add(price))?;
        let value = local.value.clone();
        value.map(|value| self.read(value))
    }

    fn not(&mut self, operand: &Node) -> Evaluated<'v> {
        self.meter.pay(UNIT)?;
        match self.evaluate(operand)?.0 {
            Kind::Bool(value) => Ok(Value::bool(!value)),
            _ => Err(Failure::NoOverload),
        }
    }

    /// `&&`, which `false` decides, and `||`, which `true` decides: whichever operand it is, and
    /// whatever becomes of the other.
    fn decide(&mut self, operands: &[Node; 2], deciding: bool) -> Evaluated<'v> {
        let [left, right] = operands;
        let left = match self.evaluate(left) {
            Ok(Value(Kind::Bool(value))) if value == deciding => return Ok(Value::bool(value)),
            Err(failure) if failure.is_final() => return Err(failure),
            left => left,
        };
        let right = match self.evaluate(right) {
            Ok(Value(Kind::Bool(value))) if value == deciding => return Ok(Value::bool(value)),
            Err(failure) if failure.is_final() => return Err(failure),
            right => right,
        };
        match (left?, right?) {
            (Value(Kind::Bool(_)), Value(Kind::Bool(_))) => Ok(Value::bool(!deciding)),
            _ => Err(Failure::NoOverload),
        }
    }

    fn conditional(&mut self, operands: &[Node; 3]) -> Evaluated<'v> {
        let side = self.side(operands)?;
        let value = self.unobserved(side)?;
        // What is selected is chosen as it is.
        if matches!(side, Node::Select(_) | Node::Index(_)) {
            return Ok(value);
        }
        Ok(self.read(value))
    }

    /// The side of a choice that is chosen.
    fn side<'n>(&mut self, operands: &'n [Node; 3]) -> Result<&'n Node, Failure> {
        let [condition, then, otherwise] = operands;
        match self.evaluate(condition)?.0 {
            Kind::Bool(true) => Ok(then),
            Kind::Bool(false) => Ok(otherwise),
            _ => Err(Failure::NoOverload),
        }
    }

    /// What comes of a value that is read from a variable or chosen: the cel-go of Kubernetes makes one optional of one in
    /// another, and of an empty one in another one with `null`.
    ///
    /// Source: `applyQualifiers` in `cel-go/interpreter/attributes.go` (0.26).
    fn read(&self, value: Value<'v>) -> Value<'v> {
        match &value.0 {
            Kind::Optional(Some(inner)) if self.flattens && is_flattened(inner) => {
                Value::some(flattened(inner))
            }
            _ => value,
        }
    }

    fn list(&mut self, elements: &[Element]) -> Evaluated<'v> {
        self.meter.pay(price::LIST)?;
        self.meter
            .grow(size_of::<Value<'v>>() as u64 * elements.len() as u64)?;
        let mut values = Vec::with_capacity(elements.len());
        for element in elements {
            let value = self.evaluate(&element.value)?;
            match (element.optional, value) {
                (false, value) => values.push(value),
                (true, Value(Kind::Optional(Some(value)))) => values.push((*value).clone()),
                (true, Value(Kind::Optional(None))) => {}
                (true, value) => return Err(not_optional(&value)),
            }
        }
        Ok(Value::list(values))
    }

    fn map(&mut self, entries: &[Entry]) -> Evaluated<'v> {
        self.meter.pay(price::MAP)?;
        self.meter.grow(ENTRY_BYTES * entries.len() as u64)?;
        let mut made = Vec::with_capacity(entries.len());
        for entry in entries {
            let key = self.evaluate(&entry.key)?;
            let value = match (entry.optional, self.evaluate(&entry.value)?) {
                (false, value) => value,
                (true, Value(Kind::Optional(Some(value)))) => (*value).clone(),
                (true, Value(Kind::Optional(None))) => continue,
                (true, value) => return Err(not_optional(&value)),
            };
            made.push((map_key(&key)?, value));
        }
        Ok(Value(Kind::Map(Map::of_last(made))))
    }

    fn construct(&mut self, made: &Construct) -> Evaluated<'v> {
        self.meter.pay(price::OBJECT)?;
        self.meter.grow(ENTRY_BYTES * made.fields.len() as u64)?;
        let mut fields = Vec::with_capacity(made.fields.len());
        for field in &made.fields {
            let value = match (field.optional, self.evaluate(&field.value)?) {
                (false, value) => value,
                (true, Value(Kind::Optional(Some(value)))) => (*value).clone(),
                (true, Value(Kind::Optional(None))) => continue,
                (true, value) => return Err(not_optional(&value)),
            };
            fields.push((Text::Shared(Arc::clone(&field.name)), value));
        }
        Ok(Value(Kind::Object(Arc::new(Object {
            name: Arc::clone(&made.name),
            fields: Map::of_text(fields),
        }))))
    }

    fn call(&mut self, call: &Call) -> Evaluated<'v> {
        match &*call.args {
            [] => self.dispatch(call, &[]),
            [only] => match self.evaluate(only) {
                Ok(value) => self.dispatch(call, &[value]),
                Err(failure) if failure.is_final() => Err(failure),
                Err(failure) => {
                    self.pay_call(call, &[Value::NULL], None)?;
                    Err(failure)
                }
            },
            [first, second] => {
                let (args, failure) = self.both(first, second)?;
                let Some(failure) = failure else {
                    return self.dispatch(call, &args);
                };
                self.pay_call(call, &args, None)?;
                Err(failure)
            }
            args => {
                let mut values = Vec::with_capacity(args.len());
                for arg in args {
                    match self.evaluate(arg) {
                        Ok(value) => values.push(value),
                        Err(failure) => return self.interrupted(call, values, failure),
                    }
                }
                self.dispatch(call, &values)
            }
        }
    }

    fn dispatch(&mut self, call: &Call, args: &[Value<'v>]) -> Evaluated<'v> {
        for arg in args {
            match &arg.0 {
                Kind::String(text) => self.meter.read_bytes(text.len())?,
                Kind::Bytes(bytes) => self.meter.read_bytes(bytes.len())?,
                _ => {}
            }
        }
        let result = self.first_fitting(call, args);
        if result.as_ref().is_err_and(Failure::is_final) {
            return result;
        }
        self.pay_call(call, args, result.as_ref().ok())?;
        result
    }

    /// A call of which an argument failed: cel-go counts it only if that is the last one.
    fn interrupted(
        &mut self,
        call: &Call,
        mut before: Vec<Value<'v>>,
        failure: Failure,
    ) -> Evaluated<'v> {
        before.push(Value::NULL);
        if before.len() == call.args.len() && !failure.is_final() {
            self.pay_call(call, &before, None)?;
        }
        Err(failure)
    }

    /// Both operands, and the failure of the first that failed: cel-go evaluates the other one too, and counts it. In the
    /// place of one that failed is `null`, which has the same size.
    fn both(&mut self, left: &Node, right: &Node) -> Result<Operands<'v>, Failure> {
        let left = self.evaluate(left);
        if let Err(failure) = &left
            && failure.is_final()
        {
            return Err(failure.clone());
        }
        match (left, self.evaluate(right)) {
            (Ok(left), Ok(right)) => Ok(([left, right], None)),
            (_, Err(failure)) if failure.is_final() => Err(failure),
            (Err(failure), right) => {
                Ok(([Value::NULL, right.unwrap_or(Value::NULL)], Some(failure)))
            }
            (Ok(left), Err(failure)) => Ok(([left, Value::NULL], Some(failure))),
        }
    }

    fn pay_call(
        &mut self,
        call: &Call,
        args: &[Value<'v>],
        made: Option<&Value<'v>>,
    ) -> Result<(), Failure> {
        let price = match call.price {
            Some(price) => price.of(args, made, &mut self.meter)?,
            None => UNIT,
        };
        self.meter.pay(price)
    }

    fn first_fitting(&mut self, call: &Call, args: &[Value<'v>]) -> Evaluated<'v> {
        let is_meant = match &call.takes {
            Some(takes) => takes.iter().zip(args).all(|(ty, value)| value.is_of(ty)),
            None => true,
        };
        for candidate in call.candidates.iter().filter(|_| is_meant) {
            match candidate(args, &mut self.meter) {
                Err(Failure::NoOverload) => {}
                result => return result,
            }
        }
        let types: Vec<&str> = args.iter().map(Value::type_name).collect();
        Err(Failure::new(format!(
            "no such overload: {}({})",
            call.name,
            types.join(", ")
        )))
    }

    fn bind(&mut self, operands: &[Node; 2]) -> Evaluated<'v> {
        let [value, body] = operands;
        let value = self.evaluate(value);
        self.with_local(Local { value, price: 0 }, body)
    }

    /// Evaluates a body with one more variable.
    fn with_local(&mut self, local: Local<'v>, body: &Node) -> Evaluated<'v> {
        self.locals.push(local);
        let result = self.evaluate(body);
        self.locals.pop();
        result
    }

    fn or_else(&mut self, kind: OrElse, operands: &[Node; 2]) -> Evaluated<'v> {
        let [left, right] = operands;
        match (self.evaluate(left)?, kind) {
            (Value(Kind::Optional(Some(value))), OrElse::Value) => Ok((*value).clone()),
            (value @ Value(Kind::Optional(Some(_))), OrElse::Optional) => Ok(value),
            (Value(Kind::Optional(None)), _) => self.evaluate(right),
            // The cel-go of Kubernetes does not look at what it is.
            (value, _) if self.flattens => Ok(value),
            _ => Err(Failure::NoOverload),
        }
    }

    /// `a.optMap(x, body)` is `a.hasValue() ? optional.of(cel.bind(x, a.value(), body)) : optional.none()`: the operand is
    /// paid for again where the variable is read first.
    fn optional_map(&mut self, map: &OptionalMap) -> Evaluated<'v> {
        let before = self.meter.cost();
        let operand = self.evaluate(&map.operand)?;
        self.meter.pay(UNIT)?;
        // An operand may have given back.
        let price = self.meter.cost().saturating_sub(before);
        let value = match operand.0 {
            Kind::Optional(Some(value)) => Ok((*value).clone()),
            Kind::Optional(None) => {
                self.meter.pay(UNIT)?;
                return Ok(Value::NONE);
            }
            _ => return Err(Failure::NoOverload),
        };
        let result = self.with_local(Local { value, price }, &map.body)?;
        self.meter.pay(if map.flat { 0 } else { UNIT })?;
        Ok(self.read(if map.flat {
            result
        } else {
            Value::some(result)
        }))
    }
}

/// The empty list or map of a type.
fn empty<'v>(ty: &DeclType) -> Value<'v> {
    match ty {
        DeclType::Map(_) => Value(Kind::Map(Map::of_last(Vec::new()))),
        _ => Value::list(Vec::new()),
    }
}

/// Whether a value of an optional changes where it is read.
fn is_flattened(value: &Value<'_>) -> bool {
    matches!(value.0, Kind::Optional(_) | Kind::Type(_))
}

fn flattened<'v>(value: &Value<'v>) -> Value<'v> {
    match &value.0 {
        Kind::Optional(Some(inner)) => flattened(inner),
        Kind::Optional(None) => Value::NULL,
        Kind::Type(name) => Value::string(*name),
        _ => value.clone(),
    }
}

fn not_optional(value: &Value<'_>) -> Failure {
    Failure::new(format!(
        "cannot initialize optional entry from non-optional value {value}"
    ))
}

/// A map's key must be text, an integer or a boolean.
fn map_key<'v>(value: &Value<'v>) -> Result<Key<'v>, Failure> {
    match value.0 {
        Kind::Double(_) => None,
        _ => Key::of(value),
    }
    .ok_or_else(|| Failure::new(format!("unsupported key type: {}", value.type_name())))
}
