//! The dependency graph of a definition: edges, the stable topological order, the layers of deletion.
//!
//! Invariants: a graph never holds a cycle (an edge that would close one is refused); orders are decided by the
//! authored index alone, so equal definitions give equal orders whatever the hash seed.
//!
//! Source: kro `pkg/graph/dag/dag.go`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// A directed graph without cycles over named vertices with an authored index.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dag {
    vertices: BTreeMap<String, Vertex>,
}

#[derive(Clone, Debug)]
struct Vertex {
    index: usize,
    depends_on: BTreeSet<String>,
}

/// Why an edge or a vertex was refused; the text is kro's.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum DagError {
    /// The name is taken.
    #[error("node {0} already exists")]
    AlreadyExists(String),
    /// The edge names a vertex that is not there.
    #[error("node {0} does not exist")]
    DoesNotExist(String),
    /// The vertex would depend on itself.
    #[error("self references are not allowed")]
    SelfReference,
    /// The edge would close a cycle; first and last name are the same.
    #[error("graph contains a cycle: {}", .0.join(" -> "))]
    Cycle(Vec<String>),
}

// === impl Dag ===

impl Dag {
    /// Adds a vertex; `index` is its place in the authored order.
    ///
    /// # Errors
    /// `AlreadyExists` when the name is taken.
    pub(crate) fn add_vertex(&mut self, id: &str, index: usize) -> Result<(), DagError> {
        if self.vertices.contains_key(id) {
            return Err(DagError::AlreadyExists(id.to_owned()));
        }
        let vertex = Vertex {
            index,
            depends_on: BTreeSet::new(),
        };
        self.vertices.insert(id.to_owned(), vertex);
        Ok(())
    }

    /// Adds edges from `id` to everything that must come before it.
    ///
    /// # Errors
    /// `DoesNotExist`, `SelfReference` or `Cycle`; the edges of this call are then not kept.
    pub(crate) fn add_dependencies<S: AsRef<str>>(
        &mut self,
        id: &str,
        dependencies: &[S],
    ) -> Result<(), DagError> {
        let Some(vertex) = self.vertices.get(id) else {
            return Err(DagError::DoesNotExist(id.to_owned()));
        };
        let before = vertex.depends_on.clone();
        let mut after = before.clone();
        for dependency in dependencies.iter().map(AsRef::as_ref) {
            if !self.vertices.contains_key(dependency) {
                return Err(DagError::DoesNotExist(dependency.to_owned()));
            }
            if dependency == id {
                return Err(DagError::SelfReference);
            }
            after.insert(dependency.to_owned());
        }
        self.set_dependencies(id, after);
        match self.find_cycle() {
            None => Ok(()),
            Some(cycle) => {
                self.set_dependencies(id, before);
                Err(DagError::Cycle(cycle))
            }
        }
    }

    fn set_dependencies(&mut self, id: &str, depends_on: BTreeSet<String>) {
        if let Some(vertex) = self.vertices.get_mut(id) {
            vertex.depends_on = depends_on;
        }
    }

    /// Orders the vertices so that each follows its dependencies; among those that could come next, the lowest authored
    /// index does.
    pub(crate) fn topological_order(&self) -> Vec<String> {
        let mut traversal = Traversal::new(self, &Direction::DependenciesFirst);
        let mut order = Vec::with_capacity(self.vertices.len());
        while let Some(id) = traversal.pop() {
            traversal.advance(&id);
            order.push(id);
        }
        debug_assert_eq!(
            order.len(),
            self.vertices.len(),
            "edges that close a cycle are refused"
        );
        order
    }

    /// Numbers the waves in which objects are deleted: the vertices that nobody depends on have the highest number and
    /// go first, and every number is at least 1.
    pub(crate) fn apply_orders(&self) -> BTreeMap<String, i64> {
        let layers = self.layers_dependents_first();
        let count = i64::try_from(layers.len()).unwrap_or(i64::MAX);
        let mut orders = BTreeMap::new();
        for (number, layer) in (1..=count).rev().zip(layers) {
            orders.extend(layer.into_iter().map(|id| (id, number)));
        }
        orders
    }

    fn layers_dependents_first(&self) -> Vec<Vec<String>> {
        let mut traversal = Traversal::new(self, &Direction::DependentsFirst);
        let mut layers = Vec::new();
        loop {
            let mut layer = Vec::new();
            while let Some(id) = traversal.pop() {
                layer.push(id);
            }
            if layer.is_empty() {
                return layers;
            }
            for id in &layer {
                traversal.advance(id);
            }
            layers.push(layer);
        }
    }

    /// Finds a cycle, by depth first search in authored order, so that the same definition names the same cycle.
    fn find_cycle(&self) -> Option<Vec<String>> {
        let mut roots: Vec<(&String, &Vertex)> = self.vertices.iter().collect();
        roots.sort_by_key(|(_, vertex)| vertex.index);
        let mut done = BTreeSet::new();
        for (root, _) in roots {
            let mut path = Vec::new();
            if let Some(cycle) = self.visit(root, &mut path, &mut done) {
                return Some(cycle);
            }
        }
        None
    }

    fn visit<'a>(
        &'a self,
        id: &'a str,
        path: &mut Vec<&'a str>,
        done: &mut BTreeSet<&'a str>,
    ) -> Option<Vec<String>> {
        if done.contains(id) {
            return None;
        }
        if let Some(start) = path.iter().position(|seen| *seen == id) {
            let mut cycle: Vec<String> =
                path.iter().skip(start).map(|id| (*id).to_owned()).collect();
            cycle.push(id.to_owned());
            return Some(cycle);
        }
        path.push(id);
        for dependency in &self.vertices.get(id)?.depends_on {
            if let Some(cycle) = self.visit(dependency, path, done) {
                return Some(cycle);
            }
        }
        path.pop();
        done.insert(id);
        None
    }
}

enum Direction {
    DependenciesFirst,
    DependentsFirst,
}

/// Kahn's algorithm with a heap on (index, name).
struct Traversal<'a> {
    dag: &'a Dag,
    remaining: BTreeMap<&'a str, usize>,
    unlocks: BTreeMap<&'a str, Vec<&'a str>>,
    ready: BinaryHeap<Reverse<(usize, &'a str)>>,
}

// === impl Traversal ===

impl<'a> Traversal<'a> {
    fn new(dag: &'a Dag, direction: &Direction) -> Self {
        let mut remaining: BTreeMap<&str, usize> =
            dag.vertices.keys().map(|id| (id.as_str(), 0)).collect();
        let mut unlocks: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (id, vertex) in &dag.vertices {
            for dependency in &vertex.depends_on {
                let (waits, unlocked_by) = match direction {
                    Direction::DependenciesFirst => (id.as_str(), dependency.as_str()),
                    Direction::DependentsFirst => (dependency.as_str(), id.as_str()),
                };
                *remaining.entry(waits).or_default() += 1;
                unlocks.entry(unlocked_by).or_default().push(waits);
            }
        }
        let ready = remaining
            .iter()
            .filter(|(_, count)| **count == 0)
            .map(|(id, _)| Reverse((dag.index(id), *id)))
            .collect();
        Self {
            dag,
            remaining,
            unlocks,
            ready,
        }
    }

    fn pop(&mut self) -> Option<String> {
        self.ready.pop().map(|Reverse((_, id))| id.to_owned())
    }

    fn advance(&mut self, id: &str) {
        for waits in self.unlocks.get(id).into_iter().flatten() {
            let Some(count) = self.remaining.get_mut(waits) else {
                continue;
            };
            *count -= 1;
            if *count == 0 {
                self.ready.push(Reverse((self.dag.index(waits), waits)));
            }
        }
    }
}

impl Dag {
    fn index(&self, id: &str) -> usize {
        self.vertices
            .get(id)
            .map_or(usize::MAX, |vertex| vertex.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name, the lines of a graph, and the order of each vertex.
    type Case<'a> = (
        &'a str,
        &'a [(&'a str, &'a [&'a str])],
        &'a [(&'a str, i64)],
    );

    /// Builds a graph from `name: dependencies` lines in authored order.
    fn dag(lines: &[(&str, &[&str])]) -> Result<Dag, DagError> {
        let mut dag = Dag::default();
        for (index, (id, _)) in lines.iter().enumerate() {
            dag.add_vertex(id, index)?;
        }
        for (id, dependencies) in lines {
            dag.add_dependencies(id, dependencies)?;
        }
        Ok(dag)
    }

    #[test]
    fn the_topological_order_keeps_the_authored_order_among_equals() {
        let cases: [(&str, &[(&str, &[&str])], &str); 4] = [
            (
                "independent",
                &[("c", &[]), ("a", &[]), ("b", &[])],
                "c a b",
            ),
            (
                "chain against the authored order",
                &[("c", &["b"]), ("b", &["a"]), ("a", &[])],
                "a b c",
            ),
            (
                "diamond",
                &[("d", &["b", "c"]), ("c", &["a"]), ("b", &["a"]), ("a", &[])],
                "a c b d",
            ),
            (
                "a vertex becomes ready while a higher index waits",
                &[("a", &["z"]), ("m", &[]), ("z", &[])],
                "m z a",
            ),
        ];
        for (name, lines, want) in cases {
            let got = dag(lines).expect(name).topological_order().join(" ");
            assert_eq!(got, want, "{name}");
        }
    }

    #[test]
    fn apply_orders_count_down_from_the_objects_nobody_depends_on() {
        let cases: [Case<'_>; 3] = [
            ("alone", &[("a", &[]), ("b", &[])], &[("a", 1), ("b", 1)]),
            (
                "chain",
                &[("a", &[]), ("b", &["a"]), ("c", &["b"])],
                &[("a", 1), ("b", 2), ("c", 3)],
            ),
            (
                "no dependants and no dependencies still go with the first wave",
                &[("a", &[]), ("b", &["a"]), ("lone", &[])],
                &[("a", 1), ("b", 2), ("lone", 2)],
            ),
        ];
        for (name, lines, want) in cases {
            let want: BTreeMap<String, i64> = want
                .iter()
                .map(|(id, order)| ((*id).to_owned(), *order))
                .collect();
            assert_eq!(dag(lines).expect(name).apply_orders(), want, "{name}");
        }
    }

    #[test]
    fn bad_edges_are_refused_in_kros_words() {
        let cases: [(&str, &[(&str, &[&str])], &str); 4] = [
            (
                "cycle",
                &[("a", &["b"]), ("b", &["a"])],
                "graph contains a cycle: a -> b -> a",
            ),
            (
                "longer cycle",
                &[("a", &["c"]), ("b", &["a"]), ("c", &["b"]), ("d", &["c"])],
                "graph contains a cycle: a -> c -> b -> a",
            ),
            ("self", &[("a", &["a"])], "self references are not allowed"),
            ("unknown", &[("a", &["x"])], "node x does not exist"),
        ];
        for (name, lines, want) in cases {
            assert_eq!(dag(lines).expect_err(name).to_string(), want, "{name}");
        }
    }

    #[test]
    fn a_refused_edge_is_not_kept() {
        let mut dag = dag(&[("a", &[]), ("b", &["a"])]).expect("is a graph");
        assert!(dag.add_dependencies("a", &["b"]).is_err());
        assert_eq!(dag.topological_order(), ["a", "b"]);
        assert_eq!(
            dag.add_vertex("a", 7).expect_err("taken").to_string(),
            "node a already exists"
        );
    }
}
