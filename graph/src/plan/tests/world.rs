//! A cluster that does what it is told, and what a plan looks like in one line.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::kro::RgdSpec;
use serde_json::{Value, json};

use super::super::{Change, Plan, PlanInput};
use crate::resolve::builtin_kinds::BuiltinKinds;
use crate::{Applied, CompiledGraph, ObjectRef, Observed, Settings, compile};

/// When the world is.
const NOW: &str = "2026-01-01T00:00:05Z";

pub(crate) struct World {
    pub(crate) graph: Arc<CompiledGraph>,
    pub(crate) instance: Value,
    pub(crate) observed: Observed,
    pub(crate) settings: Settings,
    live: BTreeMap<ObjectRef, Arc<Value>>,
}

impl World {
    pub(crate) fn new(definition: Value, instance: Value) -> Self {
        let spec: RgdSpec = serde_json::from_value(definition).expect("is a spec");
        let graph = compile(&spec, "test", &BuiltinKinds).unwrap_or_else(|error| panic!("{error}"));
        Self {
            graph,
            instance,
            observed: Observed::new(),
            settings: Settings::default(),
            live: BTreeMap::new(),
        }
    }

    pub(crate) fn plan(&self) -> Plan {
        let Self {
            instance,
            observed,
            settings,
            ..
        } = self;
        self.graph.plan(&PlanInput {
            instance,
            observed,
            settings,
        })
    }

    /// Does what the plan asks for; the answers are seen at once.
    pub(crate) fn apply(&mut self, plan: &Plan) {
        for apply in plan.changes() {
            let mut live = self
                .live
                .get(&apply.reference)
                .map_or_else(|| json!({}), |live| (**live).clone());
            merge(&mut live, &apply.object);
            live["metadata"]["uid"] = json!(format!("uid-{}", apply.id));
            self.observed
                .applied(&apply.reference, Applied::of(&apply.object, &live));
            self.put(live);
        }
    }

    /// Applies until there is nothing to do, with a deployment that becomes ready.
    pub(crate) fn settled(mut self) -> Self {
        for _round in 0..10 {
            let plan = self.plan();
            if plan.settled() {
                return self;
            }
            self.apply(&plan);
            self.edit("Deployment", "demo", |live| {
                live["status"] = json!({"readyReplicas": live["spec"]["replicas"]});
            });
        }
        panic!("does not settle: {:?}", self.plan());
    }

    /// Changes a live object, if it is there.
    pub(crate) fn edit(&mut self, kind: &str, name: &str, edit: impl FnOnce(&mut Value)) {
        let found = self
            .live
            .iter()
            .find(|(reference, _)| reference.kind == kind && reference.name == name);
        if let Some((_, live)) = found {
            let mut live = (**live).clone();
            edit(&mut live);
            self.put(live);
        }
    }

    pub(crate) fn delete(&mut self, kind: &str, name: &str) {
        let reference = self
            .live
            .keys()
            .find(|reference| reference.kind == kind && reference.name == name);
        let reference = reference.expect("is there").clone();
        self.live.remove(&reference);
        self.observed.remove_child(&reference);
    }

    pub(crate) fn members(&self) -> Vec<Arc<Value>> {
        self.live.values().map(Arc::clone).collect()
    }

    pub(crate) fn status(&self) -> Value {
        self.graph.status(&self.instance, &self.plan(), NOW)
    }

    /// Status, reason and message of a condition.
    pub(crate) fn condition(&self, kind: &str) -> (String, String, String) {
        let status = self.status();
        let conditions = status["conditions"].as_array().expect("a list");
        let found = conditions
            .iter()
            .find(|condition| condition["type"] == kind)
            .expect("is there");
        let text = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
        (text("status"), text("reason"), text("message"))
    }

    fn put(&mut self, live: Value) {
        let live = Arc::new(live);
        self.live.insert(ObjectRef::of(&live), Arc::clone(&live));
        self.observed.child(live);
    }
}

fn merge(live: &mut Value, desired: &Value) {
    match (live, desired) {
        (Value::Object(live), Value::Object(desired)) => {
            for (key, value) in desired {
                merge(live.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (live, desired) => *live = desired.clone(),
    }
}

fn mark(change: Change) -> &'static str {
    match change {
        Change::Create => "+",
        Change::Update => "~",
        Change::Unchanged => "",
    }
}

/// The ids that a plan wants, with `+` for those it would make and `~` for those it would change.
pub(crate) fn applies(plan: &Plan) -> String {
    let ids: Vec<String> = plan
        .applies
        .iter()
        .map(|apply| format!("{}{}", apply.id, mark(apply.change)))
        .collect();
    ids.join(" ")
}

/// The same, of changes only.
pub(crate) fn changes(plan: &Plan) -> String {
    let ids: Vec<String> = plan
        .changes()
        .map(|apply| format!("{}{}", apply.id, mark(apply.change)))
        .collect();
    ids.join(" ")
}

pub(crate) fn states(plan: &Plan) -> String {
    let states: Vec<String> = plan
        .nodes
        .iter()
        .map(|node| format!("{} {}", node.id, node.state.as_str()))
        .collect();
    states.join(", ")
}

/// The waves of a prune, each with its node.
pub(crate) fn prunes(world: &World) -> String {
    let plan = world.plan();
    let waves: Vec<String> = plan
        .prune(&world.members())
        .iter()
        .map(|wave| {
            let node = plan.nodes.get(wave.position).map_or("?", |node| &node.id);
            let names: Vec<&str> = wave
                .objects
                .iter()
                .map(|object| api::meta::name(object))
                .collect();
            format!("{node}: {}", names.join(" "))
        })
        .collect();
    waves.join("; ")
}
