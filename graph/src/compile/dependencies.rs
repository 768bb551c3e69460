//! Dependencies: who reads whom, and who may read what where.
//!
//! A template, a forEach list and an includeWhen make edges to every node they name; `schema` is the instance and no
//! edge. Every iterator must be part of the identity of the objects it makes, or they would be the same object.
//!
//! Source: kro `pkg/graph/builder.go` buildDependencyGraph.

use std::collections::BTreeMap;
use std::rc::Rc;

use dialect::{quote, words};
use expressions::Reader;

use super::resource::Draft;
use super::{CompileOptions, Connected};
use crate::compile::inspect::Inspector;
use crate::dag;
use crate::scalar::Source;

/// Connects the resources; gives them back by id, with their dependencies, and the topological order of the ids.
pub(super) fn connect(
    drafts: Vec<Draft>,
    reader: Rc<Reader>,
    options: &CompileOptions,
) -> Result<(Connected, Vec<String>), String> {
    let mut builder = dag::Builder::default();
    for draft in &drafts {
        builder
            .add_vertex(&draft.id, draft.index)
            .map_err(|error| format!("failed to add vertex to graph: {error}"))?;
    }
    let ids: Vec<String> = drafts.iter().map(|draft| draft.id.clone()).collect();
    let inspector = Inspector::new(reader, &ids);
    let mut by_id = BTreeMap::new();
    let mut refused = None;
    for mut draft in drafts {
        let read = dependencies_of(&draft, &inspector, options).and_then(|dependencies| {
            builder
                .add_dependencies(&draft.id, &dependencies)
                .map_err(|error| error.to_string())?;
            Ok(dependencies)
        });
        match read {
            Ok(dependencies) => draft.dependencies = dependencies,
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
        by_id.insert(draft.id.clone(), draft);
    }
    // A cycle among the resources before is found first, as by kro.
    let dag = builder.build().map_err(|error| error.to_string())?;
    if let Some(error) = refused {
        return Err(error);
    }
    let order = dag.topological_order();
    Ok((Connected { drafts: by_id, dag }, order))
}

fn dependencies_of(
    draft: &Draft,
    inspector: &Inspector,
    options: &CompileOptions,
) -> Result<Vec<String>, String> {
    let iterators = draft.iterators();
    let mut dependencies = Vec::new();
    let mut in_identity = Vec::new();
    for field in &draft.fields {
        let read = read(inspector, &field.source, &iterators, options)
            .map_err(|error| format!("failed to extract dependencies: {error}"))?;
        let is_identity = match field.path.as_str() {
            "metadata.name" => true,
            "metadata.namespace" => draft.namespaced,
            _ => false,
        };
        if is_identity {
            in_identity.extend(read.iterators);
        }
        add(&mut dependencies, read.nodes);
    }
    let missing: Vec<&str> = iterators
        .iter()
        .copied()
        .filter(|name| !in_identity.iter().any(|used| used == name))
        .collect();
    if !missing.is_empty() {
        return Err(format!(
            "node {}: all forEach dimensions must be used to produce a unique resource identity, missing: {}",
            quote(&draft.id),
            words(&missing)
        ));
    }
    for (name, source) in &draft.for_each {
        let read = read(inspector, source, &iterators, options).map_err(|error| {
            format!(
                "failed to extract dependencies from forEach iterator {}: {error}",
                quote(name)
            )
        })?;
        if !read.iterators.is_empty() {
            return Err(format!(
                "node {}: forEach iterator {} cannot reference other iterators {} - forEach iterators are independent \
                 (cartesian product)",
                quote(&draft.id),
                quote(name),
                words(&read.iterators)
            ));
        }
        add(&mut dependencies, read.nodes);
    }
    for source in &draft.include_when {
        let read = read(inspector, source, &[], options)
            .map_err(|error| format!("failed to extract dependencies from includeWhen: {error}"))?;
        add(&mut dependencies, read.nodes);
    }
    Ok(dependencies)
}

fn add(dependencies: &mut Vec<String>, nodes: Vec<String>) {
    for node in nodes {
        if !dependencies.contains(&node) {
            dependencies.push(node);
        }
    }
}

/// What an expression reads.
struct Read {
    nodes: Vec<String>,
    iterators: Vec<String>,
}

fn read(
    inspector: &Inspector,
    source: &Source,
    iterators: &[&str],
    options: &CompileOptions,
) -> Result<Read, String> {
    let inspection = inspector
        .inspect(source)
        .map_err(|error| format!("failed to inspect expression: parse error: {error}"))?;
    if inspection.uses_omit && !options.omit {
        return Err("omit() requires the CELOmitFunction feature gate to be enabled".to_owned());
    }
    let mut read = Read {
        nodes: Vec::new(),
        iterators: Vec::new(),
    };
    for name in &inspection.known {
        match name.as_str() {
            "schema" => {}
            "runtime" => {
                return Err("runtime is only available in status.conditions expressions".to_owned());
            }
            id => read.nodes.push(id.to_owned()),
        }
    }
    for name in &inspection.unknown {
        if !iterators.contains(&name.as_str()) {
            return Err(format!("references unknown identifiers: [{name}]"));
        }
        read.iterators.push(name.clone());
    }
    inspection.check_functions()?;
    Ok(read)
}
