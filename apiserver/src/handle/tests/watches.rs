//! Watches through the handlers, over a real store.

use serde_json::json;

use super::bench::{Bench, CRDS, MERGE, WIDGETS, widget};

async fn version_of(bench: &Bench) -> String {
    let list = bench.get(WIDGETS).await.expect(200);
    list["metadata"]["resourceVersion"]
        .as_str()
        .expect("a version")
        .to_owned()
}

#[tokio::test]
async fn a_watch_tells_every_change_after_its_version_once_and_in_order() {
    let bench = Bench::with_widgets().await;
    bench
        .post(WIDGETS, &widget("before", &json!({})))
        .await
        .expect(201);
    let version = version_of(&bench).await;
    let mut events = bench
        .watch(&format!("{WIDGETS}?watch=true&resourceVersion={version}"))
        .await;
    let made = bench
        .post(WIDGETS, &widget("a", &json!({})))
        .await
        .expect(201);
    bench
        .patch(
            &format!("{WIDGETS}/a"),
            MERGE,
            &json!({"spec": {"size": 2}}),
        )
        .await
        .expect(200);
    bench.delete(&format!("{WIDGETS}/a")).await.expect(200);
    let added = events.next().await.expect("an event");
    assert_eq!((&added["type"], &added["object"]), (&json!("ADDED"), &made));
    assert_eq!(events.brief().await, ("MODIFIED".into(), "a".into()));
    let deleted = events.next().await.expect("an event");
    assert_eq!(
        (&deleted["type"], &deleted["object"]["spec"]["size"]),
        (&json!("DELETED"), &json!(2))
    );
    let last = deleted["object"]["metadata"]["resourceVersion"]
        .as_str()
        .expect("a version");
    assert_eq!(
        last,
        bench.store.revision().to_string(),
        "it has the revision of the deletion"
    );
    assert!(events.is_quiet().await);
}

#[tokio::test]
async fn a_watch_without_version_begins_with_what_is_there() {
    let bench = Bench::with_widgets().await;
    for name in ["a", "b"] {
        bench
            .post(WIDGETS, &widget(name, &json!({})))
            .await
            .expect(201);
    }
    let mut plain = bench.watch(&format!("{WIDGETS}?watch=true")).await;
    assert_eq!(plain.brief().await, ("ADDED".into(), "a".into()));
    assert_eq!(plain.brief().await, ("ADDED".into(), "b".into()));
    assert!(plain.is_quiet().await, "no bookmark that nobody asked for");
    let query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut listed = bench.watch(&format!("{WIDGETS}?{query}")).await;
    assert_eq!(listed.brief().await.1, "a");
    assert_eq!(listed.brief().await.1, "b");
    let end = listed.next().await.expect("a bookmark");
    assert_eq!(
        (&end["type"], &end["object"]["kind"]),
        (&json!("BOOKMARK"), &json!("Widget"))
    );
    assert_eq!(
        end["object"]["metadata"]["annotations"],
        json!({"k8s.io/initial-events-end": "true"})
    );
    bench
        .post(WIDGETS, &widget("c", &json!({})))
        .await
        .expect(201);
    assert_eq!(listed.brief().await, ("ADDED".into(), "c".into()));
    let bad = bench
        .get(&format!("{WIDGETS}?watch=true&sendInitialEvents=true"))
        .await;
    assert_eq!(bad.code, 422, "{}", bad.message());
}

#[tokio::test]
async fn an_object_comes_and_goes_with_its_labels() {
    let bench = Bench::with_widgets().await;
    let version = version_of(&bench).await;
    let query = format!("watch=true&resourceVersion={version}&labelSelector=on%3Dyes");
    let mut events = bench.watch(&format!("{WIDGETS}?{query}")).await;
    bench
        .post(WIDGETS, &widget("a", &json!({"size": 1})))
        .await
        .expect(201);
    let label = |value: serde_json::Value, size: u32| json!({"metadata": {"labels": {"on": value}}, "spec": {"size": size}});
    let path = format!("{WIDGETS}/a");
    bench
        .patch(&path, MERGE, &label(json!("yes"), 2))
        .await
        .expect(200);
    assert_eq!(events.brief().await, ("ADDED".into(), "a".into()));
    bench
        .patch(&path, MERGE, &label(json!("yes"), 3))
        .await
        .expect(200);
    assert_eq!(events.brief().await, ("MODIFIED".into(), "a".into()));
    let left = bench
        .patch(&path, MERGE, &label(json!("no"), 4))
        .await
        .expect(200);
    let gone = events.next().await.expect("an event");
    assert_eq!(gone["type"], "DELETED");
    assert_eq!(
        gone["object"]["spec"]["size"], 3,
        "the last state that was selected"
    );
    assert_eq!(
        gone["object"]["metadata"]["resourceVersion"],
        left["metadata"]["resourceVersion"]
    );
    bench.delete(&path).await.expect(200);
    assert!(events.is_quiet().await, "it was gone already");
}

#[tokio::test]
async fn versions_that_cannot_be_watched_from_are_told_in_the_stream() {
    let bench = Bench::with_widgets().await;
    for (name, version) in [
        ("a spoke's", "12345"),
        (
            "one that this hub has not given yet, as another history of it had",
            "1000000000900000",
        ),
        ("one of a later epoch", "1020000000000007"),
    ] {
        let mut events = bench
            .watch(&format!("{WIDGETS}?watch=true&resourceVersion={version}"))
            .await;
        let error = events.next().await.expect(name);
        assert_eq!(
            (&error["type"], &error["object"]["code"]),
            (&json!("ERROR"), &json!(410)),
            "{name}"
        );
        assert_eq!(error["object"]["reason"], "Expired", "{name}");
        assert_eq!(events.next().await, None, "{name}: the watch ends");
    }
    let bad = bench
        .get(&format!("{WIDGETS}?watch=true&resourceVersion=x"))
        .await;
    assert_eq!(bad.code, 422);
}

#[tokio::test]
async fn tables_have_their_columns_once() {
    let bench = Bench::with_widgets().await;
    for name in ["a", "b"] {
        bench
            .post(WIDGETS, &widget(name, &json!({})))
            .await
            .expect(201);
    }
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let mut events = bench
        .watch_accepting(&format!("{WIDGETS}?watch=true"), table)
        .await;
    let first = events.next().await.expect("an event");
    assert_eq!(first["object"]["kind"], "Table");
    assert_eq!(
        first["object"]["columnDefinitions"]
            .as_array()
            .map(Vec::len),
        Some(2)
    );
    let second = events.next().await.expect("an event");
    assert_eq!(second["object"]["columnDefinitions"], json!(null));
    assert_eq!(second["object"]["rows"][0]["cells"], json!(["b", 1]));
}

#[tokio::test]
async fn a_watch_of_one_object_sees_no_other() {
    let bench = Bench::with_widgets().await;
    bench
        .post(WIDGETS, &widget("a", &json!({})))
        .await
        .expect(201);
    let mut events = bench
        .watch(&format!(
            "{WIDGETS}?watch=true&fieldSelector=metadata.name%3Da"
        ))
        .await;
    assert_eq!(events.brief().await, ("ADDED".into(), "a".into()));
    bench
        .post(WIDGETS, &widget("b", &json!({})))
        .await
        .expect(201);
    bench.delete(&format!("{WIDGETS}/a")).await.expect(200);
    assert_eq!(events.brief().await, ("DELETED".into(), "a".into()));
}

#[tokio::test]
async fn a_watch_over_all_clusters_says_where() {
    let bench = Bench::new().await;
    let mut events = bench
        .watch("/clusters/*/api/v1/configmaps?watch=true&resourceVersion=0")
        .await;
    let path = "/clusters/east/api/v1/namespaces/default/configmaps";
    bench
        .post(path, &json!({"metadata": {"name": "a"}}))
        .await
        .expect(201);
    let event = events.next().await.expect("an event");
    assert_eq!(
        event["object"]["metadata"]["annotations"],
        json!({"kcp.io/cluster": "east"})
    );
}

#[tokio::test]
async fn a_watch_ends_when_its_kind_changes() {
    let bench = Bench::with_widgets().await;
    bench
        .post(WIDGETS, &widget("a", &json!({})))
        .await
        .expect(201);
    let mut events = bench.watch(&format!("{WIDGETS}?watch=true")).await;
    assert_eq!(events.brief().await, ("ADDED".into(), "a".into()));
    let mut definition = bench
        .get(&format!("{CRDS}/widgets.example.com"))
        .await
        .expect(200);
    // Of both versions: their selectable fields are the same, and so must their schemas be.
    for version in 0..2 {
        let spec = format!("/spec/versions/{version}/schema/openAPIV3Schema/properties/spec");
        let spec = definition.pointer_mut(&spec).expect("a schema");
        spec["properties"]["fresh"] = json!({"type": "string", "default": "new"});
    }
    bench
        .put(&format!("{CRDS}/widgets.example.com"), &definition)
        .await
        .expect(200);
    let error = events.next().await.expect("an event");
    assert_eq!(
        (&error["type"], &error["object"]["code"]),
        (&json!("ERROR"), &json!(410))
    );
    assert_eq!(events.next().await, None);
    let read = bench.get(&format!("{WIDGETS}/a")).await.expect(200);
    assert_eq!(
        read["spec"]["fresh"], "new",
        "old objects show new defaults"
    );
    let mut events = bench.watch(&format!("{WIDGETS}?watch=true")).await;
    let added = events.next().await.expect("an event");
    assert_eq!(added["object"], read, "in a watch too");
}

#[tokio::test]
async fn a_watch_tells_what_goes_with_its_definition_and_ends() {
    let bench = Bench::with_widgets().await;
    let definition = format!("{CRDS}/widgets.example.com");
    bench
        .until(&definition, |answer| {
            let conditions = answer.body["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            conditions.any(|it| it["type"] == "Established" && it["status"] == "True")
        })
        .await;
    // More than a watcher's mailbox holds: the last of them are read from history.
    for number in 0..300 {
        let name = format!("w{number:03}");
        bench
            .post(WIDGETS, &widget(&name, &json!({})))
            .await
            .expect(201);
    }
    let mut held = widget("x", &json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    bench.post(WIDGETS, &held).await.expect(201);
    let version = version_of(&bench).await;
    let path = format!("{WIDGETS}?watch=true&resourceVersion={version}");
    let (mut quick, mut slow) = (bench.watch(&path).await, bench.watch(&path).await);
    bench.delete(&definition).await.expect(200);
    for number in 0..300 {
        let name = format!("w{number:03}");
        assert_eq!(quick.brief().await, ("DELETED".into(), name));
    }
    let marked = quick.next().await.expect("an event");
    assert_eq!(marked["type"], "MODIFIED");
    assert!(marked["object"]["metadata"]["deletionTimestamp"].is_string());
    let mut late = bench.watch(&format!("{WIDGETS}?watch=true")).await;
    assert_eq!(late.brief().await, ("ADDED".into(), "x".into()));
    let release = json!({"metadata": {"finalizers": null}});
    bench
        .patch(&format!("{WIDGETS}/x"), MERGE, &release)
        .await
        .expect(200);
    bench
        .until(WIDGETS, |answer| answer.body == json!("404 page not found"))
        .await;
    for events in [&mut quick, &mut late] {
        assert_eq!(events.brief().await, ("DELETED".into(), "x".into()));
        assert_eq!(events.next().await, None, "no error");
    }
    let mut told = Vec::new();
    while let Some(event) = slow.next().await {
        told.push(event["type"].clone());
    }
    let deleted = told.iter().filter(|it| **it == "DELETED");
    assert_eq!((deleted.count(), told.len()), (301, 302));
}
