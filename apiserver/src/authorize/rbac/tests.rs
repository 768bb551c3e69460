//! Rules and what they match; bindings and whom they bind.

use api::cluster::{ClusterScope, LogicalCluster};
use serde_json::json;

use super::*;

fn rule(value: Value) -> PolicyRule {
    PolicyRule::deserialize(value).unwrap()
}

fn parsed<'a>(objects: &'a [(&'a str, Value)]) -> impl Iterator<Item = (&'a str, Object)> {
    let parse = |(resource, object): &'a (&'a str, Value)| {
        let object = Object::deserialize(object).expect("it can be read");
        (*resource, object)
    };
    objects.iter().map(parse)
}

/// verb group resource subresource name
type Asked = [&'static str; 5];

fn ask<'a>(
    user: &'a UserInfo,
    scope: &'a ClusterScope,
    asked: Asked,
    namespace: &'a str,
) -> Attributes<'a> {
    let [verb, group, resource, subresource, name] = asked;
    Attributes {
        user,
        cluster: scope,
        verb,
        group,
        version: "v1",
        resource,
        subresource,
        namespace,
        name,
        path: "",
        is_resource: true,
    }
}

fn root() -> ClusterScope {
    ClusterScope::One(LogicalCluster::root())
}

#[test]
fn a_rule_matches_verb_group_resource_and_name() {
    let pods = json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]});
    let named = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"]});
    let logs = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods/log"]});
    let any_status = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*/status"]});
    let all = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
    let user = UserInfo::authenticated("u", [""; 0]);
    let scope = root();
    for (rule_text, asked, want) in [
        (&pods, ["get", "", "pods", "", ""], true),
        (&pods, ["list", "", "pods", "", ""], true),
        (&pods, ["watch", "", "pods", "", ""], false),
        (&pods, ["get", "apps", "pods", "", ""], false),
        (&pods, ["get", "", "services", "", ""], false),
        (&pods, ["get", "", "pods", "log", "x"], false),
        (&named, ["get", "", "secrets", "", "a"], true),
        (&named, ["get", "", "secrets", "", "b"], false),
        (&named, ["get", "", "secrets", "", ""], false),
        (&logs, ["get", "", "pods", "log", "x"], true),
        (&logs, ["get", "", "pods", "", "x"], false),
        (&logs, ["get", "", "services", "log", "x"], false),
        (
            &any_status,
            ["patch", "apps", "deployments", "status", "x"],
            true,
        ),
        (
            &any_status,
            ["patch", "apps", "deployments", "scale", "x"],
            false,
        ),
        (
            &any_status,
            ["patch", "apps", "deployments", "", "x"],
            false,
        ),
        (&all, ["escalate", "x.y", "z", "anything", "n"], true),
    ] {
        let got = rule(rule_text.clone()).allows(&ask(&user, &scope, asked, ""));
        assert_eq!(got, want, "{rule_text} {asked:?}");
    }
}

#[test]
fn a_path_is_matched_whole_or_by_prefix() {
    let user = UserInfo::anonymous();
    let scope = root();
    for (url, path, want) in [
        ("/version", "/version", true),
        ("/version", "/version/", false),
        ("/apis/*", "/apis/apps", true),
        ("/apis/*", "/apis", false),
        ("*", "/anything", true),
        ("/healthz*", "/healthz/ping", true),
    ] {
        let rule = rule(json!({"verbs": ["get"], "nonResourceURLs": [url]}));
        let asked = Attributes {
            path,
            is_resource: false,
            ..ask(&user, &scope, ["get", "", "", "", ""], "")
        };
        assert_eq!(rule.allows(&asked), want, "{url} {path}");
        let resource = Attributes {
            path,
            ..ask(&user, &scope, ["get", "", "pods", "", ""], "")
        };
        assert!(
            !rule.allows(&resource),
            "a path rule says nothing about resources"
        );
    }
}

fn role(namespace: &str, name: &str, resource: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": namespace},
           "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": [resource]}]})
}

fn binding(namespace: &str, name: &str, role_kind: &str, role: &str, subject: &Value) -> Value {
    json!({"metadata": {"name": name, "namespace": namespace},
           "roleRef": {"kind": role_kind, "name": role}, "subjects": [subject]})
}

#[test]
#[expect(clippy::too_many_lines, reason = "a story is told in one piece")]
fn bindings_reach_users_groups_and_service_accounts_in_their_scope() {
    let objects = [
        ("clusterroles", role("", "pod-reader", "pods")),
        ("roles", role("here", "config-reader", "configmaps")),
        (
            "clusterrolebindings",
            binding(
                "",
                "a",
                "ClusterRole",
                "pod-reader",
                &json!({"kind": "User", "name": "alice"}),
            ),
        ),
        (
            "rolebindings",
            binding(
                "here",
                "b",
                "Role",
                "config-reader",
                &json!({"kind": "Group", "name": "dev"}),
            ),
        ),
        (
            "rolebindings",
            binding(
                "here",
                "c",
                "ClusterRole",
                "pod-reader",
                &json!({"kind": "ServiceAccount", "name": "bot"}),
            ),
        ),
        (
            "rolebindings",
            binding(
                "here",
                "d",
                "ClusterRole",
                "pod-reader",
                &json!({"kind": "ServiceAccount", "name": "bot", "namespace": "there"}),
            ),
        ),
        (
            "clusterrolebindings",
            binding(
                "",
                "e",
                "ClusterRole",
                "pod-reader",
                &json!({"kind": "ServiceAccount", "name": "homeless"}),
            ),
        ),
        (
            "clusterrolebindings",
            binding(
                "",
                "f",
                "Role",
                "config-reader",
                &json!({"kind": "User", "name": "alice"}),
            ),
        ),
    ];
    let policy = Policy::compile(parsed(&objects), &mut RulePool::default());
    let scope = root();
    for (user, group, resource, namespace, want) in [
        ("alice", "", "pods", "", true),
        ("alice", "", "pods", "anywhere", true),
        ("alice", "", "configmaps", "here", false),
        ("bob", "dev", "configmaps", "here", true),
        ("bob", "dev", "configmaps", "there", false),
        ("bob", "dev", "configmaps", "", false),
        ("bob", "", "configmaps", "here", false),
        ("system:serviceaccount:here:bot", "", "pods", "here", true),
        ("system:serviceaccount:there:bot", "", "pods", "here", true),
        ("system:serviceaccount:else:bot", "", "pods", "here", false),
        ("system:serviceaccount:here:bot", "", "pods", "there", false),
        ("system:serviceaccount::homeless", "", "pods", "", false),
    ] {
        let user = UserInfo::authenticated(user, [group]);
        let asked = ask(&user, &scope, ["get", "", resource, "", ""], namespace);
        assert_eq!(
            policy.answer(&asked).grant.is_some(),
            want,
            "{user:?} {resource} in {namespace:?}"
        );
    }
}

#[test]
fn a_grant_and_a_missing_role_are_named() {
    let objects = [
        ("clusterroles", role("", "reader", "pods")),
        (
            "clusterrolebindings",
            binding(
                "",
                "b1",
                "ClusterRole",
                "reader",
                &json!({"kind": "User", "name": "alice"}),
            ),
        ),
        (
            "rolebindings",
            binding(
                "ns",
                "b2",
                "ClusterRole",
                "reader",
                &json!({"kind": "ServiceAccount", "name": "bot"}),
            ),
        ),
        (
            "clusterrolebindings",
            binding(
                "",
                "b3",
                "ClusterRole",
                "gone",
                &json!({"kind": "User", "name": "bob"}),
            ),
        ),
    ];
    let policy = Policy::compile(parsed(&objects), &mut RulePool::default());
    let scope = root();
    let reason = |user: &str, namespace: &str| {
        let user = UserInfo::authenticated(user, [""; 0]);
        let answer = policy.answer(&ask(&user, &scope, ["get", "", "pods", "", ""], namespace));
        answer
            .grant
            .map_or_else(|| answer.errors.join(", "), |grant| grant.to_string())
    };
    assert_eq!(
        reason("alice", ""),
        r#"RBAC: allowed by ClusterRoleBinding "b1" of ClusterRole "reader" to User "alice""#
    );
    assert_eq!(
        reason("system:serviceaccount:ns:bot", "ns"),
        r#"RBAC: allowed by RoleBinding "b2/ns" of ClusterRole "reader" to ServiceAccount "bot/ns""#
    );
    assert_eq!(
        reason("bob", ""),
        r#"clusterrole.rbac.authorization.k8s.io "gone" not found"#
    );
}

#[test]
fn an_aggregating_role_has_the_rules_of_those_it_selects() {
    let label = |name: &str, labels: Value, resource: &str| {
        let mut role = role("", name, resource);
        role["metadata"]["labels"] = labels;
        role
    };
    let mut view = label("view", json!({}), "own");
    view["aggregationRule"] =
        json!({"clusterRoleSelectors": [{"matchLabels": {"to-view": "true"}}]});
    let objects = [
        ("clusterroles", view),
        (
            "clusterroles",
            label("more", json!({"to-view": "true"}), "pods"),
        ),
        (
            "clusterroles",
            label("other", json!({"to-view": "false"}), "secrets"),
        ),
        (
            "clusterrolebindings",
            binding(
                "",
                "b",
                "ClusterRole",
                "view",
                &json!({"kind": "User", "name": "alice"}),
            ),
        ),
    ];
    let policy = Policy::compile(parsed(&objects), &mut RulePool::default());
    let user = UserInfo::authenticated("alice", [""; 0]);
    let scope = root();
    for (resource, want) in [("own", false), ("pods", true), ("secrets", false)] {
        let asked = ask(&user, &scope, ["get", "", resource, "", ""], "");
        assert_eq!(policy.answer(&asked).grant.is_some(), want, "{resource}");
    }
}

#[test]
fn equal_rules_are_held_once_and_no_longer_than_a_policy_has_them() {
    let objects = [
        ("clusterroles", role("", "one", "pods")),
        ("clusterroles", role("", "two", "pods")),
        ("roles", role("here", "one", "configmaps")),
    ];
    let mut pool = RulePool::default();
    let policy = Policy::compile(parsed(&objects), &mut pool);
    let of = |name| policy.role(None, name).expect("it is there");
    assert!(Arc::ptr_eq(&of("one"), &of("two")), "shared");
    pool.tidy();
    assert_eq!(pool.lists.len(), 2, "both are in use");
    drop(policy);
    let others: Vec<_> = (0..4)
        .map(|index| ("clusterroles", role("", "one", &format!("r{index}"))))
        .collect();
    let policy = Policy::compile(parsed(&others), &mut pool);
    pool.tidy();
    assert_eq!(pool.lists.len(), 1, "the last role of a name counts");
    assert!(policy.role(None, "one").is_some());
}
