//! Definitions that a kro ran in a spoke: planned, taken over, and given back, as the Spoke says.
//!
//! In reading order: [`found`] (what a kro has left), [`kro`] (whether it runs), [`plan`] (what would be done, and what keeps the hub from
//! it), [`taking`], [`returning`].
//!
//! The Spoke's `spec.migration` says who is to run the definitions, and its `status.migration` how far that is. Each step can be repeated:
//! a hub that is killed goes on with it.
//!
//! # Invariants
//!
//! Nothing is deleted in the spoke, and no child is made there.

mod found;
mod kro;
mod plan;
mod returning;
mod taking;

use std::{collections::HashSet, sync::Arc, time::Duration};

use api::{
    LogicalCluster, Status, meta,
    wheelhouse::{Migration, MigrationState, MigrationStatus, MigrationTarget, keys},
};
use client::Patch;
use serde_json::{Value, json};
use spokes::Link;
use tokio::time::Instant;

use self::returning::Given;
use super::row::Row;
use crate::{
    engine::Engine,
    resources,
    state::target::{Reach, Target, TargetSort},
};

/// Between two looks at what is waited for, where no watch tells; longer where one takes longer.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The same while something keeps the hub from going on that people have to change.
const OBSTACLE_INTERVAL: Duration = Duration::from_secs(5);

/// Goes as far with a migration as it can go now. Returns the Spoke as it is then.
pub(super) async fn step(
    engine: &Arc<Engine>,
    cluster: &LogicalCluster,
    spoke: Value,
) -> Result<Value, client::Error> {
    let Some(wanted) = wanted(&spoke) else {
        return Ok(spoke);
    };
    let Some(target) = engine.fleet.get(cluster) else {
        return Ok(spoke);
    };
    if target.sort != TargetSort::Mirrored || target.reach() != Reach::Reachable {
        return Ok(spoke); // it is named again when it answers
    }
    let known = status(&spoke);
    let is_current = known.observed_generation == meta::generation(&spoke);
    let settled = is_current && known.obstacles.is_empty();
    let state = known.state;
    let done = match (wanted.to, known.state) {
        (MigrationTarget::Plan | MigrationTarget::PlanReturn, _)
        | (MigrationTarget::Hub, MigrationState::Hub)
        | (MigrationTarget::Kro, MigrationState::Kro)
            if settled =>
        {
            Ok(spoke.clone())
        }
        (MigrationTarget::Plan | MigrationTarget::Hub, _) => {
            plan(engine, &target, &spoke, &wanted, known).await
        }
        (MigrationTarget::PlanReturn | MigrationTarget::Kro, _) => {
            plan_return(engine, &target, &spoke, &wanted, known).await
        }
    };
    if let Err(error) = &done {
        let mut status = MigrationStatus {
            state,
            obstacles: vec![format!("it is tried again: {}", error.chain())],
            ..MigrationStatus::default()
        };
        plan::bound(&mut status);
        write(engine, &spoke, status).await?;
    }
    done
}

/// Whether a Spoke's definitions are being given back: nothing is to run in the spoke meanwhile.
pub(super) fn is_returning(spoke: &Value) -> bool {
    status(spoke).state == MigrationState::Returning
}

/// Gives back what the hub runs in a spoke. Returns the Spoke as it is then.
pub(super) async fn give_back(
    engine: &Arc<Engine>,
    cluster: &LogicalCluster,
    link: &Arc<Link>,
    spoke: Value,
) -> Result<Value, client::Error> {
    let (token, kept) = (engine.tasks.child_token(), HashSet::new());
    let hub = engine.hub.clone();
    let (shares, tasks) = (&engine.shares, &engine.tasks);
    let target = Target::mirrored(Arc::clone(link), (hub, shares), kept, "", tasks, token);
    let mut status = status(&spoke);
    let done = match require_identity(&target, &spoke).await {
        Ok(()) => returning::step(engine, &target).await,
        Err(error) => Err(error),
    };
    status.notes = match &done {
        Ok(_) => Vec::new(),
        Err(error) => vec![format!("it is tried again: {}", error.chain())],
    };
    match &done {
        Ok(Given::All) => {
            status.state = MigrationState::Kro;
            engine.distribution_queue.add(cluster.clone());
        }
        Ok(Given::Going) => engine.spoke_queue.add_after(cluster.clone(), LOOK_INTERVAL),
        Err(_) => {}
    }
    plan::bound(&mut status);
    let spoke = write(engine, &spoke, status).await?;
    done.map(|_given| spoke)
}

/// Requires that a spoke is the cluster that it was: it is not looked at otherwise while definitions are given back.
async fn require_identity(target: &Target, spoke: &Value) -> Result<(), client::Error> {
    let endpoint = target.endpoint(&resources::core("namespaces"), "");
    let namespace = target.dynamic.get(&endpoint, "kube-system").await?;
    if spoke["status"]["clusterUID"] == meta::uid(&namespace) {
        return Ok(());
    }
    let status =
        Status::bad_request("another cluster answers than the one that the Spoke was made for");
    Err(client::Error::Status(Box::new(status)))
}

async fn plan_return(
    engine: &Arc<Engine>,
    target: &Arc<Target>,
    spoke: &Value,
    wanted: &Migration,
    known: MigrationStatus,
) -> Result<Value, client::Error> {
    let kro = kro::look(target).await?;
    let mut status = returning::plan(engine, target, &kro).await?;
    plan::bound(&mut status);
    let cluster = target.cluster.clone();
    status.state = known.state;
    if !status.obstacles.is_empty() {
        engine.spoke_queue.add_after(cluster, OBSTACLE_INTERVAL);
    } else if wanted.to == MigrationTarget::Kro {
        status.state = MigrationState::Returning;
        engine.spoke_queue.add_after(cluster, Duration::ZERO);
    }
    write(engine, spoke, status).await
}

/// Returns what a Spoke wants; `None` where it says nothing.
fn wanted(spoke: &Value) -> Option<Migration> {
    serde_json::from_value(spoke["spec"]["migration"].clone()).ok()
}

/// Returns what is the case with a Spoke.
pub(super) fn status(spoke: &Value) -> MigrationStatus {
    serde_json::from_value(spoke["status"]["migration"].clone()).unwrap_or_default()
}

/// Says how a migration is; nothing where nobody has asked for one, or all is a kro's again.
pub(super) fn row(spoke: &Value) -> Option<Row> {
    let wanted = wanted(spoke)?;
    let status = status(spoke);
    let is_plan = matches!(
        wanted.to,
        MigrationTarget::Plan | MigrationTarget::PlanReturn
    );
    let (type_, message) = (keys::CONDITION_MIGRATED, status.notes.join("; "));
    if !is_plan && !status.obstacles.is_empty() {
        return Some(Row::new(
            type_,
            "False",
            "Obstacles",
            status.obstacles.join("; "),
        ));
    }
    match status.state {
        MigrationState::Planned => Some(Row::new(type_, "Unknown", "Planned", "")),
        MigrationState::Taking => Some(Row::new(type_, "False", "Taking", message)),
        MigrationState::Hub => Some(Row::new(type_, "True", "Hub", "")),
        MigrationState::Returning => Some(Row::new(type_, "False", "Returning", message)),
        MigrationState::Kro => None,
    }
}

/// Plans what would be taken over, and takes it over where that is wanted and nothing keeps the hub from it.
async fn plan(
    engine: &Arc<Engine>,
    target: &Arc<Target>,
    spoke: &Value,
    wanted: &Migration,
    known: MigrationStatus,
) -> Result<Value, client::Error> {
    let begun = Instant::now();
    let found = found::read(target).await?;
    let kro = kro::look(target).await?;
    let plan = plan::make(engine, target, wanted, &found, &kro).await?;
    let (mut status, cluster) = (plan.status, target.cluster.clone());
    status.state = known.state;
    if !status.obstacles.is_empty() {
        engine.spoke_queue.add_after(cluster, OBSTACLE_INTERVAL);
    } else if wanted.to == MigrationTarget::Hub
        && let Some(author) = plan.author
    {
        let waiting = taking::step(engine, target, &found, &author).await?;
        status.state = if waiting.is_empty() {
            MigrationState::Hub
        } else {
            let pause = begun.elapsed().max(LOOK_INTERVAL);
            engine.spoke_queue.add_after(cluster, pause);
            MigrationState::Taking
        };
        status.notes.extend(waiting);
    }
    write(engine, spoke, status).await
}

async fn write(
    engine: &Engine,
    spoke: &Value,
    mut status: MigrationStatus,
) -> Result<Value, client::Error> {
    status.observed_generation = meta::generation(spoke);
    let status = json!(status);
    if spoke["status"]["migration"] == status {
        return Ok(spoke.clone());
    }
    let root = LogicalCluster::root();
    let endpoint = Engine::hub_endpoint(&root, &resources::spokes(), "");
    let patch = if spoke["status"].is_object() {
        json!([{"op": "add", "path": "/status/migration", "value": status}])
    } else {
        json!([{"op": "add", "path": "/status", "value": {"migration": status}}])
    };
    let name = meta::name(spoke);
    let patch = Patch::Json(&patch);
    engine
        .hub
        .patch(&endpoint, name, Some("status"), patch)
        .await
}
