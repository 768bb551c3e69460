//! Backups through a whole hub, and attempts to get one without the right to it.

use http::{HeaderMap, Method, Request};
use http_body_util::BodyExt;
use serde_json::Value;
use tasks::Tasks;

use super::*;
use crate::{Config, Hub, request::UserInfo, respond::RequestBody};

struct Served {
    hub: Hub,
    tasks: Tasks,
    _directory: tempfile::TempDir,
}

impl Served {
    async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let tasks = Tasks::new();
        let config = Config {
            hub_id: "hub-a".to_owned(),
            ..Config::new(directory.path())
        };
        let hub = Hub::open(config, &tasks).await.unwrap();
        Self {
            hub,
            tasks,
            _directory: directory,
        }
    }

    async fn end(self) {
        drop(self.hub);
        self.tasks.shutdown(std::time::Duration::from_secs(5)).await;
    }

    async fn send(
        &self,
        user: UserInfo,
        method: Method,
        path: &str,
        headers: &[(&'static str, &str)],
        body: &Value,
    ) -> (u16, Bytes) {
        let mut request = Request::new(RequestBody::full(if body.is_null() {
            String::new()
        } else {
            body.to_string()
        }));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().unwrap();
        let mut map = HeaderMap::new();
        map.insert(header::CONTENT_TYPE, "application/json".parse().unwrap());
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        *request.headers_mut() = map;
        let response = self.hub.in_process(user).send(request).await;
        let code = response.status().as_u16();
        (
            code,
            response.into_body().collect().await.unwrap().to_bytes(),
        )
    }

    async fn get(&self, user: UserInfo, path: &str) -> (u16, Bytes) {
        self.send(user, Method::GET, path, &[], &Value::Null).await
    }

    async fn create(&self, path: &str, object: &Value) {
        let (code, body) = self.send(masters(), Method::POST, path, &[], object).await;
        assert_eq!(code, 201, "{path}: {body:?}");
    }

    /// Grants rules of root, or of a cluster, to a user.
    async fn grant(&self, prefix: &str, user: &str, rules: &Value) {
        let rbac = format!("{prefix}/apis/rbac.authorization.k8s.io/v1");
        let metadata = json!({ "name": format!("grant-{user}") });
        self.create(
            &format!("{rbac}/clusterroles"),
            &json!({ "metadata": metadata, "rules": rules }),
        )
        .await;
        self.create(
            &format!("{rbac}/clusterrolebindings"),
            &json!({ "metadata": metadata,
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": metadata["name"] },
                "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }] }),
        )
        .await;
    }

    /// Waits until a user is let through to what the grant is for: policies follow the store.
    async fn granted(&self, user: &str, path: &str) {
        for _ in 0..10_000 {
            if self.get(named(user), path).await.0 == 200 {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("{user} never got {path}");
    }
}

fn masters() -> UserInfo {
    UserInfo::system("root")
}

fn named(name: &str) -> UserInfo {
    UserInfo::authenticated(name, [""; 0])
}

fn config_map(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "data": { "k": name } })
}

async fn all_records(served: &Served, revision: u64) -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    loop {
        let after = records.last().map_or(Vec::new(), |last| last.key.clone());
        let after = URL_SAFE_NO_PAD.encode(after);
        let path = format!("{PATH}?revision={revision}&after={after}");
        let (code, page) = served.get(masters(), &path).await;
        assert_eq!(code, 200, "{path}: {page:?}");
        let page = storage::backup::records_of_page(&page).unwrap();
        if page.is_empty() {
            return records;
        }
        records.extend(page);
    }
}

#[tokio::test]
async fn a_backup_is_one_revision_whatever_is_written_meanwhile() {
    let served = Served::start().await;
    let maps = "/api/v1/namespaces/default/configmaps";
    for name in ["a", "b"] {
        served.create(maps, &config_map(name)).await;
    }
    let (code, body) = served.get(masters(), PATH).await;
    assert_eq!(code, 200);
    let description: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(description["hubId"], "hub-a");
    let revision = description["revision"].as_u64().unwrap();

    served.create(maps, &config_map("c")).await;
    let path = format!("{maps}/a");
    let deleted = served
        .send(masters(), Method::DELETE, &path, &[], &Value::Null)
        .await;
    assert_eq!(deleted.0, 200);

    let records = all_records(&served, revision).await;
    let of_default: Vec<String> = records
        .iter()
        .map(|record| String::from_utf8_lossy(&record.key).into_owned())
        .filter(|key| key.starts_with("/core/configmaps/root/default/"))
        .collect();
    assert_eq!(
        of_default,
        [
            "/core/configmaps/root/default/a",
            "/core/configmaps/root/default/b"
        ]
    );
    assert!(records.iter().all(|record| record.modified.0 <= revision));
    served.end().await;
}

#[tokio::test]
async fn what_cannot_be_answered_is_refused_with_a_reason() {
    let served = Served::start().await;
    for (name, query, want) in [
        ("no number", "revision=x", 400),
        ("a key that is no base64", "revision=1&after=%21", 400),
        ("a revision that is gone", "revision=7", 410),
        (
            "a revision of another epoch",
            "revision=8990000000000001",
            504,
        ),
    ] {
        let (code, body) = served.get(masters(), &format!("{PATH}?{query}")).await;
        assert_eq!(code, want, "{name}: {body:?}");
    }
    let post = served
        .send(masters(), Method::POST, PATH, &[], &json!({}))
        .await;
    assert_eq!(post.0, 404, "it is only read");
    served.end().await;
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a table of attempts")]
async fn nobody_gets_a_backup_without_the_right_to_everything() {
    let served = Served::start().await;
    served
        .create(
            "/apis/wheelhouse.dev/v1alpha1/spokes",
            &json!({ "apiVersion": "wheelhouse.dev/v1alpha1", "kind": "Spoke",
                "metadata": { "name": "east" }, "spec": { "provider": "Embedded" } }),
        )
        .await;
    let roles = "/clusters/east/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin";
    for _ in 0..10_000 {
        if served.get(masters(), roles).await.0 == 200 {
            break;
        }
        tokio::task::yield_now().await;
    }
    let all_paths = json!({ "nonResourceURLs": ["*"], "verbs": ["*"] });
    let read_all =
        json!({ "apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"] });
    let enter =
        json!({ "apiGroups": ["wheelhouse.dev"], "resources": ["spokes"], "verbs": ["access"] });
    for (prefix, user, rules) in [
        ("", "metrics", json!([all_paths])),
        (
            "",
            "exact",
            json!([{ "nonResourceURLs": [PATH], "verbs": ["get"] }, { "nonResourceURLs": ["/version"], "verbs": ["get"] }]),
        ),
        ("", "reader", json!([read_all])),
        (
            "",
            "both",
            json!([all_paths, { "apiGroups": ["*"], "resources": ["*"], "verbs": ["list", "watch"] }]),
        ),
        // `*` in a rule for everything covers `access` too, but `get` does not.
        ("", "outside", json!([all_paths, read_all])),
        ("", "entitled", json!([all_paths, read_all, enter])),
        ("", "enters", json!([enter])),
        (
            "/clusters/east",
            "enters",
            json!([all_paths, { "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }]),
        ),
        (
            "",
            "actor",
            json!([{ "apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"], "resourceNames": ["outside"] }]),
        ),
    ] {
        served.grant(prefix, user, &rules).await;
    }
    served.granted("entitled", PATH).await;
    served.granted("exact", "/version").await;
    served
        .granted("enters", "/clusters/east/api/v1/namespaces/default")
        .await;

    let account = UserInfo::authenticated(
        "system:serviceaccount:kube-system:default",
        ["system:serviceaccounts"],
    );
    let deep = format!("{PATH}?revision=1");
    let attempts: Vec<(&str, UserInfo, String, Vec<(&'static str, &str)>, u16)> = vec![
        (
            "who may do everything",
            masters(),
            PATH.to_owned(),
            vec![],
            200,
        ),
        (
            "who was given all of it",
            named("entitled"),
            PATH.to_owned(),
            vec![],
            200,
        ),
        (
            "by root's other name",
            masters(),
            format!("/clusters/root{PATH}"),
            vec![],
            200,
        ),
        (
            "by root's other name, without right",
            named("reader"),
            format!("/clusters/root{PATH}"),
            vec![],
            403,
        ),
        (
            "nobody",
            UserInfo::anonymous(),
            PATH.to_owned(),
            vec![],
            403,
        ),
        ("anybody", named("bob"), PATH.to_owned(), vec![], 403),
        ("a page of it", named("bob"), deep.clone(), vec![], 403),
        ("a ServiceAccount", account, PATH.to_owned(), vec![], 403),
        (
            "all paths, as for metrics",
            named("metrics"),
            PATH.to_owned(),
            vec![],
            403,
        ),
        ("all paths, a page", named("metrics"), deep, vec![], 403),
        (
            "the path alone",
            named("exact"),
            PATH.to_owned(),
            vec![],
            403,
        ),
        (
            "all objects, and not the path",
            named("reader"),
            PATH.to_owned(),
            vec![],
            403,
        ),
        (
            "lists, and no reads",
            named("both"),
            PATH.to_owned(),
            vec![],
            403,
        ),
        (
            "everything of root, and no spoke",
            named("outside"),
            PATH.to_owned(),
            vec![],
            403,
        ),
        ("a HEAD", named("outside"), PATH.to_owned(), vec![], 403),
        (
            "the admin of a spoke",
            named("enters"),
            PATH.to_owned(),
            vec![],
            403,
        ),
        (
            "the admin of a spoke, below it",
            named("enters"),
            format!("/clusters/east{PATH}"),
            vec![],
            404,
        ),
        (
            "below a spoke, with every right",
            masters(),
            format!("/clusters/east{PATH}"),
            vec![],
            404,
        ),
        (
            "below all spokes, with every right",
            masters(),
            format!("/clusters/*{PATH}"),
            vec![],
            404,
        ),
        (
            "below all spokes",
            named("outside"),
            format!("/clusters/*{PATH}"),
            vec![],
            403,
        ),
        (
            "below a spoke that is not",
            named("outside"),
            format!("/clusters/gone{PATH}"),
            vec![],
            403,
        ),
        (
            "another spelling",
            named("outside"),
            format!("{PATH}/"),
            vec![],
            404,
        ),
        (
            "another spelling, encoded",
            named("reader"),
            "/wheelhouse%2Fbackup".to_owned(),
            vec![],
            403,
        ),
        (
            "as someone who may not",
            masters(),
            PATH.to_owned(),
            vec![("impersonate-user", "outside")],
            403,
        ),
        (
            "as someone whom one may be",
            named("actor"),
            PATH.to_owned(),
            vec![("impersonate-user", "outside")],
            403,
        ),
        (
            "as someone whom one may not be",
            named("actor"),
            PATH.to_owned(),
            vec![("impersonate-user", "entitled")],
            403,
        ),
        (
            "as a master by group",
            named("actor"),
            PATH.to_owned(),
            vec![
                ("impersonate-user", "outside"),
                ("impersonate-group", "system:masters"),
            ],
            403,
        ),
    ];
    for (name, user, path, headers, want) in attempts {
        let method = if name == "a HEAD" {
            Method::HEAD
        } else {
            Method::GET
        };
        let (code, body) = served
            .send(user, method, &path, &headers, &Value::Null)
            .await;
        assert_eq!(code, want, "{name}: {body:?}");
    }
    served.end().await;
}
