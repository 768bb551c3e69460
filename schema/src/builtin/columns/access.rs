//! Roles and certificates.

use serde_json::{Value, json};

use super::{NONE, Printer, Row, text_at};
use dialect::human_duration;

const BINDING_COLUMNS: &str =
    "Name:string,Role:string,Age:string,@Users:string,@Groups:string,@ServiceAccounts:string";

pub(super) const PRINTERS: &[Printer] = &[
    Printer {
        group: "rbac.authorization.k8s.io",
        resource: "rolebindings",
        columns: BINDING_COLUMNS,
        cells: binding,
    },
    Printer {
        group: "rbac.authorization.k8s.io",
        resource: "clusterrolebindings",
        columns: BINDING_COLUMNS,
        cells: binding,
    },
    Printer {
        group: "certificates.k8s.io",
        resource: "certificatesigningrequests",
        columns: "Name:string,Age:string,SignerName:string,Requestor:string,RequestedDuration:string,Condition:string",
        cells: |row| {
            let seconds = row.get("spec.expirationSeconds").and_then(Value::as_i64);
            let duration = seconds.map_or_else(|| NONE.to_owned(), human_duration);
            vec![
                row.name(),
                row.age(),
                json!(row.text_or("spec.signerName", NONE)),
                json!(row.text("spec.username")),
                json!(duration),
                json!(request_state(row)),
            ]
        },
    },
];

fn binding(row: &Row<'_>) -> Vec<Value> {
    let role = format!("{}/{}", row.text("roleRef.kind"), row.text("roleRef.name"));
    let subjects = |kind: &str| {
        let named = row
            .list("subjects")
            .iter()
            .filter(|it| text_at(it, "kind") == kind);
        let names: Vec<String> = named
            .map(|it| match (kind, text_at(it, "namespace")) {
                ("ServiceAccount", namespace) => format!("{namespace}/{}", text_at(it, "name")),
                _ => text_at(it, "name").to_owned(),
            })
            .collect();
        json!(names.join(", "))
    };
    let (users, groups) = (subjects("User"), subjects("Group"));
    vec![
        row.name(),
        json!(role),
        row.age(),
        users,
        groups,
        subjects("ServiceAccount"),
    ]
}

fn request_state(row: &Row<'_>) -> String {
    let has = |condition: &str| row.condition(condition).is_some();
    let mut state = if has("Denied") {
        "Denied"
    } else if has("Approved") {
        "Approved"
    } else {
        "Pending"
    }
    .to_owned();
    if has("Failed") {
        state.push_str(",Failed");
    }
    if !row.text("status.certificate").is_empty() {
        state.push_str(",Issued");
    }
    state
}
