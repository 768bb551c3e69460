//! Webhooks and policies of admission, flow control, and dynamic resources.

use serde_json::{Value, json};

use super::{Printer, Row, UNSET, text_at};

const NAME_AGE_COLUMNS: &str = "Name:string,Age:string";

pub(super) const PRINTERS: &[Printer] = &[
    Printer {
        group: "admissionregistration.k8s.io",
        resource: "validatingwebhookconfigurations",
        columns: "Name:string,Webhooks:integer,Age:string",
        cells: |row| vec![row.name(), json!(row.list("webhooks").len()), row.age()],
    },
    Printer {
        group: "admissionregistration.k8s.io",
        resource: "mutatingwebhookconfigurations",
        columns: "Name:string,Webhooks:integer,Age:string",
        cells: |row| vec![row.name(), json!(row.list("webhooks").len()), row.age()],
    },
    Printer {
        group: "admissionregistration.k8s.io",
        resource: "validatingadmissionpolicies",
        columns: "Name:string,Validations:integer,ParamKind:string,Age:string",
        cells: |row| policy(row, "spec.validations"),
    },
    Printer {
        group: "admissionregistration.k8s.io",
        resource: "mutatingadmissionpolicies",
        columns: "Name:string,Mutations:integer,ParamKind:string,Age:string",
        cells: |row| policy(row, "spec.mutations"),
    },
    Printer {
        group: "admissionregistration.k8s.io",
        resource: "validatingadmissionpolicybindings",
        columns: "Name:string,PolicyName:string,ParamRef:string,Age:string",
        cells: binding,
    },
    Printer {
        group: "admissionregistration.k8s.io",
        resource: "mutatingadmissionpolicybindings",
        columns: "Name:string,PolicyName:string,ParamRef:string,Age:string",
        cells: binding,
    },
    Printer {
        group: "flowcontrol.apiserver.k8s.io",
        resource: "flowschemas",
        columns: "Name:string,PriorityLevel:string,MatchingPrecedence:string,DistinguisherMethod:string,Age:string,\
                  MissingPL:string",
        cells: |row| {
            let level = json!(row.text_or("spec.priorityLevelConfiguration.name", "<none>"));
            let method = json!(row.text_or("spec.distinguisherMethod.type", "<none>"));
            let dangling = row.condition("Dangling").unwrap_or("?");
            let precedence = json!(row.count("spec.matchingPrecedence"));
            vec![
                row.name(),
                level,
                precedence,
                method,
                row.age(),
                json!(dangling),
            ]
        },
    },
    Printer {
        group: "flowcontrol.apiserver.k8s.io",
        resource: "prioritylevelconfigurations",
        columns: "Name:string,Type:string,NominalConcurrencyShares:string,Queues:string,HandSize:string,\
                  QueueLengthLimit:string,Age:string",
        cells: priority_level,
    },
    Printer {
        group: "resource.k8s.io",
        resource: "deviceclasses",
        columns: NAME_AGE_COLUMNS,
        cells: name_age,
    },
    Printer {
        group: "resource.k8s.io",
        resource: "resourceclaimtemplates",
        columns: NAME_AGE_COLUMNS,
        cells: name_age,
    },
    Printer {
        group: "resource.k8s.io",
        resource: "resourceclaims",
        columns: "Name:string,State:string,Age:string",
        cells: |row| vec![row.name(), json!(claim_state(row)), row.age()],
    },
    Printer {
        group: "resource.k8s.io",
        resource: "resourceslices",
        columns: "Name:string,Node:string,Driver:string,Pool:string,Age:string",
        cells: |row| {
            let text = |path| json!(row.text(path));
            let (node, driver) = (text("spec.nodeName"), text("spec.driver"));
            vec![row.name(), node, driver, text("spec.pool.name"), row.age()]
        },
    },
];

fn name_age(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), row.age()]
}

fn policy(row: &Row<'_>, expressions: &str) -> Vec<Value> {
    let parameters = row.get("spec.paramKind").map_or_else(
        || UNSET.to_owned(),
        |it| format!("{}/{}", text_at(it, "apiVersion"), text_at(it, "kind")),
    );
    vec![
        row.name(),
        json!(row.list(expressions).len()),
        json!(parameters),
        row.age(),
    ]
}

fn binding(row: &Row<'_>) -> Vec<Value> {
    let parameters = match (row.get("spec.paramRef"), row.text("spec.paramRef.name")) {
        (None, _) => UNSET.to_owned(),
        (Some(_), "") => "*".to_owned(),
        (Some(_), name) => match row.text("spec.paramRef.namespace") {
            "" => format!("*/{name}"),
            namespace => format!("{namespace}/{name}"),
        },
    };
    vec![
        row.name(),
        json!(row.text("spec.policyName")),
        json!(parameters),
        row.age(),
    ]
}

fn priority_level(row: &Row<'_>) -> Vec<Value> {
    let limited = |field: &str| {
        let number = row.get(&format!("spec.limited.{field}"));
        number.cloned().unwrap_or_else(|| json!("<none>"))
    };
    let queuing = |field: &str| limited(&format!("limitResponse.queuing.{field}"));
    let shares = limited("nominalConcurrencyShares");
    let (level_type, queues) = (json!(row.text("spec.type")), queuing("queues"));
    let (hand, length) = (queuing("handSize"), queuing("queueLengthLimit"));
    vec![
        row.name(),
        level_type,
        shares,
        queues,
        hand,
        length,
        row.age(),
    ]
}

fn claim_state(row: &Row<'_>) -> String {
    let mut states = Vec::new();
    if row.is_terminating() {
        states.push("deleted");
    }
    if row.get("status.allocation").is_none() {
        if !row.is_terminating() {
            states.push("pending");
        }
    } else {
        states.push("allocated");
        if !row.list("status.reservedFor").is_empty() {
            states.push("reserved");
        } else if row.get("status.deallocationRequested") == Some(&Value::Bool(true)) {
            states.push("deallocation-requested");
        }
    }
    states.join(",")
}
