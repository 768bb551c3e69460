//! What both tell those who watch: while the requests go on, from before them, and from a state in their midst.
//!
//! At the end of a seed all objects go and a few are made that have the label [`END`], at least one for each selector that is drawn here. The
//! first event about one of them ends a watch.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use wheelhouse_tests::support::{JSON, Watch};

use super::super::mask::difference;
use super::compare::{shown, shown_event};
use super::draw::{Draw, Kind, METADATA, TABLE, kinds};
use super::{Side, Sides};

/// Label of what is made last.
const END: &str = "example.com/end";
/// How long the next event may take before it is told as missing.
const PATIENCE: Duration = Duration::from_secs(20);

/// One watch at both.
pub(super) struct Pair {
    said: String,
    ours: JoinSet<Value>,
    peer: JoinSet<Value>,
}

/// The revisions of both at one moment, by collection.
pub(super) type Moment = HashMap<&'static str, (String, String)>;

/// From where watches begin.
#[derive(Clone, Copy)]
pub(super) enum Begin<'a> {
    After(&'a Moment),
    State,
}

const LABELS: [&str; 8] = [
    "",
    "app%3Da",
    "app!%3Da",
    "app%20in%20(a,b)",
    "app%20notin%20(a)",
    "!app",
    "app,tier%3Dx",
    "app%3D",
];

const FIELDS: [&str; 4] = [
    "metadata.name%3Da",
    "metadata.name!%3Da",
    "metadata.namespace%3Ddefault,metadata.name%3Db",
    "nonesuch%3Dx",
];

const OTHER: [&str; 3] = ["&includeObject=Object", "&pretty=true", "&timeoutSeconds=x"];

const STATES: [&str; 7] = [
    "",
    "resourceVersion=0",
    "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
    "resourceVersion=0&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
    "sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
    "sendInitialEvents=true&allowWatchBookmarks=true",
    "resourceVersion=0&resourceVersionMatch=Exact",
];

const ACCEPTED: [&str; 6] = [
    JSON,
    JSON,
    TABLE,
    METADATA,
    "application/yaml",
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1;stream=watch",
];

// === impl Sides ===

impl Sides {
    /// Returns the revisions that lists have now.
    pub(super) async fn moment(&self) -> Moment {
        let mut moment = Moment::new();
        for kind in kinds() {
            let revisions = (
                self.ours.revision(kind.collection).await,
                self.peer.revision(kind.collection).await,
            );
            moment.insert(kind.collection, revisions);
        }
        moment
    }

    /// Begins some watches of each kind at both.
    pub(super) async fn watch(&self, draw: &mut Draw, count: usize, begin: Begin<'_>) -> Vec<Pair> {
        let mut pairs = Vec::new();
        for kind in kinds() {
            for _ in 0..count {
                let place = place(draw, &kind);
                let query = query(draw, &kind);
                let accept = *draw.pick(&ACCEPTED);
                let (ours, peer) = match begin {
                    Begin::After(moment) => {
                        let (ours, peer) = &moment[kind.collection];
                        (
                            format!("resourceVersion={ours}"),
                            format!("resourceVersion={peer}"),
                        )
                    }
                    Begin::State => {
                        let state = *draw.pick(&STATES);
                        (state.to_owned(), state.to_owned())
                    }
                };
                let path = format!("{place}?watch=true{query}");
                pairs.push(Pair {
                    said: format!("watch of {path}&{peer} as {accept}"),
                    ours: self.ours.watched(&format!("{path}&{ours}"), accept).await,
                    peer: self.peer.watched(&format!("{path}&{peer}"), accept).await,
                });
            }
        }
        pairs
    }

    /// Deletes all objects.
    pub(super) async fn clear(&self) {
        for kind in kinds() {
            self.forget(kind.collection).await;
        }
    }

    /// Deletes all objects and makes the last ones.
    pub(super) async fn end(&self) {
        self.clear().await;
        for kind in kinds().iter().filter(|kind| !is_another_version(kind)) {
            for object in last(kind) {
                for side in [&self.ours, &self.peer] {
                    let path = format!("{}{}", side.base, kind.collection);
                    side.user.post(&path, &object).await.must(201);
                }
            }
        }
    }
}

// === impl Side ===

impl Side {
    async fn revision(&self, collection: &str) -> String {
        let path = format!("{}{collection}?limit=1", self.base);
        let list = self.user.get(&path).await.must(200);
        list["metadata"]["resourceVersion"]
            .as_str()
            .expect("a list has a revision")
            .to_owned()
    }

    /// Begins a watch; what it tells is gathered until its end.
    async fn watched(&self, path: &str, accept: &str) -> JoinSet<Value> {
        let path = format!("{}{path}", self.base);
        let begun = self.user.watch_as(&path, accept).await;
        let mut told = JoinSet::new();
        told.spawn(async move {
            match begun {
                Ok(watch) => gathered(watch).await,
                Err(refusal) => shown(&refusal),
            }
        });
        told
    }
}

// === impl Pair ===

impl Pair {
    /// Waits until the watch has ended at both; returns how many events there were, and how they differ.
    pub(super) async fn compared(mut self) -> (usize, Option<String>) {
        let (left, right) = tokio::join!(self.ours.join_next(), self.peer.join_next());
        let [left, right] = [left, right].map(|told| {
            let told = told.expect("a watch was begun");
            told.expect("what it told was gathered")
        });
        let events = right.as_array().map_or(0, Vec::len);
        let mut found = Vec::new();
        let names = ("the hub", "kube-apiserver");
        match (left.as_array(), right.as_array()) {
            (Some(a), Some(b)) if a.len() != b.len() => {
                let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
                for (whose, events) in [(names.0, a), (names.1, b)] {
                    let differing = events.iter().skip(same).take(6).map(Value::to_string);
                    let differing: Vec<String> = differing.collect();
                    let count = events.len();
                    found.push(format!(
                        "{whose}, of {count} events after {same} equal ones: {}",
                        differing.join("\n    ")
                    ));
                }
            }
            _ => difference("", (&left, &right), names, &mut found),
        }
        let found = (!found.is_empty()).then(|| format!("{}\n  {}", self.said, found.join("\n  ")));
        (events, found)
    }
}

/// Reads events until one is about what was made last.
async fn gathered(mut watch: Watch) -> Value {
    let mut events = Vec::new();
    let mut last_version = 0;
    let mut last_shown = HashMap::new();
    let mut columns = None;
    loop {
        let event = match watch.next(PATIENCE).await {
            Ok(Some(event)) => event,
            Ok(None) => {
                events.push(json!("the stream ends"));
                break;
            }
            Err(missing) => {
                events.push(json!(missing));
                break;
            }
        };
        let metadata = metadata_of(&event);
        let is_last = !metadata["labels"][END].is_null();
        let is_end_of_state = !metadata["annotations"]["k8s.io/initial-events-end"].is_null();
        // Other bookmarks come when a server likes.
        if event["type"] == "BOOKMARK" && !is_end_of_state {
            continue;
        }
        let version: u64 = metadata["resourceVersion"]
            .as_str()
            .and_then(|version| version.parse().ok())
            .unwrap_or_default();
        let mut shown = shown_event(&event);
        // A kube-apiserver tells the columns again where the table before was written for another watch first.
        let told = shown["object"].get_mut("columnDefinitions");
        if let Some(told) = told {
            match &columns {
                None => columns = Some(told.take()),
                Some(columns) if columns == told => *told = Value::Null,
                Some(_) => {}
            }
        }
        // A controller makes this ConfigMap again where a request has deleted it.
        if metadata["name"] == "kube-root-ca.crt" {
            continue;
        }
        let is_newer = version > last_version;
        last_version = version;
        let object = shown["object"].clone();
        let before = last_shown.insert(metadata["name"].to_string(), object.clone());
        // A write to a scale that changes no count makes a version in a kube-apiserver (see `compare::owners`).
        if event["type"] == "MODIFIED" && before == Some(object) {
            continue;
        }
        events.push(json!({"is_newer": is_newer, "event": shown}));
        if is_last {
            break;
        }
    }
    events.insert(0, json!({"columns": columns}));
    Value::Array(events)
}

/// Returns the metadata of what an event is about.
fn metadata_of(event: &Value) -> &Value {
    let object = &event["object"];
    match object["rows"].as_array().and_then(|rows| rows.first()) {
        Some(row) => &row["object"]["metadata"],
        None => &object["metadata"],
    }
}

/// Where a kind is watched: its collection, those of all namespaces, or the same by the older paths.
fn place(draw: &mut Draw, kind: &Kind) -> String {
    let collection = kind.collection;
    let older = || collection.replacen("/v1", "/v1/watch", 1);
    match draw.below(8) {
        0 if collection.contains("gadgets") => collection.replace("/namespaces/default", ""),
        1 if !is_another_version(kind) => older(),
        2 if !is_another_version(kind) => format!("{}/a", older()),
        _ => collection.to_owned(),
    }
}

fn query(draw: &mut Draw, kind: &Kind) -> String {
    let mut query = String::new();
    match draw.below(4) {
        0..2 => {
            let labels = *draw.pick(&LABELS);
            query.push_str("&labelSelector=");
            query.push_str(labels);
        }
        2 => {
            let fields = if kind.fields.is_empty() || draw.one_in(2) {
                &FIELDS[..]
            } else {
                kind.fields
            };
            let field = *draw.pick(fields);
            query.push_str("&fieldSelector=");
            query.push_str(field);
        }
        _ => {}
    }
    if draw.one_in(6) {
        let other = *draw.pick(&OTHER);
        query.push_str(other);
    }
    query
}

/// Whether the objects of a kind are those of another one, in another version.
fn is_another_version(kind: &Kind) -> bool {
    kind.collection.contains("v1beta1")
}

/// Objects of a kind of which each selector selects one.
fn last(kind: &Kind) -> [Value; 3] {
    let made = |name: &str, labels: Value| {
        let mut object = kind.object.clone();
        object["metadata"]["name"] = json!(name);
        object["metadata"]["labels"] = labels;
        object
    };
    let first = made("a", json!({"app": "a", "tier": "x", END: ""}));
    let mut second = made("b", json!({END: ""}));
    match second["kind"].as_str() {
        Some("Secret") => second["type"] = json!("example.com/other"),
        Some("Gadget") => {
            second["spec"]["color"] = json!("red");
            second["spec"]["replicas"] = json!(1);
        }
        _ => {}
    }
    [first, second, made("c.d", json!({"app": "", END: ""}))]
}
