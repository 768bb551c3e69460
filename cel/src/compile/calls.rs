//! Calls: operators, macros, functions, and the choice among overloads.

use std::{iter, mem};

use cel::common::ast::{CallExpr, Expr, IdedExpr};

use super::lower::{Lowered, Lowering, Names, placeholder};
use super::names::chain;
use super::unify::instantiate;
use crate::budget::{Budget, Meter};
use crate::environment::Function;
use crate::library::{
    Implementation, Overload, Pattern, Style, format, lists, opaque::Opaque, operators,
};
use crate::node::{Call, Node, OrElse};
use crate::price::Price;
use crate::types::DeclType;
use crate::value::{Kind, Value};

/// The type that a call yields, and the overload if there is only one that fits.
type Resolved<'e> = (DeclType, Option<&'e Overload>);

// === impl Lowering ===

impl<'e> Lowering<'e> {
    pub(super) fn call(&mut self, id: u64, call: &CallExpr) -> Lowered {
        let Some(target) = &call.target else {
            return self
                .operator(id, &call.func_name, &call.args)
                .or_else(|| self.global_macro(id, &call.func_name, &call.args))
                .unwrap_or_else(|| self.global(id, &call.func_name, &call.args));
        };
        if let Some(lowered) = self.member_macro(id, &call.func_name, target, &call.args) {
            return lowered;
        }
        if let Some(prefix) = chain(target) {
            let name = format!("{}.{}", prefix.join("."), call.func_name);
            let name = name.trim_start_matches('.');
            if self.environment.has_function(name) {
                return self.global(id, name, &call.args);
            }
        }
        self.member(id, &call.func_name, target, &call.args)
    }

    fn global(&mut self, id: u64, name: &str, args: &[IdedExpr]) -> Lowered {
        let name = name.trim_start_matches('.');
        let (nodes, types) = self.arguments(args);
        if !self.environment.has_function(name) {
            self.undeclared_function(id, name, Style::Global);
            return placeholder();
        }
        self.uses.functions.insert(name.to_owned());
        let (ty, overload) = self.resolve(id, name, Style::Global, &types);
        let node = Call {
            name: name.into(),
            candidates: self.candidates(name, Style::Global, nodes.len()),
            args: nodes.into(),
            is_member: false,
            takes: self.takes(name, overload),
            price: self.price(name, Style::Global, overload),
            yields: self.mapping.substitute(&ty),
        };
        let ids: Vec<u64> = args.iter().map(|arg| arg.id).collect();
        (self.fold_literal(&ids, node), ty)
    }

    fn member(&mut self, id: u64, name: &str, target: &IdedExpr, args: &[IdedExpr]) -> Lowered {
        let outer = self.within_format;
        self.within_format |= name == "format";
        let (nodes, types) = self.arguments(args);
        let elements = mem::take(&mut self.elements);
        let (receiver, receiver_ty) = self.lower(target);
        self.within_format = outer;
        if let ("format", Node::Literal(pattern), [list]) = (name, &receiver, args)
            && let (Some(pattern), Expr::List(list)) = (pattern.as_str(), &list.expr)
        {
            let types: Vec<_> = elements.iter().map(|ty| self.mapping.resolve(ty)).collect();
            let first = self.environment.rules().strict_literals;
            if let Err((argument, message)) = format::judge(pattern, &types, first) {
                let argument = argument.and_then(|index| list.elements.get(index));
                self.mistyped(argument.map_or(id, |it| it.id), message);
            }
        }
        if !self.environment.has_function(name) {
            self.undeclared_function(id, name, Style::Member);
            return placeholder();
        }
        let nodes = iter::once(receiver).chain(nodes).collect();
        let types: Vec<DeclType> = iter::once(receiver_ty).chain(types).collect();
        let ids: Vec<u64> = iter::once(target).chain(args).map(|arg| arg.id).collect();
        self.member_call(id, name, nodes, &types, &ids)
    }

    /// A member call whose receiver and arguments are lowered.
    pub(super) fn member_call(
        &mut self,
        id: u64,
        name: &str,
        nodes: Vec<Node>,
        types: &[DeclType],
        ids: &[u64],
    ) -> Lowered {
        self.uses.functions.insert(name.to_owned());
        let (ty, overload) = self.resolve(id, name, Style::Member, types);
        let or_else = match name {
            "or" => Some(OrElse::Optional),
            "orValue" => Some(OrElse::Value),
            _ => None,
        };
        if let Some(or_else) = or_else {
            return match <[Node; 2]>::try_from(nodes) {
                Ok(operands) => (Node::OrElse(or_else, Box::new(operands)), ty),
                Err(_wrong_count) => placeholder(),
            };
        }
        let yields = self.mapping.substitute(&ty);
        let mut candidates = self.candidates(name, Style::Member, nodes.len());
        if let ("sum", Some(sum)) = (name, lists::sum_of(&yields)) {
            candidates = Box::new([sum]);
        }
        let call = Call {
            name: name.into(),
            candidates,
            args: nodes.into(),
            is_member: true,
            takes: self.takes(name, overload),
            price: self.price(name, Style::Member, overload),
            yields,
        };
        (self.fold_literal(ids, call), ty)
    }

    /// The implementations that take so many arguments.
    fn candidates(&self, name: &str, style: Style, count: usize) -> Box<[Implementation]> {
        self.environment
            .functions(name)
            .iter()
            .filter(|function| function.style == style)
            .filter(|function| {
                function
                    .overloads
                    .iter()
                    .any(|overload| overload.params.len() == count)
            })
            .map(|function| function.call)
            .collect()
    }

    /// What an overload takes, where there are others that take other values.
    fn takes(&self, name: &str, overload: Option<&Overload>) -> Option<Box<[DeclType]>> {
        let params = &*overload?.params;
        let mut overloads = self.environment.functions(name).iter();
        let has_others = overloads.any(|function| {
            let mut others = function.overloads.iter().map(|it| &*it.params);
            others.any(|other| other.len() == params.len() && other != params)
        });
        has_others.then(|| params.into())
    }

    fn price(&self, name: &str, style: Style, overload: Option<&Overload>) -> Option<Price> {
        if self.environment.rules().kro {
            return None;
        }
        Price::of_call(name, style, overload.map(|it| &*it.params))
    }

    fn arguments(&mut self, args: &[IdedExpr]) -> (Vec<Node>, Vec<DeclType>) {
        args.iter().map(|arg| self.lower(arg)).unzip()
    }

    /// The type that a function of the global style yields; an issue where none fits.
    pub(super) fn resolve_global(&mut self, id: u64, name: &str, args: &[DeclType]) -> DeclType {
        self.resolve(id, name, Style::Global, args).0
    }

    /// What a function yields; an issue where no overload fits.
    pub(super) fn resolve(
        &mut self,
        id: u64,
        name: &str,
        style: Style,
        args: &[DeclType],
    ) -> Resolved<'e> {
        if matches!(self.names, Names::Any) {
            return (DeclType::Dyn, None);
        }
        let environment = self.environment;
        let mixed = !environment.rules().kro || self.scoped;
        let mut result: Option<Resolved<'e>> = None;
        let overloads = environment
            .functions(name)
            .iter()
            .filter(|function| function.style == style)
            .flat_map(|function: &Function| &function.overloads)
            .filter(|overload| overload.params.len() == args.len())
            .filter(|overload| mixed || !operators::is_mixed_order(name, &overload.params));
        for overload in overloads {
            let mut types = overload.params.clone();
            types.push(overload.result.clone());
            let mut types = instantiate(&types, &mut self.mapping);
            let Some(yields) = types.pop() else {
                continue;
            };
            if !self.mapping.assign_all(args, &types) {
                continue;
            }
            let yields = self.mapping.substitute(&yields);
            result = Some(match result {
                None => (yields, Some(overload)),
                Some((first, _)) if first == yields => (first, None),
                Some(_) => (DeclType::Dyn, None),
            });
        }
        result.unwrap_or_else(|| {
            let message = self.no_overload(name, style, args);
            self.mistyped(id, message);
            (DeclType::Dyn, None)
        })
    }

    fn no_overload(&self, name: &str, style: Style, args: &[DeclType]) -> String {
        let mut types = args.iter().map(|ty| self.mapping.resolve(ty).to_string());
        let receiver = match style {
            Style::Member => types.next().map(|ty| format!("{ty}.")),
            Style::Global => None,
        };
        let types: Vec<String> = types.collect();
        format!(
            "found no matching overload for '{name}' applied to '{}({})'",
            receiver.unwrap_or_default(),
            types.join(", ")
        )
    }

    /// Compiles a literal pattern and converts a literal duration or timestamp, once for all
    /// evaluations. What fails here fails again when evaluated, unless the environment is strict.
    fn fold_literal(&mut self, ids: &[u64], mut call: Call) -> Node {
        match &*call.name {
            "matches" | "find" | "findAll" => {
                // Kubernetes judges the first argument, which of a global call is the text.
                if !call.is_member
                    && let Some(Node::Literal(text)) = call.args.first()
                    && text
                        .as_str()
                        .is_some_and(|it| Pattern::compile(it).is_err())
                {
                    self.bad_literal(ids, 0, &call.name);
                }
                if let Some(Node::Literal(value)) = call.args.get_mut(1)
                    && let Some(text) = value.as_str()
                {
                    match Pattern::compile(text) {
                        Ok(pattern) => *value = Value::opaque(Opaque::Pattern(pattern)),
                        // The program itself cannot be made: `OptimizeRegex` in Kubernetes' library of patterns.
                        Err(_) if &*call.name != "matches" => self.invalid(ids, 1, &call.name),
                        Err(_) => self.bad_literal(ids, 1, &call.name),
                    }
                }
            }
            "duration" | "timestamp" => {
                let converted = self.converted_literal(ids, &call);
                if let ([Node::Literal(value)], Some(converted)) = (&*call.args, &converted)
                    && matches!(value.0, Kind::String(_) | Kind::Int(_))
                {
                    return Node::Literal(converted.clone());
                }
                return constant(call, converted);
            }
            "bool" | "bytes" | "double" | "dyn" | "int" | "string" | "type" | "uint" => {
                let converted = self.converted_literal(ids, &call);
                return constant(call, converted);
            }
            _ => {}
        }
        Node::Call(Box::new(call))
    }

    /// Converts a literal, or what was converted from one, and refuses what cannot be converted where literals are strict,
    /// even if it would never be evaluated.
    ///
    /// Source: `decOptimize` in `cel-go/interpreter/decorators.go`.
    fn converted_literal(&mut self, ids: &[u64], call: &Call) -> Option<Value<'static>> {
        let [value] = &*call.args else {
            return None;
        };
        let value = value.constant()?;
        let mut meter = Meter::new(Budget::default());
        let converted = call.candidates.iter();
        let converted = converted
            .map(|convert| convert(std::slice::from_ref(&value), &mut meter))
            .find_map(Result::ok);
        if converted.is_none() {
            self.bad_literal(ids, 0, &call.name);
        }
        converted
    }

    fn bad_literal(&mut self, ids: &[u64], argument: usize, function: &str) {
        if self.environment.rules().strict_literals {
            self.invalid(ids, argument, function);
        }
    }

    fn invalid(&mut self, ids: &[u64], argument: usize, function: &str) {
        if let Some(id) = ids.get(argument) {
            self.mistyped(*id, format!("invalid {function} argument"));
        }
    }
}

/// A call, with what it is known to yield.
fn constant(call: Call, value: Option<Value<'static>>) -> Node {
    let call = Node::Call(Box::new(call));
    match value {
        Some(value) => call.known_as(value),
        None => call,
    }
}
