//! Which revision a definition goes on with, and which it issues.

use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    state::target::{Target, TargetSort},
    testing::{World, raw},
};

/// What a definition says.
#[derive(Clone, Copy, Debug)]
enum Text {
    /// What it says now.
    Now,
    /// The same, in another order.
    Reordered,
    /// Something else.
    Other,
}

/// The spec of a definition that says so.
fn spec(text: Text) -> Value {
    let map = |id: &str| {
        let name = format!("${{schema.metadata.name}}-{id}");
        json!({"id": id, "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}})
    };
    let resources = match text {
        Text::Now => json!([map("one"), map("two")]),
        Text::Reordered => json!([map("two"), map("one")]),
        Text::Other => json!([map("three")]),
    };
    json!({"schema": {"apiVersion": "v1alpha1", "kind": "App", "spec": {"a": "string"}}, "resources": resources})
}

/// A definition of root, with revisions of these numbers, and what it said then; those that are going are marked.
fn world(revisions: &[(i64, Text, bool)]) -> (World, DefinitionKey) {
    let world = World::new();
    let (engine, root) = (&world.engine, api::LogicalCluster::root());
    let token = CancellationToken::new();
    let target = Target::new(
        root.clone(),
        TargetSort::Root,
        engine.hub.clone(),
        &engine.tasks,
        token,
    );
    engine.fleet.connect(Arc::new(target));
    let issued = revisions.iter().map(|(number, ..)| *number).max();
    let definition = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "app", "uid": "u", "resourceVersion": "1", "generation": 3,
            "creationTimestamp": "2026-01-01T00:00:00Z", "finalizers": [api::kro::keys::FINALIZER]},
        "spec": spec(Text::Now), "status": {"lastIssuedRevision": issued}});
    let key = DefinitionKey {
        cluster: root,
        name: "app".to_owned(),
    };
    engine.definitions.note(key.clone(), raw(&definition));
    world.hub.put(
        &path("kro.run", "resourcegraphdefinitions", "app"),
        definition,
    );
    for (number, text, is_going) in revisions {
        let name = graph::revision_name("app", *number);
        let path = path(api::kro::INTERNAL_GROUP, "graphrevisions", &name);
        let mut metadata =
            json!({"name": name, "uid": format!("u{number}"), "resourceVersion": "1"});
        if *is_going {
            metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        world.hub.put(
            &path,
            json!({"apiVersion": "internal.kro.run/v1alpha1", "kind": "GraphRevision",
            "metadata": metadata,
            "spec": {"revision": number, "snapshot": {"name": "app", "spec": spec(*text)}}}),
        );
    }
    (world, key)
}

fn path(group: &str, resource: &str, name: &str) -> String {
    format!("/clusters/root/apis/{group}/v1alpha1/{resource}/{name}")
}

/// The story: a revision that somebody had deleted, and that a finalizer held, was told to be what the definition goes on with, and
/// then it was gone.
#[tokio::test]
async fn a_revision_that_is_going_is_no_revision() {
    use Text::{Now, Other, Reordered};
    // (what, the revisions, the one that it goes on with, the last one issued, its order)
    for (name, revisions, want, issued, order) in [
        ("the same", &[(1, Now, false)][..], 1, 1, ["one", "two"]),
        (
            "as recorded",
            &[(1, Reordered, false)],
            1,
            1,
            ["two", "one"],
        ),
        (
            "recorded, and going",
            &[(1, Reordered, true)],
            2,
            2,
            ["one", "two"],
        ),
        (
            "the latest is going",
            &[(1, Other, false), (2, Now, true)],
            3,
            3,
            ["one", "two"],
        ),
        (
            "a later one is going",
            &[(1, Now, false), (2, Other, true)],
            1,
            2,
            ["one", "two"],
        ),
    ] {
        let (world, key) = world(revisions);
        step(&world.engine, &key).await.expect("the hub answers");
        let definition = world
            .hub
            .at(&path("kro.run", "resourcegraphdefinitions", "app"));
        let status = definition.expect("it is there")["status"].clone();
        let told = status["conditions"].to_string();
        let resolved = format!("revision {want} compiled and active");
        assert!(told.contains(&resolved), "{name}: {told}");
        assert_eq!(status["lastIssuedRevision"], issued, "{name}");
        assert_eq!(status["topologicalOrder"], json!(order), "{name}");
        let revision = path(
            api::kro::INTERNAL_GROUP,
            "graphrevisions",
            &graph::revision_name("app", want),
        );
        let revision = world.hub.at(&revision).expect("it is recorded");
        assert!(!api::meta::is_terminating(&revision), "{name}");
    }
}

/// As kro counts them: those that are going are no part of those that stay.
#[tokio::test]
async fn revisions_beyond_the_limit_are_counted_without_those_that_are_going() {
    let count = 5; // the default
    let mut revisions: Vec<_> = (1..=count + 1)
        .map(|number| (number, Text::Now, number == 3))
        .collect();
    for (surplus, gone) in [(0, vec![]), (2, vec![1, 2])] {
        let (world, key) = world(&revisions);
        let listed = revisions::list(&world.engine, &key)
            .await
            .expect("the hub answers");
        let collected = revisions::collect(&world.engine, &key, &listed, Keep::Newest).await;
        collected.expect("the hub answers");
        let left = revisions::list(&world.engine, &key)
            .await
            .expect("the hub answers");
        let left: Vec<i64> = left.iter().map(|revision| revision.number).collect();
        let want = revisions.iter().map(|(number, ..)| *number);
        let want: Vec<i64> = want.filter(|number| !gone.contains(number)).collect();
        assert_eq!(left, want, "{surplus} too many");
        revisions.extend([(count + 2, Text::Now, false), (count + 3, Text::Now, false)]);
    }
}

/// As kro adopts them: a definition that comes again under its name owns what was recorded under it.
#[tokio::test]
async fn revisions_without_an_owner_become_those_of_their_definition() {
    let (world, key) = world(&[(4, Text::Now, false)]);
    step(&world.engine, &key).await.expect("the hub answers");
    let name = graph::revision_name("app", 4);
    let revision = path(api::kro::INTERNAL_GROUP, "graphrevisions", &name);
    let revision = world.hub.at(&revision).expect("it stays");
    let definition = path("kro.run", "resourcegraphdefinitions", "app");
    let definition = world.hub.at(&definition).expect("it is there");
    let owners = revision["metadata"]["ownerReferences"].as_array();
    let owners = owners.expect("it has an owner");
    assert_eq!(owners.len(), 1, "{revision}");
    assert_eq!(owners[0]["uid"], definition["metadata"]["uid"]);
    assert!(owners[0]["uid"].is_string(), "{revision}");
    let told = revision["status"]["conditions"].to_string();
    assert!(told.contains("GraphVerified"), "{told}");
}

#[tokio::test]
async fn a_definition_is_compiled_once_from_the_same() {
    let (world, key) = world(&[]);
    let engine = &world.engine;
    let compiled = |text: Text| {
        let object = json!({"metadata": {"name": "app"}, "spec": spec(text)});
        let definition = revisions::typed(&object).expect("a definition");
        let fetched = resolving::Fetched::default();
        let compiled = compile(engine, (&object, &definition), &key, &fetched);
        let Compiled::Graph(graph) = compiled else {
            panic!("it compiles");
        };
        graph
    };
    let first = compiled(Text::Now);
    assert!(Arc::ptr_eq(&first, &compiled(Text::Now)), "the same text");
    let other = compiled(Text::Other);
    assert!(!Arc::ptr_eq(&first, &other), "another text");
    assert!(Arc::ptr_eq(&other, &compiled(Text::Other)), "the last one");
    engine.definitions.forget(&key);
    assert!(
        !Arc::ptr_eq(&other, &compiled(Text::Other)),
        "it was forgotten"
    );
}
