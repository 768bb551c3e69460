use std::sync::Arc;

use api::wheelhouse::{API_VERSION, SPOKE_KIND, keys::ANNOTATION_SIMULATE};
use client::reflector::RawObject;
use serde_json::{Value, json};
use tasks::Shutdown;

use crate::{
    Action,
    clusters::Simulated,
    plan,
    world::{Kind, World},
};

const NOW: &str = "2026-01-01T00:00:00Z";

/// Plays the API: performs actions on the world until nothing is left to do.
fn settle(world: &mut World) -> usize {
    let mut serial = 0;
    for round in 0..50 {
        let actions = plan(world, NOW);
        if actions.is_empty() {
            return round;
        }
        for action in actions {
            serial += 1;
            match action {
                Action::Create(kind, mut object) => {
                    // The name makes it unique over several calls, which all count from zero.
                    let name = api::meta::name(&object).to_owned();
                    object["metadata"]["uid"] = json!(format!("uid-{name}-{round}-{serial}"));
                    object["metadata"]["generation"] = json!(1);
                    world.put(kind, Arc::new(object));
                }
                Action::Status(kind, object) => world.put(kind, Arc::new(object)),
                Action::Change(kind, mut object, patch) => {
                    merge(&mut object, &patch);
                    world.put(kind, Arc::new(object));
                }
                Action::Delete(kind, object) => world.remove(kind, &object),
            }
        }
    }
    panic!("the simulation does not settle");
}

fn merge(into: &mut Value, patch: &Value) {
    match (into.as_object_mut(), patch.as_object()) {
        (Some(fields), Some(patch)) => {
            for (key, value) in patch {
                merge(fields.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        _ => *into = patch.clone(),
    }
}

fn object(kind: Kind, spec: &Value) -> Value {
    json!({
        "apiVersion": kind.gvr().group_version().to_string(),
        "kind": kind.name(),
        "metadata": {"name": "web", "namespace": "default", "uid": "uid-web", "generation": 1},
        "spec": spec,
    })
}

fn workload(replicas: i64) -> Value {
    json!({
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web:1"}]},
        },
    })
}

fn only(world: &World, kind: Kind) -> &Value {
    world.all(kind).next().expect("there is one")
}

#[test]
fn a_deployment_becomes_available_with_a_replica_set_and_its_pods() {
    let mut world = World::default();
    world.put(
        Kind::Deployment,
        Arc::new(object(Kind::Deployment, &workload(3))),
    );
    settle(&mut world);
    let deployment = only(&world, Kind::Deployment);
    assert_eq!(deployment["status"]["availableReplicas"], 3, "{deployment}");
    assert_eq!(
        deployment["status"]["observedGeneration"], 1,
        "{deployment}"
    );
    assert_eq!(world.all(Kind::ReplicaSet).count(), 1, "one ReplicaSet");
    assert_eq!(world.all(Kind::Pod).count(), 3, "three Pods");
}

#[test]
fn a_changed_template_replaces_the_replica_set_and_a_smaller_count_the_pods() {
    let mut world = World::default();
    world.put(
        Kind::Deployment,
        Arc::new(object(Kind::Deployment, &workload(3))),
    );
    settle(&mut world);
    let mut changed = only(&world, Kind::Deployment).clone();
    changed["spec"]["replicas"] = json!(1);
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = json!("web:2");
    world.put(Kind::Deployment, Arc::new(changed));
    settle(&mut world);
    assert_eq!(world.all(Kind::ReplicaSet).count(), 1, "the old one went");
    let images: Vec<&Value> = world
        .all(Kind::Pod)
        .map(|pod| &pod["spec"]["containers"][0]["image"])
        .collect();
    assert_eq!(images, [&json!("web:2")], "the new Pod alone");
}

#[test]
fn what_loses_its_owner_goes() {
    let mut world = World::default();
    world.put(
        Kind::Deployment,
        Arc::new(object(Kind::Deployment, &workload(2))),
    );
    settle(&mut world);
    let deployment = only(&world, Kind::Deployment).clone();
    world.remove(Kind::Deployment, &deployment);
    settle(&mut world);
    assert_eq!(world.all(Kind::ReplicaSet).count(), 0, "no ReplicaSet");
    assert_eq!(world.all(Kind::Pod).count(), 0, "no Pod");
}

#[test]
fn every_other_kind_becomes_ready_too() {
    let cases: [(Kind, Value, &str, Value); 6] = [
        (Kind::StatefulSet, workload(2), "readyReplicas", json!(2)),
        (Kind::DaemonSet, workload(1), "numberReady", json!(1)),
        (
            Kind::Job,
            json!({"completions": 2, "template": {"spec": {}}}),
            "succeeded",
            json!(2),
        ),
        (
            Kind::Pod,
            json!({"containers": []}),
            "phase",
            json!("Running"),
        ),
        (
            Kind::Pod,
            json!({"containers": [{"name": "test"}], "restartPolicy": "Never"}),
            "phase",
            json!("Succeeded"),
        ),
        (
            Kind::Claim,
            json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}),
            "phase",
            json!("Bound"),
        ),
    ];
    for (kind, spec, field, want) in cases {
        let mut world = World::default();
        world.put(kind, Arc::new(object(kind, &spec)));
        settle(&mut world);
        let object = only(&world, kind);
        assert_eq!(object["status"][field], want, "{kind:?}: {object}");
    }
}

#[test]
fn only_a_load_balancer_gets_an_address() {
    for (kind, want) in [("LoadBalancer", true), ("ClusterIP", false)] {
        let mut world = World::default();
        world.put(
            Kind::Service,
            Arc::new(object(Kind::Service, &json!({"type": kind}))),
        );
        settle(&mut world);
        let service = only(&world, Kind::Service);
        assert_eq!(
            !service["status"]["loadBalancer"].is_null(),
            want,
            "{kind}: {service}"
        );
    }
}

#[test]
fn what_somebody_else_makes_ready_is_left_alone() {
    let mut world = World::default();
    for kind in Kind::ALL {
        let mut spec = workload(1);
        spec["type"] = json!("LoadBalancer");
        let mut object = object(kind, &spec);
        object["metadata"]["annotations"] = json!({ANNOTATION_SIMULATE: "false"});
        world.put(kind, Arc::new(object));
    }
    assert_eq!(plan(&world, NOW), [], "nothing is done");
    let mut deployment = only(&world, Kind::Deployment).clone();
    deployment["metadata"]["annotations"] = json!({ANNOTATION_SIMULATE: "true"});
    world.put(Kind::Deployment, Arc::new(deployment));
    settle(&mut world);
    let deployment = only(&world, Kind::Deployment);
    assert_eq!(deployment["status"]["readyReplicas"], 1, "{deployment}");
    assert_eq!(
        world.all(Kind::ReplicaSet).count(),
        2,
        "the Deployment has one of its own"
    );
}

#[test]
fn embedded_clusters_are_simulated_once_they_are_served_and_unless_their_spoke_says_no() {
    let spoke = |provider: &str, reachable: &str, simulate: Option<&str>| {
        let annotations = simulate.map(|value| json!({ANNOTATION_SIMULATE: value}));
        let spoke = json!({
            "apiVersion": API_VERSION, "kind": SPOKE_KIND,
            "metadata": {"name": "east", "resourceVersion": "1", "annotations": annotations},
            "spec": {"provider": provider},
            "status": {"conditions": [{"type": "Reachable", "status": reachable}]},
        });
        RawObject::from_value(&spoke).expect("a Spoke")
    };
    let mut simulated = Simulated::default();
    let mut started: Vec<Shutdown> = Vec::new();
    // What becomes of the cluster with each state of its Spoke: how often it was started, and whether it runs.
    for (what, spoke, starts, runs) in [
        ("not served", spoke("Embedded", "False", None), 0, false),
        (
            "somebody's own",
            spoke("Kubeconfig", "True", None),
            0,
            false,
        ),
        ("served", spoke("Embedded", "True", None), 1, true),
        ("not for a while", spoke("Embedded", "False", None), 1, true),
        ("off", spoke("Embedded", "True", Some("false")), 1, false),
        (
            "off still",
            spoke("Embedded", "True", Some("false")),
            1,
            false,
        ),
        ("on", spoke("Embedded", "True", Some("true")), 2, true),
    ] {
        simulated.put(&spoke, |_| {
            let token = Shutdown::new();
            started.push(token.clone());
            token
        });
        assert_eq!(started.len(), starts, "{what}: starts");
        let running = started.iter().filter(|token| !token.is_cancelled());
        assert_eq!(running.count(), usize::from(runs), "{what}: runs");
    }
}
