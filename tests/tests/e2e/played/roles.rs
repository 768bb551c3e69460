//! What an aggregating role shows, of both.

use serde_json::{Value, json};
use wheelhouse_tests::support::{RBAC, User};

/// A role is selected, changed and deleted: the role that selects it shows that.
pub(super) async fn aggregating_roles_show_their_rules(hub: &User, spoke: &User, embedded: &str) {
    let prefix = format!("/clusters/{embedded}");
    let (ours, peers) = tokio::join!(played(hub, &prefix), played(spoke, ""));
    assert_eq!(ours, peers, "the rules");
    assert_eq!(ours.len(), 3, "{ours:?}");
    // The roles that every cluster begins with are shown too.
    for prefix in [prefix, String::new()] {
        let path = format!("{prefix}{RBAC}/clusterroles/admin");
        let holds = |role: &Value| role["rules"].as_array().is_some_and(|it| it.len() > 5);
        hub.until(&path, "admin shows its rules", |answer| holds(&answer.body))
            .await;
    }
}

async fn played(user: &User, prefix: &str) -> Vec<Value> {
    let roles = format!("{prefix}{RBAC}/clusterroles");
    let label = json!({"aggregated": "true"});
    let rule = |verb: &str| json!([{"apiGroups": ["a.io"], "resources": ["as"], "verbs": [verb]}]);
    let whole = json!({
        "metadata": {"name": "whole"}, "rules": rule("forgotten"),
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": label}]},
    });
    let mut part = json!({"metadata": {"name": "part", "labels": label}, "rules": rule("get")});
    user.post(&roles, &part).await.must(201);
    user.post(&roles, &whole).await.must(201);
    let (path, of_part) = (format!("{roles}/whole"), format!("{roles}/part"));
    let mut told = Vec::new();
    for verb in ["get", "list"] {
        part["rules"] = rule(verb);
        user.put(&of_part, &part).await.must(200);
        let shown = user.until(&path, "it shows the rules of the other", |answer| {
            answer.body["rules"][0]["verbs"] == json!([verb])
        });
        told.push(shown.await.body["rules"].clone());
    }
    user.delete(&of_part).await.must(200);
    let shown = user.until(&path, "it has no rules", |answer| {
        answer.body["rules"].as_array().is_none_or(Vec::is_empty)
    });
    told.push(json!(shown.await.body["aggregationRule"]));
    told
}
