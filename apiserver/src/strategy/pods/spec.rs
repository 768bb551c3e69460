//! What a pod must be, wherever it is written: in a Pod, or in the template of a workload.
//!
//! Source: kubernetes/pkg/apis/core/validation/validation.go (`ValidatePodSpec`).

use api::FieldError;

use super::super::addresses::address;
use super::super::checks::{
    Findings, Place, Rules, dns_label, dns_subdomain, labels, one_of, qualified_name,
};
use super::containers;
use super::scheduling;
use super::security::{self, is_segment};
use super::volumes;

const SPEC: &Rules = &[
    ("restartPolicy", |place, findings| {
        one_of(place, &["Always", "OnFailure", "Never"], findings);
    }),
    ("dnsPolicy", |place, findings| {
        let known = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
        one_of(place, &known, findings);
    }),
    ("nodeSelector", labels),
    ("serviceAccountName", dns_subdomain),
    ("nodeName", dns_subdomain),
    ("priorityClassName", dns_subdomain),
    ("runtimeClassName", dns_subdomain),
    ("hostname", dns_label),
    ("subdomain", dns_label),
    ("activeDeadlineSeconds", |place, findings| {
        findings.between(place, 1, i64::from(i32::MAX));
    }),
    ("hostAliases[].ip", address),
    ("hostAliases[].hostnames[]", |place, findings| {
        findings.text(place, api::validation::is_dns_subdomain);
    }),
    ("readinessGates[].conditionType", qualified_name),
    ("schedulingGates", gates),
    ("os", operating_system),
    ("", dns),
    ("securityContext", security::judge),
    ("overhead", |place, findings| {
        containers::resource_list(&place.path.child("limits"), place, findings);
    }),
];

const DNS_SERVERS_MAX: usize = 3;
const DNS_SEARCHES_MAX: usize = 32;
const SEARCH_BYTES_MAX: usize = 253;
const SEARCH: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
/// Whose the spec is: some rules are of running pods alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Of {
    Pod,
    Template,
}

/// What is wrong with the spec of a pod.
pub(in super::super) fn judge(place: &Place<'_>, of: Of, findings: &mut Findings) {
    if !place.value.is_object() {
        return;
    }
    findings.judge(place, SPEC);
    scheduling::judge(place, findings);
    let volumes = volumes::judge(&place.at("volumes"), findings);
    containers::judge(place, &volumes, findings);
    host_network(place, of, findings);
    if of == Of::Pod {
        let node = place.at("nodeName");
        if place.at("schedulingGates").count() > 0 && !node.text().is_empty() {
            let detail = "cannot be set until all schedulingGates have been cleared";
            findings.forbidden(&node, detail);
        }
    }
}

/// What is wrong with a template of pods.
pub(in super::super) fn judge_template(template: &Place<'_>, findings: &mut Findings) {
    let metadata = template.at("metadata");
    // Kubernetes leaves `metadata` out of the path.
    let told = Place {
        value: metadata.at("labels").value,
        path: template.path.child("labels"),
    };
    labels(&told, findings);
    let annotations = metadata.at("annotations");
    let path = template.path.child("annotations");
    if let Some(annotations) = annotations.value.as_object() {
        findings.extend(api::validation::validate_annotations(annotations, &path));
    }
    judge(&template.at("spec"), Of::Template, findings);
    if template.within(&["spec", "ephemeralContainers"]).count() > 0 {
        findings.forbidden(
            &template.within(&["spec", "ephemeralContainers"]),
            "ephemeral containers not allowed in pod template",
        );
    }
}

/// The template of a workload whose pods never end.
pub(in super::super) fn judge_lasting(template: &Place<'_>, kind: &str, findings: &mut Findings) {
    judge_template(template, findings);
    let spec = template.at("spec");
    let policy = spec.at("restartPolicy");
    if policy.is_set() && policy.text() != "Always" {
        findings.not_supported(&policy, &["Always"]);
    }
    let deadline = spec.at("activeDeadlineSeconds");
    if deadline.is_set() {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        findings.push(FieldError::forbidden(&deadline.path, detail));
    }
}

fn gates(gates: &Place<'_>, findings: &mut Findings) {
    let names = gates.items().map(|gate| Place {
        value: gate.at("name").value,
        path: gate.path,
    });
    let names: Vec<Place<'_>> = names.collect();
    for name in &names {
        qualified_name(name, findings);
    }
    findings.unique(names);
}

fn operating_system(os: &Place<'_>, findings: &mut Findings) {
    if !os.is_set() {
        return;
    }
    let name = os.at("name");
    match name.text() {
        "" => findings.required(&name, ""),
        "linux" | "windows" => {}
        _ => {
            let told = Place {
                value: name.value,
                path: os.path.clone(),
            };
            findings.not_supported(&told, &["linux", "windows"]);
        }
    }
}

fn dns(spec: &Place<'_>, findings: &mut Findings) {
    let config = spec.at("dnsConfig");
    let servers = config.at("nameservers");
    if spec.at("dnsPolicy").text() == "None" {
        if !config.is_set() {
            findings.required(&config, "must provide `dnsConfig` when `dnsPolicy` is None");
            return;
        }
        if servers.count() == 0 {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            findings.required(&servers, detail);
            return;
        }
    }
    if servers.count() > DNS_SERVERS_MAX {
        let detail = format!("must not have more than {DNS_SERVERS_MAX} nameservers");
        findings.invalid(&servers, detail);
    }
    servers.items().for_each(|it| address(&it, findings));
    let searches = config.at("searches");
    if searches.count() > DNS_SEARCHES_MAX {
        let detail = format!("must not have more than {DNS_SEARCHES_MAX} search paths");
        findings.invalid(&searches, detail);
    }
    for search in searches.items() {
        let text = search.text();
        if text != "." {
            let text = text.strip_suffix('.').unwrap_or(text);
            if text.len() > SEARCH_BYTES_MAX {
                let detail = format!("must be no more than {SEARCH_BYTES_MAX} characters");
                findings.push(FieldError::invalid(&search.path, text, detail));
            }
            if !is_search(text) {
                findings.push(FieldError::invalid(&search.path, text, SEARCH));
            }
        }
    }
    for option in config.at("options").items() {
        if option.at("name").text().is_empty() {
            findings.required(&option, "must not be empty");
        }
    }
}

/// Whether a text has the form of a DNS subdomain in which also underscores are allowed.
fn is_search(text: &str) -> bool {
    text.split('.')
        .all(|label| is_segment(label.strip_prefix('_').unwrap_or(label)))
}

/// In the network of the host a container has the host's ports. A template may leave them out.
fn host_network(spec: &Place<'_>, of: Of, findings: &mut Findings) {
    if spec.at("hostNetwork").value != true {
        return;
    }
    for container in spec.at("containers").items() {
        for port in container.at("ports").items() {
            let host = port.at("hostPort");
            let number = host.number().unwrap_or(0);
            let is_asked = of == Of::Pod || number != 0;
            if is_asked && number != port.at("containerPort").number().unwrap_or(0) {
                let detail = "must match `containerPort` when `hostNetwork` is true";
                findings.push(FieldError::invalid(&host.path, number, detail));
            }
        }
    }
}
