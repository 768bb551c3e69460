//! The status of instances: its schema comes from the types of its expressions.
//!
//! Every leaf is an expression that reads a node or the instance; `conditions` is the author's list of conditions.
//!
//! Source: kro `pkg/graph/builder.go` inferStatusSchema and buildInstanceNode, `pkg/graph/schema/field_descriptor.go`.

use api::growth::{Growth, TooLarge};
use dialect::{json::type_word, quote, words};
use serde_json::{Map, Value, json};

use super::author_conditions;
use super::expression::Compiler;
use crate::declarations;
use crate::field_path::{self, Segment};
use crate::graph::{Field, InstanceNode};
use crate::template::{self, Found};

/// What the status block says.
pub(super) struct Status {
    pub(super) instance: InstanceNode,
    /// The schema of the author's fields.
    pub(super) schema: Value,
}

/// Compiles the status block of a definition.
pub(super) fn infer(compiler: &mut Compiler<'_>, block: Option<&Value>) -> Result<Status, String> {
    let mut block = match block {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(map)) => map.clone(),
        Some(other) => {
            return Err(format!(
                "failed to unmarshal status schema: json: cannot unmarshal {} into Go value of type \
                 map[string]interface {{}}",
                type_word(other)
            ));
        }
    };
    let conditions = author_conditions::take(&mut block).map_err(|error| {
        format!(
            "failed to build instance status schema: failed to extract conditions block: {error}"
        )
    })?;
    let (fields, schema) = infer_fields(compiler, &Value::Object(block))
        .map_err(|error| format!("failed to build instance status schema: {error}"))?;
    let conditions = author_conditions::compile(compiler, &conditions)
        .map_err(|error| format!("failed to build instance conditions: {error}"))?;
    if let Some(field) = fields
        .iter()
        .find(|field| field.expression.references.is_empty())
    {
        return Err(format!(
            "failed to create instance node: instance status field must refer to a resource or schema: status.{}",
            field.path
        ));
    }
    let declared = compiler.schema_type().clone();
    Ok(Status {
        instance: InstanceNode {
            fields,
            conditions,
            declared,
            read_whole: false,
        },
        schema,
    })
}

fn infer_fields(compiler: &mut Compiler<'_>, block: &Value) -> Result<(Vec<Field>, Value), String> {
    let extracted = template::extract_schemaless(block)
        .map_err(|error| format!("failed to extract CEL expressions from status: {error}"))?;
    if !extracted.plain.is_empty() {
        return Err(format!(
            "status fields without expressions are not supported: {}",
            words(&extracted.plain)
        ));
    }
    for Found { path, source } in &extracted.found {
        let allowed = |name: &str| name == "schema" || compiler.is_node(name);
        compiler
            .inspector
            .inspect_restricted(source, &allowed)
            .map_err(|error| {
                format!(
                    "status field {} expression {}: {error}",
                    quote(path),
                    quote(source.user_text())
                )
            })?;
    }
    let mut schema = json!({"type": "object"});
    // Ten bytes of a definition can name a whole Pod, whose schema is written out for each field.
    let mut growth = Growth::of_object();
    let mut fields = Vec::with_capacity(extracted.found.len());
    for Found { path, source } in extracted.found {
        let (expression, output) = compiler.compile(&source, &[]).map_err(|error| {
            format!(
                "failed to type-check status expression {} at path {}: {error}",
                quote(source.user_text()),
                quote(&path)
            )
        })?;
        let segments = field_path::parse(&path).map_err(|error| {
            format!("failed to generate status schema from CEL types: failed to parse path {path}: {error}")
        })?;
        let leaf = declarations::status_schema(&output);
        growth.charge_value(&leaf).map_err(|TooLarge { bytes_max }| {
            format!("status field {path}: the schemas of all status fields would take more than {bytes_max} bytes of memory")
        })?;
        insert(&mut schema, &segments, leaf);
        fields.push(Field {
            path,
            segments,
            expression,
            iterates: false,
        });
    }
    Ok((fields, schema))
}

/// Puts the schema of a field at its path, making objects and lists on the way.
fn insert(schema: &mut Value, segments: &[Segment], leaf: Value) {
    let Some((segment, rest)) = segments.split_first() else {
        *schema = leaf;
        return;
    };
    match segment {
        Segment::Index(_) => {
            schema["type"] = json!("array");
            insert(&mut schema["items"], rest, leaf);
        }
        Segment::Name(name) => {
            if schema.get("type").is_none() {
                schema["type"] = json!("object");
            }
            insert(&mut schema["properties"][name.as_str()], rest, leaf);
        }
    }
}
