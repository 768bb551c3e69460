//! A spoke's own controllers: they establish definitions after a while, and open gates.

use std::sync::Arc;

use serde_json::json;
use tasks::Tasks;

use crate::{
    dice::Dice,
    spoke::{Key, Spoke, Writer},
};

/// How long a cluster takes for what it does by itself, at most, in milliseconds.
const DELAY_MAX: u64 = 3_000;

/// Starts the controllers of a spoke.
pub(super) fn start(tasks: &Tasks, spoke: &Arc<Spoke>, dice: &Arc<Dice>) {
    let (spoke, dice) = (Arc::clone(spoke), Arc::clone(dice));
    tasks.spawn("controllers", async move {
        let mut changed = spoke.subscribe();
        loop {
            changed.mark_unchanged();
            let definitions = spoke.definitions_pending();
            let gates = closed_gates(&spoke);
            if definitions.is_empty() && gates.is_empty() {
                if changed.changed().await.is_err() {
                    return;
                }
                continue;
            }
            tokio::time::sleep(dice.millis(DELAY_MAX)).await;
            for definition in definitions {
                spoke.establish(&definition);
            }
            for gate in gates {
                open(&spoke, &gate);
            }
        }
    });
}

fn closed_gates(spoke: &Spoke) -> Vec<Key> {
    spoke.find(|key, object| {
        key.resource == "configmaps"
            && key.name.ends_with("-gate")
            && object["data"]["open"].is_null()
            && spoke.is_of_hub(object)
    })
}

fn open(spoke: &Spoke, gate: &Key) {
    if let Some(object) = spoke.get(gate).filter(|object| spoke.is_of_hub(object)) {
        let mut object = (*object).clone();
        object["data"]["open"] = json!("yes");
        spoke.put(gate.clone(), object, Writer::System);
    }
}
