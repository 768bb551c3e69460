//! `wheelhouse fleet matrix`: definitions against clusters, with how many instances there are ready.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use api::{ClusterScope, GroupVersionKind, GroupVersionResource, LogicalCluster, kro, meta};
use client::{Dynamic, Endpoint, ListRequest, discovery};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    everywhere::{self, Everywhere, Unknown},
    held::Waiting,
    print,
    row::Row,
    rows,
};
use crate::{
    args, connect,
    output::{self, Format},
};

/// A definition, and its instances by cluster.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Line {
    pub(super) definition: String,
    /// The logical cluster that it is in; it serves that one alone, unless it is root.
    cluster: String,
    kind: String,
    /// The revision that was issued last; 0 where none was.
    revision: i64,
    state: String,
    /// Why it is not active; nothing where it is, or does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// By cluster.
    instances: BTreeMap<String, Count>,
    /// The clusters whose instances cannot be counted, and why.
    #[serde(skip_serializing_if = "Unknown::is_empty")]
    pub(super) unknown: Unknown,
    /// Why its instances cannot be counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) failure: Option<String>,
    /// The instances that are not ready.
    #[serde(skip)]
    pub(super) waiting: Vec<Waiting>,
}

/// All definitions.
#[derive(Debug)]
pub(super) struct Matrix {
    pub(super) lines: Vec<Line>,
    /// The clusters that could not be asked for some of it, and why.
    pub(super) unknown: Unknown,
}

/// Instances of one definition in one cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Count {
    ready: u64,
    total: u64,
    /// The earliest and the latest revision by which they were reconciled, where they say so.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_revision: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_revision: Option<i64>,
}

/// Prints the matrix.
pub(super) async fn show(arguments: &args::FleetMatrix) -> Result<()> {
    let hub = connect::hub(&arguments.hub).await?;
    let spokes = rows(&hub).await?;
    let names: BTreeSet<String> = spokes.iter().map(|row| row.name.clone()).collect();
    let stale = stale(&spokes);
    let Matrix { lines, unknown } = read(&hub.dynamic).await?;
    match arguments.output {
        None | Some(Format::Wide) => {
            print(
                &table(&names, &lines, arguments.output),
                "No definitions found",
            )?;
            lines.iter().for_each(Line::tell);
            tell_of_clusters(&unknown, &stale);
            Ok(())
        }
        Some(Format::Name) => lines
            .iter()
            .try_for_each(|line| output::line(&format!("{}/{}", line.cluster, line.definition))),
        Some(format) => {
            let matrix = json!({
                "clusters": names, "stale": stale, "unknown": unknown, "definitions": lines,
            });
            output::object(&matrix, format)
        }
    }
}

/// Returns the clusters that are not heard of: what is shown of them is what was last known.
pub(super) fn stale(spokes: &[Row]) -> BTreeSet<String> {
    let stale = spokes.iter().filter(|row| row.state.is_away());
    stale.map(|row| row.name.clone()).collect()
}

/// Reports on standard error of which clusters nothing, or nothing new, is known.
pub(super) fn tell_of_clusters(unknown: &Unknown, stale: &BTreeSet<String>) {
    for (cluster, why) in unknown {
        output::note(&format!("{cluster}: not read: {why}"));
    }
    for cluster in stale.iter().filter(|it| !unknown.contains_key(*it)) {
        output::note(&format!(
            "{cluster} is not reachable: what is shown of it was last known (wheelhouse fleet says why)"
        ));
    }
}

/// Reads all definitions, as far as clusters can be asked.
///
/// # Errors
/// The hub refuses it, or does not answer.
pub(super) async fn definitions(hub: &Dynamic) -> Result<Everywhere, client::Error> {
    let definitions = GroupVersionResource::new(kro::GROUP, kro::VERSION, kro::RGD_RESOURCE);
    everywhere::list(hub, &of_all(definitions)).await
}

/// Whether a definition is not in use, because something is wrong with it.
pub(super) fn is_inactive(definition: &Value) -> bool {
    definition["status"]["state"] == "Inactive"
}

/// Reads all definitions, and their instances.
pub(super) async fn read(hub: &Dynamic) -> Result<Matrix> {
    let all = ClusterScope::All;
    let definitions = definitions(hub).await.context("definitions")?;
    let mut unknown = definitions.unknown;
    let kinds = discovery::fetch(hub, Some(&all)).await;
    let kinds = kinds.context("the kinds of all clusters")?;
    let mut lines = Vec::new();
    for definition in &definitions.items {
        let gvk = kind_of(definition);
        let mut line = Line::of(definition, &gvk.kind);
        match kinds.kind(&gvk) {
            Some(info) => line.count(hub, info.gvr.clone()).await,
            None => line.failure = Some("its kind is not served".to_owned()),
        }
        unknown.extend(line.unknown.clone());
        lines.push(line);
    }
    lines.sort_by(|a, b| (&a.definition, &a.cluster).cmp(&(&b.definition, &b.cluster)));
    Ok(Matrix { lines, unknown })
}

fn of_all(gvr: GroupVersionResource) -> Endpoint {
    Endpoint {
        scope: Some(ClusterScope::All),
        gvr,
        namespace: None,
    }
}

/// Returns the kind that a definition gives.
fn kind_of(definition: &Value) -> GroupVersionKind {
    let schema = &definition["spec"]["schema"];
    let text = |field: &str| schema[field].as_str().unwrap_or_default().to_owned();
    let group = Some(text("group")).filter(|group| !group.is_empty());
    GroupVersionKind {
        group: group.unwrap_or_else(|| kro::GROUP.to_owned()),
        version: text("apiVersion"),
        kind: text("kind"),
    }
}

/// Returns the logical cluster that an object of a list of all clusters is in.
fn cluster_of(object: &Value) -> &str {
    meta::annotation(object, api::cluster::ANNOTATION).unwrap_or(api::cluster::ROOT)
}

fn table(spokes: &BTreeSet<String>, lines: &[Line], format: Option<Format>) -> Vec<Vec<String>> {
    let counted = lines.iter().flat_map(|line| line.instances.keys());
    let clusters: BTreeSet<&String> = counted.chain(spokes).collect();
    let mut head: Vec<String> = ["DEFINITION", "KIND", "REVISION", "STATE"]
        .map(str::to_owned)
        .into();
    let is_wide = format == Some(Format::Wide);
    if is_wide {
        head.push("CLUSTER".to_owned());
    }
    head.extend(clusters.iter().map(|name| name.to_uppercase()));
    let mut cells = vec![head];
    for line in lines {
        let mut row = vec![
            line.definition.clone(),
            line.kind.clone(),
            line.revision.to_string(),
            line.state.clone(),
        ];
        if is_wide {
            row.push(line.cluster.clone());
        }
        row.extend(clusters.iter().map(|name| match line.instances.get(*name) {
            _ if line.failure.is_some() || line.unknown.contains_key(*name) => "?".to_owned(),
            Some(count) => count.to_text(line.revision),
            None => "-".to_owned(),
        }));
        cells.push(row);
    }
    cells
}

/// Returns what the first condition that fails says of a definition that is not active. `Ready` repeats another one.
fn why_inactive(status: &Value) -> Option<String> {
    if status["state"] == "Active" {
        return None;
    }
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let mut failing = conditions.filter(|it| it["status"] == "False" && it["type"] != "Ready");
    let message = failing.next()?["message"].as_str()?;
    Some(message.to_owned()).filter(|message| !message.is_empty())
}

// === impl Count ===

impl Count {
    /// Counts an instance by its status.
    fn add(&mut self, status: &Value) {
        self.total += 1;
        self.ready += u64::from(status["state"] == "ACTIVE");
        if let Some(revision) = status["graphRevision"].as_i64() {
            let first = self.first_revision.unwrap_or(revision);
            self.first_revision = Some(first.min(revision));
            self.last_revision = self.last_revision.max(Some(revision));
        }
    }

    /// Ready and all; behind them the revisions, where they are not the one that the definition has.
    fn to_text(self, latest: i64) -> String {
        let Self { ready, total, .. } = self;
        match (self.first_revision, self.last_revision) {
            (Some(first), Some(last)) if first != last => {
                format!("{ready}/{total} r{first}-{last}")
            }
            (Some(first), _) if first != latest => format!("{ready}/{total} r{first}"),
            _ => format!("{ready}/{total}"),
        }
    }
}

// === impl Line ===

impl Line {
    /// Reports on standard error why the definition is not active.
    pub(super) fn tell(&self) {
        if let Some(message) = &self.message {
            let Self {
                definition,
                state,
                cluster,
                ..
            } = self;
            let place = match cluster.as_str() {
                api::cluster::ROOT => String::new(),
                cluster => format!(" of {cluster}"),
            };
            // What follows the first line draws a mark, which a line has no room for.
            let message = message.lines().next().unwrap_or_default();
            output::note(&format!(
                "definition {definition}{place} is {state}: {message}"
            ));
        }
    }

    /// Whether any was counted.
    pub(super) fn has_instances(&self) -> bool {
        self.instances.values().any(|count| count.total > 0)
    }

    fn of(definition: &Value, kind: &str) -> Self {
        let status = &definition["status"];
        Self {
            definition: meta::name(definition).to_owned(),
            cluster: cluster_of(definition).to_owned(),
            kind: kind.to_owned(),
            revision: status["lastIssuedRevision"].as_i64().unwrap_or_default(),
            state: status["state"].as_str().unwrap_or("Unknown").to_owned(),
            message: why_inactive(status),
            instances: BTreeMap::new(),
            unknown: Unknown::new(),
            failure: None,
            waiting: Vec::new(),
        }
    }

    /// Counts the instances of a resource in the clusters that the definition serves.
    async fn count(&mut self, hub: &Dynamic, gvr: GroupVersionResource) {
        let mut endpoint = of_all(gvr);
        if self.cluster != api::cluster::ROOT
            && let Ok(cluster) = self.cluster.parse::<LogicalCluster>()
        {
            endpoint.scope = Some(ClusterScope::One(cluster));
        }
        let listed = match &endpoint.scope {
            Some(ClusterScope::All) => everywhere::list(hub, &endpoint).await,
            _ => hub
                .list(&endpoint, &ListRequest::default())
                .await
                .map(|it| Everywhere {
                    items: it.items,
                    unknown: Unknown::new(),
                }),
        };
        match listed {
            Ok(listed) => {
                self.unknown = listed.unknown;
                for instance in &listed.items {
                    let cluster = match &endpoint.scope {
                        Some(ClusterScope::One(cluster)) => cluster.as_str(),
                        _ => cluster_of(instance),
                    };
                    let count = self.instances.entry(cluster.to_owned()).or_default();
                    count.add(&instance["status"]);
                    self.waiting.extend(Waiting::of(cluster, instance));
                }
            }
            Err(error) => self.failure = Some(error.chain()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_a_count_nothing_or_unknown() {
        let line = |name: &str, failure: Option<&str>, cells: &[(&str, u64, u64)]| Line {
            definition: name.to_owned(),
            cluster: "root".to_owned(),
            kind: "App".to_owned(),
            revision: 2,
            state: "Active".to_owned(),
            message: None,
            instances: cells
                .iter()
                .map(|(name, ready, total)| {
                    (
                        (*name).to_owned(),
                        Count {
                            ready: *ready,
                            total: *total,
                            ..Count::default()
                        },
                    )
                })
                .collect(),
            unknown: Unknown::new(),
            failure: failure.map(str::to_owned),
            waiting: Vec::new(),
        };
        let spokes = BTreeSet::from(["east".to_owned(), "west".to_owned()]);
        let lines = [
            line("apps", None, &[("west", 1, 2), ("root", 1, 1)]),
            line("other", Some("503"), &[]),
        ];
        assert_eq!(
            table(&spokes, &lines, None),
            [
                [
                    "DEFINITION",
                    "KIND",
                    "REVISION",
                    "STATE",
                    "EAST",
                    "ROOT",
                    "WEST"
                ],
                ["apps", "App", "2", "Active", "-", "1/1", "1/2"],
                ["other", "App", "2", "Active", "?", "?", "?"],
            ]
        );
        let mut line = line("apps", None, &[("west", 1, 2)]);
        line.unknown.insert("east".to_owned(), "503".to_owned());
        let cells = &table(&spokes, &[line], None)[1];
        assert_eq!(cells[4..], ["?", "1/2"], "one of the clusters was not read");
    }

    #[test]
    fn a_definition_says_why_it_is_not_active() {
        let condition = |kind: &str, status: &str, message: &str| json!({"type": kind, "status": status, "message": message});
        let refused = json!([
            condition("Ready", "False", "said twice"),
            condition("KindReady", "True", "fine"),
            condition("ResourceGraphAccepted", "False", "undefined field"),
        ]);
        for (status, want) in [
            (
                json!({"state": "Inactive", "conditions": refused}),
                Some("undefined field"),
            ),
            (json!({"state": "Active", "conditions": refused}), None),
            (json!({"state": "Inactive"}), None),
            (
                json!({"conditions": [{"type": 1, "status": "False"}]}),
                None,
            ),
            (json!(null), None),
        ] {
            assert_eq!(why_inactive(&status).as_deref(), want, "{status}");
        }
    }

    #[test]
    fn a_cell_names_revisions_that_are_not_the_definitions() {
        for (revisions, want) in [
            (&[][..], "0/0"),
            (&[json!(null), json!("2")], "0/2"),
            (&[json!(4), json!(4)], "0/2"),
            (&[json!(3), json!(3)], "0/2 r3"),
            (&[json!(4), json!(2), json!(null)], "0/3 r2-4"),
        ] {
            let mut count = Count::default();
            for revision in revisions {
                count.add(&json!({"graphRevision": revision}));
            }
            assert_eq!(count.to_text(4), want, "{revisions:?}");
        }
    }

    #[test]
    fn the_group_of_a_definition_is_kros_unless_it_says_another() {
        let kind = |schema: Value| kind_of(&json!({"spec": {"schema": schema}}));
        let plain = kind(json!({"apiVersion": "v1alpha1", "kind": "App"}));
        assert_eq!(plain.group, "kro.run");
        let other = kind(json!({"apiVersion": "v1", "kind": "App", "group": "a.dev"}));
        assert_eq!(
            (other.group.as_str(), other.version.as_str()),
            ("a.dev", "v1")
        );
    }
}
