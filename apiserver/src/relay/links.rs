//! A connection for each Spoke, made from its Secret and replaced when that changes.
//!
//! # Invariants
//! - What fails for one Spoke is noted for that Spoke and nowhere else: no step over several Spokes has a way to end
//!   early.
//! - A Spoke without a connection has a reason, which is the text of its path's 503.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use api::{
    GroupVersionResource, LogicalCluster, Status,
    selector::Selector,
    wheelhouse::{SecretKeyReference, Spoke, keys},
};
use client::{
    Connection, Dynamic, Endpoint,
    reflector::{self, Event, RawObject},
    spoke::{self, Credential, Dialer, Fault, SECRET_LABEL},
};
use parking_lot::Mutex;
use tasks::{Backoff, Tasks};
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{accounts::AccountTokens, namespaces::NamespaceCache, published::Published};
use crate::{hub::Hub, refusal::Refusal, request::UserInfo};

/// The user as whom the relay reads Spokes and Secrets.
const USER: &str = "system:wheelhouse:relay";

/// The first and the longest pause before the hub is asked again for what a Spoke is connected by.
const RETRY_PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(15));

/// The connections by logical cluster.
#[derive(Debug, Default)]
pub(crate) struct Links {
    /// Guards the map; nothing else is locked while it is held.
    links: Mutex<HashMap<LogicalCluster, State>>,
}

/// What became of the attempt to connect a Spoke.
#[derive(Debug, Clone)]
enum State {
    Linked(Arc<Link>),
    /// Why there is no connection.
    Faulty(Arc<str>),
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
    made_from: MadeFrom,
    end: CancellationToken,
}

/// What a link was made from: another one needs another link.
#[derive(Debug, Clone, PartialEq, Eq)]
struct MadeFrom {
    credential: Credential,
    trusts_masters: bool,
}

// === impl Links ===

impl Links {
    /// The link of a logical cluster; `None` while there is none.
    pub(super) fn get(&self, cluster: &LogicalCluster) -> Option<Arc<Link>> {
        match self.links.lock().get(cluster) {
            Some(State::Linked(link)) => Some(Arc::clone(link)),
            Some(State::Faulty(_)) | None => None,
        }
    }

    /// Says why there is no link.
    pub(super) fn not_connected(&self, cluster: &LogicalCluster) -> Refusal {
        let reason = match self.links.lock().get(cluster) {
            Some(State::Faulty(reason)) => Arc::clone(reason),
            Some(State::Linked(_)) | None => Arc::from("its connection is being made"),
        };
        let text = format!("spoke {:?} is not connected: {reason}", cluster.as_str());
        Status::service_unavailable(text).retry_after(1).into()
    }

    fn put(&self, cluster: &LogicalCluster, state: State) {
        let before = self.links.lock().insert(cluster.clone(), state);
        end(before);
    }

    fn remove(&self, cluster: &LogicalCluster) {
        let before = self.links.lock().remove(cluster);
        end(before);
    }
}

/// Ends what runs for a link that is no longer used.
fn end(before: Option<State>) {
    if let Some(State::Linked(link)) = before {
        link.end.cancel();
    }
}

// === impl Link ===

impl Link {
    /// Calls on objects, as the hub.
    pub(super) fn dynamic(&self) -> Dynamic {
        Dynamic::new(self.connection.client())
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

/// Follows Spokes and their Secrets.
pub(super) fn follow(links: &Arc<Links>, hub: &Hub, dialer: &Dialer, tasks: &Tasks) {
    let client = kube::Client::new(hub.in_process(UserInfo::system(USER)), "default");
    let follow = |gvr: GroupVersionResource, namespace: Option<&str>, label: Option<Selector>| {
        let config = reflector::Config {
            client: client.clone().into(),
            name: format!("relay/{}", gvr.resource),
            endpoint: Endpoint {
                scope: None,
                gvr,
                namespace: namespace.map(str::to_owned),
            },
            label_selector: label,
            field_selector: None,
        };
        reflector::start(config, tasks, tasks.child_token())
    };
    let spokes = GroupVersionResource::new("wheelhouse.dev", "v1alpha1", "spokes");
    let secrets = GroupVersionResource::new("", "v1", "secrets");
    let label = SECRET_LABEL
        .parse()
        .expect("the key of a label selects those that have it");
    let namespace = &dialer.policy().secrets_namespace;
    let mut spokes = follow(spokes, None, None);
    let mut labelled = follow(secrets.clone(), None, Some(label));
    let mut set_apart = follow(secrets, Some(namespace), None);
    let mut follower = Follower {
        links: Arc::clone(links),
        dialer: dialer.clone(),
        hub: Dynamic::new(client.clone()),
        tasks: tasks.clone(),
        spokes: HashMap::new(),
        retries: BTreeMap::new(),
    };
    tasks.spawn("relay-links", async move {
        loop {
            let retry = follower.next_retry();
            tokio::select! {
                Some(event) = spokes.recv() => follower.take_spoke(event).await,
                Some(event) = labelled.recv() => follower.take_secret(event).await,
                Some(event) = set_apart.recv() => follower.take_secret(event).await,
                Some(cluster) = retry => follower.connect(&cluster).await,
                else => return,
            }
        }
    });
}

struct Follower {
    links: Arc<Links>,
    dialer: Dialer,
    hub: Dynamic,
    tasks: Tasks,
    spokes: HashMap<LogicalCluster, Known>,
    /// When the hub is asked again for what a Spoke is connected by.
    retries: BTreeMap<LogicalCluster, (Instant, Backoff)>,
}

/// A Spoke as it was last seen.
struct Known {
    object: Arc<RawObject>,
    /// The Spoke, and the Secret that it names; or why it cannot be connected, whatever is in its Secret.
    wanted: Result<(SecretKeyReference, bool), Fault>,
}

// === impl Known ===

impl Known {
    fn of(object: Arc<RawObject>) -> Self {
        let wanted = wanted(&object);
        Self { object, wanted }
    }

    fn names(&self, secret: &RawObject) -> bool {
        self.wanted.as_ref().is_ok_and(|(reference, _)| {
            reference.name == secret.name
                && Some(reference.namespace.as_str()) == secret.namespace.as_deref()
        })
    }
}

/// Says which Secret a Spoke is connected by, and whether it trusts masters.
fn wanted(object: &RawObject) -> Result<(SecretKeyReference, bool), Fault> {
    let unreadable = |error: &dyn std::fmt::Display| Fault::Unreadable(error.to_string());
    let value = object.value().map_err(|error| unreadable(&error))?;
    let spoke = Spoke::from_value(&value).map_err(|error| unreadable(&error))?;
    let conditions = spoke.status.as_ref().map(|status| &status.conditions);
    // The syncer, which knows all spokes, has found that this is another's cluster.
    if let Some(condition) = conditions
        .into_iter()
        .flatten()
        .find(|it| it.type_ == keys::CONDITION_IDENTIFIED && it.status == "False")
    {
        return Err(Fault::Identity(condition.message.clone()));
    }
    let reference = spoke::reference(&spoke)?.clone();
    Ok((reference, spoke.spec.trust_masters))
}

// === impl Follower ===

impl Follower {
    async fn take_spoke(&mut self, event: Event) {
        match event {
            Event::Restarted { objects, .. } => {
                let mut left = std::mem::take(&mut self.spokes);
                for object in objects {
                    if let Ok(cluster) = object.name.parse::<LogicalCluster>() {
                        let before = left.remove(&cluster);
                        self.wake_if_back(&cluster, before.as_ref(), &object);
                        self.spokes.insert(cluster.clone(), Known::of(object));
                        self.connect(&cluster).await;
                    }
                }
                for cluster in left.into_keys() {
                    self.forget(&cluster);
                }
            }
            Event::Applied(object) => {
                if let Ok(cluster) = object.name.parse::<LogicalCluster>() {
                    let before = self.spokes.remove(&cluster);
                    self.wake_if_back(&cluster, before.as_ref(), &object);
                    let now = Known::of(object);
                    let concerns = before.is_none_or(|before| before.wanted != now.wanted);
                    self.spokes.insert(cluster.clone(), now);
                    if concerns {
                        self.connect(&cluster).await;
                    }
                }
            }
            Event::Deleted(object) => {
                if let Ok(cluster) = object.name.parse::<LogicalCluster>() {
                    self.spokes.remove(&cluster);
                    self.forget(&cluster);
                }
            }
            Event::Interrupted(_) | Event::Resumed => {}
        }
    }

    /// Wakes the watches of a spoke that its heartbeat has found to be back.
    fn wake_if_back(&self, cluster: &LogicalCluster, before: Option<&Known>, now: &RawObject) {
        let was_reachable = before.is_some_and(|before| is_reachable(&before.object));
        if !was_reachable
            && is_reachable(now)
            && let Some(link) = self.links.get(cluster)
        {
            link.wake.notify_one();
        }
    }

    async fn take_secret(&mut self, event: Event) {
        let objects = match event {
            Event::Restarted { objects, .. } => objects,
            Event::Applied(object) | Event::Deleted(object) => vec![object],
            Event::Interrupted(_) | Event::Resumed => Vec::new(),
        };
        let spokes = self.spokes.iter();
        let mut concerned: Vec<LogicalCluster> = spokes
            .filter(|(_, known)| objects.iter().any(|secret| known.names(secret)))
            .map(|(cluster, _)| cluster.clone())
            .collect();
        concerned.sort();
        for cluster in concerned {
            self.connect(&cluster).await;
        }
    }

    fn forget(&mut self, cluster: &LogicalCluster) {
        self.retries.remove(cluster);
        self.links.remove(cluster);
    }

    /// Waits for the next Spoke that is to be tried again; `None` at once where there is none.
    fn next_retry(&self) -> impl Future<Output = Option<LogicalCluster>> + use<> {
        let next = self.retries.iter().min_by_key(|(_, (due, _))| *due);
        let next = next.map(|(cluster, (due, _))| (cluster.clone(), *due));
        async move {
            let (cluster, due) = next?;
            tokio::time::sleep_until(due).await;
            Some(cluster)
        }
    }

    /// Makes the link of a spoke anew, if what it is made from has changed. Whatever fails is noted for this spoke.
    async fn connect(&mut self, cluster: &LogicalCluster) {
        match self.make(cluster).await {
            Ok(made) => {
                self.retries.remove(cluster);
                match made {
                    Some(Ok(link)) => self.links.put(cluster, State::Linked(link)),
                    Some(Err(fault)) => {
                        tracing::warn!(spoke = %cluster, error = %fault, "a spoke cannot be connected");
                        self.links
                            .put(cluster, State::Faulty(fault.to_string().into()));
                    }
                    None => {}
                }
            }
            // The hub's own failure says nothing of the spoke: its link stays.
            Err(error) => {
                tracing::warn!(spoke = %cluster, error = %error.chain(), "a spoke's credential cannot be read");
                let (initial, max) = RETRY_PAUSES;
                let (_, mut backoff) = self
                    .retries
                    .remove(cluster)
                    .unwrap_or_else(|| (Instant::now(), Backoff::new(initial, max)));
                let due = Instant::now() + backoff.next_pause();
                self.retries.insert(cluster.clone(), (due, backoff));
            }
        }
    }

    /// Makes what a spoke's state is to be; `None` where it stays as it is. The error is the hub's.
    async fn make(
        &self,
        cluster: &LogicalCluster,
    ) -> Result<Option<Result<Arc<Link>, Fault>>, client::Error> {
        let Some(known) = self.spokes.get(cluster) else {
            return Ok(None);
        };
        let (reference, trusts_masters) = match &known.wanted {
            Ok(wanted) => wanted,
            Err(fault) => return Ok(Some(Err(fault.clone()))),
        };
        let endpoint = Endpoint {
            scope: None,
            gvr: GroupVersionResource::new("", "v1", "secrets"),
            namespace: Some(reference.namespace.clone()),
        };
        let secret = match self.hub.get(&endpoint, &reference.name).await {
            Ok(secret) => Some(secret),
            Err(error) if error.is_not_found() => None,
            // What the Spoke says is no name of any Secret.
            Err(client::Error::Path(error)) => {
                return Ok(Some(Err(Fault::Unreadable(error.to_string()))));
            }
            Err(error) => return Err(error),
        };
        let credential = self.dialer.credential(cluster, reference, secret.as_ref());
        let made_from = match credential {
            Ok(credential) => MadeFrom {
                credential,
                trusts_masters: *trusts_masters,
            },
            Err(fault) => return Ok(Some(Err(fault))),
        };
        let link = self.links.get(cluster);
        if link.is_some_and(|link| link.made_from == made_from) {
            return Ok(None);
        }
        Ok(Some(self.link(cluster, made_from).await))
    }

    async fn link(
        &self,
        cluster: &LogicalCluster,
        made_from: MadeFrom,
    ) -> Result<Arc<Link>, Fault> {
        let connection = self.dialer.connect(cluster, &made_from.credential).await?;
        let link = Arc::new(Link {
            cluster: cluster.clone(),
            connection,
            trusts_masters: made_from.trusts_masters,
            namespaces: NamespaceCache::default(),
            published: Published::default(),
            accounts: AccountTokens::default(),
            wake: Arc::default(),
            trouble: Mutex::default(),
            made_from,
            end: self.tasks.child_token(),
        });
        super::namespaces::watch(&link, &self.tasks, link.end.clone());
        Ok(link)
    }
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use futures::FutureExt as _;
    use serde_json::json;

    use super::*;

    const KUBECONFIG: &str = "{current-context: a, clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}], \
         users: [{name: a, user: {token: t}}], contexts: [{name: a, context: {cluster: a, user: a}}]}";

    fn secret(spoke: &str, kubeconfig: &str) -> serde_json::Value {
        json!({
            "metadata": {"namespace": "n", "name": "s", "labels": {SECRET_LABEL: spoke}},
            "data": {"kubeconfig": STANDARD.encode(kubeconfig)},
        })
    }

    async fn link(cluster: &LogicalCluster) -> Arc<Link> {
        let dialer = Dialer::default();
        let reference = SecretKeyReference {
            namespace: "n".to_owned(),
            name: "s".to_owned(),
            key: "kubeconfig".to_owned(),
        };
        let credential = dialer
            .credential(cluster, &reference, Some(&secret("east", KUBECONFIG)))
            .expect("its label says so");
        let connection = dialer.connect(cluster, &credential).await;
        Arc::new(Link {
            cluster: cluster.clone(),
            connection: connection.expect("nothing is dialled yet"),
            trusts_masters: false,
            namespaces: NamespaceCache::default(),
            published: Published::default(),
            accounts: AccountTokens::default(),
            wake: Arc::default(),
            trouble: Mutex::default(),
            made_from: MadeFrom {
                credential,
                trusts_masters: false,
            },
            end: CancellationToken::new(),
        })
    }

    /// A follower whose hub answers each read of a Secret as `answer` says.
    fn follower(links: &Arc<Links>, answer: fn(&str) -> (u16, String)) -> Follower {
        let hub = client::in_process(tower::service_fn(
            move |request: http::Request<kube::client::Body>| async move {
                let (code, text) = answer(request.uri().path());
                let body = http_body_util::Full::new(bytes::Bytes::from(text));
                let mut response = http::Response::new(body);
                *response.status_mut() = http::StatusCode::from_u16(code).expect("a code");
                Ok::<_, std::convert::Infallible>(response)
            },
        ));
        Follower {
            links: Arc::clone(links),
            dialer: Dialer::default(),
            hub: Dynamic::new(hub),
            tasks: Tasks::new(),
            spokes: HashMap::new(),
            retries: BTreeMap::new(),
        }
    }

    fn named(name: &str, secret: &str) -> Arc<RawObject> {
        let object = json!({
            "apiVersion": "wheelhouse.dev/v1alpha1", "kind": "Spoke",
            "metadata": {"name": name},
            "spec": {"connection": {"secretRef": {"namespace": "n", "name": secret}}},
        });
        Arc::new(RawObject::from_value(&object).expect("an object"))
    }

    /// The story: Spoke `aaa` had a malformed kubeconfig, and the path of every spoke that sorts after it was 503.
    #[tokio::test]
    async fn a_spoke_that_cannot_be_connected_is_in_no_other_spokes_way() {
        let links = Arc::new(Links::default());
        let mut follower = follower(&links, |path| match path.rsplit('/').next() {
            Some("malformed") => (200, secret("aaa", "{{{ not a kubeconfig").to_string()),
            Some("broken") => (500, String::new()),
            // The second is another spoke's.
            Some("good" | "of-another") => (200, secret("east", KUBECONFIG).to_string()),
            _ => (404, String::new()),
        });
        let spokes = [
            ("aaa", "malformed"),
            ("aab", "broken"),
            ("aac", "absent"),
            ("aad", "of-another"),
            ("east", "good"),
        ];
        let objects = spokes.map(|(name, secret)| named(name, secret)).into();
        let restarted = Event::Restarted {
            objects,
            resource_version: "1".to_owned(),
        };
        follower.take_spoke(restarted).await;
        let cluster = |name: &str| name.parse::<LogicalCluster>().expect("a name");
        assert!(links.get(&cluster("east")).is_some(), "it is connected");
        for (name, want) in [
            ("aaa", "secret n/malformed: kubeconfig: "),
            ("aab", "its connection is being made"),
            ("aac", "secret n/absent is missing"),
            ("aad", "may not be used for spoke \"aad\""),
        ] {
            assert!(links.get(&cluster(name)).is_none(), "{name}");
            let refusal = links.not_connected(&cluster(name));
            let status = refusal.status().expect("a status");
            assert_eq!(status.code, 503, "{name}");
            assert!(status.message.contains(want), "{name}: {}", status.message);
        }
        let retried: Vec<&LogicalCluster> = follower.retries.keys().collect();
        assert_eq!(retried, [&cluster("aab")], "the hub failed, not the spoke");
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
            links.put(&cluster, State::Linked(Arc::clone(&link)));
            let mut follower = follower(&links, |_| panic!("its spec is the same"));
            let known = Known::of(spoke(before));
            follower.spokes.insert(cluster.clone(), known);
            follower.take_spoke(Event::Applied(spoke(now))).await;
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
