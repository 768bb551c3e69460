use std::sync::Arc;

use serde_json::json;
use storage::Store;
use storage::embedded::{self, Engine};

use super::*;
use crate::registry::Registry;

fn scope_of(group: &str, resource: &str) -> Arc<ResourceScope> {
    let directory = tempfile::tempdir().expect("a directory");
    let engine = Engine::open(directory.path(), embedded::Config::default()).expect("a store");
    let store: Arc<dyn Store> = Arc::new(engine);
    let registry = Registry::open(&store).expect("a registry");
    registry
        .lookup(&api::LogicalCluster::root(), group, "v1", resource)
        .expect("a resource of root")
}

fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().expect("a time")
}

#[test]
fn finalizers_follow_the_options_then_the_object() {
    let scope = scope_of("", "configmaps");
    let orphan = DeleteOptions {
        propagation: Some(Propagation::Orphan),
        ..DeleteOptions::default()
    };
    let foreground = DeleteOptions {
        propagation: Some(Propagation::Foreground),
        ..DeleteOptions::default()
    };
    let background = DeleteOptions {
        propagation: Some(Propagation::Background),
        ..DeleteOptions::default()
    };
    for (name, present, options, want) in [
        ("nothing", json!([]), DeleteOptions::default(), None),
        (
            "own",
            json!(["a/b"]),
            DeleteOptions::default(),
            Some(json!(["a/b"])),
        ),
        ("orphan", json!([]), orphan, Some(json!(["orphan"]))),
        (
            "foreground",
            json!(["a/b"]),
            foreground,
            Some(json!(["a/b", "foregroundDeletion"])),
        ),
        (
            "kept",
            json!(["orphan"]),
            DeleteOptions::default(),
            Some(json!(["orphan"])),
        ),
        ("overruled", json!(["orphan"]), background, None),
    ] {
        let live = json!({"metadata": {"name": "a", "generation": 4, "finalizers": present}});
        let planned = match plan(&scope, &live, &options, now()) {
            Plan::Remove => None,
            Plan::Mark(object) => {
                assert_eq!(
                    object["metadata"]["deletionTimestamp"], "2026-01-01T12:00:00Z",
                    "{name}"
                );
                assert_eq!(object["metadata"]["generation"], 5, "{name}");
                Some(object["metadata"]["finalizers"].clone())
            }
            Plan::Keep => panic!("{name} is not on its way"),
        };
        assert_eq!(planned, want, "{name}");
    }
}

#[test]
fn marking_twice_changes_nothing() {
    let scope = scope_of("", "configmaps");
    let live = json!({"metadata": {"name": "a", "finalizers": ["a/b"]}});
    let Plan::Mark(once) = plan(&scope, &live, &DeleteOptions::default(), now()) else {
        panic!("it waits for its finalizer")
    };
    let later = now()
        .checked_add(SignedDuration::from_secs(60))
        .expect("a time");
    let twice = plan(&scope, &once, &DeleteOptions::default(), later);
    assert_eq!(twice, Plan::Mark(once));
}
