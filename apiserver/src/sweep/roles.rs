//! Writes into aggregating ClusterRoles the rules of those that they select, as everybody reads them.
//!
//! Nothing depends on what is written: the authorizer finds by itself what an aggregating role grants, and does not read what
//! stands in it ([`crate::authorize::rbac`]). A right that is taken back does not wait for this controller.
//!
//! # Invariants
//! - What is written in one cluster is at most [`RULES_BYTES_MAX`]: a role that selects many large ones cannot be made many times
//!   their size. Roles that select each other over and over take [`LOOK_COUNT_MAX`] looks.
//!
//! Source: kubernetes/pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use api::selector::{LabelSelector, Selector};
use api::{ClusterScope, LogicalCluster, meta};
use serde::Deserialize as _;
use serde_json::Value;
use storage::{Event, KeyRange, RangeQuery, WatchEnd, WatchQuery};
use tasks::Tasks;
use tokio_util::sync::CancellationToken;

use super::{WRITE_TIMEOUT, is_ours};
use crate::authorize::rbac;
use crate::call::{Shared, Target};
use crate::handle::controllers;
use crate::objects::{parse_key, prefix};

const RESOURCE: &str = "clusterroles";

/// The rules that are written into the roles of one cluster, as JSON. Those of Kubernetes' own are 20 KiB.
const RULES_BYTES_MAX: usize = 1024 * 1024;
/// How often a role or a rule of one cluster is looked at for that, which takes some tens of milliseconds. Twenty aggregating roles among
/// five thousand need so many.
const LOOK_COUNT_MAX: usize = 100_000;

pub(super) fn start(shared: &Arc<Shared>, tasks: &Tasks) {
    let aggregation = Aggregation {
        shared: Arc::clone(shared),
    };
    let token = tasks.child_token();
    // It ends at shutdown; without it, roles show what they showed before.
    tasks.spawn("role aggregation", aggregation.run(token));
}

struct Aggregation {
    shared: Arc<Shared>,
}

/// What may be made of the roles of one cluster still.
struct Left {
    bytes: usize,
    looks: usize,
}

/// A role as others select it.
struct Role<'a> {
    name: &'a str,
    labels: std::collections::BTreeMap<String, String>,
    rules: &'a [Value],
    /// `None` for a role that aggregates nothing.
    selectors: Option<Vec<Selector>>,
}

// === impl Aggregation ===

impl Aggregation {
    async fn run(self, token: CancellationToken) {
        while !token.is_cancelled() {
            tokio::select! {
                biased;
                () = token.cancelled() => {}
                end = self.follow() => {
                    if end == WatchEnd::Closed {
                        token.cancelled().await;
                    }
                }
            }
        }
    }

    /// Looks at the roles of all clusters, then at those of clusters in which one changes.
    async fn follow(&self) -> WatchEnd {
        let range = KeyRange::prefix(prefix(rbac::GROUP, RESOURCE));
        let Ok(found) = self.shared.store.range(RangeQuery::of(range.clone())) else {
            return WatchEnd::Closed;
        };
        let query = WatchQuery {
            range,
            after: found.revision,
        };
        let Ok(mut watcher) = self.shared.store.watch(query) else {
            return WatchEnd::Expired;
        };
        let clusters = found.entries.iter().filter_map(|it| cluster_of(it.key()));
        for cluster in clusters.collect::<BTreeSet<_>>() {
            self.aggregate(&cluster).await;
        }
        drop(found);
        loop {
            match watcher.next().await {
                Ok(events) => {
                    let changed = events.iter().filter(|event| may_matter(event));
                    let clusters = changed.filter_map(|it| cluster_of(it.key()));
                    for cluster in clusters.collect::<BTreeSet<_>>() {
                        self.aggregate(&cluster).await;
                    }
                }
                Err(end) => return end,
            }
        }
    }

    /// Brings the aggregating roles of one cluster up to date.
    async fn aggregate(&self, cluster: &LogicalCluster) {
        if !is_ours(&self.shared, cluster) {
            return;
        }
        let registry = &self.shared.registry;
        let Some(scope) = registry.lookup(cluster, rbac::GROUP, "v1", RESOURCE) else {
            return;
        };
        let one = ClusterScope::One(cluster.clone());
        let range = scope.rules.prefix.range(&one, None);
        let Ok(found) = self.shared.store.range(RangeQuery::of(range)) else {
            return;
        };
        let objects: Vec<Value> = found
            .entries
            .iter()
            .filter_map(|entry| serde_json::from_slice(entry.value()).ok())
            .collect();
        for (name, rules) in wanted(&objects, cluster) {
            let target = Target {
                cluster: cluster.clone(),
                namespace: String::new(),
                name: name.to_owned(),
                key: scope.rules.prefix.key(cluster, "", name),
            };
            let access = controllers::access(&self.shared, &scope, WRITE_TIMEOUT);
            let _written = controllers::change(&access, &target, |role| {
                // It may have ceased to aggregate since.
                if !role["aggregationRule"].is_null() {
                    role["rules"] = Value::Array(rules.clone());
                }
            })
            .await;
        }
    }
}

/// Whether a change is one of rules or labels, or of what selects by them.
fn may_matter(event: &Event) -> bool {
    let read = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap_or_default();
    let (Some(before), now) = (event.previous(), event.entry()) else {
        return true;
    };
    if event.kind() == storage::EventKind::Deleted {
        return true;
    }
    let (before, now) = (read(before.value()), read(now.value()));
    let differs = |pointer: &str| before.pointer(pointer) != now.pointer(pointer);
    ["/rules", "/aggregationRule", "/metadata/labels"]
        .into_iter()
        .any(differs)
}

fn cluster_of(key: &[u8]) -> Option<LogicalCluster> {
    parse_key(key)?.cluster.parse().ok()
}

/// The aggregating roles whose rules are not those of the roles that they select, with what they are to be.
fn wanted<'a>(objects: &'a [Value], cluster: &LogicalCluster) -> Vec<(&'a str, Vec<Value>)> {
    let mut roles: Vec<Role<'a>> = objects.iter().map(Role::of).collect();
    roles.sort_by_key(|role| role.name);
    let mut wanted = Vec::new();
    let mut left = Left {
        bytes: RULES_BYTES_MAX,
        looks: LOOK_COUNT_MAX,
    };
    for (index, role) in roles.iter().enumerate() {
        if role.selectors.is_none() {
            continue;
        }
        let Some(rules) = rules_of(&roles, index, &mut left) else {
            tracing::warn!(%cluster, "the rules of aggregating roles are too many to be shown");
            break;
        };
        if rules.iter().copied().ne(role.rules.iter()) {
            wanted.push((role.name, rules.into_iter().cloned().collect()));
        }
    }
    wanted
}

/// The rules that an aggregating role has: those of the roles that it selects in the order of their names, each rule once, and where one
/// of them aggregates, those of the roles that it selects. `None` where that takes more than what is left.
fn rules_of<'a>(roles: &[Role<'a>], index: usize, left: &mut Left) -> Option<Vec<&'a Value>> {
    let mut rules = Vec::new();
    let (mut known, mut seen) = (HashSet::new(), HashSet::from([index]));
    let mut open = selected_by(roles, index, left)?;
    open.reverse();
    while let Some(next) = open.pop() {
        let (Some(role), true) = (roles.get(next), seen.insert(next)) else {
            continue;
        };
        if role.selectors.is_some() {
            open.extend(selected_by(roles, next, left)?.into_iter().rev());
            continue;
        }
        left.looks = left.looks.checked_sub(role.rules.len())?;
        for rule in role.rules {
            let text = rule.to_string();
            let length = text.len();
            if known.insert(text) {
                left.bytes = left.bytes.checked_sub(length)?;
                rules.push(rule);
            }
        }
    }
    Some(rules)
}

/// The roles that one selects, by each of its selectors. `None` where that takes more than what is left.
fn selected_by(roles: &[Role<'_>], index: usize, left: &mut Left) -> Option<Vec<usize>> {
    let selectors = roles.get(index).and_then(|role| role.selectors.as_deref());
    let selectors = selectors.unwrap_or_default();
    let looks = roles.len().checked_mul(selectors.len())?;
    left.looks = left.looks.checked_sub(looks)?;
    let selected = selectors.iter().flat_map(|selector| {
        let all = roles.iter().enumerate();
        let matching = all.filter(|(_, role)| selector.matches(&role.labels));
        matching.map(|(index, _)| index)
    });
    Some(selected.collect())
}

// === impl Role ===

impl<'a> Role<'a> {
    fn of(object: &'a Value) -> Self {
        let labels = object.pointer("/metadata/labels");
        let labels = labels.and_then(|labels| serde::Deserialize::deserialize(labels).ok());
        let rules = object["rules"].as_array().map_or(&[][..], Vec::as_slice);
        let rule = &object["aggregationRule"];
        let selectors = rule["clusterRoleSelectors"]
            .as_array()
            .into_iter()
            .flatten();
        let selectors = selectors
            .filter_map(|selector| LabelSelector::deserialize(selector).ok())
            .filter_map(|selector| selector.to_selector().ok());
        Self {
            name: meta::name(object),
            labels: labels.unwrap_or_default(),
            rules,
            selectors: (!rule.is_null()).then(|| selectors.collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn role(name: &str, labels: &[&str], rules: &[&str]) -> Value {
        let labels: serde_json::Map<_, _> = labels
            .iter()
            .map(|label| ((*label).to_owned(), json!("true")))
            .collect();
        let rules: Vec<_> = rules.iter().map(|it| json!({"resources": [it]})).collect();
        json!({"metadata": {"name": name, "labels": labels}, "rules": rules})
    }

    fn aggregating(name: &str, labels: &[&str], selects: &[&str], rules: &[&str]) -> Value {
        let mut role = role(name, labels, rules);
        let selectors = selects
            .iter()
            .map(|it| json!({"matchLabels": {*it: "true"}}));
        role["aggregationRule"] = json!({"clusterRoleSelectors": selectors.collect::<Vec<_>>()});
        role
    }

    fn shown(objects: &[Value]) -> Vec<String> {
        let wanted = wanted(objects, &LogicalCluster::root());
        let shown = wanted.into_iter().map(|(name, rules)| {
            let resources: Vec<_> = rules
                .iter()
                .filter_map(|rule| rule["resources"][0].as_str())
                .collect();
            format!("{name}: {}", resources.join(" "))
        });
        shown.collect()
    }

    #[test]
    fn a_role_has_the_rules_of_those_it_selects_and_of_those_that_these_select() {
        let objects = [
            aggregating("admin", &[], &["to-admin"], &[]),
            aggregating("edit", &["to-admin"], &["to-edit"], &["stale"]),
            aggregating("view", &["to-edit"], &["to-view"], &["pods"]),
            role("z-admin", &["to-admin"], &["roles"]),
            role("z-edit", &["to-edit"], &["pods", "secrets"]),
            role("z-view", &["to-view"], &["pods"]),
            role("other", &["to-other"], &["nodes"]),
        ];
        let want = ["admin: pods secrets roles", "edit: pods secrets"];
        assert_eq!(shown(&objects), want, "view is as it should be");
    }

    #[test]
    fn roles_that_select_each_other_have_an_end() {
        let objects = [
            aggregating("a", &["x"], &["x"], &["stale"]),
            aggregating("b", &["x"], &["x"], &["stale"]),
            role("c", &["x"], &["pods"]),
        ];
        assert_eq!(shown(&objects), ["a: pods", "b: pods"]);
    }

    #[test]
    fn what_is_written_does_not_grow_beyond_its_limit() {
        let long = "x".repeat(RULES_BYTES_MAX / 8);
        let large: Vec<_> = (0..4)
            .map(|number| role(&format!("z{number}"), &["x"], &[&format!("{long}{number}")]))
            .collect();
        let aggregating = (0..9).map(|number| aggregating(&format!("a{number}"), &[], &["x"], &[]));
        let objects: Vec<_> = aggregating.chain(large).collect();
        assert_eq!(
            shown(&objects).len(),
            1,
            "each would have half of it and a little more"
        );
    }

    #[test]
    fn roles_that_select_each_other_over_and_over_are_given_up() {
        let all: Vec<String> = (0..400).map(|number| format!("a{number:03}")).collect();
        let objects: Vec<_> = all
            .iter()
            .map(|name| aggregating(name, &["x"], &["x"], &["stale"]))
            .chain([role("z", &["x"], &["pods"])])
            .collect();
        // Each looks at all through all: the first alone takes more than there is.
        assert_eq!(shown(&objects), [""; 0]);
    }
}
