//! What an expression costs at most, before there are values: by its text, and by how large its variables may be.
//!
//! kube-apiserver refuses definitions whose rules it estimates above a limit, so the figures are its own. It walks over
//! expressions whose macros are expanded; here a loop costs what its expansion would.
//!
//! Quirks are kept, because definitions pass or fail by them: a value that is no part of a variable has, below itself, the
//! sizes of the variable's own parts ([`Place`]), and what has no known length is as long as can be.
//!
//! Source: `cel-go/checker/cost.go`, `cel-go/ext/{lists,sets}.go`, `apiserver/pkg/cel/library/cost.go`.

mod calls;

use std::collections::BTreeMap;

use crate::declarations::Declarations;
use crate::library::opaque::Opaque;
use crate::node::{Arithmetic, Construct, Demand, Loop, Node, OptionalMap, Relation, Yields};
use crate::price::{LIST, MAP, OBJECT, TRAVERSAL, UNIT, scaled};
use crate::program::Program;
use crate::types::DeclType;
use crate::value::{Kind, Value};

/// How large a value of a variable may be, and its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// The most characters, bytes, items or entries; zero for what is counted by none of them.
    pub max: u64,
    /// Each item of a list, or each value of a map.
    pub element: Option<Box<Self>>,
    /// The fields of an object, by JSON name.
    pub fields: BTreeMap<String, Self>,
}

/// From how many to how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Size {
    min: u64,
    max: u64,
}

/// Which part of the variables a value is.
#[derive(Clone, Copy, Debug)]
enum Place<'s> {
    /// None of them.
    Nowhere,
    /// This one.
    At(&'s Sizes),
    /// A key of a map that is a part of them.
    Key,
    /// One of which nothing is known.
    Unknown,
}

/// What is known of a value.
#[derive(Clone, Debug)]
struct Known<'s> {
    cost: u64,
    ty: DeclType,
    place: Place<'s>,
    size: Option<Size>,
    /// The size of the elements of what the expression itself makes.
    element: Option<Size>,
}

const CALL: u64 = UNIT;
const NAME: u64 = UNIT;

/// One estimate.
struct Estimate<'a> {
    declarations: &'a Declarations,
    root: &'a Sizes,
    locals: Vec<Known<'a>>,
}

// === impl Program ===

impl Program {
    /// Estimates what one evaluation costs at most, in the units of Kubernetes. `sizes` is how large each declared variable
    /// may be.
    pub fn cost(&self, declarations: &Declarations, sizes: &Sizes) -> u64 {
        let mut estimate = Estimate {
            declarations,
            root: sizes,
            locals: Vec::new(),
        };
        estimate.node(self.node()).cost
    }
}

// === impl Estimate ===

impl<'a> Estimate<'a> {
    fn node(&mut self, node: &Node) -> Known<'a> {
        match node {
            Node::Literal(value) => self.literal(value),
            Node::Constant(constant) => self.node(&constant.written),
            Node::Variable(name) => self.variable(name),
            Node::Local(position) => self.local(*position),
            Node::Select(select) => {
                let operand = self.node(&select.operand);
                self.select(&operand, &select.field, select.demand)
            }
            // Kubernetes charges nothing for the question itself.
            Node::Has(select) => Known::new(self.node(&select.operand).cost, DeclType::Bool),
            Node::Index(index) => {
                let (operand, key) = (self.node(&index.operand), self.node(&index.key));
                self.index(&operand, &key, index.demand)
            }
            Node::Not(operand) => Known::new(add(CALL, self.node(operand).cost), DeclType::Bool),
            Node::Negate(operand) => {
                let operand = self.node(operand);
                Known::new(add(CALL, operand.cost), operand.ty)
            }
            Node::And(operands) | Node::Or(operands) => {
                let [left, right] = operands.each_ref().map(|it| self.node(it).cost);
                Known::new(add(left, right), DeclType::Bool)
            }
            Node::Conditional(parts) => {
                let [condition, then, otherwise] = parts.each_ref().map(|it| self.node(it));
                conditional(condition.cost, then, &otherwise)
            }
            Node::Arithmetic(operator, _, operands) => {
                let [left, right] = operands.each_ref().map(|it| self.node(it));
                arithmetic(*operator, left, &right)
            }
            Node::Relation(relation, _, operands) => {
                let [left, right] = operands.each_ref().map(|it| self.node(it));
                let cost = add(
                    compared(*relation, &left, &right),
                    add(left.cost, right.cost),
                );
                Known::new(cost, DeclType::Bool)
            }
            Node::List(elements) => {
                let elements = elements.iter().map(|it| self.node(&it.value));
                list(&elements.collect::<Vec<_>>())
            }
            Node::Map(entries) => {
                let entries = entries.iter();
                let entries = entries.map(|it| (self.node(&it.key), self.node(&it.value)));
                map(&entries.collect::<Vec<_>>())
            }
            Node::Empty(ty) => empty(ty),
            Node::Object(made) => self.construct(made),
            Node::Call(call) => {
                let args: Vec<_> = call.args.iter().map(|it| self.node(it)).collect();
                calls::known(call, &args, self.root)
            }
            Node::Loop(visit) => self.visit(visit),
            Node::Bind(parts) => {
                let [value, body] = &**parts;
                let value = self.node(value);
                // A binding is a loop over no element, which costs its list.
                let before = add(LIST, value.cost);
                let body = self.within(vec![value], body);
                let cost = add(before, body.cost);
                Known { cost, ..body }
            }
            Node::OrElse(_, operands) => {
                let [left, right] = operands.each_ref().map(|it| self.node(it));
                let cost = add(CALL, add(left.cost, right.cost));
                Known::new(cost, right.ty)
            }
            Node::OptionalMap(map) => self.optional_map(map),
        }
    }

    fn variable(&self, name: &str) -> Known<'a> {
        let ty = self.declarations.get(name).cloned();
        Known::new(NAME, ty.unwrap_or(DeclType::Dyn)).at(Place::At(self.root))
    }

    fn local(&self, position: usize) -> Known<'a> {
        match self.locals.get(position) {
            // Where it is comes before how large it was made.
            Some(local) => {
                let place = Known::new(NAME, local.ty.clone()).at(local.place);
                Known {
                    size: place.size.or(local.size),
                    element: local.element,
                    ..place
                }
            }
            None => Known::new(NAME, DeclType::Dyn),
        }
    }

    fn literal(&self, value: &Value<'static>) -> Known<'a> {
        let (cost, ty, max) = match &value.0 {
            Kind::String(text) => {
                let length = text.chars().count();
                (0, DeclType::String, Some(length))
            }
            Kind::Bytes(bytes) => (0, DeclType::Bytes, Some(bytes.len())),
            Kind::Opaque(Opaque::Pattern(pattern)) => {
                (0, DeclType::String, Some(pattern.source_length()))
            }
            Kind::Null => (0, DeclType::Null, Some(1)),
            Kind::Bool(_) => (0, DeclType::Bool, Some(1)),
            Kind::Int(_) => (0, DeclType::Int, Some(1)),
            Kind::Uint(_) => (0, DeclType::Uint, Some(1)),
            Kind::Double(_) => (0, DeclType::Double, Some(1)),
            // These were calls.
            Kind::Timestamp(_) => (CALL, DeclType::Timestamp, Some(1)),
            Kind::Duration(_) => (CALL, DeclType::Duration, Some(1)),
            Kind::Type(_) => {
                let ty = DeclType::Type(DeclType::Dyn.into());
                return Known::new(NAME, ty).at(Place::At(self.root));
            }
            Kind::List(_)
            | Kind::Map(_)
            | Kind::Object(_)
            | Kind::Optional(_)
            | Kind::Opaque(_) => (0, DeclType::Dyn, None),
        };
        let known = Known::new(cost, ty);
        match max {
            Some(length) => known.sized(Size::exactly(length)),
            None => known,
        }
    }

    fn construct(&mut self, made: &Construct) -> Known<'a> {
        let fields = made.fields.iter().map(|it| self.node(&it.value).cost);
        Known::new(fields.fold(OBJECT, add), DeclType::Dyn)
    }

    fn select(&self, operand: &Known<'a>, field: &str, demand: Demand) -> Known<'a> {
        let ty = field_type(&operand.ty, field, demand);
        if demand == Demand::Optional {
            return Known::new(add(CALL, operand.cost), ty);
        }
        let own = match operand.ty {
            DeclType::Map(_) | DeclType::Object(_) | DeclType::Param(_) => NAME,
            _ => 0,
        };
        let place = operand.place.field(&operand.ty, field, self.root);
        Known::new(add(own, operand.cost), ty).at(place)
    }

    fn index(&self, operand: &Known<'a>, key: &Known<'a>, demand: Demand) -> Known<'a> {
        let cost = add(CALL, add(operand.cost, key.cost));
        let ty = match operand.ty.unwrap_optional() {
            DeclType::List(list) => list.element.clone(),
            DeclType::Map(map) => map.value.clone(),
            _ => DeclType::Dyn,
        };
        if demand == Demand::Optional || matches!(operand.ty, DeclType::Optional(_)) {
            return Known::new(cost, DeclType::optional(ty));
        }
        // `null` has no element that would be known: it may be an optional.
        if operand.ty == DeclType::Null {
            return Known::new(cost, ty);
        }
        let known = Known::new(cost, ty).at(operand.place.element(self.root));
        match operand.element {
            Some(size) => known.sized(size),
            None => known,
        }
    }

    /// A macro that visits: its steps are those of the expansion.
    fn visit(&mut self, visit: &Loop) -> Known<'a> {
        let range = self.node(&visit.range);
        let range_size = range.size.unwrap_or(Size::ANY);
        let (range_cost, base) = (range.cost, self.locals.len());
        let mut types = element_types(&range.ty, visit.two);
        self.locals
            .extend(self.variables(&range, &mut types, visit.two));
        let key = self
            .locals
            .get(base)
            .map_or(DeclType::Dyn, |it| it.ty.clone());
        let filter = visit.filter.as_ref().map(|filter| self.node(filter).cost);
        let body = self.node(&visit.body);
        self.locals.truncate(base);
        let (begins, each, ends) = match visit.yields {
            Yields::All => (0, add(3, body.cost), 1),
            Yields::Exists => (0, add(4, body.cost), 1),
            Yields::ExistsOne => (0, add(2, body.cost), 2),
            Yields::List => (LIST, add(2 + LIST, body.cost), 1),
            Yields::Map => (MAP, add(3, body.cost), 1),
            Yields::MapEntry => (MAP, add(2, body.cost), 1),
        };
        let each = filter.map_or(each, |filter| add(filter, each));
        let cost = add(
            range_cost,
            add(begins + ends, range_size.max.saturating_mul(each)),
        );
        let of_body = body.size.unwrap_or(Size::ANY);
        match visit.yields {
            Yields::All | Yields::Exists | Yields::ExistsOne => Known::new(cost, DeclType::Bool),
            Yields::List => Known {
                element: Some(Size { min: 0, ..of_body }),
                ..Known::new(cost, DeclType::list(body.ty)).sized(range_size)
            },
            Yields::Map => Known::new(cost, DeclType::map(key, body.ty)).sized(range_size),
            Yields::MapEntry => Known::new(cost, body.ty).sized(range_size),
        }
    }

    /// The variables of a loop.
    fn variables(&self, range: &Known<'a>, types: &mut Vec<DeclType>, two: bool) -> Vec<Known<'a>> {
        let is_list = matches!(range.ty, DeclType::List(_));
        let element = range.place.element(self.root);
        let key = range.place.key(self.root);
        let places = match (two, is_list) {
            (true, true) => vec![Place::Unknown, element],
            (true, false) => vec![key, element],
            (false, true) => vec![element],
            (false, false) => vec![key],
        };
        let variables = types.drain(..).zip(places);
        let variables = variables.map(|(ty, place)| {
            let known = Known::new(NAME, ty).at(place);
            let fallback = range.element.filter(|_| is_list);
            Known {
                size: known.size.or(fallback),
                ..known
            }
        });
        variables.collect()
    }

    /// `a.optMap(x, body)` is `a.hasValue() ? optional.of(cel.bind(x, a.value(), body)) : optional.none()`.
    fn optional_map(&mut self, map: &OptionalMap) -> Known<'a> {
        let operand = self.node(&map.operand);
        let read = add(CALL, operand.cost);
        let inner = operand.ty.unwrap_optional().clone();
        let body = self.within(vec![Known::new(NAME, inner)], &map.body);
        let own = if map.flat { 0 } else { CALL };
        let some = add(own + LIST, add(read, body.cost));
        let ty = if map.flat {
            body.ty
        } else {
            DeclType::optional(body.ty)
        };
        Known::new(add(read, some.max(CALL)), ty)
    }

    fn within(&mut self, locals: Vec<Known<'a>>, body: &Node) -> Known<'a> {
        let base = self.locals.len();
        self.locals.extend(locals);
        let body = self.node(body);
        self.locals.truncate(base);
        body
    }
}

fn conditional<'s>(condition: u64, then: Known<'s>, otherwise: &Known<'s>) -> Known<'s> {
    let sizes = [then.size, otherwise.size].map(|it| it.unwrap_or(Size::ANY));
    let element = match (then.element, otherwise.element) {
        (Some(one), Some(other)) => Some(one.or(other)),
        _ => None,
    };
    let [one, other] = sizes;
    let cost = add(condition, then.cost.max(otherwise.cost));
    let ty = if then.ty.is_dyn() {
        then.ty
    } else {
        otherwise.ty.clone()
    };
    let known = Known::new(cost, ty).sized(one.or(other));
    Known { element, ..known }
}

fn arithmetic<'s>(operator: Arithmetic, left: Known<'s>, right: &Known<'s>) -> Known<'s> {
    let cost = add(left.cost, right.cost);
    let ty = if left.ty.is_dyn() {
        right.ty.clone()
    } else {
        left.ty
    };
    let has_length = matches!(
        ty,
        DeclType::String | DeclType::Bytes | DeclType::List(_) | DeclType::Dyn | DeclType::Param(_)
    );
    if operator != Arithmetic::Add || !has_length {
        let ty = match (operator, &ty, &right.ty) {
            (Arithmetic::Subtract, DeclType::Timestamp, DeclType::Timestamp) => DeclType::Duration,
            _ => ty,
        };
        return Known::new(add(CALL, cost), ty);
    }
    let sizes = [left.size, right.size].map(|it| it.unwrap_or(Size::ANY));
    let sum = sizes[0].plus(sizes[1]);
    let own = match ty {
        DeclType::List(_) => CALL,
        DeclType::String | DeclType::Bytes => scaled(sum.max, TRAVERSAL),
        _ => scaled(sum.max, TRAVERSAL).max(CALL),
    };
    let element = match (left.element, right.element) {
        (Some(one), Some(other)) => Some(one.or(other)),
        _ => None,
    };
    Known {
        element,
        ..Known::new(add(own, cost), ty).sized(sum)
    }
}

/// What a comparison itself costs.
fn compared(relation: Relation, left: &Known<'_>, right: &Known<'_>) -> u64 {
    let sizes = [left.size, right.size].map(|it| it.unwrap_or(Size::ANY));
    let by_length = scaled(sizes[0].max.min(sizes[1].max), TRAVERSAL);
    let is_any = |ty: &DeclType| matches!(ty, DeclType::Dyn | DeclType::Param(_));
    match relation {
        Relation::Equal if left.ty == right.ty => match left.ty {
            DeclType::Opaque(name) => calls::equality(name),
            _ => by_length,
        },
        Relation::Equal | Relation::NotEqual => by_length,
        Relation::In => match &right.ty {
            DeclType::Map(_) => CALL,
            DeclType::List(_) => sizes[1].max,
            _ => sizes[1].max.max(CALL),
        },
        Relation::Less | Relation::LessOrEqual | Relation::Greater | Relation::GreaterOrEqual => {
            let has_length = |ty: &DeclType| matches!(ty, DeclType::String | DeclType::Bytes);
            if has_length(&left.ty) || has_length(&right.ty) {
                by_length
            } else if is_any(&left.ty) && is_any(&right.ty) {
                by_length.max(CALL)
            } else {
                CALL
            }
        }
    }
}

fn list<'s>(elements: &[Known<'s>]) -> Known<'s> {
    let cost = elements.iter().fold(LIST, |sum, it| add(sum, it.cost));
    let sizes = elements.iter().map(|it| it.size.unwrap_or(Size::ANY));
    let element = sizes.reduce(Size::or).unwrap_or(Size { min: 0, max: 0 });
    let ty = elements.first().map_or(DeclType::Dyn, |it| it.ty.clone());
    Known {
        element: Some(element),
        ..Known::new(cost, DeclType::list(ty)).sized(Size::exactly(elements.len()))
    }
}

fn map<'s>(entries: &[(Known<'s>, Known<'s>)]) -> Known<'s> {
    let costs = entries.iter().map(|(key, value)| add(key.cost, value.cost));
    let cost = costs.fold(MAP, add);
    let sizes = entries
        .iter()
        .map(|(_, value)| value.size.unwrap_or(Size::ANY));
    let element = sizes.reduce(Size::or).unwrap_or(Size { min: 0, max: 0 });
    let ty = entries.first().map_or_else(
        || DeclType::map(DeclType::Dyn, DeclType::Dyn),
        |(key, value)| DeclType::map(key.ty.clone(), value.ty.clone()),
    );
    Known {
        element: Some(element),
        ..Known::new(cost, ty).sized(Size::exactly(entries.len()))
    }
}

fn empty<'s>(ty: &DeclType) -> Known<'s> {
    let made = match ty {
        DeclType::Map(_) => map(&[]),
        _ => list(&[]),
    };
    let ty = ty.clone();
    Known { ty, ..made }
}

fn element_types(range: &DeclType, two: bool) -> Vec<DeclType> {
    match (range, two) {
        (DeclType::List(list), true) => vec![DeclType::Int, list.element.clone()],
        (DeclType::List(list), false) => vec![list.element.clone()],
        (DeclType::Map(map), true) => vec![map.key.clone(), map.value.clone()],
        (DeclType::Map(map), false) => vec![map.key.clone()],
        (_, true) => vec![DeclType::Dyn, DeclType::Dyn],
        (_, false) => vec![DeclType::Dyn],
    }
}

fn field_type(operand: &DeclType, field: &str, demand: Demand) -> DeclType {
    let ty = match operand.unwrap_optional() {
        DeclType::Map(map) => map.value.clone(),
        DeclType::Object(object) => {
            let found = object.field(field);
            found.map_or(DeclType::Dyn, |(_, ty)| ty.clone())
        }
        _ => DeclType::Dyn,
    };
    if demand == Demand::Optional || matches!(operand, DeclType::Optional(_)) {
        return DeclType::optional(ty);
    }
    ty
}

fn add(left: u64, right: u64) -> u64 {
    left.saturating_add(right)
}

/// Whether values of a type all have one size.
fn is_scalar(ty: &DeclType) -> bool {
    matches!(
        ty.unwrap_optional(),
        DeclType::Bool
            | DeclType::Double
            | DeclType::Duration
            | DeclType::Int
            | DeclType::Timestamp
            | DeclType::Uint
    )
}

// === impl Size ===

impl Size {
    /// Of which nothing is known.
    const ANY: Self = Self {
        min: 0,
        max: u64::MAX,
    };

    fn exactly(count: usize) -> Self {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        Self {
            min: count,
            max: count,
        }
    }

    fn up_to(max: u64) -> Self {
        Self { min: 0, max }
    }

    fn or(self, other: Self) -> Self {
        Self {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            min: add(self.min, other.min),
            max: add(self.max, other.max),
        }
    }

    fn times(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_mul(other.min),
            max: self.max.saturating_mul(other.max),
        }
    }
}

// === impl Place ===

impl<'s> Place<'s> {
    /// The place of the elements.
    fn element(self, root: &'s Sizes) -> Self {
        match self {
            Self::Nowhere => Self::At(root),
            Self::At(sizes) => sizes.element.as_deref().map_or(Self::Unknown, Self::At),
            Self::Key | Self::Unknown => Self::Unknown,
        }
    }

    /// The place of the keys.
    fn key(self, root: &'s Sizes) -> Self {
        match self {
            Self::Nowhere => Self::At(root),
            Self::At(_) => Self::Key,
            Self::Key | Self::Unknown => Self::Unknown,
        }
    }

    /// The place of a field.
    fn field(self, ty: &DeclType, field: &str, root: &'s Sizes) -> Self {
        let sizes = match self {
            Self::Nowhere => return Self::At(root),
            Self::At(sizes) => sizes,
            Self::Key | Self::Unknown => return Self::Unknown,
        };
        let name = match ty {
            DeclType::Object(object) => object.field(field).map_or(field, |(name, _)| name),
            _ => field,
        };
        sizes.fields.get(name).map_or(Self::Unknown, Self::At)
    }

    fn size(self) -> Option<Size> {
        match self {
            Self::At(sizes) => Some(Size::up_to(sizes.max)),
            Self::Key => Some(Size::up_to(0)),
            Self::Nowhere | Self::Unknown => None,
        }
    }
}

// === impl Known ===

impl<'s> Known<'s> {
    fn new(cost: u64, ty: DeclType) -> Self {
        let size = is_scalar(&ty).then_some(Size { min: 1, max: 1 });
        Self {
            cost,
            ty,
            place: Place::Nowhere,
            size,
            element: None,
        }
    }

    fn at(self, place: Place<'s>) -> Self {
        Self {
            place,
            size: place.size().or(self.size),
            ..self
        }
    }

    fn sized(self, size: Size) -> Self {
        Self {
            size: Some(size),
            ..self
        }
    }
}

#[cfg(test)]
mod tests;
