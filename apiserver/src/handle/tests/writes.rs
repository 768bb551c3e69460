//! Writes through the handlers, over a real store.

use api::GroupResource;
use http::Method;
use serde_json::{Value, json};
use storage::Write;

use super::bench::{Bench, CRDS, JSON, MERGE, WIDGETS, widget};
use crate::objects::ResourcePrefix;

#[tokio::test]
async fn what_is_created_is_what_is_read_and_listed() {
    let bench = Bench::with_widgets().await;
    let sent = widget("a", &json!({"color": "red"}));
    let made = bench.post(WIDGETS, &sent).await.expect(201);
    let metadata = &made["metadata"];
    assert_eq!(metadata["generation"], 1);
    assert_eq!(metadata["namespace"], "default");
    assert_eq!(metadata["uid"].as_str().map(str::len), Some(36));
    assert_eq!(metadata["resourceVersion"].as_str().map(str::len), Some(16));
    assert_eq!(
        made["spec"],
        json!({"color": "red", "size": 1}),
        "defaults are filled in"
    );
    let owner = &metadata["managedFields"][0];
    assert_eq!(owner["manager"], "kubectl");
    assert_eq!(owner["operation"], "Update");
    assert_eq!(bench.get(&format!("{WIDGETS}/a")).await.expect(200), made);
    assert_eq!(bench.get(WIDGETS).await.expect(200)["items"], json!([made]));
    let again = bench.post(WIDGETS, &sent).await;
    assert_eq!(again.message(), "widgets.example.com \"a\" already exists");
    assert_eq!(
        (again.code, &again.body["reason"]),
        (409, &json!("AlreadyExists"))
    );
}

#[tokio::test]
async fn clients_cannot_say_what_the_server_says() {
    let bench = Bench::with_widgets().await;
    let mut sent = widget("a", &json!({}));
    sent["metadata"]["uid"] = json!("mine");
    sent["metadata"]["creationTimestamp"] = json!("2001-01-01T00:00:00Z");
    sent["metadata"]["deletionTimestamp"] = json!("2001-01-01T00:00:00Z");
    sent["metadata"]["generation"] = json!(7);
    sent["status"] = json!({"phase": "Fine"});
    let made = bench.post(WIDGETS, &sent).await.expect(201);
    assert_ne!(made["metadata"]["uid"], "mine");
    assert_eq!(made["metadata"]["generation"], 1);
    assert_eq!(made["metadata"].get("deletionTimestamp"), None);
    assert_eq!(
        made.get("status"),
        None,
        "status has an endpoint of its own"
    );
}

/// What follows a finding that makes rules meaningless.
const UNCHECKED: &str = "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";

#[tokio::test]
async fn bad_objects_are_refused_in_kubernetes_words() {
    let bench = Bench::with_widgets().await;
    let invalid = |rest: &str| format!("Widget.example.com \"a\" is invalid: {rest}");
    for (name, object, code, message) in [
        ("type", widget("a", &json!({"size": "big"})), 422, invalid(&format!("[spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\", {UNCHECKED}]"))),
        ("bound", widget("a", &json!({"size": 11})), 422, invalid("spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10")),
        ("rule", widget("a", &json!({"color": "mauve"})), 422, invalid("spec: Invalid value: no mauve")),
        ("set", widget("a", &json!({"tags": ["x", "x"]})), 422, invalid("spec.tags[1]: Duplicate value: \"x\"")),
        (
            "name",
            widget("A", &json!({})),
            422,
            "Widget.example.com \"A\" is invalid: metadata.name: Invalid value: \"A\": a lowercase RFC 1123 subdomain \
             must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an \
             alphanumeric character (e.g. 'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')".to_owned(),
        ),
        (
            "no name",
            json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {}}),
            422,
            format!("Widget.example.com \"\" is invalid: [metadata.name: Required value: name or generateName is required, {UNCHECKED}]"),
        ),
        (
            "version",
            json!({"apiVersion": "example.com/v2", "kind": "Widget", "metadata": {"name": "a"}}),
            400,
            "the API version in the data (example.com/v2) does not match the expected API version (example.com/v1)".to_owned(),
        ),
        (
            "kind",
            json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "a"}}),
            422,
            "Gadget.example.com \"a\" is invalid: kind: Invalid value: \"Gadget\": must be Widget".to_owned(),
        ),
        (
            "namespace",
            json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a", "namespace": "other"}}),
            400,
            "the namespace of the provided object does not match the namespace sent on the request".to_owned(),
        ),
    ] {
        let answer = bench.post(WIDGETS, &object).await;
        assert_eq!((answer.code, answer.message()), (code, message.as_str()), "{name}");
    }
}

#[tokio::test]
async fn unknown_fields_are_told_as_the_client_wants_it() {
    let bench = Bench::with_widgets().await;
    let object = widget("a", &json!({"colour": "red", "size": 2}));
    let strict = bench
        .post(&format!("{WIDGETS}?fieldValidation=Strict"), &object)
        .await;
    assert_eq!(
        (strict.code, strict.message()),
        (
            400,
            "Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: unknown field \"spec.colour\""
        )
    );
    let ignored = bench
        .post(
            &format!("{WIDGETS}?fieldValidation=Ignore&dryRun=All"),
            &object,
        )
        .await;
    assert_eq!(ignored.warnings, Vec::<String>::new());
    let warned = bench.post(WIDGETS, &object).await;
    assert_eq!(warned.warnings, ["unknown field \"spec.colour\""]);
    assert_eq!(warned.expect(201)["spec"], json!({"size": 2}));
    let twice = br#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"b"},"spec":{"size":1,"size":2}}"#;
    let path = format!("{WIDGETS}?fieldValidation=Strict");
    let strict = bench
        .send(Method::POST, &path, JSON, twice.as_slice().into())
        .await;
    assert!(
        strict
            .message()
            .ends_with("strict decoding error: duplicate field \"spec.size\""),
        "{}",
        strict.message()
    );
}

#[tokio::test]
async fn generated_names_are_unique_and_dry_runs_store_nothing() {
    let bench = Bench::with_widgets().await;
    let mut object = widget("", &json!({}));
    object["metadata"] = json!({"generateName": "w-"});
    let first = bench.post(WIDGETS, &object).await.expect(201);
    let second = bench.post(WIDGETS, &object).await.expect(201);
    let name = first["metadata"]["name"].as_str().expect("a name");
    assert!(name.starts_with("w-") && name.len() == 7, "{name}");
    assert_ne!(first["metadata"]["name"], second["metadata"]["name"]);
    let dry = bench
        .post(&format!("{WIDGETS}?dryRun=All"), &widget("dry", &json!({})))
        .await
        .expect(201);
    assert_eq!(dry["metadata"].get("resourceVersion"), None);
    assert!(dry["metadata"]["uid"].is_string());
    assert_eq!(bench.get(&format!("{WIDGETS}/dry")).await.code, 404);
}

#[tokio::test]
async fn an_update_needs_the_version_that_is_there() {
    let bench = Bench::with_widgets().await;
    let made = bench
        .post(WIDGETS, &widget("a", &json!({"size": 2})))
        .await
        .expect(201);
    let path = format!("{WIDGETS}/a");
    let mut changed = made.clone();
    changed["spec"]["size"] = json!(3);
    let updated = bench.put(&path, &changed).await.expect(200);
    assert_eq!(updated["metadata"]["generation"], 2);
    let stale = bench.put(&path, &changed).await;
    assert_eq!(
        (stale.code, stale.message()),
        (
            409,
            "Operation cannot be fulfilled on widgets.example.com \"a\": the object has been modified; please apply \
             your changes to the latest version and try again"
        )
    );
    let mut blind = changed.clone();
    blind["metadata"]
        .as_object_mut()
        .expect("metadata")
        .remove("resourceVersion");
    let blind = bench.put(&path, &blind).await;
    assert_eq!(
        (blind.code, blind.message()),
        (
            422,
            "widgets.example.com \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"
        )
    );
    let mut other = updated.clone();
    other["metadata"]["uid"] = json!("other");
    let other = bench.put(&path, &other).await;
    assert!(
        other
            .message()
            .contains("Precondition failed: UID in precondition: other"),
        "{}",
        other.message()
    );
    let same = bench.put(&path, &updated).await.expect(200);
    assert_eq!(same, updated, "a write that changes nothing is none");
    let absent = bench
        .put(&format!("{WIDGETS}/b"), &widget("b", &json!({})))
        .await;
    assert_eq!(
        (absent.code, absent.message()),
        (404, "widgets.example.com \"b\" not found")
    );
}

#[tokio::test]
async fn status_and_the_rest_are_written_apart() {
    let bench = Bench::with_widgets().await;
    let made = bench
        .post(WIDGETS, &widget("a", &json!({"size": 2})))
        .await
        .expect(201);
    let mut changed = made.clone();
    changed["status"] = json!({"phase": "Fine"});
    changed["spec"]["size"] = json!(9);
    changed["metadata"]["labels"] = json!({"a": "b"});
    let written = bench
        .put(&format!("{WIDGETS}/a/status"), &changed)
        .await
        .expect(200);
    assert_eq!(written["status"], json!({"phase": "Fine"}));
    assert_eq!(written["spec"]["size"], 2);
    assert_eq!(written["metadata"].get("labels"), None);
    assert_eq!(
        written["metadata"]["generation"], 1,
        "status is not desired state"
    );
    let owners = written["metadata"]["managedFields"]
        .as_array()
        .expect("owners");
    assert!(
        owners.iter().any(|owner| owner["subresource"] == "status"),
        "{owners:?}"
    );
    let mut main = written.clone();
    main["status"] = json!({"phase": "Other"});
    main["spec"]["size"] = json!(4);
    let main = bench.put(&format!("{WIDGETS}/a"), &main).await.expect(200);
    assert_eq!(
        (&main["status"]["phase"], &main["spec"]["size"]),
        (&json!("Fine"), &json!(4))
    );
    assert_eq!(main["metadata"]["generation"], 2);
}

#[tokio::test]
async fn finalizers_hold_an_object_until_the_last_is_gone() {
    let bench = Bench::with_widgets().await;
    let mut object = widget("a", &json!({}));
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let made = bench.post(WIDGETS, &object).await.expect(201);
    let path = format!("{WIDGETS}/a");
    let marked = bench.delete(&path).await.expect(200);
    assert_eq!(marked["kind"], "Widget");
    assert_eq!(marked["metadata"]["generation"], 2);
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    let again = bench.delete(&path).await.expect(200);
    assert_eq!(
        again["metadata"]["resourceVersion"],
        marked["metadata"]["resourceVersion"]
    );
    let taken = bench.post(WIDGETS, &object).await;
    assert_eq!(
        taken.message(),
        "object is being deleted: widgets.example.com \"a\" already exists"
    );
    let mut more = marked.clone();
    more["metadata"]["finalizers"] = json!(["example.com/hold", "example.com/more"]);
    let more = bench.put(&path, &more).await;
    assert_eq!(more.code, 422, "{}", more.message());
    assert!(
        more.message()
            .contains("no new finalizers can be added if the object is being deleted"),
        "{}",
        more.message()
    );
    let mut released = marked.clone();
    released["metadata"]["finalizers"] = json!([]);
    let last = bench.put(&path, &released).await.expect(200);
    assert_eq!(last["metadata"]["uid"], made["metadata"]["uid"]);
    assert_eq!(bench.get(&path).await.code, 404);
}

#[tokio::test]
async fn a_deletion_answers_with_the_uid_and_keeps_its_preconditions() {
    let bench = Bench::with_widgets().await;
    let made = bench
        .post(WIDGETS, &widget("a", &json!({})))
        .await
        .expect(201);
    let path = format!("{WIDGETS}/a");
    let options =
        json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "other"}});
    let refused = bench
        .send(Method::DELETE, &path, JSON, options.to_string().into())
        .await;
    assert_eq!(refused.code, 409, "{}", refused.message());
    assert!(
        refused
            .message()
            .contains("the UID in the precondition (other) does not match the UID in record"),
        "{}",
        refused.message()
    );
    let dry = bench
        .delete(&format!("{path}?dryRun=All"))
        .await
        .expect(200);
    assert_eq!(dry["status"], "Success");
    let status = bench.delete(&path).await.expect(200);
    let details = json!({
        "name": "a", "group": "example.com", "kind": "widgets", "uid": made["metadata"]["uid"],
    });
    assert_eq!(
        (&status["status"], &status["details"]),
        (&json!("Success"), &details)
    );
    let gone = bench.delete(&path).await;
    assert_eq!(
        (gone.code, gone.message()),
        (404, "widgets.example.com \"a\" not found")
    );
}

#[tokio::test]
async fn a_collection_is_deleted_by_selector() {
    let bench = Bench::with_widgets().await;
    for (name, app) in [("a", "x"), ("b", "y"), ("c", "x")] {
        let mut object = widget(name, &json!({}));
        object["metadata"]["labels"] = json!({"app": app});
        bench.post(WIDGETS, &object).await.expect(201);
    }
    let gone = bench
        .delete(&format!("{WIDGETS}?labelSelector=app%3Dx"))
        .await
        .expect(200);
    assert_eq!(gone["kind"], "WidgetList");
    assert_eq!(gone["items"].as_array().map(Vec::len), Some(2));
    let left = bench.get(WIDGETS).await.expect(200);
    assert_eq!(left["items"][0]["metadata"]["name"], "b");
    assert_eq!(left["items"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn nothing_is_made_where_there_is_no_namespace() {
    let bench = Bench::with_widgets().await;
    let path = "/apis/example.com/v1/namespaces/absent/widgets";
    let answer = bench.post(path, &widget("a", &json!({}))).await;
    assert_eq!(
        (answer.code, answer.message()),
        (404, "namespaces \"absent\" not found")
    );
    let cluster_scoped = bench
        .post("/apis/example.com/v1/widgets", &widget("a", &json!({})))
        .await;
    assert_eq!(cluster_scoped.body, json!("404 page not found"));
}

#[tokio::test]
async fn a_namespace_empties_itself_before_it_goes() {
    let bench = Bench::with_widgets().await;
    let made = bench
        .post("/api/v1/namespaces", &json!({"metadata": {"name": "ns"}}))
        .await
        .expect(201);
    assert_eq!(made["status"], json!({"phase": "Active"}));
    assert_eq!(made["spec"], json!({"finalizers": ["kubernetes"]}));
    assert_eq!(
        made["metadata"]["labels"],
        json!({"kubernetes.io/metadata.name": "ns"})
    );
    let widgets = "/apis/example.com/v1/namespaces/ns/widgets";
    let mut held = widget("held", &json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    bench.post(widgets, &held).await.expect(201);
    bench
        .post(widgets, &widget("free", &json!({})))
        .await
        .expect(201);
    let terminating = bench.delete("/api/v1/namespaces/ns").await.expect(200);
    assert_eq!(terminating["status"]["phase"], "Terminating");
    let refused = bench.post(widgets, &widget("late", &json!({}))).await;
    assert_eq!(
        (refused.code, refused.message()),
        (
            403,
            "widgets.example.com \"late\" is forbidden: unable to create new content in namespace ns because it is \
             being terminated"
        )
    );
    assert_eq!(
        refused.body["details"]["causes"][0]["reason"],
        "NamespaceTerminating"
    );
    bench
        .until(&format!("{widgets}/free"), |answer| answer.code == 404)
        .await;
    let waiting = bench
        .until("/api/v1/namespaces/ns", |answer| {
            answer.body["status"]["conditions"].is_array()
        })
        .await;
    let text = waiting.body["status"]["conditions"].to_string();
    assert!(
        text.contains("example.com/hold in 1 resource instances"),
        "{text}"
    );
    let release = json!({"metadata": {"finalizers": null}});
    bench
        .patch(&format!("{widgets}/held"), MERGE, &release)
        .await
        .expect(200);
    bench
        .until("/api/v1/namespaces/ns", |answer| answer.code == 404)
        .await;
    let kept = bench.delete("/api/v1/namespaces/default").await;
    assert_eq!(
        (kept.code, kept.message()),
        (
            403,
            "namespaces \"default\" is forbidden: this namespace may not be deleted"
        )
    );
}

#[tokio::test]
async fn secrets_are_encoded_and_immutable_ones_stay() {
    let bench = Bench::new().await;
    let secrets = "/api/v1/namespaces/default/secrets";
    let sent =
        json!({"metadata": {"name": "s"}, "stringData": {"key": "value"}, "immutable": true});
    let made = bench.post(secrets, &sent).await.expect(201);
    assert_eq!(made["data"], json!({"key": "dmFsdWU="}));
    assert_eq!(
        (&made["type"], made.get("stringData")),
        (&json!("Opaque"), None)
    );
    let patch = json!({"data": {"key": "b3RoZXI="}});
    let frozen = bench.patch(&format!("{secrets}/s"), MERGE, &patch).await;
    assert_eq!(
        (frozen.code, frozen.message()),
        (
            422,
            "Secret \"s\" is invalid: data: Forbidden: field is immutable when `immutable` is set"
        )
    );
    let wrong = bench
        .post(
            secrets,
            &json!({"metadata": {"name": "w"}, "data": {"a/b": "eA=="}}),
        )
        .await;
    assert_eq!(wrong.code, 422, "{}", wrong.message());
    let number = bench
        .post(
            "/api/v1/namespaces/default/configmaps",
            &json!({"metadata": {"name": "c"}, "data": {"a": 1}}),
        )
        .await;
    assert_eq!(
        (number.code, number.message()),
        (
            400,
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct \
             field ConfigMap.data of type string"
        )
    );
}

#[tokio::test]
async fn services_of_an_embedded_cluster_get_addresses_of_their_own() {
    let bench = Bench::new().await;
    let services = "/clusters/east/api/v1/namespaces/default/services";
    let sent = |name: &str, extra: Value| {
        let mut spec = json!({"ports": [{"port": 80}], "selector": {"a": "b"}});
        spec.as_object_mut()
            .expect("a spec")
            .extend(extra.as_object().expect("fields").clone());
        json!({"metadata": {"name": name}, "spec": spec})
    };
    let made = bench
        .post(services, &sent("a", json!({"type": "NodePort"})))
        .await
        .expect(201);
    let address = made["spec"]["clusterIP"]
        .as_str()
        .expect("an address")
        .to_owned();
    assert!(address.starts_with("10.96."), "{address}");
    assert_eq!(made["spec"]["clusterIPs"], json!([address]));
    assert!(
        made["spec"]["ports"][0]["nodePort"]
            .as_u64()
            .is_some_and(|port| port >= 30_000),
        "{made}"
    );
    let taken = bench
        .post(services, &sent("b", json!({"clusterIP": address})))
        .await;
    assert_eq!(taken.code, 422, "{}", taken.message());
    assert!(
        taken.message().contains("provided IP is already allocated"),
        "{}",
        taken.message()
    );
    let mut again = sent("a", json!({"type": "ClusterIP"}));
    again["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"].clone();
    let updated = bench
        .put(&format!("{services}/a"), &again)
        .await
        .expect(200);
    assert_eq!(
        updated["spec"]["clusterIP"],
        json!(address),
        "an update keeps the address"
    );
    let external = bench
        .patch(
            &format!("{services}/a"),
            "application/merge-patch+json",
            &json!({"spec": {"type": "ExternalName", "externalName": "x.y"}}),
        )
        .await
        .expect(200);
    assert_eq!(external["spec"].get("clusterIP"), None, "{external}");
    bench.delete(&format!("{services}/a")).await.expect(200);
    bench
        .post(services, &sent("b", json!({"clusterIP": address})))
        .await
        .expect(201);
    let headless = bench
        .post(services, &sent("h", json!({"clusterIP": "None"})))
        .await
        .expect(201);
    assert_eq!(headless["spec"]["clusterIPs"], json!(["None"]));
}

#[tokio::test]
async fn addresses_and_node_ports_out_of_range_are_refused() {
    let bench = Bench::new().await;
    let services = "/clusters/east/api/v1/namespaces/default/services";
    for (extra, want) in [
        (
            json!({"clusterIP": "east/b"}),
            "spec.clusterIPs[0]: Invalid value: \"east/b\": must be a valid IP address",
        ),
        (
            json!({"clusterIP": "10.97.0.1"}),
            "the provided IP (10.97.0.1) is not in the valid range. The range of valid IPs is 10.96.0.0/16",
        ),
        (
            json!({"clusterIP": "10.96.255.255"}),
            "the provided IP (10.96.255.255) is not in the valid range",
        ),
        (
            json!({"clusterIP": "fd00::1"}),
            "the provided IP (fd00::1) is not in the valid range",
        ),
        (
            json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]}),
            "provided port is not in the valid range. The range of valid ports is 30000-32767",
        ),
        (
            json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": -1}]}),
            "spec.ports[0].nodePort: Invalid value: -1: provided port is not in the valid range",
        ),
    ] {
        let mut spec = json!({"ports": [{"port": 80}]});
        let extra = extra.as_object().expect("fields").clone();
        spec.as_object_mut().expect("a spec").extend(extra);
        let refused = bench
            .post(services, &json!({"metadata": {"name": "b"}, "spec": spec}))
            .await;
        assert_eq!(refused.code, 422, "{}", refused.message());
        assert!(refused.message().contains(want), "{}", refused.message());
    }
}

#[tokio::test]
async fn dependents_follow_their_owner() {
    let bench = Bench::new().await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let owner = bench
        .post(maps, &json!({"metadata": {"name": "owner"}}))
        .await
        .expect(201);
    let child = json!({"metadata": {"name": "child", "ownerReferences": [{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": true,
    }]}});
    bench.post(maps, &child).await.expect(201);
    bench.delete(&format!("{maps}/owner")).await.expect(200);
    bench
        .until(&format!("{maps}/child"), |answer| answer.code == 404)
        .await;
    let owner = bench
        .post(maps, &json!({"metadata": {"name": "owner"}}))
        .await
        .expect(201);
    let mut child = child.clone();
    child["metadata"]["ownerReferences"][0]["uid"] = owner["metadata"]["uid"].clone();
    child["metadata"]["finalizers"] = json!(["example.com/hold"]);
    bench.post(maps, &child).await.expect(201);
    bench
        .delete(&format!("{maps}/owner?propagationPolicy=Foreground"))
        .await
        .expect(200);
    let held = bench
        .until(&format!("{maps}/child"), |answer| {
            answer.body["metadata"]["deletionTimestamp"].is_string()
        })
        .await;
    assert_eq!(
        bench.get(&format!("{maps}/owner")).await.code,
        200,
        "the owner waits: {held:?}"
    );
    let release = json!({"metadata": {"finalizers": null}});
    bench
        .patch(&format!("{maps}/child"), MERGE, &release)
        .await
        .expect(200);
    bench
        .until(&format!("{maps}/owner"), |answer| answer.code == 404)
        .await;
    let owner = bench
        .post(maps, &json!({"metadata": {"name": "owner"}}))
        .await
        .expect(201);
    child["metadata"]["ownerReferences"][0]["uid"] = owner["metadata"]["uid"].clone();
    child["metadata"]
        .as_object_mut()
        .expect("metadata")
        .remove("finalizers");
    bench.post(maps, &child).await.expect(201);
    bench
        .delete(&format!("{maps}/owner?propagationPolicy=Orphan"))
        .await
        .expect(200);
    bench
        .until(&format!("{maps}/owner"), |answer| answer.code == 404)
        .await;
    let orphan = bench.get(&format!("{maps}/child")).await.expect(200);
    assert_eq!(orphan["metadata"].get("ownerReferences"), None);
}

/// Two objects that own each other waited for each other for ever.
#[tokio::test]
async fn the_foreground_deletion_of_a_circle_ends() {
    let bench = Bench::new().await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let owned_by = |name: &str, uid: &Value| {
        json!({"metadata": {"ownerReferences": [{
            "apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, "blockOwnerDeletion": true,
        }]}})
    };
    let first = bench
        .post(maps, &json!({"metadata": {"name": "first"}}))
        .await
        .expect(201);
    let mut second = owned_by("first", &first["metadata"]["uid"]);
    second["metadata"]["name"] = json!("second");
    let second = bench.post(maps, &second).await.expect(201);
    let back = owned_by("second", &second["metadata"]["uid"]);
    bench
        .patch(&format!("{maps}/first"), MERGE, &back)
        .await
        .expect(200);
    bench
        .delete(&format!("{maps}/first?propagationPolicy=Foreground"))
        .await
        .expect(200);
    for name in ["first", "second"] {
        bench
            .until(&format!("{maps}/{name}"), |answer| answer.code == 404)
            .await;
    }
}

/// An object of another cluster that names a uid held back the deletion of the object that has it.
#[tokio::test]
async fn an_owner_waits_for_no_dependent_of_another_cluster() {
    let bench = Bench::new().await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let owner = bench
        .post(maps, &json!({"metadata": {"name": "owner"}}))
        .await
        .expect(201);
    let foreign = json!({"metadata": {"name": "foreign", "finalizers": ["example.com/hold"], "ownerReferences": [{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": true,
    }]}});
    bench
        .post(&format!("/clusters/east{maps}"), &foreign)
        .await
        .expect(201);
    bench
        .delete(&format!("{maps}/owner?propagationPolicy=Foreground"))
        .await
        .expect(200);
    bench
        .until(&format!("{maps}/owner"), |answer| answer.code == 404)
        .await;
}

#[tokio::test]
async fn the_author_of_a_graph_is_who_wrote_its_spec() {
    let bench = Bench::new().await;
    let path = "/apis/kro.run/v1alpha1/resourcegraphdefinitions";
    let graph = json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "g", "annotations": {"internal.wheelhouse.dev/author": "{\"username\":\"mallory\"}"}},
        "spec": {"schema": {"apiVersion": "v1alpha1", "kind": "Thing"}, "resources": []},
    });
    let made = bench.post(path, &graph).await.expect(201);
    let author = made["metadata"]["annotations"]["internal.wheelhouse.dev/author"]
        .as_str()
        .expect("an author");
    assert!(author.contains("\"username\":\"admin\""), "{author}");
    let patch =
        json!({"metadata": {"annotations": {"internal.wheelhouse.dev/author": null, "x": "y"}}});
    let patched = bench
        .patch(&format!("{path}/g"), MERGE, &patch)
        .await
        .expect(200);
    assert_eq!(
        patched["metadata"]["annotations"]["internal.wheelhouse.dev/author"],
        json!(author)
    );
    assert_eq!(patched["metadata"]["annotations"]["x"], "y");
    assert!(
        bench.get(CRDS).await.expect(200)["items"]
            .as_array()
            .is_some_and(Vec::is_empty)
    );
}

/// An older version judged less, and what it took must not stay for ever.
#[tokio::test]
async fn what_an_older_version_took_can_be_changed_and_deleted() {
    let bench = Bench::new().await;
    let ingresses = "/clusters/east/apis/networking.k8s.io/v1/namespaces/default/ingresses";
    let ingress = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "web", "finalizers": ["example.com/hold"]},
        "spec": {"rules": [{"host": "a.example.com"}]},
    });
    bench.post(ingresses, &ingress).await.expect(201);
    let resource = GroupResource::new("networking.k8s.io", "ingresses");
    let cluster = "east".parse().expect("a name");
    let key = ResourcePrefix::new(&resource).key(&cluster, "default", "web");
    let stored = bench.store.get(key.as_bytes()).expect("it is stored");
    let text = String::from_utf8_lossy(stored.value()).replace("a.example", "A!example");
    bench
        .store
        .commit(vec![Write::put(key, text)])
        .await
        .expect("the store takes it");
    let web = format!("{ingresses}/web");
    let patch = |patch: Value| {
        let (bench, web) = (&bench, &web);
        async move { bench.patch(web, MERGE, &patch).await }
    };
    let labelled = patch(json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(labelled.code, 200, "{}", labelled.body);
    let worse = patch(json!({"spec": {"ingressClassName": "No!"}})).await;
    assert_eq!(worse.code, 422, "{}", worse.body);
    let causes = worse.body["details"]["causes"].as_array();
    assert_eq!(causes.map(Vec::len), Some(1), "{}", worse.body);
    let other = patch(json!({"spec": {"rules": [{"host": "B!example.com"}]}})).await;
    assert_eq!(other.code, 422, "{}", other.body);
    bench.delete(&web).await.expect(200);
    let freed = patch(json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(freed.code, 200, "{}", freed.body);
    assert_eq!(bench.get(&web).await.code, 404, "it is gone");
}
