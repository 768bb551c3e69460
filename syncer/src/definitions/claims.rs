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
//! - What is kept here is what is stored: only this process writes records, one at a time.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use api::{GroupResource, LogicalCluster};
use client::{DeleteRequest, Endpoint, ListRequest, Patch};
use parking_lot::RwLock;
use serde_json::{Value, json};
use tracing::warn;

use super::DefinitionKey;
use crate::{engine::Engine, instances, keys::text, resources};

/// The wait after a failure of the hub itself, which is rare and passes.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Which definition holds which kind.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    // Guards both; never held across an await.
    state: RwLock<State>,
}

#[derive(Debug, Default)]
struct State {
    holders: BTreeMap<(LogicalCluster, GroupResource), Holder>,
    /// Definitions that were refused a kind, or hold it against root's: they are looked at again when that may change.
    contested: BTreeSet<DefinitionKey>,
}

/// The definition that holds a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Holder {
    name: String,
    uid: String,
}

/// How a definition stands with its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It holds it, and nobody else wants it.
    Holds,
    /// It held it first, and this definition of root waits in its cluster.
    HoldsAgainst(DefinitionKey),
    /// This one holds it.
    Refused(DefinitionKey),
}

// === impl Claims ===

impl Claims {
    /// Tells the definition that holds a kind in a cluster, among those of the cluster itself.
    pub(crate) fn holder(
        &self,
        cluster: &LogicalCluster,
        kind: &GroupResource,
    ) -> Option<DefinitionKey> {
        let state = self.state.read();
        let holder = state.holders.get(&(cluster.clone(), kind.clone()))?;
        Some(DefinitionKey {
            cluster: cluster.clone(),
            name: holder.name.clone(),
        })
    }

    /// Tells whether a definition holds a kind.
    pub(crate) fn holds(&self, key: &DefinitionKey, kind: &GroupResource) -> bool {
        self.holder(&key.cluster, kind).as_ref() == Some(key)
    }

    /// Tells the definitions that have something to lose or to win when a kind changes hands in a cluster; in root, that is
    /// everywhere.
    pub(crate) fn concerned(
        &self,
        cluster: &LogicalCluster,
        kind: Option<&GroupResource>,
    ) -> BTreeSet<DefinitionKey> {
        let reaches = |other: &LogicalCluster| cluster.is_root() || other == cluster;
        let state = self.state.read();
        let holding = state
            .holders
            .iter()
            .filter(|((other, held), _)| reaches(other) && kind == Some(held))
            .map(|((other, _), holder)| DefinitionKey {
                cluster: other.clone(),
                name: holder.name.clone(),
            });
        let contested = state.contested.iter().filter(|key| reaches(&key.cluster));
        holding.chain(contested.cloned()).collect()
    }

    fn held_by(&self, key: &DefinitionKey) -> Vec<GroupResource> {
        let state = self.state.read();
        let of_cluster = state.holders.iter();
        of_cluster
            .filter(|((cluster, _), holder)| *cluster == key.cluster && holder.name == key.name)
            .map(|((_, kind), _)| kind.clone())
            .collect()
    }

    fn note(&self, key: &DefinitionKey, standing: &Standing) {
        let mut state = self.state.write();
        match standing {
            Standing::Holds => state.contested.remove(key),
            Standing::HoldsAgainst(_) | Standing::Refused(_) => state.contested.insert(key.clone()),
        };
    }
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
    let mut state = engine.definitions.claims.state.write();
    for record in &listed.items {
        let annotations = &record["metadata"]["annotations"];
        let cluster = text(annotations, &[api::cluster::ANNOTATION]).parse::<LogicalCluster>();
        let Ok(cluster) = cluster else { continue };
        let kind = GroupResource::new(
            text(record, &["spec", "group"]),
            text(record, &["spec", "resource"]),
        );
        let holder = Holder {
            name: text(record, &["spec", "definition", "name"]).to_owned(),
            uid: text(record, &["spec", "definition", "uid"]).to_owned(),
        };
        engine.definition_queue.add(DefinitionKey {
            cluster: cluster.clone(),
            name: holder.name.clone(),
        });
        state.holders.insert((cluster, kind), holder);
    }
}

/// Finds out how a definition that compiles stands with its kind, and records that it holds it if nobody else does.
pub(crate) async fn stand(
    engine: &Engine,
    key: &DefinitionKey,
    uid: &str,
    kind: &GroupResource,
) -> Result<Standing, client::Error> {
    let claims = &engine.definitions.claims;
    let holder = claims.holder(&key.cluster, kind);
    let standing = match holder.filter(|holder| is_there(engine, holder, kind)) {
        Some(holder) if holder != *key => Standing::Refused(holder),
        held => {
            let held = held.is_some();
            match of_root(engine, key, kind).await? {
                Some(root) if held => Standing::HoldsAgainst(root),
                Some(root) => Standing::Refused(root),
                None => Standing::Holds,
            }
        }
    };
    claims.note(key, &standing);
    if !matches!(standing, Standing::Refused(_)) {
        record(engine, key, uid, kind).await?;
    }
    Ok(standing)
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
        {
            let mut state = claims.state.write();
            state.holders.remove(&(key.cluster.clone(), kind.clone()));
        }
        changed_hands(engine, key, &kind);
    }
    if but.is_none() {
        claims.state.write().contested.remove(key);
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
    let state = engine.definitions.claims.state.read();
    let recorded = state.holders.get(&(holder.cluster.clone(), kind.clone()));
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
    let reach = super::Reaching::of(&known.annotations, &known.labels);
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
    let place = (key.cluster.clone(), kind.clone());
    let claims = &engine.definitions.claims;
    if claims.state.read().holders.get(&place) == Some(&holder) {
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
    claims.state.write().holders.insert(place, holder);
    changed_hands(engine, key, kind);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(cluster: &str, name: &str) -> DefinitionKey {
        DefinitionKey {
            cluster: cluster.parse().expect("a cluster"),
            name: name.to_owned(),
        }
    }

    #[test]
    fn a_kind_of_root_concerns_everyone_and_a_local_one_its_own_cluster() {
        let claims = Claims::default();
        let kind = GroupResource::new("kro.run", "carts");
        let holders = [("root", "fleet"), ("east", "own"), ("west", "own")];
        for (cluster, name) in holders {
            let holder = Holder {
                name: name.to_owned(),
                uid: "u".to_owned(),
            };
            let place = (cluster.parse().expect("a cluster"), kind.clone());
            claims.state.write().holders.insert(place, holder);
        }
        claims.note(&key("east", "late"), &Standing::Refused(key("east", "own")));
        let concerned = |cluster: &str| {
            let cluster = cluster.parse().expect("a cluster");
            let concerned = claims.concerned(&cluster, Some(&kind));
            concerned.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(concerned("east"), [key("east", "late"), key("east", "own")]);
        assert_eq!(concerned("west"), [key("west", "own")]);
        assert_eq!(concerned("root").len(), 4);
        claims.note(&key("east", "late"), &Standing::Holds);
        assert_eq!(concerned("east"), [key("east", "own")]);
        assert!(claims.holds(&key("west", "own"), &kind));
        assert!(!claims.holds(&key("west", "fleet"), &kind));
    }
}
