//! What the judge knows: instances and ledgers as the store has them, and who has made which object.

use std::collections::{BTreeMap, HashMap, HashSet};

use api::kro::keys;
use serde_json::Value;

use crate::spoke::Key;

/// Who has made an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The hub, for the instance of this uid.
    Child { owner: String },
    /// The hub, as the copy of an instance.
    Mirror,
    /// The hub, as the definition of a kind.
    Definition,
    /// The hub, as an event about an instance.
    Event,
    /// Somebody in the spoke, as an instance.
    Imported,
    /// Somebody else.
    Foreign,
}

/// An instance of the hub.
#[derive(Clone, Debug)]
pub struct Instance {
    /// Its logical cluster.
    pub cluster: String,
    /// The object.
    pub object: Value,
}

/// An object that was made for an instance and is still there.
#[derive(Debug)]
struct Child {
    place: String,
    /// The mark that it was made with.
    set: Value,
    /// Whether it bears the mark of another instance by now.
    is_anothers: bool,
    /// Whether it stays when nothing wants it any more.
    is_kept: bool,
}

#[derive(Debug, Default)]
pub(super) struct Memory {
    origins: HashMap<String, Origin>,
    /// By uid.
    instances: BTreeMap<String, Instance>,
    /// The members of ledgers, by the uid of their instance.
    ledgers: BTreeMap<String, Vec<Value>>,
    /// The newest state of a child that a status has shown, by the uid of the instance.
    shown: HashMap<String, u64>,
    /// What is in spokes and was made for an instance, by its uid, by the uid of the instance.
    children: HashMap<String, BTreeMap<String, Child>>,
    /// The uids that ledgers have named.
    confirmed: HashSet<String>,
    /// How many children instances had when their ledgers were last exact, and how many were deleted since.
    pruned: HashMap<String, (usize, Vec<String>)>,
    /// Cluster, namespace, kind and name of every instance that there has been.
    seen: HashSet<[String; 4]>,
    /// Whether states of children may become older: a spoke was set back.
    is_set_back: bool,
}

// === impl Memory ===

impl Memory {
    pub(super) fn note_origin(&mut self, uid: &str, origin: Origin) {
        self.origins.insert(uid.to_owned(), origin);
    }

    pub(super) fn origin(&self, uid: &str) -> Option<&Origin> {
        self.origins.get(uid)
    }

    pub(super) fn note_ledger(&mut self, name: &str, inventory: Option<&Value>) {
        match inventory {
            Some(inventory) => {
                let members = inventory["spec"]["members"].as_array();
                let members = members.cloned().unwrap_or_default();
                let uids = members.iter().filter_map(|member| member["uid"].as_str());
                self.confirmed.extend(uids.map(str::to_owned));
                let pruned = self.pruned.entry(name.to_owned()).or_default();
                if inventory["spec"]["exact"] == true {
                    *pruned = (members.len(), Vec::new());
                }
                self.ledgers.insert(name.to_owned(), members);
            }
            None => {
                self.ledgers.remove(name);
            }
        }
    }

    /// Notes a child that is deleted for an instance. Returns all that have gone, and of how many, if that are too many at once.
    pub(super) fn note_pruned(&mut self, owner: &str, child: &str) -> Option<(Vec<String>, usize)> {
        let instance = &self.instances.get(owner)?.object;
        let confirms = api::wheelhouse::keys::ANNOTATION_CONFIRM_DELETIONS;
        if api::meta::is_terminating(instance)
            || api::meta::annotation(instance, confirms).is_some()
        {
            return None;
        }
        let (all, going) = self.pruned.get_mut(owner)?;
        if *all == 0 {
            return None; // it was never whole
        }
        if !going.iter().any(|gone| gone == child) {
            going.push(child.to_owned()); // one that others have made again meanwhile is the same child
        }
        (going.len() >= 5 && going.len() * 2 > *all).then(|| (going.clone(), *all))
    }

    /// Notes a child that is made for an instance: one that went before is there again.
    pub(super) fn note_made(&mut self, owner: &str, child: &str) {
        if let Some((_, going)) = self.pruned.get_mut(owner) {
            going.retain(|gone| gone != child);
        }
    }

    pub(super) fn note_instance(&mut self, cluster: &str, object: Value) {
        let uid = api::meta::uid(&object).to_owned();
        let known = self.instances.get(&uid);
        let is_new_wish = known.is_none_or(|known| {
            api::meta::generation(&known.object) != api::meta::generation(&object)
        });
        if let Some(pruned) = self.pruned.get_mut(&uid).filter(|_| is_new_wish) {
            pruned.1.clear();
        }
        let kind = object["kind"].as_str().unwrap_or_default();
        let (namespace, name) = (api::meta::namespace(&object), api::meta::name(&object));
        self.seen
            .insert([cluster, namespace, kind, name].map(str::to_owned));
        let instance = Instance {
            cluster: cluster.to_owned(),
            object,
        };
        self.instances.insert(uid, instance);
    }

    pub(super) fn instances(&self) -> Vec<Instance> {
        self.instances.values().cloned().collect()
    }

    /// Returns whether an instance is being deleted, or gone.
    pub(super) fn is_ending(&self, uid: &str) -> bool {
        let instance = self.instances.get(uid);
        instance.is_some_and(|instance| api::meta::is_terminating(&instance.object))
    }

    pub(super) fn cluster_of(&self, uid: &str) -> Option<String> {
        Some(self.instances.get(uid)?.cluster.clone())
    }

    /// Returns whether the hub has an instance of a mirror's kind and name.
    pub(super) fn instance_named(&self, cluster: &str, key: &Key, kind: &Value) -> bool {
        self.instances.values().any(|instance| {
            instance.cluster == cluster
                && instance.object["kind"] == *kind
                && api::meta::name(&instance.object) == key.name
                && api::meta::namespace(&instance.object) == key.namespace
        })
    }

    /// Returns whether an event in a cluster is about an instance that the cluster has or has had.
    pub(super) fn is_of_seen(&self, cluster: &str, event: &Value) -> bool {
        let text = |field: &str| event["involvedObject"][field].as_str().unwrap_or_default();
        let about = [cluster, text("namespace"), text("kind"), text("name")];
        self.seen.contains(&about.map(str::to_owned))
    }

    /// Returns who has made an object of a cluster. What comes back with a spoke that was set back is of the instance that has the
    /// name by now, where the one that it was made for is gone.
    pub(super) fn origin_of(&self, cluster: &str, object: &Value) -> Option<Origin> {
        match self.origins.get(api::meta::uid(object))? {
            Origin::Child { owner } => Some(Origin::Child {
                owner: self.heir(owner, cluster, object),
            }),
            other => Some(other.clone()),
        }
    }

    /// Notes that an object is another instance's from now on: one that was made again took up what was retained.
    pub(super) fn inherit(&mut self, uid: &str, owner: &str) {
        let owner = owner.to_owned();
        self.note_origin(uid, Origin::Child { owner });
    }

    fn heir(&self, owner: &str, cluster: &str, object: &Value) -> String {
        let is_left = self.is_set_back || super::is_retained(object);
        if !is_left || self.instances.contains_key(owner) {
            return owner.to_owned();
        }
        let name = &object["metadata"]["labels"][keys::LABEL_INSTANCE_NAME];
        let is_heir = |(uid, instance): &(&String, &Instance)| {
            instance.cluster == cluster
                && *name == api::meta::name(&instance.object)
                && self.ledger_names_object(uid, object)
        };
        let heir = self.instances.iter().find(is_heir);
        heir.map_or_else(|| owner.to_owned(), |(uid, _)| uid.clone())
    }

    pub(super) fn ledger_names(&self, owner: &str, key: &Key, object: &Value) -> bool {
        let members = self.ledgers.get(owner).into_iter().flatten();
        members.into_iter().any(|member| {
            let text = |field: &str| member[field].as_str().unwrap_or_default();
            text("group") == key.group
                && text("namespace") == key.namespace
                && text("name") == key.name
                && member["kind"] == object["kind"]
        })
    }

    pub(super) fn ledger_names_object(&self, owner: &str, object: &Value) -> bool {
        let version = object["apiVersion"].as_str().unwrap_or_default();
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let (namespace, name) = (api::meta::namespace(object), api::meta::name(object));
        self.ledger_names(owner, &Key::new(group, "", namespace, name), object)
    }

    /// Notes the state of a child that a status shows. Returns the newest that was shown before.
    pub(super) fn note_shown(&mut self, uid: &str, state: u64) -> u64 {
        let shown = self.shown.entry(uid.to_owned()).or_default();
        let before = *shown;
        *shown = before.max(state);
        if self.is_set_back { 0 } else { before }
    }

    /// Notes an object as it is in a spoke now, or that it is gone.
    pub(super) fn note_child(&mut self, uid: &str, place: &str, object: Option<&Value>) {
        let Some(Origin::Child { owner }) = self.origins.get(uid) else {
            return;
        };
        let children = self.children.entry(owner.clone()).or_default();
        let Some(object) = object else {
            children.remove(uid);
            return;
        };
        let set = &object["metadata"]["labels"][keys::LABEL_APPLYSET_PART_OF];
        let child = children.entry(uid.to_owned()).or_insert_with(|| Child {
            place: place.to_owned(),
            set: set.clone(),
            is_anothers: false,
            is_kept: false,
        });
        child.is_kept = super::is_kept(object);
        child.is_anothers = !set.is_null() && *set != child.set;
    }

    /// Returns whether a ledger has named an object by its uid.
    pub(super) fn is_confirmed(&self, uid: &str) -> bool {
        self.confirmed.contains(uid)
    }

    /// Forgets an instance that goes. Returns where there still is what was made for it; what says that it is another's is
    /// rightly left.
    pub(super) fn forget_instance(&mut self, uid: &str) -> Vec<String> {
        self.instances.remove(uid);
        let children = self.children.remove(uid).unwrap_or_default();
        if self.is_set_back {
            return Vec::new(); // what came back with a spoke
        }
        let mut left: Vec<Child> = children.into_values().collect();
        left.retain(|child| !child.is_anothers && !child.is_kept);
        let left = left.into_iter();
        left.map(|child| child.place).collect()
    }

    /// Returns the instances whose ledgers are left though they are gone.
    pub(super) fn ledgers_left(&self) -> Vec<String> {
        let left = self.ledgers.keys();
        let left = left.filter(|uid| !self.instances.contains_key(*uid));
        left.cloned().collect()
    }

    pub(super) fn note_set_back(&mut self) {
        self.is_set_back = true;
    }
}
