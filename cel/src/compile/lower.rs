//! The walk over the parsed expression: checks types and builds the tree.
//!
//! Each kind of expression yields its node and its type; an issue yields a placeholder and `dyn`,
//! so that one mistake is told once and the walk goes on.
//!
//! Source: `cel-go/checker/checker.go`.

use std::collections::BTreeSet;

use cel::common::ast::{EntryExpr, Expr, IdedExpr, ListExpr, MapExpr, SourceInfo};

use super::Inspection;
use super::source::{ISSUES_MAX, Issue, Source};
use super::unify::{Mapping, most_general};
use crate::declarations::Declarations;
use crate::environment::Environment;
use crate::error::{CompileError, CompileErrorKind};
use crate::library::Style;
use crate::node::{Element, Entry, Node};
use crate::program::{FieldPathExpr, Uses};
use crate::types::DeclType;
use crate::value::Value;

/// A node with its type.
pub(super) type Lowered = (Node, DeclType);

/// Which names there are.
#[derive(Clone, Copy, Debug)]
pub(super) enum Names<'e> {
    /// The declared ones; any other is an issue.
    Declared(&'e Declarations),
    /// Every name is a variable of any type, and types are judged when evaluated.
    Any,
}

/// One walk over one expression.
#[derive(Debug)]
pub(super) struct Lowering<'e> {
    pub(super) environment: &'e Environment,
    pub(super) names: Names<'e>,
    pub(super) mapping: Mapping,
    /// The variables of the macros around the expression, innermost last.
    pub(super) locals: Vec<(String, DeclType)>,
    pub(super) uses: Uses,
    pub(super) unknown: Unknown,
    /// Whether the walk is within a chain of names whose path is known.
    pub(super) within_chain: bool,
    /// Whether the walk is within a call of `format`, whose arguments may be of several types.
    pub(super) within_format: bool,
    /// Whether a macro with a variable was entered, which makes comparisons of mixed numbers known from there on.
    pub(super) scoped: bool,
    /// The types of the elements of the list that was lowered last.
    pub(super) elements: Vec<DeclType>,
    source: Source<'e>,
    positions: &'e SourceInfo,
    syntax: Vec<Issue>,
    types: Vec<Issue>,
    /// Types in literals that must be the same once everything is known.
    alike: Vec<Alike>,
}

/// Two elements of a literal that must be of one type.
#[derive(Debug)]
struct Alike {
    first: DeclType,
    other: DeclType,
    /// Where the other one is.
    id: u64,
    /// What the first one is part of: of a list, only the first element of another type is told.
    list: Option<u64>,
}

/// What is named but does not exist, in order.
#[derive(Debug, Default)]
pub(super) struct Unknown {
    pub(super) identifiers: Vec<String>,
    pub(super) functions: Vec<String>,
    pub(super) members: Vec<String>,
}

// === impl Lowering ===

impl<'e> Lowering<'e> {
    pub(super) fn new(
        environment: &'e Environment,
        names: Names<'e>,
        source: Source<'e>,
        positions: &'e SourceInfo,
    ) -> Self {
        Self {
            environment,
            names,
            mapping: Mapping::default(),
            locals: Vec::new(),
            uses: Uses::default(),
            unknown: Unknown::default(),
            within_chain: false,
            within_format: false,
            scoped: false,
            elements: Vec::new(),
            source,
            positions,
            syntax: Vec::new(),
            types: Vec::new(),
            alike: Vec::new(),
        }
    }

    /// Ends the walk: the type of the whole, or everything that was wrong.
    pub(super) fn finish(mut self, ty: &DeclType) -> Result<(DeclType, Uses), CompileError> {
        if !self.syntax.is_empty() {
            return Err(self.source.error(self.syntax, CompileErrorKind::Syntax));
        }
        if self.types.is_empty() {
            self.judge_literals();
        }
        if !self.types.is_empty() {
            let kind = self.unknown.kind();
            return Err(self.source.error(self.types, kind));
        }
        dedup(&mut self.uses.paths);
        Ok((self.mapping.resolve(ty), self.uses))
    }

    /// Refuses literals of lists and maps whose elements are of several types, `dyn` among them.
    ///
    /// Source: `ValidateHomogeneousAggregateLiterals` in `cel-go/cel/validator.go`.
    fn judge_literals(&mut self) {
        let mut told = BTreeSet::new();
        for alike in std::mem::take(&mut self.alike) {
            let first = self.mapping.resolve(&alike.first).to_string();
            let other = self.mapping.resolve(&alike.other).to_string();
            if first != other && alike.list.is_none_or(|list| told.insert(list)) {
                let text = format!("expected type '{first}' but found '{other}'");
                self.mistyped(alike.id, text);
            }
        }
    }

    /// Ends a walk without declarations.
    pub(super) fn inspected(mut self) -> Result<Inspection, CompileError> {
        if !self.syntax.is_empty() {
            return Err(self.source.error(self.syntax, CompileErrorKind::Syntax));
        }
        dedup(&mut self.uses.paths);
        Ok(Inspection {
            uses: self.uses,
            unknown_functions: self.unknown.functions,
            unknown_members: self.unknown.members,
        })
    }

    pub(super) fn lower(&mut self, expr: &IdedExpr) -> Lowered {
        match &expr.expr {
            Expr::Literal(literal) => super::literals::lower(literal),
            Expr::Ident(name) => self.identifier(expr.id, name),
            Expr::Select(select) => self.select(expr, select),
            Expr::Call(call) => self.call(expr.id, call),
            Expr::List(list) => self.list(list),
            Expr::Map(map) => self.map(map),
            Expr::Struct(made) => self.construct(expr.id, made),
            Expr::Comprehension(_) | Expr::Unspecified => {
                self.misused(expr.id, "unsupported expression");
                placeholder()
            }
        }
    }

    /// Takes note that two elements of a literal must be of one type, where literals are strict.
    fn must_be_alike(
        &mut self,
        (list, id): (Option<u64>, u64),
        first: &mut Option<DeclType>,
        ty: &DeclType,
    ) {
        if !self.environment.rules().strict_literals || self.within_format {
            return;
        }
        match first {
            None => *first = Some(ty.clone()),
            Some(first) => self.alike.push(Alike {
                first: first.clone(),
                other: ty.clone(),
                id,
                list,
            }),
        }
    }

    fn list(&mut self, list: &ListExpr) -> Lowered {
        let mut elements = Vec::with_capacity(list.elements.len());
        let mut types = Vec::with_capacity(list.elements.len());
        let head = list.elements.first().map(|first| first.id);
        let (mut joined, mut first): (Option<DeclType>, Option<DeclType>) = (None, None);
        // The indices are in order.
        let mut optional = list.optional_indices.iter().peekable();
        for (index, element) in list.elements.iter().enumerate() {
            let (value, mut ty) = self.lower(element);
            let optional = optional.next_if_eq(&&index).is_some();
            if optional {
                ty = self.unwrap_optional(element.id, &ty);
            }
            self.must_be_alike((head, element.id), &mut first, &ty);
            types.push(ty.clone());
            joined = Some(self.join(joined, ty));
            elements.push(Element { value, optional });
        }
        let element = joined.unwrap_or_else(|| self.mapping.fresh());
        self.elements = types;
        let ty = DeclType::list(element);
        if elements.is_empty() {
            return (Node::Empty(Box::new(ty.clone())), ty);
        }
        (Node::List(elements.into()).folded(), ty)
    }

    fn map(&mut self, map: &MapExpr) -> Lowered {
        let mut entries = Vec::with_capacity(map.entries.len());
        let (mut key_ty, mut value_ty): (Option<DeclType>, Option<DeclType>) = (None, None);
        let (mut first_key, mut first_value): (Option<DeclType>, Option<DeclType>) = (None, None);
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else {
                self.misused(entry.id, "unsupported entry of a map");
                continue;
            };
            let (key, ty) = self.lower(&entry.key);
            self.must_be_alike((None, entry.key.id), &mut first_key, &ty);
            key_ty = Some(self.join(key_ty, ty));
            let (value, mut ty) = self.lower(&entry.value);
            if entry.optional {
                ty = self.unwrap_optional(entry.value.id, &ty);
            }
            self.must_be_alike((None, entry.value.id), &mut first_value, &ty);
            value_ty = Some(self.join(value_ty, ty));
            entries.push(Entry {
                key,
                value,
                optional: entry.optional,
            });
        }
        let key = key_ty.unwrap_or_else(|| self.mapping.fresh());
        let value = value_ty.unwrap_or_else(|| self.mapping.fresh());
        let ty = DeclType::map(key, value);
        if entries.is_empty() {
            return (Node::Empty(Box::new(ty.clone())), ty);
        }
        (Node::Map(entries.into()).folded(), ty)
    }

    /// The type inside the optional that `[?a]` and `{?k: a}` want.
    pub(super) fn unwrap_optional(&mut self, id: u64, ty: &DeclType) -> DeclType {
        match self.mapping.substitute(ty) {
            DeclType::Optional(inner) => (*inner).clone(),
            DeclType::Dyn | DeclType::Param(_) => DeclType::Dyn,
            ty => {
                let wanted = DeclType::optional(ty.clone());
                self.mistyped(id, format!("expected type '{wanted}' but found '{ty}'"));
                ty
            }
        }
    }

    /// The type of a collection that already holds `previous` and takes `current`.
    fn join(&mut self, previous: Option<DeclType>, current: DeclType) -> DeclType {
        let Some(previous) = previous else {
            return current;
        };
        if self.mapping.assign(&previous, &current) {
            return match (&previous, &current) {
                (DeclType::Null, other) | (other, DeclType::Null) => other.clone(),
                _ => most_general(&previous, &current),
            };
        }
        DeclType::Dyn
    }

    /// Reports a misused macro or construct, before any question of types.
    pub(super) fn misused(&mut self, id: u64, message: impl Into<String>) {
        if self.syntax.len() < ISSUES_MAX {
            let issue = self.issue(id, message);
            self.syntax.push(issue);
        }
    }

    /// Reports types that do not fit.
    pub(super) fn mistyped(&mut self, id: u64, message: impl Into<String>) {
        if matches!(self.names, Names::Declared(_)) {
            self.wrong(id, message);
        }
    }

    pub(super) fn undeclared_identifier(&mut self, id: u64, name: &str) {
        push_new(&mut self.unknown.identifiers, name);
        self.wrong(id, undeclared(name));
    }

    pub(super) fn undeclared_function(&mut self, id: u64, name: &str, style: Style) {
        let names = match style {
            Style::Global => &mut self.unknown.functions,
            Style::Member => &mut self.unknown.members,
        };
        push_new(names, name);
        self.wrong(id, undeclared(name));
    }

    fn wrong(&mut self, id: u64, message: impl Into<String>) {
        if self.types.len() < ISSUES_MAX {
            let issue = self.issue(id, message);
            self.types.push(issue);
        }
    }

    fn issue(&self, id: u64, message: impl Into<String>) -> Issue {
        let offset = self.positions.offset_for(id).map_or(0, |(start, _)| start);
        self.source.issue_at(offset as usize, message)
    }
}

// === impl Unknown ===

impl Unknown {
    fn kind(self) -> CompileErrorKind {
        let mut functions = self.functions;
        functions.extend(self.members);
        if self.identifiers.is_empty() && functions.is_empty() {
            return CompileErrorKind::Type;
        }
        CompileErrorKind::Undeclared {
            identifiers: self.identifiers,
            functions,
        }
    }
}

/// What stands for an expression that has an issue.
pub(super) fn placeholder() -> Lowered {
    (Node::Literal(Value::NULL), DeclType::Dyn)
}

fn undeclared(name: &str) -> String {
    format!("undeclared reference to '{name}' (in container '')")
}

fn push_new(names: &mut Vec<String>, name: &str) {
    if !names.iter().any(|known| known == name) {
        names.push(name.to_owned());
    }
}

fn dedup(paths: &mut Vec<FieldPathExpr>) {
    let mut seen = BTreeSet::new();
    paths.retain(|path| seen.insert(path.clone()));
}
