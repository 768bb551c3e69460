//! Instances of all clusters in one list: searched, filtered, sorted and paged here, so that a browser holds what it shows and no more.
//!
//! ```text
//!   Search::parse ──► for each kind: the pages of a list, as the caller may read them ──► Finder::take ──► Finder::answer
//! ```
//!
//! # Invariants
//! - What an object says of itself never fails the list that it is in: a status of another shape counts as none.
//! - Texts are cut to [`TEXT_BYTES_MAX`], and no more rows are held than twice those up to the end of the page.

use std::{
    cmp::{Ordering, Reverse},
    collections::BTreeMap,
};

use api::{kro::keys, query::Query};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::page::is_name;

/// Rows of one answer.
const PAGE_ROW_COUNT_MAX: usize = 500;
/// Rows of one answer where the caller does not say how many.
const PAGE_ROW_COUNT: usize = 100;
/// Rows before the page of an answer, which are held to find it: what a hub is built for, twice.
const OFFSET_MAX: usize = 20_000;
/// Kinds of one search.
const KIND_COUNT_MAX: usize = 64;
/// Bytes of a text of an object that are kept, such as the message of a condition.
const TEXT_BYTES_MAX: usize = 512;

/// A kind of instances, as kubectl names it: `webapps.v1alpha1.kro.run`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Kind {
    /// The plural resource.
    pub resource: String,
    /// The version.
    pub version: String,
    /// The API group.
    pub group: String,
}

/// What is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    /// The kinds.
    pub kinds: Vec<Kind>,
    /// The one logical cluster, or all of them.
    pub cluster: Option<String>,
    words: Vec<String>,
    state: Option<State>,
    sort: Sort,
    descending: bool,
    offset: usize,
    limit: usize,
}

/// The state of an instance. In the order of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// Something failed.
    Error,
    /// It is worked on, or waits.
    InProgress,
    /// It goes away.
    Deleting,
    /// Its children are ready.
    Ready,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    State,
    Cluster,
    Namespace,
    Name,
    Kind,
    Created,
}

/// An instance in a list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    cluster: String,
    namespace: String,
    name: String,
    kind: String,
    /// Which of the kinds of the search.
    #[serde(skip)]
    resource: usize,
    uid: String,
    state: State,
    reason: String,
    message: String,
    created: String,
}

/// How many instances of one kind there are in one cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    total: u64,
    ready: u64,
    in_progress: u64,
    error: u64,
    deleting: u64,
}

/// Takes lists in and answers with one page.
#[derive(Debug)]
pub struct Finder {
    search: Search,
    rows: Vec<Row>,
    /// How many rows there are, with those that come after the page and are not held.
    total: usize,
    states: Counts,
    cells: BTreeMap<(String, usize), Counts>,
    failures: Vec<Failure>,
    resource_version: String,
}

/// A kind that could not be listed.
#[derive(Debug, Serialize)]
struct Failure {
    resource: String,
    code: u16,
    message: String,
}

/// What a page of a list is followed by.
#[derive(Debug, PartialEq, Eq)]
pub enum More {
    /// Nothing.
    Done,
    /// The page of this token.
    Continue(String),
}

/// A list that cannot be read.
#[derive(Debug)]
pub struct Unreadable(serde_json::Error);

#[derive(Deserialize)]
struct List<'a> {
    #[serde(default)]
    metadata: ListMetadata,
    #[serde(borrow, default)]
    items: Vec<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListMetadata {
    resource_version: String,
    r#continue: String,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(default)]
    kind: String,
    metadata: Metadata,
    #[serde(borrow, default)]
    status: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    name: String,
    namespace: String,
    uid: String,
    creation_timestamp: String,
    deletion_timestamp: Option<String>,
    annotations: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status<'a> {
    #[serde(borrow)]
    state: Option<&'a RawValue>,
    #[serde(borrow)]
    conditions: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Condition {
    r#type: String,
    status: String,
    reason: String,
    message: String,
}

// === impl Kind ===

impl Kind {
    /// Reads `<resource>.<version>.<group>`.
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '.');
        let (resource, version, group) = (parts.next()?, parts.next()?, parts.next()?);
        [resource, version, group]
            .into_iter()
            .all(is_name)
            .then(|| Self {
                resource: resource.to_owned(),
                version: version.to_owned(),
                group: group.to_owned(),
            })
    }

    /// Returns the path at which it is listed in a logical cluster, or in all of them.
    pub fn path(&self, cluster: Option<&str>) -> String {
        let Self {
            resource,
            version,
            group,
        } = self;
        let cluster = cluster.unwrap_or("*");
        format!("/clusters/{cluster}/apis/{group}/{version}/{resource}")
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.resource, self.version, self.group)
    }
}

// === impl Search ===

impl Search {
    /// Reads the query of a request.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(query: &str) -> Result<Self, String> {
        let query = Query::parse(query);
        let mut kinds = Vec::new();
        for text in query.all("kind") {
            let kind = Kind::parse(text);
            let kind =
                kind.ok_or_else(|| format!("kind {text:?} is not resource.version.group"))?;
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        if kinds.is_empty() || kinds.len() > KIND_COUNT_MAX {
            return Err(format!("a search is for 1 to {KIND_COUNT_MAX} kinds"));
        }
        let cluster = query.first("cluster").filter(|name| !name.is_empty());
        if let Some(cluster) = cluster.filter(|name| !is_name(name)) {
            return Err(format!("{cluster:?} names no logical cluster"));
        }
        let sort = query.text("sort");
        let count = |name: &str, default: usize| match query.text(name) {
            "" => Ok(default),
            text => text
                .parse::<usize>()
                .map_err(|_error| format!("{name} {text:?} is not a count")),
        };
        Ok(Self {
            kinds,
            cluster: cluster.map(str::to_owned),
            words: query
                .text("q")
                .split_whitespace()
                .map(str::to_lowercase)
                .collect(),
            state: State::parse(query.text("state"))?,
            sort: Sort::parse(sort.trim_start_matches('-'))?,
            descending: sort.starts_with('-'),
            offset: count("offset", 0)?.min(OFFSET_MAX),
            limit: count("limit", PAGE_ROW_COUNT)?.min(PAGE_ROW_COUNT_MAX),
        })
    }
}

impl Search {
    /// The place after the last row of the page.
    fn end(&self) -> usize {
        self.offset.saturating_add(self.limit)
    }
}

// === impl State ===

impl State {
    fn parse(text: &str) -> Result<Option<Self>, String> {
        Ok(Some(match text {
            "" => return Ok(None),
            "error" => Self::Error,
            "inProgress" => Self::InProgress,
            "deleting" => Self::Deleting,
            "ready" => Self::Ready,
            other => return Err(format!("there is no state {other:?}")),
        }))
    }

    /// The word that people read, which a search finds too.
    const fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::InProgress => "in progress",
            Self::Deleting => "deleting",
            Self::Ready => "ready",
        }
    }
}

// === impl Sort ===

impl Sort {
    fn parse(text: &str) -> Result<Self, String> {
        Ok(match text {
            "" | "state" => Self::State,
            "cluster" => Self::Cluster,
            "namespace" => Self::Namespace,
            "name" => Self::Name,
            "kind" => Self::Kind,
            "created" => Self::Created,
            other => return Err(format!("there is no column {other:?}")),
        })
    }
}

// === impl Row ===

impl Row {
    /// Reads an object of the list of a kind. What has no name is none.
    fn read(raw: &RawValue, search: &Search, resource: usize) -> Option<Self> {
        let item: Item<'_> = serde_json::from_str(raw.get()).ok()?;
        let mut metadata = item.metadata;
        if metadata.name.is_empty() {
            return None;
        }
        let status: Status<'_> = lenient(item.status);
        let conditions: Vec<&RawValue> = lenient(status.conditions);
        let conditions = conditions
            .into_iter()
            .map(|condition| lenient::<Condition>(Some(condition)));
        let (reason, message) = trouble(conditions);
        let state: String = lenient(status.state);
        let of_list = metadata.annotations.remove(api::cluster::ANNOTATION);
        Some(Self {
            cluster: search.cluster.clone().or(of_list).unwrap_or_default(),
            namespace: metadata.namespace,
            name: metadata.name,
            kind: shortened(item.kind),
            resource,
            uid: metadata.uid,
            state: state_of(metadata.deletion_timestamp.is_some(), &state),
            reason: shortened(reason),
            message: shortened(message),
            created: metadata.creation_timestamp,
        })
    }

    /// Whether each word is part of something that the row shows.
    fn has(&self, words: &[String]) -> bool {
        let texts = [
            &self.cluster,
            &self.namespace,
            &self.name,
            &self.kind,
            &self.reason,
            &self.message,
        ];
        words.iter().all(|word| {
            self.state.word().contains(word.as_str())
                || texts
                    .iter()
                    .any(|text| text.to_lowercase().contains(word.as_str()))
        })
    }

    fn compare(&self, other: &Self, sort: Sort) -> Ordering {
        match sort {
            Sort::State => self.state.cmp(&other.state),
            Sort::Cluster => self.cluster.cmp(&other.cluster),
            Sort::Namespace => self.namespace.cmp(&other.namespace),
            Sort::Name => self.name.cmp(&other.name),
            Sort::Kind => self.kind.cmp(&other.kind),
            // By age: the newest first.
            Sort::Created => Reverse(&self.created).cmp(&Reverse(&other.created)),
        }
    }

    /// The order among rows that are equal in the column: by identity, so that pages never overlap.
    fn identity(&self) -> (&str, &str, &str, usize) {
        (&self.cluster, &self.namespace, &self.name, self.resource)
    }
}

/// The state of an instance, as the Spoke's counts have it.
fn state_of(is_leaving: bool, state: &str) -> State {
    match state {
        _ if is_leaving => State::Deleting,
        keys::STATE_ACTIVE => State::Ready,
        keys::STATE_ERROR => State::Error,
        keys::STATE_DELETING => State::Deleting,
        _ => State::InProgress,
    }
}

/// Why an instance is not ready: what the first condition says that does not hold, `Ready` last, because it repeats another.
fn trouble(conditions: impl Iterator<Item = Condition>) -> (String, String) {
    let mut open: Vec<Condition> = conditions
        .filter(|condition| condition.status != "True" && !condition.r#type.is_empty())
        .collect();
    open.sort_by_key(|condition| {
        let is_unknown = condition.status != "False";
        (
            condition.r#type == "Ready",
            is_unknown,
            condition.message.is_empty(),
        )
    });
    let first = open.into_iter().next().unwrap_or_default();
    (first.reason, first.message)
}

/// Reads a part of an object whose shape its kind does not promise.
fn lenient<'a, T: Deserialize<'a> + Default>(raw: Option<&'a RawValue>) -> T {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok())
        .unwrap_or_default()
}

fn shortened(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        text.push('…');
    }
    text
}

// === impl Counts ===

impl Counts {
    fn count(&mut self, state: State) {
        let counter = match state {
            State::Error => &mut self.error,
            State::InProgress => &mut self.in_progress,
            State::Deleting => &mut self.deleting,
            State::Ready => &mut self.ready,
        };
        *counter = counter.saturating_add(1);
        self.total = self.total.saturating_add(1);
    }
}

// === impl Finder ===

impl Finder {
    /// Makes a finder that has seen nothing.
    pub fn new(search: Search) -> Self {
        Self {
            search,
            rows: Vec::new(),
            total: 0,
            states: Counts::default(),
            cells: BTreeMap::new(),
            failures: Vec::new(),
            resource_version: String::new(),
        }
    }

    /// What is looked for.
    pub fn search(&self) -> &Search {
        &self.search
    }

    /// Takes one page of the list of a kind, by its place in the search.
    ///
    /// # Errors
    /// The page is not a list.
    pub fn take(&mut self, kind: usize, page: &[u8]) -> Result<More, Unreadable> {
        let list: List<'_> = serde_json::from_slice(page).map_err(Unreadable)?;
        if self.resource_version.is_empty() {
            // A watch from the first version on sees all that came later, whichever list has it already.
            self.resource_version = list.metadata.resource_version;
        }
        for raw in list.items {
            let Some(row) = Row::read(raw, &self.search, kind) else {
                continue;
            };
            let cell = (row.cluster.clone(), kind);
            self.cells.entry(cell).or_default().count(row.state);
            if !row.has(&self.search.words) {
                continue;
            }
            self.states.count(row.state);
            if self.search.state.is_some_and(|state| state != row.state) {
                continue;
            }
            self.total = self.total.saturating_add(1);
            self.rows.push(row);
            if self.rows.len() > self.search.end().saturating_mul(2) {
                self.sort();
            }
        }
        Ok(match list.metadata.r#continue {
            token if token.is_empty() => More::Done,
            token => More::Continue(token),
        })
    }

    /// Notes that a kind cannot be listed, or not to its end.
    pub fn fail(&mut self, kind: usize, code: u16, message: &str) {
        let resource = self.search.kinds.get(kind).map(Kind::to_string);
        self.failures.push(Failure {
            resource: resource.unwrap_or_default(),
            code,
            message: shortened(message.to_owned()),
        });
    }

    /// Sorts the rows, and drops those that come after the page.
    fn sort(&mut self) {
        let search = &self.search;
        self.rows.sort_by(|one, other| {
            let order = one.compare(other, search.sort);
            let order = if search.descending {
                order.reverse()
            } else {
                order
            };
            order.then_with(|| one.identity().cmp(&other.identity()))
        });
        self.rows.truncate(search.end());
    }

    /// Answers with the page that is asked for, and counts of everything.
    pub fn answer(mut self) -> serde_json::Value {
        self.sort();
        let search = &self.search;
        let name = |kind: usize| search.kinds.get(kind).map(Kind::to_string);
        let rows: Vec<serde_json::Value> = self
            .rows
            .iter()
            .skip(search.offset)
            .take(search.limit)
            .map(|row| {
                let mut value = serde_json::json!(row);
                value["resource"] = serde_json::json!(name(row.resource));
                value
            })
            .collect();
        let cells: Vec<serde_json::Value> = self
            .cells
            .iter()
            .map(|((cluster, kind), counts)| {
                serde_json::json!({"cluster": cluster, "resource": name(*kind), "counts": counts})
            })
            .collect();
        serde_json::json!({
            "total": self.total,
            "offset": search.offset,
            "rows": rows,
            "states": self.states,
            "cells": cells,
            "failures": self.failures,
            "resourceVersion": self.resource_version,
        })
    }
}

// === impl Unreadable ===

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the list is not one of Kubernetes")
    }
}

impl std::error::Error for Unreadable {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

#[cfg(test)]
mod tests;
