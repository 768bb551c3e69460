//! The mirrors of instances in a real spoke, as one watch per kind sees them.
//!
//! # Invariants
//!
//! As in [`super::children`]: what the cache says of a kind counts only once it is synced, and
//! [`super::collection`] has the rule of what to believe.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use api::GroupKind;
use client::reflector::{Event, RawObject};
use parking_lot::Mutex;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{
    collection::{Change, Collection},
    keys::InstanceKey,
};

/// The mirrors of one spoke.
#[derive(Debug, Default)]
pub(crate) struct MirrorCache {
    // Guards everything below; never held across an await.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    kinds: HashMap<GroupKind, KindState>,
}

#[derive(Debug, Default)]
struct KindState {
    mirrors: Collection<InstanceKey>,
    waiting: HashSet<InstanceKey>,
    /// Ends the watch: what it delivers afterwards is not taken up.
    end: CancellationToken,
}

/// What is to be done because of an event.
#[derive(Debug, Default)]
pub(crate) struct Concerned {
    /// Instances to be reconciled.
    pub(crate) instances: Vec<InstanceKey>,
    /// An instance of which nothing but the status of the mirror has changed: ours, or to be set back.
    pub(crate) status: Option<InstanceKey>,
}

/// What is known of one mirror.
#[derive(Debug, Clone)]
pub(crate) enum Mirror {
    /// The watch has not delivered its first list yet.
    Unknown,
    /// There is none.
    Absent,
    /// As it was last seen.
    Present(Arc<RawObject>),
}

// === impl MirrorCache ===

impl MirrorCache {
    /// Marks a kind as watched. If it was not before, the caller starts a watch that ends with the
    /// token returned, a child of the one given.
    pub(crate) fn register(
        &self,
        group_kind: &GroupKind,
        parent: &CancellationToken,
    ) -> Option<CancellationToken> {
        let mut state = self.state.lock();
        if state.kinds.contains_key(group_kind) {
            return None;
        }
        let kind = KindState {
            end: parent.child_token(),
            ..KindState::default()
        };
        let end = kind.end.clone();
        state.kinds.insert(group_kind.clone(), kind);
        Some(end)
    }

    /// Ends the watch of a kind that is no longer distributed, and forgets the kind.
    pub(crate) fn deregister(&self, group_kind: &GroupKind) {
        if let Some(kind) = self.state.lock().kinds.remove(group_kind) {
            kind.end.cancel();
        }
    }

    /// Returns what is known of an instance's mirror; if nothing is, the instance is named once the
    /// first list is there.
    pub(crate) fn of(&self, key: &InstanceKey) -> Mirror {
        let mut state = self.state.lock();
        let Some(kind) = state.kinds.get_mut(&key.group_kind) else {
            return Mirror::Unknown;
        };
        if !kind.mirrors.is_synced() {
            kind.waiting.insert(key.clone());
            return Mirror::Unknown;
        }
        kind.mirrors
            .get(key)
            .map_or(Mirror::Absent, |mirror| Mirror::Present(Arc::clone(mirror)))
    }

    /// Returns all mirrors, of all kinds.
    pub(crate) fn all(&self) -> Vec<(InstanceKey, Arc<RawObject>)> {
        let state = self.state.lock();
        let kinds = state.kinds.values();
        let mirrors = kinds.flat_map(|kind| kind.mirrors.iter());
        mirrors
            .map(|(key, mirror)| (key.clone(), Arc::clone(mirror)))
            .collect()
    }

    /// Returns whether a kind is watched and has delivered its first list.
    pub(crate) fn is_synced(&self, group_kind: &GroupKind) -> bool {
        let state = self.state.lock();
        let kind = state.kinds.get(group_kind);
        kind.is_some_and(|kind| kind.mirrors.is_synced())
    }

    /// Returns whether every watched kind has delivered its first list.
    pub(crate) fn synced(&self) -> bool {
        let state = self.state.lock();
        state.kinds.values().all(|kind| kind.mirrors.is_synced())
    }

    /// Takes up the answer to our own write.
    pub(crate) fn answered(&self, key: &InstanceKey, mirror: Arc<RawObject>) {
        if let Some(kind) = self.state.lock().kinds.get_mut(&key.group_kind) {
            kind.mirrors.answered(key.clone(), mirror);
        }
    }

    /// Forgets a mirror that an answer to our own deletion says is gone.
    pub(crate) fn gone(&self, key: &InstanceKey, uid: &str) {
        if let Some(kind) = self.state.lock().kinds.get_mut(&key.group_kind) {
            kind.mirrors.gone(key, uid);
        }
    }

    /// Takes up an event of the watch that ends with `end`, and names the instances that it
    /// concerns.
    pub(crate) fn take(
        &self,
        group_kind: &GroupKind,
        end: &CancellationToken,
        event: Event,
    ) -> Concerned {
        let mut state = self.state.lock();
        let Some(kind) = state.kinds.get_mut(group_kind) else {
            return Concerned::default();
        };
        if end.is_cancelled() {
            return Concerned::default(); // the kind is another watch's by now
        }
        let key = |object: &RawObject| InstanceKey::of_instance(group_kind, object);
        match event {
            Event::Restarted {
                objects,
                resource_version,
                latest_as_of,
            } => {
                let objects = objects
                    .into_iter()
                    .map(|object| (key(&object), object))
                    .collect();
                let changes = kind
                    .mirrors
                    .listed(objects, &resource_version, latest_as_of);
                let mut concerned: HashSet<InstanceKey> = kind.waiting.drain().collect();
                concerned.extend(changes.into_iter().map(|change| change.key));
                Concerned {
                    instances: concerned.into_iter().collect(),
                    status: None,
                }
            }
            Event::Applied(object) => {
                let change = kind.mirrors.applied(key(&object), object);
                drop(state); // what follows reads whole objects
                change.map_or_else(Concerned::default, Concerned::of)
            }
            Event::Deleted(object) => {
                let change = kind.mirrors.deleted(key(&object), &object);
                Concerned {
                    instances: change.into_iter().map(|change| change.key).collect(),
                    status: None,
                }
            }
            Event::Interrupted(_) | Event::Resumed => Concerned::default(),
        }
    }
}

// === impl Concerned ===

impl Concerned {
    fn of(change: Change<InstanceKey>) -> Self {
        let (before, after) = (change.before.as_deref(), change.after.as_deref());
        let is_status = before
            .zip(after)
            .is_some_and(|(before, after)| is_status_alone(before, after));
        Self {
            instances: if is_status {
                Vec::new()
            } else {
                vec![change.key.clone()]
            },
            status: is_status.then_some(change.key),
        }
    }
}

/// Returns whether a mirror differs from what it was in nothing but its status. What somebody made in the spoke is no mirror, and one
/// that goes is to be released.
fn is_status_alone(before: &RawObject, after: &RawObject) -> bool {
    let rest = |object: &RawObject| -> Option<Value> {
        let mut rest = object.value().ok()?;
        rest.as_object_mut()?.remove("status");
        let metadata = rest.get_mut("metadata")?.as_object_mut()?;
        metadata.remove("resourceVersion");
        if let Some(managers) = metadata
            .get_mut("managedFields")
            .and_then(Value::as_array_mut)
        {
            managers.retain(|entry| entry["subresource"] != "status");
        }
        Some(rest)
    };
    is_mirror(before)
        && is_mirror(after)
        && after.deletion_timestamp.is_none()
        && rest(before).is_some_and(|it| Some(it) == rest(after))
}

/// Who has made an object of an instance's kind in a spoke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Maker {
    /// This hub, as the mirror of an instance of its own.
    ThisHub,
    /// Another hub, as the mirror of one of its instances.
    AnotherHub,
    /// Somebody in the spoke.
    Spoke,
}

/// Returns who has made an object, by the marks on it. A copy of a mirror bears its finalizer and its annotation too, and is not
/// applied by a syncer.
pub(crate) fn maker(object: &RawObject, hub_id: &str) -> Maker {
    let has_finalizer = object
        .finalizers
        .iter()
        .any(|name| name == api::wheelhouse::keys::FINALIZER_MIRROR);
    match object.annotations.get(api::wheelhouse::keys::HUB) {
        Some(id)
            if has_finalizer && object.is_applied_by(api::wheelhouse::keys::MANAGER_SYNCER) =>
        {
            if id == hub_id {
                Maker::ThisHub
            } else {
                Maker::AnotherHub
            }
        }
        Some(_) | None => Maker::Spoke,
    }
}

/// Returns whether an object is a mirror, of whatever hub.
pub(crate) fn is_mirror(object: &RawObject) -> bool {
    maker(object, "") != Maker::Spoke
}

/// Returns whether a mirror was written by this hub.
pub(crate) fn is_of_hub(mirror: &RawObject, hub_id: &str) -> bool {
    maker(mirror, hub_id) == Maker::ThisHub
}

/// Returns whether an object is the mirror of an instance: the one that its ledger names, whatever it bears by now, or one that
/// this hub has applied, of which the ledger may not have learnt. A name alone says nothing.
pub(crate) fn is_own(mirror: &RawObject, named: &str, hub_id: &str) -> bool {
    (!named.is_empty() && named == mirror.uid) || is_of_hub(mirror, hub_id)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn apps() -> GroupKind {
        GroupKind {
            group: "kro.run".to_owned(),
            kind: "App".to_owned(),
        }
    }

    fn key(name: &str) -> InstanceKey {
        InstanceKey {
            group_kind: apps(),
            namespace: "default".to_owned(),
            name: name.to_owned(),
        }
    }

    fn mirror(name: &str, version: &str) -> Arc<RawObject> {
        let object = json!({"apiVersion": "kro.run/v1alpha1", "kind": "App", "metadata": {
            "name": name,
            "namespace": "default",
            "uid": format!("uid-{name}"),
            "resourceVersion": version,
        }});
        Arc::new(RawObject::from_value(&object).expect("an object"))
    }

    /// A cache that watches Apps, with these events taken up.
    fn cache(events: Vec<Event>) -> MirrorCache {
        let cache = MirrorCache::default();
        let end = cache.register(&apps(), &CancellationToken::new());
        assert!(end.is_some(), "nothing is watched before");
        for event in events {
            take(&cache, event);
        }
        cache
    }

    /// Lets the kind's only watch deliver an event.
    fn take(cache: &MirrorCache, event: Event) -> Vec<InstanceKey> {
        cache
            .take(&apps(), &CancellationToken::new(), event)
            .instances
    }

    fn list(objects: Vec<Arc<RawObject>>, version: &str) -> Event {
        Event::Restarted {
            objects,
            resource_version: version.to_owned(),
            latest_as_of: None,
        }
    }

    /// What is known of mirror `a`: its version, `absent` or `unknown`.
    fn known(cache: &MirrorCache) -> String {
        match cache.of(&key("a")) {
            Mirror::Unknown => "unknown".to_owned(),
            Mirror::Absent => "absent".to_owned(),
            Mirror::Present(mirror) => mirror.resource_version.clone(),
        }
    }

    fn sorted(mut keys: Vec<InstanceKey>) -> Vec<InstanceKey> {
        keys.sort();
        keys
    }

    #[test]
    fn absence_counts_from_the_first_list_on() {
        let cases = [
            ("nothing yet", vec![], "unknown"),
            (
                "one event",
                vec![Event::Applied(mirror("a", "1"))],
                "unknown",
            ),
            ("an empty list", vec![list(vec![], "1")], "absent"),
            ("listed", vec![list(vec![mirror("a", "1")], "1")], "1"),
            (
                "changed since",
                vec![
                    list(vec![mirror("a", "1")], "1"),
                    Event::Applied(mirror("a", "2")),
                ],
                "2",
            ),
            (
                "deleted since",
                vec![
                    list(vec![mirror("a", "1")], "1"),
                    Event::Deleted(mirror("a", "2")),
                ],
                "absent",
            ),
            (
                "gone from the next list",
                vec![list(vec![mirror("a", "1")], "1"), list(vec![], "2")],
                "absent",
            ),
        ];
        for (name, events, want) in cases {
            assert_eq!(known(&cache(events)), want, "{name}");
        }
    }

    #[test]
    fn a_kind_that_is_no_longer_distributed_is_unknown() {
        let cache = cache(vec![list(vec![mirror("a", "1")], "1")]);
        cache.deregister(&apps());
        assert_eq!(known(&cache), "unknown", "nobody watches it");
        let end = cache.register(&apps(), &CancellationToken::new());
        assert!(end.is_some(), "it can be watched again");
    }

    #[test]
    fn a_watch_that_is_to_end_says_nothing_of_the_kind_that_is_watched_anew() {
        let cache = MirrorCache::default();
        let target = CancellationToken::new();
        let first = cache.register(&apps(), &target).expect("not watched yet");
        cache.deregister(&apps());
        assert!(first.is_cancelled(), "nobody needs the first watch");
        let second = cache.register(&apps(), &target).expect("not watched now");
        cache.take(&apps(), &second, list(vec![mirror("a", "7")], "7"));
        cache.take(&apps(), &first, list(vec![], "3"));
        assert_eq!(known(&cache), "7", "the first watch has ended");
    }

    #[test]
    fn an_instance_that_waits_is_named_by_the_first_list_and_not_again() {
        let cache = cache(vec![]);
        assert_eq!(known(&cache), "unknown", "so it waits");
        let named = take(&cache, list(vec![], "1"));
        assert_eq!(named, [key("a")], "it waited");
        let named = take(&cache, list(vec![], "1"));
        assert_eq!(named, [], "it waits no more");
    }

    #[test]
    fn an_answer_is_taken_up_unless_the_watch_is_past_it() {
        for (name, seen, answered, want) in [
            ("the watch is behind", "4", "5", "5"),
            ("the watch is behind, by number", "9", "10", "10"),
            ("the watch is past it", "6", "5", "absent"),
            ("the watch is past it, by number", "10", "9", "absent"),
        ] {
            let cache = cache(vec![list(vec![mirror("other", seen)], seen)]);
            cache.answered(&key("a"), mirror("a", answered));
            assert_eq!(known(&cache), want, "{name}");
        }
    }

    #[test]
    fn an_event_concerns_its_instance_only_if_it_brings_something_new() {
        for (name, version, want) in [
            ("older than the answer", "4", vec![]),
            ("the answer again", "5", vec![]),
            ("newer than the answer", "6", vec![key("a")]),
        ] {
            let cache = cache(vec![list(vec![], "1")]);
            cache.answered(&key("a"), mirror("a", "5"));
            let named = take(&cache, Event::Applied(mirror("a", version)));
            assert_eq!(named, want, "{name}");
        }
    }

    #[test]
    fn a_status_of_a_mirror_is_no_reconcile() {
        type Step<'a> = &'a dyn Fn(&mut Value);
        let object = |version: &str, change: &dyn Fn(&mut Value)| {
            let mut object = json!({"apiVersion": "kro.run/v1alpha1", "kind": "App", "metadata": {
                "name": "a", "namespace": "default", "uid": "u", "resourceVersion": version,
                "annotations": {api::wheelhouse::keys::HUB: "h"},
                "finalizers": [api::wheelhouse::keys::FINALIZER_MIRROR],
                "managedFields": [
                    {"manager": api::wheelhouse::keys::MANAGER_SYNCER, "operation": "Apply"},
                    {"manager": "kubectl", "operation": "Update", "subresource": "status", "time": version},
                ],
            }, "spec": {"size": 1}});
            change(&mut object);
            Arc::new(RawObject::from_value(&object).expect("an object"))
        };
        let same = |_: &mut Value| {};
        let status = |it: &mut Value| it["status"] = json!({"state": "ACTIVE"});
        let copied = |it: &mut Value| it["metadata"]["annotations"] = json!({});
        let entry = |it: &mut Value| it["metadata"]["managedFields"][1]["subresource"] = json!("");
        let both = |it: &mut Value| {
            it["status"] = json!({"state": "ACTIVE"});
            it["spec"]["size"] = json!(2);
        };
        let going = |it: &mut Value| it["metadata"]["deletionTimestamp"] = json!("now");
        // (what, before, after, whether the instance is reconciled, whether the status is looked at)
        let cases: [(&str, Step<'_>, Step<'_>, bool, bool); 6] = [
            ("a status", &same, &status, false, true),
            ("a status and a spec", &same, &both, true, false),
            ("who has which fields", &same, &entry, true, false),
            (
                "a status of what is no mirror",
                &copied,
                &|it| {
                    copied(it);
                    status(it);
                },
                true,
                false,
            ),
            (
                "a status of what goes",
                &going,
                &|it| {
                    going(it);
                    status(it);
                },
                true,
                false,
            ),
            ("what becomes no mirror", &same, &copied, true, false),
        ];
        for (name, before, after, instance, is_status) in cases {
            let cache = cache(vec![list(vec![object("1", before)], "1")]);
            let event = Event::Applied(object("2", after));
            let concerned = cache.take(&apps(), &CancellationToken::new(), event);
            assert_eq!(
                !concerned.instances.is_empty(),
                instance,
                "{name}: instance"
            );
            assert_eq!(concerned.status.is_some(), is_status, "{name}: status");
        }
    }

    #[test]
    fn a_list_names_what_is_new_changed_or_missing() {
        let before = vec![
            mirror("same", "1"),
            mirror("changed", "1"),
            mirror("left", "1"),
        ];
        let cache = cache(vec![list(before, "1")]);
        let objects = vec![
            mirror("same", "1"),
            mirror("changed", "2"),
            mirror("new", "2"),
        ];
        let named = take(&cache, list(objects, "2"));
        assert_eq!(
            sorted(named),
            ["changed", "left", "new"].map(key),
            "all but the one that is the same"
        );
    }

    #[test]
    fn our_deletion_forgets_the_mirror_that_it_deleted_and_no_successor() {
        for (name, uid, want) in [
            ("the same", "uid-a", "absent"),
            ("another one of the same name", "uid-before", "1"),
        ] {
            let cache = cache(vec![list(vec![mirror("a", "1")], "1")]);
            cache.gone(&key("a"), uid);
            assert_eq!(known(&cache), want, "{name}");
        }
    }

    #[test]
    fn a_mirror_is_its_instances_by_the_ledger_or_by_an_apply_of_this_hub() {
        let keys = (
            api::wheelhouse::keys::HUB,
            api::wheelhouse::keys::FINALIZER_MIRROR,
            api::wheelhouse::keys::MANAGER_SYNCER,
        );
        let object = |hub: &str, finalizer: &str, manager: &str| {
            let object = json!({"apiVersion": "kro.run/v1alpha1", "kind": "App", "metadata": {
                "name": "a", "namespace": "default", "uid": "u", "resourceVersion": "1",
                "annotations": {keys.0: hub}, "finalizers": [finalizer],
                "managedFields": [{"manager": manager, "operation": "Apply"}],
            }});
            RawObject::from_value(&object).expect("an object")
        };
        // (what, the object, the uid in the ledger, who made it, whether it is the instance's)
        for (name, object, named, made, own) in [
            (
                "ours, and named",
                object("h", keys.1, keys.2),
                "u",
                Maker::ThisHub,
                true,
            ),
            (
                "ours, not named yet",
                object("h", keys.1, keys.2),
                "",
                Maker::ThisHub,
                true,
            ),
            (
                "ours, made again",
                object("h", keys.1, keys.2),
                "before",
                Maker::ThisHub,
                true,
            ),
            (
                "another hub's",
                object("i", keys.1, keys.2),
                "",
                Maker::AnotherHub,
                false,
            ),
            (
                "a copy that somebody applied",
                object("h", keys.1, "kubectl"),
                "",
                Maker::Spoke,
                false,
            ),
            (
                "one that stands in the way",
                object("", "", "kubectl"),
                "before",
                Maker::Spoke,
                false,
            ),
            (
                "named, and stripped of its marks",
                object("", "", "kubectl"),
                "u",
                Maker::Spoke,
                true,
            ),
        ] {
            assert_eq!(maker(&object, "h"), made, "{name}: who made it");
            assert_eq!(is_own(&object, named, "h"), own, "{name}: whose it is");
        }
    }
}
