//! Compiling a definition: names, schema, resources, dependencies, expressions, status.
//!
//! The stages stand in kro's order, and each refuses in kro's words; the first refusal ends it. Where kro walks a Go map
//! within a stage we go in authored or key order, so that of several mistakes the same one is always named.
//!
//! What is not known before there are values is let pass: the static checker of all types is a later work. Types that
//! are certain (literals, operators, declared paths) are held against each other already.
//!
//! Source: kro `pkg/graph/builder.go`.

mod author_conditions;
mod dependencies;
mod expression;
mod external;
mod inspect;
mod reads;
mod resource;
mod status;
mod types;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use api::crd::CustomResourceDefinition;
use api::kro::RgdSpec;
use api::{GroupVersionKind, GroupVersionResource};
use dialect::{json::type_word, quote};
use expressions::{Environment, Reader};
use schema::Schema;
use serde_json::{Map, Value};

use crate::compile::expression::Compiler;
use crate::compile::resource::Draft;
use crate::dag::Dag;
use crate::definition::{self, Names};
use crate::graph::{CompiledGraph, resource_information};
use crate::hash::hash_spec;
use crate::naming;
use crate::resolve::{ResolveError, SchemaResolver};
use crate::scale;
use crate::simple_schema;
use crate::told::{self, Told};

/// The most dimensions a forEach may have; kro's default of `--rgd-max-collection-dimension-size`.
pub const DIMENSIONS_MAX: usize = 10;

/// What a compilation permits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "one for each gate")]
pub struct CompileOptions {
    /// Whether `omit()` may be used; kro's feature gate `CELOmitFunction`.
    pub omit: bool,
    /// The most dimensions a forEach may have.
    pub dimensions_max: usize,
    /// Whether the status of instances says how their nodes are.
    pub node_status: bool,
    /// Whether instances have the scale subresource that their definition asks for.
    pub scale: bool,
    /// Whether children stay that nothing wants any more, where their annotation says so.
    pub deletion_policy: bool,
}

/// Why a definition was refused. `Display` is kro's text, as it stands in the condition `GraphAccepted`.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct CompileError {
    message: String,
    cause: Cause,
}

/// What a refusal comes from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Cause {
    /// The definition itself.
    Definition,
    /// A kind that the cluster does not serve, and may serve later.
    Unresolved,
    /// The cluster, which could not be asked.
    Unavailable,
}

/// Compiles a definition against the kinds of one cluster.
///
/// # Errors
/// kro's text for the first thing that is wrong with it.
pub fn compile(
    spec: &RgdSpec,
    name: &str,
    resolver: &dyn SchemaResolver,
) -> Result<Arc<CompiledGraph>, CompileError> {
    compile_with(spec, name, resolver, &CompileOptions::default())
}

/// Compiles a definition with other permissions than the usual ones.
///
/// # Errors
/// As [`compile`].
pub fn compile_with(
    spec: &RgdSpec,
    name: &str,
    resolver: &dyn SchemaResolver,
    options: &CompileOptions,
) -> Result<Arc<CompiledGraph>, CompileError> {
    check_names(spec, options)?;
    let names = names_of(spec);
    let refuse = |error: api::reserved::Reserved| {
        CompileError::from(format!(
            "failed to validate resourcegraphdefinition: {error}"
        ))
    };
    api::reserved::claim_kind(names.group, &names.plural(), names.kind).map_err(refuse)?;
    let failed = |error: String| {
        let name = quote(name);
        format!("failed to build resourcegraphdefinition {name}: {error}")
    };
    let spec_schema = instance_spec_schema(spec).map_err(failed)?;
    let drafts = draft_resources(spec, resolver, names.cluster_scoped)?;
    if options.deletion_policy {
        resource::check_policies(&drafts).map_err(failed)?;
    }
    let environment = if options.omit {
        Environment::kro_with_omit()
    } else {
        Environment::kro()
    };
    let reader = Rc::new(Reader::new(environment));
    let (drafts, order) = dependencies::connect(drafts, Rc::clone(&reader), options)
        .map_err(|error| format!("failed to build dependency graph: {error}"))?;
    if options.omit {
        resource::check_identities(&drafts, &reader, !names.cluster_scoped)?;
    }
    let instance_type = types::instance_type(&spec_schema, names.cluster_scoped)?;
    let mut compiler = Compiler::new(&drafts, reader, &instance_type, &order);
    let mut nodes = order
        .iter()
        .map(|id| compiler.node(id))
        .collect::<Result<Vec<_>, String>>()?;
    let mut status = status::infer(&mut compiler, spec.schema.status.as_ref())?;
    let told = if options.node_status {
        told::declare(&mut status.schema)
    } else {
        Told::default()
    };
    let mut instance = status.instance;
    reads::note(&mut nodes, &mut instance);
    let schema = serde_json::to_value(&spec.schema).map_err(|error| error.to_string())?;
    let mut definition = definition::define(&names, &schema, &spec_schema, status.schema);
    if options.scale {
        scale::declare(&schema, &mut definition["spec"]["versions"][0]).map_err(failed)?;
    }
    let definition = CustomResourceDefinition::from_value(&definition)
        .map_err(|status| CompileError::from(status.message))?;
    api::reserved::claim(&definition.spec).map_err(refuse)?;
    let gvk = GroupVersionKind::new(names.group, names.version, names.kind);
    Ok(Arc::new(CompiledGraph {
        name: name.to_owned(),
        spec_hash: hash_of(spec),
        group_kind: gvk.group_kind(),
        gvk,
        gvr: GroupVersionResource::new(names.group, names.version, names.plural()),
        namespaced: !names.cluster_scoped,
        definition,
        topological_order: nodes.iter().map(|node| Arc::clone(&node.id)).collect(),
        resources: order
            .iter()
            .filter_map(|id| resource_information(id, &drafts.get(id)?.dependencies))
            .collect(),
        expression_count: compiler.slot_count(),
        told,
        nodes,
        instance,
    }))
}

/// Returns where the instances of a definition are served, whether it compiles or not.
pub fn instance_endpoint(spec: &RgdSpec) -> GroupVersionResource {
    let names = names_of(spec);
    GroupVersionResource::new(names.group, names.version, names.plural())
}

/// Hashes a spec: 16 hexadecimal digits, the value of the label `kro.run/graph-revision-hash`.
pub fn spec_hash(spec: &RgdSpec) -> String {
    hash_of(spec)
}

fn hash_of(spec: &RgdSpec) -> String {
    let spec = serde_json::to_value(spec).expect("a spec has text keys and finite numbers only");
    hash_spec(&spec)
}

fn names_of(spec: &RgdSpec) -> Names<'_> {
    let schema = &spec.schema;
    Names {
        group: if schema.group.is_empty() {
            api::kro::GROUP
        } else {
            &schema.group
        },
        version: &schema.api_version,
        kind: &schema.kind,
        cluster_scoped: !schema.is_namespaced(),
    }
}

fn check_names(spec: &RgdSpec, options: &CompileOptions) -> Result<(), CompileError> {
    let ids: Vec<&str> = spec
        .resources
        .iter()
        .map(|resource| resource.id.as_str())
        .collect();
    let iterators: Vec<(&str, Vec<&str>)> = spec
        .resources
        .iter()
        .map(|resource| {
            let names = resource
                .for_each
                .iter()
                .flat_map(|dimension| dimension.keys());
            (resource.id.as_str(), names.map(String::as_str).collect())
        })
        .collect();
    naming::check_names(&spec.schema.kind, &ids, &iterators, options.dimensions_max)
        .map_err(|error| format!("failed to validate resourcegraphdefinition: {error}").into())
}

/// Makes the schema of the instance's spec out of its SimpleSchema.
fn instance_spec_schema(spec: &RgdSpec) -> Result<Value, String> {
    let empty = Map::new();
    let map = |value: &'_ Option<Value>, what: &str| match value {
        None | Some(Value::Null) => Ok(empty.clone()),
        Some(Value::Object(map)) => Ok(map.clone()),
        Some(other) => Err(format!(
            "failed to unmarshal {what}: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            type_word(other)
        )),
    };
    let notation = map(&spec.schema.spec, "spec schema")?;
    let types = map(&spec.schema.types, "predefined types")?;
    simple_schema::to_openapi(&notation, &types)
        .map_err(|error| format!("failed to build OpenAPI schema for instance: {error}"))
}

/// Takes up all resources: first what each says of itself, then what the cluster says of its kind.
fn draft_resources(
    spec: &RgdSpec,
    resolver: &dyn SchemaResolver,
    cluster_scoped: bool,
) -> Result<Vec<Draft>, CompileError> {
    let mut shapes = Vec::with_capacity(spec.resources.len());
    for resource in &spec.resources {
        let shape = resource::shape(resource).map_err(|error| {
            format!("failed to build resource {}: {error}", quote(&resource.id))
        })?;
        shapes.push(shape);
    }
    let mut drafts = Vec::with_capacity(shapes.len());
    for (index, shape) in shapes.into_iter().enumerate() {
        let id = shape.id.clone();
        let draft = Draft::build(shape, index, resolver, !cluster_scoped).map_err(|error| {
            let cause = error.cause();
            let message = format!("failed to build resource {}: {error}", quote(&id));
            CompileError { message, cause }
        })?;
        drafts.push(draft);
    }
    Ok(drafts)
}

/// The drafts by id, with the graph that connects them.
pub(crate) struct Connected {
    pub(crate) drafts: BTreeMap<String, Draft>,
    pub(crate) dag: Dag,
}

// === impl Connected ===

impl Connected {
    pub(crate) fn get(&self, id: &str) -> Option<&Draft> {
        self.drafts.get(id)
    }
}

/// A refusal of one resource, which may be the cluster's fault.
#[derive(Debug)]
pub(crate) enum ResourceError {
    Refused(String),
    /// The cluster was asked for the schema; the text before its answer says for which resource.
    Unresolved(String, ResolveError),
}

// === impl ResourceError ===

impl ResourceError {
    fn cause(&self) -> Cause {
        match self {
            Self::Unresolved(_, ResolveError::Unavailable(_)) => Cause::Unavailable,
            Self::Unresolved(..) => Cause::Unresolved,
            Self::Refused(_) => Cause::Definition,
        }
    }
}

impl std::fmt::Display for ResourceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused(message) => f.write_str(message),
            Self::Unresolved(what, error) => write!(f, "{what}: {error}"),
        }
    }
}

impl From<String> for ResourceError {
    fn from(message: String) -> Self {
        Self::Refused(message)
    }
}

// === impl CompileOptions ===

impl Default for CompileOptions {
    fn default() -> Self {
        Self {
            omit: false,
            dimensions_max: DIMENSIONS_MAX,
            node_status: false,
            scale: false,
            deletion_policy: false,
        }
    }
}

// === impl CompileError ===

impl CompileError {
    /// Whether the cluster could not be asked: the definition is not to blame, and it is worth another try.
    pub fn is_transient(&self) -> bool {
        self.cause == Cause::Unavailable
    }

    /// Whether a kind is missing that the cluster may serve later: it is worth another try then.
    pub fn is_unresolved(&self) -> bool {
        self.cause == Cause::Unresolved
    }
}

impl From<String> for CompileError {
    fn from(message: String) -> Self {
        Self {
            message,
            cause: Cause::Definition,
        }
    }
}

/// The schema of a node, shared.
pub(crate) type SharedSchema = Arc<Schema>;
