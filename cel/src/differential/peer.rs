//! cel-go as a process (`cel/peer`), and what it and we say of one expression.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::render::{render, type_text};
use crate::{Bindings, Budget, DeclType, Declarations, Environment, EvaluateError, Sizes};

/// The variables of every expression, with the types that both sides declare them as.
pub(super) const VARIABLES: [(&str, &str); 8] = [
    ("i", "int"),
    ("s", "string"),
    ("b", "bool"),
    ("d", "double"),
    ("li", "list(int)"),
    ("ls", "list(string)"),
    ("m", "map(string,int)"),
    ("o", "dyn"),
];

/// As kube-apiserver gives a rule.
const CALL_COST_MAX: u64 = 1_000_000;
const STEPS: u64 = 10 * CALL_COST_MAX;

/// What comes of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) class: String,
    pub(super) ty: String,
    pub(super) value: String,
    /// What it may cost, by its text.
    pub(super) cost: Option<u64>,
    /// What it has cost.
    pub(super) spent: Option<u64>,
    pub(super) error: String,
}

/// A running peer.
pub(super) struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    variables: Json,
}

/// Our side.
pub(super) struct Ours {
    pub(super) environment: Arc<Environment>,
    declarations: Declarations,
    values: Vec<(&'static str, Json)>,
    sizes: Option<Sizes>,
}

pub(super) fn declared() -> Vec<(&'static str, DeclType)> {
    let types = [
        DeclType::Int,
        DeclType::String,
        DeclType::Bool,
        DeclType::Double,
        DeclType::list(DeclType::Int),
        DeclType::list(DeclType::String),
        DeclType::map(DeclType::String, DeclType::Int),
        DeclType::Dyn,
    ];
    let names = VARIABLES.iter().map(|(name, _)| *name);
    names.zip(types).collect()
}

fn values() -> Vec<(&'static str, Json)> {
    let object = json!({
        "a": 1, "b": [1, "x", null, {"c": 2.5}], "e": {}, "n": null, "t": true, "é": "ü", "big": i64::MAX,
        "m": {"x": {"y": "z"}}, "d": 1.5, "l": [3, 1, 2], "when": "2024-02-29T12:00:00Z",
    });
    let values = [
        json!(7),
        json!("h\u{e9}llo W\u{f6}rld \u{1f600}"),
        json!(true),
        json!(2.5),
        json!([3, 1, 2]),
        json!(["b", "a", "\u{e9}"]),
        json!({"x": 1, "y": 2}),
        object,
    ];
    let names = VARIABLES.iter().map(|(name, _)| *name);
    names.zip(values).collect()
}

// === impl Peer ===

impl Peer {
    pub(super) fn start(program: &Path) -> Self {
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the peer starts");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let values = values().into_iter().zip(VARIABLES);
        let variables = values.map(|((name, value), (_, ty))| {
            let variable = json!({"type": ty, "value": value});
            (name.to_owned(), variable)
        });
        Self {
            child,
            input,
            output,
            variables: Json::Object(variables.collect()),
        }
    }

    pub(super) fn ask(&mut self, expression: &str) -> Outcome {
        let question = json!({"expression": expression, "variables": self.variables});
        writeln!(self.input, "{question}").expect("the peer listens");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the peer answers");
        let reply: Json = serde_json::from_str(&line).expect("an answer in JSON");
        let text = |name: &str| reply[name].as_str().unwrap_or_default().to_owned();
        Outcome {
            class: class(text("class"), &text("error")),
            ty: text("type"),
            value: text("value"),
            cost: reply["cost"].as_u64(),
            spent: reply["spent"].as_u64(),
            error: text("error"),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// An error at run time with its class, which follows from the text.
fn class(class: String, error: &str) -> String {
    match class.as_str() {
        "runtime-error" if error.contains("actual cost limit exceeded") => {
            "runtime-error:Cost".to_owned()
        }
        "runtime-error" => format!("runtime-error:{:?}", EvaluateError::new(error).class),
        _ => class,
    }
}

// === impl Ours ===

impl Ours {
    /// Makes our side; with `costs`, of variables that hold at most ten of everything, as the peer's do.
    pub(super) fn new(environment: Arc<Environment>, costs: bool) -> Self {
        let mut declarations = Declarations::new();
        for (name, ty) in declared() {
            declarations.declare(name, ty);
        }
        let sizes = (0..12).fold(None, |element, _| {
            Some(Sizes {
                max: 10,
                element: element.map(Box::new),
                ..Sizes::default()
            })
        });
        Self {
            environment,
            declarations,
            values: values(),
            sizes: sizes.filter(|_| costs),
        }
    }

    pub(super) fn ask(&self, expression: &str) -> Outcome {
        let mut outcome = Outcome {
            class: "compile-error".to_owned(),
            ty: String::new(),
            value: String::new(),
            cost: None,
            spent: None,
            error: String::new(),
        };
        let program = match self.environment.compile(expression, &self.declarations) {
            Ok(program) => program,
            Err(error) => {
                outcome.error = error.message;
                return outcome;
            }
        };
        outcome.ty = type_text(program.result_type());
        outcome.cost = self
            .sizes
            .as_ref()
            .map(|sizes| program.cost(&self.declarations, sizes));
        let mut bindings = Bindings::new();
        for (name, value) in &self.values {
            bindings.json(name, value);
        }
        let mut budget = Budget::steps(STEPS).with_cost(CALL_COST_MAX);
        let value = program.evaluate_within(&bindings, &mut budget);
        outcome.spent = self.sizes.as_ref().map(|_| budget.cost());
        match value.and_then(|value| render(&value).map_err(EvaluateError::from)) {
            Ok(value) => {
                outcome.class = "ok".to_owned();
                outcome.value = value;
            }
            Err(error) => {
                outcome.class = format!("runtime-error:{:?}", error.class);
                outcome.error = error.message;
            }
        }
        outcome
    }
}
