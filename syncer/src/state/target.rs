//! A target: the cluster behind a logical cluster, where children are written.
//!
//! Three sorts: a real spoke, to which instances are mirrored; an embedded one, which is served by
//! this hub itself; and root. Each has its own queue, caches and state of reach, so that one that
//! hangs is not noticeable at another.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use api::{
    ClusterScope, GroupResource, GroupVersionKind, GroupVersionResource, LogicalCluster,
    selector::Selector, wheelhouse::InventorySpec,
};
use client::{Dynamic, Endpoint, Term, reflector};
use graph::{Applied, ObjectRef};
use parking_lot::Mutex;
use serde_json::Value;
use spokes::{IdentityFault, Link, Trouble, TroubleKind};
use tasks::{Tasks, WorkQueue};
use tokio::{
    sync::{Notify, Semaphore, mpsc, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::resources;

use super::{
    actors::{Actors, Place},
    admission::Admission,
    children::{self, ChildCache, WatchedKind},
    claims::Claims,
    events::Events,
    externals::ExternalCache,
    keys::InstanceKey,
    kinds::Kinds,
    mirrors::MirrorCache,
    own_states::ObjectState,
    pruning::Pruning,
    revision::Revision,
    shares::{self, Shares},
};

/// What sort of cluster is behind a logical cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TargetSort {
    /// The hub's own logical cluster; instances and children live in the hub's store.
    Root,
    /// A logical cluster that this hub serves itself; no mirror.
    Embedded,
    /// A real cluster; instances are mirrored to it.
    Mirrored,
}

/// Whether the cluster answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The last probe or call succeeded.
    Reachable,
    /// It did not.
    Unreachable(Trouble),
}

/// What the probes of a cluster have found.
#[derive(Debug, Clone)]
struct Probed {
    /// Whether there was one: before, nothing is known of the cluster.
    any: bool,
    reach: Reach,
}

/// The cluster behind a logical cluster.
pub(crate) struct Target {
    /// The logical cluster.
    pub(crate) cluster: LogicalCluster,
    /// What is behind it.
    pub(crate) sort: TargetSort,
    /// The client of the cluster (of the hub, unless it is [`TargetSort::Mirrored`]).
    pub(crate) dynamic: Dynamic,
    /// The hub's client of itself, for what it keeps at the path of a real spoke; nothing elsewhere, where the target is the hub.
    pub(crate) hub: Option<Dynamic>,
    /// The logical cluster in its URLs: none for a real spoke.
    pub(crate) scope: Option<ClusterScope>,
    /// Those in whose names children are written.
    pub(crate) actors: Actors,
    /// The same upon what the hub keeps for a real spoke.
    pub(crate) actors_at_hub: Actors,
    /// Children of instances.
    pub(crate) children: Arc<ChildCache>,
    /// Objects that instances refer to and do not own.
    pub(crate) externals: Arc<ExternalCache>,
    /// Mirrors of instances, where there are any.
    pub(crate) mirrors: Arc<MirrorCache>,
    /// How far the CRDs of definitions are here.
    pub(crate) kinds: Kinds,
    /// Which kinds the cluster's own admission may concern, where it is a real spoke.
    pub(crate) admission: Admission,
    /// Instances to be reconciled.
    pub(crate) queue: Arc<WorkQueue<InstanceKey, ObjectState>>,
    /// Mirrors whose status is to be written, coalesced.
    pub(crate) mirror_queue: Arc<WorkQueue<InstanceKey>>,
    /// What is to be told of instances.
    pub(crate) events: Events,
    /// What plans delete here, over all instances of a kind.
    pub(crate) pruning: Pruning,
    /// Ends everything that runs for this connection.
    pub(crate) token: CancellationToken,
    /// Asks for a probe at once: a call has failed.
    pub(crate) probe: Arc<Notify>,
    /// What this target's watches are told: that it answers, and that it was away.
    pub(crate) signals: reflector::Signals,
    /// The one plan that may take long here at a time.
    pub(crate) planning: Semaphore,
    /// Held by who writes CRDs here.
    pub(crate) defining: tokio::sync::Mutex<()>,
    /// In which term it is looked after; `None` where nobody else could.
    pub(crate) term: Option<Term>,
    /// The connection of a real spoke.
    link: Option<Arc<Link>>,
    /// When its Spoke was made, as the wire writes it; empty for root.
    pub(crate) created: String,
    tasks: Tasks,
    // Each guards one value; neither is held across an await nor while the other is.
    reach: watch::Sender<Probed>,
    identity_fault: Mutex<Option<IdentityFault>>,
    /// What the credential is not allowed; nothing where the cluster has not said so.
    missing_rights: Mutex<Option<String>>,
    /// Resources whose instances the hub stores in the place of the spoke. Guards its set.
    kept: Mutex<HashSet<GroupResource>>,
    /// Until when its schemas are not asked for: it did not answer in time.
    schemas_paused: Mutex<Option<Instant>>,
    /// When all definitions were last reconciled because this cluster came back.
    definitions_added: Mutex<Option<Instant>>,
    memory: Mutex<HashMap<InstanceKey, Memory>>,
    /// Instances that were made in the spoke and are not there any more.
    lost: Mutex<HashSet<InstanceKey>>,
    version: Mutex<Option<String>>,
    cluster_uid: Mutex<Option<String>>,
    /// When the cluster last answered a probe, as the wire writes it.
    heard: Mutex<Option<String>>,
    /// The id that the cluster gives itself, once it has been asked. Guards one value.
    cluster_id: Mutex<Option<OwnId>>,
    /// The latest revision of its store. Guards one value.
    revision: Mutex<Revision>,
}

/// The id that a cluster gives itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OwnId {
    /// It gives itself none.
    None,
    /// This one.
    Some(String),
}

/// What the syncer remembers of an instance between two reconciles. Losing it costs work, never
/// correctness: the ledger and the caches say the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory {
    /// The uid of the hub's instance; another one means another instance of the same name.
    pub(crate) uid: String,
    /// What was applied, and what came of it.
    pub(crate) applied: BTreeMap<ObjectRef, Applied>,
    /// What is the instance's own in the target.
    pub(crate) claims: Claims,
    /// What was the instance's own and has gone since the ledger was exact.
    pub(crate) gone: HashSet<ObjectRef>,
    /// The ledger's spec as it was last written or read.
    pub(crate) ledger: Option<InventorySpec>,
    /// Digest of the mirror as it was last written.
    pub(crate) mirror: Option<u64>,
    /// How many children there were when nothing was left to be done; `None` where that is not known.
    pub(crate) settled_count: Option<usize>,
    /// The revision whose deletions wait because of those of all instances of its kind; the ledger says so over restarts.
    pub(crate) held_revision: Option<i64>,
    /// Of which generation the instance was then, and with which revision; `None` where that is not known.
    pub(crate) settled_at: Option<Settled>,
    /// The uid of the mirror; empty until one is known.
    pub(crate) mirror_uid: String,
    /// Failures in a row, for the backoff.
    pub(crate) failure_count: u32,
}

/// What an instance was planned from when nothing was left to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settled {
    pub(crate) generation: i64,
    /// The uid of the definition, and the number of its revision.
    pub(crate) definition: String,
    pub(crate) revision: i64,
}

// === impl Probed ===

impl Probed {
    /// What is known before the first probe. Root and embedded clusters are this hub itself.
    fn before(sort: TargetSort) -> Self {
        match sort {
            TargetSort::Root | TargetSort::Embedded => Self {
                any: true,
                reach: Reach::Reachable,
            },
            TargetSort::Mirrored => Self {
                any: false,
                reach: Reach::Unreachable(Trouble {
                    since: api::meta::time_now_text(jiff::Timestamp::now()),
                    kind: TroubleKind::Silent,
                    reason: "it has not been asked yet".to_owned(),
                }),
            },
        }
    }
}

// === impl Target ===

impl Target {
    /// Makes a target without contacting it.
    pub(crate) fn new(
        cluster: LogicalCluster,
        sort: TargetSort,
        dynamic: Dynamic,
        tasks: &Tasks,
        token: CancellationToken,
    ) -> Self {
        let scope = match sort {
            TargetSort::Mirrored => None,
            TargetSort::Embedded | TargetSort::Root => Some(ClusterScope::One(cluster.clone())),
        };
        let probe: Arc<Notify> = Arc::default();
        Self {
            cluster,
            sort,
            dynamic,
            hub: None,
            scope,
            actors: Actors::default(),
            actors_at_hub: Actors::default(),
            children: Arc::default(),
            externals: Arc::default(),
            mirrors: Arc::default(),
            kinds: Kinds::default(),
            admission: Admission::default(),
            queue: Arc::new(tasks.queue("instance")),
            mirror_queue: Arc::new(tasks.queue("mirror-status")),
            events: Events::default(),
            pruning: Pruning::default(),
            token,
            signals: reflector::Signals::new(Arc::clone(&probe)),
            probe,
            planning: Semaphore::new(1),
            defining: tokio::sync::Mutex::default(),
            term: None,
            link: None,
            created: String::new(),
            tasks: tasks.clone(),
            reach: watch::Sender::new(Probed::before(sort)),
            identity_fault: Mutex::default(),
            missing_rights: Mutex::default(),
            kept: Mutex::default(),
            schemas_paused: Mutex::default(),
            definitions_added: Mutex::default(),
            memory: Mutex::default(),
            lost: Mutex::default(),
            version: Mutex::default(),
            cluster_uid: Mutex::default(),
            heard: Mutex::default(),
            cluster_id: Mutex::default(),
            revision: Mutex::default(),
        }
    }

    /// Makes the target of a real spoke without contacting it. What it writes there is written in the term of now, or not at all.
    pub(crate) fn mirrored(
        link: Arc<Link>,
        (hub, shares): (Dynamic, &Arc<Shares>),
        kept: HashSet<GroupResource>,
        created: &str,
        tasks: &Tasks,
        token: CancellationToken,
    ) -> Self {
        let cluster = link.spoke().clone();
        let term = shares.term(&cluster);
        let dynamic = shares::in_term_of(shares, &cluster, &link.for_controllers());
        let mut target = Self::new(cluster, TargetSort::Mirrored, dynamic, tasks, token);
        target.term = term;
        created.clone_into(&mut target.created);
        target.probe = Arc::clone(link.probe());
        target.signals = reflector::Signals::new(Arc::clone(&target.probe));
        target.link = Some(link);
        target.hub = Some(hub);
        target.kept = Mutex::new(kept);
        target
    }

    /// Returns whether the hub stores the instances of a resource in the place of the spoke.
    pub(crate) fn keeps(&self, gvr: &GroupVersionResource) -> bool {
        self.kept.lock().contains(&gvr.group_resource())
    }

    /// Notes that the hub stores the instances of a resource from now on.
    pub(crate) fn note_kept(&self, resource: GroupResource) {
        self.kept.lock().insert(resource);
    }

    /// Notes that the hub is about to store no instances of a resource any more, of which it has none.
    pub(crate) fn forget_kept(&self, resource: &GroupResource) {
        self.kept.lock().remove(resource);
        for instance in self.children.deregister(resource, Place::Hub) {
            self.queue.add(instance); // it waits for no watch any more
        }
    }

    /// Returns a kind in all places where objects of it may have been made.
    pub(crate) fn watched(
        &self,
        gvk: &GroupVersionKind,
        gvr: &GroupVersionResource,
    ) -> Vec<WatchedKind> {
        let mut places = vec![self.place(gvr)];
        if self.keeps(gvr) {
            places.insert(0, Place::Hub);
        }
        let kinds = places.into_iter().map(|place| WatchedKind {
            gvk: gvk.clone(),
            gvr: gvr.clone(),
            place,
        });
        kinds.collect()
    }

    /// Returns the kinds that a ledger names, in all places.
    pub(crate) fn watched_of_ledger(&self, ledger: Option<&InventorySpec>) -> Vec<WatchedKind> {
        let kinds = children::kinds_of_ledger(ledger);
        let kinds = kinds.iter().flat_map(|(gvk, gvr)| self.watched(gvk, gvr));
        kinds.collect()
    }

    /// Returns where the objects of a kind are; those of kinds that have instances may be at the hub's path too.
    pub(crate) fn place(&self, gvr: &GroupVersionResource) -> Place {
        if self.hub.is_some() && resources::is_kept_by_hub(gvr) {
            Place::Hub
        } else {
            Place::Cluster
        }
    }

    /// Returns the hub's own client of the objects of a kind.
    pub(crate) fn dynamic_of(&self, gvr: &GroupVersionResource) -> &Dynamic {
        self.dynamic_at(self.place(gvr))
    }

    /// Returns the hub's own client of a place.
    pub(crate) const fn dynamic_at(&self, place: Place) -> &Dynamic {
        match (&self.hub, place) {
            (Some(hub), Place::Hub) => hub,
            _ => &self.dynamic,
        }
    }

    /// Waits for what a call answers, unless the cluster went away or was set back meanwhile: an answer of before would count as newer
    /// than all that it has now.
    pub(crate) async fn timely<T>(
        &self,
        call: impl Future<Output = Result<T, client::Error>>,
    ) -> Result<T, client::Error> {
        let counts = || (self.signals.relist_count(), self.signals.away_count());
        let before = counts();
        let answer = call.await;
        if counts() == before {
            answer
        } else {
            Err(client::Error::Timeout)
        }
    }

    /// Names an endpoint in this cluster, or in the hub for what it keeps.
    pub(crate) fn endpoint(&self, gvr: &GroupVersionResource, namespace: &str) -> Endpoint {
        self.endpoint_at(self.place(gvr), gvr, namespace)
    }

    /// Names an endpoint in a place.
    pub(crate) fn endpoint_at(
        &self,
        place: Place,
        gvr: &GroupVersionResource,
        namespace: &str,
    ) -> Endpoint {
        let scope = match place {
            Place::Cluster => self.scope.clone(),
            Place::Hub => Some(ClusterScope::One(self.cluster.clone())),
        };
        Endpoint {
            scope,
            gvr: gvr.clone(),
            namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
        }
    }

    /// Names what a reflector reads: all objects of an endpoint, in all namespaces.
    pub(crate) fn source(
        &self,
        gvr: &GroupVersionResource,
        label_selector: Option<Selector>,
    ) -> reflector::Config {
        reflector::Config {
            client: self.dynamic_of(gvr).client().clone(),
            endpoint: self.endpoint(gvr, ""),
            label_selector,
            field_selector: None,
            name: format!("{}/{}", self.cluster, gvr.resource),
        }
    }

    /// Follows a collection of this cluster until `end`, which is the target's token or a child of
    /// it.
    pub(crate) fn follow(
        &self,
        source: reflector::Config,
        end: CancellationToken,
    ) -> mpsc::Receiver<reflector::Event> {
        reflector::start_signalled(source, self.signals.clone(), &self.tasks, end)
    }

    /// Starts the watch of a kind of children, if it does not run yet.
    pub(crate) fn watch_children(&self, kind: &WatchedKind) {
        let Some(end) = self.children.register(kind, &self.token) else {
            return;
        };
        let queue = Arc::clone(&self.queue);
        let mut source = self.source(&kind.gvr, Some(children::owned()));
        source.client = self.dynamic_at(kind.place).client().clone();
        source.endpoint = self.endpoint_at(kind.place, &kind.gvr, "");
        children::watch(
            &self.children,
            (kind.clone(), end.clone()),
            self.follow(source, end),
            &self.tasks,
            move |instance, seen| match seen {
                Some(seen) => queue.add_for(instance, seen),
                None => queue.add(instance),
            },
        );
    }

    /// The tasks that this target's work is counted with.
    pub(crate) const fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Returns the connection of a real spoke.
    pub(crate) const fn link(&self) -> Option<&Arc<Link>> {
        self.link.as_ref()
    }

    /// Whether `system:masters` of the hub are that in the cluster too.
    pub(crate) fn trusts_masters(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.trusts_masters())
    }

    /// Returns whether the cluster answers.
    pub(crate) fn reach(&self) -> Reach {
        self.reach.borrow().reach.clone()
    }

    /// Whether it is known whether the cluster answers.
    pub(crate) fn is_probed(&self) -> bool {
        self.reach.borrow().any
    }

    /// Waits until it is known whether the cluster answers.
    pub(crate) async fn probed(&self) {
        self.wait_for(|probed| probed.any).await;
    }

    /// Waits until the cluster answers, as the one that its Spoke is for.
    pub(crate) async fn reachable(&self) {
        self.wait_for(|probed| probed.reach == Reach::Reachable)
            .await;
    }

    async fn wait_for(&self, holds: impl FnMut(&Probed) -> bool) {
        let mut probed = self.reach.subscribe();
        // The sender lives as long as the target that is borrowed here.
        drop(probed.wait_for(holds).await);
    }

    /// Notes the outcome of a probe. Returns whether the cluster came back just now.
    pub(crate) fn note_reach(&self, failure: Option<(TroubleKind, String)>, now: &str) -> bool {
        let before = self.reach();
        let (reach, back) = match failure {
            None => {
                *self.heard.lock() = Some(now.to_owned());
                if let Some(link) = &self.link {
                    link.answered();
                }
                (Reach::Reachable, before != Reach::Reachable)
            }
            Some((kind, reason)) => {
                let trouble = self.trouble(before, kind, reason, now);
                (Reach::Unreachable(trouble), false)
            }
        };
        self.reach.send_replace(Probed { any: true, reach });
        back
    }

    /// Returns since when the cluster fails: as the path says, which may have noticed it first.
    fn trouble(&self, before: Reach, kind: TroubleKind, reason: String, now: &str) -> Trouble {
        match (before, &self.link) {
            (Reach::Unreachable(known), link) => {
                let since = known.since;
                if let Some(link) = link {
                    link.note_trouble(kind, reason.clone(), &since);
                }
                Trouble {
                    since,
                    kind,
                    reason,
                }
            }
            (Reach::Reachable, Some(link)) => link.note_trouble(kind, reason, now),
            (Reach::Reachable, None) => Trouble {
                since: now.to_owned(),
                kind,
                reason,
            },
        }
    }

    /// Notes whether the cluster is the one that its Spoke is for.
    pub(crate) fn note_identity(&self, fault: Option<IdentityFault>) {
        let is_known = fault.is_none();
        let before = std::mem::replace(&mut *self.identity_fault.lock(), fault);
        if before.is_some()
            && is_known
            && let Some(link) = &self.link
        {
            link.follow_namespaces();
        }
    }

    /// Returns why the cluster is not the one that its Spoke is for.
    pub(crate) fn identity_fault(&self) -> Option<IdentityFault> {
        self.identity_fault.lock().clone()
    }

    /// Notes what the credential is not allowed.
    pub(crate) fn note_missing_rights(&self, missing: Option<String>) {
        *self.missing_rights.lock() = missing;
    }

    /// Returns what the credential is not allowed, as far as the cluster was asked.
    pub(crate) fn missing_rights(&self) -> Option<String> {
        self.missing_rights.lock().clone()
    }

    /// Returns whether the cluster is to be asked for its schemas.
    pub(crate) fn gives_schemas(&self) -> bool {
        self.schemas_paused
            .lock()
            .is_none_or(|until| until <= Instant::now())
    }

    /// Notes that the cluster did not give its schemas in time.
    pub(crate) fn pause_schemas(&self, duration: Duration) {
        *self.schemas_paused.lock() = Some(Instant::now() + duration);
    }

    /// Returns how long to wait until definitions are to be reconciled because this cluster is back: at once, unless they just were.
    pub(crate) fn definitions_delay(&self) -> Duration {
        let now = Instant::now();
        let mut added = self.definitions_added.lock();
        let due = match *added {
            Some(before) if before > now => before,
            Some(before) => now.max(before + DEFINITIONS_INTERVAL),
            None => now,
        };
        *added = Some(due);
        due.saturating_duration_since(now)
    }

    /// Notes the answer of `/version`.
    pub(crate) fn note_version(&self, answer: &[u8]) {
        let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
        let version = answer["gitVersion"].as_str();
        let is_plain = |version: &&str| {
            version.len() <= VERSION_BYTES_MAX && !version.contains(char::is_control)
        };
        let version = version.filter(is_plain);
        *self.version.lock() = version.map(str::to_owned);
    }

    /// Returns the version of the cluster's API server, once it has answered.
    pub(crate) fn version(&self) -> Option<String> {
        self.version.lock().clone()
    }

    /// Returns when the cluster last answered a probe; `None` where none was answered.
    pub(crate) fn heard(&self) -> Option<String> {
        self.heard.lock().clone()
    }

    /// Notes the uid of the cluster's namespace `kube-system`, which identifies it.
    pub(crate) fn note_cluster_uid(&self, uid: &str) {
        *self.cluster_uid.lock() = (!uid.is_empty()).then(|| uid.to_owned());
    }

    /// Returns the uid of the cluster, once it is known.
    pub(crate) fn cluster_uid(&self) -> Option<String> {
        self.cluster_uid.lock().clone()
    }

    /// Notes the id that the cluster gives itself. What is no name is none.
    pub(crate) fn note_cluster_id(&self, id: &str) {
        let is_name = api::validation::is_dns_subdomain(id).is_empty();
        *self.cluster_id.lock() = Some(if is_name {
            OwnId::Some(id.to_owned())
        } else {
            OwnId::None
        });
    }

    /// Returns the id that the cluster gives itself; `None` while it has not been asked.
    pub(crate) fn cluster_id(&self) -> Option<OwnId> {
        self.cluster_id.lock().clone()
    }

    /// Notes the revision of the store of the cluster with a uid. Returns what to say where it is an earlier one than before, the
    /// first time.
    pub(crate) fn note_revision(&self, uid: &str, version: &str, now: &str) -> Option<String> {
        self.revision.lock().note(uid, version, now)
    }

    /// Recalls the revision that an earlier process saw.
    pub(crate) fn recall_revision(&self, status: &Value) {
        *self.revision.lock() = Revision::recall(status);
    }

    /// Returns the latest revision that was seen, as a Spoke's status has it.
    pub(crate) fn revision(&self) -> Option<Value> {
        self.revision.lock().to_value()
    }

    /// Returns why the cluster is taken to have been set back, until it is past the revision that it had.
    pub(crate) fn set_back(&self) -> Option<String> {
        self.revision.lock().set_back().map(str::to_owned)
    }

    /// Recalls what is remembered of an instance; nothing, if the uid is another one.
    pub(crate) fn recall(&self, key: &InstanceKey, uid: &str) -> Memory {
        let memory = self.memory.lock();
        match memory.get(key) {
            Some(known) if known.uid == uid => known.clone(),
            _ => Memory {
                uid: uid.to_owned(),
                ..Memory::default()
            },
        }
    }

    /// Returns the uid of an instance's mirror, once it is known.
    pub(crate) fn mirror_uid(&self, key: &InstanceKey, uid: &str) -> Option<String> {
        let memory = self.memory.lock();
        let known = memory.get(key).filter(|known| known.uid == uid)?;
        (!known.mirror_uid.is_empty()).then(|| known.mirror_uid.clone())
    }

    /// Remembers an instance.
    pub(crate) fn remember(&self, key: &InstanceKey, memory: Memory) {
        self.memory.lock().insert(key.clone(), memory);
    }

    /// Forgets an instance that is gone. How often its key has failed since stays.
    pub(crate) fn forget_instance(&self, key: &InstanceKey) {
        self.note_found(key);
        let mut memory = self.memory.lock();
        if memory.get(key).is_some_and(|known| !known.uid.is_empty()) {
            memory.remove(key);
        }
    }

    /// Notes that an instance that was made in the spoke is not there any more.
    pub(crate) fn note_lost(&self, key: &InstanceKey) {
        self.lost.lock().insert(key.clone());
    }

    /// Notes that it is there, or that nobody looks for it any more.
    pub(crate) fn note_found(&self, key: &InstanceKey) {
        self.lost.lock().remove(key);
    }

    /// Counts the instances that were made in the spoke and are not there any more.
    pub(crate) fn lost_count(&self) -> usize {
        self.lost.lock().len()
    }

    /// Counts one more failure in a row of a key that has no instance. The next instance of that name begins anew.
    pub(crate) fn count_failure(&self, key: &InstanceKey) -> u32 {
        let mut memory = self.memory.lock();
        let known = memory.entry(key.clone()).or_default();
        known.failure_count += 1;
        known.failure_count
    }

    /// Adds an instance to be reconciled after a failure, later the more failures there were.
    pub(crate) fn retry(&self, key: &InstanceKey, failure_count: u32) {
        self.queue.retry_after(key.clone(), backoff(failure_count));
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("cluster", &self.cluster)
            .field("sort", &self.sort)
            .field("reach", &self.reach())
            .finish_non_exhaustive()
    }
}

/// Between two times that a cluster which comes and goes has all definitions reconciled.
const DEFINITIONS_INTERVAL: Duration = Duration::from_secs(10);

/// A `gitVersion` has some thirty characters; what is longer is none.
const VERSION_BYTES_MAX: usize = 128;

/// The longest wait between two tries of one instance: a user who mends the cause by hand should
/// not wait longer, and 10,000 failing instances cost at most 330 tries a second.
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// The wait after a first failure.
const BACKOFF_MIN: Duration = Duration::from_millis(200);

fn backoff(failure_count: u32) -> Duration {
    let base = BACKOFF_MIN
        .saturating_mul(1 << failure_count.min(10))
        .min(BACKOFF_MAX);
    // Up to a quarter earlier, so that what failed together is not tried together.
    base.mul_f64(1.0 - rand::random::<f64>() / 4.0)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;
    use crate::testing::{World, key};

    #[tokio::test]
    async fn who_waits_for_a_kind_that_the_hub_gives_up_is_looked_at_again() {
        let (world, parent) = (World::new(), key("Web", "parent"));
        let target = &world.target;
        let gvr = GroupVersionResource::new("kro.run", "v1alpha1", "apps");
        let gvk = GroupVersionKind::new("kro.run", "v1alpha1", "App");
        target.note_kept(gvr.group_resource());
        for kind in target.watched(&gvk, &gvr) {
            target.children.register(&kind, &target.token);
            target.children.sync(&kind, &parent);
        }
        assert_eq!(target.queue.next().now_or_never(), None, "it waits");
        target.forget_kept(&gvr.group_resource());
        let next = target.queue.next().now_or_never();
        assert_eq!(next, Some(parent), "it has no watch to wait for");
    }
}
