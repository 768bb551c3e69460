//! Which types fit where, with type variables.
//!
//! Source: `cel-go/checker/types.go`, whose names are in the comments.

use std::sync::Arc;

use crate::types::{DeclType, ListType, MapType};

/// What the type variables of one compilation stand for.
#[derive(Debug, Default)]
pub(super) struct Mapping {
    bound: Vec<Option<DeclType>>,
    /// What was bound before, for the assignment that is being tried.
    undo: Vec<(u32, Option<DeclType>)>,
}

// === impl Mapping ===

impl Mapping {
    /// Makes a variable that stands for nothing yet.
    pub(super) fn fresh(&mut self) -> DeclType {
        let index = u32::try_from(self.bound.len()).unwrap_or(u32::MAX);
        self.bound.push(None);
        DeclType::Param(index)
    }

    /// Replaces bound variables; unbound ones stay, or become `dyn` in [`Self::resolve`].
    pub(super) fn substitute(&self, ty: &DeclType) -> DeclType {
        self.replace(ty, false)
    }

    /// Replaces every variable, unbound ones by `dyn`.
    pub(super) fn resolve(&self, ty: &DeclType) -> DeclType {
        self.replace(ty, true)
    }

    fn replace(&self, ty: &DeclType, unbound_to_dyn: bool) -> DeclType {
        let inner = |ty| self.replace(ty, unbound_to_dyn);
        match ty {
            DeclType::Param(index) => match self.find(*index) {
                Some(bound) => inner(bound),
                None if unbound_to_dyn => DeclType::Dyn,
                None => ty.clone(),
            },
            DeclType::List(list) if has_params(&list.element) => {
                DeclType::List(Arc::new(ListType {
                    element: inner(&list.element),
                    kind: list.kind.clone(),
                }))
            }
            DeclType::Map(map) if has_params(&map.key) || has_params(&map.value) => {
                DeclType::Map(Arc::new(MapType {
                    key: inner(&map.key),
                    value: inner(&map.value),
                }))
            }
            DeclType::Optional(of) => DeclType::optional(inner(of)),
            DeclType::Type(of) => DeclType::Type(Arc::new(inner(of))),
            ty => ty.clone(),
        }
    }

    /// Whether a value of type `from` may stand where `to` is wanted; binds variables where so.
    pub(super) fn assign(&mut self, from: &DeclType, to: &DeclType) -> bool {
        let fits = self.fits(from, to);
        self.settle(fits)
    }

    /// Whether every value fits its place; binds variables only where all do.
    pub(super) fn assign_all(&mut self, from: &[DeclType], to: &[DeclType]) -> bool {
        let fits = from.len() == to.len() && self.fit_all(from, to);
        self.settle(fits)
    }

    /// Keeps or takes back what was bound since the last call.
    fn settle(&mut self, keep: bool) -> bool {
        while let Some((index, before)) = self.undo.pop() {
            if !keep && let Some(bound) = self.bound.get_mut(index as usize) {
                *bound = before;
            }
        }
        keep
    }

    fn fit_all(&mut self, from: &[DeclType], to: &[DeclType]) -> bool {
        from.iter().zip(to).all(|(from, to)| self.fits(from, to))
    }

    /// `internalIsAssignable`.
    fn fits(&mut self, from: &DeclType, to: &DeclType) -> bool {
        if let DeclType::Param(index) = to {
            let (valid, bound) = self.bind(from, *index);
            if valid {
                return true;
            }
            if bound {
                return false;
            }
        }
        if let DeclType::Param(index) = from {
            return self.bind(to, *index).0;
        }
        match (from, to) {
            (DeclType::Dyn, _) | (_, DeclType::Dyn) | (DeclType::Type(_), DeclType::Type(_)) => {
                true
            }
            (DeclType::Null, other) | (other, DeclType::Null) => takes_null(other),
            (DeclType::List(from), DeclType::List(to)) => self.fits(&from.element, &to.element),
            (DeclType::Map(from), DeclType::Map(to)) => {
                self.fits(&from.key, &to.key) && self.fits(&from.value, &to.value)
            }
            (DeclType::Optional(from), DeclType::Optional(to)) => self.fits(from, to),
            (from, to) => from == to,
        }
    }

    /// `isValidTypeSubstitution`: whether `ty` may stand for the variable, and whether something
    /// stood for it before.
    fn bind(&mut self, ty: &DeclType, index: u32) -> (bool, bool) {
        if *ty == DeclType::Param(index) {
            return (true, true);
        }
        if let Some(bound) = self.find(index).cloned() {
            if *ty == bound {
                return (true, true);
            }
            if !self.fits(ty, &bound) {
                return (false, true);
            }
            let general = most_general(ty, &bound);
            if !self.occurs(index, &general) {
                self.set(index, general);
            }
            return (true, true);
        }
        if self.occurs(index, ty) {
            return (false, false);
        }
        self.set(index, ty.clone());
        (true, false)
    }

    fn find(&self, index: u32) -> Option<&DeclType> {
        self.bound.get(index as usize).and_then(Option::as_ref)
    }

    fn set(&mut self, index: u32, ty: DeclType) {
        if let Some(bound) = self.bound.get_mut(index as usize) {
            let before = bound.replace(ty);
            self.undo.push((index, before));
        }
    }

    /// Whether the variable is within the type, so that binding it would never end.
    fn occurs(&self, index: u32, within: &DeclType) -> bool {
        match within {
            DeclType::Param(other) if *other == index => true,
            DeclType::Param(other) => self
                .find(*other)
                .is_some_and(|bound| self.occurs(index, bound)),
            DeclType::List(list) => self.occurs(index, &list.element),
            DeclType::Map(map) => self.occurs(index, &map.key) || self.occurs(index, &map.value),
            DeclType::Optional(of) | DeclType::Type(of) => self.occurs(index, of),
            _ => false,
        }
    }
}

/// The more general of two types that fit each other, which of `null` and a type that takes it is the right one.
///
/// Source: `mostGeneral`.
pub(super) fn most_general(left: &DeclType, right: &DeclType) -> DeclType {
    if less_specific(left, right) {
        left.clone()
    } else {
        right.clone()
    }
}

/// `isEqualOrLessSpecific`.
fn less_specific(left: &DeclType, right: &DeclType) -> bool {
    match (left, right) {
        (DeclType::Dyn | DeclType::Param(_), _) | (DeclType::Type(_), DeclType::Type(_)) => true,
        (_, DeclType::Dyn | DeclType::Param(_)) => false,
        (DeclType::List(left), DeclType::List(right)) => {
            less_specific(&left.element, &right.element)
        }
        (DeclType::Map(left), DeclType::Map(right)) => {
            less_specific(&left.key, &right.key) && less_specific(&left.value, &right.value)
        }
        (DeclType::Optional(left), DeclType::Optional(right)) => less_specific(left, right),
        (left, right) => left == right,
    }
}

/// `isLegacyNullable`: messages, times and opaque types take `null`.
fn takes_null(ty: &DeclType) -> bool {
    matches!(
        ty,
        DeclType::Null
            | DeclType::Object(_)
            | DeclType::Opaque(_)
            | DeclType::Optional(_)
            | DeclType::Timestamp
            | DeclType::Duration
    )
}

fn has_params(ty: &DeclType) -> bool {
    match ty {
        DeclType::Param(_) => true,
        DeclType::List(list) => has_params(&list.element),
        DeclType::Map(map) => has_params(&map.key) || has_params(&map.value),
        DeclType::Optional(of) | DeclType::Type(of) => has_params(of),
        _ => false,
    }
}

/// Replaces the variables of a signature by fresh ones.
pub(super) fn instantiate(types: &[DeclType], mapping: &mut Mapping) -> Vec<DeclType> {
    let mut fresh: Vec<(u32, DeclType)> = Vec::new();
    types
        .iter()
        .map(|ty| rename(ty, &mut fresh, mapping))
        .collect()
}

fn rename(ty: &DeclType, fresh: &mut Vec<(u32, DeclType)>, mapping: &mut Mapping) -> DeclType {
    match ty {
        DeclType::Param(index) => {
            if let Some((_, renamed)) = fresh.iter().find(|(known, _)| known == index) {
                return renamed.clone();
            }
            let renamed = mapping.fresh();
            fresh.push((*index, renamed.clone()));
            renamed
        }
        DeclType::List(list) => DeclType::list(rename(&list.element, fresh, mapping)),
        DeclType::Map(map) => {
            let key = rename(&map.key, fresh, mapping);
            DeclType::map(key, rename(&map.value, fresh, mapping))
        }
        DeclType::Optional(of) => DeclType::optional(rename(of, fresh, mapping)),
        DeclType::Type(of) => DeclType::Type(Arc::new(rename(of, fresh, mapping))),
        ty => ty.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_takes_the_most_general_type_that_it_meets() {
        let mut mapping = Mapping::default();
        let element = mapping.fresh();
        assert!(mapping.assign(&DeclType::Int, &element));
        assert!(!mapping.assign(&DeclType::String, &element));
        assert_eq!(mapping.resolve(&element), DeclType::Int);
        assert!(mapping.assign(&DeclType::Dyn, &element));
        assert_eq!(mapping.resolve(&element), DeclType::Dyn);
    }

    #[test]
    fn a_failed_list_of_assignments_binds_nothing() {
        let mut mapping = Mapping::default();
        let variable = mapping.fresh();
        let wanted = [variable.clone(), DeclType::Int];
        assert!(!mapping.assign_all(&[DeclType::String, DeclType::Bool], &wanted));
        assert_eq!(mapping.substitute(&variable), variable);
    }

    #[test]
    fn a_variable_never_stands_for_a_type_that_contains_it() {
        let mut mapping = Mapping::default();
        let variable = mapping.fresh();
        assert!(!mapping.assign(&DeclType::list(variable.clone()), &variable));
    }

    #[test]
    fn null_fits_objects_and_times_but_no_scalars() {
        let mut mapping = Mapping::default();
        for (ty, want) in [
            (DeclType::Timestamp, true),
            (DeclType::object("o", []), true),
            (DeclType::Opaque("net.IP"), true),
            (DeclType::String, false),
            (DeclType::Int, false),
            (DeclType::list(DeclType::Int), false),
        ] {
            assert_eq!(mapping.assign(&DeclType::Null, &ty), want, "{ty}");
        }
    }
}
