//! Health and metrics of a process that is no hub: a syncer of its own.
//!
//! Plain HTTP, without a credential: what is told are counts, and no name of a spoke or a tenant. Whoever starts the process says
//! at which address.
//!
//! Source: controller-runtime `pkg/healthz`, `pkg/metrics/server`.

use std::{convert::Infallible, fmt, io, sync::Arc, time::Duration};

use http::Method;
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::{collector::Collector, registry::Registry};
use tasks::{Shutdown, Tasks};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{sleep, timeout},
};

use super::{
    Page,
    health::{self, Check, Probe},
    metrics,
};
use crate::{
    negotiate::Negotiated,
    refusal::Refusal,
    respond::{self, Response},
};

/// Open connections. Full: further ones wait in the listener's backlog.
const CONNECTION_COUNT_MAX: usize = 32;
/// How long the head of a request may take, and an idle connection may stay open.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection may be used: a scraper makes another one. One that takes no answer must not hold its place.
const CONNECTION_TIME_MAX: Duration = Duration::from_mins(1);
/// Bytes of a request's head: a path, and what a scraper says of itself.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Wait after a failed accept, as the hub's.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The pages of a process that is no hub; cheap to clone.
#[derive(Clone)]
pub struct Pages {
    registry: Arc<Registry>,
    checks: Arc<dyn Fn() -> Vec<Check> + Send + Sync>,
    tasks: Tasks,
}

// === impl Pages ===

impl Pages {
    /// Makes the pages of a process whose tasks are `tasks`, with what else counts in it. `checks` says what the process needs to
    /// be ready; it is alive while it answers.
    pub fn new(
        tasks: &Tasks,
        others: Box<dyn Collector>,
        checks: impl Fn() -> Vec<Check> + Send + Sync + 'static,
    ) -> Self {
        let mut registry = Registry::default();
        metrics::register_process(&mut registry, tasks);
        registry.register_collector(others);
        Self {
            registry: Arc::new(registry),
            checks: Arc::new(checks),
            tasks: tasks.clone(),
        }
    }

    /// Answers connections of `listener` until `shutdown`.
    pub async fn serve(self, listener: TcpListener, shutdown: Shutdown) {
        let slots = Arc::new(Semaphore::new(CONNECTION_COUNT_MAX));
        loop {
            let accepted = tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                accepted = accept(&listener, &slots) => accepted,
            };
            match accepted {
                Ok((stream, slot)) => {
                    let (pages, shutdown) = (self.clone(), shutdown.clone());
                    let connection = async move {
                        tokio::select! {
                            biased;
                            () = shutdown.cancelled() => {}
                            _elapsed = timeout(CONNECTION_TIME_MAX, pages.connection(stream)) => {}
                        }
                        drop(slot);
                    };
                    self.tasks.spawn("pages-connection", connection);
                }
                Err(error) => {
                    tracing::warn!(error = %error, "cannot accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn connection(self, stream: TcpStream) {
        let service = service_fn(move |request: Request<Incoming>| {
            let pages = self.clone();
            async move {
                let answered = pages.answer(&request).await;
                Ok::<_, Infallible>(answered.unwrap_or_else(|refusal| refused(&refusal)))
            }
        });
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service)
            .await;
        if let Err(error) = served {
            tracing::debug!(error = %error, "connection ended with an error");
        }
    }

    async fn answer(&self, request: &Request<Incoming>) -> Result<Response, Refusal> {
        let page = Page::of(request.uri().path());
        let page = page.ok_or_else(Refusal::no_such_path)?;
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            return Err(Refusal::no_such_method());
        }
        match page {
            Page::Health(probe, check) => {
                let query = request.uri().query().unwrap_or_default();
                health::answer(probe, &self.checks_of(probe), check, query)
            }
            Page::Metrics => metrics::exposition(&self.registry, &self.tasks).await,
            Page::Version | Page::Issuer | Page::Keys | Page::Index => Err(Refusal::no_such_path()),
        }
    }

    fn checks_of(&self, probe: Probe) -> Vec<Check> {
        let ping = Check {
            name: "ping",
            failure: None,
        };
        match probe {
            Probe::Livez => vec![ping],
            Probe::Healthz | Probe::Readyz => [vec![ping], (self.checks)()].concat(),
        }
    }
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages").finish_non_exhaustive()
    }
}

async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let slot = Arc::clone(slots).acquire_owned().await;
    let slot = slot.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, slot))
}

fn refused(refusal: &Refusal) -> Response {
    if let Some(cause) = refusal.cause() {
        tracing::error!(error = %cause, "cannot render a page");
    }
    respond::refuse(refusal, Negotiated::JSON, "")
}
