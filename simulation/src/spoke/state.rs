//! What a spoke holds: objects by key, one version for each change, and the history that watches are served from.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};

/// Where an object is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The API group.
    pub group: String,
    /// The resource.
    pub resource: String,
    /// The namespace; empty for objects without one.
    pub namespace: String,
    /// The name; empty for a collection.
    pub name: String,
}

/// Who changes an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// The hub, over the network.
    Hub,
    /// Somebody in the cluster, who knows nothing of the hub.
    Foreign,
    /// The cluster's own controllers.
    System,
}

/// What a spoke was at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    version: u64,
    objects: BTreeMap<Key, Arc<Value>>,
    log: Vec<Change>,
}

/// One change.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) version: u64,
    pub(crate) key: Key,
    pub(crate) before: Option<Arc<Value>>,
    /// The object as the change left it, or its last state with the version of its removal.
    pub(crate) object: Arc<Value>,
    pub(crate) is_removal: bool,
}

/// All that a spoke holds.
#[derive(Debug)]
pub(crate) struct State {
    cluster: String,
    version: u64,
    /// Never set back: a uid is never given twice.
    uid_count: u64,
    objects: BTreeMap<Key, Arc<Value>>,
    log: Vec<Change>,
    /// Watches begin at this version or later.
    floor: u64,
}

// === impl Key ===

impl Key {
    /// Names an object.
    pub fn new(group: &str, resource: &str, namespace: &str, name: &str) -> Self {
        Self {
            group: group.to_owned(),
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// Returns whether the object is in a collection.
    pub(crate) fn is_in(&self, collection: &Self) -> bool {
        self.group == collection.group
            && self.resource == collection.resource
            && (collection.namespace.is_empty() || self.namespace == collection.namespace)
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            group,
            resource,
            namespace,
            name,
        } = self;
        write!(f, "{resource}.{group} {namespace}/{name}")
    }
}

// === impl State ===

impl State {
    pub(crate) fn new(cluster: &str) -> Self {
        Self {
            cluster: cluster.to_owned(),
            version: 100,
            uid_count: 0,
            objects: BTreeMap::new(),
            log: Vec::new(),
            floor: 100,
        }
    }

    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    pub(crate) const fn floor(&self) -> u64 {
        self.floor
    }

    pub(crate) const fn objects(&self) -> &BTreeMap<Key, Arc<Value>> {
        &self.objects
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Value>> {
        self.objects.get(key).cloned()
    }

    /// Returns the changes after a version.
    pub(crate) fn since(&self, version: u64) -> &[Change] {
        let first = self.log.partition_point(|change| change.version <= version);
        self.log.get(first..).unwrap_or_default()
    }

    /// Returns the objects as they were at a version that is still in the history.
    pub(crate) fn at(&self, version: u64) -> BTreeMap<Key, Arc<Value>> {
        let mut objects = self.objects.clone();
        for change in self.since(version).iter().rev() {
            match &change.before {
                Some(before) => objects.insert(change.key.clone(), Arc::clone(before)),
                None => objects.remove(&change.key),
            };
        }
        objects
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            version: self.version,
            objects: self.objects.clone(),
            log: self.log.clone(),
        }
    }

    pub(crate) fn restore(&mut self, snapshot: Snapshot) {
        self.version = snapshot.version;
        self.objects = snapshot.objects;
        self.log = snapshot.log;
        self.floor = self.floor.min(self.version);
    }

    /// Becomes an empty cluster. Returns what it was before.
    pub(crate) fn replace(&mut self) -> BTreeMap<Key, Arc<Value>> {
        let mut new = Self::new(&self.cluster);
        new.uid_count = self.uid_count;
        std::mem::replace(self, new).objects
    }

    pub(crate) const fn compact(&mut self) {
        self.floor = self.version;
    }

    /// Writes an object or removes it, with a version, a uid and a generation of its own.
    #[expect(clippy::single_match_else, reason = "two cases of the same weight")]
    pub(crate) fn commit(&mut self, key: Key, object: Option<Value>) -> Arc<Value> {
        self.version += 1;
        let before = self.objects.get(&key).cloned();
        let is_removal = object.is_none();
        let mut object = object
            .or_else(|| before.as_deref().cloned())
            .unwrap_or_default();
        let metadata = &mut object["metadata"];
        metadata["resourceVersion"] = json!(self.version.to_string());
        metadata["name"] = json!(key.name);
        if !key.namespace.is_empty() {
            metadata["namespace"] = json!(key.namespace);
        }
        match before.as_deref() {
            Some(before) => {
                let known = &before["metadata"];
                metadata["uid"] = known["uid"].clone();
                metadata["creationTimestamp"] = known["creationTimestamp"].clone();
                let generation = known["generation"].as_i64().unwrap_or(1);
                let same = is_removal || is_same_content(before, &object);
                object["metadata"]["generation"] = json!(generation + i64::from(!same));
            }
            None => {
                self.uid_count += 1;
                let cluster = self.cluster.bytes().fold(0_u32, |sum, byte| {
                    sum.wrapping_mul(31).wrapping_add(u32::from(byte))
                });
                metadata["uid"] = json!(format!(
                    "{cluster:08x}-0000-4000-8000-{:012x}",
                    self.uid_count
                ));
                metadata["creationTimestamp"] = json!(now());
                metadata["generation"] = json!(1);
            }
        }
        let object = Arc::new(object);
        if is_removal {
            self.objects.remove(&key);
        } else {
            self.objects.insert(key.clone(), Arc::clone(&object));
        }
        self.log.push(Change {
            version: self.version,
            key,
            before,
            object: Arc::clone(&object),
            is_removal,
        });
        object
    }
}

/// Returns the time as the wire writes it.
pub(crate) fn now() -> String {
    api::meta::time_now_text(jiff::Timestamp::now())
}

/// Returns whether two states of an object are of one generation: metadata and status do not count.
fn is_same_content(before: &Value, after: &Value) -> bool {
    fn content(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
        let fields = object.as_object().into_iter().flatten();
        fields.filter(|(name, _)| !matches!(name.as_str(), "metadata" | "status"))
    }
    content(before).eq(content(after))
}
