//! What calls cost, and how long what they return may be.
//!
//! A function that is not listed costs one unit and its arguments.

use super::{CALL, Known, Place, Size, Sizes, add};
use crate::node::{Call, Node};
use crate::price::{CHECK, LIST, PATTERN, TRAVERSAL, scaled, selector, times_float};
use crate::types::DeclType;
use crate::value::{Kind, Value};

/// Source: `MaxNameFormatRegexSize`.
const NAMED_FORMAT_PATTERN_COST: u64 = 32;

/// The receiver and the other arguments of a call.
struct Parts<'a, 's> {
    call: &'a Call,
    target: Option<&'a Known<'s>>,
    args: &'a [Known<'s>],
    root: &'s Sizes,
}

/// What a call costs by itself, and the size of what it returns, where that is known.
type Estimated = Option<(u64, Option<Size>)>;

/// What is known of the value of a call.
pub(super) fn known<'s>(call: &Call, all: &[Known<'s>], root: &'s Sizes) -> Known<'s> {
    let of_args = all.iter().fold(0, |sum, arg| add(sum, arg.cost));
    let (target, args) = match all.split_first() {
        Some((target, args)) if call.is_member => (Some(target), args),
        _ => (None, all),
    };
    let parts = Parts {
        call,
        target,
        args,
        root,
    };
    if let ("dyn", [arg]) = (&*call.name, args) {
        let mut known = Known::new(add(CALL, of_args), call.yields.clone());
        (known.size, known.element) = (arg.size, arg.element);
        return known;
    }
    let estimated = parts
        .listed()
        .or_else(|| parts.of_lists())
        .or_else(|| parts.standard());
    let (own, size) = estimated.unwrap_or((CALL, None));
    let known = Known::new(add(own, of_args), call.yields.clone());
    match size {
        Some(size) => known.sized(size),
        None => known,
    }
}

/// What it costs to compare two values of a library's own type.
pub(super) fn equality(name: &str) -> u64 {
    match name {
        "kubernetes.NamedFormat" => scaled(64, TRAVERSAL),
        _ => CALL,
    }
}

fn size_of(known: &Known<'_>) -> Size {
    known.size.unwrap_or(Size::ANY)
}

/// The cost of reading a text, or a pattern, once.
fn read(size: Size, factor: f64) -> u64 {
    scaled(size.max, factor)
}

fn matched(text: Size, pattern: Size) -> u64 {
    // One more, so that a long pattern is not free on an empty text.
    let text = scaled(add(text.max, 1), TRAVERSAL);
    text.saturating_mul(read(pattern, PATTERN))
}

// === impl Parts ===

impl Parts<'_, '_> {
    /// Functions of Kubernetes' own libraries.
    fn listed(&self) -> Estimated {
        let name = &*self.call.name;
        let target = self.target.map(size_of);
        let first = self.args.first().map(size_of);
        Some(match (name, target, first) {
            ("check", ..) => (CHECK, None),
            ("fieldSelector" | "labelSelector", Some(_), Some(size)) => (selector(size.max), None),
            ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", Some(size), _) => {
                (self.searched(size), None)
            }
            ("url" | "jsonpatch.escapeKey", None, Some(size))
            | ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(size), _) => {
                (read(size, TRAVERSAL), Some(size))
            }
            ("replace", Some(size), Some(old)) => {
                let new = self.args.get(1).map(size_of)?;
                (read(size, 2.0 * TRAVERSAL), Some(replaced(size, old, new)))
            }
            ("split", Some(size), _) => {
                let limit = self.call.args.get(2).and_then(integer);
                let size_max = limit.unwrap_or(size.max);
                (read(size, 2.0 * TRAVERSAL), Some(Size::up_to(size_max)))
            }
            ("join", Some(size), separator) => {
                let joined = self.joined(size, separator);
                (read(joined, TRAVERSAL), Some(joined))
            }
            ("find" | "findAll", Some(size), Some(pattern)) => {
                (matched(size, pattern), Some(Size::up_to(size.max)))
            }
            (
                "cidr" | "isIP" | "isCIDR" | "quantity" | "isQuantity" | "semver" | "isSemver",
                _,
                Some(size),
            )
            | ("ip", None, Some(size)) => (read(size, TRAVERSAL), None),
            ("ip.isCanonical", _, Some(size)) => (read(size, 2.0 * TRAVERSAL), None),
            ("validate", _, Some(size)) => (
                read(size, TRAVERSAL).saturating_mul(NAMED_FORMAT_PATTERN_COST),
                None,
            ),
            // Two addresses of up to 16 bytes are compared; what is text is read first.
            ("containsIP", _, Some(size)) => (add(scaled(32, TRAVERSAL), self.text(size)), None),
            ("containsCIDR", _, Some(size)) => {
                let compared = add(scaled(32, TRAVERSAL), scaled(16, TRAVERSAL) + 1);
                (add(compared, self.text(size)), None)
            }
            _ => return None,
        })
    }

    fn text(&self, size: Size) -> u64 {
        let is_text = self
            .args
            .first()
            .is_some_and(|it| it.ty.is_dyn() || it.ty == DeclType::String);
        if is_text { read(size, TRAVERSAL) } else { 0 }
    }

    /// The type of the items of the receiver, and their size.
    fn items(&self) -> Option<(&DeclType, Size)> {
        let target = self.target?;
        let DeclType::List(list) = &target.ty else {
            return None;
        };
        let size = match target.place {
            Place::Nowhere => None,
            place => place.element(self.root).size(),
        };
        Some((&list.element, size.unwrap_or(Size::ANY)))
    }

    fn searched(&self, size: Size) -> u64 {
        match self.items() {
            Some((DeclType::String | DeclType::Bytes, item)) => {
                size.max.saturating_mul(add(1, read(item, TRAVERSAL)))
            }
            Some(_) => size.max,
            None => read(size, TRAVERSAL),
        }
    }

    fn joined(&self, size: Size, separator: Option<Size>) -> Size {
        let joined = self.items().map(|(_, item)| size.times(item));
        let joined = joined.unwrap_or(Size::up_to(0));
        let between = Size {
            min: size.min.saturating_sub(1),
            max: size.max.saturating_sub(1),
        };
        separator.map_or(joined, |separator| joined.plus(separator.times(between)))
    }

    /// Functions of cel-go's libraries of lists and sets.
    fn of_lists(&self) -> Estimated {
        let made = |size: Size, factor: f64| {
            let cost = add(scaled(size.max, factor), CALL + LIST);
            Some((cost, Some(size)))
        };
        let target = self.target.map(size_of);
        match (&*self.call.name, target, self.args) {
            ("sets.contains" | "sets.intersects", None, [left, right]) => {
                let product = size_of(left).times(size_of(right));
                Some((add(scaled(product.max, 1.0), CALL), None))
            }
            ("sets.equivalent", None, [left, right]) => {
                let product = size_of(left).times(size_of(right));
                Some((add(scaled(product.max, 2.0), CALL), None))
            }
            ("lists.range", None, [_]) => {
                let count = self.call.args.first().and_then(natural);
                let count = count.unwrap_or(u64::MAX);
                made(
                    Size {
                        min: count,
                        max: count,
                    },
                    1.0,
                )
            }
            ("slice", Some(size), [_, _]) => {
                let bound = |index| self.call.args.get(index).and_then(natural);
                let (start, end) = (bound(1).unwrap_or(0), bound(2).unwrap_or(size.max));
                // It runs over below zero, as in Go.
                let count = end.wrapping_sub(start);
                made(
                    Size {
                        min: count,
                        max: count,
                    },
                    1.0,
                )
            }
            ("reverse" | "flatten", Some(size), []) => made(size, 1.0),
            ("flatten", Some(size), [_]) => {
                let depth = self.call.args.get(1).and_then(natural).unwrap_or(u64::MAX);
                let cost = times_float(size.max, depth);
                Some((add(cost, CALL + LIST), Some(size)))
            }
            ("distinct", Some(size), []) => made(size.times(size), 2.0),
            ("sort", Some(size), []) => {
                let is_text = self.target.is_some_and(|it| sorts_text(&it.ty));
                made(
                    size.times(size),
                    if is_text { 2.0 + TRAVERSAL } else { 2.0 },
                )
            }
            ("@sortByAssociatedKeys", Some(_), [keys]) => {
                let size = size_of(keys);
                let is_text = sorts_text(&keys.ty);
                made(
                    size.times(size),
                    if is_text { 2.0 + TRAVERSAL } else { 2.0 },
                )
            }
            _ => None,
        }
    }

    /// Functions of the language and of cel-go's library of texts.
    fn standard(&self) -> Estimated {
        let target = self.target.map(size_of);
        let first = self.args.first();
        let size = first.map(size_of);
        let is = |ty: &DeclType| first.is_some_and(|it| it.ty.is_dyn() || it.ty == *ty);
        // Of what is not known, the other overloads count as well.
        let any = first.map_or(0, |it| if it.ty.is_dyn() { CALL } else { 0 });
        Some(match (&*self.call.name, target, size) {
            ("bytes", None, Some(size)) if is(&DeclType::String) => {
                // It runs over, as in Go.
                let made = Size {
                    min: size.min,
                    max: size.max.wrapping_mul(4),
                };
                (any.max(read(size, TRAVERSAL)), Some(made))
            }
            ("string", None, Some(size)) if is(&DeclType::Bytes) => {
                let made = Size {
                    min: size.min / 4,
                    max: size.max,
                };
                (any.max(read(size, TRAVERSAL)), Some(made))
            }
            ("strings.quote", None, Some(size)) => {
                // It runs over, as in Go.
                let made = Size {
                    min: add(size.min, 2),
                    max: size.max.wrapping_mul(2).wrapping_add(2),
                };
                (read(size, TRAVERSAL), Some(made))
            }
            ("format", Some(size), _) | ("startsWith" | "endsWith", _, Some(size)) => {
                (read(size, TRAVERSAL), None)
            }
            ("matches", Some(size), Some(pattern)) => (matched(size, pattern), None),
            ("contains", Some(size), Some(part)) => (
                read(size, TRAVERSAL).saturating_mul(read(part, TRAVERSAL)),
                None,
            ),
            _ => return None,
        })
    }
}

/// Whether texts or bytes may be sorted: of what is not known, every overload counts.
fn sorts_text(list: &DeclType) -> bool {
    match list {
        DeclType::List(list) => {
            list.element.is_dyn() || matches!(list.element, DeclType::String | DeclType::Bytes)
        }
        ty => ty.is_dyn(),
    }
}

/// How long a text is whose parts are replaced. What is empty stands around every character.
fn replaced(size: Size, old: Size, new: Size) -> Size {
    let (count, kept) = if old.min == 0 {
        (add(size.max, 1), size.max)
    } else if new.max <= old.min {
        (0, size.max)
    } else {
        (size.max.div_ceil(old.min), 0)
    };
    let max = add(count.saturating_mul(new.max), kept);
    let (count, kept) = if old.max == 0 {
        (add(size.min, 1), size.min)
    } else if old.max <= new.min {
        (0, size.min)
    } else {
        (size.min.div_ceil(old.max), 0)
    };
    let min = add(count.saturating_mul(new.min), kept);
    Size { min, max }
}

/// An integer that is written down, or zero for one below zero.
fn natural(node: &Node) -> Option<u64> {
    match node.written() {
        Node::Literal(Value(Kind::Int(value))) => Some(u64::try_from(*value).unwrap_or(0)),
        _ => None,
    }
}

/// An integer that is written down; one below zero runs over, as in Go.
fn integer(node: &Node) -> Option<u64> {
    match node.written() {
        Node::Literal(Value(Kind::Int(value))) => Some(value.cast_unsigned()),
        _ => None,
    }
}
