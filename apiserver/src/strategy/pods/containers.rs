//! What containers must be: names, images, ports, variables, mounts, probes and resources.
//!
//! Source: kubernetes/pkg/apis/core/validation/validation.go (`validateContainers`, `validateInitContainers`).

use std::collections::HashSet;

use api::validation::{is_config_map_key, is_dns_label, is_dns_subdomain, is_qualified_name};
use api::{FieldError, FieldPath};
use serde_json::Value;

use super::super::checks::{
    Findings, Place, Rules, amount, descending_path, id, is_extended, is_native, is_standard,
    not_negative, one_of, one_of_if_any, port, port_if_any, port_name, port_or_name, required,
};
use super::security::seccomp;
use super::shown::{FIELDS, field_ref, resource_ref};

const CONTAINER: &Rules = &[
    ("name", |place, findings| {
        findings.needed(place, is_dns_label);
    }),
    ("image", required),
    ("terminationMessagePolicy", |place, findings| {
        one_of(place, &["File", "FallbackToLogsOnError"], findings);
    }),
    ("imagePullPolicy", required),
    ("restartPolicy", |place, findings| {
        one_of_if_any(place, &["Always", "Never", "OnFailure"], findings);
    }),
    ("ports[].name", port_name),
    ("ports[].containerPort", |place, findings| {
        match place.number() {
            None | Some(0) => findings.required(place, ""),
            Some(_) => port(place, findings),
        }
    }),
    ("ports[].hostPort", port_if_any),
    ("ports[].protocol", required),
    ("env[].name", required),
    ("env[].name", variable_name),
    ("env[]", variable),
    ("envFrom", sources),
    ("envFrom[].prefix", variable_name),
    ("envFrom[].configMapRef.name", object_name),
    ("envFrom[].secretRef.name", object_name),
    ("securityContext.runAsUser", id),
    ("securityContext.runAsGroup", id),
    ("securityContext.seccompProfile", seccomp),
    ("securityContext", privileges),
    ("resources", resources),
    ("volumeDevices[].name", required),
    ("volumeDevices[].devicePath", required),
];

const PROBE: &Rules = &[
    ("initialDelaySeconds", not_negative),
    ("timeoutSeconds", not_negative),
    ("periodSeconds", not_negative),
    ("successThreshold", not_negative),
    ("failureThreshold", not_negative),
];

/// What a hook or a probe can do.
const HANDLERS: &[(&str, &Rules)] = &[
    ("exec", &[("command", required)]),
    (
        "httpGet",
        &[
            ("path", required),
            ("port", port_or_name),
            ("httpHeaders", headers),
        ],
    ),
    ("tcpSocket", &[("port", port_or_name)]),
    ("grpc", &[("port", port)]),
    ("sleep", &[]),
];

const VARIABLE_NAME: &str = "a valid environment variable name must consist only of printable ASCII characters other than '='";
const HEADER_NAME: &str = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')";
const NO_SOURCE: &str = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
const NO_ENV_SOURCE: &str = "must specify one of: `configMapRef` or `secretRef`";
const NOT_WITHOUT_RESTART: &str = "may not be set for init containers without restartPolicy=Always";

/// What is wrong with the containers of a pod that has volumes of these names.
pub(super) fn judge(spec: &Place<'_>, volumes: &HashSet<&str>, findings: &mut Findings) {
    let grace = spec.at("terminationGracePeriodSeconds").number();
    // A negative one is one second.
    let grace = grace.map(|it| if it < 0 { 1 } else { it });
    let containers = spec.at("containers");
    if containers.count() == 0 {
        findings.required(&containers, "");
    }
    for container in containers.items() {
        common(&container, volumes, findings);
        lasting(&container, grace, findings);
    }
    let names = containers.items().map(|it| it.at("name"));
    findings.unique(names);
    host_ports(containers.items(), findings);
    let first = spec.at("initContainers");
    for container in first.items() {
        common(&container, volumes, findings);
        if container.at("restartPolicy").text() == "Always" {
            lasting(&container, grace, findings);
        } else {
            for field in [
                "lifecycle",
                "livenessProbe",
                "readinessProbe",
                "startupProbe",
            ] {
                let place = container.at(field);
                if place.is_set() {
                    findings.forbidden(&place, NOT_WITHOUT_RESTART);
                }
            }
        }
        host_ports([container], findings);
    }
    let taken: HashSet<&str> = containers.items().map(|it| it.at("name").text()).collect();
    let (double, fresh): (Vec<_>, Vec<_>) = first
        .items()
        .map(|it| it.at("name"))
        .partition(|name| taken.contains(name.text()));
    for name in &double {
        findings.duplicate(name);
    }
    findings.unique(fresh);
}

/// What every container must be.
fn common(container: &Place<'_>, volumes: &HashSet<&str>, findings: &mut Findings) {
    findings.judge(container, CONTAINER);
    let names: Vec<_> = container
        .at("ports")
        .items()
        .map(|it| it.at("name"))
        .collect();
    findings.unique(names);
    mounts(container, volumes, findings);
}

/// What only containers have that go on: hooks and probes.
fn lasting(container: &Place<'_>, grace: Option<i64>, findings: &mut Findings) {
    for hook in ["postStart", "preStop"] {
        let hook = container.within(&["lifecycle", hook]);
        if hook.is_set() {
            handler(&hook, grace, findings);
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = container.at(name);
        if !probe.is_set() {
            continue;
        }
        handler(&probe, grace, findings);
        findings.judge(&probe, PROBE);
        let successes = probe.at("successThreshold");
        if name != "readinessProbe" && successes.number().is_some_and(|it| it != 1) {
            findings.invalid(&successes, "must be 1");
        }
        let period = probe.at("terminationGracePeriodSeconds");
        if name == "readinessProbe" && period.is_set() {
            findings.invalid(&period, "must not be set for readinessProbes");
        } else if period.number().is_some_and(|it| it <= 0) {
            findings.invalid(&period, "must be greater than 0");
        }
    }
}

fn handler(place: &Place<'_>, grace: Option<i64>, findings: &mut Findings) {
    let mut is_set = false;
    for (name, rules) in HANDLERS {
        let action = place.at(name);
        if !action.is_set() {
            continue;
        }
        if is_set {
            findings.forbidden(&action, "may not specify more than 1 handler type");
            continue;
        }
        is_set = true;
        findings.judge(&action, rules);
        if *name == "sleep" {
            sleep(&action, grace, findings);
        }
    }
    if !is_set {
        findings.required(place, "must specify a handler type");
    }
}

fn sleep(action: &Place<'_>, grace: Option<i64>, findings: &mut Findings) {
    let seconds = action.at("seconds").number().unwrap_or(0);
    if let Some(grace) = grace
        && !(0..=grace).contains(&seconds)
    {
        let detail =
            format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        findings.push(FieldError::invalid(&action.path, seconds, detail));
    }
}

fn headers(headers: &Place<'_>, findings: &mut Findings) {
    for header in headers.items() {
        let name = header.at("name").text();
        let known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if name.is_empty() || !name.bytes().all(known) {
            findings.push(FieldError::invalid(&headers.path, name, HEADER_NAME));
        }
    }
}

fn host_ports<'a>(containers: impl IntoIterator<Item = Place<'a>>, findings: &mut Findings) {
    let mut seen = HashSet::new();
    for container in containers {
        for port in container.at("ports").items() {
            let host = port.at("hostPort");
            let Some(number) = host.number().filter(|it| *it != 0) else {
                continue;
            };
            let (protocol, address) = (port.at("protocol").text(), port.at("hostIP").text());
            let key = format!("{protocol}/{address}/{number}");
            if seen.contains(&key) {
                findings.push(FieldError::duplicate(&host.path, key));
            } else {
                seen.insert(key);
            }
        }
    }
}

fn variable_name(place: &Place<'_>, findings: &mut Findings) {
    let known = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'=';
    if !place.text().bytes().all(known) {
        findings.invalid(place, VARIABLE_NAME);
    }
}

/// Where a variable has its value from.
fn variable(variable: &Place<'_>, findings: &mut Findings) {
    let from = variable.at("valueFrom");
    if !from.is_set() {
        return;
    }
    let names = [
        "fieldRef",
        "resourceFieldRef",
        "configMapKeyRef",
        "secretKeyRef",
        "fileKeyRef",
    ];
    let count = names.iter().filter(|it| from.at(it).is_set()).count();
    field_ref(&from.at("fieldRef"), &FIELDS, findings);
    resource_ref(&from.at("resourceFieldRef"), None, findings);
    for name in ["configMapKeyRef", "secretKeyRef"] {
        key_ref(&from.at(name), findings);
    }
    let detail = if count == 0 {
        NO_SOURCE
    } else if !variable.at("value").text().is_empty() {
        "may not be specified when `value` is not empty"
    } else if count > 1 {
        "may not have more than one field specified at a time"
    } else {
        return;
    };
    findings.push(FieldError::invalid(&from.path, "", detail));
}

fn key_ref(place: &Place<'_>, findings: &mut Findings) {
    if !place.is_set() {
        return;
    }
    findings.text(&place.at("name"), is_dns_subdomain);
    findings.needed(&place.at("key"), is_config_map_key);
}

fn sources(sources: &Place<'_>, findings: &mut Findings) {
    for source in sources.items() {
        let names = ["configMapRef", "secretRef"];
        let detail = match names.iter().filter(|it| source.at(it).is_set()).count() {
            0 => NO_ENV_SOURCE,
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        findings.push(FieldError::invalid(&sources.path, "", detail));
    }
}

fn object_name(place: &Place<'_>, findings: &mut Findings) {
    findings.needed(place, is_dns_subdomain);
}

fn privileges(context: &Place<'_>, findings: &mut Findings) {
    if context.at("allowPrivilegeEscalation").value != false {
        return;
    }
    if context.at("privileged").value == true {
        let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        findings.invalid(context, detail);
    }
    let added = context.within(&["capabilities", "add"]);
    if added.items().any(|it| it.text() == "CAP_SYS_ADMIN") {
        let detail =
            "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
        findings.invalid(context, detail);
    }
}

fn mounts(container: &Place<'_>, volumes: &HashSet<&str>, findings: &mut Findings) {
    let mounts = container.at("volumeMounts");
    let mut paths: HashSet<&Value> = HashSet::new();
    for mount in mounts.items() {
        let (name, path) = (mount.at("name"), mount.at("mountPath"));
        required(&name, findings);
        if !volumes.contains(name.text()) {
            findings.push(FieldError::not_found(&name.path, name.text()));
        }
        required(&path, findings);
        if !paths.insert(path.value) {
            findings.invalid(&path, "must be unique");
        }
        // Kubernetes tells these of the list, not of its item.
        let told = |field: &str| Place {
            value: mount.at(field).value,
            path: mounts.path.child(field),
        };
        descending_path(&told("subPath"), findings);
        descending_path(&told("subPathExpr"), findings);
        if !told("subPath").text().is_empty() && !told("subPathExpr").text().is_empty() {
            let detail = "subPathExpr and subPath are mutually exclusive";
            findings.invalid(&mount.at("subPathExpr"), detail);
        }
        propagation(container, &told("mountPropagation"), findings);
    }
}

fn propagation(container: &Place<'_>, propagation: &Place<'_>, findings: &mut Findings) {
    let known = ["Bidirectional", "HostToContainer", "None"];
    if propagation.is_set() && !known.contains(&propagation.text()) {
        findings.not_supported(propagation, &known);
    }
    let is_privileged = container.within(&["securityContext", "privileged"]).value == true;
    if propagation.text() == "Bidirectional" && !is_privileged {
        let detail = "Bidirectional mount propagation is available only to privileged containers";
        findings.forbidden(propagation, detail);
    }
}

/// Requests and limits.
pub(in super::super) fn resources(place: &Place<'_>, findings: &mut Findings) {
    let (requests, limits) = (place.at("requests"), place.at("limits"));
    resource_list(&limits.path, &limits, findings);
    resource_list(&requests.path, &requests, findings);
    for (name, request) in requests.members() {
        let limit = limits.at(name);
        let may_differ = is_native(name) && !name.starts_with("hugepages-");
        let (Some(asked), Some(most)) = (request.quantity(), limit.quantity()) else {
            if !may_differ {
                let detail = "Limit must be set for non overcommitable resources";
                findings.required(&limits, detail);
            }
            continue;
        };
        let detail = if asked != most && !may_differ {
            format!("must be equal to {name} limit of {most}")
        } else if asked > most {
            format!("must be less than or equal to {name} limit of {most}")
        } else {
            continue;
        };
        let asked = asked.to_string();
        findings.push(FieldError::invalid(&requests.path, asked, detail));
    }
}

/// Amounts of the resources that a container can have.
pub(in super::super) fn resource_list(path: &FieldPath, list: &Place<'_>, findings: &mut Findings) {
    for (name, place) in list.members() {
        let place = Place {
            value: place.value,
            path: path.key(name),
        };
        resource_name(name, &place, findings);
        amount(name, &place, findings);
    }
}

/// The name of a resource of containers.
pub(in super::super) fn resource_name(name: &str, place: &Place<'_>, findings: &mut Findings) {
    any_resource_name(name, place, findings);
    let is_known =
        ["cpu", "memory", "ephemeral-storage"].contains(&name) || name.starts_with("hugepages-");
    if !name.contains('/') && !is_known {
        let detail = "must be a standard resource for containers";
        findings.push(FieldError::invalid(&place.path, name, detail));
    }
    let is_vendors = is_extended(name) && is_qualified_name(&format!("requests.{name}")).is_empty();
    if !is_native(name) && !is_vendors {
        let detail = "doesn't follow extended resource name standard";
        findings.push(FieldError::invalid(&place.path, name, detail));
    }
}

/// The name of a resource of anything: one of Kubernetes' own, or with a prefix.
pub(in super::super) fn any_resource_name(name: &str, place: &Place<'_>, findings: &mut Findings) {
    let mut wrong = is_qualified_name(name);
    if wrong.is_empty() && !name.contains('/') && !is_standard(name) {
        wrong.push("must be a standard resource type or fully qualified".to_owned());
    }
    for detail in wrong {
        findings.push(FieldError::invalid(&place.path, name, detail));
    }
}
