//! The definitions of kro's two kinds, as v0.9.4 has them: same fields, rules, columns and names.
//!
//! The selector of an external reference has no schema, and name and selector exclude each other in the graph
//! compiler, not here; both as in v0.9.4.

use serde_json::{Value, json};

use super::{
    GROUP, INTERNAL_GROUP, REVISION_KIND, REVISION_RESOURCE, RGD_KIND, RGD_RESOURCE, VERSION,
};

/// Builds the definitions of ResourceGraphDefinition and GraphRevision.
pub fn definitions() -> Vec<Value> {
    vec![resource_graph_definition(), graph_revision()]
}

fn resource_graph_definition() -> Value {
    let columns = json!([
        {"name": "APIVERSION", "type": "string", "jsonPath": ".spec.schema.apiVersion"},
        {"name": "KIND", "type": "string", "jsonPath": ".spec.schema.kind"},
        {"name": "STATE", "type": "string", "jsonPath": ".status.state"},
        {"name": "READY", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
        {"name": "TOPOLOGICALORDER", "type": "string", "jsonPath": ".status.topologicalOrder", "priority": 1},
        {"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    let status = json!({
        "description": "What is the case: whether the kind is served, and in which order its resources come.",
        "type": "object",
        "properties": {
            "state": {"type": "string", "description": "Active while the graph is accepted and its kind is served, else Inactive."},
            "topologicalOrder": {
                "description": "The ids of the resources in the order in which they are applied.",
                "type": "array", "items": {"type": "string"},
            },
            "conditions": conditions(),
            "resources": resource_information(),
            "lastIssuedRevision": {
                "description": "The highest number that a GraphRevision of this definition ever had.",
                "type": "integer", "format": "int64",
            },
        },
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{RGD_RESOURCE}.{GROUP}")},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": RGD_KIND, "listKind": "ResourceGraphDefinitionList", "plural": RGD_RESOURCE,
                "singular": "resourcegraphdefinition", "shortNames": ["rgd"],
            },
            "scope": "Cluster",
            "versions": [{
                "name": VERSION, "served": true, "storage": true, "subresources": {"status": {}},
                "additionalPrinterColumns": columns,
                "schema": {"openAPIV3Schema": root(
                    "A kind, and the resources that each of its instances stands for.",
                    &spec(), &status,
                )},
            }],
        },
    })
}

fn graph_revision() -> Value {
    let columns = json!([
        {"name": "RGD", "type": "string", "jsonPath": ".spec.snapshot.name", "priority": 1},
        {"name": "REVISION", "type": "integer", "jsonPath": ".spec.revision"},
        {"name": "HASH", "type": "string", "jsonPath": ".metadata.labels.kro\\.run/graph-revision-hash", "priority": 1},
        {"name": "READY", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
        {"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    let snapshot = json!({
        "description": "The definition as it was when the revision was issued.",
        "type": "object",
        "required": ["generation", "name", "spec"],
        "properties": {
            "name": {"type": "string", "description": "The name of the definition."},
            "generation": {"type": "integer", "format": "int64", "description": "Its generation at that time."},
            "spec": spec(),
        },
    });
    let revision_spec = json!({
        "description": "What the revision holds.",
        "type": "object",
        "required": ["revision", "snapshot"],
        "properties": {
            "revision": {
                "description": "The number, rising with every revision of a definition's name.",
                "type": "integer", "format": "int64", "minimum": 1,
            },
            "snapshot": snapshot,
        },
        "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "spec is immutable"}],
    });
    let status = json!({
        "description": "What is the case: whether the revision compiles.",
        "type": "object",
        "properties": {
            "topologicalOrder": {
                "description": "The ids of the resources in the order in which they are applied.",
                "type": "array", "items": {"type": "string"},
            },
            "conditions": conditions(),
            "resources": resource_information(),
        },
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{REVISION_RESOURCE}.{INTERNAL_GROUP}")},
        "spec": {
            "group": INTERNAL_GROUP,
            "names": {
                "kind": REVISION_KIND, "listKind": "GraphRevisionList", "plural": REVISION_RESOURCE,
                "singular": "graphrevision", "shortNames": ["gr"],
            },
            "scope": "Cluster",
            "versions": [{
                "name": VERSION, "served": true, "storage": true, "subresources": {"status": {}},
                "additionalPrinterColumns": columns,
                "selectableFields": [{"jsonPath": ".spec.snapshot.name"}],
                "schema": {"openAPIV3Schema": root(
                    "A ResourceGraphDefinition as it once was; it never changes.",
                    &revision_spec, &status,
                )},
            }],
        },
    })
}

/// The parts that every kind has around its spec and status.
fn root(description: &str, spec: &Value, status: &Value) -> Value {
    json!({
        "description": description,
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string", "description": "The group and version of this object."},
            "kind": {"type": "string", "description": "The kind of this object."},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
    })
}

fn spec() -> Value {
    json!({
        "description": "What is wanted: what instances look like, and what each of them stands for.",
        "type": "object",
        "required": ["schema"],
        "properties": {"schema": instance_schema(), "resources": resources()},
    })
}

fn instance_schema() -> Value {
    json!({
        "description": "What instances look like.",
        "type": "object",
        "required": ["apiVersion", "kind", "scope"],
        "properties": {
            "apiVersion": immutable("apiVersion", &json!({
                "description": "The version of the generated kind, without a group.",
                "type": "string", "pattern": "^v[0-9]+(alpha[0-9]+|beta[0-9]+)?$",
            })),
            "kind": immutable("kind", &json!({
                "description": "The generated kind.",
                "type": "string", "pattern": "^[A-Z][a-zA-Z0-9]{0,62}$",
            })),
            "group": immutable("group", &json!({
                "description": "The group of the generated kind.", "type": "string", "default": "kro.run",
            })),
            "scope": immutable("scope", &json!({
                "description": "Whether instances have a namespace.",
                "type": "string", "default": "Namespaced", "enum": ["Namespaced", "Cluster"],
            })),
            "spec": free("The spec of instances, in SimpleSchema."),
            "types": free("Named types that the spec refers to."),
            "status": free("The status of instances; each leaf is an expression."),
            "additionalPrinterColumns": printer_columns(),
            "shortNames": names("Other names of the kind on the command line."),
            "categories": names("Names under which the kind is listed with others."),
            "metadata": {
                "description": "What the generated definition carries.",
                "type": "object",
                "properties": {
                    "labels": texts("Its labels."),
                    "annotations": texts("Its annotations."),
                },
            },
        },
    })
}

fn resources() -> Value {
    json!({
        "description": "What each instance stands for. Expressions in it order the resources.",
        "type": "array",
        "items": {
            "description": "One resource, or one collection of them.",
            "type": "object",
            "required": ["id"],
            "properties": {
                "id": {"type": "string", "description": "The name by which expressions refer to it."},
                "template": free("What is made."),
                "externalRef": external_ref(),
                "readyWhen": expressions("When it is ready; all must be true."),
                "includeWhen": expressions("When it is there at all; all must be true."),
                "forEach": {
                    "description": "Over what it is repeated: the product of all dimensions.",
                    "type": "array",
                    "items": {
                        "description": "One name and the expression of its list.",
                        "type": "object", "minProperties": 1, "maxProperties": 1,
                        "additionalProperties": {"type": "string"},
                    },
                },
            },
            "x-kubernetes-validations": [{
                "rule": "(has(self.template) && !has(self.externalRef)) || (!has(self.template) && has(self.externalRef))",
                "message": "exactly one of template or externalRef must be provided",
            }],
        },
    })
}

fn external_ref() -> Value {
    json!({
        "description": "What is read in place of being made: one object by name, or many by labels.",
        "type": "object",
        "required": ["apiVersion", "kind", "metadata"],
        "properties": {
            "apiVersion": {"type": "string", "description": "The group and version of what is read."},
            "kind": {"type": "string", "description": "The kind of what is read."},
            "metadata": {
                "description": "Which object, or which objects.",
                "type": "object",
                "properties": {
                    "name": {"type": "string", "minLength": 1, "description": "The name of the one object."},
                    "namespace": {
                        "type": "string",
                        "description": "The namespace; by default that of the instance, and for a selector all.",
                    },
                    "selector": {
                        "description": "A label selector, which may hold expressions or be one.",
                        "x-kubernetes-preserve-unknown-fields": true,
                    },
                },
            },
        },
    })
}

fn printer_columns() -> Value {
    json!({
        "description": "The columns of instances, in place of the default ones.",
        "type": "array",
        "items": {
            "description": "One column.",
            "type": "object",
            "required": ["jsonPath", "name", "type"],
            "properties": {
                "name": {"type": "string", "description": "The heading."},
                "type": {"type": "string", "description": "The OpenAPI type of the cells."},
                "format": {"type": "string", "description": "The OpenAPI format of the cells."},
                "description": {"type": "string", "description": "For people."},
                "priority": {
                    "type": "integer", "format": "int32",
                    "description": "0 for columns that are always shown.",
                },
                "jsonPath": {"type": "string", "description": "Where the cell comes from."},
            },
        },
    })
}

fn conditions() -> Value {
    json!({
        "description": "What the object says about its own state.",
        "type": "array",
        "items": {
            "description": "One thing that it says.",
            "type": "object",
            "required": ["status", "type"],
            "properties": {
                "type": {"type": "string", "description": "What it is about."},
                "status": {"type": "string", "description": "True, False or Unknown."},
                "reason": {"type": "string", "description": "Why, for programs."},
                "message": {"type": "string", "description": "Why, for people."},
                "lastTransitionTime": {
                    "type": "string", "format": "date-time", "description": "When the status last changed.",
                },
                "observedGeneration": {
                    "type": "integer", "format": "int64", "minimum": 0,
                    "description": "The generation that it is about.",
                },
            },
        },
    })
}

fn resource_information() -> Value {
    json!({
        "description": "The resources that depend on others.",
        "type": "array",
        "items": {
            "description": "One resource and what it depends on.",
            "type": "object",
            "properties": {
                "id": {"type": "string", "description": "The id of the resource."},
                "dependencies": {
                    "description": "What it depends on.",
                    "type": "array",
                    "items": {
                        "description": "One resource.",
                        "type": "object",
                        "properties": {"id": {"type": "string", "description": "Its id."}},
                    },
                },
            },
        },
    })
}

fn immutable(field: &str, schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(members) = schema.as_object_mut() {
        let rule = json!({"rule": "self == oldSelf", "message": format!("{field} is immutable")});
        members.insert("x-kubernetes-validations".to_owned(), json!([rule]));
    }
    schema
}

fn free(description: &str) -> Value {
    json!({
        "description": description,
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

fn names(description: &str) -> Value {
    json!({
        "description": description,
        "type": "array", "maxItems": 32, "x-kubernetes-list-type": "set",
        "items": {"type": "string", "maxLength": 63, "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$"},
    })
}

fn texts(description: &str) -> Value {
    json!({
        "description": description,
        "type": "object", "additionalProperties": {"type": "string"},
    })
}

fn expressions(description: &str) -> Value {
    json!({"description": description, "type": "array", "items": {"type": "string"}})
}
