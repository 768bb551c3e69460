//! What is shown of one spoke.

use std::{cmp::Ordering, collections::BTreeMap};

use api::wheelhouse::{InstanceCounts, SpokeStatus, keys::REASONS_NOT_USED};
use serde::Serialize;
use serde_json::Value;

use crate::output::Format;

/// How a spoke is, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) enum State {
    /// It does not answer.
    Unreachable,
    /// The hub does not use it: it refuses the hub, is not the cluster that its Spoke is for, or its credential may not be
    /// used.
    Refused,
    /// It answers, and something there has failed.
    Degraded,
    /// The hub does not know, or has not said yet.
    Unknown,
    /// It is being removed.
    Deleting,
    /// Nothing is written there, because its Spoke says so.
    Suspended,
    /// All is well.
    Ready,
}

/// A spoke, as it is shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) state: State,
    pub(super) version: String,
    pub(super) instances: InstanceCounts,
    /// When it was last heard of, as its status says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_heartbeat_time: Option<String>,
    /// Keys of its queue that wait.
    pub(super) queued: u64,
    /// Whether requests to it pass: `Closed`, `Open` or `HalfOpen`; empty where nobody says.
    pub(super) circuit: String,
    pub(super) labels: BTreeMap<String, String>,
    /// What is wrong; empty while nothing is.
    pub(super) message: String,
}

// === impl State ===

impl State {
    /// Whether it is not heard of a spoke of this state.
    pub(super) const fn is_away(self) -> bool {
        matches!(self, Self::Unreachable | Self::Refused | Self::Unknown)
    }

    /// Returns the word for it.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Unreachable => "Unreachable",
            Self::Refused => "Refused",
            Self::Degraded => "Degraded",
            Self::Unknown => "Unknown",
            Self::Deleting => "Deleting",
            Self::Suspended => "Suspended",
            Self::Ready => "Ready",
        }
    }
}

// === impl Row ===

impl Row {
    /// Reads a Spoke. A status of another shape counts as none.
    pub(super) fn of(spoke: &Value) -> Self {
        let status: SpokeStatus =
            serde_json::from_value(spoke["status"].clone()).unwrap_or_default();
        let instances = status.instances.clone().unwrap_or_default();
        let (state, message) = state_of(spoke, &status, &instances);
        let labels = spoke["metadata"]["labels"].as_object();
        Self {
            name: api::meta::name(spoke).to_owned(),
            state,
            version: status.version,
            instances,
            last_heartbeat_time: status.last_heartbeat_time,
            queued: status.queue.map_or(0, |queue| queue.ready),
            circuit: status.circuit.map_or_else(String::new, |it| it.state),
            labels: labels
                .into_iter()
                .flatten()
                .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
                .collect(),
            message,
        }
    }

    /// Compares by trouble, then by name.
    pub(super) fn in_order(&self, other: &Self) -> Ordering {
        (self.state, &self.name).cmp(&(other.state, &other.name))
    }

    /// Returns how many of its instances are ready, `12/15`.
    pub(super) fn share(&self) -> String {
        format!("{}/{}", self.instances.ready, self.instances.total)
    }

    /// Returns how long ago it was heard of, as kubectl writes ages.
    pub(super) fn heard(&self, now: jiff::Timestamp) -> String {
        let heard = self.last_heartbeat_time.as_deref();
        let heard = heard.and_then(|text| text.parse::<jiff::Timestamp>().ok());
        heard.map_or_else(
            || "-".to_owned(), // an embedded cluster is this hub itself
            |at| dialect::human_duration((now.as_second() - at.as_second()).max(0)),
        )
    }
}

fn state_of(spoke: &Value, status: &SpokeStatus, counts: &InstanceCounts) -> (State, String) {
    let of = |kind: &str| status.conditions.iter().find(|it| it.type_ == kind);
    let said = |text: &str| {
        let text = if text.is_empty() {
            &status.message
        } else {
            text
        };
        text.to_owned()
    };
    if api::meta::is_terminating(spoke) {
        return (State::Deleting, said(""));
    }
    // Before what is reachable: the hub has let go of it.
    if spoke["spec"]["suspended"] == true {
        return (State::Suspended, "spec.suspended is set".to_owned());
    }
    if let Some(reachable) = of("Reachable").filter(|it| it.status != "True") {
        let state = match reachable.status.as_str() {
            "False" if REASONS_NOT_USED.contains(&reachable.reason.as_str()) => State::Refused,
            "False" => State::Unreachable,
            _ => State::Unknown,
        };
        return (state, said(&reachable.message));
    }
    match of("Ready") {
        None => (State::Unknown, said("the hub has not reported on it yet")),
        Some(ready) if ready.status != "True" => {
            let cause = ["Synced", "CRDsDistributed"].into_iter().filter_map(of);
            let cause = cause.into_iter().find(|it| it.status != "True");
            let state = match ready.status.as_str() {
                "False" => State::Degraded,
                _ => State::Unknown,
            };
            (state, said(&cause.unwrap_or(ready).message))
        }
        Some(_) if counts.error > 0 => {
            let what = if counts.error == 1 {
                "instance has"
            } else {
                "instances have"
            };
            let message = format!(
                "{} {what} failed: see wheelhouse fleet waiting",
                counts.error
            );
            (State::Degraded, message)
        }
        Some(_) => (State::Ready, said("")),
    }
}

/// Returns the cells of a table, its head first.
pub(super) fn table(rows: &[Row], format: Option<Format>) -> Vec<Vec<String>> {
    let is_wide = format == Some(Format::Wide);
    let now = jiff::Timestamp::now();
    let mut head = vec!["SPOKE", "STATE", "INSTANCES", "VERSION", "HEARD"];
    if is_wide {
        head.extend(["FAILED", "QUEUED", "CIRCUIT", "LABELS"]);
    }
    head.push("MESSAGE");
    let mut lines = vec![head.into_iter().map(str::to_owned).collect()];
    for row in rows {
        let mut cells = vec![
            row.name.clone(),
            row.state.word().to_owned(),
            row.share(),
            row.version.clone(),
            row.heard(now),
        ];
        if is_wide {
            let labels: Vec<String> = row
                .labels
                .iter()
                .map(|(key, value)| format!("{key}={value}"))
                .collect();
            cells.extend([
                row.instances.error.to_string(),
                row.queued.to_string(),
                row.circuit.clone(),
                labels.join(","),
            ]);
        }
        cells.push(row.message.clone());
        lines.push(cells);
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spoke(name: &str, conditions: &[(&str, &str, &str)], status: &Value) -> Value {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|(kind, status, message)| {
                json!({"type": kind, "status": status, "message": message, "reason": "R",
                       "lastTransitionTime": "2026-01-01T00:00:00Z"})
            })
            .collect();
        let mut status = status.clone();
        status["conditions"] = json!(conditions);
        json!({"metadata": {"name": name}, "spec": {}, "status": status})
    }

    const FAILED: &str = "1 instance has failed: see wheelhouse fleet waiting";

    #[test]
    fn the_spokes_in_trouble_come_first_and_say_why() {
        let well = [("Reachable", "True", ""), ("Ready", "True", "")];
        let failed = json!({"instances": {"total": 3, "ready": 2, "error": 1}});
        let mut leaving = spoke("d-leaving", &well, &json!({}));
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let let_go = [("Reachable", "False", "suspended by spec.suspended")];
        let mut still = spoke("e-still", &let_go, &json!({}));
        still["spec"]["suspended"] = json!(true);
        let gone = [
            ("Reachable", "False", "connection refused"),
            ("Ready", "False", ""),
        ];
        let late = [
            ("Reachable", "True", ""),
            ("Synced", "False", "a watch failed"),
            ("Ready", "False", "not all is well"),
        ];
        let mut rows: Vec<Row> = [
            spoke(
                "a-ready",
                &well,
                &json!({"instances": {"total": 3, "ready": 3}}),
            ),
            spoke("b-new", &[], &json!({})),
            spoke("c-failed", &well, &failed),
            leaving,
            still,
            spoke("f-gone", &gone, &json!({})),
            spoke("g-late", &late, &json!({})),
            json!({"metadata": {"name": "h-odd"}, "status": {"conditions": "no"}}),
        ]
        .iter()
        .map(Row::of)
        .collect();
        rows.sort_by(Row::in_order);
        let told: Vec<(&str, State, &str)> = rows
            .iter()
            .map(|row| (row.name.as_str(), row.state, row.message.as_str()))
            .collect();
        assert_eq!(
            told,
            [
                ("f-gone", State::Unreachable, "connection refused"),
                ("c-failed", State::Degraded, FAILED),
                ("g-late", State::Degraded, "a watch failed"),
                (
                    "b-new",
                    State::Unknown,
                    "the hub has not reported on it yet"
                ),
                (
                    "h-odd",
                    State::Unknown,
                    "the hub has not reported on it yet"
                ),
                ("d-leaving", State::Deleting, ""),
                ("e-still", State::Suspended, "spec.suspended is set"),
                ("a-ready", State::Ready, ""),
            ]
        );
        let cells = table(&rows, None);
        let shares: Vec<&str> = cells
            .iter()
            .skip(1)
            .map(|cells| cells[2].as_str())
            .collect();
        assert_eq!(
            shares,
            ["0/0", "2/3", "0/0", "0/0", "0/0", "0/0", "0/0", "3/3"]
        );
    }
}
