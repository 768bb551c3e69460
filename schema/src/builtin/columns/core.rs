//! Kinds of the core group, pods, services and volumes aside.

use serde_json::{Map, Value, json};

use super::{NONE, Printer, Row, UNKNOWN, containers, labels, scalar, text_at};
use crate::columns::age;

const EVENT_COLUMNS: &str = "Last Seen:string,Type:string,Reason:string,Object:string,@Subobject:string,@Source:string,\
                             Message:string,@First Seen:string,@Count:string,@Name:string";

pub(super) const PRINTERS: &[Printer] = &[
    Printer {
        group: "",
        resource: "configmaps",
        columns: "Name:string,Data:string,Age:string",
        cells: |row| {
            let size = |path| row.get(path).and_then(Value::as_object).map_or(0, Map::len);
            vec![
                row.name(),
                json!(size("data") + size("binaryData")),
                row.age(),
            ]
        },
    },
    Printer {
        group: "",
        resource: "secrets",
        columns: "Name:string,Type:string,Data:string,Age:string",
        cells: |row| {
            let size = row
                .get("data")
                .and_then(Value::as_object)
                .map_or(0, Map::len);
            vec![row.name(), json!(row.text("type")), json!(size), row.age()]
        },
    },
    Printer {
        group: "",
        resource: "serviceaccounts",
        columns: "Name:string,Age:string",
        cells: |row| vec![row.name(), row.age()],
    },
    Printer {
        group: "",
        resource: "namespaces",
        columns: "Name:string,Status:string,Age:string",
        cells: |row| vec![row.name(), json!(row.text("status.phase")), row.age()],
    },
    Printer {
        group: "",
        resource: "events",
        columns: EVENT_COLUMNS,
        cells: event,
    },
    Printer {
        group: "events.k8s.io",
        resource: "events",
        columns: EVENT_COLUMNS,
        cells: event,
    },
    Printer {
        group: "",
        resource: "nodes",
        columns: "Name:string,Status:string,Roles:string,Age:string,Version:string,@Internal-IP:string,\
                  @External-IP:string,@OS-Image:string,@Kernel-Version:string,@Container-Runtime:string",
        cells: node,
    },
    Printer {
        group: "",
        resource: "resourcequotas",
        columns: "Name:string,Request:string,Limit:string,Age:string",
        cells: quota,
    },
    Printer {
        group: "",
        resource: "podtemplates",
        columns: "Name:string,Containers:string,Images:string,Pod Labels:string",
        cells: |row| {
            let [names, images] = containers(row.get("template.spec"));
            vec![
                row.name(),
                names,
                images,
                json!(labels(row.get("template.metadata.labels"))),
            ]
        },
    },
    Printer {
        group: "",
        resource: "replicationcontrollers",
        columns: "Name:string,Desired:integer,Current:integer,Ready:integer,Age:string,@Containers:string,\
                  @Images:string,@Selector:string",
        cells: |row| {
            let [names, images] = containers(row.get("spec.template.spec"));
            let count = |path| json!(row.count(path));
            let selected = json!(labels(row.get("spec.selector")));
            let (desired, current) = (count("spec.replicas"), count("status.replicas"));
            let ready = count("status.readyReplicas");
            vec![
                row.name(),
                desired,
                current,
                ready,
                row.age(),
                names,
                images,
                selected,
            ]
        },
    },
    Printer {
        group: "",
        resource: "componentstatuses",
        columns: "Name:string,Status:string,Message:string,Error:string",
        cells: |row| {
            let healthy = row
                .list("conditions")
                .iter()
                .find(|it| text_at(it, "type") == "Healthy");
            let status = match healthy.map(|it| text_at(it, "status")) {
                Some("True") => "Healthy",
                Some(_) => "Unhealthy",
                None => "Unknown",
            };
            let text = |field| json!(healthy.map_or("", |it| text_at(it, field)));
            vec![row.name(), json!(status), text("message"), text("error")]
        },
    },
    Printer {
        group: "coordination.k8s.io",
        resource: "leases",
        columns: "Name:string,Holder:string,Age:string",
        cells: |row| {
            vec![
                row.name(),
                json!(row.text("spec.holderIdentity")),
                row.age(),
            ]
        },
    },
    Printer {
        group: "scheduling.k8s.io",
        resource: "priorityclasses",
        columns: "Name:string,Value:integer,Global-Default:boolean,Age:string,PreemptionPolicy:string",
        cells: |row| {
            let is_default = row.get("globalDefault") == Some(&Value::Bool(true));
            let policy = json!(row.text("preemptionPolicy"));
            vec![
                row.name(),
                json!(row.count("value")),
                json!(is_default),
                row.age(),
                policy,
            ]
        },
    },
    Printer {
        group: "node.k8s.io",
        resource: "runtimeclasses",
        columns: "Name:string,Handler:string,Age:string",
        cells: |row| vec![row.name(), json!(row.text("handler")), row.age()],
    },
    Printer {
        group: "apiregistration.k8s.io",
        resource: "apiservices",
        columns: "Name:string,Service:string,Available:string,Age:string",
        cells: api_service,
    },
    Printer {
        group: "apps",
        resource: "controllerrevisions",
        columns: "Name:string,Controller:string,Revision:string,Age:string",
        cells: |row| {
            let owners = row.list("metadata.ownerReferences").iter();
            let mut controllers =
                owners.filter(|it| it.get("controller") == Some(&Value::Bool(true)));
            let controller = controllers.next().map(|it| {
                // The kind in lower case, with the group that its API version names.
                let group = text_at(it, "apiVersion")
                    .split_once('/')
                    .map_or("", |(group, _)| group);
                let kind = text_at(it, "kind").to_lowercase();
                let dot = if group.is_empty() { "" } else { "." };
                format!("{kind}{dot}{group}/{}", text_at(it, "name"))
            });
            let controller = controller.unwrap_or_else(|| NONE.to_owned());
            vec![
                row.name(),
                json!(controller),
                json!(row.count("revision")),
                row.age(),
            ]
        },
    },
];

fn event(row: &Row<'_>) -> Vec<Value> {
    let about = if row.get("regarding").is_some() {
        "regarding"
    } else {
        "involvedObject"
    };
    let about_text = |field: &str| row.text(&format!("{about}.{field}")).to_owned();
    let first = match row.text_or("firstTimestamp", row.text("deprecatedFirstTimestamp")) {
        "" => row.text("eventTime"),
        first => first,
    };
    let last = row.text_or("lastTimestamp", row.text("deprecatedLastTimestamp"));
    let series_last = row.text("series.lastObservedTime");
    let last = if series_last.is_empty() {
        last
    } else {
        series_last
    };
    let last = if last.is_empty() { first } else { last };
    let counted = row.count("count").max(row.count("deprecatedCount"));
    let count = match row.get("series") {
        Some(_) => row.count("series.count"),
        // Without a count it happened once.
        None if counted == 0 => 1,
        None => counted,
    };
    let source = row.text_or("source.component", row.text("deprecatedSource.component"));
    let host = row.text_or("source.host", row.text("deprecatedSource.host"));
    let source = if source.is_empty() {
        row.text("reportingComponent")
    } else {
        source
    };
    let instance = if host.is_empty() {
        row.text("reportingInstance")
    } else {
        host
    };
    let source = if instance.is_empty() {
        source.to_owned()
    } else {
        format!("{source}, {instance}")
    };
    let object = format!(
        "{}/{}",
        about_text("kind").to_lowercase(),
        about_text("name")
    );
    let message = row.text_or("message", row.text("note")).trim();
    vec![
        json!(age(last, row.now)),
        json!(row.text("type")),
        json!(row.text("reason")),
        json!(object),
        json!(about_text("fieldPath")),
        json!(source),
        json!(message),
        json!(age(first, row.now)),
        json!(count),
        row.name(),
    ]
}

fn node(row: &Row<'_>) -> Vec<Value> {
    let mut status = vec![match row.condition("Ready") {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }];
    if row.get("spec.unschedulable") == Some(&Value::Bool(true)) {
        status.push("SchedulingDisabled");
    }
    let node_labels = row.get("metadata.labels").and_then(Value::as_object);
    let roles = node_labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| {
            let named = key.strip_prefix("node-role.kubernetes.io/");
            named.or_else(|| {
                (key == "kubernetes.io/role")
                    .then(|| value.as_str())
                    .flatten()
            })
        });
    let mut roles: Vec<&str> = roles.filter(|role| !role.is_empty()).collect();
    roles.sort_unstable();
    roles.dedup();
    let roles = if roles.is_empty() {
        NONE.to_owned()
    } else {
        roles.join(",")
    };
    let address = |kind: &str| {
        let mut addresses = row.list("status.addresses").iter();
        json!(
            addresses
                .find(|it| text_at(it, "type") == kind)
                .map_or(NONE, |it| text_at(it, "address"))
        )
    };
    let info = |field: &str| json!(row.text_or(&format!("status.nodeInfo.{field}"), UNKNOWN));
    let architecture = row.text("status.nodeInfo.architecture");
    let kernel = match (row.text("status.nodeInfo.kernelVersion"), architecture) {
        ("", _) => UNKNOWN.to_owned(),
        (kernel, "") => kernel.to_owned(),
        (kernel, architecture) => format!("{kernel} ({architecture})"),
    };
    vec![
        row.name(),
        json!(status.join(",")),
        json!(roles),
        row.age(),
        json!(row.text("status.nodeInfo.kubeletVersion")),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage"),
        json!(kernel),
        info("containerRuntimeVersion"),
    ]
}

fn quota(row: &Row<'_>) -> Vec<Value> {
    let hard = row.get("status.hard").and_then(Value::as_object);
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (name, amount) in hard.into_iter().flatten() {
        let used = row.get("status.used").and_then(|it| it.get(name));
        let text = format!(
            "{name}: {}/{}",
            used.map_or_else(|| "0".to_owned(), scalar),
            scalar(amount)
        );
        if name.starts_with("limits.") {
            &mut limits
        } else {
            &mut requests
        }
        .push(text);
    }
    vec![
        row.name(),
        json!(requests.join(", ")),
        json!(limits.join(", ")),
        row.age(),
    ]
}

fn api_service(row: &Row<'_>) -> Vec<Value> {
    let service = match row.get("spec.service") {
        Some(service) => format!(
            "{}/{}",
            text_at(service, "namespace"),
            text_at(service, "name")
        ),
        None => "Local".to_owned(),
    };
    let available = row
        .list("status.conditions")
        .iter()
        .find(|it| text_at(it, "type") == "Available");
    let available = match available {
        Some(condition) if text_at(condition, "status") != "True" => {
            format!(
                "{} ({})",
                text_at(condition, "status"),
                text_at(condition, "reason")
            )
        }
        Some(_) => "True".to_owned(),
        None => "Unknown".to_owned(),
    };
    vec![row.name(), json!(service), json!(available), row.age()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_both_groups_read_alike() {
        let now = "2024-01-01T01:00:00Z".parse().unwrap();
        let old = json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p"}, "type": "Normal", "reason": "R",
            "message": "m\n", "firstTimestamp": "2024-01-01T00:00:00Z", "lastTimestamp": "2024-01-01T00:59:00Z", "count": 2, "source": {"component": "k", "host": "h"}});
        let new = json!({"metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "p"}, "type": "Normal", "reason": "R",
            "note": "m", "deprecatedFirstTimestamp": "2024-01-01T00:00:00Z", "deprecatedLastTimestamp": "2024-01-01T00:59:00Z", "deprecatedCount": 2,
            "deprecatedSource": {"component": "k", "host": "h"}});
        let want = json!([
            "60s", "Normal", "R", "pod/p", "", "k, h", "m", "60m", 2, "e"
        ]);
        for object in [old, new] {
            assert_eq!(
                Value::Array(event(&Row {
                    object: &object,
                    now
                })),
                want
            );
        }
    }
}
