//! The manifests of the corpus, and what a server holds of them.

use std::collections::BTreeMap;

use serde_json::Value;
use wheelhouse_tests::{assets, kubectl::Kubectl};

/// One file of the corpus.
pub(crate) struct Chart {
    /// The name of the file, without its ending.
    pub(crate) name: String,
    /// Its CustomResourceDefinitions.
    pub(crate) definitions: Vec<String>,
    /// The other documents.
    pub(crate) documents: Vec<String>,
}

/// Reads all manifests; `None` where the corpus is absent, which is said visibly.
///
/// `WHEELHOUSE_CHARTS` names the ones to try, separated by commas.
pub(crate) fn all() -> Option<Vec<Chart>> {
    let folder = assets::corpus()?.join("charts");
    let wanted = std::env::var("WHEELHOUSE_CHARTS").unwrap_or_default();
    let mut charts = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the corpus has charts") {
        let path = entry.expect("the folder can be read").path();
        let name = path
            .file_stem()
            .expect("a file")
            .to_string_lossy()
            .into_owned();
        if !wanted.is_empty() && !wanted.split(',').any(|it| it == name) {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a manifest is text");
        assert!(!text.contains("{{"), "{name} is rendered");
        let (definitions, documents) = documents(&text).partition(|document| {
            document
                .lines()
                .any(|line| line == "kind: CustomResourceDefinition")
        });
        charts.push(Chart {
            name,
            definitions,
            documents,
        });
    }
    charts.sort_by(|a, b| a.name.cmp(&b.name));
    Some(charts)
}

fn documents(text: &str) -> impl Iterator<Item = String> {
    let mut documents = vec![String::new()];
    for line in text.lines() {
        if line == "---" {
            documents.push(String::new());
        } else if let Some(last) = documents.last_mut() {
            last.push_str(line);
            last.push('\n');
        }
    }
    documents
        .into_iter()
        .filter(|document| document.lines().any(|line| line.starts_with("kind: ")))
}

impl Chart {
    /// Returns all of it as one manifest, definitions first.
    pub(crate) fn manifest(&self) -> String {
        let all: Vec<&str> = self
            .definitions
            .iter()
            .chain(&self.documents)
            .map(String::as_str)
            .collect();
        all.join("---\n")
    }
}

/// Returns what a server holds of a manifest, by kind, namespace and name, without what differs between two times of
/// applying the same.
pub(crate) async fn held(kubectl: &Kubectl, manifest: &str) -> BTreeMap<String, Value> {
    let arguments = ["get", "-o", "json", "--show-managed-fields", "-f", "-"];
    let text = kubectl
        .run_with_input(&arguments, manifest)
        .await
        .succeeded("kubectl get");
    let list: Value = serde_json::from_str(&text).expect("kubectl prints JSON");
    let items = list["items"]
        .as_array()
        .cloned()
        .unwrap_or_else(|| vec![list]);
    items
        .into_iter()
        .map(|mut object| {
            let name = format!(
                "{} {}/{}",
                object["kind"].as_str().unwrap_or_default(),
                object["metadata"]["namespace"].as_str().unwrap_or_default(),
                object["metadata"]["name"].as_str().unwrap_or_default()
            );
            comparable(&mut object);
            (name, object)
        })
        .collect()
}

/// Labels that hold the uid of a Job.
const JOB_LABELS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];

/// Removes what a server chooses, what controllers write, and times.
fn comparable(object: &mut Value) {
    for place in [
        "/spec/selector/matchLabels",
        "/spec/template/metadata/labels",
    ] {
        if let Some(labels) = object.pointer_mut(place).and_then(Value::as_object_mut) {
            labels.retain(|name, _| !JOB_LABELS.contains(&name.as_str()));
        }
    }
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    fields.remove("status");
    let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    for field in ["uid", "resourceVersion", "creationTimestamp", "generation"] {
        metadata.remove(field);
    }
    if let Some(annotations) = metadata
        .get_mut("annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.remove("deployment.kubernetes.io/revision");
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    if let Some(entries) = metadata
        .get_mut("managedFields")
        .and_then(Value::as_array_mut)
    {
        entries.retain(|entry| {
            entry.get("subresource").is_none()
                && !matches!(
                    entry["manager"].as_str(),
                    Some("kube-controller-manager" | "kube-apiserver")
                )
        });
        for entry in entries {
            if let Some(entry) = entry.as_object_mut() {
                entry.remove("time");
            }
        }
    }
    if let Some(spec) = fields.get_mut("spec").and_then(Value::as_object_mut) {
        for field in ["clusterIP", "clusterIPs", "healthCheckNodePort"] {
            if spec.get(field).is_some_and(|value| value != "None") {
                spec.remove(field);
            }
        }
        for port in spec
            .get_mut("ports")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            if let Some(port) = port.as_object_mut() {
                port.remove("nodePort");
            }
        }
    }
}

/// Returns the objects in which two servers differ, with both.
pub(crate) fn differences(
    one: &BTreeMap<String, Value>,
    other: &BTreeMap<String, Value>,
) -> Vec<String> {
    let names: std::collections::BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    let mut found = Vec::new();
    for name in names {
        let (one, other) = (one.get(name), other.get(name));
        if one != other {
            let null = Value::Null;
            describe(
                name,
                one.unwrap_or(&null),
                other.unwrap_or(&null),
                &mut found,
            );
        }
    }
    found
}

fn describe(path: &str, one: &Value, other: &Value, found: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let (a, b) = (
                    a.get(key).unwrap_or(&Value::Null),
                    b.get(key).unwrap_or(&Value::Null),
                );
                describe(&format!("{path}.{key}"), a, b, found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                describe(&format!("{path}[{index}]"), a, b, found);
            }
        }
        (a, b) if a != b => found.push(format!("{path}: {a} and {b}")),
        _ => {}
    }
}
