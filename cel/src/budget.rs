//! A bound on the work of one evaluation.
//!
//! One step is about one evaluated node, one visited element, or ten bytes of text made or read. Steps are our own unit.
//! They protect the process, and bound the expressions of kro, which counts nothing.
//!
//! Beside them the evaluator counts what cel-go counts, in the cost units of Kubernetes ([`crate::price`]): that decides
//! which expressions Kubernetes ends.
//!
//! Memory has a bound of its own: ten million steps are half a second, and ten million elements of
//! a list are 320 MB. What grows is charged before it grows, and never given back, so that all
//! results on the way count together.

use crate::error::Failure;

/// How many steps an evaluation may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Budget {
    steps: u64,
    bytes: u64,
    cost_max: u64,
    cost: u64,
    cost_of_variables: u64,
}

/// What is left while an evaluation runs.
#[derive(Debug)]
pub(crate) struct Meter {
    left: u64,
    bytes_left: u64,
    /// What the evaluation may cost in units of Kubernetes, and has cost.
    cost_max: u64,
    cost: u64,
    /// What variables have cost that are expressions of their own.
    cost_of_variables: u64,
}

/// Text costs a tenth of a step per byte, as in cel-go (`StringTraversalCostFactor`).
const BYTES_PER_STEP: usize = 10;
/// Memory of one evaluation: forty times the largest object.
const BYTES_MAX: u64 = 64 * 1024 * 1024;
/// An element of a list.
const ELEMENT_BYTES: u64 = 32;

// === impl Budget ===

impl Budget {
    /// Makes a budget of so many steps, with the memory that any evaluation may take and no limit of cost.
    pub const fn steps(steps: u64) -> Self {
        Self {
            steps,
            bytes: BYTES_MAX,
            cost_max: u64::MAX,
            cost: 0,
            cost_of_variables: 0,
        }
    }

    /// The same steps, with a limit of cost in units of Kubernetes. Each variable that is an expression has that limit for
    /// itself.
    #[must_use]
    pub const fn with_cost(self, cost_max: u64) -> Self {
        Self { cost_max, ..self }
    }

    /// The same steps, with another bound of memory.
    #[must_use]
    pub const fn with_bytes(self, bytes: u64) -> Self {
        Self { bytes, ..self }
    }

    /// The steps that are left.
    pub const fn left(self) -> u64 {
        self.steps
    }

    /// What evaluations within it have cost so far, in units of Kubernetes, without the variables that were evaluated for
    /// them. Of an evaluation that was ended it is more than the limit.
    pub const fn cost(self) -> u64 {
        self.cost
    }

    /// What the variables have cost that are expressions of their own.
    pub const fn cost_of_variables(self) -> u64 {
        self.cost_of_variables
    }
}

impl Default for Budget {
    /// A million steps, and a cost of a million units, the limit of one Kubernetes rule call; well under a second.
    fn default() -> Self {
        Self::steps(1_000_000).with_cost(1_000_000)
    }
}

// === impl Meter ===

impl Meter {
    pub(crate) fn new(budget: Budget) -> Self {
        Self {
            left: budget.steps,
            bytes_left: budget.bytes,
            cost_max: budget.cost_max,
            cost: budget.cost,
            cost_of_variables: budget.cost_of_variables,
        }
    }

    pub(crate) fn rest(&self) -> Budget {
        Budget {
            steps: self.left,
            bytes: self.bytes_left,
            cost_max: self.cost_max,
            cost: self.cost,
            cost_of_variables: self.cost_of_variables,
        }
    }

    /// Adds units of Kubernetes, or fails for good where they are more than the limit.
    #[inline]
    pub(crate) fn pay(&mut self, units: u64) -> Result<(), Failure> {
        self.cost = self.cost.saturating_add(units);
        if self.cost > self.cost_max {
            return Err(Failure::cost());
        }
        Ok(())
    }

    /// Gives units back, or fails for good where they are more than were paid: in Go, the sum runs over then.
    pub(crate) fn refund(&mut self, units: u64) -> Result<(), Failure> {
        match self.cost.checked_sub(units) {
            Some(cost) => self.cost = cost,
            None => self.pay(u64::MAX)?,
        }
        Ok(())
    }

    /// What the evaluation has cost so far.
    pub(crate) fn cost(&self) -> u64 {
        self.cost
    }

    /// Begins a variable that is an expression of its own; returns what to end it with.
    pub(crate) fn begin_variable(&mut self) -> u64 {
        std::mem::take(&mut self.cost)
    }

    /// Ends a variable; returns whether it was ended because it costs too much.
    pub(crate) fn end_variable(&mut self, outer: u64) -> bool {
        let own = std::mem::replace(&mut self.cost, outer);
        self.cost_of_variables = self.cost_of_variables.saturating_add(own);
        own > self.cost_max
    }

    /// Takes `steps`, or fails for good.
    #[inline]
    pub(crate) fn charge(&mut self, steps: u64) -> Result<(), Failure> {
        if let Some(left) = self.left.checked_sub(steps) {
            self.left = left;
            Ok(())
        } else {
            self.left = 0;
            Err(Failure::cost())
        }
    }

    /// Takes memory, or fails for good.
    #[inline]
    pub(crate) fn grow(&mut self, bytes: u64) -> Result<(), Failure> {
        if let Some(left) = self.bytes_left.checked_sub(bytes) {
            self.bytes_left = left;
            Ok(())
        } else {
            self.bytes_left = 0;
            Err(Failure::cost())
        }
    }

    /// Takes a step per item of a list that is about to be made, and its memory.
    pub(crate) fn charge_items(&mut self, count: usize) -> Result<(), Failure> {
        self.charge(count as u64)?;
        self.grow((count as u64).saturating_mul(ELEMENT_BYTES))
    }

    /// Takes the steps for reading so many bytes.
    pub(crate) fn read_bytes(&mut self, bytes: usize) -> Result<(), Failure> {
        self.charge((bytes / BYTES_PER_STEP) as u64 + 1)
    }

    /// Takes the steps and the memory for making so many bytes.
    pub(crate) fn charge_bytes(&mut self, bytes: usize) -> Result<(), Failure> {
        self.read_bytes(bytes)?;
        self.grow(bytes as u64)
    }

    /// Takes the steps for comparing each of `left` items with each of `right`.
    pub(crate) fn charge_product(&mut self, left: usize, right: usize) -> Result<(), Failure> {
        self.charge((left as u64).saturating_mul(right as u64).saturating_add(1))
    }
}
