//! Lists through the handlers, over a real store.

use http::Method;
use serde_json::{Value, json};

use super::bench::{Bench, JSON, MERGE, WIDGETS, widget};
use crate::protobuf;

async fn with_many(count: usize) -> Bench {
    let bench = Bench::with_widgets().await;
    for index in 0..count {
        let color = if index % 2 == 0 { "red" } else { "blue" };
        let mut object = widget(&format!("w-{index:02}"), &json!({"color": color}));
        object["metadata"]["labels"] = json!({"color": color});
        bench.post(WIDGETS, &object).await.expect(201);
    }
    bench
}

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().expect("items");
    items
        .iter()
        .map(|item| {
            item["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        })
        .collect()
}

#[tokio::test]
async fn pages_go_on_at_the_revision_of_the_first() {
    let bench = with_many(5).await;
    let first = bench.get(&format!("{WIDGETS}?limit=2")).await.expect(200);
    assert_eq!(names(&first), ["w-00", "w-01"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    bench.delete(&format!("{WIDGETS}/w-03")).await.expect(200);
    let token = first["metadata"]["continue"].as_str().expect("a token");
    let second = bench
        .get(&format!("{WIDGETS}?limit=2&continue={token}"))
        .await
        .expect(200);
    assert_eq!(names(&second), ["w-02", "w-03"], "what was there is listed");
    assert_eq!(
        second["metadata"]["resourceVersion"],
        first["metadata"]["resourceVersion"]
    );
    let token = second["metadata"]["continue"].as_str().expect("a token");
    let third = bench
        .get(&format!("{WIDGETS}?limit=2&continue={token}"))
        .await
        .expect(200);
    assert_eq!(names(&third), ["w-04"]);
    assert_eq!(third["metadata"]["continue"], "");
    assert_eq!(third["metadata"].get("remainingItemCount"), None);
    let broken = bench
        .get(&format!("{WIDGETS}?limit=2&continue=nonsense"))
        .await;
    assert_eq!(
        (broken.code, broken.message()),
        (
            400,
            "invalid continue token: continue key is not valid: expected value at line 1 column 1"
        )
    );
}

#[tokio::test]
async fn selectors_choose_and_pages_of_them_are_full() {
    let bench = with_many(6).await;
    for (query, want) in [
        ("labelSelector=color%3Dred", &["w-00", "w-02", "w-04"][..]),
        ("labelSelector=color+notin+(red)", &["w-01", "w-03", "w-05"]),
        ("labelSelector=!color", &[]),
        ("fieldSelector=metadata.name%3Dw-03", &["w-03"]),
        ("fieldSelector=spec.color%3Dblue", &["w-01", "w-03", "w-05"]),
        ("fieldSelector=metadata.namespace%3Dother", &[]),
    ] {
        let list = bench.get(&format!("{WIDGETS}?{query}")).await.expect(200);
        assert_eq!(names(&list), want, "{query}");
    }
    let page = bench
        .get(&format!("{WIDGETS}?labelSelector=color%3Dblue&limit=2"))
        .await
        .expect(200);
    assert_eq!(names(&page), ["w-01", "w-03"]);
    assert_eq!(
        page["metadata"].get("remainingItemCount"),
        None,
        "nobody counts what a selector hides"
    );
    let token = page["metadata"]["continue"].as_str().expect("a token");
    let rest = bench
        .get(&format!(
            "{WIDGETS}?labelSelector=color%3Dblue&limit=2&continue={token}"
        ))
        .await;
    assert_eq!(names(&rest.expect(200)), ["w-05"]);
    let unknown = bench
        .get(&format!("{WIDGETS}?fieldSelector=spec.nope%3Dx"))
        .await;
    assert_eq!(
        (unknown.code, unknown.message()),
        (400, "field label not supported: spec.nope")
    );
    let wrong = bench
        .get(&format!("{WIDGETS}?labelSelector=a%3D%3D%3D"))
        .await;
    assert_eq!(wrong.code, 400, "{}", wrong.message());
}

/// What terms find is what a walk over the whole collection finds, through every kind of write.
#[tokio::test]
async fn what_is_found_by_terms_is_what_a_walk_finds() {
    const SECRETS: &str = "/clusters/east/api/v1/namespaces/default/secrets";
    let bench = Bench::new().await;
    for n in 0..12 {
        let labels =
            json!({"app": format!("a{}", n % 4), "tier": if n % 2 == 0 { "" } else { "b" }});
        let kind = format!("example.com/t{}", n % 3);
        let metadata = json!({"name": format!("s-{n:02}"), "labels": labels});
        let secret = json!({"metadata": metadata, "type": kind});
        bench.post(SECRETS, &secret).await.expect(201);
    }
    let relabel = json!({"metadata": {"labels": {"app": "a3", "tier": null}}});
    let path = format!("{SECRETS}/s-00");
    bench.patch(&path, MERGE, &relabel).await.expect(200);
    let strip = json!({"metadata": {"labels": null}});
    let path = format!("{SECRETS}/s-01");
    bench.patch(&path, MERGE, &strip).await.expect(200);
    bench.delete(&format!("{SECRETS}/s-02")).await.expect(200);
    for (query, want) in [
        ("labelSelector=app%3Da0", &["s-04", "s-08"][..]),
        ("labelSelector=app%3Da1", &["s-05", "s-09"]),
        ("labelSelector=app%3Da2", &["s-06", "s-10"]),
        ("labelSelector=app%3Da3,tier", &["s-03", "s-07", "s-11"]),
        ("labelSelector=app%3Da3,!tier", &["s-00"]),
        ("labelSelector=app+in+(a0,a3),tier%3D", &["s-04", "s-08"]),
        ("labelSelector=app%3Da4", &[]),
        ("labelSelector=app%3Da0,app%3Da1", &[]),
        (
            "fieldSelector=type%3Dexample.com/t1",
            &["s-01", "s-04", "s-07", "s-10"],
        ),
        (
            "fieldSelector=type%3Dexample.com/t1&labelSelector=app%3Da3",
            &["s-07"],
        ),
        ("fieldSelector=type%3Dnone", &[]),
        (
            "fieldSelector=type!%3Dexample.com/t1,type!%3Dexample.com/t0",
            &["s-05", "s-08", "s-11"],
        ),
    ] {
        let list = bench.get(&format!("{SECRETS}?{query}")).await.expect(200);
        assert_eq!(names(&list), want, "{query}");
        let everywhere = SECRETS.replace("/east/", "/*/");
        let list = bench
            .get(&format!("{everywhere}?{query}"))
            .await
            .expect(200);
        assert_eq!(names(&list), want, "walked, over all clusters: {query}");
    }
    let page = bench
        .get(&format!("{SECRETS}?labelSelector=app%3Da3&limit=2"))
        .await;
    let page = page.expect(200);
    assert_eq!(names(&page), ["s-00", "s-03"]);
    bench.delete(&format!("{SECRETS}/s-07")).await.expect(200);
    let token = page["metadata"]["continue"].as_str().expect("a token");
    let query = format!("labelSelector=app%3Da3&limit=2&continue={token}");
    let rest = bench.get(&format!("{SECRETS}?{query}")).await.expect(200);
    assert_eq!(
        names(&rest),
        ["s-07", "s-11"],
        "of the revision of the first page"
    );
}

#[tokio::test]
async fn a_list_is_as_fresh_as_it_is_asked_to_be() {
    let bench = with_many(2).await;
    let before = bench.get(WIDGETS).await.expect(200);
    let version = before["metadata"]["resourceVersion"]
        .as_str()
        .expect("a version")
        .to_owned();
    bench.delete(&format!("{WIDGETS}/w-00")).await.expect(200);
    for (query, want) in [
        ("resourceVersion=0".to_owned(), &["w-01"][..]),
        (format!("resourceVersion={version}"), &["w-01"]),
        (
            format!("resourceVersion={version}&resourceVersionMatch=NotOlderThan"),
            &["w-01"],
        ),
        (
            format!("resourceVersion={version}&resourceVersionMatch=Exact"),
            &["w-00", "w-01"],
        ),
        (
            format!("resourceVersion={version}&limit=5"),
            &["w-00", "w-01"],
        ),
        ("resourceVersion=12345".to_owned(), &["w-01"]),
    ] {
        let list = bench.get(&format!("{WIDGETS}?{query}")).await.expect(200);
        assert_eq!(names(&list), want, "{query}");
    }
    let future = bench
        .get(&format!("{WIDGETS}?resourceVersion=1900000000000000"))
        .await;
    assert_eq!(
        (future.code, &future.body["reason"]),
        (504, &json!("Timeout"))
    );
    assert_eq!(
        future.body["details"]["causes"][0]["reason"],
        "ResourceVersionTooLarge"
    );
    for (query, code) in [
        ("resourceVersion=x", 400),
        ("resourceVersionMatch=Exact", 422),
    ] {
        assert_eq!(
            bench.get(&format!("{WIDGETS}?{query}")).await.code,
            code,
            "{query}"
        );
    }
}

#[tokio::test]
async fn tables_and_metadata_are_made_of_the_same_objects() {
    let bench = with_many(2).await;
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let rows = bench
        .send_accepting(Method::GET, WIDGETS, JSON, table, "".into())
        .await
        .expect(200);
    assert_eq!(rows["kind"], "Table");
    let names: Vec<_> = rows["columnDefinitions"]
        .as_array()
        .expect("columns")
        .iter()
        .map(|it| &it["name"])
        .collect();
    assert_eq!(names, [&json!("Name"), &json!("Size")]);
    assert_eq!(rows["rows"][0]["cells"], json!(["w-00", 1]));
    assert_eq!(rows["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(rows["rows"][0]["object"].get("spec"), None);
    let one = format!("{WIDGETS}/w-00?includeObject=Object");
    let row = bench
        .send_accepting(Method::GET, &one, JSON, table, "".into())
        .await
        .expect(200);
    assert_eq!(row["rows"][0]["object"]["spec"]["size"], 1);
    let metadata = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let list = bench
        .send_accepting(Method::GET, WIDGETS, JSON, metadata, "".into())
        .await
        .expect(200);
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(list["items"][1]["kind"], "PartialObjectMetadata");
    assert_eq!(list["items"][1].get("spec"), None);
    let one = format!("{WIDGETS}/w-00");
    let metadata = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let partial = bench
        .send_accepting(Method::GET, &one, JSON, metadata, "".into())
        .await
        .expect(200);
    assert_eq!(partial["metadata"]["name"], "w-00");
}

#[tokio::test]
async fn another_version_shows_the_same_object_under_its_name() {
    let bench = with_many(1).await;
    let beta = "/apis/example.com/v1beta1/namespaces/default/widgets";
    let list = bench.get(beta).await.expect(200);
    assert_eq!(list["apiVersion"], "example.com/v1beta1");
    assert_eq!(list["items"][0]["apiVersion"], "example.com/v1beta1");
    let mut object = widget("b", &json!({"size": 4}));
    object["apiVersion"] = json!("example.com/v1beta1");
    let made = bench.post(beta, &object).await.expect(201);
    assert_eq!(made["apiVersion"], "example.com/v1beta1");
    let stored = bench.get(&format!("{WIDGETS}/b")).await.expect(200);
    assert_eq!(
        (&stored["apiVersion"], &stored["spec"]["size"]),
        (&json!("example.com/v1"), &json!(4))
    );
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let everywhere = "/apis/example.com/v1/widgets";
    let rows = bench
        .send_accepting(Method::GET, everywhere, JSON, table, "".into())
        .await
        .expect(200);
    assert_eq!(rows["rows"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn objects_of_all_clusters_say_where_they_are() {
    let bench = Bench::new().await;
    let maps = "api/v1/namespaces/default/configmaps";
    bench
        .post(
            &format!("/{maps}"),
            &json!({"metadata": {"name": "in-root"}}),
        )
        .await
        .expect(201);
    bench
        .post(
            &format!("/clusters/east/{maps}"),
            &json!({"metadata": {"name": "in-east"}}),
        )
        .await
        .expect(201);
    let list = bench.get("/clusters/*/api/v1/configmaps").await.expect(200);
    let found: Vec<_> = list["items"]
        .as_array()
        .expect("items")
        .iter()
        .map(|item| {
            (
                item["metadata"]["name"].clone(),
                item["metadata"]["annotations"]["kcp.io/cluster"].clone(),
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            (json!("in-east"), json!("east")),
            (json!("in-root"), json!("root"))
        ]
    );
    let own = bench
        .get(&format!("/clusters/east/{maps}/in-east"))
        .await
        .expect(200);
    assert_eq!(own["metadata"].get("annotations"), None, "only there");
    let other = bench.get(&format!("/clusters/east/{maps}/in-root")).await;
    assert_eq!(other.code, 404);
    let write = bench
        .post(
            &format!("/clusters/*/{maps}"),
            &json!({"metadata": {"name": "x"}}),
        )
        .await;
    assert_eq!(write.code, 405);
}

#[tokio::test]
async fn names_sort_as_kubernetes_sorts_them() {
    let bench = Bench::with_widgets().await;
    for namespace in ["a", "a-b"] {
        bench
            .post(
                "/api/v1/namespaces",
                &json!({"metadata": {"name": namespace}}),
            )
            .await
            .expect(201);
        let path = format!("/apis/example.com/v1/namespaces/{namespace}/widgets");
        bench
            .post(&path, &widget(&format!("in-{namespace}"), &json!({})))
            .await
            .expect(201);
    }
    let list = bench.get("/apis/example.com/v1/widgets").await.expect(200);
    assert_eq!(
        names(&list),
        ["in-a-b", "in-a"],
        "a dash sorts before a slash"
    );
}

/// Objects with a text that is hard to encode, by their resource.
fn odd_texts() -> Vec<(&'static str, Value)> {
    let mut odd = Vec::new();
    for text in ["YQ==\n", "YQ", "", "Y Q==", "*", "YQ===", "-_8="] {
        odd.push(("secrets", json!({"data": {"a": text}})));
        odd.push(("configmaps", json!({"binaryData": {"a": text}})));
    }
    odd.push(("secrets", json!({"data": {"a": null}})));
    odd.push(("configmaps", json!({"data": {"a": 1, "b": null}})));
    for time in [
        "2026-01-02T03:04:05.000006Z",
        "2026-01-02T03:04:05Z",
        "2026-01-02t03:04:05z",
        "2016-12-31T23:59:60Z",
        "2026-01-02T24:00:00Z",
        "9999-12-31T23:59:59-23:59",
        "0000-01-01T00:00:00Z",
        "0000-12-31T23:00:00-01:00",
        "0001-01-01T00:00:00+14:00",
        "2026-01-02",
        "",
    ] {
        odd.push(("leases", json!({"spec": {"renewTime": time}})));
        let fields = json!([{"manager": "m", "operation": "Update", "apiVersion": "v1", "time": time,
            "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}}]);
        odd.push(("configmaps", json!({"metadata": {"managedFields": fields}})));
        let pod = json!({"metadata": {"creationTimestamp": time}});
        odd.push(("configmaps", pod));
    }
    for labels in [json!(null), json!({"a": null}), json!({}), json!([])] {
        let metadata = json!({"labels": labels, "finalizers": null, "ownerReferences": []});
        odd.push(("configmaps", json!({"metadata": metadata})));
    }
    odd
}

/// Objects with a number that is hard to encode, by their resource.
fn odd_numbers() -> Vec<(&'static str, Value)> {
    let mut odd = Vec::new();
    for number in [
        json!(1.0),
        json!(1e3),
        json!(1.5),
        json!(1e18),
        json!(1e19),
        json!(i64::MAX),
        json!(u64::MAX),
        json!(2_147_483_648_i64),
        json!("1"),
        json!(true),
    ] {
        odd.push(("leases", json!({"spec": {"leaseDurationSeconds": number}})));
        let ports = json!([{"port": 80, "targetPort": number}]);
        odd.push(("services", json!({"spec": {"ports": ports}})));
        odd.push(("resourcequotas", json!({"spec": {"hard": {"cpu": number}}})));
        let probe = json!({"httpGet": {"port": number}});
        let container = json!({"name": "c", "image": "i", "livenessProbe": probe});
        odd.push((
            "pods",
            json!({"spec": {"containers": [container], "terminationGracePeriodSeconds": number}}),
        ));
        odd.push((
            "controllerrevisions",
            json!({"revision": 1, "data": number}),
        ));
    }
    odd
}

/// Whatever is taken has a message: nobody can write what a list of protobuf cannot hold.
#[tokio::test]
async fn what_a_built_in_kind_takes_has_a_message() {
    let bench = Bench::new().await;
    let mut taken = 0;
    let odd = odd_texts().into_iter().chain(odd_numbers());
    for (number, (resource, mut object)) in odd.enumerate() {
        let version = match resource {
            "leases" => "apis/coordination.k8s.io/v1",
            "controllerrevisions" => "apis/apps/v1",
            _ => "api/v1",
        };
        object["metadata"]["name"] = json!(format!("odd-{number}"));
        let path = format!("/clusters/east/{version}/namespaces/default/{resource}");
        let answer = bench.post(&path, &object).await;
        if answer.code == 201 {
            taken += 1;
            let encoded = protobuf::encode(&answer.body);
            assert!(
                encoded.is_ok(),
                "{resource}: {encoded:?} of {}",
                answer.body
            );
        }
    }
    assert!(taken > 20, "{taken}");
}
