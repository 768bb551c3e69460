//! A batch of writes as a transaction of etcd, and what an answer means. Pure.
//!
//! # Invariants
//! - Every transaction is fenced: it happens only while the store's identity is the one that this
//!   replica has read. So nothing is written into an epoch that the writer does not know of.
//! - It happens only while its ticket is there, and leaves its mark on it ([`super::fates`]).
//! - A refused transaction writes nothing, so it uses no revision.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;

use super::envelope::{Envelope, Sealing, encode_last};
use super::failure::Failure;
use super::fates::{Mark, Ticket};
use super::layout::Layout;
use super::wire::{
    Compare, DeleteRangeRequest, KeyValue, PutRequest, RangeRequest, RequestOp, ResponseOp,
    TxnRequest, TxnResponse, compare, end_of, request_op, response_op,
};
use crate::entry::Entry;
use crate::error::Error;
use crate::key::{KEY_BYTES_MAX, Key, KeyRange};
use crate::keyring::KeyringError;
use crate::revision::Revision;
use crate::store::{
    BATCH_BYTES_MAX, BATCH_COUNT_MAX, Change, Expect, STAMP_BYTES, VALUE_BYTES_MAX, Write,
};

/// The identity that a replica has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fence {
    pub(crate) epoch: u64,
    /// The revision of etcd that wrote the identity.
    pub(crate) written: i64,
}

// === impl Fence ===

impl Fence {
    /// The revision of the store that is this one of etcd.
    pub(crate) fn revision(self, number: i64) -> Revision {
        let start = Revision::start_of_epoch(self.epoch).map_or(0, |start| start.0);
        Revision(start.saturating_add(u64::try_from(number).unwrap_or(0)))
    }

    /// The revision of etcd that is this one of the store; one that never is, for another epoch.
    pub(crate) fn number(self, revision: Revision) -> i64 {
        if revision.epoch() != self.epoch {
            return i64::MAX;
        }
        i64::try_from(revision.number()).unwrap_or(i64::MAX)
    }
}

/// Checks what can be checked without asking etcd.
pub(crate) fn check(writes: &[Write]) -> Result<(), Error> {
    bounded("batch (writes)", writes.len(), BATCH_COUNT_MAX)?;
    let malformed = |reason| Err(Error::Malformed { reason });
    let is_kept = |write: &Write| matches!(write.change, Change::Keep);
    if writes.iter().all(is_kept) {
        return malformed("the batch is empty");
    }
    let mut keys = HashSet::with_capacity(writes.len());
    let mut batch_bytes = 0_usize;
    for write in writes {
        if !keys.insert(write.key.as_bytes()) {
            return malformed("a key is written twice in one batch");
        }
        let (value, stamp) = match &write.change {
            Change::Delete { last: None } | Change::Keep => (&[][..], None),
            Change::Put { value, stamp, .. }
            | Change::Delete {
                last: Some((value, stamp)),
            } => (value.as_slice(), *stamp),
        };
        bounded("key", write.key.len(), KEY_BYTES_MAX)?;
        bounded("value", value.len(), VALUE_BYTES_MAX)?;
        if matches!(write.change, Change::Delete { .. }) && write.expect == Expect::Absent {
            return malformed("what is absent cannot be deleted");
        }
        if is_kept(write) && !matches!(write.expect, Expect::Revision(_)) {
            return malformed("what is kept has a revision");
        }
        let end = stamp.map(|stamp| stamp.saturating_add(STAMP_BYTES));
        if end.is_some_and(|end| end > value.len()) {
            return malformed("the stamp does not fit into the value");
        }
        batch_bytes = batch_bytes.saturating_add(write.key.len().saturating_add(value.len()));
    }
    bounded("batch", batch_bytes, BATCH_BYTES_MAX)
}

fn bounded(what: &'static str, size: usize, limit: usize) -> Result<(), Error> {
    if size > limit {
        return Err(Error::TooLarge { what, size, limit });
    }
    Ok(())
}

/// Lays a batch out.
pub(crate) fn request(
    layout: &Layout,
    fence: Fence,
    (ticket, mark): (&Ticket, Mark),
    writes: &[Write],
    sealing: Option<&Sealing>,
) -> Result<TxnRequest, Error> {
    let identity = layout.store();
    let drawn = Holds::CreatedAt(ticket.created);
    let mut request = TxnRequest {
        compare: vec![
            compare(&identity, Holds::At(fence.written)),
            compare(&ticket.key, drawn),
        ],
        success: vec![put(&ticket.key, mark.encode())],
        failure: vec![read(&identity), read(&ticket.key)],
    };
    let mut last_states = Vec::new();
    let seal = |source| Error::Durability {
        source: Arc::new(source),
    };
    for write in writes {
        let key = layout.record(&write.key);
        if let Some(holds) = condition(write, fence) {
            request.compare.push(compare(&key, holds));
        }
        request.failure.push(read(&key));
        request
            .success
            .extend(put_of(layout, write, sealing).map_err(seal)?);
        if let Change::Delete { last } = &write.change {
            request.success.push(delete(&key));
            if let Some((value, stamp)) = last {
                let bytes = envelope(value, *stamp, 0)
                    .encode(&write.key, sealing)
                    .map_err(seal)?;
                last_states.push((write.key.as_bytes(), bytes));
            }
        }
    }
    if !last_states.is_empty() {
        let bytes = encode_last(&last_states);
        request.success.push(put(&layout.last(), bytes));
    }
    Ok(request)
}

/// The put of a write; `None` for a deletion, and for what is kept.
pub(crate) fn put_of(
    layout: &Layout,
    write: &Write,
    sealing: Option<&Sealing>,
) -> Result<Option<RequestOp>, KeyringError> {
    let Change::Put { value, stamp, tag } = &write.change else {
        return Ok(None);
    };
    let bytes = envelope(value, *stamp, *tag).encode(&write.key, sealing)?;
    Ok(Some(put(&layout.record(&write.key), bytes)))
}

/// Draws a ticket: in the epoch that this replica knows of.
pub(crate) fn draw(layout: &Layout, fence: Fence, ticket: &Key) -> TxnRequest {
    TxnRequest {
        compare: vec![compare(&layout.store(), Holds::At(fence.written))],
        success: vec![put(ticket, Mark::NONE.encode())],
        failure: Vec::new(),
    }
}

/// Takes tickets away. An etcd without space allows it, as it writes nothing.
pub(crate) fn void(tickets: &KeyRange) -> TxnRequest {
    let delete = DeleteRangeRequest {
        key: Bytes::copy_from_slice(&tickets.start),
        range_end: end_of(tickets),
    };
    TxnRequest {
        success: vec![operation(request_op::Request::RequestDeleteRange(delete))],
        ..TxnRequest::default()
    }
}

/// Takes a ticket away, unless something was written under it since.
pub(crate) fn void_idle(ticket: &Key, written: i64) -> TxnRequest {
    TxnRequest {
        compare: vec![compare(ticket, Holds::At(written))],
        success: vec![delete(ticket)],
        failure: Vec::new(),
    }
}

/// Whether a transaction was refused because its ticket is not there any more.
pub(crate) fn lost_its_ticket(ticket: &Ticket, answer: &TxnResponse) -> bool {
    let found = answer.responses.get(1).and_then(state);
    found.is_none_or(|kv| kv.create_revision != ticket.created)
}

/// What a refused transaction is told to its caller.
///
/// `at` finds the state of a key at the revision of the refusal.
pub(crate) fn refusal(
    fence: Fence,
    writes: &[Write],
    answer: &TxnResponse,
    at: impl Fn(&Key) -> Option<Entry>,
) -> Error {
    let mut found = answer.responses.iter().map(state);
    let unavailable = |failure| Error::Unavailable {
        source: Arc::new(failure),
    };
    let identity = found.next().flatten();
    if identity.is_none_or(|kv| kv.mod_revision != fence.written) {
        return unavailable(Failure::EpochChanged);
    }
    for (write, state) in writes.iter().zip(found.skip(1)) {
        let key = || write.key.clone();
        let conflict = || Error::Conflict {
            key: key(),
            current: at(&write.key),
        };
        match (write.expect, state) {
            (Expect::Absent, Some(_)) => return conflict(),
            (Expect::Revision(_), None) => return Error::NotFound { key: key() },
            (Expect::Revision(wanted), Some(kv)) if kv.mod_revision != fence.number(wanted) => {
                return conflict();
            }
            (Expect::Any, None) if matches!(write.change, Change::Delete { .. }) => {
                return Error::NotFound { key: key() };
            }
            (Expect::Absent | Expect::Revision(_) | Expect::Any, _) => {}
        }
    }
    unavailable(Failure::Protocol {
        what: "a transaction",
        reason: "a refusal without a reason",
    })
}

#[derive(Clone, Copy, Debug)]
enum Holds {
    Present,
    Absent,
    At(i64),
    CreatedAt(i64),
}

fn condition(write: &Write, fence: Fence) -> Option<Holds> {
    match write.expect {
        Expect::Absent => Some(Holds::Absent),
        Expect::Revision(revision) => Some(Holds::At(fence.number(revision))),
        Expect::Any => matches!(write.change, Change::Delete { .. }).then_some(Holds::Present),
    }
}

fn compare(key: &Key, holds: Holds) -> Compare {
    use compare::{CompareResult, CompareTarget, TargetUnion};
    let (result, target, union) = match holds {
        Holds::Present => (
            CompareResult::Greater,
            CompareTarget::Create,
            TargetUnion::CreateRevision(0),
        ),
        Holds::Absent => (
            CompareResult::Equal,
            CompareTarget::Create,
            TargetUnion::CreateRevision(0),
        ),
        Holds::At(revision) => (
            CompareResult::Equal,
            CompareTarget::Mod,
            TargetUnion::ModRevision(revision),
        ),
        Holds::CreatedAt(revision) => (
            CompareResult::Equal,
            CompareTarget::Create,
            TargetUnion::CreateRevision(revision),
        ),
    };
    Compare {
        result: result.into(),
        target: target.into(),
        key: Bytes::copy_from_slice(key),
        target_union: Some(union),
    }
}

fn envelope(value: &[u8], stamp: Option<usize>, tag: u64) -> Envelope<'_> {
    Envelope {
        tag,
        stamp,
        value: Cow::Borrowed(value),
    }
}

/// A read of a key without its value.
fn read(key: &Key) -> RequestOp {
    let range = RangeRequest {
        keys_only: true,
        ..RangeRequest::of(key)
    };
    operation(request_op::Request::RequestRange(range))
}

/// Gives a key a value.
pub(crate) fn put(key: &Key, value: Vec<u8>) -> RequestOp {
    let put = PutRequest {
        key: Bytes::copy_from_slice(key),
        value: value.into(),
    };
    operation(request_op::Request::RequestPut(put))
}

fn delete(key: &Key) -> RequestOp {
    let delete = DeleteRangeRequest {
        key: Bytes::copy_from_slice(key),
        range_end: Bytes::new(),
    };
    operation(request_op::Request::RequestDeleteRange(delete))
}

fn operation(request: request_op::Request) -> RequestOp {
    RequestOp {
        request: Some(request),
    }
}

fn state(answer: &ResponseOp) -> Option<&KeyValue> {
    match answer.response.as_ref()? {
        response_op::Response::ResponseRange(range) => range.kvs.first(),
        _ => None,
    }
}

/// A transaction that writes one key of our own, if nobody has written it since.
pub(crate) fn swap(key: &Key, written: Option<i64>, value: Vec<u8>) -> TxnRequest {
    let holds = written.map_or(Holds::Absent, Holds::At);
    TxnRequest {
        compare: vec![compare(key, holds)],
        success: vec![put(key, value)],
        failure: vec![operation(request_op::Request::RequestRange(
            RangeRequest::of(key),
        ))],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FENCE: Fence = Fence {
        epoch: 101,
        written: 5,
    };

    #[test]
    fn a_revision_of_another_epoch_is_nobodys() {
        let revision = FENCE.revision(77);
        assert_eq!((revision.epoch(), revision.number()), (101, 77));
        assert_eq!(FENCE.number(revision), 77);
        let before = Fence {
            epoch: 100,
            ..FENCE
        };
        assert_eq!(FENCE.number(before.revision(77)), i64::MAX);
    }

    fn ticket(layout: &Layout) -> Ticket {
        Ticket {
            key: layout.ticket("p", 1),
            created: 7,
        }
    }

    #[test]
    fn every_transaction_is_fenced_and_leaves_its_mark() {
        let layout = Layout::new("/w");
        let ticket = ticket(&layout);
        let marking = (&ticket, Mark(9));
        let request = request(&layout, FENCE, marking, &[Write::put("/a", "1")], None).unwrap();
        let [fence, drawn] = request.compare.as_slice() else {
            unreachable!("{request:?}");
        };
        assert_eq!(fence.key, layout.store().as_bytes());
        assert_eq!(
            fence.target_union,
            Some(compare::TargetUnion::ModRevision(5))
        );
        assert_eq!(drawn.key, ticket.key.as_bytes());
        assert_eq!(
            drawn.target_union,
            Some(compare::TargetUnion::CreateRevision(7))
        );
        assert_eq!(request.success[0], put(&ticket.key, Mark(9).encode()));
    }

    #[test]
    fn last_states_of_a_batch_go_into_one_key() {
        let layout = Layout::new("/w");
        let gone = |key: &str| Write {
            change: Change::Delete {
                last: Some((b"last".to_vec(), None)),
            },
            ..Write::delete(key)
        };
        let writes = [gone("/a"), Write::delete("/b"), gone("/c")];
        let ticket = ticket(&layout);
        let request = request(&layout, FENCE, (&ticket, Mark(1)), &writes, None).unwrap();
        assert_eq!(request.success.len(), 5, "deletions, last states, the mark");
        assert_eq!(request.compare.len(), 5, "each is there, and the fences");
    }
}
