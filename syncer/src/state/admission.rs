//! Which kinds a spoke's own admission may concern: what its webhooks, policies and quotas match, as far as that depends on the kind.
//!
//! Namespaces, selectors and conditions are left to the spoke: an answer here is yes too often, never too seldom.

use std::collections::BTreeMap;

use api::{GroupResource, GroupVersionResource};
use client::reflector::{Event, RawObject};
use parking_lot::Mutex;
use serde_json::Value;

/// Patterns that are kept of a spoke; with more, every kind counts as concerned.
const PATTERN_COUNT_MAX: usize = 4096;

/// Where admission is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    ValidatingWebhooks,
    MutatingWebhooks,
    Policies,
    Quotas,
}

/// What is known of one spoke.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    // Guards the map; never held across an await.
    sources: Mutex<BTreeMap<Source, Known>>,
}

#[derive(Debug, Default)]
struct Known {
    is_listed: bool,
    /// By namespace and name of the object.
    patterns: BTreeMap<(String, String), Vec<Pattern>>,
}

/// A kind that is matched; `*` stands for any.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pattern {
    group: String,
    resource: String,
}

// === impl Source ===

impl Source {
    pub(crate) const ALL: [Self; 4] = [
        Self::ValidatingWebhooks,
        Self::MutatingWebhooks,
        Self::Policies,
        Self::Quotas,
    ];

    /// Names its endpoint.
    pub(crate) fn gvr(self) -> GroupVersionResource {
        let (group, resource) = match self {
            Self::ValidatingWebhooks => (GROUP, "validatingwebhookconfigurations"),
            Self::MutatingWebhooks => (GROUP, "mutatingwebhookconfigurations"),
            Self::Policies => (GROUP, "validatingadmissionpolicies"),
            Self::Quotas => ("", "resourcequotas"),
        };
        GroupVersionResource::new(group, "v1", resource)
    }

    fn patterns(self, object: &Value) -> Vec<Pattern> {
        match self {
            Self::ValidatingWebhooks | Self::MutatingWebhooks => {
                let webhooks = object["webhooks"].as_array().into_iter().flatten();
                webhooks
                    .flat_map(|webhook| of_rules(&webhook["rules"]))
                    .collect()
            }
            Self::Policies => of_rules(&object["spec"]["matchConstraints"]["resourceRules"]),
            Self::Quotas => of_quota(&object["spec"]["hard"]),
        }
    }
}

const GROUP: &str = "admissionregistration.k8s.io";

/// Source: `k8s.io/api/admissionregistration/v1`, `Rule`.
fn of_rules(rules: &Value) -> Vec<Pattern> {
    let texts = |rule: &Value, field: &str| -> Vec<String> {
        let texts = rule[field].as_array().into_iter().flatten();
        texts.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut patterns = Vec::new();
    for rule in rules.as_array().into_iter().flatten() {
        let resources = texts(rule, "resources");
        for group in texts(rule, "apiGroups") {
            for resource in &resources {
                let resource = match resource.split_once('/') {
                    None => resource.as_str(),
                    Some((resource, "*")) => resource,
                    Some(_) => continue, // a subresource
                };
                patterns.push(Pattern {
                    group: group.clone(),
                    resource: resource.to_owned(),
                });
            }
        }
    }
    patterns
}

/// Source: `k8s.io/apiserver/pkg/quota/v1/generic`, `ObjectCountQuotaResourceNameFor`.
fn of_quota(hard: &Value) -> Vec<Pattern> {
    let names = hard.as_object().into_iter().flat_map(|hard| hard.keys());
    let counted = names.filter_map(|name| name.strip_prefix("count/")?.split_once('.'));
    counted
        .map(|(resource, group)| Pattern {
            group: group.to_owned(),
            resource: resource.to_owned(),
        })
        .collect()
}

// === impl Pattern ===

impl Pattern {
    fn matches(&self, resource: &GroupResource) -> bool {
        let is = |pattern: &str, text: &str| pattern == "*" || pattern == text;
        is(&self.group, &resource.group) && is(&self.resource, &resource.resource)
    }
}

// === impl Admission ===

impl Admission {
    /// Takes up what a watch delivers. Returns whether other kinds may be concerned now.
    pub(crate) fn take(&self, source: Source, event: &Event) -> bool {
        let mut sources = self.sources.lock();
        let known = sources.entry(source).or_default();
        let before = (known.is_listed, known.patterns.clone());
        match event {
            Event::Restarted { objects, .. } => {
                known.is_listed = true;
                known.patterns.clear();
                for object in objects {
                    known.note(source, object);
                }
            }
            Event::Applied(object) => known.note(source, object),
            Event::Deleted(object) => drop(known.patterns.remove(&key_of(object))),
            Event::Interrupted(_) | Event::Resumed => {}
        }
        before != (known.is_listed, known.patterns.clone())
    }

    /// Returns whether a kind is concerned; `None` while that is not known.
    pub(crate) fn judges(&self, resource: &GroupResource) -> Option<bool> {
        let sources = self.sources.lock();
        let patterns = || {
            let objects = sources.values().flat_map(|known| known.patterns.values());
            objects.flatten()
        };
        if patterns().count() > PATTERN_COUNT_MAX || patterns().any(|it| it.matches(resource)) {
            return Some(true);
        }
        let is_listed = |source| sources.get(source).is_some_and(|known| known.is_listed);
        Source::ALL.iter().all(is_listed).then_some(false)
    }
}

// === impl Known ===

impl Known {
    fn note(&mut self, source: Source, object: &RawObject) {
        let count: usize = self.patterns.values().map(Vec::len).sum();
        let mut patterns = object
            .value()
            .map(|object| source.patterns(&object))
            .unwrap_or_default();
        patterns.dedup();
        // One more than the bound says that there are too many.
        patterns.truncate((PATTERN_COUNT_MAX + 1).saturating_sub(count));
        if patterns.is_empty() {
            self.patterns.remove(&key_of(object));
        } else {
            self.patterns.insert(key_of(object), patterns);
        }
    }
}

fn key_of(object: &RawObject) -> (String, String) {
    let namespace = object.namespace.clone().unwrap_or_default();
    (namespace, object.name.clone())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn raw(object: &Value) -> Arc<RawObject> {
        let mut object = object.clone();
        object["metadata"] = json!({"name": "a", "uid": "u", "resourceVersion": "1"});
        object["apiVersion"] = json!("v1");
        object["kind"] = json!("K");
        Arc::new(RawObject::from_value(&object).expect("an object"))
    }

    fn listed(source: Source, objects: Vec<Arc<RawObject>>) -> (Source, Event) {
        (
            source,
            Event::Restarted {
                objects,
                resource_version: String::new(),
                latest_as_of: None,
            },
        )
    }

    #[test]
    fn a_kind_is_judged_by_what_matches_it() {
        let apps = GroupResource::new("kro.run", "webapps");
        let webhook = |groups: Value, resources: Value| json!({"webhooks": [{"rules": [{"apiGroups": groups, "resources": resources}]}]});
        let policy = json!({"spec": {"matchConstraints": {"resourceRules": [
            {"apiGroups": ["kro.run"], "resources": ["webapps"]}]}}});
        // (what, where, the object, whether it is judged)
        for (name, source, object, want) in [
            (
                "its own rule",
                Source::ValidatingWebhooks,
                webhook(json!(["kro.run"]), json!(["webapps"])),
                true,
            ),
            (
                "a mutating one",
                Source::MutatingWebhooks,
                webhook(json!(["*"]), json!(["*"])),
                true,
            ),
            (
                "all and subresources",
                Source::ValidatingWebhooks,
                webhook(json!(["*"]), json!(["*/*"])),
                true,
            ),
            (
                "its status",
                Source::ValidatingWebhooks,
                webhook(json!(["*"]), json!(["webapps/status"])),
                false,
            ),
            (
                "another kind",
                Source::ValidatingWebhooks,
                webhook(json!(["kro.run"]), json!(["databases"])),
                false,
            ),
            (
                "another group",
                Source::ValidatingWebhooks,
                webhook(json!(["apps"]), json!(["*"])),
                false,
            ),
            ("a policy", Source::Policies, policy, true),
            (
                "a quota",
                Source::Quotas,
                json!({"spec": {"hard": {"count/webapps.kro.run": "1"}}}),
                true,
            ),
            (
                "a quota of pods",
                Source::Quotas,
                json!({"spec": {"hard": {"pods": "1"}}}),
                false,
            ),
        ] {
            let admission = Admission::default();
            for other in Source::ALL {
                let (source, event) = listed(other, Vec::new());
                admission.take(source, &event);
            }
            assert_eq!(admission.judges(&apps), Some(false), "{name}: before");
            admission.take(source, &Event::Applied(raw(&object)));
            assert_eq!(admission.judges(&apps), Some(want), "{name}");
            admission.take(source, &Event::Deleted(raw(&object)));
            assert_eq!(admission.judges(&apps), Some(false), "{name}: after");
        }
    }

    #[test]
    fn what_was_not_listed_is_not_known() {
        let apps = GroupResource::new("kro.run", "webapps");
        let admission = Admission::default();
        assert_eq!(admission.judges(&apps), None, "nothing was listed");
        let object = json!({"spec": {"hard": {"count/webapps.kro.run": "1"}}});
        let (source, event) = listed(Source::Quotas, vec![raw(&object)]);
        assert!(admission.take(source, &event), "it is new");
        assert!(!admission.take(source, &event), "it is the same");
        assert_eq!(
            admission.judges(&apps),
            Some(true),
            "one that matches is enough"
        );
    }

    #[test]
    fn too_many_patterns_concern_every_kind() {
        let groups: Vec<String> = (0..=PATTERN_COUNT_MAX)
            .map(|index| format!("g{index}"))
            .collect();
        let object = json!({"webhooks": [{"rules": [{"apiGroups": groups, "resources": ["r"]}]}]});
        let admission = Admission::default();
        let (source, event) = listed(Source::ValidatingWebhooks, vec![raw(&object)]);
        admission.take(source, &event);
        assert_eq!(
            admission.judges(&GroupResource::new("kro.run", "webapps")),
            Some(true)
        );
    }
}
