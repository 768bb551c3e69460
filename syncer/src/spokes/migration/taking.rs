//! Definitions of a spoke become the hub's, with all that belongs to them.
//!
//! # Invariants
//!
//! Nothing is deleted, and nothing is made in the spoke. A definition is marked as not all there until its revisions, its status and the
//! ledgers of its instances are, and nobody runs it before: a hub that is killed at any point goes on where it was.
//!
//! Nothing that the spoke says gives rights: keys of the hub are left out of what is copied, and the author is the one of the plan.

use std::{collections::BTreeSet, sync::Arc};

use api::{
    kro::{RgdSpec, keys as kro_keys},
    meta,
    wheelhouse::{
        InstanceReference, Inventory, InventoryMember, InventorySpec, author::User, keys, origin,
    },
};
use client::{DeleteRequest, Patch};
use serde_json::{Map, Value, json};
use tracing::info;

use super::{
    found::{Definition, Found},
    plan::{self, Place},
};
use crate::{
    definitions::claims,
    engine::Engine,
    resources,
    spokes::left,
    state::{
        keys::{InstanceKey, text},
        kinds::Progress,
        served::{DefinitionKey, Served},
        target::Target,
    },
};

/// Keys that only the hub writes, or by which users steer it: what stands in the spoke under them is nobody's word.
pub(super) const HUB_PREFIXES: &[&str] =
    &["wheelhouse.dev/", "internal.wheelhouse.dev/", "kcp.io/"];

/// Takes over what the hub does not have yet. Returns what is still waited for.
pub(super) async fn step(
    engine: &Arc<Engine>,
    target: &Arc<Target>,
    found: &Found,
    author: &User,
) -> Result<Vec<String>, client::Error> {
    let mut waiting = Vec::new();
    for definition in &found.definitions {
        match plan::place_of(engine, target, definition).await? {
            Ok(Place::Gone) => continue,
            Ok(Place::Spoke | Place::Hub) => {
                let taken = take(engine, target, found, definition, author).await;
                if let Err(error) = taken {
                    if error.status().is_none() {
                        return Err(error);
                    }
                    // One that is refused holds up no other.
                    waiting.push(format!(
                        "ResourceGraphDefinition {:?}: {error}",
                        definition.name
                    ));
                    continue;
                }
            }
            Err(reason) => {
                waiting.push(format!(
                    "ResourceGraphDefinition {:?}: {reason}",
                    definition.name
                ));
                continue;
            }
        }
        waiting.extend(unsettled(engine, target, definition));
    }
    if waiting.is_empty() {
        sweep(engine, target, found).await?;
    }
    Ok(waiting)
}

/// Forgets ledgers of instances that were gone from the spoke before the hub took them up: nothing else would.
async fn sweep(engine: &Arc<Engine>, target: &Target, found: &Found) -> Result<(), client::Error> {
    let served = |kind: &str, group: &str| {
        let of_kind = found
            .definitions
            .iter()
            .filter(|it| it.kind() == format!("{kind}.{group}"));
        of_kind
            .filter_map(|it| serving(engine, target, it))
            .any(|served| matches!(target.kinds.of(&served), Some(Progress::Served)))
    };
    // The ledgers first: each instance was there before its ledger, unless it was taken over.
    let ledgers = left::ledgers(engine, &target.cluster).await?;
    let held = left::instances(engine, &target.cluster).await?;
    let held: BTreeSet<&str> = held.iter().map(|held| meta::uid(&held.object)).collect();
    let endpoint = Engine::hub_endpoint(&target.cluster, &resources::inventories(), "");
    for ledger in &ledgers {
        let of = &ledger["spec"]["instance"];
        if held.contains(meta::name(ledger)) || !served(text(of, &["kind"]), text(of, &["group"])) {
            continue;
        }
        let request = DeleteRequest::of(meta::uid(ledger));
        match engine
            .hub
            .delete(&endpoint, meta::name(ledger), &request)
            .await
        {
            Ok(_) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns what the hub serves for a definition.
fn serving(engine: &Engine, target: &Target, definition: &Definition) -> Option<Arc<Served>> {
    engine.definitions.served(&DefinitionKey {
        cluster: target.cluster.clone(),
        name: definition.name.clone(),
    })
}

async fn take(
    engine: &Engine,
    target: &Target,
    found: &Found,
    definition: &Definition,
    author: &User,
) -> Result<(), client::Error> {
    let endpoint = Engine::hub_endpoint(&target.cluster, &resources::definitions(), "");
    let name = &definition.name;
    let known = match engine.hub.get(&endpoint, name).await {
        Ok(known) => known,
        Err(error) if error.is_not_found() => {
            let object = copy(&definition.object, author, keys::MIGRATION_TAKING);
            engine.hub.create(&endpoint, &object).await?
        }
        Err(error) => return Err(error),
    };
    if meta::annotation(&known, keys::ANNOTATION_MIGRATION) != Some(keys::MIGRATION_TAKING) {
        return Ok(()); // all of it was taken before
    }
    for revision in definition
        .revisions
        .iter()
        .filter(|it| !meta::is_terminating(it))
    {
        take_revision(engine, target, definition, revision, author).await?;
    }
    let issued = &definition.object["status"]["lastIssuedRevision"];
    if !issued.is_null() && known["status"]["lastIssuedRevision"] != *issued {
        let patch =
            json!([{"op": "add", "path": "/status", "value": {"lastIssuedRevision": issued}}]);
        let patch = Patch::Json(&patch);
        engine
            .hub
            .patch(&endpoint, name, Some("status"), patch)
            .await?;
    }
    for instance in &definition.instances {
        write_ledger(engine, target, found, instance, author).await?;
    }
    claim(engine, target, definition).await?;
    mark(engine, target, definition).await?;
    let path = format!(
        "/metadata/annotations/{}",
        pointer(keys::ANNOTATION_MIGRATION)
    );
    let patch = json!([
        {"op": "test", "path": "/metadata/uid", "value": definition.uid},
        {"op": "test", "path": path, "value": keys::MIGRATION_TAKING},
        {"op": "replace", "path": path, "value": keys::MIGRATION_TAKEN},
    ]);
    engine
        .hub
        .patch(&endpoint, name, None, Patch::Json(&patch))
        .await?;
    info!(cluster = %target.cluster, name, "took a definition over from kro");
    Ok(())
}

/// Records that a definition holds the kind of its latest revision: that one is served although the definition itself is refused by now.
async fn claim(
    engine: &Engine,
    target: &Target,
    definition: &Definition,
) -> Result<(), client::Error> {
    let mut revisions = definition.revisions.iter().rev();
    let spec = revisions.find_map(|it| RgdSpec::from_value(&it["spec"]["snapshot"]["spec"]).ok());
    let Some(spec) = spec else {
        return Ok(()); // nothing was ever served of it
    };
    let key = DefinitionKey {
        cluster: target.cluster.clone(),
        name: definition.name.clone(),
    };
    let kind = graph::instance_endpoint(&spec).group_resource();
    let standing = claims::stand(engine, &key, &definition.uid, &kind).await;
    standing.map(drop)
}

async fn take_revision(
    engine: &Engine,
    target: &Target,
    definition: &Definition,
    revision: &Value,
    author: &User,
) -> Result<(), client::Error> {
    let endpoint = Engine::hub_endpoint(&target.cluster, &resources::revisions(), "");
    let mut object = copy(revision, author, keys::MIGRATION_TAKEN);
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "kro.run/v1alpha1",
        "kind": "ResourceGraphDefinition",
        "name": definition.name,
        "uid": definition.uid,
        "controller": true,
    }]);
    // kro holds a revision for a registry that the hub does not have.
    drop(
        object["metadata"]
            .as_object_mut()
            .map(|it| it.remove("finalizers")),
    );
    let known = match engine.hub.create(&endpoint, &object).await {
        Ok(created) => created,
        Err(error) if error.is_already_exists() => {
            engine.hub.get(&endpoint, meta::name(revision)).await?
        }
        Err(error) => return Err(error),
    };
    if !known["status"].is_null() || revision["status"].is_null() {
        return Ok(());
    }
    let patch = json!([{"op": "add", "path": "/status", "value": revision["status"]}]);
    let name = meta::name(revision);
    let patched = engine
        .hub
        .patch(&endpoint, name, Some("status"), Patch::Json(&patch));
    patched.await.map(drop)
}

/// Makes the hub's copy of a definition or a revision, under the uid that it has in the spoke.
fn copy(live: &Value, author: &User, state: &str) -> Value {
    let kept = |part: &str| -> Map<String, Value> {
        let entries = live["metadata"][part].as_object().into_iter().flatten();
        let is_kept = |key: &str| {
            let foreign = HUB_PREFIXES.iter().chain(origin::TRACKING_PREFIXES);
            !foreign.clone().any(|prefix| key.starts_with(prefix))
                && key != kro_keys::ANNOTATION_DISTRIBUTE
        };
        let entries = entries.filter(|(key, _)| is_kept(key));
        entries
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    let mut annotations = kept("annotations");
    annotations.insert(
        keys::ANNOTATION_AUTHOR.to_owned(),
        plan::author_text(author),
    );
    annotations.insert(keys::ANNOTATION_MIGRATION.to_owned(), json!(state));
    json!({
        "apiVersion": live["apiVersion"],
        "kind": live["kind"],
        "metadata": {
            "name": meta::name(live),
            "uid": meta::uid(live),
            "labels": kept("labels"),
            "annotations": annotations,
            "finalizers": [kro_keys::FINALIZER],
        },
        "spec": live["spec"],
    })
}

/// Names in a ledger what kro's inventory names, before the hub knows the instance: what goes with the instance, or is not wanted any
/// more, is found in it.
async fn write_ledger(
    engine: &Engine,
    target: &Target,
    found: &Found,
    instance: &Value,
    author: &User,
) -> Result<(), client::Error> {
    let members: Vec<InventoryMember> = found
        .children_of(instance)
        .map(|child| InventoryMember {
            group: child.gvk.group.clone(),
            version: child.gvk.version.clone(),
            kind: child.gvk.kind.clone(),
            resource: child.gvr.resource.clone(),
            namespace: meta::namespace(&child.object).to_owned(),
            name: meta::name(&child.object).to_owned(),
            uid: meta::uid(&child.object).to_owned(),
            node: meta::label(&child.object, kro_keys::LABEL_NODE_ID)
                .unwrap_or_default()
                .to_owned(),
            order: meta::annotation(&child.object, kro_keys::ANNOTATION_APPLY_ORDER)
                .and_then(|order| order.parse().ok())
                .unwrap_or_default(),
            applied: String::new(),
        })
        .collect();
    if members.is_empty() {
        return Ok(());
    }
    let (group, version) = meta::api_version(instance)
        .rsplit_once('/')
        .unwrap_or(("", meta::api_version(instance)));
    let spec = InventorySpec {
        instance: InstanceReference {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: meta::kind(instance).to_owned(),
            namespace: meta::namespace(instance).to_owned(),
            name: meta::name(instance).to_owned(),
            uid: meta::uid(instance).to_owned(),
        },
        settled_count: u32::try_from(members.len()).ok(),
        acting_as: Some(author.clone()),
        members,
        ..InventorySpec::default()
    };
    let endpoint = Engine::hub_endpoint(&target.cluster, &resources::inventories(), "");
    match engine
        .hub
        .create(&endpoint, &Inventory::new(spec).to_value())
        .await
    {
        Ok(_) => Ok(()),
        // Of an earlier attempt; or the hub has the instance, and knows better.
        Err(error) if error.is_already_exists() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Says in the spoke who runs a definition from now on.
async fn mark(
    engine: &Engine,
    target: &Target,
    definition: &Definition,
) -> Result<(), client::Error> {
    let patch = json!({"metadata": {
        "uid": definition.uid,
        "annotations": {keys::ANNOTATION_TAKEN_BY: engine.hub_id},
    }});
    let endpoint = target.endpoint_at(
        crate::state::actors::Place::Cluster,
        &resources::definitions(),
        "",
    );
    let patched = target
        .dynamic
        .patch(&endpoint, &definition.name, None, Patch::Merge(&patch));
    patched.await.map(drop)
}

/// Says what is missing until the hub runs a definition with all its instances.
fn unsettled(engine: &Engine, target: &Target, definition: &Definition) -> Option<String> {
    let about = format!("ResourceGraphDefinition {:?}", definition.name);
    let Some(served) = serving(engine, target, definition) else {
        let is_active = definition.state() == kro_keys::RGD_STATE_ACTIVE;
        return is_active.then(|| format!("{about} is not served yet"));
    };
    match target.kinds.of(&served) {
        Some(Progress::Served) => {}
        Some(Progress::Importing(what) | Progress::Failed(what) | Progress::Refused(what)) => {
            return Some(format!("{about}: {what}"));
        }
        Some(Progress::Pending) | None => return Some(format!("{about}: waiting for its CRD")),
    }
    let kind = served.graph.group_kind();
    let missing = definition.instances.iter().filter(|instance| {
        let key = InstanceKey {
            group_kind: kind.clone(),
            namespace: meta::namespace(instance).to_owned(),
            name: meta::name(instance).to_owned(),
        };
        !meta::is_terminating(instance) && engine.instances.get(&target.cluster, &key).is_none()
    });
    let count = missing.count();
    (count > 0).then(|| format!("{about}: {count} instances are not taken up yet"))
}

/// Escapes a key for a JSON pointer.
pub(super) fn pointer(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_the_spoke_says_steers_the_hub() {
        let live = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": {
            "name": "a", "uid": "u", "resourceVersion": "5", "generation": 7, "managedFields": [{}],
            "labels": {"team": "x", "kro.run/owned": "true", "wheelhouse.dev/hub": "theirs"},
            "annotations": {
                "kro.run/allow-breaking-changes": "true", "kro.run/distribute": "false",
                "wheelhouse.dev/run-as": "kube-system/admin", "wheelhouse.dev/adopt": "true",
                "wheelhouse.dev/owner-references": "true", "wheelhouse.dev/spokes": "a=b",
                "internal.wheelhouse.dev/author": "{\"hub\":true}", "internal.wheelhouse.dev/migration": "returning",
                "argocd.argoproj.io/tracking-id": "theirs",
            },
            "finalizers": ["theirs"], "ownerReferences": [{"name": "theirs"}],
        }, "spec": {"schema": {"kind": "A"}}, "status": {"state": "Active"}});
        let author = User {
            username: "system:serviceaccount:kro-system:kro".to_owned(),
            known_only_in: "east".to_owned(),
            ..User::default()
        };
        let want = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": {
            "name": "a", "uid": "u", "labels": {"team": "x", "kro.run/owned": "true"},
            "annotations": {
                "kro.run/allow-breaking-changes": "true",
                keys::ANNOTATION_AUTHOR: plan::author_text(&author),
                keys::ANNOTATION_MIGRATION: "taking",
            },
            "finalizers": ["kro.run/finalizer"],
        }, "spec": {"schema": {"kind": "A"}}});
        assert_eq!(copy(&live, &author, keys::MIGRATION_TAKING), want);
    }
}
