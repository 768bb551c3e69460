//! The heartbeat of a real spoke: a cheap read every few seconds, and at once when a call failed.
//!
//! It reads what identifies the cluster, so that another one in its place is noticed with the next beat.

use std::{sync::Arc, time::Duration};

use api::{GroupVersionResource, LogicalCluster, inventory};
use client::ListRequest;
use spokes::{IdentityFault, TroubleKind};
use tokio::time::{Instant, timeout};
use tracing::{debug, info, warn};

use crate::{
    engine::Engine,
    resources,
    state::target::{Reach, Target},
};

/// Between two probes: an outage is noticed by a failing call or a lost watch long before, and
/// 1,000 spokes cost 200 cheap reads a second.
const INTERVAL: Duration = Duration::from_secs(5);

/// A spoke that answers and refuses is asked more often, so that what mends it is noticed within a second. One that does not
/// answer is asked when its circuit lets a probe through.
const INTERVAL_AWAY: Duration = Duration::from_secs(1);

/// How long a probe may take. A spoke that answers later than this is of no use to a user.
const PATIENCE: Duration = Duration::from_secs(3);

/// Not more often than this, whatever fails: each failing reconcile asks for a probe.
const PAUSE: Duration = Duration::from_millis(250);

/// Not more often than this, a spoke that answers ends the pauses of what waits for another reason: one that answers probes and
/// breaks off everything else would be asked for everything at the pace of [`PAUSE`].
const WAKE_INTERVAL: Duration = INTERVAL.saturating_sub(PAUSE);

/// Every how many probes an answering spoke is asked for its version, which an upgrade changes.
const VERSION_PROBES: u32 = 12;

/// Every how many probes the Spoke says when the last was answered: 1,000 spokes cost 33 writes a second.
const TOLD_PROBES: u32 = 6;

/// Starts the heartbeat of a target. It ends with the target's token.
pub(super) fn start(engine: &Arc<Engine>, target: &Arc<Target>) {
    let (engine, target) = (Arc::clone(engine), Arc::clone(target));
    let tasks = engine.tasks.clone();
    tasks.spawn("heartbeat", async move {
        let budget = engine.spokes.budget(&target.cluster);
        let mut told = None;
        let mut woken: Option<Instant> = None;
        let mut is_first = true;
        let mut is_due = true;
        for count in 0_u32.. {
            // A look after an outage that is cut short is repeated, too.
            is_due |= count % VERSION_PROBES == 0 || target.reach() != Reach::Reachable;
            let link = target.link();
            let probed = probe(&engine, &target, is_due).await;
            // Requests of users may have opened the circuit before a probe failed: nobody reaches the cluster then, and once
            // it answers, it is back.
            let unheard = || Some(Probed::silent(link?.trouble()?.reason));
            if let Some(probed) = probed.or_else(unheard) {
                let back = note(&engine, &target, probed.outcome.failure(), is_first);
                let is_long_ago = woken.is_none_or(|at| at.elapsed() >= WAKE_INTERVAL);
                if target.reach() == Reach::Reachable && (back || is_long_ago) {
                    target.signals.wake();
                    woken = Some(Instant::now());
                }
                is_first = false;
                is_due &= !probed.has_looked;
            }
            let circuit = link.map(|link| link.circuit());
            let due = count / TOLD_PROBES;
            let now = (
                (target.identity_fault(), budget.met()),
                (target.version(), target.cluster_id()),
                (target.set_back(), target.missing_rights()),
                link.and_then(|it| it.successor_fault()),
                (circuit.map(|it| (it.state, it.since)), due),
            );
            if told.as_ref() != Some(&now) {
                engine.spoke_queue.add(target.cluster.clone());
                told = Some(now);
            }
            let away = link.and_then(|link| link.probe_pause());
            let interval = match (away, target.reach()) {
                (Some(pause), _) => pause.max(PAUSE),
                (None, Reach::Reachable) => INTERVAL,
                (None, Reach::Unreachable(_)) => INTERVAL_AWAY,
            };
            tokio::select! {
                biased;
                () = target.token.cancelled() => return,
                // While it is away, those who fail say nothing new.
                () = target.probe.notified(), if away.is_none() => tokio::time::sleep(PAUSE).await,
                () = budget.met_changed() => tokio::time::sleep(PAUSE).await,
                () = tokio::time::sleep(interval) => {}
            }
        }
    });
}

/// One probe.
struct Probed {
    outcome: Outcome,
    /// Whether what seldom changes was read too. What was cut short is read with the next probe.
    has_looked: bool,
}

impl Probed {
    fn silent(reason: String) -> Self {
        Self {
            outcome: Outcome::Silent(reason),
            has_looked: false,
        }
    }
}

/// What came of one probe.
enum Outcome {
    /// It answered, and is the cluster that its Spoke is for.
    Alive,
    /// It answered something else. Why that does not do.
    Refused(String),
    /// It did not answer. Why.
    Silent(String),
}

impl Outcome {
    fn failure(self) -> Option<(TroubleKind, String)> {
        match self {
            Self::Alive => None,
            Self::Refused(reason) => Some((TroubleKind::Refused, reason)),
            Self::Silent(reason) => Some((TroubleKind::Silent, reason)),
        }
    }
}

/// Asks the spoke which cluster it is. `None` while its circuit is open.
async fn probe(engine: &Engine, target: &Target, is_due: bool) -> Option<Probed> {
    let link = target.link()?;
    let permit = link.admit().ok()?;
    let outcome = match timeout(PATIENCE, ask(engine, target)).await {
        Ok(outcome) => outcome,
        Err(_) => Outcome::Silent(format!("no answer within {PATIENCE:?}")),
    };
    match &outcome {
        Outcome::Alive => drop(permit), // whoever notes that notes it for the link
        Outcome::Refused(_) => link.refused(),
        Outcome::Silent(_) => permit.failed(),
    }
    let mut has_looked = false;
    if is_due && matches!(outcome, Outcome::Alive) {
        // That this takes long does not say that the spoke is away.
        has_looked = timeout(PATIENCE, look_around(target)).await == Ok(true);
        if !has_looked {
            debug!(spoke = %target.cluster, "a spoke is slow to tell its version");
        }
    }
    Some(Probed {
        outcome,
        has_looked,
    })
}

async fn ask(engine: &Engine, target: &Target) -> Outcome {
    let endpoint = target.endpoint(&resources::core("namespaces"), "");
    let namespace = match target.dynamic.get(&endpoint, "kube-system").await {
        Ok(namespace) => namespace,
        Err(error) if error.unreachable() => return Outcome::Silent(error.chain()),
        // It answers, if only to refuse: the credential is wrong, the network is not.
        Err(error) => {
            if error.status().is_some_and(|it| it.code == 401) {
                engine.spokes.reject(&target.cluster);
            }
            let fault = IdentityFault::Unreadable(error.chain());
            let reason = format!("refused: {fault}");
            target.note_identity(Some(fault));
            return Outcome::Refused(reason);
        }
    };
    let uid = api::meta::uid(&namespace);
    let own = match own_holder(engine, target, uid).await {
        Ok(holder) => holder,
        Err(error) => return Outcome::Silent(error.chain()),
    };
    let claimed = match own {
        Some(holder) => Err(IdentityFault::Own {
            uid: uid.to_owned(),
            holder,
        }),
        None => engine.identities.claim(&target.cluster, uid),
    };
    if let Err(fault) = claimed {
        let reason = fault.to_string();
        target.note_identity(Some(fault));
        return Outcome::Refused(reason);
    }
    target.note_identity(None);
    target.note_cluster_uid(uid);
    Outcome::Alive
}

/// Returns which of the hub's own clusters answers as a spoke: root, or an embedded one. Only the version of a hub makes it look,
/// once for each connection: others cost one request.
async fn own_holder(
    engine: &Engine,
    target: &Target,
    uid: &str,
) -> Result<Option<String>, client::Error> {
    if target.cluster_uid().as_deref() == Some(uid) {
        return Ok(None);
    }
    match target.dynamic.raw_get("/version").await {
        Ok(version) if String::from_utf8_lossy(&version).contains(api::wheelhouse::HUB_VERSION) => {
        }
        Err(error) if error.unreachable() => return Err(error),
        Ok(_) | Err(_) => return Ok(None),
    }
    let root = LogicalCluster::root();
    let spokes = Engine::hub_endpoint(&root, &resources::spokes(), "");
    let spokes = engine
        .hub_anywhere
        .list(&spokes, &ListRequest::default())
        .await?;
    let embedded = spokes
        .items
        .iter()
        .filter(|spoke| spoke["spec"]["provider"] == "Embedded");
    let embedded = embedded.filter_map(|spoke| api::meta::name(spoke).parse().ok());
    for own in std::iter::once(root).chain(embedded) {
        let endpoint = Engine::hub_endpoint(&own, &resources::core("namespaces"), "");
        match engine.hub_anywhere.get(&endpoint, "kube-system").await {
            Ok(namespace) if api::meta::uid(&namespace) == uid => return Ok(Some(own.to_string())),
            Ok(_) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Reads what seldom changes. Returns whether all of it was answered.
async fn look_around(target: &Target) -> bool {
    let has_looked = look_back(target).await;
    let has_told = match target.dynamic.raw_get("/version").await {
        Ok(version) => {
            target.note_version(&version);
            true
        }
        Err(error) => !error.unreachable(),
    };
    read_id(target).await;
    let missing = spokes::missing_rights(&target.dynamic).await;
    // What is missing may be granted at any time: it is asked for again with the next probe.
    let is_allowed = missing.is_none();
    target.note_missing_rights(missing);
    has_looked && has_told && is_allowed
}

/// Reads the id that the cluster gives itself, if it does. Source: KEP-2149.
async fn read_id(target: &Target) {
    for version in inventory::PROPERTY_VERSIONS {
        let (group, resource) = (inventory::PROPERTY_GROUP, inventory::PROPERTY_RESOURCE);
        let gvr = GroupVersionResource::new(group, version, resource);
        let endpoint = target.endpoint(&gvr, "");
        match target
            .dynamic
            .get(&endpoint, inventory::PROPERTY_CLUSTER_ID)
            .await
        {
            Ok(property) => {
                let value = property["spec"]["value"].as_str();
                return target.note_cluster_id(value.unwrap_or_default());
            }
            Err(error) if error.is_not_found() => {}
            Err(_) => return, // it may not be read
        }
    }
    target.note_cluster_id("");
}

/// Looks whether the cluster has been set back: its store is at an earlier revision than it was. Returns whether it answered.
async fn look_back(target: &Target) -> bool {
    let uid = target.cluster_uid().unwrap_or_default();
    let endpoint = target.endpoint(&resources::core("namespaces"), "");
    let all = ListRequest::default();
    let page = match target.dynamic.list_page(&endpoint, &all, 1, "").await {
        Ok(page) => page,
        Err(error) => return !error.unreachable(), // it may be read and not listed
    };
    let revision = page.metadata.resource_version;
    if let Some(message) = target.note_revision(&uid, &revision, &Engine::now()) {
        warn!(spoke = %target.cluster, message, "spoke was set back");
        target.signals.relist();
    }
    true
}

/// Notes what came of a probe. Returns whether the spoke is back.
fn note(
    engine: &Arc<Engine>,
    target: &Arc<Target>,
    failure: Option<(TroubleKind, String)>,
    first: bool,
) -> bool {
    let before = target.reach();
    let back = target.note_reach(failure, &Engine::now());
    let after = target.reach();
    let same = std::mem::discriminant(&before) == std::mem::discriminant(&after);
    match &after {
        Reach::Unreachable(trouble) if !same || first => {
            let (reason, kind) = (&trouble.reason, trouble.kind);
            warn!(spoke = %target.cluster, reason, ?kind, "spoke cannot be used");
            target.signals.note_away();
            // Whatever waits for the spoke says so in its status.
            engine.requeue_cluster(&target.cluster);
        }
        _ => {}
    }
    if back {
        // Its store may be an older one.
        target.signals.note_back();
    }
    if back {
        info!(spoke = %target.cluster, "spoke reachable");
        engine.distribution_queue.add(target.cluster.clone());
        engine.reconsider(&target.cluster);
        // A spoke that comes and goes has no more work done than one that stays.
        let delay = target.definitions_delay();
        for key in engine.definitions.keys() {
            engine.definition_queue.add_after(key, delay);
        }
    }
    if !same || first {
        engine.spoke_queue.add(target.cluster.clone());
    }
    back
}
