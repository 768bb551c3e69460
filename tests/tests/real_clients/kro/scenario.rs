//! Scenarios as they are written: a list of steps, or one definition that is refused.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

/// A scenario.
pub(super) struct Scenario {
    pub(super) name: String,
    pub(super) steps: Vec<Step>,
    /// Whether root does not serve the kinds of its resources (`workloads: true`).
    pub(super) has_workloads: bool,
}

/// What is made, or looked at, on all sides.
pub(super) enum Step {
    /// `define`: a definition comes to a state.
    Define(Definition),
    /// `apply`, or `make` for an instance, which may come to a state (`is`).
    Apply {
        object: Value,
        state: Option<String>,
    },
    /// `patch`: a merge patch of an object.
    Patch { object: String, with: Value },
    /// `delete`: an object goes.
    Delete(String),
    /// `until`: a value of an object comes to be.
    Until {
        object: String,
        path: String,
        is: Value,
    },
    /// `same`: objects are equal.
    Same(Vec<String>),
}

/// A definition, with what is usual left out where it is written: the version, the kind (its name with a capital), a spec of one
/// string, and one ConfigMap with the `data` that is written.
pub(super) struct Definition {
    pub(super) name: String,
    pub(super) object: Value,
    /// The state that it comes to.
    pub(super) state: String,
}

/// Reads all scenarios of a folder.
pub(super) fn read(folder: &Path) -> Vec<Scenario> {
    let entries = std::fs::read_dir(folder).expect("there are scenarios");
    let mut files: Vec<PathBuf> = entries.map(|it| it.expect("a file").path()).collect();
    files.sort();
    let mut scenarios = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("it can be read");
        let documents: Result<Vec<Value>, _> = serde_saphyr::from_str(&text);
        let documents = documents.map_err(|error| format!("{}: {error}", file.display()));
        let documents = documents.expect("a list of scenarios");
        let stem = file.file_stem().expect("a name").to_string_lossy();
        for (index, document) in documents.iter().enumerate() {
            scenarios.push(Scenario::of(document, &format!("{stem}{index}")));
        }
    }
    scenarios
}

// === impl Scenario ===

impl Scenario {
    fn of(document: &Value, name: &str) -> Self {
        if let Some(title) = document["refused"].as_str() {
            let definition = Definition::of(document, name, "Inactive");
            return Self {
                name: format!("refused {title}"),
                steps: vec![Step::Define(definition)],
                has_workloads: false,
            };
        }
        let title = document["scenario"].as_str();
        let steps = document["steps"].as_array().expect("it has steps");
        let steps: Result<Vec<Step>, String> = steps.iter().map(Step::of).collect();
        Self {
            name: title.expect("it has a name").to_owned(),
            steps: steps.expect("its steps can be read"),
            has_workloads: document["workloads"] == true,
        }
    }

    /// Whether a definition is refused in it.
    pub(super) fn is_refusal(&self) -> bool {
        self.name.starts_with("refused")
    }
}

// === impl Step ===

impl Step {
    /// Reads a step: one key, and what belongs to it.
    fn of(step: &Value) -> Result<Self, String> {
        let wrong = |what: &str| format!("{step}: {what}");
        let text = |value: &Value| {
            let text = value.as_str().map(str::to_owned);
            text.ok_or_else(|| wrong("a text is missing"))
        };
        let fields = step.as_object().filter(|fields| fields.len() == 1);
        let fields = fields.and_then(|fields| fields.iter().next());
        let (key, value) = fields.ok_or_else(|| wrong("it has one key"))?;
        Ok(match key.as_str() {
            "define" => {
                let state = value["is"].as_str().unwrap_or("Active");
                Self::Define(Definition::of(value, &text(&value["name"])?, state))
            }
            "apply" => Self::Apply {
                object: value.clone(),
                state: None,
            },
            "make" => Self::Apply {
                object: instance(value),
                state: value["is"].as_str().map(str::to_owned),
            },
            "patch" => Self::Patch {
                object: text(&value["object"])?,
                with: value["with"].clone(),
            },
            "delete" => Self::Delete(text(value)?),
            "until" => Self::Until {
                object: text(&value["object"])?,
                path: text(&value["path"])?,
                is: value["is"].clone(),
            },
            "same" => {
                let objects = value.as_array().ok_or_else(|| wrong("it is no list"))?;
                let objects: Result<Vec<String>, String> = objects.iter().map(text).collect();
                Self::Same(objects?)
            }
            _ => return Err(wrong("it is no step")),
        })
    }
}

/// An instance of `kind`, called `name`, in a namespace unless `namespace` is empty.
fn instance(written: &Value) -> Value {
    let version = written["version"].as_str().unwrap_or("kro.run/v1alpha1");
    let mut metadata = json!({"name": written["name"]});
    let namespace = written["namespace"].as_str().unwrap_or("default");
    if !namespace.is_empty() {
        metadata["namespace"] = json!(namespace);
    }
    for part in ["labels", "annotations"] {
        if !written[part].is_null() {
            metadata[part] = written[part].clone();
        }
    }
    let mut object = json!({"apiVersion": version, "kind": written["kind"], "metadata": metadata});
    if !written["spec"].is_null() {
        object["spec"] = written["spec"].clone();
    }
    object
}

// === impl Definition ===

impl Definition {
    fn of(written: &Value, name: &str, state: &str) -> Self {
        let (first, rest) = name.split_at(1);
        let kind = format!("{}{rest}", first.to_uppercase());
        let mut schema =
            json!({"apiVersion": "v1alpha1", "kind": kind, "spec": {"text": "string"}});
        let into = schema.as_object_mut().expect("it is one");
        into.extend(written["schema"].as_object().cloned().unwrap_or_default());
        for part in ["spec", "status", "types"] {
            if !written[part].is_null() {
                into.insert(part.to_owned(), written[part].clone());
            }
        }
        // What is written as null is left out.
        into.retain(|_, value| !value.is_null());
        let mut metadata: Map<String, Value> = Map::new();
        metadata.insert("name".to_owned(), json!(name));
        for part in ["labels", "annotations"] {
            if !written[part].is_null() {
                metadata.insert(part.to_owned(), written[part].clone());
            }
        }
        let mut made = json!({"id": "made", "template": {"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "${schema.metadata.name}"}}});
        if !written["data"].is_null() {
            made["template"]["data"] = written["data"].clone();
        }
        let resources = match &written["resources"] {
            Value::Null => json!([made]),
            resources => resources.clone(),
        };
        Self {
            name: name.to_owned(),
            object: json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
                "metadata": metadata, "spec": {"schema": schema, "resources": resources}}),
            state: state.to_owned(),
        }
    }
}
