//! The expressions of kro's own examples parse, and call nothing that does not exist.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use wheelhouse_cel::{Environment, template};

fn examples() -> Option<Vec<PathBuf>> {
    let root = std::env::var_os("WHEELHOUSE_CORPUS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus"),
        PathBuf::from,
    );
    let mut files: Vec<PathBuf> = fs::read_dir(root.join("kro-examples"))
        .ok()?
        .filter_map(|entry| entry.ok().map(|entry| entry.path().join("rgd.yaml")))
        .filter(|path| path.exists())
        .collect();
    files.sort();
    Some(files)
}

#[test]
fn the_expressions_of_kros_examples_are_understood() {
    let Some(files) = examples() else {
        println!("skipped: corpus absent");
        return;
    };
    let mut expressions = 0;
    for path in &files {
        let text = fs::read_to_string(path).expect("a readable file");
        // One example writes a key twice.
        let options = serde_saphyr::options! {
            duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
        };
        let document: Json = serde_saphyr::from_str_with_options(&text, options)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut texts = Vec::new();
        collect(&document["spec"], &mut texts);
        for text in texts {
            let parsed = template::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let Some(source) = parsed.source() else {
                continue;
            };
            expressions += 1;
            let found = Environment::kro()
                .inspect(&source)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert_eq!(found.unknown_functions, [""; 0], "{source}");
        }
    }
    println!("{expressions} expressions in {} examples", files.len());
    assert!(
        files.len() > 50 && expressions > 500,
        "{} {expressions}",
        files.len()
    );
}

fn collect<'j>(value: &'j Json, texts: &mut Vec<&'j str>) {
    match value {
        Json::String(text) => texts.push(text),
        Json::Array(items) => items.iter().for_each(|item| collect(item, texts)),
        Json::Object(fields) => fields.values().for_each(|field| collect(field, texts)),
        _ => {}
    }
}
