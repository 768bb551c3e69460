//! The messages of etcd's API. `generated` is made from `proto/etcd.proto` by `tests/etcd_messages.rs`, which keeps the two the same:
//! who builds the hub needs no compiler of protobuf.

use crate::key::{Key, KeyRange};

pub(crate) use self::generated::*;

#[expect(
    unreachable_pub,
    clippy::derive_partial_eq_without_eq,
    clippy::empty_structs_with_brackets,
    clippy::enum_variant_names,
    clippy::trivially_copy_pass_by_ref,
    reason = "it is generated"
)]
#[rustfmt::skip]
mod generated;

// === impl RangeRequest ===

impl RangeRequest {
    /// Asks for one key.
    pub(crate) fn of(key: &Key) -> Self {
        Self {
            key: bytes::Bytes::copy_from_slice(key),
            ..Self::default()
        }
    }
}

// === impl WatchCreateRequest ===

impl WatchCreateRequest {
    /// Asks for every change of a range from a revision on.
    pub(crate) fn of(range: &KeyRange, start_revision: i64) -> Self {
        Self {
            key: bytes::Bytes::copy_from_slice(&range.start),
            range_end: end_of(range),
            start_revision,
            progress_notify: true,
            fragment: true,
        }
    }
}

/// The end of a range as etcd writes it; a range without end ends with one zero byte.
pub(crate) fn end_of(range: &KeyRange) -> bytes::Bytes {
    range.end.as_ref().map_or_else(
        || bytes::Bytes::from_static(b"\0"),
        |end| bytes::Bytes::copy_from_slice(end),
    )
}
