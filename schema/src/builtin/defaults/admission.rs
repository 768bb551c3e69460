//! Webhooks, admission policies and flow control.
//!
//! Source: `kubernetes/pkg/apis/{admissionregistration,flowcontrol}/v1/defaults.go`.

use serde_json::json;

use super::{Fields, child, child_if_any, list, set, set_filled, text};

pub(super) fn complete(fields: &mut Fields, kind: &str) {
    match kind {
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
            for webhook in list(fields, "webhooks") {
                complete_webhook(webhook);
                if kind == "MutatingWebhookConfiguration" {
                    set(webhook, "reinvocationPolicy", json!("Never"));
                }
            }
        }
        "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy" => {
            let spec = child(fields, "spec");
            set(spec, "failurePolicy", json!("Fail"));
            child_if_any(spec, "matchConstraints")
                .into_iter()
                .for_each(complete_match);
        }
        "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding" => {
            let spec = child(fields, "spec");
            child_if_any(spec, "matchResources")
                .into_iter()
                .for_each(complete_match);
        }
        _ => {}
    }
}

fn complete_webhook(webhook: &mut Fields) {
    set(webhook, "failurePolicy", json!("Fail"));
    set(webhook, "matchPolicy", json!("Equivalent"));
    set(webhook, "namespaceSelector", json!({}));
    set(webhook, "objectSelector", json!({}));
    set(webhook, "timeoutSeconds", json!(10));
    if let Some(service) =
        child_if_any(webhook, "clientConfig").and_then(|it| child_if_any(it, "service"))
    {
        set(service, "port", json!(443));
    }
    list(webhook, "rules").for_each(|rule| set(rule, "scope", json!("*")));
}

fn complete_match(resources: &mut Fields) {
    set(resources, "matchPolicy", json!("Equivalent"));
    set(resources, "namespaceSelector", json!({}));
    set(resources, "objectSelector", json!({}));
    for name in ["resourceRules", "excludeResourceRules"] {
        list(resources, name).for_each(|rule| set(rule, "scope", json!("*")));
    }
}

pub(super) fn complete_flow_control(fields: &mut Fields, kind: &str) {
    let spec = child(fields, "spec");
    if kind == "FlowSchema" {
        if spec
            .get("matchingPrecedence")
            .is_none_or(|it| it.is_null() || it == 0)
        {
            spec.insert("matchingPrecedence".to_owned(), json!(1000));
        }
        return;
    }
    if let Some(limited) = child_if_any(spec, "limited") {
        set(limited, "nominalConcurrencyShares", json!(30));
        set(limited, "lendablePercent", json!(0));
        let response = child(limited, "limitResponse");
        if text(response, "type") == "Queue" {
            let Some(queuing) = child_if_any(response, "queuing") else {
                return;
            };
            for (name, value) in [("queues", 64), ("queueLengthLimit", 50), ("handSize", 8)] {
                if queuing.get(name).is_none_or(|it| it.is_null() || it == 0) {
                    queuing.insert(name.to_owned(), json!(value));
                }
            }
        } else {
            set_filled(response, "type", json!("Reject"));
        }
    }
    if let Some(exempt) = child_if_any(spec, "exempt") {
        set(exempt, "nominalConcurrencyShares", json!(0));
        set(exempt, "lendablePercent", json!(0));
    }
}
