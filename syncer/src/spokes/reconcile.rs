//! One Spoke: its connection, and its end.
//!
//! # Invariants
//!
//! A Spoke is not let go while the hub holds instances for it: their children would be orphaned
//! without anybody having said so.

use std::{sync::Arc, time::Duration};

use api::{
    LogicalCluster,
    wheelhouse::{Provider, Spoke},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use client::{
    DeleteRequest, Dynamic, ListRequest, Patch,
    reflector::RawObject,
    spoke::{self, Fault, SECRET_LABEL},
};
use serde_json::{Value, json};
use tracing::{info, warn};

use super::{census, heartbeat, namespaces};
use crate::{
    accounts,
    definitions::{distribution, reconcile::add_finalizer_of},
    engine::Engine,
    instances::{self, deletion},
    resources,
    target::{Target, TargetSort},
};

/// Holds a Spoke until its instances are gone.
const FINALIZER: &str = api::wheelhouse::keys::FINALIZER_SPOKE;

/// The wait after a failure that no watch will tell the end of.
const RETRY_DELAY: Duration = Duration::from_secs(2);

/// Reconciles a Spoke; a failure is tried again.
pub(super) async fn run(engine: &Arc<Engine>, cluster: &LogicalCluster, spoke: Option<&RawObject>) {
    let Some(spoke) = spoke else {
        if !cluster.is_root() {
            engine.fleet.disconnect(cluster);
        }
        return;
    };
    if let Err(error) = step(engine, cluster, spoke).await {
        warn!(spoke = %cluster, error = %error, "cannot reconcile a spoke");
        engine.spoke_queue.add_after(cluster.clone(), RETRY_DELAY);
    }
}

async fn step(
    engine: &Arc<Engine>,
    cluster: &LogicalCluster,
    known: &RawObject,
) -> Result<(), client::Error> {
    let endpoint = Engine::hub_endpoint(&LogicalCluster::root(), &resources::spokes(), "");
    let mut object = match engine.hub.get(&endpoint, &known.name).await {
        Ok(object) => object,
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return Err(error),
    };
    if api::meta::deletion_timestamp(&object).is_some() {
        return end(engine, cluster, &object).await;
    }
    if !api::meta::has_finalizer(&object, FINALIZER) {
        let patch = add_finalizer_of(&object, FINALIZER);
        object = engine
            .hub
            .patch(&endpoint, &known.name, None, Patch::Json(&patch))
            .await?;
    }
    if engine.definitions.note_spoke(cluster, &known.labels) {
        engine.distribution_queue.add(cluster.clone());
        // What root has for this cluster may be other kinds now.
        for key in engine.definitions.claims.concerned(cluster, None) {
            engine.definition_queue.add(key);
        }
    }
    let connected = match Spoke::from_value(&object) {
        Ok(spoke) if spoke.spec.suspended => Err(Fault::Suspended),
        Ok(spoke) if spoke.spec.provider == Provider::Embedded => {
            connect_embedded(engine, cluster);
            Ok(())
        }
        Ok(spoke) => connect(engine, cluster, &spoke).await?,
        Err(error) => Err(Fault::Unreadable(error.to_string())),
    };
    match connected {
        Ok(()) => census::write(engine, cluster, &object).await,
        Err(fault) => {
            engine.fleet.disconnect(cluster);
            census::refuse(engine, &object, &fault.to_string()).await
        }
    }
}

fn connect_embedded(engine: &Arc<Engine>, cluster: &LogicalCluster) {
    if engine
        .fleet
        .get(cluster)
        .is_none_or(|target| target.sort != TargetSort::Embedded)
    {
        let token = engine.tasks.child_token();
        let dynamic = engine.hub.clone();
        let target = Target::new(
            cluster.clone(),
            TargetSort::Embedded,
            dynamic,
            &engine.tasks,
            token,
        );
        start(engine, &Arc::new(target));
    }
}

/// Connects a real spoke, unless it is connected with this credential.
///
/// The outer error is the hub's, the inner one tells the user what is wrong with the Spoke or its Secret. A spoke whose
/// credential may not be used, or not any more, is not connected.
async fn connect(
    engine: &Arc<Engine>,
    cluster: &LogicalCluster,
    spoke: &Spoke,
) -> Result<Result<(), Fault>, client::Error> {
    let reference = match spoke::reference(spoke) {
        Ok(reference) => reference,
        Err(fault) => return Ok(Err(fault)),
    };
    let secrets = Engine::hub_endpoint(
        &LogicalCluster::root(),
        &resources::core("secrets"),
        &reference.namespace,
    );
    let secret = match engine.hub.get(&secrets, &reference.name).await {
        Ok(secret) => Some(secret),
        Err(error) if error.is_not_found() => None,
        // What the Spoke says is no name of any Secret.
        Err(client::Error::Path(error)) => return Ok(Err(Fault::Unreadable(error.to_string()))),
        Err(error) => return Err(error),
    };
    let credential = match engine
        .dialer
        .credential(cluster, reference, secret.as_ref())
    {
        Ok(credential) => credential,
        Err(fault) => return Ok(Err(fault)),
    };
    let digest = credential.digest();
    if let Some(target) = engine.fleet.get(cluster)
        && target.sort == TargetSort::Mirrored
        && target.credential == Some(digest)
    {
        target.note_trust(spoke.spec.trust_masters);
        return Ok(Ok(()));
    }
    let connection = match engine.dialer.connect(cluster, &credential).await {
        Ok(connection) => connection,
        Err(fault) => return Ok(Err(fault)),
    };
    let dynamic = Dynamic::new(connection.client());
    let token = engine.tasks.child_token();
    let mut target = Target::new(
        cluster.clone(),
        TargetSort::Mirrored,
        dynamic,
        &engine.tasks,
        token,
    );
    target.credential = Some(digest);
    let created = spoke.metadata.creation_timestamp.as_deref();
    created.unwrap_or_default().clone_into(&mut target.created);
    target.note_trust(spoke.spec.trust_masters);
    start(engine, &Arc::new(target));
    Ok(Ok(()))
}

/// Starts everything that runs for a target.
pub(crate) fn start(engine: &Arc<Engine>, target: &Arc<Target>) {
    info!(cluster = %target.cluster, sort = ?target.sort, "connected");
    engine.fleet.connect(Arc::clone(target));
    distribution::watch(engine, target);
    instances::start_workers(engine, target);
    if target.sort == TargetSort::Mirrored {
        heartbeat::start(engine, target);
        namespaces::watch(engine, target);
        return; // the heartbeat adds what is to be done, once it is known which cluster this is
    }
    accounts::start(target);
    engine.distribution_queue.add(target.cluster.clone());
    engine.requeue_cluster(&target.cluster);
    for key in engine.definitions.keys() {
        engine.definition_queue.add(key);
    }
}

/// Lets a Spoke go once the hub holds nothing for it.
async fn end(
    engine: &Arc<Engine>,
    cluster: &LogicalCluster,
    object: &Value,
) -> Result<(), client::Error> {
    let left = engine.instances.of_cluster(cluster).len();
    if left > 0 {
        let reason = format!(
            "waiting: {left} instances are left in logical cluster {:?}; delete them first",
            cluster.as_str()
        );
        census::refuse(engine, object, &reason).await?;
        engine.spoke_queue.add_after(cluster.clone(), RETRY_DELAY);
        return Ok(());
    }
    engine.fleet.disconnect(cluster);
    // Only a mirrored cluster has records of what its spoke serves; an embedded one does not even serve them.
    if object["spec"]["provider"] != "Embedded" {
        forget_records(engine, cluster).await?;
    }
    if !api::meta::has_finalizer(object, FINALIZER) {
        return Ok(());
    }
    let endpoint = Engine::hub_endpoint(&LogicalCluster::root(), &resources::spokes(), "");
    let patch = deletion::remove_finalizer(object, FINALIZER);
    let name = api::meta::name(object);
    match engine
        .hub
        .patch(&endpoint, name, None, Patch::Json(&patch))
        .await
    {
        Ok(_) => Ok(()),
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error),
    }
}

/// The Secret and the Spoke that join a cluster: what `wheelhouse spoke add` writes.
pub fn join_objects(
    name: &str,
    kubeconfig: &str,
    labels: &std::collections::BTreeMap<String, String>,
) -> (Value, Value) {
    let secret_name = format!("spoke-{name}");
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": secret_name,
            "namespace": "kube-system",
            "labels": {SECRET_LABEL: name},
        },
        "type": "Opaque",
        "data": {"kubeconfig": STANDARD.encode(kubeconfig)},
    });
    let spoke = json!({
        "apiVersion": "wheelhouse.dev/v1alpha1",
        "kind": "Spoke",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "provider": "Kubeconfig",
            "trustMasters": true,
            "connection": {"type": "Direct", "secretRef": {
                "namespace": "kube-system",
                "name": secret_name,
                "key": "kubeconfig",
            }},
        },
    });
    (secret, spoke)
}

/// Deletes the records of what a spoke served.
async fn forget_records(
    engine: &Arc<Engine>,
    cluster: &LogicalCluster,
) -> Result<(), client::Error> {
    let records = Engine::hub_endpoint(cluster, &resources::served_resources(), "");
    let listed = engine.hub.list(&records, &ListRequest::default()).await?;
    for record in &listed.items {
        let name = api::meta::name(record);
        engine
            .hub
            .delete(&records, name, &DeleteRequest::default())
            .await?;
    }
    Ok(())
}
