//! The kubeconfig of syncers in processes of their own: the hub writes it again before its certificate ends, and a syncer goes on
//! with what it reads there.
//!
//! # Invariants
//! - A syncer takes a kubeconfig only once the same hub has answered it as a syncer. Until then it goes on with the one before.
//! - What cannot be written or read is tried again, and said once.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use apiserver::Hub;
use client::{Connection, Dynamic, Options};
use jiff::Timestamp;
use serde::Deserialize;
use tasks::{OnPanic, Shutdown, Tasks};
use tokio::time::sleep;
use tracing::{error, info, warn};

use crate::{
    connect::{Embedded, Kubeconfig},
    kubeconfig,
};

/// What a syncer is told of a hub.
const SYNCER_PATH: &str = "/wheelhouse/syncer";

/// Between two looks of a syncer at its file.
const LOOK_PERIOD: Duration = Duration::from_secs(2);

/// The most between two looks of a hub at its clock, and before it tries again to write.
const CLOCK_PERIOD_MAX: Duration = Duration::from_mins(1);

// === the hub's side ===

/// Writes the kubeconfig, and writes it again when two thirds of its time are over.
#[derive(Debug)]
pub(crate) struct Renewal {
    pub(crate) hub: Hub,
    /// The URL that syncers use.
    pub(crate) server: String,
    pub(crate) file: PathBuf,
    /// How long each certificate is good.
    pub(crate) lifetime: Duration,
}

// === impl Renewal ===

impl Renewal {
    /// Writes the file now, and goes on in a task.
    ///
    /// # Errors
    /// A certificate that cannot be made, or a file that cannot be written, now.
    pub(crate) fn start(self, tasks: &Tasks) -> Result<()> {
        let written = Timestamp::now();
        self.write(written)?;
        let end = tasks.child_token();
        // Without it all syncers would end together, much later.
        tasks.spawn_with("syncer-kubeconfig", OnPanic::ShutDown, async move {
            self.run(written, &end).await;
        });
        Ok(())
    }

    async fn run(self, mut written: Timestamp, end: &Shutdown) {
        let pause = (self.lifetime / 20).min(CLOCK_PERIOD_MAX);
        let due_seconds = i64::try_from((self.lifetime * 2 / 3).as_secs()).unwrap_or(i64::MAX);
        loop {
            tokio::select! {
                biased;
                () = end.cancelled() => return,
                () = sleep(pause) => {}
            }
            // The clock of certificates is the time of day, which may be set.
            let now = Timestamp::now();
            let age = now.as_second().saturating_sub(written.as_second());
            if (0..due_seconds).contains(&age) {
                continue;
            }
            match self.write(now) {
                Ok(()) => {
                    info!("wrote a new kubeconfig for syncers");
                    written = now;
                }
                Err(error) => error!(
                    error = format!("{error:#}"),
                    "cannot write a new kubeconfig for syncers, whose certificate will end"
                ),
            }
        }
    }

    fn write(&self, now: Timestamp) -> Result<()> {
        let kubeconfig = self.hub.syncer_kubeconfig(&self.server, now, self.lifetime);
        let kubeconfig = kubeconfig.context("a certificate for syncers")?;
        kubeconfig::publish(&kubeconfig, &self.file)
    }
}

// === the syncer's side ===

/// What a syncer has read in its file, and the connection that it has made of it.
pub(crate) struct Credential {
    file: PathBuf,
    kubeconfig: String,
    pub(crate) connection: Connection,
    pub(crate) server: String,
    /// The authorities that sign the hub's certificate, as PEM.
    pub(crate) authorities: Vec<u8>,
    /// The server name that the hub is asked for, where it is not that of the URL.
    pub(crate) server_name: Option<String>,
}

// === impl Credential ===

impl Credential {
    /// Reads the file. Nothing is dialled yet.
    pub(crate) async fn read(file: &Path) -> Result<Self> {
        let origin = || file.display().to_string();
        let found = Kubeconfig::read(file)?;
        let found = Embedded::of(&found, None).with_context(origin)?;
        let server = found.server().with_context(origin)?.to_owned();
        let authorities = found.authorities().with_context(origin)?;
        let server_name = found.server_name();
        let kubeconfig = found.kubeconfig();
        let connection = client::connect(&kubeconfig, None, &Options::default()).await;
        Ok(Self {
            file: file.to_owned(),
            kubeconfig,
            connection: connection.with_context(origin)?,
            server,
            authorities,
            server_name,
        })
    }

    /// Asks the hub for its id, which it tells a syncer.
    pub(crate) async fn hub_id(&self) -> Result<String, client::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Told {
            hub_id: String,
        }
        let hub = Dynamic::new(self.connection.client().kube().clone());
        let answer = hub.raw_get(SYNCER_PATH).await?;
        let told: Told = serde_json::from_slice(&answer).map_err(client::Error::Decode)?;
        Ok(told.hub_id)
    }

    /// Reads the file again and again, and lets clients of the connection go on with what it says.
    pub(crate) async fn follow(mut self, hub_id: String, end: Shutdown) {
        let mut told = String::new();
        loop {
            tokio::select! {
                biased;
                () = end.cancelled() => return,
                () = sleep(LOOK_PERIOD) => {}
            }
            match self.look(&hub_id).await {
                Ok(Some(next)) => {
                    info!("switched to the new kubeconfig of the hub");
                    self.kubeconfig = next.kubeconfig;
                    told.clear();
                }
                Ok(None) => told.clear(),
                Err(error) => {
                    let error = format!("{error:#}");
                    if error != told {
                        warn!(
                            error,
                            "the kubeconfig of the hub is not used; the one before stays"
                        );
                        told = error;
                    }
                }
            }
        }
    }

    /// Takes what the file says now, where it is something else and good.
    async fn look(&self, hub_id: &str) -> Result<Option<Self>> {
        let next = Self::read(&self.file).await?;
        if next.kubeconfig == self.kubeconfig {
            return Ok(None);
        }
        let answered = next.hub_id().await.context("the hub does not take it")?;
        if answered != hub_id {
            bail!("it is for another hub");
        }
        if !self.connection.succeed_by(&next.connection) {
            bail!("it names another server: start the syncer again");
        }
        Ok(Some(next))
    }
}
