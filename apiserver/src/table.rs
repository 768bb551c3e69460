//! Tables: what kubectl prints.
//!
//! The server computes the cells, ages included, from the columns of the version that is served.
//! Source: apiextensions-apiserver/pkg/registry/customresource/tableconvertor; api-compat 1.4.

use api::table::{ColumnDefinition, IncludeObject, PARTIAL_OBJECT_METADATA, TableRow};
use jiff::Timestamp;
use serde_json::{Value, json};

pub(crate) use api::table::META_API_VERSION;

use crate::registry::ResourceScope;

/// What the cells of a resource are.
pub(crate) fn columns(scope: &ResourceScope) -> Vec<ColumnDefinition> {
    scope.version.columns.definitions().to_vec()
}

/// The cells of an object, with as much of it as the client wants.
pub(crate) fn row(
    scope: &ResourceScope,
    object: &Value,
    include: IncludeObject,
    now: Timestamp,
) -> TableRow {
    let object_shown = match include {
        IncludeObject::None => None,
        IncludeObject::Object => Some(object.clone()),
        IncludeObject::Metadata => Some(json!({
            "kind": PARTIAL_OBJECT_METADATA,
            "apiVersion": META_API_VERSION,
            "metadata": object.get("metadata").cloned().unwrap_or_default(),
        })),
    };
    TableRow {
        cells: scope.version.columns.cells(object, now),
        object: object_shown,
    }
}
