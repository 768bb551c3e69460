//! Swaps uids in a body while it streams, whatever its encoding: one is as long as the other.
//!
//! What is replaced stands where a uid stands in a reference to an object:
//!
//! ```text
//!   JSON             "uid":"4e5b…"    "uid": "4e5b…"
//!   managedFields    k:{\"uid\":\"4e5b…
//!   protobuf         0x22 0x24 4e5b…         field 4 of OwnerReference and ObjectReference, 36 bytes
//! ```
//!
//! A label, or a text that mentions a uid, stays as it is. `metadata.uid` of what the spoke holds is never the hub's, nor
//! that of a mirror: kinds that have one are not relayed.
//!
//! # Invariants
//! - Bytes are held back only while they are the beginning of what might be replaced, at most [`HELD_BYTES_MAX`]; an event
//!   of a watch ends with none of these, so none waits for the next.
//! - No byte is added, dropped or moved.
//!
//! Source: `k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto` (`OwnerReference`), `k8s.io/api/core/v1/generated.proto`
//! (`ObjectReference`).

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use uuid::Uuid;

use super::{Pairs, canonical};

/// The length of a uid.
const UID_BYTES: usize = 36;
/// What stands before the `"` before a uid in JSON.
const BEFORE: [&[u8]; 3] = [b"\"uid\":", b"\"uid\": ", b"k:{\\\"uid\\\":\\"];
/// The longest of [`BEFORE`].
const BEFORE_BYTES_MAX: usize = 12;
/// The length of a uid in protobuf.
const LENGTH: u8 = 0x24;
/// What is held back at most: a tag, a length, and all but the last byte of a uid.
const HELD_BYTES_MAX: usize = UID_BYTES + 1;

/// Which uid stands for which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::relay) enum Direction {
    /// What goes to a spoke names mirrors.
    ToSpoke,
    /// What comes from it names instances of the hub.
    FromSpoke,
}

/// Swaps uids in pieces of bytes.
#[derive(Debug)]
struct Swap {
    pairs: Arc<Pairs>,
    direction: Direction,
    /// What was passed on last, as far as it tells what the next bytes are.
    before: Vec<u8>,
    /// What is not passed on yet.
    held: Vec<u8>,
}

/// A body in which uids are swapped, or one that passes as it is.
#[derive(Debug)]
pub(in crate::relay) struct Swapped<B> {
    body: B,
    swap: Option<Swap>,
    has_ended: bool,
}

/// What stands at a place of a body.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// Nothing to be replaced.
    Nothing,
    /// A uid, which begins so far behind the place.
    Uid(usize),
    /// The beginning of what might be one.
    Beginning,
}

// === impl Swap ===

impl Swap {
    /// Takes the next bytes and returns what can be passed on.
    fn pass(&mut self, piece: &[u8]) -> Bytes {
        let known = self.before.len();
        let mut bytes = std::mem::take(&mut self.before);
        bytes.append(&mut self.held);
        bytes.extend_from_slice(piece);
        let mut end = bytes.len();
        let mut at = known;
        while let Some(offset) = bytes.get(at..).and_then(|rest| memchr::memchr(b'"', rest)) {
            let quote = at + offset;
            at = quote + 1;
            match find(&bytes, quote) {
                Found::Nothing => {}
                Found::Uid(offset) => {
                    let start = quote + offset;
                    if let Some(place) = bytes.get_mut(start..start + UID_BYTES) {
                        self.replace(place);
                        at = start + UID_BYTES;
                    }
                }
                Found::Beginning => {
                    end = quote;
                    break;
                }
            }
        }
        self.held = bytes.split_off(end);
        debug_assert!(self.held.len() <= HELD_BYTES_MAX, "bytes are held back");
        let from = end.saturating_sub(BEFORE_BYTES_MAX);
        self.before = bytes.get(from..).unwrap_or_default().to_vec();
        let mut bytes = Bytes::from(bytes);
        bytes.split_off(known)
    }

    fn replace(&self, place: &mut [u8]) {
        let Some(uid) = canonical(place) else {
            return;
        };
        let known = self.pairs.known.read();
        let pairs = match self.direction {
            Direction::ToSpoke => &known.mirrors,
            Direction::FromSpoke => &known.instances,
        };
        if let Some(other) = pairs.get(&uid) {
            let mut buffer = Uuid::encode_buffer();
            let text = other.hyphenated().encode_lower(&mut buffer);
            place.copy_from_slice(text.as_bytes());
        }
    }
}

/// Returns what stands at a quote, which is the tag of field 4 in protobuf too.
fn find(bytes: &[u8], quote: usize) -> Found {
    let is_json = bytes
        .get(..quote)
        .is_some_and(|before| BEFORE.iter().any(|it| before.ends_with(it)));
    let behind = bytes.get(quote + 1..).unwrap_or_default();
    let (offset, text) = match behind {
        text if is_json => (1, text),
        [] => return Found::Beginning,
        [LENGTH, text @ ..] => (2, text),
        _ => return Found::Nothing,
    };
    let text = text.get(..UID_BYTES).unwrap_or(text);
    let is_uid = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-');
    if !text.iter().all(is_uid) {
        Found::Nothing
    } else if text.len() < UID_BYTES {
        Found::Beginning
    } else {
        Found::Uid(offset)
    }
}

// === impl Swapped ===

impl<B> Swapped<B> {
    /// Swaps the uids of a cluster in a body, as they are known while it streams. Without `pairs` the body stays as it is.
    pub(in crate::relay) fn new(body: B, pairs: Option<Arc<Pairs>>, direction: Direction) -> Self {
        let swap = pairs.map(|pairs| Swap {
            pairs,
            direction,
            before: Vec::new(),
            held: Vec::new(),
        });
        Self {
            body,
            swap,
            has_ended: false,
        }
    }

    fn held_bytes(&self) -> usize {
        self.swap.as_ref().map_or(0, |swap| swap.held.len())
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Swapped<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let Self {
            body,
            swap: Some(swap),
            has_ended,
        } = &mut *self
        else {
            return Pin::new(&mut self.body).poll_frame(cx);
        };
        if *has_ended {
            return Poll::Ready(None);
        }
        loop {
            let Some(frame) = ready!(Pin::new(&mut *body).poll_frame(cx)) else {
                *has_ended = true;
                let rest = std::mem::take(&mut swap.held);
                let rest = (!rest.is_empty()).then(|| Ok(Frame::data(Bytes::from(rest))));
                return Poll::Ready(rest);
            };
            match frame.map(Frame::into_data) {
                Ok(Ok(piece)) => {
                    let passed = swap.pass(&piece);
                    if !passed.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(passed))));
                    }
                }
                // Trailers, which are not relayed.
                Ok(Err(_trailers)) => {}
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.has_ended || self.body.is_end_stream() && self.held_bytes() == 0
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, held) = (self.body.size_hint(), self.held_bytes() as u64);
        let mut hint = SizeHint::new();
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper.saturating_add(held));
        }
        hint.set_lower(inner.lower().saturating_add(held));
        hint
    }
}
