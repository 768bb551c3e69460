//! Sets of fields and their algebra.
//!
//! A set is a tree: a node is a path element, whether the path to it is a member, and the nodes below it. A node can
//! be a member without children (a leaf), have children and be no member, or be both.
//!
//! Invariants: nodes are sorted by element and distinct; a node that is no member has children.
//!
//! Source: `structured-merge-diff/fieldpath/set.go`, which keeps members and children in two lists.

use std::cmp::Ordering;

use super::element::PathElement;

/// A set of paths into an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSet {
    nodes: Vec<Node>,
}

/// A path element, with all that the set holds at and below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) element: PathElement,
    pub(crate) member: bool,
    pub(crate) children: FieldSet,
}

// === impl FieldSet ===

impl FieldSet {
    /// The set without members.
    pub const fn new() -> Self {
        Self { nodes: Vec::new() }
    }

    /// The set of these paths.
    pub fn from_paths<P: AsRef<[PathElement]>>(paths: impl IntoIterator<Item = P>) -> Self {
        let mut set = Self::new();
        for path in paths {
            set.insert(path.as_ref());
        }
        set
    }

    /// The set of these paths of field names.
    pub fn from_field_names(paths: &[&[&str]]) -> Self {
        Self::from_paths(paths.iter().map(|path| {
            path.iter()
                .map(|name| PathElement::field(name))
                .collect::<Vec<_>>()
        }))
    }

    /// Adds a path. The empty path is no field and is never a member.
    pub fn insert(&mut self, path: &[PathElement]) {
        let Some((element, rest)) = path.split_first() else {
            return;
        };
        let index = match self.find(element) {
            Ok(index) => index,
            Err(index) => {
                let node = Node {
                    element: element.clone(),
                    member: false,
                    children: Self::new(),
                };
                self.nodes.insert(index, node);
                index
            }
        };
        if let Some(node) = self.nodes.get_mut(index) {
            if rest.is_empty() {
                node.member = true;
            } else {
                node.children.insert(rest);
            }
        }
    }

    /// Whether the path is a member.
    pub fn contains(&self, path: &[PathElement]) -> bool {
        let Some((element, rest)) = path.split_first() else {
            return false;
        };
        self.get(element).is_some_and(|node| {
            if rest.is_empty() {
                node.member
            } else {
                node.children.contains(rest)
            }
        })
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The count of members.
    pub fn len(&self) -> usize {
        self.nodes
            .iter()
            .map(|node| usize::from(node.member).saturating_add(node.children.len()))
            .fold(0, usize::saturating_add)
    }

    /// The members, those of a level before those of deeper levels below it.
    pub fn paths(&self) -> Vec<Vec<PathElement>> {
        let mut paths = Vec::new();
        self.collect_paths(&mut Vec::new(), &mut paths);
        paths
    }

    /// The members of either set.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        if self.nodes.is_empty() {
            return other;
        }
        if other.nodes.is_empty() {
            return self;
        }
        let mut nodes = Vec::with_capacity(self.nodes.len().max(other.nodes.len()));
        let mut left = self.nodes.into_iter().peekable();
        let mut right = other.nodes.into_iter().peekable();
        loop {
            let order = match (left.peek(), right.peek()) {
                (Some(l), Some(r)) => l.element.cmp(&r.element),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => break,
            };
            match order {
                Ordering::Less => nodes.extend(left.next()),
                Ordering::Greater => nodes.extend(right.next()),
                Ordering::Equal => {
                    nodes.extend(left.next().zip(right.next()).map(|(l, r)| Node {
                        element: l.element,
                        member: l.member || r.member,
                        children: l.children.union(r.children),
                    }));
                }
            }
        }
        Self { nodes }
    }

    /// The members of both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut nodes = Vec::new();
        zip(&self.nodes, &other.nodes, |left, right| {
            if let (Some(left), Some(right)) = (left, right) {
                let member = left.member && right.member;
                let children = left.children.intersection(&right.children);
                if member || !children.is_empty() {
                    nodes.push(Node {
                        element: left.element.clone(),
                        member,
                        children,
                    });
                }
            }
        });
        Self { nodes }
    }

    /// The members of this set that are not members of the other. What lies below a member of the other stays.
    #[must_use]
    pub fn difference(mut self, other: &Self) -> Self {
        self.subtract(other, Depth::Members);
        self
    }

    /// The members of this set that are neither members of the other nor lie below one.
    #[must_use]
    pub fn recursive_difference(mut self, other: &Self) -> Self {
        self.subtract(other, Depth::Subtrees);
        self
    }

    /// Whether all members are members of the other set.
    pub fn is_subset(&self, other: &Self) -> bool {
        let mut others = other.nodes.iter().peekable();
        self.nodes.iter().all(|node| {
            while others
                .next_if(|other| other.element < node.element)
                .is_some()
            {}
            others.peek().is_some_and(|other| {
                other.element == node.element
                    && (other.member || !node.member)
                    && node.children.is_subset(&other.children)
            })
        })
    }

    /// The members without members below them.
    #[must_use]
    pub fn leaves(mut self) -> Self {
        for node in &mut self.nodes {
            if !node.children.is_empty() {
                node.member = false;
                node.children = std::mem::take(&mut node.children).leaves();
            }
        }
        self
    }

    /// What the set holds below an element.
    pub fn below(&self, element: &PathElement) -> Option<&Self> {
        self.get(element)
            .map(|node| &node.children)
            .filter(|children| !children.is_empty())
    }

    /// Makes a set of nodes in any order; where an element occurs twice, the later children win.
    pub(crate) fn from_nodes(mut nodes: Vec<Node>) -> Self {
        if !nodes.is_sorted_by(|left, right| left.element < right.element) {
            nodes.sort_by(|left, right| left.element.cmp(&right.element));
            nodes.dedup_by(|later, kept| {
                let same = later.element == kept.element;
                if same {
                    kept.member |= later.member;
                    if !later.children.is_empty() {
                        kept.children = std::mem::take(&mut later.children);
                    }
                }
                same
            });
        }
        Self { nodes }
    }

    pub(crate) fn get(&self, element: &PathElement) -> Option<&Node> {
        self.find(element)
            .ok()
            .and_then(|index| self.nodes.get(index))
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub(crate) fn nodes_mut(&mut self) -> &mut [Node] {
        &mut self.nodes
    }

    fn find(&self, element: &PathElement) -> Result<usize, usize> {
        self.nodes
            .binary_search_by(|node| node.element.cmp(element))
    }

    fn subtract(&mut self, other: &Self, depth: Depth) {
        if other.nodes.is_empty() {
            return;
        }
        let mut others = other.nodes.iter().peekable();
        self.nodes.retain_mut(|node| {
            while others
                .next_if(|other| other.element < node.element)
                .is_some()
            {}
            let Some(other) = others.next_if(|other| other.element == node.element) else {
                return true;
            };
            if other.member {
                if depth == Depth::Subtrees {
                    return false;
                }
                node.member = false;
            }
            node.children.subtract(&other.children, depth);
            node.member || !node.children.is_empty()
        });
    }

    fn collect_paths(&self, prefix: &mut Vec<PathElement>, paths: &mut Vec<Vec<PathElement>>) {
        for node in self.nodes.iter().filter(|node| node.member) {
            let mut path = Vec::with_capacity(prefix.len().saturating_add(1));
            path.extend(prefix.iter().cloned());
            path.push(node.element.clone());
            paths.push(path);
        }
        for node in self.nodes.iter().filter(|node| !node.children.is_empty()) {
            prefix.push(node.element.clone());
            node.children.collect_paths(prefix, paths);
            prefix.pop();
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    Members,
    Subtrees,
}

/// Walks two sorted lists of nodes in step.
fn zip<'a>(
    left: &'a [Node],
    right: &'a [Node],
    mut visit: impl FnMut(Option<&'a Node>, Option<&'a Node>),
) {
    let mut left = left.iter().peekable();
    let mut right = right.iter().peekable();
    loop {
        let order = match (left.peek(), right.peek()) {
            (Some(l), Some(r)) => l.element.cmp(&r.element),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return,
        };
        match order {
            Ordering::Less => visit(left.next(), None),
            Ordering::Greater => visit(None, right.next()),
            Ordering::Equal => visit(left.next(), right.next()),
        }
    }
}

#[cfg(test)]
mod tests;
