//! Definitions of graphs.

use api::GroupVersionKind;
use api::kro::ResourceGraphDefinition;
use graph::{ResolveError, ResolvedKind, SchemaResolver, compile, spec_hash};
use schema::builtin::catalog;
use schema::{Schema, definition};

use crate::{Target, input};

/// SimpleSchema: what comes of it is a structural schema, the same one each time.
pub(crate) const SIMPLE_SCHEMA: Target = Target {
    name: "simple-schema",
    run: |data| {
        let [spec, types] = input::parts::<2>(data);
        let map = |part| match input::document(part) {
            Some(serde_json::Value::Object(fields)) => Some(fields),
            _ => None,
        };
        let Some(spec) = map(spec) else { return };
        let types = map(types).unwrap_or_default();
        let Ok(schema) = graph::fuzzing::simple_schema(&spec, &types) else {
            return;
        };
        assert_eq!(
            graph::fuzzing::simple_schema(&spec, &types).as_ref(),
            Ok(&schema),
            "one text, one schema"
        );
        drop(Schema::from_openapi(&schema));
    },
    seeds: &[
        "name: string | required=true description=\"a, b\" pattern=\"^a$\"\nsize: integer | default=3 minimum=1 maximum=5\nports: \"[]integer\"\nlabels: map[string]string\nany: object\nwho: Person\npeople: \"[]Person | minItems=1\"\nnested: {a: boolean | default=true, b: float | enum=\"1.0,2.0\"}\n====\nPerson: {name: string | required=true, age: integer}\n",
        "a: string | default=\"x\" immutable=true validation=\"self != ''\"\nb: map[string]map[string][]string\n====\n{}\n",
        "a: A\n====\nA: {b: B}\nB: {a: A}\n",
    ],
    corpus: None,
    made: None,
    words: &[
        "string",
        "integer",
        "boolean",
        "float",
        "object",
        "[]",
        "map[string]",
        " | ",
        "required=true",
        "default=",
        "enum=\"",
        "minimum=",
        "maximum=",
        "pattern=\"",
        "validation=\"",
        "description=\"",
        "immutable=true",
        "uniqueItems=true",
        "minItems=",
        "maxLength=",
        "\n====\n",
    ],
};

/// Field paths of templates.
pub(crate) const FIELD_PATH: Target = Target {
    name: "field-path",
    run: |data| graph::fuzzing::field_path(input::text(data)),
    seeds: &[
        "spec.containers[0].name",
        "metadata.annotations[\"a.b/c\"].x[1][2]",
        "a[\"\"]",
    ],
    corpus: None,
    made: None,
    words: &["[\"", "\"]", "[0]", "[18446744073709551616]", "."],
};

/// A cluster with the built-in kinds.
struct BuiltIn;

impl SchemaResolver for BuiltIn {
    fn resolve(&self, gvk: &GroupVersionKind) -> Result<ResolvedKind, ResolveError> {
        let Some((resource, schema)) = catalog().by_kind(gvk).zip(catalog().schema(gvk)) else {
            return Err(ResolveError::KindNotFound(gvk.clone()));
        };
        Ok(ResolvedKind {
            schema,
            namespaced: resource.namespaced,
            resource: resource.resource.clone(),
        })
    }
}

/// Graphs: compiled twice they are the same, and the definition that comes of one is taken by the API server.
pub(crate) const GRAPH: Target = Target {
    name: "graph",
    run: |data| {
        let Some(value) = input::document(data) else {
            return;
        };
        let Ok(rgd) = ResourceGraphDefinition::from_value(&value) else {
            return;
        };
        let Ok(graph) = compile(&rgd.spec, "fuzzed", &BuiltIn) else {
            return;
        };
        let again = compile(&rgd.spec, "fuzzed", &BuiltIn).expect("it compiles again");
        assert_eq!(again.spec_hash(), graph.spec_hash(), "one spec, one hash");
        assert_eq!(
            spec_hash(&rgd.spec),
            graph.spec_hash(),
            "one spec, one hash"
        );
        assert_eq!(
            again.topological_order(),
            graph.topological_order(),
            "one spec, one order"
        );
        assert_eq!(
            again.definition().to_value(),
            graph.definition().to_value(),
            "one spec, one definition"
        );
        let mut definition = graph.definition().clone();
        definition::complete(&mut definition);
        definition::note_stored_version(&mut definition);
        drop(definition::validate_definition(&definition));
    },
    seeds: &[
        "apiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nmetadata: {name: web}\nspec:\n  schema:\n    apiVersion: v1alpha1\n    kind: Web\n    spec: {name: string | default=\"a\", replicas: integer | default=1, on: boolean | default=true}\n    status: {ready: \"${deployment.status.readyReplicas}\"}\n  resources:\n  - id: deployment\n    readyWhen: [\"${deployment.status.readyReplicas == deployment.spec.replicas}\"]\n    includeWhen: [\"${schema.spec.on}\"]\n    template:\n      apiVersion: apps/v1\n      kind: Deployment\n      metadata: {name: \"${schema.spec.name}-d\"}\n      spec:\n        replicas: ${schema.spec.replicas}\n        selector: {matchLabels: {app: a}}\n        template:\n          metadata: {labels: {app: a}}\n          spec: {containers: [{name: c, image: x}]}\n  - id: configs\n    forEach: [{index: \"${lists.range(schema.spec.replicas)}\"}]\n    template:\n      apiVersion: v1\n      kind: ConfigMap\n      metadata: {name: \"${schema.spec.name}-${string(index)}\"}\n      data: {uid: \"${deployment.metadata.uid}\"}\n",
    ],
    corpus: Some(("kro-examples", "rgd.yaml")),
    made: None,
    words: &[
        "${schema.spec.",
        "${",
        "forEach:",
        "readyWhen:",
        "includeWhen:",
        "externalRef:",
        "template:",
        "status:",
        "omit()",
        "each",
        "string | ",
        "integer | ",
    ],
};
