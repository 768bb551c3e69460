//! What one request, one object, one definition and one user may take of the hub (S19 to S23, S26): whatever a tenant sends,
//! it is answered, the hub stays within its memory, and another tenant's requests are answered as ever.

use futures::future::join_all;
use serde_json::{Value, json};
use wheelhouse_tests::hub::Settings;

use super::support::{Answer, CRDS, Fixture, JSON, JSON_PATCH, RGDS, User, Watch};

const MAPS: &str = "api/v1/namespaces/default/configmaps";
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
/// Memory that the hub may take in these trials, in bytes.
const RESIDENT_MAX: u64 = 600 << 20;
/// How long a refusal may be, whatever was refused, in bytes.
const TOLD_MAX: usize = 8 << 20;
/// Instances of which each takes all the steps that it may: some seconds, without optimization.
const HEAVY_COUNT: usize = 3;

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}})
}

/// The memory that the hub has, in bytes.
fn resident(fixture: &Fixture) -> u64 {
    let path = format!("/proc/{}/status", fixture.hub.process().pid());
    let status = std::fs::read_to_string(path).expect("the hub runs");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    kib.and_then(|kib| kib.parse::<u64>().ok())
        .expect("a number")
        * 1024
}

/// Two tenants with a cluster each.
async fn tenants(settings: Settings) -> (Fixture, User, User) {
    let fixture = Fixture::start_with(&["alice", "bob"], settings).await;
    fixture.embed("a").await;
    fixture.embed("b").await;
    let alice = fixture.tenant("alice", "a").await;
    let bob = fixture.tenant("bob", "b").await;
    (fixture, alice, bob)
}

#[tokio::test(flavor = "multi_thread")]
async fn s21_a_request_of_a_few_kilobytes_grows_no_further_than_an_object_may() {
    let (fixture, alice, bob) = tenants(Settings::default()).await;
    let path = format!("/clusters/a/{MAPS}");
    let one = format!("{path}/one");
    alice.post(&path, &map("one")).await.must(201);

    // 2 KB that once were 1.5 GB, and a little more that were 22.9 GB.
    for count in [18, 24, 40] {
        let mut operations = vec![json!({"op": "add", "path": "/l", "value": ["x".repeat(100)]})];
        let copy = json!({"op": "copy", "from": "/l", "path": "/l/-"});
        operations.extend(std::iter::repeat_n(copy, count));
        let refused = alice.patch(&one, JSON_PATCH, &json!(operations)).await;
        assert_eq!(refused.status, 422, "{count}: {}", refused.body);
        let cause = refused.body["details"]["causes"][0]["message"].to_string();
        assert!(
            cause.contains("accumulated size increase of copy"),
            "{count}: {cause}"
        );
    }
    let test = json!({"op": "test", "path": "/data/a", "value": "b"});
    let many = json!(vec![test; 10_001]);
    alice.patch(&one, JSON_PATCH, &many).await.must(413);
    let deep = (0..100).fold(json!({}), |inner, _| json!({"a": inner}));
    let deeper = json!([
        {"op": "add", "path": "/x", "value": deep.clone()},
        {"op": "add", "path": format!("/x{}/b", "/a".repeat(100)), "value": deep},
    ]);
    alice.patch(&one, JSON_PATCH, &deeper).await.must(422);
    let inserts: Vec<Value> =
        std::iter::once(json!({"op": "add", "path": "/l", "value": vec![0; 200_000]}))
            .chain((0..5_000).map(|_| json!({"op": "add", "path": "/l/0", "value": 0})))
            .collect();
    alice
        .patch(&one, JSON_PATCH, &json!(inserts))
        .await
        .must(422);

    // Lists that are merged item by item.
    let finalizers = |from: usize| {
        let names: Vec<String> = (from..from + 10_000)
            .map(|index| format!("a.b/{index}"))
            .collect();
        json!({"metadata": {"finalizers": names}})
    };
    let merge = "application/merge-patch+json";
    alice.patch(&one, merge, &finalizers(0)).await.must(200);
    alice
        .patch(&one, STRATEGIC_PATCH, &finalizers(10_000))
        .await
        .must(413);

    // 3 MiB that would be 270 MB as a tree, and a text of braces that is what it is.
    let small: Vec<Value> = vec![json!({"a": 0}); 300_000];
    let bomb = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bomb"}, "data": small});
    alice.post(&path, &bomb).await.must(413);
    let mut braces = map("braces");
    braces["data"]["text"] = json!("{\"a\":0},".repeat(100_000));
    alice.post(&path, &braces).await.must(201);

    defaults_are_bounded(&alice).await;
    selectors_are_bounded(&alice).await;
    faults_are_told_up_to_a_bound(&alice).await;

    bob.post(&format!("/clusters/b/{MAPS}"), &map("mine"))
        .await
        .must(201);
    let resident = resident(&fixture);
    assert!(resident < RESIDENT_MAX, "the hub has {resident} bytes");
}

/// Objects in which everything is wrong. Each fault is told in some hundred bytes, and some of them show the object around them.
async fn faults_are_told_up_to_a_bound(alice: &User) {
    let wrong = |count: usize| -> Value {
        let pairs = (0..count).map(|index| (format!("!{index}"), json!("")));
        Value::Object(pairs.collect())
    };
    let mut labelled = map("labelled");
    labelled["metadata"]["labels"] = wrong(150_000);
    let mut keyed = map("keyed");
    keyed["data"] = wrong(150_000);
    let owners = (0..5_000).map(|index| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": index.to_string(), "controller": true})
    });
    let mut owned = map("owned");
    owned["metadata"]["ownerReferences"] = owners.collect();
    let pod = |spec: Value| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": spec});
    let container = json!({"name": "a", "image": "a"});
    // The same path again and again, and a name that each of its faults would show.
    let items = vec![json!({"key": "a", "path": "a"}); 15_000];
    let volume = json!({"name": "all", "projected": {"sources": [{"secret": {"name": "x".repeat(1_000_000), "items": items}}]}});
    let ports: Vec<Value> = (0..20_000)
        .map(|index| json!({"name": format!("p{index}"), "containerPort": 0}))
        .collect();
    let mounts: Vec<Value> = (0..15_000)
        .map(|index| json!({"name": format!("m{index}"), "mountPath": format!("/{index}")}))
        .collect();
    let aliases = json!([{"ip": "10.0.0.1", "hostnames": vec![""; 200_000]}]);
    let pods = "api/v1/namespaces/default/pods";
    for (name, path, object) in [
        ("labels", MAPS, labelled),
        ("keys", MAPS, keyed),
        ("owners", MAPS, owned),
        (
            "aliases",
            pods,
            pod(json!({"containers": [container], "hostAliases": aliases})),
        ),
        (
            "paths",
            pods,
            pod(json!({"containers": [container], "volumes": [volume]})),
        ),
        (
            "ports",
            pods,
            pod(json!({"containers": [{"name": "a", "image": "a", "ports": ports}]})),
        ),
        (
            "mounts",
            pods,
            pod(json!({"containers": [{"name": "a", "image": "a", "volumeMounts": mounts}]})),
        ),
    ] {
        let refused = alice.post(&format!("/clusters/a/{path}"), &object).await;
        assert!(
            matches!(refused.status, 413 | 422),
            "{name}: {}",
            refused.status
        );
        let length = refused.body.to_string().len();
        assert!(length < TOLD_MAX, "{name}: {length} bytes are told");
    }
}

/// 150 KB of empty items, to each of which a definition of the tenant's own adds a kilobyte.
async fn defaults_are_bounded(alice: &User) {
    let item = json!({"type": "object", "properties": {"a": {"type": "object", "default": {}, "properties": {
        "b": {"type": "string", "default": "x".repeat(1_000)}}}}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "bombs.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "bombs", "singular": "bomb", "kind": "Bomb", "listKind": "BombList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"items": {"type": "array", "items": item}}}}}],
        },
    });
    alice
        .post(&format!("/clusters/a{CRDS}"), &definition)
        .await
        .must(201);
    let path = "/clusters/a/apis/example.com/v1/namespaces/default/bombs";
    alice.until_status(path, 200).await;
    let bomb = |name: &str, count: usize| json!({"apiVersion": "example.com/v1", "kind": "Bomb", "metadata": {"name": name}, "items": vec![json!({}); count]});
    alice.post(path, &bomb("small", 100)).await.must(201);
    let refused = alice.post(path, &bomb("large", 50_000)).await;
    assert!(
        refused.message().contains("bytes of memory"),
        "{}",
        refused.body
    );
    refused.must(413);
    let applied = alice
        .apply(&format!("{path}/large"), &bomb("large", 50_000))
        .await;
    applied.must(413);
}

/// A selector of 60,000 parentheses once cost 3 s of a processor.
async fn selectors_are_bounded(alice: &User) {
    let list =
        |query: String| async move { alice.get(&format!("/clusters/a/{MAPS}?{query}")).await };
    let bad = ["%28", "%29", "!", ",", "%3C"].map(|symbol| symbol.repeat(60_000 / symbol.len()));
    let answers = join_all(
        bad.iter()
            .map(|text| list(format!("labelSelector=a{text}"))),
    )
    .await;
    for answer in answers {
        answer.must(400);
    }
    let terms: Vec<String> = (0..2_000).map(|index| format!("k{index}!=v")).collect();
    list(format!("labelSelector={}", terms.join(",")))
        .await
        .must(400);
    list(format!(
        "fieldSelector={}",
        vec!["metadata.name!=a"; 1_000].join(",")
    ))
    .await
    .must(400);
    let values: Vec<String> = (0..5_000).map(|index| format!("v{index}")).collect();
    list(format!("labelSelector=a+in+%28{}%29", values.join(",")))
        .await
        .must(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn s21_large_objects_of_one_tenant_at_once_wait_for_each_other() {
    let (fixture, alice, bob) = tenants(Settings::default()).await;
    // 250 KB each, of small maps: 22 MB as a tree, a few times while it is worked on.
    let small: Vec<Value> = vec![json!({"a": 0}); 30_000];
    let large = |index: usize| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("large-{index}")}, "x": small})
            .to_string()
    };
    let path = format!("/clusters/a/{MAPS}?fieldValidation=Ignore");
    let connections = join_all((0..4).map(|_| fixture.user("alice"))).await;
    let floods = (0..24).map(|index| {
        let user = &connections[index % connections.len()];
        user.send("POST", &path, &[("content-type", JSON)], large(index))
    });
    let others = async {
        for index in 0..40 {
            let made = bob
                .post(&format!("/clusters/b/{MAPS}"), &map(&format!("m{index}")))
                .await;
            made.must(201);
        }
    };
    let (floods, ()) = tokio::join!(join_all(floods), others);
    for answer in floods {
        assert!(
            matches!(answer.status, 201 | 429),
            "{} {}",
            answer.status,
            answer.message()
        );
    }
    let resident = resident(&fixture);
    assert!(resident < RESIDENT_MAX, "the hub has {resident} bytes");
    alice
        .get(&format!("/clusters/a/{MAPS}?limit=1"))
        .await
        .must(200);
}

/// A definition of instances that each hold what an expression makes.
fn definition(kind: &str, expression: &str) -> Value {
    json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": kind.to_lowercase()},
        "spec": {
            "schema": {"kind": kind, "apiVersion": "v1alpha1", "spec": {"count": "integer | default=1"}},
            "resources": [{"id": "config", "template": {
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "${schema.metadata.name}"},
                "data": {"value": format!("${{{expression}}}")},
            }}],
        },
    })
}

#[expect(clippy::too_many_lines, reason = "one story, told in order")]
#[tokio::test(flavor = "multi_thread")]
async fn s22_expressions_of_one_tenant_are_in_nobodys_way_and_end() {
    let log = "info,wheelhouse_syncer=debug,syncer=debug".to_owned();
    let settings = Settings {
        environment: vec![("WHEELHOUSE_LOG".to_owned(), log)],
        ..Settings::default()
    };
    let (fixture, alice, bob) = tenants(settings).await;
    let instances = |cluster: &str, resource: &str| {
        format!("/clusters/{cluster}/apis/kro.run/v1alpha1/namespaces/default/{resource}")
    };
    let heavy =
        "string(lists.range(schema.spec.count).map(i, lists.range(1000).map(j, i * j)).size())";
    alice
        .post(&format!("/clusters/a{RGDS}"), &definition("Heavy", heavy))
        .await
        .must(201);
    bob.post(
        &format!("/clusters/b{RGDS}"),
        &definition("Light", "string(schema.spec.count)"),
    )
    .await
    .must(201);
    let (heavies, lights) = (instances("a", "heavies"), instances("b", "lights"));
    alice.until_status(&heavies, 200).await;
    bob.until_status(&lights, 200).await;
    for index in 0..HEAVY_COUNT {
        let heavy = json!({"apiVersion": "kro.run/v1alpha1", "kind": "Heavy",
            "metadata": {"name": format!("heavy-{index}")}, "spec": {"count": 1_000_000}});
        alice.post(&heavies, &heavy).await.must(201);
    }
    for index in 0..5 {
        let name = format!("light-{index}");
        let light =
            json!({"apiVersion": "kro.run/v1alpha1", "kind": "Light", "metadata": {"name": name}});
        bob.post(&lights, &light).await.must(201);
        is_in_state(&bob, &format!("{lights}/{name}"), "ACTIVE").await;
    }
    for index in 0..HEAVY_COUNT {
        let failed = is_in_state(&alice, &format!("{heavies}/heavy-{index}"), "ERROR").await;
        let text = failed.body["status"]["conditions"].to_string();
        assert!(text.contains("cost limit exceeded"), "{text}");
    }
    // What failed for good is left alone: as often as it was planned by now, it stays.
    let planned = || {
        let log = fixture.hub.process().log();
        log.lines()
            .filter(|line| line.contains("cannot plan an instance"))
            .count()
    };
    // The line comes after the status.
    let before = wheelhouse_tests::eventually("each of them was planned once", || async {
        let count = planned();
        (count >= HEAVY_COUNT)
            .then_some(count)
            .ok_or_else(|| count.to_string())
    })
    .await;
    for index in 5..15 {
        let name = format!("light-{index}");
        let light =
            json!({"apiVersion": "kro.run/v1alpha1", "kind": "Light", "metadata": {"name": name}});
        bob.post(&lights, &light).await.must(201);
        is_in_state(&bob, &format!("{lights}/{name}"), "ACTIVE").await;
    }
    // None of them waits to be tried again. A write that met a conflict may.
    let log = fixture.hub.process().log();
    let is_retried =
        |line: &&str| line.contains("reconcile failed") && line.contains("Heavy.kro.run");
    let retried_count = log.lines().filter(is_retried).count();
    assert!(
        retried_count < HEAVY_COUNT,
        "{retried_count} are tried again"
    );
    // Once when it is made, and when its definition is served, labelled and counted again; not for ever.
    let after = planned();
    assert!(
        after <= PLANS_EACH_MAX * HEAVY_COUNT,
        "not again and again: {before}, then {after}"
    );
    // A change of the instance heals it.
    let patch = json!({"spec": {"count": 3}});
    let one = format!("{heavies}/heavy-0");
    alice
        .patch(&one, "application/merge-patch+json", &patch)
        .await
        .must(200);
    is_in_state(&alice, &one, "ACTIVE").await;
    definitions_do_not_grow(&alice).await;
    let last = format!("{lights}/light-last");
    let light = json!({"apiVersion": "kro.run/v1alpha1", "kind": "Light", "metadata": {"name": "light-last"}});
    bob.post(&lights, &light).await.must(201);
    is_in_state(&bob, &last, "ACTIVE").await;
    let resident = resident(&fixture);
    assert!(resident < RESIDENT_MAX, "the hub has {resident} bytes");
}

/// Definitions that would take all memory, or a stack of any size: each is refused, and says so.
async fn definitions_do_not_grow(alice: &User) {
    const LARGE: &str = "would take more than 67108864 bytes of memory";
    let types = |count: usize, of: &dyn Fn(usize) -> Value| {
        let types = (0..count).map(|place| (format!("T{place:05}"), of(place)));
        Value::Object(types.collect())
    };
    let doubled = types(60, &|place| {
        let part = match place {
            0 => "string".to_owned(),
            _ => format!("T{:05}", place - 1),
        };
        json!({"x": part, "y": part})
    });
    let listed = types(2_000, &|place| match place {
        0 => json!("string"),
        _ => json!(format!("[]T{:05}", place - 1)),
    });
    let ring = types(20_000, &|place| {
        json!(format!("T{:05}", (place + 1) % 20_000))
    });
    let pods = (0..20_000).map(|place| (format!("f{place}"), json!("${pod}")));
    let pods = Value::Object(pods.collect());
    for (kind, types, status, reason) in [
        ("Doubled", doubled, json!({}), LARGE),
        (
            "Listed",
            listed,
            json!({}),
            "its schema has more than 120 levels",
        ),
        (
            "Ring",
            ring,
            json!({}),
            "graph contains a cycle: T00000 -> T00001 -> ",
        ),
        ("Pods", json!({}), pods, LARGE),
    ] {
        let definition = json!({
            "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
            "metadata": {"name": kind.to_lowercase()},
            "spec": {
                "schema": {
                    "kind": kind, "apiVersion": "v1alpha1", "spec": {"a": "string"}, "types": types, "status": status,
                },
                "resources": [{"id": "pod", "template": {
                    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
                    "spec": {"containers": [{"name": "a", "image": "a"}]},
                }}],
            },
        });
        let path = format!("/clusters/a{RGDS}");
        alice.post(&path, &definition).await.must(201);
        let one = format!("{path}/{}", kind.to_lowercase());
        alice
            .until(&one, &format!("{kind} is refused"), |answer| {
                let conditions = answer.body["status"]["conditions"].as_array();
                conditions.into_iter().flatten().any(|it| {
                    it["status"] == "False"
                        && it["message"]
                            .as_str()
                            .is_some_and(|text| text.contains(reason))
                })
            })
            .await;
        alice.delete(&one).await.must(200);
    }
}

/// How often an instance is planned that cannot be: each time something that it depends on has changed.
const PLANS_EACH_MAX: usize = 4;

async fn is_in_state(user: &User, path: &str, state: &str) -> Answer {
    user.until(path, &format!("{path} is {state}"), |answer| {
        answer.body["status"]["state"] == state
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn s26_a_user_that_floods_is_refused_alone() {
    let arguments = [
        "--max-watches-per-user=40",
        "--max-requests-per-user=12",
        "--max-connections-per-user=6",
    ];
    let settings = Settings {
        arguments: arguments.map(str::to_owned).to_vec(),
        ..Settings::default()
    };
    let (fixture, alice, bob) = tenants(settings).await;
    let watch = format!("/clusters/a/{MAPS}?watch=true");
    let mut open: Vec<Watch> = Vec::new();
    let mut refused = 0;
    for _ in 0..60 {
        match alice.watch(&watch).await {
            Ok(watch) => open.push(watch),
            Err(answer) => {
                is_too_many(&answer);
                refused += 1;
            }
        }
    }
    assert_eq!((open.len(), refused), (40, 20), "watches open and refused");
    alice.get(&format!("/clusters/a/{MAPS}")).await.must(200);
    let other = bob.watch(&format!("/clusters/b/{MAPS}?watch=true")).await;
    assert!(other.is_ok(), "another user's watch");
    let admin = fixture.admin().await;
    assert!(
        admin.watch(&format!("/{MAPS}?watch=true")).await.is_ok(),
        "the administrator's"
    );
    // What is given back is there again.
    open.truncate(10);
    wheelhouse_tests::eventually("a watch is free again", || async {
        match alice.watch(&watch).await {
            Ok(_watch) => Ok(()),
            Err(answer) => Err(answer.body.to_string()),
        }
    })
    .await;

    connections_are_counted(&fixture, &bob).await;
    let metrics = admin.get("/metrics").await.must(200).to_string();
    for kind in ["watches", "connections"] {
        let line = format!("wheelhouse_quota_refused_total{{kind=\\\"{kind}\\\"}} 0");
        assert!(!metrics.contains(&line), "{kind} were refused: {metrics}");
    }
    // The hub's own controllers have their share.
    fixture.embed("c").await;
}

async fn connections_are_counted(fixture: &Fixture, bob: &User) {
    let mut answered = Vec::new();
    let mut users = Vec::new();
    for _ in 0..10 {
        let user = fixture.user("alice").await;
        let answer = user
            .try_send("GET", &format!("/clusters/a/{MAPS}"), &[], "")
            .await;
        answered.extend(answer.ok().map(|answer| answer.status));
        users.push(user);
    }
    let count = |status: u16| {
        answered
            .iter()
            .filter(|answered| **answered == status)
            .count()
    };
    // One connection is the fixture's.
    assert!((4..=5).contains(&count(200)), "{answered:?}");
    assert!(count(429) >= 4, "{answered:?}");
    bob.get(&format!("/clusters/b/{MAPS}")).await.must(200);
    for path in ["/livez", "/readyz", "/healthz"] {
        let probe = fixture.user("alice").await;
        probe.get(path).await.must(200);
    }
    drop(users);
    let again = fixture.user("alice").await;
    wheelhouse_tests::eventually("connections are free again", || async {
        let fresh = fixture.user("alice").await;
        let answer = fresh
            .try_send("GET", &format!("/clusters/a/{MAPS}"), &[], "")
            .await?;
        (answer.status == 200)
            .then_some(())
            .ok_or_else(|| answer.body.to_string())
    })
    .await;
    drop(again);
}

#[track_caller]
fn is_too_many(answer: &Answer) {
    assert_eq!(
        (answer.status, answer.reason()),
        (429, "TooManyRequests"),
        "{}",
        answer.body
    );
    assert!(
        answer.headers.contains_key("retry-after"),
        "when to try again"
    );
    assert_eq!(
        answer.message(),
        "Too many requests, please try again later.",
        "in Kubernetes' words"
    );
}
