//! The body of a request, received and in memory for as long as it is worked on.
//!
//! A body counts for its user from before it is read, and the tree that it will be parsed into from before it is parsed:
//! 3 MiB of `{"a":0}` become 250 MiB of tree, and many at once must wait for each other instead of taking the hub down.
//! Small bodies are bounded by the count of requests and do not wait.

use std::ops::Deref;

use api::growth::{TREE_BYTES_MAX, TooLarge, tree_bytes_of_json, tree_bytes_of_text};
use bytes::Bytes;
use http_body::Body as _;

use super::limits::{BODY_BYTES_MAX, too_much_memory};
use crate::refusal::Refusal;
use crate::request::RequestContext;
use crate::request::share::Memory;
use crate::respond::RequestBody;

/// A body that was read. Keep it until the request is done with what it was parsed into.
#[derive(Debug)]
pub(crate) struct Received {
    bytes: Bytes,
    _body: Memory,
    _tree: Memory,
}

/// Reads the body of a request.
///
/// # Errors
/// As [`RequestBody::read`]; 413 for a body that is small enough, but not what it would become; 429 where the user has so
/// much of that under way that it did not come to its turn.
pub(crate) async fn receive(
    context: &RequestContext,
    body: RequestBody,
) -> Result<Received, Refusal> {
    let deadline = context.deadline;
    let Some(share) = &context.share else {
        let bytes = body.read(BODY_BYTES_MAX, deadline).await?;
        return Ok(Received {
            bytes,
            _body: Memory::default(),
            _tree: Memory::default(),
        });
    };
    let announced = body.size_hint().exact().unwrap_or(BODY_BYTES_MAX as u64);
    let held = share.body(announced, deadline).await?;
    let bytes = body.read(BODY_BYTES_MAX, deadline).await?;
    let tree = share.tree(tree_bytes(&bytes)?, deadline).await?;
    Ok(Received {
        bytes,
        _body: held,
        _tree: tree,
    })
}

/// The memory of the tree that a body becomes. The quick answer may be far too high where texts hold braces; before a
/// body is refused it is looked at closely.
fn tree_bytes(bytes: &[u8]) -> Result<u64, Refusal> {
    let quick = tree_bytes_of_text(bytes);
    if quick <= TREE_BYTES_MAX {
        return Ok(quick);
    }
    let close = tree_bytes_of_json(bytes);
    if close <= TREE_BYTES_MAX {
        return Ok(close);
    }
    let bytes_max = TREE_BYTES_MAX;
    Err(too_much_memory(TooLarge { bytes_max }))
}

// === impl Received ===

impl Deref for Received {
    type Target = Bytes;

    fn deref(&self) -> &Bytes {
        &self.bytes
    }
}
