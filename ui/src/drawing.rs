//! The graph of a definition, laid out from left to right: where each node is, and how each arrow goes.
//!
//! A layered drawing (Sugiyama, Tagawa, Toda, 1981): the transitive reduction takes out arrows that others imply, the longest path gives
//! each node its column, arrows over several columns get a bend in each, and medians of neighbours order the columns.
//!
//! # Invariants
//! - Any object is drawn: what is no dependency of a node that exists is left out, and a graph with a cycle has no arrows.
//! - The work is bounded by [`NODE_COUNT_MAX`], [`EDGE_COUNT_MAX`] and [`BEND_COUNT_MAX`]. The same graph gives the same drawing.

mod text;

use std::collections::{BTreeMap, BTreeSet};

use petgraph::{
    algo::{
        toposort,
        tred::{dag_to_toposorted_adjacency_list, dag_transitive_reduction_closure},
    },
    graph::{DiGraph, NodeIndex},
    visit::IntoNeighbors as _,
};
use serde::Serialize;
use serde_json::Value;

/// Nodes of one drawing. A definition of the size that an object may have could hold ten times as many, which nobody can read.
const NODE_COUNT_MAX: usize = 400;
/// Arrows that are looked at.
const EDGE_COUNT_MAX: usize = 8_000;
/// Bends of all arrows.
const BEND_COUNT_MAX: usize = 8_000;
/// Sweeps over the columns, there and back; crossings rarely become fewer after four.
const SWEEP_COUNT: usize = 6;
/// Characters of a text on a node.
const TEXT_COUNT_MAX: usize = 253;

/// Size of a node, and the space between two, in CSS pixels.
const NODE_WIDTH: u32 = 188;
const NODE_HEIGHT: u32 = 52;
const COLUMN_GAP: u32 = 56;
const ROW_GAP: u32 = 20;

/// A graph with places.
#[derive(Debug, Serialize)]
pub struct Drawing {
    name: String,
    kind: String,
    /// Whether the arrows are known: the definition has been compiled.
    compiled: bool,
    /// How many nodes there are beyond those that are drawn.
    omitted: usize,
    width: u32,
    height: u32,
    nodes: Vec<Node>,
    edges: Vec<Edge>,
}

/// A node of a definition.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    id: String,
    kind: String,
    api_version: String,
    traits: Vec<Trait>,
    dependencies: Vec<String>,
    x: u32,
    y: u32,
    width: u32,
    height: u32,
}

/// What is special about a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum Trait {
    /// It may be left out (`includeWhen`).
    Conditional,
    /// It stands for any number of objects (`forEach`).
    Collection,
    /// It is read and not written (`externalRef`).
    External,
    /// It says itself when it is ready (`readyWhen`).
    Gated,
}

/// An arrow from a node to one that needs it.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Edge {
    from: String,
    to: String,
    points: Vec<(u32, u32)>,
}

/// What stands in a column: a node, or the bend of an arrow.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Twice the median place of the neighbours.
    weight: usize,
    y: u32,
    is_node: bool,
}

/// Nodes and bends in their columns.
struct Layout {
    slots: Vec<Slot>,
    columns: Vec<Vec<usize>>,
    /// For each arrow: its slots from left to right.
    chains: Vec<Vec<usize>>,
    before: Vec<Vec<usize>>,
    after: Vec<Vec<usize>>,
}

// === impl Drawing ===

impl Drawing {
    /// Draws a ResourceGraphDefinition.
    pub fn of(definition: &Value) -> Self {
        let (mut nodes, omitted) = nodes_of(definition);
        let compiled = connect(&mut nodes, &definition["status"]["resources"]);
        let edges = reduced(&nodes);
        let layout = Layout::of(nodes.len(), &edges);
        let edges = layout.place(&mut nodes, &edges);
        let (width, height) = nodes.iter().fold((0, 0), |(width, height), node| {
            (
                width.max(node.x.saturating_add(node.width)),
                height.max(node.y.saturating_add(node.height)),
            )
        });
        Self {
            name: text_of(&definition["metadata"]["name"]),
            kind: text_of(&definition["spec"]["schema"]["kind"]),
            compiled,
            omitted,
            width,
            height,
            nodes,
            edges,
        }
    }
}

/// Reads the nodes, in the order of the definition, and how many are left out.
fn nodes_of(definition: &Value) -> (Vec<Node>, usize) {
    let resources = definition["spec"]["resources"].as_array();
    let mut seen = BTreeSet::new();
    let mut nodes = Vec::new();
    let mut omitted = 0_usize;
    for resource in resources.into_iter().flatten() {
        let id = text_of(&resource["id"]);
        if id.is_empty() || !seen.insert(id.clone()) {
            continue;
        }
        if nodes.len() == NODE_COUNT_MAX {
            omitted = omitted.saturating_add(1);
            continue;
        }
        let traits = traits_of(resource);
        let object = if traits.contains(&Trait::External) {
            "externalRef"
        } else {
            "template"
        };
        let object = &resource[object];
        nodes.push(Node {
            id,
            kind: text_of(&object["kind"]),
            api_version: text_of(&object["apiVersion"]),
            traits,
            dependencies: Vec::new(),
            x: 0,
            y: 0,
            width: NODE_WIDTH,
            height: NODE_HEIGHT,
        });
    }
    (nodes, omitted)
}

fn traits_of(resource: &Value) -> Vec<Trait> {
    let is_list = |name: &str| {
        resource[name]
            .as_array()
            .is_some_and(|list| !list.is_empty())
    };
    let all = [
        (is_list("includeWhen"), Trait::Conditional),
        (is_list("forEach"), Trait::Collection),
        (resource["externalRef"].is_object(), Trait::External),
        (is_list("readyWhen"), Trait::Gated),
    ];
    all.into_iter()
        .filter_map(|(has, it)| has.then_some(it))
        .collect()
}

fn text_of(value: &Value) -> String {
    let text = value.as_str().unwrap_or_default();
    text.chars().take(TEXT_COUNT_MAX).collect()
}

/// Takes the dependencies from what the compiler has found. Returns whether it has.
fn connect(nodes: &mut [Node], resources: &Value) -> bool {
    let Some(resources) = resources.as_array() else {
        return nodes.len() < 2;
    };
    let places: BTreeMap<String, usize> = nodes
        .iter()
        .enumerate()
        .map(|(place, node)| (node.id.clone(), place))
        .collect();
    let mut count = 0_usize;
    for resource in resources {
        let Some(&place) = resource["id"].as_str().and_then(|id| places.get(id)) else {
            continue;
        };
        for dependency in resource["dependencies"].as_array().into_iter().flatten() {
            let id = dependency["id"].as_str().unwrap_or_default();
            let is_other = places.get(id).is_some_and(|&other| other != place);
            let Some(node) = nodes.get_mut(place) else {
                continue;
            };
            if is_other && count < EDGE_COUNT_MAX && !node.dependencies.iter().any(|it| it == id) {
                node.dependencies.push(id.to_owned());
                count = count.saturating_add(1);
            }
        }
    }
    true
}

/// The arrows that no others imply, from a dependency to what depends on it; none where they go in a circle.
fn reduced(nodes: &[Node]) -> Vec<(usize, usize)> {
    let mut graph = DiGraph::<(), (), u32>::new();
    let places: BTreeMap<&str, NodeIndex> = nodes
        .iter()
        .map(|node| (node.id.as_str(), graph.add_node(())))
        .collect();
    for node in nodes {
        for dependency in &node.dependencies {
            let ends = places
                .get(dependency.as_str())
                .zip(places.get(node.id.as_str()));
            if let Some((&from, &to)) = ends {
                graph.add_edge(from, to, ());
            }
        }
    }
    let Ok(order) = toposort(&graph, None) else {
        return Vec::new();
    };
    let (list, _) = dag_to_toposorted_adjacency_list::<_, u32>(&graph, &order);
    let (reduction, _) = dag_transitive_reduction_closure(&list);
    let mut edges: Vec<(usize, usize)> = reduction
        .node_indices()
        .flat_map(|from| reduction.neighbors(from).map(move |to| (from, to)))
        .filter_map(|(from, to)| {
            let (from, to) = (order.get(from as usize)?, order.get(to as usize)?);
            Some((from.index(), to.index()))
        })
        .collect();
    edges.sort_unstable();
    edges
}

// === impl Layout ===

impl Layout {
    fn of(node_count: usize, edges: &[(usize, usize)]) -> Self {
        let column_of = columns(node_count, edges);
        let column_count = column_of.iter().max().map_or(0, |last| last + 1);
        let slot = |is_node| Slot {
            weight: 0,
            y: 0,
            is_node,
        };
        let mut layout = Self {
            slots: vec![slot(true); node_count],
            columns: vec![Vec::new(); column_count],
            chains: Vec::with_capacity(edges.len()),
            before: vec![Vec::new(); node_count],
            after: vec![Vec::new(); node_count],
        };
        for (node, column) in column_of.iter().enumerate() {
            layout.columns[*column].push(node);
        }
        for &(from, to) in edges {
            let mut chain = vec![from];
            for column in column_of[from] + 1..column_of[to] {
                if layout.slots.len() >= node_count + BEND_COUNT_MAX {
                    break;
                }
                let bend = layout.slots.len();
                layout.slots.push(slot(false));
                layout.before.push(Vec::new());
                layout.after.push(Vec::new());
                layout.columns[column].push(bend);
                chain.push(bend);
            }
            chain.push(to);
            for pair in chain.windows(2) {
                layout.after[pair[0]].push(pair[1]);
                layout.before[pair[1]].push(pair[0]);
            }
            layout.chains.push(chain);
        }
        layout.order();
        layout.stack();
        layout
    }

    /// Orders each column by the medians of its neighbours, from left to right and back.
    fn order(&mut self) {
        for sweep in 0..SWEEP_COUNT {
            let is_forward = sweep % 2 == 0;
            let count = self.columns.len();
            for step in 1..count {
                let column = if is_forward { step } else { count - 1 - step };
                let beside = if is_forward { column - 1 } else { column + 1 };
                let mut places = BTreeMap::new();
                for (place, slot) in self.columns[beside].iter().enumerate() {
                    places.insert(*slot, place);
                }
                let mut slots = std::mem::take(&mut self.columns[column]);
                for (place, slot) in slots.iter().enumerate() {
                    let neighbours = if is_forward {
                        &self.before[*slot]
                    } else {
                        &self.after[*slot]
                    };
                    self.slots[*slot].weight = median(neighbours, &places).unwrap_or(2 * place);
                }
                slots.sort_by_key(|slot| self.slots[*slot].weight);
                self.columns[column] = slots;
            }
        }
    }

    /// Gives each slot its height: columns are centred on the tallest one.
    fn stack(&mut self) {
        let height_of = |slot: &Slot| if slot.is_node { NODE_HEIGHT } else { ROW_GAP };
        let height = |column: &[usize]| -> u32 {
            column
                .iter()
                .map(|slot| height_of(&self.slots[*slot]) + ROW_GAP)
                .sum()
        };
        let heights: Vec<u32> = self.columns.iter().map(|column| height(column)).collect();
        let tallest = heights.iter().copied().max().unwrap_or(0);
        for (column, height) in self.columns.iter().zip(heights) {
            let mut y = (tallest - height) / 2;
            for slot in column {
                self.slots[*slot].y = y;
                y += height_of(&self.slots[*slot]) + ROW_GAP;
            }
        }
    }

    /// Puts the nodes into place, and returns the arrows between them.
    fn place(&self, nodes: &mut [Node], edges: &[(usize, usize)]) -> Vec<Edge> {
        let mut left = vec![0; self.slots.len()];
        for (column, slots) in self.columns.iter().enumerate() {
            let column = u32::try_from(column).unwrap_or(u32::MAX);
            for slot in slots {
                left[*slot] = column.saturating_mul(NODE_WIDTH + COLUMN_GAP);
            }
        }
        for (place, node) in nodes.iter_mut().enumerate() {
            (node.x, node.y) = (left[place], self.slots[place].y);
        }
        let mut arrows = Vec::with_capacity(edges.len());
        for (&(from, to), chain) in edges.iter().zip(&self.chains) {
            let mut points = Vec::with_capacity(2 * chain.len());
            for (place, slot) in chain.iter().enumerate() {
                let middle = if self.slots[*slot].is_node {
                    NODE_HEIGHT
                } else {
                    ROW_GAP
                } / 2;
                let y = self.slots[*slot].y + middle;
                if place > 0 {
                    points.push((left[*slot], y));
                }
                if place + 1 < chain.len() {
                    points.push((left[*slot] + NODE_WIDTH, y));
                }
            }
            let (from, to) = (nodes[from].id.clone(), nodes[to].id.clone());
            arrows.push(Edge { from, to, points });
        }
        arrows
    }
}

/// The column of each node: one more than the last of those it depends on.
fn columns(node_count: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut column_of = vec![0; node_count];
    // Without a circle no path has more arrows than there are nodes.
    for _ in 0..node_count {
        let mut has_moved = false;
        for &(from, to) in edges {
            if column_of[to] <= column_of[from] {
                column_of[to] = column_of[from] + 1;
                has_moved = true;
            }
        }
        if !has_moved {
            break;
        }
    }
    column_of
}

/// Twice the median place of the neighbours.
fn median(neighbours: &[usize], places: &BTreeMap<usize, usize>) -> Option<usize> {
    let mut found: Vec<usize> = neighbours
        .iter()
        .filter_map(|neighbour| places.get(neighbour).copied())
        .collect();
    found.sort_unstable();
    let middle = found.len() / 2;
    match found.len() {
        0 => None,
        count if count % 2 == 1 => Some(2 * found[middle]),
        _ => Some(found[middle - 1] + found[middle]),
    }
}

#[cfg(test)]
mod tests;
