//! A connection for each Spoke, made from its Secret and replaced when that changes.

use std::{collections::HashMap, sync::Arc};

use api::{GroupVersionResource, LogicalCluster, Status, selector::Selector, wheelhouse::Spoke};
use base64::{Engine, engine::general_purpose::STANDARD};
use client::{
    Connection, Dynamic, Endpoint,
    reflector::{self, Event, RawObject},
};
use parking_lot::Mutex;
use tasks::Tasks;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{accounts::AccountTokens, namespaces::NamespaceCache, published::Published};
use crate::{authenticate::UserInfo, hub::Hub, respond::Refusal};

/// The user as whom the relay reads Spokes and Secrets.
const USER: &str = "system:wheelhouse:relay";

/// The label on a Secret that names its spoke.
const SECRET_LABEL: &str = "wheelhouse.dev/spoke";

/// The connections by logical cluster.
#[derive(Debug, Default)]
pub(crate) struct Links {
    /// Guards the map; nothing else is locked while it is held.
    links: Mutex<HashMap<LogicalCluster, Arc<Link>>>,
}

/// The way to one spoke.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) cluster: LogicalCluster,
    pub(super) connection: Connection,
    /// Whether `system:masters` of the hub are `system:masters` there.
    pub(super) trusts_masters: bool,
    pub(super) namespaces: NamespaceCache,
    pub(super) published: Published,
    pub(super) accounts: AccountTokens,
    /// Ends the pause of the watch of its namespaces: it answers again. The watch is the only one that waits, and a
    /// wake that comes while it does not ends its next pause.
    pub(super) wake: Arc<Notify>,
    /// Since when and why the spoke does not answer. Guards one value.
    trouble: Mutex<Option<(String, String)>>,
    credential: Credential,
    end: CancellationToken,
}

/// What a link was made from: another one needs another link.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Credential {
    kubeconfig: String,
    trusts_masters: bool,
}

// === impl Links ===

impl Links {
    /// The link of a logical cluster; `None` while there is none.
    pub(super) fn get(&self, cluster: &LogicalCluster) -> Option<Arc<Link>> {
        self.links.lock().get(cluster).cloned()
    }

    fn put(&self, link: Arc<Link>) {
        let before = self.links.lock().insert(link.cluster.clone(), link);
        if let Some(before) = before {
            before.end.cancel();
        }
    }

    fn remove(&self, cluster: &LogicalCluster) {
        let before = self.links.lock().remove(cluster);
        if let Some(before) = before {
            before.end.cancel();
        }
    }
}

// === impl Link ===

impl Link {
    /// Calls on objects, as the hub.
    pub(super) fn dynamic(&self) -> Dynamic {
        Dynamic::new(self.connection.kube())
    }

    /// Notes that the spoke answered.
    pub(super) fn answered(&self) {
        let trouble = self.trouble.lock().take();
        if trouble.is_some() {
            self.wake.notify_one();
        }
    }

    /// Notes that it did not, and says so to the client.
    pub(super) fn unreachable(&self, error: &client::Error) -> Refusal {
        let mut trouble = self.trouble.lock();
        let since = trouble.as_ref().map_or_else(
            || api::meta::time_now_text(jiff::Timestamp::now()),
            |(since, _)| since.clone(),
        );
        let reason = error.chain();
        let text = format!(
            "spoke {:?} is unreachable since {since}: {reason}",
            self.cluster.as_str()
        );
        *trouble = Some((since, reason));
        Status::service_unavailable(text).retry_after(1).into()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

/// Tells whether the heartbeat says that a spoke answers.
fn is_reachable(spoke: &RawObject) -> bool {
    let Ok(spoke) = spoke.value() else {
        return false;
    };
    let mut conditions = spoke["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    conditions.any(|it| it["type"] == "Reachable" && it["status"] == "True")
}

/// Says that there is no connection yet.
pub(super) fn not_connected(cluster: &LogicalCluster) -> Refusal {
    let text = format!("spoke {:?} is not connected", cluster.as_str());
    Status::service_unavailable(text).retry_after(1).into()
}

/// Follows Spokes and their Secrets.
pub(super) fn follow(links: &Arc<Links>, hub: &Hub, tasks: &Tasks) {
    let client = kube::Client::new(hub.in_process(UserInfo::system(USER)), "default");
    let source = |gvr: GroupVersionResource, label_selector: Option<Selector>| reflector::Config {
        client: client.clone(),
        name: format!("relay/{}", gvr.resource),
        endpoint: Endpoint {
            scope: None,
            gvr,
            namespace: None,
        },
        label_selector,
        field_selector: None,
    };
    let mut spokes = reflector::start(
        source(
            GroupVersionResource::new("wheelhouse.dev", "v1alpha1", "spokes"),
            None,
        ),
        tasks,
        tasks.child_token(),
    );
    let mut secrets = reflector::start(
        source(
            GroupVersionResource::new("", "v1", "secrets"),
            Some(
                SECRET_LABEL
                    .parse()
                    .expect("the key of a label selects those that have it"),
            ),
        ),
        tasks,
        tasks.child_token(),
    );
    let follower = Follower {
        links: Arc::clone(links),
        hub: Dynamic::new(client.clone()),
        tasks: tasks.clone(),
        spokes: HashMap::new(),
    };
    tasks.spawn("relay-links", async move {
        let mut follower = follower;
        loop {
            let followed = tokio::select! {
                Some(event) = spokes.recv() => follower.take_spoke(event).await,
                Some(event) = secrets.recv() => follower.take_secret(event).await,
                else => return,
            };
            if let Err(error) = followed {
                tracing::warn!(error = %error.chain(), "a spoke's credential cannot be read");
            }
        }
    });
}

struct Follower {
    links: Arc<Links>,
    hub: Dynamic,
    tasks: Tasks,
    spokes: HashMap<LogicalCluster, Arc<RawObject>>,
}

// === impl Follower ===

impl Follower {
    async fn take_spoke(&mut self, event: Event) -> Result<(), client::Error> {
        match event {
            Event::Restarted { objects, .. } => {
                let mut left = std::mem::take(&mut self.spokes);
                for object in objects {
                    if let Ok(cluster) = object.name.parse::<LogicalCluster>() {
                        let before = left.remove(&cluster);
                        self.wake_if_back(&cluster, before.as_deref(), &object);
                        self.spokes.insert(cluster.clone(), object);
                        self.connect(&cluster).await?;
                    }
                }
                for cluster in left.into_keys() {
                    self.links.remove(&cluster);
                }
            }
            Event::Applied(object) => {
                if let Ok(cluster) = object.name.parse::<LogicalCluster>() {
                    let before = self.spokes.insert(cluster.clone(), Arc::clone(&object));
                    self.wake_if_back(&cluster, before.as_deref(), &object);
                    if before.is_none_or(|before| before.generation != object.generation) {
                        self.connect(&cluster).await?;
                    }
                }
            }
            Event::Deleted(object) => {
                if let Ok(cluster) = object.name.parse::<LogicalCluster>() {
                    self.spokes.remove(&cluster);
                    self.links.remove(&cluster);
                }
            }
            Event::Interrupted(_) | Event::Resumed => {}
        }
        Ok(())
    }

    /// Wakes the watches of a spoke that its heartbeat has found to be back.
    fn wake_if_back(&self, cluster: &LogicalCluster, before: Option<&RawObject>, now: &RawObject) {
        let was_reachable = before.is_some_and(is_reachable);
        if !was_reachable
            && is_reachable(now)
            && let Some(link) = self.links.get(cluster)
        {
            link.wake.notify_one();
        }
    }

    async fn take_secret(&self, event: Event) -> Result<(), client::Error> {
        let objects = match event {
            Event::Restarted { objects, .. } => objects,
            Event::Applied(object) | Event::Deleted(object) => vec![object],
            Event::Interrupted(_) | Event::Resumed => Vec::new(),
        };
        for secret in objects {
            let named = secret
                .labels
                .get(SECRET_LABEL)
                .and_then(|name| name.parse().ok());
            if let Some(cluster) = named {
                self.connect(&cluster).await?;
            }
        }
        Ok(())
    }

    /// Makes the link of a spoke anew, if what it is made from has changed.
    async fn connect(&self, cluster: &LogicalCluster) -> Result<(), client::Error> {
        let Some(object) = self.spokes.get(cluster) else {
            return Ok(());
        };
        let spoke = object
            .value()
            .ok()
            .and_then(|value| Spoke::from_value(&value).ok());
        let Some(spoke) = spoke else { return Ok(()) };
        let reference = spoke
            .spec
            .connection
            .as_ref()
            .and_then(|it| it.secret_ref.as_ref());
        let Some(reference) = reference.filter(|_| !spoke.spec.suspended) else {
            self.links.remove(cluster);
            return Ok(());
        };
        let endpoint = Endpoint {
            scope: None,
            gvr: GroupVersionResource::new("", "v1", "secrets"),
            namespace: Some(reference.namespace.clone()),
        };
        let secret = match self.hub.get(&endpoint, &reference.name).await {
            Ok(secret) => secret,
            Err(error) if error.is_not_found() => {
                self.links.remove(cluster);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let encoded = secret["data"][reference.key.as_str()]
            .as_str()
            .unwrap_or_default();
        let kubeconfig = STANDARD
            .decode(encoded)
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok());
        let credential = Credential {
            kubeconfig: kubeconfig.unwrap_or_default(),
            trusts_masters: spoke.spec.trust_masters,
        };
        if self
            .links
            .get(cluster)
            .is_some_and(|link| link.credential == credential)
        {
            return Ok(());
        }
        let options = client::Options::default();
        let connection = client::connect(&credential.kubeconfig, None, &options).await?;
        let end = self.tasks.child_token();
        let link = Arc::new(Link {
            cluster: cluster.clone(),
            connection,
            trusts_masters: credential.trusts_masters,
            namespaces: NamespaceCache::default(),
            published: Published::default(),
            accounts: AccountTokens::default(),
            wake: Arc::default(),
            trouble: Mutex::default(),
            credential,
            end,
        });
        super::namespaces::watch(&link, &self.tasks, link.end.clone());
        self.links.put(link);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use serde_json::json;

    use super::*;

    const KUBECONFIG: &str = "{current-context: a, clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}], \
         users: [{name: a, user: {token: t}}], contexts: [{name: a, context: {cluster: a, user: a}}]}";

    async fn link(cluster: &LogicalCluster) -> Arc<Link> {
        let connection = client::connect(KUBECONFIG, None, &client::Options::default()).await;
        Arc::new(Link {
            cluster: cluster.clone(),
            connection: connection.expect("nothing is dialled yet"),
            trusts_masters: false,
            namespaces: NamespaceCache::default(),
            published: Published::default(),
            accounts: AccountTokens::default(),
            wake: Arc::default(),
            trouble: Mutex::default(),
            credential: Credential {
                kubeconfig: KUBECONFIG.to_owned(),
                trusts_masters: false,
            },
            end: CancellationToken::new(),
        })
    }

    fn spoke(reachable: &str) -> Arc<RawObject> {
        let object = json!({"metadata": {"name": "east", "generation": 1},
            "status": {"conditions": [{"type": "Reachable", "status": reachable}]}});
        Arc::new(RawObject::from_value(&object).expect("an object"))
    }

    #[tokio::test]
    async fn a_spoke_that_is_back_wakes_the_watches_of_its_link() {
        let cluster: LogicalCluster = "east".parse().expect("a name");
        for (before, now, want) in [
            ("False", "True", true),
            ("Unknown", "True", true),
            ("True", "True", false),
            ("True", "False", false),
            ("False", "False", false),
        ] {
            let link = link(&cluster).await;
            let links = Arc::new(Links::default());
            links.put(Arc::clone(&link));
            let mut follower = Follower {
                links,
                hub: link.dynamic(),
                tasks: Tasks::new(),
                spokes: HashMap::from([(cluster.clone(), spoke(before))]),
            };
            let taken = follower.take_spoke(Event::Applied(spoke(now))).await;
            taken.expect("its generation is the same, so that nothing is read");
            let woken = link.wake.notified().now_or_never().is_some();
            assert_eq!(woken, want, "{before} to {now}");
        }
    }

    #[tokio::test]
    async fn an_answer_after_trouble_wakes_the_watches_too() {
        let link = link(&"east".parse().expect("a name")).await;
        link.answered();
        assert!(link.wake.notified().now_or_never().is_none(), "no trouble");
        link.unreachable(&client::Error::Timeout);
        link.answered();
        assert!(link.wake.notified().now_or_never().is_some(), "it is back");
    }
}
