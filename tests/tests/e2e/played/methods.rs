//! What is answered to a method that a path does not have.

use wheelhouse_tests::support::{JSON, User};

/// Paths that are no objects, and one of a collection and of an object.
const PATHS: &[&str] = &[
    "/",
    "/api",
    "/api/v1",
    "/apis",
    "/apis/apps",
    "/apis/apps/v1",
    "/version",
    "/version/",
    "/healthz",
    "/livez",
    "/readyz",
    "/livez/ping",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/api/v1",
    "/openid/v1/jwks",
    "/.well-known/openid-configuration",
    "/nonesuch",
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/configmaps/m",
    "/api/v1/nonesuch",
];

/// Methods are refused as a kube-apiserver refuses them.
pub(super) async fn methods_are_refused_alike(hub: &User, spoke: &User, embedded: &str) {
    let mut findings = Vec::new();
    for path in PATHS {
        for method in ["HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"] {
            let is_of_objects = path.starts_with("/api/v1/n");
            if is_of_objects && !matches!(method, "HEAD" | "OPTIONS" | "TRACE") {
                continue;
            }
            let headers = [("content-type", JSON)];
            let below = format!("/clusters/{embedded}{path}");
            let (ours, peers) = tokio::join!(
                hub.send(method, &below, &headers, "{}"),
                spoke.send(method, path, &headers, "{}")
            );
            let allowed = |answer: &wheelhouse_tests::support::Answer| {
                let allow = answer.headers.get("allow");
                allow.and_then(|it| it.to_str().ok()).map(str::to_owned)
            };
            let said = |answer: &wheelhouse_tests::support::Answer| {
                (
                    answer.status,
                    allowed(answer),
                    answer.body["reason"].clone(),
                    answer.body["message"].clone(),
                )
            };
            if said(&ours) != said(&peers) {
                findings.push(format!(
                    "{method} {path}\n- {:?}\n+ {:?}",
                    said(&peers),
                    said(&ours)
                ));
            }
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}
