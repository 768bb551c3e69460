//! What is allowed in a definition and often not meant.
//!
//! A finding never keeps a definition from being served: it names what behaves differently from what its author may
//! expect, above all where this project differs from kro.

use api::kro::{RgdResource, RgdSpec};
use api::wheelhouse::keys::ANNOTATION_ADOPT;
use expressions::template::{self, Segment};
use serde_json::Value;

/// The rule that a finding comes from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Rule {
    /// Objects of the name that the template makes may exist already, and are left alone.
    ExistingObject,
    /// Writers of instances choose the namespace that is written to.
    NamespaceFromSpec,
    /// A `${` that nothing closes is text, as in kro.
    UnclosedExpression,
}

/// One finding.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// The id of the resource; `schema` for the schema of the instances.
    pub resource: String,
    /// What is found and what to do about it.
    pub message: String,
}

/// Returns the findings of a definition, in the order of its resources.
///
/// `definition` is the whole object, of which the annotations count.
pub fn lint(definition: &Value, spec: &RgdSpec) -> Vec<Finding> {
    let adopts = definition["metadata"]["annotations"][ANNOTATION_ADOPT] == "true";
    let mut findings = Vec::new();
    let schema = &definition["spec"]["schema"];
    findings.extend(unclosed_expressions("schema", schema, "spec.schema"));
    for (index, resource) in spec.resources.iter().enumerate() {
        let written = &definition["spec"]["resources"][index];
        let path = format!("spec.resources[{index}]");
        findings.extend(unclosed_expressions(&resource.id, written, &path));
        let Some(template) = &resource.template else {
            continue; // an external reference writes nothing
        };
        let field = |name: &str| template["metadata"][name].as_str().unwrap_or_default();
        if !adopts && !is_own_name(field("name")) {
            findings.push(existing_object(resource, field("name")));
        }
        if field("namespace").contains("schema.spec") {
            findings.push(namespace_from_spec(resource));
        }
    }
    findings
}

/// Whether a name contains what no other instance of the kind has, so that an object of that name is rarely a stranger's.
fn is_own_name(name: &str) -> bool {
    name.contains("schema.metadata.name") || name.contains("schema.metadata.uid")
}

fn existing_object(resource: &RgdResource, name: &str) -> Finding {
    let message = format!(
        "the name {name:?} does not contain schema.metadata.name: an object of that name may exist already. \
         It is left as it is and the instance reports an error, while kro takes it over. Put \
         ${{schema.metadata.name}} into the name, or annotate the definition with {ANNOTATION_ADOPT}: \"true\""
    );
    Finding {
        rule: Rule::ExistingObject,
        resource: resource.id.clone(),
        message,
    }
}

fn namespace_from_spec(resource: &RgdResource) -> Finding {
    let message = "the namespace is taken from schema.spec: whoever may write an instance chooses the namespace \
                   that is written to, with the rights of the definition. Use ${schema.metadata.namespace}, or \
                   make sure that every writer of instances may write in every namespace"
        .to_owned();
    Finding {
        rule: Rule::NamespaceFromSpec,
        resource: resource.id.clone(),
        message,
    }
}

/// Returns a finding for each text of a value with a `${` that is not closed.
fn unclosed_expressions(resource: &str, value: &Value, path: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut rest = vec![(path.to_owned(), value)];
    while let Some((path, value)) = rest.pop() {
        match value {
            Value::String(text) if has_unclosed_expression(text) => findings.push(Finding {
                rule: Rule::UnclosedExpression,
                resource: resource.to_owned(),
                message: format!(
                    "{path}: the text {text:?} has a ${{ without a closing brace, which is text and no expression. Close it"
                ),
            }),
            Value::Array(items) => {
                let items = items.iter().enumerate().rev();
                rest.extend(items.map(|(index, item)| (format!("{path}[{index}]"), item)));
            }
            Value::Object(fields) => {
                let fields = fields.iter().rev();
                rest.extend(fields.map(|(name, field)| (format!("{path}.{name}"), field)));
            }
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    findings
}

/// Whether `${` is left in what stands for itself.
fn has_unclosed_expression(text: &str) -> bool {
    let is_open =
        |segment: &Segment<'_>| matches!(segment, Segment::Literal(text) if text.contains("${"));
    template::parse(text).is_ok_and(|parsed| parsed.segments().iter().any(is_open))
}

// === impl Rule ===

impl Rule {
    /// Returns the name under which the rule is known.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ExistingObject => "existing-object",
            Self::NamespaceFromSpec => "namespace-from-spec",
            Self::UnclosedExpression => "unclosed-expression",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_and_namespaces_that_others_choose_are_found() {
        let cases = [
            (
                "own name",
                json!({"name": "${schema.metadata.name}-x"}),
                json!({}),
                &[][..],
            ),
            (
                "a constant",
                json!({"name": "settings"}),
                json!({}),
                &["existing-object"],
            ),
            (
                "a name of the spec, adopted",
                json!({"name": "${schema.spec.name}"}),
                json!({ANNOTATION_ADOPT: "true"}),
                &[],
            ),
            (
                "adopt must be true",
                json!({"name": "${schema.spec.name}"}),
                json!({ANNOTATION_ADOPT: "yes"}),
                &["existing-object"],
            ),
            (
                "a namespace of the spec",
                json!({"name": "${schema.metadata.name}", "namespace": "${schema.spec.ns}"}),
                json!({}),
                &["namespace-from-spec"],
            ),
        ];
        for (name, metadata, annotations, want) in cases {
            let definition = json!({"metadata": {"annotations": annotations}});
            let spec = RgdSpec::from_value(&json!({
                "schema": {"apiVersion": "v1alpha1", "kind": "A"},
                "resources": [
                    {"id": "read", "externalRef": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}},
                    {"id": "made", "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}},
                ],
            }))
            .expect("a spec");
            let found = lint(&definition, &spec);
            let rules: Vec<&str> = found.iter().map(|it| it.rule.as_str()).collect();
            assert_eq!(rules, want, "{name}");
            assert!(found.iter().all(|it| it.resource == "made"), "{name}");
        }
    }

    #[test]
    fn what_is_not_closed_is_found_wherever_it_stands() {
        let definition = json!({"metadata": {"annotations": {ANNOTATION_ADOPT: "true"}}, "spec": {
            "schema": {"apiVersion": "v1alpha1", "kind": "A", "status": {"host": "${made.data.a"}},
            "resources": [{
                "id": "made",
                "includeWhen": ["${schema.spec.a}"],
                "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {
                    "closed": "${schema.spec.a} and {\"b\": 1} $x", "list": ["x-${schema.spec.a}-${schema.spec.b"],
                }},
            }],
        }});
        let spec = RgdSpec::from_value(&definition["spec"]).expect("a spec");
        let found = lint(&definition, &spec);
        let places: Vec<(&str, Option<&str>)> = found
            .iter()
            .inspect(|it| assert_eq!(it.rule, Rule::UnclosedExpression, "{it:?}"))
            .map(|it| (it.resource.as_str(), it.message.split(": ").next()))
            .collect();
        let want = [
            ("schema", Some("spec.schema.status.host")),
            ("made", Some("spec.resources[0].template.data.list[0]")),
        ];
        assert_eq!(places, want);
    }
}
