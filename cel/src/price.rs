//! What evaluating costs in Kubernetes, which ends expressions that cost too much.
//!
//! The evaluator pays as it goes ([`crate::budget`]): a unit for a name, for a field or an index, and for most calls; this
//! is what costs something else. Calls of which only the values tell what they are cost one unit, whatever they do: the
//! checker did not settle on one overload. In kro's environment everything costs one unit, and there is no limit.
//!
//! Source: `cel-go/interpreter/runtimecost.go`, `cel-go/ext/{lists,sets}.go`, `apiserver/pkg/cel/library/cost.go`.

use crate::budget::Meter;
use crate::error::Failure;
use crate::library::Style;
use crate::library::opaque::Opaque;
use crate::types::DeclType;
use crate::value::{Kind, Value};

/// A name, a field, an index, or a call.
pub(crate) const UNIT: u64 = 1;
pub(crate) const LIST: u64 = 10;
pub(crate) const MAP: u64 = 30;
pub(crate) const OBJECT: u64 = 40;
/// A character that is read.
pub(crate) const TRAVERSAL: f64 = 0.1;
/// A character of a pattern, per unit of what the text costs.
pub(crate) const PATTERN: f64 = 0.25;

/// One check of rights: two fit into one expression.
pub(crate) const CHECK: u64 = 350_000;

/// What a call costs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Price {
    /// By what it takes.
    Taken(for<'v> fn(&[Value<'v>]) -> u64),
    /// By the size of what it makes.
    Made(fn(u64) -> u64),
    /// By a walk through what it takes, or with something to give back.
    Walked(for<'v> fn(&[Value<'v>], &mut Meter) -> Result<u64, Failure>),
}

/// What an operator costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    /// Nothing: Kubernetes looks into a set that it made of a list of constants.
    Free,
    /// One unit.
    Unit,
    /// By how long the operands are.
    Length,
}

// === impl Price ===

impl Price {
    /// What a call costs, where that is not one unit. `resolved` is what the overload takes on which the checker settled.
    pub(crate) fn of_call(name: &str, style: Style, resolved: Option<&[DeclType]>) -> Option<Self> {
        let is_resolved = resolved.is_some();
        Some(match name {
            "check" => Self::Taken(|_| CHECK),
            "fieldSelector" | "labelSelector" => Self::Taken(|args| selector(length(args, 1))),
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
                Self::Walked(|args, meter| args.first().map_or(Ok(0), |it| traversal(it, meter)))
            }
            "url"
            | "lowerAscii"
            | "upperAscii"
            | "substring"
            | "trim"
            | "jsonpatch.escapeKey"
            | "cidr"
            | "isIP"
            | "isCIDR"
            | "quantity"
            | "isQuantity"
            | "semver"
            | "isSemver" => Self::Taken(read),
            "ip" if style == Style::Global => Self::Taken(read),
            "replace" | "split" | "ip.isCanonical" => Self::Taken(|args| twice(length(args, 0))),
            "join" => Self::Made(twice),
            "find" | "findAll" => Self::Taken(matched),
            "containsIP" | "containsCIDR" => Self::Taken(contains(name, resolved?)),
            "validate" => Self::Taken(validated),
            "startsWith" | "endsWith" | "format" | "strings.quote" if is_resolved => {
                Self::Taken(read)
            }
            "bytes" if resolved == Some(&[DeclType::String]) => Self::Taken(read),
            "string" if resolved == Some(&[DeclType::Bytes]) => Self::Taken(read),
            "matches" if style == Style::Member => Self::Taken(matched),
            "contains" => Self::Taken(searched),
            "sets.contains" | "sets.intersects" => Self::Taken(|args| compared(args, 1)),
            "sets.equivalent" => Self::Taken(|args| compared(args, 2)),
            "flatten" => Self::Walked(flattened),
            "slice" | "lists.range" | "reverse" => {
                Self::Made(|size| size.saturating_add(UNIT + LIST))
            }
            "distinct" => Self::Taken(|args| sorted(args.first())),
            "sort" if is_resolved => Self::Taken(|args| sorted(args.first())),
            "@sortByAssociatedKeys" if is_resolved => Self::Taken(|args| sorted(args.get(1))),
            _ => return None,
        })
    }

    /// What a call costs with these arguments. What failed made nothing, which counts as one.
    pub(crate) fn of(
        self,
        args: &[Value<'_>],
        made: Option<&Value<'_>>,
        meter: &mut Meter,
    ) -> Result<u64, Failure> {
        match self {
            Self::Taken(price) => Ok(price(args)),
            Self::Made(price) => Ok(price(made.map_or(1, size))),
            Self::Walked(price) => price(args, meter),
        }
    }
}

// === impl Weight ===

impl Weight {
    fn price(self, by_length: impl FnOnce() -> u64) -> u64 {
        match self {
            Self::Free => 0,
            Self::Unit => UNIT,
            Self::Length => by_length(),
        }
    }
}

/// What `+` costs.
pub(crate) fn of_sum(weight: Weight, left: &Value<'_>, right: &Value<'_>) -> u64 {
    weight.price(|| scaled(size(left).saturating_add(size(right)), TRAVERSAL))
}

/// What it costs to compare two values.
pub(crate) fn of_comparison(weight: Weight, left: &Value<'_>, right: &Value<'_>) -> u64 {
    weight.price(|| scaled(size(left).min(size(right)), TRAVERSAL))
}

/// How large a value is to cel-go: characters, bytes, items or entries, and one for what has none of them.
///
/// Source: `actualSize` in `cel-go/interpreter/runtimecost.go`.
pub(crate) fn size(value: &Value<'_>) -> u64 {
    let count = match &value.0 {
        Kind::String(text) => text.chars().count(),
        Kind::Bytes(bytes) => bytes.len(),
        Kind::List(list) => list.len(),
        Kind::Map(map) => map.len(),
        Kind::Optional(Some(inner)) => return size(inner),
        Kind::Opaque(Opaque::Ip(address)) => {
            if address.is_ipv4() {
                4
            } else {
                16
            }
        }
        Kind::Opaque(Opaque::Cidr(cidr)) => usize::from(cidr.prefix_bits()).div_ceil(8),
        Kind::Opaque(Opaque::Pattern(pattern)) => pattern.source_length(),
        _ => 1,
    };
    count as u64
}

/// Multiplies and rounds up, as Go does: with the errors of binary fractions.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the figures are those of Kubernetes, bit by bit; a cast ends at the largest number"
)]
pub(crate) fn scaled(count: u64, factor: f64) -> u64 {
    (count as f64 * factor).ceil() as u64
}

/// Multiplies as Go does where one factor is a float.
#[expect(
    clippy::cast_precision_loss,
    reason = "the figures are those of Kubernetes, bit by bit"
)]
pub(crate) fn times_float(count: u64, factor: u64) -> u64 {
    scaled(count, factor as f64)
}

fn length(args: &[Value<'_>], index: usize) -> u64 {
    args.get(index).map_or(1, size)
}

fn read(args: &[Value<'_>]) -> u64 {
    scaled(length(args, 0), TRAVERSAL)
}

/// What is read and made again.
fn twice(characters: u64) -> u64 {
    scaled(characters, 2.0 * TRAVERSAL)
}

fn searched(args: &[Value<'_>]) -> u64 {
    let part = scaled(length(args, 1), TRAVERSAL);
    read(args).saturating_mul(part)
}

fn matched(args: &[Value<'_>]) -> u64 {
    let pattern = scaled(length(args, 1), PATTERN);
    text(args, 0).saturating_mul(pattern)
}

/// One more than its length, so that a long pattern is not free on an empty text.
fn text(args: &[Value<'_>], index: usize) -> u64 {
    scaled(length(args, index).saturating_add(1), TRAVERSAL)
}

/// A format is a pattern of which the length is known.
fn validated(args: &[Value<'_>]) -> u64 {
    match args.first() {
        Some(Value(Kind::Opaque(Opaque::Format(format)))) => {
            let pattern = scaled(format.pattern_length(), PATTERN);
            text(args, 1).saturating_mul(pattern)
        }
        _ => UNIT,
    }
}

/// What is looked for in a network is read first where it is text.
fn contains(name: &str, resolved: &[DeclType]) -> for<'v> fn(&[Value<'v>]) -> u64 {
    let is_text = resolved.get(1) == Some(&DeclType::String);
    match (name, is_text) {
        ("containsIP", false) => |args| scaled(2 * length(args, 0), TRAVERSAL),
        ("containsIP", true) => |args| {
            let compared = scaled(2 * length(args, 0), TRAVERSAL);
            compared + scaled(length(args, 1), TRAVERSAL)
        },
        (_, false) => |args| network(args),
        (_, true) => |args| network(args) + scaled(length(args, 1), TRAVERSAL),
    }
}

fn network(args: &[Value<'_>]) -> u64 {
    let bytes = length(args, 0);
    scaled(2 * bytes, TRAVERSAL) + scaled(bytes, TRAVERSAL) + UNIT
}

/// What it costs to read a selector of so many characters, and to make its requirements.
///
/// Source: `selectorCostEstimate` in `apiserver/pkg/cel/library/cost.go`.
pub(crate) fn selector(characters: u64) -> u64 {
    let requirements = scaled(scaled(characters, 0.5), 50.0);
    let read = scaled(characters, TRAVERSAL);
    LIST.saturating_add(read).saturating_add(requirements)
}

fn compared(args: &[Value<'_>], factor: u64) -> u64 {
    let pairs = length(args, 0).saturating_mul(length(args, 1));
    pairs.saturating_mul(factor).saturating_add(UNIT)
}

/// What a call of `flatten` costs: the elements times how deep they are looked into. A depth below zero gives back.
///
/// Source: `trackListFlatten` in `cel-go/ext/lists.go`.
fn flattened(args: &[Value<'_>], meter: &mut Meter) -> Result<u64, Failure> {
    let count = args.first().map_or(1, size);
    let own = UNIT + LIST;
    match args.get(1) {
        Some(Value(Kind::Int(depth @ ..0))) => {
            let below = depth.unsigned_abs().saturating_mul(count);
            meter.refund(below.saturating_sub(own))?;
            Ok(own.saturating_sub(below))
        }
        Some(Value(Kind::Int(depth))) => {
            Ok(own.saturating_add(times_float(count, depth.cast_unsigned())))
        }
        _ => Ok(own.saturating_add(count)),
    }
}

/// Every element is compared with every other one.
///
/// Source: `trackListSelfCompare` in `cel-go/ext/lists.go`.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the figure of Kubernetes, bit by bit; a cast ends at the largest number"
)]
fn sorted(list: Option<&Value<'_>>) -> u64 {
    let (count, first) = match list {
        Some(Value(Kind::List(list))) => (list.len() as u64, list.get(0)),
        _ => (1, None),
    };
    let factor = match first {
        Some(Ok(Value(Kind::String(_) | Kind::Bytes(_)))) => 2.0 + TRAVERSAL,
        _ => 2.0,
    };
    let pairs = count.saturating_mul(count);
    UNIT + LIST + (pairs as f64 * factor) as u64
}

/// What it costs to look at a value and everything in it. Texts cost a tenth of their bytes, rounded down.
///
/// Source: `traversalCost` in `apiserver/pkg/cel/library/cost.go`.
fn traversal(value: &Value<'_>, meter: &mut Meter) -> Result<u64, Failure> {
    meter.charge(1)?;
    let mut sum: u64 = 0;
    match &value.0 {
        Kind::String(text) => return Ok(text.len() as u64 / 10),
        Kind::Bytes(bytes) => return Ok(bytes.len() as u64 / 10),
        Kind::List(list) => {
            for item in list.iter() {
                sum = sum.saturating_add(traversal(&item?, meter)?);
            }
        }
        Kind::Map(map) => {
            for (key, value) in map.entries()? {
                sum = sum.saturating_add(traversal(&key.value(), meter)?);
                sum = sum.saturating_add(traversal(&value, meter)?);
            }
        }
        _ => return Ok(UNIT),
    }
    Ok(sum)
}
