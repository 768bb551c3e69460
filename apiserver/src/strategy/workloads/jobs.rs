//! What Jobs and CronJobs must be.
//!
//! Source: kubernetes/pkg/apis/batch/validation/validation.go.

use std::collections::HashSet;

use api::{FieldError, FieldErrorKind};

use super::super::checks::{
    Findings, Place, Rules, not_negative, one_of_if_any, qualified_name, required,
};
use super::super::pods::spec;

mod schedule;

pub(super) const JOB: &Rules = &[
    ("parallelism", not_negative),
    ("completions", not_negative),
    ("activeDeadlineSeconds", not_negative),
    ("backoffLimit", not_negative),
    ("ttlSecondsAfterFinished", not_negative),
    ("backoffLimitPerIndex", not_negative),
    ("maxFailedIndexes", not_negative),
    ("", indexes),
    ("podFailurePolicy.rules[]", failure_rule),
    ("", failure_containers),
    ("", replacement),
    ("template", |template, findings| {
        spec::judge_template(template, findings);
    }),
    ("", ends),
];

pub(super) const CRON_JOB: &Rules = &[
    ("spec.schedule", required),
    ("spec.schedule", schedule::check),
    ("spec.timeZone", schedule::check_zone),
    ("spec.startingDeadlineSeconds", not_negative),
    ("spec.successfulJobsHistoryLimit", not_negative),
    ("spec.failedJobsHistoryLimit", not_negative),
    ("spec.jobTemplate.spec", |job, findings| {
        findings.judge(job, JOB);
        let selector = job.at("selector");
        if selector.is_set() {
            findings.invalid(&selector, "`selector` will be auto-generated");
        }
        let manual = job.at("manualSelector");
        if manual.value == true {
            findings.not_supported(&manual, &["nil", "false"]);
        }
    }),
];

const INDEXED_PARALLELISM_MAX: i64 = 100_000;
const EXIT_CODES_MAX: usize = 255;

fn indexes(job: &Place<'_>, findings: &mut Findings) {
    let (completions, parallelism) = (job.at("completions"), job.at("parallelism"));
    let (per_index, failed) = (job.at("backoffLimitPerIndex"), job.at("maxFailedIndexes"));
    if failed.is_set() && !per_index.is_set() {
        findings.required(&per_index, "when maxFailedIndexes is specified");
    }
    if job.at("completionMode").text() != "Indexed" {
        for place in [&per_index, &failed] {
            if place.is_set() {
                findings.invalid(place, "requires indexed completion mode");
            }
        }
        let policy = job.at("successPolicy");
        if policy.is_set() {
            findings.invalid(&policy, "requires indexed completion mode");
        }
        return;
    }
    if !completions.is_set() {
        findings.required(&completions, "when completion mode is Indexed");
    }
    if parallelism
        .number()
        .is_some_and(|it| it > INDEXED_PARALLELISM_MAX)
    {
        let detail = format!(
            "must be less than or equal to {INDEXED_PARALLELISM_MAX} when completion mode is Indexed"
        );
        findings.invalid(&parallelism, detail);
    }
    if failed.number() > completions.number() && completions.is_set() {
        findings.invalid(&failed, "must be less than or equal to completions");
    }
}

fn failure_rule(rule: &Place<'_>, findings: &mut Findings) {
    let (codes, conditions) = (rule.at("onExitCodes"), rule.at("onPodConditions"));
    match (codes.is_set(), conditions.count() > 0) {
        (true, true) => {
            let detail = "specifying both OnExitCodes and OnPodConditions is not supported";
            findings.push(FieldError::new(
                FieldErrorKind::Invalid,
                &rule.path,
                None,
                detail,
            ));
        }
        (false, false) => {
            let detail = "specifying one of OnExitCodes and OnPodConditions is required";
            findings.push(FieldError::new(
                FieldErrorKind::Invalid,
                &rule.path,
                None,
                detail,
            ));
        }
        _ => {}
    }
    let action = rule.at("action");
    if action.text().is_empty() {
        let detail = "valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]";
        findings.required(&action, detail);
    }
    for condition in conditions.items() {
        qualified_name(&condition.at("type"), findings);
        let status = condition.at("status");
        let known = ["False", "True", "Unknown"];
        if status.text().is_empty() {
            let detail = "valid values: [\"False\" \"True\" \"Unknown\"]";
            findings.required(&status, detail);
        } else if !known.contains(&status.text()) {
            findings.not_supported(&status, &known);
        }
    }
    if !codes.is_set() {
        return;
    }
    let operator = codes.at("operator");
    if operator.text().is_empty() {
        findings.required(&operator, "valid values: [\"In\" \"NotIn\"]");
    }
    let values = codes.at("values");
    if values.count() == 0 {
        findings.invalid(&values, "at least one value is required");
    } else if values.count() > EXIT_CODES_MAX {
        findings.push(FieldError::too_many(
            &values.path,
            values.count(),
            EXIT_CODES_MAX,
        ));
    }
    let numbers: Vec<i64> = values.items().filter_map(|it| it.number()).collect();
    if operator.text() == "In" {
        for value in values.items().filter(|it| it.number() == Some(0)) {
            findings.invalid(&value, "must not be 0 for the In operator");
        }
    }
    findings.unique(values.items());
    if !numbers.is_sorted() {
        findings.invalid(&values, "must be ordered");
    }
}

/// The rules for failures name containers of the template.
fn failure_containers(job: &Place<'_>, findings: &mut Findings) {
    let pod = job.within(&["template", "spec"]);
    let lists = ["containers", "initContainers"];
    let names: HashSet<&str> = lists
        .iter()
        .flat_map(|list| {
            pod.at(list)
                .items()
                .map(|it| it.at("name").text())
                .collect::<Vec<_>>()
        })
        .collect();
    for rule in job.within(&["podFailurePolicy", "rules"]).items() {
        let name = rule.within(&["onExitCodes", "containerName"]);
        if name.is_set() && !names.contains(name.text()) {
            let detail = "must be one of the container or initContainer names in the pod template";
            findings.invalid(&name, detail);
        }
    }
}

fn replacement(job: &Place<'_>, findings: &mut Findings) {
    let policy = job.at("podReplacementPolicy");
    if job.at("podFailurePolicy").is_set() {
        one_of_if_any(&policy, &["Failed"], findings);
    }
}

/// The pods of a job come to an end.
fn ends(job: &Place<'_>, findings: &mut Findings) {
    let policy = job.within(&["template", "spec", "restartPolicy"]);
    match policy.text() {
        "" | "Always" => {
            findings.required(&policy, "valid values: \"OnFailure\", \"Never\"");
        }
        "OnFailure" if job.at("podFailurePolicy").is_set() => {
            let detail = "only \"Never\" is supported when podFailurePolicy is specified";
            findings.invalid(&policy, detail);
        }
        "OnFailure" | "Never" => {}
        _ => findings.not_supported(&policy, &["OnFailure", "Never"]),
    }
}
