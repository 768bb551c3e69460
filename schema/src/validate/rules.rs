//! Validation rules; compiled at first use.

use serde_json::Value;

use super::Findings;
use crate::structural::Schema;

/// The compiled rules of a node.
#[derive(Debug)]
pub(crate) struct CompiledRules {}

pub(super) fn run(_object: &Value, _schema: &Schema, _old: Option<&Value>, _findings: &mut Findings) {}
