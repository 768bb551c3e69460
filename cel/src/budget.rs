//! A bound on the work of one evaluation.
//!
//! One step is about one evaluated node, one visited element, or ten bytes of text made or read.
//! Steps bound memory as well as time, because everything that grows is charged before it grows.
//! Steps are our own unit: they are not the cost units of Kubernetes, only of the same order.

use crate::error::Failure;

/// How many steps an evaluation may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Budget {
    steps: u64,
}

/// The steps that are left while an evaluation runs.
#[derive(Debug)]
pub(crate) struct Meter {
    left: u64,
}

/// Text costs a tenth of a step per byte, as in cel-go (`StringTraversalCostFactor`).
const BYTES_PER_STEP: usize = 10;

// === impl Budget ===

impl Budget {
    /// Makes a budget of so many steps.
    pub const fn steps(steps: u64) -> Self {
        Self { steps }
    }

    /// The steps that are left.
    pub const fn left(self) -> u64 {
        self.steps
    }
}

impl Default for Budget {
    /// A million steps, the limit of one Kubernetes rule call; well under a second.
    fn default() -> Self {
        Self::steps(1_000_000)
    }
}

// === impl Meter ===

impl Meter {
    pub(crate) fn new(budget: Budget) -> Self {
        Self { left: budget.steps }
    }

    pub(crate) fn rest(&self) -> Budget {
        Budget { steps: self.left }
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

    /// Takes a step per item.
    pub(crate) fn charge_items(&mut self, count: usize) -> Result<(), Failure> {
        self.charge(count as u64)
    }

    /// Takes the steps for reading or making so many bytes.
    pub(crate) fn charge_bytes(&mut self, bytes: usize) -> Result<(), Failure> {
        self.charge((bytes / BYTES_PER_STEP) as u64 + 1)
    }

    /// Takes the steps for comparing each of `left` items with each of `right`.
    pub(crate) fn charge_product(&mut self, left: usize, right: usize) -> Result<(), Failure> {
        self.charge((left as u64).saturating_mul(right as u64).saturating_add(1))
    }
}
