//! `wheelhouse rgd preview` and `diff`: what definitions would do to a fleet, as its hub tells the caller.

use std::{collections::BTreeSet, fmt, path::PathBuf};

use anyhow::{Context, Result};
use api::{
    ClusterScope, GroupVersionResource, LogicalCluster, meta,
    wheelhouse::{
        API_VERSION, GROUP, VERSION,
        preview::{
            ChildPreview, ClusterPreview, CrdPreview, InstancePreview, PREVIEW_KIND,
            PREVIEW_RESOURCE, PreviewStatus,
        },
    },
};
use clap::Args;
use client::Endpoint;
use serde_json::{Value, json};

use crate::{
    connect::{self, HubFlags},
    output::{self, Format},
};

/// What is asked for.
#[derive(Debug, Args)]
pub(crate) struct Asked {
    /// YAML files with ResourceGraphDefinitions; other objects are ignored.
    #[arg(required = true, value_name = "FILE")]
    paths: Vec<PathBuf>,
    /// The logical cluster that they would be applied in.
    #[arg(long, value_name = "NAME", default_value = "root")]
    cluster: LogicalCluster,
    /// How to print.
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
    #[command(flatten)]
    hub: HubFlags,
}

/// What becomes of a CRD whose new schema would break what is there.
const REFUSED: &str = "Refused";
/// What can be done about it.
const ALLOWING: &str = "refused, because the new schema breaks what is there, and instances that lack what the definition reads \
    would no longer be reconciled; to accept that, annotate the definition with kro.run/allow-breaking-changes: \"true\"";

/// How much is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Everything.
    All,
    /// The objects that change.
    Objects,
}

/// Something would change: no failure, and told by the exit code.
#[derive(Debug)]
pub(crate) struct Differs;

/// A definition is refused, or cannot be previewed.
#[derive(Debug)]
pub(crate) struct NotPreviewed(String);

/// Previews definitions.
pub(crate) async fn run(asked: &Asked, detail: Detail) -> Result<()> {
    let what = || NotPreviewed("cannot preview".to_owned());
    let (previews, unknown_count) = ask(asked).await.with_context(what)?;
    match asked.output {
        Some(format @ (Format::Json | Format::Yaml)) => {
            for preview in &previews {
                output::object(preview, format)?;
            }
        }
        Some(Format::Name) => {
            let names = previews
                .iter()
                .flat_map(|preview| names(&status_of(preview)));
            for name in names.collect::<Vec<_>>() {
                output::line(&name)?;
            }
        }
        Some(Format::Wide) | None => {
            for preview in &previews {
                for line in lines(preview, detail) {
                    output::line(&line)?;
                }
            }
        }
    }
    let statuses: Vec<PreviewStatus> = previews.iter().map(status_of).collect();
    let refused_count = statuses.iter().filter(|status| is_refused(status)).count();
    if unknown_count > 0 {
        let text = "the hub would refuse fields that it does not know".to_owned();
        return Err(NotPreviewed(text).into());
    }
    if refused_count > 0 {
        let all = statuses.len();
        let text = format!("{refused_count} of {all} definitions are refused");
        return Err(NotPreviewed(text).into());
    }
    if statuses.iter().any(differs) {
        return Err(Differs.into());
    }
    Ok(())
}

/// Asks the hub, a definition after the other. Returns its answers, and how many fields it does not know: `kubectl apply`, which
/// is strict, is refused for them.
async fn ask(asked: &Asked) -> Result<(Vec<Value>, usize)> {
    let mut definitions = Vec::new();
    let mut unknown_count = 0;
    for file in &asked.paths {
        let read = super::read(file)?.1.into_iter();
        for definition in read.filter(|it| it["kind"] == api::kro::RGD_KIND) {
            for path in super::unknown_fields(&definition) {
                let (file, name) = (file.display(), meta::name(&definition));
                output::note(&format!("{file}: {name}: unknown field {path:?}"));
                unknown_count += 1;
            }
            definitions.push(definition);
        }
    }
    if definitions.is_empty() {
        anyhow::bail!("there is no ResourceGraphDefinition in these files");
    }
    let hub = connect::hub(&asked.hub).await?;
    let endpoint = Endpoint {
        scope: Some(ClusterScope::One(asked.cluster.clone())),
        gvr: GroupVersionResource::new(GROUP, VERSION, PREVIEW_RESOURCE),
        namespace: None,
    };
    let mut names = BTreeSet::new();
    for name in definitions.iter().map(meta::name) {
        if !names.insert(name) {
            output::note(&format!(
                "{name} is in these files more than once: each is compared with what the hub has, and not with the others"
            ));
        }
    }
    let mut previews = Vec::new();
    for definition in definitions {
        let preview = json!({
            "apiVersion": API_VERSION, "kind": PREVIEW_KIND, "spec": {"definition": definition},
        });
        previews.push(hub.dynamic.create(&endpoint, &preview).await?);
    }
    Ok((previews, unknown_count))
}

/// Whether a definition, or its CRD, is refused.
fn is_refused(status: &PreviewStatus) -> bool {
    !status.accepted || refusal(status).is_some()
}

/// Returns why the CRD of a definition would be refused.
fn refusal(status: &PreviewStatus) -> Option<&'static str> {
    let crd = status.crd.as_ref().filter(|crd| crd.action == REFUSED)?;
    Some(if crd.breaking.is_empty() {
        "refused, because its CRD cannot be written"
    } else {
        ALLOWING
    })
}

fn status_of(preview: &Value) -> PreviewStatus {
    serde_json::from_value(preview["status"].clone()).unwrap_or_default()
}

/// Whether anything would be written, or fail.
fn differs(status: &PreviewStatus) -> bool {
    let summary = &status.summary;
    let crd = status.crd.as_ref().map_or("", |crd| crd.action.as_str());
    status.changed
        || crd != "None"
        || summary.created
            + summary.updated
            + summary.deleted
            + summary.kept
            + summary.invalid
            + summary.failing
            > 0
        || status.clusters.iter().any(|it| it.serving != "Serves")
}

/// Returns what is printed of a preview.
fn lines(preview: &Value, detail: Detail) -> Vec<String> {
    let status = status_of(preview);
    let name = meta::name(&preview["spec"]["definition"]);
    let mut lines = Vec::new();
    if !status.accepted {
        lines.push(format!("{name}: refused: {}", status.message));
        return lines;
    }
    let refusal = refusal(&status);
    if detail == Detail::All {
        let word = match (refusal, status.changed) {
            (Some(refusal), _) => refusal,
            (None, true) => "accepted, changes",
            (None, false) => "accepted, stays as it is",
        };
        lines.push(format!("{name}: {word}"));
        if let Some(crd) = &status.crd {
            lines.extend(of_crd(crd));
        }
        lines.extend(output::aligned(&table(&status)));
    } else if let Some(refusal) = refusal {
        lines.push(format!("{name}: {refusal}"));
    }
    for cluster in &status.clusters {
        for instance in &cluster.changes {
            lines.extend(of_instance(cluster, instance, detail));
        }
        if cluster.changes_omitted > 0 {
            let count = cluster.changes_omitted;
            lines.push(format!(
                "{}: {count} more instances change",
                cluster.cluster
            ));
        }
    }
    if detail == Detail::All {
        let summary = &status.summary;
        let kept = match summary.kept {
            0 => String::new(),
            count => format!(", {count} to keep"),
        };
        lines.push(format!(
            "{} to create, {} to change, {} to delete{kept}; {} instances invalid, {} failing, {} waiting for a confirmation",
            summary.created, summary.updated, summary.deleted, summary.invalid, summary.failing, summary.held
        ));
    }
    lines.extend(
        status
            .omitted
            .iter()
            .map(|it| format!("not looked at: {it}")),
    );
    lines
}

/// Returns the objects that would change: cluster, kind, namespace and name.
fn names(status: &PreviewStatus) -> Vec<String> {
    let mut names = Vec::new();
    for cluster in &status.clusters {
        for child in cluster.changes.iter().flat_map(|it| &it.children) {
            let place = place(&child.namespace, &child.name);
            names.push(format!("{}/{}/{place}", cluster.cluster, child.kind));
        }
    }
    names
}

fn of_crd(crd: &CrdPreview) -> Vec<String> {
    let mut lines = vec![format!("crd {}: {}", crd.name, crd.action)];
    if !crd.message.is_empty() {
        lines.push(format!("  {}", crd.message));
    }
    lines.extend(crd.breaking.iter().map(|it| format!("  breaking {it}")));
    lines.extend(crd.other.iter().map(|it| format!("  {it}")));
    lines
}

fn table(status: &PreviewStatus) -> Vec<Vec<String>> {
    let head = [
        "CLUSTER",
        "SERVING",
        "INSTANCES",
        "EXAMINED",
        "CHANGING",
        "MESSAGE",
    ];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    for cluster in &status.clusters {
        let changing = cluster.changes.len() as u64 + cluster.changes_omitted;
        lines.push(vec![
            cluster.cluster.clone(),
            cluster.serving.clone(),
            cluster.instances.to_string(),
            cluster.examined.to_string(),
            changing.to_string(),
            cluster.message.clone(),
        ]);
    }
    lines
}

fn of_instance(
    cluster: &ClusterPreview,
    instance: &InstancePreview,
    detail: Detail,
) -> Vec<String> {
    let name = place(&instance.namespace, &instance.name);
    let mut lines = vec![format!("{} {name}", cluster.cluster)];
    if detail == Detail::All {
        lines.extend(instance.invalid.iter().map(|it| format!("  invalid: {it}")));
        for (word, text) in [
            ("fails", &instance.failure),
            ("waits", &instance.confirmation),
        ] {
            if !text.is_empty() {
                lines.push(format!("  {word}: {text}"));
            }
        }
    }
    for child in &instance.children {
        lines.extend(of_child(child));
    }
    if instance.children_omitted > 0 {
        lines.push(format!("  {} more objects", instance.children_omitted));
    }
    if detail == Detail::All {
        if instance.deletions_wait {
            lines.push("  deletions wait until all nodes are there".to_owned());
        }
        let waiting = instance.waiting.iter();
        lines.extend(waiting.map(|it| format!("  ? {}: {}: {}", it.id, it.reason, it.message)));
    }
    lines
}

fn of_child(child: &ChildPreview) -> Vec<String> {
    let sign = match child.action.as_str() {
        "Create" => '+',
        "Delete" => '-',
        "Retain" | "Orphan" => '=',
        _ => '~',
    };
    let name = place(&child.namespace, &child.name);
    let why = match sign {
        '=' => format!(" stays: its deletion policy is {}", child.action),
        _ => String::new(),
    };
    let mut lines = vec![format!(
        "  {sign} {} {name} ({}){why}",
        child.kind, child.node_id
    )];
    for field in &child.fields {
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        let (path, from, to) = (&field.path, value(&field.from), value(&field.to));
        lines.push(format!("      {path}: {from} -> {to}"));
    }
    if child.fields_omitted > 0 {
        lines.push(format!("      {} more fields", child.fields_omitted));
    }
    lines
}

fn place(namespace: &str, name: &str) -> String {
    if namespace.is_empty() {
        name.to_owned()
    } else {
        format!("{namespace}/{name}")
    }
}

impl fmt::Display for Differs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("something would change")
    }
}

impl std::error::Error for Differs {}

impl fmt::Display for NotPreviewed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotPreviewed {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_change_is_printed_and_nothing_else_for_a_diff() {
        let child = json!({
            "action": "Update", "nodeID": "web", "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "a", "name": "w",
            "fields": [{"path": ".spec.replicas", "from": "1", "to": "3"}, {"path": ".data"}], "fieldsOmitted": 2,
        });
        let kept = json!({"action": "Retain", "nodeID": "db", "apiVersion": "v1", "kind": "Secret", "namespace": "a", "name": "s"});
        let waiting = json!({"id": "later", "reason": "DataPending", "message": "not yet"});
        let instance = json!({"namespace": "a", "name": "one", "children": [child, kept], "waiting": [waiting]});
        let cluster = json!({"cluster": "east", "serving": "Serves", "instances": 2, "examined": 2, "changes": [instance]});
        let status = json!({
            "accepted": true, "changed": true, "crd": {"name": "webs.kro.run", "action": "None"},
            "summary": {"updated": 1}, "clusters": [cluster], "omitted": ["the clusters of the fleet"],
        });
        let preview =
            json!({"spec": {"definition": {"metadata": {"name": "web"}}}, "status": status});
        let diff = lines(&preview, Detail::Objects);
        assert_eq!(
            diff,
            [
                "east a/one",
                "  ~ Deployment a/w (web)",
                "      .spec.replicas: 1 -> 3",
                "      .data: - -> -",
                "      2 more fields",
                "  = Secret a/s (db) stays: its deletion policy is Retain",
                "not looked at: the clusters of the fleet",
            ]
        );
        let all = lines(&preview, Detail::All);
        assert!(diff.iter().all(|line| all.contains(line)), "{all:?}");
        assert!(
            all.contains(&"  ? later: DataPending: not yet".to_owned()),
            "{all:?}"
        );
        assert!(
            all.iter().any(|line| line.starts_with("east      Serves")),
            "{all:?}"
        );
        assert!(differs(&status_of(&preview)));
        assert_eq!(
            names(&status_of(&preview)),
            ["east/Deployment/a/w", "east/Secret/a/s"]
        );
    }

    #[test]
    fn nothing_differs_where_nothing_is_written() {
        let status = json!({
            "accepted": true, "changed": false, "crd": {"action": "None"},
            "clusters": [{"cluster": "east", "serving": "Serves", "instances": 2}],
        });
        let preview = |status: &Value| json!({"status": status});
        assert!(!differs(&status_of(&preview(&status))));
        for (pointer, value) in [
            ("/changed", json!(true)),
            ("/crd/action", json!("Update")),
            ("/clusters/0/serving", json!("Ends")),
        ] {
            let mut other = status.clone();
            *other.pointer_mut(pointer).expect("it is there") = value;
            assert!(differs(&status_of(&preview(&other))), "{pointer}");
        }
    }
}
