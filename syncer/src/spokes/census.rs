//! The status of a Spoke: columns that answer "is it fine".

use std::{borrow::Cow, sync::Arc};

use api::{Condition, LogicalCluster, wheelhouse::keys};
use client::Patch;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{found, migration, row::Row};
use crate::{
    engine::Engine,
    resources, restoring,
    state::target::{OwnId, Reach, Target, TargetSort},
};

/// When the spoke was last heard of.
const HEARTBEAT: &str = "lastHeartbeatTime";

/// Whether requests pass.
const CIRCUIT: &str = "circuit";
/// When the next probe is, in there. It is written with other news and, like the heartbeat, when it has become old.
const NEXT_PROBE: &str = "nextProbeTime";

/// The latest revision of its store, which is written as the next probe is.
const REVISION: &str = "storeRevision";

/// Who looks after it.
const SYNCER: &str = "syncer";

/// How much is to be done for it, which is written with other news.
const QUEUE: &str = "queue";

/// How much later a heartbeat is than the one in the status, to be written for itself. A little less than between the
/// times when it is looked at.
const HEARTBEAT_AGE: jiff::SignedDuration = jiff::SignedDuration::from_secs(25);

/// Conditions that are there only while there is something to say.
const PASSING: [&str; 3] = [
    keys::CONDITION_RESTORE_CONFIRMED,
    keys::CONDITION_FOUND,
    keys::CONDITION_MIGRATED,
];

/// How much of a message a Spoke's status has.
const MESSAGE_BYTES_MAX: usize = 4096;

/// What an instance tells of its state.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Told<'a> {
    #[serde(borrow)]
    status: ToldStatus<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ToldStatus<'a> {
    #[serde(borrow)]
    state: Cow<'a, str>,
}

/// Writes what is known of a connected spoke.
pub(super) async fn write(
    engine: &Arc<Engine>,
    cluster: &LogicalCluster,
    object: &Value,
) -> Result<(), client::Error> {
    let Some(target) = engine.fleet.get(cluster) else {
        return Ok(());
    };
    if !target.is_probed() {
        // What an earlier process wrote counts until then: a start of the hub is no trouble of its spokes. The first probe queues it.
        return Ok(());
    }
    let mut counts = Counts::default();
    for (_, instance) in engine.instances.of_cluster(cluster) {
        let state = if instance.deletion_timestamp.is_some() {
            Cow::Borrowed("DELETING")
        } else {
            let told = instance.part::<Told<'_>>().unwrap_or_default();
            told.status.state
        };
        counts.count(&state);
    }
    let (served, others) = target.kinds.census();
    let mut rows = rows(&target, served, &others, &counts);
    rows.extend(trust_rows(engine, &target));
    rows.extend(restored_row(engine, &target));
    let fault = rows.iter().find(|row| row.status != "True").cloned();
    // They are told, and the spoke can be used all the same.
    let notes = notes(engine, &target, object);
    let noted = notes.iter().find(|row| row.status == "False").cloned();
    rows.extend(notes);
    let mut status = object["status"].clone();
    if !status.is_object() {
        status = json!({});
    }
    status["instances"] = counts.to_value();
    let told = fault.as_ref().or(noted.as_ref());
    let message = told.map(|row| shortened(row.message.clone()));
    status["message"] = json!(message.unwrap_or_default());
    let depth = target.queue.depth();
    status[QUEUE] = json!({"ready": depth.ready + depth.running, "later": depth.delayed});
    observe(&mut status, &target);
    rows.push(match fault {
        None => Row::new("Ready", "True", "Ready", ""),
        Some(row) => Row {
            type_: "Ready",
            status: "False",
            ..row
        },
    });
    put(engine, object, status, rows).await
}

/// Notes what was seen of a cluster.
fn observe(status: &mut Value, target: &Target) {
    match target.link().map(|link| link.circuit()) {
        Some(circuit) => status[CIRCUIT] = circuit_of(&circuit),
        None => drop(status.as_object_mut().map(|it| it.remove(CIRCUIT))),
    }
    match target.heard() {
        Some(heard) => status[HEARTBEAT] = json!(heard),
        // Of a real spoke it stays as an earlier process wrote it; this hub serves the others itself.
        None if target.sort == TargetSort::Mirrored => {}
        None => drop(status.as_object_mut().map(|it| it.remove(HEARTBEAT))),
    }
    if let Some(version) = target.version() {
        status["version"] = json!(version);
    }
    match target.cluster_id() {
        Some(OwnId::Some(id)) => status["clusterID"] = json!(id),
        Some(OwnId::None) => drop(status.as_object_mut().map(|it| it.remove("clusterID"))),
        None => {} // an earlier process may have asked it
    }
    if let Some(revision) = target.revision() {
        status[REVISION] = revision;
    }
    if let Some(uid) = target.cluster_uid() {
        status["clusterUID"] = json!(uid);
    }
}

/// Writes why a spoke cannot be connected.
pub(super) async fn refuse(
    engine: &Arc<Engine>,
    object: &Value,
    reason: &str,
) -> Result<(), client::Error> {
    let mut status = object["status"].clone();
    if !status.is_object() {
        status = json!({});
    }
    status["message"] = json!(reason);
    drop(status.as_object_mut().map(|it| it.remove(CIRCUIT)));
    let mut rows = vec![
        Row::new(
            keys::CONDITION_REACHABLE,
            "False",
            keys::REASON_NOT_CONNECTED,
            reason,
        ),
        not_known(keys::REASON_NOT_CONNECTED),
        Row::new("Ready", "False", keys::REASON_NOT_CONNECTED, reason),
    ];
    rows.extend(found::row(engine, object));
    put(engine, object, status, rows).await
}

fn rows(target: &Target, served: usize, others: &[String], counts: &Counts) -> Vec<Row> {
    let (reachable, synced) = match target.reach() {
        Reach::Reachable => (
            Row::new(keys::CONDITION_REACHABLE, "True", "Answers", ""),
            synced(counts.unsettled()),
        ),
        Reach::Unreachable(trouble) => (
            Row::new(
                keys::CONDITION_REACHABLE,
                "False",
                trouble.kind.reason(),
                trouble.to_string(),
            ),
            not_known(trouble.kind.reason()),
        ),
    };
    vec![
        reachable,
        if others.is_empty() {
            let message = format!("kinds that are served: {served}");
            Row::new("CRDsDistributed", "True", "Distributed", message)
        } else {
            Row::new("CRDsDistributed", "False", "Waiting", others.join("; "))
        },
        synced,
    ]
}

/// Work under way is no fault: `Ready` does not hang on it.
fn synced(unsettled: u64) -> Row {
    match unsettled {
        0 => Row::new("Synced", "True", "Synced", ""),
        1 => Row::new("Synced", "True", "Working", "1 instance is not settled"),
        count => {
            let message = format!("{count} instances are not settled");
            Row::new("Synced", "True", "Working", message)
        }
    }
}

/// Whether a spoke has what it should, where nobody can see it.
fn not_known(reason: &'static str) -> Row {
    let message = "what is in the spoke is not known while the hub does not use it";
    Row::new("Synced", "Unknown", reason, message)
}

fn circuit_of(circuit: &spokes::Circuit) -> Value {
    let time = |time: jiff::Timestamp| api::meta::time_now_text(time);
    let circuit = api::wheelhouse::Circuit {
        state: circuit.state.as_str().to_owned(),
        since: circuit.since.map(time),
        next_probe_time: circuit.next_probe.map(time),
    };
    json!(circuit)
}

/// What an administrator should know of a spoke that can be used.
fn notes(engine: &Engine, target: &Target, object: &Value) -> Vec<Row> {
    let mut notes = Vec::new();
    if let Some(link) = target.link() {
        let type_ = keys::CONDITION_CREDENTIAL_CURRENT;
        notes.push(match link.successor_fault() {
            None => Row::new(type_, "True", "Current", ""),
            Some(fault) => {
                let message = format!(
                    "still using the previous credential, because the new one does not work: {fault}"
                );
                Row::new(type_, "False", "NotProven", message)
            }
        });
        let type_ = keys::CONDITION_CONTINUOUS;
        notes.push(match target.set_back() {
            None if target.revision().is_some() => Row::new(type_, "True", "Continuous", ""),
            None => {
                let message = "the revision of its store was not seen yet";
                Row::new(type_, "Unknown", "NotSeen", message)
            }
            Some(message) => Row::new(type_, "False", "SetBack", message),
        });
    }
    notes.extend(found::row(engine, object));
    notes.extend(migration::row(object));
    notes
}

/// Whether a real spoke is the cluster that it should be, lets the hub work, and makes it hold no more than it may.
fn trust_rows(engine: &Engine, target: &Target) -> Vec<Row> {
    if target.sort != TargetSort::Mirrored {
        return Vec::new();
    }
    let identified = match target.identity_fault() {
        None if target.cluster_uid().is_some() => {
            Row::new(keys::CONDITION_IDENTIFIED, "True", "Identified", "")
        }
        None => {
            let message = "the cluster's identity is not known yet";
            Row::new(keys::CONDITION_IDENTIFIED, "Unknown", "NotAsked", message)
        }
        Some(fault) => {
            let (status, reason) = (fault.status(), fault.reason());
            Row::new(
                keys::CONDITION_IDENTIFIED,
                status,
                reason,
                fault.to_string(),
            )
        }
    };
    let met = engine.spokes.budget(&target.cluster).met();
    let bounds = match met {
        None => Row::new(keys::CONDITION_WITHIN_BOUNDS, "True", "WithinBounds", ""),
        Some(met) => Row::new(keys::CONDITION_WITHIN_BOUNDS, "False", "BoundMet", met),
    };
    let type_ = keys::CONDITION_AUTHORIZED;
    let authorized = match target.missing_rights() {
        None => Row::new(type_, "True", "NotRefused", ""),
        Some(missing) => Row::new(type_, "False", "MayNotImpersonate", missing),
    };
    vec![identified, authorized, bounds]
}

/// What a restore leaves to be said; nothing where the hub was not restored.
fn restored_row(engine: &Engine, target: &Target) -> Option<Row> {
    let report = restoring::report(engine, target)?;
    let status = if report.confirmed { "True" } else { "False" };
    let type_ = keys::CONDITION_RESTORE_CONFIRMED;
    Some(Row::new(type_, status, report.reason, report.message))
}

async fn put(
    engine: &Arc<Engine>,
    object: &Value,
    mut status: Value,
    rows: Vec<Row>,
) -> Result<(), client::Error> {
    let now = Engine::now();
    let mut conditions: Vec<Condition> =
        serde_json::from_value(object["status"]["conditions"].clone()).unwrap_or_default();
    let generation = api::meta::generation(object);
    for passing in PASSING {
        if rows.iter().all(|row| row.type_ != passing) {
            conditions.retain(|known| known.type_ != passing);
        }
    }
    for row in rows {
        let condition = Condition {
            type_: row.type_.to_owned(),
            status: row.status.to_owned(),
            reason: row.reason.to_owned(),
            message: shortened(row.message),
            observed_generation: Some(generation),
            last_transition_time: now.clone(),
        };
        api::meta::set_condition(&mut conditions, condition, &now);
    }
    status["conditions"] = json!(conditions);
    let name = api::meta::name(object);
    let term = name
        .parse()
        .ok()
        .and_then(|cluster| engine.shares.term(&cluster));
    match term {
        Some(term) => status[SYNCER] = json!(term.identity()),
        None => drop(status.as_object_mut().map(|it| it.remove(SYNCER))),
    }
    if !is_news(&object["status"], &status) {
        return Ok(());
    }
    let endpoint = Engine::hub_endpoint(&LogicalCluster::root(), &resources::spokes(), "");
    let patch = json!([{"op": "add", "path": "/status", "value": status}]);
    match engine
        .hub
        .patch(&endpoint, name, Some("status"), Patch::Json(&patch))
        .await
    {
        Ok(_) => Ok(()),
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Whether a status is to be written: it says something new, or the heartbeat in it has become old.
fn is_news(known: &Value, status: &Value) -> bool {
    let rest = |status: &Value| {
        let mut status = status.clone();
        if let Some(fields) = status.as_object_mut() {
            fields.remove(HEARTBEAT);
            fields.remove(REVISION);
            fields.remove(QUEUE);
            if let Some(circuit) = fields.get_mut(CIRCUIT).and_then(Value::as_object_mut) {
                circuit.remove(NEXT_PROBE);
            }
        }
        status
    };
    let is_old = |time: fn(&Value) -> &Value| {
        let time = |status| time(status).as_str().and_then(api::meta::parse_time);
        match (time(known), time(status)) {
            (Some(known), Some(now)) => now.duration_since(known) >= HEARTBEAT_AGE,
            (known, now) => known.is_some() != now.is_some(),
        }
    };
    rest(known) != rest(status)
        || is_old(|status| &status[HEARTBEAT])
        || is_old(|status| &status[CIRCUIT][NEXT_PROBE])
        || is_old(|status| &status[REVISION]["time"])
}

/// Cuts a message: what a spoke says in it must not make its Spoke too large to be written.
fn shortened(mut message: String) -> String {
    if message.len() > MESSAGE_BYTES_MAX {
        message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
        message.push_str(" ...");
    }
    message
}

/// Counts of instances by state.
#[derive(Debug, Default)]
struct Counts {
    total: u64,
    ready: u64,
    in_progress: u64,
    error: u64,
    deleting: u64,
}

// === impl Counts ===

impl Counts {
    fn count(&mut self, state: &str) {
        self.total += 1;
        match state {
            "ACTIVE" => self.ready += 1,
            "ERROR" => self.error += 1,
            "DELETING" => self.deleting += 1,
            _ => self.in_progress += 1,
        }
    }

    const fn unsettled(&self) -> u64 {
        self.in_progress + self.error + self.deleting
    }

    fn to_value(&self) -> Value {
        json!({
            "total": self.total,
            "ready": self.ready,
            "inProgress": self.in_progress,
            "error": self.error,
            "deleting": self.deleting,
            "summary": format!("{}/{}", self.ready, self.total),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_is_written_for_itself_when_the_one_in_the_status_is_old() {
        let status = |heard: Value, message: &str| {
            let mut status = json!({"message": message});
            if !heard.is_null() {
                status[HEARTBEAT] = heard;
            }
            status
        };
        let at = |second: &str| json!(format!("2026-01-01T00:00:{second}Z"));
        // (what, the heartbeat and the message in the status, those that are known now)
        let cases = [
            ("the same", (at("00"), ""), (at("00"), ""), false),
            ("a beat later", (at("00"), ""), (at("05"), ""), false),
            ("half a minute later", (at("00"), ""), (at("30"), ""), true),
            ("the first", (Value::Null, ""), (at("00"), ""), true),
            ("none yet", (Value::Null, ""), (Value::Null, ""), false),
            ("none any more", (at("00"), ""), (Value::Null, ""), true),
            ("an earlier one", (at("30"), ""), (at("00"), ""), false),
            ("other news", (at("00"), "a"), (at("01"), "b"), true),
        ];
        for (name, (heard, message), (heard_now, message_now), want) in cases {
            let (known, now) = (status(heard, message), status(heard_now, message_now));
            assert_eq!(is_news(&known, &now), want, "{name}");
        }
        assert!(
            is_news(&Value::Null, &json!({"message": ""})),
            "the first status"
        );
    }

    #[test]
    fn an_instance_is_counted_by_its_state_and_what_is_not_ready_is_unsettled() {
        // [total, ready, inProgress, error, deleting]
        let cases = [
            ("none", vec![], [0, 0, 0, 0, 0], 0, "0/0"),
            ("ready", vec!["ACTIVE"], [1, 1, 0, 0, 0], 0, "1/1"),
            ("failed", vec!["ERROR"], [1, 0, 0, 1, 0], 1, "0/1"),
            ("going", vec!["DELETING"], [1, 0, 0, 0, 1], 1, "0/1"),
            ("under way", vec!["IN_PROGRESS"], [1, 0, 1, 0, 0], 1, "0/1"),
            ("no state yet", vec![""], [1, 0, 1, 0, 0], 1, "0/1"),
            (
                "all of them",
                vec!["ACTIVE", "ACTIVE", "ERROR", "DELETING", ""],
                [5, 2, 1, 1, 1],
                3,
                "2/5",
            ),
        ];
        for (name, states, counted, unsettled, summary) in cases {
            let mut counts = Counts::default();
            for state in states {
                counts.count(state);
            }
            let [total, ready, in_progress, error, deleting] = counted;
            let want = json!({
                "total": total, "ready": ready, "inProgress": in_progress, "error": error,
                "deleting": deleting, "summary": summary,
            });
            assert_eq!(counts.to_value(), want, "{name}");
            assert_eq!(counts.unsettled(), unsettled, "{name}");
        }
    }
}
