//! YAML, read as the JSON that it stands for, and written.
//!
//! The one place that calls a YAML parser: what a text may cost is decided here, and its code is compiled once. Plain `y`, `yes`, `on`
//! and their opposites are booleans, also as keys, of which JSON makes the texts `true` and `false`: so kubectl and kube-apiserver
//! read them.
//!
//! Source: `sigs.k8s.io/yaml/yaml.go` (convertToJSONableObject).
//!
//! **Invariant:** no error of [`Aliases::Refused`] and [`Aliases::Few`] shows any of the text, which may hold a credential.

use serde::de::Deserialize;
use serde_json::Value;
use serde_saphyr::{Error as ParseError, Options, options::DuplicateKeyPolicy};

mod noted;
mod placed;

use noted::Noted;
pub use placed::{Place, Placed, Step, placed_documents};

/// What aliases may add to a text of [`Aliases::Few`]: a certificate that two clusters share is one event.
const ALIAS_EVENTS_MAX: usize = 1000;
/// What is kept for them: everything behind an anchor, once for each anchor around it.
const ANCHOR_EVENTS_MAX: usize = 10_000;

/// Why a text is not YAML, or cannot be written as YAML.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct YamlError(String);

/// How much longer than its text a document may become by aliases: those of aliases make seconds of work of four hundred bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aliases {
    /// None is allowed: the text is anybody's.
    Refused,
    /// A few: the text is somebody's configuration.
    Few,
    /// As the parser allows by itself, and errors show the lines: the text is the caller's own file.
    Trusted,
}

/// One document, and what Go prints of keys that stand in it repeatedly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The document; of equal keys it has the last one's value.
    pub value: Value,
    /// Each repeated key, `line 11: key "foo" already set in map`.
    pub duplicates: Vec<String>,
}

/// Reads all documents of a text. Keys that stand in a map twice are an error.
///
/// # Errors
/// Returns an error where the text is not YAML, or has more aliases than it may.
pub fn documents(text: &str, aliases: Aliases) -> Result<Vec<Value>, YamlError> {
    let read = serde_saphyr::from_multiple_with_options::<Noted>(text, options(aliases));
    let read = read.map_err(failed)?.into_iter();
    Ok(read.map(|noted| noted.value).collect())
}

/// Reads a text that is one document. Keys that stand in a map twice are an error.
///
/// # Errors
/// As [`documents`], and where there are several.
pub fn document(text: &str, aliases: Aliases) -> Result<Value, YamlError> {
    let read = serde_saphyr::from_str_with_options::<Noted>(text, options(aliases));
    read.map(|noted| noted.value).map_err(failed)
}

/// Reads the first document of a text; what follows it is not read, as in Kubernetes. No alias is allowed. Of keys that stand in a map
/// twice, the last value is taken, and all of them are named in go-yaml's words: the line of the later value, after what is said of that
/// value itself. Where keys are numbers, the parser keeps the last of equal ones to itself.
///
/// Source: `sigs.k8s.io/yaml/goyaml.v2/decode.go` (setMapIndex).
///
/// # Errors
/// Returns an error where the document is not YAML, or has an alias.
pub fn first_document(text: &[u8]) -> Result<Document, YamlError> {
    let text = first_of(text);
    match read::<Noted>(text, DuplicateKeyPolicy::Error) {
        Ok(noted) => Ok(Document {
            value: noted.value,
            duplicates: noted.texts,
        }),
        Err(ParseError::DuplicateMappingKey { .. }) => {
            let noted = read::<Noted>(text, DuplicateKeyPolicy::LastWins).map_err(failed)?;
            Ok(Document {
                value: noted.value,
                duplicates: noted.texts,
            })
        }
        Err(error) => Err(failed(error)),
    }
}

/// Writes a value as one document.
///
/// # Errors
/// Returns an error where the value cannot be written.
pub fn to_string(value: &Value) -> Result<String, YamlError> {
    serde_saphyr::to_string(value).map_err(|error| YamlError(error.to_string()))
}

fn options(aliases: Aliases) -> Options {
    let mut options = Options::default();
    options.with_snippet = aliases == Aliases::Trusted;
    match aliases {
        Aliases::Trusted => {}
        Aliases::Few => {
            options.alias_limits.max_total_replayed_events = ALIAS_EVENTS_MAX;
            if let Some(budget) = &mut options.budget {
                budget.max_recorded_anchor_events = ANCHOR_EVENTS_MAX;
            }
        }
        Aliases::Refused => options.alias_limits.max_total_replayed_events = 0,
    }
    options
}

fn read<T: for<'de> Deserialize<'de>>(
    text: &[u8],
    duplicate_keys: DuplicateKeyPolicy,
) -> Result<T, ParseError> {
    let mut options = options(Aliases::Refused);
    options.duplicate_keys = duplicate_keys;
    serde_saphyr::from_slice_with_options(text, options)
}

#[expect(clippy::needless_pass_by_value, reason = "called by map_err")]
fn failed(error: ParseError) -> YamlError {
    YamlError(error.to_string())
}

/// Returns a text up to the marker that ends its first document. A marker at the start of a line is one wherever it stands, in the middle of a
/// scalar too.
///
/// Source: YAML 1.2.2, sections 9.1.2 (document markers) and 9.2 (documents).
fn first_of(bytes: &[u8]) -> &[u8] {
    let is_marker = |line: &[u8], marker: &[u8]| {
        line.strip_prefix(marker)
            .is_some_and(|rest| rest.first().is_none_or(u8::is_ascii_whitespace))
    };
    let (mut start, mut begun) = (0, false);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let ends = is_marker(line, b"---") || is_marker(line, b"...");
        if ends && begun {
            return bytes.get(..start).unwrap_or(bytes);
        }
        let text = line.trim_ascii();
        let says_nothing = text.is_empty() || matches!(line.first(), Some(b'#' | b'%'));
        begun |= is_marker(line, b"---") || (!ends && !says_nothing);
        start += line.len();
    }
    bytes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plain_keys_are_what_go_makes_of_them() {
        let text = "n: 1\n'y': yes\non: \"no\"\n7: x\n";
        let want = json!({"false": 1, "y": true, "true": "no", "7": "x"});
        assert_eq!(document(text, Aliases::Few), Ok(want.clone()));
        assert_eq!(documents(text, Aliases::Trusted), Ok(vec![want.clone()]));
        let read = first_document(text.as_bytes()).unwrap();
        assert_eq!((read.value, read.duplicates.len()), (want, 0));
        let twice = first_document(b"y: 1\non: 2\n").unwrap();
        assert_eq!(twice.value, json!({"true": 2}), "the last one, as in Go");
    }

    #[test]
    fn documents_become_values() {
        let text = "a: 1\n---\n- x\n";
        assert_eq!(
            documents(text, Aliases::Few),
            Ok(vec![json!({"a": 1}), json!(["x"])])
        );
        assert!(
            document(text, Aliases::Few).is_err(),
            "two documents are not one"
        );
        assert_eq!(to_string(&json!({"a": [1]})).as_deref(), Ok("a:\n- 1\n"));
    }

    /// Fuzzing ran into its limit of time: each line of aliases multiplies the one before by nine.
    #[test]
    fn aliases_do_not_multiply() {
        let line = |n: i32| {
            let aliases = vec![format!("*a{}", n - 1); 9].join(",");
            format!("a{n}: &a{n} [{aliases}]")
        };
        let lines: Vec<_> = (1..9).map(line).collect();
        let bomb = format!("a0: &a0 [x,x,x,x,x,x,x,x,x]\n{}\n", lines.join("\n"));
        let nested: Vec<_> = (0..50).map(|n| format!("&a{n} [")).collect();
        let nested = format!("a: {}{}", nested.concat(), "x,".repeat(20_000));
        for text in [bomb, nested] {
            for aliases in [Aliases::Few, Aliases::Refused] {
                let error = document(&text, aliases).expect_err("must not be read");
                let told = error.to_string();
                assert!(
                    told.contains("lias") || told.contains("nchor"),
                    "{aliases:?}: {told}"
                );
            }
        }
        assert!(first_document(b"a: &x [1]\nb: *x\n").is_err(), "not one");
    }

    #[test]
    fn errors_show_nothing_of_a_configuration() {
        for aliases in [Aliases::Few, Aliases::Refused] {
            let error =
                document("users:\n- user: {token: hunter2\n", aliases).expect_err("is broken");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
}
