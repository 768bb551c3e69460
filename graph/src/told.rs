//! What this project adds to the schema of an instance's status, where the gate `InstanceNodeStatus` is open
//! ([`node_status`](crate::node_status) fills it in).

use serde_json::{Value, json};

/// How the nodes are.
pub(crate) const NODES: &str = "nodes";
/// How many nodes are left out.
pub(crate) const NODES_OMITTED: &str = "nodesOmitted";
/// Which objects are managed.
pub(crate) const MANAGED: &str = "managedResources";
/// How many objects are left out.
pub(crate) const MANAGED_OMITTED: &str = "managedResourcesOmitted";

/// By which revision of its definition the instance was reconciled last.
pub(crate) const REVISION: &str = "graphRevision";

/// Which parts the status of instances has; the author may have taken the name of one.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Told {
    pub(crate) nodes: bool,
    pub(crate) managed: bool,
    pub(crate) revision: bool,
}

/// Declares the parts in the schema of a status, but for those whose names the author has taken.
pub(crate) fn declare(status: &mut Value) -> Told {
    if !status["properties"].is_object() {
        status["properties"] = json!({});
    }
    let Some(properties) = status["properties"].as_object_mut() else {
        return Told::default();
    };
    let mut add = |parts: Vec<(&str, Value)>| {
        let is_free = parts
            .iter()
            .all(|(name, _)| !properties.contains_key(*name));
        if is_free {
            let parts = parts.into_iter();
            properties.extend(parts.map(|(name, schema)| (name.to_owned(), schema)));
        }
        is_free
    };
    let [nodes, managed, revision] = schemas();
    Told {
        nodes: add(nodes),
        managed: add(managed),
        revision: add(revision),
    }
}

/// Takes the parts out of the schema of a live definition that has them as they are declared, where the wanted one has them not: to
/// stop saying them breaks nobody.
pub(crate) fn forgive(live: &mut Value, wanted: &Value) {
    const STATUS: &str = "/schema/openAPIV3Schema/properties/status/properties";
    let Some(properties) = live.pointer_mut(STATUS).and_then(Value::as_object_mut) else {
        return;
    };
    for (name, schema) in schemas().into_iter().flatten() {
        let is_ours = properties.get(name) == Some(&schema);
        if is_ours && wanted.pointer(&format!("{STATUS}/{name}")).is_none() {
            properties.remove(name);
        }
    }
}

fn schemas() -> [Vec<(&'static str, Value)>; 3] {
    let text = || json!({"type": "string"});
    let count = || json!({"type": "integer"});
    let list =
        |fields: Value| json!({"type": "array", "items": {"type": "object", "properties": fields}});
    let node = json!({
        "id": text(), "state": text(), "reason": text(), "message": text(), "desired": count(), "observed": count(),
        "lastTransitionTime": text(),
    });
    let managed = json!({
        "nodeID": text(), "apiVersion": text(), "kind": text(), "namespace": text(), "name": text(), "uid": text(),
    });
    [
        vec![(NODES, list(node)), (NODES_OMITTED, count())],
        vec![(MANAGED, list(managed)), (MANAGED_OMITTED, count())],
        vec![(REVISION, count())],
    ]
}
