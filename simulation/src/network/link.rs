//! The two kinds of links: to spokes, by their addresses, and to the hub in the same process.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll},
    time::Duration,
};

use apiserver::hub::InProcess;
use bytes::Bytes;
use client::transport::RequestBody;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::{BoxError, Service};

use super::{
    Away, Body, Network, full, respond,
    stream::{self, Origin},
    weather::{Fate, Weather, slow_time},
};
use crate::spoke::{Asked, Reply, Spoke, follow};

/// How long a caller waits for a connection that nobody takes up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// When it is asked for again, from one try to the next. Source: RFC 6298, section 5.7.
const SYN_PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(2)];

type Answered = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

/// Carries requests of one process to spokes.
#[derive(Clone, Debug)]
pub(crate) struct SpokeLink {
    network: Arc<Network>,
    generation: u64,
}

/// Carries requests of one process's syncer to its hub.
#[derive(Clone, Debug)]
pub(crate) struct HubLink {
    network: Arc<Network>,
    generation: u64,
    hub: InProcess,
}

// === impl SpokeLink ===

impl SpokeLink {
    pub(crate) fn new(network: &Arc<Network>) -> Self {
        Self {
            network: Arc::clone(network),
            generation: network.generation(),
        }
    }

    async fn carry(self, asked: Asked) -> Result<Response<Body>, BoxError> {
        let Self {
            network,
            generation,
        } = self;
        let host = asked.uri.host().unwrap_or_default();
        let name = host.strip_suffix(".sim").unwrap_or_default().to_owned();
        let weather = network.weather();
        let fate = network.draw(&weather, asked.is_write());
        tokio::time::sleep(weather.delay(&network.dice)).await;
        network.alive(generation).await;
        let spoke = network.spoke(&name).ok_or("no such host")?;
        let _open = network.open(&name);
        network.pass(&name, asked.body.len()).await?;
        network.note_list(&name, &asked);
        if let Some(done) = before_arrival(fate, &network).await {
            return done;
        }
        let is_last = asked.is_write() && network.burn();
        if is_last && network.dice.chance(500) {
            network.kill_and_wait().await;
        }
        network.note_arrival(&asked);
        let reply = network.deliver(&spoke, &asked, fate, &weather);
        if is_last {
            network.kill_and_wait().await;
        }
        if fate == Fate::AnswerLost {
            return Err("the connection was reset".into());
        }
        match reply {
            Reply::Document { code, body } => {
                tokio::time::sleep(weather.delay(&network.dice)).await;
                if network.away(&name) == Some(Away::Slow) {
                    tokio::time::sleep(slow_time(body.to_string().len())).await;
                }
                network.alive(generation).await;
                respond(code, retry_after(&body), full(&body))
            }
            Reply::Watch(request) => {
                if network.dice.chance(weather.expired) {
                    return stream::expired();
                }
                let lines = follow(&spoke, request);
                let origin = Origin {
                    network: Arc::clone(&network),
                    generation,
                    spoke: Some(name.clone()),
                };
                respond(200, None, stream::carried(lines, origin, &weather))
            }
        }
    }
}

impl Service<Request<RequestBody>> for SpokeLink {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Answered;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, req: Request<RequestBody>) -> Self::Future {
        let link = self.clone();
        Box::pin(async move { link.carry(asked(req).await?).await })
    }
}

// === impl HubLink ===

impl HubLink {
    pub(crate) fn new(network: &Arc<Network>, hub: InProcess) -> Self {
        Self {
            network: Arc::clone(network),
            generation: network.generation(),
            hub,
        }
    }

    async fn carry(self, asked: Asked) -> Result<Response<Body>, BoxError> {
        let Self {
            network,
            generation,
            hub,
        } = self;
        let weather = network.weather();
        let fate = network.draw(&weather, asked.is_write());
        tokio::time::sleep(weather.delay(&network.dice)).await;
        network.alive(generation).await;
        if let Some(done) = before_arrival(fate, &network).await {
            return done;
        }
        if asked.is_watch() && network.dice.chance(weather.expired) {
            return stream::expired();
        }
        network.note_arrival(&asked);
        let mut answer = hub.send(request_of(&asked)?).await;
        if fate == Fate::Twice && !asked.is_watch() {
            answer = hub.send(request_of(&asked)?).await;
        }
        network.alive(generation).await;
        if fate == Fate::AnswerLost {
            return Err("the connection was reset".into());
        }
        let (parts, body) = answer.into_parts();
        if asked.is_watch() && parts.status.is_success() {
            let origin = Origin {
                network: Arc::clone(&network),
                generation,
                spoke: None,
            };
            let body = stream::carried(body.into_data_stream(), origin, &weather);
            return Ok(Response::from_parts(parts, body));
        }
        let bytes = body.collect().await?.to_bytes();
        tokio::time::sleep(weather.delay(&network.dice)).await;
        network.alive(generation).await;
        let body = Full::new(bytes)
            .map_err(|never| match never {})
            .boxed_unsync();
        Ok(Response::from_parts(parts, body))
    }
}

impl Service<Request<kube::client::Body>> for HubLink {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Answered;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, req: Request<kube::client::Body>) -> Self::Future {
        let link = self.clone();
        Box::pin(async move { link.carry(asked(req).await?).await })
    }
}

// === impl Network ===

impl Network {
    /// Carries a request to a spoke, if it is there.
    async fn pass(&self, spoke: &str, bytes: usize) -> Result<(), BoxError> {
        match self.away(spoke) {
            Some(Away::Refused) => Err("connection refused".into()),
            Some(Away::Silent) => {
                let end = Instant::now() + CONNECT_TIMEOUT;
                for pause in SYN_PAUSES {
                    tokio::time::sleep(pause).await;
                    if self.away(spoke).is_none() {
                        return Ok(());
                    }
                }
                tokio::time::sleep_until(end).await;
                Err("not connected in time".into())
            }
            Some(Away::Hung) => {
                self.back(spoke).await;
                Err("the connection was reset".into())
            }
            Some(Away::Slow) => {
                tokio::time::sleep(slow_time(bytes)).await;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn note_arrival(&self, asked: &Asked) {
        if asked.is_write() {
            self.write_count.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn draw(&self, weather: &Weather, is_write: bool) -> Fate {
        let fate = weather.fate(&self.dice, is_write);
        self.request_count.fetch_add(1, Ordering::Relaxed);
        if fate != Fate::Passes {
            self.fault_count.fetch_add(1, Ordering::Relaxed);
        }
        fate
    }

    /// Lets a spoke answer, after somebody else has acted there, perhaps.
    fn deliver(&self, spoke: &Spoke, asked: &Asked, fate: Fate, weather: &Weather) -> Reply {
        if asked.is_write() && self.dice.chance(weather.interloper) {
            let interloper = self.interloper.lock().clone();
            if let Some(interloper) = interloper {
                self.fault_count.fetch_add(1, Ordering::Relaxed);
                interloper(spoke, asked);
            }
        }
        let reply = spoke.answer(asked);
        if fate == Fate::Twice && !asked.is_watch() {
            return spoke.answer(asked);
        }
        reply
    }
}

/// Ends a request that does not arrive.
async fn before_arrival(fate: Fate, network: &Network) -> Option<Result<Response<Body>, BoxError>> {
    match fate {
        Fate::RequestLost => {
            tokio::time::sleep(network.dice.millis(2_000)).await;
            Some(Err("the connection was reset".into()))
        }
        Fate::Refused(code) => {
            let seconds = (code == 429).then(|| 1 + network.dice.below(3));
            let reason = match code {
                409 => "Conflict",
                429 => "TooManyRequests",
                503 => "ServiceUnavailable",
                504 => "Timeout",
                _ => "InternalError",
            };
            let mut body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "reason": reason, "message": format!("simulated {reason}"), "code": code});
            if let Some(seconds) = seconds {
                body["details"] = json!({"retryAfterSeconds": seconds});
            }
            Some(respond(code, seconds, full(&body)))
        }
        Fate::Passes | Fate::AnswerLost | Fate::Twice => None,
    }
}

fn retry_after(body: &Value) -> Option<u64> {
    body["details"]["retryAfterSeconds"].as_u64()
}

async fn asked<B>(request: Request<B>) -> Result<Asked, BoxError>
where
    B: http_body_util::BodyExt<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(Into::into)?.to_bytes();
    Ok(Asked {
        method: parts.method,
        uri: parts.uri,
        headers: parts.headers,
        body,
    })
}

fn request_of(asked: &Asked) -> Result<Request<apiserver::respond::RequestBody>, BoxError> {
    let body = apiserver::respond::RequestBody::full(asked.body.clone());
    let mut request = Request::builder()
        .method(asked.method.clone())
        .uri(asked.uri.clone())
        .body(body)?;
    request.headers_mut().clone_from(&asked.headers);
    Ok(request)
}
