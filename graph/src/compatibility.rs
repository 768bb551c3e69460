//! What an update of a generated definition would do to the objects that exist: breaking and other changes.
//!
//! Compared are properties, types, patterns, bounds, required fields, enums, defaults, descriptions, items of lists,
//! the version's name, that it is served, its status subresource and its printer columns. Not compared, as in kro, so
//! that a change only there leaves the live definition as it is: additionalProperties, validation rules, an enum that
//! comes or goes as a whole, list types and map keys, formats, preserve-unknown-fields, labels and annotations.
//!
//! That what this project adds to a status goes again is no change that breaks anybody: the definition said that it is not wanted.
//!
//! Source: kro `pkg/graph/crd/compat`.

mod change;
mod schema;

pub use change::{Change, ChangeKind, Report};

use api::crd::CustomResourceDefinition;
use serde_json::Value;

use crate::told;
use change::ChangeKind::{PrinterColumnsChanged, PropertyRemoved, ScaleChanged, TypeChanged};

/// Compares a live definition with the one wanted.
///
/// # Errors
/// When either has not exactly one version with a schema; the text is kro's.
pub fn compare(
    live: &CustomResourceDefinition,
    wanted: &CustomResourceDefinition,
) -> Result<Report, String> {
    let versions = |definition: &CustomResourceDefinition| {
        serde_json::to_value(&definition.spec.versions).map_err(|error| error.to_string())
    };
    compare_versions(&versions(live)?, &versions(wanted)?)
}

/// Compares the `spec.versions` of the live definition with those wanted. Both must have one version.
///
/// # Errors
/// When there is not exactly one version with a schema on both sides; the text is kro's.
fn compare_versions(live: &Value, wanted: &Value) -> Result<Report, String> {
    let (live, wanted) = (list(live), list(wanted));
    let ([live], [wanted]) = (live, wanted) else {
        return Err(format!(
            "expected exactly one version in each CRD, got {} old and {} new versions",
            live.len(),
            wanted.len()
        ));
    };
    let mut report = Report::default();
    let name = |version: &Value| {
        version
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let (live_name, wanted_name) = (name(live), name(wanted));
    if live_name != wanted_name {
        report.breaking("version", TypeChanged, live_name, wanted_name);
        return Ok(report);
    }
    let mut live = live.clone();
    told::forgive(&mut live, wanted);
    let live = &live;
    let live_schema =
        schema_of(live).ok_or_else(|| format!("old version {live_name} has no schema"))?;
    let wanted_schema =
        schema_of(wanted).ok_or_else(|| format!("new version {wanted_name} has no schema"))?;
    schema::compare("", live_schema, wanted_schema, &mut report);
    if is_served(live) && !is_served(wanted) {
        report.breaking("version.served", TypeChanged, "true", "false");
    }
    if has_status(live) && !has_status(wanted) {
        report.breaking("version.subresources.status", PropertyRemoved, "", "");
    }
    if scale(live) != scale(wanted) {
        report.other("version.subresources.scale", ScaleChanged, "", "");
    }
    if columns(live) != columns(wanted) {
        report.other(
            "version.additionalPrinterColumns",
            PrinterColumnsChanged,
            "",
            "",
        );
    }
    Ok(report)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn schema_of(version: &Value) -> Option<&Value> {
    version
        .pointer("/schema/openAPIV3Schema")
        .filter(|schema| !schema.is_null())
}

fn is_served(version: &Value) -> bool {
    version
        .get("served")
        .and_then(Value::as_bool)
        .unwrap_or_default()
}

fn has_status(version: &Value) -> bool {
    version
        .pointer("/subresources/status")
        .is_some_and(|status| !status.is_null())
}

fn scale(version: &Value) -> Option<&Value> {
    let scale = version.pointer("/subresources/scale");
    scale.filter(|scale| !scale.is_null())
}

/// The columns, with what is empty left out; their order counts.
fn columns(version: &Value) -> Vec<Vec<(String, Value)>> {
    let columns = version
        .get("additionalPrinterColumns")
        .map(list)
        .unwrap_or_default();
    columns
        .iter()
        .map(|column| {
            let fields = column.as_object().into_iter().flatten();
            fields
                .filter(|(_, value)| {
                    !(value.is_null() || *value == "" || *value == &Value::from(0))
                })
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect()
        })
        .collect()
}

#[cfg(test)]
mod tests;
