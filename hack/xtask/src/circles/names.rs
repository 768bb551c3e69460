//! What a module's syntax names and defines, before anything is resolved.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::{
    Attribute, Item, ItemUse, Macro, Meta, UseTree,
    visit::{self, Visit},
};

/// The segments of a path, from its first one.
pub(super) type Segments = Vec<String>;

/// What one module defines, imports and mentions.
#[derive(Default)]
pub(super) struct Names {
    /// The items that are defined here, modules excepted.
    pub(super) defined: BTreeSet<String>,
    /// Names that `use` brings, and where they come from.
    pub(super) imported: BTreeMap<String, Segments>,
    /// Modules (or enums) of which a glob brings all names.
    pub(super) globs: Vec<Segments>,
    /// Every path that the code mentions, those of `use` included.
    pub(super) mentioned: BTreeSet<Segments>,
    /// Child modules: the name, the file of a `#[path]`, and the body when it is in this file.
    pub(super) children: Vec<(String, Option<String>, Option<Vec<Item>>)>,
}

impl Names {
    /// Reads the items of a module's body, its tests excepted.
    pub(super) fn read(items: &[Item]) -> Self {
        let mut names = Self::default();
        for item in items {
            if attributes(item).iter().any(is_test) {
                continue;
            }
            names.define(item);
            names.visit_item(item);
        }
        names
    }

    fn define(&mut self, item: &Item) {
        let ident = match item {
            Item::Const(item) => &item.ident,
            Item::Enum(item) => &item.ident,
            Item::Fn(item) => &item.sig.ident,
            Item::Static(item) => &item.ident,
            Item::Struct(item) => &item.ident,
            Item::Trait(item) => &item.ident,
            Item::TraitAlias(item) => &item.ident,
            Item::Type(item) => &item.ident,
            Item::Union(item) => &item.ident,
            Item::Macro(item) if item.ident.is_some() => {
                self.defined
                    .extend(item.ident.iter().map(ToString::to_string));
                return;
            }
            _ => return,
        };
        self.defined.insert(ident.to_string());
    }

    fn import(&mut self, tree: &UseTree, prefix: &[String]) {
        let with = |segment: String| [prefix, &[segment]].concat();
        match tree {
            UseTree::Path(path) => self.import(&path.tree, &with(path.ident.to_string())),
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(tree, prefix);
                }
            }
            UseTree::Glob(_) => self.globs.push(prefix.to_vec()),
            UseTree::Name(name) if name.ident == "self" => {
                if let Some(last) = prefix.last() {
                    self.bring(last.clone(), prefix.to_vec());
                }
            }
            UseTree::Name(name) => self.bring(name.ident.to_string(), with(name.ident.to_string())),
            UseTree::Rename(rename) => {
                self.bring(rename.rename.to_string(), with(rename.ident.to_string()));
            }
        }
    }

    fn bring(&mut self, name: String, path: Segments) {
        self.mentioned.insert(path.clone());
        self.imported.insert(name, path);
    }

    /// Collects `a::b::c` from tokens that syn does not parse: macros and attributes. A string in an attribute that
    /// reads like a path is one: `#[serde(with = "crate::wire::bytes")]`.
    fn scan(&mut self, tokens: TokenStream, strings: bool) {
        let mut path = Segments::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.mention(&mut path);
                    }
                    path.push(ident.to_string());
                    colons = 0;
                    continue;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => {
                    colons += 1;
                    continue;
                }
                TokenTree::Group(group) => self.scan(group.stream(), strings),
                TokenTree::Literal(literal) if strings => {
                    let text = literal.to_string();
                    if let Ok(path) = syn::parse_str::<syn::Path>(text.trim_matches('"')) {
                        self.visit_path(&path);
                    }
                }
                TokenTree::Literal(_) | TokenTree::Punct(_) => {}
            }
            self.mention(&mut path);
            colons = 0;
        }
        self.mention(&mut path);
    }

    fn mention(&mut self, path: &mut Segments) {
        if !path.is_empty() {
            self.mentioned.insert(std::mem::take(path));
        }
    }
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item(&mut self, i: &'ast Item) {
        if !attributes(i).iter().any(is_test) {
            visit::visit_item(self, i);
        }
    }

    fn visit_item_mod(&mut self, i: &'ast syn::ItemMod) {
        let file = i.attrs.iter().find_map(path_attribute);
        let body = i.content.as_ref().map(|(_, items)| items.clone());
        self.children.push((i.ident.to_string(), file, body));
    }

    fn visit_item_use(&mut self, i: &'ast ItemUse) {
        self.import(&i.tree, &[]);
    }

    fn visit_path(&mut self, i: &'ast syn::Path) {
        let segments = i.segments.iter();
        self.mentioned
            .insert(segments.map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, i);
    }

    fn visit_macro(&mut self, i: &'ast Macro) {
        self.visit_path(&i.path);
        self.scan(i.tokens.clone(), false);
    }

    fn visit_attribute(&mut self, i: &'ast Attribute) {
        match &i.meta {
            Meta::List(list) => self.scan(list.tokens.clone(), true),
            Meta::Path(_) | Meta::NameValue(_) => {}
        }
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Returns whether the attribute is `#[cfg(test)]`.
fn is_test(attribute: &Attribute) -> bool {
    let Meta::List(list) = &attribute.meta else {
        return false;
    };
    list.path.is_ident("cfg") && list.tokens.to_string() == "test"
}

/// Returns the file of `#[path = "…"]`.
fn path_attribute(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(pair) = &attribute.meta else {
        return None;
    };
    let syn::Expr::Lit(syn::ExprLit {
        lit: syn::Lit::Str(file),
        ..
    }) = &pair.value
    else {
        return None;
    };
    pair.path.is_ident("path").then(|| file.value())
}
