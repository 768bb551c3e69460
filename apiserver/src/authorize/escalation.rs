//! Nobody gives away rights that they do not have.
//!
//! Who writes a role must hold each of its rules, or may `escalate` it; who writes a binding must hold the rules of its role, or
//! may `bind` it. A role that aggregates others can come to hold anything, so it takes someone who may do everything.
//! A write that changes finalizers and owners alone gives nothing away.
//!
//! Invariant: each rule is taken apart into its smallest questions, and each of them must be answered by one rule that its
//! writer holds in that namespace.
//!
//! Source: `kubernetes/pkg/registry/rbac/{role,clusterrole,rolebinding,clusterrolebinding}/policybased/storage.go`,
//! `pkg/registry/rbac/validation/rule.go`, `component-helpers/auth/rbac/validation/policy_comparator.go`.

use std::fmt::Write as _;

use api::{cluster::ClusterScope, group::GroupResource, meta, status::Status};
use serde_json::Value;

use super::rbac::{self, PolicyRule};
use super::{Attributes, Authorizer};
use crate::refusal::Refusal;
use crate::request::UserInfo;

/// A role or binding that is about to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant<'a> {
    /// Who writes.
    pub(crate) user: &'a UserInfo,
    /// Where.
    pub(crate) cluster: &'a ClusterScope,
    /// One of the four resources of RBAC.
    pub(crate) resource: &'a str,
    /// The namespace; empty for those of the cluster.
    pub(crate) namespace: &'a str,
    /// The object as it will be.
    pub(crate) object: &'a Value,
    /// The object as it is, if it is there.
    pub(crate) live: Option<&'a Value>,
}

/// The role that a binding names.
struct RoleRef<'a> {
    resource: &'static str,
    name: &'a str,
    /// For a Role.
    namespace: Option<&'a str>,
}

impl Authorizer {
    /// Lets a role or binding be written that gives away nothing its writer has not.
    ///
    /// # Errors
    /// 403 with the rules that are missing, in Kubernetes' words; 404 for a binding to a role that is not there.
    pub(crate) async fn admit_grant(&self, grant: &Grant<'_>) -> Result<(), Refusal> {
        if grant.user.is_master_in(grant.cluster) || !grant.gives() {
            return Ok(());
        }
        if let "roles" | "clusterroles" = grant.resource {
            let name = meta::name(grant.object);
            if self.may(grant, "escalate", grant.resource, name).await {
                return Ok(());
            }
            let mut rules = rbac::rules_in(grant.object);
            if grant.aggregates() {
                rules.extend(everything());
            }
            return self.hold(grant, &rules);
        }
        let Some(role) = RoleRef::of(grant) else {
            // Validation refuses it, and it grants nothing.
            return Ok(());
        };
        if self.may(grant, "bind", role.resource, role.name).await {
            return Ok(());
        }
        let policy = self.policies.of(cluster_of(grant.cluster));
        let rules = policy.role(role.namespace, role.name).ok_or_else(|| {
            Status::not_found(&GroupResource::new(rbac::GROUP, role.resource), role.name)
        })?;
        self.hold(grant, &rules)
    }

    async fn may(&self, grant: &Grant<'_>, verb: &str, resource: &str, name: &str) -> bool {
        let asked = Attributes {
            user: grant.user,
            cluster: grant.cluster,
            verb,
            group: rbac::GROUP,
            version: "v1",
            resource,
            subresource: "",
            namespace: grant.namespace,
            name,
            path: "",
            is_resource: true,
        };
        self.judge(&asked).await.allowed
    }

    /// Refuses rules that the writer does not hold.
    fn hold(&self, grant: &Grant<'_>, rules: &[PolicyRule]) -> Result<(), Refusal> {
        let (held, _missing_roles) = self.rules_for(grant.user, grant.cluster, grant.namespace);
        let missing: Vec<PolicyRule> = rules
            .iter()
            .flat_map(questions)
            .filter(|question| !held.iter().any(|rule| covers(rule, question)))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let UserInfo {
            username, groups, ..
        } = grant.user;
        let mut text = format!(
            "user {username:?} (groups={groups:?}) is attempting to grant RBAC permissions not currently held:"
        );
        for rule in missing.iter().take(MISSING_COUNT_MAX) {
            let PolicyRule {
                verbs,
                api_groups,
                resources,
                resource_names,
                non_resource_urls,
            } = rule;
            // Writing to a string cannot fail.
            let _infallible = if non_resource_urls.is_empty() {
                write!(
                    text,
                    "\n{{APIGroups:{api_groups:?}, Resources:{resources:?}, "
                )
            } else {
                write!(text, "\n{{NonResourceURLs:{non_resource_urls:?}, ")
            };
            if !resource_names.is_empty() {
                let _infallible = write!(text, "ResourceNames:{resource_names:?}, ");
            }
            let _infallible = write!(text, "Verbs:{verbs:?}}}");
        }
        let resource = GroupResource::new(rbac::GROUP, grant.resource);
        Err(Status::forbidden(&resource, meta::name(grant.object), &text).into())
    }
}

/// How many of the missing rules are named: a role may have thousands.
const MISSING_COUNT_MAX: usize = 32;

// === impl Grant ===

impl Grant<'_> {
    /// Whether the write changes more than what garbage collection has to: labels count, since others may select the role by
    /// them.
    fn gives(&self) -> bool {
        let without = |object: &Value| {
            let mut object = object.clone();
            for field in [
                "ownerReferences",
                "finalizers",
                "managedFields",
                "resourceVersion",
            ] {
                meta::remove_field(&mut object, field);
            }
            object
        };
        self.live
            .is_none_or(|live| without(self.object) != without(live))
    }

    /// Whether the role aggregates others, or did.
    fn aggregates(&self) -> bool {
        let has = |role: &Value| {
            role.get("aggregationRule")
                .is_some_and(|rule| !rule.is_null())
        };
        has(self.object) || self.live.is_some_and(has)
    }
}

// === impl RoleRef ===

impl<'a> RoleRef<'a> {
    fn of(grant: &Grant<'a>) -> Option<Self> {
        let text = |field: &str| grant.object.get("roleRef")?.get(field)?.as_str();
        let (kind, name) = (text("kind")?, text("name")?);
        match kind {
            "ClusterRole" => Some(Self {
                resource: "clusterroles",
                name,
                namespace: None,
            }),
            "Role" if !grant.namespace.is_empty() => Some(Self {
                resource: "roles",
                name,
                namespace: Some(grant.namespace),
            }),
            _ => None,
        }
    }
}

fn cluster_of(scope: &ClusterScope) -> &api::LogicalCluster {
    static ROOT: std::sync::LazyLock<api::LogicalCluster> =
        std::sync::LazyLock::new(api::LogicalCluster::root);
    scope.one().unwrap_or(&ROOT)
}

/// The rules of someone who may do everything.
fn everything() -> [PolicyRule; 2] {
    let all = || vec!["*".to_owned()];
    [
        PolicyRule {
            verbs: all(),
            api_groups: all(),
            resources: all(),
            ..PolicyRule::default()
        },
        PolicyRule {
            verbs: all(),
            non_resource_urls: all(),
            ..PolicyRule::default()
        },
    ]
}

/// Takes a rule apart: one verb, one group, one resource, one name or any; or one verb and one path.
fn questions(rule: &PolicyRule) -> impl Iterator<Item = PolicyRule> + '_ {
    let one = |text: &String| vec![text.clone()];
    let names: Vec<Vec<String>> = if rule.resource_names.is_empty() {
        vec![Vec::new()]
    } else {
        rule.resource_names.iter().map(one).collect()
    };
    rule.verbs.iter().flat_map(move |verb| {
        let mut found = Vec::new();
        for group in &rule.api_groups {
            for resource in &rule.resources {
                found.extend(names.iter().map(|names| PolicyRule {
                    verbs: one(verb),
                    api_groups: one(group),
                    resources: one(resource),
                    resource_names: names.clone(),
                    non_resource_urls: Vec::new(),
                }));
            }
        }
        found.extend(rule.non_resource_urls.iter().map(|url| PolicyRule {
            verbs: one(verb),
            non_resource_urls: one(url),
            ..PolicyRule::default()
        }));
        found
    })
}

/// Whether a rule answers a [question](questions). A `*` in the question is answered by a `*` alone.
fn covers(rule: &PolicyRule, question: &PolicyRule) -> bool {
    let holds = |values: &[String], wanted: &[String]| {
        values.iter().any(|value| value == "*")
            || wanted.iter().all(|wanted| values.contains(wanted))
    };
    if !holds(&rule.verbs, &question.verbs) {
        return false;
    }
    if !question.non_resource_urls.is_empty() {
        return question.non_resource_urls.iter().all(|url| {
            rule.non_resource_urls
                .iter()
                .any(|own| own == url || rbac::url_matches(own, url))
        });
    }
    let has_name = |name: &String| rule.resource_names.contains(name);
    holds(&rule.api_groups, &question.api_groups)
        && question
            .resources
            .iter()
            .all(|resource| covers_resource(&rule.resources, resource))
        && (rule.resource_names.is_empty()
            || (!question.resource_names.is_empty()
                && question.resource_names.iter().all(has_name)))
}

fn covers_resource(resources: &[String], wanted: &str) -> bool {
    resources.iter().any(|resource| {
        resource == "*"
            || resource == wanted
            || wanted
                .split_once('/')
                .is_some_and(|(_, subresource)| resource.strip_prefix("*/") == Some(subresource))
    })
}

#[cfg(test)]
mod tests;
