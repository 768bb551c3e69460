//! Update and apply on sets of owned fields, without the rules of Kubernetes around them.
//!
//! Every manager's fields are compared at the version in which that manager wrote them.
//!
//! Source: `structured-merge-diff/merge/update.go`; api-compat 3.5.

use std::borrow::Cow;

use serde_json::Value;

use super::compare::{Comparison, compare, same_object};
use super::convert::VersionConverter;
use super::element::PathElement;
use super::managed::{ManagedEntry, ManagedFields, ManagerIdentity};
use super::model::{Model, Place};
use super::reconcile::{is_closed, reconcile, with_named_fields};
use super::remove::remove_items;
use super::set::FieldSet;
use super::typed::{self, Duplicates};
use super::{collect, merge};

/// What holds for one request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope<'a> {
    pub(crate) api_version: &'a str,
    pub(crate) place: Place<'a>,
    pub(crate) model: Model,
    /// Fields that this endpoint does not write, and so nobody owns through it.
    pub(crate) reset: &'a FieldSet,
    pub(crate) converter: &'a dyn VersionConverter,
}

/// Whether a write takes fields away from their owners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ownership {
    Take,
    Respect,
}

/// The fields of one manager that a write wants otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// Who owns them.
    pub manager: ManagerIdentity,
    /// Which they are.
    pub paths: Vec<Vec<PathElement>>,
}

/// Why an operation failed.
#[derive(Debug)]
pub(crate) enum Failure {
    Conflicts(Vec<Conflict>),
    Conversion(String),
}

/// What an apply makes of an object: the merged object where it differs from the live one.
#[derive(Debug)]
pub(crate) struct Applied {
    pub(crate) object: Option<Value>,
    pub(crate) managers: ManagedFields,
}

/// The fields that a write of a whole object gives to its writer, and what it leaves to the others.
///
/// The writer is not among the managers, even if it has an entry: what it owned before is for the caller to join.
pub(crate) fn update(
    scope: Scope<'_>,
    live: &Value,
    new: &Value,
    managers: ManagedFields,
) -> Result<(ManagedFields, FieldSet), Failure> {
    let managers = scope.reconcile(live, managers)?;
    let (managers, comparison) = scope.hand_over(live, new, managers, None, Ownership::Take)?;
    // Comparisons are filtered by the fields to reset already.
    Ok((managers, comparison.modified.union(comparison.added)))
}

/// Merges a configuration, removes what its manager no longer applies and nobody else owns, and hands over ownership.
pub(crate) fn apply(
    scope: Scope<'_>,
    live: &Value,
    config: Value,
    managers: ManagedFields,
    applier: &ManagerIdentity,
    ownership: Ownership,
) -> Result<Applied, Failure> {
    let mut managers = scope.reconcile(live, managers)?;
    let set = collect::field_set(scope.place, &config).recursive_difference(scope.reset);
    let merged = merge::merge(scope.place, live, config);
    let last = managers.take(applier);
    managers.put(ManagedEntry {
        identity: applier.clone(),
        api_version: scope.api_version.to_owned(),
        set,
        time: last.as_ref().and_then(|last| last.time.clone()),
    });
    let pruned = match last {
        Some(last) if !last.set.is_empty() => scope
            .prune(merged, &managers, last)
            .map_err(|failure| failure.within("failed to prune fields"))?,
        _ => merged,
    };
    let (managers, _comparison) =
        scope.hand_over(live, &pruned, managers, Some(applier), ownership)?;
    let unchanged = same_object(live, &pruned);
    Ok(Applied {
        object: (!unchanged).then_some(pruned),
        managers,
    })
}

// === impl Failure ===

impl Failure {
    fn within(self, context: &str) -> Self {
        match self {
            Self::Conversion(message) => Self::Conversion(format!("{context}: {message}")),
            conflicts @ Self::Conflicts(_) => conflicts,
        }
    }

    fn within_version(self, object: &str, version: &str) -> Self {
        self.within(&format!(
            "failed to convert {object} object at version {version}"
        ))
    }
}

// === impl Scope ===

impl<'a> Scope<'a> {
    /// The place of objects of a version, if it is served.
    fn place_at(&self, api_version: &str) -> Option<Place<'a>> {
        if api_version == self.api_version {
            return Some(self.place);
        }
        let converter: &'a dyn VersionConverter = self.converter;
        converter.schema(api_version).map(Place::Root)
    }

    /// Converts an object of the request's version to another one, and checks it there.
    fn convert<'v>(&self, object: &'v Value, to: &str) -> Result<Cow<'v, Value>, Failure> {
        self.convert_between(Cow::Borrowed(object), self.api_version, to)
    }

    fn convert_between<'v>(
        &self,
        object: Cow<'v, Value>,
        from: &str,
        to: &str,
    ) -> Result<Cow<'v, Value>, Failure> {
        if from == to {
            return Ok(object);
        }
        let converted = match &object {
            Cow::Borrowed(object) => self.converter.convert(object, to),
            Cow::Owned(object) => {
                let converted = self.converter.convert(object, to);
                converted.map(|converted| Cow::Owned(converted.into_owned()))
            }
        };
        let converted = converted.map_err(Failure::Conversion)?;
        if let Some(place) = self.place_at(to) {
            typed::check(place, &converted, Duplicates::Refused)
                .map_err(|errors| Failure::Conversion(errors.to_string()))?;
        }
        Ok(converted)
    }

    /// Follows changes of the schema, and forgets managers of versions that are not served.
    ///
    /// The live object must have a form at each of their versions, or later comparisons would fail.
    fn reconcile(
        &self,
        live: &Value,
        mut managers: ManagedFields,
    ) -> Result<ManagedFields, Failure> {
        managers
            .entries_mut()
            .retain(|entry| self.place_at(&entry.api_version).is_some());
        let mut checked = vec![self.api_version.to_owned()];
        for entry in managers.entries_mut() {
            if !checked.contains(&entry.api_version) {
                self.convert(live, &entry.api_version)?;
                checked.push(entry.api_version.clone());
            }
            let place = self.place_at(&entry.api_version);
            if let Some(reconciled) = place.and_then(|place| reconcile(place, &entry.set)) {
                entry.set = reconciled;
            }
        }
        Ok(managers)
    }

    /// Takes what changes away from all managers but the one who changes it.
    fn hand_over(
        &self,
        live: &Value,
        new: &Value,
        mut managers: ManagedFields,
        writer: Option<&ManagerIdentity>,
        ownership: Ownership,
    ) -> Result<(ManagedFields, Comparison), Failure> {
        let own = compare(self.place, live, new, self.model).without(self.reset);
        let mut conflicts = Vec::new();
        let mut others: Vec<(String, Comparison)> = Vec::new();
        for entry in managers.entries_mut() {
            if writer == Some(&entry.identity) {
                continue;
            }
            let comparison = if entry.api_version == self.api_version {
                &own
            } else {
                self.comparison_at(&entry.api_version, live, new, &mut others)?
            };
            let lost = entry
                .set
                .intersection(&comparison.modified)
                .union(entry.set.intersection(&comparison.added));
            if !lost.is_empty() {
                if ownership == Ownership::Respect {
                    let (manager, paths) = (entry.identity.clone(), lost.paths());
                    conflicts.push(Conflict { manager, paths });
                    continue;
                }
                entry.set = std::mem::take(&mut entry.set).difference(&lost);
            }
            entry.set = std::mem::take(&mut entry.set).difference(&comparison.removed);
        }
        if !conflicts.is_empty() {
            conflicts.sort_by_cached_key(|conflict| conflict.manager.sort_key());
            return Err(Failure::Conflicts(conflicts));
        }
        managers.entries_mut().retain(|entry| !entry.set.is_empty());
        Ok((managers, own))
    }

    fn comparison_at<'c>(
        &self,
        api_version: &str,
        live: &Value,
        new: &Value,
        known: &'c mut Vec<(String, Comparison)>,
    ) -> Result<&'c Comparison, Failure> {
        let known_at = |known: &[(String, Comparison)]| {
            known.iter().position(|(version, _)| version == api_version)
        };
        if known_at(known).is_none() {
            // Reconciliation left only managers of served versions.
            let place = self.place_at(api_version).unwrap_or(Place::Deduced);
            let old = self
                .convert(live, api_version)
                .map_err(|failure| failure.within("failed to convert old object"))?;
            let new = self
                .convert(new, api_version)
                .map_err(|failure| failure.within("failed to convert new object"))?;
            let comparison = compare(place, &old, &new, self.model);
            known.push((api_version.to_owned(), comparison));
        }
        let found = known_at(known).and_then(|index| known.get(index));
        found
            .map(|(_, comparison)| comparison)
            .ok_or_else(|| Failure::Conversion(format!("no comparison at version {api_version}")))
    }

    /// Removes what the applier owned, does not apply any more, and no one else owns.
    fn prune(
        &self,
        merged: Value,
        managers: &ManagedFields,
        last: ManagedEntry,
    ) -> Result<Value, Failure> {
        let version = last.api_version.as_str();
        let Some(place) = self.place_at(version) else {
            return Ok(merged);
        };
        if is_still_owned(&last, managers) && is_closed(Some(place), &last.set) {
            // The usual case: all that was applied is applied again, or is owned by others.
            return Ok(merged);
        }
        let owned = owned_by_version(managers, version);
        let converted = self.convert(&merged, version).map_err(|failure| {
            failure.within("failed to convert merged object to last applied version")
        })?;
        let last = with_named_fields(Some(place), last.set);
        let pruned = remove_items(place, &converted, &last);
        let (pruned, pruned_at) = self
            .add_back_owned(&converted, version, pruned, owned)
            .map_err(|failure| failure.within("failed add back owned items"))?;
        let pruned = self
            .convert_between(Cow::Owned(pruned), &pruned_at, version)
            .map_err(|failure| {
                failure
                    .within("failed to convert pruned object to last applied version")
                    .within("failed add back dangling items")
            })?;
        let fields = with_named_fields(Some(place), collect::field_set(place, &converted));
        let left = with_named_fields(Some(place), collect::field_set(place, &pruned));
        let dangling = fields.difference(&left).intersection(&last);
        let pruned = remove_items(place, &converted, &dangling);
        let pruned = self.convert_between(Cow::Owned(pruned), version, self.api_version)?;
        Ok(pruned.into_owned())
    }

    /// Adds back what managers of each version own, and says at which version the result is.
    fn add_back_owned(
        &self,
        merged: &Value,
        version: &str,
        mut pruned: Value,
        owned: Vec<(String, FieldSet)>,
    ) -> Result<(Value, String), Failure> {
        let mut pruned_at = version.to_owned();
        for (at, set) in owned {
            let Some(place) = self.place_at(&at) else {
                continue;
            };
            let merged_there = self
                .convert_between(Cow::Borrowed(merged), version, &at)
                .map_err(|failure| failure.within_version("merged", &at))?;
            let left = self
                .convert_between(Cow::Owned(pruned), &pruned_at, &at)
                .map_err(|failure| failure.within_version("pruned", &at))?;
            pruned = keep_owned(place, &merged_there, &left, set);
            pruned_at = at;
        }
        Ok((pruned, pruned_at))
    }
}

/// Removes what was removed already, without what managers of a version own, the applier's new fields among it.
fn keep_owned(place: Place<'_>, merged: &Value, pruned: &Value, owned: FieldSet) -> Value {
    let named = |set| with_named_fields(Some(place), set);
    let fields = named(collect::field_set(place, merged));
    let kept = named(collect::field_set(place, pruned)).union(named(owned));
    remove_items(place, merged, &fields.difference(&kept))
}

/// Whether managers of its version own all that an entry owned.
fn is_still_owned(last: &ManagedEntry, managers: &ManagedFields) -> bool {
    let peers = || {
        managers
            .entries()
            .iter()
            .filter(|entry| entry.api_version == last.api_version)
    };
    if peers().any(|entry| last.set.is_subset(&entry.set)) {
        return true;
    }
    let given_up = peers().fold(last.set.clone(), |set, entry| set.difference(&entry.set));
    given_up.is_empty()
}

/// What all managers of each version own together; the version that is wanted first comes first.
fn owned_by_version(managers: &ManagedFields, first: &str) -> Vec<(String, FieldSet)> {
    let mut owned: Vec<(String, FieldSet)> = Vec::new();
    for entry in managers.entries() {
        match owned
            .iter_mut()
            .find(|(version, _)| *version == entry.api_version)
        {
            Some((_, set)) => *set = std::mem::take(set).union(entry.set.clone()),
            None => owned.push((entry.api_version.clone(), entry.set.clone())),
        }
    }
    owned.sort_by(|(left, _), (right, _)| {
        (left != first)
            .cmp(&(right != first))
            .then_with(|| left.cmp(right))
    });
    owned
}
