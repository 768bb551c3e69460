//! Requests that were once answered otherwise than by a kube-apiserver, played to both: to an embedded cluster of the hub
//! and to a real one.

use regex::Regex;
use serde_json::Value;
use wheelhouse_tests::support::{APPLY_PATCH, Answer, JSON, JSON_PATCH, MERGE_PATCH, User};

use super::stage::Stage;

mod discovery;
mod ending;
mod messages;
mod methods;
mod roles;
mod selected;
mod websocket;

const STRATEGIC: &str = "application/strategic-merge-patch+json";
const YAML: &str = "application/yaml";

/// (method, path, media type of the body, body), in the order in which they are sent.
const PLAYED: &[(&str, &str, &str, &str)] = &[
    (
        "POST",
        MAPS,
        JSON,
        r#"{"metadata": {"name": "m"}, "data": {"a": "b"}}"#,
    ),
    // A patch that names another type, or none.
    ("PATCH", MAP, MERGE_PATCH, r#"{"kind": "Deployment"}"#),
    ("PATCH", MAP, MERGE_PATCH, r#"{"kind": "Nonesuch"}"#),
    ("PATCH", MAP, MERGE_PATCH, r#"{"apiVersion": "v2"}"#),
    ("PATCH", MAP, MERGE_PATCH, r#"{"apiVersion": "a/b/c"}"#),
    ("PATCH", MAP, MERGE_PATCH, r#"{"kind": null}"#),
    ("PATCH", MAP, MERGE_PATCH, r#"{"apiVersion": null}"#),
    (
        "PATCH",
        MAP,
        JSON_PATCH,
        r#"[{"op": "replace", "path": "/kind", "value": "Nonesuch"}]"#,
    ),
    (
        "PATCH",
        MAP,
        JSON_PATCH,
        r#"[{"op": "remove", "path": "/kind"}]"#,
    ),
    (
        "PATCH",
        MAP,
        STRATEGIC,
        r#"{"kind": "Secret", "apiVersion": "v2"}"#,
    ),
    ("GET", MAP, JSON, ""),
    // Owners of fields are forgotten.
    (
        "PATCH",
        MAP,
        MERGE_PATCH,
        r#"{"metadata": {"managedFields": []}}"#,
    ),
    ("GET", MAP, JSON, ""),
    // Applies without a name.
    (
        "PATCH",
        "/api/v1/namespaces/default/configmaps/new?fieldManager=m",
        APPLY_PATCH,
        r#"{"apiVersion": "v1", "kind": "ConfigMap"}"#,
    ),
    (
        "PATCH",
        "/api/v1/namespaces/default/configmaps/m?fieldManager=m",
        APPLY_PATCH,
        r#"{"apiVersion": "v1", "kind": "ConfigMap"}"#,
    ),
    // Bodies with several documents.
    (
        "POST",
        MAPS,
        YAML,
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: y1}\n---\nkind: [\n",
    ),
    (
        "POST",
        MAPS,
        YAML,
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: y2}\n...\nmore\n",
    ),
    // The paths of old watches, with another method.
    (
        "POST",
        "/api/v1/watch/namespaces/default/configmaps",
        JSON,
        r#"{"metadata": {"name": "w"}}"#,
    ),
    (
        "PUT",
        "/api/v1/watch/namespaces/default/configmaps/m",
        JSON,
        r#"{"metadata": {"name": "m"}}"#,
    ),
    (
        "DELETE",
        "/api/v1/watch/namespaces/default/configmaps/m",
        JSON,
        "",
    ),
    // Addresses as names.
    (
        "POST",
        ADDRESSES,
        JSON,
        r#"{"metadata": {"name": "2001:db8::1"}, "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "x"}}}"#,
    ),
    (
        "GET",
        "/apis/networking.k8s.io/v1/ipaddresses/2001:db8::1",
        JSON,
        "",
    ),
    (
        "DELETE",
        "/apis/networking.k8s.io/v1/ipaddresses/2001:db8::1",
        JSON,
        "",
    ),
    (
        "POST",
        ADDRESSES,
        JSON,
        r#"{"metadata": {"name": "2001:DB8::1"}, "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "x"}}}"#,
    ),
    // Scales.
    (
        "POST",
        CRDS,
        JSON,
        r#"{"metadata": {"name": "gads.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"kind": "Gad", "plural": "gads"}, "versions": [{"name": "v1", "served": true, "storage": true,
        "subresources": {"scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {"n": {"type": "integer"}}}}}}}]}}"#,
    ),
    (
        "POST",
        GADS,
        JSON,
        r#"{"apiVersion": "example.com/v1", "kind": "Gad", "metadata": {"name": "g"}}"#,
    ),
    ("GET", SCALE, JSON, ""),
    (
        "PUT",
        SCALE,
        JSON,
        r#"{"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "x", "namespace": "default"}, "spec": {"replicas": 2}}"#,
    ),
    (
        "PUT",
        SCALE,
        JSON,
        r#"{"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"namespace": "default"}, "spec": {"replicas": 2}}"#,
    ),
    (
        "PUT",
        SCALE,
        JSON,
        r#"{"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "g", "namespace": "other"}, "spec": {"replicas": 2}}"#,
    ),
    (
        "PATCH",
        SCALE,
        MERGE_PATCH,
        r#"{"metadata": {"name": "x"}}"#,
    ),
    ("PATCH", SCALE, MERGE_PATCH, r#"{"kind": "Nonesuch"}"#),
    (
        "PATCH",
        SCALE,
        MERGE_PATCH,
        r#"{"spec": {"replicas": "x"}}"#,
    ),
    ("PATCH", SCALE, MERGE_PATCH, r#"{"spec": {"replicas": -1}}"#),
    ("PATCH", SCALE, MERGE_PATCH, r#"{"spec": {"replicas": 3}}"#),
    ("GET", SCALE, JSON, ""),
    // Who issues tokens; the keys themselves differ.
    ("GET", "/openid/v1/jwks", JSON, ""),
];

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MAP: &str = "/api/v1/namespaces/default/configmaps/m";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const GADS: &str = "/apis/example.com/v1/namespaces/default/gads";
const SCALE: &str = "/apis/example.com/v1/namespaces/default/gads/g/scale";

/// Plays the requests to an embedded cluster of the stage's hub and to the stage's spoke.
pub(crate) async fn requests_are_answered_alike(stage: &Stage, embedded: &str) {
    let text = |file: &std::path::Path| std::fs::read_to_string(file).expect("it was written");
    let hub = User::connect("admin", &text(&stage.hub.kubeconfig())).await;
    let spoke = User::connect("admin", &text(stage.east.kubeconfig())).await;
    let mut findings = Vec::new();
    for (method, path, media, body) in PLAYED {
        let headers = [("content-type", *media)];
        let below = format!("/clusters/{embedded}{path}");
        if *path == GADS {
            // A definition is served a moment after it was made.
            hub.until_status(&format!("/clusters/{embedded}{GADS}"), 200)
                .await;
            spoke.until_status(GADS, 200).await;
        }
        let (ours, peers) = tokio::join!(
            hub.send(method, &below, &headers, *body),
            spoke.send(method, path, &headers, *body)
        );
        let (ours, peers) = (masked(&ours), masked(&peers));
        if ours != peers {
            findings.push(format!("{method} {path} {body}\n- {peers}\n+ {ours}"));
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
    issuers(&hub, &spoke, embedded).await;
    ending::a_watch_ends_with_its_definition(&hub, &spoke, embedded).await;
    selected::fields_that_are_not_set_are_selected_alike(&hub, &spoke, embedded).await;
    roles::aggregating_roles_show_their_rules(&hub, &spoke, embedded).await;
    methods::methods_are_refused_alike(&hub, &spoke, embedded).await;
    discovery::subresources_are_named_alike(&hub, &spoke, embedded).await;
    messages::messages_are_those_of_kubernetes(
        (&hub, &spoke),
        (&stage.hub.at(embedded), &stage.direct()),
        embedded,
    )
    .await;
    let kubeconfigs = (text(&stage.hub.kubeconfig()), text(stage.east.kubeconfig()));
    websocket::watches_over_websocket_are_alike((&hub, &spoke), &kubeconfigs, embedded).await;
}

/// An answer without what is its server's own, and without what is no matter of these requests.
fn masked(answer: &Answer) -> String {
    let mut body = answer.body.clone();
    mask(&mut body);
    let text = format!("{} {body}", answer.status);
    // What a message says of the object has the fields in another order.
    let object = Regex::new(r#"Invalid value: \\?".*\}\\?": "#).expect("a pattern");
    object
        .replace_all(&text, "Invalid value: OBJECT: ")
        .into_owned()
}

fn mask(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                match name.as_str() {
                    "uid" | "resourceVersion" | "creationTimestamp" | "time" | "manager"
                    | "lastTransitionTime" | "fieldsV1" | "conditions" => {
                        *value = Value::from("MASKED");
                    }
                    _ => mask(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask),
        _ => {}
    }
}

/// The configuration of the issuer has the fields of Kubernetes', and names where its keys are.
async fn issuers(hub: &User, spoke: &User, embedded: &str) {
    const CONFIGURATION: &str = "/.well-known/openid-configuration";
    let fields = |answer: &Value| -> Vec<String> {
        let fields = answer.as_object().into_iter().flatten();
        fields.map(|(name, _)| name.clone()).collect()
    };
    let peers = spoke.get(CONFIGURATION).await.must(200);
    for prefix in [
        String::new(),
        format!("/clusters/{embedded}"),
        "/clusters/east".to_owned(),
    ] {
        let ours = hub.get(&format!("{prefix}{CONFIGURATION}")).await.must(200);
        assert_eq!(fields(&ours), fields(&peers), "{prefix}: {ours}");
        let jwks = format!("{prefix}/openid/v1/jwks");
        if prefix != "/clusters/east" {
            let uri = ours["jwks_uri"].as_str().unwrap_or_default();
            assert!(uri.ends_with(&jwks), "{uri}");
        }
        let accept = [("accept", "application/jwk-set+json")];
        let keys = hub.send("GET", &jwks, &accept, "").await.must(200);
        for field in ["kid", "kty", "alg", "use"] {
            assert!(keys["keys"][0][field].is_string(), "{field} of {keys}");
        }
    }
}
