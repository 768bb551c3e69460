use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::*;

#[test]
fn built_in_resources_differ_where_kubernetes_lets_them() {
    for (group, resource, counted, created, refused) in [
        ("", "configmaps", false, false, false),
        ("", "services", false, true, false),
        ("apps", "deployments", true, false, false),
        ("apps", "controllerrevisions", false, false, false),
        ("coordination.k8s.io", "leases", false, true, true),
        ("storage.k8s.io", "csinodes", false, false, true),
        (
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            true,
            false,
            true,
        ),
    ] {
        let strategy = built_in(&GroupResource::new(group, resource));
        let found = (
            strategy.generation == Generation::Counted,
            strategy.put_of_absent == PutOfAbsent::Creates,
            strategy.put_without_version == PutWithoutVersion::Refused,
        );
        assert_eq!(found, (counted, created, refused), "{group}/{resource}");
    }
}

#[test]
fn events_change_their_names_between_the_groups_and_back() {
    let core = json!({
        "apiVersion": "v1", "involvedObject": {"name": "a"}, "message": "hello", "count": 3,
        "source": {"component": "x"}, "reportingComponent": "y", "reportingInstance": "z", "type": "Normal",
    });
    let mut event = core.clone();
    events::convert(&mut event, "events.k8s.io/v1");
    assert_eq!(event["regarding"], json!({"name": "a"}));
    assert_eq!(
        (&event["note"], &event["reportingController"]),
        (&json!("hello"), &json!("y"))
    );
    assert_eq!(event.get("message"), None);
    events::convert(&mut event, "v1");
    assert_eq!(event, core);
}

#[test]
fn a_running_pod_may_change_its_image_and_little_else() {
    let live = json!({"spec": {
        "nodeName": "n", "containers": [{"name": "a", "image": "a:1"}], "restartPolicy": "Always",
    }});
    for (name, pointer, value, allowed) in [
        ("image", "/spec/containers/0/image", json!("a:2"), true),
        ("node", "/spec/nodeName", json!("m"), false),
        ("name", "/spec/containers/0/name", json!("b"), false),
        ("policy", "/spec/restartPolicy", json!("Never"), false),
    ] {
        let mut new = live.clone();
        *new.pointer_mut(pointer).expect("a field") = value;
        assert_eq!(
            pods::validate_update(&new, &live).is_none(),
            allowed,
            "{name}"
        );
    }
}

#[test]
fn pods_have_a_grace_period_only_where_they_run() {
    let pod = |spec: Value, phase: &str| json!({"spec": spec, "status": {"phase": phase}});
    for (name, pod, asked, want) in [
        (
            "unscheduled",
            pod(json!({"terminationGracePeriodSeconds": 30}), "Pending"),
            None,
            0,
        ),
        (
            "running",
            pod(
                json!({"nodeName": "n", "terminationGracePeriodSeconds": 30}),
                "Running",
            ),
            None,
            30,
        ),
        (
            "asked",
            pod(
                json!({"nodeName": "n", "terminationGracePeriodSeconds": 30}),
                "Running",
            ),
            Some(5),
            5,
        ),
        (
            "done",
            pod(
                json!({"nodeName": "n", "terminationGracePeriodSeconds": 30}),
                "Succeeded",
            ),
            None,
            0,
        ),
        (
            "negative",
            pod(json!({"nodeName": "n"}), "Running"),
            Some(-7),
            1,
        ),
    ] {
        assert_eq!(pods::grace_seconds(&pod, asked), want, "{name}");
    }
}

#[test]
fn keys_of_config_are_checked() {
    for (data, errors) in [
        (json!({"a.b_c-D": "x"}), 0),
        (json!({"": "x"}), 1),
        (json!({"a/b": "x"}), 1),
        (json!({"..": "x"}), 1),
    ] {
        let object = json!({"data": data});
        assert_eq!(
            secrets::validate_config_map(&object, None).len(),
            errors,
            "{object}"
        );
    }
    let both = json!({"data": {"a": "x"}, "binaryData": {"a": "eA=="}});
    assert_eq!(secrets::validate_config_map(&both, None).len(), 1);
}

/// Where a kind is named in handlers or admission, a strategy lacks a question.
#[test]
fn handlers_and_admission_know_no_kind_by_name() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    for module in ["admit", "call", "handle"] {
        files.push(root.join(module).with_extension("rs"));
        collect(&root.join(module), &mut files);
    }
    assert!(
        files.len() > 30,
        "the modules are where they were: {files:?}"
    );
    let kinds = schema::builtin::catalog().resources().iter();
    let names: BTreeSet<String> = kinds
        .map(|kind| format!("\"{}\"", kind.resource))
        .chain(["RESOURCE".to_owned(), "is_custom".to_owned()])
        .collect();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a source file");
        let code = text
            .split("#[cfg(test)]\nmod tests {")
            .next()
            .unwrap_or_default();
        for name in &names {
            assert!(!code.contains(name), "{} names {name}", file.display());
        }
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        let is_test = path.file_stem().is_some_and(|stem| stem == "tests");
        if is_test {
            continue;
        }
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.push(path);
        }
    }
}
