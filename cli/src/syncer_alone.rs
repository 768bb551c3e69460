//! `wheelhouse syncer`: a syncer in a process of its own.
//!
//! The same as in a hub's process, but that its client of the hub comes by the network. It always shares: what it looks after, and
//! in which term, is in Leases of the hub, whether other syncers are there or not.

use std::{
    net::SocketAddr,
    path::Path,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result, bail};
use apiserver::side::{Check, Pages};
use client::{Dynamic, Options};
use serde::Deserialize;
use spokes::Spokes;
use syncer::{Brake, Publication, ShareMetrics};
use tasks::{OnPanic, Tasks};
use tokio::{net::TcpListener, time::sleep};
use tracing::{info, warn};

use crate::{
    args,
    connect::{Embedded, Kubeconfig},
    process, serve,
};

/// What a syncer is told of a hub.
const SYNCER_PATH: &str = "/wheelhouse/syncer";

/// How often a hub that does not answer is asked again.
const RETRY_PERIOD: Duration = Duration::from_secs(1);

/// How long controllers get to stop.
const GRACE: Duration = Duration::from_secs(5);

/// A hub, as its kubeconfig for syncers reaches it.
struct Reached {
    client: kube::Client,
    hub_id: String,
    server: String,
    certificate_authority: Vec<u8>,
}

/// Runs a syncer until it is told to stop.
pub(crate) async fn run(arguments: args::Syncer) -> Result<()> {
    let dialer = serve::dialer(&arguments.spokes)?;
    let tasks = Tasks::new();
    let metrics = ShareMetrics::default();
    let answers = Arc::new(AtomicBool::new(false));
    serve_pages(arguments.metrics_bind_address, &metrics, &answers, &tasks).await?;
    // One for both waits: a signal between two would be lost.
    let mut stopped = pin!(process::stopped());
    let Some(reached) = reach(&arguments.hub, stopped.as_mut()).await? else {
        return Ok(());
    };
    answers.store(true, Ordering::Release);
    let spokes = Spokes::new(dialer);
    spokes.start(reached.client.clone(), &tasks);
    let brake = Brake {
        percent: arguments.confirm_deletions_above,
        ..Brake::default()
    };
    let switches = arguments.kro.switches();
    let publication = arguments
        .spokes
        .publish_profiles
        .map(|namespace| Publication {
            namespace,
            server: reached.server.clone(),
            certificate_authority: reached.certificate_authority.clone(),
        });
    let (client, hub_id) = (reached.client, reached.hub_id);
    let leases = client.clone();
    let live = move |tasks: &Tasks, member| {
        let config = syncer::Config {
            hub: client.clone(),
            hub_id: hub_id.clone(),
            brake,
            switches: switches.clone(),
            spokes: spokes.clone(),
            publication: publication.clone(),
            sharing: Some(member),
        };
        syncer::start(config, tasks);
    };
    // The versions of its own Lease tell whether history was set back.
    let shared = syncer::run_shared(leases, tasks.clone(), metrics, || 0, live);
    tasks.spawn_with("shared-work", OnPanic::ShutDown, shared);
    info!(hub = reached.server, "ready");
    let ended = tasks.token();
    tokio::select! {
        stopped = stopped => stopped?,
        () = ended.cancelled() => {}
    }
    tasks.shutdown(GRACE).await;
    if let Some(task) = tasks.failed() {
        bail!("the task {task:?} panicked, and the syncer cannot go on without it");
    }
    Ok(())
}

/// Serves health and metrics. The process is ready once the hub has answered, and while it takes part in the work.
async fn serve_pages(
    address: SocketAddr,
    metrics: &ShareMetrics,
    answers: &Arc<AtomicBool>,
    tasks: &Tasks,
) -> Result<()> {
    let context = || format!("cannot listen on {address} (--metrics-bind-address)");
    let listener = TcpListener::bind(address).await.with_context(context)?;
    let address = listener.local_addr().with_context(context)?;
    let (of_share, answers) = (metrics.clone(), Arc::clone(answers));
    let checks = move || {
        let check = |name, is_good: bool, failure: &str| Check {
            name,
            failure: (!is_good).then(|| failure.to_owned()),
        };
        let has_answered = answers.load(Ordering::Acquire);
        let takes_part = of_share.takes_part();
        vec![
            check("hub", has_answered, "the hub has not answered yet"),
            check("share", takes_part, "not taking part in the work"),
        ]
    };
    let pages = Pages::new(tasks, Box::new(metrics.clone()), checks);
    tasks.spawn_with(
        "pages",
        OnPanic::ShutDown,
        pages.serve(listener, tasks.child_token()),
    );
    info!(%address, "serving health and metrics");
    Ok(())
}

/// Connects to the hub of a kubeconfig, and waits until it answers; `None` where the process is told to stop before.
async fn reach(
    file: &Path,
    mut stopped: Pin<&mut impl Future<Output = Result<()>>>,
) -> Result<Option<Reached>> {
    let origin = || file.display().to_string();
    let found = Kubeconfig::read(file).context("--hub")?;
    let found = Embedded::of(&found, None).with_context(origin)?;
    let server = found.server().with_context(origin)?.to_owned();
    let certificate_authority = found.authorities().with_context(origin)?;
    let options = Options::default();
    let connection = client::connect(&found.kubeconfig(), None, &options).await;
    let client = connection.with_context(origin)?.client().kube().clone();
    let hub_id = loop {
        match hub_id(&Dynamic::new(client.clone())).await {
            Ok(id) => break id,
            Err(error) if error.unreachable() => {
                warn!(
                    hub = server,
                    error = error.chain(),
                    "the hub does not answer"
                );
            }
            Err(error) => return Err(error).context(server),
        }
        tokio::select! {
            stopped = stopped.as_mut() => {
                stopped?;
                return Ok(None);
            }
            () = sleep(RETRY_PERIOD) => {}
        }
    };
    Ok(Some(Reached {
        client,
        hub_id,
        server,
        certificate_authority,
    }))
}

/// Asks a hub for its id.
async fn hub_id(hub: &Dynamic) -> Result<String, client::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Told {
        hub_id: String,
    }
    let answer = hub.raw_get(SYNCER_PATH).await?;
    let told: Told = serde_json::from_slice(&answer).map_err(client::Error::Decode)?;
    Ok(told.hub_id)
}
