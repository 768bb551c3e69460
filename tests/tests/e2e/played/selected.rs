//! Field selectors on fields that an object does not have, of both.

use serde_json::{Value, json};
use wheelhouse_tests::support::User;

const NODES: &str = "/api/v1/nodes";
const CONTROLLERS: &str = "/api/v1/namespaces/default/replicationcontrollers";

/// Selects by fields that are left out of JSON where they are false or zero.
pub(super) async fn fields_that_are_not_set_are_selected_alike(
    hub: &User,
    spoke: &User,
    embedded: &str,
) {
    let prefix = format!("/clusters/{embedded}");
    let (ours, peers) = tokio::join!(played(hub, &prefix), played(spoke, ""));
    assert_eq!(ours, peers, "what is selected");
    let first = &ours[0];
    assert!(
        first.contains("open") && !first.contains("closed"),
        "{first}"
    );
}

async fn played(user: &User, prefix: &str) -> Vec<String> {
    for (name, spec) in [
        ("open", json!({})),
        ("closed", json!({"unschedulable": true})),
    ] {
        let node = json!({"metadata": {"name": name}, "spec": spec});
        user.post(&format!("{prefix}{NODES}"), &node)
            .await
            .must(201);
    }
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let controller = json!({"metadata": {"name": "none"}, "spec": {
        "replicas": 0, "selector": {"a": "b"}, "template": template,
    }});
    user.post(&format!("{prefix}{CONTROLLERS}"), &controller)
        .await
        .must(201);
    let mut told = Vec::new();
    for (path, selector) in [
        (NODES, "spec.unschedulable=false"),
        (NODES, "spec.unschedulable!=false"),
        (NODES, "spec.unschedulable=true"),
        (NODES, "spec.unschedulable="),
        (CONTROLLERS, "status.replicas=0"),
        (CONTROLLERS, "status.replicas!=0"),
        (CONTROLLERS, "status.replicas=x"),
        ("/apis/apps/v1/replicasets", "status.replicas=0"),
        ("/apis/batch/v1/jobs", "status.successful=0"),
        (
            "/api/v1/pods",
            "spec.hostNetwork=false,status.phase!=Failed",
        ),
        ("/api/v1/pods", "spec.nope=x"),
        (
            "/api/v1/namespaces/default/services",
            "spec.type=ExternalName,spec.clusterIP!=None",
        ),
        ("/api/v1/namespaces", "name=default"),
        (
            "/api/v1/namespaces",
            "metadata.name=default,status.phase=Active",
        ),
        ("/api/v1/namespaces/default/secrets", "type=x"),
        ("/api/v1/events", "involvedObject.kind=x,reason=y,type=z"),
        ("/apis/events.k8s.io/v1/events", "regarding.kind=x,note=y"),
        (
            "/apis/certificates.k8s.io/v1/certificatesigningrequests",
            "spec.signerName=x",
        ),
    ] {
        let query = format!("{prefix}{path}?fieldSelector={}", escaped(selector));
        let answer = user.get(&query).await;
        let items = answer.body["items"].as_array().into_iter().flatten();
        let names: Vec<_> = items
            .map(|item: &Value| &item["metadata"]["name"])
            .collect();
        let (status, message) = (answer.status, &answer.body["message"]);
        told.push(format!("{selector}: {status} {} {message}", json!(names)));
    }
    for name in ["open", "closed"] {
        user.delete(&format!("{prefix}{NODES}/{name}"))
            .await
            .must(200);
    }
    user.delete(&format!("{prefix}{CONTROLLERS}/none"))
        .await
        .must(200);
    told
}

fn escaped(selector: &str) -> String {
    selector
        .replace('!', "%21")
        .replace('=', "%3D")
        .replace(',', "%2C")
}
