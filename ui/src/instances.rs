//! Instances of all clusters in one list: searched, filtered, sorted and paged here, so that a browser holds what it shows and no more.
//!
//! ```text
//!   Search::parse ──► for each kind: the pages of a list, as the caller may read them ──► Finder::take ──► Finder::answer
//! ```
//!
//! # Invariants
//! - What an object says of itself never fails the list that it is in ([`list`]).
//! - Memory is bounded, whoever made the objects: a row takes 2 KiB at most ([`list`]), and [`SPARE_ROW_COUNT`] more rows are held than those
//!   up to the end of the page. What failed is noted once, [`NOTE_COUNT_MAX`] times at most.

mod list;

use std::{
    cmp::{Ordering, Reverse},
    collections::BTreeMap,
};

use api::{ClusterScope, kro::keys, query::Query};
use serde::Serialize;

use crate::page::is_name;
use list::{MESSAGE_BYTES_MAX, Object, shortened};

/// Rows of one answer.
const PAGE_ROW_COUNT_MAX: usize = 500;
/// Rows of one answer where the caller does not say how many.
const PAGE_ROW_COUNT: usize = 100;
/// Rows before the page of an answer, which are held to find it: what a hub is built for, twice.
const OFFSET_MAX: usize = 20_000;
/// Kinds of one search.
const KIND_COUNT_MAX: usize = 256;
/// Rows beyond the end of the page that are held before they are sorted and dropped.
const SPARE_ROW_COUNT: usize = 1_000;
/// Notes of what failed, and of what was warned of.
const NOTE_COUNT_MAX: usize = 64;
/// Those of one kind.
const NOTE_COUNT_OF_KIND_MAX: usize = 16;

/// A kind of instances, as kubectl names it: `webapps.v1alpha1.kro.run`. One that a single logical cluster defines is followed by that
/// one: `webapps.v1alpha1.kro.run@east`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The plural resource.
    pub resource: String,
    /// The version.
    pub version: String,
    /// The API group.
    pub group: String,
    /// The one logical cluster that defines it. Another cluster's kind of the same name is another kind.
    pub cluster: Option<String>,
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

/// The instances of one kind in one cluster.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    counts: Counts,
    /// The earliest and the latest revision of their definition by which they were reconciled, where they say so.
    revisions: Option<(u32, u32)>,
}

/// Takes lists in and answers with one page.
#[derive(Debug)]
pub struct Finder {
    search: Search,
    rows: Vec<Row>,
    /// How many rows there are, with those that come after the page and are not held.
    total: usize,
    states: Counts,
    cells: BTreeMap<(String, usize), Cell>,
    notes: Vec<Note>,
    omitted_note_count: usize,
    /// The version of the list of each kind that was read.
    resource_versions: BTreeMap<usize, String>,
}

/// What is to be told of the list of a kind.
#[derive(Debug, PartialEq, Eq)]
struct Note {
    kind: usize,
    /// Why the kind could not be listed, or not to its end; `None` for a warning.
    code: Option<u16>,
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

// === impl Kind ===

impl Kind {
    /// Reads `<resource>.<version>.<group>`, or `<resource>.<version>.<group>@<cluster>`.
    fn parse(text: &str) -> Option<Self> {
        let (text, cluster) = match text.split_once('@') {
            Some((text, cluster)) => (text, Some(cluster)),
            None => (text, None),
        };
        let mut parts = text.splitn(3, '.');
        let (resource, version, group) = (parts.next()?, parts.next()?, parts.next()?);
        [resource, version, group]
            .into_iter()
            .chain(cluster)
            .all(is_name)
            .then(|| Self {
                resource: resource.to_owned(),
                version: version.to_owned(),
                group: group.to_owned(),
                cluster: cluster.map(str::to_owned),
            })
    }

    /// As a search names it.
    fn asked(&self) -> String {
        match &self.cluster {
            Some(cluster) => format!("{self}@{cluster}"),
            None => self.to_string(),
        }
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
            let kind = kind.ok_or_else(|| {
                format!(
                    "kind {text:?} is not resource.version.group or resource.version.group@cluster"
                )
            })?;
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
    /// Returns the path at which a kind is listed, by its place in the search: in one logical cluster, or in all of them. `None` where the
    /// cluster that is searched does not have it.
    pub fn path(&self, kind: usize) -> Option<String> {
        let kind = self.kinds.get(kind)?;
        let cluster = match (&self.cluster, &kind.cluster) {
            (Some(one), Some(other)) if one != other => return None,
            (one, other) => one.as_ref().or(other.as_ref()),
        };
        let cluster = cluster.map_or("*", String::as_str);
        let Kind {
            resource,
            version,
            group,
            ..
        } = kind;
        Some(format!(
            "/clusters/{cluster}/apis/{group}/{version}/{resource}"
        ))
    }

    /// Returns where the search is made, to tell who makes it.
    pub fn scope(&self) -> ClusterScope {
        let of_first = self.kinds.first().and_then(|kind| kind.cluster.as_ref());
        let cluster = self.cluster.as_ref().or(of_first);
        let one = cluster.and_then(|name| name.parse().ok());
        one.unwrap_or(ClusterScope::All)
    }

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
    fn new(object: Object, search: &Search, kind: usize) -> Self {
        let of_kind = search.kinds.get(kind).and_then(|kind| kind.cluster.clone());
        let cluster = search.cluster.clone().or(of_kind);
        Self {
            cluster: cluster.unwrap_or(object.cluster),
            namespace: object.namespace,
            name: object.name,
            kind: object.kind,
            resource: kind,
            uid: object.uid,
            state: state_of(object.is_leaving, &object.state),
            reason: object.reason,
            message: object.message,
            created: object.created,
        }
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

// === impl Cell ===

impl Cell {
    fn count(&mut self, state: State, revision: Option<u32>) {
        self.counts.count(state);
        if let Some(revision) = revision {
            let (first, last) = self.revisions.unwrap_or((revision, revision));
            self.revisions = Some((first.min(revision), last.max(revision)));
        }
    }

    fn to_value(self) -> serde_json::Value {
        let mut value = serde_json::json!({"counts": self.counts});
        if let Some((first, last)) = self.revisions {
            value["revisions"] = serde_json::json!({"first": first, "last": last});
        }
        value
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
            notes: Vec::new(),
            omitted_note_count: 0,
            resource_versions: BTreeMap::new(),
        }
    }

    /// What is looked for.
    pub fn search(&self) -> &Search {
        &self.search
    }

    /// Takes one page of the list of a kind, by its place in the search.
    ///
    /// # Errors
    /// The page is not a list. Objects before the place that shows it may have been taken.
    pub fn take(&mut self, kind: usize, page: &[u8]) -> Result<More, Unreadable> {
        let end = list::read(page, |object| self.take_object(kind, object)).map_err(Unreadable)?;
        // A watch from the first page on sees all that came later, whichever page has it already.
        self.resource_versions
            .entry(kind)
            .or_insert(end.resource_version);
        Ok(match end.token {
            token if token.is_empty() => More::Done,
            token => More::Continue(token),
        })
    }

    fn take_object(&mut self, kind: usize, object: Object) {
        let revision = object.revision;
        let row = Row::new(object, &self.search, kind);
        let cell = (row.cluster.clone(), kind);
        let cell = self.cells.entry(cell).or_default();
        cell.count(row.state, revision);
        if !row.has(&self.search.words) {
            return;
        }
        self.states.count(row.state);
        if self.search.state.is_some_and(|state| state != row.state) {
            return;
        }
        self.total = self.total.saturating_add(1);
        self.rows.push(row);
        if self.rows.len() >= self.search.end().saturating_add(SPARE_ROW_COUNT) {
            self.sort();
        }
    }

    /// Notes that a kind cannot be listed, or not to its end.
    pub fn fail(&mut self, kind: usize, code: u16, message: &str) {
        self.note(kind, Some(code), message);
    }

    /// Notes what is warned of about the list of a kind.
    pub fn warn(&mut self, kind: usize, message: &str) {
        self.note(kind, None, message);
    }

    fn note(&mut self, kind: usize, code: Option<u16>, message: &str) {
        let note = Note {
            kind,
            code,
            message: shortened(message, MESSAGE_BYTES_MAX),
        };
        if self.notes.contains(&note) {
            return;
        }
        let of_kind = self.notes.iter().filter(|note| note.kind == kind).count();
        if self.notes.len() >= NOTE_COUNT_MAX || of_kind >= NOTE_COUNT_OF_KIND_MAX {
            self.omitted_note_count = self.omitted_note_count.saturating_add(1);
            return;
        }
        self.notes.push(note);
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
            .map(|((cluster, kind), cell)| {
                let mut value = cell.to_value();
                value["cluster"] = serde_json::json!(cluster);
                value["resource"] = serde_json::json!(name(*kind));
                value
            })
            .collect();
        let notes = |is_failure: bool| -> Vec<serde_json::Value> {
            let chosen = self
                .notes
                .iter()
                .filter(|note| note.code.is_some() == is_failure);
            chosen
                .map(|note| serde_json::json!({"resource": name(note.kind), "code": note.code, "message": note.message}))
                .collect()
        };
        let versions: BTreeMap<String, &String> = self
            .resource_versions
            .iter()
            .filter_map(|(kind, version)| Some((search.kinds.get(*kind)?.asked(), version)))
            .filter(|(_, version)| !version.is_empty())
            .collect();
        serde_json::json!({
            "total": self.total,
            "offset": search.offset,
            "rows": rows,
            "states": self.states,
            "cells": cells,
            "failures": notes(true),
            "warnings": notes(false),
            "omitted": self.omitted_note_count,
            "resourceVersions": versions,
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
