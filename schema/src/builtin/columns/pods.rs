//! Pods: the one kind whose state takes some finding out.
//!
//! Source: `kubernetes/pkg/printers/internalversion/printers.go`, `printPod`.

use serde_json::{Value, json};

use super::{NONE, Printer, Row, at, text_at};
use crate::columns::age;

pub(super) const PRINTERS: &[Printer] = &[Printer {
    group: "",
    resource: "pods",
    columns: "Name:string,Ready:string,Status:string,Restarts:string,Age:string,@IP:string,@Node:string,\
              @Nominated Node:string,@Readiness Gates:string",
    cells,
}];

/// What the containers of a pod come to.
#[derive(Default)]
struct Summary {
    reason: String,
    ready_count: usize,
    restarts_count: i64,
    /// RFC 3339 in UTC, which sorts as it is.
    last_restart: String,
}

fn cells(row: &Row<'_>) -> Vec<Value> {
    let containers_count = row.list("spec.containers").len();
    let sidecars_count = row
        .list("spec.initContainers")
        .iter()
        .filter(|it| is_sidecar(it))
        .count();
    let summary = summarize(row);
    let restarts = match (summary.restarts_count, summary.last_restart.as_str()) {
        (0, _) | (_, "") => summary.restarts_count.to_string(),
        (count, last) => format!("{count} ({} ago)", age(last, row.now)),
    };
    let address = row
        .list("status.podIPs")
        .first()
        .map_or("", |it| text_at(it, "ip"));
    vec![
        row.name(),
        json!(format!(
            "{}/{}",
            summary.ready_count,
            containers_count + sidecars_count
        )),
        json!(summary.reason),
        json!(restarts),
        row.age(),
        json!(if address.is_empty() { NONE } else { address }),
        json!(row.text_or("spec.nodeName", NONE)),
        json!(row.text_or("status.nominatedNodeName", NONE)),
        json!(gates(row)),
    ]
}

fn gates(row: &Row<'_>) -> String {
    let gates = row.list("spec.readinessGates");
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let is_true = |gate: &&Value| row.condition(text_at(gate, "conditionType")) == Some("True");
    format!("{}/{}", gates.iter().filter(is_true).count(), gates.len())
}

/// An init container that runs beside the others.
fn is_sidecar(container: &Value) -> bool {
    text_at(container, "restartPolicy") == "Always"
}

fn summarize(row: &Row<'_>) -> Summary {
    let phase = row.text("status.phase");
    let mut summary = Summary {
        reason: row.text_or("status.reason", phase).to_owned(),
        ..Summary::default()
    };
    let gated = row.list("status.conditions").iter().any(|it| {
        text_at(it, "type") == "PodScheduled" && text_at(it, "reason") == "SchedulingGated"
    });
    if gated {
        "SchedulingGated".clone_into(&mut summary.reason);
    }
    let sidecars = initialize(row, &mut summary);
    if let Some((restarts_count, last_restart)) = sidecars {
        summary.restarts_count = restarts_count;
        summary.last_restart = last_restart;
        run(row, &mut summary);
    }
    if row.is_terminating() {
        if row.text("status.reason") == "NodeLost" {
            "Unknown".clone_into(&mut summary.reason);
        } else if !matches!(phase, "Failed" | "Succeeded") {
            "Terminating".clone_into(&mut summary.reason);
        }
    }
    summary
}

/// Walks the init containers; if they are through, returns the restarts of those that keep running.
fn initialize(row: &Row<'_>, summary: &mut Summary) -> Option<(i64, String)> {
    let declared = row.list("spec.initContainers");
    let (mut sidecar_restarts_count, mut sidecar_last_restart) = (0, String::new());
    let mut initializing = false;
    for (index, status) in row.list("status.initContainerStatuses").iter().enumerate() {
        let name = text_at(status, "name");
        let sidecar = declared
            .iter()
            .any(|it| text_at(it, "name") == name && is_sidecar(it));
        count_restarts(
            status,
            &mut summary.restarts_count,
            &mut summary.last_restart,
        );
        if sidecar {
            count_restarts(
                status,
                &mut sidecar_restarts_count,
                &mut sidecar_last_restart,
            );
        }
        let terminated = at(status, "state.terminated");
        let waiting = text_at(status, "state.waiting.reason");
        if terminated.is_some_and(|it| exit_code(it) == 0) {
            continue;
        }
        if sidecar && status.get("started") == Some(&Value::Bool(true)) {
            summary.ready_count += usize::from(status.get("ready") == Some(&Value::Bool(true)));
            continue;
        }
        summary.reason = match terminated {
            Some(terminated) => format!("Init:{}", ended(terminated)),
            None if !waiting.is_empty() && waiting != "PodInitializing" => {
                format!("Init:{waiting}")
            }
            None => format!("Init:{index}/{}", declared.len()),
        };
        initializing = true;
        break;
    }
    let is_initialized = row.condition("Initialized") == Some("True");
    (!initializing || is_initialized).then_some((sidecar_restarts_count, sidecar_last_restart))
}

/// Walks the containers from the last to the first.
fn run(row: &Row<'_>, summary: &mut Summary) {
    let mut has_running = false;
    for status in row.list("status.containerStatuses").iter().rev() {
        count_restarts(
            status,
            &mut summary.restarts_count,
            &mut summary.last_restart,
        );
        let waiting = text_at(status, "state.waiting.reason");
        if !waiting.is_empty() {
            waiting.clone_into(&mut summary.reason);
        } else if let Some(terminated) = at(status, "state.terminated") {
            summary.reason = ended(terminated);
        } else if status.get("ready") == Some(&Value::Bool(true))
            && at(status, "state.running").is_some()
        {
            has_running = true;
            summary.ready_count += 1;
        }
    }
    if summary.reason == "Completed" && has_running {
        let is_ready = row.condition("Ready") == Some("True");
        if is_ready { "Running" } else { "NotReady" }.clone_into(&mut summary.reason);
    }
}

fn exit_code(terminated: &Value) -> i64 {
    terminated
        .get("exitCode")
        .and_then(Value::as_i64)
        .unwrap_or(0)
}

/// Why a container ended.
fn ended(terminated: &Value) -> String {
    let signal = terminated
        .get("signal")
        .and_then(Value::as_i64)
        .unwrap_or(0);
    match text_at(terminated, "reason") {
        "" if signal != 0 => format!("Signal:{signal}"),
        "" => format!("ExitCode:{}", exit_code(terminated)),
        reason => reason.to_owned(),
    }
}

fn count_restarts(status: &Value, count: &mut i64, last: &mut String) {
    *count += status
        .get("restartCount")
        .and_then(Value::as_i64)
        .unwrap_or(0);
    let finished = text_at(status, "lastState.terminated.finishedAt");
    if finished > last.as_str() {
        finished.clone_into(last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_show_the_state_of_their_containers() {
        let running =
            json!({"name": "c", "ready": true, "restartCount": 0, "state": {"running": {}}});
        let waiting = json!({"name": "c", "ready": false, "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"finishedAt": "2024-01-01T23:59:00Z"}}});
        let done = json!({"name": "c", "ready": false, "state": {"terminated": {"reason": "Completed", "exitCode": 0}}});
        let one = json!([{"name": "c"}]);
        let cases = [
            (
                "pending",
                json!({"spec": {"containers": one}, "status": {"phase": "Pending"}}),
                ["0/1", "Pending", "0"],
            ),
            (
                "running",
                json!({"spec": {"containers": one}, "status": {"phase": "Running", "containerStatuses": [running]}}),
                ["1/1", "Running", "0"],
            ),
            (
                "crashing",
                json!({"spec": {"containers": one}, "status": {"phase": "Running", "containerStatuses": [waiting]}}),
                ["0/1", "CrashLoopBackOff", "3 (60s ago)"],
            ),
            (
                "completed beside a running one",
                json!({"spec": {"containers": [{"name": "c"}, {"name": "d"}]}, "status": {"phase": "Running",
                "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [done, running]}}),
                ["1/2", "Running", "0"],
            ),
            (
                "initializing",
                json!({"spec": {"containers": one, "initContainers": [{"name": "i"}, {"name": "j"}]}, "status": {"phase": "Pending",
                "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 0}}}, {"name": "j", "state": {"running": {}}}]}}),
                ["0/1", "Init:1/2", "0"],
            ),
            (
                "failed to initialize",
                json!({"spec": {"containers": one, "initContainers": [{"name": "i"}]}, "status": {"phase": "Pending",
                "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 2}}}]}}),
                ["0/1", "Init:ExitCode:2", "0"],
            ),
            (
                "a sidecar",
                json!({"spec": {"containers": one, "initContainers": [{"name": "i", "restartPolicy": "Always"}]}, "status": {"phase": "Running",
                "initContainerStatuses": [{"name": "i", "ready": true, "started": true, "state": {"running": {}}}], "containerStatuses": [running]}}),
                ["2/2", "Running", "0"],
            ),
            (
                "terminating",
                json!({"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}, "spec": {"containers": one}, "status": {"phase": "Running"}}),
                ["0/1", "Terminating", "0"],
            ),
            (
                "evicted",
                json!({"spec": {"containers": one}, "status": {"phase": "Failed", "reason": "Evicted"}}),
                ["0/1", "Evicted", "0"],
            ),
            (
                "gated",
                json!({"spec": {"containers": one}, "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}}),
                ["0/1", "SchedulingGated", "0"],
            ),
        ];
        for (name, object, want) in cases {
            let cells = cells(&Row {
                object: &object,
                now: "2024-01-02T00:00:00Z".parse().unwrap(),
            });
            assert_eq!(cells[1..4], want.map(|it| json!(it)), "{name}");
        }
    }
}
