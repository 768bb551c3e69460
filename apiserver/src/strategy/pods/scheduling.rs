//! Where a pod may run: affinities, tolerations and how it is spread.
//!
//! Source: kubernetes/pkg/apis/core/validation/validation.go (`validateAffinity`, `ValidateTolerations`,
//! `validateTopologySpreadConstraints`).

use std::collections::{HashMap, HashSet};

use api::FieldError;
use api::validation::{is_dns_label, is_dns_subdomain, is_label_value};

use super::super::checks::{Findings, Place, Rules, positive, qualified_name, selector};

const RULES: &Rules = &[
    (
        "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
        node_selector,
    ),
    (
        "affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[]",
        |term, findings| {
            weight(&term.at("weight"), findings);
            node_term(&term.at("preference"), false, findings);
        },
    ),
    (
        "affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[]",
        pod_term,
    ),
    (
        "affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[]",
        weighted_pod_term,
    ),
    (
        "affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[]",
        pod_term,
    ),
    (
        "affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[]",
        weighted_pod_term,
    ),
    ("tolerations", tolerations),
    ("topologySpreadConstraints", spread),
];

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub(super) fn judge(spec: &Place<'_>, findings: &mut Findings) {
    findings.judge(spec, RULES);
}

/// Which nodes there may be.
pub(in super::super) fn node_selector(place: &Place<'_>, findings: &mut Findings) {
    if !place.is_set() {
        return;
    }
    let terms = place.at("nodeSelectorTerms");
    if terms.count() == 0 {
        findings.required(&terms, "must have at least one node selector term");
    }
    terms
        .items()
        .for_each(|term| node_term(&term, true, findings));
}

/// `is_strict`: values are labels, which is not asked of what is only preferred.
fn node_term(term: &Place<'_>, is_strict: bool, findings: &mut Findings) {
    for expression in term.at("matchExpressions").items() {
        let (operator, values) = (expression.at("operator"), expression.at("values"));
        match operator.text() {
            "In" | "NotIn" if values.count() == 0 => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                findings.required(&values, detail);
            }
            "Exists" | "DoesNotExist" if values.count() > 0 => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                findings.forbidden(&values, detail);
            }
            "Gt" | "Lt" if values.count() != 1 => {
                let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                findings.required(&values, detail);
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            other => {
                let detail = "not a valid selector operator";
                findings.push(FieldError::invalid(&operator.path, other, detail));
            }
        }
        qualified_name(&expression.at("key"), findings);
        if is_strict {
            for value in values.items() {
                findings.text(&value, is_label_value);
            }
        }
    }
    for expression in term.at("matchFields").items() {
        node_field(&expression, findings);
    }
}

fn node_field(expression: &Place<'_>, findings: &mut Findings) {
    let (operator, values) = (expression.at("operator"), expression.at("values"));
    match operator.text() {
        "In" | "NotIn" if values.count() == 1 => {}
        "In" | "NotIn" => {
            let detail =
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            findings.required(&values, detail);
        }
        other => {
            let detail = "not a valid selector operator";
            findings.push(FieldError::invalid(&operator.path, other, detail));
        }
    }
    let key = expression.at("key");
    if key.text() == "metadata.name" {
        for value in values.items() {
            findings.text(&value, is_dns_subdomain);
        }
    } else {
        let detail = "not a valid field selector key";
        findings.push(FieldError::invalid(&key.path, key.text(), detail));
    }
}

fn weight(place: &Place<'_>, findings: &mut Findings) {
    let weight = place.number().unwrap_or(0);
    if !(1..=100).contains(&weight) {
        let detail = "must be in the range 1-100";
        findings.push(FieldError::invalid(&place.path, weight, detail));
    }
}

fn weighted_pod_term(term: &Place<'_>, findings: &mut Findings) {
    weight(&term.at("weight"), findings);
    pod_term(&term.at("podAffinityTerm"), findings);
}

fn pod_term(term: &Place<'_>, findings: &mut Findings) {
    selector(&term.at("labelSelector"), findings);
    selector(&term.at("namespaceSelector"), findings);
    for namespace in term.at("namespaces").items() {
        // Kubernetes calls the field so.
        let path = term.path.child("namespace");
        for detail in is_dns_label(namespace.text()) {
            findings.push(FieldError::invalid(&path, namespace.text(), detail));
        }
    }
    let key = term.at("topologyKey");
    if key.text().is_empty() {
        findings.required(&key, "can not be empty");
    }
    qualified_name(&key, findings);
}

/// Tolerations of a pod, or of a runtime class.
pub(in super::super) fn tolerations(tolerations: &Place<'_>, findings: &mut Findings) {
    for toleration in tolerations.items() {
        let key = toleration.at("key");
        let operator = toleration.at("operator");
        let value = toleration.at("value").text();
        if !key.text().is_empty() {
            qualified_name(&key, findings);
        } else if operator.text() != "Exists" {
            let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            findings.push(FieldError::invalid(&operator.path, operator.text(), detail));
        }
        let effect = toleration.at("effect");
        if toleration.at("tolerationSeconds").is_set() && effect.text() != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            findings.push(FieldError::invalid(&effect.path, effect.text(), detail));
        }
        let wrong = match operator.text() {
            "" | "Equal" => is_label_value(value),
            "Exists" if !value.is_empty() => {
                vec!["value must be empty when `operator` is 'Exists'".to_owned()]
            }
            _ => Vec::new(),
        };
        if !wrong.is_empty() {
            findings.push(FieldError::invalid(&operator.path, value, wrong.join(";")));
        }
        if !["", "Equal", "Exists", "Lt", "Gt"].contains(&operator.text()) {
            findings.not_supported(&operator, &["Equal", "Exists"]);
        }
        if !effect.text().is_empty() && !EFFECTS.contains(&effect.text()) {
            findings.not_supported(&effect, &EFFECTS);
        }
    }
}

/// Taints of a node.
pub(super) fn taints(taints: &Place<'_>, findings: &mut Findings) {
    let mut seen = HashSet::new();
    for taint in taints.items() {
        let (key, value, effect) = (taint.at("key"), taint.at("value"), taint.at("effect"));
        qualified_name(&key, findings);
        let wrong = is_label_value(value.text());
        if !wrong.is_empty() {
            findings.invalid(&value, wrong.join(";"));
        }
        match effect.text() {
            "" => findings.required(&effect, ""),
            known if EFFECTS.contains(&known) => {}
            _ => findings.not_supported(&effect, &EFFECTS),
        }
        let pair = (key.text(), effect.text());
        if !seen.insert(pair) {
            let mut error = FieldError::duplicate(&taint.path, taint.value.clone());
            "taints must be unique by key and effect pair".clone_into(&mut error.detail);
            findings.push(error);
        }
    }
}

/// What may be there once of the constraints of a pod.
fn pair_of<'a>(constraint: &Place<'a>) -> (&'a str, &'a str) {
    let text = |field: &str| constraint.at(field).text();
    (text("topologyKey"), text("whenUnsatisfiable"))
}

fn spread(constraints: &Place<'_>, findings: &mut Findings) {
    // Of two that are the same the first is told.
    let mut last: HashMap<_, usize> = HashMap::new();
    for (index, constraint) in constraints.items().enumerate() {
        last.insert(pair_of(&constraint), index);
    }
    for (index, constraint) in constraints.items().enumerate() {
        positive(&constraint.at("maxSkew"), findings);
        let key = constraint.at("topologyKey");
        let action = constraint.at("whenUnsatisfiable");
        if key.text().is_empty() {
            findings.required(&key, "can not be empty");
        }
        if last
            .get(&pair_of(&constraint))
            .is_some_and(|it| *it > index)
        {
            let path = constraint.path.child("{topologyKey, whenUnsatisfiable}");
            let pair = format!("{{{}, {}}}", key.text(), action.text());
            findings.push(FieldError::duplicate(&path, pair));
        }
        let domains = constraint.at("minDomains");
        if domains.is_set() {
            positive(&domains, findings);
        }
        if domains.is_set() && action.text() != "DoNotSchedule" {
            let detail = format!(
                "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {}",
                action.text()
            );
            findings.invalid(&domains, detail);
        }
        selector(&constraint.at("labelSelector"), findings);
    }
}
