//! What may differ between two clusters, and whether anything else does.

use std::{collections::BTreeSet, path::Path, sync::Mutex};

use serde_json::{Map, Value, json};

/// Differences that there may be.
pub(super) struct Agreed {
    entries: Vec<Entry>,
    used: Mutex<BTreeSet<usize>>,
}

/// One of them: a pattern of the object (`kind/name`), a JSON pointer in it with `*` for any part, and the reason.
struct Entry {
    object: regex::Regex,
    except: Option<regex::Regex>,
    path: Vec<String>,
}

/// Takes out what two clusters never have in common.
pub(super) fn normalize(object: &mut Value) {
    if let Some(items) = object["items"].as_array_mut() {
        items.iter_mut().for_each(normalize);
        items.sort_by_key(|item| item["metadata"]["name"].to_string());
        // Of a list nothing but its objects is compared: kube-apiserver writes other metadata for each sort of kind.
        *object = json!({"items": items});
        return;
    }
    let remove = |value: &mut Value, key: &str| {
        if let Some(fields) = value.as_object_mut() {
            fields.remove(key);
        }
    };
    let metadata = &mut object["metadata"];
    for key in ["uid", "resourceVersion", "creationTimestamp"] {
        remove(metadata, key);
    }
    for key in [
        "kro.run/instance-id",
        "kro.run/resource-graph-definition-id",
    ] {
        if metadata["labels"].get(key).is_some() {
            metadata["labels"][key] = json!("a uid");
        }
    }
    for owner in metadata["ownerReferences"]
        .as_array_mut()
        .into_iter()
        .flatten()
    {
        owner["uid"] = json!("a uid");
    }
    for entry in metadata["managedFields"]
        .as_array_mut()
        .into_iter()
        .flatten()
    {
        remove(entry, "time");
    }
    // kro sorts them by time, which tells nothing of two clusters.
    if let Some(conditions) = object["status"]["conditions"].as_array_mut() {
        for condition in conditions.iter_mut() {
            remove(condition, "lastTransitionTime");
        }
        conditions.sort_by_key(|it| it["type"].to_string());
    }
}

/// Says where two values differ.
pub(super) fn equal(what: &str, kro: &Value, ours: &Value) -> Result<(), String> {
    let mut found = Vec::new();
    differences(kro, ours, String::new(), &mut found);
    if found.is_empty() {
        return Ok(());
    }
    let lines = found
        .iter()
        .map(|(path, kro, ours)| format!("\n{path}:\n  kro  {kro}\n  ours {ours}"));
    Err(format!("{what} at {}", lines.collect::<String>()))
}

/// A path, and what each side has there.
type Difference = (String, String, String);

fn differences(kro: &Value, ours: &Value, path: String, found: &mut Vec<Difference>) {
    match (kro, ours) {
        (Value::Object(left), Value::Object(right)) => {
            let keys: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            for key in keys {
                let at = |map: &Map<String, Value>| map.get(key).cloned().unwrap_or_default();
                differences(&at(left), &at(right), format!("{path}/{key}"), found);
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (index, (one, other)) in left.iter().zip(right).enumerate() {
                differences(one, other, format!("{path}/{index}"), found);
            }
        }
        _ if kro == ours => {}
        _ => found.push((path, kro.to_string(), ours.to_string())),
    }
}

// === impl Agreed ===

impl Agreed {
    pub(super) fn read(file: &Path) -> Self {
        let text = std::fs::read_to_string(file).expect("agreed.yaml is there");
        let read: Vec<Value> = serde_saphyr::from_str(&text).expect("agreed.yaml is a list");
        let field = |entry: &Value, name: &str| {
            let text = entry[name].as_str();
            assert!(text.is_some(), "an entry without {name}: {entry}");
            text.unwrap_or_default().to_owned()
        };
        let entries = read.iter().map(|entry| {
            assert!(field(entry, "reason").len() > 20, "{entry} says why");
            let pattern =
                |text: &str| regex::Regex::new(&format!("^(?:{text})$")).expect("a pattern");
            Entry {
                object: pattern(&field(entry, "object")),
                except: entry["except"].as_str().map(pattern),
                path: field(entry, "path")
                    .split('/')
                    .skip(1)
                    .map(str::to_owned)
                    .collect(),
            }
        });
        Self {
            entries: entries.collect(),
            used: Mutex::default(),
        }
    }

    /// Takes agreed differences out of both.
    pub(super) fn take_out(&self, kro: &mut Value, ours: &mut Value) {
        if let (Some(left), Some(right)) =
            (kro["items"].as_array_mut(), ours["items"].as_array_mut())
        {
            for (one, other) in left.iter_mut().zip(right) {
                self.take_out(one, other);
                // kube-apiserver leaves them out of lists of its own kinds.
                for item in [one, other].into_iter().filter_map(Value::as_object_mut) {
                    item.remove("apiVersion");
                    item.remove("kind");
                }
            }
            return;
        }
        let text = |part: &Value| part.as_str().unwrap_or_default().to_owned();
        let name = format!(
            "{}/{}",
            text(&ours["kind"]),
            text(&ours["metadata"]["name"])
        );
        for (index, entry) in self.entries.iter().enumerate() {
            let excepted = entry.except.as_ref().is_some_and(|it| it.is_match(&name));
            if excepted || !entry.object.is_match(&name) {
                continue;
            }
            let before = (kro.clone(), ours.clone());
            take(kro, &entry.path);
            take(ours, &entry.path);
            let count = |kro: &Value, ours: &Value| {
                let mut found = Vec::new();
                differences(kro, ours, String::new(), &mut found);
                found.len()
            };
            if count(&before.0, &before.1) != count(kro, ours) {
                self.used.lock().expect("nobody panicked").insert(index);
            }
        }
    }

    /// Returns the entries that have hidden nothing.
    pub(super) fn idle(&self) -> Vec<usize> {
        let used = self.used.lock().expect("nobody panicked");
        (0..self.entries.len())
            .filter(|it| !used.contains(it))
            .collect()
    }
}

/// Removes what a path leads to.
fn take(value: &mut Value, path: &[String]) {
    let Some((first, rest)) = path.split_first() else {
        return;
    };
    let first = first.replace("~1", "/");
    match value {
        Value::Object(fields) if rest.is_empty() => {
            fields.remove(&first);
        }
        Value::Object(fields) => {
            if let Some(field) = fields.get_mut(&first) {
                take(field, rest);
                // Absent and empty are the same.
                if field.as_object().is_some_and(Map::is_empty) {
                    fields.remove(&first);
                }
            }
        }
        Value::Array(items) if first == "*" => items.iter_mut().for_each(|item| take(item, rest)),
        _ => {}
    }
}
