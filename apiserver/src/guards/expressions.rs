//! The expressions of admission: what they may name, what they must come to, and how they are evaluated.
//!
//! Source: `apiserver/pkg/admission/plugin/cel/{compile,condition,activation,composition}.go`; limits are those of
//! `apiserver/pkg/apis/cel/config.go`.

use std::sync::{Arc, LazyLock};

use api::admission::{MatchCondition, Variable};
use expressions::{
    AUTHORIZER, Allowance, Authorize, Bindings, DeclType, Declarations, Environment, Program,
    RESOURCE_CHECK, ResourceSubject, Unevaluated, Value as Evaluated,
};
use serde_json::{Value, json};

/// What all match conditions may cost together (`RuntimeCELCostBudgetMatchConditions`).
const CONDITIONS_COST_MAX: u64 = 2_500_000;

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";
/// What names of variables begin with.
pub(crate) const VARIABLES: &str = "variables";

/// What expressions may name beside object and request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Names {
    /// Whether there are `params`.
    pub(crate) params: bool,
    /// Whether there is an `authorizer`.
    pub(crate) authorizer: bool,
}

/// What an expression must come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Returns {
    Bool,
    Text,
    TextOrNull,
    Anything,
    /// An `Object`, to be applied.
    Object,
    /// A list of `JSONPatch`.
    JsonPatch,
}

/// A compiled expression, or why it does not compile.
pub(crate) type Compiled = Result<Program, String>;

/// Compiled variables, by their qualified names, in their order.
pub(crate) type Variables = Vec<(String, Program)>;

/// Compiled match conditions.
#[derive(Debug, Default)]
pub(crate) struct Conditions(Vec<Condition>);

#[derive(Debug)]
struct Condition {
    source: String,
    program: Compiled,
}

/// What the variables of expressions are, for one write.
#[derive(Clone, Copy)]
pub(crate) struct Facts<'a> {
    pub(crate) object: &'a Value,
    pub(crate) old: &'a Value,
    pub(crate) request: &'a Value,
    pub(crate) namespace: &'a Value,
    pub(crate) params: &'a Value,
    pub(crate) authorizer: Option<&'a Authorizer>,
}

/// Who answers questions of expressions, and what the write itself asks.
pub(crate) struct Authorizer {
    pub(crate) asked: Arc<dyn Authorize>,
    pub(crate) subject: ResourceSubject,
}

/// Why an expression came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Problem {
    /// All of them cost too much together.
    Budget(&'static str),
    /// This one failed.
    Failed(String),
}

/// Declares what expressions may name.
pub(crate) fn declarations(names: Names) -> Declarations {
    let mut declarations = Declarations::new()
        .with("object", DeclType::Dyn)
        .with("oldObject", DeclType::Dyn)
        .with("request", REQUEST.clone())
        .with("namespaceObject", NAMESPACE.clone());
    if names.params {
        declarations.declare("params", DeclType::Dyn);
    }
    if names.authorizer {
        declarations.declare("authorizer", DeclType::Opaque(AUTHORIZER));
        declarations.declare(
            "authorizer.requestResource",
            DeclType::Opaque(RESOURCE_CHECK),
        );
    }
    declarations
}

/// Declares a variable of a policy.
pub(crate) fn declare_variable(declarations: &mut Declarations, name: &str, ty: DeclType) {
    if declarations.get(VARIABLES).is_none() {
        declarations.declare(VARIABLES, DeclType::object("kubernetes.variables", []));
    }
    declarations.declare(format!("{VARIABLES}.{name}"), ty);
}

/// Compiles an expression.
///
/// # Errors
/// In Kubernetes' words.
pub(crate) fn compile(source: &str, declarations: &Declarations, returns: Returns) -> Compiled {
    let environment = match returns {
        Returns::Object | Returns::JsonPatch => Environment::mutation(),
        _ => Environment::admission(),
    };
    let program = environment
        .compile(source, declarations)
        .map_err(|error| format!("compilation failed: {error}"))?;
    let found = program.result_type();
    let (fits, wanted) = match returns {
        Returns::Anything => (true, ""),
        Returns::Bool => (*found == DeclType::Bool, "bool"),
        Returns::Text => (*found == DeclType::String, "string"),
        Returns::TextOrNull => (
            matches!(found, DeclType::String | DeclType::Null),
            "one of [string null_type]",
        ),
        Returns::Object => (
            Some(found) == DeclType::of_patch("Object").as_ref(),
            "Object",
        ),
        Returns::JsonPatch => (
            DeclType::of_patch("JSONPatch").map(DeclType::list).as_ref() == Some(found),
            "list(JSONPatch)",
        ),
    };
    if fits {
        return Ok(program);
    }
    let found = match found {
        DeclType::Null => "null_type".to_owned(),
        other => other.to_string(),
    };
    Err(format!("must evaluate to {wanted} but got {found}"))
}

/// Compiles the variables of a policy and declares those that compile; each may use those before it.
pub(crate) fn compile_variables(
    variables: &[Variable],
    declarations: &mut Declarations,
) -> Variables {
    let mut compiled = Variables::new();
    for variable in variables {
        let program = compile(&variable.expression, declarations, Returns::Anything);
        let ty = program
            .as_ref()
            .map_or(DeclType::Dyn, |program| program.result_type().clone());
        declare_variable(declarations, &variable.name, ty);
        if let Ok(program) = program {
            compiled.push((format!("{VARIABLES}.{}", variable.name), program));
        }
    }
    compiled
}

/// Evaluates an expression within what is left of `allowance`.
pub(crate) fn evaluate<'v>(
    source: &str,
    program: &Compiled,
    bindings: &Bindings<'v>,
    allowance: &mut Allowance,
) -> Result<Evaluated<'v>, Problem> {
    let program = program
        .as_ref()
        .map_err(|error| Problem::Failed(format!("compilation error: {error}")))?;
    let result = allowance.evaluate(program, bindings);
    result.map_err(|why| match why {
        Unevaluated::Exhausted => Problem::Budget(OUT_OF_BUDGET),
        Unevaluated::Failed(error) => {
            Problem::Failed(format!("expression '{source}' resulted in error: {error}"))
        }
    })
}

// === impl Conditions ===

impl Conditions {
    pub(crate) fn compile(conditions: &[MatchCondition], names: Names) -> Self {
        let declarations = declarations(names);
        let compile = |condition: &MatchCondition| Condition {
            program: compile(&condition.expression, &declarations, Returns::Bool),
            source: condition.expression.clone(),
        };
        Self(conditions.iter().map(compile).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all of them hold.
    ///
    /// # Errors
    /// None of them is false, and some failed: their texts.
    pub(crate) fn hold(&self, facts: Facts<'_>) -> Result<bool, String> {
        let mut allowance = Allowance::of_cost(CONDITIONS_COST_MAX);
        let (variables, namespace) = (Variables::new(), Value::Null);
        let facts = Facts {
            namespace: &namespace,
            ..facts
        };
        let bindings = facts.bindings(&variables);
        let mut errors = Vec::new();
        for condition in &self.0 {
            let (source, program) = (&condition.source, &condition.program);
            match evaluate(source, program, &bindings, &mut allowance) {
                Ok(value) if value.as_bool() == Some(false) => return Ok(false),
                Ok(_) => {}
                Err(Problem::Failed(error)) => errors.push(error),
                Err(Problem::Budget(error)) => return Err(error.to_owned()),
            }
        }
        match errors.as_slice() {
            [] => Ok(true),
            [one] => Err(one.clone()),
            several => Err(format!("[{}]", several.join(", "))),
        }
    }
}

// === impl Facts ===

impl<'a> Facts<'a> {
    /// Binds them, and the variables of a policy.
    pub(crate) fn bindings(self, variables: &'a Variables) -> Bindings<'a> {
        let mut bindings = Bindings::new();
        bindings
            .json("object", self.object)
            .json("oldObject", self.old)
            .json("request", self.request)
            .json("namespaceObject", self.namespace)
            .json("params", self.params)
            .json(VARIABLES, &NOTHING);
        if let Some(Authorizer { asked, subject }) = self.authorizer {
            bindings.authorizer("authorizer", asked).resource_check(
                "authorizer.requestResource",
                asked,
                subject.clone(),
            );
        }
        for (name, program) in variables {
            bindings.composed_of(name, program);
        }
        bindings
    }
}

static NOTHING: LazyLock<Value> = LazyLock::new(|| json!({}));

/// Source: `BuildRequestType`.
static REQUEST: LazyLock<DeclType> = LazyLock::new(|| {
    let texts = |name: &str, fields: &[&str]| {
        let fields = fields.iter().map(|it| ((*it).to_owned(), DeclType::String));
        DeclType::object(name, fields)
    };
    let kind = texts("kubernetes.GroupVersionKind", &["group", "version", "kind"]);
    let resource = texts(
        "kubernetes.GroupVersionResource",
        &["group", "version", "resource"],
    );
    let strings = || DeclType::list(DeclType::String);
    let user = object(
        "kubernetes.UserInfo",
        [
            ("username", DeclType::String),
            ("uid", DeclType::String),
            ("groups", strings()),
            ("extra", DeclType::map(DeclType::String, strings())),
        ],
    );
    object(
        "kubernetes.AdmissionRequest",
        [
            ("kind", kind.clone()),
            ("resource", resource.clone()),
            ("subResource", DeclType::String),
            ("requestKind", kind),
            ("requestResource", resource),
            ("requestSubResource", DeclType::String),
            ("name", DeclType::String),
            ("namespace", DeclType::String),
            ("operation", DeclType::String),
            ("userInfo", user),
            ("dryRun", DeclType::Bool),
            ("options", DeclType::Dyn),
        ],
    )
});

/// Source: `BuildNamespaceType`.
static NAMESPACE: LazyLock<DeclType> = LazyLock::new(|| {
    let strings = || DeclType::list(DeclType::String);
    let texts = || DeclType::map(DeclType::String, DeclType::String);
    let condition = object(
        "kubernetes.NamespaceCondition",
        [
            ("status", DeclType::String),
            ("type", DeclType::String),
            ("lastTransitionTime", DeclType::Timestamp),
            ("message", DeclType::String),
            ("reason", DeclType::String),
        ],
    );
    let metadata = object(
        "kubernetes.NamespaceMetadata",
        [
            ("name", DeclType::String),
            ("generateName", DeclType::String),
            ("namespace", DeclType::String),
            ("labels", texts()),
            ("annotations", texts()),
            ("UID", DeclType::String),
            ("creationTimestamp", DeclType::Timestamp),
            ("deletionGracePeriodSeconds", DeclType::Int),
            ("deletionTimestamp", DeclType::Timestamp),
            ("generation", DeclType::Int),
            ("resourceVersion", DeclType::String),
            ("finalizers", strings()),
        ],
    );
    object(
        "kubernetes.Namespace",
        [
            ("metadata", metadata),
            (
                "spec",
                object("kubernetes.NamespaceSpec", [("finalizers", strings())]),
            ),
            (
                "status",
                object(
                    "kubernetes.NamespaceStatus",
                    [
                        ("conditions", DeclType::list(condition)),
                        ("phase", DeclType::String),
                    ],
                ),
            ),
        ],
    )
});

fn object<const N: usize>(name: &str, fields: [(&str, DeclType); N]) -> DeclType {
    let fields = fields.map(|(field, ty)| (field.to_owned(), ty));
    DeclType::object(name, fields)
}

/// The fields of a namespace that expressions see. Source: `CreateNamespaceObject`.
pub(crate) fn visible_namespace(namespace: &Value) -> Value {
    let shown = [
        "name",
        "generateName",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "annotations",
        "finalizers",
    ];
    let metadata: serde_json::Map<String, Value> = shown
        .iter()
        .filter_map(|field| {
            let value = namespace["metadata"].get(*field)?;
            Some(((*field).to_owned(), value.clone()))
        })
        .collect();
    let (spec, status) = (&namespace["spec"], &namespace["status"]);
    json!({"metadata": metadata, "spec": spec, "status": status})
}
