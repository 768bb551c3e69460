//! Definitions of a spoke go back to a kro there, with all that belongs to them.
//!
//! # Invariants
//!
//! Nothing is deleted in the spoke, and no child is made there. The hub runs nothing in the spoke meanwhile. What it knows of a definition
//! it forgets only after kro's record of it is whole in the spoke, and clients of the path have been sent to the spoke: a hub that is
//! killed at any point goes on where it was.

use std::{collections::BTreeSet, sync::Arc};

use api::{
    GroupResource, LogicalCluster,
    kro::{RgdSpec, keys as kro_keys},
    meta,
    wheelhouse::{
        Inventory, InventorySpec, MigratedDefinition, MigrationStatus, ServedState, keys, origin,
    },
};
use client::{DeleteRequest, Endpoint, ListRequest, Patch};
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _, future::BoxFuture, stream};
use serde_json::{Map, Value, json};
use tracing::info;

use super::{
    found::place,
    kro::Kro,
    taking::{HUB_PREFIXES, pointer},
};
use crate::{
    acting,
    engine::Engine,
    resources,
    spokes::{
        left::{self, Held},
        parting,
    },
    state::{actors::Place, target::Target},
};

/// Children that are let go at the same time.
const WRITE_COUNT: usize = 8;

/// What the hub has for a spoke that goes back to kro.
#[derive(Debug)]
struct Own {
    definitions: Vec<Value>,
    revisions: Vec<Value>,
    held: Vec<Held>,
    ledgers: Vec<Value>,
}

/// Says what would go back, and what keeps the hub from that.
pub(super) async fn plan(
    engine: &Arc<Engine>,
    target: &Arc<Target>,
    kro: &Kro,
) -> Result<MigrationStatus, client::Error> {
    let own = own(engine, &target.cluster).await?;
    let mut status = MigrationStatus::default();
    if own.definitions.is_empty() {
        let text = "the hub has no definitions at the path of this spoke".to_owned();
        status.notes.push(text);
        return Ok(status);
    }
    for reason in &kro.running {
        let text = format!("kro runs: {reason}; stop it until the definitions are there");
        status.obstacles.push(text);
    }
    for gvr in [resources::definitions(), resources::revisions()] {
        let name = gvr.group_resource().to_string();
        let crds = target.endpoint(&resources::crds(), "");
        match target.dynamic.get(&crds, &name).await {
            Ok(_) => {}
            Err(error) if error.is_not_found() => {
                let text = format!("the spoke has no CRD {name}: install kro's CRDs first");
                status.obstacles.push(text);
            }
            Err(error) => return Err(error),
        }
    }
    let text =
        "kro writes the children of these definitions with its own rights, whoever wrote them";
    status.notes.push(text.to_owned());
    if status.obstacles.is_empty() {
        definitions(engine, target, &own, &mut status).await?;
        instances(target, &own, &mut status).await?;
    }
    let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    for definition in &own.definitions {
        let spec = RgdSpec::from_value(&definition["spec"]).ok();
        let endpoint = spec.as_ref().map(graph::instance_endpoint);
        let name = meta::name(definition);
        let is_of = |held: &&Held| {
            Some(held.endpoint.gvr.group_resource())
                == endpoint
                    .as_ref()
                    .map(api::GroupVersionResource::group_resource)
        };
        status.definitions.push(MigratedDefinition {
            name: name.to_owned(),
            kind: spec
                .zip(endpoint.as_ref())
                .map_or_else(String::new, |(spec, gvr)| {
                    format!("{}.{}", spec.schema.kind, gvr.group)
                }),
            state: definition["status"]["state"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            revisions: count(own.revisions_of(name).count()),
            instances: count(own.held.iter().filter(is_of).count()),
        });
    }
    Ok(status)
}

async fn definitions(
    engine: &Engine,
    target: &Target,
    own: &Own,
    status: &mut MigrationStatus,
) -> Result<(), client::Error> {
    let there = list(target, &there(&resources::definitions())).await?;
    for definition in &there {
        let name = meta::name(definition);
        let is_marked = is_marked(engine, definition);
        let ours = own.definitions.iter().find(|it| meta::name(it) == name);
        match ours {
            None if is_marked => status.obstacles.push(format!(
                "ResourceGraphDefinition {name:?} was deleted at the hub's path: delete it in the spoke too, or kro runs it again"
            )),
            Some(ours) if meta::uid(ours) != meta::uid(definition) && !is_marked => {
                status.obstacles.push(format!("the spoke has another ResourceGraphDefinition {name:?}"));
            }
            Some(_) if meta::is_terminating(definition) => {
                status.obstacles.push(format!("ResourceGraphDefinition {name:?} is being deleted in the spoke"));
            }
            _ => {}
        }
    }
    for definition in own.definitions.iter().filter(|it| meta::is_terminating(it)) {
        let name = meta::name(definition);
        status
            .obstacles
            .push(format!("ResourceGraphDefinition {name:?} is being deleted"));
    }
    Ok(())
}

/// Requires that each instance has its object in the spoke.
async fn instances(
    target: &Target,
    own: &Own,
    status: &mut MigrationStatus,
) -> Result<(), client::Error> {
    let mut uids: BTreeSet<String> = BTreeSet::new();
    let endpoints: BTreeSet<_> = own
        .held
        .iter()
        .map(|held| held.endpoint.gvr.clone())
        .collect();
    for gvr in &endpoints {
        let listed = list(target, &there(gvr)).await?;
        uids.extend(listed.iter().map(|object| meta::uid(object).to_owned()));
    }
    let mut renamed = 0_usize;
    for held in &own.held {
        let about = format!("{} {}", meta::kind(&held.object), place(&held.object));
        if meta::is_terminating(&held.object) {
            status.obstacles.push(format!(
                "{about} is being deleted: let the hub end that first"
            ));
        }
        let uid = own.uid_there(held);
        if !uids.contains(uid) {
            status
                .obstacles
                .push(format!("{about} is not in the spoke"));
        }
        renamed += usize::from(uid != meta::uid(&held.object));
    }
    if renamed > 0 {
        status.notes.push(format!(
            "{renamed} instances were made at the hub's path: children name them by the uid that they have in the spoke from then on"
        ));
    }
    Ok(())
}

/// How far the hub is with giving back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Given {
    /// The hub has forgotten all of it.
    All,
    /// Definitions are going from the hub.
    Going,
}

/// Gives everything back. It can be repeated until it succeeds.
pub(super) async fn step(engine: &Arc<Engine>, target: &Target) -> Result<Given, client::Error> {
    let cluster = &target.cluster;
    parting::quiesce(engine, cluster).await;
    let own = own(engine, cluster).await?;
    for definition in &own.definitions {
        say_returning(engine, cluster, definition).await?;
    }
    for held in &own.held {
        give_instance(engine, target, &own, held).await?;
    }
    let mut going: Vec<BoxFuture<'_, _>> = Vec::new();
    for ledger in &own.ledgers {
        going.push(let_children_go(target, &own, ledger).boxed());
    }
    let going = stream::iter(going).buffer_unordered(WRITE_COUNT);
    going.try_collect::<()>().await?;
    for definition in &own.definitions {
        give_definition(engine, target, &own, definition).await?;
    }
    unmark(engine, target).await?;
    // From here on the spoke's is what counts.
    for definition in &own.definitions {
        send_to_spoke(engine, cluster, definition).await?;
    }
    let last = self::own(engine, cluster).await?;
    for held in last.changed_since(&own) {
        give_instance(engine, target, &last, held).await?;
    }
    parting::forget(engine, cluster, &last.held, &last.ledgers).await?;
    let endpoint = Engine::hub_endpoint(cluster, &resources::definitions(), "");
    for definition in &own.definitions {
        let request = DeleteRequest::of(meta::uid(definition));
        match engine
            .hub
            .delete(&endpoint, meta::name(definition), &request)
            .await
        {
            Ok(_) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    let left = engine.hub.list(&endpoint, &ListRequest::default()).await?;
    if !left.items.is_empty() {
        return Ok(Given::Going);
    }
    info!(%cluster, "gave the definitions of a spoke back to a kro");
    Ok(Given::All)
}

/// Reads what the hub has for a spoke by its own definitions. Those of root, and their instances, stay.
async fn own(engine: &Arc<Engine>, cluster: &LogicalCluster) -> Result<Own, client::Error> {
    let all = ListRequest::default();
    let endpoint = Engine::hub_endpoint(cluster, &resources::definitions(), "");
    let mut definitions = engine.hub.list(&endpoint, &all).await?.items;
    // Of one that goes already, nothing else is left.
    let is_returning = |definition: &Value| {
        meta::annotation(definition, keys::ANNOTATION_MIGRATION) == Some(keys::MIGRATION_RETURNING)
    };
    definitions.retain(|it| !(is_returning(it) && meta::is_terminating(it)));
    let endpoint = Engine::hub_endpoint(cluster, &resources::revisions(), "");
    let revisions = engine.hub.list(&endpoint, &all).await?.items;
    let specs = definitions
        .iter()
        .filter_map(|it| RgdSpec::from_value(&it["spec"]).ok());
    let kinds: BTreeSet<GroupResource> = specs
        .map(|spec| graph::instance_endpoint(&spec).group_resource())
        .filter(|kind| is_local(engine, cluster, kind))
        .collect();
    let mut held = left::instances(engine, cluster).await?;
    let known: BTreeSet<String> = held
        .iter()
        .map(|it| meta::uid(&it.object).to_owned())
        .collect();
    held.retain(|held| {
        // The hub's copies only: nothing else has either.
        let is_copy = origin::is_of_spoke(&held.object)
            || meta::annotation(&held.object, keys::ANNOTATION_AUTHOR).is_some();
        is_copy && kinds.contains(&held.endpoint.gvr.group_resource())
    });
    let going: BTreeSet<&str> = held.iter().map(|held| meta::uid(&held.object)).collect();
    let mut ledgers = left::ledgers(engine, cluster).await?;
    ledgers.retain(|ledger| {
        let uid = meta::name(ledger);
        // What was never taken up, or was forgotten by an attempt of before, has left a ledger behind.
        going.contains(uid) || !known.contains(uid) && is_of_any(&definitions, ledger)
    });
    Ok(Own {
        definitions,
        revisions,
        held,
        ledgers,
    })
}

/// Whether a ledger is of an instance of one of these definitions.
fn is_of_any(definitions: &[Value], ledger: &Value) -> bool {
    let of = &ledger["spec"]["instance"];
    definitions.iter().any(|definition| {
        RgdSpec::from_value(&definition["spec"]).is_ok_and(|spec| {
            of["kind"] == spec.schema.kind.as_str()
                && of["group"] == graph::instance_endpoint(&spec).group.as_str()
        })
    })
}

/// Whether a kind in a cluster is that of one of its own definitions.
fn is_local(engine: &Engine, cluster: &LogicalCluster, kind: &GroupResource) -> bool {
    engine.definitions.claims.holder(cluster, kind).is_some()
}

// === impl Own ===

impl Own {
    fn revisions_of(&self, name: &str) -> impl Iterator<Item = &Value> {
        let name = name.to_owned();
        self.revisions
            .iter()
            .filter(move |it| it["spec"]["snapshot"]["name"] == name.as_str())
    }

    /// Returns the instances that somebody has made or changed since `earlier` was read.
    fn changed_since<'a>(&'a self, earlier: &'a Self) -> impl Iterator<Item = &'a Held> {
        fn version(held: &Held) -> (&str, &str) {
            let object = &held.object;
            (meta::uid(object), meta::resource_version(object))
        }
        let given: BTreeSet<(&str, &str)> = earlier.held.iter().map(version).collect();
        let held = self.held.iter();
        held.filter(move |held| !given.contains(&version(held)))
    }

    /// Returns the uid that an instance has in the spoke; empty where it is not known.
    fn uid_there<'a>(&'a self, held: &'a Held) -> &'a str {
        let uid = meta::uid(&held.object);
        if origin::is_of_spoke(&held.object) {
            return uid;
        }
        let mut ledgers = self.ledgers.iter();
        let ledger = ledgers.find(|ledger| meta::name(ledger) == uid);
        ledger
            .and_then(|ledger| ledger["spec"]["mirrorUID"].as_str())
            .unwrap_or_default()
    }
}

/// Has nobody in the hub run a definition any more.
async fn say_returning(
    engine: &Engine,
    cluster: &LogicalCluster,
    definition: &Value,
) -> Result<(), client::Error> {
    let said = meta::annotation(definition, keys::ANNOTATION_MIGRATION);
    if said == Some(keys::MIGRATION_RETURNING) {
        return Ok(());
    }
    let patch = json!({"metadata": {
        "uid": meta::uid(definition),
        "annotations": {keys::ANNOTATION_MIGRATION: keys::MIGRATION_RETURNING},
    }});
    let endpoint = Engine::hub_endpoint(cluster, &resources::definitions(), "");
    let name = meta::name(definition);
    let patched = engine
        .hub
        .patch(&endpoint, name, None, Patch::Merge(&patch));
    patched.await.map(drop)
}

/// Writes on an instance in the spoke what kro knows it by, and takes off what the hub held it by.
///
/// What was written at the hub's path and did not get into the spoke before the hub stopped to run there goes there now: a spec, or
/// an instance as a whole, of which kro makes the children.
async fn give_instance(
    engine: &Engine,
    target: &Target,
    own: &Own,
    held: &Held,
) -> Result<(), client::Error> {
    let object = &held.object;
    let mut endpoint = there(&held.endpoint.gvr);
    endpoint.namespace.clone_from(&held.endpoint.namespace);
    let live = match target.dynamic.get(&endpoint, meta::name(object)).await {
        Ok(live) => live,
        Err(error) if error.is_not_found() => {
            let was_never_there = own.uid_there(held).is_empty();
            if !was_never_there || meta::is_terminating(object) {
                return Ok(()); // somebody has deleted it: kro has nothing to do with it then
            }
            let created = target.dynamic.create(&endpoint, &as_of_user(object)).await;
            return created.map(drop);
        }
        Err(error) => return Err(error),
    };
    if meta::uid(&live) != own.uid_there(held) {
        return Ok(()); // it only has the name
    }
    let settings = &engine.switches.of(&target.cluster).settings;
    // What kro knew, and what the hub knows: a superset never loses anything.
    let known =
        graph::Inventory::read(&live).unwrap_or_else(|_edited| graph::Inventory::empty(&live));
    let ours =
        graph::Inventory::read(object).unwrap_or_else(|_edited| graph::Inventory::empty(&live));
    let inventory = known.union(&ours);
    let mut labels = without_hub(&live, "labels");
    let of_kro = object["metadata"]["labels"]
        .as_object()
        .into_iter()
        .flatten();
    let of_kro = of_kro.filter(|(key, _)| key.starts_with(kro_keys::PREFIX));
    labels.extend(of_kro.map(|(key, value)| (key.clone(), value.clone())));
    labels.extend(inventory.labels());
    let mut annotations = without_hub(&live, "annotations");
    annotations.extend(inventory.annotations(settings));
    let ours = [keys::FINALIZER_IMPORTED, keys::FINALIZER_MIRROR];
    let mut finalizers: Vec<&str> = meta::finalizers(&live).into_iter().collect();
    finalizers.retain(|name| !ours.contains(name));
    if !finalizers.contains(&kro_keys::FINALIZER) && !meta::is_terminating(&live) {
        finalizers.push(kro_keys::FINALIZER);
    }
    let mut patch = vec![
        json!({"op": "test", "path": "/metadata/uid", "value": meta::uid(&live)}),
        json!({"op": "test", "path": "/metadata/resourceVersion", "value": meta::resource_version(&live)}),
        json!({"op": "add", "path": "/metadata/labels", "value": labels}),
        json!({"op": "add", "path": "/metadata/annotations", "value": annotations}),
        json!({"op": "add", "path": "/metadata/finalizers", "value": finalizers}),
    ];
    if !origin::is_of_spoke(object) && live["spec"] != object["spec"] {
        patch.push(json!({"op": "add", "path": "/spec", "value": object["spec"]}));
    }
    let patch = Value::from(patch);
    let patched = target
        .dynamic
        .patch(&endpoint, meta::name(&live), None, Patch::Json(&patch));
    patched.await.map(drop)
}

/// Takes the hub's label off what a ledger names, in the name in which it was written.
async fn let_children_go(target: &Target, own: &Own, ledger: &Value) -> Result<(), client::Error> {
    let Ok(Inventory { spec, .. }) = Inventory::from_value(ledger) else {
        return Ok(());
    };
    let actor = acting::of_ledger(target, Some(&spec))
        .map_err(|reason| client::Error::Status(Box::new(api::Status::bad_request(reason))))?;
    let dynamic = actor.dynamic(Place::Cluster)?;
    let held = own
        .held
        .iter()
        .find(|held| meta::uid(&held.object) == spec.instance.uid);
    let instance = held.map(|held| own.uid_there(held));
    for member in spec.members.iter().filter(|member| !member.uid.is_empty()) {
        let gvr = api::GroupVersionResource::new(&member.group, &member.version, &member.resource);
        if resources::is_kept_by_hub(&gvr) {
            continue;
        }
        let mut endpoint = there(&gvr);
        endpoint.namespace = (!member.namespace.is_empty()).then(|| member.namespace.clone());
        let patch = releasing(&spec, instance, &member.uid);
        let patched = dynamic
            .patch(&endpoint, &member.name, None, Patch::Merge(&patch))
            .await;
        match patched {
            Ok(_) => {}
            // It is gone, or another object has its name.
            Err(error) if error.is_not_found() || error.is_conflict() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Makes the patch that leaves a child to kro: without the hub's label, and with the uid by which kro knows its instance.
fn releasing(spec: &InventorySpec, instance: Option<&str>, uid: &str) -> Value {
    let mut labels = json!({keys::HUB: null});
    if let Some(instance) = instance.filter(|it| !it.is_empty() && *it != spec.instance.uid) {
        labels[kro_keys::LABEL_INSTANCE_ID] = json!(instance);
    }
    json!({"metadata": {"uid": uid, "labels": labels}})
}

/// Writes a definition and its revisions into the spoke, as kro would have them.
async fn give_definition(
    engine: &Engine,
    target: &Target,
    own: &Own,
    definition: &Value,
) -> Result<(), client::Error> {
    let endpoint = there(&resources::definitions());
    let name = meta::name(definition);
    let live = match target.dynamic.get(&endpoint, name).await {
        Ok(live) => live,
        Err(error) if error.is_not_found() => {
            let mut object = as_of_kro(definition);
            // Until all of it is there: an attempt that was cut off finds it as its own.
            meta::set_annotation(&mut object, keys::ANNOTATION_TAKEN_BY, &engine.hub_id);
            target.dynamic.create(&endpoint, &object).await?
        }
        Err(error) => return Err(error),
    };
    if meta::uid(&live) != meta::uid(definition) && !is_marked(engine, &live) {
        let text = format!("the spoke has another ResourceGraphDefinition {name:?}");
        return Err(client::Error::Status(Box::new(api::Status::bad_request(
            text,
        ))));
    }
    if live["spec"] != definition["spec"] {
        let patch = json!([
            {"op": "test", "path": "/metadata/uid", "value": meta::uid(&live)},
            {"op": "replace", "path": "/spec", "value": definition["spec"]},
        ]);
        target
            .dynamic
            .patch(&endpoint, name, None, Patch::Json(&patch))
            .await?;
    }
    let there_are = list(target, &there(&resources::revisions())).await?;
    let there_are: BTreeSet<&str> = there_are.iter().map(meta::name).collect();
    for revision in own.revisions_of(name) {
        if !there_are.contains(meta::name(revision)) && !meta::is_terminating(revision) {
            give_revision(target, &live, revision).await?;
        }
    }
    let issued = |object: &Value| {
        object["status"]["lastIssuedRevision"]
            .as_i64()
            .unwrap_or_default()
    };
    if issued(&live) < issued(definition) {
        let patch = json!({"status": {"lastIssuedRevision": issued(definition)}});
        let patch = Patch::Merge(&patch);
        target
            .dynamic
            .patch(&endpoint, name, Some("status"), patch)
            .await?;
    }
    Ok(())
}

async fn give_revision(
    target: &Target,
    definition: &Value,
    revision: &Value,
) -> Result<(), client::Error> {
    let endpoint = there(&resources::revisions());
    let mut object = as_of_kro(revision);
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "kro.run/v1alpha1",
        "kind": "ResourceGraphDefinition",
        "name": meta::name(definition),
        "uid": meta::uid(definition),
        "controller": true,
        "blockOwnerDeletion": true,
    }]);
    let name = meta::name(revision);
    match target.dynamic.create(&endpoint, &object).await {
        Ok(_) => {}
        Err(error) if error.is_already_exists() => {}
        Err(error) => return Err(error),
    }
    if revision["status"].is_null() {
        return Ok(());
    }
    let patch = json!({"status": revision["status"]});
    let patched = target
        .dynamic
        .patch(&endpoint, name, Some("status"), Patch::Merge(&patch));
    patched.await.map(drop)
}

/// Makes kro's own object out of one of the hub.
fn as_of_kro(object: &Value) -> Value {
    json!({
        "apiVersion": object["apiVersion"],
        "kind": object["kind"],
        "metadata": {
            "name": meta::name(object),
            "labels": without_hub(object, "labels"),
            "annotations": without_hub(object, "annotations"),
            "finalizers": [kro_keys::FINALIZER],
        },
        "spec": object["spec"],
    })
}

/// Makes the object out of one of the hub that its user would have made in the spoke.
fn as_of_user(object: &Value) -> Value {
    let mut made = as_of_kro(object);
    if let Some(metadata) = made["metadata"].as_object_mut() {
        metadata.remove("finalizers");
        if !meta::namespace(object).is_empty() {
            metadata.insert("namespace".to_owned(), json!(meta::namespace(object)));
        }
    }
    if let Some(labels) = made["metadata"]["labels"].as_object_mut() {
        labels.retain(|key, _| !key.starts_with(kro_keys::PREFIX));
    }
    made
}

/// Takes off definitions in the spoke the word that the hub runs them.
async fn unmark(engine: &Engine, target: &Target) -> Result<(), client::Error> {
    let endpoint = there(&resources::definitions());
    for definition in list(target, &endpoint).await? {
        if !is_marked(engine, &definition) {
            continue;
        }
        let path = format!(
            "/metadata/annotations/{}",
            pointer(keys::ANNOTATION_TAKEN_BY)
        );
        let patch = json!([
            {"op": "test", "path": "/metadata/uid", "value": meta::uid(&definition)},
            {"op": "test", "path": path, "value": engine.hub_id},
            {"op": "remove", "path": path},
        ]);
        let name = meta::name(&definition);
        target
            .dynamic
            .patch(&endpoint, name, None, Patch::Json(&patch))
            .await?;
    }
    Ok(())
}

/// Has clients of the path get a kind from the spoke again.
async fn send_to_spoke(
    engine: &Engine,
    cluster: &LogicalCluster,
    definition: &Value,
) -> Result<(), client::Error> {
    let Ok(spec) = RgdSpec::from_value(&definition["spec"]) else {
        return Ok(());
    };
    let kind = graph::instance_endpoint(&spec).group_resource();
    if !is_local(engine, cluster, &kind) {
        return Ok(());
    }
    let endpoint = Engine::hub_endpoint(cluster, &resources::served_resources(), "");
    let patch = json!({"spec": {"state": ServedState::Importing}});
    let name = kind.to_string();
    match engine
        .hub
        .patch(&endpoint, &name, None, Patch::Merge(&patch))
        .await
    {
        Ok(_) => Ok(()),
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns the labels or annotations that are not the hub's.
fn without_hub(object: &Value, part: &str) -> Map<String, Value> {
    let entries = object["metadata"][part].as_object().into_iter().flatten();
    let entries =
        entries.filter(|(key, _)| !HUB_PREFIXES.iter().any(|prefix| key.starts_with(prefix)));
    entries
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

fn is_marked(engine: &Engine, definition: &Value) -> bool {
    meta::annotation(definition, keys::ANNOTATION_TAKEN_BY) == Some(engine.hub_id.as_str())
}

/// Names an endpoint in the spoke itself, also of kinds that the hub keeps.
fn there(gvr: &api::GroupVersionResource) -> Endpoint {
    Endpoint {
        scope: None,
        gvr: gvr.clone(),
        namespace: None,
    }
}

async fn list(target: &Target, endpoint: &Endpoint) -> Result<Vec<Value>, client::Error> {
    match target.dynamic.list(endpoint, &ListRequest::default()).await {
        Ok(listed) => Ok(listed.items),
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_left_to_kro_under_the_uid_that_kro_knows() {
        let mut spec = InventorySpec::default();
        "hubs".clone_into(&mut spec.instance.uid);
        // (what, the uid of the instance in the spoke, the labels that are written)
        for (name, instance, want) in [
            (
                "made in the spoke",
                Some("hubs"),
                json!({"wheelhouse.dev/hub": null}),
            ),
            (
                "made at the hub's path",
                Some("mirrors"),
                json!({"wheelhouse.dev/hub": null, "kro.run/instance-id": "mirrors"}),
            ),
            ("not known", Some(""), json!({"wheelhouse.dev/hub": null})),
            ("gone", None, json!({"wheelhouse.dev/hub": null})),
        ] {
            let patch = releasing(&spec, instance, "child");
            let want = json!({"metadata": {"uid": "child", "labels": want}});
            assert_eq!(patch, want, "{name}");
        }
    }

    #[test]
    fn kros_own_object_has_nothing_of_the_hub() {
        let object = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": {
            "name": "a", "uid": "u", "resourceVersion": "1000000000000001", "ownerReferences": [{}],
            "labels": {"team": "x", "wheelhouse.dev/hub": "h"},
            "annotations": {"note": "n", "internal.wheelhouse.dev/author": "{}", "wheelhouse.dev/run-as": "a/b"},
        }, "spec": {"resources": []}, "status": {"state": "Active"}});
        let want = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": {
            "name": "a", "labels": {"team": "x"}, "annotations": {"note": "n"}, "finalizers": ["kro.run/finalizer"],
        }, "spec": {"resources": []}});
        assert_eq!(as_of_kro(&object), want);
    }

    #[test]
    fn what_was_written_after_it_was_read_is_given_too() {
        let held = |uid: &str, version: &str| Held {
            endpoint: Endpoint::default(),
            object: json!({"metadata": {"uid": uid, "resourceVersion": version}}),
        };
        let own = |held: Vec<Held>| Own {
            definitions: Vec::new(),
            revisions: Vec::new(),
            held,
            ledgers: Vec::new(),
        };
        let earlier = own(vec![held("a", "1"), held("b", "2"), held("gone", "3")]);
        let last = own(vec![held("a", "1"), held("b", "4"), held("new", "5")]);
        let changed = last.changed_since(&earlier);
        let uids: Vec<&str> = changed.map(|held| meta::uid(&held.object)).collect();
        assert_eq!(uids, ["b", "new"]);
    }

    #[test]
    fn an_instance_that_never_got_there_is_made_as_its_user_made_it() {
        let object = json!({"apiVersion": "kro.run/v1alpha1", "kind": "App", "metadata": {
            "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7", "finalizers": ["kro.run/finalizer"],
            "labels": {"team": "x", "kro.run/owned": "true"}, "annotations": {"internal.wheelhouse.dev/author": "{}"},
        }, "spec": {"x": 1}, "status": {"state": "ACTIVE"}});
        let want = json!({"apiVersion": "kro.run/v1alpha1", "kind": "App", "metadata": {
            "name": "a", "namespace": "n", "labels": {"team": "x"}, "annotations": {},
        }, "spec": {"x": 1}});
        assert_eq!(as_of_user(&object), want);
    }
}
