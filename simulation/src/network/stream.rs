//! Streams of watches on their way: late, cut, or broken with the spoke that they come from.

use std::{pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use http::Response;
use http_body_util::{BodyExt as _, StreamBody};
use serde_json::json;
use tokio::{sync::watch, time::Instant};
use tower::BoxError;

use super::{Away, Body, Network, Weather, full, weather::slow_time};

/// How long pings go unanswered before a connection counts as dead.
const PING_PATIENCE: Duration = Duration::from_secs(10);

/// Which stream it is.
pub(super) struct Origin {
    pub(super) network: Arc<Network>,
    pub(super) generation: u64,
    /// `None` for a stream of the hub.
    pub(super) spoke: Option<String>,
}

type Chunks = Pin<Box<dyn Stream<Item = Result<Bytes, BoxError>> + Send>>;

struct Carried {
    chunks: Chunks,
    origin: Origin,
    moved: watch::Receiver<u64>,
    /// When it is cut.
    cut: Option<Instant>,
    /// The longest delay of a chunk, in milliseconds.
    delay: u64,
    is_over: bool,
}

/// Carries a stream.
pub(super) fn carried<S, E>(chunks: S, origin: Origin, weather: &Weather) -> Body
where
    S: Stream<Item = Result<Bytes, E>> + Send + 'static,
    E: Into<BoxError>,
{
    let dice = &origin.network.dice;
    let cut = dice
        .chance(weather.cuts)
        .then(|| Instant::now() + dice.millis(30_000));
    let late = if origin.spoke.is_some() {
        weather.late_streams
    } else {
        weather.late_hub
    };
    let delay = if dice.chance(late) {
        5_000
    } else {
        weather.delay
    };
    let carried = Carried {
        chunks: Box::pin(chunks.map(|chunk| chunk.map_err(Into::into))),
        moved: origin.network.moved.subscribe(),
        origin,
        cut,
        delay,
        is_over: false,
    };
    let frames = stream::unfold(carried, |mut carried| async move {
        let chunk = carried.next().await?;
        Some((chunk.map(frame), carried))
    });
    StreamBody::new(frames).boxed_unsync()
}

/// Answers a watch with 410.
pub(super) fn expired() -> Result<Response<Body>, BoxError> {
    let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "reason": "Expired", "message": "too old resource version", "code": 410});
    super::respond(410, None, full(&body))
}

// === impl Origin ===

impl Origin {
    /// Waits until the spoke is back.
    async fn back(&self) {
        if let Some(spoke) = self.spoke.as_deref() {
            self.network.back(spoke).await;
        }
    }
}

// === impl Carried ===

impl Carried {
    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        if self.is_over {
            return None;
        }
        loop {
            self.origin.network.alive(self.origin.generation).await;
            match self.away() {
                Some(Away::Refused) => return Some(Err(self.broken())),
                Some(Away::Silent) => {
                    tokio::time::sleep(PING_PATIENCE).await;
                    return Some(Err(self.broken()));
                }
                Some(Away::Hung) => self.origin.back().await,
                Some(Away::Slow) | None => {}
            }
            let cut = self.cut.unwrap_or_else(far);
            tokio::select! {
                biased;
                moved = self.moved.changed() => moved.ok()?,
                () = tokio::time::sleep_until(cut), if self.cut.is_some() => {
                    self.is_over = true;
                    let is_clean = self.origin.network.dice.chance(500);
                    return (!is_clean).then(|| Err("the stream was cut".into()));
                }
                chunk = self.chunks.next() => {
                    let pause = self.origin.network.dice.millis(self.delay);
                    tokio::time::sleep(pause).await;
                    if self.away() == Some(Away::Slow) {
                        let bytes = chunk.as_ref().and_then(|chunk| chunk.as_ref().ok());
                        tokio::time::sleep(slow_time(bytes.map_or(0, Bytes::len))).await;
                    }
                    self.origin.network.alive(self.origin.generation).await;
                    return chunk;
                }
            }
        }
    }

    fn broken(&mut self) -> BoxError {
        self.is_over = true;
        "the connection broke".into()
    }

    fn away(&self) -> Option<Away> {
        self.origin.network.away(self.origin.spoke.as_deref()?)
    }
}

fn far() -> Instant {
    Instant::now() + Duration::from_hours(24)
}

fn frame(bytes: Bytes) -> http_body::Frame<Bytes> {
    http_body::Frame::data(bytes)
}
