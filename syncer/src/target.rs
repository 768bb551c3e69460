//! A target: the cluster behind a logical cluster, where children are written.
//!
//! Three sorts: a real spoke, to which instances are mirrored; an embedded one, which is served by
//! this hub itself; and root. Each has its own queue, caches and state of reach, so that one that
//! hangs is not noticeable at another.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use api::{ClusterScope, GroupVersionResource, LogicalCluster, selector::Selector};
use client::{Dynamic, Endpoint, reflector};
use graph::{Applied, ObjectRef};
use parking_lot::Mutex;
use tasks::Tasks;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use crate::{
    acting::Actors,
    children::{self, ChildCache, WatchedKind},
    definitions::distribution::Kinds,
    externals::ExternalCache,
    instances::claims::Claims,
    keys::InstanceKey,
    mirrors::MirrorCache,
    queue::WorkQueue,
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
    /// It did not, since then (RFC 3339), for this reason.
    Unreachable {
        /// Since when.
        since: String,
        /// The last failure.
        reason: String,
    },
}

/// The cluster behind a logical cluster.
pub(crate) struct Target {
    /// The logical cluster.
    pub(crate) cluster: LogicalCluster,
    /// What is behind it.
    pub(crate) sort: TargetSort,
    /// The client of the cluster (of the hub, unless it is [`TargetSort::Mirrored`]).
    pub(crate) dynamic: Dynamic,
    /// The logical cluster in its URLs: none for a real spoke.
    pub(crate) scope: Option<ClusterScope>,
    /// Those in whose names children are written.
    pub(crate) actors: Actors,
    /// Children of instances.
    pub(crate) children: Arc<ChildCache>,
    /// Objects that instances refer to and do not own.
    pub(crate) externals: Arc<ExternalCache>,
    /// Mirrors of instances, where there are any.
    pub(crate) mirrors: Arc<MirrorCache>,
    /// How far the CRDs of definitions are here.
    pub(crate) kinds: Kinds,
    /// Instances to be reconciled.
    pub(crate) queue: Arc<WorkQueue<InstanceKey>>,
    /// Mirrors whose status is to be written, coalesced.
    pub(crate) mirror_queue: Arc<WorkQueue<InstanceKey>>,
    /// Ends everything that runs for this connection.
    pub(crate) token: CancellationToken,
    /// Asks for a probe at once: a call has failed.
    pub(crate) probe: Notify,
    /// Ends the pauses of this target's watches: it answers again.
    pub(crate) wake: Arc<Notify>,
    /// The one plan that may take long here at a time.
    pub(crate) planning: Semaphore,
    /// Whether `system:masters` of the hub are that in the cluster too.
    trusts_masters: AtomicBool,
    /// Digest of the credential that it was connected with.
    pub(crate) credential: Option<u64>,
    tasks: Tasks,
    // Each guards one value; neither is held across an await nor while the other is.
    reach: Mutex<Reach>,
    memory: Mutex<HashMap<InstanceKey, Memory>>,
    version: Mutex<Option<String>>,
    cluster_uid: Mutex<Option<String>>,
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
    /// The ledger's spec as it was last written or read.
    pub(crate) ledger: Option<api::wheelhouse::InventorySpec>,
    /// Digest of the mirror as it was last written.
    pub(crate) mirror: Option<u64>,
    /// Failures in a row, for the backoff.
    pub(crate) failure_count: u32,
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
        Self {
            cluster,
            sort,
            dynamic,
            scope,
            actors: Actors::default(),
            children: Arc::default(),
            externals: Arc::default(),
            mirrors: Arc::default(),
            kinds: Kinds::default(),
            queue: Arc::default(),
            mirror_queue: Arc::default(),
            token,
            probe: Notify::new(),
            wake: Arc::default(),
            planning: Semaphore::new(1),
            trusts_masters: AtomicBool::new(false),
            credential: None,
            tasks: tasks.clone(),
            reach: Mutex::new(Reach::Reachable),
            memory: Mutex::default(),
            version: Mutex::default(),
            cluster_uid: Mutex::default(),
        }
    }

    /// Names an endpoint in this cluster.
    pub(crate) fn endpoint(&self, gvr: &GroupVersionResource, namespace: &str) -> Endpoint {
        Endpoint {
            scope: self.scope.clone(),
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
            client: self.dynamic.client().clone(),
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
        reflector::start_woken(source, Arc::clone(&self.wake), &self.tasks, end)
    }

    /// Starts the watch of a kind of children, if it does not run yet.
    pub(crate) fn watch_children(&self, kind: &WatchedKind) {
        if !self.children.register(kind) {
            return;
        }
        let queue = Arc::clone(&self.queue);
        children::watch(
            &self.children,
            kind.clone(),
            self.follow(
                self.source(&kind.gvr, Some(children::owned())),
                self.token.clone(),
            ),
            &self.tasks,
            move |instance| queue.add(instance),
        );
    }

    /// The tasks that this target's work is counted with.
    pub(crate) const fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Tells whether `system:masters` of the hub are that in the cluster too.
    pub(crate) fn trusts_masters(&self) -> bool {
        self.trusts_masters.load(Ordering::Relaxed)
    }

    /// Notes what the Spoke says of `system:masters`.
    pub(crate) fn note_trust(&self, trusts_masters: bool) {
        self.trusts_masters.store(trusts_masters, Ordering::Relaxed);
    }

    /// Tells whether the cluster answers.
    pub(crate) fn reach(&self) -> Reach {
        self.reach.lock().clone()
    }

    /// Notes the outcome of a probe. Returns whether the cluster came back just now.
    pub(crate) fn note_reach(&self, failure: Option<String>, now: &str) -> bool {
        let mut reach = self.reach.lock();
        match failure {
            None => {
                let back = *reach != Reach::Reachable;
                *reach = Reach::Reachable;
                back
            }
            Some(reason) => {
                let since = match &*reach {
                    Reach::Unreachable { since, .. } => since.clone(),
                    Reach::Reachable => now.to_owned(),
                };
                *reach = Reach::Unreachable { since, reason };
                false
            }
        }
    }

    /// Notes the answer of `/version`.
    pub(crate) fn note_version(&self, answer: &[u8]) {
        let answer: serde_json::Value = serde_json::from_slice(answer).unwrap_or_default();
        *self.version.lock() = answer["gitVersion"].as_str().map(str::to_owned);
    }

    /// Tells the version of the cluster's API server, once it has answered.
    pub(crate) fn version(&self) -> Option<String> {
        self.version.lock().clone()
    }

    /// Notes the uid of the cluster's namespace `kube-system`, which identifies it.
    pub(crate) fn note_cluster_uid(&self, uid: &str) {
        *self.cluster_uid.lock() = (!uid.is_empty()).then(|| uid.to_owned());
    }

    /// Tells the uid of the cluster, once it is known.
    pub(crate) fn cluster_uid(&self) -> Option<String> {
        self.cluster_uid.lock().clone()
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

    /// Remembers an instance.
    pub(crate) fn remember(&self, key: &InstanceKey, memory: Memory) {
        self.memory.lock().insert(key.clone(), memory);
    }

    /// Forgets an instance that is gone.
    pub(crate) fn forget(&self, key: &InstanceKey) {
        self.memory.lock().remove(key);
    }

    /// Adds an instance to be reconciled after a failure, later the more failures there were.
    pub(crate) fn retry(&self, key: &InstanceKey, failure_count: u32) {
        self.queue.add_after(key.clone(), backoff(failure_count));
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("cluster", &self.cluster)
            .field("sort", &self.sort)
            .field("reach", &*self.reach.lock())
            .finish_non_exhaustive()
    }
}

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
