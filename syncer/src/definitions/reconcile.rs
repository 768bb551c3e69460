//! One definition: compile, record, publish, say so.
//!
//! # Invariants
//!
//! A definition that does not compile never stops instances: the last good revision goes on being
//! served, and the conditions say so (kro stops them). A revision's number is never used twice.
//!
//! Source: kro `pkg/controller/resourcegraphdefinition`.

use std::{collections::BTreeMap, sync::Arc};

use api::GroupKind;
use api::kro::{ResourceGraphDefinition, RgdSpec};
use api::wheelhouse::keys::{ANNOTATION_MIGRATION, MIGRATION_RETURNING, MIGRATION_TAKING};
use client::Patch;
use graph::{
    CompiledGraph, Owner,
    conditions::{ConditionSet, DEFINITION, Mark},
    definition_conditions as marks,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::{
    claims,
    distribution::{self, Spread},
    leaving::Leaving,
    resolving,
    revisions::{self, Keep, Revision},
};
use crate::{
    acting,
    engine::Engine,
    finalizers, instances, resources,
    state::{
        actors::Grant,
        definitions::CompiledFrom,
        kind_claims::Standing,
        served::{DefinitionKey, Reaching, Served},
    },
    told,
};

/// The wait after a failure of the hub itself, which is rare and passes.
const RETRY_DELAY: std::time::Duration = std::time::Duration::from_secs(1);

/// The wait before it is looked again whether a definition's author may act.
const RIGHTS_DELAY: std::time::Duration = std::time::Duration::from_secs(10);

/// The longest wait before a definition is looked at again that names a kind which its cluster does not serve. Kinds that
/// the hub serves name it at once; of others no watch tells.
const UNRESOLVED_DELAY_MAX: std::time::Duration = std::time::Duration::from_mins(1);

/// What came of compiling.
enum Compiled {
    Graph(Arc<CompiledGraph>),
    Refused(String),
    /// It names a kind that its cluster does not serve.
    Unresolved(String),
    /// A cluster could not be asked for its schemas.
    Unknown(String),
}

/// Reconciles a definition; a failure is tried again.
pub(crate) async fn run(engine: &Arc<Engine>, key: &DefinitionKey) {
    if let Err(error) = step(engine, key).await {
        let (cluster, name) = (&key.cluster, key.name.as_str());
        if error.is_routine() {
            debug!(%cluster, name, error = %error, "cannot reconcile a definition yet");
        } else {
            warn!(%cluster, name, error = %error, "cannot reconcile a definition");
        }
        engine
            .definition_queue
            .retry_after(key.clone(), RETRY_DELAY);
    }
}

async fn step(engine: &Arc<Engine>, key: &DefinitionKey) -> Result<(), client::Error> {
    let endpoint = Engine::hub_endpoint(&key.cluster, &resources::definitions(), "");
    let Some(known) = engine.definitions.known(key) else {
        withdraw(engine, key);
        claims::release(engine, key, None).await?;
        // Only now can the CRD that it leaves be another's.
        claims::look_after_targets(engine, key);
        return Ok(());
    };
    // The watch says that it changed; the read says how, after our own writes too.
    let mut object = match engine.hub.get(&endpoint, &known.name).await {
        Ok(object) => object,
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return Err(error),
    };
    let revisions = revisions::list(engine, key).await?;
    if is_moving(&object) {
        return leave(engine, key, &object, &revisions).await;
    }
    if api::meta::deletion_timestamp(&object).is_some() {
        return end(engine, key, &object, &revisions).await;
    }
    if !api::meta::has_finalizer(&object, api::kro::keys::FINALIZER) {
        let patch = finalizers::add(&object, api::kro::keys::FINALIZER);
        let patch = Patch::Json(&patch);
        object = engine.hub.patch(&endpoint, &key.name, None, patch).await?;
    }
    revisions::adopt(engine, key, &object, &revisions).await?;
    let now = Engine::now();
    let mut set = ConditionSet::open(&DEFINITION, &object, &now);
    let definition = match revisions::typed(&object) {
        Ok(definition) => definition,
        Err(error) => {
            set.mark(marks::graph_refused(&error.to_string()));
            return write_status(engine, key, &object, &set, Told::AsBefore).await;
        }
    };
    let home = engine.fleet.get(&key.cluster);
    let Some(home) = home else {
        set.mark(marks::kind_unready("the logical cluster is not connected"));
        return write_status(engine, key, &object, &set, Told::AsBefore).await;
    };
    let fetched = resolving::fetch(engine, key, &definition.spec, &home).await;
    let compiled = compile(engine, (&object, &definition), key, &fetched);
    retry_unresolved(engine, key, &compiled);
    match compiled {
        Compiled::Graph(graph) => {
            let subject = Subject {
                key,
                object: &object,
                revisions: &revisions,
                fetched: &fetched,
            };
            accept(engine, &subject, &graph, set).await
        }
        Compiled::Refused(reason) | Compiled::Unresolved(reason) => {
            set.mark(marks::graph_refused(&reason));
            if let Some(latest) = revisions::latest(&revisions) {
                set.mark(marks::revision_resolved(latest.number));
            }
            serve_last_good(engine, key, &object, &revisions, &fetched).await;
            write_status(engine, key, &object, &set, Told::Nothing).await
        }
        Compiled::Unknown(reason) => {
            set.mark(Mark::waits("GraphAccepted", "SchemasUnavailable", reason));
            serve_last_good(engine, key, &object, &revisions, &fetched).await;
            write_status(engine, key, &object, &set, Told::AsBefore).await?;
            engine.definition_queue.add_after(key.clone(), RETRY_DELAY);
            Ok(())
        }
    }
}

/// Goes as far with the deletion of a definition as it can go now.
async fn end(
    engine: &Arc<Engine>,
    key: &DefinitionKey,
    object: &Value,
    revisions: &[Revision],
) -> Result<(), client::Error> {
    let leaving = Leaving::of(engine, key, object);
    if let Some(reason) = leaving.waits(engine).await? {
        // Its instances are looked after to their end, also after a restart.
        if let (Ok(definition), Some(home)) =
            (revisions::typed(object), engine.fleet.get(&key.cluster))
        {
            let fetched = resolving::fetch(engine, key, &definition.spec, &home).await;
            serve_last_good(engine, key, object, revisions, &fetched).await;
        }
        let mut set = ConditionSet::open(&DEFINITION, object, &Engine::now());
        set.mark(Mark::waits("KindReady", "InstancesLeft", reason));
        engine.definition_queue.add_after(key.clone(), RETRY_DELAY);
        return write_status(engine, key, object, &set, Told::AsBefore).await;
    }
    withdraw(engine, key);
    leaving.delete(engine).await?;
    revisions::collect(engine, key, revisions, Keep::None).await?;
    claims::release(engine, key, None).await?;
    release(engine, key, object).await?;
    engine.metrics.of(&key.cluster).definition_deleted();
    Ok(())
}

/// Whether a definition is between a kro and the hub: neither runs it.
fn is_moving(object: &Value) -> bool {
    let said = api::meta::annotation(object, ANNOTATION_MIGRATION);
    said.is_some_and(|said| said == MIGRATION_TAKING || said == MIGRATION_RETURNING)
}

/// Leaves alone what another runs, or will run: its CRD and its instances stay, and if the definition is deleted it goes alone.
async fn leave(
    engine: &Engine,
    key: &DefinitionKey,
    object: &Value,
    revisions: &[Revision],
) -> Result<(), client::Error> {
    withdraw(engine, key);
    if api::meta::deletion_timestamp(object).is_none() {
        return Ok(());
    }
    revisions::collect(engine, key, revisions, Keep::None).await?;
    claims::release(engine, key, None).await?;
    release(engine, key, object).await
}

/// A definition, and what was read for it.
#[derive(Clone, Copy)]
struct Subject<'a> {
    key: &'a DefinitionKey,
    object: &'a Value,
    revisions: &'a [Revision],
    fetched: &'a resolving::Fetched,
}

/// Goes on with a definition that compiles: it is recorded and served if it holds its kind.
async fn accept(
    engine: &Arc<Engine>,
    subject: &Subject<'_>,
    graph: &Arc<CompiledGraph>,
    mut set: ConditionSet,
) -> Result<(), client::Error> {
    let Subject { key, object, .. } = *subject;
    set.mark(marks::graph_accepted());
    let kind = graph.gvr().group_resource();
    let standing = claims::stand(engine, key, api::meta::uid(object), &kind).await?;
    if let Standing::Refused(holder) = &standing {
        // Nothing is recorded of it: what was refused is not what is served after a restart.
        set.mark(marks::kind_unready(&refusal(key, holder, graph)));
        serve_last_good(engine, key, object, subject.revisions, subject.fetched).await;
        return write_status(engine, key, object, &set, Told::AsBefore).await;
    }
    let graph = &recorded(engine, subject, graph);
    let (number, unverified) = record(engine, key, object, graph, subject.revisions).await?;
    set.mark(marks::revision_resolved(number));
    let verified = async {
        match &unverified {
            Some(revision) => revisions::tell_verified(engine, key, revision, graph).await,
            None => Ok(()),
        }
    };
    let serve = serve(engine, subject, (graph, number), &standing, &mut set);
    // Neither needs the other.
    let (verified, ()) = tokio::join!(verified, serve);
    verified?;
    claims::release(engine, key, Some(&kind)).await?;
    write_status(engine, key, object, &set, Told::Graph(graph, number)).await?;
    // With what was recorded just now.
    if !revisions::may_exceed(engine, key, subject.revisions.len() + 1) {
        return Ok(());
    }
    let revisions = revisions::list(engine, key).await?;
    revisions::collect(engine, key, &revisions, Keep::Newest).await
}

/// Compiles a definition, unless it was compiled from the same before: it is reconciled several times until it is served.
fn compile(
    engine: &Engine,
    (object, definition): (&Value, &ResourceGraphDefinition),
    key: &DefinitionKey,
    fetched: &resolving::Fetched,
) -> Compiled {
    let options = engine.switches.of(&key.cluster).settings.compile;
    let from = compiled_from(object, key, &options, fetched);
    if let Some(graph) = engine.definitions.compiled(key, from) {
        return Compiled::Graph(graph);
    }
    let begun = Instant::now();
    let compiled = fetched
        .compile(|schemas| graph::compile_with(&definition.spec, &key.name, schemas, &options));
    let (cluster, took) = (&key.cluster, begun.elapsed());
    engine.metrics.built(cluster, took, compiled.is_err());
    match compiled {
        Ok((graph, view)) => {
            engine.definitions.note_view(key, view);
            engine
                .definitions
                .note_compiled(key, from, Arc::clone(&graph));
            Compiled::Graph(graph)
        }
        Err(error) if error.is_transient() => Compiled::Unknown(error.to_string()),
        Err(error) if error.is_unresolved() => Compiled::Unresolved(error.to_string()),
        Err(error) => Compiled::Refused(error.to_string()),
    }
}

fn compiled_from(
    object: &Value,
    key: &DefinitionKey,
    options: &graph::CompileOptions,
    fetched: &resolving::Fetched,
) -> CompiledFrom {
    let mut digest = Sha256::new();
    let said = format!("{}\n{options:?}\n{}\n", key.name, object["spec"]);
    digest.update(said);
    fetched.digest(&mut digest);
    CompiledFrom(digest.finalize().into())
}

/// Arranges that a definition is looked at again which names a kind that its cluster does not serve, later each time. kro
/// tries every refused definition again; others than these would be refused with the same words.
fn retry_unresolved(engine: &Engine, key: &DefinitionKey, compiled: &Compiled) {
    let Compiled::Unresolved(_) = compiled else {
        engine.definitions.note_resolved(key);
        return;
    };
    let attempt = engine.definitions.note_unresolved(key);
    let factor = 1_u32.checked_shl(attempt - 1).unwrap_or(u32::MAX);
    let delay = (RETRY_DELAY * factor).min(UNRESOLVED_DELAY_MAX);
    engine.definition_queue.add_after(key.clone(), delay);
}

/// Returns the graph as its latest revision has it: a definition that says the same in another order goes on as it was recorded.
/// Not below root where another user wrote that revision: equal hashes can be made, and the graph runs with the rights of who
/// wrote the definition last.
fn recorded(
    engine: &Engine,
    subject: &Subject<'_>,
    graph: &Arc<CompiledGraph>,
) -> Arc<CompiledGraph> {
    let author = api::meta::annotation(subject.object, api::wheelhouse::keys::ANNOTATION_AUTHOR);
    let is_own = |it: &&Revision| subject.key.cluster.is_root() || it.author.as_deref() == author;
    let latest = revisions::latest(subject.revisions).filter(is_own);
    let latest = latest.and_then(|it| it.spec.as_ref());
    let now = RgdSpec::from_value(&subject.object["spec"]).ok();
    let same = latest
        .filter(|spec| graph::spec_hash(spec) == graph.spec_hash() && now.as_ref() != Some(*spec));
    let options = engine.switches.of(&subject.key.cluster).settings.compile;
    let compiled = same.and_then(|spec| {
        let name = &subject.key.name;
        let compiled = subject
            .fetched
            .compile(|schemas| graph::compile_with(spec, name, schemas, &options));
        compiled.ok()
    });
    compiled.map_or_else(|| Arc::clone(graph), |(graph, _)| graph)
}

/// Finds the revision that records a graph, or issues it. Returns its number, and the revision where it is not told yet that its graph is
/// verified.
async fn record(
    engine: &Engine,
    key: &DefinitionKey,
    object: &Value,
    graph: &CompiledGraph,
    revisions: &[Revision],
) -> Result<(i64, Option<Value>), client::Error> {
    if let Some(latest) = revisions::latest(revisions)
        && latest
            .spec
            .as_ref()
            .is_some_and(|spec| graph::spec_hash(spec) == graph.spec_hash())
    {
        let unverified = if latest.is_verified {
            None
        } else {
            Some(revisions::read(engine, key, latest).await?)
        };
        return Ok((latest.number, unverified));
    }
    let issued = object["status"]["lastIssuedRevision"]
        .as_i64()
        .unwrap_or_default();
    let number = issued.max(revisions.last().map_or(0, |latest| latest.number)) + 1;
    let issued = revisions::issue(engine, key, object, graph, number).await?;
    engine.metrics.of(&key.cluster).revision_issued();
    info!(cluster = %key.cluster, name = key.name, revision = number, "created a revision of a definition");
    Ok((number, Some(issued)))
}

/// Words that another definition holds the kind, and what can be done.
fn refusal(key: &DefinitionKey, holder: &DefinitionKey, graph: &CompiledGraph) -> String {
    let kind = graph.group_kind();
    let (name, cluster) = (&holder.name, holder.cluster.as_str());
    if holder.cluster == key.cluster {
        return format!(
            "kind {kind} is held by ResourceGraphDefinition {name:?} of logical cluster {cluster:?}: choose another \
             kind, or delete that definition"
        );
    }
    format!(
        "kind {kind} is held by ResourceGraphDefinition {name:?} of logical cluster {cluster:?}, which is for this \
         cluster too: delete this definition, or choose another kind or group"
    )
}

/// Words that a definition goes on with a kind that one of root has for its cluster, and what its owner can do.
fn contested(key: &DefinitionKey, root: &DefinitionKey, graph: &CompiledGraph) -> Mark {
    let message = format!(
        "kind {} is served by this definition in logical cluster {:?} alone, because it was here first; \
         ResourceGraphDefinition {:?} of root defines it for this cluster too and waits: delete this definition, or \
         give it another kind, to get root's",
        graph.group_kind(),
        key.cluster.as_str(),
        root.name,
    );
    Mark::holds("KindReady", "HeldAgainstRoot", message)
}

async fn serve(
    engine: &Arc<Engine>,
    subject: &Subject<'_>,
    (graph, revision): (&Arc<CompiledGraph>, i64),
    standing: &Standing,
    set: &mut ConditionSet,
) {
    let Subject { key, object, .. } = *subject;
    let grant = Grant::of(&key.cluster, object);
    let served =
        match grant.and_then(|grant| publish(engine, key, object, (graph, revision), grant)) {
            Ok(served) => served,
            Err(reason) => {
                set.mark(marks::kind_unready(&reason));
                return;
            }
        };
    let spread = distribution::spread(engine, &served).await;
    match spread {
        Spread::Everywhere => {
            set.mark(match standing {
                Standing::HoldsAgainst(root) => contested(key, root, graph),
                _ => marks::kind_ready(&graph.group_kind().kind),
            });
            set.mark(rights(engine, key, &served).await);
        }
        Spread::Waiting(places, delay) => {
            engine.definition_queue.add_after(key.clone(), delay);
            let message = format!("waiting for the CRD in {}", places.join(", "));
            set.mark(Mark::waits("KindReady", "Distributing", message));
        }
        // What was true of this generation when the cluster was last seen stays so, also over a restart of the hub.
        Spread::Away(_) if set.is_current("KindReady") => {}
        Spread::Away(trouble) => {
            let message = format!(
                "waiting for logical cluster {:?}: {trouble}",
                key.cluster.as_str()
            );
            set.mark(Mark::waits("KindReady", "SpokeUnreachable", message));
        }
        Spread::Refused(reason) => set.mark(marks::kind_unready(&reason)),
    }
}

/// Returns whether its author may act for its instances where it was written; if not, it is looked at again, because the
/// right may be given.
async fn rights(engine: &Arc<Engine>, key: &DefinitionKey, served: &Served) -> Mark {
    let Some(home) = engine.fleet.get(&key.cluster) else {
        return marks::controller_running();
    };
    match acting::resolve(engine, &home, &served.grant).await {
        Ok(_actor) => marks::controller_running(),
        Err(reason) => {
            engine.definition_queue.add_after(key.clone(), RIGHTS_DELAY);
            marks::controller_failed(&reason)
        }
    }
}

fn publish(
    engine: &Arc<Engine>,
    key: &DefinitionKey,
    object: &Value,
    (graph, revision): (&Arc<CompiledGraph>, i64),
    grant: Grant,
) -> Result<Arc<Served>, String> {
    let map = |part: &str| -> BTreeMap<String, String> {
        serde_json::from_value(object["metadata"][part].clone()).unwrap_or_default()
    };
    let reaching = Reaching::of(&map("annotations"), &map("labels"))?;
    let uid = api::meta::uid(object);
    let owner = Owner {
        name: key.name.clone(),
        uid: uid.to_owned(),
    };
    let mut definition = graph.definition().clone();
    graph::label_definition(
        &mut definition,
        &owner,
        &engine.switches.of(&key.cluster).settings,
    );
    let served = Arc::new(Served {
        key: key.clone(),
        owner,
        graph: Arc::clone(graph),
        revision,
        grant,
        definition,
        reaching,
    });
    let changed = engine.definitions.publish(Arc::clone(&served));
    // Before the kind is served anywhere: the first instances find the watch there.
    instances::watch(engine, graph.gvr());
    if changed {
        claims::changed_hands(engine, key, &served.resource());
        for target in engine.fleet.all() {
            engine.distribution_queue.add(target.cluster.clone());
        }
        for (cluster, instance) in engine.instances.of_kind(graph.group_kind()) {
            if let Some(target) = engine.fleet.get(&cluster) {
                target.queue.add(instance);
            }
        }
    }
    Ok(served)
}

/// Goes on serving the newest revision that compiles, where nothing is served yet.
async fn serve_last_good(
    engine: &Arc<Engine>,
    key: &DefinitionKey,
    object: &Value,
    revisions: &[Revision],
    fetched: &resolving::Fetched,
) {
    if engine.definitions.served(key).is_some() {
        return;
    }
    if let Some(served) = publish_last_good(engine, key, object, revisions, fetched) {
        distribution::spread(engine, &served).await;
    }
}

/// Serves the newest of some revisions that compiles and whose kind the definition holds.
pub(super) fn publish_last_good(
    engine: &Arc<Engine>,
    key: &DefinitionKey,
    object: &Value,
    revisions: &[Revision],
    fetched: &resolving::Fetched,
) -> Option<Arc<Served>> {
    let holds = |graph: &CompiledGraph| {
        let kind = graph.gvr().group_resource();
        engine.definitions.claims.holds(key, &kind)
    };
    let options = engine.switches.of(&key.cluster).settings.compile;
    let last_good = fetched.compile(|schemas| {
        revisions::last_good(key, revisions, schemas, &options, holds).ok_or(())
    });
    let ((graph, revision), _) = last_good.ok()?;
    let grant = Grant::of(&key.cluster, object).ok()?;
    // Its own author's: who has written the definition since has not written this.
    let grant = grant.of_revision(&key.cluster, revision.author.as_deref());
    publish(engine, key, object, (&graph, revision.number), grant).ok()
}

pub(super) fn withdraw(engine: &Engine, key: &DefinitionKey) {
    if let Some(served) = engine.definitions.withdraw(key) {
        // The CRD and the instances stay, as with kro; deletion of an instance needs no graph.
        info!(cluster = %key.cluster, name = key.name, "definition is no longer served");
        claims::changed_hands(engine, key, &served.resource());
        instances::end_unused_watches(engine);
        for target in engine.fleet.all() {
            engine.distribution_queue.add(target.cluster.clone());
        }
    }
}

async fn release(
    engine: &Engine,
    key: &DefinitionKey,
    object: &Value,
) -> Result<(), client::Error> {
    let endpoint = Engine::hub_endpoint(&key.cluster, &resources::definitions(), "");
    finalizers::take_off(&engine.hub, &endpoint, object, api::kro::keys::FINALIZER).await
}

/// What a definition's status tells of its graph.
#[derive(Clone, Copy)]
enum Told<'a> {
    /// This one, with the number of its revision.
    Graph(&'a CompiledGraph, i64),
    /// What it told before.
    AsBefore,
    /// Nothing: what it says now is no graph.
    Nothing,
}

async fn write_status(
    engine: &Engine,
    key: &DefinitionKey,
    object: &Value,
    set: &ConditionSet,
    told: Told<'_>,
) -> Result<(), client::Error> {
    let mut status = object["status"].clone();
    if !status.is_object() {
        status = json!({});
    }
    status["conditions"] = Value::Array(set.to_values());
    status["state"] = json!(marks::definition_state(set));
    if let Some(home) = engine.fleet.get(&key.cluster) {
        let kind = GroupKind::new(api::kro::GROUP, api::kro::RGD_KIND);
        told::tell(&home, kind, object, &status["conditions"]);
    }
    match told {
        Told::Graph(graph, number) => {
            revisions::tell_graph(&mut status, graph);
            // A later one may have been deleted: no number is used twice.
            let issued = status["lastIssuedRevision"].as_i64().unwrap_or_default();
            status["lastIssuedRevision"] = json!(issued.max(number));
        }
        Told::Nothing => revisions::forget_graph(&mut status),
        Told::AsBefore => {}
    }
    if object["status"] == status {
        return Ok(());
    }
    let endpoint = Engine::hub_endpoint(&key.cluster, &resources::definitions(), "");
    let patch = json!([{"op": "add", "path": "/status", "value": status}]);
    let patch = Patch::Json(&patch);
    match engine
        .hub
        .patch(&endpoint, &key.name, Some("status"), patch)
        .await
    {
        Ok(_) => {}
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return Err(error),
    }
    let (before, now) = (object["status"]["state"].as_str(), status["state"].as_str());
    let counts = engine.metrics.of(&key.cluster);
    counts.definition_state(before, now);
    Ok(())
}

#[cfg(test)]
mod tests;
