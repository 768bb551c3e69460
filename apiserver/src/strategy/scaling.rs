//! What scales workloads, and what keeps enough of them: HorizontalPodAutoscalers and PodDisruptionBudgets.
//!
//! Source: kubernetes/pkg/apis/{autoscaling,policy}/validation/validation.go.

use api::FieldError;
use api::validation::is_path_segment;

use super::Strategy;
use super::built_in::RULED;
use super::checks::{
    Check, Findings, Place, Rules, at_most_all, count_or_percent, dns_label, judge, reference,
    selector,
};
use super::pods::containers::resource_name;
use super::rules::{Generation, PutWithoutVersion};

pub(super) const AUTOSCALERS: Strategy = Strategy {
    validate: |object, _live| judge(object, AUTOSCALER),
    ..RULED
};

pub(super) const BUDGETS: Strategy = Strategy {
    generation: Generation::Counted,
    put_without_version: PutWithoutVersion::Refused,
    validate: |object, _live| judge(object, BUDGET),
    ..RULED
};

const BUDGET: &Rules = &[
    ("spec", |spec, findings| {
        if spec.at("minAvailable").is_set() && spec.at("maxUnavailable").is_set() {
            let detail = "minAvailable and maxUnavailable cannot be both set";
            findings.invalid(spec, detail);
        }
    }),
    ("spec.minAvailable", count_or_percent),
    ("spec.minAvailable", at_most_all),
    ("spec.maxUnavailable", count_or_percent),
    ("spec.maxUnavailable", at_most_all),
    ("spec.selector", selector),
];

const AUTOSCALER: &Rules = &[
    ("spec", replicas),
    ("spec.scaleTargetRef", reference),
    ("spec.scaleTargetRef.apiVersion", |version, findings| {
        group_version(version, findings);
        if !version.text().contains('/') {
            let detail = "apiVersion must specify API group";
            findings.push(FieldError::invalid(&version.path, version.text(), detail));
        }
    }),
    ("spec.metrics[]", metric),
    ("spec.behavior.scaleUp", scaling),
    ("spec.behavior.scaleDown", scaling),
];

/// A kind of metric: what its `type` says, its field, and what is asked of it.
struct Metric {
    name: &'static str,
    field: &'static str,
    check: Check,
}

const METRICS: [Metric; 5] = [
    Metric {
        name: "Object",
        field: "object",
        check: |source, findings| {
            let described = source.at("describedObject");
            reference(&described, findings);
            group_version(&described.at("apiVersion"), findings);
            identifier(&source.at("metric"), findings);
            one_target(
                source,
                "must set either a target value or averageValue",
                findings,
            );
        },
    },
    Metric {
        name: "External",
        field: "external",
        check: |source, findings| {
            identifier(&source.at("metric"), findings);
            let none = "must set either a target value for metric or a per-pod target";
            one_target(source, none, findings);
            let value = source.within(&["target", "value"]);
            if value.is_set() && source.within(&["target", "averageValue"]).is_set() {
                let both = "may not set both a target value for metric and a per-pod target";
                findings.forbidden(&value, both);
            }
        },
    },
    Metric {
        name: "Pods",
        field: "pods",
        check: |source, findings| {
            identifier(&source.at("metric"), findings);
            target(&source.at("target"), findings);
            let average = source.within(&["target", "averageValue"]);
            if !average.is_set() {
                findings.required(&average, "must specify a positive target averageValue");
            }
        },
    },
    Metric {
        name: "Resource",
        field: "resource",
        check: resource,
    },
    Metric {
        name: "ContainerResource",
        field: "containerResource",
        check: |source, findings| {
            let container = source.at("container");
            match container.text() {
                "" => findings.required(&container, "must specify a container"),
                _ => dns_label(&container, findings),
            }
            let name = source.at("name");
            if !name.text().is_empty() {
                resource_name(name.text(), &name, findings);
            }
            resource(source, findings);
        },
    },
];

const WINDOW_SECONDS_MAX: i64 = 3600;
const PERIOD_SECONDS_MAX: i64 = 1800;

fn replicas(spec: &Place<'_>, findings: &mut Findings) {
    let (min, max) = (spec.at("minReplicas"), spec.at("maxReplicas"));
    let (least, most) = (min.number(), max.number().unwrap_or(0));
    if least.is_some_and(|it| it < 1) {
        findings.invalid(&min, "must be greater than or equal to 1");
    }
    if most == 0 {
        findings.required(&max, "must be set and greater than 0");
    } else if most < 0 {
        findings.invalid(&max, "must be greater than or equal to 1");
    }
    if least.is_some_and(|it| most < it) {
        let detail = "must be greater than or equal to `minReplicas`";
        findings.push(FieldError::invalid(&max.path, most, detail));
    }
}

fn group_version(version: &Place<'_>, findings: &mut Findings) {
    if version.text().matches('/').count() > 1 {
        let detail = format!("unexpected GroupVersion string: {}", version.text());
        findings.invalid(version, detail);
    }
}

fn metric(metric: &Place<'_>, findings: &mut Findings) {
    let kind = metric.at("type");
    let said = METRICS.iter().find(|it| it.name == kind.text());
    if kind.text().is_empty() {
        findings.required(&kind, "must specify a metric source type");
    }
    if said.is_none() {
        let known = [
            "ContainerResource",
            "External",
            "Object",
            "Pods",
            "Resource",
        ];
        findings.not_supported(&kind, &known);
    }
    let present: Vec<&Metric> = METRICS
        .iter()
        .filter(|it| metric.at(it.field).is_set())
        .collect();
    if let Some(first) = present.first() {
        (first.check)(&metric.at(first.field), findings);
    }
    if let Some(said) = said
        && !metric.at(said.field).is_set()
    {
        let detail = "must populate information for the given metric source";
        findings.required(&metric.at(said.field), detail);
    }
    if present.len() != 1 {
        for other in present.iter().filter(|it| it.name != kind.text()) {
            let detail = "must populate the given metric source only";
            findings.forbidden(&metric.at(other.field), detail);
        }
    }
}

fn identifier(metric: &Place<'_>, findings: &mut Findings) {
    let name = metric.at("name");
    match name.text() {
        "" => findings.required(&name, "must specify a metric name"),
        _ => findings.text(&name, is_path_segment),
    }
}

fn target(target: &Place<'_>, findings: &mut Findings) {
    let kind = target.at("type");
    if kind.text().is_empty() {
        findings.required(&kind, "must specify a metric target type");
    }
    if !["Utilization", "Value", "AverageValue"].contains(&kind.text()) {
        let detail = "must be either Utilization, Value, or AverageValue";
        findings.push(FieldError::invalid(&kind.path, kind.text(), detail));
    }
    for field in ["value", "averageValue"] {
        let place = target.at(field);
        if place.quantity().is_some_and(|it| it.to_float() <= 0.0) {
            findings.invalid(&place, "must be positive");
        }
    }
    let utilization = target.at("averageUtilization");
    if utilization.number().is_some_and(|it| it < 1) {
        findings.invalid(&utilization, "must be greater than 0");
    }
}

fn one_target(source: &Place<'_>, none: &str, findings: &mut Findings) {
    let wanted = source.at("target");
    target(&wanted, findings);
    let average = wanted.at("averageValue");
    if !wanted.at("value").is_set() && !average.is_set() {
        findings.push(FieldError::required(&average.path, none));
    }
}

fn resource(source: &Place<'_>, findings: &mut Findings) {
    let name = source.at("name");
    if name.text().is_empty() {
        findings.required(&name, "must specify a resource name");
    }
    let wanted = source.at("target");
    target(&wanted, findings);
    let (share, value) = (wanted.at("averageUtilization"), wanted.at("averageValue"));
    match (share.is_set(), value.is_set()) {
        (false, false) => {
            let detail = "must set either a target raw value or a target utilization";
            findings.required(&share, detail);
        }
        (true, true) => {
            let detail = "may not set both a target raw value and a target utilization";
            findings.forbidden(&value, detail);
        }
        _ => {}
    }
}

fn scaling(rules: &Place<'_>, findings: &mut Findings) {
    if !rules.is_set() {
        return;
    }
    let window = rules.at("stabilizationWindowSeconds");
    match window.number() {
        Some(seconds) if seconds < 0 => {
            findings.invalid(&window, "must be greater than or equal to zero");
        }
        Some(seconds) if seconds > WINDOW_SECONDS_MAX => {
            let detail = format!("must be less than or equal to {WINDOW_SECONDS_MAX}");
            findings.invalid(&window, detail);
        }
        _ => {}
    }
    let select = rules.at("selectPolicy");
    let known = ["Disabled", "Max", "Min"];
    if select.is_set() && !known.contains(&select.text()) {
        findings.not_supported(&select, &known);
    }
    let policies = rules.at("policies");
    if policies.count() == 0 {
        findings.required(&policies, "must specify at least one Policy");
    }
    for policy in policies.items() {
        let kind = policy.at("type");
        let known = ["Percent", "Pods"];
        if !known.contains(&kind.text()) {
            findings.not_supported(&kind, &known);
        }
        let (value, period) = (policy.at("value"), policy.at("periodSeconds"));
        for place in [&value, &period] {
            let number = place.number().unwrap_or(0);
            if number <= 0 {
                let detail = "must be greater than zero";
                findings.push(FieldError::invalid(&place.path, number, detail));
            }
        }
        if period.number().is_some_and(|it| it > PERIOD_SECONDS_MAX) {
            let detail = format!("must be less than or equal to {PERIOD_SECONDS_MAX}");
            findings.invalid(&period, detail);
        }
    }
}
