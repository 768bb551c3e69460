//! Ways to give away rights that one does not have, and ways that are allowed.

use serde_json::json;
use tokio::sync::watch;

use super::*;
use crate::authorize::Policies;

fn rule(verbs: &[&str], groups: &[&str], resources: &[&str], names: &[&str]) -> Value {
    json!({"verbs": verbs, "apiGroups": groups, "resources": resources, "resourceNames": names})
}

/// `alice` reads pods and anything's status everywhere, gets the secret `a`, may do all with configmaps in `here`, and gets
/// `/metrics` and below `/debug/`; she may `escalate` the role `open` and `bind` the role `gift`.
fn authorizer() -> Authorizer {
    let cluster_wide = json!([
        rule(&["get", "list"], &[""], &["pods", "pods/log"], &[]),
        rule(&["get"], &["*"], &["*/status"], &[]),
        rule(&["get"], &[""], &["secrets"], &["a"]),
        {"verbs": ["get"], "nonResourceURLs": ["/metrics", "/debug/*"]},
        rule(&["escalate"], &[rbac::GROUP], &["clusterroles", "roles"], &["open"]),
        rule(&["bind"], &[rbac::GROUP], &["clusterroles"], &["gift"]),
    ]);
    let subjects = json!([{"kind": "User", "name": "alice"}]);
    let objects = [
        (
            "root",
            "clusterroles",
            json!({"metadata": {"name": "alice"}, "rules": cluster_wide}),
        ),
        (
            "root",
            "clusterrolebindings",
            json!({"metadata": {"name": "alice"}, "roleRef": {"kind": "ClusterRole", "name": "alice"}, "subjects": subjects}),
        ),
        (
            "root",
            "roles",
            json!({"metadata": {"name": "here", "namespace": "here"}, "rules": [rule(&["*"], &[""], &["configmaps"], &[])]}),
        ),
        (
            "root",
            "rolebindings",
            json!({"metadata": {"name": "here", "namespace": "here"}, "roleRef": {"kind": "Role", "name": "here"}, "subjects": subjects}),
        ),
        (
            "root",
            "clusterroles",
            json!({"metadata": {"name": "all"}, "rules": [rule(&["*"], &["*"], &["*"], &[])]}),
        ),
        (
            "root",
            "clusterroles",
            json!({"metadata": {"name": "gift"}, "rules": [rule(&["*"], &["*"], &["*"], &[])]}),
        ),
    ];
    let (_, clusters) = watch::channel(std::sync::Arc::default());
    Authorizer::new(Policies::of_objects(&objects), clusters)
}

async fn written(
    resource: &str,
    namespace: &str,
    object: &Value,
    live: Option<&Value>,
    user: &UserInfo,
) -> u16 {
    let cluster = ClusterScope::One(api::LogicalCluster::root());
    let grant = Grant {
        user,
        cluster: &cluster,
        resource,
        namespace,
        object,
        live,
    };
    match authorizer().admit_grant(&grant).await {
        Ok(()) => 200,
        Err(refusal) => refusal.status().map_or(0, |status| status.code),
    }
}

fn alice() -> UserInfo {
    UserInfo::authenticated("alice", [""; 0])
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one table")]
async fn a_role_gives_only_what_its_writer_holds() {
    for (name, namespace, rules, code) in [
        (
            "the same",
            "",
            json!([rule(&["get"], &[""], &["pods"], &[])]),
            200,
        ),
        ("nothing", "", json!([]), 200),
        (
            "another verb",
            "",
            json!([rule(&["delete"], &[""], &["pods"], &[])]),
            403,
        ),
        (
            "all verbs",
            "",
            json!([rule(&["*"], &[""], &["pods"], &[])]),
            403,
        ),
        (
            "another group",
            "",
            json!([rule(&["get"], &["apps"], &["pods"], &[])]),
            403,
        ),
        (
            "all groups",
            "",
            json!([rule(&["get"], &["*"], &["pods"], &[])]),
            403,
        ),
        (
            "all resources",
            "",
            json!([rule(&["get"], &[""], &["*"], &[])]),
            403,
        ),
        (
            "one more resource",
            "",
            json!([rule(&["get"], &[""], &["pods", "services"], &[])]),
            403,
        ),
        (
            "a subresource of one's own",
            "",
            json!([rule(&["get"], &[""], &["pods/log"], &[])]),
            200,
        ),
        (
            "another subresource",
            "",
            json!([rule(&["get"], &[""], &["pods/exec"], &[])]),
            403,
        ),
        (
            "a status",
            "",
            json!([rule(&["get"], &["apps"], &["deployments/status"], &[])]),
            200,
        ),
        (
            "a named one",
            "",
            json!([rule(&["get"], &[""], &["secrets"], &["a"])]),
            200,
        ),
        (
            "another named one",
            "",
            json!([rule(&["get"], &[""], &["secrets"], &["a", "b"])]),
            403,
        ),
        (
            "any name",
            "",
            json!([rule(&["get"], &[""], &["secrets"], &[])]),
            403,
        ),
        (
            "names of what one may all",
            "",
            json!([rule(&["list"], &[""], &["pods"], &["x"])]),
            200,
        ),
        (
            "a path",
            "",
            json!([{"verbs": ["get"], "nonResourceURLs": ["/metrics", "/debug/x/*"]}]),
            200,
        ),
        (
            "another path",
            "",
            json!([{"verbs": ["get"], "nonResourceURLs": ["/debug*"]}]),
            403,
        ),
        (
            "in the namespace",
            "here",
            json!([rule(&["*"], &[""], &["configmaps"], &[])]),
            200,
        ),
        (
            "in another namespace",
            "there",
            json!([rule(&["*"], &[""], &["configmaps"], &[])]),
            403,
        ),
        (
            "for the cluster",
            "",
            json!([rule(&["*"], &[""], &["configmaps"], &[])]),
            403,
        ),
        (
            "one held rule beside one that is not",
            "",
            json!([
                rule(&["get"], &[""], &["pods"], &[]),
                rule(&["get"], &[""], &["nodes"], &[])
            ]),
            403,
        ),
    ] {
        let resource = if namespace.is_empty() {
            "clusterroles"
        } else {
            "roles"
        };
        let role = json!({"metadata": {"name": "new"}, "rules": rules});
        let got = written(resource, namespace, &role, None, &alice()).await;
        assert_eq!(got, code, "{name}");
        let open = json!({"metadata": {"name": "open"}, "rules": rules});
        let got = written(resource, namespace, &open, None, &alice()).await;
        assert_eq!(got, 200, "{name}, where escalating is allowed");
        let masters = UserInfo::system("admin");
        assert_eq!(
            written(resource, namespace, &role, None, &masters).await,
            200,
            "{name}, for masters"
        );
    }
}

#[tokio::test]
async fn a_binding_gives_only_what_its_writer_holds() {
    let subjects = json!([{"kind": "User", "name": "alice"}]);
    for (name, resource, namespace, kind, role, code) in [
        (
            "one's own",
            "clusterrolebindings",
            "",
            "ClusterRole",
            "alice",
            200,
        ),
        ("all", "clusterrolebindings", "", "ClusterRole", "all", 403),
        (
            "all, in a namespace",
            "rolebindings",
            "here",
            "ClusterRole",
            "all",
            403,
        ),
        (
            "one that may be bound",
            "clusterrolebindings",
            "",
            "ClusterRole",
            "gift",
            200,
        ),
        (
            "a role of the namespace",
            "rolebindings",
            "here",
            "Role",
            "here",
            200,
        ),
        (
            "a role of another namespace",
            "rolebindings",
            "there",
            "Role",
            "here",
            404,
        ),
        (
            "a role that is not there",
            "clusterrolebindings",
            "",
            "ClusterRole",
            "later",
            404,
        ),
    ] {
        let binding = json!({
            "metadata": {"name": "new"}, "roleRef": {"kind": kind, "name": role}, "subjects": subjects,
        });
        let got = written(resource, namespace, &binding, None, &alice()).await;
        assert_eq!(got, code, "{name}");
    }
}

#[tokio::test]
async fn a_change_is_judged_like_a_new_object() {
    let all = json!([rule(&["*"], &["*"], &["*"], &[])]);
    let live = json!({"metadata": {"name": "x", "finalizers": ["a"]}, "rules": all});
    let with = |pointer: &str, value: Value| {
        let mut role = live.clone();
        *role.pointer_mut(pointer).unwrap() = value;
        role
    };
    let mut labelled = live.clone();
    labelled["metadata"]["labels"] = json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"});
    let mut aggregating = json!({"metadata": {"name": "x"}, "rules": []});
    aggregating["aggregationRule"] = json!({"clusterRoleSelectors": [{}]});
    for (name, object, live, code) in [
        (
            "finalizers alone",
            with("/metadata/finalizers", json!([])),
            Some(&live),
            200,
        ),
        (
            "less, but not what one holds",
            with("/rules/0/verbs", json!(["get"])),
            Some(&live),
            403,
        ),
        (
            "a label by which `view` selects it",
            labelled,
            Some(&live),
            403,
        ),
        ("aggregating anything", aggregating.clone(), None, 403),
        (
            "ending the aggregation",
            json!({"metadata": {"name": "x"}, "rules": []}),
            Some(&aggregating),
            403,
        ),
    ] {
        let got = written("clusterroles", "", &object, live, &alice()).await;
        assert_eq!(got, code, "{name}");
    }
}
