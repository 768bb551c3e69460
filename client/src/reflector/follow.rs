//! The loop: list, watch, resume, and again.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use api::{ClusterScope, TypeMeta, status};
use http::Request;
use http::header::ACCEPT;
use http_body_util::BodyExt as _;
use kube::client::Body;
use rand::Rng as _;
use tasks::{Backoff, Shutdown};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout};

use super::decode_error::DecodeError;
use super::lines::Lines;
use super::raw_object::RawObject;
use super::wire::{self, Line, Page};
use super::{Config, Event, Signals};
use crate::bounds::{Budget, Expected, Pager};
use crate::dynamic::{PAGE_SIZE, Path, PathError, answer, read, selected};
use crate::error::{BoundError, Error, refusal};

/// How many resumes may fail in a row with the server alive before everything is listed anew.
const FAILED_RESUME_COUNT_MAX: u32 = 3;
/// The smallest pages that a list is cut into, where larger ones are more than may be held.
const PAGE_SIZE_MIN: usize = 5;

/// How long an outage may last before an operator is told. A shorter one is routine: a kind is about to be served, or no
/// longer is; a server restarts.
const OUTAGE_ROUTINE: Duration = Duration::from_secs(30);

/// When something counts as dead, and how long to wait.
#[derive(Clone, Debug)]
pub(crate) struct Timing {
    /// How long a page may take at first. Doubled each time that one has taken longer: a server that has just begun to serve a kind may
    /// lose the first request for it, and one that has much to read needs the longest.
    pub(crate) page_deadline_initial: Duration,
    /// How long it may take at most.
    pub(crate) page_deadline_max: Duration,
    /// How long the head of a watch's answer may take.
    pub(crate) head_deadline: Duration,
    /// After how many seconds the server ends a watch; drawn anew each time, so that not all watches end together.
    pub(crate) watch_seconds: RangeInclusive<u64>,
    /// How much longer than that a stream may be silent before it counts as dead.
    pub(crate) silence_grace: Duration,
    /// A watch that ends sooner, and without an event, counts as failed.
    pub(crate) watch_min: Duration,
    /// The first pause after a failure.
    pub(crate) pause_initial: Duration,
    /// The longest pause.
    pub(crate) pause_max: Duration,
    /// The first pause after a bound was met: each attempt reads as much again, and waiting alone mends nothing.
    pub(crate) bound_pause_initial: Duration,
    /// The longest one.
    pub(crate) bound_pause_max: Duration,
}

/// A collection that is followed.
pub(super) struct Follower {
    config: Config,
    timing: Timing,
    sender: mpsc::Sender<Event>,
    signals: Signals,
    /// How often everything was to be listed anew.
    relists: watch::Receiver<u64>,
    /// How often the server answered again.
    returns: watch::Receiver<u64>,
    /// How often the server had been away when the list began that has been watched from without a break since.
    unbroken_since: Option<u64>,
    /// The same when the last list began.
    listed_since: u64,
    /// How often the server was said to answer; what was said before the attempt that is under way was seen.
    wakes: watch::Receiver<u64>,
    backoff: Backoff,
    /// The pauses after a bound was met.
    bound_backoff: Backoff,
    /// Where the next watch begins; `None` where everything must be listed.
    position: Option<String>,
    /// How fresh the next list must be.
    freshness: Freshness,
    /// Present once the consumer was told that the collection cannot be read.
    outage: Option<Outage>,
    failed_resume_count: u32,
    type_meta: Arc<TypeMeta>,
    /// How many objects a page has; fewer after pages that were too large.
    page_size: usize,
    /// How long a page may take; longer after pages that took too long.
    page_deadline: Duration,
}

/// A time during which a collection cannot be read.
struct Outage {
    since: Instant,
    /// It has lasted so long that it was logged as a warning.
    is_reported: bool,
}

/// How fresh a list must be.
enum Freshness {
    /// As fresh as a version that was seen; a cache may answer.
    NotOlderThan(String),
    /// As fresh as can be.
    Latest,
}

/// How a watch ended.
enum End {
    /// As it should: the server ended it.
    Regular,
    /// The version is gone, or the history is another one.
    Expired(String),
    /// It broke, or the server failed.
    Failed {
        reason: String,
        pause: Option<Duration>,
        is_unreachable: bool,
    },
    /// The consumer is gone.
    Closed,
}

/// The consumer is gone.
struct ClosedError;

// === impl Timing ===

impl Default for Timing {
    fn default() -> Self {
        Self {
            page_deadline_initial: Duration::from_secs(15),
            page_deadline_max: Duration::from_mins(1),
            head_deadline: Duration::from_secs(30),
            watch_seconds: 240..=300,
            silence_grace: Duration::from_secs(15),
            watch_min: Duration::from_secs(1),
            pause_initial: Duration::from_millis(200),
            pause_max: Duration::from_secs(15),
            bound_pause_initial: Duration::from_secs(2),
            bound_pause_max: Duration::from_mins(5),
        }
    }
}

// === impl Follower ===

impl Follower {
    pub(super) fn new(
        config: Config,
        timing: Timing,
        signals: Signals,
        sender: mpsc::Sender<Event>,
    ) -> Self {
        let relists = signals.relists.subscribe();
        let returns = signals.returns.subscribe();
        let listed_since = signals.away_count();
        let wakes = signals.wakes.subscribe();
        let backoff = Backoff::new(timing.pause_initial, timing.pause_max);
        let bound_backoff = Backoff::new(timing.bound_pause_initial, timing.bound_pause_max);
        let page_deadline = timing.page_deadline_initial;
        Self {
            config,
            timing,
            sender,
            signals,
            relists,
            returns,
            unbroken_since: None,
            listed_since,
            wakes,
            backoff,
            bound_backoff,
            position: None,
            // A cache may be behind what this client did in an earlier life: what it does not show would count as gone.
            freshness: Freshness::Latest,
            outage: None,
            failed_resume_count: 0,
            type_meta: Arc::default(),
            page_size: PAGE_SIZE,
            page_deadline,
        }
    }

    /// Follows until the shutdown, or until the consumer is gone.
    pub(super) async fn run(mut self, shutdown: Shutdown) {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {}
            _closed = self.follow() => {}
        }
    }

    async fn follow(&mut self) -> Result<(), ClosedError> {
        loop {
            self.wakes.mark_unchanged();
            if self.must_start_anew() {
                self.start_anew();
            }
            let Some(position) = self.position.clone() else {
                // Boxed, as in `watch`: most of the time there is a watch, and a fleet has thousands.
                Box::pin(self.list()).await?;
                continue;
            };
            let started = Instant::now();
            let mut event_count = 0;
            let end = self.watch(position, &mut event_count).await;
            self.unbroken_since = None;
            let was_short = started.elapsed() < self.timing.watch_min;
            if !was_short {
                // Only a watch that lasted shows that things are well: a list that succeeds between two watches
                // that fail would otherwise be repeated at full speed.
                self.backoff.reset();
                self.bound_backoff.reset();
            }
            match end {
                End::Regular if was_short && event_count == 0 => {
                    self.failed("the watch ended as soon as it began", None, false)
                        .await?;
                }
                End::Regular => {
                    self.failed_resume_count = 0;
                    if was_short {
                        // A server that ends each watch after an event would be asked at full speed.
                        let pause = self.backoff.next_pause();
                        self.rest(pause).await?;
                    }
                }
                End::Expired(reason) => {
                    tracing::debug!(
                        name = self.config.name,
                        reason,
                        "listing a collection again"
                    );
                    self.position = None;
                    if was_short {
                        let pause = self.backoff.next_pause();
                        self.rest(pause).await?;
                    }
                }
                End::Failed {
                    reason,
                    pause,
                    is_unreachable,
                } => {
                    if event_count > 0 {
                        self.failed_resume_count = 0;
                    }
                    self.failed(&reason, pause, is_unreachable).await?;
                }
                End::Closed => return Err(ClosedError),
            }
        }
    }

    /// Returns whether the server was set back, or may have been while it was away.
    fn must_start_anew(&mut self) -> bool {
        let is_back = self.returns.has_changed().unwrap_or(false);
        self.returns.mark_unchanged();
        (is_back && !self.is_unbroken()) || self.relists.has_changed().unwrap_or(false)
    }

    /// Returns whether the collection was listed after the server was last found away, and watched without a break since.
    fn is_unbroken(&self) -> bool {
        self.unbroken_since == Some(self.signals.away_count())
    }

    /// Forgets where the collection was: the next list is as fresh as can be.
    fn start_anew(&mut self) {
        self.relists.mark_unchanged();
        self.position = None;
        self.freshness = Freshness::Latest;
    }

    /// Reads all pages and delivers them at once, or nothing.
    async fn list(&mut self) -> Result<(), ClosedError> {
        let away_count = self.signals.away_count();
        if away_count != self.listed_since {
            self.listed_since = away_count;
            self.freshness = Freshness::Latest;
        }
        let latest_as_of = matches!(self.freshness, Freshness::Latest).then(Instant::now);
        let listed = self.pages().await;
        self.budget().note_collection(&self.place(), &listed);
        match listed {
            Ok((objects, resource_version)) => {
                self.freshness = Freshness::NotOlderThan(resource_version.clone());
                self.position = Some(resource_version.clone());
                self.unbroken_since = Some(away_count);
                self.failed_resume_count = 0;
                self.recovered();
                self.send(Event::Restarted {
                    objects,
                    resource_version,
                    latest_as_of,
                })
                .await
            }
            Err(error) => {
                if let Error::Timeout = error {
                    let longer = self.page_deadline.saturating_mul(2);
                    self.page_deadline = longer.min(self.timing.page_deadline_max);
                }
                if error.is_expired() || error.status().is_some_and(is_about_the_version) {
                    self.freshness = Freshness::Latest;
                }
                if let Some(BoundError::Answer { .. } | BoundError::Total { .. }) = error.bound() {
                    // A cache answers with everything at once, whatever the limit is; etcd with pages.
                    self.freshness = Freshness::Latest;
                    self.page_size = (self.page_size / 10).max(PAGE_SIZE_MIN);
                }
                let reason = error.chain();
                let pause = self.pause_after(&error);
                self.failed(&reason, pause, error.unreachable()).await
            }
        }
    }

    async fn pages(&self) -> Result<(Vec<Arc<RawObject>>, String), Error> {
        let mut objects = Vec::new();
        let mut pager = Pager::new(self.budget().bounds());
        loop {
            let page = self.page(self.page_size, pager.continue_token());
            let page = match pager.in_time(page).await {
                Err(error) if error.is_expired() && !pager.continue_token().is_empty() => {
                    // The pages took longer than the server keeps a version: all at once, then.
                    objects.clear();
                    pager.in_time(self.page(0, "")).await?
                }
                page => page?,
            };
            objects.extend(page.items);
            if !pager.turn(page.metadata.continue_token)? {
                return Ok((objects, page.metadata.resource_version));
            }
        }
    }

    async fn page(&self, limit: usize, continue_token: &str) -> Result<Page, Error> {
        let mut target = self.path()?;
        if continue_token.is_empty() {
            if let Freshness::NotOlderThan(version) = &self.freshness {
                target = target
                    .with("resourceVersion", Some(version))
                    .with("resourceVersionMatch", Some("NotOlderThan"));
            }
        } else {
            target = target.with("continue", Some(continue_token));
        }
        if limit > 0 {
            target = target.with("limit", Some(&limit.to_string()));
        }
        let request = request(target)?;
        let answered = timeout(
            self.page_deadline,
            answer(&self.config.client, Expected::Page, request),
        )
        .await
        .map_err(|_elapsed| Error::Timeout)??;
        wire::decode_page(answered, self.budget()).await
    }

    /// Reads one stream to its end and delivers what it says.
    async fn watch(&mut self, position: String, event_count: &mut usize) -> End {
        let seconds = rand::rng().random_range(self.timing.watch_seconds.clone());
        let path = match self.path() {
            Ok(path) => path,
            Err(error) => return self.refused(&error.into()),
        };
        let target = path
            .with("watch", Some("true"))
            .with("allowWatchBookmarks", Some("true"))
            .with("resourceVersion", Some(&position))
            .with("timeoutSeconds", Some(&seconds.to_string()));
        let mut body = match Box::pin(self.open(target)).await {
            Ok(body) => body,
            Err(error) => return self.refused(&error),
        };
        let silence_max = Duration::from_secs(seconds).saturating_add(self.timing.silence_grace);
        let mut lines = match Lines::new(self.budget()) {
            Ok(lines) => lines,
            Err(bound) => return self.exceeded(bound),
        };
        loop {
            // A stream that begins with an error has resumed nothing, so it is looked at for a moment.
            let patience = if self.outage.is_some() {
                self.timing.watch_min
            } else {
                silence_max
            };
            let frame = tokio::select! {
                biased;
                _ = self.relists.changed() => {
                    self.start_anew();
                    return End::Expired("the server was set back".to_owned());
                }
                _ = self.returns.changed() => {
                    if self.is_unbroken() {
                        continue;
                    }
                    self.start_anew();
                    return End::Expired("the server was away".to_owned());
                }
                frame = timeout(patience, body.frame()) => frame,
            };
            let frame = match frame {
                Err(_elapsed) if self.outage.is_some() => match self.resumed().await {
                    Ok(()) => continue,
                    Err(ClosedError) => return End::Closed,
                },
                Err(_elapsed) => {
                    return End::broken("nothing came for longer than the watch was to last");
                }
                Ok(None) => return End::Regular,
                Ok(Some(Err(error))) => return End::broken(&Error::transport(error).chain()),
                Ok(Some(Ok(frame))) => frame,
            };
            let Some(chunk) = frame.data_ref() else {
                continue;
            };
            if let Err(bound) = lines.push(chunk) {
                return self.exceeded(bound);
            }
            let before = *event_count;
            while let Some(line) = lines.next_line() {
                if let Err(end) = self.take(&line, event_count).await {
                    return end;
                }
            }
            let events = event_count.saturating_sub(before);
            self.budget().pace_objects(chunk.len(), events).await;
        }
    }

    /// Returns whether an older version is an object that a hub tells again because the definition of its cluster has
    /// changed: only over all logical clusters, and only within one history.
    fn is_told_anew(&self, version: &str) -> bool {
        let position = self.position.as_deref().unwrap_or_default();
        self.config.endpoint.scope == Some(ClusterScope::All)
            && wire::is_of_same_epoch(version, position)
    }

    async fn open(&self, target: Path) -> Result<Body, Error> {
        let opening = async {
            let client = &self.config.client;
            let response = client
                .kube()
                .send(request(target)?)
                .await
                .map_err(Error::transport)?;
            if response.status().is_success() {
                return Ok(response.into_body());
            }
            let (parts, body) = response.into_parts();
            let answered = read(body, Expected::Object, client.budget()).await?;
            Err(refusal(parts.status, &parts.headers, &answered.bytes).into())
        };
        timeout(self.timing.head_deadline, opening)
            .await
            .map_err(|_elapsed| Error::Timeout)?
    }

    /// Delivers one line. The position moves once the event has been handed over.
    async fn take(&mut self, line: &[u8], event_count: &mut usize) -> Result<(), End> {
        let line = match wire::decode_line(line, &self.type_meta, self.budget()) {
            Ok(line) => line,
            Err(DecodeError::Bound(bound)) => return Err(self.exceeded(bound)),
            Err(error) => return Err(End::Expired(error.to_string())),
        };
        let (version, event) = match line {
            Line::Bookmark { resource_version } => (resource_version, None),
            Line::Applied(object) => {
                self.type_meta = Arc::clone(&object.type_meta);
                (
                    object.resource_version.clone(),
                    Some(Event::Applied(Arc::new(object))),
                )
            }
            Line::Deleted(object) => (
                object.resource_version.clone(),
                Some(Event::Deleted(Arc::new(object))),
            ),
            Line::Error(status) if status.is_expired() => {
                return Err(End::Expired(status.to_string()));
            }
            Line::Error(status) => return Err(self.end_of(&Error::Status(status))),
        };
        self.resumed().await.map_err(|ClosedError| End::Closed)?;
        let is_older = self
            .position
            .as_deref()
            .is_some_and(|position| wire::is_older(&version, position));
        if is_older && !self.is_told_anew(&version) {
            // A server never goes back; one that was restored from a copy does, and has another history.
            return Err(End::Expired(format!(
                "version {version} came after a newer one"
            )));
        }
        if let Some(event) = event {
            *event_count += 1;

            self.send(event).await.map_err(|ClosedError| End::Closed)?;
        }
        if !version.is_empty() && !is_older {
            self.freshness = Freshness::NotOlderThan(version.clone());
            self.position = Some(version);
        }
        Ok(())
    }

    /// Notifies the consumer, once per outage, and waits.
    async fn failed(
        &mut self,
        reason: &str,
        pause: Option<Duration>,
        is_unreachable: bool,
    ) -> Result<(), ClosedError> {
        let name = self.config.name.as_str();
        let attempt = self.backoff.attempt_count();
        match &mut self.outage {
            None => {
                self.outage = Some(Outage {
                    since: Instant::now(),
                    is_reported: false,
                });
                tracing::debug!(name, error = reason, "watch of a collection interrupted");
                self.send(Event::Interrupted(reason.to_owned())).await?;
            }
            Some(outage) if !outage.is_reported && outage.since.elapsed() >= OUTAGE_ROUTINE => {
                outage.is_reported = true;
                tracing::warn!(name, attempt, error = reason, "cannot watch a collection");
            }
            Some(_) => {}
        }
        if is_unreachable {
            self.signals.lost.notify_one();
        } else {
            // A server that answers, but never with what was asked for, is not resumed from for ever.
            self.failed_resume_count = self.failed_resume_count.saturating_add(1);
            if self.failed_resume_count >= FAILED_RESUME_COUNT_MAX {
                self.failed_resume_count = 0;
                self.position = None;
            }
        }
        let own = self.backoff.next_pause();
        let pause = pause.map_or(own, |least| least.max(own));
        self.rest(pause).await
    }

    /// Waits, or until the server is said to answer.
    async fn rest(&mut self, pause: Duration) -> Result<(), ClosedError> {
        tokio::select! {
            biased;
            () = self.sender.closed() => Err(ClosedError),
            _ = self.wakes.changed() => {
                self.backoff.reset();
                Ok(())
            }
            () = tokio::time::sleep(pause) => Ok(()),
        }
    }

    /// Notifies the consumer that an outage is over, if there was one.
    async fn resumed(&mut self) -> Result<(), ClosedError> {
        if self.outage.is_some() {
            self.recovered();
            self.send(Event::Resumed).await?;
        }
        Ok(())
    }

    fn recovered(&mut self) {
        let Some(outage) = self.outage.take() else {
            return;
        };
        let name = self.config.name.as_str();
        let attempt = self.backoff.attempt_count();
        if outage.is_reported {
            tracing::info!(name, attempt, "watch of a collection resumed");
        } else {
            tracing::debug!(name, attempt, "watch of a collection resumed");
        }
    }

    async fn send(&self, event: Event) -> Result<(), ClosedError> {
        self.sender.send(event).await.map_err(|_closed| ClosedError)
    }

    fn path(&self) -> Result<Path, PathError> {
        Ok(selected(
            Path::collection(&self.config.endpoint)?,
            self.config.label_selector.as_ref(),
            self.config.field_selector.as_ref(),
        ))
    }

    fn budget(&self) -> &Arc<Budget> {
        self.config.client.budget()
    }

    /// What the collection is called where a bound was met.
    fn place(&self) -> String {
        self.path()
            .map_or_else(|error| error.to_string(), |path| path.as_str().to_owned())
    }

    /// Returns how long the cluster asks to wait, or what it has exceeded demands; `None` where the usual pause will do.
    fn pause_after(&mut self, error: &Error) -> Option<Duration> {
        if error.bound().is_some() {
            return Some(self.bound_backoff.next_pause());
        }
        let asked = error.retry_after()?;
        Some(asked.min(self.timing.pause_max))
    }

    /// Ends a watch that was not opened.
    fn refused(&mut self, error: &Error) -> End {
        match error.status() {
            // Also 400, 404 and 422: the version is of another number line, or the resource was made anew. A list
            // says more.
            Some(status) if status.is_expired() || matches!(status.code, 400 | 404 | 422) => {
                End::Expired(status.to_string())
            }
            _ => self.end_of(error),
        }
    }

    fn end_of(&mut self, error: &Error) -> End {
        End::Failed {
            reason: error.chain(),
            pause: self.pause_after(error),
            is_unreachable: error.unreachable(),
        }
    }

    /// Ends a watch that delivered more than its cluster may make this client hold.
    fn exceeded(&mut self, bound: BoundError) -> End {
        let error = Error::from(bound);
        let end = self.end_of(&error);
        self.budget()
            .note_collection::<()>(&self.place(), &Err(error));
        end
    }
}

// === impl End ===

impl End {
    fn broken(reason: &str) -> Self {
        Self::Failed {
            reason: reason.to_owned(),
            pause: None,
            is_unreachable: true,
        }
    }
}

/// Returns whether a list was refused because of the version that it asked for.
fn is_about_the_version(refused: &api::Status) -> bool {
    matches!(refused.code, 400 | 422) || refused.has_cause(status::CAUSE_RESOURCE_VERSION_TOO_LARGE)
}

fn request(target: Path) -> Result<Request<Body>, Error> {
    Request::builder()
        .uri(target.into_uri())
        .header(ACCEPT, "application/json")
        .body(Body::empty())
        .map_err(|error| api::Status::bad_request(format!("no such path: {error}")).into())
}
