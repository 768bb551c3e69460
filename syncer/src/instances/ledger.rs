//! The ledger: one Inventory for each instance in the hub's store, which names all that may exist
//! in the target on its behalf.
//!
//! # Invariants
//!
//! Before an apply it names a superset of what will be there, what waits for its turn among it; after a prune it is exact. A hub that
//! is killed at any point finds in it every kind that it has to look into.
//!
//! A member has a uid once an apply of ours was answered with it. Without one it is an intent, and what stands at its name may be
//! somebody else's.

use std::collections::BTreeMap;

use api::wheelhouse::{InstanceReference, Inventory, InventoryMember, InventorySpec};
use client::{DeleteRequest, Endpoint, Patch};
use graph::{Applied, Apply, Claim, Expected, ObjectRef, Plan};
use serde_json::json;

use super::work::{Pause, Work};
use crate::{
    engine::Engine,
    resources,
    state::{actors::Actor, claims::Claims},
};

/// Takes it that an instance which nobody has held yet has no ledger. Where it has all the same, because somebody took our finalizer
/// off, the first write of a ledger is refused, and it is read before anything is applied.
pub(crate) fn begin(work: &mut Work<'_>) {
    let ledger = &mut work.memory.ledger;
    ledger.get_or_insert_with(InventorySpec::default);
}

/// Forgets that there is no ledger, which was taken for granted, or is so.
pub(crate) fn assume_nothing(work: &mut Work<'_>) {
    let ledger = &mut work.memory.ledger;
    ledger.take_if(|known| known.instance.uid.is_empty());
}

/// [`recall`] for a deletion, which takes nothing for granted.
pub(crate) async fn recall_surely(work: &mut Work<'_>) -> Result<(), Pause> {
    assume_nothing(work);
    recall(work).await
}

/// Reads the ledger into the memory of the instance, once.
pub(crate) async fn recall(work: &mut Work<'_>) -> Result<(), Pause> {
    if work.memory.ledger.is_some() {
        return Ok(());
    }
    let endpoint = endpoint(work);
    let spec = match work.engine.hub.get(&endpoint, &work.memory.uid).await {
        Ok(found) => {
            let inventory = Inventory::from_value(&found)
                .map_err(|error| Pause::Failure(format!("ledger {}: {error}", work.memory.uid)))?;
            inventory.spec
        }
        Err(error) if error.is_not_found() => InventorySpec::default(),
        Err(error) => return Err(error.into()),
    };
    work.memory.applied = applied_of(&spec);
    work.memory.claims = claims_of(&spec);
    work.memory.settled_count = settled_count(&spec);
    work.memory.held_revision = spec.held_revision;
    if !spec.mirror_uid.is_empty() {
        work.memory.mirror_uid.clone_from(&spec.mirror_uid);
    }
    work.memory.ledger = Some(spec);
    Ok(())
}

/// Names the mirror that was applied, where the ledger does not yet: by it the relay knows what the spoke calls the instance. One that
/// is gone is named until there is another: objects that name it as their owner live until the spoke's garbage collector has seen that.
pub(crate) async fn name_mirror(work: &mut Work<'_>, actor: &Actor) -> Result<(), Pause> {
    let mirror_uid = work.memory.mirror_uid.clone();
    let Some(known) = &work.memory.ledger else {
        return Ok(());
    };
    if known.mirror_uid == mirror_uid {
        return Ok(());
    }
    let spec = if known.instance.uid.is_empty() {
        spec(work, actor, BTreeMap::new(), Exact::No)
    } else {
        InventorySpec {
            mirror_uid,
            ..known.clone()
        }
    };
    write(work, spec).await
}

/// Names everything that a plan is about to apply, beside what was there.
pub(crate) async fn before(work: &mut Work<'_>, actor: &Actor, plan: &Plan) -> Result<(), Pause> {
    let known = work.memory.ledger.as_ref();
    let mut members: BTreeMap<ObjectRef, InventoryMember> = known
        .into_iter()
        .flat_map(|spec| &spec.members)
        .map(|member| (reference_of(member), member.clone()))
        .collect();
    let count = members.len();
    // Foreign objects are never touched, so they need no ledger entry.
    for apply in plan.applies.iter().filter(|it| it.claim != Claim::Foreign) {
        members
            .entry(apply.reference.clone())
            .or_insert_with(|| member(apply, None));
    }
    let same_actor = known.is_some_and(|spec| {
        spec.acting_as.as_ref() == actor.user().map(AsRef::as_ref)
            && spec.acting_at_hub_as.as_ref() == actor.user_at_hub().map(AsRef::as_ref)
    });
    if members.len() > count || !same_actor {
        // What is named now needs no write of its own once its turn has come.
        for expected in &plan.expected {
            let entry = members.entry(expected.reference.clone());
            entry.or_insert_with(|| intent(expected));
        }
        for (reference, member) in &mut members {
            if let Some(uid) = work.memory.claims.get(reference) {
                member.uid.clone_from(uid);
            } else {
                work.memory
                    .claims
                    .insert(reference.clone(), member.uid.clone());
            }
        }
        let spec = spec(work, actor, members, Exact::No);
        write(work, spec).await?;
    }
    inventory(work, &plan.inventory_before).await
}

/// Names the uids of what was applied so far, while a plan waits: until then only its marks say that an object is the instance's.
pub(crate) async fn confirm(work: &mut Work<'_>) -> Result<(), Pause> {
    let Some(known) = &work.memory.ledger else {
        return Ok(());
    };
    let mut spec = inexact(known);
    for member in &mut spec.members {
        if let Some(uid) = work.memory.claims.get(&reference_of(member)) {
            member.uid.clone_from(uid);
        }
    }
    if spec.members == known.members {
        return Ok(());
    }
    write(work, spec).await
}

/// Names exactly what is there after a prune.
pub(crate) async fn after(work: &mut Work<'_>, actor: &Actor, plan: &Plan) -> Result<(), Pause> {
    for apply in &plan.applies {
        if let Claim::Own(uid) = &apply.claim {
            let before = work
                .memory
                .claims
                .insert(apply.reference.clone(), uid.clone());
            if before.as_ref() != Some(uid) {
                work.own.look_again(); // the plan did not know it
            }
        }
    }
    let (applied, claims) = (&work.memory.applied, &work.memory.claims);
    let members: BTreeMap<ObjectRef, InventoryMember> = plan
        .applies
        .iter()
        .map(|apply| {
            let mut member = member(apply, applied.get(&apply.reference));
            member.uid = claims.get(&apply.reference).cloned().unwrap_or_default();
            (apply.reference.clone(), member)
        })
        .collect();
    work.memory
        .claims
        .retain(|reference, _| members.contains_key(reference));
    work.memory
        .applied
        .retain(|reference, _| members.contains_key(reference));
    let count = members.len();
    let spec = spec(work, actor, members, Exact::Yes);
    write(work, spec).await?;
    // Not before: what was deleted counts for the brake until the ledger is exact.
    work.memory.settled_count = Some(count);
    work.memory.gone.clear();
    let version = api::meta::resource_version(&work.instance).to_owned();
    inventory(work, &plan.inventory_after).await?;
    if api::meta::resource_version(&work.instance) != version {
        work.own.look_again(); // expressions may read annotations, and the plan was made before
    }
    Ok(())
}

/// Names some members no more: they stay in the target, and are the instance's no longer. The others count for the brake as before.
pub(crate) async fn release(work: &mut Work<'_>, kept: &[ObjectRef]) -> Result<(), Pause> {
    let Some(known) = &work.memory.ledger else {
        return Ok(());
    };
    let mut spec = inexact(known);
    spec.members
        .retain(|member| !kept.contains(&reference_of(member)));
    if spec.members.len() == known.members.len() {
        return Ok(());
    }
    write(work, spec).await
}

/// Says whether deletions wait because of those of all instances of the kind: a process that starts knows nothing of the others, and
/// must not let go what this one holds.
pub(crate) async fn note_held(work: &mut Work<'_>) -> Result<(), Pause> {
    let held_revision = work.memory.held_revision;
    match &work.memory.ledger {
        Some(known) if known.held_revision != held_revision => {
            let spec = InventorySpec {
                held_revision,
                ..known.clone()
            };
            write(work, spec).await
        }
        _ => Ok(()),
    }
}

/// Deletes the ledger of an instance that has nothing left in the target.
pub(crate) async fn remove(work: &mut Work<'_>) -> Result<(), Pause> {
    let endpoint = endpoint(work);
    let request = DeleteRequest::default();
    match work
        .engine
        .hub
        .delete(&endpoint, &work.memory.uid, &request)
        .await
    {
        Ok(_) => {}
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error.into()),
    }
    work.memory.ledger = Some(InventorySpec::default());
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exact {
    Yes,
    No,
}

fn spec(
    work: &Work<'_>,
    actor: &Actor,
    members: BTreeMap<ObjectRef, InventoryMember>,
    exact: Exact,
) -> InventorySpec {
    let version = work.instance["apiVersion"]
        .as_str()
        .and_then(|text| text.rsplit('/').next());
    let settled_count = match exact {
        Exact::Yes => Some(members.len()),
        Exact::No => work.memory.settled_count,
    };
    InventorySpec {
        instance: InstanceReference {
            group: work.key.group_kind.group.clone(),
            version: version.unwrap_or_default().to_owned(),
            kind: work.key.group_kind.kind.clone(),
            namespace: work.key.namespace.clone(),
            name: work.key.name.clone(),
            uid: work.memory.uid.clone(),
        },
        mirror_uid: work.memory.mirror_uid.clone(),
        settled_count: settled_count.and_then(|count| u32::try_from(count).ok()),
        exact: exact == Exact::Yes,
        held_revision: work.memory.held_revision,
        acting_as: actor.user().map(|user| user.as_ref().clone()),
        acting_at_hub_as: actor.user_at_hub().map(|user| user.as_ref().clone()),
        members: members.into_values().collect(),
    }
}

/// Returns a ledger that is exact no more, by which the brake counts as before.
fn inexact(known: &InventorySpec) -> InventorySpec {
    InventorySpec {
        settled_count: settled_count(known).and_then(|count| u32::try_from(count).ok()),
        exact: false,
        ..known.clone()
    }
}

/// Returns how many members a ledger had when it was last exact, if it ever was.
fn settled_count(spec: &InventorySpec) -> Option<usize> {
    if spec.exact {
        // Earlier hubs wrote the count of the time before beside it.
        return Some(spec.members.len());
    }
    spec.settled_count
        .and_then(|count| usize::try_from(count).ok())
}

fn intent(expected: &Expected) -> InventoryMember {
    InventoryMember {
        group: expected.gvk.group.clone(),
        version: expected.gvk.version.clone(),
        kind: expected.gvk.kind.clone(),
        resource: expected.gvr.resource.clone(),
        namespace: expected.reference.namespace.clone(),
        name: expected.reference.name.clone(),
        node: expected.node.to_string(),
        order: expected.apply_order,
        ..InventoryMember::default()
    }
}

fn member(apply: &Apply, applied: Option<&Applied>) -> InventoryMember {
    InventoryMember {
        group: apply.gvk.group.clone(),
        version: apply.gvk.version.clone(),
        kind: apply.gvk.kind.clone(),
        resource: apply.gvr.resource.clone(),
        namespace: apply.reference.namespace.clone(),
        name: apply.reference.name.clone(),
        uid: String::new(),
        node: apply.node.to_string(),
        order: apply.apply_order,
        applied: applied.map_or_else(String::new, |applied| {
            let live = applied
                .live
                .map_or_else(String::new, |live| format!("{live:016x}"));
            format!("{:016x}-{live}", applied.desired)
        }),
    }
}

fn applied_of(spec: &InventorySpec) -> BTreeMap<ObjectRef, Applied> {
    let digest = |text: &str| u64::from_str_radix(text, 16).ok();
    spec.members
        .iter()
        .filter_map(|member| {
            let (desired, live) = member.applied.split_once('-')?;
            let applied = Applied {
                desired: digest(desired)?,
                live: digest(live),
            };
            Some((reference_of(member), applied))
        })
        .collect()
}

fn claims_of(spec: &InventorySpec) -> Claims {
    let members = spec.members.iter();
    members
        .map(|member| (reference_of(member), member.uid.clone()))
        .collect()
}

fn reference_of(member: &InventoryMember) -> ObjectRef {
    ObjectRef {
        group: member.group.clone(),
        kind: member.kind.clone(),
        namespace: member.namespace.clone(),
        name: member.name.clone(),
    }
}

fn endpoint(work: &Work<'_>) -> Endpoint {
    Engine::hub_endpoint(&work.target.cluster, &resources::inventories(), "")
}

async fn write(work: &mut Work<'_>, spec: InventorySpec) -> Result<(), Pause> {
    let known = work.memory.ledger.as_ref();
    if known == Some(&spec) {
        return Ok(());
    }
    let fresh = known.is_none_or(|known| known.instance.uid.is_empty());
    let endpoint = endpoint(work);
    let hub = &work.engine.hub;
    let written = if fresh {
        let inventory = Inventory::new(spec.clone()).to_value();
        hub.create(&endpoint, &inventory).await
    } else {
        let patch = json!([{"op": "add", "path": "/spec", "value": spec}]);
        let name = &work.memory.uid;
        hub.patch(&endpoint, name, None, Patch::Json(&patch)).await
    };
    if let Err(error) = written {
        // It may have been written, and name less than what is remembered: it is read again before anything is applied.
        work.memory.ledger = None;
        return Err(error.into());
    }
    work.memory.ledger = Some(spec);
    Ok(())
}

/// Writes kro's own inventory on the hub's instance, where it differs.
async fn inventory(work: &mut Work<'_>, inventory: &graph::Inventory) -> Result<(), Pause> {
    if graph::Inventory::read(&work.instance).is_ok_and(|known| known == *inventory) {
        return Ok(());
    }
    let patch = graph::instance::inventory_patch(&work.instance, inventory, &work.chosen.settings);
    work.apply_to_instance(&patch, api::kro::keys::MANAGER_APPLYSET_PARENT)
        .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{World, key};

    #[test]
    fn an_exact_ledger_counts_what_it_names() {
        let ledger = |exact: bool, settled_count: Option<u32>| InventorySpec {
            exact,
            settled_count,
            members: vec![InventoryMember::default()],
            ..InventorySpec::default()
        };
        for (exact, said, want) in [
            (true, None, Some(1)),
            (true, Some(4), Some(1)),
            (false, Some(4), Some(4)),
            (false, None, None),
        ] {
            let count = settled_count(&ledger(exact, said));
            assert_eq!(count, want, "exact: {exact}, said: {said:?}");
        }
    }

    #[tokio::test]
    async fn a_ledger_that_an_instance_was_not_known_to_have_is_read_before_it_is_written() {
        let (world, parent) = (World::new(), key("Web", "parent"));
        let mut stored = InventorySpec {
            members: vec![InventoryMember::default()],
            ..InventorySpec::default()
        };
        stored.instance.uid = "uid-parent".to_owned();
        let path = "/clusters/east/apis/internal.wheelhouse.dev/v1alpha1/inventories/uid-parent";
        world
            .hub
            .put(path, Inventory::new(stored.clone()).to_value());
        let mut work = world.work(&parent);

        begin(&mut work);
        let spec = InventorySpec {
            instance: stored.instance.clone(),
            ..InventorySpec::default()
        };
        let refused = write(&mut work, spec).await;
        assert!(refused.is_err(), "it would name less than it does");
        recall(&mut work).await.expect("it can be read");
        assert_eq!(
            work.memory.ledger.as_ref(),
            Some(&stored),
            "it is what was stored"
        );

        let mut work = world.work(&parent);
        begin(&mut work);
        recall_surely(&mut work).await.expect("it can be read");
        assert_eq!(
            work.memory.ledger.as_ref(),
            Some(&stored),
            "a deletion reads it"
        );
    }
}
