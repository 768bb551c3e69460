//! Answers that show objects, in the form that was negotiated.

use api::query::Query;
use api::table::{IncludeObject, Table};
use api::{Status, meta};
use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;
use storage::Entry;

use super::convert;
use crate::call::Call;
use crate::negotiate::{Negotiated, Shape, TableVersion};
use crate::objects::{RevisionSlot, encode, write_partial_metadata};
use crate::refusal::Refusal;
use crate::respond;
use crate::respond::Response;
use crate::table;

/// An object to show: as it is stored, or as it would be.
#[derive(Debug)]
pub(crate) enum Shown {
    /// What the store holds.
    Entry(Entry),
    /// What a dry run made, or the last state of what is gone.
    Value(Value),
}

/// Answers with one object.
pub(super) async fn object(
    call: &Call<'_>,
    form: Negotiated,
    code: StatusCode,
    shown: &Shown,
) -> Result<Response, Refusal> {
    let ready;
    let shown = match shown {
        Shown::Entry(entry) if convert::asks_webhook(call.scope) => {
            let (scope, deadline) = (call.scope, call.context.deadline);
            ready = Shown::Entry(convert::ready_one(call.shared, scope, entry, deadline).await?);
            &ready
        }
        Shown::Entry(_) | Shown::Value(_) => shown,
    };
    match form.shape {
        Shape::Object => Ok(respond::json(code, form, bytes(call, shown)?)),
        Shape::Metadata | Shape::MetadataList => {
            let mut out = Vec::new();
            write_partial_metadata(&mut out, &bytes(call, shown)?).ok_or_else(corrupt)?;
            Ok(respond::json(code, form, out.into()))
        }
        Shape::Table(version) => {
            let value = match shown {
                Shown::Entry(entry) => convert::served_value(call.scope, entry)?,
                Shown::Value(value) => value.clone(),
            };
            let mut page = table_of(call, version)?;
            meta::resource_version(&value).clone_into(&mut page.table.metadata.resource_version);
            page.push(call, &value);
            respond::value(code, form, &page.table)
        }
    }
}

fn bytes(call: &Call<'_>, shown: &Shown) -> Result<Bytes, Refusal> {
    match shown {
        Shown::Entry(entry) => convert::served_bytes(call.scope, entry),
        Shown::Value(value) => Ok(encode(value, RevisionSlot::Keep).bytes.into()),
    }
}

/// A table in the making.
pub(super) struct TablePage {
    pub(super) table: Table,
    include: IncludeObject,
}

/// Begins a table with its columns.
pub(super) fn table_of(call: &Call<'_>, version: TableVersion) -> Result<TablePage, Refusal> {
    let mut table = Table::new(api_version_of(version));
    table.column_definitions = Some(table::columns(call.scope));
    Ok(TablePage {
        table,
        include: include_object(call.query)?,
    })
}

/// The version of a table on the wire.
pub(super) const fn api_version_of(version: TableVersion) -> &'static str {
    match version {
        TableVersion::V1 => "meta.k8s.io/v1",
        TableVersion::V1Beta1 => "meta.k8s.io/v1beta1",
    }
}

/// How much of the objects the rows of a table carry.
pub(super) fn include_object(query: &Query) -> Result<IncludeObject, Refusal> {
    match query.text("includeObject") {
        "" | "Metadata" => Ok(IncludeObject::Metadata),
        "None" => Ok(IncludeObject::None),
        "Object" => Ok(IncludeObject::Object),
        other => {
            let quoted = dialect::quote(other);
            let text = format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {quoted}: must be 'Metadata', \
                 'Object', 'None', or empty"
            );
            Err(Status::bad_request(text).into())
        }
    }
}

/// The refusal for stored bytes that are no object.
pub(super) fn corrupt() -> Refusal {
    Refusal::internal("a stored object has no metadata")
}

// === impl TablePage ===

impl TablePage {
    /// Adds a row.
    pub(super) fn push(&mut self, call: &Call<'_>, object: &Value) {
        let row = table::row(call.scope, object, self.include, call.context.now);
        self.table.rows.push(row);
    }
}
