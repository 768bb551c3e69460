//! Identifiers and selections: variables, types, and the fields of either.
//!
//! A name that is selected from may be part of a longer declared name (`google.protobuf.Duration`),
//! so a chain is looked up as a whole before it is taken apart.

use cel::common::ast::{Expr, IdedExpr, SelectExpr};

use super::lower::{Lowered, Lowering, Names, placeholder};
use crate::library::opaque::Opaque;
use crate::node::{Demand, Node, Select};
use crate::program::FieldPathExpr;
use crate::types::DeclType;
use crate::value::{Kind, Value};

/// kro's variable, which is always there.
const RUNTIME: &str = "runtime";

// === impl Lowering ===

impl Lowering<'_> {
    pub(super) fn identifier(&mut self, id: u64, name: &str) -> Lowered {
        if let Some(local) = self.local(name) {
            return local;
        }
        let name = name.trim_start_matches('.');
        if let Some(lowered) = self.variable(name).or_else(|| self.type_name(name)) {
            return lowered;
        }
        self.undeclared_identifier(id, name);
        placeholder()
    }

    pub(super) fn select(&mut self, expr: &IdedExpr, select: &SelectExpr) -> Lowered {
        if let Some(lowered) = self.qualified(expr) {
            return lowered;
        }
        let (operand, ty) = self.operand(expr, select);
        let ty = self.field_type(expr.id, &ty, &select.field, Demand::Required);
        let node = Node::Select(Box::new(Select {
            operand,
            field: select.field.as_str().into(),
            demand: Demand::Required,
        }));
        (node, ty)
    }

    /// The argument of `has`: a selection that is only asked for.
    pub(super) fn presence(&mut self, id: u64, select: &SelectExpr, whole: &IdedExpr) -> Lowered {
        let (operand, ty) = self.operand(whole, select);
        drop(self.field_type(id, &ty, &select.field, Demand::Required));
        let node = Node::Has(Box::new(Select {
            operand,
            field: select.field.as_str().into(),
            demand: Demand::Optional,
        }));
        (node, DeclType::Bool)
    }

    /// The type of a field, as far as the operand's type tells.
    pub(super) fn field_type(
        &mut self,
        id: u64,
        operand: &DeclType,
        field: &str,
        demand: Demand,
    ) -> DeclType {
        let operand = self.mapping.substitute(operand);
        let optional = matches!(operand, DeclType::Optional(_)) || demand == Demand::Optional;
        let ty = match operand.unwrap_optional() {
            DeclType::Map(map) => map.value.clone(),
            DeclType::Object(object) => match object.field(field) {
                Some((_, ty)) => ty.clone(),
                None if object.open => DeclType::Dyn,
                None => {
                    self.mistyped(id, format!("undefined field '{field}'"));
                    DeclType::Dyn
                }
            },
            DeclType::Opaque("kro.run.Condition") => DeclType::String,
            DeclType::Dyn => DeclType::Dyn,
            variable @ DeclType::Param(_) => {
                self.mapping.assign(&DeclType::Dyn, variable);
                DeclType::Dyn
            }
            other => {
                let message = format!("type '{other}' does not support field selection");
                self.mistyped(id, message);
                DeclType::Dyn
            }
        };
        if optional { DeclType::optional(ty) } else { ty }
    }

    /// A variable of a macro; the innermost of a name hides the others.
    fn local(&self, name: &str) -> Option<Lowered> {
        let position = self.locals.iter().rposition(|(local, _)| local == name)?;
        let (_, ty) = self.locals.get(position)?;
        Some((Node::Local(position), ty.clone()))
    }

    fn variable(&mut self, name: &str) -> Option<Lowered> {
        let ty = match self.names {
            Names::Declared(declarations) => declarations.get(name).cloned(),
            Names::Any if name == RUNTIME || type_value(name).is_some() => None,
            Names::Any => Some(DeclType::Dyn),
        };
        let Some(ty) = ty else {
            return self.runtime(name);
        };
        self.use_variable(name);
        Some((Node::Variable(name.into()), ty))
    }

    fn runtime(&mut self, name: &str) -> Option<Lowered> {
        if name != RUNTIME || !self.environment.rules().kro {
            return None;
        }
        self.use_variable(name);
        let value = Value(Kind::Opaque(Opaque::Runtime));
        Some((Node::Literal(value), DeclType::Opaque("kro.run.Runtime")))
    }

    fn use_variable(&mut self, name: &str) {
        self.uses.identifiers.insert(name.to_owned());
        if !self.within_chain {
            self.uses.paths.push(FieldPathExpr {
                root: name.to_owned(),
                fields: Vec::new(),
            });
        }
    }

    /// Lowers what a field is selected from, remembering the path that the whole chain reads; its
    /// shorter parts are no paths of their own.
    fn operand(&mut self, whole: &IdedExpr, select: &SelectExpr) -> Lowered {
        let outer = self.within_chain;
        if let Some(chain) = chain(whole).filter(|_| !outer) {
            self.within_chain = true;
            self.note_path(&chain);
        }
        let operand = self.lower(&select.operand);
        self.within_chain = outer;
        operand
    }

    fn note_path(&mut self, chain: &[&str]) {
        let Some((root, fields)) = chain.split_first() else {
            return;
        };
        if self.local(root).is_none() {
            self.uses.paths.push(FieldPathExpr {
                root: root.trim_start_matches('.').to_owned(),
                fields: fields.iter().map(|&field| field.to_owned()).collect(),
            });
        }
    }

    /// A chain of names that is declared as a whole.
    fn qualified(&mut self, expr: &IdedExpr) -> Option<Lowered> {
        let chain = chain(expr)?;
        let root = chain.first()?;
        if self.local(root).is_some() {
            return None;
        }
        let declared = match self.names {
            Names::Declared(declarations) if declarations.has_qualified() => Some(declarations),
            _ => None,
        };
        let name = chain.join(".");
        let name = name.trim_start_matches('.');
        if let Some(ty) = declared.and_then(|declarations| declarations.get(name)) {
            let ty = ty.clone();
            self.use_variable(name);
            return Some((Node::Variable(name.into()), ty));
        }
        self.type_name(name)
    }

    /// The name of a type. Without declarations it counts as an identifier too, as for kro's inspector, which knows no types.
    fn type_name(&mut self, name: &str) -> Option<Lowered> {
        let lowered = type_value(name)?;
        if matches!(self.names, Names::Any) {
            let first = name.split('.').next().unwrap_or(name);
            self.uses.identifiers.insert(first.to_owned());
        }
        Some(lowered)
    }
}

/// The names of `a.b.c`, from the root.
pub(super) fn chain(expr: &IdedExpr) -> Option<Vec<&str>> {
    let mut names = Vec::new();
    let mut expr = expr;
    loop {
        match &expr.expr {
            Expr::Ident(name) => {
                names.push(name.as_str());
                names.reverse();
                return Some(names);
            }
            Expr::Select(select) => {
                names.push(select.field.as_str());
                expr = &select.operand;
            }
            _ => return None,
        }
    }
}

/// The value of a name that is a type.
fn type_value(name: &str) -> Option<Lowered> {
    let (name, ty) = match name {
        "bool" => ("bool", DeclType::Bool),
        "bytes" => ("bytes", DeclType::Bytes),
        "double" => ("double", DeclType::Double),
        "int" => ("int", DeclType::Int),
        "list" => ("list", DeclType::list(DeclType::Dyn)),
        "map" => ("map", DeclType::map(DeclType::Dyn, DeclType::Dyn)),
        "null_type" => ("null_type", DeclType::Null),
        "string" => ("string", DeclType::String),
        "type" => ("type", DeclType::Type(DeclType::Dyn.into())),
        "uint" => ("uint", DeclType::Uint),
        "optional_type" => ("optional_type", DeclType::optional(DeclType::Dyn)),
        "google.protobuf.Timestamp" => ("google.protobuf.Timestamp", DeclType::Timestamp),
        "google.protobuf.Duration" => ("google.protobuf.Duration", DeclType::Duration),
        "net.IP" => ("net.IP", DeclType::Opaque("net.IP")),
        "net.CIDR" => ("net.CIDR", DeclType::Opaque("net.CIDR")),
        _ => return None,
    };
    let node = Node::Literal(Value(Kind::Type(name)));
    Some((node, DeclType::Type(ty.into())))
}
