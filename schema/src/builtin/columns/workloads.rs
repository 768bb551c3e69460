//! Deployments and their kin, jobs and autoscalers.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    NONE, Printer, Row, UNKNOWN, UNSET, at, containers, labels, scalar, selector, text_at,
};
use dialect::human_duration;

const REPLICAS_COLUMNS: &str = "Name:string,Desired:integer,Current:integer,Ready:integer,Age:string,@Containers:string,\
                                @Images:string,@Selector:string";

pub(super) const PRINTERS: &[Printer] = &[
    Printer {
        group: "apps",
        resource: "deployments",
        columns: "Name:string,Ready:string,Up-to-date:string,Available:string,Age:string,@Containers:string,\
                  @Images:string,@Selector:string",
        cells: |row| {
            let [names, images] = containers(row.get("spec.template.spec"));
            let ready = format!(
                "{}/{}",
                row.count("status.readyReplicas"),
                row.count("spec.replicas")
            );
            let updated = json!(row.count("status.updatedReplicas"));
            let available = json!(row.count("status.availableReplicas"));
            let selected = json!(selector(row.get("spec.selector")));
            vec![
                row.name(),
                json!(ready),
                updated,
                available,
                row.age(),
                names,
                images,
                selected,
            ]
        },
    },
    Printer {
        group: "apps",
        resource: "replicasets",
        columns: REPLICAS_COLUMNS,
        cells: |row| {
            let [names, images] = containers(row.get("spec.template.spec"));
            let count = |path| json!(row.count(path));
            let (desired, current) = (count("spec.replicas"), count("status.replicas"));
            let ready = count("status.readyReplicas");
            let selected = json!(selector(row.get("spec.selector")));
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
        group: "apps",
        resource: "statefulsets",
        columns: "Name:string,Ready:string,Age:string,@Containers:string,@Images:string",
        cells: |row| {
            let [names, images] = containers(row.get("spec.template.spec"));
            let ready = format!(
                "{}/{}",
                row.count("status.readyReplicas"),
                row.count("spec.replicas")
            );
            vec![row.name(), json!(ready), row.age(), names, images]
        },
    },
    Printer {
        group: "apps",
        resource: "daemonsets",
        columns: "Name:string,Desired:integer,Current:integer,Ready:integer,Up-to-date:integer,Available:integer,\
                  Node Selector:string,Age:string,@Containers:string,@Images:string,@Selector:string",
        cells: |row| {
            let [names, images] = containers(row.get("spec.template.spec"));
            let mut cells = vec![row.name()];
            for field in [
                "desiredNumberScheduled",
                "currentNumberScheduled",
                "numberReady",
                "updatedNumberScheduled",
                "numberAvailable",
            ] {
                cells.push(json!(row.count(&format!("status.{field}"))));
            }
            let nodes = json!(labels(row.get("spec.template.spec.nodeSelector")));
            let selected = json!(selector(row.get("spec.selector")));
            cells.extend([nodes, row.age(), names, images, selected]);
            cells
        },
    },
    Printer {
        group: "batch",
        resource: "jobs",
        columns: "Name:string,Status:string,Completions:string,Duration:string,Age:string,@Containers:string,\
                  @Images:string,@Selector:string",
        cells: job,
    },
    Printer {
        group: "batch",
        resource: "cronjobs",
        columns: "Name:string,Schedule:string,Timezone:string,Suspend:boolean,Active:integer,Last Schedule:string,\
                  Age:string,@Containers:string,@Images:string,@Selector:string",
        cells: |row| {
            let [names, images] = containers(row.get("spec.jobTemplate.spec.template.spec"));
            let suspended = row.get("spec.suspend") == Some(&Value::Bool(true));
            let last = match row.text("status.lastScheduleTime") {
                "" => NONE.to_owned(),
                _ => row.since("status.lastScheduleTime"),
            };
            vec![
                row.name(),
                json!(row.text("spec.schedule")),
                json!(row.text_or("spec.timeZone", NONE)),
                json!(if suspended { "True" } else { "False" }),
                json!(row.list("status.active").len()),
                json!(last),
                row.age(),
                names,
                images,
                json!(selector(row.get("spec.jobTemplate.spec.selector"))),
            ]
        },
    },
    Printer {
        group: "autoscaling",
        resource: "horizontalpodautoscalers",
        columns: "Name:string,Reference:string,Targets:string,MinPods:string,MaxPods:string,Replicas:string,Age:string",
        cells: |row| {
            let target = |field: &str| row.text(&format!("spec.scaleTargetRef.{field}")).to_owned();
            let reference = format!("{}/{}", target("kind"), target("name"));
            let least = row
                .get("spec.minReplicas")
                .map_or_else(|| UNSET.to_owned(), scalar);
            let (most, current) = (
                row.count("spec.maxReplicas"),
                row.count("status.currentReplicas"),
            );
            let targets = json!(targets(row));
            vec![
                row.name(),
                json!(reference),
                targets,
                json!(least),
                json!(most),
                json!(current),
                row.age(),
            ]
        },
    },
    Printer {
        group: "policy",
        resource: "poddisruptionbudgets",
        columns: "Name:string,Min Available:string,Max Unavailable:string,Allowed Disruptions:integer,Age:string",
        cells: |row| {
            let amount = |path| json!(row.get(path).map_or_else(|| "N/A".to_owned(), scalar));
            let (least, most) = (amount("spec.minAvailable"), amount("spec.maxUnavailable"));
            vec![
                row.name(),
                least,
                most,
                json!(row.count("status.disruptionsAllowed")),
                row.age(),
            ]
        },
    },
];

fn job(row: &Row<'_>) -> Vec<Value> {
    let [names, images] = containers(row.get("spec.template.spec"));
    let succeeded = row.count("status.succeeded");
    let completions = match (
        row.get("spec.completions").and_then(Value::as_i64),
        row.count("spec.parallelism"),
    ) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallel) if parallel > 1 => format!("{succeeded}/1 of {parallel}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let is = |condition: &str| row.condition(condition) == Some("True");
    let status = if is("Complete") {
        "Complete"
    } else if is("Failed") {
        "Failed"
    } else if row.is_terminating() {
        "Terminating"
    } else if is("Suspended") {
        "Suspended"
    } else if is("FailureTarget") {
        "FailureTarget"
    } else if is("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    };
    vec![
        row.name(),
        json!(status),
        json!(completions),
        json!(job_duration(row)),
        row.age(),
        names,
        images,
        json!(selector(row.get("spec.selector"))),
    ]
}

/// How long the job ran, or has been running.
fn job_duration(row: &Row<'_>) -> String {
    let time = |path| row.text(path).parse::<Timestamp>().ok();
    let Some(start) = time("status.startTime") else {
        return String::new();
    };
    let end = time("status.completionTime").unwrap_or(row.now);
    human_duration(end.as_second().saturating_sub(start.as_second()))
}

/// What an autoscaler aims at and where it is, the first two.
fn targets(row: &Row<'_>) -> String {
    const SHOWN: usize = 2;
    if let Some(percent) = row.get("spec.targetCPUUtilizationPercentage") {
        let current = row.get("status.currentCPUUtilizationPercentage");
        let current = current.map_or_else(|| UNKNOWN.to_owned(), |it| format!("{it}%"));
        return format!("cpu: {current}/{percent}%");
    }
    let metrics = row.list("spec.metrics");
    if metrics.is_empty() {
        return NONE.to_owned();
    }
    let statuses = row.list("status.currentMetrics");
    let texts: Vec<String> = metrics
        .iter()
        .zip(0..)
        .map(|(metric, index)| target(metric, statuses.get(index)))
        .collect();
    let first: Vec<&str> = texts.iter().take(SHOWN).map(String::as_str).collect();
    let joined = first.join(", ");
    match texts.len().saturating_sub(SHOWN) {
        0 => joined,
        more => format!("{joined} + {more} more..."),
    }
}

fn target(metric: &Value, status: Option<&Value>) -> String {
    let source = match text_at(metric, "type") {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let wanted = |field: &str| at(metric, &format!("{source}.target.{field}"));
    let current = |field: &str| status.and_then(|it| at(it, &format!("{source}.current.{field}")));
    let shown = |value: Option<&Value>, unit: &str| {
        value.map_or_else(|| UNKNOWN.to_owned(), |it| format!("{}{unit}", scalar(it)))
    };
    let name = match source {
        "resource" | "containerResource" => {
            format!("{}: ", text_at(metric, &format!("{source}.name")))
        }
        _ => String::new(),
    };
    let (average, utilization) = (wanted("averageValue"), wanted("averageUtilization"));
    match (average, utilization) {
        (Some(average), _) => {
            let unit = if matches!(source, "external" | "object") {
                " (avg)"
            } else {
                ""
            };
            format!(
                "{name}{}/{}{unit}",
                shown(current("averageValue"), ""),
                scalar(average)
            )
        }
        (None, Some(utilization)) => {
            format!(
                "{name}{}/{utilization}%",
                shown(current("averageUtilization"), "%")
            )
        }
        (None, None) => {
            let value = wanted("value").map_or_else(|| "<auto>".to_owned(), scalar);
            format!("{name}{}/{value}", shown(current("value"), ""))
        }
    }
}
