//! Tables: what kubectl prints.
//!
//! Source: `apimachinery/pkg/apis/meta/v1/types.go`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::meta::ListMeta;
use crate::status::Status;

/// The API version of tables and of objects with metadata only.
pub const META_API_VERSION: &str = "meta.k8s.io/v1";
/// The kind of an object with metadata only.
pub const PARTIAL_OBJECT_METADATA: &str = "PartialObjectMetadata";
/// The kind of a list of objects with metadata only.
pub const PARTIAL_OBJECT_METADATA_LIST: &str = "PartialObjectMetadataList";
/// The kind of a table.
pub const TABLE: &str = "Table";

/// What ObjectMeta says about the name.
pub const NAME_DESCRIPTION: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
/// What ObjectMeta says about the time of creation.
pub const CREATED_DESCRIPTION: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// A list as rows of cells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Table {
    /// `Table`.
    pub kind: String,
    /// `meta.k8s.io/v1`, or `meta.k8s.io/v1beta1` for old clients.
    pub api_version: String,
    /// The list's metadata.
    #[serde(default)]
    pub metadata: ListMeta,
    /// What the cells are; only the first table of a watch says it.
    #[serde(default)]
    pub column_definitions: Option<Vec<ColumnDefinition>>,
    /// One per object.
    #[serde(default)]
    pub rows: Vec<TableRow>,
}

/// What the cells of a column are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ColumnDefinition {
    /// The heading.
    pub name: String,
    /// The OpenAPI type.
    #[serde(rename = "type")]
    pub type_: String,
    /// The OpenAPI format; may be empty.
    pub format: String,
    /// For people.
    pub description: String,
    /// 0 for columns that are always shown.
    pub priority: i32,
}

/// One object as cells.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TableRow {
    /// One per column.
    pub cells: Vec<Value>,
    /// The object, as much of it as was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<Value>,
}

/// How much of the object a row carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// Its metadata.
    #[default]
    Metadata,
    /// All of it.
    Object,
}

// === impl Table ===

impl Table {
    /// Makes an empty table.
    pub fn new(api_version: &str) -> Self {
        Self {
            kind: TABLE.to_owned(),
            api_version: api_version.to_owned(),
            metadata: ListMeta::default(),
            column_definitions: None,
            rows: Vec::new(),
        }
    }
}

// === impl ColumnDefinition ===

impl ColumnDefinition {
    /// The column that every table begins with.
    pub fn name() -> Self {
        Self {
            name: "Name".to_owned(),
            type_: "string".to_owned(),
            format: "name".to_owned(),
            description: NAME_DESCRIPTION.to_owned(),
            priority: 0,
        }
    }

    /// The column of kinds that declare none.
    pub fn age() -> Self {
        Self {
            name: "Age".to_owned(),
            type_: "date".to_owned(),
            format: String::new(),
            description: CREATED_DESCRIPTION.to_owned(),
            priority: 0,
        }
    }
}

// === impl IncludeObject ===

impl IncludeObject {
    /// Reads the query parameter `includeObject`; empty is the default.
    ///
    /// # Errors
    /// 400 where it is none of the known values.
    pub fn parse(text: &str) -> Result<Self, Status> {
        match text {
            "" | "Metadata" => Ok(Self::Metadata),
            "None" => Ok(Self::None),
            "Object" => Ok(Self::Object),
            other => Err(Status::bad_request(format!(
                "includeObject: Invalid value: {}: must be 'Metadata', 'Object', 'None', or empty",
                dialect::quote(other)
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_table_has_every_member_that_kubectl_reads() {
        let mut table = Table::new(META_API_VERSION);
        table.column_definitions = Some(vec![ColumnDefinition {
            name: "N".to_owned(),
            ..Default::default()
        }]);
        table.rows.push(TableRow {
            cells: vec![json!("a"), Value::Null],
            object: None,
        });
        assert_eq!(
            serde_json::to_value(&table).unwrap(),
            json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {},
                "columnDefinitions": [{"name": "N", "type": "", "format": "", "description": "", "priority": 0}],
                "rows": [{"cells": ["a", null]}]})
        );
    }

    #[test]
    fn rows_hold_metadata_unless_asked_otherwise() {
        assert_eq!(IncludeObject::parse("").unwrap(), IncludeObject::Metadata);
        assert_eq!(IncludeObject::parse("x").unwrap_err().code, 400);
    }
}
