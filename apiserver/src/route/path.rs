//! Decodes a path, once.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::borrow::Cow;

/// Why a path cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Error {
    /// A `%` without two hexadecimal digits after it.
    #[error("invalid escape in the path of the request")]
    Escape,
    /// The decoded bytes are no text.
    #[error("the path of the request is not valid UTF-8")]
    Encoding,
    /// `.` or `..` stands between two slashes.
    #[error("the path of the request must not have . or .. segments")]
    DotSegment,
}

/// Decodes percent escapes. A path without any is not copied.
pub(super) fn decode(raw: &str) -> Result<Cow<'_, str>, Error> {
    let decoded = if raw.contains('%') {
        Cow::Owned(unescape(raw)?)
    } else {
        Cow::Borrowed(raw)
    };
    if decoded.contains("/.") && decoded.split('/').any(|part| matches!(part, "." | "..")) {
        return Err(Error::DotSegment);
    }
    Ok(decoded)
}

fn unescape(raw: &str) -> Result<String, Error> {
    let mut decoded = Vec::with_capacity(raw.len());
    let mut bytes = raw.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let high = bytes.next().and_then(hex_digit).ok_or(Error::Escape)?;
        let low = bytes.next().and_then(hex_digit).ok_or(Error::Escape)?;
        decoded.push(high << 4 | low);
    }
    String::from_utf8(decoded).map_err(|_utf8| Error::Encoding)
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte)
        .to_digit(16)
        .and_then(|digit| u8::try_from(digit).ok())
}
