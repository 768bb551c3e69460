//! Splits a stream of chunks into lines.
//!
//! **Invariant:** a line is delivered only with its end; what a broken stream leaves is dropped.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use bytes::{Buf as _, Bytes, BytesMut};

/// How long a line may be. Objects have up to 1.5 MiB in etcd, and JSON can be several times as long as protobuf.
const LINE_BYTES_MAX: usize = 32 * 1024 * 1024;

/// A line that has no end in sight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a line is longer than {LINE_BYTES_MAX} bytes")]
pub(crate) struct LineTooLongError;

/// The chunks that have come and are not delivered yet.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    buffer: BytesMut,
    /// How much of the buffer is known to have no end of line.
    searched: usize,
}

// === impl Lines ===

impl Lines {
    /// Takes a chunk.
    pub(crate) fn push(&mut self, chunk: &[u8]) -> Result<(), LineTooLongError> {
        self.buffer.extend_from_slice(chunk);
        if self.searched > LINE_BYTES_MAX {
            Err(LineTooLongError)
        } else {
            Ok(())
        }
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

    #[test]
    fn lines_come_out_whole_however_they_are_cut() {
        let text = b"{\"a\":1}\n\n{\"b\":2}\r\n{\"unfinished\":";
        for size in 1..text.len() {
            let mut lines = Lines::default();
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
        let mut lines = Lines::default();
        let chunk = vec![b'a'; LINE_BYTES_MAX / 2 + 1];
        let mut refused = false;
        for _ in 0..4 {
            refused |= lines.push(&chunk).is_err();
            assert_eq!(lines.next_line(), None);
        }
        assert!(refused);
    }
}
