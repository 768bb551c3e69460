//! Plans of a small definition, as its world changes around it.

mod world;

use api::wheelhouse::keys::ANNOTATION_DELETION_POLICY;
use serde_json::{Value, json};

use super::*;
use world::World;

/// A configuration, as many workers as the instance says, and a service that waits for a ready deployment.
fn web() -> Value {
    json!({
        "schema": {
            "kind": "Web", "apiVersion": "v1alpha1",
            "spec": {"name": "string", "replicas": "integer | default=1", "public": "boolean | default=false", "regions": "[]string"},
            "status": {
                "ready": "${deployment.status.readyReplicas}",
                "address": "http://${service.spec.clusterIP}",
                "replicas": "${schema.spec.replicas}",
                "workers": "${workers.map(w, w.metadata.name)}",
            },
        },
        "resources": [
            {"id": "config", "template": {
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "${schema.spec.name}-config"},
                "data": {"replicas": "${string(schema.spec.replicas)}"},
            }},
            {"id": "deployment",
             "readyWhen": ["${deployment.status.readyReplicas == deployment.spec.replicas}"],
             "template": {
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": "${schema.spec.name}", "labels": {"config": "${config.metadata.name}"}},
                "spec": {
                    "replicas": "${schema.spec.replicas}",
                    "selector": {"matchLabels": {"app": "${schema.spec.name}"}},
                    "template": {
                        "metadata": {"labels": {"app": "${schema.spec.name}"}},
                        "spec": {"containers": [{"name": "web", "image": "web"}]},
                    },
                },
             }},
            {"id": "service", "template": {
                "apiVersion": "v1", "kind": "Service",
                "metadata": {"name": "${schema.spec.name}", "annotations": {"revision": "${deployment.metadata.name}"}},
                "spec": {"ports": [{"port": 80}]},
            }},
            {"id": "ingress", "includeWhen": ["${schema.spec.public}"], "template": {
                "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "${service.metadata.name}"},
                "spec": {"defaultBackend": {"service": {"name": "${service.metadata.name}"}}},
            }},
            {"id": "workers", "forEach": [{"region": "${schema.spec.regions}"}], "template": {
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "${schema.spec.name + '-' + region}"},
                "data": {"region": "${region}"},
            }},
        ],
    })
}

fn instance() -> Value {
    json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "Web",
        "metadata": {
            "name": "demo", "namespace": "shop", "uid": "u-1", "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"name": "demo", "replicas": 2, "public": false, "regions": ["eu", "us"]},
    })
}

#[test]
fn objects_come_as_far_as_readiness_allows() {
    let mut world = World::new(web(), instance());
    let plan = world.plan();
    assert_eq!(world::applies(&plan), "config+ workers-0+ workers-1+");
    assert_eq!(
        plan.unresolved.as_deref(),
        Some(
            "gvr \"apps/v1, Resource=deployments\": node \"deployment\": dependent node \"config\" not ready: node \
             \"config\": no observed state: waiting for readiness (data pending)"
        )
    );
    assert_eq!(plan.state(), InstanceState::InProgress);
    world.apply(&plan);
    let plan = world.plan();
    assert_eq!(
        world::applies(&plan),
        "config deployment+ workers-0 workers-1"
    );
    world.apply(&plan);
    let plan = world.plan();
    assert_eq!(
        world::applies(&plan),
        "config deployment workers-0 workers-1"
    );
    assert_eq!(
        world::states(&plan),
        "config SYNCED, deployment WAITING_FOR_READINESS, service IN_PROGRESS, ingress SKIPPED, workers SYNCED"
    );
    world.edit("Deployment", "demo", |live| {
        live["status"] = json!({"readyReplicas": 2});
    });
    let plan = world.plan();
    assert_eq!(
        world::applies(&plan),
        "config deployment service+ workers-0 workers-1"
    );
    world.apply(&plan);
    let plan = world.plan();
    assert!(plan.settled(), "{plan:?}");
    assert_eq!(plan.state(), InstanceState::Active);
    assert_eq!(
        plan.status,
        json!({"ready": 2, "replicas": 2, "workers": ["demo-eu", "demo-us"]}),
        "the service has no address yet, so that field is not there"
    );
    let again = world.plan();
    assert_eq!(
        format!("{again:?}"),
        format!("{plan:?}"),
        "the same input gives the same plan"
    );
}

#[test]
fn objects_are_decorated_as_kro_decorates_them() {
    let mut world = World::new(web(), instance());
    world
        .settings
        .extra_labels
        .insert("wheelhouse.dev/hub".to_owned(), "h".to_owned());
    let plan = world.plan();
    let id = crate::applyset_id(&instance());
    let want = json!({
        "app.kubernetes.io/managed-by": "kro",
        "applyset.kubernetes.io/part-of": id,
        "kro.run/instance-group": "kro.run",
        "kro.run/instance-id": "u-1",
        "kro.run/instance-kind": "Web",
        "kro.run/instance-name": "demo",
        "kro.run/instance-namespace": "shop",
        "kro.run/instance-version": "v1alpha1",
        "kro.run/kro-version": "v0.9.4",
        "kro.run/node-id": "config",
        "kro.run/owned": "true",
        "wheelhouse.dev/hub": "h",
    });
    let config = &plan.applies[0];
    assert_eq!(config.object["metadata"]["labels"], want);
    assert_eq!(
        config.object["metadata"]["annotations"],
        json!({"internal.kro.run/apply-order": "1"})
    );
    assert_eq!(config.object["metadata"]["namespace"], "shop");
    assert_eq!(config.object["data"]["replicas"], "2");
    let worker = &plan.applies[2];
    assert_eq!(worker.id, "workers-1");
    assert_eq!(
        worker.object["metadata"]["labels"]["kro.run/collection-index"],
        "1"
    );
    assert_eq!(
        worker.object["metadata"]["labels"]["kro.run/collection-size"],
        "2"
    );
    assert_eq!(
        worker.apply_order, 4,
        "nobody depends on it, so it goes with the last"
    );
    assert_eq!(
        world.graph.node("deployment").map(crate::Node::apply_order),
        Some(2)
    );
}

/// The story: an owner in another namespace counts as absent, and the garbage collector deletes what names it.
#[test]
fn an_instance_does_not_say_what_only_the_hub_says() {
    let definition = json!({
        "schema": {"kind": "Any", "apiVersion": "v1alpha1", "spec": {"keys": "map[string]string"}},
        "resources": [{"id": "one", "template": {
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "one", "annotations": "${schema.spec.keys}", "labels": "${schema.spec.keys}"},
        }}],
    });
    let mut instance = instance();
    instance["spec"] = json!({"keys": {
        "internal.wheelhouse.dev/author": "admin", "wheelhouse.dev/origin": "spoke", "example.com/own": "kept",
    }});
    let plan = World::new(definition, instance).plan();
    let metadata = &plan.applies[0].object["metadata"];
    for part in ["annotations", "labels"] {
        let keys: Vec<&String> = metadata[part].as_object().expect("a map").keys().collect();
        assert!(
            keys.iter().any(|key| *key == "example.com/own"),
            "{part}: {keys:?}"
        );
        assert!(
            !keys.iter().any(|key| key.contains("wheelhouse.dev/")),
            "{part}: {keys:?}"
        );
    }
}

#[test]
fn an_instance_owns_its_children_where_it_may_and_the_definition_asks_for_it() {
    let definition = json!({
        "schema": {"kind": "Any", "apiVersion": "v1alpha1", "spec": {"name": "string"}},
        "resources": [
            {"id": "near", "template": {
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "near", "ownerReferences": [
                    {"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "o"}]},
            }},
            {"id": "far", "template": {
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "far", "namespace": "elsewhere"},
            }},
            {"id": "wide", "template": {
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "wide"},
            }},
            {"id": "many", "forEach": [{"region": "${['eu', 'us']}"}], "template": {
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "${'many-' + region}"},
            }},
        ],
    });
    let mut world = World::new(definition, instance());
    let owners = |world: &World| -> Vec<(String, Vec<String>)> {
        let plan = world.plan();
        let applies = plan.applies.iter().map(|apply| {
            let references = apply.object["metadata"]["ownerReferences"].as_array();
            let uid = |it: &Value| it["uid"].as_str().unwrap_or_default().to_owned();
            let uids = references.into_iter().flatten().map(uid).collect();
            (apply.reference.name.clone(), uids)
        });
        applies.collect()
    };
    let want = |own: &[&str]| {
        let own: Vec<String> = own.iter().map(|it| (*it).to_owned()).collect();
        let near = [&["o".to_owned()], own.as_slice()].concat();
        vec![
            ("near".to_owned(), near),
            ("far".to_owned(), Vec::new()),
            ("wide".to_owned(), Vec::new()),
            ("many-eu".to_owned(), own.clone()),
            ("many-us".to_owned(), own),
        ]
    };
    assert_eq!(owners(&world), want(&[]), "as kro: nobody asks for it");
    world.observed.owned_by("mirror");
    assert_eq!(owners(&world), want(&["mirror"]));
    let plan = world.plan();
    let reference = &plan.applies[0].object["metadata"]["ownerReferences"][1];
    assert_eq!(
        *reference,
        json!({"apiVersion": "kro.run/v1alpha1", "kind": "Web", "name": "demo", "uid": "mirror"})
    );
    world.apply(&plan);
    assert!(world.plan().settled(), "and nothing more is asked for");
}

#[test]
fn what_is_to_stay_has_no_owner_where_policies_count() {
    let kept = |id: &str, policy: &str| {
        let metadata = json!({"name": id, "annotations": {ANNOTATION_DELETION_POLICY: policy}});
        json!({"id": id, "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}})
    };
    let definition = json!({
        "schema": {"kind": "Any", "apiVersion": "v1alpha1", "spec": {"name": "string"}},
        "resources": [
            kept("a", "Retain"), kept("b", "Orphan"), kept("c", "Delete"), kept("d", "${schema.spec.name}"),
        ],
    });
    let mut world = World::new(definition, instance());
    world.observed.owned_by("mirror");
    let owned = |world: &World| -> Vec<String> {
        let plan = world.plan();
        let applies = plan.applies.iter();
        let owned = applies.filter(|it| it.object["metadata"]["ownerReferences"].is_array());
        owned.map(|it| it.reference.name.clone()).collect()
    };
    assert_eq!(
        owned(&world),
        ["a", "b", "c", "d"],
        "a closed gate is kro's"
    );
    world.settings.compile.deletion_policy = true;
    let failure = world.plan().failure;
    let want = "node \"d\": annotation wheelhouse.dev/deletion-policy: \"demo\" is not Delete, Retain or Orphan";
    assert_eq!(failure.as_deref(), Some(want));
    world.instance["spec"]["name"] = json!("Orphan");
    assert_eq!(owned(&world), ["c"]);

    // Somebody says it of a live object, and its owner goes by the next apply.
    let definition = json!({
        "schema": {"kind": "Any", "apiVersion": "v1alpha1", "spec": {"name": "string"}},
        "resources": [{"id": "a", "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}}],
    });
    let mut world = World::new(definition, instance());
    world.settings.compile.deletion_policy = true;
    world.observed.owned_by("mirror");
    let plan = world.plan();
    world.apply(&plan);
    assert_eq!(owned(&world), ["a"]);
    world.edit("ConfigMap", "a", |live| {
        live["metadata"]["annotations"][ANNOTATION_DELETION_POLICY] = json!("Retain");
    });
    assert_eq!(owned(&world), [""; 0]);
    assert_eq!(world::changes(&world.plan()), "a~");
}

#[test]
fn what_waits_is_named_where_its_name_needs_nothing_else() {
    let map = |id: &str, name: &str, after: &str| {
        let mut object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        object["data"] = json!({"after": after});
        json!({"id": id, "template": object})
    };
    let after = "${first.metadata.uid}";
    let mut placed = map("placed", "placed", after);
    placed["template"]["metadata"]["namespace"] = json!("${schema.spec.name}");
    let mut absent = map("absent", "absent", after);
    absent["includeWhen"] = json!(["${schema.spec.public}"]);
    let mut unknown = map("unknown", "unknown", after);
    unknown["includeWhen"] = json!(["${first.data.after == 'x'}"]);
    let definition = json!({
        "schema": {"kind": "Any", "apiVersion": "v1alpha1", "spec": {"name": "string", "public": "boolean"}},
        "resources": [
            map("first", "first", "x"),
            map("named", "${schema.spec.name + '-named'}", after),
            map("later", "${first.metadata.name + '-later'}", after),
            map("wrong", "${schema.spec.name + '/'}", after),
            map("failing", "${string(1 / int(schema.spec.name))}", after),
            placed, absent, unknown,
            {"id": "many", "forEach": [{"it": "${[first.metadata.uid]}"}], "template": map("", "${it}", "x")["template"]},
        ],
    });
    let world = World::new(definition, instance());
    let plan = world.plan();
    assert_eq!(world::applies(&plan), "first+");
    let place = |it: &Expected| {
        let reference = &it.reference;
        format!("{} {}/{}", it.node, reference.namespace, reference.name)
    };
    let expected: Vec<String> = plan.expected.iter().map(place).collect();
    assert_eq!(expected, ["named shop/demo-named", "placed demo/placed"]);
    assert!(!plan.is_hopeless, "what fails early was not asked");
}

#[test]
fn drift_and_a_changed_instance_ask_for_just_what_differs() {
    let mut world = World::new(web(), instance()).settled();
    world.edit("ConfigMap", "demo-eu", |live| {
        live["data"]["region"] = json!("mars");
    });
    assert_eq!(world::changes(&world.plan()), "workers-0~");
    world.edit("ConfigMap", "demo-eu", |live| {
        live["data"]["region"] = json!("eu");
    });
    world.edit("ConfigMap", "demo-eu", |live| {
        live["data"]["foreign"] = json!("x");
    });
    assert_eq!(
        world::changes(&world.plan()),
        "",
        "a field that is not ours is no drift"
    );
    world.instance["spec"]["replicas"] = json!(3);
    assert_eq!(world::changes(&world.plan()), "config~ deployment~");
    world.instance["spec"]["replicas"] = json!(2);
    world.delete("Service", "demo");
    assert_eq!(world::changes(&world.plan()), "service+");
}

#[test]
fn what_is_no_longer_wanted_is_pruned_from_the_end() {
    let mut public = instance();
    public["spec"]["public"] = json!(true);
    let mut world = World::new(web(), public).settled();
    assert_eq!(world::prunes(&world), "");
    world.instance["spec"]["public"] = json!(false);
    world.instance["spec"]["regions"] = json!(["us"]);
    let plan = world.plan();
    assert_eq!(
        world::changes(&plan),
        "workers-0~",
        "its index and size have changed"
    );
    assert!(!plan.prune_allowed(), "not before the change is there");
    world.apply(&plan);
    assert_eq!(world::prunes(&world), "workers: demo-eu; ingress: demo");
    let plan = world.plan();
    assert_eq!(
        plan.inventory_after.annotations(&world.settings)["applyset.kubernetes.io/contains-group-kinds"],
        "ConfigMap,Deployment.apps,Service"
    );
    // An object of a node that the graph no longer has goes first.
    world.edit("Ingress", "demo", |live| {
        live["metadata"]["labels"]["kro.run/node-id"] = json!("gone");
    });
    assert_eq!(world::prunes(&world), "?: demo; workers: demo-eu");
}

#[test]
fn nothing_is_pruned_while_a_node_waits() {
    let mut world = World::new(web(), instance()).settled();
    world.instance["spec"]["regions"] = json!(["us"]);
    let plan = world.plan();
    world.apply(&plan);
    assert_eq!(world::prunes(&world), "workers: demo-eu");
    world.delete("ConfigMap", "demo-config");
    assert_eq!(world::prunes(&world), "");
}

#[test]
fn the_inventory_before_an_apply_remembers_what_was() {
    let mut world = World::new(web(), instance());
    let past = json!({
        "applyset.kubernetes.io/contains-group-kinds": "Ingress.networking.k8s.io",
        "applyset.kubernetes.io/additional-namespaces": "old",
    });
    world.instance["metadata"]["annotations"] = past;
    let plan = world.plan();
    let text =
        |inventory: &Inventory, key: &str| inventory.annotations(&world.settings)[key].clone();
    let kinds = "applyset.kubernetes.io/contains-group-kinds";
    assert_eq!(
        text(&plan.inventory_before, kinds),
        "ConfigMap,Ingress.networking.k8s.io"
    );
    assert_eq!(text(&plan.inventory_after, kinds), "ConfigMap");
    assert_eq!(plan.inventory_before.namespaces, ["old".to_owned()].into());
    assert!(plan.inventory_after.namespaces.is_empty());
}

#[test]
fn a_child_that_is_being_deleted_is_waited_for() {
    let mut world = World::new(web(), instance()).settled();
    world.edit("ConfigMap", "demo-config", |live| {
        live["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    });
    let plan = world.plan();
    assert!(plan.applies.is_empty() && !plan.settled());
    let want = "resource \"shop/demo-config\" for node \"config\" is currently being deleted; waiting for deletion to \
                complete before continuing reconciliation";
    assert_eq!(plan.deleting.as_deref(), Some(want));
    assert_eq!(plan.state(), InstanceState::InProgress);
    assert_eq!(
        world.condition("ResourcesReady"),
        (
            "False".to_owned(),
            "ResourceDeleting".to_owned(),
            want.to_owned()
        )
    );
}

#[test]
fn failed_applies_are_told_and_not_tried_again_in_the_round() {
    let mut world = World::new(web(), instance());
    let plan = world.plan();
    world.apply(&plan);
    world.observed.failed(
        "deployment",
        NodeReason::Denied,
        "admission webhook denied the request".to_owned(),
    );
    let plan = world.plan();
    assert_eq!(world::changes(&plan), "");
    assert!(!plan.prune_allowed());
    assert_eq!(plan.state(), InstanceState::Error);
    assert_eq!(
        world.condition("ResourcesReady").2,
        "resource reconciliation failed: apply results contain errors: admission webhook denied the request"
    );
    world
        .observed
        .failed("workers-1", NodeReason::Invalid, "no".to_owned());
    assert_eq!(
        world
            .plan()
            .node("workers")
            .and_then(|node| node.message.clone())
            .as_deref(),
        Some("collection item 1: no")
    );
}

#[test]
fn an_object_of_another_set_is_not_taken() {
    let mut world = World::new(web(), instance()).settled();
    world.edit("ConfigMap", "demo-config", |live| {
        live["metadata"]["labels"]["applyset.kubernetes.io/part-of"] = json!("applyset-other-v1");
    });
    let plan = world.plan();
    assert_eq!(world::changes(&plan), "");
    let message = plan
        .node("config")
        .and_then(|node| node.message.clone())
        .expect("says why");
    let id = crate::applyset_id(&instance());
    assert_eq!(
        message,
        format!(
            "resource belongs to a different ApplySet: shop/demo-config (/v1, Kind=ConfigMap) belongs to ApplySet \
             \"applyset-other-v1\", cannot reassign to \"{id}\""
        )
    );
    assert_eq!(plan.state(), InstanceState::Error);
}

#[test]
fn two_nodes_that_make_one_object_are_refused() {
    let object = |id: &str| json!({"id": id, "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "${schema.spec.name}"}}});
    let definition = json!({
        "schema": {"kind": "Twice", "apiVersion": "v1", "spec": {"name": "string"}},
        "resources": [object("a"), object("b")],
    });
    let world = World::new(definition, instance());
    let plan = world.plan();
    assert_eq!(
        plan.failure.as_deref(),
        Some("found resources with conflicts: resourceID: b conflicts with resourceID: a")
    );
    assert!(plan.applies.is_empty());
    assert_eq!(plan.state(), InstanceState::InProgress);
}

#[test]
fn a_skipped_node_takes_its_dependants_along() {
    let config = |id: &str, from: &str, more: Value| {
        let mut resource = json!({"id": id, "template": {
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": id}, "data": {"from": from},
        }});
        for (key, value) in more.as_object().expect("a map") {
            resource[key] = value.clone();
        }
        resource
    };
    let definition = json!({
        "schema": {"kind": "Chain", "apiVersion": "v1", "spec": {"on": "boolean"}},
        "resources": [
            config("a", "x", json!({"includeWhen": ["${schema.spec.on}"]})),
            config("b", "${a.metadata.name}", json!({})),
            config("c", "${b.metadata.name}", json!({})),
            config("d", "x", json!({})),
            config("e", "x", json!({"includeWhen": ["${d.data.from == 'y'}"]})),
        ],
    });
    let mut instance = instance();
    instance["spec"] = json!({"on": false});
    let mut world = World::new(definition, instance);
    let plan = world.plan();
    assert_eq!(world::applies(&plan), "d+");
    assert_eq!(
        plan.unresolved.as_deref(),
        Some(
            "gvr \"/v1, Resource=configmaps\": includeWhen dependency \"d\" not ready: node \"d\": no observed state: \
             waiting for readiness (data pending)"
        )
    );
    world.apply(&plan);
    assert_eq!(
        world::states(&world.plan()),
        "a SKIPPED, b SKIPPED, c SKIPPED, d SYNCED, e SKIPPED"
    );
    world.instance["spec"]["on"] = json!(true);
    let plan = world.plan();
    assert_eq!(world::applies(&plan), "a+ d");
    world.edit("ConfigMap", "d", |live| live["data"]["from"] = json!("y"));
    assert_eq!(
        world::applies(&world.plan()),
        "a+ d~ e+",
        "e reads what is there, before d is put right"
    );
    // What an includeWhen reads of the instance must be there.
    world.instance["spec"] = json!({});
    let plan = world.plan();
    assert_eq!(
        plan.failure.as_deref(),
        Some("includeWhen \"schema.spec.on\": eval \"schema.spec.on\": no such key: on")
    );
    assert_eq!(plan.state(), InstanceState::Error);
}

#[test]
fn collections_expand_to_the_product_of_their_dimensions() {
    let definition = json!({
        "schema": {"kind": "Grid", "apiVersion": "v1", "spec": {"a": "[]string", "b": "[]integer"},
            "status": {"names": "${cells.map(c, c.metadata.name)}"}},
        "resources": [{
            "id": "cells", "forEach": [{"x": "${schema.spec.a}"}, {"y": "${schema.spec.b}"}],
            "readyWhen": ["${each.data.ready == 'yes'}"],
            "template": {"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "${x + '-' + string(y)}"}, "data": {"ready": "no"}},
        }, {
            "id": "after", "template": {"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "after-${string(size(cells))}"}},
        }],
    });
    let mut instance = instance();
    instance["spec"] = json!({"a": ["p", "q"], "b": [1, 2]});
    let mut world = World::new(definition, instance);
    let plan = world.plan();
    let names: Vec<&str> = plan
        .applies
        .iter()
        .map(|apply| apply.reference.name.as_str())
        .collect();
    assert_eq!(names, ["p-1", "p-2", "q-1", "q-2"]);
    world.apply(&plan);
    let plan = world.plan();
    assert_eq!(
        world::states(&plan),
        "cells WAITING_FOR_READINESS, after IN_PROGRESS"
    );
    assert_eq!(
        plan.node("cells")
            .and_then(|node| node.message.clone())
            .as_deref(),
        Some(
            "waiting for node \"cells\": readyWhen condition evaluated to false: \"each.data.ready == 'yes'\" (waiting for \
             readiness)"
        )
    );
    // Ready by another's hand, which is drift here; the point is that one that is missing holds everything up.
    world.delete("ConfigMap", "q-2");
    let unresolved = world.plan().unresolved.expect("after waits");
    assert!(
        unresolved.contains("node \"cells\": collection not ready: observed 3 but desired 4"),
        "{unresolved}"
    );

    world.instance["spec"]["b"] = json!([]);
    let plan = world.plan();
    assert_eq!(
        world::applies(&plan),
        "after+",
        "an empty collection is ready"
    );
    assert_eq!(plan.applies[0].reference.name, "after-0");
    assert_eq!(plan.status, json!({"names": []}));
    assert_eq!(
        plan.node("cells").and_then(|node| node.desired_count),
        Some(0)
    );

    world.instance["spec"] = json!({"a": ["p", "p"], "b": [1]});
    assert_eq!(
        world.plan().failure.as_deref(),
        Some("node \"cells\" identity collision: duplicate identity: /v1/ConfigMap//p-1")
    );
    world.settings.collection_size_max = 3;
    world.instance["spec"] = json!({"a": ["p", "q"], "b": [1, 2]});
    assert_eq!(
        world.plan().failure.as_deref(),
        Some("collection size of 4 is over the maximum collection size of 3")
    );
}

#[test]
fn external_references_are_wanted_waited_for_and_read() {
    let definition = json!({
        "schema": {"kind": "Reader", "apiVersion": "v1", "spec": {"name": "string", "team": "string"},
            "status": {"keys": "${settings.data.map(k, k)}", "count": "${size(others)}"}},
        "resources": [
            {"id": "settings", "externalRef": {"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "${schema.spec.name}-settings"}}},
            {"id": "others", "externalRef": {"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"selector": {"matchLabels": {"team": "${schema.spec.team}"}}}}},
            {"id": "copy", "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "copy"},
                "data": {"from": "${settings.data.value}", "count": "${string(size(others))}"}}},
        ],
    });
    let mut instance = instance();
    instance["spec"] = json!({"name": "a", "team": "blue"});
    let mut world = World::new(definition, instance);
    let plan = world.plan();
    assert!(plan.incomplete && plan.applies.is_empty());
    let wanted: Vec<String> = plan
        .wanted
        .iter()
        .map(|wanted| {
            format!(
                "{} {:?} {:?}",
                wanted.gvr.resource, wanted.namespace, wanted.target
            )
        })
        .collect();
    assert_eq!(
        wanted,
        [
            "configmaps \"shop\" Name(\"a-settings\")",
            "configmaps \"\" Selector(\"team=blue\")"
        ]
    );
    for wanted in &plan.wanted {
        world.observed.external(wanted, Vec::new());
    }
    let plan = world.plan();
    assert!(!plan.incomplete);
    assert_eq!(
        world::states(&plan),
        "settings WAITING_FOR_READINESS, others SYNCED, copy IN_PROGRESS"
    );
    assert_eq!(
        world.condition("ResourcesReady").2,
        "resource reconciliation failed: apply results contain errors: waiting for external reference \"settings\": not found"
    );
    let settings = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a-settings"}, "data": {"value": "v"}});
    world
        .observed
        .external(&plan.wanted[0], vec![Arc::new(settings.clone())]);
    world.observed.external(
        &plan.wanted[1],
        vec![Arc::new(settings.clone()), Arc::new(settings)],
    );
    let plan = world.plan();
    assert_eq!(world::applies(&plan), "copy+");
    assert_eq!(
        plan.applies[0].object["data"],
        json!({"from": "v", "count": "2"})
    );
    assert_eq!(plan.inventory_after.group_kinds.len(), 1);
    world.apply(&plan);
    let plan = world.plan();
    assert!(plan.prune_allowed());
    assert_eq!(plan.status, json!({"keys": ["value"], "count": 2}));
    // A reference that changes is another one, which nobody has looked for.
    world.instance["spec"]["name"] = json!("b");
    assert!(world.plan().incomplete);
}

#[test]
fn a_selector_that_is_resolved_is_read_strictly() {
    let definition = json!({
        "schema": {"kind": "Reader", "apiVersion": "v1", "spec": {"selector": "object"}},
        "resources": [{"id": "all", "externalRef": {"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"selector": "${schema.spec.selector}"}}}],
    });
    let cases = [
        (json!({"matchLabels": {"a": "b"}}), Ok("a=b")),
        (json!({"matchlabels": {"a": "b"}}), Ok("a=b")),
        (json!({}), Ok("")),
        (
            json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["x", "y"]}]}),
            Ok("a in (x,y)"),
        ),
        (
            json!({"matchLabel": {}}),
            Err("failed to convert selector for all: json: unknown field \"matchLabel\""),
        ),
        (
            json!({"matchLabels": "x"}),
            Err(
                "failed to convert selector for all: json: cannot unmarshal string into Go struct field \
                 LabelSelector.matchLabels of type map[string]string",
            ),
        ),
        (
            json!({"matchExpressions": [{"key": "a", "operator": "Bad"}]}),
            Err("invalid label selector for all: \"Bad\" is not a valid label selector operator"),
        ),
    ];
    for (selector, want) in cases {
        let mut instance = instance();
        instance["spec"] = json!({"selector": selector});
        let plan = World::new(definition.clone(), instance).plan();
        let got = match (plan.wanted.first(), &plan.failure) {
            (
                Some(Wanted {
                    target: Target::Selector(text),
                    ..
                }),
                None,
            ) => Ok(text.as_str()),
            (_, failure) => Err(failure.as_deref().unwrap_or_default()),
        };
        assert_eq!(got, want, "{selector}");
    }
}

#[test]
fn a_missing_field_of_the_instance_is_waited_for_in_a_template() {
    let mut world = World::new(web(), instance());
    world.instance["spec"]
        .as_object_mut()
        .expect("a map")
        .remove("name");
    let plan = world.plan();
    assert!(plan.failure.is_none(), "{plan:?}");
    assert_eq!(
        plan.unresolved.as_deref(),
        Some(
            "gvr \"/v1, Resource=configmaps\": node \"config\": failed to evaluate expression: eval \
             \"${schema.spec.name}-config\": no such key: name (data pending)"
        )
    );
}

#[test]
fn a_namespaced_child_of_a_cluster_scoped_instance_names_its_namespace() {
    let definition = json!({
        "schema": {"kind": "Tenant", "apiVersion": "v1", "scope": "Cluster", "spec": {"name": "string", "ns": "string"}},
        "resources": [
            {"id": "namespace1", "template": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "${schema.spec.name}"}}},
            {"id": "config", "template": {"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "c", "namespace": "${schema.spec.ns}"}}},
        ],
    });
    let mut instance = instance();
    instance["metadata"]
        .as_object_mut()
        .expect("a map")
        .remove("namespace");
    instance["spec"] = json!({"name": "n", "ns": "other"});
    let mut world = World::new(definition, instance);
    let plan = world.plan();
    assert_eq!(plan.applies[1].reference.namespace, "other");
    assert_eq!(plan.applies[0].reference.namespace, "");
    assert!(
        plan.applies[0].object["metadata"]["labels"]
            .get("kro.run/instance-namespace")
            .is_none()
    );
    assert_eq!(plan.inventory_after.namespaces, ["other".to_owned()].into());
    world.instance["spec"]["ns"] = json!("");
    assert_eq!(
        world.plan().failure.as_deref(),
        Some(
            "node \"config\" is namespaced and must resolve metadata.namespace when the instance is cluster-scoped"
        )
    );
}

#[test]
fn an_object_without_a_name_is_not_asked_for() {
    let config = |id: &str, name: &str| json!({"id": id, "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}});
    let schema =
        json!({"kind": "Web", "apiVersion": "v1", "spec": {"name": "string", "names": "[]string"}});
    let mut instance = instance();
    instance["spec"] = json!({"name": "", "names": ["a", ""]});
    let single = json!({"schema": schema, "resources": [config("a", "${schema.spec.name}")]});
    let plan = World::new(single, instance.clone()).plan();
    assert_eq!(plan.failure.as_deref(), Some("name is required"));
    let mut many = config("a", "${n}");
    many["forEach"] = json!([{"n": "${schema.spec.names}"}]);
    let many = json!({"schema": schema, "resources": [many]});
    let plan = World::new(many, instance.clone()).plan();
    assert_eq!(world::changes(&plan), "a-0+");
    assert_eq!(
        plan.nodes[0].message.as_deref(),
        Some("collection item 1: name is required")
    );
    let external = json!({"schema": schema, "resources": [{"id": "e", "externalRef": {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "${schema.spec.name}"},
    }}]});
    assert_eq!(
        World::new(external, instance).plan().failure.as_deref(),
        Some("external ref get /v1, Kind=ConfigMap shop/: name is required")
    );
}

#[test]
fn expressions_never_see_the_status_of_the_instance() {
    let definition = json!({
        "schema": {"kind": "Web", "apiVersion": "v1", "spec": {"name": "string"}},
        "resources": [{"id": "a", "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
            "data": {"all": "${json.marshal(schema)}"}}}],
    });
    let mut instance = instance();
    instance["status"] = json!({"state": "ACTIVE"});
    let plan = World::new(definition, instance).plan();
    let all = plan.applies[0].object["data"]["all"]
        .as_str()
        .expect("a text");
    assert!(all.contains("\"spec\"") && !all.contains("ACTIVE"), "{all}");
}

#[test]
fn a_graph_knows_what_it_reads_of_its_children() {
    let world = World::new(web(), instance());
    let reads = |id: &str| -> Vec<String> {
        world
            .graph
            .node(id)
            .map(|node| node.reads().iter().cloned().collect())
            .expect("is there")
    };
    assert_eq!(
        reads("deployment"),
        ["metadata.name", "spec.replicas", "status.readyReplicas"]
    );
    assert_eq!(reads("service"), ["metadata.name", "spec.clusterIP"]);
    assert_eq!(
        reads("workers"),
        [""],
        "what a macro reads of each is not told apart"
    );
    assert!(reads("ingress").is_empty());
    let kinds: Vec<String> = world
        .graph
        .child_kinds()
        .iter()
        .map(|kind| format!("{} {}", kind.gvr.resource, kind.applied))
        .collect();
    assert_eq!(
        kinds,
        [
            "configmaps true",
            "services true",
            "deployments true",
            "ingresses true"
        ]
    );
}

/// A definition of configurations that each hold what an expression makes.
fn heavy(count: usize, expression: &str) -> Value {
    let resources: Vec<Value> = (0..count)
        .map(|index| {
            json!({"id": format!("config{index}"), "template": {
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": format!("heavy-{index}")},
                "data": {"value": format!("${{{expression}}}")},
            }})
        })
        .collect();
    json!({
        "schema": {"kind": "Heavy", "apiVersion": "v1alpha1", "spec": {"name": "string", "count": "integer | default=1"}},
        "resources": resources,
    })
}

fn heavy_instance() -> Value {
    json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "Heavy",
        "metadata": {"name": "demo", "namespace": "shop", "uid": "u-1", "generation": 1},
        "spec": {"name": "demo", "count": 5_000_000},
    })
}

#[test]
fn a_plan_ends_when_its_steps_are_used_up_and_says_so() {
    let expression = "string(lists.range(schema.spec.count).map(i, i * i).size())";
    let world = World::new(heavy(1, expression), heavy_instance());
    let plan = world.plan();
    let failure = plan.failure.expect("it fails");
    assert!(failure.contains("actual cost limit exceeded"), "{failure}");
    assert!(plan.is_hopeless, "and would again");
    assert!(plan.applies.is_empty(), "nothing is written");
}

#[test]
fn the_expressions_of_a_plan_share_its_steps() {
    let expression =
        |index: usize| format!("string(lists.range(400000 + {index}).filter(i, i > 5).size())");
    let mut definition = heavy(30, "''");
    let resources = definition["resources"].as_array_mut().expect("resources");
    for (index, resource) in resources.iter_mut().enumerate() {
        resource["template"]["data"]["value"] = json!(format!("${{{}}}", expression(index)));
    }
    let few = json!(resources.iter().take(3).cloned().collect::<Vec<_>>());
    let all = World::new(definition.clone(), heavy_instance()).plan();
    let failure = all.failure.expect("together they take too long");
    assert!(failure.contains("actual cost limit exceeded"), "{failure}");
    definition["resources"] = few;
    let plan = World::new(definition, heavy_instance()).plan();
    assert_eq!(plan.failure, None, "each by itself does not");
}

#[test]
fn a_plan_in_passing_gives_up_where_a_whole_one_goes_on() {
    let quick = |world: &World| {
        world.graph.plan_quickly(&PlanInput {
            instance: &world.instance,
            observed: &world.observed,
            settings: &world.settings,
        })
    };
    let long = World::new(
        heavy(1, "string(lists.range(100000).filter(i, i > 5).size())"),
        heavy_instance(),
    );
    assert!(quick(&long).is_none(), "it takes too long");
    assert_eq!(
        long.plan().failure,
        None,
        "but not too long for another thread"
    );
    let web = World::new(web(), instance());
    let planned = quick(&web).expect("what people write");
    assert_eq!(format!("{planned:?}"), format!("{:?}", web.plan()));
}

#[test]
fn the_objects_of_a_plan_are_bounded_together() {
    let definition = json!({
        "schema": {"kind": "Heavy", "apiVersion": "v1alpha1", "spec": {"name": "string", "text": "string", "names": "[]string"}},
        "resources": [{"id": "configs", "forEach": [{"name": "${schema.spec.names}"}], "template": {
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "${name}"},
            "data": {"text": "${schema.spec.text}"},
        }}],
    });
    let mut instance = heavy_instance();
    let names: Vec<String> = (0..1_000).map(|index| format!("c{index}")).collect();
    instance["spec"] = json!({"name": "demo", "text": "x".repeat(1_000_000), "names": names});
    let plan = World::new(definition.clone(), instance.clone()).plan();
    let failure = plan.failure.expect("a gigabyte");
    assert!(failure.contains("bytes of memory together"), "{failure}");
    instance["spec"]["text"] = json!("x".repeat(10_000));
    let plan = World::new(definition, instance).plan();
    assert_eq!(plan.failure, None, "10 MB are what a thousand objects have");
    assert_eq!(plan.applies.len(), 1_000);
}

#[test]
fn only_what_is_the_instances_own_is_changed_or_shown() {
    let live = |labels: Value| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "demo-config", "namespace": "shop", "uid": "u", "labels": labels},
            "data": {"replicas": "1"},
        })
    };
    let set = crate::applyset_id(&instance());
    let marked =
        |hub: &str| json!({"applyset.kubernetes.io/part-of": set, "wheelhouse.dev/hub": hub});
    let own = Claim::Own("u".to_owned());
    for (name, labels, claimed, takes_over, want) in [
        ("nobody's", json!({}), "", false, Claim::Foreign),
        (
            "nobody's, and to be taken over",
            json!({}),
            "",
            true,
            Claim::Taken("u".to_owned()),
        ),
        ("the ledger's", json!({}), "u", false, own.clone()),
        (
            "another of the ledger's name",
            json!({}),
            "before",
            false,
            Claim::Foreign,
        ),
        ("marked", marked("hub-a"), "", false, own.clone()),
        (
            "kro's",
            json!({"applyset.kubernetes.io/part-of": set}),
            "",
            false,
            own,
        ),
        ("another hub's", marked("hub-b"), "", false, Claim::Foreign),
        (
            "another set's, whatever the definition says",
            json!({"applyset.kubernetes.io/part-of": "other"}),
            "u",
            true,
            Claim::Foreign,
        ),
    ] {
        let mut world = World::new(web(), instance());
        let hub = ("wheelhouse.dev/hub".to_owned(), "hub-a".to_owned());
        world.settings.extra_labels.extend([hub]);
        world.observed.child(Arc::new(live(labels)));
        let plan = world.plan();
        let reference = plan.applies[0].reference.clone();
        world.observed.claimed(&reference, claimed);
        if takes_over {
            world.observed.take_over();
        }
        let plan = world.plan();
        assert_eq!(plan.applies[0].claim, want, "{name}");
        let is_foreign = want == Claim::Foreign;
        assert_eq!(
            plan.nodes[0].state == NodeState::Error,
            is_foreign,
            "{name}"
        );
        let changes = plan.changes().any(|apply| apply.reference == reference);
        assert_eq!(changes, !is_foreign, "{name}");
        // What is not the instance's own yet is shown to no expression, and not counted.
        let is_shown = plan.nodes[0].observed_count == 1;
        assert_eq!(is_shown, matches!(want, Claim::Own(_)), "{name}");
    }
}

#[test]
fn only_names_are_asked_for() {
    let definition = json!({
        "schema": {"kind": "Any", "apiVersion": "v1alpha1", "spec": {"name": "string", "ns": "string"}},
        "resources": [
            {"id": "read", "externalRef": {
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "${schema.spec.name}", "namespace": "${schema.spec.ns}"},
            }},
        ],
    });
    let long = "n".repeat(300);
    for (name, ns, want) in [
        ("a", "b", None),
        ("system:a b", "b", None),
        (
            "a",
            "kube-system/secrets?a=",
            Some("metadata.namespace \"kube-system/secrets?a=\""),
        ),
        ("a", "..", Some("metadata.namespace \"..\"")),
        ("a", "A", Some("metadata.namespace \"A\"")),
        ("..", "b", Some("metadata.name \"..\"")),
        ("a/b", "b", Some("metadata.name \"a/b\"")),
        ("a%2fb", "b", Some("metadata.name \"a%2fb\"")),
        ("a\nb", "b", Some("metadata.name \"a\\nb\"")),
        (&long, "b", Some("...\": must be no more than 253 bytes")),
    ] {
        let mut world = World::new(definition.clone(), instance());
        world.instance["spec"] = json!({"name": name, "ns": ns});
        let plan = world.plan();
        assert_eq!(
            plan.wanted.len(),
            usize::from(want.is_none()),
            "{name} {ns}"
        );
        let failure = plan.failure.unwrap_or_default();
        match want {
            None => assert_eq!(failure, "", "{name} {ns}"),
            Some(want) => assert!(failure.contains(want), "{failure}"),
        }
    }
}
