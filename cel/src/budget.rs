//! A bound on the work of one evaluation.
//!
//! One step is about one evaluated node, one visited element, or ten bytes of text made or read.
//! Steps are our own unit: they are not the cost units of Kubernetes, only of the same order.
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
}

/// The steps that are left while an evaluation runs.
#[derive(Debug)]
pub(crate) struct Meter {
    left: u64,
    bytes_left: u64,
}

/// Text costs a tenth of a step per byte, as in cel-go (`StringTraversalCostFactor`).
const BYTES_PER_STEP: usize = 10;
/// Memory of one evaluation: forty times the largest object.
const BYTES_MAX: u64 = 64 * 1024 * 1024;
/// An element of a list.
const ELEMENT_BYTES: u64 = 32;

// === impl Budget ===

impl Budget {
    /// Makes a budget of so many steps, with the memory that any evaluation may take.
    pub const fn steps(steps: u64) -> Self {
        Self {
            steps,
            bytes: BYTES_MAX,
        }
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
        Self {
            left: budget.steps,
            bytes_left: budget.bytes,
        }
    }

    pub(crate) fn rest(&self) -> Budget {
        Budget {
            steps: self.left,
            bytes: self.bytes_left,
        }
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
