//! The client against a real API server: what its own tests play, kube-apiserver does.

use std::collections::BTreeSet;
use std::time::Duration;

use api::{GroupVersionKind, GroupVersionResource, crd::CustomResourceDefinition, meta};
use client::reflector::{self, Event, Tasks};
use client::transport::ResponseBody;
use client::{
    Answer, Connection, DeleteRequest, Deleted, Dynamic, Endpoint, Force, Identity, ListRequest,
    Options, Patch,
};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;
use wheelhouse_tests::spoke::{Options as SpokeOptions, Spoke};
use wheelhouse_tests::{eventually, wait::PATIENCE};

async fn start(name: &str) -> (Spoke, Connection, Dynamic) {
    let options = SpokeOptions {
        without_controllers: true,
        ..SpokeOptions::default()
    };
    let spoke = Spoke::start_with(name, options).await;
    let kubeconfig = std::fs::read_to_string(spoke.kubeconfig()).expect("the file was written");
    let connection = client::connect(&kubeconfig, None, &Options::default())
        .await
        .expect("the kubeconfig carries its credential");
    let dynamic = Dynamic::new(connection.client()).with_manager("test");
    (spoke, connection, dynamic)
}

fn endpoint(group: &str, version: &str, resource: &str, namespace: Option<&str>) -> Endpoint {
    Endpoint {
        scope: None,
        gvr: GroupVersionResource::new(group, version, resource),
        namespace: namespace.map(str::to_owned),
    }
}

fn config_maps() -> Endpoint {
    endpoint("", "v1", "configmaps", Some("default"))
}

fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"follow": "me"}},
        "data": {"key": value}})
}

async fn next(events: &mut mpsc::Receiver<Event>) -> String {
    match timeout(PATIENCE, events.recv())
        .await
        .expect("an event comes")
        .expect("it follows on")
    {
        Event::Restarted { objects, .. } => {
            let names: Vec<&str> = objects.iter().map(|it| it.name.as_str()).collect();
            format!("restarted {}", names.join(","))
        }
        Event::Applied(object) => {
            let value = object.value().expect("an object");
            format!(
                "applied {} {}",
                object.name,
                value["data"]["key"].as_str().unwrap_or_default()
            )
        }
        Event::Deleted(object) => format!("deleted {}", object.name),
        Event::Interrupted(_) => "interrupted".to_owned(),
        Event::Resumed => "resumed".to_owned(),
    }
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a story is told in one piece")]
async fn objects_are_made_changed_and_deleted() {
    let (_spoke, _connection, dynamic) = start("client-objects").await;
    let at = config_maps();
    let made = dynamic
        .create(&at, &config_map("a", "1"))
        .await
        .expect("it is made");
    assert!(
        dynamic
            .create(&at, &config_map("a", "1"))
            .await
            .unwrap_err()
            .is_already_exists()
    );
    let merged = dynamic
        .patch(&at, "a", None, Patch::Merge(&json!({"data": {"key": "2"}})))
        .await;
    assert_eq!(merged.expect("it is patched")["data"]["key"], "2");
    // The version that was read first is old now.
    assert!(
        dynamic
            .update(&at, "a", None, &made)
            .await
            .unwrap_err()
            .is_conflict()
    );

    let wanted = config_map("a", "3");
    let apply = |force, answer| Patch::Apply {
        manager: "other",
        force,
        object: &wanted,
        answer,
    };
    let refused = dynamic
        .patch(&at, "a", None, apply(Force::No, Answer::Object))
        .await;
    let refused = refused.unwrap_err();
    assert!(refused.is_conflict(), "{refused}");
    assert!(
        refused
            .status()
            .expect("a Status")
            .has_cause("FieldManagerConflict")
    );
    let applied = dynamic
        .patch(&at, "a", None, apply(Force::Yes, Answer::Metadata))
        .await;
    let applied = applied.expect("it is applied");
    assert_eq!(
        (meta::kind(&applied), applied.get("data")),
        ("PartialObjectMetadata", None)
    );
    let managers: BTreeSet<&str> = applied["metadata"]["managedFields"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|entry| entry["manager"].as_str())
        .collect();
    assert_eq!(managers, BTreeSet::from(["other", "test"]));

    let selected = ListRequest {
        label_selector: Some("follow in (me)".parse().expect("a selector")),
        ..ListRequest::default()
    };
    let list = dynamic.list(&at, &selected).await.expect("it is listed");
    let kinds: Vec<(&str, &str)> = list
        .items
        .iter()
        .map(|it| (meta::kind(it), meta::name(it)))
        .collect();
    assert_eq!(kinds, [("ConfigMap", "a")]);

    let wrong = DeleteRequest::of("another");
    assert!(
        dynamic
            .delete(&at, "a", &wrong)
            .await
            .unwrap_err()
            .is_conflict()
    );
    let right = DeleteRequest::of(meta::uid(&made));
    assert_eq!(
        dynamic
            .delete(&at, "a", &right)
            .await
            .expect("it is deleted"),
        Deleted::Gone
    );
    assert!(dynamic.get(&at, "a").await.unwrap_err().is_not_found());
    assert!(
        dynamic
            .delete(&at, "a", &right)
            .await
            .unwrap_err()
            .is_not_found()
    );
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a story is told in one piece")]
async fn the_definitions_of_our_kinds_are_established_and_their_rules_hold() {
    let (_spoke, _connection, dynamic) = start("client-definitions").await;
    let crds = endpoint(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        None,
    );
    let definitions = [api::kro::definitions(), api::wheelhouse::definitions()].concat();
    let mut wanted = BTreeSet::new();
    for definition in &definitions {
        dynamic
            .create(&crds, definition)
            .await
            .expect("kube-apiserver accepts it");
        let definition = CustomResourceDefinition::from_value(definition).expect("a definition");
        wanted.insert(definition.spec.gvk(api::kro::VERSION));
        eventually("the kind is established", || async {
            let live = dynamic.get(&crds, &definition.metadata.name).await;
            let live = live.map_err(|error| error.chain())?;
            let live = CustomResourceDefinition::from_value(&live).map_err(|it| it.message)?;
            if live.is_established() {
                Ok(())
            } else {
                Err(format!("{:?}", live.status))
            }
        })
        .await;
        let live = dynamic
            .get(&crds, &definition.metadata.name)
            .await
            .expect("it is there");
        // What the server kept is what was sent: nothing was pruned, and only defaults were added.
        let kept = CustomResourceDefinition::from_value(&live)
            .expect("a definition")
            .spec;
        let sent = definition.spec;
        assert_eq!(kept.versions[0].schema, sent.versions[0].schema);
        assert_eq!(kept.names.short_names, sent.names.short_names);
        assert_eq!(
            kept.versions[0].selectable_fields,
            sent.versions[0].selectable_fields
        );
    }
    eventually("discovery names all of them", || async {
        let kinds = client::discovery::fetch(&dynamic, None)
            .await
            .map_err(|it| it.chain())?;
        let missing: Vec<&GroupVersionKind> = wanted
            .iter()
            .filter(|gvk| kinds.kind(gvk).is_none())
            .collect();
        if missing.is_empty() {
            Ok(())
        } else {
            Err(format!("{missing:?}"))
        }
    })
    .await;

    let rgds = endpoint("kro.run", "v1alpha1", "resourcegraphdefinitions", None);
    let rgd = |kind: &str, resource: Value| {
        json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": {"name": "app"},
            "spec": {"schema": {"apiVersion": "v1", "kind": kind}, "resources": [resource]}})
    };
    let template = json!({"id": "a", "template": {"kind": "ConfigMap"}});
    let made = dynamic
        .create(&rgds, &rgd("App", template.clone()))
        .await
        .expect("it is made");
    assert_eq!(made["spec"]["schema"]["group"], "kro.run");
    assert_eq!(made["spec"]["schema"]["scope"], "Namespaced");
    let change = json!({"spec": {"schema": {"kind": "Other"}}});
    let refused = dynamic
        .patch(&rgds, "app", None, Patch::Merge(&change))
        .await
        .unwrap_err();
    assert!(
        refused.to_string().contains("kind is immutable"),
        "{refused}"
    );
    let neither = rgd("App", json!({"id": "a"}));
    let refused = dynamic.create(&rgds, &neither).await.unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("exactly one of template or externalRef must be provided"),
        "{refused}"
    );

    let spokes = endpoint("wheelhouse.dev", "v1alpha1", "spokes", None);
    let spoke = |name: &str, spec: Value| json!({"apiVersion": "wheelhouse.dev/v1alpha1", "kind": "Spoke", "metadata": {"name": name}, "spec": spec});
    let embedded = json!({"provider": "Embedded"});
    for (name, spec, want) in [
        ("east", embedded.clone(), None),
        (
            "west",
            json!({"connection": {"secretRef": {"namespace": "n", "name": "s"}}}),
            None,
        ),
        (
            "root",
            embedded.clone(),
            Some("root is the hub's own logical cluster"),
        ),
        ("a.b", embedded, Some("the name must be a DNS label")),
        (
            "north",
            json!({}),
            Some("connection is required where the provider is Kubeconfig"),
        ),
    ] {
        let answer = dynamic.create(&spokes, &spoke(name, spec.clone())).await;
        match (answer, want) {
            (Ok(made), None) => {
                let provider = spec["provider"].as_str().unwrap_or("Kubeconfig");
                assert_eq!(made["spec"]["provider"], provider, "{name}");
            }
            (Err(refused), Some(want)) => assert!(refused.to_string().contains(want), "{refused}"),
            (answer, want) => panic!("{name}: {answer:?}, wanted {want:?}"),
        }
    }
}

#[tokio::test]
async fn a_reflector_outlives_a_server_that_hangs_and_one_that_restarts() {
    let (mut spoke, _connection, dynamic) = start("client-reflector").await;
    let at = config_maps();
    dynamic
        .create(&at, &config_map("a", "1"))
        .await
        .expect("it is made");
    let tasks = Tasks::new();
    let config = reflector::Config {
        client: dynamic.client().clone(),
        endpoint: Endpoint {
            namespace: None,
            ..config_maps()
        },
        label_selector: Some("follow=me".parse().expect("a selector")),
        field_selector: None,
        name: "test".to_owned(),
    };
    let mut events = reflector::start(config, &tasks, tasks.child_token());
    // The first list is of any version: a server's cache may not have seen the object yet.
    match next(&mut events).await.as_str() {
        "restarted a" => {}
        "restarted " => assert_eq!(next(&mut events).await, "applied a 1"),
        other => panic!("{other}"),
    }
    dynamic
        .create(&at, &config_map("b", "1"))
        .await
        .expect("it is made");
    assert_eq!(next(&mut events).await, "applied b 1");

    // Stopped, it keeps its connections open and says nothing.
    spoke.api().signal("STOP");
    assert_eq!(next(&mut events).await, "interrupted");
    spoke.api().signal("CONT");
    let change = json!({"data": {"key": "2"}});
    eventually("the server answers again", || async {
        let answer = dynamic.patch(&at, "a", None, Patch::Merge(&change)).await;
        answer.map(|_| ()).map_err(|error| error.chain())
    })
    .await;
    assert_eq!(next(&mut events).await, "resumed");
    assert_eq!(next(&mut events).await, "applied a 2");

    // Gone and back with a cold cache, which no version is kept in.
    spoke.stop_api();
    assert_eq!(next(&mut events).await, "interrupted");
    spoke.start_api().await;
    dynamic
        .delete(&at, "a", &DeleteRequest::default())
        .await
        .expect("it is deleted");
    loop {
        let event = next(&mut events).await;
        if event == "deleted a" || event == "restarted b" {
            break;
        }
        assert!(
            ["resumed", "interrupted", "restarted a,b"].contains(&event.as_str()),
            "{event}"
        );
    }
}

/// Watches ConfigMaps from any version on, and leaves the events to whoever asks for them.
async fn watch(connection: &Connection, query: &str) -> ResponseBody {
    let path = format!("/api/v1/configmaps?watch=true&resourceVersion=0{query}");
    let request = http::Request::get(path)
        .body(http_body_util::Empty::<bytes::Bytes>::new())
        .expect("a request");
    let opening = connection.send(request, Identity::Kubeconfig);
    let response = timeout(PATIENCE, opening).await.expect("the watch begins");
    let response = response.expect("its connection lives");
    assert!(response.status().is_success(), "{}", response.status());
    response.into_body()
}

#[tokio::test]
async fn watches_beyond_what_one_connection_carries_leave_room_for_calls() {
    let (_spoke, connection, dynamic) = start("client-lanes").await;
    let mut watches = Vec::new();
    // kube-apiserver allows 250 streams on a connection; the 251st would wait for one of them to end.
    for _ in 0..300 {
        watches.push(watch(&connection, "").await);
    }
    let call = dynamic.with_deadline(Duration::from_secs(10));
    call.get(&endpoint("", "v1", "namespaces", None), "default")
        .await
        .expect("a call comes through");
}

#[tokio::test(flavor = "multi_thread")]
async fn busy_watches_that_are_left_do_no_harm_to_others_on_their_connection() {
    let (_spoke, connection, dynamic) = start("client-strays").await;
    let at = config_maps();
    for n in 0..300 {
        let object = config_map(&format!("a{n}"), "1");
        dynamic.create(&at, &object).await.expect("it is made");
    }
    let mut quiet = watch(&connection, "&fieldSelector=metadata.name%3Dlast").await;
    for _ in 0..30 {
        let mut busy = futures::future::join_all((0..80).map(|_| watch(&connection, ""))).await;
        for body in &mut busy {
            let frame = timeout(PATIENCE, body.frame()).await.expect("an event");
            frame.expect("it goes on").expect("its connection lives");
        }
        // What they are sent until the server hears of it comes to nobody.
        drop(busy);
    }
    dynamic
        .create(&at, &config_map("last", "1"))
        .await
        .expect("it is made");
    let frame = timeout(PATIENCE, quiet.frame()).await.expect("an event");
    let frame = frame.expect("it goes on").expect("its connection lives");
    let event = frame.into_data().expect("data");
    assert!(event.starts_with(b"{\"type\":\"ADDED\""), "{event:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_that_nobody_reads_do_not_hold_up_others_on_their_connection() {
    let (_spoke, connection, dynamic) = start("client-windows").await;
    let at = config_maps();
    for n in 0..20 {
        let object = config_map(&format!("large{n}"), &"x".repeat(200_000));
        dynamic.create(&at, &object).await.expect("it is made");
    }
    // Four megabytes are meant for each of them, and stay where they are.
    let mut unread = Vec::new();
    for _ in 0..20 {
        let mut body = watch(&connection, "").await;
        let first = timeout(PATIENCE, body.frame()).await.expect("an event");
        first.expect("it goes on").expect("its connection lives");
        unread.push(body);
    }
    let call = dynamic.with_deadline(Duration::from_secs(10));
    for n in 0..20 {
        let answer = call.get(&at, &format!("large{n}")).await;
        answer.expect("a call comes through");
    }
}
