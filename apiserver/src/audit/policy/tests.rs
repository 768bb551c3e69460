//! Which requests which rules match, and what is wrong with files that are none.

use http::{Method, Uri};

use super::*;
use crate::route;

fn info(method: &str, path: &str) -> RequestInfo {
    let method = Method::from_bytes(method.as_bytes()).expect("a method");
    let uri: Uri = path.parse().expect("a path");
    route::route(&method, &uri).expect("a route")
}

fn policy(rules: &str) -> Policy {
    let text = format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n{rules}");
    Policy::parse(&text).expect("a policy")
}

fn alice() -> UserInfo {
    UserInfo::authenticated("alice", ["dev"])
}

/// Source: the table of `apiserver/pkg/audit/policy/checker_test.go`, and the comments of `apis/audit/v1/types.go`.
#[expect(clippy::too_many_lines, reason = "a table")]
#[test]
fn a_rule_matches_what_all_of_its_fields_match() {
    let pod = info("GET", "/api/v1/namespaces/default/pods/busybox");
    let log = info("GET", "/api/v1/namespaces/default/pods/busybox/log");
    let scale = info(
        "PUT",
        "/apis/apps/v1/namespaces/default/deployments/web/scale",
    );
    let role = info("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles");
    let logs = info("GET", "/logs/app");
    let far = info(
        "GET",
        "/clusters/east/api/v1/namespaces/default/pods/busybox",
    );
    for (rule, request, want) in [
        ("{level: Metadata}", &pod, true),
        ("{level: Metadata}", &logs, true),
        ("{level: Metadata, users: [alice, bob]}", &pod, true),
        ("{level: Metadata, users: [bob]}", &pod, false),
        ("{level: Metadata, userGroups: [dev]}", &pod, true),
        (
            "{level: Metadata, userGroups: ['system:authenticated']}",
            &pod,
            true,
        ),
        ("{level: Metadata, userGroups: [ops]}", &pod, false),
        (
            "{level: Metadata, users: [alice], userGroups: [ops]}",
            &pod,
            false,
        ),
        ("{level: Metadata, verbs: [get]}", &pod, true),
        ("{level: Metadata, verbs: [create]}", &pod, false),
        ("{level: Metadata, verbs: ['*']}", &pod, false),
        ("{level: Metadata, namespaces: [default]}", &pod, true),
        ("{level: Metadata, namespaces: ['']}", &pod, false),
        ("{level: Metadata, namespaces: ['']}", &role, true),
        ("{level: Metadata, namespaces: ['']}", &logs, false),
        ("{level: Metadata, resources: [{group: ''}]}", &pod, true),
        ("{level: Metadata, resources: [{group: apps}]}", &pod, false),
        ("{level: Metadata, resources: [{group: '*'}]}", &role, true),
        ("{level: Metadata, resources: [{group: '*'}]}", &logs, false),
        (
            "{level: Metadata, resources: [{resources: [pods]}]}",
            &pod,
            true,
        ),
        (
            "{level: Metadata, resources: [{resources: [pods]}]}",
            &log,
            false,
        ),
        (
            "{level: Metadata, resources: [{resources: [pods/log]}]}",
            &log,
            true,
        ),
        (
            "{level: Metadata, resources: [{resources: [pods/log]}]}",
            &pod,
            false,
        ),
        (
            "{level: Metadata, resources: [{resources: ['pods/*']}]}",
            &log,
            true,
        ),
        (
            "{level: Metadata, resources: [{resources: ['pods/*']}]}",
            &pod,
            true,
        ),
        (
            "{level: Metadata, resources: [{resources: ['*']}]}",
            &log,
            true,
        ),
        (
            "{level: Metadata, resources: [{resources: ['*/log']}]}",
            &log,
            true,
        ),
        (
            "{level: Metadata, resources: [{resources: ['*/scale']}]}",
            &log,
            false,
        ),
        (
            "{level: Metadata, resources: [{group: apps, resources: ['*/scale']}]}",
            &scale,
            true,
        ),
        (
            "{level: Metadata, resources: [{resources: ['*/log']}]}",
            &pod,
            false,
        ),
        (
            "{level: Metadata, resources: [{resources: [pods], resourceNames: [busybox]}]}",
            &pod,
            true,
        ),
        (
            "{level: Metadata, resources: [{resources: [pods], resourceNames: [other]}]}",
            &pod,
            false,
        ),
        (
            "{level: Metadata, resources: [{group: apps}, {group: ''}]}",
            &pod,
            true,
        ),
        (
            "{level: Metadata, nonResourceURLs: [/logs/app]}",
            &logs,
            true,
        ),
        (
            "{level: Metadata, nonResourceURLs: ['/logs*']}",
            &logs,
            true,
        ),
        ("{level: Metadata, nonResourceURLs: ['*']}", &logs, true),
        ("{level: Metadata, nonResourceURLs: ['*']}", &pod, false),
        ("{level: Metadata, nonResourceURLs: [/logs]}", &logs, false),
        // The prefix of a cluster is no part of what is matched.
        (
            "{level: Metadata, namespaces: [default], resources: [{resources: [pods]}]}",
            &far,
            true,
        ),
    ] {
        let found = policy(&format!("- {rule}")).treatment(Some(&alice()), request);
        let want = if want { Level::Metadata } else { Level::None };
        assert_eq!(found.level, want, "{rule} and {}", request.path);
    }
}

#[test]
fn the_first_rule_decides_and_stages_add_up() {
    let policy = Policy::parse(
        "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nomitManagedFields: true\nrules:\n\
         - {level: None, users: [alice], verbs: [get]}\n\
         - {level: Request, users: [alice], omitStages: [Panic], omitManagedFields: false}\n\
         - {level: Metadata}\n",
    )
    .expect("a policy");
    let (get, list) = (info("GET", "/api/v1/nodes/a"), info("GET", "/api/v1/nodes"));
    let user = alice();
    assert_eq!(policy.treatment(Some(&user), &get).level, Level::None);
    let second = policy.treatment(Some(&user), &list);
    assert_eq!(second.level, Level::Request);
    assert_eq!(second.managed_fields, ManagedFields::Kept);
    let omitted = Stage::ALL.map(|stage| second.omitted.has(stage));
    assert_eq!(omitted, [true, false, false, true]);
    // Nobody knows who it is: no rule about users matches.
    let third = policy.treatment(None, &get);
    assert_eq!(
        (third.level, third.managed_fields),
        (Level::Metadata, ManagedFields::Omitted)
    );
}

#[test]
fn a_file_that_is_no_policy_is_refused_with_what_to_do() {
    let head = "apiVersion: audit.k8s.io/v1\nkind: Policy\n";
    for (text, want) in [
        (String::new(), "it holds no object"),
        ("a: [".to_owned(), "it is not YAML"),
        (
            "apiVersion: audit.k8s.io/v1beta1\nkind: Policy\nrules: [{level: None}]".to_owned(),
            "apiVersion: it is \"audit.k8s.io/v1beta1\": write \"audit.k8s.io/v1\"",
        ),
        (
            format!("{head}rules: []"),
            "rules: a policy without a rule records nothing",
        ),
        (
            format!("{head}rules: [{{}}]"),
            "rules[0].level: it is \"\": write one of None, Metadata",
        ),
        (
            format!("{head}rules: [{{level: All}}]"),
            "rules[0].level: it is \"All\"",
        ),
        (
            format!("{head}omitStages: [Received]\nrules: [{{level: None}}]"),
            "omitStages[0]: there is no stage \"Received\"",
        ),
        (
            format!("{head}rules: [{{level: None, users: alice}}]"),
            "rules[0].users: it is no list of texts",
        ),
        (
            format!("{head}rules: [{{level: None, nonResourceURLs: [logs]}}]"),
            "rules[0].nonResourceURLs[0]: \"logs\" must begin with \"/\"",
        ),
        (
            format!("{head}rules: [{{level: None, nonResourceURLs: ['/a*/b']}}]"),
            "\"/a*/b\" may have \"*\" as its last character only",
        ),
        (
            format!("{head}rules: [{{level: None, nonResourceURLs: ['/a'], namespaces: [a]}}]"),
            "make two of it",
        ),
        (
            format!("{head}rules: [{{level: None, resources: [{{group: apps/v1}}]}}]"),
            "rules[0].resources[0].group: \"apps/v1\" is no group",
        ),
        (
            format!("{head}rules: [{{level: None, resources: [{{resourceNames: [a]}}]}}]"),
            "rules[0].resources[0].resourceNames: names need at least one resource",
        ),
    ] {
        let error = Policy::parse(&text).expect_err(&text).to_string();
        assert!(error.contains(want), "{text:?}: {error}");
    }
}

#[test]
fn a_field_that_nobody_knows_does_nothing_and_is_told() {
    let policy = policy("- {level: Metadata, userGroup: [ops]}\n");
    let found = policy.treatment(Some(&alice()), &info("GET", "/api/v1/nodes"));
    assert_eq!(found.level, Level::Metadata);
    let want = ["rules[0].userGroup: nobody knows this field, it does nothing"];
    assert_eq!(policy.warnings(), want);
}

#[test]
fn a_policy_records_a_stage_if_one_of_its_rules_does() {
    for (rules, want) in [
        ("- {level: Metadata}", true),
        ("- {level: Metadata, omitStages: [RequestReceived]}", false),
        (
            "- {level: Metadata, omitStages: [RequestReceived]}\n- {level: Request}",
            true,
        ),
        ("- {level: Metadata}\nomitStages: [RequestReceived]", false),
        ("- {level: None}", false),
    ] {
        let policy = policy(rules);
        assert_eq!(policy.records(Stage::RequestReceived), want, "{rules}");
        let is_silent = rules.contains("None");
        assert_eq!(policy.records(Stage::Panic), !is_silent, "{rules}");
    }
}
