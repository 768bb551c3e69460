//! `wheelhouse spoke`: join, list, migrate and remove spokes, over the hub's API.

mod argo_cd;
mod migrate;

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result, bail};
use api::wheelhouse::keys::{
    ANNOTATION_CLUSTER_UID, ANNOTATION_PARTING, CONDITION_CREDENTIAL_CURRENT, CONDITION_REACHABLE,
    MANAGER_CLI, REASONS_NOT_USED, remains_name,
};
use client::{Answer, DeleteRequest, Deleted, Dynamic, Endpoint, Force, Patch};
use serde_json::{Value, json};

use crate::{
    args,
    connect::{self, Embedded, HubFlags},
    output::{self, Columns, Format},
};

/// The field of a Spoke that lets masters of the hub be masters there.
const TRUST_MASTERS: &str = "trustMasters";

/// Between two looks at a Spoke that is going.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// How long the hub may refuse a cluster for one reason: its own caches may be behind what was just written.
const REFUSED_PATIENCE: Duration = Duration::from_secs(5);
/// How long a cluster that is to be joined may take to say which one it is.
const CONTACT_PATIENCE: Duration = Duration::from_secs(10);

/// The namespace whose uid tells which cluster one is.
const SYSTEM: &str = "kube-system";

/// Runs one of the commands.
pub(crate) async fn run(arguments: args::Spoke) -> Result<()> {
    match arguments {
        args::Spoke::Add(add) => join(add).await,
        args::Spoke::List(list) => show(list).await,
        args::Spoke::Remove(remove) => {
            let parting = remove.drain.then_some("drain");
            leave(&remove.hub, &remove.name, parting).await
        }
        args::Spoke::Abandon(abandon) => leave(&abandon.hub, &abandon.name, Some("abandon")).await,
        args::Spoke::Migrate(migrate) => migrate::run(migrate).await,
        args::Spoke::ArgoCd(argo_cd) => argo_cd::run(argo_cd).await,
    }
}

async fn join(arguments: args::SpokeAdd) -> Result<()> {
    let name: api::LogicalCluster = arguments.name.parse().context("the name of the spoke")?;
    if name.is_root() {
        bail!("root is the hub's own logical cluster; choose another name");
    }
    let from = connect::Kubeconfig::read(&arguments.from)?;
    let found = Embedded::of(&from, arguments.from_context.as_deref());
    let found = found.with_context(|| arguments.from.display().to_string())?;
    let credential = found.kubeconfig();
    let hub = connect::hub(&arguments.hub).await?;
    hub.require_itself()?;
    let known = known(&hub, name.as_str()).await?;
    let connection = client::connect(&credential, None, &client::Options::default()).await?;
    if let Some(caution) = spokes::caution(&connection) {
        output::note(&format!("the hub may refuse this kubeconfig: {caution}"));
    }
    if !arguments.skip_contact {
        let uid = contact(&connection).await?;
        refuse_another(known.as_ref(), &uid)?;
        refuse_taken(&hub, name.as_str(), &uid).await?;
    }
    let labels: BTreeMap<String, String> = arguments.labels.into_iter().collect();
    let mut kept = known.as_ref().map(own_labels).unwrap_or_default();
    if known.is_some() {
        let what = match labels.len() {
            0 => "credential is",
            _ => "credential is, and the labels that this command names are,",
        };
        output::note(&format!("spoke {name} exists: its {what} replaced"));
    }
    kept.extend(labels);
    let (mut secret, mut spoke) = spokes::join_objects(name.as_str(), &credential, &kept);
    if let Some(known) = &known {
        keep_trust(known, &mut spoke);
    }
    // What is wrong with the Spoke is said before its credential is replaced.
    apply(&hub.dynamic.clone().with_dry_run(), &spoke).await?;
    apply(&hub.dynamic, &secret).await?;
    let made = apply(&hub.dynamic, &spoke).await?;
    if api::meta::is_terminating(&made) {
        bail!("spoke {name} is being deleted: add it again once it is gone");
    }
    // The credential goes with the Spoke that it was written for.
    secret["metadata"]["ownerReferences"] = json!([{
        "apiVersion": spoke["apiVersion"],
        "kind": spoke["kind"],
        "name": name.as_str(),
        "uid": api::meta::uid(&made),
    }]);
    apply(&hub.dynamic, &secret).await?;
    if known.is_none() {
        tell_of_definitions(&hub, name.as_str()).await;
    }
    match arguments.wait {
        Some(seconds) => {
            let wait = Wait {
                patience: Duration::from_secs(seconds),
                replaces: known.is_some(),
            };
            ready(&hub, name.as_str(), wait).await
        }
        None => output::line(&format!(
            "spoke {name} added; the hub connects to it now: wheelhouse spoke list"
        )),
    }
}

/// Names the definitions that a new spoke finds at its path.
async fn tell_of_definitions(hub: &connect::HubConnection, name: &str) {
    let definitions = own_definitions(hub, name).await;
    if !definitions.is_empty() {
        output::note(&format!(
            "definitions that were written at /clusters/{name} for a spoke of this name before are served again: {}; delete them \
             there if they are not meant for this cluster",
            definitions.join(", ")
        ));
    }
}

/// Returns the Spoke that there is of a name.
///
/// # Errors
/// It is one for which no credential can be given.
async fn known(hub: &connect::HubConnection, name: &str) -> Result<Option<Value>> {
    let spoke = match hub.dynamic.get(&connect::spokes_endpoint(), name).await {
        Ok(spoke) => spoke,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(connect::about_spoke(name, error)),
    };
    if is_embedded(&spoke) {
        bail!("{name} is an embedded cluster of the hub; choose another name");
    }
    Ok(Some(spoke))
}

/// A credential says nothing of who is trusted: what somebody has decided since the Spoke was made stays.
fn keep_trust(known: &Value, spoke: &mut Value) {
    match known["spec"].get(TRUST_MASTERS) {
        Some(trusts) => spoke["spec"][TRUST_MASTERS] = trusts.clone(),
        None => drop(
            spoke["spec"]
                .as_object_mut()
                .map(|spec| spec.remove(TRUST_MASTERS)),
        ),
    }
}

/// Returns the labels of a Spoke that this command has set: what an apply does not name any more, it takes off.
fn own_labels(spoke: &Value) -> BTreeMap<String, String> {
    let entries = spoke["metadata"]["managedFields"].as_array();
    let own = entries
        .into_iter()
        .flatten()
        .filter(|it| it["manager"] == MANAGER_CLI && it["operation"] == "Apply");
    let fields = own.filter_map(|it| it["fieldsV1"]["f:metadata"]["f:labels"].as_object());
    let keys = fields.flat_map(|fields| fields.keys().filter_map(|key| key.strip_prefix("f:")));
    let label = |key: &str| spoke["metadata"]["labels"][key].as_str().map(str::to_owned);
    keys.filter_map(|key| Some((key.to_owned(), label(key)?)))
        .collect()
}

/// Refuses a cluster that is not the one that a Spoke is for, unless a person has said that it may be.
fn refuse_another(known: Option<&Value>, uid: &str) -> Result<()> {
    let Some(spoke) = known else {
        return Ok(());
    };
    let before = spoke["status"]["clusterUID"].as_str().unwrap_or_default();
    let confirmed = api::meta::annotation(spoke, ANNOTATION_CLUSTER_UID) == Some(uid);
    if before.is_empty() || before == uid || confirmed {
        return Ok(());
    }
    let name = api::meta::name(spoke);
    bail!(
        "spoke {name} is the cluster with the kube-system uid {before}, and this one has {uid}; nothing was changed: choose \
         another name, or, if the cluster was made anew on purpose, annotate the Spoke with {ANNOTATION_CLUSTER_UID}={uid} first"
    );
}

/// Refuses a cluster that is another spoke of this hub, or the hub itself, as far as the user may read that: the hub refuses it too,
/// but with a Spoke in place that has to be removed again.
async fn refuse_taken(hub: &connect::HubConnection, name: &str, uid: &str) -> Result<()> {
    let spokes = hub.spokes_list().await.unwrap_or_default();
    let mut spokes = spokes["items"].as_array().into_iter().flatten();
    let holder = spokes.find(|it| it["status"]["clusterUID"] == uid && api::meta::name(it) != name);
    if let Some(holder) = holder {
        bail!(
            "its kube-system uid {uid} is that of spoke {:?}: one cluster is one spoke; nothing was changed",
            api::meta::name(holder)
        );
    }
    let root = hub.dynamic.get(&namespaces(), SYSTEM).await;
    if root.is_ok_and(|root| api::meta::uid(&root) == uid) {
        bail!("it is this hub: nothing can be joined to itself; nothing was changed");
    }
    Ok(())
}

fn is_embedded(spoke: &Value) -> bool {
    spoke["spec"]["provider"] == "Embedded"
}

/// Asks a cluster what the hub will ask it first: which cluster it is. Returns its uid.
async fn contact(connection: &client::Connection) -> Result<String> {
    let server = connection.server().to_string();
    let server = server.trim_end_matches('/');
    let dynamic = Dynamic::new(connection.client()).with_deadline(CONTACT_PATIENCE);
    match dynamic.get(&namespaces(), SYSTEM).await {
        Ok(namespace) => Ok(api::meta::uid(&namespace).to_owned()),
        Err(error) => match error.status() {
            Some(status) => bail!(
                "{server} answered {}: {}; nothing was changed: the kubeconfig needs a credential that may read the \
                 namespace kube-system",
                status.code,
                status.message
            ),
            None if error.chain().contains("invalid peer certificate") => bail!(
                "{server}: {}; nothing was changed: the certificate-authority-data of the kubeconfig is not that of the server",
                error.chain()
            ),
            None => bail!(
                "{server}: {}; nothing was changed; if only the hub can reach the cluster, --skip-contact joins it without \
                 contacting it from here",
                error.chain()
            ),
        },
    }
}

fn namespaces() -> Endpoint {
    Endpoint {
        scope: None,
        gvr: api::GroupVersionResource::new("", "v1", "namespaces"),
        namespace: None,
    }
}

/// How a spoke that was added is waited for.
#[derive(Clone, Copy)]
struct Wait {
    patience: Duration,
    /// Whether there was one, with a credential that the hub goes on with until the new one has worked.
    replaces: bool,
}

/// Waits until the hub has a spoke Ready. What the hub refuses to connect to, for one reason all the time, stays so. A new credential
/// is good if nothing is said against it for as long.
async fn ready(hub: &connect::HubConnection, name: &str, wait: Wait) -> Result<()> {
    let endpoint = connect::spokes_endpoint();
    let begin = tokio::time::Instant::now();
    let patience = wait.patience;
    let end = begin + patience;
    let mut refused: Option<(String, tokio::time::Instant)> = None;
    loop {
        let spoke = hub.dynamic.get(&endpoint, name).await;
        let status = &spoke.with_context(|| format!("spoke {name}"))?["status"];
        let conditions = status["conditions"].as_array();
        let of = |type_: &str| {
            conditions
                .into_iter()
                .flatten()
                .find(|it| it["type"] == type_)
        };
        let (ready, reachable) = (of("Ready"), of(CONDITION_REACHABLE));
        let current = of(CONDITION_CREDENTIAL_CURRENT);
        let is_unproven = current.is_some_and(|it| it["status"] == "False");
        let is_looked_at = !wait.replaces || begin.elapsed() >= REFUSED_PATIENCE;
        let is_ready = ready.is_some_and(|condition| condition["status"] == "True");
        if is_ready && is_looked_at && !is_unproven {
            let version = status["version"].as_str().unwrap_or_default();
            return output::line(&format!("spoke {name} is ready ({version})"));
        }
        let now = tokio::time::Instant::now();
        let message = status["message"].as_str().unwrap_or_default();
        if now >= end {
            bail!("spoke {name} was added, but is not ready after {patience:?}: {message}");
        }
        let is_not_used = reachable.is_some_and(|it| {
            REASONS_NOT_USED.contains(&it["reason"].as_str().unwrap_or_default())
        });
        let is_refused = is_not_used || is_unproven;
        refused = is_refused.then(|| match refused.take() {
            Some((before, since)) if before == message => (before, since),
            _ => (message.to_owned(), now),
        });
        if let Some((message, since)) = &refused
            && now - *since >= REFUSED_PATIENCE
        {
            if is_not_used {
                bail!("spoke {name} was added, but the hub does not use it: {message}");
            }
            bail!("spoke {name}: {message}");
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

/// Applies an object. Returns the metadata that it has then.
async fn apply(dynamic: &Dynamic, object: &Value) -> Result<Value> {
    let kind = api::meta::kind(object);
    let gvr = match kind {
        "Secret" => api::GroupVersionResource::new("", "v1", "secrets"),
        _ => connect::spokes(),
    };
    let namespace = api::meta::namespace(object);
    let endpoint = Endpoint {
        scope: None,
        gvr,
        namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
    };
    let patch = Patch::Apply {
        manager: MANAGER_CLI,
        force: Force::Yes,
        object,
        answer: Answer::Metadata,
    };
    let name = api::meta::name(object);
    dynamic
        .patch(&endpoint, name, None, patch)
        .await
        .with_context(|| format!("{kind} {name}"))
}

async fn show(arguments: args::SpokeList) -> Result<()> {
    let hub = connect::hub(&arguments.hub).await?;
    match arguments.output {
        None => output::table(&hub.spokes_table().await?, Columns::With("MESSAGE")),
        Some(Format::Wide) => output::table(&hub.spokes_table().await?, Columns::All),
        Some(Format::Name) => {
            for name in hub.spoke_names().await? {
                output::line(&format!("spoke.wheelhouse.dev/{name}"))?;
            }
            Ok(())
        }
        Some(format) => output::object(&hub.spokes_list().await?, format),
    }
}

/// Deletes a Spoke. Its instances part as `parting` says; without it they hold the Spoke.
async fn leave(hub: &HubFlags, name: &str, parting: Option<&str>) -> Result<()> {
    let hub = connect::hub(hub).await?;
    let endpoint = connect::spokes_endpoint();
    let spoke = hub.dynamic.get(&endpoint, name).await;
    let spoke = spoke.map_err(|error| connect::about_spoke(name, error))?;
    refuse_parting(&hub, &spoke, parting).await?;
    let definitions = own_definitions(&hub, name).await;
    let deleted = hub
        .dynamic
        .delete(&endpoint, name, &DeleteRequest::default())
        .await;
    let deleted = deleted.map_err(|error| connect::about_spoke(name, error))?;
    if let Deleted::Terminating(spoke) = &deleted {
        // Said of a Spoke that is being deleted: a deletion that is refused leaves nothing that a later one would follow.
        if let Some(parting) = parting {
            part(&hub, &endpoint, spoke, parting).await?;
        }
        gone(&hub, &endpoint, name, parting).await?;
        if parting.is_some() {
            tell_of_remains(&hub, name, api::meta::uid(spoke)).await;
        }
    }
    if !definitions.is_empty() {
        output::note(&format!(
            "definitions that were written at /clusters/{name} stay in the hub's store, for a spoke that joins under this name: {}",
            definitions.join(", ")
        ));
    }
    output::line(&format!("spoke {name} removed"))
}

/// Names the record of what was left in a cluster, as far as the user may read it.
async fn tell_of_remains(hub: &connect::HubConnection, name: &str, uid: &str) {
    let endpoint = Endpoint {
        scope: None,
        gvr: api::GroupVersionResource::new("", "v1", "configmaps"),
        namespace: Some(SYSTEM.to_owned()),
    };
    let record = remains_name(name, uid);
    if let Ok(remains) = hub.dynamic.get(&endpoint, &record).await {
        let objects = remains["data"]["objects"].as_str().unwrap_or_default();
        output::note(&format!(
            "objects left in the cluster as they are: {}; they are named in configmap/{record} of {SYSTEM}",
            objects.lines().count()
        ));
    }
}

/// The definitions that were written at a cluster's path, as far as the user may list them.
async fn own_definitions(hub: &connect::HubConnection, name: &str) -> Vec<String> {
    let Ok(cluster) = name.parse() else {
        return Vec::new();
    };
    let definitions = Endpoint {
        scope: Some(cluster),
        gvr: api::GroupVersionResource::new(
            api::kro::GROUP,
            api::kro::VERSION,
            api::kro::RGD_RESOURCE,
        ),
        namespace: None,
    };
    let all = client::ListRequest::default();
    let listed = hub.dynamic.list(&definitions, &all).await;
    let items = listed.map(|it| it.items).unwrap_or_default();
    items
        .iter()
        .map(|it| api::meta::name(it).to_owned())
        .collect()
}

/// Refuses what would only be regretted: a deletion cannot be taken back.
async fn refuse_parting(
    hub: &connect::HubConnection,
    spoke: &Value,
    parting: Option<&str>,
) -> Result<()> {
    let name = api::meta::name(spoke);
    if is_embedded(spoke) && parting == Some("abandon") {
        bail!(
            "spoke {name} is embedded: nothing of it is elsewhere that could be left as it is; nothing was changed. To delete its \
             instances with it: wheelhouse spoke remove {name} --drain"
        );
    }
    let count = spoke["status"]["instances"]["total"]
        .as_u64()
        .unwrap_or_default();
    let is_refused = parting.is_none() && count > 0 && !api::meta::is_terminating(spoke);
    if is_refused && has_ledgers(hub, name).await {
        let abandon = if is_embedded(spoke) {
            String::new()
        } else {
            format!(", or leave all as it is in the cluster with wheelhouse spoke abandon {name}")
        };
        let instances = if count == 1 {
            "1 instance".to_owned()
        } else {
            format!("{count} instances")
        };
        let which = if is_embedded(spoke) {
            "them"
        } else {
            "those that were created at the hub"
        };
        bail!(
            "spoke {name} has {instances}; nothing was changed. Drain or abandon it: delete {which}, and their children, with \
             wheelhouse spoke remove {name} --drain{abandon}"
        );
    }
    Ok(())
}

/// Whether instances of a spoke have a ledger, as far as that may be read: the counts in its status are some seconds old.
async fn has_ledgers(hub: &connect::HubConnection, name: &str) -> bool {
    let Ok(cluster) = name.parse() else {
        return true;
    };
    let (group, version) = (api::wheelhouse::INTERNAL_GROUP, api::wheelhouse::VERSION);
    let ledgers = Endpoint {
        scope: Some(cluster),
        gvr: api::GroupVersionResource::new(group, version, "inventories"),
        namespace: None,
    };
    let all = client::ListRequest::default();
    let page = hub.dynamic.list_page(&ledgers, &all, 1, "").await;
    page.map_or(true, |page| !page.items.is_empty())
}

/// Says what becomes of the instances of a Spoke that is being deleted.
async fn part(
    hub: &connect::HubConnection,
    endpoint: &Endpoint,
    spoke: &Value,
    parting: &str,
) -> Result<()> {
    let (name, uid) = (api::meta::name(spoke), api::meta::uid(spoke));
    let said = format!("{parting}/{uid}");
    let patch = json!({"metadata": {"uid": uid, "annotations": {ANNOTATION_PARTING: said}}});
    let patched = hub
        .dynamic
        .patch(endpoint, name, None, Patch::Merge(&patch));
    match patched.await {
        Ok(_) => Ok(()),
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error).with_context(|| format!("spoke {name}")),
    }
}

/// Waits until a Spoke that is being deleted is gone, or says what holds it.
async fn gone(
    hub: &connect::HubConnection,
    endpoint: &Endpoint,
    name: &str,
    parting: Option<&str>,
) -> Result<()> {
    let mut told = String::new();
    loop {
        let spoke = match hub.dynamic.get(endpoint, name).await {
            Ok(spoke) => spoke,
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(error).with_context(|| format!("spoke {name}")),
        };
        let message = spoke["status"]["message"].as_str().unwrap_or_default();
        if parting.is_none() && message.starts_with("waiting: ") {
            bail!(
                "spoke {name} is marked for deletion, which cannot be taken back, and stays until nothing is left: {message}, with \
                 wheelhouse spoke remove {name} --drain, or wheelhouse spoke abandon {name}"
            );
        }
        // What it waited for before it was told what becomes of them is no news.
        let is_news = told != message && !message.starts_with("waiting: ");
        if parting.is_some() && !message.is_empty() && is_news {
            output::note(&format!("spoke {name}: {message}"));
            message.clone_into(&mut told);
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}
