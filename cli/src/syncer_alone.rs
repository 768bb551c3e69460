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
use spokes::Spokes;
use syncer::{Metrics, Publication, WorkMetrics};
use tasks::{OnPanic, Tasks};
use tokio::{net::TcpListener, time::sleep};
use tracing::{info, warn};

use crate::{args, process, serve, syncer_credential::Credential};

/// How often a hub that does not answer is asked again.
const RETRY_PERIOD: Duration = Duration::from_secs(1);

/// How long controllers get to stop.
const GRACE: Duration = Duration::from_secs(5);

/// Runs a syncer until it is told to stop.
pub(crate) async fn run(arguments: args::Syncer) -> Result<()> {
    let dialer = serve::dialer(&arguments.syncing.spokes)?;
    let tasks = Tasks::new();
    let metrics = Metrics {
        work: WorkMetrics::without_names(),
        ..Metrics::default()
    };
    let answers = Arc::new(AtomicBool::new(false));
    serve_pages(arguments.metrics_bind_address, &metrics, &answers, &tasks).await?;
    // One for both waits: a signal between two would be lost.
    let mut stopped = pin!(process::stopped());
    let Some((credential, hub_id)) = reach(&arguments.hub, stopped.as_mut()).await? else {
        return Ok(());
    };
    answers.store(true, Ordering::Release);
    let spokes = Spokes::new(dialer);
    let client = credential.connection.client().kube().clone();
    spokes.start(client.clone(), &tasks);
    let brake = arguments.syncing.brake();
    let switches = arguments.syncing.kro.switches();
    let publication = arguments
        .syncing
        .spokes
        .publish_profiles
        .map(|namespace| Publication {
            namespace,
            server: credential.server.clone(),
            certificate_authority: credential.authorities.clone(),
            server_name: credential.server_name.clone(),
        });
    let server = credential.server.clone();
    // Without it the syncer would end with its certificate.
    tasks.spawn_with(
        "hub-kubeconfig",
        OnPanic::ShutDown,
        credential.follow(hub_id.clone(), tasks.child_token()),
    );
    let leases = client.clone();
    let work = metrics.work.clone();
    let live = move |tasks: &Tasks, member| {
        let config = syncer::Config {
            hub: client.clone(),
            hub_id: hub_id.clone(),
            brake,
            switches: switches.clone(),
            spokes: spokes.clone(),
            publication: publication.clone(),
            metrics: work.clone(),
            sharing: Some(member),
        };
        syncer::start(config, tasks);
    };
    // The versions of its own Lease tell whether history was set back.
    let shared = syncer::run_shared(leases, tasks.clone(), metrics.share, || 0, live);
    tasks.spawn_with("shared-work", OnPanic::ShutDown, shared);
    info!(hub = server, "ready");
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
    metrics: &Metrics,
    answers: &Arc<AtomicBool>,
    tasks: &Tasks,
) -> Result<()> {
    let context = || format!("cannot listen on {address} (--metrics-bind-address)");
    let listener = TcpListener::bind(address).await.with_context(context)?;
    let address = listener.local_addr().with_context(context)?;
    let (of_share, answers) = (metrics.share.clone(), Arc::clone(answers));
    let checks = move || {
        let check = |name, is_good: bool, failure: &str| Check {
            name,
            failure: (!is_good).then(|| failure.to_owned()),
        };
        let has_answered = answers.load(Ordering::Acquire);
        let takes_part = of_share.takes_part();
        vec![
            check("hub", has_answered, "the hub has not answered yet"),
            check("share", takes_part, "has no share of the work"),
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
) -> Result<Option<(Credential, String)>> {
    let credential = Credential::read(file).await.context("--hub")?;
    loop {
        match credential.hub_id().await {
            Ok(id) => return Ok(Some((credential, id))),
            Err(error) if error.unreachable() => {
                warn!(
                    hub = credential.server,
                    error = error.chain(),
                    "the hub does not answer"
                );
            }
            Err(error) => return Err(error).context(credential.server),
        }
        tokio::select! {
            stopped = stopped.as_mut() => {
                stopped?;
                return Ok(None);
            }
            () = sleep(RETRY_PERIOD) => {}
        }
    }
}
