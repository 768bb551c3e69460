//! Whether a policy or a webhook means a write: by its rules, and by the labels of object and namespace.
//!
//! Source: `apiserver/pkg/admission/plugin/webhook/predicates`, `.../plugin/policy/matching/matching.go`.

use api::admission::{MatchPolicy, MatchResources, Rule};
use api::selector::{LabelSelector, Selector};
use api::{GroupVersionKind, GroupVersionResource, meta};
use serde_json::{Map, Value};

use super::attributes::Attributes;

/// Compiled constraints.
#[derive(Debug)]
pub(crate) struct Constraints {
    namespaces: Selector,
    objects: Selector,
    rules: Vec<Rule>,
    excluded: Vec<Rule>,
    policy: MatchPolicy,
    /// Whether no rule at all means everything.
    without_rules: WithoutRules,
}

/// What constraints without any rule mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WithoutRules {
    /// Everything: those of a binding.
    Everything,
    /// Nothing: those of a webhook.
    Nothing,
}

/// A type and resource as which an object is judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Face {
    pub(crate) resource: GroupVersionResource,
    pub(crate) kind: GroupVersionKind,
}

/// What rules and the object itself say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Matched {
    /// The write is not meant.
    No,
    /// It is, as this.
    Yes(Face),
    /// It is, if the labels of its namespace are right.
    InNamespace(Face),
}

// === impl Constraints ===

impl Constraints {
    /// Compiles constraints of policies and bindings.
    ///
    /// # Errors
    /// A selector that is none.
    pub(crate) fn of(resources: &MatchResources) -> Result<Self, String> {
        Ok(Self {
            namespaces: selector(&resources.namespace_selector)?,
            objects: selector(&resources.object_selector)?,
            rules: resources.resource_rules.clone(),
            excluded: resources.exclude_resource_rules.clone(),
            policy: resources.match_policy,
            without_rules: WithoutRules::Everything,
        })
    }

    /// Compiles those of a webhook.
    ///
    /// # Errors
    /// A selector that is none.
    pub(crate) fn of_webhook(
        rules: &[Rule],
        policy: MatchPolicy,
        namespaces: &LabelSelector,
        objects: &LabelSelector,
    ) -> Result<Self, String> {
        Ok(Self {
            namespaces: selector(namespaces)?,
            objects: selector(objects)?,
            rules: rules.to_vec(),
            excluded: Vec::new(),
            policy,
            without_rules: WithoutRules::Nothing,
        })
    }

    /// Judges a write but for the labels of its namespace. `others` are the other versions of its resource.
    pub(crate) fn judge(&self, attributes: &Attributes, others: &[Face]) -> Matched {
        let selects = |object: &Value| selects(&self.objects, object);
        if !self.objects.is_everything()
            && !selects(&attributes.object)
            && !selects(&attributes.old)
        {
            return Matched::No;
        }
        if self.find(&self.excluded, attributes, others).is_some() {
            return Matched::No;
        }
        let face = if self.rules.is_empty() && self.without_rules == WithoutRules::Everything {
            Some(own_face(attributes))
        } else {
            self.find(&self.rules, attributes, others)
        };
        let Some(face) = face else {
            return Matched::No;
        };
        let has_namespace = !attributes.namespace.is_empty() || attributes.is_namespace();
        if !has_namespace || self.namespaces.is_everything() {
            return Matched::Yes(face);
        }
        Matched::InNamespace(face)
    }

    /// Whether labels of a namespace are right.
    pub(crate) fn selects_namespace(&self, labels: &Map<String, Value>) -> bool {
        self.namespaces.matches(labels)
    }

    /// Finds the first rule that means the write, as its own version or, behind all of these, as another one.
    fn find(&self, rules: &[Rule], attributes: &Attributes, others: &[Face]) -> Option<Face> {
        let own = own_face(attributes);
        if rules.iter().any(|rule| means(rule, attributes, &own)) {
            return Some(own);
        }
        if self.policy == MatchPolicy::Exact {
            return None;
        }
        let others = |rule: &Rule| others.iter().find(|face| means(rule, attributes, face));
        rules.iter().find_map(others).cloned()
    }
}

/// The face that the path names.
pub(crate) fn own_face(attributes: &Attributes) -> Face {
    Face {
        resource: attributes.resource.clone(),
        kind: attributes.kind.clone(),
    }
}

fn selector(selector: &LabelSelector) -> Result<Selector, String> {
    selector.to_selector().map_err(|error| error.to_string())
}

fn selects(selector: &Selector, object: &Value) -> bool {
    if object.is_null() {
        return false;
    }
    match meta::labels(object) {
        Some(labels) => selector.matches(labels),
        None => selector.matches(&Map::new()),
    }
}

fn means(rule: &Rule, attributes: &Attributes, face: &Face) -> bool {
    let in_scope = match rule.scope.as_str() {
        "Namespaced" => !attributes.is_cluster_scoped(),
        "Cluster" => attributes.is_cluster_scoped(),
        _ => true,
    };
    let names = &rule.resource_names;
    in_scope
        && has(&rule.operations, attributes.operation.as_str())
        && has(&rule.api_groups, &face.resource.group)
        && has(&rule.api_versions, &face.resource.version)
        && means_resource(rule, &face.resource.resource, &attributes.subresource)
        && (names.is_empty() || names.contains(&attributes.name))
}

fn has(items: &[String], asked: &str) -> bool {
    items.iter().any(|item| item == "*" || item == asked)
}

fn means_resource(rule: &Rule, resource: &str, subresource: &str) -> bool {
    rule.resources.iter().any(|item| {
        let (first, second) = item.split_once('/').unwrap_or((item.as_str(), ""));
        (first == "*" || first == resource) && (second == "*" || second == subresource)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api::LogicalCluster;
    use serde::Deserialize as _;
    use serde_json::json;

    use super::*;
    use crate::guards::attributes::Operation;
    use crate::request::UserInfo;

    fn write(namespace: &str, subresource: &str) -> Attributes {
        Attributes {
            operation: Operation::Update,
            cluster: LogicalCluster::root(),
            resource: GroupVersionResource::new("apps", "v1", "deployments"),
            subresource: subresource.to_owned(),
            kind: GroupVersionKind::new("apps", "v1", "Deployment"),
            namespace: namespace.to_owned(),
            name: "web".to_owned(),
            object: json!({"metadata": {"labels": {"a": "new"}}}),
            old: json!({"metadata": {"labels": {"a": "old"}}}),
            options: Value::Null,
            dry_run: false,
            user: Arc::new(UserInfo::anonymous()),
        }
    }

    #[test]
    fn rules_mean_what_kubernetes_takes_them_for() {
        let rule = json!({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]});
        let with = |field: &str, value: Value| {
            let mut rule = rule.clone();
            rule[field] = value;
            json!({"resourceRules": [rule]})
        };
        let plain = write("default", "");
        for (name, resources, attributes, want) in [
            ("everything", json!({}), &plain, true),
            (
                "operation",
                with("operations", json!(["CREATE"])),
                &plain,
                false,
            ),
            (
                "group",
                with("apiGroups", json!(["", "apps"])),
                &plain,
                true,
            ),
            ("version", with("apiVersions", json!(["v2"])), &plain, false),
            (
                "main only",
                with("resources", json!(["*"])),
                &write("default", "status"),
                false,
            ),
            (
                "one subresource",
                with("resources", json!(["*/status"])),
                &write("default", "status"),
                true,
            ),
            (
                "all subresources",
                with("resources", json!(["deployments/*"])),
                &plain,
                true,
            ),
            ("scope", with("scope", json!("Cluster")), &plain, false),
            (
                "no namespace",
                with("scope", json!("Cluster")),
                &write("", ""),
                true,
            ),
            ("name", with("resourceNames", json!(["web"])), &plain, true),
            (
                "other name",
                with("resourceNames", json!(["db"])),
                &plain,
                false,
            ),
            (
                "new labels",
                json!({"objectSelector": {"matchLabels": {"a": "new"}}}),
                &plain,
                true,
            ),
            (
                "old labels",
                json!({"objectSelector": {"matchLabels": {"a": "old"}}}),
                &plain,
                true,
            ),
            (
                "no labels",
                json!({"objectSelector": {"matchLabels": {"a": "x"}}}),
                &plain,
                false,
            ),
            (
                "excluded",
                json!({"excludeResourceRules": [rule.clone()]}),
                &plain,
                false,
            ),
        ] {
            let resources = MatchResources::deserialize(&resources).expect(name);
            let constraints = Constraints::of(&resources).expect(name);
            let matched = constraints.judge(attributes, &[]);
            assert_eq!(matched != Matched::No, want, "{name}: {matched:?}");
        }
    }

    #[test]
    fn another_version_is_meant_unless_the_rules_are_exact() {
        let other = Face {
            resource: GroupVersionResource::new("apps", "v1beta1", "deployments"),
            kind: GroupVersionKind::new("apps", "v1beta1", "Deployment"),
        };
        for (policy, want) in [
            ("Equivalent", Matched::Yes(other.clone())),
            ("Exact", Matched::No),
        ] {
            let resources = json!({"matchPolicy": policy, "resourceRules": [
                {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["v1beta1"], "resources": ["*"]},
            ]});
            let resources = MatchResources::deserialize(&resources).expect(policy);
            let constraints = Constraints::of(&resources).expect(policy);
            let matched = constraints.judge(&write("default", ""), std::slice::from_ref(&other));
            assert_eq!(matched, want, "{policy}");
        }
    }
}
