//! The limits of bodies and objects, and the refusals of what exceeds them.

use api::Status;
use api::growth::TooLarge;
use api::status::StatusReason;

use crate::refusal::Refusal;

/// The largest object: etcd's limit, which clients know.
pub(super) const OBJECT_BYTES_MAX: usize = 1_572_864;
/// The largest body of a request. Source: apiserver/pkg/server/config.go.
pub(super) const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;
/// Levels of the deepest object: what is stored must be read again by parsers that stop at 128 levels, also as an item of a
/// list or in an event of a watch.
pub(super) const OBJECT_DEPTH_MAX: usize = 120;

/// The refusal of an object that could be stored but not be read again.
pub(super) fn too_deep() -> Refusal {
    let text =
        format!("Request entity too large: the object has more than {OBJECT_DEPTH_MAX} levels");
    Status::failure(413, StatusReason::RequestEntityTooLarge, text).into()
}

/// The refusal of an object whose tree would take too much memory.
pub(super) fn too_much_memory(error: TooLarge) -> Refusal {
    let text = format!("Request entity too large: {error}");
    Status::failure(413, StatusReason::RequestEntityTooLarge, text).into()
}
