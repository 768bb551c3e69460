//! RBAC: rules, what they match, and the policy of one logical cluster.
//!
//! # Invariants
//! - Rules only allow; what none allows is not allowed.
//! - A [`Policy`] never changes; a change of an RBAC object makes another one.
//!
//! Source: `kubernetes/plugin/pkg/auth/authorizer/rbac/rbac.go`, `pkg/registry/rbac/validation/rule.go`.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use api::selector::LabelSelector;
use serde::Deserialize;
use serde_json::Value;

use super::Attributes;
use crate::request::UserInfo;

/// The group of the RBAC resources.
pub const GROUP: &str = "rbac.authorization.k8s.io";

/// One rule of a role.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyRule {
    /// Verbs, or `*`.
    pub verbs: Vec<String>,
    /// API groups, or `*`.
    pub api_groups: Vec<String>,
    /// `resource`, `resource/subresource`, `*/subresource` or `*`.
    pub resources: Vec<String>,
    /// Names; empty is any.
    pub resource_names: Vec<String>,
    /// Paths, a prefix where they end in `*`.
    #[serde(rename = "nonResourceURLs")]
    pub non_resource_urls: Vec<String>,
}

/// The rules of all roles, each list once: every cluster begins with the same roles.
#[derive(Debug, Default)]
pub struct RulePool {
    lists: HashSet<Arc<[PolicyRule]>>,
    /// How many were in use when that was last looked at.
    used_count: usize,
}

/// The RBAC objects of one logical cluster, ready to be asked.
#[derive(Debug, Default)]
pub struct Policy {
    cluster_roles: HashMap<String, Arc<[PolicyRule]>>,
    roles: HashMap<(String, String), Arc<[PolicyRule]>>,
    /// Bindings by subject, so that a question looks only at those of its user.
    cluster_bindings: BySubject,
    /// The same per namespace.
    role_bindings: HashMap<String, BySubject>,
}

/// Which binding allowed something; its `Display` is Kubernetes' reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    binding: Arc<Binding>,
}

/// The answer of a policy.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The binding that allows it, if any does.
    pub grant: Option<Grant>,
    /// Bindings to roles that are not there, as texts for the caller.
    pub errors: Vec<String>,
}

#[derive(Debug, Default)]
struct BySubject {
    users: HashMap<String, Vec<Arc<Binding>>>,
    groups: HashMap<String, Vec<Arc<Binding>>>,
}

#[derive(Debug, PartialEq, Eq)]
struct Binding {
    name: String,
    /// Empty for a ClusterRoleBinding.
    namespace: String,
    role_kind: RoleKind,
    role_name: String,
    subject_kind: &'static str,
    subject_name: String,
}

/// A ClusterRole that others may select.
#[derive(Debug)]
struct Labelled {
    name: String,
    labels: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RoleKind {
    Role,
    ClusterRole,
}

/// What counts of an object of the four RBAC resources: a policy is made of its fields and of nothing else that it holds.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Object {
    metadata: Metadata,
    rules: Option<Vec<PolicyRule>>,
    aggregation_rule: Option<AggregationRule>,
    role_ref: RoleRef,
    subjects: Option<Vec<Subject>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: String,
    namespace: String,
    labels: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AggregationRule {
    cluster_role_selectors: Vec<LabelSelector>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RoleRef {
    kind: String,
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Subject {
    kind: String,
    name: String,
    namespace: String,
}

// === impl PolicyRule ===

impl PolicyRule {
    /// Whether the rule allows what is asked.
    pub fn allows(&self, asked: &Attributes<'_>) -> bool {
        if !has(&self.verbs, asked.verb) {
            return false;
        }
        if asked.is_resource {
            self.allows_resource(asked)
        } else {
            self.non_resource_urls
                .iter()
                .any(|url| url_matches(url, asked.path))
        }
    }

    fn allows_resource(&self, asked: &Attributes<'_>) -> bool {
        has(&self.api_groups, asked.group)
            && self
                .resources
                .iter()
                .any(|rule| resource_matches(rule, asked.resource, asked.subresource))
            && (self.resource_names.is_empty()
                || self.resource_names.iter().any(|name| name == asked.name))
    }
}

/// Whether `values` holds `wanted` or `*`.
fn has(values: &[String], wanted: &str) -> bool {
    values.iter().any(|value| value == "*" || value == wanted)
}

fn resource_matches(rule: &str, resource: &str, subresource: &str) -> bool {
    if rule == "*" {
        return true;
    }
    if subresource.is_empty() {
        return rule == resource;
    }
    rule.split_once('/')
        .is_some_and(|(left, right)| (left == "*" || left == resource) && right == subresource)
}

pub(super) fn url_matches(rule: &str, path: &str) -> bool {
    match rule.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => rule == path,
    }
}

// === impl RulePool ===

impl RulePool {
    /// Returns the one list that is equal to this one.
    fn share(&mut self, rules: Vec<PolicyRule>) -> Arc<[PolicyRule]> {
        if let Some(shared) = self.lists.get(rules.as_slice()) {
            return Arc::clone(shared);
        }
        let rules: Arc<[PolicyRule]> = rules.into();
        self.lists.insert(Arc::clone(&rules));
        rules
    }

    /// Forgets what no policy has any more, now and then.
    pub fn tidy(&mut self) {
        if self.lists.len() / 2 > self.used_count {
            self.lists.retain(|rules| Arc::strong_count(rules) > 1);
            self.used_count = self.lists.len();
        }
    }
}

// === impl Policy ===

impl Policy {
    /// Makes a policy out of objects of the four RBAC resources.
    pub fn compile<'a>(
        objects: impl IntoIterator<Item = (&'a str, Object)>,
        pool: &mut RulePool,
    ) -> Self {
        let mut policy = Self::default();
        let mut aggregated = Vec::new();
        let mut labelled = Vec::new();
        for (resource, object) in objects {
            match resource {
                "clusterroles" => {
                    let Metadata { name, labels, .. } = object.metadata;
                    if let Some(rule) = object.aggregation_rule {
                        aggregated.push((name.clone(), rule));
                    }
                    labelled.push(Labelled {
                        name: name.clone(),
                        labels: labels.unwrap_or_default(),
                    });
                    let rules = pool.share(object.rules.unwrap_or_default());
                    policy.cluster_roles.insert(name, rules);
                }
                "roles" => {
                    let key = (object.metadata.namespace, object.metadata.name);
                    let rules = pool.share(object.rules.unwrap_or_default());
                    policy.roles.insert(key, rules);
                }
                "clusterrolebindings" => policy.bind(object.of_cluster()),
                "rolebindings" => policy.bind(object),
                _ => {}
            }
        }
        policy.aggregate(&aggregated, &labelled, pool);
        policy
    }

    /// Gives each aggregating role the rules of the roles that it selects, and of those that these select (`admin` selects
    /// `edit`, which selects `view`). What stands in the role itself does not count: a controller writes it there to be read
    /// (`sweep::roles`), as in Kubernetes, and a right that is taken back does not wait for that.
    fn aggregate(
        &mut self,
        aggregated: &[(String, AggregationRule)],
        labelled: &[Labelled],
        pool: &mut RulePool,
    ) {
        let mut own = self.cluster_roles.clone();
        for (name, _) in aggregated {
            own.remove(name);
        }
        for (name, _) in aggregated {
            let mut rules = Vec::new();
            let mut seen = BTreeSet::new();
            let mut open = vec![name.as_str()];
            while let Some(name) = open.pop() {
                if !seen.insert(name) {
                    continue;
                }
                rules.extend(
                    own.get(name)
                        .into_iter()
                        .flat_map(|own| own.iter().cloned()),
                );
                let selectors = aggregated
                    .iter()
                    .filter(|(aggregating, _)| aggregating == name)
                    .flat_map(|(_, rule)| &rule.cluster_role_selectors)
                    .filter_map(|selector| selector.to_selector().ok());
                for selector in selectors {
                    let selected = labelled
                        .iter()
                        .filter(|role| selector.matches(&role.labels));
                    open.extend(selected.map(|role| role.name.as_str()));
                }
            }
            let rules = pool.share(rules);
            self.cluster_roles.insert(name.clone(), rules);
        }
    }

    fn bind(&mut self, binding: Object) {
        let namespace = binding.metadata.namespace.as_str();
        let role_kind = match binding.role_ref.kind.as_str() {
            "Role" if !namespace.is_empty() => RoleKind::Role,
            "ClusterRole" => RoleKind::ClusterRole,
            _ => return,
        };
        for subject in binding.subjects.unwrap_or_default() {
            let (subject_kind, user) = match subject.kind.as_str() {
                "User" => ("User", subject.name),
                "Group" => ("Group", subject.name),
                "ServiceAccount" => {
                    let home = if subject.namespace.is_empty() {
                        namespace
                    } else {
                        &subject.namespace
                    };
                    if home.is_empty() {
                        continue;
                    }
                    (
                        "ServiceAccount",
                        format!("system:serviceaccount:{home}:{}", subject.name),
                    )
                }
                _ => continue,
            };
            let bound = Arc::new(Binding {
                name: binding.metadata.name.clone(),
                namespace: namespace.to_owned(),
                role_kind,
                role_name: binding.role_ref.name.clone(),
                subject_kind,
                subject_name: user.clone(),
            });
            let bindings = if namespace.is_empty() {
                &mut self.cluster_bindings
            } else {
                self.role_bindings.entry(namespace.to_owned()).or_default()
            };
            let subjects = if subject_kind == "Group" {
                &mut bindings.groups
            } else {
                &mut bindings.users
            };
            subjects.entry(user).or_default().push(bound);
        }
    }

    /// Asks whether the user's bindings allow what is asked: those for the whole cluster first, then those of the
    /// namespace.
    pub fn answer(&self, asked: &Attributes<'_>) -> Answer {
        let mut errors = Vec::new();
        for binding in self.bindings_of(asked.user, asked.namespace) {
            match self.rules_of(binding) {
                Some(rules) if rules.iter().any(|rule| rule.allows(asked)) => {
                    return Answer {
                        grant: Some(Grant {
                            binding: Arc::clone(binding),
                        }),
                        errors,
                    };
                }
                Some(_) => {}
                None => errors.push(binding.missing_role()),
            }
        }
        Answer {
            grant: None,
            errors,
        }
    }

    /// All rules that hold for `user` in `namespace`, for a SelfSubjectRulesReview, and the texts of what is missing.
    pub fn rules_for(&self, user: &UserInfo, namespace: &str) -> (Vec<PolicyRule>, Vec<String>) {
        let mut rules = Vec::new();
        let mut errors = Vec::new();
        for binding in self.bindings_of(user, namespace) {
            match self.rules_of(binding) {
                Some(bound) => rules.extend(bound.iter().cloned()),
                None => errors.push(binding.missing_role()),
            }
        }
        (rules, errors)
    }

    fn bindings_of<'a>(
        &'a self,
        user: &'a UserInfo,
        namespace: &str,
    ) -> impl Iterator<Item = &'a Arc<Binding>> + 'a {
        let of_namespace = (!namespace.is_empty())
            .then(|| self.role_bindings.get(namespace))
            .flatten();
        std::iter::once(&self.cluster_bindings)
            .chain(of_namespace)
            .flat_map(move |bindings| bindings.of(user))
    }

    /// The rules of a role as it counts, what it aggregates included; `None` where there is no such role. Without
    /// `namespace` it is a ClusterRole.
    pub(super) fn role(&self, namespace: Option<&str>, name: &str) -> Option<Arc<[PolicyRule]>> {
        match namespace {
            None => self.cluster_roles.get(name).map(Arc::clone),
            Some(namespace) => self
                .roles
                .get(&(namespace.to_owned(), name.to_owned()))
                .map(Arc::clone),
        }
    }

    fn rules_of(&self, binding: &Binding) -> Option<&Arc<[PolicyRule]>> {
        match binding.role_kind {
            RoleKind::ClusterRole => self.cluster_roles.get(&binding.role_name),
            RoleKind::Role => self
                .roles
                .get(&(binding.namespace.clone(), binding.role_name.clone())),
        }
    }
}

/// The rules that stand in a role; none in one that cannot be read.
pub(super) fn rules_in(role: &Value) -> Vec<PolicyRule> {
    let role = Object::deserialize(role).unwrap_or_default();
    role.rules.unwrap_or_default()
}

// === impl Object ===

impl Object {
    /// Reads a stored object. One that cannot be read grants nothing.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    /// The same of a resource that has no namespaces, whatever stands in it.
    fn of_cluster(mut self) -> Self {
        self.metadata.namespace.clear();
        self
    }
}

// === impl BySubject ===

impl BySubject {
    fn of<'a>(&'a self, user: &'a UserInfo) -> impl Iterator<Item = &'a Arc<Binding>> + 'a {
        self.users
            .get(&user.username)
            .into_iter()
            .chain(
                user.groups
                    .iter()
                    .filter_map(|group| self.groups.get(group)),
            )
            .flatten()
    }
}

// === impl Binding ===

impl Binding {
    fn missing_role(&self) -> String {
        let kind = match self.role_kind {
            RoleKind::ClusterRole => "clusterrole",
            RoleKind::Role => "role",
        };
        format!("{kind}.{GROUP} {:?} not found", self.role_name)
    }
}

// === impl Grant ===

impl std::fmt::Display for Grant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Binding {
            name,
            namespace,
            role_kind,
            role_name,
            subject_kind,
            subject_name,
        } = &*self.binding;
        let role = match role_kind {
            RoleKind::ClusterRole => "ClusterRole",
            RoleKind::Role => "Role",
        };
        if namespace.is_empty() {
            write!(f, "RBAC: allowed by ClusterRoleBinding {name:?} ")?;
        } else {
            write!(f, "RBAC: allowed by RoleBinding \"{name}/{namespace}\" ")?;
        }
        write!(f, "of {role} {role_name:?} to {subject_kind} ")?;
        match subject_name.strip_prefix("system:serviceaccount:") {
            Some(account) if *subject_kind == "ServiceAccount" => {
                let (namespace, name) = account.split_once(':').unwrap_or(("", account));
                write!(f, "\"{name}/{namespace}\"")
            }
            _ => write!(f, "{subject_name:?}"),
        }
    }
}

#[cfg(test)]
mod tests;
