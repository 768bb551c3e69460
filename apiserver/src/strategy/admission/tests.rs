use serde_json::json;

use super::*;

fn policy(spec: &Value) -> Value {
    let mut policy = json!({"metadata": {"name": "p"}, "spec": {"failurePolicy": "Fail", "matchConstraints": {
        "matchPolicy": "Exact", "namespaceSelector": {}, "objectSelector": {}, "resourceRules": [{
            "operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]}}});
    for (field, value) in spec.as_object().into_iter().flatten() {
        policy["spec"][field] = value.clone();
    }
    policy
}

#[test]
fn policies_are_judged_with_their_variables_in_order() {
    let validations = json!([{"expression": "variables.a == 1"}]);
    for (name, spec, want) in [
        (
            "declared",
            json!({"variables": [{"name": "a", "expression": "1"}], "validations": validations}),
            0,
        ),
        (
            "typed",
            json!({"variables": [{"name": "a", "expression": "'x'"}], "validations": validations}),
            1,
        ),
        ("undeclared", json!({"validations": validations}), 1),
        (
            "later",
            json!({"variables": [{"name": "b", "expression": "variables.a"}, {"name": "a", "expression": "1"}],
            "validations": validations}),
            1,
        ),
        (
            "params",
            json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "validations": [{"expression": "params.data.a == 'b'"}]}),
            0,
        ),
        ("nothing", json!({}), 2),
    ] {
        let errors = (VALIDATING_POLICIES.validate)(&policy(&spec), None);
        assert_eq!(errors.len(), want, "{name}: {errors:?}");
    }
}

#[test]
fn conditions_that_an_update_leaves_alone_are_not_judged_again() {
    let spec = json!({"matchConditions": [{"name": "a", "expression": "broken("}], "validations": [{"expression": "true"}]});
    let stored = policy(&spec);
    assert_eq!((VALIDATING_POLICIES.validate)(&stored, None).len(), 1);
    assert_eq!(
        (VALIDATING_POLICIES.validate)(&stored, Some(&stored)).len(),
        0
    );
}

#[test]
fn webhooks_keep_what_they_broke_before() {
    let webhook = |effects: &str| {
        json!({"kind": "MutatingWebhookConfiguration", "webhooks": [{"name": "a.example.com", "sideEffects": effects,
            "admissionReviewVersions": ["v1"], "clientConfig": {"url": "https://example.com"}}]})
    };
    let judge = |new: &Value, live: Option<&Value>| (WEBHOOKS.validate)(new, live).len();
    assert_eq!(judge(&webhook("None"), None), 0);
    assert_eq!(judge(&webhook("Some"), None), 1);
    assert_eq!(judge(&webhook("Some"), Some(&webhook("None"))), 1);
    assert_eq!(judge(&webhook("Some"), Some(&webhook("Unknown"))), 0);
}
