//! The namespaces of a connected spoke: one watch for admission, which asks in which phase one is, and for the syncer,
//! which deletes the instances of one that is going.
//!
//! # Invariants
//! - While the spoke is away the last known view holds.
//! - A namespace is going only if it was seen terminating, or its deletion was delivered. A list that does not show it
//!   says nothing.
//! - What a cluster said before it was found to be another one is forgotten.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use api::{GroupVersionResource, LogicalCluster};
use client::{
    Client, Endpoint,
    reflector::{self, Event, RawObject},
};
use parking_lot::Mutex;
use tasks::{Shutdown, Tasks};
use tokio::sync::Notify;

/// The namespaces of one spoke.
#[derive(Debug, Default)]
pub struct Namespaces {
    /// Guards what was seen; nothing else is locked while it is held.
    seen: Mutex<Seen>,
    going: Notify,
    /// Ends the pause of the watch: the spoke answers again.
    signals: reflector::Signals,
}

/// In which phase a namespace is that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It takes objects.
    Active,
    /// It is being deleted.
    Terminating,
}

#[derive(Debug, Default)]
struct Seen {
    phases: HashMap<String, Phase>,
    /// Those that are being deleted and that nobody has been told yet.
    going: BTreeSet<String>,
    /// Ends the watch that fills this.
    watch: Option<Shutdown>,
}

// === impl Namespaces ===

impl Namespaces {
    /// Returns the phase of a namespace as it was last seen. `None` says nothing: it may be there.
    pub fn phase(&self, namespace: &str) -> Option<Phase> {
        self.seen.lock().phases.get(namespace).copied()
    }

    /// Waits until namespaces were seen that are going. There is one caller.
    pub async fn seen_going(&self) {
        while self.seen.lock().going.is_empty() {
            self.going.notified().await;
        }
    }

    /// Returns the namespaces that are going, each once for each time that it was seen.
    pub fn take_going(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.seen.lock().going)
    }

    /// Notifies the watch that the spoke answers again.
    pub(crate) fn wake(&self) {
        self.signals.wake();
    }

    #[cfg(test)]
    pub(crate) fn wake_count(&self) -> u64 {
        self.signals.wake_count()
    }

    pub(crate) fn are_followed(&self) -> bool {
        self.seen.lock().watch.is_some()
    }

    /// Forgets all of them, and ends the watch.
    pub(crate) fn forget(&self) {
        self.begin(None);
    }

    fn begin(&self, watch: Option<Shutdown>) {
        let mut seen = self.seen.lock();
        let before = std::mem::replace(
            &mut *seen,
            Seen {
                watch,
                ..Seen::default()
            },
        );
        if let Some(before) = before.watch {
            before.cancel();
        }
    }

    /// Follows the namespaces until `end`, with nothing known of them.
    pub(crate) fn follow(
        namespaces: &Arc<Self>,
        client: Client,
        spoke: &LogicalCluster,
        tasks: &Tasks,
        end: Shutdown,
    ) {
        let config = reflector::Config {
            client,
            endpoint: Endpoint {
                scope: None,
                gvr: GroupVersionResource::new("", "v1", "namespaces"),
                namespace: None,
            },
            label_selector: None,
            field_selector: None,
            name: format!("{spoke}/namespaces"),
        };
        namespaces.begin(Some(end.clone()));
        let signals = namespaces.signals.clone();
        let mut events = reflector::start_signalled(config, signals, tasks, end.clone());
        let namespaces = Arc::clone(namespaces);
        tasks.spawn("spoke-namespaces", async move {
            while let Some(event) = events.recv().await {
                namespaces.take(event, &end);
            }
        });
    }

    fn take(&self, event: Event, watch: &Shutdown) {
        let mut seen = self.seen.lock();
        if watch.is_cancelled() {
            return; // what is known now is another watch's
        }
        if seen.take(event) {
            self.going.notify_one();
        }
    }
}

// === impl Seen ===

impl Seen {
    /// Takes up an event. Returns whether it told of a namespace that is going.
    fn take(&mut self, event: Event) -> bool {
        let phase = |object: &RawObject| match object.deletion_timestamp {
            Some(_) => Phase::Terminating,
            None => Phase::Active,
        };
        let told = match event {
            Event::Restarted { objects, .. } => {
                self.phases = objects
                    .iter()
                    .map(|it| (it.name.clone(), phase(it)))
                    .collect();
                objects
            }
            Event::Applied(object) => {
                self.phases.insert(object.name.clone(), phase(&object));
                vec![object]
            }
            Event::Deleted(object) => {
                self.phases.remove(&object.name);
                vec![object]
            }
            Event::Interrupted(_) | Event::Resumed => Vec::new(),
        };
        let going = told.iter().filter(|it| phase(it) == Phase::Terminating);
        let count = self.going.len();
        self.going.extend(going.map(|it| it.name.clone()));
        self.going.len() > count
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use serde_json::json;

    use super::*;

    fn namespace(name: &str, is_going: bool) -> Arc<RawObject> {
        let mut object = json!({"metadata": {"name": name}});
        if is_going {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        Arc::new(RawObject::from_value(&object).expect("an object"))
    }

    fn list(objects: Vec<Arc<RawObject>>) -> Event {
        Event::Restarted {
            objects,
            resource_version: "1".to_owned(),
            latest_as_of: None,
        }
    }

    #[test]
    fn only_what_was_seen_terminating_is_going() {
        let namespaces = Namespaces::default();
        let watch = Shutdown::new();
        let going = || namespaces.take_going();
        namespaces.take(
            list(vec![namespace("a", false), namespace("b", true)]),
            &watch,
        );
        assert!(namespaces.seen_going().now_or_never().is_some());
        assert_eq!(going(), BTreeSet::from(["b".to_owned()]));
        assert!(namespaces.seen_going().now_or_never().is_none(), "taken");
        namespaces.take(list(Vec::new()), &watch);
        assert_eq!(going(), BTreeSet::new(), "a list shows neither any more");
        assert_eq!(namespaces.phase("a"), None);
        namespaces.take(Event::Deleted(namespace("c", true)), &watch);
        assert_eq!(going(), BTreeSet::from(["c".to_owned()]));
        namespaces.take(Event::Deleted(namespace("d", false)), &watch);
        assert_eq!(going(), BTreeSet::new(), "it was not seen terminating");
    }

    /// The story: another cluster answered in the place of a spoke, with a namespace of the same name that was being
    /// deleted. Once the spoke was back, the hub's instances in its own namespace would have gone.
    #[test]
    fn what_another_cluster_said_is_forgotten() {
        let namespaces = Namespaces::default();
        let (other, own) = (Shutdown::new(), Shutdown::new());
        namespaces.begin(Some(other.clone()));
        namespaces.take(list(vec![namespace("a", true)]), &other);
        namespaces.forget();
        assert_eq!(namespaces.phase("a"), None);
        assert_eq!(namespaces.take_going(), BTreeSet::new());
        namespaces.begin(Some(own.clone()));
        namespaces.take(list(vec![namespace("a", true)]), &other);
        assert_eq!(namespaces.phase("a"), None, "the watch of before has ended");
        namespaces.take(list(vec![namespace("a", false)]), &own);
        assert_eq!(namespaces.phase("a"), Some(Phase::Active));
    }
}
