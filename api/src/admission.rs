//! What guards writes: admission policies with their bindings, and webhooks, as `admissionregistration.k8s.io/v1` has them.
//!
//! Source: `k8s.io/api/admissionregistration/v1/types.go`.

use serde::Deserialize;

use crate::selector::LabelSelector;
use crate::wire::or_default;

/// The API group.
pub const GROUP: &str = "admissionregistration.k8s.io";
/// The resource of [`ValidatingPolicySpec`].
pub const VALIDATING_POLICIES: &str = "validatingadmissionpolicies";
/// The resource of the bindings of validating policies.
pub const VALIDATING_BINDINGS: &str = "validatingadmissionpolicybindings";
/// The resource of [`MutatingPolicySpec`].
pub const MUTATING_POLICIES: &str = "mutatingadmissionpolicies";
/// The resource of the bindings of mutating policies.
pub const MUTATING_BINDINGS: &str = "mutatingadmissionpolicybindings";
/// The resource of webhooks that may change objects.
pub const MUTATING_WEBHOOKS: &str = "mutatingwebhookconfigurations";
/// The resource of webhooks that may only refuse.
pub const VALIDATING_WEBHOOKS: &str = "validatingwebhookconfigurations";

/// What becomes of a request that a policy or a webhook fails to judge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum FailurePolicy {
    /// It is refused.
    #[default]
    Fail,
    /// It passes.
    Ignore,
}

/// Whether rules mean other versions of a resource too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum MatchPolicy {
    /// Only what they name.
    Exact,
    /// All versions of it.
    #[default]
    Equivalent,
}

/// Which requests are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MatchResources {
    /// Labels of the namespace.
    #[serde(deserialize_with = "or_default")]
    pub namespace_selector: LabelSelector,
    /// Labels of the object, before or after.
    #[serde(deserialize_with = "or_default")]
    pub object_selector: LabelSelector,
    /// What is meant; everything where there is none.
    #[serde(deserialize_with = "or_default")]
    pub resource_rules: Vec<Rule>,
    /// What is not meant, whatever else says it is.
    #[serde(deserialize_with = "or_default")]
    pub exclude_resource_rules: Vec<Rule>,
    /// Whether the rules mean other versions too.
    #[serde(deserialize_with = "or_default")]
    pub match_policy: MatchPolicy,
}

/// Operations on resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rule {
    /// `CREATE`, `UPDATE`, `DELETE`, `CONNECT` or `*`.
    #[serde(deserialize_with = "or_default")]
    pub operations: Vec<String>,
    /// API groups, or `*`.
    #[serde(deserialize_with = "or_default")]
    pub api_groups: Vec<String>,
    /// API versions, or `*`.
    #[serde(deserialize_with = "or_default")]
    pub api_versions: Vec<String>,
    /// Resources: `pods`, `pods/status`, `pods/*`, `*/scale`, `*` or `*/*`.
    #[serde(deserialize_with = "or_default")]
    pub resources: Vec<String>,
    /// `Cluster`, `Namespaced` or `*`.
    #[serde(deserialize_with = "or_default")]
    pub scope: String,
    /// Names of objects; any where there is none. Webhooks have none.
    #[serde(deserialize_with = "or_default")]
    pub resource_names: Vec<String>,
}

/// An expression that must hold for a request to be judged at all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MatchCondition {
    /// Its name.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// The expression.
    #[serde(deserialize_with = "or_default")]
    pub expression: String,
}

/// The kind of the parameters of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ParamKind {
    /// Group and version.
    #[serde(deserialize_with = "or_default")]
    pub api_version: String,
    /// The kind.
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
}

/// The parameters of a binding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ParamRef {
    /// The name of one object.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Where it is; where the request's object is, without it.
    #[serde(deserialize_with = "or_default")]
    pub namespace: String,
    /// Labels of several objects.
    pub selector: Option<LabelSelector>,
    /// What becomes of requests while there is none.
    #[serde(deserialize_with = "or_default")]
    pub parameter_not_found_action: ParameterNotFound,
}

/// What becomes of requests while a parameter is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum ParameterNotFound {
    /// The binding does not act.
    #[default]
    Allow,
    /// The policy fails to judge them.
    Deny,
}

/// An expression that others use by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Variable {
    /// Its name, below `variables`.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// The expression.
    #[serde(deserialize_with = "or_default")]
    pub expression: String,
}

/// An expression that must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Validation {
    /// The expression.
    #[serde(deserialize_with = "or_default")]
    pub expression: String,
    /// What is said where it does not hold.
    #[serde(deserialize_with = "or_default")]
    pub message: String,
    /// The reason of the refusal.
    #[serde(deserialize_with = "or_default")]
    pub reason: String,
    /// Makes the message.
    #[serde(deserialize_with = "or_default")]
    pub message_expression: String,
}

/// An expression whose value goes into the audit record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AuditAnnotation {
    /// The key, behind the name of the policy.
    #[serde(deserialize_with = "or_default")]
    pub key: String,
    /// The expression.
    #[serde(deserialize_with = "or_default")]
    pub value_expression: String,
}

/// What a ValidatingAdmissionPolicy says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ValidatingPolicySpec {
    /// The kind of its parameters, if it has any.
    pub param_kind: Option<ParamKind>,
    /// Which requests it judges.
    #[serde(deserialize_with = "or_default")]
    pub match_constraints: MatchResources,
    /// What must hold.
    #[serde(deserialize_with = "or_default")]
    pub validations: Vec<Validation>,
    /// What becomes of requests that it fails to judge.
    #[serde(deserialize_with = "or_default")]
    pub failure_policy: FailurePolicy,
    /// What goes into the audit record.
    #[serde(deserialize_with = "or_default")]
    pub audit_annotations: Vec<AuditAnnotation>,
    /// What must hold for a request to be judged.
    #[serde(deserialize_with = "or_default")]
    pub match_conditions: Vec<MatchCondition>,
    /// Expressions that the others use.
    #[serde(deserialize_with = "or_default")]
    pub variables: Vec<Variable>,
}

/// How a MutatingAdmissionPolicy changes an object.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "patchType", rename_all_fields = "camelCase")]
pub enum Mutation {
    /// By fields that are merged into it, as server-side apply merges them.
    ApplyConfiguration {
        /// Makes the fields.
        apply_configuration: PatchExpression,
    },
    /// By the operations of a JSON patch.
    JSONPatch {
        /// Makes the operations.
        json_patch: PatchExpression,
    },
}

/// An expression that makes a patch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PatchExpression {
    /// The expression.
    #[serde(deserialize_with = "or_default")]
    pub expression: String,
}

/// What a MutatingAdmissionPolicy says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MutatingPolicySpec {
    /// The kind of its parameters, if it has any.
    pub param_kind: Option<ParamKind>,
    /// Which requests it means.
    #[serde(deserialize_with = "or_default")]
    pub match_constraints: MatchResources,
    /// Expressions that the others use.
    #[serde(deserialize_with = "or_default")]
    pub variables: Vec<Variable>,
    /// How it changes objects, in this order.
    #[serde(deserialize_with = "or_default")]
    pub mutations: Vec<Mutation>,
    /// What becomes of requests whose object it fails to change.
    #[serde(deserialize_with = "or_default")]
    pub failure_policy: FailurePolicy,
    /// What must hold for a request to be meant.
    #[serde(deserialize_with = "or_default")]
    pub match_conditions: Vec<MatchCondition>,
    /// Whether it is evaluated once more where others changed the object after it.
    #[serde(deserialize_with = "or_default")]
    pub reinvocation_policy: ReinvocationPolicy,
}

/// What the binding of a policy says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BindingSpec {
    /// The policy that it puts into force.
    #[serde(deserialize_with = "or_default")]
    pub policy_name: String,
    /// Its parameters.
    pub param_ref: Option<ParamRef>,
    /// For which requests, of those that the policy means.
    pub match_resources: Option<MatchResources>,
    /// What follows where a validation does not hold; only bindings of validating policies have it.
    #[serde(deserialize_with = "or_default")]
    pub validation_actions: Vec<ValidationAction>,
}

/// What follows where a validation does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum ValidationAction {
    /// The request is refused.
    Deny,
    /// The client is warned.
    Warn,
    /// It goes into the audit record.
    Audit,
}

/// A webhook of either kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Webhook {
    /// Its name, qualified by a domain.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// How it is called.
    #[serde(deserialize_with = "or_default")]
    pub client_config: WebhookClientConfig,
    /// Which requests it is called for.
    #[serde(deserialize_with = "or_default")]
    pub rules: Vec<Rule>,
    /// What becomes of requests where it cannot be called.
    #[serde(deserialize_with = "or_default")]
    pub failure_policy: FailurePolicy,
    /// Whether the rules mean other versions too.
    #[serde(deserialize_with = "or_default")]
    pub match_policy: MatchPolicy,
    /// Labels of the namespace.
    #[serde(deserialize_with = "or_default")]
    pub namespace_selector: LabelSelector,
    /// Labels of the object, before or after.
    #[serde(deserialize_with = "or_default")]
    pub object_selector: LabelSelector,
    /// `None`, `NoneOnDryRun`, and of old also `Some` or `Unknown`.
    #[serde(deserialize_with = "or_default")]
    pub side_effects: String,
    /// How long a call may take.
    pub timeout_seconds: Option<u32>,
    /// The versions of AdmissionReview that it takes, the preferred one first.
    #[serde(deserialize_with = "or_default")]
    pub admission_review_versions: Vec<String>,
    /// Whether it is called once more where others changed the object after it.
    #[serde(deserialize_with = "or_default")]
    pub reinvocation_policy: ReinvocationPolicy,
    /// What must hold for it to be called.
    #[serde(deserialize_with = "or_default")]
    pub match_conditions: Vec<MatchCondition>,
}

/// Whether a webhook or a mutating policy is asked once more where others changed the object after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum ReinvocationPolicy {
    /// It is not.
    #[default]
    Never,
    /// It is.
    IfNeeded,
}

/// How a webhook is called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WebhookClientConfig {
    /// Its address.
    pub url: Option<String>,
    /// The Service that it is behind.
    pub service: Option<ServiceReference>,
    /// The certificates that its own is checked with, PEM in base64.
    #[serde(deserialize_with = "or_default")]
    pub ca_bundle: String,
}

/// A Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceReference {
    /// Its namespace.
    #[serde(deserialize_with = "or_default")]
    pub namespace: String,
    /// Its name.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
}
