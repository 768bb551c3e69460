//! Splits a stream of chunks into lines.
//!
//! **Invariant:** a line is delivered only with its end; what a broken stream leaves is dropped.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::sync::Arc;

use bytes::{Buf as _, Bytes, BytesMut};

use crate::bounds::{Budget, Charge};
use crate::error::BoundError;

/// What a line has beside its object: its type.
const ENVELOPE_BYTES: usize = 64;

/// The chunks that have come and are not delivered yet.
#[derive(Debug)]
pub(crate) struct Lines {
    object_bytes_max: usize,
    /// Stands for the buffer.
    charge: Charge,
    buffer: BytesMut,
    /// How much of the buffer is known to have no end of line.
    searched: usize,
}

// === impl Lines ===

impl Lines {
    /// Begins a stream of a cluster.
    pub(crate) fn new(budget: &Arc<Budget>) -> Result<Self, BoundError> {
        Ok(Self {
            object_bytes_max: budget.bounds().object_bytes_max,
            charge: budget.take(0)?,
            buffer: BytesMut::new(),
            searched: 0,
        })
    }

    /// Takes a chunk.
    pub(crate) fn push(&mut self, chunk: &[u8]) -> Result<(), BoundError> {
        let bytes_max = self.object_bytes_max;
        if self.searched > bytes_max.saturating_add(ENVELOPE_BYTES) {
            return Err(BoundError::Object { bytes_max });
        }
        self.charge.shrink_to(self.buffer.len());
        self.charge.grow(chunk.len())?;
        self.buffer.extend_from_slice(chunk);
        Ok(())
    }

    /// Delivers the next line without its end, if it has come; blank ones are left out.
    pub(crate) fn next_line(&mut self) -> Option<Bytes> {
        loop {
            let unsearched = self.buffer.get(self.searched..)?;
            let Some(position) = memchr::memchr(b'\n', unsearched) else {
                self.searched = self.buffer.len();
                return None;
            };
            let line = self.buffer.split_to(self.searched.checked_add(position)?);
            self.buffer.advance(1);
            self.searched = 0;
            if !line.iter().all(u8::is_ascii_whitespace) {
                return Some(line.freeze());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::Bounds;

    #[test]
    fn lines_come_out_whole_however_they_are_cut() {
        let text = b"{\"a\":1}\n\n{\"b\":2}\r\n{\"unfinished\":";
        for size in 1..text.len() {
            let mut lines = Lines::new(&Arc::default()).unwrap();
            let mut got = Vec::new();
            for chunk in text.chunks(size) {
                lines.push(chunk).unwrap();
                while let Some(line) = lines.next_line() {
                    got.push(line);
                }
            }
            assert_eq!(got, [&b"{\"a\":1}"[..], b"{\"b\":2}\r"], "chunks of {size}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_refused() {
        let budget = Arc::new(Budget::new(Bounds::SPOKE));
        let bytes_max = Bounds::SPOKE.object_bytes_max;
        let mut lines = Lines::new(&budget).unwrap();
        let chunk = vec![b'a'; bytes_max / 2 + 100];
        let mut refused = None;
        for _ in 0..4 {
            refused = refused.or(lines.push(&chunk).err());
            assert_eq!(lines.next_line(), None);
        }
        assert_eq!(refused, Some(BoundError::Object { bytes_max }));
        assert!(budget.used_bytes() > bytes_max, "what waits is counted");
        drop(lines);
        assert_eq!(budget.used_bytes(), 0);
    }
}
