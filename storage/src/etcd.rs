//! The etcd engine: several hubs over one etcd, each with everything in memory for reads.
//!
//! In the order of a write: [`Engine::commit`] checks the batch and queues it ([`writer`]); it is laid
//! out as one transaction ([`transaction`], [`envelope`] at the places of [`layout`]) and sent over the one
//! connection that was verified ([`connection`], [`client`], [`session`]); the watch of this replica
//! tells of it ([`assembler`]), it is published, and then it is answered. Where no answer comes, [`fates`] finds out
//! what became of it. [`lineage`] and
//! [`identity`] notice an etcd that was set back; [`keeper`] lets history go. `docs/etcd.md` has the
//! operator's side.
//!
//! ```text
//!   revision = epoch x 10^13 + revision of etcd
//! ```
//!
//! # Invariants
//! - Reads see only what the watch has told, in the order of etcd; they never go back. An etcd that does
//!   goes on in a new epoch, above everything that was ever read.
//! - [`Store::fresh`] asks etcd, linearizably, what the latest revision is, and waits until reads
//!   see it.
//! - While etcd cannot be reached, reads go on as they are, writes and fresh reads are refused
//!   after a deadline, and nothing needs to be restarted when it comes back.
//! - Etcd tells what is durable there; this engine keeps nothing but a hint ([`memory`]).

mod layout;
mod wire;

mod envelope;
mod identity;
mod lineage;

mod connection;
mod failure;

mod client;

mod assembler;
mod fates;
mod transaction;

mod shared;

mod session;
mod writer;

mod memory;

mod keeper;

#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzed;

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

pub use self::connection::TlsFiles;

use self::connection::Endpoint;
use self::failure::Failure;
use self::identity::Identity;
use self::keeper::Keeper;
use self::layout::Layout;
use self::memory::Memory;
use self::session::{Session, chain};
use self::shared::Shared;
use self::writer::{Command, Committing, QUEUE_COUNT_MAX, Writer};
use crate::answer::Answer;
use crate::entry::Entry;
use crate::error::{Error, OpenError};
use crate::keyring::Keyring;
use crate::metrics::{Metrics, Statistics};
use crate::revision::Revision;
use crate::store::{Committed, Range, RangeQuery, Store, TermsOf, WatchQuery, Write};
use crate::watch::Watcher;

/// Where a store is in etcd, and how an engine deals with it.
#[derive(Clone, Debug)]
pub struct Config {
    /// The members: `http://host:port` or `https://host:port`.
    pub servers: Vec<String>,
    /// For `https`.
    pub tls: TlsFiles,
    /// What all keys in etcd begin with: replicas of one hub share it, other hubs have others.
    pub prefix: String,
    /// The keys that values are sealed with.
    pub keyring: Option<Arc<Keyring>>,
    /// How long every revision can be read at and watched from, at least. Kubernetes: 5 minutes.
    pub history: Duration,
    /// How much memory history may take beyond the current states.
    pub history_bytes_max: u64,
    /// How long a write or a fresh read may take before it is refused.
    pub deadline: Duration,
    /// How long to wait for etcd when the store is opened.
    pub open_timeout: Duration,
    /// The file in which this replica remembers what it has seen.
    pub memory: Option<PathBuf>,
    /// What is written, a put without expectation, in the transaction that begins an epoch because etcd was set back: so
    /// that nobody sees the old state without seeing that it is one. It gets the first revision of the epoch.
    pub mark: Option<fn(Revision) -> Write>,
    /// What finds the terms of values, for [`RangeQuery::holding`].
    pub terms_of: Option<TermsOf>,
}

/// A store in etcd. It closes when it is dropped.
#[derive(Debug)]
pub struct Engine {
    shared: Arc<Shared>,
    /// Taken by whoever closes first.
    commands: Mutex<Option<mpsc::Sender<Command>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    identity: watch::Receiver<Option<lineage::Known>>,
}

// === impl Config ===

impl Config {
    /// A store in the etcd with these members, with the defaults for everything else.
    pub fn new(servers: Vec<String>) -> Self {
        Self {
            servers,
            tls: TlsFiles::default(),
            prefix: "/wheelhouse".to_owned(),
            keyring: None,
            history: Duration::from_mins(5),
            history_bytes_max: 1024 * 1024 * 1024,
            deadline: Duration::from_secs(5),
            open_timeout: Duration::from_secs(30),
            memory: None,
            mark: None,
            terms_of: None,
        }
    }
}

// === impl Engine ===

impl Engine {
    /// Connects to etcd, makes the store where there is none, and reads all of it. Blocks.
    ///
    /// # Errors
    /// [`OpenError::Engine`] where no member answers in time or the configuration makes no sense,
    /// [`OpenError::UnknownFormat`] for a store of the future, [`OpenError::Corrupt`] for values that
    /// no hub wrote.
    pub fn open(config: Config) -> Result<Self, OpenError> {
        let shared = Arc::new(Shared::new(config.terms_of));
        let (commands, queue) = mpsc::channel(QUEUE_COUNT_MAX);
        let (said, opened) = std::sync::mpsc::sync_channel(1);
        let open_timeout = config.open_timeout;
        let mut memory = Memory::new(config.memory.clone());
        let known = watch::Sender::new(memory.read());
        let identity = known.subscribe();
        let parts = Parts::new(config, Arc::clone(&shared), memory, known, queue)?;
        let thread = std::thread::Builder::new()
            .name("store-etcd".to_owned())
            .spawn(move || parts.run(&said))
            .map_err(|source| OpenError::Io {
                action: "start the thread of etcd".to_owned(),
                source,
            })?;
        let engine = Self {
            shared,
            commands: Mutex::new(Some(commands)),
            thread: Mutex::new(Some(thread)),
            identity,
        };
        // Dropping the engine, where this fails, ends the thread.
        match opened.recv_timeout(open_timeout) {
            Ok(Ok(())) => Ok(engine),
            Ok(Err(failure)) => Err(refused(&failure)),
            Err(_timeout) => {
                let source = engine.health().err().unwrap_or(Error::Closed);
                let source = Box::new(source);
                let action = "reach etcd";
                Err(OpenError::Engine { action, source })
            }
        }
    }

    /// Forgets history below a revision, or as much of it as there is, in etcd too.
    pub fn compact(&self, floor: Revision) -> Answer<Revision> {
        self.ask(|responder| Command::Compact(floor, responder))
    }

    /// Takes no more writes, finishes those that were taken up, and ends all watches. Blocks for
    /// as long as a write may take.
    pub fn close(&self) {
        drop(self.commands.lock().take());
        let thread = self.thread.lock().take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("the thread of etcd panicked");
        }
    }

    /// What names the store, wherever its etcd is.
    pub fn id(&self) -> String {
        let known = self.identity.borrow();
        known
            .as_ref()
            .map(|known| known.identity.id.clone())
            .unwrap_or_default()
    }

    fn ask<T>(&self, command: impl FnOnce(crate::answer::Responder<T>) -> Command) -> Answer<T> {
        let (responder, answer) = Answer::pending();
        let commands = self.commands.lock();
        let Some(queue) = commands.as_ref() else {
            return Answer::ready(Err(Error::Closed));
        };
        match queue.try_send(command(responder)) {
            Ok(()) => answer,
            Err(mpsc::error::TrySendError::Full(_)) => Answer::ready(Err(Error::Full)),
            Err(mpsc::error::TrySendError::Closed(_)) => Answer::ready(Err(Error::Closed)),
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.close();
    }
}

impl Store for Engine {
    fn revision(&self) -> Revision {
        self.shared.view().revision()
    }

    fn compaction_floor(&self) -> Revision {
        self.shared.view().floor()
    }

    fn get(&self, key: &[u8]) -> Option<Entry> {
        self.shared.view().get(key)
    }

    fn range(&self, query: RangeQuery) -> Result<Range, Error> {
        self.shared.view().range(&query)
    }

    fn commit(&self, writes: Vec<Write>) -> Answer<Committed> {
        match transaction::check(&writes) {
            Ok(()) => self.ask(|responder| Command::Commit(writes, responder)),
            Err(error) => Answer::ready(Err(error)),
        }
    }

    fn watch(&self, query: WatchQuery) -> Result<Watcher, Error> {
        self.shared.view().watch(query)
    }

    fn fresh(&self) -> Answer<Revision> {
        self.ask(Command::Fresh)
    }

    fn health(&self) -> Result<(), Error> {
        self.shared.health()
    }

    fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    fn statistics(&self) -> Statistics {
        let queued = self.commands.lock().as_ref().map_or(0, |queue| {
            queue.max_capacity().saturating_sub(queue.capacity())
        });
        Statistics {
            queued,
            ..self.shared.statistics()
        }
    }
}

/// Everything that runs on the engine's thread.
#[derive(Debug)]
struct Parts {
    runtime: tokio::runtime::Runtime,
    shared: Arc<Shared>,
    session: Session,
    keeper: Keeper,
    writer: Writer,
}

// === impl Parts ===

impl Parts {
    fn new(
        config: Config,
        shared: Arc<Shared>,
        memory: Memory,
        known: watch::Sender<Option<lineage::Known>>,
        commands: mpsc::Receiver<Command>,
    ) -> Result<Self, OpenError> {
        let endpoints = config
            .servers
            .iter()
            .map(|server| Endpoint::parse(server, &config.tls))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|source| OpenError::Engine {
                action: "read the servers of etcd",
                source,
            })?;
        if endpoints.is_empty() {
            return Err(OpenError::Engine {
                action: "read the servers of etcd",
                source: "there are none".into(),
            });
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| OpenError::Io {
                action: "start the runtime of etcd".to_owned(),
                source,
            })?;
        let layout = Layout::new(&config.prefix);
        let keeper = Keeper {
            shared: Arc::clone(&shared),
            layout: layout.clone(),
            history: config.history,
            history_bytes_max: config.history_bytes_max,
            memory,
            known: known.subscribe(),
        };
        let session = Session {
            shared: Arc::clone(&shared),
            layout: layout.clone(),
            keyring: config.keyring,
            endpoints,
            mark: config.mark,
            known,
            opened: watch::Sender::new(None),
        };
        let committing = Committing {
            shared: Arc::clone(&shared),
            layout,
            deadline: config.deadline,
        };
        let writer = Writer {
            commands,
            committing,
        };
        Ok(Self {
            runtime,
            shared,
            session,
            keeper,
            writer,
        })
    }

    /// Works until the queue of commands is closed.
    fn run(self, said: &std::sync::mpsc::SyncSender<Result<(), Arc<Failure>>>) {
        let Self {
            runtime,
            shared,
            session,
            keeper,
            writer,
        } = self;
        runtime.block_on(async {
            let stop = watch::Sender::new(false);
            let mut opened = session.opened.subscribe();
            let mut tasks = JoinSet::new();
            tasks.spawn(session.run(stop.subscribe()));
            tasks.spawn(keeper.run(stop.subscribe()));
            let said = said.clone();
            tasks.spawn(async move {
                if let Ok(outcome) = opened.wait_for(Option::is_some).await
                    && let Some(outcome) = outcome.clone()
                {
                    // The opener may have lost its patience.
                    drop(said.send(outcome));
                }
            });
            writer.run().await;
            stop.send_replace(true);
            while let Some(over) = tasks.join_next().await {
                if let Err(error) = over {
                    tracing::error!(error = %error, "a task of etcd panicked");
                }
            }
        });
        shared.view().close();
    }
}

fn refused(failure: &Arc<Failure>) -> OpenError {
    match &**failure {
        Failure::UnknownFormat { found } => OpenError::UnknownFormat {
            found: *found,
            known: Identity::FORMAT,
        },
        Failure::Corrupt { place, reason } => OpenError::Corrupt {
            place: place.clone(),
            reason: reason.clone(),
        },
        other => OpenError::Engine {
            action: "open the store in etcd",
            source: chain(other).into(),
        },
    }
}

#[cfg(test)]
mod tests;
