//! Runs the simple tests.
//!
//! Every test runs unless it needs what this crate does not have on purpose (protocol buffers,
//! namespaces, libraries outside of kro and Kubernetes). A test that runs must pass or be named in
//! `expected_failures.txt` with its reason; a named test that passes fails the suite too,
//! so that the list never grows stale.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use wheelhouse_cel::{Bindings, Budget, DeclType, Declarations, Environment, Program, Value};

use super::literal;
use super::textproto::{Field, Message};

/// What became of one test.
enum Outcome {
    Pass,
    Fail(String),
    Skip(&'static str),
}

fn corpus() -> PathBuf {
    let root = std::env::var_os("WHEELHOUSE_CORPUS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus"),
        PathBuf::from,
    );
    root.join("cel-spec")
}

#[test]
fn the_simple_tests_of_the_specification_pass() {
    let folder = corpus();
    let Ok(entries) = fs::read_dir(&folder) else {
        println!("skipped: corpus absent");
        return;
    };
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|ext| ext == "textproto"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "the corpus folder has tests");

    let expected = expected_failures();
    let mut unexpected = Vec::new();
    let mut stale: Vec<&str> = expected.keys().map(String::as_str).collect();
    let (mut passed, mut failed) = (0, 0);
    let mut skipped: BTreeMap<&str, usize> = BTreeMap::new();
    for path in files {
        let file = path
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let text = fs::read_to_string(&path).expect("a readable file");
        for (name, test) in tests(&file, &Message::parse(&text)) {
            match run(&file, &test) {
                Outcome::Pass => passed += 1,
                Outcome::Skip(reason) => *skipped.entry(reason).or_default() += 1,
                Outcome::Fail(why) => {
                    failed += 1;
                    if expected.contains_key(&name) {
                        stale.retain(|known| *known != name);
                    } else {
                        unexpected.push(format!("{name}: {why}"));
                    }
                }
            }
        }
    }
    let skip_count: usize = skipped.values().sum();
    println!("cel-spec: {passed} passed, {failed} failed, {skip_count} skipped");
    for (reason, count) in &skipped {
        println!("  skipped {count}: {reason}");
    }
    assert!(
        unexpected.is_empty(),
        "unexpected:\n{}",
        unexpected.join("\n")
    );
    assert!(stale.is_empty(), "these pass now: {stale:?}");
    assert!(passed > 1000, "the corpus was read");
}

/// The names of the tests that are known to fail, with their reasons.
fn expected_failures() -> BTreeMap<String, String> {
    include_str!("expected_failures.txt")
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let (name, reason) = line.split_once(": ").expect("a name and a reason");
            (name.to_owned(), reason.to_owned())
        })
        .collect()
}

fn tests(file: &str, suite: &Message) -> Vec<(String, Message)> {
    let mut tests = Vec::new();
    for section in suite.all("section").filter_map(Field::message) {
        let name = section.text("name").unwrap_or_default();
        for test in section.all("test").filter_map(Field::message) {
            let test_name = test.text("name").unwrap_or_default();
            tests.push((format!("{file}/{name}/{test_name}"), test.clone()));
        }
    }
    tests
}

fn run(file: &str, test: &Message) -> Outcome {
    if let Some(reason) = skip_reason(file, test) {
        return Outcome::Skip(reason);
    }
    let source = test.text("expr").expect("an expression");
    let mut declarations = Declarations::new();
    for variable in test.all("type_env").filter_map(Field::message) {
        let name = variable.text("name").expect("a name");
        let ty = variable
            .message("ident")
            .and_then(|ident| ident.message("type"))
            .and_then(decl_type);
        match ty {
            Some(ty) => declarations.declare(name, ty),
            None => return Outcome::Skip("declares a message type or a function"),
        };
    }
    let mut sources = Vec::new();
    for binding in test.all("bindings").filter_map(Field::message) {
        let name = binding.text("key").expect("a name");
        let value = binding
            .message("value")
            .and_then(|value| value.message("value"))
            .and_then(literal::value);
        match value {
            Some(value) => sources.push((name, value)),
            None => return Outcome::Skip("binds a message"),
        }
    }
    let environment = Environment::kro_with_omit();
    let program = if test.is_true("disable_check") {
        environment.compile_unchecked(&source)
    } else {
        environment.compile(&source, &declarations)
    };
    check(test, &program.map_err(|error| error.message), &sources)
}

fn check(
    test: &Message,
    program: &Result<Program, String>,
    sources: &[(String, String)],
) -> Outcome {
    let values: Vec<(String, Value<'static>)> = sources
        .iter()
        .map(|(name, source)| (name.clone(), evaluate(source)))
        .collect();
    let mut bindings = Bindings::new();
    for (name, value) in &values {
        bindings.value(name, value.clone());
    }
    if let Some(typed) = test.message("typed_result") {
        let program = match program {
            Ok(program) => program,
            Err(error) => return Outcome::Fail(error.clone()),
        };
        let Some(want) = typed.message("deduced_type").and_then(literal::type_text) else {
            return Outcome::Skip("deduces a message type");
        };
        let got = program.result_type().to_string();
        if got != want {
            return Outcome::Fail(format!("type {got}, want {want}"));
        }
        if test.is_true("check_only") {
            return Outcome::Pass;
        }
        return match typed.message("result") {
            Some(want) => compare(program, &bindings, want),
            None => Outcome::Pass,
        };
    }
    let fails = test.get("eval_error").is_some() || test.get("any_eval_errors").is_some();
    match (program, test.message("value")) {
        (Err(_), _) if fails => Outcome::Pass,
        (Err(error), _) => Outcome::Fail(error.clone()),
        (Ok(program), _) if fails => match program.evaluate(&bindings, Budget::default()) {
            Ok(value) => Outcome::Fail(format!("yields {value:?}, want an error")),
            Err(_) => Outcome::Pass,
        },
        (Ok(program), Some(want)) => compare(program, &bindings, want),
        (Ok(program), None) => match program.evaluate(&bindings, Budget::default()) {
            Ok(value) if value.as_bool() == Some(true) => Outcome::Pass,
            other => Outcome::Fail(format!("{other:?}, want true")),
        },
    }
}

/// Compares a result with the wanted value by asking CEL whether they are the same.
fn compare(program: &Program, bindings: &Bindings<'_>, want: &Message) -> Outcome {
    let Some(want) = literal::value(want) else {
        return Outcome::Skip("wants a message");
    };
    let got = match program.evaluate(bindings, Budget::default()) {
        Ok(got) => got,
        Err(error) => return Outcome::Fail(error.message),
    };
    let same = "type(got) == type(want) && (got == want || (got != got && want != want))";
    let same = Environment::kro()
        .compile_unchecked(same)
        .expect("compiles");
    let want = evaluate(&want);
    let mut bindings = Bindings::new();
    bindings
        .value("got", got.clone())
        .value("want", want.clone());
    match same.evaluate(&bindings, Budget::default()) {
        Ok(same) if same.as_bool() == Some(true) => Outcome::Pass,
        _ => Outcome::Fail(format!("yields {got:?}, want {want:?}")),
    }
}

fn evaluate(source: &str) -> Value<'static> {
    Environment::kro()
        .compile_unchecked(source)
        .unwrap_or_else(|error| panic!("{source}: {error}"))
        .evaluate(&Bindings::new(), Budget::default())
        .unwrap_or_else(|error| panic!("{source}: {error}"))
}

fn skip_reason(file: &str, test: &Message) -> Option<&'static str> {
    match file {
        "block_ext" => return Some("cel.@block is written by an optimizer only"),
        "math_ext" => return Some("neither kro nor Kubernetes has the math extension"),
        "enums" | "proto2" | "proto2_ext" | "proto3" | "wrappers" => {
            return Some("protocol buffers");
        }
        _ => {}
    }
    if test.is_true("disable_macros") {
        return Some("macros cannot be turned off");
    }
    let container = test.text("container").unwrap_or_default();
    if container.contains("proto") {
        return Some("protocol buffers");
    }
    if !container.is_empty() {
        return Some("namespaces");
    }
    let source = test.text("expr").unwrap_or_default();
    let messages = ["google.protobuf.", "TestAllTypes", "cel.expr.conformance"];
    let uses_messages = messages.iter().any(|name| source.contains(name));
    let only_types = source.contains("google.protobuf.Timestamp)")
        || source.contains("== google.protobuf.")
        || source == "google.protobuf.Timestamp"
        || source == "google.protobuf.Duration";
    (uses_messages && !only_types).then_some("protocol buffers")
}

fn decl_type(ty: &Message) -> Option<DeclType> {
    let (kind, field) = ty.fields().first()?;
    let inner = |name| decl_type(field.message()?.message(name)?);
    Some(match (kind.as_str(), field) {
        ("dyn", _) => DeclType::Dyn,
        ("null", _) => DeclType::Null,
        ("primitive", Field::Word(word)) => match word.as_str() {
            "BOOL" => DeclType::Bool,
            "INT64" => DeclType::Int,
            "UINT64" => DeclType::Uint,
            "DOUBLE" => DeclType::Double,
            "STRING" => DeclType::String,
            "BYTES" => DeclType::Bytes,
            _ => return None,
        },
        ("well_known", Field::Word(word)) => match word.as_str() {
            "TIMESTAMP" => DeclType::Timestamp,
            "DURATION" => DeclType::Duration,
            _ => return None,
        },
        ("list_type", _) => DeclType::list(inner("elem_type")?),
        ("map_type", _) => DeclType::map(inner("key_type")?, inner("value_type")?),
        ("abstract_type", Field::Message(of)) if of.text("name")? == "optional_type" => {
            let param = of.all("parameter_types").next()?.message()?;
            DeclType::optional(decl_type(param)?)
        }
        _ => return None,
    })
}
