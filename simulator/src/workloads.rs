//! Deployments, ReplicaSets, StatefulSets, DaemonSets and Jobs.
//!
//! Source of the status fields: kube-controller-manager's controllers of the same names. A rollout
//! is one step: the new ReplicaSet is made whole, then the old ones go.

use serde_json::{Value, json};

use crate::{
    Action,
    leaves::digest,
    world::{Kind, World},
};

/// Makes a Deployment's ReplicaSet and tells how far it is.
pub(crate) fn deployment(world: &World, deployment: &Value, now: &str, actions: &mut Vec<Action>) {
    let template = &deployment["spec"]["template"];
    let hash = format!("{:x}", digest(template.to_string()) & 0xffff_ffff);
    let name = format!("{}-{hash}", api::meta::name(deployment));
    let replicas = deployment["spec"]["replicas"].as_i64().unwrap_or(1);
    let sets: Vec<&Value> = world.owned(Kind::ReplicaSet, deployment).collect();
    let current = sets.iter().find(|set| api::meta::name(set) == name);
    match current {
        None => {
            let mut labelled = template.clone();
            labelled["metadata"]["labels"]["pod-template-hash"] = json!(hash);
            let mut selector = deployment["spec"]["selector"].clone();
            selector["matchLabels"]["pod-template-hash"] = json!(hash);
            let mut set = child(deployment, Kind::Deployment, Kind::ReplicaSet, &name);
            set["metadata"]["labels"] = labelled["metadata"]["labels"].clone();
            set["spec"] = json!({
                "replicas": replicas, "selector": selector, "template": labelled,
            });
            actions.push(Action::Create(Kind::ReplicaSet, set));
        }
        Some(set) if set["spec"]["replicas"].as_i64() != Some(replicas) => {
            let patch = json!({"spec": {"replicas": replicas}});
            actions.push(Action::Change(Kind::ReplicaSet, (*set).clone(), patch));
        }
        Some(_) => {}
    }
    let ready = current.map_or(0, |set| {
        set["status"]["readyReplicas"].as_i64().unwrap_or(0)
    });
    if current.is_some() && ready >= replicas {
        for old in sets.iter().filter(|set| api::meta::name(set) != name) {
            actions.push(Action::Delete(Kind::ReplicaSet, (*old).clone()));
        }
    }
    let total: i64 = sets
        .iter()
        .map(|set| set["status"]["replicas"].as_i64().unwrap_or(0))
        .sum();
    let available = if ready >= replicas { "True" } else { "False" };
    let mut status = json!({
        "observedGeneration": deployment["metadata"]["generation"],
        "replicas": total,
        "updatedReplicas": current.map_or(0, |s| s["status"]["replicas"].as_i64().unwrap_or(0)),
        "readyReplicas": ready,
        "availableReplicas": ready,
    });
    drop_zeros(&mut status);
    if ready < replicas {
        status["unavailableReplicas"] = json!(replicas - ready);
    }
    status["conditions"] = json!([
        condition(
            deployment,
            "Available",
            available,
            "MinimumReplicasAvailable",
            now
        ),
        condition(
            deployment,
            "Progressing",
            "True",
            "NewReplicaSetAvailable",
            now
        ),
    ]);
    put_status(Kind::Deployment, deployment, status, actions);
}

/// Makes a ReplicaSet's Pods and counts them.
pub(crate) fn replica_set(world: &World, set: &Value, actions: &mut Vec<Action>) {
    let replicas = count_of(&set["spec"]["replicas"]);
    let pods: Vec<&Value> = world.owned(Kind::Pod, set).collect();
    for _ in pods.len()..replicas {
        let name = format!(
            "{}-{:05x}",
            api::meta::name(set),
            rand::random::<u32>() & 0xf_ffff
        );
        actions.push(Action::Create(
            Kind::Pod,
            pod_of(set, Kind::ReplicaSet, &name),
        ));
    }
    for surplus in pods.iter().skip(replicas) {
        actions.push(Action::Delete(Kind::Pod, (*surplus).clone()));
    }
    let kept: Vec<&Value> = pods.iter().take(replicas).copied().collect();
    let ready = ready_count(&kept);
    let mut status = json!({
        "observedGeneration": set["metadata"]["generation"],
        "fullyLabeledReplicas": kept.len(),
        "readyReplicas": ready,
        "availableReplicas": ready,
    });
    drop_zeros(&mut status);
    status["replicas"] = json!(kept.len());
    put_status(Kind::ReplicaSet, set, status, actions);
}

/// Makes a StatefulSet's claims and Pods, and counts the Pods.
pub(crate) fn stateful_set(world: &World, set: &Value, actions: &mut Vec<Action>) {
    let replicas = count_of(&set["spec"]["replicas"]);
    let name = api::meta::name(set);
    let pods: Vec<&Value> = world.owned(Kind::Pod, set).collect();
    for index in 0..replicas {
        let pod_name = format!("{name}-{index}");
        for template in set["spec"]["volumeClaimTemplates"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let claim_name = format!("{}-{pod_name}", api::meta::name(template));
            let there = world.all(Kind::Claim).any(|claim| {
                api::meta::name(claim) == claim_name
                    && api::meta::namespace(claim) == api::meta::namespace(set)
            });
            if !there {
                // A claim outlives its set, so it has no owner.
                let mut claim = template.clone();
                claim["apiVersion"] = json!("v1");
                claim["kind"] = json!("PersistentVolumeClaim");
                claim["metadata"] = json!({
                    "name": claim_name,
                    "namespace": api::meta::namespace(set),
                    "labels": set["spec"]["selector"]["matchLabels"],
                });
                if let Some(fields) = claim.as_object_mut() {
                    fields.remove("status");
                }
                actions.push(Action::Create(Kind::Claim, claim));
            }
        }
        if !pods.iter().any(|pod| api::meta::name(pod) == pod_name) {
            actions.push(Action::Create(
                Kind::Pod,
                pod_of(set, Kind::StatefulSet, &pod_name),
            ));
        }
    }
    let in_range = |pod: &Value| {
        let index = api::meta::name(pod)
            .rsplit('-')
            .next()
            .and_then(|text| text.parse().ok());
        index.is_some_and(|index: usize| index < replicas)
    };
    let (kept, surplus): (Vec<&Value>, Vec<&Value>) =
        pods.into_iter().partition(|pod| in_range(pod));
    for pod in surplus {
        actions.push(Action::Delete(Kind::Pod, pod.clone()));
    }
    let ready = ready_count(&kept);
    let revision = format!(
        "{name}-{:x}",
        digest(set["spec"]["template"].to_string()) & 0xffff_ffff
    );
    let mut status = json!({
        "observedGeneration": set["metadata"]["generation"],
        "readyReplicas": ready,
        "currentReplicas": kept.len(),
        "updatedReplicas": kept.len(),
        "availableReplicas": ready,
    });
    drop_zeros(&mut status);
    status["availableReplicas"] = json!(ready);
    status["replicas"] = json!(kept.len());
    status["currentRevision"] = json!(revision);
    status["updateRevision"] = json!(revision);
    status["collisionCount"] = json!(0);
    put_status(Kind::StatefulSet, set, status, actions);
}

/// Makes a DaemonSet's one Pod: there is one node.
pub(crate) fn daemon_set(world: &World, set: &Value, actions: &mut Vec<Action>) {
    let pods: Vec<&Value> = world.owned(Kind::Pod, set).collect();
    if pods.is_empty() {
        let name = format!(
            "{}-{:05x}",
            api::meta::name(set),
            rand::random::<u32>() & 0xf_ffff
        );
        actions.push(Action::Create(
            Kind::Pod,
            pod_of(set, Kind::DaemonSet, &name),
        ));
    }
    let ready = ready_count(&pods);
    let mut status = json!({
        "observedGeneration": set["metadata"]["generation"],
        "updatedNumberScheduled": pods.len(),
        "numberAvailable": ready,
    });
    drop_zeros(&mut status);
    status["currentNumberScheduled"] = json!(pods.len());
    status["desiredNumberScheduled"] = json!(1);
    status["numberMisscheduled"] = json!(0);
    status["numberReady"] = json!(ready);
    put_status(Kind::DaemonSet, set, status, actions);
}

/// Makes a Job's Pods, which succeed, and completes the Job.
pub(crate) fn job(world: &World, job: &Value, now: &str, actions: &mut Vec<Action>) {
    let completions = job["spec"]["completions"].as_i64().unwrap_or(1);
    let completions = usize::try_from(completions).unwrap_or(0);
    let pods: Vec<&Value> = world.owned(Kind::Pod, job).collect();
    let succeeded = pods
        .iter()
        .filter(|pod| pod["status"]["phase"] == "Succeeded")
        .count();
    let suspended = job["spec"]["suspend"] == true;
    let complete = job["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Complete");
    if complete || suspended {
        return;
    }
    for _ in pods.len()..completions {
        let name = format!(
            "{}-{:05x}",
            api::meta::name(job),
            rand::random::<u32>() & 0xf_ffff
        );
        actions.push(Action::Create(Kind::Pod, pod_of(job, Kind::Job, &name)));
    }
    let start = job["status"]["startTime"].as_str().unwrap_or(now);
    let mut status =
        json!({"startTime": start, "active": pods.len() - succeeded, "succeeded": succeeded});
    drop_zeros(&mut status);
    if succeeded >= completions {
        status["ready"] = json!(0);
        status["terminating"] = json!(0);
        status["completionTime"] = json!(now);
        status["conditions"] = json!([
            condition(job, "SuccessCriteriaMet", "True", "CompletionsReached", now),
            condition(job, "Complete", "True", "CompletionsReached", now),
        ]);
    }
    put_status(Kind::Job, job, status, actions);
}

fn put_status(kind: Kind, object: &Value, status: Value, actions: &mut Vec<Action>) {
    if object["status"] != status {
        let mut object = object.clone();
        object["status"] = status;
        actions.push(Action::Status(kind, object));
    }
}

fn child(owner: &Value, owner_kind: Kind, kind: Kind, name: &str) -> Value {
    json!({
        "apiVersion": kind.gvr().group_version().to_string(),
        "kind": kind.name(),
        "metadata": {
            "name": name,
            "namespace": api::meta::namespace(owner),
            "ownerReferences": [{
                "apiVersion": owner_kind.gvr().group_version().to_string(),
                "kind": owner_kind.name(),
                "name": api::meta::name(owner),
                "uid": api::meta::uid(owner),
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
    })
}

fn pod_of(owner: &Value, owner_kind: Kind, name: &str) -> Value {
    let template = &owner["spec"]["template"];
    let mut pod = child(owner, owner_kind, Kind::Pod, name);
    for field in ["labels", "annotations"] {
        if !template["metadata"][field].is_null() {
            pod["metadata"][field] = template["metadata"][field].clone();
        }
    }
    pod["spec"] = template["spec"].clone();
    pod
}

fn condition(object: &Value, kind: &str, status: &str, reason: &str, now: &str) -> Value {
    let known = object["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    let same = known
        .into_iter()
        .find(|known| known["type"] == kind && known["status"] == status);
    same.cloned().unwrap_or_else(|| {
        json!({
            "type": kind,
            "status": status,
            "reason": reason,
            "message": "",
            "lastUpdateTime": now,
            "lastTransitionTime": now,
        })
    })
}

fn ready_count(pods: &[&Value]) -> usize {
    pods.iter()
        .filter(|pod| {
            let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
            conditions
                .into_iter()
                .any(|c| c["type"] == "Ready" && c["status"] == "True")
        })
        .count()
}

fn count_of(value: &Value) -> usize {
    value
        .as_u64()
        .map_or(1, |count| usize::try_from(count).unwrap_or(usize::MAX))
}

/// Go leaves counters of zero out (`omitempty`).
fn drop_zeros(status: &mut Value) {
    if let Some(fields) = status.as_object_mut() {
        fields.retain(|_, value| *value != json!(0));
    }
}
