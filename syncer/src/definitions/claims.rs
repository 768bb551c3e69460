//! Who holds a kind: one stored record for each kind and logical cluster.
//!
//! A definition is served only once the hub has recorded that it holds its kind, in a KindClaim of its own cluster, which
//! the hub alone can write. The record is made when the definition is first accepted and goes with it, so who holds a
//! kind does not depend on the order in which definitions are reconciled, nor on anything that a tenant can write.
//!
//! - Root's definitions hold their kinds against each other; nothing below root is in their way.
//! - A local definition is refused a kind that a definition of root has for its cluster, unless it held it first. Then it goes
//!   on, in its cluster alone, and root's waits there until the owner of the local one decides.
//! - Of two local ones in one cluster, the first holds.
//!
//! # Invariants
//! - Nothing is decided before all records have been read.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use api::{GroupResource, LogicalCluster};
use client::{
    DeleteRequest, Endpoint, ListRequest, Patch,
    reflector::{self, Event, RawObject},
};
use serde_json::{Value, json};
use tracing::{debug, warn};

use crate::{
    engine::Engine,
    instances, resources,
    state::{
        keys::{cluster_of, text},
        kind_claims::{Holder, Standing},
        served::{DefinitionKey, Reaching},
    },
};

/// The wait after a failure of the hub itself, which is rare and passes.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Reads the records of one logical cluster anew, as the process that has written them last left them.
pub(crate) async fn reload(engine: &Engine, cluster: &LogicalCluster) -> Result<(), client::Error> {
    let endpoint = Engine::hub_endpoint(cluster, &resources::kind_claims(), "");
    let listed = engine.hub.list(&endpoint, &ListRequest::default()).await?;
    let held = listed.items.iter().map(of_record);
    engine.definitions.claims.replace(cluster, held.collect());
    Ok(())
}

/// Follows the records that other processes write.
pub(crate) fn follow(engine: &Arc<Engine>) {
    let source = engine.everywhere(&resources::kind_claims());
    let mut events = reflector::start(source, &engine.tasks, engine.tasks.child_token());
    let engine = Arc::clone(engine);
    let tasks = engine.tasks.clone();
    tasks.spawn("kind-claims", async move {
        while let Some(event) = events.recv().await {
            take(&engine, event);
        }
    });
}

fn take(engine: &Engine, event: Event) {
    let claims = &engine.definitions.claims;
    let note = |object: &RawObject, is_there: bool| {
        let cluster = cluster_of(object)?;
        if engine.shares.hold(&cluster) {
            return None; // what this process has written itself is newer
        }
        let (kind, holder) = of_record(&object.value().ok()?);
        let key = DefinitionKey {
            cluster,
            name: holder.name.clone(),
        };
        if is_there {
            claims.put(&key.cluster, kind.clone(), holder);
        } else if claims.record(&key.cluster, &kind) == Some(holder) {
            claims.remove(&key.cluster, &kind);
        }
        engine.definition_queue.add(key.clone());
        changed_hands(engine, &key, &kind);
        Some(key.cluster)
    };
    match event {
        Event::Restarted { objects, .. } => {
            let seen: BTreeSet<(LogicalCluster, GroupResource)> = objects
                .iter()
                .filter_map(|it| Some((cluster_of(it)?, of_record(&it.value().ok()?).0)))
                .collect();
            for (cluster, kind) in claims.all() {
                let is_gone = !seen.contains(&(cluster.clone(), kind.clone()));
                if is_gone && !engine.shares.hold(&cluster) {
                    claims.remove(&cluster, &kind);
                }
            }
            for object in objects {
                note(&object, true);
            }
        }
        Event::Applied(object) => drop(note(&object, true)),
        Event::Deleted(object) => drop(note(&object, false)),
        Event::Interrupted(reason) => debug!(reason, "watch of kind claims interrupted"),
        Event::Resumed => {}
    }
}

/// Reads a record: the kind, and who holds it.
fn of_record(record: &Value) -> (GroupResource, Holder) {
    let kind = GroupResource::new(
        text(record, &["spec", "group"]),
        text(record, &["spec", "resource"]),
    );
    let holder = Holder {
        name: text(record, &["spec", "definition", "name"]).to_owned(),
        uid: text(record, &["spec", "definition", "uid"]).to_owned(),
    };
    (kind, holder)
}

/// Reads all records; until that has succeeded nobody asks. Claims of definitions that are gone are let go.
pub(crate) async fn load(engine: &Engine) {
    let everywhere = Endpoint {
        scope: Some(api::ClusterScope::All),
        gvr: resources::kind_claims(),
        namespace: None,
    };
    let listed = loop {
        match engine.hub.list(&everywhere, &ListRequest::default()).await {
            Ok(listed) => break listed,
            Err(error) => {
                warn!(error = %error, "cannot read which definitions hold which kinds");
                tokio::time::sleep(RETRY_DELAY).await;
            }
        }
    };
    for record in &listed.items {
        let annotations = &record["metadata"]["annotations"];
        let cluster = text(annotations, &[api::cluster::ANNOTATION]).parse::<LogicalCluster>();
        let Ok(cluster) = cluster else { continue };
        let (kind, holder) = of_record(record);
        engine.definition_queue.add(DefinitionKey {
            cluster: cluster.clone(),
            name: holder.name.clone(),
        });
        engine.definitions.claims.put(&cluster, kind, holder);
    }
}

/// Finds out how a definition that compiles stands with its kind, and records that it holds it if nobody else does.
pub(crate) async fn stand(
    engine: &Engine,
    key: &DefinitionKey,
    uid: &str,
    kind: &GroupResource,
) -> Result<Standing, client::Error> {
    let standing = foresee(engine, key, kind).await?;
    engine.definitions.claims.note(key, &standing);
    if !matches!(standing, Standing::Refused(_)) {
        record(engine, key, uid, kind).await?;
    }
    Ok(standing)
}

/// Finds out how a definition would stand with a kind, and records nothing.
pub(crate) async fn foresee(
    engine: &Engine,
    key: &DefinitionKey,
    kind: &GroupResource,
) -> Result<Standing, client::Error> {
    let holder = engine.definitions.claims.holder(&key.cluster, kind);
    Ok(
        match holder.filter(|holder| is_there(engine, holder, kind)) {
            Some(holder) if holder != *key => Standing::Refused(holder),
            held => {
                let held = held.is_some();
                match of_root(engine, key, kind).await? {
                    Some(root) if held => Standing::HoldsAgainst(root),
                    Some(root) => Standing::Refused(root),
                    None => Standing::Holds,
                }
            }
        },
    )
}

/// Lets go what a definition holds, but for one kind, and has everyone who is concerned looked at.
pub(crate) async fn release(
    engine: &Engine,
    key: &DefinitionKey,
    but: Option<&GroupResource>,
) -> Result<(), client::Error> {
    let claims = &engine.definitions.claims;
    for kind in claims.held_by(key) {
        if but == Some(&kind) {
            continue;
        }
        let endpoint = Engine::hub_endpoint(&key.cluster, &resources::kind_claims(), "");
        let request = DeleteRequest::default();
        match engine
            .hub
            .delete(&endpoint, &kind.to_string(), &request)
            .await
        {
            Ok(_) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
        claims.remove(&key.cluster, &kind);
        changed_hands(engine, key, &kind);
    }
    if but.is_none() {
        claims.forget(key);
    }
    Ok(())
}

/// Has everyone looked at whom it concerns that a kind is served by another definition, or by none.
pub(crate) fn changed_hands(engine: &Engine, key: &DefinitionKey, kind: &GroupResource) {
    let claims = &engine.definitions.claims;
    let mut concerned = claims.concerned(&key.cluster, Some(kind));
    concerned.extend(claims.holder(&LogicalCluster::root(), kind));
    concerned.remove(key);
    for other in concerned {
        engine.definition_queue.add(other);
    }
    look_after_targets(engine, key);
    instances::count_anew(engine, kind);
}

/// Has the CRDs of every target looked after that a definition can reach.
pub(crate) fn look_after_targets(engine: &Engine, key: &DefinitionKey) {
    for target in engine.fleet.all() {
        if key.cluster.is_root() || key.cluster == target.cluster {
            engine.distribution_queue.add(target.cluster.clone());
        }
    }
}

/// Whether a holder is the definition that was recorded, and not one that has gone since.
fn is_there(engine: &Engine, holder: &DefinitionKey, kind: &GroupResource) -> bool {
    let Some(known) = engine.definitions.known(holder) else {
        return false;
    };
    let recorded = engine.definitions.claims.record(&holder.cluster, kind);
    recorded.is_some_and(|recorded| recorded.uid == known.uid)
}

/// The definition of root that has a kind for the cluster of a local one.
async fn of_root(
    engine: &Engine,
    key: &DefinitionKey,
    kind: &GroupResource,
) -> Result<Option<DefinitionKey>, client::Error> {
    if key.cluster.is_root() {
        return Ok(None);
    }
    let holder = engine
        .definitions
        .claims
        .holder(&LogicalCluster::root(), kind);
    let Some(holder) = holder.filter(|holder| is_there(engine, holder, kind)) else {
        return Ok(None);
    };
    let Some(known) = engine.definitions.known(&holder) else {
        return Ok(None);
    };
    // The Spoke as it is stored: after a start its labels may not have been seen yet.
    let endpoint = Engine::hub_endpoint(&LogicalCluster::root(), &resources::spokes(), "");
    let spoke = match engine.hub.get(&endpoint, key.cluster.as_str()).await {
        Ok(spoke) => spoke,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error),
    };
    let labels: BTreeMap<String, String> =
        serde_json::from_value(spoke["metadata"]["labels"].clone()).unwrap_or_default();
    let reach = Reaching::of(&known.annotations, &known.labels);
    // One whose selector cannot be read is for nobody until it is mended; its kind is nobody else's meanwhile.
    Ok(reach
        .map_or(true, |reach| reach.selects(&labels))
        .then_some(holder))
}

async fn record(
    engine: &Engine,
    key: &DefinitionKey,
    uid: &str,
    kind: &GroupResource,
) -> Result<(), client::Error> {
    let holder = Holder {
        name: key.name.clone(),
        uid: uid.to_owned(),
    };
    let claims = &engine.definitions.claims;
    if claims.record(&key.cluster, kind).as_ref() == Some(&holder) {
        return Ok(());
    }
    let endpoint = Engine::hub_endpoint(&key.cluster, &resources::kind_claims(), "");
    let name = kind.to_string();
    let spec = json!({
        "group": kind.group, "resource": kind.resource,
        "definition": {"name": key.name, "uid": uid},
    });
    let claim: Value = json!({
        "apiVersion": endpoint.gvr.group_version().to_string(),
        "kind": api::wheelhouse::KIND_CLAIM_KIND,
        "metadata": {"name": name},
        "spec": spec,
    });
    match engine.hub.create(&endpoint, &claim).await {
        Ok(_) => {}
        // Of a definition that is gone, or of a former one of this name.
        Err(error) if error.is_already_exists() => {
            let patch = json!([{"op": "replace", "path": "/spec", "value": spec}]);
            let patch = Patch::Json(&patch);
            engine.hub.patch(&endpoint, &name, None, patch).await?;
        }
        Err(error) => return Err(error),
    }
    claims.put(&key.cluster, kind.clone(), holder);
    changed_hands(engine, key, kind);
    Ok(())
}
