//! What kubectl prints of built-in kinds.
//!
//! The headings are those of Kubernetes, because scripts cut them; the cells are computed here by kind. Kinds that are
//! not listed show their name and when they were created, as Kubernetes does with kinds it has no printer for.
//!
//! Source: the Table answers of a kube-apiserver 1.36.3.

use api::GroupVersionResource;
use api::table::ColumnDefinition;
use serde_json::{Value, json};

use crate::columns::{Columns, Row, age};

mod access;
mod admission;
mod core;
mod network;
mod pods;
mod storage;
mod workloads;

/// A kind's columns as `Name:type`, `@` before those that only wide output shows, and its cells.
struct Printer {
    group: &'static str,
    resource: &'static str,
    columns: &'static str,
    cells: fn(&Row<'_>) -> Vec<Value>,
}

/// The columns of kinds without a printer.
const CREATED_COLUMNS: &str = "Name:string,Created At:date";

/// The columns of a built-in resource.
pub fn columns(gvr: &GroupVersionResource) -> Columns {
    let is_it = |it: &&Printer| it.group == gvr.group && it.resource == gvr.resource;
    match printers().flatten().find(is_it) {
        Some(printer) => Columns::of_code(definitions(printer.columns), printer.cells),
        None => Columns::of_code(definitions(CREATED_COLUMNS), created),
    }
}

fn printers() -> impl Iterator<Item = &'static [Printer]> {
    [
        core::PRINTERS,
        pods::PRINTERS,
        workloads::PRINTERS,
        network::PRINTERS,
        storage::PRINTERS,
        access::PRINTERS,
        admission::PRINTERS,
    ]
    .into_iter()
}

fn created(row: &Row<'_>) -> Vec<Value> {
    // A bookmark was never created, at Go's zero time.
    let time = match row.text("metadata.creationTimestamp") {
        "" => "0001-01-01T00:00:00Z",
        time => time,
    };
    vec![row.name(), json!(time)]
}

fn definitions(columns: &str) -> Vec<ColumnDefinition> {
    let parsed = columns.split(',').map(|column| {
        let (column, priority) = column.strip_prefix('@').map_or((column, 0), |it| (it, 1));
        let (name, column_type) = column.split_once(':').unwrap_or((column, "string"));
        if name == "Name" {
            return ColumnDefinition {
                priority,
                ..ColumnDefinition::name()
            };
        }
        ColumnDefinition {
            name: name.to_owned(),
            type_: column_type.to_owned(),
            format: String::new(),
            description: describe(name).to_owned(),
            priority,
        }
    });
    parsed.collect()
}

/// A few words about a column.
fn describe(column: &str) -> &'static str {
    match column {
        "Age" => "How long ago the object was created.",
        "Created At" => "When the object was created.",
        "Ready" => "How many are ready, of how many.",
        "Status" => "The state in one word.",
        "Restarts" => "How often containers were restarted.",
        "Desired" => "How many are wanted.",
        "Current" => "How many there are.",
        "Up-to-date" => "How many have the latest template.",
        "Available" => "How many can be used.",
        "Containers" => "The names of the containers.",
        "Images" => "The images of the containers.",
        "Selector" | "Pod-Selector" | "Node Selector" => "The labels that are selected.",
        "Data" => "How many entries there are.",
        "Type" => "The type.",
        "Cluster-IP" => "The address inside of the cluster.",
        "External-IP" => "The address outside of the cluster.",
        "Port(s)" | "Ports" => "The ports.",
        "Node" => "The node.",
        "IP" => "The address.",
        "Last Seen" => "How long ago it happened last.",
        "First Seen" => "How long ago it happened first.",
        "Message" => "What happened, for people.",
        "Reason" => "What happened, for programs.",
        "Object" => "What it is about.",
        "Capacity" => "How much can be stored.",
        "Access Modes" => "How it can be mounted.",
        "StorageClass" => "The class of storage.",
        "Role" => "The role that is granted.",
        "Holder" => "Who holds the lease.",
        "Schedule" => "When it runs.",
        "Hosts" => "The hosts that are served.",
        "Controller" => "Who looks after it.",
        _ => "As in the object.",
    }
}

// === impl Row ===

impl Row<'_> {
    /// The value at a dotted path.
    fn get(&self, path: &str) -> Option<&Value> {
        at(self.object, path)
    }

    fn text(&self, path: &str) -> &str {
        self.get(path).and_then(Value::as_str).unwrap_or_default()
    }

    fn count(&self, path: &str) -> i64 {
        self.get(path).and_then(Value::as_i64).unwrap_or(0)
    }

    fn list(&self, path: &str) -> &[Value] {
        self.get(path)
            .and_then(Value::as_array)
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    fn name(&self) -> Value {
        json!(self.text("metadata.name"))
    }

    fn age(&self) -> Value {
        json!(self.since("metadata.creationTimestamp"))
    }

    /// How long ago the time at a path was.
    fn since(&self, path: &str) -> String {
        age(self.text(path), self.now)
    }

    fn is_terminating(&self) -> bool {
        !self.text("metadata.deletionTimestamp").is_empty()
    }

    /// The text at a path, or another one where there is none.
    fn text_or<'v>(&'v self, path: &str, otherwise: &'v str) -> &'v str {
        match self.text(path) {
            "" => otherwise,
            text => text,
        }
    }

    /// The status of a condition.
    fn condition(&self, condition_type: &str) -> Option<&str> {
        let mut conditions = self.list("status.conditions").iter();
        let found = conditions.rfind(|it| it.get("type").is_some_and(|it| it == condition_type))?;
        found.get("status")?.as_str()
    }
}

const NONE: &str = "<none>";
const UNSET: &str = "<unset>";
const UNKNOWN: &str = "<unknown>";

fn at<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.')
        .try_fold(value, |value, name| value.get(name))
}

fn text_at<'v>(value: &'v Value, path: &str) -> &'v str {
    at(value, path).and_then(Value::as_str).unwrap_or_default()
}

/// Scalars as text: ports may be numbers or names, quantities are texts.
fn scalar(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// `a=b,c=d` of a map of labels.
fn labels(value: Option<&Value>) -> String {
    let pairs = value.and_then(Value::as_object).into_iter().flatten();
    let pairs: Vec<String> = pairs
        .map(|(key, value)| format!("{key}={}", scalar(value)))
        .collect();
    if pairs.is_empty() {
        NONE.to_owned()
    } else {
        pairs.join(",")
    }
}

/// A label selector as kubectl writes it.
fn selector(value: Option<&Value>) -> String {
    let Some(value) = value else {
        return NONE.to_owned();
    };
    let mut parts = Vec::new();
    for (key, label) in value
        .get("matchLabels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        parts.push((key.clone(), format!("{key}={}", scalar(label))));
    }
    let expressions = value.get("matchExpressions").and_then(Value::as_array);
    for expression in expressions.into_iter().flatten() {
        let key = text_at(expression, "key");
        let values = expression
            .get("values")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let mut values: Vec<String> = values.map(scalar).collect();
        values.sort();
        let values = values.join(",");
        let text = match text_at(expression, "operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        };
        parts.push((key.to_owned(), text));
    }
    parts.sort();
    let texts: Vec<String> = parts.into_iter().map(|(_, text)| text).collect();
    if texts.is_empty() {
        NONE.to_owned()
    } else {
        texts.join(",")
    }
}

/// The names and the images of the containers of a pod spec.
fn containers(spec: Option<&Value>) -> [Value; 2] {
    let containers = spec.and_then(|it| it.get("containers")?.as_array());
    let join = |field: &str| {
        let texts: Vec<&str> = containers
            .into_iter()
            .flatten()
            .map(|it| text_at(it, field))
            .collect();
        json!(texts.join(","))
    };
    [join("name"), join("image")]
}

/// The first `shown` of `items`, and how many more there are.
fn shortened(items: &[String], shown: usize) -> String {
    let first: Vec<&str> = items.iter().take(shown).map(String::as_str).collect();
    let joined = first.join(",");
    match items.len().saturating_sub(shown) {
        0 => joined,
        more => format!("{joined} + {more} more..."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::catalog;

    #[test]
    fn every_printer_belongs_to_a_kind_and_fills_its_columns() {
        let object =
            json!({"metadata": {"name": "a", "creationTimestamp": "2024-01-01T00:00:00Z"}});
        let now = "2024-01-02T00:00:00Z".parse().unwrap();
        for printer in printers().flatten() {
            let known = catalog()
                .resources()
                .iter()
                .any(|it| it.group == printer.group && it.resource == printer.resource);
            assert!(known, "{}", printer.resource);
            let cells = (printer.cells)(&Row {
                object: &object,
                now,
            });
            let columns = definitions(printer.columns);
            assert_eq!(cells.len(), columns.len(), "{}", printer.resource);
        }
    }

    #[test]
    fn selectors_read_as_kubectl_writes_them() {
        let value = json!({"matchLabels": {"b": "1", "a": "2"}, "matchExpressions": [
            {"key": "c", "operator": "In", "values": ["y", "x"]},
            {"key": "d", "operator": "DoesNotExist"},
        ]});
        assert_eq!(selector(Some(&value)), "a=2,b=1,c in (x,y),!d");
        assert_eq!(selector(Some(&json!({}))), "<none>");
    }
}
