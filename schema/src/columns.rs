//! What kubectl prints of objects, as cells of a table.
//!
//! Ages are computed here, because kubectl prints cells as they are; so the time comes in as an argument.
//!
//! Source: `apiextensions-apiserver/pkg/registry/customresource/tableconvertor/tableconvertor.go`.

use api::crd::PrinterColumn;
use api::meta;
use api::table::ColumnDefinition;
use dialect::human_duration;
use jiff::Timestamp;
use serde_json::Value;

use crate::jsonpath::{self, JsonPath, JsonPathError};

/// The columns of a kind.
#[derive(Debug, Clone)]
pub struct Columns {
    definitions: Vec<ColumnDefinition>,
    source: Source,
}

/// Where cells come from.
#[derive(Debug, Clone)]
enum Source {
    /// The name, and a path per further column.
    Paths(Vec<JsonPath>),
    /// Code, for built-in kinds.
    Function(fn(&Row<'_>) -> Vec<Value>),
}

/// An object whose cells are made by code.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row<'a> {
    /// The object.
    pub(crate) object: &'a Value,
    /// The time that ages count to.
    pub(crate) now: Timestamp,
}

// === impl Columns ===

impl Columns {
    /// The columns of a version of a custom resource: the name, and what it declares, or the age.
    ///
    /// # Errors
    /// A path does not parse; definitions with such paths are not established.
    pub fn of_version(columns: &[PrinterColumn]) -> Result<Self, JsonPathError> {
        let mut definitions = vec![ColumnDefinition::name()];
        let mut paths = Vec::with_capacity(columns.len().max(1));
        for column in columns {
            paths.push(JsonPath::parse(&column.json_path)?);
            definitions.push(definition(column));
        }
        if columns.is_empty() {
            paths.push(JsonPath::parse(".metadata.creationTimestamp")?);
            definitions.push(ColumnDefinition::age());
        }
        Ok(Self {
            definitions,
            source: Source::Paths(paths),
        })
    }

    /// The columns of a built-in kind.
    pub(crate) fn of_code(
        definitions: Vec<ColumnDefinition>,
        cells: fn(&Row<'_>) -> Vec<Value>,
    ) -> Self {
        Self {
            definitions,
            source: Source::Function(cells),
        }
    }

    /// What the cells are.
    pub fn definitions(&self) -> &[ColumnDefinition] {
        &self.definitions
    }

    /// The cells of an object, one per column.
    pub fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let paths = match &self.source {
            Source::Function(cells) => return cells(&Row { object, now }),
            Source::Paths(paths) => paths,
        };
        let name = Value::from(meta::name(object));
        let others = self.definitions.iter().skip(1).zip(paths);
        std::iter::once(name)
            .chain(others.map(|(definition, path)| cell(object, &definition.type_, path, now)))
            .collect()
    }
}

fn definition(column: &PrinterColumn) -> ColumnDefinition {
    let description = if column.description.is_empty() {
        format!(
            "Custom resource definition column (in JSONPath format): {}",
            column.json_path
        )
    } else {
        column.description.clone()
    };
    ColumnDefinition {
        name: column.name.clone(),
        type_: column.type_.clone(),
        format: column.format.clone(),
        description,
        priority: column.priority,
    }
}

/// The first value of the path in the type of the column; null where there is none.
fn cell(object: &Value, column_type: &str, path: &JsonPath, now: Timestamp) -> Value {
    let found = path
        .evaluate(object)
        .ok()
        .and_then(|values| values.into_iter().next());
    let Some(value) = found else {
        return Value::Null;
    };
    match (column_type, value.as_ref()) {
        // Kubernetes itself stumbles over a null here.
        (_, Value::Null) => Value::Null,
        ("string", value) => Value::String(jsonpath::text(value)),
        ("integer", Value::Number(number)) => integer(number).map_or(Value::Null, Value::from),
        ("number", Value::Number(number)) => number.as_f64().map_or(Value::Null, Value::from),
        ("boolean", Value::Bool(flag)) => Value::Bool(*flag),
        ("date", Value::String(text)) => Value::String(age(text, now)),
        _ => Value::Null,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "cuts the fraction and saturates, as intended"
)]
fn integer(number: &serde_json::Number) -> Option<i64> {
    number
        .as_i64()
        .or_else(|| number.as_f64().map(|float| float as i64))
}

/// How long ago `time` was: `5d3h`, `<unknown>` for no time, `<invalid>` for what is none.
pub fn age(time: &str, now: Timestamp) -> String {
    if time.is_empty() || time == "null" {
        return "<unknown>".to_owned();
    }
    match time.parse::<Timestamp>() {
        Ok(time) => human_duration(now.as_second().saturating_sub(time.as_second())),
        Err(_) => "<invalid>".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn column(name: &str, column_type: &str, path: &str) -> PrinterColumn {
        PrinterColumn {
            name: name.to_owned(),
            type_: column_type.to_owned(),
            json_path: path.to_owned(),
            ..PrinterColumn::default()
        }
    }

    #[test]
    fn cells_have_the_type_of_their_column() {
        let object = json!({"metadata": {"name": "n", "creationTimestamp": "2024-01-01T00:00:00Z"},
            "spec": {"s": "x", "i": 1, "f": 1.9, "b": true, "m": {"a": 1}, "l": ["x", "y"], "d": "yesterday"}});
        let cases = [
            ("string", ".spec.s", json!("x")),
            ("string", ".spec.i", json!("1")),
            ("string", ".spec.m", json!("{\"a\":1}")),
            ("string", ".spec.l[*]", json!("x")),
            ("string", ".spec.missing", json!(null)),
            ("integer", ".spec.i", json!(1)),
            ("integer", ".spec.f", json!(1)),
            ("integer", ".spec.s", json!(null)),
            ("number", ".spec.i", json!(1.0)),
            ("boolean", ".spec.b", json!(true)),
            ("boolean", ".spec.s", json!(null)),
            ("date", ".metadata.creationTimestamp", json!("2d")),
            ("date", ".spec.d", json!("<invalid>")),
        ];
        let now = "2024-01-03T00:00:00Z".parse().unwrap();
        for (column_type, path, want) in cases {
            let columns = Columns::of_version(&[column("C", column_type, path)]).unwrap();
            assert_eq!(
                columns.cells(&object, now),
                vec![json!("n"), want],
                "{column_type} {path}"
            );
        }
    }

    #[test]
    fn kinds_without_columns_show_their_age() {
        let columns = Columns::of_version(&[]).unwrap();
        let names: Vec<&str> = columns
            .definitions()
            .iter()
            .map(|it| it.name.as_str())
            .collect();
        assert_eq!(names, ["Name", "Age"]);
        let object =
            json!({"metadata": {"name": "n", "creationTimestamp": "2024-01-01T00:00:00Z"}});
        let now = "2024-01-01T00:01:30Z".parse().unwrap();
        assert_eq!(columns.cells(&object, now), vec![json!("n"), json!("90s")]);
    }
}
