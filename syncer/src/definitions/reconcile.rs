//! One definition: compile, record, publish, say so.
//!
//! # Invariants
//!
//! A definition that does not compile never stops instances: the last good revision goes on being
//! served, and the conditions say so (kro stops them). A revision's number is never used twice.
//!
//! Source: kro `pkg/controller/resourcegraphdefinition`.

use std::sync::Arc;

use api::{kro::ResourceGraphDefinition, selector::Selector};
use client::Patch;
use graph::{
    CompiledGraph, Owner,
    conditions::{ConditionSet, DEFINITION, Mark},
    definition_conditions as marks,
};
use serde_json::{Value, json};
use tracing::{info, warn};

use super::{
    DefinitionKey, Served,
    distribution::{self, Spread},
    resolving,
    revisions::{self, Keep, Revision},
};
use crate::{
    acting::Grant,
    engine::Engine,
    instances::{self, deletion},
    resources,
};

/// Selects the spokes that a definition of root is for.
const SPOKES_ANNOTATION: &str = "wheelhouse.dev/spokes";

/// `false` keeps a definition's kind on the hub. Source: kro KREP-013b.
const DISTRIBUTE_KEY: &str = "kro.run/distribute";

/// The wait after a failure of the hub itself, which is rare and passes.
const RETRY_DELAY: std::time::Duration = std::time::Duration::from_secs(1);

/// The wait before it is looked again whether a definition's author may act.
const RIGHTS_DELAY: std::time::Duration = std::time::Duration::from_secs(10);

/// What came of compiling.
enum Compiled {
    Graph(Arc<CompiledGraph>),
    Refused(String),
    /// A cluster could not be asked for its schemas.
    Unknown(String),
}

/// Reconciles a definition; a failure is tried again.
pub(crate) async fn run(engine: &Arc<Engine>, key: &DefinitionKey) {
    if let Err(error) = step(engine, key).await {
        warn!(cluster = %key.cluster, name = key.name, error = %error, "cannot reconcile a definition");
        engine.definition_queue.add_after(key.clone(), RETRY_DELAY);
    }
}

async fn step(engine: &Arc<Engine>, key: &DefinitionKey) -> Result<(), client::Error> {
    let endpoint = Engine::hub_endpoint(&key.cluster, &resources::definitions(), "");
    let Some(known) = engine.definitions.known(key) else {
        withdraw(engine, key);
        return Ok(());
    };
    // The watch says that it changed; the read says how, after our own writes too.
    let mut object = match engine.hub.get(&endpoint, &known.name).await {
        Ok(object) => object,
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return Err(error),
    };
    let revisions = revisions::list(engine, key).await?;
    if api::meta::deletion_timestamp(&object).is_some() {
        withdraw(engine, key);
        revisions::collect(engine, key, &revisions, Keep::None).await?;
        return release(engine, key, &object).await;
    }
    if !api::meta::has_finalizer(&object, api::kro::keys::FINALIZER) {
        let patch = add_finalizer_of(&object, api::kro::keys::FINALIZER);
        object = engine
            .hub
            .patch(&endpoint, &key.name, None, Patch::Json(&patch))
            .await?;
    }
    let now = Engine::now();
    let mut set = ConditionSet::open(&DEFINITION, &object, &now);
    let definition = match revisions::typed(&object) {
        Ok(definition) => definition,
        Err(error) => {
            set.mark(marks::graph_refused(&error.to_string()));
            return write_status(engine, key, &object, &set, None).await;
        }
    };
    let home = engine.fleet.get(&key.cluster);
    let Some(home) = home else {
        set.mark(marks::kind_unready("the logical cluster is not connected"));
        return write_status(engine, key, &object, &set, None).await;
    };
    let fetched = resolving::fetch(engine, &definition.spec, &home).await;
    let compiled = compile(&definition, key, &fetched);
    match compiled {
        Compiled::Graph(graph) => {
            set.mark(marks::graph_accepted());
            let number = record(engine, key, &object, &graph, &revisions).await?;
            set.mark(marks::revision_resolved(number));
            serve(engine, key, &object, &graph, &mut set).await;
            write_status(engine, key, &object, &set, Some((&graph, number))).await?;
            let revisions = revisions::list(engine, key).await?;
            revisions::collect(engine, key, &revisions, Keep::Newest).await
        }
        Compiled::Refused(reason) => {
            set.mark(marks::graph_refused(&reason));
            serve_last_good(engine, key, &object, &revisions, &fetched).await;
            write_status(engine, key, &object, &set, None).await
        }
        Compiled::Unknown(reason) => {
            set.mark(Mark::waits("GraphAccepted", "SchemasUnavailable", reason));
            serve_last_good(engine, key, &object, &revisions, &fetched).await;
            write_status(engine, key, &object, &set, None).await?;
            engine.definition_queue.add_after(key.clone(), RETRY_DELAY);
            Ok(())
        }
    }
}

fn compile(
    definition: &ResourceGraphDefinition,
    key: &DefinitionKey,
    fetched: &resolving::FetchedSchemas,
) -> Compiled {
    match graph::compile(&definition.spec, &key.name, fetched) {
        Ok(graph) => Compiled::Graph(graph),
        Err(error) if error.is_transient() => Compiled::Unknown(error.to_string()),
        Err(error) => Compiled::Refused(error.to_string()),
    }
}

/// Finds the revision that records a graph, or issues it.
async fn record(
    engine: &Engine,
    key: &DefinitionKey,
    object: &Value,
    graph: &CompiledGraph,
    revisions: &[Revision],
) -> Result<i64, client::Error> {
    if let Some(latest) = revisions.last()
        && latest
            .spec
            .as_ref()
            .is_some_and(|spec| graph::spec_hash(spec) == graph.spec_hash())
    {
        return Ok(latest.number);
    }
    let issued = object["status"]["lastIssuedRevision"]
        .as_i64()
        .unwrap_or_default();
    let number = issued.max(revisions.last().map_or(0, |latest| latest.number)) + 1;
    revisions::issue(engine, key, object, graph, number).await?;
    info!(cluster = %key.cluster, name = key.name, revision = number, "issued a revision");
    Ok(number)
}

async fn serve(
    engine: &Arc<Engine>,
    key: &DefinitionKey,
    object: &Value,
    graph: &Arc<CompiledGraph>,
    set: &mut ConditionSet,
) {
    if let Some(holder) = engine.definitions.holder(key, &graph.group_kind()) {
        let reason = format!(
            "kind {} is held by ResourceGraphDefinition {:?} of logical cluster {:?}",
            graph.group_kind(),
            holder.name,
            holder.cluster.as_str()
        );
        set.mark(marks::kind_unready(&reason));
        return;
    }
    let grant = Grant::of(&key.cluster, object);
    let served = match grant.and_then(|grant| publish(engine, key, object, graph, grant)) {
        Ok(served) => served,
        Err(reason) => {
            set.mark(marks::kind_unready(&reason));
            return;
        }
    };
    let spread = distribution::spread(engine, &served).await;
    // Only now is there something to watch.
    instances::watch(engine, &graph.group_kind(), graph.gvr());
    match spread {
        Spread::Everywhere => {
            set.mark(marks::kind_ready(&graph.group_kind().kind));
            set.mark(acting(engine, key, &served).await);
        }
        Spread::Waiting(places) => {
            let message = format!("waiting for the CRD in {}", places.join(", "));
            set.mark(Mark::waits("KindReady", "Distributing", message));
        }
        Spread::Refused(reason) => set.mark(marks::kind_unready(&reason)),
    }
}

/// Says whether its author may act for its instances where it was written; if not, it is looked at again, because the
/// right may be given.
async fn acting(engine: &Arc<Engine>, key: &DefinitionKey, served: &Served) -> Mark {
    let Some(home) = engine.fleet.get(&key.cluster) else {
        return marks::controller_running();
    };
    match served.grant.resolve(engine, &home).await {
        Ok(_actor) => marks::controller_running(),
        Err(reason) => {
            engine
                .definition_queue
                .add_after(key.clone(), RIGHTS_DELAY);
            marks::controller_failed(&reason)
        }
    }
}

fn publish(
    engine: &Arc<Engine>,
    key: &DefinitionKey,
    object: &Value,
    graph: &Arc<CompiledGraph>,
    grant: Grant,
) -> Result<Arc<Served>, String> {
    let annotation = |name: &str| object["metadata"]["annotations"][name].as_str();
    let label = |name: &str| object["metadata"]["labels"][name].as_str();
    let selector = match annotation(SPOKES_ANNOTATION) {
        None => None,
        Some(text) => Some(
            text.parse::<Selector>()
                .map_err(|error| format!("annotation {SPOKES_ANNOTATION}: {error}"))?,
        ),
    };
    let distribute = annotation(DISTRIBUTE_KEY).or_else(|| label(DISTRIBUTE_KEY)) != Some("false");
    let uid = api::meta::uid(object);
    let owner = Owner {
        name: key.name.clone(),
        uid: uid.to_owned(),
    };
    let mut definition = graph.definition().clone();
    graph::label_definition(&mut definition, &owner, &engine.settings);
    let served = Arc::new(Served {
        key: key.clone(),
        owner,
        graph: Arc::clone(graph),
        grant,
        definition,
        selector,
        distribute,
    });
    let changed = engine.definitions.publish(Arc::clone(&served));
    if changed {
        for target in engine.fleet.all() {
            engine.distribution_queue.add(target.cluster.clone());
        }
        for (cluster, instance) in engine.instances.of_kind(&graph.group_kind()) {
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
    fetched: &resolving::FetchedSchemas,
) {
    if engine.definitions.served(key).is_some() {
        return;
    }
    if let Some((graph, author)) = revisions::last_good(key, revisions, fetched)
        && let Ok(grant) = Grant::of(&key.cluster, object)
        // Its own author's: who has written the definition since has not written this.
        && let grant = grant.of_revision(&key.cluster, author)
        && let Ok(served) = publish(engine, key, object, &graph, grant)
    {
        distribution::spread(engine, &served).await;
        instances::watch(engine, &graph.group_kind(), graph.gvr());
    }
}

fn withdraw(engine: &Engine, key: &DefinitionKey) {
    if let Some(served) = engine.definitions.withdraw(key) {
        // The CRD and the instances stay, as with kro; deletion of an instance needs no graph.
        info!(cluster = %key.cluster, name = key.name, "no longer served");
        let group_kind = served.graph.group_kind();
        if engine.instances.of_kind(&group_kind).is_empty() {
            instances::unwatch(engine, &group_kind);
        }
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
    if !api::meta::has_finalizer(object, api::kro::keys::FINALIZER) {
        return Ok(());
    }
    let endpoint = Engine::hub_endpoint(&key.cluster, &resources::definitions(), "");
    let patch = deletion::remove_finalizer(object, api::kro::keys::FINALIZER);
    match engine
        .hub
        .patch(&endpoint, &key.name, None, Patch::Json(&patch))
        .await
    {
        Ok(_) => Ok(()),
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Makes the JSON patch that puts one more finalizer on an object.
pub(crate) fn add_finalizer_of(object: &Value, finalizer: &str) -> Value {
    let mut finalizers: Vec<&str> = api::meta::finalizers(object).into_iter().collect();
    finalizers.push(finalizer);
    json!([
        {"op": "test", "path": "/metadata/uid", "value": api::meta::uid(object)},
        {"op": "add", "path": "/metadata/finalizers", "value": finalizers},
    ])
}

async fn write_status(
    engine: &Engine,
    key: &DefinitionKey,
    object: &Value,
    set: &ConditionSet,
    graph: Option<(&CompiledGraph, i64)>,
) -> Result<(), client::Error> {
    let mut status = object["status"].clone();
    if !status.is_object() {
        status = json!({});
    }
    status["conditions"] = Value::Array(set.to_values());
    status["state"] = json!(marks::definition_state(set));
    if let Some((graph, number)) = graph {
        let order: Vec<&str> = graph
            .topological_order()
            .iter()
            .map(AsRef::as_ref)
            .collect();
        status["topologicalOrder"] = json!(order);
        status["resources"] = json!(graph.resources_status());
        status["lastIssuedRevision"] = json!(number);
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
        Ok(_) => Ok(()),
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error),
    }
}
