//! What the walk over the nodes keeps of each node.

use std::sync::Arc;

use serde_json::Value;

use super::{NodeReason, NodeState};

/// What a client says of an object without a name, before it asks any server.
pub(super) const NAMELESS: &str = "name is required";

/// What is known of a node while the plan is made.
#[derive(Clone, Debug, Default)]
pub(super) struct Run {
    /// Whether it is not wanted, once that was asked.
    pub(super) ignored: Option<Result<bool, Stop>>,
    /// How many objects it wants, once that is known.
    pub(super) desired_count: Option<usize>,
    /// What was seen of them, once that is known.
    pub(super) observed: Option<Vec<Arc<Value>>>,
}

/// Why a node goes no further.
#[derive(Clone, Debug)]
pub(super) enum Stop {
    /// Something is not there yet.
    Pending(String),
    /// One of its objects is being deleted.
    Deleting(String),
    /// It failed.
    Failed(String),
}

/// How a node is, with the reason.
pub(super) type Outcome = (NodeState, NodeReason, Option<String>);
