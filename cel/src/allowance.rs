//! What several evaluations may cost together, as in Kubernetes.
//!
//! Source: `apiserver/pkg/apis/cel/config.go`, `apiserver/pkg/admission/plugin/cel/activation.go`.

use crate::bindings::Bindings;
use crate::budget::Budget;
use crate::error::EvaluateError;
use crate::program::Program;
use crate::value::Value;

/// The most that one evaluation may cost (`PerCallLimit`).
const CALL_COST_MAX: u64 = 1_000_000;
/// The most that evaluations may cost together (`RuntimeCELCostBudget`).
const COST_MAX: u64 = 10_000_000;
/// Steps for each unit of all evaluations together: an expression whose work is far more than what Kubernetes counts ends by
/// these. What costs nothing, such as `&&` and a constant, takes a step; a unit of plain rules is one to two steps.
const STEPS_PER_UNIT: u64 = 3;

/// What evaluations may still cost together, in units of Kubernetes. Each of them may cost a million units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    cost: u64,
    steps: u64,
}

/// Why an evaluation within an allowance came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unevaluated {
    /// The allowance is used up: nothing more is to be evaluated.
    Exhausted,
    /// The expression failed, or was ended by its own limit.
    Failed(EvaluateError),
}

// === impl Allowance ===

impl Allowance {
    /// What the rules of one object have, and the expressions of one binding of a policy.
    pub const DEFAULT: Self = Self::of_cost(COST_MAX);

    /// An allowance of so many units.
    #[must_use]
    pub const fn of_cost(cost: u64) -> Self {
        Self {
            cost,
            steps: cost.saturating_mul(STEPS_PER_UNIT),
        }
    }

    /// Whether nothing is left of it.
    pub const fn is_exhausted(self) -> bool {
        self.cost == 0
    }

    /// Evaluates an expression, and takes what it cost, with the variables that it was the first to read.
    ///
    /// # Errors
    /// As [`Unevaluated`] says.
    pub fn evaluate<'v>(
        &mut self,
        program: &Program,
        bindings: &Bindings<'v>,
    ) -> Result<Value<'v>, Unevaluated> {
        let mut budget = Budget::steps(self.steps).with_cost(CALL_COST_MAX);
        let result = program.evaluate_within(bindings, &mut budget);
        self.steps = budget.left();
        let cost = budget.cost().saturating_add(budget.cost_of_variables());
        let left = self.cost.checked_sub(cost);
        self.cost = left.unwrap_or(0);
        if left.is_none() {
            return Err(Unevaluated::Exhausted);
        }
        result.map_err(Unevaluated::Failed)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{DeclType, Declarations, Environment, ErrorClass};

    fn program(source: &str) -> Program {
        let declarations = Declarations::new().with("self", DeclType::Dyn);
        Environment::validation()
            .compile(source, &declarations)
            .expect("it compiles")
    }

    #[test]
    fn an_expression_ends_above_its_own_limit_and_the_next_one_goes_on() {
        let list = json!({"l": vec![1; 1000]});
        let mut bindings = Bindings::new();
        bindings.json("self", &list);
        // A million comparisons of five units.
        let square = program("self.l.all(i, self.l.all(j, i == j))");
        let mut allowance = Allowance::DEFAULT;
        let result = allowance.evaluate(&square, &bindings);
        let Err(Unevaluated::Failed(error)) = result else {
            panic!("it costs 5 million: {result:?}");
        };
        assert_eq!(error.class, ErrorClass::Cost);
        let line = program("self.l.all(i, i == 1)");
        let value = allowance.evaluate(&line, &bindings);
        assert_eq!(value.expect("within both").as_bool(), Some(true));
    }

    #[test]
    fn an_allowance_ends_to_the_unit() {
        let object = json!({"a": "x"});
        let mut bindings = Bindings::new();
        bindings.json("self", &object);
        // The name, the field and the comparison.
        let three = program("self.a == 'x'");
        let of = |cost| Allowance {
            cost,
            ..Allowance::DEFAULT
        };
        let mut allowance = of(6);
        for _ in 0..2 {
            allowance.evaluate(&three, &bindings).expect("three of six");
        }
        assert!(allowance.is_exhausted(), "two times three of six");
        let mut allowance = of(5);
        allowance
            .evaluate(&three, &bindings)
            .expect("three of five");
        assert_eq!(
            allowance.evaluate(&three, &bindings).err(),
            Some(Unevaluated::Exhausted)
        );
        // Also where the expression fails.
        let fails = program("self.b == 'x'");
        let mut allowance = of(1);
        let result = allowance.evaluate(&fails, &bindings);
        assert_eq!(result.err(), Some(Unevaluated::Exhausted));
    }

    #[test]
    fn what_gives_back_may_be_an_operand() {
        let lists = vec!["[1]"; 50].join(", ");
        let source = format!(
            "lists.range(50).size() == 50 && optional.of(dyn([{lists}]).flatten(-1) == [] || true).optMap(v, v).hasValue()"
        );
        let mut allowance = Allowance::DEFAULT;
        let value = allowance.evaluate(&program(&source), &Bindings::new());
        assert_eq!(value.expect("it is decided").as_bool(), Some(true));
    }
}
