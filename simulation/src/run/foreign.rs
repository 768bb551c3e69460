//! What people and tools in a spoke do, who know nothing of the hub.

use std::{sync::Arc, time::Duration};

use api::{kro::keys, wheelhouse::keys::ANNOTATION_DELETION_POLICY};
use serde_json::{Value, json};

use super::World;
use crate::{
    definition::{Expectation, NAMESPACE, OUTSIDE},
    dice::Dice,
    network::Interloper,
    spoke::{Asked, Key, Spoke, Writer, key_of},
};

/// Objects that are in nobody's way and must stay as they are.
pub(super) const BYSTANDER: &str = "bystander-";

/// A finalizer of somebody who lets go in the end.
const HOLD: &str = "example.com/hold";

/// How long that takes.
const HOLD_DURATION: Duration = Duration::from_secs(40);

/// The mark of objects of the hub that were made to look as if they were another instance's: nobody touches them any more.
pub(super) const ALTERED: &str = "altered";

/// The mark of what takes names that definitions want; gone in the end.
const SQUATTER: &str = "squatter";

/// Does one thing in one spoke.
pub(super) fn act(world: &World) {
    let dice = &world.fleet.dice;
    let spokes: Vec<&Arc<Spoke>> = world.fleet.spokes.values().collect();
    let Some(spoke) = dice.pick(&spokes) else {
        return;
    };
    let children = children_of_hub(spoke);
    let child = dice.pick(&children);
    if world.plan.happens.kept && dice.chance(200) {
        return take_over(spoke, dice);
    }
    match dice.below(7) {
        0 => refer(spoke, dice),
        1 => squat_somewhere(world, spoke),
        2 | 3 => child.into_iter().for_each(|key| edit(spoke, key, dice)),
        4 => child
            .into_iter()
            .for_each(|key| spoke.remove(key, Writer::Foreign)),
        5 => child.into_iter().for_each(|key| squat(spoke, key)),
        _ => child
            .into_iter()
            .for_each(|key| imitate(spoke, key, dice.below(1000))),
    }
}

/// Lets somebody act on the very object that the hub is about to write.
pub(super) fn place_interloper(world: &World) {
    let dice = Arc::clone(&world.fleet.dice);
    let are_kept = world.plan.happens.kept;
    let interloper: Interloper = Arc::new(move |spoke: &Spoke, asked: &Asked| {
        let Some(key) = key_of(asked).filter(is_of_templates) else {
            return;
        };
        if are_kept && dice.chance(500) {
            return protect(spoke, &key);
        }
        match dice.below(3) {
            0 => spoke.remove(&key, Writer::Foreign),
            1 if spoke.get(&key).is_some() => edit(spoke, &key, &dice),
            _ => squat(spoke, &key),
        }
    });
    world.fleet.network.set_interloper(Some(interloper));
}

/// Lets somebody say that an object stays.
fn protect(spoke: &Spoke, key: &Key) {
    if let Some(object) = spoke.get(key) {
        let mut object = (*object).clone();
        object["metadata"]["annotations"][ANNOTATION_DELETION_POLICY] = json!("Retain");
        spoke.put(key.clone(), object, Writer::Foreign);
    }
}

/// Lets somebody have an orphan for himself, who cleans up what it says of policies.
fn take_over(spoke: &Spoke, dice: &Dice) {
    let is_orphan = |object: &Value| {
        api::meta::annotation(object, ANNOTATION_DELETION_POLICY) == Some("Orphan")
            && api::meta::label(object, keys::LABEL_INSTANCE_ID).is_none()
    };
    let orphans = spoke.find(|key, object| is_of_templates(key) && is_orphan(object));
    let Some(key) = dice.pick(&orphans) else {
        return;
    };
    if let Some(object) = spoke.get(key) {
        let mut object = (*object).clone();
        object["metadata"]["annotations"] = json!({});
        spoke.put(key.clone(), object, Writer::Foreign);
    }
}

/// Alters one field by which an object of the hub belongs to something, or is held.
pub(super) fn alter_link(world: &World) {
    let dice = &world.fleet.dice;
    let spokes: Vec<&Arc<Spoke>> = world.fleet.spokes.values().collect();
    let Some(spoke) = dice.pick(&spokes) else {
        return;
    };
    let mut children = children_of_hub(spoke);
    // Until the hub has noted that an object is its own, nothing but the links says so.
    children.retain(|key| {
        let live = spoke.get(key);
        live.is_some_and(|live| world.fleet.judge.is_confirmed(api::meta::uid(&live)))
    });
    let (Some(key), Some(other)) = (dice.pick(&children), dice.pick(&children)) else {
        return;
    };
    let (Some(object), Some(other)) = (spoke.get(key), spoke.get(other)) else {
        return;
    };
    let set = &object["metadata"]["labels"][keys::LABEL_APPLYSET_PART_OF];
    let set = set.clone();
    let mut object = (*object).clone();
    // Other labels in place of all do not undo what was done before.
    let was_altered = !object["metadata"]["labels"][ALTERED].is_null();
    let labels = [
        keys::LABEL_INSTANCE_ID,
        keys::LABEL_INSTANCE_NAME,
        keys::LABEL_APPLYSET_PART_OF,
        keys::LABEL_NODE_ID,
        keys::LABEL_OWNED,
        api::wheelhouse::keys::HUB,
    ];
    match dice.below(10) {
        0 => object["metadata"]["finalizers"] = json!([HOLD]),
        1 => {
            object["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap",
                "name": OUTSIDE, "uid": "nobody"}]);
        }
        2 => object["metadata"]["labels"] = other["metadata"]["labels"].clone(),
        3..=5 => {
            if let (Some(label), Some(labels)) = (
                dice.pick(&labels),
                object["metadata"]["labels"].as_object_mut(),
            ) {
                labels.remove(*label);
            }
        }
        _ => {
            if let Some(label) = dice.pick(&labels) {
                let foreign = other["metadata"]["labels"][*label].clone();
                if !foreign.is_null() {
                    object["metadata"]["labels"][*label] = foreign;
                }
            }
        }
    }
    let altered = &object["metadata"]["labels"][keys::LABEL_APPLYSET_PART_OF];
    if was_altered || !altered.is_null() && *altered != set {
        object["metadata"]["labels"][ALTERED] = json!("yes");
    }
    spoke.put(key.clone(), object, Writer::Foreign);
    let (spoke, key) = (Arc::clone(spoke), key.clone());
    world
        .fleet
        .later(HOLD_DURATION, move || let_go(&spoke, &key));
}

/// Takes off the finalizer that somebody has put on.
fn let_go(spoke: &Spoke, key: &Key) {
    let Some(object) = spoke.get(key) else {
        return;
    };
    if !api::meta::has_finalizer(&object, HOLD) {
        return;
    }
    if api::meta::is_terminating(&object) {
        spoke.remove(key, Writer::Foreign);
        return;
    }
    let mut object = (*object).clone();
    object["metadata"]["finalizers"] = json!([]);
    spoke.put(key.clone(), object, Writer::Foreign);
}

/// Takes away what stands in the way of definitions.
pub(super) fn withdraw(world: &World) {
    for spoke in world.fleet.spokes.values() {
        for (key, object) in spoke.objects() {
            let_go(spoke, &key);
            let labels = &object["metadata"]["labels"];
            // What says that it is another instance's is left alone until somebody deletes it.
            if !labels[SQUATTER].is_null() || !labels[ALTERED].is_null() {
                spoke.remove(&key, Writer::Foreign);
            }
        }
    }
}

/// Returns whether templates make objects of this kind.
fn is_of_templates(key: &Key) -> bool {
    matches!(
        key.resource.as_str(),
        "configmaps" | "secrets" | "clusterroles"
    ) && !key.name.is_empty()
}

fn children_of_hub(spoke: &Spoke) -> Vec<Key> {
    spoke.find(|key, object| is_of_templates(key) && spoke.is_of_hub(object))
}

/// Changes the object that definitions refer to.
fn refer(spoke: &Spoke, dice: &Dice) {
    let key = Key::new("", "configmaps", NAMESPACE, OUTSIDE);
    if let Some(object) = spoke.get(&key) {
        let mut object = (*object).clone();
        object["data"]["value"] = json!(format!("v{}", dice.below(1000)));
        spoke.put(key, object, Writer::Foreign);
    }
}

/// Changes a field that the hub owns.
fn edit(spoke: &Spoke, key: &Key, dice: &Dice) {
    let Some(object) = spoke.get(key) else {
        return;
    };
    let mut object = (*object).clone();
    let edited = format!("edited-{}", dice.below(100));
    match key.resource.as_str() {
        "clusterroles" => object["metadata"]["labels"]["flavor"] = json!(edited),
        "secrets" => object["data"]["flavor"] = json!("ZWRpdGVk"),
        _ => object["data"]["flavor"] = json!(edited),
    }
    spoke.put(key.clone(), object, Writer::Foreign);
}

/// Takes a name: what was there is replaced by an object of another uid.
fn squat(spoke: &Spoke, key: &Key) {
    spoke.remove(key, Writer::Foreign);
    let (api_version, kind) = match key.resource.as_str() {
        "clusterroles" => ("rbac.authorization.k8s.io/v1", "ClusterRole"),
        "secrets" => ("v1", "Secret"),
        _ => ("v1", "ConfigMap"),
    };
    let object =
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"labels": {SQUATTER: "yes"}}});
    spoke.put(key.clone(), object, Writer::Foreign);
}

fn squat_somewhere(world: &World, spoke: &Spoke) {
    let mut wanted = Expectation::new();
    for ((cluster, definition, name), wish) in &world.instances {
        if cluster == spoke.name()
            && let Some(definition) = world.definitions.get(definition)
        {
            let mut wish = wish.clone();
            wish.extra = true;
            wish.names = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
            definition.expect(name, &wish, "", &mut wanted);
        }
    }
    let free: Vec<Key> = wanted
        .into_keys()
        .filter(|key| spoke.get(key).is_none())
        .collect();
    if let Some(key) = world.fleet.dice.pick(&free) {
        squat(spoke, key);
    }
}

/// Makes an object that bears all labels and annotations of a child under another name.
fn imitate(spoke: &Spoke, key: &Key, number: u64) {
    let Some(object) = spoke.get(key) else {
        return;
    };
    let mut object: Value = (*object).clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|field, _| field == "labels" || field == "annotations");
    }
    let name = format!("{BYSTANDER}{number}");
    let key = Key {
        name,
        ..key.clone()
    };
    if spoke.get(&key).is_none() {
        spoke.put(key, object, Writer::Foreign);
    }
}
