//! The definitions of the project's own kinds.

use serde_json::{Value, json};

use super::{
    COLLECTION_DIMENSIONS_BOUND, COLLECTION_SIZE_BOUND, DISCOVERY_RECORD_KIND,
    DISCOVERY_RECORD_RESOURCE, GROUP, INTERNAL_GROUP, INVENTORY_KIND, INVENTORY_RESOURCE,
    KIND_CLAIM_KIND, KIND_CLAIM_RESOURCE, REVISION_COUNT_BOUND, SERVED_RESOURCE_KIND,
    SERVED_RESOURCE_RESOURCE, SPOKE_KIND, SPOKE_RESOURCE, VERSION,
};

/// Builds the definitions of Spoke, Inventory, ServedResource, KindClaim and DiscoveryRecord.
pub fn definitions() -> Vec<Value> {
    vec![
        spoke(),
        inventory(),
        served_resource(),
        kind_claim(),
        discovery_record(),
    ]
}

fn spoke() -> Value {
    let condition = |type_: &str| format!(".status.conditions[?(@.type==\"{type_}\")].status");
    let columns = json!([
        {"name": "READY", "type": "string", "jsonPath": condition("Ready")},
        {"name": "REACHABLE", "type": "string", "jsonPath": condition(super::keys::CONDITION_REACHABLE)},
        {"name": "SYNCED", "type": "string", "jsonPath": condition("Synced")},
        {"name": "VERSION", "type": "string", "jsonPath": ".status.version"},
        {"name": "INSTANCES", "type": "string", "jsonPath": ".status.instances.summary",
         "description": "Ready instances of all instances."},
        {"name": "ERRORS", "type": "integer", "jsonPath": ".status.instances.error", "priority": 1},
        {"name": "CIRCUIT", "type": "string", "jsonPath": ".status.circuit.state", "priority": 1,
         "description": "Whether requests to it pass: Closed while it answers, Open or HalfOpen while it does not."},
        {"name": "QUEUE", "type": "integer", "jsonPath": ".status.queue.ready", "priority": 1,
         "description": "Instances that are worked on or wait for it."},
        {"name": "PROVIDER", "type": "string", "jsonPath": ".spec.provider", "priority": 1},
        {"name": "SYNCER", "type": "string", "jsonPath": ".status.syncer", "priority": 1,
         "description": "The process that looks after it, where several share the spokes."},
        {"name": "HEARTBEAT", "type": "date", "jsonPath": ".status.lastHeartbeatTime", "priority": 1},
        {"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "MESSAGE", "type": "string", "jsonPath": ".status.message", "priority": 1},
    ]);
    let mut schema = root(
        "A cluster of the fleet, by the name of its logical cluster: a real one, or one that the hub serves itself.",
        &spoke_spec(),
    );
    if let Some(members) = schema.as_object_mut() {
        members.insert("x-kubernetes-validations".to_owned(), json!([
            {"rule": "self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
             "message": "the name must be a DNS label, because it names the logical cluster"},
            {"rule": "self.metadata.name != 'root'", "message": "root is the hub's own logical cluster"},
        ]));
        if let Some(properties) = members.get_mut("properties").and_then(Value::as_object_mut) {
            properties.insert("status".to_owned(), spoke_status());
        }
    }
    definition(
        GROUP,
        SPOKE_KIND,
        SPOKE_RESOURCE,
        &json!({
            "name": VERSION, "served": true, "storage": true, "subresources": {"status": {}},
            "additionalPrinterColumns": columns,
            "schema": {"openAPIV3Schema": schema},
        }),
    )
}

fn spoke_spec() -> Value {
    json!({
        "description": "How the spoke is reached, and what may be done there.",
        "type": "object",
        "properties": {
            "provider": {
                "description": "What stands behind the logical cluster: a cluster that a kubeconfig in a Secret reaches, one that a kubeconfig file of the hub's operator reaches, one that a ClusterProfile describes, or this project's own API server.",
                "type": "string", "default": "Kubeconfig", "enum": ["Kubeconfig", "KubeconfigFile", "ClusterProfile", "Embedded"],
                "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "provider is immutable"}],
            },
            "connection": connection(),
            "suspended": {
                "description": "Whether the hub leaves the cluster alone: nothing is written there, and its path answers 503.", "type": "boolean",
            },
            "trustMasters": {
                "description": "Whether the hub's own admin certificate is system:masters there.",
                "type": "boolean",
            },
            "kro": kro_switches(),
            "migration": migration(),
        },
        "x-kubernetes-validations": [{
            "rule": "!has(self.provider) || self.provider != 'Kubeconfig' || has(self.connection)",
            "message": "connection is required where the provider is Kubeconfig",
        }, {
            "rule": "!has(self.provider) || self.provider != 'ClusterProfile' || has(self.connection)",
            "message": "connection is required where the provider is ClusterProfile",
        }],
    })
}

fn kro_switches() -> Value {
    let limit = |description: &str, maximum: u32| json!({"description": description, "type": "integer", "format": "int64", "minimum": 0, "maximum": maximum});
    json!({
        "description": "kro's switches for this cluster, where they differ from those that the hub was started with. The names are those of kro's Helm chart.",
        "type": "object",
        "properties": {
            "featureGates": {
                "description": "Feature gates, by name.",
                "type": "object",
                "properties": {
                    crate::kro::CEL_OMIT_FUNCTION: {"type": "boolean", "description": "Whether omit() may be used in templates."},
                    crate::kro::INSTANCE_NODE_STATUS: {
                        "type": "boolean",
                        "description": "Whether the status of instances says how their nodes are and what they manage. A gate of this project.",
                    },
                    crate::kro::INSTANCE_SCALE: {
                        "type": "boolean",
                        "description": "Whether instances have the scale subresource that their definition asks for. A gate of this project.",
                    },
                    crate::kro::RESOURCE_DELETION_POLICY: {
                        "type": "boolean",
                        "description": "Whether children that nothing wants any more stay, where their annotation wheelhouse.dev/deletion-policy says so. A gate of this project.",
                    },
                },
            },
            "allowCRDDeletion": {
                "description": "Whether the CRD of a definition that is deleted goes too, once it has no instances.",
                "type": "boolean",
            },
            "rgd": {
                "description": "Limits of definitions.",
                "type": "object",
                "properties": {
                    "maxCollectionSize": limit("The most items that a collection may have.", COLLECTION_SIZE_BOUND),
                    "maxCollectionDimensionSize": limit("The most dimensions that a collection may have.", COLLECTION_DIMENSIONS_BOUND),
                    "maxGraphRevisions": limit("How many GraphRevisions are kept of a definition; 0 keeps all.", REVISION_COUNT_BOUND),
                },
            },
            "version": {
                "description": "The version of kro that labels and annotations name.",
                "type": "string", "maxLength": 63, "pattern": "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$",
            },
        },
    })
}

fn migration() -> Value {
    json!({
        "description": "Who is to run the definitions that are in the spoke itself, and ran there under a kro.",
        "type": "object",
        "required": ["to"],
        "properties": {
            "to": {
                "description": "Plan, PlanReturn: nothing changes, and the status says what would. Hub: the hub takes them over. Kro: the hub gives them back.",
                "type": "string", "enum": ["Plan", "Hub", "PlanReturn", "Kro"],
            },
            "serviceAccount": {
                "description": "The ServiceAccount of the spoke, as <namespace>/<name>, in whose name children are written; by default the one of kro's Deployment.",
                "type": "string", "maxLength": 317,
            },
        },
    })
}

fn migration_status() -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    let count = |description: &str| json!({"type": "integer", "format": "int64", "description": description});
    let texts = |description: &str| json!({"type": "array", "items": {"type": "string"}, "description": description});
    json!({
        "description": "How a migration from or to a kro of the spoke is.",
        "type": "object",
        "properties": {
            "state": {
                "type": "string", "enum": ["Planned", "Taking", "Hub", "Returning", "Kro"],
                "description": "Planned: nothing was changed. Taking, Returning: under way. Hub, Kro: who runs the definitions.",
            },
            "observedGeneration": count("The generation of the Spoke that this is about."),
            "kroVersion": text("The version that kro's labels in the spoke name."),
            "hubVersion": text("The version that the hub writes there."),
            "serviceAccount": text("The ServiceAccount in whose name children are written."),
            "definitions": {
                "description": "The definitions in the spoke.", "type": "array",
                "items": {
                    "type": "object", "required": ["name"],
                    "properties": {
                        "name": text("The name."), "kind": text("The kind that it defines."),
                        "state": text("What kro says of it."),
                        "revisions": count("How many revisions it has."), "instances": count("How many instances it has."),
                    },
                },
            },
            "children": {
                "description": "Their children, by kind.", "type": "array",
                "items": {
                    "type": "object", "required": ["kind"],
                    "properties": {"kind": text("The kind."), "count": count("How many there are.")},
                },
            },
            "obstacles": texts("What keeps it from going on."),
            "notes": texts("What an administrator should know."),
        },
    })
}

fn connection() -> Value {
    json!({
        "description": "How the spoke is reached.",
        "type": "object",
        "properties": {
            "type": {
                "description": "Direct: the hub dials the spoke's API server.",
                "type": "string", "default": "Direct", "enum": ["Direct"],
            },
            "secretRef": {
                "description": "Where in root the kubeconfig is.",
                "type": "object",
                "required": ["name", "namespace"],
                "properties": {
                    "namespace": {"type": "string", "minLength": 1, "description": "The namespace of the Secret."},
                    "name": {"type": "string", "minLength": 1, "description": "The name of the Secret."},
                    "key": {"type": "string", "default": "kubeconfig", "description": "The key in the Secret."},
                },
            },
            "clusterProfileRef": {
                "description": "Which ClusterProfile of root describes the cluster.",
                "type": "object",
                "required": ["name", "namespace"],
                "properties": {
                    "namespace": {"type": "string", "minLength": 1, "description": "The namespace of the ClusterProfile."},
                    "name": {"type": "string", "minLength": 1, "description": "The name of the ClusterProfile."},
                },
            },
        },
        "x-kubernetes-validations": [{
            "rule": "has(self.secretRef) != has(self.clusterProfileRef)",
            "message": "exactly one of secretRef and clusterProfileRef is required",
        }],
    })
}

fn spoke_status() -> Value {
    let count = |description: &str| json!({"type": "integer", "format": "int64", "description": description});
    json!({
        "description": "What the hub has seen of the cluster, and how its work there stands.",
        "type": "object",
        "properties": {
            "conditions": {
                "description": "Reachable, Identified, Authorized, WithinBounds, CredentialCurrent, Continuous, Synced, CRDsDistributed, Migrated and Ready.",
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
                "items": {
                    "type": "object",
                    "required": ["type", "status"],
                    "properties": {
                        "type": {"type": "string", "description": "What it is about."},
                        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                        "reason": {"type": "string", "description": "Why, for programs."},
                        "message": {"type": "string", "description": "Why, for people."},
                        "lastTransitionTime": {"type": "string", "format": "date-time", "description": "When the status last changed."},
                        "observedGeneration": {"type": "integer", "format": "int64", "description": "The generation that it is about."},
                    },
                },
            },
            "version": {"type": "string", "description": "The spoke's version."},
            "lastHeartbeatTime": {"type": "string", "format": "date-time", "description": "When the spoke was last heard of."},
            "clusterUID": {"type": "string", "description": "The uid of the spoke's kube-system namespace, which identifies it."},
            "clusterID": {"type": "string", "description": "The id that the spoke gives itself in a ClusterProperty (KEP-2149)."},
            "circuit": {
                "description": "Whether requests to it pass.",
                "type": "object",
                "properties": {
                    "state": {"type": "string", "enum": ["Closed", "Open", "HalfOpen"], "description": "Closed: they pass. Open: they are refused at once. HalfOpen: they are, while one request tries whether it answers."},
                    "since": {"type": "string", "format": "date-time", "description": "Since when it is not closed."},
                    "nextProbeTime": {"type": "string", "format": "date-time", "description": "When it is tried next, where that is not being done."},
                },
            },
            "storeRevision": {
                "description": "The latest revision of the spoke's store that was seen. An earlier one says that it was set back.",
                "type": "object",
                "properties": {
                    "revision": {"type": "string", "description": "The revision."},
                    "time": {"type": "string", "format": "date-time", "description": "When it was seen."},
                },
            },
            "instances": {
                "description": "How many instances there are, by state.",
                "type": "object",
                "properties": {
                    "total": count("All of them."),
                    "ready": count("Those whose children are ready."),
                    "inProgress": count("Those that are being worked on."),
                    "error": count("Those that failed."),
                    "deleting": count("Those that go away."),
                    "summary": {"type": "string", "description": "ready/total."},
                },
            },
            "queue": {
                "description": "How much was to be done for it when the status was last written.",
                "type": "object",
                "properties": {
                    "ready": count("Instances that are worked on or wait for it."),
                    "later": count("Instances that are looked at again later."),
                },
            },
            "migration": migration_status(),
            "syncer": {"type": "string", "description": "The process that managed the spoke when the status was last written, as its Lease names it. Absent where one process manages all spokes."},
            "message": {"type": "string", "description": "What is wrong, in one sentence."},
        },
    })
}

fn user(description: &str) -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    json!({
        "description": description,
        "type": "object",
        "required": ["username"],
        "properties": {
            "username": text("The name."), "uid": text("The uid."),
            "groups": {"type": "array", "items": {"type": "string"}, "description": "The groups."},
            "extra": {
                "type": "object", "description": "What else the server is told.",
                "additionalProperties": {"type": "array", "items": {"type": "string"}},
            },
            "knownOnlyIn": text("The one logical cluster that knows the user."),
        },
    })
}

fn inventory() -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    let spec = json!({
        "description": "Every object that was or may have been made for one instance.",
        "type": "object",
        "required": ["instance"],
        "properties": {
            "instance": {
                "description": "The instance.",
                "type": "object",
                "required": ["group", "version", "kind", "name", "uid"],
                "properties": {
                    "group": text("The API group."), "version": text("The version."), "kind": text("The kind."),
                    "namespace": text("The namespace."), "name": text("The name."), "uid": text("The uid."),
                },
            },
            "mirrorUID": text("The uid of the mirror in the spoke."),
            "exact": {"type": "boolean", "description": "Whether members are neither more nor fewer than what is there; false while an apply or a prune is under way."},
            "settledCount": {"type": "integer", "format": "int64", "minimum": 0, "description": "How many members there were when it was last exact."},
            "heldRevision": {"type": "integer", "format": "int64", "description": "The revision of the definition whose deletions wait here for a confirmation, because of those of all instances of the kind."},
            "actingAs": user("The user of the cluster in whose name the objects are written; absent for the hub itself."),
            "actingAtHubAs": user("The same user as the hub knows it; absent where it does not."),
            "members": {
                "description": "The objects.",
                "type": "array", "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["version", "kind", "name", "node"],
                    "properties": {
                        "group": text("The API group; empty for core."), "version": text("The version."),
                        "kind": text("The kind."), "resource": text("The plural resource."),
                        "namespace": text("The namespace."), "name": text("The name."),
                        "uid": text("The uid; empty until the object was seen."),
                        "node": text("The node that it comes from."),
                        "order": {"type": "integer", "format": "int64", "description": "The wave in which it was applied."},
                        "applied": {"type": "string", "description": "Digests of what was applied and of what came of it; empty until it was applied."},
                    },
                },
            },
        },
    });
    let columns = json!([
        {"name": "KIND", "type": "string", "jsonPath": ".spec.instance.kind"},
        {"name": "NAMESPACE", "type": "string", "jsonPath": ".spec.instance.namespace"},
        {"name": "INSTANCE", "type": "string", "jsonPath": ".spec.instance.name"},
        {"name": "EXACT", "type": "boolean", "jsonPath": ".spec.exact"},
        {"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    definition(
        INTERNAL_GROUP,
        INVENTORY_KIND,
        INVENTORY_RESOURCE,
        &json!({
            "name": VERSION, "served": true, "storage": true, "additionalPrinterColumns": columns,
            "schema": {"openAPIV3Schema": root("The ledger of one instance, under the instance's uid.", &spec)},
        }),
    )
}

fn served_resource() -> Value {
    let texts = |description: &str| json!({"type": "object", "description": description, "additionalProperties": {"type": "string"}});
    let spec = json!({
        "description": "What the hub serves from its own store in this logical cluster.",
        "type": "object",
        "required": ["crd"],
        "properties": {
            "crd": {
                "description": "The spec of the definition.",
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            },
            "state": {
                "type": "string", "enum": ["Serving", "Importing"], "default": "Serving",
                "description": "Who answers at the spoke's path: the hub, or, while the hub takes up what is there, the spoke still.",
            },
            "judged": {
                "type": "boolean",
                "description": "Whether webhooks, policies or quotas of the spoke match the kind: a write is tried there before the hub stores it.",
            },
            "labels": texts("The labels of the definition."),
            "annotations": texts("The annotations of the definition."),
        },
    });
    let columns = json!([
        {"name": "KIND", "type": "string", "jsonPath": ".spec.crd.names.kind"},
        {"name": "SCOPE", "type": "string", "jsonPath": ".spec.crd.scope"},
        {"name": "STATE", "type": "string", "jsonPath": ".spec.state"},
        {"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    definition(
        INTERNAL_GROUP,
        SERVED_RESOURCE_KIND,
        SERVED_RESOURCE_RESOURCE,
        &json!({
            "name": VERSION, "served": true, "storage": true, "additionalPrinterColumns": columns,
            "schema": {"openAPIV3Schema": root("The record that the hub serves a resource of a spoke from its own store.", &spec)},
        }),
    )
}

fn kind_claim() -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    let spec = json!({
        "description": "A kind, and the definition that holds it in this logical cluster.",
        "type": "object",
        "required": ["group", "resource", "definition"],
        "properties": {
            "group": text("The API group."),
            "resource": text("The plural resource."),
            "definition": {
                "description": "The ResourceGraphDefinition of this logical cluster.",
                "type": "object",
                "required": ["name", "uid"],
                "properties": {"name": text("The name."), "uid": text("The uid.")},
            },
        },
    });
    let columns = json!([
        {"name": "DEFINITION", "type": "string", "jsonPath": ".spec.definition.name"},
        {"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    definition(
        INTERNAL_GROUP,
        KIND_CLAIM_KIND,
        KIND_CLAIM_RESOURCE,
        &json!({
            "name": VERSION, "served": true, "storage": true, "additionalPrinterColumns": columns,
            "schema": {"openAPIV3Schema": root("The record that a ResourceGraphDefinition holds its kind.", &spec)},
        }),
    )
}

fn discovery_record() -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    let packed =
        |description: &str| json!({"type": "string", "format": "byte", "description": description});
    let spec = json!({
        "description": "What was read of a spoke.",
        "type": "object",
        "required": ["spokeUID", "time", "core", "groups"],
        "properties": {
            "spokeUID": text("The uid of the Spoke."),
            "time": {"type": "string", "format": "date-time", "description": "When it was read."},
            "core": packed("The answer of /api, as base64 of gzip."),
            "groups": packed("The answer of /apis, as base64 of gzip."),
        },
    });
    let columns = json!([
        {"name": "READ", "type": "date", "jsonPath": ".spec.time"},
        {"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    definition(
        INTERNAL_GROUP,
        DISCOVERY_RECORD_KIND,
        DISCOVERY_RECORD_RESOURCE,
        &json!({
            "name": VERSION, "served": true, "storage": true, "additionalPrinterColumns": columns,
            "schema": {"openAPIV3Schema": root("The discovery of a spoke, as it was last read, for when it is away.", &spec)},
        }),
    )
}

fn root(description: &str, spec: &Value) -> Value {
    json!({
        "description": description,
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": "The group and version of this object."},
            "kind": {"type": "string", "description": "The kind of this object."},
            "metadata": {"type": "object"},
            "spec": spec,
        },
    })
}

fn definition(group: &str, kind: &str, plural: &str, version: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "names": {
                "kind": kind, "listKind": format!("{kind}List"), "plural": plural,
                "singular": kind.to_lowercase(), "categories": ["wheelhouse"],
            },
            "scope": "Cluster",
            "versions": [version],
        },
    })
}
