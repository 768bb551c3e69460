//! What the cache believes of a target cluster, event by event.

use client::reflector::Event;
use proptest::{prelude::*, sample::Index};

use super::*;
use crate::state::collection::{
    self,
    tests::{Lesson, Server, happenings},
};

fn kind(name: &str, resource: &str) -> WatchedKind {
    WatchedKind {
        gvk: GroupVersionKind {
            group: String::new(),
            version: "v1".to_owned(),
            kind: name.to_owned(),
        },
        gvr: GroupVersionResource::new("", "v1", resource),
        place: Place::Cluster,
    }
}

fn config_maps() -> WatchedKind {
    kind("ConfigMap", "configmaps")
}

/// A cache that watches ConfigMaps.
fn cache() -> ChildCache {
    let cache = ChildCache::default();
    let end = cache.register(&config_maps(), &CancellationToken::new());
    assert!(end.is_some(), "nothing is watched before");
    cache
}

/// Lets the only watch of a kind deliver an event.
fn take(cache: &ChildCache, kind: &WatchedKind, event: Event) -> Vec<InstanceKey> {
    cache.take(kind, &CancellationToken::new(), event)
}

fn instance(name: &str) -> InstanceKey {
    InstanceKey {
        group_kind: api::GroupKind {
            group: "kro.run".to_owned(),
            kind: "App".to_owned(),
        },
        namespace: "default".to_owned(),
        name: name.to_owned(),
    }
}

/// An object `name` at a version; it belongs to the instance that `parent` names, if any.
fn object(name: &str, version: &str, parent: &str) -> Arc<RawObject> {
    collection::tests::object(name, &format!("uid-{name}"), version, parent)
}

fn list(objects: Vec<Arc<RawObject>>, version: &str) -> Event {
    Event::Restarted {
        objects,
        resource_version: version.to_owned(),
        latest_as_of: None,
    }
}

/// Names and versions of an instance's children.
fn children(cache: &ChildCache, parent: &str) -> Vec<String> {
    let children = cache.of(&instance(parent)).into_iter();
    children
        .map(|(reference, child)| {
            let version = &child.object.resource_version;
            format!("{} {}@{version}", reference.kind, reference.name)
        })
        .collect()
}

fn sorted(mut instances: Vec<InstanceKey>) -> Vec<InstanceKey> {
    instances.sort();
    instances
}

#[test]
fn a_kind_is_synced_from_its_first_list_on() {
    let waiting = |reason: Option<&str>| Sync::Waiting(reason.map(str::to_owned));
    let refused = || Event::Interrupted("refused".to_owned());
    let cases = [
        ("nothing yet", vec![], waiting(None)),
        ("a failure", vec![refused()], waiting(Some("refused"))),
        (
            "a failure that is over",
            vec![refused(), Event::Resumed],
            waiting(None),
        ),
        (
            "one event is not all there is",
            vec![Event::Applied(object("one", "1", "a"))],
            waiting(None),
        ),
        ("an empty list", vec![list(vec![], "1")], Sync::Synced),
        (
            "a list after a failure",
            vec![refused(), list(vec![], "1")],
            Sync::Synced,
        ),
        (
            "a failure after the list",
            vec![list(vec![], "1"), refused()],
            Sync::Synced,
        ),
    ];
    for (name, events, want) in cases {
        let cache = cache();
        for event in events {
            take(&cache, &config_maps(), event);
        }
        let got = cache.sync(&config_maps(), &instance("a"));
        assert_eq!(got, want, "{name}");
    }
}

#[test]
fn a_kind_that_nobody_watches_is_not_synced() {
    let got = ChildCache::default().sync(&config_maps(), &instance("a"));
    assert_eq!(got, Sync::Waiting(None), "absence was not seen");
}

#[test]
fn a_kind_is_registered_once() {
    let again = cache().register(&config_maps(), &CancellationToken::new());
    assert!(again.is_none(), "its watch runs");
}

#[test]
fn an_instance_that_waits_is_named_once_it_is_known_why_and_waits_on() {
    let cache = cache();
    let refused = || Event::Interrupted("refused".to_owned());
    cache.sync(&config_maps(), &instance("a"));
    let named = take(&cache, &config_maps(), refused());
    assert_eq!(named, [instance("a")], "it did not know why");
    let named = take(&cache, &config_maps(), refused());
    assert_eq!(named, [], "it knows");
    let named = take(&cache, &config_maps(), list(vec![], "1"));
    assert_eq!(named, [instance("a")], "it has waited on");
}

#[test]
fn an_instance_that_waits_is_named_by_the_first_list_and_not_again() {
    let cache = cache();
    cache.sync(&config_maps(), &instance("a"));
    let named = take(&cache, &config_maps(), list(vec![], "1"));
    assert_eq!(named, [instance("a")], "it waited");
    let named = take(&cache, &config_maps(), list(vec![], "1"));
    assert_eq!(named, [], "it waits no more");
}

#[test]
fn an_answer_is_taken_up_unless_the_watch_is_past_it() {
    let cases = [
        ("the watch has seen nothing", None, "5", true),
        ("the watch is behind", Some("4"), "5", true),
        ("the watch is behind, by number", Some("9"), "10", true),
        ("the watch is past it", Some("6"), "5", false),
        ("the watch is past it, by number", Some("10"), "9", false),
    ];
    for (name, seen, answered, want) in cases {
        let cache = cache();
        if let Some(seen) = seen {
            take(
                &cache,
                &config_maps(),
                Event::Applied(object("other", seen, "other")),
            );
        }
        cache.answered(&config_maps(), object("one", answered, "a"));
        assert_eq!(!children(&cache, "a").is_empty(), want, "{name}");
    }
}

#[test]
fn a_deletion_counts_as_seen_by_the_watch() {
    let cache = cache();
    take(
        &cache,
        &config_maps(),
        Event::Deleted(object("one", "6", "a")),
    );
    cache.answered(&config_maps(), object("one", "5", "a"));
    assert_eq!(children(&cache, "a"), [""; 0], "it was deleted after that");
}

#[test]
fn an_event_replaces_an_answer_only_if_it_is_newer() {
    for (name, version, want_named, want) in [
        ("older", "9", vec![], "ConfigMap one@10"),
        ("the same", "10", vec![], "ConfigMap one@10"),
        ("newer", "11", vec![instance("a")], "ConfigMap one@11"),
    ] {
        let cache = cache();
        cache.answered(&config_maps(), object("one", "10", "a"));
        let named = take(
            &cache,
            &config_maps(),
            Event::Applied(object("one", version, "a")),
        );
        assert_eq!(
            named, want_named,
            "{name}: what is known already is no news"
        );
        assert_eq!(children(&cache, "a"), [want], "{name}");
    }
}

#[test]
fn our_deletion_forgets_the_object_that_it_deleted_and_no_successor() {
    for (name, uid, want) in [
        ("the same", "uid-one", 0),
        ("another one of the same name", "uid-before", 1),
    ] {
        let cache = cache();
        take(
            &cache,
            &config_maps(),
            Event::Applied(object("one", "1", "a")),
        );
        let (reference, _) = cache.of(&instance("a")).remove(0);
        cache.gone(&reference, uid);
        assert_eq!(children(&cache, "a").len(), want, "{name}");
    }
}

#[test]
fn a_child_whose_labels_are_edited_concerns_who_had_it_and_who_has_it() {
    // (the new parent, who is concerned, children of a, children of b)
    let cases = [
        ("the same", "a", vec![instance("a")], 1, 0),
        ("another", "b", vec![instance("a"), instance("b")], 0, 1),
        ("nobody", "", vec![instance("a")], 0, 0),
    ];
    for (name, parent, want, of_a, of_b) in cases {
        let cache = cache();
        take(
            &cache,
            &config_maps(),
            Event::Applied(object("one", "1", "a")),
        );
        let named = take(
            &cache,
            &config_maps(),
            Event::Applied(object("one", "2", parent)),
        );
        assert_eq!(sorted(named), want, "{name}");
        assert_eq!(children(&cache, "a").len(), of_a, "{name}: children of a");
        assert_eq!(children(&cache, "b").len(), of_b, "{name}: children of b");
    }
}

#[test]
fn a_deleted_child_concerns_its_instance() {
    let cache = cache();
    take(
        &cache,
        &config_maps(),
        Event::Applied(object("one", "1", "a")),
    );
    let named = take(
        &cache,
        &config_maps(),
        Event::Deleted(object("one", "2", "a")),
    );
    assert_eq!(named, [instance("a")], "it has lost a child");
    assert_eq!(children(&cache, "a"), [""; 0], "it is gone");
    let named = take(
        &cache,
        &config_maps(),
        Event::Deleted(object("one", "3", "a")),
    );
    assert_eq!(named, [], "nothing was known of it");
}

#[test]
fn a_list_takes_away_what_it_does_not_hold_of_its_kind_and_nothing_else() {
    let cache = cache();
    let secrets = kind("Secret", "secrets");
    cache.register(&secrets, &CancellationToken::new());
    for (kind, name, parent) in [
        (&config_maps(), "left", "a"),
        (&config_maps(), "kept", "b"),
        (&secrets, "left", "a"),
    ] {
        take(&cache, kind, Event::Applied(object(name, "1", parent)));
    }
    let objects = vec![object("kept", "2", "b"), object("new", "2", "c")];
    let named = take(&cache, &config_maps(), list(objects, "2"));
    let want = ["a", "b", "c"].map(instance);
    assert_eq!(sorted(named), want, "one has lost, two have been listed");
    assert_eq!(children(&cache, "a"), ["Secret left@1"], "of another kind");
    assert_eq!(children(&cache, "b"), ["ConfigMap kept@2"], "as listed");
    assert_eq!(children(&cache, "c"), ["ConfigMap new@2"], "as listed");
}

#[test]
fn an_answer_that_takes_a_child_from_another_instance_concerns_both() {
    let cache = cache();
    take(
        &cache,
        &config_maps(),
        Event::Applied(object("one", "1", "a")),
    );
    let named = cache.answered(&config_maps(), object("one", "2", "b"));
    assert_eq!(sorted(named), ["a", "b"].map(instance), "it was a's");
    assert_eq!(children(&cache, "a"), [""; 0], "it is b's now");
}

#[test]
fn a_late_answer_does_not_take_a_child_from_the_instance_that_has_it() {
    let cache = cache();
    take(
        &cache,
        &config_maps(),
        Event::Applied(object("one", "5", "b")),
    );
    let named = cache.answered(&config_maps(), object("one", "4", "a"));
    assert_eq!(named, [], "it is from before");
    assert_eq!(
        children(&cache, "b"),
        ["ConfigMap one@5"],
        "the watch said so"
    );
}

#[test]
fn a_kind_that_is_watched_in_two_versions_shows_each_object_once() {
    let beta = WatchedKind {
        gvk: GroupVersionKind::new("", "v1beta1", "ConfigMap"),
        gvr: GroupVersionResource::new("", "v1beta1", "configmaps"),
        place: Place::Cluster,
    };
    for (first, second) in [("1", "2"), ("2", "1")] {
        let cache = cache();
        cache.register(&beta, &CancellationToken::new());
        take(
            &cache,
            &config_maps(),
            Event::Applied(object("one", first, "a")),
        );
        take(&cache, &beta, Event::Applied(object("one", second, "a")));
        assert_eq!(children(&cache, "a"), ["ConfigMap one@2"], "the newest");
        let (reference, _) = cache.of(&instance("a")).remove(0);
        cache.gone(&reference, "uid-one");
        assert_eq!(
            children(&cache, "a"),
            [""; 0],
            "it is gone in every version"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn any_interleaving_ends_with_each_child_at_its_instance(
        happenings in happenings(),
        order in prop::collection::vec(any::<Index>(), 1..8),
    ) {
        let cache = cache();
        let learn = |lesson| match lesson {
            Lesson::Watch(event) => {
                take(&cache, &config_maps(), event);
            }
            Lesson::Answer(object) => {
                cache.answered(&config_maps(), object);
            }
            Lesson::Gone { name, uid } => {
                let named = object(&name, "0", "");
                cache.gone(&reference(&config_maps(), &named), &uid);
            }
        };
        let mut server = Server::default();
        for happening in &happenings {
            server.step(happening).into_iter().for_each(learn);
        }
        server.finish(&order).into_iter().for_each(learn);
        for parent in ["a", "b"] {
            let selected = server.selected(server.now());
            let of_parent = selected.values().filter(|object| {
                InstanceKey::of_parent(object) == Some(instance(parent))
            });
            let want: Vec<String> = of_parent
                .map(|object| format!("ConfigMap {}@{}", object.name, object.resource_version))
                .collect();
            prop_assert_eq!(children(&cache, parent), want, "children of {}", parent);
        }
    }
}

/// Marks of an object of an instance's kind: of a mirror, or of the hub's copy of what was made in the spoke.
fn marked(mirror: bool, of_spoke: bool) -> Arc<RawObject> {
    let mut live = object("one", "1", "a").value().expect("an object is JSON");
    let keys = |key: &str, value: &str| serde_json::json!({key: value});
    if mirror {
        live["metadata"]["uid"] = "uid-mirror".into();
        live["metadata"]["finalizers"] =
            serde_json::json!([api::wheelhouse::keys::FINALIZER_MIRROR]);
        live["metadata"]["annotations"] = keys(api::wheelhouse::keys::HUB, "hub-a");
        let manager = api::wheelhouse::keys::MANAGER_SYNCER;
        let entry = serde_json::json!({"manager": manager, "operation": "Apply"});
        live["metadata"]["managedFields"] = serde_json::json!([entry]);
    }
    if of_spoke {
        let origin = api::wheelhouse::keys::ANNOTATION_ORIGIN;
        live["metadata"]["annotations"] = keys(origin, api::wheelhouse::keys::ORIGIN_SPOKE);
    }
    Arc::new(RawObject::from_value(&live).expect("an object"))
}

#[test]
fn a_child_that_is_an_instance_counts_where_it_was_made() {
    let at_hub = WatchedKind {
        place: Place::Hub,
        ..config_maps()
    };
    // (what, in the spoke, at the hub's path, where it counts)
    for (name, there, here, want) in [
        (
            "made at the hub",
            marked(true, false),
            marked(false, false),
            Place::Hub,
        ),
        (
            "made in the spoke",
            marked(false, false),
            marked(false, true),
            Place::Cluster,
        ),
    ] {
        let cache = cache();
        let end = cache.register(&at_hub, &CancellationToken::new());
        let end = end.expect("another place is another watch");
        take(&cache, &config_maps(), list(vec![there], "9"));
        let concerned = take(&cache, &at_hub, list(vec![here], "1"));
        let is_new = want == Place::Hub;
        assert_eq!(
            concerned.len(),
            usize::from(is_new),
            "{name}: who is concerned"
        );
        let found = cache.of(&instance("a"));
        let places: Vec<Place> = found.iter().map(|(_, child)| child.kind.place).collect();
        assert_eq!(places, [want], "{name}");
        let reference = &found[0].0;
        assert_eq!(cache.place_of(reference, "uid-one"), Some(want), "{name}");
        assert_eq!(
            cache.place_of(reference, "uid-mirror"),
            None,
            "{name}: a copy"
        );
        cache.deregister(&at_hub.gvr.group_resource(), Place::Hub);
        assert!(end.is_cancelled(), "{name}: the watch ends");
        let left = usize::from(want == Place::Cluster);
        assert_eq!(
            cache.of(&instance("a")).len(),
            left,
            "{name}: and what it showed"
        );
        assert!(
            cache.register(&at_hub, &CancellationToken::new()).is_some(),
            "{name}: it may be watched once more"
        );
    }
}

/// The story: a tenant defined a kind and deleted it, again and again. Parents that waited for the hub's watch of the kind were never
/// looked at again, what the ended watch still delivered filled the next one, and each round left something behind.
#[test]
fn a_kind_that_is_deregistered_leaves_nothing_and_drops_no_work() {
    let at_hub = || WatchedKind {
        place: Place::Hub,
        ..config_maps()
    };
    let resource = config_maps().gvr.group_resource();
    let cache = cache();
    for round in 0..3 {
        let before = cache.register(&at_hub(), &CancellationToken::new());
        let before = before.expect("nothing is watched there");
        cache.sync(&at_hub(), &instance("waits"));
        cache.take(
            &at_hub(),
            &before,
            Event::Applied(object("one", "5", "has")),
        );
        let named = cache.deregister(&resource, Place::Hub);
        assert_eq!(
            sorted(named),
            ["has", "waits"].map(instance),
            "round {round}"
        );
        assert_eq!(children(&cache, "has"), [""; 0], "it is forgotten");

        let after = cache.register(&at_hub(), &CancellationToken::new());
        let after = after.expect("it may be watched once more");
        cache.sync(&at_hub(), &instance("waits"));
        for late in [
            Event::Applied(object("two", "6", "has")),
            list(vec![object("one", "7", "has")], "7"),
        ] {
            let named = cache.take(&at_hub(), &before, late);
            assert_eq!(named, [], "the watch has ended");
        }
        assert_eq!(children(&cache, "has"), [""; 0], "nobody watched that");
        let sync = cache.sync(&at_hub(), &instance("waits"));
        assert_eq!(sync, Sync::Waiting(None), "the list was of before");
        let named = cache.take(&at_hub(), &after, list(vec![], "8"));
        assert_eq!(named, [instance("waits")], "this is its own");
        assert_eq!(cache.deregister(&resource, Place::Hub), [], "nobody waits");
    }
    assert_eq!(
        cache.state.lock().kinds.len(),
        1,
        "nothing but what is watched"
    );
}
