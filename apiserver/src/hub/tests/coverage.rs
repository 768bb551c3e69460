//! Every route is behind an authorization decision. The table is made from what the hub says it serves, so that a new kind, verb
//! or subresource is in it without anyone's doing.

#![expect(clippy::too_many_lines, reason = "a story is told in one piece")]

use http::Method;
use serde_json::{Value, json};

use super::world::{ADMIN, ANONYMOUS, Findings, NOBODY, World};

const AGGREGATED: (&str, &str) = (
    "accept",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
);

/// Paths that tell nothing about anyone. Source: `system:public-info-viewer`.
const PUBLIC: &[&str] = &["/healthz", "/livez", "/readyz", "/version", "/version/"];

/// What everyone with a credential may ask of root: who am I, and what may I?
const OF_EVERYONE: &[&str] = &[
    "selfsubjectaccessreviews",
    "selfsubjectrulesreviews",
    "selfsubjectreviews",
];

struct Route {
    method: Method,
    path: String,
    resource: String,
}

/// All verbs of all resources and subresources of a logical cluster; also those that are not served, which must be refused
/// before that is told.
async fn routes(world: &World, prefix: &str, served_at: &str) -> Vec<Route> {
    let mut routes = Vec::new();
    for document in ["api", "apis"] {
        let list = world
            .send(super::world::Sent {
                token: ADMIN,
                method: Method::GET,
                path: &format!("{served_at}/{document}"),
                headers: &[AGGREGATED],
                body: Value::Null,
            })
            .await
            .json();
        for group in list["items"].as_array().unwrap() {
            let name = group["metadata"]["name"].as_str().unwrap_or_default();
            for version in group["versions"].as_array().unwrap() {
                let version_name = version["version"].as_str().unwrap();
                let base = if name.is_empty() {
                    format!("{prefix}/api/{version_name}")
                } else {
                    format!("{prefix}/apis/{name}/{version_name}")
                };
                for resource in version["resources"].as_array().unwrap() {
                    add(&mut routes, &base, resource);
                }
            }
        }
    }
    routes
}

fn add(routes: &mut Vec<Route>, base: &str, resource: &Value) {
    let name = resource["resource"].as_str().unwrap();
    let namespace = if resource["scope"] == "Namespaced" {
        "/namespaces/default"
    } else {
        ""
    };
    let mut push = |method: Method, path: String| {
        routes.push(Route {
            method,
            path,
            resource: name.to_owned(),
        });
    };
    let methods = [
        Method::GET,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::POST,
        Method::HEAD,
        Method::OPTIONS,
    ];
    for method in &methods {
        for path in [
            format!("{base}{namespace}/{name}"),
            format!("{base}/{name}"),
            format!("{base}{namespace}/{name}/x"),
        ] {
            push(method.clone(), path);
        }
        for subresource in resource["subresources"].as_array().into_iter().flatten() {
            let subresource = subresource["subresource"].as_str().unwrap();
            push(
                method.clone(),
                format!("{base}{namespace}/{name}/x/{subresource}"),
            );
        }
        // Subresources that nothing has must not be a way around either.
        for subresource in ["status", "scale", "proxy", "token", "log"] {
            push(
                method.clone(),
                format!("{base}{namespace}/{name}/x/{subresource}"),
            );
        }
    }
    push(Method::GET, format!("{base}{namespace}/{name}?watch=true"));
    push(Method::GET, format!("{base}/watch{namespace}/{name}"));
    push(Method::GET, format!("{base}/watch{namespace}/{name}/x"));
    push(Method::GET, format!("{base}/proxy{namespace}/{name}/x/y"));
}

#[tokio::test]
async fn no_verb_of_any_resource_is_answered_without_a_right_to_it() {
    let mut findings = Findings::default();
    let world = World::new().await;
    let crd = super::bypass::widgets();
    world
        .made(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            &crd,
        )
        .await;
    let mut count = 0;
    for (prefix, served_at) in [
        ("", ""),
        ("/clusters/root", ""),
        ("/clusters/east", "/clusters/east"),
        ("/clusters/west", "/clusters/west"),
        ("/clusters/*", ""),
        ("/clusters/nowhere", "/clusters/east"),
    ] {
        let routes = routes(&world, prefix, served_at).await;
        assert!(routes.len() > 50, "{prefix}: {} routes", routes.len());
        let is_root = matches!(prefix, "" | "/clusters/root");
        for Route {
            method,
            path,
            resource,
        } in routes
        {
            for (token, want) in [(ANONYMOUS, 403), (NOBODY, 403), ("a guess", 401)] {
                let of_everyone =
                    is_root && token == NOBODY && OF_EVERYONE.contains(&resource.as_str());
                if of_everyone && method == Method::POST {
                    continue;
                }
                // Whoever is known is told who it is, and nothing of the cluster: not even whether it is there.
                let is_own = token == NOBODY
                    && method == Method::POST
                    && prefix != "/clusters/*"
                    && path.ends_with("/v1/selfsubjectreviews");
                // A cluster below a cluster is no path, for whomever.
                let is_nested = !prefix.is_empty() && path.contains("/spokes/x/proxy");
                let want = match (is_nested, is_own) {
                    (true, _) => 404,
                    (false, true) => 201,
                    (false, false) => want,
                };
                let answer = world.ask(token, method.clone(), &path, json!({})).await;
                findings.expect(answer.code == want, || {
                    format!("{token:?} {method} {path}: {}", answer.text)
                });
                count += 1;
            }
        }
    }
    assert!(count > 10_000, "only {count} requests were tried");
}

#[tokio::test]
async fn no_path_is_answered_without_a_right_to_it() {
    let mut findings = Findings::default();
    let world = World::new().await;
    let index = world.get(ADMIN, "/").await.json();
    let mut paths: Vec<String> = index["paths"]
        .as_array()
        .unwrap()
        .iter()
        .map(|path| path.as_str().unwrap().to_owned())
        .collect();
    assert!(paths.iter().any(|path| path == "/metrics"), "{paths:?}");
    for more in [
        "/",
        "/index.html",
        "/wheelhouse/backup",
        "/uix/",
        "/debug/pprof/",
        "/logs",
        "/livez/ping",
        "/readyz/store",
        "/openapi/v3/api/v1",
        "/nothing",
        "/Metrics",
        "//metrics",
        "/metrics/",
        "/clusters",
        "/clusters/",
        "/version/x",
    ] {
        paths.push(more.to_owned());
    }
    for path in &paths {
        for prefix in ["", "/clusters/root"] {
            let public = PUBLIC.contains(&path.as_str());
            let path = format!("{prefix}{path}");
            if path.starts_with("/clusters/root/clusters") {
                continue;
            }
            let answer = world.get(ANONYMOUS, &path).await;
            assert_eq!(answer.code == 200, public, "{path}: {}", answer.text);
            assert!(public || answer.code == 403, "{path}: {}", answer.text);
            let writes = world.ask(ANONYMOUS, Method::POST, &path, json!({})).await;
            findings.expect(writes.code == 403, || {
                format!("POST {path}: {}", writes.text)
            });
        }
        for prefix in [
            "/clusters/east",
            "/clusters/west",
            "/clusters/nowhere",
            "/clusters/*",
        ] {
            if path.starts_with("/clusters") {
                continue;
            }
            for token in [ANONYMOUS, NOBODY] {
                let answer = world.get(token, &format!("{prefix}{path}")).await;
                findings.expect(answer.code == 403, || {
                    format!("{token:?} {prefix}{path}: {}", answer.text)
                });
            }
        }
    }
}

/// What the first gate says is the same whether there is a cluster or not.
#[tokio::test]
async fn a_refusal_does_not_tell_whether_a_cluster_exists() {
    let world = World::new().await;
    for path in [
        "/api",
        "/api/v1/namespaces/a/pods/b",
        "/livez",
        "/openapi/v3",
        "/metrics",
        "/apis/kro.run/v1alpha1/resourcegraphdefinitions",
    ] {
        for method in [Method::GET, Method::POST, Method::DELETE] {
            for token in [ANONYMOUS, NOBODY] {
                let mut answers = Vec::new();
                for cluster in ["east", "west", "nowhere"] {
                    let path = format!("/clusters/{cluster}{path}");
                    let answer = world.ask(token, method.clone(), &path, json!({})).await;
                    answers.push((answer.code, answer.text.replace(cluster, "CLUSTER")));
                }
                assert_eq!(answers.first(), answers.get(1), "{token:?} {method} {path}");
                assert_eq!(answers.first(), answers.get(2), "{token:?} {method} {path}");
            }
        }
    }
}

/// One right is that right and no other: for every route, the rule that is made for it allows it, and a rule that differs in one
/// part does not.
#[tokio::test]
async fn a_rule_reaches_its_own_route_and_no_other() {
    use crate::authorize::{Attributes, rbac::PolicyRule};
    use crate::request::UserInfo;
    let world = World::new().await;
    let user = UserInfo::authenticated("alice", [""; 0]);
    let mut count = 0;
    for route in routes(&world, "/clusters/east", "/clusters/east").await {
        let info = crate::route::route(&route.method, &route.path.parse().unwrap()).unwrap();
        let context_free = Attributes {
            user: &user,
            cluster: &info.cluster,
            verb: info.verb.as_str(),
            group: &info.group,
            version: &info.version,
            resource: &info.resource,
            subresource: &info.subresource,
            namespace: &info.namespace,
            name: &info.name,
            path: &info.path,
            is_resource: info.is_resource,
        };
        let full = if info.subresource.is_empty() {
            info.resource.clone()
        } else {
            format!("{}/{}", info.resource, info.subresource)
        };
        let exact = PolicyRule {
            verbs: vec![info.verb.as_str().to_owned()],
            api_groups: vec![info.group.clone()],
            resources: vec![full],
            ..PolicyRule::default()
        };
        assert!(
            exact.allows(&context_free),
            "{} {}",
            route.method,
            route.path
        );
        let other = |change: &dyn Fn(&mut PolicyRule)| {
            let mut rule = exact.clone();
            change(&mut rule);
            rule
        };
        for (what, rule) in [
            (
                "verb",
                other(&|rule| rule.verbs = vec!["impersonate".to_owned()]),
            ),
            (
                "group",
                other(&|rule| rule.api_groups = vec!["other.io".to_owned()]),
            ),
            (
                "resource",
                other(&|rule| rule.resources = vec!["others".to_owned()]),
            ),
            (
                "subresource",
                other(&|rule| rule.resources = vec![format!("{}/other", info.resource)]),
            ),
            (
                "name",
                other(&|rule| rule.resource_names = vec!["other".to_owned()]),
            ),
            (
                "path",
                PolicyRule {
                    verbs: vec!["*".to_owned()],
                    non_resource_urls: vec!["*".to_owned()],
                    ..PolicyRule::default()
                },
            ),
        ] {
            assert!(
                !rule.allows(&context_free),
                "another {what} allows {} {}",
                route.method,
                route.path
            );
        }
        if !info.subresource.is_empty() {
            let parent = other(&|rule| rule.resources = vec![info.resource.clone()]);
            assert!(
                !parent.allows(&context_free),
                "the resource is not its {}",
                info.subresource
            );
        }
        count += 1;
    }
    assert!(count > 500, "{count} routes");
}
