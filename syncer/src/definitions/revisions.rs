//! GraphRevisions: an immutable record of each definition that compiled.
//!
//! Source: kro `pkg/controller/resourcegraphdefinition` (issue, adopt, collect) and its
//! GraphRevision controller.

use std::sync::Arc;

use api::kro::{ResourceGraphDefinition, RgdSpec};
use api::selector::FieldSelector;
use api::wheelhouse::keys::ANNOTATION_AUTHOR;
use client::{DeleteRequest, ListRequest, Patch};
use graph::{
    CompiledGraph,
    conditions::{ConditionSet, REVISION},
};
use serde_json::{Value, json};

use crate::{engine::Engine, resources, state::served::DefinitionKey};

/// A recorded revision.
#[derive(Debug, Clone)]
pub(crate) struct Revision {
    pub(crate) number: i64,
    pub(crate) name: String,
    pub(crate) spec: Option<RgdSpec>,
    /// Who wrote it.
    pub(crate) author: Option<String>,
    pub(crate) terminating: bool,
}

/// Lists the revisions of a definition, the oldest first.
pub(crate) async fn list(
    engine: &Engine,
    key: &DefinitionKey,
) -> Result<Vec<Revision>, client::Error> {
    let endpoint = Engine::hub_endpoint(&key.cluster, &resources::revisions(), "");
    let request = ListRequest {
        field_selector: Some(FieldSelector::equals("spec.snapshot.name", &key.name)),
        ..ListRequest::default()
    };
    let listed = engine.hub.list(&endpoint, &request).await?;
    let mut revisions: Vec<Revision> = listed.items.iter().map(revision).collect();
    revisions.sort_by_key(|revision| revision.number);
    Ok(revisions)
}

/// Returns the newest revision that is not being deleted. kro decides nothing before those that are have gone; then it decides the same.
pub(crate) fn latest(revisions: &[Revision]) -> Option<&Revision> {
    revisions.iter().rfind(|revision| !revision.terminating)
}

/// Records a new revision and its verified graph.
pub(crate) async fn issue(
    engine: &Engine,
    key: &DefinitionKey,
    definition: &Value,
    graph: &CompiledGraph,
    number: i64,
) -> Result<(), client::Error> {
    let endpoint = Engine::hub_endpoint(&key.cluster, &resources::revisions(), "");
    let name = graph::revision_name(&key.name, number);
    let mut annotations = json!({});
    let author = &definition["metadata"]["annotations"][ANNOTATION_AUTHOR];
    if !author.is_null() {
        annotations[ANNOTATION_AUTHOR] = author.clone();
    }
    let revision = json!({
        "apiVersion": endpoint.gvr.group_version().to_string(),
        "kind": "GraphRevision",
        "metadata": {
            "name": name,
            "labels": {
                "kro.run/owned": "true",
                "kro.run/kro-version": engine.switches.of(&key.cluster).settings.kro_version,
                "kro.run/resource-graph-definition-name": key.name,
                (api::kro::keys::LABEL_REVISION_HASH): graph.spec_hash(),
            },
            "annotations": annotations,
            "ownerReferences": [{
                "apiVersion": "kro.run/v1alpha1",
                "kind": "ResourceGraphDefinition",
                "name": key.name,
                "uid": definition["metadata"]["uid"],
                "controller": true,
            }],
        },
        "spec": {
            "revision": number,
            "snapshot": {
                "name": key.name,
                "generation": definition["metadata"]["generation"],
                "spec": definition["spec"],
            },
        },
    });
    let created = match engine.hub.create(&endpoint, &revision).await {
        Ok(created) => created,
        // A crash between this write and the definition's status: the same number, ours.
        Err(error) if error.is_already_exists() => engine.hub.get(&endpoint, &name).await?,
        Err(error) => return Err(error),
    };
    let now = Engine::now();
    let mut set = ConditionSet::open(&REVISION, &created, &now);
    set.mark(graph::definition_conditions::revision_verified());
    let mut status = json!({"conditions": set.to_values()});
    tell_graph(&mut status, graph);
    let patch = json!([{"op": "add", "path": "/status", "value": status}]);
    engine
        .hub
        .patch(&endpoint, &name, Some("status"), Patch::Json(&patch))
        .await?;
    Ok(())
}

/// Tells in a status what a graph consists of. What is empty is left out, as by kro.
pub(crate) fn tell_graph(status: &mut Value, graph: &CompiledGraph) {
    let order = graph.topological_order().iter().map(AsRef::as_ref);
    let order: Vec<&str> = order.collect();
    let parts = [
        ("topologicalOrder", json!(order)),
        ("resources", json!(graph.resources_status())),
    ];
    for (key, value) in parts {
        let is_empty = value.as_array().is_none_or(Vec::is_empty);
        if !is_empty {
            status[key] = value;
        } else if let Some(fields) = status.as_object_mut() {
            fields.remove(key);
        }
    }
}

/// Takes out of a status what a graph consists of: there is none of what the definition says now, as with kro.
pub(crate) fn forget_graph(status: &mut Value) {
    if let Some(fields) = status.as_object_mut() {
        fields.remove("topologicalOrder");
        fields.remove("resources");
    }
}

/// Deletes revisions beyond those that are kept, or all of them.
pub(crate) async fn collect(
    engine: &Engine,
    key: &DefinitionKey,
    revisions: &[Revision],
    keep: Keep,
) -> Result<(), client::Error> {
    let endpoint = Engine::hub_endpoint(&key.cluster, &resources::revisions(), "");
    let kept = match keep {
        Keep::Newest => engine.switches.of(&key.cluster).revision_count_max,
        Keep::None => Some(0),
    };
    let staying = revisions.iter().filter(|revision| !revision.terminating);
    let surplus = kept.map_or(0, |kept| staying.clone().count().saturating_sub(kept));
    for revision in staying.take(surplus) {
        let request = DeleteRequest::default();
        match engine.hub.delete(&endpoint, &revision.name, &request).await {
            Ok(_) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// What [`collect`] leaves.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Keep {
    /// The newest ones, as many as the cluster's switch says.
    Newest,
    /// None: the definition goes.
    None,
}

/// Compiles the newest recorded revision that still compiles: what goes on being served while the
/// definition itself does not compile, and after a restart, with its author. One whose kind another definition holds by
/// now is passed over.
pub(crate) fn last_good<'r>(
    key: &DefinitionKey,
    revisions: &'r [Revision],
    resolver: &dyn graph::SchemaResolver,
    options: &graph::CompileOptions,
    holds: impl Fn(&CompiledGraph) -> bool,
) -> Option<(Arc<CompiledGraph>, Option<&'r str>)> {
    revisions.iter().rev().find_map(|revision| {
        let graph =
            graph::compile_with(revision.spec.as_ref()?, &key.name, resolver, options).ok()?;
        holds(&graph).then_some((graph, revision.author.as_deref()))
    })
}

fn revision(object: &Value) -> Revision {
    let spec = &object["spec"];
    Revision {
        number: spec["revision"].as_i64().unwrap_or_default(),
        name: api::meta::name(object).to_owned(),
        spec: serde_json::from_value(spec["snapshot"]["spec"].clone()).ok(),
        author: api::meta::annotation(object, ANNOTATION_AUTHOR).map(str::to_owned),
        terminating: api::meta::deletion_timestamp(object).is_some(),
    }
}

/// Reads a definition as the hub stores it.
pub(crate) fn typed(definition: &Value) -> Result<ResourceGraphDefinition, serde_json::Error> {
    serde_json::from_value(definition.clone())
}
