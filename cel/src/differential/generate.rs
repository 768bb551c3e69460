//! Expressions by seed, of a wanted type.
//!
//! The functions are those of the environment, by their signatures, so that each of them is called; macros and literals
//! are written here. One in ten expressions has one argument of a wrong type.

use super::peer::declared;
use super::pool;
use crate::environment::Environment;
use crate::library::{Overload, Style};
use crate::types::DeclType;

/// An expression that can be made smaller.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    pub(super) ty: DeclType,
    pub(super) pieces: Vec<Piece>,
}

#[derive(Clone, Debug)]
pub(super) enum Piece {
    Text(String),
    Tree(Tree),
}

/// A function in one of its signatures.
struct Candidate {
    name: &'static str,
    style: Style,
    overload: Overload,
}

pub(super) struct Generator {
    state: u64,
    candidates: Vec<Candidate>,
    scope: Vec<(String, DeclType)>,
    kro: bool,
    /// Whether one argument is still to be made wrong.
    wrong: bool,
    names: usize,
}

// === impl Tree ===

impl Tree {
    pub(super) fn leaf(ty: &DeclType, text: impl Into<String>) -> Self {
        Self {
            ty: ty.clone(),
            pieces: vec![Piece::Text(text.into())],
        }
    }

    pub(super) fn text(&self) -> String {
        let pieces = self.pieces.iter().map(|piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Tree(tree) => tree.text(),
        });
        pieces.collect()
    }
}

/// Joins a template, in which `$` stands for the next tree.
fn filled(ty: &DeclType, template: &str, trees: Vec<Tree>) -> Tree {
    let mut pieces = Vec::new();
    let mut trees = trees.into_iter();
    for (index, text) in template.split('$').enumerate() {
        if index > 0 {
            pieces.extend(trees.next().map(Piece::Tree));
        }
        pieces.push(Piece::Text(text.to_owned()));
    }
    Tree {
        ty: ty.clone(),
        pieces,
    }
}

// === impl Generator ===

impl Generator {
    pub(super) fn new(environment: &Environment, kro: bool, seed: u64) -> Self {
        let functions = environment.named_functions().flat_map(|(name, functions)| {
            let styled = functions.iter().flat_map(|function| {
                let overloads = function.overloads.iter();
                overloads.map(|overload| (function.style, overload.clone()))
            });
            styled.map(move |(style, overload)| Candidate {
                name,
                style,
                overload,
            })
        });
        Self {
            state: seed,
            candidates: functions.filter(|it| is_generated(it.name)).collect(),
            scope: Vec::new(),
            kro,
            wrong: false,
            names: 0,
        }
    }

    /// The next expression.
    pub(super) fn next(&mut self) -> Tree {
        self.wrong = self.below(10) == 0;
        self.names = 0;
        let depth = 2 + self.below(4);
        if self.below(3) == 0 {
            return self.any_call(depth);
        }
        let ty = self.any_type(2);
        self.tree(&ty, depth)
    }

    fn below(&mut self, end: usize) -> usize {
        // splitmix64
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        usize::try_from(mixed >> 33).unwrap_or(0) % end.max(1)
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        let index = self.below(from.len());
        from.get(index).cloned().expect("something to pick")
    }

    fn any_type(&mut self, depth: usize) -> DeclType {
        let choice = self.below(if depth == 0 { 14 } else { 20 });
        match choice {
            0 | 1 => DeclType::Int,
            2 => DeclType::Uint,
            3 => DeclType::Double,
            4 | 5 => DeclType::String,
            6 => DeclType::Bytes,
            9 => DeclType::Timestamp,
            10 => DeclType::Duration,
            11 => DeclType::Opaque("kubernetes.Quantity"),
            12 => DeclType::Dyn,
            13 => DeclType::Null,
            14..=16 => DeclType::list(self.any_type(depth - 1)),
            17 => {
                let key = self.pick(&[
                    DeclType::String,
                    DeclType::Int,
                    DeclType::Bool,
                    DeclType::Uint,
                ]);
                DeclType::map(key, self.any_type(depth - 1))
            }
            18 => DeclType::optional(self.any_type(depth - 1)),
            _ => DeclType::Bool,
        }
    }

    /// A call of any function, each with the same chance.
    fn any_call(&mut self, depth: usize) -> Tree {
        let mut names: Vec<_> = self
            .candidates
            .iter()
            .map(|it| (it.name, it.style))
            .collect();
        names.dedup();
        let (name, style) = self.pick(&names);
        let of_name: Vec<usize> = (0..self.candidates.len())
            .filter(|index| {
                let candidate = self.candidates.get(*index);
                candidate.is_some_and(|it| it.name == name && it.style == style)
            })
            .collect();
        let index = self.pick(&of_name);
        self.call(index, &mut Vec::new(), depth)
    }

    fn tree(&mut self, ty: &DeclType, depth: usize) -> Tree {
        if self.wrong && self.below(6) == 0 {
            self.wrong = false;
            let other = self.any_type(1);
            return self.tree(&other, depth);
        }
        if depth == 0 {
            return self.leaf(ty);
        }
        match self.below(12) {
            0 => self.leaf(ty),
            1 | 2 => self.made_by_macro(ty, depth - 1),
            3 => self.composite(ty, depth - 1),
            _ => {
                let mut fits = Vec::new();
                for (index, candidate) in self.candidates.iter().enumerate() {
                    let mut bound = Vec::new();
                    let generic = matches!(candidate.overload.result, DeclType::Param(_));
                    if unify(&candidate.overload.result, ty, &mut bound)
                        && (!generic || index % 4 == depth % 4)
                    {
                        fits.push((index, bound));
                    }
                }
                if fits.is_empty() {
                    return self.leaf(ty);
                }
                let (index, mut bound) = self.pick(&fits);
                self.call(index, &mut bound, depth)
            }
        }
    }

    fn call(&mut self, index: usize, bound: &mut Vec<(u32, DeclType)>, depth: usize) -> Tree {
        let candidate = self.candidates.get(index).expect("a candidate");
        let (name, style, overload) = (candidate.name, candidate.style, candidate.overload.clone());
        for param in &overload.params {
            self.bind_all(param, bound);
        }
        self.bind_all(&overload.result, bound);
        let below = depth.saturating_sub(1);
        let mut args = Vec::new();
        for (position, param) in overload.params.iter().enumerate() {
            let ty = substitute(param, bound);
            let texts = pool::texts(name, position);
            let arg = if ty == DeclType::String && !texts.is_empty() && self.below(8) > 0 {
                let text = self.pick(texts);
                Tree::leaf(&ty, text)
            } else if matches!((name, position), ("random.seededString" | "lists.range", 0)) {
                let length = self.pick(&["0", "1", "5", "30", "-1"]);
                Tree::leaf(&ty, length)
            } else if name == "_[_]" && position == 1 && ty == DeclType::Int && self.below(4) > 0 {
                let index = self.pick(&["0", "1", "2", "-1", "1u", "1.0", "0.5"]);
                Tree::leaf(&ty, index)
            } else {
                self.tree(&ty, below)
            };
            args.push(arg);
        }
        let result = substitute(&overload.result, bound);
        let template = template(name, style, args.len());
        filled(&result, &template, args)
    }

    fn bind_all(&mut self, ty: &DeclType, bound: &mut Vec<(u32, DeclType)>) {
        match ty {
            DeclType::Param(param) if bound.iter().all(|(it, _)| it != param) => {
                let of = self.any_type(1);
                bound.push((*param, of));
            }
            DeclType::List(list) => self.bind_all(&list.element, bound),
            DeclType::Map(map) => {
                if let DeclType::Param(param) = map.key
                    && bound.iter().all(|(it, _)| *it != param)
                {
                    let key = self.pick(&[DeclType::String, DeclType::Int, DeclType::Bool]);
                    bound.push((param, key));
                }
                self.bind_all(&map.value, bound);
            }
            DeclType::Optional(inner) | DeclType::Type(inner) => self.bind_all(inner, bound),
            _ => {}
        }
    }

    fn within(&mut self, locals: &[(String, DeclType)], ty: &DeclType, depth: usize) -> Tree {
        let before = self.scope.len();
        self.scope.extend_from_slice(locals);
        let tree = self.tree(ty, depth);
        self.scope.truncate(before);
        tree
    }

    fn local(&mut self) -> String {
        self.names += 1;
        format!("v{}", self.names)
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each type of result")]
    fn made_by_macro(&mut self, ty: &DeclType, depth: usize) -> Tree {
        if self.below(5) == 0 {
            return self.bound(ty, depth);
        }
        let (x, y) = (self.local(), self.local());
        let is_map = self.below(3) == 0;
        let element = self.any_type(1);
        let key = self.pick(&[DeclType::String, DeclType::Int]);
        let (range_ty, first) = if is_map {
            (DeclType::map(key.clone(), element.clone()), key.clone())
        } else {
            (DeclType::list(element.clone()), DeclType::Int)
        };
        let single = if is_map { key } else { element.clone() };
        let one = [(x.clone(), single)];
        let two = [(x.clone(), first.clone()), (y.clone(), element)];
        let range = self.tree(&range_ty, depth);
        match ty {
            DeclType::Bool => {
                let name = self.pick(&["all", "exists", "exists_one"]);
                if self.below(2) == 0 {
                    let body = self.within(&one, ty, depth);
                    return filled(ty, &format!("$.{name}({x}, $)"), vec![range, body]);
                }
                let name = if name == "exists_one" {
                    "existsOne"
                } else {
                    name
                };
                let body = self.within(&two, ty, depth);
                filled(ty, &format!("$.{name}({x}, {y}, $)"), vec![range, body])
            }
            DeclType::List(list) => {
                let condition = self.within(&one, &DeclType::Bool, depth);
                let body = self.within(&one, &list.element, depth);
                match self.below(5) {
                    0 => filled(ty, &format!("$.map({x}, $)"), vec![range, body]),
                    1 => filled(
                        ty,
                        &format!("$.map({x}, $, $)"),
                        vec![range, condition, body],
                    ),
                    2 => {
                        let range = self.tree(ty, depth);
                        let one = [(x.clone(), list.element.clone())];
                        let condition = self.within(&one, &DeclType::Bool, depth);
                        filled(ty, &format!("$.filter({x}, $)"), vec![range, condition])
                    }
                    3 => {
                        let range = self.tree(ty, depth);
                        let one = [(x.clone(), list.element.clone())];
                        let by = self.pick(&[DeclType::Int, DeclType::String, DeclType::Double]);
                        let by = self.within(&one, &by, depth);
                        filled(ty, &format!("$.sortBy({x}, $)"), vec![range, by])
                    }
                    _ => {
                        let body = self.within(&two, &list.element, depth);
                        let template = format!("$.transformList({x}, {y}, $)");
                        filled(ty, &template, vec![range, body])
                    }
                }
            }
            DeclType::Map(map) if map.key == first && self.below(2) == 0 => {
                let condition = self.within(&two, &DeclType::Bool, depth);
                let body = self.within(&two, &map.value, depth);
                let template = format!("$.transformMap({x}, {y}, $, $)");
                filled(ty, &template, vec![range, condition, body])
            }
            DeclType::Map(_) => {
                let body = self.composite(ty, depth);
                let template = format!("$.transformMapEntry({x}, {y}, $)");
                filled(ty, &template, vec![range, body])
            }
            DeclType::Optional(inner) => {
                let of = self.any_type(1);
                let range = self.tree(&DeclType::optional(of.clone()), depth);
                let one = [(x.clone(), of)];
                if self.below(2) == 0 {
                    let body = self.within(&one, inner, depth);
                    return filled(ty, &format!("$.optMap({x}, $)"), vec![range, body]);
                }
                let body = self.within(&one, ty, depth);
                filled(ty, &format!("$.optFlatMap({x}, $)"), vec![range, body])
            }
            _ => self.bound(ty, depth),
        }
    }

    fn bound(&mut self, ty: &DeclType, depth: usize) -> Tree {
        let name = self.local();
        let of = self.any_type(1);
        let value = self.tree(&of, depth);
        let body = self.within(&[(name.clone(), of.clone())], ty, depth);
        if self.kro {
            return filled(ty, &format!("cel.bind({name}, $, $)"), vec![value, body]);
        }
        let template = format!("[$].map({name}, $)[0]");
        filled(ty, &template, vec![value, body])
    }

    fn composite(&mut self, ty: &DeclType, depth: usize) -> Tree {
        match ty {
            DeclType::List(list) => {
                let items = self.below(4);
                let items = (0..items)
                    .map(|_| self.tree(&list.element, depth))
                    .collect::<Vec<_>>();
                let template = format!("[{}]", vec!["$"; items.len()].join(", "));
                filled(ty, &template, items)
            }
            DeclType::Map(map) => {
                let count = self.below(3);
                let mut parts = Vec::new();
                for _ in 0..count {
                    parts.push(self.leaf(&map.key));
                    parts.push(self.tree(&map.value, depth));
                }
                let template = format!("{{{}}}", vec!["$: $"; count].join(", "));
                filled(ty, &template, parts)
            }
            DeclType::Optional(inner) => {
                let value = self.tree(inner, depth);
                let template = self.pick(&[
                    "optional.of($)",
                    "optional.ofNonZeroValue($)",
                    "[$][?0]",
                    "{'a': $}.?a",
                ]);
                filled(ty, template, vec![value])
            }
            DeclType::Bool => {
                let template = self.pick(&["$ && $", "$ || $", "!$"]);
                let count = template.matches('$').count();
                let parts = (0..count).map(|_| self.tree(ty, depth)).collect();
                filled(ty, &format!("({template})"), parts)
            }
            _ => {
                let condition = self.tree(&DeclType::Bool, depth);
                let parts = vec![condition, self.tree(ty, depth), self.tree(ty, depth)];
                filled(ty, "($ ? $ : $)", parts)
            }
        }
    }

    fn leaf(&mut self, ty: &DeclType) -> Tree {
        let variables = declared();
        let declared = variables
            .iter()
            .map(|(name, ty)| ((*name).to_owned(), ty.clone()));
        let named: Vec<_> = self
            .scope
            .iter()
            .cloned()
            .chain(declared)
            .filter(|(_, it)| it == ty)
            .collect();
        if !named.is_empty() && self.below(3) > 0 {
            let (name, _) = self.pick(&named);
            return Tree::leaf(ty, name);
        }
        let text = match ty {
            DeclType::List(list) => {
                let items = self.below(3);
                let items: Vec<_> = (0..items).map(|_| self.leaf(&list.element)).collect();
                let template = format!("[{}]", vec!["$"; items.len()].join(", "));
                return filled(ty, &template, items);
            }
            DeclType::Map(map) => {
                let parts = vec![self.leaf(&map.key), self.leaf(&map.value)];
                return filled(ty, "{$: $}", parts);
            }
            DeclType::Optional(inner) => {
                let inner = self.leaf(inner);
                return filled(ty, "optional.of($)", vec![inner]);
            }
            DeclType::Dyn | DeclType::Param(_) if self.below(2) == 0 => {
                let of = self.pick(&[
                    DeclType::Int,
                    DeclType::String,
                    DeclType::Double,
                    DeclType::Uint,
                    DeclType::Bool,
                ]);
                let inner = self.leaf(&of);
                return filled(ty, "dyn($)", vec![inner]);
            }
            DeclType::Type(_) => self
                .pick(&["int", "string", "type(1u)", "bool", "list", "map"])
                .to_owned(),
            other => {
                let literals = pool::literals(other);
                self.pick(literals).to_owned()
            }
        };
        Tree::leaf(ty, text)
    }
}

/// Whether it is a function that expressions may name, of values that can be made here. `random` of a large length takes
/// the peer's memory.
fn is_generated(name: &str) -> bool {
    !name.starts_with("@sort") && !matches!(name, "newCondition" | "condition" | "omit")
}

fn template(name: &str, style: Style, count: usize) -> String {
    match name {
        "_?_:_" => "($ ? $ : $)".to_owned(),
        "!_" => "!($)".to_owned(),
        "-_" => "-($)".to_owned(),
        "@in" => "($ in $)".to_owned(),
        "_[_]" => "$[$]".to_owned(),
        "_[?_]" => "$[?$]".to_owned(),
        _ if name.starts_with('_') => format!("($ {} $)", name.trim_matches('_')),
        _ if style == Style::Member => {
            format!(
                "$.{name}({})",
                vec!["$"; count.saturating_sub(1)].join(", ")
            )
        }
        _ => format!("{name}({})", vec!["$"; count].join(", ")),
    }
}

/// Whether a signature's type can be a wanted one, and what its variables are then.
fn unify(pattern: &DeclType, wanted: &DeclType, bound: &mut Vec<(u32, DeclType)>) -> bool {
    match (pattern, wanted) {
        (DeclType::Param(param), _) => {
            if let Some((_, ty)) = bound.iter().find(|(it, _)| it == param) {
                return ty == wanted;
            }
            bound.push((*param, wanted.clone()));
            true
        }
        (DeclType::List(left), DeclType::List(right)) => {
            unify(&left.element, &right.element, bound)
        }
        (DeclType::Map(left), DeclType::Map(right)) => {
            unify(&left.key, &right.key, bound) && unify(&left.value, &right.value, bound)
        }
        (DeclType::Optional(left), DeclType::Optional(right))
        | (DeclType::Type(left), DeclType::Type(right)) => unify(left, right, bound),
        _ => pattern == wanted,
    }
}

fn substitute(ty: &DeclType, bound: &[(u32, DeclType)]) -> DeclType {
    match ty {
        DeclType::Param(param) => {
            let found = bound.iter().find(|(it, _)| it == param);
            found.map_or(DeclType::Dyn, |(_, ty)| ty.clone())
        }
        DeclType::List(list) => DeclType::list(substitute(&list.element, bound)),
        DeclType::Map(map) => {
            DeclType::map(substitute(&map.key, bound), substitute(&map.value, bound))
        }
        DeclType::Optional(inner) => DeclType::optional(substitute(inner, bound)),
        DeclType::Type(inner) => DeclType::Type(substitute(inner, bound).into()),
        other => other.clone(),
    }
}
