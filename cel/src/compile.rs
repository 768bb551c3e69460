//! From text to a program.
//!
//! The way is: bound the length and the depth of the text, parse it, then expand macros, check
//! types and build the tree in one walk. All issues of a stage are reported together, and a later
//! stage is reached only without issues.
//!
//! Compiling the deepest expression that is allowed takes about 1 MiB of stack without
//! optimization, nearly all of it in the parser; evaluating takes less.
//!
//! Source: `cel-go/cel/env.go` for the order of the stages.

use std::cell::RefCell;
use std::collections::HashMap;
use std::error::Error as _;
use std::rc::Rc;
use std::sync::Arc;

use cel::Env;
use cel::common::ast::{IdedExpr, SourceInfo};
use cel::parser::{ParseError, ParseErrors};

use crate::declarations::Declarations;
use crate::environment::Environment;
use crate::error::{CompileError, CompileErrorKind};
use crate::program::{Program, Uses};

mod calls;
mod guard;
mod literals;
mod lower;
mod macros;
mod names;
mod objects;
mod operators;
mod source;
mod unify;

use lower::{Lowering, Names};
use source::{Issue, Source};

/// What an expression uses, read without declarations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// The variables, functions and paths.
    pub uses: Uses,
    /// The functions that do not exist and are called alone, `f(x)`, in order, once each.
    pub unknown_functions: Vec<String>,
    /// The functions that do not exist and are called on a receiver, `x.f()`, in order, once each.
    pub unknown_members: Vec<String>,
}

/// An environment that parses each text once: the expressions of a definition are inspected before they are compiled, and
/// parsing is most of the work.
#[derive(Debug)]
pub struct Reader {
    environment: Arc<Environment>,
    parsed: RefCell<HashMap<String, Rc<Parsed>>>,
}

/// An expression, and where its parts are in the text.
#[derive(Debug)]
struct Parsed {
    expr: IdedExpr,
    positions: SourceInfo,
}

// === impl Reader ===

impl Reader {
    /// Makes a reader that has not read anything.
    pub fn new(environment: Arc<Environment>) -> Self {
        Self {
            environment,
            parsed: RefCell::default(),
        }
    }

    /// As [`Environment::inspect`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn inspect(&self, text: &str) -> Result<Inspection, CompileError> {
        inspect(&self.environment, text, &*self.parse(text)?)
    }

    /// As [`Environment::compile`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn compile(
        &self,
        text: &str,
        declarations: &Declarations,
    ) -> Result<Program, CompileError> {
        let parsed = self.parse(text)?;
        compile(&self.environment, text, &parsed, Some(declarations))
    }

    fn parse(&self, text: &str) -> Result<Rc<Parsed>, CompileError> {
        if let Some(parsed) = self.parsed.borrow().get(text) {
            return Ok(Rc::clone(parsed));
        }
        let parsed = Rc::new(parse(Source::new(text), text)?);
        let mut known = self.parsed.borrow_mut();
        known.insert(text.to_owned(), Rc::clone(&parsed));
        Ok(parsed)
    }
}

// === impl Environment ===

impl Environment {
    /// Compiles an expression.
    ///
    /// # Errors
    ///
    /// The expression does not parse, is too long or too deep, names what is not declared, or its
    /// types do not fit.
    pub fn compile(
        &self,
        source: &str,
        declarations: &Declarations,
    ) -> Result<Program, CompileError> {
        let parsed = parse(Source::new(source), source)?;
        compile(self, source, &parsed, Some(declarations))
    }

    /// Compiles an expression without declarations: every name is a variable, and types are judged
    /// when the expression is evaluated.
    ///
    /// # Errors
    ///
    /// The expression does not parse, is too long or too deep, or calls a function that does not
    /// exist.
    pub fn compile_unchecked(&self, source: &str) -> Result<Program, CompileError> {
        let parsed = parse(Source::new(source), source)?;
        compile(self, source, &parsed, None)
    }

    /// Reads an expression without declarations: which names and functions does it use?
    ///
    /// # Errors
    ///
    /// The expression does not parse, or is too long or too deep.
    pub fn inspect(&self, source: &str) -> Result<Inspection, CompileError> {
        inspect(self, source, &parse(Source::new(source), source)?)
    }
}

/// Compiles an expression against declarations, or without any.
fn compile(
    environment: &Environment,
    text: &str,
    parsed: &Parsed,
    declarations: Option<&Declarations>,
) -> Result<Program, CompileError> {
    let names = declarations.map_or(Names::Any, Names::Declared);
    let mut lowering = Lowering::new(environment, names, Source::new(text), &parsed.positions);
    let (mut node, ty) = lowering.lower(&parsed.expr);
    // What a call yields may be known only by what stands around it: `o.flatten().sum()` sums integers.
    node.for_each_type(&mut |ty| *ty = lowering.mapping.resolve(ty));
    let (ty, uses) = lowering.finish(&ty)?;
    let flattens = !environment.rules().kro;
    Ok(Program::new(text, node, ty, uses, flattens))
}

/// Reads what an expression uses.
fn inspect(
    environment: &Environment,
    text: &str,
    parsed: &Parsed,
) -> Result<Inspection, CompileError> {
    let source = Source::new(text);
    let mut lowering = Lowering::new(environment, Names::Any, source, &parsed.positions);
    drop(lowering.lower(&parsed.expr));
    lowering.inspected()
}

fn parse(source: Source<'_>, text: &str) -> Result<Parsed, CompileError> {
    if let Some(refusal) = guard::refusal(text) {
        let issue = Issue::new(1, 1, refusal);
        return Err(source.error(vec![issue], CompileErrorKind::Limit));
    }
    // An environment of the parser crate without its macros leaves macros as calls, for us.
    let parsed = Env::default()
        .with_optional_support(true)
        .parser()
        .enable_ident_escape_syntax(true)
        .parse_with_source_info(text);
    let (expr, positions) = parsed.map_err(|errors| parse_error(source, &errors))?;
    Ok(Parsed { expr, positions })
}

fn parse_error(source: Source<'_>, errors: &ParseErrors) -> CompileError {
    let too_deep = errors.errors.iter().any(is_recursion_limit);
    if too_deep {
        let issue = Issue::new(1, 1, "expression recursion limit exceeded");
        return source.error(vec![issue], CompileErrorKind::Limit);
    }
    let issues = errors
        .errors
        .iter()
        .map(|error| {
            let (line, column) = error.pos;
            let at_least_one = |number: isize| usize::try_from(number).unwrap_or(1).max(1);
            Issue::new(at_least_one(line), at_least_one(column), error.msg.as_str())
        })
        .collect();
    source.error(issues, CompileErrorKind::Syntax)
}

/// The parser crate reports its own depth limit as the cause of an unknown error.
fn is_recursion_limit(error: &ParseError) -> bool {
    let mut cause = error.source();
    if let Some(source) = &error.source {
        cause = Some(&**source);
    }
    error.msg.contains("Recursion limit")
        || cause.is_some_and(|cause| cause.to_string().contains("Recursion limit"))
}
