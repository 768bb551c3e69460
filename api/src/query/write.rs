//! Options of create, update and patch.

use serde_json::Value;

use super::{Query, refuse};
use crate::field::{FieldError, FieldPath};
use crate::status::Status;
use crate::validation::validate_field_manager;

/// What becomes of unknown and duplicate fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FieldValidation {
    /// They are dropped in silence.
    Ignore,
    /// They are dropped with a warning.
    #[default]
    Warn,
    /// The request is refused.
    Strict,
}

/// Options of create.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreateOptions {
    /// Whether nothing is stored.
    pub dry_run: bool,
    /// Who writes; empty where the query does not say.
    pub field_manager: String,
    /// What becomes of unknown and duplicate fields.
    pub field_validation: FieldValidation,
}

/// Options of update.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpdateOptions {
    /// Whether nothing is stored.
    pub dry_run: bool,
    /// Who writes; empty where the query does not say.
    pub field_manager: String,
    /// What becomes of unknown and duplicate fields.
    pub field_validation: FieldValidation,
}

/// Options of patch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchOptions {
    /// Whether nothing is stored.
    pub dry_run: bool,
    /// Who writes; an apply must say, otherwise it may be empty.
    pub field_manager: String,
    /// What becomes of unknown and duplicate fields.
    pub field_validation: FieldValidation,
    /// Whether an apply takes fields away from other managers.
    pub force: bool,
}

/// The forms of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PatchKind {
    /// A list of operations (RFC 6902).
    Json,
    /// A partial object (RFC 7396).
    Merge,
    /// A partial object merged by the schema of a built-in kind.
    Strategic,
    /// A server-side apply.
    Apply,
}

// === impl CreateOptions ===

impl CreateOptions {
    /// Reads and judges the options of a query.
    pub fn from_query(query: &Query) -> Result<Self, Status> {
        let common = Common::from_query(query, "CreateOptions", Vec::new())?;
        let Common {
            dry_run,
            field_manager,
            field_validation,
        } = common;
        Ok(Self {
            dry_run,
            field_manager,
            field_validation,
        })
    }
}

// === impl UpdateOptions ===

impl UpdateOptions {
    /// Reads and judges the options of a query.
    pub fn from_query(query: &Query) -> Result<Self, Status> {
        let common = Common::from_query(query, "UpdateOptions", Vec::new())?;
        let Common {
            dry_run,
            field_manager,
            field_validation,
        } = common;
        Ok(Self {
            dry_run,
            field_manager,
            field_validation,
        })
    }
}

// === impl PatchOptions ===

impl PatchOptions {
    /// Reads and judges the options of a query for a form of patch.
    pub fn from_query(query: &Query, kind: PatchKind) -> Result<Self, Status> {
        let force = query.optional_flag("force");
        let mut errors = Vec::new();
        if kind == PatchKind::Apply {
            if query.text("fieldManager").is_empty() {
                let path = FieldPath::new("fieldManager");
                errors.push(FieldError::required(&path, "is required for apply patch"));
            }
        } else if force.is_some() {
            let path = FieldPath::new("force");
            errors.push(FieldError::forbidden(
                &path,
                "may not be specified for non-apply patch",
            ));
        }
        let common = Common::from_query(query, "PatchOptions", errors)?;
        let Common {
            dry_run,
            field_manager,
            field_validation,
        } = common;
        Ok(Self {
            dry_run,
            field_manager,
            field_validation,
            force: force.unwrap_or(false),
        })
    }
}

// === impl PatchKind ===

impl PatchKind {
    /// Names the media type of the body.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Apply => "application/apply-patch+yaml",
        }
    }
}

struct Common {
    dry_run: bool,
    field_manager: String,
    field_validation: FieldValidation,
}

// === impl Common ===

impl Common {
    fn from_query(query: &Query, kind: &str, mut errors: Vec<FieldError>) -> Result<Self, Status> {
        let field_manager = query.text("fieldManager").to_owned();
        errors.extend(validate_field_manager(
            &field_manager,
            &FieldPath::new("fieldManager"),
        ));
        let dry_run: Vec<&str> = query.all("dryRun").collect();
        errors.extend(validate_dry_run(&dry_run));
        let text = query.text("fieldValidation");
        let field_validation = match text {
            "Ignore" => FieldValidation::Ignore,
            "" | "Warn" => FieldValidation::Warn,
            "Strict" => FieldValidation::Strict,
            _ => {
                errors.push(FieldError::not_supported(
                    &FieldPath::new("fieldValidation"),
                    text,
                    ["", "Ignore", "Strict", "Warn"],
                ));
                FieldValidation::default()
            }
        };
        refuse(kind, errors)?;
        Ok(Self {
            dry_run: !dry_run.is_empty(),
            field_manager,
            field_validation,
        })
    }
}

/// Judges the values of `dryRun`; only `All` is known.
pub(super) fn validate_dry_run(values: &[&str]) -> Option<FieldError> {
    if values.iter().all(|&value| value == "All") {
        return None;
    }
    let path = FieldPath::new("dryRun");
    Some(FieldError::not_supported(
        &path,
        Value::from(values),
        ["All"],
    ))
}
