//! JSON Patch: the `json-patch` crate against the vectors of json-patch/json-patch-tests.

use std::path::PathBuf;

use serde_json::Value;

/// Vectors that the crate answers otherwise, by comment or description, with the reason why that is accepted.
const AGREED: &[(&str, &str)] = &[];

fn corpus() -> Result<PathBuf, String> {
    let folder = std::env::var_os("WHEELHOUSE_CORPUS").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus"),
        PathBuf::from,
    );
    let folder = folder.join("json-patch");
    if folder.is_dir() {
        return Ok(folder);
    }
    Err(format!("skipped: corpus absent ({})", folder.display()))
}

fn name(vector: &Value) -> &str {
    let name = vector.get("comment").or_else(|| vector.get("description"));
    name.and_then(Value::as_str)
        .unwrap_or("a vector without a name")
}

/// Applies the patch; what cannot be read as one counts as an error too.
fn patched(vector: &Value) -> Result<Value, String> {
    let patch: json_patch::Patch =
        serde_json::from_value(vector["patch"].clone()).map_err(|error| error.to_string())?;
    let mut document = vector["doc"].clone();
    json_patch::patch(&mut document, &patch).map_err(|error| error.to_string())?;
    Ok(document)
}

#[test]
fn patches_are_applied_as_the_vectors_say() {
    let folder = match corpus() {
        Ok(folder) => folder,
        Err(skipped) => return println!("{skipped}"),
    };
    let mut count = 0;
    let mut unexpected = Vec::new();
    for file in ["tests.json", "spec_tests.json"] {
        let text = std::fs::read_to_string(folder.join(file)).expect("the corpus is readable");
        let vectors: Vec<Value> = serde_json::from_str(&text).expect("the vectors are JSON");
        for vector in vectors
            .iter()
            .filter(|vector| vector.get("patch").is_some())
        {
            if vector["disabled"] == true {
                continue;
            }
            count += 1;
            let result = patched(vector);
            let agrees = match (&result, vector.get("expected")) {
                (Ok(document), Some(expected)) => document == expected,
                // A vector without either says that the patch applies.
                (Ok(_), None) => vector.get("error").is_none(),
                (Err(_), expected) => vector.get("error").is_some() && expected.is_none(),
            };
            let agreed = AGREED.iter().any(|(known, _)| *known == name(vector));
            if agrees == agreed {
                unexpected.push(format!(
                    "{file}: {}: {vector} gave {result:?}",
                    name(vector)
                ));
            }
        }
    }
    assert!(unexpected.is_empty(), "{}", unexpected.join("\n"));
    assert!(count > 100, "only {count} vectors were found");
}
