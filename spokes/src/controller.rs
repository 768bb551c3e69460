//! From Spokes to states: each Spoke is reconciled by itself, whenever it or its access may have changed.
//!
//! # Invariants
//! - Spokes are reconciled in tasks of their own: a provider that hangs for one holds no other back.
//! - A link is kept for as long as it would be made in the same way, and beyond that where a later credential for the same server
//!   has been proven to reach the same cluster: what runs over the link goes on.
//! - A credential that is in use is dropped only for one that has been proven, or because it may not be used any more.
//! - A Spoke that is suspended or gone is disconnected at once, though its provider hangs.

use std::{collections::HashMap, sync::Arc, time::Duration};

use api::{LogicalCluster, wheelhouse};
use client::{
    Dynamic, Endpoint,
    reflector::{self, Event, RawObject},
};
use parking_lot::Mutex;
use tasks::{Backoff, Tasks, WorkQueue};
use tokio::{sync::mpsc, time::Instant};
use tracing::Instrument as _;

use crate::{
    access::Access,
    dialer::{Credential, Dialer},
    fault::Fault,
    link::{Connections, Link},
    provider::{Concerned, Providers},
    succession::{self, Succession},
    table::{Known, Rejections, Spokes, State, Table},
};

/// The first and the longest pause before the hub is asked again for the access to a spoke.
const RETRY_PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(15));

/// The first and the longest pause before a credential that could not be used is tried again.
const SUCCESSION_PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Not more often than this is a provider asked for a credential, however soon the one that it gave ends.
const RENEWAL_PAUSE_MIN: Duration = Duration::from_secs(10);

/// What came of one look at a spoke.
struct Looked {
    state: State,
    /// When to look again, whatever changes.
    again: Again,
}

/// When to look at a spoke again.
enum Again {
    /// When something changes.
    Changed,
    /// After a pause that grows: something may mend itself.
    Retry,
    /// When its credential is to be replaced.
    At(jiff::Timestamp),
}

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
        start(hub, self, tasks);
    }
}

fn start(hub: kube::Client, spokes: &Spokes, tasks: &Tasks) {
    let hub = Dynamic::new(hub);
    let controller = Arc::new(Controller::new(&hub, spokes, tasks));
    let table = Arc::clone(&controller.table);
    let concerned = Concerned::new(table, Arc::clone(&controller.queue));
    controller.providers.start(&concerned, tasks);
    let rejections = Arc::clone(spokes.rejections());
    let spokes = reflector::Config {
        client: hub.client().clone(),
        endpoint: Endpoint {
            scope: None,
            gvr: wheelhouse::Spoke::gvr(),
            namespace: None,
        },
        label_selector: None,
        field_selector: None,
        name: "spokes".to_owned(),
    };
    let events = reflector::start(spokes, tasks, tasks.child_token());
    tasks.spawn("spokes-watch", follow(Arc::clone(&controller), events));
    tasks.spawn(
        "spokes-rejections",
        renew(Arc::clone(&controller), rejections),
    );
    tasks.spawn("spokes", work(controller));
}

async fn follow(controller: Arc<Controller>, mut events: mpsc::Receiver<Event>) {
    while let Some(event) = events.recv().await {
        controller.take(event);
    }
}

/// Has plug-ins asked for other credentials in the place of those that were refused.
async fn renew(controller: Arc<Controller>, rejections: Arc<Rejections>) {
    let end = controller.tasks.child_token();
    loop {
        let refused = tokio::select! {
            biased;
            () = end.cancelled() => return,
            refused = rejections.next() => refused,
        };
        for spoke in refused {
            if controller.providers.issuer().reject(&spoke, Instant::now()) {
                controller.queue.add(spoke);
            }
        }
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
    fn new(hub: &Dynamic, spokes: &Spokes, tasks: &Tasks) -> Self {
        let (dialer, table) = spokes.parts();
        Self {
            table: Arc::clone(table),
            dialer: dialer.clone(),
            providers: Providers::new(hub, dialer, spokes.sightings()),
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
        let before = self.table.known(&spoke);
        if before.is_some_and(|it| it.object.uid != object.uid) {
            self.forget(&spoke); // what is made of the next one of this name begins again
        }
        let known = Known::of(object);
        let is_reachable = known.is_reachable;
        let is_suspended = known.spoke.as_ref().is_ok_and(|it| it.spec.suspended);
        let before = self.table.note(&spoke, known);
        if is_suspended && let Some(known) = self.table.known(&spoke) {
            // At once, whatever is being waited for to connect it.
            let state = State::Refused(Fault::Suspended);
            self.table.settle(&spoke, &known, state);
        }
        self.align_namespaces(&spoke);
        let is_back = is_reachable && !before.is_some_and(|it| it.is_reachable);
        if is_back && let Some(State::Connected(link)) = self.table.state(&spoke) {
            link.hurry();
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
        self.providers.issuer().forget(spoke);
        self.table.forget(spoke);
    }

    /// Brings the state of a spoke up to date. Whatever fails is noted for this spoke.
    async fn reconcile(&self, spoke: &LogicalCluster) {
        let Some(known) = self.table.known(spoke) else {
            return;
        };
        match self.state(spoke, &known).await {
            Ok(Looked { state, again }) => {
                self.look_again(spoke, &again);
                if let State::Refused(fault) = &state
                    && *fault != Fault::Suspended
                    && self.table.state(spoke).as_ref() != Some(&state)
                {
                    tracing::warn!(%spoke, error = %fault, "cannot connect to a spoke");
                }
                self.table.settle(spoke, &known, state);
                self.align_namespaces(spoke);
            }
            // The hub's own failure says nothing about the spoke: its state stays.
            Err(error) => {
                tracing::warn!(%spoke, error = %error.chain(), "cannot read the credentials of a spoke");
                self.retry(spoke, RETRY_PAUSES);
            }
        }
    }

    fn look_again(&self, spoke: &LogicalCluster, again: &Again) {
        if let Again::Retry = again {
            return self.retry(spoke, SUCCESSION_PAUSES);
        }
        self.pauses.lock().remove(spoke);
        if let Again::At(time) = again {
            let left = time.duration_since(jiff::Timestamp::now());
            let left = Duration::try_from(left).unwrap_or_default();
            self.queue
                .add_after(spoke.clone(), left.max(RENEWAL_PAUSE_MIN));
        }
    }

    fn retry(&self, spoke: &LogicalCluster, (initial, max): (Duration, Duration)) {
        let mut pauses = self.pauses.lock();
        let pause = pauses
            .entry(spoke.clone())
            .or_insert_with(|| Backoff::new(initial, max))
            .next_pause();
        self.queue.retry_after(spoke.clone(), pause);
    }

    /// Returns the state of a spoke as it should be. The error is the hub's.
    async fn state(&self, spoke: &LogicalCluster, known: &Known) -> Result<Looked, client::Error> {
        let refused = |fault: Fault| Ok(Looked::at(State::Refused(fault)));
        let object = match &known.spoke {
            Ok(object) if object.spec.suspended => return refused(Fault::Suspended),
            Ok(object) => object,
            Err(fault) => return refused(fault.clone()),
        };
        let provider = self.providers.of(object.spec.provider);
        let current = match self.table.state(spoke) {
            Some(State::Connected(link)) => Some(link),
            _ => None,
        };
        let access = match provider.access(spoke, object).await? {
            Ok(access) => access,
            Err(fault) => return Ok(Looked::without(current, fault)),
        };
        let credential = match &access {
            Access::Embedded => return Ok(Looked::at(State::Embedded)),
            Access::Kubeconfig(credential) => credential,
        };
        let renewal = credential.renew_at().map_or(Again::Changed, Again::At);
        let connected = |link: Arc<Link>, again| {
            link.note_trust(object.spec.trust_masters);
            let state = State::Connected(link);
            Ok(Looked { state, again })
        };
        if let Some(link) = &current
            && link.is_made_with(&access)
        {
            link.note_successor(None);
            return connected(Arc::clone(link), renewal);
        }
        let connections = match self.connect(spoke, credential).await {
            Ok(connections) => connections,
            Err(fault) => return Ok(Looked::without(current, fault)),
        };
        if let Some(link) = current.filter(|it| it.has_answered() || known.is_reachable) {
            match succession::prove(&connections, object).await {
                Succession::Proven => {
                    if link.succeed_by(access.clone(), &connections) {
                        tracing::info!(%spoke, "a later credential of a spoke is used");
                        return connected(link, renewal);
                    }
                }
                // What works stays. Where nothing does, which cluster that is, is looked at as at first.
                Succession::Another(uid) if link.trouble().is_none() => {
                    link.note_successor(Some(format!(
                        "it is accepted by another cluster (uid {uid:?})"
                    )));
                    return connected(link, Again::Retry);
                }
                Succession::Begun | Succession::Another(_) => {}
                Succession::Refused(reason) => {
                    link.note_successor(Some(reason));
                    return connected(link, Again::Retry);
                }
            }
        }
        let link = Link::new(spoke, access, connections, &self.tasks);
        connected(Arc::new(link), renewal)
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

// === impl Looked ===

impl Looked {
    const fn at(state: State) -> Self {
        let again = Again::Changed;
        Self { state, again }
    }

    /// Goes on with what there is where a later credential cannot be used, unless that takes the one before away.
    fn without(current: Option<Arc<Link>>, fault: Fault) -> Self {
        let again = if fault.may_pass() {
            Again::Retry
        } else {
            Again::Changed
        };
        let state = match current {
            Some(link) if !fault.is_withdrawal() => {
                link.note_successor(Some(fault.to_string()));
                State::Connected(link)
            }
            _ => State::Refused(fault),
        };
        Self { state, again }
    }
}

#[cfg(test)]
mod tests;
