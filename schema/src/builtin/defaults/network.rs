//! Services, endpoints, ingresses and policies. Addresses are given by the cluster, not here.
//!
//! Source: `kubernetes/pkg/apis/{core,networking,discovery}/v1/defaults.go`.

use serde_json::{Value, json};

use super::{Fields, child, child_if_any, list, set, set_filled, text};

/// How long a client keeps its backend: three hours.
const AFFINITY_SECONDS: i64 = 10_800;

pub(super) fn complete_service(fields: &mut Fields) {
    let spec = child(fields, "spec");
    set_filled(spec, "sessionAffinity", json!("None"));
    set_filled(spec, "type", json!("ClusterIP"));
    match text(spec, "sessionAffinity") {
        "ClientIP" => {
            let client = child(child(spec, "sessionAffinityConfig"), "clientIP");
            set(client, "timeoutSeconds", json!(AFFINITY_SECONDS));
        }
        "None" => {
            spec.remove("sessionAffinityConfig");
        }
        _ => {}
    }
    let service_type = text(spec, "type").to_owned();
    for port in list(spec, "ports") {
        set_filled(port, "protocol", json!("TCP"));
        let number = port.get("port").cloned().unwrap_or_default();
        let target = port.get("targetPort");
        if target.is_none_or(|it| it.is_null() || it == 0 || it == "") && !number.is_null() {
            port.insert("targetPort".to_owned(), number);
        }
    }
    if matches!(service_type.as_str(), "NodePort" | "LoadBalancer") {
        set_filled(spec, "externalTrafficPolicy", json!("Cluster"));
    }
    if service_type != "ExternalName" {
        set(spec, "internalTrafficPolicy", json!("Cluster"));
    }
    if service_type == "LoadBalancer" {
        set(spec, "allocateLoadBalancerNodePorts", json!(true));
    }
}

pub(super) fn complete_endpoints(fields: &mut Fields) {
    for subset in list(fields, "subsets") {
        list(subset, "ports").for_each(|port| set_filled(port, "protocol", json!("TCP")));
    }
}

pub(super) fn complete_slices(fields: &mut Fields) {
    for port in list(fields, "ports") {
        set(port, "name", json!(""));
        set(port, "protocol", json!("TCP"));
    }
}

pub(super) fn complete(fields: &mut Fields, kind: &str) {
    match kind {
        "NetworkPolicy" => complete_policy(child(fields, "spec")),
        "IngressClass" => {
            let spec = child(fields, "spec");
            if let Some(parameters) = child_if_any(spec, "parameters") {
                set(parameters, "scope", json!("Cluster"));
            }
        }
        _ => {}
    }
}

fn complete_policy(spec: &mut Fields) {
    let has = |spec: &Fields, name: &str| {
        spec.get(name)
            .and_then(Value::as_array)
            .is_some_and(|it| !it.is_empty())
    };
    if !has(spec, "policyTypes") {
        let types = if has(spec, "egress") {
            json!(["Ingress", "Egress"])
        } else {
            json!(["Ingress"])
        };
        spec.insert("policyTypes".to_owned(), types);
    }
    for direction in ["ingress", "egress"] {
        for rule in list(spec, direction) {
            list(rule, "ports").for_each(|port| set(port, "protocol", json!("TCP")));
        }
    }
}
