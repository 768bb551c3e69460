//! Ingresses and network policies: hosts, paths, backends, ports and networks.
//!
//! Source: kubernetes/pkg/apis/networking/validation/validation.go.

use std::net::IpAddr;

use api::FieldError;
use api::validation::{is_dns_label, is_dns_subdomain};
use serde_json::Value;

use super::Strategy;
use super::addresses::{network, parse, parse_network};
use super::built_in::RULED;
use super::checks::{
    Findings, Place, Rules, dns_subdomain, is_port_name, judge, port, reference, required, selector,
};
use super::rules::Generation;

pub(super) const INGRESSES: Strategy = Strategy {
    validate: |object, _live| judge(object, INGRESS),
    ..COUNTED
};

pub(super) const INGRESS_CLASSES: Strategy = Strategy {
    validate: |object, _live| judge(object, INGRESS_CLASS),
    ..COUNTED
};

pub(super) const NETWORK_POLICIES: Strategy = Strategy {
    validate: |object, _live| judge(object, NETWORK_POLICY),
    ..COUNTED
};

const COUNTED: Strategy = Strategy {
    generation: Generation::Counted,
    ..RULED
};

const INGRESS: &Rules = &[
    ("spec", |spec, findings| {
        if spec.at("rules").count() == 0 && !spec.at("defaultBackend").is_set() {
            let detail = "either `defaultBackend` or `rules` must be specified";
            findings.invalid(spec, detail);
        }
    }),
    ("spec.defaultBackend", backend),
    ("spec.ingressClassName", class_name),
    ("spec.rules[].host", |host, findings| {
        if host.text().is_empty() {
            return;
        }
        if parse(host.text()).is_some() {
            findings.invalid(host, "must be a DNS name, not an IP address");
        }
        host_name(host, findings);
    }),
    ("spec.rules[].http", |http, findings| {
        if http.is_set() {
            required(&http.at("paths"), findings);
        }
    }),
    ("spec.rules[].http.paths[]", path),
    ("spec.tls[].hosts[]", host_name),
    ("spec.tls[].secretName", dns_subdomain),
];

const INGRESS_CLASS: &Rules = &[
    ("spec.controller", domain_prefixed_path),
    ("spec.parameters.apiGroup", |place, findings| {
        if place.is_set() {
            findings.text(place, is_dns_subdomain);
        }
    }),
    ("spec.parameters", |parameters, findings| {
        if parameters.is_set() {
            reference(parameters, findings);
        }
    }),
    ("spec.parameters", parameters),
];

const NETWORK_POLICY: &Rules = &[
    ("spec.podSelector", selector),
    ("spec.ingress[].ports[]", policy_port),
    ("spec.ingress[].from[]", peer),
    ("spec.egress[].ports[]", policy_port),
    ("spec.egress[].to[]", peer),
    ("spec.policyTypes", |types, findings| {
        if types.count() > 2 {
            findings.invalid(types, "may not specify more than two policyTypes");
        }
    }),
];

/// What no path has in it, and what none ends with.
const NOT_IN_PATHS: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
const NOT_AT_THE_END: [&str; 2] = ["/..", "/."];
const CONTROLLER_BYTES_MAX: usize = 250;
const WILDCARD: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// A DNS name, whose first label may be an asterisk.
fn host_name(host: &Place<'_>, findings: &mut Findings) {
    let text = host.text();
    if !text.contains('*') {
        findings.text(host, is_dns_subdomain);
        return;
    }
    let is_wildcard = text
        .strip_prefix("*.")
        .is_some_and(|rest| is_dns_subdomain(rest).is_empty());
    if !is_wildcard {
        findings.invalid(host, WILDCARD);
    }
}

fn class_name(place: &Place<'_>, findings: &mut Findings) {
    if place.is_set() {
        findings.text(place, is_dns_subdomain);
    }
}

fn path(entry: &Place<'_>, findings: &mut Findings) {
    let path = entry.at("path");
    let text = path.text();
    let kind = entry.at("pathType");
    let is_literal = matches!(kind.text(), "Exact" | "Prefix");
    match kind.text() {
        "Exact" | "Prefix" | "ImplementationSpecific" => {}
        "" if !kind.is_set() => {
            findings.required(&kind, "pathType must be specified");
            return;
        }
        _ => {
            findings.not_supported(&kind, &["Exact", "ImplementationSpecific", "Prefix"]);
        }
    }
    let is_asked = is_literal || (kind.text() == "ImplementationSpecific" && !text.is_empty());
    if is_asked && !text.starts_with('/') {
        findings.push(FieldError::invalid(
            &path.path,
            text,
            "must be an absolute path",
        ));
    }
    if is_literal {
        for part in NOT_IN_PATHS.iter().filter(|it| text.contains(**it)) {
            findings.invalid(&path, format!("must not contain '{part}'"));
        }
        for end in NOT_AT_THE_END.iter().filter(|it| text.ends_with(**it)) {
            findings.invalid(&path, format!("cannot end with '{end}'"));
        }
    }
    backend(&entry.at("backend"), findings);
}

/// Where requests go: to a service, or to an object of another kind.
fn backend(backend: &Place<'_>, findings: &mut Findings) {
    if !backend.is_set() {
        return;
    }
    let (service, resource) = (backend.at("service"), backend.at("resource"));
    let mut wrong = |detail| findings.push(FieldError::invalid(&backend.path, "", detail));
    match (service.is_set(), resource.is_set()) {
        (true, true) => wrong("cannot set both resource and service backends"),
        (false, false) => wrong("resource or service backend is required"),
        (false, true) => local_reference(&resource, findings),
        (true, false) => service_backend(backend, &service, findings),
    }
}

fn service_backend(backend: &Place<'_>, service: &Place<'_>, findings: &mut Findings) {
    findings.needed(&service.at("name"), is_dns_label);
    let (named, number) = (
        service.within(&["port", "name"]),
        service.within(&["port", "number"]),
    );
    match (
        !named.text().is_empty(),
        number.number().is_some_and(|it| it != 0),
    ) {
        (true, true) => {
            let detail = "cannot set both port name & port number";
            findings.push(FieldError::invalid(&backend.path, "", detail));
        }
        (true, false) => findings.text(&named, is_port_name),
        (false, true) => port(&number, findings),
        (false, false) => findings.required(backend, "port name or number is required"),
    }
}

/// An object of another kind, in the same namespace.
fn local_reference(resource: &Place<'_>, findings: &mut Findings) {
    let group = resource.at("apiGroup");
    if group.is_set() {
        findings.text(&group, is_dns_subdomain);
    }
    reference(resource, findings);
}

fn domain_prefixed_path(place: &Place<'_>, findings: &mut Findings) {
    let text = place.text();
    if text.len() > CONTROLLER_BYTES_MAX {
        findings.push(FieldError::too_long(&place.path, CONTROLLER_BYTES_MAX));
    }
    if text.is_empty() {
        findings.required(place, "");
        return;
    }
    let Some((domain, path)) = text
        .split_once('/')
        .filter(|(domain, path)| !domain.is_empty() && !path.is_empty())
    else {
        let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        findings.invalid(place, detail);
        return;
    };
    for detail in is_dns_subdomain(domain) {
        findings.push(FieldError::invalid(&place.path, domain, detail));
    }
    let known = |byte: u8| {
        byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(&byte) || byte == b'%'
    };
    if !path.bytes().all(known) {
        let detail =
            "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
        findings.push(FieldError::invalid(&place.path, path, detail));
    }
}

fn parameters(parameters: &Place<'_>, findings: &mut Findings) {
    let (scope, namespace) = (parameters.at("scope"), parameters.at("namespace"));
    match scope.text() {
        "Namespace" if namespace.is_set() => findings.text(&namespace, is_dns_label),
        "Namespace" => {
            findings.required(&namespace, "`parameters.scope` is set to 'Namespace'");
        }
        "Cluster" if namespace.is_set() => {
            findings.forbidden(&namespace, "`parameters.scope` is set to 'Cluster'");
        }
        "Cluster" => {}
        _ if scope.is_set() => findings.not_supported(&scope, &["Cluster", "Namespace"]),
        _ if parameters.is_set() => findings.required(&scope, ""),
        _ => {}
    }
}

fn policy_port(entry: &Place<'_>, findings: &mut Findings) {
    let (first, last) = (entry.at("port"), entry.at("endPort"));
    match first.value {
        Value::Null if last.is_set() => {
            findings.invalid(&last, "may not be specified when `port` is not specified");
        }
        Value::Null => {}
        Value::String(_) => {
            if last.is_set() {
                findings.invalid(&last, "may not be specified when `port` is non-numeric");
            }
            findings.text(&first, is_port_name);
        }
        _ => {
            port(&first, findings);
            if last.is_set() {
                if last.number() < first.number() {
                    let detail = "must be greater than or equal to `port`";
                    let told = first.value.clone();
                    findings.push(FieldError::invalid(&last.path, told, detail));
                }
                port(&last, findings);
            }
        }
    }
}

fn peer(peer: &Place<'_>, findings: &mut Findings) {
    let block = peer.at("ipBlock");
    let others = [peer.at("podSelector"), peer.at("namespaceSelector")];
    for other in &others {
        selector(other, findings);
    }
    if block.is_set() {
        networks(&block, findings);
    }
    let has_selector = others.iter().any(Place::is_set);
    if !block.is_set() && !has_selector {
        findings.required(peer, "must specify a peer");
    } else if block.is_set() && has_selector {
        findings.forbidden(peer, "may not specify both ipBlock and another peer");
    }
}

fn networks(block: &Place<'_>, findings: &mut Findings) {
    let whole = block.at("cidr");
    if whole.text().is_empty() {
        findings.required(&whole, "");
        return;
    }
    network(&whole, findings);
    let Some(outer) = parse_network(whole.text()) else {
        return;
    };
    for part in block.at("except").items() {
        network(&part, findings);
        let inner = parse_network(part.text());
        if inner.is_some_and(|inner| !is_part(inner, outer)) {
            findings.invalid(&part, "must be a strict subset of `cidr`");
        }
    }
}

/// Whether a network lies within a larger one.
fn is_part(inner: (IpAddr, u8), outer: (IpAddr, u8)) -> bool {
    let bits = |address: IpAddr| match address {
        IpAddr::V4(it) => (u128::from(it.to_bits()) << 96, true),
        IpAddr::V6(it) => (it.to_bits(), false),
    };
    let ((inner_bits, inner_is_v4), (outer_bits, outer_is_v4)) = (bits(inner.0), bits(outer.0));
    let shift = 128_u32.saturating_sub(u32::from(outer.1));
    let head = |bits: u128| bits.checked_shr(shift).unwrap_or(0);
    inner_is_v4 == outer_is_v4 && inner.1 > outer.1 && head(inner_bits) == head(outer_bits)
}
