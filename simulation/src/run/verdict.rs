//! The verdict once faults have ended: every spoke holds what the definitions say, and every status says so.

use std::time::Duration;

use api::{
    kro::keys,
    wheelhouse::keys::{ANNOTATION_CONFIRM_DELETIONS, REASON_CONFIRMATION_REQUIRED},
};
use serde_json::{Value, json};

use super::{World, foreign};
use crate::{
    definition::{Expectation, NAMESPACE, OUTSIDE},
    fleet::{self, Failure},
    judge::{Instance, is_kept, is_retained},
    spoke::{Key, Spoke},
};

/// How long convergence may take: the longest backoff is 30 s, and a watch that says nothing is followed for five minutes.
pub(super) const PATIENCE_SECONDS: u64 = 900;

/// Waits until everything is as users want it, and stays so.
///
/// # Errors
/// What is still otherwise, when it has taken too long.
pub(super) async fn await_convergence(world: &World) -> Result<(), Failure> {
    let mut last = String::new();
    let mut calm_seconds = 0;
    for _ in 0..PATIENCE_SECONDS {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if !world.fleet.judge.violations().is_empty() {
            return Ok(()); // they are told instead
        }
        confirm_deletions(world).await?;
        match differs(world).await {
            Ok(()) => {
                calm_seconds += 1;
                if calm_seconds >= 5 {
                    return Ok(());
                }
            }
            Err(difference) => {
                calm_seconds = 0;
                last = difference;
            }
        }
    }
    Err(format!("converges: {last}"))
}

/// Does what statuses ask for: where most children would go, that is meant.
async fn confirm_deletions(world: &World) -> Result<(), Failure> {
    let key = ANNOTATION_CONFIRM_DELETIONS;
    for instance in world.fleet.judge.instances() {
        let (object, cluster) = (&instance.object, &instance.cluster);
        let question = question_of(object);
        let Some(outcome) = question.and_then(|it| asked_for(it, key)) else {
            continue;
        };
        if api::meta::annotation(object, key) == Some(outcome) {
            continue;
        }
        let mut definitions = world.definitions.values();
        if let Some(definition) = definitions.find(|it| object["kind"] == it.kind()) {
            let endpoint = fleet::instances(definition, cluster)?;
            let name = api::meta::name(object);
            world
                .fleet
                .annotate(&endpoint, name, (key, outcome))
                .await?;
        }
    }
    Ok(())
}

/// Returns what all instances ask that wait for a confirmation.
pub(super) fn questions(world: &World) -> Vec<String> {
    let instances = world.fleet.judge.instances();
    let questions = instances.iter().filter_map(|it| question_of(&it.object));
    questions.map(str::to_owned).collect()
}

fn question_of(object: &Value) -> Option<&str> {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let asking = conditions.rfind(|it| it["reason"] == REASON_CONFIRMATION_REQUIRED)?;
    asking["message"].as_str()
}

/// Returns the value that a question asks for first, as an annotation.
fn asked_for<'m>(message: &'m str, key: &str) -> Option<&'m str> {
    let (_, rest) = message.split_once(&format!("{key}="))?;
    rest.split(|it: char| !it.is_ascii_alphanumeric()).next()
}

async fn differs(world: &World) -> Result<(), Failure> {
    hub_differs(world)?;
    spokes_differ(world)?;
    let ledgers = world.fleet.judge.ledgers_left();
    if !ledgers.is_empty() {
        return Err(format!("ledgers of {ledgers:?} are left"));
    }
    for name in &world.removed {
        let endpoint = fleet::spokes_endpoint();
        if world.fleet.read(&endpoint, name).await?.is_some() {
            return Err(format!("spoke {name} is still there"));
        }
    }
    Ok(())
}

/// Compares all spokes with what their instances are to have.
pub(super) fn spokes_differ(world: &World) -> Result<(), Failure> {
    let mut spokes = world.fleet.spokes.values();
    spokes.try_for_each(|spoke| spoke_differs(world, spoke))
}

/// Compares the hub's instances with what users want.
fn hub_differs(world: &World) -> Result<(), Failure> {
    let instances = world.fleet.judge.instances();
    if instances.len() != world.instances.len() {
        let named = |it: &Instance| {
            let conditions = it.object["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            let ready = conditions.find(|it| it["type"] == keys::CONDITION_READY);
            let told = ready.map(|it| it["message"].clone()).unwrap_or_default();
            format!("{}/{}: {told}", it.cluster, api::meta::name(&it.object))
        };
        let names: Vec<String> = instances.iter().map(named).collect();
        let wanted: Vec<_> = world.instances.keys().collect();
        return Err(format!("the hub has {names:?}, wanted are {wanted:?}"));
    }
    for instance in instances {
        let object = &instance.object;
        let name = api::meta::name(object);
        let place = world
            .instances
            .iter()
            .find(|((cluster, definition, known), _)| {
                known == name
                    && *cluster == instance.cluster
                    && world
                        .definitions
                        .get(definition)
                        .is_some_and(|it| object["kind"] == it.kind())
            });
        let Some((_, wish)) = place else {
            return Err(format!(
                "instance {name} of {} is not wanted",
                instance.cluster
            ));
        };
        let generation = &object["metadata"]["generation"];
        let conditions = object["status"]["conditions"].as_array();
        let is_ready = conditions.into_iter().flatten().any(|it| {
            it["type"] == keys::CONDITION_READY
                && it["status"] == "True"
                && it["observedGeneration"] == *generation
        });
        if !is_ready {
            let conditions = object["status"]["conditions"].as_array();
            let told: Vec<&str> = conditions
                .into_iter()
                .flatten()
                .filter(|it| it["status"] != "True")
                .filter_map(|it| it["message"].as_str())
                .collect();
            return Err(format!(
                "{name} of {} is not ready: {told:?}",
                instance.cluster
            ));
        }
        let shown = wish.rev.to_string();
        if object["status"]["shown"] != shown.as_str() {
            return Err(format!("{name} shows {}", object["status"]["shown"]));
        }
    }
    Ok(())
}

/// Compares a spoke with what its instances are to have.
fn spoke_differs(world: &World, spoke: &Spoke) -> Result<(), Failure> {
    let outside = Key::new("", "configmaps", NAMESPACE, OUTSIDE);
    let outside = spoke.get(&outside);
    let outside = outside
        .as_deref()
        .and_then(|it| it["data"]["value"].as_str());
    let mut wanted = Expectation::new();
    for ((cluster, definition, name), wish) in &world.instances {
        if cluster == spoke.name()
            && let Some(definition) = world.definitions.get(definition)
        {
            definition.expect(name, wish, outside.unwrap_or_default(), &mut wanted);
        }
    }
    for (key, want) in &wanted {
        let Some(live) = spoke.get(key) else {
            return Err(format!("{key} is missing in {}", spoke.name()));
        };
        if !holds(&live["data"], &want["data"]) {
            let (live, want) = (&live["data"], &want["data"]);
            return Err(format!(
                "{key} in {} is {live}, wanted {want}",
                spoke.name()
            ));
        }
    }
    for (key, object) in spoke.objects() {
        let labels = &object["metadata"]["labels"];
        let is_child = !labels[keys::LABEL_INSTANCE_ID].is_null();
        let is_left = is_child
            && !wanted.contains_key(&key)
            && !key.name.starts_with(foreign::BYSTANDER)
            && !is_retained(&object)
            && !world.set_back.contains(spoke.name());
        if is_left {
            return Err(format!("{key} is left in {}", spoke.name()));
        }
        if !wanted.contains_key(&key) && is_kept(&object) && is_bound(&object) {
            return Err(format!("{key} stays in {}, and is not free", spoke.name()));
        }
    }
    mirrors_differ(world, spoke)
}

/// Returns whether an object that stays would go after its instance, or is still written as a part of it.
fn is_bound(object: &Value) -> bool {
    let is_owned = !object["metadata"]["ownerReferences"].is_null()
        && object["metadata"]["ownerReferences"] != json!([]);
    let managers = object["metadata"]["managedFields"].as_array();
    let mut managers = managers.into_iter().flatten();
    let is_applied = managers.any(|it| it["manager"] == keys::MANAGER_APPLYSET);
    is_owned || is_applied && !is_retained(object)
}

/// Compares the copies of instances in a spoke with the instances.
fn mirrors_differ(world: &World, spoke: &Spoke) -> Result<(), Failure> {
    if world.removed.contains(spoke.name()) {
        return Ok(()); // nobody speaks to it any more
    }
    for definition in world.definitions.values() {
        let resource = definition.resource();
        let objects = spoke.objects();
        let mirrors: Vec<&Key> = objects
            .keys()
            .filter(|key| key.group == api::kro::GROUP && key.resource == resource)
            .collect();
        for mirror in &mirrors {
            let place = (
                spoke.name().to_owned(),
                definition.name.clone(),
                mirror.name.clone(),
            );
            if !world.instances.contains_key(&place) {
                return Err(format!("the mirror {mirror} is left in {}", spoke.name()));
            }
        }
        let wanted = world
            .instances
            .keys()
            .filter(|place| place.0 == spoke.name() && place.1 == definition.name);
        if wanted.count() != mirrors.len() {
            return Err(format!(
                "mirrors of {resource} are missing in {}",
                spoke.name()
            ));
        }
    }
    Ok(())
}

/// Returns whether an object has all fields that are wanted.
fn holds(live: &Value, want: &Value) -> bool {
    let fields = want.as_object().into_iter().flatten();
    fields.into_iter().all(|(key, value)| live[key] == *value)
}
