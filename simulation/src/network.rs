//! The network between the hub's process and everything that its syncer speaks to, with faults by seed.
//!
//! ```text
//!   syncer, relay ──► Link ──► fate of the request ──► spoke or hub, in one step ──► fate of the answer ──► caller
//! ```
//!
//! # Invariants
//!
//! A request whose caller has given up is not delivered later. A kill silences everything that the killed process has under
//! way: no request of it is delivered and no answer reaches it afterwards.

mod link;
mod stream;
mod weather;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};
use tower::BoxError;

pub(crate) use link::{HubLink, SpokeLink};
pub use weather::{Away, Weather};

use crate::{dice::Dice, spoke::Spoke};

/// A body as it leaves the network.
pub(crate) type Body = UnsyncBoxBody<Bytes, BoxError>;

/// The network of one run.
pub struct Network {
    dice: Arc<Dice>,
    // Each guards one value; none is held across an await nor while another is.
    spokes: Mutex<BTreeMap<String, Arc<Spoke>>>,
    weather: Mutex<Weather>,
    /// Until when spokes are away, and how.
    away: Mutex<BTreeMap<String, (Away, Instant)>>,
    /// How many requests each spoke has under way, and had at most.
    open: Mutex<BTreeMap<String, (usize, usize)>>,
    /// How often each collection of each spoke was listed.
    lists: Mutex<BTreeMap<(String, String), usize>>, // by spoke, and by path and selector
    /// The process that may speak; links of earlier ones are dead.
    generation: AtomicU64,
    /// Notifies streams to check whether their other end is still there.
    moved: watch::Sender<u64>,
    /// How many more writes to spokes are done before the kill.
    fuse: Mutex<Option<u64>>,
    killed: Notify,
    interloper: Mutex<Option<Interloper>>,
    request_count: AtomicU64,
    fault_count: AtomicU64,
    /// Writes that have arrived, in spokes and in the hub.
    write_count: AtomicU64,
}

/// A request that a spoke has under way.
struct Open<'a> {
    network: &'a Network,
    spoke: &'a str,
}

/// Acts in a spoke right before a write of the hub arrives there.
pub(crate) type Interloper = Arc<dyn Fn(&Spoke, &crate::spoke::Asked) + Send + Sync>;

// === impl Network ===

impl Network {
    pub(crate) fn new(dice: Arc<Dice>) -> Arc<Self> {
        Arc::new(Self {
            dice,
            spokes: Mutex::default(),
            weather: Mutex::default(),
            away: Mutex::default(),
            open: Mutex::default(),
            lists: Mutex::default(),
            generation: AtomicU64::new(0),
            moved: watch::Sender::new(0),
            fuse: Mutex::default(),
            killed: Notify::new(),
            interloper: Mutex::default(),
            request_count: AtomicU64::new(0),
            fault_count: AtomicU64::new(0),
            write_count: AtomicU64::new(0),
        })
    }

    /// Puts a spoke behind an address, `<name>.sim`.
    pub(crate) fn join(&self, spoke: &Arc<Spoke>) {
        let name = spoke.name().to_owned();
        self.spokes.lock().insert(name, Arc::clone(spoke));
    }

    /// Changes what befalls requests from now on.
    pub fn set_weather(&self, weather: Weather) {
        for spoke in self.spokes.lock().values() {
            spoke.set_stale(weather.stale_lists);
        }
        *self.weather.lock() = weather;
    }

    /// Takes a spoke away for a while, or for longer where it is away already.
    pub fn take_away(&self, spoke: &str, away: Away, duration: Duration) {
        let mut until = Instant::now() + duration;
        let mut all = self.away.lock();
        if let Some((_, known)) = all.get(spoke) {
            until = until.max(*known);
        }
        all.insert(spoke.to_owned(), (away, until));
        drop(all);
        self.moved.send_modify(|count| *count += 1);
    }

    /// Kills the process when it has written so often to spokes, right before or right after the last of these writes.
    pub fn set_fuse(&self, write_count: Option<u64>) {
        *self.fuse.lock() = write_count;
    }

    /// Waits until a fuse has killed the process.
    pub async fn killed(&self) {
        self.killed.notified().await;
    }

    /// Kills the process: nothing that it has under way happens any more.
    pub fn kill(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
        *self.fuse.lock() = None;
        self.moved.send_modify(|count| *count += 1);
    }

    /// Counts what was sent, and how much of it was not left alone.
    pub fn counts(&self) -> (u64, u64) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (count(&self.request_count), count(&self.fault_count))
    }

    /// Counts the requests that a spoke had under way at once, at most; watches count until they are answered.
    pub fn open_most(&self, spoke: &str) -> usize {
        let open = self.open.lock();
        open.get(spoke).map_or(0, |(_, most)| *most)
    }

    /// Returns the collection of a spoke that was listed most often, and how often. Pages of one list count as one.
    pub fn lists_most(&self, spoke: &str) -> (usize, String) {
        let lists = self.lists.lock();
        let lists = lists.iter().filter(|((of, _), _)| of == spoke);
        let lists = lists.map(|((_, collection), count)| (*count, collection.clone()));
        lists.max().unwrap_or_default()
    }

    /// Counts lists anew.
    pub fn forget_lists(&self) {
        self.lists.lock().clear();
    }

    fn note_list(&self, spoke: &str, asked: &crate::spoke::Asked) {
        let is_list = asked.method == http::Method::GET
            && !asked.is_watch()
            && asked.parameter("continue").is_none()
            && asked.parameter("limit").as_deref() != Some("1") // asks for the newest version
            && crate::spoke::key_of(asked).is_some_and(|key| key.name.is_empty());
        if is_list {
            let selector = asked.parameter("labelSelector").unwrap_or_default();
            let collection = format!("{}?{selector}", asked.uri.path());
            let key = (spoke.to_owned(), collection);
            *self.lists.lock().entry(key).or_default() += 1;
        }
    }

    /// Notes a request that a spoke has under way.
    fn open<'a>(&'a self, spoke: &'a str) -> Open<'a> {
        let mut open = self.open.lock();
        let (now, most) = open.entry(spoke.to_owned()).or_default();
        *now += 1;
        *most = (*most).max(*now);
        drop(open);
        Open {
            network: self,
            spoke,
        }
    }

    /// Waits until a spoke is back.
    async fn back(&self, spoke: &str) {
        let until = self.away.lock().get(spoke).map(|(_, until)| *until);
        if let Some(until) = until {
            tokio::time::sleep_until(until).await;
        }
    }

    /// Counts the writes of the syncer that have arrived, in spokes and in the hub.
    pub fn writes(&self) -> u64 {
        self.write_count.load(Ordering::Relaxed)
    }

    pub(crate) fn set_interloper(&self, interloper: Option<Interloper>) {
        *self.interloper.lock() = interloper;
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    fn weather(&self) -> Weather {
        self.weather.lock().clone()
    }

    fn away(&self, spoke: &str) -> Option<Away> {
        let (away, until) = self.away.lock().get(spoke).copied()?;
        (Instant::now() < until).then_some(away)
    }

    fn spoke(&self, name: &str) -> Option<Arc<Spoke>> {
        self.spokes.lock().get(name).cloned()
    }

    /// Burns the fuse by one write. Returns whether it has come to its end.
    fn burn(&self) -> bool {
        let mut fuse = self.fuse.lock();
        match fuse.as_mut() {
            Some(0) => {
                *fuse = None;
                true
            }
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        }
    }

    /// Waits for ever where the caller's process is dead.
    async fn alive(&self, generation: u64) {
        if generation != self.generation() {
            std::future::pending::<()>().await;
        }
    }

    async fn kill_and_wait(&self) {
        self.kill();
        self.killed.notify_one();
        std::future::pending::<()>().await;
    }
}

// === impl Open ===

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if let Some((now, _)) = self.network.open.lock().get_mut(self.spoke) {
            *now = now.saturating_sub(1);
        }
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network")
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}

/// Makes a response of the network.
fn respond(code: u16, retry_after: Option<u64>, body: Body) -> Result<Response<Body>, BoxError> {
    let mut response = Response::builder()
        .status(code)
        .header(http::header::CONTENT_TYPE, "application/json");
    if let Some(seconds) = retry_after {
        response = response.header(http::header::RETRY_AFTER, seconds);
    }
    Ok(response.body(body)?)
}

/// Makes the body of a whole document.
fn full(body: &Value) -> Body {
    Full::new(Bytes::from(body.to_string()))
        .map_err(|never| match never {})
        .boxed_unsync()
}
