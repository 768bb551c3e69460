//! Judges objects as the server would, for comparing it with a kube-apiserver by hand.
//!
//! Reads one JSON document per line: `{"definition": CRD}`, `{"definition": CRD, "object": {…}, "old": {…}}` or
//! `{"builtin": object}`; `{"openapi": CRD}` or `{"openapi": "apps/v1"}` for documents. Answers with one line each.

use std::io::BufRead as _;
use std::io::Write as _;

use api::crd::CustomResourceDefinition;
use api::{FieldError, GroupVersionKind};
use serde_json::{Value, json};
use wheelhouse_schema::columns::Columns;
use wheelhouse_schema::openapi::{self, PublishedKind};
use wheelhouse_schema::structural::{self, MalformedFields, Schema};
use wheelhouse_schema::validate::{Part, inspect};
use wheelhouse_schema::{builtin, definition};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    for line in std::io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?)?;
        let answer = match (request.get("builtin"), request.get("openapi")) {
            (Some(object), _) => judge_builtin(object.clone()),
            (_, Some(subject)) => Ok(publish(subject)?),
            _ => judge(&request),
        };
        let answer = answer.unwrap_or_else(|error| json!({"failure": error.to_string()}));
        writeln!(std::io::stdout(), "{answer}")?;
    }
    Ok(())
}

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn judge(request: &Value) -> Result<Value, Failure> {
    let mut crd = CustomResourceDefinition::from_value(&request["definition"])?;
    definition::complete(&mut crd);
    definition::note_stored_version(&mut crd);
    let Some(object) = request.get("object") else {
        let errors = definition::validate_definition(&crd);
        let warnings = definition::warnings(&crd, None);
        return Ok(
            json!({"errors": texts(&errors), "warnings": warnings, "object": crd.to_value()}),
        );
    };
    let version = crd.spec.versions.first().ok_or("no version")?;
    let schema = version
        .schema
        .as_ref()
        .and_then(|it| it.open_api_v3_schema.as_ref());
    let schema = Schema::from_openapi(schema.ok_or("no schema")?)?;
    let mut object = object.clone();
    let unknown = structural::unknown_fields(&object, &schema);
    if let Err(error) = structural::coerce_metadata(&mut object, &schema, MalformedFields::Refused)
    {
        return Ok(json!({"errors": [error.to_string()], "unknown": unknown}));
    }
    structural::prune(&mut object, &schema);
    structural::drop_nulls(&mut object, &schema);
    structural::default(&mut object, &schema)?;
    let old = request.get("old").filter(|it| !it.is_null());
    let found = inspect(&object, &schema, old, Part::Object, &[]);
    let cells = Columns::of_version(&version.additional_printer_columns)?;
    let cells = cells.cells(&object, jiff::Timestamp::now());
    Ok(
        json!({"errors": texts(&found.errors), "warnings": found.warnings, "unknown": unknown,
        "object": object, "cells": cells}),
    )
}

fn publish(subject: &Value) -> Result<Value, Failure> {
    let kinds = if let Some(text) = subject.as_str() {
        let (group, version) = text.split_once('/').unwrap_or(("", text));
        openapi::builtin_kinds(group, version)
    } else {
        let mut definition = CustomResourceDefinition::from_value(subject)?;
        definition::complete(&mut definition);
        let versions = definition.spec.versions.iter();
        versions
            .filter_map(|it| PublishedKind::of_definition(&definition, &it.name))
            .collect()
    };
    Ok(openapi::document(&kinds))
}

fn judge_builtin(mut object: Value) -> Result<Value, Failure> {
    let Some(gvk) = GroupVersionKind::from_object(&object) else {
        return Ok(json!({"failure": "no kind"}));
    };
    let Some(schema) = builtin::catalog().schema(&gvk) else {
        return Ok(json!({"failure": "not built in"}));
    };
    let unknown = structural::unknown_fields(&object, &schema);
    structural::prune(&mut object, &schema);
    structural::drop_nulls(&mut object, &schema);
    builtin::complete(&mut object, &gvk, &schema)?;
    if object.get("status").is_none() {
        builtin::prepare_for_create(&mut object, &gvk, &schema)?;
    }
    let errors = builtin::validate(&object, &schema);
    let resource = builtin::catalog().by_kind(&gvk).map(builtin::Resource::gvr);
    let columns = resource.as_ref().map(builtin::columns);
    let now = jiff::Timestamp::now();
    let cells = columns.as_ref().map(|columns| columns.cells(&object, now));
    let names = columns
        .as_ref()
        .map(|columns| serde_json::to_value(columns.definitions()));
    Ok(
        json!({"errors": texts(&errors), "unknown": unknown, "object": object, "cells": cells,
        "columns": names.and_then(Result::ok)}),
    )
}
