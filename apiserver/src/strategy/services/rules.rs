//! What services and their endpoints must be.
//!
//! Source: kubernetes/pkg/apis/core/validation/validation.go (`validateService`, `ValidateEndpoints`),
//! kubernetes/pkg/apis/discovery/validation/validation.go.

use std::collections::HashSet;
use std::net::IpAddr;

use api::FieldError;
use api::validation::{is_dns_label, is_dns_subdomain};
use serde_json::json;

use super::super::addresses::{address, endpoint_address, fault, network, parse};
use super::super::checks::{
    Check, Findings, Place, Rules, dns_label, labels, one_of_if_any, port, port_or_name,
    qualified_name_if_any, required,
};

pub(super) const SERVICE: &Rules = &[
    ("spec", ports_and_name),
    ("spec.ports", ports),
    ("spec.selector", labels),
    ("spec", affinity),
    ("spec.ipFamilies", |families, findings| {
        for family in families.items() {
            one_of_if_any(&family, &["IPv4", "IPv6"], findings);
        }
        findings.unique(families.items());
    }),
    ("spec.clusterIPs", cluster_addresses),
    ("spec.externalIPs[]", |place, findings| {
        address(place, findings);
        endpoint_address(place, findings);
    }),
    ("spec", of_load_balancers),
    ("spec", traffic),
];

pub(super) const ENDPOINTS: &Rules = &[("subsets[]", |subset, findings| {
    let lists = ["addresses", "notReadyAddresses"].map(|field| subset.at(field));
    if lists.iter().all(|list| list.count() == 0) {
        let detail = "must specify `addresses` or `notReadyAddresses`";
        findings.required(subset, detail);
    }
    for entry in lists.iter().flat_map(Place::items) {
        let ip = entry.at("ip");
        address(&ip, findings);
        dns_label(&entry.at("hostname"), findings);
        if entry.at("nodeName").is_set() {
            findings.text(&entry.at("nodeName"), is_dns_subdomain);
        }
        sloppy_address(&ip, findings);
        endpoint_address(&ip, findings);
    }
    let ports = subset.at("ports");
    for entry in ports.items() {
        any_port(&entry, ports.count() > 1, findings);
    }
})];

pub(super) const ENDPOINT_SLICE: &Rules = &[
    ("addressType", required),
    ("", |slice, findings| {
        let check = match slice.at("addressType").text() {
            "IPv4" => of_v4,
            "IPv6" => of_v6,
            _ => return,
        };
        for endpoint in slice.at("endpoints").items() {
            slice_addresses(&endpoint.at("addresses"), check, findings);
        }
    }),
    ("endpoints[].addresses", |addresses, findings| {
        if addresses.count() == 0 {
            findings.required(addresses, "must contain at least 1 address");
        } else if addresses.count() > ADDRESSES_MAX {
            let count = addresses.count();
            findings.push(FieldError::too_many(&addresses.path, count, ADDRESSES_MAX));
        }
    }),
    ("endpoints[].nodeName", |place, findings| {
        if place.is_set() {
            findings.text(place, is_dns_subdomain);
        }
    }),
    ("endpoints[].hostname", |place, findings| {
        if place.is_set() {
            findings.text(place, is_dns_label);
        }
    }),
    ("ports[].name", dns_label),
    ("ports", |ports, findings| {
        let mut seen = HashSet::new();
        for name in ports.items().map(|it| it.at("name")) {
            if !seen.insert(name.text()) {
                findings.push(FieldError::duplicate(&name.path, name.text()));
            }
        }
    }),
    ("ports[].appProtocol", qualified_name_if_any),
];

const ADDRESSES_MAX: usize = 100;
const AFFINITY_SECONDS_MAX: i64 = 86_400;

fn is_external_name(spec: &Place<'_>) -> bool {
    spec.at("type").text() == "ExternalName"
}

fn is_headless(spec: &Place<'_>) -> bool {
    spec.at("clusterIP").text() == "None"
}

fn is_load_balancer(spec: &Place<'_>) -> bool {
    spec.at("type").text() == "LoadBalancer"
}

fn ports_and_name(spec: &Place<'_>, findings: &mut Findings) {
    if spec.at("ports").count() == 0 && !is_external_name(spec) && !is_headless(spec) {
        findings.required(&spec.at("ports"), "");
    }
    if is_headless(spec) && matches!(spec.at("type").text(), "LoadBalancer" | "NodePort") {
        let path = spec.at("clusterIPs").path.index(0);
        let kind = spec.at("type").text();
        let detail = format!("may not be set to 'None' for {kind} services");
        findings.push(FieldError::invalid(&path, "None", detail));
    }
    if !is_external_name(spec) {
        return;
    }
    for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        let place = spec.at(field);
        if place.count() > 0 || !place.text().is_empty() {
            findings.forbidden(&place, "may not be set for ExternalName services");
        }
    }
    let name = spec.at("externalName");
    let text = name.text();
    match text.strip_suffix('.').unwrap_or(text) {
        "" => findings.required(&name, ""),
        text => {
            for detail in is_dns_subdomain(text) {
                findings.push(FieldError::invalid(&name.path, text, detail));
            }
        }
    }
}

/// A port of a service or of its endpoints. One of several has a name.
fn any_port(entry: &Place<'_>, is_one_of_several: bool, findings: &mut Findings) {
    let name = entry.at("name");
    if is_one_of_several && name.text().is_empty() {
        findings.required(&name, "");
    }
    dns_label(&name, findings);
    port(&entry.at("port"), findings);
    required(&entry.at("protocol"), findings);
    qualified_name_if_any(&entry.at("appProtocol"), findings);
}

fn ports(ports: &Place<'_>, findings: &mut Findings) {
    let (mut seen, mut seen_nodes) = (HashSet::new(), HashSet::new());
    for entry in ports.items() {
        any_port(&entry, ports.count() > 1, findings);
        port_or_name(&entry.at("targetPort"), findings);
        let protocol = entry.at("protocol").text();
        let number = entry.at("port").number().unwrap_or(0);
        if !seen.insert((protocol, number)) {
            let key = json!({"protocol": protocol, "port": number});
            findings.push(FieldError::duplicate(&entry.path, key));
        }
        let node = entry.at("nodePort");
        if let Some(number) = node.number().filter(|it| *it != 0)
            && !seen_nodes.insert((protocol, number))
        {
            findings.duplicate(&node);
        }
    }
    findings.unique(ports.items().map(|it| it.at("name")));
}

fn affinity(spec: &Place<'_>, findings: &mut Findings) {
    let config = spec.at("sessionAffinityConfig");
    match spec.at("sessionAffinity").text() {
        "" => findings.required(&spec.at("sessionAffinity"), ""),
        "ClientIP" => {
            let client = config.at("clientIP");
            let seconds = client.at("timeoutSeconds");
            if !config.is_set() {
                let detail = "when session affinity type is ClientIP";
                findings.required(&config, detail);
            } else if !client.is_set() {
                findings.required(&client, "when session affinity type is ClientIP");
            } else if !seconds.is_set() {
                findings.required(&seconds, "when session affinity type is ClientIP");
            } else if !(1..=AFFINITY_SECONDS_MAX).contains(&seconds.number().unwrap_or(0)) {
                let detail = format!("must be greater than 0 and less than {AFFINITY_SECONDS_MAX}");
                findings.invalid(&seconds, detail);
            }
        }
        "None" if config.is_set() => {
            findings.forbidden(&config, "must not be set when session affinity is None");
        }
        _ => {}
    }
}

fn cluster_addresses(addresses: &Place<'_>, findings: &mut Findings) {
    for (index, place) in addresses.items().enumerate() {
        if index == 0 && place.text() == "None" {
            if addresses.count() > 1 {
                findings.invalid(addresses, "'None' must be the first and only value");
            }
            continue;
        }
        address(&place, findings);
    }
    if addresses.count() > 2 {
        findings.invalid(addresses, "may only hold up to 2 values");
    }
}

/// What only a load balancer has.
fn of_load_balancers(spec: &Place<'_>, findings: &mut Findings) {
    const ONLY: &str = "may only be used when `type` is 'LoadBalancer'";
    let ranges = Place {
        value: spec.at("loadBalancerSourceRanges").value,
        // Kubernetes calls it so.
        path: spec.path.child("LoadBalancerSourceRanges"),
    };
    if ranges.count() > 0 && !is_load_balancer(spec) {
        findings.forbidden(&ranges, ONLY);
    }
    ranges.items().for_each(|range| network(&range, findings));
    for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
        let place = spec.at(field);
        if place.is_set() && !is_load_balancer(spec) {
            findings.forbidden(&place, ONLY);
        }
    }
    if is_load_balancer(spec) {
        qualified_name_if_any(&spec.at("loadBalancerClass"), findings);
    }
    if spec.at("type").text() == "ClusterIP" {
        for entry in spec.at("ports").items() {
            let node = entry.at("nodePort");
            if node.number().is_some_and(|it| it != 0) {
                findings.forbidden(&node, "may not be used when `type` is 'ClusterIP'");
            }
        }
    }
}

fn traffic(spec: &Place<'_>, findings: &mut Findings) {
    let policy = spec.at("externalTrafficPolicy");
    let kind = spec.at("type").text();
    let is_exposed = matches!(kind, "LoadBalancer" | "NodePort")
        || kind == "ClusterIP" && spec.at("externalIPs").count() > 0;
    if is_exposed {
        required(&policy, findings);
    } else if !policy.text().is_empty() {
        let detail = "may only be set for externally-accessible services";
        findings.invalid(&policy, detail);
    }
    let health = spec.at("healthCheckNodePort");
    let has_health = is_load_balancer(spec) && policy.text() == "Local";
    if !has_health && health.number().is_some_and(|it| it != 0) {
        let detail =
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        findings.invalid(&health, detail);
    }
}

/// What is no address is told twice: the older words stay too.
fn sloppy_address(place: &Place<'_>, findings: &mut Findings) {
    if parse(place.text()).is_none() {
        let detail = "must be a valid IP address";
        findings.push(FieldError::invalid(&place.path, place.text(), detail));
    }
}

fn slice_addresses(addresses: &Place<'_>, check: Check, findings: &mut Findings) {
    for place in addresses.items() {
        address(&place, findings);
        if fault(place.text()).is_none() {
            // Kubernetes tells the family of the list.
            let told = Place {
                value: place.value,
                path: addresses.path.clone(),
            };
            check(&told, findings);
            endpoint_address(&place, findings);
        }
    }
}

fn of_v4(place: &Place<'_>, findings: &mut Findings) {
    if place.text().parse::<IpAddr>().is_ok_and(|it| !it.is_ipv4()) {
        findings.invalid(place, "must be an IPv4 address");
    }
}

fn of_v6(place: &Place<'_>, findings: &mut Findings) {
    if place.text().parse::<IpAddr>().is_ok_and(|it| !it.is_ipv6()) {
        findings.invalid(place, "must be an IPv6 address");
    }
}
