//! What this project writes on objects: annotations, labels, finalizers, manager names, conditions.

/// The id of the hub that writes an object; an annotation on mirrors and definitions, a label on children.
pub const HUB: &str = "wheelhouse.dev/hub";
/// Which spokes a definition in root is for, as a label selector.
pub const ANNOTATION_SPOKES: &str = "wheelhouse.dev/spokes";
/// `true` on a definition whose children may take the place of objects that were not made for their instance.
pub const ANNOTATION_ADOPT: &str = "wheelhouse.dev/adopt";
/// What becomes of a child that nothing wants any more: `Delete`, `Retain` or `Orphan`.
pub const ANNOTATION_DELETION_POLICY: &str = "wheelhouse.dev/deletion-policy";
/// Whether instances are named as the owners of what a definition creates: `true`.
pub const ANNOTATION_OWNER_REFERENCES: &str = "wheelhouse.dev/owner-references";
/// The service account of the spoke that writes the children.
pub const ANNOTATION_RUN_AS: &str = "wheelhouse.dev/run-as";
/// On a Spoke: the uid of the kube-system namespace that the cluster has, where it is not the one that it had before: the
/// cluster was made anew on purpose.
pub const ANNOTATION_CLUSTER_UID: &str = "wheelhouse.dev/cluster-uid";
/// `false` on an object of an embedded cluster, or on its Spoke for all of them: the simulator of `wheelhouse dev` leaves it
/// alone, because somebody else makes it ready.
pub const ANNOTATION_SIMULATE: &str = "wheelhouse.dev/simulate";
/// In `spec.schema.metadata` of a definition: the fields of the scale subresource of its instances.
pub const ANNOTATION_SCALE: &str = "wheelhouse.dev/scale";
/// In audit events, and in what webhooks are told of a user: the logical cluster.
pub const KEY_CLUSTER: &str = "wheelhouse.dev/cluster";
/// Who last wanted something else of an object, as [`Author`](super::author::Author) writes it; only the server does.
pub const ANNOTATION_AUTHOR: &str = "internal.wheelhouse.dev/author";

/// On a Spoke: the id of the restore after which the hub may delete in it again, and what becomes of instances that only
/// the spoke knows: `<id>/keep` or `<id>/delete`.
pub const ANNOTATION_CONFIRM_RESTORE: &str = "wheelhouse.dev/confirm-restore";
/// The ConfigMap that says that the hub's store was restored from a backup: while it is there, nothing is deleted in a
/// spoke that has not been confirmed.
pub const RESTORE_CONFIG_MAP: &str = "wheelhouse-restore";
/// The namespace of that ConfigMap.
pub const RESTORE_NAMESPACE: &str = "kube-system";
/// In that ConfigMap: names the restore.
pub const RESTORE_KEY_ID: &str = "id";
/// In that ConfigMap: when the backup was taken.
pub const RESTORE_KEY_TAKEN_AT: &str = "backupTakenAt";

/// Where an instance was made, if not at the hub's path; only the server says so.
pub const ANNOTATION_ORIGIN: &str = "wheelhouse.dev/origin";
/// The value of [`ANNOTATION_ORIGIN`] for an instance that was made in its spoke.
pub const ORIGIN_SPOKE: &str = "spoke";
/// On an instance that was made in its spoke: the version that it had there when it was last taken up.
pub const ANNOTATION_SPOKE_VERSION: &str = "internal.wheelhouse.dev/spoke-version";
/// On an instance: the outcome of a plan that deletes most of its children, and may be carried out. On a definition: the revision
/// that may delete most children of its instances.
pub const ANNOTATION_CONFIRM_DELETIONS: &str = "wheelhouse.dev/confirm-deletions";
/// The reason of an instance's condition `ResourcesReady` while it waits for [`ANNOTATION_CONFIRM_DELETIONS`].
pub const REASON_CONFIRMATION_REQUIRED: &str = "ConfirmationRequired";
/// On a Spoke that is being deleted while the hub has instances for it: what becomes of them, and the uid of the Spoke, as
/// `drain/<uid>` or `abandon/<uid>`.
pub const ANNOTATION_PARTING: &str = "wheelhouse.dev/parting";
/// The ConfigMaps, in [`RESTORE_NAMESPACE`] of root, that name what was left in abandoned spokes begin with this.
const REMAINS_PREFIX: &str = "wheelhouse-remains-";

/// Returns the name of the ConfigMap in `kube-system` of root that names what was left in a spoke, by the name and uid of its Spoke.
pub fn remains_name(spoke: &str, uid: &str) -> String {
    format!("{REMAINS_PREFIX}{spoke}-{}", uid.get(..8).unwrap_or(uid))
}

/// On a definition in a spoke: the id of the hub that has taken it over from kro, and runs it since.
pub const ANNOTATION_TAKEN_BY: &str = "wheelhouse.dev/taken-by";
/// On a definition or revision that the hub has taken over from kro, or gives back: how far it is with it. Only the server says so.
pub const ANNOTATION_MIGRATION: &str = "internal.wheelhouse.dev/migration";
/// The value of [`ANNOTATION_MIGRATION`] while not all is there that belongs to a definition.
pub const MIGRATION_TAKING: &str = "taking";
/// The same once the hub runs it.
pub const MIGRATION_TAKEN: &str = "taken";
/// The same once the hub runs it no more.
pub const MIGRATION_RETURNING: &str = "returning";

/// The finalizer, in the spoke, of instances that were made there: their children go first.
pub const FINALIZER_IMPORTED: &str = "wheelhouse.dev/instance";
/// The finalizer of mirrors in spokes.
pub const FINALIZER_MIRROR: &str = "wheelhouse.dev/mirror";
/// The finalizer of Spokes.
pub const FINALIZER_SPOKE: &str = "wheelhouse.dev/spoke";

/// Who writes definitions and mirrors in spokes.
pub const MANAGER_SYNCER: &str = "wheelhouse-syncer";
/// Who writes at the command line.
pub const MANAGER_CLI: &str = "wheelhouse";

/// The user as whom the hub's own controllers come.
pub const USER_SYNCER: &str = "system:wheelhouse:syncer";
/// The group of those who may do everything.
pub const GROUP_MASTERS: &str = "system:masters";

/// The label on a Secret of root that names the spoke whose credential it holds.
pub const LABEL_SPOKE_SECRET: &str = "wheelhouse.dev/spoke";
/// The key of a Secret that holds a kubeconfig.
pub const SECRET_KEY_KUBECONFIG: &str = "kubeconfig";

/// On a Spoke that the hub made, because a cluster was found: where, as `<sort>:<place>` of one source. The hub removes no Spoke
/// that does not have it.
pub const ANNOTATION_FOUND_IN: &str = "wheelhouse.dev/found-in";
/// On such a Spoke: the sort of the source.
pub const LABEL_FOUND_BY: &str = "wheelhouse.dev/found-by";

/// On a Secret: it holds the kubeconfig of a cluster, by the contract of multicluster-runtime.
///
/// Source: `kubernetes-sigs/multicluster-runtime`, `providers/kubeconfig/provider.go`.
pub const LABEL_RUNTIME_KUBECONFIG: &str = "sigs.k8s.io/multicluster-runtime-kubeconfig";
/// The same, as older versions of multicluster-runtime have it.
pub const LABEL_RUNTIME_CLUSTER: &str = "multicluster.runtime/cluster";
/// On a Secret: it holds the kubeconfig of this cluster of Cluster API.
///
/// Source: `kubernetes-sigs/cluster-api`, `api/core/v1beta2/common_types.go` (`ClusterNameLabel`).
pub const LABEL_CLUSTER_API_NAME: &str = "cluster.x-k8s.io/cluster-name";
/// The type of such a Secret. Its name is that of the cluster with [`CLUSTER_API_SECRET_SUFFIX`], its key
/// [`CLUSTER_API_SECRET_KEY`].
///
/// Source: `kubernetes-sigs/cluster-api`, `util/secret/consts.go` and `api/core/v1beta2/common_types.go`
/// (`ClusterSecretType`).
pub const CLUSTER_API_SECRET_TYPE: &str = "cluster.x-k8s.io/secret";
/// What follows the name of the cluster in that of its Secret.
pub const CLUSTER_API_SECRET_SUFFIX: &str = "-kubeconfig";
/// The key of the kubeconfig in a Secret of Cluster API.
pub const CLUSTER_API_SECRET_KEY: &str = "value";

/// Of a spoke: it answers.
pub const CONDITION_REACHABLE: &str = "Reachable";
/// Why a cluster that answers is not reachable: it refuses the hub, or is not the one that its Spoke is for.
pub const REASON_REFUSED: &str = "Refused";
/// Why a cluster is not reachable that the hub does not connect to.
pub const REASON_NOT_CONNECTED: &str = "NotConnected";
/// Why a cluster is not reachable though its server may answer: that does not pass by itself.
pub const REASONS_NOT_USED: [&str; 2] = [REASON_REFUSED, REASON_NOT_CONNECTED];
/// Why a list of all clusters is refused: of each cluster that could not be asked, as the `field` of a cause.
pub const REASON_SPOKE_FAILED: &str = "SpokeFailed";
/// Of a spoke: it is the cluster that the Spoke was made for, and no other Spoke's.
pub const CONDITION_IDENTIFIED: &str = "Identified";
/// Of a spoke: the credential is allowed what the hub needs first.
pub const CONDITION_AUTHORIZED: &str = "Authorized";
/// Of a spoke: it makes the hub hold no more than a spoke may.
pub const CONDITION_WITHIN_BOUNDS: &str = "WithinBounds";
/// Of a spoke, after a restore: it may be deleted in again.
pub const CONDITION_RESTORE_CONFIRMED: &str = "RestoreConfirmed";
/// Of a spoke: the credential that is used is the last one that was given.
pub const CONDITION_CREDENTIAL_CURRENT: &str = "CredentialCurrent";
/// Of a spoke: it has not been set back to an earlier state.
pub const CONDITION_CONTINUOUS: &str = "Continuous";
/// Of a spoke that was found, or whose name was: what became of that.
pub const CONDITION_FOUND: &str = "Found";
/// Of a spoke where a kro ran: the hub runs its definitions.
pub const CONDITION_MIGRATED: &str = "Migrated";
/// Of a spoke: all of the others.
pub const CONDITION_READY: &str = "Ready";
