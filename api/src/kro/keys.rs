//! What kro writes on objects: labels, annotations, finalizers, manager names, conditions, reasons, states.

/// What kro's own keys begin with.
pub const PREFIX: &str = "kro.run/";
/// What kro's internal keys begin with.
pub const INTERNAL_PREFIX: &str = "internal.kro.run/";

// === labels ===

/// The id of the node that a child comes from.
pub const LABEL_NODE_ID: &str = "kro.run/node-id";
/// The position of a child in its collection.
pub const LABEL_COLLECTION_INDEX: &str = "kro.run/collection-index";
/// The size of the collection that a child is of.
pub const LABEL_COLLECTION_SIZE: &str = "kro.run/collection-size";
/// `true` on everything that kro writes.
pub const LABEL_OWNED: &str = "kro.run/owned";
/// The version of kro that wrote.
pub const LABEL_KRO_VERSION: &str = "kro.run/kro-version";
/// The uid of the instance that a child belongs to.
pub const LABEL_INSTANCE_ID: &str = "kro.run/instance-id";
/// The name of the instance.
pub const LABEL_INSTANCE_NAME: &str = "kro.run/instance-name";
/// The namespace of the instance; absent where it has none.
pub const LABEL_INSTANCE_NAMESPACE: &str = "kro.run/instance-namespace";
/// The group of the instance.
pub const LABEL_INSTANCE_GROUP: &str = "kro.run/instance-group";
/// The version of the instance.
pub const LABEL_INSTANCE_VERSION: &str = "kro.run/instance-version";
/// The kind of the instance.
pub const LABEL_INSTANCE_KIND: &str = "kro.run/instance-kind";
/// The uid of the definition that a kind or an instance comes from.
pub const LABEL_RGD_ID: &str = "kro.run/resource-graph-definition-id";
/// The name of the definition.
pub const LABEL_RGD_NAME: &str = "kro.run/resource-graph-definition-name";
/// The hash of the spec that a revision holds.
pub const LABEL_REVISION_HASH: &str = "kro.run/graph-revision-hash";
/// Kubernetes' label for the tool that manages an object.
pub const LABEL_MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// What kro writes there.
pub const MANAGED_BY_KRO: &str = "kro";
/// The id of the ApplySet that a child is part of.
pub const LABEL_APPLYSET_PART_OF: &str = "applyset.kubernetes.io/part-of";
/// The id of the ApplySet that an instance stands for.
pub const LABEL_APPLYSET_ID: &str = "applyset.kubernetes.io/id";

// === annotations ===

/// The tool that manages an ApplySet, `kro/<version>`.
pub const ANNOTATION_APPLYSET_TOOLING: &str = "applyset.kubernetes.io/tooling";
/// The group-kinds that an ApplySet contains.
pub const ANNOTATION_APPLYSET_GROUP_KINDS: &str = "applyset.kubernetes.io/contains-group-kinds";
/// The namespaces of an ApplySet other than its own.
pub const ANNOTATION_APPLYSET_NAMESPACES: &str = "applyset.kubernetes.io/additional-namespaces";
/// The hash over the inventory of an ApplySet.
pub const ANNOTATION_APPLYSET_HASH: &str = "internal.kro.run/applyset-inventory-hash";
/// The wave in which a child was applied.
pub const ANNOTATION_APPLY_ORDER: &str = "internal.kro.run/apply-order";
/// `true` if a definition may break existing instances.
pub const ANNOTATION_ALLOW_BREAKING_CHANGES: &str = "kro.run/allow-breaking-changes";
/// `suspended` or `disabled` if an instance is left alone.
pub const ANNOTATION_RECONCILE: &str = "kro.run/reconcile";
/// `false`, as an annotation or a label, on a definition whose kind is served in root alone. kro ignores it. Source: kro's proposal
/// KREP-013b.
pub const ANNOTATION_DISTRIBUTE: &str = "kro.run/distribute";

// === finalizers and managers ===

/// The finalizer of definitions, revisions and instances.
pub const FINALIZER: &str = "kro.run/finalizer";
/// Who writes the children.
pub const MANAGER_APPLYSET: &str = "kro.run/applyset";
/// Who writes the inventory on the instance.
pub const MANAGER_APPLYSET_PARENT: &str = "kro.run/applyset-parent";
/// Who writes finalizer and labels on the instance.
pub const MANAGER_LABELLER: &str = "kro.run/labeller";
/// What the tooling annotation begins with.
pub const TOOLING_PREFIX: &str = "kro/";

// === conditions ===

/// The root of every set of conditions.
pub const CONDITION_READY: &str = "Ready";
/// Of a definition: its revisions are known.
pub const CONDITION_GRAPH_REVISIONS_RESOLVED: &str = "GraphRevisionsResolved";
/// Of a definition: it compiles.
pub const CONDITION_GRAPH_ACCEPTED: &str = "GraphAccepted";
/// Of a definition: its kind is served.
pub const CONDITION_KIND_READY: &str = "KindReady";
/// Of a definition: its instances are reconciled.
pub const CONDITION_CONTROLLER_READY: &str = "ControllerReady";
/// Of a definition, once: removed where it is seen.
pub const CONDITION_LEGACY_ACCEPTED: &str = "ResourceGraphAccepted";
/// Of a revision: it compiles.
pub const CONDITION_GRAPH_VERIFIED: &str = "GraphVerified";
/// Of an instance: it has finalizer and labels.
pub const CONDITION_INSTANCE_MANAGED: &str = "InstanceManaged";
/// Of an instance: its graph is known.
pub const CONDITION_GRAPH_RESOLVED: &str = "GraphResolved";
/// Of an instance: its children are there and ready.
pub const CONDITION_RESOURCES_READY: &str = "ResourcesReady";

// === reasons ===

/// Nothing is known yet.
pub const REASON_AWAITING: &str = "AwaitingReconciliation";
/// The root holds, and so does the kind.
pub const REASON_READY: &str = "Ready";
/// The revisions are known; the graph is.
pub const REASON_RESOLVED: &str = "Resolved";
/// It failed.
pub const REASON_FAILED: &str = "Failed";
/// The definition compiles.
pub const REASON_VALID: &str = "Valid";
/// The definition does not compile.
pub const REASON_INVALID_RESOURCE_GRAPH: &str = "InvalidResourceGraph";
/// The instances are reconciled.
pub const REASON_RUNNING: &str = "Running";
/// The reconciler could not be started.
pub const REASON_FAILED_TO_START: &str = "FailedToStart";
/// The revision compiles.
pub const REASON_VERIFIED: &str = "Verified";
/// The instance has finalizer and labels.
pub const REASON_MANAGED: &str = "Managed";
/// The graph of the instance is not known.
pub const REASON_RESOLUTION_FAILED: &str = "ResolutionFailed";
/// All children are there and ready.
pub const REASON_ALL_RESOURCES_READY: &str = "AllResourcesReady";
/// Some child is not ready.
pub const REASON_NOT_READY: &str = "NotReady";
/// Some child goes away and is waited for.
pub const REASON_RESOURCE_DELETING: &str = "ResourceDeleting";
/// The instance is left alone.
pub const REASON_SUSPENDED: &str = "ReconciliationSuspended";
/// The instance goes away.
pub const REASON_UNDER_DELETION: &str = "UnderDeletion";

// === messages that tests of kro assert ===

/// With [`REASON_MANAGED`].
pub const MESSAGE_MANAGED: &str = "instance is properly managed with finalizers and labels";
/// With [`REASON_RESOLVED`] of an instance.
pub const MESSAGE_RESOLVED: &str = "runtime graph created and all resources resolved";
/// With [`REASON_ALL_RESOURCES_READY`].
pub const MESSAGE_ALL_RESOURCES_READY: &str = "all resources are created and ready";

// === states ===

/// A definition that is served.
pub const RGD_STATE_ACTIVE: &str = "Active";
/// A definition that is not served.
pub const RGD_STATE_INACTIVE: &str = "Inactive";
/// An instance whose children are all ready.
pub const STATE_ACTIVE: &str = "ACTIVE";
/// An instance that is being worked on.
pub const STATE_IN_PROGRESS: &str = "IN_PROGRESS";
/// An instance that failed.
pub const STATE_ERROR: &str = "ERROR";
/// An instance that goes away.
pub const STATE_DELETING: &str = "DELETING";
