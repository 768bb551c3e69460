//! Roles and bindings: what a rule must name, and what a binding may refer to.
//!
//! Source: kubernetes/pkg/apis/rbac/validation/validation.go, kubernetes/pkg/apis/rbac/v1/defaults.go.

use api::{
    FieldError, FieldPath,
    selector::LabelSelector,
    validation::{NameRule, is_dns_subdomain, is_path_segment},
};
use serde::Deserialize as _;
use serde_json::Value;

use super::Strategy;
use super::built_in::BUILT_IN;
use super::rules::{Grants, PutOfAbsent};

const GROUP: &str = "rbac.authorization.k8s.io";

const ROLES: Strategy = Strategy {
    validate: |object, _live| validate_rules(object, true),
    ..OF_GROUP
};

const CLUSTER_ROLES: Strategy = Strategy {
    validate: |object, _live| {
        let mut errors = validate_rules(object, false);
        errors.extend(validate_aggregation(&object["aggregationRule"]));
        errors
    },
    ..OF_GROUP
};

const ROLE_BINDINGS: Strategy = Strategy {
    validate: |object, live| {
        let mut errors = validate_binding(object, true);
        errors.extend(validate_role_kept(object, live));
        errors
    },
    ..OF_GROUP
};

const CLUSTER_ROLE_BINDINGS: Strategy = Strategy {
    validate: |object, live| {
        let mut errors = validate_binding(object, false);
        errors.extend(validate_role_kept(object, live));
        errors
    },
    ..OF_GROUP
};

/// What all kinds of the group do.
const OF_GROUP: Strategy = Strategy {
    name: NameRule::PathSegment,
    grants: Grants::Rights,
    put_of_absent: PutOfAbsent::Creates,
    ..BUILT_IN
};

/// The kinds of `rbac.authorization.k8s.io`.
pub(super) fn of(resource: &str) -> &'static Strategy {
    match resource {
        "roles" => &ROLES,
        "clusterroles" => &CLUSTER_ROLES,
        "rolebindings" => &ROLE_BINDINGS,
        "clusterrolebindings" => &CLUSTER_ROLE_BINDINGS,
        _ => &OF_GROUP,
    }
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn validate_rules(object: &Value, is_namespaced: bool) -> Vec<FieldError> {
    let path = FieldPath::new("rules");
    let rules = items(&object["rules"]).iter().enumerate();
    rules
        .flat_map(|(index, rule)| validate_rule(rule, is_namespaced, &path.index(index)))
        .collect()
}

fn validate_rule(rule: &Value, is_namespaced: bool, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut require = |field: &str, detail: &str| {
        if items(&rule[field]).is_empty() {
            errors.push(FieldError::required(&path.child(field), detail));
        }
    };
    require("verbs", "verbs must contain at least one value");
    if items(&rule["nonResourceURLs"]).is_empty() {
        require(
            "apiGroups",
            "resource rules must supply at least one api group",
        );
        require(
            "resources",
            "resource rules must supply at least one resource",
        );
        return errors;
    }
    let names_resources = ["apiGroups", "resources", "resourceNames"]
        .iter()
        .any(|field| !items(&rule[*field]).is_empty());
    let path = path.child("nonResourceURLs");
    let mut refuse = |detail: &str| {
        errors.push(FieldError::invalid(
            &path,
            rule["nonResourceURLs"].clone(),
            detail,
        ));
    };
    if is_namespaced {
        refuse("namespaced rules cannot apply to non-resource URLs");
    }
    if names_resources {
        refuse("rules cannot apply to both regular resources and non-resource URLs");
    }
    errors
}

fn validate_aggregation(rule: &Value) -> Vec<FieldError> {
    if rule.is_null() {
        return Vec::new();
    }
    let path = FieldPath::new("aggregationRule").child("clusterRoleSelectors");
    let selectors = items(&rule["clusterRoleSelectors"]);
    if selectors.is_empty() {
        let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        return vec![FieldError::required(&path, detail)];
    }
    let malformed = selectors
        .iter()
        .enumerate()
        .filter(|(_, selector)| LabelSelector::deserialize(*selector).is_err());
    malformed
        .map(|(index, selector)| {
            FieldError::invalid(
                &path.index(index),
                selector.clone(),
                "invalid label selector.",
            )
        })
        .collect()
}

fn validate_binding(object: &Value, is_namespaced: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let path = FieldPath::new("roleRef");
    let role = &object["roleRef"];
    let group = text(&role["apiGroup"]);
    // An empty one is defaulted.
    if !group.is_empty() && group != GROUP {
        errors.push(FieldError::not_supported(
            &path.child("apiGroup"),
            group,
            [GROUP],
        ));
    }
    let kinds: &[&str] = if is_namespaced {
        &["Role", "ClusterRole"]
    } else {
        &["ClusterRole"]
    };
    let kind = text(&role["kind"]);
    if !kinds.contains(&kind) {
        let kinds = kinds.iter().copied();
        errors.push(FieldError::not_supported(&path.child("kind"), kind, kinds));
    }
    let name = text(&role["name"]);
    let path = path.child("name");
    if name.is_empty() {
        errors.push(FieldError::required(&path, ""));
    } else {
        let found = is_path_segment(name).into_iter();
        errors.extend(found.map(|detail| FieldError::invalid(&path, name, detail)));
    }
    let path = FieldPath::new("subjects");
    for (index, subject) in items(&object["subjects"]).iter().enumerate() {
        errors.extend(validate_subject(subject, is_namespaced, &path.index(index)));
    }
    errors
}

/// The role of a binding cannot change: another role is another binding.
fn validate_role_kept(object: &Value, live: Option<&Value>) -> Option<FieldError> {
    let (path, role) = (FieldPath::new("roleRef"), &object["roleRef"]);
    (live?["roleRef"] != *role)
        .then(|| FieldError::invalid(&path, role.clone(), "cannot change roleRef"))
}

fn validate_subject(subject: &Value, is_namespaced: bool, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (name, group) = (text(&subject["name"]), text(&subject["apiGroup"]));
    if name.is_empty() {
        errors.push(FieldError::required(&path.child("name"), ""));
    }
    match text(&subject["kind"]) {
        "ServiceAccount" => {
            if !name.is_empty() {
                let found = is_dns_subdomain(name).into_iter();
                let path = path.child("name");
                errors.extend(found.map(|detail| FieldError::invalid(&path, name, detail)));
            }
            if !group.is_empty() {
                errors.push(FieldError::not_supported(
                    &path.child("apiGroup"),
                    group,
                    [""],
                ));
            }
            if !is_namespaced && text(&subject["namespace"]).is_empty() {
                errors.push(FieldError::required(&path.child("namespace"), ""));
            }
        }
        "User" | "Group" => {
            // An empty one is defaulted.
            if !group.is_empty() && group != GROUP {
                errors.push(FieldError::not_supported(
                    &path.child("apiGroup"),
                    group,
                    [GROUP],
                ));
            }
        }
        kind => {
            let kinds = ["ServiceAccount", "User", "Group"];
            errors.push(FieldError::not_supported(&path.child("kind"), kind, kinds));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn roles_and_bindings_are_judged_as_kubernetes_does() {
        let rules = |rule: Value| json!({"rules": [rule]});
        let resource = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]});
        let url = json!({"nonResourceURLs": ["/metrics"], "verbs": ["get"]});
        let both = json!({"nonResourceURLs": ["/"], "resources": ["pods"], "apiGroups": [""], "verbs": ["get"]});
        let role = json!({"apiGroup": GROUP, "kind": "Role", "name": "r"});
        let cluster_role = json!({"kind": "ClusterRole", "name": "r"});
        let bound = |role: &Value, subject: Value| json!({"roleRef": role, "subjects": [subject]});
        let user = json!({"kind": "User", "name": "ann"});
        for (resource, object, want) in [
            ("roles", rules(resource), 0),
            ("roles", rules(url.clone()), 1),
            ("roles", rules(json!({})), 3),
            ("clusterroles", rules(url), 0),
            ("clusterroles", rules(both), 1),
            ("clusterroles", json!({"aggregationRule": {}}), 1),
            (
                "clusterroles",
                json!({"aggregationRule": {"clusterRoleSelectors": [{}]}}),
                0,
            ),
            ("rolebindings", bound(&role, user.clone()), 0),
            (
                "rolebindings",
                bound(&role, json!({"kind": "Pod", "name": "x"})),
                1,
            ),
            (
                "rolebindings",
                bound(&json!({"kind": "Role", "name": "a/b"}), user.clone()),
                1,
            ),
            ("rolebindings", json!({}), 2),
            ("clusterrolebindings", bound(&role, user), 1),
            (
                "clusterrolebindings",
                bound(
                    &cluster_role,
                    json!({"kind": "ServiceAccount", "name": "x"}),
                ),
                1,
            ),
            (
                "clusterrolebindings",
                bound(
                    &cluster_role,
                    json!({"kind": "User", "name": "x", "apiGroup": "y"}),
                ),
                1,
            ),
        ] {
            let errors = (of(resource).validate)(&object, None);
            assert_eq!(errors.len(), want, "{resource} {object}: {errors:?}");
        }
    }
}
