//! The hub's own spokes as ClusterProfiles, for tools that read an inventory.
//!
//! # Invariants
//! - A profile that does not have this hub's label is another manager's: it is neither changed nor deleted.
//! - No profile goes before all Spokes are known.
//! - No two profiles have the same id: what a cluster says of itself changes nothing in the profile of another one.
//! - A profile is written when it says something new, and not more often than the inventory asks of its writers.
//!
//! Source: KEP-4322, KEP-2149.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use api::{LogicalCluster, inventory, selector::Selector, wheelhouse::keys};
use client::{
    DeleteRequest, Endpoint, Patch,
    reflector::{self, Event, RawObject},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tasks::WorkQueue;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::profile::{self, Publication};
use crate::{engine::Engine, resources};

/// How often one profile is written at most, after a burst. Source: KEP-4322.
const WRITE_INTERVAL: Duration = Duration::from_secs(30);
/// How many writes of one profile may follow each other. Source: KEP-4322.
const WRITE_BURST: u32 = 10;
/// How soon a failure is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(2);

/// Publishes spokes.
struct Publisher {
    engine: Arc<Engine>,
    publication: Publication,
    queue: WorkQueue<LogicalCluster>,
    /// The hub's profiles by name, once they are known. Guards the map.
    profiles: Mutex<Option<BTreeMap<String, Arc<RawObject>>>>,
    /// Whose which id is. Guards the map; a leaf of the lock order.
    ids: Mutex<Ids>,
    /// Spokes of whose name another manager has a profile. Guards the set.
    foreign: Mutex<BTreeSet<LogicalCluster>>,
    /// What may be written still. Guards the map.
    budgets: Mutex<BTreeMap<LogicalCluster, Budget>>,
}

/// How often a profile may be written.
#[derive(Debug)]
struct Budget {
    left: u32,
    /// Since when there is one less than there may be.
    since: Instant,
}

/// The ids of clusters, each of which one cluster has: whoever had it first.
#[derive(Debug, Default)]
struct Ids {
    held: BTreeMap<LogicalCluster, String>,
}

/// Starts to publish spokes.
pub(super) fn start(engine: &Arc<Engine>, publication: Publication) {
    let publisher = Arc::new(Publisher {
        engine: Arc::clone(engine),
        publication,
        queue: engine.tasks.queue("cluster-profile"),
        profiles: Mutex::default(),
        ids: Mutex::default(),
        foreign: Mutex::default(),
        budgets: Mutex::default(),
    });
    let (tasks, end) = (&engine.tasks, engine.tasks.child_token());
    tasks.spawn("published-spokes", follow_spokes(Arc::clone(&publisher)));
    tasks.spawn("cluster-profiles", async move {
        while let Some(cluster) = publisher.queue.next_until(&end).await {
            publisher.run(&cluster).await;
            publisher.queue.done(&cluster);
        }
    });
}

async fn follow_spokes(publisher: Arc<Publisher>) {
    let (tasks, end) = (
        &publisher.engine.tasks,
        publisher.engine.tasks.child_token(),
    );
    let changes = publisher.engine.spokes.subscribe();
    let mut is_listed = false;
    loop {
        let changed = tokio::select! {
            biased;
            () = end.cancelled() => return,
            changed = changes.next() => changed,
        };
        for cluster in changed {
            publisher.queue.add(cluster);
        }
        // Only now is a profile without a Spoke one whose Spoke is gone.
        if !is_listed {
            let events = reflector::start(publisher.watched(), tasks, tasks.child_token());
            tasks.spawn("published-profiles", follow(Arc::clone(&publisher), events));
            is_listed = true;
        }
    }
}

async fn follow(publisher: Arc<Publisher>, mut events: tokio::sync::mpsc::Receiver<Event>) {
    while let Some(event) = events.recv().await {
        for name in publisher.take(event) {
            if let Ok(cluster) = name.parse() {
                publisher.queue.add(cluster);
            }
        }
    }
}

/// Makes the definition of ClusterProfile where there is none. One that is there stays as it is.
pub(super) fn start_definition(engine: &Arc<Engine>) {
    let (engine, end) = (Arc::clone(engine), engine.tasks.child_token());
    let tasks = engine.tasks.clone();
    tasks.spawn("cluster-profile-definition", async move {
        let endpoint = Engine::hub_endpoint(&LogicalCluster::root(), &resources::crds(), "");
        loop {
            match engine.hub.create(&endpoint, &inventory::definition()).await {
                Ok(_) => return info!("made the definition of ClusterProfile"),
                Err(error) if error.is_already_exists() => return,
                Err(error) => warn!(error = %error, "cannot make the definition of ClusterProfile"),
            }
            tokio::select! {
                biased;
                () = end.cancelled() => return,
                () = tokio::time::sleep(RETRY_DELAY) => {}
            }
        }
    });
}

// === impl Publisher ===

impl Publisher {
    fn endpoint(&self) -> Endpoint {
        let root = LogicalCluster::root();
        Engine::hub_endpoint(
            &root,
            &resources::cluster_profiles(),
            &self.publication.namespace,
        )
    }

    fn watched(&self) -> reflector::Config {
        let own: Option<Selector> = format!("{}={}", keys::HUB, self.engine.hub_id).parse().ok();
        reflector::Config {
            client: self.engine.hub.client().clone(),
            endpoint: self.endpoint(),
            label_selector: own,
            field_selector: None,
            name: "hub/clusterprofiles".to_owned(),
        }
    }

    /// Takes up an event of the hub's profiles. Returns which are to be looked at.
    fn take(&self, event: Event) -> BTreeSet<String> {
        if matches!(event, Event::Interrupted(_) | Event::Resumed) {
            return BTreeSet::new(); // silence says nothing
        }
        let mut known = self.profiles.lock();
        let is_first = known.is_none();
        let profiles = known.get_or_insert_default();
        match event {
            Event::Restarted { objects, .. } => {
                let objects = objects.into_iter().map(|it| (it.name.clone(), it));
                let before = std::mem::replace(profiles, objects.collect());
                let mut names: BTreeSet<String> =
                    profiles.keys().chain(before.keys()).cloned().collect();
                if is_first {
                    self.ids.lock().recall(profiles.values());
                    let spokes = self.engine.spokes.names();
                    names.extend(spokes.iter().map(ToString::to_string));
                }
                names
            }
            Event::Applied(object) => {
                let name = object.name.clone();
                profiles.insert(name.clone(), object);
                [name].into()
            }
            Event::Deleted(object) => {
                profiles.remove(&object.name);
                [object.name.clone()].into()
            }
            Event::Interrupted(_) | Event::Resumed => BTreeSet::new(),
        }
    }

    async fn run(&self, cluster: &LogicalCluster) {
        if let Err(error) = self.step(cluster).await {
            debug!(spoke = %cluster, error = %error.chain(), "cannot write a ClusterProfile yet");
            self.queue.retry_after(cluster.clone(), RETRY_DELAY);
        }
    }

    async fn step(&self, cluster: &LogicalCluster) -> Result<(), client::Error> {
        let known = {
            let profiles = self.profiles.lock();
            let Some(profiles) = profiles.as_ref() else {
                return Ok(()); // every spoke is looked at once they are known
            };
            profiles.get(cluster.as_str()).cloned()
        };
        let known = known.and_then(|it| it.value().ok());
        let Some(entry) = self.engine.spokes.get(cluster) else {
            self.budgets.lock().remove(cluster);
            self.ids.lock().held.remove(cluster);
            self.foreign.lock().remove(cluster);
            return match known {
                Some(profile) => self.delete(&profile).await,
                None => Ok(()),
            };
        };
        let Ok(spoke) = entry.known.object.value() else {
            return Ok(()); // what cannot be read says nothing
        };
        let now = Engine::now();
        let wanted = profile::profile(&self.engine.hub_id, &self.publication, &spoke);
        let ids = profile::ids(&spoke);
        let id = ids
            .into_iter()
            .find(|id| self.ids.lock().claim(cluster, id));
        let status = profile::status(&self.publication, &spoke, id, known.as_ref(), &now);
        let Some(known) = known else {
            return self.create(cluster, &wanted, &status).await;
        };
        let is_current =
            profile::is_part(&wanted["metadata"]["labels"], &known["metadata"]["labels"])
                && profile::is_part(&wanted["spec"], &known["spec"]);
        let has_status = known["status"] == status;
        if is_current && has_status {
            return Ok(());
        }
        if let Err(pause) = self.spend(cluster) {
            self.queue.add_after(cluster.clone(), pause);
            return Ok(());
        }
        let (endpoint, name) = (self.endpoint(), cluster.as_str());
        if !is_current {
            let patch = json!({"metadata": {"labels": wanted["metadata"]["labels"]}, "spec": wanted["spec"]});
            let patch = Patch::Merge(&patch);
            self.engine.hub.patch(&endpoint, name, None, patch).await?;
        }
        self.put_status(cluster, &status).await
    }

    async fn create(
        &self,
        cluster: &LogicalCluster,
        wanted: &Value,
        status: &Value,
    ) -> Result<(), client::Error> {
        let endpoint = self.endpoint();
        match self.engine.hub.create(&endpoint, wanted).await {
            Ok(_) => self.put_status(cluster, status).await,
            Err(error) if error.is_already_exists() => {
                let there = self.engine.hub.get(&endpoint, cluster.as_str()).await?;
                if api::meta::label(&there, keys::HUB) == Some(self.engine.hub_id.as_str()) {
                    self.queue.add_after(cluster.clone(), RETRY_DELAY); // the watch has not shown it yet
                } else if self.foreign.lock().insert(cluster.clone()) {
                    warn!(spoke = %cluster, "a spoke is not published: another manager has a ClusterProfile of its name");
                }
                Ok(())
            }
            Err(error) if error.is_not_found() => {
                self.create_namespace().await?;
                Err(error) // or the definition is not served yet
            }
            Err(error) => Err(error),
        }
    }

    async fn create_namespace(&self) -> Result<(), client::Error> {
        let root = LogicalCluster::root();
        let endpoint = Engine::hub_endpoint(&root, &resources::core("namespaces"), "");
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": self.publication.namespace}});
        match self.engine.hub.create(&endpoint, &namespace).await {
            Err(error) if !error.is_already_exists() => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    async fn put_status(
        &self,
        cluster: &LogicalCluster,
        status: &Value,
    ) -> Result<(), client::Error> {
        let patch = json!([{"op": "add", "path": "/status", "value": status}]);
        let (endpoint, name) = (self.endpoint(), cluster.as_str());
        let patch = Patch::Json(&patch);
        let patched = self
            .engine
            .hub
            .patch(&endpoint, name, Some("status"), patch);
        patched.await.map(|_| ())
    }

    async fn delete(&self, profile: &Value) -> Result<(), client::Error> {
        let request = DeleteRequest::of(api::meta::uid(profile));
        let (endpoint, name) = (self.endpoint(), api::meta::name(profile));
        match self.engine.hub.delete(&endpoint, name, &request).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Takes a write from the budget of a profile. The error is when there is one again.
    fn spend(&self, cluster: &LogicalCluster) -> Result<(), Duration> {
        let now = Instant::now();
        let mut budgets = self.budgets.lock();
        let budget = budgets.entry(cluster.clone()).or_insert(Budget {
            left: WRITE_BURST,
            since: now,
        });
        budget.spend(now)
    }
}

// === impl Ids ===

impl Ids {
    /// Recalls which ids were published.
    fn recall<'p>(&mut self, profiles: impl Iterator<Item = &'p Arc<RawObject>>) {
        for profile in profiles {
            let (Ok(cluster), Ok(value)) = (profile.name.parse(), profile.value()) else {
                continue;
            };
            let mut properties = value["status"]["properties"]
                .as_array()
                .into_iter()
                .flatten();
            let property = properties.find(|it| it["name"] == inventory::PROPERTY_CLUSTER_ID);
            if let Some(id) = property.and_then(|it| it["value"].as_str()) {
                self.claim(&cluster, id);
            }
        }
    }

    /// Lets a cluster have an id in the place of the one before. Returns whether it does: no other one has it.
    fn claim(&mut self, cluster: &LogicalCluster, id: &str) -> bool {
        let mut others = self.held.iter().filter(|(other, _)| *other != cluster);
        let is_free = others.all(|(_, held)| held != id);
        if is_free {
            self.held.insert(cluster.clone(), id.to_owned());
        }
        is_free
    }
}

// === impl Budget ===

impl Budget {
    fn spend(&mut self, now: Instant) -> Result<(), Duration> {
        while self.left < WRITE_BURST && now >= self.since + WRITE_INTERVAL {
            self.left += 1;
            self.since += WRITE_INTERVAL;
        }
        if self.left == WRITE_BURST {
            self.since = now;
        }
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err((self.since + WRITE_INTERVAL).saturating_duration_since(now)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_stays_with_the_cluster_that_had_it_first() {
        let cluster = |name: &str| -> LogicalCluster { name.parse().expect("a name") };
        let (east, west) = (cluster("east"), cluster("aaa-west"));
        let published = json!({"metadata": {"name": "east"}, "status": {"properties": [
            {"name": "other", "value": "x"}, {"name": inventory::PROPERTY_CLUSTER_ID, "value": "prod"}]}});
        let published = RawObject::from_value(&published).expect("an object");
        let mut ids = Ids::default();
        ids.recall([&Arc::new(published)].into_iter());
        assert!(!ids.claim(&west, "prod"), "it is that of east");
        assert!(ids.claim(&west, "x"), "nobody has it");
        assert!(ids.claim(&east, "prod"));
        assert!(ids.claim(&east, "later"));
        assert!(ids.claim(&west, "prod"), "it was given up");
    }

    #[tokio::test(start_paused = true)]
    async fn a_profile_is_written_ten_times_and_then_every_half_minute() {
        let now = Instant::now();
        let mut budget = Budget {
            left: WRITE_BURST,
            since: now,
        };
        for _ in 0..WRITE_BURST {
            assert_eq!(budget.spend(now), Ok(()));
        }
        assert_eq!(budget.spend(now), Err(WRITE_INTERVAL));
        let next = now + WRITE_INTERVAL;
        assert_eq!(budget.spend(next), Ok(()));
        assert_eq!(budget.spend(next), Err(WRITE_INTERVAL));
        let much_later = next + WRITE_INTERVAL * 100;
        for _ in 0..WRITE_BURST {
            assert_eq!(budget.spend(much_later), Ok(()));
        }
        assert!(
            budget.spend(much_later).is_err(),
            "no more than a burst is saved"
        );
    }
}
