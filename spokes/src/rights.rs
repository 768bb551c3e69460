//! What a credential has to be allowed for the hub to work with it: to act as others.

use api::GroupVersionResource;
use client::{Dynamic, Endpoint};
use serde_json::json;

/// Asks a cluster whether the credential of a connection may act as users. Returns what is missing, if the cluster says so.
///
/// A cluster that does not answer the question (a SelfSubjectAccessReview) has refused nothing.
pub async fn missing(cluster: &Dynamic) -> Option<String> {
    let endpoint = Endpoint {
        scope: None,
        gvr: GroupVersionResource::new("authorization.k8s.io", "v1", "selfsubjectaccessreviews"),
        namespace: None,
    };
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "impersonate", "resource": "users"}},
    });
    let answer = cluster.create(&endpoint, &review).await.ok()?;
    let is_refused = answer["status"]["allowed"] == false;
    is_refused.then(|| {
        "the credential may not impersonate users there, and the hub does all work in the name of others: \
         bind it to a ClusterRole that allows what docs/spokes.md lists"
            .to_owned()
    })
}
