//! One condition of a Spoke, before it is known since when it has its status.

/// One condition.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) type_: &'static str,
    pub(super) status: &'static str,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

// === impl Row ===

impl Row {
    pub(super) fn new(
        type_: &'static str,
        status: &'static str,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            type_,
            status,
            reason,
            message: message.into(),
        }
    }
}
