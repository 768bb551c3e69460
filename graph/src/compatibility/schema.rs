//! The comparison of two schemas, node by node.
//!
//! Source: kro `pkg/graph/crd/compat/schema.go`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::change::{Bound, ChangeKind, Report};

/// Compares two nodes and everything below them.
pub(super) fn compare(path: &str, old: &Value, new: &Value, report: &mut Report) {
    let (old_words, new_words) = (text(old, "description"), text(new, "description"));
    if old_words != new_words {
        report.other(
            format!("{path}.description"),
            ChangeKind::DescriptionChanged,
            old_words,
            new_words,
        );
    }
    if old.get("default") != new.get("default") {
        let show = |schema: &Value| {
            schema
                .get("default")
                .map(ToString::to_string)
                .unwrap_or_default()
        };
        report.other(
            format!("{path}.default"),
            ChangeKind::DefaultChanged,
            show(old),
            show(new),
        );
    }
    let (old_type, new_type) = (text(old, "type"), text(new, "type"));
    if old_type != new_type {
        report.breaking(
            format!("{path}.type"),
            ChangeKind::TypeChanged,
            old_type,
            new_type,
        );
        return;
    }
    compare_patterns(path, old, new, report);
    for bound in [
        Bound::Minimum,
        Bound::Maximum,
        Bound::MinLength,
        Bound::MaxLength,
        Bound::MinItems,
        Bound::MaxItems,
    ] {
        compare_bounds(path, bound, old, new, report);
    }
    compare_properties(path, old, new, report);
    compare_required(path, old, new, report);
    compare_enums(path, old, new, report);
    if old_type == "array" {
        compare_items(path, old, new, report);
    }
}

fn compare_patterns(path: &str, old: &Value, new: &Value, report: &mut Report) {
    let (old, new) = (text(old, "pattern"), text(new, "pattern"));
    let path = format!("{path}.pattern");
    match (old, new) {
        (old, new) if old == new => {}
        ("", new) => report.breaking(path, ChangeKind::PatternAdded, "", new),
        (old, "") => report.other(path, ChangeKind::PatternRemoved, old, ""),
        (old, new) => report.breaking(path, ChangeKind::PatternChanged, old, new),
    }
}

fn compare_bounds(path: &str, bound: Bound, old: &Value, new: &Value, report: &mut Report) {
    let keyword = bound.keyword();
    let read = |schema: &Value| schema.get(keyword).and_then(Value::as_f64);
    let path = format!("{path}.{keyword}");
    match (read(old), read(new)) {
        (None, None) => {}
        (None, Some(new)) => {
            report.breaking(path, ChangeKind::BoundAdded(bound), "", new.to_string());
        }
        (Some(old), None) => {
            report.other(path, ChangeKind::BoundRemoved(bound), old.to_string(), "");
        }
        (Some(old), Some(new)) => {
            let Some(order) = new.partial_cmp(&old).filter(|order| order.is_ne()) else {
                return;
            };
            let kind = if order.is_gt() {
                ChangeKind::BoundIncreased(bound)
            } else {
                ChangeKind::BoundDecreased(bound)
            };
            if order.is_gt() == bound.is_lower() {
                report.breaking(path, kind, old.to_string(), new.to_string());
            } else {
                report.other(path, kind, old.to_string(), new.to_string());
            }
        }
    }
}

fn compare_properties(path: &str, old: &Value, new: &Value, report: &mut Report) {
    for (name, old_property) in fields(old) {
        let path = format!("{path}.properties.{name}");
        match property(new, name) {
            Some(new_property) => compare(&path, old_property, new_property, report),
            None => report.breaking(path, ChangeKind::PropertyRemoved, "", ""),
        }
    }
    let required = required(new);
    for (name, new_property) in fields(new) {
        if property(old, name).is_some() {
            continue;
        }
        let path = format!("{path}.properties.{name}");
        if required.contains(name.as_str()) && new_property.get("default").is_none() {
            report.breaking(
                path,
                ChangeKind::PropertyAdded,
                "required=false",
                "required=true",
            );
        } else {
            report.other(path, ChangeKind::PropertyAdded, "", "");
        }
    }
}

fn compare_required(path: &str, old: &Value, new: &Value, report: &mut Report) {
    let path = format!("{path}.required");
    let (old_required, new_required) = (required(old), required(new));
    for name in new_required.difference(&old_required) {
        if property(old, name).is_some() {
            report.breaking(&path, ChangeKind::RequiredAdded, "", *name);
        }
    }
    for name in old_required.difference(&new_required) {
        report.other(&path, ChangeKind::RequiredRemoved, *name, "");
    }
    for name in new_required.intersection(&old_required) {
        let has_default =
            |schema: &Value| property(schema, name).is_some_and(|p| p.get("default").is_some());
        if property(old, name).is_some() && has_default(old) && !has_default(new) {
            report.breaking(&path, ChangeKind::RequiredDefaultRemoved, *name, "");
        }
    }
}

fn compare_enums(path: &str, old: &Value, new: &Value, report: &mut Report) {
    let values = |schema: &Value| -> BTreeSet<String> {
        let values = schema.get("enum").and_then(Value::as_array);
        values
            .into_iter()
            .flatten()
            .map(ToString::to_string)
            .collect()
    };
    let (old, new) = (values(old), values(new));
    if old.is_empty() || new.is_empty() {
        return;
    }
    let path = format!("{path}.enum");
    for value in old.difference(&new) {
        report.breaking(&path, ChangeKind::EnumRestricted, value, "");
    }
    for value in new.difference(&old) {
        report.other(&path, ChangeKind::EnumExpanded, "", value);
    }
}

fn compare_items(path: &str, old: &Value, new: &Value, report: &mut Report) {
    let path = format!("{path}.items");
    let items = |schema: &'_ Value| {
        schema
            .get("items")
            .filter(|items| items.is_object())
            .cloned()
    };
    match (items(old), items(new)) {
        (Some(old), Some(new)) => compare(&path, &old, &new, report),
        (Some(_), None) => report.breaking(path, ChangeKind::PropertyRemoved, "", ""),
        (None, Some(_)) => report.other(path, ChangeKind::PropertyAdded, "", ""),
        (None, None) => {}
    }
}

fn text<'a>(schema: &'a Value, name: &str) -> &'a str {
    schema.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn fields(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
}

fn property<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    schema.get("properties")?.get(name)
}

fn required(schema: &Value) -> BTreeSet<&str> {
    let names = schema.get("required").and_then(Value::as_array);
    names
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}
