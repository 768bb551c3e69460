//! The module tree of a crate, and the files in which the names of its modules are defined.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use syn::Item;

use super::{
    Arrows,
    names::{Names, Segments},
};

type Id = usize;

struct Module {
    /// From the workspace's root.
    file: String,
    parent: Option<Id>,
    children: BTreeMap<String, Id>,
    names: Names,
}

/// What a path leads to.
#[derive(Clone, Copy)]
enum Place {
    Module(Id),
    /// An item that this module defines.
    Item(Id),
}

/// Returns the arrows between the files of the crate whose root is `source`.
pub(super) fn arrows(root: &Path, source: &Path) -> Result<Arrows> {
    let root = root.canonicalize().context("the workspace's root")?;
    let mut tree = Tree {
        root,
        modules: Vec::new(),
    };
    let source = source
        .canonicalize()
        .with_context(|| source.display().to_string())?;
    let folder = source.parent().context("a file is in a folder")?.to_owned();
    tree.load(&source, &folder, None)?;
    Ok(tree.arrows())
}

struct Tree {
    root: PathBuf,
    modules: Vec<Module>,
}

impl Tree {
    /// Loads the module in `file`, and those that it declares; their files are in `folder`.
    fn load(&mut self, file: &Path, folder: &Path, parent: Option<Id>) -> Result<Id> {
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let syntax = syn::parse_file(&text).with_context(|| file.display().to_string())?;
        self.add(file, folder, parent, &syntax.items)
    }

    fn add(
        &mut self,
        file: &Path,
        folder: &Path,
        parent: Option<Id>,
        items: &[Item],
    ) -> Result<Id> {
        let mut names = Names::read(items);
        let children = std::mem::take(&mut names.children);
        let id = self.modules.len();
        let relative = file.strip_prefix(&self.root).unwrap_or(file);
        self.modules.push(Module {
            file: relative.display().to_string(),
            parent,
            children: BTreeMap::new(),
            names,
        });
        for (name, path, body) in children {
            let inner = folder.join(&name);
            let child = match (body, path) {
                (Some(items), _) => self.add(file, &inner, Some(id), &items)?,
                (None, Some(path)) => {
                    // The children of such a file are beside it.
                    let beside = file.parent().unwrap_or(folder);
                    let own = beside.join(path);
                    self.load(&own, own.parent().unwrap_or(beside), Some(id))?
                }
                (None, None) => self.load(&inner.with_extension("rs"), &inner, Some(id))?,
            };
            if let Some(module) = self.modules.get_mut(id) {
                module.children.insert(name, child);
            }
        }
        Ok(id)
    }

    fn arrows(&self) -> Arrows {
        let mut arrows = Arrows::new();
        for (id, module) in self.modules.iter().enumerate() {
            for path in &module.names.mentioned {
                let Some(Place::Item(target)) = self.resolve(id, path, &mut BTreeSet::new()) else {
                    continue;
                };
                let target = &self.modules[target].file;
                if self.is_own_or_above(id, target) {
                    continue;
                }
                let name = path.last().cloned().unwrap_or_default();
                let arrow = (module.file.clone(), target.clone());
                arrows.entry(arrow).or_default().insert(name);
            }
        }
        arrows
    }

    /// Returns whether `file` is that of the module, or of one above it on the module tree.
    fn is_own_or_above(&self, id: Id, file: &str) -> bool {
        let above = |id: &Id| self.modules[*id].parent;
        std::iter::successors(Some(id), above).any(|id| self.modules[id].file == file)
    }

    /// Follows a path from a module. `seen` holds the steps that are being made, since globs and re-exports may lead
    /// back to where they came from.
    fn resolve(
        &self,
        from: Id,
        path: &Segments,
        seen: &mut BTreeSet<(Id, String)>,
    ) -> Option<Place> {
        let mut place = Place::Module(from);
        for (index, segment) in path.iter().enumerate() {
            let Place::Module(module) = place else {
                break; // a variant or an associated item: its type has been found
            };
            let last = index + 1 == path.len();
            place = match segment.as_str() {
                "crate" if index == 0 => Place::Module(0),
                "self" if index == 0 => Place::Module(from),
                "super" => Place::Module(self.modules[module].parent?),
                name => self.look_up(module, name, last, seen)?,
            };
        }
        Some(place)
    }

    /// Finds a name in a module. A function and a module may share a name: the last segment of a path means the function.
    fn look_up(
        &self,
        id: Id,
        name: &str,
        last: bool,
        seen: &mut BTreeSet<(Id, String)>,
    ) -> Option<Place> {
        let module = &self.modules[id];
        let child = module.children.get(name).map(|child| Place::Module(*child));
        if module.names.defined.contains(name) && (last || child.is_none()) {
            return Some(Place::Item(id));
        }
        let step = (id, format!("{name} {last}"));
        if (child.is_some() && !last) || !seen.insert(step.clone()) {
            return child;
        }
        let imported = module.names.imported.get(name);
        let found =
            imported
                .and_then(|path| self.resolve(id, path, seen))
                .or(child)
                .or_else(|| {
                    module.names.globs.iter().find_map(|glob| {
                        match self.resolve(id, glob, seen)? {
                            Place::Module(module) => self.look_up(module, name, last, seen),
                            Place::Item(_) => None,
                        }
                    })
                });
        seen.remove(&step);
        found
    }
}
