//! Inspection: what an expression names, before there are types.
//!
//! Source: kro `pkg/cel/ast/inspector.go`, `pkg/graph/builder.go` inspectExpressionRestricted.

use std::collections::BTreeSet;
use std::rc::Rc;

use dialect::words;
use expressions::Reader;

use crate::scalar::Source;

/// The function that leaves a field out.
pub(super) const OMIT: &str = "omit";

/// Parses expressions and tells what they name, without types.
pub(super) struct Inspector {
    reader: Rc<Reader>,
    known: BTreeSet<String>,
}

/// What an expression names.
#[derive(Debug, Default)]
pub(super) struct Inspection {
    /// Ids, `schema`, `each` and `runtime`.
    pub(super) known: Vec<String>,
    /// Everything else.
    pub(super) unknown: Vec<String>,
    unknown_functions: Vec<String>,
    pub(super) uses_omit: bool,
}

// === impl Inspector ===

impl Inspector {
    pub(super) fn new<S: AsRef<str>>(reader: Rc<Reader>, ids: &[S]) -> Self {
        let ids = ids
            .iter()
            .map(AsRef::as_ref)
            .chain(["schema", "each", "runtime"]);
        Self {
            reader,
            known: ids.map(str::to_owned).collect(),
        }
    }

    /// Inspects an expression.
    pub(super) fn inspect(&self, source: &Source) -> Result<Inspection, String> {
        let inspection = self
            .reader
            .inspect(&source.text)
            .map_err(|error| error.message)?;
        let is_omit = |name: &String| name == OMIT;
        let uses_omit = inspection.uses.functions.iter().any(is_omit)
            || inspection.unknown_functions.iter().any(is_omit);
        let (known, unknown) = inspection
            .uses
            .identifiers
            .into_iter()
            .partition(|name| self.known.contains(name));
        let mut unknown_functions = inspection.unknown_functions;
        // A member function that nobody has is the checker's to refuse.
        unknown_functions.retain(|name| name != OMIT && is_called_alone(name, &source.text));
        Ok(Inspection {
            known,
            unknown,
            unknown_functions,
            uses_omit,
        })
    }

    /// Inspects an expression that may name only certain things.
    pub(super) fn inspect_restricted(
        &self,
        source: &Source,
        allowed: &dyn Fn(&str) -> bool,
    ) -> Result<Inspection, String> {
        let inspection = self
            .inspect(source)
            .map_err(|error| format!("parse error: {error}"))?;
        if let Some(name) = inspection.known.iter().find(|name| !allowed(name)) {
            return Err(format!("references unknown identifiers: [{name}]"));
        }
        if !inspection.unknown.is_empty() {
            return Err(format!(
                "references unknown identifiers: {}",
                words(&inspection.unknown)
            ));
        }
        inspection.check_functions()?;
        if inspection.uses_omit {
            return Err("omit() can only be used in resource template expressions".to_owned());
        }
        Ok(inspection)
    }
}

/// Returns whether a function is called otherwise than as a member (`x.f()`) anywhere.
fn is_called_alone(function: &str, text: &str) -> bool {
    text.match_indices(function).any(|(start, _)| {
        let before = text.get(..start).unwrap_or_default().trim_end();
        let behind = text
            .get(start + function.len()..)
            .unwrap_or_default()
            .trim_start();
        behind.starts_with('(')
            && !before.ends_with(|c: char| c == '.' || c == '_' || c.is_alphanumeric())
    })
}

// === impl Inspection ===

impl Inspection {
    pub(super) fn check_functions(&self) -> Result<(), String> {
        if self.unknown_functions.is_empty() {
            return Ok(());
        }
        // Go prints the list of one-field structs that kro keeps.
        let functions: Vec<String> = self
            .unknown_functions
            .iter()
            .map(|name| format!("{{{name}}}"))
            .collect();
        Err(format!("uses unknown functions: {}", words(&functions)))
    }
}
