//! Definitions through the handlers, over a real store.

use serde_json::{Value, json};

use super::bench::{Bench, CRDS, MERGE, WIDGETS, widget, widgets};

fn condition<'a>(definition: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = definition["status"]["conditions"].as_array()?;
    conditions
        .iter()
        .find(|condition| condition["type"] == kind)
}

#[tokio::test]
async fn a_definition_is_established_and_served() {
    let bench = Bench::new().await;
    let made = bench.post(CRDS, &widgets()).await.expect(201);
    assert_eq!(made["spec"]["names"]["listKind"], "WidgetList");
    assert_eq!(made["spec"]["names"]["singular"], "widget");
    assert_eq!(made["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(made["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(made["metadata"]["generation"], 1);
    bench
        .post(WIDGETS, &widget("a", &json!({})))
        .await
        .expect(201);
    let path = format!("{CRDS}/widgets.example.com");
    let ready = bench
        .until(&path, |answer| {
            condition(&answer.body, "Established").is_some()
        })
        .await
        .body;
    for (kind, reason, message) in [
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        (
            "Established",
            "InitialNamesAccepted",
            "the initial names have been accepted",
        ),
    ] {
        let found = condition(&ready, kind).expect(kind);
        assert_eq!(
            (&found["status"], &found["reason"], &found["message"]),
            (&json!("True"), &json!(reason), &json!(message))
        );
    }
    assert_eq!(
        ready["status"]["acceptedNames"]["shortNames"],
        json!(["wd"])
    );
    assert_eq!(
        ready["metadata"]["generation"], 1,
        "status is not desired state"
    );
    let elsewhere = bench
        .get("/clusters/east/apis/example.com/v1/namespaces/default/widgets")
        .await;
    assert_eq!(
        elsewhere.body,
        json!("404 page not found"),
        "a definition is one cluster's"
    );
}

#[tokio::test]
async fn bad_definitions_are_refused() {
    let bench = Bench::new().await;
    let mut wrong_name = widgets();
    wrong_name["metadata"]["name"] = json!("gadgets.example.com");
    let answer = bench.post(CRDS, &wrong_name).await;
    assert_eq!(
        (answer.code, answer.message()),
        (
            422,
            "CustomResourceDefinition.apiextensions.k8s.io \"gadgets.example.com\" is invalid: metadata.name: Invalid \
             value: \"gadgets.example.com\": must be spec.names.plural+\".\"+spec.group"
        )
    );
    let mut untyped = widgets();
    untyped["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        ["bad"] = json!({});
    assert_eq!(bench.post(CRDS, &untyped).await.code, 422);
}

#[tokio::test]
async fn the_second_who_wants_a_name_does_not_get_it() {
    let bench = Bench::with_widgets().await;
    let mut second = widgets();
    second["metadata"]["name"] = json!("gadgets.example.com");
    second["spec"]["names"] = json!({"plural": "gadgets", "kind": "Gadget", "shortNames": ["wd"]});
    bench.post(CRDS, &second).await.expect(201);
    let path = format!("{CRDS}/gadgets.example.com");
    let refused = bench
        .until(&path, |answer| {
            condition(&answer.body, "NamesAccepted").is_some()
        })
        .await
        .body;
    let names = condition(&refused, "NamesAccepted").expect("a condition");
    assert_eq!(
        (&names["status"], &names["reason"]),
        (&json!("False"), &json!("ShortNamesConflict"))
    );
    assert_eq!(names["message"], "\"wd\" is already in use");
    assert_eq!(
        condition(&refused, "Established").expect("a condition")["status"],
        "False"
    );
    let gadgets = "/apis/example.com/v1/namespaces/default/gadgets";
    assert_eq!(bench.get(gadgets).await.body, json!("404 page not found"));
    bench
        .delete(&format!("{CRDS}/widgets.example.com"))
        .await
        .expect(200);
    bench
        .until(&path, |answer| {
            condition(&answer.body, "Established").is_some_and(|found| found["status"] == "True")
        })
        .await;
    assert_eq!(bench.get(gadgets).await.code, 200, "the name is free now");
}

#[tokio::test]
async fn a_field_that_the_schema_no_longer_has_is_not_served() {
    // As of a kube-apiserver 1.36: what is read from the store is pruned too, in the version that it is stored in.
    let bench = Bench::with_widgets().await;
    let spec = json!({"size": 2, "labels": {"a": "b"}});
    bench.post(WIDGETS, &widget("old", &spec)).await.expect(201);
    let path = format!("{CRDS}/widgets.example.com");
    let mut definition = bench.get(&path).await.expect(200);
    for version in [0, 1] {
        let schema = &mut definition["spec"]["versions"][version]["schema"]["openAPIV3Schema"];
        let fields = schema["properties"]["spec"]["properties"].as_object_mut();
        fields.expect("the fields").remove("labels");
    }
    bench.put(&path, &definition).await.expect(200);
    let old = bench
        .until(&format!("{WIDGETS}/old"), |answer| {
            answer.body["spec"]["labels"].is_null()
        })
        .await;
    assert_eq!(old.body["spec"], json!({"size": 2}), "the rest stays");
    let listed = bench.get(WIDGETS).await.expect(200);
    assert_eq!(listed["items"][0]["spec"], json!({"size": 2}), "in a list");
}

#[tokio::test]
async fn a_definition_goes_after_its_instances() {
    let bench = Bench::with_widgets().await;
    let path = format!("{CRDS}/widgets.example.com");
    bench
        .until(&path, |answer| {
            condition(&answer.body, "Established").is_some()
        })
        .await;
    let mut held = widget("held", &json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    bench.post(WIDGETS, &held).await.expect(201);
    bench
        .post(WIDGETS, &widget("free", &json!({})))
        .await
        .expect(201);
    let marked = bench.delete(&path).await.expect(200);
    assert_eq!(
        marked["metadata"]["finalizers"],
        json!(["customresourcecleanup.apiextensions.k8s.io"])
    );
    assert_eq!(
        condition(&marked, "Terminating").expect("a condition")["reason"],
        "InstanceDeletionPending"
    );
    bench
        .until(&format!("{WIDGETS}/free"), |answer| answer.code == 404)
        .await;
    let late = bench.post(WIDGETS, &widget("late", &json!({}))).await;
    assert_eq!(
        (late.code, late.message()),
        (
            403,
            "widgets.example.com \"late\" is forbidden: create not allowed while custom resource definition is terminating"
        )
    );
    let release = json!({"metadata": {"finalizers": null}});
    bench
        .patch(&format!("{WIDGETS}/held"), MERGE, &release)
        .await
        .expect(200);
    bench.until(&path, |answer| answer.code == 404).await;
    bench
        .until(WIDGETS, |answer| answer.body == json!("404 page not found"))
        .await;
    bench.post(CRDS, &widgets()).await.expect(201);
    let empty = bench.get(WIDGETS).await.expect(200);
    assert_eq!(empty["items"], json!([]));
}

#[tokio::test]
async fn a_cluster_is_there_while_its_spoke_is() {
    let bench = Bench::new().await;
    let path = "/clusters/east/api/v1/pods";
    assert_eq!(bench.get(path).await.code, 200);
    let served = |cluster: &str| {
        bench
            .registry
            .served(&api::ClusterScope::One(cluster.parse().expect("a name")))
    };
    assert!(served("east").is_some());
    bench
        .delete("/apis/wheelhouse.dev/v1alpha1/spokes/east")
        .await
        .expect(200);
    assert!(served("east").is_none());
    assert_eq!(bench.get(path).await.body, json!("404 page not found"));
}
