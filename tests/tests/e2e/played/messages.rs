//! Objects in protobuf, of both: the bytes that a kube-apiserver answers are those that the hub makes of the JSON that it answers.

use apiserver::protobuf;
use serde_json::{Value, json};
use wheelhouse_tests::{
    Kubectl,
    support::{JSON, User},
};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const METADATA: &str =
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str =
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// Objects that have a value in most fields that are hard to encode.
const RICH: &str = include_str!("../../../fixtures/rich.yaml");

/// Lists whatever is built in, of a kube-apiserver in both forms, then asks both for what has a form of its own.
pub(super) async fn messages_are_those_of_kubernetes(
    (hub, spoke): (&User, &User),
    (inner, direct): (&Kubectl, &Kubectl),
    embedded: &str,
) {
    tokio::join!(inner.apply(RICH), direct.apply(RICH));
    let prefix = format!("/clusters/{embedded}");
    let (ours, peers) = (lists(hub, &prefix).await, lists(spoke, "").await);
    assert!(ours > 40 && peers > 40, "{ours} and {peers} kinds");
    for (path, accept) in [
        ("/api/v1/namespaces/default", PROTOBUF),
        ("/api/v1/namespaces/default", METADATA),
        ("/api/v1/namespaces", METADATA_LIST),
        ("/api/v1/namespaces/nope", PROTOBUF),
        ("/apis/example.com/v1/namespaces/default/gads/g", METADATA),
        (
            "/apis/example.com/v1/namespaces/default/gads",
            METADATA_LIST,
        ),
        ("/apis/example.com/v1/namespaces/default/gads/g", PROTOBUF),
        ("/apis/example.com/v1/namespaces/default/gads", PROTOBUF),
        (
            "/apis/example.com/v1/namespaces/default/gads/nope",
            METADATA,
        ),
        (
            "/apis/example.com/v1/namespaces/default/gads/g",
            "application/vnd.kubernetes.protobuf,application/json",
        ),
        (
            "/api/v1/namespaces/default",
            "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1",
        ),
        (
            "/api/v1/namespaces/default",
            "application/vnd.kubernetes.protobuf;q=0.1,application/yaml;q=0.2",
        ),
        (
            "/api/v1/namespaces/default",
            "*/*,application/vnd.kubernetes.protobuf",
        ),
        ("/api/v1/namespaces/default", "text/html"),
        ("/api/v1/namespaces?watch=true", "text/html"),
        ("/api/v1/namespaces?watch=true", "application/yaml"),
        ("/api/v1/namespaces?watch=true&timeoutSeconds=1", PROTOBUF),
        // Of a watch, kube-apiserver makes a 500 of this, because nothing translates the error; the hub answers it as of a list.
        ("/api/v1/namespaces?resourceVersion=x", PROTOBUF),
        ("/api", PROTOBUF),
        ("/apis/apps", PROTOBUF),
        ("/apis/apps/v1", PROTOBUF),
        (
            "/api",
            "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        ),
    ] {
        let below = format!("{prefix}{path}");
        let (ours, peers) =
            tokio::join!(hub.get_bytes(&below, accept), spoke.get_bytes(path, accept));
        let what = format!("{path} as {accept}");
        assert_eq!((ours.0, &ours.1), (peers.0, &peers.1), "{what}");
        if ours.1 == PROTOBUF {
            assert_eq!(kind_of(&ours.2), kind_of(&peers.2), "{what}");
        }
        if ours.0 != 200 {
            let (ours, peers) = (decoded(&ours.2), decoded(&peers.2));
            assert_eq!(ours["message"], peers["message"], "{what}");
        }
    }
}

/// Compares every list of a server with what is encoded of its JSON, and returns how many kinds there were.
async fn lists(user: &User, prefix: &str) -> usize {
    let mut count = 0;
    for page in ["/api", "/apis"] {
        let headers = [("accept", AGGREGATED)];
        let list = user
            .send("GET", &format!("{prefix}{page}"), &headers, "")
            .await;
        for group in list.must(200)["items"].as_array().into_iter().flatten() {
            for version in group["versions"].as_array().into_iter().flatten() {
                let name = group["metadata"]["name"].as_str().unwrap_or_default();
                let version_name = version["version"].as_str().unwrap_or_default();
                let at = format!("{name}/{version_name}");
                let at = at.trim_start_matches('/');
                for resource in version["resources"].as_array().into_iter().flatten() {
                    let kind = resource["responseKind"]["kind"].as_str();
                    let is_listed = resource["verbs"]
                        .as_array()
                        .is_some_and(|it| it.contains(&json!("list")));
                    if is_listed && protobuf::has_message(at, kind.unwrap_or_default()) {
                        let resource = resource["resource"].as_str().unwrap_or_default();
                        one_list(user, &format!("{prefix}{page}/{at}/{resource}")).await;
                        count += 1;
                    }
                }
            }
        }
    }
    count
}

async fn one_list(user: &User, path: &str) {
    let listed = user.get(path).await.must(200);
    let Some(version) = listed["metadata"]["resourceVersion"].as_str() else {
        // What is not stored, `componentstatuses`, is listed in another order each time.
        return;
    };
    let exact = format!("{path}?resourceVersion={version}&resourceVersionMatch=Exact");
    let (status, media, bytes) = user.get_bytes(&exact, PROTOBUF).await;
    assert_eq!((status, media.as_str()), (200, PROTOBUF), "{path}");
    let listed = user
        .send("GET", &exact, &[("accept", JSON)], "")
        .await
        .must(200);
    let encoded = protobuf::encode(&listed).expect("it has a message");
    let same = encoded
        .iter()
        .zip(&bytes)
        .take_while(|(own, other)| own == other)
        .count();
    let around = |bytes: &[u8]| {
        let part = bytes.get(same.saturating_sub(200)..bytes.len().min(same + 100));
        String::from_utf8_lossy(part.unwrap_or_default()).into_owned()
    };
    assert!(
        encoded == bytes,
        "{path} at byte {same}:\n- {:?}\n+ {:?}",
        around(&bytes),
        around(&encoded)
    );
}

/// The type that an envelope names.
fn kind_of(bytes: &[u8]) -> (String, String) {
    let envelope = protobuf::envelope(bytes).expect("an envelope");
    (envelope.api_version, envelope.kind)
}

fn decoded(bytes: &[u8]) -> Value {
    let json = serde_json::from_slice(bytes).ok();
    let message = || protobuf::envelope(bytes).and_then(|envelope| envelope.decode());
    json.or_else(|| message().ok()).unwrap_or_default()
}
