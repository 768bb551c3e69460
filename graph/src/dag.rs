//! The dependency graph of a definition: edges, the stable topological order, the layers of deletion.
//!
//! Invariants: a graph never holds a cycle (an edge that would close one is refused); orders are decided by the
//! authored index alone, so equal definitions give equal orders whatever the hash seed.
//!
//! Source: kro `pkg/graph/dag/dag.go`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use petgraph::{
    Direction,
    algo::toposort,
    graph::{DiGraph, EdgeReference, NodeIndex},
    visit::{EdgeFiltered, EdgeRef as _},
};

/// A directed graph without cycles over named vertices with an authored index. Its edges lead to dependencies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dag {
    graph: DiGraph<Vertex, Turn>,
    places: BTreeMap<String, NodeIndex>,
}

#[derive(Clone, Debug)]
struct Vertex {
    id: String,
    index: usize,
}

/// Which of the vertices that were given dependencies an edge belongs to: the first, the second and so on.
type Turn = usize;

/// Edges that are not yet known to close no cycle.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    dag: Dag,
    /// The vertices that have been given dependencies, in that order.
    turns: Vec<NodeIndex>,
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
    /// The edges of `vertex` close a cycle; first and last name of the path are the same.
    #[error("graph contains a cycle: {}", .path.join(" -> "))]
    Cycle {
        /// The first vertex whose edges closed one.
        vertex: String,
        /// The cycle.
        path: Vec<String>,
    },
}

// === impl Builder ===

impl Builder {
    /// Adds a vertex; `index` is its place in the authored order.
    ///
    /// # Errors
    /// `AlreadyExists` when the name is taken.
    pub(crate) fn add_vertex(&mut self, id: &str, index: usize) -> Result<(), DagError> {
        if self.dag.places.contains_key(id) {
            return Err(DagError::AlreadyExists(id.to_owned()));
        }
        let id = id.to_owned();
        let vertex = Vertex {
            id: id.clone(),
            index,
        };
        let place = self.dag.graph.add_node(vertex);
        self.dag.places.insert(id, place);
        Ok(())
    }

    /// Adds edges from `id` to everything that must come before it, once for each vertex.
    ///
    /// # Errors
    /// `DoesNotExist` or `SelfReference`; the edges of this call are then not kept.
    pub(crate) fn add_dependencies<S: AsRef<str>>(
        &mut self,
        id: &str,
        dependencies: &[S],
    ) -> Result<(), DagError> {
        let from = self.place(id)?;
        let mut to = BTreeSet::new();
        for dependency in dependencies.iter().map(AsRef::as_ref) {
            let place = self.place(dependency)?;
            if place == from {
                return Err(DagError::SelfReference);
            }
            to.insert(place);
        }
        for place in to {
            self.dag.graph.add_edge(from, place, self.turns.len());
        }
        self.turns.push(from);
        Ok(())
    }

    fn place(&self, id: &str) -> Result<NodeIndex, DagError> {
        let place = self.dag.places.get(id).copied();
        place.ok_or_else(|| DagError::DoesNotExist(id.to_owned()))
    }

    /// Returns the graph.
    ///
    /// # Errors
    /// `Cycle`, of the first vertex whose edges closed one: kro looks for a cycle after each vertex, which takes the
    /// square of the time.
    pub(crate) fn build(self) -> Result<Dag, DagError> {
        if !self.is_cyclic(self.turns.len()) {
            return Ok(self.dag);
        }
        // A cycle stays, whatever is added: the first turn that has one is found by halving.
        let all: Vec<Turn> = (1..=self.turns.len()).collect();
        let first = all.partition_point(|count| !self.is_cyclic(*count));
        let vertex = self
            .turns
            .get(first)
            .map_or("", |place| self.dag.id(*place));
        Err(DagError::Cycle {
            vertex: vertex.to_owned(),
            path: self.cycle(first + 1),
        })
    }

    /// Returns whether the edges of the first `count` turns have a cycle.
    fn is_cyclic(&self, count: Turn) -> bool {
        let edges = EdgeFiltered::from_fn(&self.dag.graph, |edge: EdgeReference<'_, Turn>| {
            *edge.weight() < count
        });
        toposort(&edges, None).is_err()
    }

    /// Returns a cycle of the first `count` turns, by depth first search in authored order, so that the same definition
    /// names the same cycle. The path is on the heap: a definition can have more types than a stack has room for.
    fn cycle(&self, count: Turn) -> Vec<String> {
        let dag = &self.dag;
        let mut done = vec![false; dag.graph.node_count()];
        let mut depths: Vec<Option<usize>> = vec![None; dag.graph.node_count()];
        let mut roots: Vec<NodeIndex> = dag.places.values().copied().collect();
        roots.sort_by_key(|place| dag.graph[*place].index);
        for root in roots {
            let mut path: Vec<(NodeIndex, Vec<NodeIndex>)> = Vec::new();
            let mut next = Some(root);
            loop {
                if let Some(place) = next.take().filter(|place| !done[place.index()]) {
                    if let Some(start) = depths[place.index()] {
                        let places = path.iter().skip(start).map(|(place, _)| *place);
                        return places
                            .chain([place])
                            .map(|place| dag.id(place).to_owned())
                            .collect();
                    }
                    depths[place.index()] = Some(path.len());
                    path.push((place, self.dependencies_backwards(place, count)));
                }
                let Some((place, left)) = path.last_mut() else {
                    break;
                };
                next = left.pop();
                if next.is_none() {
                    depths[place.index()] = None;
                    done[place.index()] = true;
                    path.pop();
                }
            }
        }
        Vec::new()
    }

    /// Returns the dependencies of a vertex, the last by name first.
    fn dependencies_backwards(&self, place: NodeIndex, count: Turn) -> Vec<NodeIndex> {
        let edges = self.dag.graph.edges(place);
        let mut dependencies: Vec<NodeIndex> = edges
            .filter(|edge| *edge.weight() < count)
            .map(|edge| edge.target())
            .collect();
        dependencies.sort_by(|a, b| self.dag.id(*b).cmp(self.dag.id(*a)));
        dependencies
    }
}

// === impl Dag ===

impl Dag {
    /// Orders the vertices so that each follows its dependencies; among those that could come next, the lowest authored
    /// index does.
    pub(crate) fn topological_order(&self) -> Vec<String> {
        let mut traversal = Traversal::new(self, Direction::Outgoing);
        let mut order = Vec::with_capacity(self.graph.node_count());
        while let Some(place) = traversal.pop() {
            traversal.advance(place);
            order.push(self.id(place).to_owned());
        }
        debug_assert_eq!(
            order.len(),
            self.graph.node_count(),
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
            let ids = layer.into_iter().map(|place| self.id(place).to_owned());
            orders.extend(ids.map(|id| (id, number)));
        }
        orders
    }

    fn layers_dependents_first(&self) -> Vec<Vec<NodeIndex>> {
        let mut traversal = Traversal::new(self, Direction::Incoming);
        let mut layers = Vec::new();
        loop {
            let mut layer = Vec::new();
            while let Some(place) = traversal.pop() {
                layer.push(place);
            }
            if layer.is_empty() {
                return layers;
            }
            for place in &layer {
                traversal.advance(*place);
            }
            layers.push(layer);
        }
    }

    fn id(&self, place: NodeIndex) -> &str {
        &self.graph[place].id
    }
}

/// Kahn's algorithm with a heap on (index, name).
struct Traversal<'a> {
    dag: &'a Dag,
    /// Whither the edges lead that a vertex waits for.
    waits: Direction,
    /// How many vertices each one waits for.
    remaining: Vec<usize>,
    ready: BinaryHeap<Reverse<(usize, &'a str, NodeIndex)>>,
}

// === impl Traversal ===

impl<'a> Traversal<'a> {
    fn new(dag: &'a Dag, waits: Direction) -> Self {
        let count = |place| dag.graph.neighbors_directed(place, waits).count();
        let remaining: Vec<usize> = dag.graph.node_indices().map(count).collect();
        let mut traversal = Self {
            dag,
            waits,
            remaining,
            ready: BinaryHeap::new(),
        };
        for place in dag.graph.node_indices() {
            if traversal.remaining[place.index()] == 0 {
                traversal.push(place);
            }
        }
        traversal
    }

    fn push(&mut self, place: NodeIndex) {
        let vertex = &self.dag.graph[place];
        self.ready.push(Reverse((vertex.index, &vertex.id, place)));
    }

    fn pop(&mut self) -> Option<NodeIndex> {
        self.ready.pop().map(|Reverse((_, _, place))| place)
    }

    fn advance(&mut self, place: NodeIndex) {
        let unlocks = self.waits.opposite();
        for waiting in self.dag.graph.neighbors_directed(place, unlocks) {
            let count = &mut self.remaining[waiting.index()];
            *count -= 1;
            if *count == 0 {
                self.push(waiting);
            }
        }
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
        let mut builder = Builder::default();
        for (index, (id, _)) in lines.iter().enumerate() {
            builder.add_vertex(id, index)?;
        }
        for (id, dependencies) in lines {
            builder.add_dependencies(id, dependencies)?;
        }
        builder.build()
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
    fn the_first_vertex_that_closes_a_cycle_is_named() {
        let lines: &[(&str, &[&str])] = &[
            ("a", &[]),
            ("b", &["c"]),
            ("c", &["a", "b"]),
            ("d", &["e"]),
            ("e", &["d"]),
        ];
        let DagError::Cycle { vertex, path } = dag(lines).expect_err("has two cycles") else {
            unreachable!("its names and edges are right");
        };
        assert_eq!((vertex.as_str(), path.join(" ")), ("c", "b c b".to_owned()));
    }

    #[test]
    fn names_are_added_once_and_a_refused_edge_is_not_kept() {
        let mut builder = Builder::default();
        for (index, id) in ["a", "b"].into_iter().enumerate() {
            builder.add_vertex(id, index).expect("is new");
        }
        assert_eq!(
            builder.add_vertex("a", 7).expect_err("taken").to_string(),
            "node a already exists"
        );
        assert!(builder.add_dependencies("a", &["b", "x"]).is_err());
        builder.add_dependencies("b", &["a"]).expect("is a graph");
        let dag = builder.build().expect("the edge to b is not there");
        assert_eq!(dag.topological_order(), ["a", "b"]);
    }

    /// As many vertices as the types that fit into a definition, each made of the next, and both ways round: neither the
    /// stack nor the time of one who authors definitions may end.
    #[test]
    fn long_chains_take_neither_the_stack_nor_the_square_of_the_time() {
        const COUNT: usize = 60_000;
        let ids: Vec<String> = (0..COUNT).map(|place| format!("t{place:05}")).collect();
        let chain = |backwards: bool, closed: bool| {
            let mut builder = Builder::default();
            for id in &ids {
                builder.add_vertex(id, 0)?;
            }
            for (place, id) in ids.iter().enumerate() {
                let next = if backwards {
                    place.checked_sub(1)
                } else {
                    Some(place + 1).filter(|next| *next < COUNT)
                };
                let ring = if backwards { COUNT - 1 } else { 0 };
                let next = next.or(closed.then_some(ring));
                let next: Vec<&String> = next.map(|next| &ids[next]).into_iter().collect();
                builder.add_dependencies(id, &next)?;
            }
            builder.build()
        };
        for backwards in [false, true] {
            let dag = chain(backwards, false).expect("has no cycle");
            assert_eq!(dag.topological_order().len(), COUNT);
            assert_eq!(dag.apply_orders().len(), COUNT);
            let error = chain(backwards, true).expect_err("is a ring");
            assert!(
                matches!(&error, DagError::Cycle { path, .. } if path.len() == COUNT + 1),
                "the whole ring"
            );
        }
    }
}
