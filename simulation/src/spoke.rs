//! A simulated spoke: an API server in memory, whose every answer is made in one step.
//!
//! In reading order: [`state`] (objects, versions, history), [`kinds`] (what is served), [`calls`] (reads and writes),
//! [`patch`] (server-side apply and the other patches), [`watch`].
//!
//! It validates nothing, has no users and collects no garbage; what depends on those is for a real kube-apiserver.

mod calls;
mod kinds;
mod patch;
mod selection;
mod state;
mod watch;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use http::{HeaderMap, Method, Uri};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch as channel;

use crate::{dice::Dice, judge::Judge};
pub(crate) use calls::Reply;
use kinds::Place;
use state::State;
pub use state::{Key, Snapshot, Writer};
pub(crate) use watch::{WatchRequest, follow};

/// A simulated spoke. Clones of its `Arc` are the same cluster.
pub struct Spoke {
    name: String,
    // Guards the whole state; never held across an await.
    state: Mutex<State>,
    /// Counts what watches wait for: changes, and the cuts of all streams.
    changed: channel::Sender<Pulse>,
    /// So many of a thousand lists that may come from a cache do.
    stale_per_mille: AtomicU64,
    dice: Arc<Dice>,
    judge: Arc<Judge>,
}

/// What watches wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pulse {
    pub(crate) version: u64,
    /// Rises when history was set back: every stream of before ends.
    pub(crate) epoch: u64,
}

/// A request as it arrives.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

// === impl Asked ===

impl Asked {
    /// Returns a parameter of the query, decoded.
    pub(crate) fn parameter(&self, name: &str) -> Option<String> {
        let query = self.uri.query().unwrap_or_default();
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let (_, value) = pairs.find(|(key, _)| *key == name)?;
        Some(decoded(value))
    }

    /// Returns whether it asks for a watch.
    pub(crate) fn is_watch(&self) -> bool {
        self.method == Method::GET
            && matches!(self.parameter("watch").as_deref(), Some("true" | "1"))
    }

    /// Returns whether it may change something.
    pub(crate) fn is_write(&self) -> bool {
        self.method != Method::GET
    }
}

/// Returns the object that a request is about.
pub(crate) fn key_of(asked: &Asked) -> Option<Key> {
    Some(Place::of(asked.uri.path())?.key)
}

// === impl Spoke ===

impl Spoke {
    /// Makes a cluster with the namespaces that every cluster has.
    pub(crate) fn new(name: &str, dice: Arc<Dice>, judge: Arc<Judge>) -> Arc<Self> {
        let spoke = Arc::new(Self {
            name: name.to_owned(),
            state: Mutex::new(State::new(name)),
            changed: channel::Sender::new(Pulse::default()),
            stale_per_mille: AtomicU64::new(0),
            dice,
            judge,
        });
        spoke.make_namespaces();
        spoke
    }

    fn make_namespaces(&self) {
        for name in ["default", "kube-system"] {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name},
                "status": {"phase": "Active"}});
            self.put(
                Key::new("", "namespaces", "", name),
                namespace,
                Writer::System,
            );
        }
    }

    /// Puts another cluster in the place of this one, as if its machines had been made anew. All streams end.
    pub fn reimage(&self) {
        let before = self.state.lock().replace();
        for (key, object) in &before {
            let judge = &self.judge;
            judge.on_spoke_write(self, key, Writer::System, Some(object), None);
        }
        self.make_namespaces();
        self.changed.send_modify(|pulse| pulse.epoch += 1);
    }

    /// Returns the uid by which a cluster is told from others.
    pub fn cluster_uid(&self) -> String {
        let namespace = self.get(&Key::new("", "namespaces", "", "kube-system"));
        namespace.map_or_else(String::new, |it| api::meta::uid(&it).to_owned())
    }

    /// Returns the name of the spoke.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns an object.
    pub fn get(&self, key: &Key) -> Option<Arc<Value>> {
        self.state.lock().get(key)
    }

    /// Returns all objects.
    pub fn objects(&self) -> BTreeMap<Key, Arc<Value>> {
        self.state.lock().objects().clone()
    }

    /// Returns the keys of the objects that are meant.
    pub fn find(&self, mut is_meant: impl FnMut(&Key, &Value) -> bool) -> Vec<Key> {
        let state = self.state.lock();
        let meant = state.objects().iter();
        let meant = meant.filter(|(key, object)| is_meant(key, object));
        meant.map(|(key, _)| key.clone()).collect()
    }

    /// Stores an object as somebody in the cluster does; its uid stays if it was there.
    pub fn put(&self, key: Key, object: Value, writer: Writer) {
        self.commit(key, Some(object), writer);
    }

    /// Removes an object as somebody in the cluster does, whatever holds it.
    pub fn remove(&self, key: &Key, writer: Writer) {
        if self.get(key).is_some() {
            self.commit(key.clone(), None, writer);
        }
    }

    /// Deletes an object as somebody in the cluster does: what finalizers hold is marked.
    pub fn ask_to_go(&self, key: &Key, writer: Writer) {
        let Some(live) = self.get(key) else {
            return;
        };
        if api::meta::finalizers(&live).is_empty() {
            self.remove(key, writer);
        } else if !api::meta::is_terminating(&live) {
            let mut object = (*live).clone();
            object["metadata"]["deletionTimestamp"] = json!(state::now());
            self.put(key.clone(), object, writer);
        }
    }

    /// Returns whether the hub has made an object.
    pub fn is_of_hub(&self, object: &Value) -> bool {
        self.judge.is_made_by_hub(api::meta::uid(object))
    }

    /// Keeps what the cluster is now.
    pub fn snapshot(&self) -> Snapshot {
        self.state.lock().snapshot()
    }

    /// Sets the cluster back to what it was: objects, versions and history. All streams end.
    pub fn restore(&self, snapshot: Snapshot) {
        let version = {
            let mut state = self.state.lock();
            state.restore(snapshot);
            state.version()
        };
        self.changed.send_modify(|pulse| {
            pulse.version = version;
            pulse.epoch += 1;
        });
    }

    /// Gives up history: a watch from before now is answered with 410.
    pub fn compact(&self) {
        self.state.lock().compact();
    }

    /// Sets how many of a thousand lists are older than they need be, where the request allows it.
    pub(crate) fn set_stale(&self, per_mille: u64) {
        self.stale_per_mille.store(per_mille, Ordering::Relaxed);
    }

    /// Draws how much older than now a list is, of at most `age` versions.
    fn staleness(&self, age: u64) -> u64 {
        if self
            .dice
            .chance(self.stale_per_mille.load(Ordering::Relaxed))
        {
            self.dice.below(age + 1)
        } else {
            0
        }
    }

    pub(crate) fn subscribe(&self) -> channel::Receiver<Pulse> {
        self.changed.subscribe()
    }

    /// Writes an object, or removes it, and shows the judge. Returns it as it is stored.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "nobody needs the key afterwards"
    )]
    fn commit(&self, key: Key, object: Option<Value>, writer: Writer) -> Arc<Value> {
        let (stored, before, after, version) = {
            let mut state = self.state.lock();
            let before = state.get(&key);
            let stored = state.commit(key.clone(), object);
            let after = state.get(&key);
            (stored, before, after, state.version())
        };
        self.judge
            .on_spoke_write(self, &key, writer, before.as_deref(), after.as_deref());
        self.changed.send_modify(|pulse| pulse.version = version);
        stored
    }
}

impl fmt::Debug for Spoke {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spoke")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        match byte {
            b'%' => {
                let value = digit(rest.next()).unwrap_or_default() * 16
                    + digit(rest.next()).unwrap_or_default();
                bytes.push(u8::try_from(value).unwrap_or(b'?'));
            }
            b'+' => bytes.push(b' '),
            byte => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
