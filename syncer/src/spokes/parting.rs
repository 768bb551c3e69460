//! The end of a Spoke for which the hub has instances: they are deleted, or forgotten, as the Spoke's annotation says.
//!
//! # Invariants
//!
//! Without the annotation the Spoke waits. It names the Spoke by its uid, so that it is never meant for another one.
//!
//! What the hub forgets without having deleted it is named in root before, in a ConfigMap that stays. An instance that was
//! created in the spoke is never deleted for this: it is released with its children.

use std::{
    collections::{BTreeSet, HashSet},
    fmt::Write as _,
    sync::Arc,
    time::Duration,
};

use api::{
    LogicalCluster,
    kro::keys::FINALIZER,
    meta,
    wheelhouse::{keys, origin},
};
use client::{DeleteRequest, ListRequest, Patch, reflector::RawObject};
use serde_json::{Value, json};
use spokes::{State, Trouble};
use tracing::{info, warn};

use super::left::{self, Held};
use crate::{
    engine::Engine,
    finalizers,
    instances::mirror,
    resources,
    state::{
        keys::text,
        mirrors::{self, Maker},
        shares,
        target::{Reach, Target},
    },
};

/// How much is named of what is left: a ConfigMap holds 1 MiB.
const REMAINS_BYTES_MAX: usize = 512 * 1024;

/// How long a spoke is waited for that may answer: a heartbeat takes less.
const PROBE_PATIENCE: Duration = Duration::from_secs(5);

/// What becomes of instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parting {
    /// Nobody has said.
    Unsaid,
    /// They are deleted, and their children go first.
    Drain,
    /// They are forgotten, and everything stays as it is in the cluster.
    Abandon,
}

// === impl Parting ===

impl Parting {
    /// Reads a Spoke's annotation. An embedded cluster cannot be abandoned: nothing of it is elsewhere.
    pub(super) fn of(spoke: &Value) -> Self {
        let said = meta::annotation(spoke, keys::ANNOTATION_PARTING);
        match said.and_then(|said| said.split_once('/')) {
            Some(("drain", uid)) if uid == meta::uid(spoke) => Self::Drain,
            Some(("abandon", uid)) if uid == meta::uid(spoke) && !is_embedded(spoke) => {
                Self::Abandon
            }
            Some(_) | None => Self::Unsaid,
        }
    }

    /// Words what a Spoke waits for that has so many instances left, and whose cluster may be in trouble. The command line goes on
    /// waiting unless it begins with `waiting`.
    pub(super) fn waits(self, left: usize, spoke: &Value, trouble: Option<&Trouble>) -> String {
        let (state, what) = match self {
            Self::Unsaid if is_embedded(spoke) => {
                ("waiting", "delete them first, or drain the spoke")
            }
            Self::Unsaid => (
                "waiting",
                "delete them first, or drain or abandon the spoke",
            ),
            Self::Drain if is_embedded(spoke) => ("draining", "deleting"),
            Self::Drain => (
                "draining",
                "deleting those that were created at the hub, and letting go of those that were created in the cluster",
            ),
            Self::Abandon => ("abandoning", "forgetting"),
        };
        let cluster = meta::name(spoke);
        let (what, trouble) = match (self, trouble) {
            (Self::Drain, Some(trouble)) => (
                "those that were created at the hub are deleted once it answers; without it, abandon the spoke",
                format!(", which is {trouble}"),
            ),
            _ => (what, String::new()),
        };
        let left = if left == 1 {
            "1 instance is".to_owned()
        } else {
            format!("{left} instances are")
        };
        format!("{state}: {left} left in logical cluster {cluster:?}{trouble}; {what}")
    }

    /// Goes as far with it as it can go now.
    pub(super) async fn step(
        self,
        engine: &Arc<Engine>,
        cluster: &LogicalCluster,
        spoke: &Value,
        state: &State,
    ) -> Result<(), client::Error> {
        match self {
            Self::Unsaid => Ok(()),
            Self::Drain => drain(engine, cluster, spoke).await,
            Self::Abandon => abandon(engine, cluster, spoke, state).await,
        }
    }
}

/// Whether the hub serves the cluster of a Spoke itself.
pub(super) fn is_embedded(spoke: &Value) -> bool {
    spoke["spec"]["provider"] == "Embedded"
}

/// Deletes all instances that were made at the hub's path; once they are gone, releases those that were created in the spoke.
async fn drain(
    engine: &Arc<Engine>,
    cluster: &LogicalCluster,
    spoke: &Value,
) -> Result<(), client::Error> {
    let held = left::instances(engine, cluster).await?;
    let is_of_hub = |held: &&Held| !origin::is_of_spoke(&held.object);
    for Held { endpoint, object } in held.iter().filter(is_of_hub) {
        if !meta::is_terminating(object) {
            let request = DeleteRequest::of(meta::uid(object));
            let deleted = engine.hub.delete(endpoint, meta::name(object), &request);
            settled(deleted.await)?;
        }
    }
    if held.is_empty() || held.iter().any(|held| is_of_hub(&held)) {
        return Ok(());
    }
    let Some(target) = engine
        .fleet
        .get(cluster)
        .filter(|it| it.reach() == Reach::Reachable)
    else {
        return Ok(()); // whoever made them would find them held for ever
    };
    quiesce(engine, cluster).await;
    let ledgers = left::ledgers(engine, cluster).await?;
    name_remains(engine, cluster, spoke, (&held, &ledgers)).await?;
    release(engine, &target, &held, &ledgers).await?;
    forget(engine, cluster, &held, &ledgers).await
}

/// Deletes all instances of an embedded cluster. The hub has them all, and no records of their kinds.
pub(super) async fn drain_embedded(
    engine: &Arc<Engine>,
    cluster: &LogicalCluster,
) -> Result<(), client::Error> {
    for (key, instance) in engine.instances.of_cluster(cluster) {
        let Some(served) = engine.definitions.lookup(cluster, &key.group_kind) else {
            continue; // its definition is gone, and whoever deletes it does so by hand
        };
        if instance.deletion_timestamp.is_some() {
            continue;
        }
        let endpoint = Engine::hub_endpoint(cluster, served.graph.gvr(), &key.namespace);
        let request = DeleteRequest::of(&instance.uid);
        settled(engine.hub.delete(&endpoint, &key.name, &request).await)?;
    }
    Ok(())
}

/// Forgets all instances of a spoke, and names in root what is left there.
async fn abandon(
    engine: &Arc<Engine>,
    cluster: &LogicalCluster,
    spoke: &Value,
    state: &State,
) -> Result<(), client::Error> {
    let target = engine.fleet.get(cluster);
    let may_answer = matches!(state, State::Pending | State::Connected(_));
    if target.is_none() && may_answer {
        return Ok(()); // after a start: whether it answers is known soon
    }
    if let Some(target) = &target {
        // One that does not even take a connection is away.
        drop(tokio::time::timeout(PROBE_PATIENCE, target.probed()).await);
    }
    quiesce(engine, cluster).await;
    let held = left::instances(engine, cluster).await?;
    let ledgers = left::ledgers(engine, cluster).await?;
    if held.is_empty() && ledgers.is_empty() {
        return Ok(());
    }
    name_remains(engine, cluster, spoke, (&held, &ledgers)).await?;
    warn!(spoke = %cluster, count = held.len(), "abandoning the instances of a spoke");
    if let Some(target) = target.filter(|target| target.reach() == Reach::Reachable)
        && let Err(error) = release(engine, &target, &held, &ledgers).await
    {
        warn!(spoke = %cluster, error = error.chain(), "cannot release all objects in a spoke: finalizers stay on them");
    }
    forget(engine, cluster, &held, &ledgers).await
}

/// Ends what runs for a spoke, and waits until nobody works on an instance of it: nothing is made meanwhile that is not known.
pub(super) async fn quiesce(engine: &Engine, cluster: &LogicalCluster) {
    engine.fleet.disconnect(cluster);
    engine.turns.idle(|(of, _)| of == cluster).await;
    engine.mirror_turns.idle(|(of, _)| of == cluster).await;
}

/// Deletes instances and their ledgers on the hub, and nothing else.
pub(super) async fn forget(
    engine: &Arc<Engine>,
    cluster: &LogicalCluster,
    held: &[Held],
    ledgers: &[Value],
) -> Result<(), client::Error> {
    for held in held {
        let Held { endpoint, object } = held;
        let (name, uid) = (meta::name(object), meta::uid(object));
        let request = DeleteRequest::of(uid);
        // Deleted before it is released: a finalizer of somebody else is theirs to take off.
        settled(engine.hub.delete(endpoint, name, &request).await)?;
        let live = match engine.hub.get(endpoint, name).await {
            Ok(live) if meta::uid(&live) == uid => live,
            Ok(_) => continue,
            Err(error) if error.is_not_found() => continue,
            Err(error) => return Err(error),
        };
        finalizers::take_off(&engine.hub, endpoint, &live, FINALIZER).await?;
    }
    let endpoint = Engine::hub_endpoint(cluster, &resources::inventories(), "");
    for ledger in ledgers {
        let request = DeleteRequest::default();
        let deleted = engine.hub.delete(&endpoint, meta::name(ledger), &request);
        settled(deleted.await)?;
    }
    info!(spoke = %cluster, count = held.len(), "forgot the instances of a spoke");
    Ok(())
}

/// Takes the hub's finalizers off what it holds in a spoke. The spoke itself is asked what there is: a cache may not be filled.
async fn release(
    engine: &Engine,
    target: &Target,
    held: &[Held],
    ledgers: &[Value],
) -> Result<(), client::Error> {
    let born = held.iter().filter(|held| origin::is_of_spoke(&held.object));
    let born = born.map(|held| meta::uid(&held.object));
    let mirrors = ledgers
        .iter()
        .map(|ledger| text(ledger, &["spec", "mirrorUID"]));
    let ours: HashSet<&str> = born.chain(mirrors).filter(|uid| !uid.is_empty()).collect();
    for gvr in left::endpoints(engine, &target.cluster).await? {
        let there = target.endpoint(&gvr, "");
        let listed = match target.dynamic.list(&there, &ListRequest::default()).await {
            Ok(listed) => listed.items,
            Err(error) if error.is_not_found() => continue,
            Err(error) => return Err(error),
        };
        for object in &listed {
            let is_ours = ours.contains(meta::uid(object))
                || RawObject::from_value(object)
                    .is_ok_and(|it| mirrors::maker(&it, &engine.hub_id) == Maker::ThisHub);
            if let Some(patch) = mirror::releasing(object).filter(|_| is_ours) {
                let endpoint = target.endpoint(&gvr, meta::namespace(object));
                finalizers::apply(&target.dynamic, &endpoint, object, &patch).await?;
            }
        }
    }
    Ok(())
}

/// Names in root what the hub has made for a spoke's instances, beside what an earlier attempt has named.
async fn name_remains(
    engine: &Engine,
    cluster: &LogicalCluster,
    spoke: &Value,
    (held, ledgers): (&[Held], &[Value]),
) -> Result<(), client::Error> {
    let name = keys::remains_name(cluster.as_str(), meta::uid(spoke));
    let root = LogicalCluster::root();
    let endpoint = Engine::hub_endpoint(
        &root,
        &resources::core("configmaps"),
        keys::RESTORE_NAMESPACE,
    );
    // In root, and in the name of the spoke.
    let hub = shares::in_term_of(&engine.shares, cluster, &engine.hub_anywhere);
    let known = match hub.get(&endpoint, &name).await {
        Ok(known) => Some(known),
        Err(error) if error.is_not_found() => None,
        Err(error) => return Err(error),
    };
    let before = known
        .as_ref()
        .map_or("", |known| text(known, &["data", "objects"]));
    let objects = remains(before, held.iter().map(|it| &it.object), ledgers);
    if known.is_some() {
        let patch = json!({"data": {"objects": objects}});
        let patched = hub.patch(&endpoint, &name, None, Patch::Merge(&patch));
        return patched.await.map(drop);
    }
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": keys::RESTORE_NAMESPACE},
        "data": {
            "spoke": cluster.as_str(),
            "clusterUID": text(spoke, &["status", "clusterUID"]),
            "abandonedAt": Engine::now(),
            "objects": objects,
        },
    });
    hub.create(&endpoint, &object).await.map(drop)
}

/// Names what ledgers name, and the instances that were created in the spoke, a line for each object, beside the lines that there are.
fn remains<'o>(
    before: &str,
    instances: impl Iterator<Item = &'o Value>,
    ledgers: &[Value],
) -> String {
    let mut lines: BTreeSet<String> = before.lines().map(str::to_owned).collect();
    for born in instances.filter(|it| origin::is_of_spoke(it)) {
        let kind = meta::kind(born);
        lines.insert(format!(
            "{kind} {} {}",
            place(&born["metadata"]),
            meta::uid(born)
        ));
    }
    for ledger in ledgers {
        let spec = &ledger["spec"];
        let owner = format!(
            "{} {}",
            text(spec, &["instance", "kind"]),
            place(&spec["instance"])
        );
        let mirror = text(spec, &["mirrorUID"]);
        if !mirror.is_empty() {
            lines.insert(format!("{owner} {mirror}"));
        }
        let members = spec["members"].as_array().into_iter().flatten();
        for member in members {
            let (kind, uid) = (text(member, &["kind"]), text(member, &["uid"]));
            lines.insert(format!("{kind} {} {uid} of {owner}", place(member)));
        }
    }
    let mut text = String::new();
    let mut left_out = 0_usize;
    for line in lines {
        if text.len() + line.len() < REMAINS_BYTES_MAX {
            text.push_str(&line);
            text.push('\n');
        } else {
            left_out += 1;
        }
    }
    if left_out > 0 {
        // Writing to a String cannot fail.
        let _infallible = writeln!(text, "and {left_out} more");
    }
    text
}

fn place(reference: &Value) -> String {
    let (namespace, name) = (text(reference, &["namespace"]), text(reference, &["name"]));
    if namespace.is_empty() {
        name.to_owned()
    } else {
        format!("{namespace}/{name}")
    }
}

/// What is gone already needs nothing.
fn settled<T>(answer: Result<T, client::Error>) -> Result<(), client::Error> {
    match answer {
        Ok(_) => Ok(()),
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_part_only_as_the_annotation_of_this_very_spoke_says() {
        for (said, want) in [
            (None, Parting::Unsaid),
            (Some("abandon"), Parting::Unsaid),
            (Some("abandon/other"), Parting::Unsaid),
            (Some("abandon/u"), Parting::Abandon),
            (Some("drain/u"), Parting::Drain),
            (Some("destroy/u"), Parting::Unsaid),
        ] {
            let mut spoke = json!({"metadata": {"name": "east", "uid": "u"}});
            if let Some(said) = said {
                meta::set_annotation(&mut spoke, keys::ANNOTATION_PARTING, said);
            }
            assert_eq!(Parting::of(&spoke), want, "{said:?}");
            spoke["spec"] = json!({"provider": "Embedded"});
            let want = match want {
                Parting::Abandon => Parting::Unsaid,
                want => want,
            };
            assert_eq!(Parting::of(&spoke), want, "embedded, {said:?}");
        }
    }

    #[test]
    fn remains_name_every_object_of_every_ledger_once() {
        let ledger = json!({"spec": {"instance": {"kind": "App", "namespace": "n", "name": "a"}, "mirrorUID": "m",
        "members": [
            {"kind": "ConfigMap", "namespace": "n", "name": "c", "uid": "u1"},
            {"kind": "ClusterRole", "name": "r", "uid": ""},
        ]}});
        let want = "App n/a m\nClusterRole r  of App n/a\nConfigMap n/c u1 of App n/a\n";
        let none = std::iter::empty::<&Value>;
        let once = remains("", none(), std::slice::from_ref(&ledger));
        assert_eq!(once, want);
        assert_eq!(remains(&once, none(), &[ledger]), want, "twice");
        assert_eq!(
            remains(&once, none(), &[]),
            want,
            "what an earlier attempt named stays"
        );
        let mut instance = json!({"kind": "App", "metadata": {"name": "b", "uid": "u2"}});
        assert_eq!(
            remains("", std::iter::once(&instance), &[]),
            "",
            "its mirror is in the ledger"
        );
        meta::set_annotation(&mut instance, keys::ANNOTATION_ORIGIN, keys::ORIGIN_SPOKE);
        assert_eq!(remains("", std::iter::once(&instance), &[]), "App b u2\n");
    }
}
