//! The compiled graph: everything that plans need, immutable and shared.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::crd::CustomResourceDefinition;
use api::kro::{Dependency, ResourceInformation};
use api::{GroupKind, GroupVersionKind, GroupVersionResource};
use expressions::{DeclType, Program};
use serde_json::Value;

use crate::field_path::Segment;
use crate::told::Told;

/// A definition that compiled.
#[derive(Debug)]
pub struct CompiledGraph {
    pub(crate) name: String,
    pub(crate) spec_hash: String,
    pub(crate) gvk: GroupVersionKind,
    pub(crate) group_kind: GroupKind,
    pub(crate) gvr: GroupVersionResource,
    pub(crate) namespaced: bool,
    pub(crate) definition: CustomResourceDefinition,
    /// In topological order.
    pub(crate) nodes: Vec<Node>,
    pub(crate) topological_order: Vec<Arc<str>>,
    pub(crate) resources: Vec<ResourceInformation>,
    pub(crate) instance: InstanceNode,
    /// What the status of instances says beside what kro says.
    pub(crate) told: Told,
    pub(crate) expression_count: usize,
}

/// One resource of a definition.
#[derive(Debug)]
pub struct Node {
    pub(crate) id: Arc<str>,
    pub(crate) kind: NodeKind,
    pub(crate) gvk: GroupVersionKind,
    pub(crate) gvr: GroupVersionResource,
    pub(crate) namespaced: bool,
    pub(crate) apply_order: i64,
    /// Positions in the topological order, ascending.
    pub(crate) dependencies: Vec<usize>,
    pub(crate) template: Value,
    pub(crate) fields: Vec<Field>,
    pub(crate) include_when: Vec<Expression>,
    pub(crate) ready_when: Vec<Expression>,
    pub(crate) for_each: Vec<Dimension>,
    /// The type of one of its objects.
    pub(crate) declared: DeclType,
    pub(crate) reads: BTreeSet<String>,
}

/// What a resource of a definition is.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum NodeKind {
    /// One object that is applied.
    Resource,
    /// As many objects as the forEach expands to.
    Collection,
    /// One object that is only read.
    External,
    /// All objects with certain labels, only read.
    ExternalCollection,
}

/// What is to be watched in the cluster that receives a graph's objects.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct ChildKind {
    /// The kind.
    pub gvk: GroupVersionKind,
    /// Its endpoint.
    pub gvr: GroupVersionResource,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Whether it is read as an external reference (without kro's labels on it), beside being applied or not.
    pub external: bool,
    /// Whether it is applied.
    pub applied: bool,
}

/// An expression that fills a place of a template.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) path: String,
    pub(crate) segments: Vec<Segment>,
    pub(crate) expression: Expression,
    /// Reads an iterator, so it is evaluated for each item.
    pub(crate) iterates: bool,
}

/// A dimension of a collection.
#[derive(Debug)]
pub(crate) struct Dimension {
    pub(crate) name: String,
    pub(crate) expression: Expression,
    pub(crate) element: DeclType,
}

/// A compiled expression with what it reads.
#[derive(Clone, Debug)]
pub(crate) struct Expression {
    pub(crate) program: Arc<Program>,
    /// The text that messages show.
    pub(crate) user_text: Arc<str>,
    pub(crate) references: Arc<[Reference]>,
    /// The place of its value among the values of one plan; equal texts share one.
    pub(crate) slot: usize,
}

/// A name that an expression reads.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Reference {
    /// The instance, under `schema`.
    Schema,
    /// A node, by its position in the topological order.
    Node(usize),
    /// The item whose readiness is asked, under `each`.
    Each,
    /// An iterator of the node's own forEach, by its position.
    Iterator(usize),
    /// The functions of status conditions, under `runtime`.
    Runtime,
}

/// What the instance's status is made of.
#[derive(Debug)]
pub(crate) struct InstanceNode {
    /// The status as written, with the expressions in place.
    pub(crate) fields: Vec<Field>,
    pub(crate) conditions: Vec<Expression>,
    /// The type of `schema`.
    pub(crate) declared: DeclType,
    /// Whether an expression reads `schema` as a whole, so that the status must really be taken off.
    pub(crate) read_whole: bool,
}

// === impl CompiledGraph ===

impl CompiledGraph {
    /// The name of the ResourceGraphDefinition.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The hash of the spec that was compiled.
    pub fn spec_hash(&self) -> &str {
        &self.spec_hash
    }

    /// The kind of instances.
    pub fn gvk(&self) -> &GroupVersionKind {
        &self.gvk
    }

    /// The group and kind of instances.
    pub fn group_kind(&self) -> &GroupKind {
        &self.group_kind
    }

    /// The endpoint of instances.
    pub fn gvr(&self) -> &GroupVersionResource {
        &self.gvr
    }

    /// Whether instances live in namespaces.
    pub fn namespaced(&self) -> bool {
        self.namespaced
    }

    /// The generated definition, without the labels that name its owner.
    pub fn definition(&self) -> &CustomResourceDefinition {
        &self.definition
    }

    /// The ids, each after those it depends on.
    pub fn topological_order(&self) -> &[Arc<str>] {
        &self.topological_order
    }

    /// What `status.resources` says: the nodes that depend on others.
    pub fn resources_status(&self) -> &[ResourceInformation] {
        &self.resources
    }

    /// The nodes in topological order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The node of an id.
    pub fn node(&self, id: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| &*node.id == id)
    }

    /// Whether the author has conditions of his own, which then stand in place of kro's.
    pub fn has_author_conditions(&self) -> bool {
        !self.instance.conditions.is_empty()
    }

    /// The distinct kinds that the graph applies or reads.
    pub fn child_kinds(&self) -> Vec<ChildKind> {
        let mut kinds: BTreeMap<&GroupVersionKind, ChildKind> = BTreeMap::new();
        for node in &self.nodes {
            let kind = kinds.entry(&node.gvk).or_insert_with(|| ChildKind {
                gvk: node.gvk.clone(),
                gvr: node.gvr.clone(),
                namespaced: node.namespaced,
                external: false,
                applied: false,
            });
            if node.kind.is_external() {
                kind.external = true;
            } else {
                kind.applied = true;
            }
        }
        kinds.into_values().collect()
    }
}

// === impl Node ===

impl Node {
    /// The id by which expressions name it.
    pub fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// What it is.
    pub fn kind(&self) -> NodeKind {
        self.kind
    }

    /// The kind of its objects.
    pub fn gvk(&self) -> &GroupVersionKind {
        &self.gvk
    }

    /// The endpoint of its objects.
    pub fn gvr(&self) -> &GroupVersionResource {
        &self.gvr
    }

    /// Whether its objects live in namespaces.
    pub fn namespaced(&self) -> bool {
        self.namespaced
    }

    /// The number of its deletion wave; the highest goes first.
    pub fn apply_order(&self) -> i64 {
        self.apply_order
    }

    /// The positions, in topological order, of the nodes it depends on.
    pub fn dependencies(&self) -> &[usize] {
        &self.dependencies
    }

    /// The dotted paths of its live objects that any expression reads; the empty path is the whole object.
    pub fn reads(&self) -> &BTreeSet<String> {
        &self.reads
    }
}

// === impl NodeKind ===

impl NodeKind {
    /// Whether its objects are read and never written.
    pub fn is_external(self) -> bool {
        matches!(self, Self::External | Self::ExternalCollection)
    }

    /// Whether others see it as a list.
    pub fn is_list(self) -> bool {
        matches!(self, Self::Collection | Self::ExternalCollection)
    }
}

/// The resources of a graph as `status.resources` shows them.
pub(crate) fn resource_information(
    id: &str,
    dependencies: &[String],
) -> Option<ResourceInformation> {
    if dependencies.is_empty() {
        return None;
    }
    Some(ResourceInformation {
        id: id.to_owned(),
        dependencies: dependencies
            .iter()
            .map(|id| Dependency { id: id.clone() })
            .collect(),
    })
}
