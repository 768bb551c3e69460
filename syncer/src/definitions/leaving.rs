//! The CRDs of a definition that is deleted, where kro's switch `--allow-crd-deletion` is on.
//!
//! # Invariants
//!
//! A CRD goes only if it is this very definition's, by the uid in its labels, and only after its last instance: while there
//! are any the definition stays, is served, and says so. kro deletes the CRD at once; its instances then hang at their
//! finalizers, which nobody takes off any more. A cluster that does not answer keeps the CRD, as all do with the switch off.
//!
//! Source: kro v0.9.4 `pkg/controller/resourcegraphdefinition/controller_cleanup.go`.

use std::sync::Arc;

use api::{
    ClusterScope, GroupVersionResource, LogicalCluster, crd::CustomResourceDefinition, kro::RgdSpec,
};
use client::{DeleteRequest, Dynamic, Endpoint, ListRequest};
use graph::{Owner, Ownership};
use serde_json::Value;
use spokes::State;
use tracing::info;

use crate::{
    engine::Engine,
    resources,
    state::{
        served::DefinitionKey,
        shares::in_term_of,
        target::{Reach, Target, TargetSort},
    },
};

/// The CRDs of a definition that is deleted, in the clusters where they may go.
#[derive(Debug)]
pub(super) struct Leaving {
    gvr: GroupVersionResource,
    owner: Owner,
    targets: Vec<Arc<Target>>,
    /// Those of other processes, which delete the CRDs there: for reading.
    elsewhere: Vec<Elsewhere>,
}

/// A cluster that another process looks after.
#[derive(Debug)]
struct Elsewhere {
    cluster: LogicalCluster,
    dynamic: Dynamic,
    scope: Option<ClusterScope>,
}

// === impl Leaving ===

impl Leaving {
    /// Finds the clusters that let a definition's CRD go with it.
    pub(super) fn of(engine: &Engine, key: &DefinitionKey, definition: &Value) -> Self {
        let mut targets = engine.fleet.all();
        targets.retain(|target| {
            let is_for = target.cluster == key.cluster || key.cluster.is_root();
            let allowed = engine.switches.of(&target.cluster).allow_crd_deletion;
            is_for && allowed && target.reach() == Reach::Reachable
        });
        let spec = RgdSpec::from_value(&definition["spec"]);
        Self {
            gvr: spec.map_or_else(
                |_never_served| GroupVersionResource::new("", "", ""),
                |spec| graph::instance_endpoint(&spec),
            ),
            owner: Owner {
                name: key.name.clone(),
                uid: api::meta::uid(definition).to_owned(),
            },
            targets,
            elsewhere: elsewhere(engine, key),
        }
    }

    /// Says what is waited for: instances, until which the CRDs stay, and other processes, until they have deleted theirs.
    pub(super) async fn waits(&self, engine: &Engine) -> Result<Option<String>, client::Error> {
        let mut waiting = self.used(engine).await?;
        for Elsewhere {
            cluster,
            dynamic,
            scope,
        } in &self.elsewhere
        {
            let endpoint = Endpoint {
                scope: scope.clone(),
                gvr: resources::crds(),
                namespace: None,
            };
            if self.live_at(dynamic, &endpoint).await?.is_some() {
                waiting.push(cluster.to_string());
            }
        }
        Ok((!waiting.is_empty()).then(|| {
            format!(
                "waiting for the instances in {} to be deleted before their CRD {} is",
                waiting.join(", "),
                self.name()
            )
        }))
    }

    /// Names the clusters of this process in which there are instances.
    pub(super) async fn used(&self, engine: &Engine) -> Result<Vec<String>, client::Error> {
        let mut used = Vec::new();
        for target in &self.targets {
            if self.live(target).await?.is_some() && self.is_used(engine, target).await? {
                used.push(target.cluster.to_string());
            }
        }
        Ok(used)
    }

    /// Deletes the CRDs of this process's clusters. One that has got an instance meanwhile stays.
    pub(super) async fn delete(&self, engine: &Engine) -> Result<(), client::Error> {
        for target in &self.targets {
            let Some(uid) = self.live(target).await? else {
                continue;
            };
            if self.is_used(engine, target).await? {
                continue;
            }
            let endpoint = target.endpoint(&resources::crds(), "");
            let (name, cluster) = (self.name(), &target.cluster);
            let request = DeleteRequest::of(uid);
            match target.dynamic.delete(&endpoint, &name, &request).await {
                Ok(_) => info!(%cluster, name, "deleted a CRD with its definition"),
                // Another one has its name by now.
                Err(error) if error.is_not_found() || error.is_conflict() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn name(&self) -> String {
        format!("{}.{}", self.gvr.resource, self.gvr.group)
    }

    /// Returns the uid of the CRD in a target, if it is the definition's own and stays so far.
    async fn live(&self, target: &Target) -> Result<Option<String>, client::Error> {
        let endpoint = target.endpoint(&resources::crds(), "");
        self.live_at(&target.dynamic, &endpoint).await
    }

    async fn live_at(
        &self,
        dynamic: &Dynamic,
        endpoint: &Endpoint,
    ) -> Result<Option<String>, client::Error> {
        if self.gvr.resource.is_empty() {
            return Ok(None);
        }
        let live = match dynamic.get(endpoint, &self.name()).await {
            Ok(live) => live,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        let is_own = CustomResourceDefinition::from_value(&live)
            .is_ok_and(|live| graph::ownership(&live, &self.owner) == Ownership::Own);
        let stays = api::meta::deletion_timestamp(&live).is_none();
        Ok((is_own && stays).then(|| api::meta::uid(&live).to_owned()))
    }

    /// Asks whether there are instances. A cache may not have been filled yet, or not be any more.
    async fn is_used(&self, engine: &Engine, target: &Target) -> Result<bool, client::Error> {
        let here = Engine::hub_endpoint(&target.cluster, &self.gvr, "");
        if has_objects(&engine.hub, &here).await? {
            return Ok(true);
        }
        let there = target.endpoint(&self.gvr, "");
        Ok(target.sort == TargetSort::Mirrored && has_objects(&target.dynamic, &there).await?)
    }
}

/// Finds the clusters of other processes that answer, and let a definition's CRD go with it.
fn elsewhere(engine: &Engine, key: &DefinitionKey) -> Vec<Elsewhere> {
    let mut elsewhere = Vec::new();
    if !engine.shares.are_shared() || !engine.shares.hold(&key.cluster) || !key.cluster.is_root() {
        return elsewhere;
    }
    for cluster in engine.spokes.names() {
        let allowed = engine.switches.of(&cluster).allow_crd_deletion;
        if engine.fleet.get(&cluster).is_some() || !allowed {
            continue;
        }
        let (dynamic, scope) = match engine.spokes.get(&cluster).map(|it| it.state) {
            Some(State::Connected(link)) if link.trouble().is_none() => {
                // Whoever decides about root's definitions does so in root's term, whose spoke it may be.
                let calls = link.for_controllers();
                (in_term_of(&engine.shares, &key.cluster, &calls), None)
            }
            Some(State::Embedded) => {
                let scope = ClusterScope::One(cluster.clone());
                (engine.hub.clone(), Some(scope))
            }
            _ => continue,
        };
        elsewhere.push(Elsewhere {
            cluster,
            dynamic,
            scope,
        });
    }
    elsewhere
}

async fn has_objects(dynamic: &Dynamic, endpoint: &Endpoint) -> Result<bool, client::Error> {
    match dynamic
        .list_page(endpoint, &ListRequest::default(), 1, "")
        .await
    {
        Ok(page) => Ok(!page.items.is_empty()),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}
