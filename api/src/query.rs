//! The query of a request and the options that it carries.
//!
//! Decoding says 400 to what cannot be read and 422, on the kind of the options, to what contradicts itself, as
//! Kubernetes does. Unknown parameters are ignored.
//!
//! Source: `apimachinery/pkg/apis/meta/{v1,internalversion}/validation`, `apimachinery/pkg/runtime/conversion.go`.

mod delete;
mod list;
mod raw;
mod write;

pub use delete::{DeleteOptions, Preconditions, Propagation};
pub use list::{GetOptions, ListOptions, ResourceVersionMatch, parse_resource_version};
pub use raw::Query;
pub use write::{CreateOptions, FieldValidation, PatchKind, PatchOptions, UpdateOptions};

use crate::field::FieldError;
use crate::group::GroupKind;
use crate::status::Status;

/// Refuses options of a kind, if there is anything against them.
fn refuse(kind: &str, errors: Vec<FieldError>) -> Result<(), Status> {
    if errors.is_empty() {
        Ok(())
    } else {
        Err(Status::invalid(
            &GroupKind::new("meta.k8s.io", kind),
            "",
            errors,
        ))
    }
}

#[cfg(test)]
mod tests;
