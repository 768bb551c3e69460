//! Rights that someone tries to take: by impersonation, by roles, by tokens of others.

#![expect(clippy::too_many_lines, reason = "a story is told in one piece")]

use http::Method;
use serde_json::{Value, json};

use super::world::{ADMIN, ANONYMOUS, Findings, NOBODY, Sent, World, rule};

const REVIEW: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

#[tokio::test]
async fn nobody_writes_roles_or_bindings_beyond_their_own_rights() {
    let mut findings = Findings::default();
    let world = World::new().await;
    // dave administers a namespace; eve may write all RBAC objects and nothing else.
    world
        .bind(
            "/apis/rbac.authorization.k8s.io/v1/namespaces/here/rolebindings",
            "dave",
            "ClusterRole",
            "admin",
        )
        .await;
    let verbs = ["get", "list", "create", "update", "patch", "delete"];
    let rules = json!([rule(&verbs, "rbac.authorization.k8s.io", &["*"], &[])]);
    world.grant("", "", "eve", rules).await;
    world.settled().await;
    let binding = |kind: &str, role: &str, user: &str| {
        json!({
            "metadata": {"name": format!("{user}-{}", role.replace(':', "-"))},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        })
    };
    let role = |name: &str, rules: Value| json!({"metadata": {"name": name}, "rules": rules});
    let here = format!("{RBAC}/namespaces/here");
    for (user, path, object, code) in [
        (
            "dave",
            format!("{here}/rolebindings"),
            binding("ClusterRole", "view", "alice"),
            201,
        ),
        (
            "dave",
            format!("{here}/rolebindings"),
            binding("ClusterRole", "edit", "alice"),
            201,
        ),
        (
            "dave",
            format!("{here}/rolebindings"),
            binding("ClusterRole", "admin", "alice"),
            201,
        ),
        (
            "dave",
            format!("{here}/rolebindings"),
            binding("ClusterRole", "cluster-admin", "dave"),
            403,
        ),
        (
            "dave",
            format!("{here}/rolebindings"),
            binding("Role", "absent", "dave"),
            404,
        ),
        (
            "dave",
            format!("{here}/roles"),
            role("mine", json!([rule(&["get"], "", &["secrets"], &[])])),
            201,
        ),
        (
            "dave",
            format!("{here}/roles"),
            role("all", json!([rule(&["*"], "*", &["*"], &[])])),
            403,
        ),
        (
            "dave",
            format!("{RBAC}/clusterrolebindings"),
            binding("ClusterRole", "view", "dave"),
            403,
        ),
        (
            "dave",
            format!("{RBAC}/namespaces/there/rolebindings"),
            binding("ClusterRole", "view", "dave"),
            403,
        ),
        (
            "eve",
            format!("{RBAC}/clusterrolebindings"),
            binding("ClusterRole", "cluster-admin", "eve"),
            403,
        ),
        (
            "eve",
            format!("{RBAC}/clusterrolebindings"),
            binding("ClusterRole", "system:discovery", "eve"),
            201,
        ),
        (
            "eve",
            format!("{RBAC}/clusterroles"),
            role(
                "gate",
                json!([rule(&["access"], "wheelhouse.dev", &["spokes"], &[])]),
            ),
            403,
        ),
        (
            "eve",
            format!("{RBAC}/clusterroles"),
            role(
                "act",
                json!([rule(&["impersonate"], "", &["users", "groups"], &[])]),
            ),
            403,
        ),
        (
            "eve",
            format!("{RBAC}/clusterroles"),
            role(
                "up",
                json!([rule(
                    &["escalate", "bind"],
                    "rbac.authorization.k8s.io",
                    &["*"],
                    &[]
                )]),
            ),
            403,
        ),
    ] {
        let answer = world.ask(user, Method::POST, &path, object.clone()).await;
        findings.expect(answer.code == code, || {
            format!("{user} {path} {object}: {}", answer.text)
        });
        let name = object["metadata"]["name"].as_str().unwrap();
        if code == 403 && user == "eve" {
            // What creates otherwise: a PUT of what is not there, an apply, a change of what is.
            let mut sent = object.clone();
            sent["apiVersion"] = json!("rbac.authorization.k8s.io/v1");
            sent["kind"] = json!(if path.ends_with("bindings") {
                "ClusterRoleBinding"
            } else {
                "ClusterRole"
            });
            let one = format!("{path}/{name}");
            let put = world.ask(user, Method::PUT, &one, sent.clone()).await;
            findings.expect(put.code == 403, || format!("PUT {one}: {}", put.text));
            let apply = world
                .send(Sent {
                    token: user,
                    method: Method::PATCH,
                    path: &format!("{one}?fieldManager=m"),
                    headers: &[("content-type", "application/apply-patch+yaml")],
                    body: Value::String(sent.to_string()),
                })
                .await;
            findings.expect(apply.code == 403, || format!("apply {one}: {}", apply.text));
        }
    }
    let weak = json!({"metadata": {"name": "weak"}, "rules": []});
    world
        .made("/apis/rbac.authorization.k8s.io/v1/clusterroles", &weak)
        .await;
    let all = rule(&["*"], "*", &["*"], &[]);
    for patch in [
        json!({"rules": [all]}),
        json!({"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}),
    ] {
        let answer = world
            .ask(
                "eve",
                Method::PATCH,
                &format!("{RBAC}/clusterroles/weak"),
                patch.clone(),
            )
            .await;
        findings.expect(answer.code == 403, || format!("{patch}: {}", answer.text));
    }
    let relabel =
        json!({"metadata": {"labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}}});
    let answer = world
        .ask(
            "eve",
            Method::PATCH,
            &format!("{RBAC}/clusterroles/cluster-admin"),
            relabel,
        )
        .await;
    findings.expect(answer.code == 403, || answer.text.clone());
    assert_eq!(world.get("eve", "/api/v1/secrets").await.code, 403);
    assert_eq!(world.get("dave", "/api/v1/secrets").await.code, 403);
}

#[tokio::test]
async fn headers_lend_no_identity() {
    let mut findings = Findings::default();
    let world = World::new().await;
    let verb = ["impersonate"];
    world
        .grant(
            "",
            "",
            "carol",
            json!([rule(&verb, "", &["users"], &["alice", "system:admin"])]),
        )
        .await;
    world
        .grant("", "", "dave", json!([rule(&verb, "", &["users"], &[])]))
        .await;
    world
        .grant(
            "",
            "here",
            "bob",
            json!([rule(&verb, "", &["serviceaccounts"], &[])]),
        )
        .await;
    world.settled().await;
    let alice = ("impersonate-user", "alice");
    for (name, token, headers, want) in [
        ("none", NOBODY, &[][..], Ok("nobody")),
        ("allowed", "carol", &[alice], Ok("alice")),
        ("not allowed", NOBODY, &[alice], Err(403)),
        ("anonymous", ANONYMOUS, &[alice], Err(403)),
        (
            "another user",
            "carol",
            &[("impersonate-user", "bob")],
            Err(403),
        ),
        (
            "the user and a group",
            "carol",
            &[alice, ("impersonate-group", "system:masters")],
            Err(403),
        ),
        (
            "the user and a uid",
            "carol",
            &[alice, ("impersonate-uid", "1")],
            Err(403),
        ),
        (
            "the user and an extra",
            "carol",
            &[alice, ("impersonate-extra-scopes", "x")],
            Err(403),
        ),
        (
            "a group alone",
            "carol",
            &[("impersonate-group", "system:masters")],
            Err(400),
        ),
        (
            "an extra alone",
            "carol",
            &[("impersonate-extra-x", "y")],
            Err(400),
        ),
        (
            "two users",
            "carol",
            &[alice, ("impersonate-user", "admin")],
            Ok("alice"),
        ),
        (
            "any user",
            "dave",
            &[("impersonate-user", "admin")],
            Ok("admin"),
        ),
        (
            "any user, and a group",
            "dave",
            &[
                ("impersonate-user", "admin"),
                ("impersonate-group", "system:masters"),
            ],
            Err(403),
        ),
        (
            "a ServiceAccount is no user",
            "dave",
            &[("impersonate-user", "system:serviceaccount:here:a")],
            Err(403),
        ),
        (
            "a ServiceAccount",
            "bob",
            &[("impersonate-user", "system:serviceaccount:here:a")],
            Ok("system:serviceaccount:here:a"),
        ),
        (
            "one of another namespace",
            "bob",
            &[("impersonate-user", "system:serviceaccount:there:a")],
            Err(403),
        ),
        (
            "a malformed one",
            "bob",
            &[("impersonate-user", "system:serviceaccount:here:a:b")],
            Err(403),
        ),
        (
            "a front proxy's",
            NOBODY,
            &[
                ("x-remote-user", "admin"),
                ("x-remote-group", "system:masters"),
            ],
            Ok("nobody"),
        ),
        (
            "a front proxy's, with nothing else",
            ANONYMOUS,
            &[
                ("x-remote-user", "admin"),
                ("x-remote-group", "system:masters"),
            ],
            Err(403),
        ),
        (
            "a proxy's",
            NOBODY,
            &[
                ("x-forwarded-user", "admin"),
                ("forwarded", "for=admin"),
                ("connection", "authorization"),
            ],
            Ok("nobody"),
        ),
        (
            "a second credential",
            NOBODY,
            &[("authorization", "Bearer admin")],
            Ok("nobody"),
        ),
        (
            "another scheme",
            ANONYMOUS,
            &[("authorization", "Basic YWRtaW46YWRtaW4=")],
            Err(403),
        ),
    ] {
        let answer = world
            .send(Sent {
                token,
                method: Method::POST,
                path: REVIEW,
                headers,
                body: json!({}),
            })
            .await;
        match want {
            Ok(user) => {
                findings.expect(answer.code == 201, || format!("{name}: {}", answer.text));
                let info = answer.json()["status"]["userInfo"].clone();
                assert_eq!(info["username"], user, "{name}");
                assert!(
                    !info["groups"].to_string().contains("system:masters"),
                    "{name}: {info}"
                );
            }
            Err(code) => assert_eq!(answer.code, code, "{name}: {}", answer.text),
        }
    }
}

/// Who may act as anyone in an embedded cluster gains nothing elsewhere by it.
#[tokio::test]
async fn a_group_taken_in_one_cluster_is_not_taken_to_another() {
    let mut findings = Findings::default();
    let world = World::new().await;
    let access = json!([rule(&["access"], "wheelhouse.dev", &["spokes"], &["east"])]);
    world.grant("", "", "frank", access).await;
    let bindings = "/clusters/east/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    world
        .bind(bindings, "frank", "ClusterRole", "cluster-admin")
        .await;
    world.settled().await;
    let headers = &[
        ("impersonate-user", "admin"),
        ("impersonate-group", "system:masters"),
    ];
    for (path, code) in [
        ("/clusters/east/api/v1/secrets", 200),
        ("/api/v1/secrets", 403),
        ("/clusters/root/api/v1/secrets", 403),
        ("/clusters/west/api/v1/secrets", 403),
        ("/clusters/*/api/v1/secrets", 403),
        ("/wheelhouse/backup", 403),
        ("/clusters/east/wheelhouse/backup", 404),
    ] {
        let answer = world
            .send(Sent {
                token: "frank",
                method: Method::GET,
                path,
                headers,
                body: Value::Null,
            })
            .await;
        findings.expect(answer.code == code, || format!("{path}: {}", answer.text));
    }
    assert_eq!(
        world.get(ADMIN, "/clusters/east/api/v1/secrets").await.code,
        200
    );
}
