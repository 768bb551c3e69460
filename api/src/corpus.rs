//! The types against what people wrote: examples of kro and definitions in the wild. Where the corpus is absent,
//! the tests say so and pass.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::crd::CustomResourceDefinition;
use crate::kro::ResourceGraphDefinition;

fn corpus(part: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("WHEELHOUSE_CORPUS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus"),
        PathBuf::from,
    );
    let folder = folder.join(part);
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: corpus absent ({})", folder.display());
    None
}

fn documents(folder: &Path) -> Vec<(PathBuf, Value)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "yaml") {
                let text = std::fs::read_to_string(&path).unwrap();
                // Some repeat a key; the last one wins, as in Kubernetes.
                let options = serde_saphyr::options! {
                    duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::LastWins,
                };
                let documents: Vec<Value> =
                    serde_saphyr::from_multiple_with_options(&text, options).unwrap();
                for document in documents {
                    found.push((path.clone(), document));
                }
            }
        }
    }
    found
}

/// Lists what is in `sent` and not, or not so, in `kept`. What is null or empty may be left out.
fn lost(sent: &Value, kept: Option<&Value>, path: &str, losses: &mut Vec<String>) {
    let is_empty = match sent {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    };
    match (sent, kept) {
        (_, None) if is_empty => {}
        (Value::Null, Some(Value::Object(kept))) if kept.is_empty() => {}
        (Value::Object(sent), Some(Value::Object(kept))) => {
            for (key, value) in sent {
                lost(value, kept.get(key), &format!("{path}.{key}"), losses);
            }
        }
        (Value::Array(sent), Some(Value::Array(kept))) if sent.len() == kept.len() => {
            for (index, (sent, kept)) in sent.iter().zip(kept).enumerate() {
                lost(sent, Some(kept), &format!("{path}[{index}]"), losses);
            }
        }
        (sent, Some(kept)) if sent == kept => {}
        (sent, kept) => losses.push(format!("{path}: {sent} became {kept:?}")),
    }
}

#[test]
fn no_definition_of_a_graph_loses_what_its_author_wrote() {
    let Some(folder) = corpus("kro-examples") else {
        return;
    };
    let mut count = 0;
    for (path, sent) in documents(&folder) {
        if sent["kind"] != "ResourceGraphDefinition" {
            continue;
        }
        count += 1;
        let definition = ResourceGraphDefinition::from_value(&sent)
            .unwrap_or_else(|status| panic!("{}: {status}", path.display()));
        let mut losses = Vec::new();
        lost(&sent, Some(&definition.to_value()), "", &mut losses);
        // kro's server refuses these two fields; they stand beside `metadata` by mistake.
        losses.retain(|loss| {
            !loss.contains(".externalRef.name") && !loss.contains(".externalRef.namespace")
        });
        assert!(losses.is_empty(), "{}: {losses:#?}", path.display());
    }
    assert!(count > 50, "{count} definitions");
}

#[test]
fn no_definition_of_a_resource_loses_what_its_author_wrote() {
    let Some(folder) = corpus("crds") else { return };
    let mut count = 0;
    for (path, sent) in documents(&folder) {
        if sent["kind"] != "CustomResourceDefinition" {
            continue;
        }
        count += 1;
        let definition = CustomResourceDefinition::from_value(&sent)
            .unwrap_or_else(|status| panic!("{}: {status}", path.display()));
        let mut losses = Vec::new();
        lost(&sent, Some(&definition.to_value()), "", &mut losses);
        assert!(losses.is_empty(), "{}: {losses:#?}", path.display());
    }
    assert!(count > 50, "{count} definitions");
}
