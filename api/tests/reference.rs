//! `docs/api.md` is made from the definitions of the kinds; a test holds it to them.
//!
//! `WHEELHOUSE_WRITE_DOCS=1 cargo test -p wheelhouse-api --test reference` writes it.

use std::{collections::BTreeSet, fmt::Write as _, fs, path::PathBuf};

use serde_json::Value;

const HEAD: &str = "\
# API reference

The kinds that a hub defines: those of kro, as kro's own definitions have them, and its own. This page is made from
the definitions that the hub serves; `kubectl explain` shows the same. The kinds that a ResourceGraphDefinition
generates are described by their definition. `KubeconfigRequest`, the kind of `spokes/NAME/kubeconfig`, is in
[authentication.md](authentication.md).

A field of a list has the fields of its items, written `field[]`; of a map those of its values, written `field{}`.
";

/// Fields of a kind, as rows of a table.
#[derive(Default)]
struct Rows(Vec<[String; 3]>);

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

/// A cell of a table: one line, in which no bar ends it.
fn cell(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace('|', "\\|")
}

/// What kind of value a field has, and what it may be.
fn type_of(schema: &Value) -> String {
    let mut words = match text(schema, "type") {
        "array" => format!("list of {}", item_of(&schema["items"])),
        "object" if schema["additionalProperties"].is_object() => {
            format!("map of {}", item_of(&schema["additionalProperties"]))
        }
        "" => "any".to_owned(),
        type_ => type_.to_owned(),
    };
    if let Some(format) = schema["format"].as_str() {
        let _infallible = write!(words, " ({format})");
    }
    words
}

fn item_of(schema: &Value) -> String {
    match type_of(schema).as_str() {
        "any" => "any".to_owned(),
        type_ if type_.starts_with("list") || type_.starts_with("map") => type_.to_owned(),
        type_ => format!("{type_}s"),
    }
}

fn notes_of(schema: &Value, is_required: bool) -> String {
    let mut notes = cell(text(schema, "description"));
    let mut add = |note: String| {
        if !notes.is_empty() {
            notes.push(' ');
        }
        notes.push_str(&cell(&note));
    };
    if is_required {
        add("Required.".to_owned());
    }
    if let Some(allowed) = schema["enum"].as_array() {
        let allowed: Vec<String> = allowed
            .iter()
            .map(|it| format!("`{}`", it.as_str().unwrap_or_default()))
            .collect();
        add(format!("One of {}.", allowed.join(", ")));
    }
    if !schema["default"].is_null() {
        add(format!("Default: `{}`.", schema["default"]));
    }
    for (keyword, word) in [("minimum", "At least"), ("maximum", "At most")] {
        if !schema[keyword].is_null() {
            add(format!("{word} {}.", schema[keyword]));
        }
    }
    for rule in schema["x-kubernetes-validations"]
        .as_array()
        .into_iter()
        .flatten()
    {
        add(format!(
            "Rule: {}.",
            text(rule, "message").trim_end_matches('.')
        ));
    }
    notes
}

// === impl Rows ===

impl Rows {
    fn add(&mut self, path: &str, schema: &Value) {
        let required: BTreeSet<&str> = schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let path = if path.is_empty() {
                name.clone()
            } else {
                format!("{path}.{name}")
            };
            let is_required = required.contains(name.as_str());
            self.0
                .push([path.clone(), type_of(field), notes_of(field, is_required)]);
            self.add(&path, field);
            self.add(&format!("{path}[]"), &field["items"]);
            self.add(&format!("{path}{{}}"), &field["additionalProperties"]);
        }
    }
}

fn kind(page: &mut String, definition: &Value) {
    let (spec, names) = (&definition["spec"], &definition["spec"]["names"]);
    for version in spec["versions"].as_array().into_iter().flatten() {
        let schema = &version["schema"]["openAPIV3Schema"];
        let short: Vec<String> = names["shortNames"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|it| format!("`{}`", it.as_str().unwrap_or_default()))
            .collect();
        let short = if short.is_empty() {
            String::new()
        } else {
            format!(" (short: {})", short.join(", "))
        };
        let _infallible = write!(
            page,
            "\n## {}\n\n`{}/{}`, resource `{}`{short}, {}\n\n{}\n\n| field | type | meaning |\n|---|---|---|\n",
            text(names, "kind"),
            text(spec, "group"),
            text(version, "name"),
            text(names, "plural"),
            if spec["scope"] == "Namespaced" {
                "namespaced"
            } else {
                "cluster-scoped"
            },
            notes_of(schema, false),
        );
        let mut rows = Rows::default();
        rows.add("", schema);
        let of_all = |path: &str| ["apiVersion", "kind", "metadata"].contains(&path);
        for [path, type_, notes] in rows.0.iter().filter(|row| !of_all(&row[0])) {
            assert!(
                !notes.is_empty(),
                "{path} of {} has a description",
                names["kind"]
            );
            let _infallible = writeln!(page, "| `{path}` | {type_} | {notes} |");
        }
    }
}

#[test]
fn the_reference_says_what_the_definitions_say() {
    let mut page = HEAD.to_owned();
    let mut definitions = wheelhouse_api::kro::definitions();
    definitions.extend(wheelhouse_api::wheelhouse::definitions());
    definitions.push(wheelhouse_api::wheelhouse::preview::definition());
    for definition in &definitions {
        kind(&mut page, definition);
    }
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/api.md");
    if std::env::var_os("WHEELHOUSE_WRITE_DOCS").is_some() {
        fs::write(&file, &page).expect("docs/api.md can be written");
    }
    let found = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        found == page,
        "docs/api.md is not what the definitions say; write it: WHEELHOUSE_WRITE_DOCS=1 cargo test -p wheelhouse-api --test reference"
    );
}
