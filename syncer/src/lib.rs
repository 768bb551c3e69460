//! The syncer: controllers that make spokes what the hub says.
//!
//! It knows the hub only through its Kubernetes API, as any client would; in the `wheelhouse`
//! process the transport is a function call. What plans is pure and lives in `graph`; this crate
//! is the thin shell around it that reads and writes.
//!
//! Three floors, and imports go downwards only. At the bottom [`state`], what is known. On it [`engine`], which shares the
//! state, the queues and the hub. On top the controllers: [`spokes`] (a target for each connected spoke),
//! [`definitions`] (RGD to GraphRevision to CRD), [`instances`] (from an instance to its children and back), [`accounts`]
//! (what the hub's own namespaces need), and what they have in common: [`acting`] (in whose name), [`restoring`],
//! [`finalizers`], [`metrics`], [`resources`], [`spans`]. [`sharing`] decides which of it this process does, where there are several. A controller asks another one for work by a queue of the engine.
//!
//! **Invariant:** nothing is deleted because a read failed, was partial, or discovery shrank.
//! **Invariant:** after a restore nothing is deleted in a spoke before it is confirmed ([`restoring`]).
//! **Invariant:** no work is dropped: what fails is tried again, later each time.

mod accounts;
mod acting;
mod definitions;
mod engine;
mod finalizers;
mod instances;
mod metrics;
mod preview;
mod resources;
mod restoring;
mod sharing;
mod spans;
mod spokes;
mod state;
#[cfg(test)]
mod testing;
mod told;

use std::{collections::BTreeMap, fmt, sync::Arc};

use ::spokes::{Identities, Spokes};
use api::LogicalCluster;
use client::Dynamic;
use tasks::Tasks;
use tokio::sync::Semaphore;

pub use self::metrics::WorkMetrics;
pub use self::preview::Previewer;
pub use self::sharing::{
    Member, Metrics, ShareMetrics, others_ended, run as run_shared, run_elected,
};
pub use self::spokes::Publication;
pub use crate::state::{brake::Brake, switches::Switches};
use crate::{
    engine::Engine,
    state::{
        shares::{self, Shares},
        switches::Switchboard,
        target::{Target, TargetSort},
    },
};

/// What the syncer is told at its start.
pub struct Config {
    /// The hub, as the user `system:wheelhouse:syncer`.
    pub hub: kube::Client,
    /// Names this hub to other writers of the same spoke.
    pub hub_id: String,
    /// When deletions wait to be confirmed.
    pub brake: Brake,
    /// kro's switches.
    pub switches: Switches,
    /// The connections to all spokes, which the hub of the same process shares. A syncer in a process of its own starts
    /// them with its client of the hub.
    pub spokes: Spokes,
    /// Where the spokes are published as ClusterProfiles, if they are.
    pub publication: Option<Publication>,
    /// What is counted of the work.
    pub metrics: WorkMetrics,
    /// How the fleet is shared with other replicas; `None` where this process is alone, and looks after everything.
    pub sharing: Option<Member>,
}

// === impl Config ===

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("hub_id", &self.hub_id)
            .finish_non_exhaustive()
    }
}

/// Starts all controllers. They end with `tasks`.
pub fn start(mut config: Config, tasks: &Tasks) {
    let (sharing, publication) = (config.sharing.take(), config.publication.take());
    let engine = engine_of(config, sharing.is_some(), tasks);
    restoring::start(&engine);
    definitions::start(&engine);
    spokes::start(&engine);
    match sharing {
        Some(sharing) => sharing::start(&engine, sharing, publication),
        None => start_for_fleet(&engine, publication),
    }
}

/// Starts what one process does for the whole fleet.
fn start_for_fleet(engine: &Arc<Engine>, publication: Option<Publication>) {
    spokes::start_target(engine, &engine.root);
    spokes::start_for_fleet(engine, publication);
}

/// Makes what all controllers share; nothing of it is known yet.
fn engine_of(config: Config, is_shared: bool, tasks: &Tasks) -> Arc<Engine> {
    let shares = Arc::new(if is_shared {
        Shares::shared()
    } else {
        Shares::default()
    });
    let hub = shares::hub_in_terms(&shares, &config.hub);
    let root = Target::new(
        LogicalCluster::root(),
        TargetSort::Root,
        hub.clone(),
        tasks,
        tasks.child_token(),
    );
    let hub_label = (api::wheelhouse::keys::HUB.to_owned(), config.hub_id.clone());
    let switches = Switchboard::new(config.switches, BTreeMap::from([hub_label]));
    Arc::new(Engine {
        hub,
        hub_anywhere: Dynamic::new(config.hub),
        shares,
        root: Arc::new(root),
        hub_id: config.hub_id,
        spokes: config.spokes,
        identities: Identities::default(),
        switches,
        definitions: state::definitions::Definitions::default(),
        instances: state::instances::InstanceCache::default(),
        fleet: state::fleet::Fleet::default(),
        definition_queue: Arc::new(tasks.queue("definition")),
        spoke_queue: Arc::new(tasks.queue("spoke")),
        distribution_queue: Arc::new(tasks.queue("distribution")),
        brake: config.brake,
        restored: state::restored::Restored::default(),
        turns: Arc::default(),
        mirror_turns: Arc::default(),
        planning: Semaphore::new(engine::LONG_PLANS_MAX),
        metrics: config.metrics,
        tasks: tasks.clone(),
    })
}
