//! From Spokes to states: each Spoke is reconciled by itself, whenever it or its access may have changed.
//!
//! # Invariants
//! - Spokes are reconciled in tasks of their own: a provider that hangs for one holds no other back.
//! - A link is kept for as long as it would be made in the same way.

use std::{collections::HashMap, sync::Arc, time::Duration};

use api::{GroupVersionResource, LogicalCluster, wheelhouse};
use client::{
    Dynamic, Endpoint,
    reflector::{self, Event, RawObject},
};
use parking_lot::Mutex;
use tasks::{Backoff, Tasks, WorkQueue};
use tokio::sync::mpsc;
use tracing::Instrument as _;

use crate::{
    access::Access,
    dialer::{Credential, Dialer},
    fault::Fault,
    link::{Connections, Link},
    provider::{Concerned, Providers},
    table::{Known, Spokes, State, Table},
};

/// The first and the longest pause before the hub is asked again for the access to a spoke.
const RETRY_PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(15));

/// Reconciles Spokes.
struct Controller {
    table: Arc<Table>,
    dialer: Dialer,
    providers: Providers,
    queue: Arc<WorkQueue<LogicalCluster>>,
    tasks: Tasks,
    /// Pauses of the spokes that the hub could not be asked about. Guards the map; never held across an await.
    pauses: Mutex<HashMap<LogicalCluster, Backoff>>,
}

impl Spokes {
    /// Follows the Spokes of a hub, and what their providers need, until `tasks` end. Called once.
    pub fn start(&self, hub: kube::Client, tasks: &Tasks) {
        let (dialer, table) = self.parts();
        start(hub, dialer, table, tasks);
    }
}

fn start(hub: kube::Client, dialer: &Dialer, table: &Arc<Table>, tasks: &Tasks) {
    let hub = Dynamic::new(hub);
    let controller = Arc::new(Controller::new(&hub, dialer, table, tasks));
    let concerned = Concerned::new(Arc::clone(table), Arc::clone(&controller.queue));
    controller.providers.start(&concerned, tasks);
    let spokes = reflector::Config {
        client: hub.client().clone(),
        endpoint: Endpoint {
            scope: None,
            gvr: GroupVersionResource::new(
                wheelhouse::GROUP,
                wheelhouse::VERSION,
                wheelhouse::SPOKE_RESOURCE,
            ),
            namespace: None,
        },
        label_selector: None,
        field_selector: None,
        name: "spokes".to_owned(),
    };
    let events = reflector::start(spokes, tasks, tasks.child_token());
    tasks.spawn("spokes-watch", follow(Arc::clone(&controller), events));
    tasks.spawn("spokes", work(controller));
}

async fn follow(controller: Arc<Controller>, mut events: mpsc::Receiver<Event>) {
    while let Some(event) = events.recv().await {
        controller.take(event);
    }
}

async fn work(controller: Arc<Controller>) {
    let end = controller.tasks.child_token();
    while let Some(spoke) = controller.queue.next_until(&end).await {
        let worker = Arc::clone(&controller);
        controller.tasks.spawn("spoke-connection", async move {
            let span =
                tracing::debug_span!("reconcile", controller = "spoke-connection", key = %spoke);
            worker.reconcile(&spoke).instrument(span).await;
            worker.queue.done(&spoke);
        });
    }
}

// === impl Controller ===

impl Controller {
    fn new(hub: &Dynamic, dialer: &Dialer, table: &Arc<Table>, tasks: &Tasks) -> Self {
        Self {
            table: Arc::clone(table),
            dialer: dialer.clone(),
            providers: Providers::new(hub, dialer),
            queue: Arc::new(tasks.queue("spoke-connection")),
            tasks: tasks.clone(),
            pauses: Mutex::default(),
        }
    }

    fn take(&self, event: Event) {
        match event {
            Event::Restarted { objects, .. } => {
                let mut left = self.table.clusters();
                for object in objects {
                    if let Some(spoke) = self.note(object) {
                        left.remove(&spoke);
                        self.queue.add(spoke);
                    }
                }
                for spoke in left {
                    self.forget(&spoke);
                }
                self.table.set_listed();
            }
            Event::Applied(object) => {
                let (generation, uid) = (object.generation, object.uid.clone());
                let Ok(spoke) = object.name.parse::<LogicalCluster>() else {
                    return;
                };
                let before = self.table.known(&spoke);
                if before.as_ref().is_some_and(|it| it.object.uid != uid) {
                    self.forget(&spoke); // what is made of the next one of this name begins again
                }
                self.note(object);
                let is_same = |before: &Known| {
                    before.object.uid == uid && before.object.generation == generation
                };
                if before.is_none_or(|before| !is_same(&before)) {
                    self.queue.add(spoke);
                }
            }
            Event::Deleted(object) => {
                if let Ok(spoke) = object.name.parse::<LogicalCluster>() {
                    self.forget(&spoke);
                }
            }
            Event::Interrupted(reason) => tracing::debug!(reason, "watch of spokes interrupted"),
            Event::Resumed => {}
        }
    }

    /// Notes a Spoke. Returns its logical cluster, unless its name is none.
    fn note(&self, object: Arc<RawObject>) -> Option<LogicalCluster> {
        let spoke: LogicalCluster = object.name.parse().ok()?;
        let known = Known::of(object);
        let is_reachable = known.is_reachable;
        let before = self.table.note(&spoke, known);
        self.align_namespaces(&spoke);
        let is_back = is_reachable && !before.is_some_and(|it| it.is_reachable);
        if is_back && let Some(State::Connected(link)) = self.table.state(&spoke) {
            link.namespaces().wake();
        }
        Some(spoke)
    }

    /// Follows the namespaces of a connected spoke, but not those of a cluster that is another one.
    fn align_namespaces(&self, spoke: &LogicalCluster) {
        let Some(known) = self.table.known(spoke) else {
            return;
        };
        let Some(State::Connected(link)) = self.table.state(spoke) else {
            return;
        };
        match (known.refused.is_some(), link.namespaces().are_followed()) {
            (true, true) => link.namespaces().forget(),
            (false, false) => link.follow_namespaces(),
            (true, false) | (false, true) => {}
        }
    }

    fn forget(&self, spoke: &LogicalCluster) {
        self.pauses.lock().remove(spoke);
        self.table.forget(spoke);
    }

    /// Brings the state of a spoke up to date. Whatever fails is noted for this spoke.
    async fn reconcile(&self, spoke: &LogicalCluster) {
        let Some(known) = self.table.known(spoke) else {
            return;
        };
        match self.state(spoke, &known).await {
            Ok(state) => {
                self.pauses.lock().remove(spoke);
                if let State::Refused(fault) = &state
                    && *fault != Fault::Suspended
                {
                    tracing::warn!(%spoke, error = %fault, "cannot connect to a spoke");
                }
                self.table.settle(spoke, known.object.generation, state);
                self.align_namespaces(spoke);
            }
            // The hub's own failure says nothing about the spoke: its state stays.
            Err(error) => {
                tracing::warn!(%spoke, error = %error.chain(), "cannot read the credentials of a spoke");
                let mut pauses = self.pauses.lock();
                let (initial, max) = RETRY_PAUSES;
                let pause = pauses
                    .entry(spoke.clone())
                    .or_insert_with(|| Backoff::new(initial, max))
                    .next_pause();
                self.queue.add_after(spoke.clone(), pause);
            }
        }
    }

    /// Returns the state of a spoke as it should be. The error is the hub's.
    async fn state(&self, spoke: &LogicalCluster, known: &Known) -> Result<State, client::Error> {
        let object = match &known.spoke {
            Ok(object) if object.spec.suspended => return Ok(State::Refused(Fault::Suspended)),
            Ok(object) => object,
            Err(fault) => return Ok(State::Refused(fault.clone())),
        };
        let provider = self.providers.of(object.spec.provider);
        let access = match provider.access(spoke, object).await? {
            Ok(access) => access,
            Err(fault) => return Ok(State::Refused(fault)),
        };
        let credential = match &access {
            Access::Embedded => return Ok(State::Embedded),
            Access::Kubeconfig(credential) => credential,
        };
        if let Some(State::Connected(link)) = self.table.state(spoke)
            && link.is_made_with(&access)
        {
            link.note_trust(object.spec.trust_masters);
            return Ok(State::Connected(link));
        }
        let connections = match self.connect(spoke, credential).await {
            Ok(connections) => connections,
            Err(fault) => return Ok(State::Refused(fault)),
        };
        let link = Link::new(spoke, access, connections, &self.tasks);
        link.note_trust(object.spec.trust_masters);
        Ok(State::Connected(Arc::new(link)))
    }

    async fn connect(
        &self,
        spoke: &LogicalCluster,
        credential: &Credential,
    ) -> Result<Connections, Fault> {
        Ok(Connections {
            requests: self.dialer.connect(spoke, credential).await?,
            controllers: self.dialer.connect(spoke, credential).await?,
        })
    }
}

#[cfg(test)]
mod tests;
