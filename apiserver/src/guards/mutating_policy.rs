//! One MutatingAdmissionPolicy: compiled once, then asked how objects are to be changed.
//!
//! Source: `apiserver/pkg/admission/plugin/policy/mutating/{compilation,patch/json_patch,patch/smd}.go`.

use api::admission::{MutatingPolicySpec, Mutation, ReinvocationPolicy};
use expressions::{Allowance, Value as Evaluated};
use serde_json::{Map, Value};

use super::expressions::{Compiled, Facts, Problem, Returns, compile, evaluate};
use super::policy::{HeadSpec, PolicyHead};

/// A policy.
#[derive(Debug)]
pub(crate) struct MutatingPolicy {
    pub(crate) head: PolicyHead,
    pub(crate) reinvocation: ReinvocationPolicy,
    mutations: Vec<CompiledMutation>,
}

#[derive(Debug)]
struct CompiledMutation {
    patches_by: PatchType,
    source: String,
    program: Compiled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PatchType {
    ApplyConfiguration,
    JsonPatch,
}

/// What a mutation makes of an object.
#[derive(Debug, PartialEq)]
pub(crate) enum Patch {
    /// Fields that are merged into it.
    Configuration(Value),
    /// Operations of a JSON patch.
    Operations(Vec<Value>),
}

// === impl MutatingPolicy ===

impl MutatingPolicy {
    pub(crate) fn compile(name: &str, spec: MutatingPolicySpec) -> Self {
        let head = HeadSpec {
            constraints: &spec.match_constraints,
            failure: spec.failure_policy,
            param_kind: spec.param_kind,
            conditions: &spec.match_conditions,
            variables: &spec.variables,
        };
        let (head, declared) = PolicyHead::compile(name, head);
        let mutations = spec.mutations.into_iter().map(|mutation| {
            let (patches_by, returns, source) = match mutation {
                Mutation::ApplyConfiguration {
                    apply_configuration,
                } => {
                    let source = apply_configuration.expression;
                    (PatchType::ApplyConfiguration, Returns::Object, source)
                }
                Mutation::JSONPatch { json_patch } => (
                    PatchType::JsonPatch,
                    Returns::JsonPatch,
                    json_patch.expression,
                ),
            };
            let program = compile(source.trim(), &declared, returns);
            CompiledMutation {
                patches_by,
                source,
                program,
            }
        });
        Self {
            mutations: mutations.collect(),
            reinvocation: spec.reinvocation_policy,
            head,
        }
    }

    pub(crate) fn mutation_count(&self) -> usize {
        self.mutations.len()
    }

    /// Evaluates one of the mutations. `None` where there are fewer.
    ///
    /// # Errors
    /// What is wrong with the expression, or with what came out, in Kubernetes' words.
    pub(crate) fn patch(&self, index: usize, facts: Facts<'_>) -> Option<Result<Patch, String>> {
        let mutation = self.mutations.get(index)?;
        let mut allowance = Allowance::DEFAULT;
        let bindings = facts.bindings(&self.head.variables);
        let value = evaluate(
            &mutation.source,
            &mutation.program,
            &bindings,
            &mut allowance,
        );
        Some(match (value, mutation.patches_by) {
            (Err(Problem::Budget(error)), _) => Err(error.to_owned()),
            (Err(Problem::Failed(error)), _) => Err(error),
            (Ok(value), PatchType::ApplyConfiguration) => value
                .to_checked_json()
                .map(Patch::Configuration)
                .map_err(|error| error.to_string()),
            (Ok(value), PatchType::JsonPatch) => operations(&value).map(Patch::Operations),
        })
    }
}

/// The operations of a JSON patch, as its text has them.
fn operations(list: &Evaluated<'_>) -> Result<Vec<Value>, String> {
    let made = list.elements().map_err(|error| error.to_string())?;
    made.iter().map(operation).collect()
}

fn operation(made: &Evaluated<'_>) -> Result<Value, String> {
    let mut operation = Map::new();
    for name in ["op", "path", "from"] {
        let field = made.json_patch_field(name);
        let text = field
            .as_ref()
            .and_then(Evaluated::as_str)
            .unwrap_or_default();
        if !(name == "from" && text.is_empty()) {
            operation.insert(name.to_owned(), Value::from(text));
        }
    }
    if let Some(value) = made.json_patch_field("value") {
        let value = value.to_checked_json().map_err(|error| {
            format!("JSONPath valueExpression evaluated to a type that could not marshal to JSON: {error}")
        })?;
        operation.insert("value".to_owned(), value);
    }
    Ok(Value::Object(operation))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What the only mutation of a policy makes of an object.
    fn made(kind: &str, expression: &str) -> Result<Patch, String> {
        let field = if kind == "JSONPatch" {
            "jsonPatch"
        } else {
            "applyConfiguration"
        };
        let spec = json!({"mutations": [{"patchType": kind, field: {"expression": expression}}]});
        let spec = serde_json::from_value(spec).expect("a spec");
        let policy = MutatingPolicy::compile("p", spec);
        let object = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
        let facts = Facts {
            object: &object,
            old: &Value::Null,
            request: &Value::Null,
            namespace: &Value::Null,
            params: &Value::Null,
            authorizer: None,
        };
        assert_eq!(policy.patch(1, facts), None, "there is one");
        policy.patch(0, facts).expect("there is one")
    }

    #[test]
    fn operations_are_what_a_json_patch_has() {
        let expression = "[JSONPatch{op: 'move', from: '/a', path: '/b'}, JSONPatch{op: 'add', path: '/c', value: null},
            JSONPatch{op: 'test', path: '/d', value: Object.d{e: [1]}}]";
        let operations = json!([{"op": "move", "from": "/a", "path": "/b"}, {"op": "add", "path": "/c", "value": null},
            {"op": "test", "path": "/d", "value": {"e": [1]}}]);
        let Value::Array(operations) = operations else {
            unreachable!("a list")
        };
        let patch = made("JSONPatch", expression);
        assert_eq!(patch, Ok(Patch::Operations(operations)));
    }

    #[test]
    fn what_is_larger_than_any_object_is_not_made() {
        // Each step doubles what is written out, and shares it until then.
        let doubled = ".map(it, [it, it])".repeat(40);
        for (kind, expression) in [
            (
                "ApplyConfiguration",
                format!("Object{{data: ['x']{doubled}}}"),
            ),
            (
                "JSONPatch",
                format!("[JSONPatch{{op: 'add', path: '/data', value: ['x']{doubled}}}]"),
            ),
        ] {
            let refused = made(kind, &expression);
            assert!(
                refused
                    .as_ref()
                    .is_err_and(|error| error.contains("cost limit exceeded")),
                "{kind}: {refused:?}"
            );
        }
        let steps = "object.metadata.name.matches('a.*b') || ".repeat(120) + "true";
        let looped = format!(
            "Object{{data: {{'a': string([1,2,3,4,5,6,7,8].all(a, [1,2,3,4,5,6,7,8].all(b, [1,2,3,4,5,6,7,8].all(c,
            [1,2,3,4,5,6,7,8].all(d, [1,2,3,4,5,6,7,8].all(e, {steps}))))))}}}}"
        );
        let refused = made("ApplyConfiguration", &looped);
        assert!(refused.is_err(), "{refused:?}");
    }
}
