//! gzip for large answers: lists of thousands of objects shrink tenfold, and clients ask for it.
//!
//! The pieces are compressed as the connection asks for them, so a list of 100 MB is never held whole and never keeps an
//! executor thread for long.
//!
//! Source: `apiserver/pkg/endpoints/handlers/responsewriters/writers.go`.

use std::io::Write;

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{HeaderValue, header};
use http_body::Body as _;

use super::{Body, Response, body::Pieces};

/// Below this a body is not worth it.
const BODY_BYTES_MIN: u64 = 128 * 1024;
/// How much is compressed in one go: about half a millisecond.
const PIECE_BYTES: usize = 64 * 1024;

/// Compresses the body of `response` if it is one piece or a list, large, and not compressed.
pub(super) fn large_body(response: &mut Response) {
    if response.headers().contains_key(header::CONTENT_ENCODING) || response.body().is_stream() {
        return;
    }
    // A list of unknown length is made of many objects.
    if response
        .body()
        .size_hint()
        .exact()
        .is_some_and(|bytes| bytes <= BODY_BYTES_MIN)
    {
        return;
    }
    let pieces = match response.body_mut().take().into_pieces(PIECE_BYTES) {
        Ok(pieces) => pieces,
        Err(body) => {
            response.body_mut().replace(body);
            return;
        }
    };
    let compressed = Body::chunks(Gzip::new(pieces), None);
    response.body_mut().replace(compressed);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    headers.remove(header::CONTENT_LENGTH);
}

/// Compresses pieces one by one.
struct Gzip {
    pieces: Pieces,
    encoder: Option<GzEncoder<Vec<u8>>>,
}

// === impl Gzip ===

impl Gzip {
    fn new(pieces: Pieces) -> Self {
        Self {
            pieces,
            encoder: Some(GzEncoder::new(Vec::new(), Compression::new(1))),
        }
    }
}

impl Iterator for Gzip {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        loop {
            let encoder = self.encoder.as_mut()?;
            let Some(piece) = self.pieces.next() else {
                let rest = self.encoder.take()?.finish();
                return Some(rest.expect("writing to memory cannot fail").into());
            };
            encoder
                .write_all(&piece)
                .expect("writing to memory cannot fail");
            let compressed = std::mem::take(encoder.get_mut());
            if !compressed.is_empty() {
                return Some(compressed.into());
            }
        }
    }
}
