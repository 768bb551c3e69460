//! A hub with kro's switches, and what definitions may be made of: fields that are left out, other definitions, other
//! instances.

use serde_json::{Value, json};
use wheelhouse_tests::{Hub, Kubectl, Spoke, eventually, hub::Settings};

use super::stage::{gone, until};

/// The version of kro that the hub is told to name.
const VERSION: &str = "v0.9.3";

/// A hub as `kro --flags` would run, with a real spoke `east` and an embedded cluster `soft`.
async fn begin() -> (Hub, Spoke) {
    let arguments = [
        "--feature-gates=CELOmitFunction=true",
        "--allow-crd-deletion=true",
        "--rgd-max-graph-revisions=8",
        "--rgd-max-collection-size=3",
        "--kro-version=v0.9.3",
    ];
    let settings = Settings {
        arguments: arguments.map(str::to_owned).to_vec(),
        ..Settings::default()
    };
    let (hub, east) = tokio::join!(Hub::start_with(settings), Spoke::start("east"));
    hub.join(&east).await;
    let soft = json!({"apiVersion": "wheelhouse.dev/v1alpha1", "kind": "Spoke", "metadata": {"name": "soft"},
        "spec": {"provider": "Embedded", "kro": {"version": "v0.9.2", "rgd": {"maxGraphRevisions": 2},
            "featureGates": {"CELOmitFunction": false}}}});
    let root = hub.root();
    root.apply(&soft.to_string()).await;
    root.must(&[
        "wait",
        "--for=condition=Ready",
        "spoke/soft",
        "--timeout=30s",
    ])
    .await;
    (hub, east)
}

/// A definition that makes one ConfigMap of this data.
fn definition(name: &str, kind: &str, data: &Value) -> Value {
    json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": {"name": name},
        "spec": {"schema": {"apiVersion": "v1alpha1", "kind": kind, "spec": {"text": "string"}},
            "resources": [{"id": "made", "template": {"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "${schema.metadata.name}"}, "data": data}}]}})
}

fn instance(kind: &str, name: &str, spec: &Value) -> String {
    json!({"apiVersion": "kro.run/v1alpha1", "kind": kind, "metadata": {"name": name, "namespace": "default"},
        "spec": spec})
    .to_string()
}

async fn state(kubectl: &Kubectl, object: &str, state: &str) -> Value {
    let what = format!("{object} is {state}");
    until(kubectl, &["get", object], &what, |object| {
        object["status"]["state"] == state
    })
    .await
}

async fn revisions(kubectl: &Kubectl, definition: &str) -> Vec<i64> {
    let selector = format!("spec.snapshot.name={definition}");
    let listed = kubectl
        .json(&["get", "graphrevisions", "--field-selector", &selector])
        .await
        .expect("revisions can be listed");
    let items = listed["items"].as_array().cloned().unwrap_or_default();
    let numbers = items.iter().map(|item| item["spec"]["revision"].as_i64());
    let mut numbers: Vec<i64> = numbers.map(Option::unwrap_or_default).collect();
    numbers.sort_unstable();
    numbers
}

#[tokio::test(flavor = "multi_thread")]
async fn kros_switches_hold_for_the_hub_and_a_spoke_may_say_otherwise() {
    let (hub, east) = begin().await;
    let (root, path, soft) = (hub.root(), hub.at("east"), hub.at("soft"));
    let data =
        json!({"text": "${schema.spec.text == '' ? omit() : schema.spec.text}", "kept": "yes"});
    let leaving = definition("leaving", "Leaving", &data);
    root.apply(&leaving.to_string()).await;
    soft.apply(&definition("own", "Own", &data).to_string())
        .await;
    state(&root, "rgd/leaving", "Active").await;
    // The gate is closed there, because its Spoke says so.
    let what = "soft refuses omit()";
    let refused = until(&soft, &["get", "rgd/own"], what, |object| {
        object["status"]["state"] == "Inactive"
    })
    .await;
    let told = refused["status"]["conditions"].to_string();
    assert!(
        told.contains("omit() requires the CELOmitFunction feature gate"),
        "{told}"
    );

    for (kubectl, version) in [(&path, VERSION), (&soft, "v0.9.2")] {
        kubectl
            .apply(&instance("Leaving", "demo", &json!({"text": ""})))
            .await;
        let made = state(kubectl, "leaving/demo", "ACTIVE").await;
        let child = kubectl
            .json(&["get", "configmap/demo"])
            .await
            .expect("it is there");
        assert_eq!(
            child["data"],
            json!({"kept": "yes"}),
            "omit() leaves the field out"
        );
        let label = &child["metadata"]["labels"]["kro.run/kro-version"];
        assert_eq!(label, version, "of the child");
        let tooling = &made["metadata"]["annotations"]["applyset.kubernetes.io/tooling"];
        assert_eq!(tooling, &json!(format!("kro/{version}")), "of the ApplySet");
        let crd = kubectl
            .json(&["get", "crd/leavings.kro.run"])
            .await
            .expect("a CRD");
        assert_eq!(crd["metadata"]["labels"]["kro.run/kro-version"], version);
    }
    follows_its_spoke(&root, &soft).await;
    keeps_revisions(&root, ("quick", "Quick"), 8).await;
    keeps_revisions(&soft, ("hasty", "Hasty"), 2).await;
    limits_collections(&soft).await;
    deletes_crds(&hub, &east).await;
    definitions_of_definitions(&path, &east.kubectl()).await;
    definitions_of_definitions(&soft, &soft).await;
    instances_of_instances(&root, &path, &east.kubectl()).await;
    made_where_its_definition_is_not_for(&root, &path, &east.kubectl()).await;
}

/// What the Spoke says later holds from then on.
async fn follows_its_spoke(root: &Kubectl, soft: &Kubectl) {
    let patch = r#"{"spec": {"kro": {"version": "v0.9.1"}}}"#;
    root.must(&["patch", "spoke/soft", "--type=merge", "-p", patch])
        .await;
    let what = "the child names the version of the day";
    until(soft, &["get", "configmap/demo"], what, |child| {
        child["metadata"]["labels"]["kro.run/kro-version"] == "v0.9.1"
    })
    .await;
    let wrong = root
        .run(&[
            "patch",
            "spoke/soft",
            "--type=merge",
            "-p",
            r#"{"spec": {"kro": {"version": "a b"}}}"#,
        ])
        .await;
    assert!(
        wrong.code != 0 && wrong.stderr.contains("spec.kro.version"),
        "{wrong:?}"
    );
}

/// Forty quick updates leave as many revisions as the switch says, the newest ones.
async fn keeps_revisions(kubectl: &Kubectl, (name, kind): (&str, &str), count: usize) {
    let object = format!("rgd/{name}");
    for round in 0..40 {
        let quick = definition(name, kind, &json!({"round": format!("{round}")}));
        kubectl.apply(&quick.to_string()).await;
    }
    let what = "the last text is the latest revision";
    let settled = until(kubectl, &["get", &object], what, |object| {
        let generation = object["metadata"]["generation"].as_i64();
        let conditions = object["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten();
        let mut accepted = conditions.filter(|it| it["type"] == "GraphAccepted");
        generation == Some(40)
            && accepted.any(|it| it["status"] == "True" && it["observedGeneration"] == 40)
    })
    .await;
    let last = settled["status"]["lastIssuedRevision"]
        .as_i64()
        .expect("a number");
    let wanted: Vec<i64> = (last - i64::try_from(count).expect("it is small") + 1..=last).collect();
    eventually("the newest revisions are kept", || async {
        let kept = revisions(kubectl, name).await;
        if kept == wanted {
            Ok(())
        } else {
            Err(format!("{kept:?}, not {wanted:?}"))
        }
    })
    .await;
    hold_as_kro(kubectl, name, &wanted).await;
    refuses_and_goes_on(kubectl, (name, kind), last, count).await;
}

/// Puts kro's finalizer on revisions, as those have it that were taken over from kro, and deletes the oldest one.
async fn hold_as_kro(kubectl: &Kubectl, definition: &str, numbers: &[i64]) {
    let patch = r#"{"metadata": {"finalizers": ["kro.run/finalizer"]}}"#;
    for number in numbers {
        let revision = format!("graphrevision/{definition}-r{number:05}");
        kubectl
            .must(&["patch", &revision, "--type=merge", "-p", patch])
            .await;
    }
    let oldest = format!("graphrevision/{definition}-r{:05}", numbers[0]);
    kubectl.must(&["delete", &oldest, "--timeout=60s"]).await;
}

/// Numbers after an invalid update, as kro 0.9.4 gives them: what is refused has none, and the text of before is the
/// revision of before.
async fn refuses_and_goes_on(
    kubectl: &Kubectl,
    (name, kind): (&str, &str),
    last: i64,
    count: usize,
) {
    let object = format!("rgd/{name}");
    let good = definition(name, kind, &json!({"round": "39"}));
    let bad = definition(name, kind, &json!({"round": "${nobody.spec.x}"}));
    let next = definition(name, kind, &json!({"round": "40"}));
    for (text, state_, number) in [
        (&bad, "Inactive", last),
        (&good, "Active", last),
        (&bad, "Inactive", last),
        (&next, "Active", last + 1),
        (&good, "Active", last + 2),
    ] {
        let applied = kubectl.apply(&text.to_string()).await;
        let what = format!("{state_} with revision {number} ({applied})");
        until(kubectl, &["get", &object], &what, |object| {
            let generation = &object["metadata"]["generation"];
            let conditions = object["status"]["conditions"]
                .as_array()
                .into_iter()
                .flatten();
            let mut accepted = conditions.filter(|it| it["type"] == "GraphAccepted");
            object["status"]["state"] == state_
                && object["status"]["lastIssuedRevision"] == number
                && accepted.any(|it| it["observedGeneration"] == *generation)
        })
        .await;
    }
    eventually("what is beyond the limit is gone", || async {
        let kept = revisions(kubectl, name).await;
        if kept.len() == count && kept.last() == Some(&(last + 2)) {
            Ok(())
        } else {
            Err(format!("{kept:?}"))
        }
    })
    .await;
}

/// A collection of more items than the switch permits is an error of its instance, in kro's words.
async fn limits_collections(kubectl: &Kubectl) {
    let many = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": {"name": "many"},
        "spec": {"schema": {"apiVersion": "v1alpha1", "kind": "Many", "spec": {"names": "[]string"}},
            "resources": [{"id": "made", "forEach": [{"one": "${schema.spec.names}"}],
                "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "${one}"}}}]}});
    kubectl.apply(&many.to_string()).await;
    state(kubectl, "rgd/many", "Active").await;
    kubectl
        .apply(&instance(
            "Many",
            "m",
            &json!({"names": ["a", "b", "c", "d"]}),
        ))
        .await;
    let refused = state(kubectl, "many/m", "ERROR").await;
    let told = refused["status"]["conditions"].to_string();
    assert!(
        told.contains("collection size of 4 is over the maximum collection size of 3"),
        "{told}"
    );
    kubectl
        .apply(&instance("Many", "m", &json!({"names": ["a", "b", "c"]})))
        .await;
    state(kubectl, "many/m", "ACTIVE").await;
}

/// The CRD of a definition goes with it, everywhere, and only after the last instance.
async fn deletes_crds(hub: &Hub, east: &Spoke) {
    let root = hub.root();
    root.must(&["delete", "rgd/leaving", "--wait=false"]).await;
    let what = "it waits for both instances";
    until(&root, &["get", "rgd/leaving"], what, |object| {
        let told = object["status"]["conditions"].to_string();
        told.contains("waiting for the instances in east, soft to be deleted before their CRD leavings.kro.run is")
    })
    .await;
    for kubectl in [hub.at("east"), hub.at("soft")] {
        kubectl.must(&["get", "leaving/demo"]).await;
        kubectl
            .must(&["delete", "leaving/demo", "--timeout=60s"])
            .await;
        gone(&kubectl, &["get", "configmap/demo"]).await;
    }
    gone(&root, &["get", "rgd/leaving"]).await;
    for kubectl in [root, hub.at("soft"), hub.at("east"), east.kubectl()] {
        gone(&kubectl, &["get", "crd/leavings.kro.run"]).await;
    }
}

/// A definition whose resource is a definition, at a cluster's path: the hub keeps the inner one there, and what it makes is
/// in the cluster itself.
async fn definitions_of_definitions(path: &Kubectl, cluster: &Kubectl) {
    let group = "inner.example.com";
    let outer = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": {"name": "outer"},
        "spec": {"schema": {"apiVersion": "v1alpha1", "kind": "Outer", "spec": {"type": "string"},
                "status": {"inner": "${nested.status.state}"}},
            "resources": [{"id": "nested", "readyWhen": ["${nested.status.state == 'Active'}"], "template": {
                "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
                "metadata": {"name": "inner-${schema.spec.type}"},
                "spec": {"schema": {"apiVersion": "v1alpha1", "kind": "Inner${schema.spec.type}", "group": group,
                        "spec": {"value": "${schema.spec.type}"}},
                    "resources": [{"id": "made", "template": {"apiVersion": "v1", "kind": "ConfigMap",
                        "metadata": {"name": "${\"${schema.metadata.name}\"}"}, "data": {"by": "inner"}}}]}}}]}});
    path.apply(&outer.to_string()).await;
    state(path, "rgd/outer", "Active").await;
    path.apply(&instance("Outer", "out", &json!({"type": "string"})))
        .await;
    let out = state(path, "outer/out", "ACTIVE").await;
    assert_eq!(out["status"]["inner"], "Active", "it is seen");
    let inner = state(path, "rgd/inner-string", "Active").await;
    let parent = &inner["metadata"]["labels"]["kro.run/instance-name"];
    assert_eq!(parent, "out", "it is a child");
    let within = json!({"apiVersion": format!("{group}/v1alpha1"), "kind": "Innerstring",
        "metadata": {"name": "within", "namespace": "default"}, "spec": {"value": "x"}});
    path.apply(&within.to_string()).await;
    let object = format!("innerstrings.{group}/within");
    state(path, &object, "ACTIVE").await;
    let made = cluster
        .json(&["get", "configmap/within"])
        .await
        .expect("it is made in the cluster");
    assert_eq!(made["data"]["by"], "inner", "by its template");
    // What somebody changes there is put back, as with every child.
    let patch = r#"{"spec": {"resources": []}}"#;
    path.must(&["patch", "rgd/inner-string", "--type=merge", "-p", patch])
        .await;
    until(
        path,
        &["get", "rgd/inner-string"],
        "the template holds again",
        |inner| inner["spec"]["resources"][0]["id"] == "made",
    )
    .await;
    path.must(&["delete", &object, "--timeout=60s"]).await;
    path.must(&["delete", "outer/out", "--timeout=60s"]).await;
    gone(path, &["get", "rgd/inner-string"]).await;
    gone(cluster, &["get", &format!("crd/innerstrings.{group}")]).await;
    path.must(&["delete", "rgd/outer", "--timeout=60s"]).await;
}

/// A definition whose one resource is an instance of `Level1` to `Level3`.
fn above(name: &str, kind: &str, level: u32) -> Value {
    json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": {"name": name},
        "spec": {"schema": {"apiVersion": "v1alpha1", "kind": kind, "group": "levels.example.com",
                "spec": {"text": "string"}},
            "resources": [{"id": "below", "template": {"apiVersion": "levels.example.com/v1alpha1",
                "kind": format!("Level{level}"), "metadata": {"name": "${schema.metadata.name}"},
                "spec": {"text": "${schema.spec.text}"}}}]}})
}

/// Instances whose children are instances, over four levels, the first of a definition of root. The definitions come in the
/// order in which none can be compiled before the last; each child is made at the hub's path and mirrored to the spoke, as
/// the instances of users are; deletion of the first instance ends with nothing left.
async fn instances_of_instances(root: &Kubectl, path: &Kubectl, cluster: &Kubectl) {
    root.apply(&above("level0", "Level0", 1).to_string()).await;
    for level in [1, 2, 3] {
        let mut resources = vec![
            json!({"id": "map", "template": {"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("${{schema.metadata.name}}-{level}")}, "data": {"text": "${schema.spec.text}"}}}),
        ];
        if level < 3 {
            resources.push(json!({"id": "below", "template": {"apiVersion": "levels.example.com/v1alpha1",
                "kind": format!("Level{}", level + 1), "metadata": {"name": "${schema.metadata.name}"},
                "spec": {"text": format!("${{schema.spec.text}}-{level}")}}}));
        }
        let definition = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
            "metadata": {"name": format!("level{level}")},
            "spec": {"schema": {"apiVersion": "v1alpha1", "kind": format!("Level{level}"),
                "group": "levels.example.com", "spec": {"text": "string"}}, "resources": resources}});
        path.apply(&definition.to_string()).await;
        if level == 1 {
            let refused = state(path, "rgd/level1", "Inactive").await;
            let told = refused["status"]["conditions"].to_string();
            assert!(told.contains("schema not found"), "{told}");
        }
    }
    for level in [3, 2, 1] {
        state(path, &format!("rgd/level{level}"), "Active").await;
    }
    state(root, "rgd/level0", "Active").await;
    until(path, &["get", "level0"], "it is served", |_| true).await;
    path.apply(&level(0, "top", "a")).await;
    for level in 0..=3 {
        let object = format!("level{level}/top");
        let made = state(path, &object, "ACTIVE").await;
        let origin = &made["metadata"]["annotations"]["wheelhouse.dev/origin"];
        assert!(origin.is_null(), "{object} is the hub's own: {made}");
        let mirror = cluster.json(&["get", &object]).await.expect("a mirror");
        assert_ne!(
            mirror["metadata"]["uid"], made["metadata"]["uid"],
            "{object}"
        );
    }
    follows_a_change(path, cluster).await;
    made_by_an_account(path, cluster).await;
    path.must(&["delete", "level0/top", "--timeout=60s"]).await;
    for level in [0, 1, 2, 3] {
        gone(path, &["get", &format!("level{level}/top")]).await;
        gone(cluster, &["get", &format!("level{level}/top")]).await;
        gone(cluster, &["get", &format!("configmap/top-{level}")]).await;
    }
}

async fn follows_a_change(path: &Kubectl, cluster: &Kubectl) {
    let last = cluster
        .json(&["get", "configmap/top-3"])
        .await
        .expect("the last child");
    assert_eq!(last["data"]["text"], "a-1-2", "of all levels");
    // A change goes all the way down, and what somebody changes on the way is put back.
    path.apply(&level(0, "top", "b")).await;
    until(
        cluster,
        &["get", "configmap/top-3"],
        "a change arrives",
        |last| last["data"]["text"] == "b-1-2",
    )
    .await;
    let patch = r#"{"spec": {"text": "mine"}}"#;
    path.must(&["patch", "level2/top", "--type=merge", "-p", patch])
        .await;
    until(
        path,
        &["get", "level2/top"],
        "the template holds again",
        |it| it["spec"]["text"] == "b-1",
    )
    .await;
}

fn level(level: u32, name: &str, text: &str) -> String {
    json!({"apiVersion": "levels.example.com/v1alpha1", "kind": format!("Level{level}"),
        "metadata": {"name": name, "namespace": "default"}, "spec": {"text": text}})
    .to_string()
}

/// An account that the spoke alone knows makes its children there; they are imported, and go with their instance too.
async fn made_by_an_account(path: &Kubectl, cluster: &Kubectl) {
    cluster.must(&["create", "serviceaccount", "worker"]).await;
    let bind = "create clusterrolebinding worker --clusterrole=cluster-admin --serviceaccount=default:worker";
    cluster.typed(bind).await;
    let mut hired = above("hired", "Hired", 3);
    hired["metadata"]["annotations"] = json!({"wheelhouse.dev/run-as": "default/worker"});
    path.apply(&hired.to_string()).await;
    state(path, "rgd/hired", "Active").await;
    let instance = level(0, "hand", "h").replace("Level0", "Hired");
    path.apply(&instance).await;
    state(path, "hired/hand", "ACTIVE").await;
    let made = state(path, "level3/hand", "ACTIVE").await;
    let origin = &made["metadata"]["annotations"]["wheelhouse.dev/origin"];
    assert_eq!(origin, "spoke", "it was made there: {made}");
    path.apply(&instance.replace("\"h\"", "\"i\"")).await;
    until(
        cluster,
        &["get", "configmap/hand-3"],
        "a change arrives",
        |it| it["data"]["text"] == "i",
    )
    .await;
    // It has lost its label when its parent goes: it is found where it was made, and not in the hub's copy of it.
    let suspend = ["annotate", "hired/hand", "kro.run/reconcile=suspended"];
    path.must(&suspend).await;
    let unlabel = ["label", "level3/hand", "kro.run/owned-"];
    cluster.must(&unlabel).await;
    path.must(&["delete", "hired/hand", "--timeout=60s"]).await;
    for object in ["level3/hand", "configmap/hand-3"] {
        gone(path, &["get", object]).await;
        gone(cluster, &["get", object]).await;
    }
}

/// A definition of root that leaves a spoke out is no reason to wait for its kind there, where somebody else serves it.
async fn made_where_its_definition_is_not_for(root: &Kubectl, path: &Kubectl, cluster: &Kubectl) {
    let mut elsewhere = definition("afar", "Afar", &json!({"by": "root"}));
    elsewhere["metadata"]["annotations"] = json!({"wheelhouse.dev/spokes": "tier=none"});
    root.apply(&elsewhere.to_string()).await;
    state(root, "rgd/afar", "Active").await;
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "afars.kro.run"},
        "spec": {"group": "kro.run", "scope": "Namespaced",
            "names": {"plural": "afars", "singular": "afar", "kind": "Afar", "listKind": "AfarList"},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object",
                    "properties": {"text": {"type": "string"}}}}}}}]}});
    cluster.apply(&crd.to_string()).await;
    let mut near = definition("near", "Near", &json!({}));
    near["spec"]["resources"] = json!([{"id": "below", "template": {"apiVersion": "kro.run/v1alpha1", "kind": "Afar",
        "metadata": {"name": "${schema.metadata.name}"}, "spec": {"text": "${schema.spec.text}"}}}]);
    path.apply(&near.to_string()).await;
    state(path, "rgd/near", "Active").await;
    path.apply(&instance("Near", "by", &json!({"text": "a"})))
        .await;
    state(path, "near/by", "ACTIVE").await;
    let made = cluster
        .json(&["get", "afar/by"])
        .await
        .expect("it is made in the spoke");
    assert_eq!(made["spec"]["text"], "a", "by its template");
    path.must(&["delete", "near/by", "--timeout=60s"]).await;
    gone(cluster, &["get", "afar/by"]).await;
}
