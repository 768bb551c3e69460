//! Subresources in discovery, of both.

use std::collections::BTreeMap;

use serde_json::Value;
use wheelhouse_tests::support::User;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// What a hub does not serve of resources that it serves: only a kubelet can answer it.
const NOT_SERVED: &[&str] = &["v1 nodes/proxy"];

/// Compares the subresources of every resource that both have, in both forms of discovery.
pub(super) async fn subresources_are_named_alike(hub: &User, spoke: &User, embedded: &str) {
    for prefix in [format!("/clusters/{embedded}"), String::new()] {
        for is_plain in [false, true] {
            let (ours, peers) = if is_plain {
                (plain(hub, &prefix).await, plain(spoke, "").await)
            } else {
                (aggregated(hub, &prefix).await, aggregated(spoke, "").await)
            };
            let is_root = prefix.is_empty();
            assert!(
                ours.len() > if is_root { 8 } else { 40 },
                "{prefix}: {ours:?}"
            );
            for (resource, own) in &ours {
                let Some(theirs) = peers.get(resource) else {
                    continue;
                };
                let mut theirs = theirs.clone();
                theirs
                    .retain(|name, _| !NOT_SERVED.contains(&format!("{resource}/{name}").as_str()));
                assert_eq!(*own, theirs, "{prefix} {resource}");
            }
            assert!(ours["v1 serviceaccounts"].contains_key("token"), "{prefix}");
        }
    }
}

type Found = BTreeMap<String, BTreeMap<String, String>>;

/// The subresources by `<group version> <resource>`, each with its kind and verbs.
async fn aggregated(user: &User, prefix: &str) -> Found {
    let mut found = Found::new();
    for page in ["/api", "/apis"] {
        let headers = [("accept", AGGREGATED)];
        let list = user
            .send("GET", &format!("{prefix}{page}"), &headers, "")
            .await;
        for group in list.must(200)["items"].as_array().into_iter().flatten() {
            for version in group["versions"].as_array().into_iter().flatten() {
                let name = group["metadata"]["name"].as_str().unwrap_or_default();
                let at = version["version"].as_str().unwrap_or_default();
                let at = format!("{name}/{at}").trim_start_matches('/').to_owned();
                for resource in version["resources"].as_array().into_iter().flatten() {
                    let key = format!("{at} {}", text(&resource["resource"]));
                    let subresources = resource["subresources"].as_array();
                    let subresources = subresources.into_iter().flatten().map(|it| {
                        let kind = &it["responseKind"];
                        let (group, version) = (text(&kind["group"]), text(&kind["version"]));
                        let kind = text(&kind["kind"]);
                        let shown = format!("{group}/{version} {kind} {}", it["verbs"]);
                        (text(&it["subresource"]), shown)
                    });
                    found.insert(key, subresources.collect());
                }
            }
        }
    }
    found
}

/// The same of the plain documents.
async fn plain(user: &User, prefix: &str) -> Found {
    let groups = user.get(&format!("{prefix}/apis")).await.must(200);
    let mut paths = vec!["/api/v1".to_owned()];
    for group in groups["groups"].as_array().into_iter().flatten() {
        for version in group["versions"].as_array().into_iter().flatten() {
            paths.push(format!("/apis/{}", text(&version["groupVersion"])));
        }
    }
    let mut found = Found::new();
    for path in paths {
        let list = user.get(&format!("{prefix}{path}")).await.must(200);
        let at = text(&list["groupVersion"]);
        for resource in list["resources"].as_array().into_iter().flatten() {
            let name = text(&resource["name"]);
            let (parent, subresource) = name.split_once('/').unwrap_or((&name, ""));
            let below = found.entry(format!("{at} {parent}")).or_default();
            if !subresource.is_empty() {
                let (group, version) = (text(&resource["group"]), text(&resource["version"]));
                let (kind, verbs) = (text(&resource["kind"]), &resource["verbs"]);
                below.insert(
                    subresource.to_owned(),
                    format!("{group}/{version} {kind} {verbs}"),
                );
            }
        }
    }
    found
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
