//! Pods, claims, load balancers, and what has lost its owner.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Value, json};

use crate::{
    Action,
    world::{Kind, World},
};

/// The address of the one node that there seems to be. Source: RFC 5737, for documentation.
const NODE_ADDRESS: &str = "192.0.2.10";

/// Deletes what a controller of these kinds made and whose controller is gone. Anything that is not
/// ours to know about is left alone.
pub(crate) fn collect_garbage(world: &World, actions: &mut Vec<Action>) {
    for kind in [Kind::ReplicaSet, Kind::Pod] {
        for object in world.living(kind) {
            let Some(owner) = api::meta::controller_of(object) else {
                continue;
            };
            let Some(known) = Kind::ALL
                .into_iter()
                .find(|known| known.name() == owner.kind)
            else {
                continue;
            };
            let there = world
                .all(known)
                .any(|object| api::meta::uid(object) == owner.uid);
            if !there {
                actions.push(Action::Delete(kind, object.clone()));
            }
        }
    }
    for pod in world
        .all(Kind::Pod)
        .filter(|pod| api::meta::is_terminating(pod))
    {
        // What a kubelet does once the containers have ended.
        if !pod["metadata"]["deletionGracePeriodSeconds"].is_null()
            && pod["metadata"]["deletionGracePeriodSeconds"] != 0
        {
            actions.push(Action::Delete(Kind::Pod, pod.clone()));
        }
    }
}

/// Lets a Pod run; one of a Job runs to its end, and so does one that is never restarted: it is there to do something once, as
/// the tests of a Helm chart are.
pub(crate) fn pod(pod: &Value, now: &str, actions: &mut Vec<Action>) {
    let of_job = api::meta::controller_of(pod).is_some_and(|owner| owner.kind == "Job");
    let phase = pod["status"]["phase"].as_str().unwrap_or("Pending");
    let ends = of_job || pod["spec"]["restartPolicy"] == "Never";
    let wanted = if ends { "Succeeded" } else { "Running" };
    if phase == wanted {
        return;
    }
    let spec = &pod["spec"];
    let containers = spec["containers"].as_array().cloned().unwrap_or_default();
    let statuses: Vec<Value> = containers
        .iter()
        .map(|container| container_status(container, ends, now))
        .collect();
    let ready = if ends { "False" } else { "True" };
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "lastTransitionTime": now});
    let mut pod = pod.clone();
    pod["status"] = json!({
        "phase": wanted,
        "hostIP": NODE_ADDRESS,
        "podIP": pod_address(api::meta::uid(&pod)),
        "podIPs": [{"ip": pod_address(api::meta::uid(&pod))}],
        "qosClass": pod["status"]["qosClass"].as_str().unwrap_or("BestEffort"),
        "startTime": now,
        "conditions": [
            condition("PodScheduled", "True"),
            condition("Initialized", "True"),
            condition("ContainersReady", ready),
            condition("Ready", ready),
        ],
        "containerStatuses": statuses,
    });
    actions.push(Action::Status(Kind::Pod, pod));
}

fn container_status(container: &Value, ended: bool, now: &str) -> Value {
    let state = if ended {
        json!({"terminated": {
            "exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now,
        }})
    } else {
        json!({"running": {"startedAt": now}})
    };
    json!({
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": !ended,
        "started": !ended,
        "restartCount": 0,
        "state": state,
    })
}

/// Binds a claim.
pub(crate) fn claim(claim: &Value, actions: &mut Vec<Action>) {
    if claim["spec"]["volumeName"]
        .as_str()
        .unwrap_or_default()
        .is_empty()
    {
        let volume = format!("pvc-{}", api::meta::uid(claim));
        let patch = json!({"spec": {"volumeName": volume}});
        actions.push(Action::Change(Kind::Claim, claim.clone(), patch));
        return;
    }
    if claim["status"]["phase"] == "Bound" {
        return;
    }
    let mut claim = claim.clone();
    claim["status"] = json!({
        "phase": "Bound",
        "accessModes": claim["spec"]["accessModes"],
        "capacity": claim["spec"]["resources"]["requests"],
    });
    actions.push(Action::Status(Kind::Claim, claim));
}

/// Gives a load balancer its address.
pub(crate) fn service(service: &Value, actions: &mut Vec<Action>) {
    let balances = service["spec"]["type"] == "LoadBalancer";
    let has = !service["status"]["loadBalancer"]["ingress"].is_null();
    if balances && !has {
        let mut service = service.clone();
        let address = format!("198.51.100.{}", octet(api::meta::uid(&service)));
        service["status"] =
            json!({"loadBalancer": {"ingress": [{"ip": address, "ipMode": "VIP"}]}});
        actions.push(Action::Status(Kind::Service, service));
    }
}

fn pod_address(uid: &str) -> String {
    let digest = digest(uid);
    format!("10.244.{}.{}", digest % 250, digest / 250 % 250 + 2)
}

fn octet(uid: &str) -> u64 {
    digest(uid) % 250 + 2
}

pub(super) fn digest(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
