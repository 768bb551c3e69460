//! Macros: calls whose arguments are not values.
//!
//! A macro becomes a loop, a binding or a presence test; its variables live on the stack of the
//! evaluation, at the position that they have in the walk. The types follow from what cel-go's
//! expansions would check.
//!
//! Source: `cel-go/parser/macro.go`, `cel-go/ext/{comprehensions,bindings,lists}.go`,
//! `cel-go/cel/library.go`, `kro/pkg/cel/library/runtime.go`.

use cel::common::ast::{EntryExpr, Expr, IdedEntryExpr, IdedExpr};

use super::lower::{Lowered, Lowering, placeholder};
use crate::library::Style;
use crate::library::opaque::CONDITION_KEYS;
use crate::node::{Entry, Loop, Node, OptionalMap, Yields};
use crate::types::DeclType;
use crate::value::Value;

/// A macro that visits a list or a map, as it is written.
struct Visit<'e> {
    id: u64,
    name: &'e str,
    yields: Yields,
    range: &'e IdedExpr,
    variables: &'e [IdedExpr],
    filter: Option<&'e IdedExpr>,
    body: &'e IdedExpr,
}

// === impl Lowering ===

impl Lowering<'_> {
    /// Expands `has`; nothing where the name is no macro.
    pub(super) fn global_macro(
        &mut self,
        id: u64,
        name: &str,
        args: &[IdedExpr],
    ) -> Option<Lowered> {
        let ("has", [argument]) = (name, args) else {
            return None;
        };
        self.uses.functions.insert(name.to_owned());
        if let Expr::Select(select) = &argument.expr {
            return Some(self.presence(id, select, argument));
        }
        self.misused(argument.id, "invalid argument to has() macro");
        Some(placeholder())
    }

    /// Expands a macro on a receiver; nothing where the name is no macro.
    pub(super) fn member_macro(
        &mut self,
        id: u64,
        name: &str,
        target: &IdedExpr,
        args: &[IdedExpr],
    ) -> Option<Lowered> {
        let kro = self.environment.rules().kro;
        let lowered = match (name, args) {
            ("bind", [variable, value, body]) if kro && is_name(target, "cel") => {
                self.bind(variable, value, body)
            }
            ("newCondition", [argument]) if kro && is_name(target, "runtime") => {
                self.new_condition(id, target, argument)
            }
            ("optMap" | "optFlatMap", [variable, body]) => {
                self.optional_map(id, name, target, variable, body)
            }
            ("sortBy", [variable, key]) => self.sort_by(id, target, variable, key),
            _ => {
                let visit = visit(id, name, target, args)?;
                self.visit(&visit)
            }
        };
        self.uses.functions.insert(name.to_owned());
        Some(lowered)
    }

    fn visit(&mut self, visit: &Visit<'_>) -> Lowered {
        let (range, range_ty) = self.lower(visit.range);
        let Some(names) = self.variable_names(visit) else {
            return placeholder();
        };
        let (first, second) = self.element_types(visit.range.id, &range_ty, names.len() == 2);
        let base = self.locals.len();
        let types = [first.clone(), second];
        self.scoped = true;
        self.locals.extend(names.iter().cloned().zip(types));
        let filter = visit.filter.map(|filter| self.filter(visit.id, filter));
        let (body, body_ty) = self.lower(visit.body);
        self.locals.truncate(base);
        let ty = self.yielded(visit, first, body_ty);
        let node = Node::Loop(Box::new(Loop {
            range,
            yields: visit.yields,
            two: names.len() == 2,
            filter,
            body,
        }));
        (node, ty)
    }

    fn filter(&mut self, id: u64, filter: &IdedExpr) -> Node {
        let (node, ty) = self.lower(filter);
        let kept = DeclType::list(DeclType::Dyn);
        drop(self.resolve_global(id, "_?_:_", &[ty, kept.clone(), kept]));
        node
    }

    fn yielded(&mut self, visit: &Visit<'_>, first: DeclType, body: DeclType) -> DeclType {
        match visit.yields {
            Yields::All | Yields::Exists => {
                self.expect_bool(visit.body.id, &body);
                DeclType::Bool
            }
            Yields::ExistsOne => {
                let count = [body, DeclType::Int, DeclType::Int];
                drop(self.resolve_global(visit.id, "_?_:_", &count));
                DeclType::Bool
            }
            Yields::List => DeclType::list(body),
            Yields::Map => DeclType::map(first, body),
            Yields::MapEntry => {
                let any = DeclType::map(self.mapping.fresh(), self.mapping.fresh());
                if self.mapping.assign(&body, &any) {
                    return self.mapping.substitute(&any);
                }
                let body = self.mapping.resolve(&body);
                let any = self.mapping.resolve(&any);
                self.mistyped(
                    visit.id,
                    format!(
                        "found no matching overload for 'cel.@mapInsert' applied to '({any}, \
                         {body})'"
                    ),
                );
                DeclType::Dyn
            }
        }
    }

    /// The types of a loop's variables.
    fn element_types(&mut self, id: u64, range: &DeclType, two: bool) -> (DeclType, DeclType) {
        match self.mapping.substitute(range) {
            DeclType::List(list) if two => (DeclType::Int, list.element.clone()),
            DeclType::List(list) => (list.element.clone(), DeclType::Dyn),
            DeclType::Map(map) => (map.key.clone(), map.value.clone()),
            DeclType::Dyn => (DeclType::Dyn, DeclType::Dyn),
            variable @ DeclType::Param(_) => {
                self.mapping.assign(&DeclType::Dyn, &variable);
                (DeclType::Dyn, DeclType::Dyn)
            }
            other => {
                self.mistyped(
                    id,
                    format!(
                        "expression of type '{other}' cannot be range of a comprehension (must \
                         be list, map, or dynamic)"
                    ),
                );
                (DeclType::Dyn, DeclType::Dyn)
            }
        }
    }

    fn variable_names(&mut self, visit: &Visit<'_>) -> Option<Vec<String>> {
        let message = match visit.name {
            "map" | "filter" => "argument is not an identifier",
            _ => "argument must be a simple name",
        };
        let mut names: Vec<String> = Vec::new();
        for variable in visit.variables {
            let name = self.variable_name(variable, message)?;
            if names.contains(&name) {
                self.misused(variable.id, format!("duplicate variable name: {name}"));
                return None;
            }
            names.push(name);
        }
        Some(names)
    }

    fn variable_name(&mut self, variable: &IdedExpr, message: &str) -> Option<String> {
        match &variable.expr {
            Expr::Ident(name) if name == "__result__" => {
                let message = "iteration variable overwrites accumulator variable";
                self.misused(variable.id, message);
                None
            }
            Expr::Ident(name) if !name.starts_with('.') => Some(name.clone()),
            _ => {
                self.misused(variable.id, message);
                None
            }
        }
    }

    fn bind(&mut self, variable: &IdedExpr, value: &IdedExpr, body: &IdedExpr) -> Lowered {
        let message = "cel.bind() variable names must be simple identifiers";
        let Some(name) = self.variable_name(variable, message) else {
            return placeholder();
        };
        let (value, ty) = self.lower(value);
        let (body, ty) = self.with_local(name, ty, body);
        (Node::Bind(Box::new([value, body])), ty)
    }

    fn optional_map(
        &mut self,
        id: u64,
        name: &str,
        target: &IdedExpr,
        variable: &IdedExpr,
        body: &IdedExpr,
    ) -> Lowered {
        let message = format!("{name}() variable name must be a simple identifier");
        let Some(local) = self.variable_name(variable, &message) else {
            return placeholder();
        };
        let (operand, operand_ty) = self.lower(target);
        let operand_ty = [operand_ty];
        self.resolve(id, "hasValue", Style::Member, &operand_ty);
        let value_ty = match self.mapping.substitute(&operand_ty[0]) {
            DeclType::Optional(inner) => (*inner).clone(),
            _ => DeclType::Dyn,
        };
        let (body, body_ty) = self.with_local(local, value_ty, body);
        let flat = name == "optFlatMap";
        let some = if flat {
            body_ty
        } else {
            DeclType::optional(body_ty)
        };
        let none = DeclType::optional(self.mapping.fresh());
        let ty = self.resolve_global(id, "_?_:_", &[DeclType::Bool, some, none]);
        let node = Node::OptionalMap(Box::new(OptionalMap {
            operand,
            body,
            flat,
        }));
        (node, ty)
    }

    /// `list.sortBy(x, key)`: the list is evaluated once and sorted by the list of its keys.
    fn sort_by(
        &mut self,
        id: u64,
        target: &IdedExpr,
        variable: &IdedExpr,
        key: &IdedExpr,
    ) -> Lowered {
        let (list, list_ty) = self.lower(target);
        let message = "argument is not an identifier";
        let Some(name) = self.variable_name(variable, message) else {
            return placeholder();
        };
        let held = self.locals.len();
        self.scoped = true;
        self.locals.push(("@sorted".to_owned(), list_ty.clone()));
        let (element, _) = self.element_types(target.id, &list_ty, false);
        let (key, key_ty) = self.with_local(name, element, key);
        self.locals.truncate(held);
        let keys = Node::Loop(Box::new(Loop {
            range: Node::Local(held),
            yields: Yields::List,
            two: false,
            filter: None,
            body: key,
        }));
        let nodes = vec![Node::Local(held), keys];
        let types = [list_ty, DeclType::list(key_ty)];
        let (sorted, ty) = self.member_call(id, "@sortByAssociatedKeys", nodes, &types, &[]);
        self.uses.functions.remove("@sortByAssociatedKeys");
        (Node::Bind(Box::new([list, sorted])), ty)
    }

    fn with_local(&mut self, name: String, ty: DeclType, body: &IdedExpr) -> Lowered {
        self.scoped = true;
        self.locals.push((name, ty));
        let lowered = self.lower(body);
        self.locals.pop();
        lowered
    }

    /// `runtime.newCondition({type: .., status: ..})`, whose keys are bare words.
    fn new_condition(&mut self, id: u64, target: &IdedExpr, argument: &IdedExpr) -> Lowered {
        let Expr::Map(map) = &argument.expr else {
            let message = "runtime.newCondition: argument must be a map literal";
            self.misused(argument.id, message);
            return placeholder();
        };
        let mut seen: Vec<&str> = Vec::new();
        let mut entries = Vec::new();
        let mut value_ty = DeclType::String;
        for entry in &map.entries {
            let Some((name, value)) = self.condition_entry(entry, &seen) else {
                return placeholder();
            };
            seen.push(name);
            let (value, ty) = self.lower(value);
            if !self.mapping.assign(&ty, &DeclType::String) {
                value_ty = DeclType::Dyn;
            }
            entries.push(Entry {
                key: Node::Literal(Value::string(name)),
                value,
                optional: false,
            });
        }
        for required in ["type", "status"] {
            if !seen.contains(&required) {
                let message = format!("runtime.newCondition: '{required}' is required");
                self.misused(argument.id, message);
                return placeholder();
            }
        }
        let (runtime, runtime_ty) = self.lower(target);
        let map = Node::Map(entries.into());
        let types = [runtime_ty, DeclType::map(DeclType::String, value_ty)];
        self.member_call(id, "newCondition", vec![runtime, map], &types, &[])
    }

    fn condition_entry<'e>(
        &mut self,
        entry: &'e IdedEntryExpr,
        seen: &[&str],
    ) -> Option<(&'e str, &'e IdedExpr)> {
        let EntryExpr::MapEntry(pair) = &entry.expr else {
            return None;
        };
        let message = match &pair.key.expr {
            Expr::Ident(name) if !CONDITION_KEYS.contains(&name.as_str()) => format!(
                "runtime.newCondition: unknown key {name:?} (allowed: type, status, reason, \
                 message)"
            ),
            Expr::Ident(name) if seen.contains(&name.as_str()) => {
                format!("runtime.newCondition: duplicate key {name:?}")
            }
            Expr::Ident(name) => return Some((name, &pair.value)),
            _ => "runtime.newCondition: keys must be bare identifiers (type, status, reason, \
                  message); quoted or computed keys are not allowed"
                .to_owned(),
        };
        self.misused(pair.key.id, message);
        None
    }
}

/// Recognizes the macros that visit.
fn visit<'e>(
    id: u64,
    name: &'e str,
    range: &'e IdedExpr,
    args: &'e [IdedExpr],
) -> Option<Visit<'e>> {
    let (body, before) = args.split_last()?;
    let (yields, variable_count, filter_allowed) = match (name, args.len()) {
        ("all", 2 | 3) => (Yields::All, args.len() - 1, false),
        ("exists", 2 | 3) => (Yields::Exists, args.len() - 1, false),
        ("exists_one" | "existsOne", 2 | 3) => (Yields::ExistsOne, args.len() - 1, false),
        ("map" | "filter", 2) => (Yields::List, 1, false),
        ("map", 3) => (Yields::List, 1, true),
        ("transformList", 3 | 4) => (Yields::List, 2, true),
        ("transformMap", 3 | 4) => (Yields::Map, 2, true),
        ("transformMapEntry", 3 | 4) => (Yields::MapEntry, 2, true),
        _ => return None,
    };
    let (variables, filters) = before.split_at_checked(variable_count)?;
    let mut visit = Visit {
        id,
        name,
        yields,
        range,
        variables,
        filter: filters.first().filter(|_| filter_allowed),
        body,
    };
    if name == "filter" {
        // What is kept is the element itself.
        visit.filter = Some(body);
        visit.body = variables.first()?;
    }
    Some(visit)
}

fn is_name(expr: &IdedExpr, wanted: &str) -> bool {
    matches!(&expr.expr, Expr::Ident(name) if name == wanted)
}
