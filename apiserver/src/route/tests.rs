//! Paths and what they mean: Kubernetes' own table (`requestinfo_test.go`), then the clusters.

use super::*;

fn routed(method: &str, uri: &str) -> Result<RequestInfo, Refusal> {
    route(&method.parse().unwrap(), &uri.parse().unwrap())
}

/// verb prefix group version namespace resource subresource name
type Want = [&'static str; 8];

const RESOURCES: &[(&str, &str, Want)] = &[
    (
        "GET",
        "/api/v1/namespaces",
        ["list", "api", "", "v1", "", "namespaces", "", ""],
    ),
    (
        "GET",
        "/api/v1/namespaces/other",
        ["get", "api", "", "v1", "other", "namespaces", "", "other"],
    ),
    (
        "GET",
        "/api/v1/namespaces/other/pods",
        ["list", "api", "", "v1", "other", "pods", "", ""],
    ),
    (
        "GET",
        "/api/v1/namespaces/other/pods/foo",
        ["get", "api", "", "v1", "other", "pods", "", "foo"],
    ),
    (
        "HEAD",
        "/api/v1/namespaces/other/pods/foo",
        ["get", "api", "", "v1", "other", "pods", "", "foo"],
    ),
    (
        "GET",
        "/api/v1/pods",
        ["list", "api", "", "v1", "", "pods", "", ""],
    ),
    (
        "HEAD",
        "/api/v1/pods",
        ["list", "api", "", "v1", "", "pods", "", ""],
    ),
    (
        "GET",
        "/api/v1/proxy/namespaces/other/pods/foo",
        ["proxy", "api", "", "v1", "other", "pods", "", "foo"],
    ),
    (
        "GET",
        "/api/v1/proxy/namespaces/other/pods/foo/sub/path",
        ["proxy", "api", "", "v1", "other", "pods", "", "foo"],
    ),
    (
        "GET",
        "/api/v1/watch/pods",
        ["watch", "api", "", "v1", "", "pods", "", ""],
    ),
    (
        "GET",
        "/api/v1/pods?watch=true",
        ["watch", "api", "", "v1", "", "pods", "", ""],
    ),
    (
        "GET",
        "/api/v1/pods?watch=false",
        ["list", "api", "", "v1", "", "pods", "", ""],
    ),
    (
        "GET",
        "/api/v1/pods?watch=0",
        ["list", "api", "", "v1", "", "pods", "", ""],
    ),
    (
        "GET",
        "/api/v1/pods?watch",
        ["watch", "api", "", "v1", "", "pods", "", ""],
    ),
    (
        "GET",
        "/api/v1/watch/namespaces/other/pods",
        ["watch", "api", "", "v1", "other", "pods", "", ""],
    ),
    (
        "GET",
        "/api/v1/namespaces/other/pods/foo/status",
        ["get", "api", "", "v1", "other", "pods", "status", "foo"],
    ),
    (
        "GET",
        "/api/v1/namespaces/other/pods/foo/proxy/a/b",
        ["get", "api", "", "v1", "other", "pods", "proxy", "foo"],
    ),
    (
        "GET",
        "/api/v1/namespaces/other/finalize",
        [
            "get",
            "api",
            "",
            "v1",
            "other",
            "namespaces",
            "finalize",
            "other",
        ],
    ),
    (
        "PUT",
        "/api/v1/namespaces/other/status",
        [
            "update",
            "api",
            "",
            "v1",
            "other",
            "namespaces",
            "status",
            "other",
        ],
    ),
    (
        "GET",
        "/api/v1/nodes/node/stats/container",
        ["get", "api", "", "v1", "", "nodes", "stats", "node"],
    ),
    (
        "PATCH",
        "/api/v1/namespaces/other/pods/foo",
        ["patch", "api", "", "v1", "other", "pods", "", "foo"],
    ),
    (
        "DELETE",
        "/api/v1/namespaces/other/pods/foo",
        ["delete", "api", "", "v1", "other", "pods", "", "foo"],
    ),
    (
        "DELETE",
        "/api/v1/namespaces/other/pods",
        ["deletecollection", "api", "", "v1", "other", "pods", "", ""],
    ),
    (
        "DELETE",
        "/api/v1/nodes",
        ["deletecollection", "api", "", "v1", "", "nodes", "", ""],
    ),
    (
        "DELETE",
        "/api/v1/namespaces",
        [
            "deletecollection",
            "api",
            "",
            "v1",
            "",
            "namespaces",
            "",
            "",
        ],
    ),
    (
        "POST",
        "/api/v1/namespaces/other/pods",
        ["create", "api", "", "v1", "other", "pods", "", ""],
    ),
    (
        "GET",
        "/apis/apps/v1/namespaces/other/deployments/foo",
        [
            "get",
            "apis",
            "apps",
            "v1",
            "other",
            "deployments",
            "",
            "foo",
        ],
    ),
    (
        "GET",
        "/apis/apps/v1/watch/namespaces/other/deployments",
        [
            "watch",
            "apis",
            "apps",
            "v1",
            "other",
            "deployments",
            "",
            "",
        ],
    ),
    (
        "GET",
        "/apis/apps/v1/deployments/",
        ["list", "apis", "apps", "v1", "", "deployments", "", ""],
    ),
    (
        "GET",
        "/api/v1/pods?fieldSelector=metadata.name=x",
        ["list", "api", "", "v1", "", "pods", "", "x"],
    ),
    (
        "GET",
        "/api/v1/pods?fieldSelector=metadata.name%3Dx%2Ca%3Db&watch=1",
        ["watch", "api", "", "v1", "", "pods", "", "x"],
    ),
    (
        "GET",
        "/api/v1/pods?fieldSelector=metadata.name!=x",
        ["list", "api", "", "v1", "", "pods", "", ""],
    ),
    (
        "DELETE",
        "/api/v1/pods?fieldSelector=metadata.name=x",
        ["deletecollection", "api", "", "v1", "", "pods", "", ""],
    ),
    (
        "GET",
        "/api/v1/pods/x?watch=true",
        ["get", "api", "", "v1", "", "pods", "", "x"],
    ),
    (
        "OPTIONS",
        "/api/v1/pods",
        ["", "api", "", "v1", "", "pods", "", ""],
    ),
    (
        "GET",
        "/api/v1/clusterroles/system%3Anode",
        [
            "get",
            "api",
            "",
            "v1",
            "",
            "clusterroles",
            "",
            "system:node",
        ],
    ),
];

#[test]
fn a_path_below_a_version_is_a_resource_request() {
    for (method, uri, want) in RESOURCES {
        let info = routed(method, uri).unwrap();
        let got = [
            info.verb.as_str(),
            info.api_prefix,
            &info.group,
            &info.version,
            &info.namespace,
            &info.resource,
            &info.subresource,
            &info.name,
        ];
        assert_eq!(got, *want, "{method} {uri}");
        assert!(info.is_resource, "{method} {uri}");
    }
}

#[test]
fn every_other_path_is_not() {
    for (method, uri, verb) in [
        ("GET", "/", "get"),
        ("GET", "/api", "get"),
        ("GET", "/api/", "get"),
        ("GET", "/api/v1", "get"),
        ("GET", "/api/v1/", "get"),
        ("GET", "/apis", "get"),
        ("GET", "/apis/apps", "get"),
        ("GET", "/apis/apps/v1", "get"),
        ("HEAD", "/healthz", "head"),
        ("POST", "/version", "post"),
        ("DELETE", "/metrics", "delete"),
        ("GET", "/clusters", "get"),
        ("GET", "/clusters/", "get"),
        ("GET", "/clustersx/a/api/v1/pods", "get"),
    ] {
        let info = routed(method, uri).unwrap();
        assert!(!info.is_resource, "{method} {uri}");
        assert_eq!(info.verb.as_str(), verb, "{method} {uri}");
        assert_eq!(info.cluster.to_string(), "root", "{method} {uri}");
    }
}

#[test]
fn the_cluster_is_stripped_from_the_decoded_path() {
    for (uri, cluster, path) in [
        ("/clusters/east/api/v1/pods", "east", "/api/v1/pods"),
        ("/clusters/east", "east", "/"),
        ("/clusters/east/", "east", "/"),
        ("/clusters/*/api/v1/pods", "*", "/api/v1/pods"),
        ("/clusters/%2a/api/v1/pods", "*", "/api/v1/pods"),
        ("/clusters/%65ast/version", "east", "/version"),
        ("/clusters/root/apis", "root", "/apis"),
        (
            "/apis/wheelhouse.dev/v1alpha1/spokes/east/proxy/api/v1/pods",
            "east",
            "/api/v1/pods",
        ),
        (
            "/apis/wheelhouse.dev/v1alpha1/spokes/%65ast/proxy/version",
            "east",
            "/version",
        ),
        (
            "/apis/wheelhouse.dev/v1alpha1/spokes/east/proxy",
            "east",
            "/",
        ),
        (
            "/apis/wheelhouse.dev/v1alpha1/spokes/east/proxy/",
            "east",
            "/",
        ),
        // Subresources of a Spoke of root, and other groups.
        (
            "/apis/wheelhouse.dev/v1alpha1/spokes/east/proxyx",
            "root",
            "/apis/wheelhouse.dev/v1alpha1/spokes/east/proxyx",
        ),
        (
            "/apis/wheelhouse.dev/v1alpha1/spokes/east/status",
            "root",
            "/apis/wheelhouse.dev/v1alpha1/spokes/east/status",
        ),
        (
            "/apis/wheelhouse.dev/v1/spokes/east/proxy/api",
            "root",
            "/apis/wheelhouse.dev/v1/spokes/east/proxy/api",
        ),
        (
            "/api/v1/namespaces/clusters/pods",
            "root",
            "/api/v1/namespaces/clusters/pods",
        ),
    ] {
        let info = routed("GET", uri).unwrap();
        assert_eq!(
            (info.cluster.to_string().as_str(), info.path.as_str()),
            (cluster, path),
            "{uri}"
        );
    }
}

#[test]
fn what_is_no_path_is_refused() {
    for (uri, code) in [
        ("host:443", Some(400)),
        ("*", Some(400)),
        ("/clusters/East/api", Some(400)),
        ("/clusters/a.b/api", Some(400)),
        ("/clusters//api", Some(400)),
        ("/clusters/..%2Froot/api", Some(400)),
        ("/clusters/a%2e/api", Some(400)),
        // What would be relayed is not what was judged: `/clusters/east%2Fx/apis` reads as `/x/apis` of east.
        ("/clusters%2Feast/api/v1/pods", Some(400)),
        ("/clusters/east%2Fx/apis/a.io/v1/xs", Some(400)),
        ("/clusters/east%2fapi/v1/pods", Some(400)),
        ("/%63lusters%2feast/api", Some(400)),
        ("/%63lusters/east/api", Some(400)),
        ("/api/v1/namespaces/../pods", Some(400)),
        ("/api/v1/%2e%2e/pods", Some(400)),
        ("/api/v1/%ff/pods", Some(400)),
        ("/api/v1/%4/pods", Some(400)),
        ("/api/v1/watch", Some(400)),
        ("/clusters/a/clusters/b", None),
        ("/clusters/a/clusters", None),
        ("/clusters/a%2Fclusters/b/api", None),
        ("/clusters/a/clusters/b/api/v1/pods", None),
        (&*format!("{SPOKES}/a/proxy/clusters/b/api"), None),
        (&*format!("/clusters/a{SPOKES}/b/proxy/api"), None),
        (&*format!("/clusters/root{SPOKES}/b/proxy"), None),
        (&*format!("{SPOKES}/a/proxy{SPOKES}/b/proxy"), None),
        (&*format!("{SPOKES}/a/proxy{SPOKES}/b/%70roxy/api"), None),
        (&*format!("{SPOKES}/root/proxy/api/v1/secrets"), None),
        (&*format!("{SPOKES}/*/proxy/api/v1/secrets"), None),
        (&*format!("{SPOKES}/A/proxy/api"), Some(400)),
        (&*format!("{SPOKES}//proxy/api"), Some(400)),
        (&*format!("{SPOKES}/a/proxy%2Fapi"), Some(400)),
        (&*format!("{SPOKES}/a/%70roxy/api"), Some(400)),
        (&*format!("{SPOKES}/a%2Fproxy/api"), Some(400)),
        (
            "/apis/wheelhouse%2Edev/v1alpha1/spokes/a/proxy/api",
            Some(400),
        ),
    ] {
        let refusal = match routed("GET", uri) {
            Err(refusal) => refusal,
            Ok(info) => panic!("{uri} is served as {info:?}"),
        };
        assert_eq!(refusal.status().map(|status| status.code), code, "{uri}");
    }
}

#[test]
fn what_stands_before_the_path_is_known_for_answers_that_name_paths() {
    for (uri, prefix) in [
        ("/api/v1/pods", ""),
        ("/clusters/root/api/v1/pods", ""),
        ("/clusters/east/api/v1/pods", "/clusters/east"),
        ("/clusters/*/api/v1/pods", "/clusters/*"),
        (
            "/apis/wheelhouse.dev/v1alpha1/spokes/east/proxy/api/v1/pods",
            "/apis/wheelhouse.dev/v1alpha1/spokes/east/proxy",
        ),
    ] {
        assert_eq!(routed("GET", uri).unwrap().prefix(), prefix, "{uri}");
    }
}

#[test]
fn what_follows_a_subresource_is_kept() {
    for (uri, rest) in [
        ("/api/v1/namespaces/a/pods/b/proxy/c/d", "c/d"),
        ("/api/v1/namespaces/a/pods/b/log", ""),
        ("/api/v1/proxy/nodes/n/c/d", "c/d"),
    ] {
        assert_eq!(routed("GET", uri).unwrap().rest, rest, "{uri}");
    }
}
