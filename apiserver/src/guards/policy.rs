//! What the policies of both kinds have in common, and their bindings.

use api::admission::{
    BindingSpec, FailurePolicy, MatchCondition, MatchResources, ParamKind, ValidationAction,
    Variable,
};
use expressions::Declarations;

use super::expressions::{Conditions, Names, Variables, compile_variables, declarations};
use super::matching::Constraints;

/// Which requests a policy means, and what its expressions are evaluated with.
#[derive(Debug)]
pub(crate) struct PolicyHead {
    pub(crate) name: String,
    pub(crate) constraints: Result<Constraints, String>,
    pub(crate) failure: FailurePolicy,
    pub(crate) param_kind: Option<ParamKind>,
    pub(crate) conditions: Conditions,
    pub(crate) variables: Variables,
}

/// The parts of a policy's spec that its head is made of.
#[derive(Debug)]
pub(super) struct HeadSpec<'a> {
    pub(super) constraints: &'a MatchResources,
    pub(super) failure: FailurePolicy,
    pub(super) param_kind: Option<ParamKind>,
    pub(super) conditions: &'a [MatchCondition],
    pub(super) variables: &'a [Variable],
}

/// A binding of a policy of either kind.
#[derive(Debug)]
pub(crate) struct Binding {
    pub(crate) name: String,
    pub(crate) constraints: Result<Option<Constraints>, String>,
    pub(crate) spec: BindingSpec,
}

// === impl PolicyHead ===

impl PolicyHead {
    /// Compiles what a policy has beside its own expressions. Returns with it what those may name.
    pub(super) fn compile(name: &str, spec: HeadSpec<'_>) -> (Self, Declarations) {
        let names = Names {
            params: spec.param_kind.is_some(),
            authorizer: true,
        };
        let mut declared = declarations(names);
        let head = Self {
            name: name.to_owned(),
            constraints: Constraints::of(spec.constraints),
            failure: spec.failure,
            conditions: Conditions::compile(spec.conditions, names),
            variables: compile_variables(spec.variables, &mut declared),
            param_kind: spec.param_kind,
        };
        (head, declared)
    }
}

// === impl Binding ===

impl Binding {
    pub(crate) fn new(name: &str, spec: BindingSpec) -> Self {
        let resources = spec.match_resources.as_ref();
        Self {
            name: name.to_owned(),
            constraints: resources.map(Constraints::of).transpose(),
            spec,
        }
    }

    pub(crate) fn does(&self, action: ValidationAction) -> bool {
        self.spec.validation_actions.contains(&action)
    }
}
