//! Puts the generated CRDs into every target, and lets the hub serve the kind there.
//!
//! # Invariants
//!
//! A CRD that is not ours is never taken over. The hub begins to serve a kind at a spoke's path
//! only once the CRD there is ours and Established and the hub has taken up the objects of it that
//! were there. A CRD that vanished from a spoke is put back.
//!
//! What becomes of a definition in one target says nothing of another: a definition waits for its home, and a moment for
//! others that are at work on it; what fails there, or takes longer, is told at that target alone.
//!
//! Source: kro `pkg/client/crd`, KREP-013b for the spokes.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use api::{
    GroupKind, GroupResource, LogicalCluster, crd::CustomResourceDefinition, kro::keys,
    wheelhouse::ServedState,
};
use client::{Answer, DeleteRequest, Force, ListRequest, Patch, reflector::Event};
use graph::Ownership;
use serde_json::{Value, json};
use spokes::Trouble;
use tokio::time::Instant;
use tracing::{Instrument as _, debug, debug_span, info, warn};

use super::{elsewhere, wanted::is_as_wanted};
use crate::{
    engine::Engine,
    instances::{self, imported},
    resources,
    spans::{self, traced_span},
    state::{
        admission::Source,
        children, claims,
        keys::text,
        kinds::{AWAIT_MAX, Progress, Wanted},
        served::{DefinitionKey, Served},
        target::{Reach, Target, TargetSort},
    },
};

/// The wait after a failure, which the heartbeat shortens when the spoke comes back.
const RETRY_DELAY: Duration = Duration::from_secs(2);

/// The wait until a kind that was refused is tried again. What refuses it, a CRD that somebody else made for example, is
/// not labelled as ours, so that no watch tells when it goes.
const REFUSED_DELAY: Duration = Duration::from_secs(10);

/// The wait until it is looked again how far a kind is in a spoke of another process, of which nothing tells.
const ELSEWHERE_DELAY: Duration = Duration::from_millis(300);

/// Lets a breaking change of a CRD through. Source: kro.
const ALLOW_BREAKING: &str = keys::ANNOTATION_ALLOW_BREAKING_CHANGES;

/// How far a definition is over all targets that can be reached.
#[derive(Debug)]
pub(crate) enum Spread {
    /// Served in each.
    Everywhere,
    /// Not yet in these, which are waited for that long.
    Waiting(Vec<String>, Duration),
    /// Its home does not answer, and it is not known how far it is there. Who looks after the home's CRDs once it answers
    /// has the definition looked at again.
    Away(Trouble),
    /// Refused in root, or in the only cluster that it is for.
    Refused(String),
}

/// How a definition is in one target, as far as the definition is concerned.
#[derive(Debug)]
enum Standing {
    /// Nothing that it waits for: served, or the target's own trouble, which is told there.
    Settled,
    /// It waits for the target, that long.
    Awaited(Duration),
    /// Its home does not answer, and nothing is known of it there.
    Away(Trouble),
    /// Its home refuses it.
    Refused(String),
}

/// Brings a definition's CRD to its home at once, and tells how far it is elsewhere.
pub(crate) async fn spread(engine: &Arc<Engine>, served: &Arc<Served>) -> Spread {
    let (mut waiting, mut refused, mut away) = (Vec::new(), None, None);
    let mut delay = AWAIT_MAX;
    for target in engine.fleet.all() {
        match standing(engine, &target, served).await {
            Standing::Settled => {}
            Standing::Awaited(left) => {
                waiting.push(target.cluster.to_string());
                delay = delay.min(left);
            }
            Standing::Away(trouble) => away = Some(trouble),
            Standing::Refused(reason) => refused = Some(reason),
        }
    }
    let elsewhere = elsewhere::waiting(engine, served).await;
    if !elsewhere.is_empty()
        && let Some(left) = engine.root.kinds.awaits(served, Instant::now())
    {
        waiting.extend(elsewhere);
        delay = delay.min(left).min(ELSEWHERE_DELAY);
    }
    match (refused, away) {
        (Some(reason), _) => Spread::Refused(reason),
        (None, Some(trouble)) => Spread::Away(trouble),
        (None, None) if waiting.is_empty() => Spread::Everywhere,
        (None, None) => Spread::Waiting(waiting, delay),
    }
}

async fn standing(engine: &Arc<Engine>, target: &Arc<Target>, served: &Arc<Served>) -> Standing {
    if !engine.definitions.is_served_in(target, &served.key) {
        return Standing::Settled;
    }
    let (known, reach) = (target.kinds.of(served), target.reach());
    if target.cluster == served.key.cluster {
        if let Some(standing) = remembered(known, reach) {
            return standing;
        }
        let progress = ensure_and_note(engine, target, served).await;
        return match progress {
            Progress::Served => Standing::Settled,
            Progress::Refused(reason) => Standing::Refused(reason),
            Progress::Pending | Progress::Importing(_) | Progress::Failed(_) => {
                Standing::Awaited(AWAIT_MAX)
            }
        };
    }
    match known {
        _ if reach != Reach::Reachable => Standing::Settled,
        Some(Progress::Served | Progress::Refused(_) | Progress::Failed(_)) => Standing::Settled,
        Some(Progress::Pending | Progress::Importing(_)) | None => target
            .kinds
            .awaits(served, Instant::now())
            .map_or(Standing::Settled, Standing::Awaited),
    }
}

/// Returns how a definition is in its home as far as that is known without a look; `None` where it can be looked at.
fn remembered(known: Option<Progress>, reach: Reach) -> Option<Standing> {
    match (known, reach) {
        (Some(Progress::Served), _) => Some(Standing::Settled),
        (_, Reach::Reachable) => None,
        (Some(Progress::Refused(reason)), Reach::Unreachable(_)) => Some(Standing::Refused(reason)),
        (_, Reach::Unreachable(trouble)) => Some(Standing::Away(trouble)),
    }
}

/// Starts the worker that looks after the CRDs of targets.
pub(crate) fn start(engine: &Arc<Engine>) {
    let worker = Arc::clone(engine);
    let token = engine.tasks.child_token();
    engine.tasks.spawn("distribution-worker", async move {
        while let Some(cluster) = worker.distribution_queue.next_until(&token).await {
            // Each target in a task of its own: one that hangs holds nobody else back.
            let (engine, done) = (Arc::clone(&worker), Arc::clone(&worker.distribution_queue));
            worker.tasks.spawn("distribution", async move {
                let span = debug_span!("reconcile", controller = "distribution", key = %cluster);
                let traced = spans::sampled(
                    String::new,
                    || traced_span!(controller = "distribution", key = %cluster),
                );
                let work = look_after(&engine, &cluster).instrument(traced);
                work.instrument(span).await;
                done.done(&cluster);
            });
        }
    });
}

/// Starts the watch of our CRDs in a target: one that vanishes or is edited is put back.
pub(crate) fn watch(engine: &Arc<Engine>, target: &Arc<Target>) {
    let source = target.source(&resources::crds(), Some(children::owned()));
    let mut events = target.follow(source, target.token.clone());
    let (engine, target) = (Arc::clone(engine), Arc::clone(target));
    let tasks = engine.tasks.clone();
    tasks.spawn("definitions-in-target", async move {
        while let Some(event) = events.recv().await {
            match event {
                Event::Restarted { .. } => target.kinds.expire(),
                Event::Applied(crd) | Event::Deleted(crd) => target.kinds.expire_one(&crd.name),
                Event::Interrupted(_) | Event::Resumed => continue,
            }
            engine.distribution_queue.add(target.cluster.clone());
        }
    });
}

/// Starts the watches of what a spoke's admission is configured by: a kind that it concerns is tried there before it is written.
pub(crate) fn watch_admission(engine: &Arc<Engine>, target: &Arc<Target>) {
    for source in Source::ALL {
        let mut events = target.follow(target.source(&source.gvr(), None), target.token.clone());
        let (engine, target) = (Arc::clone(engine), Arc::clone(target));
        let tasks = engine.tasks.clone();
        tasks.spawn("admission-in-target", async move {
            while let Some(event) = events.recv().await {
                if target.admission.take(source, &event) {
                    target.kinds.expire();
                    engine.distribution_queue.add(target.cluster.clone());
                }
            }
        });
    }
}

async fn look_after(engine: &Arc<Engine>, cluster: &LogicalCluster) {
    let Some(target) = engine.fleet.get(cluster) else {
        return;
    };
    if target.reach() != Reach::Reachable {
        return; // the heartbeat adds it again
    }
    let mut moved = target.kinds.note_kept_out(kept_out(engine, &target));
    let wanted = engine.definitions.served_in(&target);
    for served in &wanted {
        if !target.kinds.is_current(served) {
            let before = target.kinds.of(served);
            if before != Some(ensure_and_note(engine, &target, served).await) {
                moved = true;
                engine.definition_queue.add(served.key.clone());
            }
            if matches!(target.kinds.of(served), Some(Progress::Refused(_))) {
                engine
                    .distribution_queue
                    .add_after(cluster.clone(), REFUSED_DELAY);
            }
        }
    }
    if let Err(error) = retire(engine, &target).await {
        if error.is_routine() {
            debug!(cluster = %cluster, error = %error, "cannot retire a kind yet");
        } else {
            warn!(cluster = %cluster, error = %error, "cannot retire a kind");
        }
        engine
            .distribution_queue
            .retry_after(cluster.clone(), RETRY_DELAY);
    }
    if moved {
        engine.note_census(cluster);
    }
}

/// Returns which definitions of root wait at a target, and for whom.
fn kept_out(engine: &Engine, target: &Target) -> BTreeMap<GroupKind, String> {
    if !engine.definitions.claims.has_holders(&target.cluster) {
        return BTreeMap::new();
    }
    let meant = engine.definitions.meant_for(target).into_iter();
    meant
        .filter_map(|served| {
            let holder = engine.definitions.kept_out(target, &served)?;
            let reason = format!(
                "ResourceGraphDefinition {:?} of root waits: {:?} of this cluster held the kind first",
                served.key.name, holder.name
            );
            Some((served.graph.group_kind().clone(), reason))
        })
        .collect()
}

async fn ensure_and_note(
    engine: &Arc<Engine>,
    target: &Arc<Target>,
    served: &Arc<Served>,
) -> Progress {
    // One CRD of a target after the other, and none of what was served before: another worker may have brought a later one.
    let _turn = target.defining.lock().await;
    if !engine.definitions.is_served(served) {
        return Progress::Pending;
    }
    let mut ours = None;
    let change_count = target.kinds.change_count();
    let before = target.kinds.of(served);
    let progress = match ensure(engine, target, served, &mut ours).await {
        Ok(progress) => progress,
        Err(error) if error.is_invalid() => Progress::Refused(error.to_string()),
        Err(error) => {
            let reason = error.chain();
            let (cluster, name) = (&target.cluster, served.key.name.as_str());
            if error.is_routine() {
                debug!(%cluster, name, error = reason, "cannot apply a CRD yet");
            } else {
                warn!(%cluster, name, error = reason, "cannot apply a CRD");
            }
            target.probe.notify_one();
            engine
                .distribution_queue
                .retry_after(target.cluster.clone(), RETRY_DELAY);
            Progress::Failed(reason)
        }
    };
    if target.kinds.note(served, &progress, ours, change_count) && target.kinds.are_ours(served) {
        if progress == Progress::Served {
            info!(cluster = %target.cluster, kind = %served.graph.group_kind(), "kind is served");
        }
        engine.reconsider(&target.cluster);
        for key in engine.definitions.unresolved(&target.cluster) {
            engine.definition_queue.add(key);
        }
    }
    // From now on each of them is tried until it is there.
    let is_importing = |progress: &Progress| matches!(progress, Progress::Importing(_));
    if is_importing(&progress) && !before.as_ref().is_some_and(is_importing) {
        for key in imported::left(engine, target, served) {
            target.queue.add(key);
        }
    }
    progress
}

async fn ensure(
    engine: &Arc<Engine>,
    target: &Arc<Target>,
    served: &Arc<Served>,
    ours: &mut Option<bool>,
) -> Result<Progress, client::Error> {
    let endpoint = target.endpoint(&resources::crds(), "");
    let wanted = definition_in(engine, target, served);
    let name = api::meta::name(&wanted).to_owned();
    let live = match target.dynamic.get(&endpoint, &name).await {
        Ok(live) => Some(live),
        Err(error) if error.is_not_found() => None,
        Err(error) => return Err(error),
    };
    let is_there = live
        .as_ref()
        .is_some_and(|live| is_as_wanted(live, &wanted));
    if let Some(live) = &live {
        match whose(engine, target, live, served) {
            Err(reason) => {
                *ours = Some(false);
                return Ok(Progress::Refused(reason));
            }
            Ok(Ownership::Own) => *ours = Some(true),
            // Not before its schema is this definition's.
            Ok(_) => {}
        }
        if !is_there && let Some(reason) = refusal(engine, live, served) {
            return Ok(Progress::Refused(reason));
        }
    }
    let live = match live {
        Some(live) if is_there => live,
        live => {
            // Nothing but what was looked at: a CRD that another made meanwhile is not taken over.
            let object = match &live {
                None => claims::create_only(&wanted),
                Some(live) => claims::update_only(&wanted, api::meta::uid(live)),
            };
            let patch = Patch::Apply {
                manager: api::wheelhouse::keys::MANAGER_SYNCER,
                force: Force::Yes,
                object: &object,
                answer: Answer::Object,
            };
            target.dynamic.patch(&endpoint, &name, None, patch).await?
        }
    };
    *ours = Some(true);
    if !established(&live) {
        return Ok(Progress::Pending); // the watch of CRDs brings us back
    }
    if target.sort == TargetSort::Mirrored {
        return serve_mirrored(engine, target, served, &wanted).await;
    }
    Ok(Progress::Served)
}

/// Returns a definition's CRD as it is to be in a target, which may have a version of kro to be named of its own.
fn definition_in(engine: &Engine, target: &Target, served: &Served) -> Value {
    let mut definition = served.definition.to_value();
    let version = &engine.switches.of(&target.cluster).settings.kro_version;
    definition["metadata"]["labels"][keys::LABEL_KRO_VERSION] = json!(version);
    definition
}

/// Lets the hub serve a kind in the place of a spoke, once the hub has all that is there of it.
async fn serve_mirrored(
    engine: &Arc<Engine>,
    target: &Arc<Target>,
    served: &Arc<Served>,
    definition: &Value,
) -> Result<Progress, client::Error> {
    let state = shadow(engine, target, served, definition, None).await?;
    instances::watch_mirrors(engine, target, served);
    let resource = served.graph.gvr().group_resource();
    if state == ServedState::Serving {
        target.note_kept(resource);
        return Ok(Progress::Served);
    }
    let kind = served.graph.group_kind();
    if !target.mirrors.is_synced(kind) || !engine.instances.knows(served.graph.gvr()) {
        let what = "waiting to know what is in the spoke".to_owned();
        return Ok(Progress::Importing(what));
    }
    let left = imported::left(engine, target, served).len();
    if left > 0 {
        let mut what = format!("{left} objects that were made in the spoke are being taken up");
        if let Some(trouble) = target.kinds.import_trouble(served) {
            what = format!("{what}; {trouble}");
        }
        return Ok(Progress::Importing(what));
    }
    shadow(
        engine,
        target,
        served,
        definition,
        Some(ServedState::Serving),
    )
    .await?;
    target.note_kept(resource);
    Ok(Progress::Served)
}

/// Returns the owner of a live CRD, as far as it may be taken.
///
/// # Errors
/// Why it is somebody else's. What a local definition that is gone has left does not keep one of root out.
fn whose(
    engine: &Engine,
    target: &Target,
    live: &Value,
    served: &Served,
) -> Result<Ownership, String> {
    let typed = CustomResourceDefinition::from_value(live)
        .map_err(|_status| "the CRD that is there cannot be read".to_owned())?;
    let ownership = graph::ownership(&typed, &served.owner);
    if let Ownership::Other(name) = &ownership
        && served.key.cluster.is_root()
        && !target.cluster.is_root()
        && engine.definitions.listed()
    {
        let is_there = |cluster: &LogicalCluster| {
            let key = DefinitionKey {
                cluster: cluster.clone(),
                name: name.clone(),
            };
            engine.definitions.known(&key).is_some()
        };
        if !is_there(&target.cluster) && !is_there(&LogicalCluster::root()) {
            return Ok(Ownership::Adopted);
        }
    }
    match ownership.refusal(api::meta::name(live)) {
        Some(reason) => Err(reason),
        None => Ok(ownership),
    }
}

/// Returns why a live CRD that is ours is not to be changed.
fn refusal(engine: &Engine, live: &Value, served: &Served) -> Option<String> {
    let Ok(typed) = CustomResourceDefinition::from_value(live) else {
        return Some("the CRD that is there cannot be read".to_owned());
    };
    let name = api::meta::name(live);
    let allowed = engine.definitions.known(&served.key).is_some_and(|known| {
        known
            .annotations
            .get(ALLOW_BREAKING)
            .is_some_and(|v| v == "true")
    });
    if allowed {
        return None;
    }
    match graph::compatibility::compare(&typed, &served.definition) {
        Ok(report) => report.refusal(name),
        Err(reason) => Some(reason),
    }
}

fn established(live: &Value) -> bool {
    let conditions = live["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    conditions
        .into_iter()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}

/// Records on the hub that it serves this kind at the spoke's path: a new record only to take up what is there, a known one in the state
/// that it has, unless another one is wanted. Returns the state.
async fn shadow(
    engine: &Engine,
    target: &Target,
    served: &Served,
    definition: &Value,
    wanted: Option<ServedState>,
) -> Result<ServedState, client::Error> {
    let endpoint = Engine::hub_endpoint(&target.cluster, &resources::served_resources(), "");
    let gvr = served.graph.gvr();
    let name = format!("{}.{}", gvr.resource, gvr.group);
    let known = match engine.hub.get(&endpoint, &name).await {
        Ok(known) => Some(known),
        Err(error) if error.is_not_found() => None,
        Err(error) => return Err(error),
    };
    let state = wanted.unwrap_or_else(|| match &known {
        Some(known) if known["spec"]["state"] != "Importing" => ServedState::Serving,
        Some(_) | None => ServedState::Importing,
    });
    // What is not known yet is as it was.
    let judged = target.admission.judges(&gvr.group_resource());
    let judged = judged.unwrap_or_else(|| {
        let known = known.as_ref().map(|known| &known["spec"]["judged"]);
        known.and_then(Value::as_bool).unwrap_or_default()
    });
    let mut record = json!({
        "apiVersion": endpoint.gvr.group_version().to_string(),
        "kind": api::wheelhouse::SERVED_RESOURCE_KIND,
        "metadata": {"name": name, "labels": {keys::LABEL_RGD_NAME: served.key.name}},
        "spec": {"crd": definition["spec"], "state": state},
    });
    if judged {
        record["spec"]["judged"] = json!(true);
    }
    match known {
        Some(known)
            if known["spec"] == record["spec"] && definition_of(&known) == served.key.name => {}
        Some(known) => {
            // The kind may have been another definition's.
            let mut labels = known["metadata"]["labels"].clone();
            labels[keys::LABEL_RGD_NAME] = json!(served.key.name);
            let patch = json!([
                {"op": "add", "path": "/spec", "value": record["spec"]},
                {"op": "add", "path": "/metadata/labels", "value": labels},
            ]);
            engine
                .hub
                .patch(&endpoint, &name, None, Patch::Json(&patch))
                .await?;
        }
        None => {
            // Before: one that is made although nobody heard of it is there, too.
            target.kinds.note_record(&name);
            engine.hub.create(&endpoint, &record).await?;
        }
    }
    Ok(state)
}

/// Returns the resources whose instances the hub stores in the place of a spoke, as its records say.
pub(crate) async fn kept(
    engine: &Engine,
    cluster: &LogicalCluster,
) -> Result<HashSet<GroupResource>, client::Error> {
    let endpoint = Engine::hub_endpoint(cluster, &resources::served_resources(), "");
    let listed = engine.hub.list(&endpoint, &ListRequest::default()).await?;
    let serving = listed
        .items
        .iter()
        .filter(|record| record["spec"]["state"] != "Importing");
    Ok(serving.map(resource_of).collect())
}

/// Returns the name of the definition that a record is for.
fn definition_of(record: &Value) -> &str {
    api::meta::label(record, keys::LABEL_RGD_NAME).unwrap_or_default()
}

fn resource_of(record: &Value) -> GroupResource {
    let crd = &record["spec"]["crd"];
    GroupResource {
        group: text(crd, &["group"]).to_owned(),
        resource: text(crd, &["names", "plural"]).to_owned(),
    }
}

/// Ends the hub's service of kinds that no definition gives any more and that have no objects.
async fn retire(engine: &Engine, target: &Target) -> Result<(), client::Error> {
    if target.sort != TargetSort::Mirrored {
        return Ok(());
    }
    if !engine.definitions.listed() || !engine.instances.synced() {
        return Ok(()); // what nobody seems to want may not be known yet
    }
    // A definition that takes up a kind from now on writes its record afterwards.
    let _turn = target.defining.lock().await;
    let served = engine.definitions.served_in(target);
    let name_of = |served: &Arc<Served>| served.graph.gvr().group_resource().to_string();
    // A definition that is deleted leaves its CRD and its instances, and so their service.
    let mut defined = engine.definitions.keys();
    defined.retain(|key| key.cluster.is_root() || key.cluster == target.cluster);
    let wanted = Wanted {
        records: served.iter().map(name_of).collect(),
        definitions: defined.into_iter().map(|key| key.name).collect(),
    };
    let Some(wanted) = target.kinds.may_retire(wanted) else {
        return Ok(());
    };
    target.kinds.note_retired(None);
    let mut are_settled = true;
    let endpoint = Engine::hub_endpoint(&target.cluster, &resources::served_resources(), "");
    let listed = engine.hub.list(&endpoint, &ListRequest::default()).await?;
    for record in &listed.items {
        let is_wanted = wanted.records.contains(api::meta::name(record));
        if is_wanted || wanted.definitions.contains(definition_of(record)) {
            continue;
        }
        let group_kind = GroupKind {
            group: text(record, &["spec", "crd", "group"]).to_owned(),
            kind: text(record, &["spec", "crd", "names", "kind"]).to_owned(),
        };
        let instances = engine.instances.of_kind(&group_kind);
        let is_used = instances
            .iter()
            .any(|(cluster, _)| *cluster == target.cluster);
        if is_used {
            are_settled = false; // until its last instance is gone
        } else {
            end_service(engine, target, record, &group_kind).await?;
        }
    }
    if are_settled {
        target.kinds.note_retired(Some(wanted));
    }
    Ok(())
}

/// Ends the hub's service of a kind in the place of a spoke.
async fn end_service(
    engine: &Engine,
    target: &Target,
    record: &Value,
    group_kind: &GroupKind,
) -> Result<(), client::Error> {
    // Forgotten first: what the path shows once the record is gone is the spoke's.
    let resource = resource_of(record);
    target.forget_kept(&resource);
    let endpoint = Engine::hub_endpoint(&target.cluster, &resources::served_resources(), "");
    let request = DeleteRequest::of(api::meta::uid(record));
    let name = api::meta::name(record);
    match engine.hub.delete(&endpoint, name, &request).await {
        Ok(_) => {}
        Err(error) if error.is_not_found() => {}
        Err(error) => {
            target.note_kept(resource);
            return Err(error);
        }
    }
    target.mirrors.deregister(group_kind);
    Ok(())
}

#[cfg(test)]
mod tests;
