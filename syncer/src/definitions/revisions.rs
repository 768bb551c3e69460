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
    /// Whether it has been told to compile.
    pub(crate) is_verified: bool,
    owners: Vec<Value>,
    resource_version: String,
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

/// Records a new revision and returns it. That its graph is verified is told afterwards.
pub(crate) async fn issue(
    engine: &Engine,
    key: &DefinitionKey,
    definition: &Value,
    graph: &CompiledGraph,
    number: i64,
) -> Result<Value, client::Error> {
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
            "ownerReferences": [owner(key, definition)],
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
    match engine.hub.create(&endpoint, &revision).await {
        // A crash between this write and the definition's status: the same number, ours.
        Err(error) if error.is_already_exists() => engine.hub.get(&endpoint, &name).await,
        answer => answer,
    }
}

/// Makes a definition the owner of the revisions of its name that have none, or one that had its name before: they go with it
/// then. A revision that changes meanwhile is a conflict.
///
/// Source: `adoptGraphRevisions` in kro's `controller_reconcile.go`.
pub(crate) async fn adopt(
    engine: &Engine,
    key: &DefinitionKey,
    definition: &Value,
    revisions: &[Revision],
) -> Result<(), client::Error> {
    let endpoint = Engine::hub_endpoint(&key.cluster, &resources::revisions(), "");
    let owner = owner(key, definition);
    let is_owner = |it: &Value| {
        ["uid", "kind", "controller"]
            .iter()
            .all(|part| it[part] == owner[part])
    };
    let live = revisions.iter().filter(|revision| !revision.terminating);
    for revision in live.filter(|revision| !revision.owners.iter().any(is_owner)) {
        let mut owners = revision.owners.clone();
        let is_former = |it: &&mut Value| {
            ["kind", "apiVersion"]
                .iter()
                .all(|part| it[part] == owner[part])
        };
        match owners.iter_mut().find(is_former) {
            Some(former) => *former = owner.clone(),
            None => owners.push(owner.clone()),
        }
        let patch = json!({"metadata": {
            "resourceVersion": revision.resource_version,
            "ownerReferences": owners,
        }});
        let patched = engine
            .hub
            .patch(&endpoint, &revision.name, None, Patch::Merge(&patch));
        match patched.await {
            Ok(_) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads a revision as a whole.
pub(crate) async fn read(
    engine: &Engine,
    key: &DefinitionKey,
    revision: &Revision,
) -> Result<Value, client::Error> {
    let endpoint = Engine::hub_endpoint(&key.cluster, &resources::revisions(), "");
    engine.hub.get(&endpoint, &revision.name).await
}

/// The reference to a definition that its revisions have.
fn owner(key: &DefinitionKey, definition: &Value) -> Value {
    json!({
        "apiVersion": "kro.run/v1alpha1",
        "kind": "ResourceGraphDefinition",
        "name": key.name,
        "uid": definition["metadata"]["uid"],
        "controller": true,
    })
}

/// Tells in the status of a revision that its graph is verified.
pub(crate) async fn tell_verified(
    engine: &Engine,
    key: &DefinitionKey,
    revision: &Value,
    graph: &CompiledGraph,
) -> Result<(), client::Error> {
    let endpoint = Engine::hub_endpoint(&key.cluster, &resources::revisions(), "");
    let name = api::meta::name(revision);
    let now = Engine::now();
    let mut set = ConditionSet::open(&REVISION, revision, &now);
    set.mark(graph::definition_conditions::revision_verified());
    let mut status = json!({"conditions": set.to_values()});
    tell_graph(&mut status, graph);
    let patch = json!([{"op": "add", "path": "/status", "value": status}]);
    engine
        .hub
        .patch(&endpoint, name, Some("status"), Patch::Json(&patch))
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

/// Returns whether so many revisions of a definition are more than are kept.
pub(crate) fn may_exceed(engine: &Engine, key: &DefinitionKey, count: usize) -> bool {
    let kept = engine.switches.of(&key.cluster).revision_count_max;
    kept.is_some_and(|kept| count > kept)
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
            Ok(_) if matches!(keep, Keep::Newest) => {
                engine.metrics.of(&key.cluster).revision_collected();
            }
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
) -> Option<(Arc<CompiledGraph>, &'r Revision)> {
    revisions.iter().rev().find_map(|revision| {
        let graph =
            graph::compile_with(revision.spec.as_ref()?, &key.name, resolver, options).ok()?;
        holds(&graph).then_some((graph, revision))
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
        is_verified: object["status"]["conditions"].is_array(),
        owners: object["metadata"]["ownerReferences"]
            .as_array()
            .cloned()
            .unwrap_or_default(),
        resource_version: object["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
    }
}

/// Reads a definition as the hub stores it.
pub(crate) fn typed(definition: &Value) -> Result<ResourceGraphDefinition, serde_json::Error> {
    serde_json::from_value(definition.clone())
}
