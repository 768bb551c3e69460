//! Patches through the handlers, over a real store.

use http::Method;
use serde_json::json;

use super::bench::{APPLY, Bench, JSON, JSON_PATCH, MERGE, STRATEGIC, WIDGETS, widget};

#[tokio::test]
async fn each_kind_of_patch_changes_what_it_says() {
    let bench = Bench::with_widgets().await;
    bench
        .post(WIDGETS, &widget("a", &json!({"size": 2, "color": "red"})))
        .await
        .expect(201);
    let path = format!("{WIDGETS}/a");
    let merged = bench
        .patch(&path, MERGE, &json!({"spec": {"size": 3, "color": null}}))
        .await
        .expect(200);
    assert_eq!(merged["spec"], json!({"size": 3}));
    let operations = json!([
        {"op": "test", "path": "/spec/size", "value": 3}, {"op": "add", "path": "/spec/color", "value": "blue"},
    ]);
    let patched = bench
        .patch(&path, JSON_PATCH, &operations)
        .await
        .expect(200);
    assert_eq!(patched["spec"], json!({"size": 3, "color": "blue"}));
    let nothing = bench
        .patch(&path, MERGE, &json!({"spec": {"size": 3}}))
        .await
        .expect(200);
    assert_eq!(
        nothing["metadata"]["resourceVersion"],
        patched["metadata"]["resourceVersion"]
    );
    let strategic = bench.patch(&path, STRATEGIC, &json!({})).await;
    assert_eq!(
        (strategic.code, strategic.message()),
        (
            415,
            "the body of the request was in an unknown format - accepted media types include: \
             application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
        )
    );
}

#[tokio::test]
async fn patches_that_cannot_be_are_refused() {
    let bench = Bench::with_widgets().await;
    bench
        .post(WIDGETS, &widget("a", &json!({"size": 2})))
        .await
        .expect(201);
    let path = format!("{WIDGETS}/a");
    for (name, media, body, code, message) in [
        (
            "test fails",
            JSON_PATCH,
            json!([{"op": "test", "path": "/spec/size", "value": 9}]),
            422,
            "the server rejected our request due to an error in our request",
        ),
        (
            "invalid result",
            MERGE,
            json!({"spec": {"size": 99}}),
            422,
            "Widget.example.com \"a\" is invalid: spec.size: Invalid value: 99: spec.size in body should be less than or equal to 10",
        ),
        (
            "other name",
            MERGE,
            json!({"metadata": {"name": "b"}}),
            400,
            "the name of the object (b) does not match the name on the URL (a)",
        ),
        (
            "stale",
            MERGE,
            json!({"metadata": {"resourceVersion": "1000000000000001"}}),
            409,
            "Operation cannot be fulfilled on widgets.example.com \"a\": the object has been modified; please apply your changes to the latest version and try again",
        ),
    ] {
        let answer = bench.patch(&path, media, &body).await;
        assert_eq!((answer.code, answer.message()), (code, message), "{name}");
    }
    let absent = bench
        .patch(&format!("{WIDGETS}/b"), MERGE, &json!({}))
        .await;
    assert_eq!(
        (absent.code, absent.message()),
        (404, "widgets.example.com \"b\" not found")
    );
    let broken = bench.send(Method::PATCH, &path, MERGE, "{".into()).await;
    assert_eq!(broken.code, 400, "{}", broken.message());
}

#[tokio::test]
async fn an_apply_creates_merges_and_respects_owners() {
    let bench = Bench::with_widgets().await;
    let path = |manager: &str| format!("{WIDGETS}/a?fieldManager={manager}");
    let config = |spec: serde_json::Value| widget("a", &spec);
    let made = bench
        .patch(
            &path("one"),
            APPLY,
            &config(json!({"size": 2, "color": "red"})),
        )
        .await
        .expect(201);
    assert_eq!(made["metadata"]["managedFields"][0]["operation"], "Apply");
    let same = bench
        .patch(
            &path("one"),
            APPLY,
            &config(json!({"size": 2, "color": "red"})),
        )
        .await
        .expect(200);
    assert_eq!(
        same["metadata"]["resourceVersion"],
        made["metadata"]["resourceVersion"]
    );
    let conflict = bench
        .patch(&path("two"), APPLY, &config(json!({"size": 3})))
        .await;
    assert_eq!(
        (conflict.code, conflict.message()),
        (
            409,
            "Apply failed with 1 conflict: conflict with \"one\": .spec.size"
        )
    );
    assert_eq!(
        conflict.body["details"]["causes"][0]["reason"],
        "FieldManagerConflict"
    );
    let forced = format!("{}&force=true", path("two"));
    let forced = bench
        .patch(&forced, APPLY, &config(json!({"size": 3})))
        .await
        .expect(200);
    assert_eq!(forced["spec"]["size"], 3);
    let dropped = bench
        .patch(&path("one"), APPLY, &config(json!({})))
        .await
        .expect(200);
    assert_eq!(
        dropped["spec"],
        json!({"size": 3}),
        "what nobody wants any more goes"
    );
}

#[tokio::test]
async fn an_apply_that_makes_no_sense_is_refused() {
    let bench = Bench::with_widgets().await;
    let path = |manager: &str| format!("{WIDGETS}/a?fieldManager={manager}");
    let config = |spec: serde_json::Value| widget("a", &spec);
    for (name, path, body, code, message) in [
        (
            "no manager",
            format!("{WIDGETS}/a"),
            config(json!({})),
            422,
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
        ),
        (
            "unknown field",
            path("one"),
            config(json!({"nope": 1})),
            500,
            "failed to create typed patch object (/a; example.com/v1, Kind=Widget): .spec.nope: field not declared in schema",
        ),
        (
            "other kind",
            path("one"),
            json!({"apiVersion": "v1", "kind": "ConfigMap"}),
            400,
            "invalid object type: /v1, Kind=ConfigMap",
        ),
        (
            "owners",
            path("one"),
            json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a", "managedFields": []}}),
            400,
            "metadata.managedFields must be nil",
        ),
    ] {
        let answer = bench.patch(&path, APPLY, &body).await;
        assert_eq!((answer.code, answer.message()), (code, message), "{name}");
    }
}

#[tokio::test]
async fn an_apply_in_yaml_tells_duplicates_by_their_line() {
    let bench = Bench::with_widgets().await;
    let yaml = "apiVersion: example.com/v1\nkind: Widget\nmetadata:\n  name: a\nspec:\n  size: 1\n  size: 2\n";
    let path = format!("{WIDGETS}/a?fieldManager=one");
    let strict = format!("{path}&fieldValidation=Strict");
    let strict = bench.send(Method::PATCH, &strict, APPLY, yaml.into()).await;
    assert_eq!(strict.code, 400, "{}", strict.message());
    assert!(
        strict
            .message()
            .ends_with("line 7: key \"size\" already set in map"),
        "{}",
        strict.message()
    );
    let warned = bench.send(Method::PATCH, &path, APPLY, yaml.into()).await;
    assert_eq!(warned.warnings, ["line 7: key \"size\" already set in map"]);
    assert_eq!(warned.expect(201)["spec"]["size"], 2);
}

#[tokio::test]
async fn built_in_kinds_merge_lists_by_key() {
    let bench = Bench::new().await;
    let path = "/clusters/east/apis/apps/v1/namespaces/default/deployments";
    let labels = json!({"app": "web"});
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]},
            },
        },
    });
    let made = bench.post(path, &deployment).await.expect(201);
    assert_eq!(made["spec"]["replicas"], 1, "defaults of Go are filled in");
    assert_eq!(made["spec"]["strategy"]["type"], "RollingUpdate");
    let patch =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "b", "image": "b:2"}]}}}});
    let patched = bench
        .patch(&format!("{path}/web"), STRATEGIC, &patch)
        .await
        .expect(200);
    let containers = &patched["spec"]["template"]["spec"]["containers"];
    let images: Vec<_> = containers
        .as_array()
        .expect("containers")
        .iter()
        .map(|it| &it["image"])
        .collect();
    assert_eq!(images, [&json!("a:1"), &json!("b:2")]);
    assert_eq!(patched["metadata"]["generation"], 2);
    let scaled = bench
        .patch(
            &format!("{path}/web/scale"),
            MERGE,
            &json!({"spec": {"replicas": 4}}),
        )
        .await
        .expect(200);
    assert_eq!(
        (&scaled["kind"], &scaled["spec"]["replicas"]),
        (&json!("Scale"), &json!(4))
    );
    assert_eq!(
        scaled["status"],
        json!({"replicas": 0, "selector": "app=web"})
    );
    let after = bench.get(&format!("{path}/web")).await.expect(200);
    assert_eq!(after["spec"]["replicas"], 4);
    let wrong = json!({"metadata": {"name": "x"}, "spec": {"replicas": "two"}});
    let wrong = bench
        .send(Method::POST, path, JSON, wrong.to_string().into())
        .await;
    assert_eq!(
        (wrong.code, wrong.message()),
        (
            400,
            "Deployment in version \"v1\" cannot be handled as a Deployment: json: cannot unmarshal string into Go \
             struct field DeploymentSpec.spec.replicas of type int32"
        )
    );
}

#[tokio::test]
async fn the_scale_of_a_custom_resource_is_read_and_written() {
    let bench = Bench::with_widgets().await;
    bench
        .post(WIDGETS, &widget("a", &json!({})))
        .await
        .expect(201);
    let scale = format!("{WIDGETS}/a/scale");
    let missing = bench.get(&scale).await;
    assert_eq!(
        (missing.code, missing.message()),
        (
            500,
            "Internal error occurred: the spec replicas field \".spec.replicas\" does not exist"
        )
    );
    bench
        .patch(
            &format!("{WIDGETS}/a"),
            MERGE,
            &json!({"spec": {"replicas": 2}}),
        )
        .await
        .expect(200);
    let mut read = bench.get(&scale).await.expect(200);
    read["spec"]["replicas"] = json!(5);
    let written = bench.put(&scale, &read).await.expect(200);
    assert_eq!(written["spec"]["replicas"], 5);
    let owners =
        bench.get(&format!("{WIDGETS}/a")).await.expect(200)["metadata"]["managedFields"].clone();
    assert!(
        owners
            .as_array()
            .expect("owners")
            .iter()
            .any(|owner| owner["subresource"] == "scale"),
        "{owners}"
    );
    let stale = bench.put(&scale, &read).await;
    assert_eq!(stale.code, 409, "{}", stale.message());
    read["spec"]["replicas"] = json!(-1);
    read["metadata"]["resourceVersion"] = written["metadata"]["resourceVersion"].clone();
    let negative = bench.put(&scale, &read).await;
    assert_eq!(negative.code, 422, "{}", negative.message());
}
