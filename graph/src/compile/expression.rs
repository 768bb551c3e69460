//! Expressions of a definition, compiled against the declared types.
//!
//! Source: kro `pkg/graph/builder.go` validateAndCompileNode, `pkg/graph/build_context.go`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use dialect::quote;
use expressions::{DeclType, Declarations, Reader};

use super::inspect::{Inspector, OMIT};
use super::resource::Draft;
use super::{Connected, SharedSchema};
use crate::declarations::{self, TYPE_NAME_PREFIX};
use crate::field_path::{self, Segment};
use crate::graph::{Dimension, Expression, Field, Node, NodeKind, Reference};
use crate::scalar::Source;
use crate::template::Found;

/// Compiles the expressions of a definition against the declared types.
pub(super) struct Compiler<'a> {
    connected: &'a Connected,
    reader: Rc<Reader>,
    pub(super) inspector: Inspector,
    declarations: Declarations,
    /// The type of each node's template.
    elements: BTreeMap<String, DeclType>,
    /// The position of each id in the topological order.
    positions: BTreeMap<String, usize>,
    apply_orders: BTreeMap<String, i64>,
    schema_type: DeclType,
    slots: HashMap<String, usize>,
}

/// Names that are visible to one expression beside the ids and `schema`.
pub(super) type Extra<'a> = [(&'a str, DeclType, Reference)];

// === impl Compiler ===

impl<'a> Compiler<'a> {
    pub(super) fn new(
        connected: &'a Connected,
        reader: Rc<Reader>,
        instance: &SharedSchema,
        order: &[String],
    ) -> Self {
        let mut declarations = Declarations::new();
        let mut elements = BTreeMap::new();
        for (id, draft) in &connected.drafts {
            let element = element_type(draft);
            declarations.declare(id, variable_type(draft, &element));
            elements.insert(id.clone(), element);
        }
        let schema_type = declarations::declare(instance, &format!("{TYPE_NAME_PREFIX}schema"));
        declarations.declare("schema", schema_type.clone());
        let ids: Vec<&String> = connected.drafts.keys().collect();
        Self {
            connected,
            inspector: Inspector::new(Rc::clone(&reader), &ids),
            reader,
            declarations,
            elements,
            positions: order.iter().cloned().zip(0..).collect(),
            apply_orders: connected.dag.apply_orders(),
            schema_type,
            slots: HashMap::new(),
        }
    }

    /// How many different expressions there are.
    pub(super) fn slot_count(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn schema_type(&self) -> &DeclType {
        &self.schema_type
    }

    pub(super) fn is_node(&self, name: &str) -> bool {
        self.positions.contains_key(name)
    }

    /// Compiles one node.
    pub(super) fn node(&mut self, id: &str) -> Result<Node, String> {
        let connected = self.connected;
        let draft = connected
            .get(id)
            .ok_or_else(|| format!("node {id} does not exist"))?;
        self.compile_node(draft)
            .map_err(|error| format!("failed to validate resource {}: {error}", quote(id)))
    }

    fn compile_node(&mut self, draft: &Draft) -> Result<Node, String> {
        let for_each = self.for_each(draft)?;
        let iterators: Vec<(&str, DeclType, Reference)> = for_each
            .iter()
            .enumerate()
            .map(|(index, dimension)| {
                (
                    dimension.name.as_str(),
                    dimension.element.clone(),
                    Reference::Iterator(index),
                )
            })
            .collect();
        let known = self.elements.get(&draft.id).cloned();
        let element = known.unwrap_or_else(|| element_type(draft));
        let mut fields = Vec::with_capacity(draft.fields.len());
        for found in &draft.fields {
            fields.push(self.field(draft, &element, found, &iterators)?);
        }
        let include_when = self.include_when(draft)?;
        let ready_when = self.ready_when(draft, &element)?;
        let mut dependencies: Vec<usize> = draft
            .dependencies
            .iter()
            .filter_map(|id| self.positions.get(id).copied())
            .collect();
        dependencies.sort_unstable();
        Ok(Node {
            id: draft.id.as_str().into(),
            kind: draft.kind,
            gvk: draft.gvk.clone(),
            gvr: draft.gvr.clone(),
            namespaced: draft.namespaced,
            apply_order: self
                .apply_orders
                .get(&draft.id)
                .copied()
                .unwrap_or_default(),
            dependencies,
            template: draft.object.clone(),
            fields,
            include_when,
            ready_when,
            for_each,
            declared: element,
            reads: BTreeSet::new(),
        })
    }

    fn for_each(&mut self, draft: &Draft) -> Result<Vec<Dimension>, String> {
        let mut dimensions = Vec::with_capacity(draft.for_each.len());
        for (name, source) in &draft.for_each {
            let place = format!(
                "node {}: forEach iterator {}",
                quote(&draft.id),
                quote(name)
            );
            let inspection = self.inspector.inspect(source).map_err(|error| {
                format!("{place}: failed to inspect expression: parse error: {error}")
            })?;
            if inspection.uses_omit {
                return Err(format!(
                    "{place}: omit() can only be used in resource template expressions"
                ));
            }
            let (expression, output) = self
                .compile(source, &[])
                .map_err(|error| format!("{place}: {error}"))?;
            let element = match &output {
                DeclType::List(list) => list.element.clone(),
                // A list may come of it; that is seen when there is a value.
                DeclType::Dyn | DeclType::Param(_) => DeclType::Dyn,
                other => {
                    let got = quote(&other.to_string());
                    return Err(format!(
                        "{place} must return a list, got {got}: type {got} is not a list type"
                    ));
                }
            };
            dimensions.push(Dimension {
                name: name.clone(),
                expression,
                element,
            });
        }
        Ok(dimensions)
    }

    fn field(
        &mut self,
        draft: &Draft,
        element: &DeclType,
        found: &Found,
        iterators: &Extra<'_>,
    ) -> Result<Field, String> {
        let (path, source) = (&found.path, &found.source);
        let (expression, output) = self.compile(source, iterators).map_err(|error| {
            format!(
                "failed to compile template expression {} at path {}: {error}",
                quote(source.user_text()),
                quote(path)
            )
        })?;
        let segments = field_path::parse(path)?;
        let expected = expected_type(draft, element, path, &segments);
        if let Some(why) = declarations::mismatch(&output, &expected) {
            return Err(format!(
                "type mismatch in resource {} at path {}: expression {} returns type {} but expected {}: {why}",
                quote(&draft.id),
                quote(path),
                quote(source.user_text()),
                quote(&declarations::runtime_name(&output)),
                quote(&declarations::runtime_name(&expected))
            ));
        }
        let iterates = expression
            .references
            .iter()
            .any(|reference| matches!(reference, Reference::Iterator(_)));
        Ok(Field {
            path: path.clone(),
            segments,
            expression,
            iterates,
        })
    }

    fn include_when(&mut self, draft: &Draft) -> Result<Vec<Expression>, String> {
        let mut conditions = Vec::with_capacity(draft.include_when.len());
        for source in &draft.include_when {
            conditions.push(self.condition(draft, source, "includeWhen", &[])?);
        }
        Ok(conditions)
    }

    fn ready_when(&mut self, draft: &Draft, element: &DeclType) -> Result<Vec<Expression>, String> {
        let each = [("each", element.clone(), Reference::Each)];
        let (visible, extra): (&str, &Extra<'_>) = if draft.kind == NodeKind::Collection {
            ("each", &each)
        } else {
            (&draft.id, &[])
        };
        for source in &draft.ready_when {
            self.inspector
                .inspect_restricted(source, &|name| name == visible)
                .map_err(|error| format!("resource {} readyWhen: {error}", quote(&draft.id)))?;
        }
        let mut conditions = Vec::with_capacity(draft.ready_when.len());
        for source in &draft.ready_when {
            conditions.push(self.condition(draft, source, "readyWhen", extra)?);
        }
        Ok(conditions)
    }

    fn condition(
        &mut self,
        draft: &Draft,
        source: &Source,
        what: &str,
        extra: &Extra<'_>,
    ) -> Result<Expression, String> {
        let (id, text) = (quote(&draft.id), quote(source.user_text()));
        let (expression, output) = self.compile(source, extra).map_err(|error| {
            format!("failed to type-check {what} expression {text} in resource {id}: {error}")
        })?;
        let may_be_bool = match output.unwrap_optional() {
            DeclType::Bool => true,
            DeclType::Dyn | DeclType::Param(_) => !expression.program.functions().contains(OMIT),
            _ => false,
        };
        if may_be_bool {
            return Ok(expression);
        }
        Err(format!(
            "{what} expression {text} in resource {id} must return bool or optional_type(bool), but returns {}",
            quote(&declarations::runtime_name(&output))
        ))
    }

    /// Compiles an expression; gives it with the type of its result.
    pub(super) fn compile(
        &mut self,
        source: &Source,
        extra: &Extra<'_>,
    ) -> Result<(Expression, DeclType), String> {
        let mut declarations = std::borrow::Cow::Borrowed(&self.declarations);
        for (name, declared, _) in extra {
            declarations.to_mut().declare(*name, declared.clone());
        }
        let program = self
            .reader
            .compile(&source.text, &declarations)
            .map_err(|error| error.message)?;
        let output = program.result_type().clone();
        let references: Vec<Reference> = program
            .identifiers()
            .iter()
            .filter_map(|name| self.reference(name, extra))
            .collect();
        let count = self.slots.len();
        let slot = *self.slots.entry(source.text.clone()).or_insert(count);
        let expression = Expression {
            program: Arc::new(program),
            user_text: source.user_text().into(),
            references: references.into(),
            slot,
        };
        Ok((expression, output))
    }

    fn reference(&self, name: &str, extra: &Extra<'_>) -> Option<Reference> {
        if let Some((_, _, reference)) = extra.iter().find(|(extra, _, _)| *extra == name) {
            return Some(reference.clone());
        }
        match name {
            "schema" => Some(Reference::Schema),
            "runtime" => Some(Reference::Runtime),
            name => self
                .positions
                .get(name)
                .map(|position| Reference::Node(*position)),
        }
    }
}

fn element_type(draft: &Draft) -> DeclType {
    let root = format!("{TYPE_NAME_PREFIX}{}", draft.id);
    let name = if draft.kind.is_list() {
        format!("{root}.@idx")
    } else {
        root
    };
    declarations::declare(&draft.schema, &name)
}

/// The type under which others see a node.
fn variable_type(draft: &Draft, element: &DeclType) -> DeclType {
    if draft.kind.is_list() {
        DeclType::list(element.clone())
    } else {
        element.clone()
    }
}

/// The type that a place of a template wants. A selector is not in the schema of the kind that is selected.
fn expected_type(draft: &Draft, element: &DeclType, path: &str, segments: &[Segment]) -> DeclType {
    if draft.kind == NodeKind::ExternalCollection {
        match path {
            "metadata.selector" => return DeclType::map(DeclType::String, DeclType::Dyn),
            "metadata.selector.matchLabels" => {
                return DeclType::map(DeclType::String, DeclType::String);
            }
            "metadata.selector.matchExpressions" => return DeclType::list(DeclType::Dyn),
            path if path.starts_with("metadata.selector.matchLabels.") => return DeclType::String,
            _ => {}
        }
    }
    let mut place = element;
    for segment in segments {
        place = match (segment, place) {
            (Segment::Name(name), DeclType::Object(object)) => match object.fields.get(name) {
                Some(field) => field,
                None => return DeclType::Dyn,
            },
            (Segment::Name(_), DeclType::Map(map)) => &map.value,
            (Segment::Index(_), DeclType::List(list)) => &list.element,
            _ => return DeclType::Dyn,
        };
    }
    place.clone()
}
