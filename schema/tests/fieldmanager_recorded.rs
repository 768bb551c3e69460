//! Ownership as kube-apiserver keeps it: recorded requests are played again, and owners and conflicts must be those of
//! the recording.
//!
//! `recorded/ownership.json` holds, for each step, the request (`do`: `post`, `put`, `merge`, `json`, `strategic` or
//! `apply`; `manager`, `force`, `subresource`, `body`) and the answer of a kube-apiserver of the version it names, and
//! the definition of the custom resource. Steps of a scenario act on one object, from the last `post` on. It was recorded on a fresh server
//! with `fieldManager` and `force` as query parameters, in the namespace `own`.

use std::sync::Arc;

use api::{GroupVersionKind, Status};
use schema::Schema;
use schema::fieldmanager::{
    ApplyInput, FieldSet, Model, PathElement, ReplicasPath, TypeContext, UpdateInput, apply,
    keep_times_if_unchanged, scale_from_parent, scale_to_parent, update,
};
use serde_json::{Value, json};
use wheelhouse_schema as schema;

static RECORDED: &str = include_str!("recorded/ownership.json");

/// A kind of the recording.
struct Kind {
    api_version: &'static str,
    name: &'static str,
    schema: Arc<Schema>,
    model: Model,
    reset: FieldSet,
    reset_in_status: FieldSet,
    /// What the server fills in behind the field manager.
    filled_later: &'static [&'static str],
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn kinds(definition: &Value) -> Vec<Kind> {
    let builtin = |api_version: &str, kind: &str| {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let gvk = GroupVersionKind {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
        };
        schema::builtin::catalog()
            .schema(&gvk)
            .expect("the kind is built in")
    };
    let custom =
        Schema::from_openapi(&definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
            .expect("the definition is structural");
    let names = FieldSet::from_field_names;
    vec![
        Kind {
            api_version: "v1",
            name: "ConfigMap",
            schema: builtin("v1", "ConfigMap"),
            model: Model::Native,
            reset: FieldSet::new(),
            reset_in_status: FieldSet::new(),
            filled_later: &[],
        },
        Kind {
            api_version: "apps/v1",
            name: "Deployment",
            schema: builtin("apps/v1", "Deployment"),
            model: Model::Native,
            reset: names(&[&["status"]]),
            reset_in_status: names(&[&["spec"], &["metadata", "labels"]]),
            filled_later: &["/metadata/generation"],
        },
        Kind {
            api_version: "v1",
            name: "Service",
            schema: builtin("v1", "Service"),
            model: Model::Native,
            reset: names(&[&["status"]]),
            reset_in_status: names(&[&["spec"]]),
            filled_later: &[
                "/spec/clusterIP",
                "/spec/clusterIPs",
                "/spec/ipFamilies",
                "/spec/ipFamilyPolicy",
                "/spec/ports/0/nodePort",
                "/spec/ports/1/nodePort",
            ],
        },
        Kind {
            api_version: "own.example.com/v1",
            name: "Widget",
            schema: custom,
            model: Model::Dynamic,
            reset: names(&[&["status"]]),
            reset_in_status: names(&[&["metadata"], &["spec"]]),
            filled_later: &["/metadata/generation"],
        },
        Kind {
            api_version: "autoscaling/v1",
            name: "Scale",
            schema: schema::builtin::catalog()
                .definition("io.k8s.api.autoscaling.v1.Scale")
                .expect("the data file holds it"),
            model: Model::Native,
            reset: FieldSet::new(),
            reset_in_status: FieldSet::new(),
            filled_later: &[],
        },
    ]
}

fn context<'a>(kind: &'a Kind, subresource: &'a str) -> TypeContext<'a> {
    TypeContext {
        api_version: kind.api_version,
        kind: kind.name,
        schema: &kind.schema,
        model: kind.model,
        subresource,
        reset: if subresource == "status" {
            &kind.reset_in_status
        } else {
            &kind.reset
        },
        converter: None,
    }
}

/// The time of the write: the latest that an owner has.
fn time_of(answer: &Value) -> String {
    let owners = answer["metadata"]["managedFields"].as_array();
    let times = owners
        .into_iter()
        .flatten()
        .filter_map(|owner| owner["time"].as_str());
    times.max().unwrap_or("2030-01-01T00:00:00Z").to_owned()
}

/// The owners that the request sends: its own, or those that it read.
fn sent_owners(step: &Value, live: Option<&Value>) -> Value {
    let body = &step["body"];
    let owners = if step["do"] == "json" {
        let operations = body.as_array().into_iter().flatten();
        let mut owners = operations.filter(|op| op["path"] == "/metadata/managedFields");
        owners.next().map(|op| op["value"].clone())
    } else {
        body["metadata"].get("managedFields").cloned()
    };
    match owners {
        Some(owners) => owners,
        None if step["do"] == "post" || step["do"] == "put" => Value::Null,
        None => live.map_or(Value::Null, |live| {
            live["metadata"]["managedFields"].clone()
        }),
    }
}

/// The object as the field manager saw it: the answer, without what came later.
fn seen(kind: &Kind, answer: &Value, live: Option<&Value>, owners: Value) -> Value {
    let mut object = answer.clone();
    for pointer in kind
        .filled_later
        .iter()
        .chain(&["/metadata/resourceVersion", "/metadata/uid"])
    {
        let (parent, name) = pointer.rsplit_once('/').expect("a pointer has a slash");
        if let Some(Value::Object(fields)) = object.pointer_mut(parent) {
            fields.remove(name);
            if let Some(before) = live.and_then(|live| live.pointer(pointer)) {
                fields.insert(name.to_owned(), before.clone());
            }
        }
    }
    object["metadata"]["managedFields"] = owners;
    object
}

/// The owners of the object after a write to its scale.
fn scaled(kinds: &[Kind], parent: &Kind, step: &Value, live: &Value) -> Value {
    let kind = kinds
        .iter()
        .find(|kind| kind.name == "Scale")
        .expect("it is in the list");
    let replicas = vec![PathElement::field("spec"), PathElement::field("replicas")];
    let paths = [ReplicasPath {
        api_version: parent.api_version.to_owned(),
        path: Some(replicas),
    }];
    let owners = &live["metadata"]["managedFields"];
    let scale = |spec: &Value| {
        let owners = scale_from_parent(Some(owners), &paths).expect("the owners are recorded");
        json!({
            "apiVersion": "autoscaling/v1", "kind": "Scale", "spec": spec,
            "metadata": {"name": live["metadata"]["name"], "uid": live["metadata"]["uid"], "managedFields": owners},
        })
    };
    let before = scale(&json!({"replicas": live["spec"]["replicas"]}));
    let manager = step["manager"].as_str().expect("a step has a manager");
    let now = "2030-01-01T00:00:00Z";
    let after = if step["do"] == "apply" {
        let input = ApplyInput {
            context: context(kind, "scale"),
            live: Some(&before),
            config: step["body"].clone(),
            manager,
            force: step["force"] == true,
            now,
        };
        apply(input).expect("the recording succeeded").object
    } else {
        let mut after = scale(&step["body"]["spec"]);
        let input = UpdateInput {
            context: context(kind, "scale"),
            live: Some(&before),
            new: &mut after,
            manager,
            now,
        };
        update(input).expect("a scale can be tracked");
        after
    };
    let owners = scale_to_parent(
        Some(owners),
        after["metadata"].get("managedFields"),
        parent.api_version,
        &paths,
    );
    Value::Array(owners.expect("the owners are well formed"))
}

/// Whether everything in the first value is in the second.
fn is_within(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => part.iter().all(|(name, value)| {
            // Absent and empty are one in a Go struct.
            whole
                .get(name)
                .map_or_else(|| is_empty(value), |whole| is_within(value, whole))
        }),
        (Value::Array(part), Value::Array(whole)) => {
            part.len() == whole.len() && part.iter().zip(whole).all(|(p, w)| is_within(p, w))
        }
        // Null is what a Go value is by default.
        (Value::Null, whole) => is_empty(whole) || *whole == "",
        (part, whole) => part == whole,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// Plays an apply and compares owners, content and refusal.
fn play_apply(kind: &Kind, step: &Value, live: Option<&Value>, story: &str) {
    let answer = &step["answer"];
    let code = step["code"].as_u64().expect("a code is recorded");
    let subresource = step["subresource"].as_str().unwrap_or_default();
    let now = time_of(answer);
    let outcome = apply(ApplyInput {
        context: context(kind, subresource),
        live,
        config: step["body"].clone(),
        manager: step["manager"].as_str().expect("a step has a manager"),
        force: step["force"] == true,
        now: &now,
    });
    match outcome {
        // The object itself was refused, behind the field manager.
        Ok(_) if code == 422 => {}
        Ok(outcome) => {
            assert!(
                code < 300,
                "{story}: applied, but the recording says {answer}"
            );
            let mut object = answer.clone();
            object["metadata"]["managedFields"] =
                outcome.object["metadata"]["managedFields"].clone();
            if let Some(live) = live {
                keep_times_if_unchanged(live, &mut object);
            }
            assert_eq!(
                object["metadata"]["managedFields"], answer["metadata"]["managedFields"],
                "{story}: owners"
            );
            let mut content = outcome.object;
            for (section, name) in [
                ("metadata", "managedFields"),
                ("metadata", "resourceVersion"),
                ("metadata", "generation"),
            ] {
                if let Value::Object(fields) = &mut content[section] {
                    fields.remove(name);
                }
            }
            if subresource.is_empty() {
                if let Value::Object(fields) = &mut content {
                    fields.remove("status");
                }
                assert!(
                    is_within(&content, answer),
                    "{story}: {content} is not within {answer}"
                );
            }
        }
        Err(error) => {
            let status = Status::from(error);
            let wire = serde_json::to_value(&status).expect("a status is JSON");
            assert_eq!(wire["message"], answer["message"], "{story}: message");
            assert_eq!(u64::from(status.code), code, "{story}: code");
            assert_eq!(wire.get("reason"), answer.get("reason"), "{story}: reason");
            assert_eq!(
                wire["details"]["causes"], answer["details"]["causes"],
                "{story}: causes"
            );
        }
    }
}

fn play_update(kind: &Kind, step: &Value, live: Option<&Value>, story: &str) {
    let answer = &step["answer"];
    let owners = sent_owners(step, live);
    let mut new = seen(kind, answer, live, owners);
    update(UpdateInput {
        context: context(kind, step["subresource"].as_str().unwrap_or_default()),
        live,
        new: &mut new,
        manager: step["manager"].as_str().expect("a step has a manager"),
        now: &time_of(answer),
    })
    .expect("what is stored can be tracked");
    assert_eq!(
        new["metadata"].get("managedFields"),
        answer["metadata"].get("managedFields"),
        "{story}: owners"
    );
}

#[test]
fn owners_and_conflicts_are_those_of_kube_apiserver() {
    let recorded: Value = serde_json::from_str(RECORDED).expect("the recording is JSON");
    let kinds = kinds(&recorded["definition"]);
    let mut played = 0;
    for scenario in recorded["scenarios"].as_array().expect("it has scenarios") {
        let mut live: Option<Value> = None;
        for (index, step) in scenario["steps"]
            .as_array()
            .expect("it has steps")
            .iter()
            .enumerate()
        {
            let story = format!("{}, step {index}: {}", scenario["name"], step["body"]);
            let kind = kinds
                .iter()
                .find(|kind| step["kind"] == kind.name)
                .expect("it is known");
            let succeeded = step["code"].as_u64().is_some_and(|code| code < 300);
            let is_scale = step["subresource"] == "scale";
            if step["do"] == "post" {
                live = None;
            }
            if step["do"] == "apply" && !is_scale {
                play_apply(kind, step, live.as_ref(), &story);
            } else if succeeded && is_scale {
                let owners = scaled(
                    &kinds,
                    kind,
                    step,
                    live.as_ref().expect("a scale is of an object"),
                );
                assert_eq!(
                    owners, step["answer"]["metadata"]["managedFields"],
                    "{story}: owners"
                );
            } else if succeeded {
                play_update(kind, step, live.as_ref(), &story);
            }
            played += 1;
            if succeeded {
                live = Some(step["answer"].clone());
            }
        }
    }
    assert!(played > 100, "only {played} steps were played");
}
